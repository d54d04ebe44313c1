"""The timeline of the original at the door: its rules, without its faults, on hostile entries."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import DecodeError
from ctxalgebra.codecs.pi_weights import utf16_length
from ctxalgebra.compat.travel_timeline import (
    CAP,
    TEXT,
    excerpt,
    read_budget,
    search_tree,
    tree_lines,
)
from ctxalgebra.conformance import door

CODES = {"cyclic-parent", "wrong-type", "invalid-input", "unknown-entry"}


def said(id, parent, role, content, **more):
    message = {"role": role, "content": content, **more}
    return {"type": "message", "id": id, "parentId": parent, "message": message}


def chain(count, kind="model_change"):
    """Grow entries that give way, each below the one before it, between two that are shown."""
    names = [f"n{at}" for at in range(count)]
    inner = [
        {"type": kind, "id": name, "parentId": names[at]} for at, name in enumerate(names[1:-1])
    ]
    first, last = said(names[0], None, "user", "first"), said(names[-1], names[-2], "user", "last")
    return [first, *inner, last]


# Faults


def test_w12_any_depth_works():
    entries = chain(50_000)
    found = tree_lines(entries)
    assert found.lines == ("└─ n0 [USER] first", "  └─ n49999 (HEAD) [USER] last")
    assert (found.hidden, found.truncated) == (49_998, False)
    verbose = tree_lines(entries, verbose=True)
    assert (len(verbose.lines), verbose.truncated) == (50, True)
    assert len(tree_lines(entries, depth=10**6, verbose=True).lines) == 200
    assert search_tree(entries, "last", scan=60_000).matches == (("n49999", None, "last"),)


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=30), st.integers(0, 12))
def test_w23_no_excerpt_ends_inside_a_character(text, most):
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    line = excerpt(whole, most)
    assert utf16_length(line) <= most + 1
    body = line.removesuffix("…")
    if line != body and "…" not in whole:
        assert excerpt(whole, 10**6).startswith(body)
        assert most - utf16_length(body) <= 1


def test_the_door_cuts_at_characters():
    answer = door.result("travel.timeline_snippet", {"text": "ab\U0001f600", "max": 3})
    assert answer == {"output": "ab…"}
    assert door.result("travel.timeline_snippet", {"text": "x" * 101}) == {
        "output": "x" * 100 + "…"
    }


def test_w11_the_originals_search_reads_texts_only():
    call = [{"type": "toolCall", "id": "c", "name": "bash", "arguments": {"x": "needle"}}]
    entries = [
        said("a", None, "assistant", [{"type": "thinking", "thinking": "needle"}, *call]),
        said("b", "a", "bashExecution", None, command="needle", output="needle"),
        {"type": "custom_message", "id": "c", "parentId": "b", "content": "needle"},
        said("d", "c", "custom", "a needle"),
    ]
    del entries[1]["message"]["content"]
    assert search_tree(entries, "needle").matches == (("d", None, "a needle"),)


# Rules beside the vectors


def test_a_search_reads_so_much_of_an_entry_and_so_much_in_all():
    big = [said(f"n{at}", f"n{at - 1}" if at else None, "user", "x" * 70_000) for at in range(40)]
    found = search_tree(big, "needle")
    assert (found.characters, found.stopped) == (TEXT, "text_budget")
    assert (found.cut_by_cap, found.cut_by_budget) == (TEXT // CAP, 1)
    assert found.scanned == TEXT // CAP + 1
    even = [said(f"n{at}", f"n{at - 1}" if at else None, "user", "x" * 50_000) for at in range(41)]
    found = search_tree(even, "needle")
    assert (found.scanned, found.stopped, found.cut_by_budget) == (40, "text_budget", 0)
    assert search_tree(even[:40], "needle").stopped is None
    few = search_tree(even, "X", limit=2)
    assert ([name for name, _, _ in few.matches], few.stopped) == (["n0", "n1"], "limit")
    assert search_tree(even[:2], "X", limit=2).stopped is None
    long = {"type": "compaction", "id": "c", "parentId": None, "summary": "y" * 70_000 + "needle"}
    found = search_tree([long], "needle")
    assert (found.matches, found.cut_by_cap, found.characters) == ((), 1, CAP)


def test_texts_of_rows():
    entries = [
        said("s", None, "system", "be brief"),
        said("u", "s", "custom", "c"),
        {"type": "branch_summary", "id": "b", "parentId": "u", "summary": ""},
        {"type": "label", "id": "L", "parentId": "b", "targetId": "u", "label": "x" * 300},
        {"type": "label", "id": "M", "parentId": "L", "targetId": "s"},
        {"type": "message", "id": "q", "parentId": "M"},
    ]
    lines = tree_lines(entries, verbose=True).lines
    assert [line.lstrip() for line in lines] == [
        "└─ s [SYSTEM] be brief",
        f"└─ u (checkpoint: {'x' * 240}…) [CUSTOM] c",
        "└─ b [SUMMARY] (nothing was written)",
        f"└─ L [LABEL] label {'x' * 94}…",
        "└─ M [LABEL] label cleared → s",
        "└─ q (HEAD) [MESSAGE] ",
    ]
    short = tree_lines(entries, "b").lines
    assert short[0].endswith("[CUSTOM] ")
    assert tree_lines([], None).lines == ()
    assert tree_lines([]).lines == ()


@pytest.mark.parametrize(
    ("window", "used"),
    [(0, 1), (-5, None), (float("inf"), 0), (float("nan"), 0), (None, None), ("x", "y"), (True, 1)],
)
def test_a_window_that_is_none_is_not_known(window, used):
    assert read_budget(window, used).entries == 100


def test_types_and_roles_that_are_none():
    entries = [{"type": [], "id": "a"}, said("b", "a", [], "x"), said("c", "b", {}, "needle")]
    lines = tree_lines(entries, verbose=True).lines
    assert [line.lstrip() for line in lines] == [
        "└─ a [UNKNOWN] unknown",
        "└─ b [MESSAGE] x",
        "└─ c (HEAD) [MESSAGE] needle",
    ]
    assert search_tree(entries, "needle", kind="user").matches == ()
    assert [name for name, _, _ in search_tree(entries, "needle").matches] == ["c"]


def test_parents_in_a_circle_are_an_error():
    entries = [said("a", "b", "user", "x"), said("b", "a", "user", "y")]
    for ask in (lambda: tree_lines(entries), lambda: search_tree(entries, "x")):
        with pytest.raises(DecodeError) as caught:
            ask()
        assert caught.value.code == "cyclic-parent"


# Whatever comes in

VALUES = st.none() | st.booleans() | st.integers(-2, 9) | st.text(max_size=4) | st.just([])
IDS = st.sampled_from(["a", "b", "c", "d", None, "", 5])
BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "toolCall", "thinking", None])},
    optional={"text": VALUES, "name": VALUES},
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "toolResult", "custom", "bashExecution"])
        | VALUES,
        "content": st.lists(BLOCK, max_size=3) | VALUES,
        "toolName": st.sampled_from(["read", "acm_travel"]) | VALUES,
    },
)
ENTRY = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "label", "branch_summary", "compaction", "x", None, []])},
    optional={
        "id": IDS,
        "parentId": IDS,
        "timestamp": st.sampled_from(["2026-01-01T00:00:01.000Z", "never", 5]),
        "message": MESSAGE | VALUES,
        "targetId": IDS,
        "label": VALUES,
        "summary": VALUES,
    },
)
ENTRIES = st.lists(ENTRY, max_size=8)


def asked(operation, value):
    """Ask the door twice, by way of JSON, and refuse what is no answer."""
    value = json.loads(json.dumps(value))
    answer = door.result(f"travel.timeline_{operation}", value)
    assert answer == door.result(f"travel.timeline_{operation}", value)
    assert answer.get("error", {"code": "invalid-input"})["code"] in CODES
    return answer.get("output")


@given(ENTRIES, IDS, st.integers(-1, 60), st.booleans())
def test_whatever_the_entries_are_a_tree_is_lines_or_a_coded_error(entries, leaf, depth, verbose):
    given_ = {"entries": entries, "leafId": leaf, "maxDepth": depth, "verbose": verbose}
    found = asked("render_tree", given_)
    if found is not None:
        assert len(found["lines"]) + found["hiddenNodes"] <= len(entries)
        if not found["truncated"]:
            assert len(found["lines"]) + found["hiddenNodes"] == len(entries)
            assert found["hiddenNodes"] == 0 or not verbose
        assert sum("(HEAD" in line for line in found["lines"]) <= len(entries)


@given(
    ENTRIES,
    IDS,
    st.text(max_size=3),
    st.integers(0, 5),
    st.integers(0, 9),
    st.sampled_from(["active", "archive", None]),
    st.sampled_from(["user", "summary", "tool", None]),
)
def test_whatever_the_entries_are_a_search_keeps_its_limits(
    entries, leaf, query, limit, scan, scope, kind
):
    given_ = {"entries": entries, "leafId": leaf, "query": query, "limit": limit}
    given_ |= {"scanNodeBudget": scan, "scope": scope, "type": kind}
    found = asked("search_tree", given_)
    if found is not None:
        assert len(found["matches"]) <= limit
        assert found["scannedNodes"] <= min(scan, len(entries))
        assert found["truncated"] == (found["truncationReason"] is not None)
        whole = asked("search_tree", {**given_, "limit": 99, "scanNodeBudget": 99})
        assert found["matches"] == whole["matches"][: len(found["matches"])]
        if scope is None:
            parts = [
                asked("search_tree", {**given_, "limit": 99, "scanNodeBudget": 99, "scope": one})
                for one in ("active", "archive")
            ]
            assert sum(len(part["matches"]) for part in parts) == len(whole["matches"])


@given(
    st.dictionaries(st.sampled_from(["tokens", "contextWindow", "percent"]), st.floats() | VALUES)
)
def test_budgets_have_their_bounds(usage):
    numbers = {
        name: value
        for name, value in usage.items()
        if not isinstance(value, float) or abs(value) < 1e300
    }
    found = asked("budgets", {"usage": numbers})
    assert 50 <= found["entries"] <= 400
    assert 8_000 <= found["chars"] <= 160_000
    assert found["chars"] % 4 == 0
