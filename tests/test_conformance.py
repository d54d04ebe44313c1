"""The conformance door: operations, hostile requests, vectors, ports that misbehave, reports."""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import math
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxalgebra
from ctxalgebra import DecodeError, InvalidArgument
from ctxalgebra.cli import main
from ctxalgebra.conformance import (
    OPERATIONS,
    answer,
    command,
    door,
    kernel,
    port,
    resident,
    serve,
)
from ctxalgebra.conformance.operations import Refusal, call, collect
from ctxalgebra.conformance.port import MOST, Broken, Driven, Port
from ctxalgebra.conformance.report import as_junit, as_object, bad, count
from ctxalgebra.conformance.runner import STATES, Outcome, run
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.conformance.vectors import Vector, judge, load
from ctxalgebra.conformance.wire import difference, read, write

ROOT = Path(__file__).resolve().parents[1]
VECTORS = ROOT / "tests" / "vectors" / "v1"
SHARED = ROOT.parent / "shared" / "vectors"
HOW_TO = ROOT / "docs" / "how-to" / "port-to-another-language.md"


def asked(lines, **options):
    """Serve lines, and give the answers."""
    out = io.BytesIO()
    serve(io.BytesIO(b"".join(line + b"\n" for line in lines)), out, **options)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def request(operation, value, seq=1):
    return write({"kind": "run", "seq": seq, "operation": operation, "input": value}).rstrip()


def codes(answers):
    return [a.get("error", {}).get("code") for a in answers]


PAYS = {"tail": 3000, "saved": 1000, "horizon": 23}


# Our vectors

MANIFEST = json.loads((VECTORS / "MANIFEST.json").read_text("utf-8"))
TOTAL = sum(entry["count"] for entry in MANIFEST["files"])
AREAS = {entry["file"].removesuffix(".jsonl"): entry["count"] for entry in MANIFEST["files"]}


def lines_of(path):
    return [read(line) for line in path.read_bytes().splitlines()]


def test_the_manifest_is_what_there_is():
    manifest = MANIFEST
    assert manifest["spec"] == door.SPEC
    assert sorted(entry["file"] for entry in manifest["files"]) == sorted(
        path.name for path in VECTORS.glob("*.jsonl")
    )
    for entry in manifest["files"]:
        data = (VECTORS / entry["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"]
        assert data.count(b"\n") == entry["count"]


def test_ids_count_on_and_no_vector_has_a_flag():
    for path in VECTORS.glob("*.jsonl"):
        lines = lines_of(path)
        ids = [f"{path.stem}-{number:04d}" for number in range(1, len(lines) + 1)]
        assert [line["id"] for line in lines] == ids
        assert not any("flags" in line for line in lines)


def test_each_operation_has_a_vector_with_an_output():
    with_output = {v.operation for v in load([VECTORS]) if not v.error}
    assert with_output == set(OPERATIONS)


def test_the_library_passes_its_vectors():
    outcomes = list(run(load([VECTORS]), door.result))
    assert [o for o in outcomes if o.state != "passed"] == []
    assert len(outcomes) == TOTAL


def test_answers_depend_on_nothing_that_was_asked_before():
    vectors = list(load([VECTORS]))
    there = {v.id: door.result(v.operation, v.input) for v in vectors}
    back = {v.id: door.result(v.operation, v.input) for v in reversed(vectors)}
    assert there == back


def test_inputs_are_unchanged():
    for vector in load([VECTORS]):
        before = write(vector.input)
        door.result(vector.operation, vector.input)
        assert write(vector.input) == before


# The vectors of the original, where they are at hand

OWN_WAY: dict[str, str] = {}
"""Vectors without a flag that the library answers otherwise, and why."""


@pytest.mark.skipif(not SHARED.is_dir(), reason="the original's vectors are not at hand")
def test_the_originals_vectors():
    outcomes = list(run(load([SHARED]), door.result, reasons=OWN_WAY))
    areas = {
        area: count(o for o in outcomes if o.operation.startswith(f"{area}."))
        for area in ("paging", "memory", "travel", "toolpolicy", "skills")
    }
    assert bad(outcomes) == []
    assert {o.id for o in outcomes if o.state == "differs"} >= set(OWN_WAY)
    paging = areas.pop("paging")
    assert paging["passed"] + paging["differs"] + paging["unsupported"] == 200
    assert {area: (n["passed"], n["differs"], n["unsupported"]) for area, n in areas.items()} == {
        "memory": (187, 27, 0),
        "travel": (358, 14, 0),
        "toolpolicy": (135, 9, 0),
        "skills": (323, 43, 0),
    }


@pytest.mark.skipif(not SHARED.is_dir(), reason="the original's vectors are not at hand")
def test_the_door_has_heard_of_every_operation():
    text = (SHARED / "OPERATIONS.md").read_text("utf-8")
    named = set(re.findall(r"^\| `(\w+\.\w+)` \|", text, re.MULTILINE))
    ours = {name for name in OPERATIONS if not name.startswith("kernel.")}
    assert named == ours


# What the areas do


def test_exchanges_leave_as_a_whole_or_not_at_all():
    """Where the original leaves the text of an assistant, or takes one call out of a message."""
    call = {"type": "toolCall", "id": "a", "name": "read", "arguments": {}}
    other = {**call, "id": "b"}
    results = [
        {"role": "toolResult", "toolCallId": name, "toolName": "read", "content": "x"}
        for name in "ab"
    ]
    start = [{"role": "user", "content": "q"}]
    said = {"role": "assistant", "content": [{"type": "text", "text": "look"}, call]}
    given = {"candidates": ["a"], "messages": [*start, said, results[0]]}
    assert door.result("memory.prune_messages", given)["output"]["messages"] == start
    both = {"role": "assistant", "content": [call, other]}
    given = {"candidates": ["a"], "messages": [*start, both, *results]}
    assert door.result("memory.prune_messages", given)["output"] == {
        "messages": given["messages"],
        "removed": None,
    }


def test_an_open_call_at_the_tail_leaves_as_the_original_has_it():
    call = {"type": "toolCall", "id": "a", "name": "read", "arguments": {}}
    given = {"candidates": ["a"], "messages": [{"role": "assistant", "content": [call]}]}
    told = door.result("memory.prune_messages", given)["output"]
    assert told["removed"] == {"saved": 2, "messageCount": 1, "droppedResultIds": []}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"tokenBudget": 9, "trimToTokens": 0.5}, "INVALID_TRIM_TARGET"),
        ({"tokenBudget": 9, "modelContextWindow": None}, "INVALID_MODEL_CONTEXT"),
        ({"tokenBudget": "9"}, "INVALID_TOKEN_BUDGET"),
        ({"tokenBudget": [9]}, "INVALID_TOKEN_BUDGET"),
    ],
)
def test_limits_that_are_no_numbers_of_tokens_are_refused_in_order(given, code):
    assert door.result("paging.context_token_limits", given)["error"]["code"] == code


