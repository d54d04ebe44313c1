"""The area `kernel`: the library's own functions on journals and on lists of messages.

A port of this library answers these. `journal` is the list of entries as a journal file writes
them, without its header; `messages` is a list of messages in the same form, in any order. What a
stage records goes out as entries without `why`. Where the wording of a text is free but its
length counts, the input gives the length, and `<notice>` or `<stub>` goes out in its place.
"""

from __future__ import annotations

from typing import Any, cast

from attrs import asdict

from ctxalgebra.account import account as account_of
from ctxalgebra.account import breaks as breaks_of
from ctxalgebra.breakpoints import Placed
from ctxalgebra.breakpoints import plan_breakpoints as plan
from ctxalgebra.cache_profiles import cache_profile
from ctxalgebra.calibration import calibrate as calibration_of
from ctxalgebra.calibration import estimate as estimate_of
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.values import InvalidInput, messages_out, recorded, request_out
from ctxalgebra.conformance.wire import LIMIT
from ctxalgebra.effects import pending as pending_of
from ctxalgebra.events import labels as labels_of
from ctxalgebra.events import open_calls as open_calls_of
from ctxalgebra.events import travel as travel_to
from ctxalgebra.explain import explain as explain_one
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session
from ctxalgebra.profiles import profile_for
from ctxalgebra.profiles import violations as violations_of
from ctxalgebra.project import project as project_now
from ctxalgebra.project import requests as requests_of
from ctxalgebra.protocol import defects as defects_of
from ctxalgebra.protocol import repair as repaired
from ctxalgebra.tokens import chars4
from ctxalgebra.transforms.pipeline import CacheState
from ctxalgebra.transforms.prune import drop_suffix as drop_last
from ctxalgebra.transforms.prune import exchanges as exchanges_of
from ctxalgebra.transforms.prune import pays as is_paid
from ctxalgebra.transforms.prune import prune_suffix as prune
from ctxalgebra.transforms.select import limits as limits_of
from ctxalgebra.transforms.select import select as cut
from ctxalgebra.transforms.select import snap_frontier as snap
from ctxalgebra.transforms.thinking import strip_thinking as strip

__all__ = ["OPERATIONS"]


def record(*, journal: Session) -> Any:
    """Take a journal in through the gate; say how long it is and where its leaf stands."""
    return {"entries": len(journal), "leaf": -1 if journal.leaf is None else journal.leaf.number}


def project(*, journal: Session) -> Any:
    """Give the request that a journal stands for."""
    return request_out(project_now(journal))


def requests(*, journal: Session) -> Any:
    """List the requests that were made along the path."""
    return list(map(request_out, requests_of(journal)))


def _wording(length: int, name: str) -> str:
    if not 1 <= length <= LIMIT:
        raise InvalidInput(f"input.{name}: expected 1 to {LIMIT}")
    return "." * length


def select(
    *,
    journal: Session,
    budget: int,
    notice_length: int,
    target: int | None = None,
    reserve: int = 0,
    window: int | None = None,
    cache: str = "unknown",
) -> Any:
    """Give what `select` records; its notice has `noticeLength` characters."""
    notice = _wording(notice_length, "noticeLength")
    after = cut(
        journal,
        budget=budget,
        target=target,
        reserve=reserve,
        window=window,
        cache=cast("CacheState", cache),
        notice=lambda _: notice,
    )
    return recorded(journal, after, placeholder=(notice, "<notice>"))


def prune_suffix(
    *,
    journal: Session,
    stub_over: int,
    drop_over: int,
    stub_length: int,
    horizon: int = 20,
    cache: str = "unknown",
) -> Any:
    """Give what `prune_suffix` records; its stubs have `stubLength` characters."""
    stub = _wording(stub_length, "stubLength")
    after = prune(
        journal,
        stub_over=stub_over,
        drop_over=drop_over,
        horizon=horizon,
        cache=cast("CacheState", cache),
        stub=lambda _message, _tokens: stub,
    )
    return recorded(journal, after, placeholder=(stub, "<stub>"))


def strip_thinking(*, journal: Session) -> Any:
    """Give what `strip_thinking` records."""
    return recorded(journal, strip(journal))


def travel(*, journal: Session, target: int) -> Any:
    """Give what travelling to an entry records, and where the leaf lands."""
    return recorded(journal, travel_to(journal, target))


