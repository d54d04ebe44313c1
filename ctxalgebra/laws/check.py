"""Check laws in one line: of a stage, of a trimming function, of a recorded journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, overload

from attrs import evolve

from ctxalgebra.effects import pending
from ctxalgebra.errors import InvalidArgument, LawViolation
from ctxalgebra.laws.arrays import ArrayFunction, not_of_messages
from ctxalgebra.laws.evidence import Law, quieted
from ctxalgebra.laws.laws import ARRAY_LAWS, LAWS, SESSION_LAWS
from ctxalgebra.laws.script import script
from ctxalgebra.laws.stages import not_a_session, recorded_otherwise
from ctxalgebra.laws.watching import Watched
from ctxalgebra.model.entries import Answer, AnswerOutcome
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import Message, ToolCall, assistant, tool_result, user
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

    Given a session (or an array), checks that one. Without, generates: sessions are grown by a
    well-behaved loop, by offering the gate whatever comes near its rules, or taken in from what
    is as dirty as real files; a counterexample is made as small as possible. Runs are reproducible.

    Args:
        stage: with `on="messages"` a function from a tuple of messages to the messages that are
            sent, called for each request as the tuple grows.
        session: what to check on.
        examples: how many are generated.
        laws: names of laws, or laws; by default all of the stage, and all of the session that it
            gives back and of the loop that goes on from there.
        on: what the stage takes.

    Raises:
        LawViolation: a law does not hold. `before` is what the stage was given: a small
            session that shows it, which the traceback prints as Python that records it again
            (`script`). `after` is what the stage gave back, None where it gave nothing. A stage
            that raises, on whatever session, breaks `totality`; one that answers otherwise when
            it is asked again breaks `determinism`, whichever law was asked.
        InvalidArgument: `invalid-argument`, there is no law of this name; `missing-extra`,
            Hypothesis is needed and not installed.

        Nothing else escapes, but for `KeyboardInterrupt`.

    >>> from functools import partial
    >>> from ctxalgebra import record, select
    >>> check(partial(select, budget=100), record(Session(), user("hi")))
    >>> try:
    ...     check(lambda messages: messages[-1:], (user("a"), user("b")), on="messages")
    ... except LawViolation as broken:
    ...     print(broken)
    law-broken: prefix-extension: with 2 messages it sends 1, which part at 0 from the 1 that were \
sent before
    """
    if on not in ("session", "messages"):
        raise InvalidArgument("invalid-argument", f"can't check on {on!r}", field="on")
    chosen = _chosen(laws, LAWS if on == "session" else ARRAY_LAWS)
    judge = _judge_session if on == "session" else _judge_array
    if type(examples) is not int or examples < 1:
        raise InvalidArgument("invalid-argument", "examples must be positive", field="examples")
    try:
        if session is not None:
            judge(stage, session, chosen)
        else:
            _search(lambda value: judge(stage, value, chosen), on, examples)
    except LawViolation as violation:
        # Notes stand below the traceback; those of the search would show its own values.
        violation.__notes__ = [_shown(violation.before)]
        raise


def _search(judge: Callable[[Any], None], on: str, examples: int) -> None:
    try:
        from ctxalgebra.laws import strategies
    except ModuleNotFoundError as missing:
        if missing.name != "hypothesis":
            raise
        raise InvalidArgument(
            "missing-extra", "to generate examples install ctxalgebra[verify]"
        ) from None
    strategies.search(judge, on, examples)


def _shown(before: Any) -> str:
    """Print a counterexample; a long one only says how it can be had."""
    told = script(before)
    if len(told) > LONG:
        return "The counterexample is long: ctxalgebra.laws.script(error.before) prints it."
    return f"The counterexample (error.before):\n{told}"


LONG = 20_000
"""From how many characters on a counterexample is not printed."""


def _judge_session(stage: Stage, session: Session, laws: Sequence[Law]) -> None:
    watched = Watched(stage, not_a_session, lambda _: "the stage", recorded_otherwise)
    _ask(watched, session, [law for law in laws if law.kind not in _OF_SESSIONS])
    try:
        after = _go_on(watched, session, asked="totality" in {law.name for law in laws})
    except LawViolation:
        raise
    except Exception as error:
        raise LawViolation("totality", f"the loop can't go on: {error}", session) from error
    for law in laws:
        if law.kind in _OF_SESSIONS and (found := verdict(_of_one_path(law), after)):
            raise LawViolation(law.name, found, session, after)


def _of_one_path(law: Law) -> Law:
    """Ask a law of paths about the one that the stage has added to, not of every branch."""
    return evolve(law, broken=getattr(law.broken, "__wrapped__", law.broken))


_OF_SESSIONS = ("invariant", "preorder")


def _ask(watched: Watched, value: Any, laws: Sequence[Law]) -> None:
    for law in laws:
        found = verdict(law, watched, value)
        watched.blame()
        if found:
            again = verdict(law, watched, value)
            watched.blame()
            if again is None:
                text = f"asked again, {law.name} holds; before, {found}"
                raise LawViolation("determinism", text, value)
            raise LawViolation(law.name, found, value, _attempt(watched, value))


def _go_on(watched: Watched, session: Session, *, asked: bool) -> Session:
    """Go on with the loop for two requests; ask for totality wherever it comes along."""

    def look(session: Session) -> Session:
        after = _attempt(watched, session)
        if asked:
            watched.blame()
        return after

    for text in ("go on", "and on"):
        session = look(session)
        for outcome in _ANSWERS:
            if answers := [Answer(p.number, outcome, text) for p in pending(session)]:
                look(record(session, *answers))
        session, _ = send(look(record(quieted(session), user(text))))
        look(session)
        session = reply(session, "completed", assistant("yes", *_CALLS))
        for call in _CALLS:
            look(session)
            session = record(session, tool_result(call.id, "done", name=call.name))
    return look(session)


_ANSWERS: tuple[AnswerOutcome, ...] = ("answered", "failed", "expired")
_CALLS = tuple(ToolCall(f"call{n}", "read") for n in range(4))


def _attempt(stage: Callable[[Session], Session], session: Session) -> Session:
    # When a stage raises, the last legal session goes on.
    try:
        return stage(session)
    except Exception:  # noqa: BLE001 - a watched stage tells on it
        return session


def _judge_array(function: ArrayFunction, array: Sequence[Message], laws: Sequence[Law]) -> None:
    def ask(given: tuple[Message, ...]) -> None:
        _ask(Watched(lambda sent: tuple(function(sent)), *_OF_ARRAYS), given, laws)

    whole = tuple(array)
    try:
        ask(whole)
    except LawViolation as found:
        violation = found
    else:
        return
    # Of a long array, the shortest beginning that breaks a law says most.
    for end in range(1, len(whole)):
        ask(whole[:end])
    raise violation


def _place(given: tuple[Message, ...]) -> str:
    return f"with {len(given)} messages it"


def _differ(given: tuple[Message, ...], _first: object, _again: object) -> str:
    return f"{_place(given)} gives two answers"


_OF_ARRAYS = (not_of_messages, _place, _differ)


def _chosen(laws: Iterable[str | Law] | None, known: Sequence[Law]) -> tuple[Law, ...]:
    by_name = {law.name: law for law in known}
    chosen: list[Law] = []
    for law in known if laws is None else laws:
        if isinstance(law, str) and law not in by_name:
            raise InvalidArgument("invalid-argument", f"there is no law {law!r} here", field="laws")
        chosen.append(by_name[law] if isinstance(law, str) else law)
    return tuple(chosen)
