"""How messages are put in words: in full for programs, line by line or in one line for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import asdict

from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Image, Message, Part, Text, Thinking, ToolCall
from ctxalgebra.terminal import counted

__all__ = ["beginning", "head_object", "in_lines", "message_object", "reasons"]


def message_object(message: Message) -> dict[str, Any]:
    """Give a message as JSON values, parts with their kind; without its wire text.

    >>> from ctxalgebra import user
    >>> message_object(user("hi"))["parts"]
    [{'kind': 'text', 'text': 'hi'}]
    """
    return {
        "role": message.role,
        "parts": [{"kind": part.kind, **asdict(part)} for part in message.parts],
        "call": message.call,
        "name": message.name,
        "error": message.error,
        "id": message.id,
    }


def head_object(head: Head) -> dict[str, Any]:
    """Give a head as JSON values.

    >>> head_object(Head(system="Be brief."))["system"]
    'Be brief.'
    """
    return {
        "route": asdict(head.route),
        "system": head.system,
        "tools": [asdict(tool) for tool in head.tools],
    }


def _words(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Thinking():
            return "[thinking, redacted]" if part.redacted else f"[thinking] {part.text}"
        case Image():
            return f"[image {part.media_type}, {counted(len(part.data), 'character')}]"
        case ToolCall():
            return f"[call {part.id}] {part.name} {part.arguments}"
        case _:
            return f"[{part.type}] {part.data}"


def in_lines(message: Message) -> Iterator[str]:
    r"""Give the lines of a message's text.

    >>> from ctxalgebra import ToolCall, assistant
    >>> list(in_lines(assistant("a\nb", ToolCall("c1", "read"))))
    ['a', 'b', '[call c1] read {}']
    """
    for part in message.parts:
        for line in _words(part).expandtabs(4).split("\n"):
            yield line.removesuffix("\r")


def beginning(message: Message, most: int = 60) -> str:
    r"""Give the first line that is not blank, cut to so many characters.

    >>> from ctxalgebra import user
    >>> beginning(user("\n  one two three"), 8)
    'one two…'
    """
    first = next((line.strip() for line in in_lines(message) if line.strip()), "")
    return first if len(first) <= most else f"{first[: most - 1]}…"


_HEAD = "the head changed: "


def reasons(why: str) -> str:
    """Say each reason of a break once, where several entries broke the same request.

    >>> reasons("the head changed: model, tools; over 9 tokens; the head changed: tools, system")
    'the head changed: model, tools, system; over 9 tokens'
    """
    said: dict[str, dict[str, None]] = {}
    for reason in why.split("; "):
        names: list[str] = []
        about = reason
        if reason.startswith(_HEAD):
            about, names = _HEAD, reason.removeprefix(_HEAD).split(", ")
        said.setdefault(about, {}).update(dict.fromkeys(names))
    return "; ".join(about + ", ".join(names) for about, names in said.items())
