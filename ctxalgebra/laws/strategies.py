"""Strategies for Hypothesis: polite sessions, hostile journals, dirty sessions and arrays.

`sessions()` are grown by a well-behaved loop with the shipped stages; they show whether a stage
does its work. `journals()` offer the gate whatever comes near its rules, swallow the refusals,
and keep what was accepted; they show whether the gate holds. Alphabets are small on purpose: ids
repeat, texts are equal, numbers hit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from attrs import fields
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from ctxalgebra.breakpoints import Placed, carries
from ctxalgebra.cache_profiles import CacheProfile, Prices
from ctxalgebra.errors import CODES, CtxError, LawViolation
from ctxalgebra.laws.alphabet import ARGUMENTS, HEADS, IDS, LEGAL, RESULTS, SPOKEN, TEXTS
from ctxalgebra.laws.growing import grow
from ctxalgebra.laws.laws import LAWS
from ctxalgebra.laws.playing import play
from ctxalgebra.laws.soiling import soiled, taken_in
from ctxalgebra.model.gate import RULES, Rule
from ctxalgebra.model.head import Head, Usage
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
from ctxalgebra.model.session import Node, Session, log
from ctxalgebra.model.view import View
from ctxalgebra.profiles import PROFILES, Profile
from ctxalgebra.project import Request
from ctxalgebra.transforms.pipeline import CacheState, Pipeline, Stage, pipeline
from ctxalgebra.transforms.prune import prune_suffix
from ctxalgebra.transforms.select import select
from ctxalgebra.usage.budget import Reading

__all__ = [
    "cache_profiles",
    "conversations",
    "dirty_messages",
    "dirty_sessions",
    "errors",
    "heads",
    "journals",
    "messages",
    "nodes",
    "parts",
    "pipelines",
    "placed",
    "prices",
    "profiles",
    "readings",
    "rules",
    "search",
    "sessions",
    "stages",
    "usages",
    "views",
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


def usages() -> st.SearchStrategy[Usage]:
    """Make reports of usage whose parts fit into the input."""
    tokens = st.integers(0, 1_000)
    return st.builds(_usage, tokens, tokens, tokens, tokens)


def _usage(fresh: int, output: int, read: int, written: int) -> Usage:
    return Usage(fresh + read + written, output, read, written)


def errors(kind: type[CtxError] = CtxError) -> st.SearchStrategy[CtxError]:
    """Make errors of a class, with every code."""
    if kind is LawViolation:
        return st.builds(LawViolation, st.sampled_from([law.name for law in LAWS]), st.text())
    return st.builds(kind, st.sampled_from(sorted(CODES)), st.text())


def rules() -> st.SearchStrategy[Rule]:
    """Make the rules of the gate."""
    return st.sampled_from(RULES)


def profiles() -> st.SearchStrategy[Profile]:
    """Make the provider profiles that are shipped."""
    return st.sampled_from(tuple(PROFILES.values()))


def prices() -> st.SearchStrategy[Prices]:
    """Make prices in thousandths of the input price, from nothing to a hundredfold."""
    return st.builds(Prices, **{f.name: st.integers(0, 100_000) for f in fields(Prices)})


def readings() -> st.SearchStrategy[Reading]:
    """Make readings of the gauge, past the window too."""
    return st.builds(Reading, st.integers(0, 3_000_000), st.integers(1, 2_000_000))


def cache_profiles() -> st.SearchStrategy[CacheProfile]:
    """Make cache profiles, small enough to bite."""
    some, many = st.integers(1, 30), st.integers(0, 5_000)
    return st.builds(
        CacheProfile,
        minimum=many,
        breakpoints=some,
        lookback=some,
        block=some,
        ttl=st.none() | many,
        long_ttl=st.none() | many,
        strips=st.booleans(),
        prices=prices(),
    )


def placed() -> st.SearchStrategy[Placed]:
    """Make requests with breakpoints where they can stand."""

    def place(request: Request, wanted: set[int]) -> Placed:
        places = [at for at in range(len(request.messages)) if carries(request, at)]
        return Placed(request, tuple(at for at in places if at in wanted), len(wanted) % 3)

    requests = st.builds(Request, heads(), conversations())
    return st.builds(place, requests, st.sets(st.integers(0, 20), max_size=8))


def stages() -> st.SearchStrategy[Stage]:
    """Make shipped stages and pipelines, with budgets small enough to bite."""
    budgets, caches = st.sampled_from((60, 150, 20, 400, 1500)), st.sampled_from(CACHES)
    cutting, pruning = st.builds(_cutting, budgets, caches), st.builds(_pruning, budgets, caches)
    two = st.builds(pipeline, cutting, pruning) | st.builds(pipeline, pruning, cutting)
    return st.one_of(two, cutting, pruning)


def pipelines() -> st.SearchStrategy[Pipeline]:
    """Make pipelines of up to three shipped stages."""
    return st.lists(stages(), max_size=3).map(lambda found: pipeline(*found))


CACHES: tuple[CacheState, ...] = ("warm", "cold")


def _cutting(budget: int, cache: CacheState) -> Stage:
    return partial(select, budget=budget, cache=cache)


def _pruning(budget: int, cache: CacheState) -> Stage:
    return partial(prune_suffix, stub_over=budget, drop_over=budget // 5, cache=cache)


def sessions(*, max_turns: int = 10) -> st.SearchStrategy[Session]:
    """Grow sessions the way a good harness does: settle, send, reply, run the tools.

    With shipped stages at small budgets or without any, failures and retries, steering, parallel
    calls, abandoned calls, thinking, images, usage, changes of head, and travel. They end anywhere.
    """
    turns = st.lists(st.binary(min_size=8, max_size=32), max_size=max_turns)
    return st.builds(grow, st.just(pipeline()) | stages(), st.integers(0, len(HEADS) - 1), turns)


def journals(*, max_chunks: int = 16) -> st.SearchStrategy[Session]:
    """Offer the gate entries around its rules, and keep what it accepts.

    Half of the moves go on with the conversation, so that deep states are reached; the others are
    near misses: results for the wrong call or twice, decisions while a request is in flight,
    breaks that are not declared, cuts on either side of the frontier, drops that split an exchange
    or hide what is unread, replacements with one part, call, name, type or id changed, travel
    anywhere, and so on.

    Args:
        max_chunks: moves come in chunks of 10 to 32.
    """
    # Hypothesis keeps plain lists short; chunks of bytes are long, cheap, and still shrink.
    return st.lists(st.binary(min_size=30, max_size=96), max_size=max_chunks).map(play)


def views() -> st.SearchStrategy[View]:
    """Make views: what sessions show."""
    return sessions().map(lambda session: session.view)


def nodes() -> st.SearchStrategy[Node]:
    """Make nodes: what stands last in sessions."""
    return sessions().map(lambda session: log(session)[-1])


# Message arrays


def conversations(*, max_steps: int = 12) -> st.SearchStrategy[tuple[Message, ...]]:
    """Make legal message arrays that begin with a user message."""
    return st.lists(_PAIRS, max_size=max_steps).map(_conversation)


_ANSWERS = tuple(m for m in SPOKEN[:LEGAL] if not m.empty and not m.blanks)


def _conversation(steps: Sequence[tuple[int, int]]) -> tuple[Message, ...]:
    found: list[Message] = [user("a")]
    for kind, text in steps:
        said = _ANSWERS[kind % len(_ANSWERS)]
        if kind % 3 == 0 or found[-1].role == "assistant":
            # By their place, too: what repeats hides what is lost.
            found.append(user(TEXTS[(text + len(found)) % len(TEXTS)]))
            continue
        found.append(said)
        for at, call in enumerate(said.calls):
            found.append(tool_result(call.id, RESULTS[(text + at) % len(RESULTS)], name=call.name))
    return tuple(found)


def dirty_messages(*, max_faults: int = 4) -> st.SearchStrategy[tuple[Message, ...]]:
    """Make message arrays with the faults of real files.

    Turns that were aborted with their calls open, parallel calls one by one, messages in pieces,
    results that are missing, stored twice, late, early or in the order of completion, ids that are
    missing or used again, empty content, blank text beside calls, messages between results.
    """
    faults = st.lists(_PAIRS, max_size=max_faults)
    return st.builds(soiled, conversations(), faults).map(
        lambda lines: tuple(line.message for line in lines if line.message is not None)
    )


def dirty_sessions(*, max_faults: int = 24) -> st.SearchStrategy[Session]:
    """Take in conversations that are as dirty as real files, with repairs, as codecs do.

    The faults of `dirty_messages`, aborted and failed requests, compaction between a call and its
    result, branches and what looks like one, very large results.
    """
    faults = st.lists(_PAIRS, max_size=max_faults)
    return st.builds(
        taken_in, st.builds(soiled, _long(0, 4), faults), st.integers(0, len(HEADS) - 1)
    )


# Searching


def _long(least: int, most: int) -> st.SearchStrategy[tuple[Message, ...]]:
    """Make conversations that may be long, of so many chunks of 8 to 32 steps."""
    made = st.lists(st.binary(min_size=8, max_size=32), min_size=least, max_size=most)
    return made.map(lambda found: _conversation([*pairwise(b"".join(found))]))


_ANY_PACE = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
    HealthCheck.nested_given,
)


def search(judge: Callable[[Any], None], on: str, examples: int) -> None:
    """Give examples to a judge until it raises `LawViolation`; raise the one of the smallest.

    Reproducible: the same judge under the same version of Hypothesis sees the same examples. What
    `random` gives is another for each.
    """
    if on == "session":
        made = st.one_of(sessions(), journals(max_chunks=6), dirty_sessions())
        _searched(judge, made, examples)
        return
    long = examples // 8
    _searched(judge, conversations(), examples - long)
    if long:
        _searched(judge, _long(4, 8), long)  # for windows that slide only then


def _searched(judge: Callable[[Any], None], made: st.SearchStrategy[Any], examples: int) -> None:
    violations: list[LawViolation] = []

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=_ANY_PACE,
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(made, st.random_module())
    def run(value: Any, _seed: object) -> None:
        try:
            judge(value)
        except LawViolation as violation:
            violations.append(violation)
            raise

    try:
        run()
    except Flaky as error:
        last = violations[-1]
        text = f"the same example gave two verdicts, one of them {last.message}"
        raise LawViolation("determinism", text, last.before, last.after) from error
