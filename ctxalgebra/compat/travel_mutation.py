"""The writes of a travel as the original makes them: label, branch, verification, compensation.

They run on any `TreeStore`; what became of each is told by `checkpoints.outcome` from the entries
before and after, and never by what a call returned. Codes and states are the original's. Source:
travel, section 13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from attrs import field, frozen

from ctxalgebra.checkpoints.names import Names, is_reserved, name_conflict
from ctxalgebra.checkpoints.outcome import (
    SETTLEMENTS,
    Labelled,
    Outcome,
    Presence,
    Settlement,
    classify,
    presence,
)
from ctxalgebra.compat.travel_labels import read_labels

__all__ = [
    "Allowed",
    "Branched",
    "Journal",
    "LabelWrite",
    "Refused",
    "Transaction",
    "TreeStore",
    "allowed_label",
    "transact",
    "write_branch",
    "write_label",
]

Json: TypeAlias = dict[str, Any]


_CODES = {
    "reserved-name": "reserved_name",
    "duplicate-name": "label_conflict",
    "displaces-name": "label_displaces_existing",
}


class Journal(NamedTuple):
    """What a store holds: entries by their ids, in the order of the file, and the leaf."""

    entries: Mapping[str, Json]
    leaf: str | None


class TreeStore(Protocol):
    """Somebody else's journal. Each of these may fail, and what they return proves nothing."""

    def read(self) -> Journal:
        """Give what is there."""
        ...

    def append_label(self, target: str, name: str | None) -> object:
        """Write a label, or take it away."""
        ...

    def branch(self, target: str, summary: str, details: Json) -> object:
        """Go to an entry, and write a summary there."""
        ...


@frozen
class Refused:
    """Say why a write was not tried, or did not become what was wanted.

    Args:
        code: the original's.
        state: what became of it.
    """

    code: str
    state: Outcome = "not-applied"


@frozen
class Allowed:
    """Say that a label may be written, or stands there (`entry`, the number of its entry)."""

    target: str
    name: str
    present: bool = False
    entry: str | None = None


@frozen
class LabelWrite:
    """Say which entry holds a label, and what the host returned for it, where it wrote it now."""

    target: str
    name: str
    entry: str | None
    created: bool
    returned: str | None = None
    prior: str | None = None


@frozen
class Branched:
    """Hold what became of a branch.

    Args:
        state: told from the entries before and after.
        code: why it is not applied, the original's.
        summary: the entry that was written, also where it is another than was wanted.
        before, after: the leaf; `after` is None where it can't be read.
        returned: the id that the host gave.
    """

    state: Outcome
    code: str = ""
    summary: str | None = None
    before: str | None = None
    after: str | None = None
    returned: str | None = None


@frozen
class Transaction:
    """Hold what became of a travel.

    Args:
        label: what became of the ticket.
        settled: what follows.
        ticket: the label that was written or stands there.
        branch: None where it was not tried.
        failure: why the label failed.
        undone: whether the ticket that was written was taken back; None where it did not have to.
        remaining: whether the ticket is there now.
    """

    label: Labelled
    settled: Settlement
    ticket: LabelWrite | None = None
    branch: Branched | None = None
    failure: Refused | None = None
    undone: bool | None = None
    remaining: Presence = field(default="absent")


def _read(store: TreeStore) -> Journal | None:
    try:
        return store.read()
    except Exception:  # noqa: BLE001 - whatever a host raises, the journal can't be read
        return None


def _try(call: Callable[[], object]) -> tuple[str | None, bool]:
    """Call a host; give the id that it returned, and whether it raised."""
    try:
        returned = call()
    except Exception:  # noqa: BLE001 - whatever a host raises, the journal tells what became of it
        return None, True
    return (returned if isinstance(returned, str) and returned else None), False


def _names(journal: Journal) -> Names[str]:
    return read_labels(journal.entries.values())


def _label_entry(journal: Journal, target: str, name: str) -> str:
    """Give the last entry that put the name there, as one did."""
    entries = reversed(list(journal.entries.items()))
    return next(key for key, entry in entries if _puts(entry, target, name))


def _puts(entry: Json, target: str, name: str | None) -> bool:
    same = entry.get("type") == "label" and entry.get("targetId") == target
    return same and (entry.get("label") or None) == name