def test_an_operation_of_the_original_passes_over_members_that_it_does_not_know():
    def lenient(*, a: int, **_: object) -> int:
        return a

    assert call(lenient, {"a": 1, "b": 2}) == 1


# Hostile requests

DEEP = b"[" * 501 + b"]" * 501
MALFORMED = [
    b"",
    b"nonsense",
    b"[]",
    b"5",
    b'"start"',
    b"null",
    b"{",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b'{"kind":"run","seq":1,"operation":"kernel.pays","input":NaN}',
    b'{"kind":"run","seq":1,"operation":"kernel.pays","input":-Infinity}',
    b'{"kind":"run","seq":1,"operation":"kernel.pays","input":1e999}',
    b'{"kind":"run","seq":1,"operation":"kernel.pays","input":' + b"9" * 4301 + b"}",
    b'{"kind":"run","seq":1,"operation":"kernel.pays","input":' + DEEP + b"}",
    b'{"kind":"run","seq":1,"operation":"kernel.pays","input":{"$repeat":["x",1000000000000]}}',
    b'{"kind":"run","seq":1,"operation":"kernel.pays","input":{"$repeat":["x",-1]}}',
    b'{"kind":"run","seq":1,"operation":"kernel.pays","input":{"$repeat":["x",true]}}',
    b'{"kind":"run","seq":1,"operation":"kernel.pays","input":{"$repeat":"x"}}',
    b'{"kind":"run","seq":1,"operation":"kernel.pays","input":{"$concat":["x",1]}}',
    b'{"kind":"run","seq":1,"operation":"kernel.pays","input":{"$concat":"x"}}',
    b"{}",
    b'{"kind":"walk"}',
    b'{"kind":5}',
    b'{"kind":["start"]}',
    b'{"kind":"start"}',
    b'{"kind":"start","spec":2}',
    b'{"kind":"start","spec":"1"}',
    b'{"kind":"run"}',
    b'{"kind":"run","seq":"1","operation":"kernel.pays","input":{}}',
    b'{"kind":"run","seq":true,"operation":"kernel.pays","input":{}}',
    b'{"kind":"run","seq":1.5,"operation":"kernel.pays","input":{}}',
    b'{"kind":"run","seq":1,"operation":7,"input":{}}',
    b'{"kind":"run","seq":1,"operation":"kernel.pays"}',
]


