"""Writing transcripts of Claude Code: the lines that were read as they were, new ones behind them.

| entry | lines |
| --- | --- |
| a message | `user`, one a message; a system message is one that is `isMeta` |
| a completed reply | `assistant`, with all its blocks, its model and its usage |
| a failed or aborted reply | `assistant`, as the host writes an error of the API |
| `Cut` | `compact_boundary`, and the notice as a `user` line that is the summary |

New lines are chained: each names the one above it, the host's fields are those of the last message
in the file, times go on from the last one, a millisecond a line. What the host has no field for
stands in `ctxalgebra`: the number of the line above, since not each line has an id, and results
stand where they belong and not where they say; what a cut keeps (the host itself keeps nothing);
that a line is only there to be the leaf. System text and
tools, other decisions, labels, notes, asks and answers, and usage that was reported late are left
out, and so are opaque parts of other providers; our own journal keeps them.
"""

from __future__ import annotations

from attrs import evolve

from ctxalgebra.codecs.anthropic_messages import write_element
from ctxalgebra.codecs.claude_code import LEAF, NAME, OURS, SYNTHETIC, calls_in
from ctxalgebra.codecs.intake import ASIDE, PART, REPAIR, RESULTS, UNTERMINATED, taken
from ctxalgebra.codecs.lines import Json, Number, clock, compact, integer, iso, parse, string
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.entries import Cut, Entry, Note, Reply, Sent
from ctxalgebra.model.head import Usage
from ctxalgebra.model.parts import Message, ToolCall
from ctxalgebra.model.session import Node, Session, log
from ctxalgebra.model.view import EMPTY_VIEW, View, step

__all__ = ["encode"]

_UUID = "00000000-0000-4000-8000-{:012x}"
_MOST = 10**15 - 1
_FIELDS: dict[str, Json] = {
    "isSidechain": False,
    "userType": "external",
    "cwd": "",
    "sessionId": _UUID.format(0),
    "version": "",
    "gitBranch": "",
}
"""What the host writes on each line of a message, beside what makes the tree."""


