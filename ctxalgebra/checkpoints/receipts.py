"""Checkpoints: name the newest place from which a request can leave, or an entry of one's own.

A checkpoint is a `Label`. It changes no request, so it breaks nothing, and it is found again in
constant time, however many entries there are. Source: travel, section 9; W03, W05, W31.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from ctxalgebra.checkpoints.names import LONGEST_NAME, is_name, is_new_name, name_conflict
from ctxalgebra.checkpoints.refusals import Refusal
from ctxalgebra.checkpoints.targets import (
    Target,
    complete_places,
    free_name,
    is_addressable,
    names_of,
    resolve_target,
    save_point,
)
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.events import abandon, label, open_calls, travel
from ctxalgebra.explain import carried
from ctxalgebra.model.checks import check_text, check_type, mistyped
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import user
from ctxalgebra.model.session import Session, check_session, find
from ctxalgebra.model.view import Measure, View, weigh
from ctxalgebra.tokens import chars4

__all__ = [
    "GIVEN_UP",
    "Receipt",
    "Size",
    "checkpoint",
    "checkpoint_before_cut",
    "kept",
    "plan_checkpoint",
    "size_of",
]

Status: TypeAlias = Literal["created", "present"]


@frozen
class Size:
    """Count what a request shows: messages, and measured tokens with the head."""

    messages: int
    tokens: int


def size_of(view: View, measure: Measure) -> Size:
    """Count what a view shows; costs what is new since the last call."""
    tokens = view.slots.total(measure, view.end) + weigh(measure, view.head)
    return Size(view.end, tokens)


GIVEN_UP = "The conversation went elsewhere before this call had a result."
"""The result of a call that has none where a journey lands."""


def kept(session: Session, landed: Session) -> tuple[View, int]:
    """Say what a journey that has landed keeps: a view, and how many of its messages.

    Calls that are open there get their errors, and the current head holds, as `apply_travel` does
    it; where a loop has to keep its thinking, that is so behind the handoff, which isn't counted.
    """
    for call in open_calls(landed):
        landed = abandon(landed, call, GIVEN_UP)
    if landed.head == session.head:
        return landed.view, landed.view.end
    view = record(landed, user("."), session.head).view
    return view, view.end - 1


@frozen
class Receipt:
    """Say what a checkpoint is.

    Args:
        status: `created`, or `present` when the entry had the name already.
        name: the label.
        number: the entry that has it.
        role: of the message that the request there ends with; empty where it shows none.
        kept: what is shown after travelling there, handoff aside.
        since: how many entries of the path lie between it and the save point in front of it; None
            where there is none, or the entry is off the path.
        displaced: a label that nobody could write as a target, and that gave way.
        notices: `target-no-message` and `target-off-path`, which hold up nothing.
    """

    status: Status
    name: str
    number: int
    role: str
    kept: Size
    since: int | None
    displaced: str = ""
    notices: tuple[str, ...] = ()


def _notices(session: Session, target: Target) -> tuple[str, ...]:
    message = carried(find(session, target.number, along="log"))
    told: list[str] = []
    if message is None or message.role not in ("user", "assistant"):
        told.append("target-no-message")
    if target.off_path:
        told.append("target-off-path")
    return tuple(told)


def plan_checkpoint(
    session: Session,
    name: str,
    *,
    target: str | None = None,
    aborted: bool = False,
    measure: Measure = chars4,
) -> Receipt | Refusal:
    """Say what `checkpoint` would do; record nothing.

    >>> from ctxalgebra import Session, record, user
    >>> plan_checkpoint(record(Session(), user("hi")), "Root").code
    'reserved-name'
    """
    check_session(session)
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers
        raise mistyped(name, "a text", "name")
    check_type(aborted, bool, "aborted")
    known = names_of(session)
    if name_conflict(known, -1, name) == "reserved-name":
        return Refusal("reserved-name", "the name stands for the first entry")
    if not is_new_name(name):
        text = f"{name!r:.80} is no name: use letters, digits, . _ -, at most {LONGEST_NAME}"
        return Refusal("invalid-name", text)
    found = None if target is None else resolve_target(session, target)
    if isinstance(found, Refusal):
        return found
    if aborted:
        return Refusal("aborted", "nothing was recorded")
    if found is not None:
        return _receipt(session, name, found.number, _notices(session, found), measure)
    number = complete_places(session).newest
    if number < 0 and session.leaf is None:
        return Refusal("empty-session", "there is nothing to come back to yet")
    if number < 0:
        text = "no request could leave from this path yet"
        return Refusal("no-protocol-complete-checkpoint-target", text)
    return _receipt(session, name, number, (), measure)


def _receipt(
    session: Session, name: str, number: int, notices: tuple[str, ...], measure: Measure
) -> Receipt | Refusal:
    known = names_of(session)
    old = known.names.get(number, "")
    conflict = name_conflict(known, number, name)
    if conflict == "duplicate-name":
        return Refusal("duplicate-name", f"another entry has the name {name!r:.80}")
    # What nobody can write as a target is no name that could be missed (W05).
    if conflict is not None and is_addressable(old):
        text = f"the entry has the label {old!r:.80}: use that"
        return Refusal("label-displaces-existing", text)
    view, end = kept(session, travel(session, number))
    here, point = find(session, number), save_point(session, number)
    since = None if here is None or point is None else here.depth - point.depth
    return Receipt(
        "present" if old == name else "created",
        name,
        number,
        view.slots.messages[end - 1].role if end else "",
        Size(end, view.slots.total(measure, end) + weigh(measure, view.head)),
        since,
        "" if old == name else old,
        notices,
    )


def checkpoint(
    session: Session,
    name: str,
    *,
    target: str | None = None,
    aborted: bool = False,
    measure: Measure = chars4,
) -> tuple[Session, Receipt | Refusal]:
    """Name a place to come back to, so that travel finds it.

    Without a target that is the newest entry whose request could leave: in front of the message
    whose calls are open. One `Label` is recorded, and nothing where the entry has the name.

    Args:
        name: letters, digits, `.`, `_` and `-`, at most 200; not `root`.
        target: `#12`, `root` or a label.
        aborted: the caller has given it up.

    Returns:
        The session, and the receipt; or the same session and the refusal.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, labels, record, user
    >>> session, receipt = checkpoint(record(Session(), user("hi")), "start")
    >>> receipt.status, receipt.number, labels(session)
    ('created', 0, {0: 'start'})
    >>> checkpoint(session, "other")[1].code
    'label-displaces-existing'
    """
    found = plan_checkpoint(session, name, target=target, aborted=aborted, measure=measure)
    return _recorded(session, found), found


def _recorded(session: Session, found: Receipt | Refusal) -> Session:
    if isinstance(found, Refusal) or found.status == "present":
        return session
    return label(session, found.number, found.name)


def checkpoint_before_cut(
    session: Session, stamp: str, *, measure: Measure = chars4
) -> tuple[Session, Receipt | Refusal]:
    """Name the newest place before history is cut, so that what is cut is one journey away.

    The name is `pre-compact-` and the stamp, with a number where it is taken. A place that has a
    label is found by that one, which stays (W31).

    Args:
        stamp: the time as the caller writes it, such as `2026-07-16-09-30-00`.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, the stamp can't be part of a name: it has
            other characters, or more than 100.

    >>> from ctxalgebra import Session, record, user
    >>> checkpoint_before_cut(record(Session(), user("hi")), "2026-07-16")[1].name
    'pre-compact-2026-07-16'
    """
    check_text(stamp, "stamp")
    if not is_name(stamp) or len(stamp) > LONGEST_NAME // 2:
        raise InvalidArgument("invalid-argument", f"{stamp!r:.80} is no name", field="stamp")
    old = names_of(session).names.get(complete_places(session).newest, "")
    if is_addressable(old):
        return session, _receipt(session, old, complete_places(session).newest, (), measure)
    return checkpoint(session, free_name(session, f"pre-compact-{stamp}"), measure=measure)
