"""The files that the pi host names behind a summary (its format, section 7).

What calls of `read`, `write` and `edit` name as their path, and what earlier summaries of the host
say of it. A summary that an extension wrote is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from ctxalgebra.compat.host_conversation import blocks_of
from ctxalgebra.compat.host_entries import Entry
from ctxalgebra.utf16 import units

__all__ = ["FileLists", "FileOps", "file_lists", "file_ops", "named_before"]

_KINDS = {"read": "read", "write": "written", "edit": "edited"}


class FileOps(NamedTuple):
    """Hold the paths that were read, written and edited, each once, in the order they came."""

    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()


class FileLists(NamedTuple):
    """Hold the paths that were only read, those that were modified, and both as a text."""

    read: tuple[str, ...]
    modified: tuple[str, ...]
    text: str


def named_before(entry: Entry) -> Iterator[tuple[str, str]]:
    """Give what the details of a summary of the host name: kinds of `FileOps`, and paths.

    >>> list(named_before({"details": {"readFiles": ["a"], "modifiedFiles": ["b"]}}))
    [('read', 'a'), ('edited', 'b')]
    """
    details = entry.get("details")
    if entry.get("fromHook") or not isinstance(details, dict):
        return
    known = cast("dict[str, Any]", details)
    for name, kind in (("readFiles", "read"), ("modifiedFiles", "edited")):
        paths = known.get(name)
        for path in cast("list[object]", paths) if isinstance(paths, list) else ():
            if isinstance(path, str):
                yield kind, path


def _called(message: Entry) -> Iterator[tuple[str, str]]:
    if message.get("role") != "assistant":
        return
    for block in blocks_of(message, "toolCall"):
        name, arguments = block.get("name"), block.get("arguments")
        kind = _KINDS.get(name) if isinstance(name, str) else None
        if kind and isinstance(arguments, dict):
            path = cast("dict[str, Any]", arguments).get("path")
            if isinstance(path, str) and path:
                yield kind, path


def file_ops(messages: Iterable[Entry], before: Iterable[tuple[str, str]] = ()) -> FileOps:
    """Collect the files that calls in messages name.

    Args:
        messages: of the host; those of the model are looked at.
        before: what is known already, see `named_before`.

    >>> call = {"type": "toolCall", "name": "read", "arguments": {"path": "a"}}
    >>> file_ops([{"role": "assistant", "content": [call]}])
    FileOps(read=('a',), written=(), edited=())
    """
    found: dict[str, dict[str, None]] = {"read": {}, "written": {}, "edited": {}}
    for kind, path in before:
        found[kind][path] = None
    for message in messages:
        for kind, path in _called(message):
            found[kind][path] = None
    return FileOps(*map(tuple, found.values()))


def file_lists(ops: FileOps) -> FileLists:
    r"""Sort files into those that were only read and those that were modified.

    They are in the order of their UTF-16 units, one on a line; an empty list is left out.

    >>> file_lists(FileOps(read=("b", "a"), edited=("a",))).text
    '\n\n<read-files>\nb\n</read-files>\n\n<modified-files>\na\n</modified-files>'
    """
    changed = {*ops.written, *ops.edited}
    modified = tuple(sorted(changed, key=units))
    read = tuple(sorted({*ops.read} - changed, key=units))
    text = ""
    for name, paths in (("read-files", read), ("modified-files", modified)):
        if paths:
            lines = "\n".join(paths)
            text += f"\n\n<{name}>\n{lines}\n</{name}>"
    return FileLists(read, modified, text)
