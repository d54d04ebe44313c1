"""How the original skill orchestrator ranks skills and deferred tools.

Words are of ASCII letters and digits, without stop words or stems, and parts of words count. The
library's own ranking is another; this one is for ports that have to agree with the original, and
for measuring the two against each other (specification of skills and saver, sections 9 and 16).
Of the fault W27 nothing is kept: the end of a sentence is no part of a term, and a term of two
characters counts where it is a whole word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from ctxalgebra.compaction.shell import word_set
from ctxalgebra.compaction.signals import text_terms, units
from ctxalgebra.skills.order import name_order
from ctxalgebra.skills.records import Skill
from ctxalgebra.utf16 import trim

__all__ = ["rank_skills", "rank_tools", "score_skill", "tokens"]

_WORD = re.compile("[a-z0-9]+")
_MOST, _USUAL = 8, 5
_LONG: Final = 8
_STOPS: Final = word_set(
    "am an as at be by do go he hi if in is it me my no of ok on or so to up us we"
)


def tokens(text: str) -> list[str]:
    """Give the words of a text that have two characters or more.

    >>> tokens("Unit-Test X1 y")
    ['unit', 'test', 'x1']
    """
    return [word for word in _WORD.findall(text.lower()) if len(word) > 1]


def score_skill(name: str, about: str, query: str) -> int:
    """Say how well a skill matches a query; 0 for not at all.

    Args:
        name, about: of the skill.
        query: what is looked for.

    >>> score_skill("unit-test", "Write a unit test", "unit tests test")
    72
    """
    wanted = trim(query).lower()
    if not wanted:
        return 0
    name, about = name.lower(), about.lower()
    total = 200 * (name == wanted) + 80 * name.startswith(wanted) + 60 * (wanted in name)
    total += 35 * (wanted in about)
    words = frozenset(_WORD.findall(f"{name} {about}"))
    for word in dict.fromkeys(tokens(wanted)):
        total += 45 if word == name else 24 * (word in name)
        total += 8 * (word in about) + 4 * (word in words)
    return total


def rank_skills(skills: Iterable[Skill], query: str, most: int = _USUAL) -> tuple[Skill, ...]:
    """Give the skills that match a query, the best one first, then by name.

    Args:
        skills: where to look.
        query: what is looked for.
        most: how many, from 1 to 8.

    >>> [s.name for s in rank_skills([Skill("b", "film"), Skill("a", "film"), Skill("c")], "film")]
    ['a', 'b']
    """
    scored = [(score_skill(skill.name, skill.description, query), skill) for skill in skills]
    ranked = sorted(
        (-score, name_order(s.name), at) for at, (score, s) in enumerate(scored) if score
    )
    return tuple(scored[at][1] for _, _, at in ranked[: max(1, min(_MOST, most))])


def _score_tool(name: str, about: str, terms: Sequence[str], short: Sequence[str]) -> int:
    name, about = name.lower(), about.lower()
    total = 0
    for term in terms:
        total += 20 if term == name else 8 * (term in name)
        total += (4 if units(term) >= _LONG else 2) * (term in about)
    if short:
        in_name, in_about = frozenset(_WORD.findall(name)), frozenset(_WORD.findall(about))
        for term in short:
            total += 20 if term == name else 8 * (term in in_name)
            total += 2 * (term in in_about)
    return total


def rank_tools(tools: Sequence[tuple[str, str]], query: str, most: int = _USUAL) -> tuple[int, ...]:
    """Give the places of the tools that match a query, the best one first, then by name.

    Args:
        tools: their names and descriptions.
        query: what is looked for.
        most: how many, from 1 to 8.

    >>> rank_tools([("send_mail", "Send email"), ("s3_upload", "")], "an email to s3.")
    (1, 0)
    """
    terms = text_terms(query)
    words = dict.fromkeys(_WORD.findall(query.lower()))
    short = [word for word in words if len(word) == 2 and word not in _STOPS]
    wanted = trim(query).lower()
    found: list[tuple[int, tuple[object, ...], int]] = []
    for at, (name, about) in enumerate(tools):
        score = _score_tool(name, about, terms, short)
        if not terms and not score and wanted and wanted in f"{name} {about}".lower():
            score = 5
        if score:
            found.append((-score, name_order(name), at))
    return tuple(at for _, _, at in sorted(found)[: max(1, min(_MOST, most))])
