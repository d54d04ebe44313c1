r"""Command lines that say plainly what they run: commands, their words, and nothing hidden.

A line is read as a shell reads it, or not at all. What a shell would put in (variables, what other
commands print), bodies behind `<<`, files that are written, functions and blocks are not read;
of files that are read, and output that goes to `/dev/null`, no words are left. Source: skills and
saver, section 17 (W40).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ctxalgebra.compaction.shell import READ

__all__ = ["Word", "commands"]

_END: Final = r"(?=[ \t\n|;&]|\Z)"
_PIECE = re.compile(
    rf"""(?P<gap>[ \t]++)
    |(?P<end>\|\||&&|\|&?|;|\n)
    |(?P<away>[0-9]*+>&[0-9-]{_END}|(?:[0-9]++|&)?>>?\|?[ \t]*+/dev/(?:null|stdout|stderr){_END}
        |[0-9]*+<[ \t]*+(?:/dev/null|(?!/dev/)[\w./~+,:@%-]++){_END})
    |'(?P<raw>[^']*+)'
    |"(?P<said>(?:[^"\\$`]|\\.|\$(?=["|)/. \t]))*+)"
    |(?P<plain>(?:[\w./~+,:@%=^!\]-]|[^\x00-\x7f]|(?<=[^\s|;&])\#|\$(?=[ \t\n|;]|\Z))++|\\[^\n])
    |(?P<loose>[*?\[{{}}])""",
    re.ASCII | re.DOTALL | re.VERBOSE,
)
_JOINED = re.compile(r"""('[^']*+'|"(?:[^"\\]|\\.)*+"|\\[^\n])|\\\n""", re.DOTALL)
"""What is kept as it is, or a line end that a shell takes out before it reads anything."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_DIGITS = re.compile(r"\A[0-9]+")
_ESCAPED = re.compile(r"\\(?:\n|([\\$`\"]))")


class Word(NamedTuple):
    """Hold a word of a command.

    Args:
        text: without quotes.
        loose: whether a shell may make several words of it, as of `*.py` and `{a,b}`.
        open: whether it may begin with anything then.
    """

    text: str
    loose: bool = False
    open: bool = False


def commands(line: str) -> tuple[tuple[Word, ...], ...] | None:
    r"""List the commands of a line with their words; None where it does not say them plainly.

    Args:
        line: what a shell runs, at most `READ` characters.

    >>> [[word.text for word in each] for each in commands("grep -n 'a b' x* 2>&1 | wc -l")]
    [['grep', '-n', 'a b', 'x*'], ['wc', '-l']]
    >>> commands("cat $(rm x)") is commands("cat a > b") is commands("cat ${x:=y}") is None
    True
    """
    if len(line) > READ or _CONTROLS.search(line):
        return None
    line = _JOINED.sub(lambda kept: kept[1] or "", line)
    found: list[tuple[Word, ...]] = []
    words: list[Word] = []
    word: Word | None = None
    at = 0
    while at < len(line):
        piece = _PIECE.match(line, at)
        if piece is None:
            return None
        at = piece.end()
        kind = piece.lastgroup
        if kind in {"gap", "end", "away"}:
            if word is not None:
                # A number that stands at a word belongs to it, and not to what goes elsewhere.
                number = "".join(_DIGITS.findall(piece[0])) if kind == "away" else ""
                words.append(word._replace(text=word.text + number))
                word = None
            if kind == "end" and words:
                found.append(tuple(words))
                words = []
            continue
        text, loose, unknown = word or Word("")
        if kind == "loose":
            word = Word(text + piece[0], loose=True, open=unknown or not text)
        else:
            word = Word(text + _plain(piece), loose, unknown)
    if word is not None:
        words.append(word)
    return tuple(found) + ((tuple(words),) if words else ())


def _plain(piece: re.Match[str]) -> str:
    if piece["raw"] is not None:
        return piece["raw"]
    if piece["said"] is not None:
        return _ESCAPED.sub(lambda found: found[1] or "", piece["said"])
    return piece[0][1:] if piece[0][0] == "\\" else piece[0]
