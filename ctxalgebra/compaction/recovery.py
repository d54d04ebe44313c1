r"""The store of originals: an immutable value, bounded, from which each text comes back exactly.

Up to 128 texts and 16 Mi characters are held; what was used longest ago leaves first. A text has a
name made from its digest, so that the same text is held once, and no two texts share one: lone
surrogates count (W10), and where a name should be taken it grows. Pages by lines tell the separator
behind their last line, so that pages put together are the text (W11); `excerpt` gives pages by
characters, for lines that are too long. Source: skills and saver, sections 12 and 15.

>>> store, name = keep(Recovery(), "a\r\nb\nc")
>>> store, one = page(store, name, 1, 1)
>>> store, rest = page(store, name, one.next)
>>> one.text, one.separator, rest.text
('a', '\r\n', 'b\nc')
>>> one.text + one.separator + rest.text + rest.separator == original(store, name)
True

Each operation costs a logarithm of the number of texts, and what it reads of the one it is for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final, cast

from attrs import evolve, field, frozen

from ctxalgebra.compaction.intmap import Tree, first, get, items, put, without
from ctxalgebra.compaction.limits import LARGEST
from ctxalgebra.compaction.signals import hash_text

__all__ = [
    "Excerpt",
    "Original",
    "Page",
    "Recovery",
    "excerpt",
    "keep",
    "names",
    "original",
    "page",
    "touch",
]

_MOST_TEXTS: Final = 128
_MOST_LINES: Final = 1000
_LINES: Final = 240
_MOST_CHARACTERS: Final = 100_000
_CHARACTERS: Final = 16_000


@frozen
class Original:
    """Hold one text.

    Args:
        id: its name.
        text: as it came.
        tool: whose output it is.
        size: what it counts for.
        used: when it was last used, in operations of the store.
    """

    id: str
    text: str = field(repr=False)
    tool: str
    size: int
    used: int


@frozen
class Recovery:
    """Hold texts up to a bound; a new one is empty.

    Args:
        texts: the most that are held.
        characters: the most that they count for together.
        measure: what a text counts for; the number of its characters.
        held: how many there are.
        size: what they count for.
        clock: how many operations there were.
        by_name, by_use: the texts by the number that is their name, and by when they were used.
    """

    texts: int = _MOST_TEXTS
    characters: int = LARGEST
    measure: Callable[[str], int] = field(default=len, repr=False)
    held: int = 0
    size: int = 0
    clock: int = field(default=0, repr=False)
    by_name: Tree[Original] = field(default=None, repr=False)
    by_use: Tree[Original] = field(default=None, repr=False)


@frozen
class Page:
    r"""Show lines of a text.

    Args:
        id: its name.
        text: the lines with their separators between them.
        separator: what stands behind the last of them: `\r\n`, `\r`, `\n`, or nothing at the end.
        start, end: numbers of the first and last line shown, from 1.
        total: how many lines there are; behind a last separator there is an empty one.
    """

    id: str
    text: str
    separator: str
    start: int
    end: int
    total: int

    @property
    def next(self) -> int:
        """The number of the line behind the page; 0 at the end."""
        return 0 if self.end == self.total else self.end + 1


@frozen
class Excerpt:
    """Show characters of a text.

    Args:
        id: its name.
        text: the characters.
        start: the place of the first one, from 0.
        total: how many there are.
    """

    id: str
    text: str
    start: int
    total: int

    @property
    def next(self) -> int:
        """The place of the character behind the excerpt; 0 at the end."""
        end = self.start + len(self.text)
        return 0 if end == self.total else end


def _key(name: str) -> int:
    return int(name, 16)


_NAME = re.compile(r"[0-9a-f]{24,64}\Z")


def _find(store: Recovery, name: str) -> Original | None:
    trimmed = name.strip()
    if not _NAME.match(trimmed):
        return None
    found = get(store.by_name, _key(trimmed))
    return found if found and found.id == trimmed else None


def _used(store: Recovery, found: Original) -> Recovery:
    """Set a text to the front."""
    clock = store.clock + 1
    again = evolve(found, used=clock)
    return evolve(
        store,
        clock=clock,
        by_name=put(store.by_name, _key(found.id), again),
        by_use=put(without(store.by_use, found.used), clock, again),
    )


def _name_for(store: Recovery, text: str) -> str:
    """Name a text: by 24 digits, or by all 64 where these are another's."""
    name = hash_text(text)
    taken = get(store.by_name, _key(name))
    if taken is None or taken.text == text:
        return name
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def keep(store: Recovery, text: str, tool: str = "") -> tuple[Recovery, str]:
    """Hold a text, and let those go that were used longest ago where there are too many.

    Args:
        store: not changed.
        text: any; one that is held already is only set to the front.
        tool: whose output it is.

    Returns:
        The store that holds it, and its name; the same store and an empty name where the text
        alone is too large.

    >>> store, name = keep(Recovery(texts=1), "a")
    >>> store, other = keep(store, "b")
    >>> original(store, name), original(store, other)
    (None, 'b')
    """
    size = store.measure(text)
    if size > store.characters or store.texts < 1:
        return store, ""
    name = _name_for(store, text)
    if (found := _find(store, name)) is not None:
        return _used(store, found), name
    clock = store.clock + 1
    new = Original(name, text, tool, size, clock)
    store = evolve(
        store,
        held=store.held + 1,
        size=store.size + size,
        clock=clock,
        by_name=put(store.by_name, _key(name), new),
        by_use=put(store.by_use, clock, new),
    )
    while store.held > store.texts or store.size > store.characters:
        store = _without_oldest(store)
    return store, name


