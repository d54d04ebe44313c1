r"""What a line of tool output says by its words, and the small rules that all filters share.

Word boundaries, digits and case are those of ASCII; white space is `WHITE` and nothing else. Each
pattern here reads a text in linear time (fault W39). Source: skills and saver, sections 1, 13, 14.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Final, NamedTuple, TypeVar

__all__ = [
    "BLANK",
    "ERROR",
    "ERROR_WORDS",
    "PASS",
    "PROGRESS",
    "STAMP",
    "STAMP_RUN",
    "TERM_ENDS",
    "WARN",
    "WHITE",
    "Fold",
    "Words",
    "code_signature",
    "dedupe_lines",
    "fold",
    "hash_text",
    "normalize_log_pattern",
    "normalize_newlines",
    "relevance_score",
    "split_lines_preserve_endings",
    "spread",
    "strip_ansi",
    "text_terms",
    "units",
]

_Item = TypeVar("_Item")

WHITE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""White space, and what is trimmed."""

_W = rf"[{WHITE}]"
_WORDS = (
    "error|fatal|fail|failed|failure|exception|traceback|panic|assert|assertion|segfault|denied|"
    "invalid|critical"
)

BLANK: Final = re.compile(rf"{_W}*\Z")
"""A line of white space only (`match`)."""


class Words(NamedTuple):
    """Find words in a line.

    Args:
        pattern: what is looked for.
        stems: one of these, in lower case, is in each text that the pattern is in; most lines hold
            none, and asking for them is many times faster.
    """

    pattern: re.Pattern[str]
    stems: tuple[str, ...]

    def search(self, text: str) -> re.Match[str] | None:
        """Find the first place, or None.

        >>> [bool(ERROR.search(line)) for line in ("2 errors", "thread panicked", "terror")]
        [True, True, False]
        """
        low = text.lower()
        for stem in self.stems:
            if stem in low:
                return self.pattern.search(text)
        return None

    def each(self, lines: Sequence[str], low: str) -> list[bool]:
        """Say of each line whether it has one; stems that are in no line are not asked for.

        Args:
            lines: of a text.
            low: the text in lower case.

        >>> ERROR.each(["ok", "failed"], "ok failed")
        [False, True]
        """
        stems = tuple(stem for stem in self.stems if stem in low)
        if not stems:
            return [False] * len(lines)
        search = self._replace(stems=stems).search
        return [search(line) is not None for line in lines]


_STEMS = (
    "error",
    "fail",
    "exception",
    "fatal",
    "traceback",
    "panic",
    "assert",
    "segfault",
    "denied",
    "invalid",
    "critical",
)

ERROR_WORDS: Final = Words(re.compile(rf"\b(?:{_WORDS})\b", re.ASCII | re.IGNORECASE), _STEMS)
"""The words of an error as the original knows them."""

ERROR: Final = Words(
    re.compile(
        rf"\b(?i:{_WORDS}|errors|fails|failing|failures|exceptions|tracebacks|panics|panicked|"
        r"panicking|asserts|asserted|assertions|segfaults|segfaulted)\b"
        r"|(?<=[A-Za-z0-9])(?:Error|Exception|Failure)s?\b"
        r"|(?<=_)(?i:errors?|exceptions?|failures?|failed)\b",
        re.ASCII,
    ),
    _STEMS,
)
"""The words of an error with their other forms: `errors`, `panicked`, `ValueError` (W14)."""

WARN: Final = Words(
    re.compile(
        r"\b(?:warn|warning|deprecated|retry|timeout|timed out)\b", re.ASCII | re.IGNORECASE
    ),
    ("warn", "deprecated", "retry", "timeout", "timed out"),
)
"""The words of a warning."""

PASS: Final = Words(
    re.compile(r"\b(?:pass|passed|ok|success|successful|✓)\b", re.ASCII | re.IGNORECASE),
    ("pass", "ok", "success", "✓"),
)
"""The words of a test that passed."""

PROGRESS: Final = Words(
    re.compile(rf"(?:\A|{_W})(?:[0-9]{{1,3}}%|\[[=#>\x20.-]{{8,}}\]|[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏])(?:{_W}|\Z)"),
    ("%", "]", *"⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"),
)
"""A percentage, a bar or a spinner that stands by itself."""