@pytest.mark.parametrize("line", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_line_gets_one_answer_and_the_door_stays_open(line):
    first, second = asked([line, request("kernel.pays", PAYS, 7)])
    assert first["error"]["code"] == "malformed-request"
    assert first["kind"] == "result"
    assert second == {"kind": "result", "seq": 7, "output": True}


WRONG = [
    ("kernel.pays", None),
    ("kernel.pays", []),
    ("kernel.pays", {}),
    ("kernel.pays", {**PAYS, "tail": "3000"}),
    ("kernel.pays", {**PAYS, "tail": True}),
    ("kernel.pays", {**PAYS, "tail": None}),
    ("kernel.pays", {**PAYS, "tail": 0.5}),
    ("kernel.pays", {**PAYS, "tial": 1}),
    ("kernel.project", {"journal": {}}),
    ("kernel.drop_suffix", {"messages": [], "large": "c1"}),
    ("kernel.drop_suffix", {"messages": [], "large": [1]}),
    ("kernel.drop_suffix", {"messages": {}, "large": []}),
    ("kernel.measure", {"messages": [5]}),
    ("kernel.measure", {"messages": [{"kind": "head", "role": "user", "parts": []}]}),
    ("kernel.measure", {"messages": [{"role": "user", "parts": []}]}),
    ("kernel.measure", {"messages": [{"kind": "message", "role": "user", "parts": [7]}]}),
    ("kernel.measure", {"messages": [{"kind": "message", "role": "user"}]}),
    ("kernel.measure", {"messages": [{"kind": "message", "role": "user", "parts": [], "x": 1}]}),
    ("kernel.measure", {"messages": [{"kind": "message", "role": "user", "parts": 5}]}),
    ("kernel.measure", {"messages": [{"kind": "message", "role": "user", "parts": [{"kind": 1}]}]}),
    ("kernel.select", {"journal": [], "budget": 9, "noticeLength": 10**12}),
    ("memory.prune_messages", {"candidates": [], "messages": [1]}),
]


@pytest.mark.parametrize(("operation", "given"), WRONG)
def test_input_of_the_wrong_shape_gets_one_answer(operation, given):
    first, second = asked([request(operation, given), request("kernel.pays", PAYS, 7)])
    assert first["error"]["code"] == "invalid-input"
    assert second["output"] is True


HOSTILE = (
    None,
    True,
    -1,
    10**30,
    0.5,
    "",
    "x",
    "\ud800",
    [],
    [None],
    {},
    {"kind": "x"},
    [[]],
    [{}],
)


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_whatever_a_member_holds_the_answer_is_an_output_or_a_code(operation):
    for vector in load([VECTORS]):
        if vector.operation != operation or vector.error:
            continue
        for name in vector.input:
            for value in HOSTILE:
                given = door.result(operation, {**vector.input, name: value})
                assert given.keys() in ({"output"}, {"error"})
                code = given.get("error", {}).get("code", "fine")
                assert code != "internal-error", (name, value, given)
                assert code in CODES


CODES = {"fine", "invalid-input", "INVALID_TRIM_TARGET", "INVALID_MODEL_CONTEXT"}
CODES |= {"INVALID_TOKEN_BUDGET", "error", *ctxalgebra.CODES}
CODES |= {code.replace("-", "_").upper() for code in ctxalgebra.CODES}
CODES |= {"INVALID_HISTORY_NAVIGATOR_INPUT", "UNKNOWN_HISTORY_ANCHOR", "UNKNOWN_HISTORY_ID"}
CODES |= {"ORPHAN_TOOL_RESULT", "DUPLICATE_TOOL_RESULT", "MISMATCHED_TOOL_RESULT"}
CODES |= {"INCOMPLETE_TOOL_RESULTS"}
CODES |= {"reserved_name", "duplicate_name", "label_displaces_existing", "empty_session"}
CODES |= {"target_not_found", "no_protocol_complete_checkpoint_target", "invalid_params"}
CODES |= {"invalid_handoff", "mixed_tool_batch", "no_active_leaf", "already_at_target"}
CODES |= {"malformed_capability", "branch_failed", "backup_label_failed", "zero_distance_travel"}
CODES |= {"no_protocol_complete_backup_target", "duplicate_backup_name", "reserved_backup_name"}


def test_unknown_operations():
    unknown, hostile = asked([request("nobody.knows", {}), request("x" * 100_000, {})])
    assert unknown["error"]["code"] == hostile["error"]["code"] == "unknown-operation"
    assert len(hostile["error"]["reason"]) == 200


def test_a_lone_surrogate_comes_back_as_an_escape():
    out = io.BytesIO()
    serve(io.BytesIO(b'{"kind":"run","seq":1,"operation":"\\ud800","input":{}}\n'), out)
    assert out.getvalue().isascii()
    assert b"\\\\ud800" in out.getvalue()
    journal = [{"kind": "message", "role": "user", "parts": [{"kind": "text", "text": "\ud800"}]}]
    assert codes(asked([request("kernel.project", {"journal": journal})])) == ["lone-surrogate"]


def test_refusals_of_the_library_carry_code_and_place():
    journal = [{"kind": "sent"}]
    (given,) = asked([request("kernel.project", {"journal": journal})])
    assert given["error"]["code"] == "empty-request"
    assert given["error"]["entry"] == 0


def test_an_operation_that_fails_is_an_internal_error(monkeypatch):
    def fails(**_: object) -> int:
        raise RuntimeError("oh")

    def endless(**_: object) -> float:
        return math.inf

    def strays(**_: object) -> str:
        raise Refusal("too-far", at=3)

    monkeypatch.setattr(door, "OPERATIONS", collect("x", fails, endless, strays))
    answers = asked([request(f"x.{name}", {}) for name in ("fails", "endless", "strays")])
    assert codes(answers) == ["internal-error", "internal-error", "too-far"]
    assert answers[0]["error"]["reason"] == "RuntimeError: oh"
    assert answers[2]["error"]["at"] == 3


def test_start_says_who_answers_and_stop_ends():
    ready, *rest = asked([b'{"kind":"start","spec":1}', b'{"kind":"stop"}', b"never read"])
    assert rest == []
    assert ready.pop("operations") == sorted(OPERATIONS)
    assert ready == {
        "kind": "ready",
        "spec": 1,
        "implementation": "ctxalgebra",
        "version": ctxalgebra.__version__,
        "language": "python",
    }


def test_lines_end_at_lf_only_and_the_last_one_needs_none():
    text = "a\u2028b\u0085c\rd"
    line = json.dumps({"kind": "run", "seq": 1, "operation": text, "input": {}}, ensure_ascii=False)
    out = io.BytesIO()
    serve(io.BytesIO(line.encode() + b"\r\n" + request("kernel.pays", PAYS)), out)
    assert codes(map(json.loads, out.getvalue().splitlines())) == ["unknown-operation", None]


class Counting(io.BytesIO):
    """Remembers the longest read."""

    longest = 0

    def readline(self, size=-1, /):
        line = super().readline(size)
        self.longest = max(self.longest, len(line))
        return line


def test_of_a_line_that_is_too_long_no_more_is_held_than_the_limit():
    source = Counting(b"[" * 1_000_000 + b"\n" + request("kernel.pays", PAYS) + b"\n" + b"1" * 900)
    out = io.BytesIO()
    serve(source, out, limit=500)
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert codes(answers) == ["malformed-request", None, "malformed-request"]
    assert source.longest == door._CHUNK


def test_the_limit_is_exact():
    line = request("kernel.pays", PAYS)
    assert codes([answer(line, limit=len(line))]) == [None]
    assert codes([answer(line, limit=len(line) - 1)]) == ["malformed-request"]


def test_shorthands_of_a_request_are_expanded():
    text = {"$concat": [{"$repeat": ["ab", 3]}, "c"]}
    message = {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
    assert asked([request("kernel.measure", {"messages": [message]})])[0]["output"] == [2]
    two = {"a": {"$repeat": ["x", 60]}, "b": {"$repeat": ["x", 60]}}
    with pytest.raises(DecodeError) as caught:
        read(write(two), limit=100, shorthand=True)
    assert caught.value.code == "line-too-long"
    assert read(write(two)) == two


FRAGMENTS = st.sampled_from(
    [
        b'{"kind":"run","seq":1,"operation":"', b'"input":', b'{"journal":[', b'{"messages":[',
        b'"kernel.project",', b"NaN", b'"\\ud800"', b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\",
        b'{"$repeat":["x",9]}', b'{"kind":"message","role":"user","parts":[]}', b"1e999", b"-0.0",
    ]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["messages", "kind", "role", "parts", "call"]), inner),
    max_leaves=12,
)  # fmt: skip


