"""Commit what was planned to a store, and tell from its journal what became of it.

A plan is applied to a session, which can't fail half way; a store can. `commit` writes what the
session gained, reads the journal anew whatever the call did, and compares: all of it is there, or
nothing, or one can't say. Where nothing but labels of it is there, they are taken away again, so
that no name leads to a branch that was never left. Source: travel, section 13.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import Protocol

from attrs import frozen

from ctxalgebra.checkpoints.outcome import Outcome, Presence
from ctxalgebra.errors import CtxError
from ctxalgebra.events import label, labels
from ctxalgebra.model.entries import Entry, Label
from ctxalgebra.model.session import Session, check_session, log

__all__ = ["Committed", "SessionStore", "commit"]


class SessionStore(Protocol):
    """What `commit` writes to; `ctxalgebra.store.Store` is one."""

    def append(self, session: Session) -> object:
        """Write what a session has more than the journal."""
        ...

    def read(self) -> Session:
        """Read the whole journal anew, with what others wrote."""
        ...


@frozen
class Committed:
    """Hold what became of it.

    Args:
        outcome: told from the journal.
        session: what the journal holds now, as the store gives it, to go on with; None where it
            can't be read.
        ticket: whether all labels that were to be written, or cleared, are as they were to be;
            `absent` where there were none.
        error: what the store raised, its code where it has one.
    """

    outcome: Outcome
    session: Session | None
    ticket: Presence
    error: str = ""


def commit(store: SessionStore, before: Session, after: Session) -> Committed:
    """Write what `after` has more than `before`, and say what became of it (an effect).

    *Applied*: what was to be written stands right behind `before`, whatever others wrote behind it.
    *Not applied*: the journal is `before`, also where there was nothing to write. *Indeterminate*:
    anything else: it can't be read; only a part is there; the leaf alone is another one; or entries
    of somebody else stand where ours should be, since numbers in ours would mean other entries.
    Then look at `session`, and plan again on it.

    The store has to give back what it was given: one that keeps the journal's own format does; the
    formats of other tools have no place for everything, and what they lose is *indeterminate*.

    Args:
        store: holds `before`.
        before: the session that was planned on.
        after: grown from it, as by `apply_travel`.

    Raises:
        InvalidArgument: `wrong-type`. What the store raises is told in `error`.

    >>> from ctxalgebra import Session, record, user
    >>> class Memory:
    ...     session = Session()
    ...     def append(self, session):
    ...         self.session = session
    ...         raise OSError("the line was cut behind the write")
    ...     def read(self):
    ...         return self.session
    >>> done = commit(Memory(), Session(), record(Session(), user("hi")))
    >>> done.outcome, done.error
    ('applied', 'OSError')
    """
    check_session(before)
    check_session(after)
    error = ""
    try:
        store.append(after)
    except Exception as raised:  # noqa: BLE001 - whatever a store raises, the journal tells
        error = raised.code if isinstance(raised, CtxError) else type(raised).__name__
    fresh = [node.entry for node in islice(log(after), len(before), None)]
    tickets = {entry.target: entry.name for entry in fresh if isinstance(entry, Label)}
    there = _read(store)
    outcome = _outcome(there, before, after)
    if there is not None and outcome == "indeterminate":
        # Was anything written that the labels were written for?
        found = {node.entry for node in islice(log(there), len(before), None)}
        if not any(entry in found for entry in fresh if not isinstance(entry, Label)):
            there = _take_back(store, there, before, tickets)
    return Committed(outcome, there, _presence(there, tickets), error)


def _read(store: SessionStore) -> Session | None:
    try:
        there = store.read()
    except Exception:  # noqa: BLE001 - whatever a store raises, the journal can't be read
        return None
    return there if type(there) is Session else None


def _outcome(there: Session | None, before: Session, after: Session) -> Outcome:
    if there is None:
        return "indeterminate"
    if there == before:
        return "not-applied"
    if there == after:
        return "applied"
    if len(there) == len(after):
        return "indeterminate"  # the leaf counts, too
    wanted = _places(after)
    return "applied" if _places(there)[: len(wanted)] == wanted else "indeterminate"


def _places(session: Session) -> list[tuple[Entry, int]]:
    """List the entries, each with the number of its parent."""
    return [
        (node.entry, -1 if node.parent is None else node.parent.number) for node in log(session)
    ]


def _take_back(
    store: SessionStore, there: Session, before: Session, tickets: dict[int, str]
) -> Session | None:
    """Undo labels that were written without what they were written for."""
    known, prior = labels(there), labels(before)
    undone = there
    for target, name in tickets.items():
        if known.get(target) == name != prior.get(target):
            undone = label(undone, target, prior.get(target, ""))
    if undone is there:
        return there
    with suppress(Exception):  # whatever a store raises, the journal tells
        store.append(undone)
    return _read(store)


def _presence(there: Session | None, tickets: dict[int, str]) -> Presence:
    if there is None:
        return "unknown"
    known = labels(there)
    wrong = [target for target, name in tickets.items() if known.get(target, "") != name]
    return "present" if tickets and not wrong else "absent"
