"""OpenAI Responses: items to messages and back, containers, heads, and that the bytes come back."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    CODES,
    DecodeError,
    Head,
    Image,
    InvalidArgument,
    Message,
    Opaque,
    Reply,
    Route,
    Session,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Usage,
    assistant,
    at_leaf,
    log,
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
from ctxalgebra.codecs import CODECS, detect, load, openai_responses
from ctxalgebra.codecs.lines import parse
from ctxalgebra.codecs.openai_responses import decode, encode, encode_request, holds_items
from ctxalgebra.codecs.responses_items import decode_items, join, read_item, read_usage
from ctxalgebra.codecs.responses_write import encode_items, unwritten
from ctxalgebra.laws.strategies import journals, messages, sessions
from ctxalgebra.protocol import DEFECTS

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions" / "openai-responses"
FILES = sorted(SHARED.glob("*.*"))
real = pytest.mark.parametrize(
    "path",
    FILES
    or [pytest.param(None, marks=pytest.mark.skip(reason="needs ../shared/sessions, absent here"))],
    ids=lambda path: path and path.stem,
)

# Items


def said(role, text, **fields):
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **fields}


def content(*blocks, role="user"):
    return {"type": "message", "role": role, "content": [*blocks]}


def thought(name, **fields):
    summary = [{"type": "summary_text", "text": f"about {name}"}]
    return {"type": "reasoning", "id": name, "summary": summary, "encrypted_content": "x", **fields}


def function(call, arguments="{}", **fields):
    return {
        "type": "function_call",
        "call_id": call,
        "name": "ls",
        "arguments": arguments,
        **fields,
    }


def output(call, text="42", kind="function_call_output", **fields):
    return {"type": kind, "call_id": call, "output": text, **fields}


PNG = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
SEARCH = {"type": "tool_search_call", "execution": "server", "call_id": None, "arguments": {}}
FOUND = {"type": "tool_search_output", "execution": "server", "call_id": None, "tools": []}
CLIENT = {"type": "tool_search_call", "execution": "client", "call_id": "s1", "arguments": {"q": 1}}
TOOLS = {"type": "tool_search_output", "execution": "client", "call_id": "s1", "tools": [{"a": 1}]}
WEB = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
SHELL = {"type": "local_shell_call", "call_id": "l1", "id": "lsh", "action": {"command": ["ls"]}}
PATCH = {"type": "apply_patch_call", "call_id": "p1", "operation": {"type": "create_file"}}
CUSTOM = {
    "type": "custom_tool_call",
    "call_id": "x1",
    "id": "ctc",
    "name": "py",
    "input": 'a = "b"\n',
}


def item_of(item):
    return read_item(parse(json.dumps(item)))


ITEMS = [
    {"role": "user", "content": "hi"},
    {"role": "user", "content": ""},
    {"role": "assistant", "content": "hi", "phase": "final_answer"},
    {"type": "message", "role": "assistant", "content": [], "id": "msg_0"},
    {"type": "message", "role": "user", "content": None},
    said("user", "hi", id="u1", extra=[1.50]),
    said("developer", "be brief"),
    said("system", "be brief"),
    said("assistant", "a", id="msg_1", status="completed"),
    content({"type": "refusal", "refusal": "no"}, role="assistant"),
    content(PNG),
    content({**PNG, "image_url": "https://x", "detail": "low"}),
    content({**PNG, "image_url": None, "file_id": "f"}),
    content(7, {"type": "new"}, {"type": "input_file", "file_id": "f"}),
    {**said("user", ""), "content": {"type": "input_text", "text": "no list"}},
    content({"type": "tool_use", "id": "t1", "name": "Read", "input": {"a": 1}}, role="assistant"),
    thought("rs_1"),
    thought("rs_2", content=[{"type": "reasoning_text", "text": "in clear"}]),
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "bare"}]},
    {"type": "reasoning", "summary": [], "encrypted_content": "x"},
    {"type": "reasoning", "summary": []},
    {"type": "reasoning", "summary": None, "content": [3]},
    function("c1"),
    function("c1", '{"a": 1, "b":2}', id="fc_1", status="completed", namespace="n"),
    function("c2", "no json"),
    function("c2", {"a": 1}),
    function("c2", None),
    function("c3", '"text"'),
    CUSTOM,
    {**CUSTOM, "input": {"no": "text"}},
    {**CUSTOM, "input": "{}"},
    SEARCH,
    FOUND,
    CLIENT,
    TOOLS,
    WEB,
    SHELL,
    {**SHELL, "call_id": None},
    PATCH,
    {"type": "compaction", "encrypted_content": "x", "id": "cmp_1"},
    {"type": "item_reference", "id": "msg_9"},
    {"type": "mcp_approval_response", "approve": True, "approval_request_id": "r"},
    {"type": "agent_message", "content": []},
    {"type": "of_tomorrow", "call_id": "c1"},
    output("c1"),
    output("c1", ""),
    output("c1", [{"type": "input_text", "text": "a"}, PNG]),
    output("c1", {"type": "input_text", "text": "no list"}),
    output("c1", status="incomplete", id="fco"),
    output("x1", kind="custom_tool_call_output"),
    output("l1", kind="local_shell_call_output", status="completed"),
    output("p1", kind="apply_patch_call_output", status="failed"),
    output("c9", {"type": "computer_screenshot", "image_url": "u"}, "computer_call_output"),
]  # fmt: skip


@given(st.lists(st.sampled_from(ITEMS), max_size=8))
def test_items_come_back_as_they_were(items):
    read = decode_items(items)
    assert encode_items(read) == items
    roles = [m.role for m in read]
    assert all(pair != ("assistant", "assistant") for pair in pairwise(roles))
    assert sum(len(json.loads(m.origin)) for m in read) == len(items)


def test_what_a_response_said_is_one_message():
    web = [thought("rs_1"), WEB, thought("rs_2"), function("c1", id="fc"), function("c2")]
    rest = [output("c1"), output("c2"), said("assistant", "done", id="msg_1")]
    asked, *results, done = decode_items([*web, *rest])
    kinds = [part.kind for part in asked.parts]
    assert kinds == ["thinking", "opaque", "thinking", "tool-call", "tool-call"]
    assert [(m.role, m.call) for m in results] == [("tool", "c1"), ("tool", "c2")]
    assert done.parts == (Text("done"),)
    thinking = asked.parts[0]
    assert thinking.text == "about rs_1"
    assert json.loads(thinking.signature) == thought("rs_1")


def test_reasoning_is_its_text_in_clear_or_else_its_summary():
    clear = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": t} for t in "ab"]}
    two = [{"type": "summary_text", "text": text} for text in "cd"]
    (both,) = decode_items([{**clear, "summary": two}])
    assert both.parts[0].text == "a\n\nb"
    (summed,) = decode_items([{"type": "reasoning", "summary": two}])
    assert (summed.parts[0].text, bool(summed.parts[0].signature)) == ("c\n\nd", True)
    (bare,) = decode_items([{"type": "reasoning", "summary": two[:1]}])
    assert bare.parts == (Thinking("c"),)


@pytest.mark.parametrize(
    ("item", "call"),
    [
        (function("c1", '{"a": 1}'), ToolCall("c1", "ls", '{"a": 1}')),
        (function("c1", {"a": 1}), ToolCall("c1", "ls", '{"a":1}')),
        ({"type": "function_call"}, ToolCall("", "", "{}")),
        (CUSTOM, ToolCall("x1", "py", r'"a = \"b\"\n"')),
        (CLIENT, ToolCall("s1", "tool_search", '{"q":1}')),
        (SHELL, ToolCall("l1", "local_shell", '{"command":["ls"]}')),
        (PATCH, ToolCall("p1", "apply_patch", '{"type":"create_file"}')),
    ],
)
def test_calls_that_the_client_answers(item, call):
    assert item_of(item).parts == (call,)


def test_outputs():
    assert item_of(output("c1", [PNG])).parts == (Image("aGk=", "image/png"),)
    assert item_of(output("c1", [{**PNG, "image_url": "http://x"}])).parts == (
        Image("http://x", ""),
    )
    assert item_of(output("c1", "")).parts == ()
    assert item_of(output("c1", status="incomplete")).error
    found = item_of(TOOLS)
    assert (found.role, found.call, found.parts[0].type) == ("tool", "s1", "tool_search_output")


@pytest.mark.parametrize(
    ("item", "code", "field"),
    [
        ({"role": "judge", "content": "a"}, "wrong-role", "role"),
        ({"type": "message", "role": 1}, "wrong-role", "role"),
        ({"content": "a"}, "missing-field", "type"),
        ({"type": 5, "content": "a"}, "missing-field", "type"),
        (output(""), "missing-field", "call_id"),
        ({"type": "function_call_output", "call_id": 5}, "missing-field", "call_id"),
    ],
)
def test_what_is_no_item(item, code, field):
    with pytest.raises(DecodeError) as caught:
        decode_items([ITEMS[0], item])
    assert (caught.value.code, caught.value.field, caught.value.entry) == (code, field, 1)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ([1], "wrong-type"),
        ({"role": "user", "content": float("nan")}, "invalid-number"),
        ({"role": "user", "content": "\ud800"}, "lone-surrogate"),
    ],
)
def test_values_that_are_no_json_objects(value, code):
    with pytest.raises(DecodeError) as caught:
        decode_items([value])
    assert caught.value.code == code


def test_values_that_json_does_not_know():
    ring = {"role": "user"}
    ring["content"] = ring
    for value in ({"role": {1}}, ring):
        with pytest.raises(InvalidArgument) as caught:
            decode_items([value])
        assert (caught.value.code, caught.value.entry) == ("wrong-type", 0)


def test_a_response_may_have_an_id():
    (one,) = decode_items([said("assistant", "a")])
    assert join([one]) is one
    assert join([one], id="resp_1") == evolve(one, id="resp_1")
    assert encode_items([join([one], id="resp_1")]) == [said("assistant", "a")]


# Writing what was made or changed


def test_messages_made_here():
    made = [
        user("hi"),
        system("be brief"),
        assistant(
            Thinking("hm"), "a", "b", ToolCall("c1", "ls", '{"x": 1}'), ToolCall("x1", "py", '"f"')
        ),
        tool_result("c1", "42"),
        tool_result("x1", (Text("a"), Image("aGk=", "image/png")), error=True),
        user((Text("see"), Image("https://x", ""))),
    ]
    items = encode_items(made)
    assert items == [
        said("user", "hi"),
        said("developer", "be brief"),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text} for text in "ab"],
        },
        function("c1", '{"x": 1}'),
        {"type": "custom_tool_call", "call_id": "x1", "name": "py", "input": "f"},
        output("c1"),
        {
            "type": "custom_tool_call_output",
            "call_id": "x1",
            "output": [
                {"type": "input_text", "text": "a"},
                {
                    "type": "input_image",
                    "image_url": "data:image/png;base64,aGk=",
                    "detail": "auto",
                },
            ],
            "status": "incomplete",
        },
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "https://x", "detail": "auto"},
            ],
        },
    ]
    assert [evolve(m, origin="") for m in decode_items(items)] == made
    assert [unwritten(m) for m in made] == [()] * len(made)


@pytest.mark.parametrize("arguments", ['"\\u0041"', '"open', '"a" b', "", "[1]", '" x"'])
def test_arguments_that_are_no_free_text_stay_as_they_are(arguments):
    call = assistant(ToolCall("c1", "py", arguments))
    (item,) = encode_items([call])
    assert item["type"] == ("custom_tool_call" if arguments == '" x"' else "function_call")
    assert decode_items([item])[0].parts == call.parts


@given(st.lists(messages(), max_size=5))
def test_what_can_be_written_is_read_again(made):
    """All that `unwritten` does not list comes back; nothing raises, whatever the parts are."""
    for message in made:
        lost = unwritten(message)
        read = decode_items(encode_items([message]))
        if not lost:
            assert [p for m in read for p in m.parts] == list(message.parts)
            assert {m.role for m in read} <= {message.role}
        kept = [p for m in read for p in m.parts]
        opaque = [p for p in message.parts if isinstance(p, Opaque)]
        assert lost.count("server_tool") == len(opaque)
        texts = [p for p in message.parts if isinstance(p, Text)]
        assert [p for p in kept if isinstance(p, Text)] == texts
        if message.role == "tool":
            assert read[0].error == message.error
        assert encode_items(read) == encode_items([message])


def test_parts_of_other_providers_are_left_out_and_told():
    foreign = assistant(
        Thinking("a", "claude"),
        Thinking("cipher", "", redacted=True),
        ToolCall("c1", "ls", "{}", signature="gemini"),
        Opaque("document", '{"type":"document"}'),
        Opaque("compaction", '{"type":"compaction","content":"x"}'),
        Opaque("web_search_call", "no json"),
        Opaque("web_search_call", '{"type":"other"}'),
        Image("aGk=", "image/png"),
    )
    assert unwritten(foreign) == (
        "signature", "thinking", "signature", "document", "compaction",
        "web_search_call", "web_search_call", "image",
    )  # fmt: skip
    assert encode_items([foreign]) == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]},
        function("c1"),
    ]
    # An origin of another format is none of ours.
    theirs = '[{"role":"user","content":"a"}]'
    for origin in ('{"role":"assistant"}', "[1]", "[{}]", theirs, "{", "[]"):
        message = evolve(assistant("a"), origin=origin)
        assert encode_items([message]) == [said("assistant", "a")]


def test_blocks_of_content_that_are_ours():
    file = Opaque("input_file", '{"type":"input_file","file_id":"f"}')
    refusal = Opaque("refusal", '{"type":"refusal","refusal":"no"}')
    made = [user((file,)), assistant(refusal), assistant(file), user((refusal,))]
    assert [unwritten(m) for m in made] == [(), (), ("input_file",), ("refusal",)]
    assert [evolve(m, origin="") for m in decode_items(encode_items(made))] == made[:2]
    approval = Opaque("mcp_approval_response", '{"type":"mcp_approval_response"}')
    lone = Opaque("function_call_output", json.dumps(output("c1")))
    assert encode_items([user((approval, lone))]) == [{"type": approval.type}, output("c1")]


# A response of which something changed

RESPONSE = [
    thought("rs_1"),
    said("assistant", "looking", id="msg_1", phase="commentary"),
    WEB,
    thought("rs_2"),
    function("c1", '{"a": 1}', id="fc_1", namespace="n"),
    {**CUSTOM, "status": "completed"},
    said("assistant", "done", id="msg_2", phase="final_answer"),
]


def changed(**parts):
    (message,) = decode_items(RESPONSE)
    by_place = {int(place[1:]): part for place, part in parts.items()}
    kept = [by_place.get(place, part) for place, part in enumerate(message.parts)]
    items = encode_items([evolve(message, parts=tuple(p for p in kept if p is not None))])
    return {place: item for place, item in enumerate(items) if item not in RESPONSE}, items


def test_a_changed_call_keeps_its_item():
    differs, items = changed(_4=ToolCall("c1", "ls", '{"a":2}'))
    assert differs == {4: {**RESPONSE[4], "arguments": '{"a":2}'}}
    assert len(items) == len(RESPONSE)
    differs, _ = changed(_5=ToolCall("x1", "py", '"short"'))
    assert differs == {5: {**RESPONSE[5], "input": "short"}}
    differs, _ = changed(_5=ToolCall("x1", "py", "{"))
    assert differs == {
        5: {"type": "function_call", "call_id": "x1", "name": "py", "arguments": "{"}
    }
    differs, _ = changed(_5=ToolCall("x1", "py", '"\\u0041"'))
    assert differs[5]["arguments"] == '"\\u0041"'
    differs, _ = changed(_4=ToolCall("c7", "ls", "{}"))
    assert differs == {4: function("c7")}
    (message,) = decode_items([SHELL])
    shorter = ToolCall("l1", "local_shell", '{"command":[]}')
    assert encode_items([evolve(message, parts=(shorter,))]) == [
        {**SHELL, "action": {"command": []}}
    ]


def test_a_changed_text_keeps_its_item():
    differs, _ = changed(_1=Text("."))
    assert differs == {1: {**RESPONSE[1], "content": [{"type": "output_text", "text": "."}]}}
    differs, items = changed(_6=None)
    assert (differs, items) == ({}, RESPONSE[:6])


def test_what_lost_its_reasoning_loses_its_id():
    _, items = changed(_0=None)
    assert "id" not in items[0]
    assert items == [
        {k: v for k, v in item.items() if k != "id" or item["type"] == "reasoning"}
        for item in RESPONSE[1:]
    ]
    (message,) = decode_items([thought("rs_1"), {"type": "item_reference", "id": "msg_1"}])
    assert encode_items([evolve(message, parts=message.parts[1:])]) == [
        {"type": "item_reference", "id": "msg_1"}
    ]


def test_an_unknown_item_stays_as_long_as_its_message():
    (message,) = decode_items([{"type": "of_tomorrow"}, said("assistant", "a")])
    shorter = evolve(message, parts=(message.parts[0], Text("b")))
    assert encode_items([shorter])[0] == {"type": "of_tomorrow"}
    assert unwritten(evolve(shorter, origin="")) == ("of_tomorrow",)


def test_a_changed_message_keeps_its_other_blocks():
    image = {"type": "input_image", "image_url": "https://x", "detail": "low"}
    block = {"type": "of_tomorrow"}
    item = {**said("user", "long"), "id": "u1"}
    item["content"] += [image, block]
    (message,) = decode_items([item])
    shorter = evolve(message, parts=(Text("."), *message.parts[1:]))
    first = {"type": "input_text", "text": "."}
    assert encode_items([shorter]) == [{**item, "content": [first, image, block]}]
    assert unwritten(shorter) == ()
    converted = {**said("assistant", "a"), "id": "msg_1"}
    converted["content"] = [
        {"type": "input_text", "text": "a"},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {}},
    ]
    (message,) = decode_items([converted])
    assert encode_items([evolve(message, parts=(Text("b"), *message.parts[1:]))]) == [
        {**converted, "content": [{"type": "output_text", "text": "b"}]},
        {"type": "function_call", "call_id": "t1", "name": "Read", "arguments": "{}"},
    ]
    assert encode_items([evolve(message, parts=())]) == []


def test_changed_results():
    calls = [function("c1"), CUSTOM, PATCH, CLIENT]
    results = [
        output("c1", id="fco_1", status="incomplete"),
        output("x1", kind="custom_tool_call_output", extra=1),
        output("p1", kind="apply_patch_call_output", status="completed"),
        TOOLS,
    ]
    asked, one, two, three, four = decode_items([*calls, *results])
    short = (Text("."),)

    def written(*changed):
        return encode_items([asked, *changed])[len(calls) :]

    fine = evolve(one, parts=short, error=False)
    assert written(evolve(one, parts=short), fine) == [
        {**results[0], "output": "."},
        {**results[0], "output": ".", "status": "completed"},
    ]
    assert written(evolve(two, parts=short, origin=""), evolve(two, parts=short)) == [
        output("x1", ".", "custom_tool_call_output"),
        {**results[1], "output": "."},
    ]
    assert written(evolve(three, parts=short), evolve(three, parts=short, error=True)) == [
        {**results[2], "output": "."},
        {**results[2], "output": ".", "status": "failed"},
    ]
    gone = evolve(four, parts=short, origin="")
    again = evolve(four, error=True)
    assert written(gone, again, evolve(four, origin="")) == [
        {**TOOLS, "tools": [], "status": "completed"},
        {**TOOLS, "status": "completed"},
        {**TOOLS, "status": "completed"},
    ]
    assert encode_items([evolve(one, call="c5")])[0]["call_id"] == "c5"
    # What a result says it answers is what its call says it is.
    assert written(evolve(two, call="c1", origin=one.origin))[0]["type"] == "function_call_output"
    moved = [assistant(ToolCall("x1", "py")), two]
    assert encode_items(moved)[1] == output("x1")


# Usage


@pytest.mark.parametrize(
    ("value", "usage"),
    [
        (
            {
                "input_tokens": 100,
                "output_tokens": 7,
                "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 9},
            },
            Usage(100, 7, 64, 9),
        ),
        (
            {
                "input_tokens": 5,
                "cached_input_tokens": 3,
                "cache_write_input_tokens": 1,
                "output_tokens": 2,
            },
            Usage(5, 2, 3, 1),
        ),
        ({"input_tokens": 3, "input_tokens_details": {"cached_tokens": 9}}, Usage(12, 0, 9)),
        (
            {"input_tokens": 8, "cached_input_tokens": 8, "cache_write_input_tokens": 1},
            Usage(17, 0, 8, 1),
        ),
        ({"input_tokens": 0, "output_tokens": 0}, None),
        ({"input_tokens": -1, "output_tokens": 2}, None),
        (None, None),
    ],
)
def test_usage(value, usage):
    assert read_usage(parse(json.dumps(value))) == usage


def test_messages_of_one_item_name_it():
    (message,) = decode_items([said("user", "hi", id="u1")])
    assert message == Message("user", "hi", id="u1", origin=message.origin)


# Containers


def take(value, **options):
    data = value if isinstance(value, bytes) else json.dumps(value, **options).encode()
    decoded = decode(data)
    assert encode(decoded.session) == data
    assert {r.code for r in decoded.repairs} <= CODES.keys() | DEFECTS.keys()
    return decoded


def codes(decoded):
    return dict(Counter(r.code for r in decoded.repairs))


def shown(session):
    return [evolve(m, id="", origin="") for m in project(session).messages]


def usages(session):
    replies = [node.entry for node in log(session) if isinstance(node.entry, Reply)]
    return [entry.usage for entry in replies]


def body(*items, **fields):
    return {"model": "gpt-5.4", "input": [*items], **fields}


def answer(*items, **fields):
    counts = {"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}
    return {"object": "response", "output": [*items], "usage": counts, **fields}


COST = Usage(10, 2, 4)
ASK = {"role": "user", "content": "hi"}
TALK = [ASK, thought("rs_1"), function("c1", id="fc_1"), output("c1"), said("assistant", "done")]


def cassette(*pairs, address="https://api.openai.com/v1/responses"):
    calls = [
        {"request": {"uri": address, "parsed_body": asked}, "response": response}
        for asked, response in pairs
    ]
    # Without aliases, which are not read.
    copies = json.loads(json.dumps({"interactions": calls, "version": 1}))
    return yaml.safe_dump(copies).encode()


@pytest.mark.parametrize("indent", [None, 2])
def test_a_body(indent):
    decoded = take(body(*TALK, instructions="Be brief.", store=False), indent=indent)
    assert decoded.repairs == ()
    session = decoded.session
    assert [m.role for m in shown(session)] == ["user", "assistant", "tool", "assistant"]
    assert [len(r.messages) for r in requests(session)] == [1, 3]
    assert (session.head.system, session.head.route.model) == ("Be brief.", "gpt-5.4")
    more = json.loads(encode(record(session, user("more"), assistant("yes"))))
    assert more == body(
        *TALK, said("user", "more"), said("assistant", "yes"), instructions="Be brief.", store=False
    )


def test_a_list_and_lines():
    assert len(shown(take(TALK).session)) == 4
    lines = "".join(json.dumps(item) + "\n" for item in TALK).encode()
    decoded = take(lines)
    assert len(shown(decoded.session)) == 4
    more = encode(record(decoded.session, user("more")))
    assert json.loads(more[len(lines) :]) == said("user", "more")
    broken = take(lines[:-1] + b"\n\n[1]\n{\n" + json.dumps(ASK).encode())
    assert codes(broken) == {"wrong-type": 1, "invalid-json": 1}
    assert len(shown(broken.session)) == 5


def test_a_text_in_place_of_a_list():
    decoded = take({"model": "gpt-5.4", "input": "hi", "tools": []})
    assert shown(decoded.session) == [user("hi")]
    more = json.loads(encode(record(decoded.session, assistant("yes"))))
    assert more["input"] == [ASK, said("assistant", "yes")]


def test_a_response_by_itself():
    decoded = take(answer(*TALK[1:3], model="gpt-5.4"))
    assert codes(decoded) == {"empty-request": 1}
    assert [p.kind for p in shown(decoded.session)[0].parts] == ["thinking", "tool-call"]
    more = json.loads(encode(record(decoded.session, tool_result("c1", "42"))))
    assert more["output"] == [*TALK[1:3], output("c1")]


def test_a_cassette():
    first, last = answer(*TALK[1:3]), answer(TALK[4])
    data = cassette(
        (body(*TALK[:1]), {"parsed_body": first}), (body(*TALK[:4]), {"parsed_body": last})
    )
    decoded = take(data)
    assert decoded.repairs == ()
    assert usages(decoded.session) == [COST, COST]
    asked = [encode_request(request) for request in requests(decoded.session)]
    assert asked == [body(*TALK[:1]), body(*TALK[:4])]
    more = json.loads(encode(record(decoded.session, user("more"))))
    assert more == body(*TALK, said("user", "more"))


def test_a_reply_ends_where_its_request_began():
    """What was sent in front of an answer is no part of it, though both are the model's."""
    begun = [ASK, said("assistant", "so")]
    data = cassette((body(*begun), {"parsed_body": answer(said("assistant", "done"))}))
    decoded = take(data)
    assert shown(decoded.session) == [user("hi"), assistant("so"), assistant("done")]
    assert usages(decoded.session) == [None, COST]


