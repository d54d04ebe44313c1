"""What a command line runs, as far as classifying its output needs to know.

Words keep together what is quoted; a body behind `<<` is passed over. It is no shell: what stands
inside quotes is not looked into, nor what stands behind 20,000 characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from attrs import frozen

__all__ = ["READ", "Command", "pipelines", "word_set"]


def word_set(text: str) -> frozenset[str]:
    """Give the words of a text.

    >>> sorted(word_set("b a b"))
    ['a', 'b']
    """
    return frozenset(text.split())


@frozen
class Command:
    """Hold one command.

    Args:
        program: its name, lower-cased, without the folder that it lies in.
        words: what stands behind it, without quotes.
    """

    program: str
    words: tuple[str, ...]

    @property
    def action(self) -> str:
        """The first word that is no option, as in `git diff`; empty where there is none.

        >>> Command("git", ("-C", "src", "--no-pager", "log", "-5")).action
        'log'
        """
        passing = False
        for word in self.words:
            if passing:
                passing = False
            elif word.startswith("-"):
                passing = word in _TAKES_ONE
            else:
                return word.lower()
        return ""


_TAKES_ONE = frozenset({"-C", "-c", "--prefix", "-w", "--workspace", "-n", "--namespace"})

_PIECE = re.compile(
    r"(?P<quoted>\"(?:[^\"\\]++|\\.)*+\"?|'[^']*+'?)"
    r"|(?P<plain>[0-9]?[<>]+&[0-9-]|&>|(?:[^\s|;&()\"'\\]|\\.|\\\Z)++)"
    r"|(?P<pipe>\|&?(?!\|))|(?P<end>\|\||&&|[;&()\n])|(?P<blank>[^\S\n]+)",
    re.DOTALL,
)
_BODY = re.compile(r"<<-?[^\S\n]*[\"'\\]?\w")
_ASSIGNED = re.compile(r"\w+=")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?[smhd]?\Z")

_KEYWORDS = word_set("if then elif else while until do ! { time")
_WRAPPERS: Final = word_set(
    "sudo doas env nohup nice exec command xargs timeout stdbuf watch npx bunx pnpx"
)
_RUNNERS: Final = word_set(
    "uv.run poetry.run pipenv.run rye.run hatch.run pdm.run bundle.exec npm.exec pnpm.exec "
    "pnpm.dlx yarn.dlx python.-m python3.-m py.-m"
)


def _unwrapped(words: list[str]) -> list[str]:
    """Take away what only runs something else: assignments, `sudo -E`, `timeout 60`, `npx`."""
    at = 0
    while at < len(words):
        word = words[at].lower()
        following = words[at + 1].lower() if at + 1 < len(words) else ""
        if word in _KEYWORDS or _ASSIGNED.match(word):
            at += 1
        elif word in _WRAPPERS:
            at += 1
            while at < len(words) and (words[at].startswith("-") or _NUMBER.match(words[at])):
                at += 1
        elif f"{word}.{following}" in _RUNNERS:
            at += 2
        else:
            break
    return words[at:]


READ: Final = 20_000
"""So much of a command line is read."""


def _lines(text: str) -> str:
    """Leave out what stands behind a line that begins a body (`<<EOF`)."""
    text = text[:READ]
    body = _BODY.search(text)
    end = text.find("\n", body.end()) if body else -1
    return text if end < 0 else text[:end]


def _split(text: str) -> Iterator[tuple[list[str], bool]]:
    """Give the words of each command, and whether it feeds the next one."""
    words: list[str] = []
    word: list[str] = []
    for piece in _PIECE.finditer(_lines(text)):
        kind = piece.lastgroup
        if kind == "plain":
            word.append(piece[0])
            continue
        if kind == "quoted":
            word.append(piece[0].strip(piece[0][0]))
            continue
        if word:
            words.append("".join(word))
            word = []
        if kind != "blank":
            yield words, kind == "pipe"
            words = []
    yield [*words, *(["".join(word)] if word else [])], False


def pipelines(text: str) -> tuple[tuple[Command, ...], ...]:
    """Read a command line: its pipelines, each with its commands.

    >>> for one in pipelines("cd a && sudo npm test 2>&1 | tail -20; git commit -m 'find | it'"):
    ...     print(*(f"{each.program} {each.words}" for each in one))
    cd ('a',)
    npm ('test', '2>&1') tail ('-20',)
    git ('commit', '-m', 'find | it')
    """
    found: list[tuple[Command, ...]] = []
    current: list[Command] = []
    for words, feeds in _split(text):
        if run := _unwrapped(words):
            program = run[0].lower().replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
            if program:
                current.append(Command(program, tuple(run[1:])))
        if current and not feeds:
            found.append(tuple(current))
            current = []
    return tuple(found)
