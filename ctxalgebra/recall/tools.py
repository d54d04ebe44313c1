"""The four tools of recall, ready to be offered, and the answer to a call of one.

A harness adds `RECALL_TOOLS` to its head and answers calls whose name is among `RECALL_NAMES` with
`respond`, which is pure: it reads the session and gives the message to record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ctxalgebra.arguments import arguments_of, schema
from ctxalgebra.errors import CtxError, InvalidArgument
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.head import Tool
from ctxalgebra.model.parts import Message, ToolCall, tool_result
from ctxalgebra.model.session import Session
from ctxalgebra.recall.history import History, as_history
from ctxalgebra.recall.items import RECALL_NAMES, item_json
from ctxalgebra.recall.pages import read_output
from ctxalgebra.recall.search import LIMITS, Reference, browse, load, search
from ctxalgebra.recall.texts import quote, safe

__all__ = ["RECALL_TOOLS", "respond"]

_LIST = 1000
"""How much of a list of names a reference shows, in characters of JSON."""


def _text(description: str, most: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": most, "description": description}


def _number(description: str, least: int, most: int | None) -> dict[str, Any]:
    top = {} if most is None else {"maximum": most}
    return {"type": "integer", "minimum": least, **top, "description": description}


def _names(description: str) -> dict[str, Any]:
    item = {"type": "string", "maxLength": LIMITS.word}
    return {
        "type": "array",
        "items": item,
        "maxItems": LIMITS.filter,
        "description": description,
    }


_ID = _text("historyId of a search or browse result, or of a notice", LIMITS.id)

RECALL_TOOLS: tuple[Tool, ...] = (
    Tool(
        RECALL_NAMES[0],
        "Search the whole conversation, what is no longer shown to you included. Gives references, "
        "best first; read them with load_history or read_context_output.",
        schema(
            ["query"],
            query=_text("Words to look for; empty to use the filters alone", LIMITS.query),
            files=_names("Only turns that touched all of these files, as named in the calls"),
            tools=_names("Only turns that called all of these tools"),
            failed={"type": "boolean", "description": "Only turns that failed, or did not"},
            limit=_number("Most references, 5 if left out", 1, LIMITS.answers),
            load={"type": "boolean", "description": "Also load the first three"},
        ),
    ),
    Tool(
        RECALL_NAMES[1],
        "Walk through the whole conversation in order. Gives references.",
        schema(
            ["direction"],
            direction={
                "type": "string",
                "enum": ["backward", "forward", "around"],
                "description": "Where to go from the anchor; without one, from the newest item "
                "(forward: from the oldest)",
            },
            historyId=_ID,
            sequence=_number("The anchor by its place instead", 0, LIMITS.sequence),
            count=_number("Most references, 5 if left out", 1, LIMITS.answers),
            stride=_number("Give every n-th item only", 1, LIMITS.stride),
        ),
    ),
    Tool(
        RECALL_NAMES[2],
        "Load items of the conversation in full, exactly as they were recorded. Long ones are "
        "better read in pages with read_context_output.",
        schema(
            ["historyIds"],
            historyIds={
                "type": "array",
                "items": _ID,
                "minItems": 1,
                "maxItems": LIMITS.loads,
                "description": "Which items, in this order",
            },
        ),
    ),
    Tool(
        RECALL_NAMES[3],
        "Read a tool result, or a part of an assistant message, in exact pages. The first line of "
        "the answer is JSON with nextOffset (null at the end); everything behind it is the page.",
        schema(
            ["historyId", "source"],
            historyId=_ID,
            source={"type": "string", "enum": ["toolResult", "assistant"]},
            toolCallId={"type": "string", "description": "For toolResult: the id of the call"},
            contentIndex=_number("For assistant: the index of the part", 0, None),
            offset=_number("Where the page begins, 0 if left out", 0, None),
            limit=_number("Most characters, 2000 if left out", 1, LIMITS.page),
        ),
    ),
)
"""The tools, to be put into a head. Their text is part of the cached prefix: it stays as it is."""

_TOOLS: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in RECALL_TOOLS})


def _within(names: tuple[str, ...]) -> str:
    """Write the first names of a list, as many as there is room for, as JSON."""
    kept: list[str] = []
    size = 0
    for name in names:
        text = quote(name)
        size += len(text) + 1
        if size > _LIST:
            break
        kept.append(text)
    return f"[{','.join(kept)}]"


def reference_json(found: Reference) -> str:
    """Write a reference as JSON; of long lists of names it has the beginning only.

    >>> reference_json(Reference("3", 1, "user", "hi", (), (), False, "0", None))
    ... # doctest: +NORMALIZE_WHITESPACE
    '{"historyId":"3","sequence":1,"kind":"user","preview":"hi","tools":[],"files":[],"failed":false,"previousHistoryId":"0","nextHistoryId":null}'
    """
    beside = [("previousHistoryId", found.previous), ("nextHistoryId", found.next)]
    ends = [f'"{name}":{"null" if id is None else quote(id)}' for name, id in beside]
    return (
        f'{{"historyId":{quote(found.id)},"sequence":{found.sequence},"kind":{quote(found.kind)},'
        f'"preview":{quote(found.preview)},"tools":{_within(found.tools)},'
        f'"files":{_within(found.files)},"failed":{"true" if found.failed else "false"},'
        f"{','.join(ends)}}}"
    )


def references_json(found: tuple[Reference, ...]) -> str:
    """Write references as a JSON list.

    Raises:
        InvalidArgument: `reply-too-long`.
    """
    text = f"[{','.join(map(reference_json, found))}]"
    if len('{"references":}') + len(text) > LIMITS.reply:
        raise InvalidArgument(
            "reply-too-long", f"more than {LIMITS.reply} characters; ask for fewer"
        )
    return text


def _search(known: History, given: dict[str, Any]) -> str:
    loads = given.pop("load", False)
    found = search(known, given.pop("query"), **given)
    text = references_json(found)
    if not loads:
        return f'{{"references":{text}}}'
    ids = [reference.id for reference in found]
    items = load(known, ids[: LIMITS.loads]) if ids else ()
    rest = ",".join(map(quote, ids[LIMITS.loads :]))
    return (
        f'{{"references":{text},"items":[{",".join(map(item_json, items))}],'
        f'"unloadedHistoryIds":[{rest}]}}'
    )


def _browse(known: History, given: dict[str, Any]) -> str:
    id = given.pop("historyId", None)
    return f'{{"references":{references_json(browse(known, id=id, **given))}}}'


def _load(known: History, given: dict[str, Any]) -> str:
    return f'{{"items":[{",".join(map(item_json, load(known, given["historyIds"])))}]}}'


def _read(known: History, given: dict[str, Any]) -> str:
    needed, other = ("toolCallId", "contentIndex")
    if given["source"] == "assistant":
        needed, other = other, needed
    if needed not in given or other in given:
        raise InvalidArgument("invalid-argument", f"{needed}, and no {other}", field=needed)
    found = read_output(
        known,
        given["historyId"],
        call=given.get("toolCallId"),
        index=given.get("contentIndex"),
        offset=given.get("offset", 0),
        limit=given.get("limit", LIMITS.page),
    )
    following = "null" if found.next is None else found.next
    return (
        f'{{"offset":{found.offset},"nextOffset":{following},"totalCharacters":{found.total},'
        f'"form":"{found.form}"}}\n{found.text}'
    )


_ANSWERS: Mapping[str, Callable[[History, dict[str, Any]], str]] = MappingProxyType(
    dict(zip(RECALL_NAMES, (_search, _browse, _load, _read), strict=True))
)


def respond(source: Session | History, call: ToolCall) -> Message:
    """Answer a call of one of recall's tools; the message to record.

    Whatever the model wrote gets an answer: what is wrong with a call is the text of an error
    result, with the code. Nothing is recorded, and equal sessions get equal answers.

    Args:
        source: the session that holds the call, which itself is no history yet.
        call: its name is one of `RECALL_NAMES`.

    Raises:
        InvalidArgument: `invalid-argument`, the call is for another tool; `wrong-type`.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> call = ToolCall("c1", "search_history", '{"query":"needle"}')
    >>> session = record(Session(), user("Where is the needle?"), assistant(call))
    >>> respond(session, call).parts[0].text[:30]
    '{"references":[{"historyId":"0'
    """
    known = as_history(source)
    check_type(call, ToolCall, "call")
    answer = _ANSWERS.get(call.name)
    if answer is None:
        raise InvalidArgument("invalid-argument", f"{call.name!r} is no tool of recall")
    try:
        text, failed = answer(known, arguments_of(call, _TOOLS[call.name])), False
    except CtxError as error:
        text, failed = safe(str(error)), True
    return tool_result(call.id, text, name=call.name, error=failed)
