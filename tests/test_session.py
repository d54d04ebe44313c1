"""The tree, the folds and their memory, the view's marks, travel."""

from __future__ import annotations

import copy
import pickle
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Cut,
    Drop,
    Fold,
    Head,
    InvalidArgument,
    Note,
    ProtocolViolation,
    Replace,
    Reply,
    Request,
    Route,
    Sent,
    Session,
    Strip,
    Text,
    Thinking,
    ToolCall,
    abandon,
    assistant,
    at_leaf,
    breaks,
    find,
    fold,
    label,
    labels,
    log,
    open_calls,
    path,
    project,
    record,
    reply,
    requests,
    send,
    strip_thinking,
    system,
    tool_result,
    travel,
    user,
    walk,
)
from ctxalgebra.model.session import STRETCH
from ctxalgebra.model.view import EMPTY_VIEW, Slots

NOTICE = user("[cut]")


def texts(session):
    return [getattr(m.parts[0], "text", "call") for m in project(session).messages]


def loop(turns, session=None):
    session = Session() if session is None else session
    for turn in range(turns):
        session, _ = send(record(session, user(f"u{turn}")))
        session = reply(session, "completed", assistant(f"a{turn}"))
    return session


# The view


def test_results_are_shown_in_call_order_and_what_came_between_behind_them():
    session = record(Session(), user("go"), assistant(ToolCall("c1", "a"), ToolCall("c2", "b")))
    session = record(session, tool_result("c2", "two"), user("steer"), system("rule"))
    assert len(project(session).messages) == 2
    assert open_calls(session) == ("c1",)
    session = record(session, tool_result("c1", "one"))
    assert texts(session)[2:] == ["one", "two", "steer", "rule"]


def test_messages_wait_for_the_reply_in_flight_and_for_its_calls():
    session, _ = send(record(Session(), user("go")))
    session = record(session, user("steer"))
    assert texts(session) == ["go"]
    session = reply(session, "completed", assistant("x", ToolCall("c1", "a")))
    assert texts(session) == ["go", "x"]
    session = record(session, tool_result("c1", "one"))
    assert texts(session) == ["go", "x", "one", "steer"]


@pytest.mark.parametrize("outcome", ["aborted", "failed", "lost"])
def test_what_came_of_a_reply_that_did_not_complete_is_withheld(outcome):
    session, _ = send(record(Session(), user("go")))
    session = record(session, user("steer"))
    session = reply(session, outcome, assistant("half", ToolCall("c1", "a")))
    assert texts(session) == ["go", "steer"]
    assert open_calls(session) == ()
    assert session.view.read == 0


def test_messages_without_content_are_withheld_but_results_are_not():
    session = record(Session(), user(" \n"), assistant(), user("go"), assistant(ToolCall("c", "a")))
    session = record(session, tool_result("c", ""))
    assert [m.role for m in project(session).messages] == ["user", "assistant", "tool"]


def test_abandon_answers_a_call_that_stays_without_result():
    session = record(Session(), user("go"), assistant(ToolCall("c1", "a")))
    session = abandon(session, "c1", "killed")
    assert project(session).messages[-1].error
    with pytest.raises(ProtocolViolation, match="orphan-result"):
        abandon(session, "c1", "again")


def bound(binding="prefix"):
    """Two replies that think: 0 head, 1 user, 2 sent, 3 call, 4 result, 5 sent, 6 reply, 7 user."""
    return record(
        Session(),
        Head(Route("p", "m", binding=binding)),
        user("go"),
        Sent(),
        Reply(
            "completed",
            assistant(Thinking("t1"), ToolCall("c", "a", '{"x":1}'), Thinking("t2"), "say"),
        ),
        tool_result("c", "big"),
        Sent(),
        Reply("completed", assistant(Thinking("t3"), "done")),
        user("next"),
    )


def thoughts(session):
    return [p.text for m in project(session).messages for p in m.parts if isinstance(p, Thinking)]


