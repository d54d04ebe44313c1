"""Breakpoints: where they may stand, how far they look back, what a plan saves and never costs."""

from __future__ import annotations

import random

import pytest
from attrs import evolve
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ctxalgebra import (
    Head,
    Image,
    InvalidArgument,
    Message,
    Opaque,
    Replace,
    Request,
    Route,
    Session,
    Text,
    Thinking,
    Tool,
    ToolCall,
    assistant,
    chars4,
    pipeline,
    record,
    reply,
    send,
    tool_result,
    user,
)
from ctxalgebra.breakpoints import (
    NOWHERE,
    TOOLS,
    Placed,
    carries,
    common_place,
    default_breakpoints,
    last_place,
    looks_back,
    plan_breakpoints,
    rendered,
    shows_image,
)
from ctxalgebra.cache_profiles import CacheProfile, cache_profile
from ctxalgebra.model.view import HEAD
from ctxalgebra.replay import Anthropic, Plan, cache_named, replay

PROFILE = CacheProfile("test", 512)
SYSTEM = Head(Route("anthropic", "claude-opus-5"), "s" * 4000)

# Hostile requests


MODELS = ("claude-opus-5", "claude-opus-4-6", "claude-haiku-4-5", "claude-opus-4-1", "unknown")
SIZES = st.sampled_from((1, 30, 400, 3000, 20_000))


def texts(size):
    return "x" * size


PARTS = st.one_of(
    SIZES.map(lambda size: Text(texts(size))),
    st.sampled_from((Text(""), Text(" \n"), Image("QUJD", "image/png"))),
    st.sampled_from(("document", "web_search_tool_result", "container_upload")).map(
        lambda kind: Opaque(kind, "{}")
    ),
)
ASSISTANT_PARTS = st.one_of(
    PARTS, SIZES.map(lambda size: Thinking(texts(size), "s")), st.just(ToolCall("c", "read"))
)
MESSAGES = st.one_of(
    st.lists(PARTS, max_size=3).map(lambda parts: Message("user", tuple(parts))),
    st.lists(ASSISTANT_PARTS, max_size=4).map(lambda parts: Message("assistant", tuple(parts))),
    SIZES.map(lambda size: tool_result("c", texts(size))),
    st.just(Message("system", "note")),
)
# Runs make it likely that something is out of reach.
LISTS = st.lists(st.tuples(MESSAGES, st.sampled_from((1, 1, 1, 2, 7, 25))), max_size=12).map(
    lambda runs: tuple(message for message, count in runs for _ in range(count))
)
PARAMETERS = st.sampled_from(("tool_choice", "effort", "speed", "mystery", "")).map(
    lambda name: ((name, '"high"'),) if name else ()
)
HEADS = st.builds(
    Head,
    st.builds(Route, st.just("anthropic"), st.sampled_from(MODELS), PARAMETERS),
    st.sampled_from(("", " ", "s" * 3000, "t" * 30_000)),
    st.sampled_from(((), (Tool("read"),), (Tool("read", "d" * 9000), Tool("write", "d" * 9000)))),
)
REQUESTS = st.builds(Request, HEADS, LISTS)


@st.composite
def pairs(draw):
    """Draw a request and one that was made of it: appended to, cut, edited, or another one."""
    earlier = draw(REQUESTS)
    messages = list(earlier.messages)
    head = draw(st.sampled_from((earlier.head,) * 4) | HEADS)
    if messages and draw(st.booleans()):
        place = draw(st.integers(0, len(messages) - 1))
        edit = draw(st.sampled_from(("replace", "remove", "insert", "truncate")))
        if edit == "truncate":
            del messages[place:]
        elif edit == "remove":
            del messages[place]
        elif edit == "insert":
            messages.insert(place, draw(MESSAGES))
        else:
            messages[place] = draw(MESSAGES)
    return earlier, Request(head, (*messages, *draw(LISTS)))


@st.composite
def placed(draw, request):
    """Place breakpoints in one of the ways that there are, or anywhere."""
    how = draw(st.sampled_from(("default", "two", "planned", "anywhere")))
    if how == "default":
        return default_breakpoints(request)
    if how == "two":
        return default_breakpoints(request, tail=2)
    if how == "planned":
        return plan_breakpoints(None, request, cache_profile(request.head.route))
    places = [p for p in range(TOOLS, len(request.messages)) if carries(request, p)]
    chosen = draw(st.lists(st.sampled_from(places), max_size=4, unique=True)) if places else []
    return Placed(request, tuple(sorted(chosen)), draw(st.integers(0, 2)))


