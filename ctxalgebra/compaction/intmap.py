"""A persistent map from whole numbers: what is changed shares all that is not with what was.

A big-endian trie: each fork parts keys by the highest bit in which they differ. Finding, setting
and taking out cost as many steps as there are forks above a key: a logarithm of the number of keys
where those are digests or count on, and never more than their bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from attrs import frozen

__all__ = ["Fork", "Leaf", "Tree", "first", "get", "items", "put", "without"]

T = TypeVar("T")


@frozen
class Leaf(Generic[T]):
    """Hold one key and its value."""

    key: int
    value: T


@frozen
class Fork(Generic[T]):
    """Part keys by one bit: those without it are `low`, those with it `high`."""

    bit: int
    low: Leaf[T] | Fork[T]
    high: Leaf[T] | Fork[T]


Tree = Leaf[T] | Fork[T] | None


def _down(tree: Leaf[T] | Fork[T], key: int) -> tuple[list[tuple[Fork[T], bool]], Leaf[T]]:
    """Go to the leaf that is nearest to a key; give the forks on the way, and where it turned."""
    way: list[tuple[Fork[T], bool]] = []
    while isinstance(tree, Fork):
        high = bool(key & tree.bit)
        way.append((tree, high))
        tree = tree.high if high else tree.low
    return way, tree


def get(tree: Tree[T], key: int) -> T | None:
    """Give the value of a key; None where it is not there.

    >>> get(put(None, 3, "a"), 3), get(None, 3)
    ('a', None)
    """
    if tree is None:
        return None
    _, leaf = _down(tree, key)
    return leaf.value if leaf.key == key else None


def _rebuilt(way: list[tuple[Fork[T], bool]], tree: Leaf[T] | Fork[T]) -> Leaf[T] | Fork[T]:
    for fork, high in reversed(way):
        low, up = (fork.low, tree) if high else (tree, fork.high)
        tree = Fork(fork.bit, low, up)
    return tree


def put(tree: Tree[T], key: int, value: T) -> Leaf[T] | Fork[T]:
    """Set the value of a key.

    >>> list(items(put(put(put(None, 9, "b"), 3, "a"), 9, "c")))
    [(3, 'a'), (9, 'c')]
    """
    new = Leaf(key, value)
    if tree is None:
        return new
    way, leaf = _down(tree, key)
    if leaf.key == key:
        return _rebuilt(way, new)
    bit = 1 << ((leaf.key ^ key).bit_length() - 1)
    # The new fork stands above all that part keys by a lower bit.
    depth = next((at for at, (fork, _) in enumerate(way) if fork.bit < bit), len(way))
    below = way[depth][0] if depth < len(way) else leaf
    low, high = (below, new) if key & bit else (new, below)
    return _rebuilt(way[:depth], Fork(bit, low, high))


def without(tree: Tree[T], key: int) -> Tree[T]:
    """Take out a key; one that is not there changes nothing.

    >>> list(items(without(put(put(None, 9, "b"), 3, "a"), 3)))
    [(9, 'b')]
    """
    if tree is None:
        return None
    way, leaf = _down(tree, key)
    if leaf.key != key:
        return tree
    if not way:
        return None
    fork, high = way.pop()
    return _rebuilt(way, fork.low if high else fork.high)


def first(tree: Tree[T]) -> tuple[int, T] | None:
    """Give the least key and its value; None where there are none.

    >>> first(put(put(None, 9, "b"), 3, "a"))
    (3, 'a')
    """
    if tree is None:
        return None
    while isinstance(tree, Fork):
        tree = tree.low
    return tree.key, tree.value


def items(tree: Tree[T]) -> Iterator[tuple[int, T]]:
    """Give keys and values, keys ascending.

    >>> list(items(None))
    []
    """
    todo = [] if tree is None else [tree]
    while todo:
        at = todo.pop()
        if isinstance(at, Fork):
            todo += [at.high, at.low]
        else:
            yield at.key, at.value
