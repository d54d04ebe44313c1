"""The live list: the one place where a delivery touches what others hold.

An adapter belongs to one list and is handed the session whose messages are shown, by value. There
is no registry of sessions and nothing is looked up by name, so two sessions in one process, or a
parent and its child, can't take each other's tickets (travel, section 14).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from attrs import evolve, frozen

from ctxalgebra.delivery.ticket import (
    Delivered,
    DeliveryEvent,
    Effect,
    Schedule,
    SyncStatus,
    Ticket,
    deliver,
)
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session, check_session
from ctxalgebra.project import project
from ctxalgebra.protocol import defects

__all__ = ["Due", "HasMessages", "LiveMessages", "Outcome", "Reason", "due", "scheduled", "tried"]

Reason = Literal[
    "",
    "unsupported_session_shape",
    "not_pending",
    "stale_leaf",
    "invalid_protocol",
    "replace_messages_failed",
]
"""Why a live list was not replaced."""


@frozen
class Outcome:
    """Tell what came of an attempt: how many messages the list shows, or why it does not."""

    status: SyncStatus
    reason: Reason = ""
    messages: int = 0


@frozen
class Due:
    """Remember what is to be replaced.

    Args:
        call: the call whose travel is waited for; None for nothing.
        leaf: the entry that has to be the leaf then, -1 for any.
        last: what came of the last attempt.
    """

    call: str | None = None
    leaf: int = -1
    last: Outcome | None = None


def scheduled(call: str, *, fit: bool, leaf: int = -1) -> tuple[Due, Outcome]:
    """Schedule the replacement; what is due then takes the place of what was.

    Args:
        fit: whether there is a list that can be replaced.
        leaf: the entry that has to be the leaf then.

    >>> scheduled("c1", fit=False)[1]
    Outcome(status='unavailable', reason='unsupported_session_shape', messages=0)
    """
    if not fit:
        outcome = Outcome("unavailable", "unsupported_session_shape")
        return Due(last=outcome), outcome
    outcome = Outcome("pending")
    return Due(call, leaf, outcome), outcome


def due(state: Due, call: str, leaf: int) -> tuple[Due, Outcome | None]:
    """Say whether the list is to be replaced for this call; if not, why.

    Args:
        leaf: the leaf of the session now.

    >>> due(Due("c1", 3), "c1", 4)[1]
    Outcome(status='skipped', reason='stale_leaf', messages=0)
    >>> due(Due("c1"), "c1", 4)
    (Due(call='c1', leaf=-1, last=None), None)
    """
    if state.call is None or state.call != call:
        return state, Outcome("skipped", "not_pending")
    if state.leaf not in (-1, leaf):
        outcome = Outcome("skipped", "stale_leaf")
        return Due(last=outcome), outcome
    return state, None


def tried(state: Due, outcome: Outcome) -> Due:
    """Take note of an attempt; one that failed stays scheduled.

    >>> tried(Due("c1"), Outcome("applied", messages=3)).call is None
    True
    """
    return Due(last=outcome) if outcome.status == "applied" else evolve(state, last=outcome)


class HasMessages(Protocol):
    """Something whose `messages` can be read and set; it may keep a copy of what it is given."""

    messages: Iterable[Message]


def _shown(live: HasMessages) -> tuple[Message, ...] | None:
    """Copy out what a live list shows; None where it is none."""
    try:
        return tuple(live.messages)
    except Exception:  # noqa: BLE001 - it is not ours, and may raise anything
        return None


class LiveMessages:
    """Perform the effects of deliveries on one live list.

    Args:
        live: its `messages` are replaced, never changed in place; each time by a list of their own.

    >>> from types import SimpleNamespace
    >>> from ctxalgebra import Session, at_leaf, record, user
    >>> from ctxalgebra.delivery.ticket import Accepted, Deferred, Settling
    >>> session = record(Session(), user("a"), user("b"))
    >>> live = SimpleNamespace(messages=[user("a"), user("b")])
    >>> adapter, ticket = LiveMessages(live), None
    >>> for event in (Deferred("c1"), Accepted("c1"), Settling()):
    ...     ticket = adapter.run(ticket, event, at_leaf(session, 0))
    >>> ticket.sync, live.messages == [user("a")]
    ('applied', True)
    """

    def __init__(self, live: HasMessages) -> None:
        self.live = live
        self.due = Due()

    def run(self, ticket: Ticket | None, event: DeliveryEvent, session: Session) -> Ticket | None:
        """Take an event into a ticket, and perform what it asks for.

        Args:
            session: as it is stored now.

        Raises:
            InvalidArgument: `wrong-type`, no session.
        """
        check_session(session)
        ticket, effects = deliver(ticket, event)
        for effect in effects:
            ticket, _ = deliver(ticket, Delivered(self.perform(effect, session).status))
        return ticket

    def perform(self, effect: Effect, session: Session) -> Outcome:
        """Perform an effect, and say what came of it."""
        if isinstance(effect, Schedule):
            fit = _shown(self.live) is not None
            self.due, outcome = scheduled(effect.call, fit=fit)
            return outcome
        leaf = -1 if session.leaf is None else session.leaf.number
        self.due, refused = due(self.due, effect.call, leaf)
        if refused is not None:
            return refused
        outcome = self._replace(project(session).messages)
        self.due = tried(self.due, outcome)
        return outcome

    def _replace(self, messages: tuple[Message, ...]) -> Outcome:
        if defects(messages):
            return Outcome("failed", "invalid_protocol")
        try:
            self.live.messages = list(messages)
        except Exception:  # noqa: BLE001 - it is not ours, and may raise anything
            return Outcome("failed", "replace_messages_failed")
        # It may keep a copy, or nothing at all: what counts is what it shows.
        if _shown(self.live) != messages:
            return Outcome("failed", "replace_messages_failed")
        return Outcome("applied", messages=len(messages))
