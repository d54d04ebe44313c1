"""The ticket of a travel: from the call to the request that shows where one arrived.

Theory of operation
-------------------
A tool that travels changes what is stored while its own call is open, so the live conversation and
the stored one differ for a while. The ticket follows that: it waits for the receipt of the call
(the result that the host wrote), then requests are built from storage, and when the agent rests the
live list is replaced once. A receipt that is an error ends it: then nothing was travelled.

`deliver` is a reducer: effects are values, and what came of them comes back as an event.

    deferred --accepted--> ready --activated--> active --settling--> settled
       |                     |
       +--rejected--> over   +--failed--> active with the packet there is, or fallback

Source: travel, section 14.
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import evolve, frozen

__all__ = [
    "Accepted",
    "Activated",
    "Deferred",
    "Delivered",
    "DeliveryEvent",
    "Effect",
    "Failed",
    "Forgotten",
    "Observed",
    "Packet",
    "Rejected",
    "ReplaceLive",
    "Schedule",
    "Settling",
    "SyncStatus",
    "Ticket",
    "applied",
    "awaited",
    "deliver",
    "delivering",
    "holds_live",
    "merged",
    "phase",
    "rebuilds",
    "trusts_reports",
]

Phase = Literal[
    "pending_tool_result", "ready", "active", "fallback", "cached_exhausted", "receipt_rejected"
]
SyncStatus = Literal["pending", "applied", "skipped", "unavailable", "failed"]
"""What became of the live list."""

REJECTED = "Finalized travel receipt was rejected"
"""The error of a ticket whose call failed."""


@frozen
class Packet:
    """Hold messages that were built from storage.

    Args:
        messages: what is sent.
        leaf: the entry that they end at, by the host's name for it.
        source: the live messages that they stand for.
    """

    messages: tuple[Any, ...]
    leaf: str | None = None
    source: tuple[Any, ...] = ()


@frozen
class Ticket:
    """Follow one travel.

    Args:
        call: the id of its call.
        phase: how far its delivery is.
        receipt: what is known of its result.
        sync: what became of the live list.
        settled: the live list needs nothing more.
        observed: a provider reported usage for what was delivered.
        packet: what was built last.
        error: what failed last.
    """

    call: str
    phase: Phase = "pending_tool_result"
    receipt: Literal["pending", "accepted", "rejected"] = "pending"
    sync: SyncStatus = "pending"
    settled: bool = False
    observed: bool = False
    packet: Packet | None = None
    error: str | None = None


# Events


@frozen
class Deferred:
    """The call travelled; its result is not written yet."""

    call: str


@frozen
class Accepted:
    """The result of the call is there, and says that it travelled."""

    call: str


@frozen
class Rejected:
    """The result of the call is an error, or not to be trusted."""

    call: str


@frozen
class Activated:
    """A request was built from storage."""

    packet: Packet


@frozen
class Failed:
    """A request could not be built; `then` says what is sent instead."""

    error: str
    then: Literal["retry", "unsafe_fallback", "cached_exhausted"]


@frozen
class Settling:
    """The agent rests."""


@frozen
class Delivered:
    """What came of an effect on the live list."""

    status: SyncStatus


@frozen
class Observed:
    """A provider reported usage."""


@frozen
class Forgotten:
    """The session is another one."""


_Told = Accepted | Rejected | Activated | Failed | Delivered | Observed
DeliveryEvent = Deferred | Settling | Forgotten | _Told
"""What happens to a ticket."""


# Effects


@frozen
class Schedule:
    """See whether the live list can be replaced later; answered by `Delivered`."""

    call: str


@frozen
class ReplaceLive:
    """Replace the live list by what is stored; answered by `Delivered`."""

    call: str


Effect = Schedule | ReplaceLive
"""What the adapter is to do."""


def deliver(
    ticket: Ticket | None, event: DeliveryEvent
) -> tuple[Ticket | None, tuple[Effect, ...]]:
    """Take one event into a ticket; what does not concern it leaves it the same object.

    >>> ticket, effects = deliver(None, Deferred("c1"))
    >>> effects
    (Schedule(call='c1'),)
    >>> deliver(ticket, Accepted("c2"))[0] is ticket
    True
    >>> ticket, _ = deliver(ticket, Accepted("c1"))
    >>> ticket, _ = deliver(ticket, Activated(Packet(("hi",))))
    >>> phase(ticket), deliver(ticket, Settling())[1]
    ('provider_active_native_pending', (ReplaceLive(call='c1'),))
    """
    match event:
        case Deferred(call=call):
            return Ticket(call), (Schedule(call),)
        case Forgotten():
            return None, ()
        case _ if ticket is None:
            return None, ()
        case Settling():
            if ticket.receipt != "accepted" or ticket.settled:
                return ticket, ()
            return evolve(ticket, settled=True), (ReplaceLive(ticket.call),)
        case _:
            return _told(ticket, event), ()


def _told(ticket: Ticket, event: _Told) -> Ticket:
    match event:
        case Accepted(call=ticket.call) if ticket.phase in ("pending_tool_result", "fallback"):
            return evolve(ticket, phase="ready", receipt="accepted", error=None)
        case Rejected(call=ticket.call) if ticket.receipt == "pending":
            return evolve(
                ticket,
                phase="receipt_rejected",
                receipt="rejected",
                sync="skipped",
                settled=True,
                error=REJECTED,
            )
        case Activated(packet=packet) if _open(ticket):
            return evolve(ticket, phase="active", packet=packet, error=None)
        case Failed(error=error, then="retry"):
            now: Phase = "fallback" if ticket.packet is None else "active"
            return evolve(ticket, phase=now, error=error)
        case Failed(error=error, then="unsafe_fallback"):
            return evolve(ticket, phase="fallback", error=error)
        case Failed(error=error):
            return evolve(ticket, phase="cached_exhausted", error=error)
        case Delivered(status=status):
            return evolve(ticket, sync=status)
        case Observed() if delivering(ticket):
            return evolve(ticket, observed=True)
        case _:
            return ticket


def _open(ticket: Ticket) -> bool:
    return ticket.receipt == "accepted" and ticket.phase != "pending_tool_result"


# What a ticket says


def applied(ticket: Ticket | None) -> bool:
    """Say whether what is stored has travelled, as far as is known.

    >>> applied(None), applied(Ticket("c1"))
    (False, True)
    """
    return ticket is not None and ticket.receipt != "rejected"


def delivering(ticket: Ticket | None) -> bool:
    """Say whether what is sent is what it should be, so that usage tells of it.

    >>> delivering(None), delivering(Ticket("c1"))
    (True, False)
    """
    if ticket is None or ticket.receipt == "rejected":
        return True
    return ticket.phase in ("active", "cached_exhausted") and ticket.packet is not None


def holds_live(ticket: Ticket | None) -> bool:
    """Say whether the live messages are sent as they are: the call is open still.

    >>> holds_live(Ticket("c1")), holds_live(None)
    (True, False)
    """
    return ticket is not None and ticket.phase == "pending_tool_result"


def rebuilds(ticket: Ticket | None) -> bool:
    """Say whether requests are built from storage for this ticket.

    >>> rebuilds(Ticket("c1", "active")), rebuilds(None)
    (True, False)
    """
    return ticket is not None and ticket.phase == "active"


def trusts_reports(ticket: Ticket | None) -> bool:
    """Say whether usage is what the provider reported last, and not what the host counts.

    The host counts its live list, which is not what was sent until it has been replaced.

    >>> trusts_reports(None), trusts_reports(Ticket("c1", observed=True))
    (False, True)
    """
    if ticket is None or not applied(ticket) or not ticket.observed:
        return False
    return not (ticket.settled and ticket.sync == "applied")


def awaited(ticket: Ticket | None) -> str | None:
    """Give the id of the call whose receipt is waited for; None for none.

    >>> awaited(Ticket("c1"))
    'c1'
    """
    return ticket.call if ticket is not None and ticket.receipt == "pending" else None


def phase(ticket: Ticket | None) -> str:
    """Name the phase for people: what the provider gets, and what became of the live list.

    >>> phase(None), phase(Ticket("c1"))
    ('active', 'pending_tool_result')
    """
    if ticket is None:
        return "active"
    if ticket.phase == "active" and ticket.packet is not None:
        return f"provider_active_native_{ticket.sync}"
    return ticket.phase


def merged(packet: Packet, incoming: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Put what came since behind a packet; None where the live messages are others.

    >>> packet = Packet(("summary",), source=("a", "b"))
    >>> merged(packet, ("a", "b", "c")), merged(packet, ("summary", "c")), merged(packet, ("x",))
    (('summary', 'c'), ('summary', 'c'), None)
    """
    for known in (packet.source, packet.messages):
        if known and incoming[: len(known)] == known:
            return packet.messages + incoming[len(known) :]
    return None
