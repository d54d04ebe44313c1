r"""Session entries of the pi host as plain JSON: lines, versions, the tree (its format, 1 to 4).

The host's rules, version 0.84.0, on entries in the order of the file; an entry is a JSON object
with `id`, `parentId`, `timestamp` and `type`. What the host has no answer to is an error here: it
follows parents that run in a circle until memory is gone (W22), and takes a leaf that it doesn't
know for the last entry of the file (W21). An entry that is its own parent is a root, as in the
host's tree; so is one whose parent is not there.

To read a session into a `Session`, with everything that is wrong with it, is the work of
`ctxalgebra.codecs.pi`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key
from itertools import count
from typing import Any, TypeAlias, cast

from attrs import frozen

from ctxalgebra.codecs.lines import clock, parse, plain
from ctxalgebra.errors import DecodeError, InvalidArgument
from ctxalgebra.utf16 import trim

__all__ = [
    "LAST",
    "Entry",
    "Tree",
    "branch",
    "index",
    "instant",
    "labels",
    "member",
    "migrate_entries",
    "name_of",
    "parse_entries",
    "path_of",
    "path_to",
    "relabel",
    "tree",
]

Entry: TypeAlias = Mapping[str, Any]
"""An entry, or a message, as plain JSON."""

LAST: Any = ...
"""The leaf that was not said: the last entry. None is said, and stands before the first."""

VERSION = 3
"""The version of entries that needs no migration."""


def member(owner: Entry, name: str) -> Entry:
    """Give a member that has to be an object.

    Raises:
        DecodeError: `wrong-type`, it is none.

    >>> member({"message": {"role": "user"}}, "message")
    {'role': 'user'}
    """
    value = owner.get(name)
    if not isinstance(value, dict):
        raise DecodeError("wrong-type", "expected an object", entry=name_of(owner), field=name)
    return cast("Entry", value)


def name_of(entry: Entry) -> str | None:
    """Give the id of an entry; None where it has none that is a text."""
    name = entry.get("id")
    return name if isinstance(name, str) else None


def instant(entry: Entry) -> int | None:
    """Read the time of an entry, in milliseconds since 1970; None where it has none.

    >>> instant({"timestamp": "1970-01-01T00:00:01.000Z"})
    1000
    """
    time = entry.get("timestamp")
    if isinstance(time, str):
        return clock(time)
    return time if type(time) is int else None


# Lines


def parse_entries(content: str) -> list[Any]:
    r"""Read the lines of a session file; blank ones and those that are no JSON are passed over.

    Nothing else is asked of a line: a number is a value, too, and so is a text with half a
    character. Lines end at LF only, and what `ctxalgebra.codecs.lines.parse` finds too deep or
    too long is passed over.

    >>> parse_entries('{"type":"session"}\n{bad\n\n5')
    [{'type': 'session'}, 5]
    """
    values: list[Any] = []
    for at, line in enumerate(trim(content).split("\n"), 2):
        try:
            parse(line, line=at)
        except DecodeError as error:
            if error.code != "lone-surrogate":
                continue
        values.append(plain(line))
    return values


# Versions


def _version(entries: Sequence[Entry]) -> int | float:
    header = next((entry for entry in entries if entry.get("type") == "session"), None)
    version = None if header is None else header.get("version")
    if version is None:
        return 1
    if type(version) not in (int, float):
        raise DecodeError("wrong-type", "the version is no number", field="version")
    return cast("float", version)


def _chained(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """From version 1: the order is the tree, and compactions name lines by their number."""
    numbers = count(1)
    ids = [None if entry.get("type") == "session" else f"m{next(numbers)}" for entry in entries]
    above: str | None = None
    migrated: list[dict[str, Any]] = []
    for at, entry in enumerate(entries):
        new = dict(entry)
        if ids[at] is not None:
            new |= {"id": ids[at], "parentId": above}
            above = ids[at]
            first = new.get("firstKeptEntryIndex")
            if new.get("type") == "compaction" and type(first) in (int, float):
                del new["firstKeptEntryIndex"]
                # What comes later can't be kept, and has no name yet.
                kept = ids[first] if type(first) is int and 0 <= first <= at else None
                if kept is not None:
                    new["firstKeptEntryId"] = kept
        migrated.append(new)
    return migrated


def migrate_entries(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Bring entries, the header among them, to version 3.

    Args:
        entries: of a file of any version; without a header, or without a version in it, of 1.

    Returns:
        New entries; those of version 1 are named `m1`, `m2`, ... in the order of the file.

    Raises:
        DecodeError: `wrong-type`, the version is no number.

    >>> migrate_entries([{"type": "session"}, {"type": "message"}])[1]
    {'type': 'message', 'id': 'm1', 'parentId': None}
    """
    version = _version(entries)
    if version >= VERSION:
        return [dict(entry) for entry in entries]
    migrated = _chained(entries) if version < 2 else [dict(entry) for entry in entries]
    for new in migrated:
        message = new.get("message")
        if new.get("type") == "session":
            new["version"] = VERSION
        elif new.get("type") == "message" and isinstance(message, dict):
            said = cast("dict[str, Any]", message)
            if said.get("role") == "hookMessage":
                new["message"] = {**said, "role": "custom"}
    return migrated


