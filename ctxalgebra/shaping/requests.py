"""Less effort in the body of a request, after a routine step on the path of its session.

The body is the adapter's, and the decision a query: nothing is recorded. What it costs is told,
since providers key what they cached by the effort that was asked for. Source: skills and saver,
section 17; provider rules C10 and 2.2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_callable, check_type, mistyped
from ctxalgebra.model.entries import Reply, Sent
from ctxalgebra.model.parts import Message, Text, ToolCall
from ctxalgebra.model.session import Fold, Node, Session, check_session, fold
from ctxalgebra.model.view import Measure, View, weigh
from ctxalgebra.shaping.effort import (
    Path,
    Routine,
    is_routine,
    lower_budget,
    lower_level,
    put,
    routine_after,
)
from ctxalgebra.tokens import chars4
from ctxalgebra.transforms.pipeline import CacheState, check_cache

__all__ = ["Api", "Effort", "routine_state", "shape_effort"]

Api: TypeAlias = Literal["anthropic-messages", "gemini-contents", "openai-chat", "openai-responses"]
"""The APIs whose fields are known, by the names of their formats."""


class _Steps(NamedTuple):
    """What the path says.

    Fields: the `state` of the results since the last request, that of the results `before` it,
    and the `calls` that are being answered.
    """

    state: Routine = "none"
    before: Routine = "none"
    calls: tuple[ToolCall, ...] = ()


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        value: object = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _is_routine(message: Message, calls: tuple[ToolCall, ...]) -> bool:
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
    return any(
        is_routine(call.name, _arguments(call), text, failed=message.error)
        for call in calls
        if call.id == message.call
    )


def _step(known: _Steps, node: Node, _view: View) -> _Steps:
    entry = node.entry
    if isinstance(entry, Sent):
        return _Steps("none", known.state, known.calls)
    if isinstance(entry, Reply):
        message = entry.message if entry.outcome == "completed" else None
        return known._replace(calls=message.calls if message else ())
    message = cast("Message", entry)
    if message.role == "assistant":
        # It proves that a request was sent.
        return _Steps("none", known.state, message.calls)
    routine = message.role == "tool" and _is_routine(message, known.calls)
    return known._replace(state=routine_after(known.state, routine=routine))


_STEPS: Fold[_Steps] = Fold("routine steps", _Steps(), _step, reads=(Sent, Reply, Message))


def routine_state(session: Session) -> Routine:
    """Say what stands between the last request and the next one, or the one in flight (a query).

    `eligible` where that are results of tools and nothing else, all of them routine
    (`is_routine`); `blocked` where one is not, and where somebody spoke; `none` for nothing new.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import assistant, record, tool_result, user
    >>> call = ToolCall("c1", "bash", '{"command":"git status"}')
    >>> session = record(Session(), user("a"), assistant(call), tool_result("c1", "clean"))
    >>> routine_state(session), routine_state(record(session, user("b")))
    ('eligible', 'blocked')
    """
    check_session(session)
    known = fold(session, _STEPS)
    return known.before if session.view.flight >= 0 else known.state


def _lower_spelled(value: Any) -> Any:
    """Lower a level as it is spelled: the names of an enumeration are in capitals."""
    lowered = lower_level(value)
    return lowered.upper() if lowered is not value and value.isupper() else lowered


_Fields = tuple[tuple[Path, Callable[[Any], Any]], ...]

_FIELDS: Mapping[str, _Fields] = MappingProxyType(
    {
        "anthropic-messages": (
            (("output_config", "effort"), lower_level),
            (("thinking", "budget_tokens"), lower_budget),
        ),
        "gemini-contents": (
            (("generationConfig", "thinkingConfig", "thinkingBudget"), lower_budget),
            (("generationConfig", "thinkingConfig", "thinkingLevel"), _lower_spelled),
            (("generation_config", "thinking_config", "thinking_budget"), lower_budget),
            (("generation_config", "thinking_config", "thinking_level"), _lower_spelled),
        ),
        "openai-chat": ((("reasoning_effort",), lower_level),),
        "openai-responses": ((("reasoning", "effort"), lower_level),),
    }
)


@frozen
class Effort:
    """Hold a body that may ask for less effort.

    Args:
        payload: the body; the one that came in where nothing is lowered.
        lowered: the fields that are, as in `reasoning.effort`.
        rebilled: tokens that were cached for another effort and are read anew for this one.
        price: tokens that lowering reads anew; what was paid, or too much to do it unasked.
    """

    payload: Mapping[str, Any]
    lowered: tuple[str, ...] = ()
    rebilled: int = 0
    price: int = 0


def _cached(session: Session, api: str, measure: Measure) -> int:
    """Count the tokens of the request before that this one would read, were its effort the same."""
    view = session.view
    sent = view.sent
    # No rule says that Gemini's cache knows of thinking (2.3).
    if sent is None or api == "gemini-contents":
        return 0
    if view.flight >= 0:
        same = sent.shared if sent.before >= 0 else -1
    else:
        same = sent.end if view.broke is None else view.broke.at
    if same < 0:
        return 0
    # With OpenAI the effort is a reason for a miss by itself (2.2).
    head = 0 if api == "anthropic-messages" else weigh(measure, view.head)
    return head + view.slots.total(measure, same)


def shape_effort(
    session: Session,
    payload: Mapping[str, Any],
    *,
    api: Api,
    previous: Mapping[str, Any] | None = None,
    breaks: bool = False,
    cache: CacheState = "warm",
    measure: Measure = chars4,
) -> Effort:
    """Lower the effort that a body asks for, where the step before it was routine (a query).

    A field that the body has is lowered, and none is made up: `output_config.effort` and
    `thinking.budget_tokens` of Anthropic, `reasoning_effort` of Chat, `reasoning.effort` of
    Responses, `thinkingBudget` and `thinkingLevel` of Gemini. It is never lowered behind an error,
    a command that may change something, results of which one is not routine (W40), or when
    somebody spoke.

    What is cached for one effort is not read for another: with Anthropic all messages (C10; for
    some models system text and tools as well), with OpenAI everything (2.2). So where lowering
    would have anything read anew, the body is left as it is and `price` says how much; with
    `breaks` it is lowered, and the next request of the old effort pays again. Nothing is read anew
    in a cold cache, where the head breaks anyway, and where the previous body asked for as little.
    Gemini is not known to key by it.

    Args:
        session: the request in flight is the one of the body, else the next one.
        payload: the body as it would be sent. It is not changed.
        api: whose fields it has.
        previous: the body before, as it was sent; without it, it asked for what this one asks for.
        breaks: lower at any price.
        cache: whether the provider still has what was sent before.
        measure: tokens of a message or head.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, there is no such API or state of a cache.

    >>> from ctxalgebra import assistant, record, tool_result, user
    >>> call = ToolCall("c1", "bash", '{"command":"git status"}')
    >>> session = record(Session(), user("a"), assistant(call), tool_result("c1", "clean"))
    >>> body = {"generationConfig": {"thinkingConfig": {"thinkingBudget": 8192}}}
    >>> shape_effort(session, body, api="gemini-contents").payload
    {'generationConfig': {'thinkingConfig': {'thinkingBudget': 1024}}}
    """
    state = routine_state(session)
    for field, body in (
        ("payload", payload),
        ("previous", payload if previous is None else previous),
    ):
        if not isinstance(cast("object", body), Mapping):
            raise mistyped(body, "an object", field)
    if cast("object", api) not in get_args(Api):
        text = f"api is one of {', '.join(get_args(Api))}"
        raise InvalidArgument("invalid-argument", text, field="api")
    check_type(breaks, bool, "breaks")
    check_cache(cache)
    check_callable(measure, "measure")
    asked = _asked(payload, api)
    before = asked if previous is None else _asked(previous, api)
    tokens = 0 if cache == "cold" else _cached(session, api, measure)
    unchanged = Effort(payload, (), 0 if asked == before else tokens)
    lowered = payload
    for path, lower in _FIELDS[api]:
        lowered = put(lowered, path, lower)
    if state != "eligible" or lowered is payload:
        return unchanged
    less = _asked(lowered, api)
    names = tuple(".".join(path) for path, value in less.items() if value != asked[path])
    price = 0 if less == before else tokens
    if price > unchanged.rebilled and not breaks:
        return Effort(payload, (), unchanged.rebilled, price)
    return Effort(lowered, names, price, price)


def _asked(body: Mapping[str, Any], api: Api) -> dict[Path, Any]:
    """Map each known field that a body has to its value."""
    found: dict[Path, Any] = {}
    for path, _ in _FIELDS[api]:
        value: Any = body
        for name in path:
            value = cast("dict[str, Any]", value).get(name) if isinstance(value, Mapping) else None
        if value is not None:
            found[path] = value
    return found
