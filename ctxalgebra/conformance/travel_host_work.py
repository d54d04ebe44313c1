"""The part of `travel` in which the host weighs, compacts, leaves branches and moves."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from ctxalgebra.compat.host_branches import collect_entries, prepare_branch_entries
from ctxalgebra.compat.host_compaction import (
    find_cut_point,
    find_turn_start,
    prepare_compaction,
)
from ctxalgebra.compat.host_entries import LAST
from ctxalgebra.compat.host_files import FileOps, file_lists, file_ops
from ctxalgebra.compat.host_session import navigate, play
from ctxalgebra.compat.host_usage import (
    CompactionSettings,
    context_tokens,
    context_usage,
    estimate_context,
    is_recoverable_length,
    should_compact,
)
from ctxalgebra.conformance.operations import Refusal, collect
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.errors import CtxError

__all__ = ["OPERATIONS"]

_CODED = frozenset({"cyclic-parent"})
"""Errors that the host doesn't know; it throws the others, which have no code there."""


@contextmanager
def _thrown() -> Generator[None]:
    try:
        yield
    except CtxError as error:
        if error.code in _CODED:
            raise
        raise Refusal("error") from None


def _settings(given: dict[str, Any]) -> CompactionSettings:
    own = CompactionSettings()
    enabled = given.get("enabled", own.enabled)
    reserve = given.get("reserveTokens", own.reserve_tokens)
    keep = given.get("keepRecentTokens", own.keep_recent_tokens)
    if type(enabled) is not bool or {type(reserve), type(keep)} - {int, float}:
        raise InvalidInput("input.settings: expected a truth value and two numbers")
    return CompactionSettings(enabled, reserve, keep)


def _files(ops: FileOps) -> dict[str, list[str]]:
    return {"read": list(ops.read), "written": list(ops.written), "edited": list(ops.edited)}


def host_estimate_context_tokens(*, messages: list[dict[str, Any]]) -> Any:
    """Estimate a context from the last usage and what stands behind it."""
    with _thrown():
        found = estimate_context(messages)
    return {
        "tokens": found.tokens,
        "usageTokens": found.usage,
        "trailingTokens": found.trailing,
        "lastUsageIndex": found.last,
    }


def host_calculate_context_tokens(*, usage: dict[str, Any]) -> Any:
    """Give the total of one record of usage."""
    return context_tokens(usage)


def host_should_compact(
    *, context_tokens: float, context_window: float, settings: dict[str, Any] | None = None
) -> Any:
    """Say whether the window is nearly full."""
    return should_compact(context_tokens, context_window, _settings(settings or {}))


def host_is_recoverable_length(*, message: dict[str, Any], desired_max_output: float) -> Any:
    """Say whether a reply stopped for its length too early."""
    return is_recoverable_length(message, desired_max_output)


def host_get_context_usage(
    *,
    entries: list[dict[str, Any]],
    leaf_id: str | None = LAST,
    context_window: float,
    no_model: bool = False,
) -> Any:
    """Say how full the window is."""
    with _thrown():
        found = None if no_model else context_usage(entries, context_window, leaf_id)
    return found and {
        "tokens": found.tokens,
        "contextWindow": found.window,
        "percent": found.percent,
    }


def host_find_cut_point(
    *,
    entries: list[dict[str, Any]],
    keep_recent_tokens: float,
    start_index: int = 0,
    end_index: int | None = None,
) -> Any:
    """Find where compaction cuts."""
    with _thrown():
        found = find_cut_point(entries, keep_recent_tokens, start_index, end_index)
    return {
        "firstKeptEntryIndex": found.first,
        "turnStartIndex": found.turn,
        "isSplitTurn": found.splits,
    }


def host_find_turn_start_index(
    *, entries: list[dict[str, Any]], entry_index: int, start_index: int
) -> Any:
    """Find the start of the turn that holds an entry."""
    with _thrown():
        return find_turn_start(entries, entry_index, start_index)


