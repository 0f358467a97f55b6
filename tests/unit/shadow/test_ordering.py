"""What runs side by side, and what in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import testtools

from placement_core.shadow.ordering import OrderedQueue
from placement_core.shadow.touched import Key, Kind, Touched


def touch(*names: str, alone: bool = False) -> Touched:
    return Touched(frozenset(Key(Kind.PROVIDER, name) for name in names), alone)


class TestOrderedQueue(testtools.TestCase):
    def run_items(
        self, *items: tuple[str, Touched], first_release: str | None = None
    ) -> list[str]:
        """Submit items that each wait until they are released, the last submitted first.

        :returns: what began and ended, in order.
        """
        events: list[str] = []

        async def run() -> None:
            queue = OrderedQueue(100)
            releases = {name: asyncio.Event() for name, _ in items}

            def make(name: str) -> Callable[[], Awaitable[None]]:
                async def work() -> None:
                    events.append(f"+{name}")
                    await releases[name].wait()
                    events.append(f"-{name}")
                return work

            for name, touched in items:
                queue.submit(touched, make(name))
            for name, _ in reversed(items):
                await asyncio.sleep(0.01)
                releases[name].set()
            await queue.drain()
            self.assertEqual(0, len(queue))

        asyncio.run(run())
        return events

    def test_what_overlaps_runs_in_order(self) -> None:
        self.assertEqual(["+1", "-1", "+2", "-2", "+3", "-3"], self.run_items(
            ("1", touch("a")), ("2", touch("a", "b")), ("3", touch("b"))))

    def test_what_does_not_runs_beside(self) -> None:
        self.assertEqual(["+1", "+2", "-2", "-1"], self.run_items(
            ("1", touch("a")), ("2", touch("b"))))

    def test_what_runs_alone(self) -> None:
        events = self.run_items(
            ("1", touch("a")), ("2", touch("b")), ("3", touch("c", alone=True)),
            ("4", touch("d")), ("5", touch("a")))
        self.assertEqual({"+1", "+2", "-1", "-2"}, set(events[:4]))
        self.assertEqual(["+3", "-3"], events[4:6])
        self.assertEqual({"+4", "+5", "-4", "-5"}, set(events[6:]))

    def test_a_failure_stops_nobody(self) -> None:
        done: list[str] = []

        async def fail() -> None:
            raise ValueError

        async def work() -> None:
            done.append("after")

        async def run() -> None:
            queue = OrderedQueue(2)
            queue.submit(touch("a"), fail)
            self.assertFalse(queue.is_full)
            queue.submit(touch("a"), work)
            self.assertTrue(queue.is_full)
            await queue.drain()

        asyncio.run(run())
        self.assertEqual(["after"], done)
