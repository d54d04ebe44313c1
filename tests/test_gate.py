"""Each rule of the gate: a legal neighbour passes, the offence is refused with its code."""

from __future__ import annotations

import attrs
import pytest
from attrs import evolve

from ctxalgebra import (
    PROFILES,
    RULES,
    Answer,
    Ask,
    CtxError,
    Cut,
    Drop,
    Head,
    IllegalDecision,
    Image,
    InvalidArgument,
    Label,
    Message,
    Note,
    Opaque,
    ProtocolViolation,
    Replace,
    Reply,
    Route,
    Sent,
    Session,
    Strip,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Usage,
    UsageReport,
    assistant,
    find,
    pipeline,
    project,
    prune_suffix,
    record,
    select,
    snap_frontier,
    system,
    tool_result,
    user,
    violations,
)

CALL = ToolCall("c1", "read", '{"path":"a"}')
NOTICE = user("[cut]")


def session_of(*entries):
    return record(Session(), *entries)


def read_exchange():
    """user 0, sent 1, reply with a call 2, result 3, sent 4, reply 5, user 6."""
    return session_of(
        user("go"),
        Sent(),
        Reply("completed", assistant(Thinking("hm", "s"), CALL)),
        tool_result("c1", "42"),
        Sent(),
        Reply("completed", assistant("done")),
        user("next"),
    )


OPEN = (user("go"), assistant(CALL, ToolCall("c2", "read")))
TURNS = (user("a"), assistant("b"), user("c"), assistant("d"), user("e"))

