"""What requests really cost: estimates fitted to what providers reported.

Theory of operation
-------------------
A report gives the tokens of one whole request. Where two of them stand in one epoch, the later
request extends the earlier one, so their difference *is* the cost of the messages between, and
nothing has to be estimated. These costs stay with their messages: through cuts and replacements,
on every branch, until another route counts otherwise.

    head      0 ......... a ......... b ...... tail ...... end
    H         |   C(a)    | C(b)-C(a) | output |  scale   |
              reported at a           reported at b

* Sums say what the first messages cost together. They are only extended, so that a turn costs
  its own messages, and a branch copies them once. Between two reports the cost is spread by the
  measure.
* The reply itself costs what the provider reported as output, as long as that predicts the next
  report better than the measure does (hidden reasoning is billed once, and not sent again).
* What no report brackets is measured and scaled; the scale is what the last 8,000 to 16,000
  measured tokens turned out to cost.
* A first report can't tell the head from the messages: both are scaled alike, up or down. More
  than four tokens for a measured one say that the head is heavier than it looks.
* After a decision or another head, costs move with their messages; what stands for a message
  keeps its proportion. The next report tells what that got wrong: a deficit goes to the head and
  to what was not reported, in proportion; a surplus to the latter alone, since a head doesn't
  grow with the conversation.
* A report that is four times off is put aside. If the next one says the same, it was right, but
  not where it is less than texts can cost. An output that is four times off is no guess at all.

All numbers are integers, costs never fall as messages come, and right after a report that was
believed the estimate of that request is the report (specification of the paging system,
section 6; faults W5, W17).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate, pairwise, repeat
from operator import sub
from typing import NamedTuple, cast

from attrs import frozen

from ctxalgebra.model.checks import check_callable, mistyped
from ctxalgebra.model.entries import Reply, UsageReport
from ctxalgebra.model.head import Head, Route, Usage
from ctxalgebra.model.parts import Message, Text
from ctxalgebra.model.session import Fold, Node, Session, fold
from ctxalgebra.model.view import Measure, Shown, Slots, View, weigh
from ctxalgebra.tokens import ceil_div, chars4

__all__ = ["Calibration", "Costs", "calibrate", "costs", "estimate"]

MOST = 4
"""How many times off a first report, or a later one, is believed."""

LEAST = 16
"""So many characters of text cost a token at least."""

SMALL = 16
"""So many tokens more or less tell nothing: what frames a message weighs as much."""

WINDOW = 1 << 14
"""When so many measured tokens have told the scale, each counts half from then on."""


@frozen
class Calibration:
    """Correct a measure by what a provider reported.

    Args:
        overhead: tokens by which the head costs more (or less) than it measures.
        numerator, denominator: the scale of messages that no report brackets.
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


@frozen
class Costs:
    """Tell what the next request costs, part by part, in calibrated tokens.

    Args:
        head: what system text and tools cost.
        sums: what the first messages cost together: `sums[n]` for `n` of them, never falling.
        fit: how other messages would be estimated.
    """

    head: int
    sums: tuple[int, ...]
    fit: Calibration

    @property
    def total(self) -> int:
        """The input tokens of the request."""
        return self.head + self.sums[-1]


class _Known(NamedTuple):
    """What the reports of a path told.

    Fields: the `route` that reported, None before the first report; the `head` it was told of,
    what that costs, and what it measures; the `slots` that are costed, the first `end` of them,
    whose costs add up as `sums` tells and which measure `raw`; `start`, where the last report
    began to tell something new; the reply behind them: what it costs by its `output`, and what
    all measure with it, the `tail`, -1 where that was not reported; the scale; `lean`, how much
    worse outputs predict than the measure does; the report in `doubt`, 0 for none; the `loose`
    slots, whose cost is a guess since a decision or another head, None if there was neither since
    the last report.

    `sums` is shared along a line, as the slots are: each value knows how much of it is its own.
    """

    route: Route | None
    head: Head
    cost: int
    measured: int
    slots: Slots
    sums: list[int]
    start: int
    end: int
    raw: int
    output: int
    tail: int
    numerator: int
    denominator: int
    lean: int
    doubt: int
    loose: frozenset[int] | None