def events(*values):
    return {"body": {"string": "".join(f"event: x\ndata: {json.dumps(v)}\n\n" for v in values)}}


def test_a_stream_of_events():
    started = {"type": "response.created", "response": {"output": [], "usage": None}}
    done = {"type": "response.output_item.done", "item": said("assistant", "done")}
    ended = {"type": "response.completed", "response": answer(said("assistant", "done"))}
    for stream, usage in (((started, done, ended), COST), ((started, done), None)):
        decoded = take(cassette((body(ASK), events(*stream))))
        assert shown(decoded.session) == [user("hi"), assistant("done")]
        assert usages(decoded.session) == [usage]
    silent = take(cassette((body(ASK), events({"type": "error"}, {"response": 3}))))
    assert shown(silent.session) == [user("hi")]


def test_requests_with_another_history_or_of_another_api():
    other = body(said("user", "else"))
    decoded = take(cassette((body(*TALK), {}), (other, {}), ({"model": "m"}, {})))
    assert codes(decoded) == {"unknown-request": 1, "missing-field": 1}
    with pytest.raises(DecodeError) as caught:
        decode(cassette((body(ASK), {}), address="https://api.openai.com/v1/embeddings"))
    assert caught.value.code == "missing-field"


def trace(*observations):
    return {"trace": {"id": "t"}, "observations": [*observations]}


