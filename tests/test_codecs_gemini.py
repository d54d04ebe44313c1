"""Gemini contents: parts, ids, signatures, and that what was read comes back as it was."""

from __future__ import annotations

import json
from collections import Counter
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
from ctxalgebra.codecs import CODECS, detect
from ctxalgebra.codecs.gemini import (
    decode,
    encode,
    encode_request,
    read_head,
    read_usage,
    write_head,
)
from ctxalgebra.codecs.gemini_contents import (
    Writer,
    decode_contents,
    encode_contents,
    signed_texts,
    unwritten,
)
from ctxalgebra.codecs.lines import compact, parse
from ctxalgebra.laws.strategies import messages, sessions
from ctxalgebra.protocol import DEFECTS

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions" / "gemini-contents"
FILES = sorted(SHARED.glob("*.*"))
real = pytest.mark.parametrize(
    "source",
    FILES
    or [pytest.param(None, marks=pytest.mark.skip(reason="needs ../shared/sessions, absent here"))],
    ids=lambda source: source and source.stem,
)


def content(role, *parts, **fields):
    return {"role": role, "parts": [*parts], **fields}


def calls(name="ls", args=None, **fields):
    return {"functionCall": {"name": name, "args": args or {}, **fields}}


def returns(name="ls", response=None, **fields):
    return {"functionResponse": {"name": name, "response": response or {"output": "x"}, **fields}}


def text_of(message):
    return "".join(part.text for part in message.parts if isinstance(part, Text))


def bare(message):
    return evolve(message, origin="")


# Parts

PARTS = [
    ({"text": "hi"}, Text("hi")),
    ({"text": "hm", "thought": True}, Thinking("hm")),
    ({"text": "hm", "thought": True, "thoughtSignature": "s"}, Thinking("hm", "s")),
    ({"text": "", "thoughtSignature": "s"}, Thinking("", "s")),
    ({"text": "", "thought_signature": "s"}, Thinking("", "s")),
    ({"thoughtSignature": "s"}, Thinking("", "s")),
    ({"text": "hi", "thoughtSignature": "s"}, Text("hi")),
    ({"functionCall": {"name": "ls", "args": {"b": 1, "a": 2}, "id": "x"}, "thoughtSignature": "s"},
     ToolCall("x", "ls", '{"b":1,"a":2}', "s")),
    ({"function_call": {"name": "ls"}}, ToolCall("call_0_0", "ls")),
    ({"functionCall": {"name": "ls", "args": None}}, ToolCall("call_0_0", "ls")),
    ({"functionCall": {"args": [1]}}, ToolCall("call_0_0", "", "[1]")),
    ({"inlineData": {"mimeType": "image/png", "data": "aGk="}}, Image("aGk=", "image/png")),
    ({"inline_data": {"mime_type": "image/png", "data": "aGk="}}, Image("aGk=", "image/png")),
    ({"inlineData": {"mimeType": "audio/wav", "data": "aGk="}}, "inlineData"),
    ({"inlineData": {"mimeType": "image/png"}}, "inlineData"),
    ({"fileData": {"fileUri": "gs://a"}}, "fileData"),
    ({"executable_code": {"code": "1"}}, "executableCode"),
    ({"codeExecutionResult": {"outcome": "OUTCOME_OK"}}, "codeExecutionResult"),
    ({"functionResponse": {"name": "ls"}}, "functionResponse"),
    ({"functionCall": "?"}, "functionCall"),
    ({"text": 5}, "text"),
    ({"videoMetadata": {}, "fileData": {}}, "fileData"),
    ({"new": {"x": 1.50}}, "new"),
    ({}, ""),
    ("text", ""),
    (None, ""),
    ([[]], ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "part"), PARTS, ids=[compact(parse(json.dumps(r)))[:40] for r, _ in PARTS]
)
def test_parts_of_the_model(raw, part):
    (message,) = decode_contents([content("model", raw)])
    found = message.parts[0]
    if isinstance(part, str):
        part = Opaque(part, compact(parse(json.dumps(raw))))
    assert found == part
    assert encode_contents([message]) == [content("model", raw)]


def test_what_only_the_model_says_is_opaque_in_the_users_content():
    raw = [calls(), {"text": "hm", "thought": True}, {"thoughtSignature": "s"}]
    (message,) = decode_contents([content("user", *raw)])
    assert [part.kind for part in message.parts] == ["opaque", "opaque", "text"]
    assert encode_contents([message]) == [content("user", *raw)]
    assert [p.type for p in message.parts[:2]] == ["functionCall", "text"]


@pytest.mark.parametrize(
    ("response", "text", "failed"),
    [
        ({"output": "x"}, "x", False),
        ({"output": ""}, "", False),
        ({"error": "x"}, "x", True),
        ({"error": ""}, "", True),
        ({"error": {"code": 5}}, '{"error":{"code":5}}', True),
        ({"error": "x", "more": 1}, '{"error":"x","more":1}', True),
        ({"error": None, "result": 1}, '{"error":null,"result":1}', False),
        ({"error": False, "result": 1}, '{"error":false,"result":1}', False),
        ({"output": {"a": [1.50]}}, '{"output":{"a":[1.5]}}', False),
        ({"output": "x", "error": "y"}, '{"output":"x","error":"y"}', False),
        ({"return_value": "Paris"}, '{"return_value":"Paris"}', False),
        ({"result": "x"}, '{"result":"x"}', False),
        ({}, "", False),
        (None, "", False),
        ("x", '"x"', False),
        ([], "[]", False),
        (0, "0", False),
    ],
)
def test_responses_are_read_as_the_api_reads_them(response, text, failed):
    raw = {"functionResponse": {"id": "c", "name": "ls", "response": response}}
    (message,) = decode_contents([content("user", raw)])
    assert (message.role, message.call, message.name) == ("tool", "c", "ls")
    assert (text_of(message), message.error) == (text, failed)
    assert bool(message.parts) == (response not in ({}, None))
    assert encode_contents([message]) == [content("user", raw)]
    written = encode_contents([bare(message)])
    (again,) = decode_contents(written)
    assert (text_of(again), again.error) == (text, failed)
    said = written[0]["parts"][0]["functionResponse"]["response"]
    assert said == ({"error" if failed else "output": text} if message.parts else {})


