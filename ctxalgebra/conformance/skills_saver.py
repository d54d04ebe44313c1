"""The part of `skills` that compacts tool output, classifies it and keeps the originals.

Operations answer by the original's rules, and by ours where the input has `rules: "ours"`.

Texts count in UTF-16 units there. The filters count characters, so a character outside the basic
plane goes in as its two halves, and comes out as one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, cast

from attrs import define, evolve, field

from ctxalgebra.compaction import classes, lines_rules
from ctxalgebra.compaction.engine import (
    DEFAULT,
    ORIGINAL,
    Policy,
    Saver,
    compress,
    original,
    press,
    retrieve,
    set_query,
)
from ctxalgebra.compaction.jsontext import Json, parse, plain
from ctxalgebra.compaction.recovery import Page, Recovery, names
from ctxalgebra.compaction.sampling import sample, shown
from ctxalgebra.compaction.signals import hash_text, text_terms, units
from ctxalgebra.compaction.structured import compress_json as compact_json
from ctxalgebra.compaction.structured import shortened
from ctxalgebra.compaction.structured import try_ndjson as compact_lines
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.skills_lines import named_rules
from ctxalgebra.conformance.values import InvalidInput

__all__ = ["OPERATIONS"]

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def _halves(text: str) -> str:
    """Write each character that has two units as its halves."""
    return _ASTRAL.sub(
        lambda found: "".join(
            map(chr, (0xD7C0 + (ord(found[0]) >> 10), 0xDC00 | (ord(found[0]) & 0x3FF)))
        ),
        text,
    )


def _whole(text: str) -> str:
    """Join halves that stand side by side."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _out(value: Any) -> Any:
    """Write a value with whole characters and Python's numbers."""
    return json.loads(_whole(json.dumps(plain(value), ensure_ascii=False)))


