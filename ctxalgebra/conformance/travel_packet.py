"""The part of `travel` about calls and results, packets, trusted travels and save points.

The rules stand in `ctxalgebra.compat.travel_*`; what they do otherwise than the original stands in
the documentation (differences).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ctxalgebra.compat import travel_anchor, travel_packet, travel_protocol
from ctxalgebra.compat.host_entries import LAST, Entry, path_of
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.values import InvalidInput

__all__ = ["OPERATIONS"]

Object = dict[str, Any]

_STATUSES = ("complete", "repaired", "invalid")
_WORDED = {travel_packet.CONTINUATION: "<continuation>", travel_protocol.RECOVERY: "<recovery>"}


def _messages(messages: Sequence[Entry]) -> list[Object]:
    """Give messages; the wording of those that the extension writes is free."""
    shown: list[Object] = []
    for message in messages:
        kind = message.get("customType")
        worded = _WORDED.get(kind) if isinstance(kind, str) else None
        shown.append({**message} if worded is None else {**message, "content": worded})
    return shown


def analyze_tool_protocol(*, messages: list[Object]) -> Any:
    """Say what is wrong with calls and results, and repair it."""
    found = travel_protocol.analyze(messages)
    return {
        "status": found.status,
        "messages": list(found.messages),
        "repairs": list(found.repairs),
        "defects": list(found.defects),
    }


def seed_fix_orphaned_tool_use(*, messages: list[Object]) -> Any:
    """Repair calls and results as the earlier version does."""
    return list(travel_protocol.repair_results(messages))


def build_safe_current_provider_fallback(*, messages: list[Object]) -> Any:
    """Give messages that can be sent in any case."""
    return _messages(travel_protocol.safe_fallback(messages))


def find_containing_assistant_tool_batch(*, branch: list[Object], tool_call_id: str) -> Any:
    """Look for the message that holds a call."""
    found = travel_protocol.containing_batch(branch, tool_call_id)
    if found is None:
        return None
    return {"entryId": found.entry, "entryIndex": found.index, "toolCallCount": found.calls}


def has_open_latest_user_turn(*, branch: list[Object]) -> Any:
    """Say whether the last message of the user has no answer yet."""
    return travel_protocol.latest_turn_open(branch)


def has_open_user_turn_at_assistant(*, branch: list[Object], index: int) -> Any:
    """Say the same, seen from one message."""
    return travel_protocol.turn_open_at(branch, index)


def rebuild_acm_context_packet(
    *, entries: list[Object], leaf_id: str | None = LAST, at: str | None = LAST
) -> Any:
    """Build what is sent for a leaf."""
    packet = travel_packet.rebuild(entries, leaf_id if at is LAST else at)
    count = {} if packet.continuation == "not_present" else {"count": packet.candidates}
    return {
        "messages": _messages(packet.messages),
        "protocol": {
            "status": packet.status,
            "normalizations": list(packet.normalizations),
            "repairs": list(packet.repairs),
            "defects": list(packet.defects),
        },
        "continuation": {"status": packet.continuation, **count},
    }


def collect_trusted_acm_travel_transactions(*, entries: list[Object], **_: Any) -> Any:
    """List the travels whose receipt and summary agree."""
    return [
        {
            "summaryEntryId": found.summary,
            "details": dict(found.details),
            **({} if found.backup is None else {"backupEntryId": found.backup}),
            "normalization": found.normalization,
        }
        for found in travel_packet.transactions(entries)
    ]


def build_travel_target_facts(
    *,
    target_id: str,
    target_entry: Object,
    target_branch: list[Object],
    protocol: Object,
    from_off_path: bool,
) -> Any:
    """Say what there is to know about a target."""
    status: Any = protocol.get("status")
    names = ("normalizations", "repairs", "defects")
    lists = {name: protocol.get(name, []) for name in names}
    if status not in _STATUSES or not all(isinstance(found, list) for found in lists.values()):
        raise InvalidInput("input.protocol: expected a status and lists")
    told: Any = {name: tuple(found) for name, found in lists.items()}
    packet = travel_packet.Packet((), status, **told)
    facts, warnings = travel_packet.target_facts(
        target_entry, target_branch, packet, off_path=from_off_path
    )
    return {"facts": {**facts, "targetId": target_id}, "warnings": list(warnings)}


def _passed(passed: travel_anchor.Passed) -> Object:
    told: Object = {"id": passed.point.entry.get("id"), "reason": passed.reason}
    if passed.reason == "protocol_repaired":
        told["repairs"] = list(passed.point.repairs)
    elif passed.reason == "protocol_invalid":
        told["defects"] = list(passed.point.defects)
    return told


def scan_protocol_anchor(
    *,
    entries: list[Object],
    leaf_id: str | None = LAST,
    window: int = travel_anchor.WINDOW,
    lowest_index: int = 0,
    accept_repaired_directly: bool = False,
) -> Any:
    """Look for the newest entry whose packet is complete."""
    found = travel_anchor.scan(
        path_of(entries, leaf_id),
        travel_packet.receipts_of(entries),
        lowest=lowest_index,
        window=window,
        accept_repaired=accept_repaired_directly,
    )
    point = found.point
    return {
        "entryId": None if point is None else point.entry.get("id"),
        "protocolStatus": None if point is None else point.status,
        "protocolRepairs": [] if point is None else list(point.repairs),
        "normalizations": [] if point is None else list(point.normalizations),
        "skipped": [_passed(passed) for passed in found.skipped],
        "aborted": found.aborted,
        "searchExhausted": found.exhausted,
        "inspected": found.inspected,
    }


OPERATIONS = collect(
    "travel",
    analyze_tool_protocol,
    seed_fix_orphaned_tool_use,
    build_safe_current_provider_fallback,
    find_containing_assistant_tool_batch,
    has_open_latest_user_turn,
    has_open_user_turn_at_assistant,
    rebuild_acm_context_packet,
    collect_trusted_acm_travel_transactions,
    build_travel_target_facts,
    scan_protocol_anchor,
)
