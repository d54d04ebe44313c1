"""Search, browse and load: three ways into the history of a session.

All take a session or a history, read only, and give values. An item is named by its address, the
number of its entry, so that names stay right on every branch and whatever is recorded later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, cast, get_args

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_type, mistyped
from ctxalgebra.model.session import Session
from ctxalgebra.recall.history import Cell, History, as_history, cell_at, cell_of
from ctxalgebra.recall.index import Index, ranked
from ctxalgebra.recall.items import PublicItem, absent
from ctxalgebra.recall.texts import Units, preview

__all__ = ["LIMITS", "Direction", "Limits", "Reference", "browse", "load", "search"]

Direction = Literal["backward", "forward", "around"]


@frozen
class Limits:
    """Bound what may be asked for (specification of the paging system, sections 9 and 10).

    Args:
        query, word, id: lengths of a query, of a name in a filter, of an address.
        filter: names in a filter.
        answers: references of a search, and of browse.
        stride, sequence: steps of browse; a place that is an anchor.
        loads: items that are loaded at once.
        page, reply: lengths of a page, and of references in the reply of a tool.
    """

    query: int = 200
    word: int = 200
    id: int = 128
    filter: int = 10
    answers: int = 10
    stride: int = 10
    sequence: int = 1_000_000
    loads: int = 3
    page: int = 2000
    reply: int = 8000


LIMITS = Limits()
"""The limits that hold."""


@frozen
class Reference:
    """Point at an item.

    Args:
        id: its address.
        sequence: its place among those that browse shows, from 0.
        kind: `user`, `system` or `modelTurn`.
        preview: the beginning of its message, on one line.
        tools, files, failed: of the item.
        previous, next: addresses of its neighbours; None at the ends.
        timestamp: when it was recorded, where the host says.
    """

    id: str
    sequence: int
    kind: str
    preview: str
    tools: tuple[str, ...]
    files: tuple[str, ...]
    failed: bool
    previous: str | None
    next: str | None
    timestamp: str | None = None


def _reference(known: History, cell: Cell) -> Reference:
    record, sequence = cell.record, cell.seen - 1
    last = len(known) - 1
    return Reference(
        record.id,
        sequence,
        record.kind,
        preview(record.content(), known.units),
        record.tools,
        record.files,
        record.failed,
        cell_at(known, sequence - 1).record.id if sequence else None,
        cell_at(known, sequence + 1).record.id if sequence < last else None,
        record.timestamp,
    )


# Checks


def _outside(field: str, what: str) -> InvalidArgument:
    return InvalidArgument("invalid-argument", what, field=field)


def _check_length(value: object, most: int, field: str, units: Units) -> None:
    if not isinstance(value, str):
        raise mistyped(value, "a text", field)
    if units.size(value) > most:
        raise _outside(field, f"longer than {most} {units.name}")


def check_range(value: int, least: int, most: int, field: str) -> None:
    """Refuse what is no integer from `least` to `most`.

    Raises:
        InvalidArgument: `wrong-type`, `invalid-argument`, with `field`.
    """
    check_type(value, int, field)
    if not least <= value <= most:
        raise _outside(field, f"an integer from {least} to {most}")


def _check_words(value: object, field: str, units: Units) -> None:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise mistyped(value, "a list of texts", field)
    given = cast("Sequence[object]", value)
    if len(given) > LIMITS.filter:
        raise _outside(field, f"more than {LIMITS.filter}")
    for word in given:
        _check_length(word, LIMITS.word, field, units)


def check_id(id: object, field: str, units: Units) -> None:
    """Refuse what can't be an address.

    Raises:
        InvalidArgument: `wrong-type`, `invalid-argument`, with `field`.
    """
    _check_length(id, LIMITS.id, field, units)


def item_at(known: History, id: str, field: str = "id") -> Cell:
    """Give the cell with an address.

    Raises:
        InvalidArgument: `unknown-item`.
    """
    cell = cell_of(known, id)
    if cell is None:
        raise absent(f"no item has the id {id!r}", field)
    return cell


# The questions


def search(
    source: Session | History,
    query: str,
    *,
    files: Sequence[str] = (),
    tools: Sequence[str] = (),
    failed: bool | None = None,
    limit: int = 5,
) -> tuple[Reference, ...]:
    """Find items by their words, best first; the oldest first among equals.

    Ranking is BM25 over the texts of messages, the names and arguments of calls, results and
    names of files. The first search reads the path, later ones what is new; sessions that share a
    path share that work.

    Args:
        query: words; empty to go by the filters alone, oldest first.
        files, tools: names that an item must have, each of them exactly.
        failed: whether the turn must, or must not, have failed.
        limit: most answers, 1 to 10.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, beyond the limits; with `field`.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> session = record(Session(), user("Where is the needle?"), assistant("In the haystack."))
    >>> [found.id for found in search(session, "haystack")]
    ['1']
    """
    known = as_history(source)
    _check_length(query, LIMITS.query, "query", known.units)
    _check_words(files, "files", known.units)
    _check_words(tools, "tools", known.units)
    if failed is not None:
        check_type(failed, bool, "failed")
    check_range(limit, 1, LIMITS.answers, "limit")
    top = None if known.top is None else known.top.shown
    if top is None:
        return ()
    facets = [("file", name) for name in files] + [("tool", name) for name in tools]
    if failed is not None:
        facets.append(("failed", str(failed)))
    index = cast("Index", known.index).reach(top)
    found = ranked(index, top, query, facets, limit)
    # The index may know an item by the cell of another refolding: the place is the same.
    return tuple(_reference(known, cell_at(known, cell.seen - 1)) for cell in found)


def places(
    length: int, direction: Direction, anchor: int | None, count: int, stride: int
) -> Iterator[int]:
    """Give the places that browse shows; costs what it gives.

    >>> list(places(6, "around", 4, 3, 1)), list(places(6, "backward", 5, 2, 2))
    ([3, 4, 5], [3, 1])
    """
    last = length - 1
    if direction == "around":
        middle = last if anchor is None else anchor
        before, after = middle // stride, (last - middle) // stride
        start = min(before - (count - 1) // 2, before + after + 1 - count)
        at = middle + (max(start, 0) - before) * stride
        step = stride
    elif direction == "forward":
        at, step = (0 if anchor is None else anchor + stride), stride
    else:
        at, step = (last if anchor is None else anchor - stride), -stride
    while count and 0 <= at <= last:
        yield at
        at += step
        count -= 1


def browse(
    source: Session | History,
    direction: Direction,
    *,
    id: str | None = None,
    sequence: int | None = None,
    count: int = 5,
    stride: int = 1,
) -> tuple[Reference, ...]:
    """Walk through the items; the cost is that of the answer, however long the history is.

    Args:
        direction: `backward` and `forward` begin behind the anchor, or at the newest or oldest
            item without one; `backward` goes from newer to older. `around` gives the anchor (the
            newest item without one) and its neighbours.
        id, sequence: the anchor, by its address or its place; not both.
        count: most answers, 1 to 10.
        stride: gives every so manieth item, 1 to 10.

    Raises:
        InvalidArgument: `unknown-anchor`, there is no such item, or two anchors were given;
            `wrong-type`; `invalid-argument`, beyond the limits; with `field`.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> session = record(Session(), user("a"), assistant("b"), user("c"))
    >>> [found.preview for found in browse(session, "backward", count=2)]
    ['c', 'b']
    """
    known = as_history(source)
    if not isinstance(cast("object", direction), str) or direction not in get_args(Direction):
        raise _outside("direction", "backward, forward or around")
    if id is not None and sequence is not None:
        raise InvalidArgument("unknown-anchor", "an id or a sequence, not both", field="id")
    if id is not None:
        check_id(id, "id", known.units)
    if sequence is not None:
        check_range(sequence, 0, LIMITS.sequence, "sequence")
    check_range(count, 1, LIMITS.answers, "count")
    check_range(stride, 1, LIMITS.stride, "stride")
    anchor = sequence
    if id is not None:
        cell = cell_of(known, id)
        anchor = None if cell is None or cell.shown is not cell else cell.seen - 1
        if anchor is None:
            raise InvalidArgument("unknown-anchor", f"no item has the id {id!r}", field="id")
    elif sequence is not None and sequence >= len(known):
        raise InvalidArgument("unknown-anchor", f"there is no item {sequence}", field="sequence")
    found = places(len(known), direction, anchor, count, stride)
    return tuple(_reference(known, cell_at(known, at)) for at in found)


def load(source: Session | History, ids: Sequence[str]) -> tuple[PublicItem, ...]:
    """Give whole items, exactly as they were recorded, in the order that was asked for.

    Args:
        ids: addresses of 1 to 3 visible items; one may come twice.

    Raises:
        InvalidArgument: `unknown-item`, one is not there, and nothing is given;
            `wrong-type`; `invalid-argument`, beyond the limits; with `field`.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> session = record(Session(), user("a"), assistant("b"))
    >>> [item.content for item in load(session, ["1", "0"])]
    [(Text(text='b'),), (Text(text='a'),)]
    """
    known = as_history(source)
    if isinstance(cast("object", ids), str) or not isinstance(cast("object", ids), Sequence):
        raise mistyped(ids, "a list of ids", "ids")
    if not 1 <= len(ids) <= LIMITS.loads:
        raise _outside("ids", f"1 to {LIMITS.loads} ids")
    for id in ids:
        check_id(id, "ids", known.units)
    cells = [item_at(known, id, "ids") for id in ids]
    if any(cell.shown is not cell for cell in cells):
        raise absent("a turn that only asked for history is not shown again", "ids")
    return tuple(cell.record.public(cell.seen - 1) for cell in cells)
