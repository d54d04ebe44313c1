"""History as the original paging system keeps it: its items as plain JSON, in its units.

`ctxalgebra.recall` does the same work on sessions; search, browse, load and paging here are its
functions, on the host's items. What differs is named in `docs/differences.md`: lengths count
UTF-16 units (a page still never parts a pair, fault W8), pages are JSON throughout, a turn with
any call of recall is hidden as a whole, items have the host's ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import regex
from attrs import frozen

from ctxalgebra.codecs.pi_weights import json_text, utf16_length
from ctxalgebra.recall.history import History, Step, exchanges_of, grown
from ctxalgebra.recall.items import (
    RECALL_NAMES,
    Form,
    absent,
    document,
    files_in,
    withheld,
)
from ctxalgebra.recall.search import Reference
from ctxalgebra.recall.texts import Units, unescaped

__all__ = [
    "UTF16",
    "HostItem",
    "find_turn",
    "host_history",
    "project_branch",
    "public_block",
    "public_host_item",
    "reference_out",
]

Host = dict[str, Any]


def _cut(text: str, start: int, length: int) -> tuple[int, str]:
    """Cut in UTF-16 units: whole characters only, and at least one."""
    if text.isascii():
        return start, text[start : start + length]
    wide = text.encode("utf-16-le", "surrogatepass")
    start -= _inside(wide, start)
    stop = start + length
    if _inside(wide, stop):
        stop += 1 if length == 1 else -1
    return start, wide[2 * start : 2 * stop].decode("utf-16-le", "surrogatepass")


def _inside(wide: bytes, at: int) -> bool:
    """Say whether a place in UTF-16 parts a pair."""
    around = wide[2 * at - 2 : 2 * at + 2] if at else b""
    return len(around) == 4 and around[1] & 0xFC == 0xD8 and around[3] & 0xFC == 0xDC


_RUNS = regex.compile(r"\p{Script=Han}|[\p{L}\p{N}_./:\-]+")

UTF16 = Units("UTF-16 units", utf16_length, _cut, _RUNS)
"""The host's units, and its words: Han characters behind a letter belong to the letter's word."""


def _members(value: Any) -> Host:
    """Take what is no object for one without members."""
    return cast("Host", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _is_call(block: Any) -> bool:
    has = _members(block)
    texts = isinstance(has.get("id"), str) and isinstance(has.get("name"), str)
    return has.get("type") == "toolCall" and texts


def _calls(message: Host) -> list[Host]:
    return [block for block in _list(message.get("content")) if _is_call(block)]


def public_block(block: Any) -> Host | None:
    """Give what may be shown of an assistant's block: texts and calls, without signatures.

    >>> public_block({"type": "text", "text": "hi", "textSignature": "s"})
    {'type': 'text', 'text': 'hi'}
    """
    if _is_call(block):
        names = ("type", "id", "name", "arguments", "namespace")
        return {name: block[name] for name in names if name in block}
    has = _members(block)
    return {"type": "text", "text": has.get("text")} if has.get("type") == "text" else None


def public_host_item(item: Host) -> Host:
    """Give the public view of an item.

    >>> turn = {"kind": "modelTurn", "assistantMessage": {"content": [{"type": "thinking"}]}}
    >>> public_host_item(turn)["assistantMessage"]
    {'content': [None]}
    """
    said = _members(item.get("assistantMessage"))
    if item.get("kind") != "modelTurn" or not isinstance(said.get("content"), list):
        return item
    content = list(map(public_block, _list(said["content"])))
    return {**item, "assistantMessage": {**said, "content": content}}


def _texts(content: Any, *, plain: bool = False) -> list[str]:
    """Give the texts of content, and the JSON of what is none.

    Args:
        plain: leave the calls out, and undo escapes in JSON: what is searched.
    """
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return [json_text(content)]
    texts: list[str] = []
    for block in _list(cast("object", content)):
        has = _members(block)
        if has.get("type") == "text" and isinstance(has.get("text"), str):
            texts.append(has["text"])
        elif block is not None and not (plain and _is_call(block)):
            text = json_text(block)
            texts.append(unescaped(text) if plain else text)
    return texts


@frozen
class HostItem:
    """Read an item of the host for `ctxalgebra.recall`.

    Args:
        raw: the item.
        shown: its public view.
    """

    raw: Host
    shown: Host

    @property
    def id(self) -> str:
        """Its address."""
        return str(self.raw.get("id"))

    @property
    def kind(self) -> str:
        """`user` or `modelTurn`."""
        return str(self.raw.get("kind"))

    @property
    def timestamp(self) -> str | None:
        """As the host wrote it."""
        return self.raw.get("timestamp")

    def _metadata(self, name: str) -> tuple[str, ...]:
        return tuple(self.raw.get("metadata", {}).get(name, ()))

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of its calls, as the item says."""
        return self._metadata("tools")

    @property
    def files(self) -> tuple[str, ...]:
        """The files that its calls name, as the item says."""
        return self._metadata("files")

    @property
    def failed(self) -> bool:
        """Whether it failed, as the item says."""
        return self.raw.get("metadata", {}).get("failed") is True

    @property
    def hidden(self) -> bool:
        """Whether any of its calls is recall's."""
        return any(name in RECALL_NAMES for name in self.tools)

    @property
    def _said(self) -> Host:
        return _members(self.raw.get("assistantMessage"))

    @property
    def _message(self) -> Host:
        name = "assistantMessage" if self.kind == "modelTurn" else "userMessage"
        return _members(self.shown.get(name))

    def content(self) -> list[str]:
        """Give the texts of its message, and the JSON of what is no text."""
        return _texts(self._message.get("content"))

    def words(self) -> Iterator[tuple[str, int]]:
        """Give the texts to search."""
        message = self._message
        turn = self.kind == "modelTurn"
        calls = [
            (
                " namespace ".join(n for n in (c["id"], c.get("namespace")) if isinstance(n, str)),
                c["name"],
                json_text(c.get("arguments")),
            )
            for c in (_calls(message) if turn else ())
        ]
        results = self.raw.get("toolResults", ()) if turn else ()
        return document(
            _texts(message.get("content"), plain=turn),
            calls,
            [text for result in results for text in _texts(result.get("content"), plain=True)],
            self.files,
        )

    def public(self, sequence: int) -> Host:
        """Give the public view, renumbered."""
        return {**self.shown, "sequence": sequence}

    def output(self, call: str | None, index: int | None) -> tuple[str, Form]:
        """Give the JSON of a result, or else of a block."""
        if self.kind != "modelTurn":
            raise absent("the item is no turn of the model", "id")
        value: Host | None
        if call is not None:
            results: list[Host] = self.raw.get("toolResults", [])
            value = next((r for r in results if r.get("toolCallId") == call), None)
            if value is None:
                raise absent("the turn has no result of this call", "call")
            names = {c["name"] for c in _calls(self._said) if c["id"] == call}
            if {value.get("toolName"), *names} & set(RECALL_NAMES):
                raise withheld("what recall itself answered is not recalled", "call")
        else:
            blocks = _list(self._said.get("content"))
            if index is None or index >= len(blocks):
                raise absent("the message has no such block", "index")
            value = public_block(blocks[index])
            if value is None:
                raise withheld("only texts and calls are shown again", "index")
        return json_text(value), "json"


