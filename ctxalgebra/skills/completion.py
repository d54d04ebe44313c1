"""Completion for the editor: what a person may go on to type at the cursor.

A person may call every skill, also those that are not for a model, so what is offered here is
another list than what a model finds, and never reaches it. Each candidate is a text that the
shortcuts read as what it stands for. Source: skills and saver, sections 7 and 18.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from attrs import frozen

from ctxalgebra.model.checks import check_text, check_type
from ctxalgebra.skills.config import Config
from ctxalgebra.skills.groups import Group, token
from ctxalgebra.skills.order import name_order
from ctxalgebra.skills.profiles import Profile, meant
from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.session import Skills
from ctxalgebra.skills.shortcuts import group_of, meanings
from ctxalgebra.skills.texts import cut_line, one_line
from ctxalgebra.tokens import check_positive
from ctxalgebra.utf16 import SPACE

__all__ = ["LONGEST", "SHOWN", "Candidate", "Completion", "completed", "completion"]

LONGEST: Final = 256
"""A word of more characters is not completed."""

SHOWN: Final = 20
"""How many candidates are offered unless told otherwise."""

_LABEL, _ABOUT = 80, 120
_SKILL, _PROFILE = "/skill:", "/skill-profile:"
_WORD = re.compile(rf"/[^{SPACE}]*+")
_REST = re.compile(rf"[^{SPACE}]++")

Kind: TypeAlias = Literal["command", "skill", "group", "profile"]


@frozen
class Candidate:
    """Hold one text that could stand at the cursor.

    Args:
        text: what stands there then, to be followed by a blank or, after a colon, by more.
        label: its name, one line.
        about: what it is for, one line; empty for nothing.
        kind: what it calls.
    """

    text: str
    label: str
    about: str = ""
    kind: Kind = "skill"


@frozen
class Completion:
    """Hold what could stand in the place of a word.

    Args:
        start, end: places of the word in the text, in characters.
        candidates: the best one first.
        more: how many others there are.
    """

    start: int
    end: int
    candidates: tuple[Candidate, ...] = ()
    more: int = 0


def _candidate(text: str, name: str, about: str, kind: Kind) -> Candidate:
    return Candidate(
        text, cut_line(one_line(name), _LABEL), cut_line(one_line(about), _ABOUT), kind
    )


def _typed(name: str) -> str:
    """Give how a name is typed: as it is where nothing ends it early, or its token."""
    return name if name and not re.search(f"[{SPACE}:]", name) else token(name)


def _rank(word: str, *names: str) -> int | None:
    """Say how well a word fits: at the start of a name, of a part of it, or anywhere."""
    low, given = [name.lower() for name in names], word.lower()
    if any(name.startswith(given) for name in low):
        return 0
    if any(re.search(rf"[\W_]{re.escape(given)}", name) for name in low):
        return 1
    return 2 if any(given in name for name in low) else None


_Offers: TypeAlias = Iterable[tuple[str, Candidate]]
"""How each is typed behind its lead, and what is offered."""


def _skills(lead: str, offered: Iterable[Skill], known: Iterable[Skill]) -> _Offers:
    """Offer skills that can be typed so that they and no others are meant."""
    means = meanings((skill.name, skill.name) for skill in known)
    for skill in offered:
        text = _typed(skill.name)
        if text and means(text) == skill.name:
            yield text, _candidate(f"{lead}{text}", skill.name, skill.description, "skill")


def _groups(lead: str, groups: Iterable[Group]) -> _Offers:
    for group in groups:
        text = token(group.name)
        yield text, _candidate(f"{lead}{text}", group.name, group.description, "group")


def _profiles(profiles: tuple[Profile, ...]) -> _Offers:
    for profile in profiles:
        text = token(profile.name)
        if meant(text, profiles) is profile:
            told = _candidate(f"{_PROFILE}{text}", profile.name, profile.description, "profile")
            yield text, told


def _called(config: Config, known: tuple[Skill, ...]) -> _Offers:
    """Offer what `/skill:` calls: what is both a skill and a group calls nothing."""
    taken = {token(group.name).lower() for group in config.groups}
    means = meanings((skill.name, skill) for skill in known)
    plain = [skill for skill in known if _typed(skill.name).lower() not in taken]
    groups = [group for group in _held(config, known) if means(token(group.name)) is None]
    return (*_skills(_SKILL, plain, known), *_groups(_SKILL, groups))


def _held(config: Config, known: Iterable[Skill]) -> list[Group]:
    """Give the groups that hold something; others can't be chosen."""
    held = {id for skill in known for id in config.memberships.get(skill.name, ())}
    return [group for group in config.groups if group.id in held and token(group.name)]