def test_a_break_hides_the_thinking_behind_it_and_no_other():
    session = bound()
    assert thoughts(session) == ["t1", "t2", "t3"]
    result = record(session, Replace(4, tool_result("c", "small"), "w", breaks=True))
    assert thoughts(result) == ["t1", "t2"]
    args = assistant(Thinking("t1"), ToolCall("c", "a", '{"x":2}'), Thinking("t2"), "say")
    assert thoughts(record(session, Replace(3, args, "w", breaks=True))) == ["t1"]
    assert thoughts(record(session, Drop(3, 4, "w", breaks=True))) == []
    assert thoughts(record(session, Cut(4, NOTICE, "w", (1,), breaks=True))) == []
    assert thoughts(record(session, Strip("w", breaks=True))) == []
    assert thoughts(strip_thinking(session)) == []
    assert thoughts(record(session, Head(system="new"))) == []


def test_unbound_thinking_stays():
    session = bound("none")
    args = assistant(Thinking("t1"), ToolCall("c", "a", '{"x":2}'), Thinking("t2"), "say")
    for decision in (
        Replace(3, args, "w", breaks=True),
        Replace(4, tool_result("c", "small"), "w", breaks=True),
    ):
        assert thoughts(record(session, decision)) == ["t1", "t2", "t3"]
    assert thoughts(record(session, Cut(4, NOTICE, "w", (1,), breaks=True))) == ["t3"]
    assert thoughts(record(session, Strip("w", breaks=True))) == []
    grown = record(Session(), Head(Route(binding="none")), user("a"), user("b"))
    grown = record(grown, assistant(Thinking("t"), "c"))
    assert thoughts(record(grown, Cut(2, NOTICE, "w", (2,)))) == ["t"]


def test_a_message_of_thinking_only_leaves_with_its_thinking():
    session = record(
        Session(), user("a"), assistant(Thinking("t")), user("b"), assistant("c"), user("d")
    )
    assert [m.role for m in project(strip_thinking(session)).messages] == [
        "user",
        "user",
        "assistant",
        "user",
    ]
    stripped = strip_thinking(session).view
    assert (stripped.read, stripped.fresh) == (3, 1)


def test_strip_thinking_is_quiet_where_there_is_nothing_or_no_time_for_it():
    session = record(Session(), user("a"))
    assert strip_thinking(session) is session
    flying, _ = send(bound())
    assert strip_thinking(flying) is flying


def test_a_change_of_head_before_anything_was_sent_is_no_break():
    session = record(Session(), user("a"), Head(system="s"), Head(system="t"))
    session, _ = send(session)
    assert breaks(session) == ()


def test_a_stated_head_binds_thinking_and_no_head_binds_none():
    thinking = (user("a"), assistant(Thinking("t"), "b"))
    assert thoughts(record(Session(), *thinking, Head(system="s"))) == ["t"]
    assert thoughts(record(Session(), Head(system="s"), *thinking, Head(system="t"))) == []
    assert thoughts(record(Session(), Head(), *thinking, Head(system="t"))) == []
    unstated = record(Session(), *thinking)
    assert thoughts(record(unstated, unstated.head, Head(system="t"))) == []
    back = record(Session(), Head(system="s"), Session().head, thinking[1], Head(system="t"))
    again = pickle.loads(pickle.dumps(back))
    assert thoughts(back) == thoughts(again) == []


def test_a_change_of_head_names_what_changed():
    session = record(
        loop(1), user("x"), Head(Route("p", "m"), system="s"), Head(Route("p", "m"), "s")
    )
    session, _ = send(session)
    (broke,) = breaks(session)
    assert (broke.at, broke.why) == (-1, "the head changed: provider, model, system")


def test_a_change_that_is_taken_back_is_no_break():
    session = record(loop(2), user("x"))
    session = record(session, Replace(0, user("other"), "w", breaks=True))
    session = record(session, Replace(0, user("u0"), "undo", breaks=True))
    session, _ = send(session)
    assert breaks(session) == ()
    assert requests(session)[-1].extends(requests(session)[-2])
    head = session.head
    session = reply(session, "lost")
    session, _ = send(record(session, Head(system="s"), head))
    assert breaks(session) == ()


def test_two_breaks_before_one_request_are_one_at_the_lower_position():
    session = record(loop(3), user("x"))
    session = record(session, Replace(3, user("U1"), "first", breaks=True))
    session = record(session, Replace(5, assistant("A1"), "behind it", breaks=True))
    session = record(session, Replace(0, user("U0"), "second", breaks=True))
    session, _ = send(session)
    (broke,) = breaks(session)
    assert (broke.at, broke.why, broke.by) == (0, "first; behind it; second", (10, 11, 12))


