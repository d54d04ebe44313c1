"""Cache models against their definitions, rule by rule."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Head,
    Image,
    InvalidArgument,
    Message,
    Request,
    Route,
    Sent,
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
    system,
    tool_result,
    user,
)
from ctxalgebra.breakpoints import TOOLS, Placed, carries, default_breakpoints
from ctxalgebra.cache_profiles import (
    AS_OF,
    LISTED,
    CacheProfile,
    Listed,
    Prices,
    cache_profile,
    level,
)
from ctxalgebra.cli import main
from ctxalgebra.codecs import journal
from ctxalgebra.model.view import HEAD
from ctxalgebra.replay import (
    BREAKPOINTS,
    CACHES,
    Anthropic,
    Boundaries,
    OpenAI,
    Plan,
    Prefixes,
    blocks,
    cache_named,
    cached_how,
    compare,
    gemini,
    ideal,
    replay,
    rows,
)
from ctxalgebra.replay.layout import Store
from ctxalgebra.replay.prefixes import Lru

K = 4 * 1000
"""Characters of a thousand tokens."""

ROUTE = Route("anthropic", "claude-opus-5")
HEADED = Head(ROUTE, "s" * K)


def text(name, tokens):
    return user(name + "x" * (4 * tokens - len(name)))


def run(cache, *steps):
    """Take requests in; a step is a request with breakpoints and perhaps times."""
    state, outcomes = cache.start, []
    for step in steps:
        placed, *times = step if isinstance(step, tuple) else (step,)
        times = [*times, None, None][:2]
        state, outcome = cache.take(state, placed, time=times[0], began=times[1])
        outcomes.append(outcome)
    return outcomes


def read(cache, *steps):
    return [outcome.read for outcome in run(cache, *steps)]


# Profiles and prices: C4, C6, C14


@pytest.mark.parametrize(
    ("minimum", "models"),
    [
        (512, "claude-fable-5 claude-mythos-5 fable-5.1 mythos-5-1 claude-opus-5 opus-5.5"),
        (512, "claude-sonnet-5-5-20260801"),
        (1024, "claude-opus-4-8 claude-sonnet-5 claude-sonnet-4-6 claude-sonnet-4-5-20250929"),
        (1024, "claude-opus-4-1-20250805 claude-opus-4-20250514 claude-sonnet-4-0"),
        (1024, "claude-3-7-sonnet-latest somebody-else claude-opus-4-9"),
        (2048, "claude-opus-4-7 claude-mythos-preview claude-3-5-haiku-20241022 haiku-3.5"),
        (4096, "claude-opus-4-6 claude-opus-4-5-20251101 anthropic/claude-haiku-4.5"),
        (4096, "claude-haiku-4-5@20251001"),
    ],
)
def test_c4_the_minimum_of_each_model(minimum, models):
    for model in models.split():
        assert cache_profile(Route("anthropic", model)).minimum == minimum, model


def test_c4_bedrock_has_a_minimum_of_its_own():
    model = "us.anthropic.claude-opus-4-7-20260101-v1:0"
    assert cache_profile(Route("amazon-bedrock", model)).minimum == 4096
    assert cache_profile(Route("vertex", model)).minimum == 2048
    assert cache_profile(Route("amazon-bedrock", "claude-opus-5")).minimum == 512


@pytest.mark.parametrize(
    ("model", "prices"),
    [
        ("claude-opus-5-5", Prices(50, 1250, 2000)),
        ("claude-fable-5-1", Prices(25, 1250, 2000)),
        ("claude-mythos-5-1", Prices(25, 1250, 2000)),
        ("claude-sonnet-5", Prices(100, 1250, 2000)),
        ("claude-opus-4-8", Prices(100, 1250, 2000)),
        ("", Prices(100, 1250, 2000)),
    ],
)
def test_c6_reads_and_writes_are_multiples_of_the_input_price(model, prices):
    assert cache_profile(Route("anthropic", model)).prices == prices


def test_c14_the_list_is_dated_and_names_its_rule():
    assert {listed.rule for listed in LISTED.values()} == {"C14"}
    assert {listed.as_of for listed in LISTED.values()} == {AS_OF}
    cents = LISTED["opus-5-5"]
    assert (cents.input, cents.written, cents.kept, cents.read) == (400, 500, 800, 20)
    assert Listed(3, 4, 6, 1).prices() == Prices(334, 1334, 2000)
    # What is cached for a model agrees with the list.
    for family, listed in LISTED.items():
        profile = cache_profile(Route("anthropic", f"claude-{family}"))
        assert (profile.name, profile.prices) == (family, listed.prices())


def test_prices_are_integers_and_round_up():
    assert Prices().cost(read=3, written=2) == 280
    assert Prices().cost(kept=2, plain=1) == 500
    assert Prices(read=25).cost(read=1) == 3
    for bad in (-1, 1.5, "1"):
        with pytest.raises((ValueError, TypeError), match="read"):
            Prices(read=bad)
    with pytest.raises(ValueError, match="block"):
        CacheProfile(block=0)


@pytest.mark.parametrize(
    ("model", "block", "written", "read_price"),
    [
        ("gpt-5.6", 1, 1250, 100),
        ("gpt-6.1-sol", 1, 1250, 50),
        ("gpt-6.1", 1, 1250, 100),
        ("somebody", 1, 1250, 100),
        ("gpt-5.5", 2048, 1000, 100),
        ("gpt-5.4-mini", 128, 1000, 100),
        ("gpt-5-2025-08-07", 128, 1000, 100),
        ("gpt-4.1-nano", 128, 1000, 250),
        ("o3", 128, 1000, 250),
        ("gpt-4o-mini", 128, 1000, 500),
        # 2.2: no model before GPT-5.6 has a fee for writing.
        ("gpt-3.5-turbo", 128, 1000, 500),
        ("gpt-3.5-turbo-0125", 128, 1000, 500),
        ("gpt-4.5-preview", 128, 1000, 500),
        ("gpt-4-turbo", 128, 1000, 500),
        ("gpt-4-0613", 128, 1000, 500),
        ("chatgpt-4o-latest", 128, 1000, 500),
        ("codex-mini-latest", 128, 1000, 250),
        ("computer-use-preview", 128, 1000, 500),
        ("o1-preview", 128, 1000, 500),
        ("gpt-5.10", 1, 1250, 100),
    ],
)
def test_openai_has_two_sets_of_rules(model, block, written, read_price):
    profile = OpenAI().profile(Route("openai", model))
    assert (profile.minimum, profile.block) == (1024, block)
    assert (profile.prices.written, profile.prices.read) == (written, read_price)


def test_unknown_rules_are_refused():
    with pytest.raises(InvalidArgument, match="rules"):
        cache_profile(ROUTE, "nonsense")


def test_c10_parameters_have_a_level():
    assert level("tool_choice", "1") == level("thinking", "1") == "messages"
    assert level("web_search", "1") == level("speed", "1") == "system"
    assert level("anything", "1") == "tools"
    assert level("effort", '"high"') is level("output_config", '{"effort":"high"}') is None
    assert level("effort", '"low"') == "messages"


# Anthropic against its definition


SMALL = st.sampled_from((0, 1, 200, 600))
HEADS = st.builds(
    Head,
    st.builds(
        Route,
        st.just("anthropic"),
        st.sampled_from(("claude-opus-5", "claude-opus-5", "claude-opus-4-1")),
        st.sampled_from(((), (("tool_choice", "1"),), (("speed", "1"),), (("effort", '"high"'),))),
    ),
    st.sampled_from(("", "s" * 2400, "t" * 2400)),
    st.sampled_from(((), (Tool("a", "d" * 2400), Tool("b")))),
)
WORDS = st.one_of(
    SMALL.map(lambda size: text("u", size) if size else user("u")),
    st.just(user(" ")),
    st.just(user((Image("QUJD", "image/png"),))),
    SMALL.map(lambda size: assistant(Thinking("t" * 4 * size, "s"), "x", "y")),
    st.just(assistant(Thinking("t" * 900, "s"))),
    st.just(assistant("z", ToolCall("1", "r"), ToolCall("2", "r"), Text("w"), ToolCall("3", "r"))),
    SMALL.map(lambda size: tool_result("1", "r" * 4 * size)),
)
LISTS = st.lists(st.tuples(WORDS, st.sampled_from((1, 1, 2, 22))), max_size=6).map(
    lambda runs: tuple(word for word, count in runs for _ in range(count))
)


@st.composite
def histories(draw):
    """Draw requests that are made of one another, with breakpoints and times."""
    made, clock = [Request(draw(HEADS), draw(LISTS))], 0
    steps = []
    for _ in range(draw(st.integers(1, 5))):
        base = draw(st.sampled_from(made))
        kept = draw(st.integers(0, len(base.messages)) | st.just(len(base.messages)))
        head = draw(st.just(base.head) | HEADS)
        request = Request(head, base.messages[:kept] + draw(LISTS))
        made.append(request)
        places = [p for p in range(TOOLS, len(request.messages)) if carries(request, p)]
        chosen = default_breakpoints(request, tail=draw(st.integers(1, 2))).breakpoints
        if places and draw(st.booleans()):
            chosen = draw(st.lists(st.sampled_from(places), max_size=4, unique=True))
        placed = Placed(request, tuple(sorted(chosen)), draw(st.integers(0, 2)))
        clock += draw(st.sampled_from((0, 1, 100, 299_999, 300_000, 3_600_000)))
        began = draw(st.sampled_from((0, 0, 50, 400_000)))
        steps.append((placed, clock, clock + began))
    return steps


class Definition:
    """Anthropic's rules said again, over lists of blocks and whole prefixes; slow and plain."""

    def __init__(self):
        self.entries = {}

    def blocks(self, request, profile):
        head, messages = request.head, list(request.messages)
        spoken = max((i for i, m in enumerate(messages) if m.role == "user"), default=0)
        for i in range(spoken if profile.strips else 0):  # C11
            parts = tuple(p for p in messages[i].parts if type(p) is not Thinking)
            messages[i] = Message(messages[i].role, parts, call=messages[i].call)
        image = any(type(p) is Image for m in messages for p in m.parts)
        parameters = [pair for pair in head.route.parameters if pair != ("effort", '"high"')]
        # Rendered in order, with what is no bytes where its level begins (C1, C10).
        found, prefix = [], (head.route.model, head.tools)
        found += [("tool", TOOLS, prefix) for _ in head.tools]
        prefix += (head.system, tuple(p for p in parameters if p[0] == "speed"))
        found += [("system", HEAD, prefix)] * bool(head.system)
        prefix += (image, tuple(p for p in parameters if p[0] == "tool_choice"))
        for index, message in enumerate(messages):
            prefix += (message,)
            kinds = [
                "result" if message.role == "tool" else "call" if type(p) is ToolCall else "block"
                for p in message.parts
            ]
            kinds = ["result"] if message.role == "tool" else kinds
            found += [(kind, index, prefix) for kind in kinds]
        tokens = {TOOLS: chars4(evolve(head, system="")), HEAD: chars4(head)}
        for index, message in enumerate(messages):
            tokens[index] = tokens[index - 1] + chars4(message)
        return found, tokens

    def take(self, placed, time, began):
        profile = cache_profile(placed.request.head.route)
        found, tokens = self.blocks(placed.request, profile)
        position, positions = 0, []
        for number, (kind, _, _) in enumerate(found):
            same = number and kind == found[number - 1][0] and kind in ("call", "result")
            position += not same
            positions.append(position)
        last = {place: number for number, (_, place, _) in enumerate(found)}
        prefixes = {place: prefix for _, place, prefix in found}
        valid = [p for p in placed.breakpoints if tokens[p] >= profile.minimum]  # C4
        best, touched = None, []
        for place in valid:
            here = positions[last[place]]
            for other in sorted(last, reverse=True):
                near = other <= place and here - positions[last[other]] < 20  # C3
                entry = self.entries.get(prefixes[other])
                if near and entry and entry["since"] <= time < entry["until"]:  # C5, C7
                    best = other if best is None else max(best, other)
                    touched.append(entry)
                    break
        dropped = len(placed.breakpoints) - len(valid)
        for number, place in enumerate(valid):
            long = number < placed.long - dropped
            ttl = 3_600_000 if long else 300_000
            entry = self.entries.get(prefixes[place])
            if entry and time < entry["until"]:
                if time < entry["since"]:
                    since = min(entry["since"], began)
                    self.entries[prefixes[place]] = {
                        "since": since,
                        "until": time + ttl,
                        "ttl": ttl,
                    }
            else:
                self.entries[prefixes[place]] = {"since": began, "until": time + ttl, "ttl": ttl}
        for entry in touched:
            entry["until"] = time + entry["ttl"]
        total = tokens[len(placed.request.messages) - 1]
        hit = 0 if best is None else tokens[best]
        kept = max([hit, *(tokens[p] for p in valid[: max(0, placed.long - dropped)])])
        end = max([kept, *(tokens[p] for p in valid)])
        price = profile.prices
        thousandths = hit * price.read + (kept - hit) * price.kept + (end - kept) * price.written
        return hit, end - hit, total - end, -(-(thousandths + (total - end) * 1000) // 10)


@given(histories())
def test_the_model_is_what_the_rules_say(steps):
    definition, cache = Definition(), Anthropic()
    state = cache.start
    for placed, time, began in steps:
        state, found = cache.take(state, placed, time=time, began=began)
        told = definition.take(placed, time, began)
        assert (found.read, found.written, found.uncached, found.cost) == told


@given(histories())
def test_taking_is_pure(steps):
    cache = Anthropic()
    state, seen = cache.start, []
    for placed, time, began in steps:
        after, outcome = cache.take(state, placed, time=time, began=began)
        seen.append((state, placed, time, began, outcome))
        state = after
    for state, placed, time, began, outcome in reversed(seen):
        assert cache.take(state, placed, time=time, began=began)[1] == outcome


# Anthropic, rule by rule


A, B, C = text("a", 600), text("b", 700), text("c", 800)


def req(*messages, head=HEADED):
    return Request(head, messages)


def test_c2_more_than_four_breakpoints_are_refused():
    five = Placed(req(A, B, C, A), (HEAD, 0, 1, 2, 3))
    with pytest.raises(InvalidArgument, match="5 breakpoints, 4 are allowed"):
        run(Anthropic(), five)


def test_c3_only_what_ends_at_a_breakpoint_is_written():
    first, again = Placed(req(A, B, C), (HEAD, 2)), Placed(req(A, B, A), (2,))
    assert read(Anthropic(), first, again) == [0, 1000]
    first = Placed(req(A, B, C), (HEAD, 1, 2))
    assert read(Anthropic(), first, again) == [0, 2300]
    uncached = run(Anthropic(), Placed(req(A, B, C)))[0]
    assert (uncached.written, uncached.uncached, uncached.cost) == (0, 3100, 310_000)
    behind = run(Anthropic(), Placed(req(A, B, C), (0,)))[0]
    assert (behind.written, behind.uncached) == (1600, 1500)


def test_c3_the_example_of_the_documentation():
    head, words = Head(ROUTE, ""), [text(str(n), 60) for n in range(35)]
    ten, fifteen, all_ = (Placed(req(*words[:n], head=head), (n - 1,)) for n in (10, 15, 35))
    outcomes = run(Anthropic(), ten, fifteen, all_)
    assert [o.read for o in outcomes] == [0, 600, 0]
    assert outcomes[2].miss == "out_of_reach"
    with_one_more = Placed(all_.request, (14, 34))
    assert read(Anthropic(), ten, fifteen, with_one_more) == [0, 600, 900]


def test_c4_below_the_minimum_nothing_is_cached_without_a_word():
    for tokens, found in ((511, 0), (512, 512)):
        short = Placed(req(text("a", tokens), head=Head(ROUTE)), (0,))
        outcomes = run(Anthropic(), short, short)
        assert outcomes[1].read == outcomes[0].written == found
        assert outcomes[1].miss == ("" if found else "below_minimum")


TIMED = Placed(req(A, B), (0, 1))


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ((0, 299_999), 2300),
        ((0, 300_000), 0),
        # Refreshed by a read, from the start of that request.
        ((0, 200_000, 499_999), 2300),
        ((0, 200_000, 500_000), 0),
        # A read with an earlier time takes nothing away from what a later one gave.
        ((0, 240_000, 180_000, 510_000), 2300),
        ((0, 240_000, 180_000, 540_000), 0),
        ((None, 10**12), 2300),
        ((0, None), 2300),
        ((None, None), 2300),
    ],
)
def test_c5_an_entry_lives_five_minutes_from_the_start_of_a_request(times, found):
    outcomes = run(Anthropic(), *((TIMED, time) for time in times))
    assert outcomes[-1].read == found
    assert outcomes[-1].miss == ("" if found else "expired")


