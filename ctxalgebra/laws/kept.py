"""Laws of what is kept: journals, states of messages, the frontier, the accounts."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TypeVar

from ctxalgebra.account import account, breaks
from ctxalgebra.calibration import calibrate
from ctxalgebra.effects import pending
from ctxalgebra.errors import CtxError
from ctxalgebra.events import labels, travel
from ctxalgebra.explain import explain
from ctxalgebra.laws.evidence import (
    Step,
    again,
    bare,
    branches,
    each_branch,
    items,
    legible,
    made,
    may_rewrite,
    messages,
    numbers,
    open_loop,
    said,
    says_something,
    shared,
    steps,
    thoughts,
)
from ctxalgebra.model.entries import (
    DECISIONS,
    Answer,
    Ask,
    Cut,
    Drop,
    Entry,
    Label,
    Replace,
    Reply,
    Sent,
    UsageReport,
)
from ctxalgebra.model.head import Head, Usage
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Fold, Node, Session, at_leaf, fold, log, path
from ctxalgebra.model.view import EMPTY_VIEW, View, step
from ctxalgebra.project import Request, project, requests
from ctxalgebra.tokens import chars4

__all__ = [
    "accounts",
    "append_only",
    "conservation",
    "effective",
    "forward_only_frontier",
    "no_unread_drop",
    "references",
    "replay",
    "travel_returns_the_request",
]

SAMPLE = 16
"""Of how many entries, about, a law asks what costs the path each time."""

Items = list[tuple[int, Message]]

T = TypeVar("T")


def _some(values: Sequence[T], many: int = SAMPLE) -> Sequence[T]:
    return values[:: max(1, len(values) // many)]


_TRACE: Fold[int] = Fold(
    "trace", 7, lambda value, node, view: (value * 31 + node.number * 7 + view.end) % 1_000_003
)
_LOG_TRACE: Fold[int] = Fold("log-trace", 7, _TRACE.step, along="log")


def replay(session: Session) -> str | None:
    """Recording the journal again through the gate gives it back, as does pickling.

    What folds remember is what they give from scratch, at every entry.
    """
    again_session = Session()
    try:
        for again_session in again(session):
            fold(again_session, _TRACE)
            fold(again_session, _LOG_TRACE)
    except CtxError as error:
        return f"recorded again, the journal is refused: {error}"
    leaf = -1 if session.leaf is None else session.leaf.number
    copies = {
        "recorded again": at_leaf(again_session, leaf),
        "pickled": pickle.loads(pickle.dumps(session)),  # noqa: S301 - bytes of our own
    }
    told = _tells(session)
    for how, copy in copies.items():
        if copy != session:
            return f"{how}, the journal is another"
        for name, value in _tells(copy).items():
            if value != told[name]:
                return f"{how}, the session gives another {name}"
    return _memory(copies["recorded again"])


def _tells(session: Session) -> dict[str, object]:
    """Collect what the public queries say."""
    return {
        "project": project(session),
        "requests": requests(session),
        "account": account(session),
        "breaks": breaks(session),
        "calibrate": calibrate(session),
        "labels": labels(session),
        "pending": pending(session),
        "view": _plain(session.view),
    }


_MARKS = tuple(name for name in View._fields if name not in ("slots", "sent"))


def _plain(view: View) -> tuple[object, ...]:
    sent = view.sent
    seen = None if sent is None else (sent.number, sent.head, sent.shared, sent.before)
    marks = tuple(getattr(view, name) for name in _MARKS)
    return (view.messages(), numbers(view), seen, marks)


def _memory(session: Session) -> str | None:
    """Compare what is remembered with what comes from scratch, at every entry."""
    trace: dict[Node | None, int] = {None: _TRACE.init}
    views: dict[Node | None, View] = {None: EMPTY_VIEW}
    total = _LOG_TRACE.init
    for node in log(session):
        view = views[node] = step(views[node.parent], node.number, node.entry)
        trace[node] = _TRACE.step(trace[node.parent], node, view)
        total = _LOG_TRACE.step(total, node, view)
    if _plain(session.view) != _plain(views[session.leaf]):
        return "the view at the leaf is not the one from scratch"
    if fold(session, _LOG_TRACE) != total:
        return "a fold over the log is not the one from scratch"
    for node in _some(log(session)):
        session = at_leaf(session, node.number)
        if _plain(session.view) != _plain(views[node]):
            return f"at entry {node.number} the remembered view is not the one from scratch"
        if fold(session, _TRACE) != trace[node]:
            return f"at entry {node.number} a remembered fold is not the one from scratch"
    return None


def append_only(session: Session) -> str | None:
    """Entries stand in the order of recording; recording more changes no earlier session."""
    nodes = log(session)
    for index, node in enumerate(nodes):
        if node.number != index or (node.parent is not None and node.parent.number >= index):
            return f"entry {index} stands at a wrong place"
    every = max(1, len(nodes) // 256)
    seen = [
        (value, len(value), project(value))
        for value in again(session)
        if not (len(value) - 1) % every
    ]
    for value, length, request in seen:
        if (len(value), project(value)) != (length, request):
            return f"the session after entry {length - 1} changed when more was recorded"
    return None


@each_branch
def forward_only_frontier(session: Session) -> str | None:
    """Each cut moves the frontier forward, and what has left never comes back."""
    order: dict[int, int] = {}
    gone: set[int] = set()
    frontier = -1
    for one in steps(session):
        entry, before, after = one.entry, one.before, one.after
        if type(entry) is Cut:
            place = order.get(entry.through, -1)
            if place <= frontier:
                return f"the cut of entry {one.number} does not move the frontier forward"
            frontier = place
        appended = after.slots is before.slots and after.end >= before.end
        now = after.slots.numbers[before.end if appended else 0 : after.end]
        if not appended:
            gone.update(set(numbers(before)) - set(now))
        for number in now:
            if number in gone:
                return f"message {number}, which had left, is back at entry {one.number}"
            order.setdefault(number, len(order))
    return None


def travel_returns_the_request(session: Session) -> str | None:
    """Travelling is possible to every entry, and gives back the request that was sent there.

    Byte for byte under the same head, from the request itself as from the message in front of it.
    It lands on the entry or a decision behind it, or in front of a request. The current head holds
    there, unless an open loop must keep its thinking.
    """
    nodes = log(session)
    for node in _some(nodes):
        back = travel(session, node.number)
        landed = next((n for n in reversed(path(back)) if n.number < len(session)), None)
        if landed is not node and not _landing(node, landed):
            return f"travelling to entry {node.number} lands on {landed}"
        if back.head != session.head and not open_loop(back.view):
            return f"travelling to entry {node.number} loses the current head"
    first: dict[int, Node] = {}
    for node in nodes:
        if node.parent is not None:
            first.setdefault(node.parent.number, node)
    sent = {number: request for branch in branches(session) for number, request in made(branch)}
    for number in _some(sorted(sent)):
        for target in _leads_to(nodes[number], first):
            back = travel(session, target)
            if back.head == sent[number].head and project(back) != sent[number]:
                return f"travelling to entry {target} doesn't give the request of {number}"
    return None


def _landing(target: Node, landed: Node | None) -> bool:
    if type(target.entry) is Sent:
        return landed is target.parent
    return landed is not None and isinstance(landed.entry, DECISIONS)


def _leads_to(node: Node, first: dict[int, Node]) -> list[int]:
    """Name the request's entry, and the message in front of it where that leads to no other."""
    targets = [node.number]
    while node.parent is not None and first[node.parent.number] is node:
        node = node.parent
        if type(node.entry) in (Message, Reply):
            return [*targets, node.number]
        if type(node.entry) in (Head, Sent):
            break
    return targets


