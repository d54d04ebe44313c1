"""The usage of a travelling session as its host counts it: on plain JSON, in the host's numbers.

Rules that hold for sessions too stand in `ctxalgebra.usage`; here is what reads the host's entries
and messages, and the form in which the document's era wrote its numbers (travel, sections 15, 18).
Percentages are doubles here, computed as the host does; where less was used than the messages
measure, what comes is scaled alike (the original keeps the measure; W10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import floor, isfinite
from typing import Any, Literal, cast

from attrs import frozen

from ctxalgebra.codecs.pi_weights import (
    WITHOUT_ARGUMENTS,
    host_tokens,
    json_text,
    resident_tokens,
    text_tokens,
    utf16_length,
)
from ctxalgebra.usage.budget import CAP, segments, working_budget
from ctxalgebra.usage.cycle import Cycle, restore
from ctxalgebra.usage.estimates import replaced
from ctxalgebra.usage.kinds import Breakdown, scaled, split_weight
from ctxalgebra.usage.odometer import fold_points

__all__ = [
    "HostPressure",
    "aggregate",
    "depth",
    "fold_references",
    "kinds_of",
    "number",
    "original_breakdown",
    "original_text",
    "pressure_text",
    "read_pressure",
    "restored_cycle",
    "save_point",
    "usage_after",
    "usage_text",
]

Entry = Mapping[str, Any]


def number(value: object) -> int | float | None:
    """Give a number that is finite for the host; None for everything else.

    >>> number(3), number(True), number(10**400), number("3")
    (3, None, None, None)
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return value if isfinite(value) else None
    except OverflowError:
        return None


# Pressure


@frozen
class HostPressure:
    """Hold the host's reading: usage of the window and pressure on the working budget, apart.

    Args:
        tokens: input tokens.
        window: the context window.
        usage: percent of the window, as the host says it where it does.
        budget: the working budget.
        pressure: percent of that.
    """

    tokens: int | float
    window: int | float
    usage: int | float
    budget: int | float
    pressure: float

    @property
    def policy(self) -> Literal["400k-cap", "actual-window"]:
        """Whether the working budget is less than the window."""
        return "400k-cap" if self.window > CAP else "actual-window"


def read_pressure(tokens: object, window: object, percent: object = None) -> HostPressure | None:
    """Read the pressure; None where tokens or window are no such numbers.

    Args:
        percent: what the host says of the window, if it says it.

    >>> read_pressure(300_000, 1_000_000).pressure, read_pressure(-1, 1000)
    (75.0, None)
    """
    used, whole, said = number(tokens), number(window), number(percent)
    if used is None or used < 0 or whole is None or whole <= 0:
        return None
    budget = cast("int | float", working_budget(whole))
    usage = said if said is not None and said >= 0 else used / whole * 100
    pressure = used / budget * 100
    if not (isfinite(usage) and isfinite(pressure)):
        return None
    return HostPressure(used, whole, usage, budget, pressure)


def pressure_text(
    tokens: object, window: object, percent: object = None, *, decimals: int = 0
) -> str | None:
    """Write the pressure as head does; None where there is none.

    >>> pressure_text(500_000, 400_001, decimals=1)
    '125% budget(400K) · 500K/400K window'
    """
    known = read_pressure(tokens, window, percent)
    if known is None:
        return None
    return segments(known.tokens, known.window, known.pressure, decimals)


def usage_text(usage: Entry | None) -> str:
    """Write usage as the host reports it.

    >>> usage_text({"tokens": 5000, "contextWindow": 100_000, "percent": 5}), usage_text(None)
    ('5% window · 5K/100K', 'Unknown')
    """
    of = usage or {}
    said = pressure_text(of.get("tokens"), of.get("contextWindow"), of.get("percent"), decimals=1)
    return said or "Unknown"


def _fixed(value: float | Fraction) -> str:
    """Write a number with one digit, ties away from zero, as `toFixed(1)` does."""
    tenths = floor(Fraction(value) * 10 + Fraction(1, 2))
    return f"{tenths // 10}.{tenths % 10}"


def _rounded(tokens: float) -> str:
    for unit, letter in ((1_000_000, "M"), (1_000, "K")):
        if tokens >= unit:
            return _fixed(tokens / unit).removesuffix(".0") + letter
    return json_text(floor(tokens + 0.5))


def original_text(tokens: object, window: object) -> str | None:
    """Write the pressure as the document's era does: rounded, with the budget's name.

    >>> original_text(391_896, 1_000_000)
    '98.0% (391.9K / 400K working budget; 400K cap)'
    """
    known = read_pressure(tokens, window)
    if known is None:
        return None
    name = "actual window" if known.policy == "actual-window" else "400K cap"
    used, budget = _rounded(known.tokens), _rounded(known.budget)
    return f"{_fixed(known.pressure)}% ({used} / {budget} working budget; {name})"


# Estimates


def aggregate(messages: Iterable[Entry]) -> tuple[int, int]:
    """Weigh messages, and count them.

    Raises:
        InvalidArgument: `wrong-type`, as `host_tokens`.

    >>> aggregate([{"role": "user", "content": "abcde"}])
    (2, 1)
    """
    weights = [host_tokens(m, without_arguments=WITHOUT_ARGUMENTS) for m in messages]
    return sum(weights), len(weights)