def _without_oldest(store: Recovery) -> Recovery:
    _, gone = cast("tuple[int, Original]", first(store.by_use))
    return evolve(
        store,
        held=store.held - 1,
        size=store.size - gone.size,
        by_name=without(store.by_name, _key(gone.id)),
        by_use=without(store.by_use, gone.used),
    )


def original(store: Recovery, name: str) -> str | None:
    """Give a text whole, without setting it to the front; None where it is not held."""
    found = _find(store, name)
    return found.text if found else None


def names(store: Recovery) -> tuple[str, ...]:
    """Give the names of the texts that are held, the one used longest ago first.

    >>> store, a = keep(Recovery(), "a")
    >>> store, b = keep(store, "b")
    >>> names(touch(store, a)[0]) == (b, a)
    True
    """
    return tuple(one.id for _, one in items(store.by_use))


def touch(store: Recovery, name: str) -> tuple[Recovery, Original | None]:
    """Find a text and set it to the front."""
    found = _find(store, name)
    return (store, None) if found is None else (_used(store, found), found)


_ENDING = re.compile(r"\r\n|[\r\n]")


def page(
    store: Recovery, name: str, start: int = 1, count: int = _LINES
) -> tuple[Recovery, Page | None]:
    r"""Give lines of a text, with their own separators.

    Args:
        store: not changed.
        name: of the text.
        start: the number of the first line, from 1; beyond the end it is the last one.
        count: how many lines, 1 to 1,000.

    Returns:
        The store in which the text is at the front, and the page; None where it is not held.

    >>> store, name = keep(Recovery(), "a\r\nb")
    >>> page(store, name, 9)[1]
    Page(id='18745f36a05e29072709042d', text='b', separator='', start=2, end=2, total=2)
    """
    store, found = touch(store, name)
    if found is None:
        return store, None
    text = found.text
    ends = [ending.span() for ending in _ENDING.finditer(text)]
    total = len(ends) + 1
    head = min(max(start, 1), total)
    last = min(head + min(max(count, 1), _MOST_LINES) - 1, total)
    begin = ends[head - 2][1] if head > 1 else 0
    end, behind = ends[last - 1] if last < total else (len(text), len(text))
    return store, Page(found.id, text[begin:end], text[end:behind], head, last, total)


def excerpt(
    store: Recovery, name: str, start: int = 0, count: int = _CHARACTERS
) -> tuple[Recovery, Excerpt | None]:
    """Give characters of a text: pages for lines that are too long to be fetched whole.

    Args:
        store: not changed.
        name: of the text.
        start: the place of the first character, from 0; beyond the end there are none.
        count: how many, 1 to 100,000.

    Returns:
        As `page`.

    >>> store, name = keep(Recovery(), "abcdef")
    >>> page = excerpt(store, name, 2, 3)[1]
    >>> page.text, page.next
    ('cde', 5)
    """
    store, found = touch(store, name)
    if found is None:
        return store, None
    total = len(found.text)
    head = min(max(start, 0), total)
    most = min(max(count, 1), _MOST_CHARACTERS)
    return store, Excerpt(found.id, found.text[head : head + most], head, total)
