"""Show outputs of tools as compacted views, from the first request on, and give originals back.

What a view leaves out is marked in it with its number, and the whole output stays in the journal:
the store that gives it back is a fold, so it is there again when the journal is loaded. How an
output is shortened is `ctxalgebra.compaction`'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple, cast

from attrs import evolve

from ctxalgebra.compaction.engine import (
    DEFAULT,
    Compacted,
    Policy,
    Saver,
    compress,
    hold,
    must_be_exact,
    original,
    press,
    retrieve,
    retrieve_characters,
    set_query,
    shown_whole,
)
from ctxalgebra.compaction.limits import SHORTEST
from ctxalgebra.compaction.recovery import keep
from ctxalgebra.errors import escaped
from ctxalgebra.explain import carried
from ctxalgebra.ledger import mechanism
from ctxalgebra.model.checks import check_items, check_type
from ctxalgebra.model.entries import Replace, Reply, Sent
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Tool
from ctxalgebra.model.parts import Message, Part, Text, ToolCall, tool_result
from ctxalgebra.model.session import Fold, Node, Session, check_session, find, fold
from ctxalgebra.model.view import View
from ctxalgebra.transforms.arguments import members
from ctxalgebra.transforms.unsent import exchanges_unsent, replacement, settled

__all__ = [
    "POLICY",
    "RETRIEVE",
    "compact_output",
    "exact",
    "named_in",
    "originals",
    "retrieve_output",
]

_STAGE, _LIMIT = "compact", "limit"
_HELD = "; full="
_NAME = "retrieve_output"
_WHOLE = "whole"

POLICY = evolve(
    DEFAULT,
    exempt=DEFAULT.exempt
    | {_NAME, "search_history", "browse_history", "load_history", "read_context_output"},
)
"""Our rules; the answers of tools that give outputs and history back are shown as they are."""

RETRIEVE = Tool(
    _NAME,
    "Read an output that was compacted or cut, exactly as the tool gave it, by lines or by "
    "characters. The first line of the answer says what it shows and where to read on; everything "
    "behind it is the output.",
    json.dumps(
        {
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "What stands behind full= in a result"},
                "startLine": {"type": "integer", "minimum": 1, "description": "1 if left out"},
                "maxLines": {"type": "integer", "minimum": 1, "maximum": 1000},
                "startCharacter": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Read characters instead of lines, from this place on",
                },
                "maxCharacters": {"type": "integer", "minimum": 1, "maximum": 100_000},
            },
            "required": ["id"],
            "additionalProperties": False,
        },
        separators=(",", ":"),
    ),
)
"""The tool that gives originals back; `retrieve_output` answers its calls."""


class _New(NamedTuple):
    """A result that no request has shown: its entry, what a limit would cut, its tool, its form."""

    number: int
    message: Message
    tool: str
    shaper: str = ""


class _Known(NamedTuple):
    """The fold's value: the saver, and the results that no request has shown, with their calls."""

    saver: Saver = Saver()
    calls: tuple[ToolCall, ...] = ()
    new: tuple[_New, ...] = ()


def _texts(message: Message) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, Text)]


def _named(calls: tuple[ToolCall, ...], result: Message) -> str:
    return next((call.name for call in calls if call.id == result.call), result.name)


def _said(saver: Saver, message: Message | None) -> Saver:
    """Take note of what the model asks to have back."""
    for call in message.calls if message is not None else ():
        if call.name == _NAME:
            given = members(call.arguments) or {}
            name, start = given.get("id"), given.get("startLine", 1)
            if isinstance(name, str) and start == 1 and not given.get("startCharacter"):
                saver = press(saver, name)
    return saver


def _shown(known: _Known, decision: Replace) -> _Known:
    """Take note of what is shown of a result, from the reason that the stage gave."""
    item = next((item for item in known.new if item.number == decision.target), None)
    if item is None:
        return known
    saver, by = known.saver, mechanism(decision)
    changed = item._replace(shaper=by)
    if by == _STAGE:
        words = decision.why.partition(": ")[2].split("; ")
        for text, word in zip(_texts(item.message), words, strict=False):
            strategy = word.partition(" ")[0]
            if strategy != _WHOLE:
                saver = hold(saver, item.tool, text, strategy)
    elif by == _LIMIT and _HELD in decision.why:
        store, _ = keep(saver.store, "\n".join(_texts(item.message)), item.tool)
        saver = evolve(saver, store=store)
    else:
        changed = changed._replace(message=decision.message)
    new = tuple(changed if one is item else one for one in known.new)
    return known._replace(saver=saver, new=new)


def _sent(known: _Known) -> _Known:
    saver = known.saver
    for _, message, tool, shaper in known.new:
        for text in [] if shaper else _texts(message):
            if len(text) >= SHORTEST:
                saver = shown_whole(saver, tool, text)
    return known._replace(saver=saver, new=())


