"""The area `memory`: what a working memory does, as far as the library does it likewise.

The other operations of the area stand in `ctxalgebra.conformance.absent`.
"""

from __future__ import annotations

from typing import Any, cast

from ctxalgebra.codecs.lines import Json, parse
from ctxalgebra.codecs.pi_messages import read_message
from ctxalgebra.codecs.pi_weights import host_tokens, text_tokens
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.paging_tokens import weigh
from ctxalgebra.conformance.wire import write
from ctxalgebra.errors import InvalidArgument
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


def estimate_tokens_from_text(*, text: str) -> Any:
    """Weigh a text."""
    return text_tokens(text)


def estimate_tokens(*, message: dict[str, Any]) -> Any:
    """Weigh a message of the host."""
    return weigh(message)


def _plain_text(content: Any) -> str:
    """Take the texts out of content, a line each."""
    if isinstance(content, str):
        return content
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    found = [cast("dict[str, object]", block) for block in blocks if isinstance(block, dict)]
    texts = [block.get("text") for block in found if block.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def estimate_message_tokens(*, message: dict[str, Any]) -> Any:
    """Weigh a message; its texts alone where the host's function fails."""
    try:
        return host_tokens(message)
    except InvalidArgument:
        return text_tokens(_plain_text(message.get("content")))


OPERATIONS = collect(
    "memory",
    prune_messages,
    estimate_tokens_from_text,
    estimate_tokens,
    estimate_message_tokens,
)
