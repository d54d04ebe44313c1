"""Shaping of requests: descriptions of tools, effort, what is routine."""

from __future__ import annotations

import json
import time
from copy import deepcopy
from functools import partial

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Cut,
    Head,
    Image,
    InvalidArgument,
    Route,
    Session,
    Text,
    Thinking,
    Tool,
    ToolCall,
    account,
    assistant,
    breaks,
    chars4,
    dry_run,
    record,
    reply,
    send,
    system,
    tool_result,
    user,
)
from ctxalgebra.compaction.signals import ERROR_WORDS, units
from ctxalgebra.laws import check
from ctxalgebra.resident import LAZY, ToolPolicy, activate, resident_tools
from ctxalgebra.shaping.deferral import CORE, FINDERS, Deferral, activated, deferred, restored
from ctxalgebra.shaping.descriptions import LONGEST, metadata, shorten_descriptions
from ctxalgebra.shaping.effort import (
    THINKING,
    is_routine,
    lower_effort,
    routine_after,
)
from ctxalgebra.shaping.heads import shorten_head, shorten_tools
from ctxalgebra.shaping.reading import only_reads
from ctxalgebra.shaping.requests import routine_state, shape_effort

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    | st.sampled_from(["high", "MAX", "low", "x" * 500]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["tools", "description", "function", "parameters", "reasoning", "effort",
                 "reasoning_effort", "output_config", "thinking", "budget_tokens"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)  # fmt: skip
BODIES = st.dictionaries(
    st.sampled_from(["tools", "reasoning_effort", "reasoning", "output_config", "thinking"]), JSON
)


def paths(value, at=()):
    """Map the place of each leaf to it."""
    if isinstance(value, dict | list):
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for step, inner in steps for k, v in paths(inner, (*at, step)).items()}
    return {at: repr(value)}


@given(BODIES)
def test_only_descriptions_of_tools_get_shorter(body):
    before = deepcopy(body)
    told = shorten_descriptions(body)
    assert repr(body) == repr(before)
    assert (told.payload is body) == (not told.changed) == (told.saved == 0)
    old, new = paths(body), paths(told.payload)
    assert old.keys() == new.keys()
    for place in old:
        if old[place] != new[place]:
            assert place[0] == "tools"
            assert place[2:] in (("description",), ("function", "description"))
            assert len(new[place]) <= LONGEST + 2


@given(BODIES)
def test_only_known_fields_that_are_there_are_lowered(body):
    before = deepcopy(body)
    told = lower_effort(body)
    assert repr(body) == repr(before)
    old, new = paths(body), paths(told)
    assert old.keys() == new.keys()
    changed = [place for place in old if old[place] != new[place]]
    assert (told is body) == (not changed)
    for place in changed:
        assert place in (
            ("reasoning_effort",), ("reasoning", "effort"), ("output_config", "effort"),
            ("thinking", "budget_tokens"),
        )  # fmt: skip
        assert new[place] in ("'low'", str(THINKING))
    assert lower_effort(told) is told


def test_a_tool_of_which_both_texts_are_long():
    tool = {"description": "a" * 9, "function": {"description": "b" * 9}}
    told = shorten_descriptions({"tools": [tool]}, most=4)
    assert told.payload["tools"] == [{"description": "aaa…", "function": {"description": "bbb…"}}]
    assert told.saved == 10
    short = {"tools": [{"function": {"description": "abc"}}]}
    assert shorten_descriptions(short, most=4).payload is short


ODD = st.text(st.sampled_from("ab \n\x1b[31m]\x07\x9b\u202e\U0001f600"), max_size=30)
BETWEEN = st.sampled_from([";", "&&", "||", "|", "\n"])


@given(ODD, st.integers(1, 20))
def test_metadata_is_one_clean_line(text, most):
    line = metadata(text, most)
    assert units(line) <= most
    assert not set(line) & set("\n\x1b\x07\x9b\u202e")