def test_a_break_that_only_shortens_the_request_is_found():
    session = record(
        Session(), user("a"), assistant(ToolCall("c", "r")), tool_result("c", "x"), Sent()
    )
    session = record(session, Reply("completed", assistant()))
    session = record(session, Drop(1, 2, "w", breaks=True))
    session, request = send(session)
    assert len(request.messages) == 1
    assert [b.at for b in breaks(session)] == [1]


# The tree and the memory of folds

COUNT = Fold("entries", 0, lambda value, node, view: value + 1)
COUNT_LOG = Fold("all entries", 0, lambda value, node, view: value + 1, along="log")
SHOWN = Fold("shown", 0, lambda value, node, view: value + view.end)


def test_folds_cost_what_is_new():
    steps = 0

    def step(value, node, view):
        nonlocal steps
        steps += 1
        return value + 1

    session = loop(200)
    counted = Fold("counted", 0, step)
    assert fold(session, counted) == 600
    assert steps == 600
    for _ in range(5):
        session = record(session, user("x"))
        assert fold(session, counted) == len(session)
    assert steps == 605


def test_travelling_refolds_one_stretch_at_most():
    steps = 0

    def step(value, node, view):
        nonlocal steps
        steps += 1
        return value + 1

    counted = Fold("counted", 0, step)
    session = Session()
    fold(session, counted)
    session = loop(300, session)
    for number in (0, 63, 64, 65, 500, 899):
        steps = 0
        assert fold(at_leaf(session, number), counted) == number + 1
        assert steps <= STRETCH


def test_a_fold_that_raises_keeps_nothing_from_being_recorded():
    def upto(number, along):
        def step(value, node, view):
            if node.number == number:
                raise OSError("gone")
            return value + 1

        return Fold("upto", 0, step, along=along)

    session = loop(3)
    bad = [upto(number, along) for number in (9, 64, 70) for along in ("path", "log")]
    for what in (COUNT, *bad, COUNT_LOG):
        fold(session, what)
    later = loop(30, session)
    assert later == loop(30, loop(3))
    assert set(later.folds) == {COUNT, COUNT_LOG}
    assert fold(later, COUNT) == fold(later, COUNT_LOG) == 99
    for what in bad:
        with pytest.raises(OSError, match="gone"):
            fold(later, what)
        assert fold(at_leaf(session, 8), what) == 9
    assert fold(at_leaf(later, 63), bad[2]) == 64
    assert fold(at_leaf(later, 63), COUNT) == 64

    stop = Fold("stop", 0, lambda value, node, view: sys.exit())
    fold(Session(), stop)
    with pytest.raises(SystemExit):
        fold(session, stop)


@given(st.lists(st.integers(-1, 40), max_size=30), st.data())
def test_folds_from_memory_equal_folds_from_scratch_on_every_branch(jumps, data):
    session = Session()
    for jump in jumps:
        fold(session, COUNT)
        fold(session, COUNT_LOG)
        fold(session, SHOWN)
        if jump < len(session):
            session = at_leaf(session, jump)
        for _ in range(data.draw(st.integers(0, 40))):
            session = record(session, user("x"))
    fresh = pickle.loads(pickle.dumps(session))
    assert fresh == session
    assert not fresh.folds
    for what in (COUNT, COUNT_LOG, SHOWN):
        assert fold(fresh, what) == fold(session, what)
    assert fold(session, COUNT) == len(path(session))
    assert fold(session, COUNT_LOG) == len(log(session)) == len(session)
    assert fresh.view.messages() == session.view.messages()


@given(st.lists(st.integers(0, 60), max_size=40))
def test_every_number_of_a_path_is_found_and_no_other(parents):
    session = Session()
    for parent in parents:
        if parent < len(session):
            session = at_leaf(session, parent)
        session = record(session, Note("n"))
    on_path = {node.number: node for node in path(session)}
    for node in log(session):
        assert find(session, node.number) is on_path.get(node.number)
        assert find(session, node.number, along="log") is node
    for absent in (-1, len(session)):
        assert find(session, absent) is None
        assert find(session, absent, along="log") is None


