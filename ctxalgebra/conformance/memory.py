"""The area `memory`: what a working memory does, as far as the library does it likewise.

The other operations of the area stand in `ctxalgebra.conformance.absent`.
"""

from __future__ import annotations

from typing import Any, cast

from ctxalgebra.codecs.lines import Json, parse
from ctxalgebra.codecs.pi_messages import read_message
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.wire import write
from ctxalgebra.model.parts import Message
from ctxalgebra.tokens import chars4
from ctxalgebra.transforms.prune import drop_suffix, exchanges

__all__ = ["OPERATIONS"]

_UNSEEN = Message("user", ())


def _message(value: dict[str, Any]) -> Message:
    spoken = read_message(cast("dict[str, Json]", parse(write(value).decode())))
    return _UNSEEN if spoken is None else spoken.message


def prune_messages(*, candidates: list[str], messages: list[dict[str, Any]]) -> Any:
    """Drop the last exchanges of one request as long as all their results are droppable.

    An exchange leaves as a whole or not at all.
    """
    droppable = set(candidates)
    read = list(map(_message, messages))
    keep = len(read)
    for start, stop in reversed(exchanges(read, 0, len(read))):
        whole = read[start:stop]
        if stop != keep or drop_suffix(whole, lambda result: result.call in droppable):
            break
        keep = start
    gone = read[keep:]
    removed = {
        "saved": sum(map(chars4, gone)),
        "messageCount": len(gone),
        "droppedResultIds": [m.call for m in reversed(gone) if m.role == "tool"],
    }
    return {"messages": messages[:keep], "removed": removed if gone else None}


OPERATIONS = collect("memory", prune_messages)
