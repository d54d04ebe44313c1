"""The command `requests`: what was sent at each request, and how it differs from the one before.

Requests are counted from 0 along the path to the leaf, as in the breaks of `replay --json`; or, of
all branches, in the order in which they left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click
from attrs import asdict, evolve, frozen

from ctxalgebra.account import PricedBreak, account
from ctxalgebra.codecs import Decoded, load
from ctxalgebra.codecs.command import format_option
from ctxalgebra.commands.words import beginning, head_object, in_lines, message_object, reasons
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.entries import Reply, Sent
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Node, Session, log, walk
from ctxalgebra.model.view import View
from ctxalgebra.replay.departures import Departure, departures
from ctxalgebra.terminal import aligned, counted, repaired, say, told
from ctxalgebra.tokens import chars4

__all__ = ["requests"]


@frozen(eq=False)
class Sending:
    """One request that left.

    Args:
        index: its place among the requests of the path.
        number: of its `Sent` entry.
        sent: that entry.
        view: what it showed.
        shared: tokens that it begins with in common with the request before it.
        broke: the break that parts the two, with its price.
        outcome: what came of it, or `open`.
        before: index of the one before it on its path, or -1.
        departure: how it stands to all other requests, where they are listed.
    """

    index: int
    number: int
    sent: Sent
    view: View
    shared: int
    broke: PricedBreak | None
    outcome: str = "open"
    before: int = -1
    departure: Departure | None = None

    @property
    def tokens(self) -> int:
        """Measure the request."""
        return chars4(self.view.head) + self.view.slots.total(chars4, self.view.end)


def sendings(session: Session) -> list[Sending]:
    """List the requests of the path; costs the path.

    >>> from ctxalgebra import record, send, user
    >>> [(one.number, one.outcome) for one in sendings(send(record(Session(), user("hi")))[0])]
    [(1, 'open')]
    """
    broken = {broke.sent: broke for broke in account(session).breaks}
    found: list[Sending] = []
    for node, view in walk(session):
        entry = node.entry
        if isinstance(entry, Sent):
            number, broke = node.number, broken.get(node.number)
            shared, before = _shared(view), len(found) - 1
            found.append(Sending(len(found), number, entry, view, shared, broke, before=before))
        elif isinstance(entry, Reply):
            # The gate lets a reply in only while the request before it is open.
            found[-1] = evolve(found[-1], outcome=entry.outcome)
    return found


def all_sendings(session: Session) -> list[Sending]:
    """List the requests of all branches in the order in which they left.

    >>> from ctxalgebra import assistant, at_leaf, record, reply, send, user
    >>> sent = reply(send(record(Session(), user("a")))[0], "completed", assistant("b"))
    >>> sent, _ = send(record(at_leaf(sent, 0), user("c")))
    >>> [(one.number, one.outcome, one.departure.branch) for one in all_sendings(sent)]
    [(1, 'completed', 0), (4, 'open', 1)]
    """
    broken = {broke.sent: broke for broke in account(session).breaks}
    outcomes: dict[int, str] = {}
    for node in log(session):
        if isinstance(node.entry, Reply):
            # Branches may tell one request different ends: the first stands, but for completed.
            sent = sent_of(node)
            known = outcomes.setdefault(sent, node.entry.outcome)
            outcomes[sent] = "completed" if node.entry.outcome == "completed" else known
    return [
        Sending(
            one.index,
            one.entry,
            one.sent,
            one.view,
            _shared(one.view),
            broken.get(one.entry),
            outcomes.get(one.entry, "open"),
            one.before,
            one,
        )
        for one in departures(session, implied=False)
    ]


def sent_of(reply: Node) -> int:
    """Give the number of the request that a reply closed: the gate lets it in behind one only."""
    node: Node | None = reply
    while node is not None and type(node.entry) is not Sent:
        node = node.parent
    return -1 if node is None else node.number


def _shared(view: View) -> int:
    sent = view.sent
    if sent is None or sent.before < 0 or sent.shared < 0:
        return 0
    return chars4(view.head) + view.slots.total(chars4, sent.shared)


class Changed(NamedTuple):
    """A message with the number of its entry, and what became of it: `=`, `+`, `~` or `-`."""

    change: str
    number: int
    message: Message


CHANGES = {"=": "same", "+": "new", "~": "changed", "-": "gone"}


def difference(now: View, before: View | None) -> list[Changed]:
    """Compare what two requests of one path showed; what is gone stands at the end.

    >>> from ctxalgebra import record, user
    >>> one = record(Session(), user("a"))
    >>> [change.change for change in difference(record(one, user("b")).view, one.view)]
    ['=', '+']
    """
    earlier: Mapping[int, Message] = {} if before is None else _shown(before)
    later = _shown(now)
    found = [
        Changed("+" if n not in earlier else "=" if earlier[n] == m else "~", n, m)
        for n, m in later.items()
    ]
    return found + [Changed("-", n, m) for n, m in earlier.items() if n not in later]


def _shown(view: View) -> Mapping[int, Message]:
    return dict(zip(view.slots.numbers[: view.end], view.messages(), strict=True))


@click.command()
@click.argument("file")
@click.argument("request", metavar="[N]", type=int, required=False)
@format_option("--format", "FILE")
@click.option("--all", "everywhere", is_flag=True, help="All branches, as requests left.")
@click.option("--full", is_flag=True, help="Show messages in full that the request before had too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def requests(
    *,
    file: str,
    request: int | None,
    form: str,
    everywhere: bool,
    full: bool,
    as_json: bool,
) -> None:
    """List the requests of a recorded session, or show what was sent at one of them.

    Requests are counted from 0. With N: the head and the messages of that request, and what is
    new, changed or gone since the one before it; `explain FILE MESSAGE` takes the number of a
    message that stands there behind `entry`. The column `entry` of the list holds the numbers of
    the requests themselves. Tokens are a quarter of the characters.

    With --all, requests of all branches are counted in the order in which they left, and each tells
    which earlier one it has the longest beginning in common with.
    """
    decoded = load(file, format=form)
    found = (all_sendings if everywhere else sendings)(decoded.session)
    named = {
        "file": file,
        "format": decoded.format,
        "repairs": [asdict(repair) for repair in decoded.repairs],
    }
    if request is None:
        if as_json:
            click.echo(json.dumps({**named, "requests": list(map(_row, found))}))
        else:
            _list(file, decoded, found)
        return
    if not 0 <= request < len(found):
        known = f"0 to {len(found) - 1}" if found else "none"
        raise InvalidArgument(
            "invalid-argument", f"there is no request {request}: the file has {known}", field="N"
        )
    now = found[request]
    before = None if now.before < 0 else found[now.before]
    changes = difference(now.view, None if before is None else before.view)
    if as_json:
        click.echo(json.dumps({**named, **_object(now, changes)}))
    else:
        _title(file, decoded, found)
        _show(now, before, changes, full=full)


def _row(one: Sending) -> dict[str, Any]:
    rebilled = one.broke.rebilled if one.broke is not None else 0
    return {
        "request": one.index,
        "entry": one.number,
        "inferred": one.sent.inferred,
        "time": one.sent.time,
        "outcome": one.outcome,
        "message_count": one.view.end,
        "tokens": one.tokens,
        "shared_tokens": one.shared,
        "rebilled_tokens": rebilled,
        "new_tokens": one.tokens - one.shared - rebilled,
        "break": None if one.broke is None else asdict(one.broke),
        **({} if one.departure is None else _elsewhere(one.departure)),
    }


def _elsewhere(one: Departure) -> dict[str, Any]:
    longest = {
        "request": one.origin,
        "message_count": one.common,
        "tokens": one.shared,
        "whole": one.whole,
    }
    return {
        "branch": one.branch,
        "leaf": one.leaf,
        "active": one.active,
        "before": None if one.before < 0 else one.before,
        "moved": one.moved,
        "longest": None if one.origin < 0 else longest,
    }


def _object(now: Sending, changes: Sequence[Changed]) -> dict[str, Any]:
    messages = [
        {"entry": number, "change": CHANGES[change], **message_object(message)}
        for change, number, message in changes
    ]
    return {
        **_row(now),
        "head": head_object(now.view.head),
        "messages": [m for m in messages if m["change"] != "gone"],
        "gone": [m for m in messages if m["change"] == "gone"],
    }


def _title(file: str, decoded: Decoded, found: Sequence[Sending]) -> None:
    repairs = repaired(repair.code for repair in decoded.repairs)
    say(f"{file}: {decoded.format}, {counted(len(found), 'request')}{repairs}")


def _list(file: str, decoded: Decoded, found: Sequence[Sending]) -> None:
    _title(file, decoded, found)
    sent = sum(type(node.entry) is Sent for node in log(decoded.session))
    if more := sent - len(found):
        say(f"{counted(more, 'request')} more on other branches: --all lists all")
    if not found:
        return
    say()
    table: list[Sequence[str]] = []
    for one in found:
        row = _row(one)
        numbers = ("tokens", "shared_tokens", "rebilled_tokens", "new_tokens")
        why = "" if one.broke is None else f"{one.broke.at}: {_cut(reasons(one.broke.why), 40)}"
        table.append(
            (
                str(one.index),
                str(one.number),
                f"{one.view.end:,}",
                *(f"{row[name]:,}" for name in numbers),
                *_cells(one.departure),
                one.outcome,
                why,
            )
        )
    everywhere = found[0].departure is not None
    aligned(
        (
            *("N", "entry", "messages", "tokens", "shared", "rebilled", "new"),
            *(("branch", "leaf", "longest", "with") if everywhere else ()),
            *("outcome", "break"),
        ),
        table,
        left=("with", "outcome", "break"),
    )
    say()
    if everywhere:
        told(
            "branch: a line of entries, * where it lies on the current path; leaf: its last entry. "
            "longest: the longest beginning in tokens that any earlier request had, whatever its "
            "branch; with: the first that had it, + where it is all of that request. The request "
            "before is the one before on the same path."
        )
    told(
        "shared: tokens in common with the beginning of the request before; rebilled: that it had "
        "too, behind a break; new: the rest. break: the first message that differs (-1 is the "
        "head), and why. entry: the request's own; a message's, which `explain` takes, stands in "
        "`requests FILE N`."
    )


def _cells(one: Departure | None) -> tuple[str, ...]:
    if one is None:
        return ()
    origin = "" if one.origin < 0 else f"{one.origin}{'+' if one.whole else ''}"
    return f"{one.branch}{'*' if one.active else ''}", str(one.leaf), f"{one.shared:,}", origin


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _show(now: Sending, before: Sending | None, changes: Sequence[Changed], *, full: bool) -> None:
    view = now.view
    say(
        f"request {now.index}, entry {now.number}, {now.outcome}: "
        f"{counted(view.end, 'message')}, {counted(now.tokens, 'token')}"
    )
    if before is not None:
        are = "is" if now.shared == 1 else "are"
        say(f"{counted(now.shared, 'token')} {are} the beginning of request {before.index}")
    if now.departure is not None:
        _show_where(now.departure)
    if now.broke is not None:
        broke = now.broke
        again = counted(broke.rebilled, "token")
        say(f"break at {broke.at}: {reasons(broke.why)}; {again} re-billed")
    say()
    _show_head(view.head, None if before is None else before.view.head, full=full)
    say()
    for place, (change, number, message) in enumerate(changes):
        index = "" if change == "-" else f"{place} "
        tokens = counted(chars4(message), "token")
        about = f"{change} {index}{message.role}, entry {number}, {tokens}"
        if change in "=-" and not full:
            say(f"{about}: {beginning(message)}")
            continue
        say(about)
        for line in in_lines(message):
            say(f"    {line}")
    say()
    told("= as in the request before, + new, ~ shown otherwise, - gone.")


def _show_where(one: Departure) -> None:
    """Say on which branch it is, and which request of any branch it is most like."""
    say(f"branch {one.branch}, which ends at entry {one.leaf}")
    if one.origin >= 0:
        part = "all" if one.whole else "the beginning"
        is_ = "is" if one.shared == 1 else "are"
        say(f"{counted(one.shared, 'token')} {is_} {part} of request {one.origin}")


def _show_head(head: Head, before: Head | None, *, full: bool) -> None:
    route = head.route
    same = head == before
    where = "/".join(filter(None, (route.provider, route.model))) or "no route"
    size, tools = counted(chars4(head), "token"), counted(len(head.tools), "tool")
    say(f"{'=' if same else '+'} head, {size}: {where}, {tools}")
    if same and not full:
        return
    for name, value in route.parameters:
        say(f"    [parameter {name}] {value}")
    for line in head.system.expandtabs(4).split("\n") if head.system else ():
        say(f"    {line}")
    for tool in head.tools:
        say(f"    [tool {tool.name}] {_cut(tool.description, 80)}")
        if full:
            say(f"      {tool.schema}")
