"""Laws: what must hold of every session and every stage, and how to check it.

Nothing here needs a test library. `ctxalgebra.laws.strategies` does: it generates examples with
Hypothesis, and `check` loads it only when it is asked to generate.
"""

from ctxalgebra.errors import LawViolation
from ctxalgebra.laws.check import check, check_journal, verdict
from ctxalgebra.laws.evidence import Kind, Law, branches, defect
from ctxalgebra.laws.laws import ARRAY_LAWS, LAWS, SESSION_LAWS, STAGE_LAWS
from ctxalgebra.laws.script import script
from ctxalgebra.laws.stages import fits_budget

__all__ = [
    "ARRAY_LAWS",
    "LAWS",
    "SESSION_LAWS",
    "STAGE_LAWS",
    "Kind",
    "Law",
    "LawViolation",
    "branches",
    "check",
    "check_journal",
    "defect",
    "fits_budget",
    "script",
    "verdict",
]
