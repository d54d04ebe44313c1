"""What goes to a terminal: texts of others, without the characters that a terminal obeys.

For presentation alone: what a model gets is never changed. Source: travel, section 4.
"""

from __future__ import annotations

import re

__all__ = ["neutral"]

_BREAK = re.compile("\r\n?")
_CONTROL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def neutral(text: str) -> str:
    r"""Take out control characters; TAB and LF stay, CR and CRLF become LF.

    An escape sequence loses its first character and shows the rest.

    >>> neutral("a\x1b[31mred\r\nb\tc")
    'a[31mred\nb\tc'
    """
    return _CONTROL.sub("", _BREAK.sub("\n", text))
