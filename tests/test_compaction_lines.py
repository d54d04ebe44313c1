"""Filters of lines: every line is shown, counted or blank; faults of the original; hostile text."""

from __future__ import annotations

import importlib.util
import json
import re
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra.compaction.lines_log import compress_error, compress_log
from ctxalgebra.compaction.lines_render import render
from ctxalgebra.compaction.lines_rules import DEFAULT, ORIGINAL, capped, choose
from ctxalgebra.compaction.lines_sample import compress_generic, compress_table, compress_tree
from ctxalgebra.compaction.lines_search import compress_search
from ctxalgebra.compaction.lines_selection import Kept, Mark, Selection, cut, omitted
from ctxalgebra.compaction.lines_source import compress_code, compress_config, compress_diff
from ctxalgebra.compaction.lines_test import compress_test
from ctxalgebra.compaction.signals import WHITE, strip_ansi, units
from ctxalgebra.conformance import door
from ctxalgebra.conformance.vectors import load

ROOT = Path(__file__).resolve().parents[1]
FILTERS = {
    "log": compress_log,
    "error": compress_error,
    "test": compress_test,
    "search": compress_search,
    "diff": compress_diff,
    "code": compress_code,
    "tree": compress_tree,
    "table": compress_table,
    "config": compress_config,
    "generic": compress_generic,
    "generic, few": partial(compress_generic, cap=7),
}
RULES = {"ours": DEFAULT, "original": ORIGINAL}


def lines(*parts):
    return "\n".join(line for part in parts for line in ([part] if isinstance(part, str) else part))


def shown(selection):
    return [kept.shown for kept in selection.kept]


def word(number):
    """Write a number with letters that make no hexadecimal."""
    return "".join("ghijklmnop"[int(digit)] for digit in str(number))


# Laws

LINE = st.sampled_from(
    [
        *(
            "",
            " ",
            "\u2003\t",
            "a",
            "a ",
            "b",
            "ok",
            "PASS x",
            "3 passed",
            "Tests: 3",
            "=== 1 failed",
        ),
        *(
            "ERROR 1234 no",
            "ERROR 1235 no",
            "ValueError: x",
            "2 failures",
            "WARN disk",
            " 50% disk",
        ),
        *(
            "2024-01-05 alice in",
            "2024-01-05 bob in",
            "2024-01-05T10:00:00Z up",
            "x\u2028y",
            "\x00",
        ),
        *("a.c:1: x", "a.c:2: disk", "b.c(3): y", "b.c:4:5-z", ":7: q", "C:\\d.c:8 w", "e:9:\rf"),
        *("diff --git a b", "@@ -1 +1 @@", "+new", "-old", "+++ b", "--- a", "index 12"),
        *("import x", "def f():", "  # why", "// TODO", "return 1", "[part]", "key = 1", "- k : v"),
        *("| a | b |", "src/x", "README.md", "- point", "## head", "1. one"),
        *("\x1b[31mred error\x1b[0m", "\x1b]0;error\x07t", "\x1b[", "\ud800", "\U0001f600" * 300),
        *("x" * 700, "y" * 450 + " error " + "z" * 450, "disk " * 200),
    ]
)
TEXT = st.lists(LINE, max_size=120) | st.lists(LINE, max_size=30).map(lambda some: some * 25)
QUERY = st.sampled_from(["", "disk?", "why alice. and x", "a.c def"])


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("name", FILTERS)
@given(given_lines=TEXT, query=QUERY, pressure=st.integers(0, 3))
def test_every_line_is_shown_or_counted_or_blank(name, rules, given_lines, query, pressure):
    text = "\n".join(given_lines)
    selection = FILTERS[name](text, query, pressure, rules=rules)
    if selection is None:
        return
    coloured = rules.coloured and selection.strategy in {"table", "config"}
    plain = text if coloured else strip_ansi(text)
    all_lines = plain.split("\n")
    numbers = [number for kept in selection.kept for number in kept.at]
    assert selection.total == len(all_lines)
    assert len(numbers) + selection.omitted + selection.blank == selection.total
    assert len(set(numbers)) == len(numbers)
    assert set(numbers) <= set(range(1, selection.total + 1))
    assert all(mark.lines > 0 or mark.kind in {"group", "other"} for mark in selection.marks)
    # No error is lost: it is shown, or a mark counts it.
    errors = {n for n, line in enumerate(all_lines, 1) if rules.error.search(line)}
    assert len(errors - set(numbers)) == sum(mark.errors for mark in selection.marks)
    # A kept line is one of those that it stands for, and the order is kept.
    for kept in selection.kept:
        assert kept.text.rstrip(WHITE) == all_lines[kept.at[0] - 1].rstrip(WHITE)
        assert list(kept.at) == sorted(kept.at)
        assert kept.alike or len({all_lines[n - 1].rstrip(WHITE) for n in kept.at}) == 1
    firsts = [kept.at[0] for kept in selection.kept]
    if selection.strategy != "search":
        assert firsts == sorted(firsts)
    # Only blank lines leave without a mark.
    blank = sum(not line.strip(WHITE) for line in all_lines)
    assert selection.blank <= blank


