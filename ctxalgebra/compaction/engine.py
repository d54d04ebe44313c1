r"""Compact the outputs of tools, one after another, so that each can be had back exactly.

`compress` takes the state and an output and gives the next state and what is shown: the output
itself, a compacted view of it, or a note that it was there before. Whatever is not the output
itself names the original in the store. The law: what is shown is the output, or it is under 0.92 of
it and 120 characters shorter, note included, and `recovery.original` gives the output byte for byte
while it is held.

>>> lines = "\n".join(f"INFO request {n} served" for n in range(10_000, 10_100))
>>> state, shown = compress(Saver(), "bash", {"command": "docker logs web"}, lines)
>>> shown.strategy, shown.original, shown.text.splitlines()[1]
('log', 2599, 'INFO request 10000 served  ×100 alike')
>>> original(state.store, shown.id) == lines
True

What passes as it is: short outputs, what was asked for in a form that a program reads, files that
are about to be edited, instructions, the answers of the tools that give originals back, and what no
filter shortens. Source: skills and saver, section 12; faults W18, W19, W21, W22.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Protocol, cast

from attrs import evolve, field, frozen

from ctxalgebra.compaction import lines_rules
from ctxalgebra.compaction.classes import (
    HOST_READS,
    READS,
    Reads,
    detect_strategy,
    goes_on,
    is_instructions,
    protects_read,
    requests_exact_output,
)
from ctxalgebra.compaction.intmap import Tree, first, get, put, without
from ctxalgebra.compaction.kinds import classify
from ctxalgebra.compaction.limits import LARGEST, SHORTEST, keeps
from ctxalgebra.compaction.lines_log import compress_error, compress_log
from ctxalgebra.compaction.lines_render import render
from ctxalgebra.compaction.lines_rules import Rules
from ctxalgebra.compaction.lines_sample import compress_generic, compress_table, compress_tree
from ctxalgebra.compaction.lines_search import compress_search
from ctxalgebra.compaction.lines_selection import Selection
from ctxalgebra.compaction.lines_source import compress_code, compress_config, compress_diff
from ctxalgebra.compaction.lines_test import compress_test
from ctxalgebra.compaction.recovery import (
    Excerpt,
    Page,
    Recovery,
    excerpt,
    keep,
    original,
    page,
    touch,
)
from ctxalgebra.compaction.signals import BLANK, WHITE, hash_text, normalize_newlines, units
from ctxalgebra.compaction.structured import (
    compress_json,
    render_events,
    render_json,
    try_ndjson,
)

__all__ = [
    "DEFAULT",
    "FILTERS",
    "ORIGINAL",
    "Compacted",
    "Filter",
    "Policy",
    "Saver",
    "compress",
    "hold",
    "must_be_exact",
    "original",
    "press",
    "pressure",
    "retrieve",
    "retrieve_characters",
    "set_query",
    "shown_whole",
]


class Filter(Protocol):
    """Shorten a text of one class; None where there is nothing to shorten."""

    def __call__(self, text: str, query: str, pressure: int, /, *, rules: Rules) -> str | None:
        """Give the view that is shown."""
        ...


class _Lines(Protocol):
    def __call__(
        self, text: str, query: str, pressure: int, /, *, rules: Rules
    ) -> Selection | None: ...


def _of_lines(choose: _Lines, text: str, query: str, level: int, /, *, rules: Rules) -> str | None:
    selection = choose(text, query, level, rules=rules)
    return None if selection is None else render(selection)


def _ndjson(text: str, query: str, level: int, /, *, rules: Rules) -> str | None:
    events = try_ndjson(text, query, level, rules=rules)
    return None if events is None else render_events(events)


def _json(text: str, query: str, level: int, /, *, rules: Rules) -> str | None:
    value = compress_json(text, query, level, rules=rules)
    return _ndjson(text, query, level, rules=rules) if value is None else render_json(value)


def _text(text: str, query: str, level: int, /, *, rules: Rules) -> str | None:
    events = _ndjson(text, query, level, rules=rules)
    return events or _of_lines(compress_generic, text, query, level, rules=rules)


FILTERS: Final[Mapping[str, Filter]] = MappingProxyType(
    {
        "json": _json,
        "ndjson": _ndjson,
        "log": partial(_of_lines, compress_log),
        "error": partial(_of_lines, compress_error),
        "test": partial(_of_lines, compress_test),
        "search": partial(_of_lines, compress_search),
        "diff": partial(_of_lines, compress_diff),
        "code": partial(_of_lines, compress_code),
        "tree": partial(_of_lines, compress_tree),
        "table": partial(_of_lines, compress_table),
        "config": partial(_of_lines, compress_config),
        "text": _text,
    }
)
"""The filter of each class."""


@frozen
class Policy:
    """Say how outputs are judged.

    Args:
        classify: gives the class of an output from the tool, its arguments and the text.
        reads: which reads are protected while files are edited, what is read by programs, and how
            far back requests count.
        rules: by which lines are chosen.
        measure: what a text counts for.
        exempt: tools whose answers always pass.
        filters: by class; the class `text` has one.
        long_line: where a line is longer, and the filter of the class shortens nothing, that of
            any text does (W20).
        eases: whether pressure falls again (W22).
    """

    classify: Callable[[str, Mapping[str, object], str], str] = classify
    reads: Reads = READS
    rules: Rules = lines_rules.DEFAULT
    measure: Callable[[str], int] = len
    exempt: frozenset[str] = frozenset(
        {"skill", "skill_search", "token_retrieve", "token_tool_search"}
    )
    filters: Mapping[str, Filter] = field(default=FILTERS, repr=False)
    long_line: int = 4000
    eases: bool = True


DEFAULT: Final = Policy()
"""Our rules."""

ORIGINAL: Final = Policy(
    classify=detect_strategy,
    reads=HOST_READS,
    rules=lines_rules.ORIGINAL,
    measure=units,
    long_line=LARGEST,
    eases=False,
)
"""The original's rules, without its errors about commands, and in its units."""