def _offers(word: str, skills: Skills) -> tuple[str, _Offers]:
    """Give what the word is matched with, and what could stand in its place."""
    config, known = skills.profiles.active.config, skills.known
    low = word.lower()
    if low.startswith(_PROFILE):
        return word[len(_PROFILE) :], _profiles(skills.profiles.profiles)
    if low.startswith(_SKILL):
        return word[len(_SKILL) :], _called(config, known)
    short = [group for group in _held(config, known) if group.shortcut]
    lead, colon, rest = word[1:].partition(":")
    if colon:
        group = group_of(lead, short)
        id = group.id if group else ""
        members = [s for s in known if id in config.memberships.get(s.name, ())]
        return rest, _skills(f"/{lead}:", members, known)
    commands = (
        (_SKILL[1:-1], Candidate(_SKILL, "skill", "call a skill or a group", "command")),
        (_PROFILE[1:-1], Candidate(_PROFILE, "skill-profile", "use another profile", "command")),
    )
    return word[1:], (*commands, *_groups("/", short))


def completion(text: str, cursor: int, skills: Skills, *, most: int = SHOWN) -> Completion:
    """Say what could stand in the place of the word at the cursor.

    Only the first word of a text calls something, so only that is completed: `/skill:` goes on with
    skills and groups, `/group:` with members of the group, `/skill-profile:` with profiles, and `/`
    with all of these and with groups whose shortcut is on. What begins like the word comes first,
    then what has a part that does, then what holds it; then names in order.

    Args:
        text: what stands in the editor.
        cursor: a place in it, in characters; what the word holds behind it is replaced unread.
        skills: all that there are, those that are not for a model included.
        most: how many candidates.

    Returns:
        No candidates where the word is none of these, or is longer than `LONGEST`.

    Raises:
        InvalidArgument: `wrong-type`; `lone-surrogate`; `invalid-argument`, `most` is not positive.

    >>> skills = Skills((Skill("tdd", "Test first"), Skill("deploy", for_model=False)))
    >>> [one.text for one in completion("/skill:d", 8, skills).candidates]
    ['/skill:deploy', '/skill:tdd']
    >>> completion("see /sk", 7, skills).candidates
    ()
    """
    check_text(text, "text")
    check_type(cursor, int, "cursor")
    check_type(skills, Skills, "skills")
    check_positive(most=most)
    end = max(0, min(cursor, len(text)))
    start = len(text[:end]) - len(text[:end].lstrip(SPACE))
    word = _WORD.fullmatch(text, start, end)
    if word is None or end - start > LONGEST:
        return Completion(end, end)
    wanted, offers = _offers(word[0], skills)
    ranked: list[tuple[int, tuple[object, ...], str, Candidate]] = []
    for typed, one in offers:
        rank = _rank(wanted, typed, one.label)
        if rank is not None:
            ranked.append((rank, name_order(typed), one.kind, one))
    ranked.sort(key=lambda found: found[:3])
    found = tuple(one for *_, one in ranked[:most])
    behind = _REST.match(text, end)
    end = behind.end() if behind else end
    return Completion(start, end, found, len(ranked) - len(found))


def completed(text: str, found: Completion, candidate: Candidate) -> tuple[str, int]:
    """Put a candidate into a text; where the cursor stands then.

    A blank follows it, unless more is to be typed or one stands there.

    Args:
        text: what stands in the editor.
        found: what `completion` gave for it.
        candidate: one of its candidates.

    >>> completed("/sk", Completion(0, 3), Candidate("/skill:tdd", "tdd"))
    ('/skill:tdd ', 11)
    """
    rest = text[found.end :]
    ends = candidate.text.endswith(":") or rest[:1] in tuple(SPACE)
    put = candidate.text if ends else f"{candidate.text} "
    return f"{text[: found.start]}{put}{rest}", found.start + len(put)
