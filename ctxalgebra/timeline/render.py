"""Texts of views: for the model as they are, for a terminal with everything escaped that it obeys.

One entry takes one line, whatever stands in it, and the text of an entry that is shown in full is
indented, so that no text can pass for another row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ctxalgebra.errors import InvalidArgument, escaped
from ctxalgebra.model.checks import mistyped
from ctxalgebra.timeline.texts import counted, plainly
from ctxalgebra.timeline.values import (
    ActiveView,
    CheckpointView,
    NodeView,
    Row,
    SearchView,
    TreeView,
    View,
)

__all__ = ["render", "to_terminal"]

LEAST = 1_000
"""The smallest room for a text, in code points."""

_FOOT = 80
"""Room for the last line, which says what did not fit."""

_ENDED = {
    "limit": "at the limit",
    "scan": "after as many entries as one step looks at",
    "characters": "after as much text as one step reads",
    "stopped": "since it was stopped",
}


def _row(row: Row) -> str:
    marks = [
        *(["HEAD"] if row.head else ()),
        *(["root"] if row.root else ()),
        *(["archived"] if row.archived else ()),
        *([plainly("left as" if row.left else "checkpoint", row.label)] if row.label else ()),
    ]
    marked = f" ({', '.join(marks)})" if marks else ""
    return f"#{row.number}{marked} [{row.title}] {row.text}".rstrip()


def _active(view: ActiveView) -> Iterator[str]:
    if view.next is not None:
        earlier = counted(view.earlier, "earlier entry", "earlier entries")
        yield f"{earlier}; go on with before={view.next}."
    for row in view.rows:
        yield f"{'*' if row.head else '•' if row.label else '|'} {_row(row)}"
    if view.hidden:
        yield f"{counted(view.hidden, 'entry', 'entries')} between them: no conversation."


def _checkpoints(view: CheckpointView) -> Iterator[str]:
    if not view.rows:
        yield "There are no checkpoints."
    for found in view.rows:
        kept = f"{counted(found.messages, 'message')}, {counted(found.tokens, 'token')}"
        notes = f", {counted(found.handoffs, 'handoff')}" if found.handoffs else ""
        yield f"{_row(found.row)} -> keeps {kept}{notes}"
    if len(view.rows) < view.total:
        yield f"{view.total - len(view.rows):,} more are not shown; filter them."


def _search(view: SearchView) -> Iterator[str]:
    found = counted(len(view.rows), "match", "matches")
    yield f"{found} in {counted(view.visited, 'entry', 'entries')}."
    yield from map(_row, view.rows)
    if view.next is not None:
        yield f"Ended {_ENDED[view.ended]}; search on with before={view.next}."


def _node(view: NodeView) -> Iterator[str]:
    yield from (f"  before: {_row(row)}" for row in view.before)
    yield _row(view.row)
    if view.offset:
        yield f"from character {view.offset:,} of {view.total:,}:"
    # However its lines end, none begins at the margin.
    yield from (f"    {line}" for line in view.text.splitlines())
    if view.next is not None:
        more = counted(view.total - view.next, "more character")
        yield f"{more}; read on with offset={view.next}."
    if view.branches > 1:
        yield f"{view.branches:,} branches begin here."
    yield from (f"  after: {_row(row)}" for row in view.after)


def _tree(view: TreeView) -> Iterator[str]:
    if view.above:
        yield f"{counted(view.above, 'entry', 'entries')} above."
    yield from (f"{shape.rails}{_row(shape.row)}" for shape in view.rows)
    if view.hidden:
        yield f"{counted(view.hidden, 'entry', 'entries')} between them: no conversation."
    if view.deeper:
        yield f"Not shown: what is below {counted(view.deeper, 'row')}."
    if view.omitted:
        yield f"Not shown beside the path: {counted(view.omitted, 'branch', 'branches')}."


def _lines(view: View) -> Iterator[str]:
    match view:
        case ActiveView():
            yield from _active(view)
        case CheckpointView():
            yield from _checkpoints(view)
        case SearchView():
            yield from _search(view)
        case NodeView():
            yield from _node(view)
        case _:
            yield from _tree(view)
    if view.ended == "stopped" and not isinstance(view, SearchView):
        yield f"Ended {_ENDED['stopped']}."


def _fitted(lines: Iterable[str], most: int) -> Iterator[str]:
    """Give lines as long as there is room, and say how many there was none for."""
    left = most - _FOOT
    missing = 0
    for line in lines:
        if missing or len(line) >= left:
            if not missing and left > 1:
                yield f"{line[: left - 2]}…"
            missing += 1
        else:
            left -= len(line) + 1
            yield line
    if missing:
        yield f"… {counted(missing, 'line')} did not fit as a whole; ask for less."


def render(view: View, *, characters: int = 40_000) -> str:
    r"""Write a view as text for the model, never longer than there is room for.

    Control characters stay as they are, except that each entry takes one line.

    Args:
        view: what a view gave.
        characters: room in code points, at least 1,000; see `budget`.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, less room than that.

    >>> from ctxalgebra import Session, record, user
    >>> from ctxalgebra.timeline import active
    >>> print(render(active(record(Session(), user("a\nb"), user("c")))))
    | #0 (root) [user] a b
    * #1 (HEAD) [user] c
    """
    if not isinstance(view, View):  # pyright: ignore[reportUnnecessaryIsInstance] - callers
        raise mistyped(view, "a view", "view")
    if type(characters) is not int or characters < LEAST:
        raise InvalidArgument("invalid-argument", f"at least {LEAST}", field="characters")
    return "\n".join(_fitted(_lines(view), characters))


def to_terminal(text: str) -> str:
    r"""Escape what a terminal would obey, or show in another order; lines and tabs stay.

    >>> print(to_terminal("a\x1b[31mb\r\n\u202ec"))
    a\x1b[31mb
    \u202ec
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join("\t".join(map(escaped, line.split("\t"))) for line in lines)
