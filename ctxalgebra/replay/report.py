"""Compare pipelines on one recorded session: the budget to compare at, the runs, one sentence."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from attrs import asdict, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.ledger import FRESH, Tally
from ctxalgebra.model.checks import check_callable, check_each, check_type
from ctxalgebra.model.session import Session
from ctxalgebra.model.view import Measure
from ctxalgebra.replay.cache import BREAKPOINTS, cache_named, check_choice
from ctxalgebra.replay.memory import STAGES
from ctxalgebra.replay.replay import PIPELINES, Run, plan, recorded_requests, replay, resend
from ctxalgebra.tokens import ceil_div, chars4, check_positive
from ctxalgebra.transforms.pipeline import pipeline

__all__ = [
    "LARGEST_DEFAULT",
    "SMALLEST_DEFAULT",
    "Comparison",
    "cached_how",
    "compare",
    "default_budget",
    "net",
    "rows",
    "verdict",
]

SMALLEST_DEFAULT, LARGEST_DEFAULT = 1_000, 128_000
"""Between these the default budget lies, in tokens."""


@frozen
class Comparison:
    """Hold what one session costs under several pipelines.

    Args:
        budget: tokens that the requests were to keep to.
        cache: name of the cache model.
        breakpoints: where they stood, one of `BREAKPOINTS`.
        runs: one for each pipeline that was asked for, in that order.
        everything: the run that sends everything, which the others are measured against.
    """

    budget: int
    cache: str
    runs: tuple[Run, ...]
    everything: Run
    breakpoints: str = "default"


def default_budget(
    recorded: Session, *, target: int | None = None, measure: Measure = chars4
) -> int:
    """Choose a budget at which a comparison shows something, for want of one.

    With a target, 8/5 of it. Else half of the largest request when everything is sent, so that
    the later half of a session is over it; at least 1,000 and at most 128,000 tokens.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, the target is no positive integer.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> default_budget(record(Session(), user("a" * 40_000), assistant("b")))
    5000
    """
    check_positive(optional=True, target=target)
    if target is not None:
        return ceil_div(target * 8, 5)
    check_callable(measure, "measure")
    largest = 0
    for session in resend(recorded, pipeline()):
        view = session.view
        largest = max(largest, measure(view.head) + view.slots.total(measure, view.end))
    return min(LARGEST_DEFAULT, max(SMALLEST_DEFAULT, ceil_div(largest, 2)))


def compare(
    recorded: Session,
    *,
    pipelines: Sequence[str] = PIPELINES,
    budget: int | None = None,
    target: int | None = None,
    window: int | None = None,
    cache: str = "ideal",
    breakpoints: str = "default",
    stages: Sequence[str] = STAGES,
    measure: Measure = chars4,
    tick: Callable[[int, int], object] = lambda _done, _all: None,
) -> Comparison:
    """Replay a recorded session under several pipelines.

    Args:
        recorded: read along its path, never changed.
        pipelines: some of `PIPELINES`; each counts once.
        budget: most tokens of a request; see `default_budget`.
        target, window: see `plan`.
        cache: one of `CACHES`, or `blocks:SIZE`.
        breakpoints: one of `BREAKPOINTS`.
        stages: of `full`, the stages that run, some of `memory.STAGES`.
        measure: tokens of a message or head.
        tick: called after each request of each pipeline with how many were sent, and how many there
            will be at most.

    Raises:
        InvalidArgument: `invalid-argument`, an unknown name, or no positive integer; `wrong-type`,
            as for a single name where `pipelines` should be.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> recorded = record(Session(), user("a" * 400), assistant("b"), user("c"), assistant("d"))
    >>> [(run.pipeline, run.largest) for run in compare(recorded, budget=51).runs]
    [('none', 102), ('sliding', 100), ('paging', 102), ('full', 102)]
    """
    check_positive(optional=True, budget=budget, target=target, window=window)
    if isinstance(pipelines, str):  # which is a sequence of texts, too
        text = f"expected a sequence of names, got one text: say [{pipelines!r}]"
        raise InvalidArgument("wrong-type", text, field="pipelines")
    check_each(pipelines, str, "pipelines")
    for name in pipelines:
        check_choice(name, PIPELINES, "pipeline")
    check_choice(breakpoints, BREAKPOINTS, "breakpoints")
    model = cache_named(cache, measure)
    check_callable(tick, "tick")
    if budget is None:
        budget = default_budget(recorded, target=target, measure=measure)
    runs: dict[str, Run] = {}
    limit = budget
    names = tuple(dict.fromkeys([*pipelines, "none"]))
    done, total = itertools.count(1), len(names) * recorded_requests(recorded)
    for name in names:
        chosen = plan(
            name, budget=budget, target=target, window=window, stages=stages, measure=measure
        )
        runs[name] = replay(
            recorded,
            chosen,
            cache=model,
            planned=breakpoints == "planned",
            measure=measure,
            tick=lambda: tick(next(done), total),
        )
        limit = chosen.budget
    wanted = tuple(runs[name] for name in dict.fromkeys(pipelines))
    return Comparison(limit, cache, wanted, runs["none"], breakpoints)


def rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Give the runs as JSON values: tokens as integers, ratios to four decimals.

    `cost` is in input tokens at their full price, rounded up; `cost_vs_none` is null where sending
    everything costs nothing, since nothing was sent. Where the cache is not the ideal one, there is
    also where breakpoints stood, what was written, why requests missed, and how many have a time.

    Raises:
        InvalidArgument: `wrong-type`.
    """
    check_type(comparison, Comparison, "comparison")
    everything = comparison.everything.cost
    return [
        {
            "pipeline": run.pipeline,
            "cache": comparison.cache,
            "requests": run.requests,
            "mean_request_tokens": ceil_div(run.input, run.requests) if run.requests else 0,
            "input_tokens": run.input,
            "cached_tokens": run.cached,
            "uncached_tokens": run.input - run.cached,
            "cost": ceil_div(run.cost, 100),
            "cost_vs_none": round(run.cost / everything, 4) if everything else None,
            "max_request_tokens": run.largest,
            "over_budget": run.over_budget,
            "invalid_requests": run.invalid,
            "silent_breaks": run.silent,
            "breaks": [asdict(b) for b in run.breaks],
            "saved": {name: {**asdict(t), "net": net(t)} for name, t in run.saved},
            **({} if comparison.cache == "ideal" else _modelled(comparison, run)),
        }
        for run in comparison.runs
    ]


