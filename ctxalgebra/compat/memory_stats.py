"""How the original working memory counts what it saved: a value, and what each event makes of it.

What it counts is not what is spared: an omission of one request counts as if it lasted, and what
comes back is not taken off (fault W16). `ctxalgebra` counts in its own way (specification of the
working memory, section 9).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from attrs import evolve, field, frozen

__all__ = [
    "KEPT_TURNS",
    "Counter",
    "begin_turn",
    "end_turn",
    "record_amnesia",
    "record_bash",
    "record_write",
    "restore",
    "set_lazy",
]

Number: TypeAlias = "int | float"
Record: TypeAlias = Mapping[str, Any]

KEPT_TURNS = 40
"""How many turns an entry holds."""

_PARTS = ("bash", "amnesia", "lazy", "write")
_ZERO: Mapping[str, Number] = MappingProxyType(dict.fromkeys((*_PARTS, "total"), 0))


@frozen
class Counter:
    """Hold what was saved, in tokens.

    Args:
        turn: number of the turn.
        current: by mechanism, in this turn.
        pending: what lazy tools spared since the last turn.
        cumulative: by mechanism and in total, over all turns.
        turns: a record for each turn, the oldest first.
        entry: what the end of the last turn wrote down; None before there was one.
    """

    turn: Number = 0
    current: Mapping[str, Number] = field(factory=lambda: _ZERO)
    pending: Number = 0
    cumulative: Mapping[str, Number] = field(factory=lambda: _ZERO)
    turns: tuple[Record, ...] = ()
    entry: Record | None = None


def _plus(counter: Counter, part: str, saved: Number) -> Counter:
    return evolve(counter, current={**counter.current, part: counter.current[part] + saved})


def begin_turn(counter: Counter, turn: Number) -> Counter:
    """Begin a turn with nothing saved."""
    return evolve(counter, turn=turn, current=_ZERO)


def record_bash(counter: Counter, before: Number, after: Number) -> Counter:
    """Count a digest, from tokens before and after; a longer one saves nothing."""
    return _plus(counter, "bash", max(0, before - after))


def record_write(counter: Counter, before: Number, after: Number) -> Counter:
    """Count a fact as `record_bash` counts a digest."""
    return _plus(counter, "write", max(0, before - after))


def record_amnesia(counter: Counter, saved: Number) -> Counter:
    """Count what was pruned, as it is."""
    return _plus(counter, "amnesia", saved)


def set_lazy(counter: Counter, spared: Number) -> Counter:
    """Note what lazy tools spare; the largest number since the last turn counts."""
    return evolve(counter, pending=max(counter.pending, spared))


def end_turn(counter: Counter) -> Counter:
    """Add a turn up, and write an entry.

    >>> done = end_turn(record_bash(begin_turn(Counter(), 3), 50, 10))
    >>> done.turns[0]["bash"], done.cumulative["total"], done.turns[0]["turn"]
    (40, 40, 3)
    """
    parts = {part: counter.current[part] for part in _PARTS} | {"lazy": counter.pending}
    turn = {"turn": counter.turn, **parts, "total": sum(parts.values())}
    cumulative = {name: counter.cumulative[name] + turn[name] for name in _ZERO}
    turns = (*counter.turns, turn)
    entry = {"cumulative": cumulative, "turns": list(turns[-KEPT_TURNS:])}
    return evolve(
        counter, current=parts, pending=0, cumulative=cumulative, turns=turns, entry=entry
    )


def _number(value: object) -> Number:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def restore(counter: Counter, record: object) -> Counter:
    """Take up what an entry says; one without totals says nothing.

    Args:
        counter: what was counted.
        record: the entry's data; a number that lacks is 0.

    >>> restore(Counter(), {"cumulative": {"bash": 5}}).cumulative["bash"]
    5
    """
    members = cast("dict[str, Any]", record) if isinstance(record, dict) else {}
    totals = members.get("cumulative")
    if not isinstance(totals, dict):
        return counter
    known = cast("Record", totals)
    turns = members.get("turns")
    listed = tuple(cast("list[Record]", turns)) if isinstance(turns, list) else ()
    cumulative = {name: _number(known.get(name)) for name in _ZERO}
    return evolve(counter, cumulative=cumulative, turns=listed)
