"""Names over the journal, places to come back to, checkpoints, and journeys with a handoff."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from attrs import asdict, evolve
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Cut,
    Head,
    InvalidArgument,
    Label,
    Note,
    Opaque,
    Reply,
    Route,
    Session,
    Text,
    Thinking,
    ToolCall,
    UsageReport,
    assistant,
    at_leaf,
    chars4,
    checkpoints,
    find,
    label,
    labels,
    log,
    open_calls,
    path,
    project,
    record,
    remind,
    reply,
    send,
    timeline,
    tool_result,
    travel,
    user,
)
from ctxalgebra.checkpoints import names as naming
from ctxalgebra.checkpoints.handoff import MARKER, build_handoff
from ctxalgebra.checkpoints.provenance import (
    NOTE,
    Facts,
    archives,
    frame,
    handoffs,
    journeys,
    note,
    summary_depth,
    turn_open,
    was_left,
)
from ctxalgebra.checkpoints.receipts import (
    checkpoint,
    checkpoint_before_cut,
    plan_checkpoint,
)
from ctxalgebra.checkpoints.refusals import REFUSALS, Refusal
from ctxalgebra.checkpoints.targets import (
    complete_places,
    free_name,
    is_addressable,
    names_of,
    resolve_target,
    save_point,
)
from ctxalgebra.checkpoints.tools import respond_travel
from ctxalgebra.checkpoints.travel import apply_travel, plan_travel
from ctxalgebra.codecs import journal
from ctxalgebra.events import behind, labelled, reminder_note
from ctxalgebra.model import view as view_module
from ctxalgebra.model.head import Usage
from ctxalgebra.model.layers import Layers

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "checkpoints.md"
NOTES = {"goal": "Fix the parser", "state": "the bug is in line 7", "next": "change line 7"}


def round_of(session, number, *, name="read", answer=True):
    """Send; the model calls a tool; its result comes."""
    session, _ = send(session)
    session = reply(session, "completed", assistant("Let me look.", ToolCall(f"c{number}", name)))
    return record(session, tool_result(f"c{number}", f"out {number}")) if answer else session


def talk(*, rounds=3):
    """A question, and some rounds of tools."""
    session = record(Session(), Head(system="You are an agent."), user("Fix the parser, please"))
    for number in range(rounds):
        session = round_of(session, number)
    return session


def asked(session, call="t1"):
    """The model asks to travel."""
    session, _ = send(session)
    return reply(session, "completed", assistant(ToolCall(call, "travel")))


def went(session, target, **more):
    plan = plan_travel(session, target=target, handoff=NOTES, **more)
    assert not isinstance(plan, Refusal), plan
    return apply_travel(session, plan)


def refused(session, target="root", handoff=NOTES, **more):
    found = plan_travel(session, target=target, handoff=handoff, **more)
    assert isinstance(found, Refusal)
    assert str(found).startswith(f"{found.code}: ")
    return found.code


# Layers


@given(st.lists(st.tuples(st.integers(0, 20), st.none() | st.text(max_size=2)), max_size=80))
def test_layers_are_a_map_whatever_is_put(puts):
    layers, plain = Layers(), {}
    for key, value in puts:
        earlier, before = layers, dict(plain)
        layers = layers.put(key, value)
        plain.pop(key, None)
        if value is not None:
            plain[key] = value
        assert dict(earlier) == before  # it never changes
        assert len(layers) == len(plain)
        assert list(layers) == sorted(plain)
        assert list(reversed(layers)) == sorted(plain, reverse=True)
        assert layers == plain


def test_a_thousand_labels_cost_what_is_new(monkeypatch):
    """Melted keys grow as n log n; the map that is copied for each label grew as n squared."""
    melted = []

    def counting(keys):
        melted.append(len(keys))
        return sorted(keys)

    monkeypatch.setattr("ctxalgebra.model.layers.sorted", counting, raising=False)

    def cost(count):
        session = record(Session(), *[user(f"u{n}") for n in range(count)])
        labels(session)
        melted.clear()
        for n in range(count):
            session = label(session, n, f"n{n}")
        assert len(labels(session)) == count
        return sum(melted)

    small, large = cost(500), cost(4_000)
    assert large <= 8 * 2 * small  # 8 times as many; 64 times would be quadratic


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["", "a", "b", "root", "#1"])), max_size=30
    )
)
def test_the_label_fold_is_the_rule_of_names(events):
    session = record(Session(), *[user(f"u{n}") for n in range(5)])
    labels(session)
    for target, name in events:
        session = label(session, target, name)
        if target % 2:
            session = travel(session, target)  # labels hold on all branches
    whole = naming.read_names(events)
    assert labels(session) == dict(whole.names)
    assert dict(labelled(session).targets) == dict(whole.targets)
    assert labels(journal.decode(journal.encode(session)).session) == labels(session)
    for name in ("a", "b", "root", "c"):
        assert naming.name_conflict(names_of(session), 2, name) == naming.name_conflict(
            whole, 2, name
        )


# Targets


def test_w04_a_number_a_name_and_the_root_never_meet():
    session = label(label(talk(), 5, "2"), 4, "#3")
    assert resolve_target(session, "#2").number == 2
    assert resolve_target(session, "2").number == 5
    assert resolve_target(session, "#3").number == 3
    assert not is_addressable("#3")
    assert plan_checkpoint(session, "#2").code == "invalid-name"
    found = resolve_target(session, " ROOT ")
    assert (found.number, found.by, found.off_path, found.label) == (1, "root", False, "")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "invalid-params"),
        (" \t", "invalid-params"),
        ("#99", "target-not-found"),
        ("#" + "9" * 18, "target-not-found"),
        ("#" + "9" * 999, "target-not-found"),
        ("#" + "9" * 5_000, "invalid-params"),
        ("#-1", "target-not-found"),
        ("#01", "target-not-found"),
        ("# 1", "target-not-found"),
        ("star", "target-not-found"),
        ("Start", "target-not-found"),
        ("\ud800", "target-not-found"),
        ("#\u0661", "target-not-found"),
    ],
)
def test_targets_that_are_none(text, code):
    session = label(talk(), 1, "start")
    found = resolve_target(session, text)
    assert (type(found), found.code) == (Refusal, code)


def test_a_target_says_whether_it_is_off_the_path():
    session = label(talk(), 6, "tip")
    back = record(travel(session, 1), user("again"))
    assert resolve_target(session, "tip").off_path is False
    found = resolve_target(back, "tip")
    assert (found.off_path, found.by, found.label) == (True, "label", "tip")
    assert resolve_target(back, "#1").off_path is False


def test_w25_the_root_is_where_the_path_begins_to_say_something():
    orphan = record(Session(), Head(system="other"), user("an orphan"))
    session = record(at_leaf(orphan, -1), Head(system="You are."), user("hello"), user("more"))
    found = resolve_target(session, "root")
    assert project(at_leaf(session, found.number)).messages == (user("hello"),)
    assert resolve_target(orphan, "root").number == 1
    assert resolve_target(Session(), "root").code == "empty-session"
    assert resolve_target(record(Session(), Head()), "root").code == "empty-session"
    assert resolve_target(at_leaf(orphan, -1), "root").code == "no-active-leaf"


def test_a_free_name_is_the_first_that_nobody_has():
    session = label(label(talk(), 1, "a"), 2, "a-2")
    assert [free_name(session, name) for name in ("a", "a-2", "b")] == ["a-3", "a-2-2", "b"]


def test_places_are_where_a_request_can_leave():
    session = record(Session(), Head())
    assert complete_places(session) == (-1, -1)
    session = record(session, user("u"))
    assert complete_places(session) == (1, 1)
    session, _ = send(session)
    assert complete_places(session) == (1, 1)
    session = reply(session, "completed", assistant(ToolCall("a", "x"), ToolCall("b", "x")))
    session = record(session, tool_result("a", "1"), user("beside"), Note("n"))
    assert complete_places(session) == (1, 1)
    session = record(session, tool_result("b", "2"))
    assert complete_places(session) == (1, len(session) - 1)
    session = record(session, Note("state"))
    assert complete_places(session).newest == len(session) - 1
    told = record(session, Label(1, "x"), UsageReport(2, Usage()))
    assert complete_places(told).newest == len(session) - 1


# Checkpoints


def test_a_checkpoint_is_one_label_and_changes_no_request():
    session = talk()
    after, receipt = checkpoint(session, "parser-scan")
    assert [type(node.entry) for node in log(after)[len(session) :]] == [Label]
    assert project(after) == project(session)
    assert receipt.status == "created"
    assert receipt.number == session.leaf.number
    assert receipt.role == "tool"
    assert receipt.kept.messages == session.view.end
    assert receipt.kept.tokens == chars4(session.head) + sum(map(chars4, session.view.messages()))
    assert receipt.since is None
    again, present = checkpoint(after, "parser-scan")
    assert again is after
    assert present == evolve(receipt, status="present")


def test_a_call_of_the_tool_is_behind_its_own_checkpoint():
    session, request = send(talk())
    session = reply(session, "completed", assistant("Hm.", ToolCall("k", "checkpoint")))
    _, receipt = checkpoint(session, "here")
    assert project(travel(session, receipt.number)) == request


def test_what_is_refused_records_nothing():
    session, _ = checkpoint(talk(), "one")
    longer = round_of(session, 9)
    for at, name, more, code in [
        (session, "ROOT", {}, "reserved-name"),
        (session, "two words", {}, "invalid-name"),
        (session, "", {}, "invalid-name"),
        (session, "a\u0301", {}, "invalid-name"),
        (session, "two", {}, "label-displaces-existing"),
        (longer, "one", {}, "duplicate-name"),
        (longer, "two", {"aborted": True}, "aborted"),
        (longer, "two", {"aborted": True, "target": "#77"}, "target-not-found"),
        (longer, "two", {"target": ""}, "invalid-params"),
        (Session(), "x", {}, "empty-session"),
        (record(Session(), Head()), "x", {}, "no-protocol-complete-checkpoint-target"),
        (
            record(Session(), assistant(ToolCall("c", "n"))),
            "x",
            {},
            "no-protocol-complete-checkpoint-target",
        ),
    ]:
        after, found = checkpoint(at, name, **more)
        assert after is at
        assert isinstance(found, Refusal)
        assert found.code == code


def test_a_target_may_be_any_entry_and_the_receipt_says_what_it_is():
    session = record(travel(label(talk(), 1, "first"), 1), user("on"))
    _, receipt = checkpoint(session, "head", target="#0")
    assert (receipt.notices, receipt.role, receipt.kept.messages) == (("target-no-message",), "", 0)
    _, receipt = checkpoint(session, "tip", target="#6")
    assert receipt.notices == ("target-off-path",)
    assert receipt.since is None
    _, receipt = checkpoint(session, "on", target=f"#{len(session) - 1}")
    assert (receipt.notices, receipt.since, receipt.role) == ((), 1, "user")


def test_entries_are_counted_from_the_nearest_save_point_of_the_path():
    session, _ = checkpoint(talk(rounds=1), "one")
    point = len(session) - 2
    session = round_of(session, 5)
    _, receipt = checkpoint(session, "two")
    assert receipt.since == receipt.number - point
    aside = label(record(travel(session, 1), user("aside")), len(session) - 1, "aside")
    assert save_point(aside, len(aside)) is None
    assert save_point(at_leaf(aside, session.leaf.number), len(aside)).number == len(session) - 1


def test_w31_a_place_with_a_label_needs_no_other_before_a_cut():
    session, receipt = checkpoint_before_cut(talk(), "2026-07-16")
    assert (receipt.name, receipt.status) == ("pre-compact-2026-07-16", "created")
    longer, second = checkpoint_before_cut(round_of(session, 5), "2026-07-16")
    assert second.name == "pre-compact-2026-07-16-2"
    for held in ("mine", "two words"):
        named = label(longer, second.number, held)
        after, found = checkpoint_before_cut(named, "later")
        assert after is named
        assert (found.name, found.status, found.number) == (held, "present", second.number)
    assert checkpoint_before_cut(Session(), "x")[1].code == "empty-session"
    with pytest.raises(InvalidArgument, match="is no name"):
        checkpoint_before_cut(session, "two words")


def test_w05_a_label_that_nobody_can_use_gives_way():
    session = label(talk(), len(talk()) - 1, "Root")
    after, receipt = checkpoint(session, "mine")
    assert (receipt.displaced, labels(after)[receipt.number]) == ("Root", "mine")
    assert checkpoint_before_cut(session, "s")[1].displaced == "Root"
    session = asked(session)
    plan = plan_travel(session, target="root", handoff=NOTES, call="t1")
    assert (plan.ticket.name, plan.ticket.displaced) == ("fix-the-parser-raw", "Root")
    assert resolve_target(apply_travel(session, plan), "fix-the-parser-raw").number == 10
    assert (
        plan_travel(session, target="root", handoff=NOTES, call="t1", ticket="x").ticket.name == "x"
    )


# Travel


def test_a_fold_goes_back_and_hands_over():
    session = asked(talk())
    plan = plan_travel(session, target="root", handoff=NOTES, call="t1")
    assert (plan.kind, plan.ticket.name, plan.ticket.status) == (
        "fold",
        "fix-the-parser-raw",
        "created",
    )
    assert plan.before.messages == len(project(session).messages)
    after = apply_travel(session, plan)
    shown = project(after).messages
    assert plan.after.messages == len(shown) == 2
    assert plan.after.tokens == chars4(after.head) + sum(map(chars4, shown))
    assert (plan.depth_before, plan.depth_after, summary_depth(after)) == (0, 1, 1)
    (found,) = handoffs(after)
    assert found.handoff.goal == "Fix the parser"
    assert found.handoff.recover == "Raw archive: fix-the-parser-raw"
    assert found.facts == plan.facts
    assert [type(node.entry).__name__ for node in path(after)[-2:]] == ["Note", "Message"]
    assert json.loads(path(after)[-2].entry.data) == {"version": 1, **asdict(plan.facts)}
    assert archives(after) == {"fix-the-parser-raw": plan.ticket.place}
    send(after)


def test_coming_back_by_the_ticket_brings_the_request_back_byte_for_byte():
    session, request = send(talk())
    session = reply(session, "completed", assistant(ToolCall("t1", "travel")))
    folded = went(session, "root", call="t1")
    plan = plan_travel(folded, target="fix-the-parser-raw", handoff=NOTES)
    assert plan.kind == "rehydrate"
    assert plan.notices == ("target-off-path", "target-open-user-turn", "target-no-message")
    back = apply_travel(folded, plan)
    assert project(back).extends(request)
    assert len(project(back).messages) == len(request.messages) + 1
    assert plan.cached == chars4(request.head) + sum(map(chars4, request.messages))
    assert was_left(back, plan.target.number)
    assert summary_depth(back) == 1


def test_a_place_in_another_branch_is_a_fork():
    folded = went(asked(talk()), "root", call="t1")
    assert plan_travel(folded, target="#4", handoff=NOTES).kind == "fork"


def test_gates_in_their_order():
    session = asked(talk())
    mixed = record(
        send(talk())[0],
        Reply("completed", assistant(ToolCall("t1", "travel"), ToolCall("x", "read"))),
    )
    bad = {"goal": "none", "state": " ", "next": 5, "foo": 1}
    assert refused(mixed, " ", bad, ticket="a b") == "invalid-params"
    assert refused(mixed, "nowhere", bad, ticket="RooT", call="t1") == "reserved-backup-name"
    assert refused(mixed, "nowhere", bad, call="t1") == "invalid-handoff"
    assert refused(mixed, "nowhere", call="t1") == "mixed-tool-batch"
    assert refused(session, "nowhere", call="t1", aborted=True) == "target-not-found"
    assert refused(Session(), "root") == "empty-session"
    assert refused(session, f"#{session.leaf.number}", aborted=True) == "already-at-target"
    assert refused(session, "root", call="t1", aborted=True) == "aborted"
    assert refused(at_leaf(session, -1), "#1") == "no-active-leaf"
    assert (
        refused(record(Session(), Head(), Note("n")), "#0") == "no-protocol-complete-backup-target"
    )
    taken = label(session, 2, "taken")
    assert refused(taken, "root", call="t1", ticket="taken") == "duplicate-backup-name"
    named = label(session, complete_places(session).newest, "mine")
    assert refused(named, "root", ticket="other") == "backup-displaces-existing-label"


def test_all_defects_of_a_handoff_come_at_once():
    bad = {"goal": "none", "state": " ", "next": 5, "foo": 1}
    found = plan_travel(asked(talk()), target="root", handoff=bad, call="t1")
    reasons = [(defect.field, defect.reason) for defect in found.defects]
    assert reasons == [
        ("goal", "none_not_allowed"),
        ("state", "empty"),
        ("next", "invalid_type"),
        ("handoff", "unexpected_field"),
    ]


@pytest.mark.parametrize(
    "given",
    [None, 5, [], "", "{", "[]", "[" * 100_000, {}, {**NOTES, "goal": "\ud800"}, {**NOTES, 5: "x"},
     {**NOTES, "\ud800": "x"}, json.dumps({**NOTES, "state": "\ud800"})],
)  # fmt: skip
def test_whatever_is_no_handoff_is_refused(given):
    assert refused(asked(talk()), "root", given, call="t1") == "invalid-handoff"


def own_round(session, number, name, *parts, result="done"):
    """The model calls a tool of ours; its result comes."""
    session, _ = send(session)
    call = ToolCall(f"own{number}", name)
    session = reply(session, "completed", assistant(*parts, call))
    return record(session, tool_result(call.id, result, name=name))


def test_w02_a_journey_to_where_one_is_already_is_refused_in_a_real_session():
    session, _ = send(talk())
    call = ToolCall("k", "checkpoint", '{"name":"here"}')
    session = respond_travel(reply(session, "completed", assistant(call)), call)
    assert labels(session) == {10: "here"}
    # At once, in the next message: nothing but the call of the checkpoint lies between.
    assert refused(asked(session), "here", call="t1") == "zero-distance-travel"
    assert refused(session, "here") == "zero-distance-travel"
    went_not = respond_travel(
        asked(session), ToolCall("t1", "travel", json.dumps({"target": "here", "handoff": NOTES}))
    )
    assert summary_depth(went_not) == 0
    assert went_not.leaf.entry.parts[0].text.startswith("zero-distance-travel: ")
    # Nor do other calls of ours, thinking, blanks, reminders, heads, reports or failures count.
    idle = own_round(session, 1, "timeline", Thinking("hm"), Text(" "))
    idle = remind(record(idle, UsageReport(2, Usage(9, 1)), user("")), window=10)
    assert [m.role for m in project(idle).messages[-2:]] == ["tool", "user"]
    idle = own_round(record(idle, Head(system="Another.")), 2, "travel", result="no")
    idle = record(reply(send(idle)[0], "failed", assistant("half")), assistant())
    assert refused(asked(idle), "here", call="t1") == "zero-distance-travel"
    # By the host, in front of the call, nothing is new either.
    assert refused(record(label(talk(), 10, "here"), Note("beside")), "here") == (
        "zero-distance-travel"
    )


def test_w02_what_would_be_missed_is_a_distance():
    session = own_round(label(talk(), 10, "here"), 1, "checkpoint")
    there = [
        own_round(session, 2, "read"),
        own_round(session, 2, "timeline", Text("I look around.")),
        own_round(session, 2, "timeline", Opaque("x", "{}")),
        record(session, user("and the lexer?")),
        record(session, assistant(Thinking("hm"))),
        record(session, Cut(7, user("before"), "for room", breaks=True)),
    ]
    for away in there:
        plan = plan_travel(asked(away), target="here", handoff=NOTES, call="t1")
        assert plan.kind == "fold"
        assert plan.facts.landed == 10


def test_a_fold_that_makes_nothing_smaller_says_so():
    session = own_round(label(talk(), 10, "here"), 2, "read")
    plan = plan_travel(asked(session), target="here", handoff=NOTES, call="t1")
    assert plan.after.tokens >= plan.before.tokens
    assert "grows" in plan.notices
    long = own_round(session, 3, "read", result="x" * 4_000)
    plan = plan_travel(asked(long), target="here", handoff=NOTES, call="t1")
    assert plan.after.tokens < plan.before.tokens
    assert "grows" not in plan.notices
    back = plan_travel(went(asked(long), "here", call="t1"), target="#17", handoff=NOTES)
    assert (back.kind, back.after.tokens > back.before.tokens) == ("rehydrate", True)
    assert "grows" not in back.notices


def test_w02_a_branch_that_shows_the_same_is_no_distance():
    session = talk()
    twin = travel(session, 1)
    for number in range(3):
        twin = round_of(twin, number)
    assert project(twin) == project(session)
    assert refused(twin, f"#{session.leaf.number}") == "zero-distance-travel"
    other = round_of(travel(twin, 7), 99)
    assert other.view.end == session.view.end
    assert not isinstance(
        plan_travel(other, target=f"#{session.leaf.number}", handoff=NOTES), Refusal
    )
    assert refused(asked(twin), f"#{len(asked(twin)) - 2}", call="t1") == "zero-distance-travel"


def test_w07_what_is_open_at_the_leaf_holds_up_no_fold():
    session, _ = send(talk())
    session = reply(session, "completed", assistant(ToolCall("x", "read"), ToolCall("y", "read")))
    session = record(session, tool_result("y", "1"))
    after = went(session, "root")
    assert open_calls(after) == ()
    send(after)
    flying, _ = send(talk())
    after = went(flying, "root")
    assert len(project(after).messages) == 2


def test_a_target_in_a_tool_round_gives_up_what_is_missing():
    session = record(Session(), user("go"))
    session, _ = send(session)
    session = reply(session, "completed", assistant(ToolCall("x", "read"), ToolCall("y", "read")))
    session = record(session, tool_result("y", "1"))
    target = f"#{len(session) - 1}"
    session = record(session, tool_result("x", "2"))
    session = asked(round_of(session, 7))
    plan = plan_travel(session, target=target, handoff=NOTES, call="t1")
    assert plan.abandoned == ("x",)
    assert "target-in-tool-round" in plan.notices
    shown = project(apply_travel(session, plan)).messages
    assert [(m.role, m.error) for m in shown] == [
        ("user", False), ("assistant", False), ("tool", True), ("tool", False), ("user", False),
    ]  # fmt: skip
    assert handoffs(apply_travel(session, plan))[0].facts == plan.facts


def test_a_target_while_a_request_was_in_flight_closes_it_as_lost():
    session, _ = send(talk(rounds=1))
    session = record(session, user("by the way"))
    target = f"#{len(session) - 1}"
    session = round_of(reply(session, "completed", assistant("Hm.")), 5)
    plan = plan_travel(asked(session), target=target, handoff=NOTES, call="t1")
    after = apply_travel(asked(session), plan)
    assert [type(node.entry).__name__ for node in path(after)[-3:]] == ["Reply", "Note", "Message"]
    assert handoffs(after)[-1].facts == plan.facts
    assert project(after).messages[-2] == user("by the way")


def test_what_the_user_said_beside_the_call_comes_along():
    session = record(asked(talk()), user("and the lexer, too"))
    plan = plan_travel(session, target="root", handoff=NOTES, call="t1")
    assert plan.carried == (len(session) - 1,)
    after = apply_travel(session, plan)
    assert project(after).messages[-1] == user("and the lexer, too")
    assert plan.after.messages == 3


def test_the_head_of_now_holds_there_and_nothing_is_cached_then():
    session = record(talk(), Head(system="another"))
    plan = plan_travel(session, target="root", handoff=NOTES)
    after = apply_travel(session, plan)
    assert after.head == Head(system="another")
    assert plan.cached == 0
    assert handoffs(after)[0].facts == plan.facts
    # A request under this head has shown it meanwhile.
    plan = plan_travel(asked(session), target="root", handoff=NOTES, call="t1")
    assert plan.cached == chars4(session.head) + chars4(user("Fix the parser, please"))


def test_a_loop_that_must_keep_its_thinking_gets_its_head_behind_the_handoff():
    old = Head(Route(binding="leading"), system="a")
    session = record(Session(), old, user("go"))
    session, _ = send(session)
    session = reply(session, "completed", assistant(Thinking("t", "s"), ToolCall("x", "read")))
    session = record(session, tool_result("x", "1"))
    target = f"#{len(session) - 1}"
    session = asked(record(round_of(session, 1), user("more"), Head(old.route, system="b")))
    plan = plan_travel(session, target=target, handoff=NOTES, call="t1")
    after = apply_travel(session, plan)
    assert after.head.system == "b"
    assert [type(node.entry).__name__ for node in path(after)[-3:]] == ["Note", "Message", "Head"]
    assert summary_depth(after) == 1


@pytest.mark.parametrize("binding", ["prefix", "leading", "none"])
@pytest.mark.parametrize("target", range(2, 9))
def test_what_is_told_of_a_place_is_what_a_journey_keeps(binding, target):
    """Also where the head is another one since, so that thinking goes."""
    old = Head(Route(binding=binding), system="a")
    session, _ = send(record(Session(), old, user("go")))
    session = record(reply(session, "completed", assistant(Thinking("t", "s"))), user("on"))
    session, _ = send(session)
    session = reply(session, "completed", assistant(Thinking("t", "s"), ToolCall("x", "read")))
    session = record(session, tool_result("x", "1"), user("more"))
    session = round_of(record(session, Head(old.route, system="b")), 7)
    plan = plan_travel(session, target=f"#{target}", handoff=NOTES)
    told = plan_checkpoint(session, "zz", target=f"#{target}").kept
    assert told.messages == plan.after.messages - 1
    assert told.tokens == plan.after.tokens - chars4(frame(plan.facts, plan.handoff))
    rows = timeline.checkpoints(label(session, target, "zz"), part="zz").rows
    assert [(row.messages, row.tokens) for row in rows] == [
        (told.messages, told.tokens - chars4(Head(old.route, system="b")))
    ]


def test_w14_what_is_said_beside_a_call_is_no_answer():
    session = asked(talk())  # "Let me look." was said three times
    assert turn_open(session)
    assert plan_travel(session, target="root", handoff=NOTES, call="t1").facts.open
    answered = record(talk(), assistant("It was line 7."))
    assert not turn_open(answered)
    folded = went(answered, "root")
    assert not turn_open(folded)  # the handoff is no word of the user's
    assert "was answered" in project(folded).messages[-1].parts[0].text
    assert turn_open(record(folded, user("thanks, and now?")))
    failed = reply(send(talk())[0], "aborted", assistant("It"))
    assert turn_open(failed)
    assert not turn_open(record(Session(), assistant("hello")))


def test_who_goes_in_circles_is_told_so():
    session = asked(talk(), "a")
    said = []
    for call in ("a", "b", "c", "d"):
        session = went(session, "#4", call=call)
        said.append(project(session).messages[-1].parts[0].text.splitlines()[-1])
        session = asked(round_of(session, 1), chr(ord(call) + 1))
    assert journeys(session) == 4
    assert "journey" not in said[0]
    assert "journey 2" in said[1]
    assert "before you have answered" in said[2]
    assert "journey 4" in said[3]
    fresh = asked(record(round_of(travel(session, 1), 7), assistant("Hm."), user("again")), "f")
    assert plan_travel(fresh, target="root", handoff=NOTES, call="f").facts.journey == 1
    assert [h.facts.journey for h in handoffs(went(fresh, "root", call="f"))] == [1]


def test_a_number_without_its_sign_gets_a_hint():
    assert resolve_target(talk(), "4").text == "no entry has the label '4': the entry is written #4"
    assert resolve_target(talk(), "x").text == "no entry has the label 'x'"


def test_a_reminder_is_no_word_of_the_users():
    told = user("[Context reminder] Nearly a third")
    reminded = [reminder_note(30, told), told]
    answered = record(talk(), assistant("It was line 7."), *reminded)
    assert not turn_open(answered)
    folded = went(answered, "root")
    assert journeys(record(folded, *reminded)) == 1
    waiting = record(asked(talk()), *reminded, user("and the lexer"))
    plan = plan_travel(waiting, target="root", handoff=NOTES, call="t1")
    assert plan.carried == (len(waiting) - 1,)
    assert project(apply_travel(waiting, plan)).messages[-1] == user("and the lexer")


def test_names_of_tickets():
    session = asked(talk())
    named = plan_travel(session, target="root", handoff=NOTES, call="t1", ticket="the-way")
    assert (named.ticket.name, named.ticket.status) == ("the-way", "created")
    place = named.ticket.place
    for held, told in (("mine", "Raw archive: mine"), ("two words", "none")):
        kept = plan_travel(label(session, place, held), target="root", handoff=NOTES, call="t1")
        assert (kept.ticket.name, kept.ticket.status) == (held, "present")
        assert kept.handoff.recover == told
        after = apply_travel(label(session, place, held), kept)
        assert resolve_target(after, held).number == place
    taken = label(session, 2, "fix-the-parser-raw")
    second = plan_travel(taken, target="root", handoff=NOTES, call="t1")
    assert second.ticket.name == "fix-the-parser-raw-2"


def test_a_ticket_that_was_given_away_is_no_archive():
    folded = went(asked(talk()), "root", call="t1")
    assert list(archives(folded)) == ["fix-the-parser-raw"]
    assert archives(label(folded, 2, "fix-the-parser-raw")) == {}


def test_the_ticket_stands_in_front_of_what_is_open():
    session = talk()
    assert plan_travel(session, target="root", handoff=NOTES).notices == (
        "target-open-user-turn",
        "grows",
    )
    held = asked(session)
    assert (
        "ticket-in-front" not in plan_travel(held, target="root", handoff=NOTES, call="t1").notices
    )
    assert "ticket-in-front" in plan_travel(held, target="root", handoff=NOTES).notices


def test_a_plan_is_for_its_session_alone():
    session = asked(talk())
    plan = plan_travel(session, target="root", handoff=NOTES, call="t1")
    assert plan == plan_travel(session, target="root", handoff=NOTES, call="t1")
    assert apply_travel(session, plan) == apply_travel(session, plan)
    for other in (record(session, Note("n")), at_leaf(session, 3), Session()):
        with pytest.raises(InvalidArgument, match="another session"):
            apply_travel(other, plan)


def test_a_cut_in_between_is_undone_by_going_back():
    session = record(talk(), assistant("So far."), user("next"))
    session, _ = send(session)
    session = reply(session, "completed", assistant("Yes."))
    whole = project(session)
    cut = record(session, Cut(session.view.slots.numbers[2], user("[cut]"), "old", breaks=True))
    cut = round_of(record(cut, user("go")), 8)
    plan = plan_travel(asked(cut), target=f"#{len(session) - 1}", handoff=NOTES, call="t1")
    # The cut follows directly and shaped the request that was sent there: it stays.
    after = apply_travel(asked(cut), plan)
    assert project(after).messages[0] == user("[cut]")
    back = apply_travel(
        asked(cut),
        plan_travel(asked(cut), target=f"#{len(session) - 2}", handoff=NOTES, call="t1"),
    )
    assert project(back).messages[: len(whole.messages) - 1] == whole.messages[:-1]


def test_what_is_cached_ends_at_a_break_that_no_request_has_shown():
    session = record(talk(), assistant("So far."))
    number = session.view.slots.numbers[4]
    cut = record(session, Cut(number, user("[cut]"), "old", breaks=True))
    here = f"#{len(cut) - 1}"
    away = travel(cut, 1)
    assert plan_travel(away, target=here, handoff=NOTES).cached == chars4(session.head)
    # Once it was sent, what it shows is cached.
    sent, request = send(record(cut, user("go on")))
    whole = chars4(request.head) + sum(map(chars4, request.messages))
    plan = plan_travel(travel(sent, 1), target=f"#{len(sent) - 2}", handoff=NOTES)
    assert plan.cached == whole
    # Along the path, a later request tells of an answer, too.
    longer = round_of(sent_on(sent), 7)
    plan = plan_travel(longer, target=f"#{len(sent)}", handoff=NOTES)
    assert plan.cached == whole + chars4(assistant("Hm."))


def sent_on(session):
    return record(reply(session, "completed", assistant("Hm.")), user("more"))


# Who is believed


def pair(session, facts, message=None):
    handoff = build_handoff(NOTES)
    return record(session, note(facts), message or frame(facts, handoff))


@pytest.fixture
def facts():
    return Facts(5, "start", 1, 1, "the-way", 4, "t1", open=True)


def test_w13_one_rule_says_which_handoffs_count(facts):
    base = travel(talk(), 1)
    assert base.leaf.number == 1
    assert [h.facts for h in handoffs(pair(base, facts))] == [facts]
    good = note(facts)
    text = frame(facts, build_handoff(NOTES)).parts[0].text
    newer = Note(NOTE, good.data.replace('"version":1', '"version":2'))
    forged = {
        "no note": [user(text)],
        "something between": [good, Note("x"), user(text)],
        "another note": [Note("other", good.data), user(text)],
        "another name": [Note(NOTE, good.data.replace("start", "begin")), user(text)],
        "another state of the turn": [Note(NOTE, good.data.replace("true", "false")), user(text)],
        "another version": [newer, user(text)],
        "another spelling": [Note(NOTE, good.data.replace(":1,", ": 1,")), user(text)],
        "no facts": [Note(NOTE, "{}"), user(text)],
        "a list": [Note(NOTE, "[]"), user(text)],
        "no JSON": [Note(NOTE, "{"), user(text)],
        "deep JSON": [Note(NOTE, "[" * 50_000), user(text)],
        "long JSON": [Note(NOTE, good.data + " " * 100_000), user(text)],
        "a number for a text": [Note(NOTE, good.data.replace('"t1"', "1")), user(text)],
        "a changed text": [good, user(text.replace("line 7", "line 8") + " ")],
        "a changed frame": [good, user(text.replace("What you came from", "All"))],
        "a bare marker": [good, user(MARKER)],
        "no text": [good, user("")],
        "two parts": [good, user((*user(text).parts, *user("x").parts))],
        "an id": [good, user(text, id="x")],
        "the assistant's": [good, assistant(text)],
    }
    for why, entries in forged.items():
        session = record(base, *entries)
        assert handoffs(session) == (), why
        assert archives(label(session, 4, "the-way")) == {}, why
        assert not was_left(session, 4), why


def test_facts_that_can_t_be_are_not_believed(facts):
    base = travel(talk(), 1)
    for change in ({"landed": 2}, {"landed": -2}, {"origin": 99}, {"entry": 99}, {"place": 99},
                   {"place": -1}, {"landed": 0}):  # fmt: skip
        assert handoffs(pair(base, evolve(facts, **change))) == ()
    assert handoffs(pair(record(base, user("between")), facts)) == ()
    other = record(at_leaf(base, -1), Note("first"))
    assert handoffs(pair(other, evolve(facts, landed=-1))) == ()
    assert len(handoffs(pair(at_leaf(base, -1), evolve(facts, landed=-1)))) == 1


def test_a_text_that_looks_like_a_handoff_is_the_users(facts):
    text = frame(facts, build_handoff(NOTES)).parts[0].text
    session = record(Session(), user(text))
    assert turn_open(session)
    assert summary_depth(session) == 0


@given(st.text(), st.text(), st.text())
def test_whatever_a_handoff_says_is_read_back(goal, state, target):
    session = asked(talk())
    given_notes = {"goal": goal, "state": state, "next": "n"}
    plan = plan_travel(session, target="#1", handoff=given_notes, call="t1")
    if isinstance(plan, Refusal):
        assert plan.code == "invalid-handoff"
        return
    (found,) = handoffs(apply_travel(session, plan))
    assert (found.handoff, found.facts) == (plan.handoff, plan.facts)
    named = label(session, 1, target)
    if is_addressable(target) and target in labelled(named).targets:
        (found,) = handoffs(went(named, f" {target} ", call="t1"))
        assert found.facts.target == target


@pytest.mark.parametrize("blanks", ["", " " * 100_000, "\n\t" * 60_000])
def test_what_is_planned_is_what_is_read(blanks):
    session = asked(label(talk(), 4, "x" * 1_000))
    for target in ("root", "#4", "x" * 1_000):
        plan = plan_travel(session, target=f"{blanks}{target}{blanks}", handoff=NOTES, call="t1")
        (found,) = handoffs(apply_travel(session, plan))
        assert (found.facts, found.handoff) == (plan.facts, plan.handoff)
        assert plan.facts.target == target
        assert summary_depth(apply_travel(session, plan)) == plan.depth_after == 1


def test_names_targets_and_calls_are_bounded():
    session = asked(talk())
    assert refused(session, "x" * 1_001, call="t1") == "invalid-params"
    assert refused(session, ticket="x" * 201, call="t1") == "invalid-params"
    assert went(session, "root", ticket="x" * 200, call="t1")
    assert resolve_target(session, "#" + "1" * 10**6).code == "invalid-params"
    assert refused(asked(talk(), "c" * 1_001), call="c" * 1_001) == "invalid-params"
    assert handoffs(went(asked(talk(), "c" * 1_000), "root", call="c" * 1_000))
    assert checkpoint(session, "x" * 201)[1].code == "invalid-name"
    assert checkpoint(session, "x" * 200)[1].status == "created"
    with pytest.raises(InvalidArgument) as caught:
        checkpoint_before_cut(session, "2" * 101)
    assert caught.value.code == "invalid-argument"
    assert checkpoint_before_cut(session, "2" * 100)[1].status == "created"


def test_a_label_of_a_megabyte_gives_way():
    mega = "x" * 1_000_000
    session = asked(label(talk(), complete_places(talk()).newest, mega))
    assert not is_addressable(mega)
    assert checkpoint(session, "mine")[1].displaced == mega
    plan = plan_travel(session, target="root", handoff=NOTES, call="t1")
    assert (plan.ticket.name, plan.ticket.displaced) == ("fix-the-parser-raw", mega)
    after = apply_travel(session, plan)
    assert [found.facts for found in handoffs(after)] == [plan.facts]
    assert archives(after) == {"fix-the-parser-raw": plan.ticket.place}
    held = "x" * 900
    for text in (
        plan_travel(label(session, 10, held), target="root", handoff=NOTES, ticket="a").text,
        plan_checkpoint(label(session, 10, held), "a").text,
        plan_travel(
            label(session, 2, "a" * 200), target="root", handoff=NOTES, ticket="a" * 200
        ).text,
        plan_checkpoint(label(session, 2, "a" * 200), "a" * 200).text,
    ):
        assert len(text) < 200


def test_a_handoff_is_bounded():
    session = asked(talk())
    long = {**NOTES, "state": "s" * (40_000 - len(NOTES["goal"]) - len(NOTES["next"]) - 4 * 4)}
    assert len(handoffs(went(session, "root", call="t1"))) == 1
    fits = plan_travel(session, target="root", handoff=long, call="t1")
    assert handoffs(apply_travel(session, fits))[0].handoff == fits.handoff
    found = plan_travel(session, target="root", handoff={**long, "next": "change line 77"})
    assert (found.code, found.text) == (
        "invalid-handoff",
        "its slots have 40,001 characters together, and may have 40,000",
    )
    assert build_handoff({**long, "next": "n" * 10**6}).next == "n" * 10**6


def test_they_survive_the_journal():
    session = went(asked(talk()), "root", call="t1")
    again = journal.decode(journal.encode(session)).session
    assert again == session
    assert handoffs(again) == handoffs(session)
    assert archives(again) == archives(session)


# Refusals


def test_refusals_are_a_closed_list():
    with pytest.raises(InvalidArgument, match="no refusal"):
        Refusal("nope", "text")
    assert all(code == code.lower() and "_" not in code for code in REFUSALS)
    table = PAGE.read_text("utf-8").partition("### REFUSALS")[2].partition("##")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", table, re.MULTILINE)
    assert rows == list(REFUSALS.items())


def test_each_code_is_given_somewhere():
    """Besides in the list: nothing is promised that can't happen."""
    package = Path(checkpoints.__file__).parent
    text = "".join(path.read_text("utf-8") for path in package.glob("*.py"))
    assert [code for code in REFUSALS if text.count(f'"{code}"') < 2] == []


