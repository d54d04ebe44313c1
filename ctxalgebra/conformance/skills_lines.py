"""The part of `skills` that reads and filters the lines of an output.

The filters answer by the original's rules, faults included, and by the library's own where the
input has `rules: "ours"`. What stands in headers and marks is worded freely and left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ctxalgebra.compaction import signals
from ctxalgebra.compaction.lines_log import compress_log as log
from ctxalgebra.compaction.lines_rules import DEFAULT, ORIGINAL, Rules
from ctxalgebra.compaction.lines_sample import compress_generic as generic
from ctxalgebra.compaction.lines_sample import compress_table as table
from ctxalgebra.compaction.lines_sample import compress_tree as tree
from ctxalgebra.compaction.lines_search import compress_search as search
from ctxalgebra.compaction.lines_selection import Selection
from ctxalgebra.compaction.lines_source import compress_code as code
from ctxalgebra.compaction.lines_source import compress_config as config
from ctxalgebra.compaction.lines_source import compress_diff as diff
from ctxalgebra.compaction.lines_test import compress_test as test
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.values import InvalidInput

__all__ = ["OPERATIONS", "named_rules"]

_RULES = {"original": ORIGINAL, "ours": DEFAULT}
_LONE = re.compile("[\ud800-\udfff]")


def named_rules(name: str) -> Rules:
    """Give the rules that an input names: `original` or `ours`."""
    if name not in _RULES:
        raise InvalidInput(f"input.rules: expected one of {', '.join(_RULES)}")
    return _RULES[name]


def strip_ansi(*, text: str, rules: str = "original") -> Any:
    """Take out terminal sequences."""
    return signals.strip_ansi(text, uncut=named_rules(rules) is ORIGINAL)


def normalize_newlines(*, text: str) -> Any:
    """Make each line end a LF."""
    return signals.normalize_newlines(text)


def split_lines_preserve_endings(*, text: str) -> Any:
    """Part a text into lines and their separators."""
    lines = signals.split_lines_preserve_endings(text)
    return [{"content": content, "separator": separator} for content, separator in lines]


def text_terms(*, text: str) -> Any:
    """List what a request looks for."""
    return list(signals.text_terms(text))


def relevance_score(*, text: str, terms: list[str]) -> Any:
    """Weigh the terms that a text contains."""
    return signals.relevance_score(text, terms)


def dedupe_lines(*, lines: list[str]) -> Any:
    """Fold repeats."""
    return list(signals.dedupe_lines(lines))


def normalize_log_pattern(*, line: str) -> Any:
    """Give the pattern of a line."""
    return signals.normalize_log_pattern(line)


def code_signature(*, line: str) -> Any:
    """Say whether a line is a signature."""
    return signals.code_signature(line)


def hash_text(*, text: str) -> Any:
    """Name a text by its digest, lone surrogates replaced as the original does."""
    return signals.hash_text(_LONE.sub("\ufffd", text))


def _lines(selection: Selection) -> list[str]:
    return [kept.shown for kept in selection.kept]


def compress_log(
    *, text: str, query: str, pressure: int, error_mode: bool = False, rules: str = "original"
) -> Any:
    """Fold the patterns of a log, or focus on its errors."""
    found = log(text, query, pressure, errors_only=error_mode, rules=named_rules(rules))
    if found is None:
        return None
    left = sum(mark.of for mark in found.marks if mark.kind == "patterns")
    gone = sum(mark.lines for mark in found.marks if mark.kind == "progress")
    if rules == "original":
        # Its note of progress counts as a pattern that is shown.
        left = max(0, left - (gone > 0))
    return {
        "focused": found.focused,
        "progressRemoved": gone,
        "patternsOmitted": left,
        "lines": _lines(found),
    }


def compress_test(*, text: str, query: str, pressure: int, rules: str = "original") -> Any:
    """Keep failures, summaries and the end of a run."""
    found = test(text, query, pressure, rules=named_rules(rules))
    return found and {
        "passCollapsed": found.passes,
        "progressOmitted": found.progress,
        "lines": _lines(found),
    }


def compress_search(*, text: str, query: str, pressure: int, rules: str = "original") -> Any:
    """Group matches by file."""
    found = search(text, query, pressure, rules=named_rules(rules))
    if found is None or found.strategy == "generic":
        return found and {"lines": _lines(found)}
    shown = _lines(found)
    ends = [mark.before for mark in found.marks[1:]] + [len(shown)]
    parts = [(mark, shown[mark.before : end]) for mark, end in zip(found.marks, ends, strict=True)]
    return {
        "groups": [
            {"prefix": mark.name, "matches": mark.of, "lines": lines}
            for mark, lines in parts
            if mark.kind == "group"
        ],
        "other": [line for mark, lines in parts if mark.kind == "other" for line in lines],
    }


def compress_code(*, text: str, query: str, pressure: int, rules: str = "original") -> Any:
    """Outline a source."""
    found = code(text, query, pressure, rules=named_rules(rules))
    return found and {"kept": [kept.at[0] for kept in found.kept]}


def compress_generic(
    *,
    text: str,
    query: str,
    pressure: int,
    cap_override: int | None = None,
    rules: str = "original",
) -> Any:
    """Extract the ends and what matters of any text."""
    found = generic(text, query, pressure, cap=cap_override, rules=named_rules(rules))
    return found and {"lines": _lines(found)}


def _plain(
    function: Callable[..., Selection | None], text: str, query: str, pressure: int, rules: str
) -> Any:
    found = function(text, query, pressure, rules=named_rules(rules))
    return found and {"lines": _lines(found)}


def compress_diff(*, text: str, query: str, pressure: int, rules: str = "original") -> Any:
    """Keep changed lines and their neighbours."""
    return _plain(diff, text, query, pressure, rules)


def compress_tree(*, text: str, query: str, pressure: int, rules: str = "original") -> Any:
    """Sample a listing."""
    return _plain(tree, text, query, pressure, rules)


def compress_table(*, text: str, query: str, pressure: int, rules: str = "original") -> Any:
    """Sample the rows of a table."""
    return _plain(table, text, query, pressure, rules)


def compress_config(*, text: str, query: str, pressure: int, rules: str = "original") -> Any:
    """Keep the keys and sections of a configuration."""
    return _plain(config, text, query, pressure, rules)


OPERATIONS = collect(
    "skills",
    strip_ansi,
    normalize_newlines,
    split_lines_preserve_endings,
    text_terms,
    relevance_score,
    dedupe_lines,
    normalize_log_pattern,
    code_signature,
    hash_text,
    compress_log,
    compress_test,
    compress_search,
    compress_diff,
    compress_code,
    compress_tree,
    compress_table,
    compress_config,
    compress_generic,
)
