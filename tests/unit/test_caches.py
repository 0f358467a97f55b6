"""What a cache keeps, and what it lets go."""

from __future__ import annotations

from placement_core.caches import BoundedCache
from tests import base


class TestBoundedCache(base.TestCase):
    def test_what_was_used_longest_ago_makes_room(self) -> None:
        cache = BoundedCache[str, int](2)
        cache.put("a", 1)
        cache.put("b", 2)
        self.assertEqual(1, cache.get("a"))
        cache.put("c", 3)
        self.assertEqual([1, None, 3], [cache.get(key) for key in "abc"])
        self.assertEqual(2, len(cache))

    def test_many_at_once(self) -> None:
        cache = BoundedCache[str, int](2)
        cache.put("a", 0)
        cache.put("b", 1)
        self.assertEqual({"a": 0}, cache.get_many(["a", "c"]))
        cache.put("d", 2)
        self.assertEqual({"a": 0, "d": 2}, cache.get_many("abd"))

    def test_sizes(self) -> None:
        cache = BoundedCache[str, bytes](10, size=len)
        cache.put("a", b"x" * 6)
        cache.put("b", b"x" * 4)
        cache.put("c", b"x" * 5)
        self.assertEqual([None, b"x" * 4, b"x" * 5], [cache.get(key) for key in "abc"])

    def test_too_large(self) -> None:
        cache = BoundedCache[str, bytes](10, size=len)
        cache.put("a", b"x")
        cache.put("b", b"y")
        cache.put("a", b"x" * 11)
        self.assertEqual([None, b"y"], [cache.get(key) for key in "ab"])

    def test_the_same_again_takes_no_room(self) -> None:
        cache = BoundedCache[str, bytes](10, size=len)
        for _ in range(10):
            cache.put("a", b"x" * 5)
        cache.put("b", b"y" * 5)
        self.assertEqual(b"x" * 5, cache.get("a"))

    def test_cleared(self) -> None:
        cache = BoundedCache[str, int](2)
        cache.put("a", 1)
        cache.clear()
        self.assertIsNone(cache.get("a"))