READS = [
    "cat a",
    "  git status -s",
    "git log -1 | head -5 && git --no-pager diff",
    "git diff HEAD~1 -- a.py",
    "ls -la; pwd",
    "find . -name '*.py' | wc -l",
    "grep -rn 'a > b; rm -rf /' src | sort -u | uniq -c",
    "rg x . 2>/dev/null",
    "cat a 2>&1",
    "sed -n '1,20p' a.py",
    "sed -e 's/we/us/g' a",
    "npm test",
    "pnpm run test -- a.test.ts",
    "npm run test:unit",
    "pytest -q tests",
    "cargo test",
    "go test ./...",
    "tail -n 5 a && echo done",
    "find . \\( -name a -o -name b \\)",
    "cat a >/dev/null",
]
CHANGES = [
    "sed -i s/a/b/ prod.conf && systemctl restart db",
    "sed -ni p a",
    "sed --in-place=.bak p a",
    "sed -n 's/a/b/w out' a",
    "sed '1e date' a",
    "sed -n '/x/w out' a",
    "find / -name x -delete",
    "find . -exec rm {} \\;",
    "find . -fprint out",
    "cat a > b",
    "cat a >> b",
    "cat a >| b",
    "cat a | tee b",
    "ls; rm x",
    "ls & rm x",
    "ls\nrm x",
    "ls || reboot",
    "ls | xargs rm",
    "ls | sudo rm x",
    "cat $(rm x)",
    "cat `rm x`",
    'cat "$(rm x)"',
    'cat "`rm x`"',
    "cat <(rm x)",
    "ls | sh",
    "git status; git push",
    "git diff --output=x",
    "git log && git -c core.pager=x log",
    "tree -o x",
    "ls | sort -o x",
    "rg --pre cmd x",
    "npm test && npm publish",
    "npm test; npm run deploy",
    "cargo test; cargo publish",
    "ls > \\/dev/null2",
    "ls >/dev/nullx",
]


@pytest.mark.parametrize("line", READS)
def test_commands_that_read(line):
    assert is_routine("Bash", {"command": line}, "fine")
    assert not is_routine("bash", {"command": line}, "fine", failed=True)
    assert not is_routine("bash", {"command": line}, "ValueError: x")


@pytest.mark.parametrize("line", CHANGES)
def test_w40_a_command_that_may_change_something_is_no_routine(line):
    assert not only_reads(line)
    assert not is_routine("bash", {"command": line}, "")


@given(st.sampled_from(READS), st.sampled_from(CHANGES), BETWEEN)
def test_w40_wherever_it_stands(first, second, between):
    assert not only_reads(f"{first} {between} {second}")
    assert not only_reads(f"{second} {between} {first}")


@pytest.mark.parametrize(
    "wrong",
    [lambda: lower_effort([]), lambda: lower_effort(None), lambda: shorten_descriptions("x"),
     lambda: shorten_descriptions({}, most="5"), lambda: is_routine(5, {}, ""),
     lambda: is_routine("bash", [], ""), lambda: is_routine("bash", {}, None),
     lambda: is_routine("bash", {}, "", failed="no")],
)  # fmt: skip
def test_values_of_the_wrong_type_are_refused(wrong):
    with pytest.raises(InvalidArgument) as told:
        wrong()
    assert told.value.code in ("wrong-type", "invalid-argument")
    assert told.value.field


def test_other_tools_and_other_texts():
    assert is_routine("LS", {}, "")
    assert is_routine("read", {"command": "rm"}, "")
    assert not is_routine("edit", {}, "")
    assert not is_routine("bash", {}, "")
    assert not is_routine("bash", {"command": "ls " + "x" * 20_000}, "")
    assert is_routine("read", {}, "2 errors", errors=ERROR_WORDS)
    assert not is_routine("read", {}, "2 errors")


@given(st.lists(st.booleans()))
def test_one_step_that_is_no_routine_blocks_until_the_next_turn(steps):
    state = "none"
    for step in steps:
        state = routine_after(state, routine=step)
    assert state == ("none" if not steps else "eligible" if all(steps) else "blocked")


# Deferral


def test_w41_what_was_activated_stays_active():
    state, active = deferred(Deferral(), ["read", "db_query", "bash", "calendar"])
    state, active = activated(state, active, ["db_query", "db_query", "read", "nobody"])
    assert active == ("read", "bash", *FINDERS, "db_query")
    assert (state.held, state.found) == (("calendar",), ("db_query",))
    assert deferred(state, active) == (state, active)
    state, active = deferred(state, [*active, "late"])
    assert (state.held, active[-1]) == (("calendar", "late"), "db_query")


