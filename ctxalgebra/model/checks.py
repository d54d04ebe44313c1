"""Checks of fields: values are right when they are made, so nothing behind asks again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from ctxalgebra.errors import InvalidArgument

__all__ = [
    "check_callable",
    "check_each",
    "check_fields",
    "check_items",
    "check_text",
    "check_type",
    "mistyped",
    "read_json",
]


def mistyped(value: object, expected: str, where: str) -> InvalidArgument:
    """Make the error for a value of the wrong type: `wrong-type`; `field` is `where`."""
    text = f"expected {expected}, got {type(value).__name__}"
    return InvalidArgument("wrong-type", text, field=where)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def read_json(text: str) -> object:
    """Read a JSON text as the standard has it, which knows no `NaN` and no `Infinity`.

    Raises:
        ValueError: it is none, or nests deeper than the stack.

    >>> read_json('{"a":1}')
    {'a': 1}
    """
    try:
        value: object = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nests too deep") from None
    return value


def check_text(value: object, where: str) -> None:
    """Refuse what is not a string of Unicode scalar values.

    Raises:
        InvalidArgument: `wrong-type`, `lone-surrogate`; `field` is `where`.
    """
    if not isinstance(value, str):
        raise mistyped(value, "a text", where)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidArgument("lone-surrogate", field=where) from None


def check_type(value: object, kind: type[Any], where: str) -> None:
    """Refuse what is not of exactly this type: a bool is no integer, a subclass is another type.

    Raises:
        InvalidArgument: `wrong-type`; `field` is `where`.
    """
    if type(value) is not kind:
        raise mistyped(value, kind.__name__, where)


def check_fields(value: object, /, **kinds: type[Any]) -> None:
    """Check fields of a value by name: texts as `check_text`, the others as `check_type`."""
    for name, kind in kinds.items():
        if kind is str:
            check_text(getattr(value, name), name)
        else:
            check_type(getattr(value, name), kind, name)


def check_items(value: object, kind: type[Any], where: str) -> None:
    """Refuse what is not a tuple of values of exactly this type."""
    check_type(value, tuple, where)
    items: Any = value
    for item in items:
        if kind is str:
            check_text(item, where)
        else:
            check_type(item, kind, where)


def check_each(value: object, kind: type[Any], where: str) -> None:
    """Refuse what is not a sequence, a list for instance, of values of exactly this type."""
    if not isinstance(value, Sequence):
        raise mistyped(value, f"a sequence of {kind.__name__}", where)
    items = cast("Sequence[object]", value)
    if not {kind}.issuperset(map(type, items)):
        raise mistyped(next(i for i in items if type(i) is not kind), kind.__name__, where)


def check_callable(value: object, where: str) -> None:
    """Refuse what can't be called."""
    if not callable(value):
        raise mistyped(value, "a function", where)
