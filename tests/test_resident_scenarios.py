"""What resident tools cost, scenario by scenario, in sessions that a small harness plays.

The tools are those of a coding agent and three others with schemas of 600 characters. Each scenario
is played three times: as the harness is by itself, with its tools held back, and with a provider
that loads tools at a result. The figures stand in the reference, and are measured again here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Head,
    Session,
    Tool,
    ToolCall,
    account,
    assistant,
    chars4,
    project,
    record,
    reply,
    requests,
    send,
    tool_result,
    user,
)
from ctxalgebra.codecs import encode_request
from ctxalgebra.codecs.journal import decode, encode
from ctxalgebra.ledger import CACHED, WRITTEN
from ctxalgebra.model.session import path, walk
from ctxalgebra.replay import cache_named, resident_head
from ctxalgebra.resident import (
    LAZY,
    ToolPolicy,
    activated_tools,
    active_tools,
    deferred_tools,
    held_back,
    reset,
    resident_tools,
    respond_discovery,
    worth_activating,
)

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "resident.md"


def tool(name, about, size):
    """Make a tool whose schema has so many characters."""
    start, end = f'{{"type":"object","properties":{{"{name[0]}":{{"description":"', '"}}}'
    words = (about + " ") * size
    return Tool(name, about, start + words[: size - len(start) - len(end)] + end)


CORE = tuple(
    tool(name, about, 300)
    for name, about in [
        ("read", "Read a file"), ("bash", "Run a command"), ("edit", "Edit a file"),
        ("write", "Write a file"),
    ]
)  # fmt: skip
FOREIGN = tuple(
    tool(name, about, 600)
    for name, about in [
        ("web_search", "Search the web"), ("image", "Generate an image"), ("mail", "Send a mail"),
    ]
)  # fmt: skip
NAMES = tuple(t.name for t in CORE)
POLICY = ToolPolicy(core=NAMES)
SYSTEM = "You are a coding agent. " * 200
HEAD = Head(system=SYSTEM, tools=(*CORE, *FOREIGN))
REGISTERED = (*HEAD.tools, LAZY)


def named(*names):
    return tuple(t for name in names for t in REGISTERED if t.name == name)


@frozen
class Agent:
    """A harness in the middle of a session; `policy` is None where it has no resident tools."""

    session: Session
    policy: ToolPolicy | None = POLICY
    deferred: bool = False

    def settled(self):
        if self.policy is None:
            return self
        options = {"policy": self.policy, "registered": REGISTERED, "deferred": self.deferred}
        return evolve(self, session=resident_tools(self.session, **options))

    def says(self, *parts):
        """Send a request, and let the model reply."""
        session, _ = send(self.settled().session)
        return evolve(self, session=reply(session, "completed", assistant(*parts)))

    def calls(self, name, result="x" * 400):
        """Let the model call a tool."""
        number = f"c{len(self.session)}"
        after = self.says(ToolCall(number, name))
        return evolve(after, session=record(after.session, tool_result(number, result)))

    def finds(self, **arguments):
        """Let the model call the gateway, which a harness without one doesn't have."""
        if self.policy is None:
            return self
        call = ToolCall(f"c{len(self.session)}", LAZY.name, json.dumps(arguments))
        after = self.says(call)
        options = {"policy": self.policy, "registered": REGISTERED}
        entries = respond_discovery(after.session, call, **options)
        return evolve(after, session=record(after.session, *entries))

    def hears(self, text="Go on."):
        return evolve(self, session=record(self.session, user(text)))


def begun(policy=POLICY, *, deferred=False, head=HEAD):
    return Agent(record(Session(), head, user("Look at the project. " * 20)), policy, deferred)


def worked(agent):
    """Work for a while with the tools that are there."""
    for name in ("read", "bash", "read", "edit"):
        agent = agent.calls(name)
    return agent


# The scenarios


def use_none(agent):
    return worked(agent).says("Nothing to look up.").hears().says("Done.")