def test_a_trace():
    noise = {"type": "AGENT", "input": None, "output": None}
    head = {"model": "gpt-4.1", "instructions": "Be brief.", "tools": []}
    later = {"input": TALK[:4], "output": answer(TALK[4], **head)}
    first = {"input": body(*TALK[:1], **head), "output": answer(*TALK[1:3])}
    decoded = take(trace(noise, later, first, {"input": ["text"]}), indent=1)
    assert decoded.repairs == ()
    session = decoded.session
    assert [m.role for m in shown(session)] == ["user", "assistant", "tool", "assistant"]
    assert usages(session) == [COST, COST]
    assert (session.head.route.model, session.head.system) == ("gpt-4.1", "Be brief.")
    more = json.loads(encode(record(session, user("more"))))
    assert more["input"] == [*TALK, said("user", "more")]
    for value in (trace(noise), {"observations": 3}, '{"observations": '):
        with pytest.raises(DecodeError):
            decode((value if isinstance(value, str) else json.dumps(value)).encode())


@pytest.mark.parametrize(
    ("data", "code", "field"),
    [
        (b"", "empty-file", None),
        (b" \n\t", "empty-file", None),
        (b"\xff", "invalid-utf8", None),
        (b"7", "wrong-type", None),
        (b"{}", "missing-field", "input"),
        (b'{"input": 7}', "missing-field", "input"),
        (b"[7]", "wrong-type", None),
        (b'[{"a": 1}]', "missing-field", "type"),
        (b'{"input": [{"role": "judge"}]}', "wrong-role", "role"),
        (b'{"input": [', "invalid-json", None),
        (b'[{"type": "reasoning", "a": NaN}]', "invalid-number", "[0].a"),
    ],
)
def test_errors(data, code, field):
    with pytest.raises(DecodeError) as caught:
        decode(data, file="f")
    assert (caught.value.code, caught.value.field, caught.value.file) == (code, field, "f")