@pytest.mark.parametrize("name", FILTERS)
@given(given_lines=TEXT, query=QUERY)
def test_marks_stand_where_lines_lack_and_say_how_many(name, given_lines, query):
    """Read back from what is shown, for texts whose lines are no marks themselves."""
    selection = FILTERS[name]("\n".join(given_lines), query, 0)
    if selection is None:
        return
    written = render(selection).split("\n")
    instead = [mark for mark in selection.marks if mark.instead]
    lines_of_gaps = sum(len(mark.instead) for mark in instead)
    others = len(selection.kept) + len(selection.marks) - len(instead)
    assert len(written) == 1 + others + lines_of_gaps
    said = [re.search(r"^… (\d+) lines? omitted|\((\d+) lines?[,)].*…$", w) for w in written]
    progress = [re.search(r"^… (\d+) progress", line) for line in written]
    groups = [re.search(r"\((\d+) (?:match|matches|lines?); showing (\d+)", w) for w in written]
    counted = sum(int(one[1] or one[2]) for one in said if one)
    counted += sum(int(one[1]) for one in progress if one)
    counted += sum(int(one[1]) - int(one[2]) for one in groups if one)
    assert counted == selection.omitted - sum(mark.lines for mark in instead)
    shown_lines = sum(len(kept.at) for kept in selection.kept) + lines_of_gaps
    assert written[0].startswith(f"[{selection.strategy}: {shown_lines} of {selection.total} lines")


@pytest.mark.parametrize("name", FILTERS)
def test_no_mark_is_longer_than_what_it_leaves_out(name):
    for line in ("😀", "a b", "| a | b |", "x: 1", "é" * 21):
        selection = FILTERS[name](lines([line, "", f"{line} "] * 100), "", 0)
        for mark in selection.marks if selection else ():
            if mark.kind == "lines" and not mark.instead:
                assert mark.lines * (units(line) + 1) > len(omitted(mark.lines, mark.errors))


def test_lines_that_are_shorter_than_their_mark_stand_in_its_place():
    short = compress_generic("😀\n" * 300, "", 0)
    assert render(short).split("\n")[1:] == [*["😀"] * 300, ""]
    theirs = compress_generic("😀\n" * 300, "", 0, rules=ORIGINAL)
    assert not any(mark.instead for mark in theirs.marks)
    code = ["import a"] * 12 + ["x", "def f():", "y" * 9, "def g():"] + ["z" * 40] * 60
    written = render(compress_code(lines(code), "", 0))
    assert "   13 | x\n   14 | def f():" in written
    assert "   15 | yyyyyyyyy\n   16 | def g():" in written


@pytest.mark.parametrize("compact", [compress_table, compress_config])
def test_coloured_words_of_an_error_are_found(compact):
    filler = [f"{word(n)} | k: {n} | the usual state of things |" for n in range(200)]
    red = "\x1b[31mERROR\x1b[0m disk full"
    text = lines(filler[:90], red, filler[90:])
    ours = compact(text, "", 0)
    assert "ERROR disk full" in shown(ours)
    many = compact(lines([f"{red} {word(n)}" for n in range(300)]), "", 0)
    assert len(many.kept) + sum(mark.errors for mark in many.marks) == 300


