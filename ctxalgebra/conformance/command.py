"""The commands `conformance serve` and `conformance run`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO, cast

import click

from ctxalgebra.conformance import door
from ctxalgebra.conformance.port import Driven
from ctxalgebra.conformance.report import area_of, as_junit, as_object, bad, count
from ctxalgebra.conformance.runner import STATES, Outcome
from ctxalgebra.conformance.runner import run as asked
from ctxalgebra.conformance.vectors import Vector, load
from ctxalgebra.conformance.wire import LIMIT, read
from ctxalgebra.errors import CtxError, DecodeError, InvalidArgument
from ctxalgebra.terminal import aligned, say

__all__ = ["conformance"]

SHOWN = 20
"""So many of the vectors that must not be are listed, unless all are asked for."""

_PORT = "ctxalgebra.port"


@click.group()
def conformance() -> None:
    """Answer at the conformance door, or ask others at theirs."""


@conformance.command()
def serve() -> None:
    """Answer requests on the standard input, one JSON object a line, until it ends."""
    source, target = cast("TextIO | None", sys.stdin), sys.stdout
    if source is None:
        return
    try:
        door.serve(source.buffer, target.buffer)
    except BrokenPipeError:  # whoever asked is gone
        with suppress(OSError):
            target.close()


class _WithPort(click.Command):
    """Keeps what stands behind `--` for the port."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_PORT] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def _positive(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    if not 0 < value <= 86_400:
        raise click.BadParameter("expected seconds, above 0 and up to a day.")
    return value


@conformance.command(cls=_WithPort, options_metavar="[OPTIONS]")
@click.argument("paths", nargs=-1, required=True, metavar="FILES... [-- COMMAND...]")
@click.option("--only", multiple=True, metavar="NAME", help="Only operations that begin so.")
@click.option(
    "--timeout",
    type=float,
    default=10,
    show_default=True,
    callback=_positive,
    help="Seconds that a port may take for an answer.",
)
@click.option(
    "--reasons",
    metavar="FILE",
    help="A JSON object: by id, why a vector need not be matched.",
)
@click.option("--all", "every", is_flag=True, help="List each vector that did not pass.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
@click.option("--junit", metavar="FILE", help="Write a report as JUnit XML, too.")
@click.pass_context
def run(
    context: click.Context,
    *,
    paths: tuple[str, ...],
    only: tuple[str, ...],
    timeout: float,
    reasons: str | None,
    every: bool,
    as_json: bool,
    junit: str | None,
) -> int:
    """Ask what the vectors in FILES ask, and compare the answers.

    FILES are files of vectors, and folders of such (*.jsonl). COMMAND is a port, which answers
    on its standard output; without one, the library itself is asked.

    Ends with 1 when an answer fails or a port breaks down.
    """
    command = cast("Sequence[str] | None", context.meta.get(_PORT))
    try:
        name, outcomes = _outcomes(command, paths, only, timeout, _reasons(reasons))
    except CtxError as error:
        # A CI server shows what it finds, so that no report of an earlier run may stand there.
        _report(junit, "none", [Outcome("begin", "conformance.run", "broken", str(error))])
        raise
    _report(junit, name, outcomes)
    if as_json:
        click.echo(json.dumps(as_object(name, outcomes)))
    else:
        _show(name, outcomes, every=every)
    return 1 if bad(outcomes) else 0


def _outcomes(
    command: Sequence[str] | None,
    paths: tuple[str, ...],
    only: tuple[str, ...],
    timeout: float,
    known: dict[str, str],
) -> tuple[str, list[Outcome]]:
    vectors = (v for v in load(paths) if not only or v.operation.startswith(only))
    if command is None:
        name, outcomes = "ctxalgebra", list(asked(vectors, door.result, reasons=known))
    else:
        name, outcomes = _drive(command, vectors, timeout, known)
    if not outcomes:
        raise InvalidArgument("invalid-argument", "no vector of such an operation", field="--only")
    return name, outcomes


def _report(junit: str | None, name: str, outcomes: Sequence[Outcome]) -> None:
    if junit is not None:
        try:
            Path(junit).write_bytes(as_junit(name, outcomes))
        except (OSError, ValueError) as error:
            raise InvalidArgument("unwritable", str(error), field="--junit") from None


def _drive(
    command: Sequence[str], vectors: Iterable[Vector], timeout: float, known: dict[str, str]
) -> tuple[str, list[Outcome]]:
    if not command:
        raise InvalidArgument("invalid-argument", "no command behind --", field="command")
    port = Driven(command, timeout=timeout)
    try:
        return port.name, list(asked(vectors, port, reasons=known))
    finally:
        port.close()


def _reasons(file: str | None) -> dict[str, str]:
    if file is None:
        return {}
    try:
        with Path(file).open("rb") as source:
            value = read(source.read(LIMIT + 1))
    except DecodeError as error:
        raise DecodeError(error.code, error.message, file=file) from None
    except (OSError, ValueError) as error:
        raise DecodeError("unreadable", str(error), file=file) from None
    if not isinstance(value, dict):
        raise DecodeError("wrong-type", "expected an object", file=file)
    told = cast("dict[str, object]", value)
    for name, why in told.items():
        if not isinstance(why, str):
            raise DecodeError("wrong-type", "expected a text", file=file, field=name)
    return cast("dict[str, str]", told)


def _show(name: str, outcomes: list[Outcome], *, every: bool) -> None:
    say(f"{name}: {len(outcomes):,} vectors")
    say()
    areas = list(dict.fromkeys(area_of(outcome.operation) for outcome in outcomes))
    table = [
        [
            area,
            *(
                f"{n:,}"
                for n in count(o for o in outcomes if area_of(o.operation) == area).values()
            ),
        ]
        for area in areas
    ]
    aligned(["area", *STATES], table)
    listed = [o for o in outcomes if o.state != "passed"] if every else bad(outcomes)
    shown = listed if every else listed[:SHOWN]
    if shown:
        say()
    for outcome in shown:
        place = f"{outcome.file}:{outcome.line}"
        say(f"{outcome.state}: {outcome.id} {outcome.operation} ({place}): {outcome.why}")
    if len(shown) < len(listed):
        say(f"... and {len(listed) - len(shown):,} more; --all lists them")
