r"""Read and rewrite texts in a call's arguments without touching the other bytes.

Arguments are the model's JSON text. What is rewritten are string literals in place: members keep
their order, and everything between them stays as it was. Nesting is followed with a list, not by
recursion, and arguments that are deeper than any tool's are taken for none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple, cast

from ctxalgebra.model.checks import read_json

__all__ = ["Place", "members", "rewritten", "text_member", "texts_in"]

DEPTH = 32
"""How deep arguments may be nested."""

# What has no end is taken to the end, so that nothing is read twice.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}:,]', re.DOTALL)


class Place(NamedTuple):
    """A text in arguments: its way, the places of its literal, its value.

    The way is the names of the members that lead to it; a list on it is a `*`.
    """

    way: tuple[str, ...]
    start: int
    end: int
    text: str


def members(arguments: str) -> dict[str, object] | None:
    r"""Read the members of an object; None when it is none, or nothing that JSON and UTF-8 hold.

    >>> members('{"path":"a.py"}'), members("[]"), members('{"a":"\\ud800"}')
    ({'path': 'a.py'}, None, None)
    """
    depth = most = 0
    for found in _TOKEN.finditer(arguments):
        depth += (found[0] in "[{") - (found[0] in "]}")
        most = max(most, depth)
    if most > DEPTH:
        return None
    try:
        value: object = read_json(arguments)
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def text_member(arguments: str, *names: str) -> str:
    """Give the first of these members that is a text; an empty one when there is none.

    >>> text_member('{"command":"make"}', "command"), text_member("nothing", "command")
    ('make', '')
    """
    known = members(arguments) or {}
    texts = (known.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str)), "")


def texts_in(arguments: str) -> list[Place]:
    """List the texts in an object that `members` can read, however deep they stand.

    >>> [(place.way, place.text) for place in texts_in('{"edits":[{"newText":"a"}],"n":1}')]
    [(('edits', '*', 'newText'), 'a')]
    """
    found: list[Place] = []
    way: list[str] = []  # of each open bracket, the member that is being read
    open_: list[bool] = []  # of each open bracket, whether it is an object
    name = True  # whether the next text is a name
    for token in _TOKEN.finditer(arguments):
        match token[0]:
            case "{":
                open_.append(True)
                way.append("")
                name = True
            case "[":
                open_.append(False)
                way.append("*")
                name = False
            case "]" | "}":
                open_.pop()
                way.pop()
            case ",":
                name = open_[-1]
            case ":":
                name = False
            case literal:
                text: str = json.loads(literal)
                if name:
                    way[-1] = text
                else:
                    found.append(Place(tuple(way), token.start(), token.end(), text))
    return found


def rewritten(arguments: str, places: list[Place], word: Callable[[Place], str]) -> str:
    """Put another text in some places; everything else stays byte for byte.

    >>> arguments = '{ "a": "long", "b": 1 }'
    >>> rewritten(arguments, texts_in(arguments), lambda place: "short")
    '{ "a": "short", "b": 1 }'
    """
    out: list[str] = []
    done = 0
    for place in places:
        out += [arguments[done : place.start], json.dumps(word(place), ensure_ascii=False)]
        done = place.end
    return "".join([*out, arguments[done:]])
