"""Messages of the OpenAI Chat format: from their JSON to ours and back, for a codec or by hand.

Read: content as null, text or a list of parts; calls in the shape of the API (`function` with
`arguments` as text), of LangChain (`name`, `args`) and of the old `function_call`; reasoning as
`reasoning_content` or `reasoning`. A content part `tool_call` stands for the call of its id.

What the format has no field for is written so that reading it gives the same again: thinking that
does not come first, or is signed, is a part `thinking`; a call that does not come last has its
place held by a part `tool_call`; a part of no kind that is known stands in a part `opaque`; a
failed result has `is_error`. Empty content is no part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ctxalgebra.codecs.given import messages_of
from ctxalgebra.codecs.lines import (
    Json,
    compact,
    integer,
    objects,
    parse,
    plain,
    quote,
    string,
    usage_of,
)
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.head import Usage
from ctxalgebra.model.parts import Image, Message, Opaque, Part, Role, Text, Thinking, ToolCall

__all__ = [
    "decode_messages",
    "encode_messages",
    "read_message",
    "read_usage",
    "write_element",
    "write_message",
    "write_sent",
]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_OURS = frozenset(
    {
        "role",
        "content",
        "tool_calls",
        "function_call",
        "reasoning_content",
        "reasoning",
        "tool_call_id",
        "name",
        "tool_name",
        "is_error",
        "tool_call_error",
        "id",
    }
)
"""The fields of a message that are read; all others are carried in its origin."""

_NO_LIMIT = 2**63
_DATA_URL = re.compile(r"data:([^;,]*);base64,", re.ASCII)
_TEXTS = ("text", "input_text", "output_text", "tool_output")


# Reading


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _argument_text(value: Json) -> str:
    return value if isinstance(value, str) else compact(value)


def _read_call(value: Json) -> ToolCall | Opaque:
    if not isinstance(value, dict):
        return Opaque("", compact(value))
    name, signature = string(value.get("id")), string(value.get("signature"))
    if not signature:
        google = _object(_object(value.get("extra_content")).get("google"))
        signature = string(google.get("thought_signature"))
    function, custom = value.get("function"), value.get("custom")
    if isinstance(function, dict):
        text = _argument_text(function.get("arguments", {}))
        return ToolCall(name, string(function.get("name")), text, signature)
    if isinstance(custom, dict):
        return ToolCall(
            name, string(custom.get("name")), quote(string(custom.get("input"))), signature
        )
    arguments = value.get("args", value.get("arguments", {}))
    return ToolCall(name, string(value.get("name")), _argument_text(arguments), signature)


def _read_calls(value: dict[str, Json]) -> list[ToolCall | Opaque]:
    calls = value.get("tool_calls")
    if isinstance(calls, list):
        return [_read_call(call) for call in calls]
    legacy = value.get("function_call")
    if isinstance(legacy, dict):
        name = string(legacy.get("name"))
        return [ToolCall(f"function:{name}", name, _argument_text(legacy.get("arguments", {})))]
    return []


def _read_image(value: dict[str, Json]) -> Part | None:
    image, data, media = value.get("image_url"), value.get("data"), value.get("mimeType")
    if isinstance(image, dict) and len(image) == 1 and isinstance(url := image.get("url"), str):
        found = _DATA_URL.match(url)
        return Image(url[found.end() :], found[1]) if found else Image(url, "")
    if isinstance(data, str) and isinstance(media, str):
        return Image(data, media)
    return None


def _read_part(value: Json, role: str) -> Part:
    if not isinstance(value, dict):
        return Opaque("", compact(value))
    kind = string(value.get("type"))
    text, data = value.get("text"), value.get("data")
    if kind in _TEXTS and isinstance(text, str):
        return Text(text)
    if kind in ("image_url", "image") and (image := _read_image(value)):
        return image
    if kind == "opaque" and isinstance(data, str):
        return Opaque(string(value.get("part_type")), data)
    thinking = value.get("thinking")
    if kind == "thinking" and isinstance(thinking, str) and role == "assistant":
        return Thinking(thinking, string(value.get("signature")), value.get("redacted") is True)
    return Opaque(kind, compact(value))


def _read_content(
    content: Json, role: str, calls: list[ToolCall | Opaque]
) -> tuple[list[Part], list[ToolCall | Opaque]]:
    """Read content; give its parts and the calls that have no place in it."""
    if isinstance(content, str):
        return ([Text(content)] if content else []), calls
    if not isinstance(content, list):
        return ([] if content is None else [Opaque("", compact(content))]), calls
    waiting = {call.id: call for call in calls if isinstance(call, ToolCall) and call.id}
    parts: list[Part] = []
    placed: set[str] = set()
    for value in content:
        name = ""
        if waiting and isinstance(value, dict) and value.get("type") == "tool_call":
            name = string(value.get("id"))
        if name in waiting:
            parts.append(waiting.pop(name))
            placed.add(name)
        else:
            parts.append(_read_part(value, role))
    rest: list[ToolCall | Opaque] = []
    for call in calls:
        if isinstance(call, ToolCall) and call.id in placed:
            placed.remove(call.id)
        else:
            rest.append(call)
    return parts, rest


def read_message(value: dict[str, Json], *, origin: str = "") -> Message:
    """Read a message.

    Args:
        value: the object.
        origin: the JSON text that it was read from.

    Raises:
        DecodeError: `wrong-role`, a role that is unknown; `missing-field`, a result without the
            id of its call.
    """
    name = string(value.get("role"))
    role = _ROLES.get(name)
    if role is None:
        raise DecodeError("wrong-role", f"there is no role {name!r}", field="role")
    calls = _read_calls(value) if role == "assistant" else []
    parts, rest = _read_content(value.get("content"), role, calls)
    reasoning = string(value.get("reasoning_content")) or string(value.get("reasoning"))
    if reasoning and role == "assistant":
        parts.insert(0, Thinking(reasoning))
    parts += rest
    call, tool = "", ""
    if role == "tool":
        tool = string(value.get("name")) or string(value.get("tool_name"))
        call = string(value.get("tool_call_id"))
        if name == "function" and not call:
            call = f"function:{tool}"
        if not call:
            raise DecodeError("missing-field", "a result names no call", field="tool_call_id")
    failed = value.get("is_error") is True or value.get("tool_call_error") is True
    return Message(
        role,
        tuple(parts),
        call=call,
        name=tool,
        error=failed and role == "tool",
        id=string(value.get("id")),
        origin=origin,
    )


def read_usage(value: Json) -> Usage | None:
    """Read usage in the shape of the API or its kin; None when there is none."""
    usage = _object(value)
    details = _object(usage.get("prompt_tokens_details", usage.get("input_tokens_details")))
    counts = [
        integer(usage.get("prompt_tokens", usage.get("input_tokens"))) or 0,
        integer(usage.get("completion_tokens", usage.get("output_tokens"))) or 0,
        integer(details.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))) or 0,
    ]
    return usage_of(*counts)


# Writing


def _write_call(call: ToolCall) -> Json:
    function: Json = {"name": call.name, "arguments": call.arguments}
    signature: dict[str, Json] = {"signature": call.signature} if call.signature else {}
    return {"id": call.id, "type": "function", "function": function, **signature}


def _write_image(part: Image) -> Json:
    url = f"data:{part.media_type};base64,{part.data}" if part.media_type else part.data
    block: dict[str, Json] = {"type": "image_url", "image_url": {"url": url}}
    if _read_image(block) == part:
        return block
    return {"type": "image", "data": part.data, "mimeType": part.media_type}


def _write_opaque(part: Opaque, role: str) -> Json:
    try:
        block = parse(part.data)
        # A part `tool_call` could be taken for the place of a call.
        if part.type != "tool_call" and _read_part(block, role) == part:
            return block
    except DecodeError:
        pass
    return {"type": "opaque", "part_type": part.type, "data": part.data}


def _write_part(part: Part, role: str) -> Json:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Image():
            return _write_image(part)
        case Thinking():
            block: dict[str, Json] = {"type": "thinking", "thinking": part.text}
            if part.signature:
                block["signature"] = part.signature
            if part.redacted:
                block["redacted"] = True
            return block
        case ToolCall():
            return {"type": "tool_call", "id": part.id}
        case _:
            return _write_opaque(part, role)


def write_message(message: Message) -> dict[str, Json]:
    """Write a message anew; reading it gives the same parts, role, call, name, error and id."""
    role = message.role
    parts = message.parts
    out: dict[str, Json] = {"role": role}
    first = parts[0] if parts else None
    if isinstance(first, Thinking) and first == Thinking(first.text) and first.text:
        out["reasoning_content"] = first.text
        parts = parts[1:]
    count = len(parts) - len(message.calls)
    # Calls behind all else need no place of their own.
    if all(isinstance(part, ToolCall) for part in parts[count:]):
        parts = parts[:count]
    only = parts[0] if len(parts) == 1 else None
    if isinstance(only, Text) and only.text:
        out["content"] = only.text
    elif parts:
        out["content"] = [_write_part(part, role) for part in parts]
    else:
        out["content"] = None if role == "assistant" else ""
    if message.calls:
        out["tool_calls"] = [_write_call(call) for call in message.calls]
    if role == "tool":
        out["tool_call_id"] = message.call
        if message.name:
            out["name"] = message.name
        if message.error:
            out["is_error"] = True
    if message.id:
        out["id"] = message.id
    return out


def _merge(known: dict[str, Json], fresh: dict[str, Json]) -> dict[str, Json]:
    """Put what is new into the object that was read, and keep what is not ours."""
    merged: dict[str, Json] = {}
    for key, value in known.items():
        foreign = key not in _OURS or (key == "name" and fresh["role"] != "tool")
        if key == "role" or foreign:
            merged[key] = value
        elif key == "tool_calls" and isinstance(value, list):
            same: dict[str, Json] = {}
            for item in value:
                call = _read_call(item)
                if isinstance(call, ToolCall):
                    same[compact(_write_call(call))] = item
            calls = fresh.get(key)
            if isinstance(calls, list):
                merged[key] = [same.get(compact(call), call) for call in calls]
        elif key in fresh:
            merged[key] = fresh[key]
    return {**merged, **{key: value for key, value in fresh.items() if key not in merged}}


def write_element(message: Message) -> str:
    """Write a message as JSON text.

    The text that it came from if that still says the same; otherwise its fields anew, with what
    the text holds beside them.
    """
    fresh = write_message(message)
    try:
        known = _object(parse(message.origin)) if message.origin else {}
        if known and read_message(known, origin=message.origin) == message:
            return message.origin
        merged = _merge(known, fresh)
        # Content in another form than ours, with fields that are not ours, stays if it is the same.
        for value in ({**merged, "content": known.get("content")}, merged):
            if known and read_message(value, origin=message.origin) == message:
                return compact(value)
    except DecodeError:
        pass
    return compact(fresh)


_SENT = frozenset(
    {
        *("role", "content", "name", "refusal", "audio", "tool_calls", "function_call"),
        *("tool_call_id", "reasoning_content", "reasoning", "reasoning_details"),
    }
)
"""Fields of messages that a request may have: the API's, and what its kin call reasoning."""

