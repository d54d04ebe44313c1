r"""What changed in the head between two requests, in words that a person understands.

The head stands in front of everything, so any difference in it makes the provider read the whole
request anew; mostly nobody meant it: a date in the system text, tools in another order, keys of a
schema sorted by another library. `head_drift` tells what differs between two heads, `drift` where
that happened on a path, and `byte_drift` does it for the bytes of a harness's own requests.

>>> before = Head(system="Today is 2026-11-29.\nBe brief.")
>>> [change.kind for change in head_drift(before, Head(system="Today is 2026-11-30.\nBe brief."))]
['date']
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

from attrs import frozen

from ctxalgebra.account import split
from ctxalgebra.bodies import (
    bare,
    each_member,
    elements,
    is_extension,
    is_same,
    is_same_content,
    read_members,
)
from ctxalgebra.loading import REFERENCE, immediate
from ctxalgebra.model.checks import check_callable, check_type, mistyped, read_json
from ctxalgebra.model.entries import Sent
from ctxalgebra.model.head import Head, Tool
from ctxalgebra.model.session import Session, check_session, walk
from ctxalgebra.model.view import Measure
from ctxalgebra.tokens import chars4

__all__ = ["ByteDrift", "Change", "Drift", "byte_drift", "drift", "head_drift"]

Kind = Literal["route", "added", "removed", "order", "key order", "white space", "date", "text"]

_SHOWN = 24

# A day, a time of day, or a Unix time; what stands for it is the same for all.
_DATE = re.compile(
    r"\b(?:[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?|[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{2,4}"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?: ?[AaPp][Mm])?|[0-9]{10}|[0-9]{13}"
    r"|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"
    r"|(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\.? [0-9]{1,2}(?:st|nd|rd|th)?,? [0-9]{4}"
    r"|[0-9]{1,2}\.? (?:January|February|March|April|May|June|July|August|September|October"
    r"|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\.? [0-9]{4})\b"
)
_SPACE = re.compile(r"\s+")


@frozen
class Change:
    """Tell of one difference.

    Args:
        place: what differs: `provider`, `model`, `parameters`, `binding`, `system`, `tools`, or a
            tool with one of its parts, as in `read: schema`.
        kind: how: see `Kind`. `date` and `white space` say that nothing else differs there, `key
            order` that a schema says the same, in another order.
        at: the first character that differs (code points), of the text at this place; of `tools`
            the index.
        before, after: what stands there, some characters of it.
    """

    place: str
    kind: Kind
    at: int
    before: str
    after: str

    def __str__(self) -> str:
        """Say it in one line; control characters are escaped."""
        where = f"{self.place}, from {self.at} on" if self.at else self.place
        return f"{where}: {self.before!r} became {self.after!r} ({self.kind})"


@frozen
class Drift:
    """Tell what changed in the head in front of one request.

    Args:
        sent: number of the request's `Sent`.
        changes: what differs from the head of the request before.
        rebilled: tokens that the request before held as well and that are sent anew, as `account`
            gives them for the break.
    """

    sent: int
    changes: tuple[Change, ...]
    rebilled: int


@frozen
class ByteDrift:
    """Tell where the bytes of two requests part.

    Args:
        path: the member, as in `messages[3].content`.
        kind: as in `Change`.
        at: the first character that differs of the text there.
        before, after: what stands there, some characters of it.
    """

    path: str
    kind: Kind
    at: int
    before: str
    after: str


def _common(before: str, after: str) -> int:
    """Count the characters that two texts begin with alike, by halving."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _kind(before: str, after: str) -> Kind:
    if _SPACE.sub("", before) == _SPACE.sub("", after):
        return "white space"
    if _DATE.sub("\0", before) == _DATE.sub("\0", after):
        return "date"
    return "text"


def _parting(before: str, after: str) -> tuple[int, str, str]:
    """Give where two texts part, and what stands there in each."""
    at = _common(before, after)
    return at, before[at : at + _SHOWN], after[at : at + _SHOWN]


def _text(place: str, before: str, after: str, kind: Kind | None = None) -> Change:
    return Change(place, kind or _kind(before, after), *_parting(before, after))


def _value(schema: str) -> object:
    """Read a schema; what is no JSON is only its text."""
    try:
        return read_json(schema)
    except ValueError:
        return schema