REFUSED = [
    # code, journal so far, offending entry
    ("in-flight", (user("a"), Sent()), Sent()),
    ("in-flight", (user("a"), Sent()), assistant("b")),
    ("in-flight", (user("a"), Sent()), Head(system="x")),
    ("in-flight", (*TURNS, Sent()), Cut(1, NOTICE, "w", breaks=True)),
    ("in-flight", (*TURNS, Sent()), Strip("w", breaks=True)),
    ("open-call", OPEN, Sent()),
    ("open-call", OPEN, assistant("b")),
    ("orphan-result", (user("a"),), tool_result("c1", "x")),
    ("orphan-result", OPEN, tool_result("c3", "x")),
    (
        "orphan-result",
        (*OPEN, tool_result("c1", "x"), tool_result("c2", "y")),
        tool_result("c1", "z"),
    ),
    ("duplicate-result", (*OPEN, tool_result("c1", "x")), tool_result("c1", "y")),
    ("duplicate-call", (user("a"),), assistant(CALL, CALL)),
    ("duplicate-call", (user("a"), Sent()), Reply("completed", assistant(CALL, CALL))),
    ("missing-id", (user("a"),), assistant(ToolCall("", "read"))),
    ("missing-id", (user("a"), Sent()), Reply("completed", assistant(CALL, ToolCall("", "r")))),
    ("empty-request", (), Sent()),
    ("empty-request", (user(" "),), Sent()),
    ("no-request", (user("a"),), Reply("failed")),
    ("no-message", (user("a"), Sent()), Reply("completed")),
    ("wrong-role", (user("a"), Sent()), Reply("completed", user("b"))),
    ("unknown-request", (user("a"),), UsageReport(0, Usage())),
    ("unknown-request", (user("a"),), UsageReport(7, Usage())),
    ("unknown-entry", (user("a"),), Label(1, "x")),
    ("unknown-ask", (user("a"),), Answer(0, "answered", "x")),
    ("unknown-ask", (Ask("k", "t", "q"), Answer(0, "failed")), Answer(0, "answered")),
    ("frontier-retreat", (*TURNS, Cut(3, NOTICE, "w")), Cut(1, NOTICE, "w")),
    ("frontier-retreat", (*TURNS, Cut(3, NOTICE, "w", (2,))), Cut(2, NOTICE, "w")),
    ("not-shown", TURNS, Cut(9, NOTICE, "w")),
    ("not-shown", (user(" "), *TURNS), Replace(0, user("x"), "w")),
    ("not-shown", (*OPEN, user("waits")), Replace(2, user("x"), "w")),
    ("not-shown", TURNS, Drop(9, 1, "w")),
    ("frozen-notice", (*TURNS, Cut(3, NOTICE, "w")), Replace(5, user("other"), "w")),
    ("unread", TURNS, Cut(4, NOTICE, "w")),
    ("unread", (*OPEN, tool_result("c1", "x"), tool_result("c2", "y")), Cut(3, NOTICE, "w")),
    ("unread", (*OPEN, tool_result("c1", "x"), tool_result("c2", "y")), Drop(1, 3, "w")),
    (
        "split-exchange",
        (*OPEN, tool_result("c1", "x"), tool_result("c2", "y")),
        Cut(1, NOTICE, "w"),
    ),
    ("split-exchange", OPEN, Cut(1, NOTICE, "w")),
    ("split-exchange", OPEN, Drop(1, 1, "w")),
    (
        "split-exchange",
        (*OPEN, *(tool_result(c, "x") for c in ("c1", "c2")), assistant("y")),
        Drop(1, 2, "w"),
    ),
    ("split-exchange", TURNS, Drop(0, 1, "w")),
    ("split-exchange", TURNS, Drop(1, 0, "w")),
    ("bad-keep", TURNS, Cut(1, NOTICE, "w", (2,))),
    ("bad-keep", TURNS, Cut(1, NOTICE, "w", (1,))),
    ("bad-keep", TURNS, Cut(3, NOTICE, "w", (2, 0))),
    ("bad-keep", TURNS, Cut(3, NOTICE, "w", (0, 0))),
    ("bad-keep", TURNS, Cut(1, NOTICE, "w", (9,))),
    ("bad-keep", (*TURNS, Cut(1, NOTICE, "w")), Cut(3, NOTICE, "w", (5,))),
    ("bad-keep", (user("a"), assistant("b")), Cut(0, NOTICE, "w", (0,))),
    ("bad-keep", (user("a"), *TURNS, Cut(2, NOTICE, "w", (1,))), Cut(3, NOTICE, "w", (1, 3))),
    ("bad-notice", TURNS, Cut(1, assistant("x"), "w")),
    ("bad-notice", TURNS, Cut(1, user(" "), "w")),
    ("changed-role", TURNS, Replace(0, system("x"), "w")),
    (
        "changed-role",
        (*OPEN, tool_result("c1", "x"), tool_result("c2", "y")),
        Replace(2, tool_result("c1", "x", error=True), "w"),
    ),
    ("changed-calls", OPEN, Replace(1, assistant(CALL), "w")),
    ("changed-calls", OPEN, Replace(1, assistant(ToolCall("c2", "read"), CALL), "w")),
    (
        "changed-calls",
        OPEN,
        Replace(1, assistant(ToolCall("c1", "write"), ToolCall("c2", "read")), "w"),
    ),
    (
        "changed-type",
        OPEN,
        Replace(1, assistant(ToolCall("c1", "read", "[]"), ToolCall("c2", "read")), "w"),
    ),
    (
        "changed-type",
        OPEN,
        Replace(1, assistant(ToolCall("c1", "read", "{"), ToolCall("c2", "read")), "w"),
    ),
    (
        "changed-type",
        OPEN,
        Replace(1, assistant(ToolCall("c1", "read", "[" * 9999), ToolCall("c2", "read")), "w"),
    ),
    *(
        ("changed-type", (assistant(ToolCall("c1", "r")),), Replace(0, assistant(call), "w"))
        for call in (
            ToolCall("c1", "r", '{"a":NaN}'),
            ToolCall("c1", "r", '{"a":"\\ud800"}'),
        )
    ),
    (
        "changed-type",
        (assistant(ToolCall("c1", "r", "{")),),
        Replace(0, assistant(ToolCall("c1", "r", "[")), "w"),
    ),
    ("changed-opaque", (assistant(Opaque("x", "{}"), "a"),), Replace(0, assistant("a"), "w")),
    ("changed-opaque", (assistant(Thinking("x"), "a"),), Replace(0, assistant("b"), "w")),
    (
        "signed-call",
        (assistant(ToolCall("c1", "r", "{}", signature="s")),),
        Replace(0, assistant(ToolCall("c1", "r", '{"a":1}', signature="s")), "w"),
    ),
    (
        "signed-call",
        OPEN,
        Replace(1, assistant(evolve(CALL, signature="s"), ToolCall("c2", "read")), "w"),
    ),
    ("empty-replacement", TURNS, Replace(0, user(""), "w")),
    ("no-change", TURNS, Replace(0, user("a"), "w")),
    ("no-change", TURNS, Strip("w")),
    ("silent-break", (*TURNS, Sent(), Reply("failed")), Cut(1, NOTICE, "w")),
    ("silent-break", (*TURNS, Sent(), Reply("failed")), Replace(4, user("x"), "w")),
]


