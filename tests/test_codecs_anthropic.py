"""Anthropic messages: elements, blocks, heads, pieces, streams, requests; the bytes come back."""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxalgebra import (
    CODES,
    DEFECTS,
    PROFILES,
    DecodeError,
    Head,
    Image,
    InvalidArgument,
    Opaque,
    Reply,
    Request,
    Route,
    Session,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Usage,
    abandon,
    account,
    assistant,
    at_leaf,
    defects,
    log,
    open_calls,
    path,
    project,
    record,
    reply,
    requests,
    send,
    system,
    tool_result,
    user,
    violations,
)
from ctxalgebra.codecs import detect, openai_chat, openai_responses
from ctxalgebra.codecs.anthropic import NAME, decode, encode, encode_request
from ctxalgebra.codecs.anthropic_messages import (
    decode_messages,
    encode_messages,
    join_elements,
    read_usage,
    unwritten,
)
from ctxalgebra.codecs.convert import convert
from ctxalgebra.laws.strategies import conversations, journals, sessions
from ctxalgebra.replay import compare

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions" / NAME
FILES = sorted(SHARED.glob("*.*"))
real = pytest.mark.parametrize(
    "path",
    FILES
    or [pytest.param(None, marks=pytest.mark.skip(reason="needs ../shared/sessions, absent here"))],
    ids=lambda path: path and path.stem,
)


def read(value, **options):
    data = value if isinstance(value, bytes) else json.dumps(value, **options).encode()
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


def said(session):
    return [
        (m.role, "".join(p.text for p in m.parts if isinstance(p, Text))) for m in shown(session)
    ]


def text(words, **fields):
    return {"type": "text", "text": words, **fields}


def use(name, given=None, **fields):
    return {"type": "tool_use", "id": name, "name": "read", "input": given or {}, **fields}


def result(name, content="42", **fields):
    return {"type": "tool_result", "tool_use_id": name, "content": content, **fields}


def turn(role, *blocks, **fields):
    return {"role": role, "content": [*blocks], **fields}


ASK = {"role": "user", "content": "hi"}
CALLS = turn("assistant", use("t1", {"path": "a"}), use("t2", {"path": "b"}))
BOTH = turn("user", result("t1"), result("t2", [text("43")]), text("Go on."))
DONE = turn("assistant", text("done"))
TALK = [ASK, CALLS, BOTH, DONE]


# Real files


def calls_of(path):
    for call in yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)["interactions"]:
        if "anthropic.com" in call["request"]["uri"]:
            body = call["request"].get("parsed_body") or json.loads(call["request"]["body"])
            yield body, call["response"].get("parsed_body")


@real
def test_real_files_come_back_byte_for_byte(path):
    data = path.read_bytes()
    decoded = decode(data)
    assert encode(decoded.session) == data
    messages = project(decoded.session).messages
    assert defects(messages) == ()
    assert violations(messages, PROFILES["anthropic"]) == ()


@real
def test_real_requests_are_made_again(path):
    session = decode(path.read_bytes()).session
    bodies = [body for body, _ in calls_of(path)]
    longest = max(bodies, key=lambda body: len(body["messages"]))
    known = [m for m in bodies if longest["messages"][: len(m["messages"])] == m["messages"]]
    made = [encode_request(request) for request in requests(session)]
    for body in known[-1:] if len(known) > 2 else known:
        match = [m for m in made if m["messages"] == body["messages"]]
        assert match
        assert match[-1]["model"] == body["model"]
        assert [t["name"] for t in match[-1]["tools"]] == [t["name"] for t in body["tools"]]


@real
def test_real_sessions_go_on(path):
    session = decode(path.read_bytes()).session
    before = shown(session)
    session, _ = send(record(session, user("Go on.")))
    session = reply(session, "completed", assistant("Yes.", ToolCall("new", "ls", '{"a":1}')))
    session = record(session, tool_result("new", "a.py", name="ls", error=True))
    again = decode(encode(session))
    assert shown(again.session) == shown(session)
    assert shown(again.session)[: len(before)] == before
    assert again.session.head == session.head
    assert encode(again.session) == encode(session)


PAUSED = [path for path in FILES if "pause_turn" in path.stem]


@pytest.mark.skipif(not PAUSED, reason="needs ../shared/sessions, absent here")
def test_a_stream_gives_what_the_next_request_sends_back():
    (path,) = PAUSED
    session = decode(path.read_bytes()).session
    usages = [n.entry.usage for n in log(session) if isinstance(n.entry, Reply)]
    # The start of a stream says 2,479 and 80,251.
    assert usages == [Usage(404_500, 943), Usage(482_529, 1_310)]
    last = project(session).messages[-1]
    kinds = Counter(part.type for part in last.parts if isinstance(part, Opaque))
    assert kinds == {"server_tool_use": 4, "web_search_tool_result": 5}
    assert json.loads(last.origin)["stop_reason"] == "end_turn"
    blocks = json.loads(last.origin)["content"]
    assert sum(len(block.get("citations") or ()) for block in blocks) == 19


# Elements


