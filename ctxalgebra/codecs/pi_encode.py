"""Writing session files of the pi coding agent: what was read goes back as it was.

A line that was read is written as it stands in its entry (see `ctxalgebra.codecs.intake`), as
long as it still says what the entry says, at the place where the entry stands; else, and for
everything that was recorded since, a new line is made:

* messages and replies are `message` lines, a result with the name of its call's tool; what arrived
  while a request was in flight is written behind its reply, where requests show it; a request
  itself has no line;
* a head that changed the route is a `model_change`, unless the reply behind it says the same;
* `Cut` is a `compaction`, `Replace` a `context_edit`, `Label` a `label`, `UsageReport` a `usage`,
  a host's own note a `custom` line;
* system text and tools, parameters of a route other than `api`, `Drop`, `Strip`, asks and answers,
  and what is decided about a result that a repair made have no line in this format: they are left
  out. Our own journal keeps them.

Ids are those of the messages, or eight hex digits of the entry's number; the parent is the
nearest line up the path; times go on from the last one in the file, a millisecond a line. A line
without an id can't be named as a parent: `parentId` is the nearest id above it, and
`"ctxalgebra":{"parentId":"#12"}` says that the place is under line 12. A file
of version 1 holds neither ids nor branches. When the leaf is not the last entry, a `custom` line
under it makes it so, since the leaf of a file is its last entry.
"""

from __future__ import annotations

from attrs import evolve

from ctxalgebra.codecs import pi
from ctxalgebra.codecs.intake import ASIDE, ENTRY, MISSING, REPAIR, RESULTS, UNTERMINATED, taken
from ctxalgebra.codecs.lines import Json, Number, clock, compact, integer, iso, parse, string
from ctxalgebra.codecs.pi_messages import (
    Spoken,
    summary_of,
    write_blocks,
    write_message,
    write_usage,
)
from ctxalgebra.errors import DecodeError, InvalidArgument
from ctxalgebra.model.entries import Cut, Entry, Label, Note, Replace, Reply, Sent, UsageReport
from ctxalgebra.model.head import Head, Route
from ctxalgebra.model.parts import Message, Text
from ctxalgebra.model.session import Node, Session, log
from ctxalgebra.model.view import EMPTY_VIEW, View, step

__all__ = ["encode"]

_HEADER_ID = "ctxalgebra"
_NO_LF = pi.NAME + UNTERMINATED
_LINES = tuple(pi.NAME + ending for ending in ("", ENTRY, ASIDE))


def _value(raw: str) -> Json:
    try:
        return parse(raw, limit=len(raw))
    except DecodeError:
        return None


def _object(raw: str) -> dict[str, Json]:
    value = _value(raw)
    return value if isinstance(value, dict) else {}


def _said(entry: Entry) -> str:
    """Give the line that an entry was read from, or claims to be; empty when there is none."""
    match entry:
        case Message():
            return entry.origin
        case Reply():
            return "" if entry.message is None else entry.message.origin
        case Note() if entry.name in _LINES:
            return entry.data
        case _:
            return ""


