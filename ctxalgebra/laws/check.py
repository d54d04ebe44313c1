"""Check laws in one line: of a stage, of a trimming function, of a recorded journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, overload

from ctxalgebra.effects import pending
from ctxalgebra.errors import CtxError, InvalidArgument, LawViolation
from ctxalgebra.laws.arrays import ArrayFunction
from ctxalgebra.laws.evidence import Law, quieted
from ctxalgebra.laws.laws import ARRAY_LAWS, LAWS, SESSION_LAWS
from ctxalgebra.laws.stages import totality
from ctxalgebra.model.entries import Answer
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import Message, assistant, user
from ctxalgebra.model.session import Session
from ctxalgebra.project import reply, send
from ctxalgebra.transforms.pipeline import Stage

__all__ = ["check", "check_journal", "verdict"]


def verdict(law: Law, *values: Any) -> str | None:
    """Ask one law: None when it holds, else a sentence. What raises breaks it, too.

    >>> verdict(LAWS[0], Session()) is None
    True
    """
    try:
        return law.broken(*values)
    except Exception as error:  # noqa: BLE001 - a law that can't be asked does not hold
        return f"{type(error).__name__}: {error}"


def check_journal(session: Session, *, laws: Iterable[str | Law] | None = None) -> None:
    """Check the laws of sessions on a recorded journal; needs no test library.

    For journals that were recorded elsewhere, as by a port to another language.

    Args:
        laws: names of laws, or laws; by default all that speak of a session.

    Raises:
        LawViolation: the first law that does not hold.
        InvalidArgument: `invalid-argument`, there is no law of this name.

    >>> from ctxalgebra import record
    >>> check_journal(record(Session(), user("hi")))
    """
    for law in _chosen(laws, SESSION_LAWS):
        if found := verdict(law, session):
            raise LawViolation(law.name, found, session, session)


@overload
def check(
    stage: Stage,
    session: Session | None = None,
    *,
    examples: int = 200,
    laws: Iterable[str | Law] | None = None,
    on: Literal["session"] = "session",
) -> None: ...


@overload
def check(
    stage: ArrayFunction,
    session: Sequence[Message] | None = None,
    *,
    examples: int = 200,
    laws: Iterable[str | Law] | None = None,
    on: Literal["messages"],
) -> None: ...


def check(
    stage: Callable[[Any], Any],
    session: Any = None,
    *,
    examples: int = 200,
    laws: Iterable[str | Law] | None = None,
    on: Literal["session", "messages"] = "session",
) -> None:
    """Check a stage, or a function on message arrays, against the laws.

    Given a session (or an array), checks that one. Without, generates: half of the sessions are
    grown by a well-behaved loop, half by offering the gate whatever comes near its rules; a
    counterexample is made as small as possible. Runs are reproducible.

    Args:
        stage: with `on="messages"` a function from a tuple of messages to the messages that are
            sent, called for each request as the tuple grows.
        session: what to check on.
        examples: how many are generated.
        laws: names of laws, or laws; by default all of the stage, and all of the session that it
            gives back and of the loop that goes on from there.
        on: what the stage takes.

    Raises:
        LawViolation: a law does not hold; `before` and `after` are what the stage was given and
            what it gave back.
        InvalidArgument: `invalid-argument`, there is no law of this name; `missing-extra`,
            Hypothesis is needed and not installed.

    >>> from functools import partial
    >>> from ctxalgebra import record, select
    >>> check(partial(select, budget=100), record(Session(), user("hi")))
    >>> check(lambda messages: messages[-1:], (user("a"), user("b")), on="messages")
    Traceback (most recent call last):
    ...
    ctxalgebra.errors.LawViolation: law-broken: prefix-extension: with 2 messages it sends 1, \
which part at 0 from the 1 that were sent before
    """
    if on not in ("session", "messages"):
        raise InvalidArgument("invalid-argument", f"can't check on {on!r}", field="on")
    chosen = _chosen(laws, LAWS if on == "session" else ARRAY_LAWS)
    judge = _judge_session if on == "session" else _judge_array
    if session is not None:
        judge(stage, session, chosen)
        return
    try:
        from ctxalgebra.laws import strategies
    except ModuleNotFoundError as missing:
        if missing.name != "hypothesis":
            raise
        raise InvalidArgument(
            "missing-extra", "to generate examples install ctxalgebra[verify]"
        ) from None
    if type(examples) is not int or examples < 1:
        raise InvalidArgument("invalid-argument", "examples must be positive", field="examples")
    strategies.search(lambda value: judge(stage, value, chosen), on, examples)


def _judge_session(stage: Stage, session: Session, laws: Sequence[Law]) -> None:
    for law in laws:
        if law.kind not in ("invariant", "preorder") and (found := verdict(law, stage, session)):
            raise LawViolation(law.name, found, session, _attempt(stage, session))
    after = session
    asked = "totality" in {law.name for law in laws}
    for text in ("go on", "and on"):
        after = _attempt(stage, after)
        for outcome in ("answered", "failed", "expired") if asked else ():
            answers = [Answer(p.number, outcome, text) for p in pending(after)]
            if answers and (found := totality(stage, record(after, *answers))):
                raise LawViolation("totality", f"with asks {outcome}, {found}", after)
        after = record(quieted(after), user(text))
        if asked and (found := totality(stage, after)):
            raise LawViolation("totality", found, after)
        try:
            after = reply(send(_attempt(stage, after))[0], "completed", assistant("yes"))
        except CtxError as error:
            raise LawViolation(
                "totality", f"the loop can't go on: {error}", session, after
            ) from None
    for law in laws:
        if law.kind in ("invariant", "preorder") and (found := verdict(law, after)):
            raise LawViolation(law.name, found, session, after)


def _attempt(stage: Stage, session: Session) -> Session:
    # When a stage raises, the last legal session goes on; totality tells on it.
    try:
        return stage(session)
    except Exception:  # noqa: BLE001 - whatever it raises
        return session


def _judge_array(function: ArrayFunction, array: Sequence[Message], laws: Sequence[Law]) -> None:
    for law in laws:
        if found := verdict(law, function, array):
            raise LawViolation(law.name, found, tuple(array), _sent(function, array))


def _sent(function: ArrayFunction, array: Sequence[Message]) -> object:
    try:
        return tuple(function(tuple(array)))
    except Exception as error:  # noqa: BLE001 - it is part of the report
        return error


def _chosen(laws: Iterable[str | Law] | None, known: Sequence[Law]) -> tuple[Law, ...]:
    by_name = {law.name: law for law in known}
    chosen: list[Law] = []
    for law in known if laws is None else laws:
        if isinstance(law, str) and law not in by_name:
            raise InvalidArgument("invalid-argument", f"there is no law {law!r} here", field="laws")
        chosen.append(by_name[law] if isinstance(law, str) else law)
    return tuple(chosen)
