"""What a model may ask for: searching skills, and loading what a search or the scope allows.

A restricted scope loads what it holds. Where a search finds nothing in it, it looks outside, and
what it shows from there may be loaded until the next search. Skills that are not for a model are
neither found nor loaded. Ranking is the caller's. Source: skills and saver, sections 8 and 10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from attrs import frozen

from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.scope import Resolved, outside
from ctxalgebra.skills.texts import cut_line, one_line

__all__ = ["MOST", "USUAL", "Found", "Permit", "Rank", "Where", "lines", "permit", "search"]

MOST, USUAL = 8, 5
"""How many skills a search shows at most, and unless told otherwise."""

Rank: TypeAlias = Callable[[Sequence[Skill], str, int], Sequence[Skill]]
"""Give those of some skills that match a query, the best one first, so many at most."""

Where: TypeAlias = Literal["active", "global", "global-fallback"]
Permit: TypeAlias = Literal["active-scope", "global-fallback", "manual-only", "outside"]


@frozen
class Found:
    """Hold what a search found.

    Args:
        where: what was searched last.
        skills: the best one first.
        allowed: names of skills outside the scope that may be loaded now.
    """

    where: Where
    skills: tuple[Skill, ...]
    allowed: frozenset[str] = frozenset()


def search(
    scope: Resolved,
    skills: Sequence[Skill],
    query: str,
    *,
    rank: Rank,
    everywhere: bool = False,
    limit: int = USUAL,
) -> Found:
    """Search the scope, and outside of it where it holds nothing that matches.

    Args:
        scope: the active one.
        skills: all that there are.
        query: what is looked for.
        rank: how.
        everywhere: look outside the scope at once.
        limit: how many are shown, from 1 to `MOST`.

    >>> some = (Skill("a"), Skill("b"))
    >>> scope = Resolved("group", "g", some[:1], True)
    >>> search(scope, some, "b", rank=lambda of, q, n: [s for s in of if s.name == q]).where
    'global-fallback'
    """
    most = max(1, min(MOST, limit))
    found: tuple[Skill, ...] = ()
    if not everywhere:
        found = tuple(rank(scope.skills, query, most))[:most]
        if found or not scope.restricted:
            return Found("active", found)
    found = tuple(rank(outside(scope, skills), query, most))[:most]
    where: Where = "global" if everywhere else "global-fallback" if found else "active"
    return Found(where, found, frozenset(skill.name for skill in found))


def permit(
    name: str, scope: Resolved, skills: Sequence[Skill], allowed: frozenset[str] = frozenset()
) -> Permit:
    """Say whether a model may load a skill, and why.

    Args:
        name: its name.
        scope: the active one.
        skills: all that there are.
        allowed: what the last search allowed.

    >>> permit("a", Resolved("group", "g", (), True), [Skill("a", for_model=False)])
    'manual-only'
    >>> permit("b", Resolved("group", "g", (), True), [Skill("b")], frozenset({"b"}))
    'global-fallback'
    """
    if any(skill.name == name and not skill.visible for skill in skills):
        return "manual-only"
    if name in scope.names:
        return "active-scope"
    if name in allowed:
        return "global-fallback"
    return "outside" if scope.restricted else "active-scope"


def lines(found: Sequence[Skill], *, shown: int) -> str:
    r"""Write what was found, a line each.

    Args:
        found: skills, the best one first.
        shown: how many units of a description; 0 for none. One unit is an ellipsis (W28).

    >>> lines([Skill("a", "Does\nsomething"), Skill("b")], shown=8)
    '1. a: Does so…\n2. b'
    """
    told: list[str] = []
    for number, skill in enumerate(found, 1):
        about = cut_line(one_line(skill.description), shown) if shown > 0 else ""
        told.append(f"{number}. {one_line(skill.name)}" + (f": {about}" if about else ""))
    return "\n".join(told)
