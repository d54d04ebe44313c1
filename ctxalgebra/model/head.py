"""The head: everything of a request that stands before its messages, and usage reports."""

from __future__ import annotations

from typing import ClassVar, Literal, final

from attrs import field, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_fields, check_items, check_text, check_type

__all__ = ["Binding", "Head", "Route", "Tool", "Usage"]

Binding = Literal["none", "prefix", "leading"]


@final
@frozen
class Route:
    """Say where requests go; any difference here is another cache.

    Args:
        provider, model: names as the provider writes them.
        parameters: further parameters that key the cache (name, JSON text), sorted by the caller.
        binding: what an edit does to thinking behind it: `none` (nothing), `prefix` (it becomes
            invalid, rules T1 to T5), `leading` (as `prefix`, and an open tool loop must begin
            with its thinking, rule V-A7).
    """

    provider: str = ""
    model: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    binding: Binding = "prefix"

    def __attrs_post_init__(self) -> None:
        check_text(self.provider, "provider")
        check_text(self.model, "model")
        check_type(self.parameters, tuple, "parameters")
        for pair in self.parameters:
            check_items(pair, str, "parameters")
            if len(pair) != 2:
                raise InvalidArgument("wrong-type", "expected name and value", field="parameters")
        if type(self.binding) is not str or self.binding not in ("none", "prefix", "leading"):
            raise InvalidArgument("invalid-argument", "unknown binding", field="binding")


@final
@frozen
class Tool:
    """Describe a tool: `schema` is its JSON Schema as text, byte for byte as it is sent."""

    name: str
    description: str = ""
    schema: str = "{}"

    def __attrs_post_init__(self) -> None:
        check_fields(self, name=str, description=str, schema=str)


@final
@frozen
class Head:
    """State route, system text and tools from here on.

    An event: recorded in a journal it holds until the next one. When something was sent before
    and the head differs, it is a break at the head.

    >>> Head(system="Be brief.").tools
    ()
    """

    kind: ClassVar[str] = "head"
    route: Route = Route()
    system: str = ""
    tools: tuple[Tool, ...] = ()
    characters: int = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        check_type(self.route, Route, "route")
        check_text(self.system, "system")
        check_items(self.tools, Tool, "tools")
        size = len(self.system) + sum(
            len(t.name) + len(t.description) + len(t.schema) for t in self.tools
        )
        object.__setattr__(self, "characters", size)


@final
@frozen
class Usage:
    """Report what a request cost, in tokens, normalised.

    Args:
        input: all input tokens, those read from and written to the cache included (providers
            differ: Anthropic and Bedrock exclude them, rule C9).
        output: tokens of the reply.
        cache_read, cache_write: parts of `input`, together at most as many.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, negative, or more from and to the cache
            than in all: the provider's input has to be added first.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __attrs_post_init__(self) -> None:
        for name in ("input", "output", "cache_read", "cache_write"):
            value = getattr(self, name)
            check_type(value, int, name)
            if value < 0:
                raise InvalidArgument("invalid-argument", "tokens can't be negative", field=name)
        if self.cache_read + self.cache_write > self.input:
            raise InvalidArgument(
                "invalid-argument",
                "input holds what was read from and written to the cache",
                field="input",
            )
