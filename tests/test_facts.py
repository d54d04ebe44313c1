"""Text rules of a working memory, against slow and plain readings of the same rules."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctxalgebra.transforms.facts import (
    DISCARDED,
    count_lines,
    heuristic_fact,
    normalize_fact,
    sanitize_output,
    verdict,
)
from ctxalgebra.utf16 import BREAKS, SPACE, cut, parted, trim, units, whole

ODD = "a1_ \t\n\r\u2028\u00a0\ufeff\x85\x1c\"'#`[]\u00e9\U0001f600\ud800\udc00"
TEXTS = st.text(st.sampled_from(ODD), max_size=40) | st.text(max_size=20)


def pieces(*words, most=14):
    """Draw texts from words that the rules know, and odd characters between them."""
    return st.lists(st.sampled_from(words) | st.sampled_from(ODD), max_size=most).map("".join)


# Units


@given(TEXTS)
def test_units_are_those_of_utf_16(text):
    halves = units(text)
    assert len(halves) == len(text.encode("utf-16-le", "surrogatepass")) // 2
    assert all(character < "\U00010000" for character in halves)
    assert whole(halves) == whole(text)
    assert units(whole(halves)) == halves


@given(TEXTS, st.integers(0, 20), st.integers(0, 20))
def test_a_cut_is_a_slice_of_units(text, start, length):
    assert units(cut(text, start, start + length)) == units(text)[start : start + length]


def test_a_place_inside_a_pair():
    halves = units("a\U0001f600\ud800b\udc00")
    assert [at for at in range(len(halves) + 1) if parted(halves, at)] == [2]
    assert not parted("", 0)
    assert not parted("\udc00", 0)


def test_white_space_is_that_of_the_host():
    assert [c for c in map(chr, range(0x110000)) if not trim(c)] == list(SPACE)
    assert set(BREAKS) < set(SPACE)


# Facts


def past(halves, at, kind):
    """Go on as long as the units are of a kind."""
    while at < len(halves) and kind(halves[at]):
        at += 1
    return at


def is_blank(unit):
    return unit in SPACE


def in_line(unit):
    return unit not in BREAKS


def is_word(unit):
    return unit.isascii() and (unit.isalnum() or unit == "_")


def quoted(halves):
    """Find a doc string: one of double quotes, or, where there is none, one of single quotes."""
    for quote in ('"""', "'''"):
        for at in range(len(halves)):
            for stop in range(at + 3, at + 164) if halves.startswith(quote, at) else ():
                if halves.startswith(quote, stop):
                    return at + 3, at + 3 + len(halves[at + 3 : stop].split("\n")[0])
    return 0, 0


def comment(halves, starts):
    for start in starts:
        if halves.startswith("#", start):
            for begin in range(past(halves, start + 1, is_blank), start, -1):
                stop = min(past(halves, begin, in_line), begin + 160)
                if stop - begin >= 5:
                    return begin, stop
    return 0, 0


def declaration(halves, starts):
    for start in starts:
        begin = past(halves, start, is_blank)
        for word in ("class", "def", "const", "export", "function", "async"):
            behind = begin + len(word)
            name = past(halves, behind, is_blank)
            stop = past(halves, name, is_word)
            if halves.startswith(word, begin) and behind < name < stop:
                return begin, min(past(halves, stop, in_line), stop + 80)
    return 0, 0


def described(content):
    """Read the rule one unit at a time."""
    full = units(content)
    halves = full[:2000]
    starts = [at for at in range(len(halves) + 1) if at == 0 or halves[at - 1] in BREAKS]
    for begin, stop in (quoted(halves), comment(halves, starts), declaration(halves, starts)):
        said = trim(whole(full[begin : stop - parted(full, stop)]))
        if said:
            return said
    return ""


WORDS = (
    '"""',
    "'''",
    "#",
    "# ",
    "class ",
    "def f",
    "const\n",
    "export\u00a0x",
    "async",
    "\n",
    "ab",
)
CONTENTS = pieces(*WORDS, "x" * 79, "y" * 158, "\U0001f600" * 40, " " * 150, most=18)


