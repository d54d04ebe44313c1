"""Parts of contents of the Gemini API: from their JSON to ours and back.

| part | what it becomes |
| --- | --- |
| `text` | `Text`; with `thought`, or empty with a signature, `Thinking` |
| `functionCall` of the model | `ToolCall`; the part's `thoughtSignature` is its signature |
| `functionResponse` of the user | what a tool message shows; images in its `parts` are `Image`s |
| `inlineData` of an image | `Image` |
| anything else | `Opaque`, under the name of its field |

Names of fields are read in both spellings of the API, `functionCall` and `function_call`.

The text of a result is that of `output` or `error`, where the response holds nothing else, and the
JSON text of the whole response otherwise, as the API reads it. A response that is written anew is
`{"output": text}` or `{"error": text}`.
"""

from __future__ import annotations

from ctxalgebra.codecs.lines import Json, compact, parse, string
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.parts import Image, Message, Opaque, Part, Text, Thinking, ToolCall

__all__ = [
    "as_object",
    "get",
    "name_of",
    "read_part",
    "read_response",
    "unwritten",
    "write_part",
    "write_result",
]

_SNAKE = {
    "codeExecutionResult": "code_execution_result",
    "executableCode": "executable_code",
    "fileData": "file_data",
    "functionCall": "function_call",
    "functionDeclarations": "function_declarations",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "mimeType": "mime_type",
    "parametersJsonSchema": "parameters_json_schema",
    "systemInstruction": "system_instruction",
    "thoughtSignature": "thought_signature",
    "usageMetadata": "usage_metadata",
}
_CAMEL = {snake: camel for camel, snake in _SNAKE.items()}
_BESIDE = frozenset(
    {"thought", "thoughtSignature", "thought_signature", "partMetadata", "part_metadata"}
    | {"videoMetadata", "video_metadata"}
)
"""Fields of a part that say something about its data."""

_INNER = "functionResponsePart"
"""The type of opaque parts inside a function response."""


