"""The command `replay`: a file in, a table and a sentence out, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import click
from attrs import asdict
from rich.console import Console
from rich.progress import Progress

from ctxalgebra.codecs import Decoded, load
from ctxalgebra.codecs.command import format_option
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.entries import Reply
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session, path
from ctxalgebra.replay.cache import BREAKPOINTS, CACHES, cache_named
from ctxalgebra.replay.departures import off_path
from ctxalgebra.replay.head_report import (
    NO_HEAD,
    NO_TOOLS,
    head_rows,
    head_verdict,
    held_object,
    what,
)
from ctxalgebra.replay.holding import Held, compare_tools, load_policy
from ctxalgebra.replay.memory import STAGES
from ctxalgebra.replay.recorded import (
    Recorded,
    recorded_row,
    recorded_verdict,
    weigh_recorded,
)
from ctxalgebra.replay.replay import PIPELINES
from ctxalgebra.replay.report import Comparison, cached_how, compare, net, rows, verdict
from ctxalgebra.replay.reported import Reported, compare_reported
from ctxalgebra.replay.resident import Residency, named_tools, resident_head
from ctxalgebra.resident.policy import ToolPolicy
from ctxalgebra.terminal import aligned, counted, repaired, say, told

__all__ = ["replay"]

LONG = 500
"""From how many messages on a progress bar is shown."""

_Row = dict[str, Any]

COLUMNS: tuple[tuple[str, Callable[[_Row], str]], ...] = (
    ("pipeline", lambda row: row["pipeline"]),
    ("requests", lambda row: f"{row['requests']:,}"),
    ("mean", lambda row: f"{row['mean_request_tokens']:,}"),
    ("largest", lambda row: f"{row['max_request_tokens']:,}"),
    ("cached", lambda row: f"{row['cached_tokens'] / max(row['input_tokens'], 1):.1%}"),
    ("cost", lambda row: f"{row['cost']:,}"),
    ("ratio", lambda row: "" if row["cost_vs_none"] is None else f"{row['cost_vs_none']:.2f}"),
    ("over", lambda row: f"{row['over_budget']:,}"),
    ("invalid", lambda row: f"{row['invalid_requests']:,}"),
    ("silent", lambda row: f"{row['silent_breaks']:,}"),
    ("declared", lambda row: f"{len(row['breaks']):,}"),
)
"""The columns of the table: a name, and a cell of a row of `report.rows`."""

LEGEND = """
mean, largest: tokens of a request. cached: the share of all input that was read from the cache.
cost: in input tokens at their full price; ratio: to sending everything. over: requests over the
budget; invalid: requests that the provider would refuse. silent, declared: breaks, that is
requests that don't extend the one before them, without and with an entry that says why.
"""


SAVED = """
first, later: tokens that a mechanism left out of the requests that would have been the first to
show them, and out of those after that. rebilled: tokens that its breaks made the provider read
anew. net: what is left of it, in input tokens at their full price, a cached one at a tenth. asked:
tokens that a model would have been asked; here a rule answers, so they are no part of net.
"""

HEAD_COLUMNS: tuple[tuple[str, Callable[[_Row], str]], ...] = (
    ("from", lambda row: f"{row['first']:,}"),
    ("requests", lambda row: f"{row['requests']:,}"),
    ("system", lambda row: f"{row['system_tokens']:,}"),
    ("tools", lambda row: f"{row['tool_tokens']:,}"),
    ("held back", lambda row: f"{row['held_tokens']:,}"),
    ("loaded", lambda row: f"{row['loaded_tokens']:,}"),
    ("class", lambda row: row["class"]),
    ("rebilled", lambda row: f"{row['rebilled_tokens']:,}"),
    ("billed", lambda row: f"{row['billed_tokens']:,}"),
    ("what changed", what),
)
"""The columns of the table of heads, behind the one that says whose they are."""

HEAD_LEGEND = """
Heads are those of sending everything. from: the first request that has the head, counted from 0;
system, tools: tokens of its system text and of its tools; held back: of tools that some other head
has; loaded: of tools that the provider loads at a result, behind the head. rebilled: tokens that
had been sent and stand behind the change; billed: those of them that the cache did not hold.
"""


SENT_COLUMNS: tuple[tuple[str, Callable[[_Row], str]], ...] = (
    ("requests", lambda row: f"{row['requests']:,}"),
    ("mean", lambda row: f"{row['mean_request_tokens']:,}"),
    ("largest", lambda row: f"{row['max_request_tokens']:,}"),
    ("cached", lambda row: f"{row['cached_tokens'] / max(row['input_tokens'], 1):.1%}"),
    ("cost", lambda row: f"{row['cost']:,}"),
    ("over", lambda row: f"{row['over_budget']:,}"),
    ("invalid", lambda row: f"{row['invalid_requests']:,}"),
)
"""The columns of the table of the session as it was sent, behind the one that says which it is."""

SENT_LEGEND = """
as sent: all requests of the file, on all branches, in the order in which they left. never
travelled: the same without handoffs, and without the requests whose replies asked for a journey;
all others carry what was shown where a journey began. What the model did is taken to be the same.
"""

MOVE_COLUMNS: tuple[tuple[str, Callable[[_Row], str]], ...] = (
    ("request", lambda row: f"{row['request']:,}"),
    ("entry", lambda row: f"{row['entry']}"),
    ("branch", lambda row: f"{row['branch']}"),
    ("tokens", lambda row: f"{row['tokens']:,}"),
    ("shared", lambda row: f"{row['shared']:,}"),
    ("with", lambda row: "" if row["origin"] < 0 else f"{row['origin']:,}"),
    ("cached", lambda row: f"{row['read']:,}"),
)
"""The columns of the table of requests that go on from another one than the one before them."""

MOVE_LEGEND = """
request: in the order in which all left, from 0; this one goes on from another than the one that
left before it. entry: its number, as in `requests FILE --all`. shared: tokens that also led an
earlier request; with: the first that showed them. cached: what the cache held.
"""


def messages(session: Session) -> int:
    """Count the messages on the path."""
    entries = (node.entry for node in path(session))
    return sum(
        isinstance(e, Message) or (isinstance(e, Reply) and e.message is not None) for e in entries
    )


def _cache(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Refuse what names no cache, before anything is read."""
    try:
        cache_named(value)
    except InvalidArgument:
        names = ", ".join(map(repr, (*CACHES, "blocks:SIZE")))
        raise click.BadParameter(f"{value!r} is not one of {names}.") from None
    return value


