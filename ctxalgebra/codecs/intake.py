"""Taking a host's file in: from items in file order to a session, with every repair listed.

A codec reads its file into `Item`s; `take_in` records them through the gate. What it adds to the
order of the file:

* The tree. An item is recorded under the item that it names as its parent, in file order. An item
  that stands in front of its parent waits for it.
* Requests. A reply of the model closes a request that nobody saw leave: `Sent(inferred=True)`
  stands directly in front of it. Where nothing could have been sent, a reply stands as a plain
  message.
* Pairing, as `ctxalgebra.codecs.pairing` decides it. A user message between a call and its result
  stays where it is, since the gate lets it wait.

How a file is given back byte for byte
--------------------------------------
Every line (or element) of the file stands in exactly one entry, in file order:

* a message keeps the text that it was read from in `origin`;
* a line that gives no message is `Note(NAME, text)`, NAME being the codec's, or `NAME + "-aside"`
  if it has no place in the tree either;
* a line that gives an entry of another kind is `Note(NAME + "-entry", text)`, and that entry
  follows it;
* what a repair made, moved or renamed is not in the file at that place: a `codec-repair` note
  stands directly in front of it, and if it has a line, that line is a note in its own place;
* a message that was not read from one text of its own, since a line gives several or several
  give one, has no text in `raw`: a `codec-part` note stands in front of it, and each of its
  lines is a note in its own place.

Both notes say with `of` which lines hold what follows them, counted from 1 among all that have
text, and with `calls` what the file calls the calls that were renamed. So encoding passes over
what they mark, as long as its lines stand on the path, and writes the rest as it was
(`ctxalgebra.codecs.giveback`).

All this ends with the note `NAME + "-end"`, which holds its own entry number. What is recorded
later is a host's, whatever its notes are called: `taken` gives the number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from sys import intern

from attrs import frozen

from ctxalgebra.codecs.lines import Json, Number, compact, parse
from ctxalgebra.codecs.pairing import Answers, pair
from ctxalgebra.errors import CtxError, DecodeError
from ctxalgebra.model.entries import Entry, Note, Outcome, Reply, Sent
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Binding, Head, Usage
from ctxalgebra.model.parts import Message, ToolCall, assistant
from ctxalgebra.model.session import Session, log
from ctxalgebra.protocol import repair

__all__ = [
    "ASIDE",
    "END",
    "ENTRY",
    "FORMATS",
    "FRAME",
    "PART",
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
    "read_note",
    "take_in",
    "taken",
]

REPAIR = "codec-repair"
"""Name of the note in front of what a repair added."""

PART = "codec-part"
"""Name of the note in front of what was not read from one line of its own."""

ENTRY = "-entry"
"""Ending of the name of a note whose line the next entry was read from."""

ASIDE = "-aside"
"""Ending of the name of a note whose line has no place in the tree."""

UNTERMINATED = "-unterminated"
"""Ending of the name of a note that says: the last line has no LF."""

FRAME = "-frame"
"""Ending of the name of the first note: what stands around the elements of a file."""

END = "-end"
"""Ending of the name of the note behind all that was taken in; it holds its entry number."""

_EMPTY = Session()

_MADE = 2
"""So many results may be made for each item and call of a file."""

FORMATS = (
    "pi",
    "openai-chat",
    "anthropic-messages",
    "openai-responses",
    "gemini-contents",
    "claude-code",
    "codex",
)
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
        raw: its text; None for what has no text of its own.
        parent: index of the item that it stands under; -1 for none; None for an item that only
            keeps its place in the file.
        message: the message in it.
        outcome: of a reply: what came of the request.
        usage, time: of a reply: what it cost, and when the request left (milliseconds since 1970).
        head: of a reply: the head of its request, from the one that holds.
        act: gives the entry that the item stands for, where that is no message; may raise what the
            gate raises.
        name: the id that the file gives it.
        made: without text: indices of the items whose texts it was made from, in front of it or
            behind it.
    """

    line: int
    raw: str | None
    parent: int | None = None
    message: Message | None = None
    outcome: Outcome = "completed"
    usage: Usage | None = None
    time: int | None = None
    head: Callable[[Head], Head] | None = None
    act: Act | None = None
    name: str = ""
    made: tuple[int, ...] = ()


