"""How the original working memory finds tools and skills by a description, and activates tools.

Tools and skills are the host's plain JSON (specification of the working memory, section 8). Three
faults are not kept. A tool that was activated stays where it is, also at the next task, so the
array of tools only grows at its end (W8, W9). With lazy tools off nothing is activated (W17). A
skill that the model is not to call is not found (W18).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from attrs import evolve, field, frozen

from ctxalgebra.codecs.pi_weights import json_text, text_tokens, utf16_length

__all__ = ["FINDER", "Capabilities", "Kind", "Match", "find", "score", "tool_tokens"]

Capability: TypeAlias = Mapping[str, Any]
Kind = Literal["tool", "skill"]

FINDER = "find_capability"
"""The tool that looks for the others; it is always active and never found."""

_MOST, _USUAL = 8, 3
_COUNTED = 1000
_NO_WORD = re.compile("[^a-z0-9]+")


@frozen
class Match:
    """Hold what was found: a tool or a skill, and how well it matches."""

    kind: Kind
    name: str
    description: str
    score: float


def _with_finder(names: tuple[str, ...]) -> tuple[str, ...]:
    return names if FINDER in names else (*names, FINDER)


@frozen
class Capabilities:
    """Hold the catalogues, and which tools are active.

    Args:
        tools: all tools of the host.
        skills: its skills.
        active: names of the active tools, in order; `FINDER` is added at the end where it lacks.
        lazy: whether tools are activated when they are found.
    """

    tools: tuple[Capability, ...]
    skills: tuple[Capability, ...] = ()
    active: tuple[str, ...] = field(default=(), converter=_with_finder)
    lazy: bool = True


def _words(text: str) -> list[str]:
    return [word for word in _NO_WORD.split(text) if word]


def _shortest(words: Sequence[str]) -> list[str]:
    """Of sorted words, keep those that begin with no other."""
    kept: list[str] = []
    for word in words:
        if not kept or not word.startswith(kept[-1]):
            kept.append(word)
    return kept


def _begins(word: str, known: Sequence[str], shortest: Sequence[str]) -> bool:
    """Say whether a sorted word begins with `word`, or `word` with one of them."""
    longer = bisect_left(known, word)
    if longer < len(known) and known[longer].startswith(word):
        return True
    # Of words none of which begins with another, only the last in front of it can begin it.
    shorter = bisect_right(shortest, word)
    return shorter > 0 and word.startswith(shortest[shorter - 1])


def score(query: str, haystack: str) -> float:
    """Say how well a text matches a query; 0 for not at all.

    The query as it is counts 100 and a hundredth of the text's length, up to 10. Otherwise each
    word of it with two letters or more counts 10 where the text has it, 3 where one of the two
    begins with the other. Words are of ASCII letters and digits, in any case.

    Args:
        query: what is looked for.
        haystack: where.

    >>> score("grep", "grep Search file contents with regex ")
    100.37
    >>> score("files and folders", "read file")
    3
    """
    wanted, text = query.lower(), haystack.lower()
    if wanted in text:
        return 100 + min(utf16_length(text), _COUNTED) / 100
    found = set(_words(text))
    known = sorted(found)
    shortest = _shortest(known)
    total = 0
    for word in _words(wanted):
        if len(word) > 1:
            total += 10 if word in found else 3 * _begins(word, known, shortest)
    return total


def _text(owner: Capability, name: str) -> str:
    text = owner.get(name)
    return text if isinstance(text, str) else ""


def _guidelines(tool: Capability) -> str:
    lines = tool.get("promptGuidelines")
    listed = cast("list[object]", lines) if isinstance(lines, list) else []
    return " ".join(line for line in listed if isinstance(line, str))


def tool_tokens(tool: Capability) -> int:
    """Weigh a tool: its name, description, parameters as JSON and guidelines.

    >>> tool_tokens({"name": "x"})
    2
    """
    parameters = tool.get("parameters")
    shape = json_text({} if parameters is None else parameters)
    said = [_text(tool, "name"), _text(tool, "description"), shape, _guidelines(tool)]
    return text_tokens(" ".join(said))


def _catalogue(known: Capabilities, kind: str) -> list[tuple[Kind, Capability, str]]:
    """List what is searched, and where: tools first."""
    found: list[tuple[Kind, Capability, str]] = []
    if kind != "skill":
        for tool in known.tools:
            if tool.get("name") != FINDER:
                said = f"{_text(tool, 'name')} {_text(tool, 'description')} {_guidelines(tool)}"
                found.append(("tool", tool, said))
    if kind != "tool":
        for skill in known.skills:
            if skill.get("disableModelInvocation") is not True:
                said = f"{_text(skill, 'name')} {_text(skill, 'description')}"
                found.append(("skill", skill, said))
    return found


def find(
    known: Capabilities,
    query: str,
    *,
    kind: str = "any",
    load: bool = True,
    top: float | None = None,
) -> tuple[Capabilities, tuple[Match, ...], Match | None]:
    """Look for tools and skills, and load the best match.

    Args:
        known: catalogues and active tools.
        query: a description.
        kind: `tool` or `skill`; anything else for both.
        load: activate the best match, if it is a tool; a skill is read by who asked.
        top: how many matches are told, from 1 to 8; 3 where it lacks.

    Returns:
        The tools that are active now, the matches, the best one first, and the one that is loaded.

    >>> tools = ({"name": "grep", "description": "Search"}, {"name": "ls"})
    >>> now, matches, loaded = find(Capabilities(tools), "search")
    >>> now.active, len(matches), loaded.name
    (('find_capability', 'grep'), 1, 'grep')
    """
    scored = [
        Match(kind, _text(one, "name"), _text(one, "description"), score(query, said))
        for kind, one, said in _catalogue(known, kind)
    ]
    ranked = sorted((m for m in scored if m.score > 0), key=lambda m: -m.score)
    matches = tuple(ranked[: int(max(1, min(_MOST, _USUAL if top is None else top)))])
    if not (load and matches):
        return known, matches, None
    best = matches[0]
    if best.kind == "tool":
        if not known.lazy:
            return known, matches, None
        if best.name not in known.active:
            known = evolve(known, active=(*known.active, best.name))
    return known, matches, best
