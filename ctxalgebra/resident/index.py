"""The index of discovery: which capabilities have a word, and how much that weighs.

Theory of operation
-------------------
What a word finds is a lane: a byte a capability, its weight. Lanes are added as one long integer
each, so a word that all capabilities have costs little more than a rare one, and nothing has to be
guessed or left out; a postings list stands only for what is rare. A word counts in full where it
stands as it is, a little less with another ending, and half where it only begins a word.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate, groupby
from math import log2
from types import MappingProxyType
from typing import Final, NamedTuple

from attrs import field, frozen

from ctxalgebra.model.checks import check_fields, check_items
from ctxalgebra.model.head import Tool
from ctxalgebra.resident.words import LONGEST, stem, words_of

__all__ = [
    "FULL",
    "SHORTEST_BEGIN",
    "Capability",
    "Hits",
    "Index",
    "Terms",
    "capabilities",
    "hits_of",
    "indexed",
    "number_of",
]

_NAME, _KEYWORD, _TEXT = 5, 4, 3
_EXACT, _STEM, _BEGIN = 20, 19, 10
SHORTEST_BEGIN: Final = 4
"""How many characters of a word count as its beginning, at least."""

_DENSE, _LEAST = 16, 32
FULL: Final = _TEXT * _EXACT
"""What a word weighs that stands in a description as it is."""

# A byte of a lane before it is a weight: in its low bits how a word is begun, the best one being
# what all of them together give; above, where its stem stands, and 24 more for the word itself.
_BEGUN: Mapping[int, int] = MappingProxyType({_TEXT: 1, _KEYWORD: 3, _NAME: 7})
_OWN: Mapping[int, int] = MappingProxyType({_TEXT: 8, _KEYWORD: 16, _NAME: 24})
_ITSELF: Final = 24


def _values() -> bytes:
    by_code = {code: weight * _BEGIN for weight, code in _BEGUN.items()}
    for weight, code in _OWN.items():
        for begun in range(8):
            by_code[code + begun] = weight * _STEM
            by_code[code + _ITSELF + begun] = weight * _EXACT
    return bytes(by_code.get(code, 0) for code in range(256))


_VALUES: Final = _values()


@frozen
class Capability:
    """Describe what can be found.

    Args:
        name: as it is called.
        description: what it is for.
        kind: `tool`, `skill`, or any other word.
        keywords: further words.
        schema: JSON Schema of a tool's parameters; the ranking `toolpolicy` weighs it.
    """

    name: str
    description: str = ""
    kind: str = "tool"
    keywords: tuple[str, ...] = ()
    schema: str = field(default="", repr=False)

    def __attrs_post_init__(self) -> None:
        check_fields(self, name=str, description=str, kind=str, schema=str)
        check_items(self.keywords, str, "keywords")


def capabilities(tools: Iterable[Tool]) -> tuple[Capability, ...]:
    """Take tools as capabilities.

    >>> capabilities([Tool("web", "Search")])[0].kind
    'tool'
    """
    return tuple(Capability(t.name, t.description, schema=t.schema) for t in tools)


class _Posting(NamedTuple):
    """Who has a stem: place, weight, and the words that it stands for there."""

    at: int
    weight: int
    words: frozenset[str]


class _Dense(NamedTuple):
    """The postings of a stem that many have, as lanes of codes: begun, its own, and by word."""

    begun: int
    own: int
    words: Mapping[str, int]


def _gather(item: Capability) -> tuple[dict[str, tuple[int, set[str]]], frozenset[str]]:
    """List the stems of a capability with the best weight of each, and those of its name."""
    found: dict[str, tuple[int, set[str]]] = {}
    own: set[str] = set()
    fields = ((_NAME, (item.name,)), (_KEYWORD, item.keywords), (_TEXT, (item.description,)))
    for weight, texts in fields:
        for text in texts:
            runs = words_of(text)
            for whole, parts in runs:
                for word in {whole, *parts}:
                    key = stem(word)
                    known = found.setdefault(key, (weight, set()))
                    known[1].add(word)
                if weight == _NAME:
                    own.update(map(stem, parts))
            if weight != _TEXT and len(runs) > 1:
                # `web_search` is also found as `websearch`.
                joined = "".join(whole for whole, _ in runs)
                found.setdefault(stem(joined), (weight, set()))[1].add(joined)
    return found, frozenset(own)


def number_of(lane: bytes | bytearray) -> int:
    """Give a lane as one integer, so that lanes can be added."""
    return int.from_bytes(lane, "little")


def _dense(having: tuple[_Posting, ...], total: int) -> _Dense:
    begun, own = bytearray(total), bytearray(total)
    words: dict[str, bytearray] = {}
    for at, weight, spelled in having:
        begun[at], own[at] = _BEGUN[weight], _OWN[weight]
        for word in spelled:
            words.setdefault(word, bytearray(total))[at] = _ITSELF
    by_word = {word: number_of(lane) for word, lane in words.items()}
    return _Dense(number_of(begun), number_of(own), by_word)


def _stretches(
    ordered: tuple[str, ...], sizes: tuple[int, ...], many: int
) -> Iterator[tuple[int, int]]:
    """Give the stretches of stems with one beginning that have many postings together."""
    spans = [(0, len(ordered))]
    for length in range(SHORTEST_BEGIN, LONGEST + 1):
        parted: list[tuple[int, int]] = []
        for first, last in spans:
            end = first
            for begin, same in groupby(key[:length] for key in ordered[first:last]):
                start, end = end, end + sum(1 for _ in same)
                if len(begin) == length and sizes[end] - sizes[start] > many:
                    parted.append((start, end))
        spans = parted
        yield from spans


class _Stems(NamedTuple):
    """Postings by stem, as lists and where they are long as lanes."""

    listed: Mapping[str, tuple[_Posting, ...]]
    dense: Mapping[str, _Dense]

    def begun(self, keys: Iterable[str], total: int) -> int:
        """Give who has one of some stems, as the code of a word that is begun."""
        lane, many = bytearray(total), 0
        for key in keys:
            if key in self.dense:
                many |= self.dense[key].begun
            else:
                for at, weight, _ in self.listed[key]:
                    lane[at] |= _BEGUN[weight]
        return many | number_of(lane)


class Terms(NamedTuple):
    """What was indexed.

    Fields: postings of `stems`, these in order (`ordered`), and for stretches of them that many
    have, who has one of them (`begun`); of each capability the stems of its
    `names` and `all` of its stems in order; and who is `called` by a stem that is the rarest one of
    its name.
    """

    stems: _Stems
    ordered: tuple[str, ...]
    begun: Mapping[tuple[int, int], int]
    names: tuple[frozenset[str], ...]
    all: tuple[tuple[str, ...], ...]
    called: Mapping[str, tuple[int, ...]]


def _index(items: tuple[Capability, ...]) -> Terms:
    postings: dict[str, list[_Posting]] = {}
    names: list[frozenset[str]] = []
    stems: list[tuple[str, ...]] = []
    for at, item in enumerate(items):
        found, own = _gather(item)
        names.append(own)
        stems.append(tuple(sorted(found)))
        for key, (weight, words) in found.items():
            postings.setdefault(key, []).append(_Posting(at, weight, frozenset(words)))
    listed = {key: tuple(having) for key, having in postings.items()}
    total = len(items)
    many = max(total // _DENSE, _LEAST)
    dense = {key: _dense(each, total) for key, each in listed.items() if len(each) > many}
    called: dict[str, list[int]] = {}
    for at, own in enumerate(names):
        if own:
            rarest = min(own, key=lambda key: (len(listed[key]), key))
            called.setdefault(rarest, []).append(at)
    ordered = tuple(sorted(listed))
    sizes = (0, *accumulate(len(listed[key]) for key in ordered))
    both = _Stems(listed, dense)
    spans = dict.fromkeys(_stretches(ordered, sizes, many))
    return Terms(
        both,
        ordered,
        {span: both.begun(ordered[slice(*span)], total) for span in spans},
        tuple(names),
        tuple(stems),
        {key: tuple(places) for key, places in called.items()},
    )


@frozen
class Index:
    """Hold capabilities in order, ready to be searched; what was indexed is no part of equality.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> len(Index((Capability("web"),)).items)
    1
    """

    items: tuple[Capability, ...]
    terms: Terms = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        check_items(self.items, Capability, "items")
        object.__setattr__(self, "terms", _index(self.items))


@lru_cache(maxsize=4)
def indexed(tools: tuple[Tool, ...], others: tuple[Capability, ...] = ()) -> Index:
    """Index tools and what else can be found, once for the same ones: the last four are kept.

    Args:
        tools: in order.
        others: as skills; they stand behind.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> indexed((Tool("web"),)) is indexed((Tool("web"),))
    True
    """
    return Index((*capabilities(tools), *others))


def _rarity(total: int, having: int) -> int:
    return max(1, round(100 * log2(1 + (total - having + 0.5) / (having + 0.5))))


def _begun(index: Index, word: str) -> int:
    """Give who has a word that begins with this one."""
    terms, total = index.terms, len(index.items)
    if len(word) < SHORTEST_BEGIN:
        return 0
    first = bisect_left(terms.ordered, word)
    last = bisect_left(terms.ordered, f"{word}\U0010ffff")
    known = terms.begun.get((first, last))
    return terms.stems.begun(terms.ordered[first:last], total) if known is None else known


class Hits(NamedTuple):
    """Who has a word: a lane of weights, how many they are, and how rare that is."""

    lane: bytes
    having: int
    rare: int


def hits_of(index: Index, word: str) -> Hits:
    """Weigh the capabilities that have a word."""
    key, total, stems = stem(word), len(index.items), index.terms.stems
    # Where a stem stands itself, what it begins changes nothing.
    codes = _begun(index, word)
    if key in stems.dense:
        codes |= stems.dense[key].own + stems.dense[key].words.get(word, 0)
    else:
        own = bytearray(total)
        for at, weight, words in stems.listed.get(key, ()):
            own[at] = _OWN[weight] + _ITSELF * (word in words)
        codes |= number_of(own)
    weights = codes.to_bytes(total, "little").translate(_VALUES)
    count = total - weights.count(0)
    return Hits(weights, count, _rarity(total, count))