def check_answer(given):
    assert given is None or given["kind"] in ("result", "ready")
    if given is not None:
        assert given["kind"] == "ready" or len(given.keys() & {"output", "error", "skipped"}) == 1
        assert given.get("error", {}).get("code") != "internal-error"
        line = write(given)
        assert line.isascii()
        assert line.count(b"\n") == 1


@given(st.binary() | st.lists(FRAGMENTS, max_size=12).map(b"".join))
def test_any_bytes_get_one_answer(line):
    check_answer(answer(line))


@given(st.sampled_from(sorted(OPERATIONS)), st.dictionaries(st.text(), JSON, max_size=3), st.data())
def test_any_input_gets_one_answer(operation, more, data):
    members = inspect.signature(OPERATIONS[operation]).parameters
    names = [re.sub(r"_(\w)", lambda found: found[1].upper(), name) for name in members]
    value = {**{name: data.draw(JSON, name) for name in names}, **more}
    check_answer(answer(request(operation, value)))


@given(JSON, JSON)
def test_equality_is_reflexive_and_symmetric_and_survives_the_wire(a, b):
    assert difference(a, a) == ""
    assert bool(difference(a, b)) == bool(difference(b, a))
    assert difference(a, read(write(a))) == ""


# Values and their equality


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        (1, 1.0),
        (0.1 + 0.2, 0.3),
        (1e300, 1e300 * (1 + 1e-12)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([], []),
        (None, None),
        ("\ud800", "\ud800"),
        ([[{"a": [None, True]}]], [[{"a": [None, True]}]]),
    ],
)
def test_equal_values(expected, given):
    assert difference(expected, given) == ""


@pytest.mark.parametrize(
    ("expected", "given", "told"),
    [
        (1, True, "$: expected 1, got true"),
        (0, False, "$: expected 0, got false"),
        (1, "1", '$: expected 1, got "1"'),
        (0, None, "$: expected 0, got null"),
        (10**20, 10**20 + 1, f"$: expected {10**20}, got {10**20 + 1}"),
        (0.3, 0.3000001, "$: expected 0.3, got 0.3000001"),
        (0.5, 10**400, f"$: expected 0.5, got 1{'0' * 59}... (401 characters)"),
        ("é", "e\u0301", r'$: expected "\u00e9", got "e\u0301"'),
        ([1], [1, 2], "$: expected 1 items, got 2"),
        ({"a": 1}, {"a": 1, "b": 2}, '$: has "b", which is not expected'),
        ({"a": None}, {}, '$: lacks "a"'),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "$.a[1].b: expected 2, got 3"),
        ([1, 2, 3], [1, 5, 6], "$[1]: expected 2, got 5"),
        ({}, [], "$: expected an object, got a list"),
        ([], None, "$: expected a list, got null"),
    ],
)
def test_different_values(expected, given, told):
    assert difference(expected, given) == told


def test_deep_values_are_compared_without_recursion():
    deep = shallow = 1
    for _ in range(100_000):
        deep, shallow = [deep], [shallow]
    try:
        assert difference(deep, shallow) == ""
    finally:
        while isinstance(deep, list):
            deep, shallow = deep.pop(), shallow.pop()


def test_numbers_are_those_of_json():
    assert read(b"[1.0,1e3,-0.0,0.5,9007199254740993,1e17]") == [1, 1000, 0, 0.5, 2**53 + 1, 1e17]
    assert [type(n) for n in read(b"[1.0,1e17,9007199254740993]")] == [int, float, int]


def test_brackets_inside_of_texts_are_no_depth():
    assert read(b'["' + b"[{" * 1000 + b'"]') == ["[{" * 1000]
    assert read(b"[" + b",".join([b"[]"] * 1000) + b"]") == [[]] * 1000
    with pytest.raises(DecodeError) as caught:
        read(b'"' + b"[" * 1000)
    assert caught.value.code == "invalid-json"


def test_the_limit_of_depth_is_exact():
    assert read(b"[" * 500 + b"]" * 500)
    with pytest.raises(DecodeError) as caught:
        read(b"[" * 501 + b"]" * 501)
    assert caught.value.code == "too-deep"


def test_types_of_members():
    def takes(*, number: float, names: dict[str, list[int]], maybe: str | None = "d") -> object:
        return [number, names, maybe]

    given = {"number": 0.5, "names": {"a": [1]}}
    assert call(takes, given) == [0.5, {"a": [1]}, "d"]
    assert call(takes, {**given, "number": 1, "maybe": None}) == [1, {"a": [1]}, None]
    for name, value in (
        ("number", "1"),
        ("number", True),
        ("names", []),
        ("names", {"a": 1}),
        ("names", {"a": ["1"]}),
        ("maybe", 1),
    ):
        with pytest.raises(InvalidInput, match=rf"^input\.{name}"):
            call(takes, {**given, name: value})

    def exactly(*, text: str) -> str:
        return text

    with pytest.raises(InvalidInput):
        call(exactly, {"text": None})


# Reading vectors

GOOD = {"id": "a", "operation": "kernel.pays", "input": PAYS, "output": True}


