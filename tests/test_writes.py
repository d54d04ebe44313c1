"""Facts of writes: what a call shows of what it wrote, from the first request on."""

from __future__ import annotations

import json
import pickle
import sys
import time
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Answer,
    Ask,
    Head,
    Image,
    InvalidArgument,
    Opaque,
    Replace,
    Reply,
    Route,
    Sent,
    Session,
    Text,
    Thinking,
    ToolCall,
    abandon,
    account,
    assistant,
    at_leaf,
    breaks,
    drive,
    explain,
    limit_output,
    log,
    pending,
    pipeline,
    project,
    record,
    reply,
    requests,
    select,
    send,
    system,
    tool_result,
    user,
    write_facts,
)
from ctxalgebra.laws import check, growing, playing
from ctxalgebra.replay import Plan, replay
from ctxalgebra.transforms.arguments import members, rewritten, text_member, texts_in

SOURCE = '"""Reads models."""\n' + "".join(f"line_{n} = {n}\n" for n in range(60))
BOTH = partial(write_facts, model=True)


def wrote(content=SOURCE, path="src/model.py", **members):
    return json.dumps({"path": path, "content": content, **members})


def write(arguments=None, id="c", name="write", signature=""):
    return ToolCall(id, name, wrote() if arguments is None else arguments, signature)


def came(*parts, results=None, head=None):
    """A session whose last exchange no request has shown."""
    message = assistant(*parts)
    session = Session() if head is None else record(Session(), head)
    session = record(session, user("go"), Sent(), Reply("completed", message))
    results = results or [tool_result(call.id, "ok") for call in message.calls]
    return record(session, *results)


def called(session):
    """What the last calls show."""
    return [call.arguments for m in project(session).messages for call in m.calls]


def facts(session):
    """What the results show behind what they said."""
    return [m.parts[-1].text for m in project(session).messages if len(m.parts) > 1 and m.call]


def left_out(arguments):
    return json.loads(arguments)["content"].startswith("[left out: ")


# What is replaced


def test_the_content_is_left_out_and_the_fact_stands_in_its_own_result():
    session = came("Writing.", write())
    after = write_facts(session)
    mark = f"[left out: {len(SOURCE)} characters, 62 lines; read the file for what it holds now]"
    assert called(after) == [wrote(mark)]
    assert project(after).messages[-1].parts == (
        Text("ok"),
        Text("[Wrote src/model.py — Reads models., ~62 lines]"),
    )
    assert [m.role for m in project(after).messages] == ["user", "assistant", "tool"]
    assert write_facts(after) is after
    assert (
        explain(after, 2).why
        == f"fact: {len(called(session)[0]) - len(called(after)[0]) - 47} characters of writes"
    )
    assert explain(after, 3).why == "fact: of what was written"


def test_it_stays_left_out_in_every_later_request():
    """W1: what was stripped in one request came back in the next."""
    session = came(write())
    for n in range(4):
        session, _ = send(write_facts(session))
        session = reply(session, "completed", assistant(write(id=f"d{n}")))
        session = record(session, tool_result(f"d{n}", "ok"))
    session, _ = send(write_facts(session))
    found = requests(session)
    assert all(later.extends(now) for now, later in pairwise(found))
    assert all(map(left_out, called(session)))
    assert breaks(session) == ()


def test_facts_add_neither_messages_nor_requests():
    """W6: a fact was a message of the user, delivered one a turn."""
    session = came(*[write(wrote(path=f"{n}.py"), id=f"c{n}") for n in range(3)])
    after = write_facts(session)
    assert len(project(after).messages) == len(project(session).messages)
    assert facts(after) == [f"[Wrote {n}.py — Reads models., ~62 lines]" for n in range(3)]


