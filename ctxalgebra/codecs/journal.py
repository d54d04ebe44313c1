r"""Our own journal: JSON Lines, one entry a line, written in canonical bytes, read strictly.

The first line is the header, `{"kind":"journal","spec":1}`. Each further line is an entry, or says
where the leaf went, `{"kind":"leaf","entry":N}` (-1: in front of the first entry). Of an entry:

* `kind` first; then `parent`, the number of the entry in front of it on its path (-1: none),
  where that is not the entry written before it; then the fields in the order in which
  `ctxalgebra.model.entries` declares them, parts and tools likewise;
* a field that has its default is left out; there are no nulls and no floats;
* UTF-8, no white space, strings as JSON.stringify writes them, LF behind each line.

A leaf that is not the last entry is told by one line at the end, so equal sessions have equal
bytes. Recording appends bytes, and so does moving the leaf; a file that was appended to may hold
lines on the leaf in other places, too. Reading takes what any JSON may have: white space between
values, CRLF, a byte order mark, keys in another order; such a file is not written back byte for
byte. Values are strict: a bool is no integer, 5 is no text, an unknown key is `extra-field`, and
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
from ctxalgebra.model.session import Node, Session, at_node, check_session

__all__ = ["HEADER", "NAME", "SPEC", "decode", "encode", "encode_since"]

NAME = "journal"
SPEC = 1
"""The version of the journal's format, in its header."""

HEADER = b'{"kind":"journal","spec":1}\n'
"""The first line."""

LEAF = "leaf"
"""The kind of the lines that move the leaf."""

_NAMED = re.compile(r'"(?:parent|entry)"\s*:\s*(-?[0-9]{1,15})(?![0-9])')
_DIGITS = 4300
"""The longest integer that Python reads and writes."""


@frozen
class _Header:
    spec: int


@frozen
class _Leaf:
    entry: int


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
    lines = split(data, file=file, limit=limit)
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise DecodeError("empty-file", file=file)
    _read_header(lines[0], file, limit)
    # What others name is kept; a name that is written otherwise is found, too, but for more.
    wanted = {int(found) for line in lines for found in _NAMED.findall(line)}
    kept: dict[int, Session] = {}
    nodes: list[Node | None] = []
    session = Session()

    def go(number: int) -> Session:
        there = kept.get(number)
        if there is not None:
            return Session(there.leaf, session.last, there.view)
        return at_node(session, nodes[number] if number >= 0 else None)

    for line, raw in enumerate(lines[1:], 2):
        value = parse(raw, file=file, line=line, limit=limit)
        number = len(session)
        try:
            if isinstance(value, dict) and value.get("kind") == LEAF:
                del value["kind"]
                moved: _Leaf = _structure(value, _Leaf)
                if not -1 <= moved.entry < number:
                    text = f"no entry {moved.entry}"
                    raise InvalidArgument("unknown-entry", text, field="entry")
                session = go(moved.entry)
                continue
            parent = number - 1
            if isinstance(value, dict) and "parent" in value:
                parent = _structure(value.pop("parent"), int, "parent")
                if not -1 <= parent < number:
                    raise InvalidArgument("unknown-parent", f"no entry {parent}", field="parent")
            entry: Entry = _structure(value, Entry)
            if parent != _number(session.leaf):
                session = go(parent)
            session = record(session, entry)
        except CtxError as error:
            raise DecodeError(
                error.code,
                error.message,
                file=file,
                line=line,
                entry=number,
                field=error.field,
            ) from None
        nodes.append(session.last)
        if number in wanted:
            kept[number] = session
    return Decoded(session, (), NAME)


def _read_header(raw: str, file: str | None, limit: int) -> None:
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


def encode_since(session: Session, stored: Session) -> bytes:
    """Write what the journal of an earlier session lacks, to be appended to it.

    Args:
        session: grown from `stored`.
        stored: what the journal holds, leaf included.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-number`, an integer of more than 4,300 digits.

    >>> from ctxalgebra import Session, record, user
    >>> stored = record(Session(), user("a"))
    >>> print(encode_since(record(stored, user("b")), stored).decode(), end="")
    {"kind":"message","role":"user","parts":[{"kind":"text","text":"b"}]}
    """
    check_session(session)
    check_session(stored)
    nodes: list[Node] = []
    node = session.last
    while node is not None and node.number >= len(stored):
        nodes.append(node)
        node = node.previous
    lines = list(map(_entry_line, reversed(nodes)))
    leaf = nodes[0] if nodes else stored.leaf
    if _number(session.leaf) != _number(leaf):
        lines.append(_line({"kind": LEAF, "entry": _number(session.leaf)}))
    return "".join(lines).encode()


def _number(node: Node | None) -> int:
    return -1 if node is None else node.number


def encode(session: Session) -> bytes:
    """Write a session as a journal: the same bytes for equal sessions.

    Raises:
        InvalidArgument: `invalid-number`, an integer of more than 4,300 digits.

    >>> from ctxalgebra import Session, record, user
    >>> print(encode(record(Session(), user("hi"))).decode(), end="")
    {"kind":"journal","spec":1}
    {"kind":"message","role":"user","parts":[{"kind":"text","text":"hi"}]}
    """
    return HEADER + encode_since(session, Session())