def _step(known: _Known, node: Node, _: View) -> _Known:
    match node.entry:
        case Message(role="user") as message:
            return known._replace(saver=set_query(known.saver, "\n".join(_texts(message))))
        case Message(role="tool") as message:
            new = _New(node.number, message, _named(known.calls, message))
            return known._replace(new=(*known.new, new))
        case Message(role="assistant") as message:
            return known._replace(saver=_said(known.saver, message), calls=message.calls)
        case Reply(message=message, outcome="completed"):
            said = _said(known.saver, message)
            return known._replace(saver=said, calls=message.calls if message is not None else ())
        case Replace() as decision:
            return _shown(known, decision)
        case Sent():
            return _sent(known)
        case _:
            return known


_KNOWN: Fold[_Known] = Fold("compact", _Known(), _step, reads=(Message, Reply, Replace, Sent))


def originals(session: Session) -> Saver:
    """Give what compaction remembers on the path: the originals, what was shown, and how.

    Reads: results, requests, the decisions of `compact_output` and of `limit_output`, calls of
    `retrieve_output`.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> originals(Session()).store.held
    0
    """
    return fold(session, _KNOWN).saver


def named_in(why: str, name: str) -> str:
    """Say in the reason of a limit which text is to be held; nothing without a name.

    >>> named_in("9 bytes", "a1"), named_in("9 bytes", "")
    ('9 bytes; full=a1', '9 bytes')
    """
    return f"{why}{_HELD}{name}" if name else why


def exact(session: Session, call: ToolCall, result: Message) -> bool:
    """Say whether a result must be read word by word (a query).

    So is what was asked for in a form that a program reads, a file that is about to be edited,
    instructions, and what gives originals and history back: compaction passes them.

    Reads: `originals`, for what the user asked for.

    >>> call = ToolCall("c1", "read", '{"path":"/skills/x/SKILL.md"}')
    >>> exact(Session(), call, tool_result("c1", "Do it."))
    True
    """
    arguments = members(call.arguments) or {}
    saver = originals(session)
    texts = _texts(result) or [""]
    return any(must_be_exact(saver, call.name, arguments, t, policy=POLICY) for t in texts)


def compact_output(
    session: Session, *, tools: tuple[str, ...] | None = None, policy: Policy = POLICY
) -> Session:
    r"""Show outputs as compacted views, before they are first sent (a stage).

    Each text of an unsent result is judged by itself: what kind of output it is, and what of it
    counts for the last thing that the user asked for. A view says how much it leaves out, and names
    the original, which `retrieve_output` gives back exactly. An output that was there before
    is shown as a reference. Images, error flag and whatever else the result holds stay.

    Left as they are: short outputs; what was asked for in a form that a program reads; files about
    to be edited; instructions; what no filter shortens by a twelfth and 120 characters; results
    that another stage has replaced.

    Args:
        tools: names of the tools whose results are looked at; None for all but those that give
            originals and history back.
        policy: how outputs are judged (`ctxalgebra.compaction.engine`).

    Reads: what was not sent, `originals`. Records: `Replace` decisions, or nothing.

    Raises:
        InvalidArgument: `wrong-type`.

    The rules are those of the skills-and-saver specification, sections 12 to 15.

    >>> from ctxalgebra import ToolCall, assistant, project, user
    >>> lines = "\n".join(f"INFO request {n} served" for n in range(10_000, 10_100))
    >>> call = ToolCall("c1", "bash", '{"command":"docker logs web"}')
    >>> session = record(Session(), user("what is slow?"), assistant(call))
    >>> session = compact_output(record(session, tool_result("c1", lines)))
    >>> project(session).messages[-1].parts[0].text.splitlines()[1]
    'INFO request 10000 served  ×100 alike'
    """
    check_session(session)
    if tools is not None:
        check_items(tools, str, "tools")
    check_type(policy, Policy, "policy")
    saver: Saver | None = None
    for exchange in exchanges_unsent(session):
        for call, (number, shown) in zip(exchange.message.calls, exchange.results, strict=True):
            if tools is not None and call.name not in tools:
                continue
            if settled(session, _STAGE, number) or shown is not carried(find(session, number)):
                continue
            saver = originals(session) if saver is None else saver
            saver, views = _views(saver, call, shown, policy)
            if any(view.changed for view in views):
                session = record(session, _replaced(number, shown, views))
    return session


def _views(
    saver: Saver, call: ToolCall, result: Message, policy: Policy
) -> tuple[Saver, list[Compacted]]:
    arguments = members(call.arguments) or {}
    views: list[Compacted] = []
    for text in _texts(result):
        saver, view = compress(saver, call.name, arguments, text, error=result.error, policy=policy)
        views.append(view)
    return saver, views


