"""Leave out of a write call what it wrote, before it is first sent, and state it as a fact."""

from __future__ import annotations

from typing import NamedTuple

from attrs import evolve

from ctxalgebra.errors import escaped
from ctxalgebra.model.checks import check_items, check_type
from ctxalgebra.model.entries import Answer
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import Message, Text, Thinking, ToolCall
from ctxalgebra.model.session import Session, check_session
from ctxalgebra.tokens import check_positive
from ctxalgebra.transforms.arguments import Place, members, rewritten, text_member, texts_in
from ctxalgebra.transforms.facts import count_lines, heuristic_fact, normalize_fact, replied
from ctxalgebra.transforms.unsent import (
    Exchange,
    check_deadline,
    consult,
    exchanges_unsent,
    replacement,
    settled,
    shorten,
)

__all__ = ["write_facts"]

_STAGE = "fact"
_NEW = ("content", "newText", "new_string")
_OLD = ("oldText", "old_string")
_WAYS = {(name,) for name in (*_NEW, *_OLD)} | {("edits", "*", name) for name in (*_NEW, *_OLD)}
_PATHS = ("path", "file_path")
_SHORTEST = 8


class _Written(NamedTuple):
    """A call that wrote: where, what is new, its arguments without, and how many edits it made."""

    path: str
    content: str
    arguments: str
    edits: int


class _Asking(NamedTuple):
    """How a model is asked: tokens of its reply, characters that it sees, milliseconds."""

    longest: int
    shown: int
    deadline: int


def write_facts(
    session: Session,
    *,
    tools: tuple[str, ...] = ("write", "edit"),
    over: int = 400,
    model: bool = False,
    longest: int = 32,
    shown: int = 4_000,
    deadline: int = 20_000,
) -> Session:
    r"""Replace what a write call wrote by a fact, from the first request on (a stage).

    The model knows what it has just written, and can read the file again; what is paid for in every
    later request is the copy in the call. When all calls of a message have their results, and
    before any request shows them, the texts in the arguments of its writes (`content`; for edits
    `oldText`, `newText`, `old_string`, `new_string`, at the top or in the list `edits`) become
    a few words in the same places; all other bytes of the arguments stay. The fact stands at the
    end of that write's own result: path, what it is, lines; in one line, where what a
    terminal would act on is escaped.

    Left as they are: calls whose result is an error; texts of fewer than `over` characters a call;
    signed calls; arguments that are no JSON object, or name no `path` or `file_path`; calls with
    thinking behind them in their message, which would lose it; and what would not become shorter.

    Args:
        tools: names of the tools that write.
        over: characters of all these texts in one call, at least.
        model: ask a model what a written file is, with an `Ask` of the topic `fact`; the question
            is JSON with `longest` (tokens of the reply) and `prompt`. A message is settled when all
            its facts are there; a request that leaves before shows it whole, for good, and what
            is answered then is recorded, and no more. Where that fails, and always for edits, the
            fact is found in the text.
        longest: tokens of the reply.
        shown: characters of a written file that the question holds.
        deadline: milliseconds that the adapter may take.

    Reads: what was not sent, answers. Records: `Ask` and `Replace`, or nothing.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, no positive numbers.

    >>> from ctxalgebra import assistant, project, tool_result
    >>> call = ToolCall("c1", "write", '{"path":"a.py","content":"# Adds.\\n' + "x" * 500 + '"}')
    >>> session = record(Session(), assistant(call), tool_result("c1", "ok"))
    >>> _, result = project(write_facts(session)).messages
    >>> [part.text for part in result.parts]
    ['ok', '[Wrote a.py — Adds., ~2 lines]']
    >>> print(project(write_facts(session)).messages[0].calls[0].arguments[26:])
    [left out: 508 characters, 2 lines; read the file for what it holds now]"}
    """
    check_session(session)
    check_items(tools, str, "tools")
    check_positive(over=over, longest=longest, shown=shown)
    check_type(model, bool, "model")
    check_deadline(deadline)
    asking = _Asking(longest, shown, deadline) if model else None
    for exchange in exchanges_unsent(session):
        if not settled(session, _STAGE, exchange.number):
            session = _settle(session, exchange, tools, over, asking)
    return session