@pytest.mark.parametrize(
    "arguments",
    [
        '{ "content" :\t%s ,\n "path":"a.py" , "mode": 1.50 }',
        '{"mode":[{"content":"kept"},[]],"path":"a.py","content":%s}',
        '{"\\u0063ontent":%s,"path":"a.py","n":10000000000000000000000,"e":1e5}',
        '{"content":%s,"file_path":"a.py","path":7,"deep":[[[{"x":{"content":"y"}}]]]}',
    ],
)
def test_all_other_bytes_of_the_arguments_stay(arguments):
    call = write(arguments % json.dumps(SOURCE))
    (after,) = called(write_facts(came(call)))
    mark = json.dumps(
        f"[left out: {len(SOURCE)} characters, 62 lines; read the file for what it holds now]"
    )
    assert after == arguments % mark
    assert facts(write_facts(came(call))) == ["[Wrote a.py — Reads models., ~62 lines]"]


OLD, NEW = "old line\n" * 40, "new line\n" * 50
LEFT = (
    "[left out: 360 characters, 41 lines that this edit replaced]",
    "[left out: 450 characters, 51 lines; read the file for what it holds now]",
)


@pytest.mark.parametrize(
    ("arguments", "edits"),
    [
        ({"path": "a", "oldText": OLD, "newText": NEW}, "1 edit"),
        ({"file_path": "a", "old_string": OLD, "new_string": NEW, "replace_all": True}, "1 edit"),
        ({"path": "a", "edits": [{"oldText": OLD, "newText": NEW}]}, "1 edit"),
        (
            {"path": "a", "edits": [{"oldText": OLD, "newText": NEW, "n": 1}, {"newText": "x"}]},
            "2 edits",
        ),
        ({"path": "a", "edits": [{"oldText": OLD + NEW}]}, "1 edit"),
    ],
)
def test_edits_are_covered_like_writes(arguments, edits):
    session = write_facts(came(write(json.dumps(arguments), name="edit")))
    (after,) = called(session)
    told = json.dumps(arguments)
    both = "[left out: 810 characters, 91 lines that this edit replaced]"
    for text, left in ((OLD, LEFT[0]), (NEW, LEFT[1]), (OLD + NEW, both)):
        told = told.replace(json.dumps(text), json.dumps(left))
    assert json.loads(after) == json.loads(told)
    assert facts(session)[0].startswith(f"[Edited a — {edits}, ")


def test_short_texts_of_an_edit_stay():
    edits = [{"oldText": "a", "newText": NEW}, {"oldText": "b", "newText": "c"}]
    (after,) = called(
        write_facts(came(write(json.dumps({"path": "a", "edits": edits}), name="edit")))
    )
    edits[0]["newText"] = LEFT[1]
    assert json.loads(after)["edits"] == edits


# What is left as it is


@pytest.mark.parametrize(
    "call",
    [
        write(wrote("x" * 399)),
        write(wrote("x" * 9_000, path="")),
        write(wrote("x" * 9_000, path=7)),
        write(json.dumps({"content": "x" * 9_000})),
        write(json.dumps({"path": "a", "text": "x" * 9_000})),
        write(json.dumps({"path": "a", "content": ["x" * 9_000]})),
        write(json.dumps([{"path": "a", "content": "x" * 9_000}])),
        write(json.dumps("x" * 9_000)),
        write("x" * 9_000),
        write('{"path":"a","content":"' + "x" * 9_000),
        write('{"path":"a","n":NaN,"content":"' + "x" * 9_000 + '"}'),
        write('{"path":"a","n":"\\ud800","content":"' + "x" * 9_000 + '"}'),
        write('{"path":"a","content":"' + "\\ud800x" * 900 + '"}'),
        write('{"path":"a","n":' + "9" * 9_000 + ',"content":"' + "x" * 900 + '"}'),
        write('{"path":"a","content":"' + "x" * 900 + '","n":' + "[" * 40 + "]" * 40 + "}"),
        write('{"path":"a","n":' + "[" * 200_000),
        write('{"path":"a","n":' + '{"n":' * 100_000 + "1" + "}" * 100_000 + "}"),
        write(wrote("x" * 9_000), name="save"),
        write(signature="g"),
        write(wrote("x" * 500, path="p" * 500)),
    ],
    ids=range(20),
)
def test_calls_that_pass(call):
    session = came(call)
    assert write_facts(session) is session
    assert BOTH(session) is session or call.arguments == wrote("x" * 500, path="p" * 500)


