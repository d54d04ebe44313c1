"""The area `travel`: label and branch written to a host that may fail.

The host is a `TreeStore` over the entries of the input. Each of the `faults` is one call that goes
wrong, in the order in which they stand.
"""

from __future__ import annotations

from typing import Any

from ctxalgebra.compat.travel_mutation import (
    Allowed,
    Branched,
    Journal,
    LabelWrite,
    Refused,
    Transaction,
    allowed_label,
    transact,
    write_branch,
    write_label,
)
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.values import InvalidInput

__all__ = ["OPERATIONS", "Host"]

Json = dict[str, Any]

_KEEP = "@keep"


class _HostError(Exception):
    """What a host raises."""


class Host:
    """Keep entries as the host does, in memory; what it appends is called `n1`, `n2`, ...

    Attributes:
        entries: in the order of the file.
        leaf: id of the entry that the next one hangs on.
    """

    def __init__(self, entries: list[Json], leaf: str | None, faults: list[Json]) -> None:
        self.entries = list(entries)
        self.leaf = leaf
        self._faults = list(faults)
        self._known = {entry.get("id"): entry for entry in entries}
        self._given = len(entries)

    @property
    def appended(self) -> list[Json]:
        """What was written."""
        return self.entries[self._given :]

    def read(self) -> Journal:
        """Give what is there."""
        return Journal(
            {str(entry["id"]): entry for entry in self.entries if "id" in entry}, self.leaf
        )

    def _append(self, entry: Json) -> str:
        number = 1
        while f"n{number}" in self._known:
            number += 1
        name = f"n{number}"
        whole = {"type": entry["type"], "id": name, "parentId": self.leaf, **entry}
        self.entries.append(whole)
        self._known[name] = whole
        self.leaf = name
        return name

    def _fault(self, method: str) -> Json:
        for at, fault in enumerate(self._faults):
            if fault.get("method") == method:
                return self._faults.pop(at)
        return {}

    def _write(self, method: str, *arguments: Any) -> str | None:
        fault = self._fault(method)
        effect = fault.get("effect")
        if effect == "throw":
            raise _HostError(method)
        if effect == "noop":
            return None
        if effect == "args":
            instead = fault.get("value", [])
            pairs = zip(arguments, instead, strict=False)
            changed = [old if new == _KEEP else new for old, new in pairs]
            arguments = (*changed, *arguments[len(changed) :])
        name = getattr(self, f"_{method}")(*arguments)
        if effect == "extra_message":
            said = {"role": "user", "content": "extra", "timestamp": 0}
            self._append({"type": "message", "message": said})
        if effect == "throw_after":
            raise _HostError(method)
        return str(name)

    def append_label(self, target: str, name: str | None) -> str | None:
        """Write a label, or take it away."""
        return self._write("appendLabelChange", target, name)

    def _appendLabelChange(self, target: str, name: str | None) -> str:  # noqa: N802 - the host's
        if target not in self._known:
            raise _HostError(target)
        named = {} if name is None else {"label": name}
        return self._append({"type": "label", "targetId": target, **named})

    def branch(self, target: str, summary: str, details: Json) -> str | None:
        """Go to an entry, and write a summary there."""
        return self._write("branchWithSummary", target, summary, details)

    def _branchWithSummary(self, target: str, summary: str, details: Json) -> str:  # noqa: N802
        if target not in self._known:
            raise _HostError(target)
        self.leaf = target
        entry = {"fromId": target, "summary": summary, "details": details, "fromHook": True}
        return self._append({"type": "branch_summary", **entry})


def prevalidate_checkpoint_label(
    *, entries: list[dict[str, Any]], leaf_id: str | None = None, target_id: str, name: str
) -> Any:
    """Say whether a label may be written."""
    may = allowed_label(Host(entries, leaf_id, []).read(), target_id, name)
    return _allowed(may)


def _allowed(may: Allowed | Refused) -> Json:
    if isinstance(may, Refused):
        return {"ok": False, "error": may.code}
    value: Json = {"targetId": may.target, "name": may.name, "status": "would_create"}
    if may.present:
        value |= {"status": "already_present", "existingLabel": may.name}
        value |= {"existingLabelEntryId": may.entry}
    return {"ok": True, "value": value}


def _state(state: str) -> str:
    return state.replace("-", "_")


def _token(ticket: LabelWrite) -> Json:
    return {"targetId": ticket.target, "name": ticket.name, "labelEntryId": ticket.entry}


def append_checkpoint_label(
    *,
    entries: list[dict[str, Any]],
    leaf_id: str | None = None,
    target_id: str,
    name: str,
    faults: list[dict[str, Any]] | None = None,
) -> Any:
    """Write a label, and say what became of it."""
    written = write_label(Host(entries, leaf_id, faults or []), target_id, name)
    if isinstance(written, Refused):
        return {"ok": False, "error": written.code, "state": _state(written.state)}
    value: Json = {"labelEntryId": written.entry, "targetId": target_id, "name": name}
    value |= {"status": "created" if written.created else "already_present", "label": name}
    if written.created:
        value["rollback"] = _token(written)
    if written.returned is not None:
        value["hostReturnedEntryId"] = written.returned
    state = "applied" if written.created else "not_applied"
    return {"ok": True, "state": state, "value": value}


