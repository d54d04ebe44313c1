"""What the original's selector says in place of what left (paging, section 5.9).

The wording is free, its content is not; the caller may word it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ctxalgebra.codecs.pi_weights import json_text
from ctxalgebra.compat.paging_keys import Frontier, Host, RawHistory

__all__ = ["References", "ToolReference", "Wording", "default_wording", "user_message"]

TOOLS = "search_history, browse_history, load_history and read_context_output"


class ToolReference(NamedTuple):
    """Point at a tool result that left: its turn, its call, and the tool's name."""

    history: str
    call: str
    tool: str


class Wording(NamedTuple):
    """Word generated messages.

    Fields:
        notice: takes the budget as text, the id of the last item that left and the first tool
            result that did, each None when unknown.
        overflow: takes the budget as text.
        recovery: takes nothing.
        reference: takes the item and the call of a result that was replaced.
    """

    notice: Callable[[str, str | None, ToolReference | None], str]
    overflow: Callable[[str], str]
    recovery: Callable[[], str]
    reference: Callable[[str, str], str]


class References(NamedTuple):
    """Hold what the notice of a run points at."""

    history: str | None = None
    tool: ToolReference | None = None

    def past(self, messages: list[Host], history: RawHistory | None) -> References:
        """Point at what else left: the last message that is found, and the first tool result."""
        last, tool = self
        for message in messages if history is not None else ():
            item = history.owner(message) if history is not None else None
            if item is None:
                continue
            last = item.id
            if tool is None and message.get("role") == "toolResult":
                call, name = message.get("toolCallId"), message.get("toolName")
                tool = ToolReference(item.id, f"{call}", name if isinstance(name, str) else "")
        return References(last, tool)

    @classmethod
    def of(cls, frontier: Frontier) -> References:
        """Begin at a remembered frontier."""
        return cls(frontier.last.history)


def user_message(text: str) -> dict[str, object]:
    """Make a generated message; these have no time of their own."""
    return {"role": "user", "content": text, "timestamp": 0}


def _arguments(history: str, call: str) -> str:
    value = {"historyId": history, "source": "toolResult", "toolCallId": call}
    return json_text({**value, "offset": 0, "limit": 2000})


def _notice(budget: str, history: str | None, tool: ToolReference | None) -> str:
    text = (
        f"[Generated paging notice] Earlier messages left this request to keep it within {budget} "
        f"tokens. The raw history is unchanged; reach it with {TOOLS}."
    )
    if history is not None:
        text += f"\nThe last item that left: {json_text(history)}."
    if tool is not None:
        text += f"\nA tool result that left ({tool.tool}): read_context_output("
        text += f"{_arguments(tool.history, tool.call)})."
    return text


def _overflow(budget: str) -> str:
    return (
        f"[Generated paging notice] The newest tool results are complete for this one call, over "
        f"the budget of {budget} tokens, and may leave later. The raw history is unchanged; reach "
        f"it with {TOOLS}."
    )


def _recovery() -> str:
    return (
        "[Generated paging notice] The newest tool results are too large for the model's window "
        "and were replaced. Read them page by page with the arguments that stand in their place."
    )


def _reference(history: str, call: str) -> str:
    return (
        "[Generated reference] This result is too large for the model's window. Read it with "
        f"read_context_output({_arguments(history, call)})."
    )


def default_wording() -> Wording:
    """Give our own wording.

    >>> print(default_wording().reference("h1", "c1"))
    ... # doctest: +NORMALIZE_WHITESPACE
    [Generated reference] This result is too large for the model's window. Read it with
    read_context_output({"historyId":"h1","source":"toolResult","toolCallId":"c1","offset":0,"limit":2000}).
    """
    return Wording(_notice, _overflow, _recovery, _reference)
