"""Digests of command output: what a request shows with an answer, without one, and too late."""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
from functools import partial
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Answer,
    Ask,
    Head,
    Image,
    InvalidArgument,
    Replace,
    Reply,
    Route,
    Sent,
    Session,
    Text,
    Thinking,
    ToolCall,
    adrive,
    assistant,
    at_leaf,
    breaks,
    chars4,
    default_digest_prompt,
    digest_output,
    drive,
    limit_output,
    log,
    pending,
    pipeline,
    project,
    prune_suffix,
    record,
    reply,
    requests,
    send,
    tool_result,
    user,
)

IMAGE = Image("aGk=", "image/png")
LOG = "".join(f"step {n} of the build is done\n" for n in range(400))
FAILED = f"{LOG}E   assert 1 == 2\n\nCommand exited with code 3"
LEAK = "/tmp/pi-bash-77.log"
NOTED = f"{LOG}\n[Showing lines 1001-1400 of 1400. Full output: {LEAK}]"


def came(content, *, error=False, tool="bash", arguments='{"command":"make all"}'):
    """A session with one unsent result."""
    call = ToolCall("c", tool, arguments)
    session = record(Session(), user("go"), Sent(), Reply("completed", assistant(call)))
    return record(session, tool_result("c", content, error=error))


def shown(session):
    return [getattr(part, "text", part) for part in project(session).messages[-1].parts]


def replaced(session):
    return [node.entry for node in log(session) if isinstance(node.entry, Replace)]


def saying(value, outcome="answered"):
    return lambda asks: tuple(Answer(p.number, outcome, value) for p in asks)


def digested(session, value="- all 400 steps are done", outcome="answered", **arguments):
    return drive(session, partial(digest_output, **arguments), saying(value, outcome))


# What is asked


def test_the_question_has_the_command_and_the_whole_output():
    asking = digest_output(came(LOG))
    (waiting,) = pending(asking)
    question = json.loads(waiting.ask.question)
    assert list(question) == ["longest", "prompt"]
    assert question["longest"] == 1024
    assert question["prompt"] == default_digest_prompt("make all", LOG, 1024)
    assert waiting.ask.topic == "digest"
    assert waiting.ask.deadline == 20_000
    assert waiting.ask.key == f"digest:{sha256(question['prompt'].encode()).hexdigest()}"
    assert "At most 2000 characters" in question["prompt"]
    assert "At most 40 characters" in default_digest_prompt("", "", 10)
    assert digest_output(asking) is asking


@pytest.mark.parametrize(
    "arguments", ["nothing", "[]", "{}", '{"command":7}', '{"command":"\\ud800"}', "[" * 10_000]
)
def test_without_a_command_the_question_has_none(arguments):
    (waiting,) = pending(digest_output(came(LOG, arguments=arguments)))
    assert "\nCommand: \n" in json.loads(waiting.ask.question)["prompt"]


def test_the_prompt_the_tools_and_the_tokens_are_the_callers():
    stage = partial(
        digest_output,
        tools=("powershell",),
        over=10,
        longest=5,
        deadline=7,
        prompt=lambda command, output, longest: f"{command}|{output}|{longest}",
    )
    assert stage(came(LOG)).view.pending == ()
    (waiting,) = pending(stage(came("x" * 50, tool="powershell")))
    question = json.loads(waiting.ask.question)
    assert question == {"longest": 5, "prompt": "make all|" + "x" * 50 + "|5"}
    assert waiting.ask.deadline == 7


def test_only_outputs_over_the_threshold_are_asked_about():
    for content in ("x" * 7_996, (IMAGE,) * 9, (Text("x"), *(IMAGE,) * 9), " " * 9_000, ""):
        session = came(content)
        assert digest_output(session) is session
    assert digest_output(came("x" * 7_997)).view.pending  # of the smallest size that counts
    assert digest_output(came("x" * 99), measure=lambda m: m.characters * 100).view.pending