@frozen
class _Seen:
    """Remember an output.

    Args:
        age: when it came first.
        whole: whether it was shown as it is.
        strategy: how it was shown otherwise.
    """

    age: int
    whole: bool
    strategy: str


@frozen
class _Pressure:
    """Remember that originals of a tool were asked for.

    Args:
        tool: its name, lower-cased.
        level: 1 to 3.
        quiet: how many outputs were compacted since, and none was asked for.
    """

    tool: str
    level: int
    quiet: int


@frozen
class Saver:
    """Hold what compaction remembers; a new one remembers nothing.

    Args:
        store: the originals.
        queries: the last requests, the newest last.
        seen: outputs by tool and text, and the same by age.
        pressures: tools whose originals were asked for, the last one last.
        clock: how many outputs were looked at.
    """

    store: Recovery = field(factory=Recovery)
    queries: tuple[str, ...] = field(default=(), repr=False)
    seen: Tree[_Seen] = field(default=None, repr=False)
    ages: Tree[int] = field(default=None, repr=False)
    remembered: int = field(default=0, repr=False)
    pressures: tuple[_Pressure, ...] = field(default=(), repr=False)
    clock: int = field(default=0, repr=False)


@frozen
class Compacted:
    """Say what is shown of an output.

    Args:
        text: what is shown.
        original: what the output counts for.
        size: what the text counts for.
        strategy: a class, or `dedupe`; empty where the output is shown as it is.
        id: the name of the original in the store; empty where the output is shown as it is.
    """

    text: str = field(repr=False)
    original: int
    size: int
    strategy: str = ""
    id: str = ""

    @property
    def changed(self) -> bool:
        """Whether something else is shown than the output."""
        return bool(self.strategy)


_QUERIES, _QUERY = 8, 4000
_SEEN, _TOOLS = 512, 64
_HIGHEST, _DECAY = 3, 8
_FRONT = 1000
_LOADED = re.compile(
    r"<skill-orchestrator\b|The following skill instructions were loaded", re.IGNORECASE
)


def set_query(state: Saver, query: str) -> Saver:
    """Take note of what is asked for now.

    Args:
        state: not changed.
        query: the request; its first 4,000 characters count.

    >>> set_query(Saver(), " fix it ").queries
    ('fix it',)
    """
    asked = (*state.queries, query.strip(WHITE)[:_QUERY])
    return evolve(state, queries=asked[-_QUERIES:])


def _query(state: Saver, policy: Policy) -> str:
    """Give the last request that says more than to go on."""
    said = [query for query in state.queries[-policy.reads.back :] if not goes_on(query)]
    return (said or state.queries or ("",))[-1]


def pressure(state: Saver, tool: str) -> int:
    """Say how much more of a tool's outputs is shown, since its originals were asked for: 0 to 3.

    >>> pressure(Saver(), "bash")
    0
    """
    return next((one.level for one in state.pressures if one.tool == tool.lower()), 0)