def test_items_that_can_t_be_read_keep_their_place():
    decoded = take([ASK, {"role": "judge"}, 5, {"type": "function_call_output"}, TALK[4]])
    assert codes(decoded) == {"wrong-role": 1, "wrong-type": 1, "missing-field": 1}
    assert shown(decoded.session) == [user("hi"), assistant("done")]


def test_defects_of_pairing():
    calls = [function("c1"), function("c2"), function("c1", id="fc")]
    decoded = take([ASK, *calls, {**ASK, "content": ""}, output("c2"), output("c9"), ASK])
    assert codes(decoded) == {"reused-id": 1, "orphan-result": 1, "empty-content": 1}
    late = record(decoded.session, tool_result("c1", "1"), tool_result("c1_2", "3"))
    items = json.loads(encode(late))[-2:]
    assert items == [output("c1", "1"), output("c1", "3")]


# Heads

FUNCTION = {"type": "function", "name": "ls", "description": "List.", "parameters": {"a": 1.50}}


def test_the_head_of_a_body():
    session = take(body(ASK, instructions="Be brief.", tools=[FUNCTION])).session
    tool = Tool("ls", "List.", '{"a":1.5}')
    assert session.head == Head(Route("openai", "gpt-5.4", (), "none"), "Be brief.", (tool,))
    assert encode_request(project(session)) == body(ASK, instructions="Be brief.", tools=[FUNCTION])


