"""What the original's selector does wrong, and that `select` does not: one test for each fault.

The sessions are built like those by which the faults were shown; the compatibility profile, on the
same messages, still has them.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest

from ctxalgebra import (
    CtxError,
    Cut,
    Head,
    Replace,
    Session,
    ToolCall,
    account,
    assistant,
    breaks,
    estimate,
    log,
    pipeline,
    pressure,
    project,
    prune_suffix,
    record,
    repair,
    reply,
    requests,
    select,
    send,
    tool_result,
    user,
)
from ctxalgebra.codecs import decode_messages
from ctxalgebra.compat.paging_keys import RawItem
from ctxalgebra.compat.paging_limits import SelectionError
from ctxalgebra.compat.paging_select import select_context


def of(size, tag="x"):
    return tag * (size * 4)


def asked(session, *entries, parts=("ok",)):
    """Record messages, send them, and record the model's reply."""
    session, _ = send(record(session, *entries))
    return reply(session, "completed", assistant(*parts))


def cuts(session):
    return [node.entry for node in log(session) if type(node.entry) is Cut]


# The same messages as the host has them


def host_user(text, at):
    return {"role": "user", "content": text, "timestamp": at}


def host_calls(ids, at):
    content = [{"type": "toolCall", "id": i, "name": "read", "arguments": {}} for i in ids]
    return {"role": "assistant", "content": content, "timestamp": at}


def host_says(text, at):
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": at}


def host_result(call, text, at):
    content = [{"type": "text", "text": text}]
    return {"role": "toolResult", "toolCallId": call, "content": content, "timestamp": at}


def items(messages):
    found = []
    for message in messages:
        if message["role"] == "toolResult":
            found[-1] = found[-1]._replace(results=(*found[-1].results, message))
        elif message["role"] in ("user", "assistant"):
            found.append(RawItem(str(message["timestamp"]), message))
    return found


def original(messages, budget, **more):
    more.setdefault("raw_history", items(messages))
    return select_context(messages, token_budget=budget, **more)


def test_w1_steering_evicts_no_result_that_nobody_read():
    steered = [
        host_user("do it", 1), host_calls(["c1"], 2), host_result("c1", of(600), 3),
        host_user("also check tests", 4),
    ]  # fmt: skip
    assert [m["role"] for m in original(steered, 500).messages] == ["user", "user"]

    session = asked(Session(), user("do it"), parts=(ToolCall("c1", "read"),))
    session = record(session, tool_result("c1", of(600)), user("also check tests"))
    kept = select(session, budget=500, window=2000)
    assert kept is session
    assert project(kept).messages[2] == tool_result("c1", of(600))
    told = pressure(kept, budget=500, window=2000)
    assert (told.fits, told.cuttable) == (False, False)
    # Who wants to keep the budget shows a stub before anything is sent; that breaks nothing.
    settle = pipeline(
        partial(prune_suffix, stub_over=400, drop_over=400),
        partial(select, budget=500, window=2000),
    )
    fits, request = send(settle(session))
    assert estimate(fits) <= 500
    assert [m.role for m in request.messages] == ["user", "assistant", "tool", "user"]
    assert breaks(fits) == ()


def test_w2_any_message_may_come_into_the_active_turn():
    with pytest.raises(SelectionError):
        original(
            [host_user("go", 1), {"role": "bashExecution", "command": "ls", "output": ""}], 10**5
        )
    written = (
        b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}\n'
        b'{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z",'
        b'"message":{"role":"user","content":"go","timestamp":1}}\n'
        b'{"type":"message","id":"b","parentId":"a","timestamp":"2026-01-01T00:00:00.000Z",'
        b'"message":{"role":"bashExecution","command":"ls","output":"x","exitCode":0,"timestamp":2}}\n'
    )
    from ctxalgebra.codecs import pi

    session = pi.decode(written).session
    assert select(session, budget=10**5) is session
    assert [m.role for m in project(session).messages] == ["user", "user"]
    system = record(session, decode_messages([{"role": "system", "content": "s"}])[0])
    assert select(system, budget=10**5) is system


