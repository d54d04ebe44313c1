"""Events beside messages and requests: abandon a call, name an entry, travel in the tree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple, cast

from ctxalgebra.errors import ProtocolViolation
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.entries import DECISIONS, Label, Note, Reply, Sent
from ctxalgebra.model.gate import record
from ctxalgebra.model.layers import Layers
from ctxalgebra.model.parts import Message, Text, tool_result
from ctxalgebra.model.session import (
    STRETCH,
    Fold,
    Node,
    Session,
    at_leaf,
    check_session,
    find,
    fold,
)
from ctxalgebra.model.view import HEAD, View

__all__ = [
    "REMINDER",
    "Labels",
    "abandon",
    "behind",
    "is_reminder",
    "label",
    "labelled",
    "labels",
    "open_calls",
    "reminder_level",
    "reminder_note",
    "travel",
]

REMINDER = "reminder"
"""The name of the note in front of a message that reminds the model of something."""

_LONGEST = 1_000
"""Notes longer than that are no reminder's."""


def open_calls(session: Session) -> tuple[str, ...]:
    """List the ids of calls whose results are still missing, in the order of the calls.

    >>> from ctxalgebra import Session, ToolCall, assistant, record
    >>> open_calls(record(Session(), assistant(ToolCall("c1", "read"))))
    ('c1',)
    """
    check_session(session)
    view = session.view
    return tuple(call for call in view.open if call not in view.results)


def abandon(session: Session, call: str, reason: str) -> Session:
    """Record the error result that an open call needs when its real one will not come.

    Raises:
        ProtocolViolation: `orphan-result`, `duplicate-result`.

    >>> from ctxalgebra import Session, ToolCall, assistant, record
    >>> session = record(Session(), assistant(ToolCall("c1", "read")))
    >>> open_calls(abandon(session, "c1", "the process was killed"))
    ()
    """
    return record(session, tool_result(call, reason, error=True))


def label(session: Session, target: int, name: str) -> Session:
    """Name the entry `target`; an empty name takes the label away.

    Another entry that has the name loses it, and the entry its old name.

    Raises:
        ProtocolViolation: `unknown-entry`.

    >>> from ctxalgebra import Session, record, user
    >>> labels(label(record(Session(), user("hi")), 0, "start"))
    {0: 'start'}
    """
    return record(session, Label(target, name))


class Labels(NamedTuple):
    """Say who has which label, on all branches: `targets` by name, `names` by entry number.

    An entry has one label and a label belongs to one entry: the last one that was given it. So each
    map is the other one's inverse.
    """

    targets: Layers[str, int] = Layers()
    names: Layers[int, str] = Layers()


def _name(known: Labels, node: Node, _: View) -> Labels:
    entry = cast("Label", node.entry)
    targets, names = known
    if (old := names.get(entry.target)) is not None:
        targets, names = targets.put(old, None), names.put(entry.target, None)
    if not entry.name:
        return Labels(targets, names)
    if (owner := targets.get(entry.name)) is not None:
        names = names.put(owner, None)
    return Labels(targets.put(entry.name, entry.target), names.put(entry.target, entry.name))


_LABELS: Fold[Labels] = Fold("labels", Labels(), _name, along="log", reads=(Label,))


def labelled(session: Session) -> Labels:
    """Look up labels, both ways: costs what is new, however many there are.

    >>> from ctxalgebra import Session, record, user
    >>> known = labelled(label(record(Session(), user("hi")), 0, "start"))
    >>> known.targets["start"], known.names[0]
    (0, 'start')
    """
    return fold(session, _LABELS)


def labels(session: Session) -> dict[int, str]:
    """Map entry numbers to their labels, on all branches, in the order of the entries.

    An entry has one label, the last that it was given, and a label names one entry, the last that
    was given it.

    >>> from ctxalgebra import Session, record, user
    >>> session = label(record(Session(), user("hi"), user("ho")), 0, "start")
    >>> labels(session), labels(label(session, 1, "start"))
    ({0: 'start'}, {1: 'start'})
    """
    return dict(labelled(session).names)


def _fingerprint(message: Message) -> str:
    """Give the hash of a message that is one text of the user's or the system's; empty for none."""
    (part, *more) = message.parts or (None,)
    if message.role not in ("user", "system") or more or not isinstance(part, Text):
        return ""
    return sha256(f"{message.role}\n{part.text}".encode()).hexdigest()


