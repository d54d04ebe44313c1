"""The command `timeline`: each view of a file, as text and as JSON, and what it refuses."""

from __future__ import annotations

import json

import pytest

from ctxalgebra import Note, Session, assistant, at_leaf, label, record, user
from ctxalgebra.cli import main
from ctxalgebra.codecs import journal
from ctxalgebra.commands.timeline import target_number


def call(capsys, *arguments):
    code = main(["timeline", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def file(tmp_path):
    session = record(Session(), user("first \x1b[31mred"), assistant("a needle"), Note("n", "data"))
    session = record(at_leaf(session, 0), user("other\tway\r\n\u202eagain"))
    session = label(label(session, 1, "start"), 2, "7")
    path = tmp_path / "s.jsonl"
    path.write_bytes(journal.encode(session))
    return path


VIEWS = [
    ([], ["| #0 (root) [user] first \\x1b[31mred", "| #3 [user] other way \\u202eagain"]),
    (["--limit", 1], ["* #5 (HEAD) [label] [label of #2] 7"]),
    (["--verbose", "--before", 4], ["| #0 (root) [user] first \\x1b[31mred"]),
    (["--view", "checkpoints"], ["#1 (archived, checkpoint start) [assistant] a needle -> keeps"]),
    (["--view", "checkpoints", "--query", "STA"], ["#1 (archived, checkpoint start)"]),
    (["--view", "search", "--query", "NEEDLE"], ["1 match in 6 entries."]),
    (["--view", "search", "--query", "e", "--scope", "active", "--kind", "user"], ["#3 [user]"]),
    (["--view", "node", "--target", "#3"], ["    other   way", "    \\u202eagain"]),
    (["--view", "node", "--target", "start", "--offset", 2], ["from character 2 of 8:"]),
    (["--view", "tree"], ["└─ #0 (root) [user]", "  ├─ #1 (archived, checkpoint start)"]),
    (["--view", "tree", "--target", "3"], ["└─ #3 [user] other way"]),
]


@pytest.mark.parametrize(("options", "lines"), VIEWS, ids=lambda value: " ".join(map(str, value)))
def test_each_view_of_a_file(capsys, file, options, lines):
    code, out, err = call(capsys, file, *options)
    assert (code, err) == (0, "")
    told = out.splitlines()
    assert told[0] == f"{file}: journal"
    for line in lines:
        assert any(one.startswith(line) for one in told), out
    assert all(char.isprintable() or char == "\n" for char in out)
    code, out, _ = call(capsys, file, *options, "--json")
    found = json.loads(out)
    assert (code, found["file"], found["format"], found["repairs"]) == (0, str(file), "journal", [])
    assert found["view"] == (options[1] if options[:1] == ["--view"] else "active")
    assert found["visited"] >= 0


def test_json_holds_the_texts_as_they_are(capsys, file):
    _, out, _ = call(capsys, file, "--view", "node", "--target", 3, "--json")
    assert json.loads(out)["text"] == "other\tway\r\n\u202eagain"


def test_a_search_reads_the_whole_file(capsys, tmp_path):
    path = tmp_path / "long.jsonl"
    texts = [user("needle"), *(user("x") for _ in range(6_000))]
    path.write_bytes(journal.encode(record(Session(), *texts)))
    _, out, _ = call(capsys, path, "--view", "search", "--query", "needle")
    assert "1 match in 6,001 entries." in out
    path.write_bytes(journal.encode(Session()))
    assert call(capsys, path, "--view", "search", "--query", "x")[0] == 0


def test_a_number_is_a_label_first_where_one_has_it_and_a_number_with_its_sign(file):
    session = journal.decode(file.read_bytes()).session
    assert target_number(session, "7") == 2
    assert [target_number(session, text) for text in ("#2", "3", "ROOT")] == [2, 3, 0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--view", "node"], "invalid-argument: which --target? (field target)"),
        (["--view", "node", "--target", "nowhere"], "unknown-entry: "),
        (["--view", "node", "--target", "99"], "unknown-entry: "),
        (["--view", "tree", "--target", "9" * 5_000], "unknown-entry: "),
        (["--view", "node", "--target", "0", "--offset", "99"], "(field offset)"),
        (["--view", "search"], "(field query)"),
        (["--limit", "0"], "invalid-argument: between 1 and 50 (field limit)"),
        (["--limit", "51"], "(field limit)"),
        (["--before", "-1"], "invalid-argument: at least 0 (field before)"),
        (["--limit", "x"], "invalid-argument"),
        (["--view", "all"], "'checkpoints'"),
        (["--kind", "x"], "'summary'"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_wrong_gets_one_line(capsys, file, options, says):
    code, out, err = call(capsys, file, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_repairs_are_counted(capsys, tmp_path):
    path = tmp_path / "chat.jsonl"
    rows = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "c"}]
    path.write_text("\n".join([json.dumps(rows[0]), "{broken", json.dumps(rows[1])]) + "\n")
    _, out, _ = call(capsys, path)
    assert out.splitlines()[0].endswith("; 1 repair: invalid-json 1")
