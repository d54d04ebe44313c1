"""What sessions are grown from: few ids, texts, messages and heads, so that they collide.

Texts are equal, ids repeat, numbers hit. Each tuple begins with what is simplest.
"""

from __future__ import annotations

from ctxalgebra.model.entries import Outcome
from ctxalgebra.model.head import Head, Route, Tool, Usage
from ctxalgebra.model.parts import (
    Image,
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    assistant,
    system,
    tool_result,
    user,
)

__all__ = [
    "ARGUMENTS",
    "C1",
    "HEADS",
    "IDS",
    "LEGAL",
    "NOTICES",
    "OUTCOMES",
    "RESULTS",
    "SPOKEN",
    "T1",
    "TEXTS",
    "TOLD",
    "USAGES",
]

IDS = ("c1", "c2", "c3", "c4")
TEXTS = ("a", "b", "c" * 60, "d" * 300, "e" * 150)
ARGUMENTS = ("{}", '{"a":1}', '{"a":2}', "[]", '"a"', "not json")

T1, T2, T3 = Thinking("t1", "s1"), Thinking("t2", "s2"), Thinking("", "s3", redacted=True)
OPAQUE = Opaque("server_tool", "{}")
IMAGE = Image("aGk=", "image/png")
SIGNED = ToolCall("c1", "read", '{"a":1}', signature="g")
C1, C2, C3, C4 = (ToolCall(i, "read", '{"a":1}') for i in IDS)

SPOKEN: tuple[Message, ...] = (
    assistant("ok"),
    assistant(C1),
    assistant(T1, C1),
    assistant(C1, C2),
    assistant("now", T1, "then", T2, C1),
    assistant(C2, C1),
    assistant(T1, "ok"),
    assistant(C1, C2, C3),
    assistant("c" * 60, T2, SIGNED, C2),
    assistant("ok", T2),
    assistant(C3, OPAQUE),
    assistant(SIGNED),
    assistant("go", T1, C3, C1, C4, C2),
    assistant(T3, "d" * 300, C2),
    assistant("look", IMAGE),
    assistant(SIGNED, C2, C3),
    assistant(T1),
    assistant(),
    assistant("", C4, C2, C1),
    assistant(T1, "ok", " ", C2),
    assistant(C1, ToolCall("c1", "write")),
    assistant(ToolCall("", "read")),
)
"""What a model says: text, thinking and calls in every order; the last two are illegal."""

LEGAL = len(SPOKEN) - 2

TOLD: tuple[Message, ...] = (
    *map(user, TEXTS),
    user((Text("see"), IMAGE)),
    system("Be brief from now on."),
    user((OPAQUE,)),
    user("  "),
)
"""What a person or a host says."""

RESULTS: tuple[str | tuple[Part, ...], ...] = (
    *TEXTS,
    "",
    (IMAGE,),
    (Text("d" * 300), OPAQUE),
    (OPAQUE,),
)
"""What tools answer."""

HEADS: tuple[Head, ...] = (
    Head(),
    Head(Route(binding="leading")),
    Head(Route(binding="none")),
    Head(system="Be brief."),
    Head(system="Be brief.", tools=(Tool("read", "Reads."),)),
    Head(Route("p", "m", (("effort", '"low"'),), "leading"), "Be brief."),
    Head(Route(binding="none"), "Be brief."),
)
_COMPLETED: list[Outcome] = ["completed"]
OUTCOMES: tuple[Outcome, ...] = (*_COMPLETED * 5, "failed", "aborted", "lost")
USAGES = (None, Usage(100, 5, 50, 20), None, Usage(900, 2), Usage(8, 2), Usage(0, 1))

NOTICES = (
    user("notice"),
    user("another notice"),
    user(" "),
    assistant("notice"),
    assistant(C1),
    tool_result("c1", "notice"),
)
"""What could stand for what was cut; the first two may."""
