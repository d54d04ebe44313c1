"""Measures without a tokenizer: what they tell apart, how long they take, real tokenizers."""

from __future__ import annotations

import base64
import importlib.util
import random
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    Head,
    Image,
    InvalidArgument,
    Message,
    Opaque,
    Session,
    Text,
    Thinking,
    Tool,
    ToolCall,
    assistant,
    chars4,
    claude_v1,
    deepseek_v1,
    estimate,
    measure_of,
    o200k_v1,
    qwen_v1,
    record,
    tool_result,
    user,
)
from ctxalgebra.measures import IMAGE_TOKENS

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = (o200k_v1, claude_v1, deepseek_v1, qwen_v1)

CODE = '''
def total(self, measure, end):
    """Sum the measure over the first slots."""
    if len(self.sums) <= end:
        self.sums.extend([-1] * (end + 1 - len(self.sums)))
    return self.sums[end]
'''
PROSE = (
    "A session is a list that only grows. What was decided stands beside what happened, so that "
    "anyone can read later why a message is gone, and nothing has to be remembered elsewhere. "
)
JSON = '{"id":81,"name":"north gate","open":true,"size":[12.5,7.25],"tags":["a","b"]},'
LOG = "2025-11-30 03:17:42,118 INFO  [worker-3] request 80412 took 317 ms (status=200)\n"
CJK = "会话是一个只会增长的列表。決定したことは起きたことの隣に残る。"
BASE64 = base64.b64encode(random.Random(5).randbytes(600)).decode()

INDENTED = (CODE * 6).replace("    ", " " * 12)
HASHES = "".join(sha256(bytes([n])).hexdigest() for n in range(12))
LISTING = "".join(
    f"-rw-r--r-- 1 root root {n * n * 7919:8} Nov {n % 20 + 10} 05:36 lib{name}-{n}.so.{n % 7}\n"
    for n, name in enumerate(("xcb", "gmp", "nettle", "zstd", "pcre2", "udev", "krb5", "tirpc") * 3)
)
NUMBERS = '{"v":0.8444218515250481,"w":[81742.90351,-7.712046]},'

# Counted once with the encoding o200k_base.
COUNTED = {
    "code": (CODE, 56),
    "prose": (PROSE * 3, 112),
    "json": (JSON * 12, 361),
    "logs": (LOG * 12, 408),
    "cjk": (CJK * 8, 208),
    "base64": (BASE64, 550),
    "text in base64": (base64.b64encode(INDENTED.encode()).decode(), 1064),
    "hexadecimal": (HASHES, 429),
    "listing": (LISTING, 734),
    "numbers": (NUMBERS * 12, 300),
}


@pytest.mark.parametrize("kind", COUNTED)
def test_each_kind_of_text_is_told_from_the_others(kind):
    text, tokens = COUNTED[kind]
    off = abs(o200k_v1(user(text)) - tokens) / tokens
    assert off <= (0.12 if kind in ("text in base64", "hexadecimal", "listing", "numbers") else 0.2)
    if kind in ("cjk", "base64"):
        assert chars4(user(text)) < tokens / 2, "a quarter of the characters is far too little"


@pytest.mark.parametrize("measure", FAMILIES)
def test_the_same_characters_cost_more_where_they_are_no_words(measure):
    words, numbers = user("some words of prose " * 100), user("81742 90351 77120 46 " * 95)
    assert measure(words) < measure(numbers)
    assert measure(user(BASE64)) > 2 * chars4(user(BASE64))
    assert measure(user(HASHES)) > 1.5 * chars4(user(HASHES))
    assert abs(measure(user(HASHES.upper())) / measure(user(HASHES)) - 1) < 0.02
    # What is said again costs little, and a long word or a rule more than a short one.
    blank = base64.b64encode(b" " * 900).decode()
    assert measure(user(blank)) < 0.8 * measure(user(BASE64 + BASE64[:400]))
    assert measure(user("x" * 8000)) > 500
    assert 10 < measure(user("=" * 200)) < 100
    path = "usr/lib/python/site-packages/wheel/command/" * 20
    assert measure(user(path)) < measure(user(BASE64))
    assert measure(user("안녕하세요 반갑습니다 " * 20)) > 1.3 * chars4(
        user("안녕하세요 반갑습니다 " * 20)
    )
    assert measure(user("Привет, мир! " * 20)) > chars4(user("Привет, мир! " * 20))


def test_families_differ_in_what_they_differ_in():
    numbers = user("123456789 " * 100)
    assert qwen_v1(numbers) > 1.5 * o200k_v1(numbers), "each digit is a token there"
    assert claude_v1(user(PROSE)) > o200k_v1(user(PROSE))


