"""Grow sessions from bytes: politely, or by offering the gate its near misses.

A pure game: the same bytes give the same session, and fewer or smaller ones give a simpler
one, which is what makes a counterexample small. Needs no test library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import evolve

from ctxalgebra.errors import CtxError
from ctxalgebra.events import abandon, open_calls, travel
from ctxalgebra.laws.evidence import quieted
from ctxalgebra.model.entries import (
    Answer,
    Ask,
    Cut,
    Drop,
    Entry,
    Label,
    Note,
    Outcome,
    Replace,
    Reply,
    Sent,
    Strip,
    UsageReport,
)
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Head, Route, Tool, Usage
from ctxalgebra.model.parts import (
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    assistant,
    system,
    tool_result,
    user,
)
from ctxalgebra.model.session import Session, at_leaf, find
from ctxalgebra.project import reply, send
from ctxalgebra.transforms.pipeline import Stage

__all__ = [
    "ARGUMENTS",
    "HEADS",
    "IDS",
    "LEGAL",
    "MOVES",
    "SPOKEN",
    "TEXTS",
    "grow",
    "play",
]

IDS = ("c1", "c2", "c3")
TEXTS = ("a", "b", "c" * 40, "d" * 300)
ARGUMENTS = ("{}", '{"a":1}', '{"a":2}', "[]", '"a"', "not json")

T1, T2, T3 = Thinking("t1", "s1"), Thinking("t2", "s2"), Thinking("", "s3", redacted=True)
OPAQUE = Opaque("server_tool", "{}")
SIGNED = ToolCall("c1", "read", '{"a":1}', signature="g")
C1, C2, C3 = (ToolCall(i, "read", '{"a":1}') for i in IDS)

SPOKEN: tuple[Message, ...] = (
    assistant("ok"),
    assistant(C1),
    assistant(T1, C1),
    assistant(C1, C2),
    assistant("now", T1, "then", T2, C1),
    assistant(C2, C1),
    assistant(T1, "ok"),
    assistant(T2, SIGNED, C2),
    assistant("ok", T2),
    assistant(C3, OPAQUE),
    assistant(SIGNED),
    assistant(T3, "d" * 300, C2),
    assistant(SIGNED, C2),
    assistant(T1),
    assistant(),
    assistant("", C1),
    assistant(T1, "ok", " ", C2),
    assistant(C1, ToolCall("c1", "write")),
    assistant(ToolCall("", "read")),
)
"""What a model says: text, thinking and calls in every order; the last two are illegal."""

LEGAL = len(SPOKEN) - 2

HEADS: tuple[Head, ...] = (
    Head(),
    Head(Route(binding="leading")),
    Head(Route(binding="none")),
    Head(system="Be brief."),
    Head(system="Be brief.", tools=(Tool("read", "Reads."),)),
    Head(Route("p", "m", (("effort", '"low"'),), "leading"), "Be brief."),
)
OUTCOMES: tuple[Outcome, ...] = ("completed", "completed", "completed", "failed", "aborted", "lost")
USAGES = (None, Usage(8, 2), Usage(100, 5, 50, 20), Usage(0, 1), None)


# Polite


def grow(stage: Stage, head: int, turns: Sequence[bytes]) -> Session:
    """Grow a session the way a good harness does: settle, send, reply, run the tools.

    Args:
        stage: settles before each request.
        head: which of `HEADS` is stated first.
        turns: of each, what happens behind it, the user's text, and for each round three bytes:
            what the model says, what comes of the request, what happens beside it.

    >>> from ctxalgebra import pipeline
    >>> grow(pipeline(), 0, [bytes([0, 0, 1, 0, 0, 0, 0, 0])])
    <Session: 7 entries, 4 shown>
    """
    session = record(Session(), HEADS[head % len(HEADS)])
    for after, text, *rounds in turns:
        session = record(quieted(session), user(TEXTS[text % len(TEXTS)]))
        for said, outcome, beside in _triples(rounds):
            session = _round(stage, session, SPOKEN[said % LEGAL], outcome, beside)
        if after % 8 == 6:
            session = _offered(quieted(session), HEADS[after % len(HEADS)])
        elif after % 8 == 7:
            session = travel(session, after * 7 % len(session))
    return session


def _triples(numbers: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    return zip(numbers[::3], numbers[1::3], numbers[2::3], strict=False)


def _round(stage: Stage, session: Session, said: Message, outcome: int, beside: int) -> Session:
    session, _ = send(_attempt(stage, quieted(session)))
    if beside % 7 == 6:
        session = record(session, user("steering, in flight"))
    usage = USAGES[outcome % len(USAGES)]
    session = reply(session, OUTCOMES[outcome % len(OUTCOMES)], said, usage=usage)
    while calls := open_calls(session):
        if beside % 11 == 10:
            session = record(session, user("steering, between results"))
        call = calls[beside % len(calls)]
        if beside % 13 == 12:
            session = abandon(session, call, "the tool was killed")
        else:
            result = tool_result(call, TEXTS[beside % len(TEXTS)], name="read")
            session = record(session, result)
        beside += 1
    return session


def _attempt(stage: Stage, session: Session) -> Session:
    # When a stage raises, the last legal projection can still be sent; totality tells on it.
    try:
        return stage(session)
    except Exception:  # noqa: BLE001 - whatever it raises
        return session


# Hostile


def play(chunks: Sequence[bytes]) -> Session:
    """Offer the gate what the moves say, and keep what it accepts.

    Args:
        chunks: of moves, each of three bytes: which of `MOVES`, and two that choose what it does.

    >>> play([bytes([1, 0, 0, 1, 1, 0])])
    <Session: 2 entries, 1 shown>
    """
    session = Session()
    for chunk in chunks:
        for which, a, b in _triples(chunk):
            session = _moved(session, which, a, b)
    return session


def _moved(session: Session, which: int, a: int, b: int) -> Session:
    # What a damaged library raises is for the laws to tell; the game goes on without the move.
    try:
        return MOVES[which % len(MOVES)](session, a, b)
    except Exception:  # noqa: BLE001 - whatever it raises
        return session


def _offered(session: Session, *entries: Entry) -> Session:
    for entry in entries:
        try:
            session = record(session, entry)
        except CtxError:
            break
    return session


def _pass(session: Session, _a: int, _b: int) -> Session:
    return session


def _go_on(session: Session, a: int, b: int) -> Session:
    """Do what comes next in a conversation, up to three times."""
    for more in range(1 + b % 3):
        session = _next(session, a + 7 * more, b // 3 + more)
    return session


def _next(session: Session, a: int, b: int) -> Session:
    if session.view.flight >= 0:
        said, usage = SPOKEN[a % len(SPOKEN)], USAGES[b % len(USAGES)]
        return _offered(session, Reply(OUTCOMES[b % len(OUTCOMES)], said, usage))
    if calls := open_calls(session):
        return _offered(session, tool_result(calls[a % len(calls)], TEXTS[b % len(TEXTS)]))
    if session.view.end and a % 4:
        return _offered(session, Sent())
    return _offered(session, user(TEXTS[b % len(TEXTS)]))


def _speak(session: Session, a: int, b: int) -> Session:
    """Record a message that may be out of place."""
    match a % 4:
        case 0:
            message = (user("b"), user("  "), system("s"), user("steering"))[b % 4]
        case 1:
            message = tool_result(IDS[b % 3], "x", error=b % 2 == 1)
        case 2:
            ids = session.view.open or IDS
            message = tool_result(ids[b % len(ids)], "")
        case _:
            message = SPOKEN[b % len(SPOKEN)]
    return _offered(session, message)


def _interfere(session: Session, a: int, b: int) -> Session:
    """Record an event that may be out of place."""
    near = b % (len(session) + 2) - 1
    event: Entry
    match a % 9:
        case 0:
            event = Note("n", "d")
        case 1:
            event = Reply("completed", None)
        case 2:
            event = Reply("completed", SPOKEN[b % len(SPOKEN)])
        case 3:
            event = Reply("completed", (user("I am no model"), tool_result("c1", "nor I"))[b % 2])
        case 4:
            event = UsageReport(near, Usage(7, 7))
        case 5:
            event = Label(near, "here")
        case 6:
            event = Ask(f"k{b % 3}", "t", "q")
        case 7:
            event = Answer(near, "answered", "v")
        case _:
            asks = session.view.pending
            event = Answer(asks[0][0] if asks else near, "failed")
    return _offered(session, event, *([event] if b % 5 == 4 else []))


def _send(session: Session, a: int, _: int) -> Session:
    """Let a request leave, whether or not it may."""
    return _offered(quieted(session) if a % 3 else session, Sent())


def _head(session: Session, a: int, b: int) -> Session:
    return _offered(_landed(session, a, b), HEADS[b % len(HEADS)])


def _strip(session: Session, a: int, b: int) -> Session:
    return _offered(_landed(session, a, b), Strip("strip", breaks=bool(a % 4)))


def _landed(session: Session, a: int, b: int) -> Session:
    """Close the request in flight, most of the time: decisions must wait for its reply."""
    return _next(session, a, b) if session.view.flight >= 0 and (a + b) % 6 else session


def _somewhere(session: Session, a: int, b: int) -> int:
    """Name a message that is shown, counted from the end; now and then one that is protected."""
    view = session.view
    if not view.end or a % 10 == 9:
        return a // 10 % (len(session) + 1)
    if view.front and a % 10 == 8:
        return view.slots.numbers[b // 8 % view.front]
    return view.slots.numbers[view.end - 1 - a // 10 % view.end]


NOTICES = (
    user("notice"),
    user("another notice"),
    user(" "),
    assistant("notice"),
    assistant(C1),
    tool_result("c1", "notice"),
)


def _cut(session: Session, a: int, b: int) -> Session:
    session = _landed(session, a, b)
    view = session.view
    through = _somewhere(session, a, b)
    slot = view.slot(through)
    users = tuple(
        view.slots.numbers[i] for i in range(slot + 1) if view.slots.messages[i].role == "user"
    )
    keep: tuple[int, ...] = ()
    match b % 8:
        case 1:
            keep = users
        case 2 | 3:
            keep = users[-1:]
        case 4:
            keep = users[::-1]
        case 5:
            keep = (_somewhere(session, b, a),)
        case _:
            pass
    notice = NOTICES[b % len(NOTICES)] if b % 8 == 6 else NOTICES[b % 2]
    return _offered(session, Cut(through, notice, "cut", keep, breaks=b % 8 != 7))


def _drop(session: Session, a: int, b: int) -> Session:
    session = _landed(session, a, b)
    view = session.view
    starts = [slot for slot in range(view.end) if view.slots.messages[slot].calls]
    if not starts:
        return session
    first = starts[a % len(starts)]
    last = first + len(view.slots.messages[first].calls)
    match b % 10:
        case 1:
            first -= 1
        case 2:
            first += 1
        case 3:
            last -= 1
        case 4:
            last += 1
        case 5:
            last = view.end - 1
        case _:
            pass
    if not 0 <= first <= last < view.end:
        return session
    numbers = view.slots.numbers
    return _offered(session, Drop(numbers[first], numbers[last], "drop", breaks=b % 10 != 6))


WITH_CALLS = (0, 6, 6, 6, 7, 8, 3, 5, 9, 10, 11, 2, 4, 15)
WITHOUT = (0, 0, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14, 15)
"""Which changes are near misses for messages with calls, and without."""


def _replace(session: Session, a: int, b: int) -> Session:
    session = _landed(session, a, b)
    view = session.view
    called = [view.slots.numbers[i] for i in range(view.end) if view.slots.messages[i].calls]
    target = called[b % len(called)] if called and a % 3 == 0 else _somewhere(session, a, b)
    shown = _shown(session, target, original=b % 3 == 2)
    kinds = WITH_CALLS if shown.calls else WITHOUT
    for message in _changed(shown, kinds[b % len(kinds)], a % 7):
        session = _offered(session, Replace(target, message, "replace", breaks=b % 7 != 6))
    return session


def _shown(session: Session, number: int, *, original: bool) -> Message:
    view = session.view
    slot = view.slot(number)
    shown = view.slots.messages[slot] if slot >= 0 else user("old")
    node = find(session, number) if original else None
    if node is not None and isinstance(node.entry, Reply):
        return node.entry.message or shown
    return node.entry if node is not None and isinstance(node.entry, Message) else shown


def _changed(message: Message, kind: int, place: int) -> tuple[Message, ...]:
    """Change one thing about a message, at a place; kind 15 changes nothing."""
    if kind == 13 and message.role == "tool":
        return (evolve(message, error=not message.error), evolve(message, call="c3"))
    if kind == 14:
        plain = tuple(p for p in message.parts if type(p) is Text)
        return (user(plain), assistant(*plain), tool_result("c1", plain))
    try:
        return (evolve(message, parts=_new_parts(message, kind, place)),)
    except CtxError:
        return ()


def _new_parts(message: Message, kind: int, place: int) -> tuple[Part, ...]:
    old = message.parts
    index = place % len(old) if old else 0
    before, after = old[:index], old[index + 1 :]
    match kind:
        case 0 | 1:
            return tuple(Text("stub") if type(p) is Text else p for p in old) or (Text("stub"),)
        case 2:
            return (*before, Text("edited"), *after)
        case 3:
            return (*before, *after)
        case 4:
            return (*before, Text("more" if place % 3 else " "), *old[index:])
        case 5:
            return tuple(reversed(old))
        case 6:
            return _with_call(old, index, lambda c: evolve(c, arguments=ARGUMENTS[place % 6]))
        case 7:
            return _with_call(old, index, lambda c: evolve(c, name="write"))
        case 8:
            return _with_call(old, index, lambda c: evolve(c, id="c3"))
        case 9:
            return (T1, *old)
        case 10:
            return tuple(p for p in old if type(p) is not Thinking)
        case 11:
            return tuple(p for p in old if type(p) is not Opaque)
        case 12:
            return () if place % 2 else (Text(" "),)
        case _:
            return old


def _with_call(
    old: tuple[Part, ...], index: int, change: Callable[[ToolCall], ToolCall]
) -> tuple[Part, ...]:
    calls = [(at, part) for at, part in enumerate(old) if isinstance(part, ToolCall)]
    at, call = calls[index % len(calls)]
    return (*old[:at], change(call), *old[at + 1 :])


def _travel(session: Session, a: int, b: int) -> Session:
    target = a % (len(session) + 1) - 1
    if target < 0 or b % 3 == 2:
        return at_leaf(session, target)
    return travel(session, target)


def _pad(session: Session, a: int, b: int) -> Session:
    """Fill up, now and then, to about where the folds are remembered next."""
    missing = 66 - len(session) % 64
    return _offered(session, *[Note("pad")] * (a % missing if b % 3 == 0 else 1))


MOVES: tuple[Callable[[Session, int, int], Session], ...] = (
    _pass,
    *[_go_on] * 18,
    *[_send] * 3,
    *[_speak] * 4,
    *[_interfere] * 6,
    *[_cut] * 5,
    *[_replace] * 6,
    *[_drop] * 4,
    *[_strip] * 2,
    *[_head] * 3,
    *[_travel] * 3,
    _pad,
)
"""What a hostile journal is made of; half of it goes on with the conversation."""
