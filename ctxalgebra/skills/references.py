r"""References: where the text of a skill asks for another one, and where it forbids it.

A text is read once, however many skills there are. A name counts as a whole, so `code-review` is no
reference to `code`; behind a verb without quotes it has to end the phrase or be called a skill, so
`run test data` is none to `test`. What forbids reaches neither over a paragraph nor over an item of
a list, is not undone by the kind of apostrophe, and is undone by `do not forget` (W34); it is also
`must not`, `without using` or `no`, and `do not work without` asks for what is named; behind
`using` a name is asked for in that way alone. Emphasis hides no word. Case is that of ASCII.
Source: skills and saver, section 11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from ctxalgebra.compaction.shell import word_set
from ctxalgebra.utf16 import BREAKS, SPACE, units

__all__ = ["LONGEST", "Names", "forbidden", "references"]

LONGEST: Final = 128
"""The longest name that a text can refer to, in characters."""

_W = f"[{SPACE}]"
_CALLED = re.compile(
    rf"(?P<typed>/skill:)"
    rf"|\b(?P<quoted>skill{_W}*\({_W}*[\"'])"
    rf"|\b(?P<verb>(?:invoke|call|load|use|run){_W}+(?:the{_W}+)?[`\"']?)"
    rf"|\b(?P<doing>(?:invoking|calling|loading|using|running){_W}+(?:the{_W}+)?[`\"']?)"
    rf"|(?:(?<=[{SPACE}(])|\A)(?P<file>\.\./)",
    re.ASCII | re.IGNORECASE,
)
_AS_SKILL = re.compile(rf"{_W}skill\b", re.ASCII | re.IGNORECASE)
_QUOTE_CLOSE = re.compile(rf"[\"']{_W}*\)")
_FILE = re.compile(r"/SKILL\.md\b", re.ASCII | re.IGNORECASE)
_QUOTES: Final = "`\"'"
_GOES_ON: Final = word_set(
    """
    after afterwards again along already also always and apply as at avoid because before
    both but by call do don during either every first follow for from here if in instead
    into invoke it later load never next not now on once only or otherwise please run
    second see skill so than that then there this to today together too unless until use
    when whenever where wherever whether which while with within without you
    """
)
"""Words with which a sentence goes on behind a name; any other is what the name belongs to."""

_FAR: Final = 64
_APOSTROPHE: Final = "['‘’ʼ`´]?"
_CALLS: Final = "(?:use|using|load|loading|call|calling|invoke|invoking|run|running)"
_FORBIDDING: Final = rf"""
    (?:do|must|should|shall|may|can|need){_W}+not|cannot
    |(?:do|must|should|ca|sha|need)n{_APOSTROPHE}t
    |(?:does|did|could|would|will|might|is|are|was|were){_W}+not(?={_W}+{_CALLS}\b|{_W}*\Z)
    |(?:does|did|could|would|wo|is|are)n{_APOSTROPHE}t(?={_W}+{_CALLS}\b|{_W}*\Z)
    |never|neither|nor|no{_W}+longer|no{_W}+(?:need|reason)(?:{_W}+to)?
    |at{_W}+no{_W}+(?:point|time)
    |(?:by|for|in|on|under){_W}+no{_W}+(?:account|cases?|circumstances?|conditions?|event|means
        |pretext|reason)
    |(?:not|forbidden|prohibited){_W}+(?:allowed{_W}+|permitted{_W}+)?(?:to|from)
"""
_AVOIDING: Final = rf"""
    avoid|refuse{_W}+to|refrain{_W}+from|not{_W}+to
    |(?:without|stop|instead{_W}+of|rather{_W}+than)(?={_W}+(?:the|any|{_CALLS})\b|{_W}*\Z)
"""
_STRESS: Final = r"""
    (?:a|account|again|all|any|at|attempt|automatically|by|cases?|circumstances?|conditions?
        |directly|even|ever|event|in|means|on|please|pressure|really|to|try|under|whatsoever)\b(?!-)
"""
_BETWEEN: Final = rf"""
    (?!(?:-|{_W}+(?:only|just|merely|simply|solely)\b))
    (?P<between>
        (?:(?:,?{_W}+{_STRESS}
            |{_W}*[—–]{_W}*(?:{_STRESS}{_W}*)++[—–]
            |{_W}*\({_W}*(?:{_STRESS}{_W}*)++\))++,?)?+
        (?:{_W}+(?!(?:before|but|instead|then|unless|until)\b)[a-z0-9_-]+){{0,3}}{_W}*
    )\Z
