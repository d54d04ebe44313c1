"""Every law holds of polite and of hostile sessions, and of every shipped stage and pipeline."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import pickle
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import ctxalgebra
import ctxalgebra.laws.strategies
from ctxalgebra import (
    Answer,
    Ask,
    CtxError,
    Cut,
    Drop,
    Head,
    Image,
    InvalidArgument,
    Label,
    LawViolation,
    Message,
    Node,
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
    ToolCall,
    Usage,
    UsageReport,
    answer_to,
    ask,
    assistant,
    at_leaf,
    compact_output,
    defects,
    digest_output,
    drive,
    forget,
    limit_output,
    log,
    open_calls,
    pipeline,
    project,
    prune_suffix,
    record,
    reply,
    select,
    send,
    strip_thinking,
    tag_results,
    tool_result,
    travel,
    user,
    write_facts,
)
from ctxalgebra.codecs import pi
from ctxalgebra.laws import (
    ARRAY_LAWS,
    LAWS,
    SESSION_LAWS,
    STAGE_LAWS,
    Law,
    branches,
    check,
    check_journal,
    defect,
    fits_budget,
    growing,
    hypothesis_plugin,
    kept,
    playing,
    script,
    sent,
    stages,
    verdict,
)
from ctxalgebra.laws.alphabet import HEADS, SPOKEN
from ctxalgebra.laws.evidence import open_loop
from ctxalgebra.laws.playing import MOVES
from ctxalgebra.laws.soiling import FAULTS, Line, soiled, taken_in
from ctxalgebra.laws.strategies import (
    conversations,
    dirty_messages,
    dirty_sessions,
    heads,
    journals,
    messages,
    parts,
    sessions,
)
from ctxalgebra.model.view import EMPTY_VIEW, Slots
from ctxalgebra.usage import remind

# By name: some modules are hidden by functions that are called like them.
check_module, gate, journal, selecting, view = (
    sys.modules[f"ctxalgebra.{name}"]
    for name in ("laws.check", "model.gate", "model.session", "transforms.select", "model.view")
)
ROOT = Path(__file__).resolve().parents[1]
BY_NAME = {law.name: law for law in LAWS}

CALL = ToolCall("c1", "read")
OPAQUE = Opaque("server_tool", "{}")
THINKING = Thinking("t", "s")


def let_go(asks):
    """Answer that whatever was read may go."""
    return tuple(Answer(p.number, "answered", '{"decision":"DROP"}') for p in asks)


def mixed(asks):
    """Answer in every way: shorter than what was asked about, longer, late, not at all."""
    answers = (("answered", "v"), ("failed", "no"), ("answered", "v" * 400), ("expired", ""))
    return tuple(Answer(p.number, *answers[p.number % 4]) for p in asks)


LIMIT = partial(limit_output, tools=("read",), max_bytes=40, max_lines=1)
DIGEST = partial(digest_output, tools=("read",), over=10, fallback_bytes=40)

STAGES = {
    "select": partial(select, budget=60),
    "select, nearly nothing": partial(select, budget=1),
    "select, with a window": partial(select, budget=150, window=100, reserve=20, target=30),
    "select, cold": partial(select, budget=150, target=40, cache="cold"),
    "prune_suffix": partial(prune_suffix, stub_over=40, drop_over=20),
    "prune_suffix, cold": partial(prune_suffix, stub_over=20, drop_over=10, cache="cold"),
    "prune_suffix, soon": partial(prune_suffix, stub_over=15, drop_over=5, horizon=200),
    "strip_thinking": strip_thinking,
    "select, then prune_suffix": pipeline(
        partial(select, budget=60), partial(prune_suffix, stub_over=40, drop_over=20)
    ),
    "prune_suffix, then select": pipeline(
        partial(prune_suffix, stub_over=40, drop_over=20), partial(select, budget=60)
    ),
    "tag_results": partial(tag_results, tools=("read", "ls"), over=1, regret=1, aux=0),
    "forget": forget,
    "tag_results, then forget": lambda session: drive(
        session,
        pipeline(
            partial(tag_results, tools=("read", "ls"), over=1, regret=1, aux=0),
            partial(forget, regret=1, horizon=200),
        ),
        let_go,
    ),
    "compact_output": compact_output,
    "limit_output": LIMIT,
    "limit_output, the end, saved": lambda session: drive(
        session, partial(LIMIT, tail=("read",), save=True, max_bytes=7), mixed
    ),
    "digest_output, without answers": DIGEST,
    "digest_output": lambda session: drive(session, DIGEST, mixed),
    "digest_output, limit_output, write_facts, then paging": lambda session: drive(
        session,
        pipeline(
            DIGEST,
            LIMIT,
            partial(write_facts, tools=("read",), over=1, model=True),
            partial(prune_suffix, stub_over=15, drop_over=10),
            partial(select, budget=60),
        ),
        mixed,
    ),
    "write_facts": partial(write_facts, tools=("read",), over=1),
    "remind": partial(remind, window=150),
    "remind, then select": pipeline(partial(remind, window=90), partial(select, budget=60)),
    "nothing": pipeline(),
}
"""Every shipped stage, and pipelines of them."""


@cache
def drawn(make):
    """Draw sessions once: laws only read them."""
    found = []

    @given(make())
    def look(session):
        found.append(session)

    look()
    return found


def holds(judge, *makers):
    """Ask a law of what was drawn; where it is broken, let Hypothesis look for the smallest."""
    sample = [session for make in makers for session in drawn(make)]
    if settings().max_examples > 1_000:
        sample = sample[:: len(makers)]  # as many in all
    broken = [found for session in sample if (found := judge(session))]

    @given(st.one_of(*[make() for make in makers]))
    def search(session):
        assert judge(session) is None

    if broken:
        search()
    assert not broken


# Laws x sessions


@pytest.mark.parametrize("law", SESSION_LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize(
    "make", [journals, sessions, dirty_sessions], ids=["hostile", "polite", "dirty"]
)
def test_sessions_keep_the_law(law, make):
    holds(partial(verdict, law), make)


# Stages x laws


@pytest.mark.parametrize("law", STAGE_LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_shipped_stages_keep_the_law(law, stage):
    holds(partial(verdict, law, stage), sessions, journals, dirty_sessions)


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_the_loop_that_goes_on_keeps_all_laws(stage):
    check(stage, examples=settings().max_examples // 4)


@pytest.mark.parametrize("budget", [1, 20, 60, 150])
@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_select_keeps_its_budget(budget, order):
    law = fits_budget(budget=budget)
    stages = (partial(select, budget=budget), STAGES["prune_suffix"])[::order]
    holds(partial(verdict, law, pipeline(*stages)), sessions, journals, dirty_sessions)


# What the search found, in its smallest form


def test_a_drop_that_opens_a_loop_lets_the_next_wait():
    """A last message that only thought goes with the drop, and results stand last."""
    session = record(Session(), Head(Route(binding="leading")), user("a"))
    for at, thinks in enumerate([(), (THINKING,), (), (THINKING,)]):
        call = ToolCall(f"c{at}", "read")
        result = tool_result(call.id, "" if thinks else "c" * 60)
        session = record(session, assistant(*thinks, call), result)
    session = record(session, assistant(THINKING))
    after = STAGES["prune_suffix, cold"](session)
    assert [type(node.entry) for node in log(after)[len(session) :]] == [Drop]
    assert STAGES["prune_suffix, cold"](after) is after


def asked(session, message, tokens=None):
    """Send, and take a reply with a report."""
    usage = None if tokens is None else Usage(tokens, 2)
    return reply(send(session)[0], "completed", message, usage=usage)


def test_a_cut_whose_estimate_the_hidden_thinking_moves_goes_deeper_at_once():
    """Reports said that the thinking message costs nothing; without thinking it is another."""
    call = {n: ToolCall(f"c{n}", "read") for n in (1, 2, 3)}
    session = asked(record(Session(), user("a")), assistant("look", Image("aGk=", "image/png")))
    session = asked(record(session, user("a")), assistant("ok"))
    session = asked(session, assistant(THINKING, call[1]), 8)
    session = asked(
        record(session, tool_result("c1", "a")), assistant(THINKING, "d" * 300, call[2])
    )
    session = asked(
        record(session, tool_result("c2", "c" * 60)), assistant(THINKING, "now", call[3])
    )
    once = select(session, budget=1)
    assert len(once) == len(session) + 1
    assert select(once, budget=1) is once


def test_pressure_counts_what_was_reported_as_select_does():
    """What a cut would take was reported to cost less than the notice for it."""
    session, _ = send(record(Session(), user("a")))
    session = reply(session, "completed", assistant("d" * 300, CALL), usage=Usage(1, 1))
    session = record(session, user("steering, between results"), tool_result("c1", (OPAQUE,)))
    session = record(send(session)[0], user("steering, in flight"))
    session = reply(session, "completed", assistant("ok"), usage=Usage(87, 1, 43))
    pressed = ctxalgebra.pressure(session, budget=40)
    assert not pressed.fits
    assert pressed.cuttable == (select(session, budget=40) is not session)


def test_every_shipped_stage_is_in_the_table():
    shipped = {
        name
        for name, value in ((name, getattr(ctxalgebra, name)) for name in ctxalgebra.__all__)
        if inspect.isfunction(value)
        and value.__module__.startswith("ctxalgebra.transforms")
        and inspect.signature(value).return_annotation == "Session"
    }
    named = {str(getattr(stage, "func", stage)) for stage in STAGES.values()}
    missing = {name for name in shipped if not any(f" {name} " in text for text in named)}
    assert not missing


# The laws themselves


def test_laws_are_named_once_and_say_what_holds():
    names = [law.name for law in (*LAWS, fits_budget(budget=9))]
    assert len(set(names)) == len(names)
    for law in (*LAWS, *ARRAY_LAWS):
        assert law.statement.endswith(".")
        assert law.name == law.name.lower().replace("_", "-")
    assert {law.kind for law in SESSION_LAWS} == {"invariant", "preorder"}
    assert {law.kind for law in STAGE_LAWS} == {"equation", "function"}
    assert fits_budget(budget=9).kind == "goal"


def test_the_reference_states_each_law_as_the_code_does():
    text = (ROOT / "docs" / "reference" / "laws.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    told = [tuple(row[:3]) for row in rows if len(row) == 4]
    for law in (*LAWS, *ARRAY_LAWS, fits_budget(budget=9)):
        assert (f"`{law.name}`", law.kind, law.statement) in told


def test_a_law_that_raises_is_broken():
    def broken(_):
        raise ZeroDivisionError("by zero")

    assert verdict(Law("x", "invariant", "", broken), Session()) == "ZeroDivisionError: by zero"


def test_laws_hold_of_nothing():
    for law in SESSION_LAWS:
        assert law.broken(Session()) is None


def made(*entries):
    """Append entries unchecked, as no gate would."""
    session = Session()
    for entry in entries:
        session = journal.append(session, entry)
    return session


SENT = (user("a"), Sent())
BROKEN = {
    "call": ("protocol-validity", made(user("a"), assistant(CALL), Sent()), "no results: ['c1']"),
    "twice": ("protocol-validity", made(assistant(CALL, CALL), Sent()), "a call id twice"),
    "between": (
        "protocol-validity",
        made(user("a"), assistant(CALL), user("b"), Sent()),
        "no results",
    ),
    "renamed": (
        "faithful",
        made(assistant(CALL), tool_result("c1", "x"),
             Replace(0, assistant(ToolCall("c1", "write")), "?")),
        "message 0 in the request of entry 3 has other calls",
    ),
    "opaque": (
        "faithful",
        made(user("a"), assistant("b", OPAQUE), Replace(1, assistant("b"), "?")),
        "other opaque parts",
    ),
    "no JSON": (
        "faithful",
        made(assistant(CALL), tool_result("c1", "x"),
             Replace(0, assistant(evolve(CALL, arguments="{")), "?")),
        "arguments of another type in call 'c1'",
    ),
    "rewritten thinking": (
        "thinking-binding",
        made(user("a"), assistant(THINKING, "b"), Replace(1, assistant(Thinking("u"), "b"), "?"),
             user("c")),
        None,  # the view hides it
    ),
    "label": ("references", made(Label(5, "x")), "entry 0 names 5"),
    "report": ("references", made(user("a"), UsageReport(0, Usage())), "entry 1 names 0"),
    "answer": (
        "references",
        made(Ask("k", "t", "q"), Answer(0, "answered"), Answer(0, "failed")),
        "entry 2 answers 0",
    ),
    "reply": ("accounts", made(user("a"), Reply("completed", assistant("b"))), "entry 1 closes no"),
    "unread": ("no-unread-drop", made(*SENT, Cut(0, user("n"), "?")), "entry 2 takes message 0"),
    "no message": ("conservation", made(*SENT, Reply("completed")), "entry 2 completes"),
    "no target": ("conservation", made(user("a"), Replace(9, user("b"), "?")), "not shown"),
    "no span": ("conservation", made(user("a"), Drop(9, 8, "?")), "not shown"),
    "no cut": ("conservation", made(user("a"), Cut(9, user("n"), "?")), "not shown"),
    "nothing": ("effective", made(*SENT, Replace(0, user("a"), "?")), "entry 2 changes nothing"),
    "undeclared": (
        "prefix-extension",
        made(*SENT, Reply("failed"), Replace(0, user("b"), "?"), Sent()),
        "they part at message 0",
    ),
    "empty": ("replay", made(Sent()), "empty-request"),
    "stuck": ("progress", made(assistant(CALL, CALL)), "no request can leave"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "session", "place"), BROKEN.values(), ids=BROKEN)
def test_a_broken_law_names_the_place(name, session, place):
    found = verdict(BY_NAME[name], session)
    assert (found is None) if place is None else (place in found)


def seen(view, **changes):
    """Show something else."""
    messages, numbers = list(view.messages()), list(view.slots.numbers[: view.end])
    slots = Slots(changes.pop("messages", messages), changes.pop("numbers", numbers))
    return view._replace(slots=slots, end=len(slots.messages), **changes)


def edited(view):
    return seen(view, messages=[user("edited"), *view.messages()[1:]])


def longer(view):
    numbers = [*view.slots.numbers[: view.end], 0]
    return seen(view, messages=[*view.messages(), user("old")], numbers=numbers)


def shorter(view):
    return seen(
        view, messages=list(view.messages()[:-1]), numbers=view.slots.numbers[: view.end - 1]
    )


TALK = (user("a"), Sent(), Reply("completed", assistant(THINKING, "b")), user("c"))
LIES = {
    "an event edits": ("conservation", Note, edited, "changes what was shown"),
    "an event hides": ("conservation", Note, lambda v: v._replace(end=v.end - 1), "hides what was"),
    "an event shows again": ("conservation", Note, longer, "which was not waiting"),
    "a message is another": ("conservation", Message, edited, "not as it was recorded"),
    "a cut does nothing": ("conservation", Cut, None, "other messages shown"),
    "a cut loses more": ("conservation", Cut, shorter, "loses message 3"),
    "a strip edits": ("conservation", Strip, edited, "changes message 0"),
    "a note brings back": ("forward-only-frontier", Note, longer, "message 0, which had left"),
    "a head keeps thinking": ("thinking-binding", Head, None, "bound to another head"),
    "a note invents thinking": (
        "thinking-binding",
        Note,
        lambda view: seen(view, messages=[assistant(Thinking("u")) if m.thinks else m
                                          for m in view.messages()]),
        "is not the original",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "lie", "place"), LIES.values(), ids=LIES)
def test_a_law_tells_what_an_entry_did_beside_what_it_says(name, kind, lie, place, monkeypatch):
    sound = view.STEPS[kind]

    def step(before, number, entry):
        after = sound(before, number, entry)
        return lie(after) if lie else before._replace(head=after.head)

    session = record(Session(), *TALK) if kind is not Message else Session()
    if kind is Note and lie is longer and name != "conservation":
        session = record(session, Cut(0, user("notice"), "why", breaks=True))
    monkeypatch.setitem(view.STEPS, kind, step)
    entry = {
        Note: Note("n"),
        Message: user("a"),
        Cut: Cut(0, user("notice"), "why", breaks=True),
        Strip: Strip("why", breaks=True),
        Head: Head(system="another"),
    }[kind]
    assert place in verdict(BY_NAME[name], record(session, entry))


def test_thinking_that_comes_back_is_noticed_where_it_is_not_bound(monkeypatch):
    session = record(Session(), Head(Route(binding="none")), *TALK)
    whole = session.view.messages()
    session, _ = send(record(session, Strip("why", breaks=True)))
    session = reply(session, "failed")
    monkeypatch.setitem(view.STEPS, Note, lambda now, n, e: seen(now, messages=list(whole)))
    found = verdict(BY_NAME["thinking-binding"], record(session, Note("n")))
    assert found == "the thinking of message 3 is back in the request of 9"


def test_memory_that_lies_is_noticed(monkeypatch):
    law, session = BY_NAME["replay"], record(Session(), *TALK)
    wrong = Session(session.leaf, session.last, session.view._replace(read=0), {})
    assert "another view" in verdict(law, wrong)
    sound_append, sound_walk = journal.append, journal._walk

    def appended(session, entry):
        after = sound_append(session, entry)
        return Session(after.leaf, after.last, after.view._replace(fresh=9), after.folds)

    def forgetful(session, entry):
        after = sound_append(session, entry)
        folds = {f: session.folds[f] if f.along == "log" else v for f, v in after.folds.items()}
        return Session(after.leaf, after.last, after.view, folds)

    def walked(leaf, what):
        value, now = sound_walk(leaf, what)
        return (value + 1 if what.name == "trace" else value), now

    for module in (journal, gate):
        monkeypatch.setattr(module, "append", appended)
    assert "view at the leaf is not the one from scratch" in verdict(law, record(Session(), *TALK))
    for module in (journal, gate):
        monkeypatch.setattr(module, "append", forgetful)
    assert "a fold over the log" in verdict(law, session)
    monkeypatch.undo()
    monkeypatch.setattr(journal, "_walk", walked)
    assert "a remembered fold" in verdict(law, session)

    def seen_otherwise(leaf, what):
        value, now = sound_walk(leaf, what)
        return value, now._replace(fresh=9)

    monkeypatch.setattr(journal, "_walk", seen_otherwise)
    assert "the remembered view is not the one" in verdict(law, session)


def test_numbers_out_of_order_are_noticed():
    first = Node(user("a"), None, None)
    second = Node(user("b"), first, first)
    object.__setattr__(second, "number", 7)
    session = Session(second, second)
    assert "entry 1 stands at a wrong place" in BY_NAME["append-only"].broken(session)


@pytest.mark.parametrize(
    ("law", "query", "change", "place"),
    [
        ("accounts", "account", {"requests": 9}, "says 9 requests, counted are 1"),
        ("accounts", "account", {"fresh": 9}, "1 is not 0 + 0 + 9"),
        ("accounts", "account", {"usage": Usage(5)}, "input reported are 0, the account says 5"),
        ("dry-run-foretells", "dry_run", {"entries": (user("x"),)}, "other entries"),
        ("dry-run-foretells", "dry_run", {"input": 99}, "told 99 tokens"),
    ],
)
def test_queries_that_lie_are_noticed(law, query, change, place, monkeypatch):
    sound = getattr(ctxalgebra, query)
    for module in (kept, stages):
        if hasattr(module, query):
            monkeypatch.setattr(module, query, lambda *a, **k: evolve(sound(*a, **k), **change))
    session = record(Session(), *TALK[:3])
    stage = [] if law == "accounts" else [pipeline()]
    assert place in verdict(BY_NAME[law], *stage, session)


def test_breaks_laid_to_nothing_are_noticed(monkeypatch):
    session = record(Session(), *TALK, Cut(0, user("n"), "why", breaks=True), Sent())
    sound = ctxalgebra.breaks
    assert sound(session)
    for change, place in (
        ({"by": ()}, "is laid to ()"),
        ({"by": (0,)}, "is laid to (0,)"),
        ({"at": 5}, "is at 0, not at 5"),
        ({"sent": 1}, "where there is none"),
    ):
        monkeypatch.setattr(
            sent, "breaks", lambda s, change=change: tuple(evolve(b, **change) for b in sound(s))
        )
        assert place in verdict(BY_NAME["no-false-alarm"], session)


def test_thinking_is_bound_to_the_first_head_that_is_stated():
    law = BY_NAME["thinking-binding"]
    told = record(Session(), user("a"), assistant(THINKING, "b"), Head(system="x"), user("c"))
    assert project(told).messages[1].thinks
    assert verdict(law, send(told)[0]) is None


def test_branches_are_all_ends():
    fork = record(at_leaf(record(Session(), user("a"), user("b")), 0), user("c"))
    ends = [branch.leaf.number for branch in branches(fork)]
    assert ends == [2, 1]
    inside = at_leaf(fork, 0)
    assert [branch.leaf.number for branch in branches(inside)] == [0, 1, 2]
    assert next(branches(at_leaf(fork, -1))).leaf is None


def test_an_open_loop_may_begin_with_the_first_message():
    head = Head(Route(binding="leading"))
    session = record(Session(), head, assistant(THINKING, CALL), tool_result("c1", "x"))
    assert [number for number, _ in open_loop(session.view)] == [1]


# check


def nagging(session):
    return record(session, user("Be brief."))


def test_check_finds_the_smallest_example():
    with pytest.raises(LawViolation) as found:
        check(nagging)
    assert found.value.law == "totality" or len(found.value.before) <= 1
    assert found.value.code == "law-broken"
    with pytest.raises(LawViolation) as again:
        check(nagging)
    assert str(again.value) == str(found.value)


def silent(session):
    """Change what was sent without declaring it: the gate refuses, and totality tells."""
    if session.view.sent is None or session.view.flight >= 0 or session.view.front:
        return session
    return record(session, Replace(session.view.slots.numbers[0], user("x"), "?"))


def test_a_stage_that_breaks_the_cache_is_caught():
    with pytest.raises(LawViolation, match="silent-break") as found:
        check(silent, laws=["totality"])
    assert len(found.value.before) <= 6


def test_check_on_one_session():
    session = record(Session(), user("hi"))
    check(partial(select, budget=100), session)
    with pytest.raises(LawViolation, match="idempotence") as found:
        check(nagging, session, laws=["idempotence"])
    assert (len(found.value.before), len(found.value.after)) == (1, 2)


def test_check_sees_a_stage_that_fails_later():
    def later(session):
        if session.view.end > 3:
            raise RuntimeError("too long")
        return session

    session = record(Session(), user("a"), user("b"))
    with pytest.raises(LawViolation, match="totality: the stage raises RuntimeError: too long"):
        check(later, session)
    check(later, session, laws=["quiet", "replay"])  # not asked, it goes on without the stage


def test_check_asks_the_laws_of_the_loop():
    never = Law("never", "invariant", "Nothing is sent.", lambda s: f"{len(s)} entries")
    with pytest.raises(LawViolation, match="never") as found:
        check(pipeline(), Session(), laws=[never])
    assert len(found.value.after) == 14


def test_unknown_laws_and_kinds_are_refused():
    with pytest.raises(InvalidArgument, match="there is no law 'x'"):
        check(pipeline(), Session(), laws=["x"])
    with pytest.raises(InvalidArgument, match="there is no law 'quiet'"):
        check_journal(Session(), laws=["quiet"])
    with pytest.raises(InvalidArgument, match="can't check on"):
        check(pipeline(), Session(), on="tokens")


def rewrites_a_node(session):
    object.__setattr__(session.leaf, "entry", user("rewritten"))
    return session


@pytest.mark.parametrize(
    ("name", "stage", "place"),
    [
        ("totality", lambda s: None, "returns NoneType"),
        ("appends", lambda s: Session(), "1 entries are gone"),
        ("appends", lambda s: record(Session(), user("b")), "entry 0 is another"),
        ("quiet", lambda s: Session(s.leaf, s.last, s.view, {}), "another object"),
        ("idempotence", nagging, "it records"),
        ("inputs-unchanged", rewrites_a_node, "the journal that was passed in changed"),
    ],
)
def test_stage_laws_notice(name, stage, place):
    session = record(Session(), user("a"))
    assert place in verdict(BY_NAME[name], stage, session)


def test_a_stage_may_give_back_an_equal_journal():
    session = record(Session(), user("a"), user("b"))
    copy = pickle.loads(pickle.dumps(session))
    assert verdict(BY_NAME["appends"], lambda s: copy, session) is None


def test_a_dry_run_of_nothing_foretells_nothing():
    assert verdict(BY_NAME["dry-run-foretells"], pipeline(), Session()) is None


def test_branch_isolation_sees_what_another_branch_leaves(monkeypatch):
    monkeypatch.setattr(stages, "at_leaf", lambda s, n: record(at_leaf(s, n), user("left here")))
    found = verdict(BY_NAME["branch-isolation"], pipeline(), record(Session(), user("a")))
    assert "changes what is shown" in found


def test_determinism_sees_what_a_stage_remembers():
    calls = []

    def moody(session):
        calls.append(session)
        return record(session, user("x")) if len(calls) % 2 else session

    assert "it recorded" in verdict(BY_NAME["determinism"], moody, Session())


def test_determinism_sees_two_requests_of_one_journal():
    session = record(Session(), user("a"))
    views = iter((session.view, EMPTY_VIEW, session.view))
    lying = lambda s: Session(s.leaf, s.last, next(views), {})  # noqa: E731
    assert "gives two requests" in verdict(BY_NAME["determinism"], lying, session)


def test_fits_budget_is_not_asked_while_a_request_is_in_flight():
    session, _ = send(record(Session(), user("a" * 400)))
    assert fits_budget(budget=1).broken(pipeline(), session) is None


def test_fits_budget_sees_what_pressure_denies(monkeypatch):
    session = record(Session(), user("a" * 400), assistant("b"), user("c" * 400), assistant("d"))
    session = record(session, user("e"))
    law = fits_budget(budget=50)
    assert "a cut could take more" in law.broken(pipeline(), session)
    monkeypatch.setattr(selecting, "_places", lambda view: ([], (0, 0)))
    assert "can be cut" in law.broken(pipeline(), session)


# check_journal


def test_check_journal_names_the_law():
    with pytest.raises(LawViolation, match="references: entry 0 names 7") as found:
        check_journal(made(Label(7, "x")), laws=["effective", "references"])
    assert found.value.law == "references"


def test_laws_of_a_long_journal_walk_each_path_once(monkeypatch):
    """Steps grow with the journal, not with its square."""

    def steps_of(turns):
        session = record(Session(), Head(system="s"))
        for turn in range(turns):
            session, _ = send(record(session, user(f"turn {turn}")))
            session = reply(session, "completed", assistant("ok"), usage=Usage(10, 1))
        session = pickle.loads(pickle.dumps(session))
        count = [0]
        sound = view.step

        def counting(*args):
            count[0] += 1
            return sound(*args)

        with monkeypatch.context() as patch:
            patch.setattr(journal, "step", counting)
            for law in SESSION_LAWS:
                if law.name not in ("replay", "travel-returns-the-request", "progress"):
                    assert verdict(law, session) is None
        return count[0]

    short, long = steps_of(50), steps_of(200)
    assert long < 5 * short


SHARED = ROOT.parent / "shared" / "sessions"


@pytest.mark.skipif(not SHARED.exists(), reason="the real sessions are not here")
def test_real_sessions_keep_all_laws():
    entries = 0
    for path in sorted((SHARED / "pi").rglob("*.jsonl")):
        session = pi.decode(path.read_bytes(), file=path.name).session
        check_journal(session)
        entries += len(session)
    assert entries > 1_000


# Message arrays


def test_a_sliding_window_is_caught_with_a_small_example():
    with pytest.raises(LawViolation, match="protocol-validity") as found:
        check(lambda array: array[-3:], on="messages")
    assert [m.role for m in found.value.before] == ["user", "assistant", "tool", "tool", "tool"]
    with pytest.raises(LawViolation, match="prefix-extension") as found:
        check(lambda array: array[-3:], on="messages", laws=["prefix-extension"])
    assert len(found.value.before) <= 5
    assert len(found.value.after) == 3


def test_what_is_handed_on_whole_keeps_the_laws():
    check(lambda array: array, on="messages")
    check(list, on="messages", examples=20)
    check(list, on="messages", examples=7)  # none of them long


def test_nothing_sent_is_no_request():
    check(lambda array: array if len(array) > 2 else (), (user("a"), user("b"), user("c")),
          on="messages", laws=["prefix-extension"])  # fmt: skip


class Forgetful:
    """A trimming function that keeps state, as so many do."""

    def __init__(self):
        self.calls = 0

    def __call__(self, array):
        self.calls += 1
        return array[: 1 + self.calls % 2]


@pytest.mark.parametrize(
    ("law", "function", "place"),
    [
        ("totality", lambda array: 1 // (3 - len(array)), "TypeError"),
        ("totality", lambda array: array[len(array)], "with 1 messages it raises IndexError"),
        ("protocol-validity", lambda array: array[1:2], "calls have no results"),
        ("determinism", Forgetful(), "gives two answers"),
    ],
)
def test_array_laws_notice(law, function, place):
    array = (user("a"), assistant(CALL), tool_result("c1", "x"), user("b"))
    with pytest.raises(LawViolation, match=law) as found:
        check(function, array, on="messages", laws=[law])
    assert place in str(found.value)


def test_a_function_that_edits_messages_in_place_is_caught():
    def edits(array):
        object.__setattr__(array[0], "parts", (Text("edited"),))
        return array

    with pytest.raises(LawViolation, match="changed in place"):
        check(edits, (user("a"),), on="messages", laws=["inputs-unchanged"])


@pytest.mark.parametrize(
    "trim",
    [
        lambda array: (),
        lambda array: array[:1],
        lambda array: (user("x"),),
        lambda array: tuple(m for m in array if m.role != "tool" and not m.calls),
    ],
)
def test_a_trim_that_loses_what_came_is_noticed(trim):
    with pytest.raises(LawViolation, match="shows-what-came") as caught:
        check(trim, on="messages", laws=["shows-what-came"])
    assert len(caught.value.before) <= 3


def test_a_stub_for_a_large_result_shows_what_came():
    def stub(array):
        return tuple(evolve(m, parts=(Text("-"),)) if m.role == "tool" else m for m in array)

    check(stub, on="messages", examples=60)


def test_a_window_that_slides_late_is_noticed():
    with pytest.raises(LawViolation, match="prefix-extension"):
        check(lambda array: array[-40:], on="messages", laws=["prefix-extension"])


def test_a_stage_that_fails_on_an_answer_is_noticed():
    def asks(session):
        session = ask(session, Ask("k", "echo", ""))
        if (answer := answer_to(session, "k")) is not None and answer.outcome == "expired":
            raise RuntimeError("late")
        return session

    with pytest.raises(LawViolation, match="totality: the stage raises RuntimeError: late"):
        check(asks, examples=5)


@pytest.mark.parametrize("slip", [lambda s: travel(s, 0) if s else s, lambda s: at_leaf(s, -1)])
def test_a_stage_behind_which_the_loop_ends_is_noticed(slip):
    with pytest.raises(LawViolation):
        check(slip, examples=50)


def test_a_stage_that_gives_two_verdicts_is_not_deterministic():
    calls = itertools.count()

    def rare(session):
        if next(calls) == 40:
            raise RuntimeError("now and then")
        return session

    with pytest.raises(LawViolation, match="determinism"):
        check(rare, examples=20)


def three_open(session):
    return 1 / 0 if len(open_calls(session)) >= 3 else session


def quits(session):
    raise SystemExit(3)


def gives_up(session):
    raise asyncio.CancelledError


def at_length_17(session):
    return 1 / 0 if len(session) == 17 else session


def undeclared(session):
    """Offer what the gate refuses, once something was sent."""
    number = session.view.slots.numbers[0] if session.view.sent else -1
    return record(session, Replace(number, user("x"), "?")) if number >= 0 else session


def sends(session):
    return send(session)[0] if session.view.end else session


def without_return(session):
    record(session, user("lost"))


@pytest.mark.parametrize(
    "stage",
    [three_open, quits, gives_up, at_length_17, undeclared, sends, without_return],
    ids=lambda stage: stage.__name__,
)
def test_a_stage_that_raises_breaks_totality_wherever_it_raises(stage):
    with pytest.raises(LawViolation) as found:
        check(stage)
    assert found.value.law == "totality"
    assert stage is sends or fails(stage, found.value.before)


def fails(stage, session):
    try:
        return not isinstance(stage(session), Session)
    except BaseException:  # noqa: BLE001 - some of these stages try to end the process
        return True


@pytest.mark.parametrize("law", [law.name for law in STAGE_LAWS])
def test_whichever_law_is_asked_a_stage_that_raises_breaks_totality(law):
    session = record(Session(), user("a"), assistant("b"))
    with pytest.raises(LawViolation, match="totality: the stage raises SystemExit: 3") as found:
        check(quits, session, laws=[law])
    assert isinstance(found.value.__cause__, SystemExit)


def test_an_interrupt_is_handed_on():
    def interrupted(session):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(interrupted)
    with pytest.raises(KeyboardInterrupt):
        check(interrupted, record(Session(), user("a")))


def now_and_then(session):
    return record(session, Note("moody")) if random.random() < 0.01 else session


def fails_now_and_then(session):
    return 1 / 0 if random.random() < 0.01 else session


def by_the_clock(session):
    return record(session, Note("moody")) if time.perf_counter_ns() // 100 % 2 else session


class Counting:
    """A stage that remembers how often it was called."""

    def __init__(self, every):
        self.every = every
        self.calls = 0

    def __call__(self, session):
        self.calls += 1
        return session if self.calls % self.every else record(session, Note("moody"))


@pytest.mark.parametrize(
    "stage", [now_and_then, fails_now_and_then, by_the_clock, Counting(7), Counting(50)]
)
def test_a_stage_with_moods_breaks_determinism(stage):
    with pytest.raises(LawViolation) as found:
        check(stage)
    assert found.value.law == "determinism"


def test_a_law_that_holds_when_it_is_asked_again_is_not_blamed():
    verdicts = iter(("once", None))
    moody = Law("moody", "function", "It holds.", lambda stage, session: next(verdicts))
    with pytest.raises(LawViolation, match="determinism: asked again, moody holds; before, once"):
        check(pipeline(), Session(), laws=[moody])


def test_two_verdicts_of_one_example_are_no_determinism():
    calls = itertools.count()
    late = Law("late", "invariant", "It holds.", lambda s: "late" if next(calls) == 30 else None)
    with pytest.raises(LawViolation, match="determinism: the same example") as found:
        check(pipeline(), laws=[late])
    assert isinstance(found.value.before, Session)


def test_the_loop_of_check_ends_where_nothing_can_be_sent(monkeypatch):
    monkeypatch.setattr(check_module, "quieted", lambda session: at_leaf(session, -1))
    monkeypatch.setattr(check_module, "send", lambda session: 1 / 0)
    with pytest.raises(LawViolation, match="totality: the loop can't go on: division by zero"):
        check(pipeline(), Session())


# Counterexamples as Python


def run_again(told):
    names = {}
    exec(told, names)
    return names.get("session", names.get("messages"))


@given(st.one_of(journals(), sessions(), dirty_sessions()))
def test_a_script_records_the_session_again(session):
    assert run_again(script(session)) == session


@given(st.lists(messages()))
def test_a_script_makes_messages_again(array):
    array = [
        *array,
        Message("user", "x", name="n", id="i", origin="{}"),
        Message("user", "y", name="n"),
    ]
    array += [assistant("x", id="i"), tool_result("c1", "x", name="n", error=True, id="i")]
    assert run_again(script(array)) == tuple(array)


def test_a_violation_prints_how_to_record_its_counterexample():
    with pytest.raises(LawViolation) as found:
        check(nagging)
    text = "".join(traceback.format_exception(found.value))
    told = text.partition("The counterexample (error.before):\n")[2]
    assert run_again(told) == found.value.before
    assert "Failing test case" not in text
    assert "Falsifying example" not in text
    with pytest.raises(LawViolation) as found:
        check(lambda array: array[-1:], on="messages")
    assert run_again(found.value.__notes__[0].partition("\n")[2]) == found.value.before


def test_a_long_counterexample_is_not_printed():
    session = record(Session(), *[user(f"{n}" * 40) for n in range(500)])
    with pytest.raises(LawViolation) as found:
        check(nagging, session)
    assert found.value.__notes__ == [
        "The counterexample is long: ctxalgebra.laws.script(error.before) prints it."
    ]


@pytest.mark.parametrize("answer", [None, 5, "ab", [user("a"), "b"]])
def test_a_function_that_gives_no_messages_breaks_totality(answer):
    with pytest.raises(LawViolation) as found:
        check(lambda array: answer, on="messages")
    assert found.value.law == "totality"
    assert len(found.value.before) == 1


@pytest.mark.parametrize("examples", [0, -1, "x"])
def test_the_number_of_examples_is_checked(examples):
    with pytest.raises(InvalidArgument, match="invalid-argument"):
        check(lambda session: session, examples=examples)


@given(conversations())
def test_conversations_are_legal(array):
    assert defect(array) is None
    assert {d.code for d in defects(array)} <= {"reused-id"}
    assert array[0].role == "user"


@given(dirty_messages())
def test_the_two_checks_of_arrays_agree(array):
    # Order and ids that come again are no concern of all providers.
    strict = {d.code for d in defects(array)} - {"reused-id", "blank-text", "out-of-order"}
    assert (defect(array) is None) == (not strict)


# Strategies


def test_growing_goes_on_when_a_stage_raises():
    def broken(session):
        raise RuntimeError

    session = growing.grow(broken, 0, [bytes([0, 0, 0, 0, 1])])
    assert [type(node.entry) for node in log(session)] == [Head, Message, Sent, Reply]


def test_growing_needs_no_rescue(monkeypatch):
    """Where the library is sound, nothing of what a good harness does is refused."""
    turns = []
    sound = growing._turn

    def turn(*args):
        turns.append(args)
        session = sound(*args)
        turns.pop()
        return session

    monkeypatch.setattr(growing, "_turn", turn)

    @given(sessions())
    def look(session):
        assert not turns

    look()
    monkeypatch.setattr(growing, "quieted", lambda session: 1 / 0)
    assert len(growing.grow(pipeline(), 0, [bytes([0, 0, 0, 0, 1])])) == 1


def test_the_gate_refuses_with_its_own_errors_only(monkeypatch):
    crashes = []

    def recorded(session, *entries):
        try:
            return record(session, *entries)
        except CtxError:
            raise
        except Exception as error:
            crashes.append((error, entries))
            raise

    monkeypatch.setattr(playing, "record", recorded)
    monkeypatch.setattr(growing, "record", recorded)

    @given(journals(), sessions())
    def look(hostile, polite):
        assert not crashes

    look()


def test_no_move_needs_a_rescue(monkeypatch):
    """Where the library is sound, moves raise only what the gate refuses on the way."""
    raised = set()

    def moved(session, which, a, b):
        try:
            return playing.MOVES[which % len(playing.MOVES)](session, a, b)
        except (CtxError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raised.add(type(error))
            return session

    monkeypatch.setattr(playing, "_moved", moved)

    @given(journals())
    def look(session):
        assert raised <= {InvalidArgument, ProtocolViolation}, raised

    look()


def test_the_game_goes_on_when_the_library_is_damaged(monkeypatch):
    moves = [bytes(range(256))]
    assert len(playing.play(moves)) > 20

    def damaged(session, *entries):
        raise RuntimeError

    monkeypatch.setattr(playing, "record", damaged)
    assert len(playing.play(moves)) == 0


def test_hostile_journals_hold_every_kind_of_entry_and_branch():
    kinds, several = set(), []

    @settings(max_examples=200)
    @given(journals())
    def look(session):
        kinds.update(type(node.entry) for node in log(session))
        several.append(len(list(branches(session))))

    look()
    assert kinds == set(view.STEPS)
    assert max(several) >= 4
    assert len(several) >= 200


def test_polite_sessions_do_what_harnesses_do():
    seen = set()

    @settings(max_examples=200)
    @given(sessions())
    def look(session):
        for node in log(session):
            entry = node.entry
            seen.add(type(entry).__name__)
            if isinstance(entry, Reply):
                seen.add(entry.outcome)
                seen.add("usage" if entry.usage else "no usage")
                seen.add("parallel" if entry.message and len(entry.message.calls) > 1 else "")
            if isinstance(entry, Message):
                seen.update(p.text if isinstance(p, Text) else type(p) for p in entry.parts)
                seen.add(entry.role)
        seen.add("in flight" if session.view.flight >= 0 else "")
        seen.add("three open" if len(open_calls(session)) >= 3 else "")
        seen.add("branched" if len(list(branches(session))) > 1 else "")

    look()
    assert seen >= {
        "Message", "Head", "Sent", "Reply", "Cut", "Replace", "Drop", "completed", "failed",
        "aborted", "lost", "usage", "parallel", "steering, in flight",
        "steering, between results", "the tool was killed", "branched", "in flight", "three open",
        "system", Image, Opaque,
    }  # fmt: skip


def test_dirty_arrays_are_dirty_in_every_way():
    found = set()

    @settings(max_examples=500)
    @given(dirty_messages())
    def look(array):
        found.update(d.code for d in defects(array))

    look()
    assert len(found) >= 5


def test_dirty_sessions_are_dirty_in_every_way():
    seen = set()

    @settings(max_examples=500)
    @given(dirty_sessions())
    def look(session):
        for node in log(session):
            if isinstance(node.entry, Note) and node.entry.name == "codec-repair":
                seen.add(json.loads(node.entry.data)["code"])
            if isinstance(node.entry, Reply):
                seen.add(node.entry.outcome)
            if isinstance(node.entry, Cut):
                seen.add("compaction")
        seen.add("branch" if len(list(branches(session))) > 1 else "")

    look()
    assert seen >= {
        "missing-result", "early-result", "late-result", "reused-id", "blank-text",
        "completed", "aborted", "failed", "lost", "compaction", "branch",
    }  # fmt: skip


@pytest.mark.parametrize("fault", sorted(set(FAULTS), key=FAULTS.index), ids=lambda f: f.__name__)
def test_each_fault_changes_the_lines(fault):
    array = (user("a"), assistant("x", CALL, ToolCall("c2", "read")), tool_result("c1", "1"),
             tool_result("c2", "2"), user("b"), assistant("c"))  # fmt: skip
    sound = tuple(map(Line, array))
    which = FAULTS.index(fault)
    changed = {soiled(array, [(which, n)]) for n in range(40)} - {sound}
    assert bool(changed) == (fault is not FAULTS[0])
    for lines in changed:
        check_journal(taken_in(lines, 1))
    assert soiled((), [(which, 0)]) == ()


@given(messages(), parts(), heads())
def test_values_come_from_small_alphabets(message, part, head):
    assert type(message) is Message
    assert head in HEADS
    assert Message("assistant", (part,)).parts == (part,)


def test_ids_collide():
    ids = [c.id for m in SPOKEN for c in m.calls]
    assert len(ids) > 4 * len(set(ids))


@pytest.mark.parametrize("move", sorted(set(MOVES), key=MOVES.index), ids=lambda m: m.__name__)
def test_each_move_but_the_first_does_something(move):
    changed = []

    @given(journals(), st.integers(0, 255), st.integers(0, 255))
    def look(session, a, b):
        changed.append(move(session, a, b) is not session)

    look()
    assert any(changed) == (move is not MOVES[0])


VALUES = [
    name
    for name in ctxalgebra.__all__
    if not inspect.isfunction(value := getattr(ctxalgebra, name))
    and not isinstance(value, str | tuple | Mapping | ctxalgebra.Tool)
    and not getattr(value, "_is_protocol", False)
]
"""Every public type and alias of types, but for the two that describe an adapter."""


@pytest.mark.parametrize("name", VALUES)
def test_public_types_resolve_once_registered(name):
    hypothesis_plugin.register()
    kind = getattr(ctxalgebra, name)
    found = []

    @settings(max_examples=10)
    @given(st.from_type(kind))
    def look(value):
        found.append(value)

    look()
    assert found
    if inspect.isclass(kind):
        assert {isinstance(value, kind) for value in found} == {True}


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_importing_the_library_and_its_laws_does_not_load_hypothesis():
    code = "import sys, ctxalgebra, ctxalgebra.laws; print('hypothesis' in sys.modules)"
    assert run(code) == "False"


def test_without_hypothesis_there_is_one_clear_error(monkeypatch):
    monkeypatch.delattr(ctxalgebra.laws, "strategies")
    monkeypatch.delitem(sys.modules, "ctxalgebra.laws.strategies")
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    check(pipeline(), Session())
    with pytest.raises(InvalidArgument, match=r"install ctxalgebra\[verify\]") as found:
        check(pipeline())
    assert found.value.code == "missing-extra"


def test_another_missing_module_is_not_taken_for_hypothesis(monkeypatch):
    monkeypatch.delattr(ctxalgebra.laws, "strategies")
    monkeypatch.delitem(sys.modules, "ctxalgebra.laws.strategies")
    monkeypatch.setitem(sys.modules, "ctxalgebra.laws.growing", None)
    with pytest.raises(ModuleNotFoundError, match="growing"):
        check(pipeline())
