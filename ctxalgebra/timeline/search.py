"""Search: everything that can be read, newest first, in steps that can be continued."""

from __future__ import annotations

from typing import Literal, get_args

from ctxalgebra.checkpoints.distance import OWN_TOOLS
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_text
from ctxalgebra.model.entries import Reply
from ctxalgebra.model.parts import Message, ToolCall
from ctxalgebra.model.session import Node, Session, check_session
from ctxalgebra.recall.texts import unescaped
from ctxalgebra.timeline.children import Stop, halted, nearest
from ctxalgebra.timeline.rows import Rows
from ctxalgebra.timeline.texts import Kind, kind_of, one_line, readable
from ctxalgebra.timeline.values import ROWS, Ended, Row, SearchView, check_before, check_between

__all__ = ["ECHOES", "Scope", "search"]

Scope = Literal["active", "archive"]
"""The path to the leaf, or everything else."""

ECHOES = OWN_TOOLS
"""Tools whose calls and results repeat what is found: they are found where they have a label."""

QUERY = 1_000
"""The longest query, in code points."""

SCAN = 5_000
"""How many entries a step looks at."""

CHARACTERS = 2_000_000
"""How many code points a step reads; the entry that it stands in is read to its end."""

MOST = 10**9
"""The most entries, and code points, that a step can be asked for."""

_WINDOW = 65_536
_LEAD, _TAIL = 40, 60
_DIGITS = 19


def _echoes(message: Message) -> bool:
    return message.name in ECHOES or any(call.name in ECHOES for call in message.calls)


def _unechoed(message: Message) -> Message:
    if message.name in ECHOES:
        return Message("user", ())
    parts = (p for p in message.parts if type(p) is not ToolCall or p.name not in ECHOES)
    return Message(message.role, tuple(parts), id=message.id)


def _source(window: str, folded: str, at: int) -> int:
    """Find the character that a place in the folded text comes from."""
    if len(window) == len(folded):
        return at
    low, high = 0, len(window)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if len(window[:middle].casefold()) <= at else (low, middle)
    return low


class _Reading:
    """A query, what was read for it so far, and whether to stop."""

    def __init__(self, rows: Rows, query: str, stop: Stop | None) -> None:
        self.wanted = query.casefold()
        self.labels = rows.labels
        self.named = {n for n, label in rows.labels.items() if self.wanted in label.casefold()}
        digits = query.removeprefix("#")
        if digits.isascii() and digits.isdigit() and len(digits) < _DIGITS:
            self.named.add(int(digits))
        self.stop = stop
        self.characters = 0
        self.stopped = False

    def find(self, text: str) -> int | None:
        """Find the query in a text, a window at a time, so that no copy of it is ever whole."""
        over = len(self.wanted) - 1
        for start in range(0, len(text), _WINDOW):
            if start and self.stop is not None and self.stop():
                self.stopped = True
                return None
            window = text[start : start + _WINDOW + over]
            self.characters += min(len(window), _WINDOW)
            folded = window.casefold()
            at = folded.find(self.wanted)
            if at >= 0:
                return start + _source(window, folded, at)
        return None

    def excerpt(self, node: Node) -> str | None:
        """Give what stands around the query in an entry, or its beginning; None where it isn't.

        Escapes, which JSON is full of, are read as they stand, and undone.
        """
        entry = node.entry
        message = entry.message if type(entry) is Reply else entry
        ids = ""
        if type(message) is Message:
            if (message.name or message.calls) and _echoes(message):
                message = message if node.number in self.labels else _unechoed(message)
            ids = f"{message.name}\n{message.call}\n{message.id}"
            text = "\n".join(readable(message))
        else:
            text = "\n".join(readable(entry))
        at = self.find(text)
        if at is None and "\\" in text and not self.stopped:
            text = unescaped(text)
            at = self.find(text)
        if at is None:
            if self.stopped:
                return None
            named = node.number in self.named or self.wanted in ids.casefold()
            return one_line(readable(entry)) if named else None
        start = max(0, at - _LEAD)
        end = at + len(self.wanted) + _TAIL
        line = one_line([text[start:end]], end - start)
        return f"{'…' * (start > 0)}{line}{'…' * (end < len(text))}"


