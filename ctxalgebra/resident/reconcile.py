"""Reconcile: from the policy and what is there to the next list of active tools, purely.

Theory of operation
-------------------
Tools stand in front of everything, so the list only grows at its end. Only this leaves it, and
each time the caller has a break to declare: a tool that is no longer registered, one that is
disabled, and one whose activation was taken back. A tool that somebody else put there is not ours
to take, also where it is not registered here, unless it is disabled. The one exception is the
start, before anything was sent: there the list shrinks to what the policy wants, and everything
else is held back until it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, cast, get_args

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_text, mistyped
from ctxalgebra.model.head import Route
from ctxalgebra.resident.policy import ToolPolicy, for_route

__all__ = ["By", "Kind", "Reconciled", "check_by", "discoverable", "reconcile", "texts"]

Kind = Literal["initial", "native-candidate", "fallback", "no-op"]
"""What an update is: see `Reconciled`."""

By = Literal["start", "model", "host"]
"""Who asks for an update."""


def check_by(by: object) -> None:
    """Refuse what says of nobody that they asked: `invalid-argument`."""
    if not isinstance(by, str) or by not in get_args(By):
        text = f"by is one of {', '.join(get_args(By))}"
        raise InvalidArgument("invalid-argument", text, field="by")


def texts(values: object, where: str) -> tuple[str, ...]:
    """Take texts in order; a text by itself is no list of texts.

    Raises:
        InvalidArgument: `wrong-type`, `lone-surrogate`; `field` is `where`.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise mistyped(values, "an iterable of texts", where)
    listed = tuple(cast("Iterable[object]", values))
    for value in listed:
        check_text(value, where)
    return cast("tuple[str, ...]", listed)


@frozen
class Reconciled:
    """Hold the next active tools.

    Args:
        active: names in order.
        kind: `no-op`, they are as before, and nothing is to be done; `initial`, the start set;
            `native-candidate`, the model asked for tools that only come behind what was there, so
            a provider that loads tools at a result need not see another head; `fallback`, any
            other change.
    """

    active: tuple[str, ...]
    kind: Kind


def discoverable(
    policy: ToolPolicy, registered: Iterable[str], route: Route | None = None
) -> tuple[str, ...]:
    """List the tools that may be found and activated, the active ones too, in their order.

    Gateways, disabled tools and those that somebody else switches are none of them.

    Raises:
        InvalidArgument: `wrong-type`, `lone-surrogate`.

    >>> discoverable(ToolPolicy(disabled=("rm",)), ["lazy", "rm", "web"])
    ('web',)
    """
    known = for_route(policy, route)
    hidden = {*known.gateways, *known.disabled, *known.externally_managed}
    return tuple(dict.fromkeys(n for n in texts(registered, "registered") if n not in hidden))


def reconcile(
    policy: ToolPolicy,
    registered: Iterable[str],
    active: Iterable[str],
    activated: Iterable[str] = (),
    model: Route | None = None,
    *,
    released: Iterable[str] = (),
    others: Iterable[str] = (),
    by: By = "host",
) -> Reconciled:
    """Say which tools are active next.

    Args:
        policy: as it is configured.
        registered: names of all tools, in the order of the registry.
        active: names of the active ones, in order.
        activated: names that were activated through a gateway, in the recorded order; those that
            may not be are passed over.
        model: where requests go.
        released: names whose activation was taken back.
        others: names that somebody else put into the head: they stay there whether or not they are
            registered.
        by: `start` before anything was sent; `model` where the model itself activated tools.

    Raises:
        InvalidArgument: `invalid-argument`, `by` is none of these; `wrong-type`; `lone-surrogate`.

    The rule is that of the tool-policy specification, B1 and B2, and of its consequences.

    >>> policy = ToolPolicy(core=("read", "bash"))
    >>> tools = ["bash", "read", "web", "zip", "lazy"]
    >>> reconcile(policy, tools, ["read", "bash", "web"], by="start")
    Reconciled(active=('read', 'bash', 'lazy'), kind='initial')
    >>> reconcile(policy, tools, ["read", "bash", "lazy"], ["zip"], by="model")
    Reconciled(active=('read', 'bash', 'lazy', 'zip'), kind='native-candidate')
    >>> reconcile(policy, tools, ["read", "bash", "lazy", "other"]).kind
    'fallback'
    """
    check_by(by)
    known = for_route(policy, model)
    names = dict.fromkeys(texts(registered, "registered"))
    before = texts(active, "active")
    there = {*names, *texts(others, "others")}
    gateways = dict.fromkeys(known.gateways)
    refused = {*known.disabled} - gateways.keys()
    external = {*known.externally_managed}
    if not known.enabled:
        kept = [name for name in before if name in there and name not in refused]
        after = tuple(dict.fromkeys(kept))
        return Reconciled(after, "no-op" if after == before else "fallback")
    lasting = {*gateways, *known.library, *known.always_active}
    wanted = [name for name in texts(activated, "activated") if name not in external]
    gone = {*texts(released, "released")} - lasting - {*wanted} - {*known.core} - external
    held = gone
    if by == "start":
        held = names.keys() - lasting - {*wanted} - {*known.core} - external
    kept = [name for name in before if name in there and name not in held]
    added = [*gateways, *known.library, *known.always_active, *wanted]
    after = tuple(
        name
        for name in dict.fromkeys([*kept, *(name for name in added if name in names)])
        if name not in refused
    )
    if after == before:
        return Reconciled(after, "no-op")
    if by == "start":
        return Reconciled(after, "initial")
    grown = after[: len(before)] == before and {*after[len(before) :]} <= {*wanted}
    return Reconciled(after, "native-candidate" if by == "model" and grown else "fallback")
