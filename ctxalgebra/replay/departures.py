"""Every request of a journal in the order in which they left, whatever their branch.

A branch is a line of entries: it begins at the root, or with the second and each later entry that
stands under the same one, and ends where nothing stands under its last. Travelling, a host's fork
and a message that was edited all begin one.

The longest beginning that a request shares with any earlier one is found in a tree of all prefixes
that were shown. A request takes the part that it shares with the one before it on its path from
there, so what is looked up is what is new, and once more what a branch shares with others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from attrs import frozen

from ctxalgebra.breakpoints import common_messages
from ctxalgebra.model.checks import check_callable, check_type
from ctxalgebra.model.entries import Sent
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Node, Session, log, path
from ctxalgebra.model.view import EMPTY_VIEW, HEAD, Measure, View, step, weigh
from ctxalgebra.tokens import chars4

__all__ = ["Departure", "branches", "departures", "off_path"]


@frozen(eq=False)
class Departure:
    """Hold one request of a journal.

    Args:
        index: its place among all requests, in the order in which they left.
        entry: number of its `Sent`; of the assistant message, where no `Sent` announces that.
        sent: that entry, or one that was made.
        view: what it showed.
        branch: the branch that it stands on, counted from 0 in the order in which they begin.
        leaf: number of the last entry of that branch.
        active: it lies on the current path.
        before: index of the request before it on its path, or -1.
        at: first message in which it differs from that one; -1 for the head, and where there is
            none; as many as that one has where it extends it.
        origin: index of the first request that showed the longest beginning which it shares with
            any earlier one; -1 where it shares nothing.
        common: messages of that beginning.
        shared: its tokens, those of the head included.
        whole: the beginning is all of that request.
    """

    index: int
    entry: int
    sent: Sent
    view: View
    branch: int
    leaf: int
    active: bool
    before: int
    at: int
    origin: int
    common: int
    shared: int
    whole: bool

    @property
    def moved(self) -> bool:
        """Say whether it goes on from another request than the one that left before it."""
        return self.before != self.index - 1


def off_path(session: Session) -> bool:
    """Say whether a request lies on another branch than the current one.

    >>> from ctxalgebra import assistant, at_leaf, record, user
    >>> asked = record(Session(), user("a"), assistant("b"))
    >>> off_path(asked), off_path(at_leaf(asked, 0))
    (False, True)
    """
    on = {node.number for node in path(session)}
    return any(_leaves(node) and node.number not in on for node in log(session))


def _leaves(node: Node) -> bool:
    entry = node.entry
    return type(entry) is Sent or (type(entry) is Message and entry.role == "assistant")


def branches(session: Session) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Give the branch of each entry, and the last entry of each branch.

    >>> from ctxalgebra import at_leaf, record, user
    >>> session = record(Session(), user("a"), user("b"))
    >>> branches(record(at_leaf(session, 0), user("c")))
    ((0, 0, 1), (1, 2))
    """
    branch: list[int] = []
    ends: list[int] = []
    taken: set[int] = set()
    for node in log(session):
        under = _under(node)
        if under in taken or not ends:
            branch.append(len(ends))
            ends.append(node.number)
        else:
            branch.append(branch[under])
            ends[branch[under]] = node.number
        taken.add(under)
    return tuple(branch), tuple(ends)


def _under(node: Node) -> int:
    return -1 if node.parent is None else node.parent.number


def views(session: Session) -> Iterator[tuple[Node, View, View]]:
    """Give each entry in the order of recording, with the view before it and behind it.

    A view is kept only as long as something will stand on it.
    """
    nodes = log(session)
    waiting = [0] * (len(nodes) + 1)  # the last one is for what stands at the root
    for node in nodes:
        waiting[_under(node)] += 1
    known = {-1: EMPTY_VIEW}
    for node in nodes:
        under = _under(node)
        before = known[under]
        waiting[under] -= 1
        if not waiting[under]:
            del known[under]
        after = step(before, node.number, node.entry)
        if waiting[node.number]:
            known[node.number] = after
        yield node, before, after


class _Found(NamedTuple):
    """The longest prefix that was shown before: by whom first, and of how many messages."""

    origin: int
    common: int


