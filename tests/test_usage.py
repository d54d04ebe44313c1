"""How full the window is: readings, the gauge, the cycle of reminders, what fills it."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxalgebra.laws.strategies as made
from ctxalgebra import (
    CtxError,
    Cut,
    Head,
    Image,
    InvalidArgument,
    Note,
    Opaque,
    Session,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Usage,
    UsageReport,
    account,
    assistant,
    at_leaf,
    breaks,
    label,
    log,
    pipeline,
    project,
    record,
    reply,
    select,
    send,
    system,
    tool_result,
    travel,
    user,
)
from ctxalgebra.checkpoints.guidance import reminder
from ctxalgebra.checkpoints.provenance import turn_open
from ctxalgebra.checkpoints.travel import apply_travel, plan_travel
from ctxalgebra.codecs import journal
from ctxalgebra.events import REMINDER, is_reminder, reminder_level, reminder_note
from ctxalgebra.timeline.texts import kind_of, title
from ctxalgebra.usage import (
    HANDOFF,
    TIERS,
    Breakdown,
    Cycle,
    Moved,
    Needle,
    Odometer,
    Reading,
    Requests,
    begun,
    breakdown,
    breakdown_text,
    cycle_of,
    due,
    fold_points,
    folded,
    gauge,
    gauge_text,
    grid,
    moved,
    observe,
    pressure_at,
    pressure_of,
    remind,
    renewed,
    replaced,
    restarted,
    restore,
    segments,
    take,
    tier,
    token_text,
    with_line,
)
from ctxalgebra.usage import gauge as gauge_function
from ctxalgebra.usage.budget import CAP, percent_text, working_budget
from ctxalgebra.usage.kinds import scaled, split_weight
from ctxalgebra.usage.reminders import hidden

WINDOW = 10_000


def asked(session, text="go on", used=None, *parts):
    """Ask, send, and take a reply that reports what was used."""
    session, _ = send(record(session, user(text)))
    usage = None if used is None else Usage(used, 1)
    return reply(session, "completed", assistant(*(parts or ("ok",))), usage=usage)


def loop(session, used, call="c1", text="done"):
    """Work in a tool loop: a call whose request used so much, and its result."""
    session, _ = send(session)
    session = reply(session, "completed", assistant(ToolCall(call, "ls")), usage=Usage(used, 1))
    return record(session, tool_result(call, text))


def told(session):
    """List the levels that a path was reminded of."""
    return [json.loads(node.entry.data)["level"] for node in log(session) if _is_note(node.entry)]


def _is_note(entry):
    return type(entry) is Note and entry.name == REMINDER


# Readings


def test_usage_and_pressure_are_two_numbers():
    small, large = Reading(60_000, 200_000), Reading(60_000, 1_000_000)
    assert (small.budget, small.hard, small.pressure) == (200_000, 30, 30)
    assert (large.budget, large.hard, large.pressure) == (CAP, 6, 15)
    assert str(small) == "30% window · 60K/200K"
    assert str(large) == "15% budget(400K) · 60K/1M window"


def test_percentages_are_exact():
    """The original computes 29,000 of 100,000 as 28.999… percent, and shows 28."""
    assert int(29_000 / 100_000 * 100) == 28
    assert str(Reading(29_000, 100_000)).startswith("29% ")
    assert Reading(1, 3).hard == Fraction(100, 3)


@pytest.mark.parametrize(
    ("tokens", "window", "code"),
    [
        (-1, 10, "invalid-argument"), (1, 0, "invalid-argument"), (1, -5, "invalid-argument"),
        ("1", 10, "wrong-type"), (True, 10, "wrong-type"), (1, 1.5, "invalid-argument"),
    ],
)  # fmt: skip
def test_what_is_no_reading_is_refused(tokens, window, code):
    with pytest.raises(InvalidArgument) as caught:
        Reading(tokens, window)
    assert caught.value.code == code


@given(st.integers(0, 10**7), st.integers(1, 10**7))
def test_tiers_are_reached_where_they_are_named(tokens, window):
    reading = Reading(tokens, window)
    for level in TIERS:
        assert (reading.tier >= level) == (100 * tokens >= level * min(window, 400_000))
    assert working_budget(window) == reading.budget
    assert tier(reading.pressure) == reading.tier


@given(st.integers(0, 10**9))
def test_token_texts_are_cut_off_never_rounded_up(tokens):
    text = token_text(tokens)
    scale = {"K": 1000, "M": 1_000_000}.get(text[-1], 1)
    said = Fraction(text.rstrip("KM")) * scale
    assert said <= tokens < said + max(Fraction(scale, 10), 1)
    assert not text.rstrip("KM").endswith(".0")


def test_texts_of_odd_numbers():
    assert token_text(float("inf")) == token_text(float("nan")) == "N/A"
    assert percent_text(100.0) == "100"
    assert percent_text(1e308, 2) == str(int(1e308))
    assert percent_text(Fraction(1, 3), 3) == "0.333"
    assert percent_text(Fraction(1, 100), 1) == "0"
    assert segments(0, CAP, 0) == "0% window · 0/400K"
    assert segments(0, CAP + 1, 0) == "0% budget(400K) · 0/400K window"


def test_pressure_is_what_was_reported_and_an_estimate_behind_it():
    session = asked(Session(), "x" * 400, used=6_000)
    assert pressure_of(session, window=WINDOW).tokens == 6_001
    longer = record(session, user("x" * 4_000))
    assert pressure_of(longer, window=WINDOW).tokens > 6_001
    assert pressure_of(at_leaf(longer, 0), window=WINDOW).tokens == 100
    late = record(send(longer)[0])
    late = reply(late, "completed", assistant("ok"))
    sent = late.view.sent.number
    assert pressure_of(record(late, UsageReport(sent, Usage(9_000))), window=WINDOW).tokens >= 9_000


# Estimates of another context


def test_the_rest_stays_where_messages_are_replaced():
    assert replaced(50_000, 30_000, 2_000, HANDOFF) == 22_400
    assert replaced(50_000, 50_000, 0) == 0
    assert replaced(0, 10, 7) == replaced(-5, 10, 7) == 7


def test_w10_where_less_was_used_than_measured_a_fold_makes_it_less():
    """The original shows 5.2 % after a fold of what uses 0.5 %."""
    used, before, after = 500, 6_000, 5_200
    assert replaced(used, before, after) == 434
    for after in range(0, before, 500):
        assert replaced(used, before, after) <= used
    # And on sessions, what was billed counts message by message.
    session = asked(Session(), "x" * 8_000, used=600)
    session = asked(session, "y" * 8_000, used=1_200)
    first = travel(session, 0)
    assert pressure_of(first, window=WINDOW).tokens == 2_000
    assert pressure_at(session, first, window=WINDOW).tokens == 600
    assert moved(session, first, window=WINDOW).after.tokens == 600
    assert "fold@turn→10%" in gauge(session, window=WINDOW)


def test_messages_of_another_branch_are_scaled_as_here():
    session = asked(Session(), "x" * 8_000, used=600)
    side = record(at_leaf(session, 0), user("y" * 8_000))
    there = pressure_at(at_leaf(side, 2), side, window=WINDOW)
    assert there.tokens == 1_200
    assert pressure_at(side, side, window=WINDOW).tokens == 4_000
    reported = asked(at_leaf(side, 0), "z" * 8_000, 5_000)
    assert pressure_at(at_leaf(reported, 2), reported, window=WINDOW).tokens == 5_001


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_same_messages_use_the_same(used, before, extra):
    assert replaced(used, before, before, extra) == (used or before) + extra


def test_w08_and_w29_the_direction_is_what_is_shown_wherever_one_goes():
    """The original says that a context grew whenever one goes off the path, and counts a result
    for the call that travels itself."""
    session = asked(asked(Session(), "a"), "b")
    side = record(travel(session, 0), assistant("other"), user("more"))
    grown = record(at_leaf(side, 5), user("c"), assistant("look", ToolCall("c1", "travel")))
    off = travel(grown, len(side) - 1)
    compared = moved(grown, off, window=WINDOW)
    assert (compared.shown_before, compared.shown_after) == (grown.view.end, off.view.end)
    assert compared.shown_before == 6
    assert compared.direction == "decreased"
    assert compared.removed == 3
    back = moved(off, grown, window=WINDOW)
    assert (back.direction, back.removed) == ("increased", -compared.removed)
    assert moved(off, off, window=WINDOW).direction == "equal"
    assert isinstance(back, Moved)


# The odometer


def test_what_was_not_delivered_is_not_remembered():
    found, _ = due(Odometer(), 5, "u1")
    again, state = due(Odometer(), 5, "u1")
    assert found == again == (True, True)
    assert due(state, 5, "u1")[0] == (False, False)
    assert due(restarted(state), 5, "u1")[0] == (True, False)
    assert due(state, 5, None)[0] == (False, False)


@given(st.lists(st.tuples(st.floats(), st.sampled_from(["u1", "u2", None])), max_size=30))
def test_each_boundary_is_marked_once_and_nothing_is_shown_twice(readings):
    state, marked, last = Odometer(), [], None
    for percent, request in readings:
        found, after = due(state, percent, request)
        assert found.show or after == state
        if found.show:
            assert found.boundary or int(percent) != last
            last = int(percent)
        if found.boundary:
            marked.append(request)
        state = after
    assert len(marked) == len(set(marked))
    assert None not in marked


def test_ten_thousand_requests_cost_no_more_than_a_logarithm_each():
    state, ledger = Odometer(), Requests()
    for n in range(10_000):
        _, state = due(state, 1, f"u{n}")
        ledger, _ = begun(ledger, f"u{n}")
    assert len(state.seen) == ledger.count == 10_000
    assert len(state.seen._layers) <= 14


def test_parts_of_the_line_that_are_not_known_are_left_out():
    assert gauge_text("x") == "\n[ctx x]"
    assert gauge_text("x", points=0, task=Needle(3)) == "\n[ctx x · 0pts · fold@task→3%]"
    assert "-1msg" not in gauge_text("x", turn=Needle(3, -1))


@pytest.mark.parametrize(
    ("users", "named", "without", "expected"),
    [
        ([], [], None, (None, None)),
        ([], [2, 7], None, (7, 2)),
        ([4], [], None, (None, 4)),
        ([4], [4], None, (None, 4)),
        ([1, 4], [], None, (1, None)),
        ([1, 4], [3], None, (3, None)),
        ([1, 4], [2, 3], None, (3, 2)),
        ([1, 4], [9], None, (1, 9)),
        ([1, 4], [2, 3], 3, (2, None)),
        ([1, 4], [], 1, (None, 4)),
        ([1], [], 1, (None, None)),
    ],
)
def test_where_a_fold_could_lead(users, named, without, expected):
    assert fold_points(users, named, without) == expected


# The ledger


def test_w24_the_ledger_counts_whether_or_not_a_gauge_is_shown():
    state, row = begun(Requests(), "u1", budget=12.9, fold_turn=float("inf"))
    assert (row.ordinal, row.budget, row.window, row.fold_turn) == (1, 12, None, None)
    state, fold = folded(state, removed=11, before=50.5, after=20.2)
    assert (fold.direction, fold.after, fold.before_percent, fold.after_percent) == (
        "fold", 1, 50, 20,
    )  # fmt: skip
    state, row = begun(state, "u2")
    assert (row.ordinal, row.folds) == (2, 1)
    assert begun(state, None) == (state, None)


# The cycle


def test_a_cycle_tells_each_tier_once_and_the_highest_of_several():
    state = Cycle()
    for percent, expected in [(10, 0), (55, 50), (31, 0), (69, 0), (99, 70), (5, 0), (99, 0)]:
        state, _ = observe(state, percent)
        state, level = take(state)
        assert level == expected


def test_a_higher_tier_takes_the_place_of_one_that_was_not_taken():
    state, _ = observe(observe(Cycle(), 31)[0], 71)
    assert take(state)[1] == 70


def test_a_new_cycle_waits_for_a_baseline():
    state, baseline = observe(renewed(), 71)
    assert (state, baseline) == (renewed(), None)
    state, baseline = observe(state, 35, establish=True)
    assert (state, baseline) == (Cycle(30), 30)
    assert take(observe(state, 36)[0])[1] == 0
    assert take(observe(state, 50)[0])[1] == 50
    assert observe(Cycle(), 99, establish=True)[1] is None


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["boundary", "baseline", "reminder"]),
        st.sampled_from([0, 30, 50, 70, 40, -1, "30", None, True, False, 30.0, [], {}]),
    ),
    max_size=12,
)


@given(RECORDS)
def test_records_of_any_kind_restore_a_state(records):
    state = restore(records)
    last = max((at for at, (kind, _) in enumerate(records) if kind == "boundary"), default=-1)
    assert state == restore(records[last:] if last >= 0 else records)
    assert state.highest in (0, *TIERS)
    assert not state.due
    assert type(state.highest) is int
    valid = [
        level
        for kind, level in records[last + 1 :]
        if type(level) in (int, float) and (level in TIERS or (kind == "baseline" and level == 0))
    ]
    assert state.highest == max(valid, default=0)
    assert state.waiting == (last >= 0 and not valid)


# What fills the window


def test_estimates_are_scaled_down_and_never_up():
    assert scaled(10, 10, 10, 10, actual=400, window=1000).other == 360
    down = scaled(100, 100, 100, 100, 100, actual=250, window=1000)
    assert (down.system, down.tools, down.calls, down.messages, down.other) == (50,) * 5
    assert scaled(10, 10, 10, 10, actual=30, window=100, scale=0.5).other == 10
    assert scaled(0, 0, 0, 0, actual=0, window=10) == Breakdown(0, 0, 0, 0, 0, 10, 10)


@given(st.lists(st.integers(0, 10**6), min_size=5, max_size=5), st.integers(0, 10**6))
def test_parts_add_up_to_what_was_used(parts, actual):
    known = scaled(*parts, actual=actual, window=500_000)
    assert known.used == actual
    assert known.available == max(0, 500_000 - actual)
    named = (known.system, known.tools, known.calls, known.messages)
    for part, told_of in zip(parts, named, strict=False):
        assert 0 <= told_of <= part


def test_a_message_is_split_by_what_it_holds():
    assert split_weight(10, 0, 5) == (0, 10)
    assert split_weight(10, 5, 0) == (10, 0)
    assert split_weight(5, 1, 1) == (3, 2)


def test_the_breakdown_of_a_session():
    call = ToolCall("c1", "r" * 10, "x" * 30)
    head = Head(system="s" * 400, tools=(Tool("t" * 40),))
    session = record(Session(), head, user("u" * 80), assistant("a" * 40, call))
    session = record(session, tool_result("c1", "r" * 200))
    known = breakdown(session, window=WINDOW)
    assert (known.system, known.tools, known.messages, known.calls) == (100, 11, 30, 60)
    assert known.other == 0
    sent = reply(send(session)[0], "completed", assistant("ok"), usage=Usage(5_000, 1))
    assert breakdown(sent, window=WINDOW).used == 5_001
    assert breakdown(sent, window=WINDOW).other > 4_000
    odd = record(Session(), system("x"), user((Image("d", "image/png"), Opaque("t", "{}"))))
    odd = record(odd, assistant(Thinking("t" * 40), "."))
    assert breakdown(odd, window=WINDOW).messages == pressure_of(odd, window=WINDOW).tokens
    with pytest.raises(InvalidArgument):
        breakdown(session, window=0)


def test_the_breakdown_as_text():
    known = Breakdown(1, 0, 900, 50, 49, 0, 1_000)
    assert grid(known).replace("\n", "") == "S" + "C" * 45 + "MMM" + "O"
    assert grid(Breakdown(0, 0, 5_000, 1, 0, 0, 1_000)).replace("\n", "") == "C" * 50
    assert breakdown_text(known).splitlines()[2] == "C calls and results    900   90%"
    nothing = Breakdown(0, 0, 0, 0, 0, 0, 0)
    assert set(grid(nothing)) == {".", "\n"}
    assert breakdown_text(nothing).count("0%") == 6


@given(st.lists(st.integers(0, 10**6), min_size=5, max_size=5), st.integers(1, 10**6))
def test_the_grid_always_has_fifty_cells(parts, window):
    lines = grid(Breakdown(*parts, 0, window)).splitlines()
    assert [len(line) for line in lines] == [10] * 5


# Reminders in a session


def test_each_tier_is_told_of_once_behind_a_reply():
    session, levels = record(Session(), user("start")), []
    for used in (1_000, 3_500, 3_600, 5_500, 4_000, 7_100, 9_900):
        session = remind(loop(session, used), window=WINDOW)
        levels.append(told(session)[-1:])
    assert told(session) == [30, 50, 70]
    assert levels == [[], [30], [30], [50], [50], [70], [70]]
    texts = [m.parts[0].text for m in project(session).messages if m.role == "user"]
    assert texts == ["start", *map(reminder, TIERS)]
    assert breaks(session) == ()


def test_the_highest_of_several_tiers_is_told_of():
    session = remind(loop(record(Session(), user("start")), 8_000), window=WINDOW)
    assert told(session) == [70]


def test_a_reminder_is_read_before_the_next_one_comes():
    session = remind(record(Session(), user("x" * 60)), window=50)
    assert told(session) == [30]
    # With its own text the window is over the last tier: that waits for the reply.
    assert pressure_of(session, window=50).tier == 70
    assert remind(session, window=50) is session
    failed = reply(send(session)[0], "failed")
    assert remind(failed, window=50) is failed
    read = record(reply(send(failed)[0], "completed", assistant("ok")), user("on"))
    assert told(remind(read, window=50)) == [30, 70]


def test_a_reminder_never_stands_in_front_of_the_reply_or_between_results():
    session, _ = send(record(Session(), user("x" * 4_000)))
    assert remind(session, window=1_000) is session
    session = reply(session, "completed", assistant(ToolCall("c1", "ls"), ToolCall("c2", "ls")))
    assert remind(session, window=1_000) is session
    session = record(session, tool_result("c2", "b"))
    assert remind(session, window=1_000) is session
    session = remind(record(session, tool_result("c1", "a")), window=1_000)
    assert [m.role for m in project(session).messages] == [
        "user", "assistant", "tool", "tool", "user",
    ]  # fmt: skip


def test_a_reminder_calls_for_no_turn_of_its_own():
    session = asked(Session(), "x" * 4_000)
    assert remind(session, window=1_000) is session
    assert told(remind(record(session, user("on")), window=1_000)) == [70]
    assert remind(Session(), window=1_000) == Session()


def test_a_cut_begins_a_new_cycle_with_a_baseline():
    session = record(Session(), user("start"))
    for used in (3_500, 5_500):
        session = remind(loop(session, used), window=WINDOW)
    assert told(session) == [30, 50]
    session = asked(session, "read", 5_600)
    through = session.view.slots.numbers[session.view.read - 2]
    session = record(session, Cut(through, user("gone"), "?", breaks=True), user("next"))
    assert cycle_of(session, window=WINDOW).waiting
    # What stood before is no baseline: the estimate alone tells nobody.
    assert remind(record(session, user("x" * 40_000)), window=WINDOW).leaf.entry.role == "user"
    assert told(remind(record(session, user("x" * 40_000)), window=WINDOW)) == [30, 50]
    session = loop(session, 3_600)
    assert cycle_of(session, window=WINDOW) == Cycle(30)
    assert remind(session, window=WINDOW) is session
    assert told(remind(loop(session, 5_100), window=WINDOW)) == [30, 50, 50]


def test_a_baseline_is_measured_where_nobody_reports():
    session = asked(asked(Session(), "x" * 4_000), "read")
    session = record(session, Cut(0, user("gone"), "?", breaks=True))
    quiet = asked(session, "y" * 16_000)
    assert cycle_of(quiet, window=WINDOW) == Cycle(30)
    plain = record(session, user("y" * 24_000), assistant("ok"))
    assert cycle_of(plain, window=WINDOW).highest in (0, 50)
    unsent = record(Session(), user("x"), assistant("y"))
    unsent = record(unsent, Cut(1, user("n"), "?"), user("z" * 24_000), assistant("ok"))
    assert cycle_of(unsent, window=WINDOW) == Cycle(50)


def test_a_handoff_begins_a_new_cycle_and_the_branch_left_keeps_its_own():
    session = asked(Session(), "start", 2_900)
    session = remind(loop(record(session, user("work")), 7_500), window=WINDOW)
    left = len(session) - 1
    assert told(session) == [70]
    notes = {"goal": "g", "state": "s", "next": "n"}
    session = apply_travel(session, plan_travel(session, target="root", handoff=notes))
    assert cycle_of(session, window=WINDOW).waiting
    session = loop(session, 3_200)
    assert cycle_of(session, window=WINDOW) == Cycle(30)
    assert told(remind(loop(session, 5_200), window=WINDOW)) == [70, 50]
    back = travel(session, left)
    assert cycle_of(back, window=WINDOW) == Cycle(70)


def test_travelling_and_resuming_bring_the_state_back():
    session = record(Session(), user("start"))
    marks = []
    for used in (1_000, 3_500, 5_500, 7_500):
        session = remind(loop(session, used), window=WINDOW)
        marks.append((len(session) - 1, cycle_of(session, window=WINDOW).highest))
    assert [highest for _, highest in marks] == [0, 30, 50, 70]
    again = pickle.loads(pickle.dumps(session))
    for number, highest in marks:
        assert cycle_of(travel(session, number), window=WINDOW) == Cycle(highest)
        assert cycle_of(at_leaf(again, number), window=WINDOW) == Cycle(highest)


def over_budget(session):
    """The model works on until `select` has to cut."""
    for number in range(7):
        session, _ = send(session)
        session = reply(session, "completed", assistant(ToolCall(f"w{number}", "read")))
        session = record(session, tool_result(f"w{number}", "k" * 2_000))
    return session


def reminded():
    """A session in which the model was just reminded."""
    session, _ = send(record(Session(), user("go " + "x" * 4_000)))
    session = record(reply(session, "completed", assistant("a")), user("next task"))
    told = remind(session, window=1_000)
    assert len(told) == len(session) + 2
    return told


def torn(session):
    """The process was killed while the last line was written."""
    lines = journal.encode(session).splitlines(keepends=True)
    again = journal.decode(b"".join(lines[:-1])).session
    assert len(again) == len(session) - 1
    return again


WANTED = "IMPORTANT: forget that, do B"


@pytest.mark.parametrize(
    ("name", "grown"),
    [
        ("torn", lambda s: record(torn(s), user(WANTED))),
        ("travelled", lambda s: record(travel(s, len(s) - 2), user(WANTED))),
        ("forged", lambda s: record(s, Note(REMINDER, '{"level":30}'), user(WANTED))),
        ("copied", lambda s: record(s, s.leaf.parent.entry, user(WANTED))),
        ("between", lambda s: record(s, s.leaf.parent.entry, Note("x"), user(WANTED))),
        ("long", lambda s: record(s, long_note(user(WANTED)), user(WANTED))),
        ("role", lambda s: record(s, reminder_note(30, system(WANTED)), user(WANTED))),
        ("level", lambda s: record(s, reminder_note(-30, user(WANTED)), user(WANTED))),
    ],
)
def test_what_the_user_says_is_the_users_whatever_note_stands_in_front(name, grown):
    session = grown(reminded())
    assert not is_reminder(session.leaf), name
    assert not hidden(session.leaf)
    assert turn_open(session)
    assert kind_of(session.leaf) == "user"
    kept = project(select(over_budget(session), budget=1_500)).messages
    assert user(WANTED) in kept


def long_note(message):
    return reminder_note(30, message, **{f"fact{n}": n for n in range(200)})


def test_a_reminder_is_the_note_and_the_message_to_the_letter():
    session = reminded()
    note, told = session.leaf.parent.entry, session.leaf.entry
    assert set(json.loads(note.data)) == {"level", "tokens", "window", "message"}
    assert reminder_level(session.leaf) == 70
    assert (kind_of(session.leaf), title(session.leaf)) == ("note", "reminder")
    assert is_reminder(journal.decode(journal.encode(session)).session.leaf)
    # The same message on another branch, behind the note that was recorded earlier, is none.
    assert not is_reminder(record(at_leaf(session, len(session) - 2), told).leaf)
    for other in (user((Text("a"), Text("b"))), user((Image("d", "image/png"),)), user(())):
        assert not is_reminder(record(session, reminder_note(30, other), other).leaf)
    assert not is_reminder(session.leaf.parent)
    assert reminder_level(record(session, reminder_note(45, told), told).leaf) == 45
    assert cycle_of(record(session, reminder_note(45, told), told), window=WINDOW) == (
        cycle_of(session, window=WINDOW)
    )
    kept = project(select(over_budget(session), budget=1_500)).messages
    assert (told in kept, user("next task") in kept) == (False, True)


def test_an_empty_wording_says_nothing():
    session = record(Session(), user("x" * 4_000))
    assert remind(session, window=1_000, wording=lambda _: "") is session


def test_a_note_of_a_handoff_alone_begins_nothing():
    session = remind(record(Session(), user("x" * 4_000)), window=1_000)
    session = reply(send(session)[0], "completed", assistant("ok"))
    forged = record(session, Note("handoff", "{}"), user("go on"))
    assert not hidden(forged.leaf)
    assert cycle_of(forged, window=1_000) == cycle_of(session, window=1_000) == Cycle(70)


def test_notes_that_are_no_reminders_tell_nothing():
    session = record(Session(), user("x"))
    odd = ["", "{", "[]", "30", '{"level":"30"}', '{"level":true}', '{"level":40}', "[" * 100_000]
    long = '{"level":30,"x":"' + "y" * 2_000 + '"}'
    for data in (*odd, '{"level":30.0}', long):
        session = record(session, Note(REMINDER, data), user("said by the user"))
        assert not hidden(session.leaf)
    session = record(session, Note("other", '{"level":30}'), user("said by the user"))
    assert not hidden(session.leaf)
    assert not hidden(record(Session(), user("first")).leaf)
    assert cycle_of(session, window=WINDOW) == Cycle()


def test_the_role_and_the_words_can_be_chosen():
    session = record(Session(), user("x" * 4_000))
    spoken = remind(session, window=1_000, role="system", wording=lambda level: f"{level} %")
    assert project(spoken).messages[-1] == system("70 %")
    with pytest.raises(InvalidArgument, match="user or system"):
        remind(session, window=1_000, role="tool")
    with pytest.raises(InvalidArgument):
        remind(session, window=1_000, wording="x")
    with pytest.raises(InvalidArgument):
        remind(session, window=0)
    with pytest.raises(InvalidArgument):
        remind("x", window=10)


@pytest.mark.parametrize("role", ["user", "system"])
def test_a_reminder_is_not_the_active_request(role):
    """A message of the user's in a tool loop is what is worked on; a reminder is not."""
    start = record(asked(Session(), "old " * 400), user("the task"))
    session = remind(loop(start, 3_500, "c1"), window=WINDOW, role=role)
    assert told(session) == [30]
    for n in range(2, 6):
        session = loop(session, 3_600 + n, f"c{n}", "r" * 400)
    cut = select(session, budget=1_000)
    assert "the task" in [m.parts[0].text for m in project(cut).messages if m.role == "user"]
    steered = loop(record(start, user("and be quick")), 3_500, "c1")
    steered = remind(steered, window=WINDOW, role=role)
    cut = select(loop(steered, 3_600, "c2", "r" * 4_000), budget=1_000)
    shown = [m.parts[0].text for m in project(cut).messages if m.role == "user"]
    assert {"the task", "and be quick"} <= set(shown)
    failed = reply(send(remind(loop(start, 3_500, "c9", "r" * 9_000), window=WINDOW))[0], "failed")
    cut = select(failed, budget=1_500)
    assert "the task" in [m.parts[0].text for m in project(cut).messages if m.role == "user"]


