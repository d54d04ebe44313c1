"""The part of `travel` that counts: usage, pressure, gauge, reminders, what fills the window."""

from __future__ import annotations

from math import isfinite
from typing import Any

from ctxalgebra.checkpoints.names import read_names
from ctxalgebra.compat import travel_usage as host
from ctxalgebra.compat.host_entries import Entry, branch
from ctxalgebra.conformance.operations import Refusal, collect
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.usage.boundaries import Requests, begun, folded
from ctxalgebra.usage.budget import tier, token_text
from ctxalgebra.usage.cycle import Cycle, observe, renewed, take
from ctxalgebra.usage.odometer import Due, Needle, Odometer, due, gauge_text, restarted

__all__ = ["OPERATIONS"]

_DECIMALS = 6


def _optional(value: Any, where: str) -> int | float | None:
    """Read a number that may be null or absent."""
    known = host.number(value)
    if known is None and value is not None:
        raise InvalidInput(f"{where}: expected a number")
    return known


def _needed(value: Any, where: str) -> int | float:
    known = _optional(value, where)
    if known is None:
        raise InvalidInput(f"{where}: expected a number")
    return known


# Pressure


def calculate_context_usage_pressure(
    *, tokens: Any = None, context_window: Any = None, percent: Any = None
) -> Any:
    """Read the pressure on the working budget."""
    known = host.read_pressure(tokens, context_window, percent)
    if known is None:
        return None
    return {
        "tokens": known.tokens,
        "contextWindow": known.window,
        "usagePercent": known.usage,
        "workingBudgetTokens": known.budget,
        "pressurePercent": known.pressure,
        "policy": known.policy,
    }


def format_token_count(*, tokens: Any = None) -> Any:
    """Write a number of tokens."""
    known = host.number(tokens)
    return "N/A" if known is None else token_text(known)


def format_context_usage_pressure(
    *, tokens: Any = None, context_window: Any = None, percent: Any = None, decimals: int = 0
) -> Any:
    """Write the pressure."""
    if not 0 <= decimals <= _DECIMALS:
        raise InvalidInput(f"input.decimals: expected 0 to {_DECIMALS}")
    return host.pressure_text(tokens, context_window, percent, decimals=decimals)


def format_context_usage(*, usage: dict[str, Any] | None = None) -> Any:
    """Write usage."""
    return host.usage_text(usage)


def seed_format_context_usage_pressure(*, tokens: Any = None, context_window: Any = None) -> Any:
    """Write the pressure as the earlier version did."""
    return host.original_text(tokens, context_window)


# The gauge


def _needle(folds: dict[str, Any], name: str) -> Needle | None:
    percent = _optional(folds.get(f"{name}Percent"), f"input.folds.{name}Percent")
    removed = _optional(folds.get(f"{name}MessagesRemoved"), f"input.folds.{name}MessagesRemoved")
    return None if percent is None else Needle(percent, int(removed or 0))


def build_gauge_suffix(
    *,
    tokens: Any = None,
    context_window: Any = None,
    percent: Any = None,
    folds: dict[str, Any] | None = None,
    structure: dict[str, Any] | None = None,
) -> Any:
    """Write the gauge's line."""
    reading = host.pressure_text(tokens, context_window, percent)
    if reading is None:
        return None
    folds, structure = folds or {}, structure or {}
    points = _optional(structure.get("savePoints"), "input.structure.savePoints")
    return gauge_text(
        reading,
        boundary=structure.get("boundary") is True,
        points=None if points is None else int(points),
        turn=_needle(folds, "turn"),
        task=_needle(folds, "task"),
    )


def append_suffix_patch(*, content: list[Any], suffix: str) -> Any:
    """Add a text to the last text block."""
    for at in range(len(content) - 1, -1, -1):
        match content[at]:
            case {"type": "text", "text": str(text)}:
                block = {**content[at], "text": text + suffix}
                return {"content": [*content[:at], block, *content[at + 1 :]]}
            case _:
                pass
    return None


