"""Replaying recorded sessions: the cache model, the pipelines, the account, the verdict."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxalgebra import (
    Cut,
    Head,
    InvalidArgument,
    Label,
    Message,
    Note,
    Opaque,
    Reply,
    Request,
    Route,
    Sent,
    Session,
    Strip,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UsageReport,
    account,
    assistant,
    chars4,
    pipeline,
    project,
    prune_suffix,
    record,
    reply,
    requests,
    select,
    send,
    system,
    tool_result,
    travel,
    user,
)
from ctxalgebra.breakpoints import Placed
from ctxalgebra.cache_profiles import CacheProfile
from ctxalgebra.profiles import PROFILES, violations
from ctxalgebra.replay import (
    CACHES,
    PIPELINES,
    Outcome,
    Plan,
    Run,
    cache_named,
    cached_how,
    compare,
    compare_reported,
    default_budget,
    ideal,
    plan,
    replay,
    resend,
    rows,
    verdict,
)
from ctxalgebra.replay.replay import _Validity, slide
from ctxalgebra.replay.report import Comparison

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions"

# A conversation as a list of moves; each is legal wherever it stands.
MOVES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "ask",
                "ask",
                "tools",
                "tools",
                "tools",
                "answer",
                "fail",
                "abort",
                "lose",
                "plain",
                "head",
                "think",
                "interject",
                "blank",
            ]
        ),
        st.integers(0, 3),
        st.integers(1, 400),
    ),
    max_size=40,
)
BINDINGS = st.sampled_from(["none", "prefix", "leading"])


def conversation(moves, binding="prefix", provider="anthropic"):
    """Record moves as a harness would, without decisions."""
    session = record(Session(), Head(Route(provider, "m0", binding=binding)), user("begin"))
    for place, (move, number, size) in enumerate(moves):
        text = f"{place}:" + "x" * size
        if move == "ask":
            session = record(session, user(text))
        elif move == "head" and not session.view.holds_loop(-1):
            session = record(session, Head(Route(provider, f"m{number}", binding=binding)))
        elif move == "plain":
            session = record(session, assistant(text))
        elif move in ("answer", "fail", "abort", "lose", "tools", "think", "interject", "blank"):
            session, _ = send(session)
            if move == "interject":
                session = record(session, user(f"meanwhile {text}"))
            if move in ("fail", "lose"):
                session = reply(session, "failed" if move == "fail" else "lost")
            elif move == "abort":
                session = reply(session, "aborted", assistant(text, ToolCall("gone", "read")))
            elif move == "blank":
                session = reply(session, "completed", assistant(" "))
            elif move == "tools":
                ids = [f"c{place}.{i}" for i in range(number + 1)]
                parts = [Thinking(f"t{place}", "s")] if number % 2 else []
                calls = [ToolCall(i, "read") for i in ids]
                session = reply(session, "completed", assistant(*parts, *calls))
                session = record(session, user(f"steer {place}")) if number == 2 else session
                for i in reversed(ids):
                    session = record(session, tool_result(i, text))
            elif move == "think":
                session = reply(session, "completed", assistant(Thinking(text, "s")))
            else:
                session = reply(session, "completed", assistant(text), usage=Usage(input=size))
    return session


def agent(rounds, size=400):
    """Record a long tool loop, a new turn every tenth round."""
    session = record(Session(), Head(Route("anthropic", "m"), "Be brief."))
    for number in range(rounds):
        if not number % 10:
            session = record(session, user(f"turn {number}"))
        session, _ = send(session)
        session = reply(
            session, "completed", assistant(f"step {number}", ToolCall(f"c{number}", "read"))
        )
        session = record(session, tool_result(f"c{number}", f"{number}:" + "x" * size))
    return session


# The cache model


def common(a, b):
    count = 0
    for one, two in zip(a, b, strict=False):
        if one != two:
            break
        count += 1
    return count


HEADS = (Head(), Head(system="other"))


@given(st.lists(st.tuples(st.sampled_from((0, 0, 0, 1)), st.text("ab", max_size=6)), max_size=20))
def test_ideal_cache_finds_the_longest_prefix_of_any_earlier_request(sent):
    cache = ideal()
    state = cache.start
    earlier = []
    for which, letters in sent:
        request = Request(HEADS[which], tuple(user(letter) for letter in letters))
        same = [r for r in earlier if r.head == request.head]
        best = max((common(r.messages, request.messages) for r in same), default=0)
        tokens = sum(map(chars4, request.messages[:best])) + chars4(request.head) * bool(same)
        state, outcome = cache.take(state, cache.place(request))
        assert outcome.read == tokens
        assert outcome.tokens == sum(map(chars4, (request.head, *request.messages)))
        earlier.append(request)


# Resending


@given(MOVES, BINDINGS)
def test_without_decisions_the_requests_are_those_that_were_recorded(moves, binding):
    moves = [move for move in moves if move[0] not in ("plain", "head")]
    recorded = conversation(moves, binding)
    sent = [project(session) for session in resend(recorded, pipeline())]
    assert sent == list(requests(recorded))


def test_a_request_is_made_for_an_assistant_message_that_has_none():
    recorded = record(
        Session(), assistant("hello"), user("a"), assistant(ToolCall("c1", "read")),
        tool_result("c1", "42"), assistant("done"),
    )  # fmt: skip
    sent = [project(session) for session in resend(recorded, pipeline())]
    assert [[m.role for m in r.messages] for r in sent] == [
        ["assistant", "user"],
        ["assistant", "user", "assistant", "tool"],
    ]
    assert all(session.view.sent for session in resend(recorded, pipeline()))


def test_recorded_decisions_labels_notes_and_usage_are_left_out():
    session = record(Session(), user("a" * 40))
    session, _ = send(session)
    session = reply(session, "completed", assistant("b" * 40), usage=Usage(input=90_000))
    session = record(
        session, Cut(0, user("notice"), "test", breaks=True), user("c"), Label(0, "start"),
        Note("host", "x"), UsageReport(1, Usage(input=70_000)),
    )  # fmt: skip
    session, request = send(session)
    assert [m.parts[0].text for m in request.messages] == ["notice", "b" * 40, "c"]
    seen = []
    settle = pipeline(lambda s: seen.append(s) or s)
    sent = [project(s) for s in resend(session, settle)]
    assert [m.parts[0].text for m in sent[1].messages] == ["a" * 40, "b" * 40, "c"]
    # A stage that calibrates would take 27 tokens for 90,000 and cut everything.
    run = replay(session, Plan("mine", pipeline(partial(select, budget=1_000)), 1_000))
    assert (run.breaks, run.largest) == ((), 21)
    assert len(seen) == 2


def test_only_the_path_is_replayed():
    session = record(Session(), user("a"))
    session, _ = send(session)
    session = reply(session, "completed", assistant("b"))
    session, _ = send(record(session, user("left behind")))
    session = travel(reply(session, "failed"), 0)
    session, _ = send(session)
    assert replay(session, plan("none", budget=100)).requests == 1


def test_a_request_without_anything_to_show_is_not_sent():
    # Recorded as plain messages nothing was sent, so the head broke nothing. Replayed it was, and
    # the change of the head hides the thinking: all that there is.
    thought = assistant(Thinking("hm", "s"))
    recorded = record(Session(), thought, thought, Head(Route("other")))
    recorded, _ = send(recorded)
    failed = reply(recorded, "failed")
    done = record(reply(recorded, "completed", assistant("ok")), user("go on"))
    assert len(list(resend(failed, pipeline()))) == 1
    sent = [project(s) for s in resend(send(done)[0], pipeline())]
    assert [m.role for m in sent[-1].messages] == ["assistant", "user"]


def test_heads_hold_from_where_they_were_recorded():
    first, second = (Head(Route("anthropic", model)) for model in ("one", "two"))
    recorded = record(
        Session(), first, user("a"), assistant("b"), second, user("c"), assistant("d")
    )
    assert [project(s).head for s in resend(recorded, pipeline())] == [first, second]


def test_what_a_stage_raises_comes_out():
    def broken(session):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        replay(agent(1), Plan("mine", broken, 100))


# Sliding


def legal(messages, start):
    return start == 0 or messages[start].role != "tool"


@given(MOVES, st.integers(1, 900))
def test_the_window_is_the_longest_legal_one_that_fits(moves, budget):
    for session in resend(conversation(moves), pipeline()):
        view = session.view
        first = slide(view, budget)
        messages = view.messages()
        sizes = [chars4(view.head) + sum(map(chars4, messages[i:])) for i in range(len(messages))]
        assert legal(messages, first)
        fitting = [i for i, size in enumerate(sizes) if size <= budget and legal(messages, i)]
        if fitting:
            assert first == fitting[0]
        else:
            # The last exchange, or the last message.
            assert not any(legal(messages, i) for i in range(first + 1, len(messages)))


def test_a_window_may_begin_with_results_only_where_nothing_else_is():
    session = record(Session(), user("a"), assistant(ToolCall("c1", "read")))
    session = record(session, tool_result("c1", "x" * 4000))
    assert slide(session.view, 10) == 1


# The account


def weigh(recorded, chosen):
    """Do what `replay` does, from its definition."""
    sent = []
    for session in resend(recorded, chosen.settle):
        request = project(session)
        first = slide(session.view, chosen.budget) if chosen.slides else 0
        sent.append((Request(request.head, request.messages[first:]), session.view.broke))
    tokens = [chars4(r.head) + sum(map(chars4, r.messages)) for r, _ in sent]
    cached = 0
    silent = declared = 0
    for index, (request, broke) in enumerate(sent):
        earlier = [r for r, _ in sent[:index] if r.head == request.head]
        if earlier:
            best = max(common(r.messages, request.messages) for r in earlier)
            cached += chars4(request.head) + sum(map(chars4, request.messages[:best]))
        if index and not request.extends(sent[index - 1][0]):
            declared += broke is not None
            silent += broke is None
    invalid = sum(bool(violations(r.messages, PROFILES["anthropic"], head=r.head)) for r, _ in sent)
    return Run(
        chosen.name, len(sent), sum(tokens), cached, cached * 10 + (sum(tokens) - cached) * 125,
        max(tokens, default=0), sum(t > chosen.budget for t in tokens), invalid, silent, declared,
    )  # fmt: skip


@given(MOVES, BINDINGS, st.sampled_from(PIPELINES), st.integers(20, 1_500))
@settings(deadline=None)
def test_the_account_is_what_its_definition_says(moves, binding, name, budget):
    recorded = conversation(moves, binding)
    chosen = plan(name, budget=budget)
    run = replay(recorded, chosen)
    expected = weigh(recorded, chosen)
    apart = ("breaks", "misses", "written", "saved", "__weakref__")
    fields = [f for f in run.__slots__ if f not in apart]
    assert [getattr(run, f) for f in fields] == [getattr(expected, f) for f in fields]
    assert run.written == run.input - run.cached
    assert len(run.breaks) == expected.breaks
    if name != "sliding":
        assert run.silent == 0


@given(MOVES, BINDINGS)
def test_breaks_are_those_that_the_session_accounts_for(moves, binding):
    chosen = plan("paging", budget=200)
    *_, last = [Session(), *resend(conversation(moves, binding), chosen.settle)]
    run = replay(conversation(moves, binding), chosen)
    assert [(b.at, b.why, b.rebilled) for b in run.breaks] == [
        (b.at, b.why, b.rebilled) for b in account(last).breaks
    ]


def test_a_sliding_window_breaks_silently_and_a_change_of_the_head_does_not():
    recorded = record(agent(12), Head(Route("anthropic", "other"), "Be brief."))
    recorded, _ = send(recorded)
    run = replay(recorded, plan("sliding", budget=500))
    assert run.silent > 5
    assert [(b.request, b.at, b.why) for b in run.breaks] == [(12, -1, "the head changed: model")]
    # All but the newest result was in the request before; the head is new as well.
    window = [c for c in project(recorded).messages if c.role == "tool"][-1]
    assert 0 < run.breaks[0].rebilled <= 500 - chars4(window)


def test_paging_replaces_what_no_window_can_hold():
    recorded = record(Session(), user("a"))
    recorded, _ = send(recorded)
    recorded = reply(recorded, "completed", assistant(ToolCall("c1", "read")))
    recorded = record(recorded, tool_result("c1", "x" * 8_000))
    recorded, _ = send(recorded)
    run = replay(recorded, plan("paging", budget=1_000))
    assert (run.over_budget, run.silent, run.breaks) == (0, 0, ())
    assert replay(recorded, plan("none", budget=1_000)).over_budget == 1


def test_paging_measures_less_than_twice_as_often_for_twice_the_session():
    counts = []
    for rounds in (200, 400):
        calls = []

        def counting(value, calls=calls):
            calls.append(1)
            return chars4(value)

        recorded = agent(rounds)
        replay(recorded, plan("paging", budget=2_000, measure=counting), measure=counting)
        counts.append(len(calls))
    assert counts[1] <= 2.1 * counts[0]


def test_any_stage_and_any_cache_can_be_replayed():
    class Nothing:
        start = 0

        def profile(self, route):
            return CacheProfile()

        def place(self, request):
            return Placed(request)

        def take(self, state, placed, *, time=None, began=None):
            tokens = sum(map(chars4, (placed.request.head, *placed.request.messages)))
            return state + 1, Outcome(0, 0, tokens, tokens * 100)

    ticks = []
    stage = pipeline(partial(prune_suffix, stub_over=50, drop_over=10_000))
    run = replay(
        agent(3), Plan("mine", stage, 1_000), cache=Nothing(),
        tick=lambda: ticks.append(1),
    )  # fmt: skip
    assert (run.pipeline, run.cached, run.cost) == ("mine", 0, run.input * 100)
    assert len(ticks) == run.requests == 3


# Validity


PARTS = st.sampled_from(
    [
        (Text("a"),),
        (Text(" "), Text("b")),
        (Opaque("server_tool_use", "{}"),),
        (Opaque("web_search_tool_result", "{}"),),
        (Thinking("t", "s"), Text("c")),
        (Thinking("t"), Text("c")),
        (Thinking("t", "s"),),
        (ToolCall("x", "read"),),
    ]
)


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), PARTS), min_size=1),
    st.sampled_from(sorted(PROFILES)),
    BINDINGS,
    st.data(),
)
@settings(deadline=None, max_examples=300)
def test_judging_only_what_is_new_finds_what_judging_all_finds(drawn, provider, binding, data):
    messages: list[Message] = []
    for place, (role, parts) in enumerate(drawn):
        if role != "assistant" and any(type(p) in (Thinking, ToolCall) for p in parts):
            continue
        if any(type(p) is ToolCall for p in parts):
            messages += [assistant(ToolCall(f"c{place}", "read")), tool_result(f"c{place}", "r")]
        else:
            messages.append(Message(role, parts))
    head = Head(Route(provider, binding=binding))
    validity = _Validity()
    length = 0
    profile = PROFILES[provider]
    while length < len(messages):
        extends = length > 0
        length = data.draw(st.integers(length + 1, len(messages)))
        while length < len(messages) and messages[length].role == "tool":
            length += 1
        request = Request(head, tuple(messages[:length]))
        assert validity.breaks_rules(request, extends=extends) == bool(
            violations(request.messages, profile, head=head)
        )


def test_requests_that_a_provider_refuses_are_counted():
    recorded = record(Session(), Head(Route("bedrock")), assistant("first"))
    recorded, _ = send(recorded)
    recorded = record(reply(recorded, "completed", assistant("b")), user("c"))
    recorded, _ = send(recorded)
    assert replay(recorded, plan("none", budget=100)).invalid == 2
    assert replay(recorded, plan("sliding", budget=1)).invalid == 1


# Plans and comparisons


def limits(chosen):
    return chosen.budget, *(stage.keywords for stage in chosen.settle.stages)


def test_plans_cap_budget_and_target_at_the_window():
    capped = plan("paging", budget=1_000, target=500, window=100)
    assert limits(capped) == limits(plan("paging", budget=100, target=50))
    assert capped.settle.stages[1].keywords["target"] == 50
    for more, same in [
        ({"budget": 100, "window": 200}, {"budget": 100, "target": 62}),
        ({"budget": 8, "target": 1, "window": 1}, {"budget": 1, "target": 1}),
    ]:
        assert limits(plan("paging", **more)) == limits(plan("paging", **same))
    assert limits(plan("none", budget=7)) == (7,)


@pytest.mark.parametrize("bad", [0, -1, True, 1.5])
@pytest.mark.parametrize("name", ["budget", "target", "window"])
def test_tokens_are_positive_integers(name, bad):
    with pytest.raises(InvalidArgument, match=name):
        plan("none", **{"budget": 10, name: bad})
    with pytest.raises(InvalidArgument, match=name):
        compare(agent(1), **{name: bad})


@pytest.mark.parametrize("name", PIPELINES)
def test_a_target_over_the_budget_is_refused_as_select_refuses_it(name):
    for ask in (
        lambda: plan(name, budget=10, target=11),
        lambda: compare(agent(1), pipelines=(name,), budget=10, target=11),
        lambda: select(Session(), budget=10, target=11, window=5),
    ):
        with pytest.raises(InvalidArgument, match="the target 11 is over the budget 10") as caught:
            ask()
        assert (caught.value.code, caught.value.field) == ("invalid-argument", "target")
    assert plan(name, budget=10, target=10).budget == 10


def test_names_are_known_names():
    with pytest.raises(
        InvalidArgument, match="no pipeline 'squeezing': choose from none"
    ) as caught:
        compare(agent(1), pipelines=("none", "squeezing"))
    assert (caught.value.code, caught.value.field) == ("invalid-argument", "pipeline")
    with pytest.raises(InvalidArgument, match="no cache 'hot': choose from ideal"):
        compare(agent(1), cache="hot")


def test_the_default_budget_is_half_of_the_largest_request():
    recorded = agent(40)
    largest = replay(recorded, plan("none", budget=1)).largest
    assert default_budget(recorded) == -(-largest // 2) == compare(recorded).budget
    assert default_budget(recorded, target=100) == 160
    assert default_budget(record(Session(), user("hi"))) == 1_000
    huge = record(Session(), user("x" * 4_000_000))
    huge, _ = send(huge)
    assert default_budget(huge) == 128_000
    assert compare(recorded, window=30).budget == 30


def test_each_pipeline_is_compared_once_and_always_with_sending_everything():
    recorded = agent(30)
    ticks = []
    found = compare(
        recorded,
        pipelines=("paging", "paging"),
        budget=1_500,
        tick=lambda *told: ticks.append(told),
    )
    assert [run.pipeline for run in found.runs] == ["paging"]
    assert found.everything == replay(recorded, plan("none", budget=1_500))
    assert ticks == [(done, 60) for done in range(1, 61)]
    (row,) = rows(found)
    assert row["cost_vs_none"] == round(found.runs[0].cost / found.everything.cost, 4)
    assert row["cached_tokens"] + row["uncached_tokens"] == row["input_tokens"]
    assert row["mean_request_tokens"] == -(-row["input_tokens"] // row["requests"])
    assert row["breaks"]
    assert set(row["breaks"][0]) == {"request", "at", "why", "rebilled"}
    assert row["cache"] in CACHES


def test_a_session_without_requests_has_nothing_to_compare():
    found = compare(record(Session(), user("hi")))
    assert verdict(found) == "The session holds no request, so there is nothing to compare."
    assert [row["cost_vs_none"] for row in rows(found)] == [None] * 4
    assert [row["mean_request_tokens"] for row in rows(found)] == [0] * 4


def run(name, cost=100, *, silent=0, declared=0, over=0, invalid=0):
    one = compare(agent(12), budget=500, pipelines=("paging",)).runs[0].breaks[0]
    return Run(name, 5, 100, 50, cost, 30, over, invalid, silent, (one,) * declared)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (
            [run("sliding", 210, silent=9), run("paging", 65, declared=3)],
            (
                "paging costs 0.65 of sending everything and 0.31 of a sliding window; "
                "3 breaks, none silent."
            ),
        ),
        (
            [run("paging", 65, declared=1, silent=2, over=1, invalid=2)],
            (
                "paging costs 0.65 of sending everything; 3 breaks, 2 silent; "
                "1 request over 1,000 tokens; 2 requests that the provider would refuse."
            ),
        ),
        (
            [run("none"), run("sliding", 210, silent=9)],
            "sliding costs 2.10 of sending everything; 9 breaks, all silent.",
        ),
        (
            [run("none", over=4)],
            (
                "Sending everything is what the others are measured against; "
                "the cache never breaks; 4 requests over 1,000 tokens."
            ),
        ),
    ],
)
def test_the_verdict_is_a_sentence(runs, said):
    assert verdict(Comparison(1_000, "ideal", tuple(runs), run("none"))) == said


# Real sessions


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared session files are absent")
def test_paging_on_a_real_session_pays():
    from ctxalgebra.codecs import load

    decoded = load(SHARED / "pi" / "badlogic__pi-mono__large-session.jsonl")
    found = compare(decoded.session, budget=64_000, target=40_000)
    none, sliding, paging, full = found.runs
    assert (full.silent, full.invalid, full.over_budget) == (0, 0, 0)
    assert full.cost <= 0.9 * paging.cost
    assert (paging.silent, paging.invalid, paging.over_budget) == (0, 0, 0)
    assert len(paging.breaks) <= 4
    assert paging.cost <= 0.33 * sliding.cost
    assert paging.cost <= 0.67 * none.cost
    assert sliding.silent > 10
    assert sliding.over_budget == 0
    assert none.over_budget > 0


REAL = sorted(p for name in ("pi", "openai-chat") for p in (SHARED / name).glob("*"))


@pytest.mark.skipif(not REAL, reason="the shared session files are absent")
@pytest.mark.parametrize("file", REAL, ids=lambda path: path.name)
def test_every_real_session_can_be_replayed(file):
    from ctxalgebra.codecs import load

    found = compare(load(file).session)
    none, sliding, paging, full = found.runs
    assert none.requests == sliding.requests == paging.requests == full.requests > 0
    assert none.silent == paging.silent == full.silent == 0
    assert none.invalid == paging.invalid == full.invalid == 0
    assert full.cost <= 1.02 * paging.cost
    assert paging.input <= none.input + 100 * len(paging.breaks)
    assert verdict(found).startswith("paging costs ")


def test_system_messages_keep_their_place():
    recorded = record(Session(), Head(Route("anthropic")), user("a"), system("be brief"))
    recorded, _ = send(recorded)
    assert replay(recorded, plan("none", budget=100)).invalid == 0


def test_a_recorded_strip_is_left_out():
    recorded = record(Session(), user("a"))
    recorded, _ = send(recorded)
    recorded = reply(recorded, "completed", assistant(Thinking("t", "s"), "b"))
    recorded = record(recorded, user("c"), Strip("a signature was refused", breaks=True))
    recorded, request = send(recorded)
    *_, last = resend(recorded, pipeline())
    assert not any(m.thinks for m in request.messages)
    assert any(m.thinks for m in project(last).messages)


# What is refused


SHORT = record(Session(), user("a"), assistant("b"), user("c"), assistant("d"))


@pytest.mark.parametrize("name", ["x", "Paging", "", "none "])
def test_an_unknown_pipeline_is_told_what_there_is(name):
    for make in (lambda: plan(name, budget=3), lambda: compare(SHORT, pipelines=(name,))):
        with pytest.raises(InvalidArgument) as caught:
            make()
        assert (caught.value.code, caught.value.field) == ("invalid-argument", "pipeline")
        assert caught.value.message == (
            f"there is no pipeline {name!r}: choose from none, sliding, paging, full"
        )


def test_one_name_is_no_sequence_of_names():
    with pytest.raises(InvalidArgument) as caught:
        compare(SHORT, pipelines="none")
    assert (caught.value.code, caught.value.field) == ("wrong-type", "pipelines")
    assert caught.value.message == "expected a sequence of names, got one text: say ['none']"
    assert [run.pipeline for run in compare(SHORT, pipelines=["none"]).runs] == ["none"]


def test_without_a_pipeline_the_verdict_speaks_of_everything():
    found = compare(SHORT, pipelines=())
    assert (found.runs, rows(found)) == ((), [])
    assert verdict(found) == verdict(compare(SHORT, pipelines=("none",)))


@pytest.mark.parametrize("wrong", [3, None, [], b"x", 1.5])
def test_arguments_of_the_wrong_type_have_a_code(wrong):
    sound = plan("none", budget=10)
    tries = [
        lambda: plan(wrong, budget=3),
        lambda: plan("paging", budget=3, measure=wrong),
        lambda: Plan(wrong, pipeline(), 3),
        lambda: Plan("mine", wrong, 3),
        lambda: Plan("mine", pipeline(), 3, slides=wrong),
        lambda: compare(wrong),
        lambda: compare(SHORT, pipelines=[wrong]),
        lambda: compare(SHORT, cache=wrong),
        lambda: compare(SHORT, breakpoints=wrong),
        lambda: compare(SHORT, measure=wrong),
        lambda: compare(SHORT, budget=9, measure=wrong),
        lambda: compare(SHORT, tick=wrong),
        lambda: cache_named(wrong),
        lambda: cache_named("ideal", wrong),
        lambda: compare_reported(SHORT, wrong),
        lambda: replay(SHORT, wrong),
        lambda: replay(SHORT, sound, measure=wrong),
        lambda: replay(SHORT, sound, tick=wrong),
        lambda: list(resend(SHORT, wrong)),
        lambda: list(resend(wrong, pipeline())),
        lambda: default_budget(wrong),
        lambda: default_budget(SHORT, measure=wrong),
        lambda: rows(wrong),
        lambda: verdict(wrong),
        lambda: cached_how(wrong),
    ]
    if wrong != []:
        tries.append(lambda: compare(SHORT, pipelines=wrong))
    if wrong is not None:
        tries.append(lambda: replay(SHORT, sound, cache=wrong))
    for attempt in tries:
        with pytest.raises(InvalidArgument) as caught:
            attempt()
        assert caught.value.code == "wrong-type"
    with pytest.raises(InvalidArgument, match="invalid-argument"):
        Plan("mine", pipeline(), -3 if wrong == 3 else wrong)
    if type(wrong) is not int and wrong is not None:
        with pytest.raises(InvalidArgument, match="invalid-argument"):
            default_budget(SHORT, target=wrong)


def test_how_many_requests_have_a_time_is_said():
    session, told = Session(), []
    for time in (5, None, 7):
        session = record(session, user("a"), Sent(time=time), Reply("completed", assistant("b")))
        told.append(cached_how(compare(session, cache="gemini", budget=9)).splitlines()[0])
    start = "Cache gemini, breakpoints default. "
    assert told == [
        f"{start}The request has a time.",
        f"{start}Only 1 of 2 requests has a time; for the others nothing expires.",
        f"{start}Only 2 of 3 requests have a time; for the others nothing expires.",
    ]


@pytest.mark.parametrize("stages", [("x",), ("limit", "Select"), "limit"])
def test_an_unknown_stage_is_told_what_there_is(stages):
    with pytest.raises(InvalidArgument) as caught:
        plan("full", budget=300, stages=stages)
    assert (caught.value.code, caught.value.field) == ("invalid-argument", "stages")
    assert "compact, limit, fact, tag, prune, select" in caught.value.message


def test_stages_of_full_can_be_chosen():
    recorded = agent(12)
    paging = replay(recorded, plan("paging", budget=500))
    chosen = replay(recorded, plan("full", budget=500, stages=("prune", "select")))
    assert (chosen.cost, len(chosen.breaks)) == (paging.cost, len(paging.breaks))
    assert replay(recorded, plan("full", budget=500, stages=())).breaks == ()
