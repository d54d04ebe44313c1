"""Dependencies: which skills one loads along, in the order in which they are to be read.

Nothing recurses: a chain of 100,000 skills is walked like one of two, and no name is special (W33).
Source: skills and saver, section 11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from attrs import frozen

from ctxalgebra.skills.config import Config
from ctxalgebra.utf16 import units

__all__ = ["MOST_CYCLES", "Graph", "effective", "graph"]

MOST_CYCLES: Final = 100_000
"""Cycles are told with so many names in all; others are counted."""


@frozen
class Graph:
    """Hold what a skill needs.

    Args:
        root: the skill.
        order: the skills to load, each behind those that it needs.
        edges: what each needs itself.
        missing: names that no skill has, sorted.
        cycles: skills that need one another; the first name comes again at the end.
        untold: how many cycles are not told.
    """

    root: str
    order: tuple[str, ...]
    edges: Mapping[str, tuple[str, ...]]
    missing: tuple[str, ...] = ()
    cycles: tuple[tuple[str, ...], ...] = ()
    untold: int = 0


def effective(skill: str, found: Iterable[str], config: Config) -> tuple[str, ...]:
    """Give what a skill needs: what its text refers to, minus what is ignored, plus what is set.

    >>> effective("a", ["b", "c"], Config(autoload={"a": ("z",)}, ignored={"a": ("b",)}))
    ('c', 'z')
    """
    ignored = frozenset(config.ignored.get(skill, ()))
    names = {name for name in found if name not in ignored} | set(config.autoload.get(skill, ()))
    return tuple(sorted(names, key=units))


class _Walk:
    """Walk down from a skill, with a stack of what is open."""

    def __init__(self, known: frozenset[str], needs: Callable[[str], tuple[str, ...]]) -> None:
        self.known, self.needs = known, needs
        self.order: list[str] = []
        self.edges: dict[str, tuple[str, ...]] = {}
        self.missing: set[str] = set()
        self.cycles: list[tuple[str, ...]] = []
        self.untold = 0
        self._told = 0
        self._path: list[str] = []
        self._open: dict[str, int] = {}

    def _cycle(self, name: str) -> None:
        start = self._open[name]
        length = len(self._path) - start + 1
        if self._told + length > MOST_CYCLES:
            self.untold += 1
            return
        self._told += length
        self.cycles.append((*self._path[start:], name))

    def _enter(self, name: str) -> Iterator[str]:
        self._open[name] = len(self._path)
        self._path.append(name)
        self.edges[name] = self.needs(name)
        return iter(self.edges[name])

    def down(self, root: str) -> None:
        if root not in self.known:
            self.missing.add(root)
            return
        stack = [self._enter(root)]
        while stack:
            name = next(stack[-1], None)
            if name is None:
                stack.pop()
                done = self._path.pop()
                del self._open[done]
                self.order.append(done)
            elif name in self._open:
                self._cycle(name)
            elif name not in self.known:
                self.missing.add(name)
            elif name not in self.edges:
                stack.append(self._enter(name))


def graph(root: str, names: Iterable[str], needs: Callable[[str], tuple[str, ...]]) -> Graph:
    """Walk what a skill needs, depth first; what is needed comes first.

    Args:
        root: the skill.
        names: of all skills that there are.
        needs: gives what one of them needs; asked once for each. What it raises passes.

    >>> needs = {"a": ("b", "x"), "b": ("a",)}
    >>> found = graph("a", needs, needs.__getitem__)
    >>> found.order, found.missing, found.cycles
    (('b', 'a'), ('x',), (('a', 'b', 'a'),))
    """
    walk = _Walk(frozenset(names), needs)
    walk.down(root)
    return Graph(
        root,
        tuple(walk.order),
        walk.edges,
        tuple(sorted(walk.missing, key=units)),
        tuple(walk.cycles),
        walk.untold,
    )
