"""How full the window is: pressure, the gauge, reminders, and what fills it."""

from ctxalgebra.usage.budget import CAP, TIERS, Reading
from ctxalgebra.usage.estimates import HANDOFF, Moved, moved, pressure_of
from ctxalgebra.usage.kinds import Breakdown, breakdown, breakdown_text, grid

__all__ = [
    "CAP",
    "HANDOFF",
    "TIERS",
    "Breakdown",
    "Moved",
    "Reading",
    "breakdown",
    "breakdown_text",
    "grid",
    "moved",
    "pressure_of",
]
