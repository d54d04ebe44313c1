"""How a selection is shown: its lines, and a mark with the true count wherever some lack."""

from __future__ import annotations

from ctxalgebra.compaction.lines_selection import Kept, Mark, Selection, omitted

__all__ = ["render"]


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _said(mark: Mark) -> str:
    words = f", {mark.errors} with error words" if mark.errors else ""
    lines = _count(mark.lines, "line")
    match mark.kind:
        case "lines":
            return omitted(mark.lines, mark.errors)
        case "progress":
            return f"… {_count(mark.lines, 'progress line')} omitted …"
        case "patterns":
            return f"… {_count(mark.of, 'more pattern')} omitted ({lines}{words}) …"
        case "group":
            head = f"{mark.name} ({mark.of} {'match' if mark.of == 1 else 'matches'}"
        case _:
            head = f"Other ({_count(mark.of, 'line')}"
    if not mark.lines:
        return f"{head})"
    return f"{head}; showing {mark.of - mark.lines}{words and f'; omitted{words}'})"


def _line(kept: Kept, selection: Selection) -> str:
    return f"{kept.at[0]:>5} | {kept.marked}" if selection.numbered else kept.marked


def render(selection: Selection) -> str:
    r"""Write a selection: a head with the counts, the lines, and a mark wherever some lack.

    Lines that are no longer than their mark stand in its place.

    >>> from ctxalgebra.compaction.lines_rules import DEFAULT
    >>> from ctxalgebra.compaction.lines_selection import folded, select
    >>> from ctxalgebra.compaction.lines_text import read
    >>> lines = read(f"{'a' * 40}\nerror\nb\nb\nc", "", DEFAULT)
    >>> print(render(select("log", lines, folded(lines, [2, 3]))))
    [log: 3 of 5 lines]
    … 2 lines omitted, 1 with error words …
    b  ×2
    c
    """
    short = [kept for mark in selection.marks for kept in mark.instead]
    shown = sum(len(kept.at) for kept in (*selection.kept, *short))
    notes = [
        ", errors and what is around them" if selection.focused else "",
        f"; {_count(selection.passes, 'line')} passing" if selection.passes else "",
    ]
    written = [f"[{selection.strategy}: {shown} of {selection.total} lines{''.join(notes)}]"]
    marks: dict[int, list[Mark]] = {}
    for mark in selection.marks:
        marks.setdefault(mark.before, []).append(mark)
    grouped = False
    for index in range(len(selection.kept) + 1):
        for mark in marks.get(index, ()):
            if mark.instead:
                written += [_line(kept, selection) for kept in mark.instead]
                continue
            written.append(_said(mark))
            grouped = grouped or mark.kind in {"group", "other"}
        if index < len(selection.kept):
            line = _line(selection.kept[index], selection)
            written.append(f"{'  ' if grouped else ''}{line}")
    return "\n".join(written)
