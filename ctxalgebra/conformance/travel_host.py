"""The part of `travel` that is the host's: entries, their tree, and the context that they make."""

from __future__ import annotations

from typing import Any

from ctxalgebra.codecs.lines import MAX_DEPTH
from ctxalgebra.compat.host_context import context_entries, session_context
from ctxalgebra.compat.host_conversation import serialize, to_model
from ctxalgebra.compat.host_entries import (
    LAST,
    Entry,
    branch,
    migrate_entries,
    name_of,
    parse_entries,
    tree,
)
from ctxalgebra.conformance.operations import collect
from ctxalgebra.errors import DecodeError

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
    return _ids(branch(entries, leaf_id if from_id is LAST or from_id is None else from_id))


def host_convert_to_llm(*, messages: list[dict[str, Any]]) -> Any:
    """Convert messages to those that a model gets."""
    return to_model(messages)


def host_serialize_conversation(*, messages: list[dict[str, Any]]) -> Any:
    """Write messages as one text."""
    return serialize(messages)


def host_parse_session_entries(*, content: str) -> Any:
    """Read the lines of a session file."""
    return parse_entries(content)


_NAMED = ("id", "parentId", "firstKeptEntryId")


def host_migrate_session_entries(*, entries: list[dict[str, Any]]) -> Any:
    """Bring entries to version 3; all ids are named anew, in the order of the file."""
    migrated = migrate_entries(entries)
    names: dict[Any, str] = {}
    for entry in migrated:
        if entry.get("type") != "session" and name_of(entry) is not None:
            names[entry["id"]] = f"m{len(names) + 1}"
    for entry in migrated:
        for field in _NAMED if entry.get("type") != "session" else ():
            if isinstance(name := entry.get(field), str):
                entry[field] = names.get(name, name)
    return migrated


def host_get_tree(*, entries: list[dict[str, Any]], leaf_id: str | None = LAST) -> Any:
    """Build the tree; one that is deeper than a line may be is refused."""
    _ = leaf_id
    found = tree(entries)
    nodes: list[dict[str, Any]] = []
    for entry in entries:
        name = entry.get("id")
        label = found.labels.get(name) if isinstance(name, str) else None
        labelled = {} if label is None else {"label": label}
        nodes.append({"id": name, **labelled, "children": []})
    level = found.roots
    depth = 0
    while level:
        depth += 1
        if 2 * depth > MAX_DEPTH:
            raise DecodeError("too-deep", f"more than {MAX_DEPTH // 2} entries deep")
        for at in level:
            nodes[at]["children"] += [nodes[child] for child in found.children[at]]
        level = tuple(child for at in level for child in found.children[at])
    return [nodes[root] for root in found.roots]


OPERATIONS = collect(
    "travel",
    host_parse_session_entries,
    host_migrate_session_entries,
    host_get_tree,
    host_build_context_entries,
    host_build_session_context,
    host_get_branch,
    host_convert_to_llm,
    host_serialize_conversation,
)
