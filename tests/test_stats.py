"""The report on a session: ours over journals, the original's over the host's entries."""

from __future__ import annotations

import pytest

from ctxalgebra import (
    Head,
    InvalidArgument,
    Replace,
    Route,
    Session,
    Usage,
    UsageReport,
    assistant,
    estimate,
    project,
    record,
    reply,
    send,
    travel,
    user,
)
from ctxalgebra.compat.paging_stats import host_stats
from ctxalgebra.recall.report import Stats, stats


def turn(session, text, usage=None, outcome="completed"):
    session, _ = send(record(session, user(text)))
    message = assistant("abcd") if outcome == "completed" else None
    return reply(session, outcome, message, usage=usage)


def test_nothing_reported_is_unavailable_and_nothing_sent_is_nothing_read():
    told = stats(Session(), budget=100)
    assert (told.input, told.read, told.written, told.stored) == (None, 0, 0, None)
    assert told.rows()["Input tokens"] == told.rows()["Stored size"] == "unavailable"
    session = turn(Session(), "x" * 400)
    told = stats(session, budget=100)
    assert (told.input, told.estimated, told.read, told.written) == (100, True, None, None)
    assert told.rows()["Input tokens"] == "~100"
    assert told.rows()["Tokens read"] == "unavailable"


def test_what_no_report_tells_of_the_cache_is_unavailable():
    # A provider that tells nothing of a cache looks like one that never had anything in it.
    plain = turn(turn(Session(), "x" * 400, Usage(100, 1)), "y", Usage(102, 1))
    told = stats(plain, budget=1000)
    assert (told.read, told.written) == (None, None)
    assert told.text().splitlines()[-2:] == [
        "  Tokens read          unavailable",
        "  Tokens written       unavailable",
    ]
    other = turn(travel(plain, 0), "z", Usage(103, 1, 40))
    assert [stats(s, budget=1000).read for s in (other, travel(other, plain.leaf.number))] == [
        40,
        40,
    ], "a report on any branch tells"
    assert stats(other, budget=1000).written is None, "nobody says what was written"
    cold = turn(plain, "z", Usage(103, 1, 0, 90))
    assert (stats(cold, budget=1000).read, stats(cold, budget=1000).written) == (0, 90)


def test_totals_are_over_all_branches_and_the_input_is_that_of_the_path():
    session = turn(Session(), "x" * 400, Usage(100, 1, 20, 30))
    first = session.leaf.number
    session = turn(session, "y" * 400, Usage(200, 1, 100, 5))
    session = turn(travel(session, first), "z" * 400, Usage(201, 1, 7, 0))
    told = stats(session, budget=1000, window=900, stored=2048)
    assert (told.read, told.written) == (127, 35)
    assert (told.input, told.estimated, told.note) == (201, False, "22.3% used")
    assert told.history == 303
    assert (told.budget, told.size) == (900, "2.00 KiB")
    again = stats(travel(session, first), budget=1000)
    assert again.input == 100
    assert (again.read, again.history) == (127, 303)


def test_late_reports_count_once_and_failures_without_usage_hold_nothing_up():
    session, _ = send(record(Session(), user("x" * 400)))
    sent = session.view.sent.number
    session = reply(session, "completed", assistant("ok"))
    assert stats(session, budget=100).read is None
    session = record(session, UsageReport(sent, Usage(90, 1, 9, 8)))
    assert (stats(session, budget=100).read, stats(session, budget=100).input) == (9, 90)
    session = record(session, UsageReport(sent, Usage(91, 1, 10, 8)))
    assert (stats(session, budget=100).read, stats(session, budget=100).input) == (10, 91)
    session = turn(session, "again", outcome="failed")
    told = stats(session, budget=100)
    assert (told.read, told.estimated) == (10, True)
    session = turn(session, "again", Usage(0, 0, 0, 0), outcome="failed")
    assert stats(session, budget=100).estimated


def test_the_estimate_is_of_the_request_not_of_what_came_behind_it():
    session = turn(Session(), "x" * 400, Usage(200, 1))
    session, _ = send(record(session, user("y" * 400)))
    before = estimate(session)
    session = reply(session, "completed", assistant("z" * 4000))
    session = record(session, user("more" * 400))
    assert stats(session, budget=100).input == before < estimate(session)
    session, _ = send(session)
    session = record(session, user("meanwhile"))
    session = reply(session, "completed", assistant("ok"), usage=Usage(1500, 1))
    told = stats(session, budget=2000)
    assert told.input == 1500
    assert told.text().splitlines()[8] == "  Paging budget        2,000   (75.0% used)"


