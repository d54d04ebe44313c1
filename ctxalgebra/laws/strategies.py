"""Strategies for Hypothesis: polite sessions, hostile journals, dirty message arrays.

`sessions()` are grown by a well-behaved loop with the shipped stages; they show whether a stage
does its work. `journals()` offer the gate whatever comes near its rules, swallow the refusals,
and keep what was accepted; they show whether the gate holds. Alphabets are small on purpose: ids
repeat, texts are equal, numbers hit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from attrs import evolve
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from ctxalgebra.errors import LawViolation
from ctxalgebra.laws.growing import (
    ARGUMENTS,
    HEADS,
    IDS,
    LEGAL,
    SPOKEN,
    TEXTS,
    grow,
    play,
)
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import (
    Image,
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    assistant,
    system,
    tool_result,
    user,
)
from ctxalgebra.model.session import Session
from ctxalgebra.transforms.pipeline import CacheState, Stage, pipeline
from ctxalgebra.transforms.prune import prune_suffix
from ctxalgebra.transforms.select import select

__all__ = [
    "conversations",
    "dirty_messages",
    "heads",
    "journals",
    "messages",
    "parts",
    "search",
    "sessions",
    "stages",
]

_PAIRS = st.tuples(st.integers(0, 255), st.integers(0, 255))


def parts() -> st.SearchStrategy[Part]:
    """Make parts of every kind, from a small alphabet."""
    rare: tuple[Part, ...] = (
        Text(""),
        Image("aGk=", "image/png"),
        Opaque("server_tool", "{}"),
        Thinking("t1", "s1"),
        Thinking("", "s3", redacted=True),
        ToolCall("c1", "read", "{}", signature="g"),
    )
    return st.one_of(
        st.sampled_from(TEXTS).map(Text),
        st.builds(ToolCall, st.sampled_from(IDS), st.just("read"), st.sampled_from(ARGUMENTS)),
        st.sampled_from(rare),
    )


def messages() -> st.SearchStrategy[Message]:
    """Make messages of every role."""
    shown = st.lists(parts(), max_size=4)
    plain = shown.map(lambda found: tuple(p for p in found if type(p) in (Text, Image, Opaque)))
    return st.one_of(
        plain.map(user),
        shown.map(lambda found: assistant(*found)),
        st.builds(tool_result, st.sampled_from(IDS), plain, error=st.booleans()),
        plain.map(system),
    )


def heads() -> st.SearchStrategy[Head]:
    """Make heads: all bindings, system texts, tools."""
    return st.sampled_from(HEADS)


def stages() -> st.SearchStrategy[Stage]:
    """Make shipped stages and pipelines, with budgets small enough to bite."""
    budgets, caches = st.sampled_from((20, 60, 150)), st.sampled_from(CACHES)
    cutting, pruning = st.builds(_cutting, budgets, caches), st.builds(_pruning, budgets, caches)
    two = st.builds(pipeline, cutting, pruning) | st.builds(pipeline, pruning, cutting)
    return st.one_of(two, cutting, pruning)


CACHES: tuple[CacheState, ...] = ("warm", "cold")


def _cutting(budget: int, cache: CacheState) -> Stage:
    return partial(select, budget=budget, cache=cache)


def _pruning(budget: int, cache: CacheState) -> Stage:
    return partial(prune_suffix, stub_over=budget, drop_over=budget // 2, cache=cache)


def sessions(*, max_turns: int = 8) -> st.SearchStrategy[Session]:
    """Grow sessions the way a good harness does: settle, send, reply, run the tools.

    With shipped stages at small budgets, failures and retries, steering, parallel calls, abandoned
    calls, thinking, usage, changes of head, and travel. They end anywhere.
    """
    turns = st.lists(st.binary(min_size=5, max_size=17), max_size=max_turns)
    return st.builds(grow, stages(), st.integers(0, len(HEADS) - 1), turns)


def journals(*, max_chunks: int = 16) -> st.SearchStrategy[Session]:
    """Offer the gate entries around its rules, and keep what it accepts.

    Half of the moves go on with the conversation, so that deep states are reached; the others are
    near misses: results for the wrong call or twice, decisions while a request is in flight,
    breaks that are not declared, cuts on either side of the frontier, drops that split an exchange
    or hide what is unread, replacements with one part, call, name, type or id changed, travel
    anywhere, and so on.

    Args:
        max_chunks: moves come in chunks of 4 to 32.
    """
    # Hypothesis keeps plain lists short; chunks of bytes are long, cheap, and still shrink.
    return st.lists(st.binary(min_size=12, max_size=96), max_size=max_chunks).map(play)


# Message arrays


def conversations(*, max_steps: int = 12) -> st.SearchStrategy[tuple[Message, ...]]:
    """Make legal message arrays that begin with a user message."""
    return st.lists(_PAIRS, max_size=max_steps).map(_conversation)


_ANSWERS = tuple(message for message in SPOKEN[:LEGAL] if message.parts)


def _conversation(steps: Sequence[tuple[int, int]]) -> tuple[Message, ...]:
    found: list[Message] = [user("a")]
    for kind, text in steps:
        said = _ANSWERS[kind % len(_ANSWERS)]
        if kind % 3 == 0 or found[-1].role == "assistant":
            found.append(user(TEXTS[text % len(TEXTS)]))
            continue
        found.append(said)
        found += [tool_result(c.id, TEXTS[text % len(TEXTS)], name=c.name) for c in said.calls]
    return tuple(found)


def dirty_messages(*, max_faults: int = 4) -> st.SearchStrategy[tuple[Message, ...]]:
    """Make message arrays with the faults of real files.

    Turns that were aborted with their calls open, results that are missing, stored twice, late,
    early or in the order of completion, ids used again, empty content, messages between results.
    """
    faults = st.lists(_PAIRS, max_size=max_faults)
    return st.builds(_soiled, conversations(), faults)


_STRAY = (user("between"), user(""), assistant(), assistant(Thinking("t1"), ToolCall("c1", "read")))


def _soiled(array: tuple[Message, ...], faults: Sequence[tuple[int, int]]) -> tuple[Message, ...]:
    found = list(array)
    for kind, place in faults:
        at = place % len(found)
        results = [i for i, message in enumerate(found) if message.role == "tool"]
        if kind % 3 == 0 or not results:
            found.insert(at + 1, _STRAY[kind % len(_STRAY)])
            continue
        pick = results[place % len(results)]
        match kind % 5:
            case 0:
                del found[pick]
            case 1:
                found.insert(at, found[pick])
            case 2 | 3:
                found.insert(at, found.pop(pick))
            case _:
                found[pick] = evolve(found[pick], call="c9")
    return tuple(found)


# Searching


def _often(array: tuple[Message, ...], times: int) -> tuple[Message, ...]:
    return array * times


def search(judge: Callable[[Any], None], on: str, examples: int) -> None:
    """Give examples to a judge until it raises; raise what it says of the smallest.

    Reproducible: the same judge under the same version of Hypothesis sees the same examples.
    """
    # One array in ten is long, for windows that slide only then.
    made: st.SearchStrategy[Any] = st.builds(
        _often, conversations(), st.sampled_from((1,) * 9 + (12,))
    )
    if on == "session":
        made = st.one_of(sessions(), journals())

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(made)
    def run(value: Any) -> None:
        judge(value)

    try:
        run()
    except Flaky as error:
        raise LawViolation("determinism", "the same example gave two verdicts") from error
