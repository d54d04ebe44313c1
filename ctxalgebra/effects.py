"""Effects as data: stages record asks, the caller's adapter performs them, answers are entries.

Clock, ids, files, screen and network stay in the adapter. Failure and lateness are values of
an answer. A stage is level-triggered: called again, it applies the answer that is there, or does
nothing; an unanswered ask never holds up a request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Mapping
from typing import Protocol, cast

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_callable, check_items, check_text, check_type
from ctxalgebra.model.entries import Answer, Ask
from ctxalgebra.model.gate import record
from ctxalgebra.model.session import Fold, Node, Session, check_session, fold
from ctxalgebra.model.view import View
from ctxalgebra.tokens import check_positive
from ctxalgebra.transforms.pipeline import Pipeline, Stage, pipeline

__all__ = [
    "AsyncEffects",
    "Effects",
    "Pending",
    "RecordedEffects",
    "adrive",
    "answer_to",
    "ask",
    "drive",
    "pending",
]


ROUNDS = 16
"""How often `drive` performs asks, unless it is told otherwise."""


@frozen
class Pending:
    """An ask without an answer: its entry number and the question."""

    number: int
    ask: Ask


class Effects(Protocol):
    """Performs asks: the one place where the outside world is touched.

    Gets all pending asks at once, so that it may run them side by side, and gives answers
    in any order; an ask that it leaves out stays pending. Keeps each `ask.deadline`.
    """

    def __call__(self, asks: tuple[Pending, ...], /) -> tuple[Answer, ...]:
        """Perform the asks."""
        ...


class AsyncEffects(Protocol):
    """Performs asks like `Effects`, awaited."""

    async def __call__(self, asks: tuple[Pending, ...], /) -> tuple[Answer, ...]:
        """Perform the asks."""
        ...


_Asks = tuple[dict[str, int], dict[int, Answer]]


def _index(known: _Asks, node: Node, _: View) -> _Asks:
    entry = node.entry
    if type(entry) is Ask:
        return {**known[0], entry.key: node.number}, known[1]
    if type(entry) is Answer:
        return known[0], {**known[1], entry.ask: entry}
    return known


_ASKS: Fold[_Asks] = Fold("asks", ({}, {}), _index)


def ask(session: Session, question: Ask) -> Session:
    """Record an ask, once per key: the same object when the key was asked on this path before.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Ask, Session
    >>> session = ask(Session(), Ask("digest:1", "digest", "..."))
    >>> ask(session, Ask("digest:1", "digest", "...")) is session
    True
    """
    check_type(question, Ask, "question")
    return session if question.key in fold(session, _ASKS)[0] else record(session, question)


def answer_to(session: Session, key: str) -> Answer | None:
    """Give the answer to the ask with this key on this path; None while there is none.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Answer, Ask, Session, record
    >>> session = record(Session(), Ask("a", "digest", "..."), Answer(0, "answered", "short"))
    >>> answer_to(session, "a").value
    'short'
    """
    check_text(key, "key")
    numbers, answers = fold(session, _ASKS)
    return answers.get(numbers.get(key, -1))


def pending(session: Session) -> tuple[Pending, ...]:
    """List the asks of this path that have no answer yet, oldest first.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Ask, Session, record
    >>> [p.ask.key for p in pending(record(Session(), Ask("a", "digest", "...")))]
    ['a']
    """
    check_session(session)
    return tuple(Pending(number, question) for number, question in session.view.pending)


def drive(session: Session, stage: Stage, effects: Effects, *, rounds: int = ROUNDS) -> Session:
    """Settle a session, perform what its stages ask, and settle again until nothing is asked.

    An ask that the adapter leaves out stays pending and holds up nothing. When the adapter raises,
    its asks are answered `failed` with the exception's name and text. The outside failed then, and
    that is data; answers that name no pending ask, or are none, are a bug of the adapter, and
    raise. The answers of a round are recorded all or none.

    Args:
        rounds: how often asks are performed at most; a stage whose answers keep giving it something
            new to ask is refused after that.

    Raises: what the stage or the gate raises; the session passed in is still the last legal one.
        ProtocolViolation: `unknown-ask`, an answer names no pending ask, or one a second time.
        InvalidArgument: `endless-asks`, the stage asks something new after the last round;
            `wrong-type`, the adapter gives no tuple of answers, the stage no session, or an
            argument is none of what it should be; `invalid-argument`, no positive `rounds`.

    >>> from ctxalgebra import Answer, Ask, Session, answer_to
    >>> stage = lambda session: ask(session, Ask("a", "echo", "hi"))
    >>> effects = lambda asks: tuple(Answer(p.number, "answered", p.ask.question) for p in asks)
    >>> answer_to(drive(Session(), stage, effects), "a").value
    'hi'
    """
    settle = _checked(session, stage, effects, rounds)
    tried: set[int] = set()
    while True:
        session = settle(session)
        asks = _untried(session, tried, rounds)
        if not asks:
            return session
        answers: object
        try:
            answers = effects(asks)
        except Exception as error:  # noqa: BLE001 - failure is a value of an answer
            answers = _failed(asks, error)
        session = record(session, *_answers(answers))
        rounds -= 1


async def adrive(
    session: Session, stage: Stage, effects: AsyncEffects, *, rounds: int = ROUNDS
) -> Session:
    """Do what `drive` does with an asynchronous adapter.

    Raises: as `drive`.

    >>> import asyncio
    >>> from ctxalgebra import Answer, Ask, Session, answer_to
    >>> stage = lambda session: ask(session, Ask("a", "echo", "hi"))
    >>> async def effects(asks):
    ...     return tuple(Answer(p.number, "answered", p.ask.question) for p in asks)
    >>> answer_to(asyncio.run(adrive(Session(), stage, effects)), "a").value
    'hi'
    """
    settle = _checked(session, stage, effects, rounds)
    tried: set[int] = set()
    while True:
        session = settle(session)
        asks = _untried(session, tried, rounds)
        if not asks:
            return session
        answers: object
        try:
            answers = await _coming(effects(asks))
        except _Synchronous:
            raise InvalidArgument(
                "wrong-type", "the adapter is not asynchronous: use drive"
            ) from None
        except Exception as error:  # noqa: BLE001 - failure is a value of an answer
            answers = _failed(asks, error)
        session = record(session, *_answers(answers))
        rounds -= 1


def _checked(session: Session, stage: Stage, effects: object, rounds: int) -> Pipeline:
    check_session(session)
    check_callable(effects, "effects")
    check_positive(rounds=rounds)
    return pipeline(stage)


def _untried(session: Session, tried: set[int], rounds: int) -> tuple[Pending, ...]:
    asks = tuple(p for p in pending(session) if p.number not in tried)
    if asks and not rounds:
        keys = ", ".join(repr(p.ask.key) for p in asks)
        raise InvalidArgument(
            "endless-asks", f"after the last round it asks again: {keys}", field="stage"
        )
    tried.update(p.number for p in asks)
    return asks


class _Synchronous(Exception):
    """An adapter gave answers where something to await was due."""


def _coming(answers: object) -> Awaitable[object]:
    if not isinstance(answers, Awaitable):
        raise _Synchronous
    return cast("Awaitable[object]", answers)


def _answers(answers: object) -> tuple[Answer, ...]:
    if isinstance(answers, Coroutine):
        answers.close()
        raise InvalidArgument("wrong-type", "the adapter is asynchronous: use adrive")
    check_items(answers, Answer, "effects")
    return cast("tuple[Answer, ...]", answers)


def _failed(asks: tuple[Pending, ...], error: Exception) -> tuple[Answer, ...]:
    told = f"{type(error).__name__}: {error}".encode(errors="replace").decode()
    return tuple(Answer(p.number, "failed", told) for p in asks)


@frozen
class RecordedEffects:
    """Answer asks from a table, by key, for tests and replays; unknown keys fail.

    >>> from ctxalgebra import Ask, Session, record
    >>> session = record(Session(), Ask("a", "digest", "..."))
    >>> RecordedEffects({"a": "short"})(pending(session))
    (Answer(ask=0, outcome='answered', value='short'),)
    """

    answers: Mapping[str, str]

    def __call__(self, asks: tuple[Pending, ...], /) -> tuple[Answer, ...]:
        """Look the answers up."""
        return tuple(
            Answer(p.number, "answered", self.answers[p.ask.key])
            if p.ask.key in self.answers
            else Answer(p.number, "failed", "no recorded answer")
            for p in asks
        )
