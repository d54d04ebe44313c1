r"""Lists of items of the OpenAI Responses API, in the containers in which they are found.

Containers are those of `ctxalgebra.codecs.containers`, with `input` as the key of a request body,
and two more: a response by itself, whose key is `output`, and a trace whose observations hold
requests and responses, which is read as a cassette is. Items become messages as
`ctxalgebra.codecs.responses_items` tells; what follows each other from the model is one reply,
which closes a request that nobody saw leave. In a recorded request a reply is over where the
request ended.

`model`, `instructions` and function tools make the head; the provider is OpenAI unless a recorded
call went elsewhere. Leading system and developer messages join the system text. What else keys
the cache (`reasoning`, `tool_choice`, hosted tools and other fields of tools) are parameters of
the route. Requests are written with all of that (`encode_request`).

With `previous_response_id` the history stands on the server, and outputs need no call in the input
(rule V-R4). Such an output is an opaque part of a user message: shown, kept and written back, and
no result that would lack its call. The id is a parameter of the route.

| defect | what becomes of it |
| --- | --- |
| a line that is no JSON object, too deep, too long, with NaN or a lone surrogate | repair with \
its code |
| an element that is no item, a role that is unknown, an output without its call's id | repair \
`wrong-type`, `missing-field`, `wrong-role` |
| defects of calls and results | repairs with the codes of `ctxalgebra.protocol.DEFECTS` |
| a recorded request with another history | repair `unknown-request` |
| nothing, or only white space | error `empty-file` |
| a document that is not strict JSON (or YAML), bytes that are not UTF-8 | error with its code |
| no list of items, or no item in it that can be read | error `missing-field`, `wrong-type` |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import evolve

from ctxalgebra.codecs.cassette import Interaction
from ctxalgebra.codecs.containers import Api, Body, Found, merge, pack, unpack
from ctxalgebra.codecs.deferred import refuse_deferred
from ctxalgebra.codecs.elements import Elements
from ctxalgebra.codecs.giveback import Said, give_back
from ctxalgebra.codecs.intake import Act, Decoded, bound
from ctxalgebra.codecs.lines import LIMIT, Json, compact, parse, plain, split, string
from ctxalgebra.codecs.responses_items import (
    CALLS,
    OUTPUTS,
    decode_items,
    elements,
    join,
    read_item,
    read_usage,
)
from ctxalgebra.codecs.responses_tools import load_tools, write_tool
from ctxalgebra.codecs.responses_write import ITEMS, Writer, encode_items
from ctxalgebra.errors import DecodeError
from ctxalgebra.loading import Deferred
from ctxalgebra.model.head import Head, Route, Tool, Usage
from ctxalgebra.model.parts import Message, Opaque, Text
from ctxalgebra.model.session import Session
from ctxalgebra.project import Request

__all__ = [
    "API",
    "NAME",
    "decode",
    "decode_items",
    "encode",
    "encode_items",
    "encode_request",
    "holds_items",
    "load_tools",
]

NAME = "openai-responses"
PROVIDER = "openai"

_PARAMETERS = (
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "service_tier",
    "text",
    "tool_choice",
    "tools",
    "truncation",
)
"""Fields of a body that key the cache or keep it, beside model and instructions; sorted."""


_THEIRS = ("any", "auto", "none", "tool")
"""Types of `tool_choice` that Anthropic has; here the first three are texts."""

_CALL_BLOCK = re.compile(r'"type"\s*:\s*"tool_use"')
_BLOCKS = ("input_text", "output_text", "input_image", "input_file", "refusal")


def _object(value: Json) -> Body:
    return value if isinstance(value, dict) else {}


# Heads


def _read_tool(value: Json) -> Tool | None:
    tool = _object(value)
    name = string(tool.get("name"))
    if tool.get("type") != "function" or not name:
        return None
    schema = compact(tool.get("parameters", {}))
    return Tool(name, string(tool.get("description")), schema)


def _read_tools(value: Json) -> tuple[Tool, ...]:
    return tuple(tool for item in elements(value) if (tool := _read_tool(item)))


def _write_tools(tools: Iterable[Tool], known: Json) -> list[Json]:
    """Write tools: the known ones as they were, hosted ones in their place, new ones behind."""
    left = {tool.name: tool for tool in tools}
    written: list[Json] = []
    for value in elements(known):
        tool = _read_tool(value)
        if tool is None or left.get(tool.name) == tool:
            written.append(value)
            left.pop(tool.name if tool else "", None)
    return [*written, *map(write_tool, left.values())]


def _read_head(value: Body, address: str) -> Head:
    model, tools = string(value.get("model")), _read_tools(value.get("tools"))
    parameters = {key: value[key] for key in _PARAMETERS if value.get(key) is not None}
    if value.get("tools") == [write_tool(tool) for tool in tools]:
        # The head's tools say all.
        del parameters["tools"]
    pairs = tuple((key, compact(item)) for key, item in parameters.items())
    # Others offer this API, too, and a body does not tell.
    provider = "" if address and PROVIDER not in address else PROVIDER
    route = Route(provider, model, pairs, bound(model))
    return Head(route, string(value.get("instructions")), tools)


def _write_head(head: Head, known: Body) -> Body:
    given: Body = {}
    for key, text in head.route.parameters:
        if key in _PARAMETERS:
            try:
                value = parse(text)
            except DecodeError:
                continue
            if key != "tool_choice" or string(_object(value).get("type")) not in _THEIRS:
                given[key] = value
    fields: Body = {"model": head.route.model} if head.route.model else {}
    if head.system:
        fields["instructions"] = head.system
    tools = _write_tools(head.tools, given.pop("tools", known.get("tools")))
    return {**fields, **({"tools": tools} if tools else {}), **given}


def encode_request(request: Request, *, deferred: Sequence[Deferred] = ()) -> dict[str, Any]:
    """Give a request as a body of the Responses API: `model`, `instructions`, `input`, `tools`.

    The route's parameters that the API knows are fields, too. Reasoning of which only the text is
    known, without its id or its encrypted content, is left out: the API refuses it. Calls that a
    converter left as blocks of a message are items.

    Args:
        request: to be sent.
        deferred: tools that are loaded at results: see `load_tools`.

    Raises:
        InvalidArgument: as `load_tools`; `not-deferrable`, a deferred tool of Anthropic's.
            `field` is the name of a tool whose schema can't be written.

    >>> from ctxalgebra import Head, Session, project, record, user
    >>> encode_request(project(record(Session(), Head(system="Be brief."), user("hi"))))["input"]
    [{'type': 'message', 'role': 'user', 'content': [{'type': 'input_text', 'text': 'hi'}]}]
    """
    refuse_deferred(request, (), "the Responses API", others=True)
    request = load_tools(request, deferred)
    items = [i for i in encode_items(map(_without_blocks, request.messages)) if _proves(i)]
    fields: dict[str, Any] = plain(compact(_write_head(request.head, {})))
    return {**fields, "input": items}


def _without_blocks(message: Message) -> Message:
    return evolve(message, origin="") if _CALL_BLOCK.search(message.origin) else message


def _proves(item: dict[str, Any]) -> bool:
    return item.get("type") != "reasoning" or bool(item.get("id") or item.get("encrypted_content"))


# The API


def _speaks(value: Json) -> bool:
    item = _object(value)
    return bool(string(item.get("type")) or string(item.get("role")))


def _is_item(value: Json) -> bool:
    """Say whether a value is an item, and of no other API."""
    item = _object(value)
    kind = string(item.get("type"))
    blocks = {string(_object(block).get("type")) for block in elements(item.get("content"))}
    speaks = kind == "message" and not blocks.isdisjoint(_BLOCKS)
    return speaks or kind in CALLS or kind in OUTPUTS or kind in ITEMS or kind == "reasoning"


def _read_answer(call: Interaction) -> tuple[list[Json], Usage | None]:
    done: list[Json] = []
    answer = call.answer
    for event in call.events:
        response = event.get("response")
        if event.get("type") == "response.output_item.done":
            done.append(event.get("item"))
        elif isinstance(response, dict):
            answer = response
    found = elements(answer.get("output")) or done
    return [item for item in found if _speaks(item)], read_usage(answer.get("usage"))


API = Api(
    NAME,
    "input",
    ("/responses",),
    _speaks,
    _read_head,
    _write_head,
    ("model", "instructions", *_PARAMETERS),
    _read_answer,
)

_RESPONSE = evolve(API, key="output")


def _recorded(value: Json) -> list[Interaction]:
    """Find the calls in the observations of a trace."""
    found: list[Interaction] = []
    for item in elements(_object(value).get("observations")):
        observation = _object(item)
        asked, answer = observation.get("input"), _object(observation.get("output"))
        # A response repeats what its request said; another answer is no body.
        body = _object(asked) or {**(answer if "output" in answer else {}), "input": asked}
        found.append(Interaction("", body, answer, ()))
    return found


def _is_call(call: Interaction) -> bool:
    """Say whether what a trace tells is a call of this API: Chat's have roles, too."""
    held = elements(call.body.get("input", call.body.get("output")))
    told = "output" in call.answer or any(map(_is_item, held))
    return told or ("role" not in call.answer and any("role" in _object(item) for item in held))


