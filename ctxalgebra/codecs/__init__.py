"""Codecs: sessions from bytes and back, one module a format, all of them pure.

Each has `decode(data, *, file, limit) -> Decoded` and `encode(session) -> bytes`; only `load`
touches the disk. What a file holds that a session has no place for survives, so that decoding and
encoding gives the same bytes (`ctxalgebra.codecs.intake` tells how). What a host would pass over is
a repair, listed in `Decoded.repairs`; a file of which nothing can be built is one `DecodeError`
with its code, line and field. The modules say which is which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from attrs import frozen

from ctxalgebra.codecs import (
    anthropic,
    claude_code,
    claude_code_encode,
    codex,
    codex_encode,
    gemini,
    journal,
    openai_chat,
    openai_responses,
    pi,
    pi_encode,
)
from ctxalgebra.codecs.cassette import read_yaml
from ctxalgebra.codecs.intake import Decoded, Repair
from ctxalgebra.codecs.lines import LIMIT, Json, filled, parse, read_file, split, string
from ctxalgebra.codecs.openai_chat import decode_messages, encode_messages, encode_request
from ctxalgebra.errors import DecodeError, InvalidArgument
from ctxalgebra.model.checks import check_text
from ctxalgebra.model.session import Session

__all__ = [
    "CODECS",
    "Codec",
    "Decoded",
    "Repair",
    "decode_messages",
    "detect",
    "encode_messages",
    "encode_request",
    "load",
]


class Decoder(Protocol):
    """Read a whole file."""

    def __call__(self, data: bytes, *, file: str | None = None, limit: int = LIMIT) -> Decoded:
        """Give the session and what was repaired."""
        ...


@frozen
class Codec:
    """Name a format, and read and write it."""

    name: str
    decode: Decoder
    encode: Callable[[Session], bytes]


CODECS: Mapping[str, Codec] = MappingProxyType(
    {
        journal.NAME: Codec(journal.NAME, journal.decode, journal.encode),
        pi.NAME: Codec(pi.NAME, pi.decode, pi_encode.encode),
        openai_chat.NAME: Codec(openai_chat.NAME, openai_chat.decode, openai_chat.encode),
        anthropic.NAME: Codec(anthropic.NAME, anthropic.decode, anthropic.encode),
        openai_responses.NAME: Codec(
            openai_responses.NAME, openai_responses.decode, openai_responses.encode
        ),
        gemini.NAME: Codec(gemini.NAME, gemini.decode, gemini.encode),
        claude_code.NAME: Codec(claude_code.NAME, claude_code.decode, claude_code_encode.encode),
        codex.NAME: Codec(codex.NAME, codex.decode, codex_encode.encode),
    }
)
"""All codecs, by the name of their format."""

_APIS = (openai_chat.API, anthropic.API, openai_responses.API, gemini.API)
"""The APIs whose calls are read from cassettes."""

_LOOKED_AT = 20
"""So many lines from the front decide what a file is."""


def _speaks(value: Json) -> bool:
    return isinstance(value, dict) and bool(string(value.get("role")))


def _format_of(value: Json) -> str | None:
    held = value
    if isinstance(value, dict):
        kind = string(value.get("type"))
        if value.get("kind") == journal.NAME:
            return journal.NAME
        if kind in pi.KINDS and (kind != "message" or isinstance(value.get("message"), dict)):
            return pi.NAME
        if claude_code.is_transcript(value):
            return claude_code.NAME
        if kind in codex.KINDS and isinstance(value.get("payload"), dict):
            return codex.NAME
        if gemini.speaks(value) or isinstance(value.get(gemini.API.key), list):
            return gemini.NAME
        held = value.get("messages")
    if isinstance(value, list) and any(map(gemini.speaks, value)):
        return gemini.NAME
    if openai_responses.holds_items(value):
        return openai_responses.NAME
    if anthropic.claims(value):
        return anthropic.NAME
    if isinstance(value, dict) and (_speaks(value) or "_type" in value or "observations" in value):
        return openai_chat.NAME
    chat = isinstance(held, list) and (not held or any(map(_speaks, held)))
    return openai_chat.NAME if chat else None


def _api_of(lines: Sequence[str], file: str | None) -> str:
    """Tell whose API is called first in a cassette."""
    for line in lines:
        for api in _APIS if "uri" in line else ():
            if any(part in line for part in api.addresses):
                return api.name
    # What is wrong with its YAML is the best that can be said.
    read_yaml("\n".join(lines), file=file)
    raise DecodeError("format-undetected", "calls of another API", file=file, line=1)


def detect(data: bytes, *, file: str | None = None) -> str:
    """Tell the format of a file from its first lines.

    Returns:
        A key of `CODECS`.

    Raises:
        DecodeError: `empty-file`, `invalid-utf8`, `format-undetected`, or what is wrong with its
            JSON.

    >>> detect(b'{"kind":"journal","spec":1}')
    'journal'
    """
    lines = split(data, file=file)
    said = filled(lines)
    if not said:
        raise DecodeError("empty-file", file=file)
    if any(line.startswith("interactions:") for line in lines):
        return _api_of(lines, file)
    names: list[str] = []
    objects = 0
    for line in said[:_LOOKED_AT]:
        try:
            value = parse(line)
        except DecodeError:
            continue
        objects += isinstance(value, dict) or (line is said[0] and isinstance(value, list))
        if (found := _format_of(value)) is not None:
            names.append(found)
    # A document over many lines; what is wrong with it is the best that can be said.
    if not objects and said[0][0] in "[{" and not names:
        found = _format_of(parse("\n".join(lines), file=file))
        names = [found] if found else []
    # A message that any API could hold is taken for Chat's if no other line says more.
    special = [name for name in names if name != openai_chat.NAME]
    if not names:
        raise DecodeError("format-undetected", file=file, line=1)
    return (special or names)[0]


def load(path: str | Path, format: str = "auto", *, limit: int = LIMIT) -> Decoded:
    """Read a session from a file.

    Args:
        path: of the file.
        format: a key of `CODECS`, or `auto` to look at its first lines.
        limit: the longest JSON text that is read, in characters.

    Raises:
        DecodeError: `unreadable` (absent, a directory, no permission), `empty-file`,
            `format-undetected`, or as the codec says; `file` is the path.
        InvalidArgument: `invalid-argument`, there is no such format, or the limit is less than 1;
            `wrong-type`.

    >>> load("/nowhere")
    Traceback (most recent call last):
    ...
    ctxalgebra.errors.DecodeError: unreadable: No such file or directory (file /nowhere)
    """
    check_text(format, "format")
    if format != "auto" and format not in CODECS:
        raise InvalidArgument("invalid-argument", f"no format {format!r}", field="format")
    data = read_file(path)
    name = detect(data, file=str(path)) if format == "auto" else format
    return CODECS[name].decode(data, file=str(path), limit=limit)
