"""How a selection is shown: its lines, and a mark with the true count wherever some lack."""

from __future__ import annotations

from ctxalgebra.compaction.lines_selection import Mark, Selection

__all__ = ["render"]


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _said(mark: Mark) -> str:
    words = f", {mark.errors} with error words" if mark.errors else ""
    lines = _count(mark.lines, "line")
    match mark.kind:
        case "lines":
            return f"… {lines} omitted{words} …"
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


def render(selection: Selection) -> str:
    r"""Write a selection: a head with the counts, the lines, and a mark wherever some lack.

    >>> from ctxalgebra.compaction.lines_rules import DEFAULT
    >>> from ctxalgebra.compaction.lines_selection import folded, select
    >>> from ctxalgebra.compaction.lines_text import read
    >>> lines = read("a\nerror\nb\nb", "", DEFAULT)
    >>> print(render(select("log", lines, folded(lines, [2, 3]))))
    [log: 2 of 4 lines]
    … 2 lines omitted, 1 with error words …
    b  ×2
    """
    shown = sum(len(kept.at) for kept in selection.kept)
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
            written.append(_said(mark))
            grouped = grouped or mark.kind in {"group", "other"}
        if index < len(selection.kept):
            kept = selection.kept[index]
            number = f"{kept.at[0]:>5} | " if selection.numbered else ""
            written.append(f"{'  ' if grouped else ''}{number}{kept.marked}")
    return "\n".join(written)
