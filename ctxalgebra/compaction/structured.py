"""JSON and JSON Lines with their long arrays sampled and their long texts shortened.

What is left is data; `render_json` and `render_events` write it. Source: skills and saver, section
14 (json, ndjson). What is the same in all items is told once, for JSON Lines too (W1); numbers keep
their digits (W2). Arrays inside sampled items are sampled, too, where that is shorter, and where
the essential items are so many that nothing is saved, they are bounded (W20). The law: what is
shown is never longer than what the original's rule shows, without white space.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from attrs import evolve, frozen

from ctxalgebra.compaction.jsontext import Json, compact, parse, pretty
from ctxalgebra.compaction.limits import keeps
from ctxalgebra.compaction.lines_rules import DEFAULT, Rules
from ctxalgebra.compaction.sampling import Sample, crowded, sample, shown
from ctxalgebra.compaction.signals import BLANK, WHITE, text_terms

__all__ = [
    "MARK",
    "Events",
    "Structure",
    "Summary",
    "array_cap",
    "compress_json",
    "render_events",
    "render_json",
    "shorten",
    "shortened",
    "try_ndjson",
]

MARK = "__token_saver_array__"
"""The name under which a sampled array says what it was."""

_LONG, _HEAD, _TAIL = 320, 208, 92
_FEWEST_LINES = 8
_NAMED = 4


@frozen
class Summary:
    """Say what became of one array.

    Args:
        path: `$`, or as in `a.b[3].c`.
        items, shown: how many there were, and are.
        constants: how many columns are told once.
        errors: how many items that name an error are left out.
    """

    path: str
    items: int
    shown: int
    constants: int
    errors: int


@frozen
class Structure:
    """Hold compacted JSON.

    Args:
        summaries: what was sampled, in order.
        value: what is left; sampled arrays are objects with `MARK` and `items`.
        tight: written without white space.
    """

    summaries: tuple[Summary, ...]
    value: Json
    tight: bool = False


@frozen
class Events:
    """Hold compacted JSON Lines.

    Args:
        items: how many there were.
        events: those that are shown, without the constants.
        constants: names and values that all events have.
        errors: how many events that name an error are left out.
    """

    items: int
    events: tuple[Json, ...]
    constants: tuple[tuple[str, Json], ...]
    errors: int


def array_cap(pressure: int) -> int:
    """Say how many items an array may have: 32, and 8 more for each step of pressure, up to 80.

    >>> [array_cap(pressure) for pressure in (0, 1, 3, 9)]
    [32, 40, 56, 80]
    """
    return min(80, 32 + 8 * pressure)


def shorten(text: str) -> str:
    """Cut the middle out of a text of more than 320 characters.

    >>> shorten("a" * 400)[205:230]
    'aaa…[100 chars omitted]…a'
    """
    if len(text) <= _LONG:
        return text
    gone = len(text) - _HEAD - _TAIL
    return f"{text[:_HEAD]}…[{gone} chars omitted]…{text[-_TAIL:]}"


@frozen
class _Way:
    """Say how arrays are sampled.

    Args:
        terms: what was asked for.
        cap: from how many items on.
        rules: how errors are found.
        bounded: keep to the cap where too many items are essential.
        deeper: sample what pays only, and arrays inside sampled items, too.
        inner: inside a sampled item: the places of the items are not told.
    """

    terms: tuple[str, ...]
    cap: int
    rules: Rules
    bounded: bool = False
    deeper: bool = False
    inner: bool = False

    def sample(self, items: list[Json]) -> Sample:
        """Choose items."""
        return sample(items, self.terms, self.cap, bounded=self.bounded, rules=self.rules)

    def crowded(self, taken: Sample) -> bool:
        """Say whether a sample should be a bounded one."""
        return self.deeper and not self.bounded and crowded(len(taken.selected), self.cap)

    def pays(self, count: int, taken: Sample) -> bool:
        """Say whether a sample is shorter than all items, with its mark and the constants."""
        mark: Json = {**self.mark(count, taken), "constants": dict(taken.constants)}
        return not self.deeper or taken.saved > len(compact({MARK: mark, "items": []}))

    def mark(self, count: int, taken: Sample) -> dict[str, Json]:
        """Say what an array was."""
        told: dict[str, Json] = {"original_items": count}
        if not self.inner:
            told["shown_items"] = len(taken.selected)
            told["original_indexes"] = list(taken.selected)
        if taken.errors:
            told["errors_left_out"] = taken.errors
        return told


_Place: TypeAlias = "tuple[_Place, str] | None"
_Step: TypeAlias = "tuple[Json, Any, Any, _Place, _Way | None]"
"""What comes next, where it goes, where it stood, and how arrays in it are sampled."""

_PATH, _KEY = 300, 80


def _path(place: _Place) -> str:
    """Write a place; of a long one the end, since each of many arrays may stand so deep."""
    steps: list[str] = []
    size = 0
    while place is not None and size <= _PATH:
        place, step = place
        steps.append(step)
        size += len(step)
    path = "".join(reversed(steps))
    if place is not None:
        return f"…{path}"
    return path[1:] if path.startswith(".") else f"${path}"


def _walk(value: Json, way: _Way | None) -> Structure:
    """Shorten texts, and arrays in some way, without recursion on depth.

    Where a sample of ours is crowded, all is done with bounded ones instead.
    """
    summaries: list[Summary] = []
    holder: list[Any] = [None]
    todo: list[_Step] = [(value, holder, 0, None, way)]
    while todo:
        item, into, at, place, inside = todo.pop()
        if isinstance(item, str):
            into[at] = shorten(item)
            continue
        if not isinstance(item, dict | list):
            into[at] = item
            continue
        taken: Sample | None = None
        if inside and isinstance(item, list) and len(item) > inside.cap:
            taken = inside.sample(item)
            if inside.crowded(taken):
                return _walk(value, evolve(inside, bounded=True, inner=False))
        if isinstance(item, dict):
            into[at] = dict.fromkeys(item)
            below: list[_Step] = [
                (member, into[at], key, (place, f".{key[:_KEY]}"), inside)
                for key, member in item.items()
            ]
        elif inside and taken and inside.pays(len(item), taken):
            summaries.append(_summary(_path(place), item, taken))
            kept = shown(item, taken)
            into[at] = {MARK: inside.mark(len(item), taken), "items": [None] * len(kept)}
            told, items = into[at][MARK], into[at]["items"]
            deeper = evolve(inside, inner=True) if inside.deeper else None
            below = [
                (member, items, index, (place, f"[{taken.selected[index]}]"), deeper)
                for index, member in enumerate(kept)
            ]
            if taken.constants:
                below.append((dict(taken.constants), told, "constants", place, None))
        else:
            into[at] = [None] * len(item)
            below = [
                (member, into[at], index, (place, f"[{index}]"), inside)
                for index, member in enumerate(item)
            ]
        todo.extend(reversed(below))
    return Structure(tuple(summaries), holder[0], tight=way is not None and way.deeper)


def shortened(value: Json) -> Json:
    """Shorten all texts of a value, and leave its arrays as they are.

    >>> shortened({"a": [1, "short"]})
    {'a': [1, 'short']}
    """
    return _walk(value, None).value


def _summary(path: str, items: list[Json], taken: Sample) -> Summary:
    return Summary(path, len(items), len(taken.selected), len(taken.constants), taken.errors)


def compress_json(
    text: str, query: str, pressure: int, *, rules: Rules = DEFAULT
) -> Structure | None:
    r"""Sample the long arrays of a JSON text, and shorten its long texts.

    Args:
        text: the whole of it; white space around it doesn't count.
        query: what was asked for.
        pressure: 0 to 3; the higher, the more is shown.
        rules: how items are chosen.

    Returns:
        What is left; None for what is no JSON, or nothing could be taken from.

    >>> compress_json(str(list(range(1000))), "", 0).summaries[0]
    Summary(path='$', items=1000, shown=32, constants=0, errors=0)
    >>> compress_json("[1, 2]", "", 0)
    """
    trimmed = text.strip(WHITE)
    try:
        value = parse(trimmed)
    except ValueError:
        return None
    way = _Way(text_terms(query, ends=rules.term_ends), array_cap(pressure), rules)
    plain = _walk(value, way)
    if not plain.summaries and len(pretty(plain.value)) * 10 >= len(trimmed) * 9:
        return None
    if rules.whole_samples:
        return plain
    way = evolve(way, deeper=True)
    found = _walk(value, way)
    if not keeps(len(trimmed), len(render_json(found))):
        found = _walk(value, evolve(way, bounded=True))
    return min(found, evolve(plain, tight=True), key=lambda one: len(render_json(one)))


def render_json(found: Structure) -> str:
    r"""Write compacted JSON: what was sampled (four arrays at most), then what is left.

    >>> render_json(compress_json(str([0] * 400), "", 0)).partition("\n")[0]
    '[JSON compacted: $: 400→32 items]'
    """
    write = compact if found.tight else pretty
    return _header(found.summaries) + write(found.value)


def _header(summaries: tuple[Summary, ...]) -> str:
    if not summaries:
        return ""
    named = " | ".join(map(_told, summaries[:_NAMED]))
    more = len(summaries) - _NAMED
    return f"[JSON compacted: {named}{f' | {more} more arrays' if more > 0 else ''}]\n"


def _told(one: Summary) -> str:
    said = f"{one.path}: {one.items}→{one.shown} items"
    if one.constants:
        said += f"; {one.constants} constant fields told once"
    return said + _errors(one.errors)


def _errors(count: int) -> str:
    return f"; {count} that name an error left out" if count else ""


def try_ndjson(text: str, query: str, pressure: int, *, rules: Rules = DEFAULT) -> Events | None:
    r"""Sample JSON Lines.

    Args:
        text: one JSON text a line; blank lines don't count.
        query, pressure, rules: as in `compress_json`.

    Returns:
        What is left; None for fewer than eight lines, no more than the cap, or no JSON.

    >>> lines = "\n".join(f'{{"host":"a","n":{n}}}' for n in range(40))
    >>> found = try_ndjson(lines, "", 0)
    >>> found.items, len(found.events), found.constants
    (40, 30, (('host', 'a'),))
    """
    cap = array_cap(pressure)
    lines = [line for line in text.split("\n") if not BLANK.match(line)]
    if len(lines) < _FEWEST_LINES or len(lines) <= cap:
        return None
    try:
        items = [parse(line) for line in lines]
    except ValueError:
        return None
    terms = text_terms(query, ends=rules.term_ends)
    taken = sample(items, terms, cap, rules=rules)
    if rules.whole_samples or not crowded(len(taken.selected), cap):
        found = _events(items, taken)
        if rules.whole_samples or keeps(len(text), len(render_events(found))):
            return found
    return _events(items, sample(items, terms, cap, bounded=True))


def _events(items: list[Json], taken: Sample) -> Events:
    return Events(
        len(items),
        tuple(map(shortened, shown(items, taken))),
        tuple((name, shortened(value)) for name, value in taken.constants),
        taken.errors,
    )


def render_events(found: Events) -> str:
    r"""Write compacted JSON Lines: what all have in common, then one event a line.

    >>> print(render_events(Events(40, ({"n": 0},), (("host", "a"),), 0)))
    [NDJSON compacted: 40→1 events; in each of them: {"host":"a"}]
    {"n":0}
    """
    common = f"; in each of them: {compact(dict(found.constants))}" if found.constants else ""
    told = f"{found.items}→{len(found.events)} events{common}{_errors(found.errors)}"
    return "\n".join([f"[NDJSON compacted: {told}]", *map(compact, found.events)])
