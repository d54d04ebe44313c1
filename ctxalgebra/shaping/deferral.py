"""Deferral: tools that are not sent until a search activates them, on plain lists of names.

For a harness that keeps lists of names; a session has `resident` for it. What was activated stays
active until it is cleared, whatever is configured meanwhile (W41), and what is switched off gives
the list as it was, in its order (W42). Source: skills and saver, section 16.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from attrs import evolve, frozen

__all__ = ["CORE", "FINDERS", "Deferral", "activated", "deferred", "restored"]

CORE: Final = frozenset(
    {"read", "bash", "edit", "write", "grep", "find", "ls", "powershell", "skill", "skill_search"}
)
"""Tools that are always sent."""

FINDERS: Final = ("token_retrieve", "token_tool_search")
"""Tools that stand at the end while others are deferred."""


@frozen
class Deferral:
    """Hold what is deferred.

    Args:
        before: all active tools as they were, in order.
        held: those that are not sent.
        found: those that a search activated, in order.
    """

    before: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    found: tuple[str, ...] = ()


def deferred(
    state: Deferral,
    active: Sequence[str],
    *,
    core: Collection[str] = CORE,
    finders: Sequence[str] = FINDERS,
) -> tuple[Deferral, tuple[str, ...]]:
    """Defer what is active, is not always sent, and was not activated by a search.

    Args:
        state: what was deferred so far.
        active: the names of the active tools, in order.
        core: those that are always sent.
        finders: those that search and bring back.

    Returns:
        What is deferred now, and the names to activate; the same again changes nothing.

    >>> state, active = deferred(Deferral(), ["read", "db", "bash"])
    >>> state.held, active
    (('db',), ('read', 'bash', 'token_retrieve', 'token_tool_search'))
    >>> deferred(state, active) == (state, active)
    True
    """
    always = {*core, *finders, *state.found}
    own = [name for name in active if name not in finders]
    before = tuple(dict.fromkeys((*state.before, *own)))
    held = dict.fromkeys((*state.held, *(name for name in own if name not in always)))
    kept = (name for name in active if name not in held)
    return Deferral(before, tuple(held), state.found), tuple(dict.fromkeys((*kept, *finders)))


def activated(
    state: Deferral, active: Sequence[str], names: Iterable[str]
) -> tuple[Deferral, tuple[str, ...]]:
    """Activate deferred tools, at the end of the list; other names are passed over.

    >>> state, active = deferred(Deferral(), ["read", "db"])
    >>> activated(state, active, ["db", "nobody"])[1][-1]
    'db'
    """
    held = dict.fromkeys(state.held)
    new = tuple(name for name in names if held.pop(name, name) is None)
    now = tuple(dict.fromkeys((*active, *new)))
    return evolve(state, held=tuple(held), found=(*state.found, *new)), now


def restored(
    state: Deferral,
    active: Sequence[str],
    registered: Collection[str],
    *,
    finders: Sequence[str] = FINDERS,
) -> tuple[str, ...]:
    """Give the list without deferral: what was there in its order, then what came since.

    Args:
        state: what is deferred.
        active: the names of the active tools.
        registered: the names of all tools that there are.
        finders: as in `deferred`.

    >>> state, active = deferred(Deferral(), ["read", "db", "bash"])
    >>> restored(state, active, {"read", "db", "bash"})
    ('read', 'db', 'bash')
    """
    shown, were = {*active, *state.held}, {*state.before, *finders}
    old = (name for name in state.before if name in shown and name in registered)
    new = (name for name in active if name not in were)
    return (*old, *new)
