"""The fuzzer of the codecs: it finds what is wrong, and here it finds nothing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from attrs import evolve

from ctxalgebra import DecodeError, record, user
from ctxalgebra.codecs import CODECS

ROOT = Path(__file__).resolve().parents[1]


def load_fuzz():
    spec = importlib.util.spec_from_file_location("fuzz", ROOT / "benchmarks" / "fuzz.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FUZZ = load_fuzz()


@pytest.mark.parametrize("name", sorted(CODECS))
def test_damaged_files_give_a_session_or_one_coded_error(name):
    outcomes, findings = FUZZ.fuzz(name, 0, 250)
    assert findings == []
    # Both happen, so that the fuzzer neither breaks everything nor leaves everything whole.
    errors = set(outcomes) - {"session", "repaired"}
    assert outcomes["session"] + outcomes["repaired"] >= 10
    assert len([code for code in errors if " " not in code]) >= 1


def test_files_are_made_from_their_number():
    seeds = FUZZ.seeds_of("pi", None)
    made = [FUZZ.damaged(FUZZ.Draw(f"pi {n}"), seeds) for n in range(40)]
    assert made == [FUZZ.damaged(FUZZ.Draw(f"pi {n}"), seeds) for n in range(40)]
    assert len(set(made)) > 30


def raises(error):
    def decode(data, *, file=None, limit=0):
        raise error

    return decode


def grown(decoded):
    return evolve(decoded, session=record(decoded.session, user("more")))


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda c: {"decode": raises(KeyError("role"))}, "decode raised KeyError"),
        (lambda c: {"decode": raises(DecodeError("invalid-json"))}, "without its place"),
        (lambda c: {"encode": lambda session: b"another"}, "another file"),
        (lambda c: {"encode": raises(RecursionError())}, "encode raised"),
        (
            lambda c: {"decode": lambda data, *, file: grown(c.decode(data, file=file))},
            "another file",
        ),
    ],
)
def test_the_fuzzer_finds_it(monkeypatch, change, finding):
    pi = CODECS["pi"]
    monkeypatch.setattr(FUZZ, "CODECS", {**CODECS, "pi": evolve(pi, **change(pi))})
    data = CODECS["pi"].encode(record(pi.decode(b'{"type":"session"}\n').session, user("a")))
    fault, outcome = FUZZ.fault_of("pi", data, thorough=True)
    assert finding in fault
    assert outcome == "bug"