def test_c5_entries_of_an_hour_stand_in_front_of_those_of_five_minutes():
    mixed = Placed(req(A, B, C), (HEAD, 0, 2), long=2)
    outcomes = run(Anthropic(), (mixed, 0), (mixed, 300_000), (mixed, 3_900_000))
    assert [o.read for o in outcomes] == [0, 1600, 0]
    # C6: the first at twice the price, the rest at 1.25.
    assert outcomes[0].cost == 1600 * 200 + 1500 * 125
    assert outcomes[1].cost == 1600 * 10 + 1500 * 125
    # The hour counts from the last read.
    assert read(Anthropic(), (mixed, 0), (mixed, 300_000), (mixed, 3_899_999))[2] == 1600
    # A short one in front of which the prefix is too short takes no hour from the others.
    low = Placed(req(text("a", 10), A, head=Head(ROUTE)), (0, 1), long=1)
    assert run(Anthropic(), low)[0].cost == 610 * 125


def test_c7_an_entry_is_there_when_the_response_has_begun():
    fan = [(TIMED, 0), (TIMED, 0), (TIMED, 0)]
    outcomes = run(Anthropic(), *fan)
    assert [o.read for o in outcomes] == [0, 0, 0]
    assert outcomes[1].miss == "not_begun"
    assert read(Anthropic(), (TIMED, 0, 50), (TIMED, 49), (TIMED, 50)) == [0, 0, 2300]
    # Whichever of two begins first makes it readable.
    steps = ((TIMED, 0, 90), (TIMED, 10, 40), (TIMED, 50, 50))
    assert read(Anthropic(), *steps) == [0, 0, 2300]
    steps = ((TIMED, 0, 40), (TIMED, 10, 90), (TIMED, 50, 50))
    assert read(Anthropic(), *steps) == [0, 0, 2300]
    # And a second writer whose clock is behind does not shorten its life.
    steps = ((TIMED, 1000, 2000), (TIMED, 0, 1500), (TIMED, 300_500))
    assert read(Anthropic(), *steps) == [0, 0, 2300]
    # Without a time nobody knows, and it is taken to be there.
    assert read(Anthropic(), (TIMED, None, 90), (TIMED, 10), (TIMED, None)) == [0, 0, 2300]


