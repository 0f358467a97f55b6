"""Which tags a header names, and how much is kept."""

from __future__ import annotations

import types
from typing import Any
from unittest import mock

from placement_core.http import conditional
from tests import base


class TestNames(base.TestCase):
    def test_lists(self) -> None:
        for header, named in (
            ('"a"', True), ('W/"a"', True), ('"b", "a"', True), ('"b",W/"a","c"', True),
            ('  "a"  ', True), ("a", False), ('"ab"', False), ('"b"', False), ("", False),
            ('"a', False), ("*", False), ('"b a"', False), ('"b, a"', False),
        ):
            self.assertEqual(named, conditional.matches(header, "a"), header)

    def test_any(self) -> None:
        for header, named in (("*", True), (" * ", True), ('"*"', False), ("W/*", False)):
            self.assertEqual(named, conditional.matches_any(header), header)

    def test_parts_do_not_run_into_each_other(self) -> None:
        ctx: Any = None  # Nothing is asked for these.
        self.assertNotEqual(
            conditional.ETag(("a", "bc")).text(ctx), conditional.ETag(("ab", "c")).text(ctx))

    def test_steps_of_time(self) -> None:
        """A tag is the same until the next step."""
        ctx: Any = None
        tags = []
        for now in (59.9, 60.0, 89.9, 90.0):
            clock = types.SimpleNamespace(time=lambda now=now: now)
            with mock.patch.object(conditional, "time", clock):
                tags.append(conditional.ETag(("a",), step_seconds=30).text(ctx))
        self.assertEqual(tags[1], tags[2])
        self.assertEqual(3, len(set(tags)))


def _make_body(size: int) -> conditional.Body:
    return conditional.Body(b"x" * size, "text/html")


class TestBodies(base.TestCase):
    def test_the_oldest_makes_room(self) -> None:
        bodies = conditional.Bodies(most_bytes=40)
        for tag in "abcd":
            bodies.put(tag, _make_body(10))
        self.assertEqual(_make_body(10), bodies.get("a"))
        bodies.put("e", _make_body(10))
        self.assertIsNone(bodies.get("b"))
        self.assertEqual([True] * 4, [bodies.get(tag) is not None for tag in "acde"])

    def test_what_is_too_large_is_not_kept(self) -> None:
        bodies = conditional.Bodies(most_bytes=40)
        bodies.put("a", _make_body(11))
        self.assertIsNone(bodies.get("a"))

    def test_the_same_again_takes_no_room(self) -> None:
        bodies = conditional.Bodies(most_bytes=40)
        for _ in range(10):
            bodies.put("a", _make_body(10))
        for tag in "bcd":
            bodies.put(tag, _make_body(10))
        self.assertIsNotNone(bodies.get("a"))
