"""Values of unknown shape: what is no object has no members, what is no list no items."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import cast

from ctxalgebra.utf16 import trim

__all__ = ["items", "members", "number", "text"]


def members(value: object) -> Mapping[str, object]:
    """Give the members of an object.

    >>> members({"a": 1}), members([1])
    ({'a': 1}, {})
    """
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def items(value: object) -> list[object]:
    """Give the items of a list.

    >>> items([1]), items("ab")
    ([1], [])
    """
    return list(cast("list[object]", value)) if isinstance(value, list | tuple) else []


def text(value: object) -> str:
    r"""Give a text, trimmed.

    >>> text(" a\n"), text(5)
    ('a', '')
    """
    return trim(value) if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """Give a finite number.

    >>> number(5), number(True), number(float("nan"))
    (5, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or isfinite(value) else None