TOOLED = evolve(HEADED, tools=(Tool("t", "d" * K),))


@pytest.mark.parametrize(
    ("head", "tokens", "miss"),
    [
        (TOOLED, 3301, ""),
        (evolve(TOOLED, system="t" * K), 1001, "system_changed"),
        (evolve(TOOLED, tools=(Tool("u", "d" * K),)), 0, "tools_changed"),
        (evolve(TOOLED, route=evolve(ROUTE, model="claude-opus-5-5")), 0, "model_changed"),
        (
            evolve(TOOLED, route=evolve(ROUTE, parameters=(("speed", "1"),))),
            1001,
            "parameters_changed",
        ),
        (
            evolve(TOOLED, route=evolve(ROUTE, parameters=(("tool_choice", "1"),))),
            2001,
            "parameters_changed",
        ),
        (evolve(TOOLED, route=evolve(ROUTE, parameters=(("effort", '"high"'),))), 3301, ""),
    ],
)
def test_c10_what_a_change_leaves_and_c13_its_reason(head, tokens, miss):
    placed = [Placed(req(A, B, head=h), (TOOLS, HEAD, 1)) for h in (TOOLED, head)]
    outcome = run(Anthropic(), *placed)[1]
    assert (outcome.read, outcome.miss) == (tokens, miss)


