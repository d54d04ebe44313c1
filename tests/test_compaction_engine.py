"""Compaction of one output after another: the law, duplicates, pressure, what passes, the door."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from real_outputs import SESSIONS, real_outputs

from ctxalgebra.compaction.engine import (
    DEFAULT,
    FILTERS,
    ORIGINAL,
    Policy,
    Saver,
    compress,
    hold,
    original,
    press,
    pressure,
    retrieve,
    retrieve_characters,
    set_query,
)
from ctxalgebra.compaction.limits import LARGEST, keeps
from ctxalgebra.compaction.recovery import Recovery, names
from ctxalgebra.conformance.door import result
from ctxalgebra.conformance.wire import read

LOGS = {"command": "docker logs web"}


def log(first=10_000, count=100):
    return "\n".join(f"INFO request {n} served" for n in range(first, first + count))


def check(state, shown, text, policy=DEFAULT):
    """Hold the law for one output."""
    assert shown.original == policy.measure(text)
    assert shown.size == policy.measure(shown.text)
    if not shown.changed:
        assert (shown.text, shown.id) == (text, "")
        return
    assert keeps(shown.original, shown.size)
    assert shown.id in shown.text
    assert original(state.store, shown.id) == text


LINES = st.sampled_from(
    [
        "INFO ready", "ERROR: failed", "", "a.py:1: def f(x):", "+ new", "- old", "@@ -1 +1 @@",
        "import os", "| a | b |", "key: value", "PASSED tests/a", "=== 1 failed ===", "├── a",
        "[====>     ] 40%", '{"a": 1, "b": "c"}', "text " * 30, "\x1b[31mred\x1b[0m", "x" * 900,
        "\ud800", "\U0001f600" * 40,
    ]
)  # fmt: skip
OUTPUTS = st.builds(
    lambda blocks, ending: ending.join(line for line, times in blocks for _ in range(times)),
    st.lists(st.tuples(LINES, st.integers(1, 60)), max_size=8),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
CALLS = st.sampled_from(
    [
        ("bash", LOGS), ("bash", {"command": "pytest"}), ("bash", {"command": "rg x"}),
        ("bash", {"command": "git diff"}), ("bash", {"command": "tree"}), ("bash", {}),
        ("read", {"path": "a.py"}), ("read", {"path": "a.toml"}), ("read", {"path": "SKILL.md"}),
        ("bash", {"command": "x --json"}), ("skill", {}),
    ]
)  # fmt: skip


@given(
    st.lists(st.tuples(CALLS, OUTPUTS, st.booleans()), max_size=5),
    st.sampled_from([DEFAULT, ORIGINAL]),
    st.sampled_from(["", "why did a.py fail", "fix it"]),
)
def test_what_is_shown_is_the_output_or_shorter_and_names_it(steps, policy, query):
    state = set_query(Saver(Recovery(measure=policy.measure)), query)
    for (tool, arguments), text, error in [*steps, *steps]:
        before = pickle.dumps(state)
        after, shown = compress(state, tool, arguments, text, error=error, policy=policy)
        assert pickle.dumps(state) == before
        assert compress(state, tool, arguments, text, error=error, policy=policy)[1] == shown
        check(after, shown, text, policy)
        state = after


@pytest.mark.skipif(not SESSIONS.is_dir(), reason="the real sessions are not at hand")
@pytest.mark.parametrize("policy", [DEFAULT, ORIGINAL], ids=["ours", "original"])
def test_real_outputs_come_back_exactly(policy):
    state, changed, file = Saver(), 0, ""
    for one in real_outputs():
        if one.file != file:
            state, file = Saver(Recovery(measure=policy.measure)), one.file
        state, shown = compress(
            state, one.tool, one.arguments, one.text, error=one.error, policy=policy
        )
        check(state, shown, one.text, policy)
        if shown.changed:
            changed += 1
            parts, at = [], 1
            while at:
                state, page = retrieve(state, shown.id, at, 7)
                parts += [page.text, page.separator]
                at = page.next
            assert "".join(parts) == one.text
    assert changed > 10


# What passes


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("bash", LOGS, "INFO a\n" * 100),
        ("bash", LOGS, " \n" * 1000),
        ("skill", LOGS, log()),
        ("token_retrieve", LOGS, log()),
        ("bash", LOGS, "<Skill-Orchestrator>\n" + log()),
        ("bash", LOGS, "the following SKILL instructions were loaded\n" + log()),
        ("bash", {"command": "docker logs web --json; date"}, log()),
        ("read", {"path": "/skills/x/SKILL.md"}, "# Do\n" * 4000),
        ("read", {"path": "src/parser.ts"}, "const a = 1;\n" * 2000),
    ],
)
def test_what_passes_leaves_no_trace(tool, arguments, text):
    state = set_query(set_query(Saver(), "we are fixing the parser"), "continue")
    if tool == "bash" and arguments is LOGS and text.startswith("INFO"):
        text = text[:799]
    for _ in range(2):
        state, shown = compress(state, tool, arguments, text)
        assert (shown.text, shown.changed) == (text, False)
    assert (state.store.held, state.seen) == (0, None)


def test_what_is_too_large_for_the_store_passes():
    text = "same\n" * (LARGEST // 5 + 1)
    assert not compress(Saver(), "bash", LOGS, text)[1].changed
    small = Saver(Recovery(characters=1000))
    for _ in range(2):
        small, shown = compress(small, "bash", LOGS, log())
        assert not shown.changed
    assert small.store.held == 0


def test_a_view_that_saves_too_little_is_none():
    text = "\n".join(f"{word} stands alone here" for word in ("alpha", "beta", "gamma")) * 12
    state, shown = compress(Saver(), "web", {}, text)
    assert not shown.changed
    assert state.store.held == 0
    tight = "\n".join(f"INFO {chr(97 + n % 26) * (n // 26 + 5)} done" for n in range(40))
    assert not compress(Saver(), "bash", LOGS, tight + "\nINFO eeeee done" * 8)[1].changed


def raising(_text, _query, _level, *, rules):
    raise RuntimeError(str(rules))


@pytest.mark.parametrize("broken", [raising, lambda *_, rules: None, lambda *_, rules: ""])
def test_a_filter_that_fails_returns_the_original(broken):
    policy = Policy(filters=dict.fromkeys(FILTERS, broken))
    state, shown = compress(Saver(), "bash", LOGS, log(), policy=policy)
    assert (shown.text, shown.changed, state.store.held) == (log(), False, 0)
    wordy = Policy(filters=dict.fromkeys(FILTERS, lambda *_, rules: "x" * 2450))
    assert not compress(Saver(), "bash", LOGS, log(), policy=wordy)[1].changed
    close = Policy(filters=dict.fromkeys(FILTERS, lambda *_, rules: "x" * (len(log()) - 240)))
    assert not compress(Saver(), "bash", LOGS, log(), policy=close)[1].changed


def test_errors_are_shown_first():
    text = log(10_000, 400) + "\nERROR: disk is full\n" + log(20_000, 400)
    shown = compress(Saver(), "bash", {}, text, error=True)[1]
    assert shown.strategy == "error"
    assert "ERROR: disk is full" in shown.text


def test_json_and_json_lines():
    rows = [{"n": n, "state": "up", "name": f"item {n}"} for n in range(100)]
    state, shown = compress(Saver(), "api", {}, json.dumps(rows))
    assert shown.strategy == "json"
    assert shown.text.startswith("[JSON compacted: $: 100→")
    check(state, shown, json.dumps(rows))
    lines = "\n".join(map(json.dumps, rows))
    for policy, strategy in ((DEFAULT, "ndjson"), (ORIGINAL, "text")):
        state, shown = compress(Saver(), "api", {}, lines, policy=policy)
        assert shown.strategy == strategy
        check(state, shown, lines)
    flat = json.dumps({f"key {n}": n for n in range(100)})
    assert not compress(Saver(), "api", {}, flat)[1].changed


def test_what_was_shown_can_be_taken_from_a_record():
    state = Saver()
    shown = hold(state, "bash", log(), "log")
    again = hold(shown, "bash", log(), "dedupe")
    assert (again.seen, again.store.held) == (shown.seen, 1)
    assert compress(again, "bash", LOGS, log())[1] == compress(shown, "bash", LOGS, log())[1]


def test_w20_one_long_line_is_cut_whatever_its_class():
    line = "word " * 32_000
    for arguments in ({"command": "rg word"}, {"command": "make"}, {}):
        state, shown = compress(Saver(), "bash", arguments, line)
        assert shown.size < 2000
        check(state, shown, line)
    state, shown = compress(Saver(), "read", {"path": "a.min.js"}, "f(x);" * 32_000)
    assert shown.size < 2000
    nothing = Policy(filters={**FILTERS, "code": lambda *_, rules: None})
    state, shown = compress(Saver(), "bash", {"command": "cat a.js"}, line, policy=nothing)
    assert (shown.strategy, shown.size < 2000) == ("text", True)


# Duplicates


def test_w21_a_note_says_how_the_output_was_shown():
    state, first = compress(Saver(), "bash", LOGS, log())
    state, again = compress(state, "Bash", LOGS, log())
    assert first.strategy == "log"
    assert again.strategy == "dedupe"
    assert "was shown as a compacted view (log)" in again.text
    whole = "".join(f"{chr(97 + n % 26)}{n * 7919 % 9973} " for n in range(300))[:1200]
    state, first = compress(state, "web", {}, whole)
    assert not first.changed
    for _ in range(2):
        state, again = compress(state, "web", {}, whole)
        assert "was shown in full" in again.text
        check(state, again, whole)
    state, other = compress(state, "api", {}, whole)
    assert not other.changed


def test_a_duplicate_under_a_long_name_is_shown_again():
    name = "x" * 1500
    state, first = compress(Saver(), name, LOGS, log(10_000, 40))
    state, again = compress(state, name, LOGS, log(10_000, 40))
    assert first == again
    assert first.strategy == "log"


def test_512_outputs_are_remembered():
    state = Saver()
    for number in range(520):
        state, _ = compress(state, "bash", LOGS, log(number * 1000 + 10_000, 40))
    assert state.remembered == 512
    assert compress(state, "bash", LOGS, log(10_000, 40))[1].strategy == "log"
    assert compress(state, "bash", LOGS, log(519 * 1000 + 10_000, 40))[1].strategy == "dedupe"
    assert state.store.held == 128


# Pressure


def test_w22_pressure_rises_with_what_is_asked_for_and_eases():
    state, shown = compress(Saver(), "Bash", LOGS, log())
    for level in (1, 2, 3, 3):
        state, page = retrieve(state, shown.id)
        assert page.text == log()
        assert pressure(state, "bash") == level
    state, _ = retrieve(state, shown.id, 50)
    state, _ = retrieve_characters(state, shown.id, 10)
    assert pressure(state, "bash") == 3
    levels = []
    for number in range(25):
        state, _ = compress(state, "bash", LOGS, log(1000 * number + 20_000))
        levels.append(pressure(state, "bash"))
    assert levels == [3] * 7 + [2] * 8 + [1] * 8 + [0] * 2
    assert state.pressures == ()


def test_pressure_is_that_of_one_tool():
    state, shown = compress(Saver(), "bash", LOGS, log())
    state, piece = retrieve_characters(state, shown.id)
    assert piece.text == log()
    assert (pressure(state, "bash"), pressure(state, "api")) == (1, 0)
    state, _ = compress(state, "api", LOGS, log(1000))
    assert pressure(state, "bash") == 1
    assert retrieve(state, "nothing") == (state, None)
    assert retrieve_characters(state, "nothing") == (state, None)


def test_pressure_shows_more():
    text = "\n".join(f"step {chr(97 + n % 26)}{chr(97 + n // 26)} {'x ' * 40}" for n in range(400))
    state, sizes = Saver(), []
    for level in range(4):
        state, shown = compress(state, "bash", LOGS, f"{text}\nrun {level}")
        sizes.append(shown.size)
        state, _ = retrieve(state, shown.id)
    assert all(before <= after for before, after in pairwise(sizes))
    assert sizes[0] < sizes[1] < sizes[2]


def test_64_tools_are_under_pressure_at_most():
    state = Saver()
    for number in range(70):
        state, shown = compress(state, f"tool {number}", LOGS, log(number * 1000 + 10_000))
        state, _ = retrieve(state, shown.id)
    assert len(state.pressures) == 64
    assert (pressure(state, "tool 0"), pressure(state, "tool 69")) == (0, 1)


# Requests


def test_the_last_request_that_says_something_counts():
    text = "\n".join(f"note {chr(97 + n % 26) * 3}{n} on /dev/sd{n}x of it" for n in range(3000))
    state = set_query(Saver(), "what of /dev/sd1500x?")
    assert "/dev/sd1500x" in compress(state, "web", {}, text)[1].text
    state = set_query(state, "go on")
    assert "/dev/sd1500x" in compress(state, "web", {}, text)[1].text
    state = set_query(state, "thanks, now the weather")
    assert "/dev/sd1500x" not in compress(state, "web", {}, text)[1].text
    assert set_query(Saver(), f" {'x' * 5000} ").queries == ("x" * 4000,)
    for number in range(20):
        state = set_query(state, str(number))
    assert len(state.queries) == 8


def test_the_original_counts_utf16_units():
    text = f"{chr(0x1F600) * 40}\n" * 19
    assert not compress(Saver(), "web", {}, text)[1].changed
    state = Saver(Recovery(measure=ORIGINAL.measure))
    state, shown = compress(state, "web", {}, text, policy=ORIGINAL)
    assert (shown.changed, shown.original, state.store.size) == (True, 1539, 1539)


def test_a_smaller_store_forgets():
    state = evolve(Saver(), store=Recovery(texts=2))
    ids = []
    for number in range(3):
        state, shown = compress(state, "bash", LOGS, log(number * 1000 + 10_000))
        ids.append(shown.id)
    assert names(state.store) == tuple(ids[1:])
    assert retrieve(state, ids[0])[1] is None


# The door


def engine(*ops):
    return result("skills.token_saver_engine", {"ops": list(ops)})


def test_the_door_refuses_what_is_no_script():
    for op in (
        {"op": "nope"},
        {"op": "setQuery"},
        {"op": "compress", "tool": "a", "input": [], "text": ""},
        {"op": "retrieve", "id": None},
        {"op": "retrieve", "id": "a", "startLine": "1"},
        {"op": "observePrefix", "prompt": 1},
        {"op": "recordToolSearch", "activated": True},
        {"op": "advance", "ms": "1"},
    ):
        assert engine(op)["error"]["code"] == "invalid-input"


def test_the_door_follows_a_script():
    ops = [
        {"op": "compress", "tool": "bash", "input": LOGS, "text": log().replace("\n", "\r\n")},
        {"op": "retrieve", "id": 0, "maxLines": 1},
        {"op": "retrieve", "id": 7},
        {"op": "retrieve", "id": -1},
        {"op": "retrieve", "id": 1, "startLine": 100},
        {"op": "observePrefix", "prompt": "a"},
        {"op": "observePrefix", "prompt": "b"},
        {"op": "advance", "ms": 1},
        {"op": "stats"},
        {"op": "sizes"},
        {"op": "clear"},
        {"op": "sizes"},
    ]
    first, page, none, gone, last, *_, stats, sizes, _, empty = engine(*ops)["output"]
    assert (page["text"], page["nextStartLine"]) == ("INFO request 10000 served", 2)
    assert "separator" not in page
    assert (none, gone) == (None, None)
    assert last["hasMore"] is False
    assert "separator" not in last
    assert (stats["retrievals"], stats["prefixChanges"], stats["byStrategy"]) == (2, 1, {"log": 1})
    assert sizes == {"originals": 1, "storedChars": first["originalChars"], "ids": [first["id"]]}
    assert empty == {"originals": 0, "storedChars": 0, "ids": []}


def test_the_door_tells_a_separator_only_where_nobody_could_tell_it_otherwise():
    ask = {"op": "retrieve", "id": 0, "maxLines": 1}
    for text, told in (
        (log(), None),
        (log().replace("\n", "\r\n"), None),
        (log().replace("\n", "\r\n", 1), "\r\n"),
        (log().replace("\n", "\r", 1), "\r"),
    ):
        shown = {"op": "compress", "tool": "bash", "input": LOGS, "text": text}
        assert engine(shown, ask)["output"][1].get("separator") == told


@pytest.mark.parametrize("number", [float("inf"), 1e300, 10**30, -float("inf"), -1e300, 2.9, 0])
def test_numbers_beyond_all_bounds_are_clamped(number):
    shown = {"op": "compress", "tool": "bash", "input": LOGS, "text": log()}
    ask = {"op": "retrieve", "id": 0, "startLine": number, "maxLines": number}
    total = len(log().split("\n"))
    expected = {2.9: (2, 3)}.get(number, (total, total) if number > 1 else (1, 240))
    page = engine(shown, ask)["output"][1]
    if number < 0:
        expected = (1, 1)
    assert (page["startLine"], page["endLine"]) == (expected[0], min(expected[1], total))


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400, "1e-400"])
@pytest.mark.parametrize(
    ("operation", "given"),
    [
        ("smart_array", '{"items":[%s,1,2,3,4,5,6,7,8,9,10],"query":"","cap":8}'),
        ("smart_array", '{"items":[1,2,3],"query":"","cap":%s}'),
        ("compress_json", '{"text":"[%s]","query":"","pressure":0}'),
        ("compress_json", '{"text":"[]","query":"","pressure":%s}'),
        ("try_ndjson", '{"text":"x","query":"","pressure":%s}'),
        ("token_saver_engine", '{"ops":[{"op":"advance","ms":%s}]}'),
        ("token_saver_engine", '{"ops":[{"op":"retrieve","id":%s}]}'),
        ("token_saver_engine", '{"ops":[{"op":"recordToolSearch","activated":%s}]}'),
        ("token_saver_engine", '{"ops":[{"op":"recordToolDescriptionSavings","savedChars":%s}]}'),
        ("compress_generic", '{"text":"x","query":"","pressure":0,"capOverride":%s}'),
        ("compress_log", '{"text":"x","query":"","pressure":%s}'),
    ],
)
def test_any_number_is_answered_or_refused(operation, given, number):
    answer = result(f"skills.{operation}", json.loads(given % number))
    assert "output" in answer or answer["error"]["code"] == "invalid-input"


def test_the_engine_at_the_door_follows_the_original_and_ours_on_request():
    code = "\n".join(f"def f{n}(a):\n" + f"    a += {n}\n" * 9 for n in range(20))
    script = [
        {"op": "setQuery", "query": "fix the parser"},
        {"op": "setQuery", "query": "continue"},
        {"op": "compress", "tool": "read", "input": {"path": "a.py"}, "text": code},
        {"op": "compress", "tool": "bash", "input": {"command": "a -o jsonpath=x"}, "text": log()},
    ]
    changed = [one["changed"] for one in engine(*script)["output"][2:]]
    assert changed == [True, True]
    given = {"ops": script, "rules": "ours"}
    changed = [one["changed"] for one in result("skills.token_saver_engine", given)["output"][2:]]
    assert changed == [False, False]
    again = {"op": "setQuery", "query": "fix the parser"}
    assert engine(again, script[2])["output"][1]["changed"] is False


def test_the_engine_at_the_door_samples_by_the_originals_rule():
    rows = json.dumps([{"i": n, "error": None, "p": "x" * (n % 7)} for n in range(60)])
    shown = compress(Saver(), "api", {}, rows, policy=ORIGINAL)[1]
    assert shown.changed is False
    ours = compress(Saver(), "api", {}, rows)[1]
    assert ours.strategy == "json"


def test_under_the_originals_policy_pressure_stays_and_each_page_raises_it():
    def rows(first):
        items = [{"n": first + n, "s": f"state {first} {n * n} " * 9} for n in range(50)]
        return {"op": "compress", "tool": "api", "input": {}, "text": json.dumps(items, indent=2)}

    page = {"op": "retrieve", "id": 0, "startLine": 5}
    views = [rows(first) for first in range(100, 1200, 100)]
    script = [rows(1), page, page, page, rows(2), rows(3)]
    assert [one.get("changed") for one in engine(*script)["output"]][-2:] == [False, False]
    ours = result("skills.token_saver_engine", {"ops": script, "rules": "ours"})["output"]
    assert [one.get("changed") for one in ours][-2:] == [True, True]
    state, shown = compress(Saver(), "api", {}, views[0]["text"], policy=ORIGINAL)
    state = press(state, shown.id)
    for one in views[1:]:
        state, shown = compress(state, "api", {}, one["text"], policy=ORIGINAL)
        assert shown.changed
    assert pressure(state, "api") == 1


VECTORS = Path(__file__).parent / "vectors" / "v1" / "skills_saver.jsonl"


def test_the_door_answers_as_written_down():
    for line in VECTORS.read_bytes().splitlines():
        vector = read(line)
        given = result(vector["operation"], vector["input"])
        if "error" in vector:
            assert given["error"]["code"] == vector["error"]["code"]
        else:
            assert given == {"output": vector["output"]}, vector["id"]


def test_the_door_counts_units_of_texts_in_json():
    wide = "\U0001f600" * 160
    one = result("skills.smart_array", {"items": [wide, wide + "a"], "query": "", "cap": 4})
    assert one["output"]["items"][0] == wide
    assert "[21 chars omitted]" in one["output"]["items"][1]
    text = json.dumps([{"error": f"failed {n}", "n": n} for n in range(500)])
    asked = {"text": text, "query": "", "pressure": 0}
    found = result("skills.compress_json", {**asked, "rules": "ours"})["output"]
    assert found["summaries"][0]["errors"] == 500 - found["summaries"][0]["shown"] > 0
    found = result("skills.compress_json", asked)["output"]
    assert found["summaries"][0] == {"path": "$", "items": 500, "shown": 500, "constants": 0}
    events = text[1:-1].replace("}, ", "}\n")
    found = result("skills.try_ndjson", {"text": events, "query": "", "pressure": 0})["output"]
    assert (found["items"], "constants" in found) == (500, False)
    for operation in ("compress_json", "try_ndjson"):
        nothing = result(f"skills.{operation}", {"text": "x", "query": "", "pressure": 0})
        assert nothing == {"output": None}
