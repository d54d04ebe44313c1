"""Provider profiles: which rules of validity a provider has, and what in a request breaks them.

The rules are those of section 1 of the provider rules, by their ids. A request is first read in
turns, as the provider reads it: results and (where the provider knows no system messages) system
messages belong to the user's turn, and messages of one role that follow each other are one turn.

Judged on messages alone: V-A1, V-A2, V-A3, V-A5, V-A6, V-A8, V-C1, V-C2, V-R1, V-R2, V-G1, V-G2,
V-G3, V-B1, V-B3. The others need to be told something, or can't be judged here:

* V-A4, that turns are combined, forbids nothing: it is how the turns are read.
* V-A5 knows server tools by the types of opaque parts, as the Anthropic codec names them.
* V-A6 spares results: what a tool said may be blank. A message with no part at all breaks no
  rule of the list; `protocol.defects` finds it.
* V-A7 needs `last_thinking`. What it asks beyond the place and the signature (thinking goes back
  unmodified and in order) compares two requests: the law of thinking binding, not a rule on one.
* V-A8 is judged by place. Which models take system messages at all is not known here.
* V-R3 holds where reasoning goes back under its item ids: `reasoning_ids`.
* V-R4 is a mode, `previous_response`: then outputs need no call in the request.
* V-R5, `reasoning.context` and what may be left out behind a compaction, is a parameter and a
  permission: nothing in the messages can break it.
* V-G4 needs `signatures`: only models since Gemini 3 ask for them. Whether a signature is valid
  only the provider knows.
* V-B2 can be broken only where the caller doesn't combine turns: `merged=False`. The same goes
  for two model turns in a row under V-G2.
* V-B4 needs the head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from attrs import field, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_each, check_fields, check_items, check_text, check_type
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message, Opaque, Role, Text, Thinking

__all__ = [
    "ANTHROPIC",
    "BEDROCK",
    "GEMINI",
    "GENERIC",
    "OPENAI_CHAT",
    "OPENAI_RESPONSES",
    "PROFILES",
    "Profile",
    "Violation",
    "profile_for",
    "violations",
]


@frozen
class Violation:
    """Say which rule a request breaks, at which message, and how.

    Args:
        rule: an id of the provider rules, as `V-A1`.
        index: of the message in the list that was passed in.
        detail: for people; ids are quoted so that control characters are escaped.
    """

    rule: str
    index: int
    detail: str


class _Turn(NamedTuple):
    """A stretch of messages that the provider reads as one: `messages[first:stop]`."""

    role: Role
    first: int
    stop: int


class _Request(NamedTuple):
    """What the checks look at; `loop` is the index behind the last user message."""

    messages: Sequence[Message]
    turns: list[_Turn]
    loop: int
    head: Head | None
    thinking: bool
    previous_response: bool
    reasoning_ids: bool
    signatures: bool

    def calls(self, turn: _Turn) -> list[tuple[int, str]]:
        """List the calls of a turn, each with the index of its message."""
        span = range(turn.first, turn.stop)
        return [(index, call.id) for index in span for call in self.messages[index].calls]

    def results(self, turn: _Turn) -> list[tuple[int, str]]:
        """List the results of a turn, by the ids of their calls."""
        span = range(turn.first, turn.stop)
        return [(i, self.messages[i].call) for i in span if self.messages[i].role == "tool"]

    def pairs(self) -> Iterator[tuple[list[tuple[int, str]], list[tuple[int, str]]]]:
        """Give the calls of each turn with the results of the next; nothing stands at the ends."""
        calls: list[tuple[int, str]] = []
        for turn in self.turns:
            yield calls, self.results(turn)
            calls = self.calls(turn)
        yield calls, []


_Found = Iterator[tuple[int, str]]
_Check = Callable[[_Request], _Found]


def _unanswered(request: _Request) -> _Found:
    for calls, results in request.pairs():
        left = Counter(call for _, call in results)
        for index, call in calls:
            left[call] -= 1
            if left[call] < 0:
                yield index, f"the call {call!r} has no result in the next turn"


def _unasked(request: _Request) -> _Found:
    for calls, results in request.pairs():
        left = Counter(call for _, call in calls)
        for index, call in results:
            left[call] -= 1
            if left[call] < 0:
                yield index, f"the result answers no call {call!r} of the turn before"


def _unpaired(request: _Request) -> _Found:
    yield from _unanswered(request)
    yield from _unasked(request)


def _results_first(request: _Request) -> _Found:
    for turn in request.turns:
        words = -1
        for index in range(turn.first, turn.stop):
            if request.messages[index].role == "user":
                words = words if words >= 0 else index
            elif request.messages[index].role == "tool" and words >= 0:
                yield words, "results of the same turn stand behind this message"
                break


_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
_SERVER_RESULT = "_tool_result"


def _server_pending(request: _Request) -> _Found:
    pending = 0
    for turn in request.turns:
        span = range(turn.first, turn.stop)
        words = next((i for i in span if request.messages[i].role == "user"), -1)
        if pending and words >= 0:
            yield words, "a server tool is pending: only results may follow"
        pending = 0
        for index in span:
            for part in request.messages[index].parts:
                if type(part) is Opaque and part.type in _SERVER_CALLS:
                    pending += 1
                elif type(part) is Opaque and part.type.endswith(_SERVER_RESULT):
                    pending = max(0, pending - 1)


def _blank_text(request: _Request) -> _Found:
    for index, message in enumerate(request.messages):
        if message.role != "tool" and any(
            type(part) is Text and (not part.text or part.text.isspace()) for part in message.parts
        ):
            yield index, "a text without anything but white space"


def _leading_thinking(request: _Request) -> _Found:
    if not request.thinking:
        return
    for index in range(request.loop, len(request.messages)):
        message = request.messages[index]
        if message.role == "assistant" and message.parts:
            if type(message.parts[0]) is not Thinking:
                yield index, f"the open turn begins with {message.parts[0].kind}, not thinking"
            break
    for index, message in enumerate(request.messages):
        if message.thinks and any(
            type(part) is Thinking and not part.signature and not part.redacted
            for part in message.parts
        ):
            yield index, "thinking without its signature"


def _system_place(request: _Request) -> _Found:
    roles: list[Role | None] = [None, *(turn.role for turn in request.turns), None]
    for place, turn in enumerate(request.turns):
        if turn.role != "system":
            continue
        if roles[place] != "user":
            yield turn.first, "a system message stands behind a user message, and only there"
        if roles[place + 2] == "user":
            yield turn.stop - 1, "a user message follows a system message"


def _without_call(request: _Request) -> _Found:
    asked: set[str] = set()
    for index, message in enumerate(request.messages):
        asked.update(call.id for call in message.calls)
        if message.call and message.call not in asked and not request.previous_response:
            yield index, f"no call {message.call!r} stands before this output"


def _without_output(request: _Request) -> _Found:
    outputs: Counter[str] = Counter()
    for index in range(len(request.messages) - 1, -1, -1):
        message = request.messages[index]
        if message.call:
            outputs[message.call] += 1
        for call in message.calls:
            outputs[call.id] -= 1
            if outputs[call.id] < 0:
                outputs[call.id] = 0
                yield index, f"no output follows for the call {call.id!r}"


def _lone_reasoning(request: _Request) -> _Found:
    if not request.reasoning_ids:
        return
    for turn in request.turns:
        last = request.messages[turn.stop - 1]
        if last.parts and type(last.parts[-1]) is Thinking:
            yield turn.stop - 1, "reasoning without the item that it led to"


def _starts_otherwise(request: _Request) -> _Found:
    if request.turns and request.turns[0].role != "user":
        yield 0, f"the first message is of the role {request.turns[0].role}"


def _call_misplaced(request: _Request) -> _Found:
    before: Role | None = None
    for turn in request.turns:
        calls = request.calls(turn)
        if calls and before != "user":
            yield calls[0][0], "calls stand right behind a user message or results"
        before = turn.role


def _unsigned(request: _Request) -> _Found:
    if not request.signatures:
        return
    for turn in request.turns:
        for index in range(max(turn.first, request.loop), turn.stop):
            calls = request.messages[index].calls
            if calls:
                if not calls[0].signature:
                    yield index, f"the call {calls[0].id!r} has no thought signature"
                break


def _same_role_twice(request: _Request) -> _Found:
    for earlier, turn in zip(request.turns, request.turns[1:], strict=False):
        if earlier.role == turn.role:
            yield turn.first, f"two {turn.role} messages in a row"


def _undeclared_tools(request: _Request) -> _Found:
    if request.head is None or request.head.tools:
        return
    for index, message in enumerate(request.messages):
        if message.calls or message.call:
            yield index, "the head declares no tools"
            return


_CHECKS: Mapping[str, _Check] = {
    "V-A1": _unanswered,
    "V-A2": _unasked,
    "V-A3": _results_first,
    "V-A5": _server_pending,
    "V-A6": _blank_text,
    "V-A7": _leading_thinking,
    "V-A8": _system_place,
    "V-C1": _unanswered,
    "V-C2": _unasked,
    "V-R1": _without_call,
    "V-R2": _without_output,
    "V-R3": _lone_reasoning,
    "V-G1": _starts_otherwise,
    "V-G2": _call_misplaced,
    "V-G3": _unpaired,
    "V-G4": _unsigned,
    "V-B1": _starts_otherwise,
    "V-B2": _same_role_twice,
    "V-B3": _unpaired,
    "V-B4": _undeclared_tools,
}


@frozen
class Profile:
    """Say how a provider reads messages, and which rules it then applies.

    Args:
        name: for people.
        rules: ids of the rules that are judged, in the order in which they are reported.
        as_user: roles that belong to the user's turn besides `user`.
        merges: consecutive messages of a role are one turn. Results always are.

    Raises:
        InvalidArgument: `invalid-argument`, a rule id is unknown or can't be judged on messages;
            `wrong-type`.

    >>> Profile("mine", ("V-C1", "V-C2")).merges
    False
    """

    name: str
    rules: tuple[str, ...] = field()
    as_user: frozenset[Role] = frozenset()
    merges: bool = False

    def __attrs_post_init__(self) -> None:
        check_fields(self, name=str, as_user=frozenset, merges=bool)
        check_items(self.rules, str, "rules")
        for rule in self.rules:
            if rule not in _CHECKS:
                raise InvalidArgument(
                    "invalid-argument", f"the rule {rule!r} is not judged here", field="rules"
                )


ANTHROPIC = Profile(
    "anthropic",
    ("V-A1", "V-A2", "V-A3", "V-A5", "V-A6", "V-A7", "V-A8"),
    as_user=frozenset({"tool"}),
    merges=True,
)
"""Anthropic Messages."""

OPENAI_CHAT = Profile("openai-chat", ("V-C1", "V-C2"))
"""OpenAI Chat Completions, and those that speak it."""

OPENAI_RESPONSES = Profile("openai-responses", ("V-R1", "V-R2", "V-R3"), merges=True)
"""OpenAI Responses: items, paired by id wherever they stand."""

GEMINI = Profile(
    "gemini",
    ("V-G1", "V-G2", "V-G3", "V-G4"),
    as_user=frozenset({"tool", "system"}),
    merges=True,
)
"""Gemini `generateContent`."""

BEDROCK = Profile(
    "bedrock",
    ("V-B1", "V-B2", "V-B3", "V-B4"),
    as_user=frozenset({"tool", "system"}),
    merges=True,
)
"""Bedrock Converse."""

GENERIC = Profile("generic", ("V-R1", "V-R2"))
"""A provider that nothing is known about: each result has a call before it, and each call one."""

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {p.name: p for p in (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, GEMINI, BEDROCK, GENERIC)}
)
"""All profiles, by name."""

# Names of providers and of their interfaces, as they stand in session files and harnesses.
_NAMES: Mapping[str, Profile] = {
    name: profile
    for profile, names in {
        ANTHROPIC: "anthropic anthropic-messages anthropic-vertex claude google-vertex-anthropic",
        OPENAI_RESPONSES: """azure-openai-responses codex openai openai-codex
            openai-codex-responses openai-responses""",
        OPENAI_CHAT: """azure azure-openai cerebras deepseek fireworks groq huggingface kimi litellm
            lmstudio mistral moonshot moonshotai nvidia ollama openai-chat openai-completions
            openrouter qwen sglang together vllm x-ai xai z-ai zai zhipu""",
        GEMINI: """gemini gemini-cli google google-ai-studio google-antigravity google-gemini-cli
            google-genai google-generative-ai google-gla google-vertex vertex vertex-ai vertexai""",
        BEDROCK: "amazon-bedrock aws-bedrock bedrock bedrock-converse bedrock-converse-stream",
    }.items()
    for name in names.split()
}
_SPACES = str.maketrans("_./-", "    ")


def profile_for(provider: str) -> Profile:
    """Find the profile for a provider's name, as `Route.provider` holds it.

    Upper case, spaces, dots and underscores don't matter. `openai` means Responses; say
    `openai-completions` or `openai-chat` for the older interface. A provider that nothing is known
    about gets `GENERIC`, which checks pairing only.

    Raises:
        InvalidArgument: `wrong-type`, the name is no text.

    >>> profile_for("Google AI Studio").name, profile_for("somebody").name
    ('gemini', 'generic')
    """
    check_text(provider, "provider")
    name = "-".join(provider.lower().translate(_SPACES).split())
    return _NAMES.get(name, GENERIC)


def _turns(messages: Sequence[Message], profile: Profile, *, merged: bool) -> list[_Turn]:
    turns: list[_Turn] = []
    before: Role | None = None
    for index, message in enumerate(messages):
        role: Role = "user" if message.role in profile.as_user else message.role
        last = turns[-1] if turns else None
        if last and last.role == role and (merged or message.role == before == "tool"):
            turns[-1] = _Turn(role, last.first, index + 1)
        else:
            turns.append(_Turn(role, index, index + 1))
        before = message.role
    return turns


def violations(
    messages: Sequence[Message],
    profile: Profile,
    *,
    head: Head | None = None,
    last_thinking: bool | None = None,
    merged: bool = True,
    previous_response: bool = False,
    reasoning_ids: bool = True,
    signatures: bool = False,
) -> tuple[Violation, ...]:
    """List what a provider would refuse in a request with these messages, rule by rule.

    Args:
        messages: as they are sent, oldest first.
        profile: how they are read, and the rules.
        head: what is sent with them, if V-B4 is to be judged.
        last_thinking: thinking is on, so that the open turn must begin with it (V-A7); None
            means that the head's binding says so (`leading`).
        merged: whoever encodes the request combines messages of one role (V-B2, V-G2). Where the
            profile merges nothing it makes no difference.
        previous_response: the request continues a stored one (V-R4).
        reasoning_ids: reasoning goes back under its item ids (V-R3).
        signatures: the model asks for thought signatures (V-G4).

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import ToolCall, assistant, tool_result, user
    >>> call = assistant(ToolCall("c1", "read"))
    >>> messages = (user("a"), call, user("b"), tool_result("c1", "42"))
    >>> [v.rule for v in violations(messages, OPENAI_CHAT)]
    ['V-C1', 'V-C2']
    >>> violations(messages, ANTHROPIC)
    (Violation(rule='V-A3', index=2, detail='results of the same turn stand behind this message'),)
    """
    check_each(messages, Message, "messages")
    check_type(profile, Profile, "profile")
    if head is not None:
        check_type(head, Head, "head")
    if last_thinking is None:
        last_thinking = head is not None and head.route.binding == "leading"
    loop = len(messages)
    while loop and messages[loop - 1].role != "user":
        loop -= 1
    request = _Request(
        messages,
        _turns(messages, profile, merged=merged and profile.merges),
        loop,
        head,
        last_thinking,
        previous_response,
        reasoning_ids,
        signatures,
    )
    return tuple(
        Violation(rule, index, detail)
        for rule in profile.rules
        for index, detail in _CHECKS[rule](request)
    )
