"""Labels of the pi host as the travel extension reads them, and what a target stands for.

`read_labels` folds the label entries of a whole file by the rule of `checkpoints.names`: a name
stands for one entry. The earlier version let an entry have several; `read_aliases` is that rule,
except that an empty name takes names away there, too (W26).

A target is a name, an id or `root`. A name counts before an id of the same spelling, as in the
original, where that entry can't be reached any more (W04); here it is reached by saying that an id
is meant, and `resolve` says when a text could mean both. `root` is the root of the path, and the
first one of the file only where there is no path (W25). Source: travel, sections 3, 5 and 18.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

from ctxalgebra.checkpoints.names import Names, is_reserved, read_names
from ctxalgebra.compat.host_entries import Entry, index, name_of, path_to

__all__ = ["Resolved", "read_aliases", "read_labels", "resolve"]

Meant = Literal["root", "name", "id"]


def _events(entries: Iterable[Entry]) -> Iterable[tuple[str, str]]:
    """Walk over the labels: the entry, and its name or nothing."""
    for entry in entries:
        target, label = entry.get("targetId"), entry.get("label")
        if entry.get("type") == "label" and isinstance(target, str):
            yield target, label if isinstance(label, str) else ""


def read_labels(entries: Iterable[Entry]) -> Names[str]:
    """Fold the labels of a file into who has which name.

    >>> entries = [{"type": "label", "id": "1", "targetId": "a", "label": "x"}]
    >>> dict(read_labels(entries).targets)
    {'x': 'a'}
    """
    return read_names(_events(entries))


def read_aliases(entries: Iterable[Entry]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Fold labels by the earlier version's rule: an entry may have several names.

    Returns:
        Entry by name, and the names of each entry, in the order in which it got them.

    >>> read_aliases({"type": "label", "targetId": "a", "label": name} for name in "xy")
    ({'x': 'a', 'y': 'a'}, {'a': ['x', 'y']})
    """
    targets: dict[str, str] = {}
    names: dict[str, dict[str, None]] = {}
    for target, name in _events(entries):
        if not name:
            for old in names.pop(target, {}):
                del targets[old]
            continue
        owner = targets.get(name)
        if owner == target:
            continue
        if owner is not None:
            del names[owner][name]
            if not names[owner]:
                del names[owner]
        targets[name] = target
        names.setdefault(target, {})[name] = None
    return targets, {target: list(found) for target, found in names.items()}


@frozen
class Resolved:
    """Say which entry a target stands for.

    Args:
        id: of the entry; empty in an empty session. It need not exist where an id was given.
        off_path: whether it lies beside the path to the leaf.
        meant: what the target was taken for.
        ambiguous: whether the target is the name of one entry and the id of another.
    """

    id: str
    off_path: bool
    meant: Meant
    ambiguous: bool = False


def _root(known: Mapping[str, Entry], path: Sequence[Entry]) -> str:
    first = name_of(path[0]) if path else None
    if first is not None:
        return first
    for name, entry in known.items():
        parent = entry.get("parentId")
        if not isinstance(parent, str) or parent not in known or parent == name:
            return name
    return ""


def resolve(
    entries: Sequence[Entry],
    leaf: str | None,
    target: str,
    *,
    meant: Literal["name", "id"] | None = None,
    names: Names[str] | None = None,
) -> Resolved:
    """Say which entry a target stands for. Linear; letter case counts, except in `root`.

    Args:
        entries: in the order of the file.
        leaf: the id where the path ends; None for none.
        target: what was written.
        meant: what it is; None takes `root` first, then a name, then an id.
        names: of `entries`, if they are known already.

    Raises:
        DecodeError: `cyclic-parent`.

    >>> entries = [{"id": "a", "parentId": None}, {"id": "b", "parentId": "a"}]
    >>> resolve(entries, "b", "Root")
    Resolved(id='a', off_path=False, meant='root', ambiguous=False)
    """
    known = index(entries)
    path = path_to(known, leaf)
    here: set[Any] = {entry.get("id") for entry in path}
    if meant is None and is_reserved(target):
        root = _root(known, path)
        return Resolved(root, root != "" and root not in here, "root")
    owner = (read_labels(entries) if names is None else names).targets.get(target)
    if owner is None or meant == "id":
        return Resolved(target, target not in here, "id")
    both = meant is None and target in known and target != owner
    return Resolved(owner, owner not in here, "name", both)
