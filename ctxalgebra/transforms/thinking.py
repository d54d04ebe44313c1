"""Hide thinking for good: what a provider's 400 on a signature asks for."""

from __future__ import annotations

from ctxalgebra.model.entries import Strip
from ctxalgebra.model.gate import record
from ctxalgebra.model.session import Session, check_session

__all__ = ["strip_thinking"]


def strip_thinking(session: Session, *, why: str = "the provider refused a signature") -> Session:
    """Hide all thinking that is shown, as a declared break (a stage).

    For the answer 400 "Invalid `signature` in `thinking` block" (provider rule T1): close the
    request as failed, strip, send again. Thinking of later replies is shown as usual.

    Reads: the view. Records: one `Strip`, or nothing when no thinking is shown, a request is in
    flight, or an open tool loop must keep its leading thinking (V-A7).

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import *
    >>> session = record(Session(), user("a"), assistant(Thinking("hm", "sig"), "b"), user("c"))
    >>> project(strip_thinking(session)).messages[1].parts
    (Text(text='b'),)
    """
    check_session(session)
    view = session.view
    at = view.thinking(0)
    if at == view.end or view.flight >= 0 or view.holds_loop(at):
        return session
    return record(session, Strip(why, breaks=True))
