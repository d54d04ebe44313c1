"""Handoffs as they stand in a journal: a note with the facts, and the message that is read.

Travelling records a `Note` named `handoff`, whose data are the facts as JSON, and right behind it
one message of the user's, whose text is the handoff in a frame that is made of the same facts. A
reader takes neither at its word: the pair counts where the message is, character for character,
what we would write for these facts, the note stands behind the place where the journey landed, and
what the facts name was there before. That is the one rule, for the projection as for receipts, so a
message that looks like a handoff has no authority, and neither has a note. Source: travel, section
7; W13.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, cast

from attrs import asdict, frozen

from ctxalgebra.checkpoints.handoff import Handoff, handoff_text, read_handoff
from ctxalgebra.checkpoints.targets import is_addressable
from ctxalgebra.errors import escaped
from ctxalgebra.events import is_reminder, labelled
from ctxalgebra.model.checks import check_fields
from ctxalgebra.model.entries import Note, Reply
from ctxalgebra.model.head import Head
from ctxalgebra.model.layers import Layers
from ctxalgebra.model.parts import Message, Text, user
from ctxalgebra.model.session import Fold, Node, Session, fold
from ctxalgebra.model.view import View

__all__ = [
    "NOTE",
    "VERSION",
    "Facts",
    "HandedOver",
    "archives",
    "frame",
    "handed_over",
    "handoffs",
    "journeys",
    "note",
    "summary_depth",
    "turn_open",
    "was_left",
]

NOTE = "handoff"
"""The name of the note in front of a handoff."""

VERSION = 1

_OPEN = "The user's request is still open: go on with NEXT."
_CLOSED = "The user's last request was answered: do NEXT only where it is part of that."
_AGAIN = "This is journey {} since the user last spoke: {}."
_SECOND = "do what NEXT says before you travel again"
_LATER = "don't travel again before you have answered"
_LONGEST = 100_000
"""Facts longer than that are not read: ours name a target, a ticket and a call."""


@frozen
class Facts:
    """Say where a journey came from, where it went, and how to come back.

    Args:
        origin: number of the entry that was left.
        target: as it was given, without blanks at its ends.
        entry: number of the entry that it stood for.
        landed: number of the entry that the journey goes on from.
        ticket: label of the branch that was left.
        place: number of the entry that has the ticket.
        call: id of the tool call that asked for it; empty when the host did.
        open: the user's turn was open.
        journey: its number since the user last spoke, from 1 on.
    """

    origin: int
    target: str
    entry: int
    landed: int
    ticket: str
    place: int
    call: str
    open: bool
    journey: int = 1

    def __attrs_post_init__(self) -> None:
        check_fields(
            self, origin=int, target=str, entry=int, landed=int, ticket=str, place=int, call=str,
            open=bool, journey=int,
        )  # fmt: skip


@frozen
class HandedOver:
    """Hold a handoff of the journal.

    Args:
        number: entry of its message.
        facts: of the journey.
        handoff: its slots.
    """

    number: int
    facts: Facts
    handoff: Handoff


def note(facts: Facts) -> Note:
    """Write the facts as the note that stands in front of the message."""
    data = {"version": VERSION, **asdict(facts)}
    return Note(NOTE, json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def _around(facts: Facts) -> tuple[str, str]:
    target, ticket = escaped(facts.target.strip()), escaped(facts.ticket)
    before = (
        f"[You went to {target} in this conversation and left these notes to yourself. "
        f"What you came from is kept as {ticket}: travel there to see it again.]\n"
    )
    after = _OPEN if facts.open else _CLOSED
    if facts.journey > 1:
        advice = _SECOND if facts.journey == 2 else _LATER
        after = f"{after} {_AGAIN.format(facts.journey, advice)}"
    return before, f"\n[{after}]"


def frame(facts: Facts, handoff: Handoff) -> Message:
    """Write the message that shows a handoff to the model."""
    before, after = _around(facts)
    return user(f"{before}{handoff_text(handoff)}{after}")


def _facts(entry: Note) -> Facts | None:
    if entry.name != NOTE or len(entry.data) > _LONGEST:
        return None
    try:
        value: object = json.loads(entry.data)
        if not isinstance(value, dict):
            return None
        given = cast("dict[str, Any]", value)
        version = given.pop("version", None)
        facts = Facts(**given)
    except (TypeError, ValueError, RecursionError):
        return None
    # Written again it is the same text: so no second spelling of the same facts is read.
    return facts if version == VERSION and note(facts) == entry else None


def _lands(note: Node, facts: Facts) -> bool:
    """Say whether a note stands behind its landing, with only what travelling records between."""
    node = note.parent
    while node is not None and node.number > facts.landed:
        entry = node.entry
        lost = isinstance(entry, Reply) and entry.outcome == "lost"
        given_up = isinstance(entry, Message) and entry.role == "tool" and entry.error
        if not (lost or given_up or isinstance(entry, Head)):
            return False
        node = node.parent
    return (-1 if node is None else node.number) == facts.landed


def handed_over(node: Node) -> HandedOver | None:
    """Read the handoff that an entry is: its message and the note in front of it must agree.

    The one reader: for folds, whoever asks where handoffs stand asks this.

    >>> from ctxalgebra import Session, record, user
    >>> handed_over(record(Session(), user("[You went to root in this conversation.]")).leaf)
    """
    before, message = node.parent, node.entry
    if before is None or not isinstance(before.entry, Note) or not isinstance(message, Message):
        return None
    facts = _facts(before.entry)
    if facts is None or len(message.parts) != 1 or not isinstance(message.parts[0], Text):
        return None
    start, end = _around(facts)
    text = message.parts[0].text
    handoff = read_handoff(text[len(start) : len(text) - len(end)])
    if handoff is None or frame(facts, handoff) != message:
        return None
    known = all(0 <= number < before.number for number in (facts.origin, facts.entry, facts.place))
    return HandedOver(node.number, facts, handoff) if known and _lands(before, facts) else None


class _Linked(NamedTuple):
    last: HandedOver
    before: _Linked | None


class _Path(NamedTuple):
    open: bool = False
    depth: int = 0
    newest: _Linked | None = None


def _step(known: _Path, node: Node, _: View) -> _Path:
    entry = node.entry
    if isinstance(entry, Reply):
        said = entry.message if entry.outcome == "completed" else None
    else:
        said = cast("Message", entry)
    if said is None or said.empty:
        return known
    if said.role == "assistant":
        # Text beside calls is no answer yet (W14).
        return known._replace(open=False) if known.open and not said.calls else known
    if said.role != "user" or is_reminder(node):
        return known
    found = handed_over(node)
    if found is None:
        return known if known.open else known._replace(open=True)
    return _Path(found.facts.open, known.depth + 1, _Linked(found, known.newest))


_PATH: Fold[_Path] = Fold("handoffs", _Path(), _step, reads=(Message, Reply))


def handoffs(session: Session) -> tuple[HandedOver, ...]:
    """List the handoffs of the path, oldest first; of the messages that only look like one, none.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session
    >>> handoffs(Session())
    ()
    """
    found: list[HandedOver] = []
    link = fold(session, _PATH).newest
    while link is not None:
        found.append(link.last)
        link = link.before
    return tuple(reversed(found))


def summary_depth(session: Session) -> int:
    """Count the handoffs of the path, which costs what is new.

    >>> from ctxalgebra import Session
    >>> summary_depth(Session())
    0
    """
    return fold(session, _PATH).depth


def turn_open(session: Session) -> bool:
    """Say whether the user waits for an answer.

    A turn is open from the user's message up to an answer: what an assistant says beside calls is
    none. A handoff is no message of the user; it goes on as the turn was that it left. Nor is a
    reminder.

    >>> from ctxalgebra import Session, ToolCall, assistant, record, user
    >>> asked = record(Session(), user("hi"), assistant("Let me look.", ToolCall("c1", "read")))
    >>> turn_open(asked), turn_open(record(Session(), user("hi"), assistant("Hello!")))
    (True, False)
    """
    return fold(session, _PATH).open


class _Log(NamedTuple):
    """What all branches tell: tickets by place, and journeys since the user last spoke."""

    tickets: Layers[int, str] = Layers()
    journeys: int = 0


def _journey(known: _Log, node: Node, _: View) -> _Log:
    message = cast("Message", node.entry)
    if message.role != "user" or message.empty or is_reminder(node):
        return known
    found = handed_over(node)
    if found is None:
        return known._replace(journeys=0)
    return _Log(known.tickets.put(found.facts.place, found.facts.ticket), known.journeys + 1)


_LOG: Fold[_Log] = Fold("journeys", _Log(), _journey, along="log", reads=(Message,))


def was_left(session: Session, number: int) -> bool:
    """Say whether a return ticket was written for an entry, on whatever branch.

    >>> from ctxalgebra import Session
    >>> was_left(Session(), 0)
    False
    """
    return number in fold(session, _LOG).tickets


def journeys(session: Session) -> int:
    """Count the journeys since the user last spoke, on all branches: a model may go in circles.

    >>> from ctxalgebra import Session
    >>> journeys(Session())
    0
    """
    return fold(session, _LOG).journeys


def archives(session: Session) -> dict[str, int]:
    """Map the return tickets of all branches that still hold to their entries.

    >>> from ctxalgebra import Session
    >>> archives(Session())
    {}
    """
    targets = labelled(session).targets
    return {
        ticket: place
        for place, ticket in fold(session, _LOG).tickets.items()
        if is_addressable(ticket) and targets.get(ticket) == place
    }
