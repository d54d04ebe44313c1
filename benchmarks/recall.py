"""What recall costs, as ratios measured side by side: the first search, the next, and browsing.

`python benchmarks/recall.py` prints a table, `--json` one JSON object. Each figure is the least
processor time of several runs with the garbage collector off; what it is compared with ran in this
process, in turn with it.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections.abc import Callable
from typing import Any

import regex

from ctxalgebra import Session, ToolCall, __version__, assistant, record, tool_result, user
from ctxalgebra.recall import browse, history, search

WORDS = regex.compile(r"\p{Script=Han}|[\p{L}\p{N}_./:\-]+")
"""The words of the specification, as one pattern: what the first search is measured against."""

TURNS = 300
OUTPUT = 15_000_000
LONG = 400_000
LIMITS = {"first": 3.0, "append_ms": 5.0, "browse": 3.0}


def output(draw: random.Random, size: int, names: list[str]) -> str:
    """Write tool output: lines of code and logs over a vocabulary, some words rare."""
    lines: list[str] = []
    left = size
    while left > 0:
        picked = [names[min(int(draw.expovariate(1 / 900)), len(names) - 1)] for _ in range(9)]
        a, b, c, d, e, f, g, h, i = picked
        line = draw.choice(
            (
                f"    def {a}_{b}(self, {c}: {d}) -> {e}:  # {f} {g} {h} {i}",
                f"src/{a}/{b}.py:{draw.randrange(9999)}: {c} = {d}.{e}({f}, {g})",
                f"2026-01-0{draw.randrange(1, 9)}T12:00:{draw.randrange(10, 59)}Z {a} {b}={c} {d}",
                f"{a} {b} {c} {d} {e}, {f} {g}. {h} {i}",
            )
        )
        lines.append(line)
        left -= len(line) + 1
    return "\n".join(lines)


def texts(size: int = OUTPUT, turns: int = TURNS) -> list[str]:
    """Write the outputs of a session, one a turn, from a fixed seed."""
    draw = random.Random(5)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    names = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(20_000)]
    return [output(draw, size // turns, names) for _ in range(turns)]


def session_of(outputs: list[str]) -> Session:
    """Record turns: a request, a call, its output, an answer."""
    session = Session()
    for number, text in enumerate(outputs):
        call = ToolCall("call_0", "bash", json.dumps({"command": f"make step{number}"}))
        session = record(
            session,
            user(f"step {number}, please"),
            assistant("On it.", call),
            tool_result("call_0", text, name="bash"),
        )
    return session


def timed(run: Callable[[], Any]) -> float:
    """Measure processor time in seconds, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        run()
        return time.process_time() - start
    finally:
        gc.enable()


def tokenise(outputs: list[str]) -> int:
    """Lower-case the text once and find its words with one compiled pattern."""
    return len(WORDS.findall("\n".join(outputs).lower()))


def first_search(outputs: list[str], runs: int) -> tuple[float, float]:
    """Time the first search, and the tokenising that it is measured against, in turn."""
    ours, theirs = [], []
    for _ in range(runs):
        session = session_of(outputs)
        theirs.append(timed(lambda: tokenise(outputs)))
        ours.append(timed(lambda session=session: search(session, "deploy needle_7 step42")))
    return min(ours), min(theirs)


def next_search(outputs: list[str], runs: int) -> tuple[float, float]:
    """Time a search that is asked again, and one after another turn was recorded."""
    session = session_of(outputs)
    search(session, "step42")
    again, after = [], []
    for number in range(runs):
        again.append(timed(lambda session=session: search(session, "step42")))
        call = ToolCall("call_0", "bash", "{}")
        session = record(
            session, user(f"more {number}"), assistant(call), tool_result("call_0", "done " * 200)
        )
        after.append(timed(lambda session=session: search(session, "step42")))
    return min(again), sorted(after)[len(after) // 2]


def browsing(length: int, runs: int) -> tuple[float, float]:
    """Time `browse` around places all over a history, and over its last hundredth alone."""

    def grow(count: int) -> Any:
        session = Session()
        for number in range(count):
            session = record(session, user(f"m{number}"))
        return history(session)

    def walk(known: Any) -> None:
        draw = random.Random(1)
        for _ in range(300):
            browse(known, "around", sequence=draw.randrange(len(known)), count=10, stride=3)

    long, short = grow(length), grow(length // 100)
    return (
        min(timed(lambda: walk(long)) for _ in range(runs)) / 300,
        min(timed(lambda: walk(short)) for _ in range(runs)) / 300,
    )


def measure(*, size: int = OUTPUT, length: int = LONG, runs: int = 5) -> dict[str, Any]:
    """Measure all figures."""
    outputs = texts(size)
    first, floor = first_search(outputs, min(runs, 3))
    again, after = next_search(outputs, runs)
    far, near = browsing(length, runs)
    figures = {
        "first": {"ours_ms": first * 1e3, "tokenising_ms": floor * 1e3, "ratio": first / floor},
        "append": {
            "again_ms": again * 1e3,
            "after_append_ms": after * 1e3,
            "append_ms": (after - again) * 1e3,
        },
        "browse": {"long_us": far * 1e6, "short_us": near * 1e6, "ratio": far / near},
    }
    figures["missed"] = [
        name
        for name, missed in (
            ("first", figures["first"]["ratio"] > LIMITS["first"]),
            ("append", figures["append"]["append_ms"] > LIMITS["append_ms"]),
            ("browse", figures["browse"]["ratio"] > LIMITS["browse"]),
        )
        if missed
    ]
    return {"version": __version__, "megabytes": size / 1e6, "items": length, **figures}


def main() -> int:
    """Print the figures; 1 when a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    wanted = parser.parse_args()
    figures = measure()
    if wanted.json:
        print(json.dumps(figures))
    else:
        first, append, walk = figures["first"], figures["append"], figures["browse"]
        print(
            f"first search over {figures['megabytes']:.0f} MB   {first['ours_ms']:.0f} ms, ", end=""
        )
        print(f"{first['ratio']:.2f} of tokenising ({first['tokenising_ms']:.0f} ms), limit 3")
        print(f"search after one more turn   {append['after_append_ms']:.2f} ms, ", end="")
        print(f"{append['append_ms']:.2f} ms more than again, limit 5")
        print(f"browse in {figures['items']} items   {walk['long_us']:.0f} us, ", end="")
        print(f"{walk['ratio']:.2f} of that in a hundredth of them, limit 3")
    return 1 if figures["missed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
