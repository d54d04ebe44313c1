"""The ledger: what stages saved, against the same rule written out plainly."""

from __future__ import annotations

import pytest
from hypothesis import given

from ctxalgebra import (
    Answer,
    Ask,
    Cut,
    Drop,
    Head,
    InvalidArgument,
    Replace,
    Sent,
    Session,
    Strip,
    Tally,
    ToolCall,
    account,
    assistant,
    at_leaf,
    chars4,
    mechanism,
    record,
    reply,
    savings,
    send,
    stake,
    tool_result,
    travel,
    user,
    walk,
)
from ctxalgebra.laws.strategies import journals
from ctxalgebra.model.session import Fold, fold

BIG = "x" * 4000
SMALL = "x" * 400


def exchange(session: Session, number: int, text: str = BIG) -> Session:
    """Record one reading of a file; its result has the last number."""
    call = ToolCall(f"c{number}", "read")
    return record(session, assistant(call), tool_result(f"c{number}", text))


def sent(session: Session) -> Session:
    return send(session)[0]


def plainly(session: Session) -> dict[str, list[int]]:
    """Count first, later and rebilled tokens per mechanism with lists, from the walked views."""
    before = Session().view
    live: list[dict[str, object]] = []
    known: dict[str, list[int]] = {}
    for node, view in walk(session):
        entry = node.entry
        if isinstance(entry, Replace | Drop):
            first = entry.target if isinstance(entry, Replace) else entry.first
            last = entry.target if isinstance(entry, Replace) else entry.last
            start, stop = before.slot(first), before.slot(last) + 1
            numbers = before.slots.numbers[start:stop]
            gone = [item for item in live if item["first"] in numbers]
            live = [item for item in live if item["first"] not in numbers]
            tokens = sum(map(chars4, before.slots.messages[start:stop]))
            if isinstance(entry, Replace):
                tokens -= chars4(view.slots.messages[view.slot(first)])
            tokens += sum(item["tokens"] for item in gone)
            early = isinstance(entry, Replace) and start >= before.fixed
            item = {"by": node.number, "who": mechanism(entry), "first": first, "last": last}
            live.append({**item, "tokens": tokens, "early": early})
        elif isinstance(entry, Cut):
            live = [item for item in live if item["last"] > entry.through]
        elif isinstance(entry, Sent):
            for item in live:
                tally = known.setdefault(item["who"], [0, 0])
                tally[0 if item["early"] else 1] += item["tokens"]
                item["early"] = False
        before = view
    return {who: tally for who, tally in known.items() if any(tally)}


@given(journals())
def test_the_ledger_counts_what_a_plain_walk_counts(session):
    told = savings(session)
    plain = plainly(session)
    assert {
        who: [t.first, t.later] for who, t in told.mechanisms.items() if t.first or t.later
    } == plain
    whole = sum((tally for _, tally in told.turns), Tally())
    assert whole == told.total
    by_decision = sum((w.tally.first + w.tally.later for w in told.decisions), 0)
    assert by_decision == sum(map(sum, plain.values()))
    assert all(w.requests > 0 or w.tally.first == w.tally.later == 0 for w in told.decisions)


@given(journals())
def test_what_breaks_cost_is_told_once_and_never_more_than_the_account_says(session):
    told = savings(session).total.rebilled
    assert 0 <= told <= account(session).rebilled


def test_a_result_that_was_made_smaller_before_it_was_sent():
    session = exchange(record(Session(), user("go")), 1)
    session = record(session, Replace(2, tool_result("c1", SMALL), "limit: too long"))
    assert savings(session).mechanisms == {}  # nothing is saved before something is sent
    session = reply(sent(session), "completed", assistant("ok"))
    session = sent(record(session, user("on")))
    told = savings(session)
    assert told.mechanisms == {"limit": Tally(first=900, later=900)}
    assert told.total.net() == 900 * 100 + 900 * 10
    assert told.total.break_even() == 0
    assert told.turns == ((0, Tally(first=900)), (6, Tally(later=900)))
    (decision,) = told.decisions
    assert (decision.number, decision.tokens, decision.expected, decision.requests) == (
        3,
        900,
        0,
        2,
    )


