"""Breakpoints in bodies of the Anthropic API: each on its block, and nowhere else."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Head,
    InvalidArgument,
    Opaque,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    assistant,
    project,
    system,
    tool_result,
    user,
)
from ctxalgebra.breakpoints import TOOLS, Placed, carries, default_breakpoints
from ctxalgebra.codecs import CODECS
from ctxalgebra.codecs.anthropic import encode_request
from ctxalgebra.codecs.anthropic_cache import mark_breakpoints
from ctxalgebra.codecs.anthropic_messages import decode_messages
from ctxalgebra.model.view import HEAD

BOTH = Head(system="Be brief.", tools=(Tool("a", "A"), Tool("b", "B")))
SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}


def marks(value):
    """List every mark with its block, wherever it stands."""
    if isinstance(value, dict):
        if "cache_control" in value:
            bare = {k: v for k, v in value.items() if k != "cache_control"}
            yield bare, value["cache_control"]
        for item in value.values():
            yield from marks(item)
    elif isinstance(value, list):
        for item in value:
            yield from marks(item)


def bare(value):
    if isinstance(value, dict):
        return {k: bare(v) for k, v in value.items() if k != "cache_control"}
    return [bare(item) for item in value] if isinstance(value, list) else value


@st.composite
def conversations(draw):
    """Draw messages each of whose blocks says which it is."""
    messages = []
    for number in range(draw(st.integers(0, 9))):
        kind = draw(st.sampled_from(("user", "assistant", "results", "system", "foreign")))
        name = f"m{number}"
        if kind == "user":
            messages.append(
                user(tuple(Text(f"{name}.{i}") for i in range(draw(st.integers(0, 2)))))
            )
        elif kind == "system":
            messages.append(system(name))
        elif kind == "foreign":
            messages.append(assistant(Opaque("reasoning", "{}")))
        elif kind == "assistant":
            thought = [Thinking("t", draw(st.sampled_from(("s", ""))))] * draw(st.booleans())
            messages.append(assistant(*thought, f"{name}.0", f"{name}.1"))
        else:
            calls = [ToolCall(f"{name}-{i}", "read") for i in range(draw(st.integers(1, 3)))]
            messages.append(assistant(*calls))
            messages += [tool_result(call.id, f"{call.id}!") for call in calls]
    return Request(draw(st.sampled_from((Head(), BOTH))), tuple(messages))


def name_of(part):
    """Find the text that tells a block of one message from all others."""
    if isinstance(part, ToolCall):
        return f"call {part.id}"
    return part.text


@given(st.data(), conversations())
def test_each_breakpoint_is_on_the_last_block_of_its_message(data, request):
    places = [p for p in range(TOOLS, len(request.messages)) if carries(request, p)]
    chosen = data.draw(st.lists(st.sampled_from(places), max_size=4, unique=True)) if places else []
    placed = Placed(request, tuple(sorted(chosen)), data.draw(st.integers(0, 2)))
    body = encode_request(request)
    kept = copy.deepcopy(body)
    marked = mark_breakpoints(body, placed)
    assert body == kept
    found = list(marks(marked))
    expected = []
    for place in placed.breakpoints:
        if place < 0:
            expected.append("b" if place == TOOLS else "Be brief.")
        else:
            message = request.messages[place]
            expected.append(message.call or name_of(message.parts[-1]))
    names = [
        f"call {block['id']}"
        if "id" in block
        else block.get("tool_use_id") or block.get("text") or block["name"]
        for block, _ in found
    ]
    assert sorted(names) == sorted(expected)
    longs = {e for number, e in enumerate(expected) if number < placed.long}
    assert all((mark == LONG) == (n in longs) for n, (_, mark) in zip(names, found, strict=True))
    # Nothing else changes, and marking again gives the same.
    assert mark_breakpoints(marked, placed) == marked
    again = [m.parts for m in decode_messages(bare(marked)["messages"])]
    assert again == [m.parts for m in decode_messages(body["messages"])]


def test_marks_that_are_there_go():
    """Wherever they stand: on messages that came with them, in results, on the body itself."""
    (read,) = decode_messages([{"role": "user", "content": [
        {"type": "text", "text": "a", "cache_control": SHORT},
    ]}])  # fmt: skip
    assert "cache_control" in read.origin
    call = assistant(ToolCall("c", "read"))
    (result,) = decode_messages([{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c", "content": [
            {"type": "text", "text": "42", "cache_control": SHORT},
        ]},
    ]}])  # fmt: skip
    request = Request(Head(system="s"), (read, call, result))
    body = {**encode_request(request), "cache_control": SHORT, "max_tokens": 10}
    body["system"] = [{"type": "text", "text": "s", "cache_control": LONG}]
    assert len(list(marks(body))) == 4
    assert list(marks(mark_breakpoints(body, Placed(request)))) == []
    marked = mark_breakpoints(body, Placed(request, (HEAD, 2), long=1))
    assert [mark for _, mark in marks(marked)] == [LONG, SHORT]
    assert marked["max_tokens"] == 10
    assert marked["messages"][2]["content"][0]["cache_control"] == SHORT


def test_more_breakpoints_than_there_may_be_are_refused():
    request = Request(Head(system="s"), tuple(user(str(n)) for n in range(9)))
    placed = Placed(request, (HEAD, 0, 1, 2, 3))
    with pytest.raises(InvalidArgument, match="5 breakpoints, 4 are allowed"):
        encode_request(request, breakpoints=placed)


def marked_blocks(body):
    """List where marks stand in the messages: element, block, and a place in or behind it."""
    found = []
    for number, element in enumerate(body["messages"]):
        blocks = element["content"] if isinstance(element["content"], list) else []
        for at, block in enumerate(blocks):
            held = block.get("content", []) if block["type"] == "tool_result" else []
            inner = [*held, block]
            found += [(number, at, i) for i, each in enumerate(inner) if "cache_control" in each]
    return found


@pytest.mark.parametrize("count", [1, 4, 6, 30])
def test_a_request_keeps_the_last_four_marks_that_were_read(count):
    def element(number):
        block = {
            "type": "text",
            "text": str(number),
            "cache_control": LONG if number < 5 else SHORT,
        }
        if number % 3:
            return {"role": "user", "content": [block]}
        inner = {"type": "tool_result", "tool_use_id": f"c{number}", "content": [block, block]}
        return {"role": "user", "content": [{**inner, "cache_control": SHORT}]}

    messages = []
    for number in range(count):
        call = {"type": "tool_use", "id": f"c{number}", "name": "r", "input": {"cache_control": 1}}
        said = {"type": "text", "text": "ok"} if number % 3 else call
        messages += [{"role": "assistant", "content": [said]}, element(number)]
    body = {
        "model": "claude-opus-5",
        "system": [{"type": "text", "text": "s", "cache_control": LONG}],
        "tools": [{"name": "r", "input_schema": {}, "cache_control": LONG}],
        "messages": [{"role": "user", "content": "go"}, *messages],
    }
    decoded = CODECS["anthropic-messages"].decode(json.dumps(body).encode())
    request = project(decoded.session)
    made = encode_request(request)
    assert made["messages"][1]["content"][0]["input"] == {"cache_control": 1}
    read, kept = marked_blocks(body), marked_blocks(made)
    assert kept == [place for place in read if len(read) - read.index(place) <= 4]
    # Nothing else goes.
    assert bare(made["messages"]) == bare(body["messages"])
    placed = default_breakpoints(request)
    marked = encode_request(request, breakpoints=placed)
    assert [place[:2] for place in marked_blocks(marked)] == [(2 * count, 0)]
    assert marked["system"] == [{"type": "text", "text": "s", "cache_control": SHORT}]
    assert marked == mark_breakpoints(made, placed)
    other = Placed(Request(request.head, request.messages[:-1]))
    with pytest.raises(InvalidArgument, match="the breakpoints are of another request"):
        encode_request(request, breakpoints=other)
    with pytest.raises(InvalidArgument, match="wrong-type"):
        encode_request(request, breakpoints=placed.breakpoints)


def test_what_carries_none_in_the_body_is_passed_over():
    deferred = Tool("d", "", '{"name":"d","defer_loading":true}')
    request = Request(Head(tools=(Tool("a"), deferred)), (user("a"),))
    marked = mark_breakpoints(encode_request(request), Placed(request, (TOOLS,)))
    assert [block["name"] for block, _ in marks(marked)] == ["a"]
    only = Request(Head(tools=(deferred,)), (user("a"),))
    with pytest.raises(InvalidArgument, match="no breakpoint can stand at -2"):
        Placed(only, (TOOLS,))
    assert default_breakpoints(only).breakpoints == (0,)
    # A part that another provider knows has no block here.
    foreign = Opaque("web_search_call_tool_result", "{}")
    lost = Request(Head(), (user("a"), assistant(" ", foreign), assistant(foreign), user("b")))
    marked = mark_breakpoints(encode_request(lost), Placed(lost, (1, 2, 3)))
    assert [block["text"] for block, _ in marks(marked)] == ["b"]
    blank = Request(Head(), (user("a"), assistant(foreign), user("b")))
    marked = mark_breakpoints(encode_request(blank), Placed(blank, (1, 2)))
    assert [block["text"] for block, _ in marks(marked)] == ["b"]
    without = {k: v for k, v in encode_request(request).items() if k != "tools"}
    assert list(marks(mark_breakpoints(without, Placed(request, (TOOLS,))))) == []


def test_a_result_without_content_carries_a_mark():
    request = Request(Head(), (user("a"), assistant(ToolCall("c", "r")), tool_result("c", ())))
    body = encode_request(request)
    body["messages"][2]["content"][0].pop("content")
    marked = mark_breakpoints(body, Placed(request, (2,)))
    assert marked["messages"][2]["content"][0] == {
        "type": "tool_result", "tool_use_id": "c", "cache_control": SHORT,
    }  # fmt: skip


def test_a_body_of_another_request_is_refused():
    request = Request(Head(), (user("a"),))
    with pytest.raises(InvalidArgument, match="the body has 0 elements, its request 1") as caught:
        mark_breakpoints({"messages": []}, Placed(request, (0,)))
    assert (caught.value.code, caught.value.field) == ("invalid-argument", "body")
    assert mark_breakpoints({}, Placed(Request(Head(), ()))) == {"messages": []}
