"""Pairing: what is wrong with the calls and results of a list of messages, and its repair.

A list of messages is *paired* when each assistant message with calls is followed at once by one
result for each call, in call order, and by nothing else that belongs to it. `defects` lists what
is not so; `repair` makes it so. The gate needs neither: it refuses. Codecs need both, because
real sessions hold aborted turns, lost results and ids that come twice.

Which result belongs to which call
----------------------------------
Reading forward, a result answers the nearest earlier call of its id that has none yet; of one
message, the first. Results that then are still over came too early: they take the calls that
are still open behind them, first to first. A result that is over after that answers nothing. So
a result in its right place never loses its call to one that strayed.

Messages that will be taken out (empty, or aborted calls) stand between nothing: a call, an empty
message and the result are one defect, not two.

Everything here is linear in the number of parts, whatever the ids are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from attrs import evolve, frozen

from ctxalgebra.model.checks import check_each, mistyped
from ctxalgebra.model.parts import Message, Part, Text, ToolCall, tool_result

__all__ = ["DEFECTS", "Defect", "Repair", "Repaired", "defects", "repair"]

DEFECTS: Mapping[str, str] = MappingProxyType(
    {
        "aborted-calls": "a call of an aborted turn, or a result of such a call",
        "blank-text": "a text part of white space beside other parts (rule V-A6)",
        "duplicate-result": "all calls of this id have a result already",
        "early-result": "a result stands before its call",
        "empty-content": "a message that is not a result shows nothing",
        "late-result": "another assistant message stands between a call and its result",
        "missing-id": "a call has no id, so that nothing can answer it",
        "missing-result": "a call has no result",
        "orphan-result": "no call has the id of this result",
        "out-of-order": "a result stands behind the result of a later call of the same message",
        "reused-id": "an earlier call has this id",
        "steering": "a user or system message stands between a call and its result",
    }
)
"""All codes of defects, with what they mean. Stable."""

_ACTIONS: Mapping[str, str] = {
    "aborted-calls": "left out with its whole exchange",
    "blank-text": "the blank text parts were left out",
    "duplicate-result": "left out",
    "early-result": "moved behind its call",
    "empty-content": "left out",
    "late-result": "moved behind its call",
    "missing-id": "the call was named {name!r}",
    "missing-result": "an error result was made",
    "orphan-result": "left out",
    "out-of-order": "moved into the order of the calls",
    "reused-id": "the call and its result were renamed to {name!r}",
    "steering": "moved behind the results",
}

# Anthropic takes only letters, digits, - and _ in ids, so nothing else may join the number.
_JOINT = "_"
_NAMELESS = "call"
_NO_RESULT = "No result was recorded for this call."


@frozen
class Defect:
    """Say what is wrong, and where.

    Args:
        code: one of `DEFECTS`.
        index: of the message; for a missing result, of the message with the call.
        call: id of the call concerned, as it stands in the messages; empty when there is none.
    """

    code: str
    index: int
    call: str = ""


@frozen
class Repair:
    """Say what was done about a defect: its code, index and call, and the action in a few words."""

    code: str
    index: int
    call: str
    action: str


@frozen
class Repaired:
    """Hold what `repair` gives.

    Args:
        messages: without defects.
        repairs: one for each defect, in the order of `defects`.
        sources: for each message, the index of the input message that it came from; None for an
            error result that was made.
    """

    messages: tuple[Message, ...]
    repairs: tuple[Repair, ...]
    sources: tuple[int | None, ...]


class _Pairs(NamedTuple):
    """Who answers whom.

    Fields: `answers`, for each message with calls the index of the result of each call or -1;
    `owners`, for each result that answers something the message and the place of its call; `ids`
    of all calls.
    """

    answers: dict[int, list[int]]
    owners: dict[int, tuple[int, int]]
    ids: set[str]


def _pair(messages: Sequence[Message]) -> _Pairs:
    answers: dict[int, list[int]] = {}
    owners: dict[int, tuple[int, int]] = {}
    waiting: dict[str, list[tuple[int, int]]] = {}
    over: dict[str, deque[int]] = {}
    for index, message in enumerate(messages):
        if message.role == "tool":
            calls = waiting.get(message.call)
            if calls:
                owners[index] = home, place = calls.pop()
                answers[home][place] = index
            else:
                over.setdefault(message.call, deque()).append(index)
        elif message.calls:
            answers[index] = [-1] * len(message.calls)
            # Backwards, so that the first of equal ids in one message lies on top.
            for place in range(len(message.calls) - 1, -1, -1):
                waiting.setdefault(message.calls[place].id, []).append((index, place))
    # A call that still waits stands behind all that is over: in front it would have been taken.
    for home, found in answers.items() if over else ():
        for place, call in enumerate(messages[home].calls):
            early = over.get(call.id)
            if found[place] < 0 and early:
                found[place] = early.popleft()
                owners[found[place]] = home, place
    return _Pairs(answers, owners, set(waiting))


def _blank(part: Part) -> bool:
    return type(part) is Text and (not part.text or part.text.isspace())


def _call_defects(
    index: int, message: Message, found: list[int], used: set[str]
) -> Iterator[Defect]:
    for call, answer in zip(message.calls, found, strict=True):
        if not call.id:
            yield Defect("missing-id", index)
        elif call.id in used:
            yield Defect("reused-id", index, call.id)
        used.add(call.id)
        if answer < 0:
            yield Defect("missing-result", index, call.id)


def _find(messages: Sequence[Message], pairs: _Pairs, aborted: frozenset[int]) -> Iterator[Defect]:
    used: set[str] = set()
    # The assistant message in front, the last of its results, and the latest place answered so far.
    turn = until = rank = -1
    for index, message in enumerate(messages):
        if message.role == "tool":
            home, place = pairs.owners.get(index, (-1, -1))
            if home < 0:
                code = "duplicate-result" if message.call in pairs.ids else "orphan-result"
                yield Defect(code, index, message.call)
                continue
            if home in aborted:
                yield Defect("aborted-calls", index, message.call)
                continue
            if home > index:
                yield Defect("early-result", index, message.call)
            elif home != turn:
                yield Defect("late-result", index, message.call)
            elif place < rank:
                yield Defect("out-of-order", index, message.call)
            else:
                rank = place
        elif message.empty:
            yield Defect("empty-content", index)
            continue
        elif message.calls and index in aborted:
            for call in message.calls:
                yield Defect("aborted-calls", index, call.id)
            continue
        elif message.role == "assistant":
            found = pairs.answers.get(index, [])
            turn, until, rank = index, max(found, default=-1), -1
            yield from _call_defects(index, message, found, used)
        elif index < until:
            yield Defect("steering", index, messages[until].call)
        if not message.empty and any(map(_blank, message.parts)):
            yield Defect("blank-text", index)


def defects(messages: Sequence[Message], *, aborted: Collection[int] = ()) -> tuple[Defect, ...]:
    """List every defect of a list of messages, in the order of the messages.

    Args:
        messages: any, in the order in which they are to be sent.
        aborted: indices of assistant messages whose turn was aborted: their calls will not be
            answered. Messages do not say so themselves. Other indices mean nothing.

    Raises:
        InvalidArgument: `wrong-type`.

    Returns:
        None exactly when the messages are paired and none of them has an empty text.

    >>> from ctxalgebra import ToolCall, assistant, tool_result, user
    >>> defects((user("a"), assistant(ToolCall("c1", "read")), user("b"), tool_result("c1", "42")))
    (Defect(code='steering', index=2, call='c1'),)
    """
    check_each(messages, Message, "messages")
    return tuple(_find(messages, _pair(messages), _indices(aborted)))


def _indices(aborted: Collection[int]) -> frozenset[int]:
    try:
        return frozenset(aborted)
    except TypeError:
        raise mistyped(aborted, "a collection of indices", "aborted") from None


def _fresh_names(
    messages: Sequence[Message], aborted: frozenset[int]
) -> dict[tuple[int, int], str]:
    """Name the calls without an id of their own, by the index of the message and their place."""
    taken = {call.id for message in messages for call in message.calls}
    taken.update(message.call for message in messages)
    numbers: dict[str, int] = {}
    used: set[str] = set()
    names: dict[tuple[int, int], str] = {}
    for index, message in enumerate(messages):
        if not message.calls or index in aborted:
            continue
        for place, call in enumerate(message.calls):
            if call.id and call.id not in used:
                used.add(call.id)
                continue
            base = call.id or _NAMELESS
            # The count goes on from use to use, so that each taken name is met once. Two ids never
            # get the same name: the last joint tells them apart.
            number = numbers.get(base, 1) + 1
            while (name := f"{base}{_JOINT}{number}") in taken:
                number += 1
            numbers[base] = number
            names[index, place] = name
    return names


def _tidy(message: Message, ids: Sequence[str], call: str) -> Message:
    """Give a message its ids and take its blank texts; the same object if nothing changes."""
    fresh = iter(ids)
    parts: list[Part] = []
    for part in message.parts:
        if type(part) is ToolCall:
            name = next(fresh)
            parts.append(part if part.id == name else evolve(part, id=name))
        elif message.empty or not _blank(part):
            parts.append(part)
    if tuple(parts) == message.parts and call == message.call:
        return message
    return evolve(message, parts=tuple(parts), call=call)


def repair(messages: Sequence[Message], *, aborted: Collection[int] = ()) -> Repaired:
    """Make a list of messages paired, and say what was done.

    Results move behind their call, in call order; what stood between moves behind them. A missing
    result becomes an error result. Results without a call, exchanges of aborted turns, empty
    messages and blank texts leave. An id that was used before gets a number (`c1_2`) that makes it
    unlike all others, in the call and in its result; `Message.origin` keeps the old one.

    Args:
        messages: never changed.
        aborted: as in `defects`.

    Raises:
        InvalidArgument: `wrong-type`.

    Returns:
        Messages without defects. When there was none, the same tuple and no repairs.

    >>> from ctxalgebra import ToolCall, assistant, tool_result, user
    >>> call = assistant(ToolCall("c1", "read"))
    >>> done = repair((user("a"), call, user("b"), tool_result("c1", "42")))
    >>> [message.role for message in done.messages], done.sources
    (['user', 'assistant', 'tool', 'user'], (0, 1, 3, 2))
    >>> done.repairs[0].action
    'moved behind the results'
    """
    check_each(messages, Message, "messages")
    gone = _indices(aborted)
    pairs = _pair(messages)
    found = tuple(_find(messages, pairs, gone))
    if not found:
        return Repaired(tuple(messages), (), tuple(range(len(messages))))
    names = _fresh_names(messages, gone)
    shown: list[Message] = []
    sources: list[int | None] = []
    for index, message in enumerate(messages):
        if message.role == "tool" or message.empty or (message.calls and index in gone):
            continue
        ids = [names.get((index, place), call.id) for place, call in enumerate(message.calls)]
        shown.append(_tidy(message, ids, ""))
        sources.append(index)
        for call, name, answer in zip(
            message.calls, ids, pairs.answers.get(index, ()), strict=True
        ):
            if answer < 0:
                shown.append(tool_result(name, _NO_RESULT, name=call.name, error=True))
                sources.append(None)
            else:
                shown.append(_tidy(messages[answer], (), name))
                sources.append(answer)
    # Both run in the order of the calls.
    fresh = iter(names.values())
    renamed = ("missing-id", "reused-id")
    repairs = tuple(
        Repair(
            d.code,
            d.index,
            d.call,
            _ACTIONS[d.code].format(name=next(fresh) if d.code in renamed else ""),
        )
        for d in found
    )
    return Repaired(tuple(shown), repairs, tuple(sources))
