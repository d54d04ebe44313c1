"""Keep a session within its token budget by moving the frontier: `select`, `snap_frontier`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from attrs import frozen

from ctxalgebra.calibration import costs, estimate
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.events import is_reminder
from ctxalgebra.model.checks import check_callable, check_each, check_type, mistyped
from ctxalgebra.model.entries import Cut
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import Message, user
from ctxalgebra.model.session import Session, find
from ctxalgebra.model.view import Measure
from ctxalgebra.tokens import chars4, check_positive
from ctxalgebra.transforms.pipeline import CacheState, check_cache

__all__ = ["Evicted", "Pressure", "default_notice", "pressure", "select", "snap_frontier"]


@frozen
class Evicted:
    """Describe what a cut takes out: the numbers of its first and last message, and how many."""

    first: int
    last: int
    count: int


def default_notice(evicted: Evicted) -> str:
    """Word the notice of a cut.

    It holds of all cuts up to this one, since the earlier notice leaves with what it stood for.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> default_notice(Evicted(0, 7, 8))
    '[Earlier messages, up to entry 7, were cut to fit the context window.]'
    """
    check_type(evicted, Evicted, "evicted")
    return f"[Earlier messages, up to entry {evicted.last}, were cut to fit the context window.]"


def snap_frontier(
    messages: Sequence[Message],
    index: int,
    *,
    findable: Callable[[Message], object] | None = None,
) -> int:
    """Move a cut back to the nearest place where it may stand; the kernel on a message list.

    A cut at `index` takes `messages[:index]`. It may stand where no exchange is split (the
    message at `index` is no tool result, and the message in front of it has no open call) and
    where the last message taken can be found again.

    Args:
        findable: gives a key by which a stored message can be found again, or a false value;
            keys count only when they are unique in the list. Default: any message can be found.

    Returns:
        The greatest legal place up to `index`; 0 takes nothing.

    Raises:
        InvalidArgument: `invalid-argument` when `index` lies outside the list; `wrong-type`, also
            for keys that can't be hashed.

    >>> from ctxalgebra import ToolCall, assistant, tool_result, user
    >>> exchange = (assistant(ToolCall("c1", "read")), tool_result("c1", "42"))
    >>> snap_frontier((user("a"), *exchange, user("b")), 2)
    1
    >>> snap_frontier((user("a"), *exchange, user("b", id="u2")), 3, findable=lambda m: m.id)
    0
    """
    check_each(messages, Message, "messages")
    check_type(index, int, "index")
    if not 0 <= index <= len(messages):
        raise InvalidArgument(
            "invalid-argument", f"index {index} is outside the list", field="index"
        )
    keys: list[object] | None = None
    unique: dict[object, int] = {}
    if findable is not None:
        check_callable(findable, "findable")
        keys = [findable(m) for m in messages]
        for key in keys:
            try:
                unique[key] = unique.get(key, 0) + 1
            except TypeError:
                raise mistyped(key, "a key that can be hashed", "findable") from None
    while index > 0:
        whole = index == len(messages) or messages[index].role != "tool"
        if index == len(messages) and messages[index - 1].calls:
            whole = False
        if whole and (keys is None or (keys[index - 1] and unique[keys[index - 1]] == 1)):
            return index
        index -= 1
    return 0


def select(
    session: Session,
    *,
    budget: int,
    target: int | None = None,
    reserve: int = 0,
    window: int | None = None,
    measure: Measure = chars4,
    cache: CacheState = "unknown",
    notice: Callable[[Evicted], str] = default_notice,
) -> Session:
    """Cut old history when the next request would exceed the budget (a stage).

    The estimate is calibrated. When it exceeds the limit, whole turns leave, oldest first, then
    exchanges of the active turn, until what stays fits the target; so the cut stands still for
    many requests and the cache with it. The active request (the last user messages) and
    what no completed request has shown are never cut. In a cold cache a cut is free and is made
    as soon as the target is exceeded.

    Args:
        budget: most input tokens of a request.
        target: what a cut leaves at most, in tokens; 5/8 of the budget by default. Where head and
            protected messages leave no room for that, the same share of what room there is.
        reserve: tokens of the window kept free for the reply.
        window: the model's context window in tokens; caps the budget at `window - reserve`.
        measure: tokens of a message or head.
        cache: state of the provider's cache.
        notice: words the user message that stands for what was cut; frozen once recorded.

    Reads: the view, usage reports. Records: one `Cut`, or nothing.

    Raises:
        InvalidArgument: `invalid-argument`, `wrong-type` for budgets that are no positive
            integers, a target over the budget, or a state of the cache that does not exist;
            `wrong-type` for what is no session, measure or notice.

    >>> from ctxalgebra import *
    >>> session = record(Session(), user("a" * 400), assistant("b" * 400), user("now"))
    >>> [m.role for m in project(select(session, budget=100, target=50)).messages]
    ['user', 'user']
    """
    check_cache(cache)
    limit, aim = limits(budget, target, reserve, window)
    if not callable(notice):
        check_callable(notice, "notice")
    if estimate(session, measure=measure) <= (aim if cache == "cold" else limit):
        return session
    view = session.view
    if view.flight >= 0 or view.holds_loop(0):
        return session

    known = costs(session, measure=measure)
    total, sums = known.total, known.sums
    places, (start, stop) = _places(session)
    active = sums[stop] - sums[start]
    numbers = view.slots.numbers

    def stays(cut: int) -> int:
        return total - sums[cut] + (active if cut > start else 0)

    def tell(cut: int) -> tuple[Message, int]:
        kept = max(0, stop - max(start, view.front)) if cut > start else 0
        # What is kept may be the first behind the front; then what leaves begins behind it.
        first = stop if kept and start <= view.front else view.front
        said = user(notice(Evicted(numbers[first], numbers[cut - 1], cut - view.front - kept)))
        return said, stays(cut) + known.fit.scaled(measure(said))

    if not places:
        return session
    cut = places[-1]
    said, tokens = tell(cut)
    if tokens >= total:
        return session  # the notice would weigh as much as what leaves
    aim = _above(stays(cut), aim, limit, said=target is not None)
    if total <= aim:
        return session  # in a cold cache: more than the target alone, and nothing to gain
    why = f"over {aim} tokens, cache cold" if cache == "cold" else f"over {limit} tokens"

    def cut_at(place: int, said: Message) -> Session:
        keep = tuple(numbers[start:stop]) if place > start else ()
        return record(session, Cut(numbers[place - 1], said, why, keep, breaks=True))

    for place in places[:-1]:
        if stays(place) <= aim:
            told, tokens = tell(place)
            if tokens <= aim:
                after = cut_at(place, told)
                # Without its thinking a message is another, and may cost more than was reported.
                if estimate(after, measure=measure) <= (aim if cache == "cold" else limit):
                    return after
                break
    return cut_at(cut, said)


def _above(floor: int, aim: int, limit: int, *, said: bool) -> int:
    """Raise a target that what always stays leaves no room for.

    The floor is what the deepest cut leaves, without its notice: a cut doesn't move it. Where the
    target lies below it, or where nobody said it and it leaves less than half of the room above
    the floor, a cut to it would take nearly all history whenever it takes any. Then the target
    counts of the room instead of the limit.
    """
    room = limit - floor
    if room > 0 and (floor >= aim or (not said and 2 * (aim - floor) < room)):
        return floor + room * aim // limit
    return aim


def limits(budget: int, target: int | None, reserve: int, window: int | None) -> tuple[int, int]:
    """Give the most tokens of a request and what a cut leaves at most, as `select` reads them.

    Raises:
        InvalidArgument: `invalid-argument`, `wrong-type`, with `field`.

    >>> limits(100, None, 10, 90)
    (80, 49)
    """
    try:
        return _resolve(budget, target, reserve, window)
    except TypeError:  # what can't be hashed is no integer either
        raise InvalidArgument("wrong-type", "budgets are integers", field="budget") from None


@lru_cache(maxsize=64, typed=True)
def _resolve(budget: int, target: int | None, reserve: int, window: int | None) -> tuple[int, int]:
    """Resolve limit and target in tokens; the same numbers are asked for before each request."""
    check_positive(budget=budget)
    check_positive(optional=True, target=target, window=window)
    if type(reserve) is not int or reserve < 0:
        raise InvalidArgument("invalid-argument", "reserve must not be negative", field="reserve")
    if reserve and window is None:
        raise InvalidArgument("invalid-argument", "a reserve is kept of a window", field="reserve")
    limit = budget
    if window is not None:
        limit = min(budget, window - reserve)
        if limit <= 0:
            raise InvalidArgument(
                "invalid-argument", "the reserve leaves nothing of the window", field="reserve"
            )
    aim = max(1, budget * 5 // 8) if target is None else target
    if aim > budget:
        raise InvalidArgument(
            "invalid-argument",
            f"the target {aim} is over the budget {budget}: a cut would leave what it has to cut",
            field="target",
        )
    if limit < budget:
        aim = max(1, aim * limit // budget)
    return limit, aim


def _places(session: Session) -> tuple[list[int], tuple[int, int]]:
    """List where a cut may stand, nearest first, and the slots of the active request.

    A cut behind the active request keeps it. A reminder is no request: it stands for nobody.
    """
    view = session.view
    messages, end, front = view.slots.messages, view.end, view.front
    # Unread results and their calls stay, as does all that comes behind them.
    last = view.read
    while last < end and last > front and messages[last].role == "tool":
        last -= 1
    if last == end and view.open:
        last -= 1
    # The active request: the user messages that began the turn in which the protected part starts.
    begun = last < end and messages[last].role == "user" and not _reminds(session, last)
    start = stop = last if begun else view.loop(last)
    while stop and messages[stop - 1].role == "user" and _reminds(session, stop - 1):
        start = stop = view.loop(stop - 1)
    while start > (1 if front else 0) and messages[start - 1].role == "user":
        start -= 1
    places: list[int] = []
    for slot in range(front + 1, last + 1):
        if slot > start:
            # Exchanges of the active turn leave one by one.
            legal = slot > stop and (slot == end or messages[slot].role != "tool")
        else:
            # Turns leave whole: up to the next one's request.
            begins = messages[slot].role == "user" and messages[slot - 1].role != "user"
            legal = slot == start or begins
        if legal:
            places.append(slot)
    return places, (start, stop)


def _reminds(session: Session, slot: int) -> bool:
    node = find(session, session.view.slots.numbers[slot])
    return node is not None and is_reminder(node)


@frozen
class Pressure:
    """Tell how a request stands to its budget, in tokens.

    Args:
        estimate: calibrated estimate of the next request.
        limit: the most that it may have.
        cuttable: whether a cut could still make it smaller, with the default notice.
    """

    estimate: int
    limit: int
    cuttable: bool

    @property
    def fits(self) -> bool:
        """Whether the request keeps within its limit."""
        return self.estimate <= self.limit


def pressure(
    session: Session,
    *,
    budget: int,
    reserve: int = 0,
    window: int | None = None,
    measure: Measure = chars4,
) -> Pressure:
    """Compare the next request with its budget (a query; same parameters as `select`).

    When `fits` is false and `cuttable` too, only protected content is left.

    Raises:
        InvalidArgument: `invalid-argument`, `wrong-type`, as `select`.

    >>> from ctxalgebra import Session, record, user
    >>> pressure(record(Session(), user("12345678")), budget=1)
    Pressure(estimate=2, limit=1, cuttable=False)
    """
    limit, _ = limits(budget, None, reserve, window)
    tokens = estimate(session, measure=measure)
    view = session.view
    cuttable = view.flight < 0 and not view.holds_loop(0) and _gain(session, measure) > 0
    return Pressure(tokens, limit, cuttable)


def _gain(session: Session, measure: Measure) -> int:
    """Estimate what the deepest cut would take, less the default notice."""
    places, (start, stop) = _places(session)
    if not places:
        return 0
    known = costs(session, measure=measure)
    sums, cut = known.sums, places[-1]
    number = session.view.slots.numbers[cut - 1]
    text = user(default_notice(Evicted(number, number, cut)))
    active = sums[stop] - sums[start] if cut > start else 0
    return sums[cut] - active - known.fit.scaled(measure(text))
