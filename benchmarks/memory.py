"""Weigh working memory on scripted sessions: each with it and without, questions included.

The scenes are those in which the working-memory extension was measured (its specification, section
12), written anew. A scripted model gives the same replies with and without; results, digests and
the tagger's verdicts stand in the script. A cached token costs a tenth of one that is not, a
token of the auxiliary model as much as one that is not.

Prints a table, or one JSON object with `--json`. Ends with 1 when over all scenes it costs more
than doing nothing, when a break is silent, or when a chain of writes costs more than 0.45 of doing
nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import Any

from attrs import asdict, frozen

from ctxalgebra import (
    Answer,
    Head,
    Pending,
    Session,
    Tool,
    ToolCall,
    account,
    assistant,
    breaks,
    digest_output,
    drive,
    forget,
    limit_output,
    pipeline,
    record,
    reply,
    requests,
    savings,
    send,
    tag_results,
    tool_result,
    user,
    write_facts,
)

CACHED, FRESH = 10, 100
LIMIT = 0.45

HEAD = Head(
    system="You are a coding agent. " * 200,
    tools=(Tool("bash", "Runs a command. " * 10, "{}"), Tool("read", "Reads a file. " * 10, "{}")),
)


def lines(tokens: int, what: str) -> str:
    """Make so many tokens of text that says what it is."""
    line = f"{what}: a line of text that stands for nothing in particular\n"
    return (line * (tokens * 4 // len(line) + 1))[: tokens * 4]


@frozen
class Use:
    """A call and what comes of it: the tool, its argument, its result in tokens, a verdict."""

    tool: str
    of: str
    tokens: int
    verdict: str = "RETAIN"
    error: bool = False
    wrote: int = 0

    def call(self, number: int) -> ToolCall:
        """Make the call."""
        arguments: dict[str, Any] = {"command" if self.tool == "bash" else "path": self.of}
        if self.wrote:
            arguments["content"] = "# Does one thing.\n" + lines(self.wrote, "x = 1  # code")
        return ToolCall(f"c{number}", self.tool, json.dumps(arguments))


Turn = tuple[str, tuple[tuple[Use, ...], ...]]
"""What the user says, and the rounds of calls that follow, before a closing reply."""

SCENES: dict[str, tuple[Turn, ...]] = {
    "bash_digest": (("run it", ((Use("bash", "make", 3_100),), (Use("read", "a.py", 200),))),),
    "bash_error": (("test it", ((Use("bash", "pytest", 3_041, error=True),),)),),
    "bash_without_digest": (("run it", ((Use("bash", "slow", 3_500),),)),),
    "read_twice": (
        ("look", tuple((Use("read", "a.py", 923, "DROP"),) for _ in range(3))),
    ),
    "read_dropped": (("look", ((Use("read", "a.py", 923, "DROP"),), (Use("ls", ".", 50),))),),
    "fact_and_drop": (
        ("do", ((Use("write", "a.py", 10, wrote=400), Use("read", "b.py", 923, "DROP")),)),
    ),
    "facts_parallel": (
        ("write", (tuple(Use("write", f"{n}.py", 10, wrote=370) for n in range(3)),)),
    ),
    "mixed_round": (
        (
            "look",
            (
                (Use("read", "a.py", 923), Use("read", "b.py", 553, "DROP")),
                (Use("ls", ".", 20),),
            ),
        ),
    ),
    "read_chain": (
        ("look", tuple((Use("read", f"{n}.py", 1_150, "DROP"),) for n in range(4))),
    ),
    "skill_load": (("do", ((Use("find_capability", "tdd", 814),), (Use("read", "a.py", 100),))),),
    "tagger_prose": (("look", ((Use("read", "a.py", 923, "RETAIN - do not drop this"),),)),),
    "write_chain": (
        ("build", tuple((Use("write", f"{n}.py", 10, wrote=1_100),) for n in range(4))),
    ),
    "write_then_user": (
        ("write", ((Use("write", "a.py", 10, wrote=2_000),),)),
        ("thanks", ()),
    ),
    "write_and_kept_read": (
        (
            "do",
            (
                (Use("write", "a.py", 10, wrote=2_000), Use("read", "b.py", 3_884)),
                (Use("ls", ".", 20),),
            ),
        ),
    ),
    "write_unstrip": (
        ("write", ((Use("write", "a.py", 10, wrote=2_000),), (Use("ls", ".", 20),))),
    ),
    "lazy_off": (("find", ((Use("find_capability", "web", 60),), (Use("bash", "curl", 300),))),),
    "tool_activation": (
        ("find", ((Use("find_capability", "web", 60),), (Use("bash", "curl", 300),))),
        ("again", ((Use("bash", "curl", 300),),)),
    ),
    "tool_order": (
        ("find", ((Use("find_capability", "web", 60),),)),
        ("again", ((Use("bash", "curl", 300),),)),
    ),
    "edit_chain": (
        ("mend", tuple((Use("write", f"{n}.py", 10, wrote=150),) for n in range(6))),
    ),
    "long_reads": (
        ("study", tuple((Use("read", f"{n}.py", 6_000, "DROP"),) for n in range(30))),
    ),
    "long_work": (
        ("work", tuple(
            (Use("bash", "make", 4_000 if n % 5 == 0 else 300),) if n % 2
            else (Use("write", f"{n}.py", 10, wrote=900),)
            for n in range(40)
        )),
    ),
}  # fmt: skip
"""The scenes; in those about tools no stage of working memory has anything to do."""

OURS = ("edit_chain", "long_reads", "long_work")
"""Those that the specification does not have: small writes, and long sessions, where breaks pay."""


def play(name: str, settle: Any) -> Session:
    """Play a scene under a pipeline."""
    session, number = record(Session(), HEAD), 0
    for said, rounds in SCENES[name]:
        session = record(session, user(said))
        for uses in rounds:
            session, _ = send(settle(session))
            calls = [use.call(number + at) for at, use in enumerate(uses)]
            session = reply(session, "completed", assistant(*calls))
            for call, use in zip(calls, uses, strict=True):
                text = lines(use.tokens, f"{use.of} says")
                session = record(session, tool_result(call.id, text, error=use.error))
            number += len(uses)
        session, _ = send(settle(session))
        session = reply(session, "completed", assistant("Done."))
    return session


def cost(session: Session) -> int:
    """Price all requests, in hundredths of a token."""
    told = account(session)
    return told.shared * CACHED + (told.input - told.shared) * FRESH


def silent(session: Session) -> int:
    """Count the requests that do not extend the one before them, less the breaks that were told."""
    made = requests(session)
    pairs = zip(made[1:], made[:-1], strict=True)
    return sum(not later.extends(earlier) for later, earlier in pairs) - len(breaks(session))


def effects(name: str, asks: tuple[Pending, ...]) -> tuple[Answer, ...]:
    """Answer as the script of a scene says."""
    verdicts = {
        f'"{use.of}"': use.verdict for _, rounds in SCENES[name] for r in rounds for use in r
    }

    def answer(pending: Pending) -> Answer:
        prompt = json.loads(pending.ask.question)["prompt"]
        if pending.ask.topic == "tag":
            verdict = next(v for of, v in verdicts.items() if of in prompt)
            value = json.dumps({"decision": verdict}) if " " not in verdict else verdict
            return Answer(pending.number, "answered", value)
        if pending.ask.topic == "digest" and name != "bash_without_digest":
            return Answer(pending.number, "answered", lines(250, "- digest"))
        return Answer(pending.number, "failed", "nobody answers")

    return tuple(map(answer, asks))


def weigh(name: str, *, aux: int = FRESH) -> dict[str, Any]:
    """Play a scene with and without working memory, and say what each decision came to."""
    stages = pipeline(
        limit_output,
        digest_output,
        write_facts,
        partial(tag_results, aux=aux),
        partial(forget, aux=aux),
    )
    on = play(name, partial(drive, stage=stages, effects=partial(effects, name)))
    off = play(name, pipeline())
    told = savings(on)
    asked = told.total.asked * aux
    return {
        "requests": account(on).requests,
        "off": cost(off) // 100,
        "on": cost(on) // 100,
        "asked": asked // 100,
        "ratio": round((cost(on) + asked) / cost(off), 3),
        "silent": silent(on),
        "breaks": len(account(on).breaks),
        "decisions": [
            {
                "mechanism": d.mechanism,
                "tokens": d.tokens,
                "expected": d.expected,
                "requests": d.requests,
                "net": d.tally.net(aux=aux) // 100,
            }
            for d in told.decisions
        ],
        "saved": {who: asdict(tally) for who, tally in told.mechanisms.items()},
    }  # fmt: skip


def told(d: dict[str, Any]) -> str:
    """Say what a decision was expected to need, and what came of it."""
    after, had = d["expected"], d["requests"]
    return f"{d['mechanism']} {d['tokens']}: pays after {after}, had {had}, {d['net']:+}"


def main() -> int:
    """Print the table, or one object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = {name: weigh(name) for name in SCENES}
    totals = {
        name: {side: sum(row[side] for row in rows) for side in ("off", "on", "asked")}
        for name, rows in (
            ("table", [row for name, row in found.items() if name not in OURS]),
            ("total", list(found.values())),
        )
    }
    if arguments.json:
        print(json.dumps({"scenes": found, **totals}))
    else:
        print(f"{'scene':22}{'requests':>9}{'off':>9}{'on':>9}{'asked':>8}{'ratio':>7}  decisions")
        for name, row in found.items():
            said = [told(decision) for decision in row["decisions"] if decision["tokens"] > 0]
            said = said if len(said) < 5 else [*said[:4], f"... {len(said) - 4} more"]
            print(
                f"{name:22}{row['requests']:>9}{row['off']:>9}{row['on']:>9}{row['asked']:>8}"
                f"{row['ratio']:>7.2f}  {said[0] if said else ''}"
            )
            for more in said[1:]:
                print(f"{'':66}{more}")
        for name, row in totals.items():
            ratio = (row["on"] + row["asked"]) / row["off"]
            print(f"{name:31}{row['off']:>9}{row['on']:>9}{row['asked']:>8}{ratio:>7.2f}")
    bad = any(row["on"] + row["asked"] > row["off"] for row in totals.values())
    bad = bad or any(row["silent"] for row in found.values())
    return int(bad or found["write_chain"]["ratio"] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
