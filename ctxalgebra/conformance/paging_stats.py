"""The operation `paging.stats`: figures of the report, as texts."""

from __future__ import annotations

from typing import Any

from ctxalgebra.compat.paging_limits import is_amount
from ctxalgebra.compat.paging_stats import LatestInput, host_stats
from ctxalgebra.conformance.operations import Refusal, collect
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.transforms.settings import is_tokens

__all__ = ["OPERATIONS"]

_NAMES = {
    "storedSize": "Stored size",
    "historyTokens": "History tokens",
    "inputTokens": "Input tokens",
    "pagingBudget": "Paging budget",
    "modelWindow": "Model window",
    "tokensRead": "Tokens read",
    "tokensWritten": "Tokens written",
}


def stats(
    *,
    entries: list[dict[str, Any]],
    enabled: bool,
    token_budget: int,
    branch: list[dict[str, Any]] | None = None,
    model_context_window: Any = None,
    latest_input: dict[str, Any] | None = None,
) -> Any:
    """Give the figures of the report; the size of the file is not known here."""
    if not is_tokens(token_budget):
        raise InvalidInput("input.tokenBudget: expected a positive integer")
    latest: LatestInput | None = None
    if latest_input is not None:
        if not is_amount(latest_input.get("tokens")):
            raise InvalidInput("input.latestInput: expected tokens and estimated")
        latest = LatestInput(latest_input["tokens"], latest_input.get("estimated") is True)
    try:
        found = host_stats(
            entries,
            branch=branch,
            enabled=enabled,
            token_budget=token_budget,
            model_context_window=model_context_window,
            latest_input=latest,
        )
    except InvalidArgument:
        raise Refusal("error") from None
    rows = found.rows()
    told = {name: rows[label] for name, label in _NAMES.items()}
    return {"enabled": enabled, **told, "budgetNote": found.note or None}


OPERATIONS = collect("paging", stats)
