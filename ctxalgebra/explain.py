"""Why is a message shown, replaced, cut or withheld? The entries that decided it."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.entries import DECISIONS, Cut, Drop, Entry, Replace, Reply
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Node, Session, check_session, find, path, walk
from ctxalgebra.model.view import View

__all__ = ["Explanation", "carried", "explain"]


State = Literal["shown", "replaced", "cut", "withheld", "waiting"]


@frozen
class Explanation:
    """Tell the state of one message.

    Args:
        number: its entry.
        state: `shown` as it is, `replaced`, `cut`, `withheld` (never shown), or `waiting` (to be
            shown when the open calls are answered or the request in flight is closed).
        why: one sentence for a person.
        by: numbers of the entries that decided it, in order.
    """

    number: int
    state: State
    why: str
    by: tuple[int, ...]


def _takes(decision: Entry, number: int, view: View) -> bool:
    """Say whether a cut or drop took the message, and not only the thinking that it was."""
    match decision:
        case Cut():
            return view.slot(number) <= view.slot(decision.through)
        case Drop():
            return view.slot(decision.first) <= view.slot(number) <= view.slot(decision.last)
        case _:
            return False


def carried(node: Node | None) -> Message | None:
    """Give the message that an entry brings into the session: its own, a reply's, a notice.

    >>> from ctxalgebra import Session, record, user
    >>> carried(record(Session(), user("a")).leaf).role
    'user'
    """
    match node.entry if node is not None else None:
        case Message() as message:
            return message
        case Reply(message=message) | Cut(notice=message):
            return message
        case _:
            return None


def _number_of(session: Session, message: Message) -> int:
    """Find the entry of a message: the newest that shows it, else the newest that brought it."""
    slots = session.view.slots
    for slot in range(session.view.end - 1, -1, -1):
        if slots.messages[slot] == message:
            return slots.numbers[slot]
    for node in reversed(path(session)):
        if carried(node) == message:
            return node.number
    raise InvalidArgument("unknown-entry", "the path has no such message", field="message")


def explain(session: Session, message: int | Message) -> Explanation:
    """Explain what the next request makes of a message, and why.

    Reads the path from its entry to the leaf.

    Args:
        message: the number of its entry, that of a cut for its notice. Or the message itself, as it
            is shown or as it was recorded; of several that are equal, the newest that is shown, or
            where none is, the newest that was recorded.

    Raises:
        InvalidArgument: `unknown-entry`, the path holds no such message; `wrong-type`.

    >>> from ctxalgebra import Session, record, user
    >>> explain(record(Session(), user("  ")), 0)
    Explanation(number=0, state='withheld', why='it has no content', by=(0,))
    >>> explain(record(Session(), user("a"), user("b")), user("a")).number
    0
    """
    check_session(session)
    if isinstance(message, Message):
        number = _number_of(session, message)
    else:
        check_type(message, int, "message")
        number = message
    node = find(session, number)
    recorded = carried(node)
    if node is None or recorded is None:
        raise InvalidArgument("unknown-entry", f"the path has no message {number}", entry=number)
    entry = node.entry
    if isinstance(entry, Reply) and entry.outcome != "completed":
        return Explanation(number, "withheld", f"its reply was {entry.outcome}", (number,))
    if recorded.empty and recorded.role != "tool":
        return Explanation(number, "withheld", "it has no content", (number,))
    seen: Message | None = None
    before = session.view
    decided: list[int] = []
    why = "it is shown as it was recorded"
    if recorded.blanks:
        why = "it is shown without its blank text"
    state: State = "shown"
    for at, view in walk(session, number):
        slot = view.slot(number)
        shown = view.slots.messages[slot] if slot >= 0 else None
        decision = at.entry
        if shown is None and seen is not None:
            reason = decision.why if isinstance(decision, DECISIONS) else "the head changed"
            gone: State = "cut" if _takes(decision, number, before) else "withheld"
            return Explanation(number, gone, reason, (*decided, at.number))
        if seen is not None and shown is not seen:
            decided.append(at.number)
            if isinstance(decision, Replace) and decision.target == number:
                state, why = "replaced", decision.why
            elif state == "shown":
                why = "its thinking is hidden since something in front of it changed"
        seen, before = shown, view
    if seen is None:
        view = session.view
        by = (view.flight,) if view.flight >= 0 else ()
        reason = "a request is in flight" if by else f"open calls: {', '.join(view.open)}"
        return Explanation(number, "waiting", reason, by)
    return Explanation(number, state, why, tuple(decided))
