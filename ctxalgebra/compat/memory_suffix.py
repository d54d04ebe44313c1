"""What the original working memory leaves out of one request: results at its tail, and contents.

Messages are the host's plain JSON. Each rule is one for a single request; the original forgets its
decisions afterwards (faults W1 and W2), where a decision of ours is an entry (specification of the
working memory, sections 6.4 and 7.4).

The tail is walked from the last message down: results that may leave, and assistants that say
nothing but calls that may leave. Where the original would leave half of a round, this differs:
a round whose calls may all leave goes with its text, so that no request ends with the assistant
(W4); one of which something stays, stays whole (W5), and so does one with another message between
its results (W21). An id that comes again stands for its last round only (W20).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from attrs import frozen

from ctxalgebra.compat.memory_texts import message_tokens

__all__ = ["Pruned", "prune_messages", "strip_write_content"]

HostMessage: TypeAlias = Mapping[str, Any]


@frozen
class Pruned:
    """Hold a request without its droppable tail.

    Args:
        messages: those that are left.
        saved: tokens of those that left.
        count: how many did.
        dropped: ids of the results that left, the last one first.
    """

    messages: tuple[HostMessage, ...]
    saved: int = 0
    count: int = 0
    dropped: tuple[str, ...] = ()


def _blocks(message: HostMessage) -> list[dict[str, Any]]:
    content = message.get("content")
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    return [cast("dict[str, Any]", block) for block in blocks if isinstance(block, dict)]


def _calls(message: HostMessage) -> list[str]:
    """List the ids of an assistant's calls; of another message there are none."""
    if message.get("role") != "assistant":
        return []
    ids = [block.get("id") for block in _blocks(message) if block.get("type") == "toolCall"]
    return [name if isinstance(name, str) else "" for name in ids]


def _says(message: HostMessage) -> bool:
    return any(block.get("type") == "text" for block in _blocks(message))


def _result(message: HostMessage) -> str | None:
    """Give the id of the call that a message answers; None for another message."""
    name = message.get("toolCallId")
    return name if message.get("role") == "toolResult" and isinstance(name, str) else None


def _is_asked(messages: Sequence[HostMessage], ids: set[str]) -> bool:
    """Say whether any of the ids is that of a call in these messages."""
    return any(name in ids for message in messages for name in _calls(message))


def _start(messages: Sequence[HostMessage], candidates: set[str]) -> int:
    """Find the first message of the tail that leaves."""
    left = set(candidates)
    start = len(messages)
    while start:
        at = start
        answered: set[str] = set()
        while at and (name := _result(messages[at - 1])) is not None and name in left:
            answered.add(name)
            at -= 1
        calls = _calls(messages[at - 1]) if at else []
        if not calls or not left.issuperset(calls):
            # Results whose call is in front of them stay with it; nobody asked for the others.
            return start if _is_asked(messages[:at], answered) else at
        if _says(messages[at - 1]) and not answered.issuperset(calls):
            return start
        left -= answered.union(calls)
        start = at - 1
    return start


def prune_messages(candidates: Sequence[str], messages: Sequence[HostMessage]) -> Pruned:
    """Leave the droppable tail out of a request.

    Args:
        candidates: ids of calls whose results may leave.
        messages: those of the request.

    >>> said = {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "ls",
    ...     "arguments": {}}]}
    >>> answer = {"role": "toolResult", "toolCallId": "c", "content": "a b"}
    >>> prune_messages(["c"], [{"role": "user", "content": "q"}, said, answer]).count
    2
    """
    start = _start(messages, set(candidates))
    gone = messages[start:]
    dropped = [name for message in reversed(gone) if (name := _result(message)) is not None]
    saved = sum(map(message_tokens, gone))
    return Pruned(tuple(messages[:start]), saved, len(gone), tuple(dropped))


def _stripped(block: Any, ids: set[str]) -> Any:
    if not isinstance(block, dict):
        return block
    call = cast("dict[str, Any]", block)
    if call.get("type") != "toolCall" or call.get("name") != "write":
        return call
    name, given = call.get("id"), call.get("arguments")
    if not isinstance(name, str) or name not in ids or not isinstance(given, dict):
        return call
    arguments = cast("dict[str, Any]", given)
    return {**call, "arguments": {n: v for n, v in arguments.items() if n != "content"}}


def strip_write_content(
    ids: Sequence[str], messages: Sequence[HostMessage]
) -> tuple[HostMessage, ...]:
    """Take the content out of writes in the last message of the assistant.

    Args:
        ids: of the calls that lose it.
        messages: those of a request.

    >>> call = {"type": "toolCall", "id": "w", "name": "write", "arguments": {"content": "x"}}
    >>> strip_write_content(["w"], [{"role": "assistant", "content": [call]}])[0]["content"]
    [{'type': 'toolCall', 'id': 'w', 'name': 'write', 'arguments': {}}]
    """
    known = set(ids)
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.get("role") == "assistant":
            content = message.get("content")
            if not isinstance(content, list):
                break
            blocks = [_stripped(block, known) for block in cast("list[object]", content)]
            return (*messages[:at], {**message, "content": blocks}, *messages[at + 1 :])
    return tuple(messages)