def test_images_in_responses_stand_in_their_parts():
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    file = {"fileData": {"fileUri": "gs://a", "mimeType": "image/png"}}
    raw = returns(id="c", parts=[image, file])
    (message,) = decode_contents([content("user", raw)])
    assert message.parts[1] == Image("aGk=", "image/png")
    assert message.parts[2].type == "functionResponsePart"
    assert encode_contents([bare(message)]) == encode_contents([message]) == [content("user", raw)]
    assert unwritten(message) == ()
    stub = evolve(message, parts=(Text("gone"),))
    assert encode_contents([stub]) == [
        content("user", returns(id="c", response={"output": "gone"}))
    ]


def test_texts_of_a_result_are_one_text():
    message = tool_result("c", (Text("a"), Text("b")), name="ls", error=True)
    assert encode_contents([message]) == [
        content("user", returns(response={"error": "ab"}, id="c"))
    ]


@pytest.mark.parametrize(
    ("arguments", "args"),
    [('{"a":1}', {"a": 1}), ("[]", {"input": []}), ('"free"', {"input": "free"}),
     ("not json", {"input": "not json"}), ("5", {"input": 5}), ("[" * 600, {"input": "[" * 600})],
)  # fmt: skip
def test_arguments_are_an_object(arguments, args):
    message = assistant(ToolCall("c", "ls", arguments))
    written = encode_contents([message])
    assert written == [content("model", {"functionCall": {"id": "c", "name": "ls", "args": args}})]
    assert unwritten(message) == (() if arguments.startswith("{") else ("tool-call",))


@pytest.mark.parametrize(
    ("message", "kinds"),
    [
        (assistant("a", Thinking("t", "s"), Thinking("", "s")), ()),
        (assistant(Thinking("c", redacted=True), "a"), ("thinking",)),
        (user((Image("http://a/b.png", ""),)), ("image",)),
        (user((Image("aGk=", "image/png"),)), ()),
        (system("be brief"), ("system",)),
        (assistant(Opaque("server_tool_use", '{"type":"server_tool_use"}')), ("opaque",)),
        (
            assistant(Opaque("x", '{"type":"x"}'), Opaque("", "{}"), Opaque("x", "{")),
            ("opaque",) * 3,
        ),
        (assistant(Opaque("x", "[]"), Opaque("fileData", '{"new":1}')), ("opaque",) * 2),
        (assistant(Opaque("fileData", '{"fileData":{}}')), ()),
        (tool_result("c", (Text("a"), Opaque("fileData", '{"fileData":{}}'))), ("opaque",)),
        (tool_result("c", (Opaque("functionResponsePart", '{"fileData":{}}'),)), ()),
    ],
)
def test_what_is_not_written_is_told(message, kinds):
    assert unwritten(message) == kinds
    (written,) = encode_contents([message])
    (again,) = decode_contents([written])
    if not kinds:
        assert again.parts == message.parts
    elif kinds != ("system",):
        assert Counter(message.parts) - Counter(again.parts)
    assert written["role"] == ("model" if message.role == "assistant" else "user")


# Contents


def test_the_content_of_several_results_is_one_again():
    raw = [
        content("user", {"text": "go"}),
        content("model", calls(id="a"), calls(id="b"), cached=True),
        content(
            "user", returns(id="a"), returns(id="b"), {"text": "and"}, {"text": "more"}, x=1.50
        ),
    ]
    found = decode_contents(raw)
    assert [m.role for m in found] == ["user", "assistant", "tool", "tool", "user"]
    assert [m.call for m in found[2:4]] == ["a", "b"]
    assert encode_contents(found) == raw
    # Results that took the place of others, or changed it, stay in one content.
    for results in ((found[3], found[2]), (found[2], tool_result("b", "new"))):
        assert [len(c["parts"]) for c in encode_contents([*found[:2], *results])] == [1, 2, 2]
    made = [tool_result("a", "1"), tool_result("b", "2"), user("next")]
    assert [len(c["parts"]) for c in encode_contents([*found[:2], *made])] == [1, 2, 2, 1]
    # Text that stood behind results stands alone when they are gone.
    assert encode_contents([found[1], found[4]])[1] == content(
        "user", {"text": "and"}, {"text": "more"}
    )
    assert encode_contents(found[4:]) == [content("user", {"text": "and"}, {"text": "more"})]


def test_results_that_were_in_several_contents_stay_there():
    raw = [
        content("model", calls(id="a"), calls(id="b"), calls(id="c")),
        content("user", returns(id="a"), returns(id="b")),
        content("function", returns(id="c"), name="x"),
        content("user", {"text": "a"}),
        content("user", {"text": "b"}, returns(id="d")),
    ]
    assert encode_contents(decode_contents(raw)) == raw