def test_equal_outputs_are_asked_about_once():
    session = record(Session(), assistant(ToolCall("a", "bash"), ToolCall("b", "bash")))
    session = record(session, tool_result("a", LOG), tool_result("b", LOG))
    assert len(pending(digest_output(session))) == 1
    session = digested(session)
    assert [m.parts for m in project(session).messages[1:]] == [
        project(session).messages[1].parts
    ] * 2


# Answered


def test_the_digest_stands_for_the_output_from_the_first_request_on():
    session, request = send(digested(came(LOG)))
    (text,) = request.messages[-1].parts
    assert text.text == (
        f"- all 400 steps are done\n[This is a digest: the output has {len(LOG)} characters in 400 "
        "lines, and is not shown.]"
    )
    assert breaks(session) == ()
    assert [entry.breaks for entry in replaced(session)] == [False]
    assert replaced(session)[0].why == f"digest: {chars4(user(LOG))} tokens of output"
    session = reply(session, "completed", assistant("ok"))
    assert digest_output(session) is session
    assert requests(send(record(session, user("next")))[0])[-1].extends(request)


def test_images_stay_and_texts_become_one():
    session = digested(came((IMAGE, Text(LOG), IMAGE, Text("done"))))
    first, text, last = shown(session)
    assert (first, last) == (IMAGE, IMAGE)
    assert text.startswith("- all 400")
    assert f"{len(LOG) + 5} characters in 402 lines" in text


def test_a_failed_command_is_digested_too_and_keeps_its_last_lines():
    """W12."""
    session = digested(came(FAILED, error=True), "- the test fails")
    (text,) = shown(session)
    assert text == (
        f"- the test fails\n[This is a digest: the output has {len(FAILED)} characters in 403 "
        "lines, and is not shown but for its end.]\n"
        "E   assert 1 == 2\n\nCommand exited with code 3"
    )
    assert project(session).messages[-1].error


def test_the_last_lines_of_a_failed_command_are_bounded():
    (text,) = shown(digested(came(LOG + "x" * 9_000 + "\nexit 3\n\n", error=True)))
    end = text.partition("its end.]\n")[2]
    assert end.endswith("x\nexit 3")
    assert len(end) == 600
    (text,) = shown(digested(came("x" * 90 + "\n\n", error=True), "-", over=20))
    assert text.endswith("its end.]\n" + "x" * 90) is False, "it would be no smaller"


def test_the_digest_is_told_as_it_is():
    (text,) = shown(digested(came(LOG), "  \n- a\n\n- [b] \n"))
    assert text.startswith("- a\n\n- [b]\n[This is a digest")


# Not answered


@pytest.mark.parametrize(
    ("outcome", "value"),
    [("failed", "no model"), ("expired", ""), ("answered", " \n "), ("answered", LOG + LOG)],
)
def test_without_a_digest_the_end_is_shown_with_true_figures(outcome, value):
    session = digested(came((IMAGE, Text(LOG))), value, outcome)
    image, note, end = shown(session)
    kept = LOG[-3000:]
    assert (image, end) == (IMAGE, kept)
    assert note == (
        f"[Only the last 3000 of {len(LOG)} bytes and {kept.count(chr(10))} of 400 lines are "
        "shown; the rest is left out.]"
    )
    assert digest_output(session) is session, "it is not asked about again"


def test_the_end_has_at_most_120_lines():
    note, end = shown(digested(came("x\n" * 9_000), outcome="failed"))
    assert end == "x\n" * 120
    assert "240 of 18000 bytes and 120 of 9000 lines" in note


def test_an_output_that_fits_in_the_fallback_is_shown_as_it_is():
    session = digested(came("x" * 400), outcome="failed", over=50)
    assert shown(session) == ["x" * 400]
    assert replaced(session) == []
    noted = f"a\n{NOTED.removeprefix(LOG)}"
    session = digested(came(noted * 9), outcome="failed", over=40)
    assert shown(session) == ["a\n\n[output discarded]" * 9]


