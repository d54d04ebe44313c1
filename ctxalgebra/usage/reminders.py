"""Reminders in a session: a stage that tells the model when much of its working budget is in use.

The state is a fold of the path: what was reminded of, and what was used first behind the newest cut
or handoff. So it is there again after a resume, and travelling, which leads to another path, brings
the state of that path back. Nothing is kept beside the journal (travel, section 18).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, cast

from ctxalgebra.checkpoints.guidance import reminder
from ctxalgebra.checkpoints.provenance import handed_over
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.events import is_reminder, reminder_level, reminder_note
from ctxalgebra.model.checks import check_callable
from ctxalgebra.model.entries import Cut, Reply
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Usage
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Fold, Node, Session, check_session, fold
from ctxalgebra.model.view import Measure, View, weigh
from ctxalgebra.tokens import chars4, check_positive
from ctxalgebra.usage.budget import TIERS, Reading
from ctxalgebra.usage.cycle import Cycle, observe, renewed, take
from ctxalgebra.usage.estimates import pressure_of

__all__ = ["cycle_of", "hidden", "remind"]


class _Path(NamedTuple):
    """What the path tells: the level reminded of and the first usage since the newest boundary.

    Fields: `level`, 0 for none; `base`, tokens of the first request behind a boundary, -1 where
    there is none; `waits` for it; `unread`, no reply came since the last reminder.
    """

    level: int = 0
    base: int = -1
    waits: bool = False
    unread: bool = False


def _level(node: Node) -> int:
    """Read the tier of a reminder; 0 for what is none."""
    level = reminder_level(node)
    return level if level in TIERS else 0


def _step(known: _Path, node: Node, view: View) -> _Path:
    entry = node.entry
    if type(entry) is Cut:
        return _Path(waits=True)
    usage: Usage | None = None
    if type(entry) is Reply:
        if entry.outcome != "completed":
            return known
        usage = entry.usage
    elif cast("Message", entry).role != "assistant":
        if level := _level(node):
            return _Path(max(known.level, level), known.base, unread=True)
        return known if handed_over(node) is None else _Path(waits=True)
    if not known.waits:
        return known._replace(unread=False) if known.unread else known
    return _Path(base=usage.input if usage is not None and usage.input else _measured(view))


def _measured(view: View) -> int:
    """Measure what was sent, where nobody reports it."""
    sent = view.sent
    if sent is None:
        return weigh(chars4, view.head) + view.slots.total(chars4, view.end)
    return weigh(chars4, sent.head) + sent.slots.total(chars4, sent.end)


_CYCLE: Fold[_Path] = Fold("reminders", _Path(), _step, reads=(Cut, Reply, Message))


def cycle_of(session: Session, *, window: int) -> Cycle:
    """Give the state of the reminders on this path.

    Args:
        window: the model's context window in tokens.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, no positive window.

    >>> from ctxalgebra import Session, record, user
    >>> session = record(Session(), user("x" * 2400))
    >>> cycle_of(remind(session, window=1000), window=1000)
    Cycle(highest=50, waiting=False, due=0)
    """
    check_positive(window=window)
    known = fold(session, _CYCLE)
    if known.waits:
        return renewed()
    base = Reading(known.base, window).tier if known.base >= 0 else 0
    return Cycle(max(known.level, base))


def hidden(node: Node) -> bool:
    """Say whether a user message is none of the user's: a reminder, or a handoff.

    >>> from ctxalgebra import Session, record, user
    >>> hidden(remind(record(Session(), user("x" * 2400)), window=1000).leaf)
    True
    """
    return is_reminder(node) or handed_over(node) is not None


def remind(
    session: Session,
    *,
    window: int,
    role: Literal["user", "system"] = "user",
    wording: Callable[[int], str] = reminder,
    measure: Measure = chars4,
) -> Session:
    """Tell the model, once a tier, that much of its working budget is in use (a stage).

    The tiers are 30, 50 and 70 percent of the working budget, `min(window, 400_000)`. Of several
    that were passed at once the highest is told of; usage that falls arms none again. A cut or a
    handoff begins a new cycle: the first request behind it is the baseline, and what it has reached
    is not told of.

    A reminder comes behind a message of the user's or the results of a round, where a reply is due
    anyway, so it breaks nothing and calls for no turn of its own; while calls are open or a request
    is in flight it waits. The next one comes when that one was read at the earliest.

    Args:
        window: the model's context window in tokens.
        role: of the message; `system` where the provider takes it there (rule V-A8).
        wording: words the reminder of a tier; an empty text for none.
        measure: tokens of a message or head.

    Reads: the view, usage reports, earlier reminders. Records: a `Note` and a message, or nothing.

    Raises:
        InvalidArgument: `invalid-argument`, no positive window, another role; `wrong-type`.

    >>> from ctxalgebra import *
    >>> session = record(Session(), user("x" * 2400))
    >>> told = remind(session, window=1000)
    >>> [message.parts[0].text[:24] for message in project(told).messages[1:]]
    ['[Context reminder, not f']
    >>> remind(told, window=1000) is told
    True
    """
    check_session(session)
    check_callable(wording, "wording")
    if role not in ("user", "system"):
        raise InvalidArgument("invalid-argument", "a reminder is user or system", field="role")
    cycle, view = cycle_of(session, window=window), session.view
    if view.flight >= 0 or view.open or not view.end or fold(session, _CYCLE).unread:
        return session
    if view.slots.messages[view.end - 1].role not in ("user", "tool"):
        return session
    reading = pressure_of(session, window=window, measure=measure)
    _, level = take(observe(cycle, reading.pressure)[0])
    if not level:
        return session
    told = Message(role, wording(level))
    if told.empty:
        return session
    note = reminder_note(level, told, tokens=reading.tokens, window=window)
    return record(session, note, told)