def test_c10_the_first_image_loses_all_messages():
    image = user((Image("QUJD", "image/png"),))
    before, after = Placed(req(A, B), (HEAD, 1)), Placed(req(A, B, image), (HEAD, 1, 2))
    more = Placed(req(A, B, image, C), (HEAD, 2, 3))
    outcomes = run(Anthropic(), before, after, more, before)
    assert [o.read for o in outcomes] == [0, 1000, 3500, 2300]
    assert [o.miss for o in outcomes[1:]] == ["messages_changed", "", "messages_changed"]


def test_c11_a_user_message_strips_the_thinking_of_older_models():
    thought = assistant(Thinking("t" * K, "s"), "x" * K)
    steps = [
        Placed(req(*messages, head=evolve(HEADED, route=Route("anthropic", model))), places)
        for model in ("claude-sonnet-4-5", "claude-sonnet-4-6")
        for messages, places in (((A, thought), (0, 1)), ((A, thought, B), (0, 2)))
    ]
    outcomes = run(Anthropic(), *steps)
    assert [(o.read, o.miss) for o in outcomes] == [
        (0, "previous_message_not_found"), (1600, "thinking_stripped"),
        (0, "model_changed"), (3600, ""),
    ]  # fmt: skip
    # What is stripped is not paid.
    assert [o.tokens for o in outcomes] == [3600, 3300, 3600, 4300]


