"""Writing rollouts: the lines that were read as they were, what is new behind them.

The path to the leaf is written. If it goes on from the end of the file, that is the whole file;
if it leaves in front of the end, the lines up to there.

| entry | lines |
| --- | --- |
| a message | `response_item`, one an item (`ctxalgebra.codecs.responses_write`) |
| a message of the user | behind its items an `event_msg` that repeats it, where the file has such |
| a completed reply | its items, and `token_count` with its usage |
| an aborted reply | its items, and `turn_aborted` |
| `Head` | `turn_context`; in a new file `session_meta`, with the system text and the tools |
| a decision | `compacted`, whose `replacement_history` is what requests show from there on |

A rollout can't tell what a decision did, only what is shown after it. So reading takes it for a
compaction; decisions between a call and its result are told behind the result. Failed replies,
labels and notes have no place in it, and neither has a change of provider or tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve

from ctxalgebra.codecs.codex import NAME, time_of
from ctxalgebra.codecs.codex_users import echo_of
from ctxalgebra.codecs.giveback import give_back
from ctxalgebra.codecs.intake import ASIDE, ENTRY, PART, REPAIR, UNTERMINATED, taken
from ctxalgebra.codecs.lines import Json, Number, compact, integer, iso, parse, string
from ctxalgebra.codecs.responses_write import Writer
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.entries import DECISIONS, Entry, Note, Reply, Sent
from ctxalgebra.model.head import Head, Usage
from ctxalgebra.model.parts import Message, Text
from ctxalgebra.model.session import Node, Session, at_leaf, log, path, walk
from ctxalgebra.model.view import EMPTY_VIEW, View

__all__ = ["encode"]

_TEXTS = (NAME, NAME + ASIDE, NAME + ENTRY)
_COUNTS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "total_tokens",
)


_ID = "00000000-0000-0000-0000-000000000000"
_COMPACTED = "The conversation was compacted."


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _parsed(text: str) -> dict[str, Json]:
    try:
        return _object(parse(text, limit=len(text)))
    except DecodeError:
        return {}


def _effort(head: Head) -> str:
    known = dict(head.route.parameters).get("effort", "")
    try:
        return string(parse(known))
    except DecodeError:
        return ""


def _told(head: Head) -> tuple[str, str, str]:
    """Give what a `turn_context` tells of a head."""
    return head.route.model, _effort(head), head.system


def _message_of(entry: Entry) -> Message | None:
    message = entry.message if isinstance(entry, Reply) else entry
    return message if isinstance(message, Message) else None


def _text(message: Message) -> str:
    return "\n\n".join(part.text for part in message.parts if isinstance(part, Text))


class _Rollout:
    """The lines so far, and what reading them gives.

    Attributes:
        ids: what the file calls the calls that a repair has renamed.
    """

    def __init__(self, lines: list[str], ids: dict[str, str]) -> None:
        self.lines = lines
        self.ids = ids
        self._writer = Writer()
        self._told = ("", "", "")
        self._changed = self._coming = False
        self._waiting: list[Message] = []
        self._total: list[int] = []
        # Without an echo of its own, it would be taken for what an earlier event repeats.
        self._echoes = any('"user_message"' in raw for raw in lines)
        times = (time_of(_parsed(raw).get("timestamp")) for raw in reversed(lines))
        self._time = next((time for time in times if time is not None), 0)

    def _emit(self, kind: str, payload: dict[str, Json]) -> None:
        line: dict[str, Json] = {"timestamp": iso(self._time), "type": kind, "payload": payload}
        self.lines.append(compact(line))

    # Heads

    def begin(self, head: Head, time: int | None) -> None:
        """Write the header of a new file."""
        self._time = time or 0
        tools: list[Json] = []
        for tool in head.tools:
            schema: Json = _parsed(tool.schema)
            tools.append(
                {"name": tool.name, "description": tool.description, "inputSchema": schema}
            )
        given: dict[str, Json] = {
            "id": _ID,
            "timestamp": iso(self._time),
            "cwd": "",
            "originator": NAME,
            "cli_version": "0.0.0",
            "model_provider": head.route.provider,
            "base_instructions": {"text": head.system},
        }
        self._emit("session_meta", {**given, "dynamic_tools": tools} if tools else given)
        self.go_on(Head(system=head.system))
        self._context(head)

    def go_on(self, head: Head, said: Iterable[Message] = ()) -> None:
        """Stand behind lines that tell a head and messages."""
        self._told = _told(head)
        for message in said:
            self._writer.write(message)

    def _context(self, head: Head) -> None:
        if _told(head) == self._told:
            return
        model, effort, system = _told(head)
        given: dict[str, Json] = {
            "cwd": "",
            "approval_policy": "on-request",
            "sandbox_policy": {"type": "read-only"},
            "model": model,
            "summary": "auto",
        }
        if effort:
            given["effort"] = effort
        if system != self._told[2]:
            given["base_instructions"] = system
        self._emit("turn_context", given)
        self._told = _told(head)

    # Messages

    def _say(self, message: Message) -> None:
        speaks = message.role == "assistant"
        if speaks and self._coming:
            self._emit("event_msg", {"type": "task_complete", "last_agent_message": None})
        call = self.ids.get(message.call, message.call)
        if call != message.call:
            message = evolve(message, call=call)
        for item in self._writer.write(message):
            self._emit("response_item", item)
            self._coming = speaks
            if self._echoes and (echo := echo_of(item)):
                self._emit("event_msg", echo)

    def _count(self, usage: Usage) -> None:
        counts = [usage.input, usage.cache_read, usage.cache_write, usage.output, 0]
        counts.append(usage.input + usage.output)
        if not self._total:
            self._total = _total_of(self.lines)
        self._total = [one + two for one, two in zip(self._total, counts, strict=True)]
        info: dict[str, Json] = {
            "total_token_usage": _counts(self._total),
            "last_token_usage": _counts(counts),
        }
        self._emit("event_msg", {"type": "token_count", "info": info})
        self._coming = False

    def _reply(self, reply: Reply) -> None:
        if reply.message is not None and reply.outcome in ("completed", "aborted"):
            self._say(reply.message)
            if reply.outcome == "aborted":
                self._emit("event_msg", {"type": "turn_aborted", "reason": "interrupted"})
                self._coming = False
            if reply.usage is not None and reply.usage.input + reply.usage.output:
                self._count(reply.usage)
        self._catch_up()

    def _catch_up(self) -> None:
        for message in self._waiting:
            self._say(message)
        self._waiting.clear()

    def _compact(self, view: View) -> None:
        """Tell what requests show, if a decision has changed it and no call is open."""
        if not self._changed or view.open:
            return
        self._changed = self._coming = False
        shown = view.messages()
        items: list[Json] = [item for message in shown for item in self._writer.write(message)]
        first = next((_text(m) for m in shown if m.role == "user"), "")
        text = first if first.strip() else _COMPACTED
        self._emit("compacted", {"message": text, "replacement_history": items})

    def entry(self, entry: Entry, before: View) -> None:
        """Write what an entry has to say, with the view in front of it."""
        if isinstance(entry, DECISIONS):
            self._changed = True
        elif isinstance(entry, Head):
            self._context(entry)
        elif isinstance(entry, Sent):
            self._compact(before)
            self._time = max(self._time, entry.time or 0)
        elif isinstance(entry, Reply):
            self._reply(entry)
        elif isinstance(entry, Message) and before.flight >= 0:
            self._waiting.append(entry)
        elif isinstance(entry, Message):
            self._compact(before)
            self._say(entry)

    def finish(self, view: View, *, ended: bool) -> bytes:
        """Give the bytes."""
        self._catch_up()
        if view.flight < 0:
            self._compact(view)
        return ("\n".join(self.lines) + "\n" * ended).encode()


def _counts(values: Sequence[int]) -> dict[str, Json]:
    return {name: Number(str(value)) for name, value in zip(_COUNTS, values, strict=True)}


def _total_of(lines: Sequence[str]) -> list[int]:
    """Find the running total of tokens."""
    for raw in reversed(lines):
        if "total_token_usage" in raw:
            info = _object(_object(_parsed(raw).get("payload")).get("info"))
            if total := _object(info.get("total_token_usage")):
                return [integer(total.get(name)) or 0 for name in _COUNTS]
    return [0] * len(_COUNTS)


def _renamed(nodes: Iterable[Node]) -> dict[str, str]:
    """Find what the file calls the calls that a repair has renamed."""
    ids: dict[str, str] = {}
    for node in nodes:
        if isinstance(node.entry, Note) and node.entry.name in (PART, REPAIR):
            calls = _object(_parsed(node.entry.data).get("calls"))
            ids.update({ours: string(theirs) for ours, theirs in calls.items()})
    return ids


def _lines_of(session: Session, old: Sequence[Node], end: int) -> list[str]:
    """Give the lines of the file that the path stands on."""
    if old[-1].number == end:
        entries = (node.entry for node in log(session)[: end + 1])
        return [e.data for e in entries if isinstance(e, Note) and e.name in _TEXTS]
    rollout = _Rollout([], {})
    for said in give_back(at_leaf(session, old[-1].number), NAME).said:
        if said.message is None:
            rollout.lines.append(said.raw)
        else:
            rollout.entry(said.message, EMPTY_VIEW)
    return rollout.lines


def encode(session: Session) -> bytes:
    """Write the path to the leaf as a rollout.

    What was read from a rollout and not changed gives the same bytes.

    >>> from ctxalgebra import Session, record, user
    >>> lines = encode(record(Session(), user("hi"))).splitlines()
    >>> [line[40:72] for line in lines]
    [b'"type":"session_meta","payload":', b'"type":"response_item","payload"']
    """
    name, end = taken(session)
    nodes = path(session)
    old = [node for node in nodes if name == NAME and node.number <= end]
    new = nodes[len(old) :]
    ended = not any(
        isinstance(node.entry, Note) and node.entry.name == NAME + UNTERMINATED for node in old
    )
    there = at_leaf(session, old[-1].number if old else -1)
    rollout = _Rollout(_lines_of(session, old, end) if old else [], _renamed(old))
    before = there.view
    if rollout.lines:
        said = (_message_of(node.entry) for node in old if new)
        rollout.go_on(there.head, (message for message in said if message is not None))
    else:
        heads = (node.entry for node in new if isinstance(node.entry, Head))
        times = (node.entry.time for node in new if isinstance(node.entry, Sent))
        rollout.begin(next(heads, there.head), next(times, 0))
        ended = True
    count = len(rollout.lines)
    for node, view in walk(session, new[0].number) if new else ():
        rollout.entry(node.entry, before)
        before = view
    return rollout.finish(before, ended=ended or len(rollout.lines) > count)
