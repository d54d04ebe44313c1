r"""Our own journal: JSON Lines, one entry a line, canonical bytes, everything strict.

The first line is the header, `{"kind":"journal","spec":1}`, with `"leaf":N` where the leaf is not
the last entry (-1: in front of the first). Each further line is an entry:

* `kind` first; then `parent`, the number of the entry in front of it on its path (-1: none),
  where that is not the entry on the line before; then the fields in the order in which
  `ctxalgebra.model.entries` declares them, parts and tools likewise;
* a field that has its default is left out; there are no nulls and no floats;
* UTF-8, no white space, strings as JSON.stringify writes them, LF behind each line.

So equal sessions have equal bytes, and recording appends bytes, as long as the leaf is the last
entry. Reading is strict: a bool is no integer, 5 is no text, an unknown key is `extra-field`, and
any defect is an error with its line and field. Entries go through the gate: an illegal journal is
refused with the gate's code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from attrs import frozen, has
from cattrs import (
    AttributeValidationNote,
    BaseValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn

from ctxalgebra.codecs.intake import Decoded
from ctxalgebra.codecs.lines import LIMIT, Json, Number, integer, parse, split, string
from ctxalgebra.errors import CtxError, DecodeError, InvalidArgument
from ctxalgebra.model.entries import Entry
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import Part
from ctxalgebra.model.session import Node, Session, at_leaf

__all__ = ["NAME", "SPEC", "decode", "encode", "encode_since"]

NAME = "journal"
SPEC = 1
"""The version of the journal's format, in its header."""

_PARENT = re.compile(r'"parent"\s*:\s*(-?[0-9]{1,15})(?![0-9])')
_DIGITS = 4300
"""The longest integer that Python reads and writes."""


@frozen
class _Header:
    spec: int
    leaf: int | None = None


# Reading values: private, strict, and nothing of it touches the classes.

Hook = Callable[[Any, Any], Any]


def _strict(kind: type) -> Hook:
    def hook(value: Json, _: Any) -> Any:
        if type(value) is not kind:
            text = f"expected {_NAMES[kind]}, got {_name(value)}"
            raise InvalidArgument("wrong-type", text)
        return value

    return hook


_NAMES: dict[type, str] = {
    NoneType: "null",
    Number: "a number",
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "a truth value",
}


def _name(value: Json) -> str:
    return _NAMES[type(value)]


def _int(value: Json, _: Any) -> int:
    number = integer(value, _DIGITS)
    if number is None:
        if isinstance(value, Number) and len(value.text) > _DIGITS:
            raise InvalidArgument("invalid-number", "too many digits")
        raise InvalidArgument("wrong-type", f"expected an integer, got {_name(value)}")
    return number


def _literal(kind: Any, _converter: Converter) -> Hook:
    def hook(value: Json, _: Any) -> Any:
        if not isinstance(value, str) or value not in get_args(kind):
            raise InvalidArgument("invalid-argument", f"expected one of {get_args(kind)}")
        return value

    return hook


def _tuple(kind: Any, converter: Converter) -> Hook:
    args = get_args(kind)
    length = None if args[-1] is Ellipsis else len(args)
    inner = converter.get_structure_hook(args[0])

    def hook(value: Json, _: Any) -> Any:
        if not isinstance(value, list):
            raise InvalidArgument("wrong-type", f"expected a list, got {_name(value)}")
        if length not in (None, len(value)):
            raise InvalidArgument("wrong-type", f"expected {length} items, got {len(value)}")
        items: list[Any] = []
        for index, item in enumerate(value):
            try:
                items.append(inner(item, args[0]))
            except Exception as error:
                error.add_note(IterableValidationNote(f"index {index}", index, args[0]))
                raise
        return tuple(items)

    return hook


def _optional(kind: Any, converter: Converter) -> Hook:
    (inner,) = (arg for arg in get_args(kind) if arg is not NoneType)
    hook = converter.get_structure_hook(inner)
    # What is None is left out, so that a null is no value.
    return lambda value, _: hook(value, inner)


def _object(kind: Any, converter: Converter) -> Hook:
    inner = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)
    check = _strict(dict)
    return lambda value, _: inner(check(value, kind), kind)


def _tagged(union: Any, converter: Converter) -> Hook:
    table = {kind.kind: kind for kind in get_args(union)}

    def hook(value: Json, _: Any) -> Any:
        if not isinstance(value, dict):
            raise InvalidArgument("wrong-type", f"expected an object, got {_name(value)}")
        if "kind" not in value:
            raise InvalidArgument("missing-field", field="kind")
        kind = table.get(string(value["kind"]))
        if kind is None:
            raise InvalidArgument("unknown-kind", field="kind")
        return converter.structure({k: v for k, v in value.items() if k != "kind"}, kind)

    return hook


def _is(what: Any) -> Callable[[Any], bool]:
    return lambda kind: kind == what or get_origin(kind) is what


def _converter() -> Converter:
    converter = Converter(omit_if_default=True)

    def make(applies: Callable[[Any], bool], hook: Callable[[Any, Converter], Hook]) -> None:
        def factory(kind: Any, owner: Converter) -> Hook:
            return hook(kind, owner)

        converter.register_structure_hook_factory(applies, factory)

    for kind in (str, bool):
        converter.register_structure_hook(kind, _strict(kind))
    converter.register_structure_hook(int, _int)
    make(has, _object)
    make(_is(Literal), _literal)
    make(_is(tuple), _tuple)
    make(lambda kind: NoneType in get_args(kind), _optional)

    def tagged(value: Any) -> dict[str, Any]:
        return {"kind": value.kind, **converter.unstructure(value)}

    for union in (Part, Entry):
        make(_is(union), _tagged)
        converter.register_unstructure_hook_func(_is(union), tagged)
    return converter


