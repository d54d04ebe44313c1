"""What a session holds and what it cost so far: a report as data and as text.

Figures that nobody reported are unavailable, never zero (specification of the paging system,
section 11). History and cache totals cover all branches; the input is that of the latest request
on the path.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from attrs import frozen

from ctxalgebra.calibration import estimate
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_callable, check_type
from ctxalgebra.model.entries import Replace, Reply, Sent, UsageReport
from ctxalgebra.model.head import Usage
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Node, Session, at_leaf, check_session, log
from ctxalgebra.model.view import Measure, weigh
from ctxalgebra.tokens import chars4, check_positive

__all__ = ["UNAVAILABLE", "Stats", "stats", "thousands"]

UNAVAILABLE = "unavailable"

_UNITS = ((1024 * 1024, "MiB"), (1024, "KiB"))
_LABEL = 21


def thousands(number: float) -> str:
    """Write a number in groups of three digits, with at most three decimals.

    >>> thousands(1600.5), thousands(128_000)
    ('1,600.5', '128,000')
    """
    if number == int(number):
        return f"{int(number):,}"
    rounded = Decimal(repr(number)).quantize(Decimal("0.001"), ROUND_HALF_UP)
    return f"{rounded:,f}".rstrip("0").removesuffix(".")


def _count(number: float | None, *, about: bool = False) -> str:
    return UNAVAILABLE if number is None else f"{'~' if about else ''}{thousands(number)}"


@frozen
class Stats:
    """Report on a session. Tokens, but for `stored`; None is unavailable.

    Args:
        enabled: whether history is paged.
        stored: bytes of the file.
        history: what all recorded messages weigh, estimated.
        input: of the latest request; `estimated` when nobody reported it.
        budget: most that a request may have, the window considered.
        window: of the model.
        read, written: what was read from and written to the provider's cache, all requests.
    """

    enabled: bool
    stored: int | None
    history: int
    input: float | None
    estimated: bool
    budget: float
    window: float | None
    read: int | None
    written: int | None

    @property
    def note(self) -> str:
        """Say behind the budget how much of it the latest request took; empty when unknown."""
        if not self.enabled:
            return "inactive"
        if self.input is None:
            return ""
        used = Decimal(self.input / self.budget * 100).quantize(Decimal("0.1"), ROUND_HALF_UP)
        return f"{used}% used"

    @property
    def size(self) -> str:
        """Write the size of the file.

        >>> Stats(True, 1536, 0, None, False, 1, None, 0, 0).size
        '1.50 KiB'
        """
        if self.stored is None:
            return UNAVAILABLE
        for unit, name in _UNITS:
            if self.stored >= unit:
                return f"{self.stored / unit:.2f} {name}"
        return f"{self.stored} B"

    def rows(self) -> dict[str, str]:
        """Give all figures as texts, by their labels, in the order of the report."""
        return {
            "Stored size": self.size,
            "History tokens": _count(self.history, about=True),
            "Input tokens": _count(self.input, about=self.estimated),
            "Paging budget": _count(self.budget),
            "Model window": _count(self.window),
            "Tokens read": _count(self.read),
            "Tokens written": _count(self.written),
        }

    def text(self) -> str:
        """Write the report.

        >>> print(Stats(True, None, 101, 145, False, 5000, 5000, 131, 22).text())
        Context paging: on
        <BLANKLINE>
        SESSION — complete saved history
          Stored size          unavailable
          History tokens       ~101
        <BLANKLINE>
        CONTEXT — latest model request
          Input tokens         145
          Paging budget        5,000   (2.9% used)
          Model window         5,000
        <BLANKLINE>
        CACHE — whole-session totals
          Tokens read          131
          Tokens written       22
        """
        rows = self.rows()
        if self.note:
            rows["Paging budget"] += f"   ({self.note})"
        lines = [f"  {label:<{_LABEL}}{value}" for label, value in rows.items()]
        return "\n".join(
            [
                f"Context paging: {'on' if self.enabled else 'off'}",
                "",
                "SESSION — complete saved history",
                *lines[:2],
                "",
                "CONTEXT — latest model request",
                *lines[2:5],
                "",
                "CACHE — whole-session totals",
                *lines[5:],
            ]
        )


def _request(node: Node) -> int:
    """Find the request that a reply closed."""
    before = node.parent
    while before is not None and type(before.entry) is not Sent:
        before = before.parent
    return -1 if before is None else before.number


def _reports(session: Session) -> tuple[dict[int, Usage | None], list[Message]]:
    """Gather what was reported of each request, None where a reply says nothing; all messages."""
    usage: dict[int, Usage | None] = {}
    messages: list[Message] = []
    for node in log(session):
        match node.entry:
            case Message() as message:
                messages.append(message)
            case Replace(message=message):
                messages.append(message)
            case Reply() as reply:
                sent = _request(node)
                if reply.message is not None:
                    messages.append(reply.message)
                if reply.outcome == "completed" or reply.usage is not None:
                    usage[sent] = reply.usage or usage.get(sent)
            case UsageReport() as report:
                usage[report.sent] = report.usage
            case _:
                pass
    return usage, messages


def stats(
    session: Session,
    *,
    budget: int,
    window: int | None = None,
    enabled: bool = True,
    stored: int | None = None,
    measure: Measure = chars4,
) -> Stats:
    """Report on a session (a query; records nothing).

    History is what was recorded on all branches, replaced and replacing messages alike, in plain
    measured tokens. The input is what the provider reported of the latest request on the path, or
    else its calibrated estimate; it is unavailable before the first request, and once the session
    goes to another model. Cache totals add up each request of the journal once. They are
    unavailable as soon as one completed reply came without usage, and where no report has any
    token of the cache: then nobody told, as with tokens written where none ever are.

    Args:
        budget: most input tokens of a request, as for `select`.
        window: the model's context window in tokens.
        enabled: whether history is paged.
        stored: size of the file in bytes, where the caller knows it.
        measure: tokens of a message or head.

    Reads: the whole journal, at each call.

    Raises:
        InvalidArgument: `invalid-argument`, `wrong-type`.

    >>> from ctxalgebra import *
    >>> session, _ = send(record(Session(), user("x" * 400)))
    >>> session = reply(session, "completed", assistant("ok"), usage=Usage(145, 9, 120, 20))
    >>> told = stats(session, budget=128_000, window=5_000)
    >>> told.history, told.input, told.note, told.read
    (101, 145, '2.9% used', 120)
    """
    check_session(session)
    check_positive(budget=budget)
    check_positive(optional=True, window=window)
    check_type(enabled, bool, "enabled")
    check_callable(measure, "measure")
    if stored is not None:
        check_type(stored, int, "stored")
        if stored < 0:
            raise InvalidArgument("invalid-argument", "a size is not negative", field="stored")
    usage, messages = _reports(session)
    view = session.view
    tokens: int | None = None
    estimated = False
    if view.sent is not None and view.sent.head.route == view.head.route:
        reported = usage.get(view.sent.number)
        estimated = reported is None or not reported.input
        if reported is not None and not estimated:
            tokens = reported.input
        else:
            tokens = estimate(at_leaf(session, view.sent.number), measure=measure)
    told = [found for found in usage.values() if found is not None]
    read = sum(found.cache_read for found in told)
    written = sum(found.cache_write for found in told)
    whole = len(told) == len(usage)
    return Stats(
        enabled,
        stored,
        sum(weigh(measure, message) for message in messages),
        tokens,
        estimated,
        budget if window is None else min(budget, window),
        window,
        read if whole and (read or written or not told) else None,
        written if whole and (written or not told) else None,
    )
