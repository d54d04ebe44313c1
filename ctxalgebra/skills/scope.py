"""Scopes: which skills a search looks through first, and which lie outside.

A scope is all skills, those of a profile, or those of one of its groups. Source: skills and saver,
sections 3 and 8.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from attrs import frozen

from ctxalgebra.compaction.jsontext import compact
from ctxalgebra.skills.config import Config
from ctxalgebra.skills.records import Skill, visible

__all__ = [
    "Kind",
    "Resolved",
    "Scope",
    "group_members",
    "outside",
    "profile_members",
    "resolved",
    "stub",
]

Kind: TypeAlias = Literal["all", "profile", "group"]


@frozen
class Scope:
    """Hold a scope as it was chosen.

    Args:
        kind: `all`, `profile` or `group`.
        profile: id of the profile that the group was chosen in.
        group: id of the group.
    """

    kind: Kind = "profile"
    profile: str = ""
    group: str = ""


@frozen
class Resolved:
    """Hold what a scope is now.

    Args:
        kind: a group that is gone is its profile.
        label: how it is called.
        skills: what it holds, sorted.
        restricted: whether skills lie outside.
    """

    kind: Kind
    label: str
    skills: tuple[Skill, ...]
    restricted: bool

    @property
    def names(self) -> frozenset[str]:
        """The names of its skills.

        >>> Resolved("all", "all", (Skill("a"),), restricted=False).names
        frozenset({'a'})
        """
        return frozenset(skill.name for skill in self.skills)


def group_members(group: str, config: Config, skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """Give the skills of a group that a model may load.

    Args:
        group: its id.
        config: who belongs to what.
        skills: all that there are.

    >>> group_members("g", Config(memberships={"a": ("g",)}), [Skill("a"), Skill("constructor")])
    (Skill(name='a', description='', path='', source='', for_model=None),)
    """
    return tuple(s for s in visible(skills) if group in config.memberships.get(s.name, ()))


def profile_members(config: Config, skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """Give the skills of all groups that a model may load.

    >>> profile_members(Config(memberships={"a": ("g",)}), [Skill("a")])
    ()
    """
    ids = frozenset(group.id for group in config.groups)
    return tuple(
        s for s in visible(skills) if not ids.isdisjoint(config.memberships.get(s.name, ()))
    )


def resolved(
    scope: Scope, config: Config, skills: Iterable[Skill], *, profile: str, name: str
) -> Resolved:
    """Say what a scope holds.

    Args:
        scope: as it was chosen.
        config: that of the active profile.
        skills: all that there are.
        profile, name: id and name of the active profile.

    >>> resolved(Scope("all"), Config(), [Skill("a")], profile="p", name="P").restricted
    False
    >>> resolved(Scope(), Config(), [Skill("a")], profile="p", name="P")
    Resolved(kind='profile', label='profile "P"', skills=(), restricted=True)
    """
    known = tuple(skills)
    if scope.kind == "all":
        return Resolved("all", "all skills that a model may call", visible(known), restricted=False)
    group = next((g for g in config.groups if g.id == scope.group), None)
    if scope.kind == "group" and scope.profile == profile and group:
        members = group_members(group.id, config, known)
        return Resolved("group", f"group {compact(group.name)}", members, restricted=True)
    members = profile_members(config, known)
    restricted = len(members) < len(visible(known))
    return Resolved("profile", f"profile {compact(name)}", members, restricted)


def outside(scope: Resolved, skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """Give the skills that a restricted scope leaves out, and a model may load.

    >>> outside(Resolved("group", "g", (Skill("a"),), True), [Skill("b"), Skill("a")])
    (Skill(name='b', description='', path='', source='', for_model=None),)
    """
    names = scope.names
    return tuple(s for s in visible(skills) if s.name not in names) if scope.restricted else ()


def stub(scope: Resolved) -> str:
    """Word what stands in the system prompt for a scope: how many skills, and how to find them.

    It names none of them.

    >>> print(stub(Resolved("all", "all", (Skill("a"),), restricted=False)))
    # Skills: all
    1 skill is at hand that is not shown here.
    Names and descriptions are found with `skill_search`; if nothing fits, search again with scope
    `global`. Load one with `skill` and its exact name.
    """
    count = len(scope.skills)
    are = "skill is" if count == 1 else "skills are"
    return (
        f"# Skills: {scope.label}\n"
        f"{count} {are} at hand that {'is' if count == 1 else 'are'} not shown here.\n"
        "Names and descriptions are found with `skill_search`; if nothing fits, search again with "
        "scope\n`global`. Load one with `skill` and its exact name."
    )
