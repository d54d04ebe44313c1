"""The tools of travel and their guidance, an agent loop that uses them, and what a cache sees."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Head,
    InvalidArgument,
    ProtocolViolation,
    Route,
    Sent,
    Session,
    Tool,
    ToolCall,
    assistant,
    at_leaf,
    chars4,
    label,
    labels,
    log,
    open_calls,
    plan_breakpoints,
    project,
    record,
    reply,
    send,
    tool_result,
    user,
    violations,
)
from ctxalgebra.cache_profiles import cache_profile
from ctxalgebra.checkpoints.guidance import (
    CUES,
    GUIDANCE,
    GUIDANCE_MARKER,
    REMINDERS,
    SLOT_CUES,
    instructions_for_summary,
    reminder,
    with_guidance,
)
from ctxalgebra.checkpoints.handoff import LABELS, REQUIRED, check_handoff_lines
from ctxalgebra.checkpoints.provenance import handoffs, summary_depth
from ctxalgebra.checkpoints.receipts import checkpoint
from ctxalgebra.checkpoints.tools import (
    TRAVEL_TOOLS,
    receipt_text,
    respond_travel,
)
from ctxalgebra.profiles import PROFILES
from ctxalgebra.replay.cache import CACHES, cache_named

NOTES = {"goal": "Fix the parser", "state": "the bug is in line 7", "next": "change line 7"}
READ = Tool("read", "Reads a file", '{"type":"object"}')


def calling(name, arguments, *, beside=(), session=None):
    """A session in which the model has just called a tool."""
    session = session or record(Session(), user("Fix the parser"))
    session, _ = send(session)
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = ToolCall("t1", name, text)
    return reply(session, "completed", assistant(call, *beside)), call


def result(session):
    message = session.leaf.entry
    assert message.role == "tool"
    return message.error, message.parts[0].text


# The tools


def test_their_bytes_stay_as_they_are():
    """They are part of prefixes that are cached: a change here is one for the changelog."""
    seen = {tool.name: (tool.description, json.loads(tool.schema)) for tool in TRAVEL_TOOLS}
    assert list(seen) == ["checkpoint", "travel"]
    assert seen["travel"][1]["required"] == ["target", "handoff"]
    handoff = seen["travel"][1]["properties"]["handoff"]
    assert list(handoff["properties"]) == list(LABELS) == list(SLOT_CUES)
    assert set(handoff["required"]) == REQUIRED
    assert not handoff["additionalProperties"]
    assert [tool.description for tool in TRAVEL_TOOLS] == [CUES["checkpoint"], CUES["travel"]]
    whole = "\n".join([*(f"{t.description}\n{t.schema}" for t in TRAVEL_TOOLS), GUIDANCE])
    assert whole.isascii()
    assert hashlib.sha256(whole.encode()).hexdigest()[:12] == "178b80de64fe"


def test_a_checkpoint_is_answered_by_its_receipt():
    session, call = calling("checkpoint", {"name": "scan"})
    after = respond_travel(session, call)
    failed, text = result(after)
    assert not failed
    assert text.splitlines() == [
        "Checkpoint scan is at #0 (user): 1 messages, about 4 tokens stay when you travel there.",
        CUES["checked"],
    ]
    assert "travel" in CUES["checked"]
    assert labels(after) == {0: "scan"}
    assert open_calls(after) == ()
    again, call = calling("checkpoint", {"name": "scan", "target": "scan"}, session=after)
    failed, text = result(respond_travel(again, call))
    assert (failed, text.split(":")[0]) == (False, "Checkpoint scan was there already (user)")


def test_receipts_tell_what_there_is_to_know():
    session = label(record(Session(), Head(), user("a"), assistant("b"), user("c")), 1, "one")
    session = label(session, 3, "ROOT")
    lines = receipt_text(checkpoint(session, "two")[1]).splitlines()
    assert lines[1:3] == [
        "Entries since the checkpoint in front of it: 2.",
        "A label that nobody can use gave way: ROOT.",
    ]
    lines = receipt_text(checkpoint(session, "zero", target="#0")[1]).splitlines()
    assert lines[0] == (
        "Checkpoint zero is at #0: 0 messages, about 0 tokens stay when you travel there."
    )
    assert lines[1] == "The entry is no message of the user's or of yours."


def test_a_journey_is_its_own_answer():
    session, call = calling("travel", {"target": "root", "handoff": NOTES, "ticket": None})
    session, call = calling(
        "travel",
        {"target": "root", "handoff": json.dumps(NOTES)},
        session=record(session, tool_result("t1", "x"), assistant("Hm."), user("go on")),
    )
    after = respond_travel(session, call)
    assert [m.role for m in project(after).messages] == ["user", "user"]
    assert handoffs(after)[0].facts.call == "t1"
    assert open_calls(after) == ()
    assert len(log(after)) == len(session) + 3  # the ticket, the note, the handoff


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("checkpoint", "{", "invalid-params"),
        ("checkpoint", "[" * 100_000, "invalid-params"),
        ("checkpoint", "NaN", "invalid-params"),
        ("checkpoint", '{"name":NaN}', "invalid-params"),
        ("checkpoint", "[]", "invalid-params"),
        ("checkpoint", "{}", "invalid-params"),
        ("checkpoint", {"name": 5}, "invalid-params"),
        ("checkpoint", {"name": "a", "session": "b"}, "invalid-params"),
        ("checkpoint", {"name": "a", "aborted": True}, "invalid-params"),
        ("checkpoint", {"name": "a", "\ud800": 1}, "invalid-params"),
        ("checkpoint", {"name": "a b"}, "invalid-name"),
        ("checkpoint", {"name": "\ud800"}, "invalid-name"),
        ("checkpoint", {"name": "ROOT"}, "reserved-name"),
        ("checkpoint", {"name": "a", "target": "nowhere"}, "target-not-found"),
        ("travel", {"target": "root"}, "invalid-params"),
        ("travel", {"target": 5, "handoff": NOTES}, "invalid-params"),
        ("travel", {"target": "root", "handoff": None}, "invalid-params"),
        ("travel", {"target": "root", "handoff": 5}, "invalid-handoff"),
        ("travel", {"target": "root", "handoff": "{bad"}, "invalid-handoff"),
        ("travel", {"target": "root", "handoff": {**NOTES, "x\x1b": 1}}, "invalid-handoff"),
        ("travel", {"target": "root", "handoff": {**NOTES, "\ud800": 1}}, "invalid-handoff"),
        ("travel", {"target": "root", "handoff": {**NOTES, "goal": "\ud800"}}, "invalid-handoff"),
        ("travel", {"target": "\ud800", "handoff": NOTES}, "target-not-found"),
        ("travel", {"target": "root", "handoff": NOTES, "ticket": "a b"}, "invalid-params"),
        ("travel", {"target": "root", "handoff": NOTES, "ticket": "root"}, "reserved-backup-name"),
        ("travel", {"target": "root", "handoff": NOTES}, "zero-distance-travel"),
    ],
)
def test_whatever_the_model_wrote_gets_an_answer(name, arguments, code):
    session, call = calling(name, arguments)
    after = respond_travel(session, call)
    failed, text = result(after)
    assert failed
    assert text.startswith(f"{code}: ")
    assert text.isprintable()
    assert len(after) == len(session) + 1
    assert labels(after) == {}


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("checkpoint", {"name": "x" * 10**6}, "invalid-name"),
        ("checkpoint", {"name": "a", "target": "x" * 10**6}, "invalid-params"),
        ("checkpoint", {"name": "a", **dict.fromkeys(map(str, range(9_999)), 1)}, "invalid-params"),
        ("travel", {"target": "x" * 10**6, "handoff": NOTES}, "invalid-params"),
        ("travel", {"target": "root", "handoff": NOTES, "ticket": "x" * 201}, "invalid-params"),
        (
            "travel",
            {"target": "root", "handoff": {**NOTES, "goal": "x" * 10**6}},
            "invalid-handoff",
        ),
        (
            "travel",
            {"target": "root", "handoff": {**NOTES, **dict.fromkeys(map(str, range(9_999)), "x")}},
            "invalid-handoff",
        ),
        ("travel", {"target": "root", "handoff": {**NOTES, "x" * 10**6: 1}}, "invalid-handoff"),
    ],
)
def test_what_is_too_long_is_refused_in_short(name, arguments, code):
    session, call = calling(name, arguments)
    failed, text = result(respond_travel(session, call))
    assert failed
    assert text.startswith(f"{code}: ")
    assert len(text) <= 4_001


def test_a_label_of_a_megabyte_is_told_in_short():
    session = label(record(Session(), user("Fix the parser")), 0, "x" * 10**6)
    session, call = calling("checkpoint", {"name": "a"}, session=session)
    failed, text = result(respond_travel(session, call))
    assert not failed
    assert len(text) < 1_000


def test_all_that_is_wrong_is_told_at_once():
    session, call = calling("travel", {"handoff": {}, "ticket": 5, "to": "x"})
    _, text = result(respond_travel(session, call))
    for part in ("target is missing", "ticket is a text, not number", "no argument 'to'"):
        assert part in text
    session, call = calling("travel", {"target": "root", "handoff": {"goal": None, "x": 1}})
    _, text = result(respond_travel(session, call))
    assert text == (
        "invalid-handoff: goal:invalid_type (expected string, got null); state:invalid_type "
        "(expected string, got missing); next:invalid_type (expected string, got missing); "
        "handoff:unexpected_field ('x' is not a handoff field)"
    )


def test_a_journey_beside_another_call_is_refused_before_anything_happens():
    session, call = calling(
        "travel", {"target": "root", "handoff": NOTES}, beside=[ToolCall("t2", "read")]
    )
    failed, text = result(respond_travel(session, call))
    assert (failed, text.split(":")[0]) == (True, "mixed-tool-batch")


def test_who_has_given_up_gets_no_journey():
    session, call = calling("checkpoint", {"name": "a"})
    assert result(respond_travel(session, call, aborted=True))[1].startswith("aborted: ")


def test_calls_of_others_are_not_answered():
    session, _ = calling("read", "{}")
    with pytest.raises(InvalidArgument, match="does not travel"):
        respond_travel(session, ToolCall("t1", "read"))
    session, call = calling("travel", {"target": "#0", "handoff": NOTES})
    answered = record(session, tool_result("t1", "done"), assistant("Hm."), user("go on"))
    for at, other in [
        (session, ToolCall("t9", "checkpoint", '{"name":"a"}')),
        (session, ToolCall("t9", "travel", call.arguments)),
        (answered, call),
    ]:
        with pytest.raises(ProtocolViolation, match="orphan-result"):
            respond_travel(at, other)
    for hostile in (None, 5, "x"):
        with pytest.raises(InvalidArgument):
            respond_travel(session, hostile)
        with pytest.raises(InvalidArgument):
            respond_travel(hostile, ToolCall("t1", "travel"))


@given(st.sampled_from(["checkpoint", "travel"]), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["root"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["name", "target", "handoff", "ticket", "goal", "state", "next"])
        | st.text(max_size=3),
        inner, max_size=5,
    ), max_leaves=12,
))  # fmt: skip
def test_no_arguments_make_it_fall(name, value):
    session, call = calling(name, value)
    after = respond_travel(session, call)
    assert after == respond_travel(session, call)
    assert open_calls(after) == ()


# Guidance


def test_guidance_is_added_once_and_the_same_each_time():
    once = with_guidance("You are an agent.")
    assert once == f"You are an agent.\n\n{GUIDANCE}"
    assert with_guidance(once) is once
    assert with_guidance("") == GUIDANCE
    assert GUIDANCE.startswith(GUIDANCE_MARKER)
    with pytest.raises(InvalidArgument, match="expected a text"):
        with_guidance(None)


def test_every_text_names_a_call_that_there_is():
    names = {f"`{tool.name}`" for tool in TRAVEL_TOOLS}
    assert all(name in GUIDANCE for name in names)
    for level, text in REMINDERS.items():
        assert "`travel`" in text
        assert reminder(level) == f"[Context reminder, not from the user] {text}"
    for cue in SLOT_CUES.values():
        assert cue in GUIDANCE
    with pytest.raises(InvalidArgument, match="30, 50, 70"):
        reminder(40)
    with pytest.raises(InvalidArgument, match="expected int"):
        reminder("30")


def test_a_plain_summary_is_asked_for_in_seven_slots():
    told = instructions_for_summary(None)
    assert check_handoff_lines(told).ok
    assert instructions_for_summary(" \n") == told
    assert instructions_for_summary("Only names.", tip="#4") == "Only names."
    assert instructions_for_summary("", tip="a\x1bb") == (
        f"{told}\nUnder Recover, name a\\x1bb: the end of the branch that is left."
    )
    for hostile in (5, b"x", "\ud800"):
        with pytest.raises(InvalidArgument):
            instructions_for_summary(hostile)
        with pytest.raises(InvalidArgument):
            instructions_for_summary("", tip=hostile)


# An agent loop


def agent(script, *, task, head):
    """Run a scripted model until it answers; the script sees the request."""
    session = record(Session(), head, user(task))
    while True:
        session, request = send(session)
        answer = script(request)
        session = reply(session, "completed", answer)
        if not answer.calls:
            return session
        for call in answer.calls:
            if call.name in {tool.name for tool in TRAVEL_TOOLS}:
                session = respond_travel(session, call)
            else:
                session = record(session, tool_result(call.id, "x" * 4_000, name=call.name))


def all_requests(session):
    """List what was sent, on all branches, in the order of sending."""
    sent = [node.number for node in log(session) if isinstance(node.entry, Sent)]
    return [project(at_leaf(session, number)) for number in sent]


def working(*steps):
    """Make a model that takes these steps, one a request."""
    left = list(enumerate(steps))

    def script(_request):
        number, (name, arguments) = left.pop(0)
        if name == "say":
            return assistant(arguments)
        return assistant(ToolCall(f"c{number}", name, json.dumps(arguments)))

    return script


HEAD = Head(
    Route("anthropic", "claude-opus-4-6"), with_guidance("You fix bugs."), (READ, *TRAVEL_TOOLS)
)
FOLD = {"target": "scan", "handoff": NOTES}
STEPS = [
    ("checkpoint", {"name": "scan"}),
    *[("read", {"path": f"{n}.py"}) for n in range(6)],
    ("travel", FOLD),
    ("read", {"path": "7.py"}),
    ("travel", {"target": "fix-the-parser-raw", "handoff": {**NOTES, "next": "look it up"}}),
    ("read", {"path": "8.py"}),
    ("say", "Fixed."),
]


def test_an_agent_folds_and_comes_back():
    session = agent(working(*STEPS), task="Fix the parser", head=HEAD)
    sent = all_requests(session)
    sizes = [len(request.messages) for request in sent]
    assert sizes == [1, 3, 5, 7, 9, 11, 13, 15, 2, 4, 16, 18]
    assert summary_depth(session) == 1  # on the branch that was brought back
    # Coming back continues the request in which the model chose to leave.
    assert sent[10].extends(sent[7])
    assert sent[8].extends(sent[0])
    for request in sent:
        for profile in PROFILES.values():
            assert violations(request.messages, profile, head=request.head) == ()
    assert list(labels(session).values()) == ["scan", "fix-the-parser-raw", "fix-the-parser-raw-2"]


@pytest.mark.parametrize("name", CACHES)
def test_travelling_back_hits_the_cache(name):
    """What was sent at the target is read, not billed anew, by every model of a cache."""
    session = agent(working(*STEPS), task="Fix the parser " + "carefully " * 3_000, head=HEAD)
    cache = cache_named(name)
    state, previous, outcomes = cache.start, None, []
    for request in all_requests(session):
        placed = plan_breakpoints(previous, request, profile=cache_profile(request.head.route))
        state, outcome = cache.take(state, placed)
        outcomes.append(outcome)
        previous = placed
    first, left, folded, back = (outcomes[n] for n in (0, 7, 8, 10))
    assert first.read == 0
    whole = [chars4(r.head) + sum(map(chars4, r.messages)) for r in all_requests(session)]
    # The fold reads what the first request wrote, and pays for the handoff only.
    assert folded.read >= whole[0] * 9 // 10
    # Coming back reads the long request in which the journey was chosen.
    assert back.read >= whole[7] * 9 // 10
    assert back.written + back.uncached <= whole[10] - back.read
    assert left.read
