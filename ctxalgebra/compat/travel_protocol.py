"""Calls and results of the host's messages: what is wrong with them, and the extension's repair.

A message that is no result, with the results that follow it, is a *block*, and what a repair does
in one block never touches another. So the analysis is linear, whatever strays (the original looks
back from each stray result, W27), and it can be kept while a session grows
(`ctxalgebra.compat.travel_anchor`).

The library's own repair is `ctxalgebra.protocol.repair`; it moves results that came late to their
call, where this one makes an error result and drops the late one. Source: travel, section 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from attrs import frozen

from ctxalgebra.compat.host_entries import Entry
from ctxalgebra.compat.travel_entries import message_of, speaks, tool_calls
from ctxalgebra.utf16 import trim

__all__ = [
    "INTERRUPTED",
    "RECOVERY",
    "Analysis",
    "Batch",
    "Settled",
    "Status",
    "analyze",
    "blocks",
    "closes_turn",
    "containing_batch",
    "defects_of",
    "healthy",
    "latest_turn_open",
    "remains",
    "repair_results",
    "safe_fallback",
    "settle",
    "turn_open_at",
    "well_formed",
]

Status: TypeAlias = Literal["complete", "repaired", "invalid"]
Json: TypeAlias = dict[str, Any]
Group: TypeAlias = tuple[Entry | None, list[Entry]]
"""A message that is no result (None in front of the first one), and the results behind it."""

INTERRUPTED = "[Interrupted by context travel]"
"""The text of a result that is made for a call without one."""

RECOVERY = "acm:protocol-recovery"
"""The type of the message that stands where no message could be sent."""

_RECOVERY_TEXT = "No message of this session can be sent as it is. Reload it, or go on from here."
_FAILED = frozenset({"error", "aborted"})


@frozen
class Analysis:
    """Hold what is wrong with a list of messages, and the list that can be sent.

    Args:
        status: `invalid` if there are defects, `repaired` if there are repairs.
        messages: repaired; as they came in if there are defects.
        repairs: what was done, in the order in which the original does it.
        defects: what no repair is for.
    """

    status: Status
    messages: tuple[Entry, ...]
    repairs: tuple[Json, ...] = ()
    defects: tuple[Json, ...] = ()


def _filled(value: object) -> bool:
    return isinstance(value, str) and trim(value) != ""


def healthy(message: Entry | None) -> bool:
    """Say whether a message is an assistant's, of blocks, whose turn did not fail."""
    if message is None or message.get("role") != "assistant":
        return False
    stop = message.get("stopReason")
    failed = isinstance(stop, str) and stop in _FAILED
    return isinstance(message.get("content"), list) and not failed


def well_formed(message: Entry | None) -> dict[str, str]:
    """Map the ids of the calls of a healthy message to their names, in call order."""
    if message is None or not healthy(message):
        return {}
    return {
        call["id"]: call["name"]
        for call in tool_calls(message)
        if _filled(call.get("id")) and _filled(call.get("name"))
    }


def defects_of(message: Entry, index: int) -> Iterator[Json]:
    """List what no repair is for in one message: ids and names that are none, ids that come twice.

    Args:
        message: any; only a healthy one has defects.
        index: where it stands.
    """
    if not healthy(message):
        return
    seen: set[str] = set()
    at = {"assistantIndex": index}
    for place, block in enumerate(cast("list[object]", message["content"])):
        if not isinstance(block, dict):
            continue
        part = cast("Entry", block)
        if part.get("type") != "toolCall":
            continue
        call: Any = part.get("id")
        known = {"toolCallId": call} if _filled(call) else {}
        if not known:
            yield {"kind": "invalid_tool_call_id", **at, "contentIndex": place}
        elif call in seen:
            yield {"kind": "duplicate_tool_call_id", **at, **known}
        else:
            seen.add(call)
        if not _filled(part.get("name")):
            yield {"kind": "invalid_tool_name", **at, "contentIndex": place, **known}


