"""The headline figures: what a turn costs, as ratios that were measured side by side.

`python benchmarks/headline.py` prints a table, `--json` one JSON object. Every ratio compares two
things that ran in this process, on this machine, in turn (imports: in fresh processes); each is
the least processor time of several runs with the garbage collector off. Two competitors are
optional (extra `bench`); where one is absent its figure is null and says why.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import subprocess
import sys
import time
import tracemalloc
from bisect import bisect_left
from collections.abc import Callable
from functools import partial

from ctxalgebra import (
    Message,
    Session,
    Thinking,
    ToolCall,
    Usage,
    __version__,
    assistant,
    chars4,
    dry_run,
    record,
    reply,
    send,
    tool_result,
    user,
)
from ctxalgebra.replay import plan

BUDGET, TARGET = 64_000, 40_000
REQUESTS = 2_000
settle = plan("paging", budget=BUDGET, target=TARGET).settle

Row = dict[str, str]
"""One plain message: `role`, `text`, and for a call `id`, `arguments`, `thinking`."""


def script(requests: int, seed: int = 1) -> list[tuple[Row, Row]]:
    """Write a session of two messages a request: what arrives, and what the model answers.

    Turns of some tool rounds, results from one line to a long file, thinking now and then; the
    mean message has about 500 characters, as in real sessions of coding agents.
    """
    draw = random.Random(seed)
    words = "".join(draw.choice("abcdefghij klmnop\n") for _ in range(40_000))

    def text(mean: int, most: int) -> str:
        size = min(most, 1 + int(draw.expovariate(1 / mean)))
        at = draw.randrange(len(words) - size)
        return words[at : at + size]

    rows: list[tuple[Row, Row]] = []
    call = ""
    for number in range(requests):
        if call:
            mean = 4_000 if draw.random() < 0.1 else 500
            arrived = {"role": "tool", "text": text(mean, 20_000), "id": call}
        else:
            arrived = {"role": "user", "text": text(200, 2_000)}
        answer = {"role": "assistant", "text": text(150, 2_000), "thinking": "", "arguments": ""}
        if draw.random() < 0.2:
            answer["thinking"] = text(400, 4_000)
        call = f"call-{number}" if draw.random() < 0.85 else ""
        if call:
            answer["id"] = call
            answer["arguments"] = json.dumps({"path": f"src/{number}.py", "text": text(120, 4_000)})
        rows.append((arrived, answer))
    return rows


def message(row: Row) -> Message:
    """Make the message of a row."""
    if row["role"] == "user":
        return user(row["text"])
    if row["role"] == "tool":
        return tool_result(row["id"], row["text"], name="read")
    parts: list[Thinking | str | ToolCall] = [row["text"]]
    if row["thinking"]:
        parts.insert(0, Thinking(row["thinking"], "signature"))
    if "id" in row:
        parts.append(ToolCall(row["id"], "read", row["arguments"]))
    return assistant(*parts)


Turn = tuple[Message, Message, Usage]


def turns(rows: list[tuple[Row, Row]]) -> list[Turn]:
    """Make the messages of a script, and what a provider would report for each request."""
    made: list[Turn] = []
    session = Session()
    for arrived, answer in rows:
        one, two = message(arrived), message(answer)
        session, request = send(settle(record(session, one)))
        usage = Usage(input=sum(map(chars4, request.messages)))
        session = reply(session, "completed", two, usage=usage)
        made.append((one, two, usage))
    return made


def ours(made: list[Turn]) -> Session:
    """Record, settle, send and close each request."""
    session = Session()
    for arrived, answer, usage in made:
        session = settle(record(session, arrived))
        session, _ = send(session)
        session = reply(session, "completed", answer, usage=usage)
    return session


def ours_with_dry_run(made: list[Turn]) -> Session:
    """Do the same, with a dry run before each request whose outcome is thrown away."""
    session = Session()
    for arrived, answer, usage in made:
        session = record(session, arrived)
        dry_run(settle, session)
        session, _ = send(settle(session))
        session = reply(session, "completed", answer, usage=usage)
    return session


def floor(rows: list[tuple[Row, Row]]) -> None:
    """Do the least that any program must: append, measure, add up, compare, slice.

    Nothing is checked, nothing can be taken back, and a cut may split an exchange.
    """
    log: list[Row] = []
    sums = [0]
    start = 0
    for arrived, answer in rows:
        log.append(arrived)
        sums.append(sums[-1] + len(arrived["text"]) // 4)
        if sums[-1] - sums[start] > BUDGET:
            start = bisect_left(sums, sums[-1] - TARGET)
        log[start:]
        log.append(answer)
        size = len(answer["text"]) + len(answer["thinking"]) + len(answer["arguments"])
        sums.append(sums[-1] + size // 4)


def least(repeats: int, *contenders: Callable[[], object]) -> list[float]:
    """Time contenders in turn, `repeats` times round; give the least processor seconds of each."""
    best = [float("inf")] * len(contenders)
    for _ in range(repeats):
        for index, contender in enumerate(contenders):
            gc.collect()
            gc.disable()
            try:
                began = time.process_time()
                contender()
                best[index] = min(best[index], time.process_time() - began)
            finally:
                gc.enable()
    return best


Measured = tuple[float | None, str]
"""A ratio with what it was made of; or None with the reason."""


def turn_against_floor(made: list[Turn], rows: list[tuple[Row, Row]]) -> Measured:
    mine, bare, making = least(
        15,
        partial(ours, made),
        partial(floor, rows),
        lambda: [message(row) for pair in rows for row in pair],
    )
    made_for = f"making its messages {_micro(making)}"
    return mine / bare, f"{_micro(mine)} against {_micro(bare)} a request; {made_for}"


def _micro(seconds: float) -> str:
    return f"{seconds / REQUESTS * 1e6:.1f} µs"


def turn_against_summarization(made: list[Turn], rows: list[tuple[Row, Row]]) -> Measured:
    """Time only the calls of its processor; what it cut stays cut, and coroutines run bare."""
    try:
        from pydantic_ai import messages as pydantic
        from pydantic_ai_summarization import SlidingWindowProcessor
    except ImportError:
        return None, "summarization-pydantic-ai is not installed"

    def convert(row: Row) -> pydantic.ModelMessage:
        match row["role"]:
            case "user":
                return pydantic.ModelRequest([pydantic.UserPromptPart(row["text"])])
            case "tool":
                part = pydantic.ToolReturnPart("read", row["text"], row["id"])
                return pydantic.ModelRequest([part])
        parts: list[pydantic.ModelResponsePart] = [pydantic.TextPart(row["text"])]
        if row["thinking"]:
            parts.insert(0, pydantic.ThinkingPart(row["thinking"]))
        if "id" in row:
            parts.append(pydantic.ToolCallPart("read", row["arguments"], row["id"]))
        return pydantic.ModelResponse(parts)

    history = [(convert(a), convert(b)) for a, b in rows]
    trim = SlidingWindowProcessor(trigger=("tokens", BUDGET), keep=("tokens", TARGET))

    def theirs() -> None:
        kept: list[pydantic.ModelMessage] = []
        for arrived, answer in history:
            kept.append(arrived)
            try:
                trim(kept).send(None)
            except StopIteration as stop:
                kept = list(stop.value)
            kept.append(answer)

    mine, other = least(2, partial(ours, made), theirs)
    return mine / other, f"{_micro(mine)} against {_micro(other)} a request"


STRIDE = 20
"""A contender that reads the whole history at each request takes long: every 20th is measured."""


def turn_against_langchain(made: list[Turn], rows: list[tuple[Row, Row]]) -> Measured:
    try:
        from langchain_core import messages as langchain
    except ImportError:
        return None, "langchain-core is not installed"

    def convert(row: Row) -> langchain.BaseMessage:
        match row["role"]:
            case "user":
                return langchain.HumanMessage(row["text"])
            case "tool":
                return langchain.ToolMessage(row["text"], tool_call_id=row["id"])
        calls = []
        if "id" in row:
            calls = [{"name": "read", "args": json.loads(row["arguments"]), "id": row["id"]}]
        return langchain.AIMessage(row["text"], tool_calls=calls)

    def count(messages: list[langchain.BaseMessage]) -> int:
        return sum(len(m.content) // 4 for m in messages)

    history = [convert(row) for pair in rows for row in pair]

    def theirs() -> None:
        for end in range(1, len(history), 2 * STRIDE):
            langchain.trim_messages(
                history[:end],
                max_tokens=BUDGET,
                token_counter=count,
                strategy="last",
                start_on="human",
            )

    mine, other = least(2, partial(ours, made), theirs)
    other *= STRIDE
    return mine / other, f"{_micro(mine)} against {_micro(other)} a request"


def turn_against_json(made: list[Turn], rows: list[tuple[Row, Row]]) -> Measured:
    history = [row for pair in rows for row in pair]

    def theirs() -> None:
        for end in range(1, len(history), 2 * STRIDE):
            json.dumps(history[:end])

    mine, other = least(2, partial(ours, made), theirs)
    other *= STRIDE
    return mine / other, f"{_micro(mine)} against {_micro(other)} a request"


def growth(run: Callable[[list[Turn]], Session], repeats: int) -> Measured:
    """Compare twice the requests with once; 2 is linear, 4 is quadratic."""
    long = turns(script(2 * REQUESTS))
    once, twice = least(repeats, partial(run, long[:REQUESTS]), partial(run, long))
    return twice / once, f"{twice * 1e3:.0f} ms against {once * 1e3:.0f} ms"


def memory(messages: int = 20_000) -> Measured:
    """Weigh a session, messages included, without the texts that it was made from."""
    rows = script(messages // 2)
    gc.collect()
    tracemalloc.start()
    try:
        session = Session()
        for arrived, answer in rows:
            session, _ = send(settle(record(session, message(arrived))))
            session = reply(session, "completed", message(answer))
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return used / messages, f"{used / 2**20:.1f} MiB for {len(session)} entries"


def fresh(code: str) -> str:
    """Run code in a fresh interpreter and give what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


