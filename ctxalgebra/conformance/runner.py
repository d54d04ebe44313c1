"""The runner: ask an implementation what vectors ask, and say what came of each.

| state | meaning |
| --- | --- |
| `passed` | the answer is the expected one |
| `failed` | it is another one, and nothing excuses that |
| `differs` | it is another one, and the vector has a flag or the caller gave a reason |
| `unsupported` | the implementation doesn't have the operation, and says so |
| `broken` | no answer: a port that hangs, ends, or writes what is no answer |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol, get_args

from attrs import frozen

from ctxalgebra.conformance.vectors import Vector, judge

__all__ = ["STATES", "Ask", "Outcome", "State", "run"]

State = Literal["passed", "failed", "differs", "unsupported", "broken"]

STATES: tuple[State, ...] = get_args(State)
"""All states."""

_LONGEST = 500
"""So much of a reason is kept, in characters."""

_NONE: Mapping[str, str] = MappingProxyType({})


class Ask(Protocol):
    """Asks an implementation for one result."""

    def __call__(self, operation: str, value: Any, /) -> dict[str, Any] | str:
        """Give an object with one of `output`, `error`, `skipped`; a text tells of a breakdown."""
        ...


@frozen
class Outcome:
    """Say what came of a vector.

    Args:
        id, operation, file, line: of the vector.
        state: one of `STATES`.
        why: in words; empty when it passed.
    """

    id: str
    operation: str
    state: State
    why: str = ""
    file: str = ""
    line: int = 0


def _came(vector: Vector, given: dict[str, Any] | str, excuse: str) -> tuple[State, str]:
    if isinstance(given, str):
        return "broken", given
    if "skipped" in given:
        return "unsupported", str(given["skipped"])
    why = judge(vector, given)
    if not why:
        return "passed", ""
    return ("differs", f"{excuse}; {why}") if excuse else ("failed", why)


def run(
    vectors: Iterable[Vector], ask: Ask, *, reasons: Mapping[str, str] = _NONE
) -> Iterator[Outcome]:
    """Ask what vectors ask, one after the other, and give the outcomes as they come.

    Args:
        vectors: `vectors.load` gives them.
        ask: an implementation; expectations are kept from it.
        reasons: by id, why a vector without a flag need not be matched.

    >>> from ctxalgebra.conformance.door import result
    >>> vector = Vector("a", "kernel.pays", {"tail": 9, "saved": 3, "horizon": 0}, output=False)
    >>> [outcome.state for outcome in run([vector], result)]
    ['passed']
    """
    for vector in vectors:
        excuse = ", ".join([*vector.flags, *filter(None, [reasons.get(vector.id)])])
        state, why = _came(vector, ask(vector.operation, vector.input), excuse)
        yield Outcome(vector.id, vector.operation, state, why[:_LONGEST], vector.file, vector.line)
