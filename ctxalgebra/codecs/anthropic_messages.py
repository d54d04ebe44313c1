"""Messages of the Anthropic API: from their JSON to ours and back, for a codec or by hand.

One element of a message list is one turn, and one turn of the user may be several messages here:

| in an element | becomes |
| --- | --- |
| of the user: each `tool_result` | a result; texts and other blocks between them a user message |
| of the assistant | one message |
| of `system`, in the middle of the list (rule V-A8) | a system message |
| `text`, `image` by base64 or URL, `tool_use` | `Text`, `Image`, `ToolCall` |
| `thinking`, `redacted_thinking` | `Thinking`, with its signature; redacted with its data |
| any other block: what server tools were asked and said, documents, search results, compaction, \
`tool_addition` and `tool_removal`, images in files | an opaque part, in its place |

Writing reads the message's origin and puts back each block that still says what a part says, so
that `cache_control`, citations and fields that nobody knows yet stay on their blocks. New blocks
have the API's shape and nothing else. So these are left out, and `unwritten` tells them: opaque
parts of other providers, signatures of calls, in requests thinking without a signature. Arguments
that are no JSON object stand in one, as its `input`.

Fields beside `role` and `content` stay, except in requests those that the API gives in an answer
and those of logs and of other formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from attrs import evolve

from ctxalgebra.codecs.given import messages_of
from ctxalgebra.codecs.lines import Json, compact, integer, objects, parse, plain, string
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.head import Usage
from ctxalgebra.model.parts import Image, Message, Opaque, Part, Role, Text, Thinking, ToolCall

__all__ = [
    "decode_messages",
    "encode_messages",
    "join_elements",
    "read_element",
    "read_usage",
    "turns",
    "unwritten",
    "write_element",
]

Object = dict[str, Json]

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}

_NOT_SENT = frozenset(
    {
        "id",
        "type",
        "model",
        "stop_reason",
        "stop_sequence",
        "stop_details",
        "usage",
        "container",
        "context_management",
        "timestamp",
        "uuid",
        "name",
        "tool_calls",
        "tool_call_id",
        "function_call",
        "reasoning_content",
        "reasoning",
        "refusal",
        "annotations",
        "audio",
    }
)
"""Fields of an element that answers, logs and other formats have, and requests have not."""

_FOREIGN = re.compile(
    r"input_\w+|output_text|refusal|reasoning|summary_text|reasoning_text|file|audio|video|image_url"
    r"|item_reference|additional_tools|\w+_call|\w+_call_output|\w+_output|mcp_(?:list_tools|approval_\w+)"
)
"""Types of blocks that other APIs have."""

_ID = re.compile(r"[^a-zA-Z0-9_-]")


# Reading


def _object(value: Json) -> Object:
    return value if isinstance(value, dict) else {}


def _read_image(source: Json) -> Image | None:
    known = _object(source)
    data, media, url = known.get("data"), known.get("media_type"), known.get("url")
    if known.get("type") == "base64" and isinstance(data, str) and isinstance(media, str):
        return Image(data, media)
    return Image(url, "") if known.get("type") == "url" and isinstance(url, str) else None


def _read_block(value: Json, *, speaks: bool) -> Part:
    block = _object(value)
    kind = string(block.get("type"))
    text, thinking, data = block.get("text"), block.get("thinking"), block.get("data")
    match kind:
        case "text" if isinstance(text, str):
            return Text(text)
        case "image" if image := _read_image(block.get("source")):
            return image
        case "thinking" if isinstance(thinking, str) and speaks:
            return Thinking(thinking, string(block.get("signature")))
        case "redacted_thinking" if isinstance(data, str) and speaks:
            return Thinking(data, redacted=True)
        case "tool_use" if speaks:
            name, given = string(block.get("name")), block.get("input", {})
            return ToolCall(string(block.get("id")), name, compact(given))
        case _:
            return Opaque(kind, compact(value))


def _read_content(content: Json, *, speaks: bool = False) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if isinstance(content, list):
        return tuple(_read_block(block, speaks=speaks) for block in content)
    return () if content is None else (Opaque("", compact(content)),)


def _is_result(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _read_result(block: Object, names: Mapping[str, str], origin: str) -> Message:
    call = string(block.get("tool_use_id"))
    if not call:
        raise DecodeError("missing-field", "a result names no call", field="content.tool_use_id")
    parts = _read_content(block.get("content"))
    failed = block.get("is_error") is True
    return Message("tool", parts, call=call, name=names.get(call, ""), error=failed, origin=origin)


def _read_turn(value: Object, names: Mapping[str, str], origin: str) -> tuple[Message, ...]:
    """Read a turn of the user that holds results."""
    content = value.get("content")
    blocks = content if isinstance(content, list) else []
    groups: list[list[Json]] = []
    for block in blocks:
        if _is_result(block) or not groups or _is_result(groups[-1][0]):
            groups.append([])
        groups[-1].append(block)
    messages: list[Message] = []
    # What stands beside the content goes with the first message, and only with that: a long turn
    # does not hold it many times.
    beside: Object = {key: item for key, item in value.items() if key != "content"}
    for group in groups:
        own = origin if len(groups) == 1 else compact({**beside, "content": [*group]})
        beside = {"role": "user"}
        first = group[0]
        if isinstance(first, dict) and _is_result(first):
            messages.append(_read_result(first, names, own))
        else:
            messages.append(Message("user", _read_content(group), origin=own))
    return tuple(messages)


def read_element(
    value: Object, *, origin: str = "", names: MutableMapping[str, str] | None = None
) -> tuple[Message, ...]:
    """Read one element of a message list.

    Args:
        value: the object.
        origin: the JSON text that it was read from. Of several messages each gets a text of its
            own, an element with its blocks alone.
        names: of tools, by the ids of calls: results take theirs from it, calls are added to it.

    Raises:
        DecodeError: `wrong-role`, a role that is unknown; `missing-field`, a result without the
            id of its call.

    >>> result = {"type": "tool_result", "tool_use_id": "t1", "content": "42"}
    >>> blocks = [result, {"type": "text", "text": "Go on."}]
    >>> [message.role for message in read_element({"role": "user", "content": blocks})]
    ['tool', 'user']
    """
    name = string(value.get("role"))
    role = _ROLES.get(name)
    if role is None:
        raise DecodeError("wrong-role", f"there is no role {name!r}", field="role")
    known: MutableMapping[str, str] = {} if names is None else names
    content = value.get("content")
    if role == "user" and isinstance(content, list) and any(map(_is_result, content)):
        return _read_turn(value, known, origin)
    parts = _read_content(content, speaks=role == "assistant")
    message = Message(role, parts, id=string(value.get("id")), origin=origin)
    known.update((call.id, call.name) for call in message.calls)
    return (message,)


def join_elements(values: Sequence[Object]) -> Object:
    """Join the pieces of one message, stored one block an element, into one element.

    Fields beside the content are those of the last piece that has them.
    """
    blocks: list[Json] = []
    joined: Object = {}
    for value in values:
        content = value.get("content")
        joined.update(value)
        if isinstance(content, list):
            blocks += content
        elif isinstance(content, str):
            blocks.append({"type": "text", "text": content})
    return {**joined, "content": blocks}


def read_usage(value: Json) -> Usage | None:
    """Read usage, whose input does not count what the cache read or wrote (rule C9).

    >>> read_usage(parse('{"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": 1}'))
    Usage(input=10, output=1, cache_read=7, cache_write=0)
    """
    usage = _object(value)
    names = (
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )
    counts = [integer(usage.get(name)) or 0 for name in names]
    if min(counts) < 0 or not any(counts):
        return None
    fresh, output, read, write = counts
    return Usage(fresh + read + write, output, read, write)


# Writing


def _arguments(text: str) -> tuple[Object, bool]:
    """Read arguments; those that are no object stand in one, and False says so."""
    try:
        value = parse(text)
    except DecodeError:
        return {"input": text}, False
    return (value, True) if isinstance(value, dict) else ({"input": value}, False)


def _write_image(part: Image) -> Json:
    if part.media_type:
        return {
            "type": "image",
            "source": {"type": "base64", "media_type": part.media_type, "data": part.data},
        }
    return {"type": "image", "source": {"type": "url", "url": part.data}}


def _write_opaque(part: Opaque, *, speaks: bool) -> Json:
    """Give the block of an opaque part; None for one that the API does not have."""
    try:
        block = parse(part.data)
    except DecodeError:
        return None
    if _FOREIGN.fullmatch(part.type) or not part.type or (_is_result(block) and not speaks):
        return None
    # An item of another provider's API, under the same name.
    if part.type == "compaction" and "encrypted_content" in _object(block):
        return None
    return block if _read_block(block, speaks=speaks) == part else None


def _write_block(part: Part, *, speaks: bool, sent: bool) -> Json:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Image():
            return _write_image(part)
        case Thinking(redacted=True):
            return {"type": "redacted_thinking", "data": part.text}
        case Thinking():
            block: Object = {"type": "thinking", "thinking": part.text}
            if part.signature:
                block["signature"] = part.signature
            return None if sent and not part.signature else block
        case ToolCall():
            given, _ = _arguments(part.arguments)
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": given}
        case _:
            return _write_opaque(part, speaks=speaks)


def _origin(message: Message) -> Object:
    """Read the element that a message came from; empty if it came from no such thing."""
    try:
        return _object(parse(message.origin, limit=len(message.origin)))
    except DecodeError:
        return {}


def _write_parts(message: Message, known: Json, *, sent: bool) -> list[Json]:
    """Write parts as blocks: those that were read where they say the same, else new ones."""
    speaks = message.role == "assistant"
    same: dict[Part, list[Json]] = {}
    for block in reversed(known if isinstance(known, list) else []):
        same.setdefault(_read_block(block, speaks=speaks), []).append(block)
    blocks: list[Json] = []
    for part in message.parts:
        fresh = _write_block(part, speaks=speaks, sent=sent)
        if fresh is not None:
            blocks.append(same[part].pop() if same.get(part) else fresh)
    return blocks


def _plain_text(blocks: list[Json], known: Json) -> Json:
    """Give content as a text where it was one, or is one text of its own."""
    only = _object(blocks[0]) if len(blocks) == 1 else {}
    alone = only.get("type") == "text" and len(only) == 2 and not isinstance(known, list)
    return only["text"] if alone and only["text"] else blocks


def _write_result(message: Message, *, sent: bool) -> Object:
    content = _origin(message).get("content")
    blocks = content if isinstance(content, list) else []
    known: Object = next((_object(block) for block in blocks if _is_result(block)), _object(None))
    inner = known.get("content")
    block: Object = {**known, "type": "tool_result", "tool_use_id": message.call}
    if message.parts != _read_content(inner) or not known:
        block["content"] = _plain_text(_write_parts(message, inner, sent=sent), inner)
    if message.error != (known.get("is_error") is True):
        block["is_error"] = message.error
    return block


def _write_message(message: Message, *, sent: bool) -> Object:
    known = _origin(message) if message.origin else {}
    content = known.get("content")
    blocks = _write_parts(message, content, sent=sent)
    beside = {key: item for key, item in known.items() if key not in ("role", "content", "id")}
    named: Object = {"id": message.id} if message.id else {}
    return {**named, "role": message.role, "content": _plain_text(blocks, content), **beside}


def _as_list(content: Json) -> list[Json]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}]


def turns(messages: Iterable[Message], *, merged: bool = True) -> list[list[Message]]:
    """Divide messages into those that one element holds: results first, all that follow each other.

    Args:
        messages: in order.
        merged: also join messages of one role that follow each other, as the API does (rule V-A4);
            else only results, and one user message behind them.

    >>> from ctxalgebra import assistant, tool_result, user
    >>> array = [assistant("a"), tool_result("c", "1"), user("b"), user("c")]
    >>> [len(turn) for turn in turns(array)], [len(turn) for turn in turns(array, merged=False)]
    ([1, 3], [1, 2, 1])
    """
    found: list[list[Message]] = []
    for message in messages:
        before = found[-1][-1].role if found else None
        joins = before == "tool" and message.role in ("tool", "user")
        if merged and message.role != "system":
            ours = "user" if message.role == "tool" else message.role
            joins = ours == ("user" if before == "tool" else before)
        if joins:
            found[-1].append(message)
        else:
            found.append([message])
    return found


def _write_turn(turn: Sequence[Message], *, sent: bool) -> Object:
    results = [message for message in turn if message.role == "tool"]
    others = [_write_message(message, sent=sent) for message in turn if message.role != "tool"]
    if not results and len(others) == 1:
        return others[0]
    beside: Object = {}
    content: list[Json] = [_write_result(message, sent=sent) for message in results]
    for known in [*map(_origin, results), *others]:
        beside.update(known)
    for element in others:
        content += _as_list(element["content"])
    role: Json = "user" if results else others[0]["role"]
    rest = {key: item for key, item in beside.items() if key not in ("role", "content")}
    return {"role": role, "content": content, **rest}


def _reads_as(element: Object, turn: Sequence[Message]) -> bool:
    try:
        read = read_element(element)
    except DecodeError:
        return False
    ours = [evolve(message, name="", origin="") for message in turn]
    return [evolve(message, name="", origin="") for message in read] == ours


def write_element(turn: Sequence[Message]) -> str:
    """Write messages of one turn as the JSON text of an element.

    The text that a message came from, if it came alone and the text still says the same; otherwise
    blocks anew, with what the texts hold beside them.

    Args:
        turn: of `turns`.
    """
    if len(turn) == 1 and (known := _origin(turn[0])) and _reads_as(known, turn):
        return turn[0].origin
    return compact(_write_turn(turn, sent=False))


class _Ids:
    """Ids as the API takes them: letters, digits, - and _, each call another."""

    def __init__(self, messages: Iterable[Message]) -> None:
        array = [*messages]
        taken = {call.id for message in array for call in message.calls}
        taken.update(message.call for message in array)
        counts: dict[str, int] = {}
        self._names: dict[str, str] = {}
        for name in sorted(name for name in taken if _ID.search(name)):
            base = _ID.sub("_", name)
            # The count goes on from use to use, so that each taken name is met once.
            fresh, count = base, counts.get(base, 1)
            while fresh in taken:
                count += 1
                fresh = f"{base}_{count}"
            counts[base] = count
            taken.add(fresh)
            self._names[name] = fresh

    def _name(self, name: str) -> str:
        return self._names.get(name, name)

    def __call__(self, message: Message) -> Message:
        """Give the message with such ids; the same object if it has them."""
        if not any(name in self._names for name in (message.call, *(c.id for c in message.calls))):
            return message
        parts = [
            evolve(part, id=self._name(part.id)) if isinstance(part, ToolCall) else part
            for part in message.parts
        ]
        return evolve(message, parts=tuple(parts), call=self._name(message.call))


def encode_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Give messages as the elements of a request body, such as a client library takes.

    Messages of one role are one element, results in front (rules V-A1, V-A3, V-A4). Ids of calls
    that the API would refuse are written with `_` in them.

    Args:
        messages: of a request, for example `project(session).messages`.

    Returns:
        New dicts. What `unwritten` names is left out, and so is an element of nothing else.

    >>> from ctxalgebra import ToolCall, assistant, tool_result, user
    >>> array = [assistant(ToolCall("c1", "ls")), tool_result("c1", "a.py"), user("Go on.")]
    >>> encode_messages(array)[1]["content"][1]
    {'type': 'text', 'text': 'Go on.'}
    """
    array = messages_of(messages)
    ids = _Ids(array)
    elements = (_write_turn(turn, sent=True) for turn in turns(map(ids, array)))
    return [
        plain(compact({key: item for key, item in element.items() if key not in _NOT_SENT}))
        for element in elements
        if element["content"]
    ]


