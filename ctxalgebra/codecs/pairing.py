"""Which result answers which call in a tree of messages, decided before anything is recorded.

`ctxalgebra.protocol.repair` decides it, once for each stretch of the tree without forks. What the
path above a stretch holds matters in two ways: ids that are taken, and calls that are open at a
fork, which are open on each branch. Of both a stretch is told what it names, so that the work is
that of its own messages, however many calls are open above.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from attrs import evolve

from ctxalgebra.model.parts import Message, ToolCall, assistant, tool_result
from ctxalgebra.protocol import Repaired, repair

__all__ = ["Answers", "Plan", "pair"]

Answers = dict[str, tuple[int, Message]]
"""For call ids, the item of the result, and the result."""


class Plan(NamedTuple):
    """What was decided for a stretch of the tree without forks.

    Fields: `shown`, the messages that stay by item, some of them renamed; `answers`, for each call
    id its result and the item of that, -1 for a result that has to be made. A call that was open
    above and that nothing here names is not among them: its result has to be made, too.
    """

    shown: dict[int, Message]
    answers: Answers


_Opened = dict[str, tuple[int, ToolCall]]
"""Calls that are open, by id, each with its place in its message."""


class _Undo(NamedTuple):
    """What a stretch did to the ids in use and to the open calls, to be undone behind it."""

    ids: list[str]
    opened: _Opened
    closed: _Opened
    renamed: dict[str, str]


_LISTED = {
    "aborted-calls": "left out: the turn of this call was aborted",
    "duplicate-result": "left out: the call has its result already",
    "empty-content": "withheld: it shows nothing",
    "orphan-result": "left out: no call has this id",
    "out-of-order": "shown in the order of the calls",
    "steering": "shown behind the results",
}
"""What the gate or the plan settles; results that are moved or made are listed when they are."""

_NAMED = re.compile(r"(?=['\"])|$")
_CHANGED = ("missing-id", "reused-id", "blank-text")

Report = Callable[[int, str, str, str], None]
"""Takes the item, the code, what was done, and the call's id."""


def _place(opened: tuple[int, ToolCall]) -> int:
    return opened[0]