def test_texts_in_front_of_results():
    raw = [content("model", calls()), content("user", {"text": "a"}, returns(), {"text": "b"})]
    found = decode_contents(raw)
    assert [m.role for m in found] == ["assistant", "user", "tool", "user"]
    assert encode_contents(found) == raw
    # The session shows results first.
    shown = [found[0], found[2], found[1], found[3]]
    assert [c["parts"] for c in encode_contents(shown)] == [
        [calls()], [returns()], [{"text": "a"}, {"text": "b"}],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "raw",
    [
        {"parts": [{"text": "no role"}]},
        {"role": None, "parts": {"text": "one part"}},
        {"role": "model"},
        {"role": "model", "parts": []},
        {"role": "user", "parts": None, "x": 1},
        {"role": "function", "parts": [returns(id="c")]},
        {"role": "model", "parts": 5},
        {"role": "user", "parts": [{"functionResponse": {}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": 5, "response": {"output": ""}}}]},
    ],
)
def test_forms_of_contents(raw):
    assert encode_contents(decode_contents([raw])) == [raw]


@pytest.mark.parametrize(
    ("value", "code", "field"),
    [
        ({}, "missing-field", "parts"),
        ({"role": "user", "content": "hi"}, "missing-field", "parts"),
        ({"role": "user", "type": "message"}, "missing-field", "parts"),
        ({"role": "assistant", "parts": []}, "wrong-role", "role"),
        ({"role": 5, "parts": []}, "wrong-type", "role"),
        ([], "wrong-type", None),
        ({"role": "user", "parts": [{"text": "\ud800"}]}, "lone-surrogate", "parts[0].text"),
        ({"role": "user", "parts": [{"text": float("nan")}]}, "invalid-number", "parts[0].text"),
    ],
)
def test_what_is_no_content_is_refused(value, code, field):
    with pytest.raises(DecodeError) as caught:
        decode_contents([content("user", {"text": "a"}), value])
    assert (caught.value.code, caught.value.field, caught.value.entry) == (code, field, 1)


def test_what_is_no_json_is_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for value in (content("user", {"text": b"x"}), content("user", deep)):
        with pytest.raises((InvalidArgument, DecodeError)) as caught:
            decode_contents([value])
        assert caught.value.code in {"wrong-type", "too-deep"}


def write_contents(made):
    writer = Writer()
    for message in made:
        writer.add(message)
    return writer.texts()


def test_texts_stay_verbatim_where_a_content_is_one_message():
    text = '{ "role" :"model","parts":[ {"text":"a", "n": 1.50} ] }'
    (message,) = decode_contents([json.loads(text)])
    assert write_contents([evolve(message, origin=text)]) == [text]
    changed = evolve(message, origin=text, parts=(Text("b"), *message.parts))
    expected = '{"role":"model","parts":[{"text":"b"},{"text":"a","n":1.50}]}'
    assert write_contents([changed]) == [expected]


@pytest.mark.parametrize(
    "origin",
    ["not json", "5", '{"role":"user","content":"a"}', '{"type":"message","message":{}}',
     '{"role":"assistant","parts":[]}', '{"role":"model","parts":[{"text":"a"}]}'],
)  # fmt: skip
def test_an_origin_that_is_no_content_of_this_role_says_nothing(origin):
    assert encode_contents([evolve(user("a"), origin=origin)]) == [content("user", {"text": "a"})]


# Ids


def test_calls_without_ids_are_named_after_their_place_and_written_without():
    raw = [
        content("user", {"text": "go"}),
        content("model", {"text": "ok"}, calls(), calls("cat"), calls()),
        content("user", returns(), returns("cat"), returns()),
        content("model", calls()),
        content("user", returns(response={"output": "last"})),
    ]
    found = decode_contents(raw)
    assert [c.id for m in found for c in m.calls] == [
        "call_1_1",
        "call_1_2",
        "call_1_3",
        "call_3_0",
    ]
    assert [m.call for m in found if m.role == "tool"] == [
        "call_1_1", "call_1_2", "call_1_3", "call_3_0",
    ]  # fmt: skip
    assert encode_contents(found) == raw
    new = tool_result("call_3_0", "new", name="ls")
    assert encode_contents([*found[:-1], new])[-1] == content(
        "user", returns(response={"output": "new"})
    )
    assert decode_contents(raw[3:4], first=3)[0].calls[0].id == "call_3_0"


def test_results_find_their_calls_by_id_and_then_by_name_and_order():
    raw = [
        content("model", calls(id="a"), calls(), calls("cat"), calls(id="b")),
        content("user", returns(id="b"), returns(), returns(), returns(id="x"), returns("dog")),
        content("user", returns("cat", id="y"), returns("cat")),
    ]
    found = decode_contents(raw)
    assert [m.call for m in found[1:]] == [
        "b", "a", "call_0_1", "x", "result_1_4", "call_0_2", "result_2_1",
    ]  # fmt: skip
    assert encode_contents(found) == raw


def test_a_result_answers_the_latest_turn():
    turn = [content("model", calls()), content("user", {"text": "stop"})]
    one = [content("model", calls()), content("user", returns())]
    # Turns of the model that follow one another are one, as flattened parallel calls are.
    found = decode_contents([*turn, *one, content("user", returns())])
    assert [m.call for m in found if m.role == "tool"] == ["call_0_0", "call_2_0"]
    found = decode_contents([*one, *turn, *one])
    assert [m.call for m in found if m.role == "tool"] == ["call_0_0", "call_2_0"]


def test_a_renamed_call_is_written_with_its_new_id_and_all_it_had():
    signed = {**calls(id="a", willContinue=False), "thoughtSignature": "s", "new": 1}
    raw = [content("model", signed), content("user", returns(id="a", scheduling="SILENT"))]
    model, result = decode_contents(raw)
    model = evolve(model, parts=(evolve(model.parts[0], id="a_2"),))
    written = encode_contents([model, evolve(result, call="a_2")])
    assert written[0]["parts"] == [
        {"functionCall": {**signed["functionCall"], "id": "a_2"}, "thoughtSignature": "s", "new": 1}
    ]
    assert written[1]["parts"] == [returns(id="a_2", scheduling="SILENT")]


# Signatures


def test_signed_parts_stay_as_they_are_when_others_change():
    parts = [
        {"text": "a", "thoughtSignature": "s1"},
        {"text": "a"},
        {"text": "", "thoughtSignature": "s2"},
        {**calls(args={"b": 1.50, "a": 1}), "thoughtSignature": "s3"},
        calls(args={"b": 1.50, "a": 1}),
    ]
    (message,) = decode_contents([content("model", *parts)])
    assert [part.kind for part in message.parts] == ["text", "text", "thinking"] + ["tool-call"] * 2
    for gone in range(5):
        kept = message.parts[:gone] + message.parts[gone + 1 :]
        expected = parts[:gone] + parts[gone + 1 :]
        if gone == 0:  # equal texts: the first that was read stands for the first that is there
            expected[0] = parts[0]
        assert encode_contents([evolve(message, parts=kept)]) == [content("model", *expected)]
    fresh = encode_contents([bare(message)])
    assert fresh[0]["parts"][2:4] == [
        {"text": "", "thoughtSignature": "s2"},
        {"functionCall": {"id": "call_0_3", **calls(args={"b": 1.5, "a": 1})["functionCall"]},
         "thoughtSignature": "s3"},
    ]  # fmt: skip


# What is written is what was said

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "\u2028"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "a", "type", "parts"]), inner, max_size=3)
    ),
    max_leaves=6,
)
IDS = st.sampled_from(["a", "b", "call_1_0"]) | st.none()