def reminder_note(level: int, message: Message, **facts: int) -> Note:
    """Write the note that belongs right in front of a reminder.

    Args:
        level: that is reminded of, from 1 on.
        message: the reminder.
        facts: whatever else is to be known of it.

    >>> from ctxalgebra import user
    >>> reminder_note(30, user("...")).data[:22]
    '{"level":30,"message":'
    """
    known = {"level": level, **facts, "message": _fingerprint(message)}
    return Note(REMINDER, json.dumps(known, separators=(",", ":")))


def reminder_level(node: Node) -> int:
    """Read the level of a reminder; 0 for a message that is none.

    A note named `reminder` stands right in front of it, on the path and in the order of recording,
    and has a level and the hash of this very message: one text, of the user's or the system's. So a
    note whose message was lost, or that one travelled to, makes no reminder of what the user says
    next, and a note of somebody else's doesn't either.

    >>> from ctxalgebra import Session, record, user
    >>> told = user("...")
    >>> reminder_level(record(Session(), reminder_note(30, told), told).leaf)
    30
    >>> reminder_level(record(Session(), reminder_note(30, told), user("Stop!")).leaf)
    0
    """
    before, message = node.parent, node.entry
    if before is None or node.previous is not before or type(message) is not Message:
        return 0
    note = before.entry
    if type(note) is not Note or note.name != REMINDER or len(note.data) > _LONGEST:
        return 0
    try:
        value: object = json.loads(note.data)
    except (ValueError, RecursionError):
        return 0
    known = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    level, wanted = known.get("level"), known.get("message")
    if type(level) is not int or not wanted or wanted != _fingerprint(message):
        return 0
    return max(level, 0)


def is_reminder(node: Node) -> bool:
    """Say whether a message is a reminder of the harness, and no word of the user's.

    The one rule, which all ask that tell the user's words from others: see `reminder_level`.

    >>> from ctxalgebra import Note, Session, record, user
    >>> is_reminder(record(Session(), Note("reminder", '{"level":30}'), user("...")).leaf)
    False
    """
    return reminder_level(node) > 0


def travel(session: Session, target: int) -> Session:
    """Go to an entry anywhere in the tree, so that the next request continues from there.

    Lands on the last decision that follows the target before the next message or request, since
    decisions taken there shaped the request that was sent; a `Sent` stands for the state that it
    sent. The head that holds now is recorded again where it differs, which is a break at the head;
    in a tool loop that must keep its leading thinking (V-A7) the head of the landing stays, until
    you record another behind the next user message. A request that is in flight at the landing is
    closed as lost.

    Raises:
        ProtocolViolation: `unknown-entry`.
        InvalidArgument: `wrong-type`, the target is no number.

    >>> from ctxalgebra import *
    >>> session, first = send(record(Session(), user("hi")))
    >>> session = record(reply(session, "completed", assistant("Hello!")), user("bye"))
    >>> send(travel(session, 0))[1] == first
    True
    """
    check_type(target, int, "target")
    node = find(session, target, along="log")
    if node is None:
        raise ProtocolViolation("unknown-entry", f"there is no entry {target}", field="target")
    landed = at_leaf(session, _landing(session, node))
    if landed.view.flight >= 0:
        landed = record(landed, Reply("lost"))
    if landed.head != session.head and not landed.view.holds_loop(HEAD):
        landed = record(landed, session.head)
    return landed


_DECIDED: Fold[int] = Fold(
    "decided", -1, lambda _, node, _view: node.number, along="log", reads=DECISIONS
)


def _landing(session: Session, node: Node) -> int:
    if type(node.entry) is Sent:
        return -1 if node.parent is None else node.parent.number
    landing = node
    for count, child in enumerate(behind(session, node)):
        if isinstance(child.entry, Message | Sent | Reply):
            break
        # A long run of notes is gone through only where a decision could stand in it.
        if count == STRETCH and fold(session, _DECIDED) < child.number:
            break
        if type(child.entry) in DECISIONS:
            landing = child
    return landing.number


def behind(session: Session, node: Node) -> Iterator[Node]:
    """Go down from a node, each time to the entry that was first recorded behind it.

    On the path that costs what is looked at, elsewhere the entries recorded since.

    >>> from ctxalgebra import Session, record, user
    >>> session = record(Session(), user("a"), user("b"), user("c"))
    >>> [child.number for child in behind(session, find(session, 0))]
    [1, 2]
    """
    at = node
    while (child := find(session, at.number + 1)) is not None and child.parent is at:
        yield child
        at = child
    later: list[Node] = []
    after = session.last
    while after is not None and after.number > at.number:
        later.append(after)
        after = after.previous
    for child in reversed(later):
        if child.parent is at:
            yield child
            at = child
