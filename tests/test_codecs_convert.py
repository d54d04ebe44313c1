"""Conversion: what both formats hold is kept, the rest is listed, and files are replaced whole."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given, settings

from ctxalgebra import (
    DECISIONS,
    Ask,
    Cut,
    DecodeError,
    Head,
    Image,
    InvalidArgument,
    Message,
    Note,
    Opaque,
    Replace,
    Reply,
    Route,
    Sent,
    Session,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Usage,
    UsageReport,
    assistant,
    at_leaf,
    find,
    label,
    log,
    path,
    project,
    record,
    reply,
    send,
    system,
    tool_result,
    user,
)
from ctxalgebra.cli import main
from ctxalgebra.codecs import CODECS, command, load
from ctxalgebra.codecs.convert import FAMILIES, convert
from ctxalgebra.codecs.lines import compact, parse
from ctxalgebra.codecs.losses import LOSSES, losses
from ctxalgebra.laws.strategies import journals, sessions
from ctxalgebra.model.session import append

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions"
SMALL = 150_000
FILES = [
    file
    for name in sorted(CODECS)
    for file in sorted((SHARED / name).glob("*.*"), key=lambda f: f.stat().st_size)[:3]
    if file.stat().st_size < SMALL
]
NAMES = sorted(CODECS)
HELD = ["journal", "openai-chat", "pi"]
"""Formats that hold messages of every kind, with all signatures."""


def said(session):
    """List the messages of a path as requests would show them, with their numbers."""
    found, waiting, flight, calls, results = [], [], False, (), {}
    for node in path(session):
        entry, pair = node.entry, (node.number, node.entry)
        if isinstance(entry, Sent | Reply):
            flight = isinstance(entry, Sent)
            pair = (node.number, getattr(entry, "message", None))
            if flight or entry.outcome != "completed":
                pair = None
        elif not isinstance(entry, Message):
            continue
        elif entry.role == "tool":
            results[entry.call], pair = pair, None
        elif flight or calls:
            waiting.append(pair)
            pair = None
        found += [pair] if pair else []
        calls = tuple(call.id for call in pair[1].calls) if pair else calls
        if not flight and all(call in results for call in calls):
            found += [*(results[call] for call in calls), *waiting]
            waiting, calls, results = [], (), {}
    return found + [results[call] for call in calls if call in results] + waiting


def canonical(text):
    try:
        return compact(parse(text))
    except DecodeError:
        return text


def held(message):
    """Give what every format holds of a message."""
    texts = tuple(p.text for p in message.parts if isinstance(p, Text) and p.text.strip())
    texts = ("".join(texts),) if texts and message.role == "tool" else texts
    calls = tuple((c.name, canonical(c.arguments)) for c in message.calls)
    images = tuple(p for p in message.parts if isinstance(p, Image))
    error = message.error and bool(texts)
    return message.role, texts, calls, images, error


def says(what):
    role, texts, calls, images, _ = what
    return role != "system" and (bool(texts or calls or images) or role == "tool")


def atoms(what):
    """Give the same piece by piece, for formats that join messages."""
    role, texts, calls, images, _ = what
    if role == "tool":
        return [what]
    return [(role, piece) for piece in (*texts, *calls, *images)]


def plain(session):
    """Say whether what requests show is what was said, in the order of the path.

    Not so behind decisions (Codex writes what they show instead as further messages), nor where
    branches part while a request is in flight (pi writes what waited for the reply behind it).
    """
    flights = {-1: False}
    for node in log(session):
        above = -1 if node.parent is None else node.parent.number
        if flights[above] and above != node.number - 1:
            return False
        change = isinstance(node.entry, Sent | Reply)
        flights[node.number] = isinstance(node.entry, Sent) if change else flights[above]
    return not any(isinstance(node.entry, DECISIONS) for node in path(session))


CONTENT = {"arguments", "boundary", "branch", "call", "error", "image", "role", "text"}
"""Losses of what formats have in common."""


def convert_checked(session, to):
    """Convert, and compare by other means than the list of losses was made by."""
    conversion = convert(session, to)
    back = CODECS[to].decode(conversion.data).session
    assert CODECS[to].encode(back) == conversion.data
    lost = {loss.place for loss in conversion.losses if loss.code in CONTENT}
    kept = [what for _, m in said(session) if says(what := held(m))]
    found = [what for _, m in said(back) if says(what := held(m))]
    if not lost and plain(session):
        assert found == kept
    pieces = [piece for what in kept for piece in atoms(what)]
    others = [piece for what in found for piece in atoms(what)]
    gone = sum(loss.code in CONTENT - {"boundary"} for loss in conversion.losses)
    if gone:
        # Which one of equal pieces is lost can't be told.
        assert (Counter(pieces) - Counter(others)).total() <= gone
    else:
        rest = iter(others)
        assert all(any(piece == other for other in rest) for piece in pieces)
    places = [loss.place for loss in conversion.losses]
    assert places == sorted(places)
    for loss in conversion.losses:
        assert loss.reason == LOSSES[loss.code]
        assert find(session, loss.place, along="log") is not None
    return conversion, back


def codes(conversion):
    return [(loss.code, loss.place, loss.kind) for loss in conversion.losses]


# Pairs of formats


@pytest.mark.parametrize("to", NAMES)
@pytest.mark.parametrize("source", NAMES)
@settings(max_examples=8)
@given(session=sessions(max_turns=5))
def test_what_both_formats_hold_is_kept(source, to, session):
    _, session = convert_checked(session, source)
    convert_checked(session, to)


@pytest.mark.parametrize("to", NAMES)
@settings(max_examples=30)
@given(session=journals(max_chunks=6))
def test_hostile_journals_are_converted(to, session):
    conversion, _ = convert_checked(session, to)
    if to == "journal":
        assert conversion.losses == ()


@pytest.mark.parametrize("to", HELD)
@pytest.mark.parametrize("source", HELD)
def test_nothing_of_a_plain_conversation_is_lost(source, to):
    session = record(Session(), user((Text("look"), Image("aGk=", "image/png"))))
    session = reply(send(session)[0], "completed", assistant("so", ToolCall("a", "ls", '{"x":1}')))
    session = record(session, tool_result("a", (Text("1"), Image("aGk=", "image/png")), name="ls"))
    session = reply(send(session)[0], "completed", assistant(Thinking("t", "s"), "done"))
    first, middle = convert_checked(session, source)
    assert codes(first) == []
    last, back = convert_checked(middle, to)
    # What of the source's own lines says nothing elsewhere is told: headers.
    assert {code for code, _, _ in codes(last)} <= {"id", "line", "time"}
    assert [evolve(m, id="", origin="") for _, m in said(back)] == [m for _, m in said(session)]


@pytest.mark.parametrize("to", NAMES)
@pytest.mark.parametrize(
    "file",
    FILES
    or [pytest.param(None, marks=pytest.mark.skip(reason="needs ../shared/sessions, absent here"))],
    ids=lambda file: file and f"{file.parent.name}-{file.stem[:40]}",
)
def test_real_files_are_converted(file, to):
    decoded = load(file)
    conversion, back = convert_checked(decoded.session, to)
    if to == decoded.format:
        assert conversion.data == file.read_bytes()
        assert conversion.losses == ()
    again, _ = convert_checked(back, "journal")
    assert again.losses == ()


# What is listed


def answered(*parts, start=None):
    session = record(start or Session(), user("go"))
    return reply(send(session)[0], "completed", assistant(*parts))


def test_decisions_effects_and_labels():
    session = answered("ok")
    session = record(
        session,
        Replace(0, user("went"), "shorter", breaks=True),
        Cut(0, user("notice"), "long", breaks=True),
        Ask("k", "t", "q"),
    )
    session = label(label(session, 0, "start"), 0, "")
    session = label(session, 2, "here")
    conversion, _ = convert_checked(session, "openai-chat")
    assert codes(conversion) == [
        ("decision", 3, "replace"), ("decision", 4, "cut"), ("effect", 5, "ask"),
        ("label", 6, "label"), ("label", 8, "label"),
    ]  # fmt: skip
    conversion, back = convert_checked(session, "pi")
    assert codes(conversion) == [("effect", 5, "ask")]
    assert [m.parts for m in project(back).messages] == [m.parts for m in project(session).messages]


def test_branches():
    session = answered("one")
    other = record(at_leaf(session, 0), user("else"), user("more"))
    conversion, back = convert_checked(other, "openai-chat")
    assert codes(conversion) == [("branch", 1, "branch")]
    assert [m.parts[0].text for _, m in said(back)] == ["go", "else", "more"]
    conversion, back = convert_checked(other, "pi")
    assert codes(conversion) == []
    assert [m.parts[0].text for _, m in said(back)] == ["go", "else", "more"]
    conversion, back = convert_checked(at_leaf(other, 2), "pi")
    assert codes(conversion) == []
    assert [m.parts[0].text for _, m in said(back)] == ["go", "one"]
    nowhere = at_leaf(other, -1)
    assert codes(convert_checked(nowhere, "openai-chat")[0]) == [("branch", 0, "branch")]
    # A branch that says nothing is none; its decisions are told.
    hidden = at_leaf(record(session, Ask("k", "t", "q")), 2)
    assert codes(convert_checked(hidden, "openai-chat")[0]) == [("effect", 3, "ask")]


def test_requests_that_were_not_completed():
    session = record(Session(), user("go"))
    session = reply(send(session, time=5)[0], "failed", assistant("par"), usage=Usage(3, 1))
    session = reply(send(session)[0], "lost")
    session = record(send(session)[0], user("wait"))
    conversion, _ = convert_checked(session, "openai-chat")
    assert codes(conversion) == [
        ("time", 1, "sent"), ("usage", 2, "reply"), ("outcome", 2, "reply"),
        ("outcome", 4, "reply"), ("outcome", 5, "sent"),
    ]  # fmt: skip
    conversion, _ = convert_checked(session, "pi")
    assert codes(conversion) == [("outcome", 4, "reply"), ("outcome", 5, "sent")]


def test_usage_that_came_late():
    session = answered("ok")
    session = record(session, UsageReport(1, Usage(7, 1)))
    assert codes(convert_checked(session, "openai-chat")[0]) == [("usage", 3, "usage")]
    assert codes(convert_checked(session, "pi")[0]) == []
    assert codes(
        convert_checked(reply(send(session)[0], "failed", usage=Usage()), "openai-chat")[0]
    )[1:] == [("outcome", 5, "reply")]


def test_heads():
    tools = (Tool("f", "F.", '{"a": 1}'), Tool("g"))
    one = Head(Route("p", "m", (("effort", '"low"'),)), "Be brief.", tools)
    two = evolve(one, system="Be long.", tools=tools[:1])
    session = record(record(Session(), one, user("hi")), two, Head(), two)
    assert codes(convert_checked(session, "openai-chat")[0]) == [
        ("route", 0, "provider"), ("route", 0, "parameters"), ("system", 0, "head"),
        ("tool", 0, "head"),
    ]  # fmt: skip
    assert codes(convert_checked(session, "pi")[0]) == [
        ("route", 0, "parameters"), ("system", 0, "head"), ("tool", 0, "head"), ("tool", 0, "head"),
        ("system", 2, "head"),
    ]  # fmt: skip


def test_system_text_may_stand_beside_the_messages_or_among_them():
    session = record(Session(), system("One."), system("Two."), user("hi"), system("Three."))
    conversion, back = convert_checked(session, "openai-chat")
    assert codes(conversion) == []
    assert back.head.system == "One.\n\nTwo."
    assert codes(convert_checked(session, "gemini-contents")[0]) == [
        ("role", 0, "text"), ("role", 1, "text"), ("role", 3, "text"),
    ]  # fmt: skip
    assert (
        codes(convert_checked(record(Session(), Head(system="A."), user("hi")), "openai-chat")[0])
        == []
    )
    assert codes(convert_checked(record(Session(), Head(system="A.")), "pi")[0]) == [
        ("system", 0, "head")
    ]


def test_notes_and_lines():
    session = record(answered("ok"), Note("host", "mine"))
    assert codes(convert_checked(session, "openai-chat")[0]) == [("note", 3, "note")]
    assert codes(convert_checked(session, "pi")[0]) == []
    lines = [
        {"type": "session", "version": 3, "id": "s"},
        {
            "type": "message",
            "id": "a",
            "parentId": None,
            "message": {"role": "user", "content": "a"},
        },
        {"type": "label", "id": "b", "parentId": "a", "targetId": "a", "label": "x"},
        {"type": "custom", "id": "c", "parentId": "b"},
    ]
    text = "\n".join([*map(json.dumps, lines), "", "oops", ""])
    decoded = CODECS["pi"].decode(text.encode())
    conversion, _ = convert_checked(decoded.session, "openai-chat")
    assert [c for c, _, _ in codes(conversion)] == ["line", "label", "line", "line"]
    kept, _ = convert_checked(record(decoded.session, Note("host", "mine")), "pi")
    assert kept.losses == ()
    assert kept.data.startswith(text.encode())


def test_lines_that_gave_several_messages_are_not_lost():
    contents = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "ls"}}] * 2},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": n}}}
                                   for n in "12"]},
        {"role": "model", "parts": [{"text": "signed", "thoughtSignature": "s"}]},
    ]  # fmt: skip
    decoded = CODECS["gemini-contents"].decode(json.dumps(contents).encode())
    conversion, back = convert_checked(decoded.session, "openai-chat")
    assert [(c, k) for c, _, k in codes(conversion)] == [
        ("route", "provider"),
        ("signature", "text"),
    ]
    assert [m.call for _, m in said(back)][2:4] == ["call_1_0", "call_1_1"]
    # In the journal and back, nothing changes.
    journal = CODECS["journal"].decode(convert(decoded.session, "journal").data).session
    assert convert(journal, "gemini-contents").data == json.dumps(contents).encode()
    assert codes(convert(journal, "openai-chat")) == codes(conversion)


PARTS = (Thinking("t", "s"), Thinking("c", redacted=True), "ok", ToolCall("a", "f", "{}", "g"))


@pytest.mark.parametrize(
    ("route", "kept"),
    [
        (Route("google", "gemini-3-pro"), True),
        (Route("google-vertex", "claude-opus-5"), False),
        (Route("openai", "gpt-6"), False),
        (Route(), False),
    ],
)
def test_signatures_of_another_provider_are_left_behind(route, kept):
    session = answered(*PARTS, start=record(Session(), Head(route)))
    conversion, back = convert_checked(session, "gemini-contents")
    parts = said(back)[1][1].parts
    signed = [
        ("signature", 3, "thinking"),
        ("signature", 3, "thinking"),
        ("signature", 3, "tool-call"),
    ]
    lost = [loss for loss in codes(conversion) if loss[0] != "route"]
    if kept:
        assert lost == [("thinking", 3, "thinking")]
        assert parts == (PARTS[0], Text("ok"), PARTS[3])
    else:
        assert lost == signed
        assert parts == (Thinking("t"), Text("ok"), ToolCall("a", "f"))
    # Formats of no provider hold all of them.
    assert not [loss for loss in codes(convert_checked(session, "pi")[0]) if loss[0] == "signature"]


def test_whose_signatures_a_file_holds_is_told_by_its_format():
    thought = {"text": "t", "thought": True, "thoughtSignature": "s"}
    contents = [{"role": "user", "parts": [{"text": "go"}]}, {"role": "model", "parts": [thought]}]
    body = {"contents": contents, "model": "models/claude-like"}
    session = CODECS["gemini-contents"].decode(json.dumps(body).encode()).session
    there, middle = convert_checked(session, "pi")
    assert "signature" not in {c for c, _, _ in codes(there)}
    back, _ = convert_checked(middle, "gemini-contents")
    # In between, only the names of the route are known.
    assert [c for c, _, _ in codes(back)].count("signature") == 1
    assert FAMILIES.keys() >= {"gemini-contents"}


def test_decisions_lose_their_signatures_and_texts_too():
    session = answered(Thinking("t", "s"), ToolCall("a", "f"), start=record(Session(), Head()))
    session = record(session, tool_result("a", "x" * 90))
    session = reply(send(session)[0], "completed", assistant("ok"))
    changed = evolve(find(session, 4).entry, parts=(Text("y"),), origin="foreign")
    session = record(session, Replace(4, changed, "shorter", breaks=True))
    conversion, back = convert_checked(session, "pi")
    assert codes(conversion) == []
    assert project(back).messages[2].parts == (Text("y"),)


def test_ids():
    turn = [assistant(ToolCall("a", "f")), tool_result("a", "1")]
    session = record(Session(), user("go", id="u1"))
    for said_, result in (turn, turn):
        session = record(reply(send(session)[0], "completed", said_), result)
    assert codes(convert_checked(session, "openai-chat")[0]) == [("id", 5, "tool-call")]
    assert codes(convert_checked(session, "gemini-contents")[0]) == [
        ("id", 0, "message"), ("id", 5, "tool-call"),
    ]  # fmt: skip


def test_arguments_that_are_no_object():
    session = answered(ToolCall("a", "f", '"free text"'), ToolCall("b", "f", '{"b": 1}'))
    conversion, back = convert_checked(session, "gemini-contents")
    assert codes(conversion) == [("arguments", 2, "tool-call")]
    assert [c.arguments for c in said(back)[1][1].calls] == ['{"input":"free text"}', '{"b":1}']
    assert codes(convert_checked(session, "openai-chat")[0]) == []


def test_parts_that_only_their_provider_reads():
    session = answered("ok", Opaque("server_tool_use", '{"type":"server_tool_use"}'))
    assert codes(convert_checked(session, "gemini-contents")[0]) == [("opaque", 2, "opaque")]
    image = record(Session(), user((Image("http://a/b.png", ""),)))
    assert codes(convert_checked(image, "gemini-contents")[0]) == [("image", 0, "image")]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (tool_result("a", "x", error=True), tool_result("a", "x"), ["error"]),
        (tool_result("a", (Text("x"), Text("y"))), tool_result("a", "xy"), []),
        (tool_result("a", "x"), tool_result("a", "y"), ["text"]),
        (tool_result("a", (Text(" "), Image("i", "image/png"))), tool_result("a", ""), ["image"]),
    ],
)
def test_results_are_compared(before, after, found):
    start = answered(ToolCall("a", "f"))
    assert [loss.code for loss in losses(record(start, before), record(start, after))] == found


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ((Thinking("t", "s"),), (Thinking("t"),), ["signature"]),
        ((Thinking("t", "s"),), (Thinking("u", "s"),), ["thinking"]),
        ((ToolCall("a", "f", "{}", "s"),), (ToolCall("a", "f"),), ["signature"]),
        ((ToolCall("a", "f", "{}"),), (ToolCall("a", "f", " { } "),), []),
        ((ToolCall("a", "f", "{"),), (ToolCall("a", "f", "["),), ["arguments"]),
        ((ToolCall("a", "f"),), (ToolCall("a", "g"),), ["call"]),
        (("x", "x"), ("x",), ["text"]),
        (("x", "", " "), ("x",), []),
        ((Opaque("k", '{ "a": 1}'),), (Opaque("k", '{"a":1}'),), []),
    ],
)
def test_replies_are_compared(before, after, found):
    assert [loss.code for loss in losses(answered(*before), answered(*after))] == found


def test_what_is_there_once_is_found_once():
    one, two = answered("x"), answered("x", start=answered("x"))
    assert losses(one, two) == []
    assert Counter(loss.code for loss in losses(two, one)) == {"text": 2}
    assert losses(two, two) == []


def test_a_format_that_does_not_exist():
    with pytest.raises(InvalidArgument) as caught:
        convert(Session(), "pdf")
    assert (caught.value.code, caught.value.field) == ("invalid-argument", "to")


@pytest.mark.parametrize("to", NAMES)
def test_an_empty_session(to):
    conversion, back = convert_checked(Session(), to)
    assert conversion.losses == ()
    assert said(back) == []


def test_every_code_has_a_test():
    source = Path(__file__).read_text(encoding="utf-8")
    assert [code for code in LOSSES if f'"{code}"' not in source] == []


# The command


@pytest.fixture
def session_file(tmp_path):
    file = tmp_path / "in.json"
    lines = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ok"}]
    file.write_text(json.dumps(lines))
    return file


def test_the_command_converts_and_tells_what_is_lost(session_file, tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    assert main(["convert", str(session_file), str(out)]) == 0
    size = out.stat().st_size
    assert capsys.readouterr().out == (
        f"{session_file}: openai-chat; {out}: journal, {size:,} bytes, 0 losses\n"
    )
    journal = CODECS["journal"].decode(out.read_bytes()).session
    out.write_bytes(CODECS["journal"].encode(label(label(journal, 2, "a\x1b[31m"), 2, "b")))
    back = tmp_path / "back.json"
    assert main(["convert", str(out), str(back), "--to", "pi", "--from", "journal"]) == 0
    assert "0 losses" in capsys.readouterr().out
    assert main(["convert", str(out), str(back), "--to", "openai-chat"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("2 losses")
    assert lines[2].split() == ["lost", "kind", "times", "first", "entry", "reason"]
    assert lines[4].split(maxsplit=4) == ["label", "label", "2", "6", LOSSES["label"]]
    assert lines[-1].startswith("Entries are counted from 0")
    assert back.read_bytes() == session_file.read_bytes()


def test_the_command_gives_json(session_file, tmp_path, capsys):
    out = tmp_path / "out\x1b[31m.json"
    session = label(record(Session(), user("hi")), 0, "x")
    session_file.write_bytes(CODECS["journal"].encode(session))
    assert main(["convert", str(session_file), str(out), "--to", "openai-chat", "--json"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert json.loads(text) == {
        "in": str(session_file), "out": str(out), "from": "journal", "to": "openai-chat",
        "bytes": out.stat().st_size, "repairs": [],
        "losses": [{"code": "label", "place": 1, "kind": "label", "reason": LOSSES["label"]}],
    }  # fmt: skip
    assert main(["convert", str(session_file), str(out), "--to", "openai-chat"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def fails(arguments, capsys, code):
    assert main(["convert", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {code}: ")
    assert error.count("\n") == 1
    assert "\x1b" not in error
    return error


def test_the_command_does_not_touch_its_input(session_file, tmp_path, capsys):
    before = session_file.read_bytes()
    (tmp_path / "link").symlink_to(session_file)
    (tmp_path / "hard").hardlink_to(session_file)
    for out in (
        session_file,
        tmp_path / "link",
        tmp_path / "hard",
        tmp_path / "x" / ".." / "in.json",
    ):
        error = fails([session_file, out], capsys, "invalid-argument")
        assert "same file" in error
    assert session_file.read_bytes() == before


def test_the_command_refuses_what_is_no_file(session_file, tmp_path, capsys):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    fails([session_file, tmp_path], capsys, "unwritable")
    fails([session_file, tmp_path / "none" / "out"], capsys, "unwritable")
    fails([session_file, tmp_path / "loop"], capsys, "unwritable")
    fails([session_file, tmp_path / ("n" * 300)], capsys, "unwritable")
    fails([session_file, "/dev/null"], capsys, "unwritable")
    fails([session_file, tmp_path / "out\x1b[31m" / "x"], capsys, "unwritable")
    fails([tmp_path / "none", tmp_path / "out"], capsys, "unreadable")
    fails([session_file, tmp_path / "out", "--to", "pdf"], capsys, "invalid-argument")
    session_file.write_text("[")
    fails([session_file, tmp_path / "out"], capsys, "invalid-json")
    assert not (tmp_path / "out").exists()


def test_a_file_is_replaced_whole_or_not_at_all(session_file, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out.jsonl"
    out.write_text("before")
    (tmp_path / ".ctxalgebra-0.part").write_text("another's")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "chmod", full)
        assert "No space" in fails([session_file, out], capsys, "unwritable")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        fails([session_file, out], capsys, "unwritable")
    assert out.read_text() == "before"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        ".ctxalgebra-0.part",
        "in.json",
        "out.jsonl",
    ]
    assert main(["convert", str(session_file), str(out)]) == 0
    assert out.read_text().startswith('{"kind":"journal"')
    assert (tmp_path / ".ctxalgebra-0.part").read_text() == "another's"
    for number in range(100):
        (tmp_path / f".ctxalgebra-{number}.part").write_text("another's")
    assert ".part" in fails([session_file, out], capsys, "unwritable")


def test_links_are_followed_and_permissions_kept(session_file, tmp_path):
    session_file.chmod(0o600)
    out, link = tmp_path / "out.jsonl", tmp_path / "link"
    link.symlink_to(out)
    assert main(["convert", str(session_file), str(link)]) == 0
    assert link.is_symlink()
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    session_file.chmod(0o640)
    out.chmod(0o604)
    assert main(["convert", str(session_file), str(link)]) == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o604
    session_file.chmod(0o666)
    known = os.umask(0o027)
    try:
        command.write_file(tmp_path / "new", b"x", beside=session_file)
    finally:
        os.umask(known)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_nodes_of_the_source_stay_as_they_are():
    session = answered(*PARTS, start=record(Session(), Head(Route("anthropic", "claude"))))
    before = CODECS["journal"].encode(session)
    convert(session, "gemini-contents")
    assert CODECS["journal"].encode(session) == before
    assert len(log(session)) == 4


PIECES = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "a"}]},
    {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "b"}]},
]


def damaged(name, data):
    """A journal read from Anthropic lines, with another text in its notes of this name."""
    text = "".join(json.dumps(line) + "\n" for line in PIECES)
    session = CODECS["anthropic-messages"].decode(text.encode()).session
    made = Session()
    for node in log(session):
        note = isinstance(node.entry, Note) and node.entry.name == name
        made = append(made, evolve(node.entry, data=data(node.entry.data)) if note else node.entry)
    found = [n.number for n in log(made) if isinstance(n.entry, Note) and n.entry.name == name]
    return CODECS["journal"].encode(made), found[0]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (lambda text: "", "invalid-json"),
        (lambda text: text[:-3], "invalid-json"),
        (lambda text: "5", "wrong-type"),
        (lambda text: "[" * 600, "too-deep"),
    ],
)
@pytest.mark.parametrize("to", ["anthropic-messages", "codex", "openai-chat"])
@pytest.mark.parametrize("name", ["codec-part", "anthropic-messages-frame"])
def test_a_damaged_note_is_an_error_that_names_file_and_entry(
    tmp_path, capsys, data, code, to, name
):
    journal, entry = damaged(name, data)
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(journal)
    status = main(["convert", str(source), str(target), "--from", "journal", "--to", to])
    said = capsys.readouterr().err
    if name == "anthropic-messages-frame" and to != "anthropic-messages":
        assert (status, said) == (0, "")  # what stood around the lines doesn't matter there
        return
    assert (status, target.exists()) == (2, False)
    assert said.startswith(f"error: {code}: in the note '{name}': ")
    assert f"(file {source}, entry {entry}, field data)" in said


def test_a_damaged_container_is_an_error_that_names_file_and_entry(tmp_path, capsys):
    def broken(text):
        return json.dumps({"container": "document", "before": "[[", "between": ",", "after": "]"})

    journal, entry = damaged("anthropic-messages-frame", broken)
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(journal)
    assert main(["convert", str(source), str(target), "--to", "anthropic-messages"]) == 2
    said = capsys.readouterr().err
    assert "invalid-json: what the session keeps of its file is damaged: " in said
    assert f"(file {source}, entry {entry}, field data)" in said
    assert not target.exists()
