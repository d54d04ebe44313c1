"""Items of the OpenAI Responses API: from their JSON to messages and back, for a codec or by hand.

One response of the model is several items (reasoning, calls, texts, what hosted tools did), and
they are one assistant message here: reasoning never leaves the call or text that it led to
(rule V-R3). Everything else is a message an item.

| item | becomes |
| --- | --- |
| `message` | a message; its content is texts, images and opaque parts |
| `reasoning` | `Thinking`: the text in clear, else the summary; the whole item is its signature |
| `function_call` | `ToolCall` with the arguments as they are, named by `call_id` |
| `custom_tool_call` | `ToolCall`; free text is no JSON, so the arguments are it as a JSON string |
| another call that the client answers: `tool_search_call`, `computer_call`, `local_shell_call`, \
`shell_call`, `apply_patch_call` | `ToolCall`; the arguments are the object that says what to do |
| the output of a call | a result; `status` says whether it failed |
| a block `tool_use` in an assistant's content | `ToolCall`; converters leave such blocks |
| an item of the input that is neither (`mcp_approval_response`, `agent_message`) | a user message |
| any other item | an opaque part of the assistant's message, in its place |

Items are kept in a message's origin, as a JSON array: `ctxalgebra.codecs.responses_write` gives
them back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from ctxalgebra.codecs.lines import Json, compact, integer, objects, string, usage_of
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.head import Usage
from ctxalgebra.model.parts import Image, Message, Opaque, Part, Role, Text, Thinking, ToolCall

__all__ = [
    "CALLS",
    "FAILED",
    "OUTPUTS",
    "bare_reasoning",
    "decode_items",
    "elements",
    "join",
    "read_call",
    "read_item",
    "read_reasoning",
    "read_usage",
]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
CALLS = {
    "function_call": ("arguments", "function_call_output"),
    "custom_tool_call": ("input", "custom_tool_call_output"),
    "tool_search_call": ("arguments", "tool_search_output"),
    "computer_call": ("action", "computer_call_output"),
    "local_shell_call": ("action", "local_shell_call_output"),
    "shell_call": ("action", "shell_call_output"),
    "apply_patch_call": ("operation", "apply_patch_call_output"),
}
"""Calls that the client answers: the field that says what to do, and the type of the answer."""

OUTPUTS = {output: call for call, (_, output) in CALLS.items()}
"""The kind of call that each type of output answers."""

_OF_THE_INPUT = frozenset({"agent_message", "mcp_approval_response"})
_TEXTS = ("input_text", "output_text", "text")
FAILED = ("failed", "incomplete")
"""Values of `status` that say that a call failed."""

_DATA_URL = re.compile(r"data:([^;,]*);base64,", re.ASCII)


def elements(value: Json) -> list[Json]:
    """Give a list; empty for anything else."""
    return value if isinstance(value, list) else []


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _joined(value: Json) -> str:
    found = (block.get("text") for block in elements(value) if isinstance(block, dict))
    return "\n\n".join(text for text in found if isinstance(text, str) and text)


def bare_reasoning(part: Thinking) -> dict[str, Json]:
    """Give the item of thinking of which only the text is known."""
    summary: list[Json] = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {"type": "reasoning", "summary": summary}


def read_reasoning(value: dict[str, Json]) -> Thinking:
    """Read a reasoning item; what is more than its text makes the whole item the signature."""
    text = _joined(value.get("content")) or _joined(value.get("summary"))
    bare = Thinking(text)
    return bare if bare_reasoning(bare) == value else Thinking(text, compact(value))


def _read_image(value: dict[str, Json]) -> Image | None:
    url = value.get("image_url")
    if not isinstance(url, str):
        return None
    found = _DATA_URL.match(url)
    return Image(url[found.end() :], found[1]) if found else Image(url, "")


def _read_block(value: Json, role: Role) -> Part:
    block = _object(value)
    kind, text = string(block.get("type")), block.get("text")
    if kind in _TEXTS and isinstance(text, str):
        return Text(text)
    if kind == "input_image" and (image := _read_image(block)):
        return image
    if kind == "tool_use" and role == "assistant":
        arguments = compact(block.get("input", {}))
        return ToolCall(string(block.get("id")), string(block.get("name")), arguments)
    return Opaque(kind, compact(value))


def _read_content(content: Json, role: Role) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    return tuple(_read_block(block, role) for block in blocks)


def _answered(value: dict[str, Json], kind: str) -> bool:
    """Say whether a call is the client's to answer."""
    if kind in ("function_call", "custom_tool_call"):
        return True
    return bool(string(value.get("call_id"))) and value.get("execution") != "server"


