"""Tokens: how numbers of them are rounded and checked, and the plainest measure of messages.

All numbers are integers; estimates round up, limits and targets down.
"""

from __future__ import annotations

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import mistyped
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message
from ctxalgebra.model.view import Measure

__all__ = ["Measure", "ceil_div", "chars4", "check_positive"]


def ceil_div(numerator: int, denominator: int) -> int:
    """Divide, rounding up: the one rounding rule.

    >>> ceil_div(7, 4)
    2
    """
    return -(-numerator // denominator)


def chars4(value: Message | Head) -> int:
    """Estimate tokens as a quarter of the characters (code points), rounded up per message.

    Counts what `Message.characters` and `Head.characters` count. The host's rule counts UTF-16
    units instead (specification of the host's format, section 6).

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import user
    >>> chars4(user("12345"))
    2
    """
    try:
        return ceil_div(value.characters, 4)
    except AttributeError:
        raise mistyped(value, "a message or a head", "value") from None


def check_positive(*, optional: bool = False, **values: int | None) -> None:
    """Refuse numbers of tokens that are no positive integers; None passes where it is optional."""
    for name, value in values.items():
        if value is None and optional:
            continue
        if type(value) is not int or value <= 0:
            raise InvalidArgument(
                "invalid-argument", f"{name} must be a positive integer, not {value!r}", field=name
            )
