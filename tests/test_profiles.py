"""Provider profiles: each rule with what it allows and what it forbids."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Head,
    Image,
    InvalidArgument,
    Message,
    Opaque,
    Route,
    Text,
    Thinking,
    Tool,
    ToolCall,
    assistant,
    system,
    tool_result,
    user,
)
from ctxalgebra.profiles import (
    ANTHROPIC,
    BEDROCK,
    GEMINI,
    GENERIC,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    PROFILES,
    Profile,
    profile_for,
    violations,
)
from ctxalgebra.protocol import defects, repair

SESSIONS = Path(__file__).resolve().parents[1].parent / "shared" / "sessions"

U, V, A, S = user("a"), user("b"), assistant("done"), system("s")
SIGNED = Thinking("hm", "sig")
TOOLS = Head(tools=(Tool("read"),))
LEADING = Head(Route(binding="leading"))


def call(*ids):
    return assistant(*(ToolCall(id_, "read") for id_ in ids))


def result(id_):
    return tool_result(id_, "42", name="read")


def server(*types):
    return tuple(Opaque(type_, "{}") for type_ in types)


X, RX = call("x"), result("x")
PROVED = assistant(ToolCall("x", "read", signature="s"))
SEARCH = ("server_tool_use", "web_search_tool_result")

# rule, messages, options
LEGAL = [
    ("V-A1", (U, call("x", "y"), result("y"), RX), {}),
    ("V-A1", (U, X, call("y"), RX, result("y"), V), {}),
    ("V-A1", (U, X, RX, X, RX), {}),
    ("V-A2", (U, A, X, RX, V), {}),
    ("V-A3", (U, X, RX, V, A, V, X, RX), {}),
    ("V-A5", (U, assistant(*server(*SEARCH), "found"), V), {}),
    ("V-A5", (U, assistant(*server("server_tool_use"), ToolCall("x", "read")), RX), {}),
    ("V-A5", (U, assistant(*server("server_tool_use"), ToolCall("x", "read")), RX,
              assistant(*server("web_search_tool_result", "text"), "found"), V), {}),
    ("V-A5", (U, assistant(*server("server_tool_use"), ToolCall("x", "read")), RX, A, V), {}),
    ("V-A6", (user((Image("aGk=", "image/png"),)), X, tool_result("x", " ")), {}),
    ("V-A7", (U, assistant(SIGNED, ToolCall("x", "read")), RX, X, RX), {"last_thinking": True}),
    ("V-A7", (U, A, V), {"last_thinking": True}),
    ("V-A7", (U, X, RX, V), {"last_thinking": True}),
    ("V-A7", (U, assistant(), assistant(Thinking("?", redacted=True), "a")), {"head": LEADING}),
    ("V-A7", (U, assistant("a", Thinking("hm"))), {}),
    ("V-A7", (U, assistant("a", Thinking("hm"))), {"last_thinking": False, "head": LEADING}),
    ("V-A7", (U, assistant("a")), {"head": Head()}),
    ("V-A8", (U, S, S, A, V, X, RX, S), {}),
    ("V-C1", (U, S, call("x", "y"), result("y"), RX, V, A, A), {}),
    ("V-C2", (S, U, X, RX, X, RX), {}),
    ("V-R1", (U, X, V, A, RX), {}),
    ("V-R1", (RX, result("y")), {"previous_response": True}),
    ("V-R2", (U, call("x", "x"), RX, RX), {}),
    ("V-R2", (U, X, RX, RX, X, RX), {}),
    ("V-R3", (U, assistant(SIGNED), A, assistant(SIGNED, ToolCall("x", "read")), RX), {}),
    ("V-R3", (U, assistant("a", SIGNED)), {"reasoning_ids": False}),
    ("V-G1", (S, A), {}),
    ("V-G1", (), {}),
    ("V-G2", (U, A, X, RX, X, RX), {}),
    ("V-G2", (U, X, RX, X, RX), {"merged": False}),
    ("V-G3", (U, call("x", "y"), RX, result("y")), {}),
    ("V-G4", (U, PROVED, RX, PROVED, RX), {"signatures": True}),
    ("V-G4", (U, assistant(*PROVED.parts, ToolCall("y", "ls")), RX, result("y")),
     {"signatures": True}),
    ("V-G4", (U, X, RX, V), {"signatures": True}),
    ("V-G4", (U, PROVED, call("y"), RX, result("y")), {"signatures": True}),
    ("V-G4", (U, X, RX), {}),
    ("V-B1", (U, X, RX), {}),
    ("V-B1", (S, X, RX), {}),
    ("V-B2", (U, V, A, A, X, RX, V), {}),
    ("V-B2", (U, call("x", "y"), RX, result("y"), A, V), {"merged": False}),
    ("V-B3", (U, call("x", "y"), result("y"), RX, V), {}),
    ("V-B4", (U, X, RX), {"head": TOOLS}),
    ("V-B4", (U, X, RX), {}),
    ("V-B4", (U, A), {"head": Head()}),
]  # fmt: skip

# rule, messages, options, where it is broken
BROKEN = [
    ("V-A1", (U, call("x", "y"), RX, V), {}, [1]),
    ("V-A1", (U, X, S, RX), {}, [1]),
    ("V-A1", (U, X, A, RX, X), {}, [4]),
    ("V-A1", (U, X, X, RX), {}, [2]),
    ("V-A1", (U, X), {}, [1]),
    ("V-A2", (RX, U), {}, [0]),
    ("V-A2", (U, X, RX, A, RX), {}, [4]),
    ("V-A2", (U, X, RX, RX), {}, [3]),
    ("V-A3", (U, call("x", "y"), V, RX, V, result("y")), {}, [2]),
    ("V-A3", (U, call("x", "y"), RX, V, V, result("y")), {}, [3]),
    ("V-A5", (U, assistant(*server("mcp_tool_use"), ToolCall("x", "read")), RX, V), {}, [3]),
    ("V-A5", (U, assistant(*server("server_tool_use")), V), {}, [2]),
    ("V-A5", (U, assistant(*server("web_search_tool_result", "server_tool_use")), V), {}, [2]),
    ("V-A6", (user("\n"), assistant("a", " "), system("")), {}, [0, 1, 2]),
    ("V-A7", (U, X, RX), {"last_thinking": True}, [1]),
    ("V-A7", (U, assistant("a", SIGNED)), {"head": LEADING}, [1]),
    ("V-A7", (U, assistant(Thinking("hm"), "a"), V), {"last_thinking": True}, [1]),
    ("V-A8", (S, U), {}, [0, 0]),
    ("V-A8", (U, A, S), {}, [2]),
    ("V-A8", (U, X, S, S, RX), {}, [2, 3]),
    ("V-C1", (U, X, V, RX), {}, [1]),
    ("V-C1", (U, X, call("y"), RX, result("y")), {}, [1]),
    ("V-C2", (U, X, V, RX), {}, [3]),
    ("V-C2", (U, X, RX, RX), {}, [3]),
    ("V-C2", (RX,), {}, [0]),
    ("V-R1", (RX, X, RX), {}, [0]),
    ("V-R2", (U, X, RX, X), {}, [3]),
    ("V-R2", (X,), {"previous_response": True}, [0]),
    ("V-R3", (U, assistant("a", SIGNED), V), {}, [1]),
    ("V-R3", (U, A, assistant("a", SIGNED)), {}, [2]),
    ("V-G1", (A, U), {}, [0]),
    ("V-G2", (A, X, RX), {}, [1]),
    ("V-G2", (U, A, X, RX), {"merged": False}, [2]),
    ("V-G3", (U, X, V, A, RX), {}, [1, 4]),
    ("V-G4", (U, A, V, X, RX, assistant("b", ToolCall("y", "read")), result("y")),
     {"signatures": True}, [3, 5]),
    ("V-B1", (X, RX), {}, [0]),
    ("V-B2", (U, V, A, A, S), {"merged": False}, [1, 3]),
    ("V-B2", (U, X, RX, V), {"merged": False}, [3]),
    ("V-B3", (U, call("x", "y"), RX, A, result("y")), {}, [1, 4]),
    ("V-B4", (U, A, X, RX), {"head": Head()}, [2]),
]  # fmt: skip


def profile_of(rule):
    return next(p for p in PROFILES.values() if rule in p.rules)


def broken(rule, messages, options):
    listed = violations(messages, profile_of(rule), **options)
    return [v.index for v in listed if v.rule == rule]


@pytest.mark.parametrize(("rule", "messages", "options"), LEGAL)
def test_what_a_rule_allows(rule, messages, options):
    assert broken(rule, messages, options) == []


@pytest.mark.parametrize(("rule", "messages", "options", "places"), BROKEN)
def test_what_a_rule_forbids(rule, messages, options, places):
    assert broken(rule, messages, options) == places


def test_every_judged_rule_has_a_legal_and_a_broken_case():
    judged = {rule for profile in PROFILES.values() for rule in profile.rules}
    assert judged == {row[0] for row in LEGAL} == {row[0] for row in BROKEN}
    named = {f"V-A{n}" for n in range(1, 9)} | {f"V-R{n}" for n in range(1, 6)}
    named |= {f"V-{p}{n}" for p in "GB" for n in range(1, 5)} | {"V-C1", "V-C2"}
    # These are ways to read a request, not rules that messages can break.
    assert named - judged == {"V-A4", "V-R4", "V-R5"}


def test_violations_come_rule_by_rule_and_quote_ids():
    listed = violations((U, call("x\x1b[2J"), V), OPENAI_CHAT)
    assert [(v.rule, v.index) for v in listed] == [("V-C1", 1)]
    assert "\x1b" not in listed[0].detail
    assert r"'x\x1b[2J'" in listed[0].detail
    both = violations((RX, A, X), ANTHROPIC)
    assert [(v.rule, v.index) for v in both] == [("V-A1", 2), ("V-A2", 0)]


def test_a_profile_is_a_value_with_known_rules():
    mine = Profile("mine", ("V-C1", "V-A6"))
    assert [v.rule for v in violations((user(" "), X), mine)] == ["V-C1", "V-A6"]
    assert hash(mine) == hash(Profile("mine", ("V-C1", "V-A6")))
    with pytest.raises(InvalidArgument, match=r"invalid-argument.*V-A4.*\(field rules\)"):
        Profile("mine", ("V-A4",))
    assert PROFILES["anthropic"] is ANTHROPIC
    assert all(name == profile.name for name, profile in PROFILES.items())


@pytest.mark.parametrize(
    ("provider", "profile"),
    [
        ("anthropic", ANTHROPIC),
        ("Anthropic", ANTHROPIC),
        ("openai", OPENAI_RESPONSES),
        ("openai-codex", OPENAI_RESPONSES),
        ("openai-completions", OPENAI_CHAT),
        ("azure", OPENAI_CHAT),
        ("deepseek", OPENAI_CHAT),
        ("openrouter", OPENAI_CHAT),
        ("zai", OPENAI_CHAT),
        ("z.ai", OPENAI_CHAT),
        ("google", GEMINI),
        ("google-vertex", GEMINI),
        ("vertex_ai", GEMINI),
        ("Google AI Studio", GEMINI),
        ("gemini", GEMINI),
        ("amazon-bedrock", BEDROCK),
        ("opencode", GENERIC),
        ("", GENERIC),
        ("anthropic\u0130", GENERIC),
    ],
)
def test_providers_find_their_profile(provider, profile):
    assert profile_for(provider) is profile


# Against pairing

IDS = st.sampled_from(["x", "y", "z"])
PLAIN = st.lists(
    st.sampled_from([U, V, A, S])
    | st.builds(lambda ids: call(*ids), st.lists(IDS, min_size=1, max_size=3))
    | st.builds(result, IDS),
    max_size=10,
).map(tuple)
PAIRING = {
    "anthropic": ("V-A1", "V-A2", "V-A3", "V-A6"),
    "openai-chat": ("V-C1", "V-C2"),
    "openai-responses": ("V-R1", "V-R2", "V-R3"),
    "gemini": ("V-G3",),
    "bedrock": ("V-B2", "V-B3"),
    "generic": ("V-R1", "V-R2"),
}


@given(PLAIN)
def test_paired_messages_satisfy_every_provider(messages):
    messages = repair(messages).messages
    for name, rules in PAIRING.items():
        assert not {v.rule for v in violations(messages, PROFILES[name])} & set(rules)


@given(PLAIN)
def test_chat_asks_for_pairing_in_any_order(messages):
    left = {d.code for d in defects(messages)} - {"out-of-order", "reused-id"}
    assert (violations(messages, OPENAI_CHAT) == ()) == (not left)


@given(PLAIN)
def test_who_satisfies_chat_satisfies_the_others(messages):
    if violations(messages, OPENAI_CHAT) == ():
        for name, rules in PAIRING.items():
            listed = violations(messages, PROFILES[name])
            assert not {v.rule for v in listed} & set(rules)


@given(PLAIN, st.sampled_from(list(PROFILES.values())), st.booleans())
def test_violations_point_at_messages(messages, profile, merged):
    for violation in violations(messages, profile, head=LEADING, merged=merged, signatures=True):
        assert 0 <= violation.index < len(messages)
        assert violation.rule in profile.rules


class Counted(tuple):
    """Messages that count how often one is looked at."""

    __slots__ = ()
    looks = 0

    def __getitem__(self, index):
        Counted.looks += 1
        return super().__getitem__(index)

    def __iter__(self):
        for message in super().__iter__():
            Counted.looks += 1
            yield message


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
@pytest.mark.parametrize(
    "shape", [(U, V), (X, X), (RX, RX), (X, RX), (U, S), (X, V, RX)], ids=lambda s: str(len(s))
)
def test_work_grows_with_the_length(profile, shape):
    looks = []
    for times in (100, 400):
        Counted.looks = 0
        violations(Counted(shape * times), profile, head=LEADING, signatures=True)
        looks.append(Counted.looks)
    assert 0 < looks[1] <= 4 * looks[0]


# Real requests


def spoken(blocks):
    """Read the parts of an Anthropic message that the rules look at."""
    parts, results = [], []
    for block in [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks:
        match block["type"]:
            case "text":
                parts.append(Text(block["text"]))
            case "tool_use":
                parts.append(ToolCall(block["id"], block["name"], json.dumps(block["input"])))
            case "thinking":
                parts.append(Thinking(block["thinking"], block["signature"]))
            case "tool_result":
                results.append(tool_result(block["tool_use_id"], json.dumps(block["content"])))
            case other:
                parts.append(Opaque(other, json.dumps(block)))
    return parts, results


@pytest.mark.skipif(not SESSIONS.is_dir(), reason="the shared session files are not here")
def test_requests_that_were_accepted_break_nothing():
    import yaml

    judged = 0
    for file in sorted((SESSIONS / "anthropic-messages").glob("*.yaml")):
        for exchange in yaml.safe_load(file.read_text("utf-8"))["interactions"]:
            if exchange["response"]["status"]["code"] != 200:
                continue
            body = exchange["request"].get("parsed_body") or exchange["request"].get("body")
            body = json.loads(body) if isinstance(body, str) else body
            if not body or "messages" not in body:
                continue
            messages = []
            for raw in body["messages"]:
                parts, results = spoken(raw["content"])
                messages += results
                if parts:
                    messages.append(Message(raw["role"], tuple(parts)))
            thinking = (body.get("thinking") or {}).get("type") == "enabled"
            assert violations(messages, ANTHROPIC, last_thinking=thinking) == (), file.name
            judged += 1
    assert judged > 5
