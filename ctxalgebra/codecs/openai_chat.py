r"""Message lists of the OpenAI Chat format, in the containers of `ctxalgebra.codecs.containers`.

Leading system and developer messages, `tools` and `model` make the head; thinking is bound where
the model is a Claude, and free elsewhere. Each assistant message
closes a request that nobody saw leave. A cassette tells more: each recorded request whose messages
begin the longest one gives its own head, and the usage of its answer.

Decisions, branches, labels and replies that were not completed have no place in this format: what
is written is the path to the leaf, with everything that was said on it. What requests show is
`encode_request(project(session))`. A first message that is a system message is written, too, and
is read as the head's system text again: the format has no other.

A changed head is written where the container has a place for it: system text as the first message,
model and tools beside `messages`.

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

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from ctxalgebra.codecs.cassette import Interaction
from ctxalgebra.codecs.chat_messages import (
    decode_messages,
    encode_messages,
    read_message,
    read_usage,
    write_element,
    write_sent,
)
from ctxalgebra.codecs.containers import Api, Body, pack, unpack
from ctxalgebra.codecs.deferred import refuse_deferred
from ctxalgebra.codecs.elements import Elements
from ctxalgebra.codecs.giveback import Said, give_back
from ctxalgebra.codecs.intake import Act, Decoded, bound
from ctxalgebra.codecs.lines import LIMIT, Json, compact, parse, plain, string
from ctxalgebra.errors import DecodeError
from ctxalgebra.loading import Deferred
from ctxalgebra.model.head import Head, Route, Tool, Usage
from ctxalgebra.model.parts import Message, Text
from ctxalgebra.model.session import Session
from ctxalgebra.project import Request

__all__ = [
    "API",
    "NAME",
    "decode",
    "decode_messages",
    "encode",
    "encode_messages",
    "encode_request",
]

NAME = "openai-chat"


# Heads


def _read_tool(value: Json) -> Tool | None:
    outer = value if isinstance(value, dict) else {}
    inner = outer.get("function", outer)
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return None
    schema = inner.get("parameters", {})
    return Tool(string(inner["name"]), string(inner.get("description")), compact(schema))


def _read_head(value: Body, _address: str) -> Head:
    """Read model, tools and system text that stand beside the messages."""
    model, tools = string(value.get("model")), value.get("tools")
    found = [_read_tool(tool) for tool in tools] if isinstance(tools, list) else []
    return Head(
        Route("", model, (), bound(model)),
        string(value.get("system")),
        tuple(tool for tool in found if tool is not None),
    )


def _write_tool(tool: Tool) -> Json:
    function: Body = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    try:
        function["parameters"] = parse(tool.schema, limit=len(tool.schema))
    except DecodeError:
        function["parameters"] = {}
    return {"type": "function", "function": function}


def _write_head(head: Head, known: Body) -> Body:
    fields: Body = {"model": head.route.model} if head.route.model else {}
    tools = known.get("tools")
    same = {_read_tool(tool): tool for tool in tools} if isinstance(tools, list) else {}
    if head.tools:
        fields["tools"] = [same.get(tool) or _write_tool(tool) for tool in head.tools]
    if head.system and head.system == known.get("system"):
        # System text that changes becomes the first message.
        fields["system"] = head.system
    return fields


def _add_system(head: Head, text: str) -> Head:
    return evolve(head, system=f"{head.system}\n\n{text}" if head.system else text)


def encode_request(request: Request, *, deferred: Sequence[Deferred] = ()) -> dict[str, Any]:
    """Give a request as a Chat request body: `model`, `messages`, `tools`.

    Messages have the API's fields, and `reasoning_content`, which servers of the kind of DeepSeek
    want back. That a tool failed has none: only its text says so.

    Args:
        request: to be sent.
        deferred: none: the API can't load a tool behind the head.

    Raises:
        InvalidArgument: `not-deferrable`, deferred tools, or one of Anthropic's in the head;
            `wrong-type`; with the name of the tool `invalid-json`, `invalid-number`,
            `lone-surrogate` or `too-deep`, a schema that can't be written.

    >>> from ctxalgebra import Session, project, record, user
    >>> encode_request(project(record(Session(), user("hi"))))
    {'messages': [{'role': 'user', 'content': 'hi'}]}
    """
    refuse_deferred(request, deferred, "the Chat API")
    head = request.head
    first = (Message("system", head.system),) if head.system else ()
    messages = [plain(compact(write_sent(one))) for one in (*first, *request.messages)]
    fields: dict[str, Any] = plain(compact(_write_head(head, {})))
    return {"messages": messages, **fields}


# The API


def _speaks(value: Json) -> bool:
    return isinstance(value, dict) and (bool(string(value.get("role"))) or "_type" in value)


def _first_choice(value: Body) -> Body:
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


class _Stream:
    """An answer that comes in events, put together."""

    def __init__(self) -> None:
        self._fields: Body = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[str, tuple[Body, list[str]]] = {}

    def _call(self, delta: Body) -> None:
        function = delta.get("function")
        inner = function if isinstance(function, dict) else {}
        fields, arguments = self._calls.setdefault(compact(delta.get("index")), ({}, []))
        arguments.append(string(inner.get("arguments")))
        for key, value in {"id": delta.get("id"), "name": inner.get("name")}.items():
            if value:
                fields[key] = value

    def take(self, event: Body) -> None:
        """Take the next event."""
        delta = _first_choice(event).get("delta")
        for key, value in (delta if isinstance(delta, dict) else {}).items():
            if key == "tool_calls":
                for call in value if isinstance(value, list) else ():
                    if isinstance(call, dict):
                        self._call(call)
            elif key != "role" and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif value is not None:
                self._fields[key] = value

    def finish(self) -> Body:
        """Give the message; without a role if none began."""
        texts: Body = {key: "".join(pieces) for key, pieces in self._texts.items()}
        calls: list[Json] = [
            {
                "id": fields.get("id"),
                "type": "function",
                "function": {"name": fields.get("name"), "arguments": "".join(pieces)},
            }
            for fields, pieces in self._calls.values()
        ]
        message: Body = {**self._fields, "content": None, **texts}
        return {**message, "tool_calls": calls} if calls else message


def _read_answer(call: Interaction) -> tuple[list[Json], Usage | None]:
    message = _first_choice(call.answer).get("message")
    usage = call.answer.get("usage")
    if call.events:
        stream = _Stream()
        for event in call.events:
            stream.take(event)
            usage = event.get("usage") or usage
        message = stream.finish()
    known = isinstance(message, dict) and bool(string(message.get("role")))
    return [message] if known else [], read_usage(usage)


API = Api(
    NAME,
    "messages",
    ("chat/completions",),
    _speaks,
    _read_head,
    _write_head,
    ("model", "tools", "system"),
    _read_answer,
)


# Reading


def _system(text: str) -> Act:
    return lambda intake: _add_system(intake.session.head, text)


def _keep_system(recorded: Head, known: Head) -> Head:
    return evolve(recorded, system=known.system)


def _message(raw: str, value: Json | DecodeError) -> Message | None:
    """Read the message of an element; None for metadata and empty lines."""
    if isinstance(value, DecodeError):
        raise value
    if value is None or (isinstance(value, dict) and "_type" in value):
        return None
    if not isinstance(value, dict):
        raise DecodeError("wrong-type", "not an object")
    return read_message(value, origin=raw)


def decode(data: bytes, *, file: str | None = None, limit: int = LIMIT) -> Decoded:
    """Read a list of messages from one of the containers.

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
    found = unpack(data, API, file=file, limit=limit)
    if found.head.system:
        # Leading messages add to it, so the head does not tell what the body said.
        found = evolve(found, frame={**found.frame, "system": found.head.system})
    elements = Elements(found, _keep_system)
    leading = True
    for raw, value in found.elements:
        try:
            message = _message(raw, value)
        except DecodeError as error:
            elements.keep(raw, error)
            continue
        if message is None or not isinstance(value, dict):
            elements.keep(raw)
            continue
        texts = [part.text for part in message.parts if isinstance(part, Text)]
        leading = leading and message.role == "system"
        if leading and len(texts) == len(message.parts):
            elements.lead(raw, _system("".join(texts)))
        else:
            usage = read_usage(value.get("usage", value.get("metrics")))
            elements.say(raw, (message,), usage)
    return elements.take_in(API, file)


# Writing


def encode(session: Session) -> bytes:
    """Write the path to the leaf in the container that it was read from.

    What was read and not changed gives the same bytes. A session from elsewhere becomes an object
    with `model`, `messages` and `tools`.

    >>> from ctxalgebra import Session, record, user
    >>> encode(record(Session(), user("hi")))
    b'{"messages":[{"role":"user","content":"hi"}]}'
    """
    given = give_back(session, NAME)
    head, beside = session.head, string(given.frame.get("system"))
    same = given.settled or (head.system == (beside if given.head is None else given.head.system))

    def write(frame: Body, said: list[Said]) -> list[str]:
        keeps = same and bool(frame)
        texts = [
            write_element(item.message) if item.message else item.raw
            for item in said
            if keeps or not item.leads
        ]
        first = [] if keeps or not head.system else [Message("system", head.system)]
        return [*map(write_element, first), *texts]

    return pack(given, write, evolve(head, system=beside) if same else head, API)
