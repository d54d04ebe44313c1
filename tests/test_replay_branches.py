"""Requests of all branches: as they left, under a cache, beside never travelling."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    CtxError,
    Cut,
    Drop,
    Head,
    InvalidArgument,
    Message,
    Replace,
    Route,
    Sent,
    Session,
    Strip,
    Thinking,
    Tool,
    ToolCall,
    Usage,
    UsageReport,
    assistant,
    at_leaf,
    chars4,
    log,
    plan_breakpoints,
    project,
    record,
    reply,
    send,
    tool_result,
    travel,
    user,
)
from ctxalgebra.checkpoints import apply_travel, build_handoff, plan_travel
from ctxalgebra.checkpoints.guidance import with_guidance
from ctxalgebra.checkpoints.provenance import Facts, frame, handoffs, note
from ctxalgebra.checkpoints.tools import TRAVEL_TOOLS, respond_travel
from ctxalgebra.cli import main
from ctxalgebra.codecs import journal, load
from ctxalgebra.commands.requests import all_sendings, sendings
from ctxalgebra.replay import (
    CACHES,
    Recorded,
    cache_named,
    departures,
    plan,
    recorded_row,
    recorded_verdict,
    replay,
    weigh_recorded,
)
from ctxalgebra.replay.departures import branches, off_path
from ctxalgebra.replay.recorded import FORKED, NO_JOURNEY, TOUCHED

NOTES = {"goal": "Fix the parser", "state": "the bug is in line 7", "next": "change line 7"}
READ = Tool("read", "Reads a file", '{"type":"object"}')
HEAD = Head(
    Route("anthropic", "claude-opus-4-6"), with_guidance("You fix bugs."), (READ, *TRAVEL_TOOLS)
)
TASK = "Fix the parser " + "carefully " * 3_000
STEPS = [
    ("checkpoint", {"name": "scan"}),
    *[("read", {"path": f"{n}.py"}) for n in range(6)],
    ("travel", {"target": "scan", "handoff": NOTES}),
    ("read", {"path": "7.py"}),
    ("travel", {"target": "fix-the-parser-raw", "handoff": {**NOTES, "next": "look it up"}}),
    ("read", {"path": "8.py"}),
    ("say", "Fixed."),
]


def agent(steps, *, travels=True, minutes=None, size=4_000, head=HEAD):
    """Run a model that takes these steps, one a request; without travelling it leaves these out."""
    session = record(Session(), head, user(TASK))
    for number, (name, arguments) in enumerate(steps):
        if name == "travel" and not travels:
            continue
        session, _ = send(session, time=None if minutes is None else 60_000 * minutes[number] // 3)
        if name == "say":
            session = reply(session, "completed", assistant(arguments))
            continue
        call = ToolCall(f"c{number}", name, json.dumps(arguments))
        session = reply(session, "completed", assistant(call))
        if name == "read":
            text = f"{number:0{size}}"
            session = record(session, tool_result(call.id, text, name="read"))
        else:
            session = respond_travel(session, call)
    return session


def all_requests(session):
    """List what was sent, on all branches, in the order of sending: from scratch."""
    sent = [node.number for node in log(session) if isinstance(node.entry, Sent)]
    return [project(at_leaf(session, number)) for number in sent]


def tokens(request, messages=None):
    return chars4(request.head) + sum(map(chars4, request.messages[:messages]))


def longest(requests, index):
    """Find the longest beginning that a request shares with an earlier one: by comparing all."""
    ours, best = requests[index], (-1, 0, 0)
    for number, earlier in enumerate(requests[:index]):
        if earlier.head != ours.head:
            continue
        pairs = zip(ours.messages, earlier.messages, strict=False)
        common = next(
            (i for i, (a, b) in enumerate(pairs) if a != b),
            min(len(ours.messages), len(earlier.messages)),
        )
        shared = tokens(ours, common)
        if shared and (best[0] < 0 or common > best[1]):
            best = number, common, shared
    return best


def same_as_from_scratch(session):
    requests = all_requests(session)
    found = departures(session, implied=False)
    assert len(found) == len(requests)
    for one, request in zip(found, requests, strict=True):
        assert (one.view.head, one.view.messages()) == (request.head, request.messages)
        assert (one.origin, one.common, one.shared) == longest(requests, one.index)
        whole = one.origin >= 0 and request.extends(requests[one.origin])
        assert one.whole is whole
        if one.before >= 0:
            earlier = requests[one.before]
            assert request.extends(earlier) is (one.at == len(earlier.messages))
    return found, requests


# The order in which they left


def test_the_requests_of_a_travelled_session_are_all_listed():
    found, requests = same_as_from_scratch(agent(STEPS))
    assert [one.view.end for one in found] == [1, 3, 5, 7, 9, 11, 13, 15, 2, 4, 16, 18]
    assert [one.branch for one in found] == [0] * 8 + [1, 1, 2, 2]
    assert [one.index for one in found if one.moved] == [8, 10]
    # The fold extends the first request; coming back, the one in which the model chose to leave.
    assert [(one.origin, one.whole) for one in found[8:]] == [
        (0, True), (8, True), (7, True), (10, True),
    ]  # fmt: skip
    assert requests[10].extends(requests[7])
    assert [one.active for one in found] == [True] * 7 + [False] * 3 + [True] * 2


TEXTS = st.sampled_from(["a", "b", "a" * 9])
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("say"), TEXTS),
        st.tuples(st.just("ask"), TEXTS),
        st.tuples(st.just("send"), st.sampled_from(["completed", "failed", "lost", "open"])),
        st.tuples(st.just("go"), st.integers(-1, 40)),
        st.tuples(st.just("head"), TEXTS),
        st.tuples(st.just("drop"), st.integers(0, 40)),
        st.tuples(st.just("cut"), st.integers(0, 40)),
    ),
    max_size=40,
)


def done(session, what, value):
    """Do one move."""
    if what == "go":
        return at_leaf(session, value)
    if what == "send":
        session = record(session, Sent())
        return session if value == "open" else reply(session, value, assistant("r" * 5))
    entries = {"say": assistant, "ask": user, "head": lambda text: Head(system=text)}
    if what in entries:
        return record(session, entries[what](value))
    if what == "drop":
        return record(session, Drop(value, value, "why", breaks=True))
    return record(session, Cut(value, user("cut"), "why", breaks=True))


def grown(moves):
    """Do what is legal of these moves."""
    session = Session()
    for what, value in moves:
        with suppress(CtxError):
            session = done(session, what, value)
    return session


@given(MOVES)
def test_whatever_was_recorded_is_listed_as_comparing_all_of_it_says(moves):
    session = grown(moves)
    found, requests = same_as_from_scratch(session)
    everything = departures(session)
    announced = [one for one in everything if not one.sent.inferred]
    assert [one.entry for one in announced] == [one.entry for one in found]
    branch, ends = branches(session)
    assert len(branch) == len(session)
    assert [branch[end] for end in ends] == list(range(len(ends)))
    on_path = {one.entry for one in everything if one.active}
    if off_path(session):
        assert len(branches(session)[1]) > 1 or session.leaf is not session.last
    else:
        assert on_path == {one.entry for one in everything}
    run = weigh_recorded(session).run
    assert run.silent == 0
    assert run.requests == len(everything)
    assert run.input == sum(
        chars4(o.view.head) + o.view.slots.total(chars4, o.view.end) for o in everything
    )
    if len(everything) == len(requests):
        # The ideal cache holds each beginning that was ever sent.
        assert run.cached == sum(one.shared for one in found)
    rows = recorded_row(weigh_recorded(session, cache="anthropic", breakpoints="planned"))
    assert json.loads(json.dumps(rows)) == rows
    assert recorded_verdict(weigh_recorded(session)).isprintable()


@given(MOVES)
def test_a_line_costs_as_it_was_sent_what_its_replay_costs(moves):
    session = grown([m for m in moves if m[0] in ("say", "ask", "send")])
    for cache in ("ideal", "anthropic"):
        run = weigh_recorded(session, cache=cache).run
        sent = replay(session, plan("none", budget=128_000), cache=cache_named(cache))
        assert (run.requests, run.input, run.cached, run.cost, run.invalid, run.misses) == (
            sent.requests, sent.input, sent.cached, sent.cost, sent.invalid, sent.misses,
        )  # fmt: skip


def test_a_request_that_nobody_announced_counts_in_a_replay_only():
    session = record(Session(), user("a"), assistant("b"), user("c"), assistant("d"))
    session = record(at_leaf(session, 0), user("e"), assistant("f"))
    assert departures(session, implied=False) == ()
    assert [one.entry for one in departures(session)] == [1, 3, 5]
    assert all(one.sent.inferred for one in departures(session))
    # Before the first message there is nothing that could have been sent.
    assert departures(record(Session(), assistant("b"))) == ()
    assert departures(Session()) == ()


def test_a_head_that_is_shared_alone_counts_and_one_that_is_empty_does_not():
    def two(head):
        session, _ = send(record(Session(), head, user("a")))
        return departures(send(record(at_leaf(session, 0), user("b")))[0])[1]

    system = Head(system="s" * 40)
    assert (two(system).origin, two(system).common, two(system).shared) == (0, 0, 10)
    assert not two(system).whole
    assert (two(Head()).origin, two(Head()).common, two(Head()).shared) == (-1, 0, 0)


def long(entries, folds):
    """Make a journal of so many entries, with so many journeys to a place near the leaf."""
    session = record(Session(), HEAD, user("task"))
    for fold in range(folds):
        while len(session) < (fold + 1) * entries // folds:
            session, _ = send(session)
            call = ToolCall(f"r{len(session)}", "read")
            session = reply(session, "completed", assistant(call))
            session = record(session, tool_result(call.id, str(len(session)), name="read"))
        session, _ = send(session)
        target = f"#{session.leaf.number - 9}"
        arguments = json.dumps({"target": target, "handoff": {**NOTES, "goal": f"g {fold}"}})
        call = ToolCall(f"t{fold}", "travel", arguments)
        session = respond_travel(reply(session, "completed", assistant(call)), call)
    return send(session)[0]


def test_the_costs_grow_with_the_journal():
    counts = []
    for entries in (1_000, 2_000, 4_000):
        session, calls = long(entries, 10), [0]

        def measure(value, calls=calls):
            calls[0] += 1
            return chars4(value)

        found = weigh_recorded(session, measure=measure)
        assert found.run.silent == 0
        assert found.journeys == 10
        assert found.without is not None
        assert len(found.moves) == 10
        counts.append(calls[0])
    for one, twice in pairwise(counts):
        assert twice < 2.2 * one


# Under a cache


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("name", CACHES)
def test_a_session_is_weighed_as_it_was_sent(name, planned):
    session = agent(STEPS)
    found = weigh_recorded(
        session, cache=name, breakpoints="planned" if planned else "default", budget=10_000
    )
    model, requests = cache_named(name), all_requests(session)
    state, placed, outcomes = model.start, None, []
    for request in requests:
        profile = model.profile(request.head.route)
        placed = plan_breakpoints(placed, request, profile) if planned else model.place(request)
        state, outcome = model.take(state, placed)
        outcomes.append(outcome)
    run = found.run
    sizes = list(map(tokens, requests))
    assert (run.requests, run.input, run.largest) == (12, sum(sizes), max(sizes))
    assert run.cost == sum(one.cost for one in outcomes)
    assert run.cached == sum(one.read for one in outcomes)
    assert (run.silent, run.breaks, run.invalid) == (0, (), 0)
    assert run.over_budget == sum(size > 10_000 for size in sizes)
    assert (found.branches, found.journeys) == (3, 2)
    fold, back = found.moves
    assert (fold.request, fold.origin, fold.shared) == (8, 0, sizes[0])
    assert (back.request, back.origin, back.shared) == (10, 7, sizes[7])
    assert (fold.read, back.read) == (outcomes[8].read, outcomes[10].read)
    # What was sent where a journey goes is read, but for a block that isn't full.
    assert fold.shared - fold.read < 128
    assert back.shared - back.read < 128
    assert run.cached >= 138_817 * 8 // 10


def test_what_was_sent_expires_by_the_times_of_the_requests():
    soon = [*range(10), 10, 11]
    late = [*range(10), 90, 91]
    found = [weigh_recorded(agent(STEPS, minutes=m), cache="anthropic") for m in (soon, late)]
    assert [one.run.timed for one in found] == [12, 12]
    assert [one.moves[0].read for one in found] == [found[0].moves[0].shared] * 2
    assert [one.moves[1].read for one in found] == [found[0].moves[1].shared, 0]
    # A clock that goes back stands, so nothing is read that is gone.
    back = weigh_recorded(agent(STEPS, minutes=[*late[:-1], 0]), cache="anthropic")
    assert back.run.cost == found[1].run.cost


def test_a_break_on_a_branch_is_told_with_its_price():
    session = agent(STEPS[:8])
    session = record(session, Replace(1, user("short"), "too long", breaks=True))
    session, _ = send(session)
    session = reply(session, "completed", assistant("ok"))
    session = record(session, Head(HEAD.route, "New.", HEAD.tools), user("go on"))
    session, _ = send(session)
    run = weigh_recorded(session).run
    assert [(one.request, one.at, one.rebilled) for one in run.breaks] == [
        (9, -1, tokens(project(session), 2)),
    ]  # fmt: skip
    assert run.silent == 0
    # Where a decision stands in front of a request of its own path, it is a break there.
    session = record(reply(session, "completed", assistant("well")), user("more"))
    session, _ = send(record(session, Replace(1, user("other"), "old", breaks=True)))
    run = weigh_recorded(session).run
    assert [(one.request, one.at, one.why) for one in run.breaks] == [
        (9, -1, "the head changed: system"), (10, 0, "old"),
    ]  # fmt: skip
    before = departures(session)[9].entry
    slots = session.view.slots
    shown = zip(slots.numbers, slots.messages, strict=True)
    assert run.breaks[1].rebilled == sum(chars4(m) for n, m in shown if n < before)


@pytest.mark.parametrize(
    "decision",
    [Replace(0, user("x"), "w"), Cut(1, user("cut"), "w"), Head(system="w")],
    ids=lambda decision: decision.kind,
)
def test_a_decision_between_requests_that_nobody_announced_is_no_silent_break(decision):
    session = record(Session(), user("a" * 40), assistant("b"), user("c"))
    session = record(session, decision, Replace(2, user("d"), "v"), assistant("e"))
    run = weigh_recorded(session).run
    (broke,) = run.breaks
    assert (run.silent, broke.request) == (0, 1)
    assert broke.why == f"{getattr(decision, 'why', 'the head changed')}; v"


# Beside never travelling


@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize("steps", [STEPS, STEPS[:9], STEPS[:-2]])
def test_never_travelling_costs_what_an_agent_that_does_not_travel_pays(name, steps):
    found = weigh_recorded(agent(steps), cache=name)
    stayed = agent(steps, travels=False)
    expected = weigh_recorded(stayed, cache=name).run
    without = found.without
    assert (without.requests, without.input, without.largest) == (
        expected.requests, expected.input, expected.largest,
    )  # fmt: skip
    assert (without.cost, without.cached, without.written) == (
        expected.cost, expected.cached, expected.written,
    )  # fmt: skip
    assert (without.invalid, without.misses) == (0, expected.misses)
    assert found.saved == expected.cost - found.run.cost
    row = recorded_row(found)
    assert row["saved"] == row["without_journeys"]["cost"] - row["cost"]


def beside(steps):
    """Run an agent, and beside it one that does the same but for the journeys that succeed."""
    travelled = stayed = record(Session(), HEAD, user(TASK))
    for number, (name, value) in enumerate(steps):
        if name == "ask":
            travelled, stayed = (record(one, user(value)) for one in (travelled, stayed))
            continue
        arguments = {"name": value} if name == "checkpoint" else {"path": value}
        if name == "travel":
            arguments = {"target": value, "handoff": {**NOTES, "goal": f"goal {number}"}}
        call = ToolCall(f"c{number:03}", name, json.dumps(arguments))
        before = len(departures(travelled)), len(travelled)
        travelled = reply(send(travelled)[0], "completed", assistant(call))
        asked = travelled
        if name == "read":
            result = tool_result(call.id, f"{number:0400}", name="read")
            travelled = record(travelled, result)
        else:
            travelled = respond_travel(travelled, call)
        if name == "travel" and travelled.leaf.parent is not asked.leaf:
            assert before < (len(departures(travelled)), len(travelled))
            continue
        stayed = reply(send(stayed)[0], "completed", assistant(call))
        stayed = record(stayed, *(n.entry for n in log(travelled)[len(asked):]
                                  if isinstance(n.entry, Message)))  # fmt: skip
    return send(travelled)[0], send(stayed)[0]


PLACES = st.sampled_from(["root", "a", "b", "goal-3-raw", "goal-5-raw", "#12", "#20"])


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("read"), st.just("x.py")),
            st.tuples(st.just("ask"), st.just("go on")),
            st.tuples(st.just("checkpoint"), st.sampled_from("ab")),
            st.tuples(st.just("travel"), PLACES),
        ),
        max_size=20,
    ),
    st.sampled_from(sorted(CACHES)),
)
def test_whatever_the_journeys_never_travelling_is_as_if_nobody_had(steps, name):
    travelled, stayed = beside(steps)
    found = weigh_recorded(travelled, cache=name)
    assert found.run.silent == 0
    if found.without is None:
        assert found.why in (NO_JOURNEY, FORKED)
        return
    expected = weigh_recorded(stayed, cache=name).run
    for figure in ("requests", "input", "largest", "cached", "cost", "written", "misses"):
        assert getattr(found.without, figure) == getattr(expected, figure)


def test_a_fold_that_is_stayed_with_pays():
    steps = [
        *STEPS[:8], *[("read", {"path": f"{n}.py"}) for n in range(30)], ("say", "Fixed."),
    ]  # fmt: skip
    found = weigh_recorded(agent(steps, size=40_000))
    assert found.saved > 0
    assert f"{recorded_row(found)['saved']:,} more than what was sent" in recorded_verdict(found)
    short = weigh_recorded(agent(STEPS))
    assert short.saved < 0
    assert f"{-recorded_row(short)['saved']:,} less than what was sent" in recorded_verdict(short)


def test_journeys_of_a_host_carry_what_was_shown_and_leave_out_no_request():
    session = agent(STEPS[:4])
    session, _ = send(session)
    session = reply(session, "completed", assistant("Line 7 it is."))
    session = apply_travel(session, plan_travel(session, target="scan", handoff=NOTES))
    session, request = send(record(session, user("go on")))
    found = weigh_recorded(session)
    assert found.journeys == 1
    assert found.without.requests == found.run.requests == 6
    left = [one for one in departures(session) if one.branch == 0][-1]
    shown = project(at_leaf(session, left.entry + 1))
    assert found.without.largest == tokens(shown) + chars4(user("go on"))
    assert request.messages[-1] == user("go on")


def test_what_waited_behind_the_call_comes_along_once():
    session = record(Session(), HEAD, user("Fix it"))
    session, _ = send(session)
    session = reply(session, "completed", assistant(ToolCall("a", "read")))
    session = record(session, tool_result("a", "x" * 400, name="read"))
    session, _ = send(session)
    call = ToolCall("b", "travel", json.dumps({"target": "root", "handoff": NOTES}))
    session = record(reply(session, "completed", assistant(call)), user("hurry"))
    session, request = send(respond_travel(session, call))
    assert request.messages[-1] == user("hurry")
    found = weigh_recorded(session)
    assert found.without.requests == 2
    assert found.without.largest == tokens(request, 1) + sum(
        map(chars4, (assistant(ToolCall("a", "read")), tool_result("a", "x" * 400, name="read"),
                     user("hurry")))
    )  # fmt: skip


def test_a_reply_that_nobody_announced_may_ask_for_a_journey():
    session = record(Session(), HEAD, user("Fix it"), assistant(ToolCall("a", "read")))
    session = record(session, tool_result("a", "x" * 400, name="read"))
    call = ToolCall("b", "travel", json.dumps({"target": "root", "handoff": NOTES}))
    session = respond_travel(record(session, assistant(call)), call)
    session = record(session, assistant("done"))
    found = weigh_recorded(session)
    assert (found.run.requests, found.without.requests) == (3, 2)


def folded():
    """A session that was folded to a place behind an exchange, and went on."""
    steps = [STEPS[1], STEPS[0], *STEPS[2:4], STEPS[7], STEPS[8]]
    session, _ = send(agent(steps))
    thought = assistant(Thinking("hm", "s"), "It is there.")
    return record(reply(session, "completed", thought), user("go on"))


@pytest.mark.parametrize("where", ["replace", "drop", "cut", "strip"])
def test_a_decision_in_front_of_a_handoff_leaves_it_untold(where):
    session = folded()
    handed = handoffs(session)[0]
    numbers = session.view.slots.numbers
    place = numbers.index(handed.number)
    assert [m.role for m in session.view.messages()[:3]] == ["user", "assistant", "tool"]
    entry = {
        "replace": Replace(1, user("short"), "long", breaks=True),
        "drop": Drop(numbers[1], numbers[2], "old", breaks=True),
        "cut": Cut(handed.number, user("cut"), "old", breaks=True),
        "strip": Strip("signature", breaks=True),
    }[where]
    found = weigh_recorded(send(record(session, entry))[0])
    assert (found.without, found.saved, found.why) == (None, None, TOUCHED)
    assert recorded_row(found)["without_journeys"] is None
    assert recorded_row(found)["saved"] is None
    assert recorded_verdict(found).endswith(f"is not told: {TOUCHED}.")
    # Behind it, a decision is part of what was shown.
    called, answered = numbers[place + 1 : place + 3]
    whole = tokens(project(session))
    small = tool_result("c5", "short", name="read")
    for behind in (
        Replace(answered, small, "long", breaks=True),
        Drop(called, answered, "old", breaks=True),
    ):
        changed = record(session, behind)
        gone = whole - tokens(project(changed))
        assert gone > 0
        # Only the last request differs.
        inputs = [weigh_recorded(send(one)[0]).without.input for one in (session, changed)]
        assert inputs[0] - inputs[1] == gone


def test_a_journey_to_what_was_never_on_the_line_leaves_it_untold():
    session = record(Session(), HEAD, user("Fix it"), assistant("one"), user("two"))
    session, _ = send(session)
    other = send(record(at_leaf(session, 1), user("other")))[0]
    other = reply(other, "completed", assistant("three"))
    planned = plan_travel(other, target="#3", handoff=NOTES)
    assert planned.kind == "fork"
    found = weigh_recorded(send(apply_travel(other, planned))[0])
    assert (found.journeys, found.why) == (1, FORKED)


def test_hostile_facts_give_figures_or_none():
    """Whoever writes the note and the message can claim anything that was there."""
    session = record(Session(), user("Fix it"), assistant("one"), user("two"))
    session, _ = send(session)
    session = reply(session, "completed", assistant("three"))
    handoff = build_handoff(NOTES)

    def claimed(landed, **facts):
        at = Facts(
            **{"origin": 4, "target": "root", "entry": 0, "landed": landed, "ticket": "t",
               "place": 2, "call": "", "open": True, **facts}
        )  # fmt: skip
        forged = record(at_leaf(session, landed), note(at), frame(at, handoff))
        return weigh_recorded(send(forged)[0])

    assert claimed(0).why == ""
    assert claimed(-1).why == ""
    assert claimed(0, place=4, origin=2).why == FORKED
    assert claimed(4, place=0).why == FORKED
    # A call that nobody made asked for nothing.
    assert claimed(0, call="nobody").without.requests == claimed(0).without.requests


NUMBERS = st.integers(0, 9)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.booleans()), max_size=4))
def test_whatever_is_claimed_it_does_not_fall(claims):
    session = record(Session(), user("Fix it"))
    session = reply(send(session)[0], "completed", assistant(ToolCall("c", "read")))
    session = record(session, tool_result("c", "x", name="read"))
    for origin, entry, landed, place, answers in claims:
        with suppress(CtxError):
            session = at_leaf(session, landed)
            at = Facts(origin, "root", entry, landed, "t", place, "c", open=True)
            session = record(session, note(at), frame(at, build_handoff(NOTES)))
            if answers:
                session = record(session, tool_result("c", "y", name="read"))
            session = record(send(session)[0])
    for name in CACHES:
        row = recorded_row(weigh_recorded(session, cache=name))
        assert row["why_not"] or row["without_journeys"]["cost"] >= 0


def test_without_a_journey_there_is_nothing_to_set_beside():
    session = record(Session(), user("a"), assistant("b"))
    session = travel(session, 0)
    found = weigh_recorded(record(session, assistant("c")))
    assert (found.journeys, found.without, found.why) == (0, None, NO_JOURNEY)
    assert found.run.requests == 2


def test_bad_arguments_are_refused():
    for bad in (None, 5, "x"):
        with pytest.raises(InvalidArgument):
            weigh_recorded(bad)
        with pytest.raises(InvalidArgument):
            departures(bad)
        with pytest.raises(InvalidArgument):
            recorded_row(bad)
        with pytest.raises(InvalidArgument):
            recorded_verdict(bad)
    for options in ({"cache": "x"}, {"breakpoints": "x"}, {"budget": 0}, {"measure": 5}):
        with pytest.raises(InvalidArgument):
            weigh_recorded(Session(), **options)
    for options in ({"implied": 5}, {"measure": 5}):
        with pytest.raises(InvalidArgument):
            departures(Session(), **options)
    assert isinstance(weigh_recorded(Session()), Recorded)


# The commands


def call(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert err == ""
    assert code == 0
    return out


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(journal.encode(agent(STEPS)))
    return path


def test_replay_shows_the_session_as_it_was_sent(capsys, file):
    out = call(capsys, "replay", file, "--cache", "anthropic")
    for line in (
        "as it was sent: 3 branches, 2 journeys, 2 moves, 0 silent breaks",
        "2 requests go on from another than the one before them: of their 23,422 tokens 23,198 had",
        "led an earlier request, and 23,198 were read from the cache.",
    ):
        assert line in " ".join(out.split())
    table = {line.split("  ")[0]: line.split()[-7:] for line in out.splitlines()}
    assert table["as sent"][0] == "12"
    assert table["never travelled"][0] == "10"
    assert table["none"][0] != "12"  # along the path
    found = json.loads(call(capsys, "replay", file, "--cache", "anthropic", "--json"))
    expected = weigh_recorded(agent(STEPS), cache="anthropic", budget=7_888)
    assert found["recorded"] == json.loads(json.dumps(recorded_row(expected)))
    assert found["recorded"]["silent_breaks"] == 0


def test_a_line_has_nothing_more_to_show(capsys, tmp_path):
    path = tmp_path / "line.jsonl"
    path.write_bytes(journal.encode(agent(STEPS, travels=False)))
    assert "as it was sent" not in call(capsys, "replay", path)
    assert "recorded" not in json.loads(call(capsys, "replay", path, "--json"))
    assert "other branches" not in call(capsys, "requests", path)


def test_branches_without_journeys_are_shown_too(capsys, tmp_path):
    path = tmp_path / "s.jsonl"
    session, _ = send(record(Session(), user("a"), assistant("b")))
    # The other branch was left before anything was asked there.
    path.write_bytes(journal.encode(at_leaf(session, 0)))
    out = call(capsys, "replay", path)
    assert "as it was sent: 1 branch, 0 journeys, 0 moves, 0 silent breaks" in out
    assert "never travelled  " not in out
    assert "goes on from another" not in out


def test_requests_of_all_branches_are_listed(capsys, file):
    title, *_, more = call(capsys, "requests", file).splitlines()[:2]
    assert title == f"{file}: journal, 9 requests"
    assert more == "3 requests more on other branches: --all lists all"
    out = call(capsys, "requests", file, "--all")
    lines = out.splitlines()
    assert lines[0] == f"{file}: journal, 12 requests"
    assert lines[2].split()[-6:] == ["branch", "leaf", "longest", "with", "outcome", "break"]
    assert lines[4].split()[-4:] == ["0*", "26", "0", "completed"]
    assert lines[14].split()[-5:] == ["2*", "41", "14,645", "7+", "completed"]
    rows = json.loads(call(capsys, "requests", file, "--all", "--json"))["requests"]
    assert [row["request"] for row in rows] == list(range(12))
    assert [row["longest"]["request"] for row in rows[1:]] == [0, 1, 2, 3, 4, 5, 6, 0, 8, 7, 10]
    assert rows[0]["longest"] is None
    assert rows[10]["longest"] == {
        "request": 7, "message_count": 15, "tokens": 14_645, "whole": True,
    }  # fmt: skip
    assert [row["before"] for row in rows] == [None, 0, 1, 2, 3, 4, 5, 6, None, 8, 6, 10]
    assert [row["request"] for row in rows if row["moved"]] == [8, 10]
    # Along the path there is nothing of it.
    assert "longest" not in json.loads(call(capsys, "requests", file, "--json"))["requests"][0]


def test_one_request_of_all_branches_is_shown(capsys, file):
    lines = call(capsys, "requests", file, "--all", 10).splitlines()
    assert lines[1:5] == [
        "request 10, entry 37, completed: 16 messages, 14,770 tokens",
        "13,640 tokens are the beginning of request 6",
        "branch 2, which ends at entry 41",
        "14,645 tokens are all of request 7",
    ]
    found = json.loads(call(capsys, "requests", file, "--all", 8, "--json"))
    assert [m["change"] for m in found["messages"]] == ["new", "new"]
    assert found["longest"]["whole"] is True
    lines = call(capsys, "requests", file, "--all", 0).splitlines()
    assert lines[2] == "branch 0, which ends at entry 26"
    assert lines[3] == ""


def test_a_beginning_in_part_is_told_as_such(capsys, tmp_path):
    session = record(Session(), user("abcd"), assistant("b"), user("c"))
    session = reply(send(session)[0], "failed")
    session, _ = send(record(at_leaf(session, 0), user("e")))
    path = tmp_path / "s.jsonl"
    path.write_bytes(journal.encode(session))
    assert "1 token is the beginning of request 0" in call(capsys, "requests", path, "--all", 1)


def test_a_request_has_one_end_whatever_the_branches_say():
    session, _ = send(record(Session(), user("a")))
    ends = ["lost", "completed", "failed"]
    for end in ends:
        message = assistant("b") if end == "completed" else None
        session = reply(at_leaf(session, 1), end, message)
    session = record(session, UsageReport(1, Usage(5)))
    assert [one.outcome for one in all_sendings(session)] == ["completed"]
    session, _ = send(at_leaf(session, 0))
    assert [one.outcome for one in all_sendings(session)] == ["completed", "open"]
    assert all_sendings(Session()) == []


def test_on_a_line_all_are_those_of_the_path():
    session = agent(STEPS, travels=False)
    plain, everything = sendings(session), all_sendings(session)
    assert [(a.index, a.number, a.shared, a.broke, a.outcome, a.before) for a in plain] == [
        (a.index, a.number, a.shared, a.broke, a.outcome, a.before) for a in everything
    ]


def pi_lines():
    """A file of pi in which the user went back and asked something else."""

    def message(number, parent, role, text):
        content = [{"type": "text", "text": text}]
        more = {"api": "x", "provider": "p", "model": "m", "stopReason": "stop"}
        return {
            "type": "message", "id": f"m{number}", "parentId": parent,
            "timestamp": f"2026-01-01T00:0{number}:00.000Z",
            "message": {"role": role, "content": content, "timestamp": 60_000 * number,
                        **(more if role == "assistant" else {})},
        }  # fmt: skip

    return [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z",
         "cwd": "/w"},
        message(1, None, "user", "first " * 40),
        message(2, "m1", "assistant", "one " * 40),
        message(3, "m2", "user", "second"),
        message(4, "m3", "assistant", "two"),
        message(5, "m2", "user", "instead"),
        message(6, "m5", "assistant", "three"),
    ]  # fmt: skip


def claude_lines():
    """A transcript of Claude Code in which a message was edited."""

    def line(number, parent, role, text):
        content = text if role == "user" else [{"type": "text", "text": text}]
        more = {
            "id": f"msg_{number}",
            "type": "message",
            "model": "claude-opus-4-6",
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        return {
            "type": role, "uuid": f"u{number}", "parentUuid": parent, "sessionId": "s",
            "timestamp": f"2026-01-01T00:0{number}:00.000Z", "isSidechain": False,
            "userType": "external", "cwd": "/w", "version": "2.0.0",
            "message": {"role": role, "content": content,
                        **(more if role == "assistant" else {})},
        }  # fmt: skip

    return [
        line(1, None, "user", "first " * 40),
        line(2, "u1", "assistant", "one " * 40),
        line(3, "u2", "user", "second"),
        line(4, "u3", "assistant", "two"),
        line(5, "u2", "user", "instead"),
        line(6, "u5", "assistant", "three"),
    ]


@pytest.mark.parametrize("lines", [pi_lines, claude_lines])
def test_files_of_hosts_with_branches_are_shown_alike(capsys, tmp_path, lines):
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines()))
    assert load(path).repairs == ()
    rows = json.loads(call(capsys, "requests", path, "--all", "--json"))["requests"]
    assert [(row["branch"], row["before"]) for row in rows] == [(0, None), (0, 0), (1, 0)]
    assert [row["longest"] and row["longest"]["request"] for row in rows] == [None, 0, 1]
    assert [row["longest"] and row["longest"]["whole"] for row in rows] == [None, True, False]
    found = json.loads(call(capsys, "replay", path, "--json"))["recorded"]
    assert (found["requests"], found["branches"], found["journeys"]) == (3, 2, 0)
    assert found["silent_breaks"] == 0
    (move,) = found["moves"]
    assert (move["request"], move["origin"], move["read"]) == (2, 1, 100)
    assert found["why_not"] == NO_JOURNEY
    assert "goes on from another" in " ".join(call(capsys, "replay", path).split())
