"""The area `travel`: the weight of one message, by the host's two functions."""

from __future__ import annotations

from typing import Any

from ctxalgebra.codecs.pi_weights import WITHOUT_ARGUMENTS
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.paging_tokens import weigh

__all__ = ["OPERATIONS"]


def host_estimate_tokens(*, message: dict[str, Any]) -> Any:
    """Weigh a message, by the function that refuses calls without arguments."""
    return weigh(message)


def host_core_estimate_tokens(*, message: dict[str, Any]) -> Any:
    """Weigh a message, by the function that takes calls without arguments."""
    return weigh(message, without_arguments=WITHOUT_ARGUMENTS)


OPERATIONS = collect("travel", host_estimate_tokens, host_core_estimate_tokens)