@click.command()
@click.argument("file")
@format_option("--format", "FILE")
@click.option(
    "--budget",
    type=int,
    help="Most tokens of a request.  [default: 8/5 of the target; without one, half of the largest "
    "request when everything is sent, but 1000 to 128000]",
)
@click.option("--target", type=int, help="Tokens that a cut leaves.  [default: 5/8 of the budget]")
@click.option("--window", type=int, help="The model's context window in tokens; caps the budget.")
@click.option(
    "--pipeline",
    "pipelines",
    multiple=True,
    type=click.Choice(PIPELINES),
    help="What to compare; may be repeated.  [default: all]",
)
@click.option(
    "--stage",
    "stages",
    multiple=True,
    type=click.Choice(STAGES),
    help="What full does; may be repeated.  [default: all]",
)
@click.option(
    "--cache",
    default="ideal",
    show_default=True,
    metavar=f"[{'|'.join(CACHES)}]",
    callback=_cache,
    help="How the provider caches; blocks:SIZE says how many tokens a block has.",
)
@click.option(
    "--breakpoints",
    default="default",
    show_default=True,
    type=click.Choice(BREAKPOINTS),
    help="Where a cache that is written at breakpoints has them; planned helps pipelines that edit "
    "near the end of what they sent.",
)
@click.option(
    "--tools",
    metavar="POLICY",
    help="A JSON file with a tool policy, or a list of its layers: tell what holding tools back "
    "would have saved.",
)
@click.option(
    "--deferred",
    is_flag=True,
    help="The provider loads activated tools at a tool result, behind the head.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def replay(
    *,
    file: str,
    form: str,
    budget: int | None,
    target: int | None,
    window: int | None,
    pipelines: tuple[str, ...],
    stages: tuple[str, ...],
    cache: str,
    breakpoints: str,
    tools: str | None,
    deferred: bool,
    as_json: bool,
) -> None:
    """Replay a recorded session and compare what its requests would have cost.

    The events of FILE are sent again under each pipeline. `none` sends everything, `sliding` keeps
    the newest messages that fit the budget, `paging` cuts rarely and drops what is large and read,
    `full` also limits results, states what was written as facts, and lets go of what was read.

    The pipelines run along the current path. Where other branches hold requests too, all requests
    are weighed as they were sent besides, and what journeys with a handoff saved.

    Tokens are a quarter of the characters. With the ideal cache, a token that an earlier request
    began with costs 0.1 of the input price, any other 1.25.
    """
    policy = None if tools is None else load_policy(tools)
    decoded = load(file, format=form)
    total = messages(decoded.session)
    names = pipelines or PIPELINES
    errors = Console(stderr=True)
    with Progress(
        console=errors, transient=True, disable=total < LONG or not errors.is_terminal
    ) as progress:
        task = progress.add_task("Replaying", total=None)
        comparison = compare(
            decoded.session,
            pipelines=names,
            budget=budget,
            target=target,
            window=window,
            cache=cache,
            breakpoints=breakpoints,
            stages=stages or STAGES,
            tick=lambda done, all_: progress.update(task, completed=done, total=all_),
        )
        found = _Told(
            comparison,
            None if cache == "ideal" else compare_reported(decoded.session, cache),
            *_heads(decoded.session, policy, comparison, deferred=deferred),
            tools,
            _recorded(decoded.session, comparison),
        )
    if as_json:
        click.echo(json.dumps(_object(file, decoded, total, found)))
    else:
        _show(file, decoded, total, found)


