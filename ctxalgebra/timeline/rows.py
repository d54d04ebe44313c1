"""Rows: an entry on one line, and which entries are conversation."""

from __future__ import annotations

from collections.abc import Mapping

from ctxalgebra.checkpoints.provenance import was_left
from ctxalgebra.checkpoints.targets import complete_places
from ctxalgebra.events import labelled
from ctxalgebra.model.entries import Cut, Reply
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Node, Session, find
from ctxalgebra.timeline.texts import kind_of, one_line, readable, title
from ctxalgebra.timeline.values import Row

__all__ = ["Rows", "joined"]

_SPOKEN = frozenset({Message, Reply, Cut})
_CONVERSATION = frozenset({"user", "assistant", "summary"})


def joined(node: Node) -> str:
    """Give everything that can be read in an entry, a line behind each text."""
    return "\n".join(filter(None, readable(node.entry)))


class Rows:
    """Make rows of a session's entries: knows its labels, its leaf, and the target `root`."""

    __slots__ = ("_labelled", "_leaf", "_session", "labels", "root")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._leaf = session.leaf
        self.labels: Mapping[int, str] = labelled(session).names
        self._labelled = len(self.labels) > 0
        self.root = complete_places(session).first

    def shown(self, node: Node, *, verbose: bool = False) -> bool:
        """Say whether an entry is conversation, or stands out: the leaf, what has a label."""
        return (
            verbose
            or (type(node.entry) in _SPOKEN and kind_of(node) in _CONVERSATION)
            or node is self._leaf
            or (self._labelled and node.number in self.labels)
        )

    def archived(self, node: Node) -> bool:
        """Say whether an entry is not on the path; logarithmic."""
        return find(self._session, node.number) is not node

    def row(self, node: Node, *, archived: bool | None = None, text: str | None = None) -> Row:
        """Make the row of an entry.

        Args:
            node: the entry.
            archived: whether it is off the path, where that is known.
            text: what stands in it; by default the beginning of what can be read.
        """
        entry = node.entry
        label = self.labels.get(node.number, "")
        return Row(
            node.number,
            kind_of(node),
            title(node),
            one_line(readable(entry)) if text is None else text,
            label,
            bool(label) and was_left(self._session, node.number),
            node is self._leaf,
            node.number == self.root,
            self.archived(node) if archived is None else archived,
        )

    def reads(self, node: Node) -> bool:
        """Say whether an entry holds anything to read."""
        return any(text and not text.isspace() for text in readable(node.entry))
