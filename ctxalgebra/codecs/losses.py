"""What one session says and another doesn't: the losses of a conversion, by comparing the two.

Each entry is broken into items (a part, a label, a usage report, ...), and each item is looked for
among those of the other session, whatever the order: first all of it, then less. So the list is
right for every pair of formats, those that are added later included.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from attrs import frozen

from ctxalgebra.codecs import gemini_contents
from ctxalgebra.codecs.intake import ASIDE, ENTRY, PART, REPAIR, read_note, taken
from ctxalgebra.codecs.lines import blank, compact, integer, parse
from ctxalgebra.codecs.order import Order
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.entries import (
    DECISIONS,
    Answer,
    Ask,
    Label,
    Note,
    Reply,
    Sent,
    UsageReport,
)
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Image, Message, Part, Text, Thinking, ToolCall
from ctxalgebra.model.session import Node, Session, log, path

__all__ = ["LOSSES", "Loss", "lines", "loss", "losses", "notes", "signed_texts"]

LOSSES: Mapping[str, str] = MappingProxyType(
    {
        "arguments": "the arguments of the call changed: the format wants an object",
        "boundary": "the format does not tell this message from the one in front of it",
        "branch": "the format holds one path, and this is not on it",
        "call": "the call has no place in the format",
        "decision": "the format has no place for this decision",
        "effect": "the format has no place for questions and answers of stages",
        "error": "the format does not tell that the tool failed",
        "id": "the format gives it another id, or none",
        "image": "the image has no place here in the format",
        "label": "the format has no place for labels",
        "line": "a line of the source that says nothing the format has a place for",
        "note": "the format has no place for a host's own records",
        "opaque": "a part that only its own provider reads",
        "outcome": "the format has no place for a request that was not completed",
        "role": "the format has no such role here: the text stands under another",
        "route": "the format does not tell where requests went",
        "signature": "the signature proves nothing to the format's provider, or has no place in it",
        "system": "the format has no place for this system text",
        "text": "the text has no place here in the format",
        "thinking": "the thinking has no place in the format",
        "time": "the format does not tell when requests were sent",
        "tool": "the format has no place for this tool's description",
        "usage": "the format does not tell what requests cost",
    }
)
"""All codes of losses, with their reasons. Stable."""


@frozen
class Loss:
    """Say what the result doesn't hold.

    Args:
        code: one of `LOSSES`.
        place: the entry's number in the session that was converted.
        kind: of the entry or part, as its class names it, or what of it.
        reason: one sentence for a person.
    """

    code: str
    place: int
    kind: str
    reason: str


def loss(code: str, place: int, kind: str) -> Loss:
    """Give a loss with its reason."""
    return Loss(code, place, kind, LOSSES[code])


# Comparing

_Keys = list[tuple[str, Hashable]]
_Item = tuple[int, str, _Keys]
"""The number of an entry, what of it, and what that is looked for by in the result.

