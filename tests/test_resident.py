"""Resident tools: policy, reconcile, activation and its price, and a hostile machine over it."""

from __future__ import annotations

import json
import random
from functools import partial

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Cut,
    Drop,
    Head,
    InvalidArgument,
    Note,
    Reply,
    Route,
    Sent,
    Session,
    Thinking,
    Tool,
    ToolCall,
    UsageReport,
    account,
    assistant,
    at_leaf,
    breaks,
    chars4,
    dry_run,
    log,
    path,
    project,
    record,
    reply,
    requests,
    send,
    tool_result,
    travel,
    user,
)
from ctxalgebra.codecs.journal import decode, encode
from ctxalgebra.ledger import CACHED, WRITTEN
from ctxalgebra.resident import (
    LAZY,
    LOADED,
    NOTE,
    ToolPolicy,
    activate,
    activated_tools,
    activation,
    active_tools,
    conflicts,
    deferred_tools,
    discoverable,
    for_route,
    held_back,
    plan_tools,
    reconcile,
    reset,
    resident_tools,
    respond_discovery,
    snapshot,
    snapshots,
    tool_policy,
    worth_activating,
)

CORE = ("read", "bash")
POLICY = ToolPolicy(core=CORE)
TOOLS = tuple(
    Tool(name, f"The tool {name}. " + "It does much. " * 20)
    for name in ("bash", "read", "web", "zip", "mail")
)
TOOLS = (*TOOLS, LAZY)
NAMES = tuple(tool.name for tool in TOOLS)


def tools_of(*names):
    return tuple(tool for name in names for tool in TOOLS if tool.name == name)


def names_of(session):
    return [tool.name for tool in session.head.tools]


def settled(session, policy=POLICY, registered=TOOLS, **options):
    return resident_tools(session, policy=policy, registered=registered, **options)


NOWHERE = Route()


def begun(policy=POLICY, names=NAMES[:5], route=NOWHERE):
    session = record(Session(), Head(route, "Be brief.", tools_of(*names)), user("hi"))
    return settled(session, policy)


def turn(session, text="go on"):
    if session.view.sent is not None:
        session = record(session, user(text))
    session, _ = send(session)
    return reply(session, "completed", assistant("done"))


def wanting(session, *names):
    return activate(session, names, policy=POLICY, registered=TOOLS)


# Policy


def test_layers_lie_over_each_other():
    policy = tool_policy(
        {"core": ["read", "read"], "disabled": ["rm"], "modelOverrides": {"a*": {"core": ["x"]}}},
        {"disabled": ["dd"], "enabled": None, "modelOverrides": None},
        {"modelOverrides": {"b*": None, "a*": {"disabled": [], "core": None, "enabled": False}}},
    )
    assert (policy.enabled, policy.core, policy.disabled) == (True, ("read",), ("dd",))
    assert policy.overrides == (("a*", (("core", ("x",)), ("disabled", ()), ("enabled", False))),)
    assert tool_policy() == ToolPolicy()
    assert tool_policy({"gateways": [], "alwaysActive": ["w"], "externallyManaged": ["e"]}) == (
        ToolPolicy(gateways=(), always_active=("w",), externally_managed=("e",))
    )


@pytest.mark.parametrize(
    ("layers", "code", "field"),
    [
        ((5,), "wrong-type", "0"),
        (({}, {"enabled": 1}), "wrong-type", "1.enabled"),
        (({"core": "read"},), "wrong-type", "0.core"),
        (({"core": ["a", 5]},), "wrong-type", "0.core[1]"),
        (({"core": ["\ud800"]},), "lone-surrogate", "0.core[0]"),
        (({"other": 1},), "extra-field", "0"),
        (({5: 1},), "wrong-type", "0"),
        (({"modelOverrides": []},), "wrong-type", "0.modelOverrides"),
        (({"modelOverrides": {"a": 1}},), "wrong-type", "0.modelOverrides.a"),
        (({"modelOverrides": {"a": {"disabled": [1]}}},), "wrong-type",
         "0.modelOverrides.a.disabled[0]"),
        (({"modelOverrides": {"a": {"modelOverrides": {}}}},), "extra-field",
         "0.modelOverrides.a"),
        (({"modelOverrides": {"*" * 257: {}}},), "invalid-argument", "0.modelOverrides"),
    ],
)  # fmt: skip
def test_what_is_not_valid_is_refused_with_its_place(layers, code, field):
    with pytest.raises(InvalidArgument) as told:
        tool_policy(*layers)
    assert (told.value.code, told.value.field) == (code, field)


