"""VCR cassettes: recorded requests and answers of a provider's API, in YAML.

Only the part of YAML is read that says what JSON can say: mappings with text keys, sequences,
scalars. Aliases are refused (a few lines of them can stand for any amount of memory), and so is
nesting beyond `MAX_DEPTH`; nothing recurses. Needs pyyaml (the extra `yaml`).
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from attrs import frozen

from ctxalgebra.codecs.lines import LIMIT, MAX_DEPTH, Json, Number, broken, parse, string
from ctxalgebra.errors import DecodeError

__all__ = ["Interaction", "interactions", "read_yaml"]

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PLAIN: dict[str, Json] = {"": None, "~": None, "null": None, "true": True, "false": False}
_GZIP = "H4sI"
"""How gzip begins in base64."""
_NUMBERS = (".nan", ".inf", "-.inf", "+.inf")


@frozen
class Interaction:
    """One request and what came of it.

    Args:
        address: of the request; empty when the cassette does not tell.
        body: of the request.
        answer: the body of the response.
        events: those of a response that is a stream of them.
    """

    address: str
    body: dict[str, Json]
    answer: dict[str, Json]
    events: tuple[dict[str, Json], ...]


def _events(text: str, file: str | None) -> Iterator[Any]:
    """Parse YAML into events, with every failure of the parser as our error."""
    try:
        import yaml
    except ImportError:
        raise DecodeError(
            "missing-extra", "reading YAML needs pyyaml: install ctxalgebra[yaml]", file=file
        ) from None
    api: Any = yaml
    try:
        yield from api.parse(text, Loader=getattr(api, "CSafeLoader", api.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        reason = str(getattr(error, "problem", None) or "not YAML")
        code = "too-deep" if "depth" in reason else "invalid-yaml"
        raise DecodeError(code, reason, file=file, line=line) from None


def _scalar(event: Any, file: str | None, line: int) -> Json:
    value: str = event.value
    if broken(value):
        raise DecodeError("lone-surrogate", file=file, line=line)
    if event.style or not event.implicit[0]:
        return value
    if value in _PLAIN:
        return _PLAIN[value]
    if value.lower() in _NUMBERS:
        raise DecodeError("invalid-number", "JSON has no such number", file=file, line=line)
    return Number(value) if _NUMBER.fullmatch(value) else value


def read_yaml(text: str, *, file: str | None = None, unique: bool = False) -> Json:
    """Read a YAML document as a JSON value; numbers keep their text.

    Args:
        text: one document.
        file: its name, for errors.
        unique: refuse a key that stands twice, as YAML does; else the last one counts.

    Raises:
        DecodeError: `invalid-yaml`, `invalid-number`, `too-deep`, `missing-extra` (no pyyaml), with
            the line.

    >>> read_yaml("a: [1, '1', null]")
    {'a': [Number(text='1'), '1', None]}
    """
    root: list[Json] = []
    # What is open: the list or the object, and in an object the key that waits for its value.
    stack: list[list[Json] | dict[str, Json]] = [root]
    keys: list[str | None] = [None]
    for event in _events(text, file):
        name = type(event).__name__
        line = event.start_mark.line + 1
        if name in ("SequenceEndEvent", "MappingEndEvent"):
            stack.pop()
            keys.pop()
            continue
        inner: list[Json] | dict[str, Json] | None = None
        value: Json
        if name == "ScalarEvent":
            value = _scalar(event, file, line)
        elif name == "SequenceStartEvent":
            value = inner = []
        elif name == "MappingStartEvent":
            value = inner = {}
        elif name == "AliasEvent":
            raise DecodeError("invalid-yaml", "aliases are not read", file=file, line=line)
        else:
            continue
        if root and len(stack) == 1:
            raise DecodeError("invalid-yaml", "a second document", file=file, line=line)
        holder, key = stack[-1], keys[-1]
        if isinstance(holder, list):
            holder.append(value)
        elif key is None:
            if name != "ScalarEvent":
                raise DecodeError("invalid-yaml", "a key is no text", file=file, line=line)
            if unique and event.value in holder:
                raise DecodeError("invalid-yaml", "a key stands twice", file=file, line=line)
            keys[-1] = str(event.value)
        else:
            holder[key] = value
            keys[-1] = None
        if inner is not None:
            if len(stack) > MAX_DEPTH:
                raise DecodeError("too-deep", file=file, line=line)
            stack.append(inner)
            keys.append(None)
    return root[0] if root else None


def _inflated(text: str) -> str:
    """Unpack a body that was recorded as compressed bytes, in base64; the same text otherwise."""
    if not text.startswith(_GZIP):
        return text
    try:
        # Bounded: a few bytes can stand for any amount of memory.
        return zlib.decompressobj(47).decompress(b64decode(text), LIMIT).decode()
    except (ValueError, zlib.error):
        return text


def _value(text: str) -> Json:
    try:
        return parse(text)
    except DecodeError:
        return None


def _events_of(text: str) -> tuple[dict[str, Json], ...]:
    """Read server-sent events: the JSON of each."""
    lines = text.replace("\r\n", "\n").split("\n")
    values = [_value(line[5:]) for line in lines if line.startswith("data:")]
    return tuple(value for value in values if isinstance(value, dict))


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _body(value: Json) -> tuple[dict[str, Json], tuple[dict[str, Json], ...]]:
    """Read the body of a request or response: parsed, or as a text; JSON, or events."""
    holder = _object(value)
    body = holder.get("parsed_body", holder.get("body"))
    if isinstance(body, dict) and "string" in body:
        body = body["string"]
    if not isinstance(body, str):
        return _object(body), ()
    text = _inflated(body)
    found = _object(_value(text))
    return found, () if found else _events_of(text)


def interactions(text: str, *, file: str | None = None) -> list[Interaction]:
    """Read a cassette; what can't be read of an interaction is empty.

    Raises:
        DecodeError: as `read_yaml`; `missing-field`, there is no list `interactions`.
    """
    recorded = _object(read_yaml(text, file=file)).get("interactions")
    if not isinstance(recorded, list):
        raise DecodeError("missing-field", file=file, line=1, field="interactions")
    found: list[Interaction] = []
    for item in recorded:
        pair = _object(item)
        request = _object(pair.get("request"))
        answer, events = _body(pair.get("response"))
        body, _ = _body(request)
        found.append(Interaction(string(request.get("uri")), body, answer, events))
    return found
