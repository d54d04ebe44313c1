"""Grow sessions politely from bytes: what a good harness does, cut off anywhere.

A pure game: the same bytes give the same session, and fewer or smaller ones give a simpler
one, which is what makes a counterexample small. Needs no test library.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ctxalgebra.errors import CtxError
from ctxalgebra.events import abandon, open_calls, travel
from ctxalgebra.laws.alphabet import HEADS, LEGAL, OUTCOMES, RESULTS, SPOKEN, TOLD
from ctxalgebra.laws.evidence import quieted
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Usage
from ctxalgebra.model.parts import tool_result, user
from ctxalgebra.model.session import Session
from ctxalgebra.project import project, reply, send
from ctxalgebra.tokens import chars4
from ctxalgebra.transforms.pipeline import Stage

__all__ = ["grow"]


def grow(stage: Stage, head: int, turns: Sequence[bytes]) -> Session:
    """Grow a session the way a good harness does: settle, send, reply, run the tools.

    Args:
        stage: settles before each request.
        head: which of `HEADS` is stated first.
        turns: of each, what happens behind it, the user's text, and for each round three bytes:
            what the model says, what comes of the request, what happens beside it. Three zeros
            are no round. A round that breaks off has its request in flight, or its calls open;
            the next turn goes on from there as after a crash.

    >>> from ctxalgebra import pipeline
    >>> grow(pipeline(), 0, [bytes([0, 0, 1, 0, 0, 0, 0, 1])])
    <Session: 7 entries, 4 shown>
    """
    session = record(Session(), HEADS[head % len(HEADS)])
    for turn in turns:
        try:
            session = _turn(stage, session, turn)
        except Exception:  # noqa: BLE001 - what a damaged library raises is for the laws to tell
            break
    return session


def _turn(stage: Stage, session: Session, turn: bytes) -> Session:
    after, text, *rounds = turn
    session = record(quieted(session), TOLD[text % len(TOLD)])
    if not session.view.end:
        return session  # what came was white space: there is nothing to send
    for at in range(0, len(rounds), 3):
        if any(rounds[at : at + 3]):
            session = _round(stage, quieted(session), *rounds[at : at + 3])
    if after % 8 in (2, 3):
        session = record(session, user("and another thing"))
    elif after % 8 == 4:
        with suppress(CtxError):  # a tool loop that must keep its thinking lets the head wait
            session = record(quieted(session), HEADS[after % len(HEADS)])
    elif after % 8 in (5, 6):
        session = travel(session, after * 7 % len(session))
    return session


def _round(
    stage: Stage, session: Session, said: int, outcome: int = -1, beside: int = -1
) -> Session:
    session, _ = send(_attempt(stage, session))
    if outcome < 0:
        return session
    if beside % 7 == 6:
        session = record(session, user("steering, in flight"))
    message = SPOKEN[said % LEGAL]
    usage = _usage(session, outcome)
    session = reply(session, OUTCOMES[outcome % len(OUTCOMES)], message, usage=usage)
    while beside >= 0 and (calls := open_calls(session)):
        if beside % 5 == 4:
            session = record(session, user("steering, between results"))
        call = calls[beside % len(calls)]
        if beside % 13 == 12:
            session = abandon(session, call, "the tool was killed")
        else:
            result = tool_result(call, RESULTS[beside % len(RESULTS)], name="read")
            session = record(session, result)
        beside += 1
    return session


def _usage(session: Session, outcome: int) -> Usage | None:
    """Report what the request in flight cost, a quarter above the estimate, or nothing."""
    if not outcome % 3:
        return None
    sent = project(session)
    tokens = chars4(sent.head) + sum(map(chars4, sent.messages))
    return Usage(tokens * 5 // 4, outcome, tokens // 2)


def _attempt(stage: Stage, session: Session) -> Session:
    # When a stage raises, the last legal projection can still be sent; totality tells on it.
    try:
        return stage(session)
    except Exception:  # noqa: BLE001 - whatever it raises
        return session
