"""How the original working memory takes texts out of content, shortens them and writes numbers.

Lengths are UTF-16 units (specification of the working memory, sections 3 and 9). What a text
weighs is `ctxalgebra.codecs.pi_weights.text_tokens`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import floor
from typing import Any, cast

from ctxalgebra.codecs.pi_weights import host_tokens, json_text, text_tokens, utf16_length
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.utf16 import cut

__all__ = ["extract_text", "message_tokens", "short_number", "shorten"]

_LARGEST_FIXED = 10**21
"""From here on the host's language writes numbers with an exponent."""


def extract_text(content: object) -> str:
    r"""Give the text of content: itself, or the texts of its blocks, a line each.

    >>> extract_text([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text"}])
    'a'
    """
    if isinstance(content, str):
        return content
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    found = [cast("dict[str, object]", block) for block in blocks if isinstance(block, dict)]
    texts = [block.get("text") for block in found if block.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def message_tokens(message: Mapping[str, Any]) -> int:
    """Weigh a message of the host; its texts alone where the host's own function fails.

    >>> message_tokens({"role": "user", "content": 5})
    0
    """
    try:
        return host_tokens(message)
    except InvalidArgument:
        return text_tokens(extract_text(message.get("content")))


def shorten(text: str, most: float) -> str:
    r"""Cut a text behind `most` units, and say how many went; the result is longer than that.

    A pair may be parted, as the original does.

    Args:
        text: any text.
        most: units, from 0 up.

    >>> shorten("abcdefghijk", 10)
    'abcdefghij\n…[truncated 1 chars]'
    """
    gone = utf16_length(text) - most
    if gone <= 0:
        return text
    return f"{cut(text, 0, int(most))}\n…[truncated {json_text(gone)} chars]"


def _rounded(value: Fraction) -> int:
    return floor(value + Fraction(1, 2))


def short_number(value: float) -> str:
    """Write a number of tokens: thousands with one decimal, smaller ones whole, ties up.

    Args:
        value: a finite number.

    Raises:
        InvalidArgument: `invalid-argument`, an integer that is too large for the host's numbers.

    >>> short_number(1250), short_number(999.6), short_number(0.5), short_number(-5)
    ('1.3k', '1000', '1', '-5')
    """
    try:
        number = float(value)
    except OverflowError:
        text = "the number is too large"
        raise InvalidArgument("invalid-argument", text, field="value") from None
    if number < 1000:
        return json_text(_rounded(Fraction(number)))
    thousands = number / 1000
    if thousands >= _LARGEST_FIXED:
        return f"{json_text(thousands)}k"
    tenths = _rounded(10 * Fraction(thousands))
    return f"{tenths // 10}.{tenths % 10}k"