def written(path, *rows):
    path.write_bytes(b"".join(row if isinstance(row, bytes) else write(row) for row in rows))
    return path


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (b"\n", "invalid-json"),
        (b"{\n", "invalid-json"),
        (b"\xff\n", "invalid-utf8"),
        (b"NaN\n", "invalid-number"),
        ([], "wrong-type"),
        ({**GOOD, "id": 5}, "wrong-type"),
        ({**GOOD, "id": ""}, "wrong-type"),
        ({**GOOD, "operation": None}, "wrong-type"),
        ({**GOOD, "flags": "fault:W1"}, "wrong-type"),
        ({**GOOD, "flags": [1]}, "wrong-type"),
        ({**GOOD, "error": {"code": "x"}}, "extra-field"),
        ({"id": "b", "operation": "o", "input": 1}, "missing-field"),
        ({"id": "b", "operation": "o", "output": 1}, "missing-field"),
        ({"id": "b", "operation": "o", "input": 1, "error": {}}, "wrong-type"),
        ({"id": "b", "operation": "o", "input": 1, "error": {"code": ""}}, "wrong-type"),
        ({"id": "b", "operation": "o", "input": {"$repeat": 1}, "output": 1}, "wrong-type"),
        (GOOD, "duplicate-id"),
    ],
)
def test_a_line_that_is_no_vector_is_refused_with_its_place(tmp_path, row, code):
    file = written(tmp_path / "v.jsonl", GOOD, row)
    with pytest.raises(DecodeError) as caught:
        list(load([file]))
    assert (caught.value.code, caught.value.file, caught.value.line) == (code, str(file), 2)


def test_files_that_hold_nothing_or_are_not_there(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "none.jsonl").touch()
    for place, code in (
        (tmp_path / "empty", "empty-file"),
        (tmp_path / "none.jsonl", "empty-file"),
        (tmp_path / "absent.jsonl", "unreadable"),
        ("nul\0", "unreadable"),
    ):
        with pytest.raises(DecodeError) as caught:
            list(load([place]))
        assert caught.value.code == code


def test_vectors_are_read_one_by_one_and_a_long_line_is_not_held(tmp_path):
    file = written(tmp_path / "v.jsonl", GOOD, b"[" * 10_000)
    vectors = load([file], limit=1000)
    assert next(vectors).output is True
    with pytest.raises(DecodeError) as caught:
        next(vectors)
    assert caught.value.code == "line-too-long"


def test_of_a_vector_that_is_too_long_no_more_is_held_than_the_limit(tmp_path, monkeypatch):
    file = written(tmp_path / "v.jsonl", b"[" * 1_000_000)
    source = Counting(file.read_bytes())
    monkeypatch.setattr(Path, "open", lambda path, mode: source)
    with pytest.raises(DecodeError):
        list(load([file], limit=1000))
    assert source.longest == 1001


def test_folders_are_read_in_the_order_of_names(tmp_path):
    for name in ("b", "a/c", "a/b"):
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        written(path, {**GOOD, "id": name})
    (tmp_path / "note.txt").write_text("no vector")
    assert [v.id for v in load([tmp_path])] == ["a/b", "a/c", "b"]


def test_errors_are_compared_by_code():
    wants = Vector("a", "o", {}, error="too-far")
    assert judge(wants, {"error": {"code": "too-far", "message": "whatever"}}) == ""
    assert judge(wants, {"error": {"code": "other"}}) == (
        "expected the error too-far, got the error other"
    )
    assert judge(wants, {"output": None}) == "expected the error too-far, got an output"
    assert judge(wants, {"error": "too-far"}).endswith("got the error without a code")
    assert judge(Vector("a", "o", {}, output=None), {"error": {"code": "x"}}) == "got the error x"


def test_flags_and_reasons_excuse_what_differs_and_nothing_else():
    def answers(operation, value, /):
        return {"a": {"output": 1}, "s": {"skipped": 5}, "b": "the port hangs"}[operation]

    rows = [
        Vector("1", "a", {}, output=1),
        Vector("2", "a", {}, output=2),
        Vector("3", "a", {}, output=2, flags=("fault:W1", "js:x")),
        Vector("4", "a", {}, output=2),
        Vector("5", "a", {}, output=1, flags=("fault:W1",)),
        Vector("6", "s", {}, output=1, flags=("fault:W1",)),
        Vector("7", "b", {}, output=1, flags=("fault:W1",)),
    ]
    outcomes = list(run(rows, answers, reasons={"4": "integers", "1": "stale"}))
    assert [o.state for o in outcomes] == [
        "passed", "failed", "differs", "differs", "passed", "unsupported", "broken",
    ]  # fmt: skip
    assert outcomes[2].why == "fault:W1, js:x; $: expected 2, got 1"
    assert outcomes[3].why == "integers; $: expected 2, got 1"
    assert outcomes[5].why == "5"
    assert {o.state for o in outcomes} == set(STATES)
    (long,) = run([Vector("8", "b", {}, output=1)], lambda operation, value: "x" * 9999)
    assert len(long.why) == 500


# Ports

PORT = """
import json, os, subprocess, sys, time
def say(value):
    sys.stdout.write(json.dumps(value) + "\\n")
    sys.stdout.flush()
READY = {"kind": "ready", "spec": 1, "implementation": "tiny", "operations": ["kernel.pays"]}
for line in sys.stdin:
    asked = json.loads(line)
    if asked["kind"] == "start":
        say(READY)
    elif asked["kind"] == "stop":
        break
    else:
        seq = asked["seq"]
        right = {"kind": "result", "seq": seq, "output": True}
        bad = asked["input"]["horizon"] == 13
        if bad:
            MISDEED
        else:
            say(right)
"""


def script(misdeed="say(right)", **changes):
    text = PORT.replace("MISDEED", misdeed)
    for old, new in changes.items():
        text = text.replace(old, new)
    return [sys.executable, "-c", text]


GOOD_ONE, BAD_ONE = PAYS, {**PAYS, "horizon": 13}
VECTOR = Vector("good", "kernel.pays", GOOD_ONE, output=True)
EVIL = Vector("evil", "kernel.pays", BAD_ONE, output=True)


