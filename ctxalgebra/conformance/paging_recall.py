"""The part of `paging` that projects history and recalls it, on the host's items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, get_args

from ctxalgebra.codecs.pi_weights import json_text, utf16_length
from ctxalgebra.compat.paging_recall import (
    HostItem,
    find_turn,
    host_history,
    project_branch,
    public_block,
    public_host_item,
    reference_out,
)
from ctxalgebra.conformance.operations import Refusal, collect
from ctxalgebra.errors import InvalidArgument, ProtocolViolation
from ctxalgebra.recall import LIMITS, Direction, History, browse, load, read_output, search

__all__ = ["OPERATIONS"]

_PROJECTION = {
    "orphan-result": "ORPHAN_TOOL_RESULT",
    "duplicate-result": "DUPLICATE_TOOL_RESULT",
    "mismatched-result": "MISMATCHED_TOOL_RESULT",
    "incomplete-results": "INCOMPLETE_TOOL_RESULTS",
}
_NAVIGATION = {"unknown-anchor": "UNKNOWN_HISTORY_ANCHOR", "unknown-item": "UNKNOWN_HISTORY_ID"}
_INVALID = "INVALID_HISTORY_NAVIGATOR_INPUT"

Items = list[dict[str, Any]]


def project_active_branch(*, entries: Items) -> Any:
    """Project the entries of a branch into items."""
    try:
        return project_branch(entries)
    except ProtocolViolation as error:
        raise Refusal(_PROJECTION[error.code]) from None


def is_paging_tool_turn(*, item: dict[str, Any]) -> Any:
    """Say whether any call of the item is one of recall's."""
    return item.get("kind") == "modelTurn" and HostItem(item, item).hidden


def find_model_turn_by_tool_call_id(*, items: Items, tool_call_id: str) -> Any:
    """Give the id of the newest turn with this call."""
    return find_turn(items, tool_call_id)


def public_assistant_block(*, block: Any) -> Any:
    """Give what may be shown of a block."""
    return public_block(block)


def recovery_history_item(*, item: dict[str, Any]) -> Any:
    """Give the public view of an item."""
    return public_host_item(item)


_Question = Callable[[History, dict[str, Any]], Any]

_NAMES = {"historyId": "id", "historyIds": "ids", "toolCallId": "call", "contentIndex": "index"}


def _asked(
    items: Items, given: Any, known: tuple[str, ...], question: _Question, *, hidden: bool = False
) -> Any:
    """Ask recall, with the names of the host; what was not given is not passed on.

    Args:
        hidden: an id may be that of a turn which only asked for history.
    """
    members = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    passed = {_NAMES.get(name, name): members[name] for name in known if name in members}
    try:
        if None in passed.values():
            raise Refusal(_INVALID)
        return question(host_history(items, hidden=hidden), passed)
    except InvalidArgument as error:
        raise Refusal(_NAVIGATION.get(error.code, _INVALID)) from None


def navigator_search(*, items: Items, input_: Any) -> Any:
    """Search the visible items."""

    def question(known: History, given: dict[str, Any]) -> Any:
        found = search(known, given.pop("query", None), **given)
        return list(map(reference_out, found))

    return _asked(items, input_, ("query", "files", "tools", "failed", "limit"), question)


def navigator_browse(*, items: Items, input_: Any) -> Any:
    """Walk through the visible items."""

    def question(known: History, given: dict[str, Any]) -> Any:
        found = browse(known, given.pop("direction", None), **given)
        return list(map(reference_out, found))

    members = ("direction", "historyId", "sequence", "count", "stride")
    asked = cast("dict[str, Any]", input_) if isinstance(input_, dict) else {}
    if asked.get("direction") in get_args(Direction) and {"historyId", "sequence"} <= asked.keys():
        raise Refusal(_NAVIGATION["unknown-anchor"])  # before the bounds are looked at
    return _asked(items, input_, members, question)


def navigator_load(*, items: Items, history_ids: Any) -> Any:
    """Load items."""
    given = {"historyIds": history_ids}
    return _asked(items, given, ("historyIds",), lambda known, has: list(load(known, has["ids"])))


def read_context_output(*, items: Items, input_: Any) -> Any:
    """Give a page of an output."""
    given = cast("dict[str, Any]", input_) if isinstance(input_, dict) else {}
    sources = {"assistant": "contentIndex", "toolResult": "toolCallId"}
    needed = sources.get(str(given.get("source")))
    if needed is None or sum(name in given for name in sources.values()) > 1:
        raise Refusal("error")

    def question(known: History, has: dict[str, Any]) -> Any:
        page = read_output(known, has.pop("id", None), **has)
        total = {"totalCharacters": page.total, "text": page.text}
        return {"offset": page.offset, "nextOffset": page.next, **total}

    if given.get(needed) in (None, ""):
        raise Refusal("error")
    try:
        members = ("historyId", needed, "offset", "limit")
        return _asked(items, given, members, question, hidden=True)
    except Refusal:
        raise Refusal("error") from None


def _references(found: Any) -> Any:
    if utf16_length(json_text({"references": found})) > LIMITS.reply:
        raise Refusal("error")
    return found


def recovery_tool(*, items: Items, enabled: bool, name: str, params: dict[str, Any]) -> Any:
    """Answer a call of a tool, with its limit on references."""
    if not enabled:
        raise Refusal("error")
    match name:
        case "search_history":
            found = _references(navigator_search(items=items, input_=params))
            if params.get("load") is not True:
                return {"references": found}
            ids = [reference["historyId"] for reference in found]
            first, rest = ids[: LIMITS.loads], ids[LIMITS.loads :]
            loaded: Any = navigator_load(items=items, history_ids=first) if first else []
            return {"references": found, "items": loaded, "unloadedHistoryIds": rest}
        case "browse_history":
            return {"references": _references(navigator_browse(items=items, input_=params))}
        case "load_history":
            return {"items": navigator_load(items=items, history_ids=params.get("historyIds"))}
        case "read_context_output":
            return read_context_output(items=items, input_=params)
        case _:
            raise Refusal("error")


OPERATIONS = collect(
    "paging",
    project_active_branch,
    is_paging_tool_turn,
    find_model_turn_by_tool_call_id,
    public_assistant_block,
    recovery_history_item,
    navigator_search,
    navigator_browse,
    navigator_load,
    read_context_output,
    recovery_tool,
)