First by all of it, then by less. The code of a key says what is lost when only the next one is
found; that of the last one, when none is.
"""

_HELD = ("route", "system", "tool")
"""What holds from one entry to the next, and is not said again."""

_SPOKEN = ("call", "image", "opaque", "text", "thinking")


def _canonical(text: str) -> str:
    """Give JSON text without what can be written either way."""
    try:
        return compact(parse(text, limit=len(text)))
    except DecodeError:
        return text


def _part_keys(role: str, part: Part, *, error: bool) -> _Keys:
    match part:
        case Text():
            text = part.text
            return [("error", (role, error, text)), ("role", (role, text)), ("text", text)]
        case Thinking():
            return [("signature", part), ("thinking", part.text)]
        case Image():
            return [("image", (role, part))]
        case ToolCall():
            said = part.name, _canonical(part.arguments)
            signed = *said, part.signature
            return [("signature", signed), ("arguments", said), ("call", part.name)]
        case _:
            return [("opaque", (part.type, _canonical(part.data)))]


def _message_items(number: int, message: Message) -> Iterator[_Item]:
    parts = message.parts
    if message.role == "tool":
        # Its texts are one text to most providers.
        text = Text("".join(part.text for part in parts if isinstance(part, Text)))
        parts = (text, *(part for part in parts if not isinstance(part, Text)))
    for part in parts:
        if isinstance(part, Text) and not part.text.strip():
            continue
        if isinstance(part, ToolCall):
            yield number, part.kind, [("id", (part.kind, part.id))]
        yield number, part.kind, _part_keys(message.role, part, error=message.error)
    if message.id:
        yield number, message.kind, [("id", (message.kind, message.id))]


def _head_items(number: int, head: Head) -> Iterator[_Item]:
    route = head.route
    for name in ("provider", "model"):
        if value := getattr(route, name):
            yield number, name, [("route", (name, value))]
    for pair in route.parameters:
        yield number, "parameters", [("route", pair)]
    if head.system:
        yield number, "head", [("system", head.system)]
    for tool in head.tools:
        schema = _canonical(tool.schema)
        yield number, "head", [("tool", (tool.name, tool.description, schema))]


def _entry_items(node: Node) -> Iterator[_Item]:
    number, entry = node.number, node.entry
    usage = entry.usage if isinstance(entry, Reply | UsageReport) else None
    if usage is not None and any((usage.input, usage.output)):
        yield number, entry.kind, [("usage", usage)]
    match entry:
        case Message():
            yield from _message_items(number, entry)
        case Head():
            yield from _head_items(number, entry)
        case Reply() if entry.outcome != "completed":
            parts = () if entry.message is None else entry.message.parts
            texts = tuple(part.text for part in parts if isinstance(part, Text))
            yield number, entry.kind, [("outcome", (entry.outcome, "".join(texts).strip()))]
        case Reply() if entry.message is not None:
            yield from _message_items(number, entry.message)
        case Sent() if entry.time is not None:
            yield number, entry.kind, [("time", entry.time)]
        case Label() if entry.name:
            yield number, entry.kind, [("label", entry.name)]
        case Ask() | Answer():
            yield number, entry.kind, [("effect", entry.kind)]
        case _ if isinstance(entry, DECISIONS):
            yield number, entry.kind, [("decision", entry.kind)]
        case _:
            pass


def _items(nodes: Iterable[Node]) -> list[_Item]:
    """List what entries say; what holds on only where it is said first."""
    said: set[Hashable] = set()
    found: list[_Item] = []
    for node in nodes:
        for item in _entry_items(node):
            first = item[2][0]
            if first[0] not in _HELD or first not in said:
                found.append(item)
            said.add(first)
    return found


def _boundaries(nodes: Iterable[Node]) -> Iterator[_Item]:
    """Give each message that requests show behind one of the same role."""
    order = Order()
    shown = [pair for node in nodes for pair in order.take(node)]
    before = ""
    for number, message in (*shown, *order.finish()):
        if not message.empty:
            if message.role == before and before in ("assistant", "user"):
                yield number, message.kind, [("boundary", before)]
            before = message.role


def _said(session: Session) -> list[_Item]:
    nodes = path(session)
    return [*_items(nodes), *_boundaries(nodes)]


class _Stock:
    """What the result says, to be taken out of it once each, by any of its keys."""

    def __init__(self, items: Iterable[_Item]) -> None:
        self._by_key: dict[Hashable, list[int]] = {}
        self._used: list[bool] = []
        for _, _, keys in items:
            for key in keys:
                self._by_key.setdefault(key, []).append(len(self._used))
            self._used.append(False)

    def _take(self, key: tuple[str, Hashable]) -> bool:
        found = self._by_key.get(key, [])
        if key[0] in _HELD:
            return bool(found)
        while found:
            at = found.pop()
            if not self._used[at]:
                self._used[at] = True
                return True
        return False

    def missing(self, items: Sequence[_Item]) -> list[Loss]:
        """Take items out; list what is not there, or only in part."""
        found: list[Loss] = []
        level = 0
        while items:
            rest: list[_Item] = []
            for item in items:
                place, kind, keys = item
                if self._take(keys[level]):
                    found += [loss(keys[level - 1][0], place, kind)] * (level > 0)
                elif level + 1 < len(keys):
                    rest.append(item)
                else:
                    found.append(loss(keys[level][0], place, kind))
            items = rest
            level += 1
        return found


def _branches(session: Session) -> dict[int, list[Node]]:
    """Group what is not on the path, by where it leaves it."""
    roots: dict[int, int] = {node.number: -1 for node in path(session)}
    found: dict[int, list[Node]] = {}
    for node in log(session):
        if node.number not in roots:
            above = -1 if node.parent is None else roots[node.parent.number]
            roots[node.number] = node.number if above < 0 else above
            found.setdefault(roots[node.number], []).append(node)
    return found


def _leading(session: Session) -> tuple[str, set[int]]:
    """Give the system text in front of all other messages, and the entries that hold it.

    Formats differ in whether it stands among the messages or beside them.
    """
    beside = ""
    among: list[str] = []
    held: set[int] = set()
    for node in path(session):
        entry = node.entry
        if isinstance(entry, Head):
            beside = entry.system
        elif isinstance(entry, Message) and entry.role == "system":
            among.append("".join(part.text for part in entry.parts if isinstance(part, Text)))
        elif isinstance(entry, Message | Sent):
            break
        else:
            continue
        held.add(node.number)
    return "\n\n".join([beside, *among] if beside else among), held


def _is_system(item: _Item, held: set[int]) -> bool:
    place, kind, keys = item
    return place in held and (kind == "text" or keys[0][0] == "system")


def lines(session: Session) -> Iterator[Loss]:
    """List the lines of the file that give neither a message nor another entry."""
    name, end = taken(session)
    known: dict[int, int] = {}
    used: set[int] = set()
    marked = -1
    for node in log(session)[: end + 1]:
        entry, number = node.entry, node.number
        if isinstance(entry, Note) and entry.name in (REPAIR, PART):
            of = read_note(number, entry).get("of")
            used.update(integer(line) or 0 for line in (of if isinstance(of, list) else ()))
            marked = number + 1
        elif isinstance(entry, Note) and entry.name == name + ENTRY:
            known[number] = -1
            marked = number + 1
        elif number == marked:
            continue
        elif isinstance(entry, Message | Reply):
            known[number] = -1
        elif isinstance(entry, Note) and entry.name in (name, name + ASIDE):
            known[number] = -1 if blank(entry.data) else number
    for line, number in enumerate(known.values(), 1):
        if number >= 0 and line not in used:
            yield loss("line", number, "note")


def notes(session: Session) -> Iterator[Loss]:
    """List a host's own records."""
    _, end = taken(session)
    for node in log(session)[end + 1 :]:
        if isinstance(node.entry, Note):
            yield loss("note", node.number, "note")