class _Writer:
    """The lines so far, and what holds behind each entry.

    Lines are known by their number in the file; 0 is the root, and so is the header.

    Attributes:
        known: the number of the last entry that was read from a file of this format, or -1.
        host: the number of the first entry that was not read from any file.
        views: by entry number, the view behind it.
        lines: the nearest line up the path; what stands under the entry stands under that line.
        own: the line of the entry itself.
        written: the route that the file names there.
        names: by line, what others name it by: its id, or its place in the file.
        near: by line, the nearest id up the path, its own first.
        places: by name, the line that has it.
        calls: by id of a call, the first line that holds it; the session's id is the root's.
        timed: how many lines there were behind the last one that was made, and its time.
        tools: of calls, by their ids in the file.
        ids: what the file calls the calls that a repair has renamed.
    """

    def __init__(self, session: Session) -> None:
        self.nodes = nodes = log(session)
        name, end = taken(session)
        self.known = end if name == pi.NAME else -1
        self.host = end + 1
        self.out: list[str] = []
        self.views: dict[int, View] = {-1: EMPTY_VIEW}
        self.lines: dict[int, int] = {-1: 0}
        self.own: dict[int, int] = {}
        self.written: dict[int, Route] = {-1: Route()}
        self.names: dict[int, str] = {0: ""}
        self.near: dict[int, str] = {0: ""}
        self.places: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.tools: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        self.replies: dict[int, int] = {}
        self.objects = 0
        self.timed = (-1, 0)
        self.last_line = 0
        self.unterminated = -1
        read = nodes[: self.known + 1]
        said = [(node.number, raw) for node in read if (raw := _said(node.entry))]
        # A byte order mark is one on the first line only.
        self.rows = {
            number: pi.read_row(raw, line=1 if raw == said[0][1] else 2, limit=len(raw))
            for number, raw in said
        }
        self.used = {row.name for row in self.rows.values() if row.kind != "session"} - {""}
        header = next((row for row in self.rows.values() if row.kind), None)
        self.chained = False
        if header is not None and header.kind == "session":
            self.chained = (integer((header.value or {}).get("version")) or 1) < 2
        elif self.known >= 0:
            self.chained = not self.used

    # Lines

    def _write(self, raw: str, message: Message | None) -> int:
        """Write a line; give its number."""
        self.out.append(raw)
        for call in () if message is None else message.calls:
            # The root has no name, and no call without an id takes its place.
            if call.id:
                self.calls.setdefault(call.id, len(self.out))
            self.tools[call.id] = call.name
        return len(self.out)

    def _stand(self, line: int, name: str, number: int) -> None:
        """Let a line of the tree be that of an entry."""
        above = self.lines[number]
        if line not in self.names:
            self.near[line] = name or self.near[above]
            self.names[line] = name or pi.line_name(line, self.used)
            if self.chained:
                self.names[line] = f"#{self.objects}"
            self.places[self.names[line]] = line
            self.last_line = max(line, self.last_line)
        self.own[number] = self.lines[number] = line

    def _emit(self, raw: str, name: str, number: int, message: Message | None) -> None:
        """Write a line of the tree for an entry."""
        self._stand(self._write(raw, message), name, number)
        self.objects += 1

    def _now(self) -> int:
        count, time = self.timed
        if count == len(self.out):
            return time + 1
        for raw in reversed(self.out):
            known = clock(string(_object(raw).get("timestamp")))
            if known is not None:
                return known + 1
        return 0

    def _fresh(self, number: int, wanted: str) -> str:
        if wanted and wanted[0] != "#" and wanted not in self.used:
            return wanted
        name = f"{number % 2**32:08x}"
        while name in self.used:
            name += "0"
        return name

    def make(
        self,
        number: int,
        kind: str,
        fields: dict[str, Json],
        *,
        name: str = "",
        time: int = 0,
        message: Message | None = None,
    ) -> None:
        """Make a line under the nearest line up the path."""
        above = self.lines[number]
        if self.chained and above != self.last_line:
            raise InvalidArgument(
                "invalid-argument", "a file of version 1 holds no branches", entry=number
            )
        name = self._fresh(number, name)
        self.used.add(name)
        now = max(self._now(), time)
        near, there = self.near[above], self.names[above]
        place: dict[str, Json] = {} if self.chained else {"id": name, "parentId": near or None}
        line: dict[str, Json] = {"type": kind, **place, "timestamp": iso(now), **fields}
        if not self.chained and there != near:
            line["ctxalgebra"] = {"parentId": there}
        self._emit(compact(line), name, number, message)
        self.timed = len(self.out), now

    def header(self) -> None:
        """Make the header of a new file."""
        times = (n.entry.time for n in self.nodes if isinstance(n.entry, Sent))
        first = next((time for time in times if time is not None), 0)
        line: dict[str, Json] = {
            "type": "session",
            "version": Number("3"),
            "id": _HEADER_ID,
            "timestamp": iso(first),
            "cwd": "",
        }
        self.out.append(compact(line))

    def say_route(self, number: int) -> None:
        """Make a `model_change` if the head's route is not what the file says here."""
        now, known = self.views[number].head.route, self.written[number]
        if (now.provider, now.model) not in ((known.provider, known.model), ("", "")):
            fields: dict[str, Json] = {"provider": now.provider, "modelId": now.model}
            self.make(number, "model_change", fields)
        self.written[number] = now

    # Messages

    def _fits(self, number: int, spoken: Spoken, *, reply: bool) -> bool:
        """Say whether the line that a message came from still says it, and says it here."""
        row = self.rows.get(number)
        if row is None or row.spoken is None or row.spoken.message != spoken.message:
            return False
        said = row.spoken
        if reply and (said.outcome, said.usage) != (spoken.outcome, spoken.usage):
            return False
        above = self.lines[number]
        if self.chained:
            return above == self.last_line
        parent = row.parent or ""
        return row.name not in self.places and above == self.places.get(
            parent, self.calls.get(parent, 0)
        )

    def message(self, number: int, spoken: Spoken, *, reply: bool = False) -> None:
        """Write a message: the line it came from, or a new one."""
        message = spoken.message
        speaks = message.role == "assistant"
        if self._fits(number, spoken, reply=reply):
            self._emit(message.origin, self.rows[number].name, number, message)
        else:
            if not speaks:
                self.say_route(number)
            route = self.views[number].head.route
            api = next((_value(v) for k, v in route.parameters if k == "api"), "")
            time = spoken.time if spoken.time is not None else self._now()
            call = self.ids.get(message.call, message.call)
            tool = message.name or self.tools.get(call, "")
            if (call, tool) != (message.call, message.name):
                message = evolve(message, call=call, name=tool)
            fields = write_message(
                evolve(
                    spoken,
                    message=message,
                    time=time,
                    provider=route.provider,
                    model=route.model,
                    api=string(api),
                )
            )
            self.make(
                number,
                "message",
                {"message": fields},
                name=message.id,
                time=time,
                message=message,
            )
        if speaks:
            self.written[number] = self.views[number].head.route

    def _waiting(self, node: Node | None) -> tuple[list[tuple[int, Message]], Sent | None]:
        """Go up to the open request: what arrived meanwhile, and the request."""
        found: list[tuple[int, Message]] = []
        while node is not None and not isinstance(node.entry, Sent):
            if isinstance(node.entry, Message):
                found.append((node.number, node.entry))
            node = node.parent
        sent = None if node is None else node.entry
        return found[::-1], sent if isinstance(sent, Sent) else None

    def _queued(self, number: int, waiting: list[tuple[int, Message]]) -> None:
        for at, message in waiting:
            self.lines[at] = self.lines[number]
            self.written[at] = self.written[number]
            self.message(at, Spoken(message))
            self.lines[number] = self.lines[at]
            self.written[number] = self.written[at]

    def reply(self, node: Node, reply: Reply) -> None:
        """Write a reply and, behind it, what waited for it."""
        number = node.number
        waiting, sent = self._waiting(node.parent)
        if reply.message is not None or reply.outcome != "lost":
            message = reply.message or Message("assistant", ())
            time = None if sent is None else sent.time
            self.message(number, Spoken(message, reply.outcome, reply.usage, time), reply=True)
        self._queued(number, waiting)

    # Entries

    def _name(self, number: int) -> str:
        """Name the line of an entry; empty when it has none."""
        return self.names[self.own.get(number, 0)]

    def _cut(self, number: int, cut: Cut) -> None:
        view = self.views[number]
        kept = view.slots.numbers[view.front] if view.end > view.front else -1
        first = self._name(kept)
        parts = cut.notice.parts
        only = parts[0] if len(parts) == 1 else None
        summary = summary_of(only.text) if isinstance(only, Text) else None
        exact: dict[str, Json] = {}
        if summary is None:
            exact["notice"] = write_blocks(parts)
            summary = "".join(part.text for part in parts if isinstance(part, Text))
        if cut.keep:
            exact["keep"] = [self._name(at) for at in cut.keep]
        where: dict[str, Json] = {"firstKeptEntryId": first}
        if self.chained:
            where = {"firstKeptEntryIndex": Number(first[1:])} if first else {}
        details: dict[str, Json] = {"details": {"ctxalgebra": exact}} if exact else {}
        self.make(
            number,
            "compaction",
            {"summary": summary, **where, "tokensBefore": Number("0"), **details},
            name=cut.notice.id,
        )

    def _other(self, number: int, entry: Entry) -> None:
        """Make a line for what is no message."""
        match entry:
            case Note() if number >= self.host:
                self.make(number, "custom", {"customType": entry.name, "data": entry.data})
            case Label() if (
                target := self._name(entry.target) or self.names[self.lines[entry.target]]
            ):
                name: dict[str, Json] = {"label": entry.name} if entry.name else {}
                self.make(number, "label", {"targetId": target, **name})
            case UsageReport() if reply := self._name(self.replies.get(entry.sent, -1)):
                route = self.views[number].head.route
                self.make(
                    number,
                    "usage",
                    {
                        "kind": "request",
                        "provider": route.provider,
                        "model": route.model,
                        "usage": write_usage(entry.usage),
                        "targetId": reply,
                    },
                )
            case Cut():
                self._cut(number, entry)
            case Replace() if target := self._name(entry.target):
                speaks = entry.message.role == "assistant"
                content: Json = write_blocks(entry.message.parts, speaks=speaks)
                edit: dict[str, Json] = {"targetId": target, "replacement": {"content": content}}
                self.make(number, "context_edit", edit)
            case _:
                pass

    def _read_line(self, number: int, note: Note) -> None:
        """Write a line that was read and gave no message."""
        row = self.rows.get(number, pi.Row(""))
        said = None if row.spoken is None else row.spoken.message
        if note.name == _NO_LF:
            self.unterminated = len(self.out)
        elif note.name not in _LINES:
            return
        elif row.kind == "session" or note.name == pi.NAME + ASIDE:
            self._write(note.data, said)
            self.objects += bool(row.kind)
            if note.name != pi.NAME + ASIDE:
                self.calls[row.name] = 0
        else:
            self._emit(note.data, row.name, number, said)

    def entry(self, node: Node) -> None:
        """Write what an entry has to say."""
        number, entry, parent = node.number, node.entry, node.parent
        above = -1 if parent is None else parent.number
        before = self.views[above]
        self.views[number] = step(before, number, entry)
        self.lines[number] = self.lines[above]
        self.written[number] = self.written[above]
        if isinstance(entry, Reply):
            self.replies[before.flight] = number
        mark = parent.entry if parent is not None and above == number - 1 else None
        read = number <= self.known
        if read and isinstance(mark, Note) and mark.name in (REPAIR, pi.NAME + ENTRY):
            self._known(number, entry, mark)
        elif read and isinstance(entry, Note):
            self._read_line(number, entry)
        elif isinstance(entry, Reply):
            self.reply(node, entry)
        elif not isinstance(entry, Message):
            self._other(number, entry)
        elif before.flight < 0:
            self.message(number, Spoken(entry))

    def _known(self, number: int, entry: Entry, mark: Note) -> None:
        """Pass over an entry that the file holds elsewhere, or not at all."""
        repaired = _object(mark.data) if mark.name == REPAIR else {}
        line, code = integer(repaired.get("line")), string(repaired.get("code"))
        if line is None:
            self.own[number] = self.lines[number]
        elif code not in RESULTS:
            self._stand(line, string(repaired.get("entry")), number)
            self._renamed(number, entry)
        elif code != MISSING:
            self.own[number] = line
        if isinstance(entry, Head | Reply):
            self.written[number] = self.views[number].head.route

    def _renamed(self, number: int, entry: Entry) -> None:
        """Remember what the file calls the calls that a repair has renamed."""
        message = entry.message if isinstance(entry, Reply) else entry
        row = self.rows.get(number)
        if isinstance(message, Message) and row is not None and row.spoken is not None:
            for call, said in zip(message.calls, row.spoken.message.calls, strict=False):
                self.ids[call.id] = said.id or call.id

    def finish(self, leaf: Node | None) -> bytes:
        """Make the leaf the last entry; give the bytes."""
        inner = {node.parent.number for node in self.nodes if node.parent is not None}
        for node in self.nodes:
            if self.views[node.number].flight >= 0 and node.number not in inner:
                self._queued(node.number, self._waiting(node)[0])
        at = -1 if leaf is None else leaf.number
        self.say_route(at)
        if self.lines[at] != self.last_line:
            self.make(at, "custom", {"customType": "ctxalgebra", "data": "leaf"})
        end = "" if self.unterminated == len(self.out) else "\n"
        return ("\n".join(self.out) + end).encode()


def encode(session: Session) -> bytes:
    """Write a session as a session file of pi.

    A session that was decoded from such a file gives the same bytes; what was recorded since is
    new lines. A session from elsewhere is written from its messages.

    Raises:
        InvalidArgument: `invalid-argument`, a file of version 1 would have branches.

    >>> from ctxalgebra import Session, record, user
    >>> print(encode(record(Session(), user("hi"))).decode().splitlines()[1][:50])
    {"type":"message","id":"00000000","parentId":null,
    """
    writer = _Writer(session)
    if writer.known < 0:
        writer.header()
    for node in writer.nodes:
        writer.entry(node)
    return writer.finish(session.leaf)
