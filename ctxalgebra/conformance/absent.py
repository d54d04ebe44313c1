"""Operations of the vectors that the library does not have, and why.

The door answers `skipped` to these, and `unknown-operation` to a name that nobody has heard of. An
area that gains an operation takes its name out here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

__all__ = ["ABSENT"]

_NAMES: tuple[tuple[str, str, str], ...] = ()
"""Why, the area, and its operations, with blanks between them; none is absent now."""


def _reasons() -> Iterator[tuple[str, str]]:
    for reason, area, names in _NAMES:
        for name in names.split():
            yield f"{area}.{name}", reason


ABSENT: Mapping[str, str] = MappingProxyType(dict(_reasons()))
"""Names of operations, and why the library lacks each."""
