"""What fills the window: tokens by kind, scaled to what was really used.

Estimates of the parts seldom add up to what the provider counted. They are only ever scaled down:
where they are too small, nobody knows what the rest is, and it stands by itself as `other` (travel,
section 18).
"""

from __future__ import annotations

from fractions import Fraction
from math import floor

from attrs import frozen

from ctxalgebra.calibration import estimate
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session
from ctxalgebra.model.view import Measure, weigh
from ctxalgebra.tokens import chars4, check_positive
from ctxalgebra.usage.budget import Number, percent_text, token_text

__all__ = ["Breakdown", "breakdown", "breakdown_text", "grid", "scaled", "split_weight"]

_COLUMNS, _LINES = 10, 5
_CELLS = _COLUMNS * _LINES
_SIGNS = (("system", "S"), ("tools", "T"), ("calls", "C"), ("messages", "M"), ("other", "O"))


@frozen
class Breakdown:
    """Tell what fills the window, in tokens.

    Args:
        system: the system text.
        tools: the list of tools.
        calls: calls of tools and their results.
        messages: everything that was said, thinking and summaries too.
        other: what was used beyond that, or is of no kind.
        available: what is left of the window.
        window: the context window; 0 where there is none.
    """

    system: int
    tools: int
    calls: int
    messages: int
    other: int
    available: Number
    window: Number

    @property
    def used(self) -> int:
        """All that is used."""
        return self.system + self.tools + self.calls + self.messages + self.other


def split_weight(tokens: int, calls: int, rest: int) -> tuple[int, int]:
    """Split the tokens of a message by the characters of its calls and of all else; half up.

    >>> split_weight(9, 1, 1), split_weight(3, 0, 0)
    ((5, 4), (0, 3))
    """
    if not calls:
        return 0, tokens
    part = (2 * tokens * calls + calls + rest) // (2 * (calls + rest))
    return part, tokens - part


def scaled(
    system: int,
    tools: int,
    calls: int,
    messages: int,
    unknown: int = 0,
    *,
    actual: Number,
    window: Number,
    scale: Number | None = None,
) -> Breakdown:
    """Scale estimates down to what was used, and name what they don't explain.

    Args:
        system, tools, calls, messages: estimates in tokens.
        unknown: the estimate of what is of no kind.
        actual: tokens that were used.
        window: the context window in tokens.
        scale: the part of an estimate that counts, as the host computes it; exact by default.

    >>> scaled(10, 12, 0, 10, actual=5000, window=10_000).other
    4968
    >>> scaled(60, 0, 0, 60, actual=90, window=100)
    Breakdown(system=45, tools=0, calls=0, messages=45, other=0, available=10, window=100)
    """
    known = system + tools + calls + messages + unknown
    if scale is None:
        scale = min(Fraction(1), Fraction(actual) / known) if known else 1
    share = scale

    def part(tokens: int) -> int:
        return floor(tokens * share)

    parts = (part(system), part(tools), part(calls), part(messages))
    rest = max(0, floor(actual) - sum(parts) - part(unknown)) + part(unknown)
    return Breakdown(*parts, rest, max(0, window - actual), window)


def breakdown(session: Session, *, window: int, measure: Measure = chars4) -> Breakdown:
    """Tell what fills the window with the next request (a query; records nothing).

    What was used is what `pressure_of` reads.

    Args:
        window: the model's context window in tokens.
        measure: tokens of a message or head.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, no positive window.

    >>> from ctxalgebra import *
    >>> session = record(Session(), Head(system="s" * 40), user("x" * 80))
    >>> breakdown(session, window=100)
    Breakdown(system=10, tools=0, calls=0, messages=20, other=0, available=70, window=100)
    """
    check_positive(window=window)
    actual = estimate(session, measure=measure)
    view, whole = session.view, session.head
    head = weigh(measure, whole)
    system = min(head, weigh(measure, Head(whole.route, whole.system))) if whole.tools else head
    calls = messages = 0
    for message in view.messages():
        ours, theirs = _split(message, weigh(measure, message))
        calls, messages = calls + ours, messages + theirs
    return scaled(system, head - system, calls, messages, actual=actual, window=window)


def _split(message: Message, tokens: int) -> tuple[int, int]:
    """Split the tokens of a message into those of calls and their results, and all others."""
    if message.role == "tool":
        return tokens, 0
    weight = sum(len(call.name) + len(call.arguments) for call in message.calls)
    return split_weight(tokens, weight, message.characters - weight)


def grid(known: Breakdown) -> str:
    """Draw the window as 5 lines of 10 cells: each kind that is there has one at least.

    `S` system text, `T` tools, `C` calls and results, `M` messages, `O` other; a point is free.

    >>> print(grid(Breakdown(1, 0, 20, 30, 0, 49, 100)))
    SCCCCCCCCC
    CMMMMMMMMM
    MMMMMM....
    ..........
    ..........
    """
    cells = ""
    window = Fraction(known.window)
    for name, sign in _SIGNS:
        tokens: int = getattr(known, name)
        count = floor(_CELLS * tokens / window + Fraction(1, 2)) if window > 0 else 0
        cells += sign * min(max(count, tokens > 0), _CELLS)
    cells = cells[:_CELLS].ljust(_CELLS, ".")
    return "\n".join(cells[at : at + _COLUMNS] for at in range(0, _CELLS, _COLUMNS))


_NAMES = ("system text", "tools", "calls and results", "messages", "other")


def breakdown_text(known: Breakdown) -> str:
    """Write it as lines: the sign of the grid, the kind, tokens, percent of the window.

    >>> print(breakdown_text(Breakdown(1500, 0, 20, 30, 0, 98_450, 100_000)))
    S system text         1.5K  1.5%
    T tools                  0    0%
    C calls and results     20    0%
    M messages              30    0%
    O other                  0    0%
    . available          98.4K 98.4%
    """
    rows = [
        (sign, name, getattr(known, field))
        for (field, sign), name in zip(_SIGNS, _NAMES, strict=True)
    ]
    lines: list[str] = []
    for sign, name, tokens in (*rows, (".", "available", known.available)):
        window = Fraction(known.window)
        percent = percent_text(100 * Fraction(tokens) / window, 1) if window > 0 else "0"
        lines.append(f"{sign} {name:<17} {token_text(tokens):>6} {percent:>4}%")
    return "\n".join(lines)
