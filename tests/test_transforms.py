"""The shipped transforms: what they decide, and when they are quiet."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Cut,
    Drop,
    Evicted,
    Head,
    Image,
    InvalidArgument,
    Message,
    Opaque,
    Pipeline,
    Replace,
    Reply,
    Route,
    Sent,
    Session,
    Text,
    Thinking,
    ToolCall,
    Usage,
    account,
    assistant,
    breaks,
    chars4,
    drop_suffix,
    estimate,
    exchanges,
    log,
    pays,
    pipeline,
    pressure,
    project,
    prune_suffix,
    record,
    reply,
    select,
    send,
    snap_frontier,
    tool_result,
    user,
)


def of(size, tag="x"):
    return tag * (size * 4)


def turn(session, message, *parts, usage=None):
    session, _ = send(record(session, message))
    return reply(session, "completed", assistant(*parts), usage=usage)


def rounds(count, size=100, session=None, start=0):
    """One request, then tool rounds of about `size` tokens each; the last result is unread."""
    session = Session() if session is None else session
    session = record(session, user("do it"))
    for n in range(start, start + count):
        session, _ = send(session)
        session = reply(session, "completed", assistant(ToolCall(f"c{n}", "read")))
        session = record(session, tool_result(f"c{n}", of(size), name="read"))
    return session


def decisions(session, kind):
    return [n.entry for n in log(session) if type(n.entry) is kind]


# select


def test_select_cuts_whole_turns_oldest_first_down_to_the_target():
    session = Session()
    for _ in range(10):
        session = turn(session, user(of(50)), of(50))
    session = record(session, user("now"))
    assert select(session, budget=1001) is session, "equality does not cut"
    cut = select(session, budget=1000, target=450)
    (decision,) = decisions(cut, Cut)
    roles = [m.role for m in project(cut).messages]
    assert roles == ["user", *["user", "assistant"] * 4, "user"]
    assert decision.keep == ()
    assert project(cut).messages[0] == decision.notice
    assert estimate(cut) <= 450
    assert select(cut, budget=1000, target=450) is cut


def test_the_active_request_stays_while_exchanges_behind_it_leave():
    session = rounds(20)
    cut = select(session, budget=1500, target=500)
    messages = project(cut).messages
    assert messages[1] == user("do it")
    assert messages[2].calls
    assert messages[-1].role == "tool"
    assert estimate(cut) <= 500
    later = rounds(10, session=reply(send(cut)[0], "completed", assistant("ok")), start=20)
    again = select(later, budget=1000, target=500)
    assert [c.keep for c in decisions(again, Cut)] == [(0,), (cut.last.number + 3,)]
    assert user("do it") == project(again).messages[1]
    assert sum(m.role == "user" for m in project(again).messages) == 2


def test_the_notice_names_what_leaves_and_not_what_stays():
    told = []
    cut = select(rounds(20), budget=1500, target=500, notice=lambda e: told.append(e) or "cut")
    first = told[-1].first
    assert first == 2, "the request, entry 0, stays"
    assert told[-1].count == len(project(rounds(20)).messages) - len(project(cut).messages) + 1


def test_a_kept_request_is_kept_again_while_it_is_active():
    told = []
    session = select(rounds(20), budget=1500, target=500)
    for n in range(20, 40):
        session, _ = send(session)
        session = reply(session, "completed", assistant(ToolCall(f"c{n}", "read")))
        session = record(session, tool_result(f"c{n}", of(100)))
        before = session
        notice = lambda e: told.append(e) or "cut"  # noqa: E731
        session = select(session, budget=1500, target=500, notice=notice)
        if session is not before:
            gone = before.view.end - session.view.end
            assert told[-1].count == gone, "the notice and the request stay"
    assert [c.keep for c in decisions(session, Cut)] == [(0,)] * 2
    assert project(session).messages[1] == user("do it")


def test_unread_results_and_steering_are_protected():
    session = rounds(3, size=300)
    session = record(session, user("also this"))
    cut = select(session, budget=320, target=10)
    assert [m.role for m in project(cut).messages] == ["user", "user", "assistant", "tool", "user"]
    assert project(cut).messages[1] == user("do it")
    told = pressure(cut, budget=320)
    assert (told.fits, told.cuttable) == (False, False)
    assert select(cut, budget=320, target=10) is cut


def test_a_turn_that_was_read_leaves_whole_when_the_next_one_begins():
    session = record(Session(), user(of(100)), assistant(of(100)), user("now"))
    cut = select(session, budget=100, target=50)
    assert project(cut).messages[1:] == (user("now"),)


def test_nothing_is_cut_in_flight_nor_from_what_nobody_read():
    session, _ = send(rounds(20))
    assert select(session, budget=100) is session
    assert pressure(session, budget=100).cuttable is False
    unread = record(Session(), *[user(of(100))] * 5)
    assert select(unread, budget=100) is unread


def test_open_calls_are_not_parted_from_their_message():
    session = record(rounds(5), Sent(), Reply("completed", assistant(of(100), ToolCall("o", "r"))))
    cut = select(session, budget=300, target=150)
    assert project(cut).messages[-1].calls[0].id == "o"
    plain = record(
        Session(), user(of(90)), assistant("b"), user("c"), assistant(ToolCall("o", "r"))
    )
    cut = select(plain, budget=50, target=10)
    assert [m.role for m in project(cut).messages] == ["user", "user", "assistant"]


def test_a_cut_that_would_not_make_the_request_smaller_is_not_made():
    session = record(Session(), user("a"), assistant("b"), user(of(600)))
    assert select(session, budget=500) is session
    told = pressure(session, budget=500)
    assert (told.fits, told.cuttable) == (False, False)


def test_a_session_without_user_messages_is_cut_by_exchanges():
    entries = [
        entry
        for n in range(6)
        for entry in (assistant(ToolCall(f"c{n}", "r")), tool_result(f"c{n}", of(100)))
    ]
    cut = select(record(Session(), *entries), budget=400, target=250)
    assert [m.role for m in project(cut).messages] == ["user", *["assistant", "tool"] * 2]


def test_a_cold_cache_is_used_to_cut_to_the_target_early():
    session = Session()
    for _ in range(10):
        session = turn(session, user(of(50)), of(50))
    for cache in ("warm", "unknown"):
        assert select(session, budget=2000, target=500, cache=cache) is session
    assert estimate(select(session, budget=2000, target=500, cache="cold")) <= 500


def test_window_and_reserve_cap_the_budget_and_scale_the_target():
    session = Session()
    for _ in range(10):
        session = turn(session, user(of(50)), of(50))
    assert select(session, budget=4000, window=1100, reserve=100) is session
    cut = select(session, budget=4000, target=2000, window=1000, reserve=100)
    assert 300 < estimate(cut) <= 450


def test_the_target_is_met_in_calibrated_tokens():
    session = Session()
    for _ in range(10):
        session = turn(session, user(of(50)), of(50))
    session, _ = send(record(session, user("x")))
    session = reply(session, "completed", assistant("y"), usage=Usage(input=2002))
    assert 2000 < estimate(session) < 2010
    cut = select(session, budget=2000, target=1000)
    assert 700 < estimate(cut) <= 1000
    assert estimate(cut, measure=chars4) == estimate(cut)


def test_a_session_over_budget_from_the_start_pays_one_free_break():
    entries = [m for n in range(40) for m in (user(of(50)), assistant(of(50)))]
    session = select(record(Session(), *entries, user("go")), budget=1000)
    session, _ = send(session)
    assert breaks(session) == ()
    assert account(session).rebilled == 0


def test_leading_thinking_makes_select_wait():
    session = record(Session(), Head(Route("p", "m", binding="leading")), user("go"))
    for n in range(5):
        session, _ = send(session)
        session = reply(session, "completed", assistant(Thinking("t"), ToolCall(f"c{n}", "r")))
        session = record(session, tool_result(f"c{n}", of(100)))
    assert select(session, budget=200) is session
    session, _ = send(session)
    session = record(reply(session, "completed", assistant("done")), user("next"))
    assert len(decisions(select(session, budget=200), Cut)) == 1


def test_the_notice_is_the_callers_and_is_told_what_left():
    told = []

    def notice(evicted):
        told.append(evicted)
        return f"{evicted.count} gone"

    session = Session()
    for _ in range(4):
        session = turn(session, user(of(50)), of(50))
    cut = select(record(session, user("now")), budget=300, target=150, notice=notice)
    assert told == [Evicted(0, 8, 6)]
    assert project(cut).messages[0] == user("6 gone")


def test_a_notice_that_is_too_long_costs_a_further_turn():
    told = []

    def notice(evicted):
        told.append(evicted.count)
        return of(60)

    session = Session()
    for _ in range(5):
        session = turn(session, user(of(50)), of(50))
    cut = select(record(session, user("now")), budget=400, target=220, notice=notice)
    assert told == [8, 6], "the deepest is asked for first: it says how much always stays"
    assert [m.role for m in project(cut).messages] == ["user", "user", "assistant", "user"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"budget": 0},
        {"budget": 1.5},
        {"budget": True},
        {"budget": 10, "target": -1},
        {"budget": 10, "window": 0},
        {"budget": 10, "reserve": -1},
        {"budget": 10, "reserve": 5},
        {"budget": 10, "reserve": None},
        {"budget": 10, "window": 5, "reserve": 5},
    ],
)
def test_budgets_are_checked(arguments):
    with pytest.raises(InvalidArgument) as caught:
        select(Session(), **arguments)
    assert caught.value.code == "invalid-argument"
    assert caught.value.field in arguments


# snap_frontier

EXCHANGE = (
    assistant(ToolCall("c", "r"), ToolCall("d", "r")),
    tool_result("c", "1"),
    tool_result("d", "2"),
)


def test_a_cut_snaps_back_to_the_border_of_an_exchange():
    messages = (user("a"), *EXCHANGE, user("b"))
    assert [snap_frontier(messages, i) for i in range(6)] == [0, 1, 1, 1, 4, 5]
    assert snap_frontier(messages[:2], 2) == 1, "the calls of the last message are open"


def test_a_cut_snaps_back_to_a_message_that_can_be_found_again():
    messages = (user("a", id="1"), user("b", id="1"), user("c", id="3"), user("d"))
    assert [snap_frontier(messages, i, findable=lambda m: m.id) for i in range(5)] == [
        0,
        0,
        0,
        3,
        3,
    ]
    for index in (-1, 5):
        with pytest.raises(InvalidArgument):
            snap_frontier(messages, index)


# prune_suffix

PRUNE = partial(prune_suffix, stub_over=200, drop_over=200)


def test_a_huge_unread_result_becomes_a_stub_before_it_is_sent():
    session = rounds(2, size=300)
    session = record(session, user("steer"))
    stub = partial(prune_suffix, stub_over=200, drop_over=999)
    pruned = stub(session)
    assert [d.target for d in decisions(pruned, Replace)] == [session.view.slots.numbers[-2]]
    assert "about 300 tokens" in project(pruned).messages[-2].parts[0].text
    assert stub(pruned) is pruned
    pruned, _ = send(pruned)
    assert [b.why for b in breaks(pruned)] == []


def test_a_result_that_made_a_request_fail_becomes_a_stub():
    session = reply(send(rounds(2, size=300))[0], "failed")
    stub = partial(prune_suffix, stub_over=200, drop_over=999)
    pruned = stub(session)
    assert [d.breaks for d in decisions(pruned, Replace)] == [True]
    pruned, _ = send(pruned)
    assert [b.why for b in breaks(pruned)] == ["prune: 300 tokens, unread"]


def test_only_what_the_latest_request_was_first_to_show_is_dropped():
    session = record(Session(), user("a"))
    for n in range(2):
        session = record(session, Sent(), Reply("completed", assistant(ToolCall(f"c{n}", "r"))))
        session = record(session, tool_result(f"c{n}", of(40)))
    session = record(session, Sent(), Reply("completed", assistant("ok")))
    prune = partial(prune_suffix, stub_over=999, drop_over=10)
    pruned = prune(session)
    assert [(d.first, d.last) for d in decisions(pruned, Drop)] == [(5, 6)]
    assert prune(pruned) is pruned


def test_a_stub_keeps_opaque_parts():
    session = record(Session(), user("a"), assistant(ToolCall("c", "read")))
    session = record(session, tool_result("c", (Opaque("resource", "{}"), Text(of(300)))))
    stub = project(PRUNE(session)).messages[-1]
    assert [type(part) for part in stub.parts] == [Text, Opaque]


def test_a_stub_longer_than_the_result_is_not_used():
    session = rounds(1, size=300)
    pruned = prune_suffix(session, stub_over=10, drop_over=999, stub=lambda m, t: of(300))
    assert pruned is session


def test_a_read_exchange_is_dropped_when_that_pays():
    session = rounds(3, size=20)
    session = record(session, Sent(), Reply("completed", assistant(ToolCall("big", "read"))))
    session = record(session, tool_result("big", of(2000)), Sent())
    session = record(session, Reply("completed", assistant("short")), user("next"))
    prune = partial(prune_suffix, stub_over=9999, drop_over=200)
    assert prune(session, horizon=0) is session
    pruned = prune(session)
    (drop,) = decisions(pruned, Drop)
    assert "big" not in {c.id for m in project(pruned).messages for c in m.calls}
    assert prune(pruned) is pruned
    pruned, _ = send(pruned)
    (broke,) = account(pruned).breaks
    assert broke.at == 7
    assert broke.rebilled == 0, "the reply behind it had not been sent yet"
    assert drop.breaks


def test_far_from_the_tail_only_a_cold_cache_pays():
    session = record(Session(), user("go"), assistant(ToolCall("big", "read")))
    session = record(session, tool_result("big", of(300)))
    session = turn(session, user("x"), of(10))
    session = turn(session, user(of(9000)), "ok")
    session = record(session, user("next"))
    prune = partial(prune_suffix, stub_over=9999, drop_over=200)
    assert prune(session) is session
    assert len(decisions(prune(session, cache="cold"), Drop)) == 1


def test_prune_leaves_the_tail_the_flight_and_leading_loops_alone():
    session = rounds(2, size=300)
    last, _ = send(session)
    assert PRUNE(last) is last
    last = reply(last, "completed", assistant())
    assert decisions(prune_suffix(last, stub_over=999, drop_over=200), Drop) == []
    leading = record(Session(), Head(Route("p", "m", binding="leading")), user("go"), Sent())
    leading = record(leading, Reply("completed", assistant(Thinking("t"), ToolCall("c", "r"))))
    leading = record(leading, tool_result("c", of(300)), Sent())
    closed = record(leading, Reply("completed", assistant("x")))
    assert len(decisions(prune_suffix(closed, stub_over=999, drop_over=200), Drop)) == 1
    leading = record(
        leading, Reply("completed", assistant(ToolCall("d", "r"))), tool_result("d", "")
    )
    assert prune_suffix(leading, stub_over=999, drop_over=200) is leading


@pytest.mark.parametrize("arguments", [{"stub_over": 0}, {"drop_over": -1}, {"horizon": -1}])
def test_prune_checks_its_arguments(arguments):
    with pytest.raises(InvalidArgument):
        prune_suffix(Session(), **{"stub_over": 1, "drop_over": 1, **arguments})


def test_exchanges_lie_whole_in_the_range():
    messages = (user("a"), *EXCHANGE, assistant(ToolCall("e", "r")), user("b"))
    assert exchanges(messages, 0, len(messages)) == [(1, 4)]
    assert exchanges(messages, 0, 3) == exchanges(messages, 2, 6) == []


def test_the_plain_kernel_drops_the_last_exchange_only():
    messages = (user("a"), *EXCHANGE)
    assert drop_suffix(messages, lambda m: True) == (user("a"),)
    assert drop_suffix(messages, lambda m: m.call == "c") == messages
    assert drop_suffix((*messages, user("b")), lambda m: True) == (*messages, user("b"))
    assert drop_suffix([user("a")], lambda m: True) == (user("a"),)


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(0, 100))
def test_a_drop_that_pays_costs_less_than_keeping(rest, saved, horizon):
    tail = rest + saved
    keep = (horizon + 1) * tail * 10
    drop = rest * 125 + horizon * rest * 10
    assert pays(tail, saved, horizon=horizon) == (drop <= keep - saved * 10)


# measures


def test_chars4_counts_what_the_model_reads():
    message = assistant(
        "12345", Thinking("123"), ToolCall("c", "read", '{"a":1}'), Opaque("x", "1234")
    )
    assert chars4(message) == -(-(5 + 3 + 4 + 7 + 4) // 4)
    assert chars4(Message("user", (Image("....", "image/png"), Text("12345")))) == 1202
    assert chars4(Head(system="12345")) == 2


@pytest.mark.parametrize("measured", [0, 3, 6, 9])
def test_what_was_measured_is_carried_over_every_rewrite(measured):
    session = rounds(5)
    session.view.slots.total(chars4, measured)
    last = session.view.slots.numbers[-1]
    for decision in (
        Replace(last, tool_result("c4", "short", name="read"), "w"),
        Replace(0, user("do that"), "w", breaks=True),
        Drop(2, 3, "w", breaks=True),
        Cut(6, user("notice"), "w", (0,), breaks=True),
    ):
        session = record(session, decision)
        view = session.view
        for end in range(view.end + 1):
            assert view.slots.total(chars4, end) == sum(map(chars4, view.messages()[:end]))


# pipeline


def test_a_pipeline_is_a_stage_and_a_value():
    cut = partial(select, budget=1000)
    both = pipeline(cut, PRUNE)
    assert both == Pipeline((cut, PRUNE))
    session = rounds(20)
    assert both(session) == PRUNE(cut(session))
    assert pipeline(both)(session) == both(session)
    assert pipeline()(session) is session


@pytest.mark.parametrize("slip", [lambda session: None, send])
def test_a_stage_that_gives_no_session_is_named(slip):
    with pytest.raises(InvalidArgument, match=r"gave (NoneType|tuple), not a session"):
        pipeline(slip)(record(Session(), user("a")))
