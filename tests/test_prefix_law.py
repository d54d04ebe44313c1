"""Hostile growing sessions under the paging pipeline: no silent break, and breaks at advances."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from ctxalgebra import Replace, record, user

ROOT = Path(__file__).resolve().parents[1]
SPEC = importlib.util.spec_from_file_location("prefix_law", ROOT / "benchmarks" / "prefix_law.py")
LAW = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(LAW)

COUNT = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 120


def test_no_session_breaks_silently_and_append_only_ones_break_at_advances_only():
    found, totals = LAW.run(0, COUNT)
    assert found == []
    assert totals["append-only"] == COUNT // 2
    # They are hostile: most cut, and the others break for further reasons.
    assert totals["cuts"] > COUNT
    assert totals["breaks"] > totals["cuts"]
    assert totals["requests"] > 10 * COUNT


def test_a_request_that_is_another_and_a_break_that_is_no_advance_are_found():
    numbers = iter(range(0, 100, 2))
    session, sent, plain = next(
        made for made in map(LAW.grown, numbers) if len(made[1]) > 5 and not made[0].view.open
    )
    assert LAW.findings_of(session, sent, plain=plain)[0] == []
    wrong = [*sent[:2], sent[0], *sent[3:]]
    told = LAW.findings_of(session, wrong, plain=plain)[0]
    assert "a request that was made is another now" in told
    assert any(finding.startswith("silent break") for finding in told)
    at = session.view.front
    number = session.view.slots.numbers[at]
    while session.view.slots.messages[at].role != "user":
        at += 1
        number = session.view.slots.numbers[at]
    edited = record(session, Replace(number, user("edited"), "edited", breaks=True))
    edited, request = LAW.send(edited)
    told = LAW.findings_of(edited, [*sent, request], plain=True)[0]
    assert any(finding.endswith("is no advance") for finding in told)
