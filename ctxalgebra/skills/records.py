"""Skills as records: what is known of a skill without reading it.

Whether a model may call a skill is known from the host's prompt options. A slash command says
nothing about it, so a skill that is known by its command only is not for the model (W32). Source:
skills and saver, section 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from attrs import evolve, frozen

from ctxalgebra.skills.given import items, members, text
from ctxalgebra.skills.order import name_order
from ctxalgebra.skills.texts import CONTROLS, description
from ctxalgebra.utf16 import trim

__all__ = [
    "Skill",
    "filtered",
    "from_commands",
    "from_prompt",
    "known_skills",
    "merged",
    "visible",
]

_COMMAND = "skill:"


@frozen(cache_hash=True)
class Skill:
    """Hold what is known of a skill.

    Args:
        name: unlike all others; any text without controls.
        description: what it is for, in one line.
        path: where its file lies.
        source: who told; empty where nobody said.
        for_model: whether a model may find and load it; None where nobody said.
    """

    name: str
    description: str = ""
    path: str = ""
    source: str = ""
    for_model: bool | None = None

    @property
    def visible(self) -> bool:
        """Whether nobody said that the model may not call it.

        >>> Skill("a").visible, Skill("a", for_model=False).visible
        (True, False)
        """
        return self.for_model is not False


def _sorted(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    given = tuple(skills)
    return tuple(map(given.__getitem__, _order(tuple(skill.name for skill in given))))


@lru_cache(maxsize=16)
def _order(names: tuple[str, ...]) -> tuple[int, ...]:
    """Sort names once: whoever searches asks for the same ones with each call."""
    keys = [name_order(name) for name in names]
    return tuple(sorted(range(len(names)), key=keys.__getitem__))


def from_prompt(values: object) -> tuple[Skill, ...]:
    """Read the skills that stand in the host's prompt options.

    An entry needs a name without controls and a path; of several with one name the first counts.

    Args:
        values: a list of objects with `name`, `description`, one of `filePath`, `path` and
            `skillPath`, `source` and `disableModelInvocation`; anything else is passed over.

    >>> from_prompt([{"name": " b ", "path": "/b"}, {"name": "a"}])
    (Skill(name='b', description='', path='/b', source='', for_model=True),)
    """
    found: dict[str, Skill] = {}
    for value in map(members, items(values)):
        name = text(value.get("name"))
        paths = (value.get(key) for key in ("filePath", "path", "skillPath"))
        path = next((each for each in paths if isinstance(each, str)), "")
        source = value.get("source")
        if name and path and name not in found and not CONTROLS.search(name):
            found[name] = Skill(
                name,
                description(value.get("description")),
                path,
                source if isinstance(source, str) else "",
                value.get("disableModelInvocation") is not True,
            )
    return _sorted(found.values())


def from_commands(values: object) -> tuple[Skill, ...]:
    """Read the skills among the host's slash commands; whether they are for a model stays unsaid.

    Args:
        values: a list of objects with `name`, `description`, `source` and `sourceInfo`.

    >>> command = {"name": "skill:tdd", "source": "skill", "sourceInfo": {"path": "/t"}}
    >>> from_commands([command])
    (Skill(name='tdd', description='', path='/t', source='skill-command', for_model=None),)
    """
    found: dict[str, Skill] = {}
    for value in map(members, items(values)):
        if value.get("source") != "skill":
            continue
        name = trim(text(value.get("name")).removeprefix(_COMMAND))
        path = members(value.get("sourceInfo")).get("path")
        if (
            name
            and isinstance(path, str)
            and path
            and name not in found
            and not CONTROLS.search(name)
        ):
            about = description(value.get("description"))
            found[name] = Skill(name, about, path, "skill-command")
    return _sorted(found.values())


def merged(*sets: Iterable[Skill]) -> tuple[Skill, ...]:
    """Put sets of skills together, sorted; of several with one name the first counts.

    >>> [skill.path for skill in merged([Skill("b", path="/1")], [Skill("b"), Skill("a")])]
    ['', '/1']
    """
    found: dict[str, Skill] = {}
    for skills in sets:
        for skill in skills:
            found.setdefault(skill.name, skill)
    return _sorted(found.values())


def known_skills(prompt: Iterable[Skill], commands: Iterable[Skill]) -> tuple[Skill, ...]:
    """Give all skills that there are; those that only a command tells of are not for the model.

    >>> [skill.visible for skill in known_skills([Skill("a", for_model=True)], [Skill("b")])]
    [True, False]
    """
    return merged(prompt, (evolve(skill, for_model=False) for skill in commands))


def visible(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """Give the skills that a model may find and load, sorted.

    >>> [skill.name for skill in visible([Skill("b"), Skill("a"), Skill("c", for_model=False)])]
    ['a', 'b']
    """
    return _sorted(skill for skill in skills if skill.visible)


def filtered(skills: Iterable[Skill], search: str) -> tuple[Skill, ...]:
    """Give the skills that hold a text in name or description, for a list that a person reads.

    >>> [skill.name for skill in filtered([Skill("unit-test"), Skill("tdd")], " UNIT ")]
    ['unit-test']
    """
    wanted = trim(search).lower()
    return tuple(s for s in skills if wanted in f"{s.name} {s.description}".lower())
