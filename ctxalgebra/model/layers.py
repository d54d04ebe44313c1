"""A map that never changes and shares what it can: for folds over journals with many names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge
from typing import TypeVar

__all__ = ["Layers"]

K = TypeVar("K", int, str)
V = TypeVar("V")


class Layers(Mapping[K, V]):
    """Map keys to values in layers, of which each is larger than all that lie on it.

    The topmost layer that has a key tells its value. Putting a key lays a layer of one on top and
    melts layers that are no larger into it, so that n keys cost n log n in all and a look-up asks
    log n layers. Keys are gone through in their order.

    >>> names = Layers[int, str]().put(7, "b").put(3, "a").put(7, "c")
    >>> dict(names), list(reversed(names)), dict(names.put(3, None))
    ({3: 'a', 7: 'c'}, [7, 3], {7: 'c'})
    """

    __slots__ = ("_count", "_layers")

    def __init__(self, layers: tuple[dict[K, V | None], ...] = (), count: int = 0) -> None:
        self._layers: tuple[dict[K, V | None], ...] = layers
        self._count = count

    def put(self, key: K, value: V | None) -> Layers[K, V]:
        """Give the map with this value for the key, or, with None, without the key."""
        count = self._count + (value is not None) - (key in self)
        top: dict[K, V | None] = {key: value}
        layers: tuple[dict[K, V | None], ...] = self._layers
        while layers and len(layers[-1]) <= len(top):
            both = {**layers[-1], **top}
            # Two runs that are in order: sorting them is one pass.
            top = {known: both[known] for known in sorted(both)}
            layers = layers[:-1]
        if not layers:
            top = {known: held for known, held in top.items() if held is not None}
        return Layers(layers + (top,) * bool(top), count)

    def __getitem__(self, key: K) -> V:
        """Give the value of a key."""
        for layer in reversed(self._layers):
            if key in layer:
                value = layer[key]
                if value is None:
                    break
                return value
        raise KeyError(key)

    def _held(self, keys: Iterator[K]) -> Iterator[K]:
        last: K | None = None
        for key in keys:
            if key != last and key in self:
                yield key
            last = key

    def __iter__(self) -> Iterator[K]:
        """Give the keys in their order."""
        return self._held(merge(*self._layers))

    def __reversed__(self) -> Iterator[K]:
        """Give the keys from the last one down; as many as are asked for are looked at."""
        return self._held(merge(*map(reversed, self._layers), reverse=True))

    def __len__(self) -> int:
        """Count the keys."""
        return self._count