def test_the_originals_rule_keeps_colours_in_tables():
    text = lines("\x1b[31mERROR\x1b[0m disk full", [f"row {n}" for n in range(99)])
    found = compress_table(text, "", 0, rules=ORIGINAL)
    assert shown(found)[0] == "\x1b[31mERROR\x1b[0m disk full"
    assert not any(mark.instead for mark in found.marks)


@given(st.lists(LINE, max_size=20), st.integers(0, 3))
def test_ours_and_the_originals_rules_agree_where_no_fault_shows(given_lines, pressure):
    """Lines without other forms of an error, dates and progress; fewer of weight than may stay."""
    fault = re.compile(r"(?i)error|fail|2024|%|\x1b")
    plain = [line for line in given_lines if not fault.search(line) and units(line) <= 420]
    text = "\n".join([*plain, *(f"filler {word(n)}" for n in range(150)), *plain])
    for name, compact in FILTERS.items():
        if name == "generic, few":
            continue
        ours = compact(text, "", pressure)
        theirs = compact(text, "", pressure, rules=ORIGINAL)
        assert (ours and shown(ours)) == (theirs and shown(theirs))


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("name", FILTERS)
def test_short_texts_and_texts_of_nothing_pass(name, rules):
    for text in ("", "\n", "a\nb", " \n" * 11):
        assert FILTERS[name](text, "", 0, rules=rules) is None


@given(st.text(max_size=80), st.integers(1, 30), st.integers(0, 20))
def test_a_cut_parts_no_character(text, head, tail):
    start, middle, end = cut(text, head, tail) if units(text) > head + tail else (text, "", "")
    assert start + middle + end == text
    if middle:
        assert units(start) in {head, head - 1}
        assert units(end) in {tail, max(0, tail - 1)}


@given(st.integers(-3, 30), st.lists(st.lists(st.integers(0, 40))))
def test_what_is_chosen_is_in_order_and_fits(cap, classes):
    chosen = choose(cap, *classes)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(max(cap, 0), len({place for each in classes for place in each}))


def test_pressure_gives_a_quarter_more_each_time():
    table = {
        (32, 80): [32, 40, 48, 56],
        (180, 240): [180, 225, 240, 240],
        (16, 40): [16, 20, 24, 28],
    }
    table |= {(110, 180): [110, 138, 165, 180], (50, 120): [50, 63, 75, 88]}
    for (base, most), caps in table.items():
        assert [capped(base, most, pressure) for pressure in range(4)] == caps
    assert capped(100, 200, -9) == 0


# Faults of the original

FAILURES = lines(*([f"FAIL t{n}", f"E   assert {n} == 0", "   a", "   b"] for n in range(60)))


def test_w4_different_errors_are_no_repeats():
    text = lines(
        [f"ERROR order {n} rejected" for n in range(10000, 10040)],
        ["2024-01-05T10:00:01Z ERROR refused", "2024-01-05T10:00:02Z ERROR refused"],
        [f"INFO order {n} stored" for n in range(10000, 10100)],
    )
    ours, theirs = compress_log(text, "", 0), compress_log(text, "", 0, rules=ORIGINAL)
    assert [line for line in shown(ours) if "rejected" in line] == text.split("\n")[:40]
    assert "2024-01-05T10:00:01Z ERROR refused  ×2" in shown(ours)
    assert shown(theirs)[0] == "ERROR order 10000 rejected  ×40"
    # What differs by numbers is not said to be the same.
    assert "INFO order 10000 stored  ×100 alike" in render(ours)


def test_w4_what_is_asked_for_is_not_folded_away():
    text = lines(f"INFO order {n} stored" for n in range(10000, 10100))
    assert shown(compress_log(text, "order 10044", 0)) == [
        "INFO order 10000 stored  ×99",
        "INFO order 10044 stored",
    ]