# The tree


def index(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Map ids to entries; of two with one id the later one counts."""
    return {name: entry for entry in entries if (name := name_of(entry)) is not None}


def _above(entry: Entry, known: Mapping[str, Any]) -> str | None:
    """Give the id of the parent; None for a root."""
    parent = entry.get("parentId")
    root = not isinstance(parent, str) or parent not in known or parent == entry.get("id")
    return None if root else cast("str", parent)


def path_to(known: Mapping[str, Entry], start: str | None) -> list[Entry]:
    """List the entries from the root to one; none for an id that is not there.

    Args:
        known: the entries by their ids, see `index`.
        start: the id to end at.

    Raises:
        DecodeError: `cyclic-parent`, its parents run in a circle.

    >>> known = index([{"id": "a", "parentId": None}, {"id": "b", "parentId": "a"}])
    >>> [entry["id"] for entry in path_to(known, "b")]
    ['a', 'b']
    """
    path: list[Entry] = []
    seen: set[str] = set()
    at = start if start in known else None
    while at is not None:
        if at in seen:
            raise DecodeError("cyclic-parent", entry=at, field="parentId")
        seen.add(at)
        path.append(known[at])
        at = _above(known[at], known)
    path.reverse()
    return path


def branch(entries: Sequence[Entry], leaf: str | None = LAST) -> list[Entry]:
    """List the entries from the root to a leaf.

    Args:
        entries: in the order of the file.
        leaf: an id; None stands before the first entry. An id that is not there has no path.

    Raises:
        DecodeError: `cyclic-parent`.

    >>> branch([{"id": "a", "parentId": None}, {"id": "b", "parentId": "ghost"}])
    [{'id': 'b', 'parentId': 'ghost'}]
    """
    if leaf is LAST:
        leaf = name_of(entries[-1]) if entries else None
    return path_to(index(entries), leaf)


def path_of(entries: Sequence[Entry], leaf: str | None) -> list[Entry]:
    """As `branch`; a leaf that is named has to be there.

    Raises:
        DecodeError: `cyclic-parent`.
        InvalidArgument: `unknown-entry`.
    """
    path = branch(entries, leaf)
    if not path and entries and leaf is not None:
        name = "the last entry has no id" if leaf is LAST else f"there is no entry {leaf!r}"
        raise InvalidArgument("unknown-entry", name, field="leaf")
    return path


def relabel(known: dict[str, str], entry: Entry) -> None:
    """Put the label that an entry gives into a map; an empty one clears."""
    target, label = entry.get("targetId"), entry.get("label")
    if entry.get("type") != "label" or not isinstance(target, str):
        return
    if label:
        known[target] = label
    else:
        known.pop(target, None)


def labels(entries: Iterable[Entry]) -> dict[str, str]:
    """Map the ids of entries to their labels; the last one of each holds.

    >>> labels([{"type": "label", "targetId": "a", "label": "x"}])
    {'a': 'x'}
    """
    found: dict[str, str] = {}
    for entry in entries:
        relabel(found, entry)
    return found


@frozen
class Tree:
    """Hold the tree of entries, which are named by their index.

    Args:
        roots: in the order of the file.
        children: of each entry, by time.
        labels: of entries, by id.
    """

    roots: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    labels: Mapping[str, str]


def _earlier(one: tuple[int | None, int], other: tuple[int | None, int]) -> int:
    """Compare times; what has none is as early as anything."""
    if one[0] is None or other[0] is None:
        return 0
    return one[0] - other[0]


def tree(entries: Sequence[Entry]) -> Tree:
    """Build the tree: roots as they come, children by their time.

    Raises:
        DecodeError: `cyclic-parent`, some entries hang together in a circle, on no root; `entry`
            is the first of them.

    >>> tree([{"id": "a", "parentId": None}, {"id": "b", "parentId": "a"}])
    Tree(roots=(0,), children=((1,), ()), labels={})
    """
    places = {name: at for at, entry in enumerate(entries) if (name := name_of(entry)) is not None}
    below: list[list[tuple[int | None, int]]] = [[] for _ in entries]
    roots: list[int] = []
    for at, entry in enumerate(entries):
        above = _above(entry, places)
        if above is None:
            roots.append(at)
        else:
            below[places[above]].append((instant(entry), at))
    order = cmp_to_key(_earlier)
    children = tuple(tuple(at for _, at in sorted(nodes, key=order)) for nodes in below)
    reached = [False] * len(entries)
    todo = list(roots)
    while todo:
        at = todo.pop()
        reached[at] = True
        todo.extend(children[at])
    if False in reached:
        lost = entries[reached.index(False)]
        raise DecodeError("cyclic-parent", entry=name_of(lost), field="parentId")
    return Tree(tuple(roots), children, labels(entries))
