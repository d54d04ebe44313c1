"""What the travel extension reads in entries of the pi host: texts, roles, excerpts.

On plain JSON, whatever stands in it. Lengths are UTF-16 units and white space is that of the
host's language; a text that is cut loses the half of a pair that would stay (W23). Source: travel,
sections 2, 4, 12 and 16 to 18.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from attrs import frozen

from ctxalgebra.codecs.pi_weights import utf16_length
from ctxalgebra.compat.host_entries import Entry
from ctxalgebra.utf16 import SPACE, cut, trim

__all__ = [
    "OWN_TOOLS",
    "Bounded",
    "Meaningful",
    "Skip",
    "blocks_of",
    "bounded_text",
    "content_text",
    "entry_text",
    "first_units",
    "last_meaningful",
    "message_of",
    "optional_text",
    "role_label",
    "skip_reason",
    "snippet",
    "speaks",
    "tool_calls",
]

OWN_TOOLS = "acm_"
"""How the names of the extension's own tools begin."""

Block: TypeAlias = Mapping[str, Any]

_SPACES = re.compile(f"[{SPACE}]+")
_SUMMARIES = ("branch_summary", "compaction")
_SNIPPET = 60
_ROLES: Mapping[Any, str] = {"assistant": "AI", "user": "USER", "bashExecution": "BASH"}
_SKIPPED: Mapping[Any, str] = {
    "toolResult": "tool_result",
    "bashExecution": "bash_execution",
    "custom": "custom_message",
    "system": "system_message",
}


def optional_text(value: object) -> str | None:
    r"""Take a parameter that may be absent: trimmed; None if nothing is left, or it is no text.

    >>> optional_text(" x "), optional_text("\ufeff\u00a0"), optional_text(5)
    ('x', None, None)
    """
    return trim(value) or None if isinstance(value, str) else None


def first_units(text: str, size: int) -> str:
    r"""Take the first units of a text; a pair that would be parted stays out.

    >>> first_units("ab\U0001f600", 3)
    'ab'
    """
    part = cut(text, 0, size)
    return part[:-1] if "\ud800" <= part[-1:] <= "\udbff" and cut(text, size, size + 1) else part


def blocks_of(content: object) -> Iterator[Block]:
    """Walk over the blocks of a content that are objects."""
    if isinstance(content, list):
        for block in cast("list[object]", content):
            if isinstance(block, dict):
                yield cast("Block", block)


def _text(block: Block) -> str:
    text = block.get("text")
    return text if block.get("type") == "text" and isinstance(text, str) else ""


def _texts(content: object) -> list[str]:
    """List the text of each block; one that is no text has an empty one."""
    return [content] if isinstance(content, str) else [_text(block) for block in blocks_of(content)]


def tool_calls(message: Entry) -> list[Block]:
    """List the blocks of a message that are calls, well-formed or not."""
    return [block for block in blocks_of(message.get("content")) if block.get("type") == "toolCall"]


def speaks(message: Entry) -> bool:
    """Say whether a message has a text that is not blank."""
    return any(map(trim, _texts(message.get("content"))))


def content_text(content: object) -> str:
    """Join the texts of a content with blanks, and trim it; other blocks are empty texts.

    >>> content_text([{"type": "text", "text": "a "}, {"type": "text", "text": "b"}])
    'a  b'
    """
    return trim(" ".join(_texts(content)))


@frozen
class Bounded:
    """Hold as much of a text as was wanted.

    Args:
        text: trimmed.
        consumed: source characters that were read for it, separators among them.
        truncated: there are more.
    """

    text: str
    consumed: int
    truncated: bool


