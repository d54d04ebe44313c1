"""What is sent while a travel is under way: the live messages, or what is built from storage.

A pure step before each request, in the order of the original's context event (travel, section 14).
Whatever happens, what comes out is paired: each call has its result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, cast

from attrs import evolve, frozen

from ctxalgebra.delivery.refresh import Failure, Refresh, refresh
from ctxalgebra.delivery.ticket import (
    Accepted,
    Activated,
    Failed,
    Packet,
    Rejected,
    Ticket,
    awaited,
    deliver,
    holds_live,
    merged,
    rebuilds,
)
from ctxalgebra.model.parts import Message
from ctxalgebra.protocol import defects, repair

__all__ = ["Delivery", "Receipt", "Sending", "sending"]

Receipt = Literal["success", "rejected", "untrusted"]
"""What the result of a travel's call says."""

Source = Literal["live", "repaired", "storage", "cached"]
"""Where messages come from: `cached` is what was built last, with what came since behind it."""


@frozen
class Delivery:
    """Hold the state of a session's deliveries."""

    ticket: Ticket | None = None
    refresh: Refresh = Refresh()  # noqa: RUF009 - a value, that can't change


@frozen
class Sending:
    """Say what is sent next, and from where; `state` goes on."""

    state: Delivery
    messages: tuple[Message, ...]
    source: Source


def sending(
    state: Delivery,
    live: tuple[Message, ...],
    build: Callable[[], Packet | None],
    receipt: Receipt | None = None,
) -> Sending:
    """Choose what is sent next.

    Args:
        live: the messages as the agent holds them.
        build: builds them from storage; None, or nothing that can be sent, is a failed attempt.
            Called only where that is due.
        receipt: what the result of the call says that is waited for; None while there is none.

    >>> from ctxalgebra import user
    >>> from ctxalgebra.delivery.ticket import Deferred
    >>> ticket, _ = deliver(None, Deferred("c1"))
    >>> state = Delivery(ticket, refresh(Refresh(), "asked"))
    >>> stored = lambda: Packet((user("summary"),))
    >>> sending(state, (user("old"),), stored).source
    'live'
    >>> sent = sending(state, (user("old"),), stored, "success")
    >>> sent.source, sent.state.ticket.phase
    ('storage', 'active')
    """
    state = _received(state, receipt)
    ticket = state.ticket
    if holds_live(ticket):
        return _as_is(state, live)
    if ticket is not None and ticket.phase == "cached_exhausted":
        both = _cached(ticket, live)
        if both is not None:
            return Sending(state, both, "cached")
        return _failed(state, live, Failed(ticket.error or "", "unsafe_fallback"))
    if not state.refresh.pending and not rebuilds(ticket):
        return _as_is(state, live)
    packet = build()
    if packet is None or not packet.messages or defects(packet.messages):
        return _without(state, live)
    packet = evolve(packet, source=live)
    after, _ = deliver(ticket, Activated(packet))
    return Sending(Delivery(after, refresh(state.refresh, "rebuilt")), packet.messages, "storage")


def _received(state: Delivery, receipt: Receipt | None) -> Delivery:
    call = awaited(state.ticket)
    if call is None or receipt is None:
        return state
    if receipt == "success":
        return evolve(state, ticket=deliver(state.ticket, Accepted(call))[0])
    # It is taken back whole: nothing of a travel that did not happen shapes what is sent.
    return Delivery(deliver(state.ticket, Rejected(call))[0])


def _as_is(state: Delivery, live: tuple[Message, ...]) -> Sending:
    if not defects(live):
        return Sending(state, live, "live")
    return Sending(state, repair(live).messages, "repaired")


def _cached(ticket: Ticket | None, live: tuple[Message, ...]) -> tuple[Message, ...] | None:
    if ticket is None or ticket.packet is None:
        return None
    both = cast("tuple[Message, ...] | None", merged(ticket.packet, live))
    return None if both is None or defects(both) else both


def _without(state: Delivery, live: tuple[Message, ...]) -> Sending:
    """Count an attempt that failed, and send what was built before, or what is live."""
    why = "nothing could be built from storage"
    state = evolve(state, refresh=refresh(state.refresh, Failure(why)))
    both = _cached(state.ticket, live)
    if both is None:
        return _failed(state, live, Failed(why, "unsafe_fallback"))
    then = Failed(why, "cached_exhausted" if state.refresh.exhausted else "retry")
    return Sending(evolve(state, ticket=deliver(state.ticket, then)[0]), both, "cached")


def _failed(state: Delivery, live: tuple[Message, ...], why: Failed) -> Sending:
    return _as_is(evolve(state, ticket=deliver(state.ticket, why)[0]), live)