def smart_array(*, items: list[Any], query: str, cap: int, rules: str = "original") -> Any:
    """Sample an array."""
    by = named_rules(rules)
    try:
        text = json.dumps(items, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise InvalidInput("input.items: a number is beyond all bounds") from None
    read = cast("list[Json]", parse(_halves(text)))
    taken = sample(read, text_terms(_halves(query), ends=by.term_ends), cap, rules=by)
    constants: Json = dict(taken.constants)
    return {
        "items": _out([shortened(item) for item in shown(read, taken)]),
        "constants": _out(shortened(constants)),
        "selected": list(taken.selected),
    }


def compress_json(*, text: str, query: str, pressure: int, rules: str = "original") -> Any:
    """Sample the long arrays of a JSON text."""
    found = compact_json(_halves(text), _halves(query), pressure, rules=named_rules(rules))
    if found is None:
        return None
    summaries = [
        {
            "path": _whole(one.path),
            "items": one.items,
            "shown": one.shown,
            "constants": one.constants,
            **({"errors": one.errors} if one.errors else {}),
        }
        for one in found.summaries
    ]
    return {"summaries": summaries, "value": _out(found.value)}


def try_ndjson(*, text: str, query: str, pressure: int, rules: str = "original") -> Any:
    """Sample JSON Lines; constants stand beside the events where there are any (W1)."""
    found = compact_lines(_halves(text), _halves(query), pressure, rules=named_rules(rules))
    if found is None:
        return None
    told = {
        "items": found.items,
        "shown": len(found.events),
        "events": _out(list(found.events)),
    }
    if found.constants:
        told["constants"] = _out(dict(found.constants))
    return told


def detect_strategy(*, tool: str, input_: dict[str, Any], text: str) -> Any:
    """Give the class of an output."""
    return classes.detect_strategy(tool, input_, text)


def _reads(rules: str) -> classes.Reads:
    return classes.HOST_READS if named_rules(rules) is lines_rules.ORIGINAL else classes.READS


def requests_exact_structured_output(*, input_: dict[str, Any], rules: str = "original") -> Any:
    """Say whether a call asks for output that a program reads."""
    return classes.requests_exact_output(input_, asks=_reads(rules).asks)


def should_protect_exact_read(
    *, tool: str, input_: dict[str, Any], query: str, rules: str = "original"
) -> Any:
    """Say whether a text is read in order to be edited."""
    return classes.protects_read(tool, input_, query, reads=_reads(rules))


@define
class _Run:
    """A script in progress: the state, and what the original counts beside it."""

    policy: Policy = ORIGINAL
    saver: Saver = field(factory=lambda: Saver(Recovery(measure=units)))
    compressions: int = 0
    characters: int = 0
    retrievals: int = 0
    strategies: Counter[str] = field(factory=Counter[str])
    stored: dict[str, None] = field(factory=dict[str, None])
    observations: int = 0
    changes: int = 0
    prefix: str = ""
    searches: int = 0
    activated: int = 0
    descriptions: int = 0


def _of(op: dict[str, Any], name: str, kind: type[Any], default: Any = None) -> Any:
    value = op.get(name, default)
    if type(value) is not kind:
        raise InvalidInput(f"input.ops: {op.get('op')!r} takes {name} of type {kind.__name__}")
    return value


def _compress(run: _Run, op: dict[str, Any]) -> Any:
    tool, arguments = _of(op, "tool", str), _of(op, "input", dict, {})
    text, error = _of(op, "text", str), _of(op, "isError", bool, default=False)
    run.saver, found = compress(run.saver, tool, arguments, text, error=error, policy=run.policy)
    told: dict[str, Any] = {"changed": found.changed, "originalChars": found.original}
    if found.changed:
        run.compressions += 1
        run.characters += found.original
        run.strategies[found.strategy] += 1
        run.stored[found.id] = None
        told |= {"strategy": found.strategy, "id": found.id}
    return told


_LINE_END = re.compile(r"\r\n|[\r\n]")


def _page_out(page: Page, text: str, *, ours: bool) -> dict[str, Any]:
    """Write a page.

    The separator behind it is told only where it is no plain line end, and, by the original's
    rule, the text has others: nobody could tell it then (W11).
    """
    told: dict[str, Any] = {
        "id": page.id,
        "text": page.text,
        "startLine": page.start,
        "endLine": page.end,
        "totalLines": page.total,
        "hasMore": bool(page.next),
    }
    if page.next:
        told["nextStartLine"] = page.next
    if page.separator.startswith("\r") and (ours or len(set(_LINE_END.findall(text))) > 1):
        told["separator"] = page.separator
    return told


_MOST: int = 2**53


def _whole_number(op: dict[str, Any], name: str, default: int) -> int:
    """Read a number without its fraction; one beyond all bounds is as large as they are."""
    value = op.get(name)
    if value is not None and type(value) not in (int, float):
        raise InvalidInput(f"input.ops: {name} is a number")
    return int(max(-_MOST, min(value, _MOST))) if value else default


def _retrieve(run: _Run, op: dict[str, Any], results: list[Any]) -> Any:
    name: Any = op.get("id")
    if type(name) is int:
        earlier: dict[str, Any] = (results[name] if 0 <= name < len(results) else None) or {}
        name = earlier.get("id", "")
    if not isinstance(name, str):
        raise InvalidInput("input.ops: id is a text or the index of an earlier operation")
    start, count = _whole_number(op, "startLine", 1), _whole_number(op, "maxLines", 240)
    run.saver, page = retrieve(run.saver, name, start, count)
    if page is None:
        return None
    ours = run.policy.eases
    if start > 1 and not ours:
        # The original counts each page as asked for.
        run.saver = press(run.saver, page.id)
    run.retrievals += 1
    return _page_out(page, original(run.saver.store, page.id) or "", ours=ours)


def _stats(run: _Run) -> Any:
    told: dict[str, Any] = {
        "compressions": run.compressions,
        "cacheHits": 0,
        "retrievals": run.retrievals,
        "originalChars": run.characters,
        "storedEntries": run.saver.store.held,
        "storedChars": run.saver.store.size,
        "byStrategy": dict(run.strategies),
        "prefixObservations": run.observations,
        "prefixChanges": run.changes,
        "toolSearches": run.searches,
        "toolsActivated": run.activated,
        "toolDescriptionCharsSaved": run.descriptions,
    }
    return told | ({"lastPrefixHash": run.prefix} if run.prefix else {})


def _sizes(run: _Run) -> Any:
    store = run.saver.store
    held = set(names(store))
    ids = [name for name in run.stored if name in held]
    return {"originals": store.held, "storedChars": store.size, "ids": ids}


def _observe(run: _Run, prompt: str) -> None:
    name = hash_text(prompt)
    run.observations += 1
    run.changes += bool(run.prefix) and run.prefix != name
    run.prefix = name


def token_saver_engine(*, ops: list[dict[str, Any]], rules: str = "original") -> Any:
    """Follow outputs, requests and retrievals; one result for each operation."""
    policy = (
        ORIGINAL if named_rules(rules) is lines_rules.ORIGINAL else evolve(DEFAULT, measure=units)
    )
    run = _Run(policy)
    results: list[Any] = []
    for op in ops:
        result: Any = None
        match op.get("op"):
            case "setQuery":
                run.saver = set_query(run.saver, _of(op, "query", str))
            case "compress":
                result = _compress(run, op)
            case "retrieve":
                result = _retrieve(run, op, results)
            case "observePrefix":
                _observe(run, _of(op, "prompt", str))
            case "recordToolSearch":
                run.searches += 1
                run.activated += _of(op, "activated", int)
            case "recordToolDescriptionSavings":
                run.descriptions += _of(op, "savedChars", int)
            case "advance":
                _of(op, "ms", int)
            case "stats":
                result = _stats(run)
            case "sizes":
                result = _sizes(run)
            case "clear":
                run = _Run(policy)
            case other:
                raise InvalidInput(f"input.ops: there is no operation {other!r}")
        results.append(result)
    return results


OPERATIONS = collect(
    "skills",
    smart_array,
    compress_json,
    try_ndjson,
    detect_strategy,
    requests_exact_structured_output,
    should_protect_exact_read,
    token_saver_engine,
)