# Reading, conservation, decisions


@each_branch
def no_unread_drop(session: Session) -> str | None:
    """No message is cut or dropped before a completed request has shown it.

    Notices are no messages: a later cut may take one that was not read.
    """
    read: set[int] = set()
    showed: tuple[int, ...] = ()
    for one in steps(session):
        entry = one.entry
        if type(entry) is Sent:
            showed = numbers(one.after)
        elif type(entry) is Reply and entry.outcome == "completed":
            read.update(showed)
        elif type(entry) is Message and entry.role == "assistant":
            read.update(numbers(one.after))
        elif type(entry) is Cut or type(entry) is Drop:
            if one.before.front:
                read.add(one.before.slots.numbers[0])
            left = set(numbers(one.after)) | read
            for number, message in items(one.before):
                if number not in left and says_something(bare(message).parts):
                    return f"entry {one.number} takes message {number}, which was not read"
    return None


@each_branch
def conservation(session: Session) -> str | None:
    """Each recorded message is shown, replaced, cut, withheld or waiting, and only one of these.

    It is in the state that `explain` says, and an entry changes only what it names.
    """
    recorded = messages(session)
    states: dict[int, str] = {}
    flight = False
    for one in steps(session):
        entry, number, view = one.entry, one.number, one.after
        message = said(entry)
        flight = type(entry) is Sent or (flight and type(entry) is not Reply)
        if type(entry) is Reply and entry.outcome == "completed" and message is None:
            return f"entry {number} completes a request without the model's message"
        if message is not None:
            lost = type(entry) is Reply and entry.outcome != "completed"
            empty = message.role != "tool" and not says_something(message.parts)
            states[number] = "withheld" if lost or empty else "waiting"
        wrong = _rewritten(one, states) if may_rewrite(entry) else _appended(one, states, recorded)
        if wrong:
            return f"entry {number} {wrong}"
        if not flight and not (view.end and view.slots.messages[view.end - 1].calls):
            late = [n for n, state in states.items() if state == "waiting"]
            if late:
                return f"message {late[0]} still waits at entry {number}"
    return _explained(session, states)