def _replaced(number: int, result: Message, views: list[Compacted]) -> Replace:
    rest = iter(views)
    parts: list[Part] = [
        Text(next(rest).text) if isinstance(part, Text) else part for part in result.parts
    ]
    told = "; ".join(
        f"{view.strategy} {view.original} to {view.size} characters" if view.changed else _WHOLE
        for view in views
    )
    return replacement(_STAGE, number, evolve(result, parts=tuple(parts), origin=""), told)


def retrieve_output(session: Session, call: ToolCall) -> Message:
    """Answer a call of the tool `RETRIEVE`, purely: the message to record (a query).

    Pages by lines keep the separators between their lines; what stands behind the last one is in
    the first line of the answer, so that pages can be put together exactly. Such a page has 50,000
    characters at most: it ends with the last line that fits, and of a line that is longer by itself
    it shows the beginning and names the character to read on from, with `startCharacter`.

    Args:
        session: read at its leaf.
        call: its arguments are checked; what is wrong is told to the model as an error result.

    Reads: `originals`.

    Raises:
        InvalidArgument: `wrong-type`, no session or no call.

    >>> message = retrieve_output(Session(), ToolCall("c1", "retrieve_output", '{"id":"0"}'))
    >>> message.error, message.parts[0].text[:34]
    (True, 'No output with the id 0 is held: i')
    """
    check_session(session)
    check_type(call, ToolCall, "call")
    saver, given = originals(session), members(call.arguments)
    if given is None:
        return _wrong(call, "the arguments are no JSON object")
    for name, value in given.items():
        if name not in _LIMITS:
            return _wrong(call, f"there is no argument {name!r}")
        least, most = _LIMITS[name]
        if name == "id":
            if not isinstance(value, str):
                return _wrong(call, "id is no text")
        elif type(value) is not int or not least <= value <= most:
            return _wrong(call, f"{name} is no integer from {least} to {most}")
    if "id" not in given:
        return _wrong(call, "id is missing")
    numbers = cast("dict[str, int]", given)
    id = cast("str", given["id"])
    if "startCharacter" in given or "maxCharacters" in given:
        start, count = numbers.get("startCharacter", 0), numbers.get("maxCharacters", 16_000)
        _, piece = retrieve_characters(saver, id, start, count)
        if piece is not None:
            told = {"id": piece.id, "startCharacter": piece.start, "characters": len(piece.text)}
            told |= {"totalCharacters": piece.total, "nextCharacter": piece.next or None}
            return _page(call, told, piece.text)
    else:
        start, count = numbers.get("startLine", 1), numbers.get("maxLines", 240)
        _, page = retrieve(saver, id, start, count)
        if page is not None and len(page.text) > _LONGEST:
            ends = _ENDING.findall(page.text[: _LONGEST + 1])
            if not ends:
                return _beginning(call, saver, page.id, page.start)
            _, page = retrieve(saver, id, page.start, len(ends))
        if page is not None:
            told = {"id": page.id, "startLine": page.start, "endLine": page.end}
            told |= {"totalLines": page.total, "nextLine": page.next or None}
            return _page(call, {**told, "separator": page.separator}, page.text)
    shown = escaped(id[:64])[:64]
    return tool_result(
        call.id,
        f"No output with the id {shown} is held: it was not compacted here, or newer ones took "
        "its place.",
        name=call.name,
        error=True,
    )


_LIMITS = {
    "id": (0, 0),
    "startLine": (1, 2**53),
    "maxLines": (1, 1000),
    "startCharacter": (0, 2**53),
    "maxCharacters": (1, 100_000),
}


_LONGEST = 50_000
_ENDING = re.compile(r"\r\n|[\r\n]")


def _beginning(call: ToolCall, saver: Saver, name: str, line: int) -> Message:
    """Show the beginning of a line that is longer than a page."""
    text = original(saver.store, name) or ""
    ends = [found.end() for found in _ENDING.finditer(text)]
    start = ends[line - 2] if line > 1 else 0
    piece = text[start : start + _LONGEST]
    told: dict[str, object] = {"id": name, "startLine": line, "startCharacter": start}
    told |= {"characters": len(piece), "totalCharacters": len(text)}
    return _page(call, {**told, "nextCharacter": start + len(piece)}, piece)


def _page(call: ToolCall, told: Mapping[str, object], text: str) -> Message:
    return tool_result(call.id, f"{json.dumps(told)}\n{text}", name=call.name)


def _wrong(call: ToolCall, what: str) -> Message:
    return tool_result(call.id, f"Wrong arguments: {what}.", name=call.name, error=True)