def only_search(agent):
    agent = worked(agent).finds(search="search the web")
    return agent.says("Nothing to look up.").hears().says("Done.")


def activate_one(agent):
    agent = worked(agent).finds(activate=["web_search"])
    return agent.calls("web_search").says("Found.").hears().says("Done.")


def activate_two_and_reset(agent):
    agent = worked(agent).finds(activate=["web_search"]).calls("web_search")
    agent = agent.finds(activate=["mail"]).calls("mail").finds(reset=True)
    return agent.says("Sent.").hears().says("Done.")


def another_owner(agent):
    """Another extension puts a tool of its own into the head in front of each request."""
    theirs = FOREIGN[1]
    if agent.policy is not None:
        agent = evolve(agent, policy=evolve(agent.policy, externally_managed=(theirs.name,)))
    for name in ("read", "bash", "image"):
        head = agent.session.head
        if theirs not in head.tools:
            head = evolve(head, tools=(*head.tools, theirs))
            agent = evolve(agent, session=record(agent.session, head))
        agent = agent.calls(name)
    return agent.says("Done.")


SCENARIOS = {
    "use none of the three": use_none,
    "only search": only_search,
    "activate one tool, use it, next prompt": activate_one,
    "activate two one by one, reset": activate_two_and_reset,
    "another extension owns a tool": another_owner,
}


def played(scenario, policy=POLICY, *, deferred=False):
    return scenario(begun(policy, deferred=deferred)).session


def told(session, policy=POLICY, **options):
    return resident_head(session, policy=policy, registered=REGISTERED, **options)


def billed(session, cache="ideal"):
    """Give what a cache model makes of each request."""
    model, found = cache_named(cache), []
    state = model.start
    for request in requests(session):
        state, outcome = model.take(state, model.place(request))
        found.append(outcome)
    return found


def heads(session):
    return [view.head for node, view in walk(session) if node.entry.kind == "sent"]


# Searching


def test_searching_costs_nothing_but_its_own_exchange():
    session = played(only_search)
    assert account(session).rebilled == 0
    first, *rest = heads(session)
    assert all(encode_head(head) == encode_head(first) for head in rest)
    assert [one.kind for one in told(session).requests] == ["initial"] + ["no-op"] * 6
    # Without the search the same requests have the same prefix, token for token.
    plain = played(use_none)
    assert heads(plain)[0] == first
    exchange = [e.entry for e in path(session) if "web_search" in repr(e.entry)][-1]
    assert exchange.role == "tool"
    assert sum(one.read for one in billed(session)) > sum(one.read for one in billed(plain))
    assert all(not outcome.miss for outcome in billed(session)[1:])


def encode_head(head):
    """Give the bytes that stand in front of the messages."""
    request = project(record(Session(), head, user("x")))
    return json.dumps(encode_request(request)).encode()


# Activation


def at_activation(scenario=activate_one, **options):
    """Give the session right before the request that the first activation changes, and after it."""
    agent = worked(begun(**options)).finds(activate=["web_search"])
    return agent.session, agent.says("Found.").session


def test_where_the_provider_loads_tools_an_activation_bills_nothing_again():
    before, after = at_activation(deferred=True)
    assert worth_activating(before, named("web_search"), deferred=True).rebilled == 0
    assert account(after).rebilled == 0
    assert encode_head(heads(after)[-1]) == encode_head(heads(after)[0])
    assert all(not outcome.miss for outcome in billed(after)[1:])
    one = told(after, deferred=True).requests[-1]
    assert (one.activated, one.kind) == (("web_search",), "native-candidate")
    assert (one.rebilled, one.billed, one.loaded) == (0, 0, ("web_search",))
    (loaded,) = deferred_tools(after, policy=POLICY, registered=REGISTERED)
    assert loaded.tool == FOREIGN[0]
    # It is not free: it is read with each request from then on, where it stands.
    assert one.behind == chars4(Head(tools=FOREIGN[:1]))
    assert told(after, deferred=True).input > told(after).input