def host_prepare_compaction(*, entries: list[dict[str, Any]], settings: dict[str, Any]) -> Any:
    """Say what a compaction would summarise and keep."""
    with _thrown():
        found = prepare_compaction(entries, _settings(settings))
    if found is None:
        return None
    previous = found.previous_summary
    return {
        "firstKeptEntryId": found.first_kept,
        "messagesToSummarize": list(found.to_summarize),
        "turnPrefixMessages": list(found.turn_prefix),
        "isSplitTurn": found.split,
        "tokensBefore": found.tokens_before,
        **({} if previous is None else {"previousSummary": previous}),
        "fileOps": _files(found.files),
        "settings": {
            "enabled": found.settings.enabled,
            "reserveTokens": found.settings.reserve_tokens,
            "keepRecentTokens": found.settings.keep_recent_tokens,
        },
    }


def host_file_lists(*, messages: list[dict[str, Any]]) -> Any:
    """List the files that calls read and modify."""
    found = file_lists(file_ops(messages))
    return {
        "readFiles": list(found.read),
        "modifiedFiles": list(found.modified),
        "text": found.text,
    }


def host_collect_entries_for_branch_summary(
    *, entries: list[dict[str, Any]], leaf_id: str | None = LAST, target_id: str | None
) -> Any:
    """List the entries that are left by a move."""
    left = collect_entries(entries, target_id, leaf_id)
    ids = [entry.get("id") for entry in left.entries]
    return {"entries": ids, "commonAncestorId": left.ancestor}


def host_prepare_branch_entries(*, entries: list[dict[str, Any]], token_budget: float = 0) -> Any:
    """Choose the messages of a branch for its summary."""
    with _thrown():
        found = prepare_branch_entries(entries, token_budget)
    return {
        "messages": list(found.messages),
        "fileOps": _files(found.files),
        "totalTokens": found.tokens,
    }


def _calls(ops: list[dict[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    for op in ops:
        method, arguments = op.get("method"), op.get("args")
        if not isinstance(method, str) or type(arguments) is not list:
            raise InvalidInput("input.ops: expected a method and its args")
        yield method, arguments


def host_session_operations(
    *, entries: list[dict[str, Any]], leaf_id: str | None = LAST, ops: list[dict[str, Any]]
) -> Any:
    """Call methods of a session."""
    with _thrown():
        played = play(entries, _calls(ops), leaf_id)
    results = [
        {"error": "error"} if isinstance(result, CtxError) else {"result": result}
        for result in played.results
    ]
    return {"results": results, "leafId": played.leaf, "appended": list(played.appended)}


def host_navigate_tree(
    *,
    entries: list[dict[str, Any]],
    leaf_id: str | None = LAST,
    target_id: str,
    options: dict[str, Any] | None = None,
) -> Any:
    """Move in the tree without a summary."""
    label = (options or {}).get("label")
    if not isinstance(label, str | None) or (options or {}).get("summarize"):
        raise InvalidInput("input.options: a label is a text, and no summary is made here")
    with _thrown():
        moved = navigate(entries, target_id, leaf_id, label=label)
    event = {
        "type": "session_tree",
        "newLeafId": moved.leaf,
        "oldLeafId": moved.old_leaf,
        "summaryEntryId": None,
    }
    text = {} if moved.text is None else {"editorText": moved.text}
    return {
        "result": {**text, "cancelled": False},
        "leafId": moved.leaf,
        "emitted": [] if moved.messages is None else [event],
        "entries": len(entries) + len(moved.appended),
        "messages": len(moved.messages or ()),
    }


OPERATIONS = collect(
    "travel",
    host_estimate_context_tokens,
    host_calculate_context_tokens,
    host_should_compact,
    host_is_recoverable_length,
    host_get_context_usage,
    host_find_cut_point,
    host_find_turn_start_index,
    host_prepare_compaction,
    host_file_lists,
    host_collect_entries_for_branch_summary,
    host_prepare_branch_entries,
    host_session_operations,
    host_navigate_tree,
)
