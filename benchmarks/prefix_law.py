"""Grow hostile sessions under the paging pipeline, and look for a break that nobody declared.

`python benchmarks/prefix_law.py --count 10000` grows so many sessions, each made from its number
alone (`--first NUMBER --count 1` makes one again). People steer while requests are in flight,
replies fail, are aborted or lost, call ids come again, results are huge, providers report usage
that is far from the estimate; in every second session messages are edited, dropped, cut by hand,
thinking is stripped and the model is switched, too. What is asked of each, from the requests alone:

* two requests in a row are prefixes of each other, or the second has a declared break, and only
  then;
* where nothing but events came in, every break is an advance of the frontier;
* a request that was made is the projection at its `Sent` for good.

Ends with 1 when something was found.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from functools import partial
from typing import Any

from ctxalgebra import (
    CtxError,
    Cut,
    Drop,
    Head,
    Message,
    Replace,
    Route,
    Sent,
    Session,
    Strip,
    Text,
    Thinking,
    ToolCall,
    Usage,
    assistant,
    breaks,
    estimate,
    log,
    path,
    pipeline,
    prune_suffix,
    record,
    reply,
    requests,
    select,
    send,
    tool_result,
    user,
)

Draw = random.Random


def words(draw: Draw, most: int) -> str:
    """Make a text; what it says is no two times the same."""
    return f"{draw.random()} " + "word " * draw.randrange(most)


def spoken(draw: Draw) -> Message:
    """Make a reply: text, thinking, calls whose ids come again in each."""
    parts: list[Any] = []
    if draw.random() < 0.3:
        parts.append(Thinking(words(draw, 20), "signed"))
    calls = draw.choice((0, 0, 1, 1, 2, 3))
    if not calls or draw.random() < 0.3:
        parts.append(words(draw, 60))
    parts += [ToolCall(f"call_{n}", "read") for n in range(calls)]
    return assistant(*parts)


def answered(draw: Draw, session: Session, *, steered: bool) -> Session:
    """Answer the open calls in any order; some results are huge; people speak in between."""
    ids = list(session.view.open)
    draw.shuffle(ids)
    for call in ids:
        size = draw.choice((2, 20, 100, 100, 3000))
        session = record(session, tool_result(call, words(draw, size), error=draw.random() < 0.1))
        if steered and draw.random() < 0.15:
            session = record(session, user(words(draw, 10)))
    return session


def attempted(session: Session, *entries: Any) -> Session:
    """Record what the gate lets in."""
    try:
        return record(session, *entries)
    except CtxError:
        return session


def meddled(draw: Draw, session: Session) -> Session:
    """Change something that may have been sent."""
    view = session.view
    if not view.end:
        return session
    numbers = view.slots.numbers[: view.end]
    at = draw.randrange(view.end)
    match draw.randrange(5):
        case 0:
            old = view.slots.messages[at]
            kept = [part for part in old.parts if not isinstance(part, Text)]
            new = Message(old.role, (Text(words(draw, 5)), *kept), call=old.call, error=old.error)
            return attempted(session, Replace(numbers[at], new, "edited", breaks=True))
        case 1:
            last = min(at + draw.randrange(4), view.end - 1)
            return attempted(session, Drop(numbers[at], numbers[last], "dropped", breaks=True))
        case 2:
            return attempted(session, Cut(numbers[at], user("by hand"), "cut", breaks=True))
        case 3:
            return attempted(session, Strip("stripped", breaks=True))
        case _:
            model = draw.choice("ab")
            route = Route("p", model, binding=draw.choice(("prefix", "none", "leading")))
            return attempted(session, Head(route, words(draw, 40)))


def grown(number: int) -> tuple[Session, list[Any], bool]:
    """Grow the session of a number; give the requests as they were sent, too."""
    draw = Draw(f"prefix {number}")
    plain = number % 2 == 0
    budget = draw.choice((200, 400, 800, 1600))
    settle = pipeline(
        partial(prune_suffix, stub_over=budget // 2, drop_over=10**9 if plain else budget // 3),
        partial(select, budget=budget, target=draw.choice((None, budget // 4, budget))),
    )
    session = record(Session(), Head(Route("p", "a"), words(draw, 40)))
    sent: list[Any] = []
    for _ in range(draw.randrange(5, 30)):
        if session.view.end == 0 or draw.random() < 0.5:
            session = record(session, user(words(draw, draw.choice((5, 40, 200)))))
        if not plain and draw.random() < 0.2:
            session = meddled(draw, session)
        session, request = send(settle(session))
        sent.append(request)
        measured = estimate(session)
        if draw.random() < 0.15:
            session = record(session, user(words(draw, 10)))
        outcome = draw.choices(("completed", "failed", "aborted", "lost"), (16, 2, 1, 1))[0]
        message = spoken(draw) if outcome != "lost" else None
        usage = Usage(int(measured * draw.uniform(0.5, 2))) if draw.random() < 0.3 else None
        session = reply(session, outcome, message, usage=usage)
        session = answered(draw, session, steered=True)
    return session, sent, plain


def findings_of(
    session: Session, sent: list[Any], *, plain: bool
) -> tuple[list[str], Counter[str]]:
    """Check one session against what is asked of it."""
    found: list[str] = []
    numbers = [node.number for node in path(session) if type(node.entry) is Sent]
    made = requests(session)
    if list(made) != sent:
        found.append("a request that was made is another now")
    declared = {one.sent: one for one in breaks(session)}
    entries = {node.number: node.entry for node in log(session)}
    for at in range(1, len(sent)):
        broken = not sent[at].extends(sent[at - 1])
        if broken and numbers[at] not in declared:
            found.append(f"silent break at request {at}")
        if not broken and numbers[at] in declared:
            found.append(f"false alarm at request {at}")
    found.extend(
        f"a break of entry {one.sent} is no advance"
        for one in (declared.values() if plain else ())
        if any(type(entries[number]) is not Cut for number in one.by)
    )
    cuts = sum(type(entry) is Cut for entry in entries.values())
    counts = {"sessions": 1, "requests": len(sent), "breaks": len(declared), "cuts": cuts}
    return found, Counter(counts)


def run(first: int, count: int) -> tuple[list[tuple[int, str]], Counter[str]]:
    """Grow and check sessions; list what was found with the number of its session."""
    totals: Counter[str] = Counter()
    found: list[tuple[int, str]] = []
    for number in range(first, first + count):
        session, sent, plain = grown(number)
        more, counts = findings_of(session, sent, plain=plain)
        found += [(number, finding) for finding in more]
        totals += counts
        totals["append-only"] += plain
    return found, totals


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found, totals = run(options.first, options.count)
    if options.json:
        print(json.dumps({**totals, "findings": found}))
    else:
        print(", ".join(f"{count} {name}" for name, count in totals.items()))
        for number, finding in found:
            print(f"session {number}: {finding}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
