r"""Message lists of the OpenAI Chat format, in the containers in which they are found.

| container | told by | written back as |
| --- | --- | --- |
| a JSON list of messages | `[` | the same text, new messages behind the last |
| an object with `messages`: a request body, an export | that key | likewise |
| a trace with `observations` | that key | likewise; the longest list of messages in it is read |
| JSON Lines, one message a line | a first line that is an object by itself | likewise, new lines |
| a cassette of HTTP calls (YAML; the extra `yaml`) | `interactions:` | the same text; once \
something was added, the body of its longest request with all messages, as JSON |

Leading system and developer messages, `tools` and `model` make the head; thinking is bound where
the model is a Claude, and free elsewhere. Each assistant message
closes a request that nobody saw leave. A cassette tells more: each recorded request whose messages
begin the longest one gives its own head, and the usage of its answer.

Decisions, branches, labels and replies that were not completed have no place in this format: what
is written is the path to the leaf, with everything that was said on it. What requests show is
`encode_request(project(session))`.

| defect | what becomes of it |
| --- | --- |
| a line that is no JSON object, too deep, too long, with NaN or a lone surrogate | repair with \
its code |
| an element without a known role, a result without a call | repair `wrong-role`, `missing-field` |
| defects of calls and results | repairs with the codes of `ctxalgebra.protocol.DEFECTS` |
| a recorded request with another history | repair `unknown-request` |
| nothing, or only white space | error `empty-file` |
| a document that is not strict JSON (or YAML), bytes that are not UTF-8 | error with its code |
| no list of messages, or no message in it that can be read | error `missing-field`, `wrong-type` |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

from attrs import evolve, field, frozen

from ctxalgebra.codecs.cassette import Interaction, interactions
from ctxalgebra.codecs.chat_messages import (
    decode_messages,
    encode_messages,
    read_message,
    read_usage,
    write_element,
)
from ctxalgebra.codecs.intake import (
    ASIDE,
    ENTRY,
    REPAIR,
    UNTERMINATED,
    Act,
    Decoded,
    Item,
    Repair,
    bound,
    in_file,
    problem_of,
    take_in,
)
from ctxalgebra.codecs.lines import (
    LIMIT,
    Json,
    blank,
    compact,
    filled,
    parse,
    plain,
    spans,
    split,
    string,
)
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.entries import Entry, Note, Reply, Sent
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Head, Route, Tool, Usage
from ctxalgebra.model.parts import Message, Text
from ctxalgebra.model.session import Session, path
from ctxalgebra.project import Request

__all__ = ["NAME", "decode", "decode_messages", "encode", "encode_messages", "encode_request"]

NAME = "openai-chat"
FRAME = "-frame"
"""Ending of the name of the note that holds what stands around the elements."""


# Heads


def _read_tool(value: Json) -> Tool | None:
    outer = value if isinstance(value, dict) else {}
    inner = outer.get("function", outer)
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return None
    schema = inner.get("parameters", {})
    return Tool(string(inner["name"]), string(inner.get("description")), compact(schema))


def _read_head(value: dict[str, Json]) -> Head:
    """Read model, tools and system text that stand beside the messages."""
    model, tools = string(value.get("model")), value.get("tools")
    found = [_read_tool(tool) for tool in tools] if isinstance(tools, list) else []
    return Head(
        Route("", model, (), bound(model)),
        string(value.get("system")),
        tuple(tool for tool in found if tool is not None),
    )


def _write_tools(tools: Sequence[Tool]) -> list[Json]:
    written: list[Json] = []
    for tool in tools:
        function: dict[str, Json] = {"name": tool.name}
        if tool.description:
            function["description"] = tool.description
        try:
            function["parameters"] = parse(tool.schema)
        except DecodeError:
            function["parameters"] = {}
        written.append({"type": "function", "function": function})
    return written


def _write_head(head: Head) -> dict[str, Json]:
    fields: dict[str, Json] = {"model": head.route.model} if head.route.model else {}
    return {**fields, "tools": _write_tools(head.tools)} if head.tools else fields


def _add_system(head: Head, text: str) -> Head:
    return evolve(head, system=f"{head.system}\n\n{text}" if head.system else text)


def encode_request(request: Request) -> dict[str, Any]:
    """Give a request as a Chat request body: `model`, `messages`, `tools`.

    >>> from ctxalgebra import Session, project, record, user
    >>> encode_request(project(record(Session(), user("hi"))))
    {'messages': [{'role': 'user', 'content': 'hi'}]}
    """
    head = request.head
    first = (Message("system", head.system),) if head.system else ()
    messages = encode_messages((*first, *request.messages))
    fields: dict[str, Any] = plain(compact(_write_head(head)))
    return {"messages": messages, **fields}


# Containers


@frozen
class _Found:
    """A container taken apart.

    Args:
        frame: what stands around the elements: `{"container": ..., ...}`.
        elements: their texts, each with its value or the error that reading it gave.
        head: what the container says beside its messages.
        heads, usages: of the request that the element with this index answers.
    """

    frame: dict[str, Json]
    elements: list[tuple[str, Json | DecodeError]]
    head: Head
    heads: dict[int, Head] = field(factory=dict)
    usages: dict[int, Usage] = field(factory=dict)
    repairs: list[Repair] = field(factory=list)
    terminated: bool = True


def _frame(text: str, where: tuple[str | int, ...]) -> tuple[dict[str, Json], list[str]]:
    start, _, elements = spans(text, where)
    outside = (elements[0][0], elements[-1][1]) if elements else (start + 1, start + 1)
    gaps = [text[one[1] : two[0]] for one, two in pairwise(elements)]
    return {
        "container": "document",
        "before": text[: outside[0]],
        "between": [*gaps] if len(set(gaps)) > 1 else gaps[0] if gaps else ",",
        "after": text[outside[1] :],
    }, [text[one:two] for one, two in elements]


def _speaks(value: Json) -> bool:
    return isinstance(value, dict) and bool(string(value.get("role")))


_Where = tuple[tuple[str | int, ...], dict[str, Json]]


def _trace(value: Json) -> _Where | None:
    """Find the longest list of messages in the observations of a trace, and what is beside it."""
    best, longest = None, 0
    for index, observation in enumerate(value if isinstance(value, list) else ()):
        for side in ("output", "input"):
            held = observation.get(side) if isinstance(observation, dict) else None
            where: tuple[str | int, ...] = ("observations", index, side)
            beside: dict[str, Json] = {}
            if isinstance(held, dict):
                beside, where = held, (*where, "messages")
                held = beside.get("messages")
            if isinstance(held, list) and len(held) > longest and all(map(_speaks, held)):
                best, longest = (where, beside), len(held)
    return best


def _document(text: str, value: Json, file: str | None) -> _Found:
    found: _Where | None = ((), {})
    if isinstance(value, dict):
        found = _trace(value.get("observations"))
        if isinstance(value.get("messages"), list):
            found = (("messages",), value)
    elif not isinstance(value, list):
        raise DecodeError("wrong-type", "neither a list nor an object", file=file, line=1)
    if found is None:
        raise DecodeError("missing-field", "no messages", file=file, line=1, field="messages")
    where, beside = found
    frame, texts = _frame(text, where)
    head = _read_head(beside)
    if head.system:
        frame["system"] = head.system
    elements = [(raw, parse(raw, limit=len(raw))) for raw in texts]
    return _Found(frame, [*elements], head)


def _lines(lines: list[str], file: str | None, limit: int) -> _Found:
    found = _Found({"container": "lines"}, [], _read_head({}), terminated=not lines[-1])
    if found.terminated:
        lines.pop()
    for index, raw in enumerate(lines):
        try:
            value = None if blank(raw) else parse(raw, file=file, line=index + 1, limit=limit)
            found.elements.append((raw, value))
        except DecodeError as error:
            found.elements.append((raw, error))
    return found


def _cassette(source: str, file: str | None) -> _Found:
    recorded = interactions(source, file=file)
    repairs: list[Repair] = []
    known: list[tuple[int, Interaction, list[str]]] = []
    for index, interaction in enumerate(recorded):
        if interaction is None:
            text = "left out: a request without messages"
            repairs.append(Repair("missing-field", index + 1, text))
        else:
            messages = interaction.body["messages"]
            texts = [compact(m) for m in messages] if isinstance(messages, list) else []
            known.append((index, interaction, texts))
    if not known:
        raise DecodeError("missing-field", "no messages", file=file, line=1, field="messages")
    _, longest, texts = max(known, key=lambda item: (len(item[2]), item[0]))
    messages = longest.body["messages"]
    elements: list[Json] = [*messages] if isinstance(messages, list) else []
    if longest.answer is not None:
        elements.append(longest.answer)
    body = compact({**longest.body, "messages": elements})
    found = _document(body, parse(body, limit=len(body)), file)
    for index, interaction, begin in known:
        if texts[: len(begin)] == begin:
            found.heads[len(begin)] = _read_head(interaction.body)
            if interaction.usage is not None:
                found.usages[len(begin)] = interaction.usage
        else:
            text = "left out: a request with another history"
            repairs.append(Repair("unknown-request", index + 1, text))
    first = min(known, key=lambda item: (len(item[2]), item[0]))[1]
    digest = sha256(body.encode()).hexdigest()
    frame: dict[str, Json] = {**found.frame, "source": source, "digest": digest}
    return evolve(found, frame=frame, head=_read_head(first.body), repairs=repairs)


def _open(data: bytes, file: str | None, limit: int) -> _Found:
    """Tell the container, and take it apart."""
    lines = split(data, file=file)
    text = "\n".join(lines)
    said = filled(lines)
    if not said:
        raise DecodeError("empty-file", file=file)
    first = said[0][0]
    if first not in "[{" and any(line.startswith("interactions:") for line in lines):
        return _cassette(text, file)
    # A line that is an object by itself is no line of a document, unless it is the only one.
    for line in said[:2] if first != "[" else ():
        try:
            value = parse(line, limit=limit)
        except DecodeError:
            continue
        if isinstance(value, dict) and (len(said) > 1 or _speaks(value) or "_type" in value):
            return _lines(lines, file, limit)
    return _document(text, parse(text, file=file, limit=limit), file)


# Reading


def _system(text: str) -> Act:
    return lambda intake: _add_system(intake.session.head, text)


def _keep_system(head: Head) -> Callable[[Head], Head]:
    return lambda known: evolve(head, system=known.system)


def _message(raw: str, value: Json | DecodeError) -> Message | None:
    """Read the message of an element; None for metadata and empty lines."""
    if isinstance(value, DecodeError):
        raise value
    if value is None or (isinstance(value, dict) and "_type" in value):
        return None
    if not isinstance(value, dict):
        raise DecodeError("wrong-type", "not an object")
    return read_message(value, origin=raw)


class _Reader:
    """Turns elements into items; knows whether the leading system messages are over."""

    def __init__(self, found: _Found) -> None:
        self.found = found
        self.items: list[Item] = []
        self.repairs: list[Repair] = [*found.repairs]
        self.above = -1
        self.leading = True
        self.problem: DecodeError | None = None

    def _add(self, item: Item) -> None:
        if item.parent is not None:
            self.above = len(self.items)
        self.items.append(item)

    def read(self, raw: str, value: Json | DecodeError) -> None:
        """Read the next element."""
        index = len(self.items)
        message: Message | None = None
        try:
            message = _message(raw, value)
        except DecodeError as error:
            self.problem = self.problem or in_file(error, None, index + 1)
            self.repairs.append(problem_of(error, index + 1))
        if message is None or not isinstance(value, dict):
            self._add(Item(index + 1, raw))
            return
        texts = [part.text for part in message.parts if isinstance(part, Text)]
        self.leading = self.leading and message.role == "system"
        if self.leading and len(texts) == len(message.parts):
            self._add(Item(index + 1, raw, self.above, act=_system("".join(texts))))
            return
        usage = self.found.usages.get(index) or read_usage(value.get("usage", value.get("metrics")))
        head = self.found.heads.get(index)
        self._add(
            Item(
                index + 1,
                raw,
                self.above,
                message,
                usage=usage,
                head=None if head is None else _keep_system(head),
                name=message.id,
            )
        )


def decode(data: bytes, *, file: str | None = None, limit: int = LIMIT) -> Decoded:
    """Read a list of messages from one of the containers of the module's table.

    Args:
        data: the whole file.
        file: its name, for errors.
        limit: the longest JSON text that is read, in characters; of JSON Lines a longer line is
            only kept.

    Returns:
        The session and the list of repairs; their `line` is the place of the element.

    Raises:
        DecodeError: as the module's table of defects tells.

    >>> decoded = decode(b'[{"role": "user", "content": "hi"}]')
    >>> encode(decoded.session)
    b'[{"role": "user", "content": "hi"}]'
    """
    found = _open(data, file, limit)
    reader = _Reader(found)
    for raw, value in found.elements:
        reader.read(raw, value)
    if reader.above < 0 and reader.problem is not None:
        raise in_file(reader.problem, file)
    start = record(Session(), Note(NAME + FRAME, compact(found.frame)))
    start = record(start, found.head)
    decoded = take_in(reader.items, NAME, reader.repairs, start)
    session = decoded.session
    last = found.heads.get(len(found.elements))
    if last is not None and (head := _keep_system(last)(session.head)) != session.head:
        session = record(session, head)
    if not found.terminated:
        session = record(session, Note(NAME + UNTERMINATED))
    return evolve(decoded, session=session)


# Writing


class _Writer:
    """The elements of the path to a leaf, and the system text that they hold."""

    def __init__(self, session: Session) -> None:
        self.frame: dict[str, Json] = {}
        self.elements: list[tuple[str, bool]] = []
        self.system = ""
        self.ids: dict[str, str] = {}
        self.terminated = True
        waiting: list[Message] = []
        flight = False
        for node in path(session):
            entry = node.entry
            above = node.parent
            mark = ""
            if above is not None and above.number == node.number - 1 and self.frame:
                mark = above.entry.name if isinstance(above.entry, Note) else ""
            if mark == NAME + ENTRY and isinstance(entry, Head):
                self.system = entry.system
            elif mark == REPAIR:
                self._renamed(entry.message if isinstance(entry, Reply) else entry)
            elif isinstance(entry, Note):
                self._note(entry)
            elif isinstance(entry, Message) and flight:
                waiting.append(entry)
            elif isinstance(entry, Message):
                self._message(entry)
            elif isinstance(entry, Reply) and entry.outcome == "completed" and entry.message:
                self._message(entry.message)
            if isinstance(entry, Sent | Reply):
                flight = isinstance(entry, Sent)
                for message in waiting:
                    self._message(message)
                waiting.clear()
        for message in waiting:
            self._message(message)

    def _note(self, note: Note) -> None:
        if note.name == NAME + FRAME:
            value = parse(note.data, limit=len(note.data))
            self.frame = value if isinstance(value, dict) else {}
            self.system = string(self.frame.get("system"))
        elif note.name == NAME + UNTERMINATED:
            self.terminated = False
        elif note.name in (NAME, NAME + ASIDE, NAME + ENTRY) and self.frame:
            self.elements.append((note.data, note.name == NAME + ENTRY))

    def _renamed(self, entry: Entry | None) -> None:
        """Remember what the file calls the calls that a repair has renamed."""
        if isinstance(entry, Message) and entry.calls:
            origin = parse(entry.origin, limit=len(entry.origin))
            said = read_message(origin) if isinstance(origin, dict) else entry
            for ours, theirs in zip(entry.calls, said.calls, strict=False):
                self.ids[ours.id] = theirs.id or ours.id

    def _message(self, message: Message) -> None:
        call = self.ids.get(message.call, message.call)
        raw = write_element(message if call == message.call else evolve(message, call=call))
        self.terminated = True
        self.elements.append((raw, False))

    def texts(self, head: Head) -> list[str]:
        """Give the elements, the system text among them brought up to date."""
        if head.system == self.system:
            return [raw for raw, _ in self.elements]
        first = [write_element(Message("system", head.system))] if head.system else []
        return [*first, *(raw for raw, leads in self.elements if not leads)]


def _around(frame: dict[str, Json], head: Head, said: str) -> dict[str, Json]:
    """Bring model and tools in the text around the messages up to date; `said` is its system."""
    text = string(frame.get("before")) + string(frame.get("after"))
    value = parse(text, limit=len(text))
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return frame
    known = _read_head(value)
    same_system = not known.system or head.system == said
    if same_system and (known.route.model, known.tools) == (head.route.model, head.tools):
        return frame
    # System text that changed is the first message.
    ours = ("model", "tools") if same_system else ("model", "tools", "system")
    rest = {key: item for key, item in value.items() if key not in ours}
    return _frame(compact({**rest, **_write_head(head)}), ("messages",))[0]


def encode(session: Session) -> bytes:
    """Write the path to the leaf in the container that it was read from.

    What was read and not changed gives the same bytes. A session from elsewhere becomes an object
    with `model`, `messages` and `tools`. A changed head is written where the container has a
    place for it: system text as the first message, model and tools beside `messages`.

    >>> from ctxalgebra import Session, record, user
    >>> encode(record(Session(), user("hi")))
    b'{"messages":[{"role":"user","content":"hi"}]}'
    """
    writer = _Writer(session)
    frame = writer.frame
    texts = writer.texts(session.head)
    if frame.get("container") == "lines":
        texts = [raw if "\n" not in raw else compact(parse(raw, limit=len(raw))) for raw in texts]
        return ("\n".join(texts) + ("\n" if writer.terminated and texts else "")).encode()
    if not frame:
        frame, _ = _frame(compact({"messages": [], **_write_head(session.head)}), ("messages",))
    else:
        frame = _around(frame, session.head, writer.system)
    gaps = frame.get("between", ",")
    between = [string(gap) for gap in gaps] if isinstance(gaps, list) else [string(gaps)]
    out = [string(frame.get("before"))]
    for index, raw in enumerate(texts):
        if index:
            out.append(between[min(index, len(between)) - 1])
        out.append(raw)
    data = "".join([*out, string(frame.get("after"))]).encode()
    same = "digest" in frame and frame["digest"] == sha256(data).hexdigest()
    return string(frame.get("source")).encode() if same else data
