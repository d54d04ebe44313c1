"""How the original finds messages again in stored history: keys, frontiers, the remembered cut.

Two look-ups that differ on purpose (paging, section 5.6). `RawHistory.key` is strict: a frontier
must not land on the wrong message. `RawHistory.owner` is loose: a notice has to point somewhere
(a call id that is used again leads to the newest turn, fault W4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from attrs import frozen

from ctxalgebra.codecs.pi_weights import json_text

__all__ = [
    "CutKey",
    "CutState",
    "Frontier",
    "FrontierKind",
    "RawHistory",
    "RawItem",
    "call_ids",
    "prepare_cut",
    "raw_cut_frontier_resolves",
]

Host = Mapping[str, Any]
"""A message of the host as plain JSON."""

FrontierKind = Literal["prefix", "completedTurn", "partialTurn"]


class RawItem(NamedTuple):
    """Hold one item of raw history: its id, its user or assistant message, and its results."""

    id: str
    message: Host
    results: tuple[Host, ...] = ()


@frozen
class CutKey:
    """Name a stored message: the id of its item, and its first call when it has one."""

    history: str
    call: str | None = None


@frozen
class Frontier:
    """Name the last message that was evicted, and what kind of unit it closed.

    Args:
        user: the item of the request whose turn was cut apart; only for `partialTurn`.
    """

    kind: FrontierKind
    last: CutKey
    user: str | None = None


@frozen
class CutState:
    """Remember a cut: its frontier, and the notice that stands in front since then."""

    frontier: Frontier
    notice: Host


def call_ids(message: Host) -> tuple[str, ...]:
    """List the ids of an assistant's calls: blocks of the type with texts for id and name.

    >>> call_ids({"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "n"}]})
    ('c',)
    """
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, list):
        return ()
    ids: list[str] = []
    for block in cast("list[object]", content):
        if not isinstance(block, dict):
            continue
        call = cast("dict[str, Any]", block)
        if call.get("type") == "toolCall" and isinstance(call.get("name"), str):
            name = call.get("id")
            if isinstance(name, str):
                ids.append(name)
    return tuple(ids)


def _stamp(message: Host) -> object:
    """Make a time stamp comparable as the host compares it; absent ones are equal."""
    if "timestamp" not in message:
        return ()
    value = message["timestamp"]
    if value is None or isinstance(value, str | bool):
        return type(value), value
    return value if isinstance(value, int | float) else object()


class RawHistory:
    """Index raw history for one selection.

    Args:
        items: oldest first.
    """

    def __init__(self, items: Sequence[RawItem]) -> None:
        self.items = tuple(items)
        self._ids: dict[str, list[RawItem]] = {}
        self._same: dict[object, list[tuple[Host, RawItem]]] = {}
        self._objects: dict[int, RawItem] = {}
        self._calls: dict[str, RawItem] = {}
        for item in self.items:
            self._ids.setdefault(item.id, []).append(item)
            for call in call_ids(item.message):
                self._calls[call] = item
            for message in (item.message, *item.results):
                where = message.get("role"), _stamp(message)
                self._same.setdefault(where, []).append((message, item))
                self._objects.setdefault(id(message), item)

    def item(self, name: str) -> RawItem | None:
        """Find the only item of this id."""
        found = self._ids.get(name, [])
        return found[0] if len(found) == 1 else None

    def first(self, name: str) -> RawItem | None:
        """Find the first item of this id."""
        return next(iter(self._ids.get(name, ())), None)

    def key(self, message: Host) -> CutKey | None:
        """Find the key by which a user or assistant message can be found again; None without one.

        What has calls is found by role, time and call ids, when only one item has these; anything
        else by its whole JSON text, when only one item has that.
        """
        role = message.get("role")
        if role not in ("user", "assistant"):
            return None
        ids = call_ids(message)
        near = self._same.get((role, _stamp(message)), ())
        found = [(stored, item) for stored, item in near if call_ids(stored) == ids]
        if len(found) != 1 or not (ids or found[0][0] is message):
            text = json_text(message) if found else ""
            found = [(stored, item) for stored, item in found if json_text(stored) == text]
        if len(found) != 1 or self.item(found[0][1].id) is None:
            return None
        return CutKey(found[0][1].id, ids[0] if ids else None)

    def owner(self, message: Host) -> RawItem | None:
        """Find an item to point at for a message; None when nothing is near enough."""
        if (item := self._objects.get(id(message))) is not None:
            return item
        result = message.get("toolCallId") if message.get("role") == "toolResult" else None
        for call in (result,) if isinstance(result, str) else call_ids(message):
            if call in self._calls:
                return self._calls[call]
        near = self._same.get((message.get("role"), _stamp(message)), ())
        text = json_text(message) if near else ""
        return next((item for stored, item in near if json_text(stored) == text), None)

    def resolves(self, frontier: Frontier) -> bool:
        """Say whether a remembered frontier still exists."""
        item = self.item(frontier.last.history)
        if item is None:
            return False
        if frontier.last.call is not None and frontier.last.call not in call_ids(item.message):
            return False
        if frontier.kind != "partialTurn":
            return True
        user = None if frontier.user is None else self.first(frontier.user)
        asked = frontier.user is None or (user is not None and user.message["role"] == "user")
        return asked and item.message["role"] == "assistant"


def raw_cut_frontier_resolves(items: Sequence[RawItem] | None, frontier: Frontier) -> bool:
    """Say whether a remembered frontier still exists in raw history; never in history that lacks.

    >>> item = RawItem("h", {"role": "user", "content": "x"})
    >>> raw_cut_frontier_resolves([item], Frontier("prefix", CutKey("h")))
    True
    """
    return items is not None and RawHistory(items).resolves(frontier)


def prepare_cut(remembered: CutState | None, items: Sequence[RawItem] | None) -> CutState | None:
    """Give the cut to select with: what is remembered, as long as it resolves (section 7).

    What comes out is also what is remembered from here on; after a selection that is the cut state
    of its result, and nothing after a reset.

    >>> item = RawItem("h", {"role": "user", "content": "x"})
    >>> state = CutState(Frontier("prefix", CutKey("h")), {"role": "user", "content": "N"})
    >>> prepare_cut(state, [item]) is state, prepare_cut(state, None)
    (True, None)
    """
    if remembered is None or not raw_cut_frontier_resolves(items, remembered.frontier):
        return None
    return remembered
