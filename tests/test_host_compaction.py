"""What the pi host's context weighs, where it cuts, and what it summarises of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_host_context import Counted, asked, chain, code, cut, ids, user

from ctxalgebra.compat.host_branches import collect_entries, prepare_branch_entries
from ctxalgebra.compat.host_compaction import (
    CutPoint,
    find_cut_point,
    find_turn_start,
    prepare_compaction,
)
from ctxalgebra.compat.host_context import messages_of
from ctxalgebra.compat.host_entries import branch
from ctxalgebra.compat.host_files import FileOps, file_lists, file_ops
from ctxalgebra.compat.host_usage import (
    CompactionSettings,
    context_tokens,
    context_usage,
    entry_tokens,
    estimate_context,
    is_recoverable_length,
    should_compact,
)

HUGE = 10**400


def reply(name, parent, *blocks, **more):
    message = {"role": "assistant", "content": list(blocks), **more}
    return {"type": "message", "id": name, "parentId": parent, "message": message}


def called(tool, path=None):
    arguments = {} if path is None else {"path": path}
    return {"type": "toolCall", "id": "c", "name": tool, "arguments": arguments}


def result(name, parent, text):
    message = {"role": "toolResult", "toolCallId": "c", "content": text}
    return {"type": "message", "id": name, "parentId": parent, "message": message}


def said(text):
    return {"type": "text", "text": text}


# Usage


def test_w32_a_call_without_arguments_weighs_something_everywhere():
    """One of the host's two functions fails there, and with it all that rests on it."""
    bare = reply("b", "a", {"type": "toolCall", "name": "ls"})
    assert estimate_context([bare["message"]]).tokens == entry_tokens(bare) == 3
    path = [user("a"), bare, user("c", "b")]
    assert find_cut_point(path, 1) == CutPoint(2)
    assert prepare_compaction(path, CompactionSettings(keep_recent_tokens=1)).tokens_before == 5
    assert prepare_branch_entries(path).tokens == 5


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"totalTokens": 5, "input": 9}, 5),
        ({"totalTokens": 0, "input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4}, 10),
        ({"input": 1, "output": 2}, 0),
        ({"totalTokens": -5}, 0),
        ({"totalTokens": HUGE}, 0),
        ({"input": 1e308, "output": HUGE, "cacheRead": 0, "cacheWrite": 0}, 0),
        ({"input": 1e308, "output": 1e308, "cacheRead": 0, "cacheWrite": 0}, 0),
        ({"input": 10**308, "output": 10**308, "cacheRead": 0.5, "cacheWrite": 0}, 0),
        ({}, 0),
    ],
)
def test_usage_counts_where_it_is_whole(usage, tokens):
    message = {"role": "assistant", "content": [], "usage": usage}
    assert context_tokens(usage) == tokens
    assert estimate_context([message]).last == (0 if tokens else None)


def test_usage_of_a_reply_that_broke_off_does_not_count():
    usage = {"totalTokens": 50}
    good = {"role": "assistant", "content": [], "usage": usage, "stopReason": "stop"}
    bad = [{**good, "content": [said("12345")], "stopReason": why} for why in ("error", "aborted")]
    assert estimate_context([good, *bad]) == (54, 50, 4, 0)
    assert estimate_context(bad) == (4, 0, 4, None)


def test_after_a_compaction_nobody_knows_until_a_reply_reports():
    path = [user("a"), cut("C", "a", "a"), user("b", "C")]
    usage = {"totalTokens": 50}
    assert context_usage(path, 100, "a").tokens == 1
    assert context_usage(path, 100) == (None, 100, None)
    path.append(reply("r", "b", usage=usage))
    assert context_usage(path, 200) == (50, 200, 25)
    path.append(reply("s", "r", usage={**usage, "totalTokens": 60}, stopReason="aborted"))
    assert context_usage(path, 200).tokens == 50
    path.append(reply("t", "s"))
    assert context_usage(path, 200).tokens is None


def test_numbers_that_the_host_does_not_have_are_refused():
    path = [user("a")]
    for function in (context_usage, find_cut_point, prepare_branch_entries):
        for number in (HUGE, float("inf"), float("nan")):
            assert code(function, path, number)[0] == "invalid-argument"
    assert code(should_compact, 1, HUGE)[0] == code(should_compact, HUGE, 1)[0]
    settings = CompactionSettings(reserve_tokens=HUGE)
    assert code(should_compact, 1, 2, settings)[0] == "invalid-argument"
    much = [reply("a", None, usage={"totalTokens": 10**308})]
    assert context_usage(much, 0.001).percent is None
    assert context_usage(much, -1) is None


def test_when_to_compact():
    assert should_compact(111_617, 128_000)
    assert not should_compact(111_616, 128_000)
    assert not should_compact(111_617, 128_000, CompactionSettings(enabled=False))


