"""What the travel extension sends for a leaf: the host's context, with its handoff in front.

The summary that a travel wrote becomes a message with authority (`acm:continuation`), and the
result of the travel call, whose call lies on the branch that was left, is taken out. One rule says
which summaries may do so: `trusted`. The original asks for the marker and two details where it
shows a summary, and for all of them where it takes out a receipt (W13). Source: travel, section 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from attrs import frozen

from ctxalgebra.checkpoints.handoff import Handoff, read_handoff
from ctxalgebra.checkpoints.names import is_name
from ctxalgebra.compat.host_context import context_of, messages_of
from ctxalgebra.compat.host_entries import LAST, Entry, index, instant, path_of
from ctxalgebra.compat.travel_entries import message_of, speaks, tool_calls
from ctxalgebra.compat.travel_protocol import Json, Status, analyze, latest_turn_open
from ctxalgebra.utf16 import trim

__all__ = [
    "CONTINUATION",
    "MARKER",
    "Packet",
    "Projection",
    "Transaction",
    "packet_of",
    "rebuild",
    "receipts_of",
    "target_facts",
    "transactions",
    "trusted",
]

MARKER = "<!-- PI-CONTEXT:ACM-CONTINUATION:v1 -->"
"""The first line of the original's handoffs."""

CONTINUATION = "acm:continuation"
"""The type of the message that a trusted summary becomes."""

TOOL = "acm_travel"

Projection: TypeAlias = Literal["not_present", "projected", "ambiguous"]

_NAMED = ("toolCallId", "originId", "target", "targetId")
_AGREE = ("originId", "target", "targetId", "currentUserTurnOpen", "backupCurrentHeadAs")
_ABSENT: Any = object()
_FRAME = (
    "You went back in this conversation. What the branch that was left hands over follows; it is "
    "newer than everything above.\n\n{}"
)
_OPEN = "The user's last request is still open: answer it."


def _details(owner: Entry) -> Mapping[str, Any]:
    details = owner.get("details")
    return cast("Mapping[str, Any]", details) if isinstance(details, dict) else {}


def _is_one(value: object) -> bool:
    return not isinstance(value, bool) and value == 1


def trusted(entry: Entry) -> Handoff | None:
    """Read the handoff out of a summary that a travel wrote; None if it did not.

    The summary is the extension's (`fromHook`), says what a travel says about itself, hangs below
    the target that it names, and is a handoff's own text to the letter.

    Args:
        entry: any.

    >>> trusted({"type": "branch_summary", "summary": "Goal: x"}) is None
    True
    """
    details = _details(entry)
    if entry.get("type") != "branch_summary" or entry.get("fromHook") is not True:
        return None
    if details.get("kind") != TOOL or not _is_one(details.get("handoffVersion")):
        return None
    backup = details.get("backupCurrentHeadAs", _ABSENT)
    told = isinstance(details.get("currentUserTurnOpen"), bool)
    named = all(isinstance(details.get(name), str) and details[name] for name in _NAMED)
    if not told or not named or not (backup is None or isinstance(backup, str)):
        return None
    if any(entry.get(name) != details["targetId"] for name in ("parentId", "fromId")):
        return None
    summary = entry.get("summary")
    return read_handoff(summary, marker=MARKER) if isinstance(summary, str) else None


@frozen
class Transaction:
    """Hold a travel whose receipt and summary agree.

    Args:
        summary: id of the summary.
        receipt: id of the entry with the result of the call.
        details: what the summary says about the travel: `toolCallId`, `currentUserTurnOpen`,
            `originId`, `target`, `targetId`, `backupCurrentHeadAs`.
        backup: the entry that got the name of the return ticket; None without one.
    """

    summary: str
    receipt: Any
    details: Mapping[str, Any]
    backup: str | None

    @property
    def normalization(self) -> Json:
        """What is noted where the receipt is taken out."""
        kind = "removed_applied_acm_travel_receipt"
        call = self.details["toolCallId"]
        return {"kind": kind, "toolCallId": call, "summaryEntryId": self.summary}


