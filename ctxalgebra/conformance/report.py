"""Reports on a run: counts, one JSON object, or JUnit XML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from attrs import asdict

from ctxalgebra.conformance.runner import STATES, Outcome

__all__ = ["area_of", "as_junit", "as_object", "bad", "count"]

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def area_of(operation: str) -> str:
    """Give the area of an operation.

    >>> area_of("kernel.pays")
    'kernel'
    """
    return operation.partition(".")[0]


def count(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Count the states of outcomes; a state that did not come up is 0.

    >>> count([Outcome("a", "kernel.pays", "passed")])
    {'passed': 1, 'failed': 0, 'differs': 0, 'unsupported': 0, 'broken': 0}
    """
    found = Counter(outcome.state for outcome in outcomes)
    return {state: found[state] for state in STATES}


def bad(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """List what must not be: failed and broken."""
    return [outcome for outcome in outcomes if outcome.state in ("failed", "broken")]


def _grouped(outcomes: Sequence[Outcome], name: str) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        key = outcome.operation if name == "operation" else area_of(outcome.operation)
        groups.setdefault(key, []).append(outcome)
    return groups


def as_object(implementation: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Give the report as one JSON object: totals, counts by operation, and all but the passed."""
    return {
        "implementation": implementation,
        "total": len(outcomes),
        **count(outcomes),
        "operations": {
            name: count(group) for name, group in sorted(_grouped(outcomes, "operation").items())
        },
        "cases": [asdict(outcome) for outcome in outcomes if outcome.state != "passed"],
    }


def _clean(text: str) -> str:
    """Escape what XML can't hold."""
    return _NO_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_ELEMENTS = {
    "failed": "failure",
    "broken": "error",
    "differs": "skipped",
    "unsupported": "skipped",
}


def as_junit(implementation: str, outcomes: Sequence[Outcome]) -> bytes:
    """Give the report as JUnit XML: a suite for each area, a case for each vector.

    What differs or is unsupported is `skipped`, with the reason; what is broken is an `error`.

    >>> print(as_junit("mine 1.0", [Outcome("a", "kernel.pays", "passed")]).decode(), end="")
    <?xml version='1.0' encoding='utf-8'?>
    <testsuites name="mine 1.0">
      <testsuite name="kernel" tests="1" failures="0" errors="0" skipped="0">
        <testcase classname="kernel.pays" name="a" />
      </testsuite>
    </testsuites>
    """
    root = ET.Element("testsuites", {"name": _clean(implementation)})
    for area, group in _grouped(outcomes, "area").items():
        numbers = count(group)
        suite = ET.SubElement(
            root,
            "testsuite",
            {
                "name": _clean(area),
                "tests": str(len(group)),
                "failures": str(numbers["failed"]),
                "errors": str(numbers["broken"]),
                "skipped": str(numbers["differs"] + numbers["unsupported"]),
            },
        )
        for outcome in group:
            names = {"classname": _clean(outcome.operation), "name": _clean(outcome.id)}
            case = ET.SubElement(suite, "testcase", names)
            if outcome.state != "passed":
                message = {"message": _clean(f"{outcome.state}: {outcome.why}")}
                ET.SubElement(case, _ELEMENTS[outcome.state], message)
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"