@pytest.mark.parametrize("indent", [None, 2])
def test_a_turn_of_the_user_is_results_and_a_message(indent):
    decoded = read(TALK, indent=indent)
    assert decoded.repairs == ()
    assert said(decoded.session) == [
        ("user", "hi"),
        ("assistant", ""),
        ("tool", "42"),
        ("tool", "43"),
        ("user", "Go on."),
        ("assistant", "done"),
    ]
    assert [m.name for m in shown(decoded.session)[2:4]] == ["read", "read"]
    kinds = [type(node.entry).__name__ for node in path(decoded.session)]
    assert kinds == [
        *("Note", "Head", "Message", "Sent", "Reply", "Note"),
        *("Note", "Message", "Note", "Message", "Note", "Message"),
        *("Sent", "Reply", "Note"),
    ]
    assert encode_messages(project(decoded.session).messages) == TALK


def test_results_in_any_order_and_between_words():
    mixed = turn("user", text("first"), result("t2"), text("a"), text("b"), result("t1"))
    decoded = read([ASK, CALLS, mixed])
    assert codes(decoded) == {"out-of-order": 1, "steering": 2}
    assert said(decoded.session)[2:] == [
        ("tool", "42"),
        ("tool", "42"),
        ("user", "first"),
        ("user", "ab"),
    ]
    (_, _, written) = encode_messages(project(decoded.session).messages)
    assert written["content"] == [result("t1"), result("t2"), text("first"), text("a"), text("b")]


def test_a_path_that_leaves_in_the_middle_of_an_element_writes_what_is_on_it():
    session = read(TALK).session
    numbers = [n.number for n in log(session) if getattr(n.entry, "role", "") == "tool"]
    first = record(at_leaf(session, numbers[0]), tool_result("t2", "other"), user("x"))
    written = json.loads(encode(first))
    assert written[:2] == TALK[:2]
    assert written[2:] == [
        turn("user", result("t1"), {**result("t2", "other")}, text("x")),
    ]
    assert said(decode(encode(first)).session)[2:] == [
        ("tool", "42"),
        ("tool", "other"),
        ("user", "x"),
    ]
    # In front of the element, and behind it.
    before = at_leaf(session, numbers[0] - 2)
    assert json.loads(encode(before)) == TALK[:2]
    behind = at_leaf(session, numbers[1] + 2)
    assert json.loads(encode(behind)) == TALK[:3]


def test_fields_beside_the_content_stay_with_the_first_message():
    odd = {**BOTH, "timestamp": "now", "extra": {"n": 1.5}}
    session = read([ASK, CALLS, odd]).session
    origins = [json.loads(m.origin) for m in project(session).messages[2:]]
    assert [o.keys() for o in origins] == [
        {"role", "content", "timestamp", "extra"},
        {"role", "content"},
        {"role", "content"},
    ]
    assert encode_messages(project(session).messages)[2] == {**BOTH, "extra": {"n": 1.5}}


def test_blocks_of_every_kind():
    blocks = [
        text("a", cache_control={"type": "ephemeral"}),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "f1"}},
        {"type": "document", "source": {"type": "text", "data": "d"}, "title": "t"},
        {"type": "thinking", "thinking": "not the model's"},
        {"type": "text", "text": 5},
        {"type": "image", "source": {"type": "base64", "data": 5}},
        5,
    ]
    answer = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "zzz"},
        text("b", citations=[{"cited_text": "c"}]),
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": 1.50}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        {"type": "compaction", "content": "so far"},
        result("t0"),
        use("t1", {"b": 1, "a": "é"}, caller={"type": "direct"}),
        {"type": "tool_use", "id": "t2"},
    ]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "x"}}
    inner = [
        result("t1", [image, text("i")], is_error=True),
        {"type": "tool_result", "tool_use_id": "t2"},
    ]
    array = [turn("user", *blocks), turn("assistant", *answer), turn("user", *inner)]
    session = read(array).session
    first, second, third, fourth = shown(session)
    assert first.parts == (
        Text("a"),
        Image("aGk=", "image/png"),
        Image("https://x/y.png", ""),
        *(Opaque(b["type"] if isinstance(b, dict) else "", dump(b)) for b in blocks[3:]),
    )
    assert second.parts == (
        Thinking("hm", "s"),
        Thinking("zzz", redacted=True),
        Text("b"),
        *(Opaque(b["type"], dump(b)) for b in answer[3:7]),
        ToolCall("t1", "read", '{"b":1,"a":"é"}'),
        ToolCall("t2", "", "{}"),
    )
    assert third == tool_result("t1", (Image("x", "image/gif"), Text("i")), name="read", error=True)
    assert fourth == tool_result("t2", ())
    written = encode_messages(project(session).messages)
    # What is no block, and what could not be one of a request, is left out.
    assert written == [turn("user", *blocks[:8]), *array[1:]]
    assert unwritten(first) == ("opaque",)


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("1.5}", "1.5}")


def test_content_that_is_no_list():
    array = [
        ASK,
        {"role": "assistant", "content": ""},
        {"role": "user", "content": {"a": 1}},
        turn("user"),
    ]
    decoded = read([*array, {"role": "user"}, DONE])
    assert shown(decoded.session)[1].parts == (Opaque("", '{"a":1}'),)
    assert codes(decoded) == {"empty-content": 3}
    # The API refuses an element without content.
    written = encode_messages(
        m.message if isinstance(m, Reply) else m for m in spoken(decoded.session)
    )
    assert written == [ASK, DONE]


def spoken(session):
    return [n.entry for n in log(session) if type(n.entry).__name__ in {"Message", "Reply"}]


