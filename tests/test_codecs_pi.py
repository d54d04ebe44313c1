"""Session files of pi: what lines become, what is repaired, and that the bytes come back."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from attrs import evolve
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ctxalgebra import (
    CODES,
    Ask,
    Cut,
    DecodeError,
    Drop,
    Head,
    Image,
    InvalidArgument,
    Label,
    Message,
    Note,
    Opaque,
    Replace,
    Reply,
    Route,
    Sent,
    Session,
    Strip,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Usage,
    UsageReport,
    abandon,
    account,
    assistant,
    at_leaf,
    breaks,
    explain,
    labels,
    log,
    open_calls,
    path,
    project,
    prune_suffix,
    record,
    reply,
    requests,
    select,
    send,
    system,
    tool_result,
    user,
)
from ctxalgebra.codecs import openai_chat, pi
from ctxalgebra.codecs.lines import compact, parse
from ctxalgebra.codecs.pi_encode import encode
from ctxalgebra.codecs.pi_messages import (
    Spoken,
    notice_text,
    read_blocks,
    read_message,
    summary_of,
    write_message,
)
from ctxalgebra.laws.strategies import conversations, journals, messages, sessions
from ctxalgebra.protocol import DEFECTS, defects

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions" / "pi"
FILES = sorted(SHARED.glob("*.jsonl"))
real = pytest.mark.parametrize(
    "path",
    FILES
    or [pytest.param(None, marks=pytest.mark.skip(reason="needs ../shared/sessions, absent here"))],
    ids=lambda path: path and path.stem,
)

HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z"}
USAGE = {"input": 5, "output": 2, "cacheRead": 3, "cacheWrite": 1, "totalTokens": 11}


def pack(*lines, end="\n"):
    texts = [
        line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines
    ]
    return ("\n".join(texts) + end).encode()


def entry(kind, name, parent, /, **fields):
    return {"type": kind, "id": name, "parentId": parent, **fields}


def said(name, parent, role, content, **fields):
    return entry("message", name, parent, message={"role": role, "content": content, **fields})


def calling(*ids, **fields):
    return [{"type": "toolCall", "id": i, "name": "read", "arguments": {}, **fields} for i in ids]


def result(name, parent, call, content="ok", **fields):
    return said(name, parent, "toolResult", content, toolCallId=call, toolName="read", **fields)


def read(*lines, end="\n"):
    data = pack(*lines, end=end)
    decoded = pi.decode(data)
    assert encode(decoded.session) == data
    assert {repair.code for repair in decoded.repairs} <= CODES.keys() | DEFECTS.keys()
    return decoded


def codes(decoded):
    return dict(Counter(repair.code for repair in decoded.repairs))


def entries(decoded, kind):
    return [node.entry for node in log(decoded.session) if isinstance(node.entry, kind)]


def bare(message):
    return evolve(message, id="", origin="")


def shown(session):
    """Give what requests show; results with the names of their tools, as they are written."""
    messages = project(session).messages
    tools = {call.id: call.name for message in messages for call in message.calls}
    return [evolve(bare(m), name=m.name or tools.get(m.call, "")) for m in messages]


def texts(session):
    return ["".join(p.text for p in m.parts if isinstance(p, Text)) for m in shown(session)]


def copy(session, change):
    """Record everything again, each entry changed; None leaves it out, with what hangs on it."""
    made = Session()
    number = {-1: -1}
    for node in log(session):
        made = at_leaf(made, number[-1 if node.parent is None else node.parent.number])
        new = change(node.entry)
        if isinstance(new, Cut):
            new = evolve(new, through=number[new.through])
        made = made if new is None else record(made, new)
        number[node.number] = -1 if made.leaf is None else made.leaf.number
    return made


def without_origin(item):
    if isinstance(item, Message):
        return evolve(item, origin="")
    if isinstance(item, Reply) and item.message is not None:
        return evolve(item, message=evolve(item.message, origin=""))
    return item


# Real files


@real
def test_real_files_come_back_byte_for_byte(path):
    data = path.read_bytes()
    decoded = pi.decode(data)
    assert encode(decoded.session) == data
    assert defects(project(decoded.session).messages) == () or open_calls(decoded.session)
    for cut in (len(data) // 3, len(data) // 2, len(data) - 2):
        part = data[:cut]
        part = part[: len(part) - (part[-1] & 0xC0 == 0x80) * 3]
        try:
            text = part.decode()
        except UnicodeDecodeError:
            continue
        assert encode(pi.decode(text.encode()).session) == part


@real
def test_real_files_are_carried_by_the_model_and_not_only_by_their_text(path):
    session = pi.decode(path.read_bytes()).session
    made = copy(session, without_origin)
    again = pi.decode(encode(made))
    assert shown(again.session) == shown(session)
    assert again.session.head == session.head
    assert len(requests(again.session)) == len(requests(session))
    assert [r.head for r in requests(again.session)] == [r.head for r in requests(session)]
    assert account(again.session).usage == account(session).usage

    # And with nothing of the file: no notes, so that all lines are new.
    bare_session = copy(
        session, lambda item: None if isinstance(item, Note) else without_origin(item)
    )
    fresh = encode(bare_session)
    assert shown(pi.decode(fresh).session) == shown(session)
    assert fresh.startswith(b'{"type":"session","version":3,"id":"ctxalgebra"')


EXPECTED = {
    "badlogic__pi-mono__large-session": {"aborted-calls": 18, "empty-content": 14},
    "jazzyalex__agent-sessions__openclaw-large": {"unknown-parent": 4},
    "jazzyalex__agent-sessions__openclaw-schema_drift": {"unknown-kind": 1, "unknown-parent": 3},
    "jazzyalex__agent-sessions__pi-small": {"no-change": 2},
    "pinion05__agent-complex-task__03-raddit-dashboard-pr-session": {
        "invalid-json": 1,
        "missing-result": 1,
        "out-of-order": 12,
    },
    "swarm-ops__kuato__pi-session": {"unknown-parent": 1},
}


@real
def test_what_was_repaired_in_real_files(path):
    assert codes(pi.decode(path.read_bytes())) == EXPECTED[path.stem]


@real
def test_real_sessions_go_on(path):
    data = path.read_bytes()
    session = pi.decode(data).session
    for call in open_calls(session):
        session = abandon(session, call, "the process ended")
    session, _ = send(record(session, user("Go on.")), time=1_900_000_000_000)
    done = assistant("Done.", ToolCall("new", "ls", '{"a": 1}'))
    session = reply(session, "completed", done, usage=Usage(10, 5, 4, 3))
    session = record(session, tool_result("new", "a.py", name="ls"))
    written = encode(session)
    assert written.startswith(data)
    again = pi.decode(written)
    assert shown(again.session) == shown(session)
    assert again.session.head == session.head
    assert encode(again.session) == written


# What lines become


def test_a_conversation():
    decoded = read(
        HEADER,
        entry("model_change", "a", None, provider="anthropic", modelId="claude-x"),
        entry("thinking_level_change", "b", "a", thinkingLevel="high"),
        said("c", "b", "user", "hi"),
        said(
            "d",
            "c",
            "assistant",
            [
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
                {"type": "thinking", "thinking": "x", "redacted": True},
                {"type": "text", "text": "ok"},
                *calling("c1", arguments={"b": 1.50, "a": "\u2028é"}, thoughtSignature="g"),
            ],
            provider="anthropic",
            model="claude-x",
            api="anthropic-messages",
            usage=USAGE,
            stopReason="toolUse",
            timestamp=7,
        ),
        result("e", "d", "c1", [{"type": "image", "data": "aa", "mimeType": "image/png"}]),
    )
    assert decoded.repairs == ()
    route = Route("anthropic", "claude-x", (), "prefix")
    sent_route = evolve(route, parameters=(("api", '"anthropic-messages"'),))
    kinds = [node.entry for node in path(decoded.session)]
    assert [type(item).__name__ for item in kinds] == [
        "Note",
        "Note",
        "Head",
        "Note",
        "Message",
        "Head",
        "Sent",
        "Reply",
        "Message",
        "Note",
    ]
    names = [item.name for item in kinds if isinstance(item, Note)]
    assert names == ["pi", "pi-entry", "pi", "pi-end"]
    assert kinds[2] == Head(route)
    assert kinds[5] == Head(sent_route)
    assert kinds[6] == Sent(inferred=True, time=7)
    answer = kinds[7]
    assert (answer.outcome, answer.usage) == ("completed", Usage(9, 2, 3, 1))
    assert bare(answer.message) == assistant(
        Thinking("hm", "sig"),
        Thinking("x", redacted=True),
        "ok",
        ToolCall("c1", "read", '{"b":1.5,"a":"\u2028é"}', "g"),
    )
    assert answer.message.id == "d"
    assert kinds[8] == evolve(
        tool_result("c1", (Image("aa", "image/png"),), name="read"),
        id="e",
        origin=kinds[8].origin,
    )
    assert breaks(decoded.session) == ()


def test_numbers_in_arguments_keep_their_text():
    line = pack(said("a", None, "user", "x"), end="").decode()
    call = (
        '{"type":"message","id":"b","parentId":"a","message":{"role":"assistant","content":'
        '[{"type":"toolCall","id":"c","name":"n","arguments":{ "z" : 1.50, "a":1e2 , "z":0.10}}]}}'
    )
    decoded = read(HEADER, line, call)
    assert decoded.session.view.messages()[1].calls[0].arguments == '{"z":0.10,"a":1e2}'


def test_outcomes_follow_the_stop_reason():
    lines = [HEADER, said("u", None, "user", "a")]
    reasons = ["aborted", "error", "length", "stop", None, "pending"]
    for at, reason in enumerate(reasons):
        more = {} if reason is None else {"stopReason": reason}
        lines.append(said(f"a{at}", f"a{at - 1}" if at else "u", "assistant", f"t{at}", **more))
    decoded = read(*lines)
    outcomes = [item.outcome for item in entries(decoded, Reply)]
    assert outcomes == ["aborted", "failed", *["completed"] * 4]
    assert texts(decoded.session) == ["a", "t2", "t3", "t4", "t5"]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"role": "custom", "content": "c"}, "c"),
        ({"role": "hookMessage", "content": [{"type": "text", "text": "h"}]}, "h"),
        ({"role": "branchSummary", "summary": "went"}, "went</summary>"),
        ({"role": "compactionSummary", "summary": "was"}, "was\n</summary>"),
        ({"role": "bashExecution", "command": "ls", "output": ""}, "Ran `ls`\n(no output)"),
        (
            {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 2},
            "Ran `ls`\n```\na\n```\n\nThe command ended with exit code 2.",
        ),
        (
            {"role": "bashExecution", "command": "l", "output": "a", "exitCode": 0},
            "Ran `l`\n```\na\n```",
        ),
        (
            {
                "role": "bashExecution",
                "command": "l",
                "output": "a",
                "cancelled": True,
                "truncated": True,
                "fullOutputPath": "/t",
            },
            "(the command was cancelled)\n\n(The output was shortened; all of it is in /t.)",
        ),
    ],
)
def test_what_the_host_tells_the_model_as_a_user(message, text):
    decoded = read(HEADER, entry("message", "a", None, message=message))
    (shown_message,) = decoded.session.view.messages()
    assert shown_message.role == "user"
    assert shown_message.parts[0].text.endswith(text)


def test_lines_that_the_model_never_sees_are_notes():
    hidden = {"role": "bashExecution", "command": "x", "output": "y", "excludeFromContext": True}
    decoded = read(
        HEADER,
        entry("message", "a", None, message=hidden),
        entry("branch_summary", "b", "a", fromId="x", summary=""),
        entry("message", "b2", "b", message={"role": "branchSummary", "summary": ""}),
        entry("custom", "c", "b2", customType="t", data={}),
        entry("session_info", "d", "c", name="n"),
        entry("model_change", "e", "d", model="p/m", role="small"),
        entry("model_change", "f", "e"),
        entry("usage", "g", "f", kind="summary", usage=USAGE),
        entry("usage", "h", "g", kind="summary", usage={}, targetId="a"),
    )
    assert decoded.repairs == ()
    assert len(decoded.session) == 11
    assert {item.name for item in entries(decoded, Note)} == {"pi", "pi-end"}


def test_injected_messages_are_the_users():
    decoded = read(
        HEADER,
        entry("custom_message", "a", None, customType="t", content="one", display=False),
        entry("branch_summary", "b", "a", fromId="x", summary="two"),
        entry("model_change", "c", "b", model="zai/glm-5.2", role="default"),
        said("d", "c", "system", "three"),
    )
    assert [message.role for message in shown(decoded.session)] == ["user", "user", "system"]
    assert decoded.session.head.route == Route("zai", "glm-5.2", (), "none")


def test_content_of_no_known_shape_is_carried():
    decoded = read(
        HEADER,
        said("a", None, "user", [{"type": "video", "n": 1.0}, 5, {"type": "text", "text": 7}]),
        said("b", "a", "user", {"odd": True}),
        said("c", "b", "user", None),
        said("d", "c", "user", calling("c1")),
    )
    parts = [message.parts for message in shown(decoded.session)]
    assert parts[0] == (
        Opaque("video", '{"type":"video","n":1.0}'),
        Opaque("", "5"),
        Opaque("text", '{"type":"text","text":7}'),
    )
    assert parts[1] == (Opaque("", '{"odd":true}'),)
    assert parts[2][0].type == "toolCall"
    assert codes(decoded) == {"empty-content": 1}


def test_the_route_may_be_named_in_part():
    def line(name, parent, **fields):
        return said(name, parent, "assistant", "x", **fields)

    decoded = read(
        HEADER,
        said("u", None, "user", "a"),
        line("a", "u", provider="openai", model="gpt", api="r"),
        line("b", "a"),
        line("c", "b", model="gpt"),
        line("d", "c", model="Claude-9"),
    )
    routes = [request.head.route for request in requests(decoded.session)]
    assert routes[0] == routes[1] == routes[2] == Route("openai", "gpt", (("api", '"r"'),), "none")
    assert routes[3] == Route("openai", "Claude-9", (), "prefix")


# The tree


def test_branches_are_recorded_under_their_parents_in_file_order():
    decoded = read(
        HEADER,
        said("a", None, "user", "1"),
        said("b", "a", "assistant", "2"),
        said("c", "b", "user", "3"),
        said("d", "b", "user", "4"),
        said("e", "c", "assistant", "5"),
        said("f", None, "user", "6"),
        said("g", "d", "assistant", "7"),
    )
    assert texts(decoded.session) == ["1", "2", "4", "7"]
    number = {
        m.id: node.number
        for node in log(decoded.session)
        if (m := getattr(node.entry, "message", node.entry)) and isinstance(m, Message)
    }
    assert texts(at_leaf(decoded.session, number["e"])) == ["1", "2", "3", "5"]
    assert texts(at_leaf(decoded.session, number["f"])) == ["6"]
    assert sorted(number, key=number.get) == list("abcdefg")


def test_parents_that_are_not_in_the_file():
    decoded = read(
        HEADER,
        said("a", "s", "user", "1"),
        said("b", "a", "assistant", calling("c1")),
        result("c", "c1", "c1"),
        said("d", "gone", "user", "2"),
        said("e", 5, "user", "3"),
        said("f", False, "user", "4"),
        said("g", 0, "user", "5"),
        said("h", "", "user", "6"),
        said("i", "c9", "assistant", calling("c9")),
    )
    repaired = {repair.entry: repair.text for repair in decoded.repairs[:-1]}
    assert codes(decoded) == {"unknown-parent": 5, "empty-request": 1}
    assert repaired == {
        "a": "a root: the parent is the session itself",
        "c": "the parent is a call: stands under the entry with it",
        "d": "a root of its own: the parent is not in the file",
        "e": "a root of its own: the parent is not in the file",
        "i": "a root of its own: the parent is not in the file",
    }
    for node in log(decoded.session):
        if isinstance(node.entry, Message) and node.entry.role == "user":
            assert node.parent.number == 0


def test_entries_in_front_of_their_parents_wait_for_them():
    decoded = read(
        HEADER,
        said("c", "b", "user", "3"),
        entry("label", "l", "c", targetId="a", label="here"),
        entry("custom", "k", "l"),
        result("r", "k", "nothing"),
        said("b", "a", "assistant", "2"),
        said("a", None, "user", "1"),
        said("d", "r", "assistant", "4"),
    )
    assert texts(decoded.session) == ["1", "2", "3", "4"]
    assert codes(decoded) == {"late-parent": 5, "orphan-result": 1}
    assert list(labels(decoded.session).values()) == ["here"]
    marks = [json.loads(n.data) for n in entries(decoded, Note) if n.name == "codec-repair"]
    assert [mark["entry"] for mark in marks] == ["b", "c", "l", "k", "r"]
    assert {mark["code"] for mark in marks} == {"late-parent"}


def test_the_leaf_is_the_last_entry_of_the_file():
    decoded = read(
        HEADER,
        said("a", None, "user", "1"),
        said("c", "b", "user", "3"),
        said("b", "a", "user", "2"),
        "",
    )
    assert texts(decoded.session) == ["1", "2"]


def test_open_calls_at_a_fork_are_open_on_each_branch():
    decoded = read(
        HEADER,
        said("a", None, "user", "1"),
        said("b", "a", "assistant", calling("c1", "c2")),
        result("r1", "b", "c1"),
        result("r2", "r1", "c2"),
        said("x", "r1", "user", "2"),
        said("y", "x", "assistant", "3"),
        said("z", "r2", "assistant", "4"),
    )
    assert codes(decoded) == {"missing-result": 1}
    assert texts(decoded.session) == ["1", "", "ok", "ok", "4"]
    (branch,) = [n for n in log(decoded.session) if getattr(n.entry, "message", user("")).id == "y"]
    assert texts(at_leaf(decoded.session, branch.number)) == [
        "1",
        "",
        "ok",
        "No result was recorded for this call.",
        "2",
        "3",
    ]


def test_ids_are_used_again_only_along_a_path():
    def branch(name, parent):
        return [
            said(f"{name}1", parent, "user", "x"),
            said(f"{name}2", f"{name}1", "assistant", calling("c1")),
            result(f"{name}3", f"{name}2", "c1"),
        ]

    both = read(HEADER, said("a", None, "user", "1"), *branch("p", "a"), *branch("q", "a"))
    assert both.repairs == ()
    again = read(
        HEADER,
        said("a", None, "user", "1"),
        *branch("p", "a"),
        said("o", "p3", "user", "other"),
        *branch("q", "p3"),
    )
    assert codes(again) == {"reused-id": 1}
    assert [call.id for m in shown(again.session) for call in m.calls] == ["c1", "c1_2"]
    assert defects(project(again.session).messages) == ()


def test_a_file_without_its_header_is_read():
    decoded = read(said("a", "gone", "user", "1"), said("b", "a", "assistant", "2"))
    assert codes(decoded) == {"missing-header": 1, "unknown-parent": 1}
    assert texts(decoded.session) == ["1", "2"]
    old = {"type": "message", "message": {"role": "user", "content": "x"}}
    assert codes(read(old, old)) == {"missing-header": 1}


@pytest.mark.parametrize("header", [HEADER, {"type": "session", "id": "s"}])
def test_a_second_header_keeps_its_place(header):
    decoded = read(header, said("a", None, "user", "1"), header, said("b", "a", "user", "2"))
    assert codes(decoded) == {"unknown-kind": 1}
    assert texts(decoded.session) == ["1", "2"]
    assert texts(pi.decode(encode(record(decoded.session, user("3")))).session) == ["1", "2", "3"]


def test_lines_without_id_or_type_keep_their_place():
    decoded = read(
        HEADER,
        {"type": "message", "parentId": None, "message": {"role": "user", "content": "1"}},
        said("a", None, "user", "2"),
        {"id": "b", "parentId": "a"},
        said("c", "b", "user", "3"),
        {"type": "message", "parentId": "c", "message": {"role": "user", "content": "4"}},
    )
    assert codes(decoded) == {"unknown-kind": 1}
    assert texts(decoded.session) == ["2", "3", "4"]
    assert texts(read(HEADER, said("a", None, "user", "1"), {}).session) == []


def nameless(role, content, parent=None, **fields):
    return {"type": "message", "parentId": parent, "message": {"role": role, "content": content}}


def test_a_header_that_is_not_first_names_no_version():
    decoded = read(nameless("user", "1"), HEADER, nameless("assistant", "2"))
    assert codes(decoded) == {"missing-header": 1, "unknown-kind": 1}
    assert texts(decoded.session) == ["1", "2"]
    assert texts(pi.decode(encode(record(decoded.session, user("3")))).session) == ["1", "2", "3"]


def test_a_result_under_a_call_of_a_line_without_id_is_not_written_anew():
    call = {**nameless("assistant", calling("c1"), "u"), "id": None}
    lines = said("u", None, "user", "q"), call, result("r", "c1", "c1")
    decoded = read(HEADER, *lines)
    assert codes(decoded) == {"unknown-parent": 1}
    assert texts(decoded.session) == ["q", "", "ok"]
    # The session's id comes before that of a call.
    taken = read({**HEADER, "id": "c1"}, *lines)
    assert codes(taken) == {"unknown-parent": 1, "orphan-result": 1}


def test_what_is_recorded_under_a_line_without_id_stays_there():
    decoded = read(
        HEADER,
        said("u", None, "user", "q"),
        nameless("assistant", "a", "u"),
        "",
    )
    assert texts(decoded.session) == ["q", "a"]
    number = decoded.session.view.slots.numbers[1]
    session = record(
        decoded.session,
        Label(number, "here"),
        Replace(number, assistant("edited"), "x", breaks=True),
        user("more"),
        Sent(),
        Reply("completed", assistant("b")),
    )
    written = encode(session)
    new = [json.loads(line) for line in written.decode().splitlines()[4:]]
    assert [line["parentId"] for line in new[:2]] == ["u", new[0]["id"]]
    assert new[0]["ctxalgebra"] == {"parentId": "#3"}
    assert "ctxalgebra" not in new[1]
    assert (new[0]["targetId"], new[1]["targetId"]) == ("#3", "#3")
    again = pi.decode(written)
    assert (again.repairs, encode(again.session)) == ((), written)
    assert texts(again.session) == texts(session) == ["q", "edited", "more", "b"]
    assert list(labels(again.session).values()) == ["here"]
    session = record(session, Cut(session.view.slots.numbers[0], user("s"), "x", breaks=True))
    assert texts(pi.decode(encode(session)).session) == ["s", "edited", "more", "b"]


def test_the_place_of_a_line_is_never_taken_for_an_id_of_the_file():
    lines = nameless("user", "1"), said("#2", None, "user", "other"), nameless("user", "2", "#2#")
    decoded = read(HEADER, *lines)
    assert texts(decoded.session) == ["1", "2"]
    named = record(decoded.session, evolve(user("3"), id="#9"), user("4"))
    assert texts(pi.decode(encode(named)).session) == ["1", "2", "3", "4"]
    assert b'"#9"' not in encode(named)


def test_a_line_without_id_in_front_of_its_parent():
    decoded = read(
        HEADER,
        nameless("user", "2", "a"),
        said("a", None, "user", "1"),
        {**said("k", "a", "user", "3"), "ctxalgebra": {"parentId": "#2"}},
    )
    assert codes(decoded) == {"late-parent": 1}
    assert texts(decoded.session) == ["1", "2", "3"]
    middle = decoded.session.view.slots.numbers[1]
    assert texts(pi.decode(encode(at_leaf(decoded.session, middle))).session) == ["1", "2"]


def test_a_message_is_not_read_under_another_parent_than_it_has():
    decoded = read(HEADER, said("a", None, "user", "1"), said("b", "a", "assistant", "2"))
    second = decoded.session.view.messages()[1]
    front = record(at_leaf(decoded.session, 0), evolve(second, id="c"))
    moved = evolve(second, id="c", origin=second.origin.replace('"b"', '"c"'))
    for session in (front, record(at_leaf(decoded.session, 0), moved)):
        assert texts(pi.decode(encode(session)).session) == ["2"]


def test_a_result_that_moved_can_be_edited_and_one_that_was_made_has_no_line():
    decoded = asked(
        said("a", "u", "assistant", calling("c1", "c2")),
        said("b", "a", "assistant", calling("c3")),
        result("r", "b", "c2"),
        result("r2", "r", "c3"),
        said("c", "r2", "assistant", "ok"),
    )
    assert codes(decoded) == {"missing-result": 1, "late-result": 1}
    session = decoded.session
    for slot in (2, 3):
        old = session.view.slots.messages[slot]
        new = evolve(old, parts=(Text("edited"),))
        session = record(session, Replace(session.view.slots.numbers[slot], new, "x", breaks=True))
    (edit,) = encode(session).decode().splitlines()[7:]
    assert json.loads(edit)["targetId"] == "r"
    made = "No result was recorded for this call."
    assert texts(pi.decode(encode(session)).session) == ["q", "", made, "edited", "", "ok", "ok"]


@pytest.mark.parametrize("value", ["not json", "5", '"x"', "[" * 1000])
def test_parameters_of_a_route_that_are_no_text(value):
    session = record(Session(), Head(Route("p", "m", (("api", value), ("b", "{")))), user("a"))
    session = record(session, Sent(), Reply("completed", assistant("b")))
    written = encode(session)
    assert json.loads(written.decode().splitlines()[-1])["message"]["api"] == (
        "x" if value == '"x"' else ""
    )
    assert texts(pi.decode(written).session) == ["a", "b"]


def test_a_session_in_front_of_its_first_entry():
    session = record(Session(), user("a"), Sent(), Reply("completed", assistant("b")))
    front = at_leaf(session, -1)
    line = json.loads(encode(front).decode().splitlines()[-1])
    assert (line["type"], line["id"], line["parentId"]) == ("custom", "ffffffff", None)
    assert texts(pi.decode(encode(front)).session) == []
    assert texts(pi.decode(encode(record(front, user("c")))).session) == ["c"]
    decoded = read(HEADER, said("a", None, "user", "1"))
    assert texts(pi.decode(encode(at_leaf(decoded.session, -1))).session) == []
    old_session = read(OLD, old("user", "1")).session
    with pytest.raises(InvalidArgument, match="version 1"):
        encode(at_leaf(old_session, -1))
    assert texts(pi.decode(encode(record(read(OLD).session, user("2")))).session) == ["2"]


# Version 1


OLD = {"type": "session", "id": "s", "provider": "anthropic", "modelId": "claude-x"}


def old(role, content, **fields):
    return {"type": "message", "message": {"role": role, "content": content, **fields}}


def test_version_1_has_no_ids_and_its_order_is_the_tree():
    decoded = read(
        OLD,
        old("user", "1"),
        old("assistant", "2", provider="anthropic", model="claude-x"),
        "not json",
        old("user", "3"),
        old("assistant", "4"),
        {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 3},
        {"type": "label", "targetId": "#1", "label": "first"},
        old("user", "5"),
    )
    assert codes(decoded) == {"invalid-json": 1}
    assert decoded.session.head.route == Route("anthropic", "claude-x", (), "prefix")
    assert texts(decoded.session) == [notice_text("s"), "3", "4", "5"]
    session = record(decoded.session, user("6"), Note("mine", "data"))
    session = record(session, Cut(session.view.slots.numbers[1], user("[cut]"), "x", breaks=True))
    session = record(session, Label(5, "here"))
    written = encode(session)
    new = [json.loads(line) for line in written.decode().splitlines()[-4:]]
    assert [line["type"] for line in new] == ["message", "custom", "compaction", "label"]
    assert all("id" not in line and "parentId" not in line for line in new)
    assert new[2]["firstKeptEntryIndex"] == 4
    assert shown(pi.decode(written).session) == shown(session)
    everything = record(session, assistant("7"))
    number = everything.view.slots.numbers[-1]
    everything = record(everything, Cut(number, user(notice_text("t")), "x", breaks=True))
    # In the file it is a reply, which no request has shown yet.
    assert texts(pi.decode(encode(everything)).session) == [notice_text("t"), "7"]


def test_version_1_holds_no_branches():
    session = read(OLD, old("user", "1"), old("user", "2")).session
    for changed in (at_leaf(session, 2), record(at_leaf(session, 2), user("3"))):
        with pytest.raises(InvalidArgument, match="version 1"):
            encode(changed)


def test_a_renamed_message_of_version_1():
    decoded = read(
        OLD,
        old("user", "1"),
        old("assistant", calling("c1")),
        old("toolResult", "a", toolCallId="c1"),
        old("assistant", calling("c1")),
        old("toolResult", "b", toolCallId="c1"),
    )
    assert codes(decoded) == {"reused-id": 1}
    written = encode(record(decoded.session, user("2")))
    assert texts(pi.decode(written).session) == ["1", "", "a", "", "b", "2"]


# Calls and results


def asked(*lines):
    return read(HEADER, said("u", None, "user", "q"), *lines)


def test_late_results_move_behind_their_calls():
    decoded = asked(
        said("a", "u", "assistant", calling("c1")),
        said("b", "a", "assistant", calling("c2")),
        result("r1", "b", "c1", "one"),
        result("r2", "r1", "c2", "two"),
        said("z", "r2", "user", "next"),
    )
    assert codes(decoded) == {"late-result": 1}
    assert texts(decoded.session) == ["q", "", "one", "", "two", "next"]
    assert decoded.repairs[0].line == 5
    moved = next(n for n in path(decoded.session) if getattr(n.entry, "call", "") == "c1")
    assert json.loads(moved.parent.entry.data) == {"code": "late-result", "line": 5, "of": [5]}


def test_early_results_move_behind_their_calls():
    decoded = asked(
        result("r1", "u", "c1", "one"),
        said("a", "r1", "assistant", calling("c1")),
        said("b", "a", "assistant", "done"),
    )
    assert codes(decoded) == {"early-result": 1}
    assert texts(decoded.session) == ["q", "", "one", "done"]


def test_missing_results_are_made_when_the_conversation_goes_on():
    begin = said("a", "u", "assistant", calling("c1", "c2")), result("r", "a", "c2", "two")
    assert open_calls(asked(*begin).session) == ("c1",)
    assert asked(*begin).repairs == ()
    decoded = asked(*begin, said("b", "r", "user", "stop"), said("c", "b", "assistant", "ok"))
    assert codes(decoded) == {"missing-result": 1}
    made = "No result was recorded for this call."
    assert texts(decoded.session) == ["q", "", made, "two", "stop", "ok"]
    assert decoded.session.view.messages()[2].error


def test_results_of_aborted_turns_orphans_and_duplicates_are_left_out():
    decoded = asked(
        said("a", "u", "assistant", calling("c1"), stopReason="aborted"),
        result("r1", "a", "c1", "late"),
        said("b", "r1", "assistant", calling("c2")),
        result("r2", "b", "c2", "once"),
        result("r3", "r2", "c2", "twice"),
        result("r4", "r3", "c9", "orphan"),
        said("c", "r4", "assistant", [], stopReason="error"),
        said("d", "c", "assistant", "done"),
    )
    assert texts(decoded.session) == ["q", "", "once", "done"]
    assert codes(decoded) == {
        "aborted-calls": 2,
        "duplicate-result": 1,
        "orphan-result": 1,
        "empty-content": 1,
    }
    withheld = [
        n.number for n in path(decoded.session) if getattr(n.entry, "outcome", "") == "aborted"
    ]
    assert explain(decoded.session, withheld[0]).why == "its reply was aborted"


def test_an_aborted_reply_behind_open_calls_moves_their_late_result():
    decoded = asked(
        said("a", "u", "assistant", calling("c1")),
        said("b", "a", "assistant", [], stopReason="aborted"),
        result("r", "b", "c1", "late"),
    )
    assert codes(decoded) == {"empty-content": 1, "late-result": 1}
    assert texts(decoded.session) == ["q", "", "late"]


def test_parallel_results_and_steering_need_no_repair_of_ours():
    decoded = asked(
        said("a", "u", "assistant", calling("c1", "c2")),
        result("r2", "a", "c2", "two"),
        said("s", "r2", "user", "hurry"),
        result("r1", "s", "c1", "one"),
    )
    assert codes(decoded) == {"out-of-order": 1, "steering": 1}
    assert texts(decoded.session) == ["q", "", "one", "two", "hurry"]
    assert not [note for note in entries(decoded, Note) if note.name == "codec-repair"]


def test_ids_that_repeat_or_are_missing_are_renamed_in_both_places():
    decoded = asked(
        said("a", "u", "assistant", calling("c1", "c1", "")),
        result("r1", "a", "c1", "one"),
        result("r2", "r1", "c1", "two"),
        said("b", "r2", "assistant", calling("c1")),
        result("r3", "b", "c1", "three"),
    )
    assert codes(decoded) == {"reused-id": 2, "missing-id": 1, "missing-result": 1}
    first, *_, last = [m for m in shown(decoded.session) if m.calls]
    assert [call.id for call in first.calls] == ["c1", "c1_2", "call_2"]
    assert [call.id for call in last.calls] == ["c1_3"]
    assert defects(project(decoded.session).messages) == ()


def test_blank_texts_beside_others_are_left_out():
    blank = [{"type": "text", "text": "\n"}, {"type": "text", "text": "x"}]
    decoded = asked(said("a", "u", "assistant", blank))
    assert codes(decoded) == {"blank-text": 1}
    assert shown(decoded.session)[1].parts == (Text("x"),)


def test_replies_with_nothing_in_front_of_them():
    decoded = read(
        HEADER,
        said("a", None, "assistant", "gone", stopReason="aborted"),
        said("b", "a", "assistant", "hello"),
        said("c", "b", "user", "hi"),
    )
    assert [repair.text for repair in decoded.repairs] == [
        "left out: nothing was sent before",
        "recorded as a message: nothing was sent before",
    ]
    assert texts(decoded.session) == ["hello", "hi"]


def test_what_the_gate_refuses_is_a_note_with_its_code():
    decoded = asked(
        said("a", "u", "assistant", calling("c1", "c1"), stopReason="aborted"),
        said("b", "a", "assistant", "ok"),
        entry("label", "l", "b", targetId="none", label="x"),
        entry("label", "m", "l", targetId="u", label="x"),
        entry("label", "n", "m", targetId="u"),
    )
    assert codes(decoded) == {"aborted-calls": 2, "duplicate-call": 1, "unknown-entry": 1}
    assert labels(decoded.session) == {}
    assert len(entries(decoded, Label)) == 2


# Compaction, edits, usage


def turns(count):
    lines, above = [], None
    for at in range(count):
        lines += [
            said(f"u{at}", above, "user", f"q{at}"),
            said(f"a{at}", f"u{at}", "assistant", f"r{at}"),
        ]
        above = f"a{at}"
    return lines


def compaction(name, parent, kept, summary="s", **fields):
    return entry("compaction", name, parent, summary=summary, firstKeptEntryId=kept, **fields)


def test_a_compaction_is_a_cut_with_the_summary_as_notice():
    decoded = read(HEADER, *turns(3), compaction("k", "a2", "a1"), said("z", "k", "user", "z"))
    assert texts(decoded.session) == [notice_text("s"), "r1", "q2", "r2", "z"]
    (cut,) = entries(decoded, Cut)
    assert (cut.breaks, cut.why, cut.notice.id) == (True, "compaction", "k")
    assert summary_of(cut.notice.parts[0].text) == "s"


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("gone", ["s", "r2"]),
        ("k1", ["s", "r2"]),
        ("custom", ["s", "q2", "r2"]),
        ("u2", ["s", "q2", "r2"]),
        ("a2", ["s", "r2"]),
        ("other", ["s", "r2"]),
    ],
)
def test_what_a_compaction_keeps(kept, expected):
    lines = turns(3)
    lines[4]["parentId"] = "custom"
    lines.insert(4, entry("custom", "custom", "a1"))
    lines.insert(5, said("other", "a0", "user", "other branch"))
    decoded = read(HEADER, *lines, entry("custom", "k1", "a2"), compaction("k", "k1", kept))
    assert codes(decoded) == ({} if kept in ("custom", "u2", "a2") else {"unread": 1})
    assert [
        text.removesuffix("\n</summary>")[-2:].strip() for text in texts(decoded.session)
    ] == expected


def test_compactions_that_take_nothing_are_repairs():
    decoded = read(
        HEADER,
        *turns(3),
        compaction("k", "a2", "u0"),
        compaction("l", "k", "u1"),
        compaction("m", "l", "u1"),
        compaction("n", "m", "u0"),
        said("v", "n", "user", "unread"),
        compaction("o", "v", "gone"),
    )
    assert codes(decoded) == {"no-change": 2, "frontier-retreat": 1, "unread": 1}
    assert texts(decoded.session) == [notice_text("s"), "r2", "unread"]


def test_a_compaction_between_a_call_and_its_result():
    decoded = read(
        HEADER,
        *turns(2),
        said("u", "a1", "user", "q"),
        said("a", "u", "assistant", calling("c1")),
        compaction("k", "a", "u"),
        said("z", "k", "user", "next"),
        said("y", "z", "assistant", "ok"),
    )
    assert codes(decoded) == {"missing-result": 1}
    made = "No result was recorded for this call."
    assert texts(decoded.session) == [notice_text("s"), "q", "", made, "next", "ok"]


def test_edits_replace_what_is_shown():
    begin = [
        *turns(1),
        said("u", "a0", "user", "q"),
        said("a", "u", "assistant", calling("c1")),
        result("r", "a", "c1", "long output", isError=True),
        said("b", "r", "assistant", "done"),
    ]
    decoded = read(
        HEADER,
        *begin,
        entry("context_edit", "e1", "b", targetId="r", replacement={"content": "short"}),
        entry("context_edit", "e2", "e1", targetId="u0", replacement={"content": "edited"}),
        entry("context_edit", "e3", "e2", targetId="r", replacement=None),
    )
    assert decoded.repairs == ()
    assert texts(decoded.session)[0] == "edited"
    edited = decoded.session.view.messages()[4]
    assert edited.parts == (Text("(This output was removed from the conversation.)"),)
    assert (edited.call, edited.error) == ("c1", True)
    refused = read(
        HEADER,
        *begin,
        entry("context_edit", "e1", "b", targetId="u0", replacement=None),
        entry("context_edit", "e2", "e1", targetId="a", replacement={"content": "no calls"}),
        entry("context_edit", "e3", "e2", targetId="e1", replacement={"content": "x"}),
        entry("context_edit", "e4", "e3", targetId="none", replacement={"content": "x"}),
        entry("context_edit", "e5", "e4", targetId="u0", replacement={"content": "q0"}),
    )
    assert codes(refused) == {
        "split-exchange": 1,
        "changed-calls": 1,
        "not-shown": 1,
        "unknown-entry": 1,
        "no-change": 1,
    }
    assert texts(refused.session) == ["q0", "r0", "q", "", "long output", "done"]


def test_usage_that_names_a_reply_is_tied_to_its_request():
    decoded = read(
        HEADER,
        *turns(1),
        entry("usage", "x", "a0", kind="request", usage=USAGE, targetId="a0"),
        entry("usage", "y", "x", kind="request", usage=USAGE, targetId="u0"),
        entry("usage", "z", "y", kind="request", usage=USAGE, targetId="none"),
    )
    assert codes(decoded) == {"unknown-request": 1, "unknown-entry": 1}
    assert account(decoded.session).usage == Usage(9, 2, 3, 1)


@pytest.mark.parametrize(
    "usage",
    [None, {}, {"input": 0}, {"input": -1, "output": 5}, {"input": "5"}, [], {"input": 1.5}],
)
def test_usage_that_says_nothing_is_none(usage):
    decoded = asked(said("a", "u", "assistant", "x", usage=usage))
    assert entries(decoded, Reply)[0].usage is None


# Broken lines


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{", "invalid-json"),
        ("\\", "invalid-json"),
        ("5", "wrong-type"),
        ("[]", "wrong-type"),
        ('{"type":"custom","x":NaN}', "invalid-number"),
        ('{"type":"message","message":{"role":"user","content":"\\ud800"}}', "lone-surrogate"),
        ('{"type":"message","id":"x","parentId":null,"message":5}', "missing-field"),
        ('{"type":"message","id":"x","parentId":null,"message":{"role":"what"}}', "wrong-role"),
        (
            '{"type":"message","id":"x","parentId":"a","message":{"role":"toolResult"}}',
            "missing-field",
        ),
        ('{"type":"odd","id":"x","parentId":"a"}', "unknown-kind"),
        ('{"a":' + "[" * 10_000, "too-deep"),
    ],
)
def test_a_line_that_cannot_be_read_is_passed_over(line, code):
    decoded = read(
        HEADER, said("a", None, "user", "1"), line, "", "  ", said("b", "a", "user", "2")
    )
    assert codes(decoded) == {code: 1}
    assert decoded.repairs[0].line == 3
    assert texts(decoded.session) == ["1", "2"]


def test_a_broken_line_keeps_its_place_in_the_tree_if_its_ids_can_be_read():
    broken = '{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"\\*"}}'
    decoded = read(
        HEADER,
        said("a", None, "user", "1"),
        broken,
        said("c", "b", "user", "2"),
        '{"id":"c","parentId":"b",',
    )
    assert codes(decoded) == {"invalid-json": 2}
    assert texts(decoded.session) == ["1", "2"]


def test_a_line_beyond_the_limit_is_kept():
    data = pack(HEADER, said("a", None, "user", "1"), said("b", "a", "user", "x" * 500))
    decoded = pi.decode(data, limit=400)
    assert codes(decoded) == {"line-too-long": 1}
    assert encode(decoded.session) == data


def test_ends_and_white_space_are_kept():
    line = said("a", None, "user", "1")
    for end in ("", "\n", "\n\n", "\n \n", "\r\n", "\r"):
        assert texts(read(HEADER, line, end=end).session) == ["1"]
    decoded = read("\ufeff" + json.dumps(HEADER) + "\r", "\t", json.dumps(line) + "\r", end="")
    assert decoded.repairs == ()
    written = encode(record(decoded.session, user("2")))
    assert written.count(b"\n") == 4
    assert texts(pi.decode(written).session) == ["1", "2"]


def test_a_header_alone_is_an_empty_session():
    assert project(read(HEADER).session).messages == ()
    assert project(read(HEADER, "").session).messages == ()


# Writing what was never in a file


@given(messages())
def test_any_message_comes_back(message):
    assume(len({call.id for call in message.calls}) == len(message.calls))
    spoken = read_message(write_message(Spoken(message)))
    assert spoken is not None
    assert spoken.message == message


@pytest.mark.parametrize(
    "part",
    [
        ToolCall("c", "n", ""),
        ToolCall("c", "n", "null"),
        ToolCall("c", "n", '{"a": 1}'),
        ToolCall("c", "n", '{"a":1.50}', "sig"),
        ToolCall("c", "n", "[" * 10_000),
        ToolCall("c", "n", '"text"'),
        ToolCall("c", "n", "NaN"),
        Opaque("x", "not json"),
        Opaque("x", '{"type":"y"}'),
        Opaque("text", '{"type":"text","text":"a"}'),
        Opaque("x", '{"type": "x"}'),
        Opaque("x", '{"type":"x","n":1.50}'),
        Opaque("", "5"),
        Opaque("opaque", '{"type":"opaque","data":"a"}'),
        Thinking("", "s", redacted=True),
        Thinking("t"),
        Image("", ""),
    ],
)
def test_parts_of_every_shape_come_back(part):
    message = assistant(part)
    written = compact(write_message(Spoken(message)))
    line = f'{{"type":"message","id":"a","parentId":"u","message":{written}}}'
    data = pack(HEADER, said("u", None, "user", "a"), line)
    assert shown(pi.decode(data).session)[1] == message


def test_summaries_are_told_from_other_texts():
    assert summary_of(notice_text("")) == ""
    assert summary_of(notice_text("a\n</summary>")) == "a\n</summary>"
    assert summary_of(notice_text("a")[1:]) is None
    assert summary_of("") is None


def test_results_are_written_with_the_names_of_their_tools():
    session = record(Session(), user("go"), assistant(ToolCall("c1", "ls")), tool_result("c1", "x"))
    assert json.loads(encode(session).splitlines()[-1])["message"]["toolName"] == "ls"
    assert project(pi.decode(encode(session)).session).messages[-1].name == "ls"


def numbered(array):
    """Give each call an id of its own, since reading a file renames those that repeat."""
    made, ids, count = [], {}, 0
    for message in array:
        call = ids.get(message.call, "")
        parts = []
        for part in message.parts:
            count += 1
            if isinstance(part, ToolCall):
                ids[part.id] = f"n{count}"
                parts.append(evolve(part, id=ids[part.id]))
            else:
                parts.append(part)
        made.append(evolve(message, parts=tuple(parts), call=call))
    return made


def spoken(array, *, requests_too, head=None):
    session = Session() if head is None else record(Session(), head)
    for message in array:
        if requests_too and message.role == "assistant":
            session, _ = send(session, time=len(session))
            session = reply(session, "completed", message, usage=Usage(9, 1, 2, 3))
        else:
            session = record(session, message)
    return session


@given(conversations(), st.booleans(), st.booleans())
def test_a_session_from_messages_comes_back(array, requests_too, routed):
    head = Head(Route("p", "m", (("api", '"x"'),), "none")) if routed else None
    session = spoken(numbered(array), requests_too=requests_too, head=head)
    again = pi.decode(encode(session))
    assert again.repairs == () or {r.code for r in again.repairs} <= {"empty-content", "blank-text"}
    if "blank-text" not in codes(again):
        assert shown(again.session) == shown(session)
    if routed and any(m.role == "assistant" for m in array):
        assert again.session.head == session.head
    if requests_too:
        times = [n.entry.time for n in log(session) if isinstance(n.entry, Sent)]
        assert [n.entry.time for n in log(again.session) if isinstance(n.entry, Sent)] == times
        assert account(again.session).usage == account(session).usage
    assert encode(again.session) == encode(session)


ROUTED = Head(Route("p", "m", (), "none"))


@given(conversations(max_steps=20), st.sampled_from([20, 60, 150]))
def test_cuts_and_stubs_come_back(array, budget):
    stage = partial(select, budget=budget)
    stub = partial(prune_suffix, stub_over=budget // 2, drop_over=10**9)
    session = record(Session(), ROUTED)
    for message in numbered(array):
        if message.role == "assistant":
            session, _ = send(stage(stub(session)))
            session = reply(session, "completed", message)
        else:
            session = record(session, message)
    again = pi.decode(encode(session))
    if not {"blank-text", "missing-id"} & codes(again).keys():
        assert shown(again.session) == shown(session)
        assert len(requests(again.session)) == len(requests(session))


def test_every_kind_of_entry_has_its_line_or_none():
    call = ToolCall("c", "read")
    session = record(
        Session(),
        Head(Route("p", "m", (), "none"), "system text", (Tool("t"),)),
        user("a"),
        Sent(time=1_700_000_000_000),
        Reply("completed", assistant(call)),
        tool_result("c", "x" * 50, name="read"),
        Note("mine", "data"),
        Label(4, "big"),
        Label(4, ""),
        UsageReport(2, Usage(9, 1, 2, 3)),
        Ask("k", "t", "q"),
        Sent(),
        Reply("failed"),
        Sent(),
        Reply("aborted", assistant("partly")),
        Sent(),
        Reply("lost"),
        Sent(),
        Reply("completed", assistant("done")),
        Replace(4, tool_result("c", "stub", name="read"), "big", breaks=True),
        user("b"),
        Sent(),
        Reply("completed", assistant("ok")),
    )
    session = record(session, Cut(17, user("[cut]"), "old", keep=(1,), breaks=True))
    session = record(session, Head(Route("p", "n", (), "none")))
    lines = [json.loads(line) for line in encode(session).decode().splitlines()]
    assert [line["type"] for line in lines] == [
        "session",
        "model_change",
        "message",
        "message",
        "message",
        "custom",
        "label",
        "label",
        "usage",
        "message",
        "message",
        "message",
        "context_edit",
        "message",
        "message",
        "compaction",
        "model_change",
    ]
    assert lines[0]["timestamp"] == "2023-11-14T22:13:20.000Z"
    assert all(a["id"] == b["parentId"] for a, b in pairwise(lines[1:]))
    stamps = [line["timestamp"] for line in lines]
    assert stamps == sorted(stamps)
    assert [m["message"]["stopReason"] for m in lines if "stopReason" in m.get("message", {})] == [
        "toolUse",
        "error",
        "aborted",
        "stop",
        "stop",
    ]
    again = pi.decode(encode(session))
    assert again.repairs == () or codes(again) == {"empty-content": 1}
    assert shown(again.session) == shown(session)
    assert again.session.head.route == session.head.route
    assert labels(again.session) == {}
    assert account(again.session).usage == Usage(9, 1, 2, 3)


def test_what_arrives_in_flight_is_written_behind_the_reply():
    session, _ = send(record(Session(), user("a")))
    session = record(session, user("b"), Note("mine"), system("c"))
    waiting = encode(session)
    assert texts(pi.decode(waiting).session) == ["a", "b", "c"]
    session = record(reply(session, "completed", assistant("r")), user("d"))
    assert texts(pi.decode(encode(session)).session) == ["a", "r", "b", "c", "d"]
    lost = record(session, Sent(), user("e"), Reply("lost"))
    assert texts(pi.decode(encode(lost)).session) == texts(lost) == ["a", "r", "b", "c", "d", "e"]


def test_the_leaf_is_made_the_last_entry():
    session = record(Session(), user("a"), Sent(), Reply("completed", assistant("b")), user("c"))
    back = at_leaf(session, 2)
    again = pi.decode(encode(back))
    assert texts(again.session) == ["a", "b"]
    assert json.loads(encode(back).decode().splitlines()[-1])["customType"] == "ctxalgebra"
    assert texts(pi.decode(encode(at_leaf(session, -1))).session) == []
    forked = record(back, user("d"))
    assert texts(pi.decode(encode(forked)).session) == ["a", "b", "d"]
    assert texts(pi.decode(encode(Session())).session) == []


def test_decisions_and_labels_without_a_line_are_left_out():
    session = record(read(HEADER).session, user("a"), Sent())
    session = record(session, Reply("completed", assistant(Thinking("t"), ToolCall("c", "n"))))
    session = record(session, tool_result("c", "x"), Sent(), Reply("completed", assistant("ok")))
    session = record(session, Label(0, "header"), Strip("400", breaks=True))
    session = record(session, Drop(4, 5, "big", breaks=True), UsageReport(3, Usage(1)))
    kinds = [json.loads(line)["type"] for line in encode(session).decode().splitlines()]
    assert kinds == ["session", "message", "message", "message", "message", "usage"]


FORGED = ["codec-repair", "codec-part", "repair", "leaf"]
FORGED += [f"pi{ending}" for ending in ("", "-entry", "-aside", "-headless", "-unterminated")]
FORGED += ["pi-end", "openai-chat", "claude-code-entry"]


@pytest.mark.parametrize("data", ["{}", "", "999", '{"code":"late-parent","line":2,"entry":"a"}'])
@pytest.mark.parametrize("name", FORGED)
def test_notes_of_a_host_hide_nothing_whatever_their_names(name, data):
    for session in (Session(), read(HEADER, said("a", None, "user", "1"), end="").session):
        grown = record(session, Note(name, data), user("2"), Sent(), Note(name, data))
        grown = record(grown, Reply("completed", assistant("3")), Note(name, data), Label(0, "x"))
        written = encode(grown)
        assert written.count(b'"customType"') == 3
        again = pi.decode(written)
        assert texts(again.session) == texts(grown)
        assert encode(again.session) == written


def test_a_file_of_another_format_is_written_from_its_messages():
    decoded = openai_chat.decode(b'[{"role":"user","content":"hi"},{"role":"what"}]')
    session = record(decoded.session, Note("mine", "x"), assistant("ok"))
    kinds = [json.loads(line)["type"] for line in encode(session).decode().splitlines()]
    assert kinds == ["session", "message", "custom", "message"]


def test_a_line_that_no_longer_says_what_the_entry_says_is_not_used():
    decoded = read(HEADER, said("a", None, "user", "1", extra=5), said("b", "a", "assistant", "2"))
    first = decoded.session.view.messages()[0]
    changed = copy(
        decoded.session,
        lambda item: evolve(item, parts=(Text("new"),)) if item == first else item,
    )
    written = encode(changed)
    assert texts(pi.decode(written).session) == ["new", "2"]
    assert b"extra" not in written

    # Nor one that comes from another place: its id is taken, or it names another parent.
    twice = record(decoded.session, first)
    assert texts(pi.decode(encode(twice)).session) == ["1", "2", "1"]
    foreign = read(HEADER, said("x", "y", "user", "far", extra=5)).session.view.messages()[0]
    moved = record(decoded.session, foreign)
    assert texts(pi.decode(encode(moved)).session) == ["1", "2", "far"]
    usage = copy(
        decoded.session,
        lambda item: evolve(item, usage=Usage(5)) if isinstance(item, Reply) else item,
    )
    assert account(pi.decode(encode(usage)).session).usage == Usage(5)


def test_new_ids_avoid_those_that_are_taken():
    lines = [said(f"{n:08x}", f"{n - 1:08x}" if n else None, "user", str(n)) for n in range(6)]
    session = record(read(HEADER, *lines).session, evolve(user("x"), id="00000003"), user("y"))
    written = [json.loads(line) for line in encode(session).decode().splitlines()]
    assert len({line["id"] for line in written}) == len(written)
    assert texts(pi.decode(encode(session)).session)[-2:] == ["x", "y"]
    named = record(read(HEADER, *lines).session, evolve(user("x"), id="mine"))
    assert json.loads(encode(named).decode().splitlines()[-1])["id"] == "mine"


def test_results_of_renamed_calls_are_written_with_the_id_of_the_file():
    decoded = asked(
        said("a", "u", "assistant", calling("c1")),
        result("r1", "a", "c1", "one"),
        said("b", "r1", "assistant", calling("c1")),
    )
    assert open_calls(decoded.session) == ("c1_2",)
    session = record(decoded.session, tool_result("c1_2", "two"), user("next"))
    written = encode(session)
    assert json.loads(written.decode().splitlines()[-2])["message"]["toolCallId"] == "c1"
    assert texts(pi.decode(written).session) == ["q", "", "one", "", "two", "next"]


@settings(max_examples=60)
@given(st.one_of(sessions(), journals()))
def test_any_session_can_be_written_and_what_is_written_comes_back(session):
    written = encode(session)
    again = pi.decode(written)
    assert encode(again.session) == written


# Generated files

IDS = st.sampled_from("abcdefs")
CALLS = st.sampled_from(["c1", "c2", "c3", "c4", "c5", ""])
WORDS = st.sampled_from(["", "hi", "  ", "\u2028é\x01", "x" * 50])
BLOCKS = st.one_of(
    WORDS.map(lambda text: {"type": "text", "text": text}),
    WORDS.map(lambda text: {"type": "thinking", "thinking": text, "thinkingSignature": text}),
    st.builds(
        lambda call, arguments: calling(call, arguments=arguments)[0],
        CALLS,
        st.sampled_from([{}, {"b": 1.5, "a": "é"}, "x", None]),
    ),
    st.sampled_from([{"type": "video"}, 5, None, {"type": "text", "text": 5}]),
)
CONTENT = st.one_of(WORDS, st.lists(BLOCKS, max_size=4), st.none())
USAGES = st.sampled_from([USAGE, None, {"input": -1}, {"input": 0}])
ROUTES = ({}, {"provider": "anthropic", "model": "claude-x", "api": "m"}, {"model": "gpt"})
MESSAGES = st.one_of(
    CONTENT.map(lambda content: {"role": "user", "content": content}),
    st.builds(
        lambda content, usage, reason, where: {
            "role": "assistant",
            "content": content,
            "usage": usage,
            "stopReason": reason,
            "timestamp": 5,
            **where,
        },
        CONTENT,
        USAGES,
        st.sampled_from(["stop", "toolUse", "aborted", "error", None]),
        st.sampled_from(ROUTES),
    ),
    st.builds(
        lambda content, call, failed: {
            "role": "toolResult",
            "toolCallId": call,
            "toolName": "read",
            "content": content,
            "isError": failed,
        },
        CONTENT,
        CALLS,
        st.booleans(),
    ),
    st.sampled_from(
        [
            {"role": "system", "content": "s"},
            {"role": "what"},
            {"role": "bashExecution", "command": "ls", "output": "", "exitCode": 1},
            {"role": "compactionSummary", "summary": "x"},
            None,
        ]
    ),
)


def kind(name, **fields):
    parents = st.one_of(st.none(), IDS, st.just(5))
    return st.fixed_dictionaries({"type": st.just(name), "id": IDS, "parentId": parents, **fields})


LINES = st.one_of(
    *[kind("message", message=MESSAGES)] * 4,
    kind("model_change", provider=st.just("anthropic"), modelId=WORDS),
    kind("label", targetId=IDS, label=WORDS),
    kind("compaction", summary=WORDS, firstKeptEntryId=IDS),
    kind(
        "context_edit",
        targetId=IDS,
        replacement=st.one_of(st.none(), CONTENT.map(lambda content: {"content": content})),
    ),
    kind("usage", targetId=IDS, usage=USAGES),
    kind("custom_message", content=CONTENT),
    kind("branch_summary", summary=WORDS),
    kind("custom"),
    kind("weird"),
)
BROKEN = st.sampled_from(
    [
        "",
        " ",
        "{",
        "5",
        "NaN",
        '{"type":"custom","id":"b","parentId":"a","x":NaN}',
        '{"type":"message","id":"c","parentId":"b","x":"\\ud800"}',
        '{"type":"session","id":"s","version":2}',
    ]
)


def shaped(lines, picks):
    """Give lines ids of their own and parents in front of them, so that most files are legal."""
    made = []
    for at, (line, pick) in enumerate(zip(lines, picks, strict=True)):
        placed = {**line, "id": f"e{at}", "parentId": f"e{pick % at}" if at else None}
        for name in ("targetId", "firstKeptEntryId"):
            if name in line:
                placed[name] = f"e{pick // 7 % (at + 1)}"
        made.append(json.dumps(placed, ensure_ascii=False))
    return made


def straight(lines):
    return shaped(lines, [max(at - 1, 0) + 7 * at * at for at in range(len(lines))])


TREES = st.lists(st.tuples(LINES, st.integers(0, 400)), max_size=20).map(
    lambda pairs: shaped([line for line, _ in pairs], [pick for _, pick in pairs])
)
CHAINS = st.lists(LINES, max_size=14).map(straight)
SHUFFLED = st.lists(LINES, min_size=8, max_size=8).flatmap(
    lambda lines: st.permutations(straight(lines))
)
FILES_MADE = st.one_of(
    st.lists(st.one_of(LINES.map(lambda line: json.dumps(line)), BROKEN), max_size=12),
    CHAINS.map(lambda lines: [json.dumps(HEADER), *lines]),
    CHAINS.map(lambda lines: [json.dumps(OLD), *lines]),
    TREES.map(lambda lines: [json.dumps(HEADER), *lines]),
    SHUFFLED.map(lambda lines: [json.dumps(HEADER), *lines]),
    st.tuples(TREES, BROKEN, st.integers(0, 9)).map(
        lambda parts: [
            json.dumps(HEADER),
            *parts[0][: parts[2]],
            parts[1],
            *parts[0][parts[2] :],
        ]
    ),
)


LINE_EDITS = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 99), st.integers(0, 99)), max_size=4
)


def damaged(lines, edits):
    """Move, delete, copy, swap or break lines, and take away or change the ids in them."""
    lines = list(lines)
    for what, one, other in edits:
        i, j = one % (len(lines) or 1), other % (len(lines) or 1)
        match what if lines else -1:
            case 0:
                lines.insert(j, lines.pop(i))
            case 1:
                del lines[i]
            case 2:
                lines.insert(j, lines[i])
            case 3:
                lines[i], lines[j] = lines[j], lines[i]
            case 4:
                lines[i] = lines[i][: other * 2]
            case -1:
                pass
            case _:
                lines[i] = renamed(lines[i], other % 3 > 0, what, other)
    return lines


STRANGE = ["", None, "s", "c1", "e1", "gone", 5, "#2", "#3"]


def renamed(raw, own, what, other):
    try:
        line = json.loads(raw)
        line.pop(key := "id" if own else "parentId", None)
    except (ValueError, AttributeError):
        return raw
    if what > 6:
        line[key] = STRANGE[other % len(STRANGE)]
    return json.dumps(line, ensure_ascii=False)


def dialogue(pick):
    """Give a small conversation: calls, results under them, labels, compactions, forks."""
    lines, calls = [{**HEADER, "version": pick.choice([3, 3, 3, 2, 1])}], []
    for at in range(pick.randrange(3, 12)):
        name = f"e{at}"
        above = f"e{at - 1 if pick.random() < 0.8 else pick.randrange(at)}" if at else None
        target = f"e{pick.randrange(at + 1)}"
        kind_ = pick.randrange(10)
        if calls and kind_ < 5:
            call = calls.pop(0)
            lines.append(result(name, pick.choice([above, above, call]), call, name))
        elif kind_ < 3:
            lines.append(said(name, above, "user", name))
        elif kind_ < 5:
            fresh = [pick.choice(["c1", "c2", "c3"]) for _ in range(pick.randrange(1, 3))]
            calls += fresh
            lines.append(said(name, above, "assistant", calling(*fresh)))
        elif kind_ < 6:
            reason = pick.choice(["stop", "aborted"])
            lines.append(said(name, above, "assistant", name, stopReason=reason))
        elif kind_ < 7:
            lines.append(entry("label", name, above, targetId=target, label="x"))
        elif kind_ < 8:
            lines.append(compaction(name, above, target))
        elif kind_ < 9:
            edited = {"content": "edited"}
            lines.append(entry("context_edit", name, above, targetId=target, replacement=edited))
        else:
            lines.append(entry("custom", name, above))
    return [json.dumps(line) for line in lines]


def survives(data):
    """Give the bytes back and go on, or refuse with one error."""
    try:
        decoded = pi.decode(data)
    except DecodeError as error:
        return error.code
    assert encode(decoded.session) == data
    goes_on(decoded)
    return "read"


def test_damaged_files_come_back_byte_for_byte_and_go_on():
    pick = Random(20)
    seen = Counter()
    for _ in range(1500):
        edits = [
            (pick.randrange(9), pick.randrange(100), pick.randrange(100))
            for _ in range(pick.randrange(1, 5))
        ]
        seen[survives(pack(*damaged(dialogue(pick), edits)))] += 1
    assert set(seen) == {"read", "duplicate-id", "cyclic-parent"}
    assert seen["read"] > 1000


@real
def test_damaged_real_files_come_back_byte_for_byte(path):
    lines = path.read_text(encoding="utf-8").split("\n")[:60]
    pick = Random(20)
    for _ in range(40):
        edits = [
            (pick.randrange(9), pick.randrange(100), pick.randrange(100))
            for _ in range(pick.randrange(1, 5))
        ]
        assert survives(pack(*damaged(lines, edits), end="")) in CODES.keys() | {"read"}


@settings(max_examples=250)
@given(FILES_MADE, LINE_EDITS, st.sampled_from(["\n", "", "\r\n"]))
@example([json.dumps(OLD), *straight([{"type": "message", "message": None}] * 2)], [], "\n")
def test_generated_files_come_back_byte_for_byte_and_go_on(lines, edits, end):
    assert survives(pack(*damaged(lines, edits), end=end)) in CODES.keys() | {"read"}


def goes_on(decoded):
    session = decoded.session
    found = codes(decoded).keys()
    if open_calls(session) and {"reused-id", "missing-id"} & found:
        return
    if "late-parent" in found and {"early-result", "late-result", "reused-id"} & found:
        # What stands behind the leaf already is then another branch than what goes on, and calls
        # and results are paired anew.
        return
    for call in open_calls(session):
        session = abandon(session, call, "gone")
    session, _ = send(record(session, user("new")), time=7)
    session = record(session, user("steering"))
    done = assistant("ok", ToolCall("zz", "read", '{"a": 1}'))
    session = reply(session, "completed", done, usage=Usage(3, 2, 1, 0))
    session = record(session, tool_result("zz", "fine"))

    def plain(messages_):
        return [(m.role, m.parts, m.call, m.error) for m in messages_]

    again = pi.decode(encode(session)).session
    assert plain(project(again).messages) == plain(project(session).messages)


def test_results_on_each_branch_find_the_call_that_was_renamed_above_the_fork():
    call = ToolCall("c1", "read")
    trunk = record(Session(), user("go"), assistant(call), tool_result("c1", "1"), assistant(call))
    left = record(trunk, tool_result("c1", "left"), assistant(call), tool_result("c1", "again"))
    right = record(at_leaf(left, len(trunk) - 1), tool_result("c1", "right"), user("y"))
    data = encode(right)
    decoded = pi.decode(data)
    assert [r.code for r in decoded.repairs] == ["reused-id", "reused-id"]
    shown = project(decoded.session).messages
    assert [m.call for m in shown if m.role == "tool"] == ["c1", "c1_2"]
    assert shown[-2].parts == (Text("right"),)
    there = next(
        n for n in log(decoded.session) if getattr(n.entry, "parts", ()) == (Text("again"),)
    )
    back = project(at_leaf(decoded.session, there.number)).messages
    assert [m.call for m in back if m.role == "tool"] == ["c1", "c1_2", "c1_3"]
    assert encode(decoded.session) == data


def test_a_call_without_an_id_that_is_open_at_a_fork_renames_nothing_else():
    def line(name, parent, message):
        return json.dumps({"type": "message", "id": name, "parentId": parent, "message": message})

    call = {"type": "toolCall", "id": "", "name": "read", "arguments": {}}
    rows = [
        '{"type":"session","version":3,"id":"s"}',
        line("a", None, {"role": "user", "content": "go"}),
        line("b", "a", {"role": "assistant", "content": [call], "stopReason": "toolUse"}),
        line("c", "b", {"role": "user", "content": "left"}),
        line("d", "b", {"role": "user", "content": "right"}),
        line("e", None, {"role": "user", "content": "another root"}),
    ]
    data = ("\n".join(rows) + "\n").encode()
    decoded = pi.decode(data)
    assert encode(decoded.session) == data
    assert {r.code for r in decoded.repairs} <= {"missing-id", "missing-result"}
    assert [m.role for m in decoded.session.view.messages()] == ["user"]


def test_an_image_without_its_media_type_is_opaque():
    block = {"type": "image", "data": "aa"}
    assert read_blocks(parse(json.dumps([block]))) == (Opaque("image", compact(block)),)


def test_lines_that_no_kind_is_known_of_are_no_session():
    with pytest.raises(DecodeError) as caught:
        pi.decode(b'{"type":"unheard-of"}')
    assert (caught.value.code, caught.value.line) == ("missing-header", 1)
