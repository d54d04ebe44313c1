"""What callers give to be written, checked before anything asks it for a field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ctxalgebra.codecs.lines import parse
from ctxalgebra.errors import DecodeError, InvalidArgument
from ctxalgebra.model.checks import check_each, check_type, mistyped
from ctxalgebra.model.head import Tool
from ctxalgebra.model.parts import Message
from ctxalgebra.project import Request

__all__ = ["check_request", "check_schemas", "messages_of"]


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


def check_schemas(tools: Iterable[Tool]) -> None:
    """Refuse tools whose schema can't be written, rather than send another one.

    Raises:
        InvalidArgument: `invalid-json`, the schema is no JSON; `invalid-number`, `lone-surrogate`
            or `too-deep`, what it holds; `field` is the name of the tool.

    >>> check_schemas([Tool("web", schema="not JSON")])
    Traceback (most recent call last):
    ...
    ctxalgebra.errors.InvalidArgument: invalid-json: the schema of a tool ... (field web)
    """
    for tool in tools:
        try:
            parse(tool.schema, limit=len(tool.schema))
        except DecodeError as error:
            text = f"the schema of a tool can't be written: {error.message}"
            raise InvalidArgument(error.code, text, field=tool.name) from None