def test_system_messages_in_the_middle_stay_where_they_are():
    change = {"type": "tool_addition", "tool": {"name": "x"}}
    middle = turn("system", text("Now."), change, clear_at="next_user_message")
    session = read([ASK, middle, DONE, ASK]).session
    assert [m.role for m in shown(session)] == ["user", "system", "assistant", "user"]
    assert shown(session)[1].parts == (Text("Now."), Opaque("tool_addition", dump(change)))
    assert encode_messages(project(session).messages)[1] == middle
    array = [tool_result("c", "1"), system("s"), system("t"), user("u")]
    assert [m["role"] for m in encode_messages(array)] == ["user", "system", "system", "user"]


def test_elements_that_cannot_be_read_keep_their_place():
    odd = [{"role": "tool", "content": "x"}, {"content": "no role"}, 5, None]
    odd.append(turn("user", {"type": "tool_result", "content": "no call"}))
    decoded = read([ASK, *odd, DONE])
    assert codes(decoded) == {"wrong-role": 2, "wrong-type": 2, "missing-field": 1}
    assert said(decoded.session) == [("user", "hi"), ("assistant", "done")]
    with pytest.raises(DecodeError) as caught:
        decode(json.dumps(odd).encode(), file="f")
    error = caught.value
    assert (error.code, error.file, error.line, error.field) == ("wrong-role", "f", 1, "role")


def test_usage_counts_what_the_cache_read_and_wrote():
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 5,
        "output_tokens": 2,
    }
    session = read(
        [ASK, {**DONE, "usage": usage}, ASK, {**DONE, "usage": {"input_tokens": -1}}]
    ).session
    assert [e.usage for e in spoken(session) if isinstance(e, Reply)] == [Usage(15, 2, 7, 5), None]
    assert read_usage(None) is None


# Heads


def test_a_body_gives_the_head_and_gets_it_back():
    tools = [
        {"name": "read", "description": "d", "input_schema": {"x": 1.0}, "cache_control": {}},
        {"type": "custom", "name": "flat", "input_schema": {}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        {"name": "late", "description": "l", "input_schema": {"a": 1}, "defer_loading": True},
        {"name": "bare"},
        5,
    ]
    blocks = [text("Be brief."), text("Be kind.", cache_control={}), text(""), 5]
    body = {
        "model": "claude-x",
        "max_tokens": 9,
        "system": blocks,
        "tools": tools,
        "messages": TALK,
    }
    session = read(body, indent=1).session
    head = session.head
    assert head == Head(
        Route("anthropic", "claude-x", (), "prefix"),
        "Be brief.\n\nBe kind.",
        (
            Tool("read", "d", '{"x":1.0}'),
            Tool("flat", "", "{}"),
            Tool("web_search", "", dump(tools[2])),
            Tool("late", "l", dump(tools[3])),
            Tool("bare", "", "{}"),
            Tool("", "", "5"),
        ),
    )
    request = encode_request(project(session))
    assert list(request) == ["model", "system", "tools", "messages"]
    assert request["tools"][2:4] == tools[2:4]
    assert request["tools"][0] == {
        key: tools[0][key] for key in ("name", "description", "input_schema")
    }

    # Only what changes is written anew.
    changed = json.loads(encode(record(session, evolve(head, route=evolve(head.route, model="y")))))
    assert changed == {**body, "model": "y"}
    fewer = evolve(head, system="Be loud.", tools=(*head.tools[2:4], Tool("new", "", "{")))
    changed = json.loads(encode(record(session, fewer)))
    assert changed["system"] == "Be loud."
    assert changed["tools"] == [*tools[2:4], {"name": "new", "input_schema": {}}]
    assert changed["messages"] == TALK
    assert decode(encode(record(session, evolve(fewer, tools=())))).session.head.tools == ()


def test_a_session_from_elsewhere_becomes_a_body():
    head = Head(Route("x", "m"), "Be brief.", (Tool("t", "d", '{"type":"object"}'),))
    data = encode(record(Session(), head, user("hi")))
    assert json.loads(data) == {
        "messages": [ASK],
        "model": "m",
        "system": "Be brief.",
        "tools": [{"name": "t", "description": "d", "input_schema": {"type": "object"}}],
    }
    assert detect(data) == NAME
    assert detect(encode(Session())) == NAME
    again = decode(data).session.head
    assert (again.system, again.tools, again.route.model) == (head.system, head.tools, "m")


def test_a_session_of_another_format_is_written_from_its_messages():
    asked = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    chat = [
        ASK,
        {"role": "assistant", "content": None, "tool_calls": asked},
        {"role": "tool", "tool_call_id": "c1", "content": "42", "name": "f"},
        {"role": "developer", "content": "later"},
    ]
    session = openai_chat.decode(json.dumps(chat).encode()).session
    again = decode(encode(session)).session
    assert [evolve(m, name="") for m in shown(again)] == [
        evolve(m, name="") for m in shown(session)
    ]
    assert encode_messages(project(session).messages)[2]["content"] == [result("c1")]


def test_pieces_may_hold_a_text():
    joined = join_elements([{"role": "assistant", "content": "a", "n": 1}, {**DONE, "n": 2}, {}])
    assert joined == {"role": "assistant", "content": [text("a"), text("done")], "n": 2}


def test_a_list_has_no_place_for_a_head():
    session = read(TALK).session
    assert encode(record(session, Head(system="s"))) == json.dumps(TALK).encode()


# JSON Lines


def lines(*values, end="\n"):
    return ("\n".join(v if isinstance(v, str) else json.dumps(v) for v in values) + end).encode()


def test_pieces_of_an_answer_on_lines_of_their_own_are_one_message():
    think = {"type": "thinking", "thinking": "hm", "signature": "s"}
    log_ = [
        {"timestamp": "1", **ASK},
        turn("assistant", think, timestamp="2", model="claude-a"),
        turn("assistant", text("I look."), timestamp="3", model="claude-a"),
        turn("assistant", use("t1"), timestamp="4", usage={"input_tokens": 9, "output_tokens": 1}),
        turn("assistant", use("t2"), timestamp="5", usage={"input_tokens": 9, "output_tokens": 4}),
        turn("user", result("t1", [{"type": "image", "source": {"type": "url", "url": "${x}"}}])),
        turn("user", result("t2")),
        turn("assistant", text("a"), text("b")),
        turn("assistant", text("c"), id="m1"),
        turn("assistant", text("d"), id="m2"),
    ]
    for end in ("\n", ""):
        decoded = read(lines(*log_, "", "{bad", "5", end=end))
        assert codes(decoded) == {"invalid-json": 1, "wrong-type": 1}
    session = decoded.session
    assert [m.role for m in shown(session)] == [
        *("user", "assistant", "tool", "tool"),
        *("assistant", "assistant", "assistant"),
    ]
    pieces = shown(session)[1]
    assert pieces.parts == (
        Thinking("hm", "s"),
        Text("I look."),
        ToolCall("t1", "read"),
        ToolCall("t2", "read"),
    )
    assert next(n.entry.usage for n in log(session) if isinstance(n.entry, Reply)) == Usage(9, 4)
    assert len(requests(session)) == 4
    assert session.head.route.model == "claude-a"
    # In the middle of the pieces nothing was said yet, and behind them all was.
    numbers = [n.number for n in log(session) if getattr(n.entry, "name", "") == NAME]
    assert encode(at_leaf(session, numbers[1])) == lines(log_[0])
    (at,) = [
        n.number
        for n in log(session)
        if getattr(n.entry, "message", None) and n.entry.message.thinks
    ]
    assert encode(at_leaf(session, at)) == lines(*log_[:5])
    more = encode(record(session, user("more\nlines")))
    assert said(decode(more).session)[-1] == ("user", "more\nlines")


def test_a_last_line_without_its_end_and_text_among_the_pieces():
    data = lines(ASK, {"role": "assistant", "content": "a"}, DONE, DONE, end="")
    session = read(data).session
    assert said(session) == [("user", "hi"), ("assistant", "a"), ("assistant", "donedone")]
    session = record(session, user("x"), assistant("y"))
    new = [{**ASK, "content": "x"}, {"role": "assistant", "content": "y"}]
    assert encode(session) == data + b"\n" + lines(*map(dump, new))


# Streams and cassettes


def sse(*events):
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events if e)


