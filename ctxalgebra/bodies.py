"""Bodies of requests as texts: their members and elements byte for byte, and which are the same.

Two spellings of Anthropic's are one to the provider: a text by itself is a list of one text block,
and where `cache_control` stands is no part of the prefix (rules C1, T3). Everything else counts as
it is spelled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from ctxalgebra.errors import InvalidArgument

__all__ = [
    "bare",
    "each_member",
    "elements",
    "is_extension",
    "is_same",
    "is_same_content",
    "read_members",
]

_MARK = "cache_control"
_CONTENT = ("content", "parts")
"""Where messages keep what they say: Gemini's have parts."""

_DEEPEST = 200
"""How deep bodies may be nested: what is deeper than any request could not be compared."""

# What has no end is taken to the end, so that nothing is read twice.
_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_BLANK = re.compile(r"[ \t\r\n]*")


def _refuse(constant: str) -> None:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def read_members(body: bytes, which: str) -> dict[str, tuple[str, Any]]:
    """Read the members of a body: the text of each, byte for byte, and its value.

    Raises:
        InvalidArgument: `too-deep`, more than 200 levels; `invalid-json`, no JSON object; `field`
            is `which`.

    >>> read_members(b'{"model": "m" }', "before")
    {'model': ('"m"', 'm')}
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = ""
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += (found[0] in "[{") - (found[0] in "]}")
        if depth > _DEEPEST:
            deep = f"a body has at most {_DEEPEST} levels"
            raise InvalidArgument("too-deep", deep, field=which)
    try:
        return {name: (member, value) for name, member, value in each_member(text)}
    except (ValueError, IndexError):
        raise InvalidArgument(
            "invalid-json", "a body is one JSON object of messages", field=which
        ) from None


def each_member(text: str) -> Iterator[tuple[str, str, Any]]:
    """Give name, text and value of each member; `ValueError`, `IndexError` where it is none."""

    def blank(at: int) -> int:
        return cast("re.Match[str]", _BLANK.match(text, at)).end()

    def sign(at: int, *signs: str) -> int:
        if text[at] not in signs:
            raise ValueError(at)
        return at + 1

    at = blank(sign(blank(0), "{"))
    more = text[at] != "}"
    while more:
        sign(at, '"')
        name, at = _DECODER.raw_decode(text, at)
        start = blank(sign(blank(at), ":"))
        value, end = _DECODER.raw_decode(text, start)
        yield str(name), text[start:end], value
        at = blank(end)
        if more := text[at] != "}":
            at = blank(sign(at, ","))
    if blank(at + 1) != len(text):
        raise ValueError(at)


def elements(text: str) -> list[str]:
    """Part the text of a list into those of its elements.

    >>> elements('[1, {"a": 2}]')
    ['1', '{"a": 2}']
    """
    found: list[str] = []
    at = cast("re.Match[str]", _BLANK.match(text, 1)).end()
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        found.append(text[at:end])
        behind = cast("re.Match[str]", _BLANK.match(text, end)).end()
        at = behind
        if text[behind] == ",":
            at = cast("re.Match[str]", _BLANK.match(text, behind + 1)).end()
    return found


class _Block(NamedTuple):
    """An element of a content: its text, its value, and what of it is part of the prefix."""

    text: str
    value: Any
    counts: object


def _block(text: str) -> _Block:
    value = json.loads(text)
    if not isinstance(value, dict):
        return _Block(text, value, text)
    kept = [(name, member) for name, member, _ in each_member(text) if name != _MARK]
    known = dict(kept)
    if known.keys() == {"type", "text"} and known["type"] == '"text"':
        return _Block(text, value, ("text", known["text"]))
    if known.get("type") == '"tool_result"':
        return _Block(text, value, tuple((name, _inner(name, member)) for name, member in kept))
    return _Block(text, value, tuple(kept))


def _inner(name: str, text: str) -> object:
    blocks = _blocks(text) if name == "content" else None
    return text if blocks is None else tuple(block.counts for block in blocks)


def _blocks(text: str) -> list[_Block] | None:
    """Read a content as blocks; None for what is neither a text nor a list."""
    if text.startswith('"'):
        return [_Block(text, json.loads(text), ("text", text))]
    return [_block(one) for one in elements(text)] if text.startswith("[") else None


def _equal(one: _Block, other: _Block) -> bool:
    # The same value in another spelling is another text, and no other block.
    return one.text == other.text or (one.value != other.value and one.counts == other.counts)


def is_same(before: str, after: str) -> bool:
    """Say whether two elements, such as tools, are the same to the byte, marks aside.

    >>> is_same('{"name":"a"}', '{"name":"a","cache_control":{}}')
    True
    """
    return before == after or _equal(_block(before), _block(after))


def is_same_content(before: str, after: str, *, grows: bool = False) -> bool:
    """Say whether two contents, such as system texts, are the same to the provider.

    Args:
        before, after: texts of a JSON value each.
        grows: the later one may have more blocks at its end.

    >>> is_same_content('"a"', '[{"type": "text", "text": "a"}]')
    True
    """
    if before == after:
        return True
    old, new = _blocks(before), _blocks(after)
    if old is None or new is None or json.loads(before) == json.loads(after):
        return False
    return len(old) <= len(new) <= (len(new) if grows else len(old)) and all(
        map(_equal, old, new[: len(old)])
    )


def is_extension(before: str, after: str, *, grows: bool) -> bool:
    """Say whether a message is what it was to the provider.

    Args:
        before, after: texts of an element each.
        grows: it was the last one, so its content may have more blocks at its end.

    >>> was = '{"role":"user","content":"a"}'
    >>> now = '{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}'
    >>> is_extension(was, now, grows=True), is_extension(was, now, grows=False)
    (True, False)
    """
    if before == after:
        return True
    if not (before.startswith("{") and after.startswith("{")):
        return False
    old = [(name, text) for name, text, _ in each_member(before)]
    new = [(name, text) for name, text, _ in each_member(after)]
    if [name for name, _ in old] != [name for name, _ in new]:
        return False
    pairs = [(name, was, now) for (name, was), (_, now) in zip(old, new, strict=True) if was != now]
    return bool(pairs) and all(
        name in _CONTENT and is_same_content(was, now, grows=grows) for name, was, now in pairs
    )


def bare(value: Any) -> Any:
    """Give an element without its marks, and those of the blocks of its content."""
    if not isinstance(value, dict):
        return value
    known = cast("dict[str, Any]", value)
    kept = {name: member for name, member in known.items() if name != _MARK}
    for name in _CONTENT:
        blocks: Any = kept.get(name)
        if isinstance(blocks, list):
            kept[name] = [bare(block) for block in cast("list[object]", blocks)]
    return kept
