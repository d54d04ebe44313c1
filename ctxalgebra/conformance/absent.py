"""Operations of the vectors that the library does not have, and why.

The door answers `skipped` to these, and `unknown-operation` to a name that nobody has heard of. An
area that gains an operation takes its name out here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

__all__ = ["ABSENT"]

_NAMES: tuple[tuple[str, str, str], ...] = (
    (
        "a function of the original's earlier version",
        "travel",
        """
        seed_format_context_usage_pressure
        seed_classify_context_usage_nudge_level seed_restore_context_usage_nudge_state
        seed_reminder_machine seed_calculate_context_usage_breakdown seed_classify_message_tokens
        """,
    ),
    (
        "not in the library yet",
        "travel",
        """
        calculate_context_usage_pressure format_token_count format_context_usage_pressure
        build_gauge_suffix append_suffix_patch gauge_machine aggregate_messages
        estimate_usage_after_message_change estimate_usage_from_aggregates format_context_usage
        summary_depth select_fold_references find_nearest_save_point ledger_machine refresh_machine
        delivery_machine
        checkpoint travel timeline_search_tree
        timeline_render_tree timeline_budgets timeline_snippet
        """,
    ),
)
"""Why, the area, and its operations."""


def _reasons() -> Iterator[tuple[str, str]]:
    for reason, area, names in _NAMES:
        for name in names.split():
            yield f"{area}.{name}", reason


ABSENT: Mapping[str, str] = MappingProxyType(dict(_reasons()))
"""Names of operations, and why the library lacks each."""
