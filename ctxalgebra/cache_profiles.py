"""What providers cache and what they charge for it, by model: dated data with their rule ids.

As of autumn 2026, from the providers' documentation. Prices change: look one up before you rely
on it. All tables stand here, so that a change of price or of a minimum is a change of one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from attrs import Attribute, field, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_text, check_type
from ctxalgebra.model.head import Route
from ctxalgebra.tokens import ceil_div

__all__ = [
    "AS_OF",
    "LEVELS",
    "LISTED",
    "RETENTION",
    "CacheProfile",
    "Level",
    "Listed",
    "Prices",
    "Rules",
    "cache_profile",
    "level",
]

AS_OF = "2026-09"
"""The month for which the tables hold."""


def _at_least(least: int) -> Callable[[object, Attribute[int], int], None]:
    def check(_: object, attribute: Attribute[int], value: int) -> None:
        check_type(value, int, attribute.name)
        if value < least:
            raise InvalidArgument(
                "invalid-argument",
                f"{attribute.name} must be at least {least}, not {value}",
                field=attribute.name,
            )

    return check


_count, _positive = _at_least(0), _at_least(1)


@frozen
class Prices:
    """Price input tokens, in thousandths of the input price (rule C6).

    Args:
        read: of a token that was cached.
        written: of a token that is written for the short time.
        kept: of a token that is written for the long time.

    >>> Prices().cost(read=1000, written=100)
    22500
    """

    read: int = field(default=100, validator=_count)
    written: int = field(default=1250, validator=_count)
    kept: int = field(default=2000, validator=_count)

    def cost(self, *, read: int = 0, written: int = 0, kept: int = 0, plain: int = 0) -> int:
        """Price a request, in hundredths of the price of one input token, rounded up."""
        thousandths = read * self.read + written * self.written + kept * self.kept + plain * 1000
        return ceil_div(thousandths, 10)


@frozen
class CacheProfile:
    """Say what a provider caches for a model, and for how much.

    Args:
        name: the family that the model was found in.
        minimum: tokens below which nothing is cached (C4).
        breakpoints: how many a request may have (C2).
        lookback: positions that a breakpoint looks back, itself included (C3).
        block: tokens that a cached prefix is rounded down to.
        ttl, long_ttl: milliseconds that an entry lives after it was last used (C5); None for ever.
        strips: earlier thinking leaves when a user speaks (C11).
        prices: of reads and writes (C6).
    """

    name: str = ""
    minimum: int = field(default=1024, validator=_count)
    breakpoints: int = field(default=4, validator=_positive)
    lookback: int = field(default=20, validator=_positive)
    block: int = field(default=1, validator=_positive)
    ttl: int | None = None
    long_ttl: int | None = None
    strips: bool = False
    prices: Prices = Prices()


@frozen
class Listed:
    """List the prices of a model in cents a million tokens, from the rule named (C14)."""

    input: int
    written: int
    kept: int
    read: int
    rule: str = "C14"
    as_of: str = AS_OF

    def prices(self) -> Prices:
        """Give them in thousandths of the input price, rounded up."""
        written, kept = (
            ceil_div(self.written * 1000, self.input),
            ceil_div(self.kept * 1000, self.input),
        )
        return Prices(ceil_div(self.read * 1000, self.input), written, kept)


LISTED: Mapping[str, Listed] = MappingProxyType(
    {
        "fable-5-1": Listed(1000, 1250, 2000, 25),
        "opus-5-5": Listed(400, 500, 800, 20),
        "opus-5": Listed(500, 625, 1000, 50),
        "sonnet-5-5": Listed(200, 250, 400, 20),
        "sonnet-5": Listed(200, 250, 400, 20),
        "sonnet-4-6": Listed(300, 375, 600, 30),
        "haiku-4-5": Listed(100, 125, 200, 10),
    }
)
"""Prices by family of models."""

_MINUTES = 60_000

# C4: the shortest prefix that is cached, by family; families of the older naming as well.
_MINIMUM: Mapping[int, str] = {
    512: "fable-5 fable-5-1 mythos-5 mythos-5-1 opus-5 opus-5-5 sonnet-5-5",
    1024: """opus-4-8 sonnet-5 sonnet-4-6 sonnet-4-5 opus-4-1 opus-4-0 opus-4 sonnet-4-0 sonnet-4
        3-7-sonnet 3-5-sonnet 3-opus 3-sonnet""",
    2048: "opus-4-7 mythos-preview haiku-3-5 3-5-haiku 3-haiku",
    4096: "opus-4-6 opus-4-5 haiku-4-5",
}
_BEDROCK_MINIMUM: Mapping[str, int] = {"opus-4-7": 4096}

# C11: models that lose earlier thinking when a user speaks.
_STRIPS = """opus-4-1 opus-4-0 opus-4 sonnet-4-5 sonnet-4-0 sonnet-4 haiku-4-5 haiku-3-5 3-5-haiku
    3-7-sonnet 3-5-sonnet 3-opus 3-sonnet 3-haiku"""

# C6: where the list of prices is silent.
_UNLISTED: Mapping[str, Prices] = {"mythos-5-1": Prices(read=25)}


def _anthropic(family: str, minimum: int) -> CacheProfile:
    prices = LISTED[family].prices() if family in LISTED else _UNLISTED.get(family, Prices())
    return CacheProfile(
        family,
        minimum,
        ttl=5 * _MINUTES,
        long_ttl=60 * _MINUTES,
        strips=family in _STRIPS.split(),
        prices=prices,
    )


# 2.2: from GPT-5.6 on entries end at boundaries, exactly; before, any prefix in blocks of 128.
def _openai_new(family: str, read: int = 100) -> CacheProfile:
    return CacheProfile(
        family, 1024, ttl=30 * _MINUTES, long_ttl=720 * _MINUTES, prices=Prices(read, 1250, 2500)
    )


def _openai_old(family: str, read: int, block: int = 128) -> CacheProfile:
    day = 24 * 60 * _MINUTES
    return CacheProfile(
        family, 1024, block=block, ttl=5 * _MINUTES, long_ttl=day, prices=Prices(read, 1000, 1000)
    )


def _gemini(family: str, minimum: int) -> CacheProfile:
    return CacheProfile(family, minimum, prices=Prices(100, 1000, 1000))


# Earlier models that read at half the price.
_HALF = "chatgpt-4o computer-use o1 gpt-4o gpt-4-5 gpt-4 gpt-3-5 gpt-3"

Rules = Literal["anthropic", "openai", "gemini"]

_DEFAULTS: Mapping[str, CacheProfile] = {
    "anthropic": _anthropic("anthropic", 1024),
    "openai": _openai_new("openai"),
    "gemini": _gemini("gemini", 4096),
}
_FAMILIES: Mapping[str, Mapping[str, CacheProfile]] = {
    "anthropic": {
        family: _anthropic(family, minimum)
        for minimum, families in _MINIMUM.items()
        for family in families.split()
    },
    "openai": {
        **{f"gpt-5-{n}": _openai_old(f"gpt-5-{n}", 100) for n in range(1, 5)},
        "gpt-5": _openai_old("gpt-5", 100),
        "gpt-5-5": _openai_old("gpt-5-5", 100, 2048),
        "gpt-6-1-sol": _openai_new("gpt-6-1-sol", 50),
        **{name: _openai_old(name, 250) for name in ("gpt-4-1", "o3", "o4", "codex-mini")},
        **{name: _openai_old(name, 500) for name in _HALF.split()},
    },
    "gemini": {"gemini-2-5": _gemini("gemini-2-5", 2048)},
}


@lru_cache(maxsize=256)
def _find(rules: str, provider: str, model: str) -> CacheProfile:
    name = re.sub(r"[^a-z0-9]+", "-", model.lower())
    best = _DEFAULTS[rules]
    found = ""
    for family, known in _FAMILIES[rules].items():
        # A version number behind the name makes another family; a date does not.
        if len(family) > len(found) and re.search(
            rf"(?:^|-){family}(?:-(?!\d{{1,2}}(?:-|$))|$)", name
        ):
            best, found = known, family
    if "bedrock" in provider.lower() and found in _BEDROCK_MINIMUM:
        return _anthropic(found, _BEDROCK_MINIMUM[found])
    return best


def cache_profile(route: Route, rules: Rules = "anthropic") -> CacheProfile:
    """Find what is cached for the model of a route, by the rules of one provider.

    A model that is in no table gets what is commonest with that provider: 1,024 tokens, a read
    at 0.1 of the input price, a write at 1.25 (rules C4, C6).

    Raises:
        InvalidArgument: `invalid-argument`, there are no such rules; `wrong-type`.

    >>> from ctxalgebra import Route
    >>> profile = cache_profile(Route("anthropic", "claude-opus-4-5-20251101"))
    >>> profile.name, profile.minimum, profile.prices.read
    ('opus-4-5', 4096, 100)
    """
    check_type(route, Route, "route")
    check_text(rules, "rules")
    if rules not in _DEFAULTS:
        raise InvalidArgument("invalid-argument", f"there are no rules {rules!r}", field="rules")
    return _find(rules, route.provider, route.model)


Level = Literal["tools", "system", "messages"]
"""What a change reaches: everything; all but the tools; the messages only (C10)."""

LEVELS: Mapping[str, Level] = MappingProxyType(
    {
        "citations": "system",
        "speed": "system",
        "web_search": "system",
        "disable_parallel_tool_use": "messages",
        "effort": "messages",
        "output_config": "messages",
        "reasoning_effort": "messages",
        "thinking": "messages",
        "tool_choice": "messages",
    }
)
"""Parameters that are no bytes of the prefix, and the first level that a change of them reaches."""

_OMITTED = frozenset({("effort", '"high"'), ("output_config", '{"effort":"high"}')})

RETENTION = ("prompt_cache_retention", '"24h"')
"""With this OpenAI's earlier models keep prefixes for the long time (2.2); it is no key."""


def level(name: str, value: str) -> Level | None:
    """Say which level a parameter keys (C10); None for one that keys nothing.

    That is a default which might as well be omitted, or how long something is kept.

    A name that no rule speaks of keys everything.

    >>> level("tool_choice", '"auto"'), level("service", '"x"'), level("effort", '"high"')
    ('messages', 'tools', None)
    """
    silent = (name, value) in _OMITTED or name == RETENTION[0]
    return None if silent else LEVELS.get(name, "tools")