@pytest.mark.parametrize("measure", FAMILIES)
def test_all_that_the_model_reads_counts_and_nothing_else(measure):
    parts = (Thinking("thought of it", "signature" * 50), Text("said it"))
    call = ToolCall("an-id-of-no-weight", "read_file", '{"path":"a.py"}')
    opaque = Opaque("type", '{"type":"video"}')
    single = [measure(assistant(part)) for part in (*parts, call, opaque)]
    assert 0 <= sum(single) - measure(assistant(*parts, call, opaque)) <= len(single)
    plain = measure(assistant(*parts, call, opaque))
    assert plain == measure(Message("assistant", (*parts, call, opaque), id="x", origin="{}" * 99))
    assert measure(tool_result("c", "text", name="n" * 99)) == measure(user("text"))
    assert measure(user((Image("A" * 9000, "image/png"),))) == IMAGE_TOKENS == 1200
    head = Head(system="Be brief.", tools=(Tool("read", "Reads a file.", '{"type":"object"}'),))
    assert measure(head) > measure(Head(system="Be brief.")) > measure(Head()) == 0
    assert measure(user("")) == 0


@given(st.lists(st.text(max_size=40), max_size=4), st.sampled_from(FAMILIES))
def test_texts_are_never_negative_and_parts_add_up(texts, measure):
    whole = measure(user(tuple(map(Text, texts))))
    parts = [measure(user(text)) for text in texts]
    assert 0 <= whole <= sum(parts) <= whole + len(parts)
    assert measure(user(tuple(map(Text, texts)))) == whole


UNITS = (
    "a",
    "A",
    "aB3",
    " ",
    "\n",
    "\n ",
    " \t\r\n",
    "-",
    "=" * 30 + "+",
    "\u4e00",
    "안",
    "\u0301",
)
UNITS += ("7", "abcdefghijklmnopqrstuvw ", "abcdefghijklmnopqrstuvwx ", "Zz9/" * 9 + ".")


@pytest.mark.parametrize("unit", UNITS)
def test_cost_grows_with_the_text_and_not_faster(unit):
    small, large = 2_000, 8_000

    def weight(size):
        return o200k_v1(user((unit * size)[: size * 2] if len(unit) > 1 else unit * size))

    assert weight(large) <= 4 * weight(small) + 300


def test_a_long_text_without_an_end_is_read_once():
    # Each of these would take hours if a pattern began anew at each of its characters.
    for unit in ("a", " ", "\n ", "-", "a1" * 12 + "="):
        assert o200k_v1(user(unit * (400_000 // len(unit)))) > 0


# Real tokenizers


def test_a_real_tokenizer_counts_each_message_once():
    asked = []

    def count(text):
        asked.append(text)
        return len(text.split())

    measure = measure_of(count)
    assert measure_of(count) is measure
    message = assistant("two words", ToolCall("c", "read", '{"a": 1}'), Opaque("t", "{}"))
    assert measure(message) == measure(message) == 2 + 1 + 2 + 1
    assert asked == ["two words", "read", '{"a": 1}', "{}"]
    assert measure(user((Image("x", "image/png"), Text("")))) == IMAGE_TOKENS
    assert measure(Head(system="be very brief")) == 3
    session = record(Session(), Head(system="be very brief"), user("one two"), user("three"))
    assert estimate(session, measure=measure) == 6
    assert len(asked) == 7


@pytest.mark.parametrize("wrong", [-1, 1.5, None, "3", True])
def test_a_count_that_is_no_number_of_tokens_is_refused(wrong):
    measure = measure_of(lambda text: wrong)
    with pytest.raises(InvalidArgument) as caught:
        measure(user("text"))
    assert (caught.value.code, caught.value.field) == ("wrong-type", "count")


def test_what_is_no_message_and_what_counts_nothing_is_refused():
    for measure in (*FAMILIES, measure_of(len)):
        for value in (None, "text", 3, [], user):
            with pytest.raises(InvalidArgument) as caught:
                measure(value)
            assert (caught.value.code, caught.value.field) == ("wrong-type", "value")
    for count in (None, 3, [], "len"):
        with pytest.raises(InvalidArgument) as caught:
            measure_of(count)
        assert (caught.value.code, caught.value.field) == ("wrong-type", "count")


# The benchmark


def load_benchmark():
    spec = importlib.util.spec_from_file_location("measures", ROOT / "benchmarks" / "measures.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    return benchmark


def test_the_benchmark_fails_over_its_limit_and_when_nothing_can_be_measured(monkeypatch, capsys):
    benchmark = load_benchmark()
    kinds = benchmark.texts()
    assert all(len(some) >= 20 for kind, some in kinds.items() if kind != "prose")
    assert kinds == benchmark.texts()

    def absent():
        raise ImportError("no such package")

    def weigh(times):
        return lambda: lambda text: max(1, times * o200k_v1(user(text)) // 100)

    monkeypatch.setattr(benchmark, "texts", lambda: {k: v for k, v in kinds.items() if v})
    for tokenizers, code in (
        ([("a", o200k_v1, absent)], 2),
        ([("a", o200k_v1, absent), ("b", o200k_v1, weigh(95))], 0),
        ([("b", o200k_v1, weigh(100)), ("c", o200k_v1, weigh(80))], 1),
    ):
        monkeypatch.setattr(benchmark, "TOKENIZERS", tokenizers)
        assert benchmark.main() == code
    assert "nothing was measured" in capsys.readouterr().out
