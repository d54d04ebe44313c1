"""The benchmark of paging: what it replays is a session that pages, and its figures are ratios."""

from __future__ import annotations

import importlib.util
from collections import Counter
from functools import partial
from pathlib import Path

from ctxalgebra import Cut, account, chars4, log

ROOT = Path(__file__).resolve().parents[1]
SPEC = importlib.util.spec_from_file_location("paging", ROOT / "benchmarks" / "paging.py")
BENCH = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(BENCH)


def test_the_session_is_the_same_each_time_and_pages():
    rounds = BENCH.script(300)
    assert rounds == BENCH.script(300)
    session = BENCH.ours(BENCH.made(rounds))
    told = account(session)
    assert (told.requests, told.completed) == (600, 600)
    cuts = [node.number for node in log(session) if type(node.entry) is Cut]
    assert len(cuts) >= 3
    assert [broke.sent - 1 for broke in told.breaks] == cuts


def test_the_original_is_asked_at_every_hundredth_request():
    assert BENCH.original(BENCH.script(100), every=50) == 4


def test_what_is_measured_grows_with_the_turns_and_no_faster(monkeypatch):
    """Counts of measured messages, for the replay whose time the benchmark takes."""
    seen = Counter()
    prepared = BENCH.made(BENCH.script(400))
    settle = BENCH.settle
    for turns in (200, 400):

        def counting(value, turns=turns):
            seen[turns] += 1
            return chars4(value)

        monkeypatch.setattr(BENCH, "settle", partial(settle, measure=counting))
        BENCH.ours(prepared[: 2 * turns])
    assert 0 < seen[400] <= 2.3 * seen[200]


def test_figures():
    figures = BENCH.measure(turns=10, runs=1)
    assert figures["turns"] == 20
    assert set(BENCH.LIMITS) <= figures.keys()
