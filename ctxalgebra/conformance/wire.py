r"""JSON Lines of the conformance door: one line to a value and back, and when two values are equal.

Every text may stand here, also one with a lone surrogate, written as an escape: vectors show what
becomes of it. Numbers are those of JSON, so `1.0` and `1` are one value. An object
`{"$repeat":[text,count]}` stands for a long text, and `{"$concat":[texts]}` for one that is put
together; both are expanded where the reader says so, and never beyond its limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isclose, isfinite
from typing import Any, NoReturn, TypeAlias, cast

from ctxalgebra.codecs.lines import MAX_DEPTH
from ctxalgebra.errors import DecodeError

__all__ = ["LIMIT", "difference", "read", "write"]

LIMIT = 16 * 1024 * 1024
"""The longest line in bytes, and the most characters that its shorthands stand for."""

_DIGITS = 4300
"""The longest integer that Python reads and writes."""

_EXACT = 2**53
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_TOLERANCE = 1e-9


def _refuse(token: str) -> NoReturn:
    raise DecodeError("invalid-number", f"JSON has no number {token}")


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise DecodeError("invalid-number", "too many digits")
    return int(digits)


def _fraction(digits: str) -> int | float:
    value = float(digits)
    if not isfinite(value):
        raise DecodeError("invalid-number", "the number is out of range")
    return int(value) if value.is_integer() and abs(value) <= _EXACT else value


def _expander(limit: int) -> Callable[[dict[str, Any]], Any]:
    """Give a hook that expands shorthands, innermost first, up to so many characters in all."""
    left = limit

    def joined(texts: object) -> str:
        nonlocal left
        parts = cast("list[object]", texts)
        if not isinstance(texts, list) or not all(isinstance(part, str) for part in parts):
            raise DecodeError("wrong-type", "expected a list of texts", field="$concat")
        words = cast("list[str]", parts)
        left -= sum(map(len, words))
        return "".join(words) if left >= 0 else ""

    def repeated(pair: object) -> str:
        nonlocal left
        match pair:
            case [str(text), int(count)] if type(count) is int and count >= 0:
                left -= len(text) * count
                return text * count if left >= 0 else ""
            case _:
                raise DecodeError("wrong-type", "expected a text and a count", field="$repeat")

    def hook(value: dict[str, Any]) -> Any:
        if len(value) != 1:
            return value
        if "$repeat" in value:
            text = repeated(value["$repeat"])
        elif "$concat" in value:
            text = joined(value["$concat"])
        else:
            return value
        if left < 0:
            raise DecodeError("line-too-long", f"shorthands of more than {limit} characters")
        return text

    return hook


def _deep(text: str) -> bool:
    depth = 0
    for found in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if found[0] in "[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def read(line: bytes, *, limit: int = LIMIT, shorthand: bool = False) -> Any:
    r"""Read one line.

    Args:
        line: UTF-8, with or without its LF.
        limit: the longest that is read, in bytes.
        shorthand: expand `$repeat` and `$concat`.

    Raises:
        DecodeError: `line-too-long`, `invalid-utf8`, `too-deep`, `invalid-number`, `invalid-json`,
            `wrong-type` for a shorthand that is none.

    >>> read(b'{"a":[1.0,0.5,"\\ud800"]}')
    {'a': [1, 0.5, '\ud800']}
    >>> read(b'{"$concat":["a",{"$repeat":["b",3]}]}', shorthand=True)
    'abbb'
    """
    if len(line) > limit:
        raise DecodeError("line-too-long", f"more than {limit} bytes")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise DecodeError("invalid-utf8", f"byte {error.start + 1} of the line") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _deep(text):
        raise DecodeError("too-deep", f"more than {MAX_DEPTH} levels")
    try:
        return json.loads(
            text,
            object_hook=_expander(limit) if shorthand else None,
            parse_constant=_refuse,
            parse_float=_fraction,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        raise DecodeError("invalid-json", f"{error.msg} at column {error.colno}") from None


def write(value: Any) -> bytes:
    r"""Write one line, in ASCII: what is no ASCII is an escape, a lone surrogate too.

    Raises:
        ValueError: a number that JSON can't hold.

    >>> write({"a": "\u00e9\ud800"})
    b'{"a":"\\u00e9\\ud800"}\n'
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(expected: Any, given: Any) -> bool:
    if _number(expected) and _number(given):
        if expected == given or type(expected) is type(given) is int:
            return bool(expected == given)
        try:
            return isclose(expected, given, rel_tol=_TOLERANCE)
        except OverflowError:
            return False
    return type(expected) is type(given) and bool(expected == given)


def _show(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


_Place: TypeAlias = "tuple[str, _Place | None]"


def _at(place: _Place) -> str:
    """Write a place; it is kept step by step, since most are never written."""
    steps: list[str] = []
    step: _Place | None = place
    while step is not None:
        steps.append(step[0])
        step = step[1]
    return "".join(reversed(steps))


def difference(expected: Any, given: Any) -> str:
    """Say where two values first differ; empty when they are equal.

    Equality is that of JSON: the order of keys says nothing, `true` is no number, texts are equal
    by code points, and numbers with a fraction within 1e-9 of their size.

    >>> difference({"a": [1, True]}, {"a": [1, 1]})
    '$.a[1]: expected true, got 1'
    >>> difference(0.1 + 0.2, 0.3)
    ''
    """
    todo: list[tuple[_Place, Any, Any]] = [(("$", None), expected, given)]
    while todo:
        where, wanted, found = todo.pop()
        if isinstance(wanted, dict) and isinstance(found, dict):
            theirs, ours = cast("dict[str, Any]", wanted), cast("dict[str, Any]", found)
            for key in (*theirs, *ours):
                if key not in theirs:
                    return f"{_at(where)}: has {json.dumps(key)}, which is not expected"
                if key not in ours:
                    return f"{_at(where)}: lacks {json.dumps(key)}"
            todo.extend(((f".{key}", where), theirs[key], ours[key]) for key in reversed(theirs))
        elif isinstance(wanted, list) and isinstance(found, list):
            first = cast("list[object]", wanted)
            second = cast("list[object]", found)
            if len(first) != len(second):
                return f"{_at(where)}: expected {len(first)} items, got {len(second)}"
            pairs = enumerate(zip(first, second, strict=True))
            todo.extend(reversed([((f"[{at}]", where), a, b) for at, (a, b) in pairs]))
        elif not _equal(wanted, found):
            return f"{_at(where)}: expected {_show(wanted)}, got {_show(found)}"
    return ""
