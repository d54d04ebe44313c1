"""Results that may go: which are asked about, what counts as an answer, when a stub is shown."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Answer,
    Ask,
    Cut,
    Drop,
    Head,
    Image,
    InvalidArgument,
    Opaque,
    Replace,
    Route,
    Session,
    Text,
    Thinking,
    ToolCall,
    account,
    assistant,
    forget,
    pending,
    pipeline,
    project,
    record,
    reply,
    savings,
    select,
    send,
    tag_results,
    tool_result,
    travel,
    user,
)
from ctxalgebra.codecs import journal
from ctxalgebra.transforms.tagging import default_forgotten, default_tag_prompt

BIG = "x" * 40_000
DROP = '{"decision":"DROP"}'

tag = partial(tag_results, regret=1)
go = partial(forget, regret=1)


def called(session: Session, *calls: ToolCall) -> Session:
    """Let the model call tools, as the reply to a request."""
    return reply(send(session)[0], "completed", assistant(*calls))


def answered(session: Session, value: str = DROP, outcome: str = "answered") -> Session:
    """Ask about what is new, and give every question this answer."""
    session = tag(session)
    return record(session, *(Answer(p.number, outcome, value) for p in pending(session)))


def reading(text: str = BIG, name: str = "read", arguments: str = '{"path":"a"}') -> Session:
    """Make a session with one result that nobody has read."""
    session = called(record(Session(), user("go")), ToolCall("c1", name, arguments))
    return record(session, tool_result("c1", text))


def read(session: Session) -> Session:
    """Let the model read what there is, and look at something small."""
    return record(called(session, ToolCall("n", "ls")), tool_result("n", "a"))


def texts(session: Session) -> list[str]:
    return [p.text for m in project(session).messages for p in m.parts if isinstance(p, Text)]


def test_a_result_goes_after_it_was_read_and_not_before():
    session = answered(reading())
    assert go(session) is session
    after = go(read(session))
    assert texts(after)[1] == default_forgotten(ToolCall("c1", "read", '{"path":"a"}'), 10_000)
    assert texts(after)[0] == "go"
    request = project(after)
    assert [m.role for m in request.messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert go(after) is after
    assert "let go" in texts(send(reply(send(after)[0], "failed"))[0])[1]


@pytest.mark.parametrize(
    "value",
    ["", "drop it", '"DROP"', '["DROP"]', "null", '{"decision":"drop"}', '{"Decision":"DROP"}',
     '{"decision":"RETAIN"} (do not drop)', "RETAIN - do not drop this", "[" * 100_000],
)  # fmt: skip
def test_only_the_exact_object_lets_a_result_go(value):
    session = read(answered(reading(), value))
    assert go(session) is session


@pytest.mark.parametrize("outcome", ["failed", "expired"])
def test_a_failure_keeps_the_result(outcome):
    session = read(answered(reading(), DROP, outcome))
    assert go(session) is session


@pytest.mark.parametrize(
    "session",
    [
        reading("small"),
        reading(" " * 40_000),
        reading(name="bash"),
        record(called(record(Session(), user("a")), ToolCall("c1", "read")),
               tool_result("c1", BIG, error=True)),
        send(reading())[0],
        called(reading(), ToolCall("c2", "ls")),
        record(Session(), user("x" * 40_000)),
    ],
)  # fmt: skip
def test_nothing_is_asked_about(session):
    assert tag(session) is session


def test_a_question_must_be_worth_its_price():
    assert tag_results(reading()) is not tag(reading())
    assert tag_results(reading()).leaf is reading().leaf or not pending(tag_results(reading()))
    assert pending(tag_results(reading(), aux=1))
    assert pending(tag(reading("x" * 4000), horizon=20))
    assert not pending(tag(reading("x" * 4000), horizon=5))  # 500 tokens saved, some 700 asked
    two = called(
        record(Session(), user("x" * 1000)), ToolCall("c1", "read"), ToolCall("c2", "read")
    )
    two = record(two, tool_result("c1", BIG), tool_result("c2", BIG))
    price = -(-len(pending(tag(two))[0].ask.question) // 4) * 100
    for asks in range(3):
        regret = (20_000 + 250) * 125 // (price * asks + price // 2)
        assert len(pending(tag_results(two, regret=regret))) == asks


def test_the_question_holds_the_beginning_and_says_what_is_left_out():
    (question,) = pending(tag(reading("a" * 30_000 + "b" * 10_000), longest=7, shown=5))
    told = json.loads(question.ask.question)
    assert "<result>\naaaaa\n[39995 more characters]\n</result>" in told["prompt"]
    assert told["longest"] == 7
    assert list(told) == ["longest", "prompt"]
    assert question.ask.key == "tag:3"
    assert tag(tag(reading())) == tag(reading())
    assert len(default_tag_prompt(ToolCall("c", "read", BIG), "t")) < 1500
    assert len(default_forgotten(ToolCall("c", "read", BIG), 3)) < 400


def test_results_of_one_round_are_judged_one_by_one():
    calls = [ToolCall(f"c{n}", "read", f'{{"path":"{n}"}}') for n in range(3)]
    session = called(record(Session(), user("go")), *calls)
    session = tag(record(session, *(tool_result(c.id, BIG + c.id) for c in calls)))
    verdicts = [DROP, '{"decision":"RETAIN"}', DROP]
    asks = pending(session)
    session = record(
        session, *(Answer(p.number, "answered", v) for p, v in zip(asks, verdicts, strict=True))
    )
    after = go(read(session))
    assert [len(t) > 40_000 for t in texts(after)[1:4]] == [False, True, False]
    assert [m.call for m in project(after).messages if m.role == "tool"] == ["c0", "c1", "c2", "n"]
    assert len(account(send(after)[0]).breaks) == 1


def test_a_call_that_comes_again_after_its_result_went_is_kept():
    session = go(read(answered(reading())))
    again = called(session, ToolCall("c9", "read", '{"path":"a"}'))
    assert not pending(tag(record(again, tool_result("c9", BIG))))
    other = called(session, ToolCall("c9", "read", '{"path":"b"}'))
    assert pending(tag(record(other, tool_result("c9", BIG))))


def test_the_same_call_in_another_spelling_is_the_same():
    first = '{"path":"a","limit":{"from":1,"to":2}}'
    session = go(read(answered(reading(arguments=first))))
    for arguments in (
        '{ "limit": {"to": 2, "from": 1},\n"path": "\\u0061" }',
        first,
    ):
        again = called(session, ToolCall("c9", "read", arguments))
        assert not pending(tag(record(again, tool_result("c9", BIG))))
    for arguments in ('{"path":"a","limit":{"from":1,"to":2.0}}', "[]", '{"path":"a"'):
        other = called(session, ToolCall("c9", "read", arguments))
        assert pending(tag(record(other, tool_result("c9", BIG))))
    broken = go(read(answered(reading(arguments='{"path"'))))
    again = called(broken, ToolCall("c9", "read", '{"path"'))
    assert not pending(tag(record(again, tool_result("c9", BIG))))


def test_it_holds_for_a_journal_that_was_stored_and_for_each_branch():
    session = read(answered(reading()))
    restored = journal.decode(journal.encode(session)).session
    assert texts(go(restored)) == texts(go(session))
    away = record(travel(session, 0), user("elsewhere"))
    assert go(away) is away


def test_a_break_waits_until_its_price_is_covered():
    session = answered(reading())
    session = called(session, ToolCall("c2", "bash"))
    session = record(session, tool_result("c2", "y" * 8_000))
    assert forget(session, regret=1_000_000) is session
    assert forget(session, regret=1, horizon=0) is session  # and until it is expected to pay
    after = go(session)
    (decision,) = [w for w in savings(send(after)[0]).decisions if w.mechanism == "tag"]
    why = after.leaf.entry.why
    assert why.startswith("tag: 10000 tokens, read; pays after ")
    assert decision.tally.rebilled > 0


def test_it_only_gets_dearer_later():
    session = read(answered(reading()))
    later = record(called(session, ToolCall("m", "ls")), tool_result("m", "b"))
    assert go(later) is later
    assert go(later, cache="cold") is not later


def test_behind_a_pending_break_it_is_free():
    session = answered(reading(), "")
    session = record(
        called(session, ToolCall("c2", "read", '{"path":"b"}')), tool_result("c2", BIG)
    )
    session = read(answered(session))
    later = record(called(session, ToolCall("m", "ls")), tool_result("m", "b"))
    assert go(later) is later
    changed = record(later, Head(system="new"))
    after = forget(changed, regret=1_000_000_000, horizon=0)
    assert after.leaf.entry.why.endswith("; free")
    assert sum(len(t) > 10_000 for t in texts(after)) == 1
    assert forget(after, regret=1_000_000_000, horizon=0) is after
    first = Replace(3, tool_result("c1", "gone", name=""), "mine", breaks=True)
    assert go(record(later, first)) is not later
    behind = record(
        later, Replace(later.view.slots.numbers[-1], tool_result("m", "other"), "mine", breaks=True)
    )
    assert go(behind) is behind


def test_what_left_otherwise_is_forgotten():
    session = read(answered(reading()))
    numbers = session.view.slots.numbers
    cut = record(session, Cut(numbers[2], user("..."), "over", keep=(0,), breaks=True))
    assert go(cut, cache="cold") is cut
    drop = record(session, Drop(numbers[1], numbers[2], "read", breaks=True))
    assert go(drop, cache="cold") is drop
    mine = record(session, Replace(numbers[2], tool_result("c1", "mine"), "mine", breaks=True))
    assert go(mine, cache="cold") is mine
    small = (
        record(session, Drop(numbers[3], numbers[4], "small", breaks=True)) if False else session
    )
    assert go(small) is not small


def test_a_stub_that_is_no_smaller_and_what_must_stay():
    long = partial(go, stub=lambda call, tokens: "y" * 80_000)
    session = read(answered(reading()))
    assert long(session) is session
    parts = (Text(BIG), Opaque("x", "{}"), Image("aGk=", "image/png"))
    session = called(record(Session(), user("go")), ToolCall("c1", "read"))
    session = read(answered(record(session, tool_result("c1", parts))))
    kept = project(go(session)).messages[2].parts
    assert [type(part) for part in kept] == [Text, Opaque]


def test_leading_thinking_holds_it_up_until_the_next_user_message():
    head = Head(route=Route("bedrock", "m", binding="leading"))
    session = called(record(Session(), head, user("go")), ToolCall("c1", "read"))
    session = answered(record(session, tool_result("c1", BIG)))
    session = reply(send(session)[0], "completed",
                    assistant(Thinking("t", "s"), ToolCall("c2", "ls")))  # fmt: skip
    session = record(session, tool_result("c2", "a"))
    assert go(session) is session
    free = record(called(session, ToolCall("c3", "ls")), tool_result("c3", "a"))
    assert go(free, cache="cold") is free
    closed = reply(send(free)[0], "completed", assistant("done"))
    assert go(record(closed, user("next")), cache="cold") is not closed


def test_thinking_that_goes_with_the_first_change_may_open_the_loop_again():
    head = Head(route=Route("bedrock", "m", binding="leading"))
    thinking = (Thinking("t", "s"), ToolCall("c2", "read"))
    session = called(record(Session(), head, user("go")), ToolCall("c1", "read"))
    session = answered(record(session, tool_result("c1", BIG)))
    session = reply(send(session)[0], "completed", assistant(*thinking))
    session = answered(record(session, tool_result("c2", BIG)))
    session = reply(send(session)[0], "completed", assistant(Thinking("u", "s")))
    after = go(session, cache="cold")
    assert [len(t) > 10_000 for t in texts(after)[1:]] == [True, False]
    assert go(after, cache="cold") is after


def test_a_question_about_what_is_no_result():
    session = record(reading(), Ask("tag:0", "tag", "?"))
    session = record(session, Answer(len(session) - 1, "answered", DROP))
    mine = record(session, Replace(0, user("went"), "tag: by hand", breaks=True))
    assert go(read(mine), cache="cold") == read(mine)
    assert go(read(session), cache="cold") == read(session)


def test_questions_of_others_are_no_tags():
    session = reading()
    for key in ("tag:3", "tag:x", "tag:", "3", "tag:-1", "tag:" + "9" * 5000):
        for topic in ("tag", "other"):
            asked = record(session, Ask(key, topic, "?"))
            asked = record(asked, Answer(len(asked) - 1, "answered", DROP))
            done = go(read(asked), cache="cold")
            gone = "let go" in "".join(texts(done))
            assert gone == (key == "tag:3" and topic == "tag")
    twice = record(session, Ask("tag:3", "tag", "?"), Ask("tag:3", "tag", "?"))
    assert len(twice) == len(session) + 2


def test_who_lets_a_result_go_by_hand_has_let_it_go():
    call = ToolCall("c1", "read")
    session = record(Session(), user("go"), assistant(call), tool_result("c1", BIG))
    session = answered(session)
    session = record(session, assistant("ok"), user("on"))
    stub = tool_result("c1", "mine")
    mine = record(session, Replace(2, stub, "tag: mine", breaks=True))
    assert go(mine, cache="cold") is mine


@given(st.lists(st.integers(0, 3), max_size=12), st.sampled_from([1, 5, 50]))
def test_it_never_costs_more_than_the_part_that_may_be_lost(moves, regret):
    """Compare with doing nothing over arbitrary continuations, questions included."""
    settle = pipeline(partial(tag_results, regret=regret, over=1), partial(forget, regret=regret))

    def cost(managed: bool) -> int:
        session = record(Session(), user("x" * 20_000))
        total = 0
        for number, move in enumerate(moves):
            if managed:
                session = settle(session)
                for p in pending(session):
                    session = record(session, Answer(p.number, "answered", DROP))
                    total += (-(-len(p.ask.question) // 4) + -(-len(DROP) // 4)) * 100
                session = settle(session)
            call = ToolCall(f"c{number}", "read", f'{{"n":{number}}}')
            session = called(session, call)
            session = record(session, tool_result(call.id, "y" * 10**move * 10))
        accounts = account(session)
        return total + accounts.shared * 10 + (accounts.rebilled + accounts.fresh) * 125

    assert cost(managed=True) <= cost(managed=False) * (regret + 1) // regret


def test_arguments_are_checked():
    session = reading()
    for call in (
        lambda: tag_results(5),
        lambda: tag_results(session, over=0),
        lambda: tag_results(session, tools="read"),
        lambda: tag_results(session, tools=(1,)),
        lambda: tag_results(session, horizon=-1),
        lambda: tag_results(session, aux=-1),
        lambda: tag_results(session, regret=0),
        lambda: tag_results(session, deadline=0),
        lambda: tag_results(session, prompt=3),
        lambda: tag(session, prompt=lambda call, text: 3),
        lambda: forget(5),
        lambda: forget(session, regret=0),
        lambda: forget(session, horizon=-1),
        lambda: forget(session, cache="lukewarm"),
        lambda: forget(session, stub=3),
        lambda: go(read(answered(session)), stub=lambda call, tokens: 3),
        lambda: default_tag_prompt(5, "x"),
        lambda: default_tag_prompt(ToolCall("a", "b"), 5),
        lambda: default_forgotten(5, 5),
        lambda: default_forgotten(ToolCall("a", "b"), "x"),
    ):
        with pytest.raises(InvalidArgument):
            call()


def test_with_select_in_front_it_settles_at_once():
    session = read(answered(reading()))
    settle = pipeline(partial(select, budget=5_000, cache="cold"), partial(go, cache="cold"))
    once = settle(session)
    assert settle(once) is once
