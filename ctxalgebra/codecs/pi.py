r"""Session files of the pi coding agent: JSON Lines, versions 1 to 3.

Reading follows the host (its format, sections 1 to 5): lines that are not JSON are passed over,
the tree is that of `parentId`, the leaf is the last entry of the file, compaction and edits apply
at the place where they stand. What each line becomes:

| line | entry |
| --- | --- |
| `session` (the header) | a note; in version 1 also the head, which it names |
| `message`, `custom_message`, `branch_summary` | a message; one of the model closes a request |
| `model_change` | `Head`, with the new route |
| `compaction` | `Cut`, declared as a break, with the summary as its notice |
| `context_edit` | `Replace`; a result that is taken away becomes a stub |
| `label` | `Label` |
| `usage` with a `targetId` | `UsageReport` for the request that this reply answered |
| anything else | a note |

What the gate refuses of these is a note and a repair with the gate's code. A compaction that takes
what no request has shown yet goes only as far as the model had read (repair `unread`). How text
survives that gives no entry, and what stands in front of a repair, is told in
`ctxalgebra.codecs.intake`.

| defect | what becomes of it |
| --- | --- |
| a line that is no JSON object, too deep, too long, with NaN or a lone surrogate | repair with \
its code; it keeps its place in the tree if its ids can be read |
| no header | repair `missing-header` |
| a parent that is not in the file | repair `unknown-parent`: a root of its own; but the session's \
id stands for the root, and a call's id for the entry with that call |
| an entry without an id, in version 2 and later | it keeps its place; what we write names it by \
its line (`line_name`) |
| an entry in front of its parent | repair `late-parent` |
| an entry or a role of an unknown kind | repair `unknown-kind`, `wrong-role` |
| defects of calls and results | repairs with the codes of `ctxalgebra.protocol.DEFECTS` |
| nothing in the file, or only white space | error `empty-file` |
| bytes that are not UTF-8 | error `invalid-utf8` |
| two entries with one id | error `duplicate-id` |
| parents that run in a circle | error `cyclic-parent` |
| no line that can be read | error with the code of the first, or `missing-header` |

Thinking is bound (`prefix`) where provider or model name Claude or Anthropic, and free (`none`)
elsewhere (provider rules T1 to T5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial

from attrs import evolve, frozen

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
    Number,
    blank,
    filled,
    integer,
    kept,
    parse,
    quote,
    split,
    string,
)
from ctxalgebra.codecs.pi_messages import Spoken, notice_text, read_blocks, read_message
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.entries import (
    Cut,
    Drop,
    Entry,
    Label,
    Note,
    Replace,
    Reply,
    Sent,
    UsageReport,
)
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Head, Route
from ctxalgebra.model.parts import Text, user
from ctxalgebra.model.session import Session, find

__all__ = ["HEADLESS", "KINDS", "NAME", "Row", "decode", "line_name", "read_row", "route"]

NAME = "pi"
HEADLESS = "-headless"
"""Ending of the name of the note in front of a file that has no header."""

KINDS = frozenset(
    {
        "session",
        "message",
        "thinking_level_change",
        "model_change",
        "compaction",
        "branch_summary",
        "custom",
        "custom_message",
        "label",
        "session_info",
        "usage",
        "context_edit",
    }
)
"""The kinds of lines that the host writes."""

_ID = re.compile(r'"id"\s*:\s*"([^"\\]+)"')
_PARENT = re.compile(r'"parentId"\s*:\s*(?:"([^"\\]+)"|null)')
_NEAR = 400
"""Where in a broken line its ids are looked for: the host writes them first."""

_REMOVED = "(This output was removed from the conversation.)"


@frozen
class Row:
    """Hold one line as it was read.

    Args:
        kind: its `type`; empty when the line could not be read.
        name, parent: its ids; `parent` is None where the line names none. What we wrote under a
            line without an id names that line beside its `parentId`, in `ctxalgebra`.
        spoken: the message in it.
        value: the object, for kinds that are neither messages nor notes.
        problem: what is wrong with it.
    """

    kind: str
    name: str = ""
    parent: str | None = None
    spoken: Spoken | None = None
    value: dict[str, Json] | None = None
    problem: DecodeError | None = None


def _spoken(value: dict[str, Json], kind: str, name: str, raw: str) -> Spoken | None:
    if kind == "message":
        message = value.get("message")
        if not isinstance(message, dict):
            raise DecodeError("missing-field", "no message", field="message")
        return read_message(message, name=name, origin=raw)
    role = {"custom_message": "custom", "branch_summary": "branchSummary"}.get(kind)
    return (role and read_message({**value, "role": role}, name=name, origin=raw)) or None


def read_row(raw: str, *, line: int = 1, limit: int = LIMIT) -> Row:
    """Read one line; what is wrong with it is told in its `problem`."""
    try:
        value = parse(raw, line=line, limit=limit)
    except DecodeError as error:
        own, upper = _ID.search(raw, 0, _NEAR), _PARENT.search(raw, 0, _NEAR)
        if own is None or upper is None:
            return Row("", problem=kept(error))
        return Row("", own[1], upper[1], problem=kept(error))
    if not isinstance(value, dict):
        return Row("", problem=DecodeError("wrong-type", "not an object", line=line))
    kind, name = string(value.get("type")), string(value.get("id"))
    ours = value.get("ctxalgebra")
    above = ours.get("parentId") if isinstance(ours, dict) else value.get("parentId")
    # What JavaScript takes for false ends the path; any other value is an id that nothing has.
    parent = above if isinstance(above, str) else None if _false(above) else "\0"
    try:
        spoken = _spoken(value, kind, name, raw)
    except DecodeError as error:
        return Row(kind or "?", name, parent, problem=kept(error))
    problem = None
    if kind not in KINDS:
        problem = DecodeError("unknown-kind", f"a line of type {kind!r}", field="type")
    acts = value if kind in _ACTS or kind == "session" else None
    return Row(kind or "?", name, parent or None, spoken, acts, problem)


def _false(value: Json) -> bool:
    return value is None or value is False or (isinstance(value, Number) and value.text == "0")


def line_name(line: int, taken: Collection[str]) -> str:
    """Name the line with this number, which has no id, unlike all ids in `taken`.

    >>> line_name(3, {"#3"})
    '#3#'
    """
    name = f"#{line}"
    while name in taken:
        name += "#"
    return name


def route(provider: str, model: str, api: str, known: Route) -> Route:
    """Give the route that a line names, from the one that holds; it may name only a part."""
    if not (provider or model or api):
        return known
    provider, model = provider or known.provider, model or known.model
    same = (provider, model) == (known.provider, known.model)
    parameters = (("api", quote(api)),) if api else known.parameters if same else ()
    return Route(provider, model, parameters, bound(f"{provider}/{model}"))


# Lines that are neither messages nor notes


def _model_change(value: dict[str, Json], _names: dict[str, int]) -> Act | None:
    provider, model = string(value.get("provider")), string(value.get("modelId"))
    if "model" in value and not model:
        # A variant writes `provider/model`, and models for other roles than the main one.
        if value.get("role", "default") != "default":
            return None
        provider, _, model = string(value.get("model")).partition("/")
    if not (provider or model):
        return None
    return lambda intake: evolve(
        intake.session.head, route=route(provider, model, "", intake.session.head.route)
    )


def _number(intake: Intake, names: dict[str, int], name: Json, what: str) -> int:
    number = intake.number(names.get(string(name), -1))
    if number is None:
        raise DecodeError("unknown-entry", f"{what} names no entry in front of it", field=what)
    return number


def _label(value: dict[str, Json], names: dict[str, int]) -> Act:
    return lambda intake: Label(
        _number(intake, names, value.get("targetId"), "targetId"), string(value.get("label"))
    )


def _first_kept(intake: Intake, number: int | None) -> int:
    """Find the slot of the first message that a compaction keeps."""
    view = intake.session.view
    if number is None or find(intake.session, number) is None:
        return view.end
    slot = view.slot(number)
    if slot >= 0:
        return slot
    numbers = view.slots.numbers
    return next((s for s in range(view.end) if numbers[s] > number), view.end)


def _compaction(value: dict[str, Json], names: dict[str, int]) -> Act:
    details = value.get("details")
    ours = details.get("ctxalgebra") if isinstance(details, dict) else None
    known: dict[str, Json] = ours if isinstance(ours, dict) else {}
    exact, keep = known.get("notice"), known.get("keep")
    kept = string(value.get("firstKeptEntryId")) or f"#{integer(value.get('firstKeptEntryIndex'))}"
    if isinstance(exact, list):
        notice = user(read_blocks(exact), id=string(value.get("id")))
    else:
        notice = user(notice_text(string(value.get("summary"))), id=string(value.get("id")))

    def act(intake: Intake) -> Entry:
        first = _first_kept(intake, intake.number(names.get(kept, -1)))
        read = intake.session.view.read
        if first > read:
            intake.report(intake.at, "unread", "the cut goes only as far as the model had read")
        first = min(first, read)
        if not first:
            raise DecodeError("no-change", "the summary takes no message away")
        stay = [
            _number(intake, names, item, "keep") for item in (keep if type(keep) is list else ())
        ]
        through = intake.session.view.slots.numbers[first - 1]
        return Cut(through, notice, "compaction", tuple(stay), breaks=True)

    return act


def _context_edit(value: dict[str, Json], names: dict[str, int]) -> Act:
    replacement = value.get("replacement")

    def act(intake: Intake) -> Entry:
        view = intake.session.view
        target = _number(intake, names, value.get("targetId"), "targetId")
        slot = view.slot(target)
        if slot < 0:
            raise DecodeError("not-shown", "the edited message is not shown here")
        shown = view.slots.messages[slot]
        if isinstance(replacement, dict):
            parts = read_blocks(replacement.get("content"), speaks=shown.role == "assistant")
        elif shown.role == "tool":
            parts = (Text(_REMOVED),)
        else:
            return Drop(target, target, "context edit", breaks=True)
        if parts == shown.parts:
            raise DecodeError("no-change", "the message is like that already")
        return Replace(target, evolve(shown, parts=parts, origin=""), "context edit", breaks=True)

    return act


def _usage(value: dict[str, Json], names: dict[str, int]) -> Act | None:
    usage = read_message({"role": "assistant", "usage": value.get("usage")})
    if usage is None or usage.usage is None or "targetId" not in value:
        return None
    cost = usage.usage

    def act(intake: Intake) -> Entry:
        number = _number(intake, names, value.get("targetId"), "targetId")
        node = find(intake.session, number, along="log")
        reply = node is not None and isinstance(node.entry, Reply)
        while node is not None and not isinstance(node.entry, Sent):
            node = node.parent
        if node is None or not reply:
            raise DecodeError("unknown-request", "the target answers no request")
        return UsageReport(node.number, cost)

    return act


_ACTS: dict[str, Callable[[dict[str, Json], dict[str, int]], Act | None]] = {
    "model_change": _model_change,
    "label": _label,
    "compaction": _compaction,
    "context_edit": _context_edit,
    "usage": _usage,
}


# The tree


@frozen
class _Tree:
    """Where each line stands: `parents` by line (None: nowhere), `names` of entries, repairs."""

    parents: list[int | None]
    names: dict[str, int]
    repairs: list[Repair]


def _chain(rows: Sequence[Row], header: int) -> _Tree:
    """Version 1: the order is the tree, and lines are named by their number among the objects."""
    parents: list[int | None] = []
    names: dict[str, int] = {}
    above, count = -1, 0
    for index, row in enumerate(rows):
        stands = bool(row.kind) and (row.kind != "session" or index == header)
        parents.append(above if stands else None)
        if stands:
            above = index
            if index != header:
                names[f"#{count}"] = index
        count += bool(row.kind)
    return _Tree(parents, names, [])


def _tree(rows: Sequence[Row], header: int, file: str | None) -> _Tree:
    """Version 2 and later: each line names its parent."""
    names: dict[str, int] = {}
    calls: dict[str, int] = {}
    stands = [bool(row.kind) and row.kind != "session" for row in rows]
    for index, row in enumerate(rows):
        if stands[index] and row.name and names.setdefault(row.name, index) != index:
            first = names[row.name] + 1
            raise DecodeError(
                "duplicate-id",
                f"line {first} has the same id",
                file=file,
                line=index + 1,
                entry=row.name,
                field="id",
            )
        for call in row.spoken.message.calls if row.spoken else ():
            calls.setdefault(call.id, index)
    for index, row in enumerate(rows):
        if not row.kind and row.name:
            stands[index] = names.setdefault(row.name, index) == index
    named = frozenset(names)
    for index, row in enumerate(rows):
        if stands[index] and not row.name:
            names[line_name(index + 1, named)] = index
    tree = _Tree([], names, [])
    for index, row in enumerate(rows):
        parent: int | None = header
        if not stands[index]:
            parent = -1 if index == header else None
        elif row.parent is not None and row.parent in names:
            parent = names[row.parent]
        elif row.parent is not None:
            text = "a root of its own: the parent is not in the file"
            if header >= 0 and row.parent == rows[header].name:
                text = "a root: the parent is the session itself"
            elif calls.get(row.parent, index) < index:
                parent = calls[row.parent]
                text = "the parent is a call: stands under the entry with it"
            tree.repairs.append(Repair("unknown-parent", index + 1, text, row.name))
        tree.parents.append(parent)
    _check_circles(rows, tree.parents, file)
    return tree


def _check_circles(rows: Sequence[Row], parents: Sequence[int | None], file: str | None) -> None:
    known = [False] * len(parents)
    for start in range(len(parents)):
        trail: set[int] = set()
        at: int | None = start
        while at is not None and at >= 0 and not known[at]:
            if at in trail:
                raise DecodeError(
                    "cyclic-parent",
                    file=file,
                    line=at + 1,
                    entry=rows[at].name,
                    field="parentId",
                )
            trail.add(at)
            at = parents[at]
        for index in trail:
            known[index] = True


def _head(provider: str, model: str, api: str, known: Head) -> Head:
    now = route(provider, model, api, known.route)
    return known if now == known.route else evolve(known, route=now)


def _item(index: int, raw: str, row: Row, parent: int | None, names: dict[str, int]) -> Item:
    spoken = row.spoken
    if spoken is None:
        act = None
        if parent is not None and row.value is not None:
            act = _ACTS.get(row.kind, _model_change)(row.value, names)
        return Item(index + 1, raw, parent, act=act, name=row.name)
    if spoken.message.role != "assistant":
        return Item(index + 1, raw, parent, spoken.message, name=row.name)
    return Item(
        index + 1,
        raw,
        parent,
        spoken.message,
        spoken.outcome,
        spoken.usage,
        spoken.time,
        partial(_head, spoken.provider, spoken.model, spoken.api),
        name=row.name,
    )


def decode(data: bytes, *, file: str | None = None, limit: int = LIMIT) -> Decoded:
    r"""Read a session file.

    Args:
        data: the whole file.
        file: its name, for errors.
        limit: the longest line that is read, in characters; a longer one is only kept.

    Returns:
        The session and the list of repairs, as the module's tables tell.

    Raises:
        DecodeError: `empty-file`, `invalid-utf8`, `missing-header`, `duplicate-id`,
            `cyclic-parent`, or the code of the first line when none can be read.

    >>> line = b'{"type":"message","message":{"role":"user","content":"hi"}}'
    >>> decoded = decode(b'{"type":"session","id":"s"}\n' + line)
    >>> len(decoded.session.view.messages()), decoded.repairs
    (1, ())
    """
    lines = split(data, file=file, limit=limit)
    if not filled(lines):
        raise DecodeError("empty-file", file=file)
    ended = not lines[-1]
    if ended:
        lines.pop()
    items, repairs, start = _read_items(lines, file, limit)
    return take_in(items, NAME, repairs, start, ended=ended)


def _read_items(
    lines: list[str], file: str | None, limit: int
) -> tuple[list[Item], list[Repair], Session]:
    """Read the lines into items, with what was repaired and what stands in front of them.

    What is in the rows besides is let go of before anything is recorded.
    """
    rows = [
        Row("") if blank(raw) else read_row(raw, line=index + 1, limit=limit)
        for index, raw in enumerate(lines)
    ]
    header = next((index for index, row in enumerate(rows) if row.kind), -1)
    if header < 0 or rows[header].kind != "session":
        header = -1
    repairs = _check_readable(rows, header, file)
    # What is wrong with a line is told by now.
    rows = [row if row.problem is None else evolve(row, problem=None) for row in rows]
    version = 1
    if header >= 0:
        version = integer((rows[header].value or {}).get("version")) or 1
    elif any(row.name for row in rows if row.kind != "session"):
        version = 3
    tree = _chain(rows, header) if version < 2 else _tree(rows, header, file)
    items = [
        _item(index, raw, row, parent, tree.names)
        for index, (raw, row, parent) in enumerate(zip(lines, rows, tree.parents, strict=True))
    ]
    start = Session() if header >= 0 else record(Session(), Note(NAME + HEADLESS))
    return items, [*repairs, *tree.repairs], start


def _check_readable(rows: Sequence[Row], header: int, file: str | None) -> list[Repair]:
    """List what is wrong with single lines; refuse a file in which nothing can be read."""
    repairs = [
        problem_of(row.problem, index + 1, row.name)
        for index, row in enumerate(rows)
        if row.problem is not None
    ]
    for index, row in enumerate(rows):
        if row.kind == "session" and index != header:
            repairs.append(Repair("unknown-kind", index + 1, "a second header", row.name))
    entries = {row.kind for index, row in enumerate(rows) if index != header}
    if not entries & KINDS:
        for row in rows:
            if not row.kind and row.problem is not None:
                raise in_file(row.problem, file)
        if header < 0:
            raise DecodeError("missing-header", file=file, line=1)
    elif header < 0:
        repairs.append(Repair("missing-header", 1, "read without one"))
    return repairs
