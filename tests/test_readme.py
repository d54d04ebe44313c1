"""What the README claims and can't run by itself: its commands and the sentence that they print."""

from __future__ import annotations

import asyncio
import doctest
import re
import shlex
import tomllib
from functools import partial
from pathlib import Path

import pytest

import ctxalgebra
from ctxalgebra import (
    Answer,
    Ask,
    CtxError,
    Drop,
    Head,
    Route,
    Session,
    Thinking,
    ToolCall,
    Usage,
    abandon,
    account,
    answer_to,
    ask,
    assistant,
    breaks,
    drive,
    open_calls,
    pipeline,
    project,
    prune_suffix,
    record,
    reply,
    requests,
    select,
    send,
    tool_result,
    user,
)
from ctxalgebra.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)


def test_the_first_command_prints_the_sentence(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    replay = COMMANDS[0].split("&&")[-1]
    program, *arguments = shlex.split(replay)
    assert program == ".venv/bin/ctxalgebra"
    assert main(arguments) == 0
    sentence = re.search(r"```text\n(.*)\n```", README)[1]
    assert capsys.readouterr().out.splitlines()[-1] == sentence


def test_two_commands_do_all_the_set_up():
    assert len(COMMANDS) == 2
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for command in COMMANDS:
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q ")
        assert re.search(r"\[(\w+)\]", command)[1] in extras["optional-dependencies"]
    tail = "run -m pytest -n auto && .venv/bin/coverage combine -q && .venv/bin/coverage report"
    assert COMMANDS[1].endswith(f".venv/bin/coverage {tail}")


@pytest.mark.parametrize("link", re.findall(r"\]\((docs/[^)]*)\)", README))
def test_links_lead_somewhere(link):
    assert (ROOT / link).is_file()


# The loops, as they stand there


def defined():
    """Run the definitions of the README; give its names."""
    names = {name: getattr(ctxalgebra, name) for name in ctxalgebra.__all__}
    for example in doctest.DocTestParser().get_examples(README):
        if example.source.startswith(("def turn", "async def", "import asyncio")):
            exec(example.source, names)
    return names


NAMES = defined()
BUDGET = 400
SETTLE = pipeline(
    partial(prune_suffix, stub_over=100, drop_over=60), partial(select, budget=BUDGET, target=200)
)


def model(request):
    """Call two tools when a user speaks, answer when the results are there."""
    usage = Usage(input=sum(map(ctxalgebra.chars4, request.messages)) + 1)
    if request.messages[-1].role == "tool":
        return assistant("done " * 10), usage
    count = len(request.messages)
    return assistant(ToolCall(f"a{count}", "read"), ToolCall(f"b{count}", "list")), usage


def tool(call):
    return tool_result(call.id, "x" * (900 if call.name == "list" else 90), name=call.name)


async def amodel(request):
    return model(request)


async def atool(call):
    return tool(call)


def shorten(session):
    """Ask once per session, to see that effects run."""
    return ask(session, Ask("note", "echo", "hi"))


def effects(asks):
    return tuple(Answer(p.number, "answered", p.ask.question) for p in asks)


async def aeffects(asks):
    return effects(asks)


def test_the_loops_have_ten_lines_at_most():
    for name in ("turn", "aturn"):
        (source,) = re.findall(
            rf"^>>> (?:async )?def {name}\(.*\n(?:\.\.\. .*\n)+", README, re.MULTILINE
        )
        assert source.count("\n") <= 10


def test_both_loops_record_the_same():
    settle = pipeline(shorten, SETTLE)
    one = two = record(Session(), Head(Route("anthropic"), "Be brief."))
    for number in range(9):
        question = user(f"question {number}")
        one = NAMES["turn"](
            one, question, partial(drive, stage=settle, effects=effects), model, tool
        )
        two = asyncio.run(NAMES["aturn"](two, question, settle, aeffects, amodel, atool))
    assert one == two
    assert answer_to(one, "note").value == "hi"
    assert len(requests(one)) == 18
    assert [m.role for m in project(one).messages[-4:]] == [
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert len(breaks(one)) == len(account(one).breaks) > 0
    assert all(sum(map(ctxalgebra.chars4, r.messages)) <= BUDGET for r in requests(one))


def looping():
    """Give a session in which a request just left, and one that waits for it."""
    session = record(
        Session(), user("go"), assistant(Thinking("t", "s"), "x" * 2_000), user("and?")
    )
    return session, send(session)[0]


READY, FLYING = looping()
BUSY = reply(FLYING, "completed", assistant(ToolCall("c1", "run"), ToolCall("c2", "run")))
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in re.search(r"\| it happens .*?\n\n", README, re.DOTALL)[0].split("\n")[2:-2]
]
CASES = dict(
    zip(
        [row[0] for row in ROWS],
        [READY, FLYING, FLYING, FLYING, FLYING, FLYING, FLYING, BUSY, READY, READY],
        strict=True,
    )
)


@pytest.mark.parametrize(("happens", "do"), ROWS)
def test_what_to_do_can_be_done(happens, do):
    session = CASES[happens]
    names = {
        **NAMES, "session": session, "budget": 100, "smaller": 100, "partial": assistant("par"),
    }  # fmt: skip
    code = re.match(r"`([^`]+)`", do)[1]
    if code.startswith("for "):
        exec(code, names)
        given = names["session"]
        assert open_calls(given) == ()
    else:
        given = eval(code, names)
    if happens.startswith("it is over"):
        assert given is True  # it would be false for protected content only
        protected = record(Session(), user("x" * 4_000))
        assert eval(code, {**names, "session": protected}) is False
        return
    if isinstance(given, tuple):
        after, request = given
        assert after.view.flight >= 0
        assert request == project(after)
    else:
        after = given
        assert len(after) > len(session)
    shown = [m.thinks for m in project(after).messages]
    if "signature" in happens:
        assert not any(shown)
        assert [b.why for b in breaks(after)] == ["the provider refused a signature"]
    if "too long" in happens:
        assert len(breaks(after)) == 1
        assert sum(map(ctxalgebra.chars4, request.messages)) <= 100
    if "already" in happens:
        assert breaks(after) == ()
        assert sum(map(ctxalgebra.chars4, request.messages)) <= 100
    if "stops the model" in happens:
        assert project(after) == project(session)
    if "writes while" in happens:
        assert user("wait") not in project(after).messages
        assert project(reply(after, "completed", assistant("ok"))).messages[-1] == user("wait")
    if "a stage raises" in happens:
        with pytest.raises(CtxError, match=r"silent-break|unread|split-exchange"):
            record(session, Drop(0, 0, "careless"))
        assert request == project(session)


def test_a_tool_that_was_killed_is_answered():
    hanging = record(BUSY, tool_result("c2", "done"))
    for call in open_calls(hanging):
        hanging = abandon(hanging, call, "killed")
    assert [m.error for m in project(hanging).messages[-2:]] == [True, False]
