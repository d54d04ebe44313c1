"""Which event of the host resets what of the original's paging, as a table (paging, section 12).

`LIFECYCLE` is the table; `after` applies a row to a value. Where the original's document and its
code differ, the document counts: the edit by which the host retries a failed response clears the
accounting and keeps the cut, since that response was never sent (fault W12).

A session of this library needs none of it: what was decided stands in the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast

from attrs import evolve, field, frozen

from ctxalgebra.compat.paging_groups import interrupted
from ctxalgebra.compat.paging_keys import Host
from ctxalgebra.compat.paging_session import PagingState
from ctxalgebra.compat.paging_stats import LatestInput
from ctxalgebra.compat.paging_tokens import Tracker, record_response, reported_input
from ctxalgebra.errors import InvalidArgument

__all__ = ["LIFECYCLE", "Event", "Lifetime", "Row", "after", "is_retry_edit"]

Event = Literal[
    "session-start",
    "session-tree",
    "model-select",
    "session-compact",
    "new-entry",
    "retry-edit",
    "automatic-compact",
    "manual-compact",
    "turn-end",
    "refresh-failure",
    "switch",
    "switch-repeated",
    "query",
    "cancelled",
    "session-shutdown",
    "process-restart",
]

Action = Literal[
    "reload-settings", "refresh", "cancel-compaction", "notify", "publish-status", "clear-status"
]


class Row(NamedTuple):
    """Say what an event does to each thing that is remembered.

    Fields:
        cut: `keep` or `reset`.
        accounting: what was learned from usage: `keep`, `clear`, or `record` a response.
        transient: what is known of the latest input: `keep`, `clear`, or `measure` it.
        known: ids of edits and compactions that were seen: `keep`, `empty`, or `add` this one.
        override: whether a person switched paging on or off: `keep`, `clear` or `set`.
        actions: what the host does besides, while paging is on for `cancel-compaction`.
        once: an id that is known already does nothing.
    """

    cut: Literal["keep", "reset"] = "keep"
    accounting: Literal["keep", "clear", "record"] = "keep"
    transient: Literal["keep", "clear", "measure"] = "keep"
    known: Literal["keep", "empty", "add"] = "keep"
    override: Literal["keep", "clear", "set"] = "keep"
    actions: tuple[Action, ...] = ()
    once: bool = False


LIFECYCLE: Mapping[Event, Row] = MappingProxyType(
    {
        "session-start": Row(
            "reset", "clear", "clear", "empty", "clear",
            ("reload-settings", "publish-status", "refresh"),
        ),
        "session-tree": Row("reset", "clear", "clear", "empty", actions=("refresh",)),
        "model-select": Row("reset", "clear", "clear"),
        "session-compact": Row("reset", "clear", "clear", "add", once=True),
        "new-entry": Row("reset", "clear", "clear", "add", once=True),
        "retry-edit": Row(accounting="clear", known="add", once=True),
        "automatic-compact": Row(actions=("cancel-compaction",)),
        "manual-compact": Row(accounting="clear"),
        "turn-end": Row(accounting="record", transient="measure", actions=("refresh",)),
        "refresh-failure": Row(accounting="clear", actions=("notify",)),
        "switch": Row("reset", "clear", "clear", override="set", actions=("publish-status",)),
        "switch-repeated": Row(override="set", actions=("publish-status",)),
        "query": Row(actions=("notify",)),
        "cancelled": Row(),
        "session-shutdown": Row(actions=("clear-status",)),
        "process-restart": Row("reset", "clear", "clear", "empty", "clear"),
    }
)  # fmt: skip
"""What each event does. `new-entry` is an edit or compaction that a refresh finds."""


@frozen
class Lifetime:
    """Hold all that the original remembers in memory.

    Args:
        paging: the cut and what was learned from usage.
        transient: what is known of the latest input.
        known: ids of edits and compactions that were seen.
        override: what a person switched paging to, if they did.
    """

    paging: PagingState = field(factory=PagingState)
    transient: LatestInput | None = None
    known: frozenset[str] = frozenset()
    override: bool | None = None


def is_retry_edit(edit: Host, target: Host) -> bool:
    """Say whether an edit takes out a response that was aborted or failed.

    Args:
        edit: an entry of the type `context_edit`.
        target: the entry that it names.

    >>> failed = {"type": "message", "message": {"role": "assistant", "stopReason": "error"}}
    >>> is_retry_edit({"type": "context_edit", "targetId": "a", "replacement": None}, failed)
    True
    """
    message = target.get("message")
    if edit.get("type") != "context_edit" or edit.get("replacement") is not None:
        return False
    if not isinstance(message, dict):
        return False
    said = cast("Host", message)
    return said.get("role") == "assistant" and interrupted(said)


def _measured(known: LatestInput | None, response: Host) -> LatestInput | None:
    """Give the input that a response reported; an estimate of its request stays, else nothing."""
    tokens = reported_input(response)
    if tokens is not None:
        return LatestInput(tokens, estimated=False)
    return known if known is not None and known.estimated else None


def after(
    lifetime: Lifetime,
    event: Event,
    *,
    id: str | None = None,
    response: Host | None = None,
    enabled: bool | None = None,
) -> Lifetime:
    """Apply an event to what is remembered.

    Args:
        lifetime: what was remembered before.
        event: one of `LIFECYCLE`.
        id: of the entry, for edits and compactions; one without an id counts each time.
        response: the assistant's message, at the end of a turn.
        enabled: what paging is switched to.

    Returns:
        What is remembered from here on; the same object when that is all as it was.

    Raises:
        InvalidArgument: `invalid-argument`, there is no such event, or it lacks its argument.

    >>> after(Lifetime(override=True), "session-start").override is None
    True
    """
    row: Row | None = LIFECYCLE.get(event)
    if row is None:
        raise InvalidArgument("invalid-argument", f"there is no event {event!r}", field="event")
    if row.override == "set" and enabled is None:
        raise InvalidArgument("invalid-argument", "switched to what?", field="enabled")
    if row.accounting == "record" and response is None:
        raise InvalidArgument("invalid-argument", "the turn has a response", field="response")
    if row.once and id is not None and id in lifetime.known:
        return lifetime
    paging, changes = lifetime.paging, dict[str, Any]()
    if row.cut == "reset":
        paging = evolve(paging, cut=None)
    if row.accounting == "clear":
        paging = evolve(paging, tracker=Tracker())
    if row.accounting == "record" and response is not None:
        paging = evolve(paging, tracker=record_response(paging.tracker, response))
        changes["transient"] = _measured(lifetime.transient, response)
    if row.transient == "clear":
        changes["transient"] = None
    if row.known == "empty":
        changes["known"] = frozenset[str]()
    elif row.known == "add" and id is not None:
        changes["known"] = lifetime.known | {id}
    if row.override != "keep":
        changes["override"] = enabled if row.override == "set" else None
    now = evolve(lifetime, paging=paging, **changes)
    return lifetime if now == lifetime else now
