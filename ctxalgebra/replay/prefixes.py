"""Caches that hold any prefix of what they were sent: automatic ones, and blocks on a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from attrs import field, frozen, validators

from ctxalgebra.breakpoints import NOWHERE, TOOLS, Placed
from ctxalgebra.cache_profiles import RETENTION, CacheProfile, Prices, cache_profile
from ctxalgebra.model.head import Route
from ctxalgebra.model.view import Measure
from ctxalgebra.project import Request
from ctxalgebra.replay.layout import Layout, Miss, Outcome, Store, changed, lay
from ctxalgebra.tokens import chars4

__all__ = ["Lru", "LruState", "PrefixState", "Prefixes", "blocks", "gemini", "ideal"]

FOREVER = float("inf")


@frozen(eq=False)
class PrefixState:
    """Hold the last request, and until when the prefix with each key is cached."""

    layout: Layout | None = None
    until: Store[float] = field(factory=Store[float])


Profiles: TypeAlias = Callable[[Route], CacheProfile]


def _rounded(profile: CacheProfile, found: int) -> int:
    """Round what was found down to blocks; less than the minimum is nothing."""
    found -= found % profile.block
    return found if found >= profile.minimum else 0


def _outcome(profile: CacheProfile, layout: Layout, read: int, miss: Miss) -> Outcome:
    """Write what was not read, up to the last block that is full."""
    total = layout.tokens(layout.end)
    full = total - total % profile.block
    written = full - read if full >= profile.minimum else 0
    cost = profile.prices.cost(read=read, written=written, plain=total - read - written)
    return Outcome(read, written, total - read - written, cost, miss)


@frozen
class Prefixes:
    """Cache every prefix of every request (providers' rules, 2.2 and 2.3).

    Prefixes end at messages here: what two messages that differ begin with in common is not
    counted. Where the route asks for it (`prompt_cache_retention` of 24 hours) or the request is
    placed with `long`, its prefixes are kept for the long time.

    Args:
        profile: what is cached for a model, and for how much.
        measure: tokens of a message or head.
    """

    profile: Profiles
    measure: Measure = chars4
    start: PrefixState = field(factory=PrefixState, eq=False, init=False, repr=False)

    def place(self, request: Request) -> Placed:
        """Place no breakpoints: there are none."""
        return Placed(request)

    def take(
        self,
        state: PrefixState,
        placed: Placed,
        *,
        time: int | None = None,
        began: int | None = None,  # noqa: ARG002 - nothing is told of when such a prefix is there
    ) -> tuple[PrefixState, Outcome]:
        """Take a request in: what some earlier one began with is read."""
        profile = self.profile(placed.request.head.route)
        layout = lay(placed.request, placed.request, self.measure, state.layout)

        def alive(place: int) -> bool:
            until = state.until.get(layout.key(place))
            return until is not None and (time is None or time < until)

        # Whatever is cached, all that it begins with is, and for as long: so halving finds it.
        known, unknown = NOWHERE, layout.end + 1
        while unknown - known > 1:
            middle = (known + unknown) // 2
            if alive(middle):
                known = middle
            else:
                unknown = middle
        miss = changed(layout, state.layout)
        read = _rounded(profile, layout.tokens(known))
        before = state.layout
        if not miss and before is not None and (known < before.end or not read):
            short = before.tokens(before.end) < profile.minimum
            miss = "below_minimum" if short or known >= before.end else "expired"
        head = placed.request.head
        long = placed.long > 0 or RETENTION in head.route.parameters
        ttl = profile.long_ttl if long else profile.ttl
        kept = self._keep(state.until, layout, known, ttl, time)
        return PrefixState(layout, kept), _outcome(profile, layout, read, miss)

    def _keep(
        self,
        store: Store[float],
        layout: Layout,
        known: int,
        ttl: int | None,
        time: int | None,
    ) -> Store[float]:
        ends = FOREVER if ttl is None or time is None else time + ttl
        # Where nothing ever ends, what is known need not be touched.
        first = known + 1 if ttl is None else TOOLS
        touched = layout.keys[first - TOOLS :]
        earlier = {key: store.get(key) for key in touched}
        return store.put({key: max(ends, ends if t is None else t) for key, t in earlier.items()})


_IDEAL = CacheProfile("ideal", 0)


def ideal(measure: Measure = chars4, prices: Prices = _IDEAL.prices) -> Prefixes:
    """Cache every prefix of every request for ever, at the commonest prices.

    What a provider with automatic caching comes near to while a session is busy.

    >>> from ctxalgebra import Head, Request, user
    >>> cache, state = ideal(), ideal().start
    >>> for text in ("ab", "abc", "bc", "abd"):
    ...     request = Request(Head(), tuple(map(user, text)))
    ...     state, outcome = cache.take(state, cache.place(request))
    ...     print(outcome.read, outcome.written, outcome.cost)
    0 2 250
    2 1 145
    0 2 250
    2 1 145
    """
    profile = CacheProfile("ideal", 0, prices=prices)
    return Prefixes(lambda _: profile, measure)


def gemini(measure: Measure = chars4) -> Prefixes:
    """Cache as Gemini does by itself: a minimum by model, no price for writing, no known end.

    >>> gemini().profile(Route("google", "gemini-2.5-pro")).minimum
    2048
    """
    return Prefixes(lambda route: cache_profile(route, "gemini"), measure)


# Nobody bills for a server of one's own: the cost is the tokens that it has to compute.
_COMPUTED = Prices(0, 1000, 1000)


def blocks(
    size: int = 16, capacity: int | None = None, measure: Measure = chars4
) -> Prefixes | Lru:
    """Cache full blocks as vLLM (16 tokens) and SGLang (1) do, chained to the block before.

    The cost counts the tokens that are computed.

    Args:
        size: tokens of a block.
        capacity: how many blocks there is room for; the least recently used leave first. None for
            room without end.
        measure: tokens of a message or head.

    >>> from ctxalgebra import Head, Request, user
    >>> cache = blocks(16)
    >>> state, _ = cache.take(cache.start, Placed(Request(Head(), (user("a" * 80),))))
    >>> cache.take(state, Placed(Request(Head(), (user("a" * 80), user("b" * 8)))))[1].read
    16
    """
    profile = CacheProfile(f"blocks:{size}", 0, block=size, prices=_COMPUTED)
    if capacity is None:
        return Prefixes(lambda _: profile, measure)
    return Lru(profile, capacity, measure)


_Segment = tuple[int, int, int, int]
"""Blocks that end in one message: when they were used, depth, number of the first, end."""


@frozen(eq=False)
class LruState:
    """Hold the last request, how many there were, and the blocks that are cached."""

    layout: Layout | None = None
    clock: int = 0
    segments: Mapping[int, _Segment] = MappingProxyType({})


@frozen
class Lru:
    """Cache full blocks, with room for some; the least recently used, last ones first, leave."""

    blocks: CacheProfile
    capacity: int = field(validator=validators.ge(0))
    measure: Measure = chars4
    start: LruState = field(factory=LruState, eq=False, init=False, repr=False)

    def profile(self, route: Route) -> CacheProfile:  # noqa: ARG002 - it is the server's
        """Give the profile of the server, whatever the model."""
        return self.blocks

    def place(self, request: Request) -> Placed:
        """Place no breakpoints: there are none."""
        return Placed(request)

    def take(
        self,
        state: LruState,
        placed: Placed,
        *,
        time: int | None = None,  # noqa: ARG002 - a server's blocks don't age
        began: int | None = None,  # noqa: ARG002
    ) -> tuple[LruState, Outcome]:
        """Take a request in: the blocks that it begins with are read while they are there."""
        layout = lay(placed.request, placed.request, self.measure, state.layout)
        size = self.blocks.block
        held = 0
        for key in layout.keys:
            segment = state.segments.get(key)
            if segment is None:
                break
            held = segment[
                3
            ]  # of the last one perhaps not all, and then nothing behind it is there
        miss = changed(layout, state.layout)
        if not miss and state.layout is not None and held < state.layout.totals[-1] // size:
            miss = "evicted"
        outcome = _outcome(self.blocks, layout, held * size, miss)
        clock = state.clock + 1
        segments = dict(state.segments)
        number = 0
        for depth, (key, total) in enumerate(zip(layout.keys, layout.totals, strict=True)):
            segments[key] = (clock, depth, number, total // size)
            number = total // size
        self._evict(segments)
        return LruState(layout, clock, segments), outcome

    def _evict(self, segments: dict[int, _Segment]) -> None:
        """Take blocks out of a dictionary that nobody else holds, until the rest has room."""
        excess = sum(end - first for _, _, first, end in segments.values()) - self.capacity
        if excess <= 0:
            return
        for key, (used, depth, first, end) in sorted(
            segments.items(), key=lambda item: (item[1][0], -item[1][1])
        ):
            if excess < end - first:
                segments[key] = (used, depth, first, end - excess)
                return
            excess -= end - first
            del segments[key]
