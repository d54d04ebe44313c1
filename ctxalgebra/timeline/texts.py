r"""Texts of entries: what can be read in each, its kind, and its beginning on one line.

Everything that can be read is given: texts, thinking, names and arguments of calls, parts that the
library doesn't know, notices, reasons, texts of the host's own records (fault W11 of the original:
it searched texts only). Not given are ciphertext, signatures, the data of images, and the wire
text that a message was read from, which says the same once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from ctxalgebra.checkpoints.provenance import handed_over
from ctxalgebra.events import REMINDER, is_reminder
from ctxalgebra.model.entries import (
    Answer,
    Ask,
    Cut,
    Drop,
    Entry,
    Label,
    Note,
    Replace,
    Reply,
    Sent,
    Strip,
)
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Image, Message, Opaque, Text, Thinking, ToolCall
from ctxalgebra.model.session import Node

__all__ = ["Kind", "counted", "kind_of", "one_line", "plainly", "readable", "title"]

Kind = Literal[
    "user",
    "assistant",
    "tool",
    "system",
    "summary",
    "label",
    "note",
    "head",
    "request",
    "reply",
    "edit",
    "ask",
    "answer",
    "usage",
]
"""What an entry is. `summary` is a handoff, or a cut, by its notice; `note` is a reminder, too;
`reply` is one that brought no message; `edit` is any other decision."""

_KINDS: dict[type, Kind] = {
    Cut: "summary",
    Label: "label",
    Note: "note",
    Head: "head",
    Sent: "request",
    Reply: "reply",
    Replace: "edit",
    Drop: "edit",
    Strip: "edit",
    Ask: "ask",
    Answer: "answer",
}

MOST = 100
"""How much of an entry stands in a row, in code points."""

_NEAR = 4096


_DATA = re.compile(r"[A-Za-z0-9+/_=-]{120,}+")
"""Base64 and its like, of a length that no name or path of one word has."""


def kind_of(node: Node) -> Kind:
    """Say what an entry is.

    >>> from ctxalgebra import Session, record, user
    >>> kind_of(record(Session(), user("hi")).leaf)
    'user'
    """
    entry = node.entry
    if type(entry) is Message:
        if handed_over(node) is not None:
            return "summary"
        return "note" if is_reminder(node) else entry.role
    if type(entry) is Reply and entry.message is not None:
        return entry.message.role
    return _KINDS.get(type(entry), "usage")


def title(node: Node) -> str:
    r"""Give the kind of an entry, with the name of a tool or note, on one line.

    >>> from ctxalgebra import Note, Session, record
    >>> title(record(Session(), Note("a\nb")).leaf)
    'note a b'
    """
    entry = node.entry
    match entry:
        case Message(role="tool"):
            failed = ", failed" if entry.error else ""
            return f"{plainly('tool', entry.name)}{failed}"
        case Note():
            return plainly("note", entry.name)
        case Reply() if entry.outcome != "completed":
            return f"{kind_of(node)}, {entry.outcome}"
        case Message() if is_reminder(node):
            return REMINDER
        case _:
            return kind_of(node)


def counted(number: int, one: str, more: str = "") -> str:
    """Say how many there are of something.

    >>> counted(1, "row"), counted(2000, "entry", "entries")
    ('1 row', '2,000 entries')
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def plainly(*words: str, most: int = 240) -> str:
    r"""Join words on one line, cut with a mark.

    >>> plainly("checkpoint:", "a\n b"), plainly("abcdef", most=4)
    ('checkpoint: a b', 'abcd…')
    """
    return one_line(words, most)


def one_line(texts: Iterable[str], most: int = MOST) -> str:
    r"""Give the beginning of texts on one line: whole characters, and a mark where it was cut.

    Reads no further than it has to.

    Args:
        texts: in order; blank ones are passed over.
        most: code points in front of the mark.

    >>> one_line(["a\n\t b", "c"]), one_line(["abcdef"], 3), one_line(["ab\U0001f600"], 2)
    ('a b c', 'abc…', 'ab…')
    """
    line = ""
    for text in texts:
        if text[:_NEAR].isspace():
            text = text.lstrip()  # noqa: PLW2901 - a copy, only where it begins with so many blanks
        words = text[:_NEAR].split()
        if words:
            line = " ".join((line, *words) if line else words)
        if len(line) > most or len(text) > _NEAR:
            break
    else:
        return line
    # A space in front of the mark would tell of a word that is not there.
    return f"{line[:most].rstrip()}…"


def readable(entry: Entry) -> list[str]:
    """List the texts of an entry, in order.

    >>> from ctxalgebra import Thinking, ToolCall, assistant
    >>> readable(assistant(Thinking("hm"), ToolCall("c1", "read")))
    ['[thinking] hm', '[call c1] read {}']
    """
    match entry:
        case Message():
            return [part.text if isinstance(part, Text) else _said(part) for part in entry.parts]
        case Reply():
            return readable(entry.message) if entry.message is not None else []
        case Cut():
            return [*readable(entry.notice), f"[why] {entry.why}"]
        case Replace():
            return [*readable(entry.message), f"[instead of #{entry.target}] {entry.why}"]
        case Drop():
            return [f"[#{entry.first} to #{entry.last} leave] {entry.why}"]
        case Strip():
            return [f"[thinking leaves] {entry.why}"]
        case Label():
            return [f"[label of #{entry.target}] {entry.name or 'taken away'}"]
        case Note():
            return [entry.name, _without_data(entry.data)]
        case Head():
            route = entry.route
            tools = [f"[tool {tool.name}] {tool.description}" for tool in entry.tools]
            return [f"[route] {route.provider}/{route.model}", entry.system, *tools]
        case Ask():
            return [f"[{entry.topic}] {entry.key}", entry.question]
        case Answer():
            return [f"[{entry.outcome}, to #{entry.ask}]", entry.value]
        case _:
            return []


def _said(part: Thinking | Image | ToolCall | Opaque) -> str:
    match part:
        case Thinking():
            return "[thinking, redacted]" if part.redacted else f"[thinking] {part.text}"
        case Image():
            return f"[image {part.media_type}]"
        case ToolCall():
            return f"[call {part.id}] {part.name} {part.arguments}"
        case _:
            return f"[{part.type}] {_without_data(part.data)}"


def _without_data(text: str) -> str:
    """Put a mark for what is data, as codecs keep it in notes: images, ciphertext, signatures."""
    return _DATA.sub(lambda run: f"[{len(run[0])} characters of data]", text)
