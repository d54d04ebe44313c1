"""Compaction of JSON: what is read is written back, samples, constants, hostile input."""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxalgebra.compaction.jsontext import (
    MAX_DEPTH,
    Number,
    compact,
    leaves,
    parse,
    plain,
    pretty,
    same,
    worth,
)
from ctxalgebra.compaction.limits import keeps
from ctxalgebra.compaction.lines_rules import ORIGINAL
from ctxalgebra.compaction.sampling import Sample, sample, shown
from ctxalgebra.compaction.signals import ERROR_WORDS, text_terms
from ctxalgebra.compaction.structured import (
    MARK,
    array_cap,
    compress_json,
    render_events,
    render_json,
    shorten,
    try_ndjson,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=20,
)


def deep(levels, act):
    """Act so many calls further down."""
    return act() if levels == 0 else deep(levels - 1, act)


def almost_full():
    """How many calls are left, less 120."""
    frame, used = sys._getframe(), 0
    while frame:
        frame, used = frame.f_back, used + 1
    return sys.getrecursionlimit() - used - 120


# JSON texts


@given(VALUES)
def test_what_is_read_is_written_as_it_was(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert compact(parse(text)) == text
    assert pretty(parse(text)) == json.dumps(value, ensure_ascii=False, indent=2)
    assert plain(parse(text)) == value


@given(
    st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)
)
def test_numbers_keep_their_digits(text):
    assert compact(parse(text)) == text
    assert compact(parse(f"[{text}]")) == f"[{text}]"
    assert pretty(parse(f'{{"a":{text}}}')) == f'{{\n  "a": {text}\n}}'


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1,]", "NaN", "[Infinity]", "-Infinity", "\ufeff[]", "[] []", "'a'", "[01]", '"\n"'],
)
def test_what_is_no_json(text):
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_depth_has_a_bound():
    level = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse(level) is not None
    assert parse(json.dumps([[], {}] * 600)) is not None
    assert parse('["' + "[" * 600 + '"]') == ["[" * 600]
    with pytest.raises(ValueError, match="500 levels"):
        parse(f"[{level}]")
    with pytest.raises(ValueError, match=r"."):
        parse("[" * 1_000_000)


def test_a_caller_that_is_deep_down_gets_no_other_error():
    text = "[" * 400 + "1.50" + "]" * 400
    value = parse(text)
    with pytest.raises(ValueError, match="almost full"):
        deep(almost_full(), lambda: parse(text))
    assert deep(almost_full(), lambda: compact(value)) == text
    whole = parse(text.replace("1.50", "1"))
    assert deep(almost_full(), lambda: compact(whole)) == text.replace("1.50", "1")


def test_lone_surrogates_are_written_as_escapes():
    assert compact(["\ud800a", "\ud83d\ude00", "é"]) == '["\\ud800a","\ud83d\ude00","é"]'
    assert pretty({"\udfff": Number("1.0")}) == '{\n  "\\udfff": 1.0\n}'


def test_what_numbers_are_worth():
    assert worth(Number("1e99999999999999999999")) == "1e99999999999999999999"
    assert same(Number("10.0")) == same(10)
    assert len({same(1), same("1"), same(None), same("null"), same(value=True)}) == 5
    assert plain(Number("9" * 5000)) == "9" * 5000
    assert plain(parse("[-0, -1.5e3, 1e400]")) == [0, -1500.0, "1e400"]


def test_leaves_are_the_texts():
    value = parse('{"a": ["x", {"b": "y"}], "n": 1, "zero": 0.0, "none": [], "z": 0.00}')
    assert leaves(value) == "x\ny"
    assert leaves(value, filled=True).split() == ["a", "x", "b", "y", "n"]


# Samples

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 99) | st.sampled_from([10**18 + 1, 10**18 + 2]),
            "state": st.sampled_from(["up", "down", "failed", None, True]),
            "host": st.just("a") | st.sampled_from(["b", 1, "1"]),
        },
        optional={"note": st.text(max_size=5)},
    ),
    min_size=1,
    max_size=60,
)


