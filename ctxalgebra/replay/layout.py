"""What a cache sees of a request: a key and the tokens at each place; and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Generic, Literal, Protocol, TypeVar, runtime_checkable

from attrs import evolve, frozen

from ctxalgebra.breakpoints import NOWHERE, TOOLS, Placed, common_messages, keys, shows_image
from ctxalgebra.cache_profiles import CacheProfile
from ctxalgebra.loading import immediate, loads
from ctxalgebra.model.head import Head, Route
from ctxalgebra.model.view import Measure
from ctxalgebra.project import Request

__all__ = ["Cache", "Layout", "Miss", "Outcome", "Store", "changed", "lay"]

Miss = Literal[
    "",
    "previous_message_not_found",
    "model_changed",
    "tools_changed",
    "system_changed",
    "parameters_changed",
    "messages_changed",
    "thinking_stripped",
    "below_minimum",
    "not_written",
    "not_begun",
    "expired",
    "evicted",
    "out_of_reach",
]
"""Why a request read less than the one before it had shown; empty when it did not.

The names up to `messages_changed` are the provider's (C13), but for `parameters_changed`; where
the request does extend the one before, the provider says `unavailable`, and the others tell more.
"""


@frozen
class Outcome:
    """Say what became of a request's input tokens.

    Args:
        read: were cached.
        written: were written to the cache.
        uncached: neither.
        cost: hundredths of the price of one input token.
        miss: why less was read than the request before had shown, or empty.
    """

    read: int
    written: int
    uncached: int
    cost: int
    miss: Miss = ""

    @property
    def tokens(self) -> int:
        """All input tokens (C9)."""
        return self.read + self.written + self.uncached


S = TypeVar("S")


@runtime_checkable
class Cache(Protocol[S]):
    """Model a provider's cache: a state and a request in, a state and an outcome out; all pure."""

    @property
    def start(self) -> S:
        """The state before the first request."""
        ...

    def profile(self, route: Route, /) -> CacheProfile:
        """Say what is cached for the model of a route."""
        ...

    def place(self, request: Request) -> Placed:
        """Place breakpoints as harnesses do by default."""
        ...

    def take(
        self, state: S, placed: Placed, *, time: int | None = None, began: int | None = None
    ) -> tuple[S, Outcome]:
        """Take a request in.

        Args:
            state: what is cached.
            placed: the request and its breakpoints.
            time: when it left, in milliseconds; without it nothing expires.
            began: when its response began; what it writes is there from then on (C7).
        """
        ...


@frozen(eq=False)
class Layout:
    """Hold a request with a key and the tokens at each place, those of the tools first.

    Args:
        sent: the request as the client sent it.
        request: the request as the model sees it.
        keys: of the prefix in front of each place (C1).
        totals: tokens in front of each place.
        image: index of the first message that shows an image, or -1.
    """

    sent: Request
    request: Request
    keys: tuple[int, ...]
    totals: tuple[int, ...]
    image: int

    @property
    def end(self) -> int:
        """The last place."""
        return len(self.request.messages) - 1

    def key(self, place: int) -> int:
        """Give the key of the prefix in front of a place."""
        return self.keys[place - TOOLS]

    def tokens(self, place: int) -> int:
        """Count the tokens in front of a place."""
        return 0 if place == NOWHERE else self.totals[place - TOOLS]


def lay(sent: Request, request: Request, measure: Measure, before: Layout | None) -> Layout:
    """Lay out a request; costs what it does not share with the one `before`.

    The key is a chain of hashes over tools, system text, parameters that are no bytes, whether
    there are images, and each message (C1, C10). A deferred tool counts with the message that loads
    it (1.2).
    """
    head, messages = request.head, request.messages
    if before is not None and (head is before.request.head or head == before.request.head):
        same = common_messages(messages, before.request.messages)
        image = before.image
        if not 0 <= image < same:
            image = shows_image(messages, same)
        front, totals = before.keys[:2], before.totals[: same + 2]
        if (image < 0) != (before.image < 0):
            same, known = 0, front
        else:
            known = before.keys[: same + 2]
    else:
        same, image = 0, shows_image(messages)
        tools, system, _ = keys(head)
        first = hash((tools,))
        known = (first, hash((first, system)))
        seen = immediate(head)
        totals = (measure(evolve(seen, system="")), measure(seen))
    more: list[int] = []
    key = known[-1] if same else hash((known[-1], keys(head)[2], image < 0))
    loaded = loads(head, messages)
    for index, message in enumerate(messages[same:], same):
        key = hash((key, message, loaded[index]) if index in loaded else (key, message))
        more.append(key)
    weights = list(map(measure, messages[len(totals) - 2 :]))
    for index, tools in loaded.items():
        if index >= len(totals) - 2:
            weights[index - len(totals) + 2] += measure(Head(tools=tools))
    # The first total is that of the last place known, which is there already.
    sums = tuple(accumulate(weights, initial=totals[-1]))[1:]
    return Layout(sent, request, (*known, *more), (*totals, *sums), image)


def changed(now: Layout, before: Layout | None) -> Miss:
    """Say why a request does not extend the one before it, in the provider's words (C13)."""
    if before is None:
        return "previous_message_not_found"
    ours, theirs = now.sent.head, before.sent.head
    if (ours.route.provider, ours.route.model) != (theirs.route.provider, theirs.route.model):
        return "model_changed"
    if immediate(ours).tools != immediate(theirs).tools:
        return "tools_changed"
    if ours.system != theirs.system:
        return "system_changed"
    if keys(ours) != keys(theirs):
        return "parameters_changed"
    length = len(before.sent.messages)
    loaded = loads(ours, now.sent.messages)
    if any(loaded.get(at) != it for at, it in loads(theirs, before.sent.messages).items()):
        return "messages_changed"
    if (now.image < 0) != (before.image < 0) or (
        common_messages(now.sent.messages, before.sent.messages) < length
    ):
        return "messages_changed"
    if common_messages(now.request.messages, before.request.messages) < length:
        return "thinking_stripped"
    return ""


T = TypeVar("T")


@frozen(eq=False)
class Store(Generic[T]):
    """Map keys to values, immutably; adding costs little more than what is added.

    Layers shrink from first to last, and a new one swallows those before it that are not much
    larger, so that an item is copied a logarithmic number of times.
    """

    layers: tuple[Mapping[int, T], ...] = ()

    def get(self, key: int) -> T | None:
        """Find the value that was put last."""
        for layer in reversed(self.layers):
            if key in layer:
                return layer[key]
        return None

    def put(self, items: Mapping[int, T]) -> Store[T]:
        """Give a store that holds these as well."""
        if not items:
            return self
        layers = self.layers
        while layers and len(layers[-1]) <= 2 * len(items):
            items = {**layers[-1], **items}
            layers = layers[:-1]
        return Store((*layers, items))
