"""History: the path of a journal as a list of items, grown with each entry and shared by branches.

Theory of operation
-------------------
The list is a chain: each cell knows the item that it holds, the cell in front of it, and one
further up (the skew-binary rule of `model.session.Node`), so that appending costs the entry and
finding an item by its address or its place costs a logarithm, in one session and in all that
share its path. A turn is there as soon as its last result is; until then it is absent, and what
came behind it waits, so that the order is that of recording. A reply that was aborted or failed
is there at once. Decisions change nothing here: what they take out of the view stays in the path.

The words of the items stand in an `Index`, which sessions of one journal share and which only
grows (`ctxalgebra.recall.index`). It is filled by the first search, not by recording.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from attrs import evolve, field, frozen

from ctxalgebra.errors import ProtocolViolation
from ctxalgebra.model.checks import check_each, check_type, mistyped
from ctxalgebra.model.entries import Reply
from ctxalgebra.model.exchange import NOTHING, Queue
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Fold, Node, Session, fold
from ctxalgebra.model.view import View
from ctxalgebra.recall.index import Index
from ctxalgebra.recall.items import Item, Record, model_turn
from ctxalgebra.recall.texts import CODE_POINTS, Units

__all__ = [
    "Cell",
    "History",
    "Step",
    "as_history",
    "cell_at",
    "cell_of",
    "exchanges_of",
    "find_model_turn",
    "grown",
    "history",
    "history_items",
    "history_of",
    "turn_with",
]


class Cell:
    """Hold an item in its place.

    Fields: the `record`; its `number`, by which it is found; what it is known by, `key`; the cell
    in front, `parent`, and one further up, `jump`; how many cells there are up to here, `depth`,
    how many of them are visible, `seen`, and the last of these, `shown`. Cells are never changed.
    """

    __slots__ = ("depth", "jump", "key", "number", "parent", "record", "seen", "shown")

    def __init__(self, record: Record, number: int, key: object, parent: Cell | None) -> None:
        self.record = record
        self.number = number
        self.key = key
        self.parent = parent
        visible = not record.hidden
        self.depth, self.seen = 1, int(visible)
        self.shown: Cell | None = self if visible else None
        self.jump: Cell | None = parent
        if parent is None:
            return
        self.depth, self.seen = parent.depth + 1, parent.seen + visible
        if not visible:
            self.shown = parent.shown
        skip = parent.jump
        # A jump as long as the one before it: the two become one.
        if skip is not None and parent.depth - skip.depth == skip.depth - (
            skip.jump.depth if skip.jump is not None else 0
        ):
            self.jump = skip.jump


_NONE: Queue[Item] = Queue([], 0)


class _Exchange(NamedTuple):
    """A turn whose calls are open."""

    number: int
    message: Message
    results: Queue[tuple[int, Message]] = NOTHING


@frozen(eq=False, repr=False)
class History:
    """Hold the items of a path; made by `history` from a session, by `history_of` from a list.

    `len` counts the items that search and browse show.

    Args:
        top: the last cell.
        index: the words, shared.
        exchange: the turn that is absent until it is complete.
        waiting: the items behind it.
        numbers: the numbers of items by their addresses, where those are no numbers.
        units: what texts are measured in.
    """

    top: Cell | None = None
    index: Index | None = None
    exchange: _Exchange | None = None
    waiting: Queue[Item] = _NONE
    numbers: Mapping[str, int] | None = None
    units: Units = field(default=CODE_POINTS)

    def __len__(self) -> int:
        """Count the items that search and browse show."""
        return 0 if self.top is None else self.top.seen

    def __repr__(self) -> str:
        """Show sizes, not content."""
        return f"<History: {0 if self.top is None else self.top.depth} items, {len(self)} visible>"


_EMPTY = History()


def _step(known: History, node: Node, _: View) -> History:
    entry = node.entry
    if known is _EMPTY:
        known = History(index=Index(CODE_POINTS))
    interrupted = False
    message: object = entry
    if type(entry) is Reply:
        message = entry.message
        interrupted = entry.outcome != "completed"
    if type(message) is not Message:
        return known
    exchange = known.exchange
    if message.role == "tool" and exchange is not None:
        results = exchange.results.joined((node.number, message))
        if len(results) < len(exchange.message.calls):
            exchange = exchange._replace(results=results)
            return History(known.top, known.index, exchange, known.waiting)
        item = model_turn(exchange.number, exchange.message, tuple(results))
        return _with(known, (item, *known.waiting), node)
    if message.role == "assistant":
        if message.calls and not interrupted:
            return History(known.top, known.index, _Exchange(node.number, message))
        item = model_turn(node.number, message, interrupted=interrupted)
    else:
        kind: Literal["user", "system"] = "system" if message.role == "system" else "user"
        item = Item(str(node.number), kind, node.number, message)
    if exchange is not None:
        return History(known.top, known.index, exchange, known.waiting.joined(item))
    return _with(known, (item,), node)


def _with(known: History, items: Sequence[Item], node: Node) -> History:
    top = known.top
    for item in items:
        # What waited is known by what let it in: on a branch it may stand behind another turn.
        top = Cell(item, item.number, (node, item.number), top)
    return History(top, known.index)


_HISTORY: Fold[History] = Fold("history", _EMPTY, _step)


def history(session: Session) -> History:
    """Give the history of a session's path; the first question reads it, later ones what is new.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> history(record(Session(), user("hi"), assistant("Hello!")))
    <History: 2 items, 2 visible>
    """
    return fold(session, _HISTORY)


def as_history(source: Session | History) -> History:
    """Take a session for its history."""
    if isinstance(source, History):
        return source
    if not isinstance(cast("object", source), Session):
        raise mistyped(source, "a session or a history", "source")
    return history(source)


def grown(known: History, record: Record, number: int) -> History:
    """Add an item to a history of a list: its number has to be higher than those before it."""
    index = Index(known.units) if known.index is None else known.index
    return evolve(known, index=index, top=Cell(record, number, object(), known.top))


# Lists from elsewhere


class Step(NamedTuple):
    """Say of a message what pairing needs.

    Fields: the `role`, as `Message.role`; the ids of its `calls`; the `call` that it answers;
    whether the reply was `interrupted`.
    """

    role: str
    calls: tuple[str, ...] = ()
    call: object = None
    interrupted: bool = False


def exchanges_of(steps: Sequence[Step]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Group a list into items: the index of each message, and those of the results that it owns.

    The results of an assistant message stand right behind it. At the end of the list an exchange
    may lack results: it is left out until it is complete. One that was interrupted may lack them
    anywhere (specification of the paging system, section 2).

    Raises:
        ProtocolViolation: `orphan-result`, `mismatched-result`, `duplicate-result`,
            `incomplete-results`; `entry` is the index.
    """
    at = 0
    while at < len(steps):
        step, start = steps[at], at
        at += 1
        if step.role == "tool":
            raise ProtocolViolation("orphan-result", entry=start)
        if step.role != "assistant":
            yield start, ()
            continue
        calls, answered = set(step.calls), set[object]()
        while at < len(steps) and steps[at].role == "tool":
            call = steps[at].call
            if call not in calls:
                raise ProtocolViolation("mismatched-result", entry=at)
            if call in answered:
                raise ProtocolViolation("duplicate-result", entry=at)
            answered.add(call)
            at += 1
        if len(answered) < len(calls) and not step.interrupted:
            if at < len(steps):
                raise ProtocolViolation("incomplete-results", entry=start)
            return
        yield start, tuple(range(start + 1, at))