def test_remind_in_a_pipeline_of_a_long_session_breaks_nothing():
    settle = pipeline(lambda session: remind(session, window=WINDOW))
    session = record(Session(), user("start"))
    for n in range(60):
        session = settle(loop(session, 200 * n + 1, f"c{n}", "r" * 700))
    assert told(session) == [30, 50, 70]
    assert breaks(session) == ()
    assert account(session).rebilled == 0


# The gauge of a session


def working(session, call, text="done", window=WINDOW):
    """Call a tool, and record its result with the gauge's line."""
    session, _ = send(session)
    session = reply(session, "completed", assistant(ToolCall(call, "ls")))
    line = gauge(session, window=window)
    return record(session, tool_result(call, text + line)), line


def test_the_line_comes_where_the_percent_changes():
    session, lines = record(Session(), user("x" * 400)), []
    for n in range(8):
        session, line = working(session, f"c{n}", "r" * (4_000 if n == 3 else 4))
        lines.append(line)
    assert [bool(line) for line in lines] == [
        True, False, False, False, True, False, False, False,
    ]  # fmt: skip
    assert "boundary" in lines[0]
    assert "boundary" not in lines[4]


def test_w01_old_requests_are_no_new_ones_when_one_travels_back():
    session = asked(asked(Session(), "u1"), "u2")
    session, first = working(record(session, user("u3")), "c1")
    assert "boundary" in first
    for target in (0, 3):
        back = travel(session, target)
        _, line = working(back, "c2")
        assert line
        assert "boundary" not in line
    # After a resume, too; and a request that comes now is new.
    resumed = pickle.loads(pickle.dumps(session))
    _, line = working(record(travel(resumed, 0), user("u4")), "c2")
    assert "boundary" in line
    _, again = working(travel(session, len(session) - 1), "c9")
    assert "boundary" not in again