def test_finding_in_a_long_path_is_logarithmic():
    session = loop(3000)
    hops = 0
    node = session.leaf
    while node.number > 17:
        node = node.jump if node.jump is not None and node.jump.number >= 17 else node.parent
        hops += 1
    assert node.number == 17
    assert hops < 60


def test_a_long_session_is_compared_pickled_copied_and_freed_without_recursion():
    session = loop(sys.getrecursionlimit() * 3)
    again = pickle.loads(pickle.dumps(session))
    assert again == session
    assert hash(again) == hash(session)
    assert copy.deepcopy(session) == session
    del again


def test_equality_sees_entries_parents_and_leaf():
    session = loop(2)
    assert session == loop(2)
    assert session != loop(3)
    assert session != record(loop(1), user("u1"), Sent(), Reply("completed", assistant("other")))
    assert session != at_leaf(session, 3)
    assert session != "session"
    assert bool(Session())
    assert repr(session) == "<Session: 6 entries, 4 shown>"
    assert repr(path(session)[0]).startswith("<0: Message(")


def test_diverging_lines_do_not_see_each_other():
    base = loop(2)
    left = record(base, user("left"), assistant("l"))
    right = record(base, user("right"), assistant("r"))
    again = record(base, user("left"))
    assert texts(left)[-2:] == ["left", "l"]
    assert texts(right)[-2:] == ["right", "r"]
    assert texts(again)[-1:] == ["left"]
    assert texts(base) == ["u0", "a0", "u1", "a1"]
    assert right.view.slots is not left.view.slots


def test_nothing_of_a_session_stays_behind_when_it_is_gone():
    message = user("secret")
    session = record(Session(), message)
    assert EMPTY_VIEW.slots.messages == []
    count = sys.getrefcount(message)
    del session
    assert sys.getrefcount(message) == count - 2, "the node and the array held it"


def test_threads_that_grow_one_value_do_not_see_each_other():
    base = loop(1)
    failures = []

    def grow(name):
        for turn in range(200):
            session = base
            for step in range(5):
                session = record(session, user(f"{name}-{turn}-{step}"))
            if texts(session)[2:] != [f"{name}-{turn}-{step}" for step in range(5)]:
                failures.append(name)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=grow, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []


def test_threads_that_measure_one_array_agree():
    session = loop(3)
    texts_of = session.view.messages()
    waits = {text: threading.Event() for text in ("u1", "a2")}
    started = {text: threading.Event() for text in waits}

    def slow(message):
        text = message.parts[0].text
        if text in waits and threading.current_thread() is not threading.main_thread():
            started[text].set()
            assert waits[text].wait(10)
        return len(text)

    slots = session.view.slots
    first = threading.Thread(target=slots.total, args=(slow, 4))
    first.start()
    assert started["u1"].wait(10)
    assert slots.total(slow, 6) == 12
    waits["u1"].set()
    first.join()
    for end in range(7):
        assert slots.total(slow, end) == 2 * end
    assert len(texts_of) == 6


def test_walk_gives_the_views_of_the_path():
    session = loop(100)
    views = list(walk(session))
    assert [node.number for node, _ in views] == list(range(300))
    assert [(n.number, v.end) for n, v in walk(session, 297)] == [
        (n.number, v.end) for n, v in views[297:]
    ]


def test_at_leaf_refuses_what_is_not_there():
    session = loop(1)
    assert at_leaf(session, 2) is session
    assert project(at_leaf(session, -1)) == Request(Head(), ())
    for number in (-2, 3):
        with pytest.raises(InvalidArgument, match="unknown-entry"):
            at_leaf(session, number)


# Travel


def test_travel_lands_behind_the_decisions_and_gives_the_request_back():
    session = record(loop(3), user("u3"), Note("ui"), Cut(5, NOTICE, "w", breaks=True))
    session, sent = send(session)
    session = record(reply(session, "completed", assistant("a3")), user("u4"))
    back = travel(session, 9)
    assert back.leaf.number == 11
    again, request = send(back)
    assert request == sent
    assert len(again) == len(session) + 1
    assert travel(session, 12).leaf.number == 11, "a Sent stands for the state that it sent"
    assert travel(session, 14).leaf is session.leaf


