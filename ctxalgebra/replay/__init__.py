"""What a recorded session would have cost under other pipelines: caches, replay, reports."""

from ctxalgebra.replay.boundaries import Anthropic, Boundaries, OpenAI
from ctxalgebra.replay.cache import BREAKPOINTS, CACHES, cache_named
from ctxalgebra.replay.layout import Cache, Miss, Outcome
from ctxalgebra.replay.memory import STAGES, heuristic_tagger
from ctxalgebra.replay.prefixes import Prefixes, blocks, gemini, ideal
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
    "Miss",
    "OpenAI",
    "Outcome",
    "Plan",
    "Prefixes",
    "Reported",
    "Run",
    "blocks",
    "cache_named",
    "cached_how",
    "compare",
    "compare_reported",
    "default_budget",
    "gemini",
    "heuristic_tagger",
    "ideal",
    "plan",
    "replay",
    "resend",
    "rows",
    "verdict",
]
