"""What a replay tells of the head: what is resident, what changes it, what holding back saves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from test_resident_scenarios import (
    CORE,
    FOREIGN,
    HEAD,
    NAMES,
    POLICY,
    REGISTERED,
    SYSTEM,
    activate_one,
    activate_two_and_reset,
    begun,
    played,
    told,
    use_none,
    worked,
)

from ctxalgebra import (
    Cut,
    DecodeError,
    Head,
    InvalidArgument,
    Note,
    Opaque,
    Route,
    Session,
    Thinking,
    Tool,
    ToolCall,
    account,
    assistant,
    chars4,
    drift,
    pipeline,
    record,
    reply,
    select,
    send,
    tool_result,
    user,
)
from ctxalgebra.cli import main
from ctxalgebra.codecs import load
from ctxalgebra.codecs.journal import encode
from ctxalgebra.loading import immediate
from ctxalgebra.model.session import walk
from ctxalgebra.replay import (
    Held,
    Plan,
    Residency,
    cache_named,
    compare_tools,
    head_rows,
    head_verdict,
    load_policy,
    plan,
    replay,
    resend,
    resident_head,
)
from ctxalgebra.replay.head_report import NO_HEAD, NO_TOOLS, what
from ctxalgebra.replay.replay import recorded_requests
from ctxalgebra.replay.resident import named_tools
from ctxalgebra.resident import (
    FIND_CAPABILITY,
    LAZY,
    TOOL_SEARCH,
    ToolPolicy,
    resident_tools,
    snapshot,
    tool_policy,
)

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions"


def turn(session, *parts, outcome="completed", time=None):
    """Send a request, record a reply, and a result for each call of it."""
    message = assistant(*parts) if parts else None
    session, _ = send(session, time=time)
    session = reply(session, outcome, message)
    for part in parts if outcome == "completed" else ():
        if isinstance(part, ToolCall):
            session = record(session, tool_result(part.id, "x" * 80))
    return session


def calling(session, name, **options):
    return turn(session, ToolCall(f"c{len(session)}", name), **options)


def stated(*entries, head=HEAD):
    return record(Session(), head, user("Go."), *entries)


def names(head):
    return [one.names for one in head.requests]


# What a recorded session had


SHORT = tuple(evolve(tool, schema=tool.schema[: 60 + n]) for n, tool in enumerate(REGISTERED))
HEADS = st.builds(
    lambda system, chosen, model: Head(Route("p", model, binding="none"), system, chosen),
    st.sampled_from(["", "It is 09:12.", "It is 09:13."]),
    st.permutations(SHORT[:4]).flatmap(
        lambda tools: st.integers(0, 4).map(lambda n: tuple(tools[:n]))
    ),
    st.sampled_from(["m", "m", "m", "n"]),
)
STEPS = st.lists(
    st.one_of(
        HEADS,
        st.sampled_from(["read", "bash", "edit", "write", "unknown", "say", "fail", "lose"]),
        st.sampled_from([snapshot(["edit"], by="model"), snapshot([]), Note("active-tools", "?")]),
    ),
    max_size=14,
)


def recorded(steps):
    """Record steps as a harness would."""
    session = record(Session(), user("begin " * 9))
    for place, step in enumerate(steps):
        if isinstance(step, Head | Note):
            session = record(session, step)
        elif step == "say":
            session = record(turn(session, "ok " * place), user("more"))
        elif step == "fail":
            session = turn(session, "lost", ToolCall("gone", "edit"), outcome="failed")
        elif step == "lose":
            session = turn(session, outcome="lost")
        else:
            session = calling(session, step)
    return session


@given(STEPS)
def test_heads_are_told_as_account_drift_and_replay_have_them(steps):
    session = recorded(steps)
    found = resident_head(session)
    run = replay(session, plan("none", budget=10**6))
    assert (found.input, found.cost, len(found.requests)) == (run.input, run.cost, run.requests)
    assert (found.input, [one.rebilled for one in found.drift]) == (
        account(session).input, [b.rebilled for b in account(session).breaks],
    )  # fmt: skip
    assert [one.changes for one in found.drift] == [one.changes for one in drift(session)]
    views = [s.view for s in resend(session, pipeline())]
    for one, view in zip(found.requests, views, strict=True):
        assert one.system + one.tools == chars4(view.head)
        assert one.names == tuple(t.name for t in view.head.tools)
        assert one.billed <= chars4(view.head) + view.slots.total(chars4, view.end)
        assert one.kind in ("no-op", "initial") or one.changes
    assert [one.rebilled for one in found.drift] == [one.rebilled for one in drift(session)]
    rows = head_rows(found)
    assert sum(row["requests"] for row in rows) == len(found.requests)
    assert json.loads(json.dumps(rows)) == rows
    assert [row["first"] for row in rows][1:] == [
        one.request for one in found.requests[1:] if one.changes
    ]


def test_what_is_held_back_are_the_tools_that_some_head_has():
    session = turn(stated(head=evolve(HEAD, tools=CORE)), "ok")
    session = turn(record(session, HEAD, user("go on")), "ok")
    one, other = resident_head(session).requests
    assert (one.kind, one.held, other.held) == ("initial", chars4(Head(tools=FOREIGN)), 0)
    assert (other.kind, other.activated) == ("fallback", ("web_search", "image", "mail"))
    assert one.system == chars4(Head(system=SYSTEM))
    known = resident_head(session, registered=(*REGISTERED, Tool("more", "x" * 398)))
    assert [r.held for r in known.requests] == [one.held + 101, 101]
    disabled = ToolPolicy(disabled=("web_search", "image", "mail"))
    assert resident_head(session, policy=disabled).requests[0].held == 0


def test_the_recorded_activations_say_of_which_class_a_change_is():
    session = played(activate_two_and_reset)
    kinds = [one.kind for one in resident_head(session).drift]
    assert kinds == ["native-candidate", "native-candidate", "fallback"]
    # By the host, or in another order, it is none that a provider could load.
    late = record(turn(stated(head=evolve(HEAD, tools=CORE)), "ok"), user("more"))
    for note, tools, kind in [
        (snapshot(["mail"]), (*CORE, FOREIGN[2]), "fallback"),
        (snapshot(["mail"], by="model"), (*CORE, FOREIGN[2]), "native-candidate"),
        (snapshot(["image"], by="model"), (*CORE, FOREIGN[2]), "fallback"),
        (snapshot(["mail"], by="model"), (FOREIGN[2], *CORE), "fallback"),
        (snapshot([], by="model"), CORE[:2], "fallback"),
        (snapshot([], by="model"), CORE[::-1], "fallback"),
        (snapshot([], by="model"), (evolve(CORE[0], description="New"), *CORE[1:]), "no-op"),
    ]:
        changed = turn(record(late, note, evolve(HEAD, tools=tools)), "ok")
        (one,) = resident_head(changed).drift
        assert one.kind == kind
        assert one.rebilled == account(changed).rebilled > 0


def test_a_head_that_comes_back_is_still_cached():
    session = turn(record(turn(stated(), "ok"), HEAD, user("a")), "ok")
    other = evolve(HEAD, system="other")
    session = turn(record(session, other, user("b")), "ok")
    session = turn(record(session, HEAD, user("c")), "ok")
    there, back = resident_head(session).drift
    # The tools stand in front of the system text.
    assert there.billed == there.rebilled - chars4(Head(tools=HEAD.tools))
    assert 0 < back.billed < back.rebilled - chars4(HEAD)
    small = resident_head(session, cache=cache_named("blocks:64")).drift
    assert [one.rebilled for one in small] == [there.rebilled, back.rebilled]
    assert there.billed <= small[0].billed < there.billed + 64


def test_heads_hold_under_every_pipeline_and_only_the_prices_differ():
    session = worked(begun(None)).says("ok").hears().session
    session = turn(record(session, evolve(HEAD, tools=HEAD.tools[:5])), "ok")
    everything = resident_head(session)
    paged = resident_head(session, plan("paging", budget=1_900).settle)
    assert names(paged) == names(everything)
    assert 0 < paged.drift[0].rebilled < everything.drift[0].rebilled
    assert paged.drift[0].gone == ("image", "mail")
    options = {"cache": cache_named("anthropic")}
    default, planned = (resident_head(session, planned=p, **options) for p in (False, True))
    assert default.input == planned.input
    (run,) = {replay(session, Plan("x", pipeline(), 9), cache=options["cache"]).cost}
    assert default.cost == run


def test_what_is_loaded_behind_the_head_is_measured_where_it_stands():
    session = played(activate_one, deferred=True)
    held, loaded = told(session), told(session, deferred=True)
    weight = chars4(Head(tools=FOREIGN[:1]))
    assert [one.behind for one in loaded.requests] == [0] * 5 + [weight] * 3
    assert all(abs(one.held - other.held) <= weight + 1 for one, other in zip(
        held.requests, loaded.requests, strict=True,
    ))  # fmt: skip
    assert abs(loaded.input - held.input - 3 * weight) <= 3
    assert loaded.resident == sum(one.tools for one in held.requests) + 3 * weight
    # It is written once, and read from then on.
    assert abs(loaded.cost - held.cost - weight * (125 + 10 + 10)) <= 125 + 10 + 10


def cut_before(session, text):
    """Cut all that was read in front of the last message, where that says so."""
    if session.view.messages()[-1] != user(text):
        return session
    *_, number = session.view.slots.numbers[: session.view.end - 2]
    return record(session, Cut(number, user("Before."), "old", breaks=True))


def test_what_was_given_back_is_sent_on_and_can_not_be_called():
    session = played(activate_two_and_reset, deferred=True)
    found = told(session, deferred=True)
    changed = [one for one in found.requests[1:] if one.kind != "no-op"]
    assert [one.activated for one in changed] == [("web_search",), ("mail",), ()]
    assert [one.gone for one in changed] == [(), (), ("web_search", "mail")]
    assert [one.kind for one in changed] == ["native-candidate"] * 2 + ["fallback"]
    assert {(one.rebilled, one.billed) for one in changed} == {(0, 0)}
    assert changed[-1].loaded == ("web_search", "mail")
    assert [row["first"] for row in head_rows(found)] == [0, *(one.request for one in changed)]
    late = calling(record(session, user("Once more.")), "mail")
    policy = evolve(POLICY, gateways=())
    assert compare_tools(late, policy, deferred=True).unmet == ()
    # Where its result is cut it is sent no longer, and nothing else becomes of it.
    late = turn(record(session, user("On.")), "ok")
    cut = pipeline(lambda s: s if s.view.front else cut_before(s, "On."))
    last = resident_head(late, cut, policy=POLICY, registered=REGISTERED, deferred=True)
    *_, one, other = last.requests
    assert (one.loaded, other.loaded) == (("web_search", "mail"), ())
    assert (other.kind, other.changes, other.rebilled, other.billed) == ("no-op", (), 0, 0)
    assert head_rows(last)[-1]["first"] == other.request


def test_a_recorded_head_may_hold_tools_that_the_provider_loads():
    web = Tool("web", "", '{"name":"web","defer_loading":true,"input_schema":{}}')
    session = stated(head=Head(tools=(CORE[0], web)))
    session = turn(calling(session, "read"), ToolCall("s", "tool_search"))
    found = tool_result("t", (Opaque("tool_reference", '{"tool_name":"web"}'),))
    session = record(turn(session, "ok"), user("more"))
    session, _ = send(session)
    session = record(reply(session, "completed", assistant(ToolCall("t", "find"))), found)
    session = turn(record(turn(session, "ok"), evolve(session.head, system="x"), user("y")), "ok")
    requests = resident_head(session).requests
    assert immediate(session.head).tools == (CORE[0],)
    assert {one.names for one in requests} == {("read",)}
    held = chars4(Head(tools=(web,)))
    assert [(one.held, one.behind) for one in requests] == [(held, 0)] * 4 + [(0, held)] * 2
    assert [one.kind for one in requests[1:]] == ["no-op"] * 3 + ["fallback", "no-op"]
    assert requests[4].activated == requests[4].loaded == ("web",)
    assert (requests[4].rebilled, requests[4].billed) == (0, 0)
    assert requests[5].billed == requests[5].rebilled - chars4(Head(tools=(CORE[0],)))
    # The policy leaves that to who did it, and there is nothing else to hold back.
    compared = compare_tools(session, ToolPolicy(core=("read",), gateways=()))
    assert compared.under == compared.without == resident_head(session)


# What holding tools back would have made of it


@pytest.mark.parametrize("scenario", [use_none, activate_one])
@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("cache", ["ideal", "anthropic"])
def test_it_is_what_a_harness_with_the_policy_would_have_sent(scenario, deferred, cache):
    harness = played(scenario, None)
    options = {"deferred": deferred, "cache": cache_named(cache)}
    held = compare_tools(harness, POLICY, **options)
    assert held.without == resident_head(harness, **options)
    assert held.under == told(played(scenario, deferred=deferred), **options)
    assert held.net == held.without.cost - held.under.cost
    assert held.unmet == ()
    assert (held.net > 0) == (deferred or scenario is use_none)
    if scenario is activate_one:
        (one,) = held.under.activations
        price = 0 if deferred else account(played(scenario)).rebilled
        assert (one.rebilled, one.billed) == (price, price)
        assert len(held.under.requests) == len(held.without.requests) + 1


def test_a_policy_that_is_off_changes_nothing():
    session = calling(worked(begun(None)).session, "mail")
    held = compare_tools(session, ToolPolicy(enabled=False))
    assert held.under == held.without
    assert held.net == 0
    session = turn(record(session, evolve(HEAD, tools=HEAD.tools[::-1])), "ok")
    held = compare_tools(session, ToolPolicy(enabled=False))
    assert held.under == held.without
    for deferred in (False, True):
        session = played(activate_two_and_reset, deferred=deferred)
        held = compare_tools(session, ToolPolicy(enabled=False), deferred=deferred)
        assert held.under == held.without
    off = tool_policy({"modelOverrides": {"other": {"enabled": False}}})
    there = evolve(HEAD, route=Route("p", "other"))
    held = compare_tools(turn(record(turn(stated(), "ok"), there, user("x")), "ok"), off)
    assert names(held.under) == [("lazy",), tuple(t.name for t in HEAD.tools)]


def test_calls_that_the_policy_never_lets_in_are_told():
    session = calling(calling(calling(stated(), "mail"), "image"), "nowhere")
    policy = evolve(POLICY, disabled=("mail",))
    held = compare_tools(session, policy)
    assert held.unmet == (("mail", 1),)
    assert all("mail" not in one.names for one in held.under.requests)
    assert "Calls of tools that the request would not have had: mail 1." in head_verdict(held)
    assert compare_tools(session, POLICY).unmet == ()
    assert compare_tools(session, POLICY, deferred=True).unmet == ()


def test_a_head_that_has_to_wait_for_the_end_of_a_loop_is_told():
    head = evolve(HEAD, route=Route("anthropic", "m", binding="leading"))
    session = turn(stated(head=head), Thinking("hm", "s"), ToolCall("c", "read"))
    session = turn(calling(session, "mail"), "Sent.")
    session = turn(record(session, user("Thanks.")), "ok")
    held = compare_tools(session, POLICY)
    assert held.unmet == (("mail", 1),)
    assert [one.activated for one in held.under.requests if one.activated] == [("mail",)]
    assert held.under.requests[-1].activated == ("mail",)
    assert compare_tools(session, POLICY, deferred=True).unmet == ()


def test_a_recorded_head_waits_where_a_decision_that_is_left_out_had_made_room_for_it():
    head = evolve(HEAD, route=Route("anthropic", "m", binding="leading"))
    session = turn(turn(stated(head=head), Thinking("hm", "s")), "ok")
    session = record(session, Cut(1, user("Before."), "old", breaks=True))  # hides the thinking
    session = calling(session, "read")
    session = turn(turn(record(session, evolve(head, tools=CORE)), "ok"), "ok")
    recorded = [view.head.tools for node, view in walk(session) if node.entry.kind == "sent"]
    assert recorded == [HEAD.tools] * 3 + [CORE] * 2
    # The request that was sent between the two heads comes to its end first.
    assert names(resident_head(session)) == [tuple(t.name for t in HEAD.tools)] * 4 + [NAMES]
    held = compare_tools(session, POLICY)
    assert names(held.without) == names(resident_head(session))
    assert names(held.under) == [(*NAMES, "lazy")] * 5


def test_the_gateway_is_the_policys_own():
    session = calling(worked(begun(None)).session, "mail")
    session = turn(session, "ok")
    for gateways, gateway in [
        (("find_capability", "lazy"), FIND_CAPABILITY),
        (("nothing", "lazy"), LAZY),
        (("tool_search",), TOOL_SEARCH),
    ]:
        under = compare_tools(session, evolve(POLICY, gateways=gateways)).under
        assert under.requests[0].names == (*NAMES, gateway.name)
        assert under.requests[-1].names == (*NAMES, gateway.name, "mail")
        assert under.activations[0].kind == "native-candidate"
        assert len(under.requests) == 7
    # Without one the harness activates the tool, and no request is needed for that.
    for gateways in ((), ("nothing",)):
        held = compare_tools(session, evolve(POLICY, gateways=gateways), deferred=True)
        assert len(held.under.requests) == len(held.without.requests) == 6
        (one,) = held.under.activations
        assert (one.kind, one.names) == ("fallback", (*NAMES, "mail"))
    # The recorded one stays, and answers.
    own = evolve(HEAD, tools=(Tool("tools", "Find tools"), *HEAD.tools))
    session = calling(stated(head=own), "mail")
    under = compare_tools(session, evolve(POLICY, gateways=("tools", "lazy"))).under
    assert [len(n) for n in names(under)] == [5, 6]
    assert under.requests[1].names == ("tools", *NAMES, "mail")


def test_tools_that_were_called_together_are_activated_together():
    session = turn(stated(), *(ToolCall(name, name) for name in ("mail", "read", "image", "mail2")))
    session = calling(session, "mail")
    under = compare_tools(session, POLICY).under
    assert [one.activated for one in under.requests] == [(), ("mail", "image"), ()]


def test_what_later_heads_say_holds_under_the_policy():
    session = worked(begun(None)).session
    new = tuple(evolve(t, description=f"New: {t.description}") for t in CORE)
    extra = Tool("grep", "Search files")
    later = Head(HEAD.route, "It is late.", (*new, extra, FOREIGN[0]))
    session = turn(record(session, later, user("more")), "ok")
    policy = evolve(POLICY, core=(*NAMES, "grep"))
    held = compare_tools(session, policy)
    assert held.under.requests[-1].names == (*NAMES, "lazy", "grep")
    assert held.under.requests[-1].system == chars4(Head(system="It is late."))
    places = {change.place for change in held.under.requests[-1].changes}
    assert places == {"tools", "system", *(f"{name}: description" for name in NAMES)}
    assert held.without.requests[-1].gone == ("image", "mail")
    # Tools in another order, or gone from a head, are a break for the harness alone.
    flipped = turn(record(worked(begun(None)).session, evolve(HEAD, tools=HEAD.tools[::-1])), "ok")
    held = compare_tools(flipped, POLICY)
    assert (len(held.without.drift), len(held.under.drift)) == (1, 0)


def test_what_others_switch_follows_the_recording():
    policy = evolve(POLICY, externally_managed=("image",))
    session = turn(stated(head=evolve(HEAD, tools=CORE)), "ok")
    for tools in (HEAD.tools, CORE, HEAD.tools):
        session = turn(record(session, evolve(HEAD, tools=tools), user("more")), "ok")
    held = compare_tools(session, policy)
    assert names(held.under) == [
        (*NAMES, "lazy"), (*NAMES, "lazy", "image"), (*NAMES, "lazy"), (*NAMES, "lazy", "image"),
    ]  # fmt: skip


def test_recorded_activations_hold_beside_those_of_the_policy():
    session = played(activate_two_and_reset)
    held = compare_tools(session, POLICY)
    # The model had to activate everything then, too: nothing differs.
    assert held.under == told(session)
    assert held.net == 0
    host = record(turn(stated(), "ok"), snapshot(["mail"]), Note("active-tools", "{}"), user("a"))
    host = turn(record(calling(host, "image"), snapshot([]), user("b")), "ok")
    assert names(compare_tools(host, POLICY).under) == [
        (*NAMES, "lazy"),
        (*NAMES, "lazy", "mail"),
        (*NAMES, "lazy", "mail", "image"),
        (*NAMES, "lazy"),
    ]


def test_stages_that_need_what_was_activated_find_it_in_a_replay():
    session = played(activate_one)
    settle = pipeline(
        lambda s: resident_tools(s, policy=POLICY, registered=REGISTERED),
    )
    assert resident_head(session, settle, registered=REGISTERED) == told(session)


def test_a_pipeline_runs_in_front_of_the_policy():
    session = worked(begun(None)).says("ok").hears().session
    session = turn(calling(session, "mail"), "ok")
    settle = pipeline(lambda s: select(s, budget=2_150, target=1_900))
    held = compare_tools(session, POLICY, settle)
    assert held.without.cost == replay(session, Plan("x", settle, 2_150)).cost
    assert names(held.under)[-1] == (*NAMES, "lazy", "mail")


def test_a_result_that_is_cut_takes_the_loaded_tool_into_the_head():
    session = record(turn(calling(stated(), "mail"), "ok"), user("more"))
    session = turn(session, "ok")

    def cut(s):
        view = s.view
        if view.end > 6 and view.slots.messages[view.end - 1].role == "user" and not view.front:
            return record(s, Cut(view.slots.numbers[4], user("Before."), "old", breaks=True))
        return s

    under = compare_tools(session, POLICY, cut, deferred=True).under
    assert [one.loaded for one in under.requests] == [(), ("mail",), ("mail",), ()]
    assert under.requests[-1].names == (*NAMES, "lazy", "mail")
    assert under.requests[-1].activated == ()
    assert under.requests[-1].kind == "no-op"
    assert [change.kind for change in under.requests[-1].changes] == ["added"]


def test_a_request_that_could_not_be_sent_is_passed_over():
    thought = assistant(Thinking("hm", "s"))
    session = record(Session(), thought, thought, Head(Route("other"), "s", HEAD.tools))
    session = calling(session, "mail")
    held = compare_tools(turn(session, "ok"), POLICY)
    assert names(held.without) == [(), tuple(t.name for t in HEAD.tools)]
    assert names(held.under) == [("lazy",), ("lazy", *NAMES)]


POLICIES = st.builds(
    ToolPolicy,
    enabled=st.sampled_from([True, True, False]),
    gateways=st.sampled_from([("lazy",), (), ("write",)]),
    core=st.sets(st.sampled_from(["read", "bash", "edit"])).map(tuple),
    always_active=st.sets(st.sampled_from(["bash", "write"]), max_size=1).map(tuple),
    disabled=st.sets(st.sampled_from(["read", "edit"]), max_size=1).map(tuple),
    externally_managed=st.sets(st.sampled_from(["write", "edit"]), max_size=1).map(tuple),
)


@given(STEPS, POLICIES, st.booleans())
def test_whatever_was_recorded_it_can_be_told(steps, policy, deferred):
    session = recorded(steps)
    before = encode(session)
    held = compare_tools(session, policy, deferred=deferred)
    assert encode(session) == before
    assert compare_tools(session, policy, deferred=deferred) == held
    asked = len(held.under.requests) - len(held.without.requests)
    assert 0 <= asked <= sum(bool(one.activated) for one in held.under.requests) + 2
    there = {*named_tools(session)}
    for one in held.under.requests:
        assert {*one.names} <= there | {"lazy"}
        assert len({*one.names}) == len(one.names)
        if policy.enabled:
            assert not {*one.names} & ({*policy.disabled} - {*policy.gateways})
        if one.kind == "native-candidate":
            assert not one.gone
        assert bool(one.rebilled) <= bool(one.changes)
    assert {name for name, _ in held.unmet} <= there
    assert head_verdict(held).isprintable()


@pytest.mark.parametrize("deferred", [False, True])
def test_a_head_that_stands_is_not_measured_again(deferred):
    def counted(size):
        calls = 0

        def measure(value):
            nonlocal calls
            calls += 1
            return chars4(value)

        session = stated()
        for _ in range(size):
            session = calling(session, "read")
        compare_tools(calling(session, "mail"), POLICY, deferred=deferred, measure=measure)
        return calls

    small, large = counted(40), counted(80)
    assert large <= 2 * small


# In words


def mean(head):
    return -(-sum(one.tools + one.behind for one in head.requests) // len(head.requests))


def test_a_verdict_says_what_is_saved_and_what_it_costs():
    session = calling(worked(begun(None)).session, "web_search")
    held = compare_tools(turn(session, "ok"), POLICY)
    price = account(played(activate_one)).rebilled
    assert head_verdict(held) == (
        f"Held back, tools are {mean(held.under)} tokens of a request instead of "
        f"{mean(held.without)}. Activating 1 tool takes 1 request more, and {price:,} tokens "
        f"re-billed, {price:,} of them not cached. It would have cost {round(-held.net / 100):,} "
        f"tokens at their full price, of {-(-held.without.cost // 100):,} "
        f"({-held.net / held.without.cost:.1%})."
    )
    held = compare_tools(session, ToolPolicy(core=NAMES, gateways=()), deferred=True)
    assert "Activating 1 tool takes 0 requests more, and " in head_verdict(held)
    assert head_verdict(Held(Residency((), 0, 0), Residency((), 0, 0))) == (
        "Held back, tools are 0 tokens of a request instead of 0. No tool is activated. "
        "It would have saved 0 tokens at their full price, of 0 (0.0%)."
    )


def test_what_changed_is_said_in_a_line():
    session = turn(stated(head=evolve(HEAD, system="It is 09:12.")), "ok")
    later = Head(system="It is 09:31.", tools=(*CORE[:3], *FOREIGN, LAZY))
    session = turn(record(session, later, user("x")), "ok")
    _, row = head_rows(resident_head(session))
    assert what(row) == "+lazy, -write, system, from 9 on: '12.' became '31.' (date)"
    row["changes"] *= 9
    assert len(what(row)) == 80
    assert what(row).endswith("…")
    assert (row["activated"], row["gone"], row["class"]) == (["lazy"], ["write"], "fallback")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: resident_head(5), lambda: resident_head(Session(), 5),
        lambda: resident_head(Session(), policy=5), lambda: resident_head(Session(), registered=5),
        lambda: resident_head(Session(), deferred=1), lambda: resident_head(Session(), planned=1),
        lambda: resident_head(Session(), cache=5), lambda: resident_head(Session(), measure=5),
        lambda: compare_tools(5, POLICY), lambda: compare_tools(Session(), 5),
        lambda: compare_tools(Session(), POLICY, 5),
        lambda: compare_tools(Session(), POLICY, deferred=1),
        lambda: compare_tools(Session(), POLICY, cache=5),
        lambda: compare_tools(Session(), POLICY, planned=1),
        lambda: compare_tools(Session(), POLICY, measure=5),
        lambda: head_rows(5), lambda: head_verdict(5), lambda: load_policy(5),
    ],
)  # fmt: skip
def test_what_does_not_belong_there_is_refused(wrong):
    with pytest.raises(InvalidArgument) as caught:
        wrong()
    assert caught.value.code == "wrong-type"


# A file with a policy


def test_a_policy_is_read_from_a_file(tmp_path):
    file = tmp_path / "policy.json"
    file.write_text('{"core":["read"],"modelOverrides":{"gpt-*":{"enabled":false}}}')
    assert load_policy(str(file)) == tool_policy(json.loads(file.read_text()))
    file.write_text('[{"core":["read"]},{"core":null,"disabled":["rm"]},\n{}]')
    assert load_policy(str(file)) == tool_policy({"core": ["read"], "disabled": ["rm"]})
    file.write_text("[]")
    assert load_policy(str(file)) == ToolPolicy()


@pytest.mark.parametrize(
    ("data", "error", "code", "place"),
    [
        (b"", DecodeError, "empty-file", None),
        (b'{"core":\n["\xff"]}', DecodeError, "invalid-utf8", 2),
        (b'{"core":\n["read"}', DecodeError, "invalid-json", 2),
        (b'{"core":\n[NaN]}', DecodeError, "invalid-number", 2),
        (b'{"core":\n["\\ud800"]}', DecodeError, "lone-surrogate", 2),
        (b"[" * 10_000, DecodeError, "too-deep", 1),
        (b"5", InvalidArgument, "wrong-type", "0"),
        (b"null", InvalidArgument, "wrong-type", "0"),
        (b'["core"]', InvalidArgument, "wrong-type", "0"),
        (b'[{},{"core":"read"}]', InvalidArgument, "wrong-type", "1.core"),
        (b'{"core":["read",5]}', InvalidArgument, "wrong-type", "0.core[1]"),
        (b'{"enabled":"no"}', InvalidArgument, "wrong-type", "0.enabled"),
        (b'{"tools":[]}', InvalidArgument, "extra-field", "0"),
        (b'{"modelOverrides":{"a":[]}}', InvalidArgument, "wrong-type", "0.modelOverrides.a"),
    ],
)
def test_what_is_no_policy_is_told_with_its_place(tmp_path, capsys, data, error, code, place):
    file = tmp_path / "policy.json"
    file.write_bytes(data)
    with pytest.raises(error) as caught:
        load_policy(str(file))
    assert (caught.value.code, caught.value.file) == (code, str(file))
    assert place in (caught.value.line, caught.value.field)
    session = tmp_path / "s.jsonl"
    session.write_bytes(encode(stated()))
    assert main(["replay", str(session), "--tools", str(file)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"error: {code}: ")
    assert str(file) in err


# The command


@pytest.fixture
def journal(tmp_path):
    def write(session):
        file = tmp_path / "s.jsonl"
        file.write_bytes(encode(session))
        return str(file)

    return write


@pytest.fixture
def policy(tmp_path):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"core": NAMES}))
    return str(file)


def command(capsys, *arguments):
    assert main(["replay", *arguments, "--pipeline", "none"]) == 0
    return capsys.readouterr().out


def table(out):
    """Read the table of heads: the cells of each row."""
    lines = out.split("\nhead ")[1].split("\n\n")[0].splitlines()[2:]
    return [line.split() for line in lines]


def test_the_head_is_shown(capsys, journal):
    file = journal(played(activate_two_and_reset))
    out = command(capsys, file)
    assert [row[:3] for row in table(out)] == [
        ["recorded", "0", "5"], ["recorded", "5", "2"], ["recorded", "7", "2"],
        ["recorded", "9", "2"],
    ]  # fmt: skip
    assert [row[-1] for row in table(out)][1:3] == ["+web_search", "+mail"]
    assert " -web_search, -mail\n" in out
    found = json.loads(command(capsys, file, "--json"))
    assert found["head"] == head_rows(resident_head(played(activate_two_and_reset)))
    assert "tools" not in found


def test_what_a_policy_would_have_saved_is_shown(capsys, journal, policy):
    session = played(activate_one, None)
    file = journal(session)
    for options in ([], ["--deferred"], ["--cache", "anthropic", "--breakpoints", "planned"]):
        out = command(capsys, file, "--tools", policy, *options)
        held = compare_tools(
            session,
            POLICY,
            deferred="--deferred" in options,
            cache=cache_named("anthropic" if "--cache" in options else "ideal"),
            planned="planned" in options,
        )
        assert " ".join(head_verdict(held).split()) in " ".join(out.split())
        rows = table(out)
        assert [row[0] for row in rows] == ["recorded", "policy", "policy"]
        found = json.loads(command(capsys, file, "--tools", policy, *options, "--json"))
        tools = found["tools"]
        assert tools["head"] == head_rows(held.under)
        assert tools["net"] == (held.net + 50) // 100
        assert (tools["requests"], tools["unmet"]) == (8, {})
        assert tools["cost_without"] == found["runs"][0]["cost"] or "planned" in options
        assert tools["resident_tokens"] < tools["resident_tokens_without"]
        assert tools["input_tokens_without"] == found["runs"][0]["input_tokens"]
    assert out.splitlines()[-1].startswith("Sending everything is ")


def test_a_file_without_a_head_is_told_so(capsys, tmp_path, journal, policy):
    example = str(Path(__file__).resolve().parents[1] / "docs" / "example-session.jsonl")
    assert NO_HEAD in " ".join(command(capsys, example).split())
    out = " ".join(command(capsys, example, "--tools", policy).split())
    assert f"{NO_HEAD} {NO_TOOLS}" in out
    found = json.loads(command(capsys, example, "--tools", policy, "--json"))
    assert (found["head"], found["tools"]) == (None, None)
    # A system text, and no tools.
    file = journal(turn(stated(head=Head(system="Be brief.")), "ok"))
    out = " ".join(command(capsys, file, "--tools", policy).split())
    assert NO_TOOLS in out
    assert NO_HEAD not in out
    assert table(command(capsys, file))[0][:5] == ["recorded", "0", "1", "3", "0"]
    found = json.loads(command(capsys, file, "--tools", policy, "--json"))
    assert (len(found["head"]), found["tools"]) == (1, None)
    # Tools, and no request.
    for head in (HEAD, Head(system="s")):
        file = journal(stated(head=head))
        assert NO_HEAD in " ".join(command(capsys, file, "--tools", policy).split())


def test_names_of_tools_can_not_steer_the_terminal(capsys, journal, policy):
    hostile = Tool("\x1b[31mred\u202e", "x" * 90)
    session = turn(stated(head=evolve(HEAD, tools=CORE)), "ok")
    session = turn(record(session, evolve(HEAD, tools=(*CORE, hostile)), user("x")), "ok")
    session = calling(session, hostile.name)
    out = command(capsys, journal(session), "--tools", policy)
    assert "+\\x1b[31mred\\u202e" in out
    assert "\x1b" not in out


SESSIONS = [
    "openai-chat/pydantic__pydantic-ai__test_deepseek_deferred_capability_with_thinking",
    "anthropic-messages/pydantic__pydantic-ai__test_multiple_parallel_tool_calls",
    "openai-responses/pydantic__pydantic-ai__test_openai_client_tool_search_streaming",
    "gemini-contents/pydantic__pydantic-ai__test_google_model_retry",
]


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded sessions are not here")
def test_recorded_requests_of_real_harnesses_are_told(name):
    session = load(str(SHARED / f"{name}.yaml")).session
    found = resident_head(session)
    assert found.stated
    assert len(found.requests) == recorded_requests(session)
    held = compare_tools(session, ToolPolicy())
    assert held.without == found
    assert isinstance(head_verdict(held), str)
