"""Entries: what a journal is made of. Events happened; decisions were taken.

`Message` and `Head` are events by themselves; the others stand here. An entry is addressed by
its number, its place in the order of recording.
"""

from __future__ import annotations

from typing import ClassVar, Literal, final, get_args

from attrs import field, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_fields, check_items, check_type
from ctxalgebra.model.head import Head, Usage
from ctxalgebra.model.parts import Message

__all__ = [
    "DECISIONS",
    "Answer",
    "AnswerOutcome",
    "Ask",
    "Cut",
    "Decision",
    "Drop",
    "Entry",
    "Event",
    "Label",
    "Note",
    "Outcome",
    "Replace",
    "Reply",
    "Sent",
    "Strip",
    "UsageReport",
]

Outcome = Literal["completed", "aborted", "failed", "lost"]
AnswerOutcome = Literal["answered", "failed", "expired"]

_OUTCOMES: frozenset[object] = frozenset(get_args(Outcome))
_ANSWERS: frozenset[object] = frozenset(get_args(AnswerOutcome))


def _check_choice(value: object, choices: frozenset[object], where: str) -> None:
    if type(value) is not str or value not in choices:
        raise InvalidArgument("invalid-argument", f"there is no {where} of this name", field=where)


@final
@frozen
class Sent:
    """Mark that a request went out: the projection at this entry, and open until its reply.

    Args:
        inferred: a codec concluded it from a reply; nobody saw it leave.
        time: when it left, milliseconds since 1970 by the caller's clock.
    """

    kind: ClassVar[str] = "sent"
    inferred: bool = False
    time: int | None = None

    def __attrs_post_init__(self) -> None:
        check_type(self.inferred, bool, "inferred")
        if self.time is not None:
            check_type(self.time, int, "time")


@final
@frozen
class Reply:
    """Close the open request.

    Args:
        outcome: only `completed` makes what was sent count as read.
        message: the model's message; required when completed. What came of an aborted or failed
            reply is kept in the journal and withheld from requests.
        usage: what the provider reported.
    """

    kind: ClassVar[str] = "reply"
    outcome: Outcome
    message: Message | None = None
    usage: Usage | None = None

    def __attrs_post_init__(self) -> None:
        _check_choice(self.outcome, _OUTCOMES, "outcome")
        if self.message is not None:
            check_type(self.message, Message, "message")
        if self.usage is not None:
            check_type(self.usage, Usage, "usage")


@final
@frozen
class UsageReport:
    """Report usage after the fact, for the request with the entry number `sent`, on any branch."""

    kind: ClassVar[str] = "usage"
    sent: int
    usage: Usage

    def __attrs_post_init__(self) -> None:
        check_fields(self, sent=int, usage=Usage)


@final
@frozen
class Label:
    """Name the entry `target`; an empty name takes the label away. The last one holds."""

    kind: ClassVar[str] = "label"
    target: int
    name: str

    def __attrs_post_init__(self) -> None:
        check_fields(self, target=int, name=str)


@final
@frozen
class Note:
    """Carry a host's own record that requests don't show: its name and its text."""

    kind: ClassVar[str] = "note"
    name: str
    data: str = field(default="", repr=False)

    def __attrs_post_init__(self) -> None:
        check_fields(self, name=str, data=str)


@final
@frozen
class Cut:
    """Move the frontier: everything shown up to the message `through` leaves the view.

    Args:
        through: number of the last message that leaves.
        notice: the user message that stands in its place, frozen as it is here.
        why: for people, and for `explain`.
        keep: numbers of user messages in front of the cut that stay (the active request).
        breaks: the caller knows that this may change what was sent.
    """

    kind: ClassVar[str] = "cut"
    through: int
    notice: Message
    why: str
    keep: tuple[int, ...] = ()
    breaks: bool = False

    def __attrs_post_init__(self) -> None:
        check_fields(self, through=int, notice=Message, why=str, breaks=bool)
        check_items(self.keep, int, "keep")


@final
@frozen
class Replace:
    """Show `message` instead of the message with the number `target`, from now on."""

    kind: ClassVar[str] = "replace"
    target: int
    message: Message
    why: str
    breaks: bool = False

    def __attrs_post_init__(self) -> None:
        check_fields(self, target=int, message=Message, why=str, breaks=bool)


@final
@frozen
class Drop:
    """Take whole exchanges out of the view: from message `first` to message `last`, as shown."""

    kind: ClassVar[str] = "drop"
    first: int
    last: int
    why: str
    breaks: bool = False

    def __attrs_post_init__(self) -> None:
        check_fields(self, first=int, last=int, why=str, breaks=bool)


@final
@frozen
class Strip:
    """Hide all thinking that is shown now (what a provider's 400 on a signature asks for)."""

    kind: ClassVar[str] = "strip"
    why: str
    breaks: bool = False

    def __attrs_post_init__(self) -> None:
        check_fields(self, why=str, breaks=bool)


@final
@frozen
class Ask:
    """Ask for something outside: an effect as data.

    Args:
        key: what the stage calls it; a stage asks once per key.
        topic: what kind of answer is wanted, for the adapter to dispatch on.
        question: the input, as text (often JSON).
        deadline: milliseconds that the adapter may take before it answers `expired`.
    """

    kind: ClassVar[str] = "ask"
    key: str
    topic: str
    question: str
    deadline: int = 30_000

    def __attrs_post_init__(self) -> None:
        check_fields(self, key=str, topic=str, question=str, deadline=int)


@final
@frozen
class Answer:
    """Answer the ask with the number `ask`; failure is a value."""

    kind: ClassVar[str] = "answer"
    ask: int
    outcome: AnswerOutcome
    value: str = ""

    def __attrs_post_init__(self) -> None:
        check_fields(self, ask=int, value=str)
        _check_choice(self.outcome, _ANSWERS, "outcome")


Event = Message | Head | Sent | Reply | UsageReport | Label | Note | Ask | Answer
Decision = Cut | Replace | Drop | Strip
Entry = Event | Decision

DECISIONS = (Cut, Replace, Drop, Strip)
