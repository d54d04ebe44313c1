"""The report of the paging extension, on the host's entries (paging, section 11).

The report itself is `ctxalgebra.recall.report.Stats`; here is how the original fills it in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ctxalgebra.codecs.pi_weights import host_tokens
from ctxalgebra.compat.paging_limits import is_amount
from ctxalgebra.compat.paging_tokens import reported_input
from ctxalgebra.recall.report import Stats
from ctxalgebra.transforms.settings import MAX_TOKENS

__all__ = ["LatestInput", "host_stats"]

Host = Mapping[str, Any]


class LatestInput(NamedTuple):
    """Hold what is known of the latest request without looking it up."""

    tokens: float
    estimated: bool


def _members(value: object) -> Host:
    return cast("Host", value) if isinstance(value, dict) else {}


def _said(entry: Host) -> Host | None:
    """Give the message that an entry holds, if it holds one that a model may have read."""
    match entry.get("type"):
        case "message":
            return _members(entry.get("message"))
        case "custom_message":
            return {"role": "custom", "content": entry.get("content")}
        case _:
            return None


def _saved(entries: Sequence[Host]) -> Iterator[Host]:
    """Give all that entries hold as messages: originals, summaries and replacements."""
    by_id = {entry["id"]: entry for entry in entries if isinstance(entry.get("id"), str)}
    for entry in entries:
        said = _said(entry)
        if said is not None:
            yield said
            continue
        kind, summary = entry.get("type"), entry.get("summary")
        if kind == "branch_summary" and summary:
            yield {"role": "branchSummary", "summary": summary}
        elif kind == "compaction":
            yield {"role": "compactionSummary", "summary": summary}
            if isinstance(entry.get("systemMessage"), dict):
                yield entry["systemMessage"]
        elif kind == "context_edit" and isinstance(entry.get("replacement"), dict):
            target = entry.get("targetId")
            known = by_id.get(target) if isinstance(target, str) else None
            before = None if known is None else _said(known)
            if before is not None:
                yield {**before, "content": entry["replacement"].get("content")}


_STOPS = ("compaction", "branch_summary", "model_change")


def _input(branch: Sequence[Host]) -> LatestInput | None:
    """Find what the latest response of a branch reported, unless the branch went elsewhere."""
    for entry in reversed(branch):
        if entry.get("type") in _STOPS:
            return None
        message = _members(entry.get("message"))
        if entry.get("type") == "message" and message.get("role") == "assistant":
            tokens = reported_input(message)
            return None if tokens is None else LatestInput(tokens, estimated=False)
    return None


def _records(entries: Sequence[Host]) -> Iterator[Host]:
    """Give the usage of everything that was paid for; empty where a record lacks."""
    for entry in entries:
        kind, usage = entry.get("type"), entry.get("usage")
        if kind == "message":
            message = _members(entry.get("message"))
            role, usage = message.get("role"), message.get("usage")
            paid = role == "assistant" or (role == "toolResult" and usage is not None)
        else:
            summary = kind in ("compaction", "branch_summary")
            paid = kind == "usage" or (summary and usage is not None)
        if paid:
            yield _members(usage)


def _total(records: Sequence[Host], name: str) -> int | None:
    """Add up a counter; None when a record lacks it, or the sum is no exact number there."""
    counts = [record.get(name) for record in records]
    if not all(type(count) is int and 0 <= count <= MAX_TOKENS for count in counts):
        return None
    total = sum(cast("list[int]", counts))
    return total if total <= MAX_TOKENS else None


def host_stats(
    entries: Sequence[Host],
    *,
    branch: Sequence[Host] | None = None,
    token_budget: int,
    model_context_window: Any = None,
    enabled: bool = True,
    latest_input: LatestInput | None = None,
    stored: int | None = None,
) -> Stats:
    """Fill in the report from the entries of a session.

    Args:
        entries: all of them, on all branches.
        branch: those from the root to the leaf; all entries by default.
        token_budget, model_context_window: a window that is no positive number is unknown.
        enabled: whether history is paged.
        latest_input: what is known of the latest request; looked up on the branch by default.
        stored: bytes of the file.

    Raises:
        InvalidArgument: `wrong-type`, a message can't be weighed.

    >>> said = {"role": "user", "content": "x" * 400}
    >>> host_stats([{"type": "message", "id": "u", "message": said}], token_budget=9).history
    100
    """
    window = model_context_window if is_amount(model_context_window) else 0
    latest = latest_input or _input(entries if branch is None else branch)
    records = list(_records(entries))
    return Stats(
        enabled,
        stored,
        sum(map(host_tokens, _saved(entries))),
        None if latest is None else latest.tokens,
        latest is not None and latest.estimated,
        min(token_budget, window) if window else token_budget,
        window or None,
        _total(records, "cacheRead"),
        _total(records, "cacheWrite"),
    )
