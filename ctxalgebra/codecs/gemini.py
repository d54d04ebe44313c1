"""Contents of the Gemini API, in the containers of `ctxalgebra.codecs.containers`.

| container | its head |
| --- | --- |
| a request body with `contents` | `systemInstruction`, `tools` and, if it is there, `model` |
| a cassette of calls of `generateContent` or `streamGenerateContent` | likewise, of each request; \
the model is in the address |
| a list of contents, or one content a line | none: there is no place for it |

The texts of a system instruction are joined by blank lines. Tools that are no functions (search,
code execution) are the parameter `tools` of the route. A streamed answer is one content: texts that
follow one another and hold nothing else are joined, signed parts stay as they are (rule V-G4).

What contents become is told in `ctxalgebra.codecs.gemini_contents`. Decisions, branches, labels
and replies that were not completed have no place in this format: what is written is the path to the
leaf, with everything that was said on it. What requests show is `encode_request(project(session))`.
A system message in the midst is written as the user's.

| defect | what becomes of it |
| --- | --- |
| a line that is no JSON object, too deep, too long, with NaN or a lone surrogate | repair with \
its code |
| an element with another role, or without parts where it is no content | repair `wrong-role`, \
`missing-field` |
| defects of calls and results | repairs with the codes of `ctxalgebra.protocol.DEFECTS` |
| a recorded request with another history | repair `unknown-request` |
| nothing, or only white space | error `empty-file` |
| a document that is not strict JSON (or YAML), bytes that are not UTF-8 | error with its code |
| no list of contents, or none in it that can be read | error `missing-field`, `wrong-type` |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ctxalgebra.codecs.cassette import Interaction
from ctxalgebra.codecs.containers import Api, Body, pack, unpack
from ctxalgebra.codecs.deferred import refuse_deferred
from ctxalgebra.codecs.elements import Elements
from ctxalgebra.codecs.gemini_contents import (
    Reader,
    Writer,
    decode_contents,
    encode_contents,
    raw_parts,
)
from ctxalgebra.codecs.gemini_parts import as_object, get, name_of
from ctxalgebra.codecs.giveback import Said, give_back
from ctxalgebra.codecs.intake import Decoded, bound
from ctxalgebra.codecs.lines import (
    LIMIT,
    Json,
    compact,
    integer,
    parse,
    plain,
    string,
    usage_of,
)
from ctxalgebra.errors import DecodeError
from ctxalgebra.loading import Deferred
from ctxalgebra.model.head import Head, Route, Tool, Usage
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session
from ctxalgebra.project import Request

__all__ = [
    "API",
    "NAME",
    "decode",
    "decode_contents",
    "encode",
    "encode_contents",
    "encode_request",
    "read_head",
    "read_usage",
    "speaks",
    "write_head",
]

NAME = "gemini-contents"
PROVIDER = "google"
"""The provider of routes that are read here."""

_MODEL = re.compile(r"models/([^/:?#]+)")


# Heads


def _read_tool(value: Json) -> Tool:
    function = as_object(value)
    schema = get(function, "parametersJsonSchema")
    schema = function.get("parameters", {}) if schema is None else schema
    return Tool(string(function.get("name")), string(function.get("description")), compact(schema))


def _declared(tools: Json) -> tuple[list[Json], list[Json]]:
    """Take a body's tools apart: the functions that they declare, and what is none."""
    functions: list[Json] = []
    others: list[Json] = []
    for entry in tools if isinstance(tools, list) else ():
        fields = as_object(entry)
        name = name_of(fields, "functionDeclarations")
        declared = fields.get(name)
        functions += declared if isinstance(declared, list) else []
        if rest := {key: item for key, item in fields.items() if key != name}:
            others.append(rest)
    return functions, others


def _read_system(value: Json) -> str:
    if isinstance(value, str):
        return value
    texts = [string(as_object(part).get("text")) for part in raw_parts(as_object(value))]
    return "\n\n".join(text for text in texts if text)


def read_head(body: Body, address: str = "") -> Head:
    """Read what a request says beside its contents.

    Args:
        body: of the request.
        address: of the call, which names the model where the body doesn't.
    """
    functions, others = _declared(body.get("tools"))
    found = _MODEL.search(address)
    model = string(body.get("model")).removeprefix("models/") or (found[1] if found else "")
    parameters = (("tools", compact(others)),) if others else ()
    return Head(
        Route(PROVIDER, model, parameters, bound(model)),
        _read_system(get(body, "systemInstruction")),
        tuple(_read_tool(function) for function in functions),
    )


def _write_tool(tool: Tool) -> Json:
    function: Body = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    try:
        schema = parse(tool.schema, limit=len(tool.schema))
    except DecodeError:
        schema = {}
    if schema:
        # The API's own schema language writes the names of types in capitals.
        own = string(as_object(schema).get("type")).isupper()
        function["parameters" if own else "parametersJsonSchema"] = schema
    return function


def _other_tools(head: Head) -> list[Json]:
    text = dict(head.route.parameters).get("tools", "")
    try:
        others = parse(text, limit=len(text))
    except DecodeError:
        return []
    return others if isinstance(others, list) else []


def write_head(head: Head, known: Body) -> Body:
    """Write a head as fields of a request body.

    Args:
        head: to write.
        known: the body at hand, whose spelling and functions stay; empty for a new one. The model
            is written where it has a place for it.
    """
    fields: Body = {}
    if head.route.model and (not known or "model" in known):
        fields["model"] = f"models/{head.route.model}"
    if head.system:
        fields[name_of(known, "systemInstruction")] = {"parts": [{"text": head.system}]}
    tools = _other_tools(head)
    if head.tools:
        same = {_read_tool(function): function for function in _declared(known.get("tools"))[0]}
        functions: list[Json] = [same.get(tool) or _write_tool(tool) for tool in head.tools]
        declared: Json = {"functionDeclarations": functions}
        tools = [declared, *tools]
    if tools:
        fields["tools"] = tools
    return fields