def host_history(items: Sequence[Host], *, hidden: bool = True) -> History:
    """Give the history of a list of items; of equal ids the first counts.

    Args:
        hidden: an id may be that of a turn which only asked for history, as for pages; search,
            browse and load know the ids of the others alone.

    >>> from ctxalgebra.recall import browse
    >>> item = {"id": "h", "kind": "user", "userMessage": {"content": "hi"}}
    >>> [found.preview for found in browse(host_history([item]), "forward")]
    ['hi']
    """
    numbers: dict[str, int] = {}
    known = History(numbers=numbers, units=UTF16)
    for at, raw in enumerate(items):
        item = HostItem(raw, public_host_item(raw))
        if hidden or not item.hidden:
            numbers.setdefault(item.id, at)
        known = grown(known, item, at)
    return known


def reference_out(found: Reference) -> Host:
    """Write a reference as the original does."""
    return {
        "historyId": found.id,
        "sequence": found.sequence,
        "kind": found.kind,
        "timestamp": found.timestamp,
        "preview": found.preview,
        "tools": list(found.tools),
        "files": list(found.files),
        "failed": found.failed,
        "previousHistoryId": found.previous,
        "nextHistoryId": found.next,
    }


def find_turn(items: Sequence[Host], call: str) -> str | None:
    """Find the id of the newest turn with a call of this id."""
    for item in reversed(items):
        if any(block["id"] == call for block in _calls(_members(item.get("assistantMessage")))):
            return str(item["id"])
    return None


_SPEAKERS = {"user": "user", "assistant": "assistant", "toolResult": "tool"}


def project_branch(entries: Sequence[Host]) -> list[Host]:
    """Project the entries of a branch into items; the messages are those of the entries.

    Raises:
        ProtocolViolation: as `ctxalgebra.recall.history_of`; `entry` counts the messages.

    >>> project_branch([{"type": "message", "id": "u", "message": {"role": "user"}}])
    [{'id': 'u', 'sequence': 0, 'timestamp': None, 'kind': 'user', 'userMessage': {'role': 'user'}}]
    """
    spoken: list[Host] = []
    steps: list[Step] = []
    for entry in entries:
        message = _members(entry.get("message"))
        role = _SPEAKERS.get(str(message.get("role")))
        if entry.get("type") == "message" and role is not None:
            ids = tuple(call["id"] for call in _calls(message)) if role == "assistant" else ()
            broken = message.get("stopReason") in ("aborted", "error")
            spoken.append(entry)
            steps.append(Step(role, ids, message.get("toolCallId"), broken))
    items: list[Host] = []
    for at, owned in exchanges_of(steps):
        entry, message = spoken[at], spoken[at]["message"]
        item = {"id": entry.get("id"), "sequence": len(items), "timestamp": entry.get("timestamp")}
        if steps[at].role == "user":
            items.append({**item, "kind": "user", "userMessage": message})
            continue
        results = [spoken[index]["message"] for index in owned]
        calls = _calls(message)
        files = [file for call in calls for file in files_in(call.get("arguments"))]
        metadata = {
            "tools": [call["name"] for call in calls],
            "files": list(dict.fromkeys(files)),
            "failed": steps[at].interrupted or any(r.get("isError") is True for r in results),
        }
        turn = {"kind": "modelTurn", "assistantMessage": message, "toolResults": results}
        items.append({**item, **turn, "metadata": metadata})
    return items