def test_travel_lands_behind_decisions_that_follow_a_change_of_head():
    session = record(loop(3), user("u3"), Head(system="new"), Cut(5, NOTICE, "w", breaks=True))
    session, sent = send(session)
    session = record(reply(session, "completed", assistant("a3")), user("u4"))
    again, request = send(travel(session, 9))
    assert request == sent
    assert len(again) == len(session) + 1


def test_a_rewrite_keeps_what_was_not_sent_free():
    session = record(loop(2), user("x"), Replace(0, user("U"), "w", breaks=True))
    assert session.view.fixed == 3
    session = record(loop(2), user("x"))
    session, _ = send(session)
    session = record(reply(session, "completed", assistant("a")), user("y"))
    session = record(session, Replace(0, user("U"), "w", breaks=True))
    assert session.view.fixed == 5
    assert texts(record(session, Replace(8, assistant("A"), "not sent yet")))[5] == "A"


def test_travel_passes_over_what_another_branch_recorded():
    session = record(loop(1), user("left"))
    session = record(travel(session, 2), user("right"))
    session = travel(session, 3)
    assert texts(session)[-1] == "left"
    assert travel(session, 2).leaf.number == 2


def test_travel_stays_on_the_branch_of_its_target():
    session = record(Session(), user("a"), assistant("b"))
    other = record(at_leaf(session, 0), Replace(0, user("A"), "x"))
    assert texts(travel(other, 1)) == ["a", "b"]
    labelled = label(session, 1, "here")
    assert travel(labelled, 1).leaf.number == 1


def test_travel_closes_a_request_in_flight_and_keeps_the_head():
    session, _ = send(record(Session(), user("a")))
    session = record(session, user("waits"))
    session = record(reply(session, "completed", assistant("b")), Head(system="new"))
    back = travel(session, 2)
    assert back.view.flight == -1
    assert back.head == Head(system="new")
    assert texts(back) == ["a", "waits"]
    assert [type(n.entry).__name__ for n in path(back)[-2:]] == ["Reply", "Head"]


def test_travel_to_nowhere_is_refused():
    for number in (-1, 3):
        with pytest.raises(ProtocolViolation, match="unknown-entry"):
            travel(loop(1), number)


def test_travel_into_a_loop_with_leading_thinking_keeps_the_head_of_the_landing():
    head = Head(Route("p", "m", binding="leading"))
    session = record(Session(), head, user("a"), Sent())
    session = record(session, Reply("completed", assistant(Thinking("t"), ToolCall("c", "r"))))
    session = record(session, tool_result("c", "1"), Sent(), Reply("completed", assistant("ok")))
    session = record(session, user("b"), Head(system="new"))
    assert travel(session, 4).head == head
    assert travel(session, 6).head == Head(system="new"), "the loop is closed"


def test_travel_to_the_first_request():
    session = record(Session(), user("a"), Sent())
    assert travel(session, 1).leaf.number == 0


def test_labels_hold_on_all_branches_and_the_last_one_wins():
    session = label(loop(1), 0, "start")
    session = label(travel(session, 1), 2, "end")
    session = label(label(session, 0, "begin"), 2, "")
    assert labels(session) == {0: "begin"}
    assert texts(session) == ["u0"]


def test_replaced_parts_keep_their_place():
    session = record(loop(1), Replace(0, user("U"), "w", breaks=True))
    assert project(session).messages[0].parts == (Text("U"),)
    assert requests(session)[0].messages[0].parts == (Text("u0"),)


def test_what_came_last_is_found_without_a_look_at_the_rest():
    class Counted(list):
        looked = 0

        def index(self, *arguments):
            Counted.looked += 1
            return super().index(*arguments)

    session = record(Session(), *(user(str(n)) for n in range(200)))
    slots = session.view.slots
    view = session.view._replace(slots=Slots(slots.messages, Counted(slots.numbers)))
    assert [view.slot(number) for number in range(184, 200)] == list(range(184, 200))
    assert Counted.looked == 0
    assert [view.slot(number) for number in (0, 150, 183)] == [0, 150, 183]
    assert view.slot(200) == view.slot(-1) == -1
