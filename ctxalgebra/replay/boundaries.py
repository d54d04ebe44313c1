"""Caches that hold only prefixes which end at certain places: Anthropic's, and OpenAI's newer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import field, frozen

from ctxalgebra.breakpoints import (
    NOWHERE,
    Placed,
    default_breakpoints,
    looks_back,
    rendered,
)
from ctxalgebra.cache_profiles import CacheProfile, cache_profile
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.head import Route
from ctxalgebra.model.view import Measure
from ctxalgebra.project import Request
from ctxalgebra.replay.layout import Layout, Miss, Outcome, Store, changed, lay
from ctxalgebra.replay.prefixes import Prefixes, PrefixState
from ctxalgebra.tokens import chars4

__all__ = ["Anthropic", "Boundaries", "Entry", "EntryState", "OpenAI", "OpenAIState"]


@frozen
class Entry:
    """Hold the times of one cached prefix, in milliseconds; None where they are not known.

    Args:
        since: from when on it can be read (C7).
        until: when it is gone (C5).
        ttl: for how long each read keeps it.
    """

    since: int | None
    until: int | None
    ttl: int | None

    def state(self, time: int | None) -> Miss:
        """Say why it can't be read at a time; empty when it can."""
        if time is None:
            return ""
        if self.until is not None and time >= self.until:
            return "expired"
        return "not_begun" if self.since is not None and time < self.since else ""


@frozen(eq=False)
class EntryState:
    """Hold the last request, the last place of it that was cached, and the entries by key."""

    layout: Layout | None = None
    top: int = NOWHERE
    entries: Store[Entry] = field(factory=Store[Entry])


def _ends(time: int | None, ttl: int | None) -> int | None:
    return None if time is None or ttl is None else time + ttl


def _later(entry: Entry, ends: int | None) -> int | None:
    """Give the end of an entry that is used: times that were recorded may run backwards."""
    return ends if entry.until is None or ends is None else max(ends, entry.until)


def settle(
    state: EntryState,
    layout: Layout,
    profile: CacheProfile,
    looks: Iterable[Iterable[int]],
    writes: Sequence[int],
    long: int,
    time: int | None,
    began: int | None,
) -> tuple[EntryState, Outcome]:
    """Read the best entry that one of the breakpoints finds, and write those that are new.

    Args:
        state: what is cached.
        layout: the request.
        profile: what is cached, and for how much.
        looks: for each breakpoint the places that it looks at, in order; the first entry is
            its own, and is kept for longer by the read (C5).
        writes: places of new entries in ascending order, the first `long` for the long time.
        long: see there.
        time: when the request left.
        began: when its response began.
    """
    entries, changes = state.entries, dict[int, Entry]()
    best = NOWHERE
    for places in looks:
        for place in places:
            entry = entries.get(layout.key(place))
            if entry is not None and not entry.state(time):
                best = max(best, place)
                if time is not None:
                    until = _later(entry, _ends(time, entry.ttl))
                    kept = Entry(entry.since, until, entry.ttl)
                    changes[layout.key(place)] = kept
                break
    since = began if began is not None or time is None else time + 1
    for index, place in enumerate(writes):
        key = layout.key(place)
        entry = entries.get(key)
        why = "expired" if entry is None else entry.state(time)
        ttl = profile.long_ttl if index < long else profile.ttl
        if why == "expired":
            changes[key] = Entry(since, _ends(time, ttl), ttl)
        elif why and entry is not None and since is not None and entry.since is not None:
            # Both wrote it: it is there as soon as one response has begun.
            until = _later(entry, _ends(time, ttl))
            changes[key] = Entry(min(since, entry.since), until, ttl)
    # C5, C6: behind what is read, up to the last long breakpoint at one price, then at another.
    total, read = layout.tokens(layout.end), layout.tokens(best)
    kept_to = max(read, layout.tokens(max(writes[:long], default=NOWHERE)))
    written_to = max(kept_to, layout.tokens(max(writes, default=NOWHERE)))
    cost = profile.prices.cost(
        read=read, kept=kept_to - read, written=written_to - kept_to, plain=total - written_to
    )
    miss = _miss(state, layout, best, profile, time)
    outcome = Outcome(read, written_to - read, total - written_to, cost, miss)
    top = max(writes, default=NOWHERE)
    return EntryState(layout, top, entries.put(changes)), outcome


def _miss(
    state: EntryState, layout: Layout, best: int, profile: CacheProfile, time: int | None
) -> Miss:
    """Say why less was read than the request before had cached (C13)."""
    before = state.layout
    miss = changed(layout, before)
    if miss or before is None or (best >= state.top > NOWHERE):
        return miss
    if before.tokens(before.end) < profile.minimum:
        return "below_minimum"
    if state.top == NOWHERE:
        return "not_written"
    entry = state.entries.get(before.key(state.top))
    return (entry.state(time) if entry is not None else "") or "out_of_reach"


