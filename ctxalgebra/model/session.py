"""The session: a tree of entries with a leaf, and folds that cost what is new.

A session value is four references: the leaf, the entry recorded last, the view at the leaf, and
the values of the folds that were asked for. Nodes link to their parent (the path) and to the
node recorded before them (the log), so that recording copies nothing and diverging is free.
Every 64th node of a path keeps the values of the folds, so that travelling refolds one stretch at
most. This memory is invisible: equality and pickling know only the entries, their parents, the
leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, Literal, Self, TypeVar, cast

from attrs import field, frozen
from attrs.exceptions import FrozenInstanceError

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_type, mistyped
from ctxalgebra.model.entries import Entry
from ctxalgebra.model.head import Head
from ctxalgebra.model.view import EMPTY_VIEW, View, step

__all__ = [
    "Fold",
    "Node",
    "Session",
    "append",
    "at_leaf",
    "at_node",
    "check_session",
    "find",
    "fold",
    "log",
    "no_session",
    "path",
    "walk",
]

STRETCH = 64

_WHATEVER = suppress(Exception)
"""Folds may be anyone's, and raise anything."""

T = TypeVar("T")


class Node:
    """One entry in its place: its number, its parent on the path, the entry recorded before it.

    `jump` points further up the path (the skew-binary rule), so that a number is found in
    logarithmic time; `kept` is the memory of the folds.

    Nodes are made by recording, and sessions share them: they can't be changed.
    """

    __slots__ = ("depth", "entry", "jump", "kept", "number", "parent", "previous")

    entry: Entry
    parent: Node | None
    previous: Node | None
    number: int
    depth: int
    jump: Node | None
    kept: dict[Fold[Any], Any] | None

    def __new__(cls, entry: Entry, parent: Node | None, previous: Node | None) -> Self:
        """Make a node, as recording does."""
        for name, value in (("parent", parent), ("previous", previous)):
            if not isinstance(cast("object", value), Node | None):
                raise mistyped(value, "a node or None", name)
        return cast("Self", _make(entry, parent, previous))

    def __setattr__(self, name: str, value: Any, /) -> None:
        raise FrozenInstanceError

    def __delattr__(self, name: str, /) -> None:
        raise FrozenInstanceError

    def __repr__(self) -> str:
        """Show number and entry."""
        return f"<{self.number}: {self.entry!r}>"


class _NewNode(Node):
    """A node while it is made, with fields that can be set."""

    __slots__ = ()

    # Both, since they share a slot: with one alone each assignment goes the slow way.
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__


_new = object.__new__


def _make(entry: Entry, parent: Node | None, previous: Node | None) -> Node:
    # Every entry comes through here: plain assignments, and another class at the end, cost less
    # than the constructor of a frozen class.
    node: Any = _new(_NewNode)
    node.entry = entry
    node.parent = parent
    node.previous = previous
    node.number = 0 if previous is None else previous.number + 1
    node.kept = None
    if parent is None:
        node.depth = 0
        node.jump = None
    else:
        node.depth = depth = parent.depth + 1
        skip = parent.jump
        if skip is not None and depth - 1 - skip.depth == skip.depth - (
            skip.jump.depth if skip.jump is not None else -1
        ):
            node.jump = skip.jump
        else:
            node.jump = parent
    node.__class__ = Node
    made: Node = node
    return made


def _types(kinds: Iterable[type] | None) -> frozenset[type] | None:
    try:
        return None if kinds is None else frozenset(kinds)
    except TypeError:  # nothing to go through, or something that is no type
        raise mistyped(kinds, "types of entries", "reads") from None


@frozen(eq=False)
class Fold(Generic[T]):
    """Describe a value derived from entries from left to right.

    Args:
        name: for people.
        init: the value before the first entry.
        step: `(value, node, view) -> value`, pure; `view` is the view right after the node.
        reads: the types of entries that `step` is called for; None for all.
        along: `path` folds run from the root to the leaf; `log` folds run over all entries in the
            order of recording, whatever their branch.

    >>> from ctxalgebra import Fold, Session, fold, record, user
    >>> count = Fold("entries", 0, lambda value, node, view: value + 1)
    >>> fold(record(Session(), user("a"), user("b")), count)
    2
    """

    name: str
    init: T
    step: Callable[[T, Node, View], T] = field(repr=False)
    along: Literal["path", "log"] = "path"
    reads: frozenset[type] | None = field(default=None, converter=_types)


