"""Operations of the area `paging`: the selector of the paging extension, its keys and its cut.

They ask the compatibility profile (`ctxalgebra.compat`). Notices have the lengths that the input
gives, and go out as placeholders.
"""

from __future__ import annotations

from typing import Any, cast

from ctxalgebra.codecs.pi_weights import json_text, utf16_length
from ctxalgebra.compat.paging_keys import (
    CutKey,
    CutState,
    Frontier,
    RawHistory,
    RawItem,
    prepare_cut,
)
from ctxalgebra.compat.paging_keys import raw_cut_frontier_resolves as resolves
from ctxalgebra.compat.paging_notices import ToolReference, Wording
from ctxalgebra.compat.paging_select import Selection
from ctxalgebra.compat.paging_select import select_context as select
from ctxalgebra.compat.paging_tokens import Estimates, valid_estimates
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.paging import refusing
from ctxalgebra.conformance.values import InvalidInput

__all__ = ["OPERATIONS"]

_LONGEST = 100_000
"""The longest notice that is rendered."""


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: expected an object")
    return cast("dict[str, Any]", value)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{where}: expected a text")
    return value


def read_items(items: list[Any] | None) -> list[RawItem] | None:
    """Read history items, as the projection of a branch gives them."""
    if items is None:
        return None
    read: list[RawItem] = []
    for value in items:
        item = _object(value, "item")
        user = item.get("kind") == "user"
        message = _object(item.get("userMessage" if user else "assistantMessage"), "item")
        results = item.get("toolResults", [])
        if not isinstance(results, list):
            raise InvalidInput("item.toolResults: expected a list")
        given = cast("list[object]", results)
        owned = tuple(_object(result, "item.toolResults") for result in given)
        role = "user" if user else "assistant"
        if message.get("role") != role:
            raise InvalidInput(f"item: expected a message of the role {role}")
        read.append(RawItem(_text(item.get("id"), "item.id"), message, owned))
    return read


def read_frontier(value: Any) -> Frontier:
    """Read a frontier."""
    frontier = _object(value, "frontier")
    last = _object(frontier.get("lastEvicted"), "frontier.lastEvicted")
    kind, call, user = frontier.get("kind"), last.get("toolCallId"), frontier.get("userHistoryId")
    if kind not in ("prefix", "completedTurn", "partialTurn"):
        raise InvalidInput("frontier.kind: expected prefix, completedTurn or partialTurn")
    key = CutKey(
        _text(last.get("historyId"), "historyId"),
        None if call is None else _text(call, "toolCallId"),
    )
    asked = None if user is None else _text(user, "userHistoryId")
    return Frontier(kind, key, asked)


def read_cut(value: Any) -> CutState | None:
    """Read what a selection remembered."""
    if value is None:
        return None
    cut = _object(value, "cutState")
    return CutState(read_frontier(cut.get("frontier")), _object(cut.get("notice"), "notice"))


def _key_out(key: CutKey) -> dict[str, Any]:
    call = {} if key.call is None else {"toolCallId": key.call}
    return {"historyId": key.history, **call}


def frontier_out(frontier: Frontier) -> dict[str, Any]:
    """Write a frontier."""
    user = {} if frontier.user is None else {"userHistoryId": frontier.user}
    return {"kind": frontier.kind, "lastEvicted": _key_out(frontier.last), **user}


def _cut_out(cut: CutState | None) -> dict[str, Any] | None:
    if cut is None:
        return None
    return {"frontier": frontier_out(cut.frontier), "notice": cut.notice}


def _inner(text: str) -> int:
    return utf16_length(json_text(text)) - 2