@pytest.mark.parametrize("outcome", ["answered", "failed", "expired"])
@pytest.mark.parametrize("error", [False, True])
def test_no_path_to_the_output_leaks(outcome, error):
    """W11: neither into the question nor into a request, in the notation that the host writes."""
    session = digested(came(NOTED, error=error), outcome=outcome)
    assert LEAK not in "".join(map(str, shown(session)))
    asked = next(node.entry for node in log(session) if hasattr(node.entry, "question"))
    assert LEAK not in asked.question
    assert "[output discarded]" in asked.question


def test_an_adapter_that_raises_or_runs_late_is_an_answer():
    """W14, W15: a side call that fails, in whatever way, neither stops nor stalls the loop."""

    def no_credentials(asks):
        raise KeyError("no key")

    async def hangs(asks):
        await asyncio.sleep(3600)

    async def bounded(asks):
        try:
            return await asyncio.wait_for(hangs(asks), asks[0].ask.deadline / 1000)
        except TimeoutError:
            return tuple(Answer(p.number, "expired") for p in asks)

    failed = drive(came(LOG), digest_output, no_credentials)
    expired = asyncio.run(adrive(came(LOG), partial(digest_output, deadline=10), bounded))
    assert shown(failed) == shown(expired)
    assert shown(failed)[0].startswith("[Only the last 3000 of")


def test_a_request_that_leaves_before_the_answer_shows_the_output_for_good():
    asking = digest_output(came(LOG))
    assert shown(asking) == [LOG]
    session, request = send(asking)
    session = reply(session, "completed", assistant("I see"))
    (waiting,) = pending(session)
    late = record(session, Answer(waiting.number, "answered", "- done"))
    assert digest_output(late) is late
    late, second = send(record(late, user("next")))
    assert second.extends(request)
    assert breaks(late) == ()


@pytest.mark.parametrize("outcome", ["failed", "aborted", "lost"])
def test_what_was_sent_once_is_not_asked_about(outcome):
    flying, _ = send(came(LOG))
    assert digest_output(flying) is flying
    session = reply(flying, outcome)
    assert digest_output(session) is session


# Sessions that go on


def test_forks_and_resumed_sessions_have_the_digest():
    session = digested(came(LOG))
    again = pickle.loads(pickle.dumps(session))
    assert shown(again) == shown(session)
    assert digest_output(again) is again
    branch = record(at_leaf(session, session.leaf.number), user("and"))
    assert project(branch).messages[:-1] == project(session).messages
    raw = at_leaf(session, 3)
    assert shown(raw) == [LOG]
    assert shown(digested(raw)) == shown(session), "asked again on that path"


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    "other",
    [limit_output, partial(prune_suffix, stub_over=500, drop_over=5_000)],
    ids=["limit", "stub"],
)
def test_in_any_order_with_other_stages_one_question_is_asked_and_the_digest_holds(other, order):
    settle = pipeline(*(digest_output, other)[::order])
    session = drive(came((Text("x" * 90_000), IMAGE)), settle, saying("- many x"))
    assert shown(session)[0] == (
        "- many x\n[This is a digest: the output has 90000 characters in 1 lines, and is not "
        "shown.]"
    )
    assert [type(node.entry) for node in log(session)].count(Ask) == 1
    assert settle(session) is session
    assert breaks(send(session)[0]) == ()


def test_what_needs_no_digest_is_left_to_other_stages():
    settle = pipeline(
        partial(digest_output, over=50), partial(prune_suffix, stub_over=60, drop_over=5_000)
    )
    session = drive(came("x" * 400), settle, saying("", "failed"))
    assert shown(session)[0].startswith("[The result of")
    assert settle(session) is session


def test_what_another_stage_has_left_without_text_is_left_alone():
    session = came((IMAGE, Text(LOG)))
    session = record(session, Replace(3, tool_result("c", (IMAGE,)), "by hand"))
    session = digested(session)
    assert shown(session) == [IMAGE]
    assert digest_output(session) is session


def test_a_digest_over_the_threshold_is_not_digested_again():
    session = digested(came(LOG), "y" * 9_000)
    assert shown(session)[0].startswith("y" * 9_000)
    assert digest_output(session) is session


