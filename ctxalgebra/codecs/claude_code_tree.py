"""The tree of a Claude Code transcript: from lines to the messages that they make.

The host writes one content block a line, so one message of the model is several lines with one
`message.id`, and the results of its calls stand between them. Each line names its parent, but not
the way a tree of messages would: the next piece and the result are both children of the same
piece, attachments and progress are entries of their own. So `arrange` reads the links for what
they mean:

* A line that says nothing (attachment, progress, side chain, ...) hands on to its own parent.
* Pieces of one message are one unit. They belong together if each stands under another of them,
  under a result, or where the first one stands.
* A result under a message that holds its call is part of that exchange. The results of an exchange
  follow each other in file order, behind the message, whatever lines they name; what arrived from
  the user meanwhile stays between them.
* What stands under any line of an exchange stands behind all of it that is in front in the file.
* Two units that then have one parent are a fork: the user went back.
* If no line of the host names another, the order of the file is the tree.
* A line of ours says exactly which line it stands under.

Everything here is linear in the number of lines, but for the union of links (almost linear).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from attrs import field, frozen

from ctxalgebra.errors import DecodeError

__all__ = ["Line", "Tree", "Unit", "arrange"]


@frozen
class Line:
    """Say how a line stands to others.

    Args:
        role: `user`, `assistant`, or `leaf` for a mark that makes its parent the leaf; empty for
            a line that says nothing on the path.
        name, parent: its id and that of its parent; empty where it names none.
        response: the id of the model's message that it is a piece of.
        calls: ids of the calls that it holds, or that it answers.
        under: the number of the line that it stands under exactly, 0 for none; None in lines of the
            host, where `parent` says it.
    """

    role: str = ""
    name: str = ""
    parent: str = ""
    response: str = ""
    calls: tuple[str, ...] = ()
    under: int | None = None


@frozen
class Unit:
    """Hold the lines that make one message, or several of one line; and the unit above, or -1."""

    lines: tuple[int, ...]
    parent: int


@frozen
class Tree:
    """Hold the units in file order, and the unit at the leaf, -1 if there is none.

    Fields: `unknown`, lines that name a parent which is not in the file; `late`, lines in front of
    the line that they name.
    """

    units: tuple[Unit, ...]
    leaf: int
    unknown: tuple[int, ...]
    late: tuple[int, ...]


def _check_circles(above: Sequence[int], lines: Sequence[int], file: str | None) -> None:
    known = [False] * len(above)
    for start in range(len(above)):
        trail: set[int] = set()
        at = start
        while at >= 0 and not known[at]:
            if at in trail:
                raise DecodeError(
                    "cyclic-parent", file=file, line=lines[at] + 1, field="parentUuid"
                )
            trail.add(at)
            at = above[at]
        for index in trail:
            known[index] = True


def _link(lines: Sequence[Line]) -> tuple[list[int], list[int]]:
    """Find the line that each line names as its parent, and the lines that name none in the file.

    Of lines with one id it is the nearest in front, as a copied session means it.
    """
    first: dict[str, int] = {}
    for index, line in enumerate(lines):
        first.setdefault(line.name, index)
    latest: dict[str, int] = {}
    links: list[int] = []
    unknown: list[int] = []
    for index, line in enumerate(lines):
        link = -1
        if line.under is not None:
            link = line.under - 1 if line.under <= index else -1
        elif line.parent:
            link = latest.get(line.parent, first.get(line.parent, index))
            if link == index:
                link = -1
                unknown += [index] if line.role else []
        links.append(link)
        latest[line.name] = index
    return links, unknown


def _rise(lines: Sequence[Line], links: Sequence[int]) -> list[int]:
    """Find the nearest line above each that says something; -1 for none."""
    up: list[int | None] = [None] * len(lines)
    for index in range(len(lines)):
        trail = [index]
        found: int | None = None
        while found is None:
            above = links[trail[-1]]
            found = above if above < 0 or lines[above].role else up[above]
            trail += [above] if found is None else []
        for at in trail:
            up[at] = found
    return [-1 if at is None else at for at in up]


@frozen
class _Groups:
    """Hold the pieces of each message, their calls, and the group of each line."""

    pieces: list[list[int]] = field(factory=list)
    calls: list[set[str]] = field(factory=list)
    of: dict[int, int] = field(factory=dict)


def _answers(line: Line) -> bool:
    return line.role == "user" and bool(line.calls)


def _gather(lines: Sequence[Line], up: Sequence[int]) -> _Groups:
    groups = _Groups()
    latest: dict[str, int] = {}
    # Lines that a piece in front of them names as the one above it.
    above_piece: dict[int, int] = {}

    def joins(index: int, group: int) -> bool:
        above = up[index]
        beside = above == up[groups.pieces[group][0]] or above > index
        inside = above >= 0 and (
            lines[above].response == lines[index].response or _answers(lines[above])
        )
        inside = inside or above_piece.get(index, -1) == group
        return (beside or inside) and groups.calls[group].isdisjoint(lines[index].calls)

    for index, line in enumerate(lines):
        if line.role != "assistant":
            continue
        group = latest.get(line.response, -1)
        if group < 0 or not line.response or not joins(index, group):
            group = latest[line.response] = len(groups.pieces)
            groups.pieces.append([])
            groups.calls.append(set())
        groups.pieces[group].append(index)
        groups.calls[group].update(line.calls)
        groups.of[index] = group
        above_piece[up[index]] = group
    return groups


def _exchanges(lines: Sequence[Line], up: Sequence[int], groups: _Groups) -> dict[int, int]:
    """Find the message in whose exchange each piece and each result stands."""
    near = dict(groups.of)
    inside = dict(groups.of)
    for index in range(len(lines)):
        trail: list[int] = []
        at = index
        # A line that stands exactly where it says begins another branch of the exchange.
        while at not in near and at >= 0 and _answers(lines[at]) and lines[at].under is None:
            trail.append(at)
            at = up[at]
        group = near.get(at, -1)
        for result in reversed(trail):
            near[result] = group
            if group >= 0 and not groups.calls[group].isdisjoint(lines[result].calls):
                inside[result] = group
    return inside


def _in_order(pieces: list[int], up: Sequence[int], depth: dict[int, int]) -> list[int]:
    """Order pieces: as in the file, but for those that stand in front of what they follow.

    Of lines whose depth is known once nobody walks up again: `depth` is shared by all units.
    """
    if len(pieces) == 1 or all(up[piece] < piece for piece in pieces):
        return pieces
    for piece in pieces:
        trail: list[int] = []
        at = piece
        while at not in depth:
            trail.append(at)
            at = up[at]
        for index in reversed(trail):
            depth[index] = depth[up[index]] + 1
    return sorted(pieces, key=depth.__getitem__)


class _Stand:
    """Gives each unit its parent, in file order."""

    def __init__(self, groups: int) -> None:
        self.parents: list[int] = []
        self._next: dict[int, int] = {}
        self._open: list[int] = []
        self._results: list[bool] = []
        self._heads = [-1] * groups

    def _end(self, unit: int) -> int:
        """Find the end of what has followed a unit in its exchange so far."""
        after = self._next
        while (beyond := after.get(unit)) is not None:
            if (far := after.get(beyond)) is not None:
                after[unit] = far
            unit = beyond
        return unit

    def _add(self, parent: int, group: int, *, result: bool = False) -> None:
        self.parents.append(parent)
        self._open.append(group)
        self._results.append(result)

    def result(self, home: int, group: int) -> None:
        """Stand in the exchange of a message, behind what is there."""
        unit, last = len(self.parents), len(self.parents) - 1
        end = self._end(home)
        between = last >= 0 and self._open[last] == group and not self._results[last]
        parent = last if between and last != home else end
        self._next[end] = unit
        if parent != end:
            self._next[parent] = unit
        self._add(parent, group, result=True)

    def other(self, above: int, group: int, *, exact: bool) -> None:
        """Stand under a unit, behind what has followed it in its exchange."""
        parent = above if above < 0 or exact else self._end(above)
        if group < 0 and 0 <= parent < len(self._open):
            group = self._open[parent]
        self._add(parent, group)


def arrange(lines: Sequence[Line], *, file: str | None = None) -> Tree:
    """Make units of lines.

    Args:
        lines: all lines of a file, in order.
        file: its name, for errors.

    Raises:
        DecodeError: `cyclic-parent`.

    >>> lines = [Line("user", "a"), Line("", "b", "a"), Line("assistant", "c", "b", "m1")]
    >>> [unit.parent for unit in arrange(lines).units]
    [-1, 0]
    """
    links, unknown = _link(lines)
    _check_circles(links, range(len(lines)), file)
    up = _rise(lines, links)
    speaks = [index for index, line in enumerate(lines) if line.role]
    theirs = [index for index in speaks if lines[index].under is None]
    if all(up[index] < 0 for index in theirs):
        for above, index in pairwise(theirs):
            up[index] = above
    groups = _gather(lines, up)
    inside = _exchanges(lines, up, groups)
    unit_of: dict[int, int] = {}
    members: list[list[int]] = []
    for index in speaks:
        group = groups.of.get(index, -1)
        pieces = [index] if group < 0 else groups.pieces[group]
        if pieces[0] == index:
            unit_of.update(dict.fromkeys(pieces, len(members)))
            members.append(pieces)
    stand = _Stand(len(groups.pieces))
    for pieces in members:
        first = pieces[0]
        group = groups.of.get(first, -1)
        home = inside.get(first, -1)
        exact = lines[first].under is not None
        if group < 0 <= home and not exact:
            stand.result(unit_of[groups.pieces[home][0]], home)
            continue
        outside = (up[p] for p in pieces if group < 0 or inside.get(up[p], -1) != group)
        above = unit_of.get(next(outside, -1), -1)
        stand.other(above, group, exact=exact)
    parents = stand.parents
    _check_circles(parents, [pieces[0] for pieces in members], file)
    depth = {-1: 0}
    units = tuple(
        Unit(tuple(_in_order(pieces, up, depth)), parent)
        for pieces, parent in zip(members, parents, strict=True)
    )
    late = tuple(index for index in speaks if links[index] > index)
    return Tree(units, _leaf(lines, units, unit_of, speaks), tuple(unknown), late)


def _leaf(
    lines: Sequence[Line], units: Sequence[Unit], unit_of: dict[int, int], speaks: Sequence[int]
) -> int:
    """Find where the last line stands; what stood in front of its parent is still behind it."""
    if not speaks:
        return -1
    children: dict[int, list[int]] = {}
    for index, unit in enumerate(units):
        children.setdefault(unit.parent, []).append(index)
    at = unit_of[speaks[-1]]
    if lines[speaks[-1]].role != "leaf":
        while at in children and len(children[at]) == 1:
            at = children[at][0]
    return at
