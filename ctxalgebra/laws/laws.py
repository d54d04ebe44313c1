"""The laws of sessions: named pure predicates, with no test library behind them.

Each takes a session and gives None, or one sentence that names the place of the counterexample.
A law that speaks of a path looks at every branch, and walks each once.
"""

from __future__ import annotations

import json
import pickle

from ctxalgebra.account import account, breaks
from ctxalgebra.effects import pending
from ctxalgebra.errors import CtxError
from ctxalgebra.events import labels, travel
from ctxalgebra.explain import explain
from ctxalgebra.laws.evidence import (
    Law,
    Step,
    again,
    asked,
    bare,
    branches,
    call_order,
    defect,
    each_branch,
    items,
    messages,
    news,
    numbers,
    pairs,
    said,
    says_something,
    shared,
    steps,
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
from ctxalgebra.model.parts import Message, Opaque, Thinking
from ctxalgebra.model.session import Fold, Node, Session, at_leaf, fold, log, path, walk
from ctxalgebra.model.view import EMPTY_VIEW, View
from ctxalgebra.project import Request, project, requests
from ctxalgebra.tokens import calibrate, chars4

__all__ = ["SESSION_LAWS"]

SAMPLE = 16
"""How many messages at most a law asks a query about that costs the path."""

Items = list[tuple[int, Message]]


# Replay

_TRACE: Fold[int] = Fold(
    "trace", 7, lambda value, node, view: (value * 31 + node.number * 7 + view.end) % 1_000_003
)
_LOG_TRACE: Fold[int] = Fold("log-trace", 7, _TRACE.step, along="log")


def _replay(session: Session) -> str | None:
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
    return _memory(session)


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
        "fold": (fold(session, _TRACE), fold(session, _LOG_TRACE)),
    }


def _plain(view: View) -> tuple[object, ...]:
    sent = view.sent
    seen = None if sent is None else (sent.number, sent.head, sent.shared, sent.before)
    rest = view._asdict()
    del rest["slots"], rest["sent"]
    return (items(view), seen, *rest.values())


def _memory(session: Session) -> str | None:
    """Compare what is remembered with what comes from scratch, at every entry."""
    trace: dict[Node | None, int] = {None: _TRACE.init}
    views: dict[Node | None, View] = {None: EMPTY_VIEW}
    for branch in branches(session):
        parent: Node | None = None
        for node, view in walk(branch):
            views[node] = view
            trace[node] = _TRACE.step(trace[parent], node, view)
            parent = node
    if _plain(session.view) != _plain(views[session.leaf]):
        return "the view at the leaf is not the one from scratch"
    total, at = _LOG_TRACE.init, session
    for node in log(session):
        total = _LOG_TRACE.step(total, node, views[node])
        at = at_leaf(at, node.number)
        if _plain(at.view) != _plain(views[node]):
            return f"at entry {node.number} the remembered view is not the one from scratch"
        if fold(at, _TRACE) != trace[node]:
            return f"at entry {node.number} a remembered fold is not the one from scratch"
    if fold(session, _LOG_TRACE) != total:
        return "a fold over the log is not the one from scratch"
    return None


# What is sent


@each_branch
def _protocol(session: Session) -> str | None:
    for one, known in news(session):
        array = one.request.messages
        if not array:
            return f"the request of entry {one.number} is empty"
        # The shared part of a valid request is valid, except for an exchange at its end.
        start = known
        while start and (start == len(array) or array[start].role == "tool"):
            start -= 1
        if start and array[start - 1].calls:
            start -= 1
        if found := defect(array, start):
            return f"in the request of entry {one.number}, {found}"
    return None


@each_branch
def _call_order(session: Session) -> str | None:
    for one, known in news(session):
        if found := call_order(one.request.messages, known):
            return f"in the request of entry {one.number}, {found}"
    return None


@each_branch
def _faithful(session: Session) -> str | None:
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
def _thinking(session: Session) -> str | None:
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
    """Map each thinking message to what stood in front of it when the model wrote it."""
    bound: dict[int, Request] = {}
    request = Request(Head(), ())
    for step in steps(session):
        message = said(step.entry)
        if type(step.entry) is Sent:
            request = Request(step.after.head, step.after.messages())
        elif message is not None and message.thinks:
            bound[step.number] = (
                request
                if type(step.entry) is Reply
                else Request(step.before.head, step.before.messages())
            )
    return bound


def _unbound(bound: Request, request: Request, slot: int) -> str | None:
    if bound.head != request.head:
        return "head"
    if bound.messages != request.messages[:slot]:
        place = shared(bound, Request(request.head, request.messages[:slot]))
        return f"prefix: message {place} differs"
    return None