def test_w42_switching_on_and_off_keeps_the_order():
    tools = ["read", "db_query", "bash", "calendar"]
    state, active = deferred(Deferral(), tools)
    assert active == ("read", "bash", *FINDERS)
    assert restored(state, active, tools) == tuple(tools)
    assert restored(state, [*active, "new"], [*tools, "new"]) == (*tools, "new")
    assert restored(state, active, ["read", "bash", "calendar"]) == ("read", "bash", "calendar")
    assert restored(state, ["bash"], tools) == ("db_query", "bash", "calendar")


NAMES = st.lists(st.sampled_from([*"abcd", "read", "bash", *FINDERS]), unique=True)


@given(NAMES, st.lists(st.sampled_from("abcdx")), st.booleans())
def test_deferral_loses_no_tool_and_holds_no_core_tool(tools, wanted, again):
    state, active = deferred(Deferral(), tools)
    state, active = activated(state, active, wanted)
    if again:
        assert deferred(state, active) == (state, active)
    assert len(set(active)) == len(active)
    assert not set(state.held) & (CORE | set(active))
    own = [name for name in tools if name not in FINDERS]
    assert set(active) | set(state.held) == {*own, *FINDERS}
    assert list(restored(state, active, tools)) == own


def took(rule, value):
    best = 9.0
    for _ in range(3):
        start = time.process_time()
        rule(value)
        best = min(best, time.process_time() - start)
    return best


