"""Laws of what is sent: valid, faithful, bound, and each request an extension of the last."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ctxalgebra.account import breaks
from ctxalgebra.errors import CtxError
from ctxalgebra.laws.evidence import (
    again,
    asked,
    branches,
    defect,
    each_branch,
    items,
    legible,
    made,
    may_rewrite,
    messages,
    news,
    open_loop,
    pairs,
    quieted,
    said,
    says_something,
    shared,
    steps,
    thoughts,
)
from ctxalgebra.model.entries import DECISIONS, Cut, Entry, Reply, Sent
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message, Opaque, Thinking, ToolCall, user
from ctxalgebra.model.session import Session
from ctxalgebra.profiles import PROFILES, Violation, violations
from ctxalgebra.project import Request, project, send

__all__ = [
    "call_order",
    "faithful",
    "frozen_notice",
    "leading_thinking",
    "no_false_alarm",
    "no_silent_break",
    "prefix_extension",
    "progress",
    "protocol_validity",
    "provider_validity",
    "sent_requests_are_frozen",
    "thinking_binding",
]

Items = list[tuple[int, Message]]


@each_branch
def protocol_validity(session: Session) -> str | None:
    """In every request each call is answered once, right behind it, and no message is empty."""
    for one, known in news(session):
        array = one.request.messages
        if not array:
            return f"the request of entry {one.number} is empty"
        if found := defect(array, _begin(array, known)):
            return f"in the request of entry {one.number}, {found}"
    return None


PROMISED = frozenset(
    ("V-A1", "V-A2", "V-A3", "V-A6", "V-C1", "V-C2", "V-R1", "V-R2", "V-G3", "V-B3")
)
"""Rules that no request breaks, whatever was recorded."""

BEGINNING = frozenset(("V-B1", "V-G1", "V-G2"))
"""Rules that hold where the history begins with a user: that is the caller's to record."""


def provider_validity(session: Session) -> str | None:
    """A request breaks no rule of pairing and content of any provider profile.

    Where the history begins with a user message, it keeps those on beginnings, too.
    """
    seen: set[int] = set()
    for branch in branches(session):
        first = next((m for m in messages(branch).values() if says_something(m.parts)), None)
        promised = PROMISED
        if first is not None and first.role == "user":
            promised |= BEGINNING
        for one in asked(branch):
            # Branches share what was sent in front of their fork.
            if one.number not in seen and (found := _refused(one.request, promised)):
                where = f"message {found.index} in the request of entry {one.number}"
                return f"{where} breaks {found.rule}: {found.detail}"
            if one.number < len(session):
                seen.add(one.number)
    return None


def _refused(request: Request, promised: frozenset[str]) -> Violation | None:
    broken = (found for p in PROFILES.values() for found in violations(request.messages, p))
    return next((found for found in broken if found.rule in promised), None)


@each_branch
def call_order(session: Session) -> str | None:
    """In every request results stand in the order of their calls, whichever came first."""
    for one, known in news(session):
        array = one.request.messages
        if found := _disorder(array, _begin(array, known)):
            return f"in the request of entry {one.number}, {found}"
    return None


def _begin(array: Sequence[Message], known: int) -> int:
    """Go back from what is known to be right to where its last exchange begins."""
    while known and (array[known - 1].role == "tool" or array[known - 1].calls):
        known -= 1
    return known


def _disorder(array: Sequence[Message], start: int) -> str | None:
    """Find results that stand in another order than their calls."""
    for index in range(start, len(array)):
        ids = [part.id for part in array[index].parts if type(part) is ToolCall]
        got = [message.call for message in array[index + 1 : index + 1 + len(ids)]]
        if ids != got:
            return f"behind message {index} stand the results {got}, called were {ids}"
    return None


@each_branch
def faithful(session: Session) -> str | None:
    """What is shown of a message keeps its role, its calls, its signatures and its opaque parts.

    Arguments of calls keep their JSON type, results whether they are errors.
    """
    recorded = messages(session)
    for one, known in news(session):
        for slot in range(known, len(one.numbers)):
            number = one.numbers[slot]
            if found := _unfaithful(recorded[number], one.request.messages[slot]):
                return f"message {number} in the request of entry {one.number} has {found}"
    return None


def _unfaithful(old: Message, new: Message) -> str | None:
    if (old.role, old.call, old.error) != (new.role, new.call, new.error):
        return "another role, call or error flag"
    if [(c.id, c.name) for c in old.calls] != [(c.id, c.name) for c in new.calls]:
        return "other calls"
    for before, after in zip(old.calls, new.calls, strict=True):
        if before != after and (before.signature or after.signature):
            return f"the signed call {before.id!r} rewritten"
        if before.arguments != after.arguments:
            kinds = _json_kind(before.arguments), _json_kind(after.arguments)
            if kinds[1] is None or kinds[0] not in (None, kinds[1]):
                return f"arguments of another type in call {before.id!r}"
    if [p for p in old.parts if type(p) is Opaque] != [p for p in new.parts if type(p) is Opaque]:
        return "other opaque parts"
    return None


def _json_kind(text: str) -> str | None:
    try:
        return type(json.loads(text)).__name__
    except (ValueError, RecursionError):
        return None


# Thinking