class _Tree:
    """All prefixes that were shown, and who showed each of them first."""

    def __init__(self) -> None:
        self._heads: dict[Head, int] = {}
        self._messages: dict[Message, int] = {}
        # By identity first: hashing a message reads its parts. It is kept, for the sake of its id.
        self._seen: dict[int, tuple[Message, int]] = {}
        self._below: dict[tuple[int, int], int] = {}
        self._owner: list[int] = []
        self._chains: list[list[int]] = []

    def _name(self, message: Message) -> int:
        known = self._seen.get(id(message))
        if known is None:
            number = self._messages.setdefault(message, len(self._messages))
            known = self._seen[id(message)] = message, number
        return known[1]

    def add(self, view: View, before: int, at: int) -> _Found:
        """Take in the next request, which shows `at` messages as request `before` did."""
        index, end, messages = len(self._chains), view.end, view.slots.messages
        chain: list[int] = []
        if before >= 0 and at > 0:
            chain = self._chains[before]
            if len(chain) != at:
                chain = chain[:at]
        root = self._heads.get(view.head)
        origin = -1 if root is None else self._owner[root]
        if root is None:
            root = self._heads[view.head] = self._new(index)
        common = -1 if origin < 0 else at if chain else 0
        place = chain[-1] if chain else root
        if chain:
            origin = self._owner[place]
        for slot in range(len(chain), end):
            key = place, self._name(messages[slot])
            below = self._below.get(key)
            if below is None:
                below = self._below[key] = self._new(index)
            else:
                origin, common = self._owner[below], slot + 1
            place = below
            chain.append(place)
        self._chains.append(chain)
        return _Found(origin, common)

    def _new(self, owner: int) -> int:
        self._owner.append(owner)
        return len(self._owner) - 1


def _differs(view: View, earlier: View) -> int:
    """Find the first message that differs from what an earlier request showed; -1 for the head."""
    if view.head is not earlier.head and view.head != earlier.head:
        return HEAD
    if view.slots is earlier.slots:
        return min(view.end, earlier.end)
    return common_messages(view.messages(), earlier.messages())


def departures(
    session: Session, *, implied: bool = True, measure: Measure = chars4
) -> tuple[Departure, ...]:
    """List the requests of all branches in the order in which they left.

    Costs the entries, what each branch shows where it begins, and for each decision what is shown.

    Args:
        session: all of its entries are read, whatever its leaf.
        implied: also the requests that no `Sent` announces: the one that an assistant message
            which stands by itself replied to.
        measure: tokens of a message or head.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import assistant, at_leaf, record, user
    >>> session = record(Session(), user("a" * 40), assistant("b"), user("c"), assistant("d"))
    >>> session = record(at_leaf(session, 0), user("e"), assistant("f"))
    >>> [(one.entry, one.branch, one.origin, one.shared) for one in departures(session)]
    [(1, 0, -1, 0), (3, 0, 0, 10), (5, 1, 0, 10)]
    """
    on = {node.number for node in path(session)}
    check_type(implied, bool, "implied")
    check_callable(measure, "measure")
    branch, ends = branches(session)
    tree = _Tree()
    found: list[Departure] = []
    last: dict[int, int] = {-1: -1}  # the last request of the path to each entry
    for node, there, after in views(session):
        entry, number, before = node.entry, node.number, last[_under(node)]
        last[number] = before
        if type(entry) is not Sent and not (implied and there.end and _leaves(node)):
            continue
        view = after if type(entry) is Sent else there
        earlier = found[before].view if before >= 0 else None
        at = HEAD if earlier is None else _differs(view, earlier)
        origin, common = tree.add(view, before, at)
        shared = 0
        if common >= 0:
            shared = weigh(measure, view.head) + view.slots.total(measure, common)
        if not shared:
            origin, common = -1, 0
        last[number] = len(found)
        found.append(
            Departure(
                index=len(found),
                entry=number,
                sent=entry if type(entry) is Sent else Sent(inferred=True),
                view=view,
                branch=branch[number],
                leaf=ends[branch[number]],
                active=number in on,
                before=before,
                at=at,
                origin=origin,
                common=common,
                shared=shared,
                whole=origin >= 0 and found[origin].view.end == common,
            )
        )
    return tuple(found)
