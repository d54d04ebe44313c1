r"""Texts as the host counts and reads them: UTF-16 units, and what its language calls white space.

Python counts code points; a character beyond the first plane is two units, and a text may be cut
between them (specification of the working memory, sections 1 and 10).
"""

from __future__ import annotations

from struct import iter_unpack

__all__ = ["BREAKS", "SPACE", "cut", "parted", "trim", "units", "whole"]

SPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
r"""White space: what `trim` takes off and `\s` matches there, and nothing else."""

BREAKS = "\n\r\u2028\u2029"
"""What ends a line for `.` and the anchors of its patterns."""


def units(text: str) -> str:
    r"""Write a text with one character for each unit: a pair becomes its two halves.

    >>> units("a\U0001f600")
    'a\ud83d\ude00'
    """
    if text.isascii():
        return text
    wide = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(unit) for (unit,) in iter_unpack("<H", wide))


def whole(halves: str) -> str:
    r"""Join the halves that stand side by side; others stay.

    >>> whole("a\ud83d\ude00") == "a\U0001f600"
    True
    """
    if halves.isascii():
        return halves
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def cut(text: str, start: int, stop: int) -> str:
    r"""Take the units from `start` to `stop`; half a pair may be left at an end.

    >>> cut("ab\U0001f600c", 1, 3)
    'b\ud83d'
    """
    if text.isascii():
        return text[start:stop]
    wide = text.encode("utf-16-le", "surrogatepass")
    return wide[2 * start : 2 * stop].decode("utf-16-le", "surrogatepass")


def parted(halves: str, at: int) -> bool:
    r"""Say whether a place in units lies inside a pair.

    >>> parted(units("ab\U0001f600c"), 3)
    True
    """
    return (
        "\ud800" <= halves[at - 1 : at] <= "\udbff" and "\udc00" <= halves[at : at + 1] <= "\udfff"
    )


def trim(text: str) -> str:
    r"""Take white space off both ends.

    >>> trim("\ufeff a\x85\n")
    'a\x85'
    """
    return text.strip(SPACE)
