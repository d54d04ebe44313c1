"""How full a window is: hard usage, pressure on a working budget, tiers, and how they are written.

Two numbers, never one for the other: *hard usage* is of the window, *pressure* of the working
budget, which is the window up to a cap, since models get worse long before a large window is full
(travel, sections 15 and 18).
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_type
from ctxalgebra.tokens import check_positive

__all__ = [
    "CAP",
    "TIERS",
    "Number",
    "Reading",
    "percent_text",
    "segments",
    "tier",
    "token_text",
    "working_budget",
]

CAP = 400_000
"""The working budget in tokens, at most."""

TIERS = (30, 50, 70)
"""Percentages of the working budget at which a reminder is due."""

Number = int | float | Fraction
"""What the host calls a number, and ratios that are exact."""


def working_budget(window: Number) -> Number:
    """Give the tokens that should be used at most: the window, up to a cap.

    >>> working_budget(200_000), working_budget(1_000_000)
    (200000, 400000)
    """
    return min(window, CAP)


def tier(percent: Number) -> int:
    """Give the highest tier that a pressure has reached; 0 below the first.

    >>> [tier(percent) for percent in (29.99, 30, 69, 200)]
    [0, 30, 50, 70]
    """
    return max((level for level in TIERS if percent >= level), default=0)


@frozen
class Reading:
    """Read the gauge: the tokens of a request, and the window of its model.

    Args:
        tokens: input tokens, reported or estimated.
        window: the model's context window in tokens.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, negative tokens, or no window.

    >>> reading = Reading(300_000, 1_000_000)
    >>> reading.budget, int(reading.hard), int(reading.pressure), reading.tier
    (400000, 30, 75, 70)
    >>> str(reading)
    '75% budget(400K) · 300K/1M window'
    """

    tokens: int
    window: int

    def __attrs_post_init__(self) -> None:
        check_type(self.tokens, int, "tokens")
        if self.tokens < 0:
            raise InvalidArgument("invalid-argument", "tokens can't be negative", field="tokens")
        check_positive(window=self.window)

    @property
    def budget(self) -> int:
        """The working budget in tokens."""
        return min(self.window, CAP)

    @property
    def hard(self) -> Fraction:
        """Percent of the window."""
        return Fraction(100 * self.tokens, self.window)

    @property
    def pressure(self) -> Fraction:
        """Percent of the working budget; more than 100 where it is exceeded."""
        return Fraction(100 * self.tokens, self.budget)

    @property
    def tier(self) -> int:
        """The highest tier that the pressure has reached; 0 below the first."""
        return tier(self.pressure)

    def __str__(self) -> str:
        """Write it as the gauge does, in whole percent."""
        return segments(self.tokens, self.window, self.pressure)


def percent_text(percent: Number, decimals: int = 0) -> str:
    """Write a percentage, cut off behind so many digits; no zeros at its end.

    >>> percent_text(98.96), percent_text(98.96, 1), percent_text(75.0, 1)
    ('98', '98.9', '75')
    """
    unit = 10**decimals
    count = percent * unit
    if not isfinite(count):
        count = Fraction(percent) * unit  # more than a double holds
    whole, rest = divmod(int(count), unit)
    return f"{whole}.{rest:0{decimals}}".rstrip("0") if rest else str(whole)


def token_text(tokens: Number) -> str:
    """Write a number of tokens in short: one digit behind the point, cut off, for K and M.

    >>> [token_text(n) for n in (999.9, 1949, 999_999, 1_000_000, -1)]
    ['999', '1.9K', '999.9K', '1M', 'N/A']
    """
    if not isfinite(tokens) or tokens < 0:
        return "N/A"
    count = int(tokens)
    for unit, letter in ((1_000_000, "M"), (1_000, "K")):
        if count >= unit:
            return percent_text(Fraction(count, unit), 1) + letter
    return str(count)


def segments(tokens: Number, window: Number, percent: Number, decimals: int = 0) -> str:
    """Write a reading: the pressure, then the tokens of the window.

    Args:
        percent: of the working budget.
        decimals: digits behind the point of it.

    >>> segments(300_000, 400_000, 75)
    '75% window · 300K/400K'
    """
    said, used = percent_text(percent, decimals), f"{token_text(tokens)}/{token_text(window)}"
    if window > CAP:
        return f"{said}% budget({token_text(CAP)}) · {used} window"
    return f"{said}% window · {used}"