def _appended(step: Step, states: dict[int, str], recorded: dict[int, Message]) -> str | None:
    before, after = step.before, step.after
    if after.slots is not before.slots and items(after)[: before.end] != items(before):
        return "changes what was shown"
    if after.end < before.end:
        return "hides what was shown"
    for slot in range(before.end, after.end):
        number = after.slots.numbers[slot]
        if states.get(number) != "waiting":
            return f"shows message {number}, which was not waiting"
        if after.slots.messages[slot] != recorded[number]:
            return f"shows message {number} not as it was recorded"
        states[number] = "shown"
    return None


def _rewritten(step: Step, states: dict[int, str]) -> str | None:
    entry, old, new = step.entry, items(step.before), items(step.after)
    expected = _expected(step.number, entry, old)
    if expected is None:
        return "decides on a message that is not shown"
    found = dict(new)
    if [n for n, _ in expected if n in found] != [n for n, _ in new]:
        return "leaves other messages shown than it says"
    for number, message in expected:
        if number in found:
            if not _same_but_thinking(message, found[number]):
                return f"changes message {number}"
            states[number] = "replaced" if states.get(number) == "replaced" else "shown"
        elif says_something(bare(message).parts):
            return f"loses message {number}"
        else:
            states[number] = "withheld"
    for number in {n for n, _ in old} - {n for n, _ in expected}:
        states[number] = "cut"
    if type(entry) is Replace and entry.target in found:
        states[entry.target] = "replaced"
    return None


def _expected(number: int, entry: Entry, old: Items) -> Items | None:
    """Say what an entry leaves shown, thinking aside; None when it names what is not shown."""
    place = {n: slot for slot, (n, _) in enumerate(old)}
    match entry:
        case Cut():
            if entry.through not in place or any(n not in place for n in entry.keep):
                return None
            kept = [old[slot] for slot in sorted({place[n] for n in entry.keep})]
            return [(number, legible(entry.notice)), *kept, *old[place[entry.through] + 1 :]]
        case Replace():
            if entry.target not in place:
                return None
            return [(n, legible(entry.message) if n == entry.target else m) for n, m in old]
        case Drop():
            if entry.first not in place or entry.last not in place:
                return None
            return [*old[: place[entry.first]], *old[place[entry.last] + 1 :]]
        case _:
            return old


def _same_but_thinking(old: Message, new: Message) -> bool:
    if old == new:
        return True
    ours, theirs = thoughts(old.parts), thoughts(new.parts)
    return theirs == ours[: len(theirs)] and bare(old) == bare(new)