def holds_items(value: Json) -> bool:
    """Say whether a JSON value is a container of items, and of no other API.

    >>> holds_items({"model": "gpt-5", "input": "hi"}), holds_items([{"role": "user"}])
    (True, False)
    """
    if isinstance(value, list):
        return any(map(_is_item, value))
    body = _object(value)
    held = body.get("input", body.get("output"))
    if isinstance(held, str):
        return "model" in body
    inner = (_is_call(call) for call in _recorded(value))
    told = any(_is_item(item) or "role" in _object(item) for item in elements(held))
    return told or _is_item(value) or any(inner)


def _open(data: bytes, file: str | None, limit: int) -> tuple[Found, Api]:
    text = "\n".join(split(data, file=file, limit=limit))
    if '"observations"' in text:
        try:
            value = parse(text, limit=limit)
        except DecodeError:
            value = None
        calls = [c for c in _recorded(value) if any(map(_speaks, elements(c.body.get("input"))))]
        if calls:
            return merge(text, calls, API, file), API
    try:
        return unpack(data, API, file=file, limit=limit), API
    except DecodeError as error:
        if error.field != API.key:
            raise
        try:
            return unpack(data, _RESPONSE, file=file, limit=limit), _RESPONSE
        except DecodeError:
            raise error from None


# Reading