def test_w3_an_edited_message_that_left_ends_no_cut():
    session = Session()
    for n in range(3):
        session = asked(session, user(f"q{n}"), parts=(of(190),))
    edited = record(session, Replace(2, assistant(of(170, "e")), "edited", breaks=True))
    requests_made = []
    for n in range(8):
        edited = select(record(edited, user(f"grow {n}" + of(20))), budget=600)
        edited, request = send(edited)
        requests_made.append(request)
        edited = reply(edited, "completed", assistant(f"ans {n}" + of(60)))
    assert [b.why for b in breaks(edited)] == ["edited", *["over 600 tokens"] * len(cuts(edited))]
    assert len(cuts(edited)) == 2
    again = sum(not b.extends(a) for a, b in pairwise(requests_made))
    assert again == 2


def test_w6_a_small_result_beside_a_huge_one_stays_as_it_is():
    messages = [
        host_user("live", 1), host_calls(["l1", "l2"], 2), host_result("l1", of(700), 3),
        host_result("l2", "ok", 4),
    ]  # fmt: skip
    recovered = original(messages, 500, model_context_window=600)
    assert recovered.mode == "recovery"
    assert len(recovered.messages[-1]["content"][0]["text"]) > len("ok")

    calls = (ToolCall("l1", "read"), ToolCall("l2", "read"))
    session = asked(Session(), user("live"), parts=calls)
    session = record(session, tool_result("l1", of(700)), tool_result("l2", "ok"))
    pruned = prune_suffix(session, stub_over=400, drop_over=400)
    assert project(pruned).messages[-1] == tool_result("l2", "ok")
    assert estimate(pruned) < 100


def test_w9_what_was_injected_keeps_its_place_over_a_cut():
    messages = [
        host_user(of(400), 1), host_says("a", 2), host_user("live", 3), host_says("A1", 4),
        host_user("OUT", 0), host_says("A2", 5),
    ]  # fmt: skip
    moved = original(messages, 300, outgoing_only=[n == 4 for n in range(6)])
    assert [placed.at for placed in moved.placed] == [-1, 2, 3, 5, 4]

    session = record(Session(), user(of(400)), assistant("a"), user("live"), assistant("A1"))
    session = asked(session, user("OUT"), parts=("A2",))
    cut = select(session, budget=300)
    assert project(cut).messages[1:] == (
        user("live"), assistant("A1"), user("OUT"), assistant("A2"),
    )  # fmt: skip
    first, before = send(record(cut, user("next")))
    _, after = send(record(reply(first, "completed", assistant("A3")), user("more")))
    assert after.extends(before)


def test_w11_an_entry_that_is_refused_brings_no_history_back():
    messages = [host_user(of(200), 1), host_says("a", 2), host_user("live", 3)]
    first = original(messages, 150)
    assert len(original(messages, 250, cut=first.cut, raw_history=None).messages) == 3

    session = asked(asked(Session(), user(of(200))), user("short"))
    session = select(record(session, user("live")), budget=150)
    assert len(cuts(session)) == 1
    shown = project(session)
    with pytest.raises(CtxError, match="orphan-result"):
        record(session, tool_result("nobody", "asked"))
    assert project(session) == shown
    assert select(session, budget=250) is session


def test_w12_a_failed_reply_keeps_the_cut_and_the_retry_is_the_same_request():
    session = asked(asked(Session(), user(of(200))), user("short"))
    session = select(record(session, user("live")), budget=150)
    assert len(cuts(session)) == 1
    failed, before = send(session)
    retried, after = send(select(reply(failed, "failed", assistant("half")), budget=150))
    assert (after, len(cuts(retried))) == (before, 1)