def _object_of(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _object(raw: str) -> dict[str, Json]:
    try:
        return _object_of(parse(raw, limit=len(raw)))
    except DecodeError:
        return {}


def _usage(usage: Usage | None) -> dict[str, Json]:
    known = usage or Usage()
    counts = {
        "input_tokens": max(known.input - known.cache_read - known.cache_write, 0),
        "cache_creation_input_tokens": known.cache_write,
        "cache_read_input_tokens": known.cache_read,
        "output_tokens": known.output,
    }
    return {name: Number(str(min(count, _MOST))) for name, count in counts.items()}


def _fresh(name: str, used: set[str]) -> str:
    """Give a name that is not in use yet, and note it."""
    while name in used:
        name += "0"
    used.add(name)
    return name


class _Writer:
    """The lines so far, and what holds behind each entry.

    Lines are known by their number in the file, from 1; 0 is the root.

    Attributes:
        at: by entry number, the line that a line under the entry stands under.
        names: of entries, as a cut names them.
        ids: by entry number, what the file calls the calls of the exchange there.
        near: by line, its id, or that of the nearest line in front that has one.
        last: the last line that says something, which is the leaf for those who read the file.
    """

    def __init__(self, session: Session) -> None:
        name, end = taken(session)
        self.end = end if name == NAME else -1
        self.nodes = log(session)
        self.views: dict[int, View] = {-1: EMPTY_VIEW}
        self.at: dict[int, int] = {-1: 0}
        self.names: dict[int, str] = {}
        self.ids: dict[int, dict[str, str]] = {-1: {}}
        notes = [n.entry for n in self.nodes[: self.end + 1] if isinstance(n.entry, Note)]
        self.out = [note.data for note in notes if note.name == NAME + ASIDE]
        self.unterminated = any(note.name == NAME + UNTERMINATED for note in notes)
        self.read = len(self.out)
        self.near: list[str] = [""]
        self.last = 0
        self.fields = dict(_FIELDS)
        self.time = 0
        self.used: set[str] = set()
        self.called: set[str] = set()
        sides: set[bool] = set()
        for raw in self.out:
            line = _object(raw)
            self._learn(line)
            if line.get("type") in ("user", "assistant"):
                sides.add(line.get("isSidechain") is True)
                self.fields = {name: line.get(name, value) for name, value in self.fields.items()}
        self.fields["isSidechain"] = sides == {True}

    def _learn(self, line: dict[str, Json]) -> None:
        uuid = string(line.get("uuid"))
        message = _object_of(line.get("message"))
        self.used.update((uuid, string(message.get("id"))))
        self.called.update(calls_in(message))
        self.near.append(uuid or self.near[-1])
        time = clock(string(line.get("timestamp")))
        self.time = self.time if time is None else time + 1

    # Lines

    def _emit(
        self,
        number: int,
        kind: str,
        fields: dict[str, Json],
        *,
        ours: dict[str, Json] | None = None,
        time: int | None = None,
    ) -> None:
        """Write a line under that of an entry, and stand behind it."""
        above, line = self.at[number], len(self.out) + 1
        uuid = _fresh(_UUID.format(line), self.used)
        self.time = self.time if time is None else max(time, self.time)
        stamp = iso(self.time)
        value: dict[str, Json] = {
            "parentUuid": self.near[above] or None,
            **self.fields,
            "type": kind,
            **fields,
            "uuid": uuid,
            "timestamp": stamp,
            OURS: {"parent": Number(str(above)), **(ours or {})},
        }
        self.out.append(compact(value))
        self.near.append(uuid)
        self.time += 1
        self.at[number] = self.last = line
        self.names[number] = uuid

    def _element(self, number: int, message: Message) -> dict[str, Json]:
        """Write the message of a line; each call gets an id that no other in the file has."""
        if message.calls:
            self.ids[number] = {call.id: _fresh(call.id, self.called) for call in message.calls}
        ids = self.ids[number]
        parts = tuple(
            evolve(part, id=ids[part.id]) if isinstance(part, ToolCall) else part
            for part in message.parts
        )
        known = _object(message.origin) if message.origin else {}
        # What other formats wrote is no element.
        origin = message.origin if "role" in known and "content" in known else ""
        call = ids.get(message.call, message.call)
        return _object(
            write_element([evolve(message, parts=parts, call=call, id="", origin=origin)])
        )

    def _message(self, number: int, message: Message) -> None:
        """Write what the user or a tool says."""
        if message.role == "assistant":
            self._reply(number, Reply("completed", message), None)
            return
        element = self._element(number, message)
        if message.role == "system":
            fields: dict[str, Json] = {"isMeta": True, "message": {**element, "role": "user"}}
            self._emit(number, "user", fields, ours={"system": True})
        else:
            self._emit(number, "user", {"message": element})

    def _reply(self, number: int, reply: Reply, time: int | None) -> None:
        """Write what the model says; nothing for a reply that was lost."""
        if reply.outcome == "lost" and reply.message is None:
            return
        message = reply.message or Message("assistant", ())
        completed = reply.outcome == "completed"
        content = self._element(number, message)["content"]
        if isinstance(content, str):
            blocks: list[Json] = [{"type": "text", "text": content}]
            content = blocks
        element: dict[str, Json] = {
            "id": _fresh(f"msg_{len(self.out) + 1:024d}", self.used),
            "type": "message",
            "role": "assistant",
            "model": self.views[number].head.route.model if completed else SYNTHETIC,
            "content": content,
            "stop_reason": "tool_use" if message.calls else "end_turn",
            "stop_sequence": None,
            "usage": _usage(reply.usage),
        }
        failed: dict[str, Json] = {} if completed else {"isApiErrorMessage": True}
        self._emit(number, "assistant", {"message": element, **failed}, time=time)

    def _cut(self, number: int, cut: Cut) -> None:
        view = self.views[number]
        kept = self.names.get(view.slots.numbers[view.front]) if view.end > view.front else None
        ours: dict[str, Json] = {} if kept is None else {"kept": kept}
        if cut.keep:
            ours["keep"] = [self.names.get(at, "") for at in cut.keep]
        above = self.at[number]
        boundary: dict[str, Json] = {
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "logicalParentUuid": self.near[above] or None,
            "compactMetadata": {"trigger": "auto", "preTokens": Number("0")},
        }
        self._emit(number, "system", boundary)
        line = _object(self.out[-1])
        self.out[-1] = compact({**line, "parentUuid": None})
        element: dict[str, Json] = {"message": self._element(number, cut.notice)}
        summary: dict[str, Json] = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
        self._emit(number, "user", {**summary, **element}, ours=ours)

    # Entries

    def _queued(self, number: int, node: Node | None) -> None:
        """Write what arrived while a request was in flight, behind its reply."""
        found: list[tuple[int, Message]] = []
        while node is not None and not isinstance(node.entry, Sent):
            if isinstance(node.entry, Message) and node.number > self.end:
                found.append((node.number, node.entry))
            node = node.parent
        for at, message in reversed(found):
            self.at[at] = self.at[number]
            self.ids[at] = self.ids[number]
            self._message(at, message)
            self.at[number] = self.at[at]

    def _known(self, number: int, entry: Entry, note: Entry | None) -> None:
        """Find the lines that an entry was read from."""
        if isinstance(entry, Note) and entry.name == NAME + LEAF:
            self.at[number] = self.last = int(entry.data)
        elif isinstance(note, Note) and note.name in (REPAIR, PART):
            mark = _object(note.data)
            of, calls = mark.get("of"), _object_of(mark.get("calls"))
            if calls:
                self.ids[number] = {ours: string(theirs) for ours, theirs in calls.items()}
            lines = of if isinstance(of, list) else []
            if lines and string(mark.get("code")) not in RESULTS:
                self.at[number] = integer(lines[-1]) or 0
                self.names[number] = string(mark.get("entry"))

    def entry(self, node: Node) -> None:
        """Write what an entry has to say."""
        number, entry, parent = node.number, node.entry, node.parent
        above = -1 if parent is None else parent.number
        before = self.views[above]
        self.views[number] = step(before, number, entry)
        self.at[number] = self.at[above]
        self.ids[number] = self.ids[above]
        if number <= self.end:
            self._known(number, entry, None if parent is None else parent.entry)
        elif isinstance(entry, Reply):
            self._reply(number, entry, _sent_at(parent))
            self._queued(number, parent)
        elif isinstance(entry, Message) and before.flight < 0:
            self._message(number, entry)
        elif isinstance(entry, Cut):
            self._cut(number, entry)

    def finish(self, leaf: Node | None) -> bytes:
        """Make the leaf the last line that says something; give the bytes."""
        inner = {node.parent.number for node in self.nodes if node.parent is not None}
        for node in self.nodes:
            if self.views[node.number].flight >= 0 and node.number not in inner:
                self._queued(node.number, node)
        number = -1 if leaf is None else leaf.number
        if self.at[number] != self.last or not self.out:
            self._emit(number, "system", {"subtype": OURS}, ours={"leaf": True})
        end = "" if self.unterminated and len(self.out) == self.read else "\n"
        return ("\n".join(self.out) + end).encode()


def _sent_at(node: Node | None) -> int | None:
    while node is not None and not isinstance(node.entry, Sent):
        node = node.parent
    return node.entry.time if node is not None and isinstance(node.entry, Sent) else None


def encode(session: Session) -> bytes:
    """Write a session as a transcript.

    A session that was decoded from one gives the same bytes; what was recorded since is new lines.
    A session from elsewhere is written from its messages.

    >>> from ctxalgebra import Session, record, user
    >>> print(encode(record(Session(), user("hi"))).decode()[:60])
    {"parentUuid":null,"isSidechain":false,"userType":"external"
    """
    writer = _Writer(session)
    for node in writer.nodes:
        writer.entry(node)
    return writer.finish(session.leaf)
