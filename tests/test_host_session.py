"""Methods of the pi host's session, and moving in its tree."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_host_context import Counted, asked, chain, code, ids, user

import ctxalgebra
from ctxalgebra.compat.host_context import session_context
from ctxalgebra.compat.host_entries import branch, labels
from ctxalgebra.compat.host_session import METHODS, navigate, play


def results(entries, *calls, **more):
    played = play(entries, [(name, arguments) for name, *arguments in calls], **more)
    return [r.code if isinstance(r, ctxalgebra.CtxError) else r for r in played.results]


def test_an_appended_entry_hangs_on_the_leaf_and_is_the_leaf():
    calls = [
        ("appendMessage", [{"role": "user", "content": "x"}]),
        ("appendThinkingLevelChange", ["low"]),
        ("appendModelChange", ["p", "m"]),
        ("appendCompaction", ["S", "n1", 9, None, True]),
        ("appendCustomEntry", ["k"]),
        ("appendCustomMessageEntry", ["k", "c", False, {"d": 1}, "one too many"]),
        ("appendSessionInfo", ["\ufeff a\u3000"]),
        ("appendLabelChange", ["n1", "x"]),
    ]
    played = play([], calls)
    assert list(played.results) == ids(played.appended) == [f"n{n}" for n in range(1, 9)]
    assert [e["parentId"] for e in played.appended] == [None, *played.results[:-1]]
    assert played.leaf == "n8"
    assert played.appended[3]["details"] is None
    assert "data" not in played.appended[4]
    assert played.appended[5]["details"] == {"d": 1}
    assert played.appended[6]["name"] == "a"


def test_names_that_are_taken_are_passed_over():
    entries = [user("n1"), user("n3")]
    calls = [("appendSessionInfo", [""])] * 3
    assert list(play(entries, calls).results) == ["n2", "n4", "n5"]


def test_branches_and_their_summaries():
    entries = [user("a"), user("b", "a")]
    played = play(
        entries,
        [
            ("branchWithSummary", ["a", "S", None, True]),
            ("branchWithSummary", [None, "S"]),
            ("branchWithSummary", []),
            ("branch", ["b"]),
        ],
    )
    first, second, third = played.appended
    assert first["parentId"] == first["fromId"] == "a"
    assert (second["parentId"], second["fromId"]) == (None, "root")
    assert third == {"type": "branch_summary", "id": "n3", "parentId": None, "fromId": "root"}
    assert played.leaf == "b"


def test_what_is_not_there_is_refused_and_nothing_is_written():
    entries = [user("a")]
    for name in ("branch", "branchWithSummary", "appendLabelChange"):
        for target in ("zz", 5, ["a"], ""):
            played = play(entries, [(name, [target, "x"])])
            assert [r.code for r in played.results] == ["unknown-entry"]
            assert (played.leaf, played.appended) == ("a", ())
    assert results(entries, ("branch",), ("appendLabelChange", None)) == ["unknown-entry"] * 2
    assert results(entries, ("appendSessionInfo", 5), ("fly",)) == [
        "wrong-type",
        "invalid-argument",
    ]
    assert code(play, entries, [], "zz")[0] == "unknown-entry"


def test_labels_are_those_of_the_entry_and_the_last_one_holds():
    """The host lets two entries have one label."""
    entries = [user("a"), user("b", "a")]
    calls = [("appendLabelChange", *pair) for pair in (("a", "x"), ("b", "x"), ("a", ""))]
    told = results(entries, *calls, ("getLabel", "a"), ("getLabel", "b"), ("getLabel", []))
    assert told[3:] == [None, "x", None]
    assert labels(play(entries, [(n, a) for n, *a in calls]).appended) == {"b": "x"}


def test_what_can_be_asked():
    entries = [user("a"), user("b", "a"), {"type": "session_info", "id": "i", "name": 5}]
    told = results(
        entries,
        ("getSessionName",),
        ("getEntry", "b"),
        ("getEntry", {}),
        ("getChildren", "a"),
        ("getLeafId",),
        ("getBranch", "b"),
        ("getBranch",),
        ("getBranch", None),
        ("getBranch", {}),
        ("resetLeaf",),
        ("getBranch",),
        ("getEntries",),
    )
    b = entries[1]
    assert told[:5] == [None, b, None, [b], "i"]
    assert told[5:] == [entries[:2], entries[2:], entries[2:], [], None, [], entries]
    assert results([], ("getSessionName",), ("getLeafId",)) == [None, None]
    circle = [user("a", "b"), user("b", "a")]
    assert results(circle, ("getBranch",), ("getLeafId",)) == ["cyclic-parent", "b"]


ARGUMENTS = st.one_of(
    st.none(), st.sampled_from(["a", "b", "n1", "n2", "zz", ""]), st.integers(), st.just([])
)
CALLS = st.lists(
    st.tuples(st.sampled_from(sorted(METHODS)), st.lists(ARGUMENTS, max_size=4)), max_size=12
)


@given(CALLS, st.sampled_from([None, "a", "b"]))
def test_scripts_keep_what_was_given_and_every_new_entry_has_its_parent(calls, leaf):
    entries = [user("a"), user("b", "a")]
    before = deepcopy(entries)
    played = play(entries, calls, leaf)
    assert entries == before
    assert len(played.results) == len(calls)
    known = {None, "a", "b"}
    for entry in played.appended:
        assert entry["parentId"] in known
        assert entry["id"] not in known
        known.add(entry["id"])
    assert played.leaf in known
    half = len(calls) // 2
    first = play(entries, calls[:half], leaf)
    rest = play([*entries, *first.appended], calls[half:], first.leaf)
    assert [*first.appended, *rest.appended] == list(played.appended)
    assert rest.leaf == played.leaf


# Moving


def test_a_message_of_the_user_goes_back_to_the_editor():
    blocks = [{"type": "text", "text": "x"}, {"type": "image"}, {"type": "text", "text": "y"}]
    reply = {"type": "message", "id": "r", "parentId": "b", "message": {"role": "assistant"}}
    custom = {"type": "custom_message", "id": "c", "parentId": "r", "content": "note"}
    entries = [user("a"), user("b", "a", blocks), reply, custom, user("d", "c", None)]
    assert navigate(entries, "b") == ("d", "a", "xy", (entries[0]["message"],), ())
    assert navigate(entries, "a").leaf is None
    assert navigate(entries, "c")[:3] == ("d", "r", "note")
    assert navigate(entries, "r")[:3] == ("d", "r", None)
    assert navigate(entries, "d", "a")[:3] == ("a", "c", "")
    assert navigate(entries, "d") == ("d", "d", None, None, ())


def test_a_label_hangs_on_the_new_leaf():
    entries = [user("a"), user("b", "a")]
    moved = navigate(entries, "a", label="x")
    assert moved.leaf == "n1"
    assert moved.appended == (
        {"type": "label", "id": "n1", "parentId": None, "targetId": "a", "label": "x"},
    )
    assert moved.messages == ()
    assert navigate(entries, "a", label="").appended == ()
    assert navigate(entries, "b", label="x").appended == ()


@pytest.mark.parametrize(
    ("entries", "target", "leaf", "found"),
    [
        ([user("a")], "zz", None, "unknown-entry"),
        ([user("a")], "a", "zz", "unknown-entry"),
        ([user("a", "ghost"), user("b", "a")], "a", "b", "unknown-entry"),
        ([user("a", 5), user("b", "a")], "a", "b", "unknown-entry"),
        ([user("a", "b"), user("b", "a")], "a", "b", "cyclic-parent"),
        ([user("a", "b"), user("b", "a")], "a", None, "cyclic-parent"),
        ([{"type": "message", "id": "a"}, user("b", "a")], "a", "b", "wrong-type"),
    ],
)
def test_moves_that_are_refused(entries, target, leaf, found):
    assert code(navigate, entries, target, leaf)[0] == found


@given(st.lists(st.integers(-1, 8), min_size=1, max_size=9), st.data())
def test_the_messages_are_those_of_the_new_leaf(parents, data):
    entries = [
        user(f"e{at}", None if parent < 0 else f"e{min(parent, at - 1)}" if at else None)
        if parent % 2
        else {"type": "label", "id": f"e{at}", "parentId": f"e{at - 1}" if at else None}
        for at, parent in enumerate(parents)
    ]
    target, leaf = (data.draw(st.sampled_from([*ids(entries)])) for _ in range(2))
    moved = navigate(entries, target, leaf)
    if moved.messages is None:
        assert target == leaf == moved.leaf
    else:
        assert moved.messages == session_context(entries, moved.leaf).messages
        path = ids(branch(entries, target))
        assert moved.leaf == (target if moved.text is None else [None, *path][-2])


def test_work_grows_with_the_entries():
    for function in (
        lambda entries: navigate(entries, "e1"),
        lambda entries: play(entries, [("appendSessionInfo", ["x"])] * len(entries)),
    ):
        small, large = (asked(function, chain(count, Counted)) for count in (500, 2_000))
        assert 0 < large <= 4.1 * small