def _pressed(state: Saver, tool: str) -> Saver:
    """Show more of a tool's outputs: an original was asked for."""
    level = min(_HIGHEST, pressure(state, tool) + 1)
    others = [one for one in state.pressures if one.tool != tool.lower()]
    pressures = (*others, _Pressure(tool.lower(), level, 0))
    return evolve(state, pressures=pressures[-_TOOLS:])


def _eased(state: Saver, tool: str) -> Saver:
    """Show less again: after each eight outputs for which nobody asked, one step (W22)."""

    def eased(one: _Pressure) -> _Pressure:
        if one.tool != tool.lower():
            return one
        if one.quiet + 1 < _DECAY:
            return evolve(one, quiet=one.quiet + 1)
        return _Pressure(one.tool, one.level - 1, 0)

    left = tuple(one for one in map(eased, state.pressures) if one.level)
    return evolve(state, pressures=left) if state.pressures else state


def must_be_exact(
    state: Saver,
    tool: str,
    arguments: Mapping[str, object],
    text: str,
    *,
    policy: Policy = DEFAULT,
) -> bool:
    """Say whether an output is to be read word by word.

    So is what gives originals back, what was asked for in a form that a program reads, a file that
    is about to be edited, and instructions.

    >>> must_be_exact(Saver(), "bash", {"command": "gh pr list --json title"}, "[]")
    True
    """
    if tool in policy.exempt or _LOADED.search(text[:_FRONT]):
        return True
    return (
        requests_exact_output(arguments, asks=policy.reads.asks)
        or protects_read(tool, arguments, *state.queries, reads=policy.reads)
        or is_instructions(tool, arguments, text)
    )


def _passes(
    state: Saver, tool: str, arguments: Mapping[str, object], text: str, policy: Policy
) -> bool:
    """Say whether an output is shown as it is, whatever it holds."""
    if policy.measure(text) < SHORTEST or BLANK.match(text):
        return True
    exact = must_be_exact(state, tool, arguments, text, policy=policy)
    return exact or policy.measure(text) > LARGEST


def _key(tool: str, text: str) -> int:
    named = f"{tool.lower()}:{hash_text(text)}".encode("utf-8", "surrogatepass")
    return int(sha256(named).hexdigest(), 16)


def _remember(state: Saver, key: int, *, whole: bool, strategy: str) -> Saver:
    """Take note of how an output was shown; the oldest of more than 512 is forgotten."""
    before = get(state.seen, key)
    if before is not None:
        again = evolve(before, whole=before.whole or whole)
        return evolve(state, seen=put(state.seen, key, again))
    clock = state.clock + 1
    state = evolve(
        state,
        clock=clock,
        seen=put(state.seen, key, _Seen(clock, whole, strategy)),
        ages=put(state.ages, clock, key),
        remembered=state.remembered + 1,
    )
    if state.remembered <= _SEEN:
        return state
    age, oldest = cast("tuple[int, int]", first(state.ages))
    return evolve(
        state,
        seen=without(state.seen, oldest),
        ages=without(state.ages, age),
        remembered=state.remembered - 1,
    )


def _note(tool: str, name: str, seen: _Seen) -> str:
    """Say truly what was shown before (W21)."""
    shown = "in full" if seen.whole else f"as a compacted view ({seen.strategy})"
    return f"[duplicate: this output of {tool} came before and was shown {shown}; full={name}]"


def _view(
    state: Saver, tool: str, strategy: str, text: str, policy: Policy
) -> tuple[str, str] | None:
    """Give the view of a text and the class whose filter made it; None where there is none."""
    classes = [strategy]
    if strategy != "text" and max(map(len, text.split("\n"))) > policy.long_line:
        classes.append("text")
    for name in classes:
        level = pressure(state, tool)
        try:
            view = policy.filters[name](text, _query(state, policy), level, rules=policy.rules)
        except Exception:  # noqa: BLE001 - whatever a filter fails on, the original is shown
            view = None
        if view and keeps(policy.measure(text), policy.measure(view)):
            return view, name
    return None


def _marked(view: str, strategy: str, name: str, policy: Policy, before: int) -> str:
    after = policy.measure(view)
    return f"{view}\n[compacted: {strategy}; {before}→{after} characters; full={name}]"