@frozen
class Anthropic:
    """Cache as Anthropic does: entries at the breakpoints only (C2 to C7, C10, C11, C13).

    Args:
        measure: tokens of a message or head.
        tail: how many of the last user turns get a breakpoint by default.
    """

    measure: Measure = chars4
    tail: int = 1
    start: EntryState = field(factory=EntryState, eq=False, init=False, repr=False)

    def profile(self, route: Route) -> CacheProfile:
        """Find the profile of the model."""
        return cache_profile(route, "anthropic")

    def place(self, request: Request) -> Placed:
        """Place them behind the head and the last message, as harnesses do."""
        return default_breakpoints(request, tail=self.tail)

    def take(
        self,
        state: EntryState,
        placed: Placed,
        *,
        time: int | None = None,
        began: int | None = None,
    ) -> tuple[EntryState, Outcome]:
        """Take a request in.

        Raises:
            InvalidArgument: `invalid-argument`, more breakpoints than there may be.

        >>> from ctxalgebra import Head, Request, user
        >>> cache, a = Anthropic(), user("a" * 8000)
        >>> state, first = cache.take(cache.start, Placed(Request(Head(), (a,)), (0,)))
        >>> state, second = cache.take(state, Placed(Request(Head(), (a, user("b" * 40))), (1,)))
        >>> first.written, second.read, second.written
        (2000, 2000, 10)
        """
        profile = self.profile(placed.request.head.route)
        if len(placed.breakpoints) > profile.breakpoints:
            text = f"{len(placed.breakpoints)} breakpoints, {profile.breakpoints} are allowed"
            raise InvalidArgument("invalid-argument", text, field="breakpoints")
        seen = rendered(placed.request, profile)
        layout = lay(placed.request, seen, self.measure, state.layout)
        # C4: shorter ones are ignored without a word.
        places = [p for p in placed.breakpoints if layout.tokens(p) >= profile.minimum]
        long = max(0, placed.long - (len(placed.breakpoints) - len(places)))
        looks = (looks_back(seen, place, profile.lookback) for place in places)
        return settle(state, layout, profile, looks, places, long, time, began)


@frozen
class Boundaries:
    """Cache as OpenAI does from GPT-5.6 on (provider rules, 2.2).

    An entry ends at the newest user message or tool result, and at explicit breakpoints; of these
    the latest four are written.

    Args:
        measure: tokens of a message or head.
        implicit: whether there is an entry without a breakpoint (the explicit mode has none).
        latest: how many of the latest explicit breakpoints are looked up. The guide says
            50, the reference of the interface 80.
    """

    measure: Measure = chars4
    implicit: bool = True
    latest: int = 50
    start: EntryState = field(factory=EntryState, eq=False, init=False, repr=False)

    def profile(self, route: Route) -> CacheProfile:
        """Find the profile of the model."""
        return cache_profile(route, "openai")

    def place(self, request: Request) -> Placed:
        """Place no explicit breakpoints."""
        return Placed(request)

    def take(
        self,
        state: EntryState,
        placed: Placed,
        *,
        time: int | None = None,
        began: int | None = None,
    ) -> tuple[EntryState, Outcome]:
        """Take a request in."""
        profile = self.profile(placed.request.head.route)
        request = placed.request
        layout = lay(request, request, self.measure, state.layout)
        explicit = placed.breakpoints
        looked = {*explicit[:2], *explicit[len(explicit) - self.latest :]}
        writes = set(explicit)
        if self.implicit:
            newest = layout.end
            while newest >= 0 and request.messages[newest].role not in ("user", "tool"):
                newest -= 1
            said = (i for i, m in enumerate(request.messages) if m.role != "system")
            first = next(said, layout.end + 1) - 1
            # Without a user's word the first group of instructions is what there is.
            newest = first if newest < 0 else newest
            earlier = range(max(0, newest - profile.lookback), newest + 1)
            looked |= {first, *earlier}
            writes.add(newest)
        kept = [p for p in sorted(writes) if layout.tokens(p) >= profile.minimum]
        kept = kept[-profile.breakpoints :]
        long = sum(place in explicit[: placed.long] for place in kept)
        looks = ([place] for place in sorted(looked) if layout.tokens(place) >= profile.minimum)
        return settle(state, layout, profile, looks, kept, long, time, began)


@frozen(eq=False)
class OpenAIState:
    """Hold what is cached under the newer rules, and under the earlier ones."""

    newer: EntryState = field(factory=EntryState)
    earlier: PrefixState = field(factory=PrefixState)


@frozen
class OpenAI:
    """Cache as OpenAI does: by model under the rules since GPT-5.6, or under the earlier ones.

    The earlier models cache any prefix, rounded down to blocks of tokens, and writing is free.
    """

    measure: Measure = chars4
    start: OpenAIState = field(factory=OpenAIState, eq=False, init=False, repr=False)

    def profile(self, route: Route) -> CacheProfile:
        """Find the profile of the model."""
        return cache_profile(route, "openai")

    def place(self, request: Request) -> Placed:
        """Place no explicit breakpoints."""
        return Placed(request)

    def take(
        self,
        state: OpenAIState,
        placed: Placed,
        *,
        time: int | None = None,
        began: int | None = None,
    ) -> tuple[OpenAIState, Outcome]:
        """Take a request in.

        >>> from ctxalgebra import Head, Request, Route, user
        >>> old, cache = Head(Route("openai", "gpt-5")), OpenAI()
        >>> requests = [Request(old, tuple(user(c * 5000) for c in text)) for text in ("a", "ab")]
        >>> state, _ = cache.take(cache.start, cache.place(requests[0]))
        >>> cache.take(state, cache.place(requests[1]))[1].read
        1152
        """
        if self.profile(placed.request.head.route).block > 1:
            earlier = Prefixes(self.profile, self.measure)
            kept, outcome = earlier.take(state.earlier, placed, time=time, began=began)
            return OpenAIState(state.newer, kept), outcome
        newer = Boundaries(self.measure)
        found, outcome = newer.take(state.newer, placed, time=time, began=began)
        return OpenAIState(found, state.earlier), outcome
