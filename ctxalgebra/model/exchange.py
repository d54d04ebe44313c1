"""The open exchange: calls that wait for their results, the results so far, and what waits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar, cast, overload

from ctxalgebra.model.parts import Message

__all__ = ["NOTHING", "NO_RESULTS", "Queue", "Results", "awaiting"]

T = TypeVar("T")

Found = tuple[int, int, Message]
"""Of a result: how many came before it, the number of its entry, and itself."""


class Results(Mapping[str, tuple[int, Message]]):
    """Hold what the calls of the open exchange were answered so far; never changes.

    Views of one line share the table and each knows how much of it is its own, so that a result
    costs itself, however many calls there are. Whoever finds another's in its place copies.

    Attributes:
        calls: the ids that can be answered.
    """

    __slots__ = ("_count", "_table", "calls")

    def __init__(self, calls: Collection[str], table: dict[str, Found], count: int) -> None:
        self.calls = calls
        self._table = table
        self._count = count

    def awaits(self, call: str) -> bool:
        """Say whether a call is open and has no result yet."""
        return call in self.calls and call not in self

    def answered(self, call: str, number: int, message: Message) -> Results:
        """Add a result for a call that has none yet."""
        found = (self._count, number, message)
        table = self._table
        if len(table) == self._count > 0:
            table[call] = found
        # Checked after the entry is there, too: another thread may have taken the place.
        if len(table) != self._count + 1 or table.get(call) is not found:
            table = dict(islice(self._table.items(), self._count))
            table[call] = found
        return Results(self.calls, table, self._count + 1)

    def __contains__(self, call: object) -> bool:
        """Say whether a call has its result; asked of every result that is offered."""
        if not self._count:
            return False
        found = self._table.get(call) if isinstance(call, str) else None
        return found is not None and found[0] < self._count

    def __getitem__(self, call: str) -> tuple[int, Message]:
        """Give the number and the message of the result of a call."""
        place, number, message = self._table[call]
        if place >= self._count:
            raise KeyError(call)
        return number, message

    def __iter__(self) -> Iterator[str]:
        """Give the calls that are answered, in the order of arrival."""
        return iter(list(islice(self._table, self._count)))

    def __len__(self) -> int:
        """Count the results."""
        return self._count


NO_RESULTS = Results((), {}, 0)


def awaiting(calls: tuple[str, ...]) -> Results:
    """Begin an exchange."""
    # A set pays only where a look through the few calls there are would not.
    return Results(calls if len(calls) < 16 else frozenset(calls), {}, 0)


class Queue(Sequence[T], Generic[T]):
    """Hold what waits, in the order of arrival; never changes.

    As with `Results`, views of one line share the list, and joining costs what joins. Equal to a
    queue or tuple with the same items.
    """

    __slots__ = ("_count", "_items")

    def __init__(self, items: list[T], count: int) -> None:
        self._items = items
        self._count = count

    def joined(self, item: T) -> Queue[T]:
        """Add one at the end."""
        items, count = self._items, self._count
        if len(items) == count > 0:
            items.append(item)
        # Checked after it is there, too: another thread may have taken the place.
        if len(items) != count + 1 or items[count] is not item:
            items = [*items[:count], item]
        return Queue(items, count + 1)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        """Give one by its place, or some."""
        return (
            self._items[range(self._count)[index]] if isinstance(index, int) else tuple(self)[index]
        )

    def __iter__(self) -> Iterator[T]:
        """Give them, the first one first."""
        return islice(self._items, self._count)

    def __len__(self) -> int:
        """Count them."""
        return self._count

    def __eq__(self, other: object) -> bool:
        """Compare what waits."""
        if not isinstance(other, Queue | tuple):
            return NotImplemented
        return tuple(self) == tuple(cast("Sequence[object]", other))

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Show what waits."""
        return f"Queue{tuple(self)!r}"


NOTHING: Queue[tuple[int, Message]] = Queue([], 0)