def stream(*blocks, usage=None, start=None):
    """Give the events of an answer; a block comes with the pieces of its growing field."""
    events = [
        start
        or {"type": "message_start", "message": {"role": "assistant", "id": "m", "content": []}}
    ]
    for at, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": at, "content_block": block})
        events += [{"type": "content_block_delta", "index": at, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": at})
    events.append(
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage or {}}
    )
    return [*events, {"type": "message_stop"}]


def cassette(*calls, uri="https://api.anthropic.com/v1/messages", **fields):
    recorded = []
    for messages, answer in calls:
        body = {"model": "m", "max_tokens": 5, "messages": messages, **fields}
        held = (
            {"body": {"string": answer}}
            if isinstance(answer, str | bytes)
            else {"parsed_body": answer}
        )
        recorded.append({"request": {"uri": uri, "parsed_body": body}, "response": held})
    value = json.loads(json.dumps({"interactions": recorded}, default=base64.b64encode))
    return yaml.safe_dump(value, allow_unicode=True).encode()


def answered(*blocks, **usage):
    return {"role": "assistant", "type": "message", "content": [*blocks], "usage": usage}


def test_an_answer_in_events_is_put_together():
    events = stream(
        ({"type": "thinking", "thinking": "", "signature": ""}, [
            {"type": "thinking_delta", "thinking": "h"},
            {"type": "thinking_delta", "thinking": "m"},
            {"type": "signature_delta", "signature": "s"},
        ]),
        (text(""), [
            {"type": "text_delta", "text": "Look"},
            {"type": "citations_delta", "citation": {"n": 1}},
            {"type": "text_delta", "text": "."},
            {"type": "odd_delta", "odd": 5},
        ]),
        (use("t1"), [
            {"type": "input_json_delta", "partial_json": '{"pa'},
            {"type": "input_json_delta", "partial_json": 'th": 1.50}'},
        ]),
        (use("t2"), [{"type": "input_json_delta", "partial_json": ""}]),
        (use("t3"), [{"type": "input_json_delta", "partial_json": '{"cut'}]),
        usage={"input_tokens": 9, "output_tokens": 2},
    )  # fmt: skip
    start = {
        "type": "message_start",
        "message": {"role": "assistant", "usage": {"input_tokens": 1}},
    }
    events = [start, {"type": "ping"}, {"type": "content_block_delta", "index": 9}, *events[1:]]
    data = cassette(([ASK], sse(*events)))
    session = read(data).session
    assert shown(session)[1].parts == (
        Thinking("hm", "s"),
        Text("Look."),
        ToolCall("t1", "read", '{"path":1.50}'),
        ToolCall("t2", "read"),
        ToolCall("t3", "read"),
    )
    assert account(session).usage == Usage(9, 2)
    kept = json.loads(project(session).messages[1].origin)
    assert kept["content"][1]["citations"] == [{"n": 1}]
    assert kept["content"][4]["partial_json"] == '{"cut'
    assert kept["stop_reason"] == "end_turn"
    # Nothing began: no answer.
    assert said(read(cassette(([ASK], sse(*events[1:])))).session) == [("user", "hi")]


def test_a_recorded_request_gives_its_head_and_its_usage_wherever_the_cache_control_stood():
    cached = turn("user", text("hi", cache_control={"type": "ephemeral"}))
    first = ([cached], answered(*CALLS["content"], input_tokens=1, cache_read_input_tokens=2))
    moved = turn("user", *BOTH["content"][:2], {**BOTH["content"][2], "cache_control": {}})
    second = ([turn("user", text("hi")), CALLS, moved], answered(text("done"), input_tokens=5))
    session = read(cassette(first, second)).session
    roles = ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert [m.role for m in shown(session)] == roles
    assert account(session).usage == Usage(8, 0, 2)
    assert [e.usage for e in spoken(session) if isinstance(e, Reply)] == [Usage(3, 0, 2), Usage(5)]
    body = json.loads(encode(record(session, user("x"))))
    assert body["max_tokens"] == 5
    assert body["messages"][2] == moved
    assert body["messages"][3] == answered(text("done"), input_tokens=5)
    assert body["messages"][4] == {**ASK, "content": "x"}
    # Text is the same whether it stands in a block or not.
    assert codes(read(cassette(([ASK], DONE), ([cached, DONE, ASK], DONE)))) == {}
    assert codes(read(cassette(([5], DONE), ([ASK, DONE, ASK], DONE)))) == {"unknown-request": 1}


def test_compressed_bodies_are_unpacked():
    packed = gzip.compress(json.dumps(answered(text("done"), input_tokens=5)).encode())
    session = read(cassette(([ASK], base64.b64encode(packed).decode()))).session
    assert said(session)[1] == ("assistant", "done")
    torn = packed[:12] + bytes(byte ^ 255 for byte in packed[12:])
    bodies = ["H4sI", "H4sIA", *(base64.b64encode(b).decode() for b in (packed[:-30], torn))]
    for odd in bodies:
        assert said(read(cassette(([ASK], odd))).session) == [("user", "hi")]


def test_calls_of_other_apis_are_passed_over():
    data = cassette(([ASK], DONE), uri="https://api.openai.com/v1/responses")
    with pytest.raises(DecodeError) as caught:
        decode(data)
    assert (caught.value.code, caught.value.field) == ("missing-field", "messages")
    assert codes(read(data + cassette(([ASK], DONE)).split(b"\n", 1)[1])) == {"missing-field": 1}


# Requests


def test_a_request_holds_one_element_a_turn_with_results_in_front():
    array = [
        user("a"),
        user("b"),
        assistant(Thinking("unsigned"), "x", ToolCall("t1", "read", '{"a": 1}')),
        tool_result("t1", (Text("r"), Image("aa", "image/png")), error=True),
        user("c"),
        system("s"),
        assistant(Opaque("reasoning", "{}")),
        assistant("y"),
        assistant("z"),
    ]
    assert encode_request(Request(Head(Route(model="m")), tuple(array))) == {
        "model": "m",
        "messages": [
            turn("user", text("a"), text("b")),
            turn("assistant", text("x"), use("t1", {"a": 1})),
            turn(
                "user",
                result(
                    "t1",
                    [
                        text("r"),
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "aa"},
                        },
                    ],
                    is_error=True,
                ),
                text("c"),
            ),
            {"role": "system", "content": "s"},
            turn("assistant", text("y"), text("z")),
        ],
    }


