"""The receipt of a travel as the host's messages show it: the result of its call.

Only a result that says all that the extension writes counts as a success; an error means that
nothing was travelled, and everything else is not to be trusted (travel, section 14).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctxalgebra.delivery.sending import Receipt

__all__ = ["read_receipt"]


def read_receipt(messages: Sequence[Mapping[str, Any]], call: str) -> Receipt | None:
    """Read the last result of a call; None where there is none.

    Args:
        messages: of the host, as plain JSON.
        call: id of the call that is waited for.

    >>> read_receipt([], "c1")
    >>> read_receipt([{"role": "toolResult", "toolCallId": "c1", "isError": True}], "c1")
    'rejected'
    """
    for message in reversed(messages):
        if message.get("role") != "toolResult" or message.get("toolCallId") != call:
            continue
        if message.get("isError") is True:
            return "rejected"
        match message:
            case {
                "toolName": "acm_travel",
                "details": {
                    "mutationStatus": "applied",
                    "handoffFormat": "structured-v1",
                    "resultingLeafId": str(),
                },
            }:
                return "success"
            case _:
                return "untrusted"
    return None
