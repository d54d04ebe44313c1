"""The operation `paging.session`: requests of a growing session, with what lives between them."""

from __future__ import annotations

from typing import Any, cast

from attrs import evolve

from ctxalgebra.codecs.lines import clock
from ctxalgebra.compat.paging_keys import RawItem
from ctxalgebra.compat.paging_limits import SelectionError
from ctxalgebra.compat.paging_session import PagingState, next_request, resumed
from ctxalgebra.compat.paging_tokens import clear, record_response
from ctxalgebra.conformance.operations import Refusal, collect
from ctxalgebra.conformance.paging import refusal
from ctxalgebra.conformance.paging_recall import project_active_branch
from ctxalgebra.conformance.paging_select import read_items, selection_out, wording
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.errors import InvalidArgument

__all__ = ["OPERATIONS"]

Entries = list[dict[str, Any]]


def _entries(op: dict[str, Any], name: str) -> Entries:
    value = op.get(name)
    if not isinstance(value, list):
        raise InvalidInput(f"ops: {name} is a list of objects")
    items = cast("list[object]", value)
    if not all(isinstance(item, dict) for item in items):
        raise InvalidInput(f"ops: {name} is a list of objects")
    return cast("Entries", items)


def _message(entry: dict[str, Any]) -> dict[str, Any] | None:
    """Give the message of an entry, if it is one of the session's."""
    if entry.get("type") == "message":
        message = entry.get("message")
        return cast("dict[str, Any]", message) if isinstance(message, dict) else None
    if entry.get("type") != "custom_message":
        return None
    names: tuple[str, ...] = ("customType", "content", "display")
    members = {name: entry[name] for name in names if name in entry}
    time = entry.get("timestamp")
    stamp = clock(time) if isinstance(time, str) else None
    return {"role": "custom", **members, "timestamp": stamp}


def session_messages(entries: Entries) -> Entries:
    """List the messages of a session as the host gives them: edits replace or omit."""
    edits = {
        entry["targetId"]: entry.get("replacement")
        for entry in entries
        if entry.get("type") == "context_edit" and isinstance(entry.get("targetId"), str)
    }
    messages: Entries = []
    for entry in entries:
        message, name = _message(entry), entry.get("id")
        if message is None:
            continue
        if isinstance(name, str) and name in edits:
            edit = edits[name]
            if not isinstance(edit, dict):
                continue
            message = {**message, "content": cast("dict[str, Any]", edit).get("content")}
        messages.append(message)
    return messages


def session(
    *,
    ops: list[dict[str, Any]],
    token_budget: Any,
    notice_lengths: dict[str, Any],
    system_prompt: str = "",
    active_tools: list[dict[str, Any]] | None = None,
    trim_to_tokens: Any = ...,
    model_context_window: Any = ...,
) -> Any:
    """Grow a session and select its requests; one result for each operation."""
    base: dict[str, Any] = {
        "token_budget": token_budget,
        "trim_to_tokens": trim_to_tokens,
        "model_context_window": model_context_window,
        "system_prompt": system_prompt,
        "active_tools": active_tools or [],
    }
    state = PagingState()
    entries: Entries = []
    results: list[Any] = []
    for op in ops:
        result: Any = None
        match op.get("op"):
            case "append":
                entries = [*entries, *_entries(op, "entries")]
            case "setEntries":
                entries = _entries(op, "entries")
            case "respond":
                (entry,) = _entries({"entry": [op.get("entry")]}, "entry")
                message = _message(entry)
                if message is not None:
                    state = evolve(state, tracker=record_response(state.tracker, message))
                entries = [*entries, entry]
            case "select":
                state, result = _select(state, entries, op, base, notice_lengths)
            case "clearUsage":
                state = evolve(state, tracker=clear(state.tracker))
            case "reset":
                state = evolve(state, cut=None)
            case other:
                raise InvalidInput(f"ops: there is no operation {other!r}")
        results.append(result)
    return results


def _select(
    state: PagingState,
    entries: Entries,
    op: dict[str, Any],
    base: dict[str, Any],
    lengths: dict[str, Any],
) -> tuple[PagingState, Any]:
    """Select one request; an error is a result, and leaves what is remembered."""
    names = {
        "tokenBudget": "token_budget",
        "trimToTokens": "trim_to_tokens",
        "modelContextWindow": "model_context_window",
        "systemPrompt": "system_prompt",
        "activeTools": "active_tools",
    }
    given = {**base, **{names[name]: op[name] for name in names if name in op}}
    stored = session_messages(entries)
    # The host hands out clones, so that no message is the very one that history holds.
    messages = _entries(op, "messages") if "messages" in op else [{**found} for found in stored]
    persistent: Entries | None = stored
    raw: list[RawItem] | None = None
    try:
        raw = None if op.get("noRaw") else read_items(project_active_branch(entries=entries))
    except Refusal:
        # As the original: it goes on without history, and forgets what it learned.
        state, persistent = evolve(state, tracker=clear(state.tracker)), None
    try:
        step = next_request(
            state,
            messages,
            persistent=persistent,
            raw_history=raw,
            status_tokens=op.get("statusTokens"),
            wording=wording(lengths),
            **given,
        )
    except SelectionError as error:
        told = refusal(error)
        return resumed(state, raw), {"error": {"code": told.code, **told.more}}
    except InvalidArgument:
        return resumed(state, raw), {"error": {"code": "error"}}
    found = step.prepared.estimates
    estimates = found and {
        "residentTokens": found.resident,
        "messageTokens": list(found.messages),
    }
    return step.state, {
        **selection_out(step.selection),
        "contextTokens": step.prepared.context,
        "tokenEstimates": estimates,
        "residentTokens": step.resident,
    }


OPERATIONS = collect("paging", session)