def test_others_offer_the_api_too():
    for host, provider in (("api.openai.com/v1", "openai"), ("api.deepseek.com", "")):
        session = take(cassette((body(ASK), {}), address=f"https://{host}/responses")).session
        assert session.head.route.provider == provider


def test_what_keys_the_cache_is_a_parameter_of_the_route():
    tools = [{"type": "web_search"}, {**FUNCTION, "strict": True}, 7]
    fields = {"reasoning": {"effort": "low"}, "tool_choice": "auto", "text": None, "tools": tools}
    session = take(body(ASK, **fields)).session
    assert [key for key, _ in session.head.route.parameters] == [
        "reasoning",
        "tool_choice",
        "tools",
    ]
    again = encode_request(project(session))
    assert again == {k: v for k, v in body(ASK, **fields).items() if v is not None}
    other = Tool("cat", schema="no json")
    head = evolve(session.head, tools=(other, *session.head.tools))
    changed = json.loads(encode(record(session, head)))
    fresh = {"type": "function", "name": "cat", "parameters": {}}
    assert changed["tools"] == [*tools, fresh]
    assert (changed["text"], changed["reasoning"]) == (None, {"effort": "low"})
    longer = evolve(head, tools=(evolve(session.head.tools[0], description="Long."),))
    assert json.loads(encode(record(session, longer)))["tools"] == [
        tools[0], 7, {**FUNCTION, "description": "Long."},
    ]  # fmt: skip