CACHE = Anthropic()


def cost(before, now, times=(None, None)):
    state, _ = CACHE.take(CACHE.start, before, time=times[0], began=times[0])
    return CACHE.take(state, now, time=times[1], began=times[1])[1]


# What holds for every plan


@given(st.data(), pairs(), st.sampled_from((1, 2, 3)))
def test_a_plan_never_costs_more_than_the_default_on_the_same_pair(data, pair, tail):
    earlier, now = pair
    before = data.draw(placed(earlier))
    times = data.draw(st.sampled_from(((None, None), (0, 1000), (0, 300_000), (0, 3_600_000))))
    planned = plan_breakpoints(before, now, cache_profile(now.head.route))
    usual = default_breakpoints(now, tail=tail)
    assert cost(before, planned, times).cost <= cost(before, usual, times).cost


@given(st.data(), pairs())
def test_a_plan_reads_the_last_entry_in_front_of_what_changed(data, pair):
    earlier, now = pair
    profile = cache_profile(now.head.route)
    before = data.draw(placed(earlier))
    planned = plan_breakpoints(before, now, profile)
    common = common_place(rendered(now, profile), rendered(earlier, profile))
    tokens = {
        place: cost(Placed(now), Placed(now, (place,))).written
        for place in before.breakpoints
        if place <= common
    }
    assert cost(before, planned).read == max(tokens.values(), default=0)


@given(st.data(), pairs(), st.integers(1, 4))
def test_a_plan_has_its_form(data, pair, most):
    earlier, now = pair
    profile = evolve(cache_profile(now.head.route), breakpoints=most)
    before = data.draw(placed(earlier))
    planned = plan_breakpoints(before, now, profile, long=1)
    places = planned.breakpoints
    assert (planned.request, planned.long) == (now, 1)
    # C2: no more than there may be. C4: none that would be ignored.
    assert len(places) <= most
    written = [cost(Placed(now), Placed(now, (place,))).written for place in places]
    assert all(tokens >= profile.minimum for tokens in written)
    # The last message that can carry one has one, unless all is too short to be cached.
    end = last_place(now, len(now.messages) - 1)
    if end > NOWHERE and cost(Placed(now), Placed(now, (end,))).written:
        assert places[-1] == end
    # So has the end of what the two requests share.
    common = common_place(rendered(now, profile), rendered(earlier, profile))
    shared = last_place(now, common)
    if most > 1 and shared > NOWHERE and cost(Placed(now), Placed(now, (shared,))).written:
        assert shared in places


@given(st.data(), pairs())
def test_where_nothing_changed_nothing_moves(data, pair):
    earlier, now = pair
    profile = cache_profile(now.head.route)
    first = plan_breakpoints(data.draw(placed(earlier)), now, profile)
    assert plan_breakpoints(first, now, profile) == first


@given(REQUESTS, LISTS)
def test_what_is_appended_leaves_the_ends_marked(request, more):
    profile = cache_profile(request.head.route)
    if profile.strips or any(shows_image((message,)) == 0 for message in more):
        return  # then an earlier message changes
    first = plan_breakpoints(None, request, profile)
    longer = Request(request.head, request.messages + more)
    second = plan_breakpoints(first, longer, profile)
    assert set(first.breakpoints[-1:]) <= set(second.breakpoints)
    assert set(first.breakpoints) & {HEAD, TOOLS} <= set(second.breakpoints)


# Whole sessions


