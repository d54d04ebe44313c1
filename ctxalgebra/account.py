"""What requests cost, and what would become of them: breaks, account, dry_run."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from attrs import evolve, frozen

from ctxalgebra.model.checks import check_callable, mistyped
from ctxalgebra.model.entries import Entry, Reply, Sent, UsageReport
from ctxalgebra.model.head import Usage
from ctxalgebra.model.session import Fold, Node, Session, check_session, fold
from ctxalgebra.model.view import Break, Measure, View, step, weigh
from ctxalgebra.tokens import chars4

__all__ = ["Account", "DryRun", "PricedBreak", "account", "breaks", "dry_run", "split"]


NOTHING = Usage()


@frozen
class PricedBreak:
    """Price a break: `rebilled` tokens were in the request before and are sent anew."""

    sent: int
    at: int
    why: str
    by: tuple[int, ...]
    rebilled: int


@frozen
class Account:
    """Sum up requests, in measured tokens and in what providers reported.

    `input = shared + rebilled + fresh` always holds.

    Args:
        requests, completed: how many were sent, and how many came to a completed reply.
        input: measured tokens of all requests.
        shared: of these, the prefix that each request has in common with the one before it.
        rebilled: what both requests hold, behind the break that parts them.
        fresh: what the earlier request did not hold.
        breaks: each break with its price, oldest first.
        usage: the sum of what providers reported, each request once.
    """

    requests: int = 0
    completed: int = 0
    input: int = 0
    shared: int = 0
    rebilled: int = 0
    fresh: int = 0
    breaks: tuple[PricedBreak, ...] = ()
    usage: Usage = NOTHING


def split(view: View, measure: Measure) -> tuple[int, int, int]:
    """Split the tokens of the request sent at this view into shared, rebilled and fresh."""
    head = weigh(measure, view.head)
    slots, end, sent = view.slots, view.end, view.sent
    total = head + slots.total(measure, end)
    if sent is None or sent.before < 0:
        return 0, 0, total
    shared = head + slots.total(measure, sent.shared) if sent.shared >= 0 else 0
    rebilled = 0
    if view.broke is not None:
        rebilled = head if sent.shared < 0 else 0
        for index in range(max(sent.shared, 0), end):
            if slots.numbers[index] < sent.before:
                rebilled += weigh(measure, slots.messages[index])
    return shared, rebilled, total - shared - rebilled


def _plus(a: Usage, b: Usage, sign: int = 1) -> Usage:
    return Usage(
        a.input + sign * b.input,
        a.output + sign * b.output,
        a.cache_read + sign * b.cache_read,
        a.cache_write + sign * b.cache_write,
    )


def _request(reply: Node) -> int:
    """Find the request that a reply closed."""
    node = reply.parent
    while node is not None and type(node.entry) is not Sent:
        node = node.parent
    return -1 if node is None else node.number


def _reported(node: Node, sent: int) -> tuple[Usage | None, bool]:
    """Find what was told of a request before `node`: the latest usage, and whether it completed.

    A reply on another branch may have closed it before, and reports may come late.
    """
    usage: Usage | None = None
    completed = False
    earlier = node.previous
    while earlier is not None and earlier.number > sent:
        entry = earlier.entry
        if type(entry) is UsageReport and entry.sent == sent:
            usage = usage or entry.usage
        elif type(entry) is Reply and _request(earlier) == sent:
            usage = usage or entry.usage
            completed = completed or entry.outcome == "completed"
        earlier = earlier.previous
    return usage, completed


@lru_cache(maxsize=64)
def _accounts(measure: Measure) -> Fold[Account]:
    check_callable(measure, "measure")

    def step_account(known: Account, node: Node, view: View) -> Account:
        entry = node.entry
        if type(entry) is Sent:
            shared, rebilled, fresh = split(view, measure)
            broken = known.breaks
            if (broke := view.broke) is not None:
                broken += (PricedBreak(broke.sent, broke.at, broke.why, broke.by, rebilled),)
            return Account(
                known.requests + 1,
                known.completed,
                known.input + shared + rebilled + fresh,
                known.shared + shared,
                known.rebilled + rebilled,
                known.fresh + fresh,
                broken,
                known.usage,
            )
        if type(entry) is Reply:
            before, completed = _reported(node, _request(node))
            usage = known.usage if entry.usage is None else _plus(known.usage, entry.usage)
            if entry.usage is not None and before is not None:
                usage = _plus(usage, before, -1)
            return Account(
                known.requests,
                known.completed + (entry.outcome == "completed" and not completed),
                known.input,
                known.shared,
                known.rebilled,
                known.fresh,
                known.breaks,
                usage,
            )
        if type(entry) is UsageReport:
            usage = _plus(known.usage, entry.usage)
            before, _ = _reported(node, entry.sent)
            return evolve(known, usage=usage if before is None else _plus(usage, before, -1))
        return known

    return Fold("account", Account(), step_account, along="log")


def account(session: Session, *, measure: Measure = chars4) -> Account:
    """Sum up every request of the journal, on all branches.

    Each request is compared with the one before it on its own path. Reads `Sent`, `Reply` and
    `UsageReport` entries; a late report replaces what its reply said.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, assistant, record, reply, send, user
    >>> session, _ = send(record(Session(), user("12345678")))
    >>> session, _ = send(record(reply(session, "failed"), user("again")))
    >>> (a := account(session)).input == a.shared + a.rebilled + a.fresh
    True
    >>> (a.requests, a.input, a.shared)
    (2, 6, 2)
    """
    try:
        what = _accounts(measure)
    except TypeError:  # what was measured is remembered by the measure
        raise mistyped(measure, "a function that can be hashed", "measure") from None
    return fold(session, what)


_BREAKS: Fold[tuple[Break, ...]] = Fold(
    "breaks",
    (),
    lambda known, _, view: (*known, view.broke) if view.broke is not None else known,
    reads=(Sent,),
)


def breaks(session: Session) -> tuple[Break, ...]:
    """List where requests on this path stopped extending the one before them, and why.

    Two breaks before one request are one, at the lower position. A change that was taken back
    before a request left is none.

    >>> from ctxalgebra import Head, Session, assistant, record, reply, send, user
    >>> session, _ = send(record(Session(), user("a")))
    >>> session = reply(session, "completed", assistant("b"))
    >>> session, _ = send(record(session, Head(system="new"), user("c")))
    >>> [(b.at, b.why) for b in breaks(session)]
    [(-1, 'the head changed: system')]
    """
    return fold(session, _BREAKS)


@frozen
class DryRun:
    """Tell what a stage would do.

    Args:
        entries: what it would record.
        broke: the break of the next request, None when that would extend the last one; pending
            breaks that the session holds already are part of it.
        rebilled: the price of that break in measured tokens.
        input: measured tokens of the next request.
    """

    entries: tuple[Entry, ...]
    broke: Break | None
    rebilled: int
    input: int


def dry_run(
    stage: Callable[[Session], Session], session: Session, *, measure: Measure = chars4
) -> DryRun:
    """Ask a stage what it would record, what would break and what that costs; record nothing.

    Raises: what the stage raises.
        InvalidArgument: `wrong-type`, for what the stage gives too.

    >>> from ctxalgebra import Session, pipeline, record, user
    >>> dry_run(pipeline(), record(Session(), user("12345678")))
    DryRun(entries=(), broke=None, rebilled=0, input=2)
    """
    check_session(session)
    check_callable(stage, "stage")
    check_callable(measure, "measure")
    trial = stage(session)
    check_session(trial)
    entries: list[Entry] = []
    node = trial.last
    while node is not None and node.number >= len(session):
        entries.append(node.entry)
        node = node.previous
    view = step(trial.view, len(trial), Sent())
    shared, rebilled, fresh = split(view, measure)
    return DryRun(tuple(reversed(entries)), view.broke, rebilled, shared + rebilled + fresh)