@each_branch
def _leading(session: Session) -> str | None:
    for step in steps(session):
        before = step.before
        if before.head.route.binding != "leading" or before.sent is None:
            continue
        loop: Items = []
        for number, message in reversed(items(before) if _may_rewrite(step.entry) else []):
            if message.role == "user":
                break
            if message.thinks:
                loop.append((number, message))
        now = dict(items(step.after)) if loop else {}
        for number, message in loop:
            left = now[number].parts if number in now else ()
            if _thoughts(left) != _thoughts(message.parts):
                return f"entry {step.number} takes thinking of message {number} from an open loop"
    return None


def _thoughts(parts: tuple[object, ...]) -> list[object]:
    return [part for part in parts if type(part) is Thinking]


def _may_rewrite(entry: Entry) -> bool:
    return type(entry) is Head or isinstance(entry, DECISIONS)


# Reading, conservation, decisions


@each_branch
def _unread(session: Session) -> str | None:
    read: set[int] = set()
    showed: tuple[int, ...] = ()
    for step in steps(session):
        entry = step.entry
        if type(entry) is Sent:
            showed = numbers(step.after)
        elif type(entry) is Reply and entry.outcome == "completed":
            read.update(showed)
        elif type(entry) is Message and entry.role == "assistant":
            read.update(numbers(step.after))
        elif type(entry) is Cut or type(entry) is Drop:
            left = set(numbers(step.after)) | read
            for number, message in items(step.before):
                if number not in left and says_something(bare(message).parts):
                    return f"entry {step.number} takes message {number}, which was not read"
    return None


@each_branch
def _conservation(session: Session) -> str | None:
    recorded = messages(session)
    states: dict[int, str] = {}
    flight = False
    view = EMPTY_VIEW
    for step in steps(session):
        entry, number, view = step.entry, step.number, step.after
        message = said(entry)
        flight = type(entry) is Sent or (flight and type(entry) is not Reply)
        if type(entry) is Reply and entry.outcome == "completed" and message is None:
            return f"entry {number} completes a request without the model's message"
        if message is not None:
            lost = type(entry) is Reply and entry.outcome != "completed"
            empty = message.role != "tool" and not says_something(message.parts)
            states[number] = "withheld" if lost or empty else "waiting"
        wrong = (
            _rewritten(step, states)
            if _may_rewrite(entry)
            else _appended(step, states, recorded)
        )
        if wrong:
            return f"entry {number} {wrong}"
        if not flight and not (view.end and view.slots.messages[view.end - 1].calls):
            late = [n for n, state in states.items() if state == "waiting"]
            if late:
                return f"message {late[0]} still waits at entry {number}"
    shown = [n for n, state in states.items() if state in ("shown", "replaced")]
    if sorted(shown) != sorted(numbers(view)):
        return "the projection shows other messages than the entries say"
    told = {n: state for n, state in states.items() if type(recorded[n]) is Message}
    return _explained(session, told)


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
            kept = [old[place[n]] for n in entry.keep]
            return [(number, entry.notice), *kept, *old[place[entry.through] + 1 :]]
        case Replace():
            if entry.target not in place:
                return None
            return [(n, entry.message if n == entry.target else m) for n, m in old]
        case Drop():
            if entry.first not in place or entry.last not in place:
                return None
            return [*old[: place[entry.first]], *old[place[entry.last] + 1 :]]
        case _:
            return old


def _same_but_thinking(old: Message, new: Message) -> bool:
    if old == new:
        return True
    ours, theirs = _thoughts(old.parts), _thoughts(new.parts)
    return theirs == ours[: len(theirs)] and bare(old) == bare(new)