def calibrate(*, journal: Session) -> Any:
    """Fit the measure to what was reported."""
    return asdict(calibration_of(journal))


def estimate(*, journal: Session) -> Any:
    """Estimate the next request, in tokens."""
    return estimate_of(journal)


def account(*, journal: Session) -> Any:
    """Sum up the requests, in tokens; breaks stand in `kernel.breaks`."""
    total = asdict(account_of(journal))
    del total["breaks"]
    return total


def breaks(*, journal: Session) -> Any:
    """List the breaks: at which request, in front of which message (-1: the head), by what."""
    return [{"sent": b.sent, "at": b.at, "by": list(b.by)} for b in breaks_of(journal)]


def explain(*, journal: Session, number: int) -> Any:
    """Say in which state a message is, and which entries brought it there."""
    told = explain_one(journal, number)
    return {"state": told.state, "by": list(told.by)}


def labels(*, journal: Session) -> Any:
    """List the labels, each with its entry's number."""
    return [[number, name] for number, name in sorted(labels_of(journal).items())]


def open_calls(*, journal: Session) -> Any:
    """List the calls whose results are missing."""
    return list(open_calls_of(journal))


def pending(*, journal: Session) -> Any:
    """List the asks without an answer, each with its number and key."""
    return [[asked.number, asked.ask.key] for asked in pending_of(journal)]


def plan_breakpoints(*, journal: Session, long: int = 0) -> Any:
    """Plan the breakpoints of each request that was made along the path, one after the other."""
    placed: Placed | None = None
    planned: list[list[int]] = []
    for request in requests_of(journal):
        placed = plan(placed, request, cache_profile(request.head.route), long=long)
        planned.append(list(placed.breakpoints))
    return planned


def limits(
    *, budget: int, target: int | None = None, reserve: int = 0, window: int | None = None
) -> Any:
    """Give the most tokens of a request and what a cut leaves at most."""
    limit, aim = limits_of(budget, target, reserve, window)
    return {"limit": limit, "target": aim}


def pays(*, tail: int, saved: int, horizon: int, cached: int = 10, written: int = 125) -> Any:
    """Say whether an edit pays."""
    return is_paid(tail, saved, horizon=horizon, cached=cached, written=written)


def measure(*, messages: list[Message]) -> Any:
    """Measure messages, each in tokens."""
    return list(map(chars4, messages))


def snap_frontier(*, messages: list[Message], index: int, by_id: bool = False) -> Any:
    """Move a cut back; with `byId` to a message that can be found again by its id."""
    return snap(messages, index, findable=(lambda message: message.id) if by_id else None)


def exchanges(*, messages: list[Message], first: int, last: int) -> Any:
    """List the exchanges that lie whole in a range."""
    return [list(pair) for pair in exchanges_of(messages, first, last)]


def drop_suffix(*, messages: list[Message], large: list[str]) -> Any:
    """Drop the last exchange if the results of these calls are all it has."""
    calls = set(large)
    return messages_out(drop_last(messages, lambda result: result.call in calls))


def defects(*, messages: list[Message], aborted: list[int] | None = None) -> Any:
    """List the defects of pairing."""
    return [asdict(defect) for defect in defects_of(messages, aborted=aborted or ())]


def repair(*, messages: list[Message], aborted: list[int] | None = None) -> Any:
    """Repair the pairing; the text of a result that is made is free, so it goes out empty."""
    done = repaired(messages, aborted=aborted or ())
    shown = messages_out(done.messages)
    for message, source in zip(shown, done.sources, strict=True):
        if source is None:
            message["parts"] = []
    repairs = [{"code": r.code, "index": r.index, "call": r.call} for r in done.repairs]
    return {"messages": shown, "repairs": repairs, "sources": list(done.sources)}


def violations(*, messages: list[Message], provider: str) -> Any:
    """List the rules of a provider that messages break, each with the index of the message."""
    found = violations_of(messages, profile_for(provider))
    return [[violation.rule, violation.index] for violation in found]


OPERATIONS = collect(
    "kernel",
    record,
    project,
    requests,
    select,
    prune_suffix,
    strip_thinking,
    travel,
    calibrate,
    estimate,
    account,
    breaks,
    explain,
    labels,
    open_calls,
    pending,
    plan_breakpoints,
    limits,
    pays,
    measure,
    snap_frontier,
    exchanges,
    drop_suffix,
    defects,
    repair,
    violations,
)
