"""The door that counts and delivers: hostile input, and laws that hold of all answers."""

from __future__ import annotations

import inspect
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxalgebra.compat.travel_usage import (
    aggregate,
    depth,
    fold_references,
    kinds_of,
    number,
    original_text,
    read_pressure,
    save_point,
    usage_after,
)
from ctxalgebra.conformance import door, travel_delivery, travel_usage
from ctxalgebra.conformance.runner import run
from ctxalgebra.conformance.vectors import load
from ctxalgebra.conformance.wire import write

OPERATIONS = [*travel_usage.OPERATIONS, *travel_delivery.OPERATIONS]

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.integers(10**300, 10**400), st.text(max_size=8), st.sampled_from([-0.0, 1e308, 5e-324]),
)  # fmt: skip
NUMBERS = st.one_of(
    st.integers(0, 2_000_000), st.floats(0, 2e6), st.sampled_from([0, 1, 400_000, 400_001])
)
TEXTS = st.sampled_from(["", "abcd", "é\U0001f600", "\ud800", "x" * 99])
BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.builds(lambda text: {"type": "thinking", "thinking": text}, TEXTS),
    st.builds(
        lambda name, arguments: {"type": "toolCall", "id": "1", "name": name, **arguments},
        TEXTS,
        st.sampled_from([{}, {"arguments": {}}, {"arguments": {"a": [1.0, "\ud800"]}}]),
    ),
    st.sampled_from([{"type": "image"}, {"type": "text"}, {"type": "toolCall"}, 3, None]),
)
ROLES = st.sampled_from(
    ["user", "assistant", "toolResult", "custom", "bashExecution", "branchSummary", "system", 7]
)
MESSAGES = st.builds(
    lambda role, content, more: {"role": role, "content": content, **more},
    ROLES,
    st.one_of(TEXTS, st.lists(BLOCKS, max_size=4), st.none()),
    st.sampled_from([{}, {"summary": "abcde"}, {"command": "ls", "output": "a"}]),
)
NAMES = st.sampled_from(["a", "b", "c", "d"])
ENTRIES = st.lists(
    st.one_of(
        st.builds(
            lambda name, parent, message: {
                "type": "message", "id": name, "parentId": parent, "message": message,
            },
            NAMES, st.one_of(st.none(), NAMES), MESSAGES,
        ),
        st.builds(
            lambda name, parent, target, label: {
                "type": "label", "id": name, "parentId": parent, "targetId": target, "label": label,
            },
            NAMES, st.one_of(st.none(), NAMES), NAMES, st.sampled_from(["x", "y", "", None, 3]),
        ),
        st.sampled_from([
            {"type": "branch_summary"}, {"type": "compaction"}, {}, {"type": "custom", "data": 3},
            {"type": "custom", "customType": "acm:context-usage-state",
             "data": {"kind": "context-usage-baseline", "highestReachedLevel": [30]}},
        ]),
    ),
    max_size=8,
)  # fmt: skip
MEMBERS = [
    "boundary", "budget", "window", "before", "after", "messageDelta", "tokens", "contextWindow",
    "take", "reset", "clear", "pressurePercent", "boundaryId", "undeliverable", "baseline", "model",
    "tokenCount", "percent", "fail",
]  # fmt: skip
DICTS = st.dictionaries(
    st.sampled_from(MEMBERS),
    st.one_of(SCALARS, NUMBERS, st.just({"id": "m", "provider": "p"})),
    max_size=5,
)
DELIVERY = st.lists(
    st.sampled_from([
        ["defer", "a"], ["markCutoverReady", "a"], ["rejectTicket", "a"], ["settle"], ["forget"],
        ["activatePacket", [{"role": "user"}], "L"], ["activatePacket", [], None, [1]],
        ["mergeCachedPacket", [1, 2]], ["recordDeliveryFailure", "x", "retry"],
        ["recordDeliveryFailure", "x", "unsafe_fallback"], ["markUsageObserved"],
        ["recordDeliveryFailure", "x", "cached_exhausted"], ["defer", "b"], ["rejectTicket", "b"],
    ]),
    max_size=20,
)  # fmt: skip
ODD = st.one_of(SCALARS, DICTS, st.lists(st.one_of(SCALARS, DICTS, BLOCKS), max_size=3))
GOOD = {
    "tokens": NUMBERS, "contextWindow": NUMBERS, "percent": NUMBERS, "decimals": st.integers(-1, 7),
    "folds": DICTS, "structure": DICTS, "content": st.lists(BLOCKS, max_size=3), "suffix": TEXTS,
    "events": st.one_of(st.lists(DICTS, max_size=6), DELIVERY,
                        st.lists(st.sampled_from(["markPending", "clear"]), max_size=4)),
    "messages": st.lists(MESSAGES, max_size=4), "message": MESSAGES, "usage": DICTS,
    "before": st.one_of(st.lists(MESSAGES, max_size=3), DICTS),
    "after": st.one_of(st.lists(MESSAGES, max_size=3), DICTS), "extraTokens": NUMBERS,
    "branch": ENTRIES, "entries": ENTRIES, "leafId": NAMES, "excludeId": NAMES, "session": SCALARS,
    "totalActual": NUMBERS, "limit": NUMBERS, "systemPrompt": TEXTS,
    "tools": st.lists(DICTS, max_size=2), "schedule": st.just({"status": "pending"}),
    "apply": st.just({"status": "applied"}),
}  # fmt: skip
CODES = {"invalid-input", "error", "cyclic-parent", "unknown-entry", "wrong-type"}


