"""Messages as items of the OpenAI Responses API: what `ctxalgebra.codecs.responses_items` reads.

Items that still say what their message says are written as they were. What changed is written
anew, with the fields that are not read. Item ids live only in the origin; an item whose reasoning
was taken away is written without its id, since with it the API asks for the reasoning (V-R3).

What the API has no field for is left out, and `unwritten` tells it: parts of other providers,
signatures that are not its own, images that a model shows. A call whose arguments are a JSON
string is written as a `custom_tool_call`, a failed result with the status `incomplete`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ctxalgebra.codecs.given import messages_of
from ctxalgebra.codecs.lines import Json, compact, parse, plain, quote, string
from ctxalgebra.codecs.responses_items import (
    CALLS,
    FAILED,
    OUTPUTS,
    bare_reasoning,
    elements,
    read_call,
    read_item,
    read_reasoning,
)
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.parts import Image, Message, Opaque, Part, Role, Text, Thinking, ToolCall

__all__ = ["ITEMS", "Writer", "encode_items", "unwritten"]

ITEMS = {
    "agent_message": "content",
    "code_interpreter_call": "type",
    "compaction": "encrypted_content",
    "file_search_call": "type",
    "image_generation_call": "type",
    "item_reference": "id",
    "mcp_approval_request": "type",
    "mcp_approval_response": "type",
    "mcp_call": "type",
    "mcp_list_tools": "type",
    "tool_search_call": "execution",
    "tool_search_output": "execution",
    "web_search_call": "type",
    **dict.fromkeys(OUTPUTS, "call_id"),
}
"""Items that are opaque, and a field that tells them from other providers' parts of the name."""

_BLOCKS = (
    frozenset(
        {"computer_screenshot", "encrypted_content", "input_audio", "input_file", "input_image"}
    ),
    frozenset({"refusal"}),
)
"""Blocks of content that are opaque: what is put in, and what a model says."""


def _parsed(text: str) -> dict[str, Json]:
    """Read a JSON object; empty where a text is none."""
    try:
        value = parse(text)
    except DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _free_text(arguments: str) -> str | None:
    """Give the text that is written as a JSON string in the way of `quote`; None for others."""
    if arguments[:1] != '"':
        return None
    try:
        text = parse(arguments)
    except DecodeError:
        return None
    return text if isinstance(text, str) and quote(text) == arguments else None


def _write_call(call: ToolCall) -> dict[str, Json]:
    text = _free_text(call.arguments)
    if text is None:
        kind, field, said = "function_call", "arguments", call.arguments
    else:
        kind, field, said = "custom_tool_call", "input", text
    return {"type": kind, "call_id": call.id, "name": call.name, field: said}


def _rewrite_call(known: dict[str, Json], call: ToolCall) -> dict[str, Json]:
    """Put a changed call into the item that it came from; a new item where it does not fit."""
    kind = string(known.get("type"))
    field = CALLS[kind][0]
    said: Json = call.arguments
    if kind != "function_call":
        try:
            said = parse(call.arguments)
        except DecodeError:
            return _write_call(call)
    item = {**known, field: said}
    if kind in ("function_call", "custom_tool_call"):
        item["name"] = call.name
    return item if read_call(item, kind) == call else _write_call(call)


_Values = list[dict[str, Json]]