def test_a_write_that_failed_stays_and_says_nothing():
    call = (write(id="a"), write(id="b"), write(id="c"))
    results = [
        tool_result("a", "disk full", error=True),
        tool_result("b", "ok"),
        tool_result("c", "denied", error=True),
    ]
    after = write_facts(came(*call, results=results))
    assert [left_out(arguments) for arguments in called(after)] == [False, True, False]
    assert facts(after) == ["[Wrote src/model.py — Reads models., ~62 lines]"]
    session = came(write(), results=[tool_result("c", "disk full", error=True)])
    assert write_facts(session) is session
    killed = record(Session(), assistant(write()))
    killed = abandon(killed, "c", "the tool was killed")
    assert write_facts(killed) is killed


def test_nothing_is_decided_before_all_results_are_there():
    session = record(Session(), user("go"), assistant(write(id="a"), write(id="b")))
    session = record(session, tool_result("b", "ok"))
    assert write_facts(session) is session
    session = record(session, user("steering"), tool_result("a", "ok"))
    assert len(facts(write_facts(session))) == 2


@pytest.mark.parametrize("outcome", ["failed", "aborted", "lost"])
def test_what_was_sent_once_stays_whole(outcome):
    flying, _ = send(came(write()))
    assert write_facts(flying) is flying
    session = reply(flying, outcome)
    assert write_facts(session) is session
    session = record(session, assistant("plain"), user("next"))
    assert write_facts(session) is session


def test_a_mark_is_not_marked_again():
    stage = partial(write_facts, over=1)
    after = stage(came(write()))
    assert stage(after) is after
    session = came(*[write(wrote("x" * 90), id=f"c{n}") for n in range(2)])
    assert stage(session) is session, "call and fact would be no shorter"


def test_other_parts_stay():
    image = Image("aGk=", "image/png")
    session = came(
        "one", write(id="a"), Opaque("server_tool", "{}"), image, write(id="b"), "two",
        results=[tool_result("a", (image,)), tool_result("b", (Opaque("x", "{}"),))],
    )  # fmt: skip
    message, *results = project(write_facts(session)).messages[1:]
    assert [type(part) for part in message.parts] == [Text, ToolCall, Opaque, Image, ToolCall, Text]
    assert [[type(part) for part in m.parts] for m in results] == [[Image, Text], [Opaque, Text]]


@pytest.mark.parametrize("binding", ["none", "prefix", "leading"])
def test_no_thinking_is_lost(binding):
    head = Head(Route(binding=binding))
    thinking = Thinking("t", "s")
    session = came(thinking, write(id="a"), head=head)
    after = write_facts(session)
    assert left_out(called(after)[0])
    assert project(after).messages[1].parts[0] == thinking
    between = came(thinking, write(id="a"), Thinking("u", "v"), write(id="b"), head=head)
    after = write_facts(between)
    assert list(map(left_out, called(after))) == [False, True]
    assert [p for p in project(after).messages[1].parts if isinstance(p, Thinking)] == [
        thinking,
        Thinking("u", "v"),
    ]


# With a model


def saying(value, outcome="answered"):
    return lambda asks: tuple(Answer(p.number, outcome, value) for p in asks)


def test_the_model_is_asked_for_the_fact():
    asking = BOTH(came(write()))
    assert called(asking) == [wrote()]
    ((number, ask),) = [(p.number, p.ask) for p in pending(asking)]
    question = json.loads(ask.question)
    assert question["longest"] == 32
    assert f"<content>\n{SOURCE}\n</content>" in question["prompt"]
    assert "~62 lines]" in question["prompt"]
    assert (ask.topic, ask.key[:5], ask.deadline) == ("fact", "fact:", 20_000)
    assert BOTH(asking) is asking
    after = BOTH(record(asking, Answer(number, "answered", '"Reads models,\nfast"')))
    assert facts(after) == ["[Wrote src/model.py — Reads models, fast]"]
    assert BOTH(after) is after
    assert write_facts(after) is after


