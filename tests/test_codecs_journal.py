"""Our journal: canonical bytes, strict reading, errors with line and field."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Answer,
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
    assistant,
    at_leaf,
    project,
    record,
    system,
    tool_result,
    user,
)
from ctxalgebra.codecs import journal
from ctxalgebra.laws.strategies import journals, sessions

HEADER = '{"kind":"journal","spec":1}\n'
ASKED = '{"kind":"message","role":"user","parts":[{"kind":"text","text":"a"}]}\n'

WILD = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["", "\u2028\u2029", "\x00\x1f\x7f", "😀", '"\\', "\ufeff", "a\nb\r"]
)
PARTS = st.one_of(
    st.builds(Text, WILD),
    st.builds(Image, WILD, WILD),
    st.builds(Opaque, WILD, WILD),
)
SAID = st.one_of(
    PARTS,
    st.builds(Thinking, WILD, WILD, st.booleans()),
    st.builds(ToolCall, WILD, WILD, WILD, WILD),
)
PLAIN = st.one_of(
    st.builds(
        lambda role, parts, name, id, origin: Message(
            role, tuple(parts), name=name, id=id, origin=origin
        ),
        st.sampled_from(["user", "system"]),
        st.lists(PARTS, max_size=3),
        WILD,
        WILD,
        WILD,
    ),
    st.builds(
        Head,
        st.builds(
            Route,
            WILD,
            WILD,
            st.lists(st.tuples(WILD, WILD), max_size=2).map(tuple),
            st.sampled_from(["none", "prefix", "leading"]),
        ),
        WILD,
        st.lists(st.builds(Tool, WILD, WILD, WILD), max_size=2).map(tuple),
    ),
    st.builds(Note, WILD, WILD),
    st.builds(Ask, WILD, WILD, WILD, st.integers()),
)
COUNTS = st.integers(0, 10**20)


@given(st.lists(PLAIN, max_size=6), st.lists(SAID, max_size=3), st.integers(), WILD)
def test_hostile_text_and_numbers_come_back(entries, said, time, text):
    session = record(Session(), user("a"), *entries, Sent(inferred=True, time=time))
    closing = Reply("aborted", Message("assistant", tuple(said), id=text), Usage(time % 7))
    ids = [part.id for part in said if type(part) is ToolCall]
    if all(ids) and len(set(ids)) == len(ids):
        session = record(session, closing)
    data = journal.encode(session)
    assert journal.decode(data).session == session
    assert data.count(b"\n") == len(session) + 1


@given(st.one_of(sessions(), journals()), st.integers(-1, 40))
def test_every_session_comes_back_with_equal_bytes(session, leaf):
    session = at_leaf(session, min(leaf, len(session) - 1))
    data = journal.encode(session)
    again = journal.decode(data)
    assert again.session == session
    assert project(again.session) == project(session)
    assert journal.encode(again.session) == data
    assert again.repairs == ()
    assert again.format == "journal"


@given(sessions(), st.integers(0, 60))
def test_recording_appends_bytes(session, cut):
    session = at_leaf(session, len(session) - 1)
    data = journal.encode(session)
    cut = min(cut, len(session))
    head = b"".join(data.splitlines(keepends=True)[: cut + 1])
    assert head + journal.encode_since(session, journal.decode(head).session) == data


def test_moving_the_leaf_appends_a_line():
    stored = record(Session(), user("a"), user("b"))
    data = journal.encode(stored)
    back = at_leaf(stored, 0)
    data += journal.encode_since(back, stored)
    assert data.endswith(b'{"kind":"leaf","entry":0}\n')
    assert journal.decode(data).session == back
    start = at_leaf(back, -1)
    data += journal.encode_since(start, back)
    assert journal.decode(data).session == start
    # The entry behind such a line is one of the last entry, unless it names its parent.
    on = record(start, user("c"))
    data += journal.encode_since(on, start)
    assert data.splitlines()[-1].startswith(b'{"kind":"message","parent":-1,')
    assert journal.decode(data).session == on
    last = record(at_leaf(on, 2), user("d"))
    data += journal.encode_since(last, on)
    assert b"leaf" not in data.splitlines()[-1]
    assert journal.decode(data).session == last
    # Written anew, the lines in between are gone.
    assert journal.encode(last).count(b"leaf") == 0
    assert journal.encode_since(last, last) == b""


def test_every_kind_has_its_canonical_line():
    call = ToolCall("c", "read", '{"a": 1}', "sig")
    stub = tool_result("c", (Opaque("x", "{}"), Text("b")), name="read", error=True)
    session = record(
        Session(),
        Head(Route("p", "m", (("k", "1"),), "none"), "s", (Tool("t", "d", '{"x":1}'),)),
        Message("user", (Text("a"), Image("d", "image/png")), id="u", origin="{}"),
        system("b"),
        Sent(time=5),
        Reply("completed", assistant(Thinking("t", "s", redacted=True), call), Usage(5, 4, 3, 2)),
        tool_result("c", (Opaque("x", "{}"),), name="read", error=True),
        Note("n", "d"),
        Label(1, "here"),
        UsageReport(3, Usage(1)),
        Ask("k", "t", "q", 5),
        Answer(9, "expired"),
        Replace(5, stub, "why", breaks=True),
        Sent(inferred=True),
        Reply("completed", assistant("x")),
        Drop(4, 5, "big", breaks=True),
        user("c"),
    )
    session = record(session, Cut(2, user("[cut]"), "old", keep=(1,), breaks=True))
    session = record(at_leaf(session, 4), tool_result("c", "y"), Strip("400", breaks=True))
    session = at_leaf(session, 0)
    lines = [
        '{"kind":"journal","spec":1}',
        (
            '{"kind":"head","route":{"provider":"p","model":"m","parameters":[["k","1"]],'
            '"binding":"none"},"system":"s","tools":[{"name":"t","description":"d",'
            '"schema":"{\\"x\\":1}"}]}'
        ),
        (
            '{"kind":"message","role":"user","parts":[{"kind":"text","text":"a"},'
            '{"kind":"image","data":"d","media_type":"image/png"}],"id":"u","origin":"{}"}'
        ),
        '{"kind":"message","role":"system","parts":[{"kind":"text","text":"b"}]}',
        '{"kind":"sent","time":5}',
        (
            '{"kind":"reply","outcome":"completed","message":{"role":"assistant","parts":['
            '{"kind":"thinking","text":"t","signature":"s","redacted":true},'
            '{"kind":"tool-call","id":"c","name":"read","arguments":"{\\"a\\": 1}",'
            '"signature":"sig"}]},"usage":{"input":5,"output":4,"cache_read":3,"cache_write":2}}'
        ),
        (
            '{"kind":"message","role":"tool","parts":[{"kind":"opaque","type":"x","data":"{}"}],'
            '"call":"c","name":"read","error":true}'
        ),
        '{"kind":"note","name":"n","data":"d"}',
        '{"kind":"label","target":1,"name":"here"}',
        '{"kind":"usage","sent":3,"usage":{"input":1}}',
        '{"kind":"ask","key":"k","topic":"t","question":"q","deadline":5}',
        '{"kind":"answer","ask":9,"outcome":"expired"}',
        (
            '{"kind":"replace","target":5,"message":{"role":"tool","parts":['
            '{"kind":"opaque","type":"x","data":"{}"},{"kind":"text","text":"b"}],"call":"c",'
            '"name":"read","error":true},"why":"why","breaks":true}'
        ),
        '{"kind":"sent","inferred":true}',
        (
            '{"kind":"reply","outcome":"completed","message":{"role":"assistant","parts":['
            '{"kind":"text","text":"x"}]}}'
        ),
        '{"kind":"drop","first":4,"last":5,"why":"big","breaks":true}',
        '{"kind":"message","role":"user","parts":[{"kind":"text","text":"c"}]}',
        (
            '{"kind":"cut","through":2,"notice":{"role":"user","parts":[{"kind":"text",'
            '"text":"[cut]"}]},"why":"old","keep":[1],"breaks":true}'
        ),
        (
            '{"kind":"message","parent":4,"role":"tool","parts":[{"kind":"text","text":"y"}],'
            '"call":"c"}'
        ),
        '{"kind":"strip","why":"400","breaks":true}',
        '{"kind":"leaf","entry":0}',
    ]
    assert journal.encode(session).decode() == "".join(f"{line}\n" for line in lines)
    assert journal.decode(journal.encode(session)).session == session


def test_an_empty_session_is_a_header():
    assert journal.encode(Session()) == HEADER.encode()
    assert journal.decode(HEADER.encode()).session == Session()
    # The last LF may be missing, and white space is no harm.
    assert len(journal.decode(f"{HEADER}  {ASKED}".rstrip().encode()).session) == 1


@pytest.mark.parametrize(
    ("text", "code", "line", "field"),
    [
        ("", "empty-file", None, None),
        ("\n", "invalid-json", 1, None),
        ("[]\n", "missing-header", 1, "kind"),
        ("{}\n", "missing-header", 1, "kind"),
        (ASKED, "missing-header", 1, "kind"),
        ('{"kind":"journal"}\n', "missing-field", 1, "spec"),
        ('{"kind":"journal","spec":true}\n', "wrong-type", 1, "spec"),
        ('{"kind":"journal","spec":"1"}\n', "wrong-type", 1, "spec"),
        ('{"kind":"journal","spec":2}\n', "missing-header", 1, "spec"),
        ('{"kind":"journal","spec":1,"x":1}\n', "extra-field", 1, "x"),
        ('{"kind":"journal","spec":1,"leaf":0}\n', "extra-field", 1, "leaf"),
        (HEADER + '{"kind":"leaf","entry":null}\n', "wrong-type", 2, "entry"),
        (HEADER + '{"kind":"leaf"}\n', "missing-field", 2, "entry"),
        (HEADER + '{"kind":"leaf","entry":0}\n', "unknown-entry", 2, "entry"),
        (HEADER + '{"kind":"leaf","entry":-2}\n', "unknown-entry", 2, "entry"),
        (HEADER + '{"kind":"leaf","entry":-1,"parent":-1}\n', "extra-field", 2, "parent"),
        (f"{HEADER}\n", "invalid-json", 2, None),
        (f"{HEADER}5\n", "wrong-type", 2, None),
        (f"{HEADER}{{}}\n", "missing-field", 2, "kind"),
        (HEADER + '{"kind":"x"}\n', "unknown-kind", 2, "kind"),
        (HEADER + '{"kind":["note"]}\n', "unknown-kind", 2, "kind"),
        (HEADER + '{"kind":"message"}\n', "missing-field", 2, "role"),
        (HEADER + '{"kind":"message","role":"x","parts":[]}\n', "invalid-argument", 2, "role"),
        (HEADER + '{"kind":"message","role":5,"parts":[]}\n', "invalid-argument", 2, "role"),
        (HEADER + '{"kind":"message","role":"user","parts":"a"}\n', "wrong-type", 2, "parts"),
        (
            HEADER + '{"kind":"message","role":"user","parts":[{"kind":"text","text":5}]}\n',
            "wrong-type",
            2,
            "parts[0].text",
        ),
        (
            HEADER + '{"kind":"message","role":"user","parts":[{"text":"a"}]}\n',
            "missing-field",
            2,
            "parts[0].kind",
        ),
        (
            HEADER
            + '{"kind":"message","role":"user","parts":[{"kind":"text","text":"a"},'
            + '{"kind":"text","text":"a","z":1}]}\n',
            "extra-field",
            2,
            "parts[1].z",
        ),
        (
            HEADER + '{"kind":"message","role":"user","parts":[7]}\n',
            "wrong-type",
            2,
            "parts[0]",
        ),
        (
            HEADER + '{"kind":"message","role":"user","parts":[],"calls":[]}\n',
            "extra-field",
            2,
            "calls",
        ),
        (HEADER + '{"kind":"message","role":"tool","parts":[]}\n', "wrong-role", 2, "call"),
        (
            HEADER + '{"kind":"message","role":"user","parts":[],"error":1}\n',
            "wrong-type",
            2,
            "error",
        ),
        (HEADER + '{"kind":"note","name":null}\n', "wrong-type", 2, "name"),
        (HEADER + '{"kind":"note","name":true}\n', "wrong-type", 2, "name"),
        (HEADER + '{"kind":"head","route":[]}\n', "wrong-type", 2, "route"),
        (
            HEADER + '{"kind":"head","route":{"binding":"x"}}\n',
            "invalid-argument",
            2,
            "route.binding",
        ),
        (
            HEADER + '{"kind":"head","route":{"parameters":[["a","b"],["c",1]]}}\n',
            "wrong-type",
            2,
            "route.parameters[1][1]",
        ),
        (
            HEADER + '{"kind":"head","route":{"parameters":[["a"]]}}\n',
            "wrong-type",
            2,
            "route.parameters[0]",
        ),
        (HEADER + ASKED + '{"kind":"sent","time":1.5}\n', "wrong-type", 3, "time"),
        (HEADER + ASKED + '{"kind":"sent","time":{}}\n', "wrong-type", 3, "time"),
        (
            HEADER + ASKED + '{"kind":"sent","time":' + "9" * 4301 + "}\n",
            "invalid-number",
            3,
            "time",
        ),
        (HEADER + '{"kind":"sent"}\n', "empty-request", 2, None),
        (HEADER + ASKED + '{"kind":"label","target":7,"name":"x"}\n', "unknown-entry", 3, None),
        (HEADER + ASKED + '{"kind":"cut","through":0}\n', "missing-field", 3, "notice"),
        (HEADER + '{"kind":"note","name":"a","parent":0}\n', "unknown-parent", 2, "parent"),
        (HEADER + '{"kind":"note","name":"a","parent":-2}\n', "unknown-parent", 2, "parent"),
        (HEADER + '{"kind":"note","name":"a","parent":"0"}\n', "wrong-type", 2, "parent"),
        (HEADER + '{"kind":"note","name":"a","parent":null}\n', "wrong-type", 2, "parent"),
        (HEADER + '{"kind":"note","name":NaN}\n', "invalid-number", 2, "name"),
        (HEADER + '{"kind":"note","name":"\\ud800"}\n', "lone-surrogate", 2, "name"),
    ],
)
def test_every_defect_is_an_error_with_its_place(text, code, line, field):
    with pytest.raises(DecodeError) as caught:
        journal.decode(text.encode(), file="f")
    error = caught.value
    assert (error.code, error.file, error.line, error.field) == (code, "f", line, field)


def test_parents_are_found_however_they_are_written():
    lines = [ASKED, ASKED, ASKED.replace('"role"', '"parent" : 0,"role"')]
    lines.append(ASKED.replace('"role"', '"\\u0070arent":1,"role"'))
    session = journal.decode((HEADER + "".join(lines)).encode()).session
    assert session.leaf.parent.number == 1
    assert at_leaf(session, 2).leaf.parent.number == 0


def test_an_integer_without_end_is_not_written():
    session = record(Session(), Ask("k", "t", "q", 10**5000))
    with pytest.raises(InvalidArgument) as caught:
        journal.encode(session)
    assert caught.value.code == "invalid-number"


def test_a_journal_that_is_written_otherwise_is_read_and_written_canonically():
    session = record(Session(), user("a b"), Note("n", "\u00e9"))
    data = journal.encode(session)
    lines = [json.loads(line) for line in data.decode().splitlines()]
    others = (
        data.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + data,
        "".join(json.dumps(line) + "\n" for line in lines).encode(),
        "".join(json.dumps(dict(reversed(line.items()))) + " \n" for line in lines).encode(),
        data.removesuffix(b"\n"),
    )
    for other in others:
        assert other != data
        read = journal.decode(other).session
        assert read == session
        assert journal.encode(read) == data
