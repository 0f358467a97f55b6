"""A cache of bounded size for data that a process can read or compute again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import cachetools

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """An LRU cache. Thread-safe.

    :param most: the largest number of entries, or the largest total of their sizes.
    :param size: returns the size of a value; None: each entry counts as one.
    """

    def __init__(self, most: int, size: Callable[[V], int] | None = None) -> None:
        self._entries: cachetools.LRUCache[K, V] = cachetools.LRUCache(most, getsizeof=size)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of a key, if it is cached."""
        with self._lock:
            return self._entries.get(key)

    def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the cached values of some keys; keys that are not cached are not included."""
        with self._lock:
            return {key: value for key in keys
                    if (value := self._entries.get(key)) is not None}

    def put(self, key: K, value: V) -> None:
        """Cache a value; the least recently used ones make room for it.

        A value that is larger than the cache is not stored, and its predecessor is removed.
        """
        with self._lock:
            try:
                self._entries[key] = value
            except ValueError:
                self._entries.pop(key, None)

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
