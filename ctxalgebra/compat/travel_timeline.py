"""The timeline of the original, on entries of the pi host: excerpts, tree, search, budgets.

Its rules and limits, for who has to give its answers; ours are in `ctxalgebra.timeline`. Nothing
here calls itself, so that any depth works (W12), and no text is cut inside a character (W23).
What a search reads stays the original's: neither output of commands nor arguments nor thinking
(W11). Source: travel, section 16.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite
from typing import Literal

from attrs import frozen

from ctxalgebra.codecs.pi_weights import utf16_length
from ctxalgebra.compat.host_entries import LAST, Entry, branch, name_of, tree
from ctxalgebra.compat.travel_entries import (
    OWN_TOOLS,
    Bounded,
    bounded_text,
    content_text,
    first_units,
    message_of,
    role_label,
)
from ctxalgebra.compat.travel_labels import read_labels
from ctxalgebra.timeline.values import Budget, budget
from ctxalgebra.utf16 import SPACE

__all__ = ["Found", "Lines", "excerpt", "read_budget", "search_tree", "tag", "tree_lines"]

CAP = 65_536
"""How much of one entry a search reads, in UTF-16 units."""

TEXT = 2_000_000
"""How much a search reads, in UTF-16 units."""

ROWS = 200
"""The most lines of a tree."""

_LABEL = 240
_SPACES = re.compile(f"[{SPACE}]+")
_SUMMARIES = {"branch_summary": "SUMMARY", "compaction": "COMPACTION"}
_TALK = frozenset({"user", "assistant"})
_BEHIND = frozenset({"custom", "system"})
_EMPTY = "(nothing was written)"

Stopped = Literal["scan_budget", "text_budget", "limit"]


def excerpt(text: str, most: int = 100) -> str:
    r"""Give a text on one line, cut with a mark.

    Args:
        text: any; runs of white space become one blank.
        most: UTF-16 units in front of the mark.

    >>> excerpt("a \n b\u00a0c"), excerpt("ab\U0001f600", 3)
    ('a b c', 'ab…')
    """
    line = _SPACES.sub(" ", text)
    return line if utf16_length(line) <= most else f"{first_units(line, most)}…"


def read_budget(window: object, used: object) -> Budget:
    """Give the room for an answer; what is no number, or not positive, is not known.

    >>> read_budget(20_000, 1_000), read_budget(None, None)
    (Budget(entries=50, characters=8000), Budget(entries=100, characters=40000))
    """
    return budget(_positive(window), _positive(used))


def _positive(value: object) -> float | None:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    return number if isfinite(number) and number > 0 else None


def _type(entry: Entry) -> str:
    kind = entry.get("type")
    return kind if isinstance(kind, str) else "unknown"


def _whole(entry: Entry, *, verbose: bool) -> str:
    """Give the text of an entry as a row shows it."""
    kind = _type(entry)
    if kind in _SUMMARIES:
        summary = entry.get("summary")
        return summary if isinstance(summary, str) and summary else _EMPTY
    if kind == "label":
        label = entry.get("label")
        shown = label if isinstance(label, str) else "cleared"
        return f"label {shown} → {entry.get('targetId', 'undefined')}" if verbose else ""
    if kind != "message":
        return kind if verbose else ""
    message = message_of(entry) or {}
    hidden = not verbose and _role(entry) in _BEHIND
    return "" if hidden else content_text(message.get("content"))


def _bounded(entry: Entry, most: int) -> Bounded:
    """Read an entry up to a number of source characters."""
    message = message_of(entry)
    if message is not None and "content" in message:
        return bounded_text(message["content"], most)
    text = _whole(entry, verbose=True)
    size = utf16_length(text)
    if size <= most:
        return Bounded(text, size, truncated=False)
    return Bounded(first_units(text, most), most, truncated=True)


def tag(entry: Entry) -> str:
    """Name an entry in capitals: its role, what it sums up, or its type.

    >>> tag({"type": "label"}), tag({"type": "message", "message": {"role": "assistant"}})
    ('LABEL', 'AI')
    """
    kind = _type(entry)
    if kind == "message":
        return role_label(entry) or "MESSAGE"
    return _SUMMARIES.get(kind, kind.upper())


def _role(entry: Entry) -> str | None:
    role = (message_of(entry) or {}).get("role")
    return role if isinstance(role, str) else None


def _talks(entry: Entry) -> bool:
    return _type(entry) in _SUMMARIES or _role(entry) in _TALK


def _on_path(entries: Sequence[Entry], leaf: str | None) -> tuple[set[str | None], str | None]:
    """Give the ids of the path, and that of the leaf."""
    path = branch(entries, leaf)
    if leaf is LAST:
        leaf = name_of(path[-1]) if path else None
    return {name_of(entry) for entry in path}, leaf


# The tree


@frozen
class Lines:
    """Hold a tree as lines: whether something was left out, and how many entries gave way."""

    lines: tuple[str, ...]
    truncated: bool
    hidden: int


def tree_lines(
    entries: Sequence[Entry], leaf: str | None = LAST, *, depth: int = 50, verbose: bool = False
) -> Lines:
    """Write the tree from its roots, parents first.

    Args:
        entries: in the order of the file.
        leaf: an id; None stands before the first entry.
        depth: most levels; entries that give way to their children take none.
        verbose: show every entry, not only what was said, labelled entries and the leaf.

    Raises:
        DecodeError: `cyclic-parent`.

    >>> user = {"type": "message", "id": "u", "message": {"role": "user", "content": "hi"}}
    >>> tree_lines([user]).lines
    ('└─ u (HEAD) [USER] hi',)
    """
    shape = tree(entries)
    labels = read_labels(entries).names
    active, leaf = _on_path(entries, leaf)
    lines: list[str] = []
    truncated = False
    hidden = 0
    todo: list[tuple[int, int, str, bool]] = []
    level, lead, ends = 1, "", True
    below: Sequence[int] = shape.roots
    while True:
        last = len(below) - 1
        todo.extend(
            (at, level, lead, ends and place == last) for place, at in reversed([*enumerate(below)])
        )
        if not todo:
            return Lines(tuple(lines), truncated=truncated, hidden=hidden)
        if len(lines) == ROWS:
            return Lines(tuple(lines), truncated=True, hidden=hidden)
        at, level, lead, ends = todo.pop()
        entry, below = entries[at], shape.children[at]
        name = name_of(entry)
        label = labels.get(name) if name is not None else None
        if not (verbose or label or name == leaf or _talks(entry)):
            hidden += 1
            continue
        tags = [
            *(["HEAD"] if name == leaf else ()),
            *(["off-path"] if name not in active else ()),
            *([f"checkpoint: {_cut(label)}"] if label else ()),
        ]
        tagged = f" ({', '.join(tags)})" if tags else ""
        body = excerpt(_whole(entry, verbose=verbose))
        lines.append(f"{lead}{'└─' if ends else '├─'} {name}{tagged} [{tag(entry)}] {body}")
        if level >= depth and below:
            truncated = True
            below = ()
        level, lead, ends = level + 1, lead + ("  " if ends else "│ "), True


def _cut(label: str) -> str:
    return label if utf16_length(label) <= _LABEL else f"{first_units(label, _LABEL)}…"


# Search


@frozen
class Found:
    """Hold what a search found and how far it came.

    Args:
        matches: id, label and excerpt of each.
        stopped: why it ended early; None if it didn't.
        scanned: entries that were visited.
        characters: UTF-16 units that were read.
        cut_by_cap, cut_by_budget: how many entries were read in part, by which limit.
    """

    matches: tuple[tuple[str | None, str | None, str], ...]
    stopped: Stopped | None
    scanned: int
    characters: int
    cut_by_cap: int
    cut_by_budget: int


def _kind(entry: Entry) -> str | None:
    if _type(entry) in _SUMMARIES:
        return "summary"
    return {"user": "user", "toolResult": "tool"}.get(_role(entry) or "")


def _repeats(entry: Entry) -> bool:
    """Say whether an entry is a result of the extension's own tools."""
    message = message_of(entry) or {}
    name = message.get("toolName")
    own = isinstance(name, str) and name.startswith(OWN_TOOLS)
    return own and message.get("role") == "toolResult"