def test_overrides_apply_in_order():
    overrides = {"*": {"core": ["a"]}, "gpt-?": {"core": ["b"], "enabled": False}, "5": {}}
    policy = tool_policy({"modelOverrides": overrides})
    assert for_route(policy, Route("openai", "gpt-5")).core == ("b",)
    assert for_route(policy, Route("openai", "gpt-55")).core == ("a",)
    assert for_route(policy, None) is policy
    assert for_route(POLICY, Route("a", "b")) is POLICY
    late = tool_policy({"modelOverrides": {"gpt*": {"core": ["b"]}, "o/*": {"core": ["c"]}}})
    assert for_route(late, Route("o", "gpt")).core == ("c",)
    assert for_route(late, Route("p", "x")) == late


def test_what_is_claimed_twice_is_told():
    policy = tool_policy(
        {"core": ["a"], "alwaysActive": ["a", "e"], "externallyManaged": ["e"], "disabled": ["a"]}
    )
    told = [(c.name, c.lists, c.wins) for c in conflicts(policy)]
    assert told == [
        ("e", ("externally_managed", "always_active"), "always_active"),
        ("a", ("core", "disabled"), "disabled"),
        ("a", ("always_active", "disabled"), "disabled"),
    ]
    assert conflicts(POLICY, Route("a", "b")) == ()


@pytest.mark.parametrize(
    "fields", [{"enabled": 1}, {"core": ["a"]}, {"disabled": ("a", 1)}, {"overrides": []}]
)
def test_policies_that_are_none(fields):
    with pytest.raises(InvalidArgument):
        ToolPolicy(**fields)


# Reconcile


def test_the_start_set_is_no_larger_than_what_the_harness_had():
    policy = tool_policy({"core": ["read", "grep"], "externallyManaged": ["mail", "zip"]})
    registered = [*NAMES, "grep"]
    told = reconcile(policy, registered, ["web", "read", "mail"], by="start")
    assert told.active == ("read", "mail", "lazy")
    assert told.kind == "initial"
    assert reconcile(policy, registered, told.active, by="start").kind == "no-op"


def test_kinds_of_updates():
    before = ("read", "bash", "lazy")
    grown = reconcile(POLICY, NAMES, before, ["web"], by="model")
    assert grown == type(grown)((*before, "web"), "native-candidate")
    assert reconcile(POLICY, NAMES, before, ["web"]).kind == "fallback"
    assert reconcile(POLICY, NAMES[1:], before, ["web"], by="model").kind == "fallback"
    always = ToolPolicy(always_active=("zip",))
    assert reconcile(always, NAMES, before, ["web"], by="model").kind == "fallback"
    assert reconcile(POLICY, NAMES, before, by="model") == type(grown)(before, "no-op")
    with pytest.raises(InvalidArgument, match="by is one of"):
        reconcile(POLICY, NAMES, before, by="nobody")


def test_what_is_off_changes_nothing_but_what_must():
    off = ToolPolicy(enabled=False, disabled=("zip",))
    assert reconcile(off, NAMES, NAMES[:3], ["mail"], by="start").kind == "no-op"
    told = reconcile(off, NAMES[:4], ["zip", "mail", "web"])
    assert (told.active, told.kind) == (("web",), "fallback")