class _Pairing:
    """The walk over the tree: the ids in use and the open calls of the path it is on."""

    def __init__(
        self, messages: Sequence[Message | None], aborted: Collection[int], report: Report
    ) -> None:
        self.plans: list[Plan] = [Plan({}, {})] * len(messages)
        self._messages = messages
        self._aborted = aborted
        self._report = report
        self._used: Counter[str] = Counter()
        self._opened: _Opened = {}
        self._renamed: dict[str, str] = {}
        self._names = {call.id for m in messages if m is not None for call in m.calls}
        self._numbers: dict[str, int] = {}

    def _said(self, items: Sequence[int]) -> list[Message]:
        """Give the messages of a stretch; results name calls that were renamed above as we do."""
        renamed = dict(self._renamed)
        found: list[Message] = []
        for message in [m for index in items if (m := self._messages[index]) is not None]:
            for call in message.calls:
                renamed.pop(call.id, None)
            name = renamed.get(message.call) if message.role == "tool" else None
            found.append(message if name is None else evolve(message, call=name))
        return found

    def _front(self, found: Sequence[Message]) -> tuple[list[Message], list[ToolCall]]:
        """Give what stands for the path in front of a stretch, and the open calls in it."""
        calls = {call.id: call for message in found for call in message.calls}
        named = {*calls, *(message.call for message in found)}
        opened = self._opened
        front: list[Message] = []
        if taken := [c for name, c in calls.items() if self._used[name] and name not in opened]:
            front = [assistant(*taken), *(tool_result(call.id, "") for call in taken)]
        places = sorted((opened[name] for name in named if name in opened), key=_place)
        carried = [call for _, call in places]
        if carried:
            front.append(assistant(*carried))
        return front, carried

    def _fresh(self, name: str) -> str:
        """Name a call as nothing else in the tree is named: `name` ends with a number."""
        base = name[: name.rindex("_")]
        number = self._numbers.get(base, 1) + 1
        while (fresh := f"{base}_{number}") in self._names:
            number += 1
        self._numbers[base] = number
        self._names.add(fresh)
        return fresh

    def _rename(self, plan: Plan, own: Collection[str]) -> dict[str, str]:
        """Rename calls anew whose new name a call of the path above has; map old to new."""
        renamed: dict[str, str] = {}
        for item, message in plan.shown.items():
            ids = [call.id for call in message.calls if call.id not in own]
            names = {name: self._fresh(name) for name in ids if self._used[name]}
            self._names.update(ids)
            if not names:
                continue
            parts = tuple(
                evolve(part, id=names.get(part.id, part.id)) if isinstance(part, ToolCall) else part
                for part in message.parts
            )
            plan.shown[item] = evolve(message, parts=parts)
            renamed.update(names)
        for old, new in renamed.items():
            item, result = plan.answers.pop(old)
            plan.answers[new] = item, evolve(result, call=new)
            if item >= 0:
                plan.shown[item] = plan.answers[new][1]
        return renamed

    def _list(
        self, repaired: Repaired, items: Sequence[int], front: int, renamed: Mapping[str, str]
    ) -> None:
        quoted = {repr(old): repr(new) for old, new in renamed.items()}
        for made in repaired.repairs:
            if made.index >= front:
                item = items[made.index - front]
                if made.code in _LISTED:
                    self._report(item, made.code, _LISTED[made.code], made.call)
                elif made.code in _CHANGED:
                    # The name that was given stands quoted at the end of some actions.
                    words, name = _NAMED.split(made.action, maxsplit=1)
                    self._report(item, made.code, words + quoted.get(name, name), made.call)

    def enter(self, stretch: Sequence[int]) -> _Undo:
        """Plan a stretch, and stand behind it."""
        items = [index for index in stretch if self._messages[index] is not None]
        found = self._said(items)
        front, carried = self._front(found)
        gone = [len(front) + at for at, index in enumerate(items) if index in self._aborted]
        repaired = repair([*front, *found], aborted=gone)
        plan = Plan({}, {})
        for message, source in zip(repaired.messages, repaired.sources, strict=True):
            if source is not None and source < len(front):
                continue
            item = -1 if source is None else items[source - len(front)]
            if message.role == "tool":
                plan.answers[message.call] = item, message
            if item >= 0:
                plan.shown[item] = message
        said = {call.id for message in found for call in message.calls}
        self._list(repaired, items, len(front), self._rename(plan, said))
        for index in stretch:
            self.plans[index] = plan
        said.update(call.id for message in plan.shown.values() for call in message.calls)
        closed = {
            call.id: self._opened.pop(call.id) for call in carried if plan.answers[call.id][0] >= 0
        }
        undo = _Undo(sorted(said - {""}), self._opened, closed, self._renamed)
        self._used.update(undo.ids)
        speaks = [item for item, m in zip(items, found, strict=True) if m.role == "assistant"]
        if speaks:
            last = speaks[-1]
            ours = plan.shown[last].calls if last in plan.shown else ()
            self._opened = {
                call.id: (at, call)
                for at, call in enumerate(ours)
                if last not in self._aborted and plan.answers[call.id][0] < 0
            }
            theirs = self._messages[last]
            pairs = zip(theirs.calls if theirs is not None else (), ours, strict=False)
            self._renamed = {
                said.id: call.id
                for said, call in pairs
                if call.id in self._opened and said.id not in self._opened
            }
        return undo

    def leave(self, undo: _Undo) -> None:
        """Stand in front of a stretch again."""
        self._used.subtract(undo.ids)
        self._opened, self._renamed = undo.opened, undo.renamed
        self._opened.update(undo.closed)


def pair(
    messages: Sequence[Message | None],
    children: Sequence[Sequence[int]],
    aborted: Collection[int],
    report: Report,
) -> list[Plan]:
    """Decide for each stretch of a tree which result answers which call.

    Args:
        messages: by item; None for an item that is no message.
        children: of each item, in file order; the last, at -1, are the roots.
        aborted: replies that were not completed: their calls will not be answered.
        report: is told what the plan leaves out, moves or renames, apart from results that are
            made or moved to another place.

    Returns:
        The plan of each item's stretch.
    """
    pairing = _Pairing(messages, aborted, report)
    todo: list[int | _Undo] = [*reversed(children[-1])]
    while todo:
        start = todo.pop()
        if isinstance(start, _Undo):
            pairing.leave(start)
            continue
        stretch = [start]
        while len(below := children[stretch[-1]]) == 1:
            stretch.append(below[0])
        todo.append(pairing.enter(stretch))
        todo.extend(reversed(below))
    return pairing.plans
