"""OpenAI Responses: items to messages and back, containers, heads, and that the bytes come back."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    DecodeError,
    Image,
    InvalidArgument,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
    assistant,
    system,
    tool_result,
    user,
)
from ctxalgebra.codecs.lines import parse
from ctxalgebra.codecs.responses_items import decode_items, join, read_item, read_usage
from ctxalgebra.codecs.responses_write import encode_items, unwritten
from ctxalgebra.laws.strategies import messages

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


def read(item):
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
    assert read(item).parts == (call,)


def test_outputs():
    assert read(output("c1", [PNG])).parts == (Image("aGk=", "image/png"),)
    assert read(output("c1", [{**PNG, "image_url": "http://x"}])).parts == (Image("http://x", ""),)
    assert read(output("c1", "")).parts == ()
    assert read(output("c1", status="incomplete")).error
    found = read(TOOLS)
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
        ([1], "missing-field"),
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