def test_external_tools_are_kept_and_never_added():
    policy = ToolPolicy(externally_managed=("web",))
    assert discoverable(policy, NAMES) == ("bash", "read", "zip", "mail")
    assert reconcile(policy, NAMES, ["web", "lazy"], by="start").active == ("web", "lazy")
    assert reconcile(policy, NAMES, ["lazy"], ["web"]).kind == "no-op"
    assert reconcile(policy, NAMES, ["web", "lazy"], released=["web"]).kind == "no-op"
    both = ToolPolicy(externally_managed=("web",), disabled=("web",))
    assert reconcile(both, NAMES, ["web", "lazy"]).active == ("lazy",)


def test_the_gateway_is_never_disabled():
    assert reconcile(ToolPolicy(disabled=("lazy",)), NAMES, []).active == ("lazy",)


SOME = st.lists(st.sampled_from([*NAMES, "other"]), max_size=5)


@given(SOME, SOME.map(lambda a: list(dict.fromkeys(a))), SOME, SOME, SOME, st.booleans())
def test_the_list_only_grows_at_its_end_but_for_what_must_leave(
    registered, active, wanted, disabled, released, enabled
):
    policy = ToolPolicy(enabled=enabled, core=CORE, disabled=tuple(disabled))
    told = reconcile(policy, registered, active, wanted, released=released)
    must = {*disabled} - {"lazy"}
    may = must | ({*released} if enabled else set())
    stays = [name for name in active if name in told.active]
    assert list(told.active[: len(stays)]) == stays
    assert {*active} - {*told.active} <= may | ({*active} - {*registered})
    assert {*told.active} <= {*registered} - must
    assert len({*told.active}) == len(told.active)
    again = reconcile(policy, registered, told.active, wanted, released=released)
    assert again.active == told.active
    assert again.kind == "no-op"


# Activation


def test_before_the_first_request_the_rest_is_held_back():
    session = begun()
    assert names_of(session) == ["bash", "read", "lazy"]
    assert settled(session) is session
    assert breaks(turn(session)) == ()


def test_a_session_that_was_sent_is_not_cut_down():
    session = turn(record(Session(), Head(tools=TOOLS[:5]), user("hi")))
    assert names_of(settled(session)) == [*NAMES[:5], "lazy"]


def test_tools_of_others_that_come_behind_the_start_stay():
    session = begun()
    session = record(session, evolve(session.head, tools=(*session.head.tools, TOOLS[4])))
    assert settled(session) is session
    session = settled(wanting(turn(session), "web"))
    assert names_of(session) == ["bash", "read", "lazy", "mail", "web"]
    session = settled(reset(session))
    assert names_of(session) == ["bash", "read", "lazy", "mail"]


def test_an_activation_is_one_note_and_one_break_of_the_declared_price():
    session = turn(turn(begun()))
    size = len(session)
    session = wanting(session, "web", "nope", "web", "read", "lazy")
    assert [type(node.entry) for node in log(session)[size:]] == [Note]
    assert wanting(session, "web") is session
    worth = worth_activating(session, tools_of("web"))
    settle = partial(resident_tools, policy=POLICY, registered=TOOLS)
    told = dry_run(settle, session)
    session = turn(settle(session))
    (broke,) = account(session).breaks
    # The message of the last turn is new in that request, so it is not sent anew.
    assert broke.rebilled == worth.rebilled == told.rebilled
    assert broke.at == -1
    assert names_of(session) == ["bash", "read", "lazy", "web"]
    assert worth.price == worth.rebilled * (WRITTEN - CACHED)


def called(session, *names, registered=TOOLS):
    """Let the model activate tools through the gateway."""
    call = ToolCall(f"c{len(session)}", "lazy", json.dumps({"activate": names}))
    session, _ = send(session)
    session = reply(session, "completed", assistant(call))
    return record(session, *respond_discovery(session, call, policy=POLICY, registered=registered))


def loaded(session, policy=POLICY, registered=TOOLS):
    told = deferred_tools(session, policy=policy, registered=registered)
    return {one.tool.name: one.at for one in told if one.active}


