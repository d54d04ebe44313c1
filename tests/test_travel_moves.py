"""Checkpoint and travel of the original, from what a model wrote to what is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra.compat.travel_moves import Folded, Saved, checkpoint, travel
from ctxalgebra.compat.travel_mutation import Refused
from ctxalgebra.conformance.door import result
from ctxalgebra.conformance.travel_mutation import Host

HANDOFF = {"goal": "Fix the parser bug", "state": "It is in parse()", "next": "Run the tests"}


def entry(id: str, parent: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **more}
    return {"type": "message", "id": id, "parentId": parent, "message": message}


def says(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def calls(*names: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"type": "toolCall", "id": i, "name": n, "arguments": {}} for i, n in names]


def named(id: str, parent: str, target: str, label: str) -> dict[str, Any]:
    return {"type": "label", "id": id, "parentId": parent, "targetId": target, "label": label}


def session(*tail: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        entry("u1", None, "user", "Find it"),
        entry("a1", "u1", "assistant", says("It is in parse().")),
        entry("u2", "a1", "user", "Mend it"),
        entry("a2", "u2", "assistant", calls(("c", "edit"))),
        entry("r2", "a2", "toolResult", says("ok"), toolCallId="c", toolName="edit"),
        *tail,
    ]


CALL = entry("tv", "r2", "assistant", calls(("t", "acm_travel")))
SESSION = session(CALL)


def go(entries: list[dict[str, Any]], target: Any, *, leaf: Any = "", **more: Any) -> Any:
    host = Host(entries, leaf or entries[-1]["id"], more.pop("faults", []))
    given = {"target": target, "handoff": HANDOFF, **more}
    return travel(host, given, call="t"), host


def test_a_travel_leaves_a_ticket_and_hangs_a_handoff_below_its_target():
    done, host = go(SESSION, "a1")
    assert isinstance(done, Folded)
    assert done.ticket == ("r2", "fix-the-parser-bug-raw")
    label, summary = host.appended
    assert (label["targetId"], summary["parentId"], host.leaf) == ("r2", "a1", summary["id"])
    assert "Recover: Raw archive: fix-the-parser-bug-raw" in summary["summary"]


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"target": " "}, "invalid_params"),
        ({"target": 5}, "invalid_params"),
        ({"backupCurrentHeadAs": "two words"}, "invalid_params"),
        ({"backupCurrentHeadAs": 5}, "invalid_params"),
        ({"summary": "free text"}, "invalid_params"),
        ({"backupCurrentHeadAs": "ROOT"}, "reserved_backup_name"),
        ({"handoff": {**HANDOFF, "goal": "none"}}, "invalid_handoff"),
        ({"target": "zz"}, "target_not_found"),
        ({"target": "tv"}, "already_at_target"),
    ],
)
def test_refused_before_anything_is_written(parameters, code):
    told, host = go(SESSION, **{"target": "a1", **parameters})
    assert told == Refused(code)
    assert host.appended == []


def test_a_travel_is_alone_in_its_batch():
    mixed = session(entry("tv", "r2", "assistant", calls(("t", "acm_travel"), ("x", "read"))))
    assert go(mixed, "a1")[0] == Refused("mixed_tool_batch")


def test_an_empty_session_has_no_root():
    host = Host([], None, [])
    given = {"target": "root", "handoff": HANDOFF}
    assert travel(host, given, call="t") == Refused("empty_session")
    assert checkpoint(host, "x", target="root") == Refused("empty_session")
    assert checkpoint(host, "x") == Refused("empty_session")


def test_without_a_leaf_there_is_nothing_to_leave():
    host = Host(SESSION, None, [])
    given = {"target": "a1", "handoff": HANDOFF}
    assert travel(host, given, call="t") == Refused("no_active_leaf")


def test_a_target_that_no_repair_is_for():
    twice = entry("bad", "u2", "assistant", calls(("c", "read"), ("c", "read")))
    told, _ = go([*SESSION, twice], "bad", leaf="tv")
    assert told == Refused("target_protocol_invalid")


def test_a_malformed_batch_does_not_hold_up_the_travel_that_takes_it_away():
    """The original looks at what it leaves first (W07)."""
    bad = [
        *session()[:3],
        entry("bad", "u2", "assistant", calls(("c", "read"), ("c", "read"))),
        entry("a3", "bad", "assistant", says("z")),
        entry("tv", "a3", "assistant", calls(("t", "acm_travel"))),
    ]
    done, _ = go(bad, "a1")
    assert done.ticket[0] == "u2"


def test_a_message_that_is_none_cannot_be_sent():
    broken = [*SESSION, {"type": "message", "id": "m", "parentId": "a1", "message": 5}]
    assert go(broken, "m", leaf="tv")[0] == Refused("build_messages_failed")
    assert go(broken, "u1", leaf="m")[0] == Refused("build_messages_failed")


def test_taking_nothing_away_is_refused_with_its_own_calls_on_the_path():
    """Checkpoint, then travel to it at once: the original folds two messages of its own (W02)."""
    saved = [
        entry("cp", "r2", "assistant", calls(("k", "acm_checkpoint"))),
        named("L", "cp", "r2", "here"),
        entry("rc", "L", "toolResult", says("done"), toolCallId="k", toolName="acm_checkpoint"),
        entry("tv", "rc", "assistant", calls(("t", "acm_travel"))),
    ]
    assert go(session(*saved), "here")[0] == Refused("zero_distance_travel")
    spoke = [{**saved[0]}, *saved[1:]]
    spoke[0] = entry("cp", "r2", "assistant", [*says("Saved."), *calls(("k", "acm_checkpoint"))])
    assert isinstance(go(session(*spoke), "here")[0], Folded)


def test_a_host_that_calls_an_entry_root_holds_up_nothing():
    """In the original every travel from there is refused (W05)."""
    told, host = go(session(named("L", "r2", "r2", "Root"), {**CALL, "parentId": "L"}), "a1")
    assert isinstance(told, Folded)
    assert told.ticket[0] != "r2"
    assert any(e.get("label") == "Root" for e in host.entries)
    everywhere = [named(f"L{i}", "r2", e, "root") for i, e in enumerate(("r2", "u2"))]
    told, _ = go(session(*everywhere, {**CALL, "parentId": "L1"}), "a1")
    assert isinstance(told, Folded | Refused)


def test_the_ticket_takes_the_name_that_is_there():
    labelled = session(named("L", "r2", "r2", "mine"), {**CALL, "parentId": "L"})
    told, host = go(labelled, "a1")
    assert told.ticket[1] == "fix-the-parser-bug-raw"  # the label's own entry is newer
    assert go(labelled, "a1", backupCurrentHeadAs="mine")[0] == Refused("duplicate_backup_name")
    there = session(named("L", "u1", "r2", "mine"), CALL)
    told, host = go(there, "a1")
    assert (told.ticket, told.done.label) == (("r2", "mine"), "present")
    assert "Raw archive: mine" in host.appended[-1]["summary"]
    refused = go(there, "a1", backupCurrentHeadAs="other")[0]
    assert refused == Refused("backup_displaces_existing_label")


def test_a_name_that_no_one_can_write_is_kept_and_not_told():
    told, host = go(session(named("L", "u1", "r2", "two words"), CALL), "a1")
    assert told.ticket == ("r2", "two words")
    assert "Raw archive" not in host.appended[-1]["summary"]


def test_off_the_path_and_back():
    _, host = go(SESSION, "a1")
    there = [*host.entries, entry("tv2", host.leaf, "assistant", calls(("t", "acm_travel")))]
    back, host = go(there, "fix-the-parser-bug-raw")
    assert back.off_path
    assert "target_from_off_path" in back.warnings
    assert (back.depth, back.depth_after) == (1, 1)
    assert host.appended[-1]["parentId"] == "r2"


def test_a_path_without_a_complete_entry_has_no_place_for_a_ticket():
    orphan = [
        entry("r", None, "toolResult", says("x"), toolCallId="zz", toolName="read"),
        entry("u", "r", "user", "hi"),
        {"type": "label", "id": "L", "parentId": "u", "targetId": "u"},
        entry("tv", "L", "assistant", calls(("t", "acm_travel"))),
    ]
    told, _ = go(orphan, "u")
    assert told == Refused("zero_distance_travel")
    root = session(named("L", "a1", "u2", "root"))[:3]
    root += [named("L", "u2", "u2", "root"), {**CALL, "parentId": "u2"}]
    assert go(root, "a1")[0] == Refused("no_protocol_complete_backup_target")


def test_a_checkpoint_names_the_newest_complete_entry():
    asks = entry("cp", "r2", "assistant", calls(("k", "acm_checkpoint")))
    saved = checkpoint(Host(session(asks), "cp", []), "done", call="k")
    assert isinstance(saved, Saved)
    assert (saved.entry["id"], saved.written.created, saved.explicit) == ("r2", True, False)


@pytest.mark.parametrize(
    ("name", "target", "code"),
    [
        ("Root", None, "reserved_name"),
        ("x", "zz", "target_not_found"),
        ("start", "a1", "duplicate_name"),
        ("x", "u1", "label_displaces_existing"),
    ],
)
def test_checkpoints_that_are_refused(name, target, code):
    host = Host(session(named("L", "r2", "u1", "start")), "L", [])
    assert checkpoint(host, name, target=target) == Refused(code)
    assert host.appended == []


def test_a_path_of_orphans_has_no_checkpoint():
    twice = [entry("b", None, "assistant", calls(("c", "read"), ("c", "read")))]
    told = checkpoint(Host(twice, "b", []), "x")
    assert told == Refused("no_protocol_complete_checkpoint_target")


def test_the_door_says_what_was_written_before_it_failed():
    faults = [{"method": "branchWithSummary", "effect": "throw"}]
    given = {"entries": SESSION, "leafId": "tv", "toolCallId": "t", "faults": faults}
    given |= {"params": {"target": "a1", "handoff": HANDOFF}, "usage": None}
    told = result("travel.travel", given)["error"]
    assert told["code"] == "branch_failed"
    assert [e["type"] for e in told["appended"]] == ["label", "label"]
    assert told["leafId"] == "n2"
    done = result("travel.travel", {**given, "faults": []})["output"]
    assert done["appended"][1]["details"]["currentUserTurnOpen"] is True
    assert done["targetWarnings"] == []


def test_the_door_tells_of_a_checkpoint():
    given = {"entries": SESSION, "params": {"name": "here"}, "toolCallId": "t"}
    told = result("travel.checkpoint", given)["output"]
    assert (told["entryId"], told["protocolStatus"]) == ("r2", "complete")
    assert told["foldReferences"] == {"turn": "u1", "task": None, "stepsSinceSavePoint": None}
    explicit = {**given, "params": {"name": "here", "target": "u1"}}
    told = result("travel.checkpoint", explicit)["output"]
    assert (told["targetResolution"], told["skippedTransientCount"]) == ("explicit", None)
    assert result("travel.checkpoint", {**given, "params": {}})["error"]["code"] == "invalid-input"
    failing = {**given, "faults": [{"method": "appendLabelChange", "effect": "noop"}]}
    assert result("travel.checkpoint", failing)["error"]["code"] == "malformed_capability"
    nowhere = {"entries": [], "params": {"name": "here"}}
    assert result("travel.checkpoint", nowhere)["error"]["code"] == "empty_session"


IDS = st.sampled_from(["a", "b", "c", "d", None])
CONTENT = st.one_of(
    st.just("hi"),
    st.none(),
    st.lists(
        st.one_of(
            st.just({"type": "text", "text": "t"}),
            st.builds(
                lambda i, n: {"type": "toolCall", "id": i, "name": n, "arguments": {}},
                st.sampled_from(["t", "x", "", None]),
                st.sampled_from(["acm_travel", "read", ""]),
            ),
            st.just(5),
        ),
        max_size=3,
    ),
)
ENTRIES = st.lists(
    st.one_of(
        st.builds(
            lambda i, p, r, c: entry(i, p, r, c, toolCallId="x", toolName="acm_x"),
            IDS,
            IDS,
            st.sampled_from(["user", "assistant", "toolResult", "custom", 5]),
            CONTENT,
        ),
        st.builds(named, IDS, IDS, IDS, st.sampled_from(["root", "a", "x", ""])),
        st.just({"type": "compaction", "id": "k", "parentId": "a", "summary": "s"}),
    ),
    max_size=8,
)


@given(ENTRIES, IDS, st.sampled_from(["a", "b", "x", "root", "zz"]))
def test_whatever_stands_there_the_answer_has_a_code(entries, leaf, target):
    base = {"entries": entries, "leafId": leaf, "toolCallId": "t"}
    told = result("travel.travel", {**base, "params": {"target": target, "handoff": HANDOFF}})
    assert told.get("error", {}).get("code") != "internal-error"
    told = result("travel.checkpoint", {**base, "params": {"name": "n", "target": target}})
    assert told.get("error", {}).get("code") != "internal-error"
    told = result("travel.checkpoint", {**base, "params": {"name": "n"}})
    assert told.get("error", {}).get("code") != "internal-error"
