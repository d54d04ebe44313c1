"""Laws of functions from message array to message array, for harnesses without sessions."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress

from ctxalgebra.laws.evidence import defect
from ctxalgebra.model.parts import Message

__all__ = [
    "ArrayFunction",
    "determinism",
    "inputs_unchanged",
    "not_of_messages",
    "prefix_extension",
    "protocol_validity",
    "shows_what_came",
    "totality",
]

ArrayFunction = Callable[[tuple[Message, ...]], Sequence[Message]]
"""Maps a message array to the one that is sent; called for each request as the array grows."""


def _growing(array: Sequence[Message]) -> list[tuple[Message, ...]]:
    """List the arrays that a loop would have sent on its way: it is the model's turn in each."""
    return [
        tuple(array[:end])
        for end in range(1, len(array) + 1)
        if array[end - 1].role != "assistant" and defect(array[:end]) is None
    ]


def totality(function: ArrayFunction, array: Sequence[Message]) -> str | None:
    """The function raises nothing on a legal array."""
    for sent in _growing(array):
        try:
            tuple(function(sent))
        except Exception as error:  # noqa: BLE001 - whatever it raises is the counterexample
            return f"with {len(sent)} messages it raises {type(error).__name__}: {error}"
    return None


def not_of_messages(answer: tuple[object, ...]) -> str | None:
    """Say of what a function gave back why it can't be right; None for messages."""
    wrong = next((type(item) for item in answer if type(item) is not Message), None)
    return None if wrong is None else f"gives {wrong.__name__}, not messages"


def shows_what_came(function: ArrayFunction, array: Sequence[Message]) -> str | None:
    """What came since the model spoke last, and the calls that it answers, end what is sent."""
    for sent in _growing(array):
        spoke = max((i for i, m in enumerate(sent) if m.role == "assistant"), default=-1)
        due = sent[spoke:] if spoke >= 0 and sent[spoke].calls else sent[spoke + 1 :]
        now = tuple(function(sent))[-len(due) :]
        if [_outline(m) for m in now] != [_outline(m) for m in due]:
            return f"with {len(sent)} messages, what came is not at the end of what it sends"
    return None


def _outline(message: Message) -> tuple[str, str, tuple[str, ...]]:
    """Tell what a shorter form of a message keeps: its role and its calls."""
    return message.role, message.call, tuple(call.id for call in message.calls)


def prefix_extension(function: ArrayFunction, array: Sequence[Message]) -> str | None:
    """What is sent extends what was sent before, as the array grows."""
    before: tuple[Message, ...] = ()
    for sent in _growing(array):
        now = tuple(function(sent))
        if not now:
            continue
        if now[: len(before)] != before:
            sides = zip(before, now, strict=False)
            at = next((i for i, (a, b) in enumerate(sides) if a != b), len(now))
            return (
                f"with {len(sent)} messages it sends {len(now)}, which part at {at} from the "
                f"{len(before)} that were sent before"
            )
        before = now
    return None


def protocol_validity(function: ArrayFunction, array: Sequence[Message]) -> str | None:
    """In what is sent each call is answered once, right behind it, and no message is empty."""
    for sent in _growing(array):
        if found := defect(tuple(function(sent))):
            return f"with {len(sent)} messages, {found} of what it sends"
    return None


def inputs_unchanged(function: ArrayFunction, array: Sequence[Message]) -> str | None:
    """The function leaves its input as it was."""
    for sent in _growing(array):
        image = pickle.dumps(sent)
        with suppress(Exception):  # what raises is for totality to tell
            function(sent)
        if pickle.dumps(sent) != image:
            return f"with {len(sent)} messages, they are changed in place"
    return None


def determinism(function: ArrayFunction, array: Sequence[Message]) -> str | None:
    """Equal arrays give equal answers."""
    for sent in _growing(array):
        if tuple(function(sent)) != tuple(function(sent)):
            return f"with {len(sent)} messages it gives two answers"
    return None
