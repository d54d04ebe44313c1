"""The benchmark of the codecs: what it measures is the same each time, and memory is bounded."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ctxalgebra.codecs import CODECS

ROOT = Path(__file__).resolve().parents[1]
SPEC = importlib.util.spec_from_file_location("formats", ROOT / "benchmarks" / "formats.py")
BENCH = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(BENCH)


@pytest.mark.parametrize("kind", ["talk", "calls"])
def test_the_session_is_the_same_each_time_and_holds_what_is_said(kind):
    session = BENCH.script(kind, 40, 300)
    assert session == BENCH.script(kind, 40, 300)
    messages = session.view.messages()
    assert len(messages) == 40
    calls = [call for message in messages for call in message.calls]
    assert len(calls) == (10 if kind == "calls" else 0)
    assert sum(message.characters for message in messages) >= 40 * 295


@pytest.mark.parametrize("kind", ["talk", "calls"])
@pytest.mark.parametrize("name", CODECS)
def test_decoding_small_messages_stays_within_ten_times_the_file(name, kind):
    size, times = BENCH.weigh(name, BENCH.script(kind, 1_000, BENCH.SMALL))
    assert size >= 1_000 * 295
    assert times <= BENCH.MEMORY


def test_both_directions_are_measured_beside_json():
    data = CODECS["pi"].encode(BENCH.script("calls", 40, 300))
    for took in BENCH.speed(data, 1):
        assert min(took) > 0


def test_both_tables_are_printed(capsys):
    BENCH.print_memory(40)
    BENCH.print_speed(40, 1)
    told = capsys.readouterr().out
    assert all(name in told for name in CODECS)
    assert told.count("decode") == told.count("encode") == len(BENCH.SIZES)
