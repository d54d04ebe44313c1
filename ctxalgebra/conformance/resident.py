"""Of the area `kernel`: which tools are resident, what is activated, and what a query finds."""

from __future__ import annotations

from typing import Any, Literal, cast

from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.model.head import Route
from ctxalgebra.model.session import Session
from ctxalgebra.resident import activation, discovery
from ctxalgebra.resident import reconcile as reconciled
from ctxalgebra.resident.index import Capability, Index
from ctxalgebra.resident.policy import tool_policy

__all__ = ["OPERATIONS"]


def reconcile(
    *,
    layers: list[Any],
    registered: list[str],
    active: list[str],
    activated: list[str] | None = None,
    released: list[str] | None = None,
    model: dict[str, str] | None = None,
    by: str = "host",
) -> Any:
    """Say which tools are active next."""
    route = None if model is None else Route(model.get("provider", ""), model.get("id", ""))
    told = reconciled(
        tool_policy(*layers),
        registered,
        active,
        activated or (),
        route,
        released=released or (),
        by=cast("Literal['start', 'model', 'host']", by),
    )
    return {"active": list(told.active), "kind": told.kind}


def activated(*, journal: Session) -> Any:
    """List what is activated at the leaf."""
    return list(activation.activated_tools(journal))


def _capability(given: dict[str, Any]) -> Capability:
    known = {"name", "description", "kind", "keywords"}
    if given.keys() - known or "name" not in given:
        raise InvalidInput(f"capabilities: expected {', '.join(sorted(known))}")
    members = dict(given)
    keywords: Any = members.pop("keywords", [])
    if not isinstance(keywords, list):
        raise InvalidInput("capabilities: keywords is a list")
    return Capability(**members, keywords=tuple(cast("list[str]", keywords)))


def rank(
    *, capabilities: list[dict[str, Any]], query: str, ranking: str = "default", most: int = 8
) -> Any:
    """List the names that a query finds, the best first."""
    index = Index(tuple(map(_capability, capabilities)))
    found = discovery.rank(index, query, ranking=ranking, most=most)
    return [one.capability.name for one in found]


OPERATIONS = collect("kernel", reconcile, activated, rank)
"""The operations by name."""