def _name(value: Any, where: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{where}: expected a text")
    return value


def gauge_machine(*, events: list[dict[str, Any]]) -> Any:
    """Follow the odometer; one result for each event."""
    state, results = Odometer(), list[Any]()
    for event in events:
        if event.get("reset") is True:
            state = restarted(state)
            results.append({"reset": True})
            continue
        percent = host.number(event.get("pressurePercent"))
        request = _name(event.get("boundaryId"), "input.events: boundaryId")
        found, after = Due(show=False, boundary=False), state
        if percent is not None:
            found, after = due(state, percent, request)
        if event.get("undeliverable") is not True:
            state = after
        results.append({"show": found.show, "boundary": found.boundary})
    return results


# Estimates


def _aggregate(messages: list[dict[str, Any]]) -> tuple[int, int]:
    try:
        return host.aggregate(messages)
    except InvalidArgument:
        raise Refusal("error") from None


def aggregate_messages(*, messages: list[dict[str, Any]]) -> Any:
    """Weigh and count messages."""
    tokens, count = _aggregate(messages)
    return {"tokenCount": tokens, "messageCount": count}


def _after(usage: dict[str, Any] | None, before: Any, after: Any, extra: Any) -> Any:
    known = host.usage_after(usage, before, after, extra)
    if known is not None and not all(map(isfinite, (known["tokens"], known["percent"]))):
        raise InvalidInput("input: the numbers are out of range")
    return known


def estimate_usage_after_message_change(
    *,
    usage: dict[str, Any] | None = None,
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
    extra_tokens: Any = None,
) -> Any:
    """Estimate usage when messages are replaced by others."""
    extra = _optional(extra_tokens, "input.extraTokens") or 0
    return _after(usage, _aggregate(before)[0], _aggregate(after)[0], extra)


def estimate_usage_from_aggregates(
    *,
    usage: dict[str, Any] | None = None,
    before: dict[str, Any],
    after: dict[str, Any],
    extra_tokens: Any = None,
) -> Any:
    """Estimate usage when messages are replaced by others, from what they weigh."""
    first = _needed(before.get("tokenCount"), "input.before.tokenCount")
    second = _needed(after.get("tokenCount"), "input.after.tokenCount")
    return _after(usage, first, second, _optional(extra_tokens, "input.extraTokens") or 0)


# Paths


def summary_depth(*, branch: list[dict[str, Any]]) -> Any:
    """Count the summaries of a path, now and after a travel."""
    depth = host.depth(branch)
    return {"active": depth, "projected": depth + 1}


def _names(entries: list[dict[str, Any]]) -> dict[str, str]:
    """Map ids to names."""
    events: list[tuple[str, str]] = []
    for entry in entries:
        match entry:
            case {"type": "label", "targetId": str(target)}:
                label = entry.get("label")
                events.append((target, label if isinstance(label, str) else ""))
            case _:
                pass
    return dict(read_names(events).names)


def _reference(entry: Entry | None, names: dict[str, str]) -> Any:
    return entry and {"entryId": entry["id"], "label": names.get(entry["id"])}


def select_fold_references(
    *, entries: list[dict[str, Any]], leaf_id: str | None, exclude_id: str | None = None
) -> Any:
    """Choose the entries to which one could fold."""
    names = _names(entries)
    turn, task = host.fold_references(branch(entries, leaf_id), names, exclude_id)
    return {"turn": _reference(turn, names), "task": _reference(task, names)}


def find_nearest_save_point(*, entries: list[dict[str, Any]], leaf_id: str | None) -> Any:
    """Find the nearest entry with a name."""
    name, back = host.save_point(branch(entries, leaf_id), _names(entries)) or (None, None)
    return {"name": name, "stepsBack": back}


# The ledger


def _model(value: Any) -> str | None:
    match value:
        case {"provider": str(provider), "id": str(id)} if provider:
            return f"{provider}/{id}"
        case {"id": str(id)}:
            return id
        case _:
            return None


def ledger_machine(*, session: Any = None, events: list[dict[str, Any]]) -> Any:
    """Follow requests and folds; one result for each event."""
    state, results = Requests(), list[Any]()
    for event in events:
        told = {name: host.number(value) for name, value in event.items()}
        both = {"model": _model(event.get("model")), "session": session}
        if "boundary" in event:
            state, row = begun(
                state,
                _name(event["boundary"], "input.events: boundary"),
                budget=told.get("budget"),
                window=told.get("window"),
                fold_turn=told.get("foldTurn"),
                fold_task=told.get("foldTask"),
            )
            if row is None:
                results.append({"counted": False})
                continue
            line = {
                **both,
                "boundary": row.ordinal,
                "budget": row.budget,
                "window": row.window,
                "foldTurn": row.fold_turn,
                "foldTask": row.fold_task,
                "foldsSoFar": row.folds,
                "entries": told.get("entries"),
                "savePoints": told.get("savePoints"),
            }
            results.append({"counted": True, "row": line})
            continue
        removed = told.get("messageDelta")
        state, fold = folded(
            state, removed=removed or 0, before=told.get("before"), after=told.get("after")
        )
        line = {
            **both,
            "direction": fold.direction,
            "afterBoundary": fold.after,
            "budgetBefore": fold.before_percent,
            "budgetAfter": fold.after_percent,
            "messageDelta": removed,
            "summaryDepth": told.get("summaryDepth"),
            "savePoints": told.get("savePoints"),
        }
        results.append({"row": line})
    return results


# Reminders


def seed_classify_context_usage_nudge_level(*, percent: float) -> Any:
    """Give the tier of a pressure."""
    return tier(percent)


def seed_restore_context_usage_nudge_state(*, entries: list[dict[str, Any]]) -> Any:
    """Give the state of the reminders on a path."""
    cycle = host.restored_cycle(entries)
    return {"highestReachedLevel": cycle.highest, "baselinePending": cycle.waiting}


def seed_reminder_machine(*, events: list[dict[str, Any]]) -> Any:
    """Follow the cycle of reminders; one result for each event."""
    state, results = Cycle(), list[Any]()
    for event in events:
        if event.get("take") is True:
            state, taken = take(state)
            results.append({"taken": taken or None})
        elif event.get("reset") is True:
            state = renewed()
            results.append("reset")
        elif event.get("clear") is True:
            state = Cycle()
            results.append("clear")
        else:
            known = host.read_pressure(event.get("tokens"), event.get("contextWindow"))
            baseline: int | None = None
            if known is not None:
                establish = event.get("baseline") is True
                state, baseline = observe(state, known.pressure, establish=establish)
            results.append({"baseline": baseline})
    return results


# What fills the window


def seed_classify_message_tokens(*, message: dict[str, Any]) -> Any:
    """Split the tokens of a message by kind."""
    try:
        said, calls, other = host.kinds_of(message)
    except InvalidArgument:
        raise Refusal("error") from None
    return {"messages": said, "toolCalls": calls, "other": other}


def seed_calculate_context_usage_breakdown(
    *,
    total_actual: Any = None,
    limit: Any = None,
    system_prompt: str = "",
    tools: list[dict[str, Any]],
    messages: list[dict[str, Any]],
) -> Any:
    """Tell what fills the window."""
    actual, window = _needed(total_actual, "input.totalActual"), _needed(limit, "input.limit")
    try:
        known = host.original_breakdown(actual, window, system_prompt, tools, messages)
    except InvalidArgument:
        raise Refusal("error") from None
    return {
        "systemPrompt": known.system,
        "systemTools": known.tools,
        "toolCalls": known.calls,
        "messages": known.messages,
        "other": known.other,
        "available": known.available,
    }


OPERATIONS = collect(
    "travel",
    calculate_context_usage_pressure,
    format_token_count,
    format_context_usage_pressure,
    format_context_usage,
    seed_format_context_usage_pressure,
    build_gauge_suffix,
    append_suffix_patch,
    gauge_machine,
    aggregate_messages,
    estimate_usage_after_message_change,
    estimate_usage_from_aggregates,
    summary_depth,
    select_fold_references,
    find_nearest_save_point,
    ledger_machine,
    seed_classify_context_usage_nudge_level,
    seed_restore_context_usage_nudge_state,
    seed_reminder_machine,
    seed_classify_message_tokens,
    seed_calculate_context_usage_breakdown,
)