def test_w5_the_word_behind_a_date_is_no_part_of_it():
    text = lines(["2024-01-05 alice logged in", "2024-01-05 bob logged in"] * 20)
    assert shown(compress_log(text, "", 0)) == [
        "2024-01-05 alice logged in  ×20",
        "2024-01-05 bob logged in  ×20",
    ]
    assert shown(compress_log(text, "", 0, rules=ORIGINAL)) == ["2024-01-05 alice logged in  ×40"]


def test_w6_what_is_asked_for_is_no_progress():
    text = lines(["INFO steady"] * 59, "WARN disk usage at 97% on /dev/sda1", " 50% built")
    asked = "why is the disk usage high on /dev/sda1"
    ours, theirs = compress_log(text, asked, 0), compress_log(text, asked, 0, rules=ORIGINAL)
    assert shown(ours) == ["INFO steady  ×59", "WARN disk usage at 97% on /dev/sda1"]
    assert ours.marks == (Mark(2, 1, kind="progress"),)
    assert shown(theirs) == ["INFO steady  ×59"]
    assert "… 2 progress lines omitted …" in render(theirs)


@pytest.mark.parametrize(
    ("compact", "line"),
    [(compress_generic, "- bullet"), (compress_tree, "src/x"), (compress_table, "| disk | x |")],
)
def test_w7_the_end_and_errors_stay_whatever_else_matters(compact, line):
    text = lines([line] * 300, "ERROR: no room", [f"tail {n}" for n in range(2)])
    ours, theirs = compact(text, "disk", 0), compact(text, "disk", 0, rules=ORIGINAL)
    assert shown(ours)[-3:] == ["ERROR: no room", "tail 0", "tail 1"]
    assert len(ours.kept) == len(theirs.kept)
    # The original loses them, and here at least a mark says so.
    assert shown(theirs) == [line] * len(theirs.kept)
    assert theirs.marks == (Mark(len(theirs.kept), 303 - len(theirs.kept), errors=1),)
    assert render(theirs).endswith("lines omitted, 1 with error words …")


def test_w7_code_and_configuration_are_thinned_out_evenly():
    code = lines([f"def {word(n)}():" for n in range(400)], "raise ValueError")
    numbers = [kept.at[0] for kept in compress_code(code, "", 0).kept]
    assert len(numbers) == 180
    assert max(after - before for before, after in pairwise(numbers)) <= 3
    assert compress_code(code, "", 0).omitted == 221
    config = lines([f"k{n}: {'v' * 9}" for n in range(300)], "x ValueError", "[end]")
    assert shown(compress_config(config, "", 0))[-2:] == ["x ValueError", "[end]"]
    assert shown(compress_config(config, "", 0, rules=ORIGINAL))[-1] == "k109: vvvvvvvvv"


def test_w8_no_failure_is_lost_in_the_middle():
    ours, theirs = compress_test(FAILURES, "", 0), compress_test(FAILURES, "", 0, rules=ORIGINAL)
    assert [line for line in shown(ours) if line.startswith("FAIL")] == [
        f"FAIL t{n}" for n in range(60)
    ]
    assert len(theirs.kept) == 140
    assert sum(line.startswith("FAIL") for line in shown(theirs)) == 35
    # What the original loses is marked, with how many failures it holds.
    assert "… 100 lines omitted, 50 with error words …" in render(theirs)


def test_w8_more_failures_than_may_stay_are_counted():
    text = lines(*([f"FAIL {word(n)}", "  x"] for n in range(1000)))
    selection = compress_test(text, "", 0)
    assert len(selection.kept) == 140
    assert sum(mark.errors for mark in selection.marks) == 1000 - sum(
        line.startswith("FAIL") for line in shown(selection)
    )


def test_w12_a_cut_line_holds_whole_characters():
    line = "x" * 449 + "\U0001f600" + "y" * 400
    text = lines(line, [f"filler {word(n)}" for n in range(300)])
    for rules in RULES.values():
        first = shown(compress_generic(text, "", 0, rules=rules))[0]
        assert first == "x" * 449 + "…" + "y" * 40
    marked = render(compress_generic(text, "", 0)).split("\n")[1]
    assert marked == "x" * 449 + "…[361 characters omitted]…" + "y" * 40


