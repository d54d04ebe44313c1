"""Print a session, or a message array, as Python that makes it again: readable counterexamples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import NOTHING, fields, has

from ctxalgebra.model.parts import Message, Text
from ctxalgebra.model.session import Session, log

__all__ = ["script"]


def script(value: Session | Sequence[Message]) -> str:
    """Write the Python that makes a session, or a tuple of messages, again.

    Args:
        value: a session is recorded entry by entry, each with its number behind it; a sequence of
            messages becomes a tuple.

    Returns:
        Lines that run by themselves and leave `session` (or `messages`) behind.

    >>> from ctxalgebra import ToolCall, assistant, record, send, tool_result, user
    >>> session = record(Session(), user("a"), assistant(ToolCall("c1", "read")))
    >>> print(script(record(session, tool_result("c1", "x", error=True))))
    from ctxalgebra import *
    session = Session()
    session = record(session, user('a'))  # 0
    session = record(session, assistant(ToolCall('c1', 'read')))  # 1
    session = record(session, tool_result('c1', 'x', error=True))  # 2
    """
    lines = ["from ctxalgebra import *"]
    if not isinstance(value, Session):
        lines += ["messages = (", *(f"    {_written(message)}," for message in value), ")"]
        return "\n".join(lines)
    lines.append("session = Session()")
    leaf = -1
    for node in log(value):
        parent = -1 if node.parent is None else node.parent.number
        if parent != leaf:
            lines.append(f"session = at_leaf(session, {parent})")
        lines.append(f"session = record(session, {_written(node.entry)})  # {node.number}")
        leaf = node.number
    at = -1 if value.leaf is None else value.leaf.number
    if at != leaf:
        lines.append(f"session = at_leaf(session, {at})")
    return "\n".join(lines)


def _type(value: object) -> type[Any]:
    return type(value)


def _written(value: Any) -> str:
    """Write a value of the model as the call that makes it."""
    kind = _type(value)
    if kind is tuple:
        inner = ", ".join(map(_written, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if kind is str and len(value) > 12 and len(set(value)) == 1:
        return f"{value[0]!r} * {len(value)}"
    if isinstance(value, Message) and not value.origin and bool(value.name) <= bool(value.call):
        return _message(value)
    return _call(kind.__name__, [], value, ()) if has(kind) else repr(value)


def _message(message: Message) -> str:
    parts: Any = message.parts
    if message.role == "assistant":
        texts = [p.text if type(p) is Text else p for p in message.parts]
        return _call("assistant", [_written(p) for p in texts], message, ("role", "parts"))
    if len(parts) == 1 and type(parts[0]) is Text:
        parts = parts[0].text
    if message.role == "tool":
        first = [_written(message.call), _written(parts)]
        return _call("tool_result", first, message, ("role", "call", "parts"))
    return _call(message.role, [_written(parts)], message, ("role", "parts"))


def _call(name: str, positional: list[str], value: Any, known: tuple[str, ...]) -> str:
    """Write a call: what is required by place, what differs from its default by name."""
    written = list(positional)
    kind = _type(value)
    for field in fields(kind):
        held = getattr(value, field.name)
        if field.name in known or not field.init:
            continue
        if field.default is NOTHING:
            written.append(_written(held))
        elif held != field.default:
            written.append(f"{field.name}={_written(held)}")
    return f"{name}({', '.join(written)})"
