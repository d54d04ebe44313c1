"""Settings of paging from their layers, and the warning about a cut that gains nothing.

Pure: whoever reads the files passes in what stands in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from attrs import frozen

from ctxalgebra.model.checks import check_fields, check_type, mistyped

__all__ = [
    "DEFAULT_BUDGET",
    "PagingSettings",
    "default_target",
    "is_tokens",
    "resolve_settings",
    "warn_headroom",
]

DEFAULT_BUDGET = 128_000
"""The budget when no layer gives one, in tokens."""

MAX_TOKENS = 2**53 - 1
"""The largest number of tokens that settings can say: the largest integer of their JSON."""

SECTION = "contextPaging"

Warned = frozenset[tuple[int, int]]


@frozen
class PagingSettings:
    """Hold what `select` is called with.

    Args:
        enabled: whether history is paged at all.
        budget: most input tokens of a request.
        target: what a cut leaves at most; may stand above the budget when somebody said so, and
            counts as the budget then (`aim`).
        explicit: the target was said, not derived.
    """

    enabled: bool = True
    budget: int = DEFAULT_BUDGET
    target: int = 80_000
    explicit: bool = False

    def __attrs_post_init__(self) -> None:
        check_fields(self, enabled=bool, budget=int, target=int, explicit=bool)

    @property
    def aim(self) -> int:
        """Give the target that `select` takes: never above the budget.

        >>> PagingSettings(budget=64_000, target=80_000, explicit=True).aim
        64000
        """
        return min(self.target, self.budget)


def default_target(budget: int) -> int:
    """Give what a cut leaves when nothing else is said: five eighths, at least 1 token.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> default_target(128_000)
    80000
    """
    check_type(budget, int, "budget")
    return max(1, budget * 5 // 8)


def is_tokens(value: object) -> bool:
    """Say whether a value of the settings is a number of tokens: a positive integer, no truth."""
    return type(value) is int and 0 < value <= MAX_TOKENS


def _whole(value: object) -> object:
    """Give a fraction that is a whole number as one: JSON knows no integers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_truth(value: object) -> bool:
    return type(value) is bool


def _section(settings: object) -> Mapping[str, Any]:
    """Give what a layer says about paging; nothing where it holds something else."""
    if isinstance(settings, Mapping):
        layer = cast("Mapping[str, Any]", settings).get(SECTION)
        if isinstance(layer, Mapping):
            return cast("Mapping[str, Any]", layer)
    return {}


def resolve_settings(
    global_settings: Mapping[str, Any] | None,
    project_settings: Mapping[str, Any] | None = None,
    *,
    project_trusted: bool = False,
) -> PagingSettings:
    """Resolve layered settings: those of a trusted project, then the global ones, then defaults.

    What is no truth value, or no positive integer up to 2**53 - 1, falls through to the next
    layer. A target that any layer says is explicit, also above the budget of a nearer layer.

    Args:
        global_settings, project_settings: the objects that the files hold; paging stands under
            `contextPaging`, with `enabled`, `tokenBudget` and `trimToTokens`. None where there is
            no file.
        project_trusted: whether the project's count at all.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> resolve_settings({"contextPaging": {"tokenBudget": 64_000}})
    PagingSettings(enabled=True, budget=64000, target=40000, explicit=False)
    """
    check_type(project_trusted, bool, "project_trusted")
    given = {"global_settings": global_settings, "project_settings": project_settings}
    for name, layer in given.items():
        if not isinstance(cast("object", layer), Mapping | None):
            raise mistyped(layer, "an object", name)
    layers = [_section(project_settings)] if project_trusted else []
    layers.append(_section(global_settings))

    def first(name: str, fits: Callable[[object], bool], default: Any) -> Any:
        values = (_whole(layer.get(name)) for layer in layers)
        return next((value for value in values if fits(value)), default)

    enabled = first("enabled", _is_truth, default=True)
    budget = first("tokenBudget", is_tokens, DEFAULT_BUDGET)
    target = first("trimToTokens", is_tokens, None)
    if target is None:
        return PagingSettings(enabled, budget, default_target(budget))
    return PagingSettings(enabled, budget, target, explicit=True)


def warn_headroom(settings: PagingSettings, warned: Warned = frozenset()) -> tuple[str, Warned]:
    """Word a warning when an explicit target leaves no room between cuts, once per pair.

    Args:
        settings: as resolved.
        warned: the pairs of budget and target that were warned about; keep it as long as the
            person who reads the warnings remembers them.

    Returns:
        The warning, empty when there is none, and the pairs to pass in the next time.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> high = PagingSettings(budget=64_000, target=80_000, explicit=True)
    >>> text, warned = warn_headroom(high)
    >>> text
    'the target of 80,000 tokens leaves no headroom under the budget of 64,000: each cut comes soon'
    >>> warn_headroom(high, warned)[0]
    ''
    """
    check_type(settings, PagingSettings, "settings")
    check_type(warned, frozenset, "warned")
    pair = settings.budget, settings.target
    if not settings.explicit or settings.target < settings.budget or pair in warned:
        return "", warned
    text = (
        f"the target of {settings.target:,} tokens leaves no headroom under the budget of "
        f"{settings.budget:,}: each cut comes soon"
    )
    return text, warned | {pair}
