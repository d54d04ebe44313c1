"""Limits on tool output: what is cut, where, and when it is too late for it."""

from __future__ import annotations

import json
import pickle
import re
import sys
from functools import partial
from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Answer,
    Ask,
    Cut,
    Image,
    InvalidArgument,
    Opaque,
    RecordedEffects,
    Replace,
    Reply,
    Sent,
    Session,
    Text,
    ToolCall,
    answer_to,
    assistant,
    at_leaf,
    breaks,
    compact_output,
    drive,
    explain,
    limit_output,
    limited,
    log,
    pending,
    pipeline,
    project,
    record,
    reply,
    requests,
    retrieve_output,
    send,
    tool_result,
    travel,
    user,
    working_memory,
)
from ctxalgebra.codecs import journal
from ctxalgebra.transforms.compact import exact
from ctxalgebra.transforms.memory_settings import MemorySettings

IMAGE = Image("aGk=", "image/png")
OPAQUE = Opaque("resource", "{}")
LIMIT = partial(limit_output, max_bytes=100, max_lines=10)
SAVING = partial(LIMIT, save=True)


def came(text, tool="bash", *, error=False):
    """A session with one unsent result."""
    session = record(Session(), user("go"), Sent(), Reply("completed", assistant(call("c", tool))))
    return record(session, tool_result("c", text, error=error))


def call(id, tool="bash"):
    return ToolCall(id, tool, '{"command":"make"}')


def shown(session):
    return [getattr(part, "text", part) for part in project(session).messages[-1].parts]


def texts(message):
    return [part.text for part in message.parts if isinstance(part, Text)]


def replaced(session):
    return [node.entry for node in log(session) if isinstance(node.entry, Replace)]


def lines(text):
    return text.count("\n") + (text != "" and not text.endswith("\n"))


# The kernel


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize(
    ("text", "max_bytes", "max_lines"),
    [("", 1, 1), ("abc", 3, 1), ("a\nb\n", 4, 2), ("a\nb", 3, 2), ("é\n", 3, 1), ("\n\n", 2, 2)],
)
def test_what_fits_is_the_same_object(text, max_bytes, max_lines, tail):
    message = tool_result("c", (Text(text), IMAGE))
    assert limited(message, tail=tail, max_bytes=max_bytes, max_lines=max_lines) is message


@given(
    st.text(st.sampled_from("ab\n\ré€😀"), max_size=30),
    st.integers(1, 40),
    st.integers(1, 6),
    st.booleans(),
)
def test_the_longest_piece_is_kept(text, max_bytes, max_lines, tail):
    """Compared with all prefixes, or suffixes, there are."""
    message = limited(tool_result("c", text), tail=tail, max_bytes=max_bytes, max_lines=max_lines)
    pieces = [text[i:] if tail else text[: len(text) - i] for i in range(len(text) + 1)]
    longest = next(p for p in pieces if len(p.encode()) <= max_bytes and lines(p) <= max_lines)
    if longest == text:
        assert texts(message) == [text]
        return
    side = "last" if tail else "first"
    note = (
        f"[Only the {side} {len(longest.encode())} of {len(text.encode())} bytes and "
        f"{lines(longest)} of {lines(text)} lines are shown; the rest is left out.]"
    )
    whole = [longest, note] if longest else [note]
    assert texts(message) == (whole[::-1] if tail else whole)


PARTS = st.lists(
    st.builds(Text, st.text(st.sampled_from("ab\né😀"), max_size=12)) | st.just(IMAGE), max_size=6
)


@given(PARTS, st.integers(1, 20), st.integers(1, 5), st.booleans())
def test_budgets_hold_of_all_texts_together(parts, max_bytes, max_lines, tail):
    message = tool_result("c", tuple(parts), error=True)
    after = limited(message, tail=tail, max_bytes=max_bytes, max_lines=max_lines)
    kept = [p for p in after.parts if not isinstance(p, Text)]
    assert kept == [p for p in parts if not isinstance(p, Text)]
    assert (after.role, after.call, after.error) == ("tool", "c", True)
    if after is message:
        return
    found = texts(after)
    (note,) = (t for t in found if t.startswith("[Only"))
    found.remove(note)
    assert sum(len(t.encode()) for t in found) <= max_bytes
    assert sum(map(lines, found)) <= max_lines
    joined, original = "".join(found), "".join(texts(message))
    assert (original.endswith if tail else original.startswith)(joined)