@given(ROWS, st.integers(1, 20), st.booleans())
def test_a_sample_says_what_it_leaves_out(rows, cap, bounded):
    taken = sample(rows, ("failed", "down"), cap, bounded=bounded)
    count = len(rows)
    assert all(before < after for before, after in pairwise(taken.selected))
    assert taken.selected[0] == 0
    assert taken.selected[-1] == count - 1
    constants = dict(taken.constants)
    for at, row in zip(taken.selected, shown(rows, taken), strict=True):
        assert {**row, **constants} == rows[at]
        assert not row.keys() & constants.keys()
    alarms = {at for at, row in enumerate(rows) if ERROR_WORDS.search(leaves(row))}
    if count <= cap:
        assert taken == Sample(tuple(range(count)))
    elif bounded:
        assert len(taken.selected) <= max(3 * max(8, cap), 8)
        assert taken.errors == len(alarms - set(taken.selected))
    else:
        assert alarms <= set(taken.selected)


def test_arrays_of_other_things():
    texts = ["calm"] * 30
    texts[17] = "raised ValueError('x')"
    assert 17 in sample(texts, (), 8).selected
    mixed = [1, "a", None, {"error": 1}, [2]] * 5
    taken = sample(mixed, (), 8)
    assert {at for at, item in enumerate(mixed) if isinstance(item, dict)} <= set(taken.selected)
    assert taken.constants == ()
    assert sample(range(30), ("29", "28", "27", "26", "25", "24", "23"), 8).selected == (
        0, 1, 2, 23, 24, 25, 28, 29,
    )  # fmt: skip


def test_numbers_that_stand_out_and_those_that_can_t():
    rows = [{"n": float(n % 3), "huge": Number("1e400")} for n in range(40)]
    rows[20]["huge"] = Number("2e400")
    rows[30]["n"] = 1000.0
    taken = sample(rows, (), 8)
    assert {29, 30, 31} <= set(taken.selected)
    wide = [{"n": 1e200 if n % 2 else -1e200} for n in range(40)]
    assert len(sample(wide, (), 8).selected) == 8
    steps = [{"n": n} for n in range(40)]
    assert len(sample(steps, (), 8).selected) == 8


def test_objects_and_arrays_are_no_constants():
    rows = [{"a": {}, "b": [], "c": "same", "d": n} for n in range(20)]
    assert sample(rows, (), 8).constants == (("c", "same"),)


# Compacted JSON


def test_w1_what_all_events_have_is_shown():
    line = '{"level":"info","host":"prod-7","region":"eu-west","seq":%d,"msg":"event %d"}'
    found = try_ndjson("\n".join(line % (n, n) for n in range(60)), "", 0)
    head = render_events(found).split("\n")[0]
    assert head == (
        "[NDJSON compacted: 60→31 events; in each of them: "
        '{"level":"info","host":"prod-7","region":"eu-west"}]'
    )
    assert len(render_events(found).split("\n")) == 32


def test_w2_ids_beyond_what_a_double_holds_stay_apart():
    first = 1234567890123456789
    text = json.dumps({"items": [{"id": first + n, "v": "x" * 20} for n in range(60)]})
    found = compress_json(text, "", 0)
    assert [one.constants for one in found.summaries] == [1]
    written = render_json(found)
    assert f'"id":{first}' in written
    assert f'"id":{first + 59}' in written
    assert "1234567890123456800," not in written


def test_w3_a_number_is_no_text():
    text = json.dumps([{"code": "1" if n % 2 else 1, "pad": "p" * 30} for n in range(60)])
    items = plain(compress_json(text, "", 0).value)["items"]
    assert {type(item["code"]) for item in items} == {int, str}


def test_w9_no_key_is_special():
    text = json.dumps([{"__proto__": n, "constructor": "x", "pad": "p" * 30} for n in range(60)])
    value = plain(compress_json(text, "", 0).value)
    assert all("__proto__" in item for item in value["items"])
    assert value[MARK]["constants"] == {"constructor": "x", "pad": "p" * 30}


