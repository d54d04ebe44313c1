"""How the original divides a request: prefix units, completed turns, the active turn.

Structure comes first: what is no conversation is refused as a whole, and interrupted assistants
leave with their results (paging, sections 5.2, 5.3, 5.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import pairwise
from operator import add
from typing import NamedTuple

from ctxalgebra.compat.paging_keys import CutKey, Frontier, FrontierKind, Host, RawHistory, call_ids
from ctxalgebra.compat.paging_limits import SelectionError

__all__ = [
    "Active",
    "Groups",
    "Slot",
    "Unit",
    "apply_cut",
    "group",
    "interrupted",
    "normalise",
    "total",
]


class Slot(NamedTuple):
    """Hold a message of the request: its place, its weight, and whether it is stored nowhere."""

    at: int
    message: Host
    weight: float
    outgoing: bool


Slots = Sequence[Slot]


def total(weights: Iterable[float]) -> float:
    """Sum from the left, rounding at each step as the original does (`sum` is more exact)."""
    return reduce(add, weights, 0)


class Unit(NamedTuple):
    """Hold what leaves as a whole.

    Fields: the `kind` of frontier that it leaves behind, its `slots`, and the slots that are
    `asked` for a key: those of the whole turn, of which the unit may be the rest.
    """

    kind: FrontierKind
    slots: Slots
    asked: Slots

    def weight(self) -> float:
        """Weigh the unit."""
        return total(slot.weight for slot in self.slots)


class Active(NamedTuple):
    """Hold the turn that goes on: its request, its exchanges, and what is stored nowhere."""

    envelope: Slots
    exchanges: tuple[Unit, ...]
    trailing: Slots


class Groups(NamedTuple):
    """Hold a request in its parts."""

    prefixes: tuple[Unit, ...]
    completed: tuple[Unit, ...]
    active: Active | None

    def units(self) -> tuple[Unit, ...]:
        """List what can be evicted, in the order in which it is."""
        exchanges = () if self.active is None else self.active.exchanges
        return (*self.prefixes, *self.completed, *exchanges)

    def fixed(self, resident: float) -> float:
        """Weigh what is never evicted."""
        if self.active is None:
            return resident
        envelope = total(slot.weight for slot in self.active.envelope)
        return resident + envelope + total(slot.weight for slot in self.active.trailing)


def _role(slot: Slot) -> object:
    return slot.message.get("role")


def _broken(message: str) -> SelectionError:
    return SelectionError("invalid-message-structure", message)


def interrupted(message: Host) -> bool:
    """Say whether an assistant was aborted or failed."""
    return message.get("stopReason") in ("aborted", "error")


def _results(slots: Slots, start: int) -> int:
    """Find the end of the run of results behind an assistant."""
    end = start + 1
    while end < len(slots) and _role(slots[end]) == "toolResult":
        end += 1
    return end


def normalise(slots: Slots) -> Slots:
    """Check the structure of the whole request and leave out interrupted exchanges.

    Returns:
        The same object when nothing was left out.

    Raises:
        SelectionError: `invalid-message-structure`: a result without its call, call ids that
            repeat, a call without its result.
    """
    kept: list[Slot] = []
    at = 0
    while at < len(slots):
        slot = slots[at]
        if _role(slot) == "toolResult":
            raise _broken(f"message {slot.at} answers no call in front of it")
        if _role(slot) != "assistant":
            kept.append(slot)
            at += 1
            continue
        end = _results(slots, at)
        missing = set(ids := call_ids(slot.message))
        if len(missing) < len(ids):
            raise _broken(f"call ids repeat in message {slot.at}")
        for result in slots[at + 1 : end]:
            call = result.message.get("toolCallId")
            if not isinstance(call, str) or call not in missing:
                raise _broken(f"message {result.at} answers no open call")
            missing.remove(call)
        if not interrupted(slot.message):
            if missing:
                raise _broken(f"message {slot.at} has calls without results")
            kept.extend(slots[at:end])
        at = end
    return slots if len(kept) == len(slots) else kept


def _starts(slots: Slots) -> list[int]:
    """List where requests start: at users, and at custom messages that belong to none."""
    starts: list[int] = []
    asked = False
    for at, slot in enumerate(slots):
        if slot.outgoing:
            continue
        role = _role(slot)
        if role == "user" or (role == "custom" and not asked):
            starts.append(at)
        asked = role == "user" or (role == "custom" and asked)
    return starts


def _request(turn: Slots) -> int:
    """Find the end of a turn's request: the start, and what was injected behind a user."""
    end = 1
    if _role(turn[0]) == "user":
        while end < len(turn) and (turn[end].outgoing or _role(turn[end]) == "custom"):
            end += 1
    return end


