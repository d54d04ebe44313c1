"""Operations of the tool policy at the door: slow readings of the rules, faults, odd input."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra.compat.toolpolicy_config import (
    CORE,
    always_active,
    deep_merge,
    glob_match,
    load_config,
    matches_model,
    normalize_config,
    resolve_config,
)
from ctxalgebra.compat.toolpolicy_search import (
    GATEWAY,
    find_tools,
    format_bytes,
    format_size,
    search_terms,
    tool_bytes,
)
from ctxalgebra.compat.toolpolicy_session import Gateway, call, reconcile, status
from ctxalgebra.conformance import door
from ctxalgebra.utf16 import BREAKS

CFG = {"enabled": True, "alwaysActive": [], "disabled": [], "showCatalogInPrompt": True}
OFF = {**CFG, "enabled": False}
TOOLS = [
    {"name": "read", "description": "Read a file", "parameters": {}},
    {"name": "web", "description": "Search the internet", "parameters": {"q": 1}},
    {"name": "zip", "description": "Pack files"},
    {"name": GATEWAY, "description": "Gateway", "parameters": {"g": 1}},
]
START = {"op": "sessionStart"}


def asked(operation, **given):
    told = door.result(f"toolpolicy.{operation}", given)
    assert told.keys() == {"output"}, told
    return told["output"]


def code(operation, given):
    return door.result(f"toolpolicy.{operation}", given).get("error", {}).get("code", "")


def activate(*names):
    return {"op": "lazy", "params": {"activate": list(names)}}


def switch(**cfg):
    return {"op": "modelChange", "cfg": {**CFG, **cfg}}


def played(*ops, cfg=CFG, tools=TOOLS):
    return asked("lazy_tools_session", cfg=cfg, tools=tools, ops=list(ops))


def active(*ops, **options):
    return [told["active"] for told in played(*ops, **options)]


# Configuration

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1", max_size=2), inner),
    max_leaves=9,
)


def merged(base, override):
    """The rule as the specification words it, with recursion."""
    if not isinstance(override, dict):
        return base
    if not isinstance(base, dict):
        return override
    result = dict(base)
    for key, value in override.items():
        if value is None:
            continue
        result[key] = merged(result.get(key), value) if isinstance(value, dict) else value
    return result


@given(JSON, JSON)
def test_layers_are_merged_by_the_rule(base, override):
    before = json.dumps([base, override])
    assert deep_merge(base, override) == merged(base, override)
    assert json.dumps([base, override]) == before


def test_depth_costs_no_stack():
    base, override = {}, {}
    for _ in range(20_000):
        base, override = {"a": base, "b": 1}, {"a": override, "c": 2}
    told = deep_merge(base, override)
    for _ in range(20_000):
        assert (told["b"], told["c"]) == (1, 2)
        told = told["a"]


@given(JSON)
def test_what_was_normalised_stays_as_it_is(value):
    once = normalize_config(value)
    assert normalize_config(once) == once
    assert normalize_config({**once, "odd": value}) == once


def test_defaults_are_nobodys():
    normalize_config(None)["alwaysActive"].append("x")
    assert normalize_config(None)["alwaysActive"] == list(CORE)


def test_files_that_are_no_json():
    for text in ("", "{", "[" * 100_000, '{"lazyTools":Infinity}', "\ufeff{}"):
        assert load_config(text) == ({"lazyTools": normalize_config(None)}, 1)


# Patterns

LINE = st.text(st.sampled_from("abA*?é\n\r"), max_size=8)


@given(LINE, LINE)
def test_patterns_match_as_expressions_do(pattern, text):
    wild = {"*": f"[^{BREAKS}]*", "?": f"[^{BREAKS}]"}
    expression = "".join(wild.get(c, re.escape(c)) for c in pattern)
    told = re.fullmatch(expression, text, re.IGNORECASE) is not None
    assert glob_match(pattern, text) is told


def test_case_is_passed_over_as_the_host_does():
    assert glob_match("\u00e9", "\u00c9")
    assert not glob_match("\u00df", "SS")
    assert not glob_match("\u017f", "s")
    assert not glob_match("\U00010428", "\U00010400")


def test_c10_overrides_apply_in_the_order_of_the_file():
    overrides = {"*": {"disabled": ["star"]}, "5": {"disabled": ["five"]}}
    assert resolve_config({"modelOverrides": overrides}, ("p", "5"))["disabled"] == ["five"]


def test_c10_a_pattern_with_a_slash_is_also_about_ids_with_one():
    assert matches_model("anthropic/claude*", "openrouter", "anthropic/claude-x")
    assert matches_model("openrouter/*", "openrouter", "anthropic/claude-x")
    assert not matches_model("anthropic/claude*", "openrouter", "claude-x")


def test_a_question_mark_is_a_character():
    assert glob_match("?", "\U0001f600")


@given(st.lists(st.sampled_from([*CORE, "a", "b"])), st.lists(st.sampled_from([*CORE, "a"])))
def test_core_tools_leave_by_being_disabled_only(configured, disabled):
    told = always_active({"alwaysActive": configured, "disabled": disabled})
    assert len(set(told)) == len(told)
    assert set(told) == {*CORE, *configured} - {*disabled}
    assert [name for name in told if name in CORE] == [n for n in CORE if n not in disabled]


# Search and sizes


@given(st.text(st.sampled_from("ab the_-é検 "), max_size=20))
def test_terms_are_words_of_the_query(query):
    terms = search_terms(query)
    assert len(set(terms)) == len(terms)
    for term in terms:
        assert term in query.lower()
        assert len(term) > 1
        assert term.isalnum()


@given(st.text(st.sampled_from("web filsearch"), max_size=12))
def test_tools_that_are_found_are_ordered_and_known(query):
    names = find_tools([*TOOLS, *TOOLS], query, {"read"})
    assert len(set(names)) == len(names)
    assert "read" not in names
    if not query.strip():
        assert names == ["web", GATEWAY, "zip"]


@pytest.mark.parametrize(
    ("value", "host", "told"),
    [(0, "0B", "0B"), (1023.5, "1023.5B", "1023.5B"), (1024 * 1024, "1.0MB", "1024.0KB"),
     (1e30, "953674316406250000000000.0MB", "976562500000000000000000000.0KB")],
)  # fmt: skip
def test_sizes_for_people(value, host, told):
    exponent = {1e30: ("9.5367431640625e+23MB", "9.765625e+26KB")}
    assert (format_size(value), format_bytes(value)) == exponent.get(value, (host, told))


def test_odd_tools_weigh_what_they_have():
    assert tool_bytes({"name": 5, "description": None, "parameters": None}) == len("null")


# A session


def test_c4_where_the_policy_is_off_nothing_disabled_is_added():
    told = active(START, switch(enabled=False, disabled=["zip"]))
    assert told == [[GATEWAY, "read"], [GATEWAY, "read", "web"]]
    assert active(START, cfg=OFF) == [["read", "web", "zip", GATEWAY]]
    assert active(START, cfg=OFF, tools=TOOLS[:2]) == [["read", "web"]]


def test_c5_tools_of_others_stay_where_they_are():
    others = {"op": "setActive", "active": [GATEWAY, "zip", "read"]}
    told = active(START, others, {"op": "toolExecutionEnd"}, activate("web"), switch())
    assert told[2:] == [[GATEWAY, "zip", "read"], *[[GATEWAY, "zip", "read", "web"]] * 2]
    reset = {"op": "lazy", "params": {"reset": True}}
    assert active(START, others, activate("zip"), reset)[-1] == [GATEWAY, "zip", "read"]
    assert active(START, others, switch(disabled=["zip"]))[-1] == [GATEWAY, "read"]
    without = {"op": "setActive", "active": [GATEWAY, "read"]}
    assert active(START, others, START, without, START)[-1] == [GATEWAY, "read"]


def test_c6_what_was_activated_is_back_after_a_shutdown():
    first, there, _, back = active(START, activate("web", "zip"), {"op": "reset"}, START)
    assert there == back == [*first, "web", "zip"]
    assert active(START, activate("web"), START)[-1] == first


def test_c7_off_and_on_moves_nothing():
    told = active(START, activate("zip"), switch(enabled=False), switch())
    assert told[1] == told[3] == [GATEWAY, "read", "zip"]
    assert told[2] == [*told[1], "web"]


def test_c8_an_activation_is_back_when_the_policy_changes_back():
    told = active(START, activate("web", "zip"), switch(disabled=["web"]), switch())
    assert told[1] == told[3] == [GATEWAY, "read", "web", "zip"]
    assert told[2] == [GATEWAY, "read", "zip"]


def test_c9_the_status_tells_of_what_is_active():
    told = played(START, activate("web"), {"op": "reset"}, {"op": "lazy"})
    assert told[3]["status"] == told[1]["status"]
    assert told[3]["activated"] == ["web"]
    policy = {"enabled": True, "alwaysActive": [], "disabled": []}
    known = reconcile(Gateway(policy, tuple(TOOLS), ("zip",)))
    assert status(known).active == f"{len('Read a file{}Pack files')}B"


def test_c10_the_gateway_is_never_disabled_and_sees_the_tools_as_they_are():
    assert active(START, cfg={**CFG, "disabled": [GATEWAY]}) == [[GATEWAY, "read"]]
    tools = {"op": "setTools", "tools": TOOLS[:1]}
    *_, told = played(START, activate("web"), tools, activate("zip"))
    assert (told["active"], told["unknownNames"]) == ([GATEWAY, "read"], ["zip"])


def test_without_tools_the_share_is_none():
    assert played({"op": "lazy"}, tools=[])[0]["status"]["percent"] == 0


def test_calls_that_are_odd():
    (_, told) = played(START, {"op": "lazy", "params": {"reset": [], "activate": ["web"]}})
    assert told.keys() == {"active", "activated", "status"}
    (_, told) = played(START, {"op": "lazy", "params": {"search": None, "activate": None}})
    assert told["matches"] == ["web", GATEWAY, "zip"]
    (_, told) = played(START, {"op": "lazy", "params": {"activate": [" "]}})
    assert told["newlyActivated"] == []


@pytest.mark.parametrize(
    "op",
    [{}, {"op": "jump"}, {"op": "setTools"}, {"op": "setTools", "tools": [1]},
     {"op": "setActive", "active": [1]}, {"op": "setActive"}, {"op": "modelChange", "cfg": []},
     {"op": "lazy", "params": {"search": 5}}, {"op": "lazy", "params": {"activate": "web"}}],
)  # fmt: skip
def test_steps_that_are_none(op):
    assert code("lazy_tools_session", {"cfg": CFG, "tools": TOOLS, "ops": [op]}) == "invalid-input"


def test_models_that_are_none():
    assert code("matches_model", {"pattern": "*", "model": {"id": "x"}}) == "invalid-input"


NAMES = ("read", "web", "zip", GATEWAY)
POLICIES = st.fixed_dictionaries(
    {
        "enabled": st.booleans(),
        "alwaysActive": st.lists(st.sampled_from(NAMES), max_size=2),
        "disabled": st.lists(st.sampled_from(NAMES), max_size=2),
    }
).map(lambda cfg: {**CFG, **cfg})
OPS = st.lists(
    st.sampled_from(
        [START, {"op": "reset"}, {"op": "toolExecutionEnd"}, {"op": "beforeAgentStart"},
         {"op": "modelChange"}, {"op": "lazy", "params": {"reset": True}}, {"op": "catalog"}]
    )
    | st.lists(st.sampled_from(NAMES), max_size=3).map(lambda names: activate(*names))
    | POLICIES.map(lambda cfg: {"op": "modelChange", "cfg": cfg})
    | st.lists(st.sampled_from(TOOLS), max_size=4).map(lambda t: {"op": "setTools", "tools": t}),
    max_size=12,
)  # fmt: skip


@given(POLICIES, OPS)
def test_nothing_disabled_or_unknown_is_active_and_nothing_twice(cfg, ops):
    ops = [START, *ops]
    told = played(*ops, cfg=cfg)
    policy, tools = cfg, TOOLS
    for op, step in zip(ops, told, strict=True):
        policy = op.get("cfg", policy)
        tools = op.get("tools", tools)
        names = step["active"]
        assert len(set(names)) == len(names)
        if op["op"] not in ("reset", "setTools", "catalog", "lazy"):
            known = {tool["name"] for tool in tools}
            assert set(names) <= known - {*policy["disabled"]} | {GATEWAY}
            if not policy["enabled"]:
                assert set(names) >= known - {*policy["disabled"]}
    assert [s["active"] for s in played(*ops, {"op": "toolExecutionEnd"}, cfg=cfg)][:-1] == [
        s["active"] for s in told
    ]


def test_calling_where_it_is_off_changes_nothing():
    known = Gateway(OFF, tuple(TOOLS))
    assert call(known, activate=["web"]) == (known, None)


# Whatever stands anywhere

ANYTHING = (None, True, -1, 2.5, 10**30, "", "x", "\ud800", [], [None], {}, {"op": "lazy"}, [[]])
VECTORS = Path(__file__).parent / "vectors" / "v1" / "toolpolicy.jsonl"
ROWS = [json.loads(line) for line in VECTORS.read_bytes().splitlines()]


def places(value):
    """List the places of a value, those of its members among them."""
    found = [()]
    for place in found:
        inner = value
        for step in place:
            inner = inner[step]
        if isinstance(inner, dict | list):
            steps = inner if isinstance(inner, dict) else range(len(inner))
            found += [(*place, step) for step in steps]
    return found[1:]


def put(value, place, new):
    if not place:
        return new
    changed = value.copy()
    changed[place[0]] = put(value[place[0]], place[1:], new)
    return changed


@pytest.mark.parametrize("operation", sorted({row["operation"] for row in ROWS}))
def test_whatever_stands_anywhere_there_is_an_answer(operation):
    for row in ROWS:
        if row["operation"] != operation or "error" in row:
            continue
        for place in places(row["input"]):
            for value in ANYTHING:
                told = door.result(operation, put(row["input"], place, value))
                assert told.get("error", {}).get("code") != "internal-error", (place, value, told)


# Hostile lengths


def took(rule, value):
    best = 9.0
    for _ in range(3):
        start = time.process_time()
        rule(value)
        best = min(best, time.process_time() - start)
    return best


GROWING = {
    "stars": lambda n: glob_match("*a" * (n // 2) + "b", "a" * n),
    "lines": lambda n: glob_match("\n" * n, "\n" * n),
    "question marks": lambda n: glob_match("*????b*", "a" * n),
    "terms": lambda n: search_terms("ab_" * (n // 3)),
    "ranking": lambda n: find_tools([{"name": "x_" * (n // 2), "description": "y" * n}], "xy the"),
    "names": lambda n: played(START, activate(*[str(at) for at in range(n // 100)])),
}


@pytest.mark.parametrize("name", GROWING)
def test_a_million_characters_cost_no_more_than_their_share(name):
    # Sixteen times the length: a quadratic rule would take 256 times as long.
    rule = GROWING[name]
    assert took(rule, 1_000_000) <= 100 * max(took(rule, 1_000_000 // 16), 0.001)