def camel(name):
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_whatever_comes_in_the_answer_is_one_of_the_operation(operation, data):
    known = [camel(name) for name in inspect.signature(door.OPERATIONS[operation]).parameters]
    given_in = {
        name: data.draw(st.one_of(GOOD[name], GOOD[name], ODD), label=name)
        for name in known
        if data.draw(st.integers(0, 9)) < 9
    }
    before = write(given_in)
    answer = door.result(operation, given_in)
    assert write(given_in) == before
    assert write(answer)
    assert "output" in answer or answer["error"]["code"] in CODES, answer
    assert door.result(operation, given_in) == answer


@pytest.mark.parametrize("area", ["travel_usage", "travel_delivery"])
def test_our_vectors(area):
    vectors = Path(__file__).resolve().parent / "vectors" / "v1" / f"{area}.jsonl"
    outcomes = list(run(load([vectors]), door.result))
    assert [o for o in outcomes if o.state != "passed"] == []
    assert outcomes


def output(operation, **given_in):
    return door.result(f"travel.{operation}", given_in)["output"]


def code(operation, **given_in):
    return door.result(f"travel.{operation}", given_in).get("error", {}).get("code")


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.one_of(st.none(), SCALARS))
def test_usage_and_pressure_agree_with_one_another(tokens, window, percent):
    known = output(
        "calculate_context_usage_pressure", tokens=tokens, contextWindow=window, percent=percent
    )
    if window <= 0:
        assert known is None
        return
    assert known["workingBudgetTokens"] == min(window, 400_000)
    assert math.isclose(known["pressurePercent"] * min(window, 400_000), 100 * tokens, rel_tol=1e-9)
    assert (known["policy"] == "400k-cap") == (window > 400_000)
    text = output("format_context_usage_pressure", tokens=tokens, contextWindow=window, decimals=1)
    assert f"{int(known['pressurePercent'])}" in text.partition("%")[0]
    seed = output("seed_format_context_usage_pressure", tokens=tokens, contextWindow=window)
    said = float(seed.partition("%")[0])
    assert abs(said - known["pressurePercent"]) <= 0.05 + 1e-9


@given(st.lists(MESSAGES, max_size=4))
def test_kinds_add_up_to_what_messages_weigh(messages):
    weights = [output_or_none("host_core_estimate_tokens", message=m) for m in messages]
    for message, weight in zip(messages, weights, strict=True):
        kinds = output_or_none("seed_classify_message_tokens", message=message)
        assert (kinds is None) == (weight is None)
        if kinds is not None:
            assert sum(kinds.values()) == weight
    whole = output_or_none("aggregate_messages", messages=messages)
    if None in weights:
        assert whole is None
    else:
        assert whole == {"tokenCount": sum(weights), "messageCount": len(messages)}


def output_or_none(operation, **given_in):
    return door.result(f"travel.{operation}", given_in).get("output")


@given(NUMBERS, NUMBERS, st.lists(MESSAGES, max_size=4), TEXTS)
def test_a_breakdown_explains_all_that_was_used(actual, limit, messages, prompt):
    known = output_or_none(
        "seed_calculate_context_usage_breakdown",
        totalActual=int(actual), limit=int(limit), systemPrompt=prompt, tools=[], messages=messages,
    )  # fmt: skip
    if known is None:
        return
    left = known.pop("available")
    assert sum(known.values()) == int(actual)
    assert left == max(0, int(limit) - int(actual))


@given(ENTRIES, NAMES)
def test_references_stand_on_the_path_and_are_not_the_excluded_one(entries, name):
    path = output_or_none("host_get_branch", entries=entries, leafId=name)
    if path is None:
        return
    for excluded in (None, *path):
        found = output("select_fold_references", entries=entries, leafId=name, excludeId=excluded)
        places = [ref["entryId"] for ref in found.values() if ref]
        assert set(places) <= set(path) - {excluded}
        assert len(set(places)) == len(places)
    point = output("find_nearest_save_point", entries=entries, leafId=name)
    if point["name"] is not None:
        assert 0 <= point["stepsBack"] < len(path)


