"""What the original working memory makes of a tool result: a digest, a fact, a mark.

An event is the host's `tool_result` as plain JSON: `toolName`, `input`, `content`, `details`,
`isError`. A reply is that of the auxiliary model, None for no reply (specification of the working
memory, sections 4, 6.1 and 7.1).

Two faults are not kept: results of failing commands are digested too (W12), and the notes that the
host really writes are taken out (W11).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from attrs import frozen

from ctxalgebra.codecs.pi_weights import text_tokens, utf16_length
from ctxalgebra.compat.memory_replies import said
from ctxalgebra.compat.memory_texts import extract_text
from ctxalgebra.compat.memory_truncate import truncate_tail
from ctxalgebra.transforms.facts import heuristic_fact, normalize_fact, sanitize_output, verdict
from ctxalgebra.transforms.memory_settings import MemorySettings
from ctxalgebra.utf16 import trim

__all__ = ["FALLBACK_LINES", "TAGGED", "Digest", "Fact", "digested", "fact_of", "tagged"]

Event: TypeAlias = Mapping[str, Any]

FALLBACK_LINES = 120
"""Most lines that are shown of an output when there is no digest."""

TAGGED = frozenset({"read", "grep", "find", "ls", "find_capability"})
"""The tools whose results are tagged."""

_SHORTEST_FACT = 8
_POINTERS = frozenset({"fullOutputPath", "truncation"})


@frozen
class Digest:
    """Hold what stands for an output.

    Args:
        text: the one text block that the content becomes.
        details: those of the event, without what points at the output, and with the figures.
        saved: tokens; may be negative.
    """

    text: str
    details: Mapping[str, Any]
    saved: int


@frozen
class Fact:
    """Hold a fact about a written file, and the tokens that it saves."""

    text: str
    saved: int


def _members(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def digested(
    settings: MemorySettings, event: Event, reply: str | None, *, note: str
) -> Digest | None:
    """Put a digest in the place of a command's output, or its end; None leaves it as it is.

    Args:
        settings: `bash`, `bash_min_tokens` and `bash_fallback_bytes` count.
        event: the result.
        reply: the digest.
        note: what stands behind the end of the output where there is no digest.
    """
    if not (settings.enabled and settings.bash and event.get("toolName") == "bash"):
        return None
    raw = extract_text(event.get("content"))
    if not trim(raw):
        return None
    text = sanitize_output(raw)
    tokens = text_tokens(text)
    if tokens < settings.bash_min_tokens:
        return None
    details = {n: v for n, v in _members(event.get("details")).items() if n not in _POINTERS}
    shown = said(reply)
    if shown is not None:
        known = {"summarized": True, "originalTokens": tokens, "summaryTokens": text_tokens(shown)}
    else:
        end = truncate_tail(text, FALLBACK_LINES, settings.bash_fallback_bytes).content
        shown = sanitize_output(end) + note
        known = {
            "summarized": False,
            "originalTokens": tokens,
            "fallbackTokens": text_tokens(shown),
        }
    return Digest(shown, {**details, **known}, tokens - text_tokens(shown))


def fact_of(settings: MemorySettings, event: Event, reply: str | None) -> Fact | None:
    """Word a fact about a file that was written; None where there is none to word.

    Args:
        settings: `write` and `write_min_bytes` count.
        event: the result.
        reply: the model's fact; one that says nothing leaves it to the rule.
    """
    given = _members(event.get("input"))
    path, content = given.get("path"), given.get("content")
    if (
        not (settings.enabled and settings.write and event.get("toolName") == "write")
        or event.get("isError")
        or not (isinstance(path, str) and path)
        or not (isinstance(content, str) and content)
        or utf16_length(content) < settings.write_min_bytes
    ):
        return None
    answer = said(reply)
    text = "" if answer is None else normalize_fact(answer, path)
    if utf16_length(text) <= _SHORTEST_FACT:
        text = heuristic_fact(path, content)
    return Fact(text, max(0, text_tokens(content) - text_tokens(text)))


def tagged(settings: MemorySettings, event: Event, reply: str | None) -> tuple[bool, bool]:
    """Say whether the tagger is asked about a result, and whether the result may leave.

    Args:
        settings: `amnesia` and `amnesia_min_tokens` count.
        event: the result.
        reply: the tagger's.
    """
    text = extract_text(event.get("content"))
    name = event.get("toolName")
    asked = (
        settings.enabled
        and settings.amnesia
        and isinstance(name, str)
        and name in TAGGED
        and not event.get("isError")
        and trim(text) != ""
        and text_tokens(text) >= settings.amnesia_min_tokens
    )
    return asked, asked and verdict(said(reply)) == "DROP"
