"""Faults of the originals in what is resident, each shown not to be ours."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Head,
    InvalidArgument,
    Note,
    Route,
    Session,
    Thinking,
    Tool,
    ToolCall,
    assistant,
    drive,
    project,
    record,
    reply,
    send,
    tool_result,
    user,
    working_memory,
)
from ctxalgebra.checkpoints.tools import CHECKPOINT, TRAVEL
from ctxalgebra.resident import (
    FIND_CAPABILITY,
    LAZY,
    LIBRARY,
    LOADED,
    NOTE,
    TOOL_SEARCH,
    Capability,
    Index,
    ToolPolicy,
    activate,
    activated_tools,
    active_tools,
    capabilities,
    conflicts,
    discoverable,
    for_route,
    plan_tools,
    rank,
    reconcile,
    reset,
    resident_tools,
    respond_discovery,
    snapshot,
    tool_policy,
)
from ctxalgebra.resident.activation import activated_by
from ctxalgebra.skills import catalogue
from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.respond import SKILL, SKILL_SEARCH
from ctxalgebra.timeline.tool import TIMELINE
from ctxalgebra.transforms.compact import RETRIEVE

GIT = Skill("git", "Git help", "/s/git/SKILL.md")


def catalog(name="git", gap="\n"):
    return (
        f"<available_skills>{gap}<skill>{gap}<name>{name}</name>{gap}"
        f"<description>Git help</description>{gap}</skill>{gap}</available_skills>"
    )


# W10: a catalogue that is written in another way


@pytest.mark.parametrize("gap", ["\n", "\n  ", "", "\r\n"])
@pytest.mark.parametrize("lead", ["", f"{catalogue.PREAMBLE}\nRead it first.\n\n", "Skills:\n"])
def test_w10_a_catalogue_is_found_however_it_is_written(gap, lead):
    prompt = f"You code.\n\n{lead}{catalog(gap=gap)}\nBe brief."
    told = catalogue.prepared(prompt, [GIT], "STUB")
    assert "<name>git" not in told.prompt
    assert "STUB" in told.prompt
    assert told.prompt.endswith("\nBe brief.")
    assert not told.leftover


@pytest.mark.parametrize("block", [
    "<available_skills count=1>\n<name>git</name>\n</available_skills>",
    "<available_skills>\n- git: Git help (/s/git/SKILL.md)",
])  # fmt: skip
def test_w10_what_is_not_found_is_told_and_nothing_is_saved_by_it(block):
    prompt = f"You code.\n\n{block}"
    told = catalogue.prepared(prompt, [GIT], "STUB")
    assert told.leftover
    assert told.prompt == f"{prompt}\n\nSTUB"


# W22: the rest of the prompt


BLANK = st.text(st.sampled_from("ab \t\n\r\u3000"), max_size=12)


@given(BLANK, BLANK, BLANK, st.booleans())
def test_w22_nothing_else_of_a_prompt_changes(start, middle, end, introduced):
    lead = f"{catalogue.PREAMBLE}\nUse the read tool.\n\n" if introduced else ""
    for skills in ([GIT], []):
        plain = f"{start}x{middle}y{end}"
        assert catalogue.replaced(plain, skills, "STUB") == plain
        assert catalogue.prepared(plain, skills, "STUB").prompt == f"{plain}\n\nSTUB"
    # What stands directly in front of the host's sentence is the host's blank line.
    front = f"{start}x{middle}\n"
    before = front.rstrip("\n") if introduced else front
    told = catalogue.replaced(f"{front}{lead}{catalog()}{end}", [GIT], "STUB")
    assert told == f"{before}\n\nSTUB{end}"


# W23, W26: words


def test_w23_parts_of_words_and_stop_words_are_no_hits():
    design = Capability("frontend-design", "Design user interface layouts in CSS", "skill")
    theme = Capability("theme-builder", "Builds documentation themes", "skill")
    (only,) = rank(Index((theme, design)), "help me with the ui layout")
    assert only.capability is design


def test_w26_words_of_other_scripts_are_found():
    review = Capability("review", "代码 审查 流程", "skill")
    checks = Capability("grosse", "Größe prüfen déjà vu", "skill")
    index = Index((Capability("other", "nothing of it", "skill"), review, checks))
    assert [one.capability for one in rank(index, "代码审查")] == [review]
    assert [one.capability for one in rank(index, "größe prüfen")] == [checks]


# W24: a weak hit, and what the finder costs


SCOPE = (
    Capability("unit-test", "Write a unit test", "skill"),
    Capability("theater-planner", "Plan the theater evening", "skill"),
)
DEPLOY = Capability("kubernetes-deploy", "Deploy a service to the cluster", "skill")


@pytest.mark.parametrize("query", ["the kubernetes deploy", "The Kubernetes, please", "kubernetes"])
def test_w24_a_stop_word_is_no_hit(query):
    assert rank(Index(SCOPE), query) == ()
    (only,) = rank(Index((*SCOPE, DEPLOY)), query)
    assert only.capability is DEPLOY


@pytest.mark.parametrize(("load", "body"), [(True, "Use kubectl."), (False, None)])
def test_w24_the_finder_loads_what_was_meant(load, body):
    registered = (FIND_CAPABILITY, Tool("weather", "What the weather is"))
    given_ = {"description": "the kubernetes deploy", "load": load}
    call = ToolCall("c1", "find_capability", json.dumps(given_))
    session = record(Session(), Head(tools=registered[:1]), user("Deploy"), assistant(call))
    (result,) = respond_discovery(
        session, call, policy=ToolPolicy(), registered=registered, skills=(*SCOPE, DEPLOY),
        bodies={"kubernetes-deploy": "Use kubectl.", "theater-planner": "Book seats."},
    )  # fmt: skip
    lines = result.parts[0].text.split("\n")
    assert lines[0].startswith("- [skill] kubernetes-deploy: ")
    assert lines[1:] == (["", body] if body else [])


def test_w24_no_stage_of_working_memory_puts_a_tool_into_the_head():
    tools = (Tool("bash", "Run"), Tool("read", "Read"))
    session = record(Session(), Head(system="Be brief.", tools=tools), user("Run it"))
    for turn in range(3):
        call = ToolCall(f"c{turn}", "bash", '{"command":"make"}')
        session = reply(send(session)[0], "completed", assistant(call))
        session = record(session, tool_result(call.id, "line\n" * 5000))
        session = drive(session, working_memory(), lambda asks: ())
        assert project(session).head.tools == tools
    assert len(project(session).messages[2].parts[0].text) < 5 * 5000


def test_w8_w9_a_finder_stays_where_it_is_and_so_does_what_it_found():
    registered = (Tool("a"), FIND_CAPABILITY, Tool("b"), Tool("web", "Search the web"))
    policy = ToolPolicy(core=("a", "b"))
    session = record(Session(), Head(tools=registered[:3]), user("Look it up"))
    session = resident_tools(session, policy=policy, registered=registered)
    order = active_tools(session)
    for turn in range(3):
        call = ToolCall(f"c{turn}", "find_capability", '{"description":"search the web"}')
        session = reply(send(session)[0], "completed", assistant(call))
        entries = respond_discovery(session, call, policy=policy, registered=registered)
        session = resident_tools(record(session, *entries), policy=policy, registered=registered)
        session = record(reply(send(session)[0], "completed", assistant("done")), user("next task"))
        session = resident_tools(session, policy=policy, registered=registered)
        assert active_tools(session) == (*order, "web")


# What the model is told it can call

READ, WEB = Tool("read", "Read a file"), Tool("web", "Search the web")
HELD = ToolPolicy(core=("read",))


def begun(*registered, policy=HELD, **head):
    session = record(Session(), Head(tools=(READ,), **head), user("go"))
    return send(resident_tools(session, policy=policy, registered=registered))[0]


def asks(session, arguments, registered, policy=HELD, name="lazy", **options):
    """Let the model call a finder; give the session before the answer, and the answer."""
    given_ = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = ToolCall(f"c{len(session)}", name, given_)
    if session.view.flight < 0:
        session = send(record(session, user("more")))[0]
    session = reply(session, "completed", assistant(call))
    options = {"policy": policy, "registered": registered, **options}
    return session, respond_discovery(session, call, **options)


def text_of(entries):
    return entries[-1].parts[0].text


@pytest.mark.parametrize("deferred", [False, True])
def test_what_is_disabled_or_not_registered_is_not_told(deferred):
    tools = (READ, LAZY, WEB)
    session, entries = asks(begun(*tools), {"activate": ["web"]}, tools)
    session = record(session, *entries)
    settle = partial(resident_tools, deferred=deferred)
    session = settle(session, policy=HELD, registered=tools)
    assert active_tools(session) == ("read", "lazy", "web")
    session = reply(send(session)[0], "completed", assistant("ok"))
    off = ToolPolicy(core=("read",), disabled=("web",))
    for policy, registered in ((off, tools), (HELD, tools[:2])):
        after = settle(record(session, user("on")), policy=policy, registered=registered)
        given_ = {"policy": policy, "registered": registered}
        assert active_tools(after, **given_) == ("read", "lazy")
        after = send(after)[0]
        _, told = asks(after, {}, registered, policy)
        assert text_of(told) == "Active: read, lazy.\n0 more can be found and activated."
        _, told = asks(after, {"activate": ["web"]}, registered, policy)
        assert text_of(told).startswith(("Not allowed: web", "There is no tool web"))


def test_what_only_a_note_names_is_not_told():
    session = record(begun(READ, LAZY, WEB), snapshot(["evil", "web"], by="model"))
    session = record(session, Note(LOADED, '{"version":1,"tools":{"evil":null}}'))
    assert active_tools(session) == ("read", "lazy")
    given_ = {"policy": HELD, "registered": (READ, LAZY, WEB)}
    assert active_tools(session, **given_) == ("read", "lazy", "web")
    assert activated_tools(session) == ("evil", "web")


@pytest.mark.parametrize("names", ['["\\ud800"]', '["web", "\\udfff"]', '[["web"]]', "[null]"])
def test_a_note_that_can_not_be_written_again_is_no_snapshot(names):
    tools = (READ, LAZY, WEB)
    session = record(begun(*tools), Note(NOTE, f'{{"version":1,"activatedTools":{names}}}'))
    assert activated_tools(session) == ()
    session, entries = asks(session, {"activate": ["web"]}, tools)
    assert activated_by(session) == "host"
    session = record(session, *entries)
    assert (activated_tools(session), activated_by(session)) == (("web",), "model")
    others = Note(NOTE, '{"version":1,"activatedTools":["web"],"others":["\\ud800"]}')
    assert activated_tools(record(session, others)) == ("web",)


# Answers are bounded


def test_answers_are_bounded_whatever_is_asked_and_whatever_there_is():
    big = "d" * 1_000_000
    many = tuple(Tool(f"tool_{at}", f"Does things {big if at < 30 else ''}") for at in range(300))
    long_named = Tool("n" * 100_000, "Named at length")
    tools = (READ, LAZY, FIND_CAPABILITY, TOOL_SEARCH, *many, long_named)
    session = begun(*tools)
    index = Index(capabilities(tools))
    for name, arguments in [
        ("lazy", {"activate": ["z" * 1_000_000]}),
        ("lazy", {"activate": [f"none_{at}" for at in range(100_000)]}),
        ("lazy", {"activate": [f"tool_{at}" for at in range(300)]}),
        ("lazy", {"activate": [long_named.name]}),
        ("lazy", {"search": "does things " + big}),
        ("lazy", {}),
        ("find_capability", {"description": "does things", "top": 8}),
        ("tool_search", {"query": "does things", "limit": 5}),
        ("lazy", json.dumps({big: 1})),
    ]:
        before, entries = asks(session, arguments, tools, name=name, index=index)
        after = record(before, *entries)
        assert len(text_of(entries)) < 50_000
        assert len(activated_tools(after)) <= 20


def test_a_mark_says_what_is_left_out_and_how_to_get_it():
    tools = (READ, LAZY, Tool("web", "w" * 2_001), *(Tool(f"t{at}") for at in range(40)))
    session = begun(*tools)
    _, entries = asks(session, {"activate": ["web", *(f"t{at}" for at in range(30))]}, tools)
    told = text_of(entries)
    assert "The first 2,000 of 2,001 characters. All of it stands in the description" in told
    assert told.endswith("11 more names were passed over: at most 20 at once.")
    _, entries = asks(session, {"activate": [f"no{at}" for at in range(8)]}, tools)
    assert text_of(entries).endswith("There are none of these either: no5, no6, no7.")
    core = ToolPolicy(core=tuple(tool.name for tool in tools))
    full = send(record(Session(), Head(tools=tools), user("a")))[0]
    _, entries = asks(full, {}, tools, core)
    assert text_of(entries).startswith("Active: read, lazy, web, t0,")
    assert "t16 and 23 more." in text_of(entries)


def test_a_long_body_is_cut_with_a_mark():
    tools = (READ, FIND_CAPABILITY)
    skills = (Capability("deploy", "Deploy it", "skill"),)
    for size in (20_000, 20_001):
        bodies = {"deploy": "x" * size}
        options = {"skills": skills, "bodies": bodies, "name": "find_capability"}
        _, entries = asks(begun(*tools), {"description": "deploy"}, tools, **options)
        assert ("The first 20,000 of 20,001 characters" in text_of(entries)) == (size > 20_000)


def test_names_are_activated_as_they_are_spelled():
    spaced = Tool(" web ", "Search")
    tools = (READ, LAZY, spaced, Tool("zip"))
    session, entries = asks(begun(*tools), {"activate": [" web ", " zip ", "  "]}, tools)
    assert activated_tools(record(session, *entries)) == (" web ", "zip")


# What others put into the head

FOREIGN = Tool("foreign", "Of another extension, which nobody registers here.")


@pytest.mark.parametrize("policy", [HELD, ToolPolicy(enabled=False)])
def test_a_tool_of_others_stays_whether_or_not_it_is_registered(policy):
    tools = (READ, LAZY, WEB)
    given_ = {"policy": policy, "registered": tools}
    start = record(Session(), Head(tools=(FOREIGN, READ)), user("go"))
    start = send(resident_tools(start, **given_))[0]
    later = reply(send(resident_tools(record(Session(), Head(tools=(READ,)), user("go")),
                                      **given_))[0], "completed", assistant("ok"))  # fmt: skip
    later = record(later, Head(tools=(*later.head.tools, FOREIGN)), user("on"))
    for one in (reply(start, "completed", assistant("ok")), later):
        session = record(one, user("on"))
        assert "foreign" in active_tools(session, **given_)
        for _ in range(2):
            session = activate(session, ["web"], **given_)
            session = resident_tools(session, **given_)
            assert "foreign" in active_tools(session)
            session = reset(session)
        off = ToolPolicy(enabled=policy.enabled, core=("read",), disabled=("foreign",))
        session = resident_tools(session, policy=off, registered=tools)
        assert "foreign" not in active_tools(session)


def test_what_was_registered_and_is_gone_leaves():
    tools = (READ, LAZY, WEB)
    session = reply(begun(*tools), "completed", assistant("ok"))
    session = resident_tools(record(session, user("on")), policy=HELD, registered=tools[:1])
    assert active_tools(session) == ("read",)


# The library's own tools


def test_a_policy_for_the_harness_does_not_hold_the_library_back():
    own = (SKILL, SKILL_SEARCH, RETRIEVE, CHECKPOINT, TRAVEL, TIMELINE)
    assert tuple(tool.name for tool in own) == LIBRARY
    tools = (READ, LAZY, WEB, *own)
    session = record(Session(), Head(tools=tools), user("go"))
    told = resident_tools(session, policy=HELD, registered=tools)
    assert {*active_tools(told)} == {"read", "lazy", *LIBRARY}
    off = tool_policy({"core": ["read"], "disabled": ["travel"], "library": ["skill"]})
    told = resident_tools(session, policy=off, registered=tools)
    assert active_tools(told) == ("read", "lazy", "skill")
    without = tool_policy({"core": ["read"], "disabled": ["travel"]})
    assert "travel" not in active_tools(resident_tools(session, policy=without, registered=tools))


# Arguments

NOTHING = Session()
WRONG = [
    lambda bad: reconcile(ToolPolicy(), bad, []),
    lambda bad: reconcile(ToolPolicy(), [], bad),
    lambda bad: reconcile(ToolPolicy(), [], [], bad),
    lambda bad: reconcile(ToolPolicy(), [], [], released=bad),
    lambda bad: reconcile(ToolPolicy(), [], [], others=bad),
    lambda bad: reconcile(bad, [], []),
    lambda bad: reconcile(ToolPolicy(), [], [], by=bad),
    lambda bad: discoverable(ToolPolicy(), bad),
    lambda bad: discoverable(bad, []),
    lambda bad: snapshot(bad),
    lambda bad: snapshot([], others=bad),
    lambda bad: snapshot([], by=bad),
    lambda bad: activate(NOTHING, bad, policy=ToolPolicy(), registered=()),
    lambda bad: activate(NOTHING, [], policy=ToolPolicy(), registered=(), by=bad),
    lambda bad: active_tools(bad),
    lambda bad: active_tools(NOTHING, policy=bad, registered=()),
    lambda bad: active_tools(NOTHING, policy=ToolPolicy(), registered=bad),
    lambda bad: active_tools(NOTHING, registered=bad),
    lambda bad: plan_tools(NOTHING, policy=bad, registered=()),
    lambda bad: plan_tools(NOTHING, policy=ToolPolicy(), registered=bad),
    lambda bad: for_route(bad, None),
    lambda bad: conflicts(bad),
]
CALL = ToolCall("c", "find_capability", '{"description":"deploy"}')
FINDS = [
    ("bodies", "text"), ("bodies", ["deploy"]), ("bodies", {"deploy": 5}), ("skills", ["a"]),
    ("bodies", {"deploy": "\ud800"}), ("index", [1]), ("ranking", 3), ("policy", None),
    ("registered", "lazy"),
]  # fmt: skip


@pytest.mark.parametrize("call", WRONG)
@pytest.mark.parametrize("bad", [5, "text", b"bytes", [5], ["\ud800"], object()])
def test_arguments_of_another_type_have_a_code(call, bad):
    with pytest.raises(InvalidArgument) as caught:
        call(bad)
    assert caught.value.code in ("wrong-type", "lone-surrogate", "invalid-argument")


@pytest.mark.parametrize(("name", "bad"), FINDS)
def test_what_a_finder_is_given_is_checked(name, bad):
    skills = (Capability("deploy", "Deploy it", "skill"),)
    options = {"policy": HELD, "registered": (READ,), "skills": skills, name: bad}
    with pytest.raises(InvalidArgument) as caught:
        respond_discovery(NOTHING, CALL, **options)
    assert caught.value.code in ("wrong-type", "lone-surrogate")


def test_where_the_head_is_held_the_answer_says_so():
    """Rule V-A7: inside of a loop that must keep its leading thinking the list can't change."""
    tools = (Tool("read"), Tool("web", "Search the web"), LAZY)
    policy = ToolPolicy(core=("read",))
    told = {}
    for binding in ("leading", "none"):
        head = Head(Route("anthropic", "m", binding=binding), tools=tools[:1])
        session = record(Session(), head, user("x"))
        session, _ = send(resident_tools(session, policy=policy, registered=tools))
        call = ToolCall("c1", "lazy", '{"activate":["web"]}')
        session = reply(session, "completed", assistant(Thinking("t", "sig"), call))
        entries = respond_discovery(session, call, policy=policy, registered=tools)
        told[binding] = entries[-1].parts[0].text
        session = record(session, *entries)
        session = resident_tools(session, policy=policy, registered=tools)
        assert ("web" in [t.name for t in session.head.tools]) == (binding == "none")
    assert "from the user's next message on" in told["leading"]
    assert "from your next step on." in told["none"]
