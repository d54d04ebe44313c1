"""The original's two tools that write: a checkpoint, and a travel with its gates in order.

Both read what a `TreeStore` holds, decide, and write through `travel_mutation`. A refusal has the
original's code. What differs from the original: a travel that would take away nothing but its own
calls and labels is of zero distance (W02); a malformed batch does not hold up the travel that takes
it away (W07); an entry that a host called `root` is passed over where the ticket goes (W05).
Source: travel, sections 9 and 12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from attrs import frozen

from ctxalgebra.checkpoints.handoff import Handoff, build_handoff, handoff_text, ticket_name
from ctxalgebra.checkpoints.names import Names, is_name, is_reserved
from ctxalgebra.compat.host_entries import Entry, index, path_to
from ctxalgebra.compat.travel_anchor import Anchor, Point, scan
from ctxalgebra.compat.travel_entries import (
    OWN_TOOLS,
    message_of,
    optional_text,
    skip_reason,
)
from ctxalgebra.compat.travel_labels import Resolved, read_labels, resolve
from ctxalgebra.compat.travel_mutation import (
    Journal,
    LabelWrite,
    Refused,
    Transaction,
    TreeStore,
    allowed_label,
    transact,
    write_label,
)
from ctxalgebra.compat.travel_packet import (
    MARKER,
    TOOL,
    Packet,
    packet_of,
    receipts_of,
    target_facts,
)
from ctxalgebra.compat.travel_protocol import Batch, containing_batch, turn_open_at
from ctxalgebra.compat.travel_usage import depth
from ctxalgebra.errors import CtxError

__all__ = ["Folded", "Saved", "checkpoint", "travel"]

Json: TypeAlias = dict[str, Any]
MeantBy: TypeAlias = Literal["root", "checkpoint", "entry_id"]

_MEANT: Mapping[str, MeantBy] = {"root": "root", "name": "checkpoint", "id": "entry_id"}
_PARAMETERS = frozenset({"target", "handoff", "backupCurrentHeadAs"})


@frozen
class Saved:
    """Hold a checkpoint.

    Args:
        written: the label.
        entry: that has it.
        explicit: whether the target was named.
        anchor: how it was found, where it was not.
        before: labels as they were.
    """

    written: LabelWrite
    entry: Entry
    explicit: bool
    anchor: Anchor | None
    before: Names[str]


@frozen
class Folded:
    """Hold a travel, done or not.

    Args:
        target: the entry.
        meant: what it was taken for.
        origin: the leaf that was left.
        off_path: whether the target lies beside the path.
        ticket: name and entry of the return ticket.
        point: where the ticket stands.
        warnings: about the target.
        depth: summaries on the path before.
        depth_after: the same behind the travel.
        done: what became of it.
    """

    target: str
    meant: MeantBy
    origin: str
    off_path: bool
    ticket: tuple[str, str]
    point: Point
    warnings: tuple[str, ...]
    depth: int
    depth_after: int
    done: Transaction


class _Place(NamedTuple):
    """What is read once: entries, the path, labels, receipts, the batch that holds the call."""

    entries: list[Entry]
    known: Mapping[str, Entry]
    path: list[Entry]
    names: Names[str]
    batch: Batch | None
    leaf: str | None

    @property
    def start(self) -> int:
        """Index of the last entry in front of the call."""
        return len(self.path) - 1 if self.batch is None else self.batch.index - 1


def _place(journal: Journal, call: str) -> _Place:
    entries: list[Entry] = list(journal.entries.values())
    known = index(entries)
    path = path_to(known, journal.leaf)
    names = read_labels(entries)
    return _Place(entries, known, path, names, containing_batch(path, call), journal.leaf)


def _target(place: _Place, text: str) -> Resolved | Refused:
    found = resolve(place.entries, place.leaf, text, names=place.names)
    if not found.id:
        return Refused("empty_session")
    return found if found.id in place.known else Refused("target_not_found")


def checkpoint(
    store: TreeStore, name: str, *, target: object = None, call: str = ""
) -> Saved | Refused:
    """Name an entry: the one that is meant, or the newest whose packet is complete.

    Args:
        store: where.
        name: of the checkpoint.
        target: a name, an id or `root`; None for the newest.
        call: id of the call that asks for it; its own batch is passed over.
    """
    if is_reserved(name):
        return Refused("reserved_name")
    place = _place(store.read(), call)
    meant, anchor = optional_text(target), None
    if meant is not None:
        found = _target(place, meant)
        if isinstance(found, Refused):
            return found
        entry = place.known[found.id]
    else:
        anchor = scan(place.path, receipts_of(place.entries), start=place.start)
        if anchor.point is None:
            empty = "empty_session" if not place.path else "no_protocol_complete_checkpoint_target"
            return Refused(empty)
        entry = anchor.point.entry
    written = write_label(store, str(entry["id"]), name)
    if isinstance(written, Refused):
        code = {"label_conflict": "duplicate_name"}.get(written.code, written.code)
        return Refused(code, written.state)
    return Saved(written, entry, meant is not None, anchor, place.names)


def _wanted(parameters: Json) -> tuple[str, str | None] | Refused:
    """Read target and backup name; whatever is wrong with them is one refusal."""
    target, backup = optional_text(parameters.get("target")), parameters.get("backupCurrentHeadAs")
    named = backup is None or (isinstance(backup, str) and is_name(backup))
    if target is None or not named or not parameters.keys() <= _PARAMETERS:
        return Refused("invalid_params")
    if backup is not None and is_reserved(backup):
        return Refused("reserved_backup_name")
    return target, backup


def _idle(entry: Entry) -> bool:
    """Say whether taking an entry away takes nothing away: labels, and calls of these tools."""
    message = message_of(entry)
    if message is None:
        return entry.get("type") == "label"
    if message.get("role") == "toolResult":
        return str(message.get("toolName")).startswith(OWN_TOOLS)
    return skip_reason(entry) == "internal_tool_only_assistant"


def _packet(path: Sequence[Entry], place: _Place) -> Packet | None:
    try:
        return packet_of(path, receipts_of(place.entries))
    except CtxError:
        return None


def _ticket_place(place: _Place, lowest: int, *, accept_repaired: bool) -> Point | None:
    """Find where the ticket goes: a complete entry in front of the call that may carry a name."""
    start, receipts = place.start, receipts_of(place.entries)
    while True:
        found = scan(
            place.path, receipts, start=start, lowest=lowest, accept_repaired=accept_repaired
        )
        if found.point is None:
            return None
        name = place.names.names.get(str(found.point.entry.get("id")), "")
        if not is_reserved(name):
            return found.point
        start = found.point.index - 1


def travel(store: TreeStore, parameters: Json, *, call: str) -> Folded | Refused:
    """Go to an entry with a handoff, and leave a ticket where one was.

    Args:
        store: where.
        parameters: `target`, `handoff` and `backupCurrentHeadAs`, as a model wrote them.
        call: id of the call that asks for it.
    """
    wanted = _wanted(parameters)
    if isinstance(wanted, Refused):
        return wanted
    text, backup = wanted
    handoff = build_handoff(parameters.get("handoff"))
    if not isinstance(handoff, Handoff):
        return Refused("invalid_handoff")
    place = _place(store.read(), call)
    if place.batch is not None and place.batch.calls > 1:
        return Refused("mixed_tool_batch")
    target = _target(place, text)
    if isinstance(target, Refused):
        return target
    below = path_to(place.known, target.id)
    gated = _gates(place, target, below)
    if isinstance(gated, Refused):
        return gated
    point = _ticket_place(
        place,
        0 if target.off_path else len(below),
        accept_repaired=gated.status == "repaired",
    )
    if point is None:
        return Refused("no_protocol_complete_backup_target")
    at = str(point.entry["id"])
    name = backup or place.names.names.get(at) or ticket_name(handoff.goal, place.names.targets)
    may = allowed_label(store.read(), at, name)
    if isinstance(may, Refused):
        return Refused(_TICKET_CODES.get(may.code, "backup_prevalidation_failed"))
    shown = name if is_name(name) else None
    # It was a handoff without the name, and the name is one.
    final = cast("Handoff", build_handoff(parameters.get("handoff"), raw_archive=shown))
    details: Json = {
        "kind": TOOL,
        "handoffVersion": 1,
        "toolCallId": call,
        "currentUserTurnOpen": place.batch is not None
        and turn_open_at(place.path, place.batch.index),
        "originId": place.leaf,
        "target": parameters["target"],
        "targetId": target.id,
        "backupCurrentHeadAs": name,
    }
    _, warnings = target_facts(below[-1], below, gated, off_path=target.off_path)
    summary = handoff_text(final, marker=MARKER)
    done = transact(store, target.id, summary, details, backup=(at, name))
    return Folded(
        target.id,
        _MEANT[target.meant],
        str(place.leaf),
        target.off_path,
        (at, name),
        point,
        warnings,
        depth(place.path),
        depth(below) + 1,
        done,
    )


_TICKET_CODES = {
    "label_conflict": "duplicate_backup_name",
    "label_displaces_existing": "backup_displaces_existing_label",
}


def _gates(place: _Place, target: Resolved, below: Sequence[Entry]) -> Packet | Refused:
    """Say why one can't go there; else give what is sent there."""
    if place.leaf is None:
        return Refused("no_active_leaf")
    if place.leaf == target.id:
        return Refused("already_at_target")
    packet = _packet(below, place)
    if packet is None or _packet(place.path, place) is None:
        return Refused("build_messages_failed")
    replaced = place.path[len(below) :]
    if not target.off_path and all(_idle(entry) for entry in replaced):
        return Refused("zero_distance_travel")
    return Refused("target_protocol_invalid") if packet.status == "invalid" else packet