@given(CONTENTS, st.sampled_from(["p", " a\nb ", "\U0001f600"]))
@example("x" * 1994 + "\n# abcdefgh", "p")
@example('"""' + "d" * 161 + '"""\nx = """second"""', "p")
@example("# " + "a" * 159 + "\U0001f600", "p")
@example("a" * 1990 + "\ndef f" + "\U0001f600" * 9, "p")
@example("# \ud83d1234", "p")
def test_a_fact_without_a_model_says_the_first_line_that_says_something(content, path):
    said = described(content)
    lines = len(content.split("\n"))
    assert heuristic_fact(path, content) == (
        f"[Wrote {path} \u2014 {said}, ~{lines} lines]"
        if said
        else f"[Wrote {path}, ~{lines} lines]"
    )


@given(CONTENTS | TEXTS)
def test_only_the_first_units_count(content):
    start = cut(content, 0, 2000)
    more = start + "\n" * (2000 - len(units(start))) + "# far behind"
    fact, other = heuristic_fact("p", more), heuristic_fact("p", more + "\nclass More")
    assert other == fact.replace(f"~{count_lines(more)} ", f"~{count_lines(more) + 1} ")


LAW = st.text(st.characters(exclude_categories=["Cs"])) | st.text(
    st.sampled_from("#\U0001f600 \n"), min_size=150, max_size=400
)


@given(LAW)
def test_a_fact_of_whole_characters_has_no_halves(text):
    for fact in (heuristic_fact("p", "# " + text), normalize_fact(text, "p")):
        assert fact.encode()


def brought(raw, path):
    """Read the rule step by step."""
    text = trim(raw)
    if text[:3] == "```":
        text = text[3:]
        while text and re.fullmatch("[A-Za-z]", text[0]):
            text = text[1:]
        text = trim(text)
    if text[-3:] == "```":
        text = text[:-3]
    text = trim(text)
    if text[:6] != "[Wrote":
        while text and text[0] in SPACE + "\"'[]":
            text = text[1:]
        while text and text[-1] in SPACE + "\"'[]":
            text = text[:-1]
        text = "[Wrote " + path + " \u2014 " + text + "]"
    out = ""
    for character in text:
        blank = character in SPACE
        out += " " if blank and out[-1:] != " " else "" if blank else character
    halves = units(trim(out))
    if len(halves) > 220:
        stop = 216 if parted(halves, 217) else 217
        halves = halves[:stop] + "..."
    return whole(halves if halves.endswith("]") else halves + "]")


RAW = pieces(
    "```", "```py", "[Wrote", "[Wrote p", "]", "x" * 199, "z" * 211, "\U0001f600" * 7, '"', " \n ",
    most=10,
)  # fmt: skip


@given(RAW | TEXTS, st.sampled_from(["p", " a  b", "\U0001f600", "q" * 230]))
@example("[Wrote " + "z" * 209 + "\U0001f600" * 3, "p")
@example("[Wrote " + "z" * 210 + "\U0001f600" * 3, "p")
def test_a_reply_becomes_one_line_in_brackets(raw, path):
    fact = normalize_fact(raw, path)
    assert whole(fact) == brought(raw, path)  # halves that come apart stay apart
    assert len(units(fact)) <= 221
    assert fact.startswith("[Wrote")
    assert fact.endswith("]")
    assert not set(fact) & set(SPACE) - {" "}


@given(RAW)
def test_a_fact_that_is_one_stays(raw):
    fact = normalize_fact(raw, "p")
    if len(units(fact)) <= 220:
        assert normalize_fact(fact, "p") == fact


# Verdicts


