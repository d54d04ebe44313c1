"""Message lists of the Anthropic API, in the containers of `ctxalgebra.codecs.containers`.

`system`, `tools` and `model` beside the messages make the head, and what else keys the cache
(`tool_choice`, `thinking`, `output_config`, `speed`: rule C10) is parameters of its route. A system
text in several blocks is joined by an empty line; a tool that says more than name, description and
schema (a server tool, a deferred one) has all of it as its schema. A deferred tool stands in the
head as it stands in `tools`, and a reference to it is an opaque part of its result: both are
written back as they were. Thinking is bound (rules T1 to T5). Each assistant message closes a
request that nobody saw leave; in a cassette the recorded ones tell head and usage, wherever
`cache_control` stood. How elements become messages is told in
`ctxalgebra.codecs.anthropic_messages`.

In JSON Lines an answer may stand in pieces, one block a line: lines of the assistant that follow
one another, each with one block and none with another `id`, are one message. The `model` of a line
is that of its request.

What is written is the path to the leaf, as in `ctxalgebra.codecs.openai_chat`: results that follow
one another and the user's message behind them are one element. System text, tools and model are
written beside the messages where the container has a place for them; a list and JSON Lines have
none.

Defects are repaired or refused as in `ctxalgebra.codecs.openai_chat`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from attrs import evolve

from ctxalgebra.breakpoints import Placed
from ctxalgebra.codecs.anthropic_cache import limit_marks, mark_breakpoints
from ctxalgebra.codecs.anthropic_messages import (
    Object,
    decode_messages,
    encode_messages,
    join_elements,
    read_element,
    read_usage,
    turns,
    write_element,
)
from ctxalgebra.codecs.cassette import Interaction
from ctxalgebra.codecs.containers import Api, Body, Element, pack, unpack
from ctxalgebra.codecs.deferred import moved, placed
from ctxalgebra.codecs.elements import Elements
from ctxalgebra.codecs.giveback import Said, give_back
from ctxalgebra.codecs.intake import Decoded, bound
from ctxalgebra.codecs.lines import (
    LIMIT,
    Json,
    blank,
    compact,
    integer,
    parse,
    plain,
    string,
)
from ctxalgebra.errors import DecodeError, InvalidArgument
from ctxalgebra.loading import REFERENCE, Deferred, immediate
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.head import Head, Route, Tool, Usage
from ctxalgebra.model.parts import Message, Opaque, Part
from ctxalgebra.model.session import Session
from ctxalgebra.project import Request

__all__ = [
    "API",
    "NAME",
    "claims",
    "decode",
    "decode_messages",
    "encode",
    "encode_messages",
    "encode_request",
    "load_tools",
]

NAME = "anthropic-messages"
PROVIDER = "anthropic"

_PLAIN = frozenset({"name", "description", "input_schema"})
_PARAMETERS = ("output_config", "speed", "thinking", "tool_choice")
"""Fields of a body that key the cache and are no bytes of the prefix (C10); sorted."""

_CHOICES = ("any", "auto", "none", "tool")


def _object(value: Json | DecodeError) -> Object:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


# Heads


def _route(model: str, parameters: tuple[tuple[str, str], ...] = ()) -> Route:
    return Route(PROVIDER, model, parameters, bound(PROVIDER))


def _read_tool(value: Json) -> Tool:
    known = _object(value)
    name, description = string(known.get("name")), string(known.get("description"))
    rest = {key: item for key, item in known.items() if key != "cache_control"}
    if not known:
        return Tool("", "", compact(value))
    if known.get("type", "custom") == "custom" and rest.keys() - {"type"} <= _PLAIN:
        return Tool(name, description, compact(known.get("input_schema", {})))
    return Tool(name, description, compact(rest))


def _write_tool(tool: Tool) -> Json:
    try:
        schema = parse(tool.schema, limit=len(tool.schema))
    except DecodeError:
        schema = {}
    known = _object(schema)
    # A schema names no tool: this is the whole of one.
    if known.get("name") == tool.name and not isinstance(known.get("properties"), dict):
        return schema
    described: Object = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": schema}


def _read_head(value: Body, _address: str) -> Head:
    system = value.get("system")
    texts = [string(_object(block).get("text")) for block in _list(system)]
    text = string(system) or "\n\n".join(text for text in texts if text)
    tools = tuple(map(_read_tool, _list(value.get("tools"))))
    given = ((key, value.get(key)) for key in _PARAMETERS)
    parameters = tuple((key, compact(item)) for key, item in given if item is not None)
    return Head(_route(string(value.get("model")), parameters), text, tools)


def _write_parameters(head: Head) -> Body:
    """Give the fields of a route's parameters; those of another API have other shapes."""
    fields: Body = {}
    for key, text in head.route.parameters:
        try:
            value = parse(text, limit=len(text)) if key in _PARAMETERS else None
        except DecodeError:
            continue
        other = key == "tool_choice" and string(_object(value).get("type")) not in _CHOICES
        if value is not None and not other:
            fields[key] = value
    return fields


