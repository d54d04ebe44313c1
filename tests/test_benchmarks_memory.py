"""The benchmark of working memory: scripted sessions, each with and without."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[1] / "benchmarks" / "memory.py"
SPEC = importlib.util.spec_from_file_location("benchmark_memory", FILE)
memory = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = memory
SPEC.loader.exec_module(memory)

SCENES = {name: memory.weigh(name) for name in memory.SCENES if not name.startswith("long")}


@pytest.mark.parametrize("name", SCENES)
def test_every_scene_keeps_its_prefixes_and_its_account(name):
    scene = SCENES[name]
    assert scene["silent"] == 0
    assert sum(d["net"] for d in scene["decisions"]) == pytest.approx(
        scene["off"] - scene["on"] - scene["asked"], abs=2 + len(scene["decisions"])
    )


def test_a_chain_of_writes_costs_less_than_half():
    assert SCENES["write_chain"]["ratio"] <= memory.LIMIT


def test_over_all_scenes_it_costs_less_than_doing_nothing():
    table = [scene for name, scene in SCENES.items() if name not in memory.OURS]
    on = sum(scene["on"] + scene["asked"] for scene in table)
    assert on < sum(scene["off"] for scene in table)


def test_it_asks_nothing_that_does_not_pay():
    assert SCENES["read_dropped"]["asked"] == SCENES["tagger_prose"]["asked"] == 0
    assert memory.weigh("read_chain", aux=0)["asked"] == 0


def test_it_runs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["memory.py", "--json"])
    assert memory.main() == 0
    found = json.loads(capsys.readouterr().out)
    assert all(t["on"] + t["asked"] < t["off"] for t in (found["table"], found["total"]))
    assert found["scenes"]["long_reads"]["breaks"] > 0
    assert found["scenes"]["long_work"]["ratio"] < 0.5