def compress(
    state: Saver,
    tool: str,
    arguments: Mapping[str, object],
    text: str,
    *,
    error: bool = False,
    policy: Policy = DEFAULT,
) -> tuple[Saver, Compacted]:
    """Show an output, shorter if that can be.

    Args:
        state: not changed.
        tool: the tool's name.
        arguments: what it was called with.
        text: its output.
        error: the tool failed: errors and what is around them are shown first.
        policy: how outputs are judged.

    Returns:
        The state after it, and what is shown.

    >>> compress(Saver(), "bash", {}, "short")[1].text
    'short'
    """
    before = policy.measure(text)
    whole = Compacted(text, before, before)
    if _passes(state, tool, arguments, text, policy):
        return state, whole
    key = _key(tool, text)
    if (seen := get(state.seen, key)) is not None:
        store, name = keep(state.store, text, tool)
        note = _note(tool, name, seen)
        if name and keeps(before, policy.measure(note)):
            shown = Compacted(note, before, policy.measure(note), "dedupe", name)
            return evolve(state, store=store), shown
    plain = normalize_newlines(text)
    strategy = "error" if error else policy.classify(tool, arguments, plain)
    found = _view(state, tool, strategy, plain, policy)
    store, name = keep(state.store, text, tool) if found else (state.store, "")
    if found and name:
        view, strategy = found
        view = _marked(view, strategy, name, policy, before)
        if keeps(before, policy.measure(view)):
            state = _remember(evolve(state, store=store), key, whole=False, strategy=strategy)
            shown = Compacted(view, before, policy.measure(view), strategy, name)
            return _eased(state, tool) if policy.eases else state, shown
    return _remember(state, key, whole=True, strategy=""), whole


def shown_whole(state: Saver, tool: str, text: str) -> Saver:
    """Take note that an output was shown as it is, for a state that is made from a record.

    >>> state = shown_whole(Saver(), "bash", "x" * 1000)
    >>> compress(state, "bash", {}, "x" * 1000)[1].strategy
    'dedupe'
    """
    return _remember(state, _key(tool, text), whole=True, strategy="")


def hold(state: Saver, tool: str, text: str, strategy: str) -> Saver:
    """Take note that something else was shown of an output, and hold it, as `compress` did.

    >>> state = hold(Saver(), "bash", "x" * 1000, "text")
    >>> compress(state, "bash", {}, "x" * 1000)[1].text[:85]
    '[duplicate: this output of bash came before and was shown as a compacted view (text);'
    """
    store, _ = keep(state.store, text, tool)
    state = evolve(state, store=store)
    if strategy == "dedupe":
        return state
    state = _remember(state, _key(tool, text), whole=False, strategy=strategy)
    return _eased(state, tool)


def press(state: Saver, name: str) -> Saver:
    """Take note that an original was asked for from its beginning: more is shown of the next.

    >>> state = hold(Saver(), "bash", "x" * 1000, "text")
    >>> pressure(press(state, hash_text("x" * 1000)), "bash")
    1
    """
    store, found = touch(state.store, name)
    state = evolve(state, store=store)
    return state if found is None else _pressed(state, found.tool)


def retrieve(
    state: Saver, name: str, start: int = 1, count: int = 240
) -> tuple[Saver, Page | None]:
    """Give lines of an original; asking for its beginning shows more of the tool's next outputs.

    Args:
        state: not changed.
        name: of the original.
        start: the number of the first line; paging on says nothing about the views (W22).
        count: how many lines, 1 to 1,000.

    Returns:
        The state after it, and the page; None where the original is not held (any more).
    """
    tool = _tool(state, name) if start <= 1 else None
    store, found = page(state.store, name, start, count)
    state = evolve(state, store=store)
    return (state if tool is None else _pressed(state, tool)), found


def retrieve_characters(
    state: Saver, name: str, start: int = 0, count: int = 16_000
) -> tuple[Saver, Excerpt | None]:
    """Give characters of an original, as `retrieve` gives lines.

    Args:
        state: not changed.
        name: of the original.
        start: the place of the first character, from 0.
        count: how many, 1 to 100,000.
    """
    tool = _tool(state, name) if start <= 0 else None
    store, found = excerpt(state.store, name, start, count)
    state = evolve(state, store=store)
    return (state if tool is None else _pressed(state, tool)), found


def _tool(state: Saver, name: str) -> str | None:
    """Say whose output an original is; None where it is not held."""
    _, found = touch(state.store, name)
    return found.tool if found else None
