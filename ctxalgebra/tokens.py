"""Measures of messages in tokens, and their calibration by what the provider reported.

All numbers are integers; estimates round up, limits and targets down.
"""

from __future__ import annotations

from functools import lru_cache

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_callable, mistyped
from ctxalgebra.model.entries import Reply, UsageReport
from ctxalgebra.model.head import Head, Route, Usage
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Fold, Node, Session, fold
from ctxalgebra.model.view import Measure, View

__all__ = ["Calibration", "Measure", "calibrate", "ceil_div", "chars4", "estimate"]


def ceil_div(numerator: int, denominator: int) -> int:
    """Divide, rounding up: the one rounding rule.

    >>> ceil_div(7, 4)
    2
    """
    return -(-numerator // denominator)


def chars4(value: Message | Head) -> int:
    """Estimate tokens as a quarter of the characters (code points), rounded up per message.

    Counts what `Message.characters` and `Head.characters` count. The host's rule counts UTF-16
    units instead (specification of the host's format, section 6).

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import user
    >>> chars4(user("12345"))
    2
    """
    try:
        return ceil_div(value.characters, 4)
    except AttributeError:
        raise mistyped(value, "a message or a head", "value") from None


@frozen
class Calibration:
    """Correct a measure by what a provider reported.

    Args:
        overhead: tokens by which the head costs more (or less) than it measures.
        numerator, denominator: the scale of messages.
    """

    overhead: int = 0
    numerator: int = 1
    denominator: int = 1

    def estimate(self, head: int, messages: int) -> int:
        """Estimate the input tokens of a request from what its head and messages measure.

        >>> Calibration(300, 4, 1).estimate(100, 2000)
        8400
        """
        return max(head + self.overhead, 0) + self.scaled(messages)

    def scaled(self, messages: int) -> int:
        """Scale what messages measure."""
        return ceil_div(messages * self.numerator, self.denominator)


NEUTRAL = Calibration()


_Fitted = tuple[Route, Calibration]


@lru_cache(maxsize=64)
def _calibration(measure: Measure) -> Fold[_Fitted | None]:
    check_callable(measure, "measure")

    def step(known: _Fitted | None, node: Node, view: View) -> _Fitted | None:
        entry, sent = node.entry, view.sent
        usage: Usage | None = None
        if type(entry) is Reply:
            usage = entry.usage if entry.outcome == "completed" else None
        elif type(entry) is UsageReport and sent is not None and entry.sent == sent.number:
            usage = entry.usage
        if sent is None or usage is None or not usage.input:
            return known
        route, before = sent.head.route, None
        if known is not None and (known[0] is route or known[0] == route):
            before = known[1]
        messages = sent.slots.total(measure, sent.end)
        return route, _fit(before, measure(sent.head), messages, usage.input)

    nothing: _Fitted | None = None
    return Fold("calibration", nothing, step, reads=(Reply, UsageReport))


def _fit(known: Calibration | None, head: int, messages: int, reported: int) -> Calibration:
    """Split the difference between report and measure over head and messages.

    At first in proportion; later the head's part never rises above what it was, since a head
    doesn't grow with the conversation (specification of the paging system, section 6).
    """
    if not messages:
        return Calibration(reported - head)
    surplus = reported - head - messages
    overhead = ceil_div(surplus * head, head + messages)
    if known is not None:
        overhead = min(known.overhead, surplus if surplus > 0 else overhead)
    return Calibration(overhead, reported - head - overhead, messages)


def calibrate(session: Session, *, measure: Measure = chars4) -> Calibration:
    """Fit the measure to the usage that providers reported on this path (a query; records nothing).

    Reads: completed replies with usage, and late reports for the latest request. Without any, the
    calibration is neutral. The first report of another route starts anew; until it comes, what
    fitted the earlier route stands in.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import *
    >>> session = record(Session(), Head(system="s" * 400), user("x" * 8000))
    >>> session, _ = send(session)
    >>> session = reply(session, "completed", assistant("ok"), usage=Usage(input=8400))
    >>> calibrate(session)
    Calibration(overhead=300, numerator=8000, denominator=2000)
    """
    try:
        what = _calibration(measure)
    except TypeError:  # what was measured is remembered by the measure
        raise mistyped(measure, "a function that can be hashed", "measure") from None
    known = fold(session, what)
    return NEUTRAL if known is None else known[1]


def estimate(session: Session, *, measure: Measure = chars4) -> int:
    """Estimate the input tokens of the request that `project` gives now, calibrated.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, record, user
    >>> estimate(record(Session(), user("12345")))
    2
    """
    fit = calibrate(session, measure=measure)
    view = session.view
    return fit.estimate(measure(view.head), view.slots.total(measure, view.end))


def check_positive(*, optional: bool = False, **values: int | None) -> None:
    """Refuse numbers of tokens that are no positive integers; None passes where it is optional."""
    for name, value in values.items():
        if value is None and optional:
            continue
        if type(value) is not int or value <= 0:
            raise InvalidArgument(
                "invalid-argument", f"{name} must be a positive integer, not {value!r}", field=name
            )
