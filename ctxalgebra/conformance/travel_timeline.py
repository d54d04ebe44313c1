"""The part of `travel` that looks: the timeline of the original on entries of its host."""

from __future__ import annotations

from typing import Any

from ctxalgebra.compat.host_entries import LAST
from ctxalgebra.compat.travel_timeline import TEXT, excerpt, read_budget, search_tree, tree_lines
from ctxalgebra.conformance.operations import collect

__all__ = ["OPERATIONS"]

Json = dict[str, Any]


def timeline_budgets(*, usage: dict[str, Any] | None) -> Any:
    """Give the room for an answer."""
    known = usage or {}
    room = read_budget(known.get("contextWindow"), known.get("tokens"))
    return {"entries": room.entries, "chars": room.characters}


def timeline_snippet(*, text: str, max: int = 100) -> Any:  # noqa: A002 - a member of the input
    """Give a text on one line."""
    return excerpt(text, max)


def timeline_render_tree(
    *, entries: list[Json], leaf_id: str | None = LAST, max_depth: int, verbose: bool = False
) -> Any:
    """Write the tree."""
    found = tree_lines(entries, leaf_id, depth=max_depth, verbose=verbose)
    return {
        "lines": list(found.lines),
        "truncated": found.truncated,
        "hiddenNodes": found.hidden,
    }


def timeline_search_tree(
    *,
    entries: list[Json],
    leaf_id: str | None = LAST,
    query: str,
    limit: int,
    scan_node_budget: int = 5_000,
    scope: str | None = None,
    type: str | None = None,  # noqa: A002 - a member of the input
) -> Any:
    """Search the tree."""
    found = search_tree(
        entries, query, leaf_id, limit=limit, scan=scan_node_budget, scope=scope, kind=type
    )
    return {
        "matches": [
            {"id": name, **({} if label is None else {"label": label}), "text": text}
            for name, label, text in found.matches
        ],
        "truncated": found.stopped is not None,
        "truncationReason": found.stopped,
        "scannedNodes": found.scanned,
        "scanBudget": scan_node_budget,
        "textChars": found.characters,
        "textBudget": TEXT,
        "nodesCutAtNodeCap": found.cut_by_cap,
        "nodesCutAtCallBudget": found.cut_by_budget,
    }


OPERATIONS = collect(
    "travel", timeline_budgets, timeline_render_tree, timeline_search_tree, timeline_snippet
)
