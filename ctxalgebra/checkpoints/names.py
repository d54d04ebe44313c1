"""Names of entries: what may be a name, and which entry each name stands for.

A name stands for one entry and an entry has one name. The labels of a journal are events
`(target, name)` in the order in which they were recorded, whatever the targets are (numbers of
entries, ids of a host), and `read_names` folds them: the last one who takes a name has it, and an
entry that gets another name gives up the one it had. Source: travel, sections 3 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, Literal, TypeAlias, TypeVar

from attrs import frozen

from ctxalgebra.model.checks import mistyped

__all__ = [
    "LONGEST_NAME",
    "ROOT",
    "Conflict",
    "Names",
    "is_name",
    "is_new_name",
    "is_reserved",
    "name_conflict",
    "read_names",
]

ROOT = "root"
"""What always stands for the first entry, in every letter case, and is no name."""

LONGEST_NAME = 200
"""Names that are given here have at most so many characters; a journal may hold longer ones."""

Conflict: TypeAlias = Literal["reserved-name", "duplicate-name", "displaces-name"]
"""Why an entry can't have a name: it is reserved, another has it, the entry has another one."""

Target = TypeVar("Target", bound=Hashable)

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def is_name(text: str) -> bool:
    """Say whether a text may be a name: letters, digits, `.`, `_` and `-` of ASCII, at least one.

    >>> is_name("parser-scan.2"), is_name("two words"), is_name("")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None


def is_new_name(text: str) -> bool:
    """Say whether a text may be given as a name: a name of at most 200 characters.

    >>> is_new_name("a" * 200), is_new_name("a" * 201)
    (True, False)
    """
    return len(text) <= LONGEST_NAME and is_name(text)


def is_reserved(text: str) -> bool:
    """Say whether a text stands for the first entry.

    >>> is_reserved("Root"), is_reserved("rooty")
    (True, False)
    """
    return text.lower() == ROOT


@frozen
class Names(Generic[Target]):
    """Hold who has which name.

    Args:
        targets: entry by name, in the order in which the names came into use.
        names: name by entry; always the inverse of `targets`.
    """

    targets: Mapping[str, Target]
    names: Mapping[Target, str]


def read_names(events: Iterable[tuple[Target, str]]) -> Names[Target]:
    """Fold labels into who has which name. Linear.

    Args:
        events: entry and name, oldest first; an empty name takes the entry's name away. A target
            need not exist, and names are not checked: a journal holds what was written.

    >>> events = [("u1", "x"), ("a1", "x"), ("u1", "y"), ("a1", "")]
    >>> dict(read_names(events).targets)
    {'y': 'u1'}
    """
    targets: dict[str, Target] = {}
    names: dict[Target, str] = {}
    for target, name in events:
        old = names.get(target)
        if not name:
            if old is not None:
                del names[target], targets[old]
            continue
        if old is not None and old != name:
            del targets[old]
        if name in targets and targets[name] != target:
            del names[targets[name]]
        targets[name] = target
        names[target] = name
    return Names(targets, names)


def name_conflict(known: Names[Target], target: Target, name: str) -> Conflict | None:
    """Say why an entry can't have a name; None if it can, or has it already.

    Raises:
        InvalidArgument: `wrong-type`, the name is no text.

    >>> known = read_names([(3, "start")])
    >>> [name_conflict(known, 4, name) for name in ("ROOT", "start", "next")]
    ['reserved-name', 'duplicate-name', None]
    >>> name_conflict(known, 3, "next"), name_conflict(known, 3, "start")
    ('displaces-name', None)
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers
        raise mistyped(name, "a text", "name")
    if is_reserved(name):
        return "reserved-name"
    if name in known.targets:
        return None if known.targets[name] == target else "duplicate-name"
    return "displaces-name" if target in known.names else None