def _tool(before: Tool, after: Tool) -> Iterator[Change]:
    if before.description != after.description:
        yield _text(f"{after.name}: description", before.description, after.description)
    if before.schema != after.schema:
        kind = _kind(before.schema, after.schema)
        if kind == "text" and _value(before.schema) == _value(after.schema):
            kind = "key order"
        yield _text(f"{after.name}: schema", before.schema, after.schema, kind)


def _tools(before: tuple[Tool, ...], after: tuple[Tool, ...]) -> Iterator[Change]:
    old: Mapping[str, Tool] = {tool.name: tool for tool in before}
    new: Mapping[str, Tool] = {tool.name: tool for tool in after}
    for index, tool in enumerate(before):
        if tool.name not in new:
            yield Change("tools", "removed", index, tool.name, "")
    for index, tool in enumerate(after):
        if tool.name not in old:
            yield Change("tools", "added", index, "", tool.name)
    stayed = [tool.name for tool in before if tool.name in new]
    stays = [tool.name for tool in after if tool.name in old]
    if stayed != stays:
        at = next((i for i, (a, b) in enumerate(zip(stayed, stays, strict=False)) if a != b), 0)
        was, now = ", ".join(stayed[at : at + 3]), ", ".join(stays[at : at + 3])
        yield Change("tools", "order", at, was, now)
    for tool in new.values():
        if tool.name in old:
            yield from _tool(old[tool.name], tool)


def head_drift(before: Head, after: Head) -> tuple[Change, ...]:
    """Tell what differs between two heads, in the order in which providers build the prefix.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> a, b = Tool("read", "Reads."), Tool("bash", "Runs.", '{"a":1,"b":2}')
    >>> c = Tool("bash", "Runs.", '{"b":2,"a":1}')
    >>> for change in head_drift(Head(tools=(a, b)), Head(tools=(c, a))):
    ...     print(change)
    tools: 'read, bash' became 'bash, read' (order)
    bash: schema, from 2 on: 'a":1,"b":2}' became 'b":2,"a":1}' (key order)
    """
    check_type(before, Head, "before")
    check_type(after, Head, "after")
    changes: list[Change] = []
    for name in ("provider", "model", "parameters", "binding"):
        was, now = getattr(before.route, name), getattr(after.route, name)
        if was != now:
            changes.append(Change(name, "route", 0, str(was), str(now)))
    changes.extend(_tools(before.tools, after.tools))
    if before.system != after.system:
        changes.append(_text("system", before.system, after.system))
    return tuple(changes)


def drift(session: Session, *, measure: Measure = chars4) -> tuple[Drift, ...]:
    """List the requests on the path whose head is not that of the request before (a query).

    Deferred tools of Anthropic, in heads that were read from bodies, are no part of the prefix, and
    what becomes of them is no drift (1.2). Reads `Sent` and `Head` entries.

    Args:
        measure: tokens of a message or head.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import assistant, record, reply, send, user
    >>> session, _ = send(record(Session(), Head(system="At 09:12."), user("hi")))
    >>> session = reply(session, "completed", assistant("Hello!"))
    >>> session, _ = send(record(session, Head(system="At 09:13."), user("bye")))
    >>> [(d.sent, str(d.changes[0]), d.rebilled) for d in drift(session)]
    [(6, "system, from 7 on: '2.' became '3.' (date)", 4)]
    >>> from ctxalgebra import account
    >>> account(session).rebilled
    4
    """
    check_session(session)
    check_callable(measure, "measure")
    found: list[Drift] = []
    head: Head | None = None
    for node, view in walk(session):
        if type(node.entry) is not Sent:
            continue
        now = immediate(view.head)
        if head is not None and head != now:
            found.append(Drift(node.number, head_drift(head, now), split(view, measure)[1]))
        head = now
    return tuple(found)


_MESSAGES = ("messages", "input", "contents")
"""Where the APIs keep what was said: these may grow."""

_DECLARED = "functionDeclarations"
"""Where Gemini keeps functions, in an element of `tools`."""

_Members = dict[str, tuple[str, Any]]


def _deeper(path: str, before: Any, after: Any) -> tuple[str, Any, Any]:
    """Go down to the first member that differs, without recursion."""
    while True:
        keys: list[Any] = []
        lists = (type(before), type(after)) == (list, list)
        if (type(before), type(after)) == (dict, dict):
            keys = [key for key in before if key not in after or before[key] != after[key]]
            keys = [key for key in keys[:1] if key in after]
        elif lists:
            pairs = enumerate(zip(before, after, strict=False))
            keys = [index for index, (one, other) in pairs if one != other]
        if not keys:
            return path, before, after
        path += f"[{keys[0]}]" if lists else f".{keys[0]}"
        before, after = before[keys[0]], after[keys[0]]