def test_c13_a_reason_for_each_miss():
    tail = Placed(req(A, B), (1,))
    assert [o.miss for o in run(Anthropic(), tail, tail, Placed(req(A, C), (1,)))] == [
        "previous_message_not_found", "", "messages_changed",
    ]  # fmt: skip
    bare = Placed(req(A, B))
    assert run(Anthropic(), bare, tail)[1].miss == "not_written"
    assert run(Anthropic(), tail, bare)[1].miss == "out_of_reach"
    # A request without breakpoints read nothing, so the next one can miss nothing new.
    assert run(Anthropic(), tail, bare, tail)[2].read == 2300


# OpenAI


NEW = Head(Route("openai", "gpt-5.6"), "s" * 400)
OLD = Head(Route("openai", "gpt-5"), "s" * 400)


def test_the_newer_rules_write_at_the_newest_user_message_or_result_exactly():
    call = assistant(ToolCall("1", "r"))
    done = tool_result("1", "r" * 4 * 300)
    first = Placed(req(A, B, call, done, head=NEW))
    more = Placed(req(A, B, call, done, assistant("ok"), C, head=NEW))
    outcomes = run(OpenAI(), first, more)
    assert outcomes[0].written == total(first)
    assert outcomes[1].read == outcomes[0].written
    # The answer behind the last user message is not written.
    ahead = Placed(req(A, B, assistant("x" * K), head=NEW))
    assert run(OpenAI(), ahead)[0].uncached == 1000


def total(placed):
    return sum(map(chars4, (placed.request.head, *placed.request.messages)))


def test_the_newer_rules_look_up_endings_of_twenty_earlier_messages():
    words = [text(str(n), 100) for n in range(45)]
    short = Placed(req(*words[:15], head=NEW))
    assert read(OpenAI(), short, Placed(req(*words[:35], head=NEW)))[1] == 1600
    assert read(OpenAI(), short, Placed(req(*words[:36], head=NEW)))[1] == 0
    # An explicit breakpoint finds it again.
    far = Placed(req(*words[:36], head=NEW), (14,))
    assert read(OpenAI(), short, far)[1] == 1600
    # The first two explicit ones and the latest are looked up.
    many = tuple(range(12, 30))
    cache = Boundaries(latest=3)
    assert read(cache, short, Placed(req(*words[:45], head=NEW), many))[1] == 0
    assert read(cache, short, Placed(req(*words[:45], head=NEW), many[1:]))[1] == 1600
    assert (
        read(Boundaries(latest=0), short, Placed(req(*words[:45], head=NEW), many[1:]))[1] == 1600
    )


def test_the_newer_rules_write_four_entries_the_latest():
    words = [text(str(n), 600) for n in range(9)]
    marked = Placed(req(*words, head=NEW), tuple(range(8)))
    found = {
        n: read(Boundaries(implicit=False), marked, Placed(req(*words[: n + 1], head=NEW), (n,)))[1]
        for n in range(8)
    }
    assert [n for n, tokens in found.items() if tokens] == [4, 5, 6, 7]
    found = {
        n: read(Boundaries(), marked, Placed(req(*words[: n + 1], head=NEW), (n,)))[1] > 0
        for n in range(9)
    }
    assert [n for n, is_read in found.items() if is_read] == [5, 6, 7, 8]


def test_the_explicit_mode_without_a_breakpoint_caches_nothing():
    placed = Placed(req(A, B, head=NEW))
    outcomes = run(Boundaries(implicit=False), placed, placed)
    assert [(o.read, o.written) for o in outcomes] == [(0, 0), (0, 0)]
    assert outcomes[1].miss == "not_written"


def test_the_newer_rules_know_the_first_instructions():
    long = Head(Route("openai", "gpt-5.6"), "s" * 2 * K)
    first, other = system("d" * K), [text(str(n), 50) for n in range(30)]
    # Where nobody spoke, the entry ends behind the first group of instructions.
    alone = Placed(Request(long, (first,)))
    assert run(OpenAI(), alone)[0].written == 3000
    outcomes = run(OpenAI(), alone, Placed(Request(long, (first, *other))))
    assert outcomes[1].read == 3000
    only_head = Placed(Request(long, (assistant("hello"),)))
    assert run(OpenAI(), only_head)[0].written == 2000
    nothing = Placed(Request(Head(Route("openai", "gpt-5.6")), ()))
    assert run(OpenAI(), nothing)[0].tokens == 0


