r"""Text rules that the stages of a working memory share: facts, verdicts, notes of the host.

All are pure and linear in their input. Lengths are UTF-16 units and white space is that of the
host's language (specification of the working memory, sections 4, 6.2, 7 and 10).

The host keeps the whole output of a command in a file and says so in a note under what it shows:

    [Showing lines 38001-40000 of 40000. Full output: /tmp/pi-bash-1.log]
    [Showing lines 2-9 of 9 (50.0KB limit). Full output: /tmp/pi-bash-1.log]
    [Showing last 50.0KB of line 9 (line is 1.2MB). Full output: /tmp/pi-bash-1.log]
    [Output truncated. Full output: /tmp/pi-bash-1.log]
    [Showing lines 2-9 of 9 (50.0KB limit). Read artifact://3 for full output]
    [raw output: artifact://3]

A note that invites to read on in the file that was asked for (`Use :301 to continue`) is none of
these: what it points at was not thrown away.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, NoReturn, cast

from ctxalgebra.compaction.signals import strip_ansi
from ctxalgebra.utf16 import BREAKS, SPACE, cut, parted, trim, units, whole

__all__ = [
    "DISCARDED",
    "count_lines",
    "heuristic_fact",
    "normalize_fact",
    "replied",
    "sanitize_output",
    "verdict",
]

DISCARDED = "[output discarded]"
"""What stands for a note that points at output which is not kept."""

Verdict = Literal["RETAIN", "DROP"]

_S = f"[{SPACE}]"
_LINE = f"(?<![^{BREAKS}])"
_REST = f"[^{BREAKS}]"
_INDENT = f"[{''.join(c for c in SPACE if c not in BREAKS)}]"

_BLANKS = re.compile(f"{_S}+")
_FENCE = re.compile("```[A-Za-z]*")
_JSON_FENCE = re.compile("```(?:json)?", re.IGNORECASE | re.ASCII)


# Facts about written files

_LOOKED_AT = 2000
_FACT, _SHORTENED = 220, 217
_START = "[Wrote"
_WRAPPING = f"{SPACE}\"'[]"
_DOUBLE = re.compile('"""(.{0,160}?)"""', re.DOTALL)
_SINGLE = re.compile("'''(.{0,160}?)'''", re.DOTALL)
_COMMENT = re.compile(f"{_LINE}#{_S}*({_REST}{{5,160}})")
_KEYWORDS = "class|def|const|export|function|async"
_DECLARATION = re.compile(
    f"{_LINE}{_INDENT}*((?:{_KEYWORDS}){_S}+[A-Za-z0-9_]+{_REST}{{0,80}})",
)


def count_lines(content: str) -> int:
    r"""Count lines as editors do: one more than there are newlines.

    >>> count_lines("a\nb\n")
    3
    """
    return content.count("\n") + 1


def _taken(halves: str, start: int, stop: int) -> str:
    """Take units, but no half of a pair that the end would part."""
    return whole(halves[start : stop - parted(halves, stop)])


def _described(content: str) -> str:
    """Find a line that says what a text is: a doc string, a comment or a declaration."""
    halves = units(cut(content, 0, _LOOKED_AT + 1))
    quoted = _DOUBLE.search(halves, 0, _LOOKED_AT) or _SINGLE.search(halves, 0, _LOOKED_AT)
    said = trim(whole(quoted[1].partition("\n")[0])) if quoted else ""
    for pattern in (_COMMENT, _DECLARATION):
        found = None if said else pattern.search(halves, 0, _LOOKED_AT)
        if found:
            said = trim(_taken(halves, *found.span(1)))
    return said


def heuristic_fact(path: str, content: str) -> str:
    r'''Word a fact about a written file without asking anyone.

    The description is, of the first 2,000 units, the first that is not empty of: the first line of
    the first doc string (up to 160 units; the form with single quotes only where there is none with
    double ones), the first comment with `#` at the start of a line, the first declaration
    (`class`, `def`, `const`, `export`, `function`, `async`). It may hold line breaks where the
    text does, and the path is taken as it is (specification of the working memory, section 7.3).
    A pair that the cut would part is left out.

    Args:
        path: where the file stands.
        content: its text.

    >>> heuristic_fact("src/model.py", '"""CNN model"""\nimport torch\n')
    '[Wrote src/model.py — CNN model, ~3 lines]'
    >>> heuristic_fact("a.txt", "plain")
    '[Wrote a.txt, ~1 lines]'
    '''
    said = _described(content)
    return f"{_START} {path}{f' — {said}' if said else ''}, ~{count_lines(content)} lines]"


def _unfenced(text: str, fence: re.Pattern[str]) -> str:
    """Take a code fence off: its first line as far as `fence` goes, and the last one."""
    text = trim(text)
    opened = fence.match(text)
    if opened:
        text = trim(text[opened.end() :])
    return trim(text.removesuffix("```"))


def normalize_fact(raw: str, path: str) -> str:
    r"""Bring a model's reply into the form of a fact: one line, in brackets, at most 221 units.

    A fence is taken off. What doesn't start with `[Wrote` is wrapped, without quotes, brackets and
    white space at its ends (specification of the working memory, section 7.2). The number of lines
    is left to the reply. A pair that the cut would part is left out.

    Args:
        raw: the reply.
        path: where the file stands.

    >>> normalize_fact('```text\n"A CNN with\n3 layers"\n```', "a.py")
    '[Wrote a.py — A CNN with 3 layers]'
    """
    text = _unfenced(raw, _FENCE)
    if not text.startswith(_START):
        text = f"{_START} {path} — {text.strip(_WRAPPING)}]"
    text = trim(_BLANKS.sub(" ", text))
    halves = units(cut(text, 0, _FACT + 1))
    if len(halves) > _FACT:
        text = f"{_taken(halves, 0, _SHORTENED)}..."
    return text if text.endswith("]") else f"{text}]"


# Verdicts


def _no_number(literal: str) -> NoReturn:
    raise ValueError(literal)


def verdict(reply: str | None) -> Verdict:
    r"""Read the reply to the question whether a result may leave.

    Only a JSON object whose `decision` is `DROP` says so, with a code fence around it or without;
    everything else, no reply among it, keeps the result (specification of the working memory,
    section 6.2, without its rule 4: fault W13).

    >>> verdict('```json\n{"decision": "DROP"}\n```')
    'DROP'
    >>> verdict("RETAIN (do not drop)")
    'RETAIN'
    """
    text = _unfenced(reply or "", _JSON_FENCE)
    try:
        value: Any = json.loads(text, parse_constant=_no_number, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return "RETAIN"
    if not isinstance(value, dict):
        return "RETAIN"
    return "DROP" if cast("dict[str, Any]", value).get("decision") == "DROP" else "RETAIN"


# Notes of the host

_OLD = "[Output truncated:"
_SAVED = "Full output saved to: "
_SAVED_RUN = re.compile(f"{_SAVED}[^{SPACE}]+")
_OLD_NOTE = re.compile(re.escape(_OLD) + r"[^\]]*\]")
_RUN = re.compile(f"[^{SPACE}]*")
_LIMIT = r"(?: \([^()\[\]\n]{1,40} limit\))?"
_SHOWING = rf"Showing lines \d{{1,20}}-\d{{1,20}} of \d{{1,20}}{_LIMIT}"
_PARTIAL = r"Showing last [^()\[\]\n]{1,40} of line \d{1,20} \(line is [^()\[\]\n]{1,40}\)"
_CUT = r"Output truncated[^\[\]\n]{0,200}"
_NOTE = re.compile(
    rf"\[(?:(?:{_SHOWING}|{_PARTIAL}|{_CUT})\. (?:Full output: |Read artifact://)"
    r"|raw output: artifact://)",
    re.ASCII,
)


def _run_end(text: str, start: int) -> int:
    """Give the place behind the last bracket of the run without blanks from `start`; 0 for none."""
    run = _RUN.match(text, start)
    return text.rfind("]", start, run.end() if run else start) + 1


def _without_saved(text: str) -> str:
    """Replace notes in brackets that say where the output was saved."""
    out: list[str] = []
    done = at = 0
    while (start := text.find(_OLD, at)) >= 0 and (close := text.find("]", start)) >= 0:
        at = close + 1  # no note that starts in front of this bracket reaches beyond it otherwise
        saved = text.rfind(_SAVED, start + len(_OLD), close)
        if saved < 0:
            continue
        end = _run_end(text, saved + len(_SAVED))
        if end > saved + len(_SAVED) + 1:
            out += [text[done:start], DISCARDED]
            done = at = end
    return "".join([*out, text[done:]])


def _without_notes(text: str) -> str:
    """Replace the notes that the host writes, up to their bracket on the same line."""
    out: list[str] = []
    done = at = close = 0
    while found := _NOTE.search(text, at):
        start = found.end()
        close = max(close, start)
        close = text.find("]", close) if text[close : close + 1] != "]" else close
        if close < 0:
            break
        line = text.find("\n", start, close)
        if line >= 0:
            at = line
            continue
        end = _run_end(text, close)
        out += [text[done : found.start()], DISCARDED]
        done = at = end
    return "".join([*out, text[done:]])


def sanitize_output(text: str) -> str:
    r"""Take out the notes that point at output which is not kept.

    First the notation that the original looks for (specification of the working memory, section 4),
    then those that the host writes (fault W11), each up to its closing bracket, with the rest of a
    path behind it.

    Args:
        text: what a command wrote, as the host shows it.

    >>> sanitize_output("ok\n\n[Showing lines 9-12 of 12. Full output: /tmp/pi-bash-1.log]")
    'ok\n\n[output discarded]'
    >>> sanitize_output("[Output truncated: 5 lines][Showing lines 1-9 of 99. Use :10 to continue]")
    '[Showing lines 1-9 of 99. Use :10 to continue]'
    """
    text = _SAVED_RUN.sub(DISCARDED, _without_saved(text))
    last = text.rfind("]") + 1  # behind it no note closes
    text = _OLD_NOTE.sub("", text[:last]) + text[last:]
    return _without_notes(text)


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def replied(text: str) -> str:
    r"""Clean the reply of an auxiliary model, which may repeat whatever it was shown.

    Terminal sequences, control characters but tabs and newlines, and marks that turn the direction
    of writing go; so do the notes of the host (`sanitize_output`) and blanks around it.

    >>> replied("- \x1b[31m2 failed\x1b[0m\x00\n[Output truncated. Full output: /tmp/a.log]")
    '- 2 failed\n[output discarded]'
    """
    return trim(sanitize_output(_CONTROLS.sub("", strip_ansi(text))))