def _explained(session: Session, states: dict[int, str]) -> str | None:
    notices = {node.number for node in path(session) if type(node.entry) is Cut}
    for number in _some([n for n in sorted(states) if n not in notices], SAMPLE // 2):
        told = explain(session, number)
        if told.state != states[number] or told.number != number:
            return f"explain says {told.state} of message {number}, which is {states[number]}"
    return None


@each_branch
def effective(session: Session) -> str | None:
    """Each decision in the journal changed what is shown."""
    for one in steps(session):
        if isinstance(one.entry, DECISIONS) and items(one.before) == items(one.after):
            return f"the decision of entry {one.number} changes nothing"
    return None


def references(session: Session) -> str | None:
    """A number that an entry holds names an earlier entry that it can mean.

    An ask is answered once on a path.
    """
    nodes = log(session)
    for node in nodes:
        match node.entry:
            case UsageReport(sent=target):
                known = 0 <= target < node.number and type(nodes[target].entry) is Sent
            case Label(target=target):
                known = 0 <= target < node.number
            case _:
                continue
        if not known:
            return f"entry {node.number} names {target}, which it can't mean"
    return next(filter(None, map(_answers, branches(session))), None)


def _answers(session: Session) -> str | None:
    asks: set[int] = set()
    for node in path(session):
        if type(node.entry) is Ask:
            asks.add(node.number)
        elif type(node.entry) is Answer:
            if node.entry.ask not in asks:
                return f"entry {node.number} answers {node.entry.ask}, which is no open ask"
            asks.remove(node.entry.ask)
    return None


# Accounts


def accounts(session: Session) -> str | None:
    """Input is shared, rebilled and fresh, and is the sum over all requests.

    Each completed request and each request's usage count once.
    """
    sent: dict[int, Request] = {}
    common: dict[int, int] = {}
    for branch in branches(session):
        earlier: Request | None = None
        for number, request in made(branch):
            sent[number] = request
            common[number] = -1 if earlier is None else shared(earlier, request)
            earlier = request
    closes, stray = _closes(session)
    if stray is not None:
        return f"the reply of entry {stray} closes no request"
    told = account(session)
    counted = {
        "requests": len(sent),
        "completed": len(
            {
                closes[n]
                for n, reply in _replies(session)
                if reply.message is not None and reply.outcome == "completed"
            }
        ),
        "input": sum(_tokens(request) for request in sent.values()),
        "shared": sum(_tokens(sent[n], end) for n, end in common.items() if end >= 0),
    }
    for name, value in counted.items():
        if getattr(told, name) != value:
            return f"the account says {getattr(told, name)} {name}, counted are {value}"
    if told.input != told.shared + told.rebilled + told.fresh:
        return f"{told.input} is not {told.shared} + {told.rebilled} + {told.fresh}"
    if told.rebilled != sum(broke.rebilled for broke in told.breaks):
        return f"rebilled are {told.rebilled}, but the breaks give another sum"
    return _usage_told(session, closes, told.usage)


def _replies(session: Session) -> list[tuple[int, Reply]]:
    return [(node.number, node.entry) for node in log(session) if isinstance(node.entry, Reply)]


def _closes(session: Session) -> tuple[dict[int, int], int | None]:
    """Map each reply to the request that it closes; and name a reply that closes none."""
    closes: dict[int, int] = {}
    for branch in branches(session):
        flight = -1
        for node in path(branch):
            if type(node.entry) is Sent:
                flight = node.number
            elif type(node.entry) is Reply:
                if flight < 0:
                    return closes, node.number
                closes[node.number], flight = flight, -1
    return closes, None


def _usage_told(session: Session, closes: dict[int, int], told: Usage) -> str | None:
    latest: dict[int, Usage] = {}
    for node in log(session):
        if isinstance(node.entry, Reply) and node.entry.usage is not None:
            latest[closes[node.number]] = node.entry.usage
        elif isinstance(node.entry, UsageReport):
            latest[node.entry.sent] = node.entry.usage
    for name in ("input", "output", "cache_read", "cache_write"):
        total = sum(getattr(usage, name) for usage in latest.values())
        if getattr(told, name) != total:
            return f"{name} reported are {total}, the account says {getattr(told, name)}"
    return None


def _tokens(request: Request, end: int | None = None) -> int:
    return chars4(request.head) + sum(map(chars4, request.messages[:end]))
