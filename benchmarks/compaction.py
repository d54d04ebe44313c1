"""How fast tool output is compacted, in MB/s by filter.

`python benchmarks/compaction.py` prints a table, `--json` one JSON object. Each filter gets output
of its kind, made from a seed; `mixed` is all of them in turn. Beside them stands a plain scan with
`re`: one search for the word `error` in each line. Each figure is the best of several runs, on one
core, with the garbage collector off. `mixed` has to reach 5 MB/s.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator

from ctxalgebra import __version__
from ctxalgebra.compaction.lines_log import compress_error, compress_log
from ctxalgebra.compaction.lines_render import render
from ctxalgebra.compaction.lines_sample import compress_generic, compress_table, compress_tree
from ctxalgebra.compaction.lines_search import compress_search
from ctxalgebra.compaction.lines_selection import Selection
from ctxalgebra.compaction.lines_source import compress_code, compress_config, compress_diff
from ctxalgebra.compaction.lines_test import compress_test

QUERY = "why does the parser fail on src/parser.py, and how large is the cache?"
LEAST = 5.0
SIZE = 200_000

Draw = random.Random
Compact = Callable[[str], Selection | None]


def words(draw: Draw, most: int) -> str:
    """Write some words."""
    return " ".join(
        "".join(draw.choices("aeioulnrstmdpk", k=draw.randint(2, 9)))
        for _ in range(draw.randint(1, most))
    )


def log(draw: Draw) -> str:
    at = f"2024-05-01T10:{draw.randrange(60):02}:{draw.randrange(60):02}.{draw.randrange(999):03}Z"
    level = draw.choices(["INFO", "DEBUG", "WARN", "ERROR"], [80, 15, 4, 1])[0]
    said = draw.choice(["request {} served in {} ms", "order {} of {} stored", "cache {} has {}"])
    return f"{at} {level} [{words(draw, 1)}] {said.format(draw.randrange(10**6), draw.random())}"


def test(draw: Draw) -> str:
    name = f"tests/test_{words(draw, 1)}.py::test_{words(draw, 1)}"
    return draw.choices(
        [f"{name} PASSED [{draw.randrange(100):>3}%]", f"FAILED {name} - AssertionError", "E  1"],
        [97, 1, 2],
    )[0]


def search(draw: Draw) -> str:
    return f"src/{draw.choice('abcdefghij')}.py:{draw.randrange(900)}:    {words(draw, 9)}"


def diff(draw: Draw) -> str:
    sign = draw.choices([" ", "+", "-", "@@ -1 +1 @@ "], [80, 10, 9, 1])[0]
    return f"{sign}    {words(draw, 9)}"


def code(draw: Draw) -> str:
    head = draw.choices(["        return ", "    def ", "import ", "    # "], [90, 5, 2, 3])[0]
    return f"{head}{words(draw, 8)}"


def tree(draw: Draw) -> str:
    return f"./{words(draw, 3).replace(' ', '/')}.txt"


def table(draw: Draw) -> str:
    return f"| {draw.randrange(10**6)} | {words(draw, 3)} | {draw.choice(['ok', 'waits'])} |"


def config(draw: Draw) -> str:
    return draw.choice([f"{words(draw, 1)}: {words(draw, 4)}", f"    {words(draw, 9)}"])


def text(draw: Draw) -> str:
    return draw.choices(["", "- ", "## "], [90, 8, 2])[0] + words(draw, 20)


def long(draw: Draw) -> str:
    return words(draw, 4000)


FILTERS: dict[str, tuple[Callable[[Draw], str], Compact]] = {
    "log": (log, lambda given: compress_log(given, QUERY, 0)),
    "error": (log, lambda given: compress_error(given, QUERY, 0)),
    "test": (test, lambda given: compress_test(given, QUERY, 0)),
    "search": (search, lambda given: compress_search(given, QUERY, 0)),
    "diff": (diff, lambda given: compress_diff(given, QUERY, 0)),
    "code": (code, lambda given: compress_code(given, QUERY, 0)),
    "tree": (tree, lambda given: compress_tree(given, QUERY, 0)),
    "table": (table, lambda given: compress_table(given, QUERY, 0)),
    "config": (config, lambda given: compress_config(given, QUERY, 0)),
    "generic": (text, lambda given: compress_generic(given, QUERY, 0)),
    "generic, long lines": (long, lambda given: compress_generic(given, QUERY, 0)),
}
"""What a filter is given, line by line, and the filter."""


def output(line: Callable[[Draw], str], size: int, seed: int = 5) -> str:
    """Write lines until there are so many characters.

    >>> len(output(log, 1000)) >= 1000, output(log, 1000) == output(log, 1000)
    (True, True)
    """
    draw = random.Random(seed)

    def lines() -> Iterator[str]:
        left = size
        while left > 0:
            made = line(draw)
            left -= len(made) + 1
            yield made

    return "\n".join(lines())


def scan(given: str) -> int:
    """Search each line once: what reading alone costs."""
    found = re.compile(r"\berror\b", re.ASCII | re.IGNORECASE).search
    return sum(found(line) is not None for line in given.split("\n"))


def seconds(act: Callable[[], object], runs: int) -> float:
    """Give the least processor time of several runs."""
    best = float("inf")
    gc.disable()
    try:
        for _ in range(runs):
            start = time.process_time()
            act()
            best = min(best, time.process_time() - start)
    finally:
        gc.enable()
    return max(best, 1e-9)


def measure(size: int = SIZE, runs: int = 3) -> dict[str, float]:
    """Give MB/s by filter, of all of them in turn (`mixed`), and of the scan (`re`)."""
    given = {name: output(line, size) for name, (line, _) in FILTERS.items()}
    taken = dict.fromkeys(FILTERS, 0.0)
    for name, (_, compact) in FILTERS.items():

        def act(name: str = name, compact: Compact = compact) -> None:
            found = compact(given[name])
            if found is not None:
                render(found)

        taken[name] = seconds(act, runs)
    total = sum(map(len, given.values()))
    speeds = {name: len(given[name]) / taken[name] / 1e6 for name in FILTERS}
    speeds["mixed"] = total / sum(taken.values()) / 1e6
    speeds["re"] = total / seconds(lambda: [scan(each) for each in given.values()], runs) / 1e6
    return speeds


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; 1 if all filters in turn are too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--size", type=int, default=SIZE, help="characters for each filter")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    speeds = measure(options.size, options.runs)
    if options.json:
        rounded = {name: round(speed, 1) for name, speed in speeds.items()}
        print(json.dumps({"ctxalgebra": __version__, "mb_per_second": rounded}))
    else:
        print("filter                MB/s")
        for name, speed in speeds.items():
            print(f"{name:20} {speed:>5.1f}")
    return int(speeds["mixed"] < LEAST)


if __name__ == "__main__":
    sys.exit(main())