def _parted(path: str, before: tuple[str, Any], after: tuple[str, Any]) -> ByteDrift:
    (was, old), (now, new) = before, after
    if old == new:
        spaced = _SPACE.sub("", was) == _SPACE.sub("", now)
        return ByteDrift(path, "white space" if spaced else "key order", *_parting(was, now))
    place, one, other = _deeper(path, old, new)
    if (type(one), type(other)) == (str, str):
        return ByteDrift(place, _kind(one, other), *_parting(one, other))
    one, other = (json.dumps(value, ensure_ascii=False) for value in (one, other))
    return ByteDrift(place, "text", *_parting(one, other))


def byte_drift(before: bytes, after: bytes) -> tuple[ByteDrift, ...]:
    r"""Tell where the later of two requests of a harness is no extension of the earlier one.

    Compares the bodies as bytes, member by member: lists of messages (`messages`, `input`,
    `contents`) may grow at their end, and so may the content of the last of them; everything else
    must be the same to the byte. Where the members stand in the body is no difference, since
    providers read it as JSON. Nor is what Anthropic reads as the same (rules C1, T3): a content
    that is a text instead of one text block, and where `cache_control` stands.

    Tools that Anthropic loads later (`defer_loading`) are no part of the prefix: they may come, go
    and change place, but for one that a message of the earlier request refers to (rules 1.2, T3);
    that it is gone or changed is told at its place in the list.

    Args:
        before, after: bodies as they were sent, one JSON object each.

    Returns:
        One for each member that differs, those of the head first; nothing when the later request
        extends the earlier one.

    Raises:
        InvalidArgument: `invalid-json`, a body is no JSON object; `too-deep`, it has more than 200
            levels; `wrong-type`.

    >>> before = b'{"system":"At 09:12","messages":[{"role":"user","content":"hi"}]}'
    >>> longer = before.replace(b"}]}", b'},{"role":"user","content":"more"}]}')
    >>> byte_drift(before, longer)
    ()
    >>> byte_drift(before, longer.replace(b"09:12", b"09:13"))
    (ByteDrift(path='system', kind='date', at=7, before='2', after='3'),)
    """
    for which, body in (("before", before), ("after", after)):
        if type(body) is not bytes:
            raise mistyped(body, "bytes", which)
    old, new = read_members(before, "before"), read_members(after, "after")
    found = _differing(old, new)
    return tuple(sorted(found, key=lambda one: one.path.startswith(_MESSAGES)))


def _differing(old: _Members, new: _Members) -> Iterator[ByteDrift]:
    for name, (text, value) in old.items():
        if name not in new:
            yield ByteDrift(name, "removed", 0, text[:_SHOWN], "")
            continue
        now, later = new[name]
        both_lists = (type(value), type(later)) == (list, list)
        if name in _MESSAGES and both_lists:
            yield from _said(name, text, now)
        elif name == "tools" and both_lists and any(map(_is_deferred, (*value, *later))):
            yield from _listed(name, text, now, _references(old.get("messages", ("", None))[1]))
        elif name == "tools" and both_lists:
            yield from _offered(name, text, now)
        elif text != now and not (name == "system" and is_same_content(text, now)):
            yield _parted(name, (text, bare(value)), (now, bare(later)))
    for name, (text, _) in new.items():
        if name not in old:
            yield ByteDrift(name, "added", 0, "", text[:_SHOWN])


def _called(tool: Any) -> str:
    """Give the name of a tool, wherever its API has it; empty for none."""
    known = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
    inner = known.get("function")
    name = (cast("dict[str, Any]", inner) if isinstance(inner, dict) else known).get("name")
    return name if isinstance(name, str) else ""