@pytest.mark.parametrize("hostile", [None, 5, b"x", [1], object()])
def test_what_is_no_argument_is_refused_with_a_code(hostile):
    session = asked(talk())
    for call in (
        lambda: resolve_target(session, hostile),
        lambda: checkpoint(session, hostile),
        lambda: checkpoint(hostile, "x"),
        lambda: checkpoint(session, "x", aborted=hostile),
        lambda: checkpoint_before_cut(session, hostile),
        lambda: free_name(session, hostile),
        lambda: plan_travel(session, target=hostile, handoff=NOTES),
        lambda: plan_travel(hostile, target="root", handoff=NOTES),
        lambda: plan_travel(session, target="root", handoff=NOTES, call=hostile),
        lambda: plan_travel(session, target="root", handoff=NOTES, measure=hostile),
        lambda: plan_checkpoint(session, "x", measure=hostile),
        lambda: plan_travel(session, target="root", handoff=NOTES, aborted=hostile),
        lambda: apply_travel(session, hostile),
        lambda: handoffs(hostile),
    ):
        with pytest.raises(InvalidArgument):
            call()
    if hostile is not None:
        with pytest.raises(InvalidArgument):
            plan_travel(session, target="root", handoff=NOTES, ticket=hostile)


# Cost


@pytest.fixture
def visits(monkeypatch):
    """Count entries that a view or a fold of this package looks at, and messages measured."""
    seen = SimpleNamespace(count=0)

    def counted(step):
        def count(*values):
            seen.count += 1
            return step(*values)

        return count

    for kind, step in view_module.STEPS.items():
        monkeypatch.setitem(view_module.STEPS, kind, counted(step))
    return seen


