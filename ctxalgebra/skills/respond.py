"""The two tools by which a model finds and loads skills, and the answers to their calls.

A harness offers `SKILL_SEARCH` and `SKILL`, writes `scope.stub` into its system text, and records
what `respond_skills` gives for a call. The head stays as it is, whatever is found or loaded, so
nothing is billed again. Source: skills and saver, sections 9 to 11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen

from ctxalgebra.arguments import arguments_of, schema
from ctxalgebra.errors import CtxError, InvalidArgument
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.entries import Entry
from ctxalgebra.model.head import Tool
from ctxalgebra.model.parts import ToolCall, tool_result
from ctxalgebra.model.session import Session
from ctxalgebra.resident.discovery import Ranking, rank
from ctxalgebra.resident.index import Capability, Index
from ctxalgebra.skills.asking import MOST, USUAL, Rank, lines
from ctxalgebra.skills.groups import NAME
from ctxalgebra.skills.journal import loading, noted, safely, shown_skills, skills_at
from ctxalgebra.skills.loading import Loaded, bundle, section
from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.session import Read, Skills, asked, loaded, scope_of
from ctxalgebra.skills.texts import cut_line, one_line
from ctxalgebra.utf16 import trim

__all__ = [
    "MOST_BYTES",
    "MOST_READ",
    "SKILL",
    "SKILL_SEARCH",
    "rank_by",
    "respond_skills",
]

MOST_BYTES: Final = 200_000
"""How much of skills comes in one result, in bytes of UTF-8; the rest comes with the next call."""

MOST_READ: Final = 2_000_000
"""How much is read for one call, in characters."""

_QUERY, _ERROR, _TOLD = 1_000, 400, 8

SKILL_SEARCH = Tool(
    "skill_search",
    "Find skills: instructions for a kind of task, which are not listed anywhere. Gives names, and "
    "what each is for, the best first. Load one with skill.",
    schema(
        ["query"],
        query={
            "type": "string",
            "minLength": 1,
            "maxLength": _QUERY,
            "description": "What is to be done, in a few words",
        },
        limit={
            "type": "integer",
            "minimum": 1,
            "maximum": MOST,
            "description": f"Most skills, {USUAL} if left out",
        },
        scope={
            "type": "string",
            "enum": ["active", "global"],
            "description": "Where to look: among the skills in use, which is so if left out, or "
            "among all others",
        },
    ),
)
"""The tool that finds skills. Its text is part of the cached prefix: it stays as it is."""

SKILL = Tool(
    "skill",
    "Load a skill, and the skills that it needs. Follow what it says from then on.",
    schema(
        ["name"],
        name={"type": "string", "description": "The exact name, as skill_search gives it"},
    ),
)
"""The tool that loads skills. Its text is part of the cached prefix: it stays as it is."""

_TOOLS: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in (SKILL_SEARCH, SKILL)})


def _clean(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@lru_cache(maxsize=16)
def _sound(skills: tuple[Skill, ...]) -> tuple[Skill, ...]:
    """Give the skills that can be told of: by names that are texts and not endless."""
    found: list[Skill] = []
    for skill in skills:
        if len(skill.name) <= NAME and _clean(skill.name) == skill.name:
            about, path = _clean(skill.description), _clean(skill.path)
            same = about == skill.description and path == skill.path
            found.append(skill if same else evolve(skill, description=about, path=path))
    return tuple(found)


@lru_cache(maxsize=16)
def _indexed(skills: tuple[Skill, ...]) -> Index:
    """Index skills, once for a scope: what is rare in it is not what is rare among all."""
    return Index(tuple(Capability(s.name, s.description, "skill") for s in skills))


def rank_by(ranking: str | Ranking = "default") -> Rank:
    """Rank skills as `resident.rank` does; those that were ranked before are indexed already.

    Args:
        ranking: a name of `RANKINGS`, or a function like those.

    >>> some = (Skill("unit-test", "Write a unit test"), Skill("contests"))
    >>> [skill.name for skill in rank_by()(some, "tests", 5)]
    ['unit-test']
    """

    def ranked(skills: Sequence[Skill], query: str, most: int) -> list[Skill]:
        known = {skill.name: skill for skill in skills}
        found = rank(_indexed(tuple(known.values())), query, ranking=ranking, most=most)
        return [known[one.capability.name] for one in found]

    return ranked


@frozen
class _Place:
    """What a call is answered with: see `respond_skills`."""

    session: Session
    skills: Skills
    read: Read
    rank: Rank


_Answer = tuple[tuple[Entry, ...], str]
"""Notes, and the text of the result."""


def _search(place: _Place, given: Mapping[str, Any], _: str) -> _Answer:
    query = trim(given["query"])[:_QUERY]
    if not query:
        raise InvalidArgument("invalid-argument", "say what is to be done", field="query")
    before = place.skills
    after, found = asked(
        before,
        query,
        rank=place.rank,
        everywhere=given.get("scope") == "global",
        limit=given.get("limit", USUAL),
    )
    scope = scope_of(after)
    label = one_line(scope.label)
    shown = lines(found.skills, shown=after.profiles.active.config.shown)
    notes = noted(before, after)
    if not found.skills:
        outside = f" outside {label}" if found.where == "global" else ""
        return notes, f"No skill{outside} fits. Try other words."
    if found.where != "active":
        lead = f"Outside {label}; these can be loaded until you search again:"
        return notes, f"{lead}\n{shown}"
    rest = "\nIf none of them fits, search again with scope global." if scope.restricted else ""
    return notes, f"In {label}:\n{shown}{rest}"


def _named(name: str, skills: Sequence[Skill]) -> str:
    """Give the name that is meant, where it was told as one line."""
    if any(skill.name == name for skill in skills):
        return name
    return next((skill.name for skill in skills if one_line(skill.name) == name), name)


_REFUSED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "manual-only": ("manual-skill", "only the user can call this skill"),
        "outside": ("outside-scope", "search for it first, then load what the search gives"),
    }
)


def _portion(found: Loaded, shown: Mapping[str, str]) -> tuple[Loaded, list[str]]:
    """Part what comes now from what comes with the next call; what is needed comes first."""
    now: list[tuple[Skill, str]] = []
    rest: list[str] = []
    room = MOST_BYTES
    for skill, text in found.bodies:
        if skill.name in shown:
            now.append((skill, text))
            continue
        size = len(section(skill, text).encode())
        if size > MOST_BYTES:
            told = f"{skill.name} has {size} bytes; a skill has at most {MOST_BYTES}"
            raise InvalidArgument("reply-too-long", told, field="name")
        if rest or size > room:
            rest.append(skill.name)
            continue
        room -= size
        now.append((skill, text))
    return evolve(found, bodies=tuple(now)), rest


def _some(names: Sequence[str]) -> str:
    more = f", and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return ", ".join(map(one_line, names[:_TOLD])) + more


def _bounded(found: Loaded) -> Loaded:
    """Tell of some things that lack only, and of short circles."""
    cycles = [cycle for cycle in found.cycles if len(cycle) <= _TOLD + 1][:_TOLD]
    missing = [name for name in found.missing if len(name) <= NAME][:_TOLD]
    return evolve(found, cycles=tuple(cycles), missing=tuple(missing))


def _load(place: _Place, given: Mapping[str, Any], call: str) -> _Answer:
    name = _named(given["name"], place.skills.known)
    may, found = loaded(place.skills, name, place.read)
    if found is None:
        code, why = _REFUSED[may]
        raise InvalidArgument(code, why, field="name")
    shown = shown_skills(place.session, found)
    now, rest = _portion(_bounded(found), shown)
    fresh = evolve(now, bodies=tuple(pair for pair in now.bodies if pair[0].name not in shown))
    if not fresh.bodies:
        root = shown[name]
        came = "" if root == name else f", where {one_line(root)} was loaded"
        return (), (
            f"{one_line(name)} is loaded already: it stands in full further above{came}, with all "
            "that it needs, and is still in force. It is not shown again."
        )
    text = _clean(bundle(now, shown=shown))
    if rest:
        text += f"\n\nThis is not all. Call skill with {one_line(name)} again for {_some(rest)}."
    return (loading(fresh, call),), text


_ANSWERS = MappingProxyType({SKILL_SEARCH.name: _search, SKILL.name: _load})


def _within(read: Read, skills: Sequence[Skill]) -> Read:
    """Read the files of skills as the caller knows them, and only so much."""
    known = {skill.name: skill for skill in skills}
    total = 0

    def reading(skill: Skill) -> str:
        nonlocal total
        text = read(known[skill.name])
        total += len(text)
        if total > MOST_READ:
            told = f"the skill and what it needs have more than {MOST_READ} characters"
            raise InvalidArgument("reply-too-long", told, field="name")
        return _clean(text)

    return reading


def respond_skills(
    session: Session,
    call: ToolCall,
    *,
    skills: Skills,
    read: Mapping[str, str] | Read,
    ranking: str | Ranking = "default",
) -> tuple[Entry, ...]:
    """Answer a call of `skill_search` or `skill`: give what is to be recorded.

    That is the result, and in front of it a note where a search allowed something else than the
    one before, or where skills were loaded. Whatever the model wrote gets an answer: what is wrong
    with a call is the text of an error result, with the code. Nothing is recorded here, and equal
    sessions get equal answers; of several calls each is recorded before the next is answered.

    Skills that are not for a model are neither found nor loaded, and so are those whose name is
    longer than `NAME`. What is shown word for word already comes not again.

    Args:
        session: holds the call.
        call: its name is that of `SKILL_SEARCH` or `SKILL`.
        skills: what there is; its scope holds where none was chosen in the session.
        read: the texts of the files by name, or what gives the text of one.
        ranking: as `resident.rank` takes it.

    Reads: notes, what is shown.

    Raises:
        InvalidArgument: `invalid-argument`, the call is for another tool, or there is no such
            ranking; `wrong-type`.

    >>> from ctxalgebra import assistant, record, user
    >>> from ctxalgebra.skills.scope import Scope
    >>> call = ToolCall("c1", "skill", '{"name":"tdd"}')
    >>> session = record(Session(), user("Fix it"), assistant(call))
    >>> skills = Skills((Skill("tdd", "Test first"),), scope=Scope("all"))
    >>> note, result = respond_skills(session, call, skills=skills, read={"tdd": "Write a test."})
    >>> result.parts[0].text.splitlines()[-3:]
    ['Write a test.', '', '</skill-orchestrator>']
    """
    check_type(call, ToolCall, "call")
    answer = _ANSWERS.get(call.name)
    if answer is None:
        raise InvalidArgument("invalid-argument", f"{call.name!r} is no tool of skills")
    now = skills_at(session, skills)
    known = _sound(tuple(now.known))
    ranked = rank_by(ranking)
    ranked((), "", 1)
    reading = _within(safely(read), now.known)
    place = _Place(session, evolve(now, known=known), reading, ranked)
    try:
        notes, text = answer(place, arguments_of(call, _TOOLS[call.name]), call.id)
    except CtxError as error:
        text = cut_line(str(error), _ERROR)
        return (tool_result(call.id, text, name=call.name, error=True),)
    return (*notes, tool_result(call.id, text, name=call.name))
