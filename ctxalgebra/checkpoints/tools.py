"""The tools of travel, ready to be offered, and the answer to a call of one.

A harness adds `CHECKPOINT` and `TRAVEL` to its tools and gives their calls to `respond_travel`,
which is pure. A checkpoint is answered by its result. A journey is its own answer: the call stays
on the branch that was left, and the next request goes on from the handoff. Whatever the model wrote
gets an answer: what is refused is the text of an error result, with the code. Source: travel,
sections 9, 10 and 12.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from ctxalgebra.arguments import schema
from ctxalgebra.checkpoints.guidance import CUES, SLOT_CUES
from ctxalgebra.checkpoints.handoff import REQUIRED, format_defect, type_of, wire_defects
from ctxalgebra.checkpoints.receipts import Receipt, checkpoint
from ctxalgebra.checkpoints.refusals import Refusal
from ctxalgebra.checkpoints.travel import apply_travel, plan_travel
from ctxalgebra.errors import InvalidArgument, ProtocolViolation, escaped
from ctxalgebra.events import open_calls
from ctxalgebra.model.checks import check_type, read_json
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Tool
from ctxalgebra.model.parts import ToolCall, tool_result
from ctxalgebra.model.session import Session, check_session
from ctxalgebra.model.view import Measure
from ctxalgebra.tokens import chars4

__all__ = ["CHECKPOINT", "TRAVEL", "TRAVEL_TOOLS", "receipt_text", "respond_travel"]


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", **more, "description": description}


_NAME = {"pattern": "^[A-Za-z0-9._-]+$", "minLength": 1}
_TARGET = "Where: a checkpoint's name, root, or the number of an entry as in #12"

CHECKPOINT = Tool(
    "checkpoint",
    CUES["checkpoint"],
    schema(
        ["name"],
        name=_text("Letters, digits, dots, underscores, hyphens; not root", **_NAME),
        target=_text(f"{_TARGET}. If left out, where you are"),
    ),
)
"""Names a place to come back to."""

_SLOTS: Mapping[str, Any] = json.loads(
    schema(
        [slot for slot in SLOT_CUES if slot in REQUIRED],
        **{slot: _text(cue) for slot, cue in SLOT_CUES.items()},
    )
)

TRAVEL = Tool(
    "travel",
    CUES["travel"],
    schema(
        ["target", "handoff"],
        target=_text(_TARGET),
        handoff=_SLOTS,
        ticket=_text("Name for what you leave. If left out, one is made", **_NAME),
    ),
)
"""Goes to a place with a handoff."""

TRAVEL_TOOLS: tuple[Tool, ...] = (CHECKPOINT, TRAVEL)
"""The tools, to be put into a head. Their text is part of the cached prefix: it stays as it is."""

_SCHEMAS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {tool.name: json.loads(tool.schema) for tool in TRAVEL_TOOLS}
)


_LONGEST = 4_000
"""So much is said of what is wrong with a call, which may be wrong in a million ways."""


def _arguments(call: ToolCall) -> dict[str, Any] | Refusal:
    """Read what the model wrote, or say all that is wrong with it; nulls are left out."""
    try:
        value: object = read_json(call.arguments)
    except ValueError:
        return Refusal("invalid-params", "the arguments are no JSON")
    if not isinstance(value, dict):
        return Refusal("invalid-params", "the arguments are no object")
    given = {name: v for name, v in cast("dict[str, Any]", value).items() if v is not None}
    shape = _SCHEMAS[call.name]
    wrong = [f"{name} is missing" for name in shape["required"] if name not in given]
    for name, member in given.items():
        if name not in shape["properties"]:
            wrong.append(f"there is no argument {name!r:.80}")
        elif name != "handoff" and not isinstance(member, str):
            wrong.append(f"{name} is a text, not {type_of(member)}")
    if wrong:
        return Refusal("invalid-params", "; ".join(wrong))
    defects = wire_defects(given["handoff"])[1] if "handoff" in given else ()
    if defects:
        told = escaped("; ".join(map(format_defect, defects)))
        return Refusal("invalid-handoff", told, defects)
    return given


def receipt_text(receipt: Receipt) -> str:
    """Word the receipt of a checkpoint for the model, with the one next move.

    >>> from ctxalgebra import Session, record, user
    >>> _, receipt = checkpoint(record(Session(), user("hi")), "start")
    >>> receipt_text(receipt).splitlines()[0]
    'Checkpoint start is at #0 (user): 1 messages, about 1 tokens stay when you travel there.'
    """
    held = "was there already" if receipt.status == "present" else f"is at #{receipt.number}"
    role = f" ({receipt.role})" if receipt.role else ""
    kept = f"{receipt.kept.messages} messages, about {receipt.kept.tokens} tokens"
    lines = [f"Checkpoint {receipt.name} {held}{role}: {kept} stay when you travel there."]
    if receipt.since is not None:
        lines.append(f"Entries since the checkpoint in front of it: {receipt.since}.")
    if receipt.displaced:
        lines.append(f"A label that nobody can use gave way: {escaped(receipt.displaced[:80])}.")
    lines += [_NOTICES[notice] for notice in receipt.notices]
    return "\n".join([*lines, CUES["checked"]])


_NOTICES = {
    "target-no-message": "The entry is no message of the user's or of yours.",
    "target-off-path": "The entry is on another branch.",
}


def respond_travel(
    session: Session, call: ToolCall, *, aborted: bool = False, measure: Measure = chars4
) -> Session:
    """Answer a call of `checkpoint` or `travel`: the session to go on with.

    Args:
        session: holds the call, open.
        call: its name is that of `CHECKPOINT` or `TRAVEL`.
        aborted: the caller has given it up.
        measure: of tokens.

    Returns:
        The session with the result of the call; after a journey, the session at the target, with
        the handoff, where the call has no result.

    Raises:
        InvalidArgument: `invalid-argument`, the call is for another tool; `wrong-type`.
        ProtocolViolation: `orphan-result`, the call is not open.

    >>> from ctxalgebra import Session, assistant, labels, open_calls, record, user
    >>> call = ToolCall("c1", "checkpoint", '{"name":"start"}')
    >>> session = respond_travel(record(Session(), user("hi"), assistant(call)), call)
    >>> labels(session), open_calls(session)
    ({0: 'start'}, ())
    """
    check_session(session)
    check_type(call, ToolCall, "call")
    if call.name not in _SCHEMAS:
        raise InvalidArgument("invalid-argument", f"{call.name!r} does not travel", field="call")
    if call.id not in open_calls(session):
        raise ProtocolViolation("orphan-result", f"no open call has the id {call.id!r}")
    given = _arguments(call)
    if isinstance(given, Refusal):
        return _refused(session, call, given)
    if call.name == CHECKPOINT.name:
        after, found = checkpoint(session, aborted=aborted, measure=measure, **given)
        if isinstance(found, Refusal):
            return _refused(session, call, found)
        return record(after, tool_result(call.id, receipt_text(found), name=call.name))
    plan = plan_travel(session, call=call.id, aborted=aborted, measure=measure, **given)
    if isinstance(plan, Refusal):
        return _refused(session, call, plan)
    return apply_travel(session, plan)


def _refused(session: Session, call: ToolCall, refusal: Refusal) -> Session:
    text = str(refusal)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}…"
    return record(session, tool_result(call.id, text, name=call.name, error=True))