@pytest.mark.parametrize(
    ("code", "before", "entry"), REFUSED, ids=[f"{c}-{i}" for i, (c, _, _) in enumerate(REFUSED)]
)
def test_refused(code, before, entry):
    session = session_of(*before)
    with pytest.raises(CtxError) as caught:
        record(session, entry)
    assert caught.value.code == code
    assert caught.value.entry == len(before)
    blame = (
        IllegalDecision if isinstance(entry, Cut | Drop | Replace | Strip) else ProtocolViolation
    )
    assert type(caught.value) is blame
    assert session == session_of(*before)


def test_every_rule_has_a_refusal():
    refused = {code for code, _, _ in REFUSED} | {"open-loop"}
    assert {rule.code for rule in RULES} == refused


def test_silent_breaks_of_each_decision():
    session = read_exchange()
    offers = [
        Replace(2, assistant(Thinking("hm", "s"), ToolCall("c1", "read", "{}")), "w"),
        Drop(2, 3, "w"),
        Strip("w"),
        Cut(3, NOTICE, "w", (0,)),
    ]
    for offer in offers:
        with pytest.raises(IllegalDecision, match="silent-break"):
            record(session, offer)
        assert len(record(session, attrs.evolve(offer, breaks=True))) == 8


def test_leading_thinking_of_an_open_loop_waits_for_the_next_user_message():
    head = Head(Route("anthropic", "m", binding="leading"))
    session = session_of(
        head,
        user("go"),
        Sent(),
        Reply("completed", assistant(Thinking("hm", "s"), CALL)),
        tool_result("c1", "42"),
    )
    for offer in (Strip("w", breaks=True), Head(system="new")):
        with pytest.raises(CtxError) as caught:
            record(session, offer)
        assert caught.value.code == "open-loop"
    assert record(session, head).view.head == head
    later = record(session, Sent(), Reply("completed", assistant("ok")), user("next"))
    assert record(later, Strip("w", breaks=True)).view.thinking(0) == later.view.end


def test_record_takes_all_entries_or_none():
    session = session_of(user("a"))
    with pytest.raises(ProtocolViolation, match=r"orphan-result.*entry 2"):
        record(session, user("b"), tool_result("c1", "x"))
    assert len(session) == 1
    assert record(session) is session


class Shouted(Message):
    """A subclass: what the rules say of its parent need not hold of it."""


@pytest.mark.parametrize("entry", ["hi", None, Message, Shouted("user", "HI"), Text("a")])
def test_what_is_no_entry_is_refused(entry):
    with pytest.raises(InvalidArgument, match="unknown-kind"):
        record(Session(), entry)


class Whispered(Text):
    """A subclass of a part."""


def test_a_subclass_of_a_part_is_no_part():
    with pytest.raises(InvalidArgument, match="wrong-type"):
        user((Whispered("psst"),))