def allowed_label(journal: Journal | None, target: str, name: str) -> Allowed | Refused:
    """Say whether a label may be written.

    Args:
        journal: None where it can't be read.
        target: id of the entry.
        name: what it is to be called.
    """
    if is_reserved(name):
        return Refused("reserved_name")
    if journal is None:
        return Refused("host_operation_failed")
    if target not in journal.entries:
        return Refused("entry_not_found")
    known = _names(journal)
    conflict = name_conflict(known, target, name)
    if conflict is not None:
        return Refused(_CODES[conflict])
    if name in known.targets:
        return Allowed(target, name, present=True, entry=_label_entry(journal, target, name))
    return Allowed(target, name)


def write_label(store: TreeStore, target: str, name: str) -> LabelWrite | Refused:
    """Write a label, and tell from the journal whether it is there."""
    before = _read(store)
    may = allowed_label(before, target, name)
    if isinstance(may, Refused) or before is None:
        return may if isinstance(may, Refused) else Refused("host_operation_failed")
    if may.present:
        return LabelWrite(target, name, may.entry, created=False)
    prior = _names(before).names.get(target)
    returned, raised = _try(lambda: store.append_label(target, name))
    after = _read(store)
    known = None if after is None else _names(after)
    holds = known is not None and known.targets.get(name) == target
    state, entry = classify(
        before.entries,
        None if after is None else after.entries,
        wanted=lambda found: holds and _puts(found, target, name),
        moved=known is not None and known.names.get(target) != prior,
    )
    if state == "applied":
        return LabelWrite(target, name, entry, created=True, returned=returned, prior=prior)
    return Refused("host_operation_failed" if raised else "malformed_capability", state)


def _undo(store: TreeStore, ticket: LabelWrite) -> bool:
    """Take a label back that was written; say whether what stood there before stands there."""

    def standing() -> str | Literal[False] | None:
        journal = _read(store)
        return False if journal is None else _names(journal).names.get(ticket.target)

    if standing() != ticket.name:
        return False
    for _ in range(2):
        _, raised = _try(lambda: store.append_label(ticket.target, ticket.prior))
        if not raised or standing() == ticket.prior:
            break
    return standing() == ticket.prior


def write_branch(store: TreeStore, target: str, summary: str, details: Json) -> Branched:
    """Go to an entry and write a summary there, and tell from the journal whether it is there."""
    before = _read(store)
    if before is None:
        return Branched("not-applied", "host_operation_failed")
    if target not in before.entries:
        return Branched("not-applied", "entry_not_found", before=before.leaf)
    returned, raised = _try(lambda: store.branch(target, summary, details))
    after = _read(store)
    state, entry = classify(
        before.entries,
        None if after is None else after.entries,
        wanted=lambda found: (
            found.get("type") == "branch_summary"
            and found.get("parentId") == target
            and found.get("summary") == summary
        ),
        moved=after is not None and after.leaf != before.leaf,
    )
    leaf = None if after is None else after.leaf
    if after is not None and entry is None and leaf is not None and leaf not in before.entries:
        other = after.entries.get(leaf, {})
        entry = leaf if other.get("type") == "branch_summary" else None
    failed = raised or after is None
    code = "host_operation_failed" if failed else "branch_verification_failed"
    return Branched(state, "" if state == "applied" else code, entry, before.leaf, leaf, returned)


def transact(
    store: TreeStore,
    target: str,
    summary: str,
    details: Json,
    *,
    backup: tuple[str, str] | None = None,
) -> Transaction:
    """Write the ticket, then the branch; take the ticket back where the branch was not written.

    Args:
        store: where.
        target: id of the entry where the branch begins.
        summary: its text.
        details: what the host keeps with it.
        backup: entry and name of the ticket.
    """
    label: Labelled = "none"
    ticket: LabelWrite | None = None
    if backup is not None:
        written = write_label(store, *backup)
        if isinstance(written, Refused):
            failed: Labelled = (
                "indeterminate" if written.state == "indeterminate" else "not-applied"
            )
            remaining = _remaining(store, backup)
            settled = SETTLEMENTS[failed, None]
            return Transaction(failed, settled, failure=written, remaining=remaining)
        ticket, label = written, "created" if written.created else "present"
    branch = write_branch(store, target, summary, details)
    settled = SETTLEMENTS[label, branch.state]
    undone = _undo(store, ticket) if settled.undo and ticket is not None else None
    return Transaction(label, settled, ticket, branch, None, undone, _remaining(store, backup))


def _remaining(store: TreeStore, backup: tuple[str, str] | None) -> Presence:
    if backup is None:
        return "absent"
    target, name = backup
    journal = _read(store)
    return presence(None if journal is None else [_names(journal).targets.get(name)], target)