MILLION = 1_000_000
GROWING = {
    "escapes": lambda n: metadata("\x1b]" * (n // 2), 9),
    "blanks": lambda n: metadata("a" + " \x00" * (n // 2), 9),
    "tools": lambda n: shorten_descriptions({"tools": [{"description": "x" * 500}] * (n // 500)}),
    "blanks before a command": lambda n: is_routine("bash", {"command": " " * n + "x"}, ""),
    "quotes": lambda n: only_reads("cat '" * (n // 5)),
    "text": lambda n: is_routine("read", {}, "no err " * (n // 7)),
}


@pytest.mark.parametrize("name", GROWING)
def test_a_million_characters_cost_no_more_than_their_share(name):
    # Sixteen times the length: a quadratic rule would take 256 times as long.
    rule = GROWING[name]
    assert took(rule, MILLION) <= 100 * max(took(rule, MILLION // 16), 0.001)


SED = {
    "letters": "sed -n '" + "p" * 9000 + "'",
    "digits": "sed " + "1" * 9000,
    "dashes": "sed -" + "a" * 9000,
    "redirections": "ls " + ">&1 " * 2000 + "> " + " " * 9000,
    "bars": "ls >" + "|>&" * 3000,
    "backslashes": "ls " + "\\" * 9000,
    "double quotes": 'ls "' + "a\\" * 4000,
    "dollars": "ls '" + "$(" * 4000 + "'",
}


@pytest.mark.parametrize("name", SED)
def test_hostile_commands_are_read_in_their_share(name):
    line = SED[name]
    half = line[: len(line) // 2]
    assert took(only_reads, line) <= 20 * max(took(only_reads, half), 0.001)
    assert json.dumps(only_reads(line)) in ("true", "false")


# Over a session: descriptions in the head

LONG = Tool("long", "a b c " * 200)


def test_descriptions_are_shortened_before_the_first_request():
    whole = Tool("hosted", "x" * 900, '{"type":"web_search","name":"hosted"}')
    tools = (Tool("a", "short"), LONG, whole)
    session = record(Session(), Head(tools=tools), user("hi"))
    short = shorten_head(session)
    assert [units(tool.description) for tool in short.head.tools] == [5, LONGEST, 900]
    assert short.head.tools[1].schema == LONG.schema
    assert len(short) == len(session) + 1
    assert shorten_head(short) is short
    assert breaks(send(short)[0]) == ()
    assert shorten_tools(short.head.tools) is short.head.tools
    assert shorten_tools(()) == ()


def test_later_it_costs_a_break_and_waits_for_one():
    session, _ = send(record(Session(), Head(tools=(LONG,)), user("hi")))
    assert shorten_head(session, breaks=True) is session
    session = reply(session, "completed", assistant("hello"))
    assert shorten_head(session) is session
    told = dry_run(partial(shorten_head, breaks=True), record(session, user("b")))
    assert told.broke.at == -1
    assert told.rebilled > 0
    # Where the head breaks anyway it is shortened with it.
    session = record(session, evolve(session.head, system="new"))
    short = shorten_head(session)
    assert units(short.head.tools[0].description) == LONGEST
    (only,) = breaks(send(record(short, user("b")))[0])
    assert only.at == -1
    # What a harness states anew in each turn is short again, and that is no break.
    short, _ = send(record(short, user("b")))
    short = reply(short, "completed", assistant("c"))
    stated = record(short, evolve(short.head, tools=(LONG,)), user("d"))
    assert account(send(shorten_head(stated))[0]).rebilled == account(short).rebilled
    # A break behind the head is none of the head's.
    cut = record(session_of(LONG), Cut(2, user("Gone."), "full", breaks=True))
    assert cut.view.broke is not None
    assert shorten_head(cut) is cut


def session_of(*tools, route=None):
    head = Head(tools=tools) if route is None else Head(route, tools=tools)
    session, _ = send(record(Session(), head, user("hi"), user("there")))
    return record(reply(session, "completed", assistant("hello")), user("more"))


def test_it_takes_no_thinking_of_an_open_loop():
    route = Route("anthropic", "claude-opus-4", (), "leading")
    call = ToolCall("c1", "read")
    session = session_of(LONG, route=route)
    session = reply(send(session)[0], "completed", assistant(Thinking("t", "s"), call))
    session = record(session, tool_result("c1", "text"))
    assert shorten_head(session, breaks=True) is session
    session = record(reply(send(session)[0], "completed", assistant("done")), user("b"))
    assert shorten_head(session, breaks=True) is not session


def test_where_tools_are_resident_the_registry_is_shortened():
    registered = shorten_tools((Tool("read", "r" * 900), LONG, LAZY))
    policy = ToolPolicy(core=("read",))
    settle = partial(resident_tools, policy=policy, registered=registered)
    session = settle(record(Session(), Head(tools=registered[:1]), user("hi")))
    session = reply(send(session)[0], "completed", assistant("hello"))
    session = record(session, user("more"))
    assert settle(shorten_head(session)) is session
    session = settle(activate(session, ["long"], policy=policy, registered=registered))
    assert shorten_head(session) is session
    assert [units(tool.description) for tool in session.head.tools][::2] == [LONGEST, LONGEST]


@pytest.mark.parametrize("stage", [
    partial(shorten_head, most=1), partial(shorten_head, most=1, breaks=True)])  # fmt: skip
def test_shortening_keeps_all_laws(stage):
    check(stage, examples=40)


@pytest.mark.parametrize("wrong", [
    lambda: shorten_tools([LONG]), lambda: shorten_tools((5,)), lambda: shorten_tools((), most=0),
    lambda: shorten_head(None), lambda: shorten_head(Session(), most="9"),
    lambda: shorten_head(Session(), breaks=1)])  # fmt: skip
def test_what_can_not_be_shortened(wrong):
    with pytest.raises(InvalidArgument) as raised:
        wrong()
    assert raised.value.code in ("wrong-type", "invalid-argument")


# Over a session: effort


def ran(session, *steps, send_first=True):
    """Let the model call `bash` for each step, a command and what came of it."""
    calls = [ToolCall(f"c{len(session)}_{i}", "bash", json.dumps({"command": line}))
             for i, (line, _) in enumerate(steps)]  # fmt: skip
    if send_first:
        session = reply(send(session)[0], "completed", assistant(*calls))
    else:
        session = record(session, assistant(*calls))
    for call, (_, text) in zip(calls, steps, strict=True):
        session = record(session, tool_result(call.id, text or "failed", error=text is None))
    return session


START = record(Session(), Head(system="s" * 400), user("Look at it"))
ROUTINE = ran(START, ("git status", "clean"), ("ls | head", "a.py"))
BODIES_OF = {
    "anthropic-messages": {"thinking": {"type": "enabled", "budget_tokens": 9000},
                           "output_config": {"effort": "high", "format": None}},
    "gemini-contents": {"generationConfig": {
        "thinkingConfig": {"thinkingBudget": 9000, "thinkingLevel": "HIGH"}, "topK": 1}},
    "openai-chat": {"reasoning_effort": "xhigh"},
    "openai-responses": {"reasoning": {"effort": "medium", "summary": "auto"}},
}  # fmt: skip


@pytest.mark.parametrize("api", BODIES_OF)
def test_each_api_has_its_fields(api):
    body = BODIES_OF[api]
    before = deepcopy(body)
    told = shape_effort(ROUTINE, body, api=api, breaks=True)
    assert body == before
    old, new = paths(body), paths(told.payload)
    assert old.keys() == new.keys()
    changed = {".".join(place): new[place] for place in old if old[place] != new[place]}
    assert {*changed} == {*told.lowered}
    assert (
        changed
        == {
            "anthropic-messages": {
                "thinking.budget_tokens": "1024",
                "output_config.effort": "'low'",
            },
            "gemini-contents": {
                "generationConfig.thinkingConfig.thinkingBudget": "1024",
                "generationConfig.thinkingConfig.thinkingLevel": "'LOW'",
            },
            "openai-chat": {"reasoning_effort": "'low'"},
            "openai-responses": {"reasoning.effort": "'low'"},
        }[api]
    )
    # Fields of the others are none of its own.
    for other, fields in BODIES_OF.items():
        assert (shape_effort(ROUTINE, fields, api=api, breaks=True).payload is fields) == (
            other != api
        )


def test_gemini_is_spelled_in_two_ways_and_levels_as_they_are():
    body = {"generation_config": {"thinking_config": {"thinking_level": "medium",
                                                      "thinking_budget": -1}}}  # fmt: skip
    told = shape_effort(ROUTINE, body, api="gemini-contents")
    assert told.payload == {"generation_config": {"thinking_config": {
        "thinking_level": "low", "thinking_budget": -1}}}  # fmt: skip
    assert told.lowered == ("generation_config.thinking_config.thinking_level",)


@given(BODIES | st.dictionaries(st.sampled_from(["generationConfig", "generation_config"]), JSON))
def test_no_field_is_ever_made_up(body):
    for api in BODIES_OF:
        before = deepcopy(body)
        told = shape_effort(ROUTINE, body, api=api, breaks=True)
        assert repr(body) == repr(before)
        assert paths(told.payload).keys() == paths(body).keys()
        assert (told.payload is body) == (told.lowered == ())


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ([("git log -3", "a1 first")], "eligible"),
        ([("git log -3", "a1 first"), ("cat a", "text")], "eligible"),
        ([("git log -3", None)], "blocked"),
        ([("git log -3", "Error: x")], "blocked"),
        ([("sed -i s/a/b/ x && systemctl restart db", "")], "blocked"),
        ([("find / -name x -delete", "")], "blocked"),
        ([("rm x", ""), ("ls", "a")], "blocked"),
        ([("ls", "a"), ("ls > b", "")], "blocked"),
        ([("ls", "a"), ("ls", None), ("ls", "a")], "blocked"),
    ],
)
@pytest.mark.parametrize("send_first", [True, False])
def test_w40_only_routine_steps_lower_the_effort(steps, state, send_first):
    session = ran(START, *steps, send_first=send_first)
    assert routine_state(session) == state
    flying, _ = send(session)
    assert routine_state(flying) == state
    for api, body in BODIES_OF.items():
        told = shape_effort(flying, body, api=api, breaks=True)
        assert bool(told.lowered) == (state == "eligible")
    # Behind the answer nothing is new.
    assert routine_state(reply(flying, "completed", assistant("ok"))) == "none"
    assert routine_state(reply(flying, "failed")) == "none"


def test_when_somebody_spoke_the_model_thinks():
    assert routine_state(Session()) == "none"
    assert routine_state(START) == "blocked"
    for message in (user("Wait"), system("Answer in German.")):
        assert routine_state(record(ROUTINE, message)) == "blocked"
        # Between the results, too.
        session, _ = send(START)
        calls = [ToolCall("c1", "read"), ToolCall("c2", "LS", "[]")]
        session = reply(session, "completed", assistant(*calls))
        session = record(session, tool_result("c1", "text"), message)
        assert routine_state(record(session, tool_result("c2", "a.py"))) == "blocked"
    failed = reply(send(ROUTINE)[0], "failed", assistant(ToolCall("c9", "read")))
    assert routine_state(failed) == "none"


def test_a_history_that_was_taken_in_has_steps_too():
    session = record(Session(), assistant(ToolCall("c1", "read")), tool_result("c1", "a"))
    assert routine_state(session) == "eligible"
    aborted = reply(send(START)[0], "aborted", assistant(ToolCall("c1", "read")))
    assert routine_state(record(aborted, assistant("so"))) == "none"


@pytest.mark.parametrize("arguments", ["", "[" * 100_000, "[]", '{"command":5}', "1" * 5000, "{"])
def test_calls_that_can_not_be_read_are_no_routine(arguments):
    session = reply(send(START)[0], "completed", assistant(ToolCall("c1", "bash", arguments)))
    assert routine_state(record(session, tool_result("c1", "ok"))) == "blocked"
    image = tool_result("c1", (Image("aGk=", "image/png"), Text("fine"), Text("Error: no")))
    session = reply(send(START)[0], "completed", assistant(ToolCall("c1", "read", arguments)))
    assert routine_state(record(session, image)) == "blocked"


def test_the_state_belongs_to_its_path():
    blocked = ran(START, ("rm x", ""))
    assert routine_state(ran(blocked, ("ls", "a"))) == "eligible"
    assert routine_state(ran(ROUTINE, ("rm x", ""))) == "blocked"


HEAD_TOKENS = chars4(START.head)


@pytest.mark.parametrize("api", BODIES_OF)
def test_what_would_be_read_anew_is_told_and_not_paid_unasked(api):
    body = BODIES_OF[api]
    messages = chars4(user("Look at it"))
    price = {"anthropic-messages": messages, "gemini-contents": 0}.get(api, HEAD_TOKENS + messages)
    for session in (ROUTINE, send(ROUTINE)[0]):
        told = shape_effort(session, body, api=api)
        assert (told.price, told.rebilled) == (price, 0)
        assert (told.payload is body) == (price > 0)
        paid = shape_effort(session, body, api=api, breaks=True)
        assert paid.payload is not body
        assert (paid.price, paid.rebilled) == (price, price)
        cold = shape_effort(session, body, api=api, cache="cold")
        assert (cold.payload, cold.price) == (paid.payload, 0)
    low = paid.payload
    # The next step is as cheap as before: the body before asked for as little.
    session = ran(ROUTINE, ("git diff", "-a"))
    same = shape_effort(session, body, api=api, previous=low)
    assert (same.payload, same.rebilled, same.price) == (low, 0, 0)
    # And behind an error it is paid to think again.
    session = ran(ROUTINE, ("git diff", None))
    back = shape_effort(session, body, api=api, previous=low)
    assert back.payload is body
    assert (back.rebilled > 0) == (price > 0)
    assert shape_effort(session, low, api=api, previous=low).rebilled == 0


def test_where_the_head_breaks_lowering_costs_nothing():
    body = BODIES_OF["openai-responses"]
    changed = record(ROUTINE, evolve(ROUTINE.head, system="new"))
    for session in (changed, send(changed)[0]):
        told = shape_effort(session, body, api="openai-responses")
        assert (told.lowered, told.price) == (("reasoning.effort",), 0)
    # A cut leaves what stands in front of it.
    session = record(ROUTINE, Cut(1, user("Gone."), "full", breaks=True))
    assert session.view.broke.at == 0
    assert shape_effort(session, body, api="openai-responses").price == HEAD_TOKENS
    assert shape_effort(session, BODIES_OF["anthropic-messages"], api="anthropic-messages").lowered
    first, _ = send(ran(START, ("ls", "a"), send_first=False))
    assert first.view.sent.before < 0
    assert shape_effort(first, body, api="openai-responses").lowered


@pytest.mark.parametrize("wrong", [
    {"session": None}, {"payload": 5}, {"previous": []}, {"api": "other"}, {"api": []},
    {"breaks": 1}, {"cache": "hot"}, {"measure": 5},
    {"measure": lambda _: -1, "session": ROUTINE}])  # fmt: skip
def test_what_can_not_be_shaped(wrong):
    given_ = {"session": START, "payload": {}, "api": "openai-chat", **wrong}
    with pytest.raises(InvalidArgument) as raised:
        shape_effort(**given_)
    assert raised.value.code in ("wrong-type", "invalid-argument")
