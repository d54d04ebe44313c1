"""What a model wrote as the arguments of a call, checked against the schema of the tool.

Only flat schemas are known: the type of each member, choices, what is required. What is in a list,
and bounds, are the caller's, who may bring a number into them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_text, check_type, read_json
from ctxalgebra.model.head import Tool
from ctxalgebra.model.parts import ToolCall

__all__ = ["arguments_of", "schema"]

_SHOWN = 60
_TYPES: Mapping[str, type] = MappingProxyType({"integer": int, "boolean": bool, "array": list})


def schema(required: list[str], **properties: Mapping[str, Any]) -> str:
    """Write the schema of a tool, without white space.

    >>> schema(["name"], name={"type": "string"})
    ... # doctest: +NORMALIZE_WHITESPACE
    '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}'
    """
    shape = {"type": "object", "properties": properties, "required": required}
    return json.dumps({**shape, "additionalProperties": False}, separators=(",", ":"))


def arguments_of(call: ToolCall, tool: Tool) -> dict[str, Any]:
    """Read what the model wrote: members of the schema with their types, nulls left out.

    Args:
        call: of the tool.
        tool: as it was offered.

    Raises:
        InvalidArgument: `invalid-argument`, no JSON, no object, a member that does not exist, one
            that is missing, or none of the choices; `wrong-type`; `lone-surrogate`; with the field.

    >>> tool = Tool("t", schema=schema(["n"], n={"type": "integer"}))
    >>> arguments_of(ToolCall("c1", "t", '{"n":2.0}'), tool)
    {'n': 2}
    """
    try:
        value: object = read_json(call.arguments)
    except ValueError:
        raise InvalidArgument("invalid-argument", "the arguments are no JSON") from None
    if not isinstance(value, dict):
        raise InvalidArgument("invalid-argument", "the arguments are no object")
    given = {name: v for name, v in cast("dict[str, Any]", value).items() if v is not None}
    shape = json.loads(tool.schema)
    for name, member in given.items():
        kind = shape["properties"].get(name)
        if kind is None:
            where = name[:_SHOWN]
            raise InvalidArgument("invalid-argument", "there is no such argument", field=where)
        if kind["type"] == "string":
            check_text(member, name)
        else:
            if kind["type"] == "integer" and type(member) is float and member.is_integer():
                given[name] = int(member)
            check_type(given[name], _TYPES[kind["type"]], name)
        if member not in kind.get("enum", (member,)):
            text = f"one of {', '.join(kind['enum'])}"
            raise InvalidArgument("invalid-argument", text, field=name)
    for name in shape["required"]:
        if name not in given:
            raise InvalidArgument("invalid-argument", "the argument is missing", field=name)
    return given