def encode_request(request: Request, *, deferred: Sequence[Deferred] = ()) -> dict[str, Any]:
    """Give a request as a Gemini request body: `contents`, `systemInstruction`, `tools`.

    The model belongs into the address of the call.

    Args:
        request: to be sent.
        deferred: none: the API can't load a tool behind the head.

    Raises:
        InvalidArgument: `not-deferrable`, deferred tools, or one of Anthropic's in the head;
            `wrong-type`; with the name of the tool `invalid-json`, `invalid-number`,
            `lone-surrogate` or `too-deep`, a schema that can't be written.

    >>> from ctxalgebra import Session, project, record, user
    >>> encode_request(project(record(Session(), user("hi"))))
    {'contents': [{'role': 'user', 'parts': [{'text': 'hi'}]}]}
    """
    refuse_deferred(request, deferred, "the Gemini API")
    fields: dict[str, Any] = plain(compact(write_head(request.head, {})))
    fields.pop("model", None)
    return {"contents": encode_contents(request.messages), **fields}


# The API


def speaks(value: Json) -> bool:
    """Say whether a value may be a content."""
    return isinstance(value, dict) and "parts" in value and "content" not in value


def read_usage(value: Json) -> Usage | None:
    """Read `usageMetadata`; None when there is none.

    The prompt's count includes what came from the cache; thoughts belong to the output; what tools
    of the provider's own read is input.
    """
    usage = as_object(value)

    def count(*names: str) -> int:
        return sum(integer(usage.get(name)) or 0 for name in names)

    counts = [
        count("promptTokenCount", "prompt_token_count")
        + count("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
        count("candidatesTokenCount", "candidates_token_count")
        + count("thoughtsTokenCount", "thoughts_token_count"),
        count("cachedContentTokenCount", "cached_content_token_count"),
    ]
    return usage_of(*counts)


def _plain_text(part: Json) -> str | None:
    """Give the text of a part that holds nothing else, but whether it is a thought."""
    fields = as_object(part)
    text = fields.get("text")
    return text if isinstance(text, str) and not fields.keys() - {"text", "thought"} else None


def _join(parts: list[Json]) -> list[Json]:
    """Join the texts of a stream."""
    runs: list[tuple[Json, list[str]]] = []
    for part in parts:
        text = _plain_text(part)
        if text is None:
            runs.append((part, []))
            continue
        thought = as_object(part).get("thought")
        if text and runs and runs[-1][1] and as_object(runs[-1][0]).get("thought") == thought:
            runs[-1][1].append(text)
        elif text:
            runs.append((part, [text]))
    return [{**as_object(p), "text": "".join(texts)} if texts else p for p, texts in runs]


def _read_answer(call: Interaction) -> tuple[list[Json], Usage | None]:
    """Read an answer; of a stream, all that it said as one content."""
    usage: Usage | None = None
    found: list[Body] = []
    for body in call.events or (call.answer,):
        usage = read_usage(get(body, "usageMetadata")) or usage
        candidates = body.get("candidates")
        first = candidates[0] if isinstance(candidates, list) and candidates else None
        content = as_object(as_object(first).get("content"))
        found += [content] if content.get("parts") else []
    if not call.events or not found:
        return [*found], usage
    parts = _join([part for content in found for part in raw_parts(content)])
    return [{**found[0], "parts": parts}], usage


API = Api(
    NAME,
    "contents",
    (":generateContent", ":streamGenerateContent"),
    speaks,
    read_head,
    write_head,
    ("model", "systemInstruction", "system_instruction", "tools"),
    _read_answer,
)


# Files


def _messages(reader: Reader, raw: str, value: Json | DecodeError) -> tuple[Message, ...]:
    """Read the messages of an element; none of an empty line."""
    if isinstance(value, DecodeError):
        raise value
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise DecodeError("wrong-type", "not an object")
    return reader.read(value, raw)


def decode(data: bytes, *, file: str | None = None, limit: int = LIMIT) -> Decoded:
    """Read contents from one of the containers.

    Args:
        data: the whole file.
        file: its name, for errors.
        limit: the longest JSON text that is read, in characters; of JSON Lines a longer line is
            only kept.

    Returns:
        The session and the list of repairs; their `line` is the place of the element.

    Raises:
        DecodeError: as the module's table of defects tells.

    >>> decoded = decode(b'[{"role": "user", "parts": [{"text": "hi"}]}]')
    >>> encode(decoded.session)
    b'[{"role": "user", "parts": [{"text": "hi"}]}]'
    """
    found = unpack(data, API, file=file, limit=limit)
    elements = Elements(found)
    reader = Reader()
    for raw, value in found.elements:
        try:
            messages = _messages(reader, raw, value)
        except DecodeError as error:
            elements.keep(raw, error)
            continue
        if messages:
            elements.say(raw, messages)
        else:
            elements.keep(raw)
    return elements.take_in(API, file)


def encode(session: Session) -> bytes:
    """Write the path to the leaf in the container that it was read from.

    What was read and not changed gives the same bytes. A session from elsewhere becomes a request
    body, with the model as a field of it.

    >>> from ctxalgebra import Session, record, user
    >>> encode(record(Session(), user("hi")))
    b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}'
    """

    def write(_: Body, said: list[Said]) -> list[str]:
        writer = Writer()
        for item in said:
            if item.message is None:
                writer.keep(item.raw)
            else:
                writer.add(item.message)
        return writer.texts()

    return pack(give_back(session, NAME, named=True), write, session.head, API)