_CONVERTER = _converter()


def _blame(error: BaseException) -> tuple[str, str, str]:
    """Find the first cause and its path: code, message, field."""
    path: list[str] = []
    while True:
        notes: list[AttributeValidationNote | IterableValidationNote]
        notes = getattr(error, "__notes__", [])
        for note in reversed(notes):
            if isinstance(note, IterableValidationNote):
                path.append(f"[{note.index}]")
            else:
                path.append(f".{note.name}" if path else note.name)
        if not isinstance(error, BaseValidationError):
            break
        error = error.exceptions[0]
    code, message, last = "missing-field", "", ""
    if isinstance(error, InvalidArgument):
        code, message, last = error.code, error.message, error.field or ""
    elif isinstance(error, ForbiddenExtraKeysError):
        code, last = "extra-field", min(error.extra_fields)
    if last:
        path.append(f".{last}" if path else last)
    return code, message, "".join(path)


def _structure(value: Json, kind: Any, name: str = "") -> Any:
    try:
        return _CONVERTER.structure(value, kind)
    except (BaseValidationError, InvalidArgument) as error:
        code, message, field = _blame(error)
        raise InvalidArgument(code, message, field=field or name or None) from None


def decode(data: bytes, *, file: str | None = None, limit: int = LIMIT) -> Decoded:
    """Read a journal; any defect is an error.

    Args:
        data: the whole file.
        file: its name, for errors.
        limit: the longest line that is read, in characters.

    Returns:
        The session; no repairs.

    Raises:
        DecodeError: `empty-file`, `missing-header`, `unknown-parent`, `unknown-entry`, a code of
            `ctxalgebra.codecs.lines`, of a value (`wrong-type`, `extra-field`, `missing-field`,
            `unknown-kind`, `invalid-argument`, ...) or of the gate, with line and field.

    >>> from ctxalgebra import Session, record, user
    >>> session = record(Session(), user("hi"))
    >>> decode(encode(session)).session == session
    True
    """
    lines = split(data, file=file)
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise DecodeError("empty-file", file=file)
    leaf = _read_header(lines[0], file, limit)
    wanted = {int(found) for line in lines for found in _PARENT.findall(line)}
    kept: dict[int, Session] = {}
    session = Session()
    for number, raw in enumerate(lines[1:]):
        value = parse(raw, file=file, line=number + 2, limit=limit)
        try:
            parent = number - 1
            if isinstance(value, dict) and "parent" in value:
                parent = _structure(value.pop("parent"), int, "parent")
                if not -1 <= parent < number:
                    raise InvalidArgument("unknown-parent", f"no entry {parent}", field="parent")
            entry: Entry = _structure(value, Entry)
            if parent != number - 1:
                there = kept.get(parent) or at_leaf(session, parent)
                session = Session(there.leaf, session.last, there.view)
            session = record(session, entry)
        except CtxError as error:
            raise DecodeError(
                error.code,
                error.message,
                file=file,
                line=number + 2,
                entry=number,
                field=error.field,
            ) from None
        if number in wanted:
            kept[number] = session
    if leaf is not None:
        if not -1 <= leaf < len(session):
            raise DecodeError("unknown-entry", f"no entry {leaf}", file=file, line=1, field="leaf")
        session = at_leaf(session, leaf)
    return Decoded(session, (), NAME)


def _read_header(raw: str, file: str | None, limit: int) -> int | None:
    value = parse(raw, file=file, limit=limit)
    if not isinstance(value, dict) or value.pop("kind", None) != NAME:
        raise DecodeError("missing-header", file=file, line=1, field="kind")
    try:
        header: _Header = _structure(value, _Header)
    except InvalidArgument as error:
        raise DecodeError(error.code, error.message, file=file, line=1, field=error.field) from None
    if header.spec != SPEC:
        raise DecodeError(
            "missing-header", f"spec {header.spec} is not known", file=file, line=1, field="spec"
        )
    return header.leaf


def _line(value: dict[str, Any]) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
    except ValueError:
        raise InvalidArgument("invalid-number", "an integer has too many digits") from None


def _entry_line(node: Node) -> str:
    fields = _CONVERTER.unstructure(node.entry, Entry)
    parent = -1 if node.parent is None else node.parent.number
    place = {} if parent == node.number - 1 else {"parent": parent}
    return _line({"kind": fields.pop("kind"), **place, **fields})


def encode_since(session: Session, number: int) -> bytes:
    """Write the lines of the entries from this number on, to be appended to a journal.

    They make a whole journal with what was written before as long as the leaf is the last entry.
    """
    nodes: list[Node] = []
    node = session.last
    while node is not None and node.number >= number:
        nodes.append(node)
        node = node.previous
    return "".join(map(_entry_line, reversed(nodes))).encode()


def encode(session: Session) -> bytes:
    """Write a session as a journal: the same bytes for equal sessions.

    Raises:
        InvalidArgument: `invalid-number`, an integer of more than 4,300 digits.

    >>> from ctxalgebra import Session, record, user
    >>> print(encode(record(Session(), user("hi"))).decode(), end="")
    {"kind":"journal","spec":1}
    {"kind":"message","role":"user","parts":[{"kind":"text","text":"hi"}]}
    """
    header: dict[str, Any] = {"kind": NAME, "spec": SPEC}
    if session.leaf is not session.last:
        header["leaf"] = -1 if session.leaf is None else session.leaf.number
    return _line(header).encode() + encode_since(session, 0)