def test_what_a_request_leaves_out_is_told():
    message = assistant(
        Thinking("unsigned"),
        Thinking("signed", "s"),
        Thinking("zzz", redacted=True),
        ToolCall("a", "f", "not json", "sig"),
        ToolCall("b", "f", '["list"]'),
        ToolCall("c", "f", '{"input": 1}'),
        Opaque("server_tool_use", '{"type":"server_tool_use","id":"s"}'),
        Opaque("compaction", '{"type":"compaction","content":"c"}'),
        Opaque("compaction", '{"type":"compaction","encrypted_content":"c"}'),
        Opaque("web_search_call", '{"type":"web_search_call"}'),
        Opaque("new_block", '{"type":"new_block"}'),
        Opaque("new_block", '{"type":"other"}'),
        Opaque("", "5"),
        Opaque("x", "not json"),
    )
    assert unwritten(message) == (
        *("thinking", "signature", "tool-call", "tool-call"),
        *("opaque", "opaque", "opaque", "opaque", "opaque"),
    )
    (written,) = encode_messages([message])
    assert [block.get("input") for block in written["content"] if block["type"] == "tool_use"] == [
        {"input": "not json"},
        {"input": ["list"]},
        {"input": 1},
    ]
    assert [block["type"] for block in written["content"]] == [
        *("thinking", "redacted_thinking", "tool_use", "tool_use", "tool_use"),
        *("server_tool_use", "compaction", "new_block"),
    ]
    assert unwritten(user((Opaque("tool_result", dump(result("t1"))),))) == ("opaque",)


