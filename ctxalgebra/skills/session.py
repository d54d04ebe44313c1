"""Skills over a session: what was chosen, what a search allowed, and what each event makes of it.

A value and functions that give the next one. Files are read by the caller's `read`; ranking is the
caller's. Source: skills and saver, sections 7, 8, 10 and 18.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from attrs import evolve, field, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.skills import profiles
from ctxalgebra.skills.asking import USUAL, Found, Permit, Rank, permit, search
from ctxalgebra.skills.groups import Group
from ctxalgebra.skills.loading import Loaded, bundle, load
from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.scope import Resolved, Scope, resolved
from ctxalgebra.skills.shortcuts import Called, Wrong, called, called_skill, profile_of

__all__ = ["Read", "Skills", "Typed", "Write", "asked", "chosen", "loaded", "scope_of", "typed"]

Read: TypeAlias = Callable[[Skill], str]
"""Give the text of a skill's file; what it raises passes."""

Write: TypeAlias = Callable[[Loaded], str]
"""Write skills as one text for a model."""

_NO_TASK = "Follow these skills in what comes next."


@frozen
class Skills:
    """Hold skills, profiles, the scope, and what the last search allowed.

    Args:
        known: all skills, as `records.known_skills` gives them.
        profiles: as they were read; one without groups unless told otherwise.
        scope: as it was chosen.
        allowed: names of skills outside the scope that a model may load.
    """

    known: tuple[Skill, ...]
    profiles: profiles.Opened = field(factory=lambda: profiles.fallback(profiles.Profiles()))
    scope: Scope = field(factory=Scope)
    allowed: frozenset[str] = frozenset()


@frozen
class Typed:
    """Hold what becomes of a text that was typed.

    Args:
        action: the host goes on with it, drops it, or goes on with `text`.
        text: what stands in its place.
        notice: one sentence for who typed it.
        loaded: the skills that were called by name.
    """

    action: Literal["continue", "handled", "transform"] = "continue"
    text: str = ""
    notice: str = ""
    loaded: Loaded | None = None


def scope_of(skills: Skills) -> Resolved:
    """Say what the scope holds now.

    >>> scope_of(Skills((Skill("a"),), profiles.opened(profiles.Profiles()))).label
    'profile "Default"'
    """
    active = skills.profiles.active
    known = skills.known
    return resolved(skills.scope, active.config, known, profile=active.id, name=active.name)


def chosen(skills: Skills, scope: Scope) -> Skills:
    """Choose a scope; what a search allowed is over.

    >>> scope_of(chosen(Skills((), profiles.opened(profiles.Profiles())), Scope("all"))).kind
    'all'
    """
    return evolve(skills, scope=scope, allowed=frozenset())


def asked(
    skills: Skills, query: str, *, rank: Rank, everywhere: bool = False, limit: int = USUAL
) -> tuple[Skills, Found]:
    """Search for a model; what an earlier search allowed is over.

    Args:
        skills: the state.
        query, rank, everywhere, limit: as in `asking.search`.

    >>> skills = Skills((Skill("a"),), profiles.opened(profiles.Profiles()))
    >>> skills, found = asked(skills, "a", rank=lambda some, query, most: some)
    >>> found.where, sorted(skills.allowed)
    ('global-fallback', ['a'])
    """
    found = search(
        scope_of(skills), skills.known, query, rank=rank, everywhere=everywhere, limit=limit
    )
    return evolve(skills, allowed=found.allowed), found


def loaded(skills: Skills, name: str, read: Read) -> tuple[Permit, Loaded | None]:
    """Load a skill for a model, if it may.

    Args:
        skills: the state, which stays.
        name: of the skill.
        read: gives the text of a file.

    Raises:
        InvalidArgument: as `loading.load`.

    >>> loaded(Skills((Skill("a"),), profiles.opened(profiles.Profiles())), "a", lambda skill: "x")
    ('outside', None)
    """
    may = permit(name, scope_of(skills), skills.known, skills.allowed)
    if may in ("manual-only", "outside"):
        return may, None
    return may, load([name], skills.known, skills.profiles.active.config, read)


def _group(skills: Skills, group: Group, task: str) -> tuple[Skills, Typed]:
    """Choose a group, unless no skill is in it."""
    active = skills.profiles.active
    lists = active.config.memberships
    if not any(group.id in lists.get(skill.name, ()) for skill in skills.known):
        return skills, Typed("handled", notice=f"{group.name} holds no skill")
    notice = f"{group.name} is the scope now"
    now = chosen(skills, Scope("group", active.id, group.id))
    return now, Typed("transform" if task else "handled", task, notice)


def _skill(skills: Skills, skill: Skill, task: str, read: Read, write: Write) -> Typed:
    """Load a skill for who called it by name, whatever the scope."""
    found = load([skill.name], skills.known, skills.profiles.active.config, read)
    rest = f"# Task\n\n{task}" if task else _NO_TASK
    return Typed("transform", f"{write(found)}\n\n{rest}", f"{skill.name} is loaded", found)


def _called(skills: Skills, text: str) -> Called | Wrong | None:
    config = skills.profiles.active.config
    found = called_skill(text, config.groups, skills.known)
    return found or called(text, config.groups, skills.known, config)


def typed(skills: Skills, text: str, read: Read, *, write: Write = bundle) -> tuple[Skills, Typed]:
    r"""Read a text that a person typed, and do what its shortcut says.

    What fails is told in `notice`, and changes nothing.

    Args:
        skills: the state.
        text: what was typed.
        read: gives the text of a file.
        write: makes the text of skills that are called by name.

    >>> skills = Skills((Skill("a"),), profiles.opened(profiles.Profiles()))
    >>> typed(skills, "/skill:a go", lambda skill: "Do it")[1].text.endswith("# Task\n\ngo")
    True
    >>> typed(skills, "hello", lambda skill: "")[1].action
    'continue'
    """
    try:
        if name := profile_of(text):
            opened = profiles.switch(skills.profiles.store, name)
            now = chosen(evolve(skills, profiles=opened), Scope())
            return now, Typed("handled", notice=f"{opened.active.name} is the profile now")
        found = _called(skills, text)
        if isinstance(found, Wrong):
            return skills, Typed("handled", notice=found.reason)
        if found and found.skill:
            return skills, _skill(skills, found.skill, found.task, read, write)
        if found and found.group:
            return _group(skills, found.group, found.task)
    except InvalidArgument as error:
        return skills, Typed("handled", notice=error.message)
    return skills, Typed()
