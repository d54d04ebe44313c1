"""From the elements of a container to the items that are taken in, each under the one before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ctxalgebra.codecs.containers import Api, Found, start
from ctxalgebra.codecs.intake import (
    Act,
    Decoded,
    Intake,
    Item,
    Repair,
    in_file,
    problem_of,
    take_in,
)
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.entries import Entry
from ctxalgebra.model.head import Head, Usage
from ctxalgebra.model.parts import Message

__all__ = ["Elements"]


_HeadOf = Callable[[Head], Head]


def _recorded(recorded: Head, _known: Head) -> Head:
    return recorded


class Elements:
    """Takes the elements of a container one by one.

    Attributes:
        found: the container.
        count: how many elements were taken so far.
    """

    def __init__(self, found: Found, head: Callable[[Head, Head], Head] = _recorded) -> None:
        """Begin.

        Args:
            found: the container.
            head: gives the head of a recorded request from what was read of it, and from the head
                that holds.
        """
        self.found = found
        self.count = 0
        self._head = head
        self._items: list[Item] = []
        self._repairs: list[Repair] = [*found.repairs]
        self._above = -1
        self._problem: DecodeError | None = None

    def _add(self, item: Item) -> int:
        if item.parent is not None:
            self._above = len(self._items)
        self._items.append(item)
        return len(self._items) - 1

    def _next(self) -> int:
        self.count += 1
        return self.count

    def _head_at(self, element: int) -> _HeadOf | None:
        recorded = self.found.heads.get(element)
        return None if recorded is None else partial(self._head, recorded)

    def keep(self, raw: str, problem: DecodeError | None = None) -> None:
        """Take an element that says nothing, or that can't be read."""
        line = self._next()
        if problem is not None:
            self._problem = self._problem or in_file(problem, None, line)
            self._repairs.append(problem_of(problem, line))
        self._add(Item(line, raw))

    def lead(self, raw: str, act: Act) -> None:
        """Take an element that gives a head."""
        self._add(Item(self._next(), raw, self._above, act=act))

    def say(
        self,
        raw: str,
        messages: Sequence[Message],
        usage: Usage | None = None,
        *,
        head: _HeadOf | None = None,
    ) -> None:
        """Take an element that gives messages.

        Args:
            raw: its text.
            messages: what was read of it.
            usage, head: of a reply: hold if no request was recorded here.
        """
        first = self.count
        if len(messages) == 1:
            self._say(self._next(), raw, messages[0], usage, first, head, ())
            return
        whole = self.piece(raw)
        for message in messages:
            self._say(self.count, None, message, usage, first, head, (whole,))

    def piece(self, raw: str) -> int:
        """Take an element that is a piece of a message; give its index for `join`."""
        return self._add(Item(self._next(), raw, self._above))

    def join(
        self,
        pieces: Sequence[int],
        message: Message,
        usage: Usage | None = None,
        *,
        first: int,
        head: _HeadOf | None = None,
    ) -> None:
        """Say the message that pieces make, as `say`; the element `first`, from 0, begins it."""
        self._say(self.count, None, message, usage, first, head, tuple(pieces))

    def _say(
        self,
        line: int,
        raw: str | None,
        message: Message,
        usage: Usage | None,
        element: int,
        head: _HeadOf | None,
        made: tuple[int, ...],
    ) -> None:
        recorded = self._head_at(element)
        if recorded is not None and message.role != "assistant":
            self._state(line, recorded)
        self._add(
            Item(
                line,
                raw,
                self._above,
                message,
                usage=self.found.usages.get(element) or usage,
                head=recorded or head,
                name=message.id,
                made=made,
            )
        )

    def _state(self, line: int, recorded: _HeadOf) -> None:
        """State the head of a request that no reply of the model answers."""

        def act(intake: Intake) -> Entry | None:
            known = intake.session.head
            head = recorded(known)
            return None if head == known else head

        self._add(Item(line, None, self._above, act=act))

    def take_in(self, api: Api, file: str | None) -> Decoded:
        """Record all that was taken.

        Raises:
            DecodeError: the first problem, where nothing else was found.
        """
        if self._above < 0 and self._problem is not None:
            raise in_file(self._problem, file)
        last = self._head_at(self.count)
        if last is not None:
            self._state(self.count, last)
        return take_in(
            self._items, api.name, self._repairs, start(self.found, api), ended=self.found.ended
        )
