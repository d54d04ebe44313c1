"""The newest point of a path whose packet can be sent as it is: where a save point goes.

The original rebuilds the packet of each candidate, up to 200 of them; with one call near the root
that has no result, each of them is repaired, and each rebuild walks over the whole path (W03).
Here each entry of the path is read once, on the way from the root, and every point keeps a `State`:
what the calls and results up to it come to. A state takes as long as its entry, whatever stands in
front of it, so a caller that keeps the states of a path reads only what is new.

Blocks (see `travel_protocol`) settle on their own, so what was noted in them stays as it is when
the path goes on; a compaction moves the point from which on notes count. Source: travel, section 8.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, Literal, TypeAlias, TypeVar

from attrs import evolve, frozen

from ctxalgebra.compat.host_context import messages_of
from ctxalgebra.compat.host_entries import Entry, name_of
from ctxalgebra.compat.travel_entries import tool_calls
from ctxalgebra.compat.travel_packet import Transaction, packet_of
from ctxalgebra.compat.travel_protocol import (
    Json,
    Settled,
    Status,
    defects_of,
    healthy,
    remains,
    settle,
    well_formed,
)
from ctxalgebra.errors import DecodeError

__all__ = ["WINDOW", "Anchor", "Passed", "Point", "State", "path_states", "scan"]

WINDOW = 200
"""How many candidates are looked at."""

Reason: TypeAlias = Literal[
    "context_build_failed", "empty_context_packet", "protocol_invalid", "protocol_repaired"
]

T = TypeVar("T")


@frozen(eq=False, repr=False)  # as long as a session, and each would walk down to its end
class Chain(Generic[T]):
    """Hold a value, the number at which it came up, and what came up before it."""

    at: int
    value: T
    before: Chain[T] | None


def _since(chain: Chain[T] | None, first: int) -> Iterator[T]:
    """Walk back over a chain, down to a number."""
    while chain is not None and chain.at >= first:
        yield chain.value
        chain = chain.before


@frozen
class State:
    """Hold what the calls and results of a path come to, up to one entry.

    Messages are numbered along the path, receipts and compactions aside; the packet holds those
    from `first` on.

    Args:
        count: how many messages there are.
        laid: the same behind the second pass of a repair, up to the open block.
        first: number of the first message of the packet.
        since: index of the entry that brought it, or could bring it.
        summary: a compaction's summary stands in front.
        cut: the packet begins inside a block, with results whose message is not in it.
        base: `laid` at `first`.
        failed: number of the last message that is none, -1 without.
        broken: number of the last message with defects, -1 without.
        mended: number of the last closed block that needs a repair, -1 without.
        shown: number of the last message in front of results that stays, -1 without.
        head: number of the message of the open block, -1 without.
        message: that message.
        calls: its calls, in order.
        matched: how many results of the open block are in their right place.
        bad: whether the open block needs a repair whatever comes.
        results: of the open block, newest first.
        done: notes of the closed blocks.
        defects: of all messages.
        receipts: notes of the receipts, by the index of their entries.
        depth: how many entries there are.
    """

    count: int = 0
    laid: int = 0
    first: int = 0
    since: int = 0
    summary: bool = False
    cut: bool = False
    base: int = 0
    failed: int = -1
    broken: int = -1
    mended: int = -1
    shown: int = -1
    head: int = -1
    message: Entry | None = None
    calls: tuple[str, ...] = ()
    matched: int = 0
    bad: bool = False
    results: Chain[Entry] | None = None
    done: Chain[Settled] | None = None
    defects: Chain[Json] | None = None
    receipts: Chain[Json] | None = None
    depth: int = 0

    @property
    def amiss(self) -> bool:
        """Whether the open block would be repaired if nothing came any more."""
        return self.bad or self.matched < len(self.calls)


_START = State()


def _count(state: State) -> int:
    return state.count


def _end(state: State) -> int:
    """Count the messages behind the second pass, with those of the open block."""
    return state.laid + (1 + len(state.calls) if state.head >= 0 else 0)


def _open(state: State, message: Entry) -> State:
    """Close the open block, and begin one with a message that is no result."""
    number, block = state.count, _block(state)
    defects = state.defects
    for defect in defects_of(message, number):
        defects = Chain(number, defect, defects)
    found = state.defects is not defects
    stays = remains(message)
    said = message.get("role") == "assistant" and not healthy(message)
    return evolve(
        state,
        count=number + 1,
        laid=_end(state),
        broken=number if found else state.broken,
        mended=state.head if state.head >= 0 and state.amiss else state.mended,
        shown=number if stays else state.shown,
        head=number,
        message=message,
        calls=tuple(well_formed(message)),
        matched=0,
        bad=said and bool(tool_calls(message)),
        results=None,
        done=_closed(state, block),
        defects=defects,
        depth=state.depth + 1,
    )


def _closed(state: State, block: Settled) -> Chain[Settled] | None:
    if block.strays or block.settled or block.stripped:
        return Chain(max(state.head, 0), block, state.done)
    return state.done


def _answer(state: State, message: Entry) -> State:
    """Put a result into the open block."""
    number, at = state.count, state.matched
    right = at < len(state.calls) and message.get("toolCallId") == state.calls[at]
    return evolve(
        state,
        count=number + 1,
        cut=state.cut or number == state.first,
        matched=at + right,
        bad=state.bad or not right,
        results=Chain(number, message, state.results),
        depth=state.depth + 1,
    )


def _block(state: State) -> Settled:
    """Settle the open block as if nothing came any more."""
    results = list(_since(state.results, 0))
    results.reverse()
    return settle(state.message, results, state.laid)


class _Fold:
    """Walk along a path and keep a state for each entry."""

    def __init__(self, path: Sequence[Entry], receipts: Mapping[str, Transaction]) -> None:
        self.path = path
        self.receipts = receipts
        self.states: list[State] = []
        self.places: dict[str, int] | None = None

    def step(self, entry: Entry) -> State:
        state = self.states[-1] if self.states else _START
        name = name_of(entry)
        receipt = None if name is None else self.receipts.get(name)
        if receipt is not None:
            told = Chain(state.depth, receipt.normalization, state.receipts)
            return evolve(state, receipts=told, depth=state.depth + 1)
        if entry.get("type") == "compaction":
            return self._compact(state, entry)
        try:
            messages = messages_of(entry)
        except DecodeError:
            number = state.count
            return evolve(state, count=number + 1, failed=number, depth=state.depth + 1)
        if not messages:
            return evolve(state, depth=state.depth + 1)
        answers = messages[0].get("role") == "toolResult"
        return (_answer if answers else _open)(state, messages[0])

    def _compact(self, state: State, entry: Entry) -> State:
        """Begin the packet anew: the summary, what is kept, and what comes."""
        kept = self._place(entry.get("firstKeptEntryId"), state.depth)
        first, base, cut = state.count, _end(state), False
        since = state.depth + 1 if kept is None else kept
        if kept is not None:
            first = self.states[kept - 1].count if kept else 0
            # The first message that is kept may stand behind entries that have none.
            at = bisect_right(self.states, first, lo=kept, key=_count)
            if at < state.depth:
                here = self.states[at]
                cut = first not in (here.head, here.failed)
                base = here.laid
        return evolve(
            state,
            first=first,
            base=base,
            cut=cut,
            since=since,
            summary=True,
            depth=state.depth + 1,
        )

    def _place(self, name: object, stop: int) -> int | None:
        if not isinstance(name, str):
            return None
        if self.places is None:
            self.places = {}
            for at, known in enumerate(map(name_of, self.path)):
                if known is not None:
                    self.places.setdefault(known, at)
        place = self.places.get(name, stop)
        return place if place < stop else None


def path_states(
    path: Sequence[Entry],
    receipts: Mapping[str, Transaction],
    known: Sequence[State] = (),
) -> tuple[State, ...]:
    """Give the state behind each entry of a path.

    Args:
        path: from the root.
        receipts: of the file, see `travel_packet.receipts_of`.
        known: the states of the first entries of this path, which are not read again.

    >>> user = {"type": "message", "id": "u", "message": {"role": "user", "content": "hi"}}
    >>> path_states([user], {})[0].count
    1
    """
    fold = _Fold(path, receipts)
    fold.states = list(known)
    for at in range(len(known), len(path)):
        fold.states.append(fold.step(path[at]))
    return tuple(fold.states)


@frozen
class Point:
    """Say what would be sent if an entry were the leaf, as far as calls and results go.

    Args:
        path: from the root.
        receipts: of the file.
        index: of the entry.
        state: behind it.
    """

    path: Sequence[Entry]
    receipts: Mapping[str, Transaction]
    index: int
    state: State

    @property
    def entry(self) -> Entry:
        """The entry."""
        return self.path[self.index]

    @property
    def reason(self) -> Reason | None:
        """Why it is no good save point; None if its packet is complete."""
        state, first = self.state, self.state.first
        if state.failed >= first:
            return "context_build_failed"
        if not state.summary and state.shown < first:
            return "empty_context_packet"
        if state.broken >= first:
            return "protocol_invalid"
        loose = state.cut or (state.head >= first and state.amiss)
        return "protocol_repaired" if loose or state.mended >= first else None

    @property
    def status(self) -> Status:
        """The status of its packet, which has to be one that can be built."""
        reason = self.reason
        if reason == "protocol_invalid":
            return "invalid"
        return "repaired" if reason == "protocol_repaired" else "complete"

    @property
    def normalizations(self) -> tuple[Json, ...]:
        """The receipts that are taken out of its packet."""
        return tuple(_since(self.state.receipts, self.state.since))[::-1]

    @property
    def defects(self) -> tuple[Json, ...]:
        """What no repair is for."""
        state = self.state
        shift = state.summary - state.first
        found = [
            {**defect, "assistantIndex": defect["assistantIndex"] + shift}
            for defect in _since(state.defects, state.first)
        ]
        return tuple(found[::-1])

    @property
    def repairs(self) -> tuple[Json, ...]:
        """What is repaired in its packet; as long as that list, and the open block."""
        state = self.state
        if self.reason != "protocol_repaired":
            return ()
        if state.cut and state.first:  # results without their message: notes of another block
            return packet_of(self.path[: self.index + 1], self.receipts).repairs
        last = _block(state) if max(state.head, 0) >= state.first else None
        closed = list(_since(state.done, state.first))
        newest = closed if last is None else [last, *closed]
        shift = state.summary - state.base
        return (
            *(note for block in newest for note in block.strays),
            *(_shifted(note, shift) for block in reversed(newest) for note in block.settled),
            *(note for block in newest for note in block.stripped),
        )


def _shifted(note: Json, shift: int) -> Json:
    if "assistantIndex" not in note:
        return note
    return {**note, "assistantIndex": note["assistantIndex"] + shift}


@frozen
class Passed:
    """Say which point was passed over, and why."""

    point: Point
    reason: Reason


@frozen
class Anchor:
    """Hold where a save point goes.

    Args:
        point: None if no candidate will do.
        skipped: candidates that were passed over, newest first.
        aborted: the search was called off.
        exhausted: nothing was found, and there were more candidates than the window takes.
        inspected: how many candidates were looked at.
    """

    point: Point | None
    skipped: tuple[Passed, ...]
    aborted: bool
    exhausted: bool
    inspected: int


def _never() -> bool:
    return False


def scan(
    path: Sequence[Entry],
    receipts: Mapping[str, Transaction],
    *,
    start: int | None = None,
    lowest: int = 0,
    window: int = WINDOW,
    accept_repaired: bool = False,
    states: Sequence[State] | None = None,
    aborted: Callable[[], bool] = _never,
) -> Anchor:
    """Look for the newest entry of a path whose packet is complete.

    Where there is none, the newest one is taken whose packet is repaired. A candidate is judged by
    its state alone; what is wrong with it is put together when somebody asks for it.

    Args:
        path: from the root.
        receipts: of the file, see `travel_packet.receipts_of`.
        start: index of the first candidate; None for the last entry.
        lowest: index of the last one.
        window: how many candidates are looked at.
        accept_repaired: take a repaired one at once.
        states: of this path, as `path_states` gives them, if they are known.
        aborted: asked before each candidate whether to stop.

    >>> call = {"type": "toolCall", "id": "c", "name": "read", "arguments": {}}
    >>> said = {"role": "assistant", "content": [call]}
    >>> path = [
    ...     {"type": "message", "id": "u", "message": {"role": "user", "content": "hi"}},
    ...     {"type": "message", "id": "a", "message": said},
    ... ]
    >>> found = scan(path, {})
    >>> found.point.entry["id"], [(p.point.entry["id"], p.reason) for p in found.skipped]
    ('u', [('a', 'protocol_repaired')])
    """
    known = path_states(path, receipts) if states is None else states
    skipped: list[Passed] = []
    at = len(path) - 1 if start is None else min(start, len(path) - 1)
    inspected = 0
    while at >= max(lowest, 0) and inspected < window:
        if aborted():
            return Anchor(None, tuple(skipped), aborted=True, exhausted=False, inspected=inspected)
        point = Point(path, receipts, at, known[at])
        reason = point.reason
        inspected += 1
        at -= 1
        if reason is None or (accept_repaired and reason == "protocol_repaired"):
            return Anchor(
                point, tuple(skipped), aborted=False, exhausted=False, inspected=inspected
            )
        skipped.append(Passed(point, reason))
    for place, passed in enumerate(skipped):
        if passed.reason == "protocol_repaired":
            rest = (*skipped[:place], *skipped[place + 1 :])
            return Anchor(passed.point, rest, aborted=False, exhausted=False, inspected=inspected)
    more = at >= max(lowest, 0)
    return Anchor(None, tuple(skipped), aborted=False, exhausted=more, inspected=inspected)
