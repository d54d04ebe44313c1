"""Odd input at the door's operations of paging: settings, selector and sessions."""

from __future__ import annotations

import pytest

from ctxalgebra.conformance import door

LENGTHS = {"normal": 100, "budgetDigits": False}
ITEM = {"id": "h", "kind": "user", "userMessage": {"role": "user", "content": "x"}}
TURN = {"id": "t", "kind": "modelTurn", "assistantMessage": {"role": "assistant", "content": []}}
CUT = {"frontier": {"kind": "prefix", "lastEvicted": {"historyId": "h"}}, "notice": {}}


def code(operation, given):
    return door.result(f"paging.{operation}", given).get("error", {}).get("code", "")


@pytest.mark.parametrize(
    "items",
    [
        ["x"], [{}], [{**ITEM, "id": 1}], [{**ITEM, "userMessage": "x"}],
        [{**ITEM, "userMessage": {"role": "assistant"}}], [{**TURN, "toolResults": 1}],
        [{**TURN, "toolResults": [1]}],
    ],
)  # fmt: skip
def test_what_is_no_item_is_refused(items):
    assert code("cut_keys", {"items": items, "messages": []}) == "invalid-input"


@pytest.mark.parametrize(
    "frontier",
    [
        {}, {"kind": "prefix"}, {"kind": "prefix", "lastEvicted": {}},
        {"kind": "other", "lastEvicted": {"historyId": "h"}},
        {"kind": "prefix", "lastEvicted": {"historyId": "h", "toolCallId": 1}},
        {"kind": "prefix", "lastEvicted": {"historyId": "h"}, "userHistoryId": 1},
    ],
)  # fmt: skip
def test_what_is_no_frontier_is_refused(frontier):
    given = {"items": [ITEM], "frontier": frontier}
    assert code("raw_cut_frontier_resolves", given) == "invalid-input"


def test_scripts_of_unknown_operations_are_refused():
    assert code("cut_state", {"ops": [{"op": "x"}]}) == "invalid-input"
    for op in ({"op": "x"}, {"op": "append"}, {"op": "append", "entries": [1]}, {"op": "respond"}):
        given = {"tokenBudget": 9, "noticeLengths": {}, "ops": [op]}
        assert code("session", given) == "invalid-input"
    assert code("default_trim_to_tokens", {"tokenBudget": 0}) == "invalid-input"


def test_lengths_of_notices_are_lengths():
    messages = [
        {"role": "user", "content": "x" * 800, "timestamp": 1},
        {"role": "user", "content": "y", "timestamp": 2},
    ]
    given = {
        "systemPrompt": "", "activeTools": [], "tokenBudget": 100, "messages": messages,
        "rawHistoryItems": None,
    }  # fmt: skip
    for odd in (-1, "9", 1.5):
        assert code("select_context", {**given, "noticeLengths": {"normal": odd}}) == (
            "invalid-input"
        )
    huge = {**given, "noticeLengths": {"normal": 10**18}}
    assert door.result("paging.select_context", huge)["error"]["estimatedTokens"] == 25_002
    assert code("select_context", {**given, "cutState": CUT, "noticeLengths": LENGTHS}) == ""


def entry(name, message):
    return {"type": "message", "id": name, "timestamp": "t", "message": message}


def session(*ops, budget=1000):
    given = {"tokenBudget": budget, "noticeLengths": LENGTHS, "ops": list(ops)}
    return door.result("paging.session", given)["output"]


def test_errors_of_a_session_are_results_and_it_goes_on():
    hello = {"role": "user", "content": "hello", "timestamp": 1}
    orphan = {"role": "toolResult", "toolCallId": "c", "content": [], "timestamp": 2}
    odd = {"role": "user", "content": 5, "timestamp": 1}
    first, second, third, fourth, fifth, sixth = [
        found
        for found in session(
            {"op": "append", "entries": [entry("a", hello), {"type": "label"}]},
            {"op": "append", "entries": [{"type": "message", "id": "z", "message": None}]},
            {"op": "append", "entries": [{"type": "custom_message", "content": "x"}]},
            {"op": "respond", "entry": {"type": "label"}},
            {"op": "select"},
            {"op": "select", "messages": [odd]},
            {"op": "select", "messages": [orphan], "noRaw": True},
            {"op": "select", "tokenBudget": 0},
            {"op": "append", "entries": [entry("b", orphan)]},
            {"op": "select", "messages": [hello]},
            {"op": "select"},
        )
        if found is not None
    ]
    assert first["layout"] == [0, 1]
    assert second == {"error": {"code": "error"}}
    assert third == {"error": {"code": "INVALID_MESSAGE_STRUCTURE"}}
    assert fourth["error"]["code"] == "INVALID_TOKEN_BUDGET"
    # History that can't be projected is none, and its messages are refused as they stand.
    assert (fifth["layout"], fifth["frontier"]) == ([0], None)
    assert sixth == {"error": {"code": "INVALID_MESSAGE_STRUCTURE"}}


def test_figures_of_odd_entries():
    odd = entry("a", {"role": "user", "content": 5})
    given = {"entries": [odd], "enabled": True, "tokenBudget": 9}
    assert code("stats", given) == "error"
    assert code("stats", {**given, "tokenBudget": 0}) == "invalid-input"
    latest = {"tokens": "9", "estimated": True}
    assert code("stats", {**given, "latestInput": latest}) == "invalid-input"


def test_the_host_hands_out_clones_so_that_a_call_id_leads_to_its_newest_turn():
    def turn(name, time, size):
        call = {"type": "toolCall", "id": "call_0", "name": "read", "arguments": {}}
        said = {"role": "assistant", "content": [call], "timestamp": time}
        output = [{"type": "text", "text": "x" * size}]
        found = {"role": "toolResult", "toolCallId": "call_0", "toolName": "read"}
        found |= {"content": output, "isError": False, "timestamp": time + 1}
        return [entry(name, said), entry(f"{name}-r", found)]

    asked = [entry(name, {"role": "user", "content": name, "timestamp": t}) for t, name in
             ((1, "u"), (5, "v"))]  # fmt: skip
    newest = "n" * 100
    entries = [asked[0], *turn("o", 2, 2000), asked[1], *turn(newest, 6, 8)]
    given = {"tokenBudget": 300, "noticeLengths": {"normal": 0, "historyId": 0}}
    ops = [{"op": "append", "entries": entries}, {"op": "select"}]
    _, found = door.result("paging.session", {**given, "ops": ops})["output"]
    assert found["frontier"]["lastEvicted"] == {"historyId": "o", "toolCallId": "call_0"}
    assert found["estimatedTokens"] > len(newest) // 4, "the notice names the newest turn"


def test_history_that_is_empty_is_not_history_that_can_not_be_had():
    custom = {"role": "custom", "content": "x" * 800, "timestamp": 1}
    given = {
        "systemPrompt": "", "activeTools": [], "tokenBudget": 150, "noticeLengths": LENGTHS,
        "messages": [custom, {**custom, "content": "y"}],
    }  # fmt: skip
    for items, why in ((None, "raw-history-unavailable"), ([], "keyless-no-key")):
        found = door.result("paging.select_context", {**given, "rawHistoryItems": items})
        assert found["output"]["cutFallbackReason"] == why
