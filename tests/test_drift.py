"""What changed in the head, in a session and in the bytes of a harness's own requests."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Head,
    InvalidArgument,
    Route,
    Session,
    Tool,
    ToolCall,
    account,
    assistant,
    breaks,
    byte_drift,
    drift,
    head_drift,
    record,
    reply,
    requests,
    select,
    send,
    tool_result,
    user,
)
from ctxalgebra.bodies import is_same_content
from ctxalgebra.breakpoints import default_breakpoints
from ctxalgebra.codecs import anthropic, gemini, openai_chat, openai_responses
from ctxalgebra.laws.strategies import heads, journals

READ, BASH, LS = (
    Tool(name, f"{name} does it.", json.dumps({"type": "object", "properties": {"a": {}, "b": {}}}))
    for name in ("read", "bash", "ls")
)


def kinds(before: Head, after: Head) -> list[tuple[str, str]]:
    return [(change.place, change.kind) for change in head_drift(before, after)]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("Today is 2026-11-29.", "Today is 2026-11-30."),
        ("It is 09:12:55 now", "It is 9:13:01 now"),
        ("2026-11-29T09:12:33Z", "2026-11-30T10:00:00.123+01:00"),
        ("on Sunday, November 29, 2026", "on Monday, November 30, 2026"),
        ("29 Nov 2026", "30 Nov 2026"),
        ("29.11.2026", "1/12/26"),
        ("at 1764407553", "at 1764493953"),
    ],
)
def test_dates_are_told_from_other_changes(was, now):
    assert kinds(Head(system=was), Head(system=now)) == [("system", "date")]
    assert kinds(Head(system=was), Head(system=now + "!")) == [("system", "text")]


def test_white_space_is_told():
    assert kinds(Head(system="a\n\nb"), Head(system="a\nb ")) == [("system", "white space")]


def test_tools_that_came_went_moved_or_changed():
    before = Head(tools=(READ, BASH, LS))
    assert kinds(before, before) == []
    assert kinds(before, Head(tools=(READ, LS))) == [("tools", "removed")]
    assert kinds(before, Head(tools=(READ, BASH, LS, Tool("new")))) == [("tools", "added")]
    assert kinds(before, Head(tools=(BASH, READ, LS))) == [("tools", "order")]
    assert kinds(before, Head(tools=(Tool("x"), BASH, READ))) == [
        ("tools", "removed"), ("tools", "added"), ("tools", "order"),
    ]  # fmt: skip
    other = Tool("read", "READ does it.", READ.schema.replace(" ", ""))
    assert kinds(before, Head(tools=(other, BASH, LS))) == [
        ("read: description", "text"), ("read: schema", "white space"),
    ]  # fmt: skip
    turned = Tool("ls", LS.description, LS.schema.replace('"a": {}, "b"', '"b": {}, "a"'))
    assert kinds(before, Head(tools=(READ, BASH, turned))) == [("ls: schema", "key order")]
    broken = Tool("ls", LS.description, "{")
    deep = Tool("ls", LS.description, "[" * 100_000)
    nan = Tool("ls", LS.description, "NaN")
    for tool in (broken, deep, nan):
        assert kinds(before, Head(tools=(READ, BASH, tool))) == [("ls: schema", "text")]


def test_the_route_is_told_first():
    after = Head(Route("p", "m", (("effort", "1"),), "none"), "s")
    assert [c.place for c in head_drift(Head(), after)] == [
        "provider", "model", "parameters", "binding", "system",
    ]  # fmt: skip


def test_a_line_for_a_person_escapes_what_a_terminal_would_obey():
    (change,) = head_drift(Head(system="a" * 500 + "b"), Head(system="a" * 500 + "\x1b[2J" * 50))
    assert str(change).startswith("system, from 500 on: 'b' became '\\x1b[2J")
    assert "\x1b" not in str(change)
    assert len(str(change)) < 300


@given(heads(), heads())
def test_there_are_changes_where_heads_differ_and_only_there(before, after):
    assert bool(head_drift(before, after)) == (before != after)


@given(journals())
def test_every_break_at_the_head_is_a_drift(session):
    told = {one.sent: one for one in drift(session)}
    assert {b.sent for b in breaks(session) if b.at < 0} == told.keys()
    made = requests(session)
    parted = [b.head != a.head for a, b in pairwise(made)]
    assert sum(parted) == len(told)
    assert all(one.changes and one.rebilled > 0 for one in told.values())
    # What it costs is told in one figure.
    priced = {b.sent: b.rebilled for b in account(session).breaks}
    assert all(one.rebilled == priced[number] for number, one in told.items())


def test_a_head_that_was_taken_back_is_none():
    session = record(Session(), Head(system="a"), user("x" * 400))
    session = reply(send(session)[0], "completed", assistant("b"))
    session = record(session, Head(system="c"), Head(system="a"), user("more"))
    assert drift(send(session)[0]) == ()


def body(**members: object) -> bytes:
    return json.dumps(members).encode()


HELLO = {"role": "user", "content": "hi"}
MORE = {"role": "assistant", "content": [{"type": "text", "text": "Hello!"}]}


def test_bodies_that_only_grow_have_no_drift():
    for name in ("messages", "input", "contents"):
        before = body(model="m", **{name: [HELLO]})
        after = body(**{name: [HELLO, MORE], "model": "m"})  # where a member stands says nothing
        assert byte_drift(before, after) == byte_drift(before, before) == ()
    assert byte_drift(b"{}", b" { } ") == ()


@pytest.mark.parametrize(
    ("before", "after", "path", "kind"),
    [
        (body(system="on 2026-11-29"), body(system="on 2026-11-30"), "system", "date"),
        (body(system="a"), body(), "system", "removed"),
        (body(), body(tools=[]), "tools", "added"),
        (b'{"tools":[{"a":1,"b":2}]}', b'{"tools":[{"b":2,"a":1}]}', "tools", "key order"),
        (b'{"tools":[{"a":1}]}', b'{"tools":[{"a": 1}]}', "tools", "white space"),
        (body(tools=[{"d": "x"}]), body(tools=[{"d": "y"}]), "tools[0].d", "text"),
        (body(tools=[{"d": 1}]), body(tools=[{"d": 2}]), "tools[0].d", "text"),
        (body(tools=[{"d": 1}]), body(tools=[{"e": 1}]), "tools[0]", "text"),
        (body(tools=[1]), body(tools=[1, 2]), "tools[1]", "added"),
        (body(messages=[HELLO]), body(messages=[MORE]), "messages[0].role", "text"),
        (body(messages=[HELLO, MORE]), body(messages=[HELLO]), "messages[1]", "removed"),
        (body(messages=[HELLO]), body(messages="hi"), "messages", "text"),
        (body(messages=[MORE]), json.dumps({"messages": [MORE]}, indent=1).encode(),
         "messages[0]", "white space"),
    ],
)  # fmt: skip
def test_where_bodies_part(before, after, path, kind):
    (told,) = byte_drift(before, after)
    assert (told.path, told.kind) == (path, kind)


def test_the_head_comes_first_and_every_member_is_told():
    before = body(messages=[HELLO], system="a", model="m")
    after = body(messages=[MORE], system="b", model="n")
    assert [d.path for d in byte_drift(before, after)] == ["system", "model", "messages[0].role"]


@pytest.mark.parametrize(
    "bad",
    [b"", b"[]", b"{", b'{"a"}', b'{"a":1,}', b'{"a":1}x', b'{"a":NaN}', b"\xff", b'{"a":1 "b":2}',
     b'{"a":' + b"[" * 150 + b"}", b'{"a":1', b"{1:2}"],
)  # fmt: skip
def test_what_is_no_body_is_refused(bad):
    for pair in ((bad, b"{}"), (b"{}", bad)):
        with pytest.raises(InvalidArgument) as caught:
            byte_drift(*pair)
        assert caught.value.code == "invalid-json"


def test_bodies_as_deep_as_can_be_read_are_compared_or_refused():
    told = []
    for depth in (1, 100, 199, 200, 1_000, 100_000):
        deep = [b'{"a":' + b"[" * depth + end + b"]" * depth + b"}" for end in (b"1", b"2")]
        try:
            told.append(byte_drift(*deep)[0].kind)
        except InvalidArgument as error:
            told.append(error.code)
    assert told == ["text"] * 3 + ["too-deep"] * 3


# What the provider reads as the same

A, B = ({"type": "text", "text": text} for text in "ab")
MARKED = {**A, "cache_control": {"type": "ephemeral"}}


def said(*contents: object) -> bytes:
    return body(messages=[{"role": "user", "content": content} for content in contents])


def result(content: object, **more: object) -> list[object]:
    return [{"type": "tool_result", "tool_use_id": "c", "content": content, **more}]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (said("a"), said([A])),
        (said("a"), said([A, B])),
        (said([A]), said("a", "b")),
        (said([A]), said([A, {"type": "image"}], "b")),
        (said("a", [MARKED]), said("a", "a", "b")),
        (said([B, MARKED]), said([B, A], [MARKED])),
        (said(result("a")), said([*result([A]), B])),
        (said(result("a", cache_control={})), said(result("a"), "b")),
        (said(result([MARKED])), said(result("a"))),
        (body(system="a"), body(system=[MARKED])),
        (body(system=[A, B]), body(system=[A, {**B, "cache_control": {}}])),
        (body(tools=[{"name": "t", "cache_control": {}}]), body(tools=[{"name": "t"}])),
        (body(contents=[{"parts": [{"text": "a"}]}]),
         body(contents=[{"parts": [{"text": "a"}, {"text": "b"}]}])),
    ],
)  # fmt: skip
def test_what_a_provider_reads_as_the_same_is_no_drift(before, after):
    assert byte_drift(before, after) == ()


@pytest.mark.parametrize(
    ("before", "after", "path", "kind"),
    [
        (said("a"), said([B]), "messages[0].content", "text"),
        (said("a"), said([{**A, "citations": []}]), "messages[0].content", "text"),
        (said("a", "b"), said([A, B], "b"), "messages[0].content", "text"),
        (said([A, B]), said([A]), "messages[0].content", "text"),
        (said([A, B]), said("a"), "messages[0].content", "text"),
        (said([A]), said([B, A]), "messages[0].content[0].text", "text"),
        (said([MARKED, B]), said([A, MARKED]), "messages[0].content[1].text", "text"),
        (said(None), said([A]), "messages[0].content", "text"),
        (said(5), said(6), "messages[0].content", "text"),
        (said(["a"]), said([[5]]), "messages[0].content[0]", "text"),
        (said(result("a")), said(result([A, B])), "messages[0].content[0].content", "text"),
        (said(result({"x": 1})), said(result({"x": 2})), "messages[0].content[0].content.x",
         "text"),
        (said([{"a": 1, "b": 2}]), said([{"b": 2, "a": 1}]), "messages[0]", "key order"),
        (said([{**A, "a": 1}]), said([{**A, "a": 2}]), "messages[0].content[0].a", "text"),
        (body(system="a"), body(system=[A, B]), "system", "text"),
        (body(system=None), body(system="a"), "system", "text"),
        (body(messages=["a"]), body(messages=["b"]), "messages[0]", "text"),
        (body(messages=[{"content": "a"}]), body(messages=[{"content": [A], "name": "n"}]),
         "messages[0].content", "text"),
        (body(tools=[{"name": "t"}]), body(tools=[{"name": "t"}, {"name": "u"}]), "tools[1]",
         "added"),
        (body(tools=[{"name": "t"}]), body(tools=[{"name": "u"}, {"name": "t"}]), "tools[0]",
         "added"),
        (body(tools=[{"function": {"name": "t"}}, {"function": {"name": "u"}}]),
         body(tools=[{"function": {"name": "u"}}]), "tools[0]", "removed"),
        (body(tools=[{"name": "t"}]), body(tools=[{"name": "u"}]), "tools[0].name", "text"),
        (body(tools=[{"name": "t"}, {"name": "u"}]), body(tools=[{"name": "u"}, {"name": "t"}]),
         "tools[0].name", "text"),
        (body(tools=[{"functionDeclarations": [{"name": "t"}]}]),
         body(tools=[{"functionDeclarations": [{"name": "t"}, {"name": "u"}]}]),
         "tools[0].functionDeclarations[1]", "added"),
        (body(tools=[{"functionDeclarations": [], "x": 1}]),
         body(tools=[{"functionDeclarations": [], "x": 2}]), "tools[0].x", "text"),
        (body(tools=[{"name": "t"}]), body(tools=[5]), "tools[0]", "text"),
        (body(tools=[5]), body(tools=[6]), "tools[0]", "text"),
        (b'{"tools":[ ]}', b'{"tools":[]}', "tools", "white space"),
    ],
)  # fmt: skip
def test_what_really_changed_is_told(before, after, path, kind):
    (told,) = byte_drift(before, after)
    assert (told.path, told.kind) == (path, kind)


def test_equal_contents_are_the_same():
    assert is_same_content("5", "5")
    assert not is_same_content("5", "6")


@pytest.mark.parametrize("api", [anthropic, openai_chat, openai_responses, gemini])
@pytest.mark.parametrize("marks", [False, True])
def test_bodies_of_ours_that_extend_each_other_have_no_drift(api, marks):
    """A message that a failed request leaves last grows by what is said next."""
    session = record(Session(), Head(Route("anthropic", "claude-opus-5"), "s", (READ,)))
    steps = [
        [user("a")], [user("b")], [user("c"), assistant(ToolCall("c1", "read")),
        tool_result("c1", "r")], [user("d")], [user("e")],
    ]  # fmt: skip
    bodies: list[bytes] = []
    for step in steps:
        session, request = send(record(session, *step))
        marked = {"breakpoints": default_breakpoints(request)} if marks and api is anthropic else {}
        bodies.append(json.dumps(api.encode_request(request, **marked)).encode())
        session = reply(session, "failed")
    assert breaks(session) == ()
    assert [byte_drift(*pair) for pair in pairwise(bodies)] == [()] * 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(max_size=3), JSON, max_size=4),
    st.lists(JSON, max_size=4),
    st.integers(0, 4),
)
def test_any_body_extends_its_beginnings(members, said, kept):
    members.pop("messages", None)
    before = json.dumps({**members, "messages": said[:kept]}).encode()
    after = json.dumps({**members, "messages": said}).encode()
    assert byte_drift(before, after) == ()
    assert bool(byte_drift(after, before)) == (len(said) > kept)


def test_arguments_are_checked():
    for call in (
        lambda: head_drift(5, Head()),
        lambda: head_drift(Head(), 5),
        lambda: drift(5),
        lambda: byte_drift("{}", b"{}"),
        lambda: byte_drift(b"{}", None),
    ):
        with pytest.raises(InvalidArgument):
            call()


def test_a_stage_makes_no_drift():
    settle = partial(select, budget=100)
    session = record(Session(), Head(system="s"), user("x" * 300))
    for said in ("y", "z"):
        session = reply(send(settle(session))[0], "completed", assistant("ok"))
        session = record(session, user(said * 300))
    session = send(settle(session))[0]
    assert drift(session) == ()
    assert breaks(session)
