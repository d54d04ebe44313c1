"""The commands that answer questions about a recorded session: `requests` and `explain`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ctxalgebra
from ctxalgebra import (
    Cut,
    Drop,
    Head,
    Image,
    Note,
    Opaque,
    Replace,
    Route,
    Session,
    Strip,
    Thinking,
    Tool,
    ToolCall,
    account,
    assistant,
    chars4,
    record,
    reply,
    send,
    tool_result,
    travel,
    user,
)
from ctxalgebra.cli import main
from ctxalgebra.codecs import journal, load
from ctxalgebra.codecs.lines import LIMIT
from ctxalgebra.commands.explain import named
from ctxalgebra.commands.requests import difference, sendings

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "docs" / "example-session.jsonl"


def sent(session, outcome="completed", message=None):
    return reply(send(session)[0], outcome, message)


def grown():
    """Give a journal with a decision of each kind, and requests that came to different ends."""
    head = Head(Route("p", "m", (("effort", "high"),)), "Be brief.\nBe kind.", (Tool("read", "d"),))
    session = record(Session(), head, user("first\n\tquestion \x1b[31m[bold]\r\nlast", id="u1"))
    thought = assistant(Thinking("hm", "s"), "I look.", ToolCall("c1", "read"))
    session = sent(session, message=thought)
    session = record(session, tool_result("c1", "x" * 400, name="read"))
    session = sent(session, "failed")
    session = sent(session, message=assistant("done"))
    session = record(session, Replace(4, tool_result("c1", "short", name="read"), "too long", True))
    session = sent(record(session, user("next", id="u2")), "aborted", assistant("par"))
    session = record(session, Drop(3, 4, "read\x07 it", breaks=True))
    session = sent(session, message=assistant("fine"))
    session = record(session, Cut(8, user("[cut]"), "over\u202e it", breaks=True))
    session = record(session, Head(Route("p", "other")), user("", id="blank"), user("end", id="u2"))
    return send(session)[0]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(journal.encode(grown()))
    return path


def call(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


# requests


def test_the_list_adds_up_to_the_account(capsys, file):
    session = grown()
    code, out, _ = call(capsys, "requests", file, "--json")
    assert code == 0
    found = json.loads(out)
    assert set(found) == {"file", "format", "repairs", "requests"}
    rows = found["requests"]
    total = account(session)
    assert [row["request"] for row in rows] == list(range(total.requests)) == list(range(6))
    outcomes = [row["outcome"] for row in rows]
    assert outcomes == ["completed", "failed", "completed", "aborted", "completed", "open"]
    assert sum(row["tokens"] for row in rows) == total.input
    assert sum(row["shared_tokens"] for row in rows) == total.shared
    assert sum(row["rebilled_tokens"] for row in rows) == total.rebilled
    assert sum(row["new_tokens"] for row in rows) == total.fresh
    told = [row["break"] for row in rows if row["break"]]
    assert [b["why"] for b in told] == [b.why for b in total.breaks]
    assert [row["message_count"] for row in rows] == [
        len(r.messages) for r in ctxalgebra.requests(session)
    ]


def test_the_list_for_people(capsys, file):
    code, out, _ = call(capsys, "requests", file)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"{file}: journal, 6 requests"
    header = lines.index(next(line for line in lines if line.startswith("N  entry")))
    rows = lines[header + 2 : header + 8]
    assert [row.split()[0] for row in rows] == list("012345")
    assert rows[3].endswith("aborted    2: too long")
    assert "read\\x07 it" in rows[4]
    assert "over\\u202e it" in rows[5]
    assert "rebilled: that it had too" in " ".join(lines[header + 8 :])


def test_what_was_sent_is_shown_to_the_byte(capsys, file):
    expected = ctxalgebra.requests(grown())
    for number, request in enumerate(expected):
        _, out, _ = call(capsys, "requests", file, number, "--json")
        found = json.loads(out)
        assert found["request"] == number
        assert found["head"]["system"] == request.head.system
        assert found["head"]["route"]["model"] == request.head.route.model
        told = [(m["role"], [p["kind"] for p in m["parts"]]) for m in found["messages"]]
        assert told == [(m.role, [p.kind for p in m.parts]) for m in request.messages]
        texts = [p.get("text") for m in found["messages"] for p in m["parts"]]
        assert texts == [getattr(p, "text", None) for m in request.messages for p in m.parts]


def test_the_difference_names_what_is_new_changed_and_gone(capsys, file):
    changes = []
    for number in range(6):
        _, out, _ = call(capsys, "requests", file, number, "--json")
        found = json.loads(out)
        told = {m["entry"]: m["change"] for m in (*found["messages"], *found["gone"])}
        changes.append(told)
    assert changes[0] == {1: "new"}
    assert changes[1] == {1: "same", 3: "new", 4: "new"}
    assert changes[2] == {1: "same", 3: "same", 4: "same"}
    assert changes[3] == {1: "same", 3: "same", 4: "changed", 8: "new", 10: "new"}
    assert changes[4] == {1: "same", 3: "gone", 4: "gone", 8: "same", 10: "same"}
    assert list(changes[5].values()) == ["new", "same", "new", "new", "gone", "gone"]


def test_one_request_for_people(capsys, file):
    _, out, _ = call(capsys, "requests", file, 0)
    assert "request 0, entry 2, completed: 1 message, " in out
    assert "+ head, " in out
    assert ": p/m, 1 tool\n    [parameter effort] high\n    Be brief.\n    Be kind.\n" in out
    # Lines stay lines, everything else that steers a terminal is escaped, markup is text.
    assert "    first\n        question \\x1b[31m[bold]\n    last\n" in out
    _, out, _ = call(capsys, "requests", file, 3)
    assert "= head, " in out
    assert "Be brief." not in out
    assert "\n= 1 assistant, entry 3, 4 tokens: [thinking] hm\n" in out
    assert "\n~ 2 tool, entry 4, 2 tokens\n    short\n" in out
    assert "break at 2: too long; " in out
    _, out, _ = call(capsys, "requests", file, 3, "--full")
    assert "Be brief." in out
    assert "    [tool read] d\n      {}\n" in out
    assert "    I look.\n    [call c1] read {}\n" in out
    _, out, _ = call(capsys, "requests", file, 5)
    assert "\n- user, entry 1, " in out
    assert "tokens are the beginning of request 4" in out
    assert "p/other, 0 tools" in out
    assert all(line.isprintable() for line in out.splitlines())


def test_parts_of_all_kinds_are_shown(capsys, tmp_path):
    parts = (Image("a" * 1_000, "image/png"), Opaque("document", '{"a":1}'))
    session = record(
        Session(), user(parts), assistant(Thinking("secret", "s", redacted=True), "b" * 100)
    )
    path = tmp_path / "s.jsonl"
    path.write_bytes(journal.encode(send(session)[0]))
    _, out, _ = call(capsys, "requests", path, 0)
    assert '    [image image/png, 1,000 characters]\n    [document] {"a":1}\n' in out
    assert "[thinking, redacted]" in out
    assert "secret" not in out
    assert "no route" in out
    _, out, _ = call(capsys, "requests", path, 0, "--json")
    assert json.loads(out)["messages"][1]["parts"][0]["text"] == "secret"


def test_a_file_without_requests(capsys, tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(journal.encode(record(Session(), user("a"))))
    code, out, _ = call(capsys, "requests", path)
    assert (code, out) == (0, f"{path}: journal, 0 requests\n")
    _, out, _ = call(capsys, "requests", path, "--json")
    assert json.loads(out)["requests"] == []
    code, _, err = call(capsys, "requests", path, 0)
    assert code == 2
    assert err.startswith("error: invalid-argument: there is no request 0: the file has none")


@pytest.mark.parametrize("number", ["6", "-1", "10000000000000000000000"])
def test_a_request_that_is_not_there(capsys, file, number):
    code, out, err = call(capsys, "requests", file, "--", number)
    assert (code, out) == (2, "")
    assert f"there is no request {number}: the file has 0 to 5" in err


def test_the_list_of_a_long_session_costs_the_path():
    """What each request shows is not copied: the views share it."""

    def looks(count):
        seen = []
        session = Session()
        for number in range(count):
            session = sent(record(session, user(str(number))), message=assistant("a"))
        found = sendings(session)
        seen = {id(one.view.slots) for one in found}
        assert [one.tokens for one in found] == [2 * number + 1 for number in range(count)]
        return len(seen)

    assert looks(50) == looks(500) == 1


def test_the_difference_to_nothing_is_all_new():
    view = record(Session(), user("a"), user("b")).view
    assert [change.change for change in difference(view, None)] == ["+", "+"]


def damaged(tmp_path):
    """Give a file whose second message can't be read."""
    rows = [
        {"role": "user", "content": "a"}, {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
    ]  # fmt: skip
    path = tmp_path / "chat.jsonl"
    first, second, third = map(json.dumps, rows)
    path.write_text(f"{first}\n{second[:-4]}\n{third}\n")
    return path


@pytest.mark.parametrize("more", [["requests"], ["requests", 0], ["explain", 2], ["replay"]])
def test_every_command_tells_of_repairs(capsys, tmp_path, more):
    command, *number = more
    file = damaged(tmp_path)
    _, out, _ = call(capsys, command, file, *number)
    assert out.splitlines()[0].endswith("; 1 repair: invalid-json 1")
    _, out, _ = call(capsys, command, file, *number, "--json")
    assert [(r["code"], r["line"]) for r in json.loads(out)["repairs"]] == [("invalid-json", 2)]


def test_convert_tells_of_repairs(capsys, tmp_path):
    file, out = damaged(tmp_path), tmp_path / "out"
    _, said, _ = call(capsys, "convert", file, out)
    assert said.splitlines()[0].startswith(f"{file}: openai-chat; 1 repair: invalid-json 1; {out}")


def test_a_line_that_was_too_long_is_not_passed_over_in_silence(capsys, tmp_path):
    file = tmp_path / "pi.jsonl"
    first, *_ = EXAMPLE.read_text("utf-8").splitlines()
    row = {"type": "message", "id": "a", "parentId": None, "message": {"role": "user"}}
    row["message"]["content"] = "a"
    short = json.dumps(row)
    row["message"]["content"] = "x" * LIMIT
    file.write_text(f"{first}\n{short}\n{json.dumps(row)}\n")
    code, out, _ = call(capsys, "requests", file)
    assert (code, out) == (0, f"{file}: pi, 0 requests; 1 repair: line-too-long 1\n")


def test_the_standard_output_is_no_file_to_convert_to(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "convert", EXAMPLE, "-")
    assert (code, out) == (2, "")
    assert err == (
        "error: invalid-argument: OUT is a file, not the standard output; a file of this name is "
        "./- (field OUT)\n"
    )
    assert list(tmp_path.iterdir()) == []
    assert call(capsys, "convert", EXAMPLE, "./-")[0] == 0
    assert len(load("./-").session) == len(load(EXAMPLE).session)


def test_one_of_a_thing_is_said_in_the_singular(capsys, tmp_path):
    path, out = tmp_path / "s.jsonl", tmp_path / "out"
    head = Head(tools=(Tool("read", "d"),))
    session = record(Session(), head, user((Image("a", "image/png"),)))
    session = record(sent(session, message=assistant("a")), Note("n", "x"))
    path.write_bytes(journal.encode(session))
    printed = [
        call(capsys, *arguments)[1]
        for arguments in (
            ["requests", path], ["requests", path, 0], ["explain", path, 3], ["replay", path],
            ["convert", path, out, "--to", "openai-chat"],
        )
    ]  # fmt: skip
    assert ": journal, 1 request\n" in printed[0]
    assert ": 1 message, " in printed[1]
    assert ", 1 tool\n" in printed[1]
    assert "[image image/png, 1 character]" in printed[1]
    assert "recorded, 1 token: a" in printed[2]
    assert ": journal, 2 messages, budget 1,000 tokens\n" in printed[3]
    ones = r"(?<![\d,.])1 (messages|requests|tokens|repairs|losses|bytes|tools|characters|breaks)\b"
    assert re.findall(ones, "".join(printed)) == []
    # A break of one token, and one token that is shared.
    session = send(session)[0]
    session = record(reply(session, "failed"), Replace(3, assistant("b"), "w", breaks=True))
    path.write_bytes(journal.encode(send(session)[0]))
    _, said, _ = call(capsys, "requests", path, 2)
    assert "break at 1: w; 1 token re-billed\n" in said
    session = sent(record(Session(), user("a")), message=assistant("b"))
    path.write_bytes(journal.encode(send(record(session, user("c")))[0]))
    _, said, _ = call(capsys, "requests", path, 1)
    assert "\n1 token is the beginning of request 0\n" in said


def test_reasons_of_a_break_are_said_once(capsys, tmp_path):
    session = record(Session(), Head(Route("p", "m"), "s"), user("a"))
    session = sent(session, message=assistant("b"))
    session = record(
        session,
        Head(Route("q", "m"), "s"), Cut(1, user("[cut]"), "over it", breaks=True),
        Head(Route("q", "n"), "t"), Head(Route("p", "n"), "t"), user("c"),
    )  # fmt: skip
    session = send(session)[0]
    path = tmp_path / "s.jsonl"
    path.write_bytes(journal.encode(session))
    (broke,) = account(session).breaks
    assert broke.why.count("the head changed") == 3
    once = "the head changed: provider, model, system; over it"
    _, out, _ = call(capsys, "requests", path, 1)
    assert f"break at -1: {once}; " in out
    _, out, _ = call(capsys, "requests", path)
    assert f"-1: {once[:39]}…" in out
    _, out, _ = call(capsys, "requests", path, 1, "--json")
    assert json.loads(out)["break"]["why"] == broke.why  # programs get it as it was recorded


def test_help_says_which_numbers_name_a_message(capsys):
    _, out, _ = call(capsys, "explain", "--help")
    assert "`requests FILE N` shows behind `entry`" in " ".join(out.split())
    _, out, _ = call(capsys, "requests", "--help")
    assert "`explain FILE MESSAGE` takes the number of a message" in " ".join(out.split())


# explain


def test_a_message_is_named_by_number_or_id(capsys, file):
    for name, number in (("1", 1), ("u1", 1), ("u2", 19), ("3", 3)):
        code, out, _ = call(capsys, "explain", file, name, "--json")
        assert code == 0
        assert json.loads(out)["entry"] == number
    for name in ("nothing", "\x1b[2J", "9" * 30, "٣"):
        code, _, err = call(capsys, "explain", file, name)
        assert code == 2
        assert err.startswith("error: unknown-entry: ")
        assert err[:-1].isprintable()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("0", "the entry is no message, its kind is head"),
        ("2", "the entry is no message, its kind is sent, which `requests` shows"),
        ("6", "the entry is no message, its kind is reply"),
        ("9", "the entry is no message, its kind is replace"),
        ("21", "the entry is no message, its kind is note 'pi\\x1b[2J'"),
        ("22", "there is no such entry: entries are 0 to 21"),
        ("u3", "the path has no such message"),
        ("-1", "the path has no such message"),
    ],
)
def test_what_is_no_message_is_told(capsys, tmp_path, name, said):
    session = record(grown(), Note("pi\x1b[2J", "line"))
    path = tmp_path / "s.jsonl"
    path.write_bytes(journal.encode(session))
    code, out, err = call(capsys, "explain", path, "--", name)
    assert (code, out) == (2, "")
    assert err == f"error: unknown-entry: {said} (entry {name})\n"


