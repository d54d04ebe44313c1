"""Strict JSON: what is read, what is refused and where, what is written."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctxalgebra import CODES, DecodeError
from ctxalgebra.codecs.lines import (
    MAX_DEPTH,
    Number,
    blank,
    clock,
    compact,
    integer,
    iso,
    parse,
    plain,
    read_file,
    spans,
    split,
)

# No lone surrogates: JSON text that holds one is refused.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e6, 1e6) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def refusal(text, **options):
    with pytest.raises(DecodeError) as caught:
        parse(text, **options)
    error = caught.value
    return error.code, error.line, error.field


def test_lines_end_at_lf_only():
    text = 'a\r\n"\u2028\u2029\x85\x0b\x0c"\n\nb'
    assert split(text.encode()) == ["a\r", '"\u2028\u2029\x85\x0b\x0c"', "", "b"]


def test_bytes_that_are_not_utf8_are_refused_with_their_line():
    with pytest.raises(DecodeError, match="byte 3 of the line") as caught:
        split(b"ok\nok\nab\xff\n", file="f")
    error = caught.value
    assert (error.code, error.file, error.line) == ("invalid-utf8", "f", 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("invalid-json", 1, None)),
        ("{", ("invalid-json", 1, None)),
        ("[1]\n\n x", ("invalid-json", 3, None)),
        ('{"a": "\t"}', ("invalid-json", 1, None)),
        ("01", ("invalid-json", 1, None)),
        ('"\\*"', ("invalid-json", 1, None)),
        ("NaN", ("invalid-number", 1, ".")),
        ('{"a": ["NaN", 1,\n {"b": -Infinity}]}', ("invalid-number", 2, "a[2].b")),
        ('{"x": 1, "a": {"b": Infinity}}', ("invalid-number", 1, "a.b")),
        ('"\\ud800"', ("lone-surrogate", 1, ".")),
        ('{"a": "\\\\ud800 \\ud83d\\ude00",\n"b": ["\\uDFFF"]}', ("lone-surrogate", 2, "b[0]")),
        ('{"a": {"\\ud800": 1}}', ("lone-surrogate", 1, "a")),
        ('{"\\ud800": 1}', ("lone-surrogate", 1, ".")),
        ("[" * 501 + "]" * 501, ("too-deep", 1, "[0]")),
        ('[1, "a,b", {"c": [2, 3]},\n' + "[" * 500, ("too-deep", 2, "[3]")),
        ('{"": ' + "[" * 500, ("too-deep", 1, ".")),
        ('{"a": "[", "b":\n' + "[" * 501, ("too-deep", 2, "b")),
        ('{"a": [[]], "b": {"c":' + "{" * 10_000, ("too-deep", 1, "b")),
    ],
)
def test_what_is_refused_and_where(text, expected):
    assert refusal(text) == expected
    code, line, field = expected
    assert refusal(text, line=7, file="f") == (code, line + 6, field)


def test_blank_lines_hold_only_the_white_space_of_json():
    assert [blank(line) for line in ("", " \t\r\n", "\xa0", "\x0b", "x")] == [True] * 2 + [
        False
    ] * 3


def test_the_limit_is_the_callers():
    assert refusal("[1, 2]", limit=5) == ("line-too-long", 1, None)
    assert parse("[1, 2]", limit=6) == [Number("1"), Number("2")]


def test_depth_counts_what_is_open_and_not_what_stands_in_strings():
    assert parse("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None
    many = json.dumps(["[" * 600] * 3 + [[]] * 600)
    assert len(parse(many)) == 603


def test_a_text_of_quotes_without_end_is_passed_over_once():
    # Each backslash hides the quote behind it: a scan that began anew at each would be quadratic.
    text = "[" * 501 + '"' + '\\"' * 400_000
    assert refusal(text) == ("too-deep", 1, "[0]")
    assert refusal('"' + '\\"' * 400_000 + "[" * 501) == ("invalid-json", 1, None)


def test_a_full_stack_is_no_other_exception():
    text = "[" * 400 + "]" * 400

    def deeper(left):
        return deeper(left - 1) if left else parse(text)

    codes = Counter()
    for depth in range(100, 980, 40):
        try:
            deeper(depth)
            codes["read"] += 1
        except DecodeError as error:
            codes[error.code] += 1
        except RecursionError:
            codes["ours"] += 1
    assert codes["read"]
    assert set(codes) <= {"read", "too-deep", "ours"}


def test_the_byte_order_mark_belongs_to_the_first_line():
    assert parse("\ufeff1") == Number("1")
    assert refusal("\ufeff1", line=2) == ("invalid-json", 2, None)


def test_of_equal_keys_the_last_holds_in_the_place_of_the_first():
    assert compact(parse('{"a": 1, "b": 2, "a": 3}')) == '{"a":3,"b":2}'


@given(VALUES)
@example({"a": [{}, [], '\u2028\x7f\x00"\\/'], "": None})
def test_values_come_back(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert compact(parse(text)) == text
    assert plain(compact(parse(json.dumps(value)))) == json.loads(json.dumps(value))


def test_numbers_keep_their_text_however_long():
    digits = "9" * 5000
    text = f"[0.000009,1.50,1E+2,-0,{digits}]"
    assert compact(parse(text)) == text
    assert plain(text)[:4] == [9e-06, 1.5, 100.0, 0]
    assert plain(text)[4] == digits
    assert integer(Number(digits)) is None
    assert integer(Number("-12")) == -12
    assert [integer(v) for v in (True, "1", None, Number("1.0"), Number("1e3"))] == [None] * 5


@given(st.lists(VALUES, max_size=5), st.sampled_from([None, 0, 2]))
def test_spans_find_the_elements_of_an_array(values, indent):
    text = json.dumps({"x": {"m": [9]}, "y": [0, {"m": [8], "n": values}], "z": 1}, indent=indent)
    start, end, inner = spans(text, ("y", 1, "n"))
    assert json.loads(text[start:end]) == json.loads(json.dumps(values))
    assert [json.loads(text[a:b]) for a, b in inner] == json.loads(json.dumps(values))


def test_spans_pass_over_a_byte_order_mark_and_take_the_last_of_equal_keys():
    text = '\ufeff {"m": [1], "m": [ 2 , 3 ] }'
    _, _, inner = spans(text, ("m",))
    assert [text[a:b] for a, b in inner] == ["2", "3"]


@pytest.mark.parametrize(
    "text",
    ["", "x", "2026-01-01", "2026-01-01T00:00:00", "9999-99-99T00:00:00Z", "0001-01-01T00:00:00"],
)
def test_what_is_no_time_is_none(text):
    assert clock(text) is None


def test_times_are_milliseconds_since_1970():
    assert clock("2026-05-12T01:02:27.657Z") == 1778547747657
    assert clock("2026-05-12T03:02:27.657+02:00") == 1778547747657
    assert iso(1778547747657) == "2026-05-12T01:02:27.657Z"
    assert iso(-1) == iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(10**30) == "9999-12-31T23:59:59.999Z"


@given(st.integers(0, 253_402_300_799_999))
def test_times_come_back(time):
    assert clock(iso(time)) == time


def test_files_that_cannot_be_read(tmp_path):
    def code(path):
        with pytest.raises(DecodeError) as caught:
            read_file(path)
        assert caught.value.file == str(path)
        return caught.value.code

    (tmp_path / "empty").write_bytes(b"")
    assert code(tmp_path) == "unreadable"
    assert code(tmp_path / "absent") == "unreadable"
    assert code("nul\0byte") == "unreadable"
    assert code(tmp_path / "empty") == "empty-file"
    (tmp_path / "full").write_bytes(b"x")
    assert read_file(tmp_path / "full") == b"x"


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda b: b.decode("latin-1")))
def test_any_text_is_a_value_or_one_error(text):
    code = None
    try:
        value = parse(text)
        assert compact(parse(compact(value))) == compact(value)
    except DecodeError as error:
        code = error.code
    assert code is None or code in CODES
