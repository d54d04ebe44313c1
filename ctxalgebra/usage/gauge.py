"""The gauge of a session: a line that a harness adds to a tool's result before it is recorded.

What was shown is read back from the results of the path, where the line stands, so the odometer is
a fold like everything else: it goes with the path, and nothing is kept beside the journal. Whether
a request is a new one is told by the whole journal: old requests stay old when one travels back to
them (W01).
"""

from __future__ import annotations

import re
from typing import NamedTuple, cast

from attrs import evolve

from ctxalgebra.checkpoints.provenance import handed_over
from ctxalgebra.events import labelled, travel
from ctxalgebra.model.checks import check_text, check_type
from ctxalgebra.model.parts import Message, Text
from ctxalgebra.model.session import Fold, Node, Session, at_node, find, fold
from ctxalgebra.model.view import Measure, View
from ctxalgebra.tokens import chars4
from ctxalgebra.usage.budget import Reading, token_text
from ctxalgebra.usage.estimates import HANDOFF, pressure_at, pressure_of
from ctxalgebra.usage.odometer import Needle, Odometer, due, fold_points, gauge_text
from ctxalgebra.usage.reminders import hidden

__all__ = ["gauge", "with_line"]

_LONGEST = 400
_LINE = re.compile(r"\[ctx ([0-9]{1,9})(?:\.[0-9])?% [^\[\]\n]{1,300}\]")


class _Users(NamedTuple):
    """Numbers of user messages on the path: the first, the last, the one before; -1 for none."""

    first: int = -1
    last: int = -1
    before: int = -1


def _user(known: _Users, node: Node, _: View) -> _Users:
    if cast("Message", node.entry).role != "user" or hidden(node):
        return known
    first = node.number if known.first < 0 else known.first
    return _Users(first, node.number, known.last)


_USERS: Fold[_Users] = Fold("users", _Users(), _user, reads=(Message,))


class _Log(NamedTuple):
    """Of all branches: the newest user message, and the newest line; -1 for none."""

    user: int = -1
    shown: int = -1


def _newest(known: _Log, node: Node, _: View) -> _Log:
    message = cast("Message", node.entry)
    if message.role == "user" and not hidden(node):
        return known._replace(user=node.number)
    return known._replace(shown=node.number) if _read(message) is not None else known


_NEWEST: Fold[_Log] = Fold("newest", _Log(), _newest, along="log", reads=(Message,))


class _Shown(NamedTuple):
    """The whole percent of the newest line of the path, -1 for none, and the entry with it."""

    percent: int = -1
    number: int = -1


def _shown(known: _Shown, node: Node, _: View) -> _Shown:
    if handed_over(node) is not None:
        return _Shown()
    told = _read(cast("Message", node.entry))
    return known if told is None else _Shown(told, node.number)


def _read(message: Message) -> int | None:
    """Read the whole percent from a result that ends with the line."""
    found = _LINE.fullmatch(_line(message)) if message.role == "tool" else None
    return None if found is None else int(found[1])


def _line(message: Message) -> str:
    """Give the last line of the last text; empty without a text."""
    at = _place(message)
    if at < 0:
        return ""
    return cast("Text", message.parts[at]).text[-_LONGEST:].rpartition("\n")[2]


def _place(message: Message) -> int:
    """Find the last text of a message; -1 where it has none."""
    parts = message.parts
    return next((at for at in range(len(parts) - 1, -1, -1) if isinstance(parts[at], Text)), -1)


def with_line(result: Message, line: str) -> Message:
    r"""Add a line to the last text of a result; the same object without a line, or without a text.

    Raises:
        InvalidArgument: `wrong-type`, `lone-surrogate`.

    >>> from ctxalgebra import tool_result
    >>> with_line(tool_result("c1", "a.py"), "\n[ctx 1%]").parts
    (Text(text='a.py\n[ctx 1%]'),)
    """
    check_type(result, Message, "result")
    check_text(line, "line")
    at = _place(result)
    if at < 0 or not line:
        return result
    text = Text(cast("Text", result.parts[at]).text + line)
    return evolve(result, parts=(*result.parts[:at], text, *result.parts[at + 1 :]), origin="")


_SHOWN: Fold[_Shown] = Fold("gauge", _Shown(), _shown, reads=(Message,))


def _ours(session: Session, number: int, window: int, measure: Measure) -> bool:
    """Say whether the line of a result is ours: it has the tokens of where it was recorded.

    A tool may write what looks like the line. If its tokens are others it told nothing; if they are
    the same, the model knows what it is to know.
    """
    node = find(session, number, along="log")
    if node is None:
        return False
    before = pressure_of(at_node(session, node.parent), window=window, measure=measure)
    said = _line(cast("Message", node.entry)).partition("/")[0]
    return said.endswith(f" · {token_text(before.tokens)}")


def gauge(session: Session, *, window: int, measure: Measure = chars4) -> str:
    r"""Give the line that tells the model how full its window is; empty where it knows already.

    Add it to a result that is no error, with `with_line`, before that is recorded. It is due where
    the whole percent is another one than the path showed last, at the first result of a new request
    of the user's, and behind a handoff. It holds the pressure and the tokens of the window, the
    mark of a new request, how many entries of the path have a label, and where a fold to the last
    turn or to the beginning of the task would lead, with 400 tokens for the handoff.

    Args:
        window: the model's context window in tokens.
        measure: tokens of a message or head.

    Reads: the view, usage reports, labels, earlier lines.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, no positive window.

    >>> from ctxalgebra import *
    >>> session = record(Session(), user("x" * 4000), assistant(ToolCall("c1", "ls")))
    >>> line = gauge(session, window=10_000)
    >>> line
    '\n[ctx 10% window · 1K/10K · boundary · 0pts · fold@task→14%]'
    >>> session = record(session, tool_result("c1", "a.py" + line), assistant(ToolCall("c2", "ls")))
    >>> gauge(session, window=10_000)
    ''
    """
    reading = pressure_of(session, window=window, measure=measure)
    users, newest = fold(session, _USERS), fold(session, _NEWEST)
    last = fold(session, _SHOWN)
    told = _ours(session, last.number, window, measure)
    new = users.last >= 0 and users.last == newest.user
    if new and newest.shown > users.last:
        other = newest.shown != last.number
        new = not (_ours(session, newest.shown, window, measure) if other else told)
    state = Odometer(last.percent if told else None)
    found, _ = due(state, reading.pressure, str(users.last) if new else None)
    if not found.show:
        return ""
    named = [number for number in labelled(session).names if find(session, number) is not None]
    places = sorted({users.first, users.before, users.last} - {-1})
    turn, task = (
        None if place is None else _needle(session, place, window, measure)
        for place in fold_points(places, named)
    )
    return gauge_text(
        str(reading), boundary=found.boundary, points=len(named), turn=turn, task=task
    )


def _needle(session: Session, place: int, window: int, measure: Measure) -> Needle:
    """Estimate what a fold to an entry would leave, with the handoff."""
    there = travel(session, place)
    tokens = pressure_at(session, there, window=window, measure=measure).tokens + HANDOFF
    removed = session.view.end - there.view.end - 1
    return Needle(Reading(tokens, window).pressure, removed)
