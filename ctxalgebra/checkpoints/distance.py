"""What a journey would take away: nothing, where only the library's own calls lie in between.

A model names a checkpoint and travels there at once: all that would go is the call that named it,
and the handoff that comes is longer. Such a journey has no distance. Source: travel, section 12;
W02.
"""

from __future__ import annotations

from typing import NamedTuple

from ctxalgebra.events import is_reminder
from ctxalgebra.model.entries import Cut, Drop, Replace, Reply, Strip
from ctxalgebra.model.parts import Message, Text, Thinking, ToolCall
from ctxalgebra.model.session import Fold, Node, Session, fold
from ctxalgebra.model.view import View

__all__ = ["OWN_TOOLS", "newest_work"]

OWN_TOOLS = frozenset({"checkpoint", "travel", "timeline"})
"""Tools of this library: their calls and results say nothing that can't be asked for again."""


class _Work(NamedTuple):
    """The newest entry that says something, -1 for none; and whether open calls are ours."""

    newest: int = -1
    own: bool = False


def _only_calls(message: Message) -> bool:
    """Say whether a message of the assistant's is nothing but calls of ours, thinking aside."""
    said = (
        part.name not in OWN_TOOLS if isinstance(part, ToolCall)
        else bool(part.text.strip()) if isinstance(part, Text)
        else not isinstance(part, Thinking)
        for part in message.parts
    )  # fmt: skip
    return bool(message.calls) and not any(said)


def _step(known: _Work, node: Node, _: View) -> _Work:
    entry = node.entry
    if not isinstance(entry, Message | Reply):
        return known._replace(newest=node.number)
    message = entry.message if isinstance(entry, Reply) else entry
    if message is None or (isinstance(entry, Reply) and entry.outcome != "completed"):
        return known
    if message.role == "assistant":
        own = _only_calls(message)
        return _Work(known.newest if own or message.empty else node.number, own)
    if message.empty or is_reminder(node) or (message.role == "tool" and known.own):
        return known
    return known._replace(newest=node.number)


_WORK: Fold[_Work] = Fold("work", _Work(), _step, reads=(Message, Reply, Cut, Replace, Drop, Strip))


def newest_work(session: Session) -> int:
    """Find the newest entry of the path that a journey would miss; -1 for none. Costs what is new.

    Not missed are calls of `checkpoint`, `travel` and `timeline` without a text beside them, their
    results, reminders, heads, which come along, and whatever no request shows.

    >>> from ctxalgebra import Session, ToolCall, assistant, record, tool_result, user
    >>> session = record(Session(), user("hi"), assistant(ToolCall("c1", "checkpoint")))
    >>> newest_work(record(session, tool_result("c1", "done")))
    0
    """
    return fold(session, _WORK).newest