@pytest.mark.parametrize(
    "reply",
    [
        '{"decision":"DROP"}', ' {"decision": "DROP"}\n', '```json\n{"decision":"DROP"}\n```',
        '```JSON{"decision":"DROP"}```', '```\n{"decision":"DROP"}', '{"decision":"DROP"}\n```',
        '{"decision":"RETAIN","decision":"DROP"}', '{"decision":"DROP","why":"raw"}',
        '{"decision":"\\u0044ROP"}', '\ufeff{"decision":"DROP"}',
        '{"decision":"DROP","n":' + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_an_object_that_says_drop_drops(reply):
    assert verdict(reply) == "DROP"


@pytest.mark.parametrize(
    "reply",
    [
        None, "", " ", "DROP", "drop it", "RETAIN (do not drop)", '"DROP"', '["DROP"]', "null", "3",
        '{"decision":"drop"}', '{"Decision":"DROP"}', '{"decision":"DROP"} since it is raw',
        '{"decision":"DROP"', "{'decision':'DROP'}", '{"decision":"DROP","decision":"RETAIN"}',
        'Sure! {"decision":"DROP"}', '```text\n{"decision":"DROP"}\n```', '{"decision":["DROP"]}',
        '{"decision":{"DROP":1}}', '{"decision":"DROP","n":NaN}',
        '{"decision":"DROP","n":-Infinity}',
        '{"decision":"DROP",}', '{"decision":"DROP","a":"\n"}', '\x85{"decision":"DROP"}',
        '[{"decision":"DROP"}]', '{"a":{"decision":"DROP"}}', '``` json\n{"decision":"DROP"}\n```',
        '{"decision":"DROP","a":' + "[" * 200_000, "[" * 1_000_000, '```{"decision":"DROP"}``',
    ],
)  # fmt: skip
def test_everything_else_retains(reply):
    assert verdict(reply) == "RETAIN"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["DROP", "RETAIN", "drop"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["decision", "why", "Decision"]), inner, max_size=3),
)  # fmt: skip


@given(JSON, st.sampled_from(["{}", " {}\n", "```json\n{}\n```", "```\n{}```"]))
def test_json_is_read_as_json(value, frame):
    drops = isinstance(value, dict) and value.get("decision") == "DROP"
    reply = frame.replace("{}", json.dumps(value))
    assert verdict(reply) == ("DROP" if drops else "RETAIN")


@given(TEXTS, st.sampled_from(["DROP", "drop", '{"decision":"DROP"}']), TEXTS)
def test_words_around_a_verdict_make_it_none(front, word, back):
    if trim(front).strip("`") or trim(back).strip("`"):
        assert verdict(f"{front}.{word}{back}") == "RETAIN"


# Notes of the host

SPACED = re.escape(SPACE)
REAL = (
    "[Showing lines 38001-40000 of 40000. Full output: /tmp/pi-bash-1.log]",
    "[Showing lines 2-9 of 9 (50.0KB limit). Full output: /tmp/pi bash.log]",
    "[Showing last 50.0KB of line 9 (line is 1.2MB). Full output: C:\\Temp\\x.log]",
    "[Output truncated. Full output: /tmp/x]",
    "[Showing lines 1-9 of 12 (50KB limit). Read artifact://3 for full output]",
    "[raw output: artifact://12]",
    "[Output truncated: 100 of 6000 lines. Full output saved to: /tmp/x.log]",
)


def slowly(text):
    """Read the rule of the original as three patterns, one behind the other."""
    run = f"[^{SPACED}]"
    text = re.sub(rf"\[Output truncated:[^\]]*Full output saved to: {run}+\]", DISCARDED, text)
    text = re.sub(rf"Full output saved to: {run}+", DISCARDED, text)
    return re.sub(r"\[Output truncated:[^\]]*\]", "", text)


OLD = pieces(
    "[Output truncated:", "[Output truncated: ", "Full output saved to: ", "/tmp/x.log", "]", "]]",
    "[", "\n", " ", "[Output truncated: 1 Full output saved to: /x]", most=16,
)  # fmt: skip


@given(OLD)
@example("[Output truncated: Full output saved to: ]]")
@example("[Output truncated: Full output saved to: ] Full output saved to: ]x]")
@example("[Output truncated:[Output truncated:] Full output saved to: a]b]")
def test_the_original_notation_is_read_as_its_patterns_do(text):
    assert sanitize_output(text) == slowly(text)