_SENT_PARTS = frozenset({"text", "image_url", "input_audio", "file", "refusal"})


def _sent_part(value: Json, role: str) -> Json:
    """Give a part of content as the API knows it; None for one that it does not know."""
    kind = string(_object(value).get("type"))
    part = _read_part(value, role)
    if isinstance(part, Opaque):
        return value if kind in _SENT_PARTS else None
    if isinstance(part, Thinking):
        return None
    return value if kind in _SENT_PARTS else _write_part(part, role)


def _sent_call(value: Json) -> Json:
    """Give a call as the API knows it; None for what is none."""
    call, known = _read_call(value), _object(value)
    if isinstance(call, Opaque):
        return None
    said = _object(known.get("function")).get("arguments")
    fields = known if isinstance(said, str) or "custom" in known else _object(_write_call(call))
    return {key: item for key, item in fields.items() if key != "signature"}


def write_sent(message: Message) -> dict[str, Json]:
    """Write a message for a request: what `write_element` gives, without what the API refuses.

    Left out are ids of messages, whether a tool failed and the name of a result's tool, signatures,
    thinking in the midst of content, parts of other providers, and what logs say beside.
    """
    known = _object(parse(write_element(message), limit=_NO_LIMIT))
    out = {key: item for key, item in known.items() if key in _SENT}
    if out.get("role") == "tool":
        out.pop("name", None)
    content, calls = out.get("content"), out.get("tool_calls")
    if isinstance(content, list):
        parts = [_sent_part(part, message.role) for part in content]
        out["content"] = [part for part in parts if part is not None] or ""
    if isinstance(calls, list):
        out["tool_calls"] = [call for call in map(_sent_call, calls) if call is not None]
    return out


