"""Entries of the pi host, their tree, and the context that they make."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import ctxalgebra
from ctxalgebra.compat.host_context import (
    Context,
    context_entries,
    messages_of,
    session_context,
)
from ctxalgebra.compat.host_conversation import RESULT, serialize, to_model
from ctxalgebra.compat.host_entries import (
    branch,
    instant,
    labels,
    migrate_entries,
    parse_entries,
    tree,
)

DEEP = 50_000


class Counted(dict):
    """Count how often anything is looked up in any entry."""

    asked = 0

    def get(self, *arguments):
        Counted.asked += 1
        return super().get(*arguments)


def asked(function, *arguments):
    Counted.asked = 0
    function(*arguments)
    return Counted.asked


def user(name, parent=None, text="hi", **more):
    message = {"role": "user", "content": text}
    return {"type": "message", "id": name, "parentId": parent, "message": message, **more}


def cut(name, parent, kept, summary="S"):
    return {
        "type": "compaction",
        "id": name,
        "parentId": parent,
        "summary": summary,
        "firstKeptEntryId": kept,
    }


def chain(count, kind=dict):
    return [kind(user(f"e{n}", f"e{n - 1}" if n else None)) for n in range(count)]


def ids(entries):
    return [entry["id"] for entry in entries]


def code(function, *arguments):
    with pytest.raises(ctxalgebra.CtxError) as caught:
        function(*arguments)
    return caught.value.code, caught.value.entry


# Lines and versions


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("", []),
        (" \n\ufeff", []),
        ('{"a":1}\r\n\r\n{"b":2}', [{"a": 1}, {"b": 2}]),
        ('{"a":"\u2028\x85"}', [{"a": "\u2028\x85"}]),
        ("{bad\n5\nInfinity\nnan", [5]),
        ('"\\ud800"', ["\ud800"]),
        ("[" * 501 + "]" * 501 + "\n" + "[" * 100_000 + "\n[[]]", [[[]]]),
        ('{"a":1,"a":2}', [{"a": 2}]),
    ],
)
def test_lines_that_are_no_json_are_passed_over(content, values):
    assert parse_entries(content) == values


@pytest.mark.parametrize("version", [None, 0, 1, 1.5, 2, 3, 4])
def test_what_was_migrated_stays_as_it_is(version):
    header = {"type": "session", "id": "s", "version": version}
    hook = user("x", None)
    hook["message"] = {"role": "hookMessage", "content": "h"}
    given = [header, hook, {"type": "compaction", "firstKeptEntryIndex": 1, "id": "y"}]
    once = migrate_entries(given)
    assert migrate_entries(once) == once
    assert once[0]["version"] == max(version or 1, 3)
    role = "hookMessage" if version and version >= 3 else "custom"
    assert once[1]["message"]["role"] == role
    assert hook["message"]["role"] == "hookMessage"
    chained = (version or 1) < 2
    assert once[2].get("parentId") == ("m1" if chained else None)
    assert once[2].get("firstKeptEntryId") == ("m1" if chained else None)


def test_a_compaction_names_the_line_that_it_kept_first():
    cuts = [
        {"type": "compaction", "firstKeptEntryIndex": at} for at in (0, 1, 4, 6, 9, -1, 1.5, "1")
    ]
    migrated = migrate_entries([{"type": "session"}, user("x"), *cuts])[2:]
    kept = [new.get("firstKeptEntryId") for new in migrated]
    assert kept == [None, "m1", "m4", None, None, None, None, None]
    assert ["firstKeptEntryIndex" in new for new in migrated] == [*[False] * 7, True]


def test_without_a_header_entries_are_of_version_one():
    assert ids(migrate_entries([{"type": "label"}, {"type": "message", "message": 5}])) == [
        "m1",
        "m2",
    ]


@pytest.mark.parametrize("version", ["3", True, [], {}])
def test_a_version_that_is_no_number_is_refused(version):
    assert code(migrate_entries, [{"type": "session", "version": version}])[0] == "wrong-type"


@pytest.mark.parametrize(
    ("time", "milliseconds"),
    [("1970-01-01T00:00:02.5Z", 2500), (7, 7), ("soon", None), (None, None), (True, None)],
)
def test_times(time, milliseconds):
    assert instant({"timestamp": time}) == milliseconds


# The tree


def test_a_path_ends_where_a_parent_is_not_there():
    entries = [user("a"), user("b", "ghost"), user("c", "b"), user("d", ["a"]), user("e", "")]
    assert ids(branch(entries, "c")) == ["b", "c"]
    assert ids(branch(entries, "d")) == ["d"]
    assert ids(branch(entries)) == ["e"]
    assert branch(entries, "nowhere") == branch(entries, None) == branch([]) == []


def test_w22_circles_are_refused_and_a_self_parent_is_a_root():
    """The host follows them until memory is gone."""
    circle = [user("a", "c"), user("b", "a"), user("c", "b"), user("d", "c")]
    for function in (branch, context_entries, session_context, tree):
        assert code(function, circle)[0] == "cyclic-parent"
    assert code(branch, circle, "d") == ("cyclic-parent", "c")
    own = [user("a", "a"), user("b", "a")]
    assert ids(branch(own)) == ["a", "b"]
    assert tree(own).roots == (0,)
    assert len(session_context(own).messages) == 2


def test_the_tree_holds_each_entry_once_children_by_time():
    times = ["2026-01-01T00:00:09Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:01Z", "never"]
    entries = [user("z", "ghost"), user("r")]
    entries += [user(f"c{n}", "r", timestamp=time) for n, time in enumerate(times)]
    found = tree(entries)
    assert found.roots == (0, 1)
    assert found.children[1] == (3, 4, 2, 5)
    reached = [*found.roots, *(child for children in found.children for child in children)]
    assert sorted(reached) == list(range(len(entries)))


def test_of_two_entries_with_one_id_the_later_one_counts():
    entries = [user("a"), user("a", None, "second"), user("b", "a")]
    assert branch(entries)[0]["message"]["content"] == "second"
    assert tree(entries).children == ((), (2,), ())


def test_labels_hold_until_they_are_replaced_or_cleared():
    def label(target, name=None):
        return {"type": "label", "targetId": target, "label": name}

    assert labels([label("a", "x"), label("b", "x"), label("a", "y"), label(5, "z")]) == {
        "a": "y",
        "b": "x",
    }
    assert labels([label("a", "x"), label("a", ""), label("b"), user("c")]) == {}


def test_nested_entries_are_walked_once_however_deep_they_are():
    entries = chain(DEEP)
    assert len(branch(entries)) == len(session_context(entries).messages) == DEEP
    assert sum(map(len, tree(entries).children)) == DEEP - 1
    for function in (branch, context_entries, session_context, tree):
        small, large = (asked(function, chain(count, Counted)) for count in (1_000, 4_000))
        assert 0 < large <= 4 * small + 9


# The context


def test_w20_an_older_compaction_is_not_shown_behind_the_one_that_stands_for_it():
    """The host shows its summary again where it stands in what is kept."""
    entries = [user("a"), cut("C", "a", "a", "old"), user("b", "C"), cut("D", "b", "a", "new")]
    assert ids(context_entries(entries)) == ["D", "a", "b"]
    messages = session_context(entries).messages
    assert [m.get("summary", m.get("content")) for m in messages] == ["new", "hi", "hi"]
    assert ids(context_entries(entries, "b")) == ["C", "a", "b"]


def test_w21_a_leaf_that_is_not_there_is_refused():
    """The host goes on with the last entry of the file, on whatever branch that is."""
    entries = [user("a"), user("b", "a"), user("c", "a")]
    for function in (context_entries, session_context):
        assert code(function, entries, "B") == ("unknown-entry", None)
        assert code(function, [{"type": "label"}])[0] == "unknown-entry"
    assert session_context(entries, None) == session_context([]) == Context(())


def test_a_compaction_that_keeps_nothing_known_keeps_nothing():
    for kept in ("nowhere", None, 5, "later"):
        entries = [user("a"), cut("C", "a", kept), user("later", "C")]
        assert ids(context_entries(entries)) == ["C", "later"]


def test_settings_come_from_the_whole_path():
    reply = {"role": "assistant", "content": [], "provider": "p", "model": "m"}
    entries = [
        {"type": "thinking_level_change", "id": "t", "thinkingLevel": "high"},
        {"type": "model_change", "id": "m", "parentId": "t", "provider": "q", "modelId": "n"},
        cut("C", "m", "C"),
        {"type": "message", "id": "r", "parentId": "C", "message": reply},
        {"type": "message", "id": "s", "parentId": "r", "message": {"role": "assistant"}},
    ]
    assert session_context(entries, "C").model == {"provider": "q", "modelId": "n"}
    assert session_context(entries, "r").model == {"provider": "p", "modelId": "m"}
    assert session_context(entries).model == {}
    assert session_context(entries).thinking_level == "high"


@pytest.mark.parametrize(
    ("entry", "messages"),
    [
        ({"type": "message", "message": {"role": "x", "content": None}}, [{"role": "x"}]),
        ({"type": "custom_message", "details": 1}, [{"role": "custom", "details": 1}]),
        ({"type": "branch_summary", "summary": "S"}, [{"role": "branchSummary", "summary": "S"}]),
        ({"type": "branch_summary"}, []),
        ({"type": "label", "label": "x"}, []),
        ({"type": ["message"]}, []),
        ({}, []),
    ],
)
def test_what_entries_contribute(entry, messages):
    bare = [
        {name: value for name, value in message.items() if value is not None}
        for message in messages_of(entry)
    ]
    assert bare == messages


@pytest.mark.parametrize("message", [None, 5, [], "text"])
def test_an_entry_without_its_message_is_refused(message):
    entry = {"type": "message", "id": "x", "message": message}
    assert code(session_context, [entry]) == ("wrong-type", "x")


# For a model


def texts(messages):
    return [message["content"][0]["text"] for message in to_model(messages)]


def test_commands_and_summaries_become_messages_of_the_user():
    command = {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 2.0}
    (told,) = texts([command])
    assert "`ls`" in told
    assert "```\na\n```" in told
    assert "exit code 2." in told
    quiet = {**command, "output": "", "exitCode": 0, "cancelled": True, "timestamp": 5}
    assert "cancelled" in texts([quiet])[0]
    assert to_model([quiet])[0]["timestamp"] == 5
    shown, branched = texts(
        [{"role": "compactionSummary", "summary": "S"}, {"role": "branchSummary", "summary": "W"}]
    )
    assert shown.endswith("<summary>\nS\n</summary>")
    assert branched.endswith("<summary>\nW</summary>")
    assert shown[:20] != branched[:20]
    nothing = [{"role": "branchSummary", "summary": ""}, {"role": "system", "content": "s"}]
    assert to_model([*nothing, {"role": "custom"}]) == [{"role": "user", "content": None}]


def test_half_a_character_in_a_summary_is_refused():
    assert code(to_model, [{"role": "branchSummary", "summary": "\ud800"}])[0] == "lone-surrogate"


def test_a_long_result_is_cut_between_characters():
    long = "x" * (RESULT - 1) + "\U0001f600" + "yz"
    text = serialize([{"role": "toolResult", "content": [{"type": "text", "text": long}]}])
    assert text.startswith(f"[Tool result]: {'x' * (RESULT - 1)}\n\n")
    assert "4 more characters" in text
    exact = "x" * (RESULT - 2) + "\U0001f600"
    assert serialize([{"role": "toolResult", "content": exact}]) == f"[Tool result]: {exact}"
    plain = serialize([{"role": "toolResult", "content": "x" * (RESULT + 1)}])
    assert "1 more characters" in plain


def test_parts_of_a_reply_stand_in_a_fixed_order():
    call = {"type": "toolCall", "name": "ls", "arguments": {"a": "\u00e9", "b": {"c": [1.0]}}}
    blocks = [
        call,
        {"type": "text", "text": "one"},
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "two"},
        {"type": "toolCall", "name": "pwd", "arguments": "no object"},
        {"type": "toolCall"},
        "no block",
    ]
    assert serialize([{"role": "assistant", "content": blocks}]) == (
        "[Assistant thinking]: hm\n\n[Assistant]: one\ntwo\n\n"
        '[Assistant tool calls]: ls(a="\u00e9", b={"c":[1]}); pwd(); ()'
    )
    assert serialize([{"role": "assistant", "content": "text"}, {"role": "user"}]) == ""


# The page


def test_every_name_is_told_on_its_page():
    root = Path(__file__).resolve().parents[1]
    page = (root / "docs/reference/host.md").read_text("utf-8")
    told = {word for text in re.findall(r"`([^`]+)`", page) for word in re.findall(r"\w+", text)}
    stems = {path.stem for path in (root / "ctxalgebra/compat").glob("host_*.py")}
    modules = [import_module(f"ctxalgebra.compat.{stem}") for stem in stems]
    assert stems | {name for module in modules for name in module.__all__} <= told
