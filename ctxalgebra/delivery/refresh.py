"""The registry of a refresh: whether the next request is built anew from what is stored.

A refresh that was asked for stays until the session is another one, so every later request is built
from storage, too. Three attempts in a row that fail end it (travel, section 14).
"""

from __future__ import annotations

from typing import Literal

from attrs import evolve, frozen

__all__ = ["ATTEMPTS", "Failure", "Refresh", "RefreshEvent", "refresh"]

ATTEMPTS = 3
"""How many attempts may fail in a row."""


@frozen
class Failure:
    """An event: an attempt failed, and why."""

    error: str


RefreshEvent = Literal["asked", "rebuilt", "dropped", "done"] | Failure
"""What happens: it is asked for, it was built, it is given up, all is forgotten; or a failure."""


@frozen
class Refresh:
    """Hold the state of a refresh.

    Args:
        pending: requests are built from storage.
        attempts: how many failed in a row.
        failure: why the last one did.
        rebuilt: one was built since it was asked for.
    """

    pending: bool = False
    attempts: int = 0
    failure: str | None = None
    rebuilt: bool = False

    @property
    def exhausted(self) -> bool:
        """Whether no further attempt is made."""
        return self.attempts >= ATTEMPTS


def refresh(state: Refresh, event: RefreshEvent) -> Refresh:
    """Take one event into the registry.

    >>> state = refresh(Refresh(), "asked")
    >>> for _ in range(3):
    ...     state = refresh(state, Failure("unreadable"))
    >>> state
    Refresh(pending=False, attempts=3, failure='unreadable', rebuilt=False)
    """
    match event:
        case "asked":
            return Refresh(pending=True)
        case "rebuilt":
            return Refresh(state.pending, rebuilt=True)
        case "dropped":
            return evolve(state, pending=False)
        case "done":
            return Refresh()
        case _:
            attempts = min(state.attempts + 1, ATTEMPTS)
            pending = state.pending and attempts < ATTEMPTS
            return Refresh(pending, attempts, event.error, state.rebuilt)
