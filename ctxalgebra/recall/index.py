"""The index of words: which items hold a word, and how often. It only grows.

Theory of operation
-------------------
All sessions of one journal share one index. An item that is visible gets the next *slot* the
first time that a search on any path meets it, and keeps it. Postings are arrays of slots with
counts, in the order of slots; most words are in one item only, and there the code stands by itself.
A path is a few *runs* of slots: one when its items were indexed one after another, one more for
each place where another branch was indexed in between. So a search costs what is new on its path,
and reads of the postings just its runs; nothing is rebuilt, for no branch and no later item.

What an item's slot is known by is its key, for a session the node of the entry that completed it:
refolding a stretch after travelling makes new cells, but no new keys.

The arrays are written to by one caller at a time. Whoever finds another thread at it builds an
index of its own and throws it away, so nobody waits and nobody reads half an item.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from math import log
from typing import TYPE_CHECKING, NamedTuple

from ctxalgebra.recall.texts import Units, count_words, words

if TYPE_CHECKING:
    from ctxalgebra.recall.history import Cell

__all__ = ["Index", "ranked"]

_BITS = 32
_MASK = (1 << _BITS) - 1
_K1, _B = 1.2, 0.75


class Place(NamedTuple):
    """Say where a cell stands in the index.

    Fields: its `slot`, the first slot of its run, `start`, the place at the end of the run in
    front, `before`, and how many words its path has up to here, `total`.
    """

    slot: int
    start: int
    before: Place | None
    total: int


class Index:
    """Hold the words of items, by slot; `units` find them."""

    __slots__ = ("busy", "cells", "facets", "lengths", "places", "postings", "units")

    def __init__(self, units: Units) -> None:
        self.units = units
        self.postings: dict[str, int | array[int]] = {}
        self.facets: dict[tuple[str, str], list[int]] = {}
        self.lengths: list[int] = []
        self.cells: list[Cell] = []
        self.places: dict[object, Place] = {}
        self.busy: list[object] = []

    def reach(self, top: Cell) -> Index:
        """Take in what is new on the path to a visible cell; gives the index that has it."""
        mine = object()
        self.busy.append(mine)
        try:
            index = self if self.busy[0] is mine else Index(self.units)
            index.extend(top)
        finally:
            self.busy.remove(mine)
        return index

    def extend(self, top: Cell) -> None:
        """Take in what is new, when nobody else does."""
        places = self.places
        new: list[Cell] = []
        cell: Cell | None = top
        while cell is not None and cell.key not in places:
            new.append(cell)
            cell = None if cell.parent is None else cell.parent.shown
        place = None if cell is None else places[cell.key]
        for cell in reversed(new):
            place = self._add(cell, place)

    def _add(self, cell: Cell, before: Place | None) -> Place:
        record = cell.record
        counts = count_words(record.words(), self.units)
        slot = len(self.cells)
        length = sum(counts.values())
        # The slot is taken first: were this to be interrupted, nothing would ever read it.
        self.cells.append(cell)
        self.lengths.append(length)
        postings, shifted = self.postings, slot << _BITS
        for word, number in counts.items():
            known = postings.get(word)
            if known is None:
                postings[word] = shifted | number
            elif isinstance(known, int):
                postings[word] = array("Q", (known, shifted | number))
            else:
                known.append(shifted | number)
        facets = [("failed", str(record.failed))]
        facets += [("tool", name) for name in dict.fromkeys(record.tools)]
        facets += [("file", name) for name in record.files]
        for facet in facets:
            self.facets.setdefault(facet, []).append(slot)
        total = length + (0 if before is None else before.total)
        if before is not None and before.slot == slot - 1:
            place = Place(slot, before.start, before.before, total)
        else:
            place = Place(slot, slot, before, total)
        self.places[cell.key] = place
        return place


def _runs(place: Place) -> list[tuple[int, int]]:
    """List the runs of slots of a path, first and last, oldest first."""
    runs: list[tuple[int, int]] = []
    at: Place | None = place
    while at is not None:
        runs.append((at.start, at.slot))
        at = at.before
    runs.reverse()
    return runs


def _within(
    codes: Sequence[int], runs: Sequence[tuple[int, int]], bits: int
) -> Iterator[Sequence[int]]:
    """Give the stretches of ascending codes whose slots are in the runs."""
    for first, last in runs:
        start = bisect_left(codes, first << bits)
        stop = bisect_left(codes, (last + 1) << bits, start)
        if start < stop:
            yield codes[start:stop]


def ranked(
    index: Index, top: Cell, query: str, facets: Iterable[tuple[str, str]], limit: int
) -> list[Cell]:
    """Rank the visible items of a path by BM25 (k1 1.2, b 0.75; specification, section 9).

    An item without any word of the query is no answer; an empty query is answered by all, oldest
    first. Equal scores go by age.

    Args:
        index: one that reaches the cell.
        top: the last visible cell.
        facets: what answers must have, each.
        limit: most answers.
    """
    place = index.places[top.key]
    runs = _runs(place)
    allowed: set[int] | None = None
    for facet in facets:
        slots = {s for part in _within(index.facets.get(facet, ()), runs, 0) for s in part}
        allowed = slots if allowed is None else allowed & slots
    if not query:
        every = (slot for first, last in runs for slot in range(first, last + 1))
        found = nsmallest(limit, allowed) if allowed is not None else _first(every, limit)
        return [index.cells[slot] for slot in found]
    scores: dict[int, float] = {}
    number, lengths = top.seen, index.lengths
    mean = place.total / number
    for word in dict.fromkeys(words(query, index.units)):
        codes = index.postings.get(word, ())
        stretches = list(_within((codes,) if isinstance(codes, int) else codes, runs, _BITS))
        df = sum(map(len, stretches))
        idf = log(1 + (number - df + 0.5) / (df + 0.5))
        for stretch in stretches:
            for code in stretch:
                slot, tf = code >> _BITS, code & _MASK
                norm = _K1 * (1 - _B + _B * lengths[slot] / mean)
                score = idf * (tf * (_K1 + 1)) / (tf + norm)
                scores[slot] = scores.get(slot, 0) + score
    answers = scores if allowed is None else allowed & scores.keys()
    best = nsmallest(limit, answers, key=lambda slot: (-scores[slot], slot))
    return [index.cells[slot] for slot in best]


def _first(slots: Iterator[int], limit: int) -> list[int]:
    return [slot for slot, _ in zip(slots, range(limit), strict=False)]
