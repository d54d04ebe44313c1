"""Make conversations as dirty as the files of real hosts, and take them in as codecs do.

A pure game, like growing: a legal array and some faults give lines; the intake of the codecs
repairs them into a session. What is done to them are the oddities that real files show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve, frozen

from ctxalgebra.codecs.intake import Intake, Item, take_in
from ctxalgebra.laws.alphabet import HEADS, IDS, RESULTS, TEXTS
from ctxalgebra.model.entries import Cut, Entry, Note, Outcome
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Usage
from ctxalgebra.model.parts import Message, Part, Text, ToolCall, assistant, tool_result, user
from ctxalgebra.model.session import Session

__all__ = ["FAULTS", "Line", "soiled", "taken_in"]


@frozen
class Line:
    """Hold one line of a file.

    Args:
        message: None for a compaction, which cuts what was read until then.
        outcome: what came of the request that it replies to.
        back: how many lines further up than the last one its parent stands.
    """

    message: Message | None
    outcome: Outcome = "completed"
    back: int = 0


def soiled(array: Sequence[Message], faults: Sequence[tuple[int, int]]) -> tuple[Line, ...]:
    """Do some faults to an array.

    Args:
        array: legal.
        faults: of each, which of `FAULTS`, and where.

    >>> [line.message.role for line in soiled((user("a"), assistant("b")), [(1, 1)])]
    ['user', 'assistant', 'user']
    """
    lines = [Line(message) for message in array]
    for which, place in faults:
        fault = FAULTS[which % len(FAULTS)]
        wanted = _WANTED.get(fault, bool)
        places = [(at, m) for at, line in enumerate(lines) if (m := line.message) and wanted(m)]
        if places:
            fault(lines, *places[place % len(places)], place)
    return tuple(lines)


def taken_in(lines: Sequence[Line], head: int = 0) -> Session:
    """Take lines in as a codec does: with repairs, through the gate, under one of `HEADS`.

    >>> lines = [Line(user("a")), Line(assistant(ToolCall("", "read"))), Line(user("b"))]
    >>> taken_in(lines).view.open
    ('call_2',)
    """
    items: list[Item] = []
    for at, line in enumerate(lines):
        items.append(
            Item(
                at + 1,
                f"line {at + 1}",
                parent=max(at - 1 - line.back, -1),
                message=line.message,
                outcome=line.outcome,
                usage=Usage(100 + at, 5) if at % 3 == 0 else None,
                act=_compact if line.message is None else None,
            )
        )
    start = record(Session(), HEADS[head % len(HEADS)])
    return take_in(items, "soiled", start=start).session


def _compact(intake: Intake) -> Entry:
    view = intake.session.view
    if view.read <= view.front:
        return Note("compaction", "of nothing")
    return Cut(view.slots.numbers[view.read - 1], user("summary"), "compaction", breaks=True)


# Faults: each changes the lines at the place of a message

Fault = Callable[[list[Line], int, Message, int], None]


def _leaves(_lines: list[Line], _at: int, _: Message, _n: int) -> None:
    """Do nothing: what the search for small examples puts in the place of a fault."""


def _says_more(lines: list[Line], at: int, _: Message, n: int) -> None:
    """Put a message behind another, be it between a call and its result; it may be empty."""
    lines.insert(at + 1, Line(user(("between", "", " ", "b")[n % 4])))


def _says_nothing(lines: list[Line], at: int, _: Message, n: int) -> None:
    """Let a turn fail without content."""
    lines.insert(at + 1, Line(assistant(), ("failed", "completed")[n % 2]))


def _loses(lines: list[Line], at: int, _: Message, n: int) -> None:
    """Lose a result, or all that comes from there on."""
    del lines[at : None if n % 4 == 3 else at + 1]


def _doubles(lines: list[Line], at: int, _: Message, n: int) -> None:
    """Store a result twice."""
    lines.insert(n % len(lines), lines[at])


def _moves(lines: list[Line], at: int, _: Message, n: int) -> None:
    """Store a result late, early, or in the order in which it was completed."""
    line = lines.pop(at)
    lines.insert(max(0, at + (-3, -1, 1, 2, 6)[n % 5]), line)


def _renames(lines: list[Line], at: int, message: Message, n: int) -> None:
    """Mask an id, so that its result answers nothing, or another call."""
    _put(lines, at, evolve(message, call=("c9", *IDS)[n % 5]))


def _loses_ids(lines: list[Line], at: int, message: Message, n: int) -> None:
    """Store calls without ids; or all with one, which is used again."""
    named = (evolve(p, id=("", IDS[0])[n % 2]) if type(p) is ToolCall else p for p in message.parts)
    _put(lines, at, evolve(message, parts=tuple(named)))


def _flattens(lines: list[Line], at: int, message: Message, _: int) -> None:
    """Store a provider message in pieces, all in front of the results: parallel calls, too."""
    lines[at : at + 1] = [_piece(lines[at], message, part) for part in message.parts]


def _splits(lines: list[Line], at: int, message: Message, _: int) -> None:
    """Store a provider message in pieces, its results between them."""
    due = {line.message.call: line for line in lines[at + 1 : at + 5] if line.message}
    pieces: list[Line] = []
    for part in message.parts:
        pieces.append(_piece(lines[at], message, part))
        if type(part) is ToolCall and part.id in due:
            pieces.append(due[part.id])
    rest = lines[at + 1 :]
    lines[at:] = [*pieces, *(line for line in rest if not any(line is p for p in pieces))]


def _aborts(lines: list[Line], at: int, _: Message, n: int) -> None:
    """Abort a turn with its calls open: some of its results may be there."""
    lines[at] = evolve(lines[at], outcome=("aborted", "failed", "lost")[n % 3])
    first = at + 1 + n % 2
    stop = first
    while stop < len(lines) and _is_result(lines[stop].message):
        stop += 1
    del lines[first:stop]


def _blanks(lines: list[Line], at: int, message: Message, n: int) -> None:
    """Put white space beside calls."""
    _put(lines, at, evolve(message, parts=(Text(("", "  \n")[n % 2]), *message.parts)))


def _compacts(lines: list[Line], at: int, _: Message, _n: int) -> None:
    """Compact right behind calls, in front of their results."""
    lines.insert(at + 1, Line(None))


def _resumes(lines: list[Line], at: int, _: Message, n: int) -> None:
    """Store a message under an earlier line: a branch, or what looks like one."""
    lines[at] = evolve(lines[at], back=1 + n % 3)


def _grows(lines: list[Line], at: int, message: Message, n: int) -> None:
    """Let a result hold something else, up to a very large one."""
    other = (*RESULTS, TEXTS[-1] * 9)[n % (len(RESULTS) + 1)]
    _put(lines, at, tool_result(message.call, other, error=n % 2 > 0))


def _put(lines: list[Line], at: int, message: Message) -> None:
    lines[at] = evolve(lines[at], message=message)


def _piece(line: Line, message: Message, part: Part) -> Line:
    return evolve(line, message=evolve(message, parts=(part,)))


def _is_result(message: Message | None) -> bool:
    return message is not None and message.role == "tool"


def _calls(message: Message) -> bool:
    return bool(message.calls)


FAULTS: tuple[Fault, ...] = (
    _leaves,
    _says_more,
    _says_nothing,
    _loses,
    _doubles,
    _moves,
    _moves,
    _renames,
    _loses_ids,
    _flattens,
    _splits,
    _aborts,
    _blanks,
    _compacts,
    _resumes,
    _grows,
)
"""What real files show, as functions that do it to lines."""

_WANTED: dict[Fault, Callable[[Message], bool]] = {
    **dict.fromkeys((_loses, _doubles, _moves, _renames, _grows), _is_result),
    **dict.fromkeys((_loses_ids, _flattens, _splits, _aborts, _blanks, _compacts), _calls),
}
"""What a fault is done to, where that is not any message."""