def _with_id(kind, fields, name):
    return {kind: {**fields, **({} if name is None else {"id": name})}}


RAW_PARTS = st.one_of(
    st.sampled_from([raw for raw, _ in PARTS]),
    st.builds(_with_id, st.just("functionCall"), st.just({"name": "ls", "args": {}}), IDS),
    st.builds(
        _with_id,
        st.just("functionResponse"),
        st.fixed_dictionaries({"name": st.sampled_from(["ls", "cat"]), "response": JSON}),
        IDS,
    ),
    JSON,
)
CONTENTS = st.builds(
    lambda role, parts, more: {**more, "role": role, "parts": parts},
    st.sampled_from(["user", "model", "function", None]),
    st.lists(RAW_PARTS, max_size=4),
    st.dictionaries(st.just("more"), JSON),
)


@given(st.lists(CONTENTS, max_size=6))
def test_contents_come_back(raw):
    found = decode_contents(raw)
    assert encode_contents(found) == raw
    assert sum(m.role == "tool" for m in found) == sum(
        isinstance(p, dict) and isinstance(p.get("functionResponse"), dict)
        for c in raw if c["role"] != "model" for p in c["parts"]
    )  # fmt: skip


def joined(message):
    """Give what a content can hold of a message."""
    parts = []
    for part in message.parts:
        if isinstance(part, Text) and message.role == "tool":
            if parts and isinstance(parts[0], Text):
                parts[0] = Text(parts[0].text + part.text)
            else:
                parts.insert(0, part)
        elif isinstance(part, ToolCall):
            parts.append(evolve(part, arguments="{}"))
        else:
            parts.append(part)
    role = "user" if message.role == "system" else message.role
    return role, message.call, message.error, [p for p in parts if p != Text("")]


@given(st.lists(messages(), max_size=6))
def test_messages_come_back_but_for_what_is_told(made):
    made = [m for m in made if all(call.id for call in m.calls)]
    found = decode_contents(encode_contents(made))
    assert len(found) == len(made)
    for message, again in zip(made, found, strict=True):
        missing = Counter(unwritten(message))
        role, call, error, parts = joined(message)
        kept = [p for p in parts if not isinstance(p, Opaque)]
        kept = [p for p in kept if not (isinstance(p, Thinking) and p.redacted)]
        assert joined(again) == (role, call, error, kept)
        assert len(parts) - len(kept) == missing["opaque"] + missing["thinking"]


# Heads and usage


def test_heads_come_back():
    builtin = {"googleSearch": {}}
    body = {
        "model": "models/gemini-3-pro",
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "ls", "description": "List.",
                     "parametersJsonSchema": {"type": "object", "n": 1.50}},
                    {"name": "cat", "parameters": {"type": "OBJECT"}},
                    {"name": "now"},
                ]
            },
            builtin,
        ],
    }  # fmt: skip
    head = read_head(parse(json.dumps(body)))
    assert head.system == "Be brief."
    assert head.route == Route(
        "google", "gemini-3-pro", (("tools", '[{"googleSearch":{}}]'),), "none"
    )
    assert [t.name for t in head.tools] == ["ls", "cat", "now"]
    assert head.tools[0].schema == '{"type":"object","n":1.5}'
    assert json.loads(compact(write_head(head, {}))) == body
    del body["model"]
    request = Request(head, (user("hi"),))
    assert encode_request(request) == {"contents": [content("user", {"text": "hi"})], **body}