def _domain_error(error: object) -> bool:
    if isinstance(error, str):
        return trim(error) != ""
    return error is True or (isinstance(error, list | dict) and error not in ([], {}))


def _receipt(entry: Entry) -> Mapping[str, Any] | None:
    """Give the details of the result of a travel that was applied; None if it is none."""
    message = message_of(entry)
    if message is None or message.get("role") != "toolResult" or message.get("toolName") != TOOL:
        return None
    details = _details(message)
    applied = (
        message.get("isError") is not True
        and details.get("mutationStatus") == "applied"
        and details.get("persistentMutationApplied") is True
        and details.get("handoffFormat") == "structured-v1"
        and not _domain_error(details.get("error"))
        and isinstance(entry.get("parentId"), str)
        and details.get("summaryEntryId") == entry["parentId"]
        and details.get("resultingLeafId") == entry["parentId"]
    )
    return details if applied else None


def _transaction(entry: Entry, known: Mapping[str, Entry]) -> Transaction | None:
    receipt = _receipt(entry)
    summary = known.get(entry["parentId"]) if receipt is not None else None
    if receipt is None or summary is None or trusted(summary) is None:
        return None
    details = _details(summary)
    if entry["message"].get("toolCallId") != details["toolCallId"]:
        return None
    if any(receipt.get(name, _ABSENT) != details[name] for name in _AGREE):
        return None
    ticket = receipt.get("backupEntryId")
    backup = ticket if isinstance(ticket, str) and ticket else None
    if details["backupCurrentHeadAs"] is not None and backup is None:
        return None
    told = {name: details[name] for name in ("toolCallId", *_AGREE)}
    return Transaction(entry["parentId"], entry.get("id"), told, backup)


def transactions(entries: Sequence[Entry]) -> tuple[Transaction, ...]:
    """List the travels of a file whose receipt and summary agree, by their receipts. Linear.

    A summary with several such receipts for its call has none.

    Args:
        entries: in the order of the file.

    >>> transactions([{"type": "message", "id": "u", "message": {"role": "user"}}])
    ()
    """
    known = index(entries)
    found = [done for entry in entries if (done := _transaction(entry, known)) is not None]
    owners = Counter(done.summary for done in found)
    return tuple(done for done in found if owners[done.summary] == 1)


def receipts_of(entries: Sequence[Entry]) -> dict[str, Transaction]:
    """Map the entries with receipts to their travels."""
    done = transactions(entries)
    return {found.receipt: found for found in done if isinstance(found.receipt, str)}


@frozen
class Packet:
    """Hold what is sent for a leaf.

    Args:
        messages: repaired; as they are where there are defects.
        status: of calls and results.
        normalizations: receipts that were taken out, which is no repair.
        repairs: see `travel_protocol.Analysis`.
        defects: the same.
        continuation: whether a handoff is shown with authority.
        candidates: how many trusted handoffs the context has.
    """

    messages: tuple[Entry, ...]
    status: Status
    normalizations: tuple[Json, ...] = ()
    repairs: tuple[Json, ...] = ()
    defects: tuple[Json, ...] = ()
    continuation: Projection = "not_present"
    candidates: int = 0


def _continuation(entry: Entry, handoff: Handoff) -> Json:
    """Write the message that a trusted summary becomes."""
    details = _details(entry)
    target, ticket = details["target"], details["backupCurrentHeadAs"]
    lines = [_FRAME.format(entry["summary"]), ""]
    if is_name(target):
        back = f"; the branch that was left is at {ticket}" if ticket and is_name(ticket) else ""
        lines.append(f"Target: {target}{back}.")
    lines += [f"Goal: {handoff.goal}", f"Next step: {handoff.next}"]
    if details["currentUserTurnOpen"]:
        lines.append(_OPEN)
    return {
        "role": "custom",
        "customType": CONTINUATION,
        "content": "\n".join(lines),
        "display": False,
        "details": {"kind": "acm-continuation", "version": 1, "fromId": entry["fromId"]},
        "timestamp": instant(entry),
    }