def _offered(name: str, before: str, after: str) -> Iterator[ByteDrift]:
    """Give the first difference of two lists of tools."""
    if before == after:
        return
    old, new = elements(before), elements(after)
    common = min(len(old), len(new))
    at = next((i for i in range(common) if not is_same(old[i], new[i])), common)
    stood, stands = ([_called(json.loads(tool)) for tool in tools] for tools in (old, new))
    came = at < len(new) and (at == len(old) or stands[at] not in stood)
    left = at < len(old) and (at == len(new) or stood[at] not in stands)
    if came and not left:
        yield ByteDrift(f"{name}[{at}]", "added", 0, "", new[at][:_SHOWN])
    elif left and not came:
        yield ByteDrift(f"{name}[{at}]", "removed", 0, old[at][:_SHOWN], "")
    elif at < common and (lists := _declared(old[at], new[at])):
        yield from _offered(f"{name}[{at}].{_DECLARED}", *lists)
    elif at < common or json.loads(before) == json.loads(after):
        was, now = ([bare(tool) for tool in json.loads(text)] for text in (before, after))
        yield _parted(name, (before, was), (after, now))


def _declared(before: str, after: str) -> tuple[str, str] | None:
    """Give the lists of functions of two of Gemini's tools, where these differ in nothing else."""
    if not (before.startswith("{") and after.startswith("{")):
        return None
    was, now = ({name: text for name, text, _ in each_member(tool)} for tool in (before, after))
    lists = was.pop(_DECLARED, ""), now.pop(_DECLARED, "")
    return lists if was == now and all(text.startswith("[") for text in lists) else None


def _is_deferred(tool: Any) -> bool:
    """Say whether an entry of `tools` is no part of the prefix; OpenAI's functions always are."""
    if not isinstance(tool, dict):
        return False
    known = cast("dict[str, Any]", tool)
    return known.get("defer_loading") is True and known.get("type", "custom") == "custom"


def _references(messages: Any) -> frozenset[str]:
    """List the names of the tools that messages refer to, wherever they do."""
    found: list[str] = []
    waiting: list[Any] = [messages]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            known = cast("dict[str, Any]", value)
            name = known.get("tool_name")
            if known.get("type") == REFERENCE and isinstance(name, str):
                found.append(name)
            waiting += known.values()
        elif isinstance(value, list):
            waiting += value
    return frozenset(found)


def _listed(name: str, before: str, after: str, loaded: frozenset[str]) -> Iterator[ByteDrift]:
    """Give the first difference of two lists of tools, without those that are not loaded."""
    old, new = _counting(before, loaded), _counting(after, loaded)
    for (index, was), (_, now) in zip(old[0], new[0], strict=False):
        if not is_same(was, now):
            values = (was, bare(json.loads(was))), (now, bare(json.loads(now)))
            yield _parted(f"{name}[{index}]", *values)
            return
    common = min(len(old[0]), len(new[0]))
    for index, gone in old[0][common:][:1]:
        yield ByteDrift(f"{name}[{index}]", "removed", 0, gone[:_SHOWN], "")
    for index, come in new[0][common:][:1]:
        yield ByteDrift(f"{name}[{index}]", "added", 0, "", come[:_SHOWN])
    if len(old[0]) != len(new[0]):
        return
    for tool, (index, was) in old[1].items():
        if tool not in new[1]:
            yield ByteDrift(f"{name}[{index}]", "removed", 0, was[:_SHOWN], "")
        elif not is_same(was, now := new[1][tool][1]):
            values = (was, bare(json.loads(was))), (now, bare(json.loads(now)))
            yield _parted(f"{name}[{index}]", *values)


_Numbered = list[tuple[int, str]]


def _counting(text: str, loaded: frozenset[str]) -> tuple[_Numbered, dict[str, tuple[int, str]]]:
    """Give the tools of the prefix with their indices, and by name the deferred ones in use."""
    immediate: _Numbered = []
    used: dict[str, tuple[int, str]] = {}
    for index, element in enumerate(elements(text)):
        tool = json.loads(element)
        if not _is_deferred(tool):
            immediate.append((index, element))
        elif isinstance(name := tool.get("name"), str) and name in loaded:
            used[name] = index, element
    return immediate, used


def _said(name: str, before: str, after: str) -> Iterator[ByteDrift]:
    """Give the first message that is not what it was."""
    earlier, later = elements(before), elements(after)
    for index, (was, now) in enumerate(zip(earlier, later, strict=False)):
        if not is_extension(was, now, grows=index == len(earlier) - 1):
            values = (was, bare(json.loads(was))), (now, bare(json.loads(now)))
            yield _parted(f"{name}[{index}]", *values)
            return
    if len(later) < len(earlier):
        gone = earlier[len(later)][:_SHOWN]
        yield ByteDrift(f"{name}[{len(later)}]", "removed", 0, gone, "")