def _units(slots: Slots) -> tuple[Unit, ...]:
    """Divide what stands in front of the first request: exchanges and single messages."""
    units: list[Unit] = []
    at = 0
    while at < len(slots):
        end = _results(slots, at) if _role(slots[at]) == "assistant" else at + 1
        units.append(Unit("prefix", slots[at:end], slots[at:end]))
        at = end
    return tuple(units)


def _active(turn: Slots) -> Active:
    at = _request(turn)
    envelope = turn[:at]
    exchanges: list[Unit] = []
    trailing: list[Slot] = []
    while at < len(turn):
        slot = turn[at]
        if slot.outgoing:
            trailing.append(slot)
            at += 1
        elif _role(slot) == "assistant":
            end = _results(turn, at)
            exchanges.append(Unit("partialTurn", turn[at:end], turn[at : at + 1]))
            at = end
        else:
            raise _broken(f"message {slot.at} can't stand in the active turn")
    return Active(envelope, tuple(exchanges), trailing)


def group(slots: Slots) -> Groups:
    """Divide a request whose structure was checked.

    Raises:
        SelectionError: `invalid-message-structure`: something else than exchanges and injected
            messages in the active turn (fault W2).
    """
    starts = _starts(slots)
    if not starts:
        return Groups(_units(slots), (), None)
    turns = [slots[a:b] for a, b in pairwise(starts)]
    completed = tuple(Unit("completedTurn", turn, turn) for turn in turns)
    return Groups(_units(slots[: starts[0]]), completed, _active(slots[starts[-1] :]))


def _matches(key: CutKey, slot: Slot, history: RawHistory) -> bool:
    if key.call is not None and key.call not in call_ids(slot.message):
        return False
    found = history.key(slot.message)
    return found is not None and found.history == key.history


def _rest(turn: Slots, anchor: int) -> Unit:
    """Give what is left of a turn that was cut behind an exchange while it was active."""
    request = _request(turn)
    tail = [slot for slot in turn[_results(turn, anchor) :] if not slot.outgoing]
    injected = [slot for slot in turn[request:] if slot.outgoing]
    return Unit("completedTurn", [*turn[:request], *tail, *injected], turn)


def apply_cut(groups: Groups, frontier: Frontier, history: RawHistory) -> Groups | None:
    """Take out of a request what a remembered cut took; None where its place isn't found once."""
    key = frontier.last
    if frontier.kind != "partialTurn":
        units = groups.prefixes if frontier.kind == "prefix" else groups.completed
        places = [n for n, u in enumerate(units) for s in u.slots if _matches(key, s, history)]
        if len(places) != 1:
            return None
        behind = units[places[0] + 1 :]
        if frontier.kind == "prefix":
            return groups._replace(prefixes=behind)
        return Groups((), behind, groups.active)
    found = [
        (turn, at)
        for turn, unit in enumerate((*groups.completed, *_exchanges(groups)))
        for at, slot in enumerate(unit.slots)
        if _role(slot) == "assistant" and _matches(key, slot, history)
    ]
    if len(found) != 1:
        return None
    (turn, at), done = found[0], len(groups.completed)
    if turn < done:
        rest = _rest(groups.completed[turn].slots, at)
        return Groups((), (rest, *groups.completed[turn + 1 :]), groups.active)
    active = groups.active
    if active is None or not _asks(active, frontier.user, history):
        return None
    return Groups((), (), active._replace(exchanges=active.exchanges[turn - done + 1 :]))


def _exchanges(groups: Groups) -> tuple[Unit, ...]:
    return () if groups.active is None else groups.active.exchanges


def _asks(active: Active, user: str | None, history: RawHistory) -> bool:
    """Say whether the active request is the one that a frontier names, if it names one."""
    if user is None:
        return True
    key = history.key(active.envelope[0].message)
    return key is not None and key.history == user