@pytest.mark.parametrize("usage", [None, {}, {"output": "9"}, {"output": True}, {"output": 10}])
def test_only_a_reply_that_fell_short_can_be_recovered(usage):
    message = {"stopReason": "length", "usage": usage}
    assert not is_recoverable_length(message, 10)
    short = {**message, "usage": {"output": 9}}
    assert is_recoverable_length(short, 10)
    assert not is_recoverable_length(short, 0)
    assert not is_recoverable_length({**short, "stopReason": "stop"}, 10)


# The cut


def test_w19_a_result_larger_than_what_is_kept_does_not_stop_the_cut():
    """The host leaves the cut at the first message, so that compaction achieves nothing."""
    path = [
        user("a"),
        reply("b", "a", said("x")),
        reply("c", "b", called("read")),
        *[result("r", "c", "x" * 400)],
    ]
    assert find_cut_point(path, 50) == CutPoint(2, 0)
    assert find_cut_point(path, 50).splits
    ready = prepare_compaction(path, CompactionSettings(keep_recent_tokens=50))
    assert ready.first_kept == "c"
    assert ready.split
    assert len(ready.turn_prefix) == 2
    assert ready.to_summarize == ()


def test_a_cut_takes_what_says_nothing_in_front_of_it_but_no_compaction():
    note = {"type": "label", "id": "l", "parentId": "a"}
    assert find_cut_point([user("a"), note, user("b")], 1) == CutPoint(1, 0)
    assert find_cut_point([user("a"), cut("C", "a", "a"), note, user("b")], 1) == CutPoint(2, 0)
    assert find_cut_point([note, user("a")], 9) == CutPoint(0)
    assert find_cut_point([note, user("a")], 9, 1) == CutPoint(1)
    assert find_cut_point([cut("C", "a", "a"), result("r", "C", "x")], 0) == CutPoint(0)
    assert find_cut_point([], 0) == CutPoint(0)


def test_weights_of_nothing_are_passed_over():
    path = [user("a"), user("b", "a", ""), user("c", "b", "")]
    assert find_cut_point(path, 0) == CutPoint(0)


@pytest.mark.parametrize(("at", "start"), [(3, 0), (1, -1), (9, 2)])
def test_indices_that_are_none_of_entries_are_refused(at, start):
    path = chain(3)
    assert code(find_turn_start, path, at, start)[0] == "invalid-argument"
    assert code(find_cut_point, path, 1, start, at + 1)[0] == "invalid-argument"
    assert find_turn_start(path, 2, 3) == -1


KINDS = st.sampled_from(["user", "reply", "result", "label", "cut", "custom_message"])


def entry_of(kind, at, text):
    name, parent = f"e{at}", f"e{at - 1}" if at else None
    match kind:
        case "user":
            return user(name, parent, text)
        case "reply":
            return reply(name, parent, said(text), called("edit", text))
        case "result":
            return result(name, parent, text)
        case "cut":
            return cut(name, parent, f"e{len(text) % (at + 1)}", text)
    return {"type": kind, "id": name, "parentId": parent, "content": text}


@st.composite
def paths(draw):
    kinds = draw(st.lists(KINDS, max_size=12))
    return [entry_of(kind, at, "x" * draw(st.integers(0, 40))) for at, kind in enumerate(kinds)]


@given(paths(), st.integers(0, 60), st.data())
def test_what_a_cut_keeps_never_begins_with_a_result(path, keep, data):
    start = data.draw(st.integers(0, len(path)))
    found = find_cut_point(path, keep, start)
    assert start <= found.first <= len(path)
    assert found.turn < found.first
    kept = [m for e in path[found.first :] if e["type"] != "compaction" for m in messages_of(e)]
    ours = [m for e in path[start:] if e["type"] != "compaction" for m in messages_of(e)]
    if any(message["role"] != "toolResult" for message in ours):
        assert kept[0]["role"] != "toolResult"
    more = find_cut_point(path, keep + 1, start)
    assert more.first <= found.first


@given(paths(), st.integers(1, 60))
def test_what_is_summarised_and_what_is_kept_is_all_there_is(path, keep):
    ready = prepare_compaction(path, CompactionSettings(keep_recent_tokens=keep))
    if ready is None:
        return
    places = ids(path)
    last = max((at for at, e in enumerate(path) if e["type"] == "compaction"), default=-1)
    start = places.index(path[last]["firstKeptEntryId"]) if last >= 0 else 0
    spoken = [
        message
        for entry in path[start : places.index(ready.first_kept)]
        if entry["type"] != "compaction"
        for message in messages_of(entry)
    ]
    assert [*ready.to_summarize, *ready.turn_prefix] == spoken != []
    assert ready.previous_summary == (path[last]["summary"] if last >= 0 else None)
    assert bool(ready.turn_prefix) <= ready.split


def test_there_is_nothing_to_prepare():
    path = [user("a"), user("b", "a"), cut("C", "b", "b")]
    assert prepare_compaction([]) is prepare_compaction(path) is None
    assert prepare_compaction(path[:2]) is None
    nameless = [user("a"), {**user("b", "a"), "id": None}, user("c")]
    assert prepare_compaction(nameless, CompactionSettings(keep_recent_tokens=2)) is None
    kept = [*path[:2], cut("C", "b", "gone"), user("c", "C"), user("d", "c")]
    ready = prepare_compaction(kept, CompactionSettings(keep_recent_tokens=1))
    assert ready.to_summarize == (kept[3]["message"],)


