"""Asks and answers: failure is a value, nothing is held up, drive equals adrive."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Answer,
    Ask,
    CtxError,
    DecodeError,
    InvalidArgument,
    LawViolation,
    ProtocolViolation,
    RecordedEffects,
    Replace,
    Session,
    adrive,
    answer_to,
    ask,
    at_leaf,
    drive,
    log,
    pending,
    pipeline,
    project,
    record,
    send,
    user,
)
from ctxalgebra.effects import ROUNDS
from ctxalgebra.errors import CODES


def shorten(session):
    """Ask for a shorter form of the first message and show it when it is there."""
    if session.view.flight >= 0 or not session.view.end:
        return session
    text = project(session).messages[0].parts[0].text
    session = ask(session, Ask("short:0", "shorten", text, deadline=10))
    answer = answer_to(session, "short:0")
    if answer is None or answer.outcome != "answered" or answer.value == text:
        return session
    return record(session, Replace(session.view.slots.numbers[0], user(answer.value), "shorter"))


def test_an_answer_is_applied_and_an_ask_is_made_once():
    session = drive(record(Session(), user("long")), shorten, RecordedEffects({"short:0": "l"}))
    assert project(session).messages[0] == user("l")
    assert pending(session) == ()
    assert drive(session, shorten, RecordedEffects({})) is session


@pytest.mark.parametrize("outcome", ["failed", "expired"])
def test_failure_is_a_value_with_a_safe_default(outcome):
    session = drive(
        record(Session(), user("long")),
        shorten,
        lambda asks: tuple(Answer(p.number, outcome) for p in asks),
    )
    assert project(session).messages[0] == user("long")
    assert answer_to(session, "short:0").outcome == outcome


def test_an_unanswered_ask_holds_up_nothing_and_is_tried_once_a_drive():
    calls = []

    def silent(asks):
        calls.append(asks)
        return ()

    session = drive(record(Session(), user("long")), shorten, silent)
    assert len(calls) == 1
    assert [p.ask.key for p in pending(session)] == ["short:0"]
    sent, request = send(session)
    assert request.messages == (user("long"),)
    late = record(sent, Answer(pending(sent)[0].number, "answered", "l"))
    assert shorten(late) is late
    assert drive(session, shorten, silent) is session
    assert len(calls) == 2


def test_an_adapter_that_raises_answers_failed():
    def broken(asks):
        raise OSError("disk full")

    session = drive(record(Session(), user("long")), shorten, broken)
    assert answer_to(session, "short:0") == Answer(1, "failed", "OSError: disk full")


def test_an_adapter_of_the_wrong_kind_is_told_so():
    start = record(Session(), user("long"))

    async def waits(asks):
        return ()

    with pytest.raises(InvalidArgument, match="use adrive"):
        drive(start, shorten, waits)
    with pytest.raises(InvalidArgument, match="use drive"):
        asyncio.run(adrive(start, shorten, lambda asks: ()))
    for answers in (None, [], ("l",)):
        with pytest.raises(InvalidArgument, match="wrong-type"):
            drive(start, shorten, lambda asks, answers=answers: answers)


def test_an_answer_to_nothing_is_refused():
    with pytest.raises(ProtocolViolation, match="unknown-ask"):
        drive(record(Session(), user("long")), shorten, lambda asks: (Answer(7, "answered"),))


def test_nothing_is_half_recorded_when_an_answer_is_wrong():
    """The first answers of a round, and earlier rounds, fall with the wrong one."""
    asked = []

    def stage(session):
        session = ask(session, Ask("a", "echo", "1"))
        if answer_to(session, "a") is not None:
            session = ask(ask(session, Ask("b", "echo", "2")), Ask("c", "echo", "3"))
        return session

    def answering(wrong):
        def effects(asks):
            asked.append([p.ask.key for p in asks])
            sound = tuple(Answer(p.number, "answered", "x") for p in asks)
            return sound if asks[0].ask.key == "a" else (sound[0], *wrong(sound))

        return effects

    for wrong, error, code in (
        (lambda _: (Answer(99, "answered"),), ProtocolViolation, "unknown-ask"),
        (lambda _: (Answer(-1, "answered"),), CtxError, "unknown-ask"),
        (lambda _: (Answer(0, "answered"),), ProtocolViolation, "unknown-ask"),
        (lambda sound: (sound[0],), ProtocolViolation, "unknown-ask"),
        (lambda sound: (sound[1].value,), InvalidArgument, "wrong-type"),
    ):
        start = record(Session(), user("x"))
        effects = answering(wrong)

        async def aeffects(asks, effects=effects):
            return effects(asks)

        for run in (
            lambda start=start, effects=effects: drive(start, stage, effects),
            lambda start=start, aeffects=aeffects: asyncio.run(adrive(start, stage, aeffects)),
        ):
            asked.clear()
            with pytest.raises(error) as caught:
                run()
            assert caught.value.code == code
            assert asked == [["a"], ["b", "c"]]
            assert (len(start), pending(start), answer_to(start, "a")) == (1, (), None)
        # The next call asks all of it again, and a sound adapter goes on from there.
        settled = drive(start, stage, answering(lambda sound: sound[1:]))
        assert [answer_to(settled, key).value for key in "abc"] == ["x"] * 3
        assert pending(settled) == ()


def test_asks_belong_to_their_path():
    session = drive(record(Session(), user("long")), shorten, RecordedEffects({"short:0": "l"}))
    assert answer_to(at_leaf(session, 0), "short:0") is None


def test_a_stage_that_never_stops_asking_is_refused():
    def curious(session):
        return ask(session, Ask(f"k{len(session)}", "echo", ""))

    failed = RecordedEffects({})

    async def failing(asks):
        return failed(asks)

    rounds = []
    for run in (
        lambda: drive(Session(), curious, lambda asks: rounds.append(1) or failed(asks)),
        lambda: asyncio.run(adrive(Session(), curious, failing)),
    ):
        with pytest.raises(InvalidArgument, match="after the last round it asks again: 'k32'") as e:
            run()
        assert (e.value.code, e.value.field) == ("endless-asks", "stage")
    assert len(rounds) == ROUNDS == 16


@pytest.mark.parametrize("asked", [3, 4])
def test_how_many_rounds_there_are_is_the_callers(asked):
    def chained(session):
        known = [answer_to(session, f"k{n}") for n in range(asked)]
        for number, answer in enumerate(known):
            if answer is None:
                return ask(session, Ask(f"k{number}", "echo", ""))
        return session

    if asked == 4:
        with pytest.raises(InvalidArgument, match="endless-asks"):
            drive(Session(), chained, RecordedEffects({}), rounds=3)
    else:
        assert len(drive(Session(), chained, RecordedEffects({}), rounds=3)) == 6
    for rounds in (0, -1, True, None, "3"):
        with pytest.raises(InvalidArgument, match="rounds must be a positive integer"):
            drive(Session(), chained, RecordedEffects({}), rounds=rounds)


keys = st.sampled_from("abc")
scripts = st.dictionaries(
    keys, st.sampled_from(["answered", "failed", "expired", "silent", "raise"])
)


@given(st.lists(keys, max_size=5), scripts, st.booleans())
def test_drive_and_adrive_are_equal(asked, script, chained):
    def stage(session):
        for key in asked:
            session = ask(session, Ask(key, "echo", key))
            if chained and answer_to(session, key) is None:
                break
        return session

    def effects(asks):
        answers = []
        for p in asks:
            how = script.get(p.ask.key, "answered")
            if how == "raise":
                raise RuntimeError(p.ask.key)
            if how != "silent":
                answers.append(Answer(p.number, how, p.ask.question))
        return tuple(answers)

    async def aeffects(asks):
        await asyncio.sleep(0)
        return effects(asks)

    start = record(Session(), user("x"))
    settled = drive(start, pipeline(stage), effects)
    assert asyncio.run(adrive(start, pipeline(stage), aeffects)) == settled
    assert {n.entry.key for n in log(settled) if isinstance(n.entry, Ask)} <= set(asked)


# Errors


def test_errors_carry_code_and_place_in_one_printable_line():
    error = DecodeError("invalid-json", "bad\x1b[31m\nthing", file="a\tb", line=3, field="x.y")
    assert str(error) == r"invalid-json: bad\x1b[31m\x0athing (file a\x09b, line 3, field x.y)"
    assert (error.line, error.entry) == (3, None)
    assert str(CtxError("unread", "a\u202eb\U000e0001\udcff")) == (
        r"unread: a\u202eb\U000e0001\udcff"
    )
    assert str(CtxError("in-flight")) == f"in-flight: {CODES['in-flight']}"


def test_errors_are_what_callers_expect_of_their_blame():
    assert issubclass(InvalidArgument, ValueError)
    assert issubclass(DecodeError, ValueError)
    assert issubclass(LawViolation, AssertionError)
    law = LawViolation("quiet", "it moved", 1, 2)
    assert (law.law, law.before, law.after, law.code) == ("quiet", 1, 2, "law-broken")


def test_codes_are_a_closed_kebab_case_list():
    with pytest.raises(KeyError):
        CtxError("no-such-code")
    for code, meaning in CODES.items():
        assert code == code.lower()
        assert "_" not in code
        assert meaning