class _Told(NamedTuple):
    """What there is to tell: of pipelines, the file's own reports, heads, a policy, branches."""

    comparison: Comparison
    reported: Reported | None
    head: Residency | None
    held: Held | None
    tools: str | None
    recorded: Recorded | None


def _recorded(session: Session, comparison: Comparison) -> Recorded | None:
    """Weigh the session as it was sent, where that is more than its path."""
    if not off_path(session):
        return None
    return weigh_recorded(
        session,
        budget=comparison.budget,
        cache=comparison.cache,
        breakpoints=comparison.breakpoints,
    )


def _heads(
    recorded: Session, policy: ToolPolicy | None, comparison: Comparison, *, deferred: bool
) -> tuple[Residency | None, Held | None]:
    """Tell of the heads, and of what a policy makes of them, if there are any."""
    entries = (node.entry for node in path(recorded))
    if not any(isinstance(entry, Head) and (entry.system or entry.tools) for entry in entries):
        return None, None
    options: dict[str, Any] = {
        "deferred": deferred,
        "cache": cache_named(comparison.cache),
        "planned": comparison.breakpoints == "planned",
    }
    if policy is not None and named_tools(recorded):
        held = compare_tools(recorded, policy, **options)
        return (held.without, held) if held.without.stated else (None, None)
    head = resident_head(recorded, **options)
    return head if head.stated else None, None


def _object(file: str, decoded: Decoded, total: int, found: _Told) -> dict[str, Any]:
    reported, head, recorded = found.reported, found.head, found.recorded
    return {
        "file": file,
        "format": decoded.format,
        "messages": total,
        "repairs": [asdict(repair) for repair in decoded.repairs],
        "runs": rows(found.comparison),
        **({} if reported is None else {"reported": asdict(reported)}),
        "head": None if head is None else head_rows(head),
        **({} if found.tools is None else {"tools": found.held and held_object(found.held)}),
        **({} if recorded is None else {"recorded": recorded_row(recorded)}),
    }


