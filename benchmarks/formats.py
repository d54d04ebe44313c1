"""What the codecs take: memory by format, and the speed of pi's session files by message size.

Memory is the peak of decoding by `tracemalloc`, beside the file, in multiples of its size, for
files of 8,000 small messages, which are the worst: what each entry takes weighs most there.
Speed is the least processor time of several runs, with the garbage collector on and off; the ratios
are to reading (`json.loads`) or writing (`json.dumps`) the same lines and nothing else, in the same
run, with the collector off. The messages are drawn from a fixed seed.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ctxalgebra import Session, ToolCall, assistant, record, reply, send, tool_result, user
from ctxalgebra.codecs import CODECS

MEMORY = 10.0
"""The most memory that decoding may take, in multiples of the file."""

RATIO = 8.0
"""The most time that decoding and encoding may take, in multiples of `json.loads`."""

GROWTH = 2.8
"""The most that twice the messages may take: 2 is linear, 4 is quadratic."""

MESSAGES, SMALL = 8_000, 300
SIZES = (300, 1_000, 4_000)
"""Characters a message: small ones, typical ones, and such as results of tools are."""

WORDS = (Path(__file__).parent / "words.txt").read_text("utf-8").split()


def script(kind: str, count: int, size: int) -> Session:
    """Record `count` messages of about `size` characters.

    Args:
        kind: `talk` for the user's messages and answers in turns; `calls` for these with a call and
            its result between the two.
        count: of messages; a multiple of four.
        size: of each text, result and arguments, in characters.
    """
    draw = random.Random(f"{kind} {size}")
    said = " ".join(draw.choices(WORDS, k=20_000))

    def text() -> str:
        at = draw.randrange(len(said) - size)
        return said[at : at + size].strip()

    session = Session()
    for number in range(count // (2 if kind == "talk" else 4)):
        session, _ = send(record(session, user(text())))
        if kind == "calls":
            call = ToolCall(f"call_{number}", "write", json.dumps({"content": text()}))
            session = reply(session, "completed", assistant("Writing.", call))
            session, _ = send(record(session, tool_result(call.id, text(), name=call.name)))
        session = reply(session, "completed", assistant(text()))
    return session


def weigh(name: str, session: Session) -> tuple[int, float]:
    """Give the size of a session's file, and the most that decoding it takes in multiples of it."""
    data = CODECS[name].encode(session)
    tracemalloc.start()
    CODECS[name].decode(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return len(data), peak / len(data)


def least(work: Callable[[], object], runs: int, *, collect: bool) -> float:
    """Give the least processor time of several runs, in seconds."""
    times: list[float] = []
    for _ in range(runs):
        gc.collect()
        if not collect:
            gc.disable()
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
        gc.enable()
    return min(times)


class Speed(NamedTuple):
    """What one direction took: seconds with the collector on, off, and of JSON alone."""

    collected: float
    bare: float
    floor: float


def speed(data: bytes, runs: int) -> tuple[Speed, Speed]:
    """Measure decoding and encoding a session file of pi, beside JSON of the same lines."""
    codec = CODECS["pi"]
    lines = data.decode().splitlines()
    values = [json.loads(line) for line in lines]
    session = codec.decode(data).session
    works: tuple[tuple[Callable[[], object], Callable[[], object]], ...] = (
        (partial(codec.decode, data), lambda: [json.loads(line) for line in lines]),
        (partial(codec.encode, session), lambda: [json.dumps(value) for value in values]),
    )
    decoding, encoding = (
        Speed(
            least(ours, runs, collect=True),
            least(ours, runs, collect=False),
            least(floor, 3 * runs, collect=False),
        )
        for ours, floor in works
    )
    return decoding, encoding


def print_memory(count: int) -> bool:
    """Print the memory that each format takes; say whether all are within the limit."""
    print(f"decoding {count:,} messages of {SMALL} characters, limit {MEMORY:.0f} times the file")
    print(f"{'':20}{'talk':>24}{'calls and results':>24}")
    sessions = [script(kind, count, SMALL) for kind in ("talk", "calls")]
    good = True
    for name in CODECS:
        found = [weigh(name, session) for session in sessions]
        good = good and all(times <= MEMORY for _, times in found)
        cells = (f"{size // count:6,} B each {times:6.1f} x" for size, times in found)
        print(f"{name:20}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    return good


def print_speed(count: int, runs: int) -> bool:
    """Print the speed of pi's session files; say whether all figures are within the limits."""
    print(f"\npi, {count:,} messages with calls and results, MB/s, limit {RATIO:.0f} x json.loads")
    print(f"{'':19}{'collector on':>14}{'off':>8}{'JSON':>8}{'ratio':>8}")
    files = {size: CODECS["pi"].encode(script("calls", count, size)) for size in SIZES}
    found = {size: speed(data, runs) for size, data in files.items()}
    good = True
    for size, (decoding, encoding) in found.items():
        for way, took in (("decode", decoding), ("encode", encoding)):
            ratio = took.bare / decoding.floor
            good = good and ratio <= RATIO
            on, off, floor = (len(files[size]) / seconds / 1e6 for seconds in took)
            print(f"{size:6,} chars{way:>7}{on:14.1f}{off:8.1f}{floor:8.1f}{ratio:8.1f}")
    twice = speed(CODECS["pi"].encode(script("calls", 2 * count, SMALL)), runs)
    growths = [two.bare / one.bare for one, two in zip(found[SMALL], twice, strict=True)]
    told = ", ".join(f"{growth:.2f}" for growth in growths)
    print(f"twice as many of {SMALL}: {told} times the time, limit {GROWTH}")
    return good and max(growths) <= GROWTH


def main() -> int:
    """Print both tables; return 1 when a figure is over its limit."""
    parser = argparse.ArgumentParser(description="Measure what codecs take.")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    within = [print_memory(options.messages), print_speed(options.messages // 2, options.runs)]
    return int(not all(within))


if __name__ == "__main__":
    sys.exit(main())