def test_ids_that_the_api_would_refuse_are_made_fit_and_stay_different():
    calls = [ToolCall(name, "f") for name in ("a|b", "a:b", "a_b", "a_b_2", "ok", "")]
    array = [
        assistant(*calls),
        *(tool_result(c.id, "r") for c in calls[:5]),
        tool_result("x y", ""),
    ]
    asked, told = encode_messages(array)
    names = [block["id"] for block in asked["content"]]
    assert names == ["a_b_4", "a_b_3", "a_b", "a_b_2", "ok", ""]
    assert [block["tool_use_id"] for block in told["content"]] == [*names[:5], "x_y"]
    many = [ToolCall(f"c{chr(0x100 + n)}", "f") for n in range(300)]
    (element,) = encode_messages([assistant(*many)])
    assert len({block["id"] for block in element["content"]}) == 300


def test_blocks_keep_their_fields_when_another_part_of_the_message_changes():
    element = turn(
        "assistant",
        text("a", citations=[1]),
        text("a"),
        use("t1", {"x": 1}, caller={"type": "direct"}),
        {"type": "new_block", "n": 1.5},
        id="m1",
        stop_reason="tool_use",
        later=True,
    )
    (message,) = decode_messages([element])
    changed = evolve(message, parts=(Text("b"), *message.parts[:1], *message.parts[2:]))
    assert encode_messages([changed]) == [
        {
            "role": "assistant",
            "content": [text("b"), element["content"][0], *element["content"][2:]],
            "later": True,
        }
    ]
    known = turn("user", result("t1", [text("r", cache_control={})], cache_control={"n": 1}))
    (told,) = decode_messages([known])
    failed = evolve(told, error=True)
    assert encode_messages([failed])[0]["content"] == [{**known["content"][0], "is_error": True}]
    shorter = evolve(told, parts=(Text("short"),))
    assert encode_messages([shorter])[0]["content"] == [
        {**result("t1", [text("short")]), "cache_control": {"n": 1}}
    ]
    (fine,) = decode_messages([turn("user", result("t1", "r", is_error=False))])
    assert encode_messages([fine])[0]["content"] == [result("t1", "r", is_error=False)]
    # An origin in another format has nothing to keep.
    other = evolve(told, origin='{"role":"tool","tool_call_id":"t1","content":"r"}')
    assert encode_messages([other])[0]["content"] == [result("t1", "r")]


def test_what_is_no_message_list_is_one_error():
    def error(values):
        with pytest.raises((DecodeError, InvalidArgument)) as caught:
            decode_messages(values)
        return caught.value.code, caught.value.entry, caught.value.field

    assert error([ASK, {"role": "x"}]) == ("wrong-role", 1, "role")
    assert error([turn("user", {"type": "tool_result"})]) == (
        "missing-field",
        0,
        "content.tool_use_id",
    )
    assert error([{"role": "user", "content": float("nan")}]) == ("invalid-number", 0, "content")
    assert error([ASK, 5]) == ("wrong-type", 1, None)
    assert error(None) == ("wrong-type", None, "values")


def test_numbers_beyond_a_float_stay_texts():
    session = read(b'[{"role":"user","content":"a","big":1e400}]').session
    assert encode_messages(project(session).messages) == [
        {"role": "user", "content": "a", "big": "1e400"}
    ]


# Sessions from elsewhere


def comparable(message):
    """Give what the format holds of a message."""
    parts = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            try:
                given = json.loads(part.arguments)
            except ValueError:
                given = part.arguments
            given = given if isinstance(given, dict) else {"input": given}
            parts.append(("call", part.id, part.name, json.dumps(given, sort_keys=True)))
        elif isinstance(part, Thinking):
            parts.append(("thinking", part.text, "" if part.redacted else part.signature))
        elif not isinstance(part, Opaque):
            parts.append(part)
    return message.role, message.call, message.error, parts


@given(conversations())
def test_a_session_from_messages_comes_back(array):
    session = record(Session(), *array)
    again = decode(encode(session))
    if not {"reused-id", "blank-text", "missing-id"} & codes(again).keys():
        ours = [comparable(m) for m in shown(session)]
        assert [comparable(m) for m in shown(again.session)] == [m for m in ours if m[3] or m[1]]


@settings(max_examples=60)
@given(st.one_of(sessions(), journals()))
def test_any_session_can_be_written_and_what_is_written_comes_back(session):
    written = encode(session)
    assert encode(decode(written).session) == written
    body = encode_request(project(session))
    assert all(element["content"] for element in body["messages"])
    assert decode_messages(body["messages"]) is not None


# Generated files

IDS = st.sampled_from(["t1", "t2", "t3", "t4", ""])
WORDS = st.sampled_from(["", "hi", "  ", "\u2028é\x01", "x" * 50])
INNER = st.one_of(
    st.builds(text, WORDS),
    st.sampled_from(
        [
            text("a", cache_control={"type": "ephemeral"}),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "aa"},
            },
            {"type": "document", "source": {"type": "file", "file_id": "x"}},
            {"type": "search_result", "n": 1.5},
            5,
        ]
    ),
)
CONTENT = st.one_of(WORDS, st.none(), st.lists(INNER, max_size=3), st.just({"a": 1}))
RESULTS = st.builds(
    lambda name, content, more: {**result(name, content), **more},
    IDS,
    CONTENT,
    st.sampled_from([{}, {"is_error": True}, {"cache_control": {}}]),
)
SPOKEN = st.one_of(
    INNER,
    st.builds(use, IDS, st.sampled_from([{}, {"a": 1}, {"b": [1.5, "x"]}])),
    st.sampled_from(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "zz"},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        ]
    ),
)
MORE = st.sampled_from(
    [{}, {"timestamp": "now", "n": 1.5}, {"id": "m1", "usage": {"input_tokens": 3}}]
)
ELEMENTS = st.one_of(
    st.builds(lambda c, more: {"role": "user", "content": c, **more}, CONTENT, MORE),
    st.builds(
        lambda blocks, more: turn("user", *blocks, **more),
        st.lists(st.one_of(RESULTS, INNER), max_size=5),
        MORE,
    ),
    st.builds(
        lambda blocks, more: turn("assistant", *blocks, **more), st.lists(SPOKEN, max_size=4), MORE
    ),
    st.builds(lambda c: {"role": "system", "content": c}, CONTENT),
    st.sampled_from([{"role": "odd"}, {"x": 1}, 5, None]),
)