def test_parameters_of_other_apis_are_none_of_a_body():
    route = Route("openai", "gpt-5.4", (("api", '"x"'), ("reasoning", "{"), ("text", "{}")))
    made = encode_request(project(record(Session(), Head(route), user("hi"))))
    assert made == {"model": "gpt-5.4", "text": {}, "input": [said("user", "hi")]}


def test_reasoning_that_proves_nothing_is_not_sent():
    session = record(Session(), user("hi"), assistant(Thinking("so"), "done"))
    assert [item["type"] for item in encode_request(project(session))["input"]] == ["message"] * 2
    assert [item["type"] for item in json.loads(encode(session))["input"]] == [
        "message", "reasoning", "message",
    ]  # fmt: skip
    named = decode_items([ASK, thought("rs_1"), {"type": "reasoning", "encrypted_content": "x"}])
    sent = encode_request(project(record(Session(), *named)))["input"]
    assert [item.get("id") for item in sent] == [None, "rs_1", None]


def test_leading_system_messages_join_the_system_text():
    lead = [said("developer", "One."), {"role": "system", "content": "Two."}]
    for beside in ({}, {"instructions": "Zero."}):
        session = take(body(*lead, ASK, said("system", "Later."), **beside)).session
        whole = "\n\n".join([*beside.values(), "One.", "Two."])
        assert session.head.system == whole
        assert [m.role for m in shown(session)] == ["user", "system"]
        assert encode_request(project(session))["instructions"] == whole
        # Changed, it stands in one place.
        changed = json.loads(encode(record(session, evolve(session.head, system="New."))))
        rest = [ASK, said("system", "Later.")]
        if beside:
            assert changed == body(*rest, instructions="New.")
        else:
            assert changed == body(said("developer", "New."), *rest)
    image = take(body(content(PNG, role="developer"), ASK)).session
    assert (image.head.system, [m.role for m in shown(image)]) == ("", ["system", "user"])
    gone = record(session, evolve(session.head, system=""))
    assert json.loads(encode(gone)) == body(*rest)