def usage_after(
    usage: Entry | None, before: float, after: float, extra: float = 0
) -> dict[str, Any] | None:
    """Estimate the host's usage when messages are replaced by others; None without a window.

    Args:
        usage: what the host reports.
        before, after: what the messages measure, in tokens.
        extra: tokens that come on top.

    >>> usage_after({"tokens": 100, "contextWindow": 1000}, 60, 10)
    {'tokens': 50, 'contextWindow': 1000, 'percent': 5.0}
    """
    window = number((usage or {}).get("contextWindow"))
    if usage is None or window is None or window <= 0:
        return None
    tokens = cast("int | float", replaced(number(usage.get("tokens")) or 0, before, after, extra))
    percent = min(max(tokens / window * 100, 0), 100)
    return {"tokens": tokens, "contextWindow": window, "percent": percent}


# Paths


def depth(path: Iterable[Entry]) -> int:
    """Count the summaries of branches on a path; those of compactions are none.

    >>> depth([{"type": "branch_summary"}, {"type": "compaction"}])
    1
    """
    return sum(entry.get("type") == "branch_summary" for entry in path)


def _is_user(entry: Entry) -> bool:
    message = entry.get("message")
    return (
        entry.get("type") == "message"
        and isinstance(message, Mapping)
        and cast("Entry", message).get("role") == "user"
    )


def fold_references(
    path: Sequence[Entry], names: Mapping[str, str], without: str | None = None
) -> tuple[Entry | None, Entry | None]:
    """Choose the entries of a path to which one could fold, see `fold_points`.

    Args:
        path: entries from the root to the leaf.
        names: labels by the ids of entries.
        without: the id of an entry that is not to be chosen.

    >>> path = [{"id": name, "type": "message", "message": {"role": "user"}} for name in "abc"]
    >>> [entry["id"] for entry in fold_references(path, {"a": "start"})]
    ['b', 'a']
    """
    users = [at for at, entry in enumerate(path) if _is_user(entry)]
    named = [at for at, entry in enumerate(path) if entry.get("id") in names]
    hidden = next((at for at, entry in enumerate(path) if entry.get("id") == without), None)
    turn, task = fold_points(users, named, hidden if without is not None else None)
    return None if turn is None else path[turn], None if task is None else path[task]


def save_point(path: Sequence[Entry], names: Mapping[str, str]) -> tuple[str, int] | None:
    """Find the nearest entry with a name, from the leaf back: its name, and how far it is.

    >>> save_point([{"id": "a"}, {"id": "b"}], {"a": "start"})
    ('start', 1)
    """
    for back, entry in enumerate(reversed(path)):
        if entry.get("id") in names:
            return names[entry["id"]], back
    return None


# Reminders


def _records(
    path: Iterable[Entry],
) -> Iterator[tuple[Literal["boundary", "baseline", "reminder"], object]]:
    for entry in path:
        match entry:
            case {"type": "branch_summary" | "compaction"}:
                yield "boundary", None
            case {
                "type": "custom",
                "customType": "acm:context-usage-state",
                "data": {"kind": "context-usage-baseline", "highestReachedLevel": level},
            }:
                yield "baseline", level
            case {
                "type": "custom_message",
                "customType": "acm:context-usage-reminder",
                "details": {"kind": "context-usage-reminder", "level": level},
            }:
                yield "reminder", level
            case _:
                pass


def restored_cycle(path: Iterable[Entry]) -> Cycle:
    """Give the state of the reminders that the entries of a path tell of.

    >>> restored_cycle([{"type": "compaction"}]).waiting
    True
    """
    return restore(_records(path))


# What fills the window


def _weights(message: Entry) -> tuple[int, int]:
    """Count the characters of an assistant's calls, and of its text and thinking."""
    calls = rest = 0
    content = message.get("content")
    for block in cast("list[object]", content) if isinstance(content, list) else ():
        match block:
            case {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
                rest += utf16_length(text)
            case {"type": "toolCall", "name": str(name)}:
                call = cast("Entry", block)
                calls += utf16_length(name) + WITHOUT_ARGUMENTS
                if "arguments" in call:
                    calls += utf16_length(json_text(call["arguments"])) - WITHOUT_ARGUMENTS
            case _:
                pass
    return calls, rest


_SAID = frozenset({"user", "custom", "branchSummary", "compactionSummary"})


def kinds_of(message: Entry) -> tuple[int, int, int]:
    """Split the tokens of a message: those of messages, of calls and results, of no kind.

    Raises:
        InvalidArgument: `wrong-type`, as `host_tokens`.

    >>> kinds_of({"role": "toolResult", "content": "abcd"})
    (0, 1, 0)
    """
    tokens = host_tokens(message, without_arguments=WITHOUT_ARGUMENTS)
    match message.get("role"):
        case "toolResult" | "bashExecution":
            return 0, tokens, 0
        case "assistant":
            calls, said = split_weight(tokens, *_weights(message))
            return said, calls, 0
        case str(role) if role in _SAID:
            return tokens, 0, 0
        case _:
            return 0, 0, tokens


def original_breakdown(
    actual: float,
    window: float,
    system: str,
    tools: Sequence[Entry],
    messages: Iterable[Entry],
) -> Breakdown:
    """Tell what fills the window, of the host's messages.

    Raises:
        InvalidArgument: `wrong-type`, as `host_tokens`.

    >>> tools = [{"name": "r", "description": "d", "parameters": {}}]
    >>> original_breakdown(100, 1000, "s" * 40, tools, []).other
    78
    """
    kinds = [kinds_of(message) for message in messages]
    said, calls, other = (sum(kind[at] for kind in kinds) for at in range(3))
    parts = (text_tokens(system), resident_tokens("", tools) if tools else 0, calls, said, other)
    known = sum(parts)
    scale = actual / known if known > actual else 1
    return scaled(*parts, actual=actual, window=window, scale=scale)
