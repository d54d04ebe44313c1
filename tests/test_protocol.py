"""Pairing of calls and results: every defect, its repair, and both on hostile lists."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from ctxalgebra import (
    Image,
    Message,
    Session,
    Text,
    Thinking,
    ToolCall,
    assistant,
    project,
    record,
    system,
    tool_result,
    user,
)
from ctxalgebra.protocol import DEFECTS, Defect, Repair, defects, repair

SESSIONS = Path(__file__).resolve().parents[1].parent / "shared" / "sessions" / "pi"


def call(*ids):
    return assistant(*(ToolCall(id_, "read") for id_ in ids))


def result(id_, text="42"):
    return tool_result(id_, text, name="read")


U, V, A = user("a"), user("b"), assistant("done")


def found(*messages, aborted=()):
    return [(d.code, d.index, d.call) for d in defects(messages, aborted=aborted)]


# code, messages, aborted, defects, what is shown afterwards (indices; None is made)
TABLE = [
    ("aborted-calls", (U, call("x"), V), [1], [(1, "x")], [0, 2]),
    ("aborted-calls", (U, call("x", "y"), result("y")), [1], [(1, "x"), (1, "y"), (2, "y")], [0]),
    ("aborted-calls", (result("x"), call("x"), V), [1], [(0, "x"), (1, "x")], [2]),
    ("duplicate-result", (call("x"), result("x"), result("x", "43")), [], [(2, "x")], [0, 1]),
    ("duplicate-result", (result("x"), result("x"), call("x"), result("x")), [], None, [2, 3]),
    ("early-result", (result("x"), call("x"), V), [], [(0, "x")], [1, 0, 2]),
    ("early-result", (result("x"), result("x"), call("x"), call("x")), [], None, [2, 0, 3, 1]),
    ("empty-content", (U, user(" \n"), system(()), assistant(), A), [], None, [0, 4]),
    ("empty-content", (call("x"), user(""), result("x")), [], [(1, "")], [0, 2]),
    ("late-result", (call("x"), A, result("x")), [], [(2, "x")], [0, 2, 1]),
    ("late-result", (call("x"), call("y"), result("x"), result("y")), [], None, [0, 2, 1, 3]),
    ("missing-id", (call(""), V), [], None, [0, None, 1]),
    ("missing-result", (call("x"), V), [], [(0, "x")], [0, None, 1]),
    ("missing-result", (call("x", "y", "z"), result("y")), [], None, [0, None, 1, None]),
    ("orphan-result", (U, result("x"), V), [], [(1, "x")], [0, 2]),
    ("out-of-order", (call("x", "y"), result("y"), result("x")), [], [(2, "x")], [0, 2, 1]),
    ("reused-id", (call("x"), result("x"), call("x"), result("x")), [], [(2, "x")], [0, 1, 2, 3]),
    ("reused-id", (call("x", "x"), result("x"), result("x")), [], [(0, "x")], [0, 1, 2]),
    ("steering", (call("x"), V, result("x")), [], [(1, "x")], [0, 2, 1]),
    ("steering", (call("x", "y"), result("x"), system("s"), result("y")), [], None, [0, 1, 3, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("code", "messages", "aborted", "places", "shown"), TABLE)
def test_each_defect_is_found_and_repaired(code, messages, aborted, places, shown):
    listed = defects(messages, aborted=aborted)
    if places is None:
        assert code in {d.code for d in listed}
    else:
        assert listed == tuple(Defect(code, index, id_) for index, id_ in places)
    repaired = repair(messages, aborted=aborted)
    assert repaired.sources == tuple(shown)
    assert defects(repaired.messages) == ()
    assert repair(tuple(messages), aborted=aborted) == repaired


def test_blank_texts_leave_and_their_neighbours_stay():
    picture = Image("aGk=", "image/png")
    messages = (
        user((Text(" "), picture)),
        assistant("\n", ToolCall("x", "read"), ""),
        tool_result("x", (Text("4"), Text("\u3000"))),
    )
    assert found(*messages) == [("blank-text", 0, ""), ("blank-text", 1, ""), ("blank-text", 2, "")]
    assert repair(messages).messages == (
        user((picture,)),
        assistant(ToolCall("x", "read")),
        tool_result("x", "4"),
    )


def test_a_blank_result_is_what_the_tool_said():
    assert found(call("x", "y", "z"), result("x", ""), result("y", " "), result("z", ())) == []


def test_the_codes_are_a_closed_list_that_the_table_covers():
    assert {row[0] for row in TABLE} | {"blank-text"} == set(DEFECTS)
    with pytest.raises(TypeError):
        DEFECTS["new"] = "code"  # type: ignore[index]


def test_a_made_result_is_an_error_and_names_the_tool():
    made = repair((call("x"),)).messages[1]
    assert (made.role, made.call, made.name, made.error) == ("tool", "x", "read", True)
    assert not made.empty


def test_new_ids_collide_with_nothing_and_their_results_follow():
    messages = (
        call("x", "x"), result("x", "1"), result("x", "2"),
        call("x_2", "x"), result("x", "3"), result("x_3"), result("x_2", "4"),
    )  # fmt: skip
    repaired = repair(messages)
    assert [c.id for m in repaired.messages for c in m.calls] == ["x", "x_4", "x_2", "x_5"]
    assert [(m.call, m.parts[0].text) for m in repaired.messages if m.call] == [
        ("x", "1"), ("x_4", "2"), ("x_2", "4"), ("x_5", "3"),
    ]  # fmt: skip
    actions = [r.action for r in repaired.repairs if r.code == "reused-id"]
    assert actions == [
        "the call and its result were renamed to 'x_4'",
        "the call and its result were renamed to 'x_5'",
    ]


def test_a_renamed_message_keeps_what_it_was_read_from():
    first = call("x")
    again = evolve(first, id="m2", origin='{"id":"x"}')
    renamed = repair((first, result("x"), again, result("x"))).messages[2]
    assert (renamed.id, renamed.origin, renamed.calls[0].id) == ("m2", '{"id":"x"}', "x_2")


def test_a_nameless_call_gets_a_name():
    repaired = repair((call("", "call_2", ""),))
    ids = [c.id for c in repaired.messages[0].calls]
    assert ids == ["call_3", "call_2", "call_4"]
    assert [m.call for m in repaired.messages[1:]] == ids
    assert Repair("missing-id", 0, "", "the call was named 'call_3'") in repaired.repairs


def test_an_aborted_turn_without_calls_stays_and_frees_ids():
    assert found(U, assistant("half a sen"), V, aborted=[1, 0, 7, -1]) == []
    # The retry may use the id again: the aborted use leaves.
    retried = (U, call("x"), call("x"), result("x"))
    assert found(*retried, aborted=[1]) == [("aborted-calls", 1, "x")]
    assert repair(retried, aborted=[1]).messages == (U, call("x"), result("x"))


def test_what_leaves_stands_between_nothing():
    messages = (call("x"), call("y"), assistant(), user(""), result("x"))
    assert found(*messages, aborted=[1]) == [
        ("aborted-calls", 1, "y"),
        ("empty-content", 2, ""),
        ("empty-content", 3, ""),
    ]


def test_an_aborted_message_without_calls_still_stands_between():
    assert found(call("x"), A, result("x"), aborted=[1]) == [("late-result", 2, "x")]
    assert found(assistant("half", ""), aborted=[0]) == [("blank-text", 0, "")]


def test_a_message_behind_another_exchange_does_not_steer_the_first():
    messages = (call("x"), call("y"), result("y"), V, result("x"))
    assert found(*messages) == [("late-result", 4, "x")]


def test_a_list_is_taken_and_a_sound_tuple_comes_back_itself():
    sound = (U, call("x", "y"), result("x"), result("y"), A)
    repaired = repair(sound)
    assert repaired.messages is sound
    assert (repaired.repairs, repaired.sources) == ((), (0, 1, 2, 3, 4))
    assert repair([]).messages == ()
    broken = [call("x"), V]
    assert repair(broken).messages[2] is V
    assert broken == [call("x"), V]


# Hostile lists

IDS = st.sampled_from(["x", "x", "x", "y", "x_2", "z"])
TEXTS = st.sampled_from(["a", "b", "", " ", "\n\u2003"])
CONTENT = st.lists(
    st.builds(Text, TEXTS) | st.just(Image("aGk=", "image/png")), max_size=3
).map(tuple)  # fmt: skip
SPOKEN = st.lists(
    st.builds(Text, TEXTS)
    | st.builds(ToolCall, IDS | st.just(""), st.just("read"))
    | st.builds(Thinking, TEXTS),
    max_size=4,
).map(tuple)
ANYTHING = st.lists(
    st.builds(Message, st.sampled_from(["user", "system"]), CONTENT)
    | st.builds(Message, st.just("assistant"), SPOKEN)
    | st.builds(lambda ids: call(*ids), st.lists(IDS, min_size=1, max_size=3))
    | st.builds(result, IDS, TEXTS)
    | st.builds(tool_result, IDS, CONTENT),
    max_size=14,
).map(tuple)


@st.composite
def near_misses(draw):
    """Draw a sound list, and damage it in up to two places."""
    messages = []
    for number in range(draw(st.integers(0, 4))):
        messages += draw(st.sampled_from([[], [U], [U, V], [A], [system("s")]]))
        ids = [f"{name}{number}" for name in "xyz"[: draw(st.integers(0, 3))]]
        messages += [call(*ids), *map(result, ids)] if ids else []
    for _ in range(draw(st.integers(0, 2)) if messages else 0):
        at, to = draw(st.tuples(*[st.integers(0, len(messages) - 1)] * 2))
        match draw(st.sampled_from(["move", "copy", "lose", "steer"])):
            case "move":
                messages.insert(to, messages.pop(at))
            case "copy":
                messages.insert(to, messages[at])
            case "steer":
                messages.insert(to, draw(st.sampled_from([U, A, user(""), call("x0")])))
            case _:
                messages[at : at + 1] = [] if len(messages) > 1 else [U]
    return tuple(messages)


MESSAGES = ANYTHING | near_misses()
ABORTED = st.sets(st.integers(-1, 14), max_size=3)


def sound(messages):
    """Say without any cleverness whether a list is paired and says something everywhere."""
    rest = list(messages)
    seen = set()
    while rest:
        message = rest.pop(0)
        if message.role == "tool" or not any(
            type(p) is not Text or p.text.strip() for p in message.parts
        ):
            return False
        results = rest[: len(message.calls)]
        del rest[: len(message.calls)]
        if [m.call for m in results if m.role == "tool"] != [c.id for c in message.calls]:
            return False
        ids = {c.id for c in message.calls}
        if "" in ids or ids & seen or len(ids) < len(message.calls):
            return False
        seen |= ids
        for m in (message, *results):
            blank = [type(p) is Text and not p.text.strip() for p in m.parts]
            if any(blank) and not (m.role == "tool" and all(blank)):
                return False
    return True


def partners(messages):
    """Pair results with calls by trying all: the nearest open call in front, else behind."""
    calls = [(i, p, c.id) for i, m in enumerate(messages) for p, c in enumerate(m.calls)]
    pairs = {}
    results = [i for i, m in enumerate(messages) if m.role == "tool"]
    for behind in (False, True):
        for index in results:
            id_ = messages[index].call
            open_ = [(i, p) for i, p, c in calls if c == id_ and (i, p) not in pairs.values()]
            if index in pairs or not (fits := [c for c in open_ if (c[0] > index) == behind]):
                continue
            nearest = min(abs(i - index) for i, _ in fits)
            pairs[index] = min(c for c in fits if abs(c[0] - index) == nearest)
    return {where: index for index, where in pairs.items()}


@given(MESSAGES, ABORTED)
@example((result("x"), call("x"), result("x")), set())
@example((call("x"), call("x"), result("x"), result("x")), set())
@example((call("x"), V, A, V, result("x")), set())
def test_repair_leaves_no_defect_and_reports_each(messages, aborted):
    before = list(messages)
    repaired = repair(messages, aborted=aborted)
    assert defects(repaired.messages) == ()
    assert sound(repaired.messages)
    reported = [(r.code, r.index, r.call) for r in repaired.repairs]
    assert reported == found(*messages, aborted=aborted)
    assert {code for code, _, _ in reported} <= set(DEFECTS)
    assert all(a is b for a, b in zip(before, messages, strict=True))


@given(MESSAGES)
def test_no_defects_means_exactly_sound(messages):
    assert (defects(messages) == ()) == sound(messages)


@given(MESSAGES, ABORTED)
def test_repair_is_quiet_and_idempotent(messages, aborted):
    repaired = repair(messages, aborted=aborted)
    again = repair(repaired.messages)
    assert again.messages is repaired.messages
    assert again.repairs == ()
    assert (repaired.messages is messages) == (not defects(messages, aborted=aborted))


def essence(message):
    """Give what a repair may not change: all but ids of calls and blank texts."""
    return message.role, message.name, message.error, [
        (p.name, p.arguments) if type(p) is ToolCall else p
        for p in message.parts
        if message.empty or type(p) is not Text or p.text.strip()
    ]  # fmt: skip


@given(MESSAGES, ABORTED)
def test_sources_account_for_every_message(messages, aborted):
    repaired = repair(messages, aborted=aborted)
    used = [s for s in repaired.sources if s is not None]
    assert len(set(used)) == len(used)
    for source, shown in zip(repaired.sources, repaired.messages, strict=True):
        if source is not None:
            assert essence(messages[source]) == essence(shown)
    listed = defects(messages, aborted=aborted)
    leave = ("orphan-result", "duplicate-result", "aborted-calls", "empty-content")
    assert set(range(len(messages))) - set(used) == {d.index for d in listed if d.code in leave}
    made = [d for d in listed if d.code == "missing-result"]
    assert repaired.sources.count(None) == len(made)
    spoken = [s for s in used if messages[s].role != "tool"]
    assert spoken == sorted(spoken)


@given(MESSAGES, ABORTED)
def test_results_go_to_the_nearest_call(messages, aborted):
    repaired = repair(messages, aborted=aborted)
    answered = partners(messages)
    home, place = -1, 0
    for source, shown in zip(repaired.sources, repaired.messages, strict=True):
        if shown.role == "tool":
            assert source == answered.get((home, place))
            place += 1
        else:
            home, place = source, 0


@given(MESSAGES, ABORTED)
def test_only_ids_that_come_twice_change(messages, aborted):
    repaired = repair(messages, aborted=aborted)
    ids = {c.id for m in messages for c in m.calls} | {m.call for m in messages}
    seen = set()
    for source, shown in zip(repaired.sources, repaired.messages, strict=True):
        theirs = messages[source].calls if source is not None else ()
        for mine, old in zip(shown.calls, theirs, strict=True):
            if old.id and old.id not in seen:
                assert mine.id == old.id
            else:
                assert mine.id not in ids
                assert mine.id.startswith(old.id or "call")
            seen.add(old.id)


@given(MESSAGES, ABORTED)
def test_the_gate_records_what_was_repaired(messages, aborted):
    repaired = repair(messages, aborted=aborted).messages
    assert project(record(Session(), *repaired)).messages == repaired


# Growth


class Counted(Sequence):
    """A list of messages that counts how often one is looked at."""

    def __init__(self, messages):
        self.messages = messages
        self.looks = 0

    def __len__(self):
        return len(self.messages)

    def __getitem__(self, index):
        self.looks += 1
        return self.messages[index]


class Id(str):
    """An id that counts how often it is hashed or compared."""

    __slots__ = ()
    uses = 0

    def __hash__(self):
        Id.uses += 1
        return super().__hash__()

    def __eq__(self, other):
        Id.uses += 1
        return super().__eq__(other)


HOSTILE = {
    "one id, calls": lambda n: [call(Id("x")) for _ in range(n)],
    "one id, results": lambda n: [result(Id("x")) for _ in range(n)],
    "one id, answered": lambda n: [call(Id("x")), result(Id("x"))] * (n // 2),
    "one id, late": lambda n: [call(Id("x"))] * (n // 2) + [result(Id("x"))] * (n // 2),
    "one id, early": lambda n: [result(Id("x"))] * (n // 2) + [call(Id("x"))] * (n // 2),
    "names taken": lambda n: [call(Id(f"x_{i}")) for i in range(n // 2)]
    + [call(Id("x"))] * (n // 2),
    "far apart": lambda n: [call(Id(str(i))) for i in range(n // 2)]
    + [result(Id(str(i))) for i in range(n // 2)],
    "steered": lambda n: [call(Id("x")), *[V] * (n - 2), result(Id("x"))],
    "many calls": lambda n: [call(*map(Id, "xy" * (n // 4))), *[result(Id("x"))] * (n // 2)],
}  # fmt: skip


def work(messages):
    counted = Counted(messages)
    Id.uses = 0
    listed = defects(counted)
    repaired = repair(counted)
    assert len(repaired.repairs) == len(listed)
    return counted.looks + Id.uses


@pytest.mark.parametrize("shape", HOSTILE)
def test_work_grows_with_the_length(shape):
    small, large = (work(HOSTILE[shape](n)) for n in (400, 1600))
    assert large <= 4 * small + 100
    assert large <= 32 * 1600


def test_a_hundred_thousand_messages_with_one_id():
    one = call("x")
    messages = (one,) * 50_000 + (result("x"),) * 50_000
    repaired = repair(messages)
    ids = [m.calls[0].id for m in repaired.messages[::2]]
    assert ids == ["x", *(f"x_{n}" for n in range(2, 50_001))]
    assert defects(repaired.messages) == ()
    assert Counter(d.code for d in defects(messages)) == {
        "reused-id": 49_999,
        "late-result": 49_999,
    }


# Real sessions


def read(file):
    """Read the messages of a session file as they stand, and which turns broke off."""
    messages, aborted = [], []
    for line in file.read_bytes().split(b"\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry.get("type") != "message" or "content" not in (raw := entry["message"]):
            continue
        content = raw["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        make = {
            "text": lambda b: Text(b["text"]),
            "thinking": lambda b: Thinking(b["thinking"], b.get("thinkingSignature", "")),
            "image": lambda b: Image(b["data"], b["mimeType"]),
            "toolCall": lambda b: ToolCall(b["id"], b["name"], json.dumps(b["arguments"])),
        }
        parts = tuple(make[b["type"]](b) for b in blocks)
        if raw.get("stopReason") in ("aborted", "error"):
            aborted.append(len(messages))
        if raw["role"] == "toolResult":
            messages.append(Message("tool", parts, call=raw["toolCallId"], name=raw["toolName"]))
        else:
            messages.append(Message(raw["role"], parts))
    return tuple(messages), aborted


@pytest.mark.skipif(not SESSIONS.is_dir(), reason="the shared session files are not here")
def test_real_sessions_are_repaired():
    codes = Counter()
    for file in sorted(SESSIONS.glob("*.jsonl")):
        messages, aborted = read(file)
        repaired = repair(messages, aborted=aborted)
        assert defects(repaired.messages) == ()
        assert project(record(Session(), *repaired.messages)).messages == repaired.messages
        # Counted another way: calls whose id no result names.
        answered = {m.call for m in messages}
        open_ = [c for m in messages for c in m.calls if c.id not in answered]
        assert len(open_) == sum(d.code == "missing-result" for d in defects(messages)), file.name
        codes.update(r.code for r in repaired.repairs)
    assert {"aborted-calls", "empty-content", "missing-result", "out-of-order"} <= set(codes)