def contain(elements, container, indent):
    match container:
        case "list":
            return json.dumps(elements, indent=indent).encode()
        case "body":
            tools = [{"name": "read", "input_schema": {}}]
            body = {"model": "claude", "system": "sys", "messages": elements, "tools": tools}
            return json.dumps({**body, "n": 1.5}, indent=indent).encode()
        case "cassette":
            return cassette((elements, answered(text("done"))))
        case _:
            made = ["", *map(json.dumps, elements), "{bad", ""]
            return "\n".join(made[: len(made) - (indent or 0)]).encode()


def attempt(data):
    """Decode; None for what is refused with a code of ours."""
    try:
        return decode(data)
    except DecodeError as error:
        code = error.code
    assert code in CODES
    return None


@settings(max_examples=300)
@given(
    st.lists(ELEMENTS, max_size=10),
    st.sampled_from(["list", "body", "lines", "cassette"]),
    st.sampled_from([None, 1]),
    st.integers(0, 60),
)
def test_generated_files_come_back_byte_for_byte_and_go_on(elements, container, indent, where):
    data = contain(elements, container, indent)
    decoded = attempt(data)
    if decoded is None:
        return
    assert encode(decoded.session) == data
    # From anywhere on the path, too: what is written is what requests show.
    session = at_leaf(decoded.session, where % len(decoded.session))
    assert comparing(decode(encode(session)).session, session, decoded)
    goes_on(decoded, decoded.session)


def comparing(again, session, decoded):
    if {"reused-id", "missing-id"} & codes(decoded).keys() or open_calls(session):
        return True
    ours = [comparable(message) for message in shown(session)]
    assert [comparable(message) for message in shown(again)] == ours
    return True


def goes_on(decoded, session):
    if open_calls(session) and {"reused-id", "missing-id"} & codes(decoded).keys():
        return
    for name in open_calls(session):
        session = abandon(session, name, "gone")
    session = record(session, user("new"))
    session = record(send(session)[0], user("steer"))
    done = assistant("ok", Thinking("x", "sig"), ToolCall("zz", "read", '{"a":1}'), "after")
    session = record(reply(session, "completed", done), tool_result("zz", "fine", error=True))
    session = reply(send(session)[0], "aborted", assistant("no"))
    again = decode(encode(session)).session
    assert [comparable(m) for m in shown(again)] == [comparable(m) for m in shown(session)]
    assert again.head.system == session.head.system


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "t1", "user", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "text", "id", "input", "tool_use_id"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


def put(value, where, new):
    if where and isinstance(value, dict) and value:
        key = sorted(value)[where[0] % len(value)]
        return {**value, key: put(value[key], where[1:], new)}
    if where and isinstance(value, list) and value:
        at = where[0] % len(value)
        return [*value[:at], put(value[at], where[1:], new), *value[at + 1 :]]
    return new


EVENTS = stream(
    (text(""), [{"type": "text_delta", "text": "a"}, {"type": "citations_delta", "citation": 1}]),
    (use("t9"), [{"type": "input_json_delta", "partial_json": "{}"}]),
    usage={"input_tokens": 1},
)


@settings(max_examples=400)
@given(
    st.sampled_from(["list", "body", "lines", "cassette", "events"]),
    st.lists(st.integers(0, 9), max_size=7),
    VALUES,
)
def test_values_of_other_types_in_any_field(container, where, value):
    if container == "events":
        events = put(EVENTS, where, value)
        events = events if isinstance(events, list) else [events]
        data = cassette(([ASK], "".join(f"data: {json.dumps(event)}\n\n" for event in events)))
    elif container == "body":
        body = {"model": "m", "system": [text("s")], "tools": [use("x")], "messages": TALK}
        data = json.dumps(put(body, where, value)).encode()
    else:
        elements = put(TALK, where, value)
        data = contain(elements if isinstance(elements, list) else [elements], container, None)
    decoded = attempt(data)
    if decoded is not None:
        assert encode(decoded.session) == data
        json.dumps(encode_request(project(decoded.session)), allow_nan=False)


def test_work_grows_with_the_file_and_not_faster():
    def calls(count, container):
        elements = []
        for at in range(count):
            names = [f"t{at}{name}" for name in "abc"]
            elements += [ASK, turn("assistant", text("x"), *map(use, names))]
            elements.append(turn("user", *map(result, names), text("y"), n=1))
        wide = [f"w{at}" for at in range(count)]
        elements += [turn("assistant", *map(use, wide)), turn("user", *map(result, wide))]
        pieces = [turn("assistant", text("p")) for _ in range(count)]
        data = contain([*elements, *pieces], container, None)
        seen = Counter()

        def watch(_, event, __):
            seen[event] += 1

        sys.setprofile(watch)
        try:
            decoded = decode(data)
            written = encode(decoded.session)
        finally:
            sys.setprofile(None)
        assert written == data
        return seen["call"] + seen["c_call"]

    for container in ("list", "body", "lines", "cassette"):
        one, two = calls(100, container), calls(200, container)
        assert two < 2.2 * one, (container, one, two)


