"""How full the window is: pressure, the gauge, reminders, and what fills it."""

from ctxalgebra.usage.boundaries import Boundary, Folded, Requests, begun, folded
from ctxalgebra.usage.budget import CAP, TIERS, Reading, segments, tier, token_text
from ctxalgebra.usage.cycle import Cycle, observe, renewed, restore, take
from ctxalgebra.usage.estimates import HANDOFF, Moved, moved, pressure_at, pressure_of, replaced
from ctxalgebra.usage.gauge import gauge, with_line
from ctxalgebra.usage.kinds import Breakdown, breakdown, breakdown_text, grid
from ctxalgebra.usage.odometer import (
    Due,
    Needle,
    Odometer,
    due,
    fold_points,
    gauge_text,
    restarted,
)
from ctxalgebra.usage.reminders import cycle_of, remind

__all__ = [
    "CAP",
    "HANDOFF",
    "TIERS",
    "Boundary",
    "Breakdown",
    "Cycle",
    "Due",
    "Folded",
    "Moved",
    "Needle",
    "Odometer",
    "Reading",
    "Requests",
    "begun",
    "breakdown",
    "breakdown_text",
    "cycle_of",
    "due",
    "fold_points",
    "folded",
    "gauge",
    "gauge_text",
    "grid",
    "moved",
    "observe",
    "pressure_at",
    "pressure_of",
    "remind",
    "renewed",
    "replaced",
    "restarted",
    "restore",
    "segments",
    "take",
    "tier",
    "token_text",
    "with_line",
]
