r"""Transcripts of Claude Code: JSON Lines whose messages have the shape of the Anthropic API.

Each line of the file stands in a note of its own; what is said on the path is made of one line or
of several, as `ctxalgebra.codecs.claude_code_tree` tells, and read by
`ctxalgebra.codecs.anthropic_messages`:

| lines | entries |
| --- | --- |
| `assistant`, all pieces of one `message.id` | a request that nobody saw leave, and its reply |
| of these, an error of the API (`isApiErrorMessage`) | a request that failed |
| `user` | a result for each `tool_result`, a user message of the rest |
| `user` that summarises what was compacted | `Cut`, declared as a break, with it as the notice |
| side chains (`isSidechain`) of a file that holds more than one | nothing |
| lines that were copied when the session was resumed, what only the transcript shows | nothing |
| everything else: attachments, progress, `system`, titles, ... | nothing |

Usage counts once a message, as its last piece has it; earlier pieces carry stubs. Across a
`compact_boundary` the path goes on by its `logicalParentUuid`. A compaction that takes what no
request has shown yet goes only as far as the model had read (repair `unread`); where nothing is in
front of it, its summary is a user message.

| defect | what becomes of it |
| --- | --- |
| a line that is no JSON object, too deep, too long, with NaN or a lone surrogate | repair with \
its code; it keeps its place in the tree if its ids can be read |
| a line without `type`, a message without content that can be read | repair `missing-field` |
| a parent that is not in the file | repair `unknown-parent`: a root of its own |
| an entry in front of its parent | repair `late-parent` |
| a copy of an earlier line under its id | repair `duplicate-id` |
| defects of calls and results | repairs with the codes of `ctxalgebra.protocol.DEFECTS` |
| nothing in the file, or only white space | error `empty-file` |
| bytes that are not UTF-8 | error `invalid-utf8` |
| parents that run in a circle | error `cyclic-parent` |
| no line of the format | error with the code of the first, or `missing-header` |

Thinking is bound (`prefix`), since the model is a Claude (provider rules T1 to T5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from attrs import evolve, frozen

from ctxalgebra.codecs.anthropic_messages import join_elements, read_element, read_usage
from ctxalgebra.codecs.claude_code_tree import Line, Tree, arrange
from ctxalgebra.codecs.intake import (
    Act,
    Decoded,
    Intake,
    Item,
    Repair,
    bound,
    in_file,
    problem_of,
    take_in,
)
from ctxalgebra.codecs.lines import (
    LIMIT,
    Json,
    blank,
    clock,
    compact,
    filled,
    integer,
    kept,
    parse,
    split,
    string,
)
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.entries import Cut, Entry, Note, Outcome
from ctxalgebra.model.head import Head, Route
from ctxalgebra.model.parts import Message

__all__ = [
    "KINDS",
    "LEAF",
    "NAME",
    "OURS",
    "SYNTHETIC",
    "calls_in",
    "decode",
    "entry_name",
    "is_transcript",
]

NAME = "claude-code"
_PROVIDER = "anthropic"
OURS = "ctxalgebra"
"""The field in which our lines say what the format has no field for."""

LEAF = "-leaf"
"""Ending of the name of the note that says which line is the leaf."""

SYNTHETIC = "<synthetic>"
"""What the host writes for the model of a message that no model gave."""

KINDS = frozenset(
    {
        "assistant",
        "attachment",
        "file-history-snapshot",
        "last-prompt",
        "permission-mode",
        "progress",
        "queue-operation",
        "summary",
        "system",
        "user",
    }
)
"""Kinds of lines that the host has written for long."""

_SPEAKING = ("user", "assistant")
_ID = re.compile(r'"uuid"\s*:\s*"([^"\\]+)"')
_PARENT = re.compile(r'"parentUuid"\s*:\s*"([^"\\]+)"')


def is_transcript(value: Mapping[str, Json]) -> bool:
    """Say whether an object is a line that tells the format by itself."""
    kind, message = string(value.get("type")), value.get("message")
    if kind in _SPEAKING:
        return isinstance(message, dict) and "content" in message and "uuid" in value
    named = "uuid" in value or "sessionId" in value or "leafUuid" in value
    return kind in KINDS and (named or kind == "file-history-snapshot")


def entry_name(name: str, line: int, place: int) -> str:
    """Name the message in this place, from 0, of a line: by its id, or else by its number.

    >>> entry_name("a", 3, 0), entry_name("", 3, 1)
    ('a', '#3#1')
    """
    name = name or f"#{line}"
    return f"{name}#{place}" if place else name


_NOWHERE = Line()


@frozen
class _Row:
    """Hold one line as it was read.

    Args:
        kind: its `type`; empty when the line could not be read.
        line: how it stands in the tree.
        side: it is of a side chain.
        element: the message of the model that it is a piece of.
        messages: what the user or the tools say in it.
        outcome, time: of a reply.
        cut: how a summary says that it cuts; None when the line is no summary.
        problem: what is wrong with it.
    """

    kind: str = ""
    line: Line = _NOWHERE
    side: bool = False
    element: dict[str, Json] | None = None
    messages: tuple[Message, ...] = ()
    outcome: Outcome = "completed"
    time: int | None = None
    cut: dict[str, Json] | None = None
    problem: DecodeError | None = None


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def calls_in(element: dict[str, Json]) -> dict[str, str]:
    """Find the ids of the calls in a message, and the names of their tools."""
    content = element.get("content")
    blocks = [_object(block) for block in content] if isinstance(content, list) else []
    calls = (block for block in blocks if block.get("type") == "tool_use")
    return {string(block.get("id")): string(block.get("name")) for block in calls}


def _read_spoken(value: dict[str, Json], line: Line, names: dict[str, str]) -> _Row:
    """Read a line of the user or of the model."""
    kind, message = string(value.get("type")), value.get("message")
    if not isinstance(message, dict):
        raise DecodeError("missing-field", "no message", field="message")
    ours = _object(value.get(OURS))
    element: dict[str, Json] = {**message, "role": "system" if "system" in ours else kind}
    time = clock(string(value.get("timestamp")))
    if kind == "assistant":
        failed = value.get("isApiErrorMessage") is True
        response = string(message.get("id"))
        called = calls_in(element)
        names.update(called)
        line = evolve(line, role=kind, response=response, calls=(*called,))
        outcome: Outcome = "failed" if failed else "completed"
        return _Row(kind, line, element=element, outcome=outcome, time=time)
    messages = read_element(element, origin=compact(element), names=names)
    answers = tuple(message.call for message in messages if message.role == "tool")
    summary = value.get("isCompactSummary") is True
    if value.get("isVisibleInTranscriptOnly") is True and not summary:
        return _Row(kind, line)
    cut = ours if summary and not answers else None
    return _Row(kind, evolve(line, role=kind, calls=answers), messages=messages, cut=cut)


def _read_row(raw: str, number: int, limit: int, names: dict[str, str]) -> _Row:
    try:
        value = parse(raw, line=number, limit=limit)
    except DecodeError as error:
        own, above = _ID.findall(raw), _PARENT.search(raw)
        line = Line("", own[-1], above[1]) if own and above else _NOWHERE
        return _Row(line=line, problem=kept(error))
    if not isinstance(value, dict):
        return _Row(problem=DecodeError("wrong-type", "not an object", line=number))
    kind = string(value.get("type"))
    parent = string(value.get("parentUuid")) or string(value.get("logicalParentUuid"))
    ours = _object(value.get(OURS))
    line = Line("", string(value.get("uuid")), parent, under=integer(ours.get("parent")))
    if not kind:
        problem = DecodeError("missing-field", "a line without a type", line=number, field="type")
        return _Row(line=line, problem=problem)
    if "leaf" in ours:
        return _Row(kind, evolve(line, role="leaf"))
    if kind not in _SPEAKING:
        return _Row(kind, line)
    try:
        row = _read_spoken(value, line, names)
    except DecodeError as error:
        return _Row(kind, line, problem=kept(error))
    return evolve(row, side=value.get("isSidechain") is True and OURS not in value)


# From lines to items


def _said(row: _Row) -> object:
    if row.element is not None:
        return row.element.get("content")
    return [(message.parts, message.call, message.error) for message in row.messages]


def _silence(rows: Sequence[_Row]) -> tuple[list[Line], list[Repair]]:
    """Take side chains and copies out of the tree."""
    alone = all(row.side for row in rows if row.line.role in _SPEAKING and row.line.under is None)
    first: dict[str, _Row] = {}
    lines: list[Line] = []
    repairs: list[Repair] = []
    for number, row in enumerate(rows, 1):
        line = row.line
        copy = bool(line.role and line.name) and first.setdefault(line.name, row) is not row
        if copy and _said(row) == _said(first[line.name]):
            repairs.append(Repair("duplicate-id", number, "a copy: left out", line.name))
            line = _NOWHERE
        elif row.side and not alone:
            line = evolve(line, role="")
        lines.append(line)
    return lines, repairs


def _of_request(model: str) -> Callable[[Head], Head] | None:
    if not model or model == SYNTHETIC:
        return None
    route = Route(_PROVIDER, model, binding=bound(_PROVIDER))
    return lambda known: known if known.route == route else evolve(known, route=route)


def _cut(notice: Message, ours: dict[str, Json], names: Mapping[str, int]) -> Act:
    def number(intake: Intake, name: Json) -> int:
        found = intake.number(names.get(string(name), -1))
        if found is None:
            raise DecodeError("unknown-entry", "the cut keeps what is not in the file", field=OURS)
        return found

    def act(intake: Intake) -> Entry:
        view = intake.session.view
        first = view.end
        if "kept" in ours:
            first = view.slot(number(intake, ours["kept"]))
        if first > view.read:
            intake.report(intake.at, "unread", "the cut goes only as far as the model had read")
            first = view.read
        if first < 1:
            return notice
        keep = ours.get("keep")
        stay = tuple(number(intake, name) for name in (keep if isinstance(keep, list) else ()))
        through = view.slots.numbers[first - 1]
        return Cut(through, notice, "compaction", stay, breaks=True)

    return act


def _order(tree: Tree, count: int) -> list[tuple[int, int]]:
    """Put lines and units into one order: (line, -1), (-1, unit).

    A unit stands behind its first line, or behind the unit above if that stands later.
    """
    first = {min(unit.lines): index for index, unit in enumerate(tree.units)}
    done = {-1}
    waiting: dict[int, list[int]] = {}
    order: list[tuple[int, int]] = []
    for line in range(count):
        order.append((line, -1))
        todo = [first[line]] if line in first else []
        while todo:
            unit = todo.pop()
            above = tree.units[unit].parent
            if above in done:
                done.add(unit)
                order.append((-1, unit))
                todo += reversed(waiting.pop(unit, []))
            else:
                waiting.setdefault(above, []).append(unit)
    return order


class _Items:
    """Makes items: each line as it is, and what the units say."""

    def __init__(self, raws: Sequence[str], rows: Sequence[_Row], tree: Tree) -> None:
        self.items: list[Item] = []
        self._rows = rows
        self._names: dict[str, int] = {}
        said = [self._read(unit.lines) for unit in tree.units]
        order = _order(tree, len(raws))
        places: dict[int, int] = {}
        count = 0
        for line, unit in order:
            if unit < 0:
                places[line] = count
            count += 1 if unit < 0 else len(said[unit])
        ends = {-1: -1}
        for line, unit in order:
            if unit < 0:
                self.items.append(Item(line + 1, raws[line]))
                continue
            above = ends[tree.units[unit].parent]
            lines = tree.units[unit].lines
            made = tuple(places[line] for line in lines)
            for place, item in enumerate(said[unit]):
                self._add(evolve(item, parent=above, made=made), min(lines), place)
                above = len(self.items) - 1
            ends[unit] = above
        if tree.leaf >= 0:
            leaf = Note(NAME + LEAF, str(tree.units[tree.leaf].lines[-1] + 1))
            self.items.append(Item(len(raws), None, ends[tree.leaf], act=lambda _: leaf))

    def _read(self, lines: Sequence[int]) -> list[Item]:
        """Read what the lines of a unit say."""
        rows = [self._rows[line] for line in lines]
        row, last = rows[0], rows[-1]
        number = min(lines) + 1
        elements = [row.element for row in rows if row.element is not None]
        if elements:
            element = join_elements(elements) if len(elements) > 1 else elements[0]
            (message,) = read_element(element, origin=compact(element))
            return [
                Item(
                    number,
                    None,
                    message=evolve(message, id=last.line.name),
                    outcome=last.outcome,
                    usage=read_usage(element.get("usage")),
                    time=row.time,
                    head=_of_request(string(element.get("model"))),
                )
            ]
        if row.cut is not None:
            return [Item(number, None, act=_cut(row.messages[0], row.cut, self._names))]
        said: tuple[Message | None, ...] = row.messages or (None,)
        return [Item(number, None, message=message) for message in said]

    def _add(self, item: Item, index: int, place: int) -> None:
        name = self._rows[index].line.name
        key = entry_name("" if name in self._names else name, index + 1, place)
        self._names[key] = len(self.items)
        if item.message is not None and not item.message.id and not place:
            item = evolve(item, message=evolve(item.message, id=name))
        self.items.append(evolve(item, name=key))


def decode(data: bytes, *, file: str | None = None, limit: int = LIMIT) -> Decoded:
    r"""Read a transcript.

    Args:
        data: the whole file.
        file: its name, for errors.
        limit: the longest line that is read, in characters; a longer one is only kept.

    Returns:
        The session and the list of repairs, as the module's tables tell.

    Raises:
        DecodeError: `empty-file`, `invalid-utf8`, `cyclic-parent`, `missing-header`, or the code of
            the first line when none can be read.

    >>> line = b'{"type":"user","uuid":"a","message":{"role":"user","content":"hi"}}'
    >>> decoded = decode(line)
    >>> len(decoded.session.view.messages()), decoded.repairs
    (1, ())
    """
    raws = split(data, file=file, limit=limit)
    if not filled(raws):
        raise DecodeError("empty-file", file=file)
    ended = not raws[-1]
    if ended:
        raws.pop()
    items, repairs = _read_items(raws, file, limit)
    return take_in(items, NAME, repairs, ended=ended)


def _read_items(raws: list[str], file: str | None, limit: int) -> tuple[list[Item], list[Repair]]:
    """Read the lines into items; what is in them besides is let go of."""
    tools: dict[str, str] = {}
    rows = [
        _Row() if blank(raw) else _read_row(raw, number, limit, tools)
        for number, raw in enumerate(raws, 1)
    ]
    repairs = _check_readable(rows, file)
    # What is wrong with a line is told by now.
    rows = [row if row.problem is None else evolve(row, problem=None) for row in rows]
    lines, copies = _silence(rows)
    tree = arrange(lines, file=file)
    for index in tree.unknown:
        text = "a root of its own: the parent is not in the file"
        repairs.append(Repair("unknown-parent", index + 1, text, lines[index].name))
    for index in tree.late:
        text = "recorded behind its parent"
        repairs.append(Repair("late-parent", index + 1, text, lines[index].name))
    return _Items(raws, rows, tree).items, [*repairs, *copies]


def _check_readable(rows: Sequence[_Row], file: str | None) -> list[Repair]:
    """List what is wrong with single lines; refuse a file in which nothing is said."""
    problems = [(row.problem, n, row.line.name) for n, row in enumerate(rows, 1) if row.problem]
    if not any(row.line.role for row in rows):
        for problem, number, _ in problems:
            raise in_file(problem, file, number)
        if not any(row.kind in KINDS for row in rows):
            raise DecodeError("missing-header", "no line of a transcript", file=file, line=1)
    return [problem_of(*found) for found in problems]
