"""Four views of a session: its path, its checkpoints, one entry, its tree; `search` is the fifth.

Pure: each reads the session and gives data. They cost what they look at, which `visited` counts,
ask `stop` once every 64 entries, and say why they ended.
"""

from __future__ import annotations

from ctxalgebra.checkpoints.provenance import summary_depth
from ctxalgebra.checkpoints.receipts import kept
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.events import travel
from ctxalgebra.model.checks import check_text, check_type
from ctxalgebra.model.session import Node, Session, check_session, find
from ctxalgebra.timeline.children import Children, Stop, halted, nearest
from ctxalgebra.timeline.rows import Rows, joined
from ctxalgebra.timeline.values import (
    ROWS,
    ActiveView,
    Checkpoint,
    CheckpointView,
    Ended,
    NodeView,
    Row,
    check_before,
    check_between,
)
from ctxalgebra.tokens import Measure, chars4

__all__ = ["active", "checkpoints", "node"]

NEIGHBOURS = 2
"""How many ancestors, and how many descendants, stand beside an entry."""

PAGE = 1_000_000
"""The longest page of an entry, in code points."""


def _before(session: Session, number: int | None) -> Node | None:
    """Find the last entry of the path in front of a number; the leaf without one."""
    node = session.leaf
    if number is None:
        return node
    check_before(number)
    found = nearest(session, number - 1)
    while found is not None and find(session, found.number) is not found:
        found = found.previous
    return found


def active(
    session: Session,
    *,
    limit: int = ROWS,
    verbose: bool = False,
    before: int | None = None,
    stop: Stop | None = None,
) -> ActiveView:
    """Show the newest rows of the path to the leaf.

    Messages of the user and the model, summaries, what has a label, and the leaf. Walks up from
    the leaf, no further than it has to.

    Args:
        session: read along its path.
        limit: most rows, 1 to 50.
        verbose: show every entry.
        before: show what stands in front of the entry with this number.
        stop: says that the caller wants no more.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, the limit, or a number below 0.

    >>> from ctxalgebra import Session, record, user
    >>> view = active(record(Session(), user("a"), user("b"), user("c")), limit=2)
    >>> [row.text for row in view.rows], view.earlier, view.next
    (['b', 'c'], 1, 1)
    """
    check_session(session)
    check_between(limit, 1, ROWS, "limit")
    check_type(verbose, bool, "verbose")
    rows = Rows(session)
    found: list[Row] = []
    node = _before(session, before)
    visited = hidden = passed = 0
    next_: int | None = None
    ended: Ended = ""
    while node is not None:
        if halted(stop, visited):
            next_, ended = node.number + 1, "stopped"
            break
        visited += 1
        if rows.shown(node, verbose=verbose):
            if len(found) == limit:
                next_, ended = found[-1].number, "limit"
                break
            found.append(rows.row(node, archived=False))
            hidden += passed
            passed = 0
        else:
            passed += 1
        node = node.parent
    else:
        hidden += passed
        passed = 0
    earlier = passed + (0 if node is None else node.depth + 1)
    return ActiveView(tuple(reversed(found)), hidden, earlier, next_, ended, visited)


