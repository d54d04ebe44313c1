"""Taking a host's file in: from items in file order to a session, with every repair listed.

A codec reads its file into `Item`s; `take_in` records them through the gate. What it adds to the
order of the file:

* The tree. An item is recorded under the item that it names as its parent, in file order. An item
  that stands in front of its parent waits for it.
* Requests. A reply of the model closes a request that nobody saw leave: `Sent(inferred=True)`
  stands directly in front of it. Where nothing could have been sent, a reply stands as a plain
  message.
* Pairing. `ctxalgebra.protocol.repair` decides which result answers which call, once for each
  stretch of the tree without forks; calls that are open at a fork are open on each branch. A user
  message between a call and its result stays where it is, since the gate lets it wait.

How a file is given back byte for byte
--------------------------------------
Every line (or element) of the file stands in exactly one entry, in file order:

* a message keeps the text that it was read from in `origin`;
* a line that gives no message is `Note(NAME, text)`, NAME being the codec's, or `NAME + "-aside"`
  if it has no place in the tree either;
* a line that gives an entry of another kind is `Note(NAME + "-entry", text)`, and that entry
  follows it;
* what a repair made, moved or renamed is not in the file at that place: a `codec-repair` note
  stands directly in front of it, and if it has a line, that line is a note in its own place.

So encoding passes over what follows a repair note, and writes the rest as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from attrs import frozen

from ctxalgebra.codecs.lines import quote
from ctxalgebra.errors import CtxError, DecodeError
from ctxalgebra.model.entries import Entry, Note, Outcome, Reply, Sent
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Binding, Head, Usage
from ctxalgebra.model.parts import Message, ToolCall, assistant, tool_result
from ctxalgebra.model.session import Session
from ctxalgebra.protocol import repair

__all__ = [
    "ASIDE",
    "ENTRY",
    "FORMATS",
    "REPAIR",
    "RESULTS",
    "UNTERMINATED",
    "Act",
    "Decoded",
    "Intake",
    "Item",
    "Repair",
    "bound",
    "in_file",
    "problem_of",
    "take_in",
]

REPAIR = "codec-repair"
"""Name of the note in front of what a repair added."""

ENTRY = "-entry"
"""Ending of the name of a note whose line the next entry was read from."""

ASIDE = "-aside"
"""Ending of the name of a note whose line has no place in the tree."""

UNTERMINATED = "-unterminated"
"""Ending of the name of a note that says: the last line has no LF."""

_EMPTY = Session()

FORMATS = ("pi", "openai-chat")
"""Names of the formats that are taken in; names of their notes begin with them."""


@frozen
class Repair:
    """Say what was done about a defect of a file.

    Args:
        code: of `ctxalgebra.errors.CODES` or `ctxalgebra.protocol.DEFECTS`.
        line: the line of the file, or the place of the element in its array, from 1.
        text: one sentence for a person.
        entry: the id that the file gives the entry, or a call's id; empty when there is none.
    """

    code: str
    line: int
    text: str
    entry: str = ""


@frozen
class Decoded:
    """Hold what a codec read: the session, what had to be repaired, and the format's name."""

    session: Session
    repairs: tuple[Repair, ...]
    format: str


Act = Callable[["Intake"], Entry | None]


@frozen
class Item:
    """One line or element of a file, as its codec read it.

    Args:
        line: its place in the file, from 1.
        raw: its text.
        parent: index of the item that it stands under; -1 for none; None for an item that only
            keeps its place in the file.
        message: the message in it.
        outcome: of a reply: what came of the request.
        usage, time: of a reply: what it cost, and when the request left (milliseconds since 1970).
        head: of a reply: the head of its request, from the one that holds.
        act: gives the entry that the item stands for, where that is no message; may raise what the
            gate raises.
        name: the id that the file gives it.
    """

    line: int
    raw: str
    parent: int | None = None
    message: Message | None = None
    outcome: Outcome = "completed"
    usage: Usage | None = None
    time: int | None = None
    head: Callable[[Head], Head] | None = None
    act: Act | None = None
    name: str = ""


