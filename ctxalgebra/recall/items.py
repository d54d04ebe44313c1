"""Items: what history is made of. A message of the user, or a turn of the model with its results.

What may be shown of an item again is its public view: thinking, and what the library does not
read, leave an empty slot in a turn, so that the others keep their index; signatures are gone.
Results of recall's own tools are left out, or each search would find the searches before it.
Nothing else is touched: texts, arguments and results are those that were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, Protocol, cast

from attrs import evolve, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.parts import Image, Message, Opaque, Part, Text, ToolCall
from ctxalgebra.recall.texts import quote, read_json, unescaped

__all__ = [
    "RECALL_NAMES",
    "Form",
    "Item",
    "Kind",
    "PublicItem",
    "Record",
    "absent",
    "document",
    "files_in",
    "is_recall_turn",
    "item_json",
    "model_turn",
    "part_json",
    "public_item",
    "public_part",
    "withheld",
]

Form = Literal["text", "json"]
Kind = Literal["user", "system", "modelTurn"]

RECALL_NAMES = ("search_history", "browse_history", "load_history", "read_context_output")
"""The names of recall's tools."""

_PATHS = frozenset(("path", "file", "files", "filepath", "file_path"))


class Record(Protocol):
    """What an index reads of an item, wherever that came from."""

    @property
    def id(self) -> str:
        """Its address."""
        ...

    @property
    def kind(self) -> str:
        """What it is."""
        ...

    @property
    def timestamp(self) -> str | None:
        """When it was recorded, as the host writes it, if it does."""
        ...

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of its calls."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """The files that its calls name."""
        ...

    @property
    def failed(self) -> bool:
        """Whether it was broken off, or a tool failed."""
        ...

    @property
    def hidden(self) -> bool:
        """Whether search and browse pass over it."""
        ...

    def content(self) -> Iterable[str]:
        """Give the texts of its message, and the JSON of what is no text."""
        ...

    def words(self) -> Iterable[tuple[str, int]]:
        """Give the texts to search, and how often each counts."""
        ...

    def public(self, sequence: int) -> Any:
        """Give what may be shown of it again, and its place."""
        ...

    def output(self, call: str | None, index: int | None) -> tuple[str, Form]:
        """Give the result of a call, or a part of the message, as text."""
        ...


@frozen
class Item:
    """Hold a user's or system message, or a turn: an assistant message and its results.

    Args:
        id: the address: the entry number of the message, as text.
        number: the entry number; in a plain list, the index.
        message: as it was recorded.
        results: as they were recorded, in the order in which they came.
        numbers: the entry numbers of the results.
        interrupted: the reply was aborted or failed; its calls may lack results.
        tools: names of all calls, in order.
        files: what the calls name as files, each once.
        failed: interrupted, or a tool failed.
    """

    id: str
    kind: Kind
    number: int
    message: Message
    results: tuple[Message, ...] = ()
    numbers: tuple[int, ...] = ()
    interrupted: bool = False
    tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    failed: bool = False

    @property
    def timestamp(self) -> str | None:
        """Entries have no time."""
        return None

    @property
    def hidden(self) -> bool:
        """Whether there is nothing in it but calls of recall and their results."""
        return (
            bool(self.tools)
            and set(self.tools) <= set(RECALL_NAMES)
            and not any(type(part) is Text and part.text.strip() for part in self.message.parts)
        )

    def content(self) -> Iterator[str]:
        """Give the texts of the message, and the JSON of what is no text."""
        for part in _public_parts(self):
            if part is not None:
                yield part.text if type(part) is Text else part_json(part)

    def words(self) -> Iterator[tuple[str, int]]:
        """Give the texts to search."""
        shown = _public_parts(self)
        calls = [part for part in shown if type(part) is ToolCall]
        yield from document(
            [_searched(part) for part in shown if part is not None and type(part) is not ToolCall],
            [(call.id, call.name, call.arguments) for call in calls],
            [_searched(part) for message in _public_results(self) for part in message.parts],
            self.files,
        )

    def public(self, sequence: int) -> PublicItem:
        """Give the public view."""
        return PublicItem(
            self.id, self.kind, sequence, _public_parts(self), _public_results(self),
            self.tools, self.files, self.failed,
        )  # fmt: skip

    def output(self, call: str | None, index: int | None) -> tuple[str, Form]:
        """Give the result of a call, or else a part of the message, as text."""
        if self.kind != "modelTurn":
            raise absent("the item is no turn of the model", "id")
        if call is not None:
            return _result(self, call)
        if index is None or index >= len(self.message.parts):
            raise absent("the message has no such part", "index")
        part = self.message.parts[index]
        if (shown := public_part(part)) is None:
            raise withheld("only texts and calls are shown again", "index")
        return (shown.text, "text") if type(shown) is Text else (_written(_Same(part)), "json")


def absent(what: str, field: str) -> InvalidArgument:
    """Make the error for what is not there."""
    return InvalidArgument("unknown-item", what, field=field)


def withheld(what: str, field: str) -> InvalidArgument:
    """Make the error for what is not shown again."""
    return InvalidArgument("withheld-output", what, field=field)


def _result(item: Item, call: str) -> tuple[str, Form]:
    found = next((result for result in item.results if result.call == call), None)
    if found is None:
        raise absent("the turn has no result of this call", "call")
    if _is_recalled(found, _names(item)):
        raise withheld("what recall itself answered is not recalled", "call")
    if len(found.parts) == 1 and type(only := found.parts[0]) is Text:
        return only.text, "text"
    return _written(_Same(found.parts)), "json"


class _Same:
    """Compare what is huge by being the same object, which costs nothing."""

    __slots__ = ("value",)

    def __init__(self, value: Part | tuple[Part, ...]) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@lru_cache(maxsize=2)
def _written(output: _Same) -> str:
    """Write an output as JSON; page after page of one is cut from one text."""
    value = output.value
    return _parts_json(value) if isinstance(value, tuple) else part_json(public_part(value))


def document(
    texts: Sequence[str],
    calls: Sequence[tuple[str, str, str]],
    results: Sequence[str],
    files: Sequence[str],
) -> Iterator[tuple[str, int]]:
    """Give the texts of a document, and how often each counts (specification, section 9).

    Args:
        texts: of the message.
        calls: id, name and arguments (JSON); they count twice, once as a part of the message.
        results: texts of the results.
        files: count as a whole and by their steps.
    """
    for text in texts:
        yield text, 1
    for id, name, arguments in calls:
        yield f'"type" "toolCall" "id" {id} "name" "arguments"', 1
        yield name, 2
        yield unescaped(arguments), 2
    for text in results:
        yield text, 1
    for file in files:
        yield file, 1
        yield " ".join(file.replace("\\", "/").split("/")), 1


def _searched(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Image():
            return part.media_type
        case _:
            return unescaped(part_json(part))


def is_recall_turn(item: Item) -> bool:
    """Say whether any call of the item is one of recall's own.

    >>> from ctxalgebra import assistant
    >>> is_recall_turn(model_turn(0, assistant(ToolCall("c1", "browse_history"))))
    True
    """
    check_type(item, Item, "item")
    return any(name in RECALL_NAMES for name in item.tools)


def files_in(value: object) -> Iterator[str]:
    """Find the texts under keys that name files, in parsed JSON, outermost first.

    >>> list(files_in({"Path": "a.py", "edits": [{"files": ["b.py", 3]}]}))
    ['a.py', 'b.py']
    """
    todo: list[tuple[bool, object]] = [(False, value)]
    while todo:
        named, inner = todo.pop()
        if named:
            for found in cast("list[object]", inner) if isinstance(inner, list) else [inner]:
                if isinstance(found, str):
                    yield found
        if isinstance(inner, dict):
            members = cast("dict[str, object]", inner)
            todo.extend((key.lower() in _PATHS, v) for key, v in reversed(members.items()))
        elif isinstance(inner, list):
            todo.extend((False, v) for v in reversed(cast("list[object]", inner)))


def _files(calls: Iterable[ToolCall]) -> Iterator[str]:
    for call in calls:
        try:
            yield from files_in(read_json(call.arguments))
        except ValueError:
            continue


def model_turn(
    number: int,
    message: Message,
    results: Sequence[tuple[int, Message]] = (),
    *,
    interrupted: bool = False,
    id: str | None = None,
) -> Item:
    """Make the item of an assistant message and its results, which are given with their numbers.

    >>> from ctxalgebra import assistant, tool_result
    >>> call = ToolCall("c1", "read", '{"path":"a.py"}')
    >>> model_turn(1, assistant(call), [(2, tool_result("c1", "42"))]).files
    ('a.py',)
    """
    return Item(
        str(number) if id is None else id,
        "modelTurn",
        number,
        message,
        tuple(result for _, result in results),
        tuple(at for at, _ in results),
        interrupted,
        tuple(call.name for call in message.calls),
        tuple(dict.fromkeys(_files(message.calls))),
        interrupted or any(result.error for _, result in results),
    )


# The public view


@frozen
class PublicItem:
    """Hold what may be shown of an item again.

    Args:
        id, kind: of the item.
        sequence: its place among the items that browse shows.
        content: the parts of its message at their places; None where one is withheld.
        results: of its tools, recall's own left out.
        tools, files, failed: of the item.
    """

    id: str
    kind: Kind
    sequence: int
    content: tuple[Part | None, ...]
    results: tuple[Message, ...]
    tools: tuple[str, ...]
    files: tuple[str, ...]
    failed: bool


def public_part(part: Part) -> Part | None:
    """Give what may be shown of an assistant's part: texts and calls, without signatures.

    >>> from ctxalgebra import Thinking
    >>> public_part(Thinking("hm")) is None
    True
    """
    if type(part) is ToolCall:
        return evolve(part, signature="") if part.signature else part
    return part if type(part) is Text else None


def _public_parts(item: Item) -> tuple[Part | None, ...]:
    parts = item.message.parts
    return tuple(map(public_part, parts)) if item.kind == "modelTurn" else parts


def _names(item: Item) -> dict[str, str]:
    """Map the ids of an item's calls to the tools that they name."""
    return {call.id: call.name for call in item.message.calls}


