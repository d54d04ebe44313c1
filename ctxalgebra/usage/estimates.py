"""What a context costs when its messages are replaced: by travel, by a fold, by a cut.

Of what was used, what the messages measure is taken out and what stands there then is put in
(travel, section 15). On sessions `calibration` knows more: what each message was billed.
"""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ctxalgebra.calibration import Calibration, calibrate, costs, estimate
from ctxalgebra.model.session import Session
from ctxalgebra.model.view import Measure
from ctxalgebra.tokens import chars4
from ctxalgebra.usage.budget import Number, Reading

__all__ = ["HANDOFF", "Moved", "moved", "pressure_at", "pressure_of", "replaced"]

HANDOFF = 400
"""Tokens that a handoff is expected to cost, wherever a fold is estimated before it is written."""


def replaced(used: Number, before: Number, after: Number, extra: Number = 0) -> Number:
    """Estimate usage when messages are replaced by others.

    What was used beyond the messages stays: system text, tools. Where less was used than the
    messages measure, they measure too much, and what comes is scaled alike.

    Args:
        used: tokens that were used; 0 where nobody knows.
        before, after: what the messages measure, in tokens.
        extra: tokens that come on top.

    >>> replaced(50_000, 30_000, 2_000, 400)
    22400
    >>> replaced(50_000, 60_000, 30_000)
    25000
    """
    if used >= before or used <= 0:
        return max(used - before, 0) + after + extra
    return -(-after * used // before) + extra


def pressure_of(session: Session, *, window: int, measure: Measure = chars4) -> Reading:
    """Read how full the window is with the next request (a query; records nothing).

    From the last usage that was reported on the path, and a calibrated estimate of what came behind
    it; without a report all is estimated.

    Args:
        window: the model's context window in tokens.
        measure: tokens of a message or head.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, no positive window.

    >>> from ctxalgebra import *
    >>> session, _ = send(record(Session(), user("x" * 400)))
    >>> session = reply(session, "completed", assistant("ok"), usage=Usage(60_000, 1))
    >>> print(pressure_of(record(session, user("on")), window=200_000))
    30% window · 60K/200K
    """
    return Reading(estimate(session, measure=measure), window)


def pressure_at(
    session: Session, there: Session, *, window: int, measure: Measure = chars4
) -> Reading:
    """Read how full the window would be elsewhere in a session, by what is known here.

    Where no report tells of the path there, the messages that both show cost what they were billed
    here, and the others are scaled as here: so a fold never seems to cost more than what it
    replaces (W10).

    Args:
        session: where one is.
        there: where one would go, see `events.travel`.
        window: the model's context window in tokens.
        measure: tokens of a message or head.

    Raises:
        InvalidArgument: as `pressure_of`.

    >>> from ctxalgebra import *
    >>> session, _ = send(record(Session(), user("x" * 8000)))
    >>> session = reply(session, "completed", assistant("ok"), usage=Usage(600, 1))
    >>> pressure_at(session, at_leaf(session, 0), window=10_000).tokens
    600
    """
    if calibrate(there, measure=measure) != Calibration():
        return pressure_of(there, window=window, measure=measure)
    known, now, then = costs(session, measure=measure), session.view, there.view
    same, most = 0, min(now.end, then.end)
    if then.slots is now.slots:
        same = most
    while same < most and now.slots.messages[same] == then.slots.messages[same]:
        same += 1
    rest = then.slots.total(measure, then.end) - then.slots.total(measure, same)
    return Reading(known.head + known.sums[same] + known.fit.scaled(rest), window)


@frozen
class Moved:
    """Compare two contexts: readings, and how many messages they show.

    >>> moved = Moved(Reading(900, 1000), Reading(400, 1000), 7, 5)
    >>> moved.direction, moved.removed
    ('decreased', 2)
    """

    before: Reading
    after: Reading
    shown_before: int
    shown_after: int

    @property
    def removed(self) -> int:
        """How many messages fewer are shown; negative where there are more."""
        return self.shown_before - self.shown_after

    @property
    def direction(self) -> Literal["decreased", "increased", "equal"]:
        """What became of the number of messages, wherever the other context lies."""
        if not self.removed:
            return "equal"
        return "decreased" if self.removed > 0 else "increased"


def moved(before: Session, after: Session, *, window: int, measure: Measure = chars4) -> Moved:
    """Compare what two sessions show: before and after a travel, a cut, a fold.

    Counts what is shown; a call without a result counts as the one message that it is. What comes
    after is read by what is known before, see `pressure_at`.

    Raises:
        InvalidArgument: as `pressure_of`.

    >>> from ctxalgebra import Session, at_leaf, record, user
    >>> session = record(Session(), user("a"), user("b"))
    >>> moved(session, at_leaf(session, 0), window=1000).direction
    'decreased'
    """
    first = pressure_of(before, window=window, measure=measure)
    second = pressure_at(before, after, window=window, measure=measure)
    return Moved(first, second, before.view.end, after.view.end)