def test_w14_a_reserve_keeps_room_for_the_reply():
    messages = [host_user("live", 1), host_calls(["l1"], 2), host_result("l1", of(700), 3)]
    tokens = original(messages, 500, model_context_window=2000).estimate
    full = original(messages, 500, model_context_window=tokens)
    assert full.estimate == tokens

    session = Session()
    for n in range(8):
        session = asked(session, user(f"q{n}"), parts=(of(100),))
    session = record(session, user("now"))
    assert 800 < estimate(session) < 900
    assert select(session, budget=10**6, window=900) is session
    left = select(session, budget=10**6, window=900, reserve=200)
    assert estimate(left) <= 700
    assert pressure(left, budget=10**6, window=900, reserve=200).limit == 700


def test_w20_one_oddity_refuses_one_entry_and_no_session():
    odd = [
        {**host_calls(["dup", "dup"], 1), "stopReason": "aborted"}, host_user("go on", 2),
    ]  # fmt: skip
    with pytest.raises(SelectionError):
        original(odd, 10**5)
    session, _ = send(record(Session(), user("go")))
    twice = assistant(ToolCall("dup", "x"), ToolCall("dup", "x"))
    with pytest.raises(CtxError, match="duplicate-call"):
        reply(session, "aborted", twice)
    session = record(reply(session, "aborted"), user("go on"))
    assert select(session, budget=10**5) is session
    mended = repair(
        (user("hi"), assistant(ToolCall("c1", "read")), assistant("done"), user("next"))
    )
    session = record(Session(), *mended.messages)
    assert select(session, budget=10**5) is session
    assert [m.role for m in project(session).messages] == [
        "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip


def room(target=None, size=240, turns="ABC"):
    """Three turns of 243 tokens behind 501 that always stand there, as the fault was shown."""
    session = record(Session(), Head(system=of(500)))
    for name in turns:
        session = asked(session, user(f"{name} request"), parts=(of(size),))
    session = asked(session, user("read it?"), parts=("yes",))
    return select(record(session, user("LIVE")), budget=1000, target=target)


def test_w31_the_target_knows_what_always_stays():
    messages = [host_user("A request", 1), host_says(of(240), 2), host_user("B request", 3)]
    messages += [host_says(of(240), 4), host_user("C request", 5), host_says(of(240), 6)]
    messages.append(host_user("LIVE", 7))
    wiped = original(messages, 1000, system_prompt=of(500))
    assert len(wiped.messages) == 2

    live = (user("read it?"), assistant("yes"), user("LIVE"))
    assert project(room()).messages[1:] == (user("C request"), assistant(of(240)), *live)
    # A target that was said is kept to, but one below what always stays is no wish to wipe.
    assert project(room(target=600)).messages[1:] == live
    kept = project(room(target=300, size=110, turns="ABCDEF")).messages
    assert kept[1:] == (user("F request"), assistant(of(110)), *live)


def test_p1_what_a_request_costs_does_not_grow_with_the_session():
    """Counted where the stage measures: messages, not milliseconds."""
    counted = []

    def measure(value):
        counted.append(value)
        return -(-value.characters // 4)

    settle = partial(select, budget=2000, measure=measure)
    session, seen = Session(), []
    for n in range(400):
        before = len(counted)
        session, _ = send(settle(record(session, user(f"q{n}"))))
        session = reply(session, "completed", assistant(of(60)))
        seen.append(len(counted) - before)
    assert sum(seen[300:]) <= 1.2 * sum(seen[100:200])
    assert account(session).requests == 400
    assert len(requests(session)[-1].messages) < 70


def test_w31_a_cold_cache_cuts_nothing_that_the_raised_target_keeps():
    session = record(Session(), Head(system=of(500)))
    for name in "AB":
        session = asked(session, user(f"{name} request"), parts=(of(120),))
    session = record(asked(session, user("read it?"), parts=("yes",)), user("LIVE"))
    assert 625 < estimate(session) < 800
    assert select(session, budget=1000, cache="cold") is session
    assert len(cuts(select(session, budget=1000, target=620, cache="cold"))) == 1