@pytest.fixture
def driven():
    ports = []

    def start(argv, timeout=5.0):
        ports.append(Driven(argv, timeout=timeout))
        return ports[-1]

    yield start
    for one in ports:
        one.close()


@pytest.mark.parametrize(
    ("misdeed", "how"),
    [
        ("sys.exit(3)", "the port ended with code 3"),
        ("os.kill(os.getpid(), 9)", "the port ended with code -9"),
        ("os._exit(0)", "the port ended with code 0"),
        ("os.close(1); time.sleep(60)", "the port closed its output"),
        ("print('oops', flush=True)", "the port wrote what is no answer: invalid-json"),
        ("print('[1]', flush=True)", "the port wrote what is no answer: not an object"),
        ("print(flush=True)", "the port wrote what is no answer: invalid-json"),
        ("print('{', end='', flush=True); sys.exit()", "the port wrote what is no answer"),
        ("sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()", "invalid-utf8"),
        ("say({**right, 'output': float('nan')})", "invalid-number"),
        ("print('[' * 100000, flush=True)", "too-deep"),
        ("while True: print('[' * 1_000_000, end='')", "line-too-long"),
        ("say({**right, 'seq': seq + 1})", "the port answered seq 3 instead of 2"),
        ("say({**right, 'seq': True})", "the port answered seq True instead of 2"),
        ("say({**right, 'seq': 'x' * 1000})", f"the port answered seq {'x' * 40} instead"),
        ("say({'kind': 'result', 'seq': seq})", "not exactly one of output, error and skipped"),
        ("say({**right, 'skipped': 'no'})", "not exactly one of output, error and skipped"),
        ("say({**right, 'kind': 'ready'})", "the port answered with another kind than result"),
    ],
)
def test_a_port_that_misbehaves_is_reported_and_started_again(driven, misdeed, how):
    rows = [VECTOR, EVIL, Vector("after", "kernel.pays", GOOD_ONE, output=True)]
    outcomes = list(run(rows, driven(script(misdeed), timeout=30)))
    assert [o.state for o in outcomes] == ["passed", "broken", "passed"]
    assert how in outcomes[1].why


@pytest.mark.parametrize(
    "misdeed",
    [
        "time.sleep(60)",
        "sys.stdout.write('{'); sys.stdout.flush(); time.sleep(60)",
        # What it started holds its output, and ends with it.
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); os._exit(0)",
    ],
)
def test_a_port_that_hangs_is_ended_when_its_time_is_up(driven, misdeed):
    outcomes = list(run([EVIL, VECTOR], driven(script(misdeed), timeout=4)))
    assert [o.state for o in outcomes] == ["broken", "passed"]
    assert outcomes[0].why == "the port gave no answer within 4 s"


def test_a_port_that_answers_twice_is_found_out_at_the_next_question(driven):
    rows = [EVIL, VECTOR, Vector("after", "kernel.pays", GOOD_ONE, output=True)]
    outcomes = list(run(rows, driven(script("say(right); say(right)"))))
    assert [o.state for o in outcomes] == ["passed", "broken", "passed"]
    assert outcomes[1].why == "the port answered seq 1 instead of 2"


def test_a_port_that_reads_nothing_can_not_hold_the_runner(driven):
    text = "x" * 1_000_000
    deaf = script("say(right); time.sleep(60)")
    rows = [EVIL, Vector("long", "kernel.pays", {**GOOD_ONE, "text": text}, output=True)]
    outcomes = list(run(rows, driven(deaf, timeout=4)))
    assert [o.state for o in outcomes] == ["passed", "broken"]


def test_after_many_breakdowns_a_port_is_not_asked_any_more(driven):
    started = Counter()
    many = [Vector(str(n), "kernel.pays", BAD_ONE, output=True) for n in range(MOST + 3)]
    port_ = driven(script("sys.exit(1)"))
    outcomes = list(run(many, port_))
    started.update(o.why for o in outcomes)
    assert started["the port ended with code 1"] == MOST
    assert started[f"not asked: the port broke down {MOST} times"] == 3


def test_a_port_that_can_not_be_started_again_is_broken(driven, tmp_path):
    once = f"""
import os, sys
if os.path.exists({str(tmp_path / "been")!r}): sys.exit(4)
open({str(tmp_path / "been")!r}, "w").close()
"""
    argv = script("sys.exit(3)")
    argv[-1] = once + argv[-1]
    outcomes = list(run([EVIL, VECTOR], driven(argv)))
    assert [o.why for o in outcomes] == ["the port ended with code 3", "the port ended with code 4"]


def test_true_is_no_number_of_a_request():
    one = Port(script("say({**right, 'seq': True})"), timeout=5)
    with pytest.raises(Broken, match="answered seq True instead of 1"):
        one.ask("kernel.pays", BAD_ONE)


def test_what_a_port_does_not_list_is_not_asked(driven):
    asks = driven(script("sys.exit(1)"))
    assert asks.name == "tiny"
    assert asks("kernel.select", BAD_ONE) == {"skipped": "not among the operations of the port"}


@pytest.mark.parametrize(
    "ready",
    [
        '{"kind": "result"}',
        '{"kind": "ready", "spec": 2, "operations": []}',
        '{"kind": "ready", "spec": 1}',
        '{"kind": "ready", "spec": 1, "operations": [1]}',
        '{"kind": "ready", "spec": 1, "operations": "kernel.pays"}',
    ],
)
def test_a_port_that_is_not_ready_is_refused(ready):
    argv = script(**{"say(READY)": f"say({ready})"})
    with pytest.raises(InvalidArgument, match="did not say ready") as caught:
        Driven(argv)
    assert caught.value.field == "command"
    with pytest.raises(Broken):
        Port(argv, timeout=5)


def test_a_port_may_be_nameless(driven):
    assert driven(script(**{'"implementation": "tiny", ': ""})).name == "a port"


