"""Signals of tool output: words, terminal sequences, terms, patterns; linear on hostile text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra.compaction.signals import (
    BLANK,
    ERROR,
    ERROR_WORDS,
    PASS,
    PROGRESS,
    STAMP_RUN,
    WARN,
    WHITE,
    code_signature,
    dedupe_lines,
    fold,
    hash_text,
    normalize_log_pattern,
    normalize_newlines,
    relevance_score,
    split_lines_preserve_endings,
    spread,
    strip_ansi,
    text_terms,
    units,
)

PIECES = [
    "\x1b",
    "[",
    "]",
    "(",
    "0;",
    "31m",
    "\x07",
    "\\",
    "\x9b",
    "\x9d",
    "\x90",
    "\x9c",
    "P",
    "^",
]
PIECES += [
    "a",
    "é",
    "\n",
    "\r",
    "\r\n",
    "\u2028",
    "\x00",
    "\ud800",
    "\udc00",
    "\U0001f600",
    " ",
    "~",
]
PIECES += ["ERROR", "%", "12", "0x", ".", "=", "×", "\ufeff", "\x85", "\x1c"]
HOSTILE = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=40)


# Words


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: boom",
        "thread 'main' panicked at src/main.rs:4:5",
        "2 errors, 3 failures",
        "3 failures",
        "java.lang.NullPointerException",
        "2 ERRORS",
        "OSError: [Errno 2]",
        "JSONDecodeErrors",
        "io_error=5",
        "E_FAILED",
        "AssertionError",
        "error[E0308]",
        "it fails",
        "Traceback (most recent call last):",
        "2 assertions",
    ],
)
def test_w14_forms_of_an_error_are_errors(line):
    assert ERROR.search(line)


@pytest.mark.parametrize("line", ["terror", "mirrors", "failsafe", "errorless", "no problem", ""])
def test_other_words_are_no_errors(line):
    assert not ERROR.search(line)


def test_the_original_knows_whole_words_only():
    known = ["error", "FATAL", "fail", "failed", "failure", "exception", "traceback", "panic"]
    known += ["assert", "assertion", "segfault", "denied", "invalid", "critical", "x-error: y"]
    assert all(ERROR_WORDS.search(line) and ERROR.search(line) for line in known)
    assert not any(ERROR_WORDS.search(line) for line in ("ValueError", "errors", "panicked"))


def test_case_is_that_of_ascii():
    assert not ERROR.search("a\u017f\u017fert")
    assert not PASS.search("paſs")
    assert not PASS.search("o\u212a")
    assert PASS.search("OK")
    assert WARN.search("DEPRECATED")
    assert WARN.search("connection timed out")


@pytest.mark.parametrize(
    "line", ["50%", " 7% done", "at 100%", "[=====>   ]", "x [########]", "⠋ wait"]
)
def test_progress(line):
    assert PROGRESS.search(line)


@pytest.mark.parametrize("line", ["1234%", "50%,", "a50%", "[=====]", "[====ab====]", "⠋wait", "%"])
def test_no_progress(line):
    assert not PROGRESS.search(line)


@given(st.lists(st.sampled_from(["error", "Error", "ok", "İ", "Σ", "ERRORS", "x_failed", ""])))
def test_lines_are_judged_together_as_each_alone(lines):
    low = "\n".join(lines).lower()
    for words in (ERROR, ERROR_WORDS, WARN, PASS, PROGRESS):
        assert words.each(lines, low) == [words.search(line) is not None for line in lines]


def test_white_space_is_a_set_of_its_own():
    assert BLANK.match(WHITE)
    assert not BLANK.match("\x1c")
    assert not BLANK.match("\x85")
    assert len(set(WHITE)) == 25


# Terminal sequences


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("A\x1b]0;title\x07B \x1bMhello", "AB hello"),
        ("\x1b(Bx \x1b7y", "x y"),
        ("\x9b1;31mred\x9b0m", "red"),
        ("\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("\x1b_hidden\x9cshown", "shown"),
        ("a\x1b]0;no end\nb", "a0;no end\nb"),
        ("a\x1b[12", "a"),
        ("a\x1b", "a"),
        ("a\x1bé", "aé"),
        ("\x1b#8x", "x"),
        ("[31m", "[31m"),
        ("\x9d0;t\x07x", "x"),
        ("\x1b]a\x1b[31mb\x07c", "ab\x07c"),
    ],
)
def test_w15_terminal_sequences_go_with_their_content(given, plain):
    assert strip_ansi(given) == plain


@given(HOSTILE)
def test_no_escape_is_left(text):
    plain = strip_ansi(text)
    assert not set(plain) & set("\x1b\x90\x98\x9b\x9d\x9e\x9f")
    assert strip_ansi(plain) == plain
    assert plain.count("\n") == text.count("\n")
    assert len(plain) <= len(text)


@given(st.text(st.characters(exclude_characters="\x1b\x90\x98\x9b\x9d\x9e\x9f")))
def test_text_without_escapes_is_untouched(text):
    assert strip_ansi(text) == text


# Lines


@given(HOSTILE)
def test_lines_with_their_endings_are_the_text(text):
    lines = split_lines_preserve_endings(text)
    assert "".join(content + ending for content, ending in lines) == text
    assert all(ending in {"\n", "\r", "\r\n"} for _, ending in lines[:-1])
    assert lines[-1][1] == ""
    contents = [content for content, _ in lines]
    assert contents == normalize_newlines(text).split("\n")
    assert normalize_newlines(normalize_newlines(text)) == normalize_newlines(text)


@given(st.lists(st.sampled_from(["a", "a ", "b", "", "\u3000", "\x1c"])))
def test_folds_account_for_each_line_that_is_written(lines):
    folds = fold(lines)
    places = [at for each in folds for at in each.at]
    assert places == [at for at, line in enumerate(lines) if line.strip(WHITE)]
    assert all(lines[at].rstrip(WHITE) == each.text for each in folds for at in each.at)
    shown = [each.shown for each in folds]
    assert list(dedupe_lines(lines)) == shown
    assert len(dedupe_lines(shown)) <= len(shown)


def test_blank_lines_part_runs_and_are_left_out():
    assert dedupe_lines(["a", "", "a", "a"]) == ("a", "a  ×2")


@given(st.integers(0, 60), st.integers(0, 40))
def test_a_spread_is_in_order_begins_with_the_first_and_repeats_only_when_there_are_too_few(n, k):
    taken = spread(range(n), k)
    assert taken == sorted(taken)
    assert len(taken) == (k if n else 0)
    assert not taken or taken[0] == 0
    assert len(set(taken)) == min(n, k)


# Terms


def test_w27_no_term_ends_with_the_end_of_a_sentence():
    text = "Please fix the tokenizer. Then update parser: and README.md, ok?"
    assert text_terms(text) == (
        "please",
        "fix",
        "tokenizer",
        "then",
        "update",
        "parser",
        "readme.md",
    )
    assert "tokenizer." in text_terms(text, ends="")
    assert relevance_score("class Tokenizer", text_terms("tokenizer.")) == 3


def test_words_that_are_short_or_say_nothing_are_no_terms():
    assert text_terms("the s3 from. .. ok: ab") == ()


def test_the_first_48_terms_are_enough():
    words = [f"word{n}" for n in range(100)]
    assert text_terms(" ".join(words + words)) == tuple(words[:48])


@given(HOSTILE)
def test_terms_are_those_of_themselves_and_bounded(text):
    terms = text_terms(text * 3)
    assert text_terms(" ".join(terms)) == terms
    assert len(set(terms)) == len(terms) <= 48
    assert relevance_score(" ".join(terms), terms) == sum(3 if len(t) >= 8 else 1 for t in terms)


@given(st.text())
def test_units_are_those_of_utf16(text):
    assert units(text) == len(text) + sum(char > "\uffff" for char in text)


# Patterns


def test_w5_a_date_takes_no_word_with_it():
    alice = normalize_log_pattern("2024-01-05 alice logged in")
    bob = normalize_log_pattern("2024-01-05 bob logged in")
    assert (alice, bob) == ("alice logged in", "bob logged in")
    assert normalize_log_pattern("2024-01-05 alice logged in", stamp=STAMP_RUN) == "logged in"


@pytest.mark.parametrize(
    "stamp",
    [
        "2024-05-01T10:00:00Z ",
        "2024-05-01 10:00:00,123 ",
        "  2024-05-01t10:00 ",
        "2024-05-01T10:00:00.123456+02:00 ",
        "2024-05-01T10:00:00-0700\t",
        "2024-05-01 ",
        "2024-05-01T10:00:00",
    ],
)
def test_dates_with_times_and_zones_are_taken_away(stamp):
    assert normalize_log_pattern(f"{stamp}[main] up") == "[main] up"


def test_what_only_looks_like_a_date_stays():
    assert normalize_log_pattern("2024-05-01x up") == "<n>-05-01x up"
    assert normalize_log_pattern("2024-05-0112 up") == "<n>-05-<n> up"


@given(HOSTILE)
def test_a_pattern_is_its_own_pattern_but_for_dates(line):
    pattern = normalize_log_pattern(f"x{line}")
    assert normalize_log_pattern(pattern) == pattern


@pytest.mark.parametrize(
    "line",
    [
        "export async function f",
        "  @dec",
        "const a = 1",
        "try {",
        "#define X",
        "impl X for Y",
        "public void run()",
        "from x import y",
        "finally:",
    ],
)
def test_signatures(line):
    assert code_signature(line)


@pytest.mark.parametrize("line", ["let x", "return 1", "classes", "} catch", "# x", "Class A", ""])
def test_no_signatures(line):
    assert not code_signature(line)


def test_texts_that_differ_by_lone_surrogates_have_different_names():
    assert len({hash_text(text) for text in ("\ud800", "\ud801", "\ufffd", "")}) == 4


# Hostile text


LARGE = [
    "\x1b]",
    "\x1b[0",
    "\x9d",
    "\x1b ",
    "|",
    " ",
    "=",
    "0",
    "a",
    "[=",
    "Error",
    "_error_",
    "0x",
]
LARGE += ["2024-01-01", "1-", "\u3000", "[", "%", "\ud800", "\x1b[31m", "-"]


@pytest.mark.parametrize("piece", LARGE)
def test_w39_one_megabyte_of_anything_is_read_in_linear_time(piece):
    """Twice as much takes about twice as long; four times would be quadratic."""

    def act(size):
        text = (piece * size)[:size] + "x"
        start = time.process_time()
        strip_ansi(text)
        for words in (ERROR, ERROR_WORDS, WARN, PASS, PROGRESS):
            words.search(text)
        normalize_log_pattern(text)
        normalize_log_pattern(text, stamp=STAMP_RUN)
        code_signature(text)
        text_terms(text)
        fold([text])
        BLANK.match(text)
        return time.process_time() - start

    act(1000)
    small = min(act(250_000) for _ in range(2))
    assert act(1_000_000) < 12 * small + 0.2
