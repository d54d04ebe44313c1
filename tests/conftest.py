"""Profiles of Hypothesis: `dev`, `ci` (the default, reproducible), `nightly` (random, deep)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=SLOW)
settings.register_profile(
    "ci",
    max_examples=100,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=SLOW,
)
settings.register_profile(
    "nightly", max_examples=5_000, deadline=None, print_blob=True, suppress_health_check=SLOW
)
os.environ["COLUMNS"] = "200"  # whatever runs the tests: a terminal, a pipe, a worker

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
