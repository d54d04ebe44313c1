"""Texts without a form of their own, listings and tables: their ends, what matters, and a sample.

Source: skills and saver, section 14 (generic, tree, table); faults W7, W12, W14, W20.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import evolve

from ctxalgebra.compaction.lines_rules import DEFAULT, Rules, capped, choose, first_and_spread
from ctxalgebra.compaction.lines_selection import Kept, Selection, folded, select, untouched
from ctxalgebra.compaction.lines_text import read
from ctxalgebra.compaction.signals import WARN, WHITE, strip_ansi, units

__all__ = ["compress_generic", "compress_table", "compress_tree"]

_W = f"[{WHITE}]"
_POINT = re.compile(rf"{_W}{{0,3}}(?:#{{1,6}}{_W}|[-*+]{_W}|[0-9]+[.)]{_W})")
_NAME = re.compile(r"package\.json|README|src/|test/|tests/|\.gitignore", re.ASCII | re.IGNORECASE)
_FEW_LINES, _FEW_UNITS = 16, 1600
_LONG, _ROOM = 520, (450, 40)


def _sample(
    cap: int, rules: Rules, classes: Sequence[Sequence[int]], rest: Sequence[int]
) -> list[int]:
    """Take the classes, and fill up from the rest."""
    if rules.by_place:
        return first_and_spread(cap, (place for each in classes for place in each), rest)
    return choose(cap, *classes, rest)


def _ends(places: Sequence[int], first: int, last: int) -> list[int]:
    return [*places[:first], *places[max(0, len(places) - last) :]]


def _room(line: str) -> tuple[int, int] | None:
    return _ROOM if units(line) > _LONG else None


def compress_generic(
    text: str, query: str, pressure: int, *, cap: int | None = None, rules: Rules = DEFAULT
) -> Selection | None:
    r"""Keep the ends of a text, errors, warnings, what is asked for, headings, and a sample.

    Lines of more than 520 UTF-16 units are shown by their first 450 and their last 40.

    Args:
        text: the output, with line ends of LF.
        query: what is looked for.
        pressure: 0 to 3; how much more than usual is kept.
        cap: how many lines are kept without pressure; 100 if None.
        rules: how lines are judged.

    >>> text = "\n".join(["say"] * 200 + ["ValueError: no"] + ["say so"] * 200)
    >>> [kept.at for kept in compress_generic(text, "", 0, cap=14).kept]
    [(1,), (2,), (3,), (4,), (5,), (6,), (7,), (8,), (201,), (397,), (398,), (399,), (400,), (401,)]
    """
    plain = strip_ansi(text)
    lines = read(plain, query, rules)
    total, size = len(lines.all), units(plain)
    if total < _FEW_LINES and size < _FEW_UNITS:
        return None
    most = capped(100 if cap is None else cap, 220, pressure)
    classes = [
        _ends(range(total), 8, 5),
        lines.where(lines.errors),
        lines.where(lines.scores),
        lines.having(WARN),
        [place for place, line in enumerate(lines.all) if _POINT.match(line)],
    ]
    places = _sample(most, rules, classes, lines.written)
    if len(places) * 10 < total * 9:
        shown = [(place, lines.all[place]) for place in places]
        kept = [Kept(line, (place + 1,), _room(line)) for place, line in shown]
        return select("generic", lines, kept)
    kept = folded(lines, range(total))
    if not rules.whole_lines:
        kept = [evolve(item, room=_room(item.text)) for item in kept]
    left = sum(units(item.shown) for item in kept) + len(kept) - 1
    return select("generic", lines, kept) if left * 10 < size * 9 else None


def compress_tree(
    text: str, query: str, pressure: int, *, rules: Rules = DEFAULT
) -> Selection | None:
    r"""Keep the ends of a listing, errors, what is asked for, well-known names, and a sample.

    Args:
        text: the output, with line ends of LF.
        query: what is looked for.
        pressure: 0 to 3; how much more than usual is kept.
        rules: how lines are judged.

    >>> text = "\n".join(f"file{n}.txt" for n in range(400))
    >>> selection = compress_tree(text, "", 0)
    >>> len(selection.kept), selection.omitted
    (100, 300)
    """
    lines = read(strip_ansi(text), query, rules)
    written = lines.written
    if len(written) < 40:
        return untouched("tree", lines)
    classes = [
        _ends(written, 12, 5),
        lines.where(lines.errors),
        lines.where(lines.scores),
        [place for place in written if _NAME.search(lines.all[place])],
    ]
    places = _sample(capped(100, 180, pressure), rules, classes, written)
    return select("tree", lines, [Kept(lines.all[at], (at + 1,)) for at in places])


def compress_table(
    text: str, query: str, pressure: int, *, rules: Rules = DEFAULT
) -> Selection | None:
    r"""Keep the head of a table, its end, errors, what is asked for, and a sample of its rows.

    Args:
        text: the output, with line ends of LF.
        query: what is looked for.
        pressure: 0 to 3; how much more than usual is kept.
        rules: how lines are judged.

    >>> text = "\n".join(f"| {n} | ok |" for n in range(400))
    >>> selection = compress_table(text, "", 0)
    >>> len(selection.kept), selection.omitted
    (50, 350)
    """
    lines = read(text if rules.coloured else strip_ansi(text), query, rules)
    written = lines.written
    if len(written) < 18:
        return untouched("table", lines)
    classes = [_ends(written, 3, 2), lines.where(lines.errors), lines.where(lines.scores)]
    places = _sample(capped(50, 120, pressure), rules, classes, written)
    if len(places) * 10 >= len(written) * 9:
        return untouched("table", lines)
    return select("table", lines, [Kept(lines.all[at], (at + 1,)) for at in places])