def signed_texts(session: Session) -> Iterator[Loss]:
    """List the signatures that stand only in the wire texts of messages."""
    for node in log(session):
        entry = node.entry
        message = entry.message if isinstance(entry, Reply) else entry
        if isinstance(message, Message):
            for _ in range(gemini_contents.signed_texts(message)):
                yield loss("signature", node.number, "text")


def losses(session: Session, back: Session) -> list[Loss]:
    """List what a session says and another doesn't; reads all entries of both.

    Not listed: what the bindings of routes are, the names of tools on results, reasons of
    decisions, white space, and the notes of either.
    """
    items = _said(session)
    said, held = _leading(session)
    if said == _leading(back)[0]:
        items = [item for item in items if not _is_system(item, held)]
    theirs = _said(back)
    found = _Stock(theirs).missing(items)
    others = [node for nodes in _branches(back).values() for node in nodes]
    holds = (item for item in theirs if item[2][0][0] in _HELD)
    stock = _Stock([*holds, *_items(others)])
    for root, nodes in _branches(session).items():
        missing = stock.missing(_items(nodes))
        gone = any(item.code in _SPOKEN for item in missing)
        found += [loss("branch", root, "branch")] if gone else missing
    if session.view.flight >= 0 > back.view.flight:
        found.append(loss("outcome", session.view.flight, Sent.kind))
    return found
