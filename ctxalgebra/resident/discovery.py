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

A query costs what its rarer words' postings hold: words that a quarter of the index has only
weigh among what the others found.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from math import log2
from types import MappingProxyType
from typing import NamedTuple

from attrs import field, frozen

from ctxalgebra.compat.memory_capabilities import score as original_score
from ctxalgebra.compat.skills_ranking import score_skill
from ctxalgebra.compat.toolpolicy_search import find_tools
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_fields, check_items, check_text, check_type
from ctxalgebra.model.head import Tool
from ctxalgebra.resident.words import STOP, stem, words_of
from ctxalgebra.skills.order import name_order
from ctxalgebra.tokens import check_positive

__all__ = ["RANKINGS", "Capability", "Found", "Index", "Ranking", "capabilities", "rank"]

_NAME, _KEYWORD, _TEXT = 5, 4, 3
_EXACT, _STEM, _BEGIN = 20, 19, 10
_SHORTEST_BEGIN = 4
_QUERY, _WORDS = 1_000, 32


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


class _Terms(NamedTuple):
    """What was indexed: postings by stem, stems in order, and the stems of each name."""

    postings: Mapping[str, tuple[_Posting, ...]]
    ordered: tuple[str, ...]
    names: tuple[frozenset[str], ...]


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


def _index(items: tuple[Capability, ...]) -> _Terms:
    postings: dict[str, list[_Posting]] = {}
    names: list[frozenset[str]] = []
    for at, item in enumerate(items):
        found, own = _gather(item)
        names.append(own)
        for key, (weight, words) in found.items():
            postings.setdefault(key, []).append(_Posting(at, weight, frozenset(words)))
    listed = {key: tuple(having) for key, having in postings.items()}
    return _Terms(listed, tuple(sorted(listed)), tuple(names))


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

Ranking = Callable[[Index, str, Passes], list[tuple[int, float]]]
"""Gives the places of what a query finds among those that pass, with their scores, the best first.
What does not pass may be there, too, and is left out then."""


def _wanted(query: str) -> list[tuple[str, tuple[str, ...]]]:
    """List the words of a query that say something; all of them where none does."""
    runs = list(dict.fromkeys(words_of(query[:_QUERY])))
    telling = [run for run in runs if run[0] not in STOP]
    return (telling or runs)[:_WORDS]


def _rarity(total: int, having: int) -> int:
    return max(1, round(100 * log2(1 + (total - having + 0.5) / (having + 0.5))))


def _begun(terms: _Terms, word: str, key: str) -> list[str]:
    """List the stems that begin with a word, the stem of the word itself aside."""
    if len(word) < _SHORTEST_BEGIN:
        return []
    first = last = bisect_left(terms.ordered, word)
    while last < len(terms.ordered) and terms.ordered[last].startswith(word):
        last += 1
    return [other for other in terms.ordered[first:last] if other != key]


def _hits(index: Index, word: str) -> tuple[dict[int, int], int]:
    """Weigh the capabilities that have a word, and say how rare it is."""
    terms, key = index.terms, stem(word)
    hits: dict[int, int] = {}
    for other in _begun(terms, word, key):
        for at, weight, _ in terms.postings[other]:
            hits[at] = max(hits.get(at, 0), weight * _BEGIN)
    for at, weight, words in terms.postings.get(key, ()):
        hits[at] = max(hits.get(at, 0), weight * (_EXACT if word in words else _STEM))
    return hits, _rarity(len(index.items), len(hits))


def _joined(index: Index, run: tuple[str, tuple[str, ...]]) -> tuple[dict[int, int], int]:
    """Weigh a word of a query by itself and by what it is made of, whichever is better."""
    whole, parts = run
    hits, rarity = _hits(index, whole)
    if parts == (whole,):
        return hits, rarity
    pieces = [_hits(index, part) for part in parts]
    summed: dict[int, int] = {}
    for piece, rare in pieces:
        for at, weight in piece.items():
            summed[at] = summed.get(at, 0) + weight * rare
    most = max(rarity, *(rare for _, rare in pieces))
    merged = {at: weight // (len(parts) * most) for at, weight in summed.items()}
    for at, weight in hits.items():
        merged[at] = max(merged.get(at, 0), weight * rarity // most)
    return merged, most


def _default(index: Index, query: str, passes: Passes) -> list[tuple[int, float]]:
    runs = _wanted(query)
    weighed: list[tuple[dict[int, int], int]] = []
    for run in runs:
        having, rare = _joined(index, run)
        hits = {at: weight for at, weight in having.items() if passes(at)}
        if hits:
            weighed.append((hits, rare))
    weighed.sort(key=lambda found: len(found[0]))
    full = _TEXT * _EXACT
    scores: dict[int, int] = {}
    shares: dict[int, int] = {}
    many = len(index.items) // 4
    for hits, rare in weighed:
        among = list(scores) if scores and len(hits) > many else hits
        for at in among:
            weight = hits.get(at, 0)
            scores[at] = scores.get(at, 0) + weight * rare
            shares[at] = shares.get(at, 0) + min(weight, full) * rare
    most = sum(rare for _, rare in weighed)
    asked = {stem(word) for whole, parts in runs for word in (whole, *parts)}
    names = index.terms.names
    found: list[tuple[int, float]] = []
    for at, score in scores.items():
        own = names[at]
        # What is called just so stands before what is called so among other things.
        whole = most * full * len(own) // len(runs) if own and own <= asked else 0
        found.append((at, (score + whole) * shares[at] // (most * full)))
    found.sort(key=lambda one: (-one[1], one[0]))
    return found


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


def _matched(item: Capability, query: str) -> tuple[str, ...]:
    """List the words of a query that a capability has."""
    known, _ = _gather(item)

    def has(word: str) -> bool:
        begun = len(word) >= _SHORTEST_BEGIN and any(key.startswith(word) for key in known)
        return stem(word) in known or begun

    return tuple(whole for whole, parts in _wanted(query) if any(map(has, (whole, *parts))))


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
    by_words = False
    if isinstance(ranking, str):
        if ranking not in RANKINGS:
            text = f"a ranking is one of {', '.join(RANKINGS)}"
            raise InvalidArgument("invalid-argument", text, field="ranking")
        by_words, ranking = ranking == "default", RANKINGS[ranking]

    def passes(at: int) -> bool:
        item = index.items[at]
        return (kind is None or item.kind == kind) and item.name not in left_out

    found: list[Found] = []
    for at, score in ranking(index, query, passes):
        item = index.items[at]
        if passes(at):
            words = _matched(item, query) if by_words else ()
            found.append(Found(item, score, words))
            if len(found) == most:
                break
    return tuple(found)