def test_w13_no_mark_in_front_of_the_first_line_and_one_behind_the_last():
    text = lines("import a", ["  x"] * 60, "def f():", ["  y"] * 30)
    assert render(compress_code(text, "", 0)).split("\n") == [
        "[code: 16 of 92 lines]",
        "    1 | import a",
        *(f"{n:>5} |   x" for n in range(2, 11)),
        "… 51 lines omitted …",
        "   62 | def f():",
        "… 25 lines omitted …",
        *(f"{n:>5} |   y" for n in range(88, 93)),
    ]
    tail = lines([f"+{n}" for n in range(10)], [" same"] * 40)
    assert render(compress_diff(tail, "", 0)).split("\n")[-1] == "… 39 lines omitted …"
    config = lines([f"k{n}: {'v' * 9}" for n in range(300)])
    assert render(compress_config(config, "", 0)).count("omitted") > 50


def test_w14_other_forms_of_an_error_stay():
    said = ["ValueError: boom", "thread 'main' panicked at x", "2 errors, 3 failures"]
    said.append("java.lang.NullPointerException")
    filler = [f"fetched {word(n)}" for n in range(200)]
    text = lines(*(part for n, line in enumerate(said) for part in (filler[n * 50 :][:50], line)))
    for compact in FILTERS.values():
        selection = compact(text, "", 0)
        if selection is not None and len(selection.kept) > 12:
            assert [line for line in shown(selection) if line in said] == said
    theirs = compress_generic(text, "", 0, rules=ORIGINAL)
    assert [kept.text for kept in theirs.kept if kept.text in said] == said[2:]
    panicked = lines(filler[:100], said[1], filler[100:])
    assert compress_error(panicked, "", 0).focused
    assert "thread 'main' panicked at x" in shown(compress_error(panicked, "", 0))


def test_w20_one_long_line_is_shortened():
    text = "x" * 100_000 + " ValueError " + "y" * 60_000
    assert compress_generic(text, "", 0, rules=ORIGINAL) is None
    selection = compress_generic(text, "", 0)
    assert selection.kept == (Kept(text, (1,), (450, 40)),)
    assert render(selection).split("\n") == [
        "[generic: 1 of 1 lines]",
        "x" * 450 + "…[159522 characters omitted, error words among them]…" + "y" * 40,
    ]
    # In the company of others, too; and not where it would save next to nothing.
    many = compress_generic(lines("say", text, "more"), "", 0)
    assert [units(line) for line in shown(many)] == [3, 491, 4]
    assert compress_generic(lines("x" * 530, [word(n) * 50 for n in range(60)]), "", 0) is None


# What each filter keeps


def test_a_log_of_different_lines_is_a_text_like_any_other():
    text = lines(f"line {word(n)}" for n in range(300))
    selection = compress_log(text, "", 1)
    assert selection.strategy == "generic"
    assert len(selection.kept) == 156


def test_patterns_that_find_no_room_are_counted_with_their_lines():
    text = lines([f"p {word(n)}" for n in range(150)] * 2, "ValueError", ["50%"] * 3)
    selection = compress_log(text, "", 0)
    assert len(selection.kept) == 100
    assert selection.marks == (
        Mark(100, 3, kind="progress"),
        Mark(100, 102, kind="patterns", of=51),
    )
    assert render(selection).split("\n")[-2:] == [
        "… 3 progress lines omitted …",
        "… 51 more patterns omitted (102 lines) …",
    ]


def test_more_errors_than_may_stay_are_counted():
    text = lines([f"ERROR {word(n)}" for n in range(150)], ["same"] * 100)
    ours, theirs = compress_log(text, "", 0), compress_log(text, "", 0, rules=ORIGINAL)
    assert len(ours.kept) == 100
    assert sum(mark.errors for mark in ours.marks) == 50
    assert len(theirs.kept) == 150


