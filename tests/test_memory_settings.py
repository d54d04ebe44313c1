"""Settings of a working memory from environment variables, and how flags and numbers are read."""

from __future__ import annotations

import math
import re

import pytest
from attrs import fields
from hypothesis import example, given
from hypothesis import strategies as st

from ctxalgebra import InvalidArgument
from ctxalgebra.transforms.memory_settings import (
    VARIABLES,
    MemorySettings,
    flag,
    memory_settings,
    number,
)

NUMBERS = [f.name for f in fields(MemorySettings) if type(f.default) is int]
FLAGS = [f.name for f in fields(MemorySettings) if type(f.default) is bool]


def test_nothing_said_leaves_the_defaults():
    assert memory_settings({}) == MemorySettings()
    assert memory_settings({"PATH": "/bin", "PI_CTX_OTHER": "1"}) == MemorySettings()


def test_each_field_has_a_variable_of_its_own():
    assert list(VARIABLES) == [f.name for f in fields(MemorySettings)]
    assert len(set(VARIABLES.values())) == len(VARIABLES)
    assert len(NUMBERS) + len(FLAGS) + 2 == len(VARIABLES)
    for field in NUMBERS:
        loaded = memory_settings({VARIABLES[field]: "77"})
        assert getattr(loaded, field) == 77
        assert loaded != MemorySettings()
    for field in FLAGS:
        word = "1" if field == "enabled" else "0"
        loaded = memory_settings({VARIABLES[field]: word})
        assert getattr(loaded, field) is False


def test_texts_are_taken_as_they_are_and_no_model_is_none():
    env = {"PI_CTX_AUX_MODEL": " a/b ", "PI_CTX_LOG_FILE": ""}
    loaded = memory_settings(env)
    assert (loaded.aux_model, loaded.log_file) == (" a/b ", "")
    assert memory_settings({"PI_CTX_AUX_MODEL": ""}).aux_model is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", True), ("true", True), ("tRuE", True), ("", False), ("0", False), ("yes", False),
        (" 1", False), ("1\n", False), ("true ", False), ("01", False), ("TRUE\u0307", False),
    ],
)  # fmt: skip
def test_flags(text, expected):
    assert flag(text, default=True) is flag(text, default=False) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0), (" \ufeff\u00a0\u2028", 0), (" 12 ", 12), ("\n7\n", 7), ("0x10", 16),
        ("0XfF", 255), ("0b11", 3), ("0O17", 15), ("1e3", 1000), ("1E+3", 1000), ("15e-1", 1.5),
        ("1.", 1), (".5", 0.5), ("+5", 5), ("12.5", 12.5), ("-0", 0), ("-0.0", 0), ("007", 7),
        ("1e-400", 0), ("9007199254740993", 2**53), ("1e21", 1e21),
        ("123456789012345678901", 123456789012345680000), ("0x" + "f" * 20, 16.0**20),
    ],
)  # fmt: skip
def test_numbers(text, expected):
    read = number(text, 99)
    assert read == expected
    assert type(read) is type(expected)


@pytest.mark.parametrize(
    "text",
    [
        "-1", "abc", "12px", "1_000", "Infinity", "-Infinity", "NaN", "inf", "nan", ".", "+", "e5",
        "1e", "1 2", "--1", "0x", "0xg", "-0x10", "+0b1", "0b2", "0o8", "1e400", "1,5", "\u0661",
        "\x1c5", "\x855", "0x" + "f" * 400, "1.2.3", "0x1.8", "1n",
    ],
)  # fmt: skip
def test_what_is_no_number_leaves_the_default(text):
    assert number(text, 99) == 99


def test_what_is_not_said_leaves_the_default():
    assert number(None, 0.5) == 0.5
    assert flag(None, default=True)
    assert not flag(None, default=False)


@given(st.floats(min_value=0, allow_infinity=False))
@example(5e-324)
@example(1.7976931348623157e308)
def test_numbers_come_back(value):
    assert float(number(repr(value), -1)) == value
    assert float(number(f"\u3000{value!r}\ufeff", -1)) == value


@given(st.integers(min_value=0, max_value=2**60))
def test_bases_agree(value):
    assert {number(form(value), -1) for form in (str, hex, oct, bin)} == {number(str(value), -1)}


ODD = st.text(st.sampled_from("0123456789.eE+-xXobB_ \u00a0\x1cnaNIfity\ud800"), max_size=12)


@given(ODD)
def test_whatever_it_says_a_number_is_one(text):
    read = number(text, 3)
    assert read >= 0
    assert math.isfinite(read)
    if re.search(r"[_naNIty\ud800]", text):
        assert read == 3


def test_a_million_digits_are_read_in_one_pass():
    assert number("0" * 1_000_000 + "7", 9) == 7
    assert number("9" * 1_000_000, 9) == 9
    assert number(" " * 1_000_000 + "x", 9) == 9
    assert number("0x" + "0" * 1_000_000 + "7", 9) == 7


@given(st.dictionaries(st.sampled_from([*VARIABLES.values(), "HOME"]), ODD | st.text()))
def test_whatever_the_variables_hold_there_are_settings(env):
    loaded = memory_settings(env)
    for field, variable in VARIABLES.items():
        if variable not in env:
            assert getattr(loaded, field) == getattr(MemorySettings(), field)


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        *[({name: 1}, "wrong-type", name) for name in FLAGS],
        *[({name: -1}, "invalid-argument", name) for name in NUMBERS],
        *[({name: "5"}, "wrong-type", name) for name in NUMBERS],
        ({"tag_max_tokens": True}, "wrong-type", "tag_max_tokens"),
        ({"tag_max_tokens": None}, "wrong-type", "tag_max_tokens"),
        ({"tag_max_tokens": math.inf}, "invalid-argument", "tag_max_tokens"),
        ({"tag_max_tokens": math.nan}, "invalid-argument", "tag_max_tokens"),
        ({"aux_model": 5}, "wrong-type", "aux_model"),
        ({"log_file": b"x"}, "wrong-type", "log_file"),
    ],
)
def test_settings_are_right_when_they_are_made(change, code, field):
    with pytest.raises(InvalidArgument) as caught:
        MemorySettings(**change)
    assert (caught.value.code, caught.value.field) == (code, field)


def test_numbers_may_be_huge_or_fractions():
    assert MemorySettings(skill_max_chars=10**400).skill_max_chars == 10**400
    assert MemorySettings(skill_max_chars=0.5).skill_max_chars == 0.5


@pytest.mark.parametrize(
    ("env", "field"),
    [
        (None, "env"),
        ([("PI_CTX_OFF", "1")], "env"),
        ({"PI_CTX_OFF": True}, "PI_CTX_OFF"),
        ({"PI_CTX_LOG_FILE": None}, "PI_CTX_LOG_FILE"),
    ],
)
def test_variables_hold_texts(env, field):
    with pytest.raises(InvalidArgument) as caught:
        memory_settings(env)
    assert (caught.value.code, caught.value.field) == ("wrong-type", field)