def test_where_the_provider_loads_tools_nothing_is_billed_again():
    session = begun()
    assert worth_activating(turn(session), tools_of("web"), deferred=True).price == 0
    session = called(session, "zip")
    point = session.leaf.number
    session = called(settled(session, deferred=True), "web")
    assert loaded(session) == {"zip": point, "web": session.leaf.number}
    assert active_tools(session) == ("bash", "read", "lazy", "zip")
    session = settled(session, deferred=True)
    assert settled(session, deferred=True) is session
    assert active_tools(session) == ("bash", "read", "lazy", "zip", "web")
    session = turn(session)
    assert account(session).rebilled == 0
    elsewhere = record(session, evolve(session.head, route=Route("other", "model")))
    assert names_of(settled(elsewhere)) == ["bash", "read", "lazy", "zip", "web"]
    assert loaded(settled(elsewhere)) == {}
    assert loaded(session, ToolPolicy(enabled=False)) == {}
    assert loaded(session, registered=TOOLS[:3]).keys() == {"web"}
    assert activated_tools(reset(session)) == ()
    assert loaded(reset(session)) == {}


def test_only_the_model_loads_a_tool_at_a_result():
    session = wanting(turn(begun()), "zip")
    assert names_of(settled(session, deferred=True))[-1] == "zip"


def test_a_tool_whose_result_is_cut_moves_into_the_head():
    session = called(begun(), "web")
    point = session.leaf.number
    session = turn(turn(settled(session, deferred=True)))
    session = record(session, user("more"))
    cut = record(session, Cut(point, user("Earlier messages are gone."), "full", breaks=True))
    assert loaded(cut) == {}
    assert names_of(settled(cut, deferred=True))[-1] == "web"
    drop = record(session, Drop(point - 2, point, "done", breaks=True))
    assert names_of(settled(drop, deferred=True))[-1] == "web"


def test_while_results_are_missing_a_tool_waits_for_its_own():
    first, other = ToolCall("c1", "lazy", '{"activate":["web"]}'), ToolCall("c2", "read")
    session, _ = send(begun())
    session = reply(session, "completed", assistant(first, other))
    entries = respond_discovery(session, first, policy=POLICY, registered=TOOLS)
    session = record(session, *entries)
    assert settled(session, deferred=True) is session
    session = record(session, tool_result("c2", "text"))
    told = settled(session, deferred=True)
    assert [node.entry.name for node in log(told)[len(session) :]] == [LOADED]
    assert loaded(told) == {"web": session.leaf.number - 1}


def test_a_gateway_has_to_be_worth_its_place():
    session = begun()
    told = held_back(session, policy=POLICY, registered=TOOLS)
    assert told.tokens == chars4(Head(tools=TOOLS[2:5]))
    assert told.gateways == chars4(Head(tools=(LAZY,)))
    assert told.pays
    few = (*TOOLS[:2], LAZY, Tool("tiny"))
    assert not held_back(session, policy=POLICY, registered=few).pays


def test_a_request_that_was_out_where_one_lands_changes_no_owner():
    session, _ = send(record(turn(begun()), user("more")))
    session = record(session, Note("mark"))
    mark = session.leaf.number
    session = reply(session, "completed", assistant("done"))
    back = travel(settled(wanting(session, "web")), mark)
    assert [type(node.entry) for node in log(back)[-2:]] == [Reply, Head]
    assert names_of(settled(back)) == ["bash", "read", "lazy"]


def test_searching_costs_nothing():
    session = record(begun(), assistant(ToolCall("c1", "lazy", '{"search":"zip"}')))
    entries = respond_discovery(session, session.view.slots.messages[-1].calls[0], policy=POLICY,
                                registered=TOOLS)  # fmt: skip
    assert [entry.kind for entry in entries] == ["message"]
    session = turn(settled(record(session, *entries)))
    assert account(turn(session)).rebilled == 0


