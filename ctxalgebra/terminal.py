"""What the commands of the command line share: how they run, fail, and print. Needs click and rich.

What comes from a file or from the arguments is printed as plain text: nothing reads markup in it,
and what a terminal would obey or could not show is escaped.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TextIO, cast

import click
from rich.cells import cell_len

from ctxalgebra.errors import CtxError, InvalidArgument, escaped

__all__ = ["aligned", "counted", "printable", "repaired", "run", "say", "told"]

PROSE = 100
"""The widest that sentences are set, in columns."""

UNLIMITED = 1_000_000
"""The width of an output that is no terminal, unless `COLUMNS` says otherwise."""


def printable(text: str) -> str:
    r"""Escape what a terminal would obey or could not show.

    >>> printable("a\x1b[31mb\u202e")
    'a\\x1b[31mb\\u202e'
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return escaped(text.encode(encoding, "backslashreplace").decode(encoding))


def counted(number: int, one: str, more: str = "") -> str:
    """Say how many there are of something, in digits.

    >>> counted(1, "repair"), counted(2000, "loss", "losses")
    ('1 repair', '2,000 losses')
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def repaired(codes: Iterable[str]) -> str:
    """Say how often a file was repaired and why, by the code of each repair; empty for none.

    >>> repaired(["invalid-json", "line-too-long", "invalid-json"])
    '; 3 repairs: invalid-json 2, line-too-long 1'
    """
    found = Counter(codes)
    kinds = ", ".join(f"{code} {count:,}" for code, count in sorted(found.items()))
    return f"; {counted(found.total(), 'repair')}: {kinds}" if found else ""


def say(text: str = "") -> None:
    """Print one line, escaped."""
    click.echo(printable(text))


def _width() -> int:
    return shutil.get_terminal_size((UNLIMITED, 0)).columns


def told(sentences: str) -> None:
    """Print prose, wrapped to the width of the terminal."""
    for line in textwrap.wrap(printable(" ".join(sentences.split())), min(PROSE, _width())):
        click.echo(line)


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str] = ()
) -> None:
    """Print a table; where the terminal is too narrow for it, one block of lines for each row.

    Args:
        header: names of the columns; the first one tells the rows apart.
        rows: cells, as many as there are names.
        left: names of the columns that are set to the left besides the first; the others are
            numbers.
    """
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    if sum(widths) + 2 * (len(widths) - 1) > _width():
        _blocks(cells)
        return
    lefts = {header[0], *left}
    for place, row in enumerate(cells):
        if place == 1:
            click.echo("  ".join("-" * width for width in widths))
        padded = (
            f"{cell}{_space(cell, width)}" if name in lefts else f"{_space(cell, width)}{cell}"
            for name, cell, width in zip(header, row, widths, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


def _space(cell: str, width: int) -> str:
    return " " * (width - cell_len(cell))


def _blocks(cells: Sequence[Sequence[str]]) -> None:
    names, *rows = cells
    longest = max(map(cell_len, names[1:]))
    for first, *rest in rows:
        click.echo(first)
        for name, cell in zip(names[1:], rest, strict=True):
            click.echo(f"  {name}{_space(name, longest)}  {cell}".rstrip())


def run(commands: Sequence[click.Command], version: str, arguments: Sequence[str] | None) -> int:
    """Run one of the commands.

    Returns:
        The exit code: 0; 2 for bad input and 1 for an output that takes nothing, each with one line
        on stderr; 130 when interrupted. Without arguments the help goes to stderr, and it is 2.
    """
    if cast("TextIO | None", sys.stdout) is None:
        return _fail(InvalidArgument("unwritable", "the standard output is closed"), 1)
    try:
        code = _group(commands, version).main(
            arguments, prog_name="ctxalgebra", standalone_mode=False
        )
    except click.ClickException as error:
        place = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else ""
        text = error.format_message() + f" (see {place} --help)" * bool(place)
        return _fail(InvalidArgument("invalid-argument", text), 2)
    except CtxError as error:
        return _fail(error, 2)
    except click.Abort:
        return 130
    except OSError as error:  # what files say comes as a `CtxError`
        _give_up(sys.stdout)
        return _fail(InvalidArgument("unwritable", error.strerror or str(error)), 1)
    return code if isinstance(code, int) else 0


def _group(commands: Sequence[click.Command], version: str) -> click.Group:
    @click.group(
        context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True
    )
    @click.version_option(version, prog_name="ctxalgebra")
    @click.pass_context
    def group(context: click.Context) -> None:
        """What an LLM agent sends to its model, as a projection of a journal."""
        if context.invoked_subcommand is None:
            click.echo(context.get_help(), err=True)
            context.exit(2)

    for command in commands:
        group.add_command(command)
    return group


def _fail(error: CtxError, code: int) -> int:
    try:
        click.echo(f"error: {printable(str(error))}", err=True)
    except OSError:
        _give_up(sys.stderr)
    return code


def _give_up(stream: TextIO) -> None:
    """Close a stream that takes nothing, or the interpreter would try once more when it ends."""
    with suppress(OSError):
        stream.close()