class _Known:
    """The items that a message came from, and what each of them gave.

    Attributes:
        values: the items; none where the origin holds another format, or another role.
        same: they still say what the message says.
        calls, opaque, blocks: by the id or part that they gave.
        said: messages among them that follow each other, with the parts that they gave.
        lost: reasoning was taken from the message.
    """

    def __init__(self, message: Message) -> None:
        self.values: _Values = []
        self.same = self.lost = False
        self.calls: dict[str, dict[str, Json]] = {}
        self.opaque: dict[Part, dict[str, Json]] = {}
        self.blocks: dict[Part, Json] = {}
        self.said: list[tuple[tuple[Part, ...], _Values]] = []
        try:
            values = elements(parse(message.origin, limit=len(message.origin)))
            read = [(value, read_item(value)) for value in values if isinstance(value, dict)]
        except DecodeError:
            return
        if len(read) == len(values) and {m.role for _, m in read} == {message.role}:
            self._read(message, read)

    def _read(self, message: Message, read: list[tuple[dict[str, Json], Message]]) -> None:
        self.values = [value for value, _ in read]
        parts = [part for _, m in read for part in m.parts]
        last = read[-1][1]
        outcome = (tuple(parts), last.call, last.error)
        self.same = outcome == (message.parts, message.call, message.error)
        left = set(message.parts)
        self.lost = any(isinstance(part, Thinking) and part not in left for part in parts)
        apart = True
        for value, m in read:
            speaks = string(value.get("type")) in ("", "message")
            if speaks or m.role == "tool":
                blocks = elements(value.get("content" if speaks else "output"))
                self.blocks.update(zip(m.parts, blocks, strict=False))
            elif m.calls:
                self.calls[m.calls[0].id] = value
            else:
                self.opaque[m.parts[0]] = value
            if speaks:
                before, group = ((), []) if apart else self.said.pop()
                self.said.append(((*before, *m.parts), [*group, value]))
            apart = not speaks


def _own(part: Part | None) -> dict[str, Json]:
    """Read the item that an opaque part holds; empty for all else, as parts of another API."""
    if not isinstance(part, Opaque):
        return {}
    value = _parsed(part.data)
    known = value.get("type") == part.type and ITEMS.get(part.type) in value
    return value if known else {}