def test_a_message_on_another_branch_and_one_of_nothing_are_told(capsys, tmp_path):
    path = tmp_path / "s.jsonl"
    for session, said in (
        (record(travel(record(Session(), user("a"), user("b")), 0), user("c")), "on another bra"),
        (Session(), "there is no such entry: it holds no entry"),
    ):
        path.write_bytes(journal.encode(session))
        code, _, err = call(capsys, "explain", path, "1")
        assert code == 2
        assert said in err


def test_a_message_is_named_by_an_id_in_the_lines_that_it_was_read_from():
    raw = '{"type":"user","uuid":"line-1","message":{"id":"msg-1","role":"user"}}'
    broken = '{"uuid":"line-2"'
    session = record(
        Session(), Note("host-entry", raw), user("a"), Note("host", broken), Note("host", "[1]"),
        Note("host", '{"payload":{"id":7},"id":["line-4"]}'), user("b"), Note("host", '{"id":"z"}'),
    )  # fmt: skip
    assert named(session, "line-1") == named(session, "msg-1") == (1, user("a"))
    for name in ("line-2", "line-4", "7 ", "z", ""):
        with pytest.raises(ctxalgebra.InvalidArgument, match="unknown-entry"):
            named(session, name)
    # An id of a message goes before one that stands in a line; the newest goes first.
    session = record(session, user("c", id="msg-1"), user("d", id="x"), user("e", id="x"))
    assert named(session, "msg-1")[1] == user("c", id="msg-1")
    assert named(session, "x")[1].parts[0].text == "e"
    # A number of an entry goes before an id.
    session = record(session, user("f", id="1"))
    assert named(session, "1") == (1, user("a"))


