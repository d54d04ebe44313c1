"""The view: what a request shows, as the fold of a path of entries.

Theory of operation
-------------------
The view is an array of *slots*, each a message as it is shown. Three marks divide it:

    0 ........ front ........ fixed ........ end
    notice and kept       sent         not sent yet

* `fixed` counts the slots that stand for what the latest request showed; `Sent` moves it to the
  end. A change at a slot in front of it is a *break* there. The head stands at position -1.
* `read` is the length of the prefix that some completed request showed, `fresh` what `read` was
  before the latest of these.
* A message takes a slot when it can legally be shown. While calls are open, results gather in
  `results` and everything else in `waiting`; the last result shows them all: the results in the
  order of the calls, then what waited. While a request is in flight, everything waits.
* Texts of white space are no content: they are never shown, except in results (rule V-A6).
* Any decision at slot p hides the thinking behind p for good, since thinking is bound to what
  stands before it (rules T1 to T4): the whole part of the view behind p, and inside the message
  at p what stands behind its first changed part.

Appending shares one array between all views of a line; each view knows how much of it is its
own. Whoever finds another's message in its place forks the window. Decisions rewrite the window.
Nothing here refuses anything: legality is the gate's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, NamedTuple

from attrs import evolve, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_callable, mistyped
from ctxalgebra.model.entries import (
    Answer,
    Ask,
    Cut,
    Drop,
    Entry,
    Label,
    Note,
    Replace,
    Reply,
    Sent,
    Strip,
    UsageReport,
)
from ctxalgebra.model.exchange import NO_RESULTS, NOTHING, Queue, Results, awaiting
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message, Text, Thinking

__all__ = [
    "EMPTY_VIEW",
    "HEAD",
    "Break",
    "Measure",
    "Shown",
    "Slots",
    "View",
    "hide_blanks",
    "hide_thinking",
    "replaced",
    "step",
    "weigh",
]

HEAD = -1
"""The position of the head, in front of the first message."""

Measure = Callable[[Message | Head], int]
"""An estimate in tokens, of a message or of a head. Pure: equal values get equal numbers."""


def weigh(measure: Measure, value: Message | Head) -> int:
    """Measure a message or a head, and refuse what is no number of tokens.

    Raises:
        InvalidArgument: `wrong-type`, the measure gave no integer, or a negative one.
    """
    tokens: object = measure(value)
    if type(tokens) is not int or tokens < 0:
        raise InvalidArgument(
            "wrong-type", f"a measure gives tokens, not {tokens!r:.40}", field="measure"
        )
    return tokens


class Slots:
    """The shared array behind views: messages and the numbers of their entries.

    Append-only. `sums` remembers running totals per measure, -1 where they are not known yet.
    """

    __slots__ = ("messages", "numbers", "sums")

    def __init__(self, messages: list[Message], numbers: list[int]) -> None:
        self.messages = messages
        self.numbers = numbers
        self.sums: dict[Measure, list[int]] = {}

    def total(self, measure: Measure, end: int) -> int:
        """Sum the measure over the first `end` slots; costs what is new since the last call.

        Threads may race: each total is written in its place, from the last one that is there, and
        is the same whoever writes it.

        Raises:
            InvalidArgument: `wrong-type`, the measure can't be called, or not be remembered, or
                gives no number of tokens.
        """
        try:
            sums = self.sums.get(measure)
        except TypeError:
            raise mistyped(measure, "a function that can be hashed", "measure") from None
        if sums is None:
            check_callable(measure, "measure")
            sums = self.sums.setdefault(measure, [0])
        if len(sums) <= end:
            sums.extend([-1] * (end + 1 - len(sums)))
        if (total := sums[end]) >= 0:
            return total
        at = end - 1
        while (total := sums[at]) < 0:
            at -= 1
        for index in range(at, end):
            total += weigh(measure, self.messages[index])
            sums[index + 1] = total
        return total

    def carry(self, earlier: Slots, same: int, origins: list[int]) -> None:
        """Take over what was measured in an earlier array.

        Args:
            same: so many first slots are ours, too.
            origins: where each slot behind them stood there, as it is; -1 for what is new.
        """
        for measure, totals in earlier.sums.items():
            known = totals.index(-1) if totals[-1] < 0 else len(totals)
            ours = totals[: min(same + 1, known)]
            # Recording must not fail by a measure: whoever asks for the total gets its error.
            with suppress(Exception):
                if known > same + 1:
                    weights = [
                        totals[origin + 1] - totals[origin]
                        if 0 <= origin < known - 1
                        else weigh(measure, self.messages[slot])
                        for slot, origin in enumerate(origins, same)
                    ]
                    ours = [*ours[:-1], *accumulate(weights, initial=ours[-1])]
            self.sums[measure] = ours


@frozen
class Break:
    """Say where a request stopped being an extension of the one before it.

    Args:
        sent: number of the request's `Sent` entry.
        at: index of the first message that differs, -1 for the head.
        why: the reason of each entry that caused it.
        by: the numbers of these entries.
    """

    sent: int
    at: int
    why: str
    by: tuple[int, ...]


class Shown(NamedTuple):
    """What a request showed, and how it relates to the one before it on its path.

    Fields: `number` of the `Sent` entry, `head`, `slots` up to `end`; `shared`, how many leading
    messages are those of the request `before` (-1 when the head differs, 0 for a first request,
    whose `before` is -1).
    """

    number: int
    head: Head
    slots: Slots
    end: int
    shared: int
    before: int


class View(NamedTuple):
    """The fold's value. A tuple rather than an attrs class: it is rebuilt with each entry.

    Fields beyond the theory above: `flight` is the number of the open `Sent` or -1, `open` the ids
    of the calls of the open exchange, `frontier` the number of the last message that was cut
    or -1, `sent` the latest request, `broke` the pending break (or, at a `Sent`, the
    break of that request), `pending` the unanswered asks with their numbers.
    """

    head: Head
    slots: Slots
    end: int
    front: int
    fixed: int
    read: int
    fresh: int
    flight: int
    open: tuple[str, ...]
    results: Results
    waiting: Queue[tuple[int, Message]]
    frontier: int
    sent: Shown | None
    broke: Break | None
    pending: tuple[tuple[int, Ask], ...]

    def slot(self, number: int) -> int:
        """Find the slot of the message with this entry number; -1 when it is not shown."""
        numbers, near = self.slots.numbers, max(0, self.end - 16)
        for slot in range(self.end - 1, near - 1, -1):
            if numbers[slot] == number:
                return slot  # decisions are mostly about what came last
        try:
            return numbers.index(number, 0, near)
        except ValueError:
            return -1

    def messages(self) -> tuple[Message, ...]:
        """Copy out what is shown."""
        messages = self.slots.messages
        return tuple(messages) if len(messages) == self.end else tuple(messages[: self.end])

    def thinking(self, first: int) -> int:
        """Find the first slot from `first` on that shows thinking; `end` when there is none."""
        messages = self.slots.messages
        return next((i for i in range(first, self.end) if messages[i].thinks), self.end)

    def loop(self, before: int) -> int:
        """Find where the tool loop in front of a slot begins: behind the last user message."""
        messages = self.slots.messages
        index = before
        while index and messages[index - 1].role != "user":
            index -= 1
        return index

    def states_head(self) -> bool:
        """Say whether a head was stated, or a request sent under the one that is none."""
        return self.sent is not None or self.head is not EMPTY_VIEW.head

    def holds_loop(self, at: int) -> bool:
        """Say whether a break at slot `at` must wait: it would take leading thinking (V-A7).

        A loop is open when its last message is a result or calls.
        """
        if self.head.route.binding != "leading" or not self.end:
            return False
        last = self.slots.messages[self.end - 1]
        if last.role == "assistant" and not last.calls:
            return False
        return self.thinking(max(at, self.loop(self.end))) < self.end


EMPTY_VIEW = View(
    Head(), Slots([], []), 0, 0, 0, 0, 0, -1, (), NO_RESULTS, NOTHING, -1, None, None, ()
)  # fmt: skip


def hide_thinking(message: Message, behind: int = 0) -> Message:
    """Take away the thinking parts from index `behind` on; the same object if there are none."""
    if not any(type(p) is Thinking for p in message.parts[behind:]):
        return message
    kept = tuple(p for i, p in enumerate(message.parts) if i < behind or type(p) is not Thinking)
    return evolve(message, parts=kept)


def hide_blanks(message: Message) -> Message:
    """Take away the texts of white space beside content; the same object if there are none."""
    if not message.blanks:
        return message
    kept = tuple(p for p in message.parts if type(p) is not Text or p.text.strip())
    return evolve(message, parts=kept)


def replaced(shown: Message, message: Message, *, bound: bool) -> Message:
    """Render a replacement: under bound thinking, what stands behind the first change goes."""
    message = hide_blanks(message)
    if not bound or not message.thinks:
        return message
    pairs = zip(shown.parts, message.parts, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(message.parts))
    return hide_thinking(message, same)


def _append(slots: Slots, end: int, number: int, message: Message) -> Slots:
    """Put a message at index `end`: in the shared array if that place is free or its own."""
    messages, numbers = slots.messages, slots.numbers
    # The empty array is everyone's: a line begins with an array of its own.
    if len(messages) == end > 0:
        messages.append(message)
        numbers.append(number)
    # Checked after the append, too: another thread may have taken the place in between.
    if len(numbers) > end and messages[end] is message and numbers[end] == number:
        return slots
    fork = Slots([*messages[:end], message], [*numbers[:end], number])
    fork.sums = {measure: sums[: end + 1] for measure, sums in slots.sums.items()}
    return fork


def _show(
    view: View,
    items: Iterable[tuple[int, Message]],
    read: int,
    fresh: int,
    waiting: Queue[tuple[int, Message]] = NOTHING,
) -> View:
    """Show messages at the end of the view; those without content stay withheld."""
    slots, end = view.slots, view.end
    opened: tuple[str, ...] = ()
    for number, message in items:
        if message.empty and message.role != "tool":
            continue
        shown = hide_blanks(message) if message.blanks else message
        slots = _append(slots, end, number, shown)
        end += 1
        if message.calls:
            opened = tuple([call.id for call in message.calls])
    return View(
        view.head, slots, end, view.front, view.fixed, read, fresh, -1, opened,
        awaiting(opened) if opened else NO_RESULTS, waiting, view.frontier, view.sent,
        None if view.flight >= 0 else view.broke, view.pending,
    )  # fmt: skip


def _message(view: View, number: int, message: Message) -> View:
    if message.role == "tool":
        if len(view.open) == 1:
            return _show(view, ((number, message), *view.waiting), view.read, view.fresh)
        results = view.results.answered(message.call, number, message)
        if len(results) < len(view.open):
            return view._replace(results=results)
        items = (*[results[call] for call in view.open], *view.waiting)
        return _show(view, items, view.read, view.fresh)
    if view.open or view.flight >= 0:
        return view._replace(waiting=view.waiting.joined((number, message)))
    read, fresh = view.read, view.fresh
    if message.role == "assistant":
        # It is proof that all before it was read, whoever sent that request.
        read, fresh = view.end + (not message.empty), read
    return _show(view, ((number, message),), read, fresh)


def _sent(view: View, number: int, _: Sent) -> View:
    head, slots, end, broke, before = view.head, view.slots, view.end, view.broke, view.sent
    shared = 0
    if before is not None:
        shared = before.end
        if broke is not None:
            # A change may have been taken back: what counts is what the two requests show.
            shared = HEAD
            if head == before.head:
                shared = max(broke.at, 0)
                most = min(before.end, end)
                ours, theirs = slots.messages, before.slots.messages
                while shared < most and ours[shared] == theirs[shared]:
                    shared += 1
            broke = None if shared == before.end else Break(number, shared, broke.why, broke.by)
    sent = Shown(number, head, slots, end, shared, -1 if before is None else before.number)
    return View(
        head, slots, end, view.front, end, view.read, view.fresh, number, (), NO_RESULTS, NOTHING,
        view.frontier, sent, broke, view.pending,
    )  # fmt: skip


def _reply(view: View, number: int, reply: Reply) -> View:
    message = reply.message
    if reply.outcome != "completed" or message is None:
        return _show(view, view.waiting, view.read, view.fresh)
    if message.calls:
        return _show(view, ((number, message),), view.fixed, view.read, view.waiting)
    return _show(view, ((number, message), *view.waiting), view.fixed, view.read)


def _rewrite(
    view: View,
    number: int,
    why: str,
    at: int,
    fresh: Sequence[tuple[int, int, Message]],
    rest: int,
    *,
    hide: int | None,
    front: int,
) -> View:
    """Set the window anew from a slot on: hide thinking, move the marks, note the break.

    Args:
        at: the first slot that may differ from before; those in front of it stay as they are.
        fresh: the new slots from there on: where each stood before, number, message; a notice
            stands for the first.
        rest: the slots from here on follow, thinking aside as they are.
        hide: from which new slot on thinking goes; None for nowhere.
        front: how many of the first slots are the notice and kept messages.
    """
    same = max(at, 0)
    old = view.slots.messages
    messages = [*old[:same], *(message for _, _, message in fresh), *old[rest : view.end]]
    numbers = [*view.slots.numbers[:same], *(n for _, n, _ in fresh)]
    numbers += view.slots.numbers[rest : view.end]
    # Where each slot behind those that stay the same stood before: never falling.
    stood = [*(before for before, _, _ in fresh), *range(rest, view.end)]
    thinking: list[int] = []
    if hide is not None:
        thinking = [i for i in range(hide, len(messages)) if messages[i].thinks]
    for index in reversed(thinking):
        messages[index] = hide_thinking(messages[index])
        if messages[index].empty:
            del messages[index], numbers[index], stood[index - same]
    slots = Slots(messages, numbers)
    moved = zip(stood, messages[same:], strict=True)
    slots.carry(view.slots, same, [b if shown is old[b] else -1 for b, shown in moved])
    broke = view.broke
    if view.sent is not None and at < view.fixed:
        if broke is None:
            broke = Break(-1, at, why, (number,))
        else:
            broke = Break(-1, min(at, broke.at), f"{broke.why}; {why}", (*broke.by, number))
    return view._replace(
        slots=slots,
        end=len(messages),
        front=front,
        fixed=min(view.fixed, same) + bisect_left(stood, view.fixed),
        read=min(view.read, same) + bisect_left(stood, view.read),
        fresh=min(view.fresh, same) + bisect_left(stood, view.fresh),
        broke=broke,
    )


def _bound(view: View, slot: int) -> int | None:
    """Say from which slot on thinking is hidden by a change in front of it; None for nowhere."""
    return None if view.head.route.binding == "none" else slot


def _cut(view: View, number: int, cut: Cut) -> View:
    rest = view.slot(cut.through) + 1
    slots = [view.slot(n) for n in cut.keep]
    kept = [(slot, view.slots.numbers[slot], view.slots.messages[slot]) for slot in slots]
    fresh = [(0, number, hide_blanks(cut.notice)), *kept]
    hide = _bound(view, 0)
    view = _rewrite(view, number, cut.why, 0, fresh, rest, hide=hide, front=len(fresh))
    return view._replace(frontier=cut.through)


def _replace(view: View, number: int, decision: Replace) -> View:
    at = view.slot(decision.target)
    bound = view.head.route.binding != "none"
    message = replaced(view.slots.messages[at], decision.message, bound=bound)
    fresh = [(at, decision.target, message)]
    hide = _bound(view, at + 1)
    return _rewrite(view, number, decision.why, at, fresh, at + 1, hide=hide, front=view.front)


def _drop(view: View, number: int, drop: Drop) -> View:
    first, rest = view.slot(drop.first), view.slot(drop.last) + 1
    hide = _bound(view, first)
    return _rewrite(view, number, drop.why, first, (), rest, hide=hide, front=view.front)


def _strip(view: View, number: int, strip: Strip) -> View:
    at = view.thinking(0)
    return _rewrite(view, number, strip.why, at, (), at, hide=at, front=view.front)


def _head(view: View, number: int, head: Head) -> View:
    if head is EMPTY_VIEW.head:
        head = Head()  # stated now, which is told by identity
    if head == view.head or not view.states_head():
        # Nothing changes, or the head is stated at last: what was recorded before it stands.
        return view._replace(head=head)
    old, new = view.head, head
    names = [n for n in ("provider", "model", "parameters", "binding")
             if getattr(old.route, n) != getattr(new.route, n)]  # fmt: skip
    names += [n for n in ("system", "tools") if getattr(old, n) != getattr(new, n)]
    why = f"the head changed: {', '.join(names)}"
    hide = None if old.route.binding == new.route.binding == "none" else 0
    view = _rewrite(view, number, why, HEAD, (), 0, hide=hide, front=view.front)
    return view._replace(head=head)


def _ask(view: View, number: int, ask: Ask) -> View:
    return view._replace(pending=(*view.pending, (number, ask)))


def _answer(view: View, _: int, answer: Answer) -> View:
    return view._replace(pending=tuple(item for item in view.pending if item[0] != answer.ask))


def _nothing(view: View, _number: int, _entry: Entry) -> View:
    return view


STEPS: dict[type, Callable[[View, int, Any], View]] = {
    Message: _message,
    Head: _head,
    Sent: _sent,
    Reply: _reply,
    UsageReport: _nothing,
    Label: _nothing,
    Note: _nothing,
    Ask: _ask,
    Answer: _answer,
    Cut: _cut,
    Replace: _replace,
    Drop: _drop,
    Strip: _strip,
}


def step(view: View, number: int, entry: Entry) -> View:
    """Take one entry into the view; total on everything that the gate lets through."""
    return STEPS[type(entry)](view, number, entry)
