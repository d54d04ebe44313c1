"""The lines of a text, each judged once."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from ctxalgebra.compaction.lines_rules import Rules
from ctxalgebra.compaction.signals import WHITE, Words, relevance_score, text_terms

__all__ = ["Lines", "read"]


@frozen
class Lines:
    """Hold the lines of a text, and what each says.

    Args:
        all: the lines, split at LF only.
        errors: whether each has a word of an error.
        scores: how much of the query each has.
        blank: whether each is white space only.
        low: the text in lower case.
        rules: by which they were judged.
    """

    all: list[str]
    errors: list[bool]
    scores: list[int]
    blank: list[bool]
    low: str
    rules: Rules

    def having(self, words: Words) -> list[int]:
        r"""List the places of lines that have one of some words.

        >>> from ctxalgebra.compaction.lines_rules import DEFAULT
        >>> from ctxalgebra.compaction.signals import WARN
        >>> read("a\nwarning: b", "", DEFAULT).having(WARN)
        [1]
        """
        return self.where(words.each(self.all, self.low))

    def where(self, flags: Sequence[object]) -> list[int]:
        r"""List the places that a list flags.

        >>> from ctxalgebra.compaction.lines_rules import DEFAULT
        >>> lines = read("error\n\nok", "", DEFAULT)
        >>> lines.where(lines.errors), lines.where(lines.blank)
        ([0], [1])
        """
        return [place for place, flag in enumerate(flags) if flag]

    @property
    def written(self) -> list[int]:
        """The places of all lines that are not blank."""
        return [place for place, blank in enumerate(self.blank) if not blank]


def read(text: str, query: str, rules: Rules) -> Lines:
    r"""Split a text, and judge each line once.

    >>> from ctxalgebra.compaction.lines_rules import DEFAULT
    >>> read("the parser\nValueError: x", "why does the parser fail?", DEFAULT).scores
    [1, 0]
    """
    lines, low = text.split("\n"), text.lower()
    terms = [term for term in text_terms(query, ends=rules.term_ends) if term in low]
    return Lines(
        lines,
        rules.error.each(lines, low),
        [relevance_score(line, terms) for line in lines] if terms else [0] * len(lines),
        [not line or not line.strip(WHITE) for line in lines],
        low,
        rules,
    )