def test_an_error_is_shown_with_what_is_around_it():
    text = lines([f"step {n}" for n in range(40)], "FATAL boom", [f"after {n}" for n in range(40)])
    selection = compress_error(text, "", 0)
    assert [kept.at[0] for kept in selection.kept] == [*range(1, 9), *range(38, 48), *range(66, 82)]
    assert render(selection).startswith("[error: 34 of 81 lines, errors and what is around them]")
    # Where that is nearly everything, patterns are folded.
    dense = lines(["ERROR a", "b", "c"] * 30)
    assert shown(compress_error(dense, "", 0)) == ["ERROR a  ×30", "b  ×30", "c  ×30"]
    assert compress_error(dense, "", 0).strategy == "error"


def test_passing_lines_of_a_test_run_are_counted():
    text = lines(["PASS a"] * 60, "[ 50%] x", "50% y", [f"end {n}" for n in range(12)])
    selection = compress_test(text, "", 0)
    assert (selection.passes, selection.progress) == (60, 1)
    assert render(selection).split("\n")[:2] == [
        "[test: 12 of 74 lines; 60 lines passing]",
        "… 62 lines omitted …",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "Test Suites: 1",
        "tests: 4",
        "Ran 5 tests",
        "==== 3 passed ====",
        "== error ==",
        "  12 passed, 3 skipped",
        "Duration 3 s",
        "collected 12 items",
        "short test summary info",
    ],
)
def test_summaries_of_test_runs_stay(line):
    assert line in shown(compress_test(lines(["x"] * 30, line, ["y"] * 30), "", 0))


def test_matches_are_shown_by_file():
    text = lines(
        [f"a.c:{n}: x" for n in range(40)],
        ["b.c(3): ERROR", "C:\\d.c:8:9-w", "", ":5: no file", "Binary file x", "ValueError: y"],
    )
    selection = compress_search(text, "", 0)
    assert render(selection).split("\n")[1] == "a.c (40 matches; showing 16)"
    assert render(selection).split("\n")[18:] == [
        "b.c (1 match)",
        "  b.c(3): ERROR",
        "C:\\d.c (1 match)",
        "  C:\\d.c:8:9-w",
        "Other (3 lines; showing 1)",
        "  ValueError: y",
    ]
    assert selection.blank == 1


def test_errors_in_matches_come_first_and_those_left_are_counted():
    text = lines([f"a.c:{n}: {'error' if n > 10 else 'x'}" for n in range(40)], "b.c:1: y")
    selection = compress_search(text, "", 0)
    assert [kept.at[0] for kept in selection.kept] == [1, 2, *range(12, 25), 40, 41]
    assert render(selection).split("\n")[1] == (
        "a.c (40 matches; showing 16; omitted, 15 with error words)"
    )


def test_long_matches_are_cut_in_the_middle():
    long = "a.c:1:" + "x" * 500
    selection = compress_search(lines(long, ["b.c:1: y"] * 30), "", 0)
    assert selection.kept[0].shown == long[:360] + "…" + long[-40:]


def test_matches_of_one_file_are_a_text_like_any_other():
    selection = compress_search(lines(f"a.c:{n}: {word(n)}" for n in range(300)), "", 1)
    assert selection.strategy == "generic"
    assert len(selection.kept) == 173


def test_line_ends_of_other_kinds_may_follow_a_number_only():
    odd = ["a.c:1\rx", "a.c:2\u2028x", "b.c:3: x\ry", "b.c\u2029:4: z", "b.c:5\r\ru", "b.c:x\r"]
    selection = compress_search(lines(odd, ["a.c:9: x"] * 20, ["d.c:9: x"] * 5), "", 0)
    marks = [(mark.name, mark.of) for mark in selection.marks]
    assert marks == [("a.c", 22), ("d.c", 5), ("", 4)]


def test_a_diff_keeps_what_changed_and_one_line_around():
    text = lines("diff --git a b", "@@ -1 +1 @@", [" c"] * 40, "-x", "+y", [" d"] * 40, " disk")
    assert [kept.at[0] for kept in compress_diff(text, "disk", 0).kept] == [
        1,
        2,
        42,
        43,
        44,
        45,
        85,
    ]
    wide = lines(*([f"+{n}", " a", " b", " c", " d", " e"] for n in range(200)))
    assert len(compress_diff(wide, "", 0).kept) == 220
    assert compress_diff(lines(["+x"] * 40), "", 0) is None


