"""Strict JSON, in one place: bytes to lines to values, and values back to text.

What is refused, with its code: bytes that are not UTF-8 (`invalid-utf8`), what JSON does not know
(`invalid-json`; NaN and Infinity are `invalid-number`), a surrogate without its pair
(`lone-surrogate`), nesting beyond `MAX_DEPTH` (`too-deep`, found by a scan before anything
recurses) and a text beyond the limit (`line-too-long`).

Lines end at LF and nowhere else: real files hold U+2028 and U+0085 inside strings. A CR in front
of the LF is white space to JSON, and a byte order mark in front of the first line is skipped. Of
two equal keys of an object the last one holds, at the place of the first, as in JavaScript.
Numbers keep the text they were written as: no digit is lost, and none can be too many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from math import isfinite
from pathlib import Path
from stat import S_ISDIR, S_ISFIFO, S_ISREG
from typing import Any, TypeAlias, TypeVar

from attrs import frozen

from ctxalgebra.errors import DecodeError, InvalidArgument
from ctxalgebra.model.checks import check_type, mistyped
from ctxalgebra.model.head import Usage

__all__ = [
    "BOM",
    "LIMIT",
    "MAX_DEPTH",
    "MOST",
    "Json",
    "Number",
    "blank",
    "broken",
    "clock",
    "compact",
    "drain",
    "filled",
    "integer",
    "iso",
    "kept",
    "objects",
    "parse",
    "plain",
    "quote",
    "read_file",
    "span",
    "spans",
    "split",
    "string",
    "usage_of",
]

MAX_DEPTH = 500
"""How many arrays and objects may stand inside one another."""

LIMIT = 64 * 1024 * 1024
"""The longest JSON text that is read, in characters, unless the caller says otherwise."""

MOST = 1 << 30
"""The longest file that is read, in bytes."""

BOM = "\ufeff"


T = TypeVar("T")


@frozen
class Number:
    """Keep a JSON number as it was written."""

    text: str


Json: TypeAlias = "dict[str, Json] | list[Json] | str | Number | bool | None"

_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=Number)


class _NoNumber(Exception):
    """NaN or Infinity was read."""


def _refuse(constant: str) -> Json:
    raise _NoNumber(constant)


_STRICT = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_refuse)
# The closing quote is optional, so that a string without one is passed over once and not again
# from each of its characters.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]|-?Infinity|NaN', re.DOTALL)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SPACE = " \t\r\n"

quote = json.encoder.encode_basestring
"""Write a string as JSON.stringify does."""


def split(data: bytes, *, file: str | None = None, limit: int = LIMIT) -> list[str]:
    r"""Decode UTF-8 and split at LF; what ends with LF has an empty last line.

    Every codec begins with this, so what callers give is checked here.

    Raises:
        InvalidArgument: `wrong-type`, these are no bytes, or the limit is no integer;
            `invalid-argument`, it is less than 1.
        DecodeError: `invalid-utf8`, with the line.

    >>> split(b"a\r\nb\n")
    ['a\r', 'b', '']
    """
    given: Any = data
    if not isinstance(given, bytes | bytearray):
        raise mistyped(data, "bytes", "data")
    check_type(limit, int, "limit")
    if limit < 1:
        raise InvalidArgument("invalid-argument", f"{limit} is less than 1", field="limit")
    try:
        return data.decode().split("\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        at = error.start - data.rfind(b"\n", 0, error.start)
        raise DecodeError("invalid-utf8", f"byte {at} of the line", file=file, line=line) from None


def drain(items: list[T]) -> Iterator[T]:
    """Give the items of a list in order, and let go of each.

    What is made of one takes its place in memory.

    >>> items = [1, 2]
    >>> list(drain(items)), items
    ([1, 2], [])
    """
    items.reverse()
    while items:
        yield items.pop()


def blank(text: str) -> bool:
    """Say whether a line holds only JSON white space."""
    return not text.strip(_SPACE)


def filled(lines: Iterable[str]) -> list[str]:
    """Leave out blank lines, and the white space and byte order mark in front of the others."""
    bare = (line.removeprefix(BOM).lstrip(_SPACE) for line in lines)
    return [line for line in bare if line]


def _path(value: Json, bad: type[Number | str]) -> str | None:
    """Find the first number that is none, or the first string with a lone surrogate."""
    todo: list[tuple[str, Json]] = [("", value)]
    while todo:
        where, item = todo.pop()
        if isinstance(item, dict):
            for key in item if bad is str else ():
                if broken(key):
                    return where or "."
            inner = [(f"{where}.{k}" if where else k, v) for k, v in item.items()]
            todo.extend(reversed(inner))
        elif isinstance(item, list):
            todo.extend(reversed([(f"{where}[{i}]", v) for i, v in enumerate(item)]))
        elif isinstance(item, bad) and (
            broken(item) if isinstance(item, str) else item.text[-1] in "Ny"
        ):
            return where or "."
    return None


def broken(text: str) -> bool:
    """Say whether a text holds a surrogate without its pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _check_depth(text: str) -> tuple[int, str] | None:
    """Find where nesting goes too deep: the offset, and the member of the outermost value."""
    depth = index = 0
    key = outer = ""
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in "[{":
            outer = outer or first
            depth += 1
            if depth > MAX_DEPTH:
                return token.start(), key if outer == "{" else f"[{index}]"
        elif first in "]}":
            depth -= 1
        elif depth == 1:
            index += first == ","
            key = token.group()[1:-1] if first == '"' else key
    return None


