"""How the original paging system learns from usage: its rules, named, for who needs its numbers.

`ctxalgebra.calibrate` does the same work by other rules (see `docs/differences.md`, W5 and W17).
Here stand the original's: weights of the host, messages as plain JSON, numbers with fractions, one
global scale, a constant where the provider reports less than was estimated (specification of the
paging system, section 6). The tracker is a value; each operation gives the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, TypeAlias, cast

from attrs import evolve, frozen

from ctxalgebra.codecs.pi_weights import host_tokens, json_text
from ctxalgebra.compat.paging_limits import is_amount

__all__ = [
    "Calibrated",
    "Estimates",
    "Prepared",
    "Tracker",
    "calibrate_response",
    "clear",
    "outgoing_only",
    "prepare",
    "record_response",
    "record_selection",
    "reported_input",
    "response_usage",
    "valid_estimates",
]

HostMessage: TypeAlias = Mapping[str, Any]
Weight: TypeAlias = "int | float"

_EXACT = 2**53 - 1


@frozen
class Calibrated:
    """Split what was reported over the resident input and the messages.

    Args:
        overhead: tokens that the resident input costs beyond its weight.
        scale: factor of the messages' weights.
    """

    overhead: float
    scale: float


def calibrate_response(
    resident: float,
    messages: float,
    reported: float,
    *,
    previous: float | None = None,
    outgoing: float = 0,
) -> Calibrated | None:
    """Split an undercount into overhead and scale; None where there is none to split.

    Args:
        resident: weight of system text and tools.
        messages: weight of all messages, the response included.
        reported: tokens of request and response.
        previous: the overhead before; the new one doesn't rise above it.
        outgoing: weight of the messages that are not in the stored session; they are not scaled.

    >>> calibrate_response(100, 2000, 8400)
    Calibrated(overhead=300.0, scale=4.0)
    """
    scalable = messages - outgoing
    surplus = reported - resident - messages
    if surplus <= 0 or resident + scalable == 0:
        return None
    if previous is None:
        overhead = surplus * resident / (resident + scalable)
    else:
        overhead = min(previous, surplus)
    scale = 1 + (surplus - overhead) / scalable if scalable else 1
    return Calibrated(overhead, scale)


def _finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or isfinite(value)


def valid_estimates(estimates: object, count: int) -> bool:
    """Say whether estimates are whole: a resident weight, and one for each of `count` messages.

    >>> valid_estimates({"residentTokens": 1, "messageTokens": [1, 2.5]}, 2)
    True
    """
    if not isinstance(estimates, dict):
        return False
    members = cast("dict[str, object]", estimates)
    weights = members.get("messageTokens")
    if not isinstance(weights, list) or not is_amount(members.get("residentTokens")):
        return False
    listed = cast("list[object]", weights)
    return len(listed) == count and all(map(is_amount, listed))


def _responds(message: HostMessage) -> HostMessage | None:
    """Give the usage of a response that was neither aborted nor failed."""
    usage = message.get("usage")
    if message.get("role") != "assistant" or message.get("stopReason") in ("aborted", "error"):
        return None
    return cast("HostMessage", usage) if isinstance(usage, dict) else None


_PARTS = ("input", "output", "cacheRead", "cacheWrite")


def _sum(parts: Sequence[object]) -> Weight | None:
    """Add numbers up; None where one is none, or the sum is larger than the original's numbers."""
    if not all(map(_finite, parts)):
        return None
    try:
        return sum(cast("Sequence[float]", parts))
    except OverflowError:
        return None


def response_usage(message: HostMessage) -> Weight | None:
    """Give the tokens that a response reported for itself and its request; None for none.

    >>> response_usage({"role": "assistant", "usage": {"totalTokens": 8400}})
    8400
    """
    usage = _responds(message)
    if usage is None:
        return None
    total = usage.get("totalTokens")
    if not total:
        total = _sum([usage.get(name) for name in _PARTS])
    return cast("float", total) if is_amount(total) and total else None


def reported_input(message: HostMessage) -> int | None:
    """Give the input tokens that a response reported; None for none.

    >>> usage = {"input": 5, "cacheRead": 2, "cacheWrite": 1}
    >>> reported_input({"role": "assistant", "usage": usage})
    8
    """
    usage = _responds(message)
    if usage is None:
        return None
    parts = [usage.get(name) for name in ("input", "cacheRead", "cacheWrite")]
    if not all(type(part) is int and 0 <= part <= _EXACT for part in parts):
        return None
    counts = cast("list[int]", parts)
    output = usage.get("output")
    if not any(counts) and not (is_amount(output) and output):
        return None
    return sum(counts)


@frozen
class _Shot:
    """Hold a request as it was selected: texts of its messages, weights, which are stored."""

    texts: tuple[str, ...]
    weights: tuple[int, ...]
    stored: tuple[bool, ...]

    def kept(self) -> list[str]:
        """List the texts of the messages that the session stores."""
        return [text for text, stored in zip(self.texts, self.stored, strict=True) if stored]


def _text(message: HostMessage) -> str:
    return json_text(message, sort=True)


