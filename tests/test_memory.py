"""A working memory from its settings."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

from ctxalgebra import (
    Answer,
    InvalidArgument,
    Session,
    ToolCall,
    assistant,
    drive,
    pending,
    pipeline,
    project,
    record,
    reply,
    savings,
    select,
    send,
    tool_result,
    user,
    working_memory,
)
from ctxalgebra.transforms.memory import memory_stages
from ctxalgebra.transforms.memory_settings import MemorySettings, memory_settings


def effects(asks):
    said = {"digest": "- fine", "fact": "[Wrote a.py — x, ~9 lines]", "tag": '{"decision":"DROP"}'}
    return tuple(Answer(p.number, "answered", said[p.ask.topic]) for p in asks)


CALLS = (
    ToolCall("c1", "bash", '{"command":"make"}'),
    ToolCall("c2", "write", '{"path":"a.py","content":"' + "x" * 2000 + '"}'),
    ToolCall("c3", "read", '{"path":"b.py"}'),
)
RESULTS = (
    tool_result("c1", "a line of output\n" * 2000),
    tool_result("c2", "ok"),
    tool_result("c3", "\n".join(f"some words of line {n * 7919}" for n in range(2500))),
)


def grown(settle) -> Session:
    session = reply(send(record(Session(), user("go")))[0], "completed", assistant(*CALLS))
    session = drive(record(session, *RESULTS), settle, effects)
    session = reply(send(session)[0], "completed", assistant(ToolCall("c4", "ls")))
    session = drive(record(session, tool_result("c4", "a")), settle, effects)
    return send(session)[0]


def test_each_mechanism_does_its_part():
    for compact, parts in (
        (False, {"digest", "fact", "tag"}),
        (True, {"digest", "fact", "compact"}),
    ):
        told = savings(grown(working_memory(regret=1, compact=compact))).mechanisms
        assert {who for who, tally in told.items() if tally.first + tally.later > 0} >= parts


@pytest.mark.parametrize(
    ("settings", "more", "gone"),
    [
        (MemorySettings(bash=False), {}, {"digest"}),
        (MemorySettings(write=False), {}, {"fact"}),
        (MemorySettings(amnesia=False), {}, {"tag"}),
        (MemorySettings(bash_min_tokens=1e9, write_min_bytes=1e9, amnesia_min_tokens=1e9), {},
         {"digest", "fact", "tag"}),
        (MemorySettings(), {"compact": False, "limit": False}, {"compact", "limit"}),
        (MemorySettings(enabled=False), {}, {"digest", "fact", "tag", "compact", "limit"}),
    ],
)  # fmt: skip
def test_settings_say_which_and_from_which_size_on(settings, more, gone):
    told = savings(grown(working_memory(settings, regret=1, **more)))
    assert not gone & told.mechanisms.keys()


def test_facts_may_be_worded_by_a_model():
    last = project(grown(working_memory(model_facts=True))).messages[3]
    assert last.parts[-1].text == "[Wrote a.py — x, ~9 lines]"


def test_fractions_and_zeros_of_the_environment_are_sizes():
    settings = memory_settings({"PI_CTX_BASH_MIN_TOKENS": "0.5", "PI_CTX_WRITE_MIN_BYTES": ""})
    assert (settings.bash_min_tokens, settings.write_min_bytes) == (0.5, 0)
    grown(working_memory(settings))


def test_with_select_behind_it_settles_at_once():
    settle = pipeline(working_memory(regret=1), partial(select, budget=4_000))
    session = grown(settle)
    session = reply(session, "completed", assistant("ok"))
    session = drive(record(session, user("on")), settle, effects)
    assert settle(session) is session


def test_arguments_are_checked():
    for call in (
        lambda: working_memory(5),
        lambda: working_memory(compact=1),
        lambda: working_memory(limit="yes"),
        lambda: working_memory(model_facts=None),
        lambda: working_memory(save=1),
        lambda: working_memory(shells="bash"),
        lambda: working_memory(retrieval=["read"]),
        lambda: working_memory(writers=(1,)),
    ):
        with pytest.raises(InvalidArgument):
            call()


def asks_of(settings, session, **more):
    found = {}
    for waiting in pending(working_memory(settings, regret=1, **more)(session)):
        found[waiting.ask.topic] = (json.loads(waiting.ask.question), waiting.ask.deadline)
    return found


def unsent(*calls, results=RESULTS):
    session = reply(send(record(Session(), user("go" * 9_000)))[0], "completed", assistant(*calls))
    return record(session, *results)


def test_every_setting_of_a_question_reaches_it():
    settings = MemorySettings(
        bash_max_summary_tokens=11, write_fact_max_tokens=7, write_max_content_chars=100,
        tag_max_tokens=5, amnesia_max_input_chars=50, aux_timeout_ms=77,
    )  # fmt: skip
    found = asks_of(settings, unsent(*CALLS), model_facts=True, compact=False, limit=False)
    assert {topic: ask[0]["longest"] for topic, ask in found.items()} == {
        "digest": 11,
        "fact": 7,
        "tag": 5,
    }
    assert {ask[1] for ask in found.values()} == {77}
    assert "[1900 more characters]" in found["fact"][0]["prompt"]
    size = len(RESULTS[2].parts[0].text) - 50
    assert f"[{size} more characters]" in found["tag"][0]["prompt"]
    assert "At most 44 characters" in found["digest"][0]["prompt"]
    default = asks_of(MemorySettings(), unsent(*CALLS), model_facts=True, compact=False)
    assert [default[t][0]["longest"] for t in ("digest", "fact", "tag")] == [1024, 32, 24]


def test_tools_have_the_names_of_the_agent():
    calls = tuple(
        ToolCall(c.id, name, c.arguments)
        for c, name in zip(CALLS, ("exec", "Write", "View"), strict=True)
    )
    session = unsent(*calls)
    bare = working_memory(compact=False)
    assert bare(session) is session
    named = {"shells": ("exec",), "retrieval": ("View",), "writers": ("Write",)}
    found = asks_of(MemorySettings(), session, model_facts=True, compact=False, **named)
    assert found.keys() == {"digest", "fact", "tag"}
    settle = working_memory(compact=False, **named)
    messages = project(drive(session, settle, effects)).messages
    assert "This is a digest" in messages[2].parts[0].text
    assert messages[3].parts[-1].text.startswith("[Wrote a.py")
    assert messages[4].parts[-1].text.startswith("[Only the first")
    nobody = working_memory(MemorySettings(bash=False), compact=False, **named)
    assert project(nobody(session)).messages[2].parts[0].text.startswith("[Only the last")


def test_what_is_limited_is_saved_where_that_is_wanted():
    session = unsent(*CALLS)
    settle = working_memory(compact=False, save=True)

    def saving(asks):
        saved = tuple(Answer(p.number, "answered", "/out/1") for p in asks if p.ask.topic == "save")
        return saved or effects(asks)

    (note,) = (
        part.text
        for part in project(drive(session, settle, saving)).messages[4].parts
        if part.text.startswith("[Only")
    )
    assert re.search(r"; full=[0-9a-f]{24}\. Full output: /out/1\]$", note)
    refused = drive(session, settle, lambda asks: tuple(
        Answer(p.number, "failed", "no") for p in asks
    ))  # fmt: skip
    assert project(refused).messages[4] == RESULTS[2]


def test_the_stages_can_be_had_by_name():
    assert tuple(memory_stages()) == ("digest", "compact", "limit", "fact", "tag", "forget")