def test_break_even_is_the_number_of_requests_that_pays():
    session = turn(begun())
    for count in range(1, 60):
        worth = worth_activating(session, tools_of("web"))
        saved = worth.tokens * (WRITTEN + CACHED * (count - 1))
        assert worth.saved == saved
        assert worth.paid is (count >= worth.break_even)
        session = send(session)[0]
        session = reply(session, "failed")
    assert worth.paid


def test_what_a_tool_weighs_and_what_not():
    session = begun()
    first = worth_activating(session, tools_of("web"))
    assert (first.rebilled, first.price, first.saved, first.break_even) == (0, 0, 0, 0)
    assert worth_activating(turn(session), tools_of("read")).tokens == 0
    nothing = worth_activating(turn(session), tools_of("web"), measure=lambda value: 0)
    assert (nothing.tokens, nothing.break_even) == (0, 0)
    flat = worth_activating(turn(session), tools_of("web"), measure=lambda value: 7)
    assert (flat.tokens, flat.price > 0, flat.break_even) == (0, True, None)
    heavy = Tool("heavy", "x" * 40_000)
    assert worth_activating(turn(session), (heavy,)).break_even == 1
    for prices in ({"cached": 0}, {"cached": 200}, {"written": 5}):
        with pytest.raises(InvalidArgument):
            worth_activating(session, (heavy,), **prices)


def test_resume_fork_and_travel_bring_back_what_was_activated():
    before = turn(begun())
    session = turn(settled(wanting(before, "zip")))
    session = turn(settled(wanting(session, "web")))
    resumed = decode(encode(session)).session
    assert settled(resumed) is resumed
    assert project(resumed) == project(session)
    assert activated_tools(resumed) == ("zip", "web")
    back = travel(session, before.leaf.number)
    assert activated_tools(back) == ()
    assert names_of(settled(back)) == names_of(before)
    forked = turn(settled(wanting(settled(back), "mail")))
    assert names_of(forked) == ["bash", "read", "lazy", "mail"]
    assert activated_tools(at_leaf(forked, session.leaf.number)) == ("zip", "web")


def test_snapshots_of_others_are_read_and_broken_ones_passed_over():
    old = {"version": 1, "activatedTools": ["web", "web", "zip"], "catalogHash": "abc"}
    session = record(Session(), Note(NOTE, json.dumps(old)))
    assert activated_tools(session) == ("web", "zip")
    broken = ("", "[]", "[" * 100_000, '{"version":1,"activatedTools":[1]}', "NaN",
              '{"version":true,"activatedTools":[]}', '{"version":2,"activatedTools":[]}',
              '{"version":1,"activatedTools":"web"}', '{"version":1}')  # fmt: skip
    for data in broken:
        session = record(session, Note(NOTE, data))
    session = record(session, Note("another", '{"version":1,"activatedTools":[]}'))
    assert activated_tools(session) == ("web", "zip")


def test_what_may_not_be_active_any_more_is_out_and_comes_back():
    session = turn(settled(wanting(turn(begun()), "zip", "web")))
    without = ToolPolicy(core=CORE, disabled=("zip",))
    session = turn(settled(session, without))
    assert names_of(session) == ["bash", "read", "lazy", "web"]
    assert activated_tools(session) == ("zip", "web")
    assert names_of(settled(session)) == ["bash", "read", "lazy", "web", "zip"]
    gone = tuple(tool for tool in TOOLS if tool.name != "web")
    assert names_of(settled(session, registered=gone)) == ["bash", "read", "lazy", "zip"]


def test_a_model_without_the_policy_is_left_alone():
    policy = tool_policy({"core": list(CORE), "modelOverrides": {"big*": {"enabled": False}}})
    session = turn(begun(policy))
    session = record(session, evolve(session.head, route=Route("x", "bigger")))
    assert settled(session, policy) is session
    assert activate(session, ["web"], policy=policy, registered=TOOLS) is session


