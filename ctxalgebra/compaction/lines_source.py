"""Texts that people write for machines: diffs, code and configuration.

Source: skills and saver, section 14 (diff, code, config); faults W7, W13, W14.
"""

from __future__ import annotations

import re

from ctxalgebra.compaction.lines_rules import DEFAULT, Rules, capped, choose
from ctxalgebra.compaction.lines_selection import Kept, Selection, select, untouched
from ctxalgebra.compaction.lines_text import Lines, read
from ctxalgebra.compaction.signals import WHITE, code_signature, strip_ansi, units

__all__ = ["compress_code", "compress_config", "compress_diff"]

_W = f"[{WHITE}]"
_META = (
    "diff --git",
    "index ",
    "--- ",
    "+++ ",
    "@@",
    "rename ",
    "similarity ",
    "Binary files",
    "new file mode",
    "deleted file mode",
)
_REMINDER = re.compile(r"\b(?:TODO|FIXME|HACK|XXX)\b", re.ASCII)
_COMMENT = re.compile(rf"{_W}*(?://|#|/\*|\*|\"\"\"|''')")
_SECTION = re.compile(r"\[[^\]]+\]")
_KEY = re.compile(rf"[-A-Za-z0-9_.]+{_W}*[:=]|-{_W}+[-A-Za-z0-9_.]+{_W}*:")
_LONG, _ROOM = 420, (380, 0)


def _whole(lines: Lines, places: list[int]) -> list[Kept]:
    return [Kept(lines.all[place], (place + 1,)) for place in places]


def _changes(line: str) -> bool:
    return line.startswith(("+", "-")) and not line.startswith(("+++", "---"))


def compress_diff(
    text: str, query: str, pressure: int, *, rules: Rules = DEFAULT
) -> Selection | None:
    r"""Keep the changed lines of a diff, its metadata, and one line around each change.

    Args:
        text: the output, with line ends of LF.
        query: what is looked for.
        pressure: 0 to 3; how much more than usual is kept.
        rules: how lines are judged.

    >>> text = "\n".join(["@@ -1 +1 @@"] + [" a"] * 20 + ["-b", "+c"] + [" d"] * 20)
    >>> [kept.at for kept in compress_diff(text, "", 0).kept]
    [(1,), (21,), (22,), (23,), (24,)]
    """
    lines = read(strip_ansi(text), query, rules)
    total = len(lines.all)
    if total < 30:
        return untouched("diff", lines)
    changed = [place for place, line in enumerate(lines.all) if _changes(line)]
    required = {
        *changed,
        *lines.where(lines.errors),
        *lines.where(lines.scores),
        *(place for place, line in enumerate(lines.all) if line.startswith(_META)),
    }
    beside = {at for place in changed for at in (place - 1, place + 1) if 0 <= at < total}
    room = max(0, capped(220, 360, pressure) - len(required))
    places = sorted({*required, *sorted(beside - required)[:room]})
    if len(places) * 10 >= total * 9:
        return untouched("diff", lines)
    return select("diff", lines, _whole(lines, places))


def compress_code(
    text: str, query: str, pressure: int, *, rules: Rules = DEFAULT
) -> Selection | None:
    r"""Outline a source: its ends, signatures, reminders, errors, and what is asked for.

    Args:
        text: the output, with line ends of LF.
        query: what is looked for.
        pressure: 0 to 3; how much more than usual is kept.
        rules: how lines are judged.

    >>> text = "\n".join(["import x"] + ["  y"] * 30 + ["def f():", "  # why"] + ["  z"] * 30)
    >>> [kept.at[0] for kept in compress_code(text, "", 0).kept if 10 < kept.at[0] < 58]
    [32, 33]
    """
    lines = read(strip_ansi(text), query, rules)
    total = len(lines.all)
    if total < 45:
        return untouched("code", lines)
    ends = [*range(10), *range(total - 5, total)]
    noted = [place for place, line in enumerate(lines.all) if _REMINDER.search(line)]
    signatures = [place for place, line in enumerate(lines.all) if code_signature(line)]
    said = [at + 1 for at in signatures if at + 1 < total and _COMMENT.match(lines.all[at + 1])]
    classes = [ends, lines.where(lines.errors), lines.where(lines.scores), noted, signatures, said]
    places = sorted({place for each in classes for place in each})
    cap = capped(180, 300, pressure)
    if len(places) > cap:
        by_place = [*places[: cap - 20], *places[-20:]]
        places = by_place if rules.by_place else choose(cap, *classes)
    if len(places) * 100 >= total * 86:
        return untouched("code", lines)
    return select("code", lines, _whole(lines, places), numbered=True)


def compress_config(
    text: str, query: str, pressure: int, *, rules: Rules = DEFAULT
) -> Selection | None:
    r"""Keep the sections and keys of a configuration, errors, and what is asked for.

    Lines of more than 420 UTF-16 units are shown by their first 380.

    Args:
        text: the output, with line ends of LF.
        query: what is looked for.
        pressure: 0 to 3; how much more than usual is kept.
        rules: how lines are judged.

    >>> text = "\n".join(["[part]", "key = 1", "free text"] * 20)
    >>> selection = compress_config(text, "", 0)
    >>> len(selection.kept), selection.omitted
    (40, 20)
    """
    text = text if rules.coloured else strip_ansi(text)
    lines = read(text, query, rules)
    if len(lines.all) < 30:
        return untouched("config", lines)
    bare = [line.strip(WHITE) for line in lines.all]
    sections = [place for place, line in enumerate(bare) if _SECTION.match(line)]
    keys = [place for place, line in enumerate(bare) if _KEY.match(line)]
    classes = [lines.where(lines.errors), lines.where(lines.scores), sections, keys]
    cap = capped(110, 180, pressure)
    if rules.by_place:
        places = sorted({place for each in classes for place in each})[:cap]
    else:
        places = choose(cap, *classes)
    kept = [
        Kept(line, (place + 1,), _ROOM if units(line) > _LONG else None)
        for place in places
        for line in [lines.all[place]]
    ]
    selection = select("config", lines, kept)
    left = sum(units(item.shown) for item in kept) + len(kept) - 1
    if not selection.omitted or left * 10 >= units(text) * 9:
        return untouched("config", lines)
    return selection
