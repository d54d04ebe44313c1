"""Put breakpoints into a body of the Anthropic API: `cache_control` on blocks (rules C2 to C5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctxalgebra.breakpoints import TOOLS, Placed
from ctxalgebra.codecs.anthropic_messages import encode_messages, turns
from ctxalgebra.codecs.lines import Json
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.parts import Message
from ctxalgebra.model.view import HEAD

__all__ = ["limit_marks", "mark_breakpoints"]

_MARK = "cache_control"
_NEVER = ("thinking", "redacted_thinking")
_MOST = 4
"""So many marks a body may have (rule C2)."""


def _plain(value: Json) -> Json:
    """Copy blocks without their marks; those inside results as well."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    block = {key: item for key, item in value.items() if key != _MARK}
    if block.get("type") == "tool_result" and "content" in block:
        block["content"] = _plain(block["content"])
    return block


def limit_marks(elements: Sequence[Mapping[str, Any]]) -> None:
    """Take the marks of blocks away, but for the last four, which are nearest to what is new.

    Args:
        elements: of a body, in order; their blocks are changed.
    """
    marked: list[dict[str, Any]] = []
    for block in (block for element in elements for block in _objects(element["content"])):
        # A result is marked behind what stands in it.
        inner = _objects(block.get("content")) if block.get("type") == "tool_result" else []
        marked += [each for each in (*inner, block) if each.get(_MARK) is not None]
    for each in marked[:-_MOST]:
        del each[_MARK]


def _objects(content: Json) -> list[dict[str, Any]]:
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict)]


def _blocks(content: Json) -> list[Json]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _mark(blocks: list[Any], stop: int, mark: dict[str, str], first: int = 0) -> None:
    """Mark the last block of `blocks[first:stop]` that can carry a mark."""
    for index in range(stop - 1, first - 1, -1):
        block = blocks[index]
        blank = block.get("type") == "text" and not block["text"].strip()
        if block.get("type") not in _NEVER and not blank and not block.get("defer_loading"):
            blocks[index] = {**block, _MARK: mark}
            return


def _elements(messages: Sequence[Message]) -> list[list[int]]:
    """List the indices of the messages that each element of the body holds, in its order."""
    found: list[list[int]] = []
    first = 0
    for turn in turns(messages):
        span = range(first, first + len(turn))
        first += len(turn)
        if encode_messages(turn):
            results = [index for index in span if messages[index].role == "tool"]
            found.append(results + [index for index in span if messages[index].role != "tool"])
    return found


def _width(message: Message) -> int:
    if message.role == "tool":
        return 1
    return sum(len(_blocks(element["content"])) for element in encode_messages((message,)))


def mark_breakpoints(body: Mapping[str, Any], placed: Placed) -> dict[str, Any]:
    """Give a body with `cache_control` at the breakpoints of its request, and nowhere else.

    A breakpoint stands on the last block that its message, the system text or the tools have
    and that may carry one; where there is no such block, it is left out.

    Args:
        body: what `encode_request` gave for `placed.request`; whatever was added beside `system`,
            `tools` and `messages` stays. It is not changed.
        placed: of `plan_breakpoints` or `default_breakpoints`.

    Raises:
        InvalidArgument: `invalid-argument`, the body holds another number of elements than the
            request, or there are more than four breakpoints (C2).

    >>> from ctxalgebra import Head, Request, user
    >>> from ctxalgebra.codecs.anthropic import encode_request
    >>> request = Request(Head(), (user("a"),))
    >>> mark_breakpoints(encode_request(request), Placed(request, (0,)))["messages"][0]["content"]
    [{'type': 'text', 'text': 'a', 'cache_control': {'type': 'ephemeral'}}]
    """
    count = len(placed.breakpoints)
    if count > _MOST:
        text = f"{count} breakpoints, {_MOST} are allowed"
        raise InvalidArgument("invalid-argument", text, field="breakpoints")
    marked = {key: value for key, value in body.items() if key != _MARK}
    for name in ("system", "tools"):
        if name in marked:
            marked[name] = _plain(marked[name])
    elements = [{**e, "content": _plain(e["content"])} for e in body.get("messages", ())]
    messages = placed.request.messages
    held = _elements(messages)
    if len(held) != len(elements):
        text = f"the body has {len(elements)} elements, its request {len(held)}"
        raise InvalidArgument("invalid-argument", text, field="body")
    marked["messages"] = elements
    homes = {index: number for number, indices in enumerate(held) for index in indices}
    for number, place in enumerate(placed.breakpoints):
        mark = {"type": "ephemeral", **({"ttl": "1h"} if number < placed.long else {})}
        if place == TOOLS:
            tools = marked.get("tools", [])
            _mark(tools, len(tools), mark)
        elif place == HEAD:
            marked["system"] = _blocks(marked["system"])
            _mark(marked["system"], len(marked["system"]), mark)
        elif place in homes:
            element = elements[homes[place]]
            element["content"] = _blocks(element["content"])
            before = held[homes[place]][: held[homes[place]].index(place)]
            first = sum(_width(messages[index]) for index in before)
            _mark(element["content"], first + _width(messages[place]), mark, first)
    return marked
