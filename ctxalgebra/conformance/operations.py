"""Operations: plain functions that the door may call, and how their input is checked.

An area is a module with its operations. Each is a function with keyword-only parameters; `collect`
names it `<area>.<function>`, and `call` reads its input by the annotations: `token_budget: int`
takes the member `tokenBudget`, and it has to be an integer. A function that takes `**_` passes
over what it doesn't know, any other refuses it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType, UnionType
from typing import Any, NamedTuple, cast, get_args, get_origin

from ctxalgebra.conformance.values import READERS, InvalidInput

__all__ = ["Operation", "Refusal", "call", "collect"]

Operation = Callable[..., Any]
"""Takes the members of an input by keyword and gives what goes out."""

_PLAIN = {int: "an integer", str: "a text", bool: "a truth value"}


class Refusal(Exception):
    """An operation answers with an error.

    Attributes:
        code: what is compared.
        more: further members of the error.
    """

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(code)
        self.code = code
        self.more = more


class _Member(NamedTuple):
    """What a parameter takes: its name, its name in the input, its type, whether it may lack."""

    parameter: str
    name: str
    kind: Any
    optional: bool


class _Shape(NamedTuple):
    members: tuple[_Member, ...]
    known: frozenset[str] | None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@cache
def _shape(operation: Operation) -> _Shape:
    parameters = inspect.signature(operation, eval_str=True).parameters.values()
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    members = tuple(
        _Member(p.name, _camel(p.name), p.annotation, p.default is not p.empty) for p in named
    )
    lenient = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return _Shape(members, None if lenient else frozenset(member.name for member in members))


def _read(value: Any, kind: Any, where: str) -> Any:
    """Read a value by its type; as deep as the type is, whatever the value holds."""
    if kind is Any:
        return value
    if kind in READERS:
        return READERS[kind](value)
    if kind in _PLAIN:
        if type(value) is not kind:
            raise InvalidInput(f"{where}: expected {_PLAIN[kind]}")
        return value
    if kind is float:
        if type(value) not in (int, float):
            raise InvalidInput(f"{where}: expected a number")
        return value
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if value is None else _read(value, inner[0], where)
    if origin is list:
        if not isinstance(value, list):
            raise InvalidInput(f"{where}: expected a list")
        items = cast("list[object]", value)
        return [_read(item, inner[0], f"{where}[{at}]") for at, item in enumerate(items)]
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: expected an object")
    members = cast("dict[str, Any]", value)
    return {name: _read(member, inner[1], f"{where}.{name}") for name, member in members.items()}


def call(operation: Operation, value: Any) -> Any:
    """Check an input and call an operation with it.

    Args:
        operation: its parameters have types of JSON (`int`, `float`, `str`, `bool`, `list[...]`,
            `dict[str, ...]`, `... | None`, `Any`), or a type that `values.READERS` reads.
        value: the input.

    Raises:
        InvalidInput: it is no object, lacks a member, has one too many, or one of another type.

    >>> def add(*, first_number: int, second: int = 1) -> int:
    ...     return first_number + second
    >>> call(add, {"firstNumber": 2})
    3
    """
    if not isinstance(value, dict):
        raise InvalidInput("input: expected an object")
    given = cast("dict[str, Any]", value)
    shape = _shape(operation)
    arguments: dict[str, Any] = {}
    for member in shape.members:
        if member.name in given:
            where = f"input.{member.name}"
            arguments[member.parameter] = _read(given[member.name], member.kind, where)
        elif not member.optional:
            raise InvalidInput(f"input: lacks {member.name!r}")
    if shape.known is not None and (extra := given.keys() - shape.known):
        raise InvalidInput(f"input: {min(extra)!r} is not known")
    return operation(**arguments)


def collect(area: str, *operations: Operation) -> Mapping[str, Operation]:
    """Name operations by their area and function.

    >>> def add(*, first: int) -> int:
    ...     return first + 1
    >>> list(collect("kernel", add))
    ['kernel.add']
    """
    return MappingProxyType({f"{area}.{function.__name__}": function for function in operations})
