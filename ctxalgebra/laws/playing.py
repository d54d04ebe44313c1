"""Play against the gate: from bytes, offer it what comes near its rules, and keep what it accepts.

A pure game, like growing: the same bytes give the same session, and smaller ones a simpler one.
Each move looks at the session and makes an entry that is right but for one thing, or right
altogether; so deep states are reached, and each rule is tempted where it alone stands in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import evolve

from ctxalgebra.errors import CtxError
from ctxalgebra.events import open_calls, travel
from ctxalgebra.laws.alphabet import (
    ARGUMENTS,
    HEADS,
    IDS,
    LEGAL,
    NOTICES,
    OUTCOMES,
    RESULTS,
    SPOKEN,
    T1,
    TOLD,
    USAGES,
)
from ctxalgebra.laws.evidence import quieted
from ctxalgebra.model.entries import (
    Answer,
    Ask,
    Cut,
    Drop,
    Entry,
    Label,
    Note,
    Replace,
    Reply,
    Sent,
    Strip,
    UsageReport,
)
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Usage
from ctxalgebra.model.parts import (
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    assistant,
    tool_result,
    user,
)
from ctxalgebra.model.session import Session, at_leaf, find, log
from ctxalgebra.model.view import View

__all__ = ["MOVES", "play"]


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


def _triples(numbers: bytes) -> Iterator[tuple[int, int, int]]:
    return zip(numbers[::3], numbers[1::3], numbers[2::3], strict=False)


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


# Conversation


def _pass(session: Session, _a: int, _b: int) -> Session:
    return session


def _go_on(session: Session, a: int, b: int) -> Session:
    """Do what comes next in a conversation, up to five times."""
    for more in range(1 + b % 5):
        session = _next(session, a + 7 * more, b // 5 + more)
    return session


def _next(session: Session, a: int, b: int) -> Session:
    view = session.view
    if view.flight >= 0:
        reply = Reply(OUTCOMES[b % len(OUTCOMES)], SPOKEN[a % LEGAL], USAGES[a % len(USAGES)])
        return _offered(session, reply)
    if calls := open_calls(session):
        answered = [call for call in view.open if call not in calls]
        if answered and a % 4 > 1:  # a second result for a call that has its own
            call = answered[b % len(answered)]
            return _offered(session, tool_result(call, "once more"))
        call = calls[a // 8 % len(calls)]
        return _offered(session, tool_result(call, RESULTS[b % len(RESULTS)], error=b % 9 == 8))
    if not len(session) and a % 2:
        return _offered(session, HEADS[b % len(HEADS)])
    if view.end and a % 4:
        return _offered(session, Sent())
    return _offered(session, TOLD[b % len(TOLD)])


def _speak(session: Session, a: int, b: int) -> Session:
    """Record a message that may be out of place."""
    match a % 4:
        case 0:
            message = TOLD[b % len(TOLD)]
        case 1:
            message = tool_result(IDS[b % len(IDS)], "x", error=b % 2 == 1)
        case 2:
            ids = session.view.open or IDS
            message = tool_result(ids[b % len(ids)], "")
        case _:
            message = SPOKEN[b % len(SPOKEN)]
    return _offered(session, message)


def _reply(session: Session, a: int, b: int) -> Session:
    """Close a request, as it may not be closed, or more than once, on branches of its own."""
    outcome, usage = OUTCOMES[a % len(OUTCOMES)], USAGES[b % len(USAGES)]
    entry = Reply(outcome, SPOKEN[b % LEGAL], usage)
    match b % 7:
        case 0:
            entry = Reply("completed")
        case 1:
            entry = Reply(
                "completed", tool_result("c1", "I am no model") if a % 5 else user("nor I")
            )
        case 2 | 3:
            entry = Reply("completed", SPOKEN[LEGAL + b % 2])
        case _:
            pass
    sent = [node.number for node in log(session) if type(node.entry) is Sent][-3:]
    if a % 6 or not sent:
        due = session.view.flight >= 0 or a % 6 == 1
        return _offered(session if due else _send(session, 1, b), entry)
    number = sent[a // 6 % len(sent)]
    if b % 2 == 0:
        for again in (Reply("failed"), Reply("completed", SPOKEN[0], usage)):
            session = _offered(at_leaf(session, number), again)
    return _offered(at_leaf(session, number), entry)


def _interfere(session: Session, a: int, b: int) -> Session:
    """Record an event that may be out of place."""
    near = (b // 4 % (len(session) + 1), len(session), -1, len(session) - 1)[b % 4]
    event: Entry
    match a % 9:
        case 0:
            event = Note("n", "d")
        case 1 | 2:
            sent = [node.number for node in log(session) if type(node.entry) is Sent]
            target = sent[-1 - b // 3 % len(sent)] if sent and b % 3 else near
            event = UsageReport(target, Usage(7 + b % 4, 7))
        case 3:
            event = Label(near, "here")
        case 4 | 5:
            event = Ask(f"k{b % 3}", "t", "q")
        case 6:
            event = Answer(near, "answered", "v")
        case _:
            asks = session.view.pending
            event = Answer(asks[0][0] if asks else near, "failed")
    return _offered(session, event, *([event] if b % 3 == 2 else []))


def _send(session: Session, a: int, _: int) -> Session:
    """Let a request leave, whether or not it may."""
    return _offered(quieted(session) if a % 3 else session, Sent())


def _meddle(session: Session, a: int, b: int) -> Session:
    """Decide something while a request is in flight, then let its thinking come."""
    session = _send(session, a, b)
    decide = (_cut, _replace, _strip, _drop, _head)[a % 5]
    session = decide(session, a - a % 6, b) if b % 2 else decide(session, a, b)
    return _offered(session, Reply("completed", (SPOKEN[2], SPOKEN[6], SPOKEN[4])[b % 3]))


# Decisions


def _ready(session: Session, a: int, b: int) -> Session:
    """Close what is open, most of the time: decisions wait for the reply, cuts for results."""
    if a % 6 == 0:
        return session
    if session.view.flight >= 0:
        session = _next(session, a, b)
    for call in open_calls(session) if a % 6 > 2 else ():
        session = _offered(session, tool_result(call, RESULTS[b % len(RESULTS)]))
    return session


def _breaks(view: View, at: int, b: int) -> bool:
    """Declare a break where there is one; now and then where there is none, or not at all."""
    return b % 4 == 0 if b % 3 == 0 else at < view.fixed


def _head(session: Session, a: int, b: int) -> Session:
    return _offered(_ready(session, a, b), HEADS[b % len(HEADS)])


def _strip(session: Session, a: int, b: int) -> Session:
    session = _ready(session, a, b)
    return _offered(session, Strip("strip", _breaks(session.view, session.view.thinking(0), b)))


def _somewhere(session: Session, a: int) -> int:
    """Name a message that is shown, counted from the end; now and then another."""
    view = session.view
    if not view.end or a % 10 == 9:
        return a // 10 % (len(session) + 1)
    if view.front and a % 10 > 6:
        return view.slots.numbers[a // 10 % view.front]
    return view.slots.numbers[view.end - 1 - a // 10 % view.end]


def _cut(session: Session, a: int, b: int) -> Session:
    """Cut at a place where that may be legal, and keep what may be kept, more or less."""
    session = _ready(session, a, b)
    view = session.view
    messages, numbers = view.slots.messages, view.slots.numbers
    shown = range(view.front, view.end)
    parted = [slot for slot in shown if messages[slot + 1 : slot + 2] and messages[slot + 1].call]
    whole = parted if a % 8 == 7 else [slot for slot in shown if slot not in parted]
    if a % 4 != 2:  # else it may take what is not read
        whole = [slot for slot in whole if slot < view.read] or whole
    if not whole:
        return session
    slot = whole[a // 4 % len(whole)]
    users = tuple(numbers[i] for i in range(view.front, slot + 1) if messages[i].role == "user")
    keep: tuple[int, ...] = ()
    match b % 12:
        case 1 | 2:
            keep = users
        case 3 | 4:
            keep = users[-1:]
        case 5:
            keep = users[::-1]
        case 6:
            keep = (_somewhere(session, b),)
        case 7:
            keep = (*users[-1:], len(session) + b % 3 - 1)
        case 8:
            keep = tuple(numbers[slot + 1 : slot + 2])
        case _:
            pass
    notice = NOTICES[(b // 12 % len(NOTICES)) if b % 12 > 9 else b % 2]
    cut = Cut(numbers[slot], notice, "cut", keep, _breaks(view, 0, b // 12))
    after = _offered(session, cut)
    return _touched(after, (len(session), *keep), a, b) if after is not session else session


def _touched(session: Session, front: tuple[int, ...], a: int, b: int) -> Session:
    """Touch what a cut has put in front, its notice and what it kept, or what it took."""
    view = session.view
    first, kept = front[0], front[-1 - a % 4 % len(front)]
    match b % 7:
        case 0:
            return _offered(session, Replace(first, user("my notice"), "notice", breaks=True))
        case 1 | 2 | 3 | 6:
            return _offered(session, Cut(kept, user("again"), "retreat", breaks=True))
        case 4:
            gone = view.frontier - a % 3
            return _offered(session, Cut(gone, user("again"), "retreat", breaks=True))
        case _:
            gone = view.frontier - a % 3
            old = evolve(view.slots.messages[view.end - 1], parts=(Text("old"),))
            return _offered(session, Replace(gone, old, "it is gone", breaks=True))


def _take_back(session: Session, a: int, b: int) -> Session:
    """Change what was sent, declared or not, and change it back."""
    session = _ready(session, a, b)
    view = session.view
    places = [slot for slot in range(view.front, view.end) if not view.slots.messages[slot].calls]
    if not places:
        return session
    slot = places[-1 - a % len(places)]
    number, shown = view.slots.numbers[slot], view.slots.messages[slot]
    other = evolve(shown, parts=(Text("for a while"),))
    declared = b % 4 != 0
    session = _offered(session, Replace(number, other, "change", declared))
    if b % 3 == 0:
        session = _replace(session, a, b)
    return _offered(session, Replace(number, shown, "and back", declared or b % 3 == 0))


def _edit_both(session: Session, a: int, b: int) -> Session:
    """Change the first message that was not sent, as no break, then one that was, and send."""
    session = _ready(session, a, b)
    view = session.view
    slots = (view.fixed, view.front + b % max(1, view.fixed - view.front))
    for slot, breaks in zip(slots, (False, True), strict=True):
        if slot < session.view.end:
            number, shown = session.view.slots.numbers[slot], session.view.slots.messages[slot]
            longer = evolve(shown, parts=(*shown.parts, Text("more")))
            session = _offered(session, Replace(number, longer, "edit", breaks))
    return _send(session, 1, b)


def _drop(session: Session, a: int, b: int) -> Session:
    session = _ready(session, a, b)
    view = session.view
    starts = [slot for slot in range(view.end) if view.slots.messages[slot].calls]
    if a % 4:  # else it may take what is not read
        starts = [slot for slot in starts if slot + 1 < view.read] or starts
    if not starts:
        return session
    first = starts[a % len(starts)]
    last = first + len(view.slots.messages[first].calls)
    match b % 12:
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
    breaks = _breaks(view, first, b // 12)
    return _offered(session, Drop(numbers[first], numbers[last], "drop", breaks))


# Replacements

WITH_CALLS = (0, 6, 6, 6, 7, 8, 3, 5, 9, 10, 11, 2, 2, 4, 15)
WITHOUT = (0, 0, 2, 2, 3, 4, 5, 9, 10, 11, 12, 12, 12, 13, 13, 14, 15)
"""Which changes are near misses for messages with calls, and without."""


def _replace(session: Session, a: int, b: int) -> Session:
    session = _ready(session, a, b)
    view = session.view
    slots = range(view.end)
    called = [i for i in slots if view.slots.messages[i].calls]
    thinks = [i for i in slots if view.slots.messages[i].thinks]
    some = ((), called, thinks, thinks)[a % 4]
    target = view.slots.numbers[some[b % len(some)]] if some else _somewhere(session, a // 4)
    shown = _shown(session, target, original=b % 5 == 2)
    kinds = WITH_CALLS if shown.calls else WITHOUT
    breaks = _breaks(view, view.slot(target), a // 5)
    for message in _changed(shown, kinds[b % len(kinds)], a % 7):
        session = _offered(session, Replace(target, message, "replace", breaks))
    return session


def _rewrite(session: Session, a: int, b: int) -> Session:
    """Change the arguments of a call, or the text in front of thinking."""
    session = _ready(session, a, b)
    view = session.view
    messages, numbers = view.slots.messages, view.slots.numbers
    called = [slot for slot in range(view.end) if messages[slot].calls]
    signed = [slot for slot in called if any(c.signature for c in messages[slot].calls)]
    behind = [
        slot
        for slot in range(view.end)
        if messages[slot].thinks and type(messages[slot].parts[0]) is Text
    ]
    slots = (signed, behind, called)[a % 3] or signed or behind or called
    if not slots:
        return session
    slot = slots[b // 4 % len(slots)]
    parts = messages[slot].parts
    if type(parts[0]) is Text and a % 3 == 1:
        parts = (Text("rewritten"), *parts[1:])
    elif messages[slot].calls:
        other = ('{"a":3}', "{}", "[]", "{")[b % (4 if a % 3 else 2)]
        parts = _with_call(parts, b // 4, lambda call: evolve(call, arguments=other))
    breaks = _breaks(view, slot, a // 3)
    rewritten = evolve(messages[slot], parts=parts)
    return _offered(session, Replace(numbers[slot], rewritten, "rewrite", breaks))


def _bring_back(session: Session, a: int, b: int) -> Session:
    """Show a message again as it was recorded, with the thinking that it lost since."""
    session = _ready(session, a, b)
    view = session.view
    if view.thinking(0) < view.end and b % 2 == 0:
        session = _offered(session, Strip("strip", breaks=True))
    lost = [
        (number, original)
        for number in view.slots.numbers[: view.end]
        if (original := _shown(session, number, original=True)).thinks
        and original != _shown(session, number, original=False)
    ]
    if not lost:
        return session
    number, original = lost[a % len(lost)]
    return _offered(session, Replace(number, original, "bring it back", breaks=True))


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


# The tree


def _travel(session: Session, a: int, b: int) -> Session:
    """Go a few entries back, or anywhere."""
    target = a % (len(session) + 1) - 1 if b % 4 == 1 else len(session) - 1 - a % 16
    if target < 0 or b % 3 == 2:
        return at_leaf(session, max(target, -1))
    return travel(session, target)


def _pad(session: Session, a: int, b: int) -> Session:
    """Fill up, now and then, to about where the folds are remembered next."""
    missing = 66 - len(session) % 64
    return _offered(session, *[Note("pad")] * (a % missing if b % 3 == 0 else 1))


MOVES: tuple[Callable[[Session, int, int], Session], ...] = (
    _pass,
    *[_go_on] * 15,
    *[_send] * 2,
    *[_speak] * 3,
    *[_reply] * 5,
    *[_interfere] * 5,
    *[_meddle] * 3,
    *[_cut] * 5,
    *[_replace] * 7,
    *[_rewrite] * 6,
    *[_take_back] * 3,
    *[_bring_back] * 3,
    *[_edit_both] * 2,
    *[_drop] * 5,
    *[_strip] * 2,
    *[_head] * 2,
    *[_travel] * 2,
    _pad,
)
"""What a hostile journal is made of; a third of it goes on with the conversation."""
