"""Discovery: one index over tools, skills and whatever else, and several rankings of it.

Theory of operation
-------------------
`rank` asks a ranking by name. `default` is ours: a query's words weigh by how few capabilities have
them, most in a name, less in keywords, least in a description, and more where they make up all
of a name. The sum counts by the share of the query that was found at all; how long a description
is, or how often a word stands in it, counts for nothing.
A word counts in full where it stands as it is, a little less with another ending, and half where
it only begins a word. Equal scores stand in the order of the index. The rankings of the
originals stand beside it under their names, each with its own faults.

Words that a quarter of the index has only weigh among what the others found.

What a word finds is a lane: a byte a capability, its weight. Lanes are added as one long integer
each, so a word that all capabilities have costs little more than a rare one, and nothing has to be
guessed or left out; a postings list stands only for what is rare.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate, compress, groupby
from math import log2
from operator import mul
from struct import unpack
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from attrs import field, frozen

from ctxalgebra.compat.memory_capabilities import score as original_score
from ctxalgebra.compat.skills_ranking import score_skill
from ctxalgebra.compat.toolpolicy_search import find_tools
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_fields, check_items, check_text, check_type, mistyped
from ctxalgebra.model.head import Tool
from ctxalgebra.resident.words import LONGEST, STOP, stem, words_of
from ctxalgebra.skills.order import name_order
from ctxalgebra.tokens import check_positive

__all__ = [
    "RANKINGS",
    "Capability",
    "Found",
    "Index",
    "Ranking",
    "capabilities",
    "indexed",
    "rank",
]

_NAME, _KEYWORD, _TEXT = 5, 4, 3
_EXACT, _STEM, _BEGIN = 20, 19, 10
_SHORTEST_BEGIN = 4
_QUERY, _WORDS = 1_000, 32
_DENSE, _LEAST = 16, 32
_FULL: Final = _TEXT * _EXACT

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
_AT_MOST_FULL: Final = bytes(min(weight, _FULL) for weight in range(256))


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


def _number(lane: bytes | bytearray) -> int:
    return int.from_bytes(lane, "little")


def _dense(having: tuple[_Posting, ...], total: int) -> _Dense:
    begun, own = bytearray(total), bytearray(total)
    words: dict[str, bytearray] = {}
    for at, weight, spelled in having:
        begun[at], own[at] = _BEGUN[weight], _OWN[weight]
        for word in spelled:
            words.setdefault(word, bytearray(total))[at] = _ITSELF
    by_word = {word: _number(lane) for word, lane in words.items()}
    return _Dense(_number(begun), _number(own), by_word)


def _stretches(
    ordered: tuple[str, ...], sizes: tuple[int, ...], many: int
) -> Iterator[tuple[int, int]]:
    """Give the stretches of stems with one beginning that have many postings together."""
    spans = [(0, len(ordered))]
    for length in range(_SHORTEST_BEGIN, LONGEST + 1):
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
        return many | _number(lane)


class _Terms(NamedTuple):
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


def _index(items: tuple[Capability, ...]) -> _Terms:
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
    return _Terms(
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
    terms: _Terms = field(init=False, eq=False, repr=False)

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


@frozen
class Found:
    """Hold what was found.

    Args:
        capability: what.
        score: how well it matches, by its ranking's measure.
        words: words of the query that it has, where the ranking tells them.
    """

    capability: Capability
    score: float
    words: tuple[str, ...] = ()


Passes = Callable[[int], bool]
"""Says whether what stands at a place of the index is looked for at all."""

Ranking = Callable[[Index, str, Passes], Iterable[tuple[int, float]]]
"""Gives the places of what a query finds among those that pass, with their scores, the best first.
What does not pass may be there, too, and is left out then."""


def _wanted(query: str) -> list[tuple[str, tuple[str, ...]]]:
    """List the words of a query that say something; all of them where none does."""
    runs = list(dict.fromkeys(words_of(query)))
    telling = [run for run in runs if run[0] not in STOP]
    return (telling or runs)[:_WORDS]


def _rarity(total: int, having: int) -> int:
    return max(1, round(100 * log2(1 + (total - having + 0.5) / (having + 0.5))))


def _begun(index: Index, word: str) -> int:
    """Give who has a word that begins with this one."""
    terms, total = index.terms, len(index.items)
    if len(word) < _SHORTEST_BEGIN:
        return 0
    first = bisect_left(terms.ordered, word)
    last = bisect_left(terms.ordered, f"{word}\U0010ffff")
    known = terms.begun.get((first, last))
    return terms.stems.begun(terms.ordered[first:last], total) if known is None else known


class _Hits(NamedTuple):
    """Who has a word: a lane of weights, how many they are, and how rare that is."""

    lane: bytes
    having: int
    rare: int


def _hits(index: Index, word: str) -> _Hits:
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
        codes |= _number(own)
    weights = codes.to_bytes(total, "little").translate(_VALUES)
    count = total - weights.count(0)
    return _Hits(weights, count, _rarity(total, count))


def _spread(lane: bytes) -> int:
    """Give each weight eight bytes: itself in the upper half, what it adds to a share below."""
    room = bytearray(8 * len(lane))
    room[0::8] = lane.translate(_AT_MOST_FULL)
    room[4::8] = lane
    return _number(room)


def _sums(total: int, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Give the sums of weights and of shares."""
    both = unpack(f"<{2 * count}I", total.to_bytes(8 * count, "little"))
    return both[1::2], both[0::2]