MISSING = "missing-result"
RESULTS = (MISSING, "early-result", "late-result")
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
        repairs: in the order in which they came up.
        at: the item that is being recorded.
    """

    def __init__(self, items: Sequence[Item], name: str, start: Session) -> None:
        self.session = start
        self._numbers = [-1] * len(items)
        self.repairs: list[Repair] = []
        self._items = items
        self._name = name
        self._children = _children(items)
        self.at = -1
        self._tips: dict[int, Session] = {-1: start}
        self._ordinals = [*accumulate(int(item.raw is not None) for item in items)]
        self._makes = _MADE * sum(1 + len(i.message.calls) if i.message else 1 for i in items)
        self._moved: set[int] = set()
        self._placed = [False] * len(items)
        self._late: set[int] = set()
        self._taken = [False] * len(items) + [True]
        self._waiting: dict[int, list[int]] = {}
        aborted = {at for at, item in enumerate(items) if item.outcome != "completed"}
        self._plans = pair([i.message for i in items], self._children, aborted, self.report)

    def number(self, index: int) -> int | None:
        """Give the entry number of an item; None if it was not recorded, and for -1."""
        number = self._numbers[index] if index >= 0 else -1
        return number if number >= 0 else None

    def _last(self) -> int:
        """Give the number of the last entry: the same object, which costs nothing to keep."""
        node = self.session.last
        return -1 if node is None else node.number

    def report(self, index: int, code: str, text: str, entry: str = "") -> None:
        """List a repair of the item `index`."""
        item = self._items[index]
        self.repairs.append(Repair(code, item.line, text, entry or item.name))

    def _put(self, *entries: Entry) -> None:
        self.session = record(self.session, *entries)

    def _place(self, index: int, ending: str = "") -> None:
        """Let the line stand in its place in the file, once."""
        raw = self._items[index].raw
        if raw is not None and not self._placed[index]:
            self._placed[index] = True
            self._put(Note(self._name + ending, raw))

    def _stand(self, index: int) -> None:
        """Let the line stand in its place in the tree, without an entry of its own."""
        raw = self._items[index].raw
        if index in self._late and raw is not None:
            self._put(self._mark(index, "late-parent"), Note(self._name, raw))
        else:
            self._place(index)

    def _mark(self, index: int, code: str, ours: Message | None = None) -> Note:
        """Mark what follows as read from the lines of an item, or made for it."""
        item = self._items[index]
        own = item.raw is not None
        fields: dict[str, Json] = {}
        if own or code:
            fields = {"code": code, "line": Number(str(item.line))}
        # What stands here in the tree, though its line is elsewhere, keeps its name.
        if code not in RESULTS and item.name:
            fields["entry"] = item.name
        of = (index,) if own else item.made
        if code == MISSING:
            # A result that was made belongs to the reply that it was made for; one line of that is
            # enough, since the reply's own mark says which lines stand and go together.
            of = of[:1]
        fields["of"] = [Number(str(self._ordinals[at])) for at in of]
        if ours is not None and item.message is not None:
            pairs = zip(ours.calls, item.message.calls, strict=False)
            if renamed := {our.id: call.id for our, call in pairs if our.id != call.id}:
                fields["calls"] = {**renamed}
        return Note(REPAIR if code else PART, compact(fields))

    # Recording

    def _go(self, index: int) -> None:
        """Stand behind an item and the notes that follow it."""
        if index != self.at:
            there = self._tips[index]
            # The path of there with the log of here.
            self.session = Session(there.leaf, self.session.last, there.view)

    def _stay(self) -> None:
        """Remember where an item ends, if anything but the next item stands under it."""
        if self.at < 0 or self._children[self.at] != (self.at + 1,):
            self._tips[self.at] = self.session

    def _answers(self, index: int) -> Answers:
        return self._plans[index].answers

    def _answer(self, index: int, call: ToolCall, *, early: bool = False) -> None:
        """Record the result of an open call here, taken from another place or made."""
        at, message = self._answers(index).get(call.id, (-1, None))
        if at < 0:
            code = MISSING
            self.report(index, code, "an error result was made", call.id)
        else:
            code = "early-result" if early else "late-result"
            self.report(at, code, "moved behind its call", call.id)
            self._moved.add(at)
            self._numbers[at] = len(self.session) + 1
        made = message or repair([assistant(call)]).messages[-1]
        self._put(self._mark(index if at < 0 else at, code), made)

    def _close(self, index: int) -> bool:
        """Answer what is still open in front of a reply; False if that is too much to make.

        Each branch makes results for what is open where it forks: few in a host's file.
        """
        view = self.session.view
        if not view.open or self._makes < 0:
            return not view.open
        opened = [c for c in view.slots.messages[view.end - 1].calls if c.id not in view.results]
        answers = self._answers(index)
        self._makes -= sum(call.id not in answers for call in opened)
        if self._makes < 0:
            return False
        for call in opened:
            self._answer(index, call)
        return True

    def _reply(self, index: int, message: Message, mark: tuple[Note, ...]) -> None:
        item = self._items[index]
        if not self._close(index):
            self.report(index, "open-call", "left out: too many results would have to be made")
            self._stand(index)
            return
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
        self._numbers[index] = self._last()
        if completed:
            answers = self._answers(index)
            for call in message.calls:
                if 0 <= answers[call.id][0] < index:
                    self._answer(index, call, early=True)

    def _message(self, index: int, message: Message) -> None:
        shown = self._plans[index].shown.get(index)
        if message.role == "tool":
            waits = shown is not None and self.session.view.results.awaits(shown.call)
            if index in self._moved or not waits:
                self._stand(index)
                return
        # What the plan left out because it is empty or was aborted, the kernel withholds.
        ours = message if shown is None else shown
        mark: tuple[Note, ...] = ()
        if self._items[index].raw is None:
            mark = (self._mark(index, "", ours),)
        elif index in self._late or ours != message:
            self._place(index)
            mark = (self._mark(index, _difference(message, ours), ours),)
        if ours.role == "assistant":
            self._reply(index, ours, mark)
        else:
            self._put(*mark, ours)

    def _entry(self, index: int, act: Act | None) -> None:
        entry = None if act is None else act(self)
        raw = self._items[index].raw
        if entry is None:
            self._stand(index)
        elif raw is None or index in self._late:
            self._put(self._mark(index, "" if raw is None else "late-parent"), entry)
        else:
            self._put(Note(self._name + ENTRY, raw), entry)
            self._placed[index] = True

    def take(self, index: int) -> None:
        """Record an item, and those that waited for it."""
        todo = [index]
        while todo:
            index = todo.pop()
            item = self._items[index]
            if item.parent is None:
                self._place(index, ASIDE)
            elif not self._taken[item.parent]:
                if item.raw is not None:
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
                self._taken[index] = True
                if self._numbers[index] < 0:
                    self._numbers[index] = self._last()
                todo.extend(reversed(self._waiting.pop(index, ())))
            self._stay()

    def finish(self, *, ended: bool) -> Decoded:
        """Stand at the last item of the file; give the session and the repairs by line."""
        last = next((i for i in reversed(range(len(self._items))) if self._in_tree(i)), -1)
        if last != self.at:
            self._go(last)
        if not ended:
            self._put(Note(self._name + UNTERMINATED))
        self._put(Note(self._name + END, str(len(self.session))))
        repairs = tuple(sorted(self.repairs, key=lambda repair: repair.line))
        return Decoded(self.session, repairs, self._name)

    def _in_tree(self, index: int) -> bool:
        return self._items[index].parent is not None


def _children(items: Sequence[Item]) -> list[tuple[int, ...]]:
    """List what stands under each item; behind them all, at -1, what stands under none."""
    children: list[tuple[int, ...]] = [()] * (len(items) + 1)
    forks: dict[int, list[int]] = {}
    for index, item in enumerate(items):
        above = item.parent
        if above is not None and children[above]:
            forks.setdefault(above, [children[above][0]]).append(index)
        elif above is not None:
            children[above] = (index,)
    for above, below in forks.items():
        children[above] = tuple(below)
    return children


def problem_of(error: DecodeError, line: int, entry: str = "") -> Repair:
    """List a line that can't be read as a repair."""
    where = f" at {error.field}" if error.field else ""
    # The same is often wrong with many lines.
    return Repair(error.code, line, intern(f"left out: {error.message}{where}"), entry)


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


