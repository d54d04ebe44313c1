"""What callers give to be written, checked before anything asks it for a field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ctxalgebra.model.checks import check_each, check_type, mistyped
from ctxalgebra.model.parts import Message
from ctxalgebra.project import Request

__all__ = ["check_request", "messages_of"]


def messages_of(values: Iterable[Message]) -> list[Message]:
    """List messages.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> messages_of([3])
    Traceback (most recent call last):
    ...
    ctxalgebra.errors.InvalidArgument: wrong-type: expected Message, got int (field messages)
    """
    listed: Any = values
    if not isinstance(listed, Iterable):
        raise mistyped(values, "messages", "messages")
    messages = [*values]
    check_each(messages, Message, "messages")
    return messages


def check_request(request: Request) -> None:
    """Refuse what is no request.

    Raises:
        InvalidArgument: `wrong-type`.
    """
    check_type(request, Request, "request")
