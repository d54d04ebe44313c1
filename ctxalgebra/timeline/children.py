"""Children: a session links entries to their parents only, so one pass over its log finds them.

Nothing here calls itself, whatever the depth (fault W12 of the original), and a pass keeps in
memory what is not said by the order of recording: an entry whose parent was recorded right before
it costs nothing beyond its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ctxalgebra.model.session import Node, Session

__all__ = ["Children", "Stop", "halted", "nearest"]

Stop = Callable[[], bool]
"""Says whether the caller wants no more; asked every so many entries."""

EVERY = 64
"""How many entries are looked at between two questions to `Stop`; a power of two."""


def halted(stop: Stop | None, visited: int) -> bool:
    """Ask whether to stop, once every 64 entries."""
    return stop is not None and not visited & (EVERY - 1) and stop()


def nearest(session: Session, number: int) -> Node | None:
    """Find the last entry with at most this number, from the nearest place that can be jumped to.

    >>> from ctxalgebra import Session, record, user
    >>> nearest(record(Session(), user("a"), user("b")), 7).number
    1
    """
    node = session.leaf
    if node is None or node.number < number:
        node = session.last
    else:
        # The path is walked by jumps down to the last entry that is not in front of the place.
        while True:
            jump, parent = node.jump, node.parent
            if jump is not None and jump.number >= number:
                node = jump
            elif parent is not None and parent.number >= number:
                node = parent
            else:
                break
    while node is not None and node.number > number:
        node = node.previous
    return node


class Children:
    """Know the children of the entries from a number on; `visited` counts what was read for it.

    >>> from ctxalgebra import Session, at_leaf, record, user
    >>> session = record(at_leaf(record(Session(), user("a"), user("b")), 0), user("c"))
    >>> [child.number for child in Children(session).of(session.leaf.parent)]
    [1, 2]
    """

    __slots__ = ("_apart", "_nodes", "_since", "complete", "visited")

    def __init__(self, session: Session, since: int = 0, *, stop: Stop | None = None) -> None:
        """Read the log back to the entry `since`, or until it is stopped.

        Args:
            session: read from its last entry.
            since: the first number whose children are asked for.
            stop: says that the caller wants no more; then `complete` is False, and older children
                are missing.
        """
        nodes: list[Node] = []
        apart: dict[int, list[Node]] = {}
        node = session.last
        self.complete = True
        while node is not None and node.number >= since:
            if stop is not None and halted(stop, len(nodes)):
                self.complete = False
                break
            nodes.append(node)
            before, parent = node.previous, node.parent
            if parent is not before or before is None:
                apart.setdefault(-1 if parent is None else parent.number, []).append(node)
            node = before
        nodes.reverse()
        self._since = nodes[0].number if nodes else since
        self._nodes = nodes
        self._apart = apart
        self.visited = len(nodes)

    def roots(self) -> Iterator[Node]:
        """Give the entries without a parent, in the order of recording."""
        return reversed(self._apart.get(-1, ()))

    def of(self, node: Node) -> Iterator[Node]:
        """Give the children of an entry, in the order of recording."""
        place = node.number + 1 - self._since
        if 0 <= place < len(self._nodes) and self._nodes[place].parent is node:
            yield self._nodes[place]
        yield from reversed(self._apart.get(node.number, ()))

    def has(self, node: Node) -> bool:
        """Say whether an entry has children."""
        return next(self.of(node), None) is not None
