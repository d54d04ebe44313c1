"""What no request has shown: the results whose form is still free, and how a stage settles it.

The form in which a message is first sent is its form for ever. In front of that a `Replace` breaks
nothing; behind it every change is a break, so stages of this kind leave alone what was sent once,
be it in a request that failed. A stage settles a message once: its decisions are known by the
mechanism that their reason names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from ctxalgebra.effects import answer_to, ask
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.ledger import mechanism
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.entries import Answer, Ask, Replace, Sent
from ctxalgebra.model.parts import Message, ToolCall
from ctxalgebra.model.session import Fold, Node, Session, fold
from ctxalgebra.model.view import View

__all__ = [
    "Exchange",
    "check_deadline",
    "consult",
    "exchanges_unsent",
    "replacement",
    "results_unsent",
    "settled",
    "shaper",
    "shorten",
    "worded",
]


class Exchange(NamedTuple):
    """An exchange that no request has shown, with the numbers of its entries."""

    number: int
    message: Message
    results: tuple[tuple[int, Message], ...]


def exchanges_unsent(session: Session) -> Iterator[Exchange]:
    """Give the exchanges that are complete and that no request has shown, in order.

    Costs the messages that came since the last request. Nothing is free while one is in flight.

    >>> from ctxalgebra import assistant, record, send, tool_result, user
    >>> session = record(Session(), user("a"), assistant(ToolCall("c1", "read")))
    >>> session = record(session, tool_result("c1", "42"))
    >>> [exchange.results[0][0] for exchange in exchanges_unsent(session)]
    [2]
    >>> list(exchanges_unsent(send(session)[0]))
    []
    """
    view = session.view
    slot, end = max(view.fixed, view.read, view.front), view.end
    if view.flight >= 0 or slot >= end:
        return
    messages, numbers = view.slots.messages, view.slots.numbers
    # A message that was recorded, and not replied, counts as read: its results stand behind.
    slot -= messages[slot].role == "tool"
    while slot < end:
        count = len(messages[slot].calls)
        if count and slot + count < end:
            behind = slice(slot + 1, slot + 1 + count)
            results = zip(numbers[behind], messages[behind], strict=True)
            yield Exchange(numbers[slot], messages[slot], tuple(results))
        slot += 1


def results_unsent(
    session: Session, stage: str, tools: tuple[str, ...]
) -> Iterator[tuple[ToolCall, int, Message]]:
    """Give call, number and message of each unsent result of these tools that a stage may settle.

    >>> from ctxalgebra import assistant, record, tool_result
    >>> session = record(Session(), assistant(ToolCall("c1", "read")), tool_result("c1", "42"))
    >>> [call.id for call, _, _ in results_unsent(session, "limit", ("read",))]
    ['c1']
    """
    for exchange in exchanges_unsent(session):
        for call, (number, result) in zip(exchange.message.calls, exchange.results, strict=True):
            if call.name in tools and not settled(session, stage, number):
                yield call, number, result


def _note(known: tuple[tuple[str, int], ...], node: Node, _: View) -> tuple[tuple[str, int], ...]:
    entry = node.entry
    if type(entry) is Replace:
        return (*known, (mechanism(entry), entry.target))
    if type(entry) is Message and entry.role != "assistant":
        return known
    return ()  # what stands in front of a request, or of a recorded reply, was sent


_SETTLED: Fold[tuple[tuple[str, int], ...]] = Fold(
    "settled", (), _note, reads=(Replace, Sent, Message)
)


def settled(session: Session, stage: str, number: int) -> bool:
    """Say whether a stage has replaced this message since the last request.

    >>> from ctxalgebra import record, user
    >>> session = record(Session(), user("a"), replacement("limit", 0, user("b"), "too long"))
    >>> settled(session, "limit", 0), settled(session, "digest", 0)
    (True, False)
    """
    return (stage, number) in fold(session, _SETTLED)


def shaper(session: Session, number: int) -> str:
    """Name the stage whose form an unsent message has now; empty where it is as recorded.

    >>> from ctxalgebra import record, user
    >>> session = record(Session(), user("a"), replacement("limit", 0, user("b"), "too long"))
    >>> shaper(session, 0), shaper(session, 1)
    ('limit', '')
    """
    shapes = fold(session, _SETTLED)
    return next((who for who, target in reversed(shapes) if target == number), "")


def replacement(stage: str, number: int, message: Message, why: str) -> Replace:
    """Make the decision of a stage on a message that was not sent.

    >>> from ctxalgebra import user
    >>> replacement("limit", 3, user("b"), "too long").why
    'limit: too long'
    """
    return Replace(number, message, f"{stage}: {why}")


def consult(
    session: Session, topic: str, of: str, question: dict[str, str | int], deadline: int
) -> tuple[Session, Answer | None]:
    """Ask once about a text, and give the answer where it is there.

    Args:
        of: what the key stands for: equal texts are asked about once.
        question: what the adapter gets, as JSON.

    >>> session, answer = consult(Session(), "save", "text", {"text": "text"}, 1000)
    >>> answer is None, session.leaf.entry.question
    (True, '{"text":"text"}')
    """
    key = f"{topic}:{sha256(of.encode()).hexdigest()}"
    session = ask(session, Ask(key, topic, worded(question), deadline))
    return session, answer_to(session, key)


def worded(question: dict[str, str | int]) -> str:
    """Give a question as an adapter gets it: compact JSON.

    >>> worded({"longest": 24, "prompt": "Why?"})
    '{"longest":24,"prompt":"Why?"}'
    """
    return json.dumps(question, ensure_ascii=False, separators=(",", ":"))


def shorten(text: str, most: int) -> str:
    r"""Keep the first `most` characters and say how many are gone.

    >>> shorten("abcdef", 4)
    'abcd\n[2 more characters]'
    """
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} more characters]"


def check_deadline(deadline: int) -> None:
    """Refuse a deadline that is no positive integer."""
    check_type(deadline, int, "deadline")
    if deadline <= 0:
        raise InvalidArgument("invalid-argument", "a deadline is positive", field="deadline")
