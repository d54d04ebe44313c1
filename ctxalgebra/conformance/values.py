"""Values of the library in the JSON of the door: as a journal writes them, one entry an object.

A journal comes as the list of its entries, without the header; what an operation records goes out
the same way. Wording is free, so `why` is left out of what goes out, and the operations say which
texts stand as placeholders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

from attrs import NOTHING, AttrsInstance, fields

from ctxalgebra.codecs.journal import HEADER, decode, encode_since
from ctxalgebra.conformance.wire import read, write
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Image, Message, Opaque, Text, Thinking, ToolCall
from ctxalgebra.model.session import Session
from ctxalgebra.project import Request

__all__ = ["READERS", "InvalidInput", "messages_out", "recorded", "request_out"]

_PARTS: Mapping[str, type[Any]] = {
    kind.kind: kind for kind in (Text, Thinking, Image, ToolCall, Opaque)
}


class InvalidInput(Exception):
    """The input has the wrong shape; `str` says where."""


def read_session(value: Any) -> Session:
    """Read the entries of a journal, through the gate.

    Raises:
        DecodeError: as `journal.decode`; `entry` is the number of the entry.
    """
    if not isinstance(value, list):
        raise InvalidInput("expected a list of entries")
    entries = cast("list[object]", value)
    return decode(HEADER + b"".join(map(write, entries))).session


def _members(kind: type[Any]) -> tuple[frozenset[str], frozenset[str]]:
    """Give the names of all fields that can be set, and of those that must be."""
    own = [field for field in fields(kind) if field.init]
    return (
        frozenset(field.name for field in own),
        frozenset(field.name for field in own if field.default is NOTHING),
    )


_KINDS: list[type[Any]] = [Message, *_PARTS.values()]
_MEMBERS = {kind: _members(kind) for kind in _KINDS}


def _build(kind: type[Any], value: dict[str, Any]) -> Any:
    known, needed = _MEMBERS[kind]
    if value.keys() - known or needed - value.keys():
        raise InvalidInput(f"{kind.kind}: expected {', '.join(sorted(needed))}")
    try:
        return kind(**value)
    except InvalidArgument as error:
        if error.code != "wrong-type":
            raise
        raise InvalidInput(f"{kind.kind}: {error}") from None


def _tagged(value: Any, kinds: Mapping[str, type[Any]]) -> tuple[type[Any], dict[str, Any]]:
    """Tell the kind of an object from its tag, and give the rest."""
    if not isinstance(value, dict):
        raise InvalidInput("expected an object")
    rest = {**cast("dict[str, Any]", value)}
    tag = rest.pop("kind", None)
    if not isinstance(tag, str) or tag not in kinds:
        raise InvalidInput(f"expected one of the kinds {', '.join(kinds)}")
    return kinds[tag], rest


def read_message(value: Any) -> Message:
    """Read a message by itself; lists of messages need not be what the gate lets in.

    Raises:
        InvalidInput: it has another shape.
        InvalidArgument: `wrong-role`, `lone-surrogate`.
    """
    kind, rest = _tagged(value, {Message.kind: Message})
    parts = rest.get("parts")
    if isinstance(parts, list):
        given = cast("list[object]", parts)
        found = (_tagged(part, _PARTS) for part in given)
        rest["parts"] = tuple(_build(kind, fields) for kind, fields in found)
    message: Message = _build(kind, rest)
    return message


READERS: Mapping[type[Any], Callable[[Any], Any]] = MappingProxyType(
    {Session: read_session, Message: read_message}
)
"""How arguments of these types are read."""


def _set(value: AttrsInstance) -> dict[str, Any]:
    """Write the fields of a value that are not at their defaults."""
    return {
        field.name: getattr(value, field.name)
        for field in fields(type(value))
        if field.init and getattr(value, field.name) != field.default
    }


def message_out(message: Message) -> dict[str, Any]:
    """Write a message."""
    parts = [{"kind": part.kind, **_set(part)} for part in message.parts]
    return {"kind": message.kind, **_set(message), "parts": parts}


def messages_out(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Write messages."""
    return list(map(message_out, messages))


def _head_out(head: Head) -> dict[str, Any]:
    tools = [_set(tool) for tool in head.tools]
    return {"route": _set(head.route), "system": head.system, "tools": tools}


def request_out(request: Request) -> dict[str, Any]:
    """Write a request: its head with all fields, and its messages."""
    return {"head": _head_out(request.head), "messages": messages_out(request.messages)}


def recorded(
    before: Session, after: Session, *, placeholder: tuple[str, str] = ("", "")
) -> list[dict[str, Any]]:
    """Write what was recorded, without what is worded freely.

    Args:
        before: the session that was passed in.
        after: the one that came out.
        placeholder: a text that stands for free wording, and what goes out in its place.
    """
    text, shown = placeholder
    lines = encode_since(after, before).splitlines()
    entries: list[dict[str, Any]] = [read(line, limit=len(line)) for line in lines]
    for entry in entries:
        entry.pop("why", None)
        said: dict[str, Any] = entry.get("notice") or entry.get("message") or {}
        for part in said.get("parts", ()):
            if text and part.get("text") == text:
                part["text"] = shown
    return entries