def _is_recalled(result: Message, names: dict[str, str]) -> bool:
    """Say whether a result came from one of recall's tools, by its own name or its call's."""
    return result.name in RECALL_NAMES or names.get(result.call) in RECALL_NAMES


def _public_results(item: Item) -> tuple[Message, ...]:
    names = _names(item)
    return tuple(result for result in item.results if not _is_recalled(result, names))


def public_item(item: Item, sequence: int) -> PublicItem:
    """Give the public view of an item, which stands at this place among those that browse shows.

    >>> from ctxalgebra import Thinking, assistant
    >>> public_item(model_turn(3, assistant(Thinking("hm"), "Hello!")), 0).content
    (None, Text(text='Hello!'))
    """
    check_type(item, Item, "item")
    return item.public(sequence)


# As JSON: arguments stand as the model wrote them, so that no digit and no key moves


def _spliced(text: str) -> str:
    """Give a text that is JSON as it is, any other as a JSON string."""
    try:
        read_json(text)
    except ValueError:
        return quote(text)
    return text


def part_json(part: Part | None) -> str:
    """Write a part of the public view as JSON.

    >>> part_json(ToolCall("c1", "read", '{"n":1.50}'))
    '{"type":"toolCall","id":"c1","name":"read","arguments":{"n":1.50}}'
    """
    match part:
        case Text():
            return f'{{"type":"text","text":{quote(part.text)}}}'
        case ToolCall():
            return (
                f'{{"type":"toolCall","id":{quote(part.id)},"name":{quote(part.name)},'
                f'"arguments":{_spliced(part.arguments)}}}'
            )
        case Image():
            data, media = quote(part.data), quote(part.media_type)
            return f'{{"type":"image","data":{data},"mimeType":{media}}}'
        case Opaque():
            return _spliced(part.data)
        case _:
            return "null"


