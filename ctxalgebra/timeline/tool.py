"""The tool `timeline`, ready to be offered, and the answer to a call of it.

A harness adds `TIMELINE` to its tools and records what `respond_timeline` gives for a call, which
is pure: it reads the session, and what it gives is the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from ctxalgebra.arguments import arguments_of
from ctxalgebra.checkpoints.provenance import summary_depth
from ctxalgebra.checkpoints.refusals import Refusal
from ctxalgebra.checkpoints.targets import LONGEST_TARGET, resolve_target, save_point
from ctxalgebra.errors import CtxError, InvalidArgument
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.entries import Entry
from ctxalgebra.model.head import Tool
from ctxalgebra.model.parts import ToolCall, tool_result
from ctxalgebra.model.session import Session, check_session
from ctxalgebra.recall.texts import safe
from ctxalgebra.timeline.children import Stop
from ctxalgebra.timeline.render import LEAST, render
from ctxalgebra.timeline.search import QUERY, search
from ctxalgebra.timeline.texts import counted, plainly
from ctxalgebra.timeline.tree import LINES, tree
from ctxalgebra.timeline.values import ROWS, Budget, View, budget
from ctxalgebra.timeline.views import active, checkpoints, node
from ctxalgebra.tokens import chars4

__all__ = ["TIMELINE", "overview", "respond_timeline"]


def _says(kind: str, description: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more, "description": description}


_PROPERTIES: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "view": _says(
            "string",
            "active: the newest entries of your path (so if left out). checkpoints: names you can "
            "go back to. search: find text in all entries. node: one entry in full. tree: the "
            "branches",
            enum=["active", "checkpoints", "search", "node", "tree"],
        ),
        "limit": _says(
            "integer", f"Most rows, or levels of the tree; {ROWS} if left out", minimum=1,
            maximum=ROWS,
        ),
        "query": _says("string", "search: text to find, in any letter case", maxLength=QUERY),
        "scope": _says(
            "string", "search: only your path, or only what is off it", enum=["active", "archive"]
        ),
        "kind": _says(
            "string", "search: only entries of this kind",
            enum=["user", "assistant", "tool", "summary", "note"],
        ),
        "filter": _says("string", "checkpoints: part of a name", maxLength=QUERY),
        "target": _says(
            "string", "node: a checkpoint, #number, or root. tree: show what is below it instead",
            maxLength=LONGEST_TARGET,
        ),
        "offset": _says("integer", "node: where to read on, in characters", minimum=0),
        "before": _says("integer", "active, search: go on in front of this entry", minimum=0),
        "verbose": _says("boolean", "active, tree: show every entry"),
    }
)  # fmt: skip

TIMELINE = Tool(
    "timeline",
    "Look at the whole session, what is no longer shown to you included: your path, its "
    "checkpoints, other branches, any text. Call it before you travel, to choose where to, and to "
    "read what was left behind. It changes nothing. Entries are addressed as #number.",
    json.dumps(
        {
            "type": "object",
            "properties": dict(_PROPERTIES),
            "required": [],
            "additionalProperties": False,
        },
        separators=(",", ":"),
    ),
)
"""The tool, to be put into a head. Its text is part of the cached prefix: it stays as it is."""


def _arguments(call: ToolCall) -> dict[str, Any]:
    """Read what the model wrote, and refuse texts that are too long."""
    given = arguments_of(call, TIMELINE)
    for name, member in given.items():
        most = _PROPERTIES[name].get("maxLength")
        if most is not None and len(member) > most:
            text = f"longer than {most} characters"
            raise InvalidArgument("invalid-argument", text, field=name)
    return given


@frozen
class _Asked:
    """A call that was read: its arguments, its target, and the room for an answer."""

    session: Session
    given: dict[str, Any]
    number: int | None
    room: Budget
    stop: Stop | None

    def some(self, *names: str) -> dict[str, Any]:
        """Give those of these arguments that were given."""
        return {name: self.given[name] for name in names if name in self.given}


def _active(asked: _Asked) -> View:
    more = asked.some("limit", "verbose", "before")
    return active(asked.session, **more, stop=asked.stop)


def _checkpoints(asked: _Asked) -> View:
    part = asked.given.get("filter", "")
    return checkpoints(asked.session, part=part, **asked.some("limit"), stop=asked.stop)


def _search(asked: _Asked) -> View:
    if not asked.given.get("query", "").strip():
        raise InvalidArgument("invalid-argument", "a search needs a query", field="query")
    more = asked.some("query", "scope", "kind", "limit", "before")
    return search(asked.session, more.pop("query"), **more, stop=asked.stop)


def _node(asked: _Asked) -> View:
    if asked.number is None:
        raise InvalidArgument("invalid-argument", "which entry?", field="target")
    return node(
        asked.session,
        asked.number,
        **asked.some("offset", "limit"),
        # What stands beside the text is at most five rows.
        characters=asked.room.characters // 2,
        stop=asked.stop,
    )


def _tree(asked: _Asked) -> View:
    more = asked.some("verbose")
    if "limit" in asked.given:
        more["depth"] = asked.given["limit"]
    lines = min(LINES, asked.room.entries)
    return tree(asked.session, lines=lines, below=asked.number, **more, stop=asked.stop)


_VIEWS: Mapping[str, tuple[Callable[[_Asked], View], frozenset[str]]] = MappingProxyType(
    {
        "active": (_active, frozenset({"limit", "verbose", "before"})),
        "checkpoints": (_checkpoints, frozenset({"limit", "filter"})),
        "search": (_search, frozenset({"limit", "query", "scope", "kind", "before"})),
        "node": (_node, frozenset({"limit", "target", "offset"})),
        "tree": (_tree, frozenset({"limit", "target", "verbose"})),
    }
)
"""What answers each view, and which arguments it reads."""


def overview(session: Session, *, window: int | None = None, used: int | None = None) -> str:
    """Say in a line or two where a session stands.

    Args:
        session: read at its leaf.
        window: of the model, in tokens.
        used: tokens in use; by default a quarter of the characters that are shown.

    >>> from ctxalgebra import Session, record, user
    >>> print(overview(record(Session(), user("hi"))))
    You are at #0, 1 of 1 entries on this path; 1 message is shown, about 1 tokens.
    """
    leaf = session.leaf
    if leaf is None:
        return f"No entry is the current one; there are {len(session):,}."
    shown = session.view.end
    tokens = session.view.slots.total(chars4, shown) if used is None else used
    weight = f"about {tokens:,} tokens" if used is None else f"{tokens:,} tokens"
    room = "" if window is None else f" of {window:,}"
    messages = counted(shown, "message is shown", "messages are shown")
    line = (
        f"You are at #{leaf.number}, {leaf.depth + 1:,} of {len(session):,} entries on this path; "
        f"{messages}, {weight}{room}."
    )
    if depth := summary_depth(session):
        line = f"{line[:-1]}, {counted(depth, 'handoff')} among them."
    saved = save_point(session, leaf.number + 1)
    if saved is None:
        return line
    return f"{line}\nThe nearest checkpoint is at #{saved.number}."


def _answer(
    session: Session, given: dict[str, Any], room: Budget, stop: Stop | None, above: str
) -> str | Refusal:
    name = given.get("view", "active")
    view, reads = _VIEWS[name]
    number: int | None = None
    if "target" in reads and given.get("target", "").strip():
        target = resolve_target(session, given["target"])
        if isinstance(target, Refusal):
            return target
        number = target.number
    found = view(_Asked(session, given, number, room, stop))
    if beside := sorted(given.keys() - reads - {"view"}):
        above += f"\nThe view {name} does not read: {', '.join(beside)}."
    left = max(LEAST, room.characters - len(above) - 2)
    return f"{above}\n\n{render(found, characters=left)}"


def respond_timeline(
    session: Session,
    call: ToolCall,
    *,
    window: int | None = None,
    used: int | None = None,
    stop: Stop | None = None,
) -> tuple[Entry, ...]:
    """Answer a call of `TIMELINE`: give what is to be recorded, which is its result.

    Whatever the model wrote gets an answer: what is wrong with a call is the text of an error
    result, with the code; arguments that a view doesn't read are named. Nothing is recorded here,
    and equal sessions get equal answers. The answer is never longer than `budget` gives.

    Args:
        session: holds the call.
        call: its name is that of `TIMELINE`.
        window: of the model, in tokens.
        used: tokens in use, as the provider counts them.
        stop: says that the caller wants no more; the answer then holds what was found.

    Raises:
        InvalidArgument: `invalid-argument`, the call is for another tool, or the window is not
            positive; `wrong-type`.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> call = ToolCall("c1", "timeline", '{"view":"search","query":"NEEDLE"}')
    >>> session = record(Session(), user("Where is the needle?"), assistant(call))
    >>> print(respond_timeline(session, call)[0].parts[0].text)
    You are at #1, 2 of 2 entries on this path; 2 messages are shown, about 16 tokens.
    <BLANKLINE>
    1 match in 2 entries.
    #0 (root) [user] Where is the needle?
    """
    check_session(session)
    check_type(call, ToolCall, "call")
    if call.name != TIMELINE.name:
        raise InvalidArgument("invalid-argument", f"{call.name!r} is no timeline", field="call")
    room = budget(window, used)
    above = overview(session, window=window, used=used)
    try:
        said: str | Refusal | CtxError = _answer(session, _arguments(call), room, stop, above)
    except CtxError as error:
        said = error
    text = said if isinstance(said, str) else plainly(str(said), most=LEAST)
    failed = not isinstance(said, str)
    # Views keep to their room; whatever else stands here does, too.
    fitted = safe(text)[: room.characters]
    return (tool_result(call.id, fitted, name=call.name, error=failed),)