def test_sources_that_are_all_signature_pass():
    assert compress_code(lines(["import x"] * 50), "", 0) is None
    ends = lines(["x"] * 43, "import a", "import b")
    assert len(compress_code(ends, "", 0).kept) == 15


def test_a_configuration_of_keys_only_passes():
    assert compress_config(lines(["k: v"] * 40), "", 0) is None
    assert compress_config(lines([f"{'k' * 40}: v"] * 40, "x"), "", 0) is None


def test_a_table_that_mostly_matters_passes():
    assert compress_table(lines(["| a | b |"] * 30), "", 0) is None


# The door


@pytest.mark.parametrize(
    "vector",
    [v for v in load([ROOT / "tests" / "vectors" / "v1"]) if v.file.endswith("skills_lines.jsonl")],
    ids=lambda vector: vector.id,
)
def test_the_door_gives_what_our_vectors_say(vector):
    assert door.result(vector.operation, vector.input) == {"output": vector.output}


def test_the_door_refuses_rules_that_nobody_knows():
    given_ = {"text": "a", "query": "", "pressure": 0}
    for name in ("log", "test", "search", "diff", "code", "tree", "table", "config", "generic"):
        told = door.result(f"skills.compress_{name}", {**given_, "rules": "mine"})
        assert told["error"]["code"] == "invalid-input"
        assert door.result(f"skills.compress_{name}", given_) == {"output": None}


# Hostile text

LARGE = [
    "\n",
    "a\n",
    " ",
    "|",
    "=",
    "\x1b]",
    "1:",
    "1:1\r",
    "ERROR\n",
    "\U0001f600",
    "x:1:y\ny:1:z\n",
]
LARGE += ["k :\n", "+a\n", " 50% \n", "FAIL\n\n", "2024-01-01 "]


@pytest.mark.parametrize("name", FILTERS)
def test_w39_one_megabyte_of_hostile_text_is_filtered_in_linear_time(name):
    """Four times as much takes about four times as long; sixteen times would be quadratic."""
    compact = FILTERS[name]

    def act(size):
        each = size // len(LARGE)
        parts = [f"{(piece * each)[:each]}x" for piece in LARGE]
        text = lines(["x"] * 50, *parts, ["y"] * 50)
        start = time.process_time()
        selection = compact(text, "why error in src/ab.py, database?", 0)
        written = "" if selection is None else render(selection)
        return time.process_time() - start, len(written)

    small, _ = act(250_000)
    large, written = act(1_000_000)
    assert large < 10 * small + 0.3
    assert written < 1_100_000


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("around", [0, 2, 60])
def test_w20_a_line_of_a_megabyte_is_cut_wherever_it_stands(name, around):
    before, after = ([f"{sign}{word(n)}" for n in range(around)] for sign in "ab")
    text = lines(before, "x" * 500_000 + " error " + "y" * 500_000, after)
    selection = FILTERS[name](text, "", 0)
    assert selection is not None
    written = render(selection)
    assert len(written) < 4000
    assert "characters omitted, error words among them" in written or "with error words" in written
    assert len(selection.kept) + selection.omitted + selection.blank == selection.total


# The benchmark


def test_the_benchmark_measures_what_is_compacted(capsys):
    spec = importlib.util.spec_from_file_location(
        "compaction", ROOT / "benchmarks" / "compaction.py"
    )
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    for line, compact in bench.FILTERS.values():
        text = bench.output(line, 30_000)
        assert text == bench.output(line, 30_000)
        assert isinstance(compact(text), Selection)
        assert len(render(compact(text))) < len(text)
    bench.main(["--size", "30000", "--runs", "1"])
    assert "mixed" in capsys.readouterr().out
    bench.main(["--size", "30000", "--runs", "1", "--json"])
    speeds = json.loads(capsys.readouterr().out)["mb_per_second"]
    assert speeds.keys() == bench.FILTERS.keys() | {"mixed", "re"}
