"""Delivery: the refresh registry, tickets, what is sent, and the live list of one session."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    InvalidArgument,
    Session,
    ToolCall,
    assistant,
    at_leaf,
    defects,
    project,
    record,
    tool_result,
    travel,
    user,
)
from ctxalgebra.compat.travel_delivery import read_receipt
from ctxalgebra.delivery import (
    Accepted,
    Activated,
    Deferred,
    Delivered,
    Delivery,
    Failed,
    Failure,
    Forgotten,
    LiveMessages,
    Observed,
    Outcome,
    Packet,
    Refresh,
    Rejected,
    ReplaceLive,
    Schedule,
    Settling,
    Ticket,
    applied,
    awaited,
    deliver,
    delivering,
    holds_live,
    merged,
    phase,
    rebuilds,
    refresh,
    sending,
    trusts_reports,
)
from ctxalgebra.delivery.live import Due, due, scheduled, tried
from ctxalgebra.delivery.refresh import ATTEMPTS

OLD, NEW, MORE = user("old"), user("new"), user("more")
PACKET = Packet((NEW,), "L", (OLD,))
CALL = assistant(ToolCall("c1", "travel"))


# The registry


EVENTS = st.lists(
    st.sampled_from(["asked", "rebuilt", "dropped", "done", Failure("a"), Failure("b")]),
    max_size=30,
)


@given(EVENTS)
def test_a_refresh_ends_after_three_failures_in_a_row_and_not_before(events):
    state, failed, asked = Refresh(), 0, False
    for event in events:
        state = refresh(state, event)
        if isinstance(event, Failure):
            failed += 1
            asked = asked and failed < ATTEMPTS
            assert state.failure == event.error
        else:
            failed = failed if event == "dropped" else 0
            asked = event == "asked" or (asked and event == "rebuilt")
        assert state.pending == asked
        assert state.attempts == min(failed, ATTEMPTS)
        assert state.exhausted == (failed >= ATTEMPTS)


# Tickets


def play(*events, ticket=None):
    """Play events; give the ticket, and the effects that were asked for."""
    effects = []
    for event in events:
        ticket, asked = deliver(ticket, event)
        effects += asked
    return ticket, effects


def test_a_travel_from_its_call_to_the_live_list():
    ticket, effects = play(Deferred("c1"))
    assert (phase(ticket), awaited(ticket), holds_live(ticket)) == (
        "pending_tool_result", "c1", True,
    )  # fmt: skip
    assert not delivering(ticket)
    ticket, more = play(Accepted("c1"), Activated(PACKET), Observed(), ticket=ticket)
    assert phase(ticket) == "provider_active_native_pending"
    assert (ticket.observed, delivering(ticket), rebuilds(ticket)) == (True, True, True)
    ticket, last = play(Settling(), Delivered("applied"), Settling(), ticket=ticket)
    assert [*effects, *more, *last] == [Schedule("c1"), ReplaceLive("c1")]
    assert phase(ticket) == "provider_active_native_applied"
    assert play(Forgotten(), ticket=ticket) == (None, [])


def test_w15_a_rejected_receipt_ends_the_ticket_and_nothing_of_it_is_sent():
    """In the original the next context event still shows the travel that did not happen."""
    ticket, effects = play(Deferred("c1"), Rejected("c1"), Settling())
    assert effects == [Schedule("c1")]
    assert not applied(ticket)
    assert (phase(ticket), ticket.sync, ticket.settled) == ("receipt_rejected", "skipped", True)
    assert (awaited(ticket), holds_live(ticket), rebuilds(ticket)) == (None, False, False)
    state = Delivery(play(Deferred("c1"))[0], refresh(Refresh(), "asked"))
    for receipt in ("rejected", "untrusted"):
        sent = sending(state, (OLD,), never, receipt)
        assert (sent.messages, sent.source) == ((OLD,), "live")
        assert sending(sent.state, (OLD, MORE), never).messages == (OLD, MORE)
        assert not sent.state.refresh.pending


@pytest.mark.parametrize(
    "event",
    [
        Accepted("c2"), Rejected("c2"), Observed(), Settling(), Activated(PACKET),
    ],
)  # fmt: skip
def test_what_does_not_concern_a_ticket_changes_nothing(event):
    ticket, _ = play(Deferred("c1"))
    assert deliver(ticket, event) == (ticket, ())
    assert deliver(ticket, event)[0] is ticket
    assert deliver(None, event) == (None, ())


THEN = ["retry", "unsafe_fallback", "cached_exhausted"]
ANY = st.one_of(
    st.builds(Deferred, st.sampled_from(["a", "b"])),
    st.builds(Accepted, st.sampled_from(["a", "b"])),
    st.builds(Rejected, st.sampled_from(["a", "b"])),
    st.builds(Activated, st.sampled_from([PACKET, Packet(()), Packet((OLD, NEW))])),
    st.builds(Failed, st.just("x"), st.sampled_from(THEN)),
    st.builds(Delivered, st.sampled_from(["applied", "failed", "skipped", "unavailable"])),
    st.sampled_from([Settling(), Observed(), Forgotten()]),
)  # fmt: skip


@given(st.lists(ANY, max_size=30))
def test_every_sequence_keeps_the_order_of_a_ticket(events):
    ticket: Ticket | None = None
    replaced: list[str] = []
    for event in events:
        before = ticket
        ticket, effects = deliver(ticket, event)
        assert deliver(before, event) == (ticket, effects)
        for effect in effects:
            if isinstance(effect, ReplaceLive):
                replaced.append(effect.call)
                assert ticket.receipt == "accepted"
                assert ticket.settled
        if ticket is None:
            assert phase(ticket) == "active"
            continue
        assert (ticket.packet is None) or ticket.receipt == "accepted"
        assert (awaited(ticket) is None) == (ticket.receipt != "pending")
        assert applied(ticket) == (ticket.receipt != "rejected")
        if isinstance(event, Settling) and before is not None and before.settled:
            assert not effects
    travels = [event for event in events if isinstance(event, Deferred)]
    assert len(replaced) <= len(travels)


def test_reports_count_until_the_live_list_is_the_same():
    ticket, _ = play(Deferred("c1"), Accepted("c1"), Activated(PACKET))
    assert not trusts_reports(ticket)
    ticket, _ = play(Observed(), ticket=ticket)
    assert trusts_reports(ticket)
    failed, _ = play(Settling(), Delivered("failed"), ticket=ticket)
    assert trusts_reports(failed)
    done, _ = play(Settling(), Delivered("applied"), ticket=ticket)
    assert not trusts_reports(done)
    assert not trusts_reports(None)


GOOD = {
    "role": "toolResult", "toolCallId": "c1", "toolName": "acm_travel", "isError": False,
    "details": {"mutationStatus": "applied", "handoffFormat": "structured-v1",
                "resultingLeafId": "n2"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "success"), ({"isError": True}, "rejected"), ({"toolName": "read"}, "untrusted"),
        ({"details": None}, "untrusted"), ({"details": {**GOOD["details"], "resultingLeafId": 3}},
        "untrusted"), ({"details": {**GOOD["details"], "mutationStatus": "indeterminate"}},
        "untrusted"), ({"toolCallId": "c2"}, None), ({"role": "user"}, None),
    ],
)  # fmt: skip
def test_a_receipt_says_all_that_the_extension_writes(change, expected):
    assert read_receipt([{"role": "user"}, {**GOOD, **change}], "c1") == expected
    assert read_receipt([GOOD, {**GOOD, **change}], "c1") == (expected or "success")


# What is sent


def never():
    raise AssertionError("nothing is built here")


def stored():
    return PACKET


def arrived():
    """Give a state whose receipt is there, with the live messages behind it."""
    state = Delivery(play(Deferred("c1"))[0], refresh(Refresh(), "asked"))
    live = (OLD, CALL, tool_result("c1", "travelled"))
    sent = sending(state, live, stored, "success")
    assert (sent.messages, sent.source) == ((NEW,), "storage")
    return sent.state, live


def test_while_the_call_is_open_the_live_messages_are_sent():
    state = Delivery(play(Deferred("c1"))[0], refresh(Refresh(), "asked"))
    assert sending(state, (OLD,), never).source == "live"
    broken = sending(state, (OLD, CALL), never)
    assert broken.source == "repaired"
    assert not defects(broken.messages)
    assert broken.state == state


def test_without_a_travel_the_live_messages_are_sent():
    assert sending(Delivery(), (OLD,), never) == sending(Delivery(), (OLD,), never, "success")


def test_every_later_request_is_built_from_storage():
    state, live = arrived()
    again = sending(state, (*live, MORE), lambda: Packet((NEW, MORE)))
    assert (again.source, again.messages) == ("storage", (NEW, MORE))
    assert again.state.refresh.pending


def test_what_was_built_stands_in_with_what_came_since():
    state, live = arrived()
    for attempt in (1, 2, 3):
        sent = sending(state, (*live, MORE), lambda: None)
        assert (sent.source, sent.messages) == ("cached", (NEW, MORE))
        assert sent.state.refresh.attempts == attempt
        state = sent.state
    assert state.ticket.phase == "cached_exhausted"
    assert not state.refresh.pending
    # No attempt is made any more.
    last = sending(state, (*live, MORE, OLD), never)
    assert (last.source, last.messages) == ("cached", (NEW, MORE, OLD))
    other = sending(state, (MORE,), never)
    assert (other.source, other.state.ticket.phase) == ("live", "fallback")


@pytest.mark.parametrize("packet", [None, Packet(()), Packet((CALL,))])
def test_without_anything_built_the_live_messages_are_sent(packet):
    state = Delivery(play(Deferred("c1"))[0], refresh(Refresh(), "asked"))
    sent = sending(state, (OLD, CALL), lambda: packet, "success")
    assert sent.source == "repaired"
    assert sent.state.ticket.phase == "fallback"
    assert sent.state.refresh.attempts == 1
    healed = sending(sent.state, (OLD,), stored)
    assert (healed.source, healed.state.ticket.phase) == ("storage", "active")


def test_a_cached_packet_that_would_part_a_call_is_not_sent():
    state, _ = arrived()
    source = state.ticket.packet.source
    sent = sending(state, (*source, CALL), lambda: None)
    assert sent.source == "repaired"
    assert not defects(sent.messages)


def test_a_refresh_without_a_ticket_builds_from_storage():
    state = Delivery(None, refresh(Refresh(), "asked"))
    assert sending(state, (OLD,), stored).source == "storage"
    failed = sending(state, (OLD,), lambda: None)
    assert (failed.source, failed.state.refresh.attempts) == ("live", 1)


MESSAGES = st.lists(
    st.sampled_from([OLD, NEW, MORE, CALL, tool_result("c1", "x"), tool_result("c2", "y")]),
    max_size=5,
).map(tuple)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), ANY),
            MESSAGES,
            st.one_of(st.none(), st.builds(Packet, MESSAGES)),
            st.sampled_from([None, "success", "rejected", "untrusted"]),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_whatever_happens_what_is_sent_is_paired(steps):
    state = Delivery()
    for event, live, packet, receipt, asked in steps:
        if event is not None:
            state = Delivery(deliver(state.ticket, event)[0], state.refresh)
        if asked:
            state = Delivery(state.ticket, refresh(state.refresh, "asked"))
        sent = sending(state, live, lambda packet=packet: packet, receipt)
        assert not defects(sent.messages)
        assert sent == sending(state, live, lambda packet=packet: packet, receipt)
        if sent.source == "live":
            assert sent.messages == live
        state = sent.state


def test_a_packet_merges_behind_what_it_stands_for():
    assert merged(PACKET, (OLD, MORE)) == (NEW, MORE)
    assert merged(PACKET, (NEW, MORE)) == (NEW, MORE)
    assert merged(PACKET, (MORE,)) is None
    assert merged(Packet(()), (MORE,)) is None


# The live list


class Copying:
    """A host that keeps a copy of what it is given, as the real one does."""

    def __init__(self, messages):
        self._messages = list(messages)
        self.sets = 0

    @property
    def messages(self):
        return self._messages

    @messages.setter
    def messages(self, given):
        self.sets += 1
        self._messages = given[:]


class Deaf(Copying):
    """A host that takes what it is given, and keeps what it has."""

    messages = property(lambda self: self._messages, lambda self, given: None)


class Frozen(Copying):
    messages = property(lambda self: self._messages)


class Broken:
    @property
    def messages(self):
        raise RuntimeError("gone")


TRAVELLED = (Deferred("c1"), Accepted("c1"), Settling())


def went(adapter, session, *events, ticket=None):
    for event in events or TRAVELLED:
        ticket = adapter.run(ticket, event, session)
    return ticket


def test_a_live_list_is_replaced_once_by_a_list_of_its_own():
    session = record(Session(), user("a"), user("b"))
    before = [user("a"), user("b")]
    live = Copying(before)
    adapter = LiveMessages(live)
    folded = travel(session, 0)
    ticket = went(adapter, folded)
    assert ticket.sync == "applied"
    assert live.messages == list(project(folded).messages)
    assert live.sets == 1
    live.messages.append(user("of the host"))
    assert project(folded).messages == (user("a"),)
    assert before == [user("a"), user("b")]
    assert went(adapter, folded, Settling(), ticket=ticket) == ticket
    assert adapter.due == Due(last=Outcome("applied", messages=1))


@pytest.mark.parametrize(
    ("live", "status", "reason"),
    [
        (Deaf([OLD]), "failed", "replace_messages_failed"),
        (Frozen([OLD]), "failed", "replace_messages_failed"),
        (Broken(), "skipped", "not_pending"),
        (SimpleNamespace(), "skipped", "not_pending"),
        (SimpleNamespace(messages=3), "skipped", "not_pending"),
    ],
)
def test_a_list_that_can_not_be_replaced_says_so(live, status, reason):
    adapter = LiveMessages(live)
    session = record(Session(), user("a"))
    ticket = went(adapter, session, Deferred("c1"))
    assert ticket.sync == ("pending" if status == "failed" else "unavailable")
    ticket = went(adapter, session, Accepted("c1"), Settling(), ticket=ticket)
    assert ticket.sync == status
    assert adapter.perform(ReplaceLive("c1"), session) == Outcome(status, reason)
    # What was kept in storage is untouched, and the travel stays.
    assert applied(ticket)


def test_a_list_that_shows_the_messages_already_is_in_order():
    session = record(Session(), user("a"))
    assert went(LiveMessages(Deaf([user("a")])), session).sync == "applied"


def test_an_open_call_is_never_put_into_a_live_list():
    session = record(Session(), user("a"), assistant(ToolCall("c9", "ls")))
    live = Copying([OLD])
    ticket = went(LiveMessages(live), session)
    assert (ticket.sync, live.messages) == ("failed", [OLD])


def test_two_sessions_in_one_process_can_not_take_each_others_tickets():
    parent, child = record(Session(), user("parent")), record(Session(), user("child"))
    lists = Copying([OLD]), Copying([OLD])
    adapters = LiveMessages(lists[0]), LiveMessages(lists[1])
    first = went(adapters[0], parent, Deferred("c1"))
    second = went(adapters[1], child, Deferred("c1"))
    assert adapters[1].perform(ReplaceLive("c2"), child).reason == "not_pending"
    second = went(adapters[1], child, Accepted("c1"), Settling(), ticket=second)
    assert (lists[0].messages, lists[1].messages) == ([OLD], [user("child")])
    assert adapters[0].due.call == "c1"
    first = went(adapters[0], parent, Accepted("c1"), Settling(), ticket=first)
    assert lists[0].messages == [user("parent")]
    assert (first.sync, second.sync) == ("applied", "applied")


def test_a_later_travel_takes_the_place_of_an_earlier_one():
    session, live = record(Session(), user("a")), Copying([OLD])
    adapter = LiveMessages(live)
    ticket = went(adapter, session, Deferred("c1"), Deferred("c2"), Accepted("c1"), Settling())
    assert (ticket.receipt, live.messages) == ("pending", [OLD])
    assert adapter.perform(ReplaceLive("c1"), session).reason == "not_pending"
    assert went(adapter, session, Accepted("c2"), Settling(), ticket=ticket).sync == "applied"


def test_the_same_session_value_gives_the_same_list_whoever_asks():
    session = record(Session(), user("a"), user("b"))
    shown = []
    for value in (session, at_leaf(at_leaf(session, 0), 1)):
        live = Copying([])
        went(LiveMessages(live), value)
        shown.append(live.messages)
    assert shown[0] == shown[1]


def test_a_preferred_leaf_that_is_not_current_is_stale():
    state, outcome = scheduled("c1", fit=True, leaf=3)
    assert outcome == Outcome("pending")
    assert due(state, "c1", 3) == (state, None)
    gone, refused = due(state, "c1", 4)
    assert refused.reason == "stale_leaf"
    assert gone.call is None
    assert due(state, "c2", 3)[1].reason == "not_pending"
    failed = tried(state, Outcome("failed", "invalid_protocol"))
    assert (failed.call, failed.last.status) == ("c1", "failed")


def test_an_adapter_wants_a_session():
    with pytest.raises(InvalidArgument):
        LiveMessages(Copying([])).run(None, Deferred("c1"), "session")
    assert went(LiveMessages(Copying([OLD])), Session()).sync == "applied"
