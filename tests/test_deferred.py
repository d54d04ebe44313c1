"""Deferred tools: how requests load them, what that bills, and that bodies come back."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Cut,
    Head,
    Image,
    InvalidArgument,
    Note,
    Opaque,
    Request,
    Route,
    Session,
    Text,
    Tool,
    ToolCall,
    account,
    assistant,
    breaks,
    byte_drift,
    chars4,
    drift,
    log,
    project,
    record,
    reply,
    send,
    tool_result,
    user,
)
from ctxalgebra.breakpoints import (
    TOOLS,
    Placed,
    common_place,
    default_breakpoints,
    looks_back,
    plan_breakpoints,
)
from ctxalgebra.cache_profiles import CacheProfile, cache_profile
from ctxalgebra.codecs import (
    CODECS,
    anthropic,
    gemini,
    journal,
    load,
    openai_chat,
    openai_responses,
)
from ctxalgebra.codecs.convert import convert
from ctxalgebra.loading import Deferred, immediate, is_deferred, is_whole, loads, referred
from ctxalgebra.model.view import HEAD
from ctxalgebra.profiles import PROFILES, violations
from ctxalgebra.replay import Anthropic
from ctxalgebra.resident import (
    LAZY,
    LOADED,
    TOOL_SEARCH,
    ToolPolicy,
    activate,
    deferred_tools,
    reset,
    resident_tools,
    respond_discovery,
    snapshot,
    tool_policy,
)

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions"
CLAUDE = Route("anthropic", "claude-opus-5")
NAMES = ["web", "zip", "mail", "db"]
TOOLS_OF = {name: Tool(name, f"Does {name}", '{"type":"object"}') for name in NAMES}
REGISTERED = (Tool("read", "Read a file"), LAZY, *TOOLS_OF.values())
POLICY = ToolPolicy(core=("read",))
APIS = {"anthropic": anthropic, "responses": openai_responses}


GONE, SPELLED, CHANGED = range(3)


def varied(tool, how):
    """Give a tool as another process may register it."""
    if how == GONE:
        return None
    schema, description = '{ "type": "object" }', f"Does {tool.name} well"
    return evolve(tool, schema=schema) if how == SPELLED else evolve(tool, description=description)


def begun(route=CLAUDE, tools=REGISTERED):
    session = record(Session(), Head(route, "Be brief.", tools[:1]), user("Begin"))
    return settled(session, tools)


def settled(session, registered=REGISTERED, policy=POLICY):
    return resident_tools(session, policy=policy, registered=registered, deferred=True)


def told(session, registered=REGISTERED, policy=POLICY):
    return deferred_tools(session, policy=policy, registered=registered)


def body_of(session, api=anthropic, **options):
    """Give the bytes that leave, of the request in flight."""
    given = told(session, **options)
    return json.dumps(api.encode_request(project(session), deferred=given)).encode()


def asked(session, *calls, registered=REGISTERED, policy=POLICY, between=()):
    """Send, let the model call gateways, and answer."""
    session = reply(send(session)[0], "completed", assistant(*calls))
    for call in calls:
        if call.name in ("lazy", "tool_search"):
            entries = respond_discovery(session, call, policy=policy, registered=registered)
        else:
            entries = (tool_result(call.id, f"result of {call.id}"),)
        session = record(session, *entries)
    return settled(record(session, *between), registered, policy)


def lazy(call, *names):
    return ToolCall(call, "lazy", json.dumps({"activate": names}))


# What leaves


def test_anthropic_gets_references_in_the_result_and_texts_behind_the_round():
    session = asked(begun(), lazy("c1", "web", "zip"), ToolCall("c2", "read"))
    session, request = send(session)
    body = anthropic.encode_request(request, deferred=told(session))
    assert [tool.get("defer_loading", False) for tool in body["tools"]] == [
        False,
        False,
        True,
        True,
    ]
    assert body["tools"][2] == {
        "name": "web", "description": "Does web", "input_schema": {"type": "object"},
        "defer_loading": True,
    }  # fmt: skip
    first, second, text = body["messages"][2]["content"]
    assert first["content"] == [
        {"type": "tool_reference", "tool_name": "web"},
        {"type": "tool_reference", "tool_name": "zip"},
    ]
    assert second["content"] == "result of c2"
    assert text["text"].startswith("Activated: web, zip.")
    loaded = anthropic.load_tools(request, told(session))
    assert violations(loaded.messages, PROFILES["anthropic"]) == ()
    assert anthropic.load_tools(request, ()) is request


def test_responses_gets_a_search_behind_the_round_and_the_same_tools():
    session = asked(
        begun(), lazy("c1", "web", "zip"), ToolCall("c2", "read"), between=(user("go"),)
    )
    session, request = send(session)
    body = openai_responses.encode_request(request, deferred=told(session))
    assert body["tools"] == openai_responses.encode_request(request)["tools"]
    kinds = [item["type"] for item in body["input"]]
    assert kinds[-5:] == [
        "function_call_output", "function_call_output", "tool_search_call", "tool_search_output",
        "message",
    ]  # fmt: skip
    call, output = body["input"][-3:-1]
    at = told(session)[0].at
    assert call["call_id"] == output["call_id"] == f"load_{at}"
    assert (call["execution"], call["arguments"]) == ("client", {"query": "web zip"})
    assert output["tools"][0] == {
        "type": "function", "name": "web", "description": "Does web",
        "parameters": {"type": "object"}, "defer_loading": True,
    }  # fmt: skip
    assert violations(openai_responses.load_tools(request, told(session)).messages,
                      PROFILES["openai-responses"]) == ()  # fmt: skip


def test_a_search_that_the_model_asked_for_gets_its_own_output():
    registered = (REGISTERED[0], TOOL_SEARCH, *TOOLS_OF.values())
    item = {
        "type": "tool_search_call",
        "execution": "client",
        "call_id": "s1",
        "status": "completed",
        "arguments": {"query": "mail"},
    }
    (message,) = openai_responses.decode_items([item])
    session = begun(Route("openai", "gpt-6"), registered)
    session = reply(send(session)[0], "completed", message)
    (call,) = message.calls
    session = record(
        session, *respond_discovery(session, call, policy=POLICY, registered=registered)
    )
    session, request = send(session)
    body = openai_responses.encode_request(request, deferred=told(session, registered))
    assert body["input"][1] == item
    output, text = body["input"][2:]
    assert (output["type"], output["call_id"]) == ("tool_search_output", "s1")
    assert [tool["name"] for tool in output["tools"]] == ["mail"]
    assert text["content"][0]["text"].startswith("Activated: mail.")
    # A function of that name, and a call whose origin says nothing, are functions.
    for origin in ("", "broken", '[{"type":"function_call","call_id":"s1","name":"tool_search"}]'):
        plain = Request(
            Head(), (user("a"), evolve(message, origin=origin), tool_result("s1", "ok"))
        )
        written = openai_responses.encode_request(
            plain, deferred=[Deferred(TOOLS_OF["mail"], 2, 2)]
        )
        assert [i["type"] for i in written["input"]][2:] == [
            "function_call_output", "tool_search_call", "tool_search_output",
        ]  # fmt: skip


def test_what_a_result_shows_goes_along_and_blanks_do_not():
    image = Image("aGk=", "image/png")
    result = tool_result("c1", (Text("a"), image, Text("  ")))
    request = Request(Head(tools=(LAZY,)), (user("a"), assistant(lazy("c1")), result))
    loaded = anthropic.load_tools(request, [Deferred(TOOLS_OF["web"], 2, 2)])
    assert loaded.messages[3:] == (user((Text("a"), image)),)
    silent = evolve(request, messages=(*request.messages[:2], tool_result("c1", " ")))
    loaded = anthropic.load_tools(silent, [Deferred(TOOLS_OF["web"], 2, 2)])
    assert len(loaded.messages) == 3
    # What refers to a tool already stays in its place.
    again = anthropic.load_tools(loaded, [Deferred(TOOLS_OF["zip"], 2, 2)])
    assert referred(again.messages[2]) == ("web", "zip")
    assert [tool.name for tool in again.head.tools] == ["lazy", "web", "zip"]


def test_what_was_not_loaded_yet_is_only_defined():
    request = Request(Head(tools=(LAZY,)), (user("a"),))
    given = [Deferred(TOOLS_OF["web"])]
    body = anthropic.encode_request(request, deferred=given)
    assert body["tools"][1]["defer_loading"] is True
    assert body["messages"] == anthropic.encode_request(request)["messages"]
    assert openai_responses.load_tools(request, given) is request


RESULT = Request(
    Head(tools=(LAZY,)), (user("a"), assistant(lazy("c1", "web")), tool_result("c1", "ok"))
)
WEB = TOOLS_OF["web"]


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
@pytest.mark.parametrize(
    ("deferred", "code", "says"),
    [
        ([Deferred(LAZY, 2, 2)], "invalid-argument", "has a tool 'lazy' already"),
        ([Deferred(WEB, 2, 2), Deferred(WEB)], "invalid-argument", "has a tool 'web' already"),
        ([Deferred(WEB, 2, 1)], "invalid-argument", "has no result at 1"),
        ([Deferred(WEB, 2, 3)], "invalid-argument", "has no result at 3"),
        ([Deferred(WEB, -1, 2)], "invalid-argument", "has no entry number"),
        ([WEB], "wrong-type", "Deferred"),
        (5, "wrong-type", "Deferred"),
    ],
)  # fmt: skip
def test_what_can_not_be_loaded_is_refused(api, deferred, code, says):
    with pytest.raises(InvalidArgument, match=says) as raised:
        api.encode_request(RESULT, deferred=deferred)
    assert (raised.value.code, raised.value.field) == (code, "deferred")


def test_one_tool_has_to_be_there_at_once():
    bare = Request(Head(), (user("a"),))
    with pytest.raises(InvalidArgument, match="needs a tool that is not deferred"):
        anthropic.encode_request(bare, deferred=[Deferred(WEB)])


@pytest.mark.parametrize("api", [openai_chat, gemini])
def test_apis_that_can_not_load_tools_refuse_them(api):
    with pytest.raises(InvalidArgument, match="'web'") as raised:
        api.encode_request(RESULT, deferred=[Deferred(WEB, 2, 2)])
    assert (raised.value.code, raised.value.field) == ("not-deferrable", "deferred")
    assert api.encode_request(RESULT, deferred=()) == api.encode_request(RESULT)
    with pytest.raises(InvalidArgument, match="wrong-type"):
        api.encode_request(RESULT, deferred=[WEB])


@pytest.mark.parametrize("api", [openai_chat, gemini, openai_responses])
def test_deferred_tools_that_another_api_defined_are_refused(api):
    loaded = anthropic.load_tools(RESULT, [Deferred(WEB, 2, 2)])
    with pytest.raises(InvalidArgument, match="'web'") as raised:
        api.encode_request(loaded)
    assert (raised.value.code, raised.value.field) == ("not-deferrable", "request")


@pytest.mark.parametrize(("field", "wrong"),
    [("tool", "web"), ("at", "2"), ("index", True), ("active", 1)])  # fmt: skip
def test_a_deferred_tool_is_checked(field, wrong):
    with pytest.raises(InvalidArgument) as raised:
        Deferred(**{"tool": WEB, field: wrong})
    assert (raised.value.code, raised.value.field) == ("wrong-type", field)


# Bodies come back


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
def test_bodies_with_loaded_tools_come_back(api):
    session = begun()
    for number, names in enumerate([("web",), ("zip", "mail")]):
        session = asked(session, lazy(f"c{number}", *names), ToolCall(f"d{number}", "read"))
    session, request = send(record(session, user("and?")))
    body = api.encode_request(request, deferred=told(session))
    for separators in ((",", ":"), None):
        data = json.dumps(body, separators=separators, indent=None).encode()
        read = api.decode(data)
        assert read.repairs == ()
        assert api.encode(read.session) == data
        assert api.encode_request(project(read.session)) == body


def test_a_body_of_anthropic_reads_as_what_was_loaded():
    session = asked(begun(), lazy("c1", "web"))
    session, request = send(session)
    loaded = anthropic.load_tools(request, told(session))
    data = json.dumps(anthropic.encode_request(loaded)).encode()
    head = project(anthropic.decode(data).session).head
    assert [is_deferred(tool) for tool in head.tools] == [False, False, True]
    assert head.tools[2] == loaded.head.tools[2]
    assert immediate(head).tools == head.tools[:2]
    assert immediate(RESULT.head) is RESULT.head


REAL = sorted(SHARED.glob("*/*tool_search*")) if SHARED.exists() else []


@pytest.mark.parametrize(
    "path",
    REAL
    or [pytest.param(None, marks=pytest.mark.skip(reason="needs ../shared/sessions, absent here"))],
    ids=lambda path: path and path.stem[:40],
)
def test_recorded_searches_come_back(path):
    from ctxalgebra.codecs import CODECS

    read = load(path)
    assert CODECS[read.format].encode(read.session) == path.read_bytes()


# What it bills


def chain(session, api=anthropic, **options):
    """Give the session with a request in flight, and its bytes."""
    session, _ = send(session)
    return session, body_of(session, api, **options)


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
def test_an_activation_extends_the_request_before(api):
    session, before = chain(begun(), api)
    session = reply(session, "completed", assistant(lazy("c1", "web", "zip")))
    (call,) = project(session).messages[-1].calls
    session = record(
        session, *respond_discovery(session, call, policy=POLICY, registered=REGISTERED)
    )
    session, after = chain(settled(session), api)
    assert byte_drift(before, after) == ()
    assert json.loads(before)["tools"] == json.loads(after)["tools"][:2]
    assert account(session).rebilled == 0
    # The same without deferring: the tools part at once.
    plain = json.dumps(api.encode_request(evolve(project(session), head=evolve(
        session.head, tools=(*session.head.tools, WEB))))).encode()  # fmt: skip
    assert [one.path for one in byte_drift(before, plain)] != []


def test_the_cache_of_anthropic_reads_all_that_was_there():
    cache, state = Anthropic(), None
    long = tuple(evolve(tool, description="x" * 8000) for tool in REGISTERED)
    session = begun(tools=long)
    session = settled(record(session, user("y" * 8000)), long)
    outcomes, layouts = [], []
    state = cache.start
    for names in ((), ("web",), ("zip", "mail"), (), ()):
        calls = (
            (lazy(f"c{len(session)}", *names),)
            if names
            else (ToolCall(f"c{len(session)}", "read"),)
        )
        session, request = send(session)
        loaded = anthropic.load_tools(request, told(session, long))
        layouts.append(loaded)
        state, outcome = cache.take(state, default_breakpoints(loaded))
        outcomes.append(outcome)
        session = reply(session, "completed", assistant(*calls))
        for call in calls:
            answer = (
                respond_discovery(session, call, policy=POLICY, registered=long)
                if call.name == "lazy"
                else (tool_result(call.id, "ok"),)
            )
            session = record(session, *answer)
        session = settled(session, long)
    for (before, after), (a, b) in zip(pairwise(outcomes), pairwise(layouts), strict=True):
        assert after.read == before.tokens
        assert after.miss == ""
        assert common_place(b, a) == len(a.messages) - 1
    # Each definition counts once, with the message that loads it.
    loads_at = [len(loads(one.head, one.messages)) for one in layouts]
    assert loads_at == [0, 0, 1, 2, 2]
    assert outcomes[2].written > 2000 > outcomes[1].written
    assert outcomes[3].written > 4000
    head = chars4(immediate(layouts[0].head))
    assert outcomes[0].tokens == head + sum(map(chars4, layouts[0].messages))


def test_a_definition_that_changes_counts_from_where_it_is_loaded():
    loaded = anthropic.load_tools(RESULT, [Deferred(WEB, 2, 2), Deferred(TOOLS_OF["zip"])])
    more = evolve(loaded, messages=(*loaded.messages, user("b")))
    other = evolve(WEB, description="Does another thing")
    edited = anthropic.load_tools(RESULT, [Deferred(other, 2, 2)])
    assert common_place(more, loaded) == len(loaded.messages) - 1
    assert common_place(edited, loaded) == 1
    gone = evolve(loaded, head=RESULT.head)
    assert common_place(gone, loaded) == 1
    without = anthropic.load_tools(RESULT, [Deferred(WEB, 2, 2)])
    assert common_place(without, loaded) == len(loaded.messages) - 1
    cache = Anthropic()
    long = user("y" * 20_000)
    state, _ = cache.take(
        cache.start, Placed(evolve(loaded, messages=(long, *loaded.messages[1:])), (0, 3))
    )
    state, same = cache.take(
        state, Placed(evolve(without, messages=(long, *without.messages[1:])), (0, 3))
    )
    assert same.miss == ""
    _, outcome = cache.take(
        state, Placed(evolve(edited, messages=(long, *edited.messages[1:])), (0, 3))
    )
    assert outcome.miss == "messages_changed"


def test_breakpoints_pass_deferred_tools_over():
    head = Head(CLAUDE, "", (Tool("a"),))
    loaded = anthropic.load_tools(Request(head, RESULT.messages), [Deferred(WEB, 2, 2)])
    assert list(looks_back(loaded, 0)) == [0, TOOLS]
    only = evolve(loaded, head=evolve(head, tools=loaded.head.tools[1:]))
    assert list(looks_back(only, 0)) == [0]
    with pytest.raises(InvalidArgument):
        Placed(only, (TOOLS,))
    marked = anthropic.encode_request(loaded, breakpoints=Placed(loaded, (TOOLS, 2, 3)))
    assert "cache_control" in marked["tools"][0]
    assert "cache_control" not in marked["tools"][1]
    assert [("cache_control" in block) for block in marked["messages"][2]["content"]] == [
        True,
        True,
    ]
    request = Request(head, RESULT.messages)
    same = anthropic.encode_request(
        request, breakpoints=Placed(loaded, (TOOLS, 2, 3)), deferred=[Deferred(WEB, 2, 2)]
    )
    assert same == marked
    with pytest.raises(InvalidArgument, match="another request"):
        anthropic.encode_request(request, breakpoints=Placed(request, ()), deferred=[Deferred(WEB)])
    # The definition counts for the minimum where it is loaded.
    profile = evolve(cache_profile(CLAUDE), minimum=600)
    big = evolve(WEB, description="x" * 4000)
    loaded = anthropic.load_tools(request, [Deferred(big, 2, 2)])
    assert plan_breakpoints(None, loaded, profile).breakpoints == (3,)
    assert plan_breakpoints(None, loaded, CacheProfile(minimum=0)).breakpoints[0] == TOOLS


# Taken back


def test_what_is_taken_back_stays_where_it_was_loaded():
    session = asked(begun(), lazy("c1", "web", "zip"))
    session, before = chain(session)
    session = reply(session, "completed", assistant("ok"))
    session = settled(record(reset(session), user("on")))
    session, after = chain(session)
    assert byte_drift(before, after) == ()
    assert [(one.tool.name, one.active) for one in told(session)] == [
        ("web", False),
        ("zip", False),
    ]
    disabled = evolve(POLICY, disabled=("zip",))
    off = evolve(POLICY, enabled=False)
    for policy in (disabled, off):
        assert byte_drift(before, body_of(session, policy=policy)) == ()
    session = reply(session, "completed", assistant("ok"))
    # The host wants one again: it is there.
    again = settled(activate(session, ["web"], policy=POLICY, registered=REGISTERED))
    assert again.head == session.head
    assert [(one.tool.name, one.active) for one in told(again)] == [("web", True), ("zip", False)]
    # So does the model.
    anew = asked(record(session, user("more")), lazy("c9", "web"))
    assert next((one.tool.name, one.at) for one in told(anew)) == ("web", told(session)[0].at)
    anew, later = chain(anew)
    assert byte_drift(after, later) == ()


def test_behind_a_cut_it_is_loaded_anew():
    session = asked(begun(), lazy("c1", "web"))
    point = told(session)[0].at
    session = reply(send(session)[0], "completed", assistant("ok"))
    session = record(reset(session), user("on"))
    session = record(session, Cut(point, user("Gone."), "full", breaks=True))
    assert told(settled(session)) == ()
    session = asked(settled(session), lazy("c2", "web"))
    (one,) = told(session)
    assert (one.tool.name, one.active) == ("web", True)
    assert one.at > point
    assert project(session).messages[one.index].call == "c2"


def test_while_results_are_missing_nothing_is_loaded():
    first, other = lazy("c1", "web"), ToolCall("c2", "read")
    session = reply(send(begun())[0], "completed", assistant(other, first))
    entries = respond_discovery(session, first, policy=POLICY, registered=REGISTERED)
    assert told(session) == ()
    waiting = record(session, entries[0])
    assert [(one.at, one.index) for one in told(waiting)] == [(-1, -1)]
    answered = record(session, *entries)
    assert [one.index for one in told(answered)] == [-1]
    session = record(answered, tool_result("c2", "ok"))
    assert [one.index for one in told(session)] == [3]


# What was loaded stays as it was sent


def spelled(how):
    """Give what is registered after another process registered the tools."""
    return tuple(
        new
        for tool in REGISTERED
        if (new := tool if tool.name != "web" else varied(tool, how)) is not None
    )


def resumed(session):
    return journal.decode(journal.encode(session)).session


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
@pytest.mark.parametrize("how", [GONE, SPELLED])
def test_the_registry_does_not_change_what_was_sent(api, how):
    session, before = chain(asked(begun(), lazy("c1", "web")), api)
    session = record(reply(session, "completed", assistant("ok")), user("on"))
    session = settled(resumed(session), spelled(how))
    session, after = chain(session, api, registered=spelled(how))
    assert byte_drift(before, after) == ()
    (one,) = told(session, spelled(how))
    assert (one.tool, one.active) == (TOOLS_OF["web"], how == SPELLED)
    # And with the old registry again.
    session = settled(record(reply(session, "completed", assistant("ok")), user("on")))
    session, later = chain(session, api)
    assert byte_drift(after, later) == ()
    assert told(session)[0].active
    assert breaks(session) == ()
    assert account(session).rebilled == 0


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
def test_a_tool_that_really_changed_moves_into_the_head(api):
    session, before = chain(asked(begun(), lazy("c1", "web")), api)
    session = reply(session, "completed", assistant("ok"))
    changed = spelled(CHANGED)
    # What nobody wants any more is not worth it.
    back = settled(record(reset(session), user("on")), changed)
    assert byte_drift(before, chain(back, api, registered=changed)[1]) == ()
    session = settled(record(session, user("on")), changed)
    assert session.head.tools[-1].description == "Does web well"
    assert told(session, changed) == ()
    session, _ = chain(session, api, registered=changed)
    assert [(b.at, b.why) for b in breaks(session)] == [(HEAD, "the head changed: tools")]
    assert account(session).rebilled > 0


def test_values_of_a_schema_are_not_equal_because_python_says_so():
    tools = [Tool("web", "", f'{{"minimum":{one}}}') for one in ("1", "true", "1.0", " 1")]
    session = asked(begun(), lazy("c1", "web"), registered=(*REGISTERED[:2], tools[0]))
    session = record(reply(send(session)[0], "completed", assistant("ok")), user("on"))
    heads = [settled(session, (*REGISTERED[:2], tool)).head.tools for tool in tools]
    assert [tools[-1].name for tools in heads] == ["lazy", "web", "web", "lazy"]


def test_what_was_not_there_when_the_result_was_sent_is_not_put_there_later():
    session = reply(send(begun())[0], "completed", assistant(lazy("c1", "web")))
    (call,) = project(session).messages[-1].calls
    session = record(
        session, *respond_discovery(session, call, policy=POLICY, registered=REGISTERED)
    )
    session = settled(session, spelled(GONE))
    session, before = chain(session, registered=spelled(GONE))
    assert b"defer_loading" not in before
    session = settled(record(reply(session, "completed", assistant("ok")), user("on")))
    assert session.head.tools[-1].name == "web"
    assert told(session) == ()
    assert [b.at for b in breaks(send(session)[0])] == [HEAD]


def test_journals_without_definitions_are_read():
    session = record(reply(send(begun())[0], "completed", assistant(lazy("c1", "web"))))
    session = record(session, snapshot(["web"], by="model"), tool_result("c1", "Activated."))
    session, before = chain(session)
    session = settled(record(reply(session, "completed", assistant("ok")), user("on")))
    session, after = chain(session, registered=spelled(SPELLED))
    assert byte_drift(before, after) == ()


def test_a_definition_is_recorded_once():
    session = begun()
    for turn in range(40):
        session = asked(session, lazy(f"c{turn}", NAMES[turn % 2], NAMES[2]))
        session = settled(session, spelled(SPELLED))
    notes = [n.entry for n in log(session) if isinstance(n.entry, Note) and n.entry.name == LOADED]
    assert [[*json.loads(note.data)["tools"]] for note in notes] == [["web", "mail"], ["zip"]]


@pytest.mark.parametrize(
    "data",
    ["", "[]", "[" * 100_000, '{"version":2,"tools":{"web":null}}', '{"version":1,"tools":["web"]}',
     '{"version":1,"tools":{"web":5}}', '{"version":1,"tools":{"web":{}}}',
     '{"version":1,"tools":{"web":{"description":"\\ud800","schema":"{}"}}}',
     '{"version":1,"tools":{"web":null,"zip":{"description":1,"schema":"{}"}}}',
     '{"version":1,"tools":{"nobody":{"description":"","schema":"{}"}}}'],
)  # fmt: skip
def test_notes_that_load_nothing_are_passed_over(data):
    session = reply(send(begun())[0], "completed", assistant(lazy("c1", "web")))
    session = record(session, snapshot(["web"], by="model"), tool_result("c1", "Activated."))
    session = record(session, Note(LOADED, data))
    assert [one.tool for one in told(session)] == [TOOLS_OF["web"]]
    again = record(settled(session), Note(LOADED, '{"version":1,"tools":{"web":null}}'))
    assert [one.tool for one in told(again, spelled(CHANGED))] == [TOOLS_OF["web"]]


@pytest.mark.parametrize("api", [anthropic, openai_responses, openai_chat, gemini])
@pytest.mark.parametrize(
    ("schema", "code"),
    [("not JSON", "invalid-json"), ('{"x":NaN}', "invalid-number"), ("", "invalid-json"),
     ('{"enum":["\\ud83d"]}', "lone-surrogate"), ("[" * 600 + "]" * 600, "too-deep")],
)  # fmt: skip
def test_a_schema_that_can_not_be_written_is_refused(api, schema, code):
    bad = Tool("bad", "Does it.", schema)
    request = Request(Head(tools=(Tool("read"), bad)), (user("a"),))
    calls = [lambda: api.encode_request(request)]
    if api in APIS.values():
        messages = user("a"), assistant(ToolCall("c1", "lazy")), tool_result("c1", "x")
        loads_it = Request(Head(tools=(Tool("read"),)), messages)
        calls += [
            lambda: api.encode_request(loads_it, deferred=[Deferred(bad, 3, 2)]),
            lambda: api.load_tools(loads_it, [Deferred(bad, 3, 2)]),
        ]
    for call in calls:
        with pytest.raises(InvalidArgument) as caught:
            call()
        assert (caught.value.code, caught.value.field) == (code, "bad")


@pytest.mark.parametrize("name", [name for name in CODECS if name != "journal"])
def test_a_schema_that_no_file_can_hold_is_a_loss(name):
    tools = (Tool("bad", "Does it.", "not JSON"),)
    session = record(Session(), Head(CLAUDE, "s", tools), user("a"))
    assert any(loss.kind == "head" for loss in convert(session, name).losses)


# Laws by a machine


class Machine:
    """Play a harness that defers, and watch what leaves."""

    def __init__(self, api, deferred=True):
        self.api = api
        self.session = begun()
        self.sent = None
        self.calls = 0
        self.loads = 0
        self.policy = POLICY
        self.registered = REGISTERED

    @property
    def options(self):
        return {"policy": self.policy, "registered": self.registered}

    def leave(self, speak):
        session = (
            record(self.session, user("on"))
            if speak or not project(self.session).messages
            else (self.session)
        )
        session = settled(session, **self.options)
        if project(session).messages[-1].role == "assistant":
            session = record(session, user("on"))
        session, body = chain(session, self.api, **self.options)
        broke = session.view.broke is not None
        if self.sent is not None and not broke:
            assert byte_drift(self.sent, body) == ()
        loaded = self.api.load_tools(project(session), told(session, **self.options))
        for index, names in enumerate(map(referred, loaded.messages)):
            assert {*names} <= {tool.name for tool in loaded.head.tools}, index
        self.loads += bool(told(session, **self.options))
        self.sent, self.session = body, session

    def step(self, names, reads, speak):
        self.leave(speak)
        self.calls += 1
        calls = [ToolCall(f"r{self.calls}_{i}", "read") for i in range(reads)]
        if names:
            calls.insert(reads // 2, lazy(f"l{self.calls}", *names))
        session = reply(self.session, "completed", assistant("so", *calls))
        for call in calls:
            entries = (tool_result(call.id, "text"),)
            if call.name == "lazy":
                entries = respond_discovery(session, call, **self.options)
            session = record(session, *entries)
        self.session = session

    def take_back(self, _names, _reads, _speak):
        self.session = reset(self.session)

    def disable(self, names, _reads, _speak):
        # A tool in the head that is disabled leaves it, which is a declared break.
        self.policy = evolve(POLICY, disabled=tuple(names))

    def host(self, names, _reads, _speak):
        self.session = activate(self.session, names, **self.options)

    def vary(self, names, reads, _speak):
        # Another process registers the tools: without some, in another spelling, or changed.
        self.registered = tuple(
            tool
            for one in REGISTERED
            for tool in ((one,) if one.name not in names else [varied(one, reads)])
            if tool is not None
        )


MOVES = st.tuples(
    st.sampled_from(["step", "step", "step", "take_back", "disable", "host", "vary"]),
    st.lists(st.sampled_from(NAMES), max_size=3, unique=True),
    st.integers(0, 2),
    st.booleans(),
)


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
@given(moves=st.lists(MOVES, max_size=12))
def test_a_request_extends_the_one_before_unless_a_break_is_declared(api, moves):
    machine = Machine(api)
    for name, *given_ in moves:
        getattr(machine, name)(*given_)
    machine.leave(speak=True)


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
def test_long_sessions_load_tools_and_break_nowhere(api):
    draw = random.Random(6)
    machine = Machine(api)
    for _ in range(60):
        names = draw.sample(NAMES, draw.randint(0, 2))
        machine.step(names, draw.randint(0, 2), draw.random() < 0.3)
        if draw.random() < 0.1:
            machine.take_back((), 0, 0)
    assert machine.loads > 50
    assert account(machine.session).rebilled == 0


# The drift of bytes


def tools_body(*tools, messages=(), **fields):
    return json.dumps({"tools": tools, "messages": messages, **fields}).encode()


def later(name, **fields):
    return {"name": name, "input_schema": {}, "defer_loading": True, **fields}


NOW = {"name": "a", "input_schema": {}}
REFERS = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [
    {"type": "tool_reference", "tool_name": "web"}]}]}]  # fmt: skip
FOUND = [{"role": "assistant", "content": [{"type": "tool_search_tool_result", "content": {
    "tool_references": [{"type": "tool_reference", "tool_name": "web"}]}}]}]  # fmt: skip


@pytest.mark.parametrize("messages", [REFERS, FOUND])
@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ([NOW], [NOW, later("web")], []),
        ([NOW, later("zip")], [NOW], []),
        ([later("zip"), NOW], [NOW, later("zip", description="x"), later("web")], []),
        ([NOW, later("web")], [later("zip"), NOW, later("web")], []),
        ([NOW, later("web")], [NOW], [("tools[1]", "removed")]),
        ([NOW, later("web")], [NOW, later("web", description="x")], [("tools[1]", "text")]),
        ([NOW, later("web")], [NOW, {"name": "web", "input_schema": {}}], [("tools[1]", "added")]),
        ([NOW, {"name": "b"}, later("zip")], [NOW], [("tools[1]", "removed")]),
        ([later("zip"), NOW], [{**NOW, "description": "x"}], [("tools[1]", "text")]),
        ([NOW, {**later("web"), "name": ["web"]}], [NOW, 5], [("tools[1]", "added")]),
        ([NOW, later("zip", type="function")], [NOW], [("tools[1]", "removed")]),
    ],
)  # fmt: skip
def test_deferred_tools_are_no_drift_unless_they_are_in_use(messages, before, after, found):
    told = byte_drift(tools_body(*before, messages=messages), tools_body(*after, messages=messages))
    assert [(one.path, one.kind) for one in told] == found


def test_a_reference_that_comes_later_binds_nothing_before():
    before, after = tools_body(NOW, later("web")), tools_body(NOW, messages=REFERS)
    assert byte_drift(before, after) == ()
    nothing = json.dumps({"tools": [NOW, later("web")]}).encode()
    assert byte_drift(nothing, tools_body(NOW)) == byte_drift(b"{}", b'{"messages":[]}')
    odd = [{"type": "tool_reference", "tool_name": 5}, 5, None]
    assert (
        byte_drift(tools_body(NOW, later("web"), messages=odd), tools_body(NOW, messages=odd)) == ()
    )


def test_definitions_that_are_deferred_are_no_drift_of_a_session():
    tools = (Tool("read"),)
    session, _ = send(record(Session(), Head(CLAUDE, tools=tools), user("a")))
    grown = Head(CLAUDE, tools=(*tools, Tool("web", "", json.dumps(later("web")))))
    session = record(reply(session, "completed", assistant("b")), grown, user("c"))
    session, _ = send(session)
    assert drift(session) == ()
    moved = record(reply(session, "completed", assistant("d")), Head(CLAUDE, tools=grown.tools[1:]))
    (one,) = drift(send(record(moved, user("e")))[0])
    assert [(change.place, change.kind) for change in one.changes] == [("tools", "removed")]


# What a head says of its tools


@pytest.mark.parametrize(
    ("schema", "deferred", "whole"),
    [
        ('{"name":"a","defer_loading":true}', True, True),
        ('{"name":"a","defer_loading":false}', False, True),
        ('{"name":"b","defer_loading":true}', False, False),
        ('{"name":"a","defer_loading":true,"properties":{"defer_loading":{}}}', False, False),
        ('{"properties":{"name":{},"defer_loading":{}}}', False, False),
        ('"name defer_loading"', False, False),
        ('["name", "defer_loading"', False, False),
        ('{"name":"defer_loading",' + "[" * 100_000, False, False),
    ],
)
def test_what_a_schema_says_of_its_tool(schema, deferred, whole):
    tool = Tool("a", "", schema)
    assert (is_deferred(tool), is_whole(tool)) == (deferred, whole)


@pytest.mark.parametrize("data", ["", "5", "{}", '{"tool_name":5}', "[" * 100_000])
def test_references_that_say_nothing(data):
    assert referred(tool_result("c", (Opaque("tool_reference", data), Text("x")))) == ()


def test_a_tool_is_loaded_where_it_is_first_referred_to():
    web = Opaque("tool_reference", '{"tool_name":"web"}')
    mail = Opaque("tool_reference", '{"tool_name":"mail"}')
    head = Head(tools=tuple(Tool(n, "", json.dumps(later(n))) for n in ("web", "zip")))
    messages = (
        user("a"),
        tool_result("c", (mail,)),
        tool_result("c", (web, web)),
        tool_result("d", (web,)),
    )
    assert loads(head, messages) == {2: head.tools[:1]}
    assert loads(immediate(head), messages) == {}
    assert HEAD < TOOLS + 2


# The search of the saver


def test_a_search_activates_what_is_held_back_and_is_bounded():
    many = tuple(Tool(f"db_{n}", "Query the database " + "x" * 5000) for n in range(9))
    registered = (REGISTERED[0], TOOL_SEARCH, *many)
    policy = tool_policy({"core": ["read"]})
    session = begun(tools=registered)
    assert [tool.name for tool in session.head.tools] == ["read", "tool_search"]

    def search(session, number, **given_):
        call = ToolCall(f"c{number}", "tool_search", json.dumps(given_))
        session = asked(session, call, registered=registered, policy=policy)
        return session, project(session).messages[-1].parts[0].text

    session, text = search(session, 1, query="query a database")
    assert text.startswith("Activated: db_0, db_1, db_2.\n")
    assert len(text) < 5 * 250
    session, text = search(session, 2, query="query a database", limit=99)
    assert text.startswith("Activated: db_3, db_4, db_5, db_6, db_7.\n")
    session, text = search(session, 3, query="query a database", limit=-3)
    assert text.startswith("Activated: db_8.\n")
    session, text = search(session, 4, query="query a database")
    assert text == "No tool that is held back matches. Try other words."
    assert len(told(session, registered, policy)) == 9
    assert account(send(session)[0]).rebilled == 0
    _, text = search(session, 5)
    assert "missing" in text


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "web", "tool_reference"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "name", "tool_name", "defer_loading", "content"]), inner
        )
    ),
    max_leaves=8,
)
ENTRIES = st.lists(
    ANY | st.sampled_from([NOW, later("web"), later("zip"), later("zip", type="function")]),
    max_size=4,
)


@given(ENTRIES, ENTRIES, ANY | st.sampled_from([REFERS, FOUND]), st.integers(0, 4))
def test_whatever_tools_are_a_body_extends_itself(tools, others, messages, at):
    body = tools_body(*tools, messages=messages)
    assert byte_drift(body, body) == ()
    more = tools_body(*tools[:at], later("new"), *tools[at:], messages=messages)
    assert byte_drift(body, more) == byte_drift(more, body) == ()
    told = byte_drift(body, tools_body(*others, messages=messages))
    assert len({one.path for one in told}) == len(told)


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(-1, 6), st.integers(-1, 6)), max_size=4)
)
def test_whatever_is_to_be_loaded_there_is_a_body_or_a_code(given_):
    deferred = [Deferred(TOOLS_OF[name], at, index) for name, at, index in given_]
    codes = {outcome(api, deferred) for api in (anthropic, openai_responses)}
    assert codes <= {"", "invalid-argument"}
    codes = {outcome(api, deferred) for api in (openai_chat, gemini)}
    assert codes == {"not-deferrable" if deferred else ""}


def outcome(api, deferred):
    """Give the code with which a request is refused; empty for a body that is JSON."""
    try:
        json.dumps(api.encode_request(RESULT, deferred=deferred))
    except InvalidArgument as error:
        return error.code
    return ""
