"""The door: requests in, answers out, one line each, and nothing that comes in can close it.

`answer` gives the answer to one line, `serve` does so until the input ends. No state is kept
from one request to the next. Codes that belong to the door:

| code | what is wrong |
| --- | --- |
| `malformed-request` | the line is no JSON of the limits here, or no request of a known kind |
| `unknown-operation` | there is no operation of this name, nor has the door heard of one |
| `invalid-input` | the input has not the shape that the operation takes |
| `internal-error` | the operation failed: a bug here |

All other codes are the operation's own. `reason` is for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, BinaryIO, cast

from ctxalgebra.conformance import (
    kernel,
    memory,
    paging,
    paging_recall,
    paging_select,
    paging_session,
    paging_stats,
    paging_tokens,
    resident,
    skills_lines,
    skills_loading,
    skills_records,
    skills_saver,
    skills_session,
    toolpolicy,
    travel,
    travel_delivery,
    travel_handoff,
    travel_host,
    travel_host_work,
    travel_moves,
    travel_mutation,
    travel_packet,
    travel_timeline,
    travel_usage,
)
from ctxalgebra.conformance.operations import Operation, Refusal, call
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.conformance.wire import LIMIT, read, write
from ctxalgebra.errors import CtxError, DecodeError

__all__ = ["OPERATIONS", "SPEC", "answer", "ready", "result", "serve"]

SPEC = 1
"""The version of the protocol."""

_MODULES = (
    kernel,
    resident,
    paging,
    paging_recall,
    paging_select,
    paging_session,
    paging_stats,
    paging_tokens,
    memory,
    skills_lines,
    skills_loading,
    skills_records,
    skills_session,
    skills_saver,
    toolpolicy,
    travel,
    travel_delivery,
    travel_handoff,
    travel_host,
    travel_host_work,
    travel_moves,
    travel_mutation,
    travel_packet,
    travel_timeline,
    travel_usage,
)

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {name: operation for module in _MODULES for name, operation in module.OPERATIONS.items()}
)
"""What the door does, by name."""

_CHUNK = 64 * 1024
_REASON = 200


def ready() -> dict[str, Any]:
    """Say who answers, and which operations there are."""
    from ctxalgebra import __version__

    return {
        "kind": "ready",
        "spec": SPEC,
        "implementation": "ctxalgebra",
        "version": __version__,
        "language": "python",
        "operations": sorted(OPERATIONS),
    }


def _error(code: str, reason: str = "", **more: Any) -> dict[str, Any]:
    told = {"reason": reason[:_REASON]} if reason else {}
    return {"error": {"code": code, **told, **more}}


def result(operation: str, value: Any) -> dict[str, Any]:
    """Perform an operation.

    Args:
        operation: its name.
        value: the input.

    Returns:
        An object with `output` or `error`.

    >>> result("kernel.pays", {"tail": 3000, "saved": 1000, "horizon": 23})
    {'output': True}
    >>> result("kernel.pays", {"tail": "3000"})["error"]["code"]
    'invalid-input'
    """
    function = OPERATIONS.get(operation)
    if function is None:
        return _error("unknown-operation", f"there is no operation {operation!r}")
    try:
        output = {"output": call(function, value)}
        write(output)
    except InvalidInput as error:
        return _error("invalid-input", str(error))
    except Refusal as error:
        return _error(error.code, **error.more)
    except CtxError as error:
        places = {name: getattr(error, name) for name in ("entry", "field")}
        known = {name: place for name, place in places.items() if place is not None}
        return _error(error.code, error.message, **known)
    except Exception as error:  # noqa: BLE001 - whatever happens, the door stays open
        return _error("internal-error", f"{type(error).__name__}: {error}")
    return output


def answer(line: bytes, *, limit: int = LIMIT) -> dict[str, Any] | None:
    r"""Answer one line.

    Args:
        line: a request.
        limit: the longest line in bytes, and the most characters that its shorthands stand for.

    Returns:
        What goes out; None where the line asks to stop.

    >>> answer(b'{"kind":"run","seq":1,"operation":"kernel.nothing","input":{}}')["error"]["code"]
    'unknown-operation'
    >>> answer(b"nonsense")
    ... # doctest: +NORMALIZE_WHITESPACE
    {'kind': 'result', 'seq': None, 'error': {'code': 'malformed-request',
     'reason': 'invalid-json: Expecting value at column 1'}}
    """
    try:
        request = read(line, limit=limit, shorthand=True)
    except DecodeError as error:
        return _malformed(None, str(error))
    if not isinstance(request, dict):
        return _malformed(None, "a request is an object")
    members = cast("dict[str, Any]", request)
    match members.get("kind"):
        case "start":
            if members.get("spec") != SPEC:
                return _malformed(None, f"spec {SPEC} is spoken here")
            return ready()
        case "stop":
            return None
        case "run":
            return _run(members)
        case _:
            return _malformed(members.get("seq"), "kind is start, run or stop")


def _malformed(seq: Any, reason: str) -> dict[str, Any]:
    known = seq if type(seq) is int else None
    return {"kind": "result", "seq": known, **_error("malformed-request", reason)}


def _run(request: dict[str, Any]) -> dict[str, Any]:
    seq, operation = request.get("seq"), request.get("operation")
    if type(seq) is not int or not isinstance(operation, str) or "input" not in request:
        return _malformed(seq, "a run has seq (an integer), operation (a text) and input")
    return {"kind": "result", "seq": seq, **result(operation, request["input"])}


def serve(source: BinaryIO, target: BinaryIO, *, limit: int = LIMIT) -> None:
    r"""Answer lines until the input ends or one of them says stop.

    Args:
        source: requests, split at LF only.
        target: answers; flushed after each.
        limit: as in `answer`. Of a longer line no more is held than that.

    Raises:
        OSError: what reading or writing raises; a reader that went away is a `BrokenPipeError`.

    >>> from io import BytesIO
    >>> out = BytesIO()
    >>> serve(BytesIO(b'{"kind":"run","seq":1,"operation":"travel.fly","input":{}}\n'), out)
    >>> out.getvalue().startswith(b'{"kind":"result","seq":1,"error":')
    True
    """
    while line := source.readline(limit + 1):
        if len(line) > limit and not line.endswith(b"\n"):
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = source.readline(_CHUNK)
        reply = answer(line, limit=limit)
        if reply is None:
            return
        target.write(write(reply))
        target.flush()
