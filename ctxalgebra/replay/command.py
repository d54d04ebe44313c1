"""The command `replay`: a file in, a table and a sentence out, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
from attrs import asdict
from rich.console import Console
from rich.progress import Progress

from ctxalgebra.codecs import Decoded, load
from ctxalgebra.codecs.command import format_option
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.entries import Reply
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session, path
from ctxalgebra.replay.cache import BREAKPOINTS, CACHES, cache_named
from ctxalgebra.replay.memory import STAGES
from ctxalgebra.replay.replay import PIPELINES
from ctxalgebra.replay.report import Comparison, cached_how, compare, net, rows, verdict
from ctxalgebra.replay.reported import Reported, compare_reported
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
    as_json: bool,
) -> None:
    """Replay a recorded session and compare what its requests would have cost.

    The events of FILE are sent again under each pipeline. `none` sends everything, `sliding` keeps
    the newest messages that fit the budget, `paging` cuts rarely and drops what is large and read,
    `full` also limits results, states what was written as facts, and lets go of what was read.

    Tokens are a quarter of the characters. With the ideal cache, a token that an earlier request
    began with costs 0.1 of the input price, any other 1.25.
    """
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
    reported = None if cache == "ideal" else compare_reported(decoded.session, cache)
    if as_json:
        click.echo(json.dumps(_object(file, decoded, total, comparison, reported)))
    else:
        _show(file, decoded, total, comparison, reported)


def _object(
    file: str, decoded: Decoded, total: int, comparison: Comparison, reported: Reported | None
) -> dict[str, Any]:
    return {
        "file": file,
        "format": decoded.format,
        "messages": total,
        "repairs": [asdict(repair) for repair in decoded.repairs],
        "runs": rows(comparison),
        **({} if reported is None else {"reported": asdict(reported)}),
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


def _show(
    file: str, decoded: Decoded, total: int, comparison: Comparison, reported: Reported | None
) -> None:
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
    if comparison.cache != "ideal":
        for line in cached_how(comparison).splitlines():
            told(line)
        say()
    if reported is not None and reported.requests:
        told(_beside(reported))
        say()
    say(verdict(comparison))
