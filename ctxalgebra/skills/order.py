"""The order of names that people read: by letter, whatever the case.

It is the order of the host's language (`localeCompare`) for printable ASCII. Other letters stand
behind z, by their base letter; full collation needs tables that the library does not carry.
Source: skills and saver, section 1.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["name_order"]

_ORDER: Final = "\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
_RANK: Final = {character: rank for rank, character in enumerate(_ORDER)}
_IGNORED = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")


def name_order(text: str) -> tuple[tuple[int, ...], str, tuple[bool, ...], str]:
    r"""Give the key by which names are sorted.

    First letters count without case and accents, then accents, then case, lower before upper.

    >>> sorted(["b-x", "B-x", "a", "bx", "b_x", "\u00c4b", "A"], key=name_order)
    ['a', 'A', 'Äb', 'b_x', 'b-x', 'B-x', 'bx']
    """
    shown = _IGNORED.sub("", text)
    if shown.isascii():
        low = shown.lower()
        return tuple(map(_RANK.__getitem__, low)), "", tuple(map(str.isupper, shown)), text
    letters: list[str] = []
    marks: list[str] = []
    for character in unicodedata.normalize("NFD", shown):
        (marks if unicodedata.combining(character) else letters).append(character)
    ranks = (_RANK.get(low, len(_ORDER) + ord(low)) for letter in letters for low in letter.lower())
    return tuple(ranks), "".join(marks), tuple(letter.isupper() for letter in letters), text
