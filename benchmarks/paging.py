"""What paging costs over a session, as ratios measured side by side.

`python benchmarks/paging.py` prints a table, `--json` one JSON object. A session is replayed with
selection, calibration by usage and the index of its history: for 2,000 turns that has to cost at
most 2.3 times what 1,000 cost. Beside it stands the original's rule (`ctxalgebra.compat`), which
reads the whole session before each request; it is measured at every hundredth request of the same
session and stands for those between. Each figure is the least processor time of several runs, in
turn, with the garbage collector off.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from ctxalgebra import (
    Message,
    Session,
    Usage,
    __version__,
    calibrate,
    chars4,
    record,
    reply,
    select,
    send,
)
from ctxalgebra.codecs.lines import Json, parse
from ctxalgebra.codecs.pi_messages import read_message
from ctxalgebra.compat.paging_keys import RawItem
from ctxalgebra.compat.paging_session import PagingState, next_request
from ctxalgebra.recall import history

BUDGET, TARGET = 64_000, 40_000
TURNS = 1_000
EVERY = 100
LIMITS = {"growth": 2.3, "share": 0.01}

settle = partial(select, budget=BUDGET, target=TARGET)

Host = dict[str, Any]
Round = tuple[list[Host], Host]
"""What arrives before a request, and the reply to it, as the host's messages."""


def script(turns: int, seed: int = 3) -> list[Round]:
    """Write a session: each turn is a request, a call, a result of some length, and an answer."""
    draw = random.Random(seed)
    words = "".join(draw.choice("abcdefghij klmnop\n") for _ in range(40_000))

    def text(mean: int) -> str:
        size = min(20_000, 1 + int(draw.expovariate(1 / mean)))
        at = draw.randrange(len(words) - size)
        return words[at : at + size]

    rounds: list[Round] = []
    for turn in range(turns):
        at, call = 4 * turn, f"call_{turn}"
        content = [{"type": "toolCall", "id": call, "name": "read", "arguments": {"n": turn}}]
        asks = {"role": "assistant", "content": content, "timestamp": at + 1}
        found = [{"type": "text", "text": text(1_500)}]
        result = {
            "role": "toolResult", "toolCallId": call, "toolName": "read", "content": found,
            "isError": False, "timestamp": at + 2,
        }  # fmt: skip
        said = [{"type": "text", "text": text(300)}]
        rounds.append(([{"role": "user", "content": text(200), "timestamp": at}], asks))
        rounds.append(([result], {"role": "assistant", "content": said, "timestamp": at + 3}))
    return rounds


Made = tuple[tuple[Message, ...], Message, Usage]


def made(rounds: list[Round]) -> list[Made]:
    """Make the messages, and what a provider would report for each request."""
    found: list[Made] = []
    session = Session()
    for arrived, answer in rounds:
        one, two = tuple(map(_message, arrived)), _message(answer)
        session, request = send(settle(record(session, *one)))
        usage = Usage(input=sum(map(chars4, request.messages)) * 5 // 4)
        session = reply(session, "completed", two, usage=usage)
        found.append((one, two, usage))
    return found


def _message(value: Host) -> Message:
    spoken = read_message(cast("dict[str, Json]", parse(json.dumps(value))))
    assert spoken is not None
    return spoken.message


def ours(rounds: list[Made]) -> Session:
    """Record, select, send, learn from the usage, and index the history, at each request."""
    session = Session()
    for arrived, answer, usage in rounds:
        session, _ = send(settle(record(session, *arrived)))
        session = reply(session, "completed", answer, usage=usage)
        calibrate(session)
        history(session)
    return session


def original(rounds: list[Round], every: int = EVERY) -> int:
    """Select at every so many requests as the original does; give how many were selected."""
    state = PagingState()
    messages: list[Host] = []
    items: list[RawItem] = []
    count = 0
    for at, (arrived, answer) in enumerate(rounds):
        for message in arrived:
            messages.append(message)
            if message["role"] == "user":
                items.append(RawItem(f"h{message['timestamp']}", message))
            else:
                items[-1] = items[-1]._replace(results=(message,))
        if at % every == every - 1:
            step = next_request(
                state, messages, persistent=messages, raw_history=items, token_budget=BUDGET,
                trim_to_tokens=TARGET, model_context_window=200_000,
            )  # fmt: skip
            state = step.state
            count += 1
        messages.append(answer)
        items.append(RawItem(f"h{answer['timestamp']}", answer))
    return count


def least(runs: int, *actions: Callable[[], object]) -> list[float]:
    """Give the least processor time of each action over several runs, in turn."""
    best = [float("inf")] * len(actions)
    for _ in range(runs):
        for index, action in enumerate(actions):
            gc.collect()
            gc.disable()
            start = time.process_time()
            action()
            best[index] = min(best[index], time.process_time() - start)
            gc.enable()
    return best


def measure(turns: int = TURNS, runs: int = 3) -> dict[str, float]:
    """Measure both on sessions of so many turns and of twice as many."""
    rounds = script(2 * turns)
    prepared = made(rounds)
    half, whole, theirs_half, theirs = least(
        runs,
        lambda: ours(prepared[: 2 * turns]),
        lambda: ours(prepared),
        lambda: original(rounds[: 2 * turns]),
        lambda: original(rounds),
    )
    return {
        "turns": 2 * turns,
        "ours_seconds": round(whole, 3),
        "growth": round(whole / half, 2),
        "original_seconds": round(theirs * EVERY, 1),
        "original_growth": round(theirs / theirs_half, 2),
        "share": round(whole / (theirs * EVERY), 5),
    }


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--turns", type=int, default=TURNS)
    options = parser.parse_args()
    figures = measure(options.turns)
    missed = [name for name, most in LIMITS.items() if figures[name] > most]
    if options.json:
        print(json.dumps({"version": __version__, **figures, "missed": missed}))
    else:
        for name, figure in figures.items():
            limit = f"  (at most {LIMITS[name]})" if name in LIMITS else ""
            print(f"{name:<18}{figure}{limit}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