def search_tree(
    entries: Sequence[Entry],
    query: str,
    leaf: str | None = LAST,
    *,
    limit: int = 50,
    scan: int = 5_000,
    scope: str | None = None,
    kind: str | None = None,
) -> Found:
    """Find entries whose id, label or text holds a query, in any letter case; parents first.

    Args:
        entries: in the order of the file.
        query: any text; the empty one is everywhere.
        leaf: an id; None stands before the first entry.
        limit: most matches; one more makes the search end.
        scan: most entries that are visited.
        scope: `active`, only on the path to the leaf, or `archive`, only off it.
        kind: `user`, `summary` or `tool`.

    Raises:
        DecodeError: `cyclic-parent`.

    >>> user = {"type": "message", "id": "u", "message": {"role": "user", "content": "A Needle"}}
    >>> search_tree([user], "needle").matches
    (('u', None, 'A Needle'),)
    """
    shape = tree(entries)
    labels = read_labels(entries).names
    active, _ = _on_path(entries, leaf)
    wanted = query.lower()
    matches: list[tuple[str | None, str | None, str]] = []
    stopped: Stopped | None = None
    scanned = read = by_cap = by_budget = 0
    todo = list(reversed(shape.roots))
    while todo and stopped is None:
        if scanned >= scan:
            stopped = "scan_budget"
            break
        if read >= TEXT:
            stopped = "text_budget"
            break
        at = todo.pop()
        scanned += 1
        todo.extend(reversed(shape.children[at]))
        entry = entries[at]
        name = name_of(entry)
        if scope is not None and (scope == "active") != (name in active):
            continue
        label = labels.get(name) if name is not None else None
        if (kind is not None and _kind(entry) != kind) or (label is None and _repeats(entry)):
            continue
        room = min(CAP, TEXT - read)
        found = _bounded(entry, room)
        read += found.consumed
        cut = found.truncated and room < CAP
        by_budget += cut
        by_cap += found.truncated and not cut
        if any(wanted in text.lower() for text in (name or "", label or "", found.text)):
            if len(matches) == limit:
                stopped = "limit"
                break
            matches.append((name, label, excerpt(found.text)))
        if cut:
            stopped = "text_budget"
    return Found(tuple(matches), stopped, scanned, read, by_cap, by_budget)
