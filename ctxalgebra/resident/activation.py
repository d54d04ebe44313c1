"""Activation: what was activated is a note in the journal, and a stage brings the head in line.

Theory of operation
-------------------
`activate` and `reset` record a wish: a note `active-tools` with a snapshot of all names that are
activated. So it holds on this path from here on, whatever process goes on with it, and travelling
takes it back: what stands in the head since it was activated, here or on another branch, leaves
when the snapshot at the leaf does not name it. What somebody else put there stays. `resident_tools`
applies it: a new `Head` with the tools at the end of the list, which is a break at the head, and
its price is that of the whole request (`worth_activating` tells it beforehand). Where the provider
can load a tool at a tool result (`deferred`), the head stays as it is, nothing is billed again, and
the adapter sends what `deferred_tools` lists. Before that is sent for the first time, its
definition is recorded, and as recorded it is sent from then on, whatever the registry says. When
that result is cut or dropped, which is a break, the tool moves into the head with it. What was
loaded stays loaded while its result is shown, also when the activation is taken back: the reference
stands in what was sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import cast

from attrs import evolve, frozen

from ctxalgebra.account import split
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.ledger import CACHED, WRITTEN
from ctxalgebra.loading import Deferred
from ctxalgebra.model.checks import check_each, check_items, check_type
from ctxalgebra.model.entries import Sent
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Head, Tool
from ctxalgebra.model.session import Fold, Session, check_session, fold
from ctxalgebra.model.view import HEAD, Measure, step, weigh
from ctxalgebra.resident.policy import ToolPolicy, for_route
from ctxalgebra.resident.reconcile import (
    By,
    Reconciled,
    check_by,
    discoverable,
    reconcile,
    texts,
)
from ctxalgebra.resident.snapshots import (
    KNOWN,
    NOTE,
    OWNED,
    Point,
    loaded,
    loading,
    read_snapshot,
    snapshot,
)
from ctxalgebra.tokens import ceil_div, chars4, check_positive

_Tools = tuple[Tool, ...]

__all__ = [
    "NOTE",
    "Deferred",
    "HeldBack",
    "Worth",
    "activate",
    "activated_by",
    "activated_tools",
    "active_tools",
    "deferred_tools",
    "held_back",
    "plan_tools",
    "read_snapshot",
    "reset",
    "resident_tools",
    "snapshot",
    "worth_activating",
]


def activated_tools(session: Session) -> tuple[str, ...]:
    """List the names that are activated on this path, in order, as the last valid snapshot says.

    Snapshots of older versions may hold more; what is no snapshot is passed over.

    >>> from ctxalgebra import Note, Session, record
    >>> activated_tools(record(Session(), snapshot(["web"]), Note("active-tools", "broken")))
    ('web',)
    """
    return fold(session, KNOWN).activated


def activated_by(session: Session) -> By:
    """Say who asked for the last snapshot on this path: the model or the host.

    >>> from ctxalgebra import Session, record
    >>> activated_by(record(Session(), snapshot(["web"], by="model")))
    'model'
    """
    return "model" if fold(session, KNOWN).by_model else "host"


def active_tools(
    session: Session,
    *,
    policy: ToolPolicy | None = None,
    registered: tuple[Tool, ...] | None = None,
) -> tuple[str, ...]:
    """List the names of the tools that the model can call (a query).

    Without a policy these are the ones of the next request as the session stands: those in the
    head, then what was loaded at a result that is shown and not taken back. With a policy they are
    those in the head and those that are activated, as far as `resident_tools` leaves or makes them
    active: so nothing that is disabled, not registered, or only named by a note; but also what has
    to wait for the end of an open tool loop (rule V-A7).

    Args:
        policy, registered: as for `resident_tools`, both or none.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, record
    >>> session = record(Session(), Head(tools=(Tool("read"),)), snapshot(["web", "evil"]))
    >>> active_tools(session)
    ('read',)
    >>> options = {"policy": ToolPolicy(core=("read",)), "registered": (Tool("read"), Tool("web"))}
    >>> active_tools(session, **options)
    ('read', 'web')
    """
    check_session(session)
    standing, wanted = [tool.name for tool in session.head.tools], activated_tools(session)
    if policy is None and registered is None:
        behind = (p.name for p in loaded(session) if p.tool is not None and p.name in wanted)
        return tuple(dict.fromkeys([*standing, *behind]))
    check_type(policy, ToolPolicy, "policy")
    check_items(registered, Tool, "registered")
    tools = cast("_Tools", registered)
    allowed = {*plan_tools(session, policy=cast("ToolPolicy", policy), registered=tools).active}
    return tuple(name for name in dict.fromkeys([*standing, *wanted]) if name in allowed)


def activate(
    session: Session,
    names: Iterable[str],
    *,
    policy: ToolPolicy,
    registered: tuple[Tool, ...],
    by: By = "host",
) -> Session:
    """Activate tools: record that they are wanted from here on (an event).

    Names that may not be activated, or are active, are passed over; where none is left the session
    comes back as it is. `resident_tools` applies it.

    Args:
        names: in the order in which they come.
        policy: as it is configured.
        registered: all tools that there are.
        by: `model` where the model itself asked.

    Records: a note with the snapshot.

    Raises:
        InvalidArgument: `wrong-type`; `lone-surrogate`; `invalid-argument`, `by` is none of these.

    >>> from ctxalgebra import Session
    >>> tools = (Tool("web"), Tool("zip"))
    >>> session = activate(Session(), ["zip", "nope"], policy=ToolPolicy(), registered=tools)
    >>> activated_tools(session)
    ('zip',)
    """
    check_session(session)
    check_items(registered, Tool, "registered")
    names = texts(names, "names")
    check_by(by)
    found = discoverable(policy, (tool.name for tool in registered), session.head.route)
    allowed = frozenset(found) - {tool.name for tool in session.head.tools}
    wanted = activated_tools(session)
    fresh = [n for n in dict.fromkeys(names) if n in allowed and n not in wanted]
    if not fresh or not for_route(policy, session.head.route).enabled:
        return session
    theirs = _others(session, policy, registered)
    return record(session, snapshot([*wanted, *fresh], by=by, others=theirs))


def reset(session: Session) -> Session:
    """Take all activations back (an event); `resident_tools` takes the tools out of the head.

    Records: a note with the empty snapshot, where something is activated.

    >>> from ctxalgebra import Session, record
    >>> activated_tools(reset(record(Session(), snapshot(["web"]))))
    ()
    """
    return record(session, snapshot(())) if activated_tools(session) else session


def _others(session: Session, policy: ToolPolicy, registered: _Tools) -> tuple[str, ...]:
    """List what somebody else put into the head, in its order.

    Before anything was chosen that is what is not registered.
    """
    standing, owned = tuple(tool.name for tool in session.head.tools), fold(session, OWNED)
    if not owned.started:
        names = {tool.name for tool in registered}
        return tuple(name for name in standing if name not in names)
    known = for_route(policy, session.head.route)
    ours = {*known.gateways, *known.library, *known.always_active}
    return tuple(name for name in standing if name in owned.others and name not in ours)


def plan_tools(
    session: Session, *, policy: ToolPolicy, registered: tuple[Tool, ...], deferred: bool = False
) -> Reconciled:
    """Say what `resident_tools` would make of the tools, and of which kind that is (a query).

    Args:
        policy, registered, deferred: as there.

    >>> from ctxalgebra import Session
    >>> plan_tools(Session(), policy=ToolPolicy(), registered=(Tool("web"), Tool("lazy")))
    Reconciled(active=('lazy',), kind='initial')
    """
    check_session(session)
    check_items(registered, Tool, "registered")
    check_type(deferred, bool, "deferred")
    known, view = fold(session, KNOWN), session.view
    names = [tool.name for tool in registered]
    may = frozenset(discoverable(policy, names, view.head.route))
    by_name = {tool.name: tool for tool in registered}
    behind = {p.name for p in loaded(session) if _stands(p, by_name)} if deferred else ()
    activated = tuple(name for name in known.activated if name in may and name not in behind)
    owned = fold(session, OWNED)
    by: By = "model" if known.by_model else "host"
    if view.sent is None and not owned.started:
        by = "start"
    active = tuple(tool.name for tool in view.head.tools)
    released = owned.ever - {*known.activated} - owned.others
    others = _others(session, policy, registered)
    route = view.head.route
    return reconcile(
        policy, names, active, activated, route, released=released, others=others, by=by
    )


def _same(old: Tool, new: Tool) -> bool:
    """Say whether a tool is what it was, its schema aside from white space and order of keys."""
    if old.description != new.description:
        return False
    if old.schema == new.schema:
        return True
    try:
        # As texts, since `true` is no 1.
        told = [json.dumps(json.loads(tool.schema), sort_keys=True) for tool in (old, new)]
    except (ValueError, RecursionError):
        return False
    return told[0] == told[1]


def _stands(point: Point, registered: Mapping[str, Tool]) -> bool:
    """Say whether what was loaded there is what is registered, as far as that is known."""
    new = registered.get(point.name)
    return point.tool is None or new is None or _same(point.tool, new)


def _freeze(session: Session, registered: Mapping[str, Tool]) -> Session:
    """Record what is about to be loaded for the first time at results that are shown."""
    standing, slot = {tool.name for tool in session.head.tools}, session.view.slot
    names = [p.name for p in loaded(session) if not p.settled and p.at >= 0 and slot(p.at) >= 0]
    fresh = {name: registered.get(name) for name in names if name not in standing}
    return record(session, loading(fresh)) if fresh else session


def resident_tools(
    session: Session, *, policy: ToolPolicy, registered: tuple[Tool, ...], deferred: bool = False
) -> Session:
    """Bring the tools of the head in line with the policy and with what is activated (a stage).

    Before the first request the list shrinks to the start set. From then on it only grows at its
    end, but for tools that are disabled, gone, or whose activation was taken back. A tool whose
    schema only has another order of keys or white space stays as it was sent. Where nothing
    changes, nothing is recorded. While a request is in flight, or the change would take the
    thinking of an open tool loop (rule V-A7), it waits.

    What is loaded at a result stays as it was sent. Where the registry has another description or
    schema for it, and it is still wanted, it moves into the head, which is a declared break; where
    the registry has lost it, it is sent as before, and may not be called.

    Args:
        policy: as it is configured; the head's route says for which model.
        registered: all tools that there are, in the order of the registry.
        deferred: the provider loads tools at a tool result, so what the model activated stays out
            of the head (`deferred_tools`) as long as that result is shown.

    Reads: the head, notes. Records: a `Head`, which is a declared break once something was sent;
    at the start a note; a note with each definition that is loaded for the first time.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, record
    >>> tools = (Tool("read"), Tool("web"), Tool("lazy"))
    >>> session = record(Session(), Head(tools=tools[:2]))
    >>> policy = ToolPolicy(core=("read",))
    >>> session = resident_tools(session, policy=policy, registered=tools)
    >>> [tool.name for tool in session.head.tools]
    ['read', 'lazy']
    >>> resident_tools(session, policy=policy, registered=tools) is session
    True
    """
    planned = plan_tools(session, policy=policy, registered=registered, deferred=deferred)
    view = session.view
    if view.flight >= 0:
        return session
    by_name = {tool.name: tool for tool in registered}
    standing = {tool.name: tool for tool in view.head.tools}
    tools: list[Tool] = []
    for name in planned.active:
        new, old = by_name.get(name), standing.get(name)
        kept = old is not None and (new is None or _same(old, new))
        tools.append(cast("Tool", old if kept else new))
    changed = tuple(tools) != view.head.tools
    if not (changed and view.states_head() and view.holds_loop(HEAD)):
        on = for_route(policy, view.head.route).enabled
        if on and view.sent is None and not fold(session, OWNED).started:
            theirs = _others(session, policy, registered)
            session = record(session, snapshot(activated_tools(session), others=theirs))
        if changed:
            session = record(session, evolve(session.head, tools=tuple(tools)))
    return _freeze(session, by_name) if deferred else session


def deferred_tools(
    session: Session, *, policy: ToolPolicy, registered: tuple[Tool, ...]
) -> tuple[Deferred, ...]:
    """List the tools that a provider loads behind the head, in order (a query).

    These are the ones that the model asked for, as long as the result that answered it is shown,
    and no others: a tool that may not be called any more is listed as not `active`, since the
    reference to it stands in what was sent. Each is as it was sent first, which `resident_tools`
    recorded; where it did not, as it is registered. Ask it of the session that gave the request,
    and give it to `encode_request` of a codec whose API can do it (provider rules 1.2, V-A8).

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, ToolCall, assistant, record, tool_result, user
    >>> session = record(Session(), user("a"), assistant(ToolCall("c1", "lazy")))
    >>> session = record(session, snapshot(["web"], by="model"), tool_result("c1", "Activated."))
    >>> told = deferred_tools(session, policy=ToolPolicy(), registered=(Tool("web"),))
    >>> [(one.tool.name, one.at, one.index) for one in told]
    [('web', 3, 2)]
    """
    check_session(session)
    check_items(registered, Tool, "registered")
    view, known = session.view, for_route(policy, session.head.route)
    by_name: Mapping[str, Tool] = {tool.name: tool for tool in registered}
    may = frozenset(discoverable(policy, by_name, view.head.route)) if known.enabled else ()
    wanted = frozenset(activated_tools(session)).intersection(may)
    standing = {tool.name for tool in view.head.tools}
    found: list[Deferred] = []
    for point in loaded(session):
        tool = point.tool or by_name.get(point.name)
        if tool is not None and point.name not in standing:
            index = view.slot(point.at) if point.at >= 0 else -1
            found.append(Deferred(tool, point.at, index, point.name in wanted))
    return tuple(found)


@frozen
class HeldBack:
    """Weigh what is held back, in tokens of each request.

    Args:
        tokens: of the tools that are not in the head.
        gateways: of the gateways that stand in it for them.
    """

    tokens: int
    gateways: int

    @property
    def pays(self) -> bool:
        """Whether holding tools back makes requests smaller at all."""
        return self.tokens > self.gateways


def held_back(
    session: Session,
    *,
    policy: ToolPolicy,
    registered: tuple[Tool, ...],
    measure: Measure = chars4,
) -> HeldBack:
    """Weigh the tools that are held back against the gateways that find them (a query).

    Args:
        policy, registered: as for `resident_tools`.
        measure: tokens of a head.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, record
    >>> gateway, web = Tool("lazy", "x" * 94), Tool("web", "x" * 995)
    >>> session = record(Session(), Head(tools=(gateway,)))
    >>> held_back(session, policy=ToolPolicy(), registered=(gateway, web))
    HeldBack(tokens=250, gateways=25)
    """
    check_session(session)
    check_items(registered, Tool, "registered")
    known = for_route(policy, session.head.route)
    active = frozenset(active_tools(session, policy=policy, registered=registered))
    may = frozenset(discoverable(policy, (tool.name for tool in registered), session.head.route))
    held = tuple(tool for tool in registered if tool.name in may - active)
    standing = tuple(tool for tool in session.head.tools if tool.name in known.gateways)
    return HeldBack(weigh(measure, Head(tools=held)), weigh(measure, Head(tools=standing)))


@frozen
class Worth:
    """Weigh an activation, in tokens and in hundredths of the price of an input token.

    Args:
        tokens: what the tools add to each request.
        rebilled: what the next request sends anew since the head differs; the price of the break.
        price: of the activation: what is sent anew at the price of writing instead of reading.
        saved: what holding the tools back has saved so far on this path.
        break_even: after how many requests without the tools holding them back has paid that
            price; None where they weigh nothing.
    """

    tokens: int
    rebilled: int
    price: int
    saved: int
    break_even: int | None

    @property
    def paid(self) -> bool:
        """Whether holding the tools back has saved at least what activating them costs now."""
        return self.saved >= self.price


_REQUESTS: Fold[int] = Fold("requests", 0, lambda known, _node, _view: known + 1, reads=(Sent,))


def worth_activating(
    session: Session,
    tools: tuple[Tool, ...],
    *,
    deferred: bool = False,
    measure: Measure = chars4,
    cached: int = CACHED,
    written: int = WRITTEN,
) -> Worth:
    """Tell what activating tools now costs, against what holding them back has saved (a query).

    Args:
        tools: what would stand in the head.
        deferred: the provider loads tools at a tool result: then nothing is sent anew.
        measure: tokens of a message or head.
        cached, written: prices of a token that is read from the cache, and that is written to it.

    Reads: the view, and how many requests were sent. `rebilled` is the number that
    `account` gives the break, should the next request leave at once.

    Raises:
        InvalidArgument: `invalid-argument`, a price that is no positive integer; `wrong-type`.

    >>> from ctxalgebra import Session, assistant, record, reply, send, user
    >>> session, _ = send(record(Session(), user("x" * 4000)))
    >>> session = reply(session, "completed", assistant("done"))
    >>> worth_activating(session, (Tool("web", "x" * 395),))
    Worth(tokens=100, rebilled=1100, price=126500, saved=12500, break_even=115)
    """
    check_session(session)
    check_each(tools, Tool, "tools")
    check_type(deferred, bool, "deferred")
    check_positive(cached=cached, written=written)
    if written < cached:
        text = "what is written costs no less than what is read"
        raise InvalidArgument("invalid-argument", text, field="written")
    view, number = session.view, len(session)
    standing = {tool.name for tool in view.head.tools}
    grown = (*view.head.tools, *(tool for tool in tools if tool.name not in standing))
    head = evolve(view.head, tools=grown)
    tokens = weigh(measure, head) - weigh(measure, view.head)
    rebilled = 0
    if head.tools != view.head.tools and not deferred:
        after = step(step(view, number, head), number + 1, Sent())
        rebilled = split(after, measure)[1]
    price = rebilled * (written - cached)
    requests = fold(session, _REQUESTS)
    saved = tokens * (written + cached * (requests - 1)) if requests else 0
    needed = 0 if not price else None
    if price and tokens > 0:
        # The first request without them saves what writing them costs, each other one a reading.
        needed = 1 + ceil_div(max(0, price - tokens * written), tokens * cached)
    return Worth(tokens, rebilled, price, saved, needed)