def read_note(number: int, note: Note) -> dict[str, Json]:
    """Read what a codec keeps in a note; a journal from elsewhere may hold anything there.

    Raises:
        DecodeError: what is wrong with its JSON, and `wrong-type`, with the entry's number.
    """
    where = f"in the note {note.name!r}"
    try:
        value = parse(note.data, limit=len(note.data))
    except DecodeError as error:
        text = f"{where}: {error.message}"
        raise DecodeError(error.code, text, entry=number, field="data") from None
    if isinstance(value, dict):
        return value
    raise DecodeError("wrong-type", f"{where}: not an object", entry=number, field="data")


def bound(names: str) -> Binding:
    """Say how thinking is bound on a route with these names (rules T1 to T5)."""
    names = names.lower()
    return "prefix" if "claude" in names or "anthropic" in names else "none"


def take_in(
    items: Sequence[Item],
    name: str,
    repairs: Sequence[Repair] = (),
    start: Session = _EMPTY,
    *,
    ended: bool = True,
) -> Decoded:
    """Record items through the gate.

    Args:
        items: in file order, each line or element of the file once with its text. Parents form a
            tree.
        name: the codec's, for its notes and the result.
        repairs: what the codec had to repair itself.
        start: what stands in front of all items.
        ended: the last line has its LF, or the file is no list of lines.

    Returns:
        The session, whose leaf is the last item with a parent and the notes behind it, the last
        of which says where the file ends.
    """
    intake = Intake(items, name, start)
    intake.repairs.extend(repairs)
    for index in range(len(items)):
        intake.take(index)
    return intake.finish(ended=ended)


def taken(session: Session) -> tuple[str, int]:
    """Tell what was taken in: the format's name, and the number of the last entry of that.

    Entries behind that number were recorded since. A session from elsewhere gives ("", -1).

    >>> taken(take_in([], "pi").session)
    ('pi', 0)
    """
    for node in log(session):
        entry = node.entry
        if isinstance(entry, Note) and entry.data == str(node.number):
            name = entry.name.removesuffix(END)
            if name != entry.name and name in FORMATS:
                return name, node.number
    return "", -1