def test_a_replacement_that_would_be_empty_without_its_thinking_is_refused():
    session = session_of(user("a"), Sent(), Reply("completed", assistant("x", Thinking("t"))))
    with pytest.raises(IllegalDecision, match="empty-replacement"):
        record(session, Replace(2, assistant(" ", Thinking("t")), "w"))


def test_leading_thinking_is_kept_in_a_session_that_was_adopted():
    session = session_of(
        Head(Route(binding="leading")),
        user("a"),
        assistant(Thinking("t", "s"), ToolCall("c1", "n"), Thinking("u", "s")),
        tool_result("c1", "r"),
    )
    for offer in (Strip("w"), Replace(1, user("b"), "w")):
        with pytest.raises(IllegalDecision, match="open-loop"):
            record(session, offer)
    shorter = ToolCall("c1", "n", '{"a":1}')
    with pytest.raises(IllegalDecision, match="open-loop"):
        record(session, Replace(2, assistant(Thinking("t", "s"), shorter, Thinking("u", "s")), "w"))
    behind = assistant(Thinking("t", "s"), ToolCall("c1", "n"), Thinking("u", "s"), "say")
    assert record(session, Replace(2, behind, "w")).view.messages()[1] == behind


def test_what_was_sent_stays_sent_behind_a_pending_break():
    session = session_of(user("a"), user("b"), user("c"), Sent(), Reply("failed"))
    session = record(session, Replace(0, user("A"), "first", breaks=True))
    with pytest.raises(IllegalDecision, match="silent-break"):
        record(session, Replace(2, user("C"), "second"))
    session = record(session, Replace(2, user("C"), "second", breaks=True))
    session = record(session, Replace(0, user("a"), "back", breaks=True), Sent())
    assert session.view.broke.at == 2
    assert session.view.broke.by == (5, 6, 7)


def test_parameters_key_the_cache():
    route = Route("p", "m", parameters=(("effort", '"high"'), ("tier", '"flex"')))
    assert Head(route) != Head(Route("p", "m"))


def test_reused_ids_pair_with_the_open_exchange():
    session = session_of(user("a"), assistant(CALL), tool_result("c1", "1"))
    session = record(session, assistant(CALL), tool_result("c1", "2"))
    assert [m.parts[0] for m in session.view.messages()[2::2]] == [Text("1"), Text("2")]


def test_arguments_that_never_were_json_may_be_replaced_by_json():
    session = session_of(user("a"), assistant(ToolCall("c1", "r", '{"a":')))
    session = record(session, Replace(1, assistant(ToolCall("c1", "r", '{"a":1}')), "half-written"))
    assert session.view.slots.messages[1].calls[0].arguments == '{"a":1}'