def read_call(value: dict[str, Json], kind: str) -> ToolCall:
    """Read a call of one of the kinds of `CALLS`."""
    said = value.get(CALLS[kind][0], {})
    named = kind in ("function_call", "custom_tool_call")
    # The arguments of a function are JSON in a string; what is said in any other way is JSON here.
    text = said if kind == "function_call" and isinstance(said, str) else compact(said)
    name = string(value.get("name")) if named else kind.removesuffix("_call")
    return ToolCall(string(value.get("call_id")), name, text)


def read_item(value: dict[str, Json], *, origin: str = "") -> Message:
    """Read an item into a message of its own; `join` makes one message of those of a response.

    Args:
        value: the object.
        origin: the JSON text that it was read from.

    Raises:
        DecodeError: `wrong-role`, a role that is unknown; `missing-field`, an item without a type
            or the output of a call without the call's id.
    """
    kind = string(value.get("type"))
    kept = f"[{origin}]" if origin else ""
    name = string(value.get("id"))
    if kind == "message" or (not kind and "role" in value):
        role = _ROLES.get(string(value.get("role")))
        if role is None:
            said = string(value.get("role"))
            raise DecodeError("wrong-role", f"there is no role {said!r}", field="role")
        parts = _read_content(value.get("content"), role)
        return Message(role, parts, id="" if role == "assistant" else name, origin=kept)
    if not kind:
        raise DecodeError("missing-field", "an item without a type", field="type")
    if kind in OUTPUTS and value.get("execution") != "server":
        call = string(value.get("call_id"))
        if not call:
            raise DecodeError("missing-field", "an output names no call", field="call_id")
        failed = value.get("status") in FAILED
        parts = _read_content(value.get("output"), "tool")
        if kind == "tool_search_output":
            parts = (Opaque(kind, compact(value)),)
        return Message("tool", parts, call=call, error=failed, id=name, origin=kept)
    if kind in _OF_THE_INPUT:
        return Message("user", (Opaque(kind, compact(value)),), id=name, origin=kept)
    part: Part = Opaque(kind, compact(value))
    if kind == "reasoning":
        part = read_reasoning(value)
    elif kind in CALLS and _answered(value, kind):
        part = read_call(value, kind)
    return Message("assistant", (part,), origin=kept)


def join(messages: Sequence[Message], *, id: str = "") -> Message:
    """Make one message of the messages of a response's items; a single one stays as it is.

    Args:
        messages: as `read_item` gave them: one of any role, or several of the model.
        id: of the response, where it is known.
    """
    first = messages[0]
    if len(messages) > 1 or id:
        origin = ",".join(m.origin[1:-1] for m in messages)
        parts = tuple(part for m in messages for part in m.parts)
        return evolve(first, parts=parts, id=id or first.id, origin=f"[{origin}]")
    return first


def decode_items(values: Iterable[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Read the items of a request's `input` or a response's `output`.

    Items of the model that follow each other are one message.

    Raises:
        InvalidArgument: `wrong-type`, a value that JSON does not know.
        DecodeError: as `read_item`, or a code of `ctxalgebra.codecs.lines`; `entry` is the index
            of the item.

    >>> call = {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"}
    >>> output = {"type": "function_call_output", "call_id": "c1", "output": "a.py"}
    >>> [message.role for message in decode_items([call, output])]
    ['assistant', 'tool']
    """
    messages: list[Message] = []
    run: list[Message] = []
    for index, (raw, value) in enumerate(objects(values)):
        try:
            message = read_item(value, origin=raw)
        except DecodeError as error:
            raise DecodeError(error.code, error.message, entry=index, field=error.field) from None
        if run and message.role != "assistant":
            messages.append(join(run))
            run = []
        (run if message.role == "assistant" else messages).append(message)
    return (*messages, join(run)) if run else tuple(messages)


def read_usage(value: Json) -> Usage | None:
    """Read what a response or a rollout reports; None when there is nothing.

    Input counts the tokens that were read from and written to the cache.
    """
    usage = _object(value)
    details = _object(usage.get("input_tokens_details"))
    counts = [
        integer(usage.get("input_tokens")) or 0,
        integer(usage.get("output_tokens")) or 0,
        integer(details.get("cached_tokens", usage.get("cached_input_tokens"))) or 0,
        integer(details.get("cache_write_tokens", usage.get("cache_write_input_tokens"))) or 0,
    ]
    return usage_of(*counts)