def test_an_off_policy_chooses_no_start_set():
    off = ToolPolicy(enabled=False)
    session = begun(off)
    assert len(session) == 2
    assert names_of(settled(session)) == ["bash", "read", "lazy"]


def test_a_schema_in_another_order_is_the_same():
    tool = Tool("lazy", "d", '{"a":1,"b":[2]}')
    session = turn(settled(record(Session(), user("hi")), registered=(tool,)))
    for schema in ('{"b":[2],"a":1}', ' { "a": 1, "b": [2] }', tool.schema):
        assert settled(session, registered=(Tool("lazy", "d", schema),)) is session
    for changed in (Tool("lazy", "other", tool.schema), Tool("lazy", "d", '{"a":2}'),
                    Tool("lazy", "d", "{")):  # fmt: skip
        assert settled(session, registered=(changed,)).head.tools == (changed,)


def test_while_a_request_is_out_or_a_loop_open_the_head_waits():
    session, _ = send(wanting(turn(begun()), "web"))
    assert settled(session) is session
    call = ToolCall("c1", "read")
    session = begun(route=Route(binding="leading"))
    session, _ = send(session)
    session = reply(session, "completed", assistant(Thinking("hm", "sig"), call))
    session = record(wanting(session, "web"), tool_result("c1", "text"))
    assert settled(session) is session
    session = turn(session)
    assert names_of(settled(record(session, user("next"))))[-1] == "web"


def test_reset_of_nothing_is_nothing():
    session = begun()
    assert reset(session) is session
    assert activated_tools(reset(wanting(session, "web"))) == ()


def test_the_plan_tells_who_asked():
    session = turn(begun())
    asked = activate(session, ["web"], policy=POLICY, registered=TOOLS, by="model")
    assert plan_tools(asked, policy=POLICY, registered=TOOLS).kind == "native-candidate"
    assert plan_tools(session, policy=POLICY, registered=TOOLS).kind == "no-op"
    assert plan_tools(wanting(session, "web"), policy=POLICY, registered=TOOLS).kind == "fallback"


@pytest.mark.parametrize(
    "wrong",
    [lambda: activated_tools(5), lambda: resident_tools(5, policy=POLICY, registered=()),
     lambda: resident_tools(Session(), policy=5, registered=()),
     lambda: resident_tools(Session(), policy=POLICY, registered=[LAZY]),
     lambda: resident_tools(Session(), policy=POLICY, registered=(), deferred=1),
     lambda: activate(Session(), ["a"], policy=POLICY, registered=("a",)),
     lambda: activate(Session(), "web", policy=POLICY, registered=TOOLS),
     lambda: worth_activating(Session(), ("a",)), lambda: reset(None),
     lambda: deferred_tools(Session(), policy=None, registered=())],
)  # fmt: skip
def test_what_is_of_another_type_is_refused(wrong):
    with pytest.raises(InvalidArgument, match="wrong-type"):
        wrong()


# The machine: harness, policy, model and other extensions in any order

SPARE = (*TOOLS, Tool("extra", "Of another extension."), Tool("late", "Registered late."))
ALL = tuple(tool.name for tool in SPARE)
ROUTES = (Route(), Route("a", "small"), Route("b", "big", binding="leading"))


