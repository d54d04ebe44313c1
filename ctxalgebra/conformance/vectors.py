"""Vectors: lines that say what an operation gives for an input.

A line is `{"id","operation","input","output"}` or `{"id","operation","input","error":{"code"}}`,
with `flags` where matching it is not asked: `fault:...` shows a fault of the original, `js:...` a
habit of its language. UTF-8, split at LF only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from attrs import frozen

from ctxalgebra.conformance.wire import LIMIT, difference, read
from ctxalgebra.errors import DecodeError

__all__ = ["Vector", "judge", "load"]


@frozen
class Vector:
    """Hold one line.

    Args:
        id: unlike all others.
        operation: `<area>.<name>`.
        input: with its shorthands expanded.
        error: the code that is expected instead of an output; empty for none.
        output: what is expected.
        flags: why it need not be matched.
        file, line: where it stands.
    """

    id: str
    operation: str
    input: Any
    error: str = ""
    output: Any = None
    flags: tuple[str, ...] = ()
    file: str = ""
    line: int = 0


def _vector(value: Any, file: str, line: int) -> Vector:
    def refuse(code: str, field: str | None) -> DecodeError:
        return DecodeError(code, file=file, line=line, field=field)

    if not isinstance(value, dict):
        raise refuse("wrong-type", None)
    members = cast("dict[str, Any]", value)
    for name in ("id", "operation", "input"):
        if name not in members:
            raise refuse("missing-field", name)
    name, operation = members["id"], members["operation"]
    for field, text in (("id", name), ("operation", operation)):
        if not isinstance(text, str) or not text:
            raise refuse("wrong-type", field)
    if ("output" in members) == ("error" in members):
        raise refuse("extra-field" if "output" in members else "missing-field", "output")
    code = ""
    if "error" in members:
        match members["error"]:
            case {"code": str(code)} if code:
                pass
            case _:
                raise refuse("wrong-type", "error")
    match members.get("flags", []):
        case [*flags] if all(isinstance(flag, str) for flag in flags):
            told = tuple(cast("list[str]", flags))
        case _:
            raise refuse("wrong-type", "flags")
    return Vector(name, operation, members["input"], code, members.get("output"), told, file, line)


def _files(paths: Sequence[str | Path]) -> Iterator[Path]:
    for given in map(Path, paths):
        if not given.is_dir():
            yield given
            continue
        found = sorted(given.rglob("*.jsonl"))
        if not found:
            raise DecodeError("empty-file", "no *.jsonl in this folder", file=str(given))
        yield from found


def load(paths: Sequence[str | Path], *, limit: int = LIMIT) -> Iterator[Vector]:
    """Read vectors one by one; a file is never held as a whole.

    Args:
        paths: files, and folders of which each `*.jsonl` is read, in the order of the names.
        limit: the longest line in bytes.

    Raises:
        DecodeError: `unreadable`, `empty-file`, `duplicate-id`, `missing-field`, `extra-field`,
            `wrong-type`, or a code of `wire.read`; with file and line.
    """
    known: set[str] = set()
    for path in _files(paths):
        file, number = str(path), 0
        try:
            with path.open("rb") as source:
                while line := source.readline(limit + 1):
                    number += 1
                    vector = _read(line, file, number, limit)
                    if vector.id in known:
                        raise DecodeError(
                            "duplicate-id", f"the id {vector.id!r}", file=file, line=number
                        )
                    known.add(vector.id)
                    yield vector
        except (OSError, ValueError) as error:
            if isinstance(error, DecodeError):
                raise
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise DecodeError("unreadable", why, file=file) from None
        if not number:
            raise DecodeError("empty-file", file=file)


def _read(line: bytes, file: str, number: int, limit: int) -> Vector:
    try:
        value = read(line, limit=limit, shorthand=True)
    except DecodeError as error:
        raise DecodeError(
            error.code, error.message, file=file, line=number, field=error.field
        ) from None
    return _vector(value, file, number)


def judge(vector: Vector, given: dict[str, Any]) -> str:
    """Say how an answer differs from what is expected; empty when it doesn't.

    Errors are compared by their code.

    >>> judge(Vector("a", "kernel.pays", {}, output=True), {"output": False})
    '$: expected true, got false'
    """
    code: Any = None
    if "error" in given:
        match given["error"]:
            case {"code": str(code)}:
                pass
            case _:
                code = "without a code"
    if vector.error:
        if code == vector.error:
            return ""
        what = "an output" if code is None else f"the error {code}"
        return f"expected the error {vector.error}, got {what}"
    return difference(vector.output, given["output"]) if code is None else f"got the error {code}"
