"""What the pi host takes its context to weigh, and when that is too much (its format, 6 and 7).

The last usage that a provider reported, and the weights of the messages behind it. A call without
arguments weighs what the host's agent core gives it; its other function fails there (W32).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple, cast

from attrs import frozen

from ctxalgebra.codecs.pi_weights import WITHOUT_ARGUMENTS, host_tokens
from ctxalgebra.compat.host_context import last_compaction, messages_of, session_context
from ctxalgebra.compat.host_entries import LAST, Entry, path_of
from ctxalgebra.compat.paging_tokens import response_usage
from ctxalgebra.errors import InvalidArgument

__all__ = [
    "CompactionSettings",
    "ContextEstimate",
    "ContextUsage",
    "context_tokens",
    "context_usage",
    "counted",
    "entry_tokens",
    "estimate_context",
    "is_recoverable_length",
    "should_compact",
]


@frozen
class CompactionSettings:
    """Say when to compact and how much to keep.

    Args:
        enabled: compact at all.
        reserve_tokens: room for the next reply.
        keep_recent_tokens: weight of the messages that stay.
    """

    enabled: bool = True
    reserve_tokens: float = 16384
    keep_recent_tokens: float = 20000


class ContextEstimate(NamedTuple):
    """Hold an estimate, in tokens: reported, weighed behind it, and both; and where it stands."""

    tokens: float
    usage: float
    trailing: int
    last: int | None


class ContextUsage(NamedTuple):
    """Hold how full a window is; tokens and percent are None where nobody can know."""

    tokens: float | None
    window: float
    percent: float | None


_BROKEN = ("aborted", "error")


def counted(number: float, name: str) -> float:
    """Give back a number that the host can count with.

    Raises:
        InvalidArgument: `invalid-argument`, it is too large for the host's numbers, or none.

    >>> counted(7, "budget")
    7
    """
    try:
        fine = isfinite(number)
    except OverflowError:
        fine = False
    if not fine:
        raise InvalidArgument("invalid-argument", "no number of the host", field=name)
    return number


def _weight(messages: Sequence[Entry]) -> int:
    return sum(host_tokens(message, without_arguments=WITHOUT_ARGUMENTS) for message in messages)


def entry_tokens(entry: Entry) -> int:
    """Weigh the messages that an entry contributes.

    Raises:
        InvalidArgument, DecodeError: `wrong-type`, a message can't be weighed, or there is none.

    >>> entry_tokens({"type": "compaction", "summary": "12345"})
    2
    """
    return _weight(messages_of(entry))


def context_tokens(usage: Entry) -> float:
    """Give the tokens of a record of usage: its total, or the sum of its parts; 0 for none.

    >>> context_tokens({"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4})
    10
    """
    return response_usage({"role": "assistant", "usage": usage}) or 0


def estimate_context(messages: Sequence[Entry]) -> ContextEstimate:
    """Estimate a context: the last usage that counts, and the weight of what stands behind it.

    Usage of aborted and failed replies doesn't count, nor one of nothing.

    Raises:
        InvalidArgument: `wrong-type`, a message can't be weighed.

    >>> estimate_context([{"role": "user", "content": "abcd"}])
    ContextEstimate(tokens=1, usage=0, trailing=1, last=None)
    """
    for at in range(len(messages) - 1, -1, -1):
        reported = response_usage(messages[at])
        if reported is not None:
            trailing = _weight(messages[at + 1 :])
            return ContextEstimate(reported + trailing, reported, trailing, at)
    trailing = _weight(messages)
    return ContextEstimate(trailing, 0, trailing, None)


def _stale(path: Sequence[Entry]) -> bool:
    """Say whether the last reply that came to its end is older than the last compaction."""
    last = last_compaction(path)
    if last < 0:
        return False
    for entry in reversed(path[last + 1 :]):
        for message in messages_of(entry):
            if message.get("role") == "assistant" and message.get("stopReason") not in _BROKEN:
                return response_usage(message) is None
    return True


def context_usage(
    entries: Sequence[Entry], window: float, leaf: str | None = LAST
) -> ContextUsage | None:
    """Say how full the window is at a leaf; None without a window.

    After a compaction nobody knows until a reply has reported its usage.

    Args:
        entries: in the order of the file.
        window: tokens of the model's window.
        leaf: an id; None stands before the first entry.

    Raises:
        DecodeError: `cyclic-parent`, `wrong-type`.
        InvalidArgument: `unknown-entry`; `wrong-type`, a message can't be weighed;
            `invalid-argument`, the window is no number of the host's.

    >>> context_usage([], 1000)
    ContextUsage(tokens=0, window=1000, percent=0.0)
    """
    if counted(window, "window") <= 0:
        return None
    if _stale(path_of(entries, leaf)):
        return ContextUsage(None, window, None)
    tokens = estimate_context(session_context(entries, leaf).messages).tokens
    percent = tokens / window * 100
    return ContextUsage(tokens, window, percent if isfinite(percent) else None)


def should_compact(
    tokens: float, window: float, settings: CompactionSettings | None = None
) -> bool:
    """Say whether the window is nearly full.

    Raises:
        InvalidArgument: `invalid-argument`, one of them is no number of the host's.

    >>> should_compact(111_616, 128_000), should_compact(111_617, 128_000)
    (False, True)
    """
    settings = settings or CompactionSettings()
    reserve = counted(settings.reserve_tokens, "reserve_tokens")
    limit = counted(window, "window") - reserve
    return settings.enabled and counted(tokens, "tokens") > limit


def is_recoverable_length(message: Entry, desired: float) -> bool:
    """Say whether a reply stopped for its length in front of the output that was asked for.

    >>> is_recoverable_length({"stopReason": "length", "usage": {"output": 10}}, 100)
    True
    """
    usage = message.get("usage")
    if message.get("stopReason") != "length" or not isinstance(usage, dict):
        return False
    output = cast("Entry", usage).get("output")
    return type(output) in (int, float) and desired > 0 and cast("float", output) < desired