def test_parts_keep_their_places_around_the_cut():
    parts = (Text("one"), IMAGE, Text("two\n"), OPAQUE, Text("three"))
    head = limited(tool_result("c", parts), max_bytes=5)
    note = "[Only the {} of 12 bytes and 2 of 3 lines are shown; the rest is left out.]"
    assert head.parts == (
        Text("one"), IMAGE, Text("tw"), Text(note.format("first 5")), OPAQUE,
    )  # fmt: skip
    tail = limited(tool_result("c", parts), tail=True, max_bytes=7)
    assert tail.parts == (IMAGE, Text(note.format("last 7")), Text("o\n"), OPAQUE, Text("three"))


def test_a_text_without_room_goes_and_a_later_one_does_not_come_back():
    head = limited(tool_result("c", (Text("a\n"), Text("bb"), Text("c"))), max_lines=1)
    assert [t[:6] for t in texts(head)] == ["a\n", "[Only "]
    exact = limited(tool_result("c", (Text("aa"), Text("bb"), Text("c"))), max_bytes=2)
    assert [t[:6] for t in texts(exact)] == ["aa", "[Only "]
    tail = limited(tool_result("c", (Text("a"), Text("bb"), Text("cc"))), tail=True, max_bytes=2)
    assert [t[:6] for t in texts(tail)] == ["[Only ", "cc"]


def test_what_was_read_on_the_wire_does_not_come_back():
    message = tool_result("c", "12345")
    origin = type(message)("tool", message.parts, call="c", origin='{"content":"12345"}')
    assert limited(origin, max_bytes=3).origin == ""


def test_one_line_of_a_megabyte_is_cut():
    text = "😀" * 250_000
    (kept, note) = texts(limited(tool_result("c", text)))
    assert len(kept.encode()) == 20_480
    assert note.startswith("[Only the first 20480 of 1000000 bytes and 1 of 1 lines are shown;")
    (note, kept) = texts(limited(tool_result("c", "a" + text), tail=True, max_bytes=20_479))
    assert kept == "😀" * 5_119


# The stage


@pytest.mark.parametrize("error", [False, True])
def test_a_long_result_is_cut_before_it_is_sent(error):
    session = came("\n".join(map(str, range(100))), error=error)
    after = LIMIT(session)
    assert shown(after)[1] == "\n".join(map(str, range(90, 100)))
    assert project(after).messages[-1].error == error
    assert LIMIT(after) is after, "the note counts for nothing"
    after, request = send(after)
    assert breaks(after) == ()
    assert not [entry for entry in replaced(after) if entry.breaks]
    later, request2 = send(reply(after, "completed", assistant("ok")))
    assert request2.extends(request)
    assert explain(later, 3).why == "limit: 289 bytes, 100 lines"


@pytest.mark.parametrize(
    ("tool", "side"), [("bash", "last"), ("read", "first"), ("grep", "first"), ("ls", "first")]
)
def test_the_side_is_the_tools(tool, side):
    assert [t for t in shown(LIMIT(came("x" * 200, tool))) if f"[Only the {side} 100 of 200" in t]


def test_other_tools_and_short_results_pass():
    for session in (came("x" * 200, "browse"), came("x" * 100), came((IMAGE,)), came("")):
        assert LIMIT(session) is session
    assert LIMIT(came("x" * 200, "browse"), tools=("browse",)) is not session


def test_results_of_a_parallel_round_are_cut_each_by_itself():
    session = record(Session(), user("go"), assistant(call("a"), call("b", "read"), call("c")))
    session = record(session, tool_result("c", "3" * 200), tool_result("b", "2" * 200))
    assert LIMIT(session) is session, "calls are open"
    session = LIMIT(record(session, tool_result("a", "1"), user("and then")))
    _, _, *results, _ = project(session).messages
    assert [m.call for m in results] == ["a", "b", "c"]
    assert [texts(m)[-1] for m in results][::2] == ["1", "3" * 100]
    assert texts(results[1])[0] == "2" * 100


@pytest.mark.parametrize("outcome", ["failed", "aborted", "lost"])
def test_what_was_sent_once_stays_as_it_is(outcome):
    session = came("x" * 200)
    flying, _ = send(session)
    assert LIMIT(flying) is flying
    session = reply(flying, outcome)
    assert LIMIT(session) is session
    session = record(session, assistant("plain"))
    assert LIMIT(session) is session


