"""Effort: after a routine step a request may ask the model to think less.

Only a field that a request has is lowered, and none is made up. A step is routine where a tool
only read and nothing failed; a command line is routine where it begins with a command that reads
or runs tests, and each part of it is known to change nothing (W40, `reading`). Source: skills and
saver, section 17.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, Literal, TypeAlias, cast

from ctxalgebra.compaction.shell import word_set
from ctxalgebra.compaction.signals import ERROR, Words
from ctxalgebra.model.checks import check_type, mistyped
from ctxalgebra.shaping.reading import only_reads
from ctxalgebra.utf16 import SPACE

__all__ = [
    "THINKING",
    "Path",
    "Routine",
    "is_routine",
    "lower_budget",
    "lower_effort",
    "lower_level",
    "put",
    "routine_after",
]

Routine: TypeAlias = Literal["none", "eligible", "blocked"]
Path: TypeAlias = tuple[str, ...]
"""The names of members, from the outermost to the field."""

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


def _check_object(value: object, name: str) -> None:
    if not isinstance(value, Mapping):
        raise mistyped(value, "an object", name)


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

    Raises:
        InvalidArgument: `wrong-type`.

    >>> is_routine("bash", {"command": "git status -s"}, "clean")
    True
    >>> is_routine("bash", {"command": "sed -i s/a/b/ x && reboot"}, "")
    False
    """
    check_type(tool, str, "tool")
    _check_object(arguments, "arguments")
    check_type(text, str, "text")
    check_type(failed, bool, "failed")
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


def lower_level(value: Any) -> Any:
    """Give the level of effort that is asked for instead; what is no level, or a low one, stays.

    >>> lower_level("XHigh"), lower_level("minimal"), lower_level(5)
    ('low', 'minimal', 5)
    """
    return "low" if isinstance(value, str) and value.lower() in _LOWERED else value


def lower_budget(value: Any) -> Any:
    """Give the budget for thinking that is asked for instead; what is none, or a small one, stays.

    >>> lower_budget(4096), lower_budget(-1), lower_budget("4096")
    (1024, -1, '4096')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    more = value > THINKING and (isinstance(value, int) or isfinite(value))
    return THINKING if more else value


def lower_effort(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Lower the effort that the body of a request asks for; other fields and values stay.

    Args:
        payload: the body: `reasoning_effort`, `reasoning.effort`, `output_config.effort` and
            `thinking.budget_tokens` are known.

    Returns:
        The body that came in where nothing is lowered.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> lower_effort({"reasoning": {"effort": "High"}, "thinking": {"budget_tokens": 4096}})
    {'reasoning': {'effort': 'low'}, 'thinking': {'budget_tokens': 1024}}
    """
    _check_object(payload, "payload")
    found = payload
    for path, lower in _FIELDS:
        found = put(found, path, lower)
    return found


_FIELDS: tuple[tuple[Path, Callable[[Any], Any]], ...] = (
    (("reasoning_effort",), lower_level),
    (("reasoning", "effort"), lower_level),
    (("output_config", "effort"), lower_level),
    (("thinking", "budget_tokens"), lower_budget),
)


def put(payload: Mapping[str, Any], path: Path, change: Callable[[Any], Any]) -> Mapping[str, Any]:
    """Change a field of a body; the body that came in where it has none, or nothing changes.

    >>> put({"a": {"b": 5000}}, ("a", "b"), lower_budget), put({}, ("a", "b"), lower_budget)
    ({'a': {'b': 1024}}, {})
    """
    owners = [payload]
    for name in path[:-1]:
        inner = owners[-1].get(name)
        if not isinstance(inner, Mapping):
            return payload
        owners.append(cast("Mapping[str, Any]", inner))
    if path[-1] not in owners[-1]:
        return payload
    value = owners[-1][path[-1]]
    changed = change(value)
    if changed is value:
        return payload
    for owner, name in zip(reversed(owners), reversed(path), strict=True):
        changed = {**owner, name: changed}
    return cast("Mapping[str, Any]", changed)
