"""Descriptions of tools: one clean line for a list, shorter ones for a request.

The parameters of a tool are never touched: a model calls it by them. Source: skills and saver,
sections 16 and 17.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from attrs import frozen

from ctxalgebra.compaction.signals import strip_ansi, units
from ctxalgebra.model.checks import mistyped
from ctxalgebra.skills.texts import cut_line, one_line
from ctxalgebra.tokens import check_positive

__all__ = ["LONGEST", "Shortened", "metadata", "shorten_descriptions"]

LONGEST: Final = 420
"""The longest description of a tool in a request, in units."""


def metadata(value: object, most: int) -> str:
    r"""Make one clean line of a tool's name or description, for a list that a model reads.

    Args:
        value: what a tool says; what is no text is empty.
        most: units, at least 1.

    >>> metadata("\x1b[31mDanger\x1b[0m\nsecond\x00 line", 12)
    'Danger seco…'
    """
    return cut_line(one_line(strip_ansi(value)), most) if isinstance(value, str) else ""


@frozen
class Shortened:
    """Hold a request with shorter descriptions.

    Args:
        payload: the body; the one that came in where nothing is too long.
        saved: units that are gone.
        changed: whether anything is.
    """

    payload: Mapping[str, Any]
    saved: int = 0
    changed: bool = False


def _shorter(owner: Mapping[str, Any], most: int) -> tuple[Mapping[str, Any], int]:
    text = owner.get("description")
    if not isinstance(text, str) or units(text) <= most:
        return owner, 0
    short = cut_line(text, most)
    return {**owner, "description": short}, units(text) - units(short)


def shorten_descriptions(payload: Mapping[str, Any], *, most: int = LONGEST) -> Shortened:
    """Shorten the descriptions of tools in the body of a request, and nothing else.

    Args:
        payload: the body of a request; its tools stand under `tools`, as they are or under
            `function`.
        most: units, at least 1.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, `most` is no positive integer.

    >>> body = {"tools": [{"name": "a", "description": "abcdefg hijk"}]}
    >>> shorten_descriptions(body, most=9)
    ... # doctest: +NORMALIZE_WHITESPACE
    Shortened(payload={'tools': [{'name': 'a', 'description': 'abcdefg…'}]}, saved=4, changed=True)
    """
    if not isinstance(cast("object", payload), Mapping):
        raise mistyped(payload, "an object", "payload")
    check_positive(most=most)
    given = payload.get("tools")
    if not isinstance(given, list):
        return Shortened(payload)
    tools: list[object] = []
    saved, changed = 0, False
    for item in cast("list[object]", given):
        tool = item
        if isinstance(item, Mapping):
            before = cast("Mapping[str, Any]", item)
            after, less = _shorter(before, most)
            inner = after.get("function")
            if isinstance(inner, Mapping):
                function, more = _shorter(cast("Mapping[str, Any]", inner), most)
                if function is not inner:
                    after, less = {**after, "function": function}, less + more
            changed = changed or after is not before
            saved += less
            tool = after
        tools.append(tool)
    if not changed:
        return Shortened(payload)
    return Shortened({**payload, "tools": tools}, saved, changed)