def test_a_request_whose_boundary_was_shown_elsewhere_is_not_new():
    session, _ = working(record(Session(), user("u1")), "c1")
    elsewhere = travel(session, 0)
    _, line = working(elsewhere, "c2")
    assert "boundary" not in line


def test_reminders_and_handoffs_are_no_requests():
    session, _ = working(record(Session(), user("x" * 14_000)), "c1")
    session = remind(session, window=WINDOW)
    assert told(session) == [30]
    _, line = working(session, "c2")
    assert "boundary" not in line
    notes = {"goal": "g", "state": "s", "next": "n"}
    session = apply_travel(session, plan_travel(session, target="root", handoff=notes))
    _, line = working(session, "c3")
    assert line  # the context is another one
    assert "boundary" not in line


def test_labels_of_the_path_are_counted_and_pointed_at():
    session = asked(asked(Session(), "a" * 4_000), "b" * 4_000)
    session = label(label(session, 0, "start"), 3, "second")
    side = record(travel(session, 0), user("side"))
    session = label(at_leaf(side, 5), len(side) - 1, "elsewhere")
    session, _ = send(record(session, user("c" * 400)))
    session = reply(session, "completed", assistant(ToolCall("c1", "ls")))
    line = gauge(session, window=WINDOW)
    assert "· 2pts ·" in line
    turn, task = (
        pressure_at(session, travel(session, n), window=WINDOW).tokens + HANDOFF for n in (3, 0)
    )
    assert f"fold@turn→{turn // 100}%" in line
    assert f"fold@task→{task // 100}%" in line
    assert "-2msg" in line