TIMED = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"


def import_time(repeats: int = 8) -> Measured:
    mine = other = float("inf")
    for _ in range(repeats):
        mine = min(mine, float(fresh(TIMED.format("ctxalgebra"))))
        other = min(other, float(fresh(TIMED.format("attrs, cattrs, regex"))))
    return mine / other, f"{mine * 1e3:.0f} ms against {other * 1e3:.0f} ms"


def import_load() -> Measured:
    names = fresh("import sys, ctxalgebra; print(*sys.modules)").split()
    found = sorted({"hypothesis", "asyncio"}.intersection(names))
    return float(len(found)), ", ".join(found) or "neither hypothesis nor asyncio"


def compare() -> dict[str, tuple[float, Measured]]:
    """Measure all; give for each name its limit and what was measured."""
    rows = script(REQUESTS)
    made = turns(rows)
    return {
        "turn / bare floor": (25, turn_against_floor(made, rows)),
        "turn / summarization-pydantic-ai": (0.5, turn_against_summarization(made, rows)),
        "turn / langchain-core trim_messages": (0.25, turn_against_langchain(made, rows)),
        "turn / json.dumps of the history": (0.01, turn_against_json(made, rows)),
        "4,000 requests / 2,000": (2.3, growth(ours, 6)),
        "the same with a dry run each": (2.3, growth(ours_with_dry_run, 6)),
        "bytes a message, without its text": (2048, memory()),
        "import / attrs, cattrs, regex": (1.6, import_time()),
        "needless modules loaded": (0, import_load()),
    }


def main() -> int:
    """Print all figures; return 1 when one of them is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = parser.parse_args().json
    began = time.perf_counter()
    measured = compare()
    seconds = time.perf_counter() - began
    figures = [
        {
            "name": name,
            "ratio": None if ratio is None else round(ratio, 4),
            "limit": limit,
            "holds": None if ratio is None else ratio <= limit,
            "detail": detail,
        }
        for name, (limit, (ratio, detail)) in measured.items()
    ]
    if as_json:
        version = ".".join(map(str, sys.version_info[:3]))
        report = {"ctxalgebra": __version__, "python": version, "seconds": round(seconds, 1)}
        print(json.dumps({**report, "figures": figures}))
    else:
        print(f"{'':38}{'measured':>10}{'limit':>8}")
        for figure in figures:
            ratio = "absent" if figure["ratio"] is None else f"{figure['ratio']:.4g}"
            mark = " " if figure["holds"] in (True, None) else "!"
            print(f"{figure['name']:38}{ratio:>10}{figure['limit']:>8}{mark}  {figure['detail']}")
        print(f"{seconds:.1f} seconds")
    return int(any(figure["holds"] is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
