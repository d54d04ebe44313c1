"""What stands in the head of each request, what changes it, and what the change costs.

Two figures tell the price of a change. `rebilled` is what is declared, by the rule of `account`:
what the request holds that the one before held too, and the whole new head. `billed` is what the
cache model did not read of that: less, where an older prefix of the same request is still cached.

What a provider loads at a tool result is no part of the head, but it is sent in each request all
the same. It is measured where it comes to stand: behind the text of that result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from attrs import evolve, frozen

from ctxalgebra.breakpoints import Placed, plan_breakpoints
from ctxalgebra.heads import Change, head_drift
from ctxalgebra.loading import Deferred, immediate, loads
from ctxalgebra.model.checks import check_callable, check_items, check_type, mistyped
from ctxalgebra.model.head import Head, Tool
from ctxalgebra.model.parts import Text
from ctxalgebra.model.session import Session, path
from ctxalgebra.model.view import Measure, View, weigh
from ctxalgebra.project import Request, project
from ctxalgebra.replay.cache import cache_named
from ctxalgebra.replay.layout import Cache
from ctxalgebra.replay.replay import leaves_at, resend
from ctxalgebra.resident.activation import activated_by, activated_tools, deferred_tools
from ctxalgebra.resident.policy import ToolPolicy
from ctxalgebra.resident.reconcile import By, Kind, discoverable
from ctxalgebra.tokens import chars4
from ctxalgebra.transforms.pipeline import Stage, pipeline

__all__ = ["Residency", "Resident", "named_tools", "resident_head", "weigh_heads"]


_EVERYTHING: Stage = pipeline()
_OPEN = ToolPolicy()


@frozen
class Resident:
    """Tell of the head in one request; tokens are those of the measure.

    Args:
        request: index of the request.
        names: of the tools in the head, in order.
        system: tokens of the system text, `tools` of the tools in the head.
        held: tokens of the tools that are held back: there are such, but not in this request.
        loaded: names of the tools that were loaded at a result, behind the head; `behind` their
            tokens. They are sent as long as that result is, also when they are given back.
        activated, gone: names of the tools that can be called since the request before, and that
            can't be any more.
        kind: what became of the tools, in the words of `Reconciled`.
        changes: what differs from the head of the request before.
        rebilled: tokens that had been sent and stand behind a change of the head, the head itself
            included; 0 where it is as it was.
        billed: of what had been sent, the tokens that the cache model did not read, where tools or
            head changed.
    """

    request: int
    names: tuple[str, ...]
    system: int
    tools: int
    held: int
    loaded: tuple[str, ...] = ()
    behind: int = 0
    activated: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    kind: Kind = "no-op"
    changes: tuple[Change, ...] = ()
    rebilled: int = 0
    billed: int = 0


@frozen
class Residency:
    """Tell of the head in all requests of a replay.

    Args:
        requests: one for each, in order.
        input: tokens of all requests.
        cost: hundredths of the price of one input token.
    """

    requests: tuple[Resident, ...]
    input: int
    cost: int

    @property
    def stated(self) -> bool:
        """Whether there is a system text or a tool in any of them."""
        return any(one.system or one.names for one in self.requests)

    @property
    def activations(self) -> tuple[Resident, ...]:
        """The requests that tools came to, but for the first."""
        return tuple(one for one in self.requests if one.activated)

    @property
    def drift(self) -> tuple[Resident, ...]:
        """The requests whose head is not that of the one before."""
        return tuple(one for one in self.requests if one.changes)

    @property
    def resident(self) -> int:
        """Tokens of the tools in all requests, those behind the head included."""
        return sum(one.tools + one.behind for one in self.requests)


def named_tools(recorded: Session) -> dict[str, Tool]:
    """Map the names of the tools that any head on the path has to the first of each name.

    >>> from ctxalgebra import record
    >>> list(named_tools(record(Session(), Head(tools=(Tool("a"),)), Head(tools=(Tool("b"),)))))
    ['a', 'b']
    """
    found: dict[str, Tool] = {}
    for node in path(recorded):
        for tool in node.entry.tools if isinstance(node.entry, Head) else ():
            found.setdefault(tool.name, tool)
    return found


class _Before(NamedTuple):
    """The request before: what is told of it, what it was told from, its entry number.

    Fields: `able`, the names of the tools that can be called.
    """

    told: Resident
    head: Head
    behind: tuple[Tool, ...]
    able: tuple[str, ...]
    number: int


def _definition(tool: Tool) -> Text:
    """What the model reads of a tool, for the measure."""
    return Text(f"{tool.name}{tool.description}{tool.schema}")


def _with(request: Request, loaded: tuple[Deferred, ...]) -> Request:
    """Show what the provider loads at results."""
    if not loaded:
        return request
    messages = list(request.messages)
    for one in loaded:
        known = messages[one.index]
        messages[one.index] = evolve(known, parts=(*known.parts, _definition(one.tool)))
    return Request(request.head, tuple(messages))


@frozen
class _Weigher:
    """Says what stands in a head, and what is held back from it."""

    registered: tuple[Tool, ...]
    policy: ToolPolicy
    measure: Measure

    def stands(self, index: int, head: Head, behind: tuple[Tool, ...]) -> Resident:
        seen = immediate(head)
        total = weigh(self.measure, seen)
        tools = weigh(self.measure, evolve(seen, system=""))
        names = tuple(tool.name for tool in seen.tools)
        may = discoverable(self.policy, (tool.name for tool in self.registered), head.route)
        away = frozenset(may) - {*names} - {tool.name for tool in behind}
        held = tuple(tool for tool in self.registered if tool.name in away)
        return Resident(
            index,
            names,
            total - tools,
            tools,
            weigh(self.measure, Head(tools=held)),
            tuple(tool.name for tool in behind),
            weigh(self.measure, Head(tools=behind)),
        )


def _kind(before: tuple[str, ...], now: tuple[str, ...], wanted: Iterable[str], by: By) -> Kind:
    """Say what became of the tools."""
    if now == before:
        return "no-op"
    grown = now[: len(before)] == before and {*now[len(before) :]} <= {*wanted}
    return "native-candidate" if by == "model" and grown else "fallback"


def _changed(
    told: Resident, head: Head, able: tuple[str, ...], before: _Before, session: Session
) -> Resident:
    """Say what differs from the request before."""
    had = before.able
    return evolve(
        told,
        activated=tuple(name for name in able if name not in had),
        gone=tuple(name for name in had if name not in able),
        kind=_kind(had, able, activated_tools(session), activated_by(session)),
        changes=head_drift(before.head, head),
    )


def _behind(request: Request, loaded: tuple[Deferred, ...]) -> tuple[Tool, ...]:
    """List what the provider loads; heads that were read from requests may hold deferred tools."""
    held = loads(request.head, request.messages)
    return tuple(tool for tools in held.values() for tool in tools) + tuple(
        one.tool for one in loaded
    )


def _known(request: Request, view: View, sent: int, measure: Measure) -> int:
    """Measure the head and what was recorded before the request before left."""
    numbers, loaded = view.slots.numbers, loads(request.head, request.messages)
    total = weigh(measure, immediate(request.head))
    for index, message in enumerate(request.messages):
        if numbers[index] < sent:
            total += weigh(measure, message)
            total += weigh(measure, Head(tools=loaded[index])) if index in loaded else 0
    return total


def resident_head(
    recorded: Session,
    settle: Stage = _EVERYTHING,
    *,
    policy: ToolPolicy = _OPEN,
    registered: tuple[Tool, ...] | None = None,
    deferred: bool = False,
    cache: Cache[Any] | None = None,
    planned: bool = False,
    measure: Measure = chars4,
) -> Residency:
    """Replay a recorded session and tell of the head in each request (a query).

    Heads are events, so they are what was recorded, unless the stage changes them.

    Args:
        recorded: read along its path, never changed.
        settle: runs before each request, as in a `Plan`.
        policy: says which tools may be found at all; nothing is done by it.
        registered: all tools that there are; by default those that the recorded heads ever name.
        deferred: the provider loads at a tool result what the model activates there.
        cache: a model of the provider's cache, `ideal` by default.
        planned: as in `replay`.
        measure: tokens of a message or head.

    Raises: what the stage raises.
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Route, assistant, record, reply, send, user
    >>> read, web = Tool("read", "r" * 34), Tool("web", "w" * 35)
    >>> session, _ = send(record(Session(), Head(tools=(read,)), user("x" * 40)))
    >>> session = reply(session, "completed", assistant("done"))
    >>> session, _ = send(record(session, Head(tools=(read, web)), user("Go on.")))
    >>> told = resident_head(reply(session, "completed", assistant("done")))
    >>> [(one.tools, one.held, one.activated, one.kind, one.rebilled) for one in told.requests]
    [(10, 10, (), 'initial', 0), (20, 0, ('web',), 'fallback', 30)]
    """
    if registered is None:
        registered = tuple(named_tools(recorded).values())
    return weigh_heads(
        resend(recorded, settle),
        registered=registered,
        policy=policy,
        deferred=deferred,
        cache=cache,
        planned=planned,
        measure=measure,
    )


def weigh_heads(
    sessions: Iterable[Session],
    *,
    registered: tuple[Tool, ...],
    policy: ToolPolicy,
    deferred: bool,
    cache: Cache[Any] | None,
    planned: bool,
    measure: Measure,
) -> Residency:
    """Tell of the heads of sessions as each request leaves; see `resident_head`."""
    check_callable(measure, "measure")
    model: Cache[Any] = cache_named("ideal", measure) if cache is None else cache
    if not isinstance(cast("object", model), Cache):
        raise mistyped(model, "a model of a cache", "cache")
    check_type(policy, ToolPolicy, "policy")
    check_items(registered, Tool, "registered")
    for name, value in (("deferred", deferred), ("planned", planned)):
        check_type(value, bool, name)
    weigher = _Weigher(registered, policy, measure)
    state: Any = model.start
    placed: Placed | None = None
    clock: int | None = None
    before: _Before | None = None
    found: list[Resident] = []
    total = cost = 0
    for session in sessions:
        view, request = session.view, project(session)
        loaded = deferred_tools(session, policy=policy, registered=registered) if deferred else ()
        behind = _behind(request, loaded)
        given_back = {one.tool.name for one in loaded if not one.active}
        tools = (*immediate(view.head).tools, *behind)
        able = tuple(tool.name for tool in tools if tool.name not in given_back)
        request = _with(request, loaded)
        profile = model.profile(request.head.route)
        placed = (
            plan_breakpoints(placed, request, profile, measure=measure)
            if planned
            else model.place(request)
        )
        time = leaves_at(session, clock)
        clock = clock if time is None else time
        state, outcome = model.take(state, placed, time=time, began=time)
        total += outcome.tokens
        cost += outcome.cost
        if before is None:
            told = weigher.stands(0, view.head, behind)
            told = evolve(told, kind="initial" if told.names else "no-op")
        elif (view.head, behind, able) == (before.head, before.behind, before.able):
            told = evolve(
                before.told, request=len(found), activated=(), gone=(), kind="no-op", changes=(),
                rebilled=0, billed=0,
            )  # fmt: skip
        else:
            told = weigher.stands(len(found), view.head, behind)
            told = _changed(told, view.head, able, before, session)
            if told.changes or told.kind != "no-op":
                known = _known(request, view, before.number, measure)
                rebilled = known if told.changes else 0
                told = evolve(told, rebilled=rebilled, billed=max(0, known - outcome.read))
        found.append(told)
        before = _Before(told, view.head, behind, able, view.flight)
    return Residency(tuple(found), total, cost)
