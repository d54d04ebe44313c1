"""The area `paging`: what a rolling window does, as far as the library does it likewise.

Budgets are integers here, and a target over the budget is refused; the page on differences says
why. The other operations of the area stand in `ctxalgebra.conformance.absent`.
"""

from __future__ import annotations

from typing import Any

from ctxalgebra.conformance.operations import Refusal, collect
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.transforms.select import limits

__all__ = ["OPERATIONS"]


def default_trim_to_tokens(*, token_budget: int) -> Any:
    """Give what a cut leaves when nothing else is said."""
    _, aim = limits(token_budget, None, 0, None)
    return aim


_ABSENT: Any = ...


def _limits(code: str, budget: Any, target: Any, window: Any) -> tuple[int, int]:
    """Resolve, or refuse with the code; a null is no number, and only what is absent is derived."""
    given = [None if value is _ABSENT else value or 0 for value in (target, window)]
    try:
        return limits(budget, given[0], 0, given[1])
    except InvalidArgument:
        raise Refusal(code, residentTokens=0, estimatedTokens=0, budgetTokens=0) from None


def context_token_limits(
    *, token_budget: Any, trim_to_tokens: Any = _ABSENT, model_context_window: Any = _ABSENT
) -> Any:
    """Give the limit of a request, what a cut leaves, and the model's own limit."""
    _limits("INVALID_MODEL_CONTEXT", 1, _ABSENT, model_context_window)
    _limits("INVALID_TOKEN_BUDGET", token_budget, _ABSENT, _ABSENT)
    limit, aim = _limits("INVALID_TRIM_TARGET", token_budget, trim_to_tokens, model_context_window)
    window = None if model_context_window is _ABSENT else model_context_window
    return {"budgetTokens": limit, "trimToTokens": aim, "modelLimit": window}


OPERATIONS = collect("paging", default_trim_to_tokens, context_token_limits)
