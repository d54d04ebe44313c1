"""All laws by name: pure predicates, with no test library behind them.

A predicate's name is the law's, its docstring is the statement.
"""

from __future__ import annotations

from ctxalgebra.laws import arrays, kept, sent, stages
from ctxalgebra.laws.evidence import Kind, Law, Predicate

__all__ = ["ARRAY_LAWS", "LAWS", "SESSION_LAWS", "STAGE_LAWS", "law"]


def law(kind: Kind, predicate: Predicate) -> Law:
    """Make the law that a predicate is.

    >>> law("preorder", sent.prefix_extension).name
    'prefix-extension'
    """
    statement = " ".join((predicate.__doc__ or "").split())
    return Law(predicate.__name__.replace("_", "-"), kind, statement, predicate)


SESSION_LAWS: tuple[Law, ...] = (
    law("invariant", kept.replay),
    law("invariant", sent.protocol_validity),
    law("invariant", sent.provider_validity),
    law("invariant", sent.call_order),
    law("invariant", sent.progress),
    law("invariant", sent.faithful),
    law("invariant", sent.thinking_binding),
    law("invariant", kept.no_unread_drop),
    law("invariant", kept.conservation),
    law("invariant", kept.accounts),
    law("invariant", kept.effective),
    law("invariant", kept.references),
    law("invariant", kept.travel_returns_the_request),
    law("preorder", kept.append_only),
    law("preorder", kept.forward_only_frontier),
    law("preorder", sent.frozen_notice),
    law("preorder", sent.leading_thinking),
    law("preorder", sent.prefix_extension),
    law("preorder", sent.no_silent_break),
    law("preorder", sent.no_false_alarm),
    law("preorder", sent.sent_requests_are_frozen),
)
"""The laws of a session."""

STAGE_LAWS: tuple[Law, ...] = (
    law("function", stages.inputs_unchanged),
    law("function", stages.totality),
    law("function", stages.appends),
    law("function", stages.determinism),
    law("function", stages.branch_isolation),
    law("function", stages.dry_run_foretells),
    law("equation", stages.quiet),
    law("equation", stages.idempotence),
)
"""The laws of a stage on a session; `fits_budget` makes one more, from the budget."""

LAWS: tuple[Law, ...] = (*SESSION_LAWS, *STAGE_LAWS)
"""The laws of sessions and stages."""

ARRAY_LAWS: tuple[Law, ...] = (
    law("function", arrays.inputs_unchanged),
    law("function", arrays.totality),
    law("invariant", arrays.protocol_validity),
    law("preorder", arrays.prefix_extension),
    law("invariant", arrays.shows_what_came),
    law("function", arrays.determinism),
)
"""The laws of a function from message array to message array, on arrays that grow."""
