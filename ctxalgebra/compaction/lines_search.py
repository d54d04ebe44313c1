"""Results of a search: some matches of each file.

Source: skills and saver, section 14 (search); faults W12, W14.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from ctxalgebra.compaction.lines_rules import DEFAULT, Rules, capped, scaled
from ctxalgebra.compaction.lines_sample import compress_generic
from ctxalgebra.compaction.lines_selection import Kept, Mark, Selection, untouched
from ctxalgebra.compaction.lines_text import Lines, read
from ctxalgebra.compaction.signals import WHITE, spread, strip_ansi, units

__all__ = ["compress_search"]

_LONG, _ROOM = 420, (360, 40)
_OTHERS = 20
_ENDS = re.compile(r"[\r\u2028\u2029]")
_PLACE = r"[:(][0-9]+(?::[0-9]+|\))?"
_FOUND = re.compile(rf"{_PLACE}[:{WHITE}-]")
_BEFORE_END = re.compile(rf"{_PLACE}\Z")


def _prefix(line: str) -> str:
    """Give what stands in front of the number of the line; nothing if that is no match."""
    ends = _ENDS.findall(line)
    if not ends:
        found = _FOUND.search(line)
    elif len(ends) == 1:
        # A line end of another kind is white space, so it may follow the number, and nothing else.
        found = _BEFORE_END.search(line, 0, line.index(ends[0]))
    else:
        found = None
    return line[: found.start()].strip(WHITE) if found else ""


def _of_group(lines: Lines, places: Sequence[int], most: int) -> list[int]:
    """Choose the first two, the last, errors, what is asked for, and a sample."""
    chosen = {*places[:2], places[-1]}
    striking = [
        place
        for place in places
        if place not in chosen and (lines.errors[place] or lines.scores[place])
    ]
    striking.sort(key=lambda place: (not lines.errors[place], -lines.scores[place]))
    chosen.update(striking[: most - len(chosen)])
    rest = [place for place in places if place not in chosen]
    room = most - len(chosen)
    chosen.update(rest if len(rest) <= room else spread(rest, room))
    return sorted(chosen)


def _shown(lines: Lines, places: Sequence[int]) -> list[Kept]:
    named = [(place, lines.all[place]) for place in places]
    return [
        Kept(line, (place + 1,), _ROOM if units(line) > _LONG else None) for place, line in named
    ]


def compress_search(
    text: str, query: str, pressure: int, *, rules: Rules = DEFAULT
) -> Selection | None:
    r"""Group matches by what stands in front of their line number, and keep some of each group.

    With fewer than two groups it is a text like any other.

    Args:
        text: the output, with line ends of LF.
        query: what is looked for.
        pressure: 0 to 3; how much more than usual is kept.
        rules: how lines are judged.

    >>> text = "\n".join(f"{name}:{n}: hit" for name in ("a.c", "b.c") for n in range(20))
    >>> selection = compress_search(text, "", 0)
    >>> [(mark.name, mark.of, mark.lines) for mark in selection.marks]
    [('a.c', 20, 4), ('b.c', 20, 4)]
    """
    plain = strip_ansi(text)
    lines = read(plain, query, rules)
    written = lines.written
    if len(written) < 20:
        return untouched("generic", lines)
    groups: dict[str, list[int]] = {}
    for place in written:
        groups.setdefault(_prefix(lines.all[place]), []).append(place)
    others = groups.pop("", [])
    if len(groups) < 2:
        cap = scaled(110, pressure)
        return compress_generic(plain, query, pressure, cap=cap, rules=rules)
    most = capped(16, 40, pressure)
    kept: list[Kept] = []
    marks: list[Mark] = []

    def show(name: str, places: Sequence[int], chosen: Sequence[int]) -> None:
        shown = set(chosen)
        errors = sum(lines.errors[place] for place in places if place not in shown)
        left = len(places) - len(chosen)
        kind: Literal["group", "other"] = "group" if name else "other"
        marks.append(Mark(len(kept), left, errors, kind, len(places), name))
        kept.extend(_shown(lines, chosen))

    for name, places in groups.items():
        show(name, places, _of_group(lines, places, most))
    if others:
        striking = [place for place in others if lines.errors[place] or lines.scores[place]]
        show("", others, striking[:_OTHERS])
    blank = len(lines.all) - len(written)
    return Selection("search", len(lines.all), tuple(kept), tuple(marks), blank)