def test_what_a_recorded_reply_proves_read_stays_as_it_is():
    session = record(Session(), user("go"), assistant(call("c")), tool_result("c", "x" * 200))
    assert len(replaced(LIMIT(session))) == 1
    session = record(session, assistant("I see"))
    assert LIMIT(session) is session


def test_a_cut_in_front_leaves_the_unsent_ones():
    session = record(came("x" * 200))
    session = record(session, Cut(0, user("notice"), "why", breaks=True))
    after = LIMIT(session)
    assert [entry.target for entry in replaced(after)] == [3]


def test_a_cut_result_is_cut_after_resume_and_on_forks():
    after = LIMIT(came("x" * 200))
    again = pickle.loads(pickle.dumps(after))
    assert again == after
    assert LIMIT(again) is again
    branch = record(at_leaf(after, 3), user("another way"))
    assert shown(LIMIT(at_leaf(branch, 3))) == shown(after)
    assert len(replaced(LIMIT(branch))) == 2, "each path settles for itself"
    assert shown(travel(branch, 3)) == shown(after), "travel lands behind the decision"
    later = record(send(after)[0], Reply("completed", assistant("ok")), user("next"))
    assert shown(travel(later, 3)) == shown(after)


def test_what_another_stage_shaped_is_cut_where_the_result_was_too_long():
    session = came("x" * 300)
    shorter = record(session, Replace(3, tool_result("c", "y" * 200), "by hand"))
    assert shown(LIMIT(shorter))[1] == "y" * 100
    fits = record(session, Replace(3, tool_result("c", "y" * 100), "by hand"))
    assert LIMIT(fits) is fits
    longer = record(came("x" * 9), Replace(3, tool_result("c", "y" * 200), "by hand"))
    assert LIMIT(longer) is longer


# Saving


def test_while_the_save_is_out_the_result_stays_whole():
    session = came((Text("x" * 200), IMAGE, Text("y")))
    asking = SAVING(session)
    assert shown(asking) == shown(session)
    ((number, ask),) = [(p.number, p.ask) for p in pending(asking)]
    text = "x" * 200 + "\ny"
    assert ask == Ask(
        f"save:{sha256(text.encode()).hexdigest()}",
        "save",
        json.dumps(
            {"name": sha256(text.encode()).hexdigest(), "text": text}, separators=(",", ":")
        ),
    )
    assert SAVING(asking) is asking
    saved = SAVING(record(asking, Answer(number, "answered", "/out/1.txt\n")))
    assert shown(saved) == [
        "[Only the last 100 of 201 bytes and 2 of 2 lines are shown. Full output: /out/1.txt]",
        "x" * 99,
        IMAGE,
        "y",
    ]
    assert SAVING(saved) is saved


def test_an_answer_that_comes_after_the_request_changes_nothing():
    asking = SAVING(came("x" * 200))
    sent, request = send(asking)
    session = reply(sent, "completed", assistant("ok"))
    (waiting,) = pending(session)
    late = record(session, Answer(waiting.number, "answered", "/out/1.txt"))
    assert SAVING(late) is late
    assert project(late).messages[:3] == request.messages


@pytest.mark.parametrize(
    ("outcome", "value"),
    [("failed", "disk full"), ("expired", ""), ("answered", ""), ("answered", " \n")],
)
def test_without_a_place_the_result_stays_whole(outcome, value):
    asking = SAVING(came("x" * 200))
    (waiting,) = pending(asking)
    session = record(asking, Answer(waiting.number, outcome, value))
    assert SAVING(session) is session
    assert shown(session) == ["x" * 200]


def test_an_adapter_that_raises_leaves_the_result_whole():
    def effects(asks):
        raise OSError("disk full")

    session = drive(came("x" * 200), SAVING, effects)
    assert shown(session) == ["x" * 200]


def test_equal_outputs_are_saved_once():
    session = record(Session(), assistant(call("a"), call("b")))
    session = record(session, tool_result("a", "x" * 200), tool_result("b", "x" * 200))
    (waiting,) = pending(SAVING(session))
    session = drive(session, SAVING, RecordedEffects({waiting.ask.key: "there"}))
    assert answer_to(session, waiting.ask.key) == Answer(waiting.number, "answered", "there")
    assert len(replaced(session)) == 2


