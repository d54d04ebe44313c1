"""The command `replay`: a file in, a table and a sentence out, or one JSON object.

What comes from a file or from the arguments is printed as plain text: rich reads no markup in it,
and what is not printable is escaped.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click
from attrs import asdict
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

import ctxalgebra
from ctxalgebra.codecs import Decoded, load
from ctxalgebra.errors import CtxError
from ctxalgebra.model.entries import Reply
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session, path
from ctxalgebra.replay.cache import CACHES
from ctxalgebra.replay.replay import PIPELINES
from ctxalgebra.replay.report import Comparison, compare, rows, verdict

__all__ = ["run"]

LONG = 1_000
"""From how many messages on a progress bar is shown."""

WIDTH = 100
"""How wide tables are where no terminal says it, in columns."""

TOKENS = ("requests", "mean", "largest", "cached", "cost", "ratio")
FAULTS = ("over", "invalid", "silent", "declared")
"""The columns of the table."""


def printable(text: str) -> str:
    r"""Escape what a terminal would obey or could not show.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    encoding = sys.stdout.encoding or "utf-8"
    shown = text.encode(encoding, "backslashreplace").decode(encoding)
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)


def messages(session: Session) -> int:
    """Count the messages on the path."""
    entries = (node.entry for node in path(session))
    return sum(
        isinstance(e, Message) or (isinstance(e, Reply) and e.message is not None) for e in entries
    )


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(ctxalgebra.__version__, prog_name="ctxalgebra")
def commands() -> None:
    """What an LLM agent sends to its model, as a projection of a journal."""


@commands.command()
@click.argument("file")
@click.option("--format", "form", default="auto", show_default=True, help="Format of FILE.")
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
    "--cache",
    default="ideal",
    show_default=True,
    type=click.Choice(tuple(CACHES)),
    help="How the provider caches.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def replay(
    file: str,
    form: str,
    budget: int | None,
    target: int | None,
    window: int | None,
    pipelines: tuple[str, ...],
    cache: str,
    as_json: bool,  # noqa: FBT001 - click passes it by name
) -> None:
    """Replay a recorded session and compare what its requests would have cost.

    The events of FILE are sent again under each pipeline. `none` sends everything, `sliding` keeps
    the newest messages that fit the budget, `paging` cuts rarely and drops what is large and read.

    Tokens are a quarter of the characters. A token that an earlier request began with costs 0.1 of
    the input price, any other 1.25.
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
            tick=lambda: progress.advance(task),
        )
    if as_json:
        click.echo(json.dumps(_object(file, decoded, total, comparison)))
    else:
        _show(file, decoded, total, comparison)


def _object(file: str, decoded: Decoded, total: int, comparison: Comparison) -> dict[str, Any]:
    return {
        "file": file,
        "format": decoded.format,
        "messages": total,
        "repairs": [asdict(repair) for repair in decoded.repairs],
        "budget": comparison.budget,
        "runs": rows(comparison),
    }


def _show(file: str, decoded: Decoded, total: int, comparison: Comparison) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    said = f"{file}: {decoded.format}, {total} messages, budget {comparison.budget:,} tokens"
    codes = Counter(repair.code for repair in decoded.repairs)
    if codes:
        kinds = ", ".join(f"{code} {count}" for code, count in sorted(codes.items()))
        said += f"; {sum(codes.values())} repairs: {kinds}"
    console.print(Text(printable(said)), soft_wrap=True)
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("pipeline", overflow="fold")
    for name in (*TOKENS, *FAULTS):
        table.add_column(name, justify="right", overflow="fold")
    for row in rows(comparison):
        cached = row["cached_tokens"] / row["input_tokens"] if row["input_tokens"] else 0
        ratio = row["cost_vs_none"]
        table.add_row(
            row["pipeline"],
            f"{row['requests']:,}",
            f"{row['mean_request_tokens']:,}",
            f"{row['max_request_tokens']:,}",
            f"{cached:.1%}",
            f"{row['cost']:,}",
            "" if ratio is None else f"{ratio:.2f}",
            f"{row['over_budget']:,}",
            f"{row['invalid_requests']:,}",
            f"{row['silent_breaks']:,}",
            f"{len(row['breaks']):,}",
        )
    console.print(table)
    console.print(Text(verdict(comparison)), soft_wrap=True)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the commands; bad input gives one line on stderr and the exit code 2."""
    try:
        code = commands.main(arguments, prog_name="ctxalgebra", standalone_mode=False)
    except click.ClickException as error:
        place = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else ""
        return _fail(
            f"invalid-argument: {error.format_message()}" + f" (see {place} --help)" * bool(place)
        )
    except CtxError as error:
        return _fail(str(error))
    except click.Abort:
        return 130
    return code if isinstance(code, int) else 0


def _fail(text: str) -> int:
    click.echo(f"error: {printable(text)}", err=True)
    return 2