def blocks(messages: Sequence[Entry]) -> Iterator[Group]:
    """Part messages into blocks: one that is no result, and the results behind it."""
    head: Entry | None = None
    results: list[Entry] = []
    for message in messages:
        if message.get("role") == "toolResult":
            results.append(message)
            continue
        if head is not None or results:
            yield head, results
        head, results = message, []
    if head is not None or results:
        yield head, results


def _note(kind: str, message: Entry) -> Json:
    told = {name: message[name] for name in ("toolCallId", "toolName") if name in message}
    return {"kind": kind, **told}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _missing(call: str, name: str, message: Entry) -> Json:
    result: Json = {
        "role": "toolResult",
        "toolCallId": call,
        "toolName": name,
        "content": [{"type": "text", "text": INTERRUPTED}],
        "isError": True,
    }
    return result | {name: message[name] for name in ("timestamp",) if name in message}


def remains(head: Entry) -> bool:
    """Say whether a message stays when the calls leave that nobody answers.

    >>> remains({"role": "assistant", "stopReason": "aborted", "content": [{"type": "toolCall"}]})
    False
    """
    content: Any = head.get("content")
    if head.get("role") != "assistant" or healthy(head) or not isinstance(content, list):
        return True
    blocks = cast("list[object]", content)
    return not blocks or len(tool_calls(head)) < len(blocks)


class Settled(NamedTuple):
    """Hold what a repair does in one block.

    Fields: `messages` that stay; what the three passes of the original note, each in its order:
    `strays`, `settled`, `stripped`; `laid`, how many messages there are behind the second pass.
    """

    messages: tuple[Entry, ...]
    strays: tuple[Json, ...]
    settled: tuple[Json, ...]
    stripped: tuple[Json, ...]
    laid: int


def settle(head: Entry | None, results: Iterable[Entry], at: int) -> Settled:
    """Repair one block.

    Args:
        head: the message that is no result; None for results in front of the first one.
        results: those behind it.
        at: where it stands behind the second pass.
    """
    calls = well_formed(head)
    first: dict[str, Entry] = {}
    strays: list[Json] = []
    settled: list[Json] = []
    for result in results:
        call = _text(result.get("toolCallId"))
        if call not in calls:
            strays.append(_note("removed_orphan_result", result))
        elif call in first:
            settled.append(_note("removed_duplicate_result", result))
        else:
            first[call] = result
    strays.reverse()
    if head is None:
        return Settled((), tuple(strays), (), (), 0)
    if len(first) == len(calls) and list(first) != list(calls):
        order = {"before": list(first), "after": list(calls)}
        settled.append({"kind": "reordered_results", "assistantIndex": at, **order})
    shown, stripped = _strip(head, calls)
    for call, name in calls.items():
        if call not in first:
            told = {"toolCallId": call, "toolName": name}
            settled.append({"kind": "synthesized_missing_result", **told})
            first[call] = _missing(call, name, head)
        shown.append(first[call])
    return Settled(tuple(shown), tuple(strays), tuple(settled), stripped, 1 + len(calls))


def _strip(head: Entry, answered: Mapping[str, str]) -> tuple[list[Entry], tuple[Json, ...]]:
    """Take out calls that have no result: those of a turn that failed."""
    calls = tool_calls(head) if head.get("role") == "assistant" else []
    lost = [call for call in calls if _text(call.get("id")) not in answered]
    if not lost:
        return [head], ()
    gone = {id(call) for call in lost}
    rest = [block for block in head["content"] if id(block) not in gone]
    told = [(_text(call.get("id")), _text(call.get("name"))) for call in lost]
    kind = "stripped_unpaired_tool_call"
    notes = tuple({"kind": kind, "toolCallId": call, "toolName": name} for call, name in told)
    return [{**head, "content": rest}] if rest else [], notes


