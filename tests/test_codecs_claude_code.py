"""Transcripts of Claude Code: what lines mean, what is repaired, and that the bytes come back."""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxalgebra import (
    CODES,
    Cut,
    DecodeError,
    Head,
    Image,
    Label,
    Note,
    Opaque,
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
    abandon,
    account,
    assistant,
    at_leaf,
    log,
    open_calls,
    project,
    record,
    reply,
    requests,
    send,
    system,
    tool_result,
    user,
)
from ctxalgebra.codecs import claude_code as cc
from ctxalgebra.codecs import detect, openai_chat, pi
from ctxalgebra.codecs.claude_code_encode import encode
from ctxalgebra.codecs.claude_code_tree import Line, arrange
from ctxalgebra.laws.strategies import journals, sessions
from ctxalgebra.protocol import DEFECTS, defects

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions" / "claude-code"
FILES = sorted(SHARED.glob("*.jsonl"))
real = pytest.mark.parametrize(
    "path",
    FILES
    or [pytest.param(None, marks=pytest.mark.skip(reason="needs ../shared/sessions, absent here"))],
    ids=lambda path: path and path.stem,
)


def entry(kind, name, parent, /, **fields):
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "type": kind,
        "uuid": name,
        "timestamp": "2026-01-01T00:00:00.000Z",
        **fields,
    }


def said(name, parent, content="hi", **fields):
    return entry("user", name, parent, message={"role": "user", "content": content}, **fields)


def piece(name, parent, response, *blocks, usage=None, **fields):
    message = {"id": response, "model": "claude-x", "role": "assistant", "content": [*blocks]}
    return entry("assistant", name, parent, message={**message, "usage": usage}, **fields)


def text(words):
    return {"type": "text", "text": words}


def call(name):
    return {"type": "tool_use", "id": name, "name": "ls", "input": {"of": name}}


def result(name, parent, call_id, *more, content="ok", **fields):
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return said(name, parent, [block, *more], **fields)


def tokens(output, fresh=1, read=0, write=0):
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
        "output_tokens": output,
    }


def pack(*lines, end="\n"):
    texts = [
        line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines
    ]
    return ("\n".join(texts) + end).encode()


def read(*lines, end="\n"):
    data = pack(*lines, end=end)
    decoded = cc.decode(data)
    assert encode(decoded.session) == data
    assert {repair.code for repair in decoded.repairs} <= CODES.keys() | DEFECTS.keys()
    return decoded


def codes(decoded):
    return dict(Counter(repair.code for repair in decoded.repairs))


def shown(session):
    return [evolve(m, id="", origin="") for m in project(session).messages]


def plain(session):
    return [(m.role, m.parts, m.call, m.error) for m in project(session).messages]


def words(session):
    """Give texts, and ids of calls, message by message."""
    return [
        "".join(
            part.text if isinstance(part, Text | Thinking) else f"<{getattr(part, 'id', part)}>"
            for part in m.parts
        )
        for m in project(session).messages
    ]


def goes_on(decoded):
    """Record more, write it, and read the same again."""
    session = decoded.session
    found = codes(decoded).keys()
    if open_calls(session) and {"reused-id", "missing-id"} & found:
        return
    for name in open_calls(session):
        session = abandon(session, name, "gone")
    session, _ = send(record(session, user("new")), time=7)
    session = record(session, user("steering"))
    done = assistant("ok", ToolCall("new-call", "read", '{"a":1}'))
    session = reply(session, "completed", done, usage=Usage(6, 2, 1, 2))
    session = record(session, tool_result("new-call", "fine"), system("from here on"))
    again = cc.decode(encode(session))
    assert plain(again.session) == plain(session)
    assert encode(again.session) == encode(session)


# Real files

EXPECTED = {
    "Dicklesworthstone__cross_agent_session_resumer__cc_real_world_sanitized": {},
    "d-kimuson__claude-code-viewer__1af7fc5e-8455-4414-9ccd-011d40f70b2a": {"out-of-order": 2},
    "d-kimuson__claude-code-viewer__5c0375b4-57a5-4f26-b12d-d022ee4e51b7": {},
    "d-kimuson__claude-code-viewer__fe5e1c67-53e7-4862-81ae-d0e013e3270b": {"out-of-order": 2},
    "daaain__claude-code-log__edge_cases": {
        "wrong-type": 3,
        "missing-field": 2,
        "empty-content": 1,
        "unknown-parent": 1,
        "missing-result": 1,
    },
    "jazzyalex__agent-sessions__claude-small": {"missing-field": 2, "empty-request": 2},
    "sheurich__episodic-memory__short-conversation": {},
}