def test_the_newer_rules_have_a_minimum_a_price_and_thirty_minutes():
    short = Placed(req(text("a", 923), head=NEW))
    assert read(OpenAI(), short, short) == [0, 0]
    enough = Placed(req(text("a", 924), head=NEW))
    outcomes = run(OpenAI(), (enough, 0), (enough, 1_799_999), (enough, 3_599_999))
    assert [o.read for o in outcomes] == [0, 1024, 0]
    assert [o.cost for o in outcomes] == [128_000, 10_240, 128_000]
    assert outcomes[2].miss == "expired"
    # Twelve hours at two and a half times the price.
    kept = Placed(enough.request, (0,), long=1)
    outcomes = run(OpenAI(), (kept, 0), (kept, 43_199_999))
    assert (outcomes[0].cost, outcomes[1].read) == (256_000, 1024)


def test_earlier_models_round_down_to_blocks_and_write_for_free():
    first, more = Placed(req(A, B, head=OLD)), Placed(req(A, B, C, head=OLD))
    outcomes = run(OpenAI(), first, more, Placed(req(A, C, head=OLD)))
    # 1,400 tokens are ten blocks of 128 and a rest; 700 are less than the minimum.
    assert [o.read for o in outcomes] == [0, 1280, 0]
    assert [o.cost for o in outcomes[:2]] == [140_000, 1280 * 10 + 920 * 100]
    assert [(o.written, o.uncached) for o in outcomes[:2]] == [(1280, 120), (896, 24)]
    assert [o.miss for o in outcomes[1:]] == ["", "messages_changed"]
    wide = evolve(OLD, route=Route("openai", "gpt-5.5"))
    outcomes = run(OpenAI(), *(Placed(req(*m, head=wide)) for m in ((A, B), (A, B), (A, B, C))))
    assert [o.read for o in outcomes] == [0, 0, 0]
    assert outcomes[1].miss == "below_minimum"
    assert [o.read for o in run(OpenAI(), more, more)] == [0, 2176]


def test_earlier_models_forget_after_five_minutes_without_use():
    first, more = Placed(req(A, B, head=OLD)), Placed(req(A, B, C, head=OLD))
    outcomes = run(OpenAI(), (first, 0), (more, 299_999), (first, 599_998), (more, 899_998))
    assert [o.read for o in outcomes] == [0, 1280, 1280, 0]
    assert outcomes[3].miss == "expired"
    assert outcomes[2].miss == "messages_changed"
    assert read(OpenAI(), first, (first, 10**12)) == [0, 1280]
    short = Placed(req(text("a", 100), head=OLD))
    assert run(OpenAI(), short, short)[1].miss == "below_minimum"
    assert [o.read for o in run(OpenAI(), (first, 0), (first, -10), (first, 299_999))][2] == 1280


def test_earlier_models_keep_prefixes_for_a_day_when_asked_to():
    day = 24 * 3_600_000
    asked = evolve(OLD, route=evolve(OLD.route, parameters=(("prompt_cache_retention", '"24h"'),)))
    plain = Placed(req(A, B, head=OLD))
    for long in (Placed(req(A, B, head=asked)), Placed(req(A, B, head=OLD), long=1)):
        assert read(OpenAI(), (long, 0), (long, day - 1)) == [0, 1280]
        assert read(OpenAI(), (long, 0), (long, day)) == [0, 0]
        # How long it is kept is no key, and a short request does not end it sooner.
        assert read(OpenAI(), (long, 0), (plain, 10), (long, day - 1)) == [0, 1280, 1280]
    other = evolve(OLD, route=evolve(OLD.route, parameters=(("prompt_cache_retention", '"x"'),)))
    assert read(OpenAI(), (Placed(req(A, B, head=other)), 0), (plain, 300_000)) == [0, 0]


def test_the_two_sets_of_rules_have_caches_of_their_own():
    old, new = Placed(req(A, B, head=OLD)), Placed(req(A, B, head=NEW))
    assert read(OpenAI(), old, new, old, new) == [0, 0, 1280, 1400]


# Any prefix


LETTERS = st.lists(
    st.tuples(st.sampled_from((0, 0, 1, 2)), st.lists(st.sampled_from("ab"), max_size=7)),
    max_size=14,
)
SOME = (Head(), Head(system="x" * 300), Head(system="x" * 300, tools=(Tool("t", "d" * 400),)))


def letters(which, word):
    return Request(SOME[which], tuple(text(letter, 37) for letter in word))


def common(a, b):
    count = 0
    for one, two in zip(a, b, strict=False):
        if one != two:
            break
        count += 1
    return count


