"""Which outputs are compacted at all, and which results are kept.

Source: skills and saver, section 12.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LARGEST", "SAVED", "SHORTEST", "keeps"]

SHORTEST: Final = 800
"""Shorter outputs pass."""

LARGEST: Final = 16 * 2**20
"""So much does the store of originals hold; longer outputs pass."""

SAVED: Final = 120
"""A result saves at least so much."""

_SHARE = (23, 25)


def keeps(before: int, after: int) -> bool:
    """Say whether a result is short enough: under 0.92 of the original, and 120 shorter.

    >>> keeps(1000, 880), keeps(1000, 881), keeps(10_000, 9_200), keeps(10_000, 9_199)
    (True, False, False, True)
    """
    return after * _SHARE[1] < before * _SHARE[0] and before - after >= SAVED