def _key(entry: Entry) -> tuple[Any, ...]:
    return entry["summary"], entry["fromId"], instant(entry)


def packet_of(path: Sequence[Entry], receipts: Mapping[str, Transaction]) -> Packet:
    """Build what is sent at the end of a path.

    Args:
        path: from the root.
        receipts: of the whole file, see `receipts_of`.

    Raises:
        DecodeError: `wrong-type`, an entry of type `message` holds none.
    """
    chosen = context_of(path)
    found = [
        (at, handoff) for at, entry in enumerate(chosen) if (handoff := trusted(entry)) is not None
    ]
    place = -1
    state: Projection = "not_present"
    if found:
        key = _key(chosen[found[-1][0]])
        once = sum(_key(chosen[at]) == key for at, _ in found) == 1
        place, state = (found[-1][0], "projected") if once else (-1, "ambiguous")
    messages: list[Entry] = []
    normal: list[Json] = []
    for at, entry in enumerate(chosen):
        done = receipts.get(name) if isinstance(name := entry.get("id"), str) else None
        if done is not None:
            normal.append(done.normalization)
        elif at == place:
            messages.append(_continuation(entry, found[-1][1]))
        else:
            messages += messages_of(entry)
    known = analyze(messages)
    return Packet(
        known.messages,
        known.status,
        tuple(normal),
        known.repairs,
        known.defects,
        state,
        len(found),
    )


def rebuild(entries: Sequence[Entry], leaf: str | None = LAST) -> Packet:
    """Build what is sent for a leaf.

    Args:
        entries: in the order of the file.
        leaf: an id; None stands before the first entry.

    Raises:
        DecodeError: `cyclic-parent`; `wrong-type`, an entry of type `message` holds none.
        InvalidArgument: `unknown-entry`, there is no such leaf.

    >>> rebuild([{"type": "message", "id": "u", "message": {"role": "user", "content": "hi"}}])
    ... # doctest: +ELLIPSIS
    Packet(messages=({'role': 'user', 'content': 'hi'},), status='complete', ...)
    """
    return packet_of(path_of(entries, leaf), receipts_of(entries))


def target_facts(
    entry: Entry, path: Sequence[Entry], packet: Packet, *, off_path: bool
) -> tuple[Json, tuple[str, ...]]:
    """Say what there is to know about a target, and what to look out for.

    Args:
        entry: the target.
        path: from the root to it.
        packet: what is sent there.
        off_path: whether it lies beside the path that is left.

    Returns:
        The facts by their names, and the warnings; none of them forbids anything.
    """
    message = message_of(entry) or {}
    said = message if message.get("role") == "assistant" else {}
    calls = bool(said and tool_calls(said))
    summary = entry.get("type") == "branch_summary"
    still_open = latest_turn_open(path)
    facts: Json = {
        "targetId": entry.get("id"),
        "targetEntryType": entry.get("type"),
        "targetRole": message.get("role"),
        "targetStopReason": said.get("stopReason"),
        "targetAssistantHasToolCalls": calls,
        "targetAssistantHasVisibleText": bool(said and speaks(said)),
        "targetIsBranchSummary": summary,
        "survivingLatestUserTurnOpen": still_open,
        "protocolStatus": packet.status,
        "protocolNormalizations": list(packet.normalizations),
        "protocolRepairs": list(packet.repairs),
        "protocolDefects": list(packet.defects),
        "fromOffPath": off_path,
    }
    warnings = {
        "target_packet_repaired": packet.status == "repaired",
        "target_prefix_open_user_turn": still_open,
        "target_is_assistant_tool_batch": calls,
        "target_is_branch_summary": summary,
        "target_from_off_path": off_path,
    }
    return facts, tuple(name for name, holds in warnings.items() if holds)