@given(LETTERS, st.sampled_from((0, 100, 1024)), st.sampled_from((1, 16, 128)))
def test_any_prefix_of_any_earlier_request_is_read_in_blocks(sent, minimum, block):
    profile = CacheProfile("test", minimum, block=block, prices=Prices(100, 1000, 1000))
    cache = Prefixes(lambda _: profile)
    state, earlier = cache.start, []
    for which, word in sent:
        request = letters(which, word)
        sizes = [chars4(request.head), *map(chars4, request.messages)]
        found = 0
        for other in earlier:
            if sum(map(chars4, (other.head, *other.messages))) < minimum:
                continue
            if other.head == request.head:
                same = common(other.messages, request.messages)
                found = max(found, sum(sizes[: same + 1]))
            elif other.head.tools == request.head.tools:
                found = max(found, chars4(evolve(request.head, system="")))
        found -= found % block
        found = found if found >= minimum else 0
        state, outcome = cache.take(state, Placed(request))
        assert outcome.read == found
        assert outcome.tokens == sum(sizes)
        full = sum(sizes) - sum(sizes) % block
        assert outcome.written == (full - found if full >= minimum else 0)
        assert outcome.cost == found * 10 + (sum(sizes) - found) * 100
        earlier.append(request)


@given(LETTERS, st.sampled_from((1, 16, 50)), st.sampled_from((0, 3, 20, 60)))
def test_blocks_leave_by_least_recent_use(sent, size, capacity):
    """Against single blocks, each named by all that it and those in front of it hold."""
    cache, state = blocks(size, capacity), blocks(size, capacity).start
    held = OrderedDict()
    for which, word in sent:
        request = letters(which, word)
        prefix, sizes = (request.head.tools,), [chars4(evolve(request.head, system=""))]
        names, total = [], 0
        parts = [request.head.system, *request.messages]
        sizes += [chars4(request.head) - sizes[0], *map(chars4, request.messages)]
        for part, tokens in zip([None, *parts], sizes, strict=True):
            prefix += (part,)
            before, total = total, total + tokens
            names += [(prefix, n) for n in range(before // size, total // size)]
        hits = 0
        while hits < len(names) and names[hits] in held:
            hits += 1
        state, outcome = cache.take(state, Placed(request))
        assert outcome.read == hits * size
        # The last blocks of a request are freed first, so they are the oldest of it.
        for name in reversed(names):
            held.pop(name, None)
            held[name] = True
        while len(held) > capacity:
            held.popitem(last=False)


def test_blocks_tell_what_was_evicted_and_cost_what_is_computed():
    first, other = Placed(req(A, head=Head())), Placed(req(B, head=Head()))
    outcomes = run(blocks(16, 50), first, other, first, first)
    # The end of the first one leaves to make room for the second.
    assert [o.read for o in outcomes] == [0, 0, 7 * 16, 37 * 16]
    assert [o.cost for o in outcomes] == [60_000, 70_000, 48_800, 800]
    assert outcomes[3].miss == ""
    outcomes = run(blocks(16, 10), first, first, Placed(req(A, B, head=Head())))
    assert [(o.read, o.miss) for o in outcomes[1:]] == [(160, "evicted"), (160, "evicted")]
    assert [o.read for o in run(blocks(16), first, other, first)] == [0, 0, 592]
    assert blocks(16, 1).profile(ROUTE).block == 16
    assert blocks(16, 1).place(first.request) == first
    assert isinstance(blocks(16, 1), Lru)
    assert blocks(16).place(first.request) == first
    assert Boundaries().place(first.request) == first
    with pytest.raises(ValueError, match="capacity"):
        blocks(16, -1)


def test_gemini_has_a_minimum_by_model_and_writes_for_free():
    for model, minimum in (("gemini-2.5-flash", 2048), ("gemini-3-pro", 4096)):
        head = Head(Route("google", model))
        for tokens, found in ((minimum - 1, 0), (minimum, minimum)):
            placed = Placed(req(text("a", tokens), head=head))
            outcomes = run(gemini(), (placed, 0), (placed, 10**12))
            assert [o.read for o in outcomes] == [0, found]
            assert outcomes[0].cost == tokens * 100
            assert outcomes[1].cost == (found * 10 or tokens * 100)


def test_ideal_never_forgets():
    assert read(ideal(), (TIMED, 0), (TIMED, 10**15)) == [0, 2300]
    assert run(ideal(prices=Prices(0, 1000)), TIMED)[0].cost == 230_000


# Names, replays, reports


def test_caches_have_names():
    for name in CACHES:
        cache = cache_named(name)
        outcomes = run(cache, cache.place(TIMED.request), cache.place(TIMED.request))
        assert outcomes[0].tokens == outcomes[1].tokens == 2300
    assert cache_named("blocks:64").profile(ROUTE).block == 64
    for bad in ("blocks:", "blocks:0", "blocks:-1", "blocks:1.5", "blocks:x", "blocks:²", "Ideal"):
        with pytest.raises(InvalidArgument, match="there is no cache"):
            cache_named(bad)


def recorded(times, model="claude-opus-5"):
    session = record(Session(), Head(Route("anthropic", model), "s" * K))
    for number, time in enumerate(times):
        session = record(session, user(f"question {number}"))
        session, _ = send(session, time=time)
        session = reply(session, "completed", assistant("a" * K))
    return session


def test_times_that_were_recorded_make_entries_expire():
    session = recorded((0, 1000, 400_000, None, 500_000))
    run_ = replay(session, Plan("all", pipeline(), 10**6), cache=Anthropic())
    assert dict(run_.misses) == {"previous_message_not_found": 1, "expired": 1}
    assert run_.timed == 4
    found = compare(session, cache="anthropic", pipelines=("none",))
    assert cached_how(found) == (
        "Cache anthropic, breakpoints default. Only 4 of 5 requests have a time; for the others "
        "nothing expires.\nMisses: none: expired 1, previous_message_not_found 1."
    )
    assert "All requests have a time." in cached_how(compare(recorded((0, 1)), cache="anthropic"))
    untimed = compare(recorded((None, None)), cache="anthropic", breakpoints="planned")
    assert cached_how(untimed).startswith(
        "Cache anthropic, breakpoints planned. No request has a time, so nothing expires."
    )
    assert "Misses" not in cached_how(compare(record(Session(), user("a"))))


def test_a_clock_that_goes_back_loses_nothing():
    back = recorded((400_000, 399_000, 200_000, 699_999, None, 999_998))
    run_ = replay(back, Plan("all", pipeline(), 10**6), cache=Anthropic())
    assert dict(run_.misses) == {"previous_message_not_found": 1}
    late = recorded((400_000, 0, 700_000))
    assert ("expired", 1) in replay(late, Plan("all", pipeline(), 10**6), cache=Anthropic()).misses


def test_the_command_says_how_the_cache_was_modelled(capsys, tmp_path):
    file = tmp_path / "s.jsonl"
    file.write_bytes(journal.encode(recorded((0, 1000, 400_000))))
    for name in (*CACHES, "blocks:64"):
        options = ["--cache", name, "--breakpoints", "planned", "--pipeline", "none"]
        assert main(["replay", str(file), *options]) == 0
        out, _ = capsys.readouterr()
        assert (f"Cache {name}, breakpoints planned. All requests have a time." in out) == (
            name != "ideal"
        )
        assert main(["replay", str(file), *options, "--json"]) == 0
        (row,) = json.loads(capsys.readouterr()[0])["runs"]
        assert row["cache"] == name
        assert ("misses" in row) == (name != "ideal")
        if name == "anthropic":
            assert row["misses"] == {"previous_message_not_found": 1, "expired": 1}
    for bad in (["--cache", "blocks:0"], ["--cache", ""], ["--breakpoints", "best"]):
        assert main(["replay", str(file), *bad]) == 2
        assert capsys.readouterr()[1].startswith("error: invalid-argument: Invalid value")


def test_rows_tell_more_where_the_cache_is_modelled():
    session = recorded((0, 1000, 2000))
    (plain,) = rows(compare(session, pipelines=("none",)))
    (more,) = rows(compare(session, pipelines=("none",), cache="anthropic", breakpoints="planned"))
    assert {k: v for k, v in more.items() if k not in plain} == {
        "breakpoints": "planned",
        "written_tokens": 3009,
        "misses": {"previous_message_not_found": 1},
        "timed_requests": 3,
    }
    assert more["cached_tokens"] + more["uncached_tokens"] == more["input_tokens"]
    with pytest.raises(InvalidArgument, match="no breakpoints 'none'"):
        compare(session, breakpoints="none")


def test_a_request_of_an_assistant_message_has_no_time():
    session = record(Session(), user("a"), assistant("b"))
    assert Sent().time is None
    assert replay(session, Plan("all", pipeline(), 100)).timed == 0


# The store


@given(st.lists(st.dictionaries(st.integers(0, 50), st.integers(), max_size=6), max_size=30))
def test_a_store_is_a_dictionary_that_never_changes(puts):
    store, known, seen = Store(), {}, []
    for items in puts:
        seen.append((store, dict(known)))
        store, known = store.put(items), {**known, **items}
        seen.append((store, dict(known)))
    for old, told in seen:
        assert {key: old.get(key) for key in range(51)} == {key: told.get(key) for key in range(51)}


def test_a_store_copies_little():
    store, copied = Store(), 0
    for key in range(4096):
        before = {id(layer) for layer in store.layers}
        store = store.put({key: key})
        copied += sum(len(layer) for layer in store.layers if id(layer) not in before)
        assert len(store.layers) <= 13
    assert copied <= 4096 * 14


def test_a_replay_hashes_what_is_new():
    """Twice the session, twice the keys: what two requests share is not laid out again."""

    class Counting(str):
        hashes = 0
        __slots__ = ()

        def __hash__(self):
            Counting.hashes += 1
            return super().__hash__()

        def __eq__(self, other):
            return super().__eq__(other)

    counts = []
    for length in (100, 200):
        messages = [user(Counting(f"message {n}")) for n in range(length)]
        cache = Anthropic()
        state, Counting.hashes = cache.start, 0
        for n in range(1, length + 1):
            state, _ = cache.take(state, cache.place(Request(HEADED, tuple(messages[:n]))))
        counts.append(Counting.hashes)
    assert counts[0] == 100
    assert counts[1] == 200


# Real sessions


SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions" / "pi"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared session files are absent")
@pytest.mark.parametrize("file", sorted(SHARED.glob("*")), ids=lambda path: path.name)
def test_on_real_sessions_plans_cost_no_more_than_the_default(file):
    from ctxalgebra.codecs import load

    session = load(file).session
    default, planned = (
        compare(session, cache="anthropic", breakpoints=where).runs for where in BREAKPOINTS
    )
    for usual, ours in zip(default, planned, strict=True):
        assert ours.cost <= usual.cost
        assert ours.input == usual.input