def test_heads_in_other_spellings():
    body = {
        "system_instruction": {"parts": {"text": "One."}},
        "tools": [{"function_declarations": [{"name": "f", "parameters_json_schema": {"a": 1}}]}],
    }
    head = read_head(
        parse(json.dumps(body)), "https://a/v1beta/models/gemini-2.5-pro:generateContent"
    )
    assert (head.system, head.tools) == ("One.", (Tool("f", "", '{"a":1}'),))
    assert head.route.model == "gemini-2.5-pro"
    assert read_head({"systemInstruction": "Text."}).system == "Text."
    many = {"systemInstruction": {"parts": [{"text": "a"}, {"text": ""}, {"text": "b"}, 5]}}
    assert read_head(many).system == "a\n\nb"
    for tools in (5, [5], [{"functionDeclarations": 5}], [{"functionDeclarations": [5]}]):
        assert [t.name for t in read_head(parse(json.dumps({"tools": tools}))).tools] in ([], [""])


def test_heads_from_elsewhere():
    assert write_head(Head(), {}) == {}
    head = Head(Route("p", "m", (("tools", "not json"),)), tools=(Tool("f", "", "not json"),))
    assert write_head(head, {"tools": []}) == {"tools": [{"functionDeclarations": [{"name": "f"}]}]}
    for other in (Route("p", "m", (("tools", "{}"),)), Route(parameters=(("api", "[1]"),))):
        assert write_head(Head(other), {"contents": []}) == {}
    assert encode_request(project(record(Session(), user("hi")))) == {
        "contents": [content("user", {"text": "hi"})]
    }


@pytest.mark.parametrize(
    ("value", "usage"),
    [
        ({"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 10,
          "thoughtsTokenCount": 5, "toolUsePromptTokenCount": 7, "totalTokenCount": 122},
         Usage(107, 15, 60)),
        ({"prompt_token_count": 3, "thoughts_token_count": 2}, Usage(3, 2)),
        ({"promptTokenCount": 3, "cachedContentTokenCount": 4}, Usage(7, 0, 4)),
        ({"promptTokenCount": 1.5}, None),
        ({"promptTokenCount": -5, "candidatesTokenCount": 1}, None),
        ({}, None),
        (None, None),
    ],
)  # fmt: skip
def test_usage(value, usage):
    assert read_usage(parse(json.dumps(value))) == usage


def test_large_results_cost_what_they_hold():
    many = 2_000
    raw = [
        content("model", *[calls(args={"n": n}) for n in range(many)]),
        content("user", *[returns(response={"output": "x" * 10}) for _ in range(many)]),
    ]
    found = decode_contents(raw)
    assert len(found) == many + 1
    assert [m.call for m in found[1:]] == [c.id for c in found[0].calls]
    assert sum(len(m.origin) for m in found) < 3 * len(json.dumps(raw))
    assert encode_contents(found) == raw
    assert all(isinstance(m, Message) for m in found)


# Files


def read(value, **options):
    data = value if isinstance(value, bytes) else json.dumps(value, **options).encode()
    decoded = decode(data)
    assert encode(decoded.session) == data
    assert {r.code for r in decoded.repairs} <= CODES.keys() | DEFECTS.keys()
    return decoded


def codes(decoded):
    return dict(Counter(r.code for r in decoded.repairs))


def replies(session):
    return [node.entry for node in path(session) if isinstance(node.entry, Reply)]


GO = content("user", {"text": "go"})
ASKS = content("model", calls(), calls())
GIVES = content("user", returns(response={"output": "1"}), returns(response={"output": "2"}))
DONE = content("model", {"text": "done"})


@real
def test_real_files_come_back_and_say_what_they_say(source):
    data = source.read_bytes()
    assert detect(data) == "gemini-contents"
    decoded = read(data)
    last = yaml.safe_load(data)["interactions"][-1]
    body = last["request"]["parsed_body"]
    shown = project(decoded.session).messages
    asked = len(body["contents"])
    assert sum(len(m.calls) for m in shown) >= asked // 2
    if "parsed_body" in last["response"]:
        shown = shown[:-1]  # an answer of one message
    sent = [c for c in body["contents"] if c["parts"] != [{"text": ""}]]
    assert encode_contents(shown)[: len(sent)] == sent
    assert [t.name for t in decoded.session.head.tools] == [
        f["name"] for t in body["tools"] for f in t["functionDeclarations"]
    ]
    used = account(decoded.session).usage
    known = [json.loads(compact(parse(json.dumps(i["response"].get("parsed_body", {}))))) for i in
             yaml.safe_load(data)["interactions"]]  # fmt: skip
    told = [u["usageMetadata"] for u in known if "usageMetadata" in u]
    if told and all(isinstance(e, Reply) for e in replies(decoded.session)[: len(told)]):
        inputs = [r.usage.input for r in replies(decoded.session)]
        assert inputs == [u["promptTokenCount"] for u in told][-len(inputs) :]
        assert used.input == sum(inputs)


