"""Messages of pi sessions: from their JSON to ours and back.

What has no field of its own there is written so that reading it gives the same again: a call
whose JSON text is not the compact form of its arguments carries it as `argumentsText`, a part
that is not one of their blocks stands in a block of the type `opaque`. Wording in front of
summaries and commands is ours; the host's own may differ.
"""

from __future__ import annotations

from attrs import frozen

from ctxalgebra.codecs.lines import Json, Number, compact, integer, parse, string
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.entries import Outcome
from ctxalgebra.model.head import Usage
from ctxalgebra.model.parts import Image, Message, Opaque, Part, Text, Thinking, ToolCall

__all__ = [
    "Spoken",
    "notice_text",
    "read_blocks",
    "read_message",
    "summary_of",
    "write_blocks",
    "write_message",
    "write_usage",
]

_BEFORE_SUMMARY = (
    "What was said before this point was condensed into the following summary:\n\n<summary>\n"
)
_AFTER_SUMMARY = "\n</summary>"
_BEFORE_BRANCH = (
    "This is a summary of a branch that this conversation came back from:\n\n<summary>\n"
)
_AFTER_BRANCH = "</summary>"

_MOST = 10**15 - 1
"""The largest number that is written; reading takes no larger one."""

_OUTCOMES: dict[str, Outcome] = {"aborted": "aborted", "error": "failed"}


@frozen
class Spoken:
    """Hold a message and what its JSON says about the request that it answers."""

    message: Message
    outcome: Outcome = "completed"
    usage: Usage | None = None
    time: int | None = None
    provider: str = ""
    model: str = ""
    api: str = ""


def notice_text(summary: str) -> str:
    """Give the text that stands for what a compaction took away."""
    return f"{_BEFORE_SUMMARY}{summary}{_AFTER_SUMMARY}"


def summary_of(text: str) -> str | None:
    """Take the summary out of such a text; None if it is another."""
    if len(text) >= len(_BEFORE_SUMMARY) + len(_AFTER_SUMMARY) and notice_text("") == (
        text[: len(_BEFORE_SUMMARY)] + text[len(text) - len(_AFTER_SUMMARY) :]
    ):
        return text[len(_BEFORE_SUMMARY) : len(text) - len(_AFTER_SUMMARY)]
    return None


# Reading


def _read_call(block: dict[str, Json]) -> ToolCall:
    arguments = block.get("argumentsText")
    if not isinstance(arguments, str):
        arguments = compact(block.get("arguments", {}))
    return ToolCall(
        string(block.get("id")),
        string(block.get("name")),
        arguments,
        string(block.get("thoughtSignature")),
    )


def _read_block(block: Json, *, speaks: bool) -> Part:
    if not isinstance(block, dict):
        return Opaque("", compact(block))
    kind = string(block.get("type"))
    match kind:
        case "text" if isinstance(text := block.get("text"), str):
            return Text(text)
        case "toolCall" if speaks:
            return _read_call(block)
        case "thinking" if speaks and isinstance(text := block.get("thinking"), str):
            signature = string(block.get("thinkingSignature"))
            return Thinking(text, signature, block.get("redacted") is True)
        case "image" | "opaque" if isinstance(data := block.get("data"), str):
            media = block.get("mimeType")
            if kind == "opaque":
                return Opaque(string(block.get("partType")), data)
            if isinstance(media, str):
                return Image(data, media)
        case _:
            pass
    return Opaque(kind, compact(block))


def read_blocks(content: Json, *, speaks: bool = False) -> tuple[Part, ...]:
    """Read content: a string, a list of blocks, or nothing.

    Args:
        content: as it stands in the message.
        speaks: it is the model's, so that it may hold thinking and calls.

    >>> read_blocks([{"type": "text", "text": "hi"}, {"type": "video"}])
    (Text(text='hi'), Opaque(type='video', data='{"type":"video"}'))
    """
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, list):
        return tuple(_read_block(block, speaks=speaks) for block in content)
    return () if content is None else (Opaque("", compact(content)),)


def _read_usage(value: Json) -> Usage | None:
    if not isinstance(value, dict):
        return None
    names = ("input", "output", "cacheRead", "cacheWrite")
    counts = [integer(value.get(name)) or 0 for name in names]
    if min(counts) < 0 or not any(counts):
        return None
    fresh, output, read, write = counts
    return Usage(fresh + read + write, output, read, write)


def _command_text(value: dict[str, Json]) -> str:
    output = string(value.get("output"))
    text = f"Ran `{string(value.get('command'))}`\n"
    text += f"```\n{output}\n```" if output else "(no output)"
    code = value.get("exitCode")
    if value.get("cancelled") is True:
        text += "\n\n(the command was cancelled)"
    elif isinstance(code, Number) and code.text != "0":
        text += f"\n\nThe command ended with exit code {code.text}."
    path = string(value.get("fullOutputPath"))
    if value.get("truncated") is True and path:
        text += f"\n\n(The output was shortened; all of it is in {path}.)"
    return text


