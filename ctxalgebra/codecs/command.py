"""The command `convert`: a file in one format in, a file in another out, and what is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click
from attrs import asdict

from ctxalgebra.codecs import CODECS, Decoded, load
from ctxalgebra.codecs.convert import Conversion
from ctxalgebra.codecs.convert import convert as converted
from ctxalgebra.codecs.intake import in_file
from ctxalgebra.codecs.losses import Loss
from ctxalgebra.errors import DecodeError, InvalidArgument
from ctxalgebra.terminal import aligned, counted, repaired, say, told

__all__ = ["convert", "format_option", "write_file"]

_TRIES = 100
"""So many names are tried for a temporary file."""


Command = TypeVar("Command", bound=Callable[..., object])


def format_option(name: str, of: str) -> Callable[[Command], Command]:
    """Make the option that names a format, or leaves it to the first lines of the file."""
    return click.option(
        name,
        "form",
        default="auto",
        show_default=True,
        type=click.Choice(("auto", *CODECS)),
        help=f"Format of {of}.",
    )


@click.command()
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@format_option("--from", "IN")
@click.option(
    "--to",
    default="journal",
    show_default=True,
    type=click.Choice(tuple(CODECS)),
    help="Format of OUT.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with each loss.")
def convert(
    *,
    source: str,
    target: str,
    form: str,
    to: str,
    as_json: bool,
) -> None:
    """Convert a recorded session to another format, and list what that can't hold.

    IN stays as it is. OUT is replaced as a whole, or not at all; it is a file, so `-` is refused.
    """
    if target == "-":
        text = "OUT is a file, not the standard output; a file of this name is ./-"
        raise InvalidArgument("invalid-argument", text, field="OUT")
    decoded = load(source, format=form)
    try:
        conversion = converted(decoded.session, to)
    except DecodeError as error:
        raise in_file(error, source) from None
    write_file(Path(target), conversion.data, beside=Path(source))
    if as_json:
        click.echo(json.dumps(_object(source, target, to, decoded, conversion)))
    else:
        _show(source, target, to, decoded, conversion)


def write_file(path: Path, data: bytes, *, beside: Path) -> None:
    """Replace a file as a whole: what is there stays until everything is written.

    Args:
        path: of the file; a link is followed.
        data: what it holds then.
        beside: a file that may not be replaced, and whose permissions a new file doesn't exceed.

    Raises:
        InvalidArgument: `invalid-argument`, both are one file; `unwritable`.
    """
    try:
        path = path.resolve()
        mode = beside.stat().st_mode
        if path.exists():
            if path.samefile(beside):
                raise InvalidArgument(
                    "invalid-argument", "IN and OUT are the same file", file=str(path)
                )
            if not path.is_file():
                raise InvalidArgument("unwritable", "not a plain file", file=str(path))
            mode = path.stat().st_mode
        _replace(path, data, mode)
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidArgument("unwritable", why, file=str(path)) from None


def _opened(path: Path) -> tuple[Path, BinaryIO]:
    """Make a new file in the same folder."""
    for number in range(_TRIES):
        part = path.with_name(f".ctxalgebra-{number}.part")
        try:
            return part, part.open("xb")
        except FileExistsError:
            # Another conversion's, or what one left behind that was killed.
            continue
    raise InvalidArgument(
        "unwritable", "the folder is full of .ctxalgebra-*.part files", file=str(path)
    )


def _replace(path: Path, data: bytes, mode: int) -> None:
    part, file = _opened(path)
    try:
        with file:
            file.write(data)
        part.chmod(mode if path.exists() else part.stat().st_mode & mode)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _object(
    source: str, target: str, to: str, decoded: Decoded, conversion: Conversion
) -> dict[str, Any]:
    return {
        "in": source,
        "out": target,
        "from": decoded.format,
        "to": to,
        "bytes": len(conversion.data),
        "repairs": [asdict(repair) for repair in decoded.repairs],
        "losses": [asdict(loss) for loss in conversion.losses],
    }


def _show(source: str, target: str, to: str, decoded: Decoded, conversion: Conversion) -> None:
    losses = conversion.losses
    say(
        f"{source}: {decoded.format}{repaired(repair.code for repair in decoded.repairs)}; "
        f"{target}: {to}, {counted(len(conversion.data), 'byte')}, "
        f"{counted(len(losses), 'loss', 'losses')}"
    )
    if losses:
        say()
        aligned(
            ("lost", "kind", "times", "first entry", "reason"),
            _rows(losses),
            left=("kind", "reason"),
        )
        say()
        told("Entries are counted from 0 in the order of recording, as in a journal.")


def _rows(losses: Sequence[Loss]) -> list[tuple[str, ...]]:
    found: dict[tuple[str, str], list[Loss]] = {}
    for loss in losses:
        found.setdefault((loss.code, loss.kind), []).append(loss)
    return [
        (code, kind, f"{len(group):,}", f"{group[0].place:,}", group[0].reason)
        for (code, kind), group in sorted(found.items())
    ]
