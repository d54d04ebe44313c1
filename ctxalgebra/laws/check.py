"""Check laws in one line: of a stage, of a trimming function, of a recorded journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from ctxalgebra.errors import InvalidArgument, LawViolation
from ctxalgebra.laws.evidence import Law
from ctxalgebra.laws.laws import SESSION_LAWS
from ctxalgebra.laws.stages import LIST_LAWS, STAGE_LAWS, ArrayFunction, quieted
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import Message, assistant, user
from ctxalgebra.model.session import Session
from ctxalgebra.project import reply, send
from ctxalgebra.transforms.pipeline import Stage

__all__ = ["LAWS", "check", "check_journal", "verdict"]

LAWS: tuple[Law, ...] = (*SESSION_LAWS, *STAGE_LAWS)
"""All laws that need no parameters; `fits_budget` makes one that does."""


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
    """Check every law of sessions on a recorded journal; needs no test library.

    For journals that were recorded elsewhere, as by a port to another language.

    Args:
        laws: names of laws, or laws; all of the session by default.

    Raises:
        LawViolation: the first law that does not hold.
        InvalidArgument: there is no law of this name.

    >>> from ctxalgebra import record
    >>> check_journal(record(Session(), user("hi")))
    """
    for law in _chosen(laws, SESSION_LAWS):
        if found := verdict(law, session):
            raise LawViolation(law.name, found, session, session)


def check(
    stage: Stage | ArrayFunction,
    session: Session | Sequence[Message] | None = None,
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

    Raises:
        LawViolation: a law does not hold; `before` and `after` are what the stage was given and
            what it gave back.
        InvalidArgument: there is no law of this name; or Hypothesis is needed and missing.

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
    known = LAWS if on == "session" else LIST_LAWS
    chosen = _chosen(laws, known)
    judge: Callable[[Any, Any, Sequence[Law]], None]
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
    strategies.search(lambda value: judge(stage, value, chosen), on, examples)


def _judge_session(stage: Stage, session: Session, laws: Sequence[Law]) -> None:
    for law in laws:
        if law.kind in ("invariant", "preorder"):
            continue
        if found := verdict(law, stage, session):
            raise LawViolation(law.name, found, session, _attempt(stage, session))
    after = _attempt(stage, session)
    if after is None:
        return
    after = _went_on(stage, after)
    for law in laws:
        if law.kind in ("invariant", "preorder") and (found := verdict(law, after)):
            raise LawViolation(law.name, found, session, after)


def _attempt(stage: Stage, session: Session) -> Session | None:
    try:
        return stage(session)
    except Exception:  # noqa: BLE001 - totality has said so, unless it was not asked
        return None


def _went_on(stage: Stage, session: Session) -> Session:
    """Go on with the loop for two requests, so that what the stage decided is seen in them."""
    session = quieted(session)
    for text in ("go on", "and on"):
        session = _attempt(stage, record(session, user(text))) or session
        session = reply(send(session)[0], "completed", assistant("yes"))
    return session


def _judge_array(function: ArrayFunction, array: Sequence[Message], laws: Sequence[Law]) -> None:
    for law in laws:
        if found := verdict(law, function, array):
            try:
                after: object = tuple(function(tuple(array)))
            except Exception as error:  # noqa: BLE001 - it is part of the report
                after = error
            raise LawViolation(law.name, found, tuple(array), after)


def _chosen(laws: Iterable[str | Law] | None, known: Sequence[Law]) -> tuple[Law, ...]:
    if laws is None:
        return tuple(known)
    by_name = {law.name: law for law in known}
    chosen: list[Law] = []
    for law in laws:
        if isinstance(law, Law):
            chosen.append(law)
        elif law in by_name:
            chosen.append(by_name[law])
        else:
            raise InvalidArgument("invalid-argument", f"there is no law {law!r} here", field="laws")
    return tuple(chosen)
