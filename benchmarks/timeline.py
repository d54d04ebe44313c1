"""What the views of a timeline cost, in times of walking the entries; what nesting costs.

`python benchmarks/timeline.py` prints a table, `--json` one JSON object; the exit code is 1 when a
limit is missed. Times are the least of several runs. Walking is `walk` over the path, which gives
each entry with its view, and that is the unit for a session of tool rounds; listing, which only
touches the entries, is printed beside it. Of entries that are nested and not shown times are told
without a limit.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from ctxalgebra import (
    Note,
    Session,
    ToolCall,
    __version__,
    assistant,
    label,
    log,
    record,
    tool_result,
    user,
    walk,
)
from ctxalgebra.timeline import active, checkpoints, node, search, tree

LIMIT = 3.0
"""Times of walking the entries that a view may take."""


def grown(count: int) -> Session:
    """Grow a session of tool rounds, with a label at every fiftieth."""
    session = Session()
    at = 0
    while len(session) < count:
        call = ToolCall(f"c{at}", "bash", '{"command":"ls -la src"}')
        session = record(session, user(f"question {at}"), assistant("I look.", call))
        result = tool_result(call.id, "a line of output\n" * 10, name="bash")
        session = record(session, result, assistant("It is done."))
        if at % 50 == 0:
            session = label(session, len(session) - 1, f"step-{at}")
        at += 1
    return session


def nested(count: int) -> Session:
    """Nest entries that no view shows."""
    session = record(Session(), user("first"), *(Note("n", "x") for _ in range(count - 2)))
    return record(session, user("last"))


def least(run: Callable[[], object], rounds: int) -> float:
    """Give the least time of several runs in milliseconds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best * 1000


def views(session: Session) -> dict[str, Callable[[], object]]:
    """Name the views, each at its most expensive."""
    return {
        "active": lambda: active(session),
        "active, all": lambda: active(session, verbose=True),
        "checkpoints": lambda: checkpoints(session),
        "search, all": lambda: search(session, "nowhere", scan=10**9, characters=10**9),
        "node at the root": lambda: node(session, 0),
        "tree": lambda: tree(session),
        "tree at the root": lambda: tree(session, below=0),
    }


def costs(session: Session, rounds: int) -> dict[str, dict[str, float]]:
    """Measure the views; labels are known already, as they are wherever they were asked for."""
    active(session)
    walking = least(lambda: [None for _ in walk(session)], rounds)
    listing = least(lambda: [each.entry for each in log(session)], rounds)
    found = {"walking": walking, "listing": listing}
    found |= {name: least(run, rounds) for name, run in views(session).items()}
    return {name: {"ms": cost, "times": cost / walking} for name, cost in found.items()}


def figures(count: int = 10_000, deep: int = 50_000, rounds: int = 5) -> dict[str, Any]:
    """Measure everything."""
    flat, hidden = costs(grown(count), rounds), costs(nested(deep), rounds)
    worst = max(cost["times"] for cost in flat.values())
    return {
        "version": __version__,
        "entries": count,
        "nested": deep,
        "views": flat,
        "views_nested": hidden,
        "limit": LIMIT,
        "within": worst <= LIMIT,
    }


def main() -> int:
    """Print the figures; 1 when a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    told = figures()
    if parser.parse_args().json:
        print(json.dumps(told))
        return 0 if told["within"] else 1
    print(f"{'view':<20}{told['entries']:>12,} entries{told['nested']:>18,} nested")
    for name, cost in told["views"].items():
        deep = told["views_nested"][name]
        print(
            f"{name:<20}{cost['ms']:>8.2f} ms{cost['times']:>7.2f} x"
            f"{deep['ms']:>14.2f} ms{deep['times']:>7.2f} x"
        )
    print(f"allowed: {LIMIT} times walking them")
    return 0 if told["within"] else 1


if __name__ == "__main__":
    sys.exit(main())