class Machine:
    """Play operations, and check after each what must hold."""

    def __init__(self):
        self.registered = list(ALL[:6])
        self.disabled = ()
        self.deferred = False
        self.others = set()
        self.begun = False
        self.session = record(Session(), Head(tools=self.tools(ALL[:4])), user("hi"))
        self.settle()

    def tools(self, names):
        return tuple(tool for name in names for tool in SPARE if tool.name == name)

    @property
    def options(self):
        policy = ToolPolicy(core=CORE, disabled=self.disabled)
        return {"policy": policy, "registered": self.tools(self.registered)}

    def settle(self):
        before = self.session
        options = {**self.options, "deferred": self.deferred}
        start = before.view.sent is None and not self.begun
        self.begun = True
        after = activation.resident_tools(before, **options)
        assert activation.resident_tools(after, **options) is after
        resumed = decode(encode(before)).session
        again = activation.resident_tools(resumed, **options)
        assert encode(again) == encode(after)
        assert project(again) == project(after)
        waits = before.view.flight >= 0 or before.view.holds_loop(-1)
        if not waits:
            self.check(names_of(before), names_of(after), after, start)
        self.others &= {*names_of(after)}
        self.session = after

    def check(self, old, new, after, start):
        assert not {*new} & ({*self.disabled} - {"lazy"})
        assert {*new} <= {*self.registered} | self.others
        allowed = {*self.registered} - ({*self.disabled} - {"lazy"})
        gone = {*old} - {*new}
        assert not gone & self.others & allowed
        stays = [name for name in old if name in new]
        assert new[: len(stays)] == stays
        if not start:
            # What is left leaves for a reason: it is not allowed, or was activated once.
            once = {
                name
                for node in log(after)
                if isinstance(node.entry, Note) and node.entry.name == NOTE
                for name in json.loads(node.entry.data)["activatedTools"]
            }
            assert gone <= ({*old} - allowed) | once
        wanted = [n for n in activated_tools(after) if n in allowed]
        behind = {d.tool.name for d in deferred_tools(after, **self.options)}
        if not self.deferred:
            assert {*wanted} <= {*new}
        elif not after.view.open:
            assert {*wanted} <= {*new} | behind
        if "lazy" in self.registered:
            assert "lazy" in new

    def do(self, name, *arguments):
        getattr(self, name)(*arguments)
        self.settle()

    def register(self, name):
        if name not in self.registered:
            self.registered.append(name)

    def unregister(self, name):
        if name in self.registered:
            self.registered.remove(name)

    def disable(self, names):
        self.disabled = tuple(names)

    def defer(self, deferred):
        self.deferred = deferred

    def want(self, names):
        self.session = activate(self.session, names, **self.options, by="model")

    def release(self):
        self.session = reset(self.session)

    def own(self, name):
        """Let another extension activate a tool itself."""
        head = self.session.head
        free = name in self.registered and name not in self.disabled
        idle = self.session.view.flight < 0 and not self.session.view.holds_loop(-1)
        if free and idle and name not in active_tools(self.session):
            self.session = record(
                self.session, evolve(head, tools=(*head.tools, *self.tools([name])))
            )
            self.others.add(name)

    def switch(self, route):
        if self.session.view.flight < 0 and not self.session.view.holds_loop(-1):
            self.session = record(self.session, evolve(self.session.head, route=route))

    def turn(self, call):
        if self.session.view.flight < 0 and not self.session.view.open:
            self.session = record(self.session, user("go on"))
            self.session, _ = send(self.session)
            if call:
                message = assistant(Thinking("hm", "s"), ToolCall(f"c{len(self.session)}", "read"))
            else:
                message = assistant("done")
            self.session = reply(self.session, "completed", message)
        elif self.session.view.open:
            self.session = record(self.session, tool_result(self.session.view.open[0], "text"))

    def fork(self, part):
        places = [
            node.number
            for node in log(self.session)
            if not isinstance(node.entry, Head | Note | UsageReport)
        ]
        self.session = travel(self.session, places[part % len(places)])
        self.others &= {*names_of(self.session)} - {*activated_tools(self.session)}


OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["register", "unregister", "own"]), st.sampled_from(ALL)),
    st.tuples(st.sampled_from(["disable", "want"]), st.lists(st.sampled_from(ALL), max_size=3)),
    st.tuples(st.just("defer"), st.booleans()),
    st.tuples(st.just("release")),
    st.tuples(st.just("switch"), st.sampled_from(ROUTES)),
    st.tuples(st.just("turn"), st.booleans()),
    st.tuples(st.just("fork"), st.integers(0, 99)),
)


