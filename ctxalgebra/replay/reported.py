"""What a cache model says of recorded requests beside what the provider reported of them.

A recorded session holds the requests as they left, and often what each was billed. Both sides are
compared in the provider's own tokens: what the messages that a request added weigh is the
difference of two reports, so that no estimate blurs the comparison.

Some of what was billed can't be known from a file:

* The first request under a head may read what another session wrote: `elsewhere`.
* System text and tools, which most files don't hold, may have changed. Then the provider reads
  nothing at all, not even the head, where the model reads something: `unseen`.

Both are set aside and told, so that what is compared is the model's own work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from attrs import frozen

from ctxalgebra.model.entries import Reply, Sent
from ctxalgebra.model.head import Head, Usage
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session, walk
from ctxalgebra.project import Request
from ctxalgebra.replay.cache import cache_named
from ctxalgebra.tokens import chars4

__all__ = ["Reported", "compare_reported"]


@frozen
class Reported:
    """Set the tokens that a cache model reads beside those that the provider reported.

    Args:
        requests: so many were compared: those with a report, but for what is set aside.
        reported: their cached input tokens.
        modelled: what the model gives for the same.
        elsewhere: cached tokens of the first request under each head, written by another session.
        unseen: so many requests read nothing at all where the model reads something.
    """

    requests: int
    reported: int
    modelled: int
    elsewhere: int
    unseen: int


class _Billed(NamedTuple):
    request: Request
    time: int | None
    usage: Usage | None


def _billed(recorded: Session) -> Iterator[_Billed]:
    """Give the requests of a path with their reports."""
    sent: tuple[Request, int | None] | None = None
    for node, view in walk(recorded):
        entry = node.entry
        if isinstance(entry, Sent):
            sent = Request(view.head, view.messages()), entry.time
        elif isinstance(entry, Reply) and sent is not None:
            yield _Billed(*sent, entry.usage)


class _Weights:
    """Tokens of heads and messages as reports tell them; estimates where none does."""

    def __init__(self) -> None:
        self._heads: dict[Head, int] = {}
        self._messages: dict[int, tuple[Message, int]] = {}

    def measure(self, value: Message | Head) -> int:
        if isinstance(value, Head):
            return self._heads.get(value, chars4(value))
        known = self._messages.get(id(value))
        return chars4(value) if known is None else known[1]

    def learn(self, request: Request, reported: int) -> bool:
        """Spread over what is new in a request what it was billed more; say whether the head is."""
        head = request.head
        new = [m for m in request.messages if id(m) not in self._messages]
        first = head not in self._heads
        if first:
            told = sum(map(self.measure, request.messages))
            self._heads[head] = max(chars4(head), reported - told)
        rest = reported - self._heads[head]
        rest -= sum(self.measure(m) for m in request.messages if id(m) in self._messages)
        weight = sum(map(chars4, new))
        for message in new:
            own = share = chars4(message)
            if not first:
                # What is left of the rest goes to what is left of the messages.
                share = max(0, rest) * own // max(1, weight)
                rest, weight = rest - share, weight - own
            # The message is kept, too, so that no other gets its address.
            self._messages[id(message)] = message, share
        return first


def compare_reported(recorded: Session, cache: str = "anthropic") -> Reported:
    """Compare a cache model with the reports of a recorded session.

    Breakpoints stand where harnesses put them. Costs what the requests show.

    Args:
        recorded: read along its path, never changed.
        cache: the model by its name, as `cache_named` takes it.

    Raises:
        InvalidArgument: `invalid-argument`, there is none of this name.

    >>> from ctxalgebra import *
    >>> session = record(Session(), user("x" * 8000))
    >>> for n in range(3):
    ...     session, _ = send(session)
    ...     usage = Usage(2100 + n, 5, cache_read=2100 + n - 1 if n else 1900)
    ...     session = record(reply(session, "completed", assistant("ok"), usage=usage), user("y"))
    >>> compare_reported(session)
    Reported(requests=2, reported=4201, modelled=4201, elsewhere=1900, unseen=0)
    """
    weights = _Weights()
    model: Any = cache_named(cache, weights.measure)
    state = model.start
    requests = reported = modelled = elsewhere = unseen = 0
    clock: int | None = None
    for billed in _billed(recorded):
        usage = billed.usage
        told = usage is not None and usage.input > 0
        first = weights.learn(billed.request, usage.input) if usage is not None and told else False
        time = billed.time if billed.time is None or clock is None else max(clock, billed.time)
        clock = clock if time is None else time
        placed = model.place(billed.request)
        state, outcome = model.take(state, placed, time=time, began=time)
        if usage is None or not told:
            continue
        if first:
            elsewhere += usage.cache_read
        elif outcome.read and not usage.cache_read:
            unseen += 1
        else:
            requests += 1
            reported += usage.cache_read
            modelled += outcome.read
    return Reported(requests, reported, modelled, elsewhere, unseen)
