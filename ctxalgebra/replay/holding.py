"""What a session would have cost with its tools held back: the same events under a tool policy.

What is registered are the tools that the recorded heads ever name, in the order in which they first
stand there, and a gateway where the policy has one that is known here. The heads keep their route
and system text; which tools stand in them the policy says (`resident_tools`).

A recorded call of a tool that is held back is taken for one that the model would have made all
the same, so it activates the tool just before the request that led to the call: by a call of the
gateway, its answer, and so one request more. Where no gateway stands in the head, the harness
activates it. Nobody searches.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from attrs import evolve, field, frozen

from ctxalgebra.codecs.lines import parse, read_file
from ctxalgebra.errors import DecodeError, InvalidArgument
from ctxalgebra.loading import is_deferred
from ctxalgebra.model.checks import check_callable, check_type
from ctxalgebra.model.entries import Note, Reply, Sent
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Head, Tool
from ctxalgebra.model.parts import ToolCall, assistant
from ctxalgebra.model.session import Session, check_session
from ctxalgebra.model.view import Measure
from ctxalgebra.replay.layout import Cache
from ctxalgebra.replay.replay import Event, events, followed, resend, stated
from ctxalgebra.replay.resident import Residency, named_tools, weigh_heads
from ctxalgebra.resident.activation import (
    activate,
    activated_tools,
    deferred_tools,
    read_snapshot,
    reset,
    resident_tools,
)
from ctxalgebra.resident.policy import ToolPolicy, for_route, tool_policy
from ctxalgebra.resident.reconcile import By, reconcile
from ctxalgebra.resident.respond import FIND_CAPABILITY, LAZY, TOOL_SEARCH, respond_discovery
from ctxalgebra.tokens import chars4
from ctxalgebra.transforms.pipeline import Stage, pipeline

__all__ = ["Held", "compare_tools", "load_policy"]

_EVERYTHING: Stage = pipeline()
_GATEWAYS: Mapping[str, Tool] = {tool.name: tool for tool in (LAZY, FIND_CAPABILITY, TOOL_SEARCH)}


@frozen
class Held:
    """Set a session beside the same session with its tools held back.

    Args:
        without: the heads as they were recorded.
        under: the heads under the policy, in the requests that there would have been.
        unmet: names of tools and how often the model called them in a request that would not have
            had them: the policy never lets them in, or the head could not change yet (V-A7).
    """

    without: Residency
    under: Residency
    unmet: tuple[tuple[str, int], ...] = ()

    @property
    def net(self) -> int:
        """What holding back would have saved, in hundredths of the price of an input token."""
        return self.without.cost - self.under.cost


def load_policy(file: str) -> ToolPolicy:
    """Read a tool policy: a JSON file with one layer of configuration, or a list of them.

    Raises:
        DecodeError: `unreadable`, `empty-file`, `invalid-utf8`, or what is wrong with its JSON.
        InvalidArgument: as `tool_policy`; both name the file, and the place in it.
    """
    try:
        text = read_file(file).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DecodeError("invalid-utf8", str(error.reason), file=file, line=line) from None
    given = parse(text, file=file)
    layers = given if isinstance(given, list) else [given]
    try:
        # What is no object is refused there, with its place.
        return tool_policy(*cast("list[dict[str, Any]]", layers))
    except InvalidArgument as error:
        raise InvalidArgument(error.code, error.message, file=file, field=error.field) from None


def _registry(recorded: Session, policy: ToolPolicy) -> dict[str, Tool]:
    """Map the names of all tools that there are to what they are at first."""
    found = named_tools(recorded)
    if found and not any(name in found for name in policy.gateways):
        known = next((name for name in policy.gateways if name in _GATEWAYS), None)
        if known is not None:
            found[known] = _GATEWAYS[known]
    return found


def _with_calls(replayed: Sequence[Event]) -> Iterator[tuple[Event, tuple[str, ...]]]:
    """Give each event, a request with the names that the model calls in its reply."""
    called: list[tuple[str, ...]] = []
    names: tuple[str, ...] = ()
    for entry in reversed(replayed):
        if isinstance(entry, Reply):
            calls = entry.message.calls if entry.message is not None else ()
            names = tuple(dict.fromkeys(call.name for call in calls))
        called.append(names if isinstance(entry, Sent) else ())
        if isinstance(entry, Sent):
            names = ()
    return zip(replayed, reversed(called), strict=True)


@frozen
class _Holding:
    """Replays events while tools are held back.

    Args:
        registry: all tools by name; it learns what later heads say of them.
        policy, settle, deferred: see `compare_tools`.
        unmet: counts the calls that a request would not have had the tools for.
    """

    registry: dict[str, Tool]
    policy: ToolPolicy
    settle: Stage
    deferred: bool
    unmet: Counter[str] = field(factory=Counter[str])

    @property
    def registered(self) -> tuple[Tool, ...]:
        return tuple(self.registry.values())

    def sessions(self, recorded: Session) -> Iterator[Session]:
        """Give the session as each request leaves."""
        session = Session()
        waiting: Head | None = None
        for entry, called in _with_calls(tuple(events(recorded))):
            waiting = entry if isinstance(entry, Head) else waiting
            if waiting is not None:
                after = stated(session, self._head(session, waiting))
                session, waiting = (session, waiting) if after is None else (after, None)
            if not isinstance(entry, Sent):
                session = self._follow(session, entry)
            elif session.view.end:
                session = self._settled(session)
                fresh = self._fresh(session, called)
                gateway = self._gateway(session) if fresh else ""
                if gateway:
                    session = record(session, Sent(inferred=True, time=entry.time))
                    yield session
                    session = self._settled(self._answered(session, fresh, gateway))
                elif fresh:
                    session = self._settled(self._activated(session, fresh, "host"))
                session = record(session, entry)
                self._count(session, called)
                yield session

    def _settled(self, session: Session) -> Session:
        return resident_tools(
            self.settle(session),
            policy=self.policy,
            registered=self.registered,
            deferred=self.deferred,
        )

    def _activated(self, session: Session, names: Sequence[str], by: By) -> Session:
        return activate(session, names, policy=self.policy, registered=self.registered, by=by)

    def _fresh(self, session: Session, called: Sequence[str]) -> tuple[str, ...]:
        """List those of the called tools that have to be activated."""
        if not called:
            return ()
        after = activated_tools(self._activated(session, called, "model"))
        return tuple(name for name in after if name not in activated_tools(session))

    def _gateway(self, session: Session) -> str:
        known = for_route(self.policy, session.head.route).gateways
        standing = (tool.name for tool in session.head.tools if tool.name in known)
        return next(standing, "")

    def _answered(self, session: Session, names: Sequence[str], gateway: str) -> Session:
        """Let the model call the gateway, and answer it, whatever its name, as `lazy` does."""
        call = ToolCall(f"activate-{len(session)}", gateway, json.dumps({"activate": names}))
        session = record(session, Reply("completed", assistant(call)))
        entries = respond_discovery(
            session, evolve(call, name=LAZY.name), policy=self.policy, registered=self.registered
        )
        return record(session, *entries)

    def _follow(self, session: Session, entry: Event) -> Session:
        if isinstance(entry, Head):
            return session  # it is stated as soon as it may be
        return self._noted(session, entry) if isinstance(entry, Note) else followed(session, entry)

    def _noted(self, session: Session, note: Note) -> Session:
        """Take over who activated what then, beside what is activated here."""
        found = read_snapshot(note.data)
        if found is None:
            return session
        if not for_route(self.policy, session.head.route).enabled:
            return record(session, note)
        names, by = found
        return self._activated(session, names, by) if names else reset(session)

    def _head(self, session: Session, head: Head) -> Head:
        """Take over a head, but for the tools that the policy holds back in it."""
        self.registry.update((tool.name, tool) for tool in head.tools)
        policy = for_route(self.policy, head.route)
        if session.view.sent is None or not policy.enabled:
            return head
        has = [tool.name for tool in head.tools]
        wanted = reconcile(policy, self.registry, has, by="start").active
        elsewhere = {*policy.externally_managed} - {*has}
        kept = [tool for tool in session.head.tools if tool.name not in elsewhere]
        names = {tool.name for tool in kept}
        return evolve(head, tools=(*kept, *(self.registry[n] for n in wanted if n not in names)))

    def _count(self, session: Session, called: Sequence[str]) -> None:
        offered = {tool.name for tool in session.head.tools}
        if self.deferred:
            loaded = deferred_tools(session, policy=self.policy, registered=self.registered)
            offered |= {one.tool.name for one in loaded if one.active}
        self.unmet.update(name for name in called if name in self.registry and name not in offered)


def compare_tools(
    recorded: Session,
    policy: ToolPolicy,
    settle: Stage = _EVERYTHING,
    *,
    deferred: bool = False,
    cache: Cache[Any] | None = None,
    planned: bool = False,
    measure: Measure = chars4,
) -> Held:
    """Replay a recorded session as it was, and with its tools held back by a policy.

    Args:
        recorded: read along its path, never changed.
        policy: what is held back; where it is not enabled, the tools are the harness's own.
        settle: runs before each request of both, in front of `resident_tools`.
        deferred: the provider loads at a tool result what the model activates there.
        cache, planned, measure: as in `resident_head`.

    Raises: what the stage raises.
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import record, reply, send, user
    >>> tools = Tool("read", "r" * 400), Tool("web", "w" * 4000)
    >>> session = record(Session(), Head(tools=tools), user("Look at it."))
    >>> for name in ("read", "read", "read"):
    ...     session, _ = send(session)
    ...     session = record(reply(session, "completed", assistant("Done.")), user("Go on."))
    >>> held = compare_tools(session, ToolPolicy(core=("read",)))
    >>> [one.tools for one in held.without.requests], [one.tools for one in held.under.requests]
    ([1103, 1103, 1103], [218, 218, 218])
    >>> held.net == (1103 - 218) * (125 + 10 + 10)
    True
    """
    check_session(recorded)
    check_type(policy, ToolPolicy, "policy")
    check_callable(settle, "settle")
    check_callable(measure, "measure")
    check_type(deferred, bool, "deferred")
    named = tuple(named_tools(recorded).values())
    # Heads that were read from requests may hold tools back themselves; that stays as it is.
    theirs = tuple(tool.name for tool in named if is_deferred(tool))
    ours = evolve(policy, externally_managed=(*policy.externally_managed, *theirs))
    holding = _Holding(_registry(recorded, policy), ours, settle, deferred)
    # What is there is told from the first definitions: later ones weigh where they stand.
    without, under = (
        weigh_heads(
            sessions,
            registered=registered,
            policy=policy,
            deferred=deferred,
            cache=cache,
            planned=planned,
            measure=measure,
        )
        for sessions, registered in (
            (resend(recorded, settle), named),
            (holding.sessions(recorded), holding.registered),
        )
    )
    return Held(without, under, tuple(holding.unmet.items()))
