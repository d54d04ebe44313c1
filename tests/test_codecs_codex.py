"""Rollouts of Codex: lines, replies, usage, compaction, and that the bytes come back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    CODES,
    Cut,
    DecodeError,
    Head,
    Image,
    Message,
    Opaque,
    Reply,
    Route,
    Sent,
    Session,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Usage,
    abandon,
    assistant,
    at_leaf,
    label,
    log,
    open_calls,
    path,
    project,
    prune_suffix,
    record,
    reply,
    requests,
    send,
    system,
    tool_result,
    user,
)
from ctxalgebra.codecs import CODECS, codex, detect, load
from ctxalgebra.codecs.codex import decode
from ctxalgebra.codecs.codex_encode import encode
from ctxalgebra.laws.strategies import journals, sessions
from ctxalgebra.protocol import DEFECTS

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions" / "codex"
FILES = sorted(SHARED.glob("*.*"))
real = pytest.mark.parametrize(
    "path",
    FILES
    or [pytest.param(None, marks=pytest.mark.skip(reason="needs ../shared/sessions, absent here"))],
    ids=lambda path: path and path.stem,
)


def line(kind, at=0, /, **payload):
    return {"timestamp": f"2026-01-01T00:00:{at:02}.000Z", "type": kind, "payload": payload}


def meta(**fields):
    return line("session_meta", id="s1", cwd="/tmp", model_provider="openai", **fields)


def event(kind, **fields):
    return line("event_msg", type=kind, **fields)


def item(at=0, /, **payload):
    return line("response_item", at, **payload)


def said(role, text, at=0, /):
    kind = "output_text" if role == "assistant" else "input_text"
    return item(at, type="message", role=role, content=[{"type": kind, "text": text}])


def call(name, at=0, /):
    return item(at, type="function_call", call_id=name, name="ls", arguments="{}")


def output(name, text="42"):
    return item(type="function_call_output", call_id=name, output=text)


def reasoning(text):
    summary = [{"type": "summary_text", "text": text}]
    return item(type="reasoning", summary=summary, encrypted_content="x")


def tokens(total, last, **more):
    info = {
        "total_token_usage": {"input_tokens": total, "output_tokens": 0},
        "last_token_usage": {"input_tokens": last, "output_tokens": 1, **more},
    }
    return event("token_count", info=info)


def join(*lines, end="\n"):
    texts = [text if isinstance(text, str) else json.dumps(text) for text in lines]
    return ("\n".join(texts) + end).encode()


def take(*lines, end="\n"):
    data = join(*lines, end=end)
    decoded = decode(data)
    assert encode(decoded.session) == data
    assert {r.code for r in decoded.repairs} <= CODES.keys() | DEFECTS.keys()
    return decoded


def codes(decoded):
    return dict(Counter(r.code for r in decoded.repairs))


def bare(message):
    return evolve(message, id="", origin="")


def shown(session):
    return [bare(message) for message in project(session).messages]


def replies(session):
    return [node.entry for node in log(session) if isinstance(node.entry, Reply)]


def new_lines(session, *entries):
    before = encode(session)
    after = encode(record(session, *entries))
    assert after.startswith(before)
    return [json.loads(text) for text in after[len(before) :].decode().splitlines()]


TALK = [
    meta(base_instructions={"text": "Base."}),
    line("turn_context", model="gpt-5", effort="low"),
    said("user", "hi", 1),
    reasoning("hm"),
    call("c1"),
    event("agent_reasoning", text="hm"),
    call("c2"),
    tokens(100, 100, cached_input_tokens=60, cache_write_input_tokens=5),
    output("c1"),
    output("c2"),
    said("assistant", "done"),
    tokens(300, 200),
    event("task_complete"),
]


def test_a_rollout():
    decoded = take(*TALK)
    assert decoded.repairs == ()
    session = decoded.session
    route = Route("openai", "gpt-5", (("effort", '"low"'),), "none")
    assert session.head == Head(route, "Base.")
    asked, thought, one, two, done = shown(session)
    assert (asked, one, two) == (user("hi"), tool_result("c1", "42"), tool_result("c2", "42"))
    assert [part.kind for part in thought.parts] == ["thinking", "tool-call", "tool-call"]
    assert done == assistant("done")
    assert [len(request.messages) for request in requests(session)] == [1, 4]
    assert [r.usage for r in replies(session)] == [Usage(100, 1, 60, 5), Usage(200, 1)]
    sent = [node.entry for node in log(session) if isinstance(node.entry, Sent)]
    assert [s.time for s in sent] == [1767225601000, 1767225600000]
    assert all(s.inferred for s in sent)


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        (1737400000.5, 1737400000500),
        ("2025-01-20T19:06:40Z", 1737400000000),
        (-1, None),
        (10**11, None),
        ("once", None),
        (None, None),
    ],
)
def test_times(stamp, time):
    asked = {**said("user", "hi"), "timestamp": stamp}
    session = take(meta(), asked, said("assistant", "yes")).session
    (sent,) = [node.entry for node in log(session) if isinstance(node.entry, Sent)]
    assert sent.time == time


def test_usage_is_told_once():
    nothing = event("token_count", info=None)
    zero = tokens(0, 0, output_tokens=0)
    lines = [nothing, tokens(7, 7), said("user", "hi"), zero, said("assistant", "a"), nothing]
    decoded = take(meta(), *lines, tokens(50, 43), tokens(50, 43), tokens(90, 40))
    assert codes(decoded) == {"unknown-request": 2}
    assert [r.line for r in decoded.repairs] == [3, 10]
    assert [r.usage for r in replies(decoded.session)] == [Usage(43, 1)]


def test_replies_end_where_the_turn_does():
    for bound in ("task_started", "turn_complete"):
        lines = [said("user", "hi"), said("assistant", "a"), event(bound), said("assistant", "b")]
        assert shown(take(meta(), *lines).session)[1:] == [assistant("a"), assistant("b")]
    whole = {**said("assistant", "a"), "payload": {"role": "assistant", "content": "a"}}
    lines = [said("user", "hi"), said("assistant", "z"), whole, whole, said("assistant", "b")]
    texts = [m.parts[0].text for m in shown(take(meta(), *lines).session)]
    assert texts == ["hi", "z", "a", "a", "b"]


def test_an_aborted_turn():
    lines = [said("user", "hi"), said("assistant", "so"), call("c1"), event("turn_aborted")]
    decoded = take(meta(), *lines, said("user", "go on"), said("assistant", "yes"))
    assert codes(decoded) == {"aborted-calls": 1}
    assert [r.outcome for r in replies(decoded.session)] == ["aborted", "completed"]
    assert shown(decoded.session) == [user("hi"), user("go on"), assistant("yes")]
    # With its usage told, the reply was complete, and only its call was not answered.
    done = [*lines[:3], tokens(9, 9), lines[3], said("user", "go on"), said("assistant", "yes")]
    decoded = take(meta(), *done)
    assert codes(decoded) == {"missing-result": 1}
    assert [r.outcome for r in replies(decoded.session)] == ["completed", "completed"]


def test_heads():
    tools = [{"name": "ls", "description": "List.", "inputSchema": {"a": 1}}, {"no": "name"}, 7]
    lines = [
        meta(instructions="Old.", dynamic_tools=tools),
        line("turn_context", model="gpt-5"),
        said("developer", "Lead."),
        said("user", "hi"),
        said("assistant", "a"),
        line("turn_context", model="gpt-5"),
        meta(base_instructions="of a parent thread"),
        line("turn_context", model="claude-5", base_instructions="New."),
        said("developer", "Later."),
    ]
    session = take(*lines).session
    head = Head(
        Route("openai", "gpt-5", (), "none"), "Old.\n\nLead.", (Tool("ls", "List.", '{"a":1}'),)
    )
    assert [request.head for request in requests(session)] == [head]
    assert session.head == evolve(
        head, route=Route("openai", "claude-5", (), "prefix"), system="New."
    )
    assert shown(session)[-1] == system("Later.")
    alone = take(said("developer", "Lead."), said("user", "hi"))
    assert (alone.session.head.system, codes(alone)) == ("Lead.", {"missing-header": 1})


def test_events_stand_for_user_items_that_are_not_there():
    image = "data:image/png;base64,aGk="
    events = [event("user_message", message="hi", images=[image]), event("user_message")]
    answers = [said("assistant", "a"), said("assistant", "b")]
    decoded = take(meta(), events[0], answers[0], events[1], answers[1])
    first = user((Text("hi"), Image("aGk=", "image/png")))
    assert shown(decoded.session) == [first, assistant("a"), assistant("b")]
    assert codes(decoded) == {"empty-content": 1}
    decoded = take(meta(), events[0], said("user", "hi"), answers[0])
    assert shown(decoded.session) == [user("hi"), assistant("a")]


def test_what_is_appended_leaves_what_only_events_say():
    picture = user((Text("Look."), Image("aGk=", "image/png")))
    session = take(meta(), event("user_message", message="FIRST"), said("assistant", "ok")).session
    for message in (user("FIRST"), assistant("Yes."), picture, user("FIRST and more")):
        session = decode(encode(record(session, message))).session
    expected = [
        *(user("FIRST"), assistant("ok"), user("FIRST"), assistant("Yes.")),
        *(picture, user("FIRST and more")),
    ]
    assert shown(session) == expected
    new = new_lines(session, user("x"))
    assert [value["payload"]["type"] for value in new] == ["message", "user_message"]
    # Where no event tells what the user says, none is written.
    session = take(meta(), said("user", "hi"), said("assistant", "ok")).session
    assert [value["payload"]["type"] for value in new_lines(session, user("x"))] == ["message"]


def test_events_repeat_items_that_hold_their_text():
    first, second = event("user_message", message="fix it"), event("user_message", message="why")
    around = said("user", "# From the editor\n\nfix it")
    decoded = take(meta(), first, around, second, first, said("assistant", "ok"), first)
    texts = ["# From the editor\n\nfix it", "why", "fix it", "ok", "fix it"]
    assert ["".join(p.text for p in m.parts) for m in shown(decoded.session)] == texts
    # An item that is a text by itself, and one that says nothing.
    odd = [item(role="user", content="hi"), item(role="user", content=None)]
    assert shown(take(meta(), *odd, event("user_message", message="hi")).session) == [user("hi")]


def test_lines_that_are_no_messages():
    ghost = item(type="ghost_snapshot", ghost_commit={})
    rolled = event("thread_rolled_back", num_turns=1)
    decoded = take(
        meta(), said("user", "hi"), ghost, rolled, line("world_state", full=True), {}, ""
    )
    assert codes(decoded) == {"unknown-kind": 1}
    assert shown(decoded.session) == [user("hi")]


def test_malformed_lines():
    bad = ["not json", "[1]", '{"broken', '{"a": NaN}', '"\\ud800"', "7"]
    items = [
        item(type="message", role="judge"),
        item(content="a"),
        item(type="function_call_output"),
        item(type=["message"]),
    ]
    decoded = take(meta(), *bad, *items, said("user", "hi"), end="")
    assert [(r.line, r.code) for r in decoded.repairs] == [
        (2, "invalid-json"),
        (3, "wrong-type"),
        (4, "invalid-json"),
        (5, "invalid-number"),
        (6, "lone-surrogate"),
        (7, "wrong-type"),
        (8, "wrong-role"),
        (9, "missing-field"),
        (10, "missing-field"),
        (11, "missing-field"),
    ]
    assert shown(decoded.session) == [user("hi")]
    more = encode(record(decoded.session, assistant("yes")))
    assert more.startswith(join(meta(), *bad))
    assert more.endswith(b"\n")
    limited = decode(join(meta(), said("user", "x" * 500)), limit=400)
    assert codes(limited) == {"line-too-long": 1}


@pytest.mark.parametrize("end", ["\n", "", "\r\n"])
def test_ends_of_files(end):
    text = join(*TALK, end=end).decode()
    data = b"\xef\xbb\xbf" + (text.replace("\n", "\r\n") if "\r" in end else text).encode()
    decoded = decode(data)
    assert (decoded.repairs, encode(decoded.session)) == ((), data)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty-file"),
        (b"\n \n", "empty-file"),
        (b"\xff", "invalid-utf8"),
        (b"not json\n{}\n", "invalid-json"),
        (b"[1]", "wrong-type"),
        (b"{}", "missing-header"),
        (b'{"type": "message"}', "missing-header"),
    ],
)
def test_errors(data, code):
    with pytest.raises(DecodeError) as caught:
        decode(data, file="f")
    assert (caught.value.code, caught.value.file) == (code, "f")


def test_documents_over_many_lines():
    texts = [json.dumps(value, indent=2) for value in TALK]
    decoded = take(*texts)
    assert decoded.repairs == ()
    assert shown(decoded.session) == shown(take(*TALK).session)
    mixed = take(texts[0], "{", '{"a": [', *texts[1:3], '{"a":\n1} x', json.dumps(TALK[10]))
    assert codes(mixed) == {"invalid-json": 4}
    assert shown(mixed.session) == [user("hi"), assistant("done")]
    # Texts that go nowhere are looked at a bounded number of times.
    broken = take(meta(), *['{"a":'] * 30, said("user", "hi"), texts[2])
    assert shown(broken.session) == [user("hi")]
    deep = take(meta(), '{"a":' * 5000, said("user", "hi"))
    assert codes(deep) == {"too-deep": 1}


# Compaction


def compacted(message="", *history, **fields):
    inner = [value.get("payload", value) for value in history]
    return line("compacted", message=message, replacement_history=inner, **fields)


KEPT = [said("user", "hi"), said("developer", "Lead."), said("user", "A summary.")]


def test_a_compaction_is_a_summary_and_a_cut():
    after = [said("user", "more"), said("assistant", "yes"), tokens(900, 80)]
    decoded = take(*TALK, compacted("Sum.", *KEPT), tokens(700, 400), *after)
    # The request for the summary is not in the file.
    assert codes(decoded) == {"unknown-request": 1}
    session = decoded.session
    assert shown(session) == [
        user("hi"), system("Lead."), user("A summary."), user("more"), assistant("yes"),
    ]  # fmt: skip
    assert [r.usage and r.usage.input for r in replies(session)] == [100, 200, 80]
    assert assistant("Sum.") in [node.entry for node in log(session)]
    assert [len(request.messages) for request in requests(session)] == [1, 4, 4]
    (cut,) = [node.entry for node in log(session) if isinstance(node.entry, Cut)]
    assert (bare(cut.notice), cut.why, cut.breaks, cut.keep) == (user("hi"), "compaction", True, ())
    again = take(*TALK, compacted("Sum.", *KEPT), *after[:2], compacted("Two.", said("user", "x")))
    assert shown(again.session) == [user("x")]


def test_what_is_sealed_is_the_summary():
    sealed = {"type": "compaction", "encrypted_content": "x"}
    history = [*KEPT[:1], said("assistant", "so"), sealed, {"type": "ghost_snapshot"}]
    decoded = take(*TALK, compacted("", *history))
    opaque = Opaque("compaction", json.dumps(sealed, separators=(",", ":")))
    assert assistant(opaque) in [node.entry for node in log(decoded.session)]
    assert shown(decoded.session) == [user("hi"), assistant("so", opaque)]
    assert decoded.repairs == ()


def test_calls_in_a_compacted_history():
    decoded = take(*TALK, compacted("Sum.", KEPT[0], call("c7"), output("c7"), said("user", "x")))
    assert [m.role for m in shown(decoded.session)] == ["user", "assistant", "tool", "user"]
    assert decoded.repairs == ()


def test_a_compaction_without_a_history_keeps_what_the_user_said():
    lines = [*TALK, said("user", "b"), said("assistant", "c")]
    bare_one = line("compacted", message="Sum.")
    decoded = take(*lines, bare_one)
    assert shown(decoded.session) == [user("Sum."), user("hi"), user("b")]
    twice = take(*lines, bare_one, said("assistant", "d"), line("compacted", message="Sum 2."))
    assert shown(twice.session) == [user("Sum 2."), user("hi"), user("b")]
    # Of very many only the latest stay, as the host has it.
    many = [said("user", f"{n}") for n in range(150)]
    short = shown(take(meta(), *many, said("assistant", "a"), bare_one).session)
    assert [m.parts[0].text for m in short] == ["Sum.", *map(str, range(50, 150))]
    # A history without a word of the user has the summary for a notice.
    silent = take(*lines, compacted("Sum.", said("developer", "Lead.")))
    assert shown(silent.session) == [user("Sum."), system("Lead.")]


def test_a_compaction_whose_summary_is_not_told():
    decoded = take(*TALK, said("user", "new"), compacted("", *KEPT[:1]))
    assert (codes(decoded), shown(decoded.session)) == ({}, [user("hi")])
    # What is open or was never sent can't be cut.
    decoded = take(*TALK, call("c3"), compacted("", *KEPT[:1]))
    assert codes(decoded) == {"open-call": 1, "unread": 1}
    decoded = take(meta(), said("user", "hi"), call("c3"), compacted("", *KEPT[:1]))
    assert codes(decoded) == {"open-call": 1, "unread": 1}
    for broken, code in (
        (compacted(""), "bad-notice"),
        (compacted(" ", said("assistant", "a")), "bad-notice"),
        (compacted("Sum.", {"type": 3}), "missing-field"),
        (compacted("Sum.", {"type": []}), "missing-field"),
        (line("compacted", message="Sum.", replacement_history=[7]), "wrong-type"),
    ):
        decoded = take(*TALK, broken)
        assert codes(decoded) == {code: 1}
        assert len(shown(decoded.session)) == 5


def test_a_file_may_begin_with_a_compaction():
    decoded = take(meta(), compacted("Sum.", *KEPT, said("assistant", "a")), said("user", "b"))
    assert decoded.repairs == ()
    assert shown(decoded.session)[-2:] == [assistant("a"), user("b")]
    assert requests(decoded.session) == ()
    empty = take(meta(), said("user", " "), compacted("", said("user", "x")))
    assert (codes(empty), shown(empty.session)) == ({"empty-content": 1}, [user("x")])


# Writing


def test_what_is_new_stands_behind_the_file():
    session = take(*TALK).session
    asked, _ = send(record(session, user("more")), time=1767225700000)
    answered = reply(
        asked, "completed", assistant(ToolCall("x1", "py", '"a"')), usage=Usage(50, 5, 9)
    )
    lines = encode(record(answered, tool_result("x1", "2"))).splitlines()[len(TALK) :]
    values = [json.loads(text) for text in lines]
    assert [(v["type"], v["payload"].get("type")) for v in values] == [
        ("response_item", "message"),
        ("response_item", "custom_tool_call"),
        ("event_msg", "token_count"),
        ("response_item", "custom_tool_call_output"),
    ]
    assert [v["timestamp"] for v in values] == ["2026-01-01T00:00:00.000Z"] + [
        "2026-01-01T00:01:40.000Z"
    ] * 3
    info = values[2]["payload"]["info"]
    assert info["total_token_usage"]["input_tokens"] == 350
    assert info["last_token_usage"] == {
        "input_tokens": 50,
        "cached_input_tokens": 9,
        "cache_write_input_tokens": 0,
        "output_tokens": 5,
        "reasoning_output_tokens": 0,
        "total_tokens": 55,
    }
    once = {"input_tokens": 5, "output_tokens": 1}
    info = {"total_token_usage": None, "last_token_usage": once}
    first = take(meta(), said("user", "hi"), event("token_count", info=info)).session
    done = reply(send(first)[0], "completed", assistant("a"), usage=Usage(3, 1))
    assert b'"total_token_usage":{"input_tokens":3,' in encode(done)
    # The totals go on from the file, and from what was written.
    sent, _ = send(record(answered, tool_result("x1", "2")))
    more = reply(sent, "completed", assistant("yes"), usage=Usage(7, 1))
    again = decode(encode(more)).session
    assert [r.usage for r in replies(again)][2:] == [Usage(50, 5, 9), Usage(7, 1)]
    assert encode(more).count(b'"input_tokens":357') == 1


def test_results_of_calls_of_the_file_are_of_its_kind():
    custom = item(type="custom_tool_call", call_id="x1", name="py", input="a")
    session = take(meta(), said("user", "hi"), custom).session
    (value,) = new_lines(session, tool_result("x1", "42"))
    assert value["payload"]["type"] == "custom_tool_call_output"
    again = take(meta(), said("user", "hi"), call("c1"), output("c1"), call("c1")).session
    (name,) = open_calls(again)
    assert name != "c1"
    (value,) = new_lines(again, tool_result(name, "42"))
    assert value["payload"]["call_id"] == "c1"


def test_replies_that_were_not_completed():
    session, _ = send(record(take(*TALK).session, user("more")))
    outcomes = [
        ("aborted", assistant("so"), ["message", "turn_aborted"]),
        ("aborted", None, []),
        ("failed", assistant("so"), []),
        ("lost", None, []),
    ]
    for outcome, message, kinds in outcomes:
        closed = reply(session, outcome, message)
        values = [json.loads(text) for text in encode(closed).splitlines()[len(TALK) + 1 :]]
        assert [v["payload"]["type"] for v in values] == kinds
        assert shown(decode(encode(closed)).session) == shown(closed)


def test_what_came_in_during_a_request_stands_behind_its_reply():
    session, _ = send(record(take(*TALK).session, user("more")))
    waiting = record(session, user("stop"))
    assert shown(decode(encode(waiting)).session)[-2:] == [user("more"), user("stop")]
    answered = reply(waiting, "completed", assistant("yes"))
    values = [json.loads(text) for text in encode(answered).splitlines()[len(TALK) :]]
    assert [v["payload"]["role"] for v in values] == ["user", "assistant", "user"]


def test_replies_in_a_row_are_kept_apart():
    session = record(take(*TALK).session, assistant("a"), assistant("b"), user("c"), assistant("d"))
    written = decode(encode(session)).session
    assert shown(written)[5:] == [assistant("a"), assistant("b"), user("c"), assistant("d")]


def test_changed_heads():
    session = take(*TALK).session
    head = evolve(session.head, route=Route("openai", "gpt-6", (("effort", "{"),)), system="New.")
    (value,) = new_lines(session, head)
    assert value["type"] == "turn_context"
    assert (value["payload"]["model"], value["payload"]["base_instructions"]) == ("gpt-6", "New.")
    assert "effort" not in value["payload"]
    assert new_lines(session, evolve(session.head, tools=(Tool("ls"),))) == []
    again = decode(encode(record(session, head))).session
    assert (again.head.route.model, again.head.system) == ("gpt-6", "New.")


def test_decisions_are_compactions():
    session = take(*TALK).session
    numbers = session.view.slots.numbers
    cut = Cut(numbers[3], user("Before: hi."), "too long", breaks=True)
    (value,) = new_lines(session, cut)
    assert value["type"] == "compacted"
    history = value["payload"]["replacement_history"]
    assert (value["payload"]["message"], len(history)) == ("Before: hi.", 2)
    assert shown(decode(encode(record(session, cut))).session) == shown(record(session, cut))
    # It is told once, in front of what comes next, and not between a call and its result.
    more = record(session, cut, user("more"))
    kinds = [json.loads(text)["type"] for text in encode(more).splitlines()[len(TALK) :]]
    assert kinds == ["compacted", "response_item"]
    asked, _ = send(record(session, user("more")))
    calls = reply(asked, "completed", assistant(ToolCall("c9", "ls")))
    late = record(calls, cut)
    assert b'"compacted"' not in encode(late)
    answered, _ = send(record(late, tool_result("c9", "1")))
    again = shown(decode(encode(answered)).session)
    assert [m.parts[0].kind for m in again] == ["text", "text", "text", "tool-call", "text"]
    silent = Cut(numbers[3], user((Image("aGk=", "image/png"),)), "all", breaks=True)
    (value,) = new_lines(session, silent)
    assert value["payload"]["message"] == "The conversation was compacted."


def test_a_session_from_elsewhere():
    tools = (Tool("ls", "List.", '{"type":"object"}'), Tool("cat", schema="no json"))
    head = Head(Route("openai", "gpt-5", (("effort", '"low"'),)), "Base.", tools)
    session, _ = send(record(Session(), head, user("hi")), time=1767225600000)
    session = reply(session, "completed", assistant(Thinking("hm"), ToolCall("c1", "ls")))
    session = record(session, tool_result("c1", "42", error=True))
    session, _ = send(session)
    session = reply(session, "completed", assistant("done"), usage=Usage(10, 1))
    data = encode(label(session, 0, "x"))
    assert json.loads(data.splitlines()[0])["payload"]["timestamp"] == "2026-01-01T00:00:00.000Z"
    assert detect(data) == "codex"
    decoded = decode(data)
    assert decoded.repairs == ()
    assert shown(decoded.session) == shown(session)
    assert decoded.session.head == evolve(
        head, route=evolve(head.route, binding="none"), tools=(tools[0], Tool("cat"))
    )
    assert [r.usage for r in replies(decoded.session)] == [None, Usage(10, 1)]
    assert encode(decoded.session) == data
    assert json.loads(encode(Session()))["type"] == "session_meta"


def test_a_path_that_leaves_in_front_of_the_end():
    session = take(*TALK).session
    slots = session.view.slots
    numbers = dict(zip(map(bare, slots.messages), slots.numbers, strict=True))
    early = at_leaf(session, numbers[user("hi")])
    assert encode(early) == join(*TALK[:3])
    inside = record(at_leaf(session, numbers[tool_result("c1", "42")]), tool_result("c2", "other"))
    values = [json.loads(text) for text in encode(inside).splitlines()]
    assert values[: len(TALK[:9])] == TALK[:9]
    assert [v["payload"]["output"] for v in values[9:]] == ["other"]
    root = at_leaf(session, -1)
    assert [json.loads(text)["type"] for text in encode(root).splitlines()] == ["session_meta"]


def test_messages_of_a_torn_line_are_written():
    session = take(*TALK, compacted("Sum.", *KEPT)).session
    notices = [node.number for node in log(session) if isinstance(node.entry, Cut)]
    torn = at_leaf(session, notices[0] + 2)
    assert shown(torn) == [user("hi"), system("Lead.")]
    values = [json.loads(text) for text in encode(torn).splitlines()[len(TALK) :]]
    assert [v["payload"].get("role") for v in values] == ["assistant", "developer"]


# Everything together

LINES = [
    *TALK,
    *KEPT,
    call("c1"),
    output("c9"),
    compacted("Sum.", *KEPT),
    compacted("", call("c1"), output("c1")),
    line("compacted", message="Sum."),
    event("turn_aborted"),
    event("user_message", message="hi"),
    item(type="web_search_call", id="ws"),
    item(type="message", role="assistant", content=[{"type": "tool_use", "id": "t1", "input": {}}]),
    item(role="assistant", content="whole"),
    item(type="agent_message", content=[]),
    item(type="message", role="judge"),
    tokens(5, 5),
    "{",
    "",
    7,
]


@given(st.lists(st.sampled_from(LINES), max_size=14), st.sampled_from(["\n", ""]), st.data())
def test_whatever_is_in_a_file_comes_back(lines, end, data):
    session = take(meta(), *lines, end=end).session
    new_lines(session, user("more"), assistant("yes")) if end and not open_calls(session) else None
    numbers = [node.number for node in log(session)]
    there = at_leaf(session, data.draw(st.sampled_from(numbers)))
    again = decode(encode(there)).session
    assert encode(again) == encode(there)
    assert len(path(there)) <= len(session)


@given(st.one_of(sessions(), journals()))
def test_sessions_from_elsewhere_are_written_and_read(session):
    if session.view.flight >= 0:
        session = record(session, Reply("lost"))
    for call_id in open_calls(session):
        session = abandon(session, call_id, "gone")
    data = encode(session)
    again = decode(data).session
    assert encode(again) == data

    def texts(session):
        parts = [part for m in shown(session) for part in m.parts]
        found = Counter(p.text for p in parts if isinstance(p, Text) and p.text.strip())
        # Stands for a notice, where the history that is left has no word of the user.
        del found["The conversation was compacted."]
        return found

    # Leading system messages are a part of the system text now.
    lead = Counter(again.head.system.removeprefix(session.head.system).split("\n\n"))
    assert texts(again) <= texts(session) <= texts(again) + lead


# Real files


@real
def test_real_files(path):
    data = path.read_bytes()
    decoded = load(path)
    assert decoded.format == codex.NAME
    assert encode(decoded.session) == data
    found = codes(decoded)
    if "malformed" in path.stem:
        assert found == {"invalid-json": 2}
        assert [m.role for m in shown(decoded.session)] == ["user", "assistant"] * 2
    elif "sanitized" in path.stem:
        assert found == {"missing-result": 27}
        assert len(replies(decoded.session)) == 33
        assert len(open_calls(decoded.session)) == 1
    else:
        assert found == {"reused-id": 2, "late-result": 1, "early-result": 1}
        usage = [r.usage for r in replies(decoded.session) if r.usage]
        assert usage == [Usage(16341, 81, 3584)]
        assert sum(isinstance(node.entry, Cut) for node in log(decoded.session)) == 6
    assert shown(decode(encode(record(decoded.session, user("more")))).session)


def test_it_is_one_of_the_codecs():
    assert (CODECS["codex"].decode, CODECS["codex"].encode) == (decode, encode)
    assert detect(join(*TALK)) == detect(join("{", *TALK)) == "codex"


def test_shipped_stages_on_a_rollout():
    long = [said("user", "hi"), call("c1"), output("c1", "x" * 900), said("assistant", "so")]
    session = take(
        meta(), *long, said("user", "b"), call("c2"), output("c2", "y" * 900), long[3]
    ).session
    short = prune_suffix(session, stub_over=300, drop_over=200, cache="cold")
    assert short is not session
    assert shown(decode(encode(short)).session) == shown(short)
    assert isinstance(project(short).messages[0], Message)
