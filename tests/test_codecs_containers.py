"""Taking files in and giving them back: what every codec of a message list shares."""

from __future__ import annotations

import json
import sys
from collections import Counter

import pytest
from attrs import evolve

from ctxalgebra import (
    DecodeError,
    Head,
    Message,
    Note,
    Reply,
    Route,
    Session,
    ToolCall,
    assistant,
    at_leaf,
    defects,
    log,
    open_calls,
    path,
    project,
    record,
    system,
    tool_result,
    travel,
    user,
)
from ctxalgebra.codecs import CODECS, anthropic, detect, openai_chat, pi
from ctxalgebra.codecs.giveback import give_back
from ctxalgebra.codecs.intake import FORMATS, Item, take_in, taken
from ctxalgebra.codecs.lines import parse

ASK = {"role": "user", "content": "hi"}
DONE = {"role": "assistant", "content": "done"}
LISTS = [openai_chat, anthropic]


def texts(session):
    return ["".join(getattr(p, "text", "") for p in m.parts) for m in project(session).messages]


def dump(value):
    return json.dumps(value, separators=(",", ":"))


# What a host records later is its own


def names_of(codec):
    endings = ("", "-entry", "-aside", "-frame", "-unterminated", "-end", "-headless")
    return [*(f"{name}{end}" for name in FORMATS for end in endings), "codec-repair", "codec-part"]


@pytest.mark.parametrize("codec", LISTS, ids=lambda codec: codec.NAME)
@pytest.mark.parametrize("data", ["{}", '{"of":[1]}', "not json", "", "3", "0"])
def test_notes_that_are_named_like_ours_cover_nothing(codec, data):
    for name in names_of(codec):
        for start in (Session(), codec.decode(dump([ASK]).encode()).session):
            call = assistant("calling", ToolCall("t1", "read"))
            session = record(start, Note(name, data), user("IMPORTANT"), Note(name, data), call)
            session = record(session, Note(name, data), tool_result("t1", "42"))
            again = codec.decode(codec.encode(session))
            assert texts(again.session) == texts(session)
            assert again.repairs == ()


def test_where_a_file_ends_is_told_by_its_own_note_alone():
    session = openai_chat.decode(dump([ASK, DONE]).encode()).session
    assert taken(session) == ("openai-chat", len(session) - 1)
    end = [n.entry for n in log(session)][-1]
    later = record(session, end, user("x"), Note("pi-end", str(len(session) + 2)))
    assert taken(later) == taken(session)
    for odd in (Note("other-end", "0"), Note("pi-end", "1"), Note("pi", "0")):
        assert taken(record(Session(), odd)) == ("", -1)
    # A part of the journal, recorded again elsewhere, is no file any more.
    kept = [n.entry for n in log(session) if not isinstance(n.entry, Note)]
    assert give_back(record(Session(), *kept), "openai-chat").frame == {}


# Trees in which calls are open where they fork


def siblings(count, *, replies=False):
    calls = [
        {"type": "toolCall", "id": f"c{n}", "name": "f", "arguments": {}} for n in range(count)
    ]
    lines = [
        {"type": "session", "version": 3, "id": "s"},
        {"type": "message", "id": "u", "parentId": None, "message": ASK},
        {"type": "message", "id": "a", "parentId": "u"},
    ]
    lines[2]["message"] = {"role": "assistant", "content": calls}
    for n in range(count):
        told = {"role": "toolResult", "toolCallId": f"c{n}", "content": "42"}
        lines.append({"type": "message", "id": f"r{n}", "parentId": "a", "message": told})
        if replies:
            line = {"type": "message", "id": f"y{n}", "parentId": f"r{n}", "message": DONE}
            lines.append(line)
    return "\n".join(map(json.dumps, lines)).encode()