def wording(lengths: dict[str, Any]) -> Wording:
    """Word generated messages with texts of given lengths, in UTF-16 units."""

    def fill(*sizes: int) -> str:
        return "n" * min(sum(sizes), _LONGEST)

    def size(name: str) -> int:
        value = lengths.get(name, 0)
        if type(value) is not int or value < 0:
            raise InvalidInput(f"noticeLengths.{name}: expected a length")
        return value

    def digits(budget: str) -> int:
        return len(budget) if lengths.get("budgetDigits") else 0

    def notice(budget: str, history: str | None, tool: ToolReference | None) -> str:
        total = size("normal") + digits(budget)
        if history is not None:
            total += size("historyId") + _inner(history) + 2
        if tool is not None:
            total += size("toolName") + utf16_length(tool.tool)
            total += size("toolRef") + _inner(tool.history) + _inner(tool.call)
        return fill(total)

    def reference(history: str, call: str) -> str:
        return fill(size("reference"), _inner(history), _inner(call))

    def overflow(budget: str) -> str:
        return fill(size("overflow"), digits(budget))

    return Wording(notice, overflow, lambda: fill(size("recovery")), reference)


def selection_out(selection: Selection) -> dict[str, Any]:
    """Write a selection."""
    cut = selection.cut
    return {
        "mode": selection.mode,
        "estimatedTokens": selection.estimate,
        "budgetTokens": selection.budget,
        "cutFallbackReason": selection.fallback or None,
        "frontier": None if cut is None else frontier_out(cut.frontier),
        "layout": [p.at if p.at >= 0 else f"<{p.kind}>" for p in selection.placed],
    }


@refusing
def select_context(
    *,
    messages: list[dict[str, Any]],
    system_prompt: str,
    active_tools: list[dict[str, Any]],
    token_budget: Any,
    notice_lengths: dict[str, Any],
    trim_to_tokens: Any = ...,
    model_context_window: Any = ...,
    context_tokens: Any = None,
    token_estimates: Any = None,
    outgoing_only: list[bool] | None = None,
    raw_history_items: list[Any] | None = None,
    cut_state: dict[str, Any] | None = None,
) -> Any:
    """Select what is sent of one request."""
    estimates: Estimates | None = None
    if valid_estimates(token_estimates, len(messages)):
        weights = tuple(token_estimates["messageTokens"])
        estimates = Estimates(token_estimates["residentTokens"], weights)
    selection = select(
        messages,
        system_prompt=system_prompt,
        active_tools=active_tools,
        token_budget=token_budget,
        trim_to_tokens=trim_to_tokens,
        model_context_window=model_context_window,
        context_tokens=context_tokens,
        estimates=estimates,
        outgoing_only=outgoing_only or (),
        raw_history=read_items(raw_history_items),
        cut=read_cut(cut_state),
        wording=wording(notice_lengths),
    )
    return selection_out(selection)


def raw_cut_frontier_resolves(*, items: list[Any] | None, frontier: dict[str, Any]) -> Any:
    """Say whether a remembered frontier still exists in raw history."""
    return resolves(read_items(items), read_frontier(frontier))


def cut_state(*, ops: list[dict[str, Any]]) -> Any:
    """Hold what is remembered over a script of events."""
    remembered: CutState | None = None
    out: list[Any] = []
    for op in ops:
        shown: CutState | None = None
        match op.get("op"):
            case "prepare":
                shown = remembered = prepare_cut(remembered, read_items(op.get("items")))
            case "commit":
                remembered = read_cut(op.get("snapshot"))
            case "reset":
                remembered = None
            case _:
                raise InvalidInput("op: expected prepare, commit or reset")
        out.append(_cut_out(shown))
    return out


def cut_keys(*, items: list[Any], messages: list[dict[str, Any]]) -> Any:
    """Find each message: the strict key of a cut, and what a notice would point at."""
    history = RawHistory(read_items(items) or [])
    out: list[dict[str, Any]] = []
    for message in messages:
        key, owner = history.key(message), history.owner(message)
        found = None if key is None else _key_out(key)
        out.append({"cutKey": found, "historyId": None if owner is None else owner.id})
    return out


OPERATIONS = collect("paging", select_context, raw_cut_frontier_resolves, cut_state, cut_keys)