@pytest.mark.parametrize("note", REAL)
@pytest.mark.parametrize("end", ["", "\n", "\n\nCommand exited with code 1", " and more"])
def test_each_note_of_the_host_goes(note, end):
    assert sanitize_output(f"12\n\n{note}{end}") == f"12\n\n{DISCARDED}{end}"
    assert sanitize_output(note + note) == DISCARDED + DISCARDED or "pi bash" in note


@given(st.lists(st.sampled_from(REAL) | TEXTS.filter(lambda t: "[" not in t and "]" not in t)))
def test_no_path_is_left_whatever_stands_around(parts):
    text = "\n".join(parts)
    clean = sanitize_output(text)
    for sign in ("/tmp/", "artifact://", "C:\\Temp", "Full output"):
        assert sign not in clean
    assert clean.count(DISCARDED) == sum(part in REAL for part in parts)
    assert sanitize_output(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "[Showing lines 1-9 of 99. Use :10 to continue]",
        "[Showing lines 1-9 of 99. Full output: /tmp/x",
        "[Showing lines 1-9 of 99. Full output: /tmp/x\n]",
        "[Showing lines a-b of c. Full output: /tmp/x]",
        "[showing lines 1-9 of 99. Full output: /tmp/x]",
        "[Showing lines 1-9 of 99 (a (b) limit). Full output: /tmp/x]",
        "[Showing lines \u0661-9 of 99. Full output: /tmp/x]",
        "Showing lines 1-9 of 99. Full output: /tmp/x]",
        "[output truncated: x]",
        "[Output truncated: no end",
    ],
)
def test_what_is_no_note_stays(text):
    assert sanitize_output(text) == text


def test_a_note_that_does_not_end_hides_no_later_one():
    text = (
        "[Showing lines 1-9 of 99. Full output: /a\n[Showing lines 1-9 of 99. Full output: /b] c]"
    )
    assert sanitize_output(text) == (f"[Showing lines 1-9 of 99. Full output: /a\n{DISCARDED} c]")


def test_brackets_in_a_path_go_with_it():
    assert sanitize_output("[Output truncated. Full output: /a]b]c] d]") == f"{DISCARDED} d]"


# Hostile lengths

OPEN = "[Showing lines 1-9 of 99. Full output: "
HOSTILE = {
    "open notes": "[Output truncated:",
    "saved": "Full output saved to: ",
    "open notes with a path": "[Output truncated: Full output saved to: /a ",
    "closed notes without a path": "[Output truncated: Full output saved to: ]",
    "open notes of the host": OPEN,
    "open notes of the host, a line each": OPEN + "\n",
    "notes": OPEN + "/a]",
    "brackets": "[",
    "ends": "]",
    "half notes": "[Showing lines 1-",
    "half limits": "[Showing last ((((",
    "truncated": "[Output truncated ",
    "fences": "```",
    "fences and blanks": "``` \n",
    "blanks": " ",
    "newlines": "\n",
    "quotes": '"""',
    "hashes": "#\n ",
    "keywords": "async ",
    "emoji": "\U0001f600",
    "braces": '{"decision":',
    "lists": "[[",
    "quoted": "'\"[",
}
RULES = {
    "sanitize": sanitize_output,
    "sanitize, closed": lambda text: sanitize_output(text + "]"),
    "sanitize, closed on another line": lambda text: sanitize_output(text + "\n]"),
    "heuristic": lambda text: heuristic_fact("p", text),
    "normalize": lambda text: normalize_fact(text, "p"),
    "verdict": verdict,
}


def took(rule, text):
    best = 9.0
    for _ in range(3):
        start = time.process_time()
        rule(text)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("rule", RULES)
def test_a_million_characters_cost_no_more_than_their_share(unit, rule):
    word = HOSTILE[unit]
    long = word * (1_000_000 // len(word))
    part = long[: len(long) // 16]
    # Sixteen times the length: a quadratic rule would take 256 times as long.
    assert took(RULES[rule], long) <= 100 * max(took(RULES[rule], part), 0.001)