class _Plan(NamedTuple):
    """What pairing decided for a stretch of the tree without forks.

    Fields: `shown`, the messages that stay by item, some of them renamed; `answers`, for each call
    id its result and the item of that, -1 for a result that has to be made.
    """

    shown: dict[int, Message]
    answers: dict[str, tuple[int, Message]]


_LISTED = {
    "aborted-calls": "left out: the turn of this call was aborted",
    "duplicate-result": "left out: the call has its result already",
    "empty-content": "withheld: it shows nothing",
    "orphan-result": "left out: no call has this id",
    "out-of-order": "shown in the order of the calls",
    "steering": "shown behind the results",
}
"""What the gate or the plan settles; results that are moved or made are listed when they are."""

RESULTS = ("missing-result", "early-result", "late-result")
"""Repairs that put a result where it was not: it has no line there, and no id of its own."""


def _difference(read: Message, shown: Message) -> str:
    if read == shown:
        return "late-parent"
    same = [c.id for c in read.calls] == [c.id for c in shown.calls] and read.call == shown.call
    return "blank-text" if same else "reused-id"


class Intake:
    """The work of taking in: a session that grows, and where each item stands in it.

    Attributes:
        session: what was recorded so far; its leaf is where the next item belongs.
        numbers: the entry number of each item that was recorded.
        repairs: in the order in which they came up.
        at: the item that is being recorded.
    """

    def __init__(self, items: Sequence[Item], name: str, start: Session) -> None:
        self.session = start
        self.numbers: dict[int, int] = {}
        self.repairs: list[Repair] = []
        self._items = items
        self._name = name
        self._children = _children(items)
        self._plans: list[_Plan] = []
        self._plan_of: dict[int, int] = {}
        self.at = -1
        self._tips: dict[int, Session] = {-1: start}
        self._unanswered: set[str] = set()
        self._moved: set[int] = set()
        self._placed: set[int] = set()
        self._late: set[int] = set()
        self._taken: set[int] = {-1}
        self._waiting: dict[int, list[int]] = {}

    def report(self, index: int, code: str, text: str, entry: str = "") -> None:
        """List a repair of the item `index`."""
        item = self._items[index]
        self.repairs.append(Repair(code, item.line, text, entry or item.name))

    def _put(self, *entries: Entry) -> None:
        self.session = record(self.session, *entries)

    def _place(self, index: int, ending: str = "") -> None:
        """Let the line stand in its place in the file, once."""
        if index not in self._placed:
            self._placed.add(index)
            self._put(Note(self._name + ending, self._items[index].raw))

    def _stand(self, index: int) -> None:
        """Let the line stand in its place in the tree, without an entry of its own."""
        if index in self._late:
            item = self._items[index]
            self._put(self._mark(index, "late-parent"), Note(self._name, item.raw))
        else:
            self._place(index)

    def _mark(self, index: int, code: str) -> Note:
        item = self._items[index]
        text = f'{{"code":"{code}","line":{item.line}'
        # What stands here in the tree, though its line is elsewhere, keeps its name.
        if code not in RESULTS and item.name:
            text += f',"entry":{quote(item.name)}'
        return Note(REPAIR, text + "}")

    # Pairing, before anything is recorded

    def plan(self) -> None:
        """Decide for each stretch of the tree which result answers which call."""
        used: Counter[str] = Counter()
        todo: list[tuple[int, tuple[ToolCall, ...], list[str]]] = [
            (root, (), []) for root in reversed(self._children[-1])
        ]
        while todo:
            start, carried, leave = todo.pop()
            if start < 0:
                used.subtract(leave)
                continue
            stretch = [start]
            while len(below := self._children[stretch[-1]]) == 1:
                stretch.append(below[0])
            ids, opened = self._pair(stretch, carried, used)
            used.update(ids)
            todo.append((-1, (), ids))
            todo.extend((child, opened, []) for child in reversed(below))

    def _pair(
        self, stretch: list[int], carried: tuple[ToolCall, ...], used: Counter[str]
    ) -> tuple[list[str], tuple[ToolCall, ...]]:
        """Plan one stretch; give the ids of its calls and the calls that stay open behind it."""
        found = [(i, m) for i in stretch if (m := self._items[i].message) is not None]
        calls = {call.id: call for _, m in found for call in m.calls}
        # What the path holds already stands in front: ids that are taken, calls that are open.
        front: list[Message] = []
        opened = {call.id for call in carried}
        if taken := [c for name, c in calls.items() if used[name] > 0 and name not in opened]:
            front = [assistant(*taken), *(tool_result(known.id, "") for known in taken)]
        if carried:
            front.append(assistant(*carried))
        aborted = [
            len(front) + at
            for at, (i, _) in enumerate(found)
            if self._items[i].outcome != "completed"
        ]
        repaired = repair([*front, *(m for _, m in found)], aborted=aborted)
        plan = _Plan({}, {})
        for message, source in zip(repaired.messages, repaired.sources, strict=True):
            if source is not None and source < len(front):
                continue
            item = -1 if source is None else found[source - len(front)][0]
            if message.role == "tool":
                plan.answers[message.call] = item, message
            if item >= 0:
                plan.shown[item] = message
        for made in repaired.repairs:
            if made.index >= len(front):
                item = found[made.index - len(front)][0]
                if made.code in _LISTED:
                    self.report(item, made.code, _LISTED[made.code], made.call)
                elif made.code in ("missing-id", "reused-id", "blank-text"):
                    self.report(item, made.code, made.action, made.call)
        self._plan_of.update(dict.fromkeys(stretch, len(self._plans)))
        self._plans.append(plan)
        last = next((i for i, m in reversed(found) if m.role == "assistant"), None)
        if last is not None:
            completed = self._items[last].outcome == "completed"
            carried = plan.shown[last].calls if completed and last in plan.shown else ()
        names = {*calls, *(call.id for m in plan.shown.values() for call in m.calls)}
        return sorted(names - {""}), tuple(call for call in carried if plan.answers[call.id][0] < 0)

    # Recording

    def _go(self, index: int) -> None:
        """Stand behind an item and the notes that follow it."""
        if index != self.at:
            there = self._tips[index]
            # The path of there with the log of here.
            self.session = Session(there.leaf, self.session.last, there.view)
            self._unanswered = set(there.view.open) - set(there.view.results)

    def _stay(self) -> None:
        """Remember where an item ends, if anything but the next item stands under it."""
        if self.at < 0 or self._children[self.at] != [self.at + 1]:
            self._tips[self.at] = self.session

    def _answer(self, index: int, call: str, *, early: bool = False) -> None:
        """Record the result of an open call here, taken from another place or made."""
        at, message = self._plans[self._plan_of[index]].answers[call]
        if at < 0:
            code = "missing-result"
            self.report(index, code, "an error result was made", call)
        else:
            code = "early-result" if early else "late-result"
            self.report(at, code, "moved behind its call", call)
            self._moved.add(at)
            self.numbers[at] = len(self.session) + 1
        self._put(self._mark(index if at < 0 else at, code), message)
        self._unanswered.discard(call)

    def _reply(self, index: int, message: Message, mark: tuple[Note, ...]) -> None:
        item = self._items[index]
        for name in self.session.view.open:
            if name in self._unanswered:
                self._answer(index, name)
        view = self.session.view
        completed = item.outcome == "completed"
        if view.end:
            head = view.head if item.head is None else item.head(view.head)
            heads = () if head == view.head else (head,)
            sent = Sent(inferred=True, time=item.time)
            self._put(*heads, sent, *mark, Reply(item.outcome, message, item.usage))
        elif completed:
            self.report(index, "empty-request", "recorded as a message: nothing was sent before")
            self._put(*mark, message)
        else:
            self.report(index, "empty-request", "left out: nothing was sent before")
            self._stand(index)
        self.numbers[index] = len(self.session) - 1
        if completed:
            self._unanswered = {call.id for call in message.calls}
            answers = self._plans[self._plan_of[index]].answers
            for call in message.calls:
                if 0 <= answers[call.id][0] < index:
                    self._answer(index, call.id, early=True)

    def _message(self, index: int, message: Message) -> None:
        shown = self._plans[self._plan_of[index]].shown.get(index)
        if message.role == "tool":
            if shown is None or index in self._moved or shown.call not in self._unanswered:
                self._stand(index)
                return
            self._unanswered.discard(shown.call)
        # What the plan left out because it is empty or was aborted, the kernel withholds.
        ours = message if shown is None else shown
        mark: tuple[Note, ...] = ()
        if index in self._late or ours != message:
            self._place(index)
            mark = (self._mark(index, _difference(message, ours)),)
        if ours.role == "assistant":
            self._reply(index, ours, mark)
        else:
            self._put(*mark, ours)

    def _entry(self, index: int, act: Act | None) -> None:
        entry = None if act is None else act(self)
        if entry is None:
            self._stand(index)
        elif index in self._late:
            self._put(self._mark(index, "late-parent"), entry)
        else:
            self._put(Note(self._name + ENTRY, self._items[index].raw), entry)
            self._placed.add(index)

    def take(self, index: int) -> None:
        """Record an item, and those that waited for it."""
        todo = [index]
        while todo:
            index = todo.pop()
            item = self._items[index]
            if item.parent is None:
                self._place(index, ASIDE)
            elif item.parent not in self._taken:
                self.report(index, "late-parent", "recorded behind its parent")
                self._place(index, ASIDE)
                self._late.add(index)
                self._waiting.setdefault(item.parent, []).append(index)
            else:
                self._go(item.parent)
                self.at = index
                try:
                    if item.message is None:
                        self._entry(index, item.act)
                    else:
                        self._message(index, item.message)
                except CtxError as error:
                    self.report(index, error.code, f"left out: {error.message}")
                    self._stand(index)
                self._taken.add(index)
                self.numbers.setdefault(index, len(self.session) - 1)
                todo.extend(reversed(self._waiting.pop(index, ())))
            self._stay()

    def finish(self, format: str) -> Decoded:
        """Stand at the last item of the file; give the session and the repairs by line."""
        last = next((i for i in reversed(range(len(self._items))) if self._in_tree(i)), -1)
        if last != self.at:
            self._go(last)
        repairs = tuple(sorted(self.repairs, key=lambda repair: repair.line))
        return Decoded(self.session, repairs, format)

    def _in_tree(self, index: int) -> bool:
        return self._items[index].parent is not None


