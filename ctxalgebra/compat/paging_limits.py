"""Budget, target and window of the original selector, and its errors (paging, section 3).

Where `select` refuses a target over the budget, the original takes it as the budget; its windows
may be fractions of a token.
"""

from __future__ import annotations

from math import floor, isfinite
from typing import Any

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.transforms.settings import default_target, is_tokens

__all__ = ["ABSENT", "ContextLimits", "SelectionError", "context_token_limits", "is_amount"]

ABSENT: Any = ...
"""What was not said at all; None was said, and is no number."""


class SelectionError(InvalidArgument):
    """The original selector gives up.

    Attributes:
        resident, estimate, budget: tokens, as far as they were known; None for a structure that
            is none.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        resident: float | None = None,
        estimate: float | None = None,
        budget: float | None = None,
    ) -> None:
        super().__init__(code, message)
        self.resident = resident
        self.estimate = estimate
        self.budget = budget


@frozen
class ContextLimits:
    """Hold the limits of one request, in tokens; fractions where the window is one.

    Args:
        budget: most that a request may have.
        target: what a cut leaves at most.
        window: what the model takes at all; None without a limit.
    """

    budget: float
    target: int
    window: float | None


def is_amount(value: object) -> bool:
    """Say whether a value is a finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return value >= 0 and isfinite(value)
    except OverflowError:  # an integer that is too large for the original's numbers
        return False


def _refuse(code: str, message: str) -> SelectionError:
    return SelectionError(code, message, resident=0, estimate=0, budget=0)


def context_token_limits(
    token_budget: Any, trim_to_tokens: Any = ABSENT, model_context_window: Any = ABSENT
) -> ContextLimits:
    """Give the limits of a request as the original does.

    Errors come in the order window, budget, target. A target at or over the budget is the budget;
    under a smaller window it shrinks with the budget, in exact integers where they are integers.

    Args:
        token_budget: positive integer up to 2**53 - 1.
        trim_to_tokens: the same, or absent for five eighths of the budget.
        model_context_window: positive number, or absent.

    Raises:
        SelectionError: `invalid-model-context`, `invalid-token-budget`, `invalid-trim-target`.

    >>> context_token_limits(128_000, 80_000, 16_000.5)
    ContextLimits(budget=16000.5, target=10000, window=16000.5)
    >>> context_token_limits(100, 200).target
    100
    """
    window = None if model_context_window is ABSENT else model_context_window
    if model_context_window is not ABSENT and not (is_amount(window) and window):
        raise _refuse("invalid-model-context", "the model's context window is no positive number")
    if not is_tokens(token_budget):
        raise _refuse("invalid-token-budget", "the budget is no positive integer")
    target = default_target(token_budget) if trim_to_tokens is ABSENT else trim_to_tokens
    if not is_tokens(target):
        raise _refuse("invalid-trim-target", "the target is no positive integer")
    budget = token_budget if window is None else min(token_budget, window)
    if target >= token_budget:
        return ContextLimits(budget, budget, window)
    if isinstance(budget, int):
        return ContextLimits(budget, max(1, target * budget // token_budget), window)
    return ContextLimits(budget, max(1, floor(target / token_budget * budget)), window)
