"""The cache models by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_callable, check_text
from ctxalgebra.model.view import Measure
from ctxalgebra.replay.boundaries import Anthropic, OpenAI
from ctxalgebra.replay.layout import Cache
from ctxalgebra.replay.prefixes import blocks, gemini, ideal
from ctxalgebra.tokens import chars4

__all__ = ["BREAKPOINTS", "CACHES", "cache_named", "check_choice"]


def _blocks(measure: Measure) -> Cache[Any]:
    return blocks(measure=measure)


CACHES: Mapping[str, Callable[[Measure], Cache[Any]]] = MappingProxyType(
    {
        "ideal": ideal,
        "anthropic": Anthropic,
        "openai": OpenAI,
        "gemini": gemini,
        "blocks": _blocks,
    }
)
"""The cache models, by name; `blocks` may name the tokens of a block, as in `blocks:64`."""

BREAKPOINTS = ("default", "planned")
"""Where breakpoints stand: as harnesses place them, or as `plan_breakpoints` does."""


def check_choice(name: object, known: Collection[str], field: str) -> None:
    """Refuse what is none of the names that there are.

    Raises:
        InvalidArgument: `wrong-type`, no text; `invalid-argument`, there is none of this name.

    >>> check_choice("anthropic", CACHES, "cache")
    """
    check_text(name, field)
    if name not in known:
        text = f"there is no {field} {name!r}: choose from {', '.join(known)}"
        raise InvalidArgument("invalid-argument", text, field=field)


def cache_named(name: str, measure: Measure = chars4) -> Cache[Any]:
    """Make a cache model by its name.

    Raises:
        InvalidArgument: `invalid-argument`, there is none of this name; `wrong-type`.

    >>> from ctxalgebra import Route
    >>> cache_named("blocks:64").profile(Route()).block
    64
    """
    check_text(name, "cache")
    check_callable(measure, "measure")
    sized = re.fullmatch(r"blocks:0*([1-9][0-9]{0,8})", name)
    if sized:
        return blocks(int(sized[1]), measure=measure)
    if name not in CACHES:
        text = f"there is no cache {name!r}: choose from {', '.join(CACHES)}, blocks:SIZE"
        raise InvalidArgument("invalid-argument", text, field="cache")
    return CACHES[name](measure)
