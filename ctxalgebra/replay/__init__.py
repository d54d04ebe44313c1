"""What a recorded session would have cost under other pipelines: caches, replay, reports."""

from ctxalgebra.replay.cache import CACHES, Cache, Ideal, Prices
from ctxalgebra.replay.replay import PIPELINES, Declared, Plan, Run, plan, replay, resend
from ctxalgebra.replay.report import Comparison, compare, default_budget, rows, verdict

__all__ = [
    "CACHES",
    "PIPELINES",
    "Cache",
    "Comparison",
    "Declared",
    "Ideal",
    "Plan",
    "Prices",
    "Run",
    "compare",
    "default_budget",
    "plan",
    "replay",
    "resend",
    "rows",
    "verdict",
]
