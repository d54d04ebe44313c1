"""Operations of the area `paging`: settings and limits.

Limits are those of the compatibility profile: fractions of a token, targets over the budget;
`kernel.limits` is the library's own rule, which refuses both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from ctxalgebra.compat.paging_limits import SelectionError
from ctxalgebra.compat.paging_limits import context_token_limits as limits
from ctxalgebra.conformance.operations import Refusal, collect
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.transforms.settings import default_target, is_tokens
from ctxalgebra.transforms.settings import resolve_settings as resolve

__all__ = ["OPERATIONS", "refusal", "refusing"]


def refusal(error: SelectionError) -> Refusal:
    """Write an error with the original's code and numbers."""
    numbers = {
        "residentTokens": error.resident,
        "estimatedTokens": error.estimate,
        "budgetTokens": error.budget,
    }
    known = {name: number for name, number in numbers.items() if number is not None}
    return Refusal(error.code.replace("-", "_").upper(), **known)


def refusing(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Make an operation answer with the original's errors."""

    @wraps(operation)
    def call(**members: Any) -> Any:
        try:
            return operation(**members)
        except SelectionError as error:
            raise refusal(error) from None
        except InvalidArgument:
            raise Refusal("error") from None

    return call


def _layer(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def resolve_settings(
    *, global_settings: Any, project_trusted: bool, project_settings: Any = None
) -> Any:
    """Resolve layered settings."""
    settings = resolve(
        _layer(global_settings), _layer(project_settings), project_trusted=project_trusted
    )
    return {
        "enabled": settings.enabled,
        "tokenBudget": settings.budget,
        "trimToTokens": settings.target,
        "trimToTokensExplicit": settings.explicit,
    }


def default_trim_to_tokens(*, token_budget: int) -> Any:
    """Give what a cut leaves when nothing else is said."""
    if not is_tokens(token_budget):
        raise InvalidInput("input.tokenBudget: expected a positive integer")
    return default_target(token_budget)


@refusing
def context_token_limits(
    *, token_budget: Any, trim_to_tokens: Any = ..., model_context_window: Any = ...
) -> Any:
    """Give the limit of a request, what a cut leaves, and the model's own limit."""
    found = limits(token_budget, trim_to_tokens, model_context_window)
    return {
        "budgetTokens": found.budget,
        "trimToTokens": found.target,
        "modelLimit": found.window,
    }


OPERATIONS = collect("paging", resolve_settings, default_trim_to_tokens, context_token_limits)