_CSI = r"[0-?]*[ -/]*[@-~]?"
_STRING = r"[^\n\x07\x1b\x90\x98\x9b-\x9f]*(?:\x07|\x1b\\|\x9c)"
_ANSI = re.compile(
    rf"\x1b(?:\[{_CSI}|[\]PX^_]{_STRING}|[ -/]+[0-~]|[0-~]?)"
    rf"|\x9b{_CSI}|[\x90\x98\x9d-\x9f](?:{_STRING})?"
)
_ESCAPES = re.compile(r"[\x1b\x90\x98\x9b\x9d-\x9f]")


_UNCUT = re.compile(
    rf"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_](?:{_STRING}|[0-?]*[ -/]*[@-~])|[ -/]+[0-~]"
    rf"|[0-Z\\`-~])|\x9b[0-?]*[ -/]*[@-~]|[\x90\x98\x9d-\x9f]{_STRING}"
)


def strip_ansi(text: str, *, uncut: bool = False) -> str:
    r"""Take out terminal sequences.

    These are control sequences (7 and 8 bit, also cut off), strings with their content (titles,
    links) up to their end on the same line, choices of character sets, and escapes of two
    characters. Of a string without an end only the introducer goes. No escape character is left
    (W15).

    Args:
        text: any.
        uncut: leave what is cut off; the original's rule, without its errors about strings and
            short sequences.

    >>> strip_ansi("\x1b]0;title\x07\x1b[1;31mred\x1b[0m \x1b(Bplain")
    'red plain'
    >>> strip_ansi("a\x1b[1;3"), strip_ansi("a\x1b[1;3", uncut=True)
    ('a', 'a\x1b[1;3')
    """
    sequences = _UNCUT if uncut else _ANSI
    return sequences.sub("", text) if _ESCAPES.search(text) else text


def normalize_newlines(text: str) -> str:
    r"""Make each CRLF and CR one LF.

    >>> normalize_newlines("a\r\nb\rc")
    'a\nb\nc'
    """
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


_ENDING = re.compile(r"\r\n|[\r\n]")


def split_lines_preserve_endings(text: str) -> tuple[tuple[str, str], ...]:
    r"""Split at CRLF, CR and LF, and give each line with its separator.

    Joined, all contents and separators are the text. The last line has no separator; of a text
    that ends with one it is empty.

    >>> split_lines_preserve_endings("a\r\nb\n")
    (('a', '\r\n'), ('b', '\n'), ('', ''))
    """
    lines: list[tuple[str, str]] = []
    start = 0
    for ending in _ENDING.finditer(text):
        lines.append((text[start : ending.start()], ending[0]))
        start = ending.end()
    lines.append((text[start:], ""))
    return tuple(lines)


def units(text: str) -> int:
    r"""Count UTF-16 code units, in which the rules give their sizes.

    >>> units("a\U0001f600")
    3
    """
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


_TERM = re.compile(r"[a-z0-9_.:/-]{3,}")
_STOPS = """
about after again also and are but can could does for from have how into its just more not only
our that the their this use using was what when where which will with would you your
"""
_STOP_WORDS: Final = frozenset(_STOPS.split())
_SHORT, _LONG, _MOST = 3, 8, 48

TERM_ENDS: Final = ".:"
"""What ends a sentence, and no term (W27)."""


def text_terms(text: str, *, ends: str = TERM_ENDS) -> tuple[str, ...]:
    """Give the words of a request that are looked for in an output: 48 at most, each once.

    Args:
        text: the request.
        ends: characters that no term ends with.

    >>> text_terms("Fix the parser in src/a.ts, then README.md.")
    ('fix', 'parser', 'src/a.ts', 'then', 'readme.md')
    """
    terms: dict[str, None] = {}
    for run in _TERM.finditer(text.lower()):
        term = run[0].rstrip(ends) if ends else run[0]
        if len(term) >= _SHORT and term not in _STOP_WORDS:
            terms[term] = None
            if len(terms) == _MOST:
                break
    return tuple(terms)


def relevance_score(text: str, terms: Iterable[str]) -> int:
    """Weigh the terms that a text contains: 3 for one of 8 or more units, 1 for any other.

    >>> relevance_score("Disk USAGE of database", ("usage", "database", "memory"))
    4
    """
    low = text.lower()
    return sum(3 if units(term) >= _LONG else 1 for term in terms if term in low)


