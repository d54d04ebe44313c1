"""The context that the pi host builds from its entries (its format, sections 2 and 5).

The path to the leaf, the last compaction on it and what that one keeps, and the messages of these
entries. Where an older compaction stands in what is kept, the host (0.80.7, 0.84.0) shows it again
behind the newer one, which stands for it already (W20); here it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from ctxalgebra.compat.host_entries import LAST, Entry, instant, member, path_of

__all__ = [
    "Context",
    "context_entries",
    "context_of",
    "last_compaction",
    "messages_of",
    "place_of",
    "session_context",
]

_EMPTY_LISTS = ("user", "assistant", "toolResult")


@frozen
class Context:
    """Hold what the next request is made of.

    Args:
        messages: as the host has them, before they are converted for a model.
        thinking_level: the last one on the path, `off` without one.
        model: `provider` and `modelId` of the last change or reply on the path.
    """

    messages: tuple[Entry, ...]
    thinking_level: Any = "off"
    model: Mapping[str, Any] | None = None


def _picked(entry: Entry, *names: str) -> dict[str, Any]:
    return {name: entry[name] for name in names if name in entry}


def messages_of(entry: Entry) -> list[Entry]:
    """List the messages that an entry contributes: one, or none.

    Raises:
        DecodeError: `wrong-type`, an entry of type `message` holds none.

    >>> messages_of({"type": "branch_summary", "summary": "", "fromId": "root"})
    []
    """
    time = {"timestamp": instant(entry)}
    match entry.get("type"):
        case "message":
            message = member(entry, "message")
            if message.get("content") is None and message.get("role") in _EMPTY_LISTS:
                return [{**message, "content": []}]
            return [message]
        case "custom_message":
            own = _picked(entry, "customType", "content", "display", "details")
            return [{"role": "custom", **own, **time}]
        case "branch_summary" if entry.get("summary"):
            return [{"role": "branchSummary", **_picked(entry, "summary", "fromId"), **time}]
        case "compaction":
            return [
                {"role": "compactionSummary", **_picked(entry, "summary", "tokensBefore"), **time}
            ]
        case _:
            return []


def last_compaction(path: Sequence[Entry]) -> int:
    """Give the index of the last compaction; -1 where there is none."""
    places = range(len(path) - 1, -1, -1)
    return next((at for at in places if path[at].get("type") == "compaction"), -1)


def place_of(path: Sequence[Entry], name: Any, stop: int) -> int:
    """Give the index of the entry with this id in front of `stop`; -1 where there is none."""
    found = (at for at in range(stop) if isinstance(name, str) and path[at].get("id") == name)
    return next(found, -1)


def context_of(path: Sequence[Entry]) -> list[Entry]:
    """Choose from a path the entries that make the context; see `context_entries`."""
    last = last_compaction(path)
    if last < 0:
        return list(path)
    first = place_of(path, path[last].get("firstKeptEntryId"), last)
    kept = path[first:last] if first >= 0 else ()
    return [
        path[last],
        *(entry for entry in kept if entry.get("type") != "compaction"),
        *path[last + 1 :],
    ]


def context_entries(entries: Sequence[Entry], leaf: str | None = LAST) -> list[Entry]:
    """List the entries that make the context of a leaf.

    The path to it; behind a compaction: the last one, what it keeps in front of it, what came
    after it.

    Args:
        entries: in the order of the file.
        leaf: an id; None stands before the first entry.

    Raises:
        DecodeError: `cyclic-parent`.
        InvalidArgument: `unknown-entry`, there is no such leaf.

    >>> user = {"type": "message", "id": "u", "message": {"role": "user", "content": "hi"}}
    >>> cut = {"type": "compaction", "id": "c", "parentId": "u", "summary": "S"}
    >>> [entry["id"] for entry in context_entries([user, cut])]
    ['c']
    """
    return context_of(path_of(entries, leaf))


def session_context(entries: Sequence[Entry], leaf: str | None = LAST) -> Context:
    """Build the context of a leaf: its messages, and the settings along its whole path.

    Args:
        entries: in the order of the file.
        leaf: an id; None stands before the first entry.

    Raises:
        DecodeError: `cyclic-parent`; `wrong-type`, an entry of type `message` holds none.
        InvalidArgument: `unknown-entry`, there is no such leaf.

    >>> session_context([{"type": "thinking_level_change", "id": "t", "thinkingLevel": "high"}])
    Context(messages=(), thinking_level='high', model=None)
    """
    path = path_of(entries, leaf)
    level: Any = "off"
    model: Mapping[str, Any] | None = None
    for entry in path:
        match entry.get("type"):
            case "thinking_level_change":
                level = entry.get("thinkingLevel")
            case "model_change":
                model = _picked(entry, "provider", "modelId")
            case "message" if (said := member(entry, "message")).get("role") == "assistant":
                model = _picked(said, "provider")
                if "model" in said:
                    model["modelId"] = said["model"]
            case _:
                pass
    messages = [message for entry in context_of(path) for message in messages_of(entry)]
    return Context(tuple(messages), level, model)
