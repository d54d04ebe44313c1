"""Cache models beside what providers reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctxalgebra import (
    Head,
    InvalidArgument,
    Reply,
    Route,
    Sent,
    Session,
    ToolCall,
    Usage,
    assistant,
    record,
    reply,
    send,
    tool_result,
    user,
)
from ctxalgebra.cli import main
from ctxalgebra.codecs import load
from ctxalgebra.codecs.journal import encode
from ctxalgebra.replay import Reported, compare_reported

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions"


def billed(session, usage, *parts, outcome="completed", time=None):
    session, _ = send(session, time=time)
    message = assistant(*(parts or ("ok",))) if outcome == "completed" else None
    return reply(session, outcome, message, usage=usage)


def test_a_growing_session_is_read_as_it_was_reported():
    session = record(Session(), user("x" * 4000))
    total = 9_000
    for n in range(6):
        read = 0 if n == 0 else total
        total += 100 + 7 * n
        session = billed(session, Usage(total, 3, read), ToolCall(f"c{n}", "read"))
        session = record(session, tool_result(f"c{n}", "y" * (40 + n)))
    told = compare_reported(session)
    assert (told.requests, told.elsewhere, told.unseen) == (5, 0, 0)
    assert told.modelled == told.reported > 40_000


def test_what_is_not_the_models_to_know_is_set_aside():
    session = record(Session(), Head(Route("anthropic", "claude-opus-5"), "s" * 8000), user("x"))
    session = billed(session, Usage(9_000, 1, 8_000), time=1_000)  # another session had it
    session = billed(record(session, user("y")), Usage(9_100, 1, 9_000), time=60_000)
    session = billed(record(session, user("z")), Usage(9_200, 1, 0, 9_000), time=70_000)  # unseen
    session = billed(record(session, user("a")), None, time=71_000)  # no report
    session = billed(record(session, user("b")), Usage(0, 0), outcome="failed", time=72_000)
    session = billed(session, Usage(9_400, 1, 9_300), time=80_000)
    told = compare_reported(session)
    assert (told.requests, told.elsewhere, told.unseen) == (2, 8_000, 1)
    assert told.reported == 18_300
    assert abs(told.modelled - told.reported) < 100
    # What expired is no surprise, and a clock that goes back is none.
    later = billed(record(session, user("c")), Usage(9_500, 1, 0, 9_500), time=10**7)
    assert compare_reported(later).unseen == 1
    assert compare_reported(later).requests == 3
    back = billed(record(session, user("c")), Usage(9_500, 1, 9_400), time=5)
    assert compare_reported(back).requests == 3


def test_a_report_below_the_estimate_weighs_nothing_negative():
    session = record(Session(), user("x" * 40_000))
    session = billed(session, Usage(12_000, 1))
    session = billed(record(session, user("y" * 400)), Usage(11_000, 1, 10_900))
    told = compare_reported(session)
    assert told.requests == 1
    assert told.modelled == 12_000


@pytest.mark.parametrize("session", [Session(), record(Session(), user("a"), Sent())])
def test_nothing_reported_is_nothing_compared(session):
    assert compare_reported(session) == Reported(0, 0, 0, 0, 0)


def test_the_cache_is_named():
    with pytest.raises(InvalidArgument, match="there is no cache"):
        compare_reported(Session(), "nope")


def test_the_command_says_it(tmp_path, capsys):
    def said(*options):
        assert main(["replay", str(file), *options]) == 0
        return " ".join(capsys.readouterr().out.split())

    session = record(Session(), Head(Route("anthropic", "claude-opus-5")), user("x" * 4000))
    session = billed(session, Usage(9_000, 1, 500))
    session = billed(record(session, user("y")), Usage(9_100, 1, 9_000))
    session = billed(record(session, user("z")), Usage(9_200, 1, 0))
    file = tmp_path / "s.jsonl"
    file.write_bytes(encode(session))
    text = said("--cache", "anthropic")
    assert "Of its 1 own request the file reports 9,000 cached tokens" in text
    assert "the model gives 9,000 (1.000). 500 more were cached by another session." in text
    assert "1 request read nothing at all: something unseen changed." in text
    assert json.loads(said("--cache", "anthropic", "--json"))["reported"] == {
        "requests": 1,
        "reported": 9_000,
        "modelled": 9_000,
        "elsewhere": 500,
        "unseen": 1,
    }
    assert "reported" not in json.loads(said("--json"))
    # Without reports there is no sentence, and nothing is divided by what nobody read.
    bare = record(Session(), user("a"), Sent(), Reply("completed", assistant("b"), Usage(5, 1)))
    more = billed(record(bare, user("c")), Usage(9, 1))
    for session, words in ((bare, False), (more, True)):
        file.write_bytes(encode(session))
        assert ("the model gives 0." in said("--cache", "anthropic")) == words


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared/sessions, absent here")
@pytest.mark.parametrize(
    ("pattern", "requests", "unseen"),
    [
        ("claude-code/*1af7fc5e*", 6, 0),
        ("claude-code/*5c0375b4*", 9, 0),
        ("claude-code/*fe5e1c67*", 8, 0),
        ("claude-code/*cc_real_world*", 1, 0),
        ("pi/*large-session*", 404, 34),
    ],
)
def test_the_anthropic_model_agrees_with_real_reports(pattern, requests, unseen):
    (path,) = SHARED.glob(pattern)
    told = compare_reported(load(path).session)
    assert (told.requests, told.unseen) == (requests, unseen)
    assert abs(told.modelled - told.reported) <= told.reported // 200  # half a per cent
