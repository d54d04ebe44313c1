"""What is resident: which tools stand in the head, and how the others are found and activated."""

from ctxalgebra.loading import Deferred
from ctxalgebra.resident.activation import (
    HeldBack,
    Worth,
    activate,
    activated_tools,
    active_tools,
    deferred_tools,
    held_back,
    plan_tools,
    reset,
    resident_tools,
    worth_activating,
)
from ctxalgebra.resident.discovery import RANKINGS, Found, rank
from ctxalgebra.resident.index import Capability, Index, capabilities, indexed
from ctxalgebra.resident.policy import (
    LIBRARY,
    Conflict,
    ToolPolicy,
    conflicts,
    for_route,
    tool_policy,
)
from ctxalgebra.resident.reconcile import Reconciled, discoverable, reconcile
from ctxalgebra.resident.respond import FIND_CAPABILITY, LAZY, TOOL_SEARCH, respond_discovery
from ctxalgebra.resident.snapshots import LOADED, NOTE, snapshot

__all__ = [
    "FIND_CAPABILITY",
    "LAZY",
    "LIBRARY",
    "LOADED",
    "NOTE",
    "RANKINGS",
    "TOOL_SEARCH",
    "Capability",
    "Conflict",
    "Deferred",
    "Found",
    "HeldBack",
    "Index",
    "Reconciled",
    "ToolPolicy",
    "Worth",
    "activate",
    "activated_tools",
    "active_tools",
    "capabilities",
    "conflicts",
    "deferred_tools",
    "discoverable",
    "for_route",
    "held_back",
    "indexed",
    "plan_tools",
    "rank",
    "reconcile",
    "reset",
    "resident_tools",
    "respond_discovery",
    "snapshot",
    "tool_policy",
    "worth_activating",
]
