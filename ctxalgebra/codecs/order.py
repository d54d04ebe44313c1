"""The order in which requests show what a path says, whatever was decided about it.

As `ctxalgebra.model.view` tells: results stand in the order of their calls, behind them what
arrived in between, and behind a reply what arrived while its request was in flight.
"""

from __future__ import annotations

from attrs import evolve

from ctxalgebra.model.entries import Entry, Reply, Sent
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Node
from ctxalgebra.model.view import EMPTY_VIEW, View

__all__ = ["Order", "message_of"]

_Shown = list[tuple[int, Message]]


def message_of(entry: Entry) -> Message | None:
    """Give the message of an entry that a list of messages has a place for."""
    if isinstance(entry, Reply):
        return entry.message if entry.outcome == "completed" else None
    return entry if isinstance(entry, Message) else None


class Order:
    """Takes the nodes of a path, and gives their messages with the numbers of their entries.

    Args:
        view: what stands in front of them.
        named: results get the names of their calls' tools, where they have none.
    """

    def __init__(self, view: View = EMPTY_VIEW, *, named: bool = False) -> None:
        last = view.slots.messages[view.end - 1] if view.open else None
        calls = () if last is None else last.calls
        self._tools = {call.id: call.name for call in calls if call.id not in view.results}
        self._named = named
        self._results: dict[str, tuple[int, Message]] = {}
        self._waiting: _Shown = []
        self._flight = view.flight >= 0

    def finish(self) -> _Shown:
        """Give what waits."""
        results = [self._results[call] for call in self._tools if call in self._results]
        shown = [*results, *self._waiting]
        self._tools, self._results, self._waiting = {}, {}, []
        return shown

    def take(self, node: Node) -> _Shown:
        """Take the next node; give what is shown with it."""
        entry, message = node.entry, message_of(node.entry)
        if isinstance(entry, Sent | Reply):
            self._flight = isinstance(entry, Sent)
        elif message is not None and message.role == "tool":
            return self._result(node.number, message)
        elif message is not None and (self._flight or self._tools):
            self._waiting.append((node.number, message))
            return []
        shown = [] if message is None else [(node.number, message)]
        if message is not None and message.calls:
            self._tools = {call.id: call.name for call in message.calls}
        elif isinstance(entry, Reply):
            shown += self.finish()
        return shown

    def _result(self, number: int, message: Message) -> _Shown:
        if self._named and not message.name:
            message = evolve(message, name=self._tools.get(message.call, ""))
        self._results[message.call] = number, message
        return self.finish() if len(self._results) >= len(self._tools) else []
