"""OpenAI Chat messages: containers, heads, parts, and that the bytes come back."""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import accumulate
from pathlib import Path

import pytest
import yaml
from attrs import evolve
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ctxalgebra import (
    CODES,
    Cut,
    DecodeError,
    Head,
    Image,
    InvalidArgument,
    Message,
    Note,
    Opaque,
    Reply,
    Request,
    Route,
    Sent,
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
    label,
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
)
from ctxalgebra.codecs import decode_messages, encode_messages, encode_request, pi, pi_encode
from ctxalgebra.codecs.cassette import read_yaml
from ctxalgebra.codecs.openai_chat import decode, encode
from ctxalgebra.laws.strategies import conversations, dirty_messages, journals, messages, sessions
from ctxalgebra.protocol import DEFECTS, defects, repair

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions" / "openai-chat"
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


def texts(session):
    return ["".join(p.text for p in m.parts if isinstance(p, Text)) for m in shown(session)]


def call(name, arguments="{}", **fields):
    function = {"name": "read", "arguments": arguments}
    return {"id": name, "type": "function", "function": function, **fields}


ASK = {"role": "user", "content": "hi"}
CALLS = {"role": "assistant", "content": None, "tool_calls": [call("c1")]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42"}
DONE = {"role": "assistant", "content": "done"}


# Real files


def sources(path):
    """Give the messages of a real file as its own container has them."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.split("\n")[1:] if line]
    if path.suffix == ".json":
        return json.loads(text)["observations"][0]["output"]["messages"]
    last = yaml.safe_load(text)["interactions"][-1]
    answer = last["response"]["parsed_body"]["choices"][0]["message"]
    return [*last["request"]["parsed_body"]["messages"], answer]


@real
def test_real_files_come_back_byte_for_byte(path):
    data = path.read_bytes()
    decoded = decode(data)
    assert encode(decoded.session) == data
    assert decoded.repairs == ()
    assert defects(project(decoded.session).messages) == ()


@real
def test_real_files_are_carried_by_the_model_and_not_only_by_their_text(path):
    decoded = decode(path.read_bytes())
    found = sources(path)
    first = next(at for at, message in enumerate(found) if message["role"] != "system")
    assert encode_messages(project(decoded.session).messages) == found[first:]
    fresh = encode_messages(map(bare, project(decoded.session).messages))
    assert [bare(message) for message in decode_messages(fresh)] == shown(decoded.session)
    made = record(Session(), decoded.session.head, *shown(decoded.session))
    again = decode(encode(made))
    assert shown(again.session) == shown(decoded.session)
    assert again.session.head == decoded.session.head


@real
def test_real_sessions_go_on(path):
    session = decode(path.read_bytes()).session
    before = encode_messages(project(session).messages)
    session, _ = send(record(session, user("Go on.")))
    session = reply(session, "completed", assistant("Yes.", ToolCall("new", "ls", '{"a": 1}')))
    session = record(session, tool_result("new", "a.py", error=True))
    again = decode(encode(session))
    assert shown(again.session) == shown(session)
    assert again.session.head == session.head
    assert encode_messages(project(again.session).messages)[: len(before)] == before
    assert encode(again.session) == encode(session)


CASSETTES = [path for path in FILES if path.suffix == ".yaml"]


@pytest.mark.skipif(not CASSETTES, reason="needs ../shared/sessions, absent here")
def test_a_cassette_replays_the_requests_that_were_made():
    (path,) = CASSETTES
    data = path.read_bytes()
    session = decode(data).session
    made = [encode_request(request) for request in requests(session)]
    for body in (i["request"]["parsed_body"] for i in yaml.safe_load(data)["interactions"]):
        texts_ = [m["content"] for m in body["messages"] if m["role"] == "system"]
        expected = {
            "messages": [
                {"role": "system", "content": "\n\n".join(texts_)},
                *(m for m in body["messages"] if m["role"] != "system"),
            ],
            "model": body["model"],
        }
        match = [m for m in made if {k: m[k] for k in expected} == expected]
        assert len(match) == 1
        names = [tool["function"]["name"] for tool in match[0]["tools"]]
        assert names == [tool["function"]["name"] for tool in body["tools"]]
    assert account(session).usage == Usage(2414, 256, 1408)
    # As JSON, once something was added: the whole body of the longest request.
    written = json.loads(encode(record(session, user("x"))))
    assert written["messages"] == [*sources(path), {"role": "user", "content": "x"}]
    assert written["tool_choice"] == "auto"


# Containers


@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_of_messages(indent):
    decoded = read([ASK, CALLS, RESULT, DONE], indent=indent)
    assert texts(decoded.session) == ["hi", "", "42", "done"]
    kinds = [type(node.entry).__name__ for node in path(decoded.session)]
    replied = ["Message", "Sent", "Reply"]
    assert kinds == ["Note", "Head", *replied, *replied, "Note"]
    assert decoded.session.head == Head(Route(binding="none"))
    written = json.loads(encode(record(decoded.session, user("more"))))
    assert written == [ASK, CALLS, RESULT, DONE, {"role": "user", "content": "more"}]


def test_a_request_body_gives_the_head():
    tools = [
        {
            "type": "function",
            "function": {"name": "read", "strict": True, "parameters": {"x": 1.0}},
        },
        {"type": "function", "function": {"description": "no name"}},
        {"name": "flat", "description": "d", "parameters": {}},
        "odd",
    ]
    body = {
        "model": "claude-x",
        "system": "Be brief.",
        "messages": [ASK, DONE],
        "tools": tools,
        "n": 1.50,
    }
    decoded = read(body, indent=1)
    head = decoded.session.head
    assert head.route == Route("", "claude-x", (), "prefix")
    assert head.system == "Be brief."
    assert head.tools == (Tool("read", "", '{"x":1.0}'), Tool("flat", "d", "{}"))

    changed = evolve(
        head, route=Route("", "gpt", (), "none"), tools=(Tool("b", "d", '{"y":2.50}'),)
    )
    written = encode(record(decoded.session, changed))
    assert decode(written).session.head == changed
    assert b'"n":1.5' in written
    spoken = encode(record(decoded.session, evolve(head, system="Be loud.")))
    assert decode(spoken).session.head.system == "Be loud."
    assert "system" not in json.loads(spoken)
    assert json.loads(spoken)["messages"][0] == {"role": "system", "content": "Be loud."}
    silent = encode(record(decoded.session, evolve(head, system="", tools=(Tool("x", "", "{"),))))
    assert decode(silent).session.head.system == ""
    assert json.loads(silent)["tools"][0]["function"]["parameters"] == {}


def test_leading_system_messages_are_the_head():
    developer = {"role": "developer", "content": [{"type": "text", "text": "two"}], "name": "x"}
    decoded = read(
        [{"role": "system", "content": "one"}, developer, ASK, {"role": "system", "content": "mid"}]
    )
    assert decoded.session.head.system == "one\n\ntwo"
    assert [m.role for m in shown(decoded.session)] == ["user", "system"]
    written = json.loads(encode(record(decoded.session, user("x"))))
    assert written[1] == developer
    head = evolve(decoded.session.head, system="new")
    assert json.loads(encode(record(decoded.session, head)))[:2] == [
        {"role": "system", "content": "new"},
        ASK,
    ]
    gone = json.loads(encode(record(decoded.session, evolve(head, system=""))))
    assert gone[0] == ASK
    # System content that is no text stays a message.
    odd = read([{"role": "system", "content": [{"type": "image"}]}, ASK])
    assert [m.role for m in shown(odd.session)] == ["system", "user"]


def test_json_lines():
    lines = [
        '{"_type": "metadata", "n": 1.50}',
        "",
        json.dumps(ASK),
        "{bad",
        "5",
        json.dumps(DONE),
        " ",
    ]
    for end in ("", "\n", "\r\n"):
        decoded = read(("\n".join(lines) + end).encode())
        assert texts(decoded.session) == ["hi", "done"]
        assert codes(decoded) == {"invalid-json": 1, "wrong-type": 1}
        assert [r.line for r in decoded.repairs] == [4, 5]
    written = encode(record(decoded.session, user("more\nlines")))
    assert texts(decode(written).session) == ["hi", "done", "more\nlines"]
    assert len(written.splitlines()) == 8
    assert texts(read(json.dumps(ASK).encode()).session) == ["hi"]
    assert texts(read(("{bad\n" + json.dumps(ASK)).encode()).session) == ["hi"]
    assert project(read(b'{"_type": "metadata"}\n').session).messages == ()


def test_a_message_that_spans_lines_becomes_one_line():
    (message,) = project(read([ASK], indent=1).session).messages
    session = record(read(json.dumps(ASK).encode() + b"\n").session, message)
    assert encode(session) == json.dumps(ASK).encode() + b'\n{"role":"user","content":"hi"}\n'


def test_lines_beyond_the_limit_are_kept():
    data = (
        json.dumps(ASK).encode() + b"\n" + json.dumps({**ASK, "content": "x" * 99}).encode() + b"\n"
    )
    decoded = decode(data, limit=80)
    assert codes(decoded) == {"line-too-long": 1}
    assert encode(decoded.session) == data


def test_containers_with_uneven_gaps_and_byte_order_marks():
    data = b'\xef\xbb\xbf {"messages" : [ %b ,\n %b,%b ] , "x": [1]}\n' % tuple(
        json.dumps(m).encode() for m in (ASK, DONE, ASK)
    )
    decoded = read(data)
    assert texts(decoded.session) == ["hi", "done", "hi"]
    assert (
        len(json.loads(encode(record(decoded.session, user("x"))).decode("utf-8-sig"))["messages"])
        == 4
    )
    for empty in ([], {"messages": []}):
        decoded = read(empty)
        assert project(decoded.session).messages == ()
        assert texts(decode(encode(record(decoded.session, user("x")))).session) == ["x"]


def test_a_trace_gives_its_longest_list_of_messages():
    short = {"input": [ASK], "output": "text"}
    long = {
        "input": {"messages": [ASK, {"no": "role"}, ASK, ASK]},
        "output": {"model": "gpt", "messages": [ASK, DONE], "tools": [{"tool_call_id": "x"}]},
    }
    decoded = read({"trace": {}, "observations": [short, 5, long, {}]}, indent=1)
    assert texts(decoded.session) == ["hi", "done"]
    assert decoded.session.head.route.model == "gpt"
    written = json.loads(encode(record(decoded.session, user("x"))))
    assert len(written["observations"][2]["output"]["messages"]) == 3
    changed = record(decoded.session, Head(Route(model="other")))
    assert encode(changed) == encode(decoded.session)
    assert texts(read({"observations": [short]}).session) == ["hi"]


# Messages


def test_calls_in_every_shape():
    calls = [
        call("a", '{"x": 1}', signature="s"),
        {"name": "f", "args": {"b": 1.5, "a": "é"}, "id": "b", "type": "tool_call"},
        {"id": "c", "type": "custom", "custom": {"name": "patch", "input": 'a "b"'}},
        {"id": "d", "name": "g", "arguments": "{}"},
        call("e", {"q": [1]}, extra_content={"google": {"thought_signature": "t"}}),
        call("f"),
        7,
    ]
    del calls[5]["function"]["arguments"]
    decoded = read([ASK, {"role": "assistant", "tool_calls": calls}])
    assert shown(decoded.session)[1].parts == (
        ToolCall("a", "read", '{"x": 1}', "s"),
        ToolCall("b", "f", '{"b":1.5,"a":"é"}'),
        ToolCall("c", "patch", '"a \\"b\\""'),
        ToolCall("d", "g", "{}"),
        ToolCall("e", "read", '{"q":[1]}', "t"),
        ToolCall("f", "read", "{}"),
        Opaque("", "7"),
    )
    assert open_calls(decoded.session) == ("a", "b", "c", "d", "e", "f")


def test_the_old_function_calls_are_paired_by_name():
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    answer = {"role": "function", "name": "f", "content": "1"}
    decoded = read([ASK, old, answer, old, answer, DONE])
    assert codes(decoded) == {"reused-id": 1}
    assert texts(decoded.session) == ["hi", "", "1", "", "1", "done"]


def test_content_in_every_shape():
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "image_url", "image_url": {"url": "https://x", "detail": "low"}},
        {"type": "image", "data": "aa", "mimeType": "image/gif"},
        {"type": "input_audio", "input_audio": {"data": "x"}},
        {"type": "thinking", "thinking": "not the model's"},
        {"type": "tool_call", "id": "c1"},
        {"type": "text", "text": ["list"]},
        5,
    ]
    decoded = read([{"role": "user", "content": parts}, {"role": "user", "content": {"a": 1.0}}])
    first, second = shown(decoded.session)
    assert first.parts == (
        Text("a"),
        Image("aGk=", "image/png"),
        Image("https://x/y.png", ""),
        Opaque("image_url", '{"type":"image_url","image_url":{"url":"https://x","detail":"low"}}'),
        Image("aa", "image/gif"),
        Opaque("input_audio", '{"type":"input_audio","input_audio":{"data":"x"}}'),
        Opaque("thinking", '{"type":"thinking","thinking":"not the model\'s"}'),
        Opaque("tool_call", '{"type":"tool_call","id":"c1"}'),
        Opaque("text", '{"type":"text","text":["list"]}'),
        Opaque("", "5"),
    )
    assert second.parts == (Opaque("", '{"a":1.0}'),)


def test_reasoning_comes_first_and_a_second_copy_of_a_call_is_its_place():
    answer = {
        "role": "assistant",
        "reasoning_content": "hm",
        "content": [
            {"type": "tool_call", "id": "c2", "name": "x"},
            {"type": "text", "text": "then"},
            {"type": "tool_call", "id": "c9"},
            {"type": "thinking", "thinking": "t", "signature": "s", "redacted": True},
        ],
        "tool_calls": [call("c1"), call("c2"), 7],
    }
    decoded = read([ASK, answer])
    assert shown(decoded.session)[1].parts == (
        Thinking("hm"),
        ToolCall("c2", "read"),
        Text("then"),
        Opaque("tool_call", '{"type":"tool_call","id":"c9"}'),
        Thinking("t", "s", redacted=True),
        ToolCall("c1", "read"),
        Opaque("", "7"),
    )
    assert shown(read([ASK, {**DONE, "reasoning": "r"}]).session)[1].parts[0] == Thinking("r")


def test_results_carry_name_and_failure():
    answers = [
        {**RESULT, "name": "n", "is_error": True},
        {**RESULT, "tool_call_id": "c2", "tool_name": "m"},
    ]
    answers[1]["tool_call_error"] = True
    both = {**CALLS, "tool_calls": [call("c1"), call("c2")]}
    decoded = read([ASK, both, *answers])
    assert [(m.name, m.error) for m in shown(decoded.session)[2:]] == [("n", True), ("m", True)]


def test_usage_of_a_reply():
    openai = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    kin = {"input_tokens": 5, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 3}}
    deepseek = {"prompt_tokens": 7, "prompt_cache_hit_tokens": 6}
    lines = [ASK]
    dirty = {"prompt_tokens": 2, "prompt_cache_hit_tokens": 6}  # without what the cache has
    said = (openai, kin, deepseek, dirty, {"prompt_tokens": -1}, {}, 5)
    lines += [{**DONE, "usage": usage} for usage in said]
    lines.append({**DONE, "metrics": kin})
    found = [n.entry.usage for n in log(read(lines).session) if isinstance(n.entry, Reply)]
    assert found == [
        Usage(9, 2, 4),
        Usage(5, 1, 3),
        Usage(7, 0, 6),
        Usage(8, 0, 6),
        None,
        None,
        None,
        Usage(5, 1, 3),
    ]


def test_elements_that_cannot_be_read_keep_their_place():
    odd = [
        {"role": "assistant-subagent-1", "content": "x"},
        {"content": "no role"},
        {"role": 5},
        {"role": "tool", "content": "no call"},
        5,
        None,
    ]
    decoded = read([odd[0], ASK, *odd[1:], DONE])
    assert codes(decoded) == {"wrong-role": 3, "missing-field": 1, "wrong-type": 1}
    assert texts(decoded.session) == ["hi", "done"]


def test_defects_of_calls_are_repaired():
    lines = [
        RESULT,
        {"role": "assistant", "content": "", "tool_calls": [call("c1")]},
        {"role": "assistant", "content": "", "tool_calls": [call("c2")]},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "tool", "tool_call_id": "c9", "content": "orphan"},
    ]
    decoded = read([ASK, *lines, DONE])
    assert codes(decoded) == {"early-result": 1, "orphan-result": 1}
    assert texts(decoded.session) == ["hi", "", "42", "", "two", "done"]
    flat = read([ASK, *lines[1:3], RESULT, lines[3], DONE])
    assert codes(flat) == {"late-result": 1}


@given(dirty_messages())
def test_dirty_lists_are_repaired_as_the_protocol_says(array):
    assume(array[0].role == "user")
    written = encode_messages(array)
    decoded = read(written)
    wanted = [bare(message) for message in repair(array).messages]
    got = shown(decoded.session)
    assert defects(got) == () or open_calls(decoded.session)
    if not open_calls(decoded.session):
        made = "No result was recorded for this call."
        assert [m for m in got if m.parts != (Text(made),)] == [
            m for m in wanted if m.parts != (Text(made),)
        ]


# By hand


@given(messages())
def test_any_message_comes_back(message):
    ids = [call_.id for call_ in message.calls]
    assume(len(set(ids)) == len(ids))
    assert [bare(m) for m in decode_messages(encode_messages([message]))] == [message]


@pytest.mark.parametrize(
    "message",
    [
        assistant(),
        assistant(""),
        assistant("", ToolCall("c", "n")),
        assistant(Thinking("")),
        assistant(Thinking("t", "s"), "x"),
        assistant(Thinking("t"), Thinking("u"), "x"),
        assistant("x", Thinking("t")),
        assistant(ToolCall("a", "n"), "between", ToolCall("b", "n", "not json", "sig")),
        assistant(Opaque("tool_call", '{"type":"tool_call","id":"a"}'), ToolCall("a", "n")),
        user(()),
        user(""),
        user((Text("a"), Text(""))),
        user((Image("data:image/png;base64,x", ""),)),
        user((Image("x", "image/png;q=1"),)),
        user((Opaque("x", "not json"), Opaque("x", '{"type":"y"}'), Opaque("", "5"))),
        user((Opaque("text", '{"type":"text","text":"a"}'),)),
        user((Opaque("x", "[" * 10_000),)),
        tool_result("c", (), error=True),
        tool_result("c", "", name="n"),
        evolve(system("s"), id="m1"),
    ],
)
def test_messages_of_every_shape_come_back(message):
    (again,) = decode_messages(encode_messages([message]))
    assert evolve(again, origin="") == message


def test_unknown_fields_survive_a_change():
    origin = {
        "role": "assistant",
        "cache": {"n": 1.5},
        "content": [{"type": "text", "text": "a", "cache_control": {}}],
        "reasoning_content": "hm",
        "tool_calls": [call("c1", index=3), call("c2", index=4)],
        "name": "dropped",
    }
    (message,) = decode_messages([origin])
    assert encode_messages([message]) == [origin]
    silent = evolve(message, parts=message.parts[1:])
    rest = {key: value for key, value in origin.items() if key != "reasoning_content"}
    assert encode_messages([silent]) == [rest]
    shorter = evolve(
        message, parts=(Text("b"), evolve(message.parts[2], arguments="[]"), message.parts[3])
    )
    (written,) = encode_messages([shorter])
    assert written["cache"] == {"n": 1.5}
    assert written["content"] == "b"
    assert [c.get("index") for c in written["tool_calls"]] == [None, 4]
    other = evolve(message, role="user", parts=(Text("b"),))
    assert encode_messages([other]) == [{"role": "user", "content": "b"}]
    (odd,) = decode_messages([{**origin, "tool_calls": [7, call("c1", index=3)]}])
    (kept,) = encode_messages([evolve(odd, parts=(Text("b"), *odd.parts[2:]))])
    assert kept["tool_calls"] == [call("c1", index=3)]
    assert kept["content"][1] == 7
    (gone,) = encode_messages([evolve(message, parts=(Text("b"),))])
    assert "tool_calls" not in gone
    (developer,) = decode_messages([{"role": "developer", "content": "a", "name": "n"}])
    assert encode_messages([evolve(developer, parts=(Text("b"),))]) == [
        {"role": "developer", "content": "b", "name": "n"}
    ]
    (added,) = decode_messages([{"role": "assistant", "x": 1, "tool_calls": 5}])
    assert encode_messages([evolve(added, parts=(Text("b"), ToolCall("c", "n")))])[0]["x"] == 1


def test_what_is_no_message_list_is_one_error():
    def error(values):
        with pytest.raises((DecodeError, InvalidArgument)) as caught:
            decode_messages(values)
        return caught.value.code, caught.value.entry, caught.value.field

    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert error([ASK, {"role": "x"}]) == ("wrong-role", 1, "role")
    assert error([{"role": "user", "content": float("nan")}]) == ("invalid-number", 0, "content")
    assert error([{"role": "user", "content": "\ud800"}]) == ("lone-surrogate", 0, "content")
    assert error([{"role": "user", "content": {1, 2}}]) == ("wrong-type", 0, None)
    assert error([{"role": "user", "content": deep}]) == ("wrong-type", 0, None)
    assert error([ASK, 5]) == ("wrong-type", 1, None)
    for odd in (None, 5, "text", b"bytes", ASK):
        assert error(odd) == ("wrong-type", None, "values")


def test_a_request_becomes_a_body():
    head = Head(Route(model="m"), "Be brief.", (Tool("t", "d", '{"type":"object"}'),))
    assert encode_request(Request(head, (user("hi"),))) == {
        "messages": [{"role": "system", "content": "Be brief."}, ASK],
        "model": "m",
        "tools": [
            {
                "type": "function",
                "function": {"name": "t", "description": "d", "parameters": {"type": "object"}},
            }
        ],
    }


# Sessions from elsewhere


def spoken(array, *, requests_too):
    session = Session()
    for message in array:
        if requests_too and message.role == "assistant":
            session = reply(send(session)[0], "completed", message)
        else:
            session = record(session, message)
    return session


@given(conversations(), st.booleans())
def test_a_session_from_messages_comes_back(array, requests_too):
    session = spoken(array, requests_too=requests_too)
    again = decode(encode(session))
    if not {"reused-id", "blank-text", "missing-id"} & codes(again).keys():
        assert shown(again.session) == shown(session)


@settings(max_examples=60)
@given(st.one_of(sessions(), journals()))
def test_any_session_can_be_written_and_what_is_written_comes_back(session):
    written = encode(session)
    assert encode(decode(written).session) == written


def test_a_session_of_another_format_is_written_from_its_messages():
    lines = [{"type": "session", "version": 3, "id": "s"}]
    for at, message in enumerate([ASK, {"role": "assistant", "content": "a"}]):
        lines.append({"type": "message", "id": str(at), "parentId": None, "message": message})
    lines[2]["parentId"] = "0"
    session = pi.decode("\n".join(map(json.dumps, lines)).encode()).session
    assert json.loads(encode(session))["messages"] == [
        {"role": "user", "content": "hi", "id": "0"},
        {"role": "assistant", "content": "a", "id": "1"},
    ]
    chat = read([ASK, CALLS, RESULT, CALLS, RESULT, DONE]).session
    again = pi.decode(pi_encode.encode(chat)).session
    assert texts(again) == texts(chat)


def test_only_the_path_and_what_was_said_on_it_is_written():
    session = read([ASK, DONE]).session
    session = record(
        session, user("a"), Sent(), user("steer"), Reply("aborted", assistant("partly"))
    )
    session = record(session, Sent(), Reply("failed"), Sent(), Reply("completed", assistant("b")))
    session = record(label(session, 2, "here"), Note("mine", "x"))
    other = record(at_leaf(session, 2), user("branch"))
    assert texts(decode(encode(other)).session) == ["hi", "branch"]
    back = at_leaf(other, session.leaf.number)
    assert texts(decode(encode(back)).session) == ["hi", "done", "a", "steer", "b"]
    flying = record(back, Sent(), user("late"))
    assert texts(decode(encode(flying)).session)[-1] == "late"
    cut = record(back, Cut(4, user("[cut]"), "x", breaks=True))
    assert texts(decode(encode(cut)).session)[0] == "hi"


def test_a_note_that_is_stood_on_covers_nothing_else():
    session = read([{"role": "system", "content": "s"}, ASK]).session
    (entry_note,) = [n for n in log(session) if getattr(n.entry, "name", "") == "openai-chat-entry"]
    moved = record(at_leaf(session, entry_note.number), user("x"))
    assert texts(decode(encode(moved)).session) == ["x"]


def test_results_of_renamed_calls_are_written_with_the_id_of_the_file():
    session = read([ASK, CALLS, RESULT, CALLS]).session
    assert open_calls(session) == ("c1_2",)
    written = encode(record(session, tool_result("c1_2", "again"), user("x")))
    assert json.loads(written)[4]["tool_call_id"] == "c1"
    assert texts(decode(written).session) == ["hi", "", "42", "", "again", "x"]


# Cassettes


def cassette(*pairs, **fields):
    recorded = []
    for messages_, answer in pairs:
        body = {"model": "m", "messages": messages_}
        answered = (
            {}
            if answer is None
            else {"choices": [{"message": answer}], "usage": {"prompt_tokens": 3}}
        )
        recorded.append(
            {"request": {"parsed_body": body, **fields}, "response": {"parsed_body": answered}}
        )
    return {"interactions": recorded, "version": 1}


def written(value):
    # A copy without shared values: the dumper would write them as aliases.
    return yaml.safe_dump(json.loads(json.dumps(value)), allow_unicode=True).encode()


def test_interactions_with_another_history_are_left_out():
    other = [{"role": "user", "content": "other"}]
    data = written(cassette(([ASK], DONE), (other, DONE), ([ASK, DONE, ASK], None), ([ASK], DONE)))
    decoded = read(data)
    assert codes(decoded) == {"unknown-request": 1}
    assert decoded.repairs[0].line == 2
    assert texts(decoded.session) == ["hi", "done", "hi"]
    assert account(decoded.session).usage == Usage(3)
    assert decoded.session.head.route.model == "m"
    assert json.loads(encode(record(decoded.session, user("x"))))["model"] == "m"


def test_the_head_of_a_request_without_an_answer_holds_at_the_end():
    value = cassette(([ASK], DONE), ([ASK, DONE, ASK], None))
    value["interactions"][1]["request"]["parsed_body"]["model"] = "n"
    decoded = read(written(value))
    assert [request.head.route.model for request in requests(decoded.session)] == ["m"]
    assert decoded.session.head.route.model == "n"


def test_bodies_may_be_text_and_other_calls_are_passed_over():
    value = cassette(([ASK], DONE), ([ASK, DONE, ASK], DONE))
    for pair in value["interactions"]:
        for side in pair.values():
            side["body"] = {"string": json.dumps(side.pop("parsed_body"))}
    value["interactions"] += [
        {"request": {"parsed_body": {"input": "x"}}, "response": {}},
        {"request": {"body": "not json"}, "response": 5},
        {"request": {"body": None}},
        {"request": {"uri": "https://x/v1/messages", "parsed_body": {"messages": [ASK] * 9}}},
        5,
    ]
    decoded = read(written(value))
    assert codes(decoded) == {"missing-field": 5}
    assert texts(decoded.session) == ["hi", "done", "hi", "done"]
    uri = cassette(([ASK], {"content": "no role"}), uri="https://x/v1/chat/completions")
    assert texts(read(written(uri)).session) == ["hi"]


def test_an_answer_in_events_is_put_together():
    def asked(index, arguments, **fields):
        return {"index": index, "function": {"arguments": arguments, **fields}}

    deltas = [
        {"role": "assistant", "content": None, "refusal": None},
        {"reasoning_content": "h"},
        {"reasoning_content": "m", "content": "Look"},
        {"content": "."},
        {"tool_calls": [{"id": "c1", **asked(0, "", name="read")}]},
        {"tool_calls": [asked(0, '{"a"'), {"id": "c2", **asked(1, "{}", name="ls")}, 5]},
        {"tool_calls": [asked(0, ": 1.50}")]},
        {"tool_calls": 5, "odd": 1},
        5,
    ]
    chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
    chunks += [{"choices": []}, {"choices": [5]}, {"usage": {"prompt_tokens": 9}}]
    stream = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks) + "data: [DONE]\n\n"
    value = cassette(([ASK], None))
    value["interactions"][0]["response"] = {"body": {"string": stream}}
    decoded = read(written(value))
    assert shown(decoded.session)[1].parts == (
        Thinking("hm"),
        Text("Look."),
        ToolCall("c1", "read", '{"a": 1.50}'),
        ToolCall("c2", "ls"),
    )
    assert account(decoded.session).usage == Usage(9)
    value["interactions"][0]["response"] = {"body": {"string": "data: {}\n\ndata: 5\n"}}
    assert texts(read(written(value)).session) == ["hi"]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("interactions:\n- *a\n", "invalid-yaml", 2),
        ("interactions:\n- &a [x]\n- *a\n", "invalid-yaml", 3),
        ("interactions: [\n", "invalid-yaml", 2),
        ("interactions:\n\t- x\n", "invalid-yaml", 2),
        ("interactions: []\n---\nx\n", "invalid-yaml", 3),
        ("interactions:\n- ? [a]\n  : b\n", "invalid-yaml", 2),
        ("interactions:\n- a: .nan\n", "invalid-number", 2),
        ("interactions:\n- a: -.Inf\n", "invalid-number", 2),
        ("interactions: " + "[" * 10_000, "too-deep", 1),
        ("interactions: " + "[" * 600 + "]" * 600, "too-deep", 1),
        ("interactions: 5\n", "missing-field", 1),
        ("interactions: []\n", "missing-field", 1),
        ("interactions:\n- request: {}\n", "missing-field", 1),
        ("# x\ninteractions:\n- \x07\n", "invalid-yaml", None),
    ],
)
def test_cassettes_that_cannot_be_read(text, code, line):
    with pytest.raises(DecodeError) as caught:
        decode(text.encode(), file="f")
    assert (caught.value.code, caught.value.file) == (code, "f")
    assert caught.value.line == line or line is None


def test_yaml_is_read_as_json_says_it():
    text = """
    a: [1, 1.50, -0, 1e3, 0x10, 1_000, yes, True, ~, null, '', '1', .5, 2020-01-01, !!binary aGk=]
    b: |
      two
      lines
    ? c
    : {}
    """
    value = read_yaml(text)
    assert [getattr(item, "text", item) for item in value["a"]] == [
        *("1", "1.50", "-0", "1e3", "0x10", "1_000", "yes", "True"),
        *(None, None, "", "1", ".5", "2020-01-01", "aGk="),
    ]
    assert value["b"] == "two\nlines\n"
    assert value["c"] == {}
    assert read_yaml("") is None
    with pytest.raises(DecodeError) as caught:
        read_yaml('a: "\\ud800"')
    assert caught.value.code in {"lone-surrogate", "invalid-yaml"}


def test_yaml_without_its_extra_is_one_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(DecodeError, match=r"ctxalgebra\[yaml\]") as caught:
        decode(b"interactions: []\n")
    assert caught.value.code == "missing-extra"


def test_yaml_is_read_by_the_slow_parser_alike(monkeypatch):
    data = written(cassette(([ASK], {**DONE, "content": "é 😀"})))
    fast = decode(data).session
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert decode(data).session == fast
    with pytest.raises(DecodeError) as caught:
        read_yaml('a: "\\ud800"')
    assert caught.value.code == "lone-surrogate"


# Generated files

IDS = st.sampled_from(["c1", "c2", "c3", "c4", "c5", ""])
WORDS = st.sampled_from(["", "hi", "  ", "\u2028é\x01", "x" * 50])
PARTS = st.one_of(
    WORDS.map(lambda text: {"type": "text", "text": text}),
    st.sampled_from(
        [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}},
            {"type": "image_url", "image_url": {"url": "http://x", "detail": "low"}},
            {"type": "input_audio"},
            5,
            {"type": "tool_call", "id": "c1"},
            {"type": "thinking", "thinking": "t"},
        ]
    ),
)
CONTENT = st.one_of(WORDS, st.none(), st.lists(PARTS, max_size=3), st.just({"a": 1}))
MADE_CALLS = st.one_of(
    st.builds(call, IDS, st.sampled_from(["{}", '{"a": 1}', "", {"b": 1.5}]), index=st.just(0)),
    IDS.map(lambda name: {"name": "read", "args": {"x": 1}, "id": name, "type": "tool_call"}),
    st.just(7),
)
ELEMENTS = st.one_of(
    st.builds(
        lambda role, content, more: {"role": role, "content": content, **more},
        st.sampled_from(["user", "system", "developer"]),
        CONTENT,
        st.sampled_from([{}, {"name": "bob", "timestamp": 1.5}]),
    ),
    st.builds(
        lambda content, calls, more: {
            "role": "assistant",
            "content": content,
            **({"tool_calls": calls} if calls else {}),
            **more,
        },
        CONTENT,
        st.lists(MADE_CALLS, max_size=3),
        st.sampled_from([{}, {"reasoning_content": "hm"}, {"usage": {"prompt_tokens": 3}}]),
    ),
    st.builds(
        lambda content, name, more: {
            "role": "tool",
            "content": content,
            "tool_call_id": name,
            **more,
        },
        CONTENT,
        IDS,
        st.sampled_from([{}, {"name": "read"}, {"is_error": True}]),
    ),
    st.sampled_from(
        [{"role": "function", "name": "f", "content": "x"}, {"role": "odd"}, {"x": 1}, 5, None]
    ),
)


def contain(elements, container, indent):
    dumped = [json.dumps(element, ensure_ascii=False) for element in elements]
    match container:
        case "list":
            return json.dumps(elements, indent=indent)
        case "body":
            tools = [{"type": "function", "function": {"name": "read"}}]
            body = {"model": "gpt", "system": "sys", "messages": elements, "tools": tools, "n": 1.5}
            return json.dumps(body, indent=indent)
        case "trace":
            return json.dumps({"observations": [{"output": {"messages": elements}}]}, indent=indent)
        case "uneven":
            gaps = accumulate(
                dumped, lambda text, element: f"{text}{' ' * (len(text) % 3)},{element}"
            )
            return f"[{[*gaps, ''][-2] if dumped else ''} ]\n"
        case _:
            lines = ['{"_type": "metadata"}', *dumped, "{bad", ""]
            return "\n".join(lines[: len(lines) - (indent or 0)])


@settings(max_examples=250)
@given(
    st.lists(ELEMENTS, max_size=14),
    st.sampled_from(["list", "body", "trace", "uneven", "lines"]),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_generated_files_come_back_byte_for_byte_and_go_on(elements, container, indent, change):
    data = contain(elements, container, indent).encode()
    try:
        decoded = decode(data)
    except DecodeError as error:
        code = error.code
    else:
        code = None
        assert encode(decoded.session) == data
        goes_on(decoded, container, change=change)
    assert code is None or code in CODES


def goes_on(decoded, container, *, change):
    session = decoded.session
    if open_calls(session) and {"reused-id", "missing-id"} & codes(decoded).keys():
        return
    for name in open_calls(session):
        session = abandon(session, name, "gone")
    session = record(session, user("new"))
    if change:
        route = evolve(session.head.route, model="m2")
        session = record(session, Head(route, "new sys", (Tool("q", "d", '{"a":1}'),)))
    session = record(send(session)[0], user("steer"))
    done = assistant("ok", Thinking("x", "sig"), ToolCall("zz", "read", '{"a": 1}'), "after")
    session = record(reply(session, "completed", done), tool_result("zz", "fine", error=True))
    session = reply(send(session)[0], "aborted", assistant("no"))

    def plain(request):
        return [(m.role, m.parts, m.call, m.error) for m in request.messages]

    again = decode(encode(session)).session
    assert plain(project(again)) == plain(project(session))
    assert again.head.system == session.head.system
    if container == "body":
        assert (again.head.tools, again.head.route) == (session.head.tools, session.head.route)


def test_origins_of_messages_are_their_own_text():
    session = read([ASK, DONE], indent=2).session
    for node in log(session):
        message = getattr(node.entry, "message", node.entry)
        if isinstance(message, Message):
            assert json.loads(message.origin) in (ASK, DONE)


# Requests: the fields that the API knows


def sent(*messages):
    return encode_request(Request(Head(), messages))["messages"]


def test_requests_hold_what_the_api_knows():
    call = ToolCall("c1", "ls", "{}", signature="sig")
    parts = (Thinking("a"), Thinking("b", "sig"), Text("x"), Opaque("server", "{}"), call)
    session = record(Session(), user("go"), evolve(assistant(*parts, Text("y")), id="m1"))
    session = record(session, tool_result("c1", "no", name="ls", error=True))
    function = {"name": "ls", "arguments": "{}"}
    assert encode_request(project(session))["messages"] == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "reasoning_content": "a",
            "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}],
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "no", "tool_call_id": "c1"},
    ]
    # The file holds more, so that it is read again.
    last = json.loads(encode(session))["messages"][-1]
    assert (last["is_error"], last["name"]) == (True, "ls")
    assert sent(assistant(Opaque("server", "{}"))) == [{"role": "assistant", "content": ""}]


def test_requests_hold_what_was_read_in_the_shape_of_the_api():
    audio = {"type": "input_audio", "input_audio": {"data": "aa", "format": "wav"}}
    marked = {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}
    content = [{"type": "input_text", "text": "a"}, marked, audio, {"type": "citation"}]
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    extra = {"google": {"thought_signature": "s"}}
    calls = [
        {"name": "ls", "args": {"a": 1}, "id": "c1", "type": "tool_call"},
        {"id": "c2", "function": {"name": "ls", "arguments": "{}"}, "extra_content": extra},
        {"id": "c3", "type": "custom", "custom": {"name": "py", "input": "1"}},
        7,
    ]
    rows = [
        {"role": "developer", "content": "Be brief.", "created_at": 1, "id": "m1"},
        {"role": "user", "name": "Ann", "content": [*content, image]},
        {"role": "assistant", "content": None, "tool_calls": calls, "metrics": {}},
        {"role": "function", "name": "ls", "content": "1"},
    ]
    url = {"url": "data:image/png;base64,aGk="}
    function = {"name": "ls", "arguments": '{"a":1}'}
    assert sent(*decode_messages(rows)) == [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "name": "Ann",
            "content": [
                {"type": "text", "text": "a"},
                *(marked, audio, {"type": "image_url", "image_url": url}),
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": function}, *calls[1:3]],
        },
        rows[3],
    ]
