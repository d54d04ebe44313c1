"""Checks of fields: values are right when they are made, so nothing behind asks again."""

from __future__ import annotations

from typing import Any

from ctxalgebra.errors import InvalidArgument

__all__ = ["check_fields", "check_items", "check_text", "check_type"]


def check_text(value: object, where: str) -> None:
    """Refuse what is not a string of Unicode scalar values.

    Raises:
        InvalidArgument: `wrong-type`, `lone-surrogate`; `field` is `where`.
    """
    if not isinstance(value, str):
        raise InvalidArgument(
            "wrong-type", f"expected a text, got {type(value).__name__}", field=where
        )
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
        raise InvalidArgument(
            "wrong-type", f"expected {kind.__name__}, got {type(value).__name__}", field=where
        )


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