def history_of(messages: Sequence[Message], *, interrupted: Collection[int] = ()) -> History:
    """Give the history of a plain list; an item's address is its index, as text.

    Args:
        interrupted: the indices of assistant messages that were aborted or failed.

    Raises:
        ProtocolViolation: `orphan-result`, `mismatched-result`, `duplicate-result`,
            `incomplete-results`; `entry` is the index.
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import tool_result, user
    >>> history_of([user("hi"), tool_result("c1", "42")])
    Traceback (most recent call last):
    ...
    ctxalgebra.errors.ProtocolViolation: orphan-result: a tool result answers no open call (entry 1)
    """
    check_each(messages, Message, "messages")
    broken = frozenset(interrupted)
    steps = [
        Step(m.role, tuple(call.id for call in m.calls), m.call or None, at in broken)
        for at, m in enumerate(messages)
    ]
    known = History()
    for at, results in exchanges_of(steps):
        message = messages[at]
        if message.role == "assistant":
            owned = [(result, messages[result]) for result in results]
            item = model_turn(at, message, owned, interrupted=at in broken)
        else:
            item = Item(str(at), "system" if message.role == "system" else "user", at, message)
        known = grown(known, item, at)
    return known


# Finding


def _lowest(top: Cell | None, name: Literal["number", "seen", "depth"], least: int) -> Cell | None:
    """Find the first cell whose number, or count, is at least this; both grow along the chain."""
    if top is None or getattr(top, name) < least:
        return None
    cell = top
    while True:
        jump, parent = cell.jump, cell.parent
        if jump is not None and getattr(jump, name) >= least:
            cell = jump
        elif parent is not None and getattr(parent, name) >= least:
            cell = parent
        else:
            return cell


