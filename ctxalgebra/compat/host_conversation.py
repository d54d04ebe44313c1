"""Messages of the pi host as a model gets them, and as one text (its format, sections 3 and 7).

What only the host knows becomes a message of the user: commands, custom messages, summaries. The
wording in front of summaries and commands is that of `ctxalgebra.codecs.pi_messages`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from ctxalgebra.codecs.lines import Json, Number, string
from ctxalgebra.codecs.pi_messages import read_message
from ctxalgebra.codecs.pi_weights import json_text, utf16_length
from ctxalgebra.compat.host_entries import Entry
from ctxalgebra.model.parts import Text
from ctxalgebra.utf16 import cut

__all__ = ["RESULT", "blocks_of", "said", "serialize", "to_model"]

RESULT = 2000
"""How many UTF-16 units of a tool result `serialize` writes."""


def _worded(message: Entry) -> str | None:
    """Give the text of a command or a summary; None for one that the model never sees."""
    known: dict[str, Json] = {
        name: value if isinstance(value, str | bool) else None for name, value in message.items()
    }
    if type(code := message.get("exitCode")) in (int, float):
        known["exitCode"] = Number(json_text(code))
    spoken = read_message(known)
    if spoken is None:
        return None
    return "".join(part.text for part in spoken.message.parts if isinstance(part, Text))


def to_model(messages: Iterable[Entry]) -> list[Entry]:
    """Convert messages of the host to those that a model gets.

    Messages of the user, of the model and of tools pass as they are. A custom message becomes one
    of the user, and so do a command that is not excluded and a summary that says something.
    Anything else is dropped.

    Raises:
        InvalidArgument: `lone-surrogate`, a command or a summary holds half a character.

    >>> to_model([{"role": "custom", "content": "note", "timestamp": 1}, {"role": "system"}])
    [{'role': 'user', 'content': [{'type': 'text', 'text': 'note'}], 'timestamp': 1}]
    """
    converted: list[Entry] = []
    for message in messages:
        content: Any = message.get("content")
        match message.get("role"):
            case "user" | "assistant" | "toolResult":
                converted.append(message)
                continue
            case "custom":
                text = content if isinstance(content, str) else None
            case "bashExecution" | "branchSummary" | "compactionSummary":
                if (text := _worded(message)) is None:
                    continue
            case _:
                continue
        if text is not None:
            content = [{"type": "text", "text": text}]
        time = {"timestamp": message["timestamp"]} if "timestamp" in message else {}
        converted.append({"role": "user", "content": content, **time})
    return converted


def blocks_of(message: Entry, kind: str) -> Iterator[Entry]:
    """Give the blocks of one kind in a message.

    >>> list(blocks_of({"content": [{"type": "text", "text": "a"}, {"type": "image"}]}, "text"))
    [{'type': 'text', 'text': 'a'}]
    """
    content = message.get("content")
    if isinstance(content, list):
        for block in cast("list[object]", content):
            if isinstance(block, dict):
                known = cast("dict[str, Any]", block)
                if known.get("type") == kind:
                    yield known


def said(message: Entry) -> str:
    """Give the text of a message: its content, or its text blocks put together.

    >>> said({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})
    'ab'
    """
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(string(block.get("text")) for block in blocks_of(message, "text"))


def _call(block: Entry) -> str:
    given = block.get("arguments")
    members = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    arguments = ", ".join(f"{name}={json_text(value)}" for name, value in members.items())
    return f"{string(block.get('name'))}({arguments})"


def _shortened(text: str) -> str:
    size = utf16_length(text)
    if size <= RESULT:
        return text
    start = cut(text, 0, RESULT)
    if "\ud800" <= start[-1] <= "\udbff":
        start = start[:-1]  # half a character is none
    return f"{start}\n\n[{size - utf16_length(start)} more characters were left out]"


def _parts(message: Entry) -> Iterator[tuple[str, str]]:
    match message.get("role"):
        case "user":
            yield "User", said(message)
        case "toolResult":
            yield "Tool result", _shortened(said(message))
        case _:
            thought = [string(b.get("thinking")) for b in blocks_of(message, "thinking")]
            texts = [string(b.get("text")) for b in blocks_of(message, "text")]
            yield "Assistant thinking", "\n".join(thought)
            yield "Assistant", "\n".join(texts)
            yield "Assistant tool calls", "; ".join(map(_call, blocks_of(message, "toolCall")))


def serialize(messages: Iterable[Entry]) -> str:
    """Write messages of the host as one text, for a model that summarises them.

    Images are left out, and so is what is empty; of a tool's result `RESULT` units are written.

    Raises: as `to_model`.

    >>> serialize([{"role": "user", "content": "hi"}, {"role": "user", "content": ""}])
    '[User]: hi'
    """
    parts = [
        f"[{who}]: {text}"
        for message in to_model(messages)
        for who, text in _parts(message)
        if text
    ]
    return "\n\n".join(parts)