def test_a_long_content_is_asked_about_by_its_beginning():
    (waiting,) = pending(BOTH(came(write(wrote("x" * 9_000)))))
    prompt = json.loads(waiting.ask.question)["prompt"]
    assert "x" * 4_000 + "\n[5000 more characters]\n</content>" in prompt
    assert len(prompt) < 5_000


@pytest.mark.parametrize(
    ("outcome", "value"),
    [("failed", "KeyError"), ("expired", ""), ("answered", " \n"), ("answered", "[Wrote")],
)
def test_without_a_reply_the_fact_is_found_in_the_text(outcome, value):
    session = drive(came(write()), BOTH, saying(value, outcome))
    assert facts(session) == ["[Wrote src/model.py — Reads models., ~62 lines]"]


def test_an_adapter_that_raises_leaves_the_found_fact():
    """W14: the write got neither fact nor strip."""

    def no_credentials(asks):
        raise KeyError("no key")

    session = drive(came(write()), BOTH, no_credentials)
    assert facts(session) == ["[Wrote src/model.py — Reads models., ~62 lines]"]
    assert left_out(called(session)[0])


def test_edits_are_not_asked_about():
    call = write(json.dumps({"path": "a", "oldText": OLD, "newText": NEW}), name="edit")
    session = BOTH(came(call))
    assert pending(session) == ()
    assert facts(session) == ["[Edited a — 1 edit, 51 lines put in]"]


def test_a_message_waits_for_all_its_facts():
    asking = BOTH(came(write(id="a"), write(wrote("y\n" * 400), id="b")))
    first, second = pending(asking)
    session = record(asking, Answer(second.number, "answered", "lines of y"))
    assert BOTH(session) is session
    session = BOTH(record(session, Answer(first.number, "expired")))
    assert facts(session) == [
        "[Wrote src/model.py — Reads models., ~62 lines]",
        "[Wrote src/model.py — lines of y]",
    ]


def test_a_fact_that_comes_too_late_is_recorded_and_never_applied():
    session, request = send(BOTH(came(write())))
    session = reply(session, "completed", assistant("ok"))
    (waiting,) = pending(session)
    late = record(session, Answer(waiting.number, "answered", "late"))
    assert BOTH(late) is late
    assert write_facts(late) is late
    late, second = send(record(late, user("next")))
    assert second.extends(request)
    assert breaks(late) == ()


def test_a_fact_that_is_longer_than_what_it_stands_for_is_not_used():
    session = came(write(wrote("x" * 250)))
    after = drive(session, partial(BOTH, over=10), saying("y" * 300))
    assert called(after) == called(session)
    assert [type(node.entry) for node in log(after)[len(session) :]] == [Ask, Answer]


# Sessions that go on


def test_facts_survive_resume_forks_and_cuts():
    session, _ = send(write_facts(came("Writing.", write())))
    session = reply(session, "completed", assistant("ok"))
    again = pickle.loads(pickle.dumps(session))
    assert project(again) == project(session)
    assert write_facts(again) is again
    branch = record(at_leaf(session, session.leaf.number), user("and"))
    assert facts(branch) == facts(session)
    raw = at_leaf(session, 3)
    assert called(raw) == [wrote()]
    assert facts(write_facts(raw)) == facts(session)


def test_with_other_stages_the_fact_stays():
    settle = pipeline(write_facts, partial(limit_output, tools=("write",), max_bytes=5))
    session = settle(came(write(), results=[tool_result("c", "Successfully wrote it all")]))
    assert settle(session) is session
    settle = pipeline(partial(limit_output, tools=("write",), max_bytes=5), write_facts)
    session = settle(came(write(), results=[tool_result("c", "Successfully wrote it all")]))
    assert settle(session) is session
    assert facts(session) == ["[Wrote src/model.py — Reads models., ~62 lines]"]


def chain():
    """Four turns, each a write of about 1,100 tokens, then a closing reply."""
    session = record(Session(), Head(system="s" * 4_000), user("Write the four modules."))
    for n in range(4):
        source = f'"""Module {n} of the model."""\n' + "".join(
            f"def step_{k}(value):\n    return value + {k * n}\n" for k in range(105)
        )
        session = record(session, Sent(), Reply("completed", assistant(
            f"Module {n}.", write(wrote(source, f"src/module_{n}.py"), id=f"c{n}"))))  # fmt: skip
        session = record(session, tool_result(f"c{n}", f"Successfully wrote {len(source)} bytes"))
    return record(session, Sent(), Reply("completed", assistant("All four are written.")))