def test_a_session_from_elsewhere():
    head = Head(Route("", "gpt-5.4"), "Be brief.", (Tool("ls"),))
    session, _ = send(record(Session(), head, user("hi")))
    session = reply(session, "completed", assistant(ToolCall("c1", "ls")))
    assert json.loads(encode(record(session, tool_result("c1", "42")))) == body(
        said("user", "hi"),
        function("c1"),
        output("c1"),
        instructions="Be brief.",
        tools=[{"type": "function", "name": "ls", "parameters": {}}],
    )


# Histories that stand on the server (V-R4)


def test_an_output_whose_call_stands_on_the_server_is_legal():
    items = [output("c1", id="fco"), ASK, function("c2"), output("c2")]
    decoded = take(body(*items, previous_response_id="resp_1"))
    assert decoded.repairs == ()
    lone, *rest = shown(decoded.session)
    assert (lone.role, lone.parts[0].type) == ("user", "function_call_output")
    assert [m.role for m in rest] == ["user", "assistant", "tool"]
    sent = encode_request(project(decoded.session))
    assert sent == body(*items, previous_response_id="resp_1")
    assert codes(take(body(*items))) == {"orphan-result": 1}


# Everything together


def written_of(session):
    """Give the messages of a path that this format has a place for."""
    entries = [node.entry for node in path(session)]
    replies = [e.message for e in entries if isinstance(e, Reply) and e.outcome == "completed"]
    return [*(e for e in entries if isinstance(e, Message)), *replies]


@given(st.lists(st.sampled_from([*ITEMS, *TALK, 5, {"role": "judge"}, {}]), max_size=9), st.data())
def test_whatever_is_in_a_list_comes_back(items, data):
    readable = [item for item in items if item not in (5, {"role": "judge"}, {})]
    if items and not readable:
        with pytest.raises(DecodeError):
            decode(json.dumps(items).encode())
        return
    session = take(items).session
    assert json.loads(encode(record(session, user("more")))) == [*items, said("user", "more")]
    numbers = [-1, *(node.number for node in log(session))]
    there = at_leaf(session, data.draw(st.sampled_from(numbers)))
    again = json.loads(encode(there))
    assert isinstance(again, list) or not path(there)
    fresh = [item for item in again if item not in items]
    assert all(item["type"] in ("function_call", "message") or "output" in item for item in fresh)