@pytest.mark.parametrize("cache", ["ideal", "anthropic"])
def test_elsewhere_it_costs_the_declared_price_to_the_token(cache):
    before, after = at_activation()
    worth = worth_activating(before, named("web_search"))
    (broke,) = account(after).breaks
    assert broke.rebilled == worth.rebilled > 2_000
    # The same requests, with the tool in the head from the start: what differs is the break.
    final = heads(after)[-1]
    whole = Session()
    for node in path(after):
        whole = record(whole, final if isinstance(node.entry, Head) else node.entry)
    broken, kept = billed(after, cache)[-1], billed(whole, cache)[-1]
    assert requests(after)[-1] == requests(whole)[-1]
    assert broken.read == 0
    assert kept.read == worth.rebilled
    assert broken.cost - kept.cost == worth.price == worth.rebilled * (WRITTEN - CACHED)
    # So over the whole session what was saved, less the price.
    costs = [sum(one.cost for one in billed(s, cache)) for s in (whole, after)]
    assert costs[0] - costs[1] == worth.saved - worth.price
    one = told(after, cache=cache_named(cache)).requests[-1]
    assert one.rebilled == one.billed == worth.rebilled


@given(st.integers(0, 12), st.integers(1, 3))
def test_the_price_is_right_wherever_the_activation_stands(turns, tools):
    names = [t.name for t in FOREIGN[:tools]]
    agent = begun()
    for _ in range(turns):
        agent = agent.calls("read")
    before = agent.finds(activate=names).session
    after = evolve(agent, session=before).says("ok").session
    worth = worth_activating(before, FOREIGN[:tools])
    assert account(after).rebilled == worth.rebilled == told(after).requests[-1].billed
    weight = worth.tokens * (WRITTEN + CACHED * turns)
    assert worth.saved == weight
    assert (worth.break_even <= turns + 1) == (worth.saved >= worth.price)


def test_what_is_held_back_is_what_the_requests_are_smaller_by():
    off, on = (begun(policy).says("ok").session for policy in (None, POLICY))
    held = held_back(on, policy=POLICY, registered=REGISTERED)
    saved = told(off).input - told(on).input
    assert abs(saved - (held.tokens - held.gateways)) <= 1  # each is rounded up by itself
    assert held.pays
    one = told(on).requests[0]
    assert (one.held, one.names) == (held.tokens, (*NAMES, "lazy"))


def test_two_activations_and_a_reset_are_three_breaks_and_the_start_set():
    session = played(activate_two_and_reset)
    broken = account(session).breaks
    assert [b.at for b in broken] == [-1, -1, -1]
    lists = [tuple(t.name for t in head.tools) for head in heads(session)]
    assert list(dict.fromkeys(lists)) == [
        (*NAMES, "lazy"),
        (*NAMES, "lazy", "web_search"),
        (*NAMES, "lazy", "web_search", "mail"),
    ]
    assert lists[0] == lists[-1]
    found = told(session)
    assert [one.kind for one in found.drift] == ["native-candidate"] * 2 + ["fallback"]
    assert [one.activated for one in found.drift] == [("web_search",), ("mail",), ()]
    assert found.drift[-1].gone == ("web_search", "mail")
    assert [one.rebilled for one in found.drift] == [b.rebilled for b in broken]
    # A cache that forgets nothing still has the start set's own prefix.
    *grown, back = found.drift
    assert [one.billed for one in grown] == [one.rebilled for one in grown]
    assert 0 < back.billed < back.rebilled
    loaded = played(activate_two_and_reset, deferred=True)
    assert account(loaded).rebilled == 0
    assert len({*heads(loaded)}) == 1


# The start set


def test_the_start_set_is_not_larger_than_what_the_harness_had():
    """Gateways aside, which are there only where the harness registers them."""
    for names in ((), ("read", "bash"), NAMES, (*NAMES, "web_search", "mail")):
        head = Head(system=SYSTEM, tools=named(*names))
        for registered in (HEAD.tools, REGISTERED):
            session = record(Session(), head, user("hi"))
            session = resident_tools(session, policy=POLICY, registered=registered)
            had, has = ([t.name for t in h.tools] for h in (head, session.head))
            added = ["lazy"] if registered is REGISTERED else []
            assert has == [name for name in had if name in NAMES] + added
            if not added:
                assert chars4(session.head) <= chars4(head)