def test_a_chain_of_writes_costs_less_than_half_of_doing_nothing():
    recorded = chain()
    plans = [Plan("none", pipeline(), 200_000), Plan("facts", write_facts, 200_000)]
    nothing, kept = [replay(recorded, plan) for plan in plans]
    assert kept.requests == nothing.requests == 5
    assert (kept.silent, kept.breaks, kept.invalid) == (0, (), 0)
    cost = [(run.input - run.cached) * 10 + run.cached for run in (kept, nothing)]
    assert 100 * cost[0] <= 45 * cost[1], cost
    assert 100 * kept.cost <= 45 * nothing.cost, "also where writing to the cache costs 1.25"


# Laws


def hostile(monkeypatch):
    """Let generated sessions write, in all they say, instead of read."""
    texts = ["x" * 30, "y\n" * 99, '"""Doc."""\n' * 20]
    arguments = [
        wrote(texts[1]), wrote(texts[2], path="é"), "not json", wrote(texts[0]),
        json.dumps({"path": "a", "edits": [{"oldText": texts[1], "newText": texts[0]}]}),
        '{"path":"a","content":"' + "\\n" * 200 + '","content":"\\ud83d\\ude00' + "z" * 90 + '"}',
    ]  # fmt: skip

    def writing(message, at):
        parts = [
            ToolCall(p.id, "write", arguments[(at + n) % len(arguments)], p.signature)
            if isinstance(p, ToolCall)
            else p
            for n, p in enumerate(message.parts)
        ]
        return assistant(*parts)

    spoken = tuple(writing(message, at) for at, message in enumerate(growing.SPOKEN))
    monkeypatch.setattr(growing, "SPOKEN", spoken)
    monkeypatch.setattr(playing, "SPOKEN", spoken)


FACTS = partial(write_facts, over=40)


@pytest.mark.parametrize(
    "stage",
    [
        FACTS,
        partial(FACTS, model=True),
        partial(drive, stage=partial(FACTS, model=True), effects=saying("a file of y")),
        pipeline(partial(select, budget=150), FACTS),
        pipeline(FACTS, partial(limit_output, tools=("write",), max_bytes=40)),
    ],
    ids=["found", "asking", "answered", "behind select", "in front of limit"],
)
def test_the_laws_hold_of_sessions_that_write(stage, monkeypatch):
    hostile(monkeypatch)
    decided = []

    def watched(session):
        after = stage(session)
        decided.append(after is not session)
        return after

    check(watched, examples=60)
    assert any(decided)


# Arguments, read and rewritten


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("content", "edits", "a", "\\", '"')), inner, max_size=3)
    ),
    max_leaves=12,
)


def texts_by_hand(value, way=()):
    if isinstance(value, str):
        yield way, value
    elif isinstance(value, list):
        for item in value:
            yield from texts_by_hand(item, (*way, "*"))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from texts_by_hand(item, (*way, name))


@given(
    st.dictionaries(st.text(max_size=3), JSON, max_size=4),
    st.sampled_from((None, 1)),
    st.booleans(),
)
def test_texts_are_found_where_a_parser_finds_them(value, indent, ascii_only):
    arguments = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert members(arguments) == value
    places = texts_in(arguments)
    assert [(place.way, place.text) for place in places] == list(texts_by_hand(value))
    assert rewritten(arguments, [], lambda place: "") == arguments
    again = rewritten(arguments, places, lambda place: place.text)
    assert json.loads(again) == value
    assert rewritten(again, texts_in(again), lambda place: place.text) == again


@given(st.text(st.sampled_from('"\\{}[]:,a1 \ud800n'), max_size=30))
def test_whatever_is_no_object_has_no_members(text):
    try:
        value = json.loads(text, parse_constant=lambda _: 1 / 0)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, ZeroDivisionError):
        value = None
    assert members(text) == (value if isinstance(value, dict) else None)


