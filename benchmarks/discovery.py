"""How well each ranking finds tools and skills, and what searching and reconciling cost.

`python benchmarks/discovery.py` prints a table, `--json` one JSON object. The labelled queries are
those of `tests/capabilities.jsonl`; hard ones are of words that many descriptions have, searched
as they are and as a model's call does, among half of the capabilities. Times are the least of
several runs, of the slowest query.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ctxalgebra import Route, __version__
from ctxalgebra.resident import RANKINGS, Capability, Index, rank, reconcile, tool_policy

LABELS = Path(__file__).resolve().parents[1] / "tests" / "capabilities.jsonl"


VERBS = ("get", "list", "create", "delete", "update")
THINGS = ("issue", "branch", "file", "page", "order")
OWNERS = ("team", "user", "org", "project")
HARD = (
    "options filters",
    "service options filters for the team",
    "get list create delete update issue branch file page order",
    "issue branch 17",
    "createIssue listBranches getFile",
    " ".join(f"service {at}" for at in range(30)),
    "serv opti filt upda dele crea bran proj",
)
"""Queries of words that many of `alike` have."""


def alike(count: int) -> tuple[Capability, ...]:
    """Make capabilities that have most of their words in common."""
    kinds = [(verb, thing, owner) for verb in VERBS for thing in THINGS for owner in OWNERS]
    return tuple(
        Capability(
            f"{verb}_{thing}_{at}",
            f"{verb.capitalize()} the {thing} of service {at} with options and filters for {owner}",
        )
        for at in range(count)
        for verb, thing, owner in (kinds[at % len(kinds)],)
    )


def slowest(index: Index, queries: list[str], rounds: int) -> tuple[float, str]:
    """Give the time of the slowest query in milliseconds, and the query."""
    half = frozenset(item.name for item in index.items[::2])
    calls = [
        (query, call)
        for query in queries
        for call in (
            partial(rank, index, query),
            partial(rank, index, query, kind="tool", left_out=half),
        )
    ]
    return max((least(call, rounds), query) for query, call in calls)


def labelled() -> tuple[tuple[Capability, ...], list[tuple[str, str]]]:
    """Read the capabilities, and the queries with the name that is right."""
    with LABELS.open("rb") as source:
        rows: list[dict[str, str]] = [json.loads(line) for line in source]
    items = tuple(
        Capability(row["name"], row["description"], row["kind"]) for row in rows if "name" in row
    )
    return items, [(row["query"], row["right"]) for row in rows if "query" in row]


def least(run: Callable[[], object], rounds: int) -> float:
    """Give the least time of several runs in milliseconds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best * 1000


def shares(index: Index, queries: list[tuple[str, str]], ranking: str) -> dict[str, float]:
    """Say how often the right one is first, and among the first three."""
    first = three = 0
    for query, right in queries:
        found = [f.capability.name for f in rank(index, query, ranking=ranking, most=3)]
        first += found[:1] == [right]
        three += right in found
    return {"first": round(first / len(queries), 3), "three": round(three / len(queries), 3)}


def figures(capabilities: int = 5_000, tools: int = 500, rounds: int = 5) -> dict[str, Any]:
    """Measure everything."""
    items, queries = labelled()
    index = Index(items)
    draw = random.Random(7)
    pairs = [(draw.choice(items), draw.choice(items)) for _ in range(capabilities)]
    many = tuple(
        Capability(f"{a.name}_{b.name}_{at}", f"{a.description} {b.description}")
        for at, (a, b) in enumerate(pairs)
    )
    large = Index(many)
    names = [f"tool_{at}" for at in range(tools)]
    policy = tool_policy(
        {
            "core": names[:7],
            "disabled": names[9:20],
            "modelOverrides": {"gpt-*": {"disabled": names[3:4]}, "other/*": {"enabled": False}},
        }
    )
    route = Route("openai", "gpt-5")
    half, most = tools // 2, tools - 20
    easy = slowest(large, [query for query, _ in queries], rounds)
    hard = slowest(Index(alike(capabilities)), list(HARD), rounds)
    return {
        "version": __version__,
        "capabilities": len(items),
        "queries": len(queries),
        "rankings": {name: shares(index, queries, name) for name in RANKINGS},
        "index_ms": least(lambda: Index(many), 1),
        "search_ms": easy[0],
        "hard_ms": hard[0],
        "slowest": max(easy, hard)[1],
        "reconcile_ms": least(
            lambda: reconcile(policy, names, names[:half], names[half:most], route), rounds
        ),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    told = figures()
    if parser.parse_args().json:
        print(json.dumps(told))
        return
    print(f"{told['queries']} queries over {told['capabilities']} tools and skills")
    print(f"{'ranking':<18}{'first':>8}{'of three':>10}")
    for name, found in told["rankings"].items():
        print(f"{name:<18}{found['first']:>8.1%}{found['three']:>10.1%}")
    print(f"search over 5,000 capabilities, slowest query: {told['search_ms']:.2f} ms (5 allowed)")
    print(f"of words that many have, slowest query: {told['hard_ms']:.2f} ms (5 allowed)")
    print(f"the slowest: {told['slowest']}")
    print(f"indexing them: {told['index_ms']:.0f} ms")
    print(f"reconcile with 500 tools: {told['reconcile_ms']:.3f} ms (0.5 allowed)")


if __name__ == "__main__":
    main()
