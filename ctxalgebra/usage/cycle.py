"""The cycle of reminders as a reducer: each tier once, until the context is another one.

Within a cycle only a tier that is higher than all before it is due, and of several at once the
highest. Usage that falls arms nothing again. A context that was replaced begins a new cycle, whose
first usage that a provider reported is its baseline and reminds of nothing (travel, section 18).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from attrs import evolve, frozen

from ctxalgebra.usage.budget import TIERS, Number, tier

__all__ = ["Cycle", "observe", "renewed", "restore", "take"]


@frozen
class Cycle:
    """Hold the state of a cycle.

    Args:
        highest: the highest tier that was reached; 0 for none.
        waiting: the context was replaced, and its baseline is not known yet.
        due: the tier of the reminder that is due; 0 for none.
    """

    highest: int = 0
    waiting: bool = False
    due: int = 0


def observe(state: Cycle, percent: Number, *, establish: bool = False) -> tuple[Cycle, int | None]:
    """Take note of a pressure.

    Args:
        percent: of the working budget.
        establish: a provider reported it, so it may be a baseline.

    Returns:
        The state, and the baseline where this is one.

    >>> state, _ = observe(Cycle(), 55)
    >>> state.due, observe(state, 71)[0].due
    (50, 70)
    >>> observe(renewed(), 55, establish=True)
    (Cycle(highest=50, waiting=False, due=0), 50)
    """
    reached = tier(percent)
    if state.waiting:
        return (Cycle(reached), reached) if establish else (state, None)
    if reached > state.highest:
        return evolve(state, highest=reached, due=reached), None
    return state, None


def take(state: Cycle) -> tuple[Cycle, int]:
    """Take the reminder that is due, 0 for none.

    >>> take(Cycle(50, due=50))
    (Cycle(highest=50, waiting=False, due=0), 50)
    """
    return evolve(state, due=0), state.due


def renewed() -> Cycle:
    """Begin a new cycle: the context was replaced.

    >>> renewed().waiting
    True
    """
    return Cycle(waiting=True)


def restore(records: Iterable[tuple[Literal["boundary", "baseline", "reminder"], object]]) -> Cycle:
    """Give the state that the records of a path tell of.

    Args:
        records: in order: boundaries, baselines with the tier that was reached, reminders with
            theirs. Whose tier is none is passed over.

    >>> restore([("reminder", 70), ("boundary", None), ("baseline", 30)])
    Cycle(highest=30, waiting=False, due=0)
    """
    state = Cycle()
    for kind, level in records:
        if kind == "boundary":
            state = renewed()
        elif isinstance(level, bool) or not isinstance(level, int | float):
            continue
        elif level in TIERS or (kind == "baseline" and level == 0):
            state = Cycle(max(state.highest, int(level)))
    return state