def as_object(value: Json) -> dict[str, Json]:
    """Give an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def name_of(value: dict[str, Json], camel: str) -> str:
    """Give the name under which a field stands, or would."""
    snake = _SNAKE[camel]
    return snake if snake in value and camel not in value else camel


def get(value: dict[str, Json], camel: str) -> Json:
    """Give a field under either of its names; None when it is absent."""
    return value.get(name_of(value, camel))


# Reading


def _read_blob(value: Json) -> Image | None:
    blob = as_object(value)
    media, data = get(blob, "mimeType"), blob.get("data")
    if isinstance(media, str) and media.startswith("image/") and isinstance(data, str):
        return Image(data, media)
    return None


def read_part(value: Json, *, speaks: bool) -> Part:
    """Read a part that is no result.

    Args:
        value: the object.
        speaks: it is the model's, so that it may be thinking or a call. A call may have no id.

    >>> read_part({"functionCall": {"name": "ls"}, "thoughtSignature": "s"}, speaks=True)
    ToolCall(id='', name='ls', arguments='{}', signature='s')
    """
    part = as_object(value)
    signature = string(get(part, "thoughtSignature"))
    call = get(part, "functionCall")
    if speaks and isinstance(call, dict):
        arguments = call.get("args")
        text = "{}" if arguments is None else compact(arguments)
        return ToolCall(string(call.get("id")), string(call.get("name")), text, signature)
    if (image := _read_blob(get(part, "inlineData"))) is not None:
        return image
    kind = next((name for name in part if name not in _BESIDE), "")
    shown = part.get("text", "" if signature and not kind else None)
    thought = part.get("thought") is True
    if isinstance(shown, str) and speaks and (thought or (signature and not shown)):
        return Thinking(shown, signature)
    if isinstance(shown, str) and not thought:
        return Text(shown)
    return Opaque(_CAMEL.get(kind, kind), compact(value))


def read_response(value: dict[str, Json]) -> tuple[tuple[Part, ...], bool]:
    """Read a function response: what it shows, and whether the tool failed.

    >>> read_response({"response": {"error": "no such file"}})
    ((Text(text='no such file'),), True)
    """
    response = value.get("response")
    fields = as_object(response)
    failed = fields.get("error") not in (None, False, "") and "output" not in fields
    parts: list[Part] = []
    only = next(iter(fields)) if len(fields) == 1 else ""
    if only in ("output", "error") and isinstance(text := fields[only], str):
        parts.append(Text(text))
        failed = only == "error"
    elif fields or not isinstance(response, dict | None):
        parts.append(Text(compact(response)))
    inner = value.get("parts")
    for item in inner if isinstance(inner, list) else ():
        image = _read_blob(get(as_object(item), "inlineData"))
        parts.append(image or Opaque(_INNER, compact(item)))
    return tuple(parts), failed


# Writing


def _arguments(text: str) -> tuple[Json, bool]:
    """Give arguments as an object, and whether they are one."""
    try:
        value = parse(text, limit=len(text))
    except DecodeError:
        return {"input": text}, False
    return (value, True) if isinstance(value, dict) else ({"input": value}, False)


def _write_image(part: Image) -> dict[str, Json]:
    if part.media_type:
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
    return {"fileData": {"fileUri": part.data}}


def _opened(part: Opaque) -> dict[str, Json] | None:
    """Give the object in an opaque part; None for one that no part of this API can be."""
    try:
        value = parse(part.data, limit=len(part.data))
    except DecodeError:
        return None
    # Other providers tell their parts by `type`, which no part has here.
    return value if isinstance(value, dict) and part.type and "type" not in value else None


def write_part(part: Part, *, speaks: bool) -> dict[str, Json] | None:
    """Write a part anew, reading it gives the same; None for one that has no place here."""
    match part:
        case Text():
            return {"text": part.text}
        case Image():
            return _write_image(part)
        case Thinking():
            thought: dict[str, Json] = {"text": part.text}
            if part.text or not part.signature:
                thought["thought"] = True
            return None if part.redacted else _signed(thought, part.signature)
        case ToolCall():
            name: dict[str, Json] = {"id": part.id} if part.id else {}
            call: Json = {**name, "name": part.name, "args": _arguments(part.arguments)[0]}
            return _signed({"functionCall": call}, part.signature)
        case _:
            block = _opened(part)
            return block if block and read_part(block, speaks=speaks) == part else None


def _signed(part: dict[str, Json], signature: str) -> dict[str, Json]:
    return {**part, "thoughtSignature": signature} if signature else part


def _write_inner(part: Image | Opaque) -> dict[str, Json] | None:
    if isinstance(part, Image):
        return _write_image(part)
    return _opened(part) if part.type == _INNER else None


def write_result(message: Message, known: dict[str, Json], call: str) -> dict[str, Json]:
    """Write a tool message as a part.

    Args:
        message: the result.
        known: the part that it was read from; what that holds besides stays. Empty when there is
            none.
        call: the id of the call, to be written where `known` has one or is empty; empty for none.
    """
    outer = name_of(known, "functionResponse")
    inner = as_object(known.get(outer))
    fresh = {**inner}
    if call and (not known or string(inner.get("id"))):
        fresh["id"] = call
    if message.name or not known:
        fresh["name"] = message.name
    if not known or read_response(inner) != (message.parts, message.error):
        texts = [part.text for part in message.parts if isinstance(part, Text)]
        key = "error" if message.error else "output"
        fresh["response"] = {key: "".join(texts)} if texts or message.error else {}
        fresh.pop("parts", None)
        others = [_write_inner(p) for p in message.parts if isinstance(p, Image | Opaque)]
        if written := [part for part in others if part is not None]:
            fresh["parts"] = [*written]
    return {**known, outer: fresh}


def unwritten(message: Message) -> tuple[str, ...]:
    """List the kinds of what has no place in a content, or changes in it.

    Returns:
        `opaque` for each part of another provider, `thinking` for redacted thinking, `tool-call`
        for arguments that are no object (they stand in one), `image` for an image by its address
        (it becomes a file), `system` for a system message (it becomes the user's).

    >>> from ctxalgebra import assistant
    >>> unwritten(assistant("ok", Opaque("server_tool_use", "{}")))
    ('opaque',)
    """
    kinds = ["system"] * (message.role == "system")
    for part in message.parts:
        if isinstance(part, ToolCall):
            missing = not _arguments(part.arguments)[1]
        elif isinstance(part, Image):
            missing = not part.media_type.startswith("image/")
        elif isinstance(part, Opaque) and message.role == "tool":
            missing = _write_inner(part) is None
        else:
            missing = write_part(part, speaks=message.role == "assistant") is None
        kinds += [part.kind] * missing
    return tuple(kinds)