def test_a_result_that_went_after_it_was_read_has_a_price():
    session = exchange(sent_once(record(Session(), user("go"))), 1)
    session = sent_once(session, ToolCall("c2", "read"))
    session = record(session, tool_result("c2", SMALL))
    session = record(session, Replace(4, tool_result("c1", "."), "tag: read", breaks=True))
    session = reply(sent(session), "completed", assistant("ok"))
    told = savings(session)
    # What came behind it is new anyway: only the stub itself is written anew.
    assert told.mechanisms == {"tag": Tally(later=999, rebilled=1)}
    session = sent(record(session, user("on")))
    assert savings(session).mechanisms == {"tag": Tally(later=1998, rebilled=1)}


def sent_once(session: Session, *parts: object) -> Session:
    return reply(sent(session), "completed", assistant(*(parts or ("ok",))))


def test_the_break_belongs_to_the_decision_that_stands_first():
    session = exchange(record(Session(), user("go")), 1)
    session = exchange(session, 2)
    session = sent_once(exchange(session, 3, SMALL))
    for number, call in ((4, "c2"), (2, "c1")):
        gone = Replace(number, tool_result(call, "."), f"m{number}: read", breaks=True)
        session = record(session, gone)
    session = sent(session)
    told = savings(session)
    assert told.mechanisms["m2"].rebilled > 0
    assert told.mechanisms["m4"].rebilled == 0
    first = {w.mechanism: w.expected for w in told.decisions}
    owed = told.mechanisms["m2"].rebilled * 90 - 999 * 10
    assert first == {"m2": max(0, -(-owed // 9990)), "m4": 0}


def test_a_change_of_the_head_and_a_cut_are_nobodys_savings():
    session = sent_once(exchange(record(Session(), Head(system="a"), user("go")), 1))
    session = record(session, Head(system="b"), user("more"))
    session = record(session, Replace(3, tool_result("c1", "."), "tag: read", breaks=True))
    session = sent_once(session)
    assert savings(session).mechanisms == {"tag": Tally(later=999)}
    session = sent(record(session, Cut(3, user("..."), "over", breaks=True), user("on")))
    # From the cut on, what it took would not have been sent anyway.
    assert savings(session).mechanisms == {"tag": Tally(later=999)}


def test_a_second_replacement_counts_from_the_first_form_on():
    session = exchange(record(Session(), user("go")), 1)
    session = record(session, Replace(2, tool_result("c1", SMALL), "limit: long"))
    session = record(session, Replace(2, tool_result("c1", "."), "digest: longer"))
    session = sent(session)
    assert savings(session).mechanisms == {"digest": Tally(first=999)}


def test_a_drop_takes_over_what_was_replaced_in_it():
    session = exchange(record(Session(), user("go")), 1)
    session = record(session, Replace(2, tool_result("c1", SMALL), "limit: long"))
    session = sent_once(session, ToolCall("c2", "read"))
    session = record(session, tool_result("c2", SMALL), Drop(1, 2, "huge, read", breaks=True))
    session = sent(session)
    call = chars4(assistant(ToolCall("c1", "read")))
    told = savings(session)
    assert told.mechanisms["limit"] == Tally(first=900)
    assert told.mechanisms["drop"].later == 1000 + call


def test_what_was_asked_is_paid_by_who_asked():
    session = exchange(record(Session(), user("go")), 1)
    for key, topic in (("a", "digest"), ("b", "save"), ("c", "digest")):
        session = record(session, Ask(key, topic, "q" * 400))
    session = record(session, Answer(3, "answered", "d" * 40), Answer(4, "answered", "/a"))
    session = record(session, Answer(5, "expired"))
    assert savings(session).mechanisms == {"digest": Tally(asked=210)}
    session = record(session, Replace(2, tool_result("c1", "d" * 40), "digest: long"))
    assert savings(session).mechanisms == {"digest": Tally(asked=210)}
    again = record(session, Replace(2, tool_result("c1", "d"), "digest: long"))
    told = savings(sent(again))
    assert told.mechanisms == {"digest": Tally(first=999, asked=210)}
    assert told.decisions[0].tally == Tally(first=999, asked=210)
    assert told.decisions[0].expected == 0
    dear = Replace(2, tool_result("c1", "x" * 3996), "digest: long")
    (decision,) = savings(sent(record(session, dear))).decisions
    assert decision.expected == (210 * 100 - 100 + 9) // 10
    same = Replace(2, tool_result("c1", "y" * 4000), "digest: long")
    (decision,) = savings(sent(record(session, same))).decisions
    assert decision.expected is None


def test_it_lives_in_the_journal_and_on_the_path():
    start = record(Session(), user("go"))
    session = exchange(start, 1)
    session = sent(record(session, Replace(2, tool_result("c1", "."), "limit: long")))
    session = reply(session, "completed", assistant("ok"))
    assert savings(at_leaf(session, 0)).mechanisms == {}
    assert savings(Session()).mechanisms == {}
    away = record(travel(session, 0), user("elsewhere"))
    assert savings(away).total == Tally()
    assert savings(travel(away, 5)).mechanisms == savings(session).mechanisms


@pytest.mark.parametrize(
    ("tally", "net", "even"),
    [
        (Tally(), 0, 0),
        (Tally(first=10), 1000, 0),
        (Tally(later=100, rebilled=10), 100, 10 * 100 // 110 + 1),
        (Tally(later=10, rebilled=100), -8900, 91),
        (Tally(asked=5), -500, None),
        (Tally(later=1, asked=5), -490, None),
    ],
)
def test_net_and_break_even(tally, net, even):
    assert (tally.net(), tally.break_even()) == (net, even)
    if even:
        assert tally.net(cached=even) >= 0 > tally.net(cached=even - 1)


def test_a_stake_grows_with_what_was_spent_and_saved():
    session = record(Session(), Head(system="s" * 400), user("x" * 400))
    assert stake(session, regret=1) == 200 * 125
    session = sent_once(session)
    assert stake(session, regret=1) == 200 * 125 + 200 * 10 + 1 * 125
    asked = record(session, Ask("a", "tag", "q" * 400))
    assert stake(asked, regret=1) == stake(session, regret=1) - 100 * 100
    assert stake(asked, regret=1, aux=0) == stake(session, regret=1)
    answered = record(asked, Answer(len(asked) - 1, "answered", "yes!"))
    assert stake(answered, regret=1) == stake(session, regret=1) - 101 * 100
    saved = record(Session(), Ask("a", "save", "q" * 400), user("x" * 4))
    assert stake(saved, regret=1) == 125


def test_mechanisms_are_named_by_the_word_in_front_of_the_colon():
    reasons = {"limit: x": "limit", "two words: x": "strip", "x": "strip", "a:b": "strip"}
    assert {why: mechanism(Strip(why)) for why in reasons} == reasons


def test_arguments_are_checked():
    for call in (
        lambda: savings(5),
        lambda: savings(Session(), measure=[]),
        lambda: savings(Session(), measure=5),
        lambda: stake(5),
        lambda: stake(Session(), regret=0),
        lambda: stake(Session(), aux="x"),
        lambda: Tally().net(cached="x"),
        lambda: Tally().break_even(fresh=None),
        lambda: mechanism(5),
    ):
        with pytest.raises(InvalidArgument):
            call()


def test_one_more_request_costs_no_walk_of_the_journal():
    session = record(Session(), user("go"))
    for number in range(300):
        session = exchange(session, number, "x")
        session = sent_once(session)
        session = record(session, user("on"))
    savings(session)
    ((what, _),) = [(f, v) for f, v in session.folds.items() if f.name == "savings"]
    steps = 0

    def counted(value, node, view):
        nonlocal steps
        steps += 1
        return what.step(value, node, view)

    watched = Fold("watched", what.init, counted, reads=what.reads)
    fold(session, watched)
    steps = 0
    session = sent(session)
    fold(session, watched)
    assert steps == 1
