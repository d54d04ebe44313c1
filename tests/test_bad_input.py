"""Malformed files: one error with its code and place, or a repair, and never another exception."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ctxalgebra import (
    CODES,
    DecodeError,
    Head,
    Image,
    Reply,
    Route,
    Sent,
    Session,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Usage,
    assistant,
    record,
    tool_result,
    user,
)
from ctxalgebra.codecs import CODECS, load
from ctxalgebra.codecs.lines import LIMIT, MAX_DEPTH
from ctxalgebra.protocol import DEFECTS

DEEP = "[" * 10_000 + "]" * 10_000
SURROGATE = "\\ud800"


def line_of(name, number, content='"x"', *, parent=None, key=None, extra=""):
    """Give a line of the format with a user message in it; content and extra are JSON text."""
    match name:
        case "pi":
            above = json.dumps(parent)
            own = json.dumps(f"e{number}" if key is None else key)
            return (
                f'{{"type":"message","id":{own},"parentId":{above},'
                f'"message":{{"role":"user","content":{content}}}{extra}}}'
            )
        case "claude-code":
            above = json.dumps(parent)
            own = json.dumps(f"e{number}" if key is None else key)
            return (
                f'{{"parentUuid":{above},"type":"user","uuid":{own},'
                f'"message":{{"role":"user","content":{content}}}{extra}}}'
            )
        case "openai-chat":
            return f'{{"role":"user","content":{content}{extra}}}'
        case _:
            part = f'{{"kind":"text","text":{content}}}'
            return f'{{"kind":"message","role":"user","parts":[{part}]{extra}}}'


HEADERS = {
    "claude-code": '{"type":"summary","leafUuid":"s"}',
    "pi": '{"type":"session","version":3,"id":"s"}',
    "openai-chat": '{"_type":"metadata"}',
    "journal": '{"kind":"journal","spec":1}',
}
NAMES = sorted(HEADERS)
HOSTS = ["claude-code", "openai-chat", "pi"]


def decode(name, *lines, end="\n", **options):
    data = ("\n".join([HEADERS[name], *lines]) + end).encode()
    return CODECS[name].decode(data, file="f", **options)


def error(name, *lines, **options):
    with pytest.raises(DecodeError) as caught:
        decode(name, *lines, **options)
    found = caught.value
    assert found.code in CODES
    assert found.file == "f"
    assert str(found).isprintable()
    return found


WRONG = {
    "lone-surrogate": f'"{SURROGATE}"',
    "invalid-number": "NaN",
    "too-deep": DEEP,
}
FIELDS = {
    ("claude-code", "lone-surrogate"): "message.content",
    ("claude-code", "invalid-number"): "message.content",
    ("claude-code", "too-deep"): "message",
    ("journal", "lone-surrogate"): "parts[0].text",
    ("journal", "invalid-number"): "parts[0].text",
    ("journal", "too-deep"): "parts",
    ("pi", "lone-surrogate"): "message.content",
    ("pi", "invalid-number"): "message.content",
    ("pi", "too-deep"): "message",
    ("openai-chat", "lone-surrogate"): "content",
    ("openai-chat", "invalid-number"): "content",
    ("openai-chat", "too-deep"): "content",
}


@pytest.mark.parametrize("code", WRONG)
@pytest.mark.parametrize("name", NAMES)
def test_a_file_in_which_nothing_can_be_read_is_one_error(name, code):
    found = error(name, line_of(name, 0, WRONG[code]))
    assert (found.code, found.line, found.field) == (code, 2, FIELDS[name, code])


@pytest.mark.parametrize("code", WRONG)
@pytest.mark.parametrize("name", HOSTS)
def test_beside_lines_that_can_be_read_it_is_a_repair(name, code):
    good = line_of(name, 0)
    decoded = decode(
        name, good, line_of(name, 1, WRONG[code], parent="e0"), good.replace("e0", "e2")
    )
    (repair,) = decoded.repairs
    assert (repair.code, repair.line) == (code, 3)
    assert FIELDS[name, code] in repair.text or code == "too-deep"
    assert len(decoded.session.view.messages()) >= 1


@pytest.mark.parametrize("code", WRONG)
@pytest.mark.parametrize("before", ["", "[", '{"messages": [', '{\n"messages": [\n\n'])
def test_a_document_is_one_value_so_that_all_of_it_is_an_error(before, code):
    after = {"[": "]"}.get(before, "]}" if before else "")
    text = f"{before}{line_of('openai-chat', 0, WRONG[code])}{after}\n"
    with pytest.raises(DecodeError) as caught:
        CODECS["openai-chat"].decode(text.encode(), file="f")
    assert (caught.value.code, caught.value.line) == (code, before.count("\n") + 1)
    assert caught.value.field is not None


@pytest.mark.parametrize("name", NAMES)
def test_a_line_of_100_megabytes_is_refused_before_it_is_parsed(name):
    data = HEADERS[name].encode() + b'\n{"a":"' + b"x" * 10**8 + b'"}\n'
    tracemalloc.start()
    with pytest.raises(DecodeError) as caught:
        CODECS[name].decode(data, file="f")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (caught.value.code, caught.value.line) == ("line-too-long", 2)
    assert len(data) > LIMIT
    # The text, its lines, and no third copy.
    assert peak < 3.2 * len(data)


ASKED = {"role": "user", "content": [{"type": "input_text", "text": "x"}]}
OPENING = {
    "anthropic-messages": line_of("openai-chat", 0),
    "claude-code": line_of("claude-code", 0),
    "codex": json.dumps({"type": "response_item", "payload": {"type": "message", **ASKED}}),
    "gemini-contents": '{"role":"user","parts":[{"text":"x"}]}',
    "openai-chat": line_of("openai-chat", 0),
    "openai-responses": json.dumps({"type": "message", **ASKED}),
    "pi": f"{HEADERS['pi']}\n{line_of('pi', 0)}",
}
"""What each format that is made of lines, or may be, begins with."""


def peak_of(name, data):
    CODECS[name].decode(f"{OPENING[name]}\n[]\n".encode())  # what is made once is not counted
    tracemalloc.start()
    try:
        decoded = CODECS[name].decode(data)
        return tracemalloc.get_traced_memory()[1], decoded
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", sorted(OPENING))
@pytest.mark.parametrize("line", ["{x", '{"a":NaN}', "5", '{"a":"\\ud800"}', "[" * 501])
def test_a_bad_line_costs_what_its_objects_cost(name, line):
    """The error of a line that is kept holds no frames, nor the texts and values in them."""
    good = f"{OPENING[name]}\n"
    one, _ = peak_of(name, (good + f"{line}\n" * 1000).encode())
    two, decoded = peak_of(name, (good + f"{line}\n" * 2000).encode())
    assert len(decoded.repairs) >= 2000
    # Two texts, a note, a node, an item, a repair; while it is read, an error.
    assert (two - one) / 1000 < 1100 + 3 * len(line)


@pytest.mark.parametrize("name", sorted(OPENING))
def test_bad_lines_of_usual_length_take_a_few_times_the_file(name):
    bad = '{"text":"' + "y" * 400 + "\n"
    data = (f"{OPENING[name]}\n" + bad * 2000).encode()
    peak, decoded = peak_of(name, data)
    assert len(decoded.repairs) >= 2000
    assert peak < 5 * len(data)


@pytest.mark.parametrize("name", HOSTS)
def test_a_long_line_beside_others_is_kept(name):
    lines = [line_of(name, 0), line_of(name, 1, f'"{"x" * 3000}"', parent="e0")]
    decoded = decode(name, *lines, limit=2000)
    assert [(r.code, r.line) for r in decoded.repairs] == [("line-too-long", 3)]
    data = "\n".join([HEADERS[name], *lines, ""]).encode()
    assert CODECS[name].encode(decoded.session) == data


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", [b"", b" ", b"\n \t\r\n", b"\xef\xbb\xbf"])
def test_a_file_that_holds_nothing(name, data):
    with pytest.raises(DecodeError) as caught:
        CODECS[name].decode(data, file="f")
    code = "empty-file" if name != "journal" or not data else "invalid-json"
    assert (caught.value.code, caught.value.file) == (code, "f")


@pytest.mark.parametrize("name", ["auto", *NAMES])
def test_a_directory_and_a_file_that_is_not_there(name, tmp_path):
    (tmp_path / "empty").touch()
    for path, code in (
        (tmp_path, "unreadable"),
        (tmp_path / "none", "unreadable"),
        (tmp_path / "empty", "empty-file"),
    ):
        with pytest.raises(DecodeError) as caught:
            load(path, name)
        assert (caught.value.code, caught.value.file) == (code, str(path))


@pytest.mark.parametrize("name", NAMES)
def test_bytes_that_are_not_utf8_are_never_guessed_at(name):
    data = f"{HEADERS[name]}\n{line_of(name, 0)}\n".encode() + b'{"a":"\xff"}\n'
    with pytest.raises(DecodeError) as caught:
        CODECS[name].decode(data, file="f")
    assert (caught.value.code, caught.value.line) == ("invalid-utf8", 3)


def test_parents_that_run_in_a_circle():
    for parents in (["e0"], ["e1", "e0"], ["e2", "e0", "e1", "e2"]):
        lines = [line_of("pi", at, parent=above) for at, above in enumerate(parents)]
        found = error("pi", line_of("pi", 9), *lines)
        assert (found.code, found.field) == ("cyclic-parent", "parentId")
        assert found.line >= 3
        assert found.entry in {"e0", "e1", "e2"}
    found = error("journal", line_of("journal", 0), line_of("journal", 1, extra=',"parent":1'))
    assert (found.code, found.line, found.field) == ("unknown-parent", 3, "parent")


def test_a_long_circle_and_a_long_chain_are_walked_once():
    count = 20_000
    chain = [line_of("pi", at, parent=f"e{at - 1}" if at else None) for at in range(count)]
    assert len(decode("pi", *chain).session) == count + 2
    circle = [line_of("pi", at, parent=f"e{(at + 1) % count}") for at in range(count)]
    assert error("pi", *circle).code == "cyclic-parent"


def test_a_parent_that_is_not_in_the_file():
    decoded = decode("pi", line_of("pi", 0), line_of("pi", 1, parent="gone"))
    assert [(r.code, r.line, r.entry) for r in decoded.repairs] == [("unknown-parent", 3, "e1")]
    for parent in ("7", "-2"):
        found = error("journal", line_of("journal", 0, extra=f',"parent":{parent}'))
        assert (found.code, found.line, found.field) == ("unknown-parent", 2, "parent")


def test_two_entries_with_one_id():
    found = error("pi", line_of("pi", 0), line_of("pi", 1, key="e0"))
    assert (found.code, found.line, found.entry, found.field) == ("duplicate-id", 3, "e0", "id")


def test_a_chat_list_knows_neither_ids_nor_parents():
    extra = ',"id":"a","parentId":"a"'
    lines = [line_of("openai-chat", at, extra=extra) for at in range(2)]
    decoded = decode("openai-chat", *lines)
    assert decoded.repairs == ()
    assert len(decoded.session.view.messages()) == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_file_without_what_makes_it_one(name):
    for text in ("{}", "5", "[5]", '"x"', "null", '{"a":1}', "{}\n{}"):
        with pytest.raises(DecodeError) as caught:
            CODECS[name].decode(text.encode(), file="f")
        assert caught.value.code in {"missing-header", "missing-field", "wrong-type", "wrong-role"}
        assert caught.value.line == 1


@pytest.mark.parametrize("name", NAMES)
def test_messages_of_errors_are_one_printable_line(name):
    text = (
        '{"type":"session","id":"s","version":3}\n{"type":"\\u001b[31m\\n\\u2028","id":"\\u0007"}\n'
    )
    try:
        decoded = CODECS[name].decode(text.encode())
    except DecodeError as found:
        shown = str(found)
    else:
        shown = repr(decoded.repairs)
    assert "\x1b" not in shown
    assert "\n" not in shown


# Everything else that bytes can be

GOOD = {
    name: (
        "\n".join([HEADERS[name], *(line_of(name, at, parent=None) for at in range(4))]) + "\n"
    ).encode()
    for name in NAMES
}
GOOD["pi"] += b"\n".join(
    json.dumps(line).encode()
    for line in (
        {"type": "model_change", "id": "m", "parentId": "e3", "provider": "p", "modelId": "m"},
        {
            "type": "message",
            "id": "a",
            "parentId": "m",
            "message": {
                "role": "assistant",
                "content": [{"type": "toolCall", "id": "c", "name": "n", "arguments": {"x": 1.5}}],
                "usage": {"input": 1},
                "stopReason": "toolUse",
            },
        },
        {
            "type": "message",
            "id": "r",
            "parentId": "a",
            "message": {"role": "toolResult", "toolCallId": "c", "content": []},
        },
        {"type": "compaction", "id": "k", "parentId": "r", "summary": "s", "firstKeptEntryId": "a"},
        {"type": "label", "id": "l", "parentId": "k", "targetId": "a", "label": "x"},
        {"type": "context_edit", "id": "z", "parentId": "l", "targetId": "r", "replacement": None},
    )
)
GOOD["openai-chat"] = json.dumps(
    {
        "model": "m",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "é"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "function": {"name": "n", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "x"},
        ],
        "tools": [{"type": "function", "function": {"name": "n", "parameters": {}}}],
    },
    indent=1,
).encode()
GOOD["claude-code"] += b"\n".join(
    json.dumps(line).encode()
    for line in (
        {
            "type": "assistant",
            "uuid": "a",
            "parentUuid": "e3",
            "message": {
                "id": "m",
                "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {"x": 1.5}}],
                "usage": {"input_tokens": 1},
            },
        },
        {"type": "progress", "uuid": "p", "parentUuid": "a"},
        {
            "type": "assistant",
            "uuid": "b",
            "parentUuid": "a",
            "message": {"id": "m", "content": [{"type": "text", "text": "é"}]},
        },
        {
            "type": "user",
            "uuid": "r",
            "parentUuid": "a",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "c"}]},
        },
        {"type": "system", "subtype": "compact_boundary", "uuid": "k", "logicalParentUuid": "r"},
        {
            "type": "user",
            "uuid": "s",
            "parentUuid": "k",
            "isCompactSummary": True,
            "message": {"content": "so far"},
        },
    )
)
SAMPLE = record(
    Session(),
    Head(Route("p", "m", (), "none"), "be brief", (Tool("n"),)),
    user((Text("é"), Image("aGk=", "image/png"))),
    Sent(),
    Reply("completed", assistant(Thinking("hm", "s"), "so", ToolCall("c", "n")), Usage(3, 2, 1)),
    tool_result("c", "x", name="n", error=True),
    Sent(),
    Reply("completed", assistant("done")),
)
OTHERS = sorted(CODECS.keys() - GOOD.keys())
GOOD |= {name: CODECS[name].encode(SAMPLE) for name in OTHERS}
CASSETTE = (
    b"interactions:\n- request:\n    parsed_body:\n      messages:\n"
    b"      - {role: user, content: a}\n"
    b"  response:\n    parsed_body: {choices: [{message: {role: assistant, content: b}}]}\n"
)

PIECES = [
    b"",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\\",
    b"\\ud800",
    b"NaN",
    b"-",
    b"1e999",
    b"null",
    b"true",
    b"5",
    b'"c"',
    b'"e0"',
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\x00",
    b"[" * (MAX_DEPTH + 1),
    b"assistant",
    b"toolResult",
    b"tool",
    b"*a",
    b"&a ",
]
LINE_EDITS = st.lists(
    st.tuples(
        st.sampled_from(["move", "delete", "copy", "swap"]), st.integers(0, 99), st.integers(0, 99)
    ),
    max_size=3,
)


def edit_lines(lines, edits):
    """Move, delete, copy or swap lines."""
    lines = list(lines)
    for what, one, other in edits:
        if not lines:
            break
        i, j = one % len(lines), other % len(lines)
        if what == "swap":
            lines[i], lines[j] = lines[j], lines[i]
        elif what == "copy":
            lines.insert(j, lines[i])
        else:
            line = lines.pop(i)
            if what == "move":
                lines.insert(j, line)
    return lines


EDITS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 12), st.sampled_from(PIECES)), max_size=4
)


def edit(data, edits):
    for at, length, piece in edits:
        start = at % (len(data) + 1)
        data = data[:start] + piece + data[start + length :]
    return data


def take(name, data):
    """Decode: a session that gives the bytes back and goes on, or one error of the closed list."""
    codec = CODECS[name]
    found = None
    try:
        decoded = codec.decode(data, file="f")
    except DecodeError as error:
        found = error
    if found is not None:
        assert found.file == "f"
        assert found.line is not None or found.code in {"empty-file", "invalid-yaml"}
        return found.code
    assert codec.encode(decoded.session) == data or name == "journal"
    codec.encode(record(decoded.session, user("more")))
    assert {r.code for r in decoded.repairs} <= CODES.keys() | DEFECTS.keys()
    return None


@settings(max_examples=250)
@given(
    st.sampled_from([*NAMES, *OTHERS]),
    st.binary(max_size=80) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")),
)
@example("openai-chat", b"interactions:")
@example("openai-chat", b"{\n\n}")
def test_random_bytes(name, data):
    code = take(name, data)
    assert code is None or code in CODES


@settings(max_examples=600)
@given(st.sampled_from([*NAMES, *OTHERS, "cassette"]), LINE_EDITS, EDITS)
def test_mutated_files(name, line_edits, edits):
    data = CASSETTE if name == "cassette" else GOOD[name]
    data = edit(b"\n".join(edit_lines(data.split(b"\n"), line_edits)), edits)
    code = take("openai-chat" if name == "cassette" else name, data)
    assert code is None or code in CODES


@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_what_is_mutated_is_read_before(name):
    assert take(name, GOOD[name]) is None
    assert take("openai-chat", CASSETTE) is None


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "a", "c", "user", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("type", "role", "content", "message", "id", "text", "kind", "function"),
                    *("parts", "payload", "uuid", "call_id"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def put(value, path, new):
    """Put a value somewhere into another, going down by the path as far as it goes."""
    if path and isinstance(value, dict) and value:
        key = sorted(value)[path[0] % len(value)]
        return {**value, key: put(value[key], path[1:], new)}
    if path and isinstance(value, list) and value:
        at = path[0] % len(value)
        return [*value[:at], put(value[at], path[1:], new), *value[at + 1 :]]
    return new


@settings(max_examples=600)
@given(
    st.sampled_from([*NAMES, *OTHERS]),
    st.integers(0, 20),
    st.lists(st.integers(0, 9), max_size=7),
    VALUES,
)
def test_values_of_other_types_in_any_field(name, line, path, value):
    if b"\n{" not in GOOD[name]:
        text = json.dumps(put(json.loads(GOOD[name]), path, value))
    else:
        lines = GOOD[name].decode().rstrip("\n").split("\n")
        line %= len(lines)
        lines[line] = json.dumps(put(json.loads(lines[line]), path, value))
        text = "\n".join(lines)
    code = take(name, text.encode())
    assert code is None or code in CODES


def test_work_grows_with_the_file_and_not_faster():
    """Count the calls of our own functions for files of one and of two thousand lines."""

    def calls(name, count):
        lines = []
        for at in range(count):
            above = f"e{at // 3}" if at else None
            lines.append(
                line_of(name, at, parent=above if at % 5 else f"e{at - 1}" if at else None)
            )
            if at % 50 == 1:
                lines.append("{broken")
        data = "\n".join([HEADERS[name], *lines]).encode()
        seen = Counter()

        def watch(frame, event, _):
            if event == "call":
                seen[frame.f_code.co_name] += 1

        sys.setprofile(watch)
        try:
            decoded = CODECS[name].decode(data)
            written = CODECS[name].encode(decoded.session)
        finally:
            sys.setprofile(None)
        assert written == data
        return sum(seen.values())

    for name in HOSTS:
        one, two = calls(name, 1000), calls(name, 2000)
        assert two < 2.2 * one, (name, one, two)