def _write_head(head: Head, known: Body) -> Body:
    fields: Body = {"model": head.route.model} if head.route.model else {}
    fields["system"] = head.system
    same = {_read_tool(tool): tool for tool in _list(known.get("tools"))}
    if head.tools:
        fields["tools"] = [same.get(tool) or _write_tool(tool) for tool in head.tools]
    return {**fields, **_write_parameters(head)}


def load_tools(request: Request, deferred: Sequence[Deferred]) -> Request:
    """Give a request as this API has it when tools are loaded at results (1.2, T3).

    Each tool stands behind those of the head, with `defer_loading`, and is no part of the cached
    prefix; the result that loads it holds a `tool_reference` and nothing else. What that result
    said stands behind the results of its round, as the user's message, since references and texts
    are kept apart. So a request in which a result loads tools extends the one before it. For models
    that lose earlier thinking when a user speaks (C11), that message is such an occasion.

    Plan breakpoints on what this gives. A request that was read from a body is such a one already.

    Args:
        request: to be sent.
        deferred: of `deferred_tools`, asked of the session that gave the request. One without a
            result may be found by a tool search of the provider, or is loaded later.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, a tool that the request has already, an
            index at which it has no result, or no tool that is not deferred: one is needed;
            `invalid-json`, `invalid-number`, `lone-surrogate` or `too-deep`, the schema of a tool.

    >>> from ctxalgebra import Head, ToolCall, assistant, tool_result, user
    >>> messages = user("a"), assistant(ToolCall("c1", "lazy")), tool_result("c1", "Found one.")
    >>> request = Request(Head(tools=(Tool("lazy"),)), messages)
    >>> loaded = load_tools(request, [Deferred(Tool("web"), 3, 2)])
    >>> encode_request(loaded)["messages"][2]["content"][0]["content"]
    [{'type': 'tool_reference', 'tool_name': 'web'}]
    """
    found = placed(request, deferred)
    if not deferred:
        return request
    head = request.head
    tools = [_write_tool(one.tool) for one in deferred]
    later = [_read_tool({**_object(tool), "defer_loading": True}) for tool in tools]
    grown = evolve(head, tools=(*head.tools, *later))
    if not immediate(grown).tools:
        text = "a request needs a tool that is not deferred"
        raise InvalidArgument("invalid-argument", text, field="deferred")
    messages = [*request.messages]
    said: dict[int, list[Part]] = {}
    for index, loading in found.items():
        result = messages[index]
        kept = [part for part in result.parts if _refers(part)]
        said[index] = [part for part in result.parts if not _refers(part)]
        names: list[Object] = [{"type": REFERENCE, "tool_name": tool.name} for tool in loading]
        new = [Opaque(REFERENCE, compact(name)) for name in names]
        messages[index] = evolve(result, parts=(*kept, *new), origin="")
    return Request(grown, tuple(moved(messages, said)))


def _refers(part: Part) -> bool:
    return isinstance(part, Opaque) and part.type == REFERENCE


