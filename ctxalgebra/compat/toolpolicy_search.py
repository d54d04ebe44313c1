"""How the original tool policy ranks, weighs and lists tools.

Tools are the host's plain JSON (specification of the tool policy, A3 to A5). The rule has faults
that `ctxalgebra.resident.discovery` has not: `net` is found in `internet`, and big schemas come
first. It is here under its name for who has to give the original's order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from math import floor
from typing import Any, TypeAlias

import regex

from ctxalgebra.codecs.pi_weights import json_text, utf16_length
from ctxalgebra.compat.toolpolicy_config import always_active
from ctxalgebra.utf16 import trim

__all__ = [
    "GATEWAY",
    "catalogue",
    "find_tools",
    "format_bytes",
    "format_size",
    "known_tools",
    "search_terms",
    "tool_bytes",
]

GATEWAY = "lazy"
"""The tool that finds and activates the others."""

KnownTool: TypeAlias = Mapping[str, Any]

_STOP = frozenset(
    ("a", "an", "and", "for", "in", "of", "on", "or", "the", "to", "tool", "tools", "with")
)
_RUN = regex.compile(r"[\p{L}\p{N}]+")
_JOINTS = regex.compile("[_-]+")
_STEP = 1024
_LARGEST_FIXED = 10**21
"""From here on the host's language writes numbers with an exponent."""


def _text(tool: KnownTool, name: str) -> str:
    text = tool.get(name)
    return text if isinstance(text, str) else ""


def known_tools(tools: Iterable[KnownTool]) -> dict[str, KnownTool]:
    """Register tools by name, in their order; what comes again stands for what was there.

    >>> list(known_tools([{"name": "b"}, {"name": "a"}, {"name": "b"}]))
    ['b', 'a']
    """
    return {_text(tool, "name"): tool for tool in tools}


def tool_bytes(tool: KnownTool) -> int:
    """Weigh a tool: the UTF-16 units of its description and of its parameters as JSON.

    >>> tool_bytes({"name": "x", "description": "abc", "parameters": {"a": 1}})
    10
    """
    shape = json_text(tool["parameters"]) if "parameters" in tool else ""
    return utf16_length(_text(tool, "description")) + utf16_length(shape)


def _tenths(value: Fraction) -> str:
    tenths = floor(10 * value + Fraction(1, 2))
    return f"{tenths // 10}.{tenths % 10}"


def _sized(value: float, units: tuple[str, ...]) -> str:
    if value < _STEP:
        return f"{json_text(value)}B"
    rest, last = Fraction(value) / _STEP, len(units) - 1
    at = 0
    while at < last and rest >= _STEP:
        rest, at = rest / _STEP, at + 1
    number = json_text(float(rest)) if rest >= _LARGEST_FIXED else _tenths(rest)
    return f"{number}{units[at]}"


def format_bytes(value: float) -> str:
    """Write a size as the original's status does: `B`, from 1,024 on `KB` with one decimal.

    >>> format_bytes(1023), format_bytes(1280), format_bytes(1048576)
    ('1023B', '1.3KB', '1024.0KB')
    """
    return _sized(value, ("KB",))


def format_size(value: float) -> str:
    """Write a size as the host does: `B`, `KB` and `MB`.

    >>> format_size(1048575), format_size(1048576)
    ('1024.0KB', '1.0MB')
    """
    return _sized(value, ("KB", "MB"))


def search_terms(query: str) -> list[str]:
    """List the words of a query that count: two units or more, no stop words, each once.

    >>> search_terms("the web_search of a URL")
    ['web', 'search', 'url']
    """
    words = _RUN.findall(trim(query).lower())
    return [w for w in dict.fromkeys(words) if utf16_length(w) > 1 and w not in _STOP]


def _score(tool: KnownTool, query: str, terms: list[str]) -> int:
    name = _JOINTS.sub(" ", _text(tool, "name").lower())
    description = _text(tool, "description").lower()
    score = 0
    if query and query in f"{name} {description}":
        score = 4 * len(terms) + 4
    return score + sum(4 * (term in name) + (term in description) for term in terms)


def find_tools(tools: Iterable[KnownTool], query: str, left_out: Collection[str] = ()) -> list[str]:
    """Rank tools for a query: their score, then their size, then their order.

    Args:
        tools: what is known.
        query: any text; an empty one finds all tools, the biggest first.
        left_out: names that are not looked for: always active, or disabled.

    >>> tools = [{"name": "web_search", "description": "Search the web"}, {"name": "ls"}]
    >>> find_tools(tools, "search the internet")
    ['web_search']
    """
    wanted = trim(query).lower()
    terms = search_terms(query)
    found: list[tuple[int, int, str]] = []
    for name, tool in known_tools(tools).items():
        if name not in left_out:
            score = _score(tool, wanted, terms)
            if score > 0 or not wanted:
                found.append((-score, -tool_bytes(tool), name))
    return [name for _, _, name in sorted(found, key=lambda one: one[:2])]


def catalogue(policy: Mapping[str, Any], tools: Iterable[KnownTool]) -> list[str] | None:
    """List the names for the prompt, by UTF-16 units; None where there is no such list.

    >>> policy = {"enabled": True, "showCatalogInPrompt": True, "alwaysActive": [], "disabled": []}
    >>> catalogue(policy, [{"name": "b"}, {"name": "B"}, {"name": "read"}, {"name": "lazy"}])
    ['B', 'b']
    """
    if not (policy["enabled"] and policy["showCatalogInPrompt"]):
        return None
    hidden = {GATEWAY, *always_active(policy), *policy["disabled"]}
    names = [name for name in known_tools(tools) if name not in hidden]
    return sorted(names, key=lambda n: n.encode("utf-16-be", "surrogatepass")) or None