def checkpoints(
    session: Session,
    *,
    part: str = "",
    limit: int = ROWS,
    measure: Measure = chars4,
    stop: Stop | None = None,
) -> CheckpointView:
    """Show what can be gone back to by name: the root, and every entry with a label.

    Tells of each how many messages a journey there would keep, and what they weigh. Those that are
    archived are found in one walk, back to the oldest that is shown, and for each the entries that
    were recorded since are looked at once more.

    Args:
        session: all of its branches.
        part: of a label, in any letter case, or a number; the root is called `root`.
        limit: most rows, 1 to 50, the root among them.
        measure: weighs messages, in tokens.
        stop: says that the caller wants no more.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, the limit.

    >>> from ctxalgebra import Session, label, record, user
    >>> session = label(record(Session(), user("a"), user("b")), 1, "start")
    >>> [(found.row.number, found.messages) for found in checkpoints(session).rows]
    [(0, 1), (1, 2)]
    """
    check_session(session)
    check_text(part, "part")
    check_between(limit, 1, ROWS, "limit")
    rows = Rows(session)
    wanted = part.casefold()
    names = {
        number
        for number, name in rows.labels.items()
        if wanted in name.casefold() or wanted in (str(number), f"#{number}")
    }
    root: set[int] = set()
    if rows.root >= 0 and (rows.root in names or wanted in "root"):
        root.add(rows.root)
    names |= root
    nodes = {number: find(session, number) for number in names}
    away = {number for number, found in nodes.items() if found is None}
    rest = sorted(names - root, key=lambda number: (number in away, -number))
    shown = [*root, *rest][:limit]
    visited = 0
    ended: Ended = "limit" if len(shown) < len(names) else ""
    at = session.last
    missing = away.intersection(shown)
    while missing and at is not None:
        if halted(stop, visited):
            ended = "stopped"
            break
        visited += 1
        if at.number in missing:
            missing.discard(at.number)
            nodes[at.number] = at
        at = at.previous
    found: list[Checkpoint] = []
    for number in shown:
        node = nodes[number]
        if node is not None:
            landed = travel(session, number)
            row = rows.row(node, archived=number in away)
            view, end = kept(session, landed)
            tokens = view.slots.total(measure, end)
            found.append(Checkpoint(row, end, tokens, summary_depth(landed)))
    return CheckpointView(tuple(found), len(names), ended, visited)


def node(
    session: Session,
    number: int,
    *,
    offset: int = 0,
    characters: int = PAGE,
    limit: int = ROWS,
    stop: Stop | None = None,
) -> NodeView:
    r"""Show an entry in full, or a page of it, between its nearest ancestors and descendants.

    Descendants are looked for level by level, so that each branch has its turn.

    Args:
        session: all of its branches.
        number: the entry.
        offset: where the page begins, in code points.
        characters: the longest page.
        limit: most rows, 1 to 50: itself, then up to two on each side.
        stop: says that the caller wants no more.

    Raises:
        InvalidArgument: `unknown-entry`; `wrong-type`; `invalid-argument`, the limit, or a page
            that begins behind the end.

    >>> from ctxalgebra import Session, ToolCall, assistant, record, user
    >>> session = record(Session(), user("a"), assistant("b", ToolCall("c1", "read")))
    >>> node(session, 1).text
    'b\n[call c1] read {}'
    """
    check_session(session)
    check_type(number, int, "number")
    check_between(limit, 1, ROWS, "limit")
    check_between(characters, 1, PAGE, "characters")
    found = nearest(session, number)
    if found is None or found.number != number:
        raise InvalidArgument("unknown-entry", f"there is no entry {number}", field="number")
    text = joined(found)
    check_between(offset, 0, len(text), "offset")
    end = offset + characters
    rows = Rows(session)
    room = limit - 1
    visited = 1
    above: list[Row] = []
    ended: Ended = ""
    at = found.parent
    while at is not None and len(above) < min(NEIGHBOURS, room):
        if halted(stop, visited):
            ended = "stopped"
            break
        visited += 1
        if rows.reads(at):
            above.append(rows.row(at))
        at = at.parent
    room -= len(above)
    children = Children(session, number, stop=stop)
    below: list[Row] = []
    level = list(children.of(found))
    branches = len(level)
    while level and not ended and len(below) < min(NEIGHBOURS, room):
        under: list[Node] = []
        for child in level:
            if len(below) == min(NEIGHBOURS, room):
                break
            if halted(stop, visited):
                ended = "stopped"
                break
            visited += 1
            if rows.reads(child):
                below.append(rows.row(child))
            under.extend(children.of(child))
        level = under
    return NodeView(
        rows.row(found),
        text[offset:end],
        offset,
        end if end < len(text) else None,
        len(text),
        tuple(reversed(above)),
        tuple(below),
        branches,
        ended if children.complete else "stopped",
        visited + children.visited,
    )
