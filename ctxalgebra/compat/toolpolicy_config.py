r"""The configuration of the original tool policy: layers, overrides for models, patterns.

Values are plain JSON, as they stand in its file (specification of the tool policy, A1). What is
not valid takes its default silently, as there; `ctxalgebra.resident.policy` refuses it with the
place. Two faults are not kept (C10): overrides apply in the order of the file, also where a pattern
looks like a number, and a pattern with a `/` is also tried on an id that holds one itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ctxalgebra.model.checks import read_json
from ctxalgebra.utf16 import BREAKS

__all__ = [
    "CORE",
    "always_active",
    "deep_merge",
    "glob_match",
    "load_config",
    "matches_model",
    "normalize_config",
    "normalize_override",
    "resolve_config",
]

CORE = ("bash", "read", "write", "edit", "ls", "find", "grep")
"""The tools that only `disabled` takes out, in their order."""

_FLAGS = ("enabled", "showCatalogInPrompt")
_LISTS = ("alwaysActive", "disabled")


def _defaults() -> dict[str, Any]:
    """Give what holds where a layer says nothing."""
    return {
        "enabled": True,
        "alwaysActive": list(CORE),
        "disabled": list[str](),
        "showCatalogInPrompt": True,
    }


_SECTION = "lazyTools"
_OVERRIDES = "modelOverrides"
_LINES = re.compile(f"([{BREAKS}])")


def _object(value: object) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def deep_merge(base: Any, override: Any) -> Any:
    """Lay one value over another: objects by key, everything else as a whole.

    An override that is no object changes nothing, a null in it neither; where the base has no
    object, the override stands as it is, nulls included.

    >>> deep_merge({"a": [1], "n": {"x": 1}}, {"a": [2], "n": {"x": None, "y": 2}, "b": None})
    {'a': [2], 'n': {'x': 1, 'y': 2}}
    """
    over, under = _object(override), _object(base)
    if over is None or under is None:
        return base if over is None else over
    merged = {**under}
    todo = [(merged, over)]
    while todo:
        target, layer = todo.pop()
        for key, value in layer.items():
            inner, known = _object(value), _object(target.get(key))
            if inner is not None and known is not None:
                copied = target[key] = {**known}
                todo.append((copied, inner))
            elif value is not None:
                target[key] = value
    return merged


def _valid(name: str, value: object) -> bool:
    if name in _FLAGS:
        return isinstance(value, bool)
    return isinstance(value, list) and all(
        isinstance(item, str) for item in cast("list[object]", value)
    )


def normalize_override(value: object) -> dict[str, Any] | None:
    """Keep the valid fields of an override for models; None for what is no object.

    >>> normalize_override({"enabled": 1, "disabled": ["x"]})
    {'disabled': ['x']}
    """
    given = _object(value)
    if given is None:
        return None
    return {
        name: given[name]
        for name in (*_FLAGS, *_LISTS)
        if name in given and _valid(name, given[name])
    }


def normalize_config(value: object) -> dict[str, Any]:
    """Keep the valid fields of a configuration, and put defaults for the others.

    >>> normalize_config({"enabled": "yes", "disabled": ["x"]})["disabled"]
    ['x']
    """
    given = _object(value) or {}
    overrides = _object(given.get(_OVERRIDES)) or {}
    kept = {pattern: normalize_override(inner) for pattern, inner in overrides.items()}
    return {
        **_defaults(),
        **(normalize_override(given) or {}),
        _OVERRIDES: {pattern: inner for pattern, inner in kept.items() if inner is not None},
    }


def load_config(file: object) -> tuple[dict[str, Any], int]:
    """Load the configuration from what its file holds.

    Args:
        file: the text of the file, or what it says as JSON; None where there is none.

    Returns:
        The configuration, and how many problems were reported.

    >>> load_config("{bad json}")[1]
    1
    """
    problems = 0
    if isinstance(file, str):
        try:
            file = read_json(file)
        except ValueError:
            file, problems = None, 1
    said = deep_merge({_SECTION: {**_defaults(), _OVERRIDES: {}}}, file)
    return {_SECTION: normalize_config(said[_SECTION])}, problems


def _any_case(text: str) -> str:
    """Write a text as the host's patterns compare it when they pass over case."""
    if text.isascii():
        return text.upper()
    folded = [(c, c.upper()) for c in text]
    return "".join(
        up if len(up) == 1 and c < "\U00010000" and (c < "\x80" or up >= "\x80") else c
        for c, up in folded
    )


