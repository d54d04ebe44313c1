"""Which items of a long array are shown: its ends, what stands out, what was asked for, a few more.

Essential are the first three and the last two, items that name an error, numbers that lie two
standard deviations off or jump by as much, and both ends of each change in a column of few values.
The most relevant items come next; what room is left is filled at even distances. Columns that are
the same in all items are told once. Source: skills and saver, section 14 (smart sample).

Where essential items are so many that nothing is saved (each second row is a change, each row has
`"error":null`; fault W20), `bounded` takes the most telling of each kind at even distances, and
counts the errors that are left out. The original's rule does nothing of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import pairwise
from math import isfinite, sqrt
from operator import add
from typing import Final, cast

from attrs import frozen

from ctxalgebra.compaction.jsontext import Json, Number, compact, leaves, same
from ctxalgebra.compaction.lines_rules import DEFAULT, Rules
from ctxalgebra.compaction.signals import ERROR, ERROR_WORDS, relevance_score, spread

__all__ = ["Sample", "crowded", "sample", "shown"]

_FIRST, _LAST, _FEWEST = 3, 2, 8
_OFF: Final = 2.0
_MANY: Final = 3
"""Essential items are too many when they are more than so many times the target."""

_ROOTS: Final = (
    "error", "fail", "exception", "fatal", "invalid", "denied", "traceback", "panic", "assert",
    "segfault", "critical",
)  # fmt: skip
"""What stands in every word of an error."""


@frozen
class Sample:
    """Say what is shown of an array.

    Args:
        selected: the places of the items, ascending.
        constants: names and values that are the same in all items, and are taken out of them.
        errors: how many items that name an error are left out.
        saved: how many characters of compact JSON the items shown are shorter than all.
    """

    selected: tuple[int, ...]
    constants: tuple[tuple[str, Json], ...] = ()
    errors: int = 0
    saved: int = 0


def shown(items: Sequence[Json], taken: Sample) -> list[Json]:
    """Give the items of a sample, without the constants.

    >>> shown([{"a": 1, "b": 2}, {"a": 1, "b": 3}], Sample((1,), (("a", 1),)))
    [{'b': 3}]
    """
    if not taken.constants:
        return [items[at] for at in taken.selected]
    gone = {name for name, _ in taken.constants}
    objects = cast("Sequence[dict[str, Json]]", items)
    return [
        {name: value for name, value in objects[at].items() if name not in gone}
        for at in taken.selected
    ]


def crowded(count: int, cap: int) -> bool:
    """Say whether so many items are too many: more than three times what should be shown.

    >>> crowded(96, 32), crowded(97, 32)
    (False, True)
    """
    return count > _MANY * max(_FEWEST, cap)


def _alarms(items: Sequence[Json], forms: Sequence[str], rules: Rules) -> set[int]:
    """Find items that name an error in any word, or in another form in their texts (W14)."""
    low = "\n".join(forms).lower()
    roots = [root for root in _ROOTS if root in low]
    return {
        at
        for at, form in enumerate(forms if roots else ())
        if any(root in form.lower() for root in roots)
        and (
            ERROR_WORDS.search(form)
            or (not rules.whole_samples and rules.error.search(leaves(items[at])))
        )
    }


def _deviation(values: Sequence[float]) -> tuple[float, float]:
    """Give mean and standard deviation of a population."""
    mean = reduce(add, values) / len(values)
    squares = [(value - mean) * (value - mean) for value in values]
    return mean, sqrt(reduce(add, squares) / len(values))


def _outliers(values: Sequence[float]) -> set[int]:
    mean, deviation = _deviation(values)
    if not (isfinite(deviation) and deviation > 0):
        return set()
    off = {at for at, value in enumerate(values) if abs(value - mean) / deviation >= _OFF}
    jumps = [abs(after - before) for before, after in pairwise(values)]
    usual, deviation = _deviation(jumps)
    if isfinite(deviation) and deviation > 0:
        limit = usual + _OFF * deviation
        off |= {at + end for at, jump in enumerate(jumps) if jump >= limit for end in (0, 1)}
    return off


def _numbers(column: Sequence[Json]) -> list[float] | None:
    """Give a column as finite numbers, if it is one."""
    values: list[float] = []
    for value in column:
        if isinstance(value, bool) or not isinstance(value, int | float | Number):
            return None
        values.append(float(value.text if isinstance(value, Number) else value))
    return values if all(map(isfinite, values)) else None


def _few(column: Sequence[Json]) -> bool:
    """Say whether a column holds few different texts, truth values and nulls."""
    if not all(value is None or isinstance(value, str | bool) for value in column):
        return False
    return len(set(cast("Sequence[str | bool | None]", column))) <= max(_FEWEST, len(column) // 10)


@frozen
class _Columns:
    constants: tuple[tuple[str, Json], ...]
    outliers: frozenset[int]
    changes: frozenset[int]


def _columns(rows: Sequence[dict[str, Json]]) -> _Columns:
    """Look at the columns that all rows have."""
    constants: list[tuple[str, Json]] = []
    outliers: set[int] = set()
    changes: set[int] = set()
    for name in rows[0]:
        if not all(name in row for row in rows):
            continue
        column = [row[name] for row in rows]
        if not any(isinstance(value, dict | list) for value in column):
            first = same(column[0])
            if all(same(value) == first for value in column):
                constants.append((name, column[0]))
                continue
        if (values := _numbers(column)) is not None:
            outliers |= _outliers(values)
        elif _few(column):
            for at, (before, after) in enumerate(pairwise(column)):
                if before != after:
                    changes |= {at, at + 1}
    return _Columns(tuple(constants), frozenset(outliers), frozenset(changes))


def _bounded(kinds: Iterable[Iterable[int]], most: int) -> set[int]:
    """Take from each kind in turn, at even distances, up to so many in all."""
    taken: set[int] = set()
    for kind in kinds:
        more = sorted(set(kind) - taken)
        room = most - len(taken)
        taken.update(more if len(more) <= room else spread(more, room))
    return taken


def sample(
    items: Sequence[Json],
    terms: Sequence[str],
    cap: int,
    *,
    bounded: bool = False,
    rules: Rules = DEFAULT,
) -> Sample:
    """Choose the items of an array that are shown.

    Args:
        items: the whole array.
        terms: what was asked for, as `signals.text_terms` gives it.
        cap: up to so many items are all shown; of more, about as many are (8 at least).
        bounded: keep to `cap` where essential items are more than three times as many; an item
            does not name an error by a key whose value says no, as in `"error":null`.
        rules: how errors are found.

    >>> sample([{"n": 9 if at == 10 else 1} for at in range(20)], (), 8).selected
    (0, 1, 2, 9, 10, 11, 18, 19)
    """
    count = len(items)
    if count <= cap:
        return Sample(tuple(range(count)))
    target = max(_FEWEST, cap)
    forms = [item if isinstance(item, str) else compact(item) for item in items]
    ends = {*range(min(_FIRST, count)), *range(max(0, count - _LAST), count)}
    alarms = _alarms(items, forms, rules)
    rows = [item for item in items if isinstance(item, dict)]
    columns = _Columns((), frozenset(), frozenset())
    if len(rows) == count > 2:
        columns = _columns(rows)
    if bounded:
        alarms = {at for at in alarms if ERROR.search(leaves(items[at], filled=True))}
    essential = ends | alarms | columns.outliers | columns.changes
    if bounded and crowded(len(essential), cap):
        essential = _bounded((ends, alarms, columns.outliers, columns.changes), target)
    selected = _filled(essential, forms, terms, target, cap)
    once = sum(len(compact({name: value})) - 1 for name, value in columns.constants)
    saved = (
        sum(len(form) + 1 for form in forms)
        - sum(len(forms[at]) + 1 for at in selected)
        + once * len(selected)
    )
    return Sample(selected, columns.constants, len(alarms - essential), saved)


def _filled(
    essential: set[int], forms: Sequence[str], terms: Sequence[str], target: int, cap: int
) -> tuple[int, ...]:
    """Add relevant items, and others at even distances, as far as there is room."""
    count = len(forms)
    scores = [relevance_score(form, terms) for form in forms] if terms else [0] * count

    def best(places: Iterable[int]) -> list[int]:
        return sorted(places, key=lambda at: (-scores[at], at))

    relevant = best(at for at in range(count) if scores[at] > 0)
    selected = essential | set(relevant[: max(4, cap // 3)])
    slots = target - len(selected)
    if slots > 0:
        parts = slots + 1
        selected |= {
            (2 * step * (count - 1) + parts) // (2 * parts) for step in range(1, slots + 1)
        }
    elif slots < 0:
        others = best(selected - essential)
        selected = essential | set(others[: max(0, target - len(essential))])
    return tuple(sorted(selected))