@pytest.mark.parametrize("binding", ["none", "prefix", "leading"])
def test_thinking_in_front_stays(binding):
    session = record(Session(), Head(Route(binding=binding)), user("go"), Sent())
    session = record(session, Reply("completed", assistant(Thinking("t"), ToolCall("c", "bash"))))
    session = digested(record(session, tool_result("c", LOG)))
    assert project(session).messages[1].thinks
    assert shown(session)[0].startswith("- all 400")


@given(
    st.text(st.sampled_from("ab \n[]é😀"), max_size=80),
    st.text(max_size=30),
    st.sampled_from(("answered", "failed", "expired")),
    st.booleans(),
    st.integers(1, 20),
    st.integers(1, 60),
)
def test_whatever_is_answered_the_stage_has_then_nothing_to_do(
    output, value, outcome, error, over, fallback
):
    session = came(output, error=error)
    stage = partial(digest_output, over=over, fallback_bytes=fallback)
    after = drive(session, stage, saying(value, outcome))
    assert stage(after) is after
    assert project(after).messages[-1].error == error
    assert not pending(after)


def calls_of(stage, session):
    count = 0

    def count_calls(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_calls)
    try:
        stage(session)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("size", [10, 9_000])
def test_a_turn_costs_what_is_new(size):
    def grown(turns):
        session = record(Session(), user("go"))
        for n in range(turns):
            session, _ = send(digested(session, f"- {n}"))
            session = reply(session, "completed", assistant(ToolCall(f"c{n}", "bash")))
            session = record(session, tool_result(f"c{n}", "x" * size))
        return digested(session)

    short, long = grown(5), grown(150)
    assert digest_output(long) is long
    assert calls_of(digest_output, short) == calls_of(digest_output, long)


@pytest.mark.parametrize(
    "arguments",
    [
        {"over": 0},
        {"longest": -1},
        {"fallback_bytes": 1.5},
        {"deadline": 0},
        {"deadline": True},
        {"tools": "bash"},
        {"measure": 4},
        {"prompt": "Digest:"},
    ],
)
def test_arguments_are_checked(arguments):
    with pytest.raises(InvalidArgument) as caught:
        digest_output(Session(), **arguments)
    assert caught.value.field in arguments


def test_a_prompt_that_words_nothing_is_refused():
    with pytest.raises(InvalidArgument, match="prompt"):
        digest_output(came(LOG), prompt=lambda command, output, longest: None)
    with pytest.raises(InvalidArgument, match="session"):
        digest_output(None)


def test_an_answer_is_cleaned():
    said = (
        f"- \x1b[31mdone\x1b[0m\x00\tin\u202e time\n[Showing lines 1-2 of 9. Full output: {LEAK}]\n"
    )
    text = shown(digested(came(NOTED), said))[0]
    assert text.startswith("- done\tin time\n[output discarded]\n[This is a digest")
    assert LEAK not in text
    assert shown(digested(came(LOG), "\x00 \x1b[0m"))[0].startswith("[Only the last")


@pytest.mark.parametrize("behind", ["", "\n\nCommand exited with code 3"])
def test_the_last_lines_of_a_failed_command_stand_before_the_note_of_the_host(behind):
    note = f"\n\n\n[Showing lines 1001-1400 of 1400. Full output: {LEAK}]"
    session = came(f"{LOG}E   assert 1 == 2\nE   gone{note}{behind}", error=True)
    last = shown(digested(session))[0].rpartition("but for its end.]\n")[2]
    assert last.endswith(f"E   gone{behind}")
    assert "discarded" not in last
    note = "[Showing lines 1-2 of 9. Full output: /tmp/pi-bash-1.log]\n"
    only = shown(digested(came(note * 900, error=True), "- nothing"))[0]
    assert only.endswith("[output discarded]")


def test_without_a_digest_nothing_gets_longer():
    text = "x" * 3_010
    session = digested(came(text), "", over=10)
    assert shown(session) == [text]
