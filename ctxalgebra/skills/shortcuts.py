r"""Shortcuts: how a person calls a skill, a group or a profile in the text that is typed.

Of two skills that a token could mean, the one whose name it is counts (W37). Source: skills and
saver, section 7.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from attrs import frozen

from ctxalgebra.skills.config import Config
from ctxalgebra.skills.groups import Group, token
from ctxalgebra.skills.records import Skill
from ctxalgebra.utf16 import SPACE, trim

__all__ = [
    "Called",
    "Wrong",
    "called",
    "called_skill",
    "group_of",
    "meanings",
    "named",
    "profile_of",
    "skill_of",
]

_T = TypeVar("_T")

_SHORT = re.compile(rf"/([^{SPACE}:]+)(?::([^{SPACE}]+))?(?:[{SPACE}](.*))?\Z", re.DOTALL)
_LONG = re.compile(
    rf"/skill:([^{SPACE}:]+)(?:[{SPACE}](.*))?\Z", re.ASCII | re.DOTALL | re.IGNORECASE
)
_PROFILE = re.compile(rf"/skill-profile:([^{SPACE}]+)\Z", re.ASCII | re.IGNORECASE)


@frozen
class Called:
    """Hold what a text calls: a skill, a group, or a skill of a group.

    Args:
        skill, group: what is called.
        task: what stands behind it; empty for nothing.
    """

    skill: Skill | None = None
    group: Group | None = None
    task: str = ""


@frozen
class Wrong:
    """Hold why a text that looks like a shortcut calls nothing.

    Args:
        reason: one sentence for who typed it.
    """

    reason: str


def meanings(names: Iterable[tuple[str, _T]]) -> Callable[[str], _T | None]:
    """Make of names a function that chooses as `named` does, for many texts.

    >>> meanings([("x y", 1), ("x_y", 2)])("X_Y")
    2
    """
    exact: dict[str, _T] = {}
    lower: dict[str, _T] = {}
    like: dict[str, _T] = {}
    for name, value in names:
        exact.setdefault(name, value)
        lower.setdefault(name.lower(), value)
        like.setdefault(token(name).lower(), value)

    def meant(typed: str) -> _T | None:
        low = typed.lower()
        for known, key in ((exact, typed), (lower, low), (like, low)):
            if key in known:
                return known[key]
        return None

    return meant


def named(typed: str, names: Iterable[tuple[str, _T]]) -> _T | None:
    """Choose what a typed text means: by the name as it is, in another case, or by its token.

    Args:
        typed: a name or token.
        names: what there is, with its name.

    >>> named("X_Y", [("x y", 1), ("x_y", 2)])
    2
    """
    return meanings(names)(typed)


def group_of(typed: str, groups: Iterable[Group]) -> Group | None:
    """Give the group with a token, in any case.

    >>> group_of("OPS", [Group("o", "Ops")]).id
    'o'
    """
    low = typed.lower()
    return next((group for group in groups if token(group.name).lower() == low), None)


def skill_of(typed: str, skills: Iterable[Skill]) -> Skill | None:
    """Give the skill that a token means, in any case.

    >>> skill_of("TDD", [Skill("tdd")]).name
    'tdd'
    """
    return named(typed, ((skill.name, skill) for skill in skills))


def _task(text: str | None) -> str:
    return trim(text or "")


def called(
    text: str, groups: Iterable[Group], skills: Iterable[Skill], config: Config
) -> Called | Wrong | None:
    r"""Read the short form: `/group task`, or `/group:skill task`.

    Args:
        text: what was typed.
        groups: those whose shortcut is on count.
        skills: all that there are, also those that are not for a model.
        config: who belongs to what.

    Returns:
        None where no group is called.

    >>> called("/dev run it", [Group("d", "Dev")], [], Config()).task
    'run it'
    """
    form = _SHORT.match(text)
    group = group_of(form[1], groups) if form else None
    if form is None or group is None or not group.shortcut:
        return None
    if form[2] is None:
        return Called(group=group, task=_task(form[3]))
    skill = skill_of(form[2], skills)
    if skill is None:
        return Wrong(f"there is no skill {form[2]}")
    if group.id not in config.memberships.get(skill.name, ()):
        return Wrong(f"{skill.name} is not in {group.name}")
    return Called(skill, group, _task(form[3]))


def called_skill(
    text: str, groups: Iterable[Group], skills: Iterable[Skill]
) -> Called | Wrong | None:
    """Read the long form: `/skill:name task`, where the name is that of a skill or a group.

    Args:
        text: what was typed.
        groups: all, also those whose shortcut is off.
        skills: all that there are.

    Returns:
        None where the text has another form.

    >>> called_skill("/skill:tdd go", [], [Skill("tdd")]).skill.name
    'tdd'
    """
    form = _LONG.match(text)
    if form is None:
        return None
    skill, group = skill_of(form[1], skills), group_of(form[1], groups)
    if skill and group:
        hint = f"type /{token(group.name)} for it" if group.shortcut else "its shortcut is off"
        return Wrong(f"{form[1]} is a skill and a group; for the group, {hint}")
    if not (skill or group):
        return Wrong(f"there is no skill or group {form[1]}")
    return Called(skill, group, _task(form[2]))


def profile_of(text: str) -> str:
    """Give the profile that `/skill-profile:name` calls; empty where the text has another form.

    >>> profile_of(" /skill-profile:Work ")
    'Work'
    """
    form = _PROFILE.match(trim(text))
    return form[1] if form else ""
