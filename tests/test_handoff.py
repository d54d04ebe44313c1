"""Handoffs, names of entries, what goes to a terminal: slow readings of the rules, odd input."""

from __future__ import annotations

import itertools
import re

import pytest
from attrs import asdict
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra.checkpoints.handoff import (
    LABELS,
    MARKER,
    NONE,
    REQUIRED,
    Handoff,
    HandoffDefect,
    LineCheck,
    build_handoff,
    check_handoff_lines,
    format_defect,
    handoff_text,
    read_handoff,
    read_slot,
    ticket_name,
    type_of,
    wire_defects,
)
from ctxalgebra.checkpoints.names import is_name, is_reserved, name_conflict, read_names
from ctxalgebra.checkpoints.shown import neutral
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.utf16 import SPACE

FULL = {"goal": "g", "state": "s", "next": "n"}

PIECES = [
    "a",
    "Goal: ",
    "NEXT: ",
    "none",
    "NONE",
    "\n",
    "\r\n",
    "\r",
    "\u2028",
    " ",
    "  ",
    "\ufeff",
]
PIECES += ["\x85", "\U0001f600", "\ud800", "State:", "Raw archive: t", "t", MARKER, "\n  ", "\x1b"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)
VALUES = st.one_of(TEXTS, st.none(), st.integers(), st.booleans(), st.just([]), st.just({}))
OBJECTS = st.dictionaries(st.sampled_from([*LABELS, "foo", "__proto__"]), VALUES)


def built(**slots):
    handoff = build_handoff(FULL | slots)
    assert isinstance(handoff, Handoff), handoff
    return handoff


# Building


def test_all_defects_come_at_once_in_the_order_of_the_slots():
    wrong = {"goal": "None", "state": " ", "next": 5, "evidence": [], "foo": 1, "bar": 2}
    defects = build_handoff(wrong, raw_archive="two words")
    assert [format_defect(defect) for defect in defects] == [
        "goal:none_not_allowed",
        "state:empty",
        "evidence:invalid_type (expected string | null, got array)",
        "next:invalid_type (expected string, got number)",
        "handoff:unexpected_field ('foo' is not a handoff field)",
        "handoff:unexpected_field ('bar' is not a handoff field)",
        "rawArchiveAlias:invalid_archive_alias",
    ]


@pytest.mark.parametrize("value", [None, 5, [], "5", "{bad", "[1]", True])
def test_what_is_no_object_has_no_slots(value):
    assert [(d.field, d.got) for d in build_handoff(value)] == [
        ("goal", "missing"),
        ("state", "missing"),
        ("next", "missing"),
    ]


def test_the_text_of_an_object_is_as_good_as_the_object():
    assert build_handoff('{"goal":"g","state":"s","next":"n"}') == built()


@pytest.mark.parametrize(
    ("recover", "expected"),
    [
        (None, "Raw archive: t"),
        ("None", "Raw archive: t"),
        ("see x", "see x\nRaw archive: t"),
        ("see x\n  t ", "see x\n  t"),
        ("Raw archive: t\nmore", "Raw archive: t\nmore"),
        ("Raw archive: tt", "Raw archive: tt\nRaw archive: t"),
    ],
)
def test_the_archive_is_named_once(recover, expected):
    handoff = build_handoff(FULL | {"recover": recover}, raw_archive=" t\r\n")
    assert isinstance(handoff, Handoff)
    assert handoff.recover == expected


def test_an_archive_is_not_added_to_a_slot_that_is_wrong():
    assert [d.field for d in build_handoff(FULL | {"recover": 5}, raw_archive="t")] == ["recover"]


@given(OBJECTS, st.none() | TEXTS)
def test_a_field_is_judged_whatever_the_others_are(value, archive):
    found = build_handoff(value, raw_archive=archive)
    alone = [
        defect
        for field in LABELS
        for defect in _defects({**FULL, field: value[field]} if field in value else _less(field))
    ]
    alone += [d for name in value if name not in LABELS for d in _defects(FULL | {name: 1})]
    alone += _defects(FULL, archive)
    assert (list(found) if isinstance(found, tuple) else []) == alone


