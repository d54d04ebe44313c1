"""A working memory from its settings."""

from __future__ import annotations

from functools import partial

import pytest

from ctxalgebra import (
    Answer,
    InvalidArgument,
    Session,
    ToolCall,
    assistant,
    drive,
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
    ):
        with pytest.raises(InvalidArgument):
            call()
