"""The pi host's operations on hostile input, and its context beside ours on real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_host_context import chain, cut, user

import ctxalgebra
from ctxalgebra.codecs.lines import parse
from ctxalgebra.codecs.pi import decode
from ctxalgebra.codecs.pi_messages import read_message
from ctxalgebra.compat.host_context import session_context
from ctxalgebra.compat.host_conversation import to_model
from ctxalgebra.compat.host_entries import migrate_entries, parse_entries
from ctxalgebra.conformance import door, travel_host, travel_host_work
from ctxalgebra.conformance.wire import write

PI = Path(__file__).resolve().parents[1].parent / "shared" / "sessions" / "pi"
FILES = sorted(PI.glob("*.jsonl"))

OPERATIONS = {**travel_host.OPERATIONS, **travel_host_work.OPERATIONS}
CODES = {"error", "invalid-input", *ctxalgebra.CODES}

NAMES = st.sampled_from(["a", "b", "c", "d", "ghost", ""])
WILD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 0.5, 10**30, 10**400, 1e308, "\ud800", "x" * 9, [], {}, [{}]]),
    NAMES,
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "toolCall", "image"])},
    optional={
        "text": WILD,
        "thinking": WILD,
        "name": st.sampled_from(["read", "write", "edit"]) | WILD,
        "arguments": st.fixed_dictionaries({"path": WILD}) | WILD,
    },
)
USAGE = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("totalTokens", "input", "output", "cacheRead", "cacheWrite"), WILD)
)
ROLES = ["user", "assistant", "toolResult", "custom", "bashExecution", "branchSummary"]
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from([*ROLES, "compactionSummary", "system"]) | WILD},
    optional={
        "content": st.lists(BLOCKS | WILD, max_size=3) | st.text(max_size=9) | WILD,
        "stopReason": st.sampled_from(["stop", "error", "length"]) | WILD,
        "usage": USAGE | WILD,
        "summary": WILD,
        "command": st.text(max_size=9) | WILD,
        "output": st.text(max_size=9) | WILD,
        "exitCode": WILD,
        "cancelled": WILD,
        "truncated": WILD,
        "fullOutputPath": WILD,
        "timestamp": WILD,
        "provider": WILD,
        "model": WILD,
    },
)
KINDS = ["message", "compaction", "branch_summary", "custom_message", "label", "session"]
ENTRIES = st.fixed_dictionaries(
    {"type": st.sampled_from([*KINDS, "model_change", "session_info"]) | WILD},
    optional={
        "id": NAMES | WILD,
        "parentId": NAMES | WILD,
        "timestamp": st.just("2026-01-01T00:00:01.000Z") | WILD,
        "message": MESSAGES | WILD,
        "content": st.lists(BLOCKS, max_size=2) | WILD,
        "summary": WILD,
        "firstKeptEntryId": NAMES | WILD,
        "firstKeptEntryIndex": WILD,
        "details": st.fixed_dictionaries(
            {}, optional={"readFiles": st.lists(WILD, max_size=2) | WILD, "modifiedFiles": WILD}
        )
        | WILD,
        "fromHook": WILD,
        "targetId": NAMES | WILD,
        "label": WILD,
        "name": WILD,
        "version": WILD,
    },
)
OPS = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["appendLabelChange", "branchWithSummary", "getChildren"])
        | st.sampled_from(["appendMessage", "getLabel", "getBranch", "branch"])
        | WILD,
        "args": st.lists(WILD, max_size=3) | WILD,
    }
)
MEMBERS = {
    "entries": st.lists(ENTRIES, max_size=7),
    "messages": st.lists(MESSAGES, max_size=5),
    "message": MESSAGES,
    "usage": USAGE,
    "content": st.text(max_size=40),
    "leafId": NAMES | WILD,
    "fromId": NAMES | WILD,
    "targetId": NAMES | WILD,
    "options": st.fixed_dictionaries({}, optional={"label": WILD, "summarize": WILD}) | WILD,
    "settings": st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("enabled", "reserveTokens", "keepRecentTokens"), WILD)
    ),
    "ops": st.lists(OPS, max_size=4),
    "noModel": st.booleans(),
}
NEEDED = {
    "host_parse_session_entries": ["content"],
    "host_migrate_session_entries": ["entries"],
    "host_build_session_context": ["entries"],
    "host_build_context_entries": ["entries"],
    "host_get_tree": ["entries"],
    "host_get_branch": ["entries", "fromId"],
    "host_session_operations": ["entries", "ops"],
    "host_estimate_context_tokens": ["messages"],
    "host_calculate_context_tokens": ["usage"],
    "host_should_compact": ["contextTokens", "contextWindow", "settings"],
    "host_find_cut_point": ["entries", "keepRecentTokens"],
    "host_find_turn_start_index": ["entries", "entryIndex", "startIndex"],
    "host_prepare_compaction": ["entries", "settings"],
    "host_collect_entries_for_branch_summary": ["entries", "targetId"],
    "host_prepare_branch_entries": ["entries", "tokenBudget"],
    "host_file_lists": ["messages"],
    "host_serialize_conversation": ["messages"],
    "host_convert_to_llm": ["messages"],
    "host_is_recoverable_length": ["message", "desiredMaxOutput"],
    "host_get_context_usage": ["entries", "contextWindow"],
    "host_navigate_tree": ["entries", "targetId", "options"],
}


def test_every_operation_is_asked():
    assert {f"travel.{name}" for name in NEEDED} == set(OPERATIONS)


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
@given(data=st.data())
def test_whatever_comes_the_answer_is_an_output_or_a_code(operation, data):
    needed = NEEDED[operation.removeprefix("travel.")]
    value = {name: data.draw(MEMBERS.get(name, WILD)) for name in needed}
    if "entries" in needed and data.draw(st.booleans()):
        value["leafId"] = data.draw(MEMBERS["leafId"])
    before = write(value)
    given = door.result(operation, value)
    assert given.keys() in ({"output"}, {"error"})
    assert given.get("error", {}).get("code", "error") in CODES, given
    assert write(value) == before
    assert door.result(operation, value) == given


def test_what_is_nested_deeper_than_a_line_may_be_is_refused():
    shallow, deep = chain(250), chain(251)
    assert "output" in door.result("travel.host_get_tree", {"entries": shallow})
    told = door.result("travel.host_get_tree", {"entries": deep})
    assert told["error"]["code"] == "too-deep"


def test_settings_and_calls_of_the_wrong_shape_are_refused():
    for name, value in (("enabled", 1), ("reserveTokens", "1"), ("keepRecentTokens", None)):
        given = {"entries": [], "settings": {name: value}}
        told = door.result("travel.host_prepare_compaction", given)
        assert told["error"]["code"] == "invalid-input"
    for op in ({}, {"method": "branch"}, {"method": 5, "args": []}):
        told = door.result("travel.host_session_operations", {"entries": [], "ops": [op]})
        assert told["error"]["code"] == "invalid-input"
    for options in ({"label": 5}, {"summarize": True}):
        given = {"entries": [], "targetId": "a", "options": options}
        assert door.result("travel.host_navigate_tree", given)["error"]["code"] == "invalid-input"


# The host's context and ours


def sided(data):
    """Give the messages of a file as its host has them, and ours, without our own decisions.

    * Replies that failed or were aborted are no part of our requests; the host takes them out when
      it converts a request for its provider.
    * Results stand in the order of their calls here, in the order of their coming there.
    * A parent that is the id of a call stands for the entry with the call; the host's path ends.
    * A compaction that takes nothing away is none, and shows no summary.
    * A system message is one, at its place; the host (0.84.0) drops it.
    """
    decoded = decode(data)
    codes = {repair.code for repair in decoded.repairs}
    entries = migrate_entries([e for e in parse_entries(data.decode()) if isinstance(e, dict)])
    holders = {
        block["id"]: entry["id"]
        for entry in entries
        for block in entry.get("message", {}).get("content", ())
        if isinstance(block, dict) and block.get("type") == "toolCall"
    }
    entries = [
        {**entry, "parentId": holders.get(entry.get("parentId"), entry.get("parentId"))}
        for entry in entries
        if entry.get("type") != "session"
    ]
    theirs = []
    for message in to_model(session_context(entries).messages):
        spoken = read_message(parse(json.dumps(message)))
        if spoken.outcome == "completed":
            theirs.append((spoken.message.role, spoken.message.parts, spoken.message.call))
    if "no-change" in codes:
        theirs = theirs[1:]
    shown = decoded.session.view.messages()
    ours = [(m.role, m.parts, m.call) for m in shown if m.role != "system"]
    return in_order(theirs), in_order(ours)


def in_order(messages):
    ordered, run = [], []
    for message in messages:
        if message[0] == "tool":
            run.append(message)
            continue
        ordered += [*sorted(run, key=lambda result: result[2]), message]
        run = []
    return ordered + sorted(run, key=lambda result: result[2])


def lines(*entries):
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


HEADER = {"type": "session", "version": 3, "id": "s"}


def call(name):
    return {"type": "toolCall", "id": name, "name": "ls", "arguments": {"n": 1}}


def reply(name, parent, *blocks, **more):
    message = {"role": "assistant", "content": list(blocks), "stopReason": "stop", **more}
    return {"type": "message", "id": name, "parentId": parent, "message": message}


def result(name, parent, of):
    blocks = [{"type": "text", "text": of}]
    message = {"role": "toolResult", "toolCallId": of, "toolName": "ls", "content": blocks}
    return {"type": "message", "id": name, "parentId": parent, "message": message}


SCRIPT = st.lists(st.sampled_from(["ask", "two", "fail", "note", "cut", "back"]), max_size=9)


@given(SCRIPT)
@example(["ask", "cut", "ask", "cut", "ask"])
def test_the_hosts_context_is_what_we_send(script):
    entries, leaf, users = [user("e0")], "e0", ["e0"]

    def add(make, *arguments):
        nonlocal leaf
        entries.append(make(f"e{len(entries)}", leaf, *arguments))
        leaf = entries[-1]["id"]

    for step in [*script, "ask"]:
        match step:
            case "ask":
                add(reply, {"type": "text", "text": f"to {leaf}"})
                add(user, f"question {len(entries)}")
                users.append(leaf)
            case "two":
                add(reply, call(f"x{leaf}"), call(f"y{leaf}"))
                first, second = (block["id"] for block in entries[-1]["message"]["content"])
                add(result, second)
                add(result, first)
            case "fail":
                entries.append(reply(f"e{len(entries)}", leaf))
                entries[-1]["message"]["stopReason"] = "error"
                leaf = entries[-1]["id"]
            case "note":
                add(
                    lambda name, parent: {
                        "type": "custom_message",
                        "content": "note",
                        "id": name,
                        "parentId": parent,
                    }
                )
            case "cut" if len(users) > 1:
                add(reply, {"type": "text", "text": "read"})
                add(cut, users[-1])
            case _:
                leaf = users[0]
                users = users[:1]
    entries[0]["parentId"] = None
    theirs, ours = sided(lines(HEADER, *entries))
    assert theirs == ours


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name[:40])
def test_real_files_give_the_same_context(file):
    theirs, ours = sided(file.read_bytes())
    assert theirs == ours != []