def encode_request(
    request: Request, *, breakpoints: Placed | None = None, deferred: Sequence[Deferred] = ()
) -> dict[str, Any]:
    """Give a request as a body of the API: `model`, `system`, `tools`, `messages`.

    The route's parameters that the API knows (C10) are fields, too; what else a body needs
    (`max_tokens`) is the caller's.

    With `breakpoints`, `cache_control` stands there and nowhere else. Without, marks of messages
    that were read stand where they stood, but for all in front of the last four: a body with more
    is refused (C2), and each turn of a host that marks its last message leaves one behind.

    Turns of one role are one element, results in front (rules V-A1, V-A3, V-A4). Fields and blocks
    that nobody reads survive from the messages' origin; `unwritten` of
    `ctxalgebra.codecs.anthropic_messages` tells what of a message is left out.

    Args:
        request: to be sent.
        breakpoints: of `plan_breakpoints` or `default_breakpoints`, for this request; with
            `deferred`, for what `load_tools` makes of it.
        deferred: tools that are loaded at results: see `load_tools`.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, the breakpoints are of another request,
            or as `load_tools`.

    >>> from ctxalgebra import Head, Session, project, record, user
    >>> encode_request(project(record(Session(), Head(system="Be brief."), user("hi"))))
    {'system': 'Be brief.', 'messages': [{'role': 'user', 'content': 'hi'}]}
    """
    request = load_tools(request, deferred)
    written = _write_head(request.head, {})
    if not request.head.system:
        del written["system"]
    fields: dict[str, Any] = plain(compact(written))
    body = {**fields, "messages": encode_messages(request.messages)}
    if breakpoints is None:
        limit_marks(body["messages"])
        return body
    check_type(breakpoints, Placed, "breakpoints")
    if breakpoints.request != request:
        text = "the breakpoints are of another request"
        raise InvalidArgument("invalid-argument", text, field="breakpoints")
    return mark_breakpoints(body, breakpoints)


# Answers


class _Stream:
    """An answer that comes in events, put together."""

    def __init__(self) -> None:
        self.message: Object = {}
        self._blocks: dict[int, Object] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}
        self._lists: dict[tuple[int, str], list[Json]] = {}

    def _delta(self, index: int, delta: Object) -> None:
        match string(delta.get("type")):
            case "input_json_delta":
                self._texts.setdefault((index, "input"), []).append(
                    string(delta.get("partial_json"))
                )
            case "citations_delta":
                self._lists.setdefault((index, "citations"), []).append(delta.get("citation"))
            case _:
                # text, thinking, signature, and what is built like them
                for key, item in delta.items():
                    if key != "type" and isinstance(item, str):
                        self._texts.setdefault((index, key), []).append(item)

    def take(self, event: Object) -> None:
        """Take the next event."""
        index = integer(event.get("index")) or 0
        match string(event.get("type")):
            case "message_start":
                self.message = {**_object(event.get("message"))}
            case "content_block_start":
                self._blocks[index] = {**_object(event.get("content_block"))}
            case "content_block_delta" if index in self._blocks:
                self._delta(index, _object(event.get("delta")))
            case "message_delta":
                # What the start says of usage is not final.
                usage = {**_object(self.message.get("usage")), **_object(event.get("usage"))}
                self.message.update({**_object(event.get("delta")), "usage": usage})
            case _:
                pass

    def finish(self) -> Object:
        """Give the message; empty if none began."""
        for (index, key), pieces in self._texts.items():
            block, text = self._blocks[index], "".join(pieces)
            if key != "input":
                block[key] = string(block.get(key)) + text
            elif text:
                try:
                    block[key] = parse(text)
                except DecodeError:
                    block["partial_json"] = text
        for (index, key), items in self._lists.items():
            self._blocks[index][key] = [*_list(self._blocks[index].get(key)), *items]
        if self.message:
            self.message["content"] = [block for _, block in sorted(self._blocks.items())]
        return self.message


def _read_answer(call: Interaction) -> tuple[list[Json], Usage | None]:
    answer = call.answer
    if call.events:
        stream = _Stream()
        for event in call.events:
            stream.take(event)
        answer = stream.finish()
    known = answer.get("role") == "assistant"
    return [answer] if known else [], read_usage(answer.get("usage"))


# Histories


def _bare(block: Json) -> Json:
    known = _object(block)
    return {key: item for key, item in known.items() if key != "cache_control"} if known else block


def _same(element: Json) -> Json:
    """Give what counts of an element: where `cache_control` stands does not (rule T3)."""
    known = _object(element)
    blocks = [_bare(block) for block in _list(known.get("content"))]
    only = _object(blocks[0]) if len(blocks) == 1 else {}
    if only.keys() == {"type", "text"}:
        return {**known, "content": only["text"]}
    return {**known, "content": [*blocks]} if blocks else element


def _speaks(value: Json) -> bool:
    return bool(string(_object(value).get("role")))


API = Api(
    NAME,
    "messages",
    ("/v1/messages", "anthropic.com", ":rawPredict", ":streamRawPredict"),
    _speaks,
    _read_head,
    _write_head,
    ("model", "system", "tools", *_PARAMETERS),
    _read_answer,
    _same,
)

