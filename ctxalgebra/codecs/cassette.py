"""VCR cassettes: recorded requests and answers of the Chat API, in YAML.

Only the part of YAML is read that says what JSON can say: mappings with text keys, sequences,
scalars. Aliases are refused (a few lines of them can stand for any amount of memory), and so is
nesting beyond `MAX_DEPTH`; nothing recurses. Needs pyyaml (the extra `yaml`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from attrs import frozen

from ctxalgebra.codecs.chat_messages import read_usage
from ctxalgebra.codecs.lines import MAX_DEPTH, Json, Number, broken, parse, string
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.head import Usage

__all__ = ["CALL", "Interaction", "interactions", "read_yaml"]

CALL = "chat/completions"
"""What the address of a call of this API holds."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PLAIN: dict[str, Json] = {"": None, "~": None, "null": None, "true": True, "false": False}
_NUMBERS = (".nan", ".inf", "-.inf", "+.inf")


@frozen
class Interaction:
    """One request and what came of it.

    Args:
        body: of the request.
        answer: the message of the response, if it holds one.
        usage: what the response reports.
    """

    body: dict[str, Json]
    answer: dict[str, Json] | None
    usage: Usage | None


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


def read_yaml(text: str, *, file: str | None = None) -> Json:
    """Read a YAML document as a JSON value; numbers keep their text.

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


def _body(value: Json) -> dict[str, Json]:
    """Find the JSON body of a request or response: parsed, or as a text."""
    if not isinstance(value, dict):
        return {}
    body = value.get("parsed_body", value.get("body"))
    if isinstance(body, dict) and "string" in body:
        body = body["string"]
    if isinstance(body, str):
        try:
            body = parse(body)
        except DecodeError:
            return {}
    return body if isinstance(body, dict) else {}


def interactions(text: str, *, file: str | None = None) -> list[Interaction | None]:
    """Read a cassette; None stands for an interaction without chat messages.

    Raises:
        DecodeError: as `read_yaml`; `missing-field`, there is no list `interactions`.
    """
    value = read_yaml(text, file=file)
    recorded = value.get("interactions") if isinstance(value, dict) else None
    if not isinstance(recorded, list):
        raise DecodeError("missing-field", file=file, line=1, field="interactions")
    found: list[Interaction | None] = []
    for item in recorded:
        pair: dict[str, Json] = item if isinstance(item, dict) else {}
        body, response = _body(pair.get("request")), _body(pair.get("response"))
        request = pair.get("request")
        uri = request.get("uri") if isinstance(request, dict) else None
        other = isinstance(uri, str) and CALL not in uri
        if other or not isinstance(body.get("messages"), list):
            found.append(None)
            continue
        choices = response.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        answer = first.get("message") if isinstance(first, dict) else None
        known = isinstance(answer, dict) and bool(string(answer.get("role")))
        usage = read_usage(response.get("usage"))
        found.append(
            Interaction(body, answer if known and isinstance(answer, dict) else None, usage)
        )
    return found