def _settle(
    session: Session,
    exchange: Exchange,
    tools: tuple[str, ...],
    over: int,
    asking: _Asking | None,
) -> Session:
    """Decide on one exchange, when every fact is there."""
    message = exchange.message
    parts = list(message.parts)
    bound = max((i for i, part in enumerate(parts) if isinstance(part, Thinking)), default=-1)
    behind = iter(exchange.results)
    facts: list[tuple[int, Message, str]] = []
    waits = False
    saved = 0
    for at, call in enumerate(parts):
        if not isinstance(call, ToolCall):
            continue
        number, result = next(behind)
        if call.name not in tools or call.signature or result.error or at < bound:
            continue
        written = _written(call, over)
        if written is None:
            continue
        answer: Answer | None = None
        if asking is not None and not written.edits:
            session, answer = _asked(session, written, asking)
            waits = waits or answer is None
        fact = _fact(written, answer)
        gain = len(call.arguments) - len(written.arguments) - len(fact)
        if gain > 0:
            saved += gain
            parts[at] = evolve(call, arguments=written.arguments)
            facts.append((number, result, fact))
    if waits or not facts:
        return session
    why = f"{saved} characters of writes"
    small = evolve(message, parts=tuple(parts), origin="")
    told = [(n, evolve(m, parts=(*m.parts, Text(f)), origin="")) for n, m, f in facts]
    decided = [replacement(_STAGE, n, m, "of what was written") for n, m in told]
    return record(session, replacement(_STAGE, exchange.number, small, why), *decided)


def _written(call: ToolCall, over: int) -> _Written | None:
    if len(call.arguments) < over or members(call.arguments) is None:
        return None
    path = text_member(call.arguments, *_PATHS)
    places = [place for place in texts_in(call.arguments) if place.way in _WAYS]
    if not path or sum(len(place.text) for place in places) < over:
        return None
    shorter = [p for p in places if len(_left_out(p)) + 2 < p.end - p.start]
    arguments = rewritten(call.arguments, shorter, _left_out)
    new = [place for place in places if place.way[-1] in _NEW]
    edits = 0 if [place.way for place in places] == [("content",)] else max(1, len(new))
    return _Written(escaped(path), "\n".join(place.text for place in new), arguments, edits)


def _left_out(place: Place) -> str:
    what = f"[left out: {len(place.text)} characters, {count_lines(place.text)} lines"
    if place.way[-1] in _OLD:
        return f"{what} that this edit replaced]"
    return f"{what}; read the file for what it holds now]"


def _fact(written: _Written, answer: Answer | None) -> str:
    if written.edits:
        count = f"{written.edits} edits" if written.edits > 1 else "1 edit"
        lines = count_lines(written.content) if written.content else 0
        return f"[Edited {written.path} — {count}, {lines} lines put in]"
    if answer is not None and answer.outcome == "answered" and (said := replied(answer.value)):
        fact = normalize_fact(said, written.path)
        if len(fact) > _SHORTEST:
            return fact
    return escaped(heuristic_fact(written.path, written.content))


def _asked(session: Session, written: _Written, asking: _Asking) -> tuple[Session, Answer | None]:
    lines = count_lines(written.content)
    prompt = (
        "You note in one line what a file that was just written is, for the agent that wrote it.\n"
        f"Reply with exactly: [Wrote {written.path} — <what it is, its parts>, ~{lines} lines]\n"
        "At most 25 words; no quotes, no markdown, nothing else.\n"
        f"Path: {written.path}\nLines: {lines}\n"
        f"<content>\n{shorten(written.content, asking.shown)}\n</content>\nFact:"
    )
    of = f"{written.path}\n{written.content}"
    question: dict[str, str | int] = {"longest": asking.longest, "prompt": prompt}
    return consult(session, "fact", of, question, asking.deadline)
