"""Replay a recorded session under a pipeline, and weigh the requests that it would have sent.

What is replayed are the events of the recorded path: messages, heads, requests and how they
ended, and which tools were activated. Decisions on it belong to whoever took them and are left
out, and so are labels, other notes, asks and answers. Usage is left out too: it was reported for
the requests that were sent then, and a stage that calibrates on it would take small requests for
big ones. So tokens are those of the measure, for budgets and for the account alike.

An assistant message that no `Sent` announces is the reply to a request that nobody recorded; one
is made for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from attrs import evolve, frozen

from ctxalgebra.breakpoints import Placed, common_messages, plan_breakpoints
from ctxalgebra.ledger import Tally, savings
from ctxalgebra.model.checks import check_callable, check_fields, check_type, mistyped
from ctxalgebra.model.entries import Note, Reply, Sent
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message, Opaque, user
from ctxalgebra.model.session import Session, path
from ctxalgebra.model.view import HEAD, Measure, View
from ctxalgebra.profiles import profile_for, violations
from ctxalgebra.project import Request, project
from ctxalgebra.replay.cache import cache_named, check_choice
from ctxalgebra.replay.layout import Cache, Miss, Outcome
from ctxalgebra.replay.memory import PAGING, STAGES, full
from ctxalgebra.resident.activation import NOTE
from ctxalgebra.tokens import chars4, check_positive
from ctxalgebra.transforms.pipeline import Pipeline, Stage, pipeline
from ctxalgebra.transforms.select import limits

__all__ = [
    "PIPELINES",
    "Declared",
    "Event",
    "Leaving",
    "Plan",
    "Run",
    "events",
    "followed",
    "later",
    "leaves_at",
    "plan",
    "recorded_requests",
    "replay",
    "resend",
    "slide",
    "stated",
    "weigh",
]

PIPELINES = ("none", "sliding", "paging", "full")
"""The pipelines that can be compared, by name."""


@frozen
class Plan:
    """Say how a session is replayed.

    Args:
        name: for people.
        settle: the stage that runs before each request.
        budget: tokens that a request should keep to.
        slides: give each request its own window of the newest messages that fit the budget, as
            most libraries do: nothing is recorded, so nothing holds from one request to the next.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, the budget is no positive integer.
    """

    name: str
    settle: Stage
    budget: int
    slides: bool = False

    def __attrs_post_init__(self) -> None:
        """Check the fields."""
        check_fields(self, name=str, slides=bool)
        check_callable(self.settle, "settle")
        check_positive(budget=self.budget)


def plan(
    name: str,
    *,
    budget: int,
    target: int | None = None,
    window: int | None = None,
    stages: Sequence[str] = STAGES,
    measure: Measure = chars4,
) -> Plan:
    """Make the plan of a pipeline by its name.

    `none` sends everything. `sliding` drops the oldest messages of each request until it fits, at
    the nearest place that splits no exchange. `paging` is what this library is for: a frontier that
    stands still between cuts (`select`), exchanges over a quarter of the target dropped once they
    were read, and results over the whole target replaced before they are sent (`prune_suffix`).
    `full` puts working memory in front of that: see `memory.full`.

    Args:
        name: one of `PIPELINES`.
        budget: most tokens of a request.
        target: tokens that a cut leaves; 5/8 of the budget by default.
        window: the model's context window in tokens; caps the budget and, in proportion, the
            target.
        stages: of `full`, the stages that run, some of `memory.STAGES`.
        measure: tokens of a message or head.

    Raises:
        InvalidArgument: `invalid-argument`, no pipeline or stage of this name, tokens that are no
            positive integers, or a target over the budget; `wrong-type`.

    >>> plan("sliding", budget=100).slides
    True
    """
    check_choice(name, PIPELINES, "pipeline")
    check_callable(measure, "measure")
    budget, aim = limits(budget, target, 0, window)
    chosen = full(stages if name == "full" else PAGING, budget=budget, target=aim, measure=measure)
    settle: Pipeline = chosen if name in ("paging", "full") else pipeline()
    return Plan(name, settle, budget, slides=name == "sliding")


@frozen
class Declared:
    """Tell of a break that an entry declared.

    Args:
        request: index of the request that was no extension of the one before it.
        at: index of the first message that differs, -1 for the head.
        why: the reason that was declared.
        rebilled: tokens behind it that the request before had shown already.
    """

    request: int
    at: int
    why: str
    rebilled: int


@frozen
class Run:
    """Sum up a replay, in tokens of the measure.

    Args:
        pipeline: name of the plan.
        requests: how many were sent.
        input: tokens of all requests; `cached` of them were read from the cache.
        cost: hundredths of the price of one input token.
        largest: tokens of the largest request.
        over_budget: how many requests had more tokens than the budget.
        invalid: how many requests the provider would have refused (`profiles.violations`).
        silent: how many requests did not extend the one before them, and no entry said so.
        breaks: the breaks that were declared.
        written: of the input, what was written to the cache.
        misses: why requests read less than the one before had shown, with how many did.
        timed: how many requests have a time; for the others nothing expires.
        saved: what the stages saved, per mechanism (`savings`).
    """

    pipeline: str
    requests: int
    input: int
    cached: int
    cost: int
    largest: int
    over_budget: int
    invalid: int
    silent: int
    breaks: tuple[Declared, ...]
    written: int = 0
    misses: tuple[tuple[Miss, int], ...] = ()
    timed: int = 0
    saved: tuple[tuple[str, Tally], ...] = ()


Event = Message | Head | Sent | Reply | Note


def events(recorded: Session) -> Iterator[Event]:
    """Give what is replayed, with a request in front of each assistant message that has none."""
    for node in path(recorded):
        entry = node.entry
        if isinstance(entry, Message) and entry.role == "assistant":
            yield Sent(inferred=True)
            yield Reply("completed", entry)
        elif isinstance(entry, Message | Head | Sent | Reply) or (
            isinstance(entry, Note) and entry.name == NOTE
        ):
            yield entry


def stated(session: Session, head: Head) -> Session | None:
    """Record a head; None where it has to wait, since it would take leading thinking (V-A7).

    In the recording a decision that is left out here may have hidden that thinking.
    """
    view = session.view
    changes = head != view.head and view.states_head()
    if view.flight >= 0 or (changes and view.holds_loop(HEAD)):
        return None
    return record(session, head)


def followed(session: Session, entry: Event) -> Session:
    """Record what is neither head nor request.

    A reply to a request that could not be made stands by itself.
    """
    if not isinstance(entry, Reply):
        return record(session, entry)
    if session.view.flight >= 0:
        return record(session, Reply(entry.outcome, entry.message))
    if entry.message is not None and entry.outcome == "completed":
        return record(session, entry.message)
    return session


def recorded_requests(recorded: Session) -> int:
    """Count the requests that replaying a session sends, or tries to.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> recorded_requests(record(Session(), user("a"), assistant("b")))
    1
    """
    return sum(isinstance(entry, Sent) for entry in events(recorded))


def resend(recorded: Session, settle: Stage) -> Iterator[Session]:
    """Record the events of a session's path anew; give the session as each request leaves.

    Args:
        recorded: read along its path.
        settle: runs before each request.

    Raises: what the stage raises.
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, assistant, pipeline, project, record, user
    >>> recorded = record(Session(), user("a"), assistant("b"), user("c"), assistant("d"))
    >>> [len(project(session).messages) for session in resend(recorded, pipeline())]
    [1, 3]
    """
    check_callable(settle, "settle")
    session, waiting = Session(), None
    for entry in events(recorded):
        waiting = entry if isinstance(entry, Head) else waiting
        if waiting is not None and (after := stated(session, waiting)) is not None:
            session, waiting = after, None
        if isinstance(entry, Head):
            continue
        if not isinstance(entry, Sent):
            session = followed(session, entry)
        elif session.view.end:
            # Without the recorded decisions all may be withheld: then there is nothing to send.
            session = record(settle(session), entry)
            yield session


def slide(view: View, budget: int, measure: Measure = chars4) -> int:
    """Find the first slot of the newest messages that fit the budget, or of the last exchange.

    The window begins at the nearest place from there on that splits no exchange; when there is
    none, the last message or exchange is sent, too large as it is. Costs a binary search.

    >>> from ctxalgebra import Session, record, user
    >>> slide(record(Session(), *map(user, ("1234", "1234", "1234"))).view, 2)
    1
    """
    slots, end = view.slots, view.end
    room = budget - measure(view.head)
    total = slots.total(measure, end)
    first = bisect_left(slots.sums[measure], total - room, 0, end + 1)
    while first < end and slots.messages[first].role == "tool":
        first += 1
    if first >= end:
        first = max(0, end - 1)
        while first and slots.messages[first].role == "tool":
            first -= 1
    return first


class _Window(NamedTuple):
    """A request that left: `messages` stand in the slots of `view` from `first` on."""

    view: View
    first: int
    request: Request

    def tokens(self, measure: Measure) -> int:
        """Measure the head and the messages."""
        total = self.view.slots.total
        messages = total(measure, self.view.end) - total(measure, self.first)
        return measure(self.request.head) + messages

    def common(self, earlier: _Window) -> int:
        """Count the leading messages of an earlier request; -1 when the head differs."""
        if self.request.head != earlier.request.head:
            return HEAD
        return common_messages(self.request.messages, earlier.request.messages)

    def rebilled(self, measure: Measure, earlier: _Window, at: int) -> int:
        """Measure what stands from index `at` on and was recorded before `earlier` was sent."""
        slots, sent = self.view.slots, earlier.view.flight
        span = range(self.first + max(at, 0), self.view.end)
        tokens = sum(measure(slots.messages[i]) for i in span if slots.numbers[i] < sent)
        return tokens + (measure(self.request.head) if at == HEAD else 0)


_BEFORE = user("...")
"""Stands for all that was judged before: no rule but that of the first message asks what it was."""


class _Validity:
    """Judges requests by the provider's rules; of one that extends the last, only what is new.

    An assistant message behind a user message or results begins a stretch that no rule connects
    with what stands in front of it, so the stretches before the last such place are judged once.
    Two rules look further: leading thinking (V-A7), and server tools that are pending (V-A5).
    """

    def __init__(self) -> None:
        self._judged = 0
        self._broken = False

    def breaks_rules(self, request: Request, *, extends: bool) -> bool:
        head, messages = request.head, request.messages
        profile = profile_for(head.route.provider)

        def broken(first: int, last: int) -> bool:
            stretch = messages[first:last]
            return bool(violations((_BEFORE, *stretch) if first else stretch, profile, head=head))

        if not extends:
            self._judged, self._broken = 0, False
        place = len(messages) - 1
        while place > self._judged and (
            messages[place].role != "assistant" or messages[place - 1].role not in ("user", "tool")
        ):
            place -= 1
        if place > self._judged and head.route.binding != "leading":
            settled = messages[self._judged : place]
            if not any(type(part) is Opaque for m in settled for part in m.parts):
                self._broken |= broken(self._judged, place)
                self._judged = place
        return self._broken or broken(self._judged, len(messages))


class Leaving(NamedTuple):
    """A request as it leaves, and how it stands to the one that it goes on from.

    Args:
        request: what is sent.
        tokens: of the measure.
        time: when, if it is known.
        extends: whether it extends the request that left before it.
        parted: where it stops extending the one that it goes on from, why, and the tokens behind
            that which were sent before; None where it extends it, or where nobody said why.
        silent: whether nobody said why.
    """

    request: Request
    tokens: int
    time: int | None
    extends: bool
    parted: tuple[int, str, int] | None = None
    silent: bool = False


def leaves_at(session: Session, clock: int | None) -> int | None:
    """Give the time of the request that leaves, if it has one; a clock that goes back stands."""
    entry = None if session.leaf is None else session.leaf.entry
    return later(entry.time if isinstance(entry, Sent) else None, clock)


def later(time: int | None, clock: int | None) -> int | None:
    """Give the later of a time and the clock; None where there is no time."""
    return time if time is None or clock is None else max(time, clock)


def weigh(
    name: str,
    leaving: Iterable[Leaving],
    *,
    budget: int,
    cache: Cache[Any],
    planned: bool = False,
    measure: Measure = chars4,
    took: Callable[[Outcome], object] = lambda _outcome: None,
) -> Run:
    """Sum up requests under a cache model, in the order in which they leave.

    Args:
        name: of the run.
        leaving: the requests.
        budget: tokens that a request should keep to.
        cache, planned, measure: see `replay`.
        took: called with what became of each.
    """
    state = cache.start
    placed: Placed | None = None
    clock: int | None = None
    misses: Counter[Miss] = Counter()
    validity = _Validity()
    breaks: list[Declared] = []
    requests = total = read = written = cost = largest = over = invalid = silent = timed = 0
    for one in leaving:
        profile = cache.profile(one.request.head.route)
        placed = (
            plan_breakpoints(placed, one.request, profile, measure=measure)
            if planned
            else cache.place(one.request)
        )
        # The response of the request before began before this one left, whatever clocks say.
        time = later(one.time, clock)
        clock = clock if time is None else time
        state, outcome = cache.take(state, placed, time=time, began=time)
        if one.parted is not None:
            breaks.append(Declared(requests, *one.parted))
        silent += one.silent
        requests += 1
        total += one.tokens
        read += outcome.read
        written += outcome.written
        cost += outcome.cost
        timed += time is not None
        if outcome.miss:
            misses[outcome.miss] += 1
        largest = max(largest, one.tokens)
        over += one.tokens > budget
        invalid += validity.breaks_rules(one.request, extends=one.extends)
        took(outcome)
    return Run(
        name, requests, total, read, cost, largest, over, invalid, silent, tuple(breaks),
        written, tuple(sorted(misses.items())), timed,
    )  # fmt: skip


def _sent(recorded: Session, plan: Plan, measure: Measure) -> Iterator[tuple[Session, Leaving]]:
    """Give each request of a replay, with the session that it leaves from."""
    before: _Window | None = None
    for session in resend(recorded, plan.settle):
        view = session.view
        first = slide(view, plan.budget, measure) if plan.slides else 0
        request = project(session)
        if first:
            request = Request(request.head, request.messages[first:])
        window = _Window(view, first, request)
        parted, silent, extends = None, False, True
        if before is not None:
            at = window.common(before)
            extends = at == len(before.request.messages)
            silent = not extends and view.broke is None
            if not extends and view.broke is not None:
                parted = at, view.broke.why, window.rebilled(measure, before, at)
        size = window.tokens(measure)
        yield session, Leaving(request, size, leaves_at(session, None), extends, parted, silent)
        before = window


def replay(
    recorded: Session,
    plan: Plan,
    *,
    cache: Cache[Any] | None = None,
    planned: bool = False,
    measure: Measure = chars4,
    tick: Callable[[], object] = lambda: None,
) -> Run:
    """Replay a recorded session under a plan and sum up what its requests would have cost.

    Costs the entries plus what the requests show.

    Args:
        recorded: read along its path, never changed.
        plan: see `plan`; any stage of your own will do.
        cache: a model of the provider's cache, `ideal` by default. What a request that failed wrote
            counts like that of any other.
        planned: breakpoints stand where `plan_breakpoints` puts them, not where harnesses do.
        measure: tokens of a message or head.
        tick: called after each request, for a progress bar.

    Raises: what the stage raises.
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, assistant, pipeline, record, user
    >>> recorded = record(Session(), user("a" * 40), assistant("b" * 40), user("c"), assistant("d"))
    >>> run = replay(recorded, Plan("mine", pipeline(), budget=100))
    >>> run.requests, run.input, run.cached, run.cost
    (2, 31, 10, 2725)
    """
    check_type(plan, Plan, "plan")
    check_callable(tick, "tick")
    cache = cache_named("ideal", measure) if cache is None else cache
    if not isinstance(cast("object", cache), Cache):
        raise mistyped(cache, "a model of a cache", "cache")
    last = Session()

    def leaving() -> Iterator[Leaving]:
        nonlocal last
        for session, one in _sent(recorded, plan, measure):
            last = session
            yield one

    run = weigh(
        plan.name, leaving(), budget=plan.budget, cache=cache, planned=planned, measure=measure,
        took=lambda _outcome: tick(),
    )  # fmt: skip
    return evolve(run, saved=tuple(savings(last, measure=measure).mechanisms.items()))