def test_w09_an_estimate_of_a_fold_includes_the_handoff():
    """The original's list of checkpoints leaves it out: 9.4 % there, 9.8 % on the gauge."""
    session = asked(asked(Session(), "a" * 4_000), "b" * 4_000)
    session, _ = send(record(session, user("c" * 4_000)))
    session = reply(session, "completed", assistant(ToolCall("c1", "travel")))
    told_of = int(gauge(session, window=WINDOW).partition("fold@turn→")[2].partition("%")[0])
    notes = {"goal": "g", "state": "s" * 1_200, "next": "n"}
    plan = plan_travel(session, target="#3", handoff=notes, call="c1")
    then = pressure_of(apply_travel(session, plan), window=WINDOW)
    assert abs(then.tokens - plan.after.tokens) <= 1
    assert abs(int(then.pressure) - told_of) <= 1
    assert int(then.pressure) > int(pressure_of(travel(session, 3), window=WINDOW).pressure) + 2


def test_results_of_tools_may_say_anything():
    """What looks like the line counts as shown only where it says what is so."""
    session = record(Session(), user("x" * 400), assistant(ToolCall("c1", "ls")))
    long = "[ctx 1% " + "x" * 9_000
    for text in ("[ctx 9% window · 1/1]", "a\n[ctx 1% x]\nb", long, "[ctx % x]"):
        forged = record(session, tool_result("c1", text), assistant(ToolCall("c2", "ls")))
        assert gauge(forged, window=WINDOW).startswith("\n[ctx ")
    due = gauge(session, window=WINDOW)
    silent = {"[ctx 1% window · 100/10K]": False, "[ctx 1% no tokens]": False, due.strip(): True}
    for line, told in silent.items():
        shown = record(session, tool_result("c1", f"ok\n{line}"), assistant(ToolCall("c2", "ls")))
        assert (gauge(shown, window=WINDOW) == "") is told
    for parts in ((), (Image("d", "image/png"),)):
        other = record(session, tool_result("c1", parts), assistant(ToolCall("c2", "ls")))
        assert gauge(other, window=1_000_000)


