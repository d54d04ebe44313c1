"""Take big tool results out near the tail: `prune_suffix`, and its kernel on message lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_callable, check_each, check_type
from ctxalgebra.model.entries import Drop, Replace
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import Message, Opaque, Text
from ctxalgebra.model.session import Session, no_session
from ctxalgebra.model.view import Measure
from ctxalgebra.tokens import chars4, check_positive
from ctxalgebra.transforms.pipeline import CacheState, check_cache

__all__ = ["default_stub", "drop_suffix", "exchanges", "pays", "prune_suffix"]


def default_stub(result: Message, tokens: int) -> str:
    """Word the stub that stands for an unread result.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import tool_result
    >>> default_stub(tool_result("c1", "...", name="read"), 9000)
    '[The result of read was left out unsent: about 9000 tokens. Ask for a smaller part.]'
    """
    check_type(result, Message, "result")
    name = result.name or "the tool"
    return (
        f"[The result of {name} was left out unsent: about {tokens} tokens. "
        "Ask for a smaller part.]"
    )


def pays(tail: int, saved: int, *, horizon: int, cached: int = 10, written: int = 125) -> bool:
    """Say whether a tail edit pays within `horizon` further requests.

    The edit rewrites `tail - saved` tokens at the write price instead of reading them, and
    from then on spares `saved` tokens at the read price in each request (provider rules,
    section 4).

    Args:
        tail: tokens from the edit to the end, before it.
        saved: of these, the tokens that leave.
        horizon: how many further requests are expected.
        cached, written: prices in hundredths of the input price.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> pays(3000, 1000, horizon=23), pays(3000, 1000, horizon=22)
    (True, False)
    """
    for name, value in (
        ("tail", tail),
        ("saved", saved),
        ("horizon", horizon),
        ("cached", cached),
        ("written", written),
    ):
        check_type(value, int, name)
    return (tail - saved) * (written - cached) <= saved * cached * horizon


def exchanges(messages: Sequence[Message], first: int, last: int) -> list[tuple[int, int]]:
    """List the exchanges that lie whole in `messages[first:last]`, as half-open ranges.

    Raises:
        InvalidArgument: `invalid-argument`, a place outside the list; `wrong-type`.

    >>> from ctxalgebra import ToolCall, assistant, tool_result, user
    >>> exchanges((user("a"), assistant(ToolCall("c1", "read")), tool_result("c1", "42")), 0, 3)
    [(1, 3)]
    """
    check_each(messages, Message, "messages")
    for name, index in (("first", first), ("last", last)):
        check_type(index, int, name)
        if not 0 <= index <= len(messages):
            raise InvalidArgument(
                "invalid-argument", f"{name} {index} is outside the list", field=name
            )
    return _exchanges(messages, first, last)


def _exchanges(messages: Sequence[Message], first: int, last: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for index in range(first, last):
        stop = index + 1 + len(messages[index].calls)
        if index + 1 < stop <= last and all(m.role == "tool" for m in messages[index + 1 : stop]):
            found.append((index, stop))
    return found


def drop_suffix(
    messages: Sequence[Message], large: Callable[[Message], bool]
) -> tuple[Message, ...]:
    """Drop the last exchange if all its results are large: the plain kernel on a message list.

    It hides what the model may not have read. In a session `prune_suffix` does better.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import ToolCall, assistant, tool_result, user
    >>> messages = (user("a"), assistant(ToolCall("c1", "read")), tool_result("c1", "4" * 99))
    >>> len(drop_suffix(messages, lambda result: len(result.parts[0].text) > 50))
    1
    """
    check_each(messages, Message, "messages")
    check_callable(large, "large")
    found = _exchanges(messages, 0, len(messages))
    if found:
        start, stop = found[-1]
        if stop == len(messages) and all(large(m) for m in messages[start + 1 : stop]):
            return (*messages[:start], *messages[stop:])
    return tuple(messages)


def prune_suffix(
    session: Session,
    *,
    stub_over: int,
    drop_over: int,
    horizon: int = 20,
    measure: Measure = chars4,
    cache: CacheState = "unknown",
    stub: Callable[[Message, int], str] = default_stub,
) -> Session:
    """Take big tool results out of the tail, each at the moment when that is cheapest (a stage).

    An unread result over `stub_over` tokens is replaced by a stub before it is sent, which
    breaks nothing; hiding it would make the model ask again. (One that went out in a request that
    failed is replaced as a declared break.) A whole exchange that the latest
    completed request was the first to show, and that holds over `drop_over` tokens, is dropped as
    a declared break when that pays within the horizon; it only gets dearer later. In a cold cache
    every read exchange over `drop_over` is dropped, for free. The active turn's open calls
    and the newest message stay.

    Args:
        stub_over, drop_over: tokens.
        horizon: how many further requests are expected.
        measure: tokens of a message.
        cache: state of the provider's cache.
        stub: words the replacement of a result.

    Reads: the view. Records: `Replace` and `Drop` decisions, or nothing.

    Raises:
        InvalidArgument: `invalid-argument` for numbers that are no positive integers, or a state of
            the cache that does not exist; `wrong-type` for what is no session, measure or stub.

    >>> from ctxalgebra import *
    >>> session = record(Session(), user("a"), assistant(ToolCall("c1", "read")))
    >>> session = record(session, tool_result("c1", "x" * 4000))
    >>> project(prune_suffix(session, stub_over=500, drop_over=500)).messages[-1].parts[0].text
    '[The result of the tool was left out unsent: about 1000 tokens. Ask for a smaller part.]'
    """
    check_positive(stub_over=stub_over, drop_over=drop_over)
    if type(horizon) is not int or horizon < 0:
        raise InvalidArgument("invalid-argument", "horizon must not be negative", field="horizon")
    check_cache(cache)
    if not callable(stub):
        check_callable(stub, "stub")
    try:
        view = session.view
    except AttributeError:
        raise no_session(session) from None
    if view.flight >= 0:
        return session
    total = view.slots.total
    first = max(0 if cache == "cold" else view.fresh, view.front)
    read = total(measure, view.read)
    # Most turns bring nothing that is large, and two differences say so.
    if total(measure, view.end) - read > stub_over:
        session = _stub_unread(session, stub_over, measure, stub)
    if read - total(measure, first) > drop_over:
        session = _drop_read(session, first, drop_over, horizon, measure, cache)
    return session


def _stub_unread(
    session: Session, over: int, measure: Measure, stub: Callable[[Message, int], str]
) -> Session:
    view = session.view
    for slot in range(view.read, view.end):
        message = view.slots.messages[slot]
        if message.role != "tool":
            continue
        tokens = measure(message)
        if tokens <= over:
            continue
        # What nobody reads here can leave only with its whole message.
        kept = tuple(part for part in message.parts if isinstance(part, Opaque))
        small = evolve(message, parts=(Text(stub(message, tokens)), *kept), origin="")
        if measure(small) < tokens:
            number = view.slots.numbers[slot]
            why = f"prune: {tokens} tokens, unread"
            session = record(session, Replace(number, small, why, breaks=True))
    return session


def _drop_read(
    session: Session,
    first: int,
    over: int,
    horizon: int,
    measure: Measure,
    cache: CacheState,
) -> Session:
    view = session.view
    total = view.slots.total
    end = total(measure, view.end)
    spans: list[tuple[int, int]] = []
    gone = 0
    found = _exchanges(view.slots.messages, first, view.read)
    for start, stop in reversed(found):
        saved = total(measure, stop) - total(measure, start)
        if saved <= over or stop == view.end or view.holds_loop(start):
            continue
        tail = end - total(measure, start) - gone
        if cache == "cold" or pays(tail, saved, horizon=horizon):
            gone += saved
            # Neighbours leave together: each decision sets the window anew.
            joins = spans and spans[-1][0] == stop
            spans[-1:] = [(start, spans[-1][1])] if joins else [*spans[-1:], (start, stop)]
    numbers = view.slots.numbers
    for start, stop in spans:
        if session.view.holds_loop(start):
            continue  # a last message that only thought went with the drop behind: the loop is open
        why = f"prune: {total(measure, stop) - total(measure, start)} tokens, read"
        session = record(session, Drop(numbers[start], numbers[stop - 1], why, breaks=True))
    return session