def work(data):
    """Count calls of functions, ours and others', while a file is read."""
    seen = Counter()

    def watch(_, event, __):
        seen[event] += 1

    sys.setprofile(watch)
    try:
        decoded = pi.decode(data)
    finally:
        sys.setprofile(None)
    return seen["call"] + seen["c_call"], decoded


def test_results_that_are_siblings_cost_themselves():
    (one, _), (two, decoded) = work(siblings(400)), work(siblings(800))
    assert two < 2.2 * one, (one, two)
    assert decoded.repairs == ()
    assert len(decoded.session) == 800 + 6
    # Each branch has its own result, and all other calls are open there.
    assert len(open_calls(decoded.session)) == 799
    assert pi.decode(siblings(3)).session.view.results.keys() == {"c2"}


def test_a_file_can_not_ask_for_more_results_than_it_is_worth():
    few = pi.decode(siblings(2, replies=True))
    assert Counter(r.code for r in few.repairs) == {"missing-result": 2}
    many = siblings(40, replies=True)
    decoded = pi.decode(many)
    found = Counter(r.code for r in decoded.repairs)
    items = 2 + 1 + 2 * 40 + 40
    assert found == {"missing-result": 39 * 6, "open-call": 40 - 6}
    assert found["missing-result"] <= 2 * items
    assert CODECS["pi"].encode(decoded.session) == many


# Lines that give several messages, and messages that several lines give


def items(*rows):
    """Make items in a chain; a row is (raw, message, indices of the items that it was made of)."""
    return [
        Item(at + 1, raw, at - 1, message, made=tuple(made))
        for at, (raw, message, *made) in enumerate(rows)
    ]


def said(session, name="codex"):
    return [item.raw or item.message for item in give_back(session, name).said]


HELLO = ("hello", evolve(user("hi"), origin="hello"))


def test_one_line_that_gives_several_messages():
    call = evolve(assistant(ToolCall("c1", "f"), ToolCall("c2", "f")), origin="calls")
    parts = [tool_result("c1", "1"), tool_result("c2", "2"), user("u")]
    chain = items(HELLO, ("calls", call), ("whole", None), *((None, part, 2) for part in parts))
    decoded = take_in(chain, "codex")
    assert decoded.repairs == ()
    assert [m.role for m in project(decoded.session).messages] == [
        *("user", "assistant", "tool", "tool", "user"),
    ]
    session = decoded.session
    assert said(session) == ["hello", "calls", "whole"]
    numbers = {n.entry: n.number for n in log(session)}
    assert said(at_leaf(session, numbers[parts[0]])) == ["hello", "calls", parts[0]]
    assert said(at_leaf(session, numbers[parts[0]] - 1)) == ["hello", "calls"]
    other = record(at_leaf(session, numbers[parts[0]]), tool_result("c2", "new"))
    assert said(other) == ["hello", "calls", parts[0], tool_result("c2", "new")]


@pytest.mark.parametrize("first", [True, False])
def test_one_message_that_several_lines_give(first):
    call = assistant("a", ToolCall("c1", "f"))
    made = (None, call, *((2, 3) if first else (1, 2)))
    rows = [HELLO, ("one", None), ("two", None)]
    rows.insert(1 if first else 3, made)
    rows.append(("result", evolve(tool_result("c1", "r"), origin="result")))
    decoded = take_in(items(*rows), "codex")
    session = decoded.session
    assert decoded.repairs == ()
    assert said(session) == ["hello", "one", "two", "result"]
    (number,) = [n.number for n in log(session) if isinstance(n.entry, Reply)]
    # In the middle of them the message is there or not: nothing is said twice, nothing is lost.
    lines = ["one", "two"]
    assert said(at_leaf(session, number)) == ["hello", *([call] if first else lines)]
    assert said(at_leaf(session, number - 1)) == ["hello"]
    assert said(at_leaf(session, number + 2 * first)) == ["hello", *lines]


