"""Effort: after a routine step a request may ask the model to think less.

Only a field that a request has is lowered, and none is made up. A step is routine where a tool
only read and nothing failed; a command line is routine where it begins with a command that reads
or runs tests, and no part of it can change anything (W40). Source: skills and saver, section 17.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Final, Literal, TypeAlias, cast

from ctxalgebra.compaction.shell import READ, Command, pipelines, word_set
from ctxalgebra.compaction.signals import ERROR, Words
from ctxalgebra.utf16 import SPACE

__all__ = ["THINKING", "Routine", "is_routine", "lower_effort", "only_reads", "routine_after"]

Routine: TypeAlias = Literal["none", "eligible", "blocked"]

THINKING: Final = 1024
"""The budget of tokens for thinking that is left."""

_LOWERED = frozenset({"medium", "high", "xhigh", "max"})
_READERS = word_set("read grep find ls")
_W = f"[{SPACE}]"
_BEGINS = re.compile(
    rf"{_W}*(?:(?:cat|head|tail|sed|rg|grep|find|ls|tree)\b|git{_W}+(?:status|log|diff)\b"
    rf"|(?:npm|pnpm){_W}+(?:run{_W}+)?test\b|pytest\b|cargo{_W}+test\b|go{_W}+test\b)",
    re.ASCII,
)
_SAFE: Final = word_set(
    """
    cat head tail rg grep egrep fgrep ls pytest echo printf pwd cd true false test [ wc uniq cut tr
    nl jq tac rev column basename dirname stat file du df which type diff cmp sleep date
    """
)
_QUOTED = re.compile(r"'[^']*'|\"((?:[^\"\\]++|\\.)*+)\"|\\.", re.DOTALL)
_INSIDE = re.compile(r"\$\(|`|<\(|>\(|<<")
_INTO = re.compile(r">(?!&[0-9-]|[|>&]*[ \t]*/dev/(?:null|stdout|stderr)\b)")
_TESTS = {("cargo", "test"), ("go", "test"), ("npm", "test"), ("pnpm", "test")}


_SED_ACTS = re.compile(r"(?:\A|(?<=[;{}0-9$/!|,#gpIM \t\n]))[weW](?:[ \t]|\Z)")
"""A command of a script, or a flag, that writes a file or runs something."""


def _sed(words: Sequence[str]) -> bool:
    """Say whether `sed` only prints: nothing in place, and no script that writes or runs."""
    for word in words:
        if word.startswith("--in-place") or re.match(r"-[A-Za-z]*i", word):
            return False
        if _SED_ACTS.search(word):
            return False
    return True


def _none_of(*parts: str) -> Callable[[Sequence[str]], bool]:
    return lambda words: not any(word.startswith(parts) for word in words)


_ONLY: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "sed": _sed,
    "find": _none_of("-delete", "-exec", "-ok", "-fprint", "-fls"),
    "sort": _none_of("-o", "--output"),
    "tree": _none_of("-o"),
    "rg": _none_of("--pre"),
    "git": _none_of("--output", "--ext-diff"),
}


def _reads(command: Command) -> bool:
    words = [word for word in command.words if word not in {"", "--no-pager"}]
    program, action = command.program, "".join(words[:1]).lower()
    if not _ONLY.get(program, _none_of())(words):
        return False
    if program == "git":
        return action in {"status", "log", "diff"}
    if program in {"npm", "pnpm"} and action == "run":
        return "".join(words[1:2]).startswith("test")
    return program in _SAFE or program in _ONLY or (program, action) in _TESTS


def only_reads(line: str) -> bool:
    """Say whether a command line changes nothing, tests aside.

    What it can't see through counts as a change: other programs, files that are written,
    commands inside of commands, and lines of more than 20,000 characters.

    Args:
        line: what a shell runs.

    >>> only_reads("git log -1 | head -5 2>&1"), only_reads("cat a > b"), only_reads("ls; rm x")
    (True, False, False)
    """
    if len(line) > READ:
        return False
    bare = _QUOTED.sub(lambda found: f'"{"`" if _INSIDE.search(found[1] or "") else ""}"', line)
    if _INSIDE.search(bare) or _INTO.search(bare):
        return False
    return all(_reads(command) for each in pipelines(line) for command in each)


def is_routine(
    tool: str,
    arguments: Mapping[str, Any],
    text: str,
    *,
    failed: bool = False,
    errors: Words = ERROR,
) -> bool:
    """Say whether the result of a tool calls for no hard thinking.

    Args:
        tool: its name, in any case.
        arguments: of the call; a command line stands under `command`.
        text: what came back.
        failed: whether it is marked as an error.
        errors: words that tell of one.

    >>> is_routine("bash", {"command": "git status -s"}, "clean")
    True
    >>> is_routine("bash", {"command": "sed -i s/a/b/ x && reboot"}, "")
    False
    """
    name = tool.lower()
    if failed or errors.search(text):
        return False
    command = arguments.get("command")
    if name != "bash" or not isinstance(command, str):
        return name in _READERS
    return _BEGINS.match(command.lower()) is not None and only_reads(command)


def routine_after(state: Routine, *, routine: bool) -> Routine:
    """Give the state behind a result: a single one that is no routine blocks until the next turn.

    >>> routine_after("none", routine=True), routine_after("eligible", routine=False)
    ('eligible', 'blocked')
    """
    return "eligible" if routine and state != "blocked" else "blocked"


def _lower(owner: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = owner.get(name)
    lowered = isinstance(value, str) and value.lower() in _LOWERED
    return {**owner, name: "low"} if lowered else owner


def _less(owner: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = owner.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return owner
    more = value > THINKING and (isinstance(value, int) or isfinite(value))
    return {**owner, name: THINKING} if more else owner


def lower_effort(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Lower the effort that the body of a request asks for; other fields and values stay.

    Args:
        payload: the body: `reasoning_effort`, `reasoning.effort`, `output_config.effort` and
            `thinking.budget_tokens` are known.

    Returns:
        The body that came in where nothing is lowered.

    >>> lower_effort({"reasoning": {"effort": "High"}, "thinking": {"budget_tokens": 4096}})
    {'reasoning': {'effort': 'low'}, 'thinking': {'budget_tokens': 1024}}
    """
    found = _lower(payload, "reasoning_effort")
    for owner, name, change in (
        ("reasoning", "effort", _lower),
        ("output_config", "effort", _lower),
        ("thinking", "budget_tokens", _less),
    ):
        inner = found.get(owner)
        if isinstance(inner, Mapping):
            before = cast("Mapping[str, Any]", inner)
            after = change(before, name)
            if after is not before:
                found = {**found, owner: after}
    return found
