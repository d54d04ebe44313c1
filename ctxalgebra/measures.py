"""Measures that tell code, prose, JSON, logs, CJK and base64 apart without a tokenizer.

A text is taken apart with a few patterns, each linear in its length, and what they find is
weighed: words and their letters, numbers, punctuation, lines, indentation, the characters of
scripts that are not Latin, and runs that are no words at all (base64, hashes). The weights are
hundredths of a token, fitted once to real tokenizers on source code, documentation, JSON, logs,
translations and encoded bytes, half of which was held back; `benchmarks/measures.py` tells how far
they are off. A measure never changes: better weights get a new name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import regex

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_callable, mistyped
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import IMAGE_CHARACTERS, Image, Message, Text, Thinking, ToolCall
from ctxalgebra.model.view import Measure
from ctxalgebra.tokens import ceil_div

__all__ = ["claude_v1", "deepseek_v1", "measure_of", "o200k_v1", "qwen_v1"]

IMAGE_TOKENS = ceil_div(IMAGE_CHARACTERS, 4)
"""What an image counts for, whatever its size; as `chars4` has it."""


class _Weights(NamedTuple):
    """Weigh what is found in a text, in hundredths of a token each."""

    dense: int  # characters of base64 and the like
    hexadecimal: int  # characters of hashes in one case
    words: int  # pieces of one case, a capital in front
    letters: int
    numbers: int  # groups of up to three digits
    digits: int
    marks: int  # runs of what is neither letter, digit nor space
    signs: int  # characters of these
    lines: int  # runs of line ends
    gaps: int  # runs of two or more blanks
    han: int
    kana: int
    runs: int  # runs of these two
    hangul: int  # characters
    eojeol: int  # runs of Hangul
    other: int  # all other characters beyond ASCII


_RUN = regex.compile(r"[A-Za-z0-9+/_-]{24,}+={0,2}")
_TURN = regex.compile(r"[a-z][A-Z0-9]|[A-Z][a-z0-9]|[0-9][A-Za-z]")
_WORD = regex.compile(r"[A-Z]?[a-z]++|[A-Z]++")
_NUMBER = regex.compile(r"[0-9]{1,3}+")
_MARK = regex.compile(r"[^\s\p{L}\p{N}]++")
_ASCII_MARK = regex.compile(r"[^\sA-Za-z0-9]++")  # the same, faster, where all is ASCII
_LINE = regex.compile(r"[\r\n]++(?:[ \t]*+[\r\n]++)*+")
_GAP = regex.compile(r"[ \t]{2,}+")
_HAN = regex.compile(r"\p{Han}")
_KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}]")
_CJK = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]++")
_HANGUL = regex.compile(r"\p{Hangul}++")
_OTHER = regex.compile(r"[^\p{ASCII}\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")


def _hundredths(weights: _Weights, text: str) -> int:
    """Weigh a text."""
    dense = hexadecimal = 0
    plain: list[str] = []
    start = 0
    for found in _RUN.finditer(text):
        run = found[0]
        # Letters and digits take turns too often for words.
        if 5 * len(_TURN.findall(run)) < len(run):
            continue
        if run.islower() or run.isupper():
            hexadecimal += len(run)
        else:
            dense += len(run)
        plain += (text[start : found.start()], " ")
        start = found.end()
    rest = "".join((*plain, text[start:])) if start else text
    plainly = rest.isascii()
    words, numbers = _WORD.findall(rest), _NUMBER.findall(rest)
    marks = (_ASCII_MARK if plainly else _MARK).findall(rest)
    total = (
        weights.dense * dense
        + weights.hexadecimal * hexadecimal
        + weights.words * len(words)
        + weights.letters * sum(map(len, words))
        + weights.numbers * len(numbers)
        + weights.digits * sum(map(len, numbers))
        + weights.marks * len(marks)
        + weights.signs * sum(map(len, marks))
        + weights.lines * len(_LINE.findall(rest))
        + weights.gaps * len(_GAP.findall(rest))
    )
    if plainly:
        return total
    hangul = _HANGUL.findall(rest)
    return (
        total
        + weights.han * len(_HAN.findall(rest))
        + weights.kana * len(_KANA.findall(rest))
        + weights.runs * len(_CJK.findall(rest))
        + weights.hangul * sum(map(len, hangul))
        + weights.eojeol * len(hangul)
        + weights.other * len(_OTHER.findall(rest))
    )


def _texts(value: Message | Head) -> Iterator[str]:
    """Give what the model reads, text by text; signatures and ids are not read."""
    if isinstance(value, Head):
        yield value.system
        for tool in value.tools:
            yield from (tool.name, tool.description, tool.schema)
        return
    for part in value.parts:
        if isinstance(part, Text | Thinking):
            yield part.text
        elif isinstance(part, ToolCall):
            yield from (part.name, part.arguments)
        elif not isinstance(part, Image):
            yield part.data


def _images(value: Message | Head) -> int:
    return 0 if isinstance(value, Head) else sum(type(part) is Image for part in value.parts)


def _check(value: object) -> None:
    if not isinstance(value, Message | Head):
        raise mistyped(value, "a message or a head", "value")


def _weigh(weights: _Weights, value: Message | Head) -> int:
    _check(value)
    total = sum(_hundredths(weights, text) for text in _texts(value))
    return ceil_div(total, 100) + IMAGE_TOKENS * _images(value)


_O200K = _Weights(68, 71, 50, 13, 145, 0, 63, 5, 18, 112, 55, 67, 141, 0, 216, 77)
_CLAUDE = _Weights(79, 62, 110, 3, 124, 0, 110, 3, 99, 2, 106, 109, 0, 90, 194, 187)
_DEEPSEEK = _Weights(69, 66, 52, 14, 138, 0, 74, 5, 30, 87, 29, 59, 203, 13, 222, 47)
_QWEN = _Weights(74, 97, 48, 13, 80, 84, 61, 5, 24, 117, 28, 55, 235, 18, 214, 62)


def o200k_v1(value: Message | Head) -> int:
    """Estimate tokens of the encoding `o200k_base` (OpenAI's models since GPT-4o).

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import user
    >>> o200k_v1(user("The quick brown fox jumps over the lazy dog."))
    10
    """
    return _weigh(_O200K, value)


def claude_v1(value: Message | Head) -> int:
    """Estimate tokens of Claude models since version 4.

    No tokenizer of theirs is published: the weights of an older one, for Claude 2, are scaled to
    what the provider reported for tool results in one half of a real session; in the other half
    they are off by 5 % at the median.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import user
    >>> claude_v1(user("The quick brown fox jumps over the lazy dog."))
    13
    """
    return _weigh(_CLAUDE, value)


def deepseek_v1(value: Message | Head) -> int:
    """Estimate tokens of DeepSeek models.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import user
    >>> deepseek_v1(user("The quick brown fox jumps over the lazy dog."))
    11
    """
    return _weigh(_DEEPSEEK, value)


def qwen_v1(value: Message | Head) -> int:
    """Estimate tokens of Qwen models, which count each digit.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import user
    >>> qwen_v1(user("The quick brown fox jumps over the lazy dog."))
    10
    """
    return _weigh(_QWEN, value)


@lru_cache(maxsize=64)
def _measure(count: Callable[[str], int]) -> Measure:
    check_callable(count, "count")

    @lru_cache(maxsize=4096)
    def measure(value: Message | Head) -> int:
        total = IMAGE_TOKENS * _images(value)
        for text in _texts(value):
            tokens = count(text) if text else 0
            if type(tokens) is not int or tokens < 0:
                raise InvalidArgument(
                    "wrong-type", "a count of tokens is an integer", field="count"
                )
            total += tokens
        return total

    def measured(value: Message | Head) -> int:
        _check(value)
        return measure(value)

    return measured


def measure_of(count: Callable[[str], int]) -> Measure:
    """Make a measure of a real tokenizer, or of anything that counts the tokens of a text.

    The same function gives the same measure. Each message is counted once, as long as it is among
    the last 4,096.

    Args:
        count: tokens of a text; pure.

    Raises:
        InvalidArgument: `wrong-type`, here, or in the measure when the count is no integer.

    >>> from ctxalgebra import user
    >>> measure_of(lambda text: len(text.split()))(user("three short words"))
    3
    """
    try:
        return _measure(count)
    except TypeError:  # it is remembered by the function
        raise mistyped(count, "a function that can be hashed", "count") from None