@pytest.mark.parametrize(
    "value",
    [
        [{"up": n % 2 == 0, "service": f"service {n % 7}", "n": n} for n in range(500)],
        [{"error": None, "id": n, "name": f"item {n}"} for n in range(500)],
        [[row * 200 + n for n in range(200)] for row in range(40)],
        [{"error": f"failed {n}", "n": n} for n in range(500)],
        {"rows": [{"error": None, "inner": [{"n": n} for n in range(50)]} for _ in range(40)]},
    ],
)
def test_w20_what_is_essential_everywhere_is_sampled_all_the_same(value):
    text = json.dumps(value)
    written = render_json(compress_json(text, "", 0))
    assert len(written) * 3 < len(text) * 2
    assert keeps(len(text), len(written))


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ([{"i": n, "flag": n % 2 == 0, "m": f"row {n}"} for n in range(200)], 200),
        ([{"i": n, "error": None} for n in range(60)], 60),
        ([{"i": n, "a": list(range(50))} for n in range(60)], 31),
        (["2 errors" if n == 19 else "calm" for n in range(60)], 31),
    ],
)
def test_the_originals_rule_shows_what_is_essential_and_arrays_inside_whole(rows, shown):
    text = json.dumps(rows)
    found = compress_json(text, "", 0, rules=ORIGINAL)
    assert [(one.path, one.shown, one.errors) for one in found.summaries] == [("$", shown, 0)]
    kept = plain(found.value)
    assert kept[MARK]["original_indexes"] == list(sample(rows, (), 32, rules=ORIGINAL).selected)
    once = kept[MARK].get("constants", {})
    whole = [{**item, **once} if once else item for item in kept["items"]]
    assert whole == [rows[at] for at in kept[MARK]["original_indexes"]]
    lines = try_ndjson("\n".join(map(json.dumps, rows)), "", 0, rules=ORIGINAL)
    assert (len(lines.events), lines.errors) == (shown, 0)
    ours = render_json(compress_json(text, "", 0))
    assert len(ours) <= len(render_json(evolve(found, tight=True)))


def test_the_originals_rule_keeps_the_end_of_a_sentence_in_what_is_asked_for():
    rows = ["disk." if n == 40 else "disk" if n == 50 else "calm" for n in range(60)]
    text = json.dumps([{"s": row, "n": n} for n, row in enumerate(rows)])
    at = compress_json(text, "the disk.", 0, rules=ORIGINAL).value[MARK]["original_indexes"]
    assert 40 in at
    assert text_terms("the disk.") == ("disk",)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("count", "inner"), [(60, 50), (40, 200), (100, 33), (60, 35), (20, 35), (400, 400)]
)
def test_ours_is_never_longer_than_the_originals_rule_without_white_space(count, inner, indent):
    value = [{"i": n, "a": list(range(inner))} for n in range(count)]
    text = json.dumps(value, indent=indent)
    theirs = compress_json(text, "", 0, rules=ORIGINAL)
    ours = compress_json(text, "", 0)
    if count > 20:
        assert keeps(len(json.dumps(value)), len(render_json(ours)))
    if theirs is None:
        assert ours is None
    else:
        assert len(render_json(ours)) <= len(render_json(evolve(theirs, tight=True)))


@settings(max_examples=30)
@given(VALUES, st.integers(33, 80), st.integers(0, 80))
def test_no_view_of_ours_is_longer(value, count, inner):
    rows = [{"v": value, "n": [n] * inner} for n in range(count)]
    text = json.dumps({"rows": rows, "few": rows[:2], "one": [value] * 40})
    theirs = compress_json(text, "error", 0, rules=ORIGINAL)
    ours = compress_json(text, "error", 0)
    assert len(render_json(ours)) <= len(render_json(evolve(theirs, tight=True)))
    by_path = {one.path: one for one in ours.summaries}
    assert len(by_path) == len(ours.summaries)


def test_arrays_inside_sampled_items_say_how_many_they_were():
    text = json.dumps([{"i": n, "a": list(range(200))} for n in range(40)])
    found = compress_json(text, "", 0)
    inside = plain(found.value)["items"][0]["a"]
    assert inside[MARK] == {"original_items": 200}
    assert len(inside["items"]) == 32
    assert found.summaries[1].shown == 32


def test_w20_errors_that_are_left_out_are_counted():
    rows = [{"n": n, "state": "failed" if n % 2 else "well"} for n in range(400)]
    found = compress_json(json.dumps(rows), "", 0)
    kept = plain(found.value)["items"]
    left = 200 - sum(item["state"] == "failed" for item in kept)
    assert found.summaries[0].errors == left > 0
    assert f"; {left} that name an error left out" in render_json(found)
    assert plain(found.value)[MARK]["errors_left_out"] == left
    lines = try_ndjson("\n".join(map(json.dumps, rows)), "", 0)
    assert lines.errors == left
    assert f"{left} that name an error left out]" in render_events(lines)


def test_events_that_do_not_get_shorter_are_given_all_the_same():
    rows = [json.dumps({"on": n % 2 == 0, "x": "y" * (n % 5)}) for n in range(90)]
    found = try_ndjson("\n".join(rows), "", 0)
    assert (found.items, len(found.events), found.errors) == (90, 90, 0)
    short = try_ndjson("\n".join(str(n % 10) for n in range(33)), "", 0)
    assert (short.items, len(short.events)) == (33, 29)


