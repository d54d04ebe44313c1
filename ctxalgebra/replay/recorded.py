"""A session weighed as it was sent, branches and journeys included, and beside never travelling.

`replay` sends the events of one path. Here every request of the journal counts as it was recorded,
decisions included, in the order in which they left, under one cache.

What never travelling would have cost is told by these assumptions, and by no others:

* the model would have done what it did, in the same order and at the same times, with the same
  heads (those of the travel tools too) and the same receipts of checkpoints;
* no handoff would have been sent; each later request would have carried all that was shown where
  the journey began (at its return ticket) in front of what was said since;
* the request whose reply was the journey's call would not have been sent; that of a host asked for
  none.

Where these say nothing it is not told: where a decision behind a journey touches what stands in
front of its handoff, or a journey went to what was never on the line (a fork to another branch, or
the message that asked for another journey).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, NamedTuple

from attrs import asdict, evolve, field, frozen

from ctxalgebra.checkpoints.provenance import Facts, HandedOver, handed_over
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.entries import Cut, Drop, Entry, Replace, Reply, Sent, Strip
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Node, Session, log
from ctxalgebra.model.view import Measure, View, weigh
from ctxalgebra.project import Request
from ctxalgebra.replay.cache import BREAKPOINTS, cache_named, check_choice
from ctxalgebra.replay.departures import Departure, branches, departures, views
from ctxalgebra.replay.layout import Outcome
from ctxalgebra.replay.replay import Leaving, Run
from ctxalgebra.replay.replay import weigh as weigh_requests
from ctxalgebra.tokens import ceil_div, chars4, check_positive

__all__ = ["Move", "Recorded", "recorded_row", "recorded_verdict", "weigh_recorded"]

NO_JOURNEY = "nobody travelled with a handoff"
TOUCHED = "a decision behind a journey changed what stands in front of its handoff"
FORKED = "a journey went to what was not on the line before"


@frozen
class Move:
    """Tell of a request that goes on from another one than the one that left before it.

    Args:
        request: its index, in the order in which all requests left.
        entry: number of its `Sent`.
        branch: where it stands.
        tokens: of the measure.
        origin: the earlier request whose beginning it shares for longest, or -1.
        shared: tokens of that beginning.
        read: of its tokens, what the cache held.
    """

    request: int
    entry: int
    branch: int
    tokens: int
    origin: int
    shared: int
    read: int


@frozen
class Recorded:
    """Sum up a session as it was sent.

    Args:
        run: all requests, on all branches; a break parts a request from the one before it on its
            own path.
        branches: how many there are.
        journeys: how many handoffs were recorded by travelling, on all branches.
        moves: the requests that go on from another one than the one before them.
        without: what the requests would have cost if nobody had travelled; None where nobody knows.
        why: why nobody does, or empty.
    """

    run: Run
    branches: int
    journeys: int
    moves: tuple[Move, ...]
    without: Run | None = field(default=None)
    why: str = ""

    @property
    def saved(self) -> int | None:
        """What travelling saved, in hundredths of the price of an input token; below 0 a cost."""
        return None if self.without is None else self.without.cost - self.run.cost


def weigh_recorded(
    recorded: Session,
    *,
    budget: int = 128_000,
    cache: str = "ideal",
    breakpoints: str = "default",
    measure: Measure = chars4,
) -> Recorded:
    """Weigh every request of a journal as it was sent, whatever its branch.

    Entries expire by the times of `Sent`. Costs the entries plus what the requests show.

    Args:
        recorded: all of its entries are read, whatever its leaf.
        budget: tokens that a request should keep to.
        cache: one of `CACHES`, or `blocks:SIZE`.
        breakpoints: one of `BREAKPOINTS`.
        measure: tokens of a message or head.

    Raises:
        InvalidArgument: `invalid-argument`, an unknown name, or no positive integer; `wrong-type`.

    >>> from ctxalgebra import assistant, at_leaf, record, user
    >>> session = record(Session(), user("a" * 40), assistant("b"), user("c"), assistant("d"))
    >>> found = weigh_recorded(record(at_leaf(session, 0), user("e"), assistant("f")))
    >>> found.run.requests, found.run.cached, [(m.origin, m.read) for m in found.moves]
    (3, 20, [(0, 10)])
    """
    check_positive(budget=budget)
    check_choice(breakpoints, BREAKPOINTS, "breakpoints")
    model = cache_named(cache, measure)
    found = departures(recorded, measure=measure)
    outcomes: list[Outcome] = []
    shared: dict[str, Any] = {
        "budget": budget,
        "cache": model,
        "planned": breakpoints == "planned",
        "measure": measure,
    }
    run = weigh_requests(
        "recorded", _as_sent(found, log(recorded), measure), took=outcomes.append, **shared
    )
    moves = tuple(
        Move(
            one.index, one.entry, one.branch, outcome.tokens, one.origin, one.shared, outcome.read
        )
        for one, outcome in zip(found, outcomes, strict=True)
        if one.moved
    )  # fmt: skip
    handed = {node.number: it for node in log(recorded) if (it := handed_over(node))}
    line = _line(recorded, handed) if handed else NO_JOURNEY
    without, why = None, ""
    if isinstance(line, str):
        why = line
    else:
        without = weigh_requests("without", _unfolded(found, line, measure), **shared)
    count = len(branches(recorded)[1])
    return Recorded(run, count, len(handed), moves, without, why)


def _request(view: View) -> Request:
    return Request(view.head, view.messages())


def _tokens(view: View, measure: Measure, first: int = 0) -> int:
    """Measure the head and the messages from a slot on."""
    total = view.slots.total
    return weigh(measure, view.head) + total(measure, view.end) - total(measure, first)


def _as_sent(
    found: Sequence[Departure], nodes: Sequence[Node], measure: Measure
) -> Iterator[Leaving]:
    left: Request | None = None
    for one in found:
        view, request = one.view, _request(one.view)
        parted, silent = None, False
        if one.before >= 0 and one.at != (earlier := found[one.before]).view.end:
            why = _why(nodes[one.entry], earlier.entry) if view.broke is None else view.broke.why
            silent = why is None
            parted = None if why is None else (one.at, why, _rebilled(one, earlier, measure))
        extends = left is None or request.extends(left)
        yield Leaving(request, _tokens(view, measure), one.sent.time, extends, parted, silent)
        left = request


def _why(node: Node, earlier: int) -> str | None:
    """Find what was said between two requests of a path, where one of them nobody announced."""
    between = takewhile(lambda one: one.number > earlier, _up(node))
    said = [
        "the head changed" if isinstance(entry, Head) else entry.why
        for entry in (one.entry for one in between)
        if isinstance(entry, Head | Cut | Drop | Replace | Strip)
    ]
    return "; ".join(reversed(said)) if said else None


def _rebilled(one: Departure, earlier: Departure, measure: Measure) -> int:
    """Measure what stands behind a break and was recorded before the earlier request left."""
    slots = one.view.slots
    tokens = 0 if one.at >= 0 else weigh(measure, one.view.head)
    for slot in range(max(one.at, 0), one.view.end):
        if slots.numbers[slot] < earlier.entry:
            tokens += weigh(measure, slots.messages[slot])
    return tokens


class _Lift(NamedTuple):
    """What a journey left behind, as never travelling would show it.

    Args:
        items: stand for all that is shown up to the handoff, with the numbers of their entries.
        since: number of the handoff.
        line: the entries that are part of it.
    """

    items: tuple[tuple[int, Message], ...]
    since: int
    line: frozenset[int]


class _Line(NamedTuple):
    """How the branches of a journal make one line: the lift of each entry, and what is not sent."""

    lifts: Mapping[int, _Lift | None]
    asked: frozenset[int]


def _behind(view: View, lift: _Lift | None) -> int:
    """Find the first slot behind the handoff."""
    return 0 if lift is None else view.slot(lift.since) + 1


def _touches(entry: Entry, lift: _Lift) -> bool:
    """Say whether a decision changes what stands in front of a handoff, or the handoff."""
    if isinstance(entry, Drop):
        return entry.first <= lift.since
    if isinstance(entry, Replace):
        return entry.target <= lift.since
    return isinstance(entry, Cut | Strip)


def _up(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent


def _line(recorded: Session, handed: Mapping[int, HandedOver]) -> _Line | str:
    """Lay the branches on one line; say why where nobody knows how."""
    nodes = log(recorded)
    places = {it.facts.place for it in handed.values()}
    lifts: dict[int, _Lift | None] = {-1: None}
    shown: dict[int, tuple[tuple[int, Message], ...]] = {}
    asked: set[int] = set()
    for node, _, view in views(recorded):
        lift = lifts[-1 if node.parent is None else node.parent.number]
        if lift is not None and _touches(node.entry, lift):
            return TOUCHED
        if node.number in handed:
            facts = handed[node.number].facts
            left = lifts[facts.place]
            line = frozenset(one.number for one in _up(nodes[facts.place]))
            line = line if left is None else line | left.line
            if not _goes_on(nodes, facts, line):
                return FORKED
            lift = _Lift(shown[facts.place], node.number, line)
            asked.update(_asked(nodes[facts.origin], facts.call))
        lifts[node.number] = lift
        if node.number in places:
            first, slots = _behind(view, lift), view.slots
            since = zip(slots.numbers[first : view.end], view.messages()[first:], strict=True)
            shown[node.number] = (*(() if lift is None else lift.items), *since)
    return _Line(lifts, frozenset(asked))


def _goes_on(nodes: Sequence[Node], facts: Facts, line: frozenset[int]) -> bool:
    """Say whether a journey left where its ticket says, and landed on the line.

    Only messages count of what stands there: notes and labels show nothing.
    """
    if facts.place not in {node.number for node in _up(nodes[facts.origin])}:
        return False
    landing = nodes[facts.landed] if facts.landed >= 0 else None
    messages = (node for node in _up(landing) if isinstance(node.entry, Message | Reply))
    return all(node.number in line for node in islice(messages, 1))


def _asked(origin: Node, call: str) -> Iterator[int]:
    """Give the request whose reply asked for a journey, if one did."""
    for node in _up(origin) if call else ():
        said = node.entry.message if isinstance(node.entry, Reply) else node.entry
        if isinstance(said, Message) and any(one.id == call for one in said.calls):
            # A message that stands by itself is the number of the request that it replied to.
            above = (n for n in _up(node) if n.entry is said or isinstance(n.entry, Sent))
            yield next(above).number
            return


def _unfolded(found: Sequence[Departure], line: _Line, measure: Measure) -> Iterator[Leaving]:
    """Give the requests that would have left if nobody had travelled."""
    left: Request | None = None
    sums: dict[int, int] = {}
    for one in found:
        if one.entry in line.asked:
            continue
        view, lift = one.view, line.lifts[one.entry]
        first = _behind(view, lift)
        request, tokens = _request(view), _tokens(view, measure, first)
        if lift is not None:
            if lift.since not in sums:
                sums[lift.since] = sum(weigh(measure, message) for _, message in lift.items)
            tokens += sums[lift.since]
            items = (message for _, message in lift.items)
            request = evolve(request, messages=(*items, *request.messages[first:]))
        extends = left is None or request.extends(left)
        yield Leaving(request, tokens, one.sent.time, extends)
        left = request


def recorded_row(recorded: Recorded) -> dict[str, Any]:
    """Give it as JSON values: tokens as integers, costs in input tokens at their full price.

    Raises:
        InvalidArgument: `wrong-type`.
    """
    check_type(recorded, Recorded, "recorded")
    run, without = _figures(recorded.run), None
    if recorded.without is not None:
        without = _figures(recorded.without)
    return {
        "branches": recorded.branches,
        "journeys": recorded.journeys,
        **run,
        "silent_breaks": recorded.run.silent,
        "breaks": [asdict(one) for one in recorded.run.breaks],
        "moves": [asdict(one) for one in recorded.moves],
        "without_journeys": without,
        "saved": None if without is None else without["cost"] - run["cost"],
        "why_not": recorded.why,
    }


def _figures(run: Run) -> dict[str, Any]:
    return {
        "requests": run.requests,
        "mean_request_tokens": ceil_div(run.input, max(run.requests, 1)),
        "input_tokens": run.input,
        "cached_tokens": run.cached,
        "uncached_tokens": run.input - run.cached,
        "written_tokens": run.written,
        "cost": ceil_div(run.cost, 100),
        "max_request_tokens": run.largest,
        "over_budget": run.over_budget,
        "invalid_requests": run.invalid,
        "misses": dict(run.misses),
        "timed_requests": run.timed,
    }


def recorded_verdict(recorded: Recorded) -> str:
    r"""Say in a few sentences what the branches and journeys came to.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import assistant, at_leaf, record, user
    >>> session = record(Session(), user("a" * 40), assistant("b"), user("c"), assistant("d"))
    >>> session = record(at_leaf(session, 0), user("e"), assistant("f"))
    >>> print(recorded_verdict(weigh_recorded(session)).replace(": ", ":\n").replace(". ", ".\n"))
    1 request goes on from another than the one before it:
    of its 11 tokens 10 had led an earlier request, and 10 were read from the cache.
    What never travelling would have cost is not told:
    nobody travelled with a handoff.
    """
    row = recorded_row(recorded)
    said: list[str] = []
    if moves := recorded.moves:
        tokens, shared, read = (
            sum(getattr(one, name) for one in moves) for name in ("tokens", "shared", "read")
        )
        go, their = ("s go", "their") if len(moves) > 1 else (" goes", "its")
        them = "them" if len(moves) > 1 else "it"
        said.append(
            f"{len(moves):,} request{go} on from another than the one before {them}: of {their} "
            f"{tokens:,} tokens {shared:,} had led an earlier request, and {read:,} were read from "
            "the cache."
        )
    if recorded.why:
        said.append(f"What never travelling would have cost is not told: {recorded.why}.")
    else:
        saved, without = row["saved"], row["without_journeys"]
        cost = f"{without['cost']:,} tokens at their full price"
        said.append(
            f"Never travelling would have cost {cost}, {abs(saved):,} "
            f"{'more' if saved >= 0 else 'less'} than what was sent, with a largest request of "
            f"{without['max_request_tokens']:,} tokens instead of {row['max_request_tokens']:,}."
        )
    return " ".join(said)