def _check(session: Session, query: str, scope: str | None, kind: str | None) -> None:
    check_session(session)
    check_text(query, "query")
    if query.isspace() or not 0 < len(query) <= QUERY:
        raise InvalidArgument("invalid-argument", f"1 to {QUERY} characters", field="query")
    choices: tuple[tuple[str, object, object], ...] = (
        ("scope", scope, Scope),
        ("kind", kind, Kind),
    )
    for name, value, known in choices:
        if value is not None and value not in get_args(known):
            text = f"one of {', '.join(get_args(known))}"
            raise InvalidArgument("invalid-argument", text, field=name)


def search(
    session: Session,
    query: str,
    *,
    scope: Scope | None = None,
    kind: Kind | None = None,
    limit: int = ROWS,
    before: int | None = None,
    scan: int = SCAN,
    characters: int = CHARACTERS,
    stop: Stop | None = None,
) -> SearchView:
    """Find entries by a text in them, in any letter case: in their labels, ids, and all they say.

    Walks the log from its end, so that the newest come first, and keeps nothing but the matches.
    Calls and results of the timeline and of travelling itself only count where they have a label.

    Args:
        session: all of its branches.
        query: 1 to 1,000 characters, not all of them blank.
        scope: only on the path to the leaf (`active`), or only off it (`archive`).
        kind: only entries of this kind.
        limit: most matches, 1 to 50.
        before: only entries in front of this number: the `next` of the step before.
        scan: most entries that are looked at.
        characters: no entry is begun behind so many code points.
        stop: says that the caller wants no more; asked once every 64 entries, and inside of long
            texts.

    Raises:
        InvalidArgument: `wrong-type`, `lone-surrogate`; `invalid-argument`, beyond the limits.

    >>> from ctxalgebra import Session, ToolCall, assistant, record, user
    >>> call = ToolCall("c1", "bash", '{"command":"grep needle"}')
    >>> session = record(Session(), user("a needle"), assistant(call))
    >>> [row.text for row in search(session, "Needle").rows]
    ['[call c1] bash {"command":"grep needle"}', 'a needle']
    """
    _check(session, query, scope, kind)
    check_between(limit, 1, ROWS, "limit")
    check_between(scan, 1, MOST, "scan")
    check_between(characters, 1, MOST, "characters")
    rows = Rows(session)
    reading = _Reading(rows, query, stop)
    node = session.last
    if before is not None:
        check_before(before)
        node = nearest(session, before - 1)
    path = _meets(session, node)
    found: list[Row] = []
    ended: Ended = ""
    visited = 0
    while node is not None:
        if visited == scan:
            ended = "scan"
        elif reading.characters >= characters:
            ended = "characters"
        elif halted(stop, visited):
            ended = "stopped"
        if ended:
            break
        visited += 1
        active = node is path
        if (scope is None or (scope == "active") == active) and (
            kind is None or kind == kind_of(node)
        ):
            text = reading.excerpt(node)
            if reading.stopped or (text is not None and len(found) == limit):
                ended = "stopped" if reading.stopped else "limit"
                break
            if text is not None:
                found.append(rows.row(node, archived=not active, text=text))
        if active:
            path = node.parent
        node = node.previous
    next_ = None if node is None else node.number + 1
    return SearchView(query, tuple(found), next_, ended, visited, reading.characters)


def _meets(session: Session, node: Node | None) -> Node | None:
    """Find the newest entry of the path that is not behind a node."""
    path = session.leaf
    while path is not None and node is not None and path.number > node.number:
        jump = path.jump
        path = jump if jump is not None and jump.number >= node.number else path.parent
    return path
