"""The gate: `record` is the only way into a journal, and every rule of legality stands here.

Theory of operation
-------------------
A rule is a question about the session as it is and one entry that is offered. Rules are local:
they read the view at the leaf, never the journal behind it, so recording costs the entry. The
first rule that objects refuses the entry with its code; the session that was passed in is
unchanged. Events that are refused are protocol violations, decisions are illegal decisions.

What the rules protect, in the order of the table below:

* pairing: each call is answered once, by a result that comes after it; requests leave with no
  call open; one request at a time, and nothing is decided while it is in flight;
* the cache: nothing that was sent changes unless the decision declares a break, a notice is
  frozen, the frontier moves forward only;
* the reader: no message leaves the view before a completed request showed it;
* the shape: cuts and drops part no call from its result; a replacement keeps role, calls,
  their order and the JSON type of their arguments, and leaves opaque parts and thinking alone.

`tests/test_teeth.py` switches each rule off and names the law that notices.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any, get_args

from attrs import frozen

from ctxalgebra.errors import IllegalDecision, InvalidArgument, ProtocolViolation
from ctxalgebra.model.checks import read_json
from ctxalgebra.model.entries import (
    DECISIONS,
    Answer,
    Cut,
    Drop,
    Entry,
    Label,
    Replace,
    Reply,
    Sent,
    Strip,
    UsageReport,
)
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message, Opaque, Role, Thinking
from ctxalgebra.model.session import Session, append, find, no_session
from ctxalgebra.model.view import HEAD, STEPS, hide_blanks, replaced

__all__ = ["RULES", "Rule", "record"]


@frozen
class Rule:
    """Refuse entries of some kinds: `objects` returns the reason, or a false value to let pass.

    Args:
        kinds: types of entries; messages go by their role.
    """

    code: str
    kinds: tuple[type | Role, ...]
    objects: Callable[[Session, Any], str | bool | None]


# Pairing and order


def _no_open_call(session: Session, _: Any) -> str | None:
    view = session.view
    if view.open:
        return f"calls without results: {', '.join(view.open)}"
    return None


def _answers_open_call(session: Session, message: Message) -> str | None:
    if message.call not in session.view.results.calls:
        return f"no open call has the id {message.call!r}"
    return None


def _answers_once(session: Session, message: Message) -> str | None:
    if message.call in session.view.results:
        return f"the call {message.call!r} has its result already"
    return None


def _calls_once(_: Session, entry: Any) -> str | None:
    message = entry.message if type(entry) is Reply else entry
    if message is not None and len(message.calls) > 1:
        ids = [call.id for call in message.calls]
        if len(set(ids)) < len(ids):
            return f"call ids repeat: {', '.join(ids)}"
    return None


def _calls_named(_: Session, entry: Any) -> str | None:
    message = entry.message if type(entry) is Reply else entry
    for call in message.calls if message is not None else ():
        if not call.id:
            return "nothing can answer a call without an id"
    return None


def _idle(session: Session, _: Any) -> str | None:
    if session.view.flight >= 0:
        return f"the request of entry {session.view.flight} has no reply yet"
    return None


def _has_messages(session: Session, _: Sent) -> bool:
    return session.view.end == 0


def _in_flight(session: Session, _: Reply) -> bool:
    return session.view.flight < 0


def _has_answer(_: Session, reply: Reply) -> bool:
    return reply.outcome == "completed" and reply.message is None


def _speaks_as_model(_: Session, reply: Reply) -> str | None:
    if reply.message is not None and reply.message.role != "assistant":
        return "a reply's message is an assistant's"
    return None


def _names_request(session: Session, report: UsageReport) -> str | None:
    node = find(session, report.sent, along="log")
    if node is None or type(node.entry) is not Sent:
        return f"entry {report.sent} is no request"
    return None


def _names_entry(session: Session, label: Label) -> str | None:
    if find(session, label.target, along="log") is None:
        return f"there is no entry {label.target}"
    return None


def _names_ask(session: Session, answer: Answer) -> str | None:
    if all(number != answer.ask for number, _ in session.view.pending):
        return f"entry {answer.ask} is no pending ask"
    return None


# Decisions on what exists


def _targets(decision: Any) -> tuple[int, ...]:
    match decision:
        case Cut():
            return (decision.through,)
        case Replace():
            return (decision.target,)
        case _:
            return (decision.first, decision.last)


def _shown(session: Session, decision: Any) -> str | None:
    for number in _targets(decision):
        if session.view.slot(number) < 0:
            return f"entry {number} is no message that is shown"
    return None


def _forward(session: Session, cut: Cut) -> str | None:
    view = session.view
    slot = view.slot(cut.through)
    if 0 <= slot < view.front:
        return "the cut would take only what an earlier cut kept"
    if slot < 0 and cut.through <= view.frontier and find(session, cut.through) is not None:
        return f"the frontier is at {view.frontier}, behind {cut.through}"
    return None


def _frozen(session: Session, decision: Replace) -> str | None:
    view = session.view
    if view.front and view.slot(decision.target) == 0:
        return f"entry {decision.target} is a notice"
    return None


def _read(session: Session, decision: Any) -> str | None:
    if session.view.slot(_targets(decision)[-1]) >= session.view.read:
        return "no completed request has shown it"
    return None


def _whole_cut(session: Session, cut: Cut) -> str | None:
    view = session.view
    after = view.slot(cut.through) + 1
    messages = view.slots.messages
    if after < view.end and messages[after].role == "tool":
        return f"entry {view.slots.numbers[after]} is a result whose call would be cut"
    if after == view.end and view.open:
        return "the calls of the last message are open"
    return None


def _whole_drop(session: Session, drop: Drop) -> str | None:
    view = session.view
    first, last = view.slot(drop.first), view.slot(drop.last)
    span = view.slots.messages[first : last + 1]
    if not span or not span[0].calls or any(m.role != "tool" and not m.calls for m in span):
        return "only whole exchanges can be dropped"
    after = last + 1
    if after < view.end and view.slots.messages[after].role == "tool":
        return "the results of the last exchange are not all in the span"
    if after == view.end and view.open:
        return "the calls of the last exchange are open"
    return None


def _keeps_requests(session: Session, cut: Cut) -> str | None:
    view = session.view
    slots = [view.slot(number) for number in cut.keep]
    through = view.slot(cut.through)
    if any(a >= b for a, b in pairwise(slots)):
        return "kept messages stand in the order in which they are shown, each once"
    for slot in slots:
        if slot < 0 or slot > through or view.slots.messages[slot].role != "user":
            return "only shown user messages in front of the cut can be kept"
        if view.front and slot == 0:
            return "the earlier notice can't be kept"
    if through < len(slots) + (view.front > 0):
        return "a cut takes more than it keeps"
    return None


def _fit_notice(_: Session, cut: Cut) -> bool:
    return cut.notice.role != "user" or cut.notice.empty


def _change(session: Session, decision: Any) -> int:
    """Find the first position that a decision changes."""
    view = session.view
    match decision:
        case Cut():
            return 0
        case Head():
            return HEAD
        case Replace():
            return view.slot(decision.target)
        case Drop():
            return view.slot(decision.first)
        case _:
            return view.thinking(0)


def _declared(session: Session, decision: Any) -> str | None:
    view = session.view
    if not decision.breaks and view.sent is not None and _change(session, decision) < view.fixed:
        return f"the first {view.fixed} messages were sent; set breaks to declare it"
    return None


def _loop_closed(session: Session, decision: Any) -> str | None:
    view = session.view
    at = _change(session, decision)
    if type(decision) is Head and (decision == view.head or not view.states_head()):
        return None
    if type(decision) is Replace:
        # The thinking in front of the change stays in its message.
        old, new = _target(session, decision), _rendered(session, decision)
        at += _thinking(old) == _thinking(new)
    if view.holds_loop(at):
        return "wait for the next user message"
    return None


def _has_thinking(session: Session, _: Strip) -> str | None:
    return "no thinking is shown" if session.view.thinking(0) == session.view.end else None


# The shape of replacements


def _target(session: Session, decision: Replace) -> Message:
    return session.view.slots.messages[session.view.slot(decision.target)]


def _rendered(session: Session, decision: Replace) -> Message:
    bound = session.view.head.route.binding != "none"
    return replaced(_target(session, decision), decision.message, bound=bound)


def _same_role(session: Session, decision: Replace) -> bool:
    old, new = _target(session, decision), decision.message
    return (old.role, old.call, old.error) != (new.role, new.call, new.error)


def _same_calls(session: Session, decision: Replace) -> bool:
    old, new = _target(session, decision).calls, decision.message.calls
    return [(c.id, c.name) for c in old] != [(c.id, c.name) for c in new]


def _json_type(text: str) -> type[Any] | None:
    try:
        value: object = read_json(text)
        json.dumps(value, ensure_ascii=False).encode()  # refuses escaped lone surrogates
    except (ValueError, RecursionError):
        return None
    return type(value)


def _same_types(session: Session, decision: Replace) -> str | None:
    pairs = zip(_target(session, decision).calls, decision.message.calls, strict=False)
    for old, new in pairs:
        if old.arguments != new.arguments and (
            _json_type(new.arguments) is None
            or _json_type(old.arguments) not in (None, _json_type(new.arguments))
        ):
            return f"the arguments of call {old.id!r}"
    return None


def _thinking(message: Message) -> list[Thinking]:
    return [part for part in message.parts if type(part) is Thinking]


def _same_opaque(session: Session, decision: Replace) -> bool:
    def carried(message: Message) -> list[object]:
        return [p for p in message.parts if type(p) is Opaque or type(p) is Thinking]

    return carried(_target(session, decision)) != carried(decision.message)


def _unsigned(session: Session, decision: Replace) -> str | None:
    for old, new in zip(_target(session, decision).calls, decision.message.calls, strict=False):
        if old != new and (old.signature or new.signature):
            return f"the call {old.id!r} is signed"
    return None


def _not_empty(session: Session, decision: Replace) -> bool:
    return _rendered(session, decision).empty


def _differs(session: Session, decision: Replace) -> bool:
    return _target(session, decision) == hide_blanks(decision.message)


_CUTS = (Cut, Drop)

RULES: tuple[Rule, ...] = (
    Rule("in-flight", ("assistant", Head, Sent, *DECISIONS), _idle),
    Rule("open-call", ("assistant", Sent), _no_open_call),
    Rule("orphan-result", ("tool",), _answers_open_call),
    Rule("duplicate-result", ("tool",), _answers_once),
    Rule("duplicate-call", ("assistant", Reply), _calls_once),
    Rule("missing-id", ("assistant", Reply), _calls_named),
    Rule("empty-request", (Sent,), _has_messages),
    Rule("no-request", (Reply,), _in_flight),
    Rule("no-message", (Reply,), _has_answer),
    Rule("wrong-role", (Reply,), _speaks_as_model),
    Rule("unknown-request", (UsageReport,), _names_request),
    Rule("unknown-entry", (Label,), _names_entry),
    Rule("unknown-ask", (Answer,), _names_ask),
    Rule("frontier-retreat", (Cut,), _forward),
    Rule("not-shown", (Cut, Replace, Drop), _shown),
    Rule("frozen-notice", (Replace,), _frozen),
    Rule("unread", _CUTS, _read),
    Rule("split-exchange", (Cut,), _whole_cut),
    Rule("split-exchange", (Drop,), _whole_drop),
    Rule("bad-keep", (Cut,), _keeps_requests),
    Rule("bad-notice", (Cut,), _fit_notice),
    Rule("changed-role", (Replace,), _same_role),
    Rule("changed-calls", (Replace,), _same_calls),
    Rule("changed-type", (Replace,), _same_types),
    Rule("changed-opaque", (Replace,), _same_opaque),
    Rule("signed-call", (Replace,), _unsigned),
    Rule("empty-replacement", (Replace,), _not_empty),
    Rule("no-change", (Replace,), _differs),
    Rule("no-change", (Strip,), _has_thinking),
    Rule("silent-break", DECISIONS, _declared),
    Rule("open-loop", (*DECISIONS, Head), _loop_closed),
)
"""All rules, in the order in which they are asked."""

_BY_KIND: dict[type | Role, tuple[Rule, ...]] = {
    kind: tuple(rule for rule in RULES if kind in rule.kinds) for kind in (*STEPS, *get_args(Role))
}


def record(session: Session, *entries: Entry) -> Session:
    """Record entries under the leaf, all of them or none.

    Args:
        session: read at its leaf; never changed.
        entries: events and decisions (`ctxalgebra.model.entries`), in order.

    Returns:
        The new session; the same object when there are no entries.

    Raises:
        ProtocolViolation: an event is not a legal next step; `code` names the rule.
        IllegalDecision: a decision is refused; `code` names the rule.
        InvalidArgument: `unknown-kind`, something is no entry; `wrong-type`, no session.

    >>> from ctxalgebra import Session, record, tool_result, user
    >>> session = record(Session(), user("hi"))
    >>> record(session, tool_result("c9", "42"))
    Traceback (most recent call last):
    ...
    ctxalgebra.errors.ProtocolViolation: orphan-result: no open call has the id 'c9' (entry 1)
    """
    try:
        _ = session.view
    except AttributeError:
        raise no_session(session) from None
    for entry in entries:
        kind = type(entry)
        rules = _BY_KIND.get(entry.role if type(entry) is Message else kind)
        if rules is None:
            raise InvalidArgument("unknown-kind", f"{kind.__name__} is no entry")
        for rule in rules:
            if reason := rule.objects(session, entry):
                blame = IllegalDecision if kind in DECISIONS else ProtocolViolation
                text = reason if isinstance(reason, str) else ""
                raise blame(rule.code, text, entry=len(session))
        session = append(session, entry)
    return session
