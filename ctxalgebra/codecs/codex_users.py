"""What the user says in a rollout: as an item for the model, as an event for people, or as both.

The host writes both, side by side; converters write events alone, and others items alone. So an
event is an echo where an item of the same stretch (what stands between two items of the model)
says the same, or the same with something around it, as editors put it. Each item has one echo at
most. What no item says was said in the event.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from ctxalgebra.codecs.lines import Json, string
from ctxalgebra.codecs.responses_items import OUTPUTS, elements

__all__ = ["echo_of", "echoes"]

_NEAR = 8
"""So many items without an echo are looked through for one that holds the text of an event."""

_Said = list[tuple[int, str]]


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    return "".join(string(_object(block).get("text")) for block in elements(content))


def echo_of(item: dict[str, Json]) -> dict[str, Json] | None:
    """Give the event that repeats an item of the user; None for other items.

    >>> echo_of({"type": "message", "role": "user", "content": "hi"})
    {'type': 'user_message', 'message': 'hi'}
    """
    if item.get("role") != "user":
        return None
    return {"type": "user_message", "message": _text(item.get("content"))}


def _pair(items: list[str], events: _Said) -> Iterable[int]:
    """Find the echoes of a stretch: those with just the text of an item, then the others."""
    same: defaultdict[str, deque[int]] = defaultdict(deque)
    for place, text in enumerate(items):
        same[text].append(place)
    left = dict(enumerate(items))
    others: _Said = []
    for number, text in events:
        if same[text]:
            del left[same[text].popleft()]
            yield number
        else:
            others.append((number, text))
    waiting = deque(left.values())
    for number, text in others:
        found = (at for at in range(min(_NEAR, len(waiting))) if text in waiting[at])
        if text.strip() and (at := next(found, -1)) >= 0:
            del waiting[at]
            yield number


def echoes(lines: Iterable[tuple[int, dict[str, Json]]]) -> frozenset[int]:
    """Find the events that only repeat what an item says.

    Args:
        lines: the objects of a rollout, each with its number.

    Returns:
        The numbers of these lines.

    >>> item = {"role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    >>> event = {"type": "user_message", "message": "hi"}
    >>> both = [{"type": "response_item", "payload": item}, {"type": "event_msg", "payload": event}]
    >>> echoes(enumerate([*both, both[1]], 1))
    frozenset({2})
    """
    found: set[int] = set()
    items: list[str] = []
    events: _Said = []
    for number, value in lines:
        payload = _object(value.get("payload"))
        kind, role = string(payload.get("type")), string(payload.get("role"))
        if value.get("type") == "event_msg" and kind == "user_message":
            events.append((number, string(payload.get("message"))))
        elif value.get("type") != "response_item":
            continue
        elif role == "user":
            items.append(_text(payload.get("content")))
        elif role == "assistant" or (not role and kind not in OUTPUTS):
            found.update(_pair(items, events))
            items, events = [], []
    found.update(_pair(items, events))
    return frozenset(found)
