"""The gateway of the original tool policy over a session: what is active after each event.

The rules are those of the specification of the tool policy, A2 and A3, with what its documents
promise of persistence and of other owners (B1 to B3). Faults that are not kept:

* a tool that somebody else activated stays where it stands (C5), and counts in the status (C9);
* what was activated is still so after a shutdown (C6, C9), and when a policy that ruled it out
  changes back (C8);
* where the policy is off nothing that is active moves, and nothing disabled is added (C4, C7);
* the gateway itself can't be disabled, and looks at the tools as they are now (C10).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import floor
from typing import Any

from attrs import evolve, frozen

from ctxalgebra.compat.toolpolicy_config import always_active
from ctxalgebra.compat.toolpolicy_search import (
    GATEWAY,
    KnownTool,
    find_tools,
    format_bytes,
    known_tools,
    tool_bytes,
)
from ctxalgebra.utf16 import trim

__all__ = ["Called", "Gateway", "Status", "call", "reconcile", "shutdown", "start", "status"]

Policy = Mapping[str, Any]


@frozen
class Gateway:
    """Hold what the host has, and what the gateway remembers.

    Args:
        policy: as it holds for the model.
        tools: all that are registered.
        active: names of the active ones, in order.
        wanted: names that were activated through the gateway, in order.
        own: names that the gateway set last; what else is active is somebody else's.
        others: names that somebody else activated.
        closed: the session was shut down, and not started since.
    """

    policy: Policy
    tools: tuple[KnownTool, ...] = ()
    active: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    closed: bool = False

    @property
    def disabled(self) -> frozenset[str]:
        """Names that are never active; the gateway is none of them."""
        return frozenset(self.policy["disabled"]) - {GATEWAY}

    @property
    def fixed(self) -> list[str]:
        """Names that are always active."""
        return [name for name in always_active(self.policy) if name not in self.disabled]

    @property
    def activated(self) -> list[str]:
        """Names that were activated and may be active now."""
        out = self.disabled.union(self.fixed)
        return [name for name in self.wanted if name not in out]


def _apply(known: Gateway) -> Gateway:
    """Set the active tools: the gateway's own, and what others activated stays."""
    registered = known_tools(known.tools).keys() | {GATEWAY}
    allowed = registered - known.disabled
    wanted = (GATEWAY, *known.fixed, *known.activated)
    others = (known.others | (frozenset(known.active) - known.own)) & frozenset(known.active)
    if not known.policy["enabled"]:
        wanted = (*known.active, *known_tools(known.tools))
        allowed -= {GATEWAY} - known_tools(known.tools).keys()
    own = [name for name in dict.fromkeys(wanted) if name in allowed]
    active = own
    if kept := [name for name in known.active if name in others and name in allowed]:
        stays = {*own, *kept}
        active = list(dict.fromkeys([*(n for n in known.active if n in stays), *own]))
    return evolve(known, active=tuple(active), own=frozenset(own), others=others)


def reconcile(known: Gateway) -> Gateway:
    """Bring the active tools in line with the policy and with what is registered.

    >>> policy = {"enabled": True, "alwaysActive": [], "disabled": []}
    >>> reconcile(Gateway(policy, ({"name": "read"}, {"name": "web"}))).active
    ('lazy', 'read')
    """
    registered = known_tools(known.tools)
    return _apply(evolve(known, wanted=tuple(n for n in known.wanted if n in registered)))


def start(known: Gateway) -> Gateway:
    """Start a session: a new one has nothing activated, one that was shut down has what it had."""
    wanted = known.wanted if known.closed else ()
    return reconcile(evolve(known, wanted=wanted, closed=False))


def shutdown(known: Gateway) -> Gateway:
    """Shut the session down; what is active stays so in the host."""
    return evolve(known, closed=True)


@frozen
class Status:
    """Tell what the active tools weigh: texts for people, and the share in percent."""

    active: str
    total: str
    percent: int


def status(known: Gateway) -> Status:
    """Weigh the active tools, the gateway aside, against all that are registered.

    >>> policy = {"enabled": True, "alwaysActive": [], "disabled": []}
    >>> tools = ({"name": "read", "description": "r"}, {"name": "web", "description": "www"})
    >>> status(Gateway(policy, tools))
    Status(active='1B', total='4B', percent=25)
    """
    registered = known_tools(known.tools)
    others = [n for n in known.active if n in known.others or n not in known.own]
    counted = {*known.fixed, *known.activated, *others} - ({GATEWAY} - {*known.activated})
    total = sum(map(tool_bytes, registered.values()))
    active = sum(tool_bytes(tool) for name, tool in registered.items() if name in counted)
    percent = floor(active / total * 100 + 0.5) if total else 0
    return Status(format_bytes(active), format_bytes(total), percent)


@frozen
class Called:
    """Tell what a call of the gateway gave; what it was not asked for is None.

    Args:
        matches: names that were found, best first.
        added, disabled, unknown: names by what became of their activation.
        status: after the call.
    """

    matches: list[str] | None = None
    added: list[str] | None = None
    disabled: list[str] | None = None
    unknown: list[str] | None = None
    status: Status | None = None


def _activate(known: Gateway, names: Iterable[str]) -> tuple[Gateway, Called]:
    registered, ruled_out = known_tools(known.tools), known.disabled
    ignored = {*known.fixed, *known.activated}
    added: list[str] = []
    disabled: list[str] = []
    unknown: list[str] = []
    for name in filter(None, map(trim, names)):
        if name in ruled_out:
            disabled.append(name)
        elif name not in registered:
            unknown.append(name)
        elif name not in ignored:
            added.append(name)
            ignored.add(name)
    known = _apply(evolve(known, wanted=(*known.wanted, *added)))
    return known, Called(added=added, disabled=disabled, unknown=unknown, status=status(known))


def call(
    known: Gateway,
    *,
    search: str | None = None,
    activate: Iterable[str] = (),
    reset: bool = False,
) -> tuple[Gateway, Called | None]:
    """Call the gateway: reset, activate, search or tell the status, whichever comes first.

    Args:
        known: before the call.
        search: what to look for; None to look for nothing.
        activate: names to activate.
        reset: deactivate what was activated.

    Returns:
        What is known after it, and what it gave; None where the policy is off.

    >>> policy = {"enabled": True, "alwaysActive": [], "disabled": []}
    >>> known = Gateway(policy, ({"name": "read"}, {"name": "web"}))
    >>> known, called = call(known, activate=["web", "nope"])
    >>> known.active, called.added, called.unknown
    (('lazy', 'read', 'web'), ['web'], ['nope'])
    """
    if not known.policy["enabled"]:
        return known, None
    registered = known_tools(known.tools)
    known = evolve(known, wanted=tuple(n for n in known.wanted if n in registered))
    if reset:
        known = _apply(evolve(known, wanted=()))
    elif names := [*activate]:
        return _activate(known, names)
    elif search is not None:
        left_out = known.disabled.union(known.fixed)
        return known, Called(matches=find_tools(known.tools, search, left_out))
    return known, Called(status=status(known))