def _found(piece: str, text: str, start: int) -> int:
    """Find where a piece without `*` begins in a text; -1 for nowhere."""
    if "?" not in piece:
        return text.find(piece, start)
    pattern = re.escape(piece).replace(r"\?", ".")
    found = re.compile(pattern).search(text, start)
    return -1 if found is None else found.start()


def _same(piece: str, text: str) -> bool:
    return len(piece) == len(text) and all(a in ("?", b) for a, b in zip(piece, text, strict=True))


def _line_matches(pattern: str, text: str) -> bool:
    first, *rest = pattern.split("*")
    if not rest:
        return _same(first, text)
    *middle, last = rest
    if len(first) + len(last) > len(text) or not _same(first, text[: len(first)]):
        return False
    stop = len(text) - len(last)
    if not _same(last, text[stop:]):
        return False
    at = len(first)
    for piece in middle:
        # The first place that fits leaves most for what comes behind it.
        at = _found(piece, text, at)
        if at < 0 or (at := at + len(piece)) > stop:
            return False
    return True


def glob_match(pattern: str, text: str) -> bool:
    """Say whether a pattern matches a whole text, in any case.

    `*` stands for any run of characters, also none, `?` for one character; neither for the end of
    a line. Everything else stands for itself.

    >>> glob_match("GPT-*", "gpt-5.6"), glob_match("gpt-?", "gpt-55"), glob_match("?", "\U0001f600")
    (True, False, True)
    """
    # No wildcard crosses a line: lines have to match one by one, and what ends them, too.
    patterns, texts = (_LINES.split(_any_case(side)) for side in (pattern, text))
    return len(patterns) == len(texts) and all(
        a == b if at % 2 else _line_matches(a, b)
        for at, (a, b) in enumerate(zip(patterns, texts, strict=True))
    )


def matches_model(pattern: str, provider: str, model: str) -> bool:
    """Say whether a pattern is about a model.

    With a `/` it is about `provider/id`, or about an id that holds a `/` itself; without, about
    the id.

    >>> matches_model("openai/*", "openai", "gpt-5"), matches_model("openai*", "openai", "gpt-5")
    (True, False)
    >>> matches_model("anthropic/claude*", "openrouter", "anthropic/claude-x")
    True
    """
    if glob_match(pattern, model):
        return True
    return "/" in pattern and glob_match(pattern, f"{provider}/{model}")


def _layers(config: Mapping[str, Any], provider: str, model: str) -> Iterator[dict[str, Any]]:
    for pattern, override in config[_OVERRIDES].items():
        if matches_model(pattern, provider, model):
            yield override


def resolve_config(config: object, model: tuple[str, str] | None = None) -> dict[str, Any]:
    """Give the policy for a model: overrides that match, in the order of the file, the last wins.

    Args:
        config: a configuration.
        model: provider and id; None for no model, for which no override counts.

    >>> config = {"modelOverrides": {"gpt-*": {"disabled": ["x"]}, "*": {"enabled": False}}}
    >>> policy = resolve_config(config, ("openai", "gpt-5"))
    >>> policy["disabled"], policy["enabled"]
    (['x'], False)
    """
    known = normalize_config(config)
    policy = {name: known[name] for name in known if name != _OVERRIDES}
    for override in _layers(known, *model) if model else ():
        policy = deep_merge(policy, override)
    return policy


def always_active(policy: Mapping[str, Any]) -> list[str]:
    """List the core tools, then the configured ones, each once, without what is disabled.

    >>> always_active({"alwaysActive": ["mcp", "bash"], "disabled": ["read"]})
    ['bash', 'write', 'edit', 'ls', 'find', 'grep', 'mcp']
    """
    disabled = frozenset(policy["disabled"])
    return [n for n in dict.fromkeys([*CORE, *policy["alwaysActive"]]) if n not in disabled]