@pytest.mark.parametrize("options", [{}, {"indent": 1}, {"separators": (",", ":")}])
@pytest.mark.parametrize("raw", [[], [GO, ASKS, GIVES, DONE]], ids=["none", "some"])
def test_lists_and_bodies_come_back(raw, options):
    body = {"model": "models/g", "contents": raw, "generationConfig": {"temperature": 0.5}}
    for value in (raw, body):
        decoded = read(value, **options)
        assert decoded.repairs == ()
        roles = [m.role for m in project(decoded.session).messages]
        assert roles == (["user", "assistant", "tool", "tool", "assistant"] if raw else [])


def test_each_answer_closes_a_request():
    decoded = read([GO, ASKS, GIVES, DONE])
    first, second = requests(decoded.session)
    assert [m.role for m in first.messages] == ["user"]
    assert [m.role for m in second.messages] == ["user", "assistant", "tool", "tool"]
    assert second.extends(first)
    assert [m.call for m in second.messages[2:]] == ["call_1_0", "call_1_1"]
    assert encode_contents(second.messages) == [GO, ASKS, GIVES]


def test_lines_come_back():
    lines = [json.dumps(GO), "", json.dumps(ASKS), "{oops", "5", json.dumps(GIVES), '{"role":"x"}']
    for end in ("\n", ""):
        decoded = read(("\n".join(lines) + end).encode())
        assert codes(decoded) == {"invalid-json": 1, "wrong-type": 1, "wrong-role": 1}
        assert [r.line for r in decoded.repairs] == [4, 5, 7]
        assert len(project(decoded.session).messages) == 4
        grown = record(decoded.session, user("next"))
        assert encode(grown).decode().rstrip("\n").split("\n") == [
            *lines, '{"role":"user","parts":[{"text":"next"}]}',
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty-file"),
        (b" \n", "empty-file"),
        (b"5", "wrong-type"),
        (b"{}", "missing-field"),
        (b'{"contents": 5}', "missing-field"),
        (b'{"contents": "hi"}', "missing-field"),
        (b"[5]", "wrong-type"),
        (b'[{"role": "tool", "parts": []}]', "wrong-role"),
        (b'[{"role": 5, "parts": []}]', "wrong-type"),
        (b"[{}]", "missing-field"),
        (b"[", "invalid-json"),
        (b"\xff", "invalid-utf8"),
        (b"[" * 600 + b"]" * 600, "too-deep"),
    ],
)
def test_a_file_of_which_nothing_can_be_built_is_an_error(data, code):
    with pytest.raises(DecodeError) as caught:
        decode(data, file="f")
    assert (caught.value.code, caught.value.file) == (code, "f")


def test_a_reordered_result_and_what_is_added_behind_it():
    decoded = read(
        [GO, content("model", calls(id="a"), calls(id="b")),
         content("user", returns(id="b"), returns(id="a")),
         content("user", returns(id="x"))]
    )  # fmt: skip
    assert codes(decoded) == {"out-of-order": 1, "orphan-result": 1}
    grown = record(decoded.session, user("next"))
    (request,) = requests(send(grown)[0])[1:]
    assert [m.call for m in request.messages[2:4]] == ["a", "b"]
    assert json.loads(encode(grown))[:4] == json.loads(encode(decoded.session))
    assert json.loads(encode(grown))[4] == content("user", {"text": "next"})
    # The results in the order of the calls are one content still.
    assert [len(c["parts"]) for c in encode_contents(request.messages)] == [1, 2, 2, 1]


def test_reused_ids_are_renamed_here_and_not_in_the_file():
    turn = [content("model", calls(id="a")), content("user", returns(id="a"))]
    decoded = read([GO, *turn, *turn])
    assert codes(decoded) == {"reused-id": 1}
    session = decoded.session
    assert len({c.id for m in project(session).messages for c in m.calls}) == 2
    session = reply(send(session)[0], "completed", assistant(ToolCall("b", "ls")))
    session = record(session, tool_result("b", "x", name="ls"), user("more"))
    assert json.loads(encode(session)) == [
        GO, *turn, *turn, content("model", calls(id="b")), content("user", returns(id="b")),
        content("user", {"text": "more"}),
    ]  # fmt: skip


def test_a_call_without_an_id_is_answered_without_one():
    decoded = read([GO, ASKS])
    session = record(
        decoded.session, tool_result("call_1_1", "2", name="ls"), tool_result("call_1_0", "1")
    )
    written = json.loads(encode(session))
    assert written[:2] == [GO, ASKS]
    names = [part["functionResponse"] for content in written[2:] for part in content["parts"]]
    assert all("id" not in name for name in names)
    assert len(written) == 3


def test_a_result_of_a_call_in_a_content_that_stays_as_it_is():
    # The blank text is not shown, so the content is kept beside its message.
    for blank in ("", " "):
        model = content("model", calls(), {"text": blank}, calls("cat", id="c"))
        given = content("user", returns("cat", id="c"), returns(id="x"))
        apart = [content("user", part) for part in given["parts"]]
        for results in ([given], apart):
            decoded = read([GO, model, *results])
            assert codes(decoded) == {"blank-text": 1, "out-of-order": 1}
        session = record(
            read([GO, model]).session, tool_result("call_1_0", "1"), tool_result("c", "2")
        )
        assert json.loads(encode(session))[2]["parts"] == [
            {"functionResponse": {"name": "ls", "response": {"output": "1"}}},
            {"functionResponse": {"id": "c", "name": "cat", "response": {"output": "2"}}},
        ]