@given(st.one_of(sessions(), journals()))
def test_sessions_from_elsewhere_are_written_and_read(session):
    again = decode(encode(session)).session

    def said(session, *lead):
        parts = [part for m in written_of(session) for part in m.parts]
        texts = [*lead, *(part.text for part in parts if isinstance(part, Text))]
        calls = [(c.name, c.arguments) for c in parts if isinstance(c, ToolCall)]
        return Counter(t for t in texts if t.strip()), Counter(calls)

    # Leading system messages are a part of the system text now.
    lead = again.head.system.removeprefix(session.head.system).split("\n\n")
    assert said(again, *lead) == said(session)
    assert encode(again) == encode(session)


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ([ASK], False),
        ([said("user", "hi")], True),
        ([thought("rs_1")], True),
        (said("user", "hi"), True),
        ({"type": "message", "message": {}}, False),
        ({"type": "message", "role": "user", "content": [{"type": "text", "text": "a"}]}, False),
        (body(ASK), True),
        (answer(TALK[4]), True),
        ({"model": "gpt-5", "input": "hi"}, True),
        ({"input": "hi"}, False),
        ({"type": "turn.prompt", "input": [{"type": "text", "text": "hi"}]}, False),
        ({"messages": [ASK]}, False),
        (trace({"input": [ASK]}), True),
        (trace({"input": {"messages": [ASK]}}), False),
        (7, False),
    ],
)
def test_what_holds_items(value, known):
    assert holds_items(parse(json.dumps(value))) is known


# Real files


@real
def test_real_files(path):
    decoded = take(path.read_bytes())
    assert set(codes(decoded)) <= {"empty-request"}
    assert all(usage is not None and usage.input > 0 for usage in usages(decoded.session))
    asked = [encode_request(request) for request in requests(decoded.session)]
    if path.suffix == ".yaml":
        calls = yaml.safe_load(path.read_text(encoding="utf-8"))["interactions"]
        bodies = [call["request"]["parsed_body"] for call in calls]
        for ours, theirs in zip(asked, bodies, strict=True):
            assert ours == {key: theirs[key] for key in theirs if key not in ("stream", "include")}
    else:
        assert [len(one["input"]) for one in asked] == [1, 3]
    more = decode(encode(record(decoded.session, user("more"))))
    assert shown(more.session) == [*shown(decoded.session), user("more")]


def test_it_is_one_of_the_codecs():
    codec = CODECS[openai_responses.NAME]
    assert (codec.decode, codec.encode) == (decode, encode)
    lines = "\n".join(map(json.dumps, TALK)).encode()
    files = [json.dumps(value).encode() for value in (TALK, body(ASK), answer(TALK[4]), TALK[4])]
    asked = json.dumps(trace({"input": [ASK]}), indent=1).encode()
    for data in (*files, lines, asked, cassette((body(ASK), {}))):
        assert detect(data) == "openai-responses"


@real
def test_real_files_are_recognised(path):
    assert load(path) == decode(path.read_bytes())


def test_each_recorded_request_has_its_own_instructions():
    calls = []
    asked = [{"role": "developer", "content": "Always."}, {"role": "user", "content": "a"}]
    for instructions in ("Be brief.", "Be long."):
        body = {"instructions": instructions, "input": [*asked]}
        answer = {"type": "message", "role": "assistant", "content": "b"}
        response = {"parsed_body": {"object": "response", "output": [answer]}}
        calls.append(
            {"request": {"uri": "x/v1/responses", "parsed_body": body}, "response": response}
        )
        asked += [answer, {"role": "user", "content": "c"}]
    data = f"interactions: {json.dumps(calls)}\n".encode()
    session = CODECS["openai-responses"].decode(data).session
    heads = [request.head.system for request in requests(session)]
    assert heads == ["Be brief.\n\nAlways.", "Be long.\n\nAlways."]
    assert CODECS["openai-responses"].encode(session) == data
    more = record(session, user("more"))
    again = CODECS["openai-responses"].decode(CODECS["openai-responses"].encode(more)).session
    assert again.head.system == "Be long.\n\nAlways."
    assert len(project(again).messages) == len(project(more).messages)


def test_requests_hold_calls_as_items():
    use = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
    said_by_a_converter = {"type": "message", "role": "assistant", "content": [use]}
    output = {"type": "function_call_output", "call_id": "t1", "output": "a.py"}
    session = decode(json.dumps([ASK, said_by_a_converter, output]).encode()).session
    call = {"type": "function_call", "call_id": "t1", "name": "ls", "arguments": "{}"}
    assert encode_request(project(session))["input"][1:] == [call, output]


def test_traces_of_chat_are_not_taken_for_responses():
    rows = [ASK, {"role": "assistant", "content": "Hello."}]
    chat = json.dumps(trace({"input": rows, "output": {"role": "assistant", "content": "x"}}))
    assert detect(chat.encode()) == "openai-chat"
    # Who says that they are finds all again that was said.
    session = record(decode(chat.encode()).session, user("More."))
    assert project(decode(encode(session)).session).messages[-1].parts == (Text("More."),)
    assert len(project(decode(encode(session)).session).messages) == 3


def test_how_long_a_prompt_is_kept_is_read_and_written():
    data = json.dumps(body(ASK, model="gpt-5.1", prompt_cache_retention="24h")).encode()
    session = decode(data).session
    assert session.head.route.parameters == (("prompt_cache_retention", '"24h"'),)
    assert encode(session) == data
    assert encode_request(project(session))["prompt_cache_retention"] == "24h"