@pytest.mark.parametrize("argv", [["/nowhere/port"], ["a\0b"], [str(ROOT)]])
def test_a_command_that_can_not_be_started(argv):
    with pytest.raises(InvalidArgument, match="can't start") as caught:
        Driven(argv)
    assert caught.value.code == "invalid-argument"


def gone(number):
    """Wait for a process to be gone."""
    for _ in range(200):
        try:
            os.kill(number, 0)
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_closing_ends_a_port_that_does_not_stop(tmp_path, monkeypatch):
    monkeypatch.setattr(port, "_GRACE", 0.2)
    note = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    for number, stubborn in enumerate(("time.sleep(60)", "os.close(1); time.sleep(60)")):
        argv = script(**{"break": f"{note}; {stubborn}"})
        one = Port(argv, timeout=5)
        assert one.ask("kernel.pays", GOOD_ONE)["output"] is True
        if number:
            # Where there are no groups of processes, the port itself is ended.
            monkeypatch.delattr(os, "killpg")
        one.close()
        assert one._process.returncode == -signal.SIGKILL
        assert gone(int((tmp_path / "pid").read_text()))


def test_what_a_port_started_ends_with_it(tmp_path):
    note = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))"
    child = "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    asks = Driven(script(f"{child}; {note}; time.sleep(60)"), timeout=4)
    assert "no answer" in asks("kernel.pays", BAD_ONE)
    assert gone(int((tmp_path / "pid").read_text()))
    asks.close()


# Reports

OUTCOMES = [
    Outcome("a\x1b[31m", "kernel.pays", "failed", "expected \x00 \ud800 <&>\u202e", "f.jsonl", 3),
    Outcome("b", "kernel.pays", "passed"),
    Outcome("c", "kernel.select", "differs", "fault:W1"),
    Outcome("d", "paging.session", "unsupported", "not there"),
    Outcome("e", "paging.session", "broken", "hangs"),
]


def test_junit_holds_every_case_and_is_well_formed():
    root = ET.fromstring(as_junit("tiny \x1b", OUTCOMES))
    assert root.get("name") == "tiny \\u001b"
    suites = [
        (s.get("name"), s.get("tests"), s.get("failures"), s.get("errors"), s.get("skipped"))
        for s in root
    ]
    assert suites == [("kernel", "3", "1", "0", "1"), ("paging", "2", "0", "1", "1")]
    cases = {c.get("name"): [(e.tag, e.get("message")) for e in c] for c in root.iter("testcase")}
    assert cases == {
        "a\\u001b[31m": [("failure", "failed: expected \\u0000 \\ud800 <&>\u202e")],
        "b": [],
        "c": [("skipped", "differs: fault:W1")],
        "d": [("skipped", "unsupported: not there")],
        "e": [("error", "broken: hangs")],
    }


def test_the_object_counts_and_lists_what_did_not_pass():
    told = as_object("tiny", OUTCOMES)
    json.dumps(told)
    assert [told[state] for state in STATES] == [1, 1, 1, 1, 1]
    assert told["total"] == 5
    assert told["operations"]["kernel.pays"]["failed"] == 1
    assert [case["id"] for case in told["cases"]] == ["a\x1b[31m", "c", "d", "e"]


# The command line