def test_the_first_member_that_is_a_text_counts():
    arguments = '{"path":7,"file_path":"a","other":"b"}'
    assert text_member(arguments, "path", "file_path") == "a"
    assert text_member(arguments, "path") == text_member("[]", "path") == ""


@pytest.mark.parametrize(
    "unit", ['"\\"', "\\", '"', "[", '{"content":"', '\\"', '"a":"b",', "\\u"], ids=repr
)
def test_hostile_arguments_are_read_in_linear_time(unit):
    """Compared with four times as much, with room for noise."""

    def took(length):
        text = '{"path":"a","content":"' + unit * (length // len(unit))
        call = write(text)
        session = came(call)
        best = 1e9
        for _ in range(3):
            start = time.perf_counter()
            assert write_facts(session) is session
            best = min(best, time.perf_counter() - start)
        return best

    small, large = took(250_000), took(1_000_000)
    assert large < 12 * small + 0.05


# Cost and arguments


def calls_of(stage, session):
    count = 0

    def count_calls(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_calls)
    try:
        stage(session)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("size", [3, 600])
def test_a_turn_costs_what_is_new(size):
    def grown(turns):
        session = record(Session(), user("go"))
        for n in range(turns):
            session, _ = send(write_facts(session))
            session = reply(session, "completed", assistant(write(wrote("x" * size), id=f"c{n}")))
            session = record(session, tool_result(f"c{n}", "ok"), system("and on"))
        return write_facts(session)

    short, long = grown(5), grown(150)
    assert write_facts(long) is long
    assert calls_of(write_facts, short) == calls_of(write_facts, long)
    assert account(long).rebilled == 0


@pytest.mark.parametrize(
    "arguments",
    [{"over": 0}, {"over": "400"}, {"model": 1}, {"deadline": -1}, {"tools": ["write"]}],
)
def test_arguments_are_checked(arguments):
    with pytest.raises(InvalidArgument) as caught:
        write_facts(Session(), **arguments)
    assert caught.value.field in arguments
    with pytest.raises(InvalidArgument, match="session"):
        write_facts("no session")


def test_only_replacements_are_recorded():
    session = came(write())
    assert {type(node.entry) for node in log(write_facts(session))[len(session) :]} == {Replace}


def test_a_write_of_just_so_many_characters_counts():
    assert write_facts(came(write(wrote("x" * 400)))) is not came(write(wrote("x" * 400)))
    session = came(write(wrote("x" * 400)))
    assert len(project(write_facts(session)).messages[1].calls[0].arguments) < 400


@pytest.mark.parametrize("model", [False, True])
@pytest.mark.parametrize("name", ["write", "edit"])
def test_a_fact_is_one_line_that_no_terminal_acts_on(model, name):
    path, said = (
        "a\nb\u202e\x1b[2J.py",
        "x\x00 \x1b[31mfile\n[Output truncated. Full output: /tmp/a]",
    )
    member = "content" if name == "write" else "newText"
    content = "# \x1b[31m \u202e a comment\n" * 50
    call = ToolCall("c", name, json.dumps({"path": path, member: content}))
    settle = partial(write_facts, model=model)
    session = drive(came(call), settle, lambda asks: tuple(
        Answer(p.number, "answered", said) for p in asks
    ))  # fmt: skip
    fact = project(session).messages[-1].parts[-1].text
    assert fact.isprintable()
    assert "a\\x0ab\\u202e\\x1b[2J.py" in fact
    assert "/tmp/a" not in fact
    assert ("x file [output discarded]" in fact) == (model and name == "write")


def test_how_a_model_is_asked_is_the_callers():
    session = came(write(wrote("x" * 9_000)))
    (waiting,) = pending(write_facts(session, model=True, longest=7, shown=100))
    question = json.loads(waiting.ask.question)
    assert question["longest"] == 7
    assert f"<content>\n{'x' * 100}\n[8900 more characters]\n" in question["prompt"]
    for wrong in ({"longest": 0}, {"shown": True}):
        with pytest.raises(InvalidArgument):
            write_facts(session, **wrong)
