"""What stages saved, request by request, less what that cost.

Theory of operation
-------------------
A decision that makes a message smaller saves the difference in each request that would have shown
the message: at the full price in the first one, if it was taken before the message was sent, and
at the cached price in every other. Against that stand what breaks made the provider read anew, and
what was asked of an auxiliary model. So a token that is left out of one request and comes back
in the next saves nothing, and nothing is claimed before it was sent.

A decision belongs to the *mechanism* that its reason names: `limit: 40,000 bytes` to `limit`.
A decision without one is counted under its kind (`cut`, `drop`, `replace`). What a cut takes is
not counted as saved: the baseline is the same session with the same cuts, every message whole.

The ledger is a fold of the path, so it is restored with the journal, and a new session has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, cast

from attrs import frozen

from ctxalgebra.account import split
from ctxalgebra.explain import carried
from ctxalgebra.model.checks import check_callable, check_type, mistyped
from ctxalgebra.model.entries import Answer, Ask, Cut, Decision, Drop, Replace, Sent, Strip
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Fold, Node, Session, find, fold
from ctxalgebra.model.view import EMPTY_VIEW, Measure, View, hide_blanks
from ctxalgebra.tokens import ceil_div, chars4, check_positive

__all__ = [
    "CACHED",
    "FREE",
    "FRESH",
    "WRITTEN",
    "Savings",
    "Tally",
    "Weighed",
    "mechanism",
    "savings",
    "stake",
]

CACHED, FRESH, WRITTEN = 10, 100, 125
"""Usual prices of a token that is read from the cache, that is not, and that is written to it."""

FREE = ("save",)
"""Topics of asks that no model answers."""


@frozen
class Tally:
    """Count tokens that were saved and paid.

    Args:
        first: tokens left out of the request that would have been the first to show them.
        later: tokens left out of the requests after that, added up.
        rebilled: tokens that breaks made the provider read anew.
        asked: tokens of the questions to an auxiliary model and of its answers.
    """

    first: int = 0
    later: int = 0
    rebilled: int = 0
    asked: int = 0

    def net(self, *, cached: int = CACHED, fresh: int = FRESH, aux: int = FRESH) -> int:
        """Give what is left of the savings, in hundredths of the price of an input token.

        Args:
            cached, fresh: prices of a token that is read from the cache, and of one that is not.
            aux: price of a token of the auxiliary model.

        >>> Tally(first=100, later=400, rebilled=50, asked=20).net()
        7500
        """
        for name, price in (("cached", cached), ("fresh", fresh), ("aux", aux)):
            check_type(price, int, name)
        saved = self.first * fresh + self.later * cached
        return saved - self.rebilled * (fresh - cached) - self.asked * aux

    def break_even(self, *, fresh: int = FRESH, aux: int = FRESH) -> int | None:
        """Give the lowest cached price, in hundredths, at which the savings outweigh the cost.

        None when they do not even where nothing is cheaper in the cache.

        >>> Tally(first=0, later=400, rebilled=50).break_even()
        12
        """
        for name, price in (("fresh", fresh), ("aux", aux)):
            check_type(price, int, name)
        owed = (self.rebilled - self.first) * fresh + self.asked * aux
        if owed <= 0:
            return 0
        per = self.later + self.rebilled
        price = ceil_div(owed, per) if per else fresh + 1
        return price if price <= fresh else None

    def __add__(self, other: Tally) -> Tally:
        """Add up."""
        return Tally(
            self.first + other.first,
            self.later + other.later,
            self.rebilled + other.rebilled,
            self.asked + other.asked,
        )


@frozen
class Weighed:
    """Weigh one decision.

    Args:
        number: its entry.
        mechanism: whose it is.
        tokens: what it leaves out of each request.
        tally: what came of it so far.
        expected: how many requests after the first it needed to pay, as was known when that one
            left; 0 when it paid at once, None when it saves nothing.
        requests: in how many requests it counted so far.
    """

    number: int
    mechanism: str
    tokens: int
    tally: Tally
    expected: int | None
    requests: int


@frozen
class Savings:
    """Sum up what stages saved on the path.

    Args:
        mechanisms: a tally for each, by name.
        turns: the number of the user message that began each turn (-1 in front of the first), and
            its tally.
        decisions: each decision that made messages smaller and left in a request, oldest first.
    """

    mechanisms: Mapping[str, Tally]
    turns: tuple[tuple[int, Tally], ...]
    decisions: tuple[Weighed, ...]

    @property
    def total(self) -> Tally:
        """The sum over all mechanisms."""
        return sum(self.mechanisms.values(), Tally())


def mechanism(decision: Decision) -> str:
    """Name whose decision it is: the word in front of the colon of its reason, else its kind.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> mechanism(Strip("limit: 40,000 bytes")), mechanism(Strip("a 400, signature"))
    ('limit', 'strip')
    """
    if not isinstance(cast("object", decision), Decision):
        raise mistyped(decision, "a decision", "decision")
    word, colon, _ = decision.why.partition(": ")
    return word if colon and word.isidentifier() else decision.kind


class _Item(NamedTuple):
    """A decision that makes requests smaller.

    Fields: `first` and `last`, the numbers of the messages that it is about; `tokens`, what it
    leaves out of each request; `early`, taken before its message was sent; `asked`, what its
    mechanism has asked since its last decision; `since`, index of the first request that left with
    it, -1 before; `until`, index of the first without it, -1 before; `rebilled`, of the break that
    it made.
    """

    number: int
    mechanism: str
    first: int
    last: int
    tokens: int
    early: bool
    asked: int = 0
    since: int = -1
    until: int = -1
    rebilled: int = 0

    def expected(self) -> int | None:
        """Say how many requests after the first it takes until it pays, at the usual prices."""
        owed = self.rebilled * (FRESH - CACHED) + self.asked * FRESH
        owed -= self.tokens * (FRESH if self.early else CACHED)
        if owed <= 0:
            return 0
        return ceil_div(owed, self.tokens * CACHED) if self.tokens > 0 else None

    def tally(self, requests: int) -> Tally:
        """Count what came of it in so many requests of the path."""
        if self.since < 0:
            return Tally(asked=self.asked)
        shown = self.shown(requests)
        early = min(shown, 1) if self.early else 0
        later = self.tokens * (shown - early)
        return Tally(self.tokens * early, later, self.rebilled, self.asked)

    def shown(self, requests: int) -> int:
        """Count the requests that left with it."""
        return (self.until if self.until >= 0 else requests) - self.since


class Ledger(NamedTuple):
    """The fold's value.

    Fields: `view` after the entry `last`, a request or a decision; `live`, items that count, of
    which the last `fresh` have not left yet; `done`, items that a later decision ended; `left_out`,
    what the others leave out of each request; `total`, of all mechanisms; `turns`, as in `Savings`,
    the last of which began behind `turned` requests; `asks`, open questions; `asked`, tokens per
    topic that no decision accounts for yet; `requests` so far, of whose tokens `shared` were those
    of the request before, and the `rest` was not.
    """

    view: View = EMPTY_VIEW
    last: int = -1
    live: tuple[_Item, ...] = ()
    fresh: int = 0
    done: tuple[_Item, ...] = ()
    left_out: int = 0
    total: Tally = Tally()
    turns: tuple[tuple[int, Tally], ...] = ((-1, Tally()),)
    turned: int = 0
    asks: tuple[tuple[int, Ask], ...] = ()
    asked: Mapping[str, int] = MappingProxyType({})
    requests: int = 0
    shared: int = 0
    rest: int = 0

    def turn(self, number: int) -> Ledger:
        """Begin a turn; user messages with no request between them begin one."""
        if self.requests > self.turned:
            turns = (*self.turns, (number, Tally()))
        elif self.turns[-1][0] < 0:
            turns = ((number, self.turns[-1][1]),)
        else:
            return self
        return self._replace(turns=turns, turned=self.requests)

    def paid(self, tally: Tally) -> Ledger:
        """Add to the total, and to the turn."""
        number, turn = self.turns[-1]
        turns = (*self.turns[:-1], (number, turn + tally))
        return self._replace(total=self.total + tally, turns=turns)

    def ended(self, gone: list[_Item]) -> Ledger:
        """End items; of those that never left, nothing is kept."""
        if not gone:
            return self
        numbers = {item.number for item in gone}
        live = tuple(item for item in self.live if item.number not in numbers)
        done = tuple(item._replace(until=self.requests) for item in gone if item.since >= 0)
        return self._replace(
            live=live,
            fresh=sum(item.since < 0 for item in live),
            done=(*self.done, *done),
            left_out=self.left_out - sum(item.tokens for item in done),
        )


def _original(node: Node, number: int) -> Message:
    found = carried(find(Session(node, node), number))
    return cast("Message", found)  # the gate let the decision through: there is a message


def _decided(
    known: Ledger, node: Node, view: View, decision: Replace | Drop, measure: Measure
) -> Ledger:
    before, gone = known.view, list[_Item]()
    if isinstance(decision, Replace):
        first = last = decision.target
        slot = before.slot(first) if first <= known.last else -1
        was = original = hide_blanks(_original(node, first))
        if slot >= 0 and before.slots.messages[slot] is not original:
            was = before.slots.messages[slot]
            gone = [item for item in known.live if item.first == first]
        tokens = measure(was) - measure(view.slots.messages[view.slot(first)])
        early = slot < 0 or slot >= before.fixed
    else:
        first, last, early = decision.first, decision.last, False
        start, stop = before.slot(first), before.slot(last) + 1
        numbers = frozenset(before.slots.numbers[start:stop])
        gone = [item for item in known.live if item.first in numbers]
        tokens = before.slots.total(measure, stop) - before.slots.total(measure, start)
    # What was smaller already is counted from its first form on.
    tokens += sum(item.tokens for item in gone)
    known = known.ended(gone)
    whose = mechanism(decision)
    asked = dict(known.asked)
    owed = asked.pop(whose, 0) + sum(item.asked for item in gone if item.since < 0)
    item = _Item(node.number, whose, first, last, tokens, early, owed)
    live = (*known.live, item)
    return known._replace(
        view=view, last=node.number, live=live, fresh=known.fresh + 1, asked=asked
    )


def _blamed(node: Node, view: View) -> int:
    """Give the number of the entry whose change stands first, which is where the break is."""
    if view.broke is None:
        return -1

    def place(number: int) -> int:
        cause = find(Session(node, node), number)
        match cause.entry if cause is not None else None:
            case Replace(target=at) | Drop(first=at):
                return at
            case _:  # a cut and a head change what stands in front of all messages
                return -1

    return min(view.broke.by, key=place)


def _sent(known: Ledger, node: Node, view: View, measure: Measure) -> Ledger:
    shared, rebilled, fresh = split(view, measure)
    blamed = _blamed(node, view)
    settled = len(known.live) - known.fresh
    first = owed = 0
    news: list[_Item] = []
    for item in known.live[settled:]:
        price = rebilled if item.number == blamed else 0
        news.append(item._replace(since=known.requests, rebilled=price))
        owed += price
        first += item.tokens if item.early else 0
    left_out = known.left_out + sum(item.tokens for item in news)
    return known._replace(
        view=view,
        last=node.number,
        live=(*known.live[:settled], *news) if news else known.live,
        fresh=0,
        left_out=left_out,
        requests=known.requests + 1,
        shared=known.shared + shared,
        rest=known.rest + rebilled + fresh,
    ).paid(Tally(first, left_out - first, owed))


def _tokens(text: str) -> int:
    return ceil_div(len(text), 4)


def _answered(known: Ledger, answer: Answer) -> Ledger:
    """Count what a question cost, whatever came of it; what is only kept costs nothing."""
    question = next(question for number, question in known.asks if number == answer.ask)
    asks = tuple(item for item in known.asks if item[0] != answer.ask)
    tokens = 0
    if question.topic not in FREE:
        # A model may have read what it failed to answer in time.
        tokens = _tokens(question.question)
        tokens += _tokens(answer.value) if answer.outcome == "answered" else 0
    asked = {**known.asked, question.topic: known.asked.get(question.topic, 0) + tokens}
    return known._replace(asks=asks, asked=asked).paid(Tally(asked=tokens))


@lru_cache(maxsize=64)
def _ledgers(measure: Measure) -> Fold[Ledger]:
    check_callable(measure, "measure")

    def step(known: Ledger, node: Node, view: View) -> Ledger:
        entry = node.entry
        match entry:
            case Message(role="user"):
                return known.turn(node.number)
            case Sent():
                return _sent(known, node, view, measure)
            case Replace() | Drop():
                return _decided(known, node, view, entry, measure)
            case Cut(through=through):
                gone = [item for item in known.live if item.last <= through]
                return known.ended(gone)._replace(view=view, last=node.number)
            case Head() | Strip():
                return known._replace(view=view, last=node.number)
            case Ask():
                return known._replace(asks=(*known.asks, (node.number, entry)))
            case Answer():
                return _answered(known, entry)
            case _:
                return known

    reads = (Message, Sent, Replace, Drop, Cut, Head, Strip, Ask, Answer)
    return Fold("savings", Ledger(), step, reads=reads)


def _ledger(session: Session, measure: Measure) -> Ledger:
    try:
        what = _ledgers(measure)
    except TypeError:  # what was measured is remembered by the measure
        raise mistyped(measure, "a function that can be hashed", "measure") from None
    return fold(session, what)


def stake(
    session: Session, *, regret: int = 50, aux: int = FRESH, measure: Measure = chars4
) -> int:
    """Say what a stage may spend whose gain is not certain, in hundredths of an input token.

    That is what stages have saved on the path so far, and one part in `regret` of what its
    requests cost, the next one included; less what was asked and is not answered yet. A pipeline
    that spends no more than its stake costs at most that part more than doing nothing, whatever
    comes after, as a skier who buys when the rent that was saved pays for it.

    Args:
        regret: what may be lost at most: one part in so many of what was spent.
        aux: price of a token of the auxiliary model, in hundredths of an input token.
        measure: tokens of a message or head.

    Raises:
        InvalidArgument: `invalid-argument`, `regret` is no positive integer; `wrong-type`.

    >>> from ctxalgebra import Session, record, user
    >>> stake(record(Session(), user("x" * 4000)), regret=10)
    12500
    """
    check_positive(regret=regret)
    check_type(aux, int, "aux")
    known, view = _ledger(session, measure), session.view
    total = view.slots.total
    rest = known.rest + total(measure, view.end)
    shared = known.shared
    if view.sent is None:
        rest += measure(view.head)
    else:
        rest -= total(measure, view.fixed)
        shared += measure(view.head) + total(measure, view.fixed)
    asked = sum(_tokens(ask.question) for _, ask in known.asks if ask.topic not in FREE)
    net = known.total.net(cached=CACHED, fresh=WRITTEN, aux=aux) - asked * aux
    return net + (shared * CACHED + rest * WRITTEN) // regret


def savings(session: Session, *, measure: Measure = chars4) -> Savings:
    """Sum up what stages saved on the path, per mechanism, per turn and per decision (a query).

    Reads decisions, requests, asks and answers. Aux tokens are a quarter of the characters of a
    question and its answer.

    Args:
        measure: tokens of a message or head.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import *
    >>> session = record(Session(), user("run"), assistant(ToolCall("c1", "bash")))
    >>> session = record(session, tool_result("c1", "x" * 4000))
    >>> session = record(session, Replace(2, tool_result("c1", "x" * 400), "limit: 400 bytes"))
    >>> session, _ = send(session)
    >>> session, _ = send(reply(session, "completed", assistant("done")))
    >>> dict(savings(session).mechanisms)
    {'limit': Tally(first=900, later=900, rebilled=0, asked=0)}
    """
    known = _ledger(session, measure)
    tallies = {topic: Tally(asked=tokens) for topic, tokens in known.asked.items()}
    decisions: list[Weighed] = []
    for item in sorted((*known.done, *known.live)):
        tally, whose = item.tally(known.requests), item.mechanism
        tallies[whose] = tallies.get(whose, Tally()) + tally
        if item.since >= 0:
            shown = item.shown(known.requests)
            weighed = Weighed(item.number, whose, item.tokens, tally, item.expected(), shown)
            decisions.append(weighed)
    paid = {name: tally for name, tally in sorted(tallies.items()) if tally != Tally()}
    return Savings(MappingProxyType(paid), known.turns, tuple(decisions))
