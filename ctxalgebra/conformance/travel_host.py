"""The part of `travel` that is the host's: entries, their tree, and the context that they make."""

from __future__ import annotations

from typing import Any

from ctxalgebra.compat.host_context import context_entries, session_context
from ctxalgebra.compat.host_conversation import serialize, to_model
from ctxalgebra.compat.host_entries import LAST, Entry, branch
from ctxalgebra.conformance.operations import collect

__all__ = ["OPERATIONS"]


def _ids(entries: list[Entry]) -> list[Any]:
    return [entry.get("id") for entry in entries]


def host_build_context_entries(*, entries: list[dict[str, Any]], leaf_id: str | None = LAST) -> Any:
    """List the entries that make a context."""
    return _ids(context_entries(entries, leaf_id))


def host_build_session_context(*, entries: list[dict[str, Any]], leaf_id: str | None = LAST) -> Any:
    """Build the context of a leaf."""
    found = session_context(entries, leaf_id)
    return {
        "messages": list(found.messages),
        "thinkingLevel": found.thinking_level,
        "model": found.model,
    }


def host_get_branch(
    *, entries: list[dict[str, Any]], leaf_id: str | None = LAST, from_id: str | None = LAST
) -> Any:
    """List the entries from the root to one."""
    return _ids(branch(entries, leaf_id if from_id is LAST else from_id))


def host_convert_to_llm(*, messages: list[dict[str, Any]]) -> Any:
    """Convert messages to those that a model gets."""
    return to_model(messages)


def host_serialize_conversation(*, messages: list[dict[str, Any]]) -> Any:
    """Write messages as one text."""
    return serialize(messages)


OPERATIONS = collect(
    "travel",
    host_build_context_entries,
    host_build_session_context,
    host_get_branch,
    host_convert_to_llm,
    host_serialize_conversation,
)
