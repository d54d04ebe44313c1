"""Methods of the pi host's session, and moving in its tree (its format, sections 4 and 8).

Version 0.84.0: an appended entry hangs on the leaf and is the leaf from then on, labels too; a
branch summary names as `fromId` the entry that it hangs on. What is done is told as the entries
that were appended and the leaf at the end; the given ones are not touched. Appended entries are
named `n1`, `n2`, ... as far as these are free, and have no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from ctxalgebra.codecs.lines import string
from ctxalgebra.compat.host_context import session_context
from ctxalgebra.compat.host_conversation import said
from ctxalgebra.compat.host_entries import (
    LAST,
    Entry,
    index,
    labels,
    member,
    name_of,
    path_to,
    relabel,
)
from ctxalgebra.errors import CtxError, InvalidArgument
from ctxalgebra.utf16 import trim

__all__ = ["METHODS", "Moved", "Played", "navigate", "play"]

Arguments: TypeAlias = Sequence[Any]


class _Log:
    """Grow a session by one call of a function; nothing of it is seen from outside."""

    def __init__(self, entries: Sequence[Entry], leaf: str | None) -> None:
        self.known = index(entries)
        self.labels = labels(entries)
        self.entries = list(entries)
        self.given = len(entries)
        self.numbers = count(1)
        last = name_of(entries[-1]) if entries else None
        self.leaf = last if leaf is LAST else leaf
        self.find(self.leaf)

    def find(self, name: Any) -> Any:
        """Give back an id that is there, or None."""
        if name is not None and not (isinstance(name, str) and name in self.known):
            raise InvalidArgument("unknown-entry", f"there is no entry {name!r}", field="target")
        return name

    @property
    def appended(self) -> tuple[Entry, ...]:
        return tuple(self.entries[self.given :])

    def append(self, kind: str, names: Sequence[str], arguments: Arguments) -> str:
        name = next(name for number in self.numbers if (name := f"n{number}") not in self.known)
        members = dict(zip(names, arguments, strict=False))
        entry = {"type": kind, "id": name, "parentId": self.leaf, **members}
        self.entries.append(entry)
        self.known[name] = entry
        self.leaf = name
        return name


def _entry(kind: str, *names: str) -> Callable[[_Log, Arguments], Any]:
    return lambda log, arguments: log.append(kind, names, arguments)


def _first(arguments: Arguments) -> Any:
    return arguments[0] if arguments else None


def _text(arguments: Arguments) -> str:
    return string(_first(arguments))


def _name(log: _Log, arguments: Arguments) -> str:
    name = _first(arguments)
    if not isinstance(name, str):
        raise InvalidArgument("wrong-type", "a name is a text", field="name")
    return log.append("session_info", ("name",), (trim(name),))


def _label(log: _Log, arguments: Arguments) -> str:
    target = log.find(_first(arguments))
    if target is None:
        raise InvalidArgument("unknown-entry", "a label needs an entry", field="targetId")
    name = log.append("label", ("targetId", "label"), arguments)
    relabel(log.labels, log.known[name])
    return name


def _branch(log: _Log, arguments: Arguments) -> None:
    target = log.find(_first(arguments))
    if target is None:
        raise InvalidArgument("unknown-entry", "a branch needs an entry", field="branchFromId")
    log.leaf = target


def _reset(log: _Log, _arguments: Arguments) -> None:
    log.leaf = None


def _summary(log: _Log, arguments: Arguments) -> str:
    target, *rest = arguments or (None,)
    log.leaf = log.find(target)
    names = ("fromId", "summary", "details", "fromHook")
    return log.append("branch_summary", names, ("root" if target is None else target, *rest))


def _session_name(log: _Log, _arguments: Arguments) -> str | None:
    for entry in reversed(log.entries):
        if entry.get("type") == "session_info":
            return trim(string(entry.get("name"))) or None
    return None


def _children(log: _Log, arguments: Arguments) -> list[Entry]:
    parent = _first(arguments)
    return [entry for entry in log.entries if entry.get("parentId") == parent]


def _path(log: _Log, arguments: Arguments) -> list[Entry]:
    start = _first(arguments)
    return path_to(log.known, log.leaf if start is None else string(start))


METHODS: Mapping[str, Callable[[_Log, Arguments], Any]] = {
    "appendMessage": _entry("message", "message"),
    "appendThinkingLevelChange": _entry("thinking_level_change", "thinkingLevel"),
    "appendModelChange": _entry("model_change", "provider", "modelId"),
    "appendCompaction": _entry(
        "compaction", "summary", "firstKeptEntryId", "tokensBefore", "details", "fromHook"
    ),
    "appendCustomEntry": _entry("custom", "customType", "data"),
    "appendCustomMessageEntry": _entry(
        "custom_message", "customType", "content", "display", "details"
    ),
    "appendSessionInfo": _name,
    "appendLabelChange": _label,
    "branch": _branch,
    "branchWithSummary": _summary,
    "resetLeaf": _reset,
    "getLeafId": lambda log, _: log.leaf,
    "getEntry": lambda log, arguments: log.known.get(_text(arguments)),
    "getEntries": lambda log, _: list(log.entries),
    "getLabel": lambda log, arguments: log.labels.get(_text(arguments)),
    "getChildren": _children,
    "getBranch": _path,
    "getSessionName": _session_name,
}
"""Methods by their name."""


class Played(NamedTuple):
    """Hold what methods gave or raised, the leaf at the end, and what was appended."""

    results: tuple[Any, ...]
    leaf: str | None
    appended: tuple[Entry, ...]


def play(
    entries: Sequence[Entry],
    calls: Iterable[tuple[str, Arguments]],
    leaf: str | None = LAST,
) -> Played:
    """Call methods of a session, one after the other.

    Args:
        entries: in the order of the file.
        calls: names in `METHODS`, and arguments; those at the end may lack.
        leaf: an id; None stands before the first entry.

    Returns:
        For each call what it gives, or the `CtxError` that it raises: `unknown-entry`,
        `wrong-type`, `cyclic-parent`; `invalid-argument`, there is no such method.

    Raises:
        InvalidArgument: `unknown-entry`, there is no such leaf.

    >>> play([], [("appendMessage", [{"role": "user", "content": "hi"}]), ("resetLeaf", [])]).leaf
    """
    log = _Log(entries, leaf)
    results: list[Any] = []
    for name, arguments in calls:
        try:
            if name not in METHODS:
                raise InvalidArgument("invalid-argument", f"no method {name!r}", field="method")
            results.append(METHODS[name](log, arguments))
        except CtxError as error:
            results.append(error)
    return Played(tuple(results), log.leaf, log.appended)


class Moved(NamedTuple):
    """Hold where a move in the tree ended.

    Args:
        old_leaf, leaf: ids; None stands before the first entry.
        text: for the editor; None where nothing goes there.
        messages: the context at the new leaf; None where nothing moved.
        appended: the label, if one was asked for.
    """

    old_leaf: str | None
    leaf: str | None
    text: str | None = None
    messages: tuple[Entry, ...] | None = None
    appended: tuple[Entry, ...] = ()


def navigate(
    entries: Sequence[Entry], target: str, leaf: str | None = LAST, *, label: str | None = None
) -> Moved:
    """Move in the tree without a summary.

    A message of the user, and a custom one, is taken back for the editor: the leaf is its parent.
    Any other entry becomes the leaf itself. The leaf as the target changes nothing.

    Args:
        entries: in the order of the file.
        target: an id.
        leaf: where the session stands; None stands before the first entry.
        label: for the target.

    Raises:
        DecodeError: `cyclic-parent`; `wrong-type`, an entry of type `message` holds none.
        InvalidArgument: `unknown-entry`: the leaf, the target, or the parent to go to.

    >>> user = {"type": "message", "id": "u", "message": {"role": "user", "content": "hi"}}
    >>> navigate([user, {"type": "label", "id": "l", "parentId": "u"}], "u")
    Moved(old_leaf='l', leaf=None, text='hi', messages=(), appended=())
    """
    log = _Log(entries, leaf)
    old = log.leaf
    if target == old:
        return Moved(old, old)
    entry = log.known[log.find(target)]
    spoken = entry if entry.get("type") == "custom_message" else None
    if entry.get("type") == "message" and member(entry, "message").get("role") == "user":
        spoken = member(entry, "message")
    log.leaf = log.find(target if spoken is None else entry.get("parentId"))
    if label:
        _label(log, (target, label))
    messages = session_context(log.entries, log.leaf).messages
    return Moved(old, log.leaf, None if spoken is None else said(spoken), messages, log.appended)
