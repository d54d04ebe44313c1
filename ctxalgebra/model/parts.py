"""Messages and their parts: immutable values, checked when they are made."""

from __future__ import annotations

from typing import ClassVar, Literal, cast, final, get_args

from attrs import field, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_text, check_type

__all__ = [
    "Image",
    "Message",
    "Opaque",
    "Part",
    "Role",
    "Text",
    "Thinking",
    "ToolCall",
    "assistant",
    "system",
    "tool_result",
    "user",
]

Role = Literal["user", "assistant", "tool", "system"]


@final
@frozen
class Text:
    """Show a text (Unicode code points).

    >>> Text("hi").text
    'hi'
    """

    kind: ClassVar[str] = "text"
    text: str

    def __attrs_post_init__(self) -> None:
        check_text(self.text, "text")


@final
@frozen
class Thinking:
    """Carry a model's reasoning as the provider gave it.

    Args:
        text: the reasoning, possibly empty, or the provider's ciphertext when `redacted`.
        signature: the provider's proof; bound to everything before it (provider rules T1 to T5).
        redacted: the provider keeps the text to itself.
    """

    kind: ClassVar[str] = "thinking"
    text: str
    signature: str = ""
    redacted: bool = False

    def __attrs_post_init__(self) -> None:
        check_text(self.text, "text")
        check_text(self.signature, "signature")
        check_type(self.redacted, bool, "redacted")


@final
@frozen
class Image:
    """Show an image: `data` is base64 or a URL, `media_type` as in `image/png`."""

    kind: ClassVar[str] = "image"
    data: str
    media_type: str

    def __attrs_post_init__(self) -> None:
        check_text(self.data, "data")
        check_text(self.media_type, "media_type")


@final
@frozen
class ToolCall:
    r"""Call a tool.

    Args:
        id: pairs the call with its result.
        name: the tool's name.
        arguments: the model's JSON text, byte for byte. Re-serialising would reorder keys and
            break the cached prefix.
        signature: the provider's proof on this part (Gemini, rule V-G4); such a call is never
            rewritten.
    """

    kind: ClassVar[str] = "tool-call"
    id: str
    name: str
    arguments: str = "{}"
    signature: str = ""

    def __attrs_post_init__(self) -> None:
        check_text(self.id, "id")
        check_text(self.name, "name")
        check_text(self.arguments, "arguments")
        check_text(self.signature, "signature")


@final
@frozen
class Opaque:
    """Carry a part that this library does not read: its provider `type` and its JSON text."""

    kind: ClassVar[str] = "opaque"
    type: str
    data: str

    def __attrs_post_init__(self) -> None:
        check_text(self.type, "type")
        check_text(self.data, "data")


Part = Text | Thinking | Image | ToolCall | Opaque

IMAGE_CHARACTERS = 4800
"""What an image counts for, whatever its size (specification of the host's format, section 6)."""

_ROLES = frozenset(get_args(Role))
_PARTS = frozenset(get_args(Part))


def _as_parts(value: str | tuple[Part, ...]) -> tuple[Part, ...]:
    return (Text(value),) if isinstance(value, str) else value


@final
@frozen
class Message:
    """One element of the message array.

    Args:
        role: `user`, `assistant`, `tool` (one result) or `system` (mid-conversation instruction).
        parts: what it shows, in order. A plain string stands for one `Text`.
        call: the id of the call that a `tool` message answers; empty for other roles.
        name: the tool's name on a `tool` message, when known.
        error: the tool failed.
        id: the address that the host gave the message; empty when it has none.
        characters: derived; what the model reads of it, in code points: texts, thinking, names and
            arguments of calls, opaque JSON, 4,800 an image. Signatures and ids don't count.
        origin: the wire text that a codec read this message from, verbatim, so that what we do
            not read survives. Empty for messages made here.

    Raises:
        InvalidArgument: `wrong-type`, `wrong-role`, `lone-surrogate`, with `field`.

    >>> Message("user", "hi").parts
    (Text(text='hi'),)
    """

    kind: ClassVar[str] = "message"
    role: Role
    parts: tuple[Part, ...] = field(converter=_as_parts)
    call: str = ""
    name: str = ""
    error: bool = False
    id: str = ""
    origin: str = field(default="", repr=False)
    calls: tuple[ToolCall, ...] = field(init=False, eq=False, repr=False)
    thinks: bool = field(init=False, eq=False, repr=False)
    empty: bool = field(init=False, eq=False, repr=False)
    blanks: bool = field(init=False, eq=False, repr=False)
    characters: int = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not isinstance(cast("object", self.role), str) or self.role not in _ROLES:
            raise InvalidArgument("wrong-role", f"there is no role {self.role!r}", field="role")
        check_type(self.parts, tuple, "parts")
        check_type(self.error, bool, "error")
        calls: list[ToolCall] = []
        thinks = False
        empty = True
        blanks = False
        characters = 0
        for part in self.parts:
            if type(part) not in _PARTS:
                raise InvalidArgument("wrong-type", "not a part", field="parts")
            if isinstance(part, Text):
                characters += len(part.text)
                if part.text.strip():
                    empty = False
                else:
                    blanks = True
                continue
            if isinstance(part, ToolCall):
                characters += len(part.name) + len(part.arguments)
                calls.append(part)
            elif isinstance(part, Thinking):
                characters += len(part.text)
                thinks = True
            elif isinstance(part, Image):
                characters += IMAGE_CHARACTERS
            else:
                characters += len(part.data)
            empty = False
        if (calls or thinks) and self.role != "assistant":
            raise InvalidArgument("wrong-role", "only an assistant calls and thinks", field="parts")
        if bool(self.call) != (self.role == "tool"):
            raise InvalidArgument(
                "wrong-role", "a tool message, and only it, names a call", field="call"
            )
        for name in ("call", "name", "id", "origin"):
            check_text(getattr(self, name), name)
        put = object.__setattr__
        put(self, "calls", tuple(calls))
        put(self, "thinks", thinks)
        put(self, "empty", empty)
        put(self, "blanks", blanks and not empty and self.role != "tool")
        put(self, "characters", characters)


def user(content: str | tuple[Part, ...], *, id: str = "") -> Message:
    """Make a user message.

    >>> user("hi").role
    'user'
    """
    return Message("user", content, id=id)


def system(content: str | tuple[Part, ...], *, id: str = "") -> Message:
    """Make a mid-conversation system message (provider rule V-A8).

    >>> system("Answer in German.").role
    'system'
    """
    return Message("system", content, id=id)


def assistant(*parts: str | Part, id: str = "") -> Message:
    """Make an assistant message; strings become `Text` parts.

    >>> assistant("Reading it.", ToolCall("c1", "read", '{"path":"a.py"}')).calls[0].name
    'read'
    """
    return Message("assistant", tuple(Text(p) if isinstance(p, str) else p for p in parts), id=id)


def tool_result(
    call: str,
    content: str | tuple[Part, ...],
    *,
    name: str = "",
    error: bool = False,
    id: str = "",
) -> Message:
    """Make the result of the call with the id `call`.

    >>> tool_result("c1", "42").call
    'c1'
    """
    return Message("tool", content, call=call, name=name, error=error, id=id)
