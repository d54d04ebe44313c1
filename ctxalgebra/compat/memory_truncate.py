r"""How the host keeps the beginning or the end of a text within lines and bytes.

A text is split at `\n`; a newline at its end makes no line, and goes once anything is cut. Bytes
are those of UTF-8, where half a pair counts three. Only whole lines are kept, except the end of a
last line that is too long by itself (specification of the working memory, section 4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from attrs import frozen

__all__ = ["Truncation", "truncate_head", "truncate_tail"]

Limit = Literal["lines", "bytes"]

_LONE = re.compile("[\ud800-\udfff]")


@frozen
class Truncation:
    """Hold what is left of a text, and what was there.

    Args:
        content: what is left.
        by: the limit that ended it; None where nothing was cut.
        total_lines, total_bytes: of the whole text.
        lines, size: of what is left; its size in bytes.
        partial: the only line left is the end of one.
        first_too_long: nothing is left, since the first line is too long by itself.
    """

    content: str
    by: Limit | None
    total_lines: int
    total_bytes: int
    lines: int
    size: int
    partial: bool = False
    first_too_long: bool = False


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _split(content: str) -> list[str]:
    lines = content.removesuffix("\n").split("\n")
    return lines if content else []


def _taken(lines: Iterable[str], max_lines: float, max_bytes: float) -> list[str]:
    """Take lines as long as they fit."""
    taken: list[str] = []
    size = 0
    for line in lines:
        size += _size(line) + (1 if taken else 0)
        if len(taken) >= max_lines or size > max_bytes:
            break
        taken.append(line)
    return taken


def _limit(taken: int, lines: int, max_lines: float) -> Limit:
    """Say what ended the taking; a newline that went at the end counts as lines."""
    return "bytes" if taken < lines and taken < max_lines else "lines"


def _end_of(line: str, max_bytes: float) -> str:
    """Take the last bytes of a line, from the next character on; half a pair is no character."""
    data = _LONE.sub("\ufffd", line).encode()
    start = max(0, len(data) - int(max_bytes))
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode()


def truncate_tail(content: str, max_lines: float, max_bytes: float) -> Truncation:
    r"""Keep the last lines.

    Args:
        content: any text.
        max_lines, max_bytes: limits, from 0 up.

    >>> truncate_tail("a\nb\nc\n", 2, 100).content
    'b\nc'
    >>> truncate_tail("ééé", 9, 5).content
    'éé'
    """
    lines, total = _split(content), _size(content)
    if len(lines) <= max_lines and total <= max_bytes:
        return Truncation(content, None, len(lines), total, len(lines), total)
    taken = _taken(reversed(lines), max_lines, max_bytes)
    by = _limit(len(taken), len(lines), max_lines)
    partial = by == "bytes" and not taken
    if partial:
        taken = [_end_of(lines[-1], max_bytes)]
        by = "bytes" if max_lines > 1 else "lines"  # one line is all there may be
    text = "\n".join(reversed(taken))
    return Truncation(text, by, len(lines), total, len(taken), _size(text), partial=partial)


def truncate_head(content: str, max_lines: float, max_bytes: float) -> Truncation:
    r"""Keep the first lines.

    Args:
        content: any text.
        max_lines, max_bytes: limits, from 0 up.

    >>> truncate_head("aaaa\nbb\ncc\n", 9, 7).content
    'aaaa\nbb'
    """
    lines, total = _split(content), _size(content)
    if len(lines) <= max_lines and total <= max_bytes:
        return Truncation(content, None, len(lines), total, len(lines), total)
    if lines and _size(lines[0]) > max_bytes:
        return Truncation("", "bytes", len(lines), total, 0, 0, first_too_long=True)
    taken = _taken(lines, max_lines, max_bytes)
    text = "\n".join(taken)
    by = _limit(len(taken), len(lines), max_lines)
    return Truncation(text, by, len(lines), total, len(taken), _size(text))
