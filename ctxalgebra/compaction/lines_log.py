"""Logs: lines of one pattern once, errors and what the query asks for before all else.

Source: skills and saver, section 14 (log, error); faults W4, W5, W6.
"""

from __future__ import annotations

from attrs import define

from ctxalgebra.compaction.lines_rules import DEFAULT, Rules, capped, choose
from ctxalgebra.compaction.lines_sample import compress_generic
from ctxalgebra.compaction.lines_selection import Kept, Mark, Selection, bounded, folded, select
from ctxalgebra.compaction.lines_text import Lines, read
from ctxalgebra.compaction.signals import (
    PROGRESS,
    WHITE,
    normalize_log_pattern,
    spread,
    strip_ansi,
    units,
)

__all__ = ["compress_error", "compress_log"]

_MOST = 240
_FEW_LINES, _FEW_UNITS = 12, 800


@define
class _Entry:
    """Gather the lines of one pattern."""

    text: str
    places: list[int]
    error: bool
    score: int
    alike: bool = False


def compress_log(
    text: str, query: str, pressure: int, *, errors_only: bool = False, rules: Rules = DEFAULT
) -> Selection | None:
    r"""Show each pattern of a log once, with the number of its lines.

    Args:
        text: the output, with line ends of LF.
        query: what is looked for.
        pressure: 0 to 3; how much more than usual is kept.
        errors_only: keep errors and what is around them, if that is less.
        rules: how lines are judged.

    >>> text = "\n".join(f"INFO request {n} served" for n in range(1000, 1100))
    >>> [kept.marked for kept in compress_log(text, "", 0).kept]
    ['INFO request 1000 served  ×100 alike']
    """
    plain = strip_ansi(text)
    lines = read(plain, query, rules)
    if len(lines.all) < _FEW_LINES and units(plain) < _FEW_UNITS:
        return None
    filled = sum(line != "" for line in lines.all)
    if errors_only:
        focused = _around_errors(lines)
        if focused and len(focused) * 100 < filled * 85:
            return select("error", lines, folded(lines, focused), focused=True)
    entries, progress = _entries(lines, rules)
    if not entries and not progress:
        return None
    cap = capped(180 if errors_only else 100, _MOST, pressure)
    if len(entries) * 100 >= filled * 92 and not progress:
        return compress_generic(plain, query, pressure, cap=cap, rules=rules)
    chosen = _chosen(entries, cap, rules)
    left = [entry for at, entry in enumerate(entries) if at not in chosen]
    kept = [
        Kept(entry.text, tuple(place + 1 for place in entry.places), alike=entry.alike)
        for at, entry in enumerate(entries)
        if at in chosen
    ]
    marks: list[Mark] = []
    if progress:
        marks.append(Mark(len(kept), progress, kind="progress"))
    if left:
        count = sum(len(entry.places) for entry in left)
        errors = sum(len(entry.places) for entry in left if entry.error)
        marks.append(Mark(len(kept), count, errors, "patterns", len(left)))
    return Selection(
        "error" if errors_only else "log",
        len(lines.all),
        bounded(lines, kept),
        tuple(marks),
        sum(lines.blank),
        progress=progress,
    )


def compress_error(
    text: str, query: str, pressure: int, *, rules: Rules = DEFAULT
) -> Selection | None:
    r"""Keep errors and what is around them; where that is nearly all, do as `compress_log`.

    Args:
        text: the output, with line ends of LF.
        query: what is looked for.
        pressure: 0 to 3; how much more than usual is kept.
        rules: how lines are judged.

    >>> text = "\n".join(["said"] * 50 + ["ValueError: no"] + ["said so"] * 50)
    >>> [kept.shown for kept in compress_error(text, "", 0).kept]
    ['said  ×11', 'ValueError: no', 'said so  ×22']
    """
    return compress_log(text, query, pressure, errors_only=True, rules=rules)


def _around_errors(lines: Lines) -> list[int]:
    total = len(lines.all)
    near = {*range(min(8, total)), *range(max(0, total - 16), total)}
    for place in lines.where(lines.errors):
        near.update(range(max(0, place - 3), min(total, place + 7)))
    return [place for place in sorted(near) if lines.all[place]]


def _entries(lines: Lines, rules: Rules) -> tuple[list[_Entry], int]:
    """Gather lines by pattern, and count those of progress that leave."""
    entries: dict[object, _Entry] = {}
    progress = 0
    tells = PROGRESS.each(lines.all, lines.low)
    for place, line in enumerate(lines.all):
        if lines.blank[place]:
            continue
        error, score = lines.errors[place], lines.scores[place]
        asked = score and not rules.relevant_progress
        if tells[place] and not error and not asked:
            progress += 1
            continue
        shown = line.rstrip(WHITE)
        if rules.merge_different:
            key: object = normalize_log_pattern(line, stamp=rules.stamp)
        elif error:
            stamp = rules.stamp.match(shown)
            key = shown[stamp.end() :] if stamp else shown
        else:
            key = (normalize_log_pattern(line, stamp=rules.stamp), score)
        entry = entries.get(key)
        if entry is None:
            entries[key] = _Entry(shown, [place], error, score)
        else:
            entry.places.append(place)
            entry.alike = entry.alike or entry.text != shown
    return list(entries.values()), progress


def _chosen(entries: list[_Entry], cap: int, rules: Rules) -> set[int]:
    places = range(len(entries))
    errors = [at for at in places if entries[at].error]
    asked = sorted(
        (at for at in places if entries[at].score and not entries[at].error),
        key=lambda at: -entries[at].score,
    )
    # The original keeps all errors, whatever the cap.
    chosen = set(errors if rules.by_place else choose(cap, errors))
    chosen.update(asked[: max(0, cap - len(chosen))])
    rest = [at for at in places if at not in chosen]
    room = max(0, cap - len(chosen))
    chosen.update(rest if len(rest) <= room else spread(rest, room))
    return chosen
