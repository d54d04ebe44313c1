"""Cut long tool results to a number of bytes and lines before they are first sent."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from attrs import evolve

from ctxalgebra.compaction.recovery import keep
from ctxalgebra.errors import escaped
from ctxalgebra.explain import carried
from ctxalgebra.model.checks import check_callable, check_items, check_text, check_type
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import Message, Part, Text, ToolCall
from ctxalgebra.model.session import Session, check_session, find
from ctxalgebra.tokens import check_positive
from ctxalgebra.transforms.compact import named_in, originals
from ctxalgebra.transforms.unsent import consult, replacement, results_unsent, shaper

__all__ = ["limit_output", "limited", "texts_of"]

_STAGE = "limit"
_SAVING = 30_000


class _Size(NamedTuple):
    """Bytes in UTF-8, and lines: an unfinished last line counts."""

    bytes: int
    lines: int


def _size(text: str) -> _Size:
    count = len(text) if text.isascii() else len(text.encode())
    return _Size(count, text.count("\n") + (text != "" and not text.endswith("\n")))


def texts_of(message: Message) -> list[str]:
    """List the texts of a message.

    >>> from ctxalgebra import user
    >>> texts_of(user("a"))
    ['a']
    """
    return [part.text for part in message.parts if isinstance(part, Text)]


def _total(message: Message) -> _Size:
    sizes = [_size(text) for text in texts_of(message)]
    return _Size(sum(s.bytes for s in sizes), sum(s.lines for s in sizes))


def _fits(message: Message, max_bytes: int, max_lines: int) -> bool:
    # A character has four bytes at most, and ends one line at most.
    if message.characters * 4 <= max_bytes and message.characters <= max_lines:
        return True
    total = _total(message)
    return total.bytes <= max_bytes and total.lines <= max_lines


def _head(text: str, room: _Size) -> str:
    """Find the longest prefix with so many bytes and lines."""
    end, left = 0, room.lines
    while left and (found := text.find("\n", end) + 1):
        end, left = found, left - 1
    end = len(text) if left else end
    return text[: min(end, room.bytes)].encode()[: room.bytes].decode(errors="ignore")


def _tail(text: str, room: _Size) -> str:
    """Find the longest suffix with so many bytes and lines."""
    if not room.lines or not room.bytes:
        return ""
    start, left = len(text) - text.endswith("\n"), room.lines
    while left and (start := text.rfind("\n", 0, start)) >= 0:
        left -= 1
    start = max(start + 1, len(text) - room.bytes)
    return text[start:].encode()[-room.bytes :].decode(errors="ignore")


def limited(
    message: Message,
    *,
    tail: bool = False,
    max_bytes: int = 20_480,
    max_lines: int = 2_000,
    place: str = "",
    name: str = "",
) -> Message:
    r"""Cut the texts of a message to a number of bytes and lines: the kernel on one message.

    Both hold of all its texts together (tool policy, part B4, semantics 2 to 4 and 6). The first
    text that has no room is cut, at the border of a code point and not only at ends of lines; the
    texts behind it go; images and other parts keep their places. A note of its own, which counts
    for nothing, stands where it was cut and says what is shown of how much.

    Args:
        tail: keep the end, not the beginning.
        max_bytes: in UTF-8.
        max_lines: a last line without an end counts.
        place: where the full text can be read, for the note; what a terminal would act on is
            escaped in it.
        name: under which `retrieve_output` gives the full text, for the note.

    Returns:
        The same object when it fits.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, no positive numbers.

    >>> from ctxalgebra import tool_result
    >>> for part in limited(tool_result("c1", "1\n2\n3\n4\n"), tail=True, max_lines=2).parts:
    ...     print(part.text)
    [Only the last 4 of 8 bytes and 2 of 4 lines are shown; the rest is left out.]
    3
    4
    <BLANKLINE>
    """
    check_type(message, Message, "message")
    check_type(tail, bool, "tail")
    check_text(place, "place")
    check_text(name, "name")
    check_positive(max_bytes=max_bytes, max_lines=max_lines)
    if _fits(message, max_bytes, max_lines):
        return message
    room = _Size(max_bytes, max_lines)
    kept: list[Part | None] = []
    cut = False
    for part in reversed(message.parts) if tail else message.parts:
        if not isinstance(part, Text):
            kept.append(part)
        elif not cut:
            size = _size(part.text)
            cut = size.bytes > room.bytes or size.lines > room.lines
            text = (_tail if tail else _head)(part.text, room) if cut else part.text
            size = _size(text)
            room = _Size(room.bytes - size.bytes, room.lines - size.lines)
            kept += [Text(text)] * bool(text) + [None] * cut
    if tail:
        kept.reverse()
    total = _total(message)
    note = Text(
        f"[Only the {'last' if tail else 'first'} {max_bytes - room.bytes} of {total.bytes} bytes "
        f"and {max_lines - room.lines} of {total.lines} lines are shown{_where(place, name)}]"
    )
    return evolve(message, parts=tuple(part or note for part in kept), origin="")


def _where(place: str, name: str) -> str:
    held = f"; full={name}" if name else ""
    return f"{held}. Full output: {escaped(place)}" if place else held or "; the rest is left out."


def limit_output(
    session: Session,
    *,
    tools: tuple[str, ...] = ("bash", "read", "grep", "find", "ls"),
    tail: tuple[str, ...] = ("bash",),
    max_bytes: int = 20_480,
    max_lines: int = 2_000,
    save: bool = False,
    hold: bool = False,
    passes: Callable[[Session, ToolCall, Message], bool] | None = None,
) -> Session:
    """Cut long results of some tools before they are first sent (a stage).

    What was sent once keeps its form, so nothing breaks. Failed results are cut like others and
    stay marked as failed. With `save`, the full text is saved first, through an `Ask` of the topic
    `save`: the key holds the SHA-256 of the texts joined by newlines, the question is JSON with
    `name` (the same digest) and `text`, the answer's value the place. While the answer is out, and
    when it failed, expired or names no place, the result stays whole; so a request that leaves
    before the answer shows it whole, for good. `drive` has the answers before a request leaves.

    With `hold`, the note names the text (its texts joined by newlines), and `retrieve_output` gives
    it back, while it is among the last ones that the store of compaction holds.

    Views of `compact_output` and digests are nobody's to cut: the ends of a view are no ends of the
    output, and its marks would go. Where a view is over the limits itself, the output as it was
    recorded is limited in its place. What any other stage shaped is cut where the result was too
    long as it was recorded, too: words that stand for a short result stay. A result that would
    become no shorter stays. So this stage stands behind those.

    Args:
        tools: names of the tools whose results are limited.
        tail: of these, the ones that keep their end.
        max_bytes, max_lines: as in `limited`.
        save: have the full text saved, and tell the place.
        hold: have the full text held for `retrieve_output`, and tell its name.
        passes: says of a session, a call and its result as recorded whether it stays whole;
            `compact.exact` does of what must be read word by word.

    Reads: what was not sent, answers; with `hold`, `originals`. Records: `Ask` and `Replace`, or
    nothing.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, no positive numbers.

    >>> from ctxalgebra import assistant, project, record, tool_result
    >>> call, result = ToolCall("c1", "bash"), tool_result("c1", "0123456789" * 50)
    >>> session = limit_output(record(Session(), assistant(call), result), max_bytes=3)
    >>> [part.text for part in project(session).messages[-1].parts]
    ['[Only the last 3 of 500 bytes and 1 of 1 lines are shown; the rest is left out.]', '789']
    """
    check_session(session)
    check_items(tools, str, "tools")
    check_items(tail, str, "tail")
    check_positive(max_bytes=max_bytes, max_lines=max_lines)
    check_type(save, bool, "save")
    check_type(hold, bool, "hold")
    if passes is not None:
        check_callable(passes, "passes")
    for call, number, result in results_unsent(session, _STAGE, tools):
        by = shaper(session, number)
        original = carried(find(session, number)) or result
        if by == "digest" or any(_fits(m, max_bytes, max_lines) for m in (result, original)):
            continue
        if passes is not None and passes(session, call, original):
            continue
        whole = original if by == "compact" else result
        text = "\n".join(texts_of(whole))
        name = keep(originals(session).store, text)[1] if hold else ""
        place = ""
        if save:
            session, place = _saved(session, text)
            if not place:
                continue
        small = limited(
            whole,
            tail=call.name in tail,
            max_bytes=max_bytes,
            max_lines=max_lines,
            place=place,
            name=name,
        )
        if small.characters < result.characters:
            total = _total(whole)
            why = named_in(f"{total.bytes} bytes, {total.lines} lines", name)
            session = record(session, replacement(_STAGE, number, small, why))
    return session


def _saved(session: Session, text: str) -> tuple[Session, str]:
    question: dict[str, str | int] = {"name": sha256(text.encode()).hexdigest(), "text": text}
    session, answer = consult(session, "save", text, question, _SAVING)
    saved = answer is not None and answer.outcome == "answered"
    return session, answer.value.strip() if answer is not None and saved else ""