# What keys the cache beside the prefix (C10)


FIRST = (("previous_message_not_found", 1),)


def recorded(*more):
    """A cassette of one call and, for each of `more`, another one with these fields besides."""
    body = {
        "model": "claude-opus-5", "max_tokens": 9, "system": "s" * 9000,
        "messages": [{"role": "user", "content": "x" * 20_000}],
        "tools": [{"name": "t", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto"},
    }  # fmt: skip
    calls = []
    for fields in ({}, *more):
        answer = turn("assistant", text("ok"), type="message", model="claude-opus-5")
        usage = {"input_tokens": 10, "output_tokens": 1}
        calls.append(({**body, **fields}, {**answer, "usage": usage}))
        body = {**body, "messages": [*body["messages"], turn("assistant", text("ok")), ASK]}
    inner = [
        {
            "request": {"uri": "https://api.anthropic.com/v1/messages", "parsed_body": asked},
            "response": {"status": {"code": 200}, "parsed_body": answer},
        }
        for asked, answer in calls
    ]
    return b"interactions:\n" + b"".join(b"- " + json.dumps(i).encode() + b"\n" for i in inner)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, "tool_choice"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "thinking"),
        ({"output_config": {"effort": "low"}}, "output_config"),
        ({"speed": "fast"}, "speed"),
    ],
)
def test_a_parameter_that_keys_the_cache_is_read_and_misses_it(fields, name):
    def run(more):
        data = recorded(more)
        decoded = decode(data)
        assert decoded.repairs == ()
        assert encode(decoded.session) == data
        (found,) = compare(decoded.session, cache="anthropic", pipelines=("none",)).runs
        return decoded.session, found

    plain, before = run({})
    session, after = run(fields)
    assert plain.head.route.parameters == (("tool_choice", '{"type":"auto"}'),)
    given = dict(session.head.route.parameters)
    assert json.loads(given[name]) == fields[name]
    assert before.misses == FIRST
    assert dict(after.misses) == {**dict(FIRST), "parameters_changed": 1}
    # The tools are read in any case, and the system text if no messages but it are reached.
    assert 0 <= after.cached < before.cached
    assert (after.cached > 0) == (name != "speed")
    asked = [encode_request(request) for request in requests(session)]
    assert asked[1][name] == fields[name]
    assert asked[0].get(name) == {"tool_choice": {"type": "auto"}}.get(name)


def test_an_effort_that_is_the_default_is_as_if_it_was_left_out():
    data = recorded({"output_config": {"effort": "high"}, "speed": None})
    (found,) = compare(decode(data).session, cache="anthropic", pipelines=("none",)).runs
    assert found.misses == FIRST


def test_parameters_stand_in_the_body_and_change_with_the_head():
    thinking = {"type": "adaptive"}
    body = {"model": "m", "thinking": thinking, "messages": [ASK], "stream": 1.50}
    data = json.dumps(body).encode()
    session = decode(data).session
    assert session.head.route.parameters == (("thinking", '{"type":"adaptive"}'),)
    assert encode(session) == data
    more = record(session, user("more"))
    assert json.loads(encode(more))["thinking"] == thinking
    route = evolve(session.head.route, parameters=(("tool_choice", '{"type":"none"}'),))
    other = record(more, evolve(session.head, route=route))
    written = json.loads(encode(other))
    assert (written["tool_choice"], written["stream"]) == ({"type": "none"}, 1.5)
    assert "thinking" not in written
    assert decode(encode(other)).session.head == other.head


def test_parameters_of_another_api_and_broken_ones_are_not_written():
    pairs = (
        ("api", '"x"'),
        ("output_config", "{"),
        ("speed", "null"),
        ("thinking", '{"type":"disabled"}'),
        ("tool_choice", '"auto"'),
    )
    session = record(Session(), Head(Route("anthropic", "m", pairs)), user("hi"))
    request = project(session)
    assert encode_request(request) == {
        "model": "m", "thinking": {"type": "disabled"}, "messages": [ASK],
    }  # fmt: skip
    assert [loss.code for loss in convert(session, NAME).losses] == ["route"] * 4
    choice = (("tool_choice", '{"type":"any"}'), ("tools", "5"))
    route = Route("anthropic", "m", choice)
    theirs = openai_responses.encode_request(Request(Head(route), request.messages))
    assert "tool_choice" not in theirs
    kept = (("tool_choice", '{"type":"function","name":"f"}'),)
    theirs = openai_responses.encode_request(Request(Head(Route("x", "m", kept)), ()))
    assert theirs["tool_choice"] == {"type": "function", "name": "f"}


def test_a_model_named_in_an_element_keeps_the_parameters_of_the_body():
    answer = turn("assistant", text("ok"), model="claude-x")
    data = json.dumps({"speed": "fast", "messages": [ASK, answer]}).encode()
    route = decode(data).session.head.route
    assert (route.model, route.parameters) == ("claude-x", (("speed", '"fast"'),))
