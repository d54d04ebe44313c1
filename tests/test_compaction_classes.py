"""Which class an output has, what must stay exact, and how command lines are read."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_outputs import SESSIONS, real_outputs

from ctxalgebra.compaction.classes import (
    HOST_READS,
    command_of,
    detect_strategy,
    goes_on,
    is_instructions,
    is_json_lines,
    is_table_row,
    path_of,
    protects_read,
    requests_exact_output,
    suffix_of,
)
from ctxalgebra.compaction.engine import FILTERS
from ctxalgebra.compaction.kinds import classify
from ctxalgebra.compaction.shell import Command, pipelines
from ctxalgebra.conformance.door import result

LABELS = Path(__file__).with_name("labels.jsonl")


def bash(command, text="x"):
    return detect_strategy("bash", {"command": command}, text)


def made(command, text="x"):
    return classify("bash", {"command": command}, text)


# Command lines


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", []),
        ("  ;; && ", []),
        ("ls", ["ls"]),
        ("A=1 B='x y' /usr/bin/Git.exe log", ["git log"]),
        ("sudo -E timeout 60s npx jest -q", ["jest -q"]),
        ("uv run python -m pytest", ["pytest"]),
        ("a | b |& c || d & e", ["a | b | c", "d", "e"]),
        ("if grep -q x f; then make; fi", ["grep -q x f", "make", "fi"]),
        ("echo \"a | b\" 'c; d' e\\ f \\", ["echo a | b c; d e\\ f \\"]),
        ("make 2>&1 >out | tail", ["make 2>&1 >out | tail"]),
        ("cat <<'EOF' > f && wc f\nrm -rf x; ls\nEOF", ["cat <<EOF > f", "wc f"]),
        ("cat <<EOF", ["cat <<EOF"]),
        ("(cd a; ls)\nfind .", ["cd a", "ls", "find ."]),
        ("'unclosed | ls", ["unclosed | ls"]),
        ("xargs -0", []),
        ("C:\\bin\\rg.exe x", ["rg x"]),
    ],
)
def test_command_lines(line, expected):
    told = [
        " | ".join(" ".join((one.program, *one.words)) for one in pipeline)
        for pipeline in pipelines(line)
    ]
    assert told == expected


def test_the_action_of_a_command():
    assert Command("git", ("-C", "a", "-p", "diff")).action == "diff"
    assert Command("git", ("--version",)).action == ""


@given(st.text(st.sampled_from("a |&;()'\"\\\n<>=-1 "), max_size=40))
def test_any_text_is_a_command_line(line):
    for pipeline in pipelines(line):
        assert pipeline
        assert all(one.program for one in pipeline)


# The original's rule, mended


def test_w16_words_count_where_a_command_stands():
    assert bash("git commit -m 'find the bug'") == "text"
    assert bash("git log") == "text"
    assert bash("cat docs/log.md") == "text"
    assert bash("pip install pytest") == "text"
    assert detect_strategy("web", {}, "intro\n---\nnext\n+++ x") == "text"
    prose = "Most of the import duties hit this class of goods hard.\n" * 80
    assert detect_strategy("web", {}, prose) == "text"
    events = "\n".join(json.dumps({"class": "a", "n": n}) for n in range(40))
    assert detect_strategy("web", {}, events) == "text"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git diff HEAD~1", "diff"),
        ("cd a && git --no-pager diff", "diff"),
        ("npm test", "test"),
        ("pnpm run test:unit", "test"),
        ("npm run build", "text"),
        ("docker run box pytest -q", "test"),
        ("./node_modules/.bin/vitest", "test"),
        ("go test ./...", "test"),
        ("rake test", "test"),
        ("npm", "text"),
        ("ps aux | grep node", "search"),
        ("git grep -n x", "search"),
        ("which find", "text"),
        ("tree -L 2", "tree"),
        ("kubectl logs pod", "log"),
        ("journalctl -u x", "log"),
        ("tail -f x", "log"),
        ("tail x", "text"),
        ("less build.log", "log"),
    ],
)
def test_strategies_of_commands(command, expected):
    assert bash(command) == expected


def test_strategies_of_texts_and_files():
    assert detect_strategy("web", {}, "\x1b[1m{}\x1b[0m ") == "json"
    assert detect_strategy("web", {}, "{x}") == "text"
    assert detect_strategy("web", {}, "a\ndiff --git a b") == "diff"
    assert detect_strategy("web", {}, "a\u2028@@ x") == "diff"
    assert detect_strategy("web", {}, "a\nERROR] b") == "log"
    assert detect_strategy("web", {}, "aERROR b") == "text"
    assert detect_strategy("READ", {"path": "a.conf"}, "x") == "config"
    assert detect_strategy("web", {"path": "a.conf"}, "x") == "text"
    assert detect_strategy("web", {"path": "a.rs"}, "x") == "code"
    assert detect_strategy("web", {}, "| a | b |  \n" * 5) == "table"
    assert detect_strategy("web", {}, "x\n" + "| a | b |\n" * 5) == "text"
    assert detect_strategy("web", {}, "export default x") == "code"
    assert detect_strategy("web", {}, "from a import b with five words") == "code"


def test_what_a_call_names():
    assert command_of({"command": ["bash", "-lc", "ls | wc"]}) == "ls | wc"
    assert command_of({"command": ["git", "diff", "-c"]}) == "git diff -c"
    assert command_of({"cmd": "ls"}) == "ls"
    assert command_of({"command": 1}) == command_of({}) == ""
    assert path_of({"path": None, "file_path": "a"}) == "a"
    assert path_of({"path": 1}) == ""
    assert suffix_of("a." + "b" * 40) == ""
    assert not is_table_row("a | b | c")
    assert not is_json_lines('{"a": 1}')


# What must stay exact


@pytest.mark.parametrize(
    ("command", "exact"),
    [
        ("kubectl get pods -ojson", True),
        ("kubectl get pods -o=json", True),
        ("kubectl get pods -o yaml", True),
        ("kubectl get pods -o jsonpath='{.items}'", True),
        ("aws s3 ls --output-format json", True),
        ("aws s3 ls --output 'json'", True),
        ("terraform show --format=yaml|less", True),
        ("cmd --json;", True),
        ("(cmd --json)", True),
        ("cmd --json-lines", False),
        ("cmd --output result.json", False),
        ("gcc -o jsontool x.c", True),
        ("gcc -o xjson x.c", False),
        ("curl https://example.org/json", False),
    ],
)
def test_w17_output_for_programs(command, exact):
    assert requests_exact_output({"command": command}) is exact


@pytest.mark.parametrize(
    ("command", "exact"),
    [
        ("gh pr list --json", True),
        ("a --JSON=x", True),
        ("a --json;", True),
        ("a --json|jq", False),
        ("a --format json", True),
        ("a --format=jsonl", False),
        ("a --format=xml", False),
        ("a --output=json", True),
        ("a --output=jsonx", False),
        ("a --output-format json", True),
        ("a -o json", True),
        ("a -ojson", True),
        ("a -o=json", True),
        ("a -o yaml", True),
        ("a -o jsonpath={.items}", False),
        ("a--json", False),
    ],
)
def test_the_originals_rule_for_output_for_programs(command, exact):
    assert requests_exact_output({"command": command}, asks=HOST_READS.asks) is exact
    given = {"input": {"command": command}}
    assert result("skills.requests_exact_structured_output", given) == {"output": exact}


@pytest.mark.parametrize(
    ("tool", "arguments", "query", "exact"),
    [
        ("read", {"path": "a.yml"}, "fix", False),
        ("read", {"path": "a.ts"}, "fix", True),
        ("Read", {"file_path": "A.TS"}, "Update it", True),
        ("read", {"path": "a.ts"}, "we are fixing it", False),
        ("bash", {"command": "cat a.yml"}, "fix", False),
        ("bash", {"command": "cat a.ts;"}, "fix", False),
        ("bash", {"command": "cat 'a b.ts'"}, "fix", True),
        ("bash", {"command": 'cat "a b.ts'}, "fix", True),
        ("bash", {"command": "cat a.ts; ls"}, "fix", False),
    ],
)
def test_the_originals_rule_for_reads_before_edits(tool, arguments, query, exact):
    assert protects_read(tool, arguments, query, reads=HOST_READS) is exact
    given = {"tool": tool, "input": arguments, "query": query}
    assert result("skills.should_protect_exact_read", given) == {"output": exact}
    assert not protects_read("read", {"path": "a.ts"}, "fix", "continue", reads=HOST_READS)


def test_w17_the_format_that_a_call_names():
    assert requests_exact_output({"format": "NDJSON"})
    assert not requests_exact_output({"format": "table"})
    assert not requests_exact_output({"format": ["json"]})


def test_w18_who_edits_reads_exactly():
    read = {"path": "src/a.ts"}
    for query in ("fix it", "we are fixing and updating the parser", "it was rewritten", "repairs"):
        assert protects_read("read", read, query)
    assert protects_read("read", read, "fix the parser", "continue", "yes, go on")
    assert not protects_read("read", read, "fix the parser", "now explain the tests")
    assert not protects_read("read", read, "continue")
    assert not protects_read("read", read)
    assert protects_read("read", {"path": "ci.yaml"}, "fix the config")
    assert protects_read("Read_File", {"file_path": "README.md"}, "update the docs")
    assert not protects_read("read", {"path": "README.md"}, "update it", reads=HOST_READS)
    assert not protects_read("read", {"path": "a.png"}, "replace it")
    assert protects_read("bash", {"command": 'cat "my file.py"'}, "edit")
    assert protects_read("bash", {"command": "head -5 'a.go'; ls"}, "edit")
    assert protects_read("bash", {"command": "sed -n 1p a.rs; ls"}, "edit")
    assert not protects_read("bash", {"command": "cat a.png"}, "edit")
    assert not protects_read("bash", {"command": "make a.ts"}, "edit")
    assert not protects_read("bash", {"command": ""}, "edit")
    assert not protects_read("shell", {"command": "cat a.ts"}, "edit")


def test_intent_is_looked_for_in_the_last_requests_only():
    read = {"path": "a.py"}
    assert not protects_read("read", read, "fix it", *["continue"] * 8)
    assert protects_read("read", read, "fix it", *["continue"] * 7)
    assert goes_on("")
    assert goes_on("That's good — go ahead!") is False
    assert goes_on("OK, proceed.")


def test_w19_instructions():
    assert is_instructions("read", {"path": "/skills/x/SKILL.md"}, "x")
    assert is_instructions("Read", {"file_path": "AGENTS.md"}, "x")
    assert is_instructions("bash", {"command": "cd a && cat docs\\CLAUDE.md"}, "x")
    assert is_instructions("view", {"path": ".github/copilot-instructions.md"}, "x")
    assert is_instructions("view", {"path": ".cursor/rules/a.mdc"}, "x")
    assert is_instructions("web", {}, "--- \nname: a\nmodel: x\ndescription: b\n---")
    assert not is_instructions("web", {}, "---\nname: a\n---\ndescription: b")
    assert not is_instructions("web", {}, "---\n" + "name: a\n" * 60 + "description: b\n---")
    assert not is_instructions("bash", {"command": "wc SKILL.md; cat b.md | head"}, "x")
    assert not is_instructions("read", {"path": "my-skill.md"}, "x")


# Our rule


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("cat a.json", '{"a":\n1}', "json"),
        ("cat a", '{"a":1}\n{"a":2}\n', "ndjson"),
        ("npm run build | tail -3", "built in 2 s", "log"),
        ("npm run check | tail -3", "npm error code 2", "error"),
        ("make 2>&1", "cc -c a.c\nmake: *** [all] Error 1", "error"),
        ("npm run check | grep 'error TS'", "a.ts(1,2): error TS1: x", "search"),
        ("npm run test -- a", "1..1", "test"),
        ("npx vitest run", "x", "test"),
        ("grep -A3 class a.py | head", "class A:\n  pass", "search"),
        ("git grep x", "a:x", "search"),
        ("sed -n 1,9p src/a.py", "x = 1", "code"),
        ("cat .env.yaml", "a: 1", "config"),
        ("cat README.md | head -3", "# def of import", "text"),
        ("cat server.log", "x", "log"),
        ("tail -f out", "x", "log"),
        ("tail -n 5 out", "x", "text"),
        ("docker logs web", "x", "log"),
        ("journalctl", "x", "log"),
        ("ls -R", "a b", "tree"),
        ("git diff", "diff --git a b\n--- a\n+++ b", "diff"),
        ("git diff --stat", " a | 2 +-", "text"),
        ("git status", "On branch x", "text"),
        ("cd a; sleep 1", "x", "text"),
        ("grep x a; cat b.py", "a\nb\nc", "text"),
        ("grep x a; grep y b", "a\nb\nc", "search"),
        ("./run", "a.c:1: x\na.c:2: x\nb.c:1: x\nb.c:9: x\nb.c:11: x", "search"),
        ("./run", "a.c:1: x\na.c:2: x", "text"),
        ("./run", "x\nTraceback (most recent call last):\n  File x", "error"),
        ("./run", "@@ -1,2 +1,2 @@\n-a\n+b", "diff"),
        ("./run", "===== 3 failed, 2 passed in 1s =====", "test"),
        ("./run", "2024-01-01 10:00:00 a\n2024-01-01 10:00:01 b", "log"),
        ("./run", "> app@1.0.0 start\n> node x", "log"),
        ("./run", "[INFO] a\n[WARN] b\nc", "log"),
        ("./run", "├── a\n└── b", "tree"),
        ("./run", "total 8\n-rw-r--r-- 1 a b 1 x\ndrwxr-xr-x 2 a b 1 y", "tree"),
        ("./run", "|a|b|\n" * 6, "table"),
        ("./run", "NAME   AGE   OK\n" + "x1   2d   yes\n" * 5, "table"),
        (
            "./run",
            "import os\n\ndef f(a):\n    return {\n        a\n    }\nclass B:\n    x = (",
            "code",
        ),
        ("./run", "# import\n# def\nprose", "text"),
        ("./run", "", "text"),
        ("ps aux", "USER PID %CPU COMMAND\nroot 1 0.0 /sbin/init splash\n", "table"),
        ("ps aux | head -5", "USER PID\nroot 1", "table"),
        ("ps aux | grep node", "root 1 node", "search"),
        ("df -h", "Filesystem Size Used\n/dev/sda1 10G 9G", "table"),
        ("psql -c 'select 1' db", " a \n---\n 1\n(1 row)", "table"),
        ("docker ps -a", "CONTAINER ID   IMAGE\n1f   nginx", "table"),
        ("docker build .", "Step 1/2", "log"),
        ("./query", " id | name\n----+------\n  1 | a\n  2 | b\n(2 rows)", "table"),
        ("./query", "+----+------+\n| id | name |\n+----+------+\n| 1 | a |", "table"),
        ("./query", "id,name,age\n" + "1,anna,2\n" * 9, "table"),
        ("./query", "Dear all, yes, and so on, and on\n" * 9, "text"),
        ("cat a.csv", "x", "table"),
        ("cat .env", "A=1", "config"),
        ("cat app/.env.local", "A=1", "config"),
        ("cat my.env", "A=1", "config"),
        ("cat .envrc", "x", "text"),
        ("go vet ./...", "# a\n./a.go:1:2: x", "log"),
    ],
)
def test_classes_of_commands(command, text, expected):
    assert made(command, text) == expected


@pytest.mark.parametrize(
    ("tool", "arguments", "text", "expected"),
    [
        ("Read", {"file_path": "a.py:10-20"}, "x", "code"),
        ("read", {"path": "a.css:raw"}, "x", "code"),
        ("read", {"path": "notes.md"}, "def f(): pass", "text"),
        ("read", {"path": "a.patch"}, "x", "diff"),
        ("read", {"path": "a.log"}, "x", "log"),
        ("read", {"path": "web/.env.production"}, "A=1", "config"),
        ("read", {"path": "a.tsv"}, "x", "table"),
        ("read", {"path": "src"}, ".\n  - a.py 1KB 2h ago", "tree"),
        ("read", {"path": "src"}, "a\nb", "text"),
        ("edit", {"path": "a.py"}, " 1|a\n-2|b\n+2|c", "diff"),
        ("edit", {"path": "a.py"}, "Done.", "text"),
        ("search", {"pattern": "x"}, "a", "search"),
        ("search", {"query": "who"}, "A long story.", "text"),
        ("Grep", {}, "a", "search"),
        ("list_dir", {}, "a", "tree"),
        ("browser", {}, '{"a": 1}', "json"),
        ("task", {}, "All went well.", "text"),
    ],
)
def test_classes_of_tools(tool, arguments, text, expected):
    assert classify(tool, arguments, text) == expected


def test_w16_prose_and_events_are_what_they_are():
    prose = "Most of the import duties hit this class of goods hard.\n" * 80
    assert classify("web", {}, prose) == "text"
    assert made("git commit -m 'find the bug'") == "text"
    assert made("git log") == "text"
    assert made("cat docs/log.md") == "text"
    assert made("pip install pytest", "Collecting pytest") == "log"
    assert made("curl x", '{"class": 1}\n{"class": 2}') == "ndjson"
    assert classify("web", {}, "intro\n---\nnext\n+++ x") == "text"


@given(st.text(max_size=200), st.sampled_from(["bash", "read", "edit", "search", "x"]), st.text())
def test_every_output_has_a_class_with_a_filter(text, tool, command):
    arguments = {"command": command, "path": command}
    assert classify(tool, arguments, text) in FILTERS
    assert detect_strategy(tool, arguments, text) in FILTERS


def labels():
    return [json.loads(line) for line in LABELS.read_text("utf-8").splitlines()]


def test_labels_are_hashes_and_classes():
    lines = labels()
    assert len(lines) >= 200
    assert len({line["sha256"] for line in lines}) == len(lines)
    for line in lines:
        assert line.keys() == {"sha256", "tool", "label"}
        assert line["label"] in FILTERS


@pytest.mark.skipif(not SESSIONS.is_dir(), reason="the real sessions are not at hand")
def test_real_outputs_are_classified_as_by_hand():
    by_hash = {hashlib.sha256(one.text.encode()).hexdigest(): one for one in real_outputs()}
    wrong: Counter[tuple[str, str]] = Counter()
    right = 0
    for line in labels():
        one = by_hash[line["sha256"]]
        assert one.tool == line["tool"]
        given = "error" if one.error else classify(one.tool, one.arguments, one.text)
        right += given == line["label"]
        wrong[line["label"], given] += given != line["label"]
    total = right + wrong.total()
    assert total >= 200
    assert right * 100 >= total * 95, +wrong
    assert right >= 244  # what was reached: 98.8 %


# Hostile input


def took(rule, text):
    start = time.process_time()
    rule(text)
    return time.process_time() - start


RULES = {
    "classify": lambda text: classify("web", {}, text),
    "detect": lambda text: detect_strategy("web", {}, text),
    "instructions": lambda text: is_instructions("web", {}, f"---\n{text}"),
    "command": lambda text: made(text) + bash(text),
    "input": lambda text: requests_exact_output({"command": text}),
    "path": lambda text: (
        is_instructions("read", {"path": text}, "")
        or protects_read("bash", {"command": f"cat {text}"}, f"{text} fix")
    ),
}
UNITS = [
    "|", " ", "=", "-", "'\\", '"', "@@ ", "---\n", "--- a\n", "{", "[0,", "a:1", ":1-", "-o= ",
    "--output  ", "{}\n", "name: \n", "continue ", "\x1b]", "├ ",
]  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_w39_a_million_characters_cost_their_share(rule):
    for unit in UNITS:
        long = unit * (1_000_000 // len(unit))
        part = long[: len(long) // 16]
        # Sixteen times the length: a quadratic rule would take 256 times as long.
        assert took(RULES[rule], long) <= 100 * max(took(RULES[rule], part), 0.001), unit
