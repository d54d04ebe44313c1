"""Notes about tools: what was activated, what was loaded at a result, and whose a tool is.

A note `active-tools` holds a snapshot: all names that are activated from here on. A note
`loaded-tools` holds definitions, as they were sent behind the head: each one once, when it is about
to be sent for the first time. Notes may come from anywhere: one that is not right is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_text, read_json
from ctxalgebra.model.entries import Note, Reply
from ctxalgebra.model.head import Head, Tool
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Fold, Node, Session, at_node, fold
from ctxalgebra.model.view import View
from ctxalgebra.resident.reconcile import By, check_by, texts

__all__ = [
    "KNOWN",
    "LOADED",
    "NOTE",
    "OWNED",
    "Point",
    "loaded",
    "loading",
    "read_loading",
    "read_snapshot",
    "snapshot",
]

NOTE = "active-tools"
"""The name of the notes that hold snapshots."""

LOADED = "loaded-tools"
"""The name of the notes that hold definitions of tools that were loaded at a result."""

_VERSION = 1


class Point(NamedTuple):
    """Say where a tool that the model asked for is loaded.

    Fields: `name`; `at`, the number of the result, -1 while it is not there yet; whether it is
    `settled` what is loaded there; `tool`, that definition, None for none.
    """

    name: str
    at: int = -1
    settled: bool = False
    tool: Tool | None = None


class _Known(NamedTuple):
    """What the path says.

    Fields: `activated` names, in order; whether the model asked for the last snapshot (`by_model`);
    `points`, where the names that the model asked for are loaded. A point stays when its activation
    is taken back.
    """

    activated: tuple[str, ...] = ()
    by_model: bool = False
    points: tuple[Point, ...] = ()


class _Owned(NamedTuple):
    """What the whole journal says.

    Fields: names that were `ever` activated; names that `others` put into a head; whether the start
    set was chosen (`started`).
    """

    ever: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    started: bool = False


def _read(data: str) -> Mapping[str, object]:
    """Read the object in a note of this version; an empty one for anything else."""
    try:
        value: object = read_json(data)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    given = cast("dict[str, object]", value)
    version = given.get("version")
    return given if type(version) is int and version == _VERSION else {}


def _names(value: object) -> tuple[str, ...] | None:
    """Read a list of names; None for what is none, such as one with half a surrogate pair."""
    if not isinstance(value, list):
        return None
    listed = cast("list[object]", value)
    try:
        for name in listed:
            check_text(name, "names")
    except InvalidArgument:
        return None
    return tuple(dict.fromkeys(cast("list[str]", listed)))


def read_snapshot(data: str) -> tuple[tuple[str, ...], By] | None:
    """Read a snapshot, of this version with whatever else it holds; None for what is none.

    >>> read_snapshot('{"version":1,"activatedTools":["web"],"catalogHash":"x"}')
    (('web',), 'host')
    """
    given = _read(data)
    names = _names(given.get("activatedTools"))
    if names is None:
        return None
    return names, "model" if given.get("by") == "model" else "host"


def read_loading(data: str) -> dict[str, Tool | None]:
    """Read what was loaded; nothing for what is no such note.

    >>> read_loading('{"version":1,"tools":{"web":{"description":"Search","schema":"{}"}}}')
    {'web': Tool(name='web', description='Search', schema='{}')}
    """
    tools = _read(data).get("tools")
    found: dict[str, Tool | None] = {}
    if not isinstance(tools, dict):
        return found
    try:
        for name, value in cast("dict[str, object]", tools).items():
            known = cast("dict[str, object]", value) if isinstance(value, dict) else {}
            description = cast("str", known.get("description"))
            schema = cast("str", known.get("schema"))
            found[name] = None if value is None else Tool(name, description, schema)
    except InvalidArgument:
        return {}
    return found


def _carried(node: Node) -> bool:
    """Say whether a head was carried here from another branch, as travelling does."""
    head, above = node.entry, node.parent
    if above is node.previous and above is not None and isinstance(above.entry, Reply):
        node, above = above, above.parent  # what was in flight at the landing was closed
    if above is node.previous:
        return False
    return at_node(Session(node, node), node.previous).head == head


def _activated(known: _Known, names: tuple[str, ...], by: By, view: View) -> _Known:
    points = tuple(point for point in known.points if point.at >= 0 or point.name in names)
    if by == "model":
        fresh = [name for name in names if name not in known.activated]
        shown = {point.name for point in points if point.at >= 0 and view.slot(point.at) >= 0}
        new = tuple(name for name in fresh if name not in shown)
        points = tuple(point for point in points if point.name not in new)
        points += tuple(map(Point, new))
    return _Known(names, by == "model", points)


def _settled(known: _Known, tools: Mapping[str, Tool | None]) -> _Known:
    """Take what was loaded at results that are there; what was settled once is never another."""
    points = tuple(
        point._replace(settled=True, tool=tools[point.name])
        if point.name in tools and point.at >= 0 and not point.settled
        else point
        for point in known.points
    )
    return known._replace(points=points)


def _step(known: _Known, node: Node, view: View) -> _Known:
    entry = node.entry
    if isinstance(entry, Message):
        if entry.role != "tool" or all(point.at >= 0 for point in known.points):
            return known
        points = (p._replace(at=node.number) if p.at < 0 else p for p in known.points)
        return known._replace(points=tuple(points))
    note = cast("Note", entry)
    if note.name == LOADED:
        return _settled(known, read_loading(note.data))
    found = read_snapshot(note.data) if note.name == NOTE else None
    return known if found is None else _activated(known, *found, view)


KNOWN: Fold[_Known] = Fold("active tools", _Known(), _step, reads=(Note, Message))


def loaded(session: Session) -> list[Point]:
    """List what a provider can load at a result that is shown, or is about to be."""
    view = session.view
    return [
        point
        for point in fold(session, KNOWN).points
        if (point.tool is not None or not point.settled)
        and (view.open or (point.at >= 0 and view.slot(point.at) >= 0))
    ]


def _claim(known: _Owned, node: Node, _view: View) -> _Owned:
    entry = node.entry
    if isinstance(entry, Note):
        found = read_snapshot(entry.data) if entry.name == NOTE else None
        if found is None:
            return known
        others = _names(_read(entry.data).get("others")) or ()
        return _Owned(known.ever.union(found[0]), known.others.union(others), started=True)
    if not known.started or _carried(node):
        return known
    before = at_node(Session(node, node), node.parent)
    stood = frozenset(tool.name for tool in before.head.tools)
    stands = frozenset(tool.name for tool in cast("Head", entry).tools)
    claimed = stands - stood - {*fold(before, KNOWN).activated}
    return known._replace(others=(known.others - (stood - stands)) | claimed)


OWNED: Fold[_Owned] = Fold("owners", _Owned(), _claim, along="log", reads=(Note, Head))
"""Along the log, since travelling carries a head from one branch to another."""


def _note(name: str, members: Mapping[str, object]) -> Note:
    data = {"version": _VERSION, **members}
    return Note(name, json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def snapshot(names: Iterable[str], *, by: By = "host", others: Iterable[str] = ()) -> Note:
    """Make the note that says which tools are activated, in which order.

    Args:
        names: of all that are activated from here on.
        by: `model` where the model itself asked.
        others: names of tools in the head that somebody else put there before anything was chosen.

    Raises:
        InvalidArgument: `invalid-argument`, `by` is none of those; `wrong-type`; `lone-surrogate`.

    >>> snapshot(["web"]).data
    '{"version":1,"activatedTools":["web"],"by":"host"}'
    """
    listed, theirs = texts(names, "names"), texts(others, "others")
    check_by(by)
    more = {"others": [*theirs]} if theirs else {}
    return _note(NOTE, {"activatedTools": [*listed], "by": by, **more})


def loading(tools: Mapping[str, Tool | None]) -> Note:
    """Make the note that says what is loaded at the results that are shown; None is nothing.

    >>> loading({"web": Tool("web", "Search")}).data
    '{"version":1,"tools":{"web":{"description":"Search","schema":"{}"}}}'
    """
    told = {
        name: tool and {"description": tool.description, "schema": tool.schema}
        for name, tool in tools.items()
    }
    return _note(LOADED, {"tools": told})