def test_results_of_calls_without_ids_stay_with_their_calls():
    session = read([GO, content("model", calls(), calls(), calls("cat"))]).session
    first, second, third = open_calls(session)
    late = [tool_result(third, "3"), tool_result(second, "2"), user("Go on.")]
    every = record(session, *late, tool_result(first, "1"))
    for grown in (every, record(session, *late), record(session, late[1])):
        back = decode(encode(grown))
        assert back.repairs == ()
        results = [
            {m.call: (m.parts, m.name) for m in messages if m.role == "tool"}
            for messages in (
                [n.entry for n in log(s) if isinstance(n.entry, Message)]
                for s in (grown, back.session)
            )
        ]
        tools = {call: "cat" if call == third else "ls" for call in (first, second, third)}
        assert results[1] == {call: (said, tools[call]) for call, (said, _) in results[0].items()}
        shown = [[(m.role, m.parts) for m in project(s).messages] for s in (grown, back.session)]
        assert shown[0] == shown[1]
    body = encode_request(project(every))["contents"][2]["parts"]
    found = [part["functionResponse"] for part in body if "functionResponse" in part]
    assert [(r["name"], r["response"]["output"]) for r in found] == [
        *(("ls", "1"), ("ls", "2"), ("cat", "3"))
    ]


def test_results_are_written_with_the_names_of_their_tools():
    call = assistant(ToolCall("c1", "ls"), ToolCall("c2", "cat"))
    session = abandon(abandon(record(Session(), user("go"), call), "c1", "stop"), "c2", "stop")
    requested = encode_request(project(session))["contents"][2]["parts"]
    stored = json.loads(encode(session))["contents"][2]["parts"]
    for parts in (requested, stored):
        assert [part["functionResponse"]["name"] for part in parts] == ["ls", "cat"]
    # A result that was read keeps its fields in the file; a request has the name.
    bare = {"functionResponse": {"id": "c", "response": {"output": "x"}}}
    session = read([GO, content("model", calls(id="c")), content("user", bare)]).session
    (part,) = encode_request(project(session))["contents"][2]["parts"]
    assert part["functionResponse"]["name"] == "ls"


def test_a_path_that_leaves_a_content_in_its_midst():
    decoded = read([GO, ASKS, content("user", returns(), returns(), {"text": "and"}), DONE])
    numbers = [n.number for n in log(decoded.session) if getattr(n.entry, "role", "") == "tool"]
    session = record(at_leaf(decoded.session, numbers[-1]), user("else"))
    assert json.loads(encode(session)) == [
        GO, ASKS, content("user", returns(), returns()), content("user", {"text": "else"}),
    ]  # fmt: skip
    assert encode(at_leaf(decoded.session, -1)) == b"[]"


def test_a_changed_head_is_written_where_there_is_a_place():
    tool = {"name": "f", "parameters": {"type": "OBJECT"}, "x": 1}
    value = {
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [GO],
        "tools": [{"functionDeclarations": [tool]}],
        "model": "g",
        "other": 1.50,
    }
    session = read(value).session
    head = evolve(session.head, system="Be long.", tools=(*session.head.tools, Tool("g")))
    written = json.loads(encode(record(session, head)))
    assert written == {
        **value,
        "system_instruction": {"parts": [{"text": "Be long."}]},
        "tools": [{"functionDeclarations": [tool, {"name": "g"}]}],
    }
    bare = json.loads(encode(record(session, Head(evolve(head.route, model="h")))))
    assert bare == {"contents": [GO], "model": "models/h", "other": 1.5}
    assert json.loads(encode(record(read([GO]).session, head))) == [GO]


def test_a_session_from_elsewhere_becomes_a_body():
    session = record(Session(), Head(Route("google", "g"), "Be brief.", (Tool("f"),)), user("hi"))
    session = reply(send(session)[0], "failed", assistant("never"))
    session = record(send(session)[0], user("steer"))
    session = reply(session, "completed", assistant("ok"), usage=Usage(3, 1))
    data = encode(session)
    assert json.loads(data) == {
        "contents": [content("user", {"text": "hi"}), content("model", {"text": "ok"}),
                     content("user", {"text": "steer"})],
        "model": "models/g",
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "f"}]}],
    }  # fmt: skip
    assert read(data).session.head == evolve(session.head, route=Route("google", "g", (), "none"))


# Cassettes


def call_of(body, answer, model="gemini-2.5-pro", method="generateContent"):
    uri = f"https://generativelanguage.googleapis.com/v1beta/models/{model}:{method}"
    return {"request": {"uri": uri, "parsed_body": body}, "response": answer}


def answers(body):
    return {"parsed_body": body}


def streams(*events):
    text = "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events)
    return {"body": {"string": text}}


def candidate(*parts, usage=None, **fields):
    found = {"candidates": [{"content": content("model", *parts), **fields}]}
    return found | ({} if usage is None else {"usageMetadata": {"promptTokenCount": usage}})


def cassette(*interactions):
    # Copied, since aliases are not read.
    value = json.loads(json.dumps({"interactions": [*interactions], "version": 1}))
    return yaml.safe_dump(value).encode()