@pytest.mark.parametrize("active", [CORE, HEAD.tools, FOREIGN[::-1], ()])
def test_a_policy_that_is_off_leaves_the_head_to_the_harness(active):
    head = evolve(HEAD, tools=active)
    off = ToolPolicy(enabled=False, core=NAMES)
    by_itself = worked(begun(None, head=head)).says("Done.").session
    assert worked(begun(off, head=head)).says("Done.").session == by_itself
    assert [encode_head(h) for h in heads(by_itself)] == [encode_head(head)] * 5


def test_another_owner_keeps_its_tool():
    session = played(another_owner)
    assert [t.name for t in heads(session)[0].tools] == [*NAMES, "image", "lazy"]
    assert len({*heads(session)}) == 1
    assert account(session).rebilled == 0
    # What the policy was not told of is held back at the start, and stays once its owner adds it.
    late = worked(begun())
    head = late.session.head
    late = evolve(late, session=record(late.session, evolve(head, tools=(*head.tools, FOREIGN[2]))))
    late = late.calls("mail").finds(activate=["web_search"]).finds(reset=True).says("ok")
    assert [t.name for t in late.session.head.tools] == [*NAMES, "lazy", "mail"]
    assert [b.at for b in account(late.session).breaks] == [-1, -1, -1]


# Resume


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("scenario", [only_search, activate_one, activate_two_and_reset])
def test_what_is_read_from_a_file_sends_the_same_bytes(scenario, deferred):
    session = played(scenario, deferred=deferred)
    again = decode(encode(session)).session
    assert again == session
    assert activated_tools(again) == activated_tools(session)
    sent = [Agent(s, deferred=deferred).hears().settled().session for s in (session, again)]
    options = {"policy": POLICY, "registered": REGISTERED}
    one, other = (
        json.dumps(encode_request(project(s))) + repr(deferred_tools(s, **options)) for s in sent
    )
    assert one == other
    # And nothing is re-billed by going on: the head is the one that was sent last.
    assert heads(session)[-1] == sent[1].head
    longer = Agent(sent[1], deferred=deferred).says("ok").session
    assert account(longer).rebilled == account(session).rebilled


def test_a_reset_that_no_request_followed_is_applied_after_a_resume():
    agent = worked(begun()).finds(activate=["mail"]).says("ok")
    stored = decode(encode(reset(agent.hears().session))).session
    assert [t.name for t in Agent(stored).settled().session.head.tools] == [*NAMES, "lazy"]
    assert active_tools(agent.session) == (*NAMES, "lazy", "mail")


# The figures


def figures(scenario):
    """Measure a scenario in the three ways: first request, all requests, re-billed, cost."""
    found = []
    for policy, deferred in ((None, False), (POLICY, False), (POLICY, True)):
        session = played(scenario, policy, deferred=deferred)
        head = told(session, deferred=deferred)
        first = chars4(heads(session)[0]) + chars4(requests(session)[0].messages[0])
        rebilled = account(session).rebilled
        found.append((first, len(head.requests), head.input, rebilled, -(-head.cost // 100)))
    return [" / ".join(f"{n:,}" for n in column) for column in zip(*found, strict=True)]


def test_the_figures_of_the_reference_are_these():
    rows = re.findall(r"^\| ([a-z ,]+) \| (.+/.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    said = {name: cells.split(" | ") for name, cells in rows}
    assert said == {name: figures(scenario) for name, scenario in SCENARIOS.items()}
    before, _ = at_activation()
    worth = worth_activating(before, named("web_search"))
    prose = " ".join(PAGE.read_text("utf-8").split())
    assert f"weighs {worth.tokens} tokens here, and it takes {worth.break_even} requests" in prose
    assert f"what its activation costs after {len(requests(before))}." in prose
