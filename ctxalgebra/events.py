"""Events beside messages and requests: abandon a call, name an entry, travel in the tree."""

from __future__ import annotations

from collections.abc import Mapping

from ctxalgebra.errors import ProtocolViolation
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.entries import DECISIONS, Label, Reply, Sent
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import Message, tool_result
from ctxalgebra.model.session import Fold, Node, Session, at_leaf, check_session, find, fold
from ctxalgebra.model.view import HEAD, View

__all__ = ["abandon", "label", "labels", "open_calls", "travel"]


def open_calls(session: Session) -> tuple[str, ...]:
    """List the ids of calls whose results are still missing, in the order of the calls.

    >>> from ctxalgebra import Session, ToolCall, assistant, record
    >>> open_calls(record(Session(), assistant(ToolCall("c1", "read"))))
    ('c1',)
    """
    check_session(session)
    view = session.view
    return tuple(call for call in view.open if call not in view.results)


def abandon(session: Session, call: str, reason: str) -> Session:
    """Record the error result that an open call needs when its real one will not come.

    Raises:
        ProtocolViolation: `orphan-result`, `duplicate-result`.

    >>> from ctxalgebra import Session, ToolCall, assistant, record
    >>> session = record(Session(), assistant(ToolCall("c1", "read")))
    >>> open_calls(abandon(session, "c1", "the process was killed"))
    ()
    """
    return record(session, tool_result(call, reason, error=True))


def label(session: Session, target: int, name: str) -> Session:
    """Name the entry `target`; an empty name takes the label away.

    Raises:
        ProtocolViolation: `unknown-entry`.

    >>> from ctxalgebra import Session, record, user
    >>> labels(label(record(Session(), user("hi")), 0, "start"))
    {0: 'start'}
    """
    return record(session, Label(target, name))


def _name(known: Mapping[int, str], node: Node, _: View) -> Mapping[int, str]:
    entry = node.entry
    if type(entry) is not Label:
        return known
    rest = {target: name for target, name in known.items() if target != entry.target}
    return {**rest, entry.target: entry.name} if entry.name else rest


_NONE: Mapping[int, str] = {}
_LABELS: Fold[Mapping[int, str]] = Fold("labels", _NONE, _name, along="log")


def labels(session: Session) -> dict[int, str]:
    """Map entry numbers to their labels, on all branches; the last label of an entry holds.

    >>> from ctxalgebra import Session, record, user
    >>> labels(label(record(Session(), user("hi")), 0, "start"))
    {0: 'start'}
    """
    known = fold(session, _LABELS)
    return dict(known)


def travel(session: Session, target: int) -> Session:
    """Go to an entry anywhere in the tree, so that the next request continues from there.

    Lands on the last decision that follows the target before the next message or request, since
    decisions taken there shaped the request that was sent; a `Sent` stands for the state that it
    sent. The head that holds now is recorded again where it differs, which is a break at the head;
    in a tool loop that must keep its leading thinking (V-A7) the head of the landing stays, until
    you record another behind the next user message. A request that is in flight at the landing is
    closed as lost.

    Raises:
        ProtocolViolation: `unknown-entry`.
        InvalidArgument: `wrong-type`, the target is no number.

    >>> from ctxalgebra import *
    >>> session, first = send(record(Session(), user("hi")))
    >>> session = record(reply(session, "completed", assistant("Hello!")), user("bye"))
    >>> send(travel(session, 0))[1] == first
    True
    """
    check_type(target, int, "target")
    node = find(session, target, along="log")
    if node is None:
        raise ProtocolViolation("unknown-entry", f"there is no entry {target}", field="target")
    landed = at_leaf(session, _landing(session, node))
    if landed.view.flight >= 0:
        landed = record(landed, Reply("lost"))
    if landed.head != session.head and not landed.view.holds_loop(HEAD):
        landed = record(landed, session.head)
    return landed


def _landing(session: Session, node: Node) -> int:
    if type(node.entry) is Sent:
        return -1 if node.parent is None else node.parent.number
    later: list[Node] = []
    after = session.last
    while after is not None and after.number > node.number:
        later.append(after)
        after = after.previous
    at = landing = node
    for child in reversed(later):
        if child.parent is not at:
            continue
        if isinstance(child.entry, Message | Sent | Reply):
            break
        at = child
        if type(child.entry) in DECISIONS:
            landing = child
    return landing.number
