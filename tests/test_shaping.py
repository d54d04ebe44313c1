"""Shaping of requests: descriptions of tools, effort, what is routine."""

from __future__ import annotations

import json
import time
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra.compaction.signals import ERROR_WORDS, units
from ctxalgebra.shaping.deferral import CORE, FINDERS, Deferral, activated, deferred, restored
from ctxalgebra.shaping.descriptions import LONGEST, metadata, shorten_descriptions
from ctxalgebra.shaping.effort import (
    THINKING,
    is_routine,
    lower_effort,
    only_reads,
    routine_after,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    | st.sampled_from(["high", "MAX", "low", "x" * 500]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["tools", "description", "function", "parameters", "reasoning", "effort",
                 "reasoning_effort", "output_config", "thinking", "budget_tokens"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)  # fmt: skip
BODIES = st.dictionaries(
    st.sampled_from(["tools", "reasoning_effort", "reasoning", "output_config", "thinking"]), JSON
)


def paths(value, at=()):
    """Map the place of each leaf to it."""
    if isinstance(value, dict | list):
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for step, inner in steps for k, v in paths(inner, (*at, step)).items()}
    return {at: repr(value)}


@given(BODIES)
def test_only_descriptions_of_tools_get_shorter(body):
    before = deepcopy(body)
    told = shorten_descriptions(body)
    assert repr(body) == repr(before)
    assert (told.payload is body) == (not told.changed) == (told.saved == 0)
    old, new = paths(body), paths(told.payload)
    assert old.keys() == new.keys()
    for place in old:
        if old[place] != new[place]:
            assert place[0] == "tools"
            assert place[2:] in (("description",), ("function", "description"))
            assert len(new[place]) <= LONGEST + 2


@given(BODIES)
def test_only_known_fields_that_are_there_are_lowered(body):
    before = deepcopy(body)
    told = lower_effort(body)
    assert repr(body) == repr(before)
    old, new = paths(body), paths(told)
    assert old.keys() == new.keys()
    changed = [place for place in old if old[place] != new[place]]
    assert (told is body) == (not changed)
    for place in changed:
        assert place in (
            ("reasoning_effort",), ("reasoning", "effort"), ("output_config", "effort"),
            ("thinking", "budget_tokens"),
        )  # fmt: skip
        assert new[place] in ("'low'", str(THINKING))
    assert lower_effort(told) is told


def test_a_tool_of_which_both_texts_are_long():
    tool = {"description": "a" * 9, "function": {"description": "b" * 9}}
    told = shorten_descriptions({"tools": [tool]}, most=4)
    assert told.payload["tools"] == [{"description": "aaa…", "function": {"description": "bbb…"}}]
    assert told.saved == 10


ODD = st.text(st.sampled_from("ab \n\x1b[31m]\x07\x9b\u202e\U0001f600"), max_size=30)
BETWEEN = st.sampled_from([";", "&&", "||", "|", "\n"])


@given(ODD, st.integers(1, 20))
def test_metadata_is_one_clean_line(text, most):
    line = metadata(text, most)
    assert units(line) <= most
    assert not set(line) & set("\n\x1b\x07\x9b\u202e")


READS = [
    "cat a",
    "  git status -s",
    "git log -1 | head -5 && git --no-pager diff",
    "git diff HEAD~1 -- a.py",
    "ls -la; pwd",
    "find . -name '*.py' | wc -l",
    "grep -rn 'a > b; rm -rf /' src | sort -u | uniq -c",
    "rg x . 2>/dev/null",
    "cat a 2>&1",
    "sed -n '1,20p' a.py",
    "sed -e 's/we/us/g' a",
    "npm test",
    "pnpm run test -- -w a",
    "npm run test:unit",
    "pytest -q tests",
    "cargo test",
    "go test ./...",
    "tail -n 5 a && echo done",
    "find . \\( -name a -o -name b \\)",
    "cat a >/dev/null",
]
CHANGES = [
    "sed -i s/a/b/ prod.conf && systemctl restart db",
    "sed -ni p a",
    "sed --in-place=.bak p a",
    "sed -n 's/a/b/w out' a",
    "sed '1e date' a",
    "sed -n '/x/w out' a",
    "find / -name x -delete",
    "find . -exec rm {} \\;",
    "find . -fprint out",
    "cat a > b",
    "cat a >> b",
    "cat a >| b",
    "cat a | tee b",
    "ls; rm x",
    "ls & rm x",
    "ls\nrm x",
    "ls || reboot",
    "ls | xargs rm",
    "ls | sudo rm x",
    "cat $(rm x)",
    "cat `rm x`",
    'cat "$(rm x)"',
    'cat "`rm x`"',
    "cat <(rm x)",
    "ls | sh",
    "git status; git push",
    "git diff --output=x",
    "git log && git -c core.pager=x log",
    "tree -o x",
    "ls | sort -o x",
    "rg --pre cmd x",
    "npm test && npm publish",
    "npm test; npm run deploy",
    "cargo test; cargo publish",
    "ls > \\/dev/null2",
    "ls >/dev/nullx",
]


@pytest.mark.parametrize("line", READS)
def test_commands_that_read(line):
    assert is_routine("Bash", {"command": line}, "fine")
    assert not is_routine("bash", {"command": line}, "fine", failed=True)
    assert not is_routine("bash", {"command": line}, "ValueError: x")


@pytest.mark.parametrize("line", CHANGES)
def test_w40_a_command_that_may_change_something_is_no_routine(line):
    assert not only_reads(line)
    assert not is_routine("bash", {"command": line}, "")


@given(st.sampled_from(READS), st.sampled_from(CHANGES), BETWEEN)
def test_w40_wherever_it_stands(first, second, between):
    assert not only_reads(f"{first} {between} {second}")
    assert not only_reads(f"{second} {between} {first}")


def test_other_tools_and_other_texts():
    assert is_routine("LS", {}, "")
    assert is_routine("read", {"command": "rm"}, "")
    assert not is_routine("edit", {}, "")
    assert not is_routine("bash", {}, "")
    assert not is_routine("bash", {"command": "ls " + "x" * 20_000}, "")
    assert is_routine("read", {}, "2 errors", errors=ERROR_WORDS)
    assert not is_routine("read", {}, "2 errors")


@given(st.lists(st.booleans()))
def test_one_step_that_is_no_routine_blocks_until_the_next_turn(steps):
    state = "none"
    for step in steps:
        state = routine_after(state, routine=step)
    assert state == ("none" if not steps else "eligible" if all(steps) else "blocked")


# Deferral


def test_w41_what_was_activated_stays_active():
    state, active = deferred(Deferral(), ["read", "db_query", "bash", "calendar"])
    state, active = activated(state, active, ["db_query", "db_query", "read", "nobody"])
    assert active == ("read", "bash", *FINDERS, "db_query")
    assert (state.held, state.found) == (("calendar",), ("db_query",))
    assert deferred(state, active) == (state, active)
    state, active = deferred(state, [*active, "late"])
    assert (state.held, active[-1]) == (("calendar", "late"), "db_query")


def test_w42_switching_on_and_off_keeps_the_order():
    tools = ["read", "db_query", "bash", "calendar"]
    state, active = deferred(Deferral(), tools)
    assert active == ("read", "bash", *FINDERS)
    assert restored(state, active, tools) == tuple(tools)
    assert restored(state, [*active, "new"], [*tools, "new"]) == (*tools, "new")
    assert restored(state, active, ["read", "bash", "calendar"]) == ("read", "bash", "calendar")
    assert restored(state, ["bash"], tools) == ("db_query", "bash", "calendar")


NAMES = st.lists(st.sampled_from([*"abcd", "read", "bash", *FINDERS]), unique=True)


@given(NAMES, st.lists(st.sampled_from("abcdx")), st.booleans())
def test_deferral_loses_no_tool_and_holds_no_core_tool(tools, wanted, again):
    state, active = deferred(Deferral(), tools)
    state, active = activated(state, active, wanted)
    if again:
        assert deferred(state, active) == (state, active)
    assert len(set(active)) == len(active)
    assert not set(state.held) & (CORE | set(active))
    own = [name for name in tools if name not in FINDERS]
    assert set(active) | set(state.held) == {*own, *FINDERS}
    assert list(restored(state, active, tools)) == own


def took(rule, value):
    best = 9.0
    for _ in range(3):
        start = time.process_time()
        rule(value)
        best = min(best, time.process_time() - start)
    return best


MILLION = 1_000_000
GROWING = {
    "escapes": lambda n: metadata("\x1b]" * (n // 2), 9),
    "blanks": lambda n: metadata("a" + " \x00" * (n // 2), 9),
    "tools": lambda n: shorten_descriptions({"tools": [{"description": "x" * 500}] * (n // 500)}),
    "blanks before a command": lambda n: is_routine("bash", {"command": " " * n + "x"}, ""),
    "quotes": lambda n: only_reads("cat '" * (n // 5)),
    "text": lambda n: is_routine("read", {}, "no err " * (n // 7)),
}


@pytest.mark.parametrize("name", GROWING)
def test_a_million_characters_cost_no_more_than_their_share(name):
    # Sixteen times the length: a quadratic rule would take 256 times as long.
    rule = GROWING[name]
    assert took(rule, MILLION) <= 100 * max(took(rule, MILLION // 16), 0.001)


SED = {
    "letters": "sed -n '" + "p" * 9000 + "'",
    "digits": "sed " + "1" * 9000,
    "dashes": "sed -" + "a" * 9000,
    "redirections": "ls " + ">&1 " * 2000 + "> " + " " * 9000,
    "bars": "ls >" + "|>&" * 3000,
    "backslashes": "ls " + "\\" * 9000,
    "double quotes": 'ls "' + "a\\" * 4000,
    "dollars": "ls '" + "$(" * 4000 + "'",
}


@pytest.mark.parametrize("name", SED)
def test_hostile_commands_are_read_in_their_share(name):
    line = SED[name]
    half = line[: len(line) // 2]
    assert took(only_reads, line) <= 20 * max(took(only_reads, half), 0.001)
    assert json.dumps(only_reads(line)) in ("true", "false")
