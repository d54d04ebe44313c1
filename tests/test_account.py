"""Requests, accounts, breaks and their price, dry runs, explanations."""

from __future__ import annotations

from functools import partial

import pytest

from ctxalgebra import (
    Account,
    Cut,
    Drop,
    Head,
    InvalidArgument,
    Note,
    Replace,
    Reply,
    Request,
    Sent,
    Session,
    Strip,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UsageReport,
    account,
    assistant,
    at_leaf,
    breaks,
    dry_run,
    explain,
    pipeline,
    project,
    record,
    reply,
    requests,
    select,
    send,
    tool_result,
    travel,
    user,
)

NOTICE = user("[cut]")


def of(size):
    return "x" * (size * 4)


def loop(turns, size=10):
    session = Session()
    for _ in range(turns):
        session, _ = send(record(session, user(of(size))))
        session = reply(session, "completed", assistant(of(size)), usage=Usage(100, 10, 50, 20))
    return session


def adds_up(session):
    total = account(session)
    assert total.input == total.shared + total.rebilled + total.fresh
    return total


def test_an_append_only_session_shares_every_earlier_request():
    total = adds_up(loop(4))
    assert total == Account(
        requests=4, completed=4, input=160, shared=90, fresh=70, usage=Usage(400, 40, 200, 80)
    )


def test_a_cut_rebills_what_it_keeps_and_a_changed_head_everything():
    session = record(loop(4), user(of(10)), Cut(5, NOTICE, "w", breaks=True))
    session, _ = send(session)
    (broke,) = adds_up(session).breaks
    assert (broke.at, broke.rebilled) == (0, 30)
    session = record(reply(session, "failed"), Head(system=of(5)))
    session, _ = send(session)
    broke = adds_up(session).breaks[1]
    assert (broke.at, broke.rebilled) == (-1, 5 + 2 + 50)


def test_a_late_report_replaces_what_the_reply_said():
    session = record(loop(2), UsageReport(1, Usage(120, 12, 60, 24)))
    assert account(session).usage == Usage(220, 22, 110, 44)
    session = record(session, UsageReport(1, Usage(110, 12, 60, 24)))
    assert account(session).usage == Usage(210, 22, 110, 44)
    open_ = record(session, user("x"), Sent(), Note("ui"))
    late = record(open_, UsageReport(open_.view.flight, Usage(1, 1)))
    assert account(late).usage == Usage(211, 23, 110, 44)
    late = record(late, Reply("completed", assistant("x")))
    assert account(late).usage == Usage(211, 23, 110, 44)
    told = record(open_, Reply("completed", assistant("x"), Usage(5)))
    told = record(told, UsageReport(open_.view.flight, Usage(7)))
    assert account(told).usage == Usage(217, 22, 110, 44)


def test_a_request_that_two_branches_close_counts_once():
    session, _ = send(record(Session(), user("a")))
    first = reply(session, "completed", assistant("ok"), usage=Usage(8, 2))
    again = record(at_leaf(first, 1), Note("ui"), Reply("completed", assistant("OK"), Usage(9, 3)))
    assert account(again) == Account(1, 1, 1, fresh=1, usage=Usage(9, 3))
    other = record(at_leaf(first, 1), Reply("completed", assistant("OK")))
    assert account(other).usage == Usage(8, 2)
    assert account(record(other, UsageReport(1, Usage(7, 7)))).usage == Usage(7, 7)
    failed = record(
        at_leaf(record(session, Reply("failed")), 1), Reply("completed", assistant("x"))
    )
    assert account(failed).completed == 1
    open_again = at_leaf(record(at_leaf(first, 1), Reply("failed")), 1)
    assert account(record(open_again, Reply("completed", assistant("OK")))).completed == 1


def test_accounts_hold_on_all_branches():
    session = loop(2)
    back, _ = send(travel(session, 0))
    total = adds_up(back)
    assert (total.requests, total.completed) == (3, 2)
    assert total.fresh == adds_up(session).fresh + 10
    late = record(back, UsageReport(4, Usage(101, 10, 50, 20)))
    assert account(late).usage.input == 201


def test_a_measure_is_the_callers():
    assert account(loop(2), measure=lambda value: 1).input == 2 + 4


def test_requests_are_the_projections_at_each_sent():
    session = record(loop(2), user("x"))
    session, first = send(session)
    session, again = send(reply(session, "failed"))
    assert requests(session)[-2:] == (first, again)
    assert again == first == project(session)
    assert first.extends(requests(session)[0])
    assert not requests(session)[0].extends(first)
    assert not Request(Head(system="s"), first.messages).extends(first)


def test_a_dry_run_tells_and_records_nothing():
    session = record(loop(5), user("x"))
    told = dry_run(partial(select, budget=60, target=30), session)
    (cut,) = told.entries
    assert isinstance(cut, Cut)
    assert told.broke.at == 0
    assert told.rebilled == 10, "the reply that stays was not in the request before"
    settled = select(session, budget=60, target=30)
    sent, _ = send(settled)
    assert account(sent).input - account(session).input == told.input
    assert len(session) == 16
    assert account(sent).breaks[0].rebilled == told.rebilled
    quiet = dry_run(pipeline(), session)
    assert (quiet.entries, quiet.broke, quiet.rebilled) == ((), None, 0)


