"""Edits of a configuration, as a manager of skills offers them: each gives the next one.

Order is bytes in a file that people compare, and it is what `autoload` loads first: an edit puts
what is new where it belongs and leaves everything else where it stood, so on and off again give the
same bytes. What is refused changes nothing. Profiles are edited in `profiles`. Source: skills and
saver, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from attrs import evolve

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_text, check_type
from ctxalgebra.skills.config import Config, Lists
from ctxalgebra.skills.groups import NAME, Group, created, free_name
from ctxalgebra.skills.texts import CONTROLS, description
from ctxalgebra.utf16 import trim, units

__all__ = [
    "add_group",
    "change_group",
    "remove_group",
    "set_autoload",
    "set_ignored",
    "set_member",
]

_Key: TypeAlias = Callable[[str], Any]


def _skill(name: object, where: str = "skill") -> str:
    """Check the name of a skill; whether there is one is not asked, since it may come back."""
    check_text(name, where)
    given = trim(str(name))
    if not given or len(units(given)) > NAME or CONTROLS.search(given):
        text = f"a name has 1 to {NAME} characters and no controls"
        raise InvalidArgument("invalid-argument", text, field=where)
    return given


def _group(config: Config, id: object) -> Group:
    check_text(id, "group")
    found = next((group for group in config.groups if group.id == id), None)
    if found is None:
        raise InvalidArgument("unknown-item", f"there is no group {id!r}", field="group")
    return found


def _placed(items: Iterable[str], item: str, key: _Key) -> tuple[str, ...]:
    """Put an item in front of the first one that belongs behind it."""
    kept = list(items)
    place = key(item)
    at = next((at for at, other in enumerate(kept) if key(other) > place), len(kept))
    return (*kept[:at], item, *kept[at:])


def _switched(lists: Lists, name: str, item: str, key: _Key, *, on: bool | None) -> Lists:
    """Put an item into a list, or take it out; None for the other than it is."""
    listed = lists.get(name, ())
    wanted = item not in listed if on is None else on
    if wanted == (item in listed):
        return lists
    after = tuple(i for i in listed if i != item)
    if wanted:
        after = _placed(listed, item, key)
    order: Iterable[str] = lists if name in lists else _placed(lists, name, units)
    changed = {each: after if each == name else lists[each] for each in order}
    return MappingProxyType({each: found for each, found in changed.items() if found})


def set_member(config: Config, skill: str, group: str, *, on: bool | None = None) -> Config:
    """Put a skill into a group, or take it out.

    Args:
        config: as it is.
        skill: its name.
        group: the id of the group.
        on: whether it is in; None for the other than it is.

    Raises:
        InvalidArgument: `unknown-item`, there is no such group; `invalid-argument`, that can't be a
            name; `wrong-type`, `lone-surrogate`.

    >>> config = Config((Group("a", "A"), Group("b", "B")), {"tdd": ("b",)})
    >>> set_member(config, "tdd", "a").memberships["tdd"]
    ('a', 'b')
    >>> dict(set_member(config, "tdd", "b").memberships)
    {}
    """
    if on is not None:
        check_type(on, bool, "on")
    name, found = _skill(skill), _group(config, group)
    places = {each.id: place for place, each in enumerate(config.groups)}

    def place(id: str) -> int:
        return places.get(id, len(places))

    lists = _switched(config.memberships, name, found.id, place, on=on)
    return config if lists is config.memberships else evolve(config, memberships=lists)


def add_group(
    config: Config, name: object, *, about: object = "", shortcut: bool = True
) -> tuple[Config, Group]:
    """Make a group that stands behind the others.

    Args:
        config: as it is.
        name, about, shortcut: as `groups.created` takes them.

    Raises:
        InvalidArgument: `invalid-argument`, as `groups.created`; `wrong-type`.

    >>> config, group = add_group(Config(), "Dev Tools")
    >>> group.id, config.groups == (group,)
    ('dev-tools', True)
    """
    check_type(shortcut, bool, "shortcut")
    group = created(name, config.groups, about=about, shortcut=shortcut)
    return evolve(config, groups=(*config.groups, group)), group


def change_group(
    config: Config,
    group: str,
    *,
    name: object = None,
    about: object = None,
    shortcut: bool | None = None,
) -> Config:
    """Rename or describe a group, or switch its shortcut; its id, place and members stay.

    Args:
        config: as it is.
        group: its id.
        name, about, shortcut: what changes; None for what stays.

    Raises:
        InvalidArgument: `unknown-item`, there is no such group; `invalid-argument`, the name can't
            be one, or another group is typed like it; `wrong-type`, `lone-surrogate`.

    >>> change_group(Config((Group("a", "A"),)), "a", name="B").groups[0].name
    'B'
    """
    found = _group(config, group)
    if name is not None:
        others = (each.name for each in config.groups if each.id != found.id)
        found = evolve(found, name=free_name(name, others))
    if about is not None:
        found = evolve(found, description=description(about))
    if shortcut is not None:
        check_type(shortcut, bool, "shortcut")
        found = evolve(found, shortcut=shortcut)
    groups = tuple(found if each.id == found.id else each for each in config.groups)
    return config if groups == config.groups else evolve(config, groups=groups)


def remove_group(config: Config, group: str) -> Config:
    """Take a group away, and its id out of all memberships.

    A scope that it was chosen for is that of the profile from then on (`scope.resolved`).

    Raises:
        InvalidArgument: `unknown-item`, there is no such group; `wrong-type`, `lone-surrogate`.

    >>> config = Config((Group("a", "A"), Group("b", "B")), {"tdd": ("a",), "x": ("a", "b")})
    >>> dict(remove_group(config, "a").memberships)
    {'x': ('b',)}
    """
    found = _group(config, group)
    left = {
        name: tuple(id for id in ids if id != found.id) for name, ids in config.memberships.items()
    }
    return evolve(
        config,
        groups=tuple(each for each in config.groups if each.id != found.id),
        memberships=MappingProxyType({name: ids for name, ids in left.items() if ids}),
    )


def _along(lists: Lists, skill: str, other: str, *, on: bool | None) -> Lists:
    if on is not None:
        check_type(on, bool, "on")
    return _switched(lists, _skill(skill), _skill(other, "other"), units, on=on)


def set_autoload(config: Config, skill: str, other: str, *, on: bool | None = None) -> Config:
    """Have a skill load another one along, or no longer.

    Args:
        config: as it is.
        skill, other: names.
        on: whether it does; None for the other than it is.

    Raises:
        InvalidArgument: `invalid-argument`, that can't be a name; `wrong-type`, `lone-surrogate`.

    >>> config = set_autoload(set_autoload(Config(), "a", "c"), "a", "b")
    >>> config.autoload["a"]
    ('b', 'c')
    """
    lists: Mapping[str, tuple[str, ...]] = _along(config.autoload, skill, other, on=on)
    return config if lists is config.autoload else evolve(config, autoload=lists)


def set_ignored(config: Config, skill: str, other: str, *, on: bool | None = None) -> Config:
    """Have a reference of a skill to another one not count, or count again.

    Args:
        config, skill, other, on: as in `set_autoload`.

    Raises:
        InvalidArgument: `invalid-argument`, that can't be a name; `wrong-type`, `lone-surrogate`.

    >>> set_ignored(Config(), "a", "b", on=True).ignored["a"]
    ('b',)
    """
    lists: Mapping[str, tuple[str, ...]] = _along(config.ignored, skill, other, on=on)
    return config if lists is config.ignored else evolve(config, ignored=lists)
