"""Detection and loading, and all real files of the formats that are read, in one table."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from pathlib import Path

import pytest

from ctxalgebra import DecodeError, InvalidArgument, Session, project, record, requests, user
from ctxalgebra.codecs import (
    CODECS,
    anthropic,
    anthropic_messages,
    decode_messages,
    detect,
    encode_messages,
    encode_request,
    gemini,
    load,
    openai_responses,
)
from ctxalgebra.codecs.lines import parse

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions"
FILES = sorted(path for name in CODECS for path in SHARED.glob(f"{name}/*"))
OTHERS = sorted(
    path
    for name in {"kimi-cli", "openhands", "opencode", "claude-code", "codex"} - CODECS.keys()
    for path in SHARED.glob(f"{name}/*")
)
ABSENT = [
    pytest.param(None, marks=pytest.mark.skip(reason="needs ../shared/sessions, absent here"))
]


@pytest.mark.parametrize("path", FILES or ABSENT, ids=lambda path: path and path.stem)
def test_real_files_are_recognised_and_replayed(path):
    decoded = load(path)
    assert decoded.format == path.parent.name
    assert load(str(path), decoded.format) == decoded
    codec = CODECS[decoded.format]
    assert codec.name == decoded.format
    assert codec.encode(decoded.session) == path.read_bytes()
    made = requests(decoded.session)
    assert made
    assert all(request.messages for request in made)
    assert all(repair.line > 0 and repair.text for repair in decoded.repairs)
    # Our journal carries all of it, byte for byte.
    journal = CODECS["journal"]
    again = journal.decode(journal.encode(decoded.session)).session
    assert again == decoded.session
    assert codec.encode(again) == path.read_bytes()


@pytest.mark.parametrize("path", OTHERS or ABSENT, ids=lambda path: path and path.stem)
def test_files_of_other_formats_are_not_taken_for_ours(path):
    with pytest.raises(DecodeError) as caught:
        load(path)
    assert caught.value.code == "format-undetected"


@pytest.mark.parametrize("name", sorted(CODECS))
def test_each_codec_writes_what_it_recognises_and_reads(name, tmp_path):
    codec = CODECS[name]
    session = record(Session(), user("hi"))
    data = codec.encode(session)
    assert detect(data) == name
    file = tmp_path / "session"
    file.write_bytes(data)
    decoded = load(file)
    assert (decoded.format, decoded.repairs) == (name, ())
    assert project(decoded.session).messages[0].parts == user("hi").parts


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"kind":"journal","spec":1}', "journal"),
        ('{"type":"session","id":"s"}', "pi"),
        ('not json\n{"type":"label","id":"x"}', "pi"),
        ('{"type":"message","message":{}}', "pi"),
        ("[]", "openai-chat"),
        ('\ufeff [\n{"role":"user"}]', "openai-chat"),
        ('{"messages":[]}', "openai-chat"),
        ('{\n"messages":\n[{"role":"user"}]}', "openai-chat"),
        ('{"role":"user","content":"a"}', "openai-chat"),
        ('{"_type":"metadata"}', "openai-chat"),
        ('{"observations":[]}', "openai-chat"),
        ("version: 1\ninteractions:\n- request: {uri: x/chat/completions}", "openai-chat"),
        ("interactions:\n- request: {uri: x/v1/messages}", "anthropic-messages"),
        ("interactions:\n- {uri: other}\n- {uri: x/v1/messages}", "anthropic-messages"),
        ('{"messages":[],"system":""}', "anthropic-messages"),
        ('{"messages":[],"anthropic_version":"x"}', "anthropic-messages"),
        ('{"messages":[],"tools":[{"input_schema":{}}]}', "anthropic-messages"),
        ('{"messages":[],"system":"","tools":[{"function":{}}]}', "openai-chat"),
        ('{"role":"user","content":"a"}\n{"role":"assistant","tool_calls":[]}', "openai-chat"),
        (
            '{"role":"user","content":"a"}\n{"role":"user","content":[{"type":"tool_result"}]}',
            "anthropic-messages",
        ),
        ('[{"type":"message","role":"assistant","content":[]}]', "anthropic-messages"),
        ('[{"role":"tool"},{"role":"user","content":[{"type":"document"}]}]', "openai-chat"),
        ('[{"role":"user","parts":[{"text":"a"}]}]', "gemini-contents"),
        ('{"contents":[]}', "gemini-contents"),
        ('{"input":[{"type":"message","role":"user","content":"a"}]}', "openai-responses"),
        ('[{"type":"function_call","call_id":"c","name":"f"}]', "openai-responses"),
        ('{"type":"response_item","payload":{"type":"message"}}', "codex"),
        ('{"type":"user","uuid":"u","message":{"role":"user","content":"a"}}', "claude-code"),
    ],
)
def test_formats_are_told_by_their_first_lines(text, name):
    assert detect(text.encode()) == name


LINES = [
    {"kind": "journal", "spec": 1},
    {"type": "session", "id": "s"},
    {"type": "message", "message": {"role": "user", "content": "a"}},
    {"type": "user", "uuid": "u", "message": {"role": "user", "content": "a"}},
    {"type": "response_item", "payload": {"type": "message", "role": "user", "content": []}},
    {"input": [{"type": "message", "role": "user", "content": "a"}], "model": "m"},
    {"messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}], "system": ""},
    {"tools": [{"function": {}, "input_schema": {}}], "messages": [{"role": "user"}]},
    {"contents": [{"role": "user", "parts": [{"text": "a"}]}]},
    {"observations": [{"input": {"messages": [{"role": "user"}]}, "output": {"role": "user"}}]},
]


def changed_within(value):
    """The value with each part of it, in turn, replaced by something of another type."""
    for other in ([], {}, [[]], 5, 1.5, None, True, "x"):
        yield other
    keys = (
        list(value) if isinstance(value, dict) else range(len(value) if type(value) is list else 0)
    )
    for key in keys:
        for other in changed_within(value[key]):
            copy = json.loads(json.dumps(value))
            copy[key] = other
            yield copy


@pytest.mark.parametrize("value", LINES, ids=lambda value: next(iter(value)))
def test_a_field_of_any_type_is_looked_at(value, tmp_path):
    path = tmp_path / "f"
    outcomes = Counter()
    for changed in changed_within(value):
        path.write_text(json.dumps(changed))
        try:
            outcomes[load(path).format] += 1
        except DecodeError as error:
            outcomes[error.code if error.file == str(path) else "no file"] += 1
    assert outcomes["format-undetected"] > 0
    assert "no file" not in outcomes
    assert outcomes.keys() & CODECS.keys()


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("", "empty-file", None),
        (" \n\t\r\n", "empty-file", None),
        ("\ufeff", "empty-file", None),
        ("hello", "format-undetected", 1),
        ("5", "format-undetected", 1),
        ("[5]", "format-undetected", 1),
        ("{}", "format-undetected", 1),
        ('{"messages":[{"no":"role"}]}', "format-undetected", 1),
        ('{"type":"message","id":"x"}\n{"type":"other"}', "format-undetected", 1),
        ("interactions:\n- request: {uri: x/v9/other}", "format-undetected", 1),
        ("interactions:\n- [", "invalid-yaml", 3),
        ('{\n"a": NaN\n}', "invalid-number", 2),
        ("{\n{\n", "invalid-json", 2),
        ("{" * 10_000, "too-deep", 1),
        ("x\n" * 30 + '{"kind":"journal"}', "format-undetected", 1),
    ],
)
def test_what_is_of_no_known_format(text, code, line):
    with pytest.raises(DecodeError) as caught:
        detect(text.encode(), file="f")
    error = caught.value
    assert (error.code, error.file, error.line) == (code, "f", line)


def test_loading_says_which_file_and_which_format(tmp_path):
    with pytest.raises(InvalidArgument, match="no format 'yaml'"):
        load(tmp_path, "yaml")
    file = tmp_path / "a.jsonl"
    file.write_text(
        '{"type":"session","id":"s","version":3}\n{"type":"custom","id":"a","parentId":"a"}\n'
    )
    with pytest.raises(DecodeError) as caught:
        load(file)
    assert (caught.value.code, caught.value.file) == ("cyclic-parent", str(file))
    file.write_text(json.dumps({"messages": [{"role": "user", "content": "x" * 99}]}))
    with pytest.raises(DecodeError) as caught:
        load(file, limit=50)
    assert caught.value.code == "line-too-long"


REPAIRS = {
    "anthropic-messages": {"blank-text": 1, "missing-field": 3, "unknown-request": 8},
    "openai-chat": {},
    "pi": {
        "aborted-calls": 18,
        "empty-content": 14,
        "invalid-json": 1,
        "missing-result": 1,
        "no-change": 2,
        "out-of-order": 12,
        "unknown-kind": 1,
        "unknown-parent": 8,
    },
}


@pytest.mark.skipif(not FILES, reason="needs ../shared/sessions, absent here")
@pytest.mark.parametrize("name", sorted(REPAIRS))
def test_the_repairs_of_all_real_files_of_a_format_together(name):
    files = SHARED.glob(f"{name}/*")
    assert Counter(repair.code for path in files for repair in load(path).repairs) == REPAIRS[name]


# What callers give


ENCODERS = [
    encode_messages,
    anthropic_messages.encode_messages,
    openai_responses.encode_items,
    gemini.encode_contents,
]
DECODERS = [
    decode_messages,
    anthropic_messages.decode_messages,
    openai_responses.decode_items,
    gemini.decode_contents,
]
REQUESTERS = [
    encode_request,
    anthropic.encode_request,
    openai_responses.encode_request,
    gemini.encode_request,
]


def refused(call, *args, **named):
    with pytest.raises(InvalidArgument) as caught:
        call(*args, **named)
    return caught.value.code, caught.value.field


@pytest.mark.parametrize("name", CODECS)
def test_codecs_refuse_what_is_no_file_and_no_session(name):
    codec = CODECS[name]
    for data in ("x", None, 3, [b"x"]):
        assert refused(codec.decode, data) == ("wrong-type", "data")
    for limit in ("x", None, 1.5, True):
        assert refused(codec.decode, b"x", limit=limit) == ("wrong-type", "limit")
    for limit in (0, -1):
        assert refused(codec.decode, b"x", limit=limit) == ("invalid-argument", "limit")
    assert refused(codec.encode, 3) == ("wrong-type", "session")


def test_functions_refuse_what_is_not_theirs(tmp_path):
    for call in ENCODERS:
        assert refused(call, None) == ("wrong-type", "messages")
        assert refused(call, [3]) == ("wrong-type", "messages")
        assert call(iter(())) == []
    for call in DECODERS:
        for values in (None, 3, "x", {"role": "user"}):
            assert refused(call, values) == ("wrong-type", "values")
    for call in REQUESTERS:
        assert refused(call, None) == ("wrong-type", "request")
    assert refused(detect, "x") == ("wrong-type", "data")
    path = tmp_path / "chat.json"
    path.write_text('[{"role":"user","content":"hi"}]')
    for odd in (3, None, b"x"):
        assert refused(load, odd) == ("wrong-type", "path")
    assert refused(load, path, 3) == ("wrong-type", "format")
    assert refused(load, path, ["pi"]) == ("wrong-type", "format")
    assert refused(load, path, limit="x") == ("wrong-type", "limit")
    assert refused(load, path, limit=-1) == ("invalid-argument", "limit")


def test_only_files_and_pipes_are_read(tmp_path, monkeypatch):
    text = b'[{"role":"user","content":"hi"}]'
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(text,))
    writer.start()
    assert load(pipe).format == "openai-chat"
    writer.join()
    for odd in ("/dev/zero", "/dev/null", tmp_path):
        with pytest.raises(DecodeError) as caught:
            load(odd)
        assert (caught.value.code, caught.value.file) == ("unreadable", str(odd))
    path = tmp_path / "chat.json"
    path.write_bytes(text)
    for most, readable in ((len(text), True), (len(text) - 1, False)):
        monkeypatch.setattr("ctxalgebra.codecs.lines.MOST", most)
        if readable:
            assert load(path).format == "openai-chat"
        else:
            with pytest.raises(DecodeError, match=f"longer than {most} bytes"):
                load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"type":"session","id":"x', "Unterminated string starting at column 24"),
        ('{"a": "\x01"}', "Invalid control character at column 8"),
        (r'{"a": "\x"}', r"Invalid \escape at column 8"),
        ("[1 2]", "Expecting ',' delimiter at column 4"),
    ],
)
def test_errors_of_json_are_sentences(text, message):
    with pytest.raises(DecodeError) as caught:
        parse(text)
    assert (caught.value.code, caught.value.message) == ("invalid-json", message)


def test_lines_of_lists_are_lines():
    lines = b'["client.create",{"a":1}]\n["client.send",{"a":2}]\n'
    for data in (lines, b'["a"]', b"[\n[1]\n,{}]"):
        with pytest.raises(DecodeError) as caught:
            detect(data)
        assert caught.value.code == "format-undetected"
    with pytest.raises(DecodeError) as caught:
        detect(b"[\n[1]\n")
    assert caught.value.code == "invalid-json"
