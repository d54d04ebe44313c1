"""Writes of a travel to a host that fails, lies, or is written to by others."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ctxalgebra.checkpoints.outcome import SETTLEMENTS, classify, presence
from ctxalgebra.compat.travel_mutation import (
    LabelWrite,
    Refused,
    allowed_label,
    transact,
    write_branch,
    write_label,
)
from ctxalgebra.conformance.door import result
from ctxalgebra.conformance.travel_mutation import Host

ENTRIES = [
    {"type": "message", "id": "u1", "parentId": None, "message": {"role": "user"}},
    {"type": "message", "id": "a1", "parentId": "u1", "message": {"role": "assistant"}},
    {"type": "message", "id": "u2", "parentId": "a1", "message": {"role": "user"}},
]
EFFECTS = (None, "throw", "throw_after", "noop", "args", "extra_message")


class Unreadable(Host):
    """A host whose reads fail from some call on."""

    def __init__(self, *given: Any, reads: int) -> None:
        super().__init__(*given)
        self.reads = reads

    def read(self) -> Any:
        self.reads -= 1
        if self.reads < 0:
            raise OSError("gone")
        return super().read()


class Crowded(Host):
    """A host that somebody else writes to, right behind each write."""

    def branch(self, *given: Any) -> Any:
        try:
            return super().branch(*given)
        finally:
            self._append({"type": "message", "message": {"role": "user"}})


def faults(label: str | None, branch: str | None) -> list[dict[str, Any]]:
    methods = (("appendLabelChange", label), ("branchWithSummary", branch))
    instead = {"appendLabelChange": ["@keep", "other"], "branchWithSummary": ["@keep", "other"]}
    return [{"method": m, "effect": e, "value": instead[m]} for m, e in methods if e]


def truth(host: Host, kind: str) -> str:
    """Say what became of it, by whoever can see everything."""
    written = [entry for entry in host.appended if entry["type"] == kind]
    wanted = {"label": ("label", "tick"), "branch_summary": ("summary", "S")}[kind]
    if any(entry.get(wanted[0]) == wanted[1] for entry in written):
        return "applied"
    return "something else" if host.appended else "not-applied"


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_label_is_what_the_journal_says(effect):
    host = Host(ENTRIES, "u2", faults(effect, None))
    written = write_label(host, "a1", "tick")
    state = "applied" if isinstance(written, LabelWrite) else written.state
    assert state == truth(host, "label").replace("something else", "indeterminate")
    code = {"throw": "host_operation_failed", "noop": "malformed_capability"}
    if isinstance(written, Refused):
        assert written.code == code.get(effect, "malformed_capability")
        assert written.state in {"not-applied", "indeterminate"}
    else:
        assert (written.returned is None) == (effect == "throw_after")


@pytest.mark.parametrize("kind", [Host, Crowded])
@pytest.mark.parametrize("effect", EFFECTS)
def test_a_branch_is_what_the_journal_says(effect, kind):
    host = kind(ENTRIES, "u2", faults(None, effect))
    branch = write_branch(host, "a1", "S", {})
    assert branch.state == truth(host, "branch_summary").replace("something else", "indeterminate")
    assert (branch.code == "") == (branch.state == "applied")


@pytest.mark.parametrize(("label", "branch"), [*itertools.product(EFFECTS, EFFECTS)])
def test_a_transaction_says_what_is_there(label, branch):
    host = Host(ENTRIES, "u2", faults(label, branch))
    done = transact(host, "a1", "S", {}, backup=("u2", "tick"))
    names = {entry["targetId"]: entry.get("label") for entry in host.entries if "targetId" in entry}
    assert (done.remaining == "present") == (names.get("u2") == "tick")
    summary = any(entry.get("summary") == "S" for entry in host.entries)
    assert done.settled.done == summary
    if not summary and not done.settled.kept and not done.settled.reread:
        # Nothing is left behind: what was written was taken back.
        assert not any(names.values())
    assert done.undone is (True if done.settled.undo else None)


@pytest.mark.parametrize("reads", range(6))
@pytest.mark.parametrize("branch", EFFECTS)
def test_what_cannot_be_read_is_never_called_done_or_undone(reads, branch):
    host = Unreadable(ENTRIES, "u2", faults(None, branch), reads=reads)
    done = transact(host, "a1", "S", {}, backup=("u2", "tick"))
    written = any(entry.get("summary") == "S" for entry in host.entries)
    if done.settled.done:
        assert written
    if done.branch is not None and done.branch.state == "not-applied":
        assert not written
    if done.branch is None and done.label == "not-applied":
        assert not host.appended
    if reads < 6 and done.remaining != "unknown":
        standing = any(entry.get("label") == "tick" for entry in host.entries)
        assert standing or done.remaining == "absent"


def test_a_ticket_that_cannot_be_taken_back_is_told():
    """What stood at the ticket was changed meanwhile, or the second try fails, too."""
    given = faults(None, "throw")
    given += [{"method": "appendLabelChange", "effect": effect} for effect in ("throw", "throw")]
    given.insert(0, {"method": "appendLabelChange", "effect": None})
    host = Host(ENTRIES, "u2", given)
    done = transact(host, "a1", "S", {}, backup=("u2", "tick"))
    assert (done.undone, done.remaining) == (False, "present")

    class Relabelled(Host):
        def branch(self, *given: Any) -> Any:
            super().append_label("u2", "mine")
            self.entries.pop()  # so that nothing seems to have happened but the label
            self.entries[-1] = {**self.entries[-1], "label": "mine"}
            raise OSError

    host = Relabelled(ENTRIES, "u2", [])
    done = transact(host, "a1", "S", {}, backup=("u2", "tick"))
    assert done.remaining == "absent"
    assert not done.settled.done


def test_a_second_try_takes_it_back():
    given = [{"method": "appendLabelChange", "effect": None}, *faults("throw", "throw")]
    host = Host(ENTRIES, "u2", given)
    done = transact(host, "a1", "S", {}, backup=("u2", "tick"))
    assert (done.undone, done.remaining) == (True, "absent")


def test_every_pair_of_outcomes_is_settled():
    tried = itertools.product(
        ("none", "present", "created"), ("applied", "not-applied", "indeterminate")
    )
    assert {*SETTLEMENTS} == {*tried, ("not-applied", None), ("indeterminate", None)}
    for (label, branch), settled in SETTLEMENTS.items():
        assert settled.done == (branch == "applied")
        assert settled.done != bool(settled.failed)
        assert settled.undo == (label == "created" and branch == "not-applied")
        assert settled.reread == (branch == "indeterminate")
        assert bool(settled.kept) == (
            label == "indeterminate" or (label, branch) == ("created", "indeterminate")
        )


@pytest.mark.parametrize(
    "after", [None, {}, {"1": "a"}, {"1": "a", "2": "w"}, {"1": "a", "2": "x", "3": "w"}]
)
@pytest.mark.parametrize("moved", [False, True])
def test_every_cell_of_the_classification(after, moved):
    outcome, entry = classify({"1": "a"}, after, wanted=lambda found: found == "w", moved=moved)
    if after is not None and "w" in after.values():
        assert outcome == "applied"
        assert after[entry] == "w"
    elif after == {"1": "a"} and not moved:
        assert (outcome, entry) == ("not-applied", None)
    else:
        assert (outcome, entry) == ("indeterminate", None)


def test_presence():
    assert [presence(owners, "a") for owners in (None, [], ["b"], ["a"])] == [
        "unknown",
        "absent",
        "absent",
        "present",
    ]


def test_labels_that_may_not_be_written():
    named = [*ENTRIES, {"type": "label", "id": "L", "parentId": "u2", "targetId": "u1"}]
    named[-1]["label"] = "start"
    journal = Host(named, "L", []).read()
    tries = [("u1", "ROOT"), ("zz", "x"), ("a1", "start"), ("u1", "x")]
    assert [allowed_label(journal, *one).code for one in tries] == [
        "reserved_name",
        "entry_not_found",
        "label_conflict",
        "label_displaces_existing",
    ]
    assert allowed_label(None, "u1", "x").code == "host_operation_failed"
    assert allowed_label(journal, "u1", "start").entry == "L"


def test_the_door_reports_what_failed():
    """Each shape of an outcome that is no success, as the original names it."""
    base = {"entries": ENTRIES, "leafId": "u2", "targetId": "a1", "summary": "S"}
    base["backup"] = {"targetId": "u2", "name": "tick"}

    def outcome(label: str | None, branch: str | None) -> Any:
        given = {**base, "faults": faults(label, branch)}
        return result("travel.execute_travel_mutation", given)["output"]["outcome"]

    failed = outcome("throw", None)
    assert (failed["error"], failed["branchState"]) == ("backup_label_failed", "not_attempted")
    assert failed["backupOutcome"] == "none"
    assert "refreshLeafId" not in failed
    other = outcome("args", None)
    assert other["backupRollbackSkipReason"] == "backup_mutation_indeterminate"
    assert outcome("throw_after", "throw_after")["ok"]
    missing = {**base, "targetId": "zz"}
    told = result("travel.execute_travel_mutation", missing)["output"]["outcome"]
    assert told["hostError"] == "entry_not_found"
    assert told["backupRolledBack"]
    again = {**base, "entries": [*ENTRIES, {"type": "label", "id": "n1", "parentId": "u2"}]}
    again["entries"][-1] |= {"targetId": "u2", "label": "tick"}
    told = result("travel.execute_travel_mutation", again)["output"]["outcome"]
    assert told["backupOutcome"] == "already_present"
    assert told["summaryEntryId"] == "n2"


def test_the_door_tells_of_labels_and_branches():
    base = {"entries": ENTRIES, "leafId": "u2", "targetId": "a1", "name": "tick"}
    told = result("travel.prevalidate_checkpoint_label", base)["output"]
    assert told == {
        "ok": True,
        "value": {"targetId": "a1", "name": "tick", "status": "would_create"},
    }
    refused = result("travel.execute_travel_mutation", _branching(backup=("a1", "ROOT")))
    assert refused == {"output": {"prevalidation": {"ok": False, "error": "reserved_name"}}}
    for effect in EFFECTS:
        given = {**base, "faults": faults(effect, None)}
        written = result("travel.append_checkpoint_label", given)["output"]
        assert written["ok"] == (written["state"] == "applied")
        told = result("travel.apply_branch_with_summary", _branching(effect=effect))["output"]
        assert told["ok"] == (told["state"] == "applied")
        outcome = result("travel.execute_travel_mutation", _branching(effect=effect, whole=True))
        assert outcome["output"]["outcome"]["ok"] == told["ok"]
        assert outcome["output"]["outcome"]["backupOutcome"] == "none"
    named = [*ENTRIES, {"type": "label", "id": "L", "targetId": "a1", "label": "tick"}]
    there = {**base, "entries": named, "leafId": "L"}
    assert result("travel.prevalidate_checkpoint_label", there)["output"]["value"] == {
        "targetId": "a1",
        "name": "tick",
        "status": "already_present",
        "existingLabel": "tick",
        "existingLabelEntryId": "L",
    }
    assert result("travel.append_checkpoint_label", there)["output"] == {
        "ok": True,
        "state": "not_applied",
        "value": {
            "labelEntryId": "L",
            "targetId": "a1",
            "name": "tick",
            "status": "already_present",
            "label": "tick",
        },
    }


def _branching(
    *, effect: str | None = None, backup: tuple[str, str] | None = None, whole: bool = False
) -> dict[str, Any]:
    given: dict[str, Any] = {"entries": ENTRIES, "leafId": "u2", "summary": "S"}
    given["targetId" if whole or backup else "branchFromId"] = "a1"
    if backup:
        given["backup"] = {"targetId": backup[0], "name": backup[1]}
    return {**given, "faults": faults(None, effect)}


def test_somebody_elses_entry_behind_a_branch_is_no_doubt():
    """The original looks at the leaf alone, and calls this indeterminate (W16)."""
    host = Crowded(ENTRIES, "u2", [])
    branch = write_branch(host, "a1", "S", {})
    assert branch.state == "applied"
    assert branch.summary == "n1"
    assert branch.after == "n2"


def test_a_host_refuses_entries_that_it_does_not_have():
    for method in ("append_label", "branch"):
        host = Host(ENTRIES, "u2", [])
        given = ("zz", "x") if method == "append_label" else ("zz", "S", {})
        with pytest.raises(Exception, match="zz"):
            getattr(host, method)(*given)
        assert host.appended == []


def test_a_backup_has_an_entry_and_a_name():
    given = {"entries": ENTRIES, "leafId": "u2", "targetId": "a1", "summary": "S", "backup": {}}
    told = result("travel.execute_travel_mutation", given)["error"]
    assert told["code"] == "invalid-input"
