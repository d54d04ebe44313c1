r"""Rollouts of the Codex CLI: JSON Lines of `{timestamp, type, payload}`.

The model's context is in the lines of type `response_item`, whose payloads are items of the
Responses API (`ctxalgebra.codecs.responses_items`); what follows each other from the model is one
reply. What each line becomes:

| line | entry |
| --- | --- |
| `session_meta`, the first | `Head`: provider, `base_instructions` as system text, dynamic tools |
| `turn_context` | `Head`, if model, effort or instructions differ from what holds |
| `response_item` | a message, or a part of the model's; a `ghost_snapshot` is a note |
| `event_msg` `token_count` | the usage of the reply in front of it, once |
| `event_msg` `turn_aborted` | a reply that was still coming in is `aborted` |
| `event_msg` `user_message` | a message, where no item says the same (converters write such) |
| `compacted` | the model's summary, then a `Cut` of all in front and of it, declared as a break: \
its notice is the first user message of `replacement_history`, the others follow it |
| anything else | a note |

Without a `replacement_history` the latest user messages stay behind the notice, which is the
summary.
Leading developer messages join the system text. A reply is over where its usage is told, where
something else is said, or where the turn ends; each closes a request that nobody saw leave.

| defect | what becomes of it |
| --- | --- |
| a line that is no JSON object, too deep, too long, with NaN or a lone surrogate | repair with \
its code |
| no `session_meta` in front | repair `missing-header` |
| an item without a type, a role that is unknown, an output without its call's id | repair |
| defects of calls and results | repairs with the codes of `ctxalgebra.protocol.DEFECTS` |
| a compaction that leaves nothing to show | repair `bad-notice` |
| usage without a reply of its own; `thread_rolled_back`, which is not applied | repair \
`unknown-request`, `unknown-kind` |
| nothing, or only white space | error `empty-file` |
| bytes that are not UTF-8 | error `invalid-utf8` |
| no line of a rollout | error with the code of the first line's problem, or `missing-header` |

JSON documents over many lines, one after another, are read as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

from attrs import evolve, frozen

from ctxalgebra.codecs.codex_users import echoes
from ctxalgebra.codecs.intake import (
    Act,
    Decoded,
    Intake,
    Item,
    Repair,
    bound,
    in_file,
    problem_of,
    take_in,
)
from ctxalgebra.codecs.lines import (
    BOM,
    LIMIT,
    Json,
    Number,
    blank,
    clock,
    compact,
    drain,
    filled,
    kept,
    parse,
    quote,
    split,
    string,
)
from ctxalgebra.codecs.responses_items import elements, join, read_item, read_usage
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.entries import Cut, Entry, Outcome
from ctxalgebra.model.head import Head, Route, Tool
from ctxalgebra.model.parts import Message, Opaque, Text, user

__all__ = ["KINDS", "NAME", "decode", "time_of"]

NAME = "codex"

KINDS = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
"""The types of lines that are read; a host writes others, too."""

_NO_ITEMS = frozenset({"ghost_snapshot"})
"""Items that the host keeps for itself."""

_TRIES = 16
"""So many times a text that is no JSON is looked at as the begin of a longer one."""

_LAST_SECOND = 10**11

_KEPT, _LEAST = 80_000, 800
"""So many characters of the user's messages stay behind a summary (the host says 20,000 tokens),
each counted as so many at least."""


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def time_of(value: Json) -> int | None:
    """Read a time: ISO 8601, or seconds since 1970."""
    if isinstance(value, Number):
        seconds = float(value.text)
        return int(seconds * 1000) if 0 <= seconds < _LAST_SECOND else None
    return clock(string(value))


# Lines


@frozen
class _Line:
    """Hold one line, or a document over many, as it was read: its number, text and value."""

    number: int
    raw: str
    value: dict[str, Json] | DecodeError | None


def _read(raw: str, number: int, limit: int) -> _Line:
    if blank(raw.removeprefix(BOM)):
        return _Line(number, raw, None)
    try:
        value = parse(raw, line=number, limit=limit)
    except DecodeError as error:
        return _Line(number, raw, kept(error))
    if isinstance(value, dict):
        return _Line(number, raw, value)
    return _Line(number, raw, DecodeError("wrong-type", "not an object", line=number))


def _lines(texts: list[str], limit: int) -> list[_Line]:
    """Read each line; one that only begins an object is read with those that end it."""
    found: list[_Line] = []
    whole, decoder, tries = "\n".join(texts), json.JSONDecoder(), _TRIES
    at = start = 0
    while at < len(texts):
        line = _read(texts[at], at + 1, limit)
        if isinstance(line.value, DecodeError) and tries and line.raw[:1] == "{":
            try:
                _, end = decoder.raw_decode(whole, start)
            except (ValueError, RecursionError):
                end = start
            count = whole.count("\n", start, end) + 1
            longer = _read("\n".join(texts[at : at + count]), at + 1, limit)
            if isinstance(longer.value, dict):
                line = longer
            else:
                tries -= 1
        found.append(line)
        at += line.raw.count("\n") + 1
        start += len(line.raw) + 1
    return found


# Heads


def _instructions(value: Json) -> str:
    return string(value) or string(_object(value).get("text"))


def _tools(value: Json) -> tuple[Tool, ...]:
    found = [_object(tool) for tool in elements(value)]
    return tuple(
        Tool(name, string(tool.get("description")), compact(tool.get("inputSchema", {})))
        for tool in found
        if (name := string(tool.get("name")))
    )


def _if_new(head: Callable[[Head], Head]) -> Act:
    """State a head where it differs from the one that holds."""

    def act(intake: Intake) -> Entry | None:
        known = intake.session.head
        found = head(known)
        return None if found == known else found

    return act


def _meta(payload: dict[str, Json]) -> Act:
    provider = string(payload.get("model_provider"))
    system = _instructions(payload.get("base_instructions")) or string(payload.get("instructions"))
    tools = _tools(payload.get("dynamic_tools"))
    route = Route(provider, "", (), bound(provider))
    head = Head(route, system, tools)
    return _if_new(lambda _: head)


def _context(payload: dict[str, Json]) -> Act:
    model, effort = string(payload.get("model")), string(payload.get("effort"))
    told = payload.get("base_instructions")

    def head(known: Head) -> Head:
        provider = known.route.provider
        parameters = (("effort", quote(effort)),) if effort else ()
        route = Route(provider, model, parameters, bound(f"{provider}/{model}"))
        system = known.system if told is None else _instructions(told)
        return evolve(known, route=route, system=system)

    return _if_new(head)


def _add_system(text: str) -> Act:
    def head(known: Head) -> Head:
        return evolve(known, system=f"{known.system}\n\n{text}" if known.system else text)

    return _if_new(head)


# Compaction


def _cut(notice: Message, *, keep: bool) -> Act:
    def act(intake: Intake) -> Entry:
        view = intake.session.view
        numbers, messages = view.slots.numbers, view.slots.messages
        if not view.read:
            # Nothing in front of it is shown.
            return notice
        if view.read < view.end:
            intake.report(intake.at, "unread", "the cut goes only as far as the model had read")
        left = _KEPT if keep else 0
        kept: list[int] = []
        for slot in range(view.read - 1, bool(view.front) - 1, -1):
            if messages[slot].role == "user":
                left -= max(messages[slot].characters, _LEAST)
                if left < 0:
                    break
                kept.append(numbers[slot])
        return Cut(numbers[view.read - 1], notice, "compaction", tuple(kept[::-1]), breaks=True)

    return act


def _history(value: Json) -> list[Message]:
    """Read a history that replaces what is in front of it."""
    found: list[Message] = []
    run: list[Message] = []
    for item in elements(value):
        if not isinstance(item, dict):
            raise DecodeError("wrong-type", "an item is no object", field="replacement_history")
        if string(item.get("type")) in _NO_ITEMS:
            continue
        message = read_item(item, origin=compact(item))
        if run and message.role != "assistant":
            found.append(join(run))
            run = []
        (run if message.role == "assistant" else found).append(message)
    return [*found, join(run)] if run else found


def _summary(text: str, history: list[Message]) -> Message:
    """Give what the model said when it was asked for a summary; it may not be told.

    Its request is not in the file, but was made, and all in front of it was read.
    """
    if text.strip():
        return Message("assistant", text)
    parts = [part for message in history for part in message.parts]
    sealed = [part for part in parts if isinstance(part, Opaque) and part.type == "compaction"]
    return Message("assistant", tuple(sealed[-1:]))


# The file


class _Reader:
    """Turns lines into items: each line with its text, behind it what was made of it."""

    def __init__(self, echoes: Collection[int]) -> None:
        self.items: list[Item] = []
        self.repairs: list[Repair] = []
        self._echoes = echoes
        self._line = _Line(0, "", None)
        self._run: list[tuple[int, Message]] = []
        self._reply = -1
        self._time: int | None = None
        self._total = ""
        self._leading = True
        self._seen = self._headed = False

    def _note(self, act: Act | None = None) -> int:
        """Keep the line in its place."""
        above = len(self.items) - 1
        self.items.append(Item(self._line.number, self._line.raw, above, act=act))
        return above + 1

    def _make(self, item: Item) -> int:
        self.items.append(evolve(item, line=self.items[item.made[0]].line))
        return len(self.items) - 1

    def _say(self, message: Message, line: int) -> None:
        """Make a message of a line that is no reply."""
        self._leading = False
        above = len(self.items) - 1
        if message.role == "assistant" and not message.calls:
            self._make(Item(0, None, above, act=lambda _: message, made=(line,)))
        else:
            self._make(Item(0, None, above, message, name=message.id, made=(line,)))

    def _repair(self, code: str, text: str) -> None:
        self.repairs.append(Repair(code, self._line.number, text))

    def end(self, outcome: Outcome = "completed") -> None:
        """Let the reply that is coming in be over."""
        if self._run:
            lines = tuple(index for index, _ in self._run)
            message = join([message for _, message in self._run])
            above, time = len(self.items) - 1, self._time
            item = Item(0, None, above, message, outcome, time=time, made=lines)
            self._reply = self._make(item)
            self._run.clear()
            self._leading = False

    def read(self, line: _Line) -> None:
        """Read the next line."""
        self._line = line
        if isinstance(line.value, DecodeError):
            self.repairs.append(problem_of(line.value, line.number))
            self._note()
            return
        value = line.value or {}
        kind, payload = string(value.get("type")), _object(value.get("payload"))
        if value and not self._seen:
            self._seen = True
            if kind != "session_meta":
                self._repair("missing-header", "the first line is no session_meta")
        time = time_of(value.get("timestamp"))
        try:
            if kind == "response_item":
                self._item(payload, time)
            elif kind == "event_msg":
                self._event(payload)
            elif kind == "compacted":
                self._compacted(payload)
            elif kind == "session_meta" and not self._headed:
                self._headed = True
                self._note(_meta(payload))
            elif kind == "turn_context":
                self.end()
                self._note(_context(payload))
            else:
                self._note()
        except DecodeError as error:
            self.repairs.append(problem_of(error, line.number))
            self._note()

    def _item(self, payload: dict[str, Json], time: int | None) -> None:
        if string(payload.get("type")) in _NO_ITEMS:
            self._note()
            return
        message = read_item(payload, origin=compact(payload))
        if message.role == "assistant":
            # Converters from other formats write whole messages, without a type.
            whole = "type" not in payload
            if whole:
                self.end()
            self._run.append((self._note(), message))
            if whole:
                self.end()
            return
        self.end()
        self._time = time
        texts = [part.text for part in message.parts if isinstance(part, Text)]
        if self._leading and message.role == "system" and len(texts) == len(message.parts):
            self._note(_add_system("".join(texts)))
        else:
            self._say(message, self._note())

    def _event(self, payload: dict[str, Json]) -> None:
        kind = string(payload.get("type"))
        if kind == "user_message" and self._line.number not in self._echoes:
            self.end()
            self._say(_spoken(payload), self._note())
            return
        if kind == "token_count":
            self._usage(_object(payload.get("info")))
        elif kind == "thread_rolled_back":
            self._repair("unknown-kind", "a note: what was rolled back is still shown")
        elif kind == "turn_aborted":
            self.end("aborted")
        elif kind in _BOUNDS:
            self.end()
        self._note()

    def _usage(self, info: dict[str, Json]) -> None:
        usage, total = read_usage(info.get("last_token_usage")), info.get("total_token_usage")
        if usage is None or compact(total) == self._total:
            return
        self._total = compact(total)
        self.end()
        if self._reply >= 0:
            self.items[self._reply] = evolve(self.items[self._reply], usage=usage)
            self._reply = -1
        else:
            self._repair("unknown-request", "usage that belongs to no reply in front of it")

    def _compacted(self, payload: dict[str, Json]) -> None:
        text, given = string(payload.get("message")), payload.get("replacement_history")
        history = _history(given)
        answer = _summary(text, history)
        self.end()
        line = self._note()
        users = (i for i, m in enumerate(history) if m.role == "user" and not m.empty)
        at = next(users, -1)
        rest = [*history[: max(at, 0)], *history[at + 1 :]]
        if self._leading:
            rest = history
        elif at < 0 and not text.strip():
            self._repair("bad-notice", "left out: the compaction leaves nothing to show")
            rest = []
        else:
            self._say(answer, line)
            act = _cut(history[at] if at >= 0 else user(text), keep=not history)
            self._make(Item(0, None, len(self.items) - 1, act=act, made=(line,)))
            self._reply = -1
        for message in rest:
            self._say(message, line)


_BOUNDS = ("task_started", "turn_started", "task_complete", "turn_complete")
"""Events at the ends of a turn."""


def _spoken(payload: dict[str, Json]) -> Message:
    """Read the message of an event that no item repeats."""
    blocks: list[Json] = [{"type": "input_text", "text": string(payload.get("message"))}]
    blocks += [{"type": "input_image", "image_url": url} for url in elements(payload.get("images"))]
    return evolve(read_item({"role": "user", "content": blocks}), origin="")


def decode(data: bytes, *, file: str | None = None, limit: int = LIMIT) -> Decoded:
    """Read a rollout.

    Args:
        data: the whole file.
        file: its name, for errors.
        limit: the longest line that is read, in characters; a longer one is kept and listed.

    Returns:
        The session and the list of repairs.

    Raises:
        DecodeError: as the module's table of defects tells.

    >>> line = b'{"type":"event_msg","payload":{"type":"user_message","message":"hi"}}'
    >>> decoded = decode(line)
    >>> decoded.session.view.messages()[0].parts, decoded.repairs[0].code
    ((Text(text='hi'),), 'missing-header')
    """
    texts = split(data, file=file, limit=limit)
    if not filled(texts):
        raise DecodeError("empty-file", file=file)
    ended = not texts[-1]
    lines = _lines(texts[:-1] if ended else texts, limit)
    known = [(line.number, line.value) for line in lines if isinstance(line.value, dict)]
    if not any(string(value.get("type")) in KINDS for _, value in known):
        problem = next((v for line in lines if isinstance(v := line.value, DecodeError)), None)
        raise in_file(problem or DecodeError("missing-header", line=1), file)
    reader = _Reader(echoes(known))
    del known
    for line in drain(lines):
        reader.read(line)
    reader.end()
    return take_in(reader.items, NAME, reader.repairs, ended=ended)
