"""What laws look at: entries on their path, requests side by side, what a provider refuses.

Everything here is worked out anew and in the plainest way, from what anyone can see of a session:
its entries, its requests, what is shown. It shares no reasoning with the gate and the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, Literal, NamedTuple, Protocol

from attrs import evolve, frozen

from ctxalgebra.events import abandon, open_calls
from ctxalgebra.model.entries import DECISIONS, Cut, Entry, Reply, Sent
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message, Part, Text, Thinking, ToolCall
from ctxalgebra.model.session import Session, at_leaf, log, path, walk
from ctxalgebra.model.view import EMPTY_VIEW, View
from ctxalgebra.project import Request, project, reply, requests

__all__ = [
    "Asked",
    "Kind",
    "Law",
    "Pair",
    "Predicate",
    "Step",
    "again",
    "asked",
    "bare",
    "branches",
    "defect",
    "each_branch",
    "items",
    "legible",
    "made",
    "may_rewrite",
    "messages",
    "news",
    "numbers",
    "open_loop",
    "pairs",
    "quieted",
    "said",
    "says_something",
    "shared",
    "steps",
    "thoughts",
]

Kind = Literal["invariant", "preorder", "equation", "goal", "function"]


@frozen
class Law:
    """Name a law.

    Args:
        name: kebab-case; the name of the test that checks it.
        kind: `invariant` (of one session), `preorder` (of a session along its path), `equation`,
            `goal` or `function` (of a stage and a session).
        statement: what holds, in one sentence.
        broken: gives None when it holds, else a sentence that names the place. Its arguments
            go by the kind: `(session)` for the first two, `(stage, session)` for the others.
    """

    name: str
    kind: Kind
    statement: str
    broken: Callable[..., str | None]


class Predicate(Protocol):
    """A named function that says what is broken."""

    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> str | None:
        """Give None, or one sentence."""
        ...


class Step(NamedTuple):
    """One entry on a path, and what was shown before and after it."""

    number: int
    entry: Entry
    before: View
    after: View


class Asked(NamedTuple):
    """A request on a path: its number, the entries of its messages, itself."""

    number: int
    numbers: tuple[int, ...]
    request: Request


class Pair(NamedTuple):
    """Two requests that follow each other; `at` is where they part, None if nowhere.

    `between` holds what was recorded between them and may change what was sent.
    """

    earlier: int
    later: int
    at: int | None
    between: dict[int, Entry]


def branches(session: Session) -> Iterator[Session]:
    """Give the session at its leaf, then at the end of every other branch.

    >>> from ctxalgebra import record, travel, user
    >>> fork = record(travel(record(Session(), user("a"), user("b")), 0), user("c"))
    >>> [branch.leaf.number for branch in branches(fork)]
    [2, 1]
    """
    yield session
    nodes = log(session)
    inner = {node.parent.number for node in nodes if node.parent is not None}
    if session.leaf is not None:
        inner.add(session.leaf.number)
    for node in nodes:
        if node.number not in inner:
            yield at_leaf(session, node.number)


def each_branch(law: Callable[[Session], str | None]) -> Callable[[Session], str | None]:
    """Let a law of one path speak of every branch of the session."""

    @wraps(law)
    def broken(session: Session) -> str | None:
        return next(filter(None, map(law, branches(session))), None)

    return broken


def again(session: Session) -> Iterator[Session]:
    """Record a journal again through the gate; give the session after each entry.

    Raises: what the gate raises.
    """
    now = Session()
    for node in log(session):
        now = record(at_leaf(now, -1 if node.parent is None else node.parent.number), node.entry)
        yield now


def steps(session: Session) -> Iterator[Step]:
    """Go down the path once."""
    before = EMPTY_VIEW
    for node, after in walk(session):
        yield Step(node.number, node.entry, before, after)
        before = after


def numbers(view: View) -> tuple[int, ...]:
    """Name the entries of what is shown."""
    return tuple(view.slots.numbers[: view.end])


def items(view: View) -> list[tuple[int, Message]]:
    """List what is shown with its entries."""
    return list(zip(numbers(view), view.messages(), strict=True))


def asked(session: Session) -> Iterator[Asked]:
    """Give the requests along the path, and the one that could leave now."""
    view = EMPTY_VIEW
    for node, view in walk(session):
        if type(node.entry) is Sent:
            yield Asked(node.number, numbers(view), Request(view.head, view.messages()))
    if view.end and view.flight < 0 and not view.slots.messages[view.end - 1].calls:
        yield Asked(len(session), numbers(view), project(session))


def news(session: Session) -> Iterator[tuple[Asked, int]]:
    """Give each request with the first message that the one before it has not shown alike."""
    before: Request | None = None
    for one in asked(session):
        known = shared(before, one.request) if before is not None else 0
        yield one, max(known, 0)
        before = one.request


def pairs(session: Session) -> Iterator[Pair]:
    """Compare each request on the path with the one before it."""
    made = iter(requests(session))
    before: Request | None = None
    earlier = -1
    between: dict[int, Entry] = {}
    head = Head()
    for node in path(session):
        entry = node.entry
        if isinstance(entry, DECISIONS) or (type(entry) is Head and entry != head):
            between[node.number] = entry
        if type(entry) is Head:
            head = entry
        if type(entry) is not Sent:
            continue
        request = next(made)
        if before is not None:
            same = shared(before, request)
            at = None if same == len(before.messages) else same
            yield Pair(earlier, node.number, at, between)
        before, earlier, between = request, node.number, {}


def quieted(session: Session) -> Session:
    """Close what is open, so that a request can leave: the reply is lost, calls are abandoned.

    >>> from ctxalgebra import ToolCall, assistant, record
    >>> len(quieted(record(Session(), assistant(ToolCall("c1", "read")))))
    2
    """
    if session.view.flight >= 0:
        session = reply(session, "lost")
    for call in open_calls(session):
        session = abandon(session, call, "abandoned")
    return session


def shared(earlier: Request, later: Request) -> int:
    """Count the leading messages that two requests share; -1 when their heads differ.

    >>> from ctxalgebra import Head, Request, user
    >>> a, b, c = user("a"), user("b"), user("c")
    >>> shared(Request(Head(), (a, b)), Request(Head(), (a, c)))
    1
    """
    if earlier.head != later.head:
        return -1
    length = len(earlier.messages)
    if later.messages[:length] == earlier.messages:
        return length
    sides = zip(earlier.messages, later.messages, strict=False)
    return next((i for i, (a, b) in enumerate(sides) if a != b), len(later.messages))


def said(entry: Entry) -> Message | None:
    """Give the message that an entry brought into the journal, None if it brought none."""
    if type(entry) is Message:
        return entry
    return entry.message if type(entry) is Reply else None


def legible(message: Message) -> Message:
    """Take off the texts of white space beside content, which providers refuse (V-A6)."""
    if message.role == "tool" or not says_something(message.parts):
        return message
    kept = tuple(part for part in message.parts if says_something((part,)))
    return evolve(message, parts=kept)


def messages(session: Session) -> dict[int, Message]:
    """Map numbers to the messages of the path, notices included, in their legible form."""
    found: dict[int, Message] = {}
    for node in path(session):
        message = node.entry.notice if type(node.entry) is Cut else said(node.entry)
        if message is not None:
            found[node.number] = legible(message)
    return found


def says_something(parts: Sequence[Part]) -> bool:
    """Say whether parts have content: anything but white space."""
    return any(type(p) is not Text or p.text.strip() for p in parts)


def bare(message: Message) -> Message:
    """Take all thinking off."""
    return evolve(message, parts=tuple(p for p in message.parts if type(p) is not Thinking))


def thoughts(parts: Sequence[Part]) -> list[Part]:
    """Take the thinking out of parts."""
    return [part for part in parts if type(part) is Thinking]


def may_rewrite(entry: Entry) -> bool:
    """Say whether an entry may change what is shown already."""
    return type(entry) is Head or isinstance(entry, DECISIONS)


def open_loop(view: View) -> list[tuple[int, Message]]:
    """List what thinks in an open tool loop, where a loop must begin with its thinking (V-A7).

    It is open unless an assistant message without calls stands last.
    """
    shown = items(view)
    if view.head.route.binding != "leading" or not shown:
        return []
    last = shown[-1][1]
    if last.role == "assistant" and not any(type(part) is ToolCall for part in last.parts):
        return []
    loop: list[tuple[int, Message]] = []
    for number, message in reversed(shown):
        if message.role == "user":
            break
        if thoughts(message.parts):
            loop.append((number, message))
    return loop


def made(session: Session) -> list[tuple[int, Request]]:
    """List the requests along the path with the numbers of their entries."""
    sent = [node.number for node in path(session) if type(node.entry) is Sent]
    return list(zip(sent, requests(session), strict=True))


def defect(array: Sequence[Message], start: int = 0) -> str | None:
    """Find the first thing that providers refuse in a message array; None when there is none.

    Provider rules V-A1 to V-A3, V-C1, V-C2: each call is answered once, by the messages right
    behind it, and nothing else is answered; V-A6: no message without content, results excepted.

    >>> from ctxalgebra import ToolCall, assistant, tool_result, user
    >>> defect((user("a"), assistant(ToolCall("c1", "read")), user("b"), tool_result("c1", "42")))
    "message 2 stands where results are due: ['c1']"
    """
    due: list[str] = []
    for index in range(start, len(array)):
        message = array[index]
        if message.role == "tool":
            if message.call not in due:
                return f"message {index} answers no call in front of it: {message.call!r}"
            due.remove(message.call)
            continue
        if due:
            return f"message {index} stands where results are due: {due}"
        if not says_something(message.parts):
            return f"message {index} has no content"
        due = [part.id for part in message.parts if type(part) is ToolCall]
        if len(set(due)) < len(due):
            return f"message {index} holds a call id twice: {due}"
    return f"the last calls have no results: {due}" if due else None
