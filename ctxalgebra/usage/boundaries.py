"""The ledger of requests and folds: a reducer that makes the rows of a log.

Whoever keeps the log writes the rows; nothing here depends on whether a gauge is shown (travel,
section 17).
"""

from __future__ import annotations

from math import floor, isfinite
from typing import Literal

from attrs import evolve, frozen

from ctxalgebra.model.layers import Layers
from ctxalgebra.usage.budget import Number

__all__ = ["Boundary", "Folded", "Requests", "begun", "folded", "whole"]

_NONE: Layers[str, int] = Layers()


@frozen
class Requests:
    """Count the requests of the user, each with its number, and the folds of a session."""

    seen: Layers[str, int] = _NONE
    folds: int = 0

    @property
    def count(self) -> int:
        """How many requests there were."""
        return len(self.seen)


@frozen
class Boundary:
    """A row: a request of the user began. Percentages are whole, None where they are not known."""

    ordinal: int
    budget: int | None
    window: int | None
    fold_turn: int | None
    fold_task: int | None
    folds: int


@frozen
class Folded:
    """A row: a fold, or a restore, which shows more messages than before."""

    direction: Literal["fold", "restore"]
    after: int
    before_percent: int | None
    after_percent: int | None


def whole(number: Number | None) -> int | None:
    """Round a number down; None for what is none.

    >>> whole(12.9), whole(None), whole(float("nan"))
    (12, None, None)
    """
    return floor(number) if number is not None and isfinite(number) else None


def begun(
    state: Requests,
    request: str | None,
    *,
    budget: Number | None = None,
    window: Number | None = None,
    fold_turn: Number | None = None,
    fold_task: Number | None = None,
) -> tuple[Requests, Boundary | None]:
    """Take note of the request that is worked on; a row when it is seen for the first time.

    Args:
        request: whatever names the user message; None for none.
        budget, window: percent of the working budget and of the window.
        fold_turn, fold_task: percent of the working budget behind a fold.

    >>> state, row = begun(Requests(), "u1", budget=12.9, window=5.1)
    >>> row.ordinal, row.budget, begun(state, "u1")[1]
    (1, 12, None)
    """
    if request is None or request in state.seen:
        return state, None
    state = evolve(state, seen=state.seen.put(request, state.count + 1))
    numbers = (whole(budget), whole(window), whole(fold_turn), whole(fold_task))
    return state, Boundary(state.count, *numbers, state.folds)


def folded(
    state: Requests,
    *,
    removed: Number = 0,
    before: Number | None = None,
    after: Number | None = None,
) -> tuple[Requests, Folded]:
    """Take note of a travel that was applied.

    Args:
        removed: how many messages fewer are shown; negative where there are more.
        before, after: percent of the working budget.

    >>> folded(Requests(), removed=-3, before=10.5)[1]
    Folded(direction='restore', after=0, before_percent=10, after_percent=None)
    """
    direction: Literal["fold", "restore"] = "restore" if removed < 0 else "fold"
    row = Folded(direction, state.count, whole(before), whole(after))
    return evolve(state, folds=state.folds + 1), row