def bounded_text(content: object, most: int) -> Bounded:
    """Read a content up to a number of source characters.

    Args:
        content: as in `content_text`.
        most: UTF-16 units, at least 0. Nothing behind them is looked at.

    >>> bounded_text([{"type": "text", "text": "ab"}, {"type": "text", "text": "cdef"}], 3)
    Bounded(text='ab', consumed=3, truncated=True)
    """
    parts: list[str] = []
    left = most
    for number, text in enumerate(_texts(content)):
        piece = f" {text}" if number else text
        length = utf16_length(piece)
        if length > left:
            parts.append(first_units(piece, left))
            return Bounded(trim("".join(parts)), most, truncated=True)
        parts.append(piece)
        left -= length
    return Bounded(trim("".join(parts)), most - left, truncated=False)


def message_of(entry: Entry) -> Entry | None:
    """Give the message of an entry; None where it holds none."""
    message = entry.get("message")
    if entry.get("type") != "message" or not isinstance(message, dict):
        return None
    return cast("Entry", message)


def _has_text(content: object) -> bool:
    return any(_texts(content))


def skip_reason(entry: Entry) -> str | None:
    """Say why an entry is no good point to come back to; None if it is one.

    >>> skip_reason({"type": "message", "message": {"role": "assistant", "content": []}})
    'empty_assistant'
    """
    message = message_of(entry)
    if message is None:
        return "non_message"
    role, content = message.get("role"), message.get("content")
    if isinstance(role, str) and role in _SKIPPED:
        return _SKIPPED[role]
    if _has_text(content):
        return None
    if role == "user":
        return "empty_user"
    if role != "assistant":
        return None
    names = [call.get("name") for call in tool_calls(message)]
    if not names:
        return "empty_assistant"
    own = all(isinstance(name, str) and name.startswith(OWN_TOOLS) for name in names)
    return "internal_tool_only_assistant" if own else None


def role_label(entry: Entry) -> str | None:
    """Name the role of an entry's message in a word; None where it holds none.

    >>> role_label({"type": "message", "message": {"role": "toolResult", "toolName": "read"}})
    'TOOL:read'
    """
    message = message_of(entry)
    role = None if message is None else message.get("role")
    if message is None or not isinstance(role, str):
        return None
    if role == "toolResult":
        name = message.get("toolName")
        return f"TOOL:{name}" if isinstance(name, str) else "TOOL"
    return _ROLES.get(role, role.upper())


def entry_text(entry: Entry) -> str:
    """Give the text of an entry: a summary, or the texts of its message."""
    if entry.get("type") in _SUMMARIES:
        return content_text(entry.get("summary"))
    message = message_of(entry)
    return "" if message is None else content_text(message.get("content"))


def snippet(entry: Entry, most: int = _SNIPPET) -> str:
    r"""Give one line about an entry.

    Args:
        entry: any.
        most: UTF-16 units of its text; more become three dots.

    >>> snippet({"type": "branch_summary", "summary": "what\n  was done"}, 8)
    'what was...'
    """
    line = _SPACES.sub(" ", entry_text(entry))
    return line if utf16_length(line) <= most else f"{first_units(line, most)}..."


@frozen
class Skip:
    """Say which entry was passed over and why; the role is None where it has none."""

    entry: Any
    reason: str
    role: str | None


@frozen
class Meaningful:
    """Hold the newest entry that is a good point to come back to, and what was passed over.

    Args:
        entry: None if there is none.
        skipped: newest first.
    """

    entry: Entry | None
    skipped: tuple[Skip, ...]


def last_meaningful(path: Sequence[Entry]) -> Meaningful:
    """Look for the newest entry that is a good point to come back to.

    >>> last_meaningful([{"type": "label", "id": "l"}])
    Meaningful(entry=None, skipped=(Skip(entry='l', reason='non_message', role=None),))
    """
    skipped: list[Skip] = []
    for entry in reversed(path):
        reason = skip_reason(entry)
        if reason is None:
            return Meaningful(entry, tuple(skipped))
        skipped.append(Skip(entry.get("id"), reason, role_label(entry)))
    return Meaningful(None, tuple(skipped))