def exchanges(count, size, model="claude-opus-5"):
    """Record a long tool loop."""
    session = record(Session(), Head(Route("anthropic", model), "s" * 4000), user("go"))
    for number in range(count):
        session, _ = send(session)
        call = ToolCall(f"c{number}", "read", f'{{"path":"{number}.py"}}')
        session = reply(session, "completed", assistant(f"step {number} " + "t" * 800, call))
        text = f"{number}:" + "x" * (size * (1 + number * 7 % 5) // 3)
        session = record(session, tool_result(f"c{number}", text))
    return session


def clearing(keep):
    """Replace each result, once it is older than the newest ones, by a word."""

    def stage(session):
        view = session.view
        results = [s for s in range(view.end) if view.slots.messages[s].role == "tool"]
        for slot in results[:-keep]:
            message, number = view.slots.messages[slot], view.slots.numbers[slot]
            if message.parts != (Text("[cleared]"),):
                small = tool_result(message.call, "[cleared]")
                session = record(session, Replace(number, small, "old", breaks=True))
        return session

    return stage


@given(st.integers(1, 3), st.integers(80, 100), st.integers(600, 4000))
@settings(max_examples=8)
@example(3, 80, 4000)
def test_tail_edits_cost_at_most_half_of_what_they_do_by_default(keep, count, size):
    recorded, chosen = exchanges(count, size), Plan("clearing", clearing(keep), 1_000_000)
    default, planned, best = (
        replay(recorded, chosen, cache=cache_named(name), planned=planned).cost
        for name, planned in (("anthropic", False), ("anthropic", True), ("ideal", False))
    )
    assert 2 * planned <= default
    assert best <= planned <= 1.02 * best


def test_the_ranking_of_tail_edits_reverses_and_comes_back():
    """The figures of docs/explanation/breakpoints.md are those of a session like this one."""
    recorded = exchanges(150, 4000)
    everything = Plan("all", pipeline(), 1_000_000)
    edits = Plan("clearing", clearing(3), 1_000_000)

    def ratio(cache, planned):
        costs = [
            replay(recorded, chosen, cache=cache_named(cache), planned=planned).cost
            for chosen in (edits, everything)
        ]
        return costs[0] / costs[1]

    assert 0.55 < ratio("ideal", planned=False) < 0.65
    assert ratio("anthropic", planned=False) > 2
    assert 0.55 < ratio("anthropic", planned=True) < 0.65


def test_what_is_shown_once_at_the_end_is_expected_there_again():
    """An ephemeral last message changes each time; the plan has an entry in front of it."""
    history = [user("go" * 2000)]
    previous, state, missed = None, CACHE.start, []
    for number in range(8):
        now = Request(SYSTEM, (*history, user(f"status {number}")))
        previous = plan_breakpoints(previous, now, cache_profile(SYSTEM.route))
        state, outcome = CACHE.take(state, previous)
        missed.append(outcome.written)
        history += [assistant(f"answer {number}"), user("next" * 100 * (1 + number % 3))]
    # Written are only the two new messages and the status, from the third request on.
    news = [chars4(assistant("answer 0")) + 100 * (1 + n % 3) for n in range(7)]
    assert missed[3:] == [tokens + chars4(user("status 0")) for tokens in news[2:]]


def edited_at_random(draw, steps):
    """Give requests that grow by some messages each, and are edited near the end or taken back."""
    messages, number = [user("go")], 0
    earlier = [tuple(messages)]
    for _ in range(draw.randint(5, 60)):
        for _ in range(draw.choice(steps)):
            number += 1
            text = f"{number} " + "x" * draw.choice((10, 200, 2000, 8000))
            messages.append(draw.choice((user, assistant))(text))
        if draw.random() < 0.3:
            place = max(-len(messages), -draw.choice((1, 2, 3, 6, 15, 50)))
            edit = draw.choice(("replace", "delete", "cut", "return"))
            if edit == "replace":
                messages[place] = user(f"[edit {number}]")
            elif edit == "delete":
                del messages[place]
            elif edit == "cut":
                messages = messages[: place or None]
            else:
                messages = [*draw.choice(earlier)]
        earlier.append(tuple(messages))
        yield Request(SYSTEM, tuple(messages))


@pytest.mark.parametrize(("steps", "most"), [((2,), 1.0), ((1, 2, 3, 12, 40), 0.65)])
def test_on_random_edits_plans_cost_less_on_the_whole(steps, most):
    totals, profile = [0, 0, 0], cache_profile(SYSTEM.route)
    for seed in range(60):
        costs = []
        for tail in (1, 2, 0):
            previous, state, sum_ = None, CACHE.start, 0
            for now in edited_at_random(random.Random(seed), steps):
                if tail:
                    previous = default_breakpoints(now, tail=tail)
                else:
                    previous = plan_breakpoints(previous, now, profile)
                state, outcome = CACHE.take(state, previous)
                sum_ += outcome.cost
            costs.append(sum_)
        assert costs[2] <= 1.125 * min(costs)
        totals = [total + one for total, one in zip(totals, costs, strict=True)]
    assert totals[2] < most * min(totals[:2])


def test_appending_reads_everything_that_was_sent_before():
    recorded = exchanges(30, 900)
    run = replay(recorded, Plan("all", pipeline(), 10**9), cache=Anthropic(), planned=True)
    default = replay(recorded, Plan("all", pipeline(), 10**9), cache=Anthropic())
    assert run == default
    assert dict(run.misses) == {"previous_message_not_found": 1}


def test_a_plan_measures_what_is_new_not_the_session():
    counts = []
    for length in (500, 4000):
        calls = []

        def counting(value, calls=calls):
            calls.append(1)
            return chars4(value)

        messages = tuple(user("x" * 900) for _ in range(length))
        first = plan_breakpoints(None, Request(SYSTEM, messages), PROFILE)
        now = Request(SYSTEM, (*messages, user("more")))
        plan_breakpoints(first, now, PROFILE, measure=counting)
        counts.append(len(calls))
    assert counts[0] == counts[1] <= 2


# Places


@pytest.mark.parametrize(
    ("message", "carried"),
    [
        (user("a"), True),
        (user(""), False),
        (user(" \n"), False),
        (user(()), False),
        (user((Text("a"), Text(""))), False),
        (user((Image("QUJD", "image/png"),)), True),
        (user((Opaque("document", "{}"),)), True),
        (user((Opaque("mystery", "{}"),)), False),
        (assistant(Thinking("t", "s")), False),
        (assistant("a", Thinking("t", "s")), False),
        (assistant(Thinking("t", "s"), "a"), True),
        (assistant(Thinking("t", redacted=True)), False),
        (assistant(ToolCall("c", "read")), True),
        (assistant(Opaque("server_tool_use", "{}")), True),
        (assistant(Opaque("web_search_tool_result", "{}")), True),
        (tool_result("c", ""), True),
        (tool_result("c", ()), True),
    ],
)
def test_what_carries_a_breakpoint(message, carried):
    request = Request(Head(), (message,))
    assert carries(request, 0) == carried
    assert last_place(request, 0) == (0 if carried else NOWHERE)


def test_the_head_carries_breakpoints_behind_what_it_has():
    request = Request(Head(system="s", tools=(Tool("t"),)), ())
    assert [carries(request, place) for place in (NOWHERE, TOOLS, HEAD)] == [False, True, True]
    blank = Request(Head(system=" \n", tools=(Tool("t"),)), ())
    assert default_breakpoints(blank).breakpoints == (TOOLS,)
    assert default_breakpoints(Request(Head(), ())).breakpoints == ()
    assert default_breakpoints(Request(Head(), (user(""),)), tail=2).breakpoints == ()


def test_the_default_marks_the_ends_of_the_last_turns():
    messages = (
        user("a"), assistant("b"), user("c"), user("d"), assistant(ToolCall("1", "r")),
        assistant(ToolCall("2", "r")), tool_result("1", "e"), tool_result("2", "f"),
    )  # fmt: skip
    request = Request(SYSTEM, messages)
    assert [default_breakpoints(request, tail=n).breakpoints for n in (1, 2, 3, 4)] == [
        (HEAD, 7), (HEAD, 3, 7), (HEAD, 0, 3, 7), (HEAD, 0, 3, 7),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "bad",
    [
        {"breakpoints": (1,)},
        {"breakpoints": (0, 0)},
        {"breakpoints": (0, HEAD)},
        {"breakpoints": (NOWHERE,)},
        {"breakpoints": (TOOLS,)},
        {"breakpoints": (True,)},
        {"breakpoints": [0]},
        {"long": -1},
        {"long": None},
        {"request": None},
    ],
)
def test_placed_breakpoints_are_checked(bad):
    with pytest.raises(InvalidArgument) as caught:
        Placed(**{"request": Request(SYSTEM, (user("a"),)), **bad})
    assert caught.value.field == next(iter(bad))
    assert caught.value.code in ("invalid-argument", "wrong-type")


# C3: the look-back


def numbered(count):
    return tuple(user(str(number)) for number in range(count))


def test_c3_a_breakpoint_looks_at_twenty_positions_itself_included():
    request = Request(Head(), numbered(35))
    assert list(looks_back(request, 34)) == list(range(34, 14, -1))


def test_c3_a_run_of_calls_counts_as_one_and_so_does_a_run_of_results():
    calls = assistant("t", *(ToolCall(str(n), "r") for n in range(9)))
    results = tuple(tool_result(str(n), "r") for n in range(9))
    request = Request(Head(), (user("a"), calls, *results, user("b")))
    # b 1, results 2, calls 3, text 4, a 5
    assert list(looks_back(request, 11, 5)) == [11, *range(10, 1, -1), 1, 0]
    assert list(looks_back(request, 11, 4)) == [11, *range(10, 1, -1), 1]
    assert list(looks_back(request, 11, 2)) == [11, *range(10, 1, -1)]
    # It goes over the ends of messages, but not over another block.
    split = (assistant(ToolCall("1", "r")), assistant(ToolCall("2", "r")), assistant("x"))
    assert list(looks_back(Request(Head(), split), 1, 1)) == [1, 0]
    assert list(looks_back(Request(Head(), (*split[:1], split[2], split[1])), 2, 2)) == [2, 1]
    plain = Request(Head(), (assistant("a", "b", "c"), assistant("d")))
    assert list(looks_back(plain, 1, 1)) == [1]
    assert list(looks_back(plain, 1, 2)) == [1, 0]


def test_c3_the_head_has_positions_too_and_empty_messages_have_none():
    head = Head(system="s", tools=(Tool("a"), Tool("b")))
    request = Request(head, (user("a"), Message("user", ())))
    assert list(looks_back(request, 1, 3)) == [0, HEAD, TOOLS]
    assert list(looks_back(request, 1, 2)) == [0, HEAD]
    assert list(looks_back(request, 1, 1)) == [0]
    assert list(looks_back(request, HEAD, 1)) == [HEAD]
    assert list(looks_back(request, TOOLS, 1)) == [TOOLS]
    assert list(looks_back(request, NOWHERE)) == []
    assert list(looks_back(Request(Head(tools=head.tools), ()), HEAD, 1)) == [TOOLS]
    # A message with more blocks than there is room for ends it.
    many = Request(head, (user("a"), assistant(*"abcde"), user("b")))
    assert list(looks_back(many, 2, 4)) == [2, 1]


# C1, C10, C11: what two requests share


BOTH = Head(Route("anthropic", "m"), "s", (Tool("t"),))


@pytest.mark.parametrize(
    ("head", "place"),
    [
        (BOTH, 1),
        (evolve(BOTH, route=Route("anthropic", "m", binding="none")), 1),
        (evolve(BOTH, route=Route("anthropic", "n")), NOWHERE),
        (evolve(BOTH, route=Route("bedrock", "m")), NOWHERE),
        (evolve(BOTH, tools=(Tool("t", "new"),)), NOWHERE),
        (evolve(BOTH, route=Route("anthropic", "m", (("mystery", "1"),))), NOWHERE),
        (evolve(BOTH, system="other"), TOOLS),
        (evolve(BOTH, route=Route("anthropic", "m", (("web_search", "{}"),))), TOOLS),
        (evolve(BOTH, route=Route("anthropic", "m", (("citations", "true"),))), TOOLS),
        (evolve(BOTH, route=Route("anthropic", "m", (("speed", '"fast"'),))), TOOLS),
        (evolve(BOTH, route=Route("anthropic", "m", (("tool_choice", '"any"'),))), HEAD),
        (evolve(BOTH, route=Route("anthropic", "m", (("thinking", "{}"),))), HEAD),
        (evolve(BOTH, route=Route("anthropic", "m", (("effort", '"low"'),))), HEAD),
        (evolve(BOTH, route=Route("anthropic", "m", (("effort", '"high"'),))), 1),
        (
            evolve(BOTH, route=Route("anthropic", "m", (("disable_parallel_tool_use", "true"),))),
            HEAD,
        ),
    ],
)
def test_c10_what_a_change_of_the_head_reaches(head, place):
    messages = numbered(2)
    assert common_place(Request(head, messages), Request(BOTH, messages)) == place
    assert common_place(Request(BOTH, messages), Request(head, messages)) == place


def test_c10_the_first_image_and_the_last_change_all_messages():
    image = user((Image("QUJD", "image/png"),))
    plain, shown = Request(BOTH, numbered(3)), Request(BOTH, (*numbered(3), image))
    assert common_place(plain, shown) == common_place(shown, plain) == HEAD
    again = Request(BOTH, (*shown.messages, image))
    assert common_place(again, shown) == 3
    assert common_place(shown, again) == 3
    result = tool_result("c", (Text("a"), Image("QUJD", "image/png")))
    assert common_place(Request(BOTH, (*numbered(3), result)), shown) == 2


def test_c11_older_models_lose_earlier_thinking_when_a_user_speaks():
    old = cache_profile(Route("anthropic", "claude-sonnet-4-5"))
    new = cache_profile(Route("anthropic", "claude-sonnet-4-6"))
    thought = assistant(Thinking("t", "s"), "a")
    loop = Request(BOTH, (user("q"), thought, tool_result("c", "r")))
    assert rendered(loop, old) == loop
    assert rendered(Request(BOTH, numbered(2)), old) == Request(BOTH, numbered(2))
    spoken = Request(BOTH, (*loop.messages, user("more")))
    assert rendered(spoken, old).messages[1] == assistant("a")
    assert rendered(spoken, new) is spoken
    silent = Request(BOTH, (thought, tool_result("c", "r")))
    assert rendered(silent, old) == silent
    long = Request(SYSTEM, (*numbered(2), thought))
    more = Request(SYSTEM, (*long.messages, user("b")))
    for profile, places in ((old, (HEAD, 1, 2, 3)), (new, (HEAD, 2, 3))):
        chosen = evolve(profile, minimum=1)
        before = plan_breakpoints(None, long, chosen)
        assert before.breakpoints == (HEAD, 1, 2)
        before = Placed(long, (HEAD, 2))
        assert plan_breakpoints(before, more, chosen).breakpoints == places


# The plan


def test_nothing_is_planned_below_the_minimum():
    request = Request(Head(system="s" * 400), (user("a" * 400), user("b" * 1300)))
    for minimum, places in ((1, (HEAD, 1)), (100, (HEAD, 1)), (101, (1,)), (525, (1,)), (526, ())):
        profile = CacheProfile("test", minimum)
        assert plan_breakpoints(None, request, profile).breakpoints == places
    tools = Request(Head(system="s", tools=(Tool("t" * 400),)), (user("a"),))
    before = Placed(tools, (TOOLS,))
    other = Request(evolve(tools.head, system="other"), tools.messages)
    found = plan_breakpoints(before, other, CacheProfile("test", 100))
    assert found.breakpoints == (TOOLS, HEAD, 0)
    # The tools alone are too short, whatever stands behind them.
    found = plan_breakpoints(before, evolve(other, head=evolve(other.head, system="s" * 400)),
                             CacheProfile("test", 102))  # fmt: skip
    assert found.breakpoints == (HEAD, 0)


def test_an_entry_out_of_reach_gets_a_breakpoint_of_its_own():
    earlier = Placed(Request(SYSTEM, numbered(10)), (HEAD, 9))
    more = Request(SYSTEM, numbered(35))
    # The documentation's example: of 35 blocks the last breakpoint would miss the tenth.
    assert plan_breakpoints(earlier, more, PROFILE).breakpoints == (HEAD, 9, 34)
    far = Placed(more, (HEAD, 5))
    edited = Request(SYSTEM, (*numbered(30), user("new")))
    planned = plan_breakpoints(far, edited, PROFILE)
    assert planned.breakpoints == (HEAD, 5, 29, 30)
    assert cost(far, planned).read > cost(far, default_breakpoints(edited)).read


def test_the_next_edit_is_expected_at_the_same_distance():
    first = plan_breakpoints(None, Request(SYSTEM, numbered(10)), PROFILE)
    edited = (*numbered(7), user("cleared"), *numbered(12)[8:])
    second = plan_breakpoints(first, Request(SYSTEM, edited), PROFILE)
    assert second.breakpoints == (HEAD, 6, 8, 11)
    # Not where it was far: then the last turn but one is likelier.
    turns = tuple((user, assistant)[n % 2](str(n)) for n in range(41))
    first = plan_breakpoints(None, Request(SYSTEM, turns), PROFILE)
    edited = (*turns[:5], user("cleared"), *turns[6:])
    second = plan_breakpoints(first, Request(SYSTEM, edited), PROFILE)
    assert (first.breakpoints, second.breakpoints) == ((HEAD, 38, 40), (HEAD, 4, 38, 40))