class Writer:
    """Write messages as items, one message after another.

    Remembers which kind of call each result answers. `left_out` lists what the items could not
    hold of the latest message: kinds of parts, types of opaque parts, or `signature`.
    """

    def __init__(self) -> None:
        self.left_out: list[str] = []
        self._kinds: dict[str, str] = {}

    def write(self, message: Message) -> _Values:
        """Give the items of a message; none if the API has none for it."""
        self.left_out = []
        known = _Known(message)
        if message.role == "tool":
            items = [self._output(message, known)]
        else:
            items = known.values if known.same else self._assemble(message, known)
        for item in items:
            if (kind := string(item.get("type"))) in CALLS:
                self._kinds[string(item.get("call_id"))] = kind
        return items

    def _assemble(self, message: Message, known: _Known) -> _Values:
        # Parts that are items of their own, and what is said between them.
        stretches: list[tuple[bool, list[Part]]] = []
        for part in message.parts:
            alone = _alone(part, known)
            if alone or not stretches or stretches[-1][0]:
                stretches.append((alone, []))
            stretches[-1][1].append(part)
        said = [tuple(parts) for alone, parts in stretches if not alone]
        # What changed is paired with what was said, where nothing was added or taken.
        paired = dict(zip(said, known.said, strict=True)) if len(said) == len(known.said) else {}
        same = dict(known.said)
        items: _Values = []
        for alone, parts in stretches:
            what = tuple(parts)
            if alone:
                items += self._item(parts[0], known)
            elif what in same:
                items += same[what]
            else:
                _, values = paired.get(what, ((), []))
                items += self._said(message.role, parts, values, known)
        if known.lost:
            kept = ("reasoning", "item_reference")
            items = [item if item.get("type") in kept else _nameless(item) for item in items]
        return items

    def _said(self, role: Role, parts: list[Part], values: _Values, known: _Known) -> _Values:
        content: list[Json] = []
        for part in parts:
            content += self._block(part, role, known)
        if not content:
            return []
        name = "developer" if role == "system" else role
        first = values[0] if values else {"type": "message", "role": name}
        return [{**first, "content": content}]

    def _block(self, part: Part, role: Role, known: _Known) -> list[Json]:
        if part in known.blocks:
            return [known.blocks[part]]
        if isinstance(part, Text):
            kind = "output_text" if role == "assistant" else "input_text"
            return [{"type": kind, "text": part.text}]
        if isinstance(part, Image) and role != "assistant":
            url = f"data:{part.media_type};base64,{part.data}" if part.media_type else part.data
            return [{"type": "input_image", "image_url": url, "detail": "auto"}]
        if isinstance(part, Opaque):
            value = _parsed(part.data)
            if part.type in _BLOCKS[role == "assistant"] and value.get("type") == part.type:
                return [value]
        self.left_out.append(part.type if isinstance(part, Opaque) else part.kind)
        return []

    def _item(self, part: Part, known: _Known) -> _Values:
        if isinstance(part, ToolCall):
            if part.signature:
                self.left_out.append("signature")
            item = known.calls.get(part.id)
            return [_write_call(part) if item is None else _rewrite_call(item, part)]
        if isinstance(part, Thinking):
            value = _parsed(part.signature)
            if value.get("type") == "reasoning" and read_reasoning(value) == part:
                return [value]
            if part.redacted:
                self.left_out.append(part.kind)
                return []
            if part.signature:
                self.left_out.append("signature")
            return [bare_reasoning(part)]
        return [known.opaque.get(part) or _own(part)]

    def _output(self, message: Message, known: _Known) -> dict[str, Json]:
        item = known.values[0] if known.values else {}
        kind = string(item.get("type")) or "function_call_output"
        if message.call in self._kinds:
            kind = CALLS[self._kinds[message.call]][1]
        if known.same and kind == item.get("type"):
            return item
        if kind != item.get("type"):
            item = {"type": kind}
        item = {**item, "call_id": message.call}
        parts = message.parts
        only = parts[0] if len(parts) == 1 else None
        if kind == "tool_search_output":
            found = _own(only)
            if not found:
                self.left_out += [part.kind for part in parts]
            tools = {"execution": "client", "tools": [], **item, **found}
            return {**tools, "call_id": message.call, "status": "completed"}
        if isinstance(only, Text) and only.text:
            item["output"] = only.text
        else:
            blocks = [block for part in parts for block in self._block(part, "tool", known)]
            item["output"] = blocks or ""
        if message.error or kind == "apply_patch_call_output":
            failed = "failed" if kind == "apply_patch_call_output" else "incomplete"
            item["status"] = failed if message.error else "completed"
        elif item.get("status") in FAILED:
            item["status"] = "completed"
        return item


def _alone(part: Part, known: _Known) -> bool:
    """Say whether a part is an item of its own, and no block of a message."""
    ours = part in known.opaque or (part not in known.blocks and bool(_own(part)))
    return ours or isinstance(part, Thinking | ToolCall)


def _nameless(item: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in item.items() if key != "id"}


def encode_items(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Give messages as the items of a request's `input`, such as a client library takes.

    Args:
        messages: of a request, for example `project(session).messages`.

    Returns:
        New dicts. Fields that are not read survive from the messages' origin.

    >>> from ctxalgebra import ToolCall, assistant
    >>> encode_items([assistant("Hi", ToolCall("c1", "ls"))])[1]
    {'type': 'function_call', 'call_id': 'c1', 'name': 'ls', 'arguments': '{}'}
    """
    writer = Writer()
    return [
        plain(compact(item)) for message in messages_of(messages) for item in writer.write(message)
    ]


def unwritten(message: Message) -> tuple[str, ...]:
    """List what the items of a message leave out: kinds of parts, types of opaque ones.

    `signature` stands for a signature of another provider whose part is written without it.

    >>> from ctxalgebra import Opaque, Thinking, assistant
    >>> unwritten(assistant(Thinking("so", "sig"), Opaque("document", "{}")))
    ('signature', 'document')
    """
    writer = Writer()
    writer.write(message)
    return tuple(writer.left_out)
