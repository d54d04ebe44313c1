"""How the original skill orchestrator makes tokens of names: of ASCII letters only (W26).

`ctxalgebra.skills.groups.token` is the library's own (specification of skills and saver,
section 7).
"""

from __future__ import annotations

import re

__all__ = ["ascii_token"]

_UNTYPED = re.compile("[^A-Za-z0-9.-]+")


def ascii_token(name: str) -> str:
    """Give the token of a name as the original has it.

    >>> ascii_token("  Film / Story -- v1.2! "), ascii_token("日本")
    ('Film_Story_--_v1.2', '')
    """
    return _UNTYPED.sub("_", name).strip("_")