def encode_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Give messages as Chat objects that `decode_messages` reads as the same again.

    What the format has no field for is in them, too; `encode_request` leaves that out.

    Args:
        messages: of a request, for example `project(session).messages`.

    Returns:
        New dicts. Fields that are not read survive from the messages' origin; a number that is
        too large for Python stays a text.

    >>> from ctxalgebra import ToolCall, assistant
    >>> encode_messages([assistant("Hi", ToolCall("c1", "ls"))])[0]["tool_calls"][0]["function"]
    {'name': 'ls', 'arguments': '{}'}
    """
    return [plain(write_element(message)) for message in messages_of(messages)]


def decode_messages(values: Iterable[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Read the message objects of a Chat request or response; the inverse of `encode_messages`.

    Raises:
        InvalidArgument: `wrong-type`, a value that JSON does not know, or no list of objects.
        DecodeError: as `read_message`, or a code of `ctxalgebra.codecs.lines`; `entry` is the
            index of the message.

    >>> decode_messages([{"role": "user", "content": "hi"}])[0].parts
    (Text(text='hi'),)
    """
    messages: list[Message] = []
    for index, (raw, value) in enumerate(objects(values)):
        try:
            messages.append(read_message(value, origin=raw))
        except DecodeError as error:
            raise DecodeError(error.code, error.message, entry=index, field=error.field) from None
    return tuple(messages)
