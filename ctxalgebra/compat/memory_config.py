"""The configuration of the original working memory, under its own names.

`ctxalgebra.transforms.memory_settings` holds the values and the one loader; here are the names
that the original's configuration has (specification of the working memory, section 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import asdict

from ctxalgebra.transforms.memory_settings import VARIABLES, MemorySettings, memory_settings

__all__ = ["NAMES", "configured", "load_config"]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


NAMES: Mapping[str, str] = MappingProxyType({_camel(field): field for field in VARIABLES})
"""The field of `MemorySettings` for each name of the original."""


def load_config(env: Mapping[str, str]) -> dict[str, Any]:
    """Load the configuration as the original's record; what is not set is absent.

    Args:
        env: variables by name.

    Raises:
        InvalidArgument: `wrong-type`, a variable holds no text.

    >>> load_config({"PI_CTX_TAG_MAX_TOKENS": "12.5"})["tagMaxTokens"]
    12.5
    >>> "auxModel" in load_config({})
    False
    """
    values = asdict(memory_settings(env))
    record = {name: values[field] for name, field in NAMES.items()}
    return {name: value for name, value in record.items() if value is not None}


def configured(overrides: Mapping[str, Any]) -> MemorySettings:
    """Give the default configuration with some fields of the original's record set.

    Args:
        overrides: values by the original's names; other names are passed over.

    Raises:
        InvalidArgument: as `MemorySettings`.

    >>> configured({"bashMinTokens": 10}).bash_min_tokens
    10
    """
    return MemorySettings(**{NAMES[n]: value for n, value in overrides.items() if n in NAMES})