_NOTHING = _Known(
    None, Head(), 0, 0, Slots([], []), [0], 0, 0, 0, 0, -1, 1, 1, 0, 0, None
)  # fmt: skip
_NO_GUESS: frozenset[int] = frozenset()
_plain = cast("Callable[[type[_Known], tuple[object, ...]], _Known]", tuple.__new__)
"""Make the tuple at once: the constructor of a named one takes its fields one by one."""


def _grown(sums: list[int], end: int, new: list[int]) -> list[int]:
    """Put sums behind the first `end`: in the shared list if the place is free, else in a copy."""
    end += 1
    if len(sums) == end:
        sums += new
    # Compared after that, too: another thread may have taken the place in between.
    if sums[end : end + len(new)] == new:
        return sums
    return [*sums[:end], *new]


def _shared(low: int, part: int, totals: list[int]) -> list[int]:
    """Spread a cost over messages by what they measure, or evenly where that is nothing.

    Args:
        low: what those in front cost.
        part: what these cost together.
        totals: what all measure, up to in front of these and up to each of them.
    """
    below, whole = totals[0], totals[-1] - totals[0]
    if not whole:
        count = len(totals) - 1
        return [low + part * at // count for at in range(1, count + 1)]
    return [low + part * (total - below) // whole for total in totals[1:]]


def _least(value: Message | Head) -> int:
    """Give the fewest tokens that a message or a head can cost, whatever counts them.

    Texts and calls alone: what a provider takes for an image, or leaves out of what was thought,
    nobody knows.
    """
    if isinstance(value, Head):
        return value.characters // LEAST
    size = sum(len(part.text) for part in value.parts if isinstance(part, Text))
    return (size + sum(len(call.name) + len(call.arguments) for call in value.calls)) // LEAST


def _fewest(slots: Slots, start: int, end: int) -> int:
    """Give the fewest tokens by which a request grows with these messages."""
    return slots.total(_least, end) - slots.total(_least, start) - SMALL


def _totals(slots: Slots, measure: Measure, start: int, end: int) -> list[int]:
    return [slots.total(measure, at) for at in range(start, end + 1)]


def _singles(sums: list[int]) -> list[int]:
    """Give what each message costs."""
    return [*map(sub, sums[1:], sums)]


def _scaled(known: _Known, raw: int) -> int:
    return -(-raw * known.numerator // known.denominator)


def _said(known: _Known, raw: int, output: int) -> bool:
    """Say whether a reply that measures so much can be what was reported as output."""
    expected = _scaled(known, raw)
    return output <= MOST * (expected + SMALL) and expected <= MOST * (output + SMALL)


def _until(known: _Known) -> tuple[int, int, int]:
    """Say how many messages are costed, what they cost and what they measure.

    The reply belongs to them where its output is a better guess than its measure.
    """
    end, cost = known.end, known.sums[known.end]
    if known.tail < 0 or known.lean > 0:
        return end, cost, known.raw
    return end + 1, cost + known.output, known.tail


def _costed(known: _Known) -> list[int]:
    """Copy out what the first messages cost, as far as that is known."""
    sums = known.sums[: known.end + 1]
    end, cost, _ = _until(known)
    return [*sums, cost] if end > known.end else sums


# What changes the window


def _head_cost(known: _Known, measured: int) -> int:
    """Estimate another head: it costs as much over its measure, or as little of it, as this one."""
    over = known.cost - known.measured
    return measured + over if over >= 0 else ceil_div(known.cost * measured, known.measured)


def _moved(known: _Known, head: Head, slots: Slots, end: int, measure: Measure) -> _Known:
    """Let costs move with their messages where decisions, or a head, changed the window since.

    Args:
        known: what was told of the window as it was.
        head: what stands in front of it now.
        slots: the first `end` of them are the window now.
        measure: what the costs are spread by.
    """
    old, new, numbers = known.slots.messages, slots.messages, slots.numbers
    before = _costed(known)
    until = len(before) - 1
    stand = known.slots.numbers[:until]
    if numbers[:until] == stand and new[:until] == old[:until] and head == known.head:
        return known._replace(slots=slots, head=head)
    stood = dict(zip(stand, range(until), strict=True))
    while end and numbers[end - 1] not in stood:
        end -= 1  # what was not costed stays so, unless it stands in front of what was
    # This is done for all that is shown, so that its loops are those of the interpreter.
    places = [*map(stood.get, numbers[:end], repeat(-1))]
    single = _singles(before)
    costs = [single[at] for at in places]
    loose = {slot for slot, at in enumerate(places) if at < 0 or new[slot] != old[at]}
    for slot in loose:
        at, weight = places[slot], weigh(measure, new[slot])
        if at < 0:
            costs[slot] = _scaled(known, weight)
        elif whole := weigh(measure, old[at]):
            costs[slot] = ceil_div(costs[slot] * weight, whole)
    measured = weigh(measure, head)
    return known._replace(
        head=head,
        cost=known.cost if head == known.head else _head_cost(known, measured),
        measured=measured,
        slots=slots,
        sums=[*accumulate(costs, initial=0)],
        start=0,
        end=end,
        raw=slots.total(measure, end),
        tail=-1,
        loose=frozenset(loose),
    )


def _at(known: _Known, head: Head, slots: Slots, end: int, measure: Measure) -> _Known:
    """Give what is known of this window: as it is where nothing was changed, else moved."""
    if known.route is None or (known.slots is slots and known.head is head):
        return known
    return _moved(known, head, slots, end, measure)


# What reports tell


def _settled(known: _Known, sent: Shown, reported: int, measure: Measure, *, anew: bool) -> _Known:
    """Distribute a report over the head and the messages that no other report told of.

    Args:
        anew: over all of them, since what is known was told of another route, or wrong.
    """
    slots, end, first = sent.slots, sent.end, known.route is None
    if first:
        head = weigh(measure, sent.head)
        known = known._replace(cost=head, measured=head)
    sums = _costed(known)
    until, cost, raw = _until(known)
    totals = _totals(slots, measure, until, end)
    sums += [cost + _scaled(known, total - raw) for total in totals[1:]]
    loose = known.loose or _NO_GUESS
    guesses = range(end) if anew else sorted((*loose, *range(until, end)))
    share = sum(sums[at + 1] - sums[at] for at in guesses)
    whole = known.cost + share  # what is not certain, and what it ought to be
    free = reported - sums[end] + share
    if free < 0:
        return _settled(known, sent, reported, measure, anew=True)
    if not share:
        cost = free
    elif anew or free < whole:
        cost = ceil_div(free * known.cost, whole)
    else:
        cost = known.cost
    most = MOST * sum(weigh(measure, slots.messages[at]) for at in guesses)
    if share and free - cost > most and (first or not anew):
        cost = max(cost, free - share)  # so much no message weighs: it is the head
    left = free - cost
    costs = _singles(sums)
    told = [0, *accumulate(costs[at] for at in guesses)]
    for at, (low, high) in zip(guesses, pairwise(told), strict=True):
        costs[at] = high * left // share - low * left // share if share else 0
    numerator, denominator = known.numerator, known.denominator
    if first and share:
        numerator, denominator = left, share
    elif anew and whole:
        numerator = max(1, ceil_div(numerator * free, whole))
    return known._replace(
        route=sent.head.route,
        head=sent.head,
        cost=cost,
        slots=slots,
        sums=[*accumulate(costs, initial=0)],
        start=0,
        end=end,
        raw=totals[-1],
        tail=-1,
        numerator=numerator,
        denominator=denominator,
        loose=None,
        doubt=0,
    )


def _reported(known: _Known, sent: Shown, reported: int, measure: Measure) -> _Known | None:
    """Learn from a report that does not simply extend the one before it; None to put it aside."""
    end, slots = sent.end, sent.slots
    if known.route is None:
        return _settled(known, sent, reported, measure, anew=True)
    if end == known.end and known.loose is None:
        known = known._replace(tail=-1)  # it replaces the last report
    raw = slots.total(measure, end)
    _, cost, below = _until(known)
    expected = known.cost + cost + _scaled(known, raw - below)
    believable = expected <= MOST * reported <= MOST * MOST * expected
    if end > known.end and known.loose is None:
        # Hardly more than before, for a long text, says that one of the two is wrong.
        gained = reported - known.cost - known.sums[known.end]
        believable = believable and not 0 <= gained < _fewest(slots, known.end, end)
    if not believable and not known.doubt <= 2 * reported <= 4 * known.doubt:
        return None
    anew = sent.head.route != known.route
    if anew or known.loose is not None:
        return _settled(known, sent, reported, measure, anew=anew)
    # What it contradicts is taken back.
    left, most = reported - known.cost, known.start if end == known.end else known.end
    start = min(bisect_right(known.sums, left, 0, known.end + 1) - 1, most)
    if start <= 0:
        return _settled(known, sent, reported, measure, anew=True)
    low = known.sums[start]
    new = _shared(low, left - low, _totals(slots, measure, start, end))
    return known._replace(
        head=sent.head,
        slots=slots,
        sums=_grown(known.sums, start, new),
        start=start,
        end=end,
        raw=raw,
        tail=-1,
        doubt=0,
    )


def _extended(
    known: _Known, end: int, reported: int, output: int, tail: int, now: Slots, measure: Measure
) -> _Known | None:
    """Learn from a report that extends the one before it, as nearly all do; None for others.

    Args:
        end: so many messages were sent.
        now: the slots that hold the reply behind them, too; those that were sent need not.
    """
    # Taken apart and put together at once: this is done for each turn.
    (
        route, head, cost, weight, slots, sums, _, start, below, said, behind,
        numerator, denominator, lean, _, loose,
    ) = known  # fmt: skip
    if loose is not None or end <= start:
        return None
    raw, before = slots.total(measure, end), sums[start]
    whole = reported - cost
    gained, measured = whole - before, raw - below
    if gained < 0 or reported > MOST * (cost + before + measured):
        return None
    if gained * MOST < measured and gained < _fewest(slots, start, end):
        return None
    new, low, first = [whole], before, start
    if behind >= 0:
        rest, less = gained - said, raw - behind
        off = abs(rest * denominator - less * numerator)
        off -= abs(gained * denominator - measured * numerator)
        if lean <= 0 <= rest and end > start + 1:
            gained, measured, low, first = rest, less, before + said, start + 1
            new = [low, whole]
        lean += off // denominator - (lean >> 3)
    if end > first + 1:
        if first == start and end == first + 2 and measured:
            # A reply and what came of it: nearly every turn.
            new = [low + gained * (slots.total(measure, end - 1) - below) // measured, whole]
        else:
            new[-1:] = _shared(low, gained, _totals(slots, measure, first, end))
    if denominator > WINDOW:
        numerator = -(-numerator * (WINDOW >> 1) // denominator)
        denominator = WINDOW >> 1
    most = MOST * measured
    at = start + 1
    if len(sums) == at:
        sums += new
    if sums[at:] != new:  # what stands there is another branch's
        sums = _grown(sums, start, new)
    return _plain(_Known, (
        route, head, cost, weight, now, sums, start, end, raw, output, tail,
        numerator + (gained if gained < most else most), denominator + measured, lean, 0, None,
    ))  # fmt: skip


@lru_cache(maxsize=64)
def _calibration(measure: Measure) -> Fold[_Known]:
    check_callable(measure, "measure")

    def step(known: _Known, node: Node, view: View) -> _Known:
        entry, sent = node.entry, view.sent
        usage: Usage | None = None
        if type(entry) is Reply:
            usage = entry.usage if entry.outcome == "completed" else None
        elif type(entry) is UsageReport and sent is not None and entry.sent == sent.number:
            usage = entry.usage if _stands(view, sent) else None
        if sent is None or usage is None or not usage.input:
            return known
        # The reply is the message behind what was sent, if it shows anything.
        slots, end, output, tail = view.slots, sent.end, usage.output, -1
        if output and end < view.end and slots.messages[end].role == "assistant":
            tail = slots.total(measure, end + 1)
            raw = tail - slots.total(measure, end)
            if not _said(known, raw, output):
                tail = -1
        now = known
        if known.slots is not sent.slots or known.head is not sent.head:
            now = _at(known, sent.head, sent.slots, end, measure)
        if now.route is not None:
            extended = _extended(now, end, usage.input, output, tail, slots, measure)
            if extended is not None:
                return extended
        if usage.input < sent.slots.total(_least, end) + _least(sent.head):
            return known  # no text costs so little
        found = _reported(now, sent, usage.input, measure)
        if found is None:
            return known._replace(doubt=usage.input)
        return found._replace(output=output, tail=tail, slots=slots)

    return Fold("calibration", _NOTHING, step, reads=(Reply, UsageReport))


def _stands(view: View, sent: Shown) -> bool:
    """Say whether what was sent is still what is shown."""
    end, now, then = sent.end, view.slots, sent.slots
    same = now is then or now.numbers[:end] == then.numbers[:end]
    return same and now.messages[:end] == then.messages[:end] and view.head == sent.head


def _knowledge(session: Session, measure: Measure) -> _Known:
    try:
        what = _calibration(measure)
    except TypeError:  # what was measured is remembered by the measure
        raise mistyped(measure, "a function that can be hashed", "measure") from None
    known, view = fold(session, what), session.view
    return _at(known, view.head, view.slots, view.end, measure)


def _fit(known: _Known) -> Calibration:
    return Calibration(known.cost - known.measured, known.numerator, known.denominator)


def calibrate(session: Session, *, measure: Measure = chars4) -> Calibration:
    """Fit the measure to the usage that providers reported on this path (a query; records nothing).

    Gives the head's overhead and the scale of messages that no report brackets; `costs` gives
    what each message costs. Reads: completed replies with usage, late reports for the latest
    request, heads and decisions. Without a report, the calibration is neutral. The first report
    of another route scales what is known; until it comes, what fitted the earlier route stands in.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import *
    >>> session = record(Session(), Head(system="s" * 400), user("x" * 8000))
    >>> session, _ = send(session)
    >>> session = reply(session, "completed", assistant("ok"), usage=Usage(input=8400))
    >>> calibrate(session)
    Calibration(overhead=300, numerator=8000, denominator=2000)
    """
    return _fit(_knowledge(session, measure))


def estimate(session: Session, *, measure: Measure = chars4) -> int:
    """Estimate the input tokens of the request that `project` gives now, calibrated.

    Right after a report it is that report for the request that was sent, and the reply's output.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, record, user
    >>> estimate(record(Session(), user("12345")))
    2
    """
    known = _knowledge(session, measure)
    view = session.view
    raw = view.slots.total(measure, view.end)
    if known.route is None:
        return weigh(measure, view.head) + raw
    cost, below = known.cost + known.sums[known.end], known.raw
    if known.tail >= 0 >= known.lean:
        cost, below = cost + known.output, known.tail
    return cost - (below - raw) * known.numerator // known.denominator


def costs(session: Session, *, measure: Measure = chars4) -> Costs:
    """Tell what the next request costs: its head, and its first messages up to each.

    What a cut keeps is a difference of two sums. Costs the messages that are shown.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import *
    >>> session, _ = send(record(Session(), Head(system="s" * 400), user("x" * 8000)))
    >>> session = reply(session, "completed", assistant("ok"), usage=Usage(input=8400))
    >>> costs(session)
    Costs(head=400, sums=(0, 8000, 8004), fit=Calibration(overhead=300, numerator=8000, \
denominator=2000))
    """
    known = _knowledge(session, measure)
    view = session.view
    sums = _costed(known)
    until, cost, raw = _until(known)
    totals = _totals(view.slots, measure, until, view.end)
    sums += [cost + _scaled(known, total - raw) for total in totals[1:]]
    head = weigh(measure, view.head) if known.route is None else known.cost
    return Costs(head, tuple(sums), _fit(known))