def test_lines_and_messages_that_hang_together_in_a_chain():
    """The first message is made of lines 1 and 2, the second of 2 and 3."""
    rows = [("one", None), ("two", None), (None, user("a"), 0, 1), ("three", None)]
    rows.append((None, user("b"), 1, 3))
    session = take_in(items(*rows), "codex").session
    assert said(session) == ["one", "two", "three"]
    (number,) = [n.number for n in log(session) if n.entry == user("a")]
    assert said(at_leaf(session, number)) == [user("a")]


def test_what_stands_in_front_of_its_parent_is_taken_with_all_that_it_gives():
    call = evolve(assistant(ToolCall("c1", "f")), origin="call")
    rows = [
        Item(1, "whole", 3),
        Item(2, None, 0, tool_result("c1", "r"), made=(0,)),
        Item(3, None, 1, user("u"), made=(0,)),
        Item(4, "call", -1, call),
        Item(5, None, 2, act=lambda _: Head(system="s")),
        Item(6, None, 4, act=lambda _: None),
        Item(7, "head", 5, act=lambda _: Head(system="t")),
    ]
    decoded = take_in(rows, "codex")
    assert [(r.code, r.line) for r in decoded.repairs] == [
        ("late-parent", 1),
        ("early-result", 2),
        ("empty-request", 4),
    ]
    assert [m.role for m in project(decoded.session).messages] == ["assistant", "tool", "user"]
    assert decoded.session.head == Head(system="t")
    assert said(decoded.session) == ["whole", "call", "head"]
    assert give_back(decoded.session, "codex").head == Head(system="t")


def test_results_that_moved_are_written_where_the_path_leaves_before_their_line():
    calls = [
        {"id": n, "type": "function", "function": {"name": "f", "arguments": "{}"}} for n in "ab"
    ]
    asked = [{"role": "assistant", "content": None, "tool_calls": [call]} for call in calls]
    told = [{"role": "tool", "tool_call_id": n, "content": f"for {n}"} for n in "ab"]
    # Late: both calls, then both results; early: a result in front of its call.
    late = openai_chat.decode(dump([ASK, *asked, *told]).encode())
    assert [r.code for r in late.repairs] == ["late-result"]
    second = next(n.number for n in log(late.session) if getattr(n.entry, "call", "") == "a")
    written = json.loads(openai_chat.encode(at_leaf(late.session, second)))
    assert written == [ASK, asked[0], told[0]]
    early = openai_chat.decode(dump([ASK, told[0], asked[0], DONE]).encode())
    assert [r.code for r in early.repairs] == ["early-result"]
    call = next(n.number for n in log(early.session) if isinstance(n.entry, Reply))
    assert json.loads(openai_chat.encode(at_leaf(early.session, call))) == [ASK, asked[0]]
    assert json.loads(openai_chat.encode(at_leaf(early.session, call + 2))) == [
        ASK,
        *told[:1],
        asked[0],
    ]
    # Made: as long as the reply is there that it was made for.
    missing = openai_chat.decode(dump([ASK, asked[0], DONE]).encode())
    made = next(n.number for n in log(missing.session) if getattr(n.entry, "call", "") == "a")
    written = json.loads(openai_chat.encode(at_leaf(missing.session, made)))
    assert written[2]["content"] == "No result was recorded for this call."
    assert written[2]["is_error"] is True


def test_a_result_that_is_made_anew_names_its_call_as_the_file_does():
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    told = {"role": "tool", "tool_call_id": "a", "content": "42"}
    decoded = openai_chat.decode(dump([ASK, asked, told, asked, DONE]).encode())
    assert [r.code for r in decoded.repairs] == ["reused-id", "missing-result"]
    made = next(n.number for n in log(decoded.session) if getattr(n.entry, "call", "") == "a_2")
    written = openai_chat.encode(at_leaf(decoded.session, made))
    assert [m.get("tool_call_id") for m in json.loads(written)] == [None, None, "a", None, "a"]
    assert open_calls(openai_chat.decode(written).session) == ()