def test_a_gauge_costs_what_is_new():
    """Messages are measured when they come, and not again for each line."""
    measured = 0

    def counting(value):
        nonlocal measured
        measured += 1
        return value.characters // 4

    session, counts = record(Session(), user("start")), []
    for n in range(300):
        session = reply(send(session)[0], "completed", assistant(ToolCall(f"c{n}", "ls")))
        before = measured
        line = gauge(session, window=WINDOW, measure=counting)
        counts.append(measured - before)
        session = record(session, tool_result(f"c{n}", "r" * 400 + line))
    assert all(counts)
    assert max(counts[-50:]) <= max(counts[:50]) <= 12


def test_the_line_stands_behind_the_last_text_and_is_read_there():
    image = Image("d", "image/png")
    session = record(Session(), user("x" * 400), assistant(ToolCall("c1", "ls")))
    line = gauge(session, window=WINDOW)
    result = with_line(tool_result("c1", (Text("a"), Text("b"), image)), line)
    assert [getattr(part, "text", "") for part in result.parts] == ["a", "b" + line, ""]
    shown = record(session, result, assistant(ToolCall("c2", "ls")))
    assert "boundary" not in gauge(shown, window=1_000_000)
    bare = tool_result("c1", (image,))
    assert with_line(bare, line) is bare
    assert with_line(result, "") is result
    for odd in ((None, "x"), (result, 3), (result, "\ud800")):
        with pytest.raises(InvalidArgument):
            with_line(*odd)