@each_branch
def thinking_binding(session: Session) -> str | None:
    """Thinking is shown as it came, and behind exactly what it was bound to.

    Once hidden it never comes back.
    """
    recorded, bound = messages(session), _bound_to(session)
    shown: set[tuple[int, int]] = set()
    last: Request | None = None
    before = -1
    for one in asked(session):
        request = one.request
        known = len(last.messages) if last is not None and request.extends(last) else 0
        now = set(shown) if known else set[tuple[int, int]]()
        for slot in range(known, len(request.messages)):
            message, number = request.messages[slot], one.numbers[slot]
            places = [i for i, part in enumerate(message.parts) if type(part) is Thinking]
            if not places:
                continue
            where = f"the thinking of message {number} in the request of entry {one.number}"
            parts = recorded[number].parts
            thoughts = [part for part in parts if type(part) is Thinking]
            if [message.parts[i] for i in places] != thoughts[: len(places)]:
                return f"{where} is not the original, from its start"
            now.update((number, i) for i in range(len(places)))
            if request.head.route.binding == "none":
                continue
            if message.parts[: places[-1] + 1] != parts[: places[-1] + 1]:
                return f"{where} stands behind other parts than it was bound to"
            if wrong := _unbound(bound[number], request, slot):
                return f"{where} was bound to another {wrong}"
        back = [number for number, _ in now - shown if number < before]
        if back:
            return f"the thinking of message {min(back)} is back in the request of {one.number}"
        before, shown, last = one.number, now, request
    return None


def _bound_to(session: Session) -> dict[int, Request]:
    """Map each thinking message to what stood in front of it when the model wrote it.

    Before a head was stated or a request sent, nobody knows the head; the first to come tells it.
    """
    bound: dict[int, Request] = {}
    unknown: dict[int, Request] = {}
    request = Request(Head(), ())
    stated = False
    for step in steps(session):
        entry, message = step.entry, said(step.entry)
        if not stated and type(entry) in (Head, Sent):
            stated = True
            bound.update((n, Request(step.after.head, r.messages)) for n, r in unknown.items())
        if type(entry) is Sent:
            request = Request(step.after.head, step.after.messages())
        elif message is not None and message.thinks:
            replied = type(entry) is Reply
            front = request if replied else Request(step.before.head, step.before.messages())
            (bound if stated else unknown)[step.number] = front
    return bound if stated else unknown


def _unbound(bound: Request, request: Request, slot: int) -> str | None:
    if bound.head != request.head:
        return "head"
    if bound.messages != request.messages[:slot]:
        place = shared(bound, Request(request.head, request.messages[:slot]))
        return f"prefix: message {place} differs"
    return None


@each_branch
def leading_thinking(session: Session) -> str | None:
    """Where a tool loop must begin with its thinking, no entry takes that from an open loop."""
    for step in steps(session):
        if not may_rewrite(step.entry):
            continue
        now = dict(items(step.after))
        for number, message in open_loop(step.before):
            left = now[number].parts if number in now else ()
            if thoughts(left) != thoughts(message.parts):
                return f"entry {step.number} takes thinking of message {number} from an open loop"
    return None


@each_branch
def progress(session: Session) -> str | None:
    """From every session a request can leave, once what is open is closed."""
    try:
        send(record(quieted(session), user("go on")))
    except CtxError as error:
        return f"at the end of {len(session)} entries no request can leave: {error}"
    return None


@each_branch
def frozen_notice(session: Session) -> str | None:
    """The notice of a cut stands first, as it was recorded, until the next cut."""
    notice: tuple[int, Message] | None = None
    for step in steps(session):
        if type(step.entry) is Cut:
            notice = step.number, legible(step.entry.notice)
        slots = step.after.slots
        if notice is not None and (slots.numbers[0], slots.messages[0]) != notice:
            return f"after entry {step.number} the notice of entry {notice[0]} is not as it was"
    return None


def _declares(entry: Entry) -> bool:
    return type(entry) is Head or (isinstance(entry, DECISIONS) and entry.breaks)


@each_branch
def prefix_extension(session: Session) -> str | None:
    """A request extends the one before it unless an entry between them declares a break."""
    for pair in pairs(session):
        if pair.at is not None and not any(map(_declares, pair.between.values())):
            return (
                f"the request of entry {pair.later} doesn't extend that of entry "
                f"{pair.earlier}: they part at message {pair.at}"
            )
    return None


@each_branch
def no_silent_break(session: Session) -> str | None:
    """Each request that doesn't extend the one before it is listed as a break."""
    listed = {broke.sent for broke in breaks(session)}
    for pair in pairs(session):
        if pair.at is not None and pair.later not in listed:
            return f"the break at entry {pair.later}, message {pair.at}, is not listed"
    return None


@each_branch
def no_false_alarm(session: Session) -> str | None:
    """Each listed break is one, at the exact position, laid to entries that declare it."""
    known = {pair.later: pair for pair in pairs(session)}
    for broke in breaks(session):
        pair = known.pop(broke.sent, None)
        if pair is None or pair.at is None:
            return f"a break is listed at entry {broke.sent}, where there is none"
        if broke.at != pair.at:
            return f"the break at entry {broke.sent} is at {pair.at}, not at {broke.at}"
        by = [pair.between.get(number) for number in broke.by]
        if not by or any(entry is None or not _declares(entry) for entry in by):
            return f"the break at entry {broke.sent} is laid to {broke.by}"
    return None


def sent_requests_are_frozen(session: Session) -> str | None:
    """What the journal says of a request is what was projected when it was sent."""
    sent = {
        len(value) - 1: project(value)
        for value in again(session)
        if value.last is not None and type(value.last.entry) is Sent
    }
    for branch in branches(session):
        for number, request in made(branch):
            if request != sent[number]:
                return f"the request of entry {number} is not the one that was sent"
    return None
