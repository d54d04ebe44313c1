"""The view of the tree: around the leaf, or below an entry."""

from __future__ import annotations

from collections.abc import Iterable

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.session import Node, Session, check_session
from ctxalgebra.timeline.children import Children, Stop, halted, nearest
from ctxalgebra.timeline.rows import Rows
from ctxalgebra.timeline.values import ROWS, Shape, TreeView, check_between

__all__ = ["tree"]

LINES = 200
"""The most rows of a tree."""


class _Walk:
    """A walk through a tree, parents first, that never calls itself.

    Attributes:
        path: numbers of the entries of the path that may be shown.
        hidden, deeper, omitted: as `TreeView` has them.
    """

    def __init__(self, session: Session, *, verbose: bool, stop: Stop | None) -> None:
        self.rows = Rows(session)
        self.leaf = session.leaf
        self.verbose = verbose
        self.stop = stop
        self.path: set[int] = set()
        self.found: list[Shape] = []
        self.visited = self.hidden = self.deeper = self.omitted = 0
        self.stopped = False

    def _halted(self) -> bool:
        self.stopped = self.stopped or halted(self.stop, self.visited)
        self.visited += 1
        return self.stopped

    def climb(self, depth: int) -> Node | None:
        """Go up the path to where so many levels begin; None at the root."""
        node = self.leaf
        while node is not None and not self._halted():
            if self.rows.shown(node, verbose=self.verbose):
                self.path.add(node.number)
                if len(self.path) == depth and node.parent is not None:
                    return node
            node = node.parent
        return node

    def follow(self, first: Node) -> None:
        """Go up the path to an entry that lies on it."""
        node = self.leaf
        while node is not None and node is not first and not self._halted():
            self.path.add(node.number)
            node = node.parent
        self.path.add(first.number)

    def _shown(self, nodes: Iterable[Node], children: Children) -> list[Node]:
        """Give the entries that are shown in the place of these, in order."""
        found: list[Node] = []
        todo = [*nodes]
        todo.reverse()
        while todo:
            node = todo.pop()
            if self.rows.shown(node, verbose=self.verbose):
                found.append(node)
            elif self._halted():
                break
            else:
                self.hidden += 1
                todo.extend(reversed([*children.of(node)]))
        return found

    def descend(self, starts: Iterable[Node], children: Children, depth: int, lines: int) -> None:
        """Take the rows in; what is beside the path shares what the path leaves."""
        room = lines - min(depth, len(self.path))
        level, lead = 0, ""
        under = [*starts]
        todo: list[tuple[Node, int, str, bool]] = []
        while True:
            todo.extend(
                (node, level + 1, lead, place == 0) for place, node in enumerate(reversed(under))
            )
            if not todo or self._halted():
                return
            node, level, lead, last = todo.pop()
            onward = node.number in self.path
            under = []
            if not onward and not room:
                self.omitted += 1
                continue
            room -= not onward
            row = self.rows.row(node)
            self.found.append(Shape(row, level, f"{lead}{'└─' if last else '├─'} "))
            lead += "  " if last else "│ "
            if level < depth:
                under = self._shown(children.of(node), children)
            else:
                self.deeper += children.has(node)

    def start(self, first: Node | None, children: Children) -> list[Node]:
        """Give the first rows: of the whole, or from an entry of the path on."""
        return self._shown(children.roots() if first is None else [first], children)


def tree(
    session: Session,
    *,
    depth: int = ROWS,
    lines: int = LINES,
    verbose: bool = False,
    below: int | None = None,
    stop: Stop | None = None,
) -> TreeView:
    """Show the tree around the leaf: as many levels as end in it, with the branches beside them.

    Where the whole is deeper than that, what is shown is the newest end (fault W12 of the
    original: the oldest), and `above` counts what is in front of it. Entries that are no
    conversation give way to their children. The path always has its rows; branches beside it
    share what room is left, in the order of recording.

    Args:
        session: all of its branches; its log is read back to the first row.
        depth: most levels, 1 to 50.
        lines: most rows, 50 to 200.
        verbose: show every entry.
        below: show the entry with this number and what is below it instead.
        stop: says that the caller wants no more.

    Raises:
        InvalidArgument: `unknown-entry`; `wrong-type`; `invalid-argument`, beyond the limits.

    >>> from ctxalgebra import Session, at_leaf, record, user
    >>> session = record(at_leaf(record(Session(), user("a"), user("b")), 0), user("c"))
    >>> for shape in tree(session).rows:
    ...     print(shape.rails, shape.row.number)
    └─  0
      ├─  1
      └─  2
    """
    check_session(session)
    check_between(depth, 1, ROWS, "depth")
    check_between(lines, ROWS, LINES, "lines")
    check_type(verbose, bool, "verbose")
    walk = _Walk(session, verbose=verbose, stop=stop)
    if below is None:
        first = walk.climb(depth)
    else:
        check_type(below, int, "below")
        first = nearest(session, below)
        if first is None or first.number != below:
            raise InvalidArgument("unknown-entry", f"there is no entry {below}", field="below")
        if not walk.rows.archived(first):
            walk.follow(first)
    children = Children(session, 0 if first is None else first.number, stop=stop)
    starts = [first] if below is not None and first else walk.start(first, children)
    walk.descend(starts, children, depth, lines)
    stopped = walk.stopped or not children.complete
    cut = walk.deeper or walk.omitted or (below is None and first is not None)
    return TreeView(
        tuple(walk.found),
        0 if first is None else first.depth,
        walk.hidden,
        walk.deeper,
        walk.omitted,
        "stopped" if stopped else "limit" if cut else "",
        walk.visited + children.visited,
    )