def test_long_scripts_take_no_quadratic_time():
    """Each event costs a logarithm: this took minutes where sets were copied."""
    events = [{"pressurePercent": n % 90, "boundaryId": f"u{n}"} for n in range(10_000)]
    assert all(row["boundary"] for row in output("gauge_machine", events=events))
    events = [{"boundary": f"u{n}"} for n in range(10_000)]
    assert output("ledger_machine", events=events)[-1]["row"]["boundary"] == 10_000


def test_numbers_that_are_none_are_refused_with_their_place():
    odd = {"tokens": 5, "contextWindow": 10}
    assert code("build_gauge_suffix", **odd, folds={"turnPercent": "5"}) == "invalid-input"
    assert code("build_gauge_suffix", **odd, structure={"savePoints": "5"}) == "invalid-input"
    assert code("estimate_usage_from_aggregates", before={}, after={}) == "invalid-input"
    assert code("ledger_machine", events=[{"boundary": 5}]) == "invalid-input"
    assert code("gauge_machine", events=[{"boundaryId": 5}]) == "invalid-input"
    huge = {"tokens": 1e308, "contextWindow": 1}
    both = {"tokenCount": 1e308}
    assert code(
        "estimate_usage_from_aggregates", usage=huge, before={"tokenCount": 0}, after=both
    ) == "invalid-input"  # fmt: skip
    assert output("calculate_context_usage_pressure", tokens=1e308, contextWindow=5e-324) is None
    tiny = {"tokens": 703, "contextWindow": 3.9e-303}
    assert output("format_context_usage_pressure", **tiny, decimals=1).startswith("1802")
    assert output("seed_format_context_usage_pressure", **tiny).startswith("1802")
    for status in ({}, {"status": "x"}, {"status": []}):
        given_in = {"schedule": status, "apply": {}, "events": [["defer", "a"]]}
        assert code("delivery_machine", **given_in) == "invalid-input"
    for event in ([], ["x"], [7], ["defer"], ["defer", 7], ["activatePacket", 7, "L"],
                  ["mergeCachedPacket", 7], ["recordDeliveryFailure", "x", "y"]):  # fmt: skip
        given_in = {"schedule": {"status": "pending"}, "apply": {}, "events": [event]}
        assert code("delivery_machine", **given_in) == "invalid-input"
    assert code("refresh_machine", events=[{"fail": 3}]) == "invalid-input"


def test_w10_what_was_used_bounds_what_stays():
    """The original shows 55 % of the window after a fold of what uses 50 % (`travel-0046`)."""
    usage = {"tokens": 50_000, "contextWindow": 100_000, "percent": 50}
    told = usage_after(usage, 60_000, 55_000)
    assert told == {"tokens": 45_834, "contextWindow": 100_000, "percent": 45.834}
    assert usage_after({"tokens": None, "contextWindow": 100_000}, 1, 1)["tokens"] == 1
    assert usage_after(usage, 30_000, 2_000, 400)["tokens"] == 22_400
    assert usage_after({"tokens": 10, "contextWindow": 0}, 1, 1) is None


def test_rounding_is_that_of_the_host():
    assert original_text(1250, 10_000).startswith("12.5% (1.3K / 10K")
    assert original_text(999_999, 1_000_000).startswith("250.0% (1000K / 400K")
    assert original_text(0.5, 10) == "5.0% (1 / 10 working budget; actual window)"
    assert original_text(None, 10) is None
    assert number(float("inf")) is None
    assert read_pressure(1, 10, float("nan")).usage == 10


def test_rules_on_entries_take_what_is_none():
    assert fold_references([{}, {"type": "message"}, {"type": "message", "message": 3}], {}) == (
        None, None,
    )  # fmt: skip
    assert save_point([{}], {}) is None
    assert depth([{}]) == 0
    assert aggregate([]) == (0, 0)
    assert kinds_of({"role": "assistant", "content": "text"}) == (0, 0, 0)
    odd = [3, {"type": "image"}, {"type": "text", "text": "abcd"}]
    assert kinds_of({"role": "assistant", "content": odd}) == (1, 0, 0)


def test_models_are_named_by_what_is_known_of_them():
    models = [{"provider": "p", "id": "m"}, {"id": "m"}, {"provider": "", "id": "m"}, {}, None, 3]
    rows = output("ledger_machine", events=[{"before": 1, "model": model} for model in models])
    assert [row["row"]["model"] for row in rows] == ["p/m", "m", "m", None, None, None]