# Files


def test_files_are_those_of_calls_and_of_the_hosts_own_summaries():
    details = {"readFiles": ["old", 5], "modifiedFiles": "no list"}
    before = cut("C", None, None) | {"details": details}
    path = [before, reply("a", "C", called("read", "new"), called("write", "w")), user("b", "a")]
    settings = CompactionSettings(keep_recent_tokens=1)
    assert prepare_compaction(path, settings).files == FileOps(("old", "new"), ("w",))
    path[0] = {**before, "fromHook": True}
    assert prepare_compaction(path, settings).files == FileOps(("new",), ("w",))
    path[0] = {**before, "details": "text"}
    assert prepare_compaction(path, settings).files == FileOps(("new",), ("w",))
    branched = {"type": "branch_summary", "summary": "S", "details": {"modifiedFiles": ["m"]}}
    assert prepare_branch_entries([branched, *path[1:]]).files == FileOps(("new",), ("w",), ("m",))


def test_files_are_sorted_by_units_and_modified_ones_were_not_only_read():
    blocks = [called("read", name) for name in ("b", "\uffff", "\U0001f600", "b")]
    odd = [called("read"), called("read", ""), called("ls", "x"), {"type": "toolCall"}, "text"]
    edits = [called("edit", name) for name in ("b", "\uffff!", "\U0001f600!")]
    message = {"role": "assistant", "content": [*blocks, *edits, *odd]}
    found = file_lists(file_ops([message, {**message, "role": "user"}]))
    assert found.read == ("\U0001f600", "\uffff")
    assert found.modified == ("b", "\U0001f600!", "\uffff!")
    assert found.text.startswith("\n\n<read-files>\n\U0001f600\n\uffff\n</read-files>\n\n<mod")
    assert file_lists(FileOps()).text == ""


# Branches


def test_what_is_left_lies_behind_the_last_entry_that_both_paths_share():
    entries = [*chain(3), user("f", "e1"), user("g", "f"), user("o", "ghost")]
    left = collect_entries(entries, "e2", "g")
    assert (ids(left.entries), left.ancestor) == (["f", "g"], "e1")
    assert collect_entries(entries, "g", "e1") == ((), "e1")
    assert ids(collect_entries(entries, "e0").entries) == ["o"]
    assert collect_entries(entries, "e0", None) == collect_entries(entries, "e0", "x") == ((), None)
    assert collect_entries(entries, None, "e0").ancestor is None
    nameless = [{"type": "label"}]
    assert collect_entries(nameless, None) == ((), None)


@given(st.lists(st.integers(-1, 8), max_size=9), st.data())
def test_the_way_back_and_what_is_left_are_the_old_path(parents, data):
    entries = [
        user(f"e{at}", None if parent < 0 else f"e{min(parent, at - 1)}")
        for at, parent in enumerate(parents)
    ]
    names = st.sampled_from([*ids(entries), "nowhere"])
    leaf, target = data.draw(names), data.draw(names)
    left = collect_entries(entries, target, leaf)
    assert [*branch(entries, left.ancestor), *left.entries] == branch(entries, leaf)
    shared = set(ids(branch(entries, target))) & set(ids(branch(entries, leaf)))
    assert not shared & set(ids(left.entries))


@given(paths(), st.integers(0, 60))
def test_a_summary_of_a_branch_holds_its_newest_messages(path, budget):
    found = prepare_branch_entries(path, budget)
    every = prepare_branch_entries(path)
    newest = every.messages[len(every.messages) - len(found.messages) :]
    assert found.messages == newest
    assert found.tokens == estimate_context(found.messages).tokens
    if budget and found.tokens > budget:
        assert found.messages[0]["role"] == "compactionSummary"
    assert not any(m["role"] == "toolResult" for m in every.messages)


def test_a_summary_is_taken_beyond_the_budget_while_a_tenth_is_free():
    path = [cut("C", None, None, "x" * 40), user("a", "C", "x" * 36)]
    assert prepare_branch_entries(path, 10).tokens == 9
    assert prepare_branch_entries(path, 11).tokens == 19
    assert prepare_branch_entries([user("b"), *path[1:]], 9).tokens == 9


# Growth


def test_work_grows_with_the_entries():
    def nested(count):
        entries = chain(count, Counted)
        for at in range(0, count, 7):
            entries[at] = Counted(result(f"e{at}", f"e{at - 1}" if at else None, "x" * 40))
        return entries

    settings = CompactionSettings(keep_recent_tokens=100)
    for function in (
        lambda entries: find_cut_point(entries, 10**9),
        lambda entries: prepare_compaction(entries, settings),
        lambda entries: context_usage(entries, 1_000),
        lambda entries: prepare_branch_entries(entries, 0),
        lambda entries: collect_entries(entries, "e0"),
    ):
        small, large = (asked(function, nested(count)) for count in (700, 2_800))
        assert 0 < large <= 4.1 * small
