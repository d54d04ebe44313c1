"""Discovery: one index over tools, skills and whatever else, and several rankings of it.

Theory of operation
-------------------
`rank` asks a ranking by name. `default` is ours: a query's words weigh by how few capabilities have
them, most in a name, less in keywords, least in a description, and more where they make up all
of a name. The sum counts by the share of the query that was found at all; how long a description
is, or how often a word stands in it, counts for nothing. Equal scores stand in the order of the
index. The rankings of the originals stand beside it under their names, each with its own faults.

Words that a quarter of the index has only weigh among what the others found.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import compress
from operator import mul
from struct import unpack
from types import MappingProxyType
from typing import Any, Final, cast

from attrs import frozen

from ctxalgebra.compat.memory_capabilities import score as original_score
from ctxalgebra.compat.skills_ranking import score_skill
from ctxalgebra.compat.toolpolicy_search import find_tools
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_text, check_type, mistyped
from ctxalgebra.resident.index import (
    FULL,
    SHORTEST_BEGIN,
    Capability,
    Hits,
    Index,
    Terms,
    hits_of,
    number_of,
)
from ctxalgebra.resident.words import STOP, stem, words_of
from ctxalgebra.skills.order import name_order
from ctxalgebra.tokens import check_positive

__all__ = ["RANKINGS", "Found", "Ranking", "rank"]

_QUERY, _WORDS = 1_000, 32
_AT_MOST_FULL: Final = bytes(min(weight, FULL) for weight in range(256))


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


def _spread(lane: bytes) -> int:
    """Give each weight eight bytes: itself in the upper half, what it adds to a share below."""
    room = bytearray(8 * len(lane))
    room[0::8] = lane.translate(_AT_MOST_FULL)
    room[4::8] = lane
    return number_of(room)


def _sums(total: int, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Give the sums of weights and of shares."""
    both = unpack(f"<{2 * count}I", total.to_bytes(8 * count, "little"))
    return both[1::2], both[0::2]


def _joined(index: Index, run: tuple[str, tuple[str, ...]]) -> Hits:
    """Weigh a word of a query by itself and by what it is made of, whichever is better."""
    whole, parts = run
    itself = hits_of(index, whole)
    if parts == (whole,):
        return itself
    most, summed = itself.rare, 0
    for part, times in Counter(parts).items():
        piece = hits_of(index, part)
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
    return Hits(bytes(merged), count - merged.count(0), most)


def _among(lane: bytes, mask: bytes) -> bytes:
    return (number_of(lane) & number_of(mask)).to_bytes(len(lane), "little")


def _default(index: Index, query: str, passes: Passes) -> Iterable[tuple[int, float]]:
    runs, total = _wanted(query), len(index.items)
    mask = bytes(map(passes, range(total))).translate(b"\0" + b"\xff" * 255)
    weighed: list[Hits] = []
    for run in runs:
        hits = _joined(index, run)
        if hits.having:
            lane = _among(hits.lane, mask)
            weighed.append(Hits(lane, total - lane.count(0), hits.rare))
    weighed = sorted((hits for hits in weighed if hits.having), key=lambda hits: hits.having)
    if not weighed:
        return ()
    rarer = [hits for hits in weighed if hits.having <= total // 4] or weighed[:1]
    union = summed = most = 0
    for hits in rarer:
        union |= number_of(hits.lane)
    for hits in weighed:
        summed += _spread(hits.lane) * hits.rare
        most += hits.rare
    scores, shares = _sums(summed, total)
    products = list(map(mul, scores, shares))
    for at in _called(index.terms, runs):
        # What is called just so stands before what is called so among other things.
        whole = most * FULL * len(index.terms.names[at]) // len(runs)
        products[at] += whole * shares[at]
    points = [product // (most * FULL) for product in products]
    places = compress(range(total), union.to_bytes(total, "little"))
    # Sorting backwards leaves equal ones in their order, too.
    order = sorted(places, key=points.__getitem__, reverse=True)
    return zip(order, map(points.__getitem__, order), strict=True)


def _called(terms: Terms, runs: list[tuple[str, tuple[str, ...]]]) -> Iterator[int]:
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
        with suppress(ValueError, RecursionError):  # what is no JSON weighs nothing
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
    terms: Terms, at: int, wanted: Iterable[tuple[str, tuple[str, ...]]]
) -> tuple[str, ...]:
    """List the words of a query that a capability has."""
    known = terms.all[at]

    def has(word: str) -> bool:
        for begun, least in ((word, SHORTEST_BEGIN), (stem(word), 0)):
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