def test_another_model_has_no_input_yet():
    session = turn(record(Session(), Head(route=Route(model="a"))), "x", Usage(5, 1))
    assert stats(session, budget=10).input == 5
    session = record(session, Head(route=Route(model="b")))
    assert stats(session, budget=10).input is None
    assert stats(session, budget=10).note == ""
    assert stats(session, budget=10, enabled=False).note == "inactive"


def test_history_counts_originals_and_replacements():
    session = record(Session(), user("x" * 400))
    changed = record(session, Replace(0, user("y" * 40), "shorter"))
    assert stats(changed, budget=10).history == 110
    assert project(changed).messages == (user("y" * 40),)


def test_reporting_changes_nothing():
    session = turn(Session(), "x" * 400, Usage(100, 1))
    again = turn(Session(), "x" * 400, Usage(100, 1))
    stats(session, budget=100)
    assert session == again


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (2**20 - 1, "1024.00 KiB"),
        (3 * 2**19, "1.50 MiB"),
    ],
)  # fmt: skip
def test_sizes(size, text):
    assert Stats(True, size, 0, None, False, 1, None, 0, 0).size == text


@pytest.mark.parametrize(
    ("code", "field", "wrong"),
    [
        ("invalid-argument", "budget", 0),
        ("invalid-argument", "budget", 1.5),
        ("invalid-argument", "window", 0),
        ("wrong-type", "enabled", 1),
        ("wrong-type", "stored", "x"),
        ("wrong-type", "stored", float("nan")),
        ("wrong-type", "stored", True),
        ("invalid-argument", "stored", -5),
        ("wrong-type", "measure", lambda message: 0.5),
    ],
)
def test_what_is_no_budget_or_size_or_measure_is_refused(code, field, wrong):
    with pytest.raises(InvalidArgument) as caught:
        stats(record(Session(), user("x")), **{"budget": 9, field: wrong})
    assert (caught.value.code, caught.value.field) == (code, field)
    assert stats(Session(), budget=9, stored=0).text().splitlines()[3][-3:] == "0 B"


def test_text_off():
    lines = Stats(False, 1, 1, None, False, 10, None, None, 3).text().splitlines()
    assert lines[0] == "Context paging: off"
    assert lines[8] == "  Paging budget        10   (inactive)"
    assert lines[-2:] == ["  Tokens read          unavailable", "  Tokens written       3"]
    lines = Stats(True, 1, 1, None, False, 1600.5, None, None, 3).text().splitlines()
    assert lines[8] == "  Paging budget        1,600.5"


def entry(name, message):
    return {"type": "message", "id": name, "message": message}


def test_the_hosts_report_looks_no_further_than_where_the_branch_turned():
    usage = {"input": 5, "output": 1, "cacheRead": 0, "cacheWrite": 0}
    said = entry("a", {"role": "assistant", "content": [], "usage": usage})
    asked = entry("u", {"role": "user", "content": "x"})
    for kind in ("compaction", "branch_summary", "model_change"):
        stop = {"type": kind, "summary": "s"}
        assert host_stats([said, stop, asked], token_budget=9).input is None
        assert host_stats([stop, said, asked], token_budget=9).input == 5
    assert host_stats([asked], token_budget=9).input is None
    odd = [entry("m", None), {"type": "message"}, {"type": "label"}]
    told = host_stats([*odd, asked], token_budget=9)
    assert (told.input, told.history, told.read) == (None, 1, 0)


def test_the_hosts_history_counts_what_stays_in_the_file():
    asked = entry("u", {"role": "user", "content": "x" * 40})
    system = {"role": "system", "content": "s" * 20}
    edit = {"type": "context_edit", "targetId": "u", "replacement": {"content": "y" * 8}}
    for more, tokens in (
        ([edit], 12),
        ([{**edit, "targetId": "gone"}], 10),
        ([{**edit, "targetId": ["u"]}], 10),
        ([{"type": "compaction", "summary": "s" * 8, "systemMessage": system}], 17),
        ([{"type": "branch_summary", "summary": "s" * 8}], 12),
        (
            [{"type": "custom_message", "id": "k", "content": "s" * 8}, {**edit, "targetId": "k"}],
            14,
        ),
    ):
        assert host_stats([asked, *more], token_budget=9).history == tokens
    huge = {"type": "usage", "usage": {"cacheRead": 2**53 - 1, "cacheWrite": True}}
    assert host_stats([huge], token_budget=9).read == 2**53 - 1
    assert host_stats([huge, huge], token_budget=9).read is None
    assert host_stats([huge], token_budget=9).written is None
