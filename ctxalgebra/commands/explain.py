"""The command `explain`: is a message shown, replaced, cut or withheld, and which entries say so.

A message is named by the number of its entry, or by an id: the one that the host gave the message,
or one that stands in the lines that it was read from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
from attrs import asdict

from ctxalgebra.codecs import Decoded, load
from ctxalgebra.codecs.command import format_option
from ctxalgebra.codecs.lines import parse
from ctxalgebra.commands.words import beginning, message_object
from ctxalgebra.errors import DecodeError, InvalidArgument
from ctxalgebra.explain import Explanation, carried
from ctxalgebra.explain import explain as explained
from ctxalgebra.model.entries import DECISIONS, Entry, Note, Sent
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session, find, path
from ctxalgebra.terminal import aligned, counted, repaired, say
from ctxalgebra.tokens import chars4

__all__ = ["explain"]

_IDS = ("id", "uuid")
_INSIDE = ("message", "payload")


def _ids(text: str) -> Iterator[object]:
    """Give the ids that stand in the wire text of an entry."""
    try:
        value = parse(text, limit=len(text))
    except DecodeError:
        return
    outer = value if isinstance(value, dict) else {}
    for held in (outer, *(outer.get(name) for name in _INSIDE)):
        if isinstance(held, dict):
            yield from (held.get(name) for name in _IDS)


def named(session: Session, name: str) -> tuple[int, Message]:
    """Find the message with this number or id on the path; of several, the newest.

    Args:
        session: read along its path.
        name: the number of an entry; where there is no message of that number, an id. The note of a
            line stands for the message that was read from it.

    Raises:
        InvalidArgument: `unknown-entry`; where the number is that of another entry, it says of
            which.

    >>> from ctxalgebra import Session, record, user
    >>> session = record(Session(), user("a"), user("b", id="7"))
    >>> named(session, "0")[0], named(session, "7")[0]
    (0, 1)
    """
    number = int(name) if name.isascii() and name.isdigit() and len(name) < 19 else -1
    message = carried(find(session, number))
    if message is not None:
        return number, message
    inside: tuple[int, Message] | None = None
    behind: tuple[int, Message] | None = None
    for node in reversed(path(session)):
        entry, message = node.entry, carried(node)
        if message is not None:
            behind = node.number, message
            if name == message.id != "":
                return behind
        text = entry.data if isinstance(entry, Note) else message.origin if message else ""
        if inside is None and name in text and name in _ids(text):
            inside = behind
    if inside is None:
        raise InvalidArgument("unknown-entry", _instead(session, number), entry=name)
    return inside


def _instead(session: Session, number: int) -> str:
    """Say what the entry of this number is, which is no message of the path."""
    there = find(session, number, along="log")
    if there is None:
        last = f"entries are 0 to {len(session) - 1}" if len(session) else "it holds no entry"
        return "the path has no such message" if number < 0 else f"there is no such entry: {last}"
    if find(session, number) is None:
        return "the entry is on another branch"
    entry = there.entry
    more = f" {entry.name!r}" if isinstance(entry, Note) else ""
    more += ", which `requests` shows" if isinstance(entry, Sent) else ""
    return f"the entry is no message, its kind is {entry.kind}{more}"


@click.command()
@click.argument("file")
@click.argument("message")
@format_option("--format", "FILE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(
    *,
    file: str,
    message: str,
    form: str,
    as_json: bool,
) -> None:
    """Explain what the next request makes of a message, and why.

    MESSAGE is the number of its entry, which `requests FILE N` shows behind `entry` (in the list of
    requests, the column `entry` is that of the requests), or an id that stands in the file.
    """
    decoded = load(file, format=form)
    session = decoded.session
    number, recorded = named(session, message)
    told = explained(session, number)
    view = session.view
    slot = view.slot(number)
    shown = view.slots.messages[slot] if slot >= 0 else None
    entries = {node.number: node.entry for node in path(session)}
    decided = [_decision(by, entries[by]) for by in told.by]
    if as_json:
        found = {
            "file": file,
            "format": decoded.format,
            "repairs": [asdict(repair) for repair in decoded.repairs],
            "entry": number,
            "state": told.state,
            "why": told.why,
            "by": decided,
            "recorded": message_object(recorded),
            "shown": None if shown is None else message_object(shown),
        }
        click.echo(json.dumps(found))
    else:
        _show(file, decoded, told, recorded, shown, decided)


def _decision(number: int, entry: Entry) -> dict[str, Any]:
    why = entry.why if isinstance(entry, DECISIONS) else ""
    return {"entry": number, "kind": entry.kind, "why": why}


def _show(
    file: str,
    decoded: Decoded,
    told: Explanation,
    recorded: Message,
    shown: Message | None,
    decided: list[dict[str, Any]],
) -> None:
    say(f"{file}: {decoded.format}{repaired(repair.code for repair in decoded.repairs)}")
    name = f", id {recorded.id}" if recorded.id else ""
    say(f"entry {told.number}, {recorded.role}{name}: {told.state}, {told.why}")
    say(f"  recorded, {counted(chars4(recorded), 'token')}: {beginning(recorded)}")
    if shown is not None and shown != recorded:
        say(f"  shown, {counted(chars4(shown), 'token')}: {beginning(shown)}")
    if decided:
        say()
        table = [(str(d["entry"]), d["kind"], d["why"]) for d in decided]
        aligned(("entry", "decided by", "why"), table, left=("decided by", "why"))
