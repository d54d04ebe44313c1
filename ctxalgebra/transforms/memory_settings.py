"""Settings of a working memory, and their one loader from environment variables.

The variables are those of the original, with its rules (specification of the working memory,
section 2). A flag is true for `1` and for `true` in any case, and false for everything else. A
number is read as the host's language does (`number`); what is no number from 0 up leaves the
default. Pure: whoever starts the process passes its environment in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from attrs import fields, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_fields, check_type, mistyped
from ctxalgebra.utf16 import trim

__all__ = ["VARIABLES", "MemorySettings", "Number", "flag", "memory_settings", "number"]

Number: TypeAlias = "int | float"

_FIXED = 10**21
"""From here on the host writes numbers with an exponent."""

_BASES = {"0x": 16, "0o": 8, "0b": 2}
_DIGITS = re.compile("0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@frozen
class MemorySettings:
    """Hold what a working memory does, and from which size on.

    Args:
        enabled: whether it does anything at all.
        bash: whether big outputs of commands are digested.
        bash_min_tokens: smallest output that is, in tokens.
        bash_max_summary_tokens: most tokens of a digest.
        bash_fallback_bytes: what is shown of an output when there is no digest, in UTF-8 bytes.
        amnesia: whether results are tagged and left out.
        amnesia_min_tokens: smallest result that is tagged, in tokens.
        amnesia_max_input_chars: what the tagger sees of a result, in UTF-16 units.
        tag_max_tokens: most tokens of the tagger's reply.
        lazy: whether tools are activated when they are found.
        lazy_skills: whether skills are found instead of listed.
        skill_max_chars: what is shown of a skill, in UTF-16 units.
        write: whether facts stand for written files.
        write_min_bytes: smallest content that one does for, in UTF-16 units.
        write_fact_max_tokens: most tokens of a fact.
        write_max_content_chars: what is shown of a file to word its fact, in UTF-16 units.
        aux_model: who digests, tags and words facts, as `provider/id` or `id`; None for the
            model of the session.
        aux_timeout_ms: how long a reply may take, in milliseconds.
        stats_widget: whether savings are shown.
        log_file: where the log goes; None for the host's place.

    Raises:
        InvalidArgument: `wrong-type`, and `invalid-argument` for a number that is negative or not
            finite; `field` says which.

    Numbers may have fractions, as their variables may.
    """

    enabled: bool = True
    bash: bool = True
    bash_min_tokens: Number = 2000
    bash_max_summary_tokens: Number = 1024
    bash_fallback_bytes: Number = 3000
    amnesia: bool = True
    amnesia_min_tokens: Number = 250
    amnesia_max_input_chars: Number = 6000
    tag_max_tokens: Number = 24
    lazy: bool = True
    lazy_skills: bool = True
    skill_max_chars: Number = 8000
    write: bool = True
    write_min_bytes: Number = 400
    write_fact_max_tokens: Number = 32
    write_max_content_chars: Number = 4000
    aux_model: str | None = None
    aux_timeout_ms: Number = 20_000
    stats_widget: bool = True
    log_file: str | None = None

    def __attrs_post_init__(self) -> None:
        for name in _FLAGS:
            check_fields(self, **{name: bool})
        for name in _NUMBERS:
            _check_number(getattr(self, name), name)
        for name in ("aux_model", "log_file"):
            if getattr(self, name) is not None:
                check_type(getattr(self, name), str, name)


_NUMBERS = frozenset(f.name for f in fields(MemorySettings) if type(f.default) is int)
_FLAGS = frozenset(f.name for f in fields(MemorySettings) if type(f.default) is bool)

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        field.name: "PI_CTX_OFF" if field.name == "enabled" else f"PI_CTX_{field.name.upper()}"
        for field in fields(MemorySettings)
    }
    | {"amnesia_max_input_chars": "PI_CTX_AMNESIA_MAX_CHARS"}
)
"""The variable of each field; that of `enabled` says the opposite."""


def _check_number(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise mistyped(value, "a number", name)
    if value < 0 or (isinstance(value, float) and not isfinite(value)):
        text = f"{name} must be a finite number from 0 up, not {value!r}"
        raise InvalidArgument("invalid-argument", text, field=name)


def flag(value: str | None, *, default: bool) -> bool:
    """Read a flag.

    Args:
        value: what the variable holds; None where it is not set.
        default: what counts then.

    >>> flag("TRUE", default=False), flag("yes", default=True), flag(None, default=True)
    (True, False, True)
    """
    return default if value is None else value == "1" or value.lower() == "true"


def number(value: str | None, default: Number) -> Number:
    """Read a number as the host's language does.

    White space around it doesn't count, and nothing at all is 0. There are decimals, with or
    without exponent and sign, and digits behind `0x`, `0o` and `0b`; no separators, no units.

    Args:
        value: what the variable holds; None where it is not set.
        default: what counts then, and for what is no finite number from 0 up.

    >>> number(" 0x10 ", 9), number("", 9), number("1e3", 9), number("12.5", 9), number("-1", 9)
    (16, 0, 1000, 12.5, 9)
    """
    if value is None:
        return default
    text = trim(value)
    if _DIGITS.fullmatch(text):
        try:
            read = float(int(text[2:], _BASES[text[:2].lower()]))
        except OverflowError:
            return default
    elif _DECIMAL.fullmatch(text):
        read = float(text)
    elif text:
        return default
    else:
        return 0
    if read < 0 or not isfinite(read):
        return default
    whole = read < _FIXED and read.is_integer()
    return int(Decimal(repr(read))) if whole else read  # its digits as the host writes them


def memory_settings(env: Mapping[str, str]) -> MemorySettings:
    """Load settings from environment variables.

    Args:
        env: variables by name; `VARIABLES` says which count, the others are passed over.

    Raises:
        InvalidArgument: `wrong-type`, a variable holds no text; `field` is its name.

    >>> settings = memory_settings({"PI_CTX_LAZY": "0", "PI_CTX_BASH_MIN_TOKENS": "4000"})
    >>> settings.lazy, settings.bash_min_tokens, settings.aux_model
    (False, 4000, None)
    """
    given = cast("object", env)
    if not isinstance(given, Mapping):
        raise mistyped(env, "a mapping of texts", "env")
    said = {field: env[name] for field, name in VARIABLES.items() if name in env}
    for field, value in said.items():
        check_type(value, str, VARIABLES[field])
    found: dict[str, Any] = {}
    default = MemorySettings()
    for field, value in said.items():
        if field == "enabled":
            found[field] = not flag(value, default=False)
        elif field in _FLAGS:
            found[field] = flag(value, default=getattr(default, field))
        elif field in _NUMBERS:
            found[field] = number(value, getattr(default, field))
        else:
            found[field] = value
    if found.get("aux_model") == "":
        found["aux_model"] = None
    return MemorySettings(**found)
