r"""Groups of skills: their names, their ids, and the tokens by which a person types them.

A token is a name that can be typed: `Dev Tools` is `dev_tools`. Letters of all scripts stay as they
are (W26). Source: skills and saver, sections 5 and 7.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from typing import Final

import regex
from attrs import frozen

from ctxalgebra.compaction.signals import units
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.skills.texts import CONTROLS, description
from ctxalgebra.utf16 import trim

__all__ = ["ALL", "NAME", "Group", "checked_name", "created", "free_name", "slug", "token"]

ALL: Final = "__all"
"""The id that no group has: it stands for all skills."""

NAME: Final = 128
"""The longest name, in units."""

_UNTYPED = regex.compile(r"[^\p{L}\p{M}\p{N}.-]+")
_NO_SLUG = re.compile("[^a-z0-9]+")
_STEP: Final = 10


@frozen
class Group:
    """Hold a group of skills.

    Args:
        id: unlike all others.
        name: what a person calls it.
        description: what it is for, in one line.
        shortcut: whether its token alone selects it.
        order: where it stands among the others.
    """

    id: str
    name: str
    description: str = ""
    shortcut: bool = True
    order: float = _STEP


def token(name: str) -> str:
    """Give the token of a name: what can be typed, with `_` for everything between.

    Case stays; tokens are compared without it.

    >>> token("  Film / Story -- v1.2! "), token("日本語"), token("!!!")
    ('Film_Story_--_v1.2', '日本語', '')
    """
    return _UNTYPED.sub("_", unicodedata.normalize("NFC", name)).strip("_")


def slug(name: str, taken: Collection[str]) -> str:
    """Make an id from a name: lower-case ASCII, with a number where it is taken.

    >>> slug("Dev Tools", {"dev-tools", "dev-tools-2"}), slug("日本", ())
    ('dev-tools-3', 'group')
    """
    base = _NO_SLUG.sub("-", name.lower()).strip("-") or "group"
    found, number = base, 2
    while found in taken:
        found = f"{base}-{number}"
        number += 1
    return found


def checked_name(value: object, kind: str = "Group") -> str:
    """Check the name of a group or profile, and trim it.

    Args:
        value: what was given.
        kind: what it is the name of, for the message.

    Raises:
        InvalidArgument: `invalid-argument`, it is no text, empty, longer than `NAME` units, or has
            controls.

    >>> checked_name(" A b ")
    'A b'
    """
    name = trim(value) if isinstance(value, str) else ""
    if not name or units(name) > NAME or CONTROLS.search(name):
        text = f"{kind} names are 1 to {NAME} characters without controls"
        raise InvalidArgument("invalid-argument", text, field="name")
    return name


def free_name(value: object, names: Iterable[str], kind: str = "Group") -> str:
    """Check a name, and that its token is none of those of other names.

    Args:
        value: what was given.
        names: those of the others.
        kind: as in `checked_name`.

    Raises:
        InvalidArgument: `invalid-argument`, as `checked_name`, nothing of it can be typed, or
            another one is typed like it.

    >>> free_name("Ops", ["Dev Tools"])
    'Ops'
    """
    name = checked_name(value, kind)
    typed = token(name).lower()
    if not typed:
        text = f"{kind} names need a letter or digit: {name}"
        raise InvalidArgument("invalid-argument", text, field="name")
    for other in names:
        if token(other).lower() == typed:
            text = f"{name} and {other} are both typed as /{token(name)}"
            raise InvalidArgument("invalid-argument", text, field="name")
    return name


def created(
    name: object, groups: Iterable[Group], *, about: object = "", shortcut: bool = True
) -> Group:
    """Make a group that stands behind the others.

    Args:
        name: its name.
        groups: the others.
        about: its description.
        shortcut: whether its token alone selects it.

    Raises:
        InvalidArgument: `invalid-argument`, as `free_name`.

    >>> created(" A b ", [Group("dev", "Dev", order=20)])
    Group(id='a-b', name='A b', description='', shortcut=True, order=30)
    """
    others = tuple(groups)
    checked = free_name(name, (group.name for group in others))
    order = max((0, *(group.order for group in others))) + _STEP
    taken = {group.id for group in others}
    return Group(slug(checked, taken), checked, description(about), shortcut, order)