def test_the_gauge_refuses_what_is_no_session():
    with pytest.raises(CtxError):
        gauge("x", window=10)
    with pytest.raises(CtxError):
        gauge(Session(), window=0)
    assert gauge_function is gauge
    assert gauge(Session(), window=10) == "\n[ctx 0% window · 0/10 · 0pts]"


# On every session that the gate lets through


@pytest.mark.parametrize("make", [made.journals, made.sessions, made.dirty_sessions])
def test_questions_about_usage_have_an_answer_on_every_session(make):
    lines = reminded = 0

    @given(make(), st.sampled_from([1, 50, 400, 10**6]))
    def look(session, window):
        nonlocal lines, reminded
        line = gauge(session, window=window)
        known = breakdown(session, window=window)
        first = at_leaf(session, -1)
        told_of = moved(session, first, window=window)
        assert line == "" or line.startswith("\n[ctx ")
        assert known.used == pressure_of(session, window=window).tokens
        assert told_of.removed == session.view.end
        assert len(grid(known)) == 54
        copy = pickle.loads(pickle.dumps(session))
        assert gauge(copy, window=window) == line
        assert cycle_of(copy, window=window) == cycle_of(session, window=window)
        after = remind(session, window=window)
        if after is not session:
            reminded += 1
            assert len(after) == len(session) + 2
            assert cycle_of(after, window=window).highest > cycle_of(session, window=window).highest
            assert project(after).extends(project(session))
            assert hidden(after.leaf)
        lines += line != ""

    look()
    assert lines
    assert reminded
