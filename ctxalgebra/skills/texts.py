r"""Texts about skills that a model or a person reads: one line, bounded, without controls.

C1 controls and the marks that turn the direction of what follows go too (W38). Lengths are UTF-16
units; no character is cut in half. Source: skills and saver, sections 1, 2 and 11.
"""

from __future__ import annotations

import re
from typing import Final

from ctxalgebra.compaction.signals import units
from ctxalgebra.utf16 import SPACE, cut, trim

__all__ = ["CONTROLS", "DESCRIPTION", "cut_line", "description", "one_line", "quoted"]

DESCRIPTION: Final = 1024
"""The longest description, in units."""

CONTROLS: Final = re.compile("[\x00-\x1f\x7f\u2028\u2029]")
"""What no name holds."""

_GAP = re.compile(f"[\x00-\x1f\x7f-\x9f{SPACE}]+")
_TURN = re.compile("[\u202a-\u202e\u2066-\u2069]+")
_LONE_END = re.compile("[\ud800-\udbff]\\Z")
_XML: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}


def one_line(text: str) -> str:
    r"""Make each run of white space and controls one blank, and trim.

    >>> one_line(" a\n\x00 b\x9b31m\u202ec ")
    'a b 31mc'
    """
    return trim(_GAP.sub(" ", _TURN.sub("", text)))


def head(text: str, most: int) -> str:
    r"""Keep the first units, and no half of a character at the end.

    >>> head("a\U0001f600b", 2)
    'a'
    """
    if len(text) <= most // 2 or units(text) <= most:
        return text
    kept = cut(text, 0, most)
    return _LONE_END.sub("", kept)


def cut_line(text: str, most: int) -> str:
    """Shorten a text to so many units, an ellipsis at its end counted.

    Args:
        text: any.
        most: units, at least 1.

    >>> cut_line("abcdefg hijk", 9), cut_line("abc", 1), cut_line("abc", 3)
    ('abcdefg…', '…', 'abc')
    """
    if units(text) <= most:
        return text
    return head(text, most - 1).rstrip(SPACE) + "…"


def description(value: object) -> str:
    r"""Bring a description into form; what is no text is empty.

    >>> description("a\tb\n c"), description(5)
    ('a b c', '')
    """
    return head(one_line(value), DESCRIPTION) if isinstance(value, str) else ""


def quoted(text: str) -> str:
    """Escape a text for XML.

    >>> quoted("<a & 'b'>")
    '&lt;a &amp; &apos;b&apos;&gt;'
    """
    return "".join(_XML.get(character, character) for character in text)