def _beside(reported: Reported) -> str:
    """Say what the file reports beside what the model gives for the same requests."""
    share = f" ({reported.modelled / reported.reported:.3f})" if reported.reported else ""
    said = (
        f"Of its {counted(reported.requests, 'own request')} the file reports "
        f"{counted(reported.reported, 'cached token')}; "
        f"the model gives {reported.modelled:,}{share}."
    )
    if reported.elsewhere:
        was = "was" if reported.elsewhere == 1 else "were"
        said += f" {reported.elsewhere:,} more {was} cached by another session."
    if reported.unseen:
        unseen = counted(reported.unseen, "request")
        said += f" {unseen} read nothing at all: something unseen changed."
    return said


def _show_saved(comparison: Comparison) -> None:
    """Show what each mechanism saved and paid, of the pipelines that have any."""
    table = [
        [run.pipeline, name, *(f"{n:,}" for n in (t.first, t.later, t.rebilled, t.asked, net(t)))]
        for run in comparison.runs
        for name, t in run.saved
    ]
    if table:
        header = ["pipeline", "mechanism", "first", "later", "rebilled", "asked", "net"]
        aligned(header, table, left=["mechanism"])
        say()
        told(SAVED)
        say()


def _show_heads(found: _Told) -> None:
    """Show the heads, and what a policy makes of them."""
    if found.head is None:
        told(NO_HEAD if found.tools is None else f"{NO_HEAD} {NO_TOOLS}")
        say()
        return
    heads = {"recorded": found.head, **({} if found.held is None else {"policy": found.held.under})}
    table = [
        [whose, *(cell(row) for _, cell in HEAD_COLUMNS)]
        for whose, head in heads.items()
        for row in head_rows(head)
    ]
    aligned(["head", *(n for n, _ in HEAD_COLUMNS)], table, left=["class", "what changed"])
    say()
    told(HEAD_LEGEND)
    say()
    if found.held is not None:
        told(head_verdict(found.held))
        say()
    elif found.tools is not None:
        told(NO_TOOLS)
        say()


def _show_recorded(recorded: Recorded) -> None:
    """Show the session as it was sent: beside never travelling, and where it went on elsewhere."""
    row = recorded_row(recorded)
    say(
        f"as it was sent: {counted(recorded.branches, 'branch', 'branches')}, "
        f"{counted(recorded.journeys, 'journey')}, "
        f"{counted(len(recorded.moves), 'move')}, "
        f"{counted(recorded.run.silent, 'silent break')}"
    )
    say()
    told_of = {"as sent": row, "never travelled": row["without_journeys"]}
    table = [
        [whose, *(cell(of) for _, cell in SENT_COLUMNS)] for whose, of in told_of.items() if of
    ]
    aligned(["run", *(name for name, _ in SENT_COLUMNS)], table)
    say()
    told(SENT_LEGEND)
    say()
    if recorded.moves:
        moves = [[cell(move) for _, cell in MOVE_COLUMNS] for move in row["moves"]]
        aligned([name for name, _ in MOVE_COLUMNS], moves)
        say()
        told(MOVE_LEGEND)
        say()
    told(recorded_verdict(recorded))
    say()


def _show(file: str, decoded: Decoded, total: int, found: _Told) -> None:
    comparison, reported = found.comparison, found.reported
    say(
        f"{file}: {decoded.format}, {counted(total, 'message')}, "
        f"budget {counted(comparison.budget, 'token')}"
        f"{repaired(repair.code for repair in decoded.repairs)}"
    )
    say()
    table = [[cell(row) for _, cell in COLUMNS] for row in rows(comparison)]
    aligned([name for name, _ in COLUMNS], table)
    say()
    told(LEGEND)
    say()
    _show_saved(comparison)
    _show_heads(found)
    if found.recorded is not None:
        _show_recorded(found.recorded)
    if comparison.cache != "ideal":
        for line in cached_how(comparison).splitlines():
            told(line)
        say()
    if reported is not None and reported.requests:
        told(_beside(reported))
        say()
    say(verdict(comparison))