def _offset(text: str, bad: type[Number | str]) -> int:
    """Find where the first such number or string stands in a JSON text."""
    tokens = _TOKEN.finditer(text)
    if bad is Number:
        return next(token.start() for token in tokens if token.group()[-1] in "Ny")
    strings = (token for token in tokens if _SURROGATE.search(token.group()))
    return next(token.start() for token in strings if broken(json.loads(token.group())))


def _decode(text: str) -> tuple[Json, bool]:
    """Read JSON, and say whether a number in it is none: looking for one takes longer."""
    try:
        return _STRICT.decode(text), False
    except _NoNumber:
        return _DECODER.decode(text), True


def parse(text: str, *, file: str | None = None, line: int = 1, limit: int = LIMIT) -> Json:
    """Read one JSON text.

    Args:
        text: the whole of it; it may span lines.
        file, line: where it begins, for errors.
        limit: the longest text that is read, in characters.

    Raises:
        DecodeError: `invalid-json`, `invalid-number`, `lone-surrogate`, `too-deep`,
            `line-too-long`, with line and, inside a value, field.

    >>> parse('{"a": [1.50, "x"]}')
    {'a': [Number(text='1.50'), 'x']}
    """

    def refuse(code: str, message: str, offset: int, field: str | None = None) -> DecodeError:
        at = line + text.count("\n", 0, offset)
        return DecodeError(code, message, file=file, line=at, field=field)

    if len(text) > limit:
        raise DecodeError(
            "line-too-long", f"{len(text)} characters, the limit is {limit}", file=file, line=line
        )
    opened = text.count("[") + text.count("{") if len(text) > MAX_DEPTH else 0
    if opened > MAX_DEPTH and (deep := _check_depth(text)):
        raise refuse("too-deep", f"more than {MAX_DEPTH} levels", deep[0], deep[1] or ".")
    try:
        value, odd = _decode(text.removeprefix(BOM) if line == 1 else text)
    except json.JSONDecodeError as error:
        # Some of Python's messages end with a colon, and some with "at".
        problem = error.msg.rstrip(" :").removesuffix(" at")
        message = f"{problem} at column {error.colno}"
        raise refuse("invalid-json", message, error.pos) from None
    except RecursionError:
        raise refuse("too-deep", "the caller's stack is almost full", 0) from None
    if odd and (field := _path(value, Number)):
        raise refuse("invalid-number", "JSON has no such number", _offset(text, Number), field)
    if _SURROGATE.search(text) and (field := _path(value, str)):
        raise refuse("lone-surrogate", "a surrogate without its pair", _offset(text, str), field)
    return value


