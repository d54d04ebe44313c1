"""The rules by which the filters choose lines and items: ours, and the original's beside them.

`DEFAULT` loses nothing without need. `ORIGINAL` chooses what the original chooses, faults
included, for those who have to match it; also what it leaves out is marked with true counts.
Source: skills and saver, section 14; faults W4 to W8, W14, W20, W27.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from attrs import frozen

from ctxalgebra.compaction.signals import (
    ERROR,
    ERROR_WORDS,
    STAMP,
    STAMP_RUN,
    TERM_ENDS,
    Words,
    spread,
)

__all__ = ["DEFAULT", "ORIGINAL", "Rules", "capped", "choose", "first_and_spread", "scaled"]


@frozen
class Rules:
    """Say how lines are judged and chosen.

    Args:
        error: the words of an error.
        term_ends: characters that no term of the query ends with.
        stamp: the date at the start of a line, which says nothing of its kind.
        merge_different: whether errors, and lines of different relevance, that differ by numbers
            merge as repeats (W4).
        relevant_progress: whether a line of progress leaves though the query asks for it (W6).
        by_place: whether a choice that is too large is cut by place; otherwise by weight (W7, W8).
        whole_lines: whether huge lines are shown whole, unless the filter cuts lines anyway (W20).
        whole_samples: whether all essential items of an array are shown, arrays inside its items
            stay whole, JSON is written over lines, and errors are looked for in items as they are
            written (W14, W20).
        coloured: whether tables and configuration keep terminal sequences, and words that touch
            one are none.
        small_gaps: whether lines are left out whose mark is longer than they are.
    """

    error: Words
    term_ends: str
    stamp: re.Pattern[str]
    merge_different: bool
    relevant_progress: bool
    by_place: bool
    whole_lines: bool
    whole_samples: bool
    coloured: bool
    small_gaps: bool


DEFAULT: Final = Rules(
    error=ERROR,
    term_ends=TERM_ENDS,
    stamp=STAMP,
    merge_different=False,
    relevant_progress=False,
    by_place=False,
    whole_lines=False,
    whole_samples=False,
    coloured=False,
    small_gaps=False,
)
"""Our rules."""

ORIGINAL: Final = Rules(
    error=ERROR_WORDS,
    term_ends="",
    stamp=STAMP_RUN,
    merge_different=True,
    relevant_progress=True,
    by_place=True,
    whole_lines=True,
    whole_samples=True,
    coloured=True,
    small_gaps=True,
)
"""The original's rules."""


def scaled(base: int, pressure: int) -> int:
    """Give a quarter more for each step of pressure, rounded half up.

    >>> [scaled(50, pressure) for pressure in range(4)]
    [50, 63, 75, 88]
    """
    return (base * (4 + pressure) + 2) // 4


def capped(base: int, most: int, pressure: int) -> int:
    """Give how many lines may stay.

    >>> capped(100, 220, 1), capped(200, 220, 1)
    (125, 220)
    """
    return max(0, min(most, scaled(base, pressure)))


def choose(cap: int, *classes: Sequence[int]) -> list[int]:
    """Fill up to a number with classes of places, the weightiest first.

    A class that doesn't fit is thinned out evenly, and nothing of a later one is taken.

    >>> choose(5, [0, 9], [0, 4], range(10))
    [0, 1, 4, 5, 9]
    """
    chosen: set[int] = set()
    for places in classes:
        new = [place for place in dict.fromkeys(places) if place not in chosen]
        room = cap - len(chosen)
        chosen.update(new if len(new) <= room else spread(new, room))
    return sorted(chosen)


def first_and_spread(cap: int, essential: Iterable[int], rest: Iterable[int]) -> list[int]:
    """Take the essential places, fill up from the rest, and keep the first of all (W7).

    >>> first_and_spread(3, [0, 1, 8, 9], []), first_and_spread(3, [9], range(4))
    ([0, 1, 8], [0, 2, 9])
    """
    chosen = set(essential)
    others = [place for place in rest if place not in chosen]
    room = max(0, cap - len(chosen))
    chosen.update(others if len(others) <= room else spread(others, room))
    return sorted(chosen)[:cap]
