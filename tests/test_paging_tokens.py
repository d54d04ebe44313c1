"""The host's weights and the original's rules of usage, beside the vectors."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import InvalidArgument
from ctxalgebra.codecs.pi_weights import (
    WITHOUT_ARGUMENTS,
    host_tokens,
    json_text,
    resident_tokens,
    text_tokens,
    utf16_length,
)
from ctxalgebra.compat.paging_tokens import (
    Calibrated,
    Prepared,
    Tracker,
    calibrate_response,
    clear,
    outgoing_only,
    prepare,
    record_response,
    record_selection,
    reported_input,
    response_usage,
    valid_estimates,
)
from ctxalgebra.conformance import door

# JSON as the host writes it


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (-0.0, "0"),
        (100.0, "100"),
        (1e-6, "0.000001"),
        (2.5e-6, "0.0000025"),
        (1e-7, "1e-7"),
        (-1.5e-7, "-1.5e-7"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (123e-20, "1.23e-18"),
        (12345.678, "12345.678"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (2**53, "9007199254740992"),
        (2**60, "1152921504606847000"),
        (10**400, "null"),
        (float("inf"), "null"),
        (float("nan"), "null"),
        (True, "true"),
        (None, "null"),
        ([], "[]"),
        ({}, "{}"),
        ([[], {}, [1, "a"]], '[[],{},[1,"a"]]'),
        ('\x00\x1f\x7f"\\\b\u2028é', '"\\u0000\\u001f\x7f\\"\\\\\\b\u2028é"'),
        ("\ud83d\ude00", '"😀"'),
        ("\ude00\ud83d", '"\\ude00\\ud83d"'),
    ],
)
def test_values_are_written_as_the_host_writes_them(value, text):
    assert json_text(value) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@given(JSON)
def test_what_is_written_is_what_was_passed(value):
    assert json.loads(json_text(value)) == value
    assert json_text(value) == json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert json_text(value, sort=True) == json_text(json.loads(json_text(value)), sort=True)


def test_equal_objects_have_one_sorted_text_however_deep():
    assert json_text({"b": {"d": 1, "c": 2}, "a": 0}, sort=True) == '{"a":0,"b":{"c":2,"d":1}}'
    deep = []
    for _ in range(20_000):
        deep = [deep]
    assert len(json_text(deep)) == 40_002
    with pytest.raises(InvalidArgument) as caught:
        json_text({"a": {1, 2}})
    assert (caught.value.code, caught.value.field) == ("wrong-type", "value")


def test_texts_are_measured_in_utf16():
    assert [utf16_length(text) for text in ("", "abc", "é", "😀", "\ud83d")] == [0, 3, 1, 2, 1]
    assert text_tokens("😀😀a") == 2
    assert resident_tokens("", [{"name": "é"}]) == 4


# Weights


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "user", "content": 7},
        {"role": "toolResult", "content": [None]},
        {"role": "custom", "content": [{"type": "text", "text": 7}]},
        {"role": "assistant", "content": [{"type": "text"}]},
        {"role": "assistant", "content": [{"type": "thinking"}]},
        {"role": "assistant", "content": [{"type": "toolCall", "arguments": {}}]},
        {"role": "assistant", "content": [{"type": "toolCall", "name": "ls"}]},
        {"role": "bashExecution", "command": "ls"},
        {"role": "branchSummary"},
    ],
)
def test_what_the_hosts_function_fails_on_is_refused(message):
    with pytest.raises(InvalidArgument) as caught:
        host_tokens(message)
    assert caught.value.code == "wrong-type"
    assert door.result("paging.estimate_tokens", {"message": message}) == {
        "error": {"code": "error"}
    }


def test_weights():
    call = {"role": "assistant", "content": [{"type": "toolCall", "name": "ls"}, {"type": "x"}, 3]}
    assert host_tokens(call, without_arguments=WITHOUT_ARGUMENTS) == 3
    assert host_tokens({"role": "user", "content": [{"type": "video"}, "text"]}) == 0
    assert host_tokens({"role": "system"}) == 0
    assert (
        host_tokens({"role": "system", "content": "12345", "sections": {"a": "678", "b": 1}}) == 2
    )
    assert host_tokens({"role": ["user"], "content": "12345"}) == 0
    assert host_tokens({}) == 0


# Usage


def test_an_undercount_is_split():
    assert calibrate_response(100, 2000, 2250, previous=300) == Calibrated(150, 1)
    assert calibrate_response(0, 500, 900, outgoing=500) is None
    assert calibrate_response(100, 500, 900, outgoing=500) == Calibrated(300, 1)


def test_estimates_that_may_be_used():
    assert valid_estimates({"residentTokens": 0, "messageTokens": [1.5]}, 1)
    for wrong in (
        None,
        [],
        {},
        {"residentTokens": 1, "messageTokens": None},
        {"residentTokens": float("inf"), "messageTokens": []},
        {"residentTokens": 1, "messageTokens": ["1"]},
        {"residentTokens": 1, "messageTokens": []},
    ):
        assert not valid_estimates(wrong, 1)


def response(text="y" * 40, **usage):
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "usage": usage}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"totalTokens": 7, "input": 1}, 7),
        ({"totalTokens": 0, "input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4}, 10),
        ({"input": 1, "output": 2, "cacheRead": 3}, None),
        ({"totalTokens": -1}, None),
        ({"totalTokens": "7"}, None),
        ({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, None),
    ],
)
def test_usage_of_a_response(usage, tokens):
    assert response_usage(response(**usage)) == tokens
    assert response_usage({**response(**usage), "stopReason": "aborted"}) is None


def test_input_that_a_response_reported():
    assert reported_input(response(input=1, cacheRead=2, cacheWrite=3)) == 6
    assert reported_input(response(input=0, cacheRead=0, cacheWrite=0, output=1)) == 0
    assert reported_input(response(input=-1, cacheRead=2, cacheWrite=3)) is None
    assert reported_input(response(input=2**53, cacheRead=0, cacheWrite=0)) is None
    assert reported_input({"role": "user", "usage": {}}) is None


def ask(text, size=400):
    return {"role": "user", "content": text * size}


ANSWER = response(totalTokens=660)


def told(messages, persistent, answer=ANSWER, resident=110):
    tracker = record_selection(Tracker(), messages, resident, persistent)
    return record_response(tracker, answer)


def test_a_tracker_learns_from_the_response_to_what_was_selected():
    one, injected, system = ask("x"), ask("i", 80), {"role": "system", "content": "s"}
    tracker = told([system, injected, one], [system, one])
    stored = [one, ANSWER]
    found = prepare(tracker, [system, one, ANSWER], 110, 660, stored)
    # 660 - (110 + 100 + 10 + 20) = 420 are missing; 210 of them are the head's.
    assert found.context == 640
    assert found.estimates.resident == 320
    assert found.estimates.messages == (0, pytest.approx(290.909, 1e-4), pytest.approx(29.09, 1e-3))
    assert tracker.pending is None
    assert record_response(Tracker(), ANSWER) == Tracker()
    assert record_selection(tracker, [one], -1, [one]) is tracker
    pending = record_selection(tracker, [one], 110, [one])
    assert record_response(pending, response()).anchor == tracker.anchor
    assert clear(tracker) == Tracker()


def test_a_tracker_says_nothing_where_the_response_is_not_the_last_word():
    one = ask("x")
    tracker = told([one], [one])
    later = response("later", totalTokens=700)
    nothing = Prepared()
    for messages, status, stored in (
        ([one, ANSWER], 0, [one, ANSWER]),
        ([one, ANSWER], "660", [one, ANSWER]),
        ([one, ANSWER], 660, [one]),
        ([one, ANSWER, later], 660, [one, ANSWER, later]),
        ([one, ANSWER, later], 660, [one, later, ANSWER]),
        ([one], 660, [one, ANSWER]),
        ([ANSWER], 660, [one, ANSWER]),
        ([ANSWER, one], 660, [one, ANSWER]),
        ([one, ask("z"), ANSWER, ANSWER], 660, [one, ANSWER]),
    ):
        assert prepare(tracker, messages, 110, status, stored) == nothing
    assert prepare(Tracker(), [one], 110, 660, [one]) == nothing


def test_an_overestimate_stays_a_constant():
    one = ask("x")
    tracker = told([one], [one], response(totalTokens=100))
    answer = response(totalTokens=100)
    found = prepare(tracker, [one, answer, ask("z", 40)], 110, 105, [one, answer, ask("z", 20)])
    assert found == Prepared(110)


def test_outgoing_messages_are_found_with_one_cursor():
    a, b = ask("a"), ask("b")
    assert outgoing_only([b, a, b], [a, b]) == (False, True, True)
    assert outgoing_only([a, a, b], [a, b, a]) == (False, False, True)
    many = [ask("m", 1)] * 3_000
    assert sum(outgoing_only(many, many[:1_500])) == 1_500


@pytest.mark.parametrize(
    ("op", "answer"),
    [
        ({"op": "recordResponse"}, "invalid-input"),
        ({"op": "prepare", "messages": 3}, "invalid-input"),
        ({"op": "outgoingOnly", "messages": [1]}, "invalid-input"),
        ({"op": "recordSelection", "messages": [{"role": "user"}]}, "error"),
    ],
)
def test_operations_of_the_tracker_that_are_none(op, answer):
    found = door.result("paging.usage_tracker", {"ops": [op]})
    code = found["error"] if "error" in found else found["output"][0]["error"]
    assert code["code"] == answer
