"""Contents of the Gemini API: from their JSON to messages and back, for a codec or by hand.

What the model says, role `model`, is one assistant message. The user's content is a tool message
for each `functionResponse` in it, and a user message for each run of other parts;
`ctxalgebra.codecs.gemini_parts` tells what parts become.

Ids are optional. A call without one is named after its place, and a result without one answers the
first call of its name that is still open among those of the latest turn of the model. What had no
id in the text that it was read from is written without one, unless it would answer another call
then. A result that names no tool is written with the name in its call: the API wants one.

What was read goes back part by part: a part that still says the same is written with all its
fields, so that signed parts are never merged or rebuilt (rule V-G4), and the signature of a text
stays with it. Results of one exchange make one content (rules V-G2, V-G3). `unwritten` tells what
has no place here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from attrs import evolve

from ctxalgebra.codecs.gemini_parts import (
    as_object,
    get,
    name_of,
    read_part,
    read_response,
    unwritten,
    write_part,
    write_result,
)
from ctxalgebra.codecs.given import messages_of
from ctxalgebra.codecs.lines import Json, compact, objects, parse, plain, string
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.parts import Message, Part, Role, Text, ToolCall

__all__ = [
    "Reader",
    "Writer",
    "decode_contents",
    "encode_contents",
    "raw_parts",
    "signed_texts",
    "unwritten",
]

_NO_TOOLS: Mapping[str, str] = MappingProxyType({})

_ROLES: dict[str, Role] = {"model": "assistant", "user": "user", "function": "user", "": "user"}


# Reading


def raw_parts(content: dict[str, Json]) -> list[Json]:
    """List the parts of a content; a single one may stand without a list."""
    parts = content.get("parts")
    if isinstance(parts, list):
        return parts
    return [] if parts is None else [parts]


def _is_result(part: Json) -> bool:
    return isinstance(get(as_object(part), "functionResponse"), dict)


def _bare(value: dict[str, Json]) -> bool:
    """Say whether an object may be a content without parts, and not a message of another API."""
    return bool(value.get("role")) and not value.keys() & {"content", "type"}


class Reader:
    """Reads contents in order; remembers which calls a result without an id may answer.

    Args:
        first: the place of the first content in its conversation; names calls without an id.
    """

    def __init__(self, first: int = 0) -> None:
        self._place = first
        self._ids: set[str] = set()
        self._done: set[str] = set()
        # Calls of the latest turn by the names of their tools: all, and those without an id.
        self._open: dict[str, deque[str]] = {}
        self._nameless: dict[str, deque[str]] = {}
        self._answered = False

    def read(self, content: dict[str, Json], origin: str = "") -> tuple[Message, ...]:
        """Read the next content.

        Args:
            content: the object.
            origin: the JSON text that it was read from.

        Returns:
            One message or more. The first of several has a content with its own parts as its
            origin, the others have a list of theirs.

        Raises:
            DecodeError: `wrong-role`, the role is unknown; `wrong-type`, it is no text;
                `missing-field`, there are no parts, and it is no content that may have none.
        """
        place, self._place = self._place, self._place + 1
        name = content.get("role")
        if not isinstance(name, str | None):
            raise DecodeError("wrong-type", "the role is no text", field="role")
        if "parts" not in content and not _bare(content):
            raise DecodeError("missing-field", "no parts", field="parts")
        role = _ROLES.get(name or "")
        if role is None:
            raise DecodeError("wrong-role", f"there is no role {name!r}", field="role")
        raw = raw_parts(content)
        if role == "assistant":
            parts = [read_part(part, speaks=True) for part in raw]
            return (Message("assistant", self._named(parts, place), origin=origin),)
        runs: list[list[Json]] = []
        for part in raw:
            if not runs or _is_result(part) or _is_result(runs[-1][0]):
                runs.append([])
            runs[-1].append(part)
        if len(runs) < 2:
            return (self._said(raw, f"{place}_0", origin),)
        messages: list[Message] = []
        at = 0
        for run in runs:
            own: Json = [*run] if messages else {**content, "parts": [*run]}
            messages.append(self._said(run, f"{place}_{at}", compact(own)))
            at += len(run)
        return tuple(messages)

    def _said(self, run: Sequence[Json], place: str, origin: str) -> Message:
        if not run or not _is_result(run[0]):
            parts = tuple(read_part(part, speaks=False) for part in run)
            return Message("user", parts, origin=origin)
        response = as_object(get(as_object(run[0]), "functionResponse"))
        name = string(response.get("name"))
        call = self._answers(name, string(response.get("id"))) or f"result_{place}"
        self._done.add(call)
        self._answered = True
        shown, failed = read_response(response)
        return Message("tool", shown, call=call, name=name, error=failed, origin=origin)

    def _named(self, parts: Sequence[Part], place: int) -> tuple[Part, ...]:
        """Name the calls without an id, and remember all."""
        named: list[Part] = []
        for at, part in enumerate(parts):
            call = part
            if isinstance(call, ToolCall):
                if self._answered:
                    self._open, self._nameless = {}, {}
                    self._answered = False
                if not call.id:
                    call = evolve(call, id=f"call_{place}_{at}")
                    self._nameless.setdefault(call.name, deque()).append(call.id)
                self._open.setdefault(call.name, deque()).append(call.id)
                self._ids.add(call.id)
            named.append(call)
        return tuple(named)

    def _answers(self, name: str, known: str) -> str:
        """Find the call that a result answers, by its id or by name and order."""
        if known in self._ids:
            return known
        queue = (self._nameless if known else self._open).get(name)
        while queue:
            first = queue.popleft()
            if first not in self._done:
                return first
        return known


def decode_contents(values: Iterable[Mapping[str, Any]], *, first: int = 0) -> tuple[Message, ...]:
    """Read the contents of a request or response; the inverse of `encode_contents`.

    Args:
        values: contents, oldest first.
        first: how many contents stand in front of these in the conversation, so that calls without
            an id get other names than earlier ones.

    Raises:
        InvalidArgument: `wrong-type`, a value that JSON does not know.
        DecodeError: as `Reader.read`, or a code of `ctxalgebra.codecs.lines`; `entry` is the
            index of the content.

    >>> decode_contents([{"role": "user", "parts": [{"text": "hi"}]}])[0].parts
    (Text(text='hi'),)
    """
    reader = Reader(first)
    messages: list[Message] = []
    for index, (raw, value) in enumerate(objects(values)):
        try:
            messages += reader.read(value, raw)
        except DecodeError as error:
            raise DecodeError(error.code, error.message, entry=index, field=error.field) from None
    return tuple(messages)


# Writing


class _Piece:
    """What a message came from, if that was a content or some parts of one.

    Attributes:
        fields: the content; None for a message from elsewhere, and for one that continues the
            content of the message in front of it.
        raw: the parts that are its own.
        continues: it was not the first of its content.
    """

    def __init__(self, message: Message) -> None:
        self.fields: dict[str, Json] | None = None
        self.raw: list[Json] = []
        self.continues = False
        try:
            value = parse(message.origin, limit=len(message.origin)) if message.origin else None
        except DecodeError:
            return
        if isinstance(value, list):
            self.raw, self.continues = value, True
        elif isinstance(value, dict) and ("parts" in value or _bare(value)):
            role = _ROLES.get(string(value.get("role")))
            if role == ("assistant" if message.role == "assistant" else "user"):
                self.fields, self.raw = value, raw_parts(value)


def _key(part: Part) -> Part:
    """Give what two parts must share so that one is written as the other was."""
    return evolve(part, id="") if isinstance(part, ToolCall) else part


def signed_texts(message: Message) -> int:
    """Count the signatures of texts that only the origin of a message holds."""
    found = 0
    signed = "thoughtSignature" in message.origin or "thought_signature" in message.origin
    for raw in _Piece(message).raw if signed else ():
        signature = string(get(as_object(raw), "thoughtSignature"))
        found += bool(signature) and isinstance(read_part(raw, speaks=True), Text)
    return found


class Writer:
    """Writes messages as contents, and remembers which calls have no id there.

    Args:
        tools: by ids of calls, for results that do not name theirs.
    """

    def __init__(self, tools: Mapping[str, str] = _NO_TOOLS) -> None:
        self._tools = tools
        # Of each its fields, its parts, and its text if that still holds.
        self._contents: list[tuple[dict[str, Json], list[Json], str | None]] = []
        # Calls with an id, by it; calls without, by ours; and whether there are others of these.
        self._ids: set[str] = set()
        self._nameless: set[str] = set()
        self._hidden = False
        # Calls without an id that wait for their results, by their tools.
        self._open: dict[str, dict[str, None]] = {}
        self._before: Role | None = None
        self._in_order = True

    def add(self, message: Message) -> None:
        """Write the next message."""
        piece = _Piece(message)
        if message.role == "tool":
            parts = self._result(message, piece)
        else:
            parts = self._parts(message, piece)
        if self._joins(message.role, piece):
            fields, known, _ = self._contents[-1]
            self._contents[-1] = fields, known + parts, None
        elif piece.fields is not None:
            text = message.origin if parts == piece.raw else None
            self._contents.append((piece.fields, parts, text))
        else:
            role = "model" if message.role == "assistant" else "user"
            self._contents.append(({"role": role}, parts, None))
        self._before = message.role

    def keep(self, raw: str) -> None:
        """Take a content, or what else stands for one, as it is."""
        self._contents.append(({}, [], raw))
        self._before = None
        try:
            content = as_object(parse(raw, limit=len(raw)))
        except DecodeError:
            return
        if content.get("role") == "model":
            # What an earlier turn left open is over, as it is for the reader.
            self._open = {}
        for part in raw_parts(content):
            call = get(as_object(part), "functionCall")
            if isinstance(call, dict) and (name := string(call.get("id"))):
                self._ids.add(name)
            elif isinstance(call, dict):
                self._hidden = True

    def _joins(self, role: Role, piece: _Piece) -> bool:
        """Say whether a message goes on with the content of the one in front of it."""
        if role == self._before == "tool":
            # Results of one exchange stand in one content, unless they were read from several.
            # Where they are in another order than in their contents, that can't be told.
            return piece.fields is None or not self._in_order
        speaks = self._before is None or "assistant" in (self._before, role)
        joins = piece.continues and not speaks
        self._in_order = joins or piece.fields is not None
        return joins

    def _parts(self, message: Message, piece: _Piece) -> list[Json]:
        speaks = message.role == "assistant"
        known: dict[Part, deque[Json]] = {}
        for raw in piece.raw:
            known.setdefault(_key(read_part(raw, speaks=speaks)), deque()).append(raw)
        self._open = {} if speaks else self._open
        parts: list[Json] = []
        for part in message.parts:
            queue = known.get(_key(part))
            if not queue:
                written = write_part(part, speaks=speaks)
                parts += [] if written is None else [written]
                self._ids |= {part.id} if isinstance(part, ToolCall) else set()
            elif isinstance(part, ToolCall):
                parts.append(self._call(part, as_object(queue.popleft())))
            else:
                parts.append(queue.popleft())
        return parts

    def _call(self, part: ToolCall, raw: dict[str, Json]) -> Json:
        """Give the part that a call was read from, with the id that the call has now."""
        outer = name_of(raw, "functionCall")
        call = as_object(raw[outer])
        said = string(call.get("id"))
        (self._ids if said else self._nameless).add(part.id)
        if not said:
            self._open.setdefault(part.name, {})[part.id] = None
        return raw if said in ("", part.id) else {**raw, outer: {**call, "id": part.id}}

    def _result(self, message: Message, piece: _Piece) -> list[Json]:
        known = as_object(piece.raw[0]) if piece.raw and _is_result(piece.raw[0]) else {}
        call = message.call
        name = message.name or self._tools.get(call, "")
        message = message if name == message.name else evolve(message, name=name)
        # A result that was read keeps its id, or has none still, unless its call was renamed.
        nameless = known or self._hidden or call in self._nameless
        waiting = self._open.get(name, {})
        first = next(iter(waiting), call)
        waiting.pop(call, None)
        if nameless and call not in self._ids and first == call:
            call = ""
        return [write_result(message, known, call)]

    def texts(self) -> list[str]:
        """Give the contents as JSON texts.

        That of a message's origin, if it still says the same and makes a content by itself.
        """
        return [
            compact({**fields, "parts": [*parts]}) if text is None else text
            for fields, parts, text in self._contents
        ]


def encode_contents(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Give messages as the `contents` of a request body.

    Args:
        messages: of a request, for example `project(session).messages`.

    Returns:
        New dicts. Fields that are not read survive from the messages' origin.

    >>> from ctxalgebra import tool_result
    >>> encode_contents([tool_result("c1", "42", name="add")])[0]["parts"][0]["functionResponse"]
    {'id': 'c1', 'name': 'add', 'response': {'output': '42'}}
    """
    array = messages_of(messages)
    writer = Writer({call.id: call.name for message in array for call in message.calls})
    for message in array:
        writer.add(message)
    return [plain(text) for text in writer.texts()]
