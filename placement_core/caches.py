"""What a process remembers although it could find it out again: so much, and no more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import cachetools

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """The entries that were used last, for any number of threads.

    :param most: how many, or what their sizes may add up to.
    :param size: returns the size of a value; None: each counts as one.
    """

    def __init__(self, most: int, size: Callable[[V], int] | None = None) -> None:
        self._entries: cachetools.LRUCache[K, V] = cachetools.LRUCache(most, getsizeof=size)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return what is kept under a key."""
        with self._lock:
            return self._entries.get(key)

    def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """Return what is kept under some keys; those without anything are left out."""
        with self._lock:
            return {key: value for key in keys
                    if (value := self._entries.get(key)) is not None}

    def put(self, key: K, value: V) -> None:
        """Keep a value; those that were not used for longest make room for it.

        One that is larger than all may be is not kept, nor is what it replaces.
        """
        with self._lock:
            try:
                self._entries[key] = value
            except ValueError:
                self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
