"""The benchmark of the timeline runs, on sessions as they are described."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def bench():
    spec = importlib.util.spec_from_file_location("bench", ROOT / "benchmarks" / "timeline.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_view_is_measured_in_times_of_walking(bench):
    found = bench.figures(300, 400, 1)
    assert found["views"].keys() == found["views_nested"].keys()
    assert found["views"]["walking"]["times"] == 1
    assert {"active", "checkpoints", "search, all", "node at the root", "tree"} < {*found["views"]}
    worst = max(cost["times"] for cost in found["views"].values())
    assert found["within"] == (worst <= bench.LIMIT)


def test_sessions_are_as_described(bench):
    flat, deep = bench.grown(300), bench.nested(300)
    assert 300 <= len(flat) < 306
    assert flat.leaf.depth == len(flat) - 1
    assert len(deep) == 300
    assert len(bench.active(deep).rows) == 2


def test_the_figures_are_printed(bench, capsys, monkeypatch):
    told = bench.figures(300, 400, 1)
    monkeypatch.setattr(bench, "figures", lambda: {**told, "within": True})
    monkeypatch.setattr(sys, "argv", ["timeline.py"])
    assert bench.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(told["views"])
    monkeypatch.setattr(bench, "figures", lambda: {**told, "within": False})
    monkeypatch.setattr(sys, "argv", ["timeline.py", "--json"])
    assert bench.main() == 1
    assert json.loads(capsys.readouterr().out)["limit"] == 3.0