def _assemble(messages: Sequence[Entry]) -> tuple[tuple[Entry, ...], tuple[Json, ...]]:
    """Repair messages, whatever their defects: what is left, and what was done."""
    done: list[Settled] = []
    at = 0
    for head, results in blocks(messages):
        done.append(settle(head, results, at))
        at += done[-1].laid
    return (
        tuple(message for block in done for message in block.messages),
        (
            *(note for block in reversed(done) for note in block.strays),
            *(note for block in done for note in block.settled),
            *(note for block in reversed(done) for note in block.stripped),
        ),
    )


def analyze(messages: Sequence[Entry]) -> Analysis:
    """Say what is wrong with the calls and results of messages, and repair it. Linear.

    Args:
        messages: the host's, never changed.

    >>> call = {"type": "toolCall", "id": "a", "name": "read", "arguments": {}}
    >>> analyze([{"role": "assistant", "content": [call]}]).repairs
    ({'kind': 'synthesized_missing_result', 'toolCallId': 'a', 'toolName': 'read'},)
    """
    defects = tuple(
        defect for at, message in enumerate(messages) for defect in defects_of(message, at)
    )
    if defects:
        return Analysis("invalid", tuple(messages), defects=defects)
    repaired, repairs = _assemble(messages)
    return Analysis("repaired" if repairs else "complete", repaired, repairs)


def repair_results(messages: Sequence[Entry]) -> tuple[Entry, ...]:
    """Repair as the earlier version does, which knows no defects and tells nothing.

    Unlike it, results that come twice or in another order are put right as well (W26).
    """
    return _assemble(messages)[0]


def safe_fallback(messages: Sequence[Entry]) -> tuple[Entry, ...]:
    """Give messages that can be sent in any case: repaired, without those that have defects.

    Returns:
        At least one; a hidden message that says so where nothing is left.

    >>> [message["customType"] for message in safe_fallback([])]
    ['acm:protocol-recovery']
    """
    known = analyze(messages)
    if known.status == "invalid":
        bad = {defect["assistantIndex"] for defect in known.defects}
        known = analyze([message for at, message in enumerate(messages) if at not in bad])
    if known.messages:
        return known.messages
    details = {"kind": "acm-protocol-recovery", "reason": "no_protocol_valid_messages"}
    return (
        {
            "role": "custom",
            "customType": RECOVERY,
            "content": _RECOVERY_TEXT,
            "display": False,
            "details": details,
        },
    )


@frozen
class Batch:
    """Say which entry holds a call.

    Args:
        entry: its id.
        index: on the path.
        calls: how many calls it holds, well-formed or not.
    """

    entry: Any
    index: int
    calls: int


def containing_batch(path: Sequence[Entry], call: str) -> Batch | None:
    """Look for the latest assistant message on a path that holds a call; None if none does."""
    for at in range(len(path) - 1, -1, -1):
        message = message_of(path[at])
        if message is None or message.get("role") != "assistant":
            continue
        calls = tool_calls(message)
        found = (block for block in calls if block.get("id") == call)
        if any(_filled(block.get("name")) for block in found):
            return Batch(path[at].get("id"), at, len(calls))
    return None


def closes_turn(message: Entry) -> bool:
    """Say whether a message answers the user: a text that is not blank, and no calls beside it.

    In the original any text does, also one that announces a call (W14).
    """
    return message.get("role") == "assistant" and speaks(message) and not tool_calls(message)


def latest_turn_open(path: Sequence[Entry]) -> bool:
    """Say whether the last message of the user has no answer yet.

    >>> latest_turn_open([{"type": "message", "message": {"role": "user", "content": "hi"}}])
    True
    """
    for entry in reversed(path):
        message = message_of(entry)
        if message is None:
            continue
        if message.get("role") == "user":
            return True
        if closes_turn(message):
            return False
    return False


def turn_open_at(path: Sequence[Entry], index: int) -> bool:
    """Say whether the last message of the user in front of an entry had no answer up to it.

    The entry itself counts; there is none outside of the path.
    """
    return 0 <= index < len(path) and latest_turn_open(path[: index + 1])