def kept(error: DecodeError) -> DecodeError:
    """Give an error that is kept for later: without the frames, and the texts in them, it came by.

    >>> try:
    ...     parse("{x")
    ... except DecodeError as error:
    ...     kept(error).__traceback__ is error.__context__ is None
    True
    """
    error.__context__ = None
    return error.with_traceback(None)


def compact(value: Json) -> str:
    """Write a value without white space: keys in order, numbers as they were written.

    Bytes are those of JavaScript's `JSON.stringify`, save for numbers, which it would rewrite.

    >>> compact(parse('{"b": 1.0, "a": [true, null]}'))
    '{"b":1.0,"a":[true,null]}'
    """
    if (text := _simple(value)) is not None:
        return text
    out: list[str] = []
    # What is still to be written: texts as they are, lists and objects to be opened.
    todo: list[Json] = [value]
    while todo:
        item = todo.pop()
        if not isinstance(item, dict | list):
            out.append(string(item))
            continue
        inner: list[Json] = []
        gap, end = ("{", "}") if isinstance(item, dict) else ("[", "]")
        for key, member in _named(item):
            text = _simple(member)
            inner += (f"{gap}{key}", member) if text is None else (f"{gap}{key}{text}",)
            gap = ","
        inner.append(end if inner else gap + end)
        inner.reverse()
        todo += inner
    return "".join(out)


def _simple(value: Json) -> str | None:
    """Write a value that holds no others; None for one that may."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, Number):
        return value.text
    if value is None:
        return "null"
    return ("true" if value else "false") if isinstance(value, bool) else None


def _named(value: dict[str, Json] | list[Json]) -> Iterator[tuple[str, Json]]:
    """Walk what an object or list holds, with what stands in front of it."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield f"{quote(key)}:", member
    else:
        for member in value:
            yield "", member


def plain(text: str) -> Any:
    """Read a JSON text that `parse` has accepted into Python's own numbers.

    A number that is too large for them stays a text: Python would make it an infinity, which JSON
    does not know.

    >>> plain("[1, 1.5, 1e400]")
    [1, 1.5, '1e400']
    """
    return json.loads(text, parse_int=_short, parse_float=_finite)


def _finite(digits: str) -> float | str:
    value = float(digits)
    return value if isfinite(value) else digits


def _short(digits: str) -> int | float | str:
    # Python refuses to read an integer of thousands of digits; JavaScript rounds it.
    return int(digits) if len(digits) < 4300 else _finite(digits)


def objects(values: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Json]]]:
    """Give Python objects, such as a client library takes, as JSON texts with their values.

    Raises:
        InvalidArgument: `wrong-type`, no list of objects, or a value that JSON does not know.
        DecodeError: as `parse`; `wrong-type`. `entry` is the index of the object.

    >>> next(objects([{"a": 1}]))
    ('{"a": 1}', {'a': Number(text='1')})
    """
    listed: Any = values
    if isinstance(listed, str | bytes | Mapping) or not isinstance(listed, Iterable):
        raise mistyped(values, "a list of objects", "values")
    for index, item in enumerate(values):
        try:
            raw = json.dumps(item, ensure_ascii=False)
            if broken(raw):
                raw = json.dumps(item)
            value = parse(raw)
        except DecodeError as error:
            raise DecodeError(error.code, error.message, entry=index, field=error.field) from None
        except (TypeError, RecursionError, ValueError) as error:
            raise InvalidArgument("wrong-type", str(error), entry=index) from None
        if not isinstance(value, dict):
            raise DecodeError("wrong-type", "not an object", entry=index)
        yield raw, value


def spans(text: str, path: tuple[str | int, ...]) -> tuple[int, int, list[tuple[int, int]]]:
    """Find the array at `path` in a JSON text: its start, its end and those of its elements.

    Args:
        text: a JSON text that `parse` has accepted.
        path: keys and indices from the outside in; the value there is an array.

    >>> spans('{"m": [1, 22]}', ("m",))
    (6, 13, [(7, 8), (10, 12)])
    """
    at = _find(text, path)
    inner = list(_members(text, at))
    end = _skip(text, inner[-1][2] if inner else at + 1) + 1
    return at, end, [(start, stop) for _, start, stop in inner]


