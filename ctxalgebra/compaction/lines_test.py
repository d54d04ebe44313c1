"""Runs of tests: failures with what is around them, summaries, and the end.

Source: skills and saver, section 14 (test); faults W8, W14, W39.
"""

from __future__ import annotations

import re

from ctxalgebra.compaction.lines_rules import DEFAULT, Rules, capped, choose
from ctxalgebra.compaction.lines_selection import Selection, folded, select, untouched
from ctxalgebra.compaction.lines_text import read
from ctxalgebra.compaction.signals import PASS, PROGRESS, WHITE, Words, strip_ansi

__all__ = ["compress_test"]

_W = f"[{WHITE}]"
_SUMMARY = Words(
    re.compile(
        rf"\A(?:Test Suites?:|Tests?:|Ran{_W}+[0-9]|{_W}*[0-9]+{_W}+(?:passed|failed|skipped)\b"
        r"|=[^\n\r\u2028\u2029]*?(?:passed|failed|error))"
        r"|\b(?:total|duration|collected|summary)\b",
        re.ASCII | re.IGNORECASE,
    ),
    (
        *("test", "ran", "passed", "failed", "skipped", "error"),
        *("total", "duration", "collected", "summary"),
    ),
)
_LAST = 12


def compress_test(
    text: str, query: str, pressure: int, *, rules: Rules = DEFAULT
) -> Selection | None:
    r"""Keep failures from 3 lines before to 8 after, summaries, what is asked for, and the end.

    Args:
        text: the output, with line ends of LF.
        query: what is looked for.
        pressure: 0 to 3; how much more than usual is kept.
        rules: how lines are judged.

    >>> text = "\n".join(["PASS a"] * 50 + ["FAIL b", "1 failed"] + ["PASS c"] * 50)
    >>> [(kept.at[0], kept.shown) for kept in compress_test(text, "", 0).kept]
    [(48, 'PASS a  ×3'), (51, 'FAIL b'), (52, '1 failed'), (53, 'PASS c  ×20')]
    """
    lines = read(strip_ansi(text), query, rules)
    total = len(lines.all)
    if total < 16:
        return untouched("test", lines)
    failures = lines.where(lines.errors)
    near = {at for place in failures for at in range(max(0, place - 3), min(total, place + 9))}
    sums = [place for place in lines.having(_SUMMARY) if not lines.errors[place]]
    judged = {*failures, *sums}
    passes, progress = (
        sum(place not in judged for place in lines.having(words)) for words in (PASS, PROGRESS)
    )
    asked = lines.where(lines.scores)
    last = range(total - _LAST, total)
    places = sorted({*near, *sums, *asked, *last})
    cap = capped(140, 220, pressure)
    if len(places) > cap:
        if rules.by_place:
            places = [*places[: cap - 20], *places[-20:]]
        else:
            places = choose(cap, last, failures, sums, asked, sorted(near))
    kept = folded(lines, places)
    return select("test", lines, kept, passes=passes, progress=progress)