"""
_FORBIDS = re.compile(
    rf"""(?s:.*)\b(?:(?P<avoids>{_AVOIDING})
        |(?P<undone>forget(?:ting)?|fail(?:ing)?|hesitate|neglect|omit|skip)
        |{_FORBIDDING}){_BETWEEN}
    |(?s:.*)\bno{_W}+\Z""",
    re.ASCII | re.VERBOSE,
)
_MARKUP = re.compile(r"(?<![a-z0-9*_`])[*_`]++(?=[a-z0-9]|\Z)|(?<=[^\s*_`])[*_`]++(?![a-z0-9])")
"""What Markdown sets around words for emphasis or as code; the mark of an item is none."""

_PARTS = re.compile(rf"[\n\r\u2028\u2029]{_W}*(?:[\n\r\u2028\u2029]|[-*+]{_W}|[0-9]+[.)]{_W}|#)")


def _fold(text: str) -> str:
    """Lower case without changing any place, and without making ASCII of what is none."""
    if not text.isascii():
        text = text.replace("\u0130", "\ufffd").replace("\u212a", "\ufffd")
    return text.lower()


def forbidden(text: str, at: int) -> bool:
    """Say whether what stands in front of a place forbids what stands there.

    Args:
        text: the text of a skill.
        at: a place, in characters; what stands 64 units before it counts.

    >>> forbidden("do not use tdd", 11), forbidden("do not forget to use tdd", 21)
    (True, False)
    """
    return _wanted(text, at) is False


def _wanted(text: str, at: int) -> bool | None:
    """Say whether what stands at a place is forbidden, or asked for by two words that forbid."""
    near = units(_fold(text[max(0, at - _FAR) : at]))
    return _said(_MARKUP.sub("", near[-_FAR:]))


def _said(near: str) -> bool | None:
    """Look for the last word that forbids; to avoid what is forbidden is to ask for it."""
    found = _FORBIDS.match(near)
    if found is None or _PARTS.search(found["between"] or ""):
        return None
    for kind, alone in (("avoids", False), ("undone", None)):
        if found[kind]:
            return True if _said(near[: found.start(kind)]) is False else alone
    return False


class Names:
    """Hold names so that those at a place of a text are found at once.

    Args:
        names: any texts; empty ones and those of more than `LONGEST` characters are passed over.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._spelled: dict[str, list[str]] = {}
        self._ahead: dict[str, set[int]] = {}
        self._back: dict[str, set[int]] = {}
        for name in names:
            low = _fold(name)
            if 0 < len(low) <= LONGEST:
                self._spelled.setdefault(low, []).append(name)
                self._ahead.setdefault(_word(low, 0), set()).add(len(low))
                self._back.setdefault(_word_before(low, len(low)), set()).add(len(low))

    def starting(self, low: str, at: int) -> Iterator[tuple[list[str], int]]:
        """Give the names that start at a place as whole words, and where each ends."""
        for length in self._ahead.get(_word(low, at), ()):
            end = at + length
            names = self._spelled.get(low[at:end])
            if names and not _goes_on(low, end):
                yield names, end

    def ending(self, low: str, at: int) -> Iterator[tuple[list[str], int]]:
        """Give the names that end at a place as whole words, and where each starts."""
        for length in self._back.get(_word_before(low, at), ()):
            start = at - length
            names = self._spelled.get(low[start:at]) if start >= 0 else None
            if names and not (start and _in_word(low[start - 1])):
                yield names, start


def _in_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character in "_-")


def _goes_on(low: str, end: int) -> bool:
    return end < len(low) and _in_word(low[end])


def _word(low: str, at: int) -> str:
    end = at
    while _goes_on(low, end):
        end += 1
    return low[at:end]


def _word_before(low: str, at: int) -> str:
    start = at
    while start and _in_word(low[start - 1]):
        start -= 1
    return low[start:at]


def _ends_phrase(low: str, end: int, mark: str) -> bool:
    """Say whether a name behind a verb is meant as one, with the quote that stands before it."""
    if mark and end < len(low) and low[end] in _QUOTES:
        return True
    start = end
    while start < len(low) and low[start] in SPACE:
        start += 1
    word = _word(low, start)
    wrapped = not frozenset(BREAKS).isdisjoint(low[end:start])
    return start == end or not word or wrapped or word in _GOES_ON


def _found(text: str, low: str, names: Names) -> Iterator[tuple[list[str], int]]:
    """Give names that are called, and where the call starts."""
    for call in _CALLED.finditer(text):
        at, end, kind = call.start(), call.end(), call.lastgroup
        if kind in {"verb", "doing"}:
            for spelled in _behind_verb(low, end, names):
                if kind == "verb" or _wanted(text, at):
                    yield spelled, at
            continue
        behind = {"quoted": _QUOTE_CLOSE, "file": _FILE}.get(str(kind))
        for spelled, stop in names.starting(low, end):
            if behind is None or behind.match(low, stop):
                yield spelled, at
    for skill in _AS_SKILL.finditer(text):
        stop = skill.start()
        while stop and low[stop - 1] in SPACE:
            stop -= 1
        for spelled, start in names.ending(low, stop):
            yield spelled, start


def _behind_verb(low: str, end: int, names: Names) -> Iterator[list[str]]:
    mark = low[end - 1] if low[end - 1] in _QUOTES else ""
    for spelled, stop in names.starting(low, end):
        if _ends_phrase(low, stop, mark):
            yield spelled


def references(text: str, names: Names, current: str = "") -> tuple[str, ...]:
    r"""Find the skills that a text asks for, and doesn't forbid.

    Args:
        text: the text of a skill.
        names: of the skills that there are.
        current: the skill itself.

    Returns:
        Names, sorted.

    >>> names = Names(["code", "code-review", "tdd", "plan"])
    >>> references("Always use code-review. Never load `tdd`. See /skill:plan.", names)
    ('code-review', 'plan')
    """
    low = _fold(text)
    found: set[str] = set()
    for spelled, at in _found(text, low, names):
        new = [name for name in spelled if name not in found and name != current]
        if new and not forbidden(text, at):
            found.update(new)
    return tuple(sorted(found, key=units))