def _parts_json(parts: Iterable[Part | None]) -> str:
    """Write parts as a JSON list."""
    return f"[{','.join(map(part_json, parts))}]"


def _list_json(texts: Iterable[str]) -> str:
    return f"[{','.join(map(quote, texts))}]"


_ROLES = {
    "user": ("userMessage", "user"),
    "system": ("systemMessage", "system"),
    "modelTurn": ("assistantMessage", "assistant"),
}


def item_json(item: PublicItem) -> str:
    """Write a public item as JSON, for the reply of a tool.

    >>> from ctxalgebra import user
    >>> item_json(public_item(Item("0", "user", 0, user("hi")), 0))
    ... # doctest: +NORMALIZE_WHITESPACE
    '{"historyId":"0","kind":"user","sequence":0,"userMessage":{"role":"user","content":[{"type":"text","text":"hi"}]}}'
    """
    name, role = _ROLES[item.kind]
    text = (
        f'{{"historyId":{quote(item.id)},"kind":"{item.kind}","sequence":{item.sequence},'
        f'"{name}":{{"role":"{role}","content":{_parts_json(item.content)}}}'
    )
    if item.kind != "modelTurn":
        return text + "}"
    names = {part.id: part.name for part in item.content if type(part) is ToolCall}
    results = [
        f'{{"role":"toolResult","toolCallId":{quote(result.call)},'
        f'"toolName":{quote(result.name or names.get(result.call, ""))},'
        f'"content":{_parts_json(result.parts)},"isError":{"true" if result.error else "false"}}}'
        for result in item.results
    ]
    failed = "true" if item.failed else "false"
    return (
        f'{text},"toolResults":[{",".join(results)}],"metadata":{{"tools":'
        f'{_list_json(item.tools)},"files":{_list_json(item.files)},"failed":{failed}}}}}'
    )
