"""Whatever a file is like: what is appended is read again, behind all that was shown before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    DecodeError,
    ToolCall,
    abandon,
    assistant,
    open_calls,
    project,
    record,
    tool_result,
    user,
)
from ctxalgebra.codecs import CODECS, load

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions"
FILES = sorted(path for path in SHARED.glob("*/*") if path.is_file())
real = pytest.mark.parametrize(
    "path",
    FILES
    or [pytest.param(None, marks=pytest.mark.skip(reason="needs ../shared/sessions, absent here"))],
    ids=lambda path: path and path.stem,
)


def shown(session):
    return [(m.role, m.parts, m.call, m.error) for m in project(session).messages]


def tried(read, given):
    try:
        return read(given), ""
    except DecodeError as error:
        return None, error.code


def check(decoded):
    """Append twice, and read again each time."""
    codec, session = CODECS[decoded.format], decoded.session
    for call in open_calls(session):
        session = abandon(session, call, "the process ended")
    for name in ("new_1", "new_2"):
        calls = assistant("Let me see.", ToolCall(f"{name}a", "ls"), ToolCall(f"{name}b", "ls"))
        results = tool_result(f"{name}b", "b"), tool_result(f"{name}a", "a")
        before = shown(session)
        session = record(session, user(f"Go on: {name}."), calls, *results)
        expected = shown(session)
        assert len(expected) == len(before) + 4
        session = codec.decode(codec.encode(session)).session
        assert shown(session) == expected


@real
def test_real_files(path):
    decoded, code = tried(load, path)
    assert code in ("", "format-undetected")
    if decoded:
        check(decoded)


# Generated files: a conversation in the shape of each format, in each of its containers.

TURNS = st.lists(
    st.tuples(st.sampled_from(["ask", "say", "call"]), st.sampled_from(["a", "b", "FIRST", ""])),
    min_size=1,
    max_size=6,
)


def chat(turns):
    for at, (kind, text) in enumerate(turns):
        if kind == "call":
            function = {"name": "ls", "arguments": "{}"}
            calls = [{"id": f"c{at}", "type": "function", "function": function}]
            yield {"role": "assistant", "content": text, "tool_calls": calls}
            yield {"role": "tool", "tool_call_id": f"c{at}", "content": text}
        else:
            yield {"role": "assistant" if kind == "say" else "user", "content": text}


def anthropic(turns):
    for at, (kind, text) in enumerate(turns):
        if kind == "call":
            use = {"type": "tool_use", "id": f"c{at}", "name": "ls", "input": {}}
            yield {"role": "assistant", "content": [use]}
            result = {"type": "tool_result", "tool_use_id": f"c{at}", "content": text}
            yield {"role": "user", "content": [result, {"type": "text", "text": text}]}
        else:
            yield {"role": "assistant" if kind == "say" else "user", "content": text}


def responses(turns):
    for at, (kind, text) in enumerate(turns):
        if kind == "call":
            call = {"type": "function_call", "call_id": f"c{at}", "name": "ls", "arguments": "{}"}
            yield call
            yield {"type": "function_call_output", "call_id": f"c{at}", "output": text}
        else:
            role = "assistant" if kind == "say" else "user"
            block = {"type": "output_text" if kind == "say" else "input_text", "text": text}
            yield {"type": "message", "role": role, "content": [block]}


def gemini(turns):
    for kind, text in turns:
        if kind == "call":
            yield {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]}
            result = {"name": "ls", "response": {"output": text}}
            yield {"role": "user", "parts": [{"functionResponse": result}]}
        else:
            role = "model" if kind == "say" else "user"
            yield {"role": role, "parts": [{"text": text}]}


APIS = {
    "openai-chat": (chat, "messages"),
    "anthropic-messages": (anthropic, "messages"),
    "openai-responses": (responses, "input"),
    "gemini-contents": (gemini, "contents"),
}


def contained(elements, key, container, role):
    """Put elements into a container; answers of a trace may be messages of another API."""
    if container == "list":
        return json.dumps(elements)
    if container == "body":
        return json.dumps({"model": "m", key: elements})
    if container == "lines":
        return "".join(f"{json.dumps(element)}\n" for element in elements)
    answer = {"role": role, "content": ""} if role else None
    held = {key: elements} if container == "bodies" else elements
    return json.dumps({"trace": {}, "observations": [{"input": held, "output": answer}]})


@pytest.mark.parametrize("name", APIS)
@given(
    turns=TURNS,
    container=st.sampled_from(["list", "body", "lines", "trace", "bodies"]),
    role=st.sampled_from(["", "assistant", "model"]),
)
def test_lists_of_messages(name, turns, container, role):
    shape, key = APIS[name]
    data = contained([*shape([("ask", "go"), *turns])], key, container, role).encode()
    decoded, code = tried(CODECS[name].decode, data)
    assert code in ("", "missing-field", "wrong-type")
    if decoded:
        check(decoded)


@given(TURNS, st.lists(st.sampled_from(["event", "item", "both"]), min_size=6, max_size=6))
def test_rollouts(turns, told):
    lines = [{"type": "session_meta", "payload": {"id": "x", "cwd": "/"}}]
    for (kind, text), how in zip(turns, told, strict=False):
        event = {"type": "event_msg", "payload": {"type": "user_message", "message": text}}
        items = [{"type": "response_item", "payload": i} for i in responses([(kind, text)])]
        lines += [*(items if kind != "ask" or how != "event" else ())]
        lines += [event] * (kind == "ask" and how != "item")
    check(CODECS["codex"].decode("".join(f"{json.dumps(line)}\n" for line in lines).encode()))


@given(TURNS)
def test_sessions_of_the_library_in_all_formats(turns):
    session = CODECS["openai-chat"].decode(json.dumps([*chat(turns)]).encode()).session
    for codec in CODECS.values():
        check(codec.decode(codec.encode(session)))
