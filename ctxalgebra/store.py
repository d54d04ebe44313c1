"""Keep a session in a file: what it gains is appended, whole or not at all.

Theory of operation
-------------------
A store holds its file under a lock from `open_store` to `close`. It knows the session that stands
in the file, and writes what a grown one has more, with one write behind the last byte. So:

* a process that is killed leaves a *torn* last line at most: `open_store` sets the bytes behind the
  last whole line aside, in `FILE.torn`, says so in `Store.torn`, and goes on from there; where no
  line is whole, only the beginning of what the format's codec writes is torn, and not any bytes;
* a write that fails (a full disk) is taken back; file and store stay as they were;
* a file is created under another name and then put in place, so that it is there whole or not;
* what is in the file is decoded, gate and all: an illegal journal is an error, and isn't touched;
* whoever else lengthens, shortens, replaces or removes the file is noticed before the next write;
* what is no plain file (a pipe, a device, a directory) is refused before anything is created.

A process that is killed loses nothing that `append` has returned from. Where power may fail, ask
for `sync`, which waits until the disk has it.

Formats other than the journal are stored, too, where recording only adds lines to what their codec
writes (pi, Claude Code, Codex). They have no place for everything, and each append costs writing
the whole. Needs filelock (the extra `store`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import final

from ctxalgebra.codecs import CODECS, Decoded, journal
from ctxalgebra.codecs.lines import parse
from ctxalgebra.errors import DecodeError, InvalidArgument, StoreError
from ctxalgebra.model.checks import check_text, check_type, mistyped
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import assistant, user
from ctxalgebra.model.session import Session, check_session

__all__ = ["Store", "open_store", "whole"]

# A pipe or a device at a place that was looked at a moment ago holds up nothing, and a link that
# was put there leads nowhere.
_GUARDED = sum(getattr(os, name, 0) for name in ("O_BINARY", "O_NONBLOCK", "O_NOFOLLOW"))


def whole(data: bytes) -> int:
    r"""Tell how many bytes of JSON Lines are whole: all, or those in front of a torn last line.

    A last line without its LF is whole when it is JSON by itself, since no part of an object is.

    Raises:
        InvalidArgument: `wrong-type`, these are no bytes.

    >>> whole(b'{"a":1}\n{"b":2}'), whole(b'{"a":1}\n{"b":')
    (15, 8)
    """
    check_type(data, bytes, "data")
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
        path: of the file, absolute.
        session: what the file holds. Grow this one.
        repairs: what its codec repaired when it was opened.
        torn: the bytes of a torn last line that were set aside; empty as a rule.
    """

    def __init__(
        self,
        path: Path,
        format: str,
        decoded: Decoded,
        torn: bytes,
        file: int,
        release: Callable[[], object],
    ) -> None:
        self.path = path
        self.session = decoded.session
        self.repairs = decoded.repairs
        self.torn = torn
        self._format = format
        self._release = release
        self._file = file
        self._size = os.fstat(file).st_size

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
                file; `changed-file`, somebody else wrote to the file, replaced or removed it, or
                the format would have to change lines that are written; `unwritable`, the disk
                refused, and nothing was written.
            InvalidArgument: `wrong-type`; `invalid-number`, an integer of more than 4,300 digits.
        """
        check_session(session)
        self._check_open()
        self._check_grown(session)
        data = self._gained(session)
        self._check_unchanged()
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

    def read(self) -> Session:
        """Read the file anew, with what others wrote to it, and go on from that.

        The session that comes back is `self.session`: the very one that it was where the file holds
        an equal one. Behind a torn last line the store can't go on; open it again.

        Raises:
            StoreError: `store-closed`, `unwritable`.
            DecodeError: as the codec says.
        """
        self._check_open()
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise _unwritable(error, self.path) from None
        end = whole(data)
        there = CODECS[self._format].decode(data[:end], file=str(self.path)).session
        if there != self.session:
            self.session = there
        if data[end - 1 : end] == b"\n" and end == len(data):
            self._size = end
        return self.session

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

    def _check_unchanged(self) -> None:
        """Refuse to write where the path leads to another file by now, or to another length."""
        try:
            there, here = self.path.stat(), os.fstat(self._file)
        except OSError as error:
            text = f"the file is gone: {error.strerror}"
            raise StoreError("changed-file", text, file=str(self.path)) from None
        if not os.path.samestat(there, here):
            text = "another file stands in its place"
            raise StoreError("changed-file", text, file=str(self.path))
        if here.st_size != self._size:
            raise StoreError("changed-file", file=str(self.path))

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
        path: of the file, in a directory that exists; a link is followed. Beside the file,
            `FILE.lock` is its lock, and a torn last line goes behind `FILE.torn`.
        format: a key of `CODECS` whose files are JSON Lines.

    Returns:
        The store; its `session` is what the file holds. What was open when the process before
        ended is open in it: a request in flight is closed by `reply(session, "lost")`, calls
        without results by `abandon`.

    Raises:
        StoreError: `locked`, another process or store has it open; `unwritable`, as when there is
            no such directory.
        DecodeError: `unreadable`, as when it is no plain file, or as the codec says, also of a
            single line that no store began; the file is not touched.
        InvalidArgument: `invalid-argument`, no such format, or NUL in the path; `wrong-type`;
            `lone-surrogate`; `missing-extra`, filelock is missing.

    >>> import tempfile
    >>> from ctxalgebra import record, user
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with open_store(f"{place}/session.jsonl") as store:
    ...         written = store.append(record(store.session, user("hi")))
    ...     with open_store(f"{place}/session.jsonl") as store:
    ...         print(written, store.session)
    71 <Session: 1 entries, 1 shown>
    """
    check_text(format, "format")
    if format not in CODECS:
        raise InvalidArgument("invalid-argument", f"no format {format!r}", field="format")
    path = _path(path)
    try:
        import filelock
    except ImportError:
        raise InvalidArgument(
            "missing-extra", "a store needs filelock: install ctxalgebra[store]"
        ) from None
    # One file has one lock, whatever links lead to it.
    real = Path(os.path.realpath(path))
    _check_plain(real)
    lock = filelock.FileLock(f"{real}.lock", timeout=0, is_singleton=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise StoreError("locked", file=str(path)) from None
    except OSError as error:
        raise _unwritable(error, path) from None
    try:
        return _open(path, real, format, lock.release)
    except BaseException:
        lock.release()
        raise


def _path(given: object) -> Path:
    """Make an absolute path of what was given, or say why it is none."""
    if not isinstance(given, str | Path):
        raise mistyped(given, "a path", "path")
    try:
        os.fsencode(given)
    except UnicodeEncodeError:
        raise InvalidArgument("lone-surrogate", field="path") from None
    if "\0" in str(given):
        raise InvalidArgument("invalid-argument", "a path holds no NUL", field="path")
    # A store outlives a change of the working directory.
    return Path(given).absolute()


def _check_plain(path: Path) -> None:
    """Refuse, before anything is created, what a store can't stand on."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        # The lock would create the directories, and leave them behind.
        if not path.parent.is_dir():
            text = f"there is no directory {path.parent}"
            raise StoreError("unwritable", text, file=str(path)) from None
    except OSError as error:
        raise DecodeError("unreadable", error.strerror or "", file=str(path)) from None
    else:
        if not stat.S_ISREG(mode):
            raise DecodeError("unreadable", "not a plain file", file=str(path))


def _open(path: Path, real: Path, format: str, release: Callable[[], object]) -> Store:
    start = journal.HEADER if format == journal.NAME else b""
    try:
        try:
            file = _plain(real, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            _create(real, start)
            file = _plain(real, os.O_RDWR | os.O_APPEND)
    except OSError as error:
        raise _unwritable(error, path) from None
    try:
        decoded, torn = _read(file, path, real, format, start)
        return Store(path, format, decoded, torn, file, release)
    except BaseException as error:
        os.close(file)
        if isinstance(error, OSError):
            raise _unwritable(error, path) from None
        raise


def _read(file: int, path: Path, real: Path, format: str, start: bytes) -> tuple[Decoded, bytes]:
    """Decode what is whole, set aside what is torn, and let the file end with a line."""
    with os.fdopen(file, "rb", closefd=False) as reader:
        data = reader.read(os.fstat(file).st_size)
    end = whole(data)
    if not end and not _begun(data, format):
        # Somebody else's only line is not ours to set aside: the codec says what is wrong with it.
        end = len(data)
    torn = data[end:]
    decoded = Decoded(Session(), (), format)
    if end:
        decoded = CODECS[format].decode(data[:end], file=str(path))
    if torn:
        aside = _plain(Path(f"{real}.torn"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        _save(aside, torn + b"\n")
        os.ftruncate(file, end)
    # What lacks its first line or its last LF gets it.
    if not end:
        _write(file, start)
    elif start and data[end - 1 : end] != b"\n":
        _write(file, b"\n")
    return decoded, torn


def _begun(data: bytes, format: str) -> bool:
    """Say whether a first line that is not whole may be what a store began to write."""
    if format == journal.NAME:
        return journal.HEADER.startswith(data)
    encode = CODECS[format].encode
    spoken = record(Session(), user("a")), record(Session(), Head(system="b"), assistant("c"))
    # All that this codec writes begins like this.
    written = zip(*map(encode, (Session(), *spoken)), strict=False)
    same = takewhile(lambda column: len({*column}) == 1, written)
    start = bytes(column[0] for column in same).partition(b"\n")[0]
    return data.startswith(start) or start.startswith(data)


def _plain(path: Path, flags: int) -> int:
    """Open a plain file, and nothing else."""
    file = os.open(path, flags | _GUARDED, 0o666)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError("not a plain file")


def _create(path: Path, start: bytes) -> None:
    """Let the file be there with its first line, or not at all."""
    new = Path(f"{path}.new")
    _save(_plain(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), start)
    new.replace(path)
    # The name is on the disk when the directory is; not every system lets one ask for that.
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _save(file: int, data: bytes) -> None:
    """Write what must be on the disk before anything else happens, and close the file."""
    try:
        _write(file, data)
        os.fsync(file)
    finally:
        os.close(file)


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _unwritable(error: OSError, path: Path) -> StoreError:
    return StoreError("unwritable", error.strerror or str(error), file=str(path))
