"""Deferred tools in requests: where each one is loaded, and which APIs can't do that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ctxalgebra.codecs.given import check_request, check_schemas
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.loading import Deferred, is_deferred
from ctxalgebra.model.checks import check_each
from ctxalgebra.model.head import Tool
from ctxalgebra.model.parts import Message, Part, Text
from ctxalgebra.project import Request

__all__ = ["moved", "placed", "refuse_deferred"]


def _refused(text: str, field: str = "deferred") -> InvalidArgument:
    return InvalidArgument("invalid-argument", text, field=field)


def placed(request: Request, deferred: Sequence[Deferred]) -> dict[int, list[Tool]]:
    """Map the index of each result that loads tools to these.

    Args:
        request: to be sent.
        deferred: of `deferred_tools`, asked of the session that gave the request.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, a tool that stands in the head or comes
            twice, an index at which the request has no result, or one without an entry number; as
            `check_schemas`.
    """
    check_request(request)
    check_each(deferred, Deferred, "deferred")
    found: dict[int, list[Tool]] = {}
    check_schemas((*request.head.tools, *(one.tool for one in deferred)))
    known = {tool.name for tool in request.head.tools}
    for one in deferred:
        if one.tool.name in known:
            raise _refused(f"the request has a tool {one.tool.name!r} already")
        known.add(one.tool.name)
        if one.index < 0:
            continue
        messages = request.messages
        if one.at < 0:
            raise _refused(f"the result at {one.index} has no entry number")
        if one.index >= len(messages) or messages[one.index].role != "tool":
            raise _refused(f"the request has no result at {one.index}")
        found.setdefault(one.index, []).append(one.tool)
    return found


def refuse_deferred(
    request: Request, deferred: Sequence[Deferred], api: str, *, others: bool = False
) -> None:
    """Refuse tools that an API can't load or write, rather than leave them out.

    Args:
        request: to be sent; a tool in its head that was read as a deferred one of Anthropic's is
            refused, too.
        deferred: of `deferred_tools`.
        api: its name, for people.
        others: it can load tools, but not those.

    Raises:
        InvalidArgument: `not-deferrable`; `wrong-type`; as `check_schemas`.
    """
    check_request(request)
    check_each(deferred, Deferred, "deferred")
    fields: Mapping[str, list[Tool]] = {
        "deferred": [] if others else [one.tool for one in deferred],
        "request": [tool for tool in request.head.tools if is_deferred(tool)],
    }
    for field, tools in fields.items():
        if tools:
            names = ", ".join(repr(tool.name) for tool in tools)
            text = f"{api} can't load these behind the head: {names}"
            raise InvalidArgument("not-deferrable", text, field=field)
    check_schemas(request.head.tools)


def _is_blank(part: Part) -> bool:
    return isinstance(part, Text) and not part.text.strip()


def moved(messages: Sequence[Message], said: Mapping[int, Sequence[Part]]) -> Iterator[Message]:
    """Give messages with what results said behind the run of results that they stand in.

    An API keeps references to tools and texts apart; where texts stand only behind all results of
    a round (V-A3), that is where they go.

    Args:
        messages: in order.
        said: the parts by the index of their result; blank texts are left out (V-A6).
    """
    waiting: list[Part] = []
    for index, message in enumerate(messages):
        if waiting and message.role != "tool":
            yield Message("user", tuple(waiting))
            waiting.clear()
        yield message
        waiting += (part for part in said.get(index, ()) if not _is_blank(part))
    if waiting:
        yield Message("user", tuple(waiting))
