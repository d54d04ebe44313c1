"""Provider caches: how much of a request a provider has seen, and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from attrs import field, frozen, validators

from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message
from ctxalgebra.model.view import HEAD
from ctxalgebra.project import Request

__all__ = ["CACHES", "Cache", "Ideal", "Prices", "shared"]


@frozen
class Prices:
    """Price input tokens, in hundredths of the input price.

    The defaults are the commonest ones: a cached token costs a tenth, and a token that is not
    cached is written to the cache for a quarter more than it costs plain (provider rules, C6).

    >>> Prices().cost(cached=1000, rest=100)
    22500
    """

    cached: int = field(default=10, validator=validators.ge(0))
    written: int = field(default=125, validator=validators.ge(0))

    def cost(self, *, cached: int, rest: int) -> int:
        """Price a request, in hundredths of the price of one input token."""
        return cached * self.cached + rest * self.written


class Cache(Protocol):
    """Remembers requests as a provider would: the one thing here with a memory of its own."""

    def take(self, request: Request) -> int:
        """Take a request in; say how many of its leading messages were cached, -1 for no head."""
        ...


def shared(ours: tuple[Message, ...], theirs: tuple[Message, ...], start: int = 0) -> int:
    """Find the first index from `start` on at which two lists differ or the shorter one ends.

    >>> from ctxalgebra import user
    >>> shared((user("a"), user("b")), (user("a"), user("c")))
    1
    """
    end = min(len(ours), len(theirs))
    # Nearly always they are equal up to there, which one comparison of slices tells at once.
    if ours[start:end] == theirs[start:end]:
        return end
    return next(i for i in range(start, end) if ours[i] != theirs[i])


class _Edge:
    """A stretch of the tree of prefixes: `messages[depth:end]`, and what may follow it."""

    __slots__ = ("end", "messages", "next")

    def __init__(
        self, messages: tuple[Message, ...], end: int, after: dict[Message, _Edge]
    ) -> None:
        self.messages = messages
        self.end = end
        self.next = after


class Ideal:
    """Cache every prefix of every request for ever.

    What a provider with automatic caching comes near to while a session is busy. Requests are
    kept in a tree of prefixes whose edges are stretches of requests, so one request adds one
    edge at most, and taking it in costs its own length, however many came before.

    >>> from ctxalgebra import Head, Request, user
    >>> cache = Ideal()
    >>> [cache.take(Request(Head(), tuple(map(user, text)))) for text in ("ab", "abc", "bc", "abd")]
    [-1, 2, 0, 2]
    """

    def __init__(self) -> None:
        self._heads: dict[Head, dict[Message, _Edge]] = {}

    def take(self, request: Request) -> int:
        """Take a request in; say how many of its leading messages some earlier one began with."""
        messages, head = request.messages, request.head
        edges = self._heads.get(head)
        if edges is None:
            edges = self._heads[head] = {}
            known = HEAD
        else:
            known = 0
        depth = 0
        while depth < len(messages):
            edge = edges.get(messages[depth])
            if edge is None:
                edges[messages[depth]] = _Edge(messages, len(messages), {})
                break
            first = messages[depth]
            depth = known = min(shared(messages, edge.messages, depth), edge.end)
            if depth < edge.end:
                # Split the edge where the two part.
                rest = {edge.messages[depth]: edge}
                edges[first] = _Edge(edge.messages, depth, rest)
                edges = rest
            elif not edge.next:
                # The usual case: the request before this one grows, and need not be kept.
                edge.messages, edge.end = messages, len(messages)
                break
            else:
                edges = edge.next
        return known


CACHES: Mapping[str, Callable[[], Cache]] = MappingProxyType({"ideal": Ideal})
"""The cache models, by name."""
