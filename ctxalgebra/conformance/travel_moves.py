"""The area `travel`: checkpoint and travel, from what a model wrote to what is written."""

from __future__ import annotations

from typing import Any

from ctxalgebra.compat import travel_moves
from ctxalgebra.compat.host_entries import LAST, Entry, branch, name_of
from ctxalgebra.compat.travel_entries import role_label
from ctxalgebra.compat.travel_labels import read_labels
from ctxalgebra.compat.travel_moves import Folded, Saved
from ctxalgebra.compat.travel_mutation import Refused
from ctxalgebra.compat.travel_timeline import tag
from ctxalgebra.compat.travel_usage import fold_references, save_point
from ctxalgebra.conformance.operations import Refusal, collect
from ctxalgebra.conformance.travel_mutation import Host, outcome_of
from ctxalgebra.conformance.values import InvalidInput

__all__ = ["OPERATIONS"]

Json = dict[str, Any]

_DETAILS = (
    "toolCallId",
    "currentUserTurnOpen",
    "originId",
    "target",
    "targetId",
    "backupCurrentHeadAs",
)


def _host(entries: list[Json], leaf: str | None, faults: list[Json] | None) -> Host:
    if leaf is LAST:
        leaf = name_of(entries[-1]) if entries else None
    return Host(entries, leaf, faults or [])


def _appended(host: Host) -> list[Json]:
    """Give what was written, without what only the host reads."""
    return [
        {**entry, "details": {name: entry["details"][name] for name in _DETAILS}}
        if "details" in entry
        else entry
        for entry in host.appended
    ]


def _refuse(host: Host, code: str) -> Refusal:
    more = {"appended": _appended(host), "leafId": host.leaf} if host.appended else {}
    return Refusal(code, **more)


def _shown(entry: Entry | None, names: Any) -> str | None:
    return None if entry is None else names.get(entry["id"]) or entry["id"]


def checkpoint(
    *,
    entries: list[dict[str, Any]],
    leaf_id: str | None = LAST,
    tool_call_id: str = "",
    params: dict[str, Any],
    faults: list[dict[str, Any]] | None = None,
    **_: Any,
) -> Any:
    """Name an entry."""
    host = _host(entries, leaf_id, faults)
    name = params.get("name")
    if not isinstance(name, str):
        raise InvalidInput("input.params.name: expected a text")
    path = branch(entries, host.leaf)
    saved = travel_moves.checkpoint(host, name, target=params.get("target"), call=tool_call_id)
    if isinstance(saved, Refused):
        raise _refuse(host, saved.code)
    return _told(saved, host, path)


def _told(saved: Saved, host: Host, path: list[Entry]) -> Json:
    at, anchor = saved.written.target, saved.anchor
    names = read_labels(host.entries).names
    turn, task = fold_references(path, names, at)
    near = save_point(path, saved.before.names)
    point = None if anchor is None else anchor.point
    return {
        "status": "created" if saved.written.created else "already_present",
        "label": saved.written.name,
        "entryId": at,
        "role": role_label(saved.entry) or tag(saved.entry),
        "targetResolution": "explicit" if saved.explicit else "automatic_protocol_complete",
        "protocolStatus": None if point is None else point.status,
        "skippedTransientCount": None if anchor is None else len(anchor.skipped),
        "foldReferences": {
            "turn": _shown(turn, names),
            "task": _shown(task, names),
            "stepsSinceSavePoint": None if near is None else near[1],
        },
        "appended": _appended(host),
        "leafId": host.leaf,
    }


def travel(
    *,
    entries: list[dict[str, Any]],
    leaf_id: str | None = LAST,
    tool_call_id: str = "",
    params: dict[str, Any],
    faults: list[dict[str, Any]] | None = None,
    **_: Any,
) -> Any:
    """Go to an entry with a handoff."""
    host = _host(entries, leaf_id, faults)
    folded = travel_moves.travel(host, params, call=tool_call_id)
    if isinstance(folded, Refused):
        raise _refuse(host, folded.code)
    outcome = outcome_of(folded.done, folded.ticket, folded.target)
    if not outcome["ok"]:
        raise _refuse(host, outcome["error"])
    return _went(folded, host, outcome)


def _went(folded: Folded, host: Host, outcome: Json) -> Json:
    at, name = folded.ticket
    return {
        "targetId": folded.target,
        "resolvedBy": folded.meant,
        "originId": folded.origin,
        "fromOffPath": folded.off_path,
        "backupCurrentHeadAs": name,
        "backupEntryId": at,
        "backupOutcome": outcome["backupOutcome"],
        "backupProtocolStatus": folded.point.status,
        "summaryEntryId": outcome["summaryEntryId"],
        "resultingLeafId": outcome["resultingLeafId"],
        "activeSummaryDepthBefore": folded.depth,
        "activeSummaryDepthAfter": folded.depth_after,
        "targetWarnings": list(folded.warnings),
        "appended": _appended(host),
        "leafId": host.leaf,
    }


OPERATIONS = collect("travel", checkpoint, travel)
