"""What messages weigh by the host's own rule, on its messages as plain JSON.

A quarter of the characters, rounded up for each message, where a character is a UTF-16 unit and an
image counts 4,800 (specification of the host's format, section 6; of the paging system, section
4). Our own measures (`ctxalgebra.tokens`, `ctxalgebra.measures`) read messages of ours; these are
here for who has to give the host's numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from json import encoder
from typing import Any, cast

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.parts import IMAGE_CHARACTERS
from ctxalgebra.tokens import ceil_div

__all__ = [
    "WITHOUT_ARGUMENTS",
    "host_tokens",
    "json_text",
    "resident_tokens",
    "text_tokens",
    "utf16_length",
]

WITHOUT_ARGUMENTS = len("undefined")
"""What a call without arguments counts in the host's agent core."""

_LONE = re.compile("[\ud800-\udfff]")
_EXACT = 2**53


def utf16_length(text: str) -> int:
    r"""Count UTF-16 units.

    >>> utf16_length("a\U0001f600")
    3
    """
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def text_tokens(text: str) -> int:
    """Weigh a text: a quarter of its UTF-16 units, rounded up.

    >>> text_tokens("12345")
    2
    """
    return ceil_div(utf16_length(text), 4)


def _quote(text: str) -> str:
    if not text.isascii():
        # Halves that stand side by side are one character; the others are written as escapes.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    quoted = encoder.encode_basestring(text)
    return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def _number(value: float) -> str:
    """Write a number as the host's language does: no exponent from 1e-6 to 1e21."""
    if isinstance(value, int) and abs(value) <= _EXACT:
        return str(value)
    try:
        number = float(value)
    except OverflowError:
        return "null"
    mantissa, _, power = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    if not whole.isdigit():
        return "null"  # infinity, and what is no number
    sign = "-" if number < 0 else ""
    point = len(whole) + int(power or 0)
    digits = whole + fraction
    if whole == "0":
        digits = fraction.lstrip("0")
        point -= 1 + len(fraction) - len(digits)
    if not digits:
        return "0"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if 0 < point <= 21:
        padded = digits.ljust(point, "0")
        return sign + padded[:point] + ("." + padded[point:] if padded[point:] else "")
    digits = digits.rstrip("0")
    rest = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"


def json_text(value: Any, *, sort: bool = False) -> str:
    r"""Write plain JSON as the host's language does: compact, lone surrogates escaped.

    Args:
        value: dicts, lists, texts, numbers, truth values, None.
        sort: by keys at all depths, so that equal values have one text.

    Raises:
        InvalidArgument: `wrong-type`, the value is something else.

    >>> json_text({"b": 1.0, "a": "\u00e9\n\ud800"})
    '{"b":1,"a":"é\\n\\ud800"}'
    """
    out: list[str] = []
    todo: list[tuple[bool, Any]] = [(False, value)]
    while todo:
        done, item = todo.pop()
        if done:
            out.append(item)
        elif isinstance(item, str):
            out.append(_quote(item))
        elif item is None or isinstance(item, bool):
            out.append("null" if item is None else "true" if item else "false")
        elif isinstance(item, int | float):
            out.append(_number(item))
        elif isinstance(item, dict):
            members = cast("dict[str, Any]", item)
            inner: list[tuple[bool, Any]] = []
            for key in sorted(members) if sort else members:
                inner += [(True, f"{',' if inner else '{'}{_quote(key)}:"), (False, members[key])]
            todo.extend(reversed([*(inner or [(True, "{")]), (True, "}")]))
        elif isinstance(item, list):
            inner = []
            for member in cast("list[object]", item):
                inner += [(True, "," if inner else "["), (False, member)]
            todo.extend(reversed([*(inner or [(True, "[")]), (True, "]")]))
        else:
            raise InvalidArgument("wrong-type", f"{type(item).__name__} is no JSON", field="value")
    return "".join(out)


def resident_tokens(system_prompt: str, tools: Sequence[Mapping[str, Any]]) -> int:
    """Weigh what stands in front of the messages: the system text and the tools as JSON.

    Of a tool count name, description and parameters.

    >>> resident_tokens("abcd", [])
    2
    """
    names = ("name", "description", "parameters")
    shown = [{name: tool[name] for name in names if name in tool} for tool in tools]
    return ceil_div(utf16_length(system_prompt) + utf16_length(json_text(shown)), 4)


def _odd(field: str) -> InvalidArgument:
    return InvalidArgument("wrong-type", "the host can't weigh such a message", field=field)


def _length(owner: Mapping[str, Any], name: str) -> int:
    text = owner.get(name)
    if not isinstance(text, str):
        raise _odd(name)
    return utf16_length(text)


def _blocks(content: Any) -> list[dict[str, Any]]:
    if not isinstance(content, list):
        raise _odd("content")
    blocks = cast("list[object]", content)
    if None in blocks:
        raise _odd("content")
    return [cast("dict[str, Any]", block) for block in blocks if isinstance(block, dict)]


def _content(message: Mapping[str, Any]) -> int:
    """Count a text, or blocks: those with text, and images."""
    content = message.get("content")
    if isinstance(content, str):
        return utf16_length(content)
    total = 0
    for block in _blocks(content):
        if block.get("type") == "text" and block.get("text"):
            total += _length(block, "text")
        elif block.get("type") == "image":
            total += IMAGE_CHARACTERS
    return total


def _call(block: Mapping[str, Any], without: int | None) -> int:
    size = _length(block, "name")
    if "arguments" in block:
        return size + utf16_length(json_text(block["arguments"]))
    if without is None:
        raise _odd("arguments")
    return size + without


def _assistant(message: Mapping[str, Any], without: int | None) -> int:
    if isinstance(message.get("content"), str):
        return 0  # the host looks for blocks among its characters
    total = 0
    for block in _blocks(message.get("content")):
        match block.get("type"):
            case "text":
                total += _length(block, "text")
            case "thinking":
                total += _length(block, "thinking")
            case "toolCall":
                total += _call(block, without)
            case _:
                pass
    return total


def _system(message: Mapping[str, Any]) -> int:
    total = _content(message) if message.get("content") is not None else 0
    sections = message.get("sections")
    if isinstance(sections, dict):
        members = cast("dict[str, Any]", sections)
        total += sum(utf16_length(text) for text in members.values() if isinstance(text, str))
    if (added := message.get("toolsAdded")) is not None:
        total += utf16_length(json_text(added))
    return total


def _summary(message: Mapping[str, Any]) -> int:
    return _length(message, "summary")


_RULES: Mapping[str, Callable[[Mapping[str, Any]], int]] = {
    "user": _content,
    "custom": _content,
    "toolResult": _content,
    "system": _system,
    "bashExecution": lambda message: _length(message, "command") + _length(message, "output"),
    "branchSummary": _summary,
    "compactionSummary": _summary,
}


def host_tokens(message: Mapping[str, Any], *, without_arguments: int | None = None) -> int:
    """Weigh a message of the host in tokens.

    Args:
        message: its JSON; a role that the host doesn't know weighs nothing.
        without_arguments: characters that a call without arguments counts for, as
            `WITHOUT_ARGUMENTS`; None refuses it, as one of the host's two functions does.

    Raises:
        InvalidArgument: `wrong-type`, what the host's function fails on: texts that are none,
            content that is neither text nor list.

    >>> host_tokens({"role": "user", "content": "12345"})
    2
    """
    role = message.get("role")
    if role == "assistant":
        return ceil_div(_assistant(message, without_arguments), 4)
    rule = _RULES.get(role) if isinstance(role, str) else None
    return 0 if rule is None else ceil_div(rule(message), 4)
