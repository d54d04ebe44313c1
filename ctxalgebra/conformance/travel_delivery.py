"""The part of `travel` that delivers: the refresh registry, and the tickets of travels."""

from __future__ import annotations

from typing import Any, Literal, cast

from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.delivery.refresh import Failure, Refresh, RefreshEvent, refresh
from ctxalgebra.delivery.ticket import (
    Accepted,
    Activated,
    Deferred,
    Delivered,
    DeliveryEvent,
    Failed,
    Forgotten,
    Observed,
    Packet,
    Rejected,
    Settling,
    SyncStatus,
    Ticket,
    applied,
    awaited,
    deliver,
    delivering,
    holds_live,
    merged,
    phase,
    rebuilds,
)

__all__ = ["OPERATIONS"]

_REFRESH: dict[str, Literal["asked", "rebuilt", "dropped", "done"]] = {
    "markPending": "asked",
    "markRebuilt": "rebuilt",
    "markSuccess": "done",
    "clearPending": "dropped",
    "clear": "done",
}
_STATUS: tuple[SyncStatus, ...] = ("pending", "applied", "skipped", "unavailable", "failed")


def _refresh_event(event: object) -> RefreshEvent:
    match event:
        case {"fail": str(error)}:
            return Failure(error)
        case str(name) if name in _REFRESH:
            return _REFRESH[name]
        case _:
            raise InvalidInput("input.events: expected the name of an event, or fail")


def refresh_machine(*, events: list[Any]) -> Any:
    """Follow the registry; one result for each event."""
    state, results = Refresh(), list[Any]()
    for event in events:
        known = _refresh_event(event)
        state = refresh(state, known)
        results.append(
            {
                "ret": not state.exhausted if isinstance(known, Failure) else None,
                "pending": state.pending,
                "attempts": state.attempts,
                "failure": state.failure,
                "rebuilt": state.rebuilt,
            }
        )
    return results


def _status(told: dict[str, Any]) -> SyncStatus:
    for status in _STATUS:
        if told.get("status") == status:
            return status
    raise InvalidInput("input: a status is pending, applied, skipped, unavailable or failed")


def _messages(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise InvalidInput("input.events: expected a list of messages")
    return tuple(cast("list[object]", value))


def _event(event: list[Any]) -> DeliveryEvent:
    match event:
        case ["defer", str(call)]:
            return Deferred(call)
        case ["markCutoverReady", str(call)]:
            return Accepted(call)
        case ["rejectTicket", str(call)]:
            return Rejected(call)
        case ["activatePacket", messages, str() | None as leaf]:
            return Activated(Packet(_messages(messages), leaf))
        case ["activatePacket", messages, str() | None as leaf, source]:
            return Activated(Packet(_messages(messages), leaf, _messages(source)))
        case ["recordDeliveryFailure", str(error), "retry" | "unsafe_fallback" as then]:
            return Failed(error, then)
        case ["recordDeliveryFailure", str(error), "cached_exhausted"]:
            return Failed(error, "cached_exhausted")
        case ["settle"]:
            return Settling()
        case ["markUsageObserved"]:
            return Observed()
        case ["forget"]:
            return Forgotten()
        case _:
            raise InvalidInput("input.events: expected the name of an event and what it takes")


_TRUTHS = frozenset({"markCutoverReady", "rejectTicket", "activatePacket"})


def _told(name: str, ticket: Ticket | None) -> dict[str, Any]:
    packet = ticket and ticket.packet
    return {
        "op": name,
        "status": {
            "persistentMutationApplied": applied(ticket),
            "phase": "active" if ticket is None else ticket.phase,
            "packetMessageCount": packet and len(packet.messages),
            "leafId": packet and packet.leaf,
            "error": ticket and ticket.error,
            "usageObserved": ticket is not None and ticket.observed,
        },
        "phase": phase(ticket),
        "active": delivering(ticket),
        "keep": holds_live(ticket),
        "rebuild": rebuilds(ticket),
        "pendingTravel": awaited(ticket),
    }


def _merge(ticket: Ticket | None, incoming: Any) -> Any:
    messages = _messages(incoming)
    both = merged(ticket.packet, messages) if ticket and ticket.packet else None
    return None if both is None else list(both)


def delivery_machine(
    *, schedule: dict[str, Any], apply: dict[str, Any], events: list[list[Any]]
) -> Any:
    """Follow the ticket of a travel; one result for each event."""
    answers = {"Schedule": schedule, "ReplaceLive": apply}
    ticket: Ticket | None = None
    results = list[Any]()
    for given in events:
        name = given[0] if given and isinstance(given[0], str) else ""
        if name == "mergeCachedPacket" and len(given) == 2:
            results.append({**_told(name, ticket), "ret": _merge(ticket, given[1])})
            continue
        before, ret = ticket, cast("Any", None)
        ticket, effects = deliver(ticket, _event(given))
        for effect in effects:
            ret = answers[type(effect).__name__]
            ticket, _ = deliver(ticket, Delivered(_status(ret)))
        if name in _TRUTHS:
            ret = ticket is not before
        results.append({**_told(name, ticket), "ret": ret})
    return results


OPERATIONS = collect("travel", refresh_machine, delivery_machine)
