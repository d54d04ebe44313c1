"""The part of `paging` that weighs messages and learns from usage, by the original's own rules."""

from __future__ import annotations

from typing import Any, cast

from ctxalgebra.codecs.pi_weights import host_tokens, resident_tokens
from ctxalgebra.compat.paging_tokens import (
    Tracker,
    clear,
    outgoing_only,
    prepare,
    record_response,
    record_selection,
    reported_input,
    valid_estimates,
)
from ctxalgebra.compat.paging_tokens import calibrate_response as split_usage
from ctxalgebra.conformance.operations import Refusal, collect
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.errors import InvalidArgument

__all__ = ["OPERATIONS", "weigh"]


def weigh(message: dict[str, Any], *, without_arguments: int | None = None) -> int:
    """Weigh a message of the host; what its function fails on is an error without a code."""
    try:
        return host_tokens(message, without_arguments=without_arguments)
    except InvalidArgument:
        raise Refusal("error") from None


def estimate_tokens(*, message: dict[str, Any]) -> Any:
    """Weigh a message."""
    return weigh(message)


def resident_token_estimate(*, system_prompt: str, active_tools: list[dict[str, Any]]) -> Any:
    """Weigh system text and tools."""
    return resident_tokens(system_prompt, active_tools)


def calibrate_response(
    *,
    resident_tokens: float,
    message_tokens: float,
    reported_tokens: float,
    previous_overhead: float | None = None,
    outgoing_tokens: float = 0,
) -> Any:
    """Split an undercount into overhead and scale."""
    fit = split_usage(
        resident_tokens,
        message_tokens,
        reported_tokens,
        previous=previous_overhead,
        outgoing=outgoing_tokens,
    )
    if fit is None:
        return None
    return {"residentOverheadTokens": fit.overhead, "messageScale": fit.scale}


def valid_token_estimates(*, estimates: Any = None, message_count: int) -> Any:
    """Say whether estimates may be used."""
    return valid_estimates(estimates, message_count)


def reported_input_tokens(*, message: dict[str, Any]) -> Any:
    """Give the input that a response reported."""
    tokens = reported_input(message)
    return None if tokens is None else {"tokens": tokens, "estimated": False}


def _messages(op: dict[str, Any], name: str, default: list[dict[str, Any]]) -> list[dict[str, Any]]:
    value = op.get(name, default)
    items = cast("list[object]", value)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in items):
        raise InvalidInput(f"input.ops: {name} is a list of objects")
    return cast("list[dict[str, Any]]", items)


def _prepared(tracker: Tracker, op: dict[str, Any], messages: Any, persistent: Any) -> Any:
    resident, status = op.get("residentTokens", 0), op.get("contextTokens")
    found = prepare(tracker, messages, resident, status, persistent)
    estimates = found.estimates and {
        "residentTokens": found.estimates.resident,
        "messageTokens": list(found.estimates.messages),
    }
    return {"contextTokens": found.context, "tokenEstimates": estimates}


def usage_tracker(*, ops: list[dict[str, Any]]) -> Any:
    """Follow requests and their usage; one result for each operation."""
    tracker = Tracker()
    results: list[Any] = []
    for op in ops:
        messages = _messages(op, "messages", [])
        persistent = _messages(op, "persistentMessages", messages)
        result: Any = None
        try:
            match op.get("op"):
                case "recordSelection":
                    resident = op.get("residentTokens", 0)
                    tracker = record_selection(tracker, messages, resident, persistent)
                case "recordResponse":
                    (message,) = _messages({"message": [op.get("message")]}, "message", [])
                    tracker = record_response(tracker, message)
                case "prepare":
                    result = _prepared(tracker, op, messages, persistent)
                case "outgoingOnly":
                    result = list(outgoing_only(messages, persistent))
                case "clear":
                    tracker = clear(tracker)
                case other:
                    raise InvalidInput(f"input.ops: there is no operation {other!r}")
        except InvalidArgument:
            result = {"error": {"code": "error"}}
        results.append(result)
    return results


OPERATIONS = collect(
    "paging",
    estimate_tokens,
    resident_token_estimate,
    calibrate_response,
    valid_token_estimates,
    usage_tracker,
    reported_input_tokens,
)