def unwritten(message: Message) -> tuple[str, ...]:
    """List the kinds of what has no place in a request, or changes in it.

    Returns:
        `opaque` for each part of another provider, `thinking` for thinking without a signature,
        `tool-call` for arguments that are no object (they stand in one), `signature` for a call's.

    >>> from ctxalgebra import Opaque, assistant
    >>> unwritten(assistant("ok", Opaque("reasoning", "{}")))
    ('opaque',)
    """
    kinds: list[str] = []
    for part in message.parts:
        missing = _write_block(part, speaks=message.role == "assistant", sent=True) is None
        if isinstance(part, ToolCall):
            missing = not _arguments(part.arguments)[1]
            kinds += ["signature"] * bool(part.signature)
        kinds += [part.kind] * missing
    return tuple(kinds)


def decode_messages(values: Iterable[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Read the elements of a request or an answer; the inverse of `encode_messages`.

    Raises:
        InvalidArgument: `wrong-type`, a value that JSON does not know, or no list of objects.
        DecodeError: as `read_element`, or a code of `ctxalgebra.codecs.lines`; `entry` is the
            index of the element.

    >>> decode_messages([{"role": "user", "content": "hi"}])[0].parts
    (Text(text='hi'),)
    """
    messages: list[Message] = []
    names: dict[str, str] = {}
    for index, (raw, value) in enumerate(objects(values)):
        try:
            messages += read_element(value, origin=raw, names=names)
        except DecodeError as error:
            raise DecodeError(error.code, error.message, entry=index, field=error.field) from None
    return tuple(messages)