def test_neutral_entries_are_always_accepted():
    session = record(session_of(*OPEN), Note("ui", "{}"), Label(0, "start"), Ask("k", "t", "q"))
    assert session.view.messages() == session_of(*OPEN).view.messages()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: Text(5), "wrong-type"),
        (lambda: Text("\ud800"), "lone-surrogate"),
        (lambda: Thinking("a", 1), "wrong-type"),
        (lambda: Image("x", None), "wrong-type"),
        (lambda: ToolCall("a", "b", {}), "wrong-type"),
        (lambda: ToolCall("a", "b", "{}", "\udfff"), "lone-surrogate"),
        (lambda: Opaque("a", b""), "wrong-type"),
        (lambda: Message("model", ()), "wrong-role"),
        (lambda: Message("user", [Text("a")]), "wrong-type"),
        (lambda: Message("user", ("a",)), "wrong-type"),
        (lambda: Message("user", (CALL,)), "wrong-role"),
        (lambda: Message("user", (Thinking("a"),)), "wrong-role"),
        (lambda: Message("user", (), call="c1"), "wrong-role"),
        (lambda: Message("tool", ()), "wrong-role"),
        (lambda: Message("user", (), id=3), "wrong-type"),
        (lambda: Head(system=None), "wrong-type"),
        (lambda: Tool("read", schema={}), "wrong-type"),
        (lambda: Head(tools=(Tool("read"), Tool(1))), "wrong-type"),
        (lambda: Route(binding="strict"), "invalid-argument"),
        (lambda: Usage(input=1.5), "wrong-type"),
        (lambda: Usage(input=True), "wrong-type"),
        (lambda: Usage(output=-1), "invalid-argument"),
        (lambda: Note(1), "wrong-type"),
        (lambda: Thinking("a", redacted=1), "wrong-type"),
        (lambda: Message([], "a"), "wrong-role"),
        (lambda: Message("user", "a", error=0), "wrong-type"),
        (lambda: Head(tools=[Tool("a")]), "wrong-type"),
        (lambda: Head(tools=("a",)), "wrong-type"),
        (lambda: Head(route=None), "wrong-type"),
        (lambda: Route(parameters={"a": "1"}), "wrong-type"),
        (lambda: Route(parameters=(("a", 1),)), "wrong-type"),
        (lambda: Route(parameters=(("a",),)), "wrong-type"),
        (lambda: Sent(inferred=1), "wrong-type"),
        (lambda: Sent(time=1.5), "wrong-type"),
        (lambda: Reply("bogus"), "invalid-argument"),
        (lambda: Reply([]), "invalid-argument"),
        (lambda: Reply("failed", "half"), "wrong-type"),
        (lambda: Reply("failed", None, {}), "wrong-type"),
        (lambda: UsageReport(1.0, Usage()), "wrong-type"),
        (lambda: Label(True, "x"), "wrong-type"),
        (lambda: Label(0, "\ud800"), "lone-surrogate"),
        (lambda: Cut(0, "notice", "w"), "wrong-type"),
        (lambda: Cut(0, NOTICE, "w", [0]), "wrong-type"),
        (lambda: Cut(0, NOTICE, "w", (True,)), "wrong-type"),
        (lambda: Replace(0, NOTICE, None), "wrong-type"),
        (lambda: Drop(0, "1", "w"), "wrong-type"),
        (lambda: Strip("w", breaks=None), "wrong-type"),
        (lambda: Ask("k", "t", "q", 1.5), "wrong-type"),
        (lambda: Answer(0, "done"), "invalid-argument"),
        (lambda: Answer(0, "failed", "\ud800"), "lone-surrogate"),
        (lambda: find(Session(), "0"), "wrong-type"),
        (lambda: snap_frontier((), True), "wrong-type"),
        (lambda: pipeline(None), "wrong-type"),
        (lambda: select(Session(), budget=[]), "wrong-type"),
        (lambda: select(Session(), budget=None), "invalid-argument"),
        (lambda: select(Session(), budget=1, cache="Warm"), "invalid-argument"),
        (lambda: prune_suffix(Session(), stub_over=None, drop_over=1), "invalid-argument"),
        (lambda: prune_suffix(Session(), stub_over=1, drop_over=1, cache=7), "invalid-argument"),
    ],
)
def test_values_are_checked_when_they_are_made(make, code):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.code == code


def test_blank_text_beside_other_parts_is_not_shown():
    call = ToolCall("c1", "read")
    session = record(
        Session(),
        user((Text("a"), Text("\n"))),
        assistant(" ", Thinking("t"), "", call),
        tool_result("c1", (Text(""), Image("data", "image/png"))),
    )
    shown = project(session).messages
    assert [m.parts for m in shown] == [
        (Text("a"),),
        (Thinking("t"), call),
        (Text(""), Image("data", "image/png")),
    ]
    assert not violations(shown, PROFILES["anthropic"])
    # What is said of parts that are not shown is no change, and none is let in later.
    with pytest.raises(IllegalDecision, match="no-change"):
        record(session, Replace(0, user((Text("a"), Text("  "))), "again"))
    cut = record(session, Cut(0, user((Text("cut"), Text(" "))), "old"))
    assert project(cut).messages[0] == user("cut")
    edited = record(session, Replace(2, tool_result("c1", (Text(" "), Text("x"))), "shorter"))
    assert project(edited).messages[2].parts == (Text(" "), Text("x"))