@frozen(eq=False, repr=False)
class Session:
    """Hold a journal: append-only entries in a tree, and the leaf of the current path.

    `Session()` is empty. Values never change; recording gives a new one and costs the entry.

    >>> from ctxalgebra import record, user
    >>> record(Session(), user("hi"))
    <Session: 1 entries, 1 shown>
    """

    leaf: Node | None = None
    last: Node | None = None
    view: View = EMPTY_VIEW
    folds: Mapping[Fold[Any], Any] = MappingProxyType({})

    @property
    def head(self) -> Head:
        """The head that holds at the leaf."""
        return self.view.head

    def __len__(self) -> int:
        """Count the entries of the journal, all branches included."""
        return 0 if self.last is None else self.last.number + 1

    def __bool__(self) -> bool:
        """Be true even when empty: emptiness is `len(session) == 0`."""
        return True

    def __repr__(self) -> str:
        """Show sizes, not content."""
        return f"<Session: {len(self)} entries, {self.view.end} shown>"

    def __eq__(self, other: object) -> bool:
        """Compare entries, parents and leaf."""
        if not isinstance(other, Session):
            return NotImplemented
        if self.last is other.last and self.leaf is other.leaf:
            return True
        return len(self) == len(other) and _plain(self) == _plain(other)

    def __hash__(self) -> int:
        """Agree with equality, without reading the journal."""
        return hash((len(self), None if self.leaf is None else self.leaf.number))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the entries, not the memory (and without recursion)."""
        return _rebuild, _plain(self)


def _plain(session: Session) -> tuple[tuple[tuple[Entry, int], ...], int]:
    entries = tuple((n.entry, -1 if n.parent is None else n.parent.number) for n in log(session))
    return entries, -1 if session.leaf is None else session.leaf.number


def _rebuild(entries: tuple[tuple[Entry, int], ...], leaf: int) -> Session:
    session = Session()
    for entry, parent in entries:
        session = append(at_leaf(session, parent), entry)
    return at_leaf(session, leaf)


def no_session(value: object) -> InvalidArgument:
    """Make the error for what should have been a session.

    What is called for each entry or request asks nothing and raises this from an `AttributeError`,
    which costs nothing while there is none; everything else calls `check_session`.
    """
    return mistyped(value, "a session", "session")


def check_session(value: object) -> None:
    """Refuse what is no session.

    Raises:
        InvalidArgument: `wrong-type`.
    """
    if not isinstance(value, Session):
        raise no_session(value)


def append(session: Session, entry: Entry) -> Session:
    """Append an entry under the leaf, unchecked: for the gate, which checks first."""
    node = _make(entry, session.leaf, session.last)
    view = step(session.view, node.number, entry)
    folds = session.folds
    for known in folds:
        if known.reads is None or type(entry) in known.reads:
            before, folds = folds, {}
            with _WHATEVER:
                folds = {f: _stepped(f, value, node, view) for f, value in before.items()}
            if not folds:
                folds = _standing(before, node, view)
            break
    if not node.depth % STRETCH:
        object.__setattr__(node, "kept", {_VIEW: view, **folds})
    return Session(node, node, view, folds)


def _standing(folds: Mapping[Fold[Any], Any], node: Node, view: View) -> dict[Fold[Any], Any]:
    """Step the folds, and forget those that raise.

    An entry tells what happened: no fold may keep it from being recorded. Whoever asks for a fold
    that was forgotten has it computed, and gets the error.
    """
    standing: dict[Fold[Any], Any] = {}
    for what, value in folds.items():
        with _WHATEVER:
            standing[what] = _stepped(what, value, node, view)
    return standing


def _stepped(what: Fold[T], value: T, node: Node, view: View) -> T:
    if what.reads is None or type(node.entry) in what.reads:
        return what.step(value, node, view)
    return value


def log(session: Session) -> tuple[Node, ...]:
    """List all nodes in the order of recording.

    >>> from ctxalgebra import record, user
    >>> [node.number for node in log(record(Session(), user("a"), user("b")))]
    [0, 1]
    """
    check_session(session)
    nodes: list[Node] = []
    node = session.last
    while node is not None:
        nodes.append(node)
        node = node.previous
    nodes.reverse()
    return tuple(nodes)


def path(session: Session) -> tuple[Node, ...]:
    """List the nodes from the root to the leaf.

    >>> from ctxalgebra import record, user
    >>> session = at_leaf(record(Session(), user("a"), user("b")), 0)
    >>> [node.number for node in path(record(session, user("c")))]
    [0, 2]
    """
    check_session(session)
    nodes = list(_up(session.leaf))
    nodes.reverse()
    return tuple(nodes)


def find(session: Session, number: int, *, along: Literal["path", "log"] = "path") -> Node | None:
    """Find the node with this number, on the path or in the whole journal; None when absent.

    On the path that takes logarithmic time, elsewhere the entries recorded since.

    Raises:
        InvalidArgument: `wrong-type`, the number is no integer; `invalid-argument` for another
            word than `path` or `log`.

    >>> from ctxalgebra import record, user
    >>> find(record(Session(), user("a")), 0)
    <0: Message(role='user', parts=(Text(text='a'),), call='', name='', error=False, id='')>
    """
    check_session(session)
    check_type(number, int, "number")
    if along not in ("path", "log"):
        raise InvalidArgument("invalid-argument", "along a path or the log", field="along")
    node = session.leaf
    while node is not None and node.number > number:
        jump = node.jump
        node = jump if jump is not None and jump.number >= number else node.parent
    if node is not None and node.number == number:
        return node
    if along == "path":
        return None
    node = session.last
    while node is not None and node.number > number:
        node = node.previous
    return node if node is not None and node.number == number else None


def at_leaf(session: Session, number: int) -> Session:
    """Give the same journal with another leaf; -1 stands in front of the first entry.

    `travel` is what a harness wants; this goes to the bare entry.

    Raises:
        InvalidArgument: `unknown-entry`, `wrong-type`.

    >>> from ctxalgebra import record, user
    >>> at_leaf(record(Session(), user("a"), user("b")), 0)
    <Session: 2 entries, 1 shown>
    """
    leaf = find(session, number, along="log")
    if leaf is None and number != -1:
        raise InvalidArgument("unknown-entry", f"there is no entry {number}", field="number")
    return at_node(session, leaf)


def at_node(session: Session, leaf: Node | None) -> Session:
    """Give the same journal with another leaf, which is one of its nodes, or none."""
    if leaf is session.leaf:
        return session
    view = _walk(leaf, _VIEW)[1]
    folds = {f: value for f, value in session.folds.items() if f.along == "log"}
    return Session(leaf, session.last, view, folds)


def fold(session: Session, what: Fold[T]) -> T:
    """Give the fold's value; the first question reads the journal, later ones cost what is new.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import record, user
    >>> session = record(Session(), user("a"), user("b"))
    >>> fold(session, Fold("last", -1, lambda value, node, view: node.number))
    1
    """
    value: T
    try:
        known = session.folds
        if what in known:
            value = known[what]
            return value
    except AttributeError:
        raise no_session(session) from None
    except TypeError:  # a fold is known by its identity, and can be hashed
        raise mistyped(what, "a fold", "what") from None
    check_type(what, Fold, "what")
    value = _walk(session.leaf, what)[0] if what.along == "path" else _walk_log(session, what)
    # Sessions share the dictionary until a value changes, so it is replaced, never written to.
    object.__setattr__(session, "folds", {**known, what: value})
    return value


def walk(session: Session, since: int = 0) -> Iterator[tuple[Node, View]]:
    """Go down the path, giving each node from the number `since` on with the view after it.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import record, user
    >>> [view.end for _, view in walk(record(Session(), user("a"), user("b")))]
    [1, 2]
    """
    check_session(session)
    check_type(since, int, "since")
    return _walk_down(session, since)


def _walk_down(session: Session, since: int) -> Iterator[tuple[Node, View]]:
    stretch: list[Node] = []
    view = EMPTY_VIEW
    for node in _up(session.leaf):
        if node.number < since and node.kept is not None:
            view = node.kept[_VIEW]
            break
        stretch.append(node)
    for node in reversed(stretch):
        view = step(view, node.number, node.entry)
        if node.number >= since:
            yield node, view


def _up(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent


def _walk(leaf: Node | None, what: Fold[T]) -> tuple[T, View]:
    """Refold a path fold from the nearest node that keeps its value."""
    value: T = what.init
    view: View = EMPTY_VIEW
    stretch: list[Node] = []
    for node in _up(leaf):
        if node.kept is not None and what in node.kept:
            value, view = node.kept[what], node.kept[_VIEW]
            break
        stretch.append(node)
    for node in reversed(stretch):
        view = step(view, node.number, node.entry)
        value = _stepped(what, value, node, view)
        if node.kept is not None:
            node.kept[what] = value
    return value, view


def _walk_log(session: Session, what: Fold[T]) -> T:
    value = what.init
    views: dict[Node | None, View] = {None: EMPTY_VIEW}
    for node in log(session):
        view = views[node] = step(views[node.parent], node.number, node.entry)
        value = _stepped(what, value, node, view)
    return value


_VIEW: Fold[View] = Fold("view", EMPTY_VIEW, lambda _value, _node, view: view)
