"""Keep a session in a file: what it gains is appended, whole or not at all.

Theory of operation
-------------------
A store holds its file under a lock from `open_store` to `close`. It knows the session that stands
in the file, and writes what a grown one has more, with one write behind the last byte. So:

* a process that is killed leaves a *torn* last line at most: `open_store` sets the bytes behind the
  last whole line aside, in `FILE.torn`, says so in `Store.torn`, and goes on from there;
* a write that fails (a full disk) is taken back; file and store stay as they were;
* a file is created under another name and then put in place, so that it is there whole or not;
* what is in the file is decoded, gate and all: an illegal journal is an error, and isn't touched;
* whoever else writes to the file is noticed before the next write.

A process that is killed loses nothing that `append` has returned from. Where power may fail, ask
for `sync`, which waits until the disk has it.

Formats other than the journal are stored, too, where recording only adds lines to what their codec
writes (pi, Claude Code, Codex). They have no place for everything, and each append costs writing
the whole. Needs filelock (the extra `store`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import final

from ctxalgebra.codecs import CODECS, Decoded, journal
from ctxalgebra.codecs.lines import parse
from ctxalgebra.errors import DecodeError, InvalidArgument, StoreError
from ctxalgebra.model.session import Session, check_session

__all__ = ["Store", "open_store", "whole"]


def whole(data: bytes) -> int:
    r"""Tell how many bytes of JSON Lines are whole: all, or those in front of a torn last line.

    A last line without its LF is whole when it is JSON by itself, since no part of an object is.

    >>> whole(b'{"a":1}\n{"b":2}'), whole(b'{"a":1}\n{"b":')
    (15, 8)
    """
    end = data.rfind(b"\n") + 1
    try:
        value = parse(data[end:].decode(), limit=len(data))
    except (DecodeError, UnicodeDecodeError):
        return end
    return len(data) if isinstance(value, dict) else end


@final
class Store:
    """Append what a session gains to its file; made by `open_store`, closed by `with`.

    Attributes:
        path: of the file.
        session: what the file holds. Grow this one.
        repairs: what its codec repaired when it was opened.
        torn: the bytes of a torn last line that were set aside; empty as a rule.
    """

    def __init__(
        self, path: Path, format: str, decoded: Decoded, torn: bytes, release: Callable[[], object]
    ) -> None:
        self.path = path
        self.session = decoded.session
        self.repairs = decoded.repairs
        self.torn = torn
        self._format = format
        self._release = release
        self._file = os.open(path, os.O_RDWR | os.O_APPEND)
        self._size = os.fstat(self._file).st_size

    def __enter__(self) -> Store:
        """Give the store."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def append(self, session: Session, *, sync: bool = False) -> int:
        """Write what the session has more than the file, and where its leaf is.

        Args:
            session: grown from `self.session`, on any branch.
            sync: wait until the disk has it.

        Returns:
            How many bytes were written.

        Raises:
            StoreError: `store-closed`; `not-grown`, the session was not grown from the one in the
                file; `changed-file`, somebody else wrote to the file, or the format would have to
                change lines that are written; `unwritable`, the disk refused, and nothing was
                written.
            InvalidArgument: `wrong-type`; `invalid-number`, an integer of more than 4,300 digits.
        """
        check_session(session)
        self._check_open()
        self._check_grown(session)
        data = self._gained(session)
        if os.fstat(self._file).st_size != self._size:
            raise StoreError("changed-file", file=str(self.path))
        try:
            _write(self._file, data)
            if sync:
                os.fsync(self._file)
        except BaseException as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            if isinstance(error, OSError):
                raise _unwritable(error, self.path) from None
            raise
        self._size += len(data)
        self.session = session
        return len(data)

    def sync(self) -> None:
        """Wait until the disk has what was appended.

        Raises:
            StoreError: `store-closed`, `unwritable`.
        """
        self._check_open()
        try:
            os.fsync(self._file)
        except OSError as error:
            raise _unwritable(error, self.path) from None

    def close(self) -> None:
        """Close the file and let the lock go; closing again does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._release()

    def _check_open(self) -> None:
        if self._file < 0:
            raise StoreError("store-closed", file=str(self.path))

    def _check_grown(self, session: Session) -> None:
        """Refuse a session whose first entries are not the very ones in the file."""
        node, last = session.last, self.session.last
        while last is not None and node is not None and node.number > last.number:
            node = node.previous
        if last is not None and node is not last:
            raise StoreError("not-grown", entry=last.number, file=str(self.path))

    def _gained(self, session: Session) -> bytes:
        if self._format == journal.NAME:
            return journal.encode_since(session, self.session)
        encode = CODECS[self._format].encode
        before = encode(self.session) if len(self.session) else b""
        now = encode(session)
        if not now.startswith(before):
            text = f"{self._format} would have to change lines that are written"
            raise StoreError("changed-file", text, file=str(self.path))
        return now[len(before) :]


def open_store(path: str | Path, *, format: str = journal.NAME) -> Store:
    """Open the file of a session to append to it, or create it.

    Args:
        path: of the file; `PATH.lock` is its lock, a torn last line goes behind `PATH.torn`.
        format: a key of `CODECS` whose files are JSON Lines.

    Returns:
        The store; its `session` is what the file holds. What was open when the process before
        ended is open in it: a request in flight is closed by `reply(session, "lost")`, calls
        without results by `abandon`.

    Raises:
        StoreError: `locked`, another process or store has it open; `unwritable`.
        DecodeError: `unreadable`, or as the codec says; the file is not touched.
        InvalidArgument: `invalid-argument`, no such format; `missing-extra`, filelock is missing.

    >>> import tempfile
    >>> from ctxalgebra import record, user
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with open_store(f"{place}/session.jsonl") as store:
    ...         written = store.append(record(store.session, user("hi")))
    ...     with open_store(f"{place}/session.jsonl") as store:
    ...         print(written, store.session)
    71 <Session: 1 entries, 1 shown>
    """
    if format not in CODECS:
        raise InvalidArgument("invalid-argument", f"no format {format!r}", field="format")
    try:
        import filelock
    except ImportError:
        raise InvalidArgument(
            "missing-extra", "a store needs filelock: install ctxalgebra[store]"
        ) from None
    path = Path(path)
    lock = filelock.FileLock(f"{path}.lock", timeout=0, is_singleton=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise StoreError("locked", file=str(path)) from None
    except OSError as error:
        raise _unwritable(error, path) from None
    try:
        return _open(path, format, lock.release)
    except BaseException:
        lock.release()
        raise


def _open(path: Path, format: str, release: Callable[[], object]) -> Store:
    start = journal.HEADER if format == journal.NAME else b""
    try:
        if not path.exists():
            _create(path, start)
        data = path.read_bytes()
    except OSError as error:
        raise DecodeError("unreadable", error.strerror or "", file=str(path)) from None
    end = whole(data)
    decoded = Decoded(Session(), (), format)
    if end:
        decoded = CODECS[format].decode(data[:end], file=str(path))
    try:
        if data[end:]:
            with Path(f"{path}.torn").open("ab") as aside:
                aside.write(data[end:] + b"\n")
                aside.flush()
                os.fsync(aside.fileno())
            os.truncate(path, end)
        # What lacks its first line or its last LF gets it.
        missing = start if not end else b"\n" if start and data[end - 1 : end] != b"\n" else b""
        if missing:
            with path.open("ab") as file:
                file.write(missing)
        return Store(path, format, decoded, data[end:], release)
    except OSError as error:
        raise _unwritable(error, path) from None


def _create(path: Path, start: bytes) -> None:
    """Let the file be there with its first line, or not at all."""
    new = Path(f"{path}.new")
    with new.open("wb") as file:
        file.write(start)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    # The name is on the disk when the directory is; not every system lets one ask for that.
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _unwritable(error: OSError, path: Path) -> StoreError:
    return StoreError("unwritable", error.strerror or str(error), file=str(path))
