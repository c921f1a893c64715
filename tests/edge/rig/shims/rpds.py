"""Stands in for rpds-py, whose wheel for WebAssembly isn't on the package registry. Tests only.

Production takes the real one from Pyodide's distribution; it comes first on sys.path wherever it is. Here are the
parts that `referencing` and `jsonschema` use, on plain dicts and tuples: correct, and slower with size.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Generic, Self, TypeVar

import _rig_entropy

_rig_entropy.draw()

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class HashTrieMap(Mapping[K, V]):
    """An immutable mapping whose changes are new mappings."""

    def __init__(self, given: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._items: dict[K, V] = dict(given)

    @classmethod
    def convert(cls, given: Any) -> Self:
        """Return the mapping itself if it is one of these already, else one made from it."""
        return given if isinstance(given, cls) else cls(given)

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"HashTrieMap({self._items!r})"

    def insert(self, key: K, value: V) -> Self:
        """Return a mapping with the item."""
        return type(self)({**self._items, key: value})

    def update(self, given: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> Self:
        """Return a mapping with the items."""
        return type(self)({**self._items, **dict(given)})

    def remove(self, key: K) -> Self:
        """Return a mapping without the key. Raises KeyError."""
        if key not in self._items:
            raise KeyError(key)
        return self.discard(key)

    def discard(self, key: K) -> Self:
        """Return a mapping without the key."""
        return type(self)({name: value for name, value in self._items.items() if name != key})


class HashTrieSet(AbstractSet[K]):
    """An immutable set whose changes are new sets."""

    def __init__(self, given: Iterable[K] = ()) -> None:
        self._members = frozenset(given)

    def __contains__(self, value: object) -> bool:
        return value in self._members

    def __iter__(self) -> Iterator[K]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __hash__(self) -> int:
        return hash(self._members)

    def __repr__(self) -> str:
        return f"HashTrieSet({set(self._members)!r})"

    def insert(self, value: K) -> Self:
        """Return a set with the value."""
        return type(self)(self._members | {value})

    def update(self, *given: Iterable[K]) -> Self:
        """Return a set with the values."""
        return type(self)(self._members.union(*given))

    def remove(self, value: K) -> Self:
        """Return a set without the value. Raises KeyError."""
        if value not in self._members:
            raise KeyError(value)
        return self.discard(value)

    def discard(self, value: K) -> Self:
        """Return a set without the value."""
        return type(self)(self._members - {value})


class List(Generic[V]):
    """An immutable list that grows at its front."""

    def __init__(self, given: Iterable[V] = ()) -> None:
        self._values = tuple(given)

    def __iter__(self) -> Iterator[V]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        return f"List({list(self._values)!r})"

    def push_front(self, value: V) -> Self:
        """Return a list with the value before all others."""
        return type(self)((value, *self._values))