def long_session(entries):
    """A call without a result near the root, and a conversation behind it, as found in the wild."""
    session = record(Session(), Head(system="s"), user("go"), assistant(ToolCall("x", "read")))
    session = record(session, tool_result("x", "the process was killed", error=True))
    while len(session) < entries:
        session = round_of(session, len(session))
        session = record(session, assistant("Done."), user("go on"))
    return session


def test_w03_a_checkpoint_or_a_journey_visits_no_more_entries_in_a_longer_session(visits):
    found = []
    for entries in (500, 10_000):
        session = asked(long_session(entries))
        base, _ = checkpoint(session, "warm")
        plan_travel(base, target="root", handoff=NOTES, call="t1")
        counts = []
        for step in range(6):
            visits.count = 0
            base, receipt = checkpoint(round_of(went(base, "root"), step), f"p{step}")
            assert receipt.status == "created"
            base = round_of(base, step)
            base = went(base, f"p{step}")
            counts.append(visits.count)
        found.append(max(counts))
    assert found[1] <= 1.5 * found[0]
    assert found[1] < 1_000


def test_a_journey_along_the_path_looks_at_no_nodes_in_between(monkeypatch):
    session = asked(long_session(5_000))
    node = find(session, 4_000)
    first = next(iter(behind(session, node)))
    assert first.number == 4_001
    looked = []
    real = find

    def counting(*args, **more):
        looked.append(args)
        return real(*args, **more)

    monkeypatch.setattr("ctxalgebra.events.find", counting)
    travel(session, 4_000)
    assert len(looked) < 12