_HEX = re.compile(r"\b0x[0-9a-f]+\b", re.ASCII | re.IGNORECASE)
_ID = re.compile(r"\b[0-9a-f]{8,}\b", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"\b[0-9]{4,}\b", re.ASCII)
_DATE = rf"{_W}*[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}"

STAMP: Final = re.compile(
    rf"{_DATE}(?:[Tt ]{_W}*[0-9]{{1,2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:[.,][0-9]+)?)?"
    rf"(?:[Zz]|[+-][0-9]{{2}}:?[0-9]{{2}})?)?(?:{_W}+|\Z|(?![0-9A-Za-z:.,+-]))"
)
"""A date at the start of a line, with its time and zone if there are any."""

STAMP_RUN: Final = re.compile(rf"{_DATE}[Tt ][+-Za-z]+{_W}*")
"""The same as the original has it: the word behind a date goes too (W5)."""


def normalize_log_pattern(line: str, *, stamp: re.Pattern[str] = STAMP) -> str:
    """Give what lines of a log have in common that differ by time, address, id or number only.

    Args:
        line: a line without terminal sequences.
        stamp: what is taken away at its start.

    >>> normalize_log_pattern("2024-05-01T10:00:00.123Z GET /u/123456 in 12 ms at 0x1F")
    'GET /u/<n> in 12 ms at <hex>'
    >>> normalize_log_pattern("2024-01-05 alice logged in")
    'alice logged in'
    """
    found = stamp.match(line)
    rest = line[found.end() :] if found else line
    return _NUMBER.sub("<n>", _ID.sub("<id>", _HEX.sub("<hex>", rest))).strip(WHITE)


_SIGNATURE = re.compile(
    rf"{_W}*(?:[#@][A-Za-z_]"
    rf"|(?:export{_W}+)?(?:async{_W}+)?"
    r"(?:function|class|interface|type|enum|struct|trait|impl|fn|def|module|namespace)\b"
    r"|(?:public|private|protected|static|final|abstract|override|virtual|async|export|const|let|"
    r"var|func)\b[^\n\r\u2028\u2029]*?[(=]"
    r"|(?:import|from|require|use|using|include|package|try|catch|except|finally)\b)",
    re.ASCII,
)


def code_signature(line: str) -> bool:
    """Say whether a line declares, imports, or handles an error.

    >>> code_signature("export async function run() {"), code_signature("return run()")
    (True, False)
    """
    return _SIGNATURE.match(line) is not None


def hash_text(text: str) -> str:
    r"""Name a text by the first 24 digits of its SHA-256; lone surrogates keep their own values.

    >>> hash_text("a")
    'ca978112ca1bbdcafac231b3'
    >>> hash_text("\ud800") == hash_text("\ud801")
    False
    """
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


class Fold(NamedTuple):
    """Hold a line, and where it and its repeats stood.

    Args:
        text: the line without white space at its end.
        at: the places in what was folded, ascending.
    """

    text: str
    at: tuple[int, ...]

    @property
    def shown(self) -> str:
        """The line with the number of its repeats, two blanks before it.

        >>> Fold("a", (0, 1)).shown
        'a  ×2'
        """
        return f"{self.text}  ×{len(self.at)}" if len(self.at) > 1 else self.text


def fold(lines: Iterable[str]) -> tuple[Fold, ...]:
    """Merge neighbours that are equal; blank lines part them, and are left out.

    >>> fold(["a", "a ", "", "a"])
    (Fold(text='a', at=(0, 1)), Fold(text='a', at=(3,)))
    """
    runs = groupby(enumerate(lines), key=lambda item: item[1].rstrip(WHITE))
    return tuple(Fold(text, tuple(at for at, _ in run)) for text, run in runs if text)


def dedupe_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Merge neighbours that are equal, as texts.

    >>> dedupe_lines(["a", "a ", "", "a"])
    ('a  ×2', 'a')
    """
    return tuple(each.shown for each in fold(lines))


def spread(items: Sequence[_Item], count: int) -> list[_Item]:
    """Take a number of items at even distances, the first one first.

    >>> spread("abcdefgh", 4)
    ['a', 'c', 'e', 'g']
    """
    return [items[at * len(items) // max(1, count)] for at in range(count)] if items else []