def test_a_saved_form_is_the_one_that_all_requests_show():
    session = came("x" * 200)
    (waiting,) = pending(SAVING(session))
    effects = RecordedEffects({waiting.ask.key: "there"})
    for n in range(3):
        session, _ = send(drive(session, SAVING, effects))
        session = record(reply(session, "completed", assistant(f"ok {n}")), user("next"))
    found = requests(session)
    assert all(b.extends(a) for a, b in pairwise(found))
    assert {r.messages[2] for r in found[1:]} == {found[1].messages[2]}


# Cost and arguments


def calls_of(stage, session):
    """Count the calls of functions that a stage makes."""
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


def grown(stage, turns, text="x" * 99):
    session = record(Session(), user("go"))
    for n in range(turns):
        session, _ = send(stage(session))
        session = reply(session, "completed", assistant(call(f"c{n}")))
        session = record(session, tool_result(f"c{n}", text))
    return stage(session)


@pytest.mark.parametrize("stage", [LIMIT, SAVING], ids=["limit", "saving"])
@pytest.mark.parametrize("text", ["x" * 9, "x" * 200])
def test_a_turn_costs_what_is_new(stage, text):
    short, long = (grown(stage, turns, text) for turns in (5, 150))
    assert stage(long) is long
    assert calls_of(stage, short) == calls_of(stage, long)


@pytest.mark.parametrize(
    ("arguments", "code", "field"),
    [
        ({"max_bytes": 0}, "invalid-argument", "max_bytes"),
        ({"max_lines": True}, "invalid-argument", "max_lines"),
        ({"tools": ["bash"]}, "wrong-type", "tools"),
        ({"tail": "bash"}, "wrong-type", "tail"),
        ({"tools": (1,)}, "wrong-type", "tools"),
        ({"save": 1}, "wrong-type", "save"),
        ({"hold": None}, "wrong-type", "hold"),
        ({"passes": "all"}, "wrong-type", "passes"),
    ],
)
def test_arguments_are_checked(arguments, code, field):
    with pytest.raises(InvalidArgument) as caught:
        limit_output(Session(), **arguments)
    assert (caught.value.code, caught.value.field) == (code, field)
    if field in ("max_bytes", "max_lines"):
        with pytest.raises(InvalidArgument):
            limited(tool_result("c", ""), **arguments)


@pytest.mark.parametrize(
    "arguments",
    [{"message": "text"}, {"tail": 1}, {"place": None}, {"place": "\ud800"}, {"name": 1}],
)
def test_arguments_of_the_kernel_are_checked(arguments):
    with pytest.raises(InvalidArgument):
        limited(**{"message": tool_result("c", "x"), **arguments})
    with pytest.raises(InvalidArgument):
        limit_output("no session")


# Behind other stages


ERRORS = "\n".join(
    f"ERROR {n:06} {chr(97 + n % 26) * 470}" if n % 3 == 0 else f"x{n} " * 60 for n in range(900)
)
HOLDING = partial(limit_output, hold=True)


def asked(session, **given):
    message = retrieve_output(session, ToolCall("r", "retrieve_output", json.dumps(given)))
    assert not message.error
    told, _, text = message.parts[0].text.partition("\n")
    return json.loads(told), text


def whole(session, name):
    told, text = asked(session, id=name, startCharacter=0, maxCharacters=100_000)
    while (at := told["nextCharacter"]) is not None:
        told, more = asked(session, id=name, startCharacter=at, maxCharacters=100_000)
        text += more
    return text


def held_name(session):
    return re.search(r"full=([0-9a-f]{24,64})", str(shown(session)))[1]


@pytest.mark.parametrize("tool", ["read", "grep", "bash", "ls"])
def test_a_compacted_view_is_never_cut(tool):
    """Views that fit stay; of one that doesn't, the recorded output is limited instead."""
    session = came(ERRORS, tool)
    view = shown(compact_output(session))[0]
    assert len(view) > 20_480
    fits = partial(limit_output, max_bytes=len(view.encode()), max_lines=9_999)
    assert shown(pipeline(compact_output, fits)(session)) == [view]
    after = pipeline(compact_output, HOLDING)(session)
    note = next(text for text in shown(after) if text.startswith("[Only"))
    assert f"of {len(ERRORS)} bytes and " in note
    assert " of 900 lines are shown; full=" in note
    kept = next(text for text in shown(after) if text != note)
    assert (ERRORS.endswith if tool == "bash" else ERRORS.startswith)(kept)
    assert whole(after, held_name(after)) == ERRORS
    assert pipeline(compact_output, HOLDING)(after) is after
    assert journal.decode(journal.encode(after)).session == after