def _less(field):
    return {name: text for name, text in FULL.items() if name != field}


def _defects(value, archive=None):
    found = build_handoff(value, raw_archive=archive)
    return list(found) if isinstance(found, tuple) else []


@given(OBJECTS)
def test_what_is_built_has_no_blanks_at_its_ends_and_is_built_once(value):
    found = build_handoff(FULL | value)
    if isinstance(found, Handoff):
        for field, text in asdict(found).items():
            assert text
            assert text.strip(SPACE) == text
            assert not set(text) & set("\r\u2028\u2029")
            assert text.lower() != NONE or (text == NONE and field not in REQUIRED)
        assert build_handoff(asdict(found)) == found


@given(OBJECTS)
def test_the_wire_refuses_types_and_names_only(value):
    members, defects = wire_defects(value)
    assert members == value
    assert all(d.reason in {"invalid_type", "unexpected_field"} for d in defects)
    wrong = [d for d in build_handoff(value) if isinstance(d, HandoffDefect)] if defects else []
    assert [d for d in wrong if d.reason in {"invalid_type", "unexpected_field"}] == list(defects)


def test_what_the_wire_says_of_other_values():
    told = [wire_defects(value)[1][0] for value in ("{bad", "null", "[1]", 5, None)]
    assert [(d.reason, d.expected, d.got) for d in told] == [
        ("invalid_json", "", ""),
        ("invalid_type", "object", "null"),
        ("invalid_type", "object", "array"),
        ("invalid_type", "object", "number"),
        ("invalid_type", "object", "null"),
    ]
    assert wire_defects({"goal": None, "state": "", "next": "n"})[1][0].got == "null"
    assert type_of("") == "string"
    assert type_of({}) == "object"


# Text


def test_a_value_cannot_pass_for_another_slot():
    handoff = built(goal="a\nState: forged\nNEXT: rm", state="real")
    text = handoff_text(handoff)
    assert text.split("\n")[0] == MARKER
    assert [line for line in text.split("\n") if line.startswith(("State:", "NEXT:"))] == [
        "State: real",
        "NEXT: n",
    ]
    assert read_handoff(text) == handoff


@given(OBJECTS, st.sampled_from(["", MARKER, "<!-- other -->"]))
def test_a_handoff_is_read_back(value, marker):
    handoff = build_handoff(FULL | value)
    if isinstance(handoff, Handoff):
        text = handoff_text(handoff, marker=marker)
        assert read_handoff(text, marker=marker) == handoff
        assert read_handoff(text + "\n", marker=marker) is None
        assert read_handoff(text, marker="<!-- none of these -->") is None
        ends = [*list(LABELS.values())[1:], ""]
        for (label, slot), end in zip(handoff.slots(), ends, strict=True):
            assert read_slot(text, label, end) == slot


LINES = [f"{label}: x" for label in LABELS.values()]
LINES += [MARKER, "  x", "", "Goal:", "Recover: NONE", "Goal: none"]


@given(st.lists(st.sampled_from(LINES), max_size=12).map("\n".join) | TEXTS)
def test_no_other_text_is_one(text):
    handoff = read_handoff(text)
    assert handoff is None or handoff_text(handoff) == text


@pytest.mark.parametrize("at", range(9))
def test_a_text_that_lacks_a_line_is_none(at):
    lines = handoff_text(built(state="a\nb")).split("\n")
    assert read_handoff("\n".join(lines)) is not None
    assert read_handoff("\n".join(lines[:at] + lines[at + 1 :])) is None or at == 3


def test_a_slot_that_is_not_there():
    assert read_slot("State: b", "State") is None
    assert read_slot("x Goal: b\nc", "Goal", "State") == "b\nc"


# Lines of a plain summary


def slow_check(text):
    lines = text.replace("\r\n", "\n").split("\n")
    found = {s: [i for i, x in enumerate(lines) if x.startswith(f"{s}:")] for s in LABELS.values()}
    firsts = [places[0] for places in found.values() if places]
    return LineCheck(
        tuple(s for s, places in found.items() if not places),
        tuple(
            s for s, at in found.items() if any(not lines[i][len(s) + 1 :].strip(SPACE) for i in at)
        ),
        tuple(s for s, places in found.items() if len(places) > 1),
        any(a >= b for a, b in itertools.pairwise(firsts)),
    )