_BLOCKS = frozenset(
    {
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "document",
        "mcp_tool_use",
        "mcp_tool_result",
        "compaction",
    }
)


def _is_ours(block: Json) -> bool:
    known = _object(block)
    return string(known.get("type")) in _BLOCKS or isinstance(known.get("source"), dict)


def claims(value: Json) -> bool:
    """Say whether a line or a document can only be this format's, and not Chat's.

    >>> claims({"messages": [], "system": ""}), claims({"messages": []})
    (True, False)
    """
    body = _object(value)
    elements = _list(value) or _list(body.get("messages")) or [value]
    tools = [_object(tool) for tool in _list(body.get("tools"))]
    if any("function" in tool for tool in tools):
        return False
    ours = "system" in body or "anthropic_version" in body
    if "messages" in body and (ours or any("input_schema" in tool for tool in tools)):
        return True
    for element in map(_object, elements):
        if "tool_calls" in element or element.get("role") == "tool":
            return False
        ours = any(map(_is_ours, _list(element.get("content"))))
        if _speaks(element) and (ours or element.get("type") == "message"):
            return True
    return False


# Reading


def _read(raw: str, value: Json | DecodeError, names: dict[str, str]) -> Sequence[Message]:
    if isinstance(value, DecodeError):
        raise value
    if not isinstance(value, dict):
        raise DecodeError("wrong-type", "not an object")
    return read_element(value, origin=raw, names=names)


def _model(value: Json | DecodeError) -> Callable[[Head], Head] | None:
    """Give the head of an element's request, where the element names its model."""
    model = string(_object(value).get("model"))
    return (lambda known: evolve(known, route=evolve(known.route, model=model))) if model else None


def _whole(element: Element) -> object:
    """Say what the lines share that make one message of the model; nothing equals any other."""
    known = _object(element[1])
    piece = known.get("role") == "assistant" and len(_list(known.get("content"))) == 1
    return string(known.get("id")) if piece else object()


def _join(elements: Elements, run: Sequence[Element], names: dict[str, str]) -> None:
    """Take lines that make one message."""
    first = elements.count
    values = [_object(value) for _, value in run]
    joined = join_elements(values)
    (message,) = read_element(joined, origin=compact(joined), names=names)
    pieces = [elements.piece(raw) for raw, _ in run]
    usage = read_usage(joined.get("usage"))
    elements.join(pieces, message, usage, first=first, head=_model(joined))


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
        DecodeError: as `ctxalgebra.codecs.openai_chat` tells.

    >>> data = b'{"system": "Be brief.", "messages": [{"role": "user", "content": "hi"}]}'
    >>> decoded = decode(data)
    >>> decoded.session.head.system, encode(decoded.session) == data
    ('Be brief.', True)
    """
    found = unpack(data, API, file=file, limit=limit)
    elements = Elements(found)
    names: dict[str, str] = {}
    lines = found.frame.get("container") == "lines"
    # The model of a body holds; an answer may call it by another name.
    named = bool(found.head.route.model)
    for _, group in groupby(found.elements, _whole if lines else lambda _: object()):
        run = [*group]
        if len(run) > 1:
            _join(elements, run, names)
            continue
        raw, value = run[0]
        if value is None and blank(raw):
            elements.keep(raw)
            continue
        try:
            messages = _read(raw, value, names)
        except DecodeError as error:
            elements.keep(raw, error)
        else:
            usage = read_usage(_object(value).get("usage"))
            elements.say(raw, messages, usage, head=None if named else _model(value))
    return elements.take_in(API, file)


# Writing


def _write(_frame: Body, said: list[Said]) -> list[str]:
    texts: list[str] = []
    new: list[Message] = []
    for item in [*said, None]:
        if item is not None and item.message is not None and not item.raw:
            new.append(item.message)
            continue
        texts += map(write_element, turns(new, merged=False))
        new.clear()
        if item is not None:
            texts.append(item.raw if item.message is None else write_element([item.message]))
    return texts


def encode(session: Session) -> bytes:
    """Write the path to the leaf in the container that it was read from.

    What was read and not changed gives the same bytes. A session from elsewhere becomes an object
    with `messages`, `model`, `system` and `tools`.

    >>> from ctxalgebra import Session, record, user
    >>> encode(record(Session(), user("hi")))
    b'{"messages":[{"role":"user","content":"hi"}],"system":""}'
    """
    return pack(give_back(session, NAME), _write, session.head, API)
