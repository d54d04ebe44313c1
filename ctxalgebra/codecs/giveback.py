"""Giving a list of elements back: what of the path stands as it was read, and what is new.

The other half of `ctxalgebra.codecs.intake`, for formats that hold one path: an element of the file
is given back as it was while all that was read from it stands on the path. Where the path leaves in
the middle of it (it goes on from one of several messages of an element), or in front of a result
that a repair has moved, the messages that are on the path are given instead.

Decisions, branches, labels, and replies that were not completed have no place in such formats.
What is new stands where requests show it: results in the order of their calls, behind them what
arrived in between, and behind a reply what arrived while its request was in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from attrs import evolve, field, frozen

from ctxalgebra.codecs.intake import (
    ASIDE,
    ENTRY,
    FRAME,
    PART,
    REPAIR,
    UNTERMINATED,
    read_note,
    taken,
)
from ctxalgebra.codecs.lines import Json, integer
from ctxalgebra.codecs.order import Order, message_of
from ctxalgebra.model.entries import Note, Reply
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Node, Session, at_leaf, log, path

__all__ = ["Given", "Said", "give_back"]


@frozen
class Said:
    """Give one thing that the path says.

    Args:
        raw: the text of an element that stands as it was read; empty for what has to be written.
        message: what has to be written; with `raw`, what was read from just this element.
        leads: no message was read from the element, but the head.
    """

    raw: str = ""
    message: Message | None = None
    leads: bool = False


@frozen
class Given:
    """Hold what a path says in a format.

    Args:
        frame: what the codec kept of the container; empty when the session is from elsewhere.
        said: in order.
        head: the last one that elements of the path gave.
        whole: all that was read stands on the path.
        settled: and no head was stated since, so that what stands around the elements stays.
        speaks: the path holds a message or a head.
        ended: the last line has its LF.
    """

    frame: dict[str, Json] = field(factory=dict)
    said: list[Said] = field(factory=list)
    head: Head | None = None
    whole: bool = True
    settled: bool = False
    speaks: bool = True
    ended: bool = True


class _Mark(NamedTuple):
    """What a note says of the entry behind it: its lines, what the file calls its calls."""

    of: tuple[int, ...]
    calls: dict[str, str]


def _read_mark(at: int, note: Note) -> _Mark:
    fields = read_note(at, note)
    of, calls = fields.get("of"), fields.get("calls")
    lines = of if isinstance(of, list) else []
    names = calls.items() if isinstance(calls, dict) else ()
    return _Mark(
        tuple(number for line in lines if (number := integer(line))),
        {ours: theirs for ours, theirs in names if isinstance(theirs, str)},
    )


class _Taken:
    """What was taken in: which entries hold lines, and which lines marked entries came from."""

    def __init__(self, session: Session, name: str) -> None:
        found, end = taken(session)
        self.end = end if found == name else -1
        self.frame: dict[str, Json] = {}
        self.lines: dict[int, int] = {}
        self.marks: dict[int, _Mark] = {}
        self._texts = (name, name + ASIDE, name + ENTRY)
        for node in log(session)[: self.end + 1]:
            self._take(node, name)

    def _take(self, node: Node, name: str) -> None:
        number, entry, above = node.number, node.entry, node.parent
        note = above.entry if above is not None and above.number == number - 1 else None
        if isinstance(note, Note) and note.name in (REPAIR, PART):
            self.marks[number] = _read_mark(number - 1, note)
        elif isinstance(note, Note) and note.name == name + ENTRY:
            self.marks[number] = _Mark((self.lines[number - 1],), {})
        elif isinstance(entry, Message | Reply) or (
            isinstance(entry, Note) and entry.name in self._texts
        ):
            self.lines[number] = len(self.lines) + 1
        elif isinstance(entry, Note) and entry.name == name + FRAME:
            self.frame = read_note(number, entry)

    def torn(self, shown: set[int]) -> set[int]:
        """Find the lines that do not stand on a path with all that was read from them."""
        torn = {line for number, line in self.lines.items() if number not in shown}
        together: dict[int, list[tuple[int, ...]]] = {}
        for number, mark in self.marks.items():
            if number not in shown:
                torn.update(mark.of)
            for line in mark.of if len(mark.of) > 1 else ():
                together.setdefault(line, []).append(mark.of)
        todo = [*torn] if together else []
        while todo:
            for lines in together.pop(todo.pop(), ()):
                fresh = [line for line in lines if line not in torn]
                torn.update(fresh)
                todo += fresh
        return torn


def _new(message: Message, ids: Mapping[str, str]) -> Said:
    """Say a message that has to be written; a result names its call as the file does."""
    call = ids.get(message.call) or message.call
    return Said(message=message if call == message.call else evolve(message, call=call))


def give_back(session: Session, name: str, *, named: bool = False) -> Given:
    """Tell what the path to the leaf says, in terms of the file that the session was read from.

    Args:
        session: from anywhere.
        name: of the format that is written.
        named: new results get the names of their calls' tools, where they have none.

    Returns:
        For a session from elsewhere only messages. Results of calls that intake has renamed name
        them as the file does.

    Raises:
        DecodeError: as `ctxalgebra.codecs.intake.read_note`; a codec wrote no such note.
    """
    known = _Taken(session, name)
    nodes = path(session)
    torn = known.torn({node.number for node in nodes})
    head: Head | None = None
    said: list[Said] = []
    ids: dict[str, str] = {}
    speaks = False
    ended = True
    new: list[Node] = []
    for node in nodes:
        number, entry = node.number, node.entry
        mark = known.marks.get(number)
        if number > known.end:
            new.append(node)
        elif mark is not None:
            message = message_of(entry)
            if not torn.isdisjoint(mark.of):
                said += [_new(message, ids)] if message is not None else []
            else:
                ids.update(mark.calls)
                speaks = True
                head = entry if isinstance(entry, Head) else head
        elif number in known.lines and isinstance(entry, Note):
            if known.lines[number] not in torn:
                said.append(Said(entry.data, leads=entry.name == name + ENTRY))
        elif number in known.lines and isinstance(entry, Message | Reply):
            message = entry.message if isinstance(entry, Reply) else entry
            said.append(Said("" if message is None else message.origin, message))
        elif isinstance(entry, Note) and entry.name == name + UNTERMINATED:
            ended = False
    if new:
        above = new[0].parent
        there = at_leaf(session, -1 if above is None else above.number)
        order = Order(there.view, named=named)
        shown = [pair for node in new for pair in order.take(node)]
        said += [_new(message, ids) for _, message in (*shown, *order.finish())]
        ended = ended or bool(shown)
    speaks = speaks or any(item.message is not None for item in said)
    settled = not torn and not any(isinstance(node.entry, Head) for node in new)
    return Given(known.frame, said, head, not torn, settled, speaks, ended)
