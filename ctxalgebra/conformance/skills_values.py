"""Skills in the JSON of the door: records and groups come in as objects, and the same go out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

from ctxalgebra.conformance.operations import Refusal
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.skills.config import Config, Lists
from ctxalgebra.skills.given import items, members
from ctxalgebra.skills.groups import Group
from ctxalgebra.skills.records import Skill

__all__ = ["Given", "config", "groups", "refused", "skill_out", "skills"]

_T = TypeVar("_T")
_Object: TypeAlias = Mapping[str, Any]


class Given(tuple[_T, ...], Generic[_T]):
    """Values, with the objects that they were read from.

    What an operation gives back is told by identity, so equal records stay apart.
    """

    _objects: Mapping[int, Mapping[str, Any]]

    def out(self, value: _T) -> Mapping[str, Any]:
        """Give the object of one of the values."""
        return self._objects[id(value)]

    @classmethod
    def of(cls, read: Callable[[Mapping[str, Any]], _T], objects: Iterable[_Object]) -> Given[_T]:
        """Read values."""
        listed = list(objects)
        made = cls(map(read, listed))
        made._objects = {id(value): given for value, given in zip(made, listed, strict=True)}
        return made


def refused() -> Refusal:
    """The answer where the original throws: its errors have no codes."""
    return Refusal("error")


def _text(value: Mapping[str, Any], name: str, *, needed: bool = False) -> str:
    text = value.get(name)
    if needed and not isinstance(text, str):
        raise InvalidInput(f"{name} is a text")
    return text if isinstance(text, str) else ""


def _skill(value: Mapping[str, Any]) -> Skill:
    for_model = False if value.get("modelVisible") is False else None
    name = _text(value, "name", needed=True)
    return Skill(name, _text(value, "description"), _text(value, "filePath"), "", for_model)


def skills(values: Iterable[Mapping[str, Any]]) -> Given[Skill]:
    """Read records."""
    return Given[Skill].of(_skill, values)


def skill_out(skill: Skill) -> dict[str, Any]:
    """Write a record."""
    told: dict[str, Any] = {
        "name": skill.name,
        "description": skill.description,
        "filePath": skill.path,
    }
    if skill.source:
        told["source"] = skill.source
    if skill.for_model is not None:
        told["modelVisible"] = skill.for_model
    return told


def _group(value: Mapping[str, Any]) -> Group:
    order = value.get("order", 0)
    if isinstance(order, bool) or not isinstance(order, int | float):
        raise InvalidInput("order is a number")
    id, name = _text(value, "id", needed=True), _text(value, "name", needed=True)
    shortcut = value.get("shortcutEnabled", True) is True
    return Group(id, name, _text(value, "description"), shortcut, order)


def groups(values: Iterable[Mapping[str, Any]]) -> Given[Group]:
    """Read groups."""
    return Given[Group].of(_group, values)


def _lists(value: object) -> Lists:
    given = members(value)
    return MappingProxyType(
        {
            name: tuple(each for each in items(listed) if isinstance(each, str))
            for name, listed in given.items()
        }
    )


def config(value: Mapping[str, Any]) -> Config:
    """Read a configuration that was normalised before."""
    return Config(
        tuple(groups(each for each in map(members, items(value.get("groups"))) if each)),
        _lists(value.get("memberships")),
        _lists(value.get("autoload")),
        _lists(value.get("ignoreAutoDetected")),
    )
