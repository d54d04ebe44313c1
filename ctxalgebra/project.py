"""From a session to requests and back: project, send, reply, requests.

A request is a projection of the journal: a pure function of the entries on the path.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from ctxalgebra.model.entries import Outcome, Reply, Sent
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Head, Usage
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session, no_session, walk

__all__ = ["Request", "project", "reply", "requests", "send"]


@frozen
class Request:
    """Hold what is sent to the model: the head, then the messages in order."""

    kind: ClassVar[str] = "request"
    head: Head
    messages: tuple[Message, ...]

    def extends(self, earlier: Request) -> bool:
        """Say whether `earlier` is a prefix of this request: same head, same leading messages.

        >>> from ctxalgebra import Head, Request, user
        >>> a, b = user("a"), user("b")
        >>> Request(Head(), (a, b)).extends(Request(Head(), (a,)))
        True
        """
        length = len(earlier.messages)
        return self.head == earlier.head and self.messages[:length] == earlier.messages


def project(session: Session) -> Request:
    """Give the request that the session stands for now; reads the view, records nothing.

    Total: with calls open or a request in flight it gives what would be shown so far. Costs the
    copying of the shown pointers.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, record, user
    >>> project(record(Session(), user("hi"))).messages
    (Message(role='user', parts=(Text(text='hi'),), call='', name='', error=False, id=''),)
    """
    try:
        view = session.view
    except AttributeError:
        raise no_session(session) from None
    return Request(view.head, view.messages())


def send(session: Session, *, time: int | None = None) -> tuple[Session, Request]:
    """Record that a request leaves, and give it.

    Args:
        time: milliseconds since 1970 by the caller's clock, when known.

    Raises:
        ProtocolViolation: `in-flight`, `open-call`, `empty-request`.

    >>> from ctxalgebra import Session, record, user
    >>> session, request = send(record(Session(), user("hi")))
    >>> len(request.messages)
    1
    """
    session = record(session, Sent(time=time))
    return session, project(session)


def reply(
    session: Session,
    outcome: Outcome,
    message: Message | None = None,
    *,
    usage: Usage | None = None,
) -> Session:
    """Close the open request with what came of it.

    Args:
        outcome: `completed` (needs the message), `aborted` or `failed` (the message, if any, is
            kept in the journal and withheld from requests), `lost` (nobody knows, as after
            a crash).

    Raises:
        ProtocolViolation: `no-request`, `no-message`, `wrong-role`, `duplicate-call`.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> session, _ = send(record(Session(), user("hi")))
    >>> len(project(reply(session, "completed", assistant("Hello!"))).messages)
    2
    """
    return record(session, Reply(outcome, message, usage))


def requests(session: Session) -> tuple[Request, ...]:
    """List the requests that were made along the path, retries included, oldest first.

    Costs the path and what the requests show; `account` answers most questions for less.

    >>> from ctxalgebra import Session, record, user
    >>> session, request = send(record(Session(), user("hi")))
    >>> requests(session) == (request,)
    True
    """
    return tuple(
        Request(view.head, view.messages())
        for node, view in walk(session)
        if type(node.entry) is Sent
    )
