"""Every law holds of polite and of hostile sessions, and of every shipped stage and pipeline."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ctxalgebra
from ctxalgebra import (
    CODES,
    Answer,
    Ask,
    Cut,
    Head,
    InvalidArgument,
    Label,
    LawViolation,
    Message,
    Replace,
    Reply,
    Sent,
    Session,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UsageReport,
    assistant,
    at_leaf,
    defects,
    log,
    pipeline,
    prune_suffix,
    record,
    reply,
    select,
    send,
    strip_thinking,
    tool_result,
    user,
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
    hypothesis_plugin,
    verdict,
)
from ctxalgebra.laws.growing import HEADS, MOVES, SPOKEN
from ctxalgebra.laws.strategies import (
    conversations,
    dirty_messages,
    heads,
    journals,
    messages,
    parts,
    sessions,
)

ROOT = Path(__file__).resolve().parents[1]
MANY = settings(max_examples=3 * settings().max_examples)
BY_NAME = {law.name: law for law in LAWS}

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
    "nothing": pipeline(),
}
"""Every shipped stage, and pipelines of them."""


# Laws x sessions


@pytest.mark.parametrize("law", SESSION_LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("make", [journals, sessions], ids=["hostile", "polite"])
def test_sessions_keep_the_law(law, make):
    @MANY
    @given(make())
    def holds(session):
        assert verdict(law, session) is None

    holds()


# Stages x laws


@pytest.mark.parametrize("law", STAGE_LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_shipped_stages_keep_the_law(law, stage):
    @given(st.one_of(sessions(), journals()))
    def holds(session):
        assert verdict(law, stage, session) is None

    holds()


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_the_loop_that_goes_on_keeps_all_laws(stage):
    check(stage, examples=settings().max_examples)


@pytest.mark.parametrize("budget", [1, 20, 60, 150])
def test_select_keeps_its_budget(budget):
    law = fits_budget(budget=budget)
    stage = partial(select, budget=budget)

    @given(st.one_of(sessions(), journals()))
    def holds(session):
        assert verdict(law, stage, session) is None
        assert verdict(law, pipeline(stage, STAGES["prune_suffix"]), session) is None

    holds()


def test_every_shipped_stage_is_in_the_table():
    shipped = {
        name
        for name, value in vars(ctxalgebra).items()
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


def call(name="c1"):
    return ToolCall(name, "read")


def test_broken_laws_name_the_place():
    """Sessions that no gate let through: appended unchecked."""
    raw = ctxalgebra.model.session.append

    def made(*entries):
        session = Session()
        for entry in entries:
            session = raw(session, entry)
        return session

    sent = (user("a"), Sent())
    cases = {
        "protocol-validity": (made(user("a"), assistant(call()), Sent()), "entry 2"),
        "faithful": (
            made(assistant(call()), tool_result("c1", "x"),
                 Replace(0, assistant(ToolCall("c1", "write")), "?")),
            "message 0",
        ),
        "references": (made(Label(5, "x")), "entry 0 names 5"),
        "accounts": (made(user("a"), Reply("completed", assistant("b"))), "entry 1"),
        "no-unread-drop": (made(*sent, Cut(0, user("n"), "?")), "message 0"),
        "conservation": (made(*sent, Reply("completed")), "entry 2"),
        "effective": (made(*sent, Replace(0, user("a"), "?")), "entry 2"),
        "prefix-extension": (
            made(*sent, Reply("failed"), Replace(0, user("b"), "?"), Sent()),
            "part at message 0",
        ),
        "replay": (made(Sent()), "empty-request"),
        "progress": (made(assistant(call(), call())), "no request can leave"),
    }  # fmt: skip
    for name, (session, place) in cases.items():
        assert place in str(verdict(BY_NAME[name], session)), name


def test_references_see_reports_and_answers():
    raw = ctxalgebra.model.session.append
    session = record(Session(), user("a"), Ask("k", "t", "q"), Answer(1, "answered"))
    assert verdict(BY_NAME["references"], session) is None
    assert "answers 1" in verdict(BY_NAME["references"], raw(session, Answer(1, "failed")))
    assert "names 0" in verdict(BY_NAME["references"], raw(session, UsageReport(0, Usage())))


def test_thinking_is_bound_to_the_first_head_that_is_stated():
    law = BY_NAME["thinking-binding"]
    told = record(Session(), user("a"), assistant(Thinking("t", "s"), "b"), Head(system="x"))
    assert verdict(law, send(told)[0]) is None
    raw = ctxalgebra.model.session.append
    late = record(Session(), Head(system="w"), user("a"), assistant(Thinking("t", "s"), "b"))
    lied = raw(late, Head(system="x"))
    assert verdict(law, send(lied)[0]) is None  # the view hides it
    view = lied.view._replace(slots=late.view.slots, end=late.view.end)
    assert view.messages()[1].thinks


def test_branches_are_all_ends():
    fork = record(at_leaf(record(Session(), user("a"), user("b")), 0), user("c"))
    ends = [branch.leaf.number for branch in branches(fork)]
    assert ends == [2, 1]
    inside = at_leaf(fork, 0)
    assert [branch.leaf.number for branch in branches(inside)] == [0, 1, 2]
    assert next(branches(at_leaf(fork, -1))).leaf is None


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
    assert len(found.value.after) == 6


def test_unknown_laws_and_kinds_are_refused():
    with pytest.raises(InvalidArgument, match="there is no law 'x'"):
        check(pipeline(), Session(), laws=["x"])
    with pytest.raises(InvalidArgument, match="there is no law 'quiet'"):
        check_journal(Session(), laws=["quiet"])
    with pytest.raises(InvalidArgument, match="can't check on"):
        check(pipeline(), Session(), on="tokens")


def test_stage_laws_notice():
    session = record(Session(), user("a"))
    cases = {
        "totality": (lambda s: None, "returns NoneType"),
        "appends": (lambda s: Session(), "1 entries are gone"),
        "quiet": (lambda s: Session(s.leaf, s.last, s.view, {}), "another object"),
        "idempotence": (nagging, "it records"),
    }
    for name, (stage, place) in cases.items():
        assert place in verdict(BY_NAME[name], stage, session)
    other = lambda s: record(Session(), user("b"))  # noqa: E731
    assert "entry 0 is another" in verdict(BY_NAME["appends"], other, session)
    assert verdict(BY_NAME["dry-run-foretells"], pipeline(), Session()) is None


def test_determinism_sees_what_a_stage_remembers():
    calls = []

    def moody(session):
        calls.append(session)
        return record(session, user("x")) if len(calls) % 2 else session

    assert "it recorded" in verdict(BY_NAME["determinism"], moody, Session())


def test_fits_budget_is_not_asked_while_a_request_is_in_flight():
    session, _ = send(record(Session(), user("a" * 400)))
    assert fits_budget(budget=1).broken(pipeline(), session) is None


def test_fits_budget_sees_what_pressure_denies(monkeypatch):
    session = record(Session(), user("a" * 400), assistant("b"), user("c" * 400), assistant("d"))
    session = record(session, user("e"))
    law = fits_budget(budget=50)
    assert "a cut could take more" in law.broken(pipeline(), session)
    selecting = sys.modules["ctxalgebra.transforms.select"]
    monkeypatch.setattr(selecting, "_cuts", lambda view: [])
    assert "can be cut" in law.broken(pipeline(), session)


# check_journal


def test_check_journal_names_the_law():
    raw = ctxalgebra.model.session.append
    with pytest.raises(LawViolation, match="references: entry 0 names 7") as found:
        check_journal(raw(Session(), Label(7, "x")), laws=["effective", "references"])
    assert found.value.law == "references"


def test_laws_of_a_long_journal_walk_each_path_once(monkeypatch):
    """Steps grow with the journal, not with its square."""
    view = sys.modules["ctxalgebra.model.view"]

    def steps_of(turns):
        session = record(Session(), Head(system="s"))
        for turn in range(turns):
            session, _ = send(record(session, user(f"turn {turn}")))
            session = reply(session, "completed", assistant("ok"), usage=Usage(10, 1))
        session = pickle.loads(pickle.dumps(session))
        count = [0]
        journal = sys.modules["ctxalgebra.model.session"]
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
    with pytest.raises(LawViolation) as found:
        check(lambda array: array[-3:], on="messages")
    assert found.value.law == "prefix-extension"
    assert len(found.value.before) == 4
    assert len(found.value.after) == 3


def test_what_is_handed_on_whole_keeps_the_laws():
    check(lambda array: array, on="messages")
    check(list, on="messages", examples=20)


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
    array = (user("a"), assistant(call()), tool_result("c1", "x"), user("b"))
    with pytest.raises(LawViolation, match=law) as found:
        check(function, array, on="messages", laws=[law])
    assert place in str(found.value)


def test_a_function_that_edits_messages_in_place_is_caught():
    def edits(array):
        object.__setattr__(array[0], "parts", (Text("edited"),))
        return array

    with pytest.raises(LawViolation, match="changed in place"):
        check(edits, (user("a"),), on="messages", laws=["inputs-unchanged"])


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


def test_hostile_journals_hold_every_kind_of_entry_and_branch():
    kinds, several = set(), []

    @settings(max_examples=200)
    @given(journals())
    def look(session):
        kinds.update(type(node.entry) for node in log(session))
        several.append(len(list(branches(session))))

    look()
    assert kinds == set(ctxalgebra.model.view.STEPS)
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
                seen.add(entry.parts[0].text if entry.parts else "")
        seen.add("branched" if len(list(branches(session))) > 1 else "")

    look()
    assert seen >= {
        "Message", "Head", "Sent", "Reply", "Cut", "Replace", "Drop", "completed", "failed",
        "aborted", "lost", "usage", "parallel", "steering, in flight",
        "steering, between results", "the tool was killed", "branched",
    }  # fmt: skip


def test_dirty_arrays_are_dirty_in_every_way():
    found = set()

    @settings(max_examples=500)
    @given(dirty_messages())
    def look(array):
        found.update(d.code for d in defects(array))

    look()
    assert len(found) >= 5


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


def test_types_resolve_once_registered():
    hypothesis_plugin.register()
    found = []

    @settings(max_examples=5)
    @given(st.from_type(Session), st.from_type(Message), st.from_type(Head))
    def look(session, message, head):
        found.append((type(session), type(message), type(head)))

    look()
    assert set(found) == {(Session, Message, Head)}


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_importing_the_library_and_its_laws_does_not_load_hypothesis():
    code = "import sys, ctxalgebra, ctxalgebra.laws; print('hypothesis' in sys.modules)"
    assert run(code) == "False"


def test_without_hypothesis_there_is_one_clear_error():
    code = """
import sys
sys.modules["hypothesis"] = None
from ctxalgebra import Session, pipeline, CtxError
from ctxalgebra.laws import check
check(pipeline(), Session())
try:
    check(pipeline())
except CtxError as error:
    print(error)
"""
    assert run(code) == "missing-extra: to generate examples install ctxalgebra[verify]"
    assert "missing-extra" in CODES
