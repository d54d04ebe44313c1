"""What views give: rows, and of what they were taken."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_type, mistyped
from ctxalgebra.timeline.texts import Kind

__all__ = [
    "ActiveView",
    "Budget",
    "Checkpoint",
    "CheckpointView",
    "Ended",
    "NodeView",
    "Row",
    "SearchView",
    "Shape",
    "TreeView",
    "View",
    "budget",
    "check_before",
    "check_between",
]

Ended = Literal["", "limit", "scan", "characters", "stopped"]
"""Why a view ends before everything was seen; empty when all was."""

ROWS = 50
"""The most rows that can be asked for."""

CAP = 400_000
"""The largest window that budgets are reckoned from, in tokens."""

_UNKNOWN, _ENTRIES, _TOKENS = 100_000, 50, 2_000


@frozen
class Row:
    """Show one entry on one line.

    Args:
        number: its address.
        kind: what it is.
        title: the kind, with the name of a tool or note.
        text: the beginning of what can be read in it, or what stands around a match.
        label: its name; empty when it has none.
        left: the label is a return ticket: the branch was left here.
        head: it is the leaf.
        root: it is what the target `root` stands for.
        archived: it is not on the path to the leaf.
    """

    number: int
    kind: Kind
    title: str
    text: str
    label: str = ""
    left: bool = False
    head: bool = False
    root: bool = False
    archived: bool = False


@frozen
class ActiveView:
    """Show the newest rows of the path.

    Args:
        rows: oldest first.
        hidden: entries between them that are no conversation.
        earlier: entries of the path in front of the first row.
        next: pass it as `before` to go on with these; None when there are none.
        ended: why they are not shown.
        visited: entries that were looked at.
    """

    rows: tuple[Row, ...]
    hidden: int
    earlier: int
    next: int | None
    ended: Ended
    visited: int


@frozen
class Checkpoint:
    """Show an entry that can be gone back to.

    Args:
        row: the entry.
        messages: how many would be kept.
        tokens: what these weigh; the handoff of a travel comes on top.
        handoffs: how many of them are handoffs; a travel adds one.
    """

    row: Row
    messages: int
    tokens: int
    handoffs: int


@frozen
class CheckpointView:
    """Show labelled entries, and the root.

    Args:
        rows: the root; the path, newest first; then what is archived, newest first.
        total: how many there are.
        ended: `limit` or `stopped` where some are not shown.
        visited: entries that were looked at.
    """

    rows: tuple[Checkpoint, ...]
    total: int
    ended: Ended
    visited: int


@frozen
class SearchView:
    """Show what was found, newest first.

    Args:
        query: what was asked.
        rows: the matches, each with what stands around it.
        next: pass it as `before` to search on; None when all was searched.
        ended: why it was not.
        visited: entries that were looked at.
        characters: code points that were read.
    """

    query: str
    rows: tuple[Row, ...]
    next: int | None
    ended: Ended
    visited: int
    characters: int


@frozen
class NodeView:
    """Show one entry in full, or a page of it, and its neighbours.

    Args:
        row: the entry.
        text: everything that can be read in it, from `offset` on.
        offset: where the page begins, in code points.
        next: where the following page begins; None at the end.
        total: code points of the whole.
        before: the nearest ancestors with text, oldest first.
        after: the nearest descendants with text, nearest first.
        branches: how many children it has.
        ended: `stopped` where neighbours may be missing.
        visited: entries that were looked at.
    """

    row: Row
    text: str
    offset: int
    next: int | None
    total: int
    before: tuple[Row, ...]
    after: tuple[Row, ...]
    branches: int
    ended: Ended
    visited: int


@frozen
class Shape:
    """Place a row in a tree.

    Args:
        row: the entry.
        depth: its level, from 1.
        rails: what is drawn in front of it.
    """

    row: Row
    depth: int
    rails: str


@frozen
class TreeView:
    """Show the tree around the leaf, or below an entry.

    Args:
        rows: parents in front of their children.
        above: entries on the path above the first row.
        hidden: entries between the rows that are no conversation.
        deeper: rows whose children are too deep to be shown.
        omitted: rows beside the path that there was no room for; what is below them isn't counted.
        ended: `limit` or `stopped` where something is not shown.
        visited: entries that were looked at.
    """

    rows: tuple[Shape, ...]
    above: int
    hidden: int
    deeper: int
    omitted: int
    ended: Ended
    visited: int


View = ActiveView | CheckpointView | SearchView | NodeView | TreeView


@frozen
class Budget:
    """Say how much an answer may take.

    Args:
        entries: most rows.
        characters: most code points.
    """

    entries: int
    characters: int


def budget(window: float | None = None, used: float | None = None) -> Budget:
    """Give the room for one answer: a tenth of the window, a quarter of what is left of it.

    A window counts up to 400,000 tokens, and 100,000 where it is not known; a row for each 1,000
    tokens, at least 50, and 100 where the window is not known; at least 8,000 characters
    (specification of the travel system, section 16).

    Args:
        window: of the model, in tokens.
        used: tokens in use.

    Raises:
        InvalidArgument: `wrong-type`, no number; `invalid-argument`, a window that is not positive.

    >>> budget(200_000, 150_000), budget()
    (Budget(entries=200, characters=50000), Budget(entries=100, characters=40000))
    """
    for name, value in (("window", window), ("used", used)):
        if value is not None and type(value) not in (int, float):
            raise mistyped(value, "a number of tokens", name)
    if window is not None and not 0 < window < float("inf"):
        raise InvalidArgument("invalid-argument", "a window is positive", field="window")
    size = min(_UNKNOWN if window is None else window, CAP)
    left = size - max(0, min(used or 0, size))
    entries = 100 if window is None else max(_ENTRIES, int(size // 1000))
    return Budget(entries, 4 * max(_TOKENS, int(min(size / 10, left / 4))))


def check_between(value: object, least: int, most: int, field: str) -> None:
    """Refuse what is no integer of a range (fault W28 of the original: a limit of 0 gave all).

    Raises:
        InvalidArgument: `wrong-type`, `invalid-argument`.

    >>> check_between(0, 1, 50, "limit")
    Traceback (most recent call last):
    ctxalgebra.errors.InvalidArgument: invalid-argument: between 1 and 50 (field limit)
    """
    check_type(value, int, field)
    if not isinstance(value, int) or not least <= value <= most:
        raise InvalidArgument("invalid-argument", f"between {least} and {most}", field=field)


def check_before(value: object) -> None:
    """Refuse what is no number of an entry to go on in front of.

    Raises:
        InvalidArgument: `wrong-type`, `invalid-argument`.

    >>> check_before(-1)
    Traceback (most recent call last):
    ctxalgebra.errors.InvalidArgument: invalid-argument: at least 0 (field before)
    """
    check_type(value, int, "before")
    if isinstance(value, int) and value < 0:
        raise InvalidArgument("invalid-argument", "at least 0", field="before")
