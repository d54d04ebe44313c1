"""The gauge's line and when it is shown: a reducer, and the points to which one could fold.

The line is added to the result of a tool, so that the model knows how full its window is where it
decides what to do next (travel, section 15).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite
from typing import NamedTuple

from attrs import frozen

from ctxalgebra.model.layers import Layers
from ctxalgebra.usage.budget import Number, percent_text

__all__ = ["Due", "Needle", "Odometer", "due", "fold_points", "gauge_text", "restarted"]

_NONE: Layers[str, int] = Layers()


@frozen
class Odometer:
    """Remember what was shown.

    Args:
        shown: the whole percent that was shown last; None before the first.
        seen: requests of the user whose boundary was marked, and the percent that it was at.
    """

    shown: int | None = None
    seen: Layers[str, int] = _NONE


class Due(NamedTuple):
    """Say whether the gauge is shown, and whether with the mark of a new request."""

    show: bool
    boundary: bool


def due(state: Odometer, percent: Number, request: str | None) -> tuple[Due, Odometer]:
    """Say what is due at a pressure, and what to remember once it has been shown.

    Shown where the whole percent is another one, and at the first reading of a request. What can't
    be delivered is not remembered: go on with the state as it was.

    Args:
        percent: the pressure; one that is no number is not shown.
        request: the user message that is being worked on, by whatever names it.

    >>> first, state = due(Odometer(), 10.2, "u1")
    >>> first, due(state, 10.9, "u1")[0], due(state, 11.0, "u1")[0]
    (Due(show=True, boundary=True), Due(show=False, boundary=False), Due(show=True, boundary=False))
    """
    if not isfinite(percent) or percent < 0:
        return Due(show=False, boundary=False), state
    new, whole = request is not None and request not in state.seen, floor(percent)
    if not new and whole == state.shown:
        return Due(show=False, boundary=False), state
    seen = state.seen if request is None or not new else state.seen.put(request, whole)
    return Due(show=True, boundary=new), Odometer(whole, seen)


def restarted(state: Odometer) -> Odometer:
    """Show the next reading in any case, as behind a travel; marks that were shown stay so.

    >>> due(restarted(due(Odometer(), 11, "u1")[1]), 11, "u1")[0]
    Due(show=True, boundary=False)
    """
    return Odometer(None, state.seen)


@frozen
class Needle:
    """Point at where a fold would lead: the pressure then, and how many messages fewer."""

    percent: Number
    removed: int = 0


def gauge_text(
    reading: str,
    *,
    boundary: bool = False,
    points: int | None = None,
    turn: Needle | None = None,
    task: Needle | None = None,
) -> str:
    r"""Write the gauge's line; what is not known is left out.

    Args:
        reading: see `segments`.
        boundary: this is the first reading of a request.
        points: how many entries of the path have a name.
        turn, task: where a fold to the last turn, or to the beginning of the task, would lead.

    >>> gauge_text("10% window · 10K/100K", points=1, turn=Needle(5.99, 1))
    '\n[ctx 10% window · 10K/100K · 1pts · fold@turn→5% -1msg]'
    """
    parts = [reading]
    if boundary:
        parts.append("boundary")
    if points is not None:
        parts.append(f"{points}pts")
    for name, needle in (("turn", turn), ("task", task)):
        if needle is not None:
            gone = f" -{needle.removed}msg" if needle.removed >= 1 else ""
            parts.append(f"fold@{name}→{percent_text(needle.percent)}%{gone}")
    return f"\n[ctx {' · '.join(parts)}]"


def fold_points(
    users: Sequence[int], named: Sequence[int], without: int | None = None
) -> tuple[int | None, int | None]:
    """Choose where a fold could lead: behind the last turn, and to the beginning of the task.

    The turn is the nearest entry in front of the last user message that has a name or is a user
    message; the task the first entry with a name, else the first user message, unless that is
    the turn, too.

    Args:
        users: places of the user messages on a path, in order.
        named: places of entries that have a name.
        without: a place that is not to be chosen.

    >>> fold_points([0, 3, 5], [0])
    (3, 0)
    """
    last = users[-1] if users else None
    nearer = [at for at in (*users, *named) if at != without and (last is None or at < last)]
    turn = max(nearer, default=None)
    first = min((at for at in named if at != without), default=None)
    if first is None:
        first = next((at for at in users if at != without), None)
    return turn, None if first == turn else first