def _children(items: Sequence[Item]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {index: [] for index in range(-1, len(items))}
    for index, item in enumerate(items):
        if item.parent is not None:
            children[item.parent].append(index)
    return children


def problem_of(error: DecodeError, line: int, entry: str = "") -> Repair:
    """List a line that can't be read as a repair."""
    where = f" at {error.field}" if error.field else ""
    return Repair(error.code, line, f"left out: {error.message}{where}", entry)


def in_file(error: DecodeError, file: str | None, line: int | None = None) -> DecodeError:
    """Give the same error with the file, and the line if it had none."""
    return DecodeError(
        error.code,
        error.message,
        file=file,
        line=error.line if line is None else line,
        entry=error.entry,
        field=error.field,
    )


def bound(names: str) -> Binding:
    """Say how thinking is bound on a route with these names (rules T1 to T5)."""
    names = names.lower()
    return "prefix" if "claude" in names or "anthropic" in names else "none"


def take_in(
    items: Sequence[Item],
    name: str,
    repairs: Sequence[Repair] = (),
    start: Session = _EMPTY,
) -> Decoded:
    """Record items through the gate.

    Args:
        items: in file order. Parents form a tree.
        name: the codec's, for its notes and the result.
        repairs: what the codec had to repair itself.
        start: what stands in front of all items.

    Returns:
        The session, whose leaf is the last item with a parent and the notes behind it.
    """
    intake = Intake(items, name, start)
    intake.repairs.extend(repairs)
    intake.plan()
    for index in range(len(items)):
        intake.take(index)
    return intake.finish(name)