def cell_at(known: History, sequence: int) -> Cell:
    """Give the visible cell at a place that exists, in logarithmic time."""
    cell = _lowest(known.top, "seen", sequence + 1)
    return cast("Cell", cell)


def cell_of(known: History, id: str) -> Cell | None:
    """Give the cell with an address, visible or not; None where there is none."""
    number: int | None
    if known.numbers is not None:
        number = known.numbers.get(id)
    else:
        # Only what an address looks like: digits, and no more than any entry has.
        number = int(id) if id.isascii() and id.isdigit() and len(id) < 16 else None
    if number is None:
        return None
    cell = _lowest(known.top, "number", number)
    return cell if cell is not None and cell.record.id == id else None


def history_items(source: Session | History) -> tuple[Item, ...]:
    """List all items, oldest first, as they were recorded.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, ToolCall, assistant, record, tool_result, user
    >>> session = record(Session(), user("go"), assistant(ToolCall("c1", "read")))
    >>> len(history_items(session)), len(history_items(record(session, tool_result("c1", "42"))))
    (1, 2)
    """
    found: list[Any] = []
    cell = as_history(source).top
    while cell is not None:
        found.append(cell.record)
        cell = cell.parent
    found.reverse()
    return tuple(found)


def _turns(source: Session | History) -> Iterator[Item]:
    cell = as_history(source).top
    while cell is not None:
        item: Any = cell.record
        if item.kind == "modelTurn":
            yield item
        cell = cell.parent


def find_model_turn(source: Session | History, call: str) -> Item | None:
    """Find the newest turn with a call of this id; None where there is none.

    Ids may come again: `turn_with` is exact.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, ToolCall, assistant, record, tool_result
    >>> session = record(Session(), assistant(ToolCall("c1", "read")), tool_result("c1", "42"))
    >>> find_model_turn(session, "c1").id
    '0'
    """
    check_type(call, str, "call")
    turns = (item for item in _turns(source) if any(c.id == call for c in item.message.calls))
    return next(turns, None)


def turn_with(source: Session | History, number: int) -> Item | None:
    """Find the turn that owns an entry: its assistant message, or one of its results.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, ToolCall, assistant, record, tool_result, user
    >>> session = record(Session(), user("go"), assistant(ToolCall("c1", "read")))
    >>> turn_with(record(session, tool_result("c1", "42")), 2).id
    '1'
    """
    check_type(number, int, "number")
    known = as_history(source)
    above = _lowest(known.top, "number", number + 1)
    cell = known.top if above is None else above.parent
    while cell is not None:
        item: Any = cell.record
        if item.kind == "modelTurn":
            return item if number == item.number or number in item.numbers else None
        cell = cell.parent
    return None