def read_message(value: dict[str, Json], *, name: str = "", origin: str = "") -> Spoken | None:
    """Read a message; None for one that the model never sees.

    Args:
        value: the object with `role` and `content`.
        name: the entry's id.
        origin: the line that it stands in.

    Raises:
        DecodeError: `missing-field`, a tool result names no call; `wrong-role`, the role is
            unknown.
    """
    role = string(value.get("role"))
    content = value.get("content")
    match role:
        case "assistant":
            parts = read_blocks(content, speaks=True)
            return Spoken(
                Message("assistant", parts, id=name, origin=origin),
                _OUTCOMES.get(string(value.get("stopReason")), "completed"),
                _read_usage(value.get("usage")),
                integer(value.get("timestamp")),
                string(value.get("provider")),
                string(value.get("model")),
                string(value.get("api")),
            )
        case "toolResult":
            call = string(value.get("toolCallId"))
            if not call:
                raise DecodeError("missing-field", "no call", field="message.toolCallId")
            tool = string(value.get("toolName"))
            failed = value.get("isError") is True
            parts = read_blocks(content)
            return Spoken(
                Message("tool", parts, call=call, name=tool, error=failed, id=name, origin=origin)
            )
        case "user" | "custom" | "hookMessage":
            parts = read_blocks(content)
        case "system":
            return Spoken(Message("system", read_blocks(content), id=name, origin=origin))
        case "bashExecution":
            if value.get("excludeFromContext") is True:
                return None
            parts = (Text(_command_text(value)),)
        case "branchSummary" | "compactionSummary":
            summary = string(value.get("summary"))
            if role == "compactionSummary":
                parts = (Text(notice_text(summary)),)
            elif summary:
                parts = (Text(f"{_BEFORE_BRANCH}{summary}{_AFTER_BRANCH}"),)
            else:
                return None
        case _:
            raise DecodeError("wrong-role", f"there is no role {role!r}", field="message.role")
    return Spoken(Message("user", parts, id=name, origin=origin))


# Writing


def _write_call(part: ToolCall) -> dict[str, Json]:
    block: dict[str, Json] = {"type": "toolCall", "id": part.id, "name": part.name}
    try:
        arguments = parse(part.arguments)
    except DecodeError:
        arguments = None
    if arguments is None or compact(arguments) != part.arguments:
        block["arguments"] = arguments if isinstance(arguments, dict) else {}
        block["argumentsText"] = part.arguments
    else:
        block["arguments"] = arguments
    if part.signature:
        block["thoughtSignature"] = part.signature
    return block


def _write_opaque(part: Opaque, *, speaks: bool) -> Json:
    try:
        block = parse(part.data)
        if _read_block(block, speaks=speaks) == part:
            return block
    except DecodeError:
        pass
    return {"type": "opaque", "partType": part.type, "data": part.data}


def write_blocks(parts: tuple[Part, ...], *, speaks: bool = False) -> list[Json]:
    """Write parts as blocks; reading them gives the same parts."""
    blocks: list[Json] = []
    for part in parts:
        match part:
            case Text():
                blocks.append({"type": "text", "text": part.text})
            case Thinking():
                block: dict[str, Json] = {"type": "thinking", "thinking": part.text}
                if part.signature:
                    block["thinkingSignature"] = part.signature
                if part.redacted:
                    block["redacted"] = True
                blocks.append(block)
            case Image():
                blocks.append({"type": "image", "data": part.data, "mimeType": part.media_type})
            case ToolCall():
                blocks.append(_write_call(part))
            case _:
                blocks.append(_write_opaque(part, speaks=speaks))
    return blocks


def write_usage(usage: Usage | None) -> dict[str, Json]:
    """Write usage their way: input without what the cache read or wrote; nothing is zeros."""
    known = usage or Usage()
    fresh = max(known.input - known.cache_read - known.cache_write, 0)

    def count(tokens: int) -> Number:
        return Number(str(min(tokens, _MOST)))

    return {
        "input": count(fresh),
        "output": count(known.output),
        "cacheRead": count(known.cache_read),
        "cacheWrite": count(known.cache_write),
        "totalTokens": count(fresh + known.cache_read + known.cache_write + known.output),
        "cost": {
            name: Number("0") for name in ("input", "output", "cacheRead", "cacheWrite", "total")
        },
    }


def write_message(spoken: Spoken) -> dict[str, Json]:
    """Write a message; reading it gives the same parts, role, call, name and error."""
    message = spoken.message
    speaks = message.role == "assistant"
    content: Json = write_blocks(message.parts, speaks=speaks)
    stamp: dict[str, Json] = {"timestamp": Number(str(min(spoken.time or 0, _MOST)))}
    match message.role:
        case "assistant":
            reason = {"aborted": "aborted", "completed": "toolUse" if message.calls else "stop"}
            return {
                "role": "assistant",
                "content": content,
                "api": spoken.api,
                "provider": spoken.provider,
                "model": spoken.model,
                "usage": write_usage(spoken.usage),
                "stopReason": reason.get(spoken.outcome, "error"),
                **stamp,
            }
        case "tool":
            return {
                "role": "toolResult",
                "toolCallId": message.call,
                "toolName": message.name,
                "content": content,
                "isError": message.error,
                **stamp,
            }
        case _:
            return {"role": message.role, "content": content, **stamp}