def test_names_that_repairs_give_are_new_on_the_whole_path():
    """A call is renamed above a fork, and one below would get the same name."""

    def line(name, above, message):
        return {"type": "message", "id": name, "parentId": above, "message": message}

    def asked(*ids):
        blocks = [{"type": "toolCall", "id": n, "name": "f", "arguments": {}} for n in ids]
        return {"role": "assistant", "content": blocks}

    def told(call):
        return {"role": "toolResult", "toolCallId": call, "content": "42"}

    lines = [{"type": "session", "version": 3, "id": "s"}, line("u", None, ASK)]
    above = "u"
    for at in range(3):
        lines += [line(f"a{at}", above, asked("c")), line(f"r{at}", f"a{at}", told("c"))]
        above = f"r{at}"
    # A fork in the middle: what stands below is paired by itself.
    lines.insert(6, line("fork", "r1", ASK))
    decoded = pi.decode("\n".join(map(json.dumps, lines)).encode())
    assert defects(project(decoded.session).messages) == ()
    calls = [c.id for m in project(decoded.session).messages for c in m.calls]
    assert calls == ["c", "c_2", "c_3"]
    reused = [r.text for r in decoded.repairs if r.code == "reused-id"]
    told = "the call and its result were renamed to"
    assert reused == [f"{told} 'c_2'", f"{told} 'c_3'"]


# Containers


def contained(container, elements):
    match container:
        case "list":
            return json.dumps(elements)
        case "body":
            return json.dumps({"model": "m", "messages": elements, "n": 1.5}, indent=1)
        case "trace":
            beside = {"observations": [{"input": [ASK]}, {"output": {"messages": elements}}]}
            return json.dumps(beside)
        case _:
            return "\n".join(['{"_type":"metadata"}', *map(json.dumps, elements), ""])


@pytest.mark.parametrize("container", ["list", "body", "trace", "lines"])
def test_a_path_that_begins_anew_can_be_read_again(container):
    data = contained(container, [ASK, DONE, ASK, DONE]).encode()
    session = openai_chat.decode(data).session
    assert openai_chat.encode(session) == data
    for number in range(-1, len(session)):
        there = at_leaf(session, number)
        again = openai_chat.decode(openai_chat.encode(there)).session
        assert texts(again) == texts(there)
        more = record(there, user("new")) if there.view.flight < 0 else there
        assert texts(openai_chat.decode(openai_chat.encode(more)).session) == texts(more)
    first = next(n.number for n in log(session) if isinstance(n.entry, Message))
    back = record(travel(session, first), system("Now."))
    assert texts(openai_chat.decode(openai_chat.encode(back)).session) == ["hi", "Now."]


def test_system_text_is_written_in_front_of_nothing_else():
    session = openai_chat.decode(b"{bad\n" + json.dumps(ASK).encode()).session
    front = record(at_leaf(session, 1), Head(system="Be brief."))
    written = openai_chat.encode(front)
    assert json.loads(written) == {"role": "system", "content": "Be brief."}
    assert openai_chat.decode(written).session.head.system == "Be brief."
    assert detect(written) == "openai-chat"
    listed = openai_chat.decode(b"[5," + json.dumps(ASK).encode() + b"]").session
    assert openai_chat.encode(at_leaf(listed, 1)) == b"[]"
    # In the format a system message that comes first is the head's text.
    first = openai_chat.decode(
        openai_chat.encode(record(openai_chat.decode(b"[]").session, system("y")))
    )
    assert first.session.head.system == "y"


def test_a_trace_whose_list_is_shorter_than_another_becomes_a_body():
    data = contained("trace", [{"role": "system", "content": "s"}, ASK]).encode()
    session = openai_chat.decode(data).session
    silent = openai_chat.encode(record(session, evolve(session.head, system="")))
    assert json.loads(silent) == {"messages": [ASK]}


