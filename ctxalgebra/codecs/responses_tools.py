"""Tools of the OpenAI Responses API, and how they are loaded at a result: by a tool search."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from ctxalgebra.codecs.deferred import moved, placed
from ctxalgebra.codecs.lines import Json, compact, parse
from ctxalgebra.codecs.responses_items import elements, read_item
from ctxalgebra.errors import DecodeError
from ctxalgebra.loading import Deferred
from ctxalgebra.model.head import Tool
from ctxalgebra.model.parts import Message, Part
from ctxalgebra.project import Request

__all__ = ["load_tools", "write_tool"]

_CALL, _OUTPUT = "tool_search_call", "tool_search_output"
_NAME = "tool_search"


def write_tool(tool: Tool) -> dict[str, Json]:
    """Write a tool as a function; in files, a schema that is no JSON is an empty one."""
    fields: dict[str, Json] = {"type": "function", "name": tool.name}
    if tool.description:
        fields["description"] = tool.description
    try:
        fields["parameters"] = parse(tool.schema, limit=len(tool.schema))
    except DecodeError:
        fields["parameters"] = {}
    return fields


def _message(item: dict[str, Json]) -> Message:
    return read_item(item, origin=compact(item))


def _output(call: str, tools: Sequence[Tool]) -> Message:
    loaded: list[Json] = [{**write_tool(tool), "defer_loading": True} for tool in tools]
    ran: dict[str, Json] = {"execution": "client", "status": "completed"}
    return _message({"type": _OUTPUT, "call_id": call, **ran, "tools": loaded})


def _search(call: str, tools: Sequence[Tool]) -> tuple[Message, Message]:
    """Make the search that finds these tools, and its output."""
    ran: dict[str, Json] = {"execution": "client", "status": "completed"}
    asked: Json = {"query": " ".join(tool.name for tool in tools)}
    asking = _message({"type": _CALL, "call_id": call, **ran, "arguments": asked})
    return asking, _output(call, tools)


def _searches(message: Message) -> set[str]:
    """List the ids of the tool searches that a message of the model asks for."""
    found = {call.id for call in message.calls if call.name == _NAME}
    if not found:
        return found
    try:
        items = elements(parse(message.origin, limit=len(message.origin)))
    except DecodeError:
        return set()
    asked = (item for item in items if isinstance(item, dict) and item.get("type") == _CALL)
    return {str(item.get("call_id")) for item in asked} & found


def load_tools(request: Request, deferred: Sequence[Deferred]) -> Request:
    """Give a request as this API has it when tools are loaded at results.

    They come in the output of a tool search that the client ran, so `tools` stays as it is, to the
    byte. A `tool_search_call` of the model gets that output, and what its result said is the user's
    message behind it. Behind the outputs of other calls stands such a search as two items of its
    own, call and output, when the round is complete.

    Args:
        request: to be sent.
        deferred: of `deferred_tools`, asked of the session that gave the request. One whose result
            is not shown is left out: its definition would stand in that output.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, a tool that the request has already, or
            an index at which it has no result; `invalid-json`, `invalid-number`, `lone-surrogate`
            or `too-deep`, the schema of a tool.

    >>> from ctxalgebra import Head, ToolCall, assistant, tool_result, user
    >>> from ctxalgebra.codecs.responses_write import encode_items
    >>> messages = user("a"), assistant(ToolCall("c1", "lazy")), tool_result("c1", "Found one.")
    >>> loaded = load_tools(Request(Head(), messages), [Deferred(Tool("web"), 3, 2)])
    >>> [item["type"] for item in encode_items(loaded.messages)[2:]]
    ['function_call_output', 'tool_search_call', 'tool_search_output']
    """
    found = placed(request, deferred)
    if not found:
        return request
    numbers = {one.index: one.at for one in deferred}
    messages: list[Message] = []
    said: dict[int, Sequence[Part]] = {}
    searched: set[str] = set()
    waiting: list[Message] = []
    for index, message in enumerate(request.messages):
        if message.role != "tool":
            messages += waiting
            waiting.clear()
            searched = _searches(message)
        tools = found.get(index)
        if tools and message.call in searched:
            said[len(messages)] = message.parts
            messages.append(_output(message.call, tools))
            continue
        messages.append(message)
        if tools:
            waiting += _search(f"load_{numbers[index]}", tools)
    return evolve(request, messages=tuple(moved([*messages, *waiting], said)))