def _with_system(head: Head, texts: Iterable[str]) -> Head:
    """Add leading messages to the system text of a head."""
    return evolve(head, system="\n\n".join([head.system, *texts] if head.system else texts))


def _add_system(text: str) -> Act:
    return lambda intake: _with_system(intake.session.head, (text,))


class _Reader:
    """Takes items one by one, and makes a reply of those that follow each other from the model."""

    def __init__(self, found: Found) -> None:
        self._led = led = list[str]()
        self.elements = Elements(found, lambda recorded, _: _with_system(recorded, led))
        heads = (found.head, *found.heads.values())
        self._ends = frozenset(found.heads)
        self._stored = any("previous_response_id" in dict(h.route.parameters) for h in heads)
        self._leading = True
        self._calls: set[str] = set()
        self._pieces: list[int] = []
        self._run: list[Message] = []

    def read(self, raw: str, value: Json | DecodeError) -> None:
        """Take the next element."""
        if self.elements.count in self._ends:
            self.end()
        if value is None:
            self.elements.keep(raw)
            return
        try:
            message = self._item(raw, value)
        except DecodeError as error:
            self.elements.keep(raw, error)
            return
        if self._run and message.role != "assistant":
            self.end()
        texts = [part.text for part in message.parts if isinstance(part, Text)]
        self._leading = self._leading and message.role == "system"
        if self._leading and len(texts) == len(message.parts):
            self._led.append("".join(texts))
            self.elements.lead(raw, _add_system(self._led[-1]))
            return
        self._calls.update(call.id for call in message.calls)
        self._pieces.append(self.elements.piece(raw))
        self._run.append(message)
        if message.role != "assistant":
            self.end()

    def _item(self, raw: str, value: Json | DecodeError) -> Message:
        if isinstance(value, DecodeError):
            raise value
        if not isinstance(value, dict):
            raise DecodeError("wrong-type", "not an object")
        message = read_item(value, origin=raw)
        if self._stored and message.role == "tool" and message.call not in self._calls:
            lone = Opaque(string(value.get("type")), compact(value))
            return Message("user", (lone,), id=message.id, origin=message.origin)
        return message

    def end(self) -> None:
        """Say what the items so far make."""
        if self._run:
            first = self.elements.count - len(self._run)
            self.elements.join(self._pieces, join(self._run), first=first)
            self._pieces.clear()
            self._run.clear()


def decode(data: bytes, *, file: str | None = None, limit: int = LIMIT) -> Decoded:
    """Read a list of items from one of the containers.

    Args:
        data: the whole file.
        file: its name, for errors.
        limit: the longest JSON text that is read, in characters; of JSON Lines a longer line is
            only kept.

    Returns:
        The session and the list of repairs; their `line` is the place of the element.

    Raises:
        DecodeError: as the module's table of defects tells.

    >>> decoded = decode(b'{"model": "gpt-5", "input": [{"role": "user", "content": "hi"}]}')
    >>> encode(decoded.session)
    b'{"model": "gpt-5", "input": [{"role": "user", "content": "hi"}]}'
    """
    found, api = _open(data, file, limit)
    # Leading messages add to the system text, so the head does not tell what the body said.
    beside: Body = {"system": found.head.system, "key": api.key}
    reader = _Reader(evolve(found, frame={**found.frame, **beside}))
    for raw, value in found.elements:
        reader.read(raw, value)
    reader.end()
    return reader.elements.take_in(API, file)


# Writing


def encode(session: Session) -> bytes:
    """Write the path to the leaf in the container that it was read from.

    What was read and not changed gives the same bytes. A session from elsewhere becomes an object
    with `model`, `instructions`, `input` and `tools`. System text that changed is written as
    `instructions`, or as the first item where the container had none.

    >>> from ctxalgebra import Session, record, user
    >>> encode(record(Session(), user("hi")))[:50]
    b'{"input":[{"type":"message","role":"user","content'
    """
    given = give_back(session, NAME)
    head, beside = session.head, string(given.frame.get("system"))
    same = given.settled or (head.system == (beside if given.head is None else given.head.system))

    def write(frame: Body, said: list[Said]) -> list[str]:
        writer = Writer()
        texts: list[str] = []
        if frame and not same and not beside and head.system:
            first = Message("system", head.system)
            texts += map(compact, writer.write(first))
        for item in said:
            if item.message is not None:
                texts += map(compact, writer.write(item.message))
            elif not item.leads or (same and frame):
                texts.append(item.raw)
        return texts

    kept = same or (bool(given.frame) and not beside)
    fields = evolve(head, system=beside) if kept else head
    return pack(given, write, fields, _RESPONSE if given.frame.get("key") == "output" else API)
