"""Slots of concurrent requests, and the queue before them."""

from __future__ import annotations

import threading
import time
from typing import Any

import fixtures

from placement_core.http import concurrency
from placement_core.http.apis import ApisByPath
from placement_core.http.operations import IDLE_KEY
from tests import base

_LONG = 60.0


class SlotsTestCase(base.TestCase):
    def make(
        self, most: int = 1, most_waiting: int = 10, wait_seconds: float = _LONG, *,
        is_troubled: bool = False,
    ) -> concurrency.RequestSlots:
        return concurrency.RequestSlots(
            most, most_waiting, wait_seconds, lambda: is_troubled)

    def wait_for_slot(
        self, slots: concurrency.RequestSlots, outcomes: list[tuple[str, bool]], name: str
    ) -> threading.Thread:
        """Wait for a slot in another thread, which is in the queue when this returns."""
        before = slots.count_waiting()
        thread = threading.Thread(
            target=lambda: outcomes.append((name, slots.acquire())), daemon=True)
        thread.start()
        deadline = time.monotonic() + 20
        while slots.count_waiting() == before:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.001)
        return thread


class TestQueue(SlotsTestCase):
    def test_free_slots(self) -> None:
        slots = self.make(2, 0)
        self.assertTrue(slots.acquire())
        self.assertTrue(slots.acquire())
        self.assertFalse(slots.acquire())
        slots.release()
        self.assertTrue(slots.acquire())

    def test_first_come_first_served(self) -> None:
        slots = self.make()
        slots.acquire()
        outcomes: list[tuple[str, bool]] = []
        threads = [self.wait_for_slot(slots, outcomes, name) for name in "abc"]
        for thread in threads:
            # A slot is handed over: whoever comes at this moment does not overtake.
            slots.release()
            thread.join(20)
        self.assertEqual([("a", True), ("b", True), ("c", True)], outcomes)
        self.assertEqual(0, slots.count_waiting())

    def test_as_many_wait_as_may(self) -> None:
        slots = self.make(most_waiting=2)
        slots.acquire()
        outcomes: list[tuple[str, bool]] = []
        threads = [self.wait_for_slot(slots, outcomes, name) for name in "ab"]
        self.assertFalse(slots.acquire())
        slots.release()
        threads[0].join(20)
        # There is room in the queue again.
        threads.append(self.wait_for_slot(slots, outcomes, "c"))
        for thread in threads[1:]:
            slots.release()
            thread.join(20)
        self.assertEqual([("a", True), ("b", True), ("c", True)], outcomes)

    def test_each_slot_comes_back(self) -> None:
        """Whether waiters get one, give up, or both at the same moment."""
        slots = self.make(2, 50, 0.002)
        working, most = threading.Semaphore(2), []

        def use() -> None:
            for _ in range(100):
                if slots.acquire():
                    most.append(working.acquire(blocking=False))
                    time.sleep(0.001)
                    working.release()
                    slots.release()

        threads = [threading.Thread(target=use) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({True}, set(most))
        self.assertEqual(0, slots.count_waiting())
        self.assertEqual([True, True, False], [slots.acquire() for _ in range(3)])


class TestRoom(SlotsTestCase):
    """Of four slots, for requests that wait for ten seconds, and for two in overload."""

    def setUp(self) -> None:
        super().setUp()
        self.slots = self.make(4, 100, 10.0)
        for _ in range(4):
            self.slots.acquire()
        self.began = time.monotonic()

    def work(self, count: int) -> None:
        """Let requests be done, each of which hands its slot to another one."""
        for _ in range(count):
            thread = self.wait_for_slot(self.slots, [], "")
            self.slots.release()
            thread.join(20)

    def test_before_overload(self) -> None:
        self.assertEqual(100, self.slots.compute_room(self.began + 9))

    def test_overload(self) -> None:
        """50 requests in 20 seconds are 5 in 2."""
        self.work(50)
        self.assertEqual(5, self.slots.compute_room(self.began + 19.9))

    def test_each_slot_has_a_successor(self) -> None:
        self.assertEqual(4, self.slots.compute_room(self.began + 20))

    def test_the_bound_stays(self) -> None:
        self.slots = self.make(4, 3, 10.0)
        for _ in range(4):
            self.slots.acquire()
        self.work(50)
        self.assertEqual(3, self.slots.compute_room(self.began + 19.9))

    def test_a_free_slot_ends_overload(self) -> None:
        self.slots.release()
        self.slots.acquire()
        self.assertEqual(100, self.slots.compute_room(time.monotonic() + 9))

    def test_more_are_refused_at_once(self) -> None:
        self.useFixture(fixtures.MonkeyPatch(
            f"{concurrency.__name__}.RequestSlots.compute_room", lambda *_: 1))
        outcomes: list[tuple[str, bool]] = []
        thread = self.wait_for_slot(self.slots, outcomes, "first")
        # It would wait for longer than a test may take.
        self.assertFalse(self.slots.acquire())
        self.slots.release()
        thread.join(20)
        self.assertEqual([("first", True)], outcomes)


class TestPatience(SlotsTestCase):
    def test_it_ends(self) -> None:
        slots = self.make(wait_seconds=0.1)
        slots.acquire()
        self.assertFalse(slots.acquire())
        self.assertEqual(0, slots.count_waiting())
        slots.release()
        self.assertTrue(slots.acquire())

    def test_overload(self) -> None:
        """There is less of it when no slot has been free for as long as it lasts."""
        slots = self.make(wait_seconds=1.0)
        slots.acquire()
        self.assertEqual(1.0, slots.compute_patience(time.monotonic()))
        self.assertFalse(slots.acquire())
        self.assertAlmostEqual(0.2, slots.compute_patience(time.monotonic()))
        slots.release()
        slots.acquire()
        self.assertEqual(1.0, slots.compute_patience(time.monotonic()))

    def test_trouble(self) -> None:
        """Nobody waits long for a database that does not answer."""
        self.useFixture(fixtures.MonkeyPatch(
            f"{concurrency.__name__}._PATIENCE_SECONDS", 0.05))
        slots = self.make(is_troubled=True)
        slots.acquire()
        self.assertFalse(slots.acquire())


class TestIdling(SlotsTestCase):
    """A request that only waits leaves its slot to others."""

    def call(self, slots: concurrency.RequestSlots, view: Any) -> Any:
        """Call an application that has a slot."""
        def application(environ: dict[str, Any], _start_response: Any) -> list[bytes]:
            view(environ[IDLE_KEY])
            return []

        limit = concurrency.ConcurrencyLimit(
            application, slots, ApisByPath([]))  # nobody is refused before the application
        return limit({}, lambda *_: lambda _: None)

    def test_others_have_the_slot(self) -> None:
        slots = self.make()

        def view(idle: Any) -> None:
            self.assertFalse(self.try_(slots))
            with idle():
                self.assertTrue(self.try_(slots))
            self.assertFalse(self.try_(slots))

        self.call(slots, view)
        self.assertTrue(self.try_(slots))

    def test_others_keep_the_slot(self) -> None:
        """A request that gets none afterwards is refused, and gives none back."""
        slots = self.make(most_waiting=0)

        def view(idle: Any) -> None:
            with idle():
                slots.acquire()

        self.assertRaises(concurrency.Overloaded, self.call, slots, view)
        self.assertFalse(slots.acquire())
        slots.release()
        self.assertTrue(self.try_(slots))

    def try_(self, slots: concurrency.RequestSlots) -> bool:
        """Return whether there is a free slot."""
        is_free = bool(slots._free)
        if is_free:
            slots.acquire()
            slots.release()
        return is_free