def test_the_entries_of_the_example_are_found_by_the_ids_of_its_lines():
    session = load(EXAMPLE).session
    found = 0
    for line in EXAMPLE.read_text("utf-8").splitlines():
        value = json.loads(line)
        if value["type"] == "message":
            try:
                _, message = named(session, value["id"])
            except ctxalgebra.InvalidArgument:
                continue
            found += 1
            assert message.role == {"toolResult": "tool"}.get(
                value["message"]["role"], value["message"]["role"]
            )
    assert found > 100


def test_states_are_explained_with_what_decided_them(capsys, file):
    def told(name):
        _, out, _ = call(capsys, "explain", file, name, "--json")
        return json.loads(out)

    assert (told("4")["state"], told("4")["why"]) == ("cut", "read\x07 it")
    assert told("4")["by"] == [
        {"entry": 9, "kind": "replace", "why": "too long"},
        {"entry": 13, "kind": "drop", "why": "read\x07 it"},
    ]
    assert told("1")["shown"] is None
    assert told("1")["recorded"]["id"] == "u1"
    assert told("blank")["state"] == "withheld"
    assert told("19")["shown"]["parts"] == [{"kind": "text", "text": "end"}]


def test_an_explanation_for_people(capsys, file, tmp_path):
    _, out, _ = call(capsys, "explain", file, "4")
    assert out.splitlines() == [
        f"{file}: journal",
        "entry 4, tool: cut, read\\x07 it",
        f"  recorded, 100 tokens: {'x' * 59}…",
        "",
        "entry  decided by  why",
        "-----  ----------  -----------",
        "9      replace     too long",
        "13     drop        read\\x07 it",
    ]
    _, out, _ = call(capsys, "explain", file, "u2")
    assert out.splitlines()[1:] == [
        "entry 19, user, id u2: shown, it is shown as it was recorded",
        "  recorded, 1 token: end",
    ]
    session = record(Session(), assistant(Thinking("t", "s"), "a"), user("b"))
    session = record(session, Strip("a signature"), Replace(1, user("B"), "loud"))
    path = tmp_path / "t.jsonl"
    path.write_bytes(journal.encode(session))
    _, out, _ = call(capsys, "explain", path, "1")
    assert "replaced, loud" in out
    assert "  shown, 1 token: B\n" in out
    _, out, _ = call(capsys, "explain", path, "0")
    assert "its thinking is hidden" in out
    assert f"  shown, {chars4(assistant('a'))} token: a\n" in out


@pytest.mark.parametrize("command", ["requests", "explain"])
def test_bad_files_get_one_line(capsys, tmp_path, command):
    more = ["1"] if command == "explain" else []
    (tmp_path / "prose").write_text("Once upon a time.\n")
    for name in ("absent", "prose", "."):
        code, out, err = call(capsys, command, tmp_path / name, *more)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
    code, _, err = call(capsys, command, EXAMPLE, *more, "--format", "x")
    assert code == 2
    assert "'journal'" in err


def test_the_commands_are_listed_in_the_help():
    done = subprocess.run(
        [sys.executable, "-m", "ctxalgebra", "--help"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in ("replay", "requests", "explain"):
        assert f"\n  {name} " in done.stdout