def _joined(index: Index, run: tuple[str, tuple[str, ...]]) -> _Hits:
    """Weigh a word of a query by itself and by what it is made of, whichever is better."""
    whole, parts = run
    itself = _hits(index, whole)
    if parts == (whole,):
        return itself
    most, summed = itself.rare, 0
    for part, times in Counter(parts).items():
        piece = _hits(index, part)
        most = max(most, piece.rare)
        if piece.having:
            summed += _spread(piece.lane) * (piece.rare * times)
    count = len(index.items)
    weights, _ = _sums(summed, count)
    # What was found at all counts a little.
    shares = {w: max(1, w // (len(parts) * most)) if w else 0 for w in set(weights)}
    merged = bytearray(map(shares.__getitem__, weights))
    for at in compress(range(count), itself.lane):
        merged[at] = max(1, merged[at], itself.lane[at] * itself.rare // most)
    return _Hits(bytes(merged), count - merged.count(0), most)


def _among(lane: bytes, mask: bytes) -> bytes:
    return (_number(lane) & _number(mask)).to_bytes(len(lane), "little")


def _default(index: Index, query: str, passes: Passes) -> Iterable[tuple[int, float]]:
    runs, total = _wanted(query), len(index.items)
    mask = bytes(map(passes, range(total))).translate(b"\0" + b"\xff" * 255)
    weighed: list[_Hits] = []
    for run in runs:
        hits = _joined(index, run)
        if hits.having:
            lane = _among(hits.lane, mask)
            weighed.append(_Hits(lane, total - lane.count(0), hits.rare))
    weighed = sorted((hits for hits in weighed if hits.having), key=lambda hits: hits.having)
    if not weighed:
        return ()
    rarer = [hits for hits in weighed if hits.having <= total // 4] or weighed[:1]
    union = summed = most = 0
    for hits in rarer:
        union |= _number(hits.lane)
    for hits in weighed:
        summed += _spread(hits.lane) * hits.rare
        most += hits.rare
    scores, shares = _sums(summed, total)
    products = list(map(mul, scores, shares))
    for at in _called(index.terms, runs):
        # What is called just so stands before what is called so among other things.
        whole = most * _FULL * len(index.terms.names[at]) // len(runs)
        products[at] += whole * shares[at]
    points = [product // (most * _FULL) for product in products]
    places = compress(range(total), union.to_bytes(total, "little"))
    # Sorting backwards leaves equal ones in their order, too.
    order = sorted(places, key=points.__getitem__, reverse=True)
    return zip(order, map(points.__getitem__, order), strict=True)


def _called(terms: _Terms, runs: list[tuple[str, tuple[str, ...]]]) -> Iterator[int]:
    """Give those all of whose name was asked for."""
    asked = {stem(word) for whole, parts in runs for word in (whole, *parts)}
    for key in asked:
        yield from (at for at in terms.called.get(key, ()) if terms.names[at] <= asked)


def _toolpolicy(index: Index, query: str, _passes: Passes) -> list[tuple[int, float]]:
    places: dict[str, int] = {}
    tools: list[dict[str, object]] = []
    for at, item in enumerate(index.items):
        places.setdefault(item.name, at)
        tool: dict[str, object] = {"name": item.name, "description": item.description}
        if item.schema:
            tool["parameters"] = json.loads(item.schema)
        tools.append(tool)
    names = find_tools(tools, query)
    return [(places[name], float(len(names) - at)) for at, name in enumerate(names)]


def _find_capability(index: Index, query: str, _passes: Passes) -> list[tuple[int, float]]:
    said = [
        original_score(query, f"{item.name} {item.description} {' '.join(item.keywords)}")
        for item in index.items
    ]
    ranked = sorted(range(len(said)), key=lambda at: -said[at])
    return [(at, said[at]) for at in ranked if said[at] > 0]


def _skills(index: Index, query: str, _passes: Passes) -> list[tuple[int, float]]:
    said = [score_skill(item.name, item.description, query) for item in index.items]
    found = [at for at, score in enumerate(said) if score > 0]
    found.sort(key=lambda at: (-said[at], name_order(index.items[at].name), at))
    return [(at, said[at]) for at in found]


RANKINGS: Mapping[str, Ranking] = MappingProxyType(
    {
        "default": _default,
        "toolpolicy": _toolpolicy,
        "find_capability": _find_capability,
        "skills": _skills,
    }
)
"""The rankings by name: ours, and those of the originals."""


def _matched(
    terms: _Terms, at: int, wanted: Iterable[tuple[str, tuple[str, ...]]]
) -> tuple[str, ...]:
    """List the words of a query that a capability has."""
    known = terms.all[at]

    def has(word: str) -> bool:
        for begun, least in ((word, _SHORTEST_BEGIN), (stem(word), 0)):
            place = bisect_left(known, begun)
            near = known[place] if place < len(known) else ""
            if near == begun or (least and len(word) >= least and near.startswith(word)):
                return True
        return False

    return tuple(whole for whole, parts in wanted if any(map(has, (whole, *parts))))


def rank(
    index: Index,
    query: str,
    *,
    ranking: str | Ranking = "default",
    kind: str | None = None,
    left_out: Collection[str] = (),
    most: int = 8,
) -> tuple[Found, ...]:
    """Find capabilities by a description, the best first (a query).

    Args:
        index: where to look.
        query: any text; of a longer one the first 1,000 characters count, and of these
            32 words for the default ranking.
        ranking: a name of `RANKINGS`, or a function like those.
        kind: only this kind.
        left_out: names that are passed over.
        most: how many at most.

    Raises:
        InvalidArgument: `invalid-argument`, there is no such ranking, or `most` is no positive
            integer; `wrong-type`.

    >>> tools = (Capability("read_file", "Read a file"), Capability("run_tests", "Run the tests"))
    >>> [found.capability.name for found in rank(Index(tools), "running a test")]
    ['run_tests']
    >>> rank(Index(tools), "net") == rank(Index((Capability("internet"),)), "net") == ()
    True
    """
    check_type(index, Index, "index")
    check_text(query, "query")
    check_positive(most=most)
    if kind is not None:
        check_type(kind, str, "kind")
    hidden = _names(left_out)
    query = query[:_QUERY]
    wanted: list[tuple[str, tuple[str, ...]]] = []
    if isinstance(ranking, str):
        if ranking not in RANKINGS:
            text = f"a ranking is one of {', '.join(RANKINGS)}"
            raise InvalidArgument("invalid-argument", text, field="ranking")
        wanted = _wanted(query) if ranking == "default" else []
        ranking = RANKINGS[ranking]
    if kind is None:
        passing = [item.name not in hidden for item in index.items]
    else:
        passing = [item.kind == kind and item.name not in hidden for item in index.items]
    found: list[Found] = []
    for at, score in ranking(index, query, passing.__getitem__):
        if passing[at]:
            found.append(Found(index.items[at], score, _matched(index.terms, at, wanted)))
            if len(found) == most:
                break
    return tuple(found)


def _names(left_out: object) -> frozenset[object]:
    given: Any = left_out
    if isinstance(given, Collection) and not isinstance(given, str):
        with suppress(TypeError):  # a name that can't be one, as a list
            return frozenset(cast("Collection[object]", given))
    raise mistyped(left_out, "names", "left_out")
