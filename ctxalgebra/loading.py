"""Tools that a provider loads behind the head, at a tool result: what they are to the cache.

Such a tool is no part of the prefix: its definition stands where a result refers to it (provider
rules 1.2, T3). In a journal that is a result and a tool (`Deferred`); in a body of the Anthropic
API, and in a head that was read from one, it is a definition with `defer_loading` and a
`tool_reference` in the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import cast

from attrs import evolve, frozen

from ctxalgebra.model.checks import check_fields, check_type
from ctxalgebra.model.head import Head, Tool
from ctxalgebra.model.parts import Message, Opaque

__all__ = ["REFERENCE", "Deferred", "immediate", "is_deferred", "is_whole", "loads", "referred"]

REFERENCE = "tool_reference"
"""The type of the parts that refer to a deferred tool."""

_FLAG = "defer_loading"


@frozen
class Deferred:
    """Hold a tool that stands behind the head.

    Args:
        tool: as it is sent: as it was registered when it was loaded first.
        at: the entry number of the result that loads it; -1 while there is none.
        index: of that result among the messages of the request; -1 while it is not shown.
        active: whether it may still be called. What was loaded stays in sight of the model until
            its result leaves: taking the reference out would be a break.

    Raises:
        InvalidArgument: `wrong-type`.
    """

    tool: Tool
    at: int = -1
    index: int = -1
    active: bool = True

    def __attrs_post_init__(self) -> None:
        check_type(self.tool, Tool, "tool")
        check_fields(self, at=int, index=int, active=bool)


@lru_cache(maxsize=1024)
def _definition(name: str, schema: str) -> dict[str, object]:
    """Read the definition that a schema is; empty for one of parameters, which names no tool."""
    try:
        value: object = json.loads(schema)
    except (ValueError, RecursionError):
        return {}
    known = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    whole = known.get("name") == name and not isinstance(known.get("properties"), dict)
    return known if whole else {}


def is_whole(tool: Tool) -> bool:
    """Say whether the schema of a tool is all of its definition, as that of a server tool.

    >>> is_whole(Tool("web", "", '{"type":"web_search","name":"web"}')), is_whole(Tool("web"))
    (True, False)
    """
    return '"name"' in tool.schema and bool(_definition(tool.name, tool.schema))


def is_deferred(tool: Tool) -> bool:
    """Say whether a tool of a head is one that Anthropic loads behind it.

    >>> is_deferred(Tool("web", "", '{"name":"web","defer_loading":true}')), is_deferred(Tool("a"))
    (True, False)
    """
    return _FLAG in tool.schema and _definition(tool.name, tool.schema).get(_FLAG) is True


def immediate(head: Head) -> Head:
    """Give the head as the prefix has it: without deferred tools; the same object without any.

    >>> immediate(Head(tools=(Tool("a"), Tool("b", "", '{"name":"b","defer_loading":true}')))).tools
    (Tool(name='a', description='', schema='{}'),)
    """
    kept = tuple(tool for tool in head.tools if not is_deferred(tool))
    return head if len(kept) == len(head.tools) else evolve(head, tools=kept)


def referred(message: Message) -> tuple[str, ...]:
    """List the names of the tools that a message refers to, in order."""
    parts = (part for part in message.parts if isinstance(part, Opaque) and part.type == REFERENCE)
    return tuple(name for part in parts if (name := _name(part.data)))


def _name(data: str) -> str:
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    name = cast("dict[str, object]", value).get("tool_name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""


def loads(head: Head, messages: Iterable[Message]) -> dict[int, tuple[Tool, ...]]:
    """Map the index of each message that loads deferred tools of a head to these.

    A tool is loaded where it is first referred to.

    >>> from ctxalgebra import tool_result
    >>> web = Tool("web", "", '{"name":"web","defer_loading":true}')
    >>> result = tool_result("c", (Opaque("tool_reference", '{"tool_name":"web"}'),))
    >>> [*loads(Head(tools=(web,)), (result, result))]
    [0]
    """
    left = {tool.name: tool for tool in head.tools if is_deferred(tool)}
    found: dict[int, tuple[Tool, ...]] = {}
    if not left:
        return found
    for index, message in enumerate(messages):
        names = [name for name in referred(message) if name in left]
        if names:
            found[index] = tuple(left.pop(name) for name in dict.fromkeys(names))
    return found
