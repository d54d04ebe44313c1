"""The catalogue of skills that the host writes into a system prompt: finding it, taking it out.

What goes is a block that names a skill of ours, or one behind the host's own preamble. A preamble
is the host's only where it begins a line, or follows a tag, and at most two lines of text stand
between it and the block, as the host has it; a document that quotes the sentence loses nothing
(W29). A name alone is no sign of a catalogue (W31). What is left over is told also when something
was taken out (W30). Source: skills and saver, section 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from attrs import frozen

from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.texts import quoted
from ctxalgebra.utf16 import SPACE

__all__ = ["PREAMBLE", "Block", "Prepared", "blocks", "leftover", "prepared", "replaced"]

PREAMBLE: Final = "The following skills provide specialized instructions for specific tasks."
"""The sentence that the host writes in front of its catalogue."""

_OPEN, _CLOSE = "<available_skills>", "</available_skills>"
_TOKEN = re.compile("|".join(map(re.escape, (PREAMBLE, _OPEN, _CLOSE))))
_NAME = re.compile("<name>([^<]*)</name>")
_MARKER = re.compile(rf"<available_skills[{SPACE}>]", re.ASCII | re.IGNORECASE)
_LINES: Final = 2
_FEW, _KEY = 16, 8
_NOTHING: Final[dict[int, set[str]]] = {}


class Block(NamedTuple):
    """Hold what is taken out of a prompt.

    Args:
        start, end: places in the text, in characters.
        known: whether it names a skill that we know.
    """

    start: int
    end: int
    known: bool


def _names(skills: Iterable[Skill]) -> frozenset[str]:
    return frozenset(quoted(skill.name) for skill in skills if skill.visible)


def _introduces(prompt: str, start: int, end: int) -> bool:
    """Say whether a preamble at `start` is the host's, for a block at `end`."""
    if start and prompt[start - 1] not in "\n>":
        return False
    lines = [line.strip(SPACE) for line in prompt[start + len(PREAMBLE) : end].split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return len(lines) <= _LINES + 1 and all(lines[1:])


def blocks(prompt: str, skills: Iterable[Skill]) -> tuple[Block, ...]:
    """Find what would be taken out of a prompt.

    Args:
        prompt: a system prompt.
        skills: those that we know; only those for a model count.

    >>> blocks("a <available_skills><name>git</name></available_skills> b", [Skill("git")])
    (Block(start=2, end=55, known=True),)
    """
    names = _names(skills)
    found: list[Block] = []
    opened = preamble = -1
    for token in _TOKEN.finditer(prompt):
        if token[0] == _OPEN:
            opened = token.start() if opened < 0 else opened
        elif token[0] == PREAMBLE:
            preamble = token.start() if opened < 0 else preamble
        else:
            if opened >= 0:
                inside = prompt[opened : token.start()]
                known = any(name[1] in names for name in _NAME.finditer(inside))
                start = opened
                if preamble >= 0 and _introduces(prompt, preamble, opened):
                    start = preamble
                    while start and prompt[start - 1] == "\n":
                        start -= 1
                if known or start < opened:
                    found.append(Block(start, token.end(), known))
            opened = preamble = -1
    return tuple(found)


def replaced(prompt: str, skills: Iterable[Skill], text: str) -> str:
    r"""Take the catalogues out, and put a text in the place of the first one.

    >>> catalogue = "<available_skills><name>git</name></available_skills>"
    >>> replaced(f"a\n{catalogue}\nb{catalogue}", [Skill("git")], "STUB")
    'a\n\n\nSTUB\nb'
    """
    parts: list[str] = []
    at = 0
    for block in blocks(prompt, skills):
        parts.append(prompt[at : block.start])
        if not at:
            parts.append(f"\n\n{text}")
        at = block.end
    return "".join(parts) + prompt[at:]


def _occurring(prompt: str, texts: Iterable[str]) -> frozenset[str]:
    """Give those of some texts that stand in a prompt, which is read once if they are many."""
    wanted = frozenset(texts)
    if len(wanted) <= _FEW or "" in wanted:
        return frozenset(text for text in wanted if text in prompt)
    size = min(_KEY, *map(len, wanted))
    begun: dict[str, dict[int, set[str]]] = {}
    for text in wanted:
        begun.setdefault(text[:size], {}).setdefault(len(text), set()).add(text)
    found: set[str] = set()
    for at in range(len(prompt) - size + 1):
        for length, ones in begun.get(prompt[at : at + size], _NOTHING).items():
            text = prompt[at : at + length]
            if text in ones:
                found.add(text)
    return frozenset(found)


def leftover(prompt: str, skills: Iterable[Skill]) -> bool:
    """Say whether a prompt looks as if it still showed skills: a person should know.

    Args:
        prompt: a system prompt.
        skills: as in `blocks`.

    >>> leftover("Use digital tools. <available_skills> other", [Skill("git", path="/s/git")])
    False
    >>> leftover("<available_skills> /s/git", [Skill("git", path="/s/git")])
    True
    """
    if PREAMBLE in prompt:
        return True
    known = [skill for skill in skills if skill.visible]
    paths = _occurring(prompt, (skill.path for skill in known if skill.path))
    if _MARKER.search(prompt):
        shown = {name[1] for name in _NAME.finditer(prompt)}
        return any(quoted(skill.name) in shown or skill.path in paths for skill in known)
    return bool(_occurring(prompt, (skill.name for skill in known if skill.path in paths)))


@frozen
class Prepared:
    """Hold a prompt whose catalogue a stub stands for.

    Args:
        prompt: the text.
        leftover: whether it looks as if it still showed skills.
    """

    prompt: str
    leftover: bool


def prepared(prompt: str, skills: Iterable[Skill], stub: str) -> Prepared:
    r"""Put a stub in the place of the host's catalogue, or at the end where there is none.

    A prompt that may still show skills gets the stub too: to leave it out would take the tools of
    the skills away (W31).

    >>> prepared("You code.", [Skill("git")], "STUB")
    Prepared(prompt='You code.\n\nSTUB', leftover=False)
    """
    known = tuple(skills)
    rest = replaced(prompt, known, "")
    told = leftover(rest, known)
    if blocks(prompt, known):
        return Prepared(replaced(prompt, known, stub), told)
    return Prepared(f"{prompt}\n\n{stub}", told)