def apply_branch_with_summary(
    *,
    entries: list[dict[str, Any]],
    leaf_id: str | None = None,
    branch_from_id: str,
    summary: str,
    details: dict[str, Any] | None = None,
    faults: list[dict[str, Any]] | None = None,
) -> Any:
    """Write a branch, and say what became of it."""
    host = Host(entries, leaf_id, faults or [])
    branch = write_branch(host, branch_from_id, summary, details or {})
    if branch.state != "applied":
        told = {"ok": False, "error": branch.code, "state": _state(branch.state)}
        return {**told, "finalLeaf": host.leaf}
    value: Json = {"summaryEntryId": branch.summary, "branchFromId": branch_from_id}
    value |= {"summary": summary, "leafBefore": branch.before, "leafAfter": branch.after}
    if branch.returned is not None:
        value["hostReturnedEntryId"] = branch.returned
    return {"ok": True, "state": "applied", "value": value, "finalLeaf": host.leaf}


def execute_travel_mutation(
    *,
    entries: list[dict[str, Any]],
    leaf_id: str | None = None,
    target_id: str,
    summary: str,
    details: dict[str, Any] | None = None,
    backup: dict[str, str] | None = None,
    faults: list[dict[str, Any]] | None = None,
) -> Any:
    """Write ticket and branch, and say what became of both."""
    host = Host(entries, leaf_id, faults or [])
    if backup is not None and not {"targetId", "name"} <= backup.keys():
        raise InvalidInput("input.backup: expected targetId and name")
    ticket = None if backup is None else (backup["targetId"], backup["name"])
    if ticket is not None:
        may = allowed_label(host.read(), *ticket)
        if isinstance(may, Refused):
            return {"prevalidation": _allowed(may)}
    done = transact(host, target_id, summary, details or {}, backup=ticket)
    return {"outcome": outcome_of(done, ticket, target_id), "leafId": host.leaf}


_LABELLED = {
    "none": "none",
    "present": "already_present",
    "created": "created",
    "not-applied": "none",
    "indeterminate": "indeterminate",
}
_KEPT = {
    "": None,
    "label-indeterminate": "backup_mutation_indeterminate",
    "branch-indeterminate": "branch_mutation_observed",
}


def outcome_of(done: Transaction, backup: tuple[str, str] | None, target: str) -> Json:
    """Write what became of a travel as the original reports it."""
    label: Json = {"backupOutcome": _LABELLED[done.label]}
    if done.ticket is not None and done.ticket.entry is not None:
        label["backupLabelEntryId"] = done.ticket.entry
    branch, settled = done.branch, done.settled
    if settled.done and branch is not None:
        told: Json = {"ok": True, "summaryEntryId": branch.summary}
        told |= {"resultingLeafId": branch.summary, **label}
        if done.ticket is not None and done.ticket.created:
            told["backupRollbackToken"] = _token(done.ticket)
        if branch.returned is not None:
            told["hostReturnedSummaryEntryId"] = branch.returned
        return told
    standing = done.remaining == "present" and backup is not None
    told = {"ok": False, "error": f"{'backup_' * (branch is None)}{settled.failed}_failed"}
    told |= {"hostError": _code(done), "branchState": _branch_state(branch)}
    told |= {"branchFailure": None if branch is None else _failure(branch, target), **label}
    told |= {
        "backupRolledBack": done.undone is True,
        "backupRollbackFailed": done.undone is False,
        "backupRollbackSkipped": bool(settled.kept),
        "backupRollbackSkipReason": _KEPT[settled.kept],
        "remainingBackupLabel": backup[1] if standing and backup is not None else None,
        "remainingBackupLabelState": done.remaining,
        "refreshRequired": settled.reread,
    }
    leaf = None if branch is None else branch.summary or branch.after
    return told if leaf is None else {**told, "refreshLeafId": leaf}


def _code(done: Transaction) -> str:
    if done.failure is not None:
        return done.failure.code
    return "" if done.branch is None else done.branch.code


def _branch_state(branch: Branched | None) -> str:
    return "not_attempted" if branch is None else _state(branch.state)


def _failure(branch: Branched, target: str) -> Json:
    ids = {
        "branchFromId": target,
        "leafBefore": branch.before,
        "leafAfter": branch.after,
        "actualSummaryEntryId": branch.summary,
        "hostReturnedEntryId": branch.returned,
    }
    return {name: value for name, value in ids.items() if value is not None}


OPERATIONS = collect(
    "travel",
    prevalidate_checkpoint_label,
    append_checkpoint_label,
    apply_branch_with_summary,
    execute_travel_mutation,
)
