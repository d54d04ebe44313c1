r"""JSON of tool output as it was written: no digit of a number is lost (W2).

A number is Python's own where Python writes it in the same way, and a `Number`, which keeps its
text, where it doesn't. Strict: what JSON does not know is none, neither is what nests deeper than
`MAX_DEPTH`. Of two equal keys the last one holds, at the place of the first; no key is special
(W9). Lone surrogates may stand in texts, and are written as escapes. Source: skills and saver,
section 1.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, Final, NoReturn, TypeAlias

from attrs import frozen

__all__ = [
    "MAX_DEPTH",
    "Json",
    "Number",
    "compact",
    "leaves",
    "parse",
    "plain",
    "pretty",
    "same",
    "worth",
]

MAX_DEPTH: Final = 500
"""How many arrays and objects may stand inside one another."""


@frozen
class Number:
    """Keep a number as it was written."""

    text: str


Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | Number | bool | None"

_EXACT = 15  # so many digits are an integer everywhere, and quickly read


def _integer(text: str) -> int | Number:
    return Number(text) if len(text) > _EXACT or text == "-0" else int(text)


def _fraction(text: str) -> float | Number:
    value = float(text)
    return value if repr(value) == text else Number(text)


def _refuse(token: str) -> NoReturn:
    raise ValueError(f"JSON has no {token}")


_DECODER = json.JSONDecoder(parse_float=_fraction, parse_int=_integer, parse_constant=_refuse)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_ELSE = re.compile(r"[^\[\]{}]+")
_LONE = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")


def _deep(text: str) -> bool:
    """Say whether a JSON text nests too deep: each round takes away the innermost level."""
    brackets = _ELSE.sub("", _STRING.sub("", text))
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace("[]", "").replace("{}", "")
    return bool(brackets)


def parse(text: str) -> Json:
    """Read one JSON text.

    Raises:
        ValueError: it is none, or nests too deep.

    >>> parse('{"id": 12345678901234567890, "__proto__": 1.50}')
    {'id': Number(text='12345678901234567890'), '__proto__': Number(text='1.50')}
    """
    try:
        value: Json = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("the caller's stack is almost full") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _deep(text):
        raise ValueError(f"more than {MAX_DEPTH} levels")
    return value


def _quote(text: str) -> str:
    quoted = json.encoder.encode_basestring(text)
    return quoted if quoted.isascii() else _LONE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", quoted)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, Number):
        return value.text
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    return repr(value)


def _write(value: Json, indent: int, colon: str) -> str:
    """Write a value; each level stands so many blanks further in, none is one line."""
    out: list[str] = []
    todo: list[tuple[Json, int, str]] = [(value, 0, "")]  # what comes, how deep, what stands behind
    while todo:
        item, depth, behind = todo.pop()
        if item and isinstance(item, dict | list):
            inner = "\n" + " " * indent * (depth + 1) if indent else ""
            outer = "\n" + " " * indent * depth if indent else ""
            todo.append((_Raw(outer + ("}" if isinstance(item, dict) else "]")), depth, behind))
            last = len(item) - 1
            if isinstance(item, dict):
                out.append("{")
                opened = [(f"{inner}{_quote(key)}{colon}", member) for key, member in item.items()]
            else:
                out.append("[")
                opened = [(inner, member) for member in item]
            for at in range(last, -1, -1):
                before, member = opened[at]
                todo.append((member, depth + 1, "," if at < last else ""))
                if before:
                    todo.append((_Raw(before), depth, ""))
        elif isinstance(item, _Raw):
            out.append(item + behind)
        elif isinstance(item, dict | list):
            out.append(("{}" if isinstance(item, dict) else "[]") + behind)
        else:
            out.append(_scalar(item) + behind)
    return "".join(out)


class _Raw(str):
    """A piece of text that is written already."""

    __slots__ = ()


_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))


def compact(value: Json) -> str:
    """Write a value without white space.

    >>> compact(parse('{"b": 1.50, "a": [true, null, {}]}'))
    '{"b":1.50,"a":[true,null,{}]}'
    """
    try:
        text = _ENCODER.encode(value)
    except (TypeError, RecursionError):
        return _write(value, 0, ":")
    return text if text.isascii() or not _LONE.search(text) else _write(value, 0, ":")


def pretty(value: Json) -> str:
    r"""Write a value over lines, two blanks a level.

    >>> pretty(parse('{"a":[1,{}],"b":[]}'))
    '{\n  "a": [\n    1,\n    {}\n  ],\n  "b": []\n}'
    """
    return _write(value, 2, ": ")


def leaves(value: Json, *, filled: bool = False) -> str:
    """Give the texts of a value, a line each: those at its leaves, and keys of what says something.

    Args:
        value: any.
        filled: with the keys whose value is neither null, false, zero nor empty.

    >>> leaves(parse('{"error": null, "state": "ok", "failed": 2}'), filled=True).split()
    ['state', 'ok', 'failed']
    """
    found: list[str] = []
    todo: list[Json] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, list):
            todo.extend(reversed(item))
        elif isinstance(item, dict):
            for key, member in reversed(item.items()):
                todo.append(member)
                if filled and (worth(member) if isinstance(member, Number) else member):
                    todo.append(key)
    return "\n".join(found)


def worth(number: float | Number) -> Decimal | str:
    """Give what a number is worth, to the last digit; its text where that is beyond all bounds.

    >>> worth(Number("1.50")) == worth(1.5)
    True
    """
    text = number.text if isinstance(number, Number) else repr(number)
    try:
        return Decimal(text)
    except InvalidOperation:
        return text


def same(value: Json) -> tuple[str, object]:
    """Give what is equal for equal scalars only: 1 is 1.0, and neither is "1" nor true (W3).

    >>> same(1) == same(Number("1.0")), same(1) == same("1"), same(1) == same(True)
    (True, False, False)
    """
    if isinstance(value, int | float | Number) and not isinstance(value, bool):
        return "number", worth(value)
    return type(value).__name__, value


def plain(value: Json) -> Any:
    """Give a value with all numbers as Python's, which may cost digits of fractions.

    A number that Python has no room for stands as its text.

    >>> plain(parse('{"a": [1, 2.50, 12345678901234567890, 1e999]}'))
    {'a': [1, 2.5, 12345678901234567890, '1e999']}
    """
    holder: list[Any] = [None]
    todo: list[tuple[Json, Any, Any]] = [(value, holder, 0)]
    while todo:
        item, into, at = todo.pop()
        if isinstance(item, Number):
            into[at] = _python(item.text)
        elif isinstance(item, list):
            into[at] = [None] * len(item)
            todo.extend((member, into[at], index) for index, member in enumerate(item))
        elif isinstance(item, dict):
            into[at] = dict.fromkeys(item)
            todo.extend((member, into[at], key) for key, member in item.items())
        else:
            into[at] = item
    return holder[0]


_DIGITS: Final = 4000
"""Python reads and writes integers of little more digits."""


def _python(text: str) -> float | str:
    if text.removeprefix("-").isdigit():
        return int(text) if len(text) <= _DIGITS else text
    value = float(text)
    return value if isfinite(value) else text