@real
def test_real_files_come_back_byte_for_byte_and_go_on(path):
    data = path.read_bytes()
    decoded = cc.decode(data)
    assert encode(decoded.session) == data
    assert codes(decoded) == EXPECTED[path.stem]
    assert defects(project(decoded.session).messages) == () or open_calls(decoded.session)
    goes_on(decoded)
    for part in (data[: len(data) // 2], data[:-1], data[: len(data) // 3]):
        assert survives(part.decode("utf-8", "ignore").encode()) in CODES.keys() | {"read"}


@real
def test_usage_of_real_files_counts_once_a_message(path):
    last = {}
    for line in path.read_text("utf-8").split("\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        message = value.get("message") if isinstance(value, dict) else None
        if isinstance(message, dict) and not value["isSidechain"] and message.get("id"):
            last[message["id"]] = message["usage"]
    decoded = cc.decode(path.read_bytes())
    session = decoded.session
    usage = account(session).usage
    if "empty-request" in codes(decoded):
        # Its first messages are replies to nothing, which are messages and no replies.
        return
    assert usage.output == sum(u["output_tokens"] for u in last.values())
    assert usage.cache_read == sum(u.get("cache_read_input_tokens", 0) for u in last.values())
    if usage.output:
        replies = [n.entry for n in log(session) if isinstance(n.entry, Reply)]
        assert len(replies) == len(requests(session)) == len(last)


# Pieces, results, branches


def test_pieces_of_one_message_are_one_reply_and_results_inside_follow_it():
    decoded = read(
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        said("u", None, "go"),
        piece("a1", "u", "m", text("so"), usage=tokens(1, fresh=99)),
        piece("a2", "a1", "m", call("c1"), usage=tokens(2, fresh=99)),
        entry("progress", "p", "a2"),
        result("r1", "a2", "c1", content="one"),
        piece("a3", "r1", "m", call("c2"), usage=tokens(40, fresh=3, read=5, write=7)),
        entry("attachment", "t", "a3"),
        result("r2", "a3", "c2", content=[text("two")], isMeta=True),
        piece("b", "r2", "n", text("done"), usage=tokens(1)),
    )
    assert decoded.repairs == ()
    assert shown(decoded.session) == [
        user("go"),
        assistant("so", ToolCall("c1", "ls", '{"of":"c1"}'), ToolCall("c2", "ls", '{"of":"c2"}')),
        tool_result("c1", "one", name="ls"),
        tool_result("c2", "two", name="ls"),
        assistant("done"),
    ]
    first, second = [n.entry for n in log(decoded.session) if isinstance(n.entry, Reply)]
    assert (first.usage, second.usage) == (Usage(15, 40, 5, 7), Usage(1, 1))
    assert decoded.session.head.route == Route("anthropic", "claude-x")
    assert [m.id for m in project(decoded.session).messages] == ["u", "a3", "r1", "r2", "b"]
    sent = next(n.entry for n in log(decoded.session) if isinstance(n.entry, Sent))
    assert sent == Sent(inferred=True, time=1_767_225_600_000)
    goes_on(decoded)


@pytest.mark.parametrize("second", ["a1", "r1", "p"])
@pytest.mark.parametrize("last", ["a1", "r1", "a2", "r2"])
def test_parallel_calls_look_like_branches_and_are_none(second, last):
    decoded = read(
        said("u", None, "go"),
        piece("a1", "u", "m", call("c1")),
        entry("progress", "p", "a1"),
        result("r1", "a1", "c1"),
        piece("a2", second, "m", call("c2")),
        result("r2", "a2", "c2"),
        said("n", last, "next"),
    )
    assert decoded.repairs == ()
    assert words(decoded.session) == ["go", "<c1><c2>", "ok", "ok", "next"]
    goes_on(decoded)


def test_what_the_user_says_between_results_stays_between_them():
    decoded = read(
        said("u", None, "go"),
        piece("a", "u", "m", call("c1"), call("c2"), call("c3")),
        result("r1", "a", "c1"),
        said("s", "r1", "hurry"),
        result("r2", "a", "c2"),
        result("r3", "a", "c3"),
        piece("b", "s", "n", text("done")),
        entry("system", "x", "b", subtype="turn_duration"),
    )
    assert codes(decoded) == {"steering": 1}
    assert words(decoded.session) == ["go", "<c1><c2><c3>", "ok", "ok", "ok", "hurry", "done"]


def test_a_result_that_comes_after_the_next_reply_moves_behind_its_call():
    decoded = read(
        said("u", None, "go"),
        piece("a", "u", "m", call("c1")),
        piece("b", "a", "n", text("done")),
        result("r", "b", "c1"),
    )
    assert codes(decoded) == {"late-result": 1}
    assert words(decoded.session) == ["go", "<c1>", "ok", "done"]
    goes_on(decoded)


def test_going_back_is_a_branch():
    decoded = read(
        said("u", None, "one"),
        piece("a", "u", "m", text("two")),
        said("v", "a", "three"),
        piece("b", "v", "n", text("four")),
        said("w", "a", "other"),
    )
    assert decoded.repairs == ()
    assert words(decoded.session) == ["one", "two", "other"]
    four = next(
        n for n in log(decoded.session) if getattr(n.entry, "usage", 0) is None and n.number > 8
    )
    assert words(at_leaf(decoded.session, four.number)) == ["one", "two", "three", "four"]
    goes_on(decoded)


def test_one_message_id_on_two_branches_is_two_messages():
    decoded = read(
        said("u", None, "one"),
        piece("a", "u", "m", call("c1")),
        result("r", "a", "c1"),
        said("v", "r", "again"),
        piece("b", "v", "m", call("c1")),
    )
    assert codes(decoded) == {"reused-id": 1}
    assert words(decoded.session) == ["one", "<c1>", "ok", "again", "<c1_2>"]
    both = read(
        said("u", None, "one"),
        piece("a", "u", "m", call("c1")),
        piece("b", "u", "m", call("c1")),
        piece("c", "u", "m", text("x")),
    )
    assert words(both.session) == ["one", "<c1>x"]


def test_messages_without_an_id_stand_for_themselves():
    decoded = read(
        said("u", None, "go"), piece("a", "u", None, text("1")), piece("b", "a", None, text("2"))
    )
    assert words(decoded.session) == ["go", "1", "2"]


def test_results_and_text_of_one_line_are_several_messages():
    decoded = read(
        said("u", None, "go"),
        piece("a", "u", "m", call("c1"), call("c2")),
        result("r", "a", "c2", {"type": "tool_result", "tool_use_id": "c1"}, text("also")),
        piece("b", "r", "n", text("done")),
    )
    assert codes(decoded) == {"out-of-order": 1}
    assert words(decoded.session) == ["go", "<c1><c2>", "", "ok", "also", "done"]
    goes_on(decoded)


# Lines that say nothing


def test_side_chains_are_no_part_of_the_path():
    decoded = read(
        said("u", None, "go"),
        piece("a", "u", "m", call("c1")),
        said("s", None, "task", isSidechain=True),
        piece("t", "s", "k", text("side"), isSidechain=True, usage=tokens(9)),
        result("r", "a", "c1"),
        said("v", "t", "under a side chain"),
    )
    assert decoded.repairs == ()
    assert words(decoded.session) == ["under a side chain"]
    alone = read(
        said("s", None, "task", isSidechain=True),
        piece("t", "s", "k", text("side"), isSidechain=True),
    )
    assert words(alone.session) == ["task", "side"]
    written = encode(record(alone.session, user("more")))
    assert words(cc.decode(written).session) == ["task", "side", "more"]
    assert json.loads(written.splitlines()[-1])["isSidechain"] is True
    goes_on(alone)


def test_copies_of_a_resumed_session_are_left_out():
    decoded = read(
        said("u", None, "go", sessionId="1"),
        piece("a", "u", "m", text("so"), sessionId="1"),
        said("u", None, "go", sessionId="2"),
        piece("a", "u", "m", text("so"), sessionId="2"),
        said("v", "a", "next", sessionId="2"),
        said("v", "a", "not a copy"),
    )
    assert [(r.code, r.line, r.entry) for r in decoded.repairs] == [
        ("duplicate-id", 3, "u"),
        ("duplicate-id", 4, "a"),
    ]
    assert words(decoded.session) == ["go", "so", "not a copy"]
    goes_on(decoded)


def test_errors_of_the_api_are_requests_that_failed():
    error = piece("e", "u", "x", text("API Error: 529"), isApiErrorMessage=True)
    error["message"]["model"] = "<synthetic>"
    quiet = piece("q", "v", "y", text("No response requested."))
    quiet["message"]["model"] = "<synthetic>"
    decoded = read(
        said("u", None, "go"), error, said("v", "e", "again"), quiet, said("w", "q", "so")
    )
    outcomes = [n.entry.outcome for n in log(decoded.session) if isinstance(n.entry, Reply)]
    assert outcomes == ["failed", "completed"]
    assert words(decoded.session) == ["go", "again", "No response requested.", "so"]
    assert decoded.session.head == Head()


def test_what_only_the_transcript_shows_is_not_said():
    decoded = read(said("u", None, "go"), said("v", "u", "hidden", isVisibleInTranscriptOnly=True))
    assert words(decoded.session) == ["go"]


def test_blocks_of_all_kinds():
    document = {"type": "document", "source": {"type": "text", "data": "x"}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}
    decoded = read(
        said("u", None, [document, image, text("look")]),
        piece("a", "u", "m", {"type": "thinking", "thinking": "", "signature": "sig"}),
        piece("b", "a", "m", {"type": "redacted_thinking", "data": "zz"}),
        piece("c", "b", "m", text("so")),
    )
    first, second = project(decoded.session).messages
    assert isinstance(first.parts[0], Opaque)
    assert first.parts[1:] == (Image("aa", "image/png"), Text("look"))
    assert second.parts == (Thinking("", "sig"), Thinking("zz", redacted=True), Text("so"))


# Compaction


def compacted(*, kept=True):
    return [
        said("u", None, "one"),
        piece("a", "u", "m", text("two")),
        said("v", "a", "three"),
        piece("b", "v", "n", text("four")),
        entry("system", "k", None, subtype="compact_boundary", logicalParentUuid="b"),
        said("s", "k", "summary", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        said("w", "s", "five"),
        piece("c", "w", "o", text("six")),
    ]


def test_a_compaction_is_a_cut_with_the_summary_as_its_notice():
    decoded = read(*compacted())
    assert [(r.code, r.line) for r in decoded.repairs] == [("unread", 6)]
    # No request had shown the last reply when it was compacted.
    assert words(decoded.session) == ["summary", "four", "five", "six"]
    (cut,) = [n.entry for n in log(decoded.session) if isinstance(n.entry, Cut)]
    assert (cut.breaks, cut.why, cut.notice.parts) == (True, "compaction", (Text("summary"),))
    goes_on(decoded)


def test_a_summary_with_nothing_in_front_of_it_is_a_message():
    decoded = read(*compacted()[5:])
    assert codes(decoded) == {"unknown-parent": 1}
    assert words(decoded.session) == ["summary", "five", "six"]


def test_a_summary_that_is_empty_or_holds_a_result_cuts_nothing():
    lines = compacted()
    lines[5]["message"]["content"] = []
    assert words(read(*lines).session) == ["one", "two", "three", "four", "five", "six"]
    lines[5] = result("s", "k", "c1", isCompactSummary=True)
    assert codes(read(*lines)) == {"orphan-result": 1}


def test_a_boundary_without_a_summary_cuts_nothing():
    lines = compacted()
    del lines[5]
    lines[5]["parentUuid"] = "k"
    assert words(read(*lines).session) == ["one", "two", "three", "four", "five", "six"]


def test_cuts_of_ours_keep_what_they_kept():
    session = read(*compacted()[:4]).session
    session = reply(send(record(session, user("five")))[0], "completed", assistant("six"))
    numbers = session.view.slots.numbers
    cut = Cut(numbers[2], user("[cut]"), "x", keep=(numbers[0],), breaks=True)
    session = record(session, cut, user("seven"))
    again = cc.decode(encode(session))
    assert again.repairs == ()
    assert (
        words(again.session) == words(session) == ["[cut]", "one", "four", "five", "six", "seven"]
    )
    whole = record(session, assistant("eight"))
    whole = record(whole, Cut(whole.view.slots.numbers[-1], user("[all]"), "x", breaks=True))
    assert words(whole) == ["[all]"]
    # In the file it is a reply, which no request has shown yet.
    assert words(cc.decode(encode(whole)).session) == ["[all]", "eight"]
    lines = encode(session).splitlines()
    boundary, summary = (json.loads(line) for line in lines[-3:-1])
    assert boundary["subtype"] == "compact_boundary"
    assert (boundary["parentUuid"], summary["parentUuid"]) == (None, boundary["uuid"])
    summary["ctxalgebra"]["keep"] = ["nobody"]
    broken = [*lines[:-2], json.dumps(summary).encode(), lines[-1]]
    assert codes(cc.decode(b"\n".join(broken))) == {"unknown-entry": 1}


# The tree


def test_a_file_in_which_no_line_names_another_is_in_order():
    lines = [said("u", None, "1"), piece("a", None, "m", text("2")), said("v", "gone", "3")]
    decoded = read(*lines)
    assert codes(decoded) == {"unknown-parent": 1}
    assert words(decoded.session) == ["1", "2", "3"]
    goes_on(decoded)
    again = cc.decode(encode(record(at_leaf(decoded.session, -1), user("front"))))
    assert words(again.session) == ["front"]


def test_parents_that_are_not_in_the_file_and_lines_that_are_their_own():
    decoded = read(
        said("u", None, "1"), said("v", "u", "2"), said("w", "gone", "3"), said("x", "x", "4")
    )
    assert [(r.code, r.line) for r in decoded.repairs] == [
        ("unknown-parent", 3),
        ("unknown-parent", 4),
    ]
    assert words(decoded.session) == ["4"]


def test_entries_in_front_of_their_parents():
    decoded = read(
        said("u", None, "go"),
        result("r", "a2", "c1"),
        piece("a2", "a1", "m", call("c1")),
        piece("a1", "u", "m", text("so")),
        said("n", "r", "next"),
    )
    assert codes(decoded) == {"late-parent": 2}
    assert words(decoded.session) == ["go", "so<c1>", "ok", "next"]
    goes_on(decoded)
    early = read(said("n", "a", "next"), said("u", None, "go"), piece("a", "u", "m", text("so")))
    assert words(early.session) == ["go", "so", "next"]


def test_circles_are_refused():
    for lines in (
        [said("a", "b"), said("b", "a")],
        [entry("progress", "a", "b"), entry("progress", "b", "a"), said("c", None)],
        # The pieces of one message on both sides of what stands under it.
        [
            piece("a", "v", "m", text("1")),
            said("v", "b"),
            piece("b", "x", "m", text("2")),
            said("x", None),
        ],
    ):
        with pytest.raises(DecodeError) as caught:
            cc.decode(pack(*lines), file="f")
        error = caught.value
        assert (error.code, error.file, error.field) == ("cyclic-parent", "f", "parentUuid")
        assert error.line


def test_lines_without_ids_keep_their_place_and_what_is_recorded_under_them():
    nameless = said(None, "u", "2")
    decoded = read(said("u", None, "1"), nameless)
    assert words(decoded.session) == ["1", "2"]
    session = record(decoded.session, user("3"), assistant("4"))
    new = json.loads(encode(session).splitlines()[2])
    assert (new["parentUuid"], new["ctxalgebra"]) == ("u", {"parent": 2})
    assert words(cc.decode(encode(session)).session) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{", "invalid-json"),
        ("5", "wrong-type"),
        ('{"type":"user","uuid":"x","x":NaN}', "invalid-number"),
        ('{"type":"user","uuid":"x","message":{"content":"\\ud800"}}', "lone-surrogate"),
        ('{"a":' + "[" * 1000, "too-deep"),
        ("{}", "missing-field"),
        ('{"type":"user","uuid":"x"}', "missing-field"),
        ('{"type":"assistant","uuid":"x","message":[]}', "missing-field"),
        (
            '{"type":"user","uuid":"x","message":{"content":[{"type":"tool_result"}]}}',
            "missing-field",
        ),
    ],
)
def test_a_line_that_cannot_be_read_is_passed_over(line, code):
    decoded = read(said("u", None, "1"), line, "", " ", said("v", "u", "2"))
    assert [(r.code, r.line) for r in decoded.repairs] == [(code, 2)]
    assert words(decoded.session) == ["1", "2"]
    with pytest.raises(DecodeError) as caught:
        cc.decode(pack("", line), file="f")
    assert (caught.value.code, caught.value.file, caught.value.line) == (code, "f", 2)


def test_a_broken_line_keeps_its_place_if_its_ids_can_be_read():
    broken = '{"parentUuid":"u","type":"user","message":{"content":"\\*"},"uuid":"b"}'
    decoded = read(said("u", None, "1"), broken, said("v", "b", "2"))
    assert codes(decoded) == {"invalid-json": 1}
    assert words(decoded.session) == ["1", "2"]


def test_what_is_no_transcript():
    for data, code, line in (
        (b"", "empty-file", None),
        (b" \n\xef\xbb\xbf", "empty-file", None),
        (b'{"type":"session"}', "missing-header", 1),
        (b"{}", "missing-field", 1),
        (b"\n\xff", "invalid-utf8", 2),
    ):
        with pytest.raises(DecodeError) as caught:
            cc.decode(data, file="f")
        assert (caught.value.code, caught.value.file, caught.value.line) == (code, "f", line)
    assert words(read({"type": "summary", "leafUuid": "x"}).session) == []


def test_ends_are_kept():
    for end in ("", "\n", "\r\n", "\n\n"):
        decoded = read(said("u", None, "1"), end=end)
        written = encode(record(decoded.session, user("2")))
        assert written.endswith(b"}\n")
        assert words(cc.decode(written).session) == ["1", "2"]
    data = "\ufeff".encode() + pack(said("u", None, "1"))
    assert encode(cc.decode(data).session) == data


def test_transcripts_are_recognised():
    for line in (
        said("u", None, "1"),
        piece("a", None, "m"),
        {"type": "summary", "leafUuid": "x"},
        {"type": "file-history-snapshot"},
        {"type": "queue-operation", "sessionId": "x"},
    ):
        assert detect(pack("not json", line)) == "claude-code"
    for line in (
        {"type": "user", "uuid": "u", "message": {"role": "user", "parts": []}},
        {"type": "user", "message": {"content": "x"}},
        {"type": "summary"},
        {"type": "other", "uuid": "x"},
    ):
        assert not cc.is_transcript(line)


# Writing


def test_a_session_from_elsewhere_is_written_as_chained_lines():
    session = record(Session(), Head(Route("anthropic", "claude-x"), "system", (Tool("t"),)))
    session, _ = send(record(session, user("a")), time=1_700_000_000_000)
    session = record(session, Note("mine", "x"), user("steering"), Label(0, "x"))
    said_by_model = assistant(Thinking("hm", "s"), "so", ToolCall("c", "ls", '{"a": 1.50}'))
    session = reply(session, "completed", said_by_model, usage=Usage(9, 2, 3, 1))
    session = record(session, tool_result("c", "x" * 9, name="ls", error=True), system("be brief"))
    session = reply(send(session)[0], "aborted", assistant("partl"))
    session = reply(send(session)[0], "failed")
    session = reply(send(session)[0], "lost")
    session = record(session, assistant("plain"), UsageReport(2, Usage(1)))
    lines = [json.loads(line) for line in encode(session).splitlines()]
    assert [line["type"] for line in lines] == [
        *("user", "assistant", "user", "user", "user"),
        *("assistant", "assistant", "assistant"),
    ]
    assert lines[0]["parentUuid"] is None
    assert all(a["uuid"] == b["parentUuid"] for a, b in pairwise(lines))
    assert lines[1]["message"]["usage"] == tokens(2, fresh=5, read=3, write=1)
    assert lines[1]["message"]["model"] == "claude-x"
    assert lines[5]["isApiErrorMessage"] is True
    assert lines[4]["isMeta"] is True
    stamps = [line["timestamp"] for line in lines]
    assert stamps == sorted(stamps)
    assert stamps[0] == "1970-01-01T00:00:00.000Z"
    assert stamps[1] == "2023-11-14T22:13:20.000Z"
    again = cc.decode(encode(session))
    assert codes(again) == {"steering": 1, "empty-content": 1}
    assert again.session.head.route == session.head.route
    want = [evolve(m, name=m.name) for m in shown(session)]
    assert [m.role for m in shown(again.session)] == [m.role for m in want]
    assert plain(again.session)[2:] == plain(session)[2:]
    assert account(again.session).usage == Usage(9, 2, 3, 1)


def test_what_arrives_in_flight_is_written_behind_the_reply():
    session, _ = send(record(Session(), user("a")))
    session = record(session, user("b"), Note("mine"), system("c"))
    assert words(cc.decode(encode(session)).session) == ["a", "b", "c"]
    session = record(reply(session, "completed", assistant("r")), user("d"))
    assert words(cc.decode(encode(session)).session) == ["a", "r", "b", "c", "d"]


def test_the_leaf_is_made_the_last_line():
    session = record(Session(), user("a"), assistant("b"), user("c"))
    back = at_leaf(session, 1)
    assert words(cc.decode(encode(back)).session) == ["a", "b"]
    assert words(cc.decode(encode(at_leaf(session, -1))).session) == []
    forked = record(back, user("d"))
    assert words(cc.decode(encode(forked)).session) == ["a", "b", "d"]
    again = cc.decode(encode(back)).session
    assert encode(again) == encode(back)
    assert words(cc.decode(encode(record(again, user("e")))).session) == ["a", "b", "e"]
    assert words(cc.decode(encode(Session())).session) == []


def test_branches_in_an_open_exchange_stay_branches():
    decoded = read(
        said("u", None, "go"),
        piece("a", "u", "m", call("c1"), call("c2")),
        result("r1", "a", "c1", content="one"),
        result("r2", "r1", "c2", content="two"),
        said("n", "r2", "next"),
    )
    number = next(n.number for n in log(decoded.session) if isinstance(n.entry, Reply))
    session = record(at_leaf(decoded.session, number), tool_result("c1", "other"))
    session = record(session, user("steering"), tool_result("c2", "another"), user("so"))
    again = cc.decode(encode(session)).session
    assert plain(again) == plain(session)
    # What the host adds follows what we wrote.
    uuid = json.loads(encode(session).splitlines()[-1])["uuid"]
    more = encode(session) + pack(piece("z", uuid, "o", text("done")))
    assert words(cc.decode(more).session) == [*words(session), "done"]


def test_ids_of_calls_that_come_twice_are_written_apart():
    session = record(Session(), user("a"), assistant(ToolCall("c", "ls")), tool_result("c", "1"))
    session = record(session, assistant(ToolCall("c", "ls")), tool_result("c", "2"), user("b"))
    again = cc.decode(encode(session))
    assert again.repairs == ()
    assert words(again.session) == ["a", "<c>", "1", "<c0>", "2", "b"]
    dirty = read(
        said("u", None, "go"),
        piece("a", "u", "m", call("c")),
        result("r", "a", "c"),
        piece("b", "r", "n", call("c")),
    )
    assert open_calls(dirty.session) == ("c_2",)
    done = record(dirty.session, tool_result("c_2", "two"), user("next"))
    assert words(cc.decode(encode(done)).session) == ["go", "<c>", "ok", "<c_2>", "two", "next"]


def test_ids_that_the_file_has_are_not_given_again():
    taken = "00000000-0000-4000-8000-000000000003"
    decoded = read(said(taken, None, "1"), said("v", taken, "2"))
    lines = [json.loads(line) for line in encode(record(decoded.session, user("3"))).splitlines()]
    assert len({line["uuid"] for line in lines}) == 3


def test_sessions_of_other_formats_are_written_from_their_messages():
    chat = openai_chat.decode(b'[{"role":"user","content":"hi","extra":1},{"role":"what"}]')
    host = pi.decode(
        pack(
            {"type": "session", "version": 3, "id": "s"},
            {
                "type": "message",
                "id": "a",
                "parentId": None,
                "message": {"role": "user", "content": "hi"},
            },
        )
    )
    for decoded in (chat, host):
        (line,) = [json.loads(line) for line in encode(decoded.session).splitlines()]
        assert line["message"]["content"] == "hi"
        assert "parentId" not in line["message"]
    foreign = record(Session(), user((Opaque("input_audio", '{"type":"input_audio"}'), Text("x"))))
    assert words(cc.decode(encode(foreign)).session) == ["x"]


FORGED = [
    "codec-repair",
    "codec-part",
    *(f"claude-code{e}" for e in ("", "-aside", "-leaf", "-end")),
]


@pytest.mark.parametrize("name", FORGED)
def test_notes_of_a_host_hide_nothing_whatever_their_names(name):
    for session in (Session(), read(said("u", None, "1"), end="").session):
        grown = record(
            session, Note(name, '{"of":[1]}'), user("2"), Note(name, "7"), assistant("3")
        )
        assert words(cc.decode(encode(grown)).session) == words(grown)


@settings(max_examples=50)
@given(st.one_of(sessions(), journals()))
def test_any_session_can_be_written_and_what_is_written_comes_back(session):
    written = encode(session)
    again = cc.decode(written)
    assert encode(again.session) == written


# Generated files


def transcript(pick):
    """Give a transcript as the host writes them: pieces, results inside, false and true forks."""
    lines, names, tip = [], [], None

    def add(line):
        lines.append(line)
        names.append(line["uuid"])
        return line["uuid"]

    for turn in range(pick.randrange(1, 6)):
        kind = pick.randrange(12)
        name = f"e{len(lines)}"
        if kind < 3:
            tip = add(said(name, tip, pick.choice([name, [text(name)], []])))
        elif kind < 5:
            tip = add(entry(pick.choice(["progress", "attachment", "system"]), name, tip))
        elif kind < 6:
            add(entry("system", name, None, subtype="compact_boundary", logicalParentUuid=tip))
            tip = add(said(f"{name}s", name, "summary", isCompactSummary=True))
        elif kind < 7:
            add(said(name, None, "side", isSidechain=True))
        elif kind < 8 and names:
            tip = add(said(name, pick.choice(names), "back"))
        else:
            above, waiting = tip, []
            for at in range(pick.randrange(1, 5)):
                asked = pick.random() < 0.7
                block = (
                    call(f"c{turn}{at}" if pick.random() < 0.9 else "c") if asked else text(name)
                )
                last = add(piece(f"{name}p{at}", above, f"m{turn}", block, usage=tokens(at)))
                waiting += [(last, block["id"])] if asked else []
                if pick.random() < 0.3:
                    add(entry("progress", f"{name}q{at}", last))
                above = last if pick.random() < 0.8 or not at else above
                while waiting and pick.random() < 0.3:
                    under, asked_for = waiting.pop(0)
                    answer = add(result(f"{name}r{len(lines)}", under, asked_for))
                    above = answer if pick.random() < 0.5 else above
            tip = above
            pick.shuffle(waiting)
            for under, asked_for in waiting:
                if pick.random() < 0.9:
                    tip = add(result(f"{name}r{len(lines)}", pick.choice([under, tip]), asked_for))
    return [json.dumps(line) for line in lines]


def renamed(raw, field, value):
    try:
        line = json.loads(raw)
        line.pop(field, None)
    except (ValueError, AttributeError):
        return raw
    return json.dumps(line if value == "gone" else {**line, field: value})


def damaged(pick, lines):
    lines = list(lines)
    for _ in range(pick.randrange(4)):
        if not lines:
            break
        i, j = pick.randrange(len(lines)), pick.randrange(len(lines))
        match pick.randrange(7):
            case 0:
                lines.insert(j, lines.pop(i))
            case 1:
                del lines[i]
            case 2:
                lines.insert(j, lines[i])
            case 3:
                lines[i], lines[j] = lines[j], lines[i]
            case 4:
                lines[i] = pick.choice(["{", "5", '{"a":1}', "", lines[i][: len(lines[i]) // 2]])
            case _:
                value = pick.choice(["gone", "", None, "e0", "e1", "elsewhere", 5])
                lines[i] = renamed(lines[i], pick.choice(["uuid", "parentUuid"]), value)
    return lines


def survives(data):
    try:
        decoded = cc.decode(data, file="f")
    except DecodeError as error:
        return error.code
    assert encode(decoded.session) == data
    assert {repair.code for repair in decoded.repairs} <= CODES.keys() | DEFECTS.keys()
    goes_on(decoded)
    return "read"


def test_transcripts_come_back_byte_for_byte_and_lose_no_call():
    pick = Random(7)
    for _ in range(150):
        lines = transcript(pick)
        data = pack(*lines)
        decoded = cc.decode(data)
        assert encode(decoded.session) == data
        goes_on(decoded)


def test_damaged_transcripts_come_back_byte_for_byte_and_go_on():
    pick = Random(8)
    seen = Counter(survives(pack(*damaged(pick, transcript(pick)))) for _ in range(500))
    assert seen["read"] > 400
    assert set(seen) <= CODES.keys() | {"read"}


@real
def test_damaged_real_files_come_back_byte_for_byte(path):
    lines = path.read_text("utf-8").split("\n")[:60]
    pick = Random(9)
    for _ in range(20):
        assert survives(pack(*damaged(pick, lines), end="")) in CODES.keys() | {"read"}


def test_work_grows_with_the_file_and_not_faster():
    def exchanges(count):
        lines, above = [said("u", None)], "u"
        for at in range(count):
            lines.append(piece(f"a{at}", above, f"m{at}", call(f"c{at}")))
            lines.append(result(f"r{at}", f"a{at}", f"c{at}"))
            above = f"r{at}"
        return lines

    def pieces(count):
        lines = [said("u", None)]
        lines += [piece(f"a{at}", "u", "m", call(f"c{at}")) for at in range(count)]
        return lines + [result(f"r{at}", f"a{at}", f"c{at}") for at in range(count)]

    def forks(count):
        lines = pieces(count)
        return lines + [said(f"s{at}", f"a{at}") for at in range(count)]

    def transparent(count):
        lines = [entry("progress", f"p{at}", f"p{at + 1}") for at in range(count)]
        return lines + [said(f"s{at}", f"p{at}") for at in range(count)]

    def copies(count):
        return [said("u", "u", str(at)) for at in range(count)]

    def backward(count):
        return [said(f"s{at}", f"s{at - 1}" if at else None) for at in range(count)][::-1]

    def backward_exchanges(count):
        return exchanges(count)[::-1]

    def unanswered(count):
        # Each call lacks its result in front of a message that many lines make.
        lines = [*pieces(count)[: count + 1], said("v", "a0")]
        return lines + [piece(f"b{at}", "v", "n", text("b")) for at in range(count)]

    def calls(make, count):
        data = pack(*make(count))
        seen = Counter()

        def watch(frame, event, _):
            seen["calls"] += event in ("call", "c_call")

        sys.setprofile(watch)
        try:
            written = encode(cc.decode(data).session)
        finally:
            sys.setprofile(None)
        assert written == data
        return seen["calls"]

    straight = (exchanges, pieces, forks, transparent, copies)
    for make in (*straight, backward, backward_exchanges, unanswered):
        one, two = calls(make, 150), calls(make, 300)
        assert two < 2.3 * one, (make.__name__, one, two)


# The tree by itself


def parents(*lines):
    return [unit.parent for unit in arrange(lines).units]


def test_results_follow_each_other_whatever_they_name():
    a = Line("assistant", "a", "u", "m", ("1", "2", "3"))
    results = [Line("user", f"r{n}", "a", calls=(str(n),)) for n in (1, 2, 3)]
    assert parents(Line("user", "u"), a, *results) == [-1, 0, 1, 2, 3]
    assert parents(Line("user", "u"), a, *results, Line("user", "x", "a")) == [-1, 0, 1, 2, 3, 4]
    orphan = Line("user", "o", "a", calls=("9",))
    assert parents(Line("user", "u"), a, orphan, results[0]) == [-1, 0, 1, 2]


def test_a_line_that_says_where_it_stands_stands_there():
    a = Line("assistant", "a", "u", "m", ("1",))
    r = Line("user", "r", "a", calls=("1",))
    again = Line("user", "s", "zz", calls=("1",), under=2)
    ahead = Line("user", "t", under=9)
    assert parents(Line("user", "u"), a, r, again, ahead) == [-1, 0, 1, 1, -1]
    assert arrange((Line("user", "u"), Line("leaf", "l", under=0))).leaf == 1
    assert arrange(()).leaf == -1