def test_a_view_that_a_cut_would_not_shorten_stays():
    session = came(ERRORS, "read")
    view = shown(compact_output(session))[0]
    stage = partial(limit_output, max_bytes=len(view.encode()) - 1, max_lines=9_999)
    assert shown(pipeline(compact_output, stage)(session)) == [view]


def test_what_another_stage_made_of_a_view_is_not_undone():
    """The recorded output may hold what a later stage took out."""
    session = record(
        compact_output(came(ERRORS, "read")),
        Replace(3, tool_result("c", "secrets taken out " * 2_000), "redact: by hand"),
    )
    after = HOLDING(session)
    assert shown(after)[0].startswith("secrets")
    assert "ERROR" not in "".join(shown(after))
    assert whole(after, held_name(after)) == "secrets taken out " * 2_000


def test_a_digest_is_not_cut():
    digest = "- a fact\n" * 4_000
    told = Replace(3, tool_result("c", digest), "digest: 100000 tokens of output")
    session = record(came("x" * 400_000), told)
    assert HOLDING(session) is session


def test_what_is_limited_is_held_with_all_its_texts():
    parts = (Text("a" * 300), IMAGE, Text("b" * 300))
    after = LIMIT(came(parts), hold=True)
    assert whole(after, held_name(after)) == "a" * 300 + "\n" + "b" * 300
    assert whole(send(after)[0], held_name(after)) == "a" * 300 + "\n" + "b" * 300
    assert explain(after, 3).why == f"limit: 600 bytes, 2 lines; full={held_name(after)}"


def test_a_text_that_nobody_can_hold_is_cut_and_says_so():
    after = HOLDING(came("x" * (16 * 2**20 + 1)))
    assert shown(after)[0].endswith("lines are shown; the rest is left out.]")


def test_a_result_is_never_longer_than_it_was():
    session = came("x" * 150)
    assert LIMIT(session) is session, "the note is longer than what would go"
    assert LIMIT(came("x" * 190)) is not session


def test_a_place_is_told_in_one_line_and_beside_the_name():
    settle = partial(SAVING, hold=True)
    session = came("x" * 400)

    def effects(asks):
        return tuple(Answer(p.number, "answered", "/out/a\n\u202e]b\x1b.txt") for p in asks)

    after = drive(session, settle, effects)
    note = shown(after)[0]
    name = held_name(after)
    assert note.endswith(f" are shown; full={name}. Full output: /out/a\\x0a\\u202e]b\\x1b.txt]")


@pytest.mark.parametrize(
    ("said", "tool", "arguments", "text"),
    [
        ("go", "read", {"path": "/skills/x/SKILL.md"}, "Do this step carefully.\n" * 2_000),
        ("go", "bash", {"command": "gh pr list --json title"}, json.dumps(["x" * 50] * 1_000)),
        ("fix the bug", "read", {"path": "a.py"}, "def f(): return 1  # a body\n" * 1_000),
        ("go", "read", {"path": "a"}, "---\nname: x\ndescription: y\n---\n" + "Do.\n" * 9_000),
    ],
)
def test_what_must_be_read_word_by_word_can_pass(said, tool, arguments, text):
    session = record(Session(), user(said))
    session = record(session, assistant(ToolCall("c", tool, json.dumps(arguments))))
    session = record(session, tool_result("c", text))
    assert HOLDING(session, passes=exact) is session
    assert HOLDING(session) is not session
    settle = working_memory(MemorySettings(bash=False))
    assert shown(settle(session)) == [text]


def test_what_must_be_read_word_by_word_has_a_limit_too():
    call = ToolCall("c", "read", '{"path":"/skills/x/SKILL.md"}')
    text = "Do this step carefully.\n" * 10_000
    session = record(Session(), user("go"), assistant(call), tool_result("c", text))
    after = working_memory()(session)
    assert len(shown(after)[0]) == 204_800
    assert whole(after, held_name(after)) == text


def test_other_results_do_not_pass():
    text = "plain words\n" * 2_000
    call = ToolCall("c", "read", "no object")
    session = record(Session(), user("fix it"), assistant(call), tool_result("c", text))
    assert not exact(session, call, tool_result("c", text))
    assert exact(session, ToolCall("c", "search_history"), tool_result("c", text))
    assert HOLDING(session, passes=exact) is not session
