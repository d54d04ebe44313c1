"""What a recorded session would have cost under other pipelines: caches, replay, reports."""

from ctxalgebra.replay.boundaries import Anthropic, Boundaries, OpenAI
from ctxalgebra.replay.cache import BREAKPOINTS, CACHES, cache_named
from ctxalgebra.replay.departures import Departure, departures
from ctxalgebra.replay.head_report import head_rows, head_verdict
from ctxalgebra.replay.holding import Held, compare_tools, load_policy
from ctxalgebra.replay.layout import Cache, Miss, Outcome
from ctxalgebra.replay.memory import STAGES, heuristic_tagger
from ctxalgebra.replay.prefixes import Prefixes, blocks, gemini, ideal
from ctxalgebra.replay.recorded import (
    Move,
    Recorded,
    recorded_row,
    recorded_verdict,
    weigh_recorded,
)
from ctxalgebra.replay.replay import PIPELINES, Declared, Plan, Run, plan, replay, resend
from ctxalgebra.replay.report import (
    Comparison,
    cached_how,
    compare,
    default_budget,
    rows,
    verdict,
)
from ctxalgebra.replay.reported import Reported, compare_reported
from ctxalgebra.replay.resident import Residency, Resident, resident_head

__all__ = [
    "BREAKPOINTS",
    "CACHES",
    "PIPELINES",
    "STAGES",
    "Anthropic",
    "Boundaries",
    "Cache",
    "Comparison",
    "Declared",
    "Departure",
    "Held",
    "Miss",
    "Move",
    "OpenAI",
    "Outcome",
    "Plan",
    "Prefixes",
    "Recorded",
    "Reported",
    "Residency",
    "Resident",
    "Run",
    "blocks",
    "cache_named",
    "cached_how",
    "compare",
    "compare_reported",
    "compare_tools",
    "default_budget",
    "departures",
    "gemini",
    "head_rows",
    "head_verdict",
    "heuristic_tagger",
    "ideal",
    "load_policy",
    "plan",
    "recorded_row",
    "recorded_verdict",
    "replay",
    "resend",
    "resident_head",
    "rows",
    "verdict",
    "weigh_recorded",
]