def test_small_arrays_and_short_texts_are_nothing_to_take_from():
    assert compress_json(json.dumps({"a": list(range(32)), "b": "c" * 320}), "", 0) is None
    assert compress_json("nothing", "", 0) is None
    text = json.dumps({"a": "b" * 4000})
    found = compress_json(f"\ufeff {text}\n", "", 0)
    assert found.summaries == ()
    assert render_json(found) == '{"a":"' + shorten("b" * 4000) + '"}'
    found = compress_json(text, "", 0, rules=ORIGINAL)
    assert render_json(found) == '{\n  "a": "' + shorten("b" * 4000) + '"\n}'


def test_arrays_everywhere_are_named_with_their_path():
    value = {"a": [{"b": [0] * 400}, {"c": [1] * 410}], "d": {"e": [2] * 420}, "f": [[3] * 430]}
    found = compress_json(json.dumps(value), "", 0)
    assert [one.path for one in found.summaries] == ["a[0].b", "a[1].c", "d.e", "f[0]"]
    more = compress_json(json.dumps([*[[0] * 400] * 6]), "", 0)
    assert render_json(more).split("\n")[0].endswith("| 2 more arrays]")
    inside = compress_json(json.dumps([[n] * 400 for n in range(40)]), "", 0)
    assert [one.path for one in inside.summaries[:3]] == ["$", "$[0]", "$[1]"]
    assert inside.summaries[-1].path == "$[39]"


def test_a_path_is_bounded():
    value: object = [0] * 400
    for _ in range(50):
        value = {"k" * 1000: value}
    (one,) = compress_json(json.dumps(value), "", 0).summaries
    assert one.path.startswith("…")
    assert len(one.path) < 400


def test_pressure_shows_more():
    text = json.dumps([{"n": n, "pad": "p" * 20} for n in range(200)])
    counts = [compress_json(text, "", level).summaries[0].shown for level in range(4)]
    assert counts == sorted(counts)
    assert counts[0] < counts[3]
    assert array_cap(3) == 56


def test_json_lines_need_eight_and_more_than_are_shown():
    assert try_ndjson("\n".join("{}" for _ in range(7)), "", -10) is None
    assert try_ndjson("\n".join("{}" for _ in range(32)), "", 0) is None
    assert try_ndjson("\n".join("{}" for _ in range(40)) + "\nno", "", 0) is None
    found = try_ndjson("\n \n".join(f'["{"x" * 400}", {n}]' for n in range(40)), "", 0)
    assert all("chars omitted" in event[0] for event in found.events)


def test_what_was_asked_for_is_shown():
    text = json.dumps([{"n": n, "mount": f"/dev/sd{n}", "pad": "p" * 30} for n in range(200)])
    value = plain(compress_json(text, "why is /dev/sd157 full?", 0).value)
    assert "/dev/sd157" in {item["mount"] for item in value["items"]}


# Hostile input


def cost(act, text):
    """Measure a run, in seconds of the processor."""
    start = time.process_time()
    act(text)
    return time.process_time() - start


HOSTILE = {
    "brackets": lambda size: "[" * size,
    "pairs": lambda size: "[" + "[]," * (size // 3) + "[]]",
    "quotes": lambda size: '["' + '\\"' * (size // 2),
    "backslashes": lambda size: '["' + "\\" * size + '"]',
    "levels": lambda size: "[" * 400 + "0," * (size // 2) + "0" + "]" * 400,
    "a long name": lambda size: json.dumps({"k" * (size // 2): [[0] * 40] * (size // 260)}),
    "digits": lambda size: "[" + "1" * size + "]",
    "an error each": lambda size: json.dumps(["error"] * (size // 9)),
    "columns": lambda size: json.dumps([{f"c{n}": n for n in range(200)}] * (size // 2000)),
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_w39_hostile_json_costs_what_it_is_long(shape):
    def both(text):
        compress_json(text, "error of the disk", 0)
        try_ndjson("\n".join([text] * 40) if len(text) < 10 else text.replace(",", "\n"), "x", 0)

    few, many = (cost(both, HOSTILE[shape](size)) for size in (62_500, 1_000_000))
    assert many < 100 * max(few, 0.001)  # sixteen times as long; a quadratic rule costs 256 times
