"""Results of many parallel calls: linear, shared between branches, never another's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    ProtocolViolation,
    Session,
    ToolCall,
    assistant,
    open_calls,
    project,
    record,
    tool_result,
    user,
)
from ctxalgebra.model import exchange
from ctxalgebra.model.exchange import NO_RESULTS, NOTHING, Queue, awaiting


def asked(count):
    calls = [ToolCall(f"c{n}", "read") for n in range(count)]
    return record(Session(), user("go"), assistant(*calls))


def test_branches_share_a_table_and_see_their_own_only():
    start = awaiting(("a", "b", "c"))
    one = start.answered("a", 1, tool_result("a", "1"))
    left = one.answered("b", 2, tool_result("b", "left"))
    right = one.answered("b", 2, tool_result("b", "right"))
    other = one.answered("c", 2, tool_result("c", "other"))
    assert [dict(r) for r in (start, one)] == [{}, {"a": (1, tool_result("a", "1"))}]
    assert left["b"] == (2, tool_result("b", "left"))
    assert right["b"] == (2, tool_result("b", "right"))
    assert (list(left), list(right), list(other)) == (["a", "b"], ["a", "b"], ["a", "c"])
    assert "b" not in one
    assert one.awaits("b")
    assert not left.awaits("b")
    assert not NO_RESULTS.awaits("a")
    with pytest.raises(KeyError):
        one["b"]
    # The first one on a line goes on in the same table.
    assert left.answered("c", 3, tool_result("c", "x"))._table is left._table
    assert right._table is not left._table


@given(st.permutations(range(20)), st.lists(st.integers(0, 19), max_size=6))
def test_results_of_diverging_sessions_are_their_own(order, forks):
    base = asked(20)
    sessions = [base]
    for count, n in enumerate(order):
        grown = record(sessions[-1], tool_result(f"c{n}", f"main {n}"))
        if count in forks:
            fork = record(sessions[-1], tool_result(f"c{n}", "fork"))
            assert len(open_calls(fork)) == 19 - count
            with pytest.raises(ProtocolViolation, match=r"(duplicate|orphan)-result"):
                record(fork, tool_result(f"c{n}", "again"))
        sessions.append(grown)
    shown = [message.parts[0].text for message in project(sessions[-1]).messages[2:]]
    assert shown == [f"main {n}" for n in range(20)]
    for count, session in enumerate(sessions[:-1]):
        assert open_calls(session) == tuple(f"c{n}" for n in range(20) if n not in order[:count])


def test_a_result_costs_itself_however_many_calls_are_open():
    session = asked(3_000)
    table = None
    for n in reversed(range(2_999)):
        session = record(session, tool_result(f"c{n}", "x"))
        results = session.view.results
        assert table is None or results._table is table
        table = results._table
    assert len(session.view.results) == 2_999
    assert isinstance(session.view.results.calls, frozenset)
    session = record(session, tool_result("c2999", "x"))
    assert len(project(session).messages) == 3_002


def test_what_waits_behind_one_call_is_linear(monkeypatch):
    """A call that nobody answers, and everything that is said since."""
    copied = []
    real = exchange.Queue.joined

    def joined(queue, item):
        found = real(queue, item)
        if found._items is not queue._items:
            copied.append(len(found))
        return found

    monkeypatch.setattr(exchange.Queue, "joined", joined)
    session = asked(1)
    for n in range(2_000):
        session = record(session, user(f"m{n}"))
    assert len(session.view.waiting) == 2_000
    assert copied == [1]
    shown = project(record(session, tool_result("c0", "done"))).messages
    assert [m.parts[0].text for m in shown[3:]] == [f"m{n}" for n in range(2_000)]


def test_branches_share_what_waits_and_see_their_own_only():
    start = record(asked(1), user("a"))
    left, right = record(start, user("left")), record(start, user("right"))
    on = record(left, user("on"))
    texts = [[m.parts[0].text for _, m in s.view.waiting] for s in (start, left, right, on)]
    assert texts == [["a"], ["a", "left"], ["a", "right"], ["a", "left", "on"]]
    assert left.view.waiting._items is on.view.waiting._items


def test_a_queue_is_a_sequence():
    queue = Queue([], 0).joined("a").joined("b")
    assert (queue[0], queue[-1], queue[1:], len(queue)) == ("a", "b", ("b",), 2)
    assert queue == ("a", "b") == tuple(queue)
    assert queue == Queue(["a", "b", "c"], 2)
    assert queue != ("a",)
    assert queue != ["a", "b"]
    assert hash(queue) == hash(Queue(["a", "b"], 2))
    assert repr(queue) == "Queue('a', 'b')"
    with pytest.raises(IndexError):
        queue[2]
    assert len(NOTHING.joined((1, user("x")))) == 1
    assert len(NOTHING) == 0