def span(text: str, path: tuple[str | int, ...]) -> tuple[int, int]:
    """Find where the value at `path` begins and ends; as `spans`, for a value of any kind.

    >>> span('{"m": "x"}', ("m",))
    (6, 9)
    """
    at = _find(text, path)
    return at, _DECODER.raw_decode(text, at)[1]


def _find(text: str, path: tuple[str | int, ...]) -> int:
    at = _skip(text, len(BOM) if text.startswith(BOM) else 0)
    for step in path:
        found = at
        for name, start, _ in _members(text, at):
            # Of equal keys the last one holds.
            if name == step:
                found = start
        at = found
    return at


def _members(text: str, at: int) -> Iterator[tuple[str | int, int, int]]:
    """Walk the members of the array or object that begins at `at`: name, start and end."""
    isobject = text[at] == "{"
    at = _skip(text, at + 1)
    index = 0
    while text[at] not in "]}":
        name: str | int = index
        if isobject:
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, stop = _DECODER.raw_decode(text, at)
        yield name, at, stop
        at = _skip(text, stop)
        if text[at] == ",":
            at = _skip(text, at + 1)
        index += 1


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


def string(value: Json) -> str:
    """Give a string; empty for anything else."""
    return value if isinstance(value, str) else ""


def integer(value: Json, digits: int = 15) -> int | None:
    """Give an integer of at most so many digits, as JavaScript keeps exactly; else None.

    >>> integer(Number("12")), integer(Number("1.5")), integer("12")
    (12, None, None)
    """
    if isinstance(value, Number) and len(value.text) <= digits and _INTEGER.fullmatch(value.text):
        return int(value.text)
    return None


def usage_of(counted: int, output: int, read: int, write: int = 0) -> Usage | None:
    """Give what was counted; None when that is nothing, or negative.

    Where the cache has more than the input, the input was told without it, as some gateways do.

    >>> usage_of(3, 1, 100)
    Usage(input=103, output=1, cache_read=100, cache_write=0)
    """
    if min(counted, output, read, write) < 0 or not (counted or output or read or write):
        return None
    if read + write > counted:
        counted += read + write
    return Usage(counted, output, read, write)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = 253_402_300_799_999


def clock(text: str) -> int | None:
    """Read an ISO 8601 time with its zone into milliseconds since 1970; None if it is none.

    >>> clock("1970-01-01T00:00:01.500Z")
    1500
    """
    try:
        time = datetime.fromisoformat(text)
        return None if time.tzinfo is None else (time - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


def iso(time: int) -> str:
    """Write milliseconds since 1970 in ISO 8601, UTC, up to the year 9999.

    >>> iso(1500)
    '1970-01-01T00:00:01.500Z'
    """
    moment = _EPOCH + timedelta(milliseconds=min(max(time, 0), _LAST))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_file(path: str | Path) -> bytes:
    """Read a file, or a pipe to its end; the only function here that touches the disk.

    Raises:
        InvalidArgument: `wrong-type`, that is no path.
        DecodeError: `unreadable`, also what is neither a file nor a pipe (a device may never end)
            and what is longer than `MOST`; `empty-file`.
    """
    given: Any = path
    if not isinstance(given, str | Path):
        raise mistyped(path, "a path", "path")
    where = Path(path)
    try:
        mode = where.stat().st_mode
        if not (S_ISREG(mode) or S_ISFIFO(mode) or S_ISDIR(mode)):
            raise DecodeError("unreadable", "neither a file nor a pipe", file=str(path))
        with where.open("rb") as file:
            data = file.read(MOST + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, DecodeError):
            raise
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DecodeError("unreadable", why, file=str(path)) from None
    if len(data) > MOST:
        raise DecodeError("unreadable", f"longer than {MOST} bytes", file=str(path))
    if not data:
        raise DecodeError("empty-file", file=str(path))
    return data