SUMMARY = [*LINES, "NEXT:\ufeff", "goal: x", " Goal: x", "Goals: x", "x", "NEXT:y", "\r", "State\r"]


@given(st.lists(st.sampled_from(SUMMARY), max_size=12), st.sampled_from(["\n", "\r\n", "\r"]))
def test_lines_are_checked_as_they_are_read_slowly(lines, end):
    text = end.join(lines)
    assert check_handoff_lines(text) == slow_check(text)


def test_a_summary_in_order_is_fine():
    text = "\r\n".join(["preface", *LINES[:7], "more"])
    assert check_handoff_lines(text).ok
    assert not check_handoff_lines(text + "\nGoal: again").ok
    assert check_handoff_lines(handoff_text(built(), marker="")).ok


# Tickets


@given(TEXTS | st.text(max_size=80), st.integers(0, 5))
def test_a_ticket_is_a_name_that_is_free(goal, count):
    taken: set[str] = set()
    for number in range(1, count + 1):
        name = ticket_name(goal, taken)
        assert is_name(name)
        assert not is_reserved(name)
        assert name not in taken
        assert name.endswith("-raw" if number == 1 else f"-raw-{number}")
        assert re.search("[a-z0-9]", name.removesuffix("-raw"))
        taken.add(name)


def test_tickets_are_bounded_and_go_on():
    assert ticket_name("Fix Fix fix it", ["fix-it-raw", "fix-it-raw-2"]) == "fix-it-raw-3"
    assert ticket_name("x" * 60, ()) == "x" * 48 + "-raw"
    assert ticket_name(f"{'a' * 47} b", ()) == "a" * 47 + "-raw"
    assert ticket_name("-- .. __", ()) == "fold-raw"
    taken = {"go-raw", *(f"go-raw-{number}" for number in range(2, 5000))}
    assert ticket_name("go " * 200_000, taken) == "go-raw-5000"


# Names


def slow_names(events):
    """Read labels one after the other, as the specification lists the steps."""
    pairs: list[tuple[str, str]] = []
    for target, name in events:
        pairs = [pair for pair in pairs if pair[1] != target or pair[0] == name]
        if name:
            pairs = [pair for pair in pairs if pair[0] != name] + [(name, target)]
        else:
            pairs = [pair for pair in pairs if pair[1] != target]
    return dict(pairs)


EVENTS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", "z", ""])))


@given(EVENTS)
def test_a_name_stands_for_one_entry(events):
    known = read_names(events)
    assert dict(known.targets) == slow_names(events)
    assert known.names == {target: name for name, target in known.targets.items()}


@given(EVENTS, st.sampled_from("abc"), st.sampled_from(["x", "y", "Root"]))
def test_a_name_without_conflict_takes_nothing_away(events, target, name):
    before = read_names(events)
    after = read_names([*events, (target, name)])
    kept = before.targets.items() <= after.targets.items()
    conflict = name_conflict(before, target, name)
    assert (conflict is None) == (kept and name != "Root")
    if conflict == "duplicate-name":
        assert before.targets[name] != target
    elif conflict == "displaces-name":
        assert before.names[target] != name


def test_a_name_is_a_text():
    with pytest.raises(InvalidArgument, match="name"):
        name_conflict(read_names([]), 1, 5)  # pyright: ignore[reportArgumentType]


# Terminals


@given(st.text(st.sampled_from("a\r\n\t\x1b\x07\x9b\x85\x7f\x0b\u2028\xa0"), max_size=12))
def test_nothing_that_a_terminal_obeys_is_left(text):
    shown = neutral(text)
    assert not [c for c in shown if (ord(c) < 32 or 127 <= ord(c) < 160) and c not in "\t\n"]
    assert neutral(shown) == shown
    assert shown.count("\n") == len(re.findall("\r\n|\r|\n", text))
    kept = [c for c in text if c in "a\t\u2028\xa0"]
    assert [c for c in shown if c != "\n"] == kept