def test_a_dry_run_counts_breaks_that_are_pending_already():
    session = record(loop(2), user("x"), Replace(0, user("y"), "w", breaks=True))
    assert dry_run(pipeline(), session).broke.why == "w"
    assert breaks(session) == ()


# explain


def told(session, number):
    e = explain(session, number)
    return e.state, e.why, e.by


def test_explain_names_the_state_and_the_entries_that_decided():
    session = record(
        Session(),
        user("a"),
        Sent(),
        Reply("completed", assistant(Thinking("t"), ToolCall("c", "r"))),
        tool_result("c", "big"),
        Sent(),
        Reply("completed", assistant("done")),
        user("b"),
    )
    assert told(session, 2) == ("shown", "it is shown as it was recorded", ())
    session = record(session, Replace(3, tool_result("c", "small"), "too big", breaks=True))
    assert told(session, 3) == ("replaced", "too big", (7,))
    assert told(session, 2)[0] == "shown"
    session = record(session, Replace(0, user("A"), "edited", breaks=True))
    assert told(session, 2) == (
        "shown",
        "its thinking is hidden since something in front of it changed",
        (8,),
    )
    session = record(session, Drop(2, 3, "not needed", breaks=True))
    assert told(session, 3) == ("cut", "not needed", (7, 9))
    session = record(session, Sent(), Reply("completed", assistant("x")), user("c"))
    session = record(session, Cut(5, NOTICE, "over budget", breaks=True))
    assert told(session, 0) == ("cut", "over budget", (8, 13))
    assert told(session, 6) == ("shown", "it is shown as it was recorded", ())


def test_explain_of_a_notice_is_that_of_its_cut():
    session = record(loop(3), Cut(5, NOTICE, "first", breaks=True))
    assert told(session, 9)[0] == "shown"
    session, _ = send(record(session, user("x")))
    session = record(reply(session, "completed", assistant("y")), user("z"))
    session = record(session, Cut(10, user("[again]"), "second", breaks=True))
    assert told(session, 9) == ("cut", "second", (14,))


def test_explain_tells_what_was_never_shown():
    session = record(Session(), user(" "), user("a"), Sent(), user("waits"))
    assert told(session, 0) == ("withheld", "it has no content", (0,))
    assert told(session, 3) == ("waiting", "a request is in flight", (2,))
    session = record(session, Reply("aborted", assistant("half")))
    assert told(session, 4) == ("withheld", "its reply was aborted", (4,))
    session = record(session, assistant(ToolCall("c", "r"), ToolCall("d", "r")), user("waits"))
    assert told(session, 6) == ("waiting", "open calls: c, d", ())


def test_explain_tells_of_messages_that_were_thinking_only():
    base = record(
        Session(),
        Head(),
        user("a"),
        Sent(),
        Reply("completed", assistant(Thinking("t"))),
        user("b"),
    )
    stripped = record(base, Strip("refused", breaks=True))
    assert told(stripped, 3) == ("withheld", "refused", (5,))
    headed = record(base, Head(system="s"))
    assert told(headed, 3) == ("withheld", "the head changed", (5,))
    edited = record(base, Replace(1, user("A"), "edit", breaks=True))
    assert told(edited, 3) == ("withheld", "edit", (5,))


def test_explain_of_a_message_whose_thinking_was_hidden_and_which_was_replaced():
    session = record(Session(), user("a"), assistant(Thinking("t"), "b"), user("c"))
    session = record(session, Replace(1, assistant(Thinking("t"), "B"), "shorter"))
    session = record(session, Strip("refused"))
    assert told(session, 1) == ("replaced", "shorter", (3, 4))
    assert project(session).messages[1].parts == (Text("B"),)


@pytest.mark.parametrize("number", [-1, 1, 99])
def test_explain_refuses_what_is_no_message(number):
    with pytest.raises(InvalidArgument, match="unknown-entry"):
        explain(record(Session(), user("a"), Sent()), number)


def test_explain_of_a_message_with_blank_text_beside_other_parts():
    session = record(Session(), user((Text("a"), Text(" "))), assistant("", "b"))
    assert told(session, 0) == ("shown", "it is shown without its blank text", ())
    assert told(session, 1) == ("shown", "it is shown without its blank text", ())
    assert explain(session, user("a")).number == 0


@pytest.mark.parametrize("usage", [(3, 0, 10_000), (3, 0, 0, 4), (3, 9, 2, 2)])
def test_usage_whose_input_lacks_what_the_cache_has_is_refused(usage):
    # Whoever forgets to add the numbers of the cache would teach the calibration nonsense.
    with pytest.raises(InvalidArgument) as caught:
        Usage(*usage)
    assert (caught.value.code, caught.value.field) == ("invalid-argument", "input")
    assert Usage(3, 0, 2, 1).input == 3