def test_a_run_of_notes_costs_nothing_where_no_edit_stands_behind_it(monkeypatch):
    run = record(talk(), user("on"), *(Note("n", str(n)) for n in range(10_000)), user("end"))
    target = f"#{complete_places(talk()).newest + 5}"
    plan_travel(run, target=target, handoff=NOTES)
    looked = []
    real = find

    def counting(*args, **more):
        looked.append(args)
        return real(*args, **more)

    monkeypatch.setattr("ctxalgebra.events.find", counting)
    plan = plan_travel(run, target=target, handoff=NOTES)
    assert plan.facts.landed == plan.target.number
    assert len(looked) < 200
    # An edit behind the run is no place to land on, but one has to look.
    edited = record(run, Cut(7, user("before"), "for room", breaks=True))
    looked.clear()
    assert plan_travel(edited, target=target, handoff=NOTES).facts == evolve(
        plan.facts, origin=edited.leaf.number, place=edited.leaf.number
    )
    assert 9_000 < len(looked) < 11_000
    inside = record(travel(run, plan.target.number), Cut(7, user("before"), "room", breaks=True))
    there = record(inside, user("later"))
    assert plan_travel(there, target=f"#{inside.leaf.number}", handoff=NOTES).facts.landed == (
        inside.leaf.number
    )


def test_a_copy_of_a_handoff_counts_where_it_landed_and_nowhere_else():
    after = went(asked(talk()), "root", call="t1")
    (found,) = handoffs(after)
    pair = (after.leaf.parent.entry, after.leaf.entry)
    assert summary_depth(record(after, *pair)) == 1
    assert summary_depth(record(at_leaf(after, 5), *pair)) == 0
    copied = record(at_leaf(after, found.facts.landed), *pair)
    assert [again.facts for again in handoffs(copied)] == [found.facts]
    assert archives(copied) == archives(after)


def test_save_points_are_found_among_labels(visits):
    session = long_session(2_000)
    for number in range(1, 1_500, 3):
        session = label(session, number, f"n{number}")
    names_of(session)
    visits.count = 0
    assert save_point(session, 1_000).number == 997
    assert visits.count == 0