def test_run_prints_a_table_and_says_how_it_went(capsys):
    assert main(["conformance", "run", str(VECTORS)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"ctxalgebra: {TOTAL:,} vectors\n")
    assert re.search(r"^kernel +151 +0 +0 +0 +0$", out, re.MULTILINE)
    assert (
        main(
            ["conformance", "run", str(VECTORS), "--only", "paging.", "--only", "memory.", "--json"]
        )
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    some = sum(count for name, count in AREAS.items() if name.startswith(("paging", "memory")))
    assert (told["total"], told["passed"], told["cases"]) == (some, some, [])


def failing(tmp_path, rows=25):
    file = tmp_path / "v\x1b.jsonl"
    wrong = {**GOOD, "output": "\x1b[31m"}
    return written(file, *({**wrong, "id": f"x{n}"} for n in range(rows)))


def test_what_fails_is_listed_escaped_and_ends_with_one(tmp_path, capsys):
    file = failing(tmp_path)
    assert main(["conformance", "run", str(file)]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.count("failed: x") == command.SHOWN
    assert out.endswith("... and 5 more; --all lists them\n")
    assert main(["conformance", "run", str(file), "--all"]) == 1
    assert capsys.readouterr().out.count("failed: x") == 25


def test_all_lists_what_differs(tmp_path, capsys):
    file = failing(tmp_path, 1)
    why = tmp_path / "why.json"
    why.write_text('{"x0": "we know"}')
    assert main(["conformance", "run", str(file), "--reasons", str(why), "--all"]) == 0
    assert "differs: x0 kernel.pays" in capsys.readouterr().out
    assert main(["conformance", "run", str(file), "--reasons", str(why)]) == 0
    assert "x0" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[]", "wrong-type"),
        ('{"a": 1}', "wrong-type"),
        ("{", "invalid-json"),
        (None, "unreadable"),
    ],
)
def test_reasons_that_are_none(tmp_path, capsys, text, code):
    why = tmp_path / "why.json"
    if text is not None:
        why.write_text(text)
    assert main(["conformance", "run", str(VECTORS), "--reasons", str(why)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {code}: ")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((str(VECTORS), "--", sys.executable, "-c", ""), "invalid-argument"),
        ((str(VECTORS), "--", "/nowhere/port"), "invalid-argument"),
        ((str(VECTORS), "--only", "nothing."), "invalid-argument"),
        (("/nowhere.jsonl",), "unreadable"),
    ],
)
def test_a_run_that_could_not_begin_writes_its_report(tmp_path, capsys, arguments, code):
    target = tmp_path / "report.xml"
    target.write_text("of an earlier run")
    assert main(["conformance", "run", "--junit", str(target), *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {code}: ")
    (case,) = ET.parse(target).iter("testcase")
    assert case.get("classname") == "conformance.run"
    (error,) = case.iter("error")
    assert error.get("message", "").startswith(f"broken: {code}: ")


def test_junit_goes_to_a_file(tmp_path, capsys):
    target = tmp_path / "report.xml"
    assert main(["conformance", "run", str(VECTORS), "--junit", str(target)]) == 0
    assert sum(1 for _ in ET.parse(target).iter("testcase")) == TOTAL
    assert main(["conformance", "run", str(VECTORS), "--junit", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("error: unwritable: ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["/nowhere.jsonl"],
        [str(VECTORS), "--only", "nothing."],
        [str(VECTORS), "--timeout", "0"],
        [str(VECTORS), "--timeout", "nan"],
        [str(VECTORS), "--timeout", "inf"],
        [str(VECTORS), "--"],
        [str(VECTORS), "--", "/nowhere/port"],
        ["--", "/nowhere/port"],
    ],
)
def test_bad_arguments_get_one_line_and_two(arguments, capsys):
    assert main(["conformance", "run", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_port_is_driven_from_the_command_line(tmp_path, capsys):
    file = written(
        tmp_path / "v.jsonl",
        GOOD,
        {**GOOD, "id": "evil", "input": BAD_ONE},
        {**GOOD, "id": "more", "operation": "kernel.select"},
    )
    argv = ["conformance", "run", str(file), "--json", "--timeout", "30", "--"]
    assert main([*argv, *script("print('\\x1b[31m', flush=True)")]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["implementation"] == "tiny"
    assert {state: told[state] for state in STATES} == {
        "passed": 1, "failed": 0, "differs": 0, "unsupported": 1, "broken": 1,
    }  # fmt: skip


def door_command():
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return [sys.executable, "-m", "ctxalgebra.conformance", "serve"], env


def test_the_library_passes_its_vectors_through_its_own_door(monkeypatch):
    argv, env = door_command()
    monkeypatch.setenv("PYTHONPATH", env["PYTHONPATH"])
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    asks = Driven(argv, timeout=30)
    outcomes = list(run(load([VECTORS]), asks))
    asks.close()
    assert count(outcomes) == {**dict.fromkeys(STATES, 0), "passed": TOTAL}
    assert asks.name == f"ctxalgebra {ctxalgebra.__version__}"
    assert asks._port._process.returncode == 0


def test_serve_ends_quietly_when_nobody_listens():
    argv, env = door_command()
    with subprocess.Popen(
        argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(b'{"kind":"start","spec":1}\n')
        process.stdin.flush()
        assert process.stdout.readline().startswith(b'{"kind":"ready"')
        process.stdout.close()
        _, told = process.communicate(request("kernel.pays", PAYS) + b"\n")
    assert told == b""
    assert process.returncode == 0


class Standard:
    def __init__(self, data=b"", target=None):
        self.buffer = io.BytesIO(data) if target is None else target

    def close(self):
        self.buffer.close()


class Deaf(io.BytesIO):
    def flush(self):
        raise BrokenPipeError


def test_serve_answers_on_the_standard_output(monkeypatch):
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", Standard(request("kernel.pays", PAYS)))
    monkeypatch.setattr(sys, "stdout", Standard(target=out))
    assert main(["conformance", "serve"]) == 0
    assert json.loads(out.getvalue()) == {"kind": "result", "seq": 1, "output": True}


def test_serve_without_an_input_or_a_reader(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["conformance", "serve"]) == 0
    monkeypatch.setattr(sys, "stdin", Standard(request("kernel.pays", PAYS)))
    monkeypatch.setattr(sys, "stdout", Standard(target=Deaf()))
    assert main(["conformance", "serve"]) == 0
    assert capsys.readouterr().err == ""


def test_the_module_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["conformance", "run", str(VECTORS / "paging.jsonl")])
    with pytest.raises(SystemExit) as caught:
        runpy.run_module("ctxalgebra.conformance", run_name="__main__")
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("ctxalgebra: 9 vectors")
    runpy.run_module("ctxalgebra.conformance.__main__", run_name="imported")
    assert capsys.readouterr().out == ""


# The page for porters


def test_the_page_names_the_operations_of_a_port_and_their_members():
    rows = re.findall(r"^\| `(kernel\.\w+)` \| ([^|]*) \|", HOW_TO.read_text("utf-8"), re.MULTILINE)
    told = {name: re.sub(r" \([^)]*\)", "", members).split(", ") for name, members in rows}
    known = {}
    for name, operation in {**kernel.OPERATIONS, **resident.OPERATIONS}.items():
        members = inspect.signature(operation).parameters.values()
        known[name] = {
            re.sub(r"_(\w)", lambda found: found[1].upper(), member.name)
            + "?" * (member.default is not member.empty)
            for member in members
        }
    assert {name: set(members) for name, members in told.items()} == known
    assert len(rows) == len(told)


def test_the_page_tells_the_options_and_the_states():
    text = HOW_TO.read_text("utf-8")
    options = [o.opts[0] for o in command.run.params if o.opts[0].startswith("--")]
    assert [name for name in options if f"`{name}" not in text] == []
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(STATES)


def test_the_harness_of_the_page_is_a_port(tmp_path):
    (text,) = re.findall(
        r"^```python\n(import json.*?)^```$", HOW_TO.read_text("utf-8"), re.M | re.S
    )
    harness = tmp_path / "harness.py"
    harness.write_text(text)
    asks = Driven([sys.executable, str(harness)], timeout=30)
    outcomes = list(run(load([VECTORS]), asks))
    asks.close()
    assert {o.operation for o in outcomes if o.state == "passed"} == {"kernel.pays"}
    assert bad(outcomes) == []
