"""Why is a message shown, replaced, cut or withheld? The entries that decided it."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.entries import DECISIONS, Cut, Drop, Entry, Replace, Reply
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session, find, walk
from ctxalgebra.model.view import View

__all__ = ["Explanation", "explain"]


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


def explain(session: Session, number: int) -> Explanation:
    """Explain what the next request makes of the message with this entry number, and why.

    The number of a cut stands for its notice.

    Reads the path from that entry to the leaf.

    Raises:
        InvalidArgument: `unknown-entry`, the path holds no message of this number.

    >>> from ctxalgebra import Session, record, user
    >>> explain(record(Session(), user("  ")), 0)
    Explanation(number=0, state='withheld', why='it has no content', by=(0,))
    """
    node = find(session, number)
    entry = None if node is None else node.entry
    message: object = entry
    if isinstance(entry, Reply):
        message = entry.message
    elif isinstance(entry, Cut):
        message = entry.notice
    if not isinstance(message, Message):
        raise InvalidArgument("unknown-entry", f"the path has no message {number}", entry=number)
    if isinstance(entry, Reply) and entry.outcome != "completed":
        return Explanation(number, "withheld", f"its reply was {entry.outcome}", (number,))
    if message.empty and message.role != "tool":
        return Explanation(number, "withheld", "it has no content", (number,))
    seen: Message | None = None
    before = session.view
    decided: list[int] = []
    why = "it is shown as it was recorded"
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