def net(tally: Tally) -> int:
    """Give what is left of a tally, in input tokens at their full price, rounded to nearest.

    What was asked costs nothing: a rule answers in a replay.

    >>> net(Tally(later=15))
    2
    """
    return (tally.net(aux=0) + FRESH // 2) // FRESH


def _modelled(comparison: Comparison, run: Run) -> dict[str, Any]:
    return {
        "breakpoints": comparison.breakpoints,
        "written_tokens": run.written,
        "misses": dict(run.misses),
        "timed_requests": run.timed,
    }


def cached_how(comparison: Comparison) -> str:
    """Say how the cache was modelled, whether anything expired, and why requests missed it.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> recorded = record(Session(), user("a" * 400), assistant("b"))
    >>> print(cached_how(compare(recorded, pipelines=("none",), cache="anthropic", budget=51)))
    Cache anthropic, breakpoints default. No request has a time, so nothing expires.
    Misses: none: previous_message_not_found 1.
    """
    check_type(comparison, Comparison, "comparison")
    timed, total = comparison.everything.timed, comparison.everything.requests
    said = f"Cache {comparison.cache}, breakpoints {comparison.breakpoints}. "
    if not timed:
        said += "No request has a time, so nothing expires."
    elif timed < total:
        have = "has" if timed == 1 else "have"
        said += f"Only {timed:,} of {total:,} requests {have} a time; "
        said += "for the others nothing expires."
    else:
        said += "All requests have a time." if total > 1 else "The request has a time."
    reasons = [
        f"{run.pipeline}: {', '.join(f'{why} {count:,}' for why, count in run.misses)}"
        for run in comparison.runs
        if run.misses
    ]
    return f"{said}\nMisses: {'; '.join(reasons)}." if reasons else said


def _breaks(run: Run) -> str:
    count = run.silent + len(run.breaks)
    if not count:
        return "the cache never breaks"
    silent = {0: "none silent", count: "all silent"}.get(run.silent, f"{run.silent} silent")
    return f"{count} break{'s' * (count > 1)}, {silent}"


def _count(count: int, what: str) -> str:
    return f"{count} request{'s' * (count > 1)} {what}"


def verdict(comparison: Comparison) -> str:
    """Say in one line what the comparison shows.

    It speaks of `paging` when that was compared, else of the last pipeline that was.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> recorded = record(Session(), user("a" * 400), assistant("b"), user("c"), assistant("d"))
    >>> verdict(compare(recorded, pipelines=("sliding",), budget=51))
    'sliding costs 0.93 of sending everything; 1 break, all silent; 1 request over 51 tokens.'
    """
    check_type(comparison, Comparison, "comparison")
    runs = {run.pipeline: run for run in comparison.runs}
    everything = comparison.everything
    if not everything.requests:
        return "The session holds no request, so there is nothing to compare."
    run = runs.get("paging") or (everything, *comparison.runs)[-1]
    said: list[str] = []
    if run.pipeline == "none":
        said.append("Sending everything is what the others are measured against")
    else:
        cost = f"{run.pipeline} costs {run.cost / everything.cost:.2f} of sending everything"
        sliding = runs.get("sliding")
        if run.pipeline != "sliding" and sliding is not None:
            cost += f" and {run.cost / sliding.cost:.2f} of a sliding window"
        said.append(cost)
    said.append(_breaks(run))
    if run.over_budget:
        said.append(_count(run.over_budget, f"over {comparison.budget:,} tokens"))
    if run.invalid:
        said.append(_count(run.invalid, "that the provider would refuse"))
    return "; ".join(said) + "."