def test_a_byte_order_mark_stays_in_front():
    data = b"\xef\xbb\xbf" + dump(ASK).encode() + b"\n" + dump(DONE).encode() + b"\n"
    session = openai_chat.decode(data).session
    assert openai_chat.encode(session) == data
    headed = openai_chat.encode(record(session, Head(system="Be brief.")))
    assert headed.startswith(b'\xef\xbb\xbf{"role":"system"')
    assert headed.count(b"\xef\xbb\xbf") == 1
    assert texts(openai_chat.decode(headed).session) == ["hi", "done"]


@pytest.mark.parametrize("codec", LISTS, ids=lambda codec: codec.NAME)
def test_a_text_in_place_of_a_list_is_what_the_user_says(codec):
    data = '{"model": "m", "messages": "hé\\n", "n": 1.50}'.encode()
    decoded = codec.decode(data)
    assert (texts(decoded.session), decoded.repairs) == (["hé\n"], ())
    assert codec.encode(decoded.session) == data
    more = codec.encode(record(decoded.session, user("more")))
    assert json.loads(more) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hé\n"}, {"role": "user", "content": "more"}],
        "n": 1.5,
    }
    moved = codec.encode(record(decoded.session, Head(Route(model="other"), "s")))
    assert json.loads(moved)["model"] == "other"
    assert texts(codec.decode(codec.encode(at_leaf(decoded.session, 1))).session) == []


def test_a_recorded_request_may_hold_a_text():
    data = (
        b"interactions:\n- request: {parsed_body: {messages: hi}}\n- request:\n    parsed_body:"
        b" {messages: [{role: user, content: hi}, {role: user, content: x}]}\n"
    )
    decoded = openai_chat.decode(data)
    assert (texts(decoded.session), decoded.repairs) == (["hi", "x"], ())
    assert openai_chat.encode(decoded.session) == data


def test_only_what_changed_of_a_head_is_written_anew():
    tools = [
        {"type": "function", "function": {"name": "a", "strict": True}},
        {"type": "function", "function": {"name": "b", "strict": True}},
        "odd",
    ]
    body = {"model": "m", "messages": [ASK], "tools": tools}
    session = openai_chat.decode(dump(body).encode()).session
    head = session.head
    other = record(session, evolve(head, route=Route(model="n", binding="none")))
    assert json.loads(openai_chat.encode(other)) == {**body, "model": "n"}
    fewer = record(session, evolve(head, tools=head.tools[1:]))
    assert json.loads(openai_chat.encode(fewer)) == {**body, "tools": tools[1:2]}
    nothing = record(session, Head())
    assert json.loads(openai_chat.encode(nothing)) == {"messages": [ASK]}


# Places of errors


@pytest.mark.parametrize("codec", LISTS, ids=lambda codec: codec.NAME)
@pytest.mark.parametrize("data", [b"", b" \n\t", b"\xef\xbb\xbf"])
def test_a_file_that_holds_nothing(codec, data):
    with pytest.raises(DecodeError) as caught:
        codec.decode(data, file="f")
    assert (caught.value.code, caught.value.file) == ("empty-file", "f")


def test_errors_in_a_list_say_where():
    deep = "[" * 600 + "]" * 600
    with pytest.raises(DecodeError) as caught:
        openai_chat.decode(f'[{{"role":"user"}}, [1, 2], {deep}]'.encode(), file="f")
    assert (caught.value.code, caught.value.line, caught.value.field) == ("too-deep", 1, "[2]")
    with pytest.raises(DecodeError) as caught:
        parse('["' + "x" * 99 + '"]', limit=50, file="f", line=7)
    assert (caught.value.code, caught.value.file, caught.value.line) == ("line-too-long", "f", 7)


def test_entries_of_a_decoded_list_end_with_the_note_of_the_end():
    session = openai_chat.decode(dump([ASK]).encode()).session
    last = path(session)[-1]
    assert last.entry == Note("openai-chat-end", str(last.number))