def _explained(session: Session, states: dict[int, str]) -> str | None:
    notices = {node.number for node in path(session) if type(node.entry) is Cut}
    asked_about = [n for n in sorted(states) if n not in notices]
    for number in asked_about[:: max(1, -(-len(asked_about) // SAMPLE))]:
        told = explain(session, number)
        if told.state != states[number] or told.number != number:
            return f"explain says {told.state} of message {number}, which is {states[number]}"
    return None


@each_branch
def _effective(session: Session) -> str | None:
    for step in steps(session):
        if isinstance(step.entry, DECISIONS) and items(step.before) == items(step.after):
            return f"the decision of entry {step.number} changes nothing"
    return None


@each_branch
def _notice(session: Session) -> str | None:
    notice: tuple[int, Message] | None = None
    for step in steps(session):
        if type(step.entry) is Cut:
            notice = step.number, step.entry.notice
        slots = step.after.slots
        if notice is not None and (slots.numbers[0], slots.messages[0]) != notice:
            return f"after entry {step.number} the notice of entry {notice[0]} is not as it was"
    return None


def _references(session: Session) -> str | None:
    nodes = log(session)
    for node in nodes:
        entry = node.entry
        if type(entry) is not UsageReport and type(entry) is not Label:
            continue
        target = entry.sent if type(entry) is UsageReport else entry.target
        known = 0 <= target < node.number
        if not known or (type(entry) is UsageReport and type(nodes[target].entry) is not Sent):
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


# Along the path


def _append_only(session: Session) -> str | None:
    nodes = log(session)
    for index, node in enumerate(nodes):
        if node.number != index or (node.parent is not None and node.parent.number >= index):
            return f"entry {index} stands at a wrong place"
    every = max(1, len(nodes) // 256)
    seen: list[tuple[Session, tuple[int, Request]]] = []
    for value in again(session):
        if not (len(value) - 1) % every:
            seen.append((value, (len(value), project(value))))
    for value, was in seen:
        if (len(value), project(value)) != was:
            return f"the session after entry {was[0] - 1} changed when more was recorded"
    return None


@each_branch
def _frontier(session: Session) -> str | None:
    order: dict[int, int] = {}
    gone: set[int] = set()
    frontier = -1
    for step in steps(session):
        entry, before, after = step.entry, step.before, step.after
        if type(entry) is Cut:
            place = order.get(entry.through, -1)
            if place <= frontier:
                return f"the cut of entry {step.number} does not move the frontier forward"
            frontier = place
        appended = after.slots is before.slots and after.end >= before.end
        now = after.slots.numbers[before.end if appended else 0 : after.end]
        if not appended:
            gone.update(set(numbers(before)) - set(now))
        for number in now:
            if number in gone:
                return f"message {number}, which had left, is back at entry {step.number}"
            order.setdefault(number, len(order))
    return None


def _declares(entry: Entry) -> bool:
    return type(entry) is Head or (isinstance(entry, DECISIONS) and entry.breaks)


@each_branch
def _prefix(session: Session) -> str | None:
    for pair in pairs(session):
        if pair.at is not None and not any(map(_declares, pair.between.values())):
            return (
                f"the request of entry {pair.later} doesn't extend that of entry "
                f"{pair.earlier}: they part at message {pair.at}"
            )
    return None


@each_branch
def _no_silent_break(session: Session) -> str | None:
    listed = {broke.sent for broke in breaks(session)}
    for pair in pairs(session):
        if pair.at is not None and pair.later not in listed:
            return f"the break at entry {pair.later}, message {pair.at}, is not listed"
    return None


@each_branch
def _no_false_alarm(session: Session) -> str | None:
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


def _frozen(session: Session) -> str | None:
    sent = {
        len(value) - 1: project(value)
        for value in again(session)
        if value.last is not None and type(value.last.entry) is Sent
    }
    for branch in branches(session):
        for number, request in _by_number(branch):
            if request != sent[number]:
                return f"the request of entry {number} is not the one that was sent"
    return None


def _by_number(session: Session) -> list[tuple[int, Request]]:
    made = [node.number for node in path(session) if type(node.entry) is Sent]
    return list(zip(made, requests(session), strict=True))


def _travel(session: Session) -> str | None:
    nodes = log(session)
    first: dict[int, Node] = {}
    for node in nodes:
        if travel(session, node.number).head != session.head:
            return f"travelling to entry {node.number} loses the current head"
        if node.parent is not None:
            first.setdefault(node.parent.number, node)
    for branch in branches(session):
        for number, request in _by_number(branch):
            if request.head != session.head:
                continue
            for target in _leads_to(nodes[number], first):
                if project(travel(session, target)) != request:
                    return f"travelling to entry {target} doesn't give the request of {number}"
    return None


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


# Accounts


def _accounts(session: Session) -> str | None:
    made: dict[int, Request] = {}
    same: dict[int, int] = {}
    closes: dict[int, int] = {}
    for branch in branches(session):
        several = iter(requests(branch))
        earlier: Request | None = None
        flight = -1
        for node in path(branch):
            if type(node.entry) is Sent:
                flight, request = node.number, next(several)
                made[flight] = request
                same[flight] = -1 if earlier is None else shared(earlier, request)
                earlier = request
            elif type(node.entry) is Reply:
                if flight < 0:
                    return f"the reply of entry {node.number} closes no request"
                closes[node.number], flight = flight, -1
    completed = 0
    usage: dict[int, Usage] = {}
    for node in log(session):
        entry = node.entry
        if type(entry) is Reply:
            completed += entry.outcome == "completed"
            if entry.usage is not None:
                usage[closes[node.number]] = entry.usage
        elif type(entry) is UsageReport and entry.sent in made:
            usage[entry.sent] = entry.usage
    counted = {
        "requests": len(made),
        "completed": completed,
        "input": sum(_tokens(request) for request in made.values()),
        "shared": sum(
            _tokens(made[number], end) for number, end in same.items() if end >= 0
        ),
    }
    told = account(session)
    for name, value in counted.items():
        if getattr(told, name) != value:
            return f"the account says {getattr(told, name)} {name}, counted are {value}"
    if told.input != told.shared + told.rebilled + told.fresh:
        return f"{told.input} is not {told.shared} + {told.rebilled} + {told.fresh}"
    if told.rebilled != sum(broke.rebilled for broke in told.breaks):
        return f"rebilled are {told.rebilled}, but the breaks give another sum"
    for name in ("input", "output", "cache_read", "cache_write"):
        total = sum(getattr(one, name) for one in usage.values())
        if getattr(told.usage, name) != total:
            return f"{name} reported are {total}, the account says {getattr(told.usage, name)}"
    return None


def _tokens(request: Request, end: int | None = None) -> int:
    return chars4(request.head) + sum(map(chars4, request.messages[:end]))


SESSION_LAWS: tuple[Law, ...] = (
    Law(
        "replay",
        "invariant",
        "Recording the journal again through the gate gives it back, as does pickling; what "
        "folds remember is what they give from scratch.",
        _replay,
    ),
    Law(
        "protocol-validity",
        "invariant",
        "In every request each call is answered once, right behind it, and no message is empty.",
        _protocol,
    ),
    Law(
        "call-order",
        "invariant",
        "In every request results stand in the order of their calls, whichever came first.",
        _call_order,
    ),
    Law(
        "faithful",
        "invariant",
        "What is shown of a message keeps its role, its calls with the JSON type of their "
        "arguments, its signatures and its opaque parts.",
        _faithful,
    ),
    Law(
        "thinking-binding",
        "invariant",
        "Thinking is shown as it came, behind exactly what it was bound to, and once hidden it "
        "never comes back.",
        _thinking,
    ),
    Law(
        "leading-thinking",
        "preorder",
        "Where the last turn must begin with its thinking, no entry takes thinking out of an "
        "open tool loop.",
        _leading,
    ),
    Law(
        "no-unread-drop",
        "invariant",
        "No message is cut or dropped before a completed request has shown it.",
        _unread,
    ),
    Law(
        "conservation",
        "invariant",
        "Each recorded message is in one state of shown, replaced, cut, withheld and waiting, as "
        "`explain` says; an entry changes only what it names.",
        _conservation,
    ),
    Law(
        "accounts",
        "invariant",
        "Input is shared, rebilled and fresh, summed over all requests; each completed request "
        "and each usage report counts once.",
        _accounts,
    ),
    Law(
        "effective",
        "invariant",
        "Each decision in the journal changed what is shown.",
        _effective,
    ),
    Law(
        "frozen-notice",
        "preorder",
        "The notice of a cut stands first, as it was recorded, until the next cut.",
        _notice,
    ),
    Law(
        "references",
        "invariant",
        "A number that an entry holds names an earlier entry that it can mean, and an ask is "
        "answered once on a path.",
        _references,
    ),
    Law(
        "append-only",
        "preorder",
        "Entries stand in the order of recording, and recording more changes no earlier session.",
        _append_only,
    ),
    Law(
        "forward-only-frontier",
        "preorder",
        "Each cut moves the frontier forward, and what has left never comes back.",
        _frontier,
    ),
    Law(
        "prefix-extension",
        "preorder",
        "A request extends the one before it unless an entry between them declares a break.",
        _prefix,
    ),
    Law(
        "no-silent-break",
        "preorder",
        "Each request that doesn't extend the one before it is listed as a break.",
        _no_silent_break,
    ),
    Law(
        "no-false-alarm",
        "preorder",
        "Each listed break is one, at the exact position, laid to entries that declare it.",
        _no_false_alarm,
    ),
    Law(
        "sent-requests-are-frozen",
        "preorder",
        "What the journal says of a request is what was projected when it was sent.",
        _frozen,
    ),
    Law(
        "travel-returns-the-request",
        "invariant",
        "Travelling is possible to every entry, and under the same head gives back the request "
        "that was sent there.",
        _travel,
    ),
)
"""The laws of a session."""