def test_cassettes_tell_heads_and_usage():
    named = content("model", calls(id="a"))
    results = content("user", returns(id="a"))
    first = {"contents": [GO], "tools": [{"functionDeclarations": [{"name": "ls"}]}]}
    data = cassette(
        call_of({"contents": [GO], "x": 1}, answers({}), method="countTokens"),
        call_of(first, answers(candidate(calls(), usage=10)), model="g1"),
        call_of({"contents": [content("user", {"text": "other"})]}, answers({})),
        call_of({**first, "contents": [GO, named, results], "systemInstruction": "S"},
                answers(candidate({"text": "a", "thoughtSignature": "s"}, usage=20)), model="g2"),
    )  # fmt: skip
    assert detect(data) == "gemini-contents"
    decoded = read(data)
    assert codes(decoded) == {"missing-field": 1, "unknown-request": 1}
    one, two = replies(decoded.session)
    assert (one.usage, two.usage) == (Usage(10), Usage(20))
    assert [r.head.route.model for r in requests(decoded.session)] == ["g1", "g2"]
    assert [r.head.system for r in requests(decoded.session)] == ["", "S"]
    assert one.message.calls[0].id == "a"
    assert (text_of(two.message), signed_texts(two.message)) == ("a", 1)
    grown = json.loads(encode(record(decoded.session, user("next"))))
    assert grown["contents"][3:] == [
        content("model", {"text": "a", "thoughtSignature": "s"}), content("user", {"text": "next"}),
    ]  # fmt: skip
    assert grown["systemInstruction"] == "S"
    assert "model" not in grown


def test_streams_are_one_answer():
    signed = {**calls(), "thoughtSignature": "s"}
    data = cassette(
        call_of(
            {"contents": [GO]},
            streams(
                candidate({"text": "hm", "thought": True}, usage=1),
                candidate({"text": "m", "thought": True}),
                candidate({"text": "a"}, {"text": "b"}),
                candidate({"text": "c", "thoughtSignature": "t"}),
                candidate({"text": "d"}),
                candidate(signed),
                candidate({"text": ""}, finishReason="STOP", usage=7),
                {"usageMetadata": {}},
            ),
            method="streamGenerateContent?alt=sse",
        )
    )
    (answer,) = replies(read(data).session)
    assert json.loads(answer.message.origin)["parts"] == [
        {"text": "hmm", "thought": True}, {"text": "ab"}, {"text": "c", "thoughtSignature": "t"},
        {"text": "d"}, signed,
    ]  # fmt: skip
    assert answer.usage == Usage(7)


@pytest.mark.parametrize(
    "answer",
    [answers({}), answers({"candidates": []}), answers({"candidates": [{"index": 0}]}),
     answers({"candidates": [{"content": {"role": "model"}}]}), answers({"candidates": [5]}),
     streams({"error": 1}), {}],
)  # fmt: skip
def test_an_answer_that_says_nothing_is_none(answer):
    decoded = read(cassette(call_of({"contents": [GO]}, answer)))
    assert replies(decoded.session) == []
    assert decoded.session.head.route.model == "gemini-2.5-pro"
    assert len(project(decoded.session).messages) == 1


def test_signatures_of_texts_are_counted():
    parts = [{"text": "a", "thought_signature": "s"}, {"text": "", "thoughtSignature": "t"}]
    (message,) = decode_contents([content("model", *parts, {"text": "b"})])
    assert signed_texts(message) == 1
    assert (
        signed_texts(user("a")) == signed_texts(evolve(message, origin='["thoughtSignature"]')) == 0
    )


@given(st.lists(CONTENTS, max_size=6), st.sampled_from([None, 1]))
def test_files_come_back(raw, indent):
    raw = [GO, *raw]
    for value in (raw, {"contents": raw, "x": 1}):
        decoded = read(value, indent=indent, ensure_ascii=False)
        grown = encode(record(decoded.session, user("last")))
        said = json.loads(grown)
        said = said if isinstance(said, list) else said["contents"]
        assert said == [*raw, content("user", {"text": "last"})]
        assert encode(decode(grown).session) == grown


@given(sessions(max_turns=4))
def test_a_session_is_read_as_it_was_written(session):
    data = encode(session)
    again = CODECS["gemini-contents"].decode(data).session
    assert encode(again) == data


def test_the_head_of_a_request_is_stated_though_no_model_answers_it():
    calls = []
    asked = [{"role": "user", "parts": [{"text": "a"}]}]
    for answer, tools in (("model", []), ("user", [{"googleSearch": {}}])):
        content = {"role": answer, "parts": [{"text": "b"}]}
        uri = "https://x/v1beta/models/gemini-3-pro:generateContent"
        body = {"contents": [*asked], **({"tools": tools} if tools else {})}
        response = {"parsed_body": {"candidates": [{"content": content}]}}
        calls.append({"request": {"uri": uri, "parsed_body": body}, "response": response})
        asked += [content, {"role": "user", "parts": [{"text": "c"}]}]
    data = f"interactions: {json.dumps(calls)}\n".encode()
    session = CODECS["gemini-contents"].decode(data).session
    assert dict(session.head.route.parameters) == {"tools": '[{"googleSearch":{}}]'}
    assert CODECS["gemini-contents"].encode(session) == data


def test_a_turn_that_is_kept_ends_what_was_open_before():
    """A call without an id that nobody answered is not the one that the next result is for."""

    def model(*parts):
        return {"role": "model", "parts": [*parts]}

    def call(**fields):
        return {"functionCall": {**fields, "name": "read", "args": {}}}

    def answer(name):
        response = {"id": name, "name": "read", "response": {"output": "x"}}
        return {"role": "user", "parts": [{"functionResponse": response}]}

    blank = model({"text": "ok"}, {"text": " "}, call())
    contents = [model(call(id="c1")), model(call()), answer("c1"), blank, answer("c2")]
    data = json.dumps(contents).encode()
    decoded = decode(data)
    assert "blank-text" in {repair.code for repair in decoded.repairs}
    assert encode(decoded.session) == data