def play(operations):
    machine = Machine()
    for operation in operations:
        machine.do(*operation)
    session = machine.session
    broken = {b.sent: b.why for b in breaks(session)}
    sent = [node.number for node in path(session) if isinstance(node.entry, Sent)]
    made = requests(session)
    for number, earlier, later in zip(sent[1:], made, made[1:], strict=False):
        # A head that changes and changes back still takes the thinking that it bound.
        assert later.extends(earlier) or "the head changed" in broken[number]


@given(st.lists(OPERATIONS, max_size=25))
def test_the_laws_hold_whatever_happens(operations):
    play(operations)


# Each law notices what it is there for


def drawn(seed):
    draw = random.Random(seed)
    some = partial(draw.choices, ALL, k=2)
    makers = [
        lambda: ("register", draw.choice(ALL)), lambda: ("unregister", draw.choice(ALL)),
        lambda: ("own", draw.choice(ALL)), lambda: ("disable", some()), lambda: ("want", some()),
        lambda: ("want", some()), lambda: ("release",), lambda: ("switch", draw.choice(ROUTES)),
        lambda: ("turn", draw.random() < 0.3), lambda: ("fork", draw.randrange(99)),
        lambda: ("defer", draw.random() < 0.5),
    ]  # fmt: skip
    return [draw.choice(makers)() for _ in range(15)]


def sorting(told):
    return evolve(told, active=tuple(sorted(told.active)))


def turned(told, size):
    return evolve(told, active=(*told.active[size:], *told.active[:size]))


def mutant(change):
    def mutated(policy, registered, active, activated=(), model=None, **options):
        return change(reconcile, policy, registered, active, activated, model, **options)

    return mutated


MUTANTS = {
    "sorts": lambda real, *a, **o: sorting(real(*a, **o)),
    "new ones come first": lambda real, p, r, active, *a, **o: turned(
        real(p, r, active, *a, **o), len(active)
    ),
    "replaces what others have": lambda real, p, r, a, wanted, m, **o: real(
        p, r, [n for n in a if n in {*CORE, *wanted, "lazy"}], wanted, m, **o
    ),
    "forgets what is disabled": lambda real, p, *a, **o: real(evolve(p, disabled=()), *a, **o),
    "forgets what was activated": lambda real, p, r, a, wanted, m, **o: real(p, r, a, (), m, **o),
    "reset takes all": lambda real, p, r, a, wanted, m, **o: real(
        p, r, a, wanted, m, **{**o, "released": [n for n in a if n not in wanted]}
    ),
    "starts again": lambda real, *a, **o: real(*a, **{**o, "by": "start"}),
    "has no gateway": lambda real, p, *a, **o: real(evolve(p, gateways=()), *a, **o),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_laws_have_teeth(name, monkeypatch):
    scripts = [drawn(seed) for seed in range(60)]
    monkeypatch.setattr(activation, "reconcile", mutant(MUTANTS[name]))
    caught = 0
    for script in scripts:
        try:
            play(script)
        except (AssertionError, KeyError):
            caught += 1
    assert caught


def test_the_scripts_of_the_mutants_are_legal():
    for seed in range(60):
        play(drawn(seed))


def test_memory_only_snapshots_are_caught(monkeypatch):
    monkeypatch.setattr(snapshots, "read_snapshot", lambda data: None)
    scripts = [step for seed in range(60) for step in drawn(seed)]
    with pytest.raises(AssertionError):
        play(scripts)


# Growth


@pytest.mark.parametrize("tools", [50, 800])
def test_a_settled_head_costs_no_entry(tools):
    many = tuple(Tool(f"t{at}", "d") for at in range(tools))
    session = settled(record(Session(), Head(tools=many), user("hi")), registered=many)
    assert names_of(session) == []
    assert len(session) == 4
    for _ in range(3):
        assert settled(session, registered=many) is session
    assert chars4(session.head) == 0


def test_snapshots_are_written_once():
    assert json.loads(snapshot(["é", "b"], by="model").data) == {
        "version": 1, "activatedTools": ["é", "b"], "by": "model"
    }  # fmt: skip
