"""Faults of the originals in what is resident, each shown not to be ours."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Head,
    Session,
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
from ctxalgebra.resident import (
    FIND_CAPABILITY,
    Capability,
    Index,
    ToolPolicy,
    active_tools,
    rank,
    resident_tools,
    respond_discovery,
)
from ctxalgebra.skills import catalogue
from ctxalgebra.skills.records import Skill

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
