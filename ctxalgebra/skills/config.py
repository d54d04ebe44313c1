"""Configuration of skills: groups, who belongs to them, what is loaded along.

Source: skills and saver, section 5.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import trunc
from types import MappingProxyType
from typing import Any, Final, cast

from attrs import field, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.skills.given import items, members, number, text
from ctxalgebra.skills.groups import ALL, Group, checked_name, token
from ctxalgebra.skills.order import name_order
from ctxalgebra.skills.texts import description
from ctxalgebra.utf16 import trim

__all__ = ["SHOWN", "Config", "Lists", "configured", "record"]

Lists = Mapping[str, tuple[str, ...]]

SHOWN: Final = 160
"""So much of a description stands in a result of a search, in units, unless told otherwise."""

_MOST_SHOWN = 240
_NONE: Lists = MappingProxyType({})


@frozen
class Config:
    """Hold how skills are grouped and what they load.

    Args:
        groups: in order.
        memberships: ids of groups, by the name of a skill.
        autoload: names of the skills that one loads along, by its name.
        ignored: references that don't count, by the name of the skill that makes them.
        shown: units of a description that a search shows; 0 for none.
        saver: whether outputs are compacted.
    """

    groups: tuple[Group, ...] = ()
    memberships: Lists = field(default=_NONE)
    autoload: Lists = field(default=_NONE)
    ignored: Lists = field(default=_NONE)
    shown: int = SHOWN
    saver: bool = False


def _refused(why: str, where: str) -> InvalidArgument:
    return InvalidArgument("invalid-argument", why, field=where)


def _groups(value: object) -> tuple[Group, ...]:
    """Read groups; one that has neither id nor name is passed over, any other has to be right."""
    found: dict[str, Group] = {}
    typed: dict[str, str] = {}
    for given in map(members, items(value)):
        id, name = text(given.get("id")), text(given.get("name"))
        if not (id or name):
            continue
        if not id or id == ALL or id in found:
            raise _refused(f"a group needs an id of its own, not {id!r}", "groups")
        name = checked_name(name)
        low = token(name).lower()
        if not low or low in typed:
            other = f", like {typed[low]}" if low else ""
            raise _refused(f"{name} is typed as /{token(name)}{other}", "groups")
        typed[low] = name
        order = number(given.get("order"))
        found[id] = Group(
            id,
            name,
            description(given.get("description")),
            given.get("shortcutEnabled", True) is True,
            len(found) * 10 + 10 if order is None else order,
        )
    return tuple(sorted(found.values(), key=lambda group: (group.order, name_order(group.name))))


def _lists(value: object, known: Collection[str] | None = None) -> Lists:
    """Read lists of texts by name, each text once; empty lists are left out."""
    found: dict[str, tuple[str, ...]] = {}
    for name, listed in members(value).items():
        key = trim(name)
        texts = dict.fromkeys(map(text, items(listed)))
        kept = tuple(each for each in texts if each and (known is None or each in known))
        if key and kept:
            found[key] = kept
    return MappingProxyType(found)


def configured(value: object) -> Config:
    """Read a configuration; what it doesn't know is passed over.

    Args:
        value: an object with `version` (1), `groups`, `memberships`, `autoload`,
            `ignoreAutoDetected`, `catalogDescriptionMax` and `tokenSaverEnabled`, all optional.

    Raises:
        InvalidArgument: `wrong-type`, it is no object; `invalid-argument`, another version, or a
            group without an id and a name of its own.

    >>> configured({"groups": [{"id": "a", "name": "A"}], "memberships": {"x": ["a", "b"]}}).groups
    (Group(id='a', name='A', description='', shortcut=True, order=10),)
    """
    if not isinstance(value, Mapping):
        raise InvalidArgument("wrong-type", "a configuration is an object", field="config")
    given = members(cast("object", value))
    version = given.get("version", 1)
    if isinstance(version, bool) or version != 1:
        raise _refused(f"version {version!r} is not known", "version")
    groups = _groups(given.get("groups"))
    shown = number(given.get("catalogDescriptionMax"))
    return Config(
        groups,
        _lists(given.get("memberships"), {group.id for group in groups}),
        _lists(given.get("autoload")),
        _lists(given.get("ignoreAutoDetected")),
        SHOWN if shown is None else max(0, min(_MOST_SHOWN, trunc(shown))),
        given.get("tokenSaverEnabled") is True,
    )


def record(config: Config) -> dict[str, Any]:
    """Write a configuration as the JSON that `configured` reads.

    >>> configured(record(Config(shown=7))).shown
    7
    """
    return {
        "version": 1,
        "groups": [
            {
                "id": group.id,
                "name": group.name,
                "description": group.description,
                "shortcutEnabled": group.shortcut,
                "order": group.order,
            }
            for group in config.groups
        ],
        "memberships": {name: list(ids) for name, ids in config.memberships.items()},
        "autoload": {name: list(names) for name, names in config.autoload.items()},
        "ignoreAutoDetected": {name: list(names) for name, names in config.ignored.items()},
        "catalogDescriptionMax": config.shown,
        "tokenSaverEnabled": config.saver,
    }