def _shoot(messages: Sequence[HostMessage], persistent: Sequence[HostMessage]) -> _Shot:
    """Tell stored messages from those that were only sent, with one cursor over the stored."""
    places: dict[str, list[int]] = {}
    for at, message in enumerate(persistent):
        places.setdefault(_text(message), []).append(at)
    used = dict.fromkeys(places, 0)
    cursor = 0
    texts: list[str] = []
    weights: list[int] = []
    stored: list[bool] = []
    for message in messages:
        text = _text(message)
        texts.append(text)
        system = message.get("role") == "system"
        weights.append(0 if system else host_tokens(message))
        found = False
        if not system and text in places:
            there, at = places[text], used[text]
            while at < len(there) and there[at] < cursor:
                at += 1
            used[text] = at
            found = at < len(there)
            if found:
                cursor = there[at] + 1
        stored.append(found)
    return _Shot(tuple(texts), tuple(weights), tuple(stored))


@frozen
class _Anchor:
    shot: _Shot
    resident: Weight
    response: str
    weight: int
    usage: Weight
    calibrated: Calibrated | None


@frozen
class Tracker:
    """Hold the request that is out, and the last one whose response reported usage."""

    pending: tuple[_Shot, Weight] | None = None
    anchor: _Anchor | None = None
    overhead: float | None = None


@frozen
class Estimates:
    """Weigh resident input and each message, calibrated."""

    resident: float
    messages: tuple[float, ...]


@frozen
class Prepared:
    """Give what a selection starts from: tokens of the context, and weights; None if unknown."""

    context: float | None = None
    estimates: Estimates | None = None


def outgoing_only(
    messages: Sequence[HostMessage], persistent: Sequence[HostMessage]
) -> tuple[bool, ...]:
    """Say of each message whether it is sent without being stored.

    >>> a, b = {"role": "user", "content": "a"}, {"role": "user", "content": "b"}
    >>> outgoing_only([a, b], [a])
    (False, True)
    """
    return tuple(not stored for stored in _shoot(messages, persistent).stored)


def record_selection(
    tracker: Tracker,
    messages: Sequence[HostMessage],
    resident: float,
    persistent: Sequence[HostMessage],
) -> Tracker:
    """Note the request that goes out; one with a resident weight that is none changes nothing."""
    if not is_amount(resident):
        return tracker
    return evolve(tracker, pending=(_shoot(messages, persistent), resident))


def record_response(tracker: Tracker, response: HostMessage) -> Tracker:
    """Learn from the response to the request that is out; without one nothing changes."""
    if tracker.pending is None:
        return tracker
    shot, resident = tracker.pending
    usage = response_usage(response)
    if usage is None:
        return evolve(tracker, pending=None)
    weight = host_tokens(response)
    outgoing = sum(w for w, kept in zip(shot.weights, shot.stored, strict=True) if not kept)
    fit = calibrate_response(
        resident,
        sum(shot.weights) + weight,
        usage,
        previous=tracker.overhead,
        outgoing=outgoing,
    )
    anchor = _Anchor(shot, resident, _text(response), weight, usage, fit)
    return Tracker(None, anchor, 0 if fit is None else fit.overhead)


def clear(_: Tracker) -> Tracker:
    """Forget everything."""
    return Tracker()


def _subsequence(wanted: Sequence[str], found: Sequence[str]) -> bool:
    rest = iter(found)
    return all(text in rest for text in wanted)


def _place(anchor: _Anchor, shot: _Shot, messages: Sequence[HostMessage]) -> int:
    """Find the anchor's response in a request behind the messages it answered; -1 for nowhere."""
    wanted = anchor.shot.kept()
    for at in range(len(messages) - 1, -1, -1):
        if shot.texts[at] == anchor.response:
            if not shot.stored[at]:
                return -1
            front = _Shot(shot.texts[:at], shot.weights[:at], shot.stored[:at])
            if _subsequence(wanted, front.kept()):
                return at
        if response_usage(messages[at]) is not None:
            return -1  # all in front of it has a later response
    return -1


def _estimates(
    anchor: _Anchor, fit: Calibrated, shot: _Shot, at: int, resident: float
) -> Estimates:
    """Scale what the report measured: the response and, backwards from it, what it answered."""
    weights: list[float] = list(shot.weights)
    weights[at] *= fit.scale
    wanted = anchor.shot.kept()
    for index in range(at - 1, -1, -1):
        if wanted and shot.stored[index] and shot.texts[index] == wanted[-1]:
            weights[index] *= fit.scale
            wanted.pop()
    return Estimates(resident + fit.overhead, tuple(weights))


def prepare(
    tracker: Tracker,
    messages: Sequence[HostMessage],
    resident: float,
    status: object,
    persistent: Sequence[HostMessage],
) -> Prepared:
    """Estimate the context of a request from the last report.

    Args:
        tracker: what was learned.
        messages: the request's messages.
        resident: weight of system text and tools.
        status: the host's own figure of the context.
        persistent: the messages that the session stores.
    """
    anchor = tracker.anchor
    if anchor is None or not is_amount(status) or not status:
        return Prepared()
    tail = 0
    for message in reversed(persistent):
        if response_usage(message) is not None:
            if _text(message) != anchor.response:
                return Prepared()
            break
        tail += host_tokens(message)
    else:
        return Prepared()
    shot = _shoot(messages, persistent)
    at = _place(anchor, shot, messages)
    if at < 0:
        return Prepared()
    measured = cast("float", status) - tail
    grown = sum(shot.weights) - sum(anchor.shot.weights) - anchor.weight
    context = max(0, measured + grown + resident - anchor.resident)
    fit = anchor.calibrated
    if fit is None or measured != anchor.usage:
        return Prepared(context)
    return Prepared(context, _estimates(anchor, fit, shot, at, resident))
