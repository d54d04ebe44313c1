"""A port at work: another program that answers at the door, kept on a short leash.

The only module here that touches processes and clocks. Requests go out one by one, each after the
answer to the one before it. All that is read and written happens in a thread of its own, so that a
port that neither reads nor writes can't hold the runner; when its time is up the port is killed,
with what it has started where the system knows groups of processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, Queue
from typing import IO, Any, cast

from ctxalgebra.conformance.door import SPEC
from ctxalgebra.conformance.wire import LIMIT, read, write
from ctxalgebra.errors import DecodeError, InvalidArgument

__all__ = ["Broken", "Driven", "Port"]

_GRACE = 2.0
"""Seconds that a port has to end after it was told to stop, or was killed."""


MOST = 10
"""After so many breakdowns a port is not asked any more."""


class Broken(Exception):
    """The port did not keep to the protocol; `str` says how."""


def _talk(process: subprocess.Popen[bytes], asked: Queue[bytes], said: Queue[bytes]) -> None:
    """Write requests and read answers, until there are none or the port is gone."""
    source, target = cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stdin)
    try:
        while request := asked.get():
            target.write(request)
            target.flush()
            said.put(source.readline(LIMIT + 1))
    except OSError:
        said.put(b"")
    finally:
        for stream in (target, source):
            with suppress(OSError):
                stream.close()


class Port:
    """Run a port's command and ask it.

    Attributes:
        name: what it calls itself.
        operations: what it has.
    """

    def __init__(self, command: Sequence[str], *, timeout: float) -> None:
        """Start the command and shake hands.

        Args:
            command: program and arguments; no shell reads it.
            timeout: seconds for each answer.

        Raises:
            InvalidArgument: `invalid-argument`, the command can't be started.
            Broken: it doesn't say that it is ready.
        """
        self._timeout = timeout
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the caller's own command
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            text = f"can't start {command[0]!r}: {why}"
            raise InvalidArgument("invalid-argument", text, field="command") from None
        self._asked: Queue[bytes] = Queue()
        self._said: Queue[bytes] = Queue()
        self._seq = 0
        self._thread = threading.Thread(
            target=_talk, args=(self._process, self._asked, self._said), daemon=True
        )
        self._thread.start()
        self.name, self.operations = self._start()

    def _start(self) -> tuple[str, frozenset[str]]:
        match self._exchange({"kind": "start", "spec": SPEC}):
            case {"kind": "ready", "spec": 1, "operations": [*operations]} as reply if all(
                isinstance(name, str) for name in operations
            ):
                words = (reply.get(key) for key in ("implementation", "version"))
                name = " ".join(word for word in words if isinstance(word, str))
                return name or "a port", frozenset(operations)
            case _:
                raise self._break("did not say ready, with spec 1 and a list of operations")

    def ask(self, operation: str, value: Any) -> dict[str, Any]:
        """Ask for one result.

        Returns:
            An object with exactly one of `output`, `error` and `skipped`.

        Raises:
            Broken: no answer in time, none at all, or one that is no answer to this; the port has
                ended then.
        """
        self._seq += 1
        seq = self._seq
        reply = self._exchange({"kind": "run", "seq": seq, "operation": operation, "input": value})
        if reply.get("kind") != "result":
            raise self._break("answered with another kind than result")
        if type(reply.get("seq")) is not int or reply["seq"] != seq:
            raise self._break(f"answered seq {str(reply.get('seq'))[:40]} instead of {seq}")
        if len(reply.keys() & {"output", "error", "skipped"}) != 1:
            raise self._break("gave not exactly one of output, error and skipped")
        return reply

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        self._asked.put(write(request))
        try:
            line = self._said.get(timeout=self._timeout)
        except Empty:
            raise self._break(f"gave no answer within {self._timeout:g} s") from None
        if not line:
            raise self._gone()
        try:
            reply = read(line)
        except DecodeError as error:
            raise self._break(f"wrote what is no answer: {error}") from None
        if not isinstance(reply, dict):
            raise self._break("wrote what is no answer: not an object")
        return cast("dict[str, Any]", reply)

    def _gone(self) -> Broken:
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return self._break("closed its output")
        self._kill()
        return Broken(f"ended with code {code}")

    def _break(self, how: str) -> Broken:
        self._kill()
        return Broken(how)

    def _kill(self) -> None:
        """End the port and what it has started."""
        if self._process.returncode is None:  # its number is still its own
            with suppress(OSError):
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.kill()
        self._process.wait()
        self._asked.put(b"")
        self._thread.join(_GRACE)

    def close(self) -> None:
        """Tell the port to stop; kill it if it doesn't."""
        self._asked.put(write({"kind": "stop"}))
        self._asked.put(b"")
        self._thread.join(_GRACE)
        if not self._thread.is_alive():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE)
        self._kill()


class Driven:
    """Ask a port, and start it again when it broke down."""

    def __init__(self, command: Sequence[str], *, timeout: float = 10) -> None:
        """Start the port.

        Args:
            command: program and arguments.
            timeout: seconds for each answer.

        Raises:
            InvalidArgument: `invalid-argument`, it can't be started, or doesn't say that it is
                ready.
        """
        self._command, self._timeout = command, timeout
        self._breakdowns = 0
        try:
            self._port: Port | None = Port(command, timeout=timeout)
        except Broken as error:
            text = f"the port {error}"
            raise InvalidArgument("invalid-argument", text, field="command") from None
        self.name = self._port.name

    def __call__(self, operation: str, value: Any, /) -> dict[str, Any] | str:
        """Ask for one result; a text tells of a breakdown."""
        if self._breakdowns >= MOST:
            return f"not asked: the port broke down {MOST} times"
        try:
            if self._port is None:
                self._port = Port(self._command, timeout=self._timeout)
            if operation not in self._port.operations:
                return {"skipped": "not among the operations of the port"}
            return self._port.ask(operation, value)
        except Broken as error:
            self._breakdowns += 1
            self._port = None
            return f"the port {error}"

    def close(self) -> None:
        """Stop the port."""
        if self._port is not None:
            self._port.close()
