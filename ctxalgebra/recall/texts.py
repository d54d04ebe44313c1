r"""Texts: what they are measured in, their beginning on one line, and the words in them.

Words are in lower case: a single Han character, or the longest run of other letters, digits and
``_ . / : -`` without those last four at its ends (paging specification, section 9; there a run
goes on through Han characters, so that they can't be found behind a letter). So are the parts of
such a run, or the file in front of a line number could not be found; and characters that mean the
same are one (NFKC). All of it takes time linear in the text. JSON is read with its escapes undone,
so that a word behind a line break inside an argument is a word (fault W7 of the original: its
escape was glued to it).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from json import encoder
from unicodedata import normalize

import regex
from attrs import frozen

__all__ = [
    "CODE_POINTS",
    "Units",
    "count_words",
    "folded",
    "parts",
    "preview",
    "quote",
    "read_json",
    "safe",
    "unescaped",
    "words",
]

PREVIEW = 160
"""How long the beginning of an item is, in units."""


@frozen
class Units:
    """Say what texts are measured in and cut at.

    Args:
        name: for people.
        size: gives the length of a text.
        cut: `(text, start, length)` gives where what stands there begins, and it: whole characters
            only, at least one, from the character on that `start` lies in.
        runs: finds words, with their edges, in folded text that is not ASCII.
        fold: makes texts alike that differ in case.
        parted: the parts of words are words, too.
    """

    name: str
    size: Callable[[str], int]
    cut: Callable[[str, int, int], tuple[int, str]]
    runs: regex.Pattern[str]
    fold: Callable[[str], str] = str.lower
    parted: bool = False


_HEAP = regex.compile(r"(\p{M}{16})\p{M}++")
"""No script needs more marks on a letter, and putting them in order takes their square."""


def folded(text: str) -> str:
    """Write in lower case, and in one way, what can be written in several.

    >>> folded("\ufb01le \u0045\u0301te\u0301")
    'file été'
    """
    if text.isascii():
        return text.lower()
    return normalize("NFKC", normalize("NFKC", _HEAP.sub(r"\1", text)).casefold())


_RUNS = regex.compile(r"(?V1)\p{Script=Han}|[[\p{L}\p{N}_./:\-]--\p{Script=Han}]+")

CODE_POINTS = Units(
    "code points",
    len,
    lambda text, start, length: (start, text[start : start + length]),
    _RUNS,
    folded,
    parted=True,
)
"""Our own units: a page never ends inside a character (fault W8 of the original)."""


_LONE = re.compile("[\ud800-\udfff]")


def safe(text: str) -> str:
    r"""Write lone surrogates as escapes: the call of a model may hold them, a message may not.

    >>> safe("a\ud800")
    'a\\ud800'
    """
    return text if text.isascii() else _LONE.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def quote(text: str) -> str:
    r"""Write a text as JSON, without needless escapes.

    >>> print(quote('"é"'))
    "\"é\""
    """
    return safe(encoder.encode_basestring(text))


def _refuse(token: str) -> None:
    raise ValueError(token)


def read_json(text: str) -> object:
    """Read JSON that a model wrote, numbers aside: they are None, however long.

    Raises:
        ValueError: it is none, or is nested too deep.

    >>> read_json('{"a": ["b", 1e400]}')
    {'a': ['b', None]}
    """
    try:
        value: object = json.loads(
            text, parse_constant=_refuse, parse_int=_nothing, parse_float=_nothing
        )
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value


def _nothing(_: str) -> None:
    return None


_HEX = "[0-9a-fA-F]"
_ESCAPE = re.compile(
    rf"\\(?:u([dD][89abAB]{_HEX}{{2}})\\u([dD][c-fC-F]{_HEX}{{2}})|u({_HEX}{{4}})|(.))", re.DOTALL
)


def _plain(found: re.Match[str]) -> str:
    high, low, unit, char = found.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10 | int(low, 16) & 0x3FF))
    if unit:
        return chr(int(unit, 16))
    return " " if char in "bfnrt" else char


def unescaped(text: str) -> str:
    r"""Undo the escapes in a JSON text, for searching: what controls a line becomes a blank.

    >>> unescaped('{"a":"one\\ntwo"}')
    '{"a":"one two"}'
    """
    return _ESCAPE.sub(_plain, text) if "\\" in text else text


_EDGES = "./:-"
# The same for ASCII, without the edges, and in half the time.
_ASCII_WORDS = re.compile(r"[a-z0-9_]++(?:[./:\-]++[a-z0-9_]++)*+")
_SOLE = "[^ :./-]++"
_CUTS = tuple(
    (marks, re.compile(pattern))
    for marks, pattern in (
        (":", rf"{_SOLE}(?:[./-]++{_SOLE})*+"),
        ("/", rf"{_SOLE}(?:[.-]++{_SOLE})*+"),
        (".", _SOLE),
        ("-", _SOLE),
    )
)


def parts(words: Sequence[str]) -> list[str]:
    """Give the parts of words: between colons, between slashes, too, and between all edges.

    >>> parts(["src/hay.py:7"])
    ['src/hay.py', '7', 'src', 'hay.py', '7', 'src', 'hay', 'py', '7']
    """
    found: list[str] = []
    rest = words
    for mark, pattern in _CUTS:
        # A word with points and dashes is cut at both at once.
        having = [word for word in rest if mark in word]
        if having:
            found += pattern.findall(" ".join(having))
            if mark == ".":
                rest = [word for word in rest if mark not in word]
    return found


def _found(text: str, units: Units) -> tuple[list[str], bool]:
    """Find the words of a text as they stand; says whether they have edges."""
    text = units.fold(text)
    plain = text.isascii()
    return (_ASCII_WORDS if plain else units.runs).findall(text), not plain


def words(text: str, units: Units = CODE_POINTS) -> list[str]:
    """List the words of a text, in order, each with its parts behind it.

    >>> words("Read src/app.ts: a分页!")
    ['read', 'src/app.ts', 'src', 'app.ts', 'src', 'app', 'ts', 'a', '分', '页']
    """
    found, rough = _found(text, units)
    if rough:
        found = [word for run in found if (word := run.strip(_EDGES))]
    if not units.parted:
        return found
    return [each for word in found for each in (word, *parts([word]))]


def count_words(texts: Iterable[tuple[str, int]], units: Units = CODE_POINTS) -> Counter[str]:
    """Count the words of texts, each text so many times over.

    >>> count_words([("a b", 1), ("b.", 2)])
    Counter({'b': 3, 'a': 1})
    """
    counts: Counter[str] = Counter()
    rough: Counter[str] = Counter()
    for text, times in texts:
        found, edged = _found(text, units)
        for _ in range(times):
            (rough if edged else counts).update(found)
    # Edges are taken off what is there once, not off each of its places; so with parts.
    for run, number in rough.items():
        word = run.strip(_EDGES)
        if word:
            counts[word] += number
    if units.parted:
        often: dict[int, list[str]] = {}
        for word, number in counts.items():
            if not word.isalnum():
                often.setdefault(number, []).append(word)
        for number, same in often.items():
            if number == 1:
                counts.update(parts(same))
            else:
                for part in parts(same):
                    counts[part] += number
    return counts


_SPACE = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_SOLID = re.compile(f"[^{_SPACE}]+")


def preview(texts: Iterable[str], units: Units) -> str:
    r"""Give the beginning of texts on one line; reads no further than it has to.

    >>> preview(["a\n b", "c"], CODE_POINTS)
    'a b c'
    """
    solid: list[str] = []
    size = 0
    for text in texts:
        for found in _SOLID.finditer(text):
            start, end = found.span()
            solid.append(text[start : min(end, start + PREVIEW)])
            size += len(solid[-1])
            if size >= PREVIEW:
                break
        if size >= PREVIEW:
            break
    return units.cut(" ".join(solid), 0, PREVIEW)[1]
