"""When a lease would fit, and how much is free over time."""

from __future__ import annotations

import collections
import random

from oslo_config import cfg

from placement_core.plugin_api.reservations import Hosts, ReservationSpec, Window
from placement_core.reservations.scheduling import availability
from placement_core.reservations.scheduling.availability import FittingWindow, FreeStep, PoolTotal
from placement_core.reservations.scheduling.planner import ReservationRequest
from placement_core.reservations.scheduling.pools import Bookings, Pool
from placement_plugins.reservations import host, instance
from tests import base

_HOST = host.HostReservations(cfg.ConfigOpts())
_INSTANCE = instance.InstanceReservations(cfg.ConfigOpts())


def _pool(*bookings, cleaning_seconds=0, occupied=()):
    """Return a pool of hosts 1 and 2 of 4 VCPU.

    :param bookings: (host, start, end, VCPU; None: the whole host).
    """
    hosts = Hosts.of([(id_, 4, 100, 100, True, False) for id_ in (1, 2)])
    return Pool(hosts, Bookings.of([
        (host_id, start, end, vcpus or 0, 0, 0, vcpus is None)
        for host_id, start, end, vcpus in bookings]), cleaning_seconds=cleaning_seconds,
        occupied=occupied)


def _whole(count):
    return ReservationRequest(_HOST, ReservationSpec(
        "h", "p", _HOST.values({"min": count, "max": count})))


def _slots(amount, vcpus):
    return ReservationRequest(_INSTANCE, ReservationSpec("i", "p", _INSTANCE.values(
        {"vcpus": vcpus, "memory_mb": 1, "disk_gb": 1, "amount": amount})))


class TestNextFit(base.TestCase):
    def start(self, pool, *requests, since=0, seconds=10):
        fit = availability.next_fit(pool, since, seconds, requests)
        if fit is not None:
            self.assertEqual(FittingWindow(Window.of(fit.window.start, fit.window.end)), fit)
            self.assertEqual(seconds, fit.window.end - fit.window.start)
        return None if fit is None else fit.window.start

    def test_at_once(self):
        self.assertEqual(0, self.start(_pool(), _whole(2)))
        self.assertEqual(7, self.start(_pool(), _slots(8, 1), since=7))

    def test_when_a_booking_ends(self):
        pool = _pool((1, 0, 20, None), (2, 0, 30, 3))
        for request, expected in (
            (_whole(1), 20), (_whole(2), 30), (_slots(1, 1), 0), (_slots(2, 2), 20),
            (_slots(8, 1), 30),
        ):
            self.assertEqual(expected, self.start(pool, request), request)

    def test_before_a_booking_that_is_too_soon(self):
        pool = _pool((1, 10, 20, None), (2, 9, 15, None))
        self.assertEqual(0, self.start(pool, _whole(1), seconds=10))
        self.assertEqual(15, self.start(pool, _whole(1), seconds=11))

    def test_after_cleaning(self):
        pool = _pool((1, 0, 20, None), (2, 0, 30, None), cleaning_seconds=5)
        self.assertEqual(25, self.start(pool, _whole(1)))

    def test_several_reservations(self):
        pool = _pool((1, 0, 20, 2))
        self.assertEqual(20, self.start(pool, _whole(1), _slots(1, 4)))
        self.assertEqual(0, self.start(pool, _whole(1), _slots(1, 2)))

    def test_a_pool_that_is_too_small(self):
        self.assertIsNone(self.start(_pool(), _whole(3)))
        self.assertIsNone(self.start(_pool(), _slots(1, 5)))


class TestSpans(base.TestCase):
    """Bookings may reach far: starts are found span by span."""

    def test_the_same_however_long_spans_are(self):
        chance = random.Random(17)
        fits = collections.Counter()
        for _ in range(500):
            pool = _pool(*self.draw_bookings(chance), cleaning_seconds=chance.choice((0, 3)))
            requests = [
                _whole(chance.randint(1, 2)) if chance.random() < 0.4 else
                _slots(chance.randint(1, 4), chance.randint(1, 3))
                for _ in range(chance.randint(1, 3))]
            since, seconds = chance.randrange(40), chance.randint(1, 60)
            found = []
            for span in (10**6, 1, 7):
                self.patch(availability, "_FIRST_SPAN_SECONDS", span)
                found.append(availability.next_fit(pool, since, seconds, requests))
            self.assertEqual([found[0]] * 3, found)
            fits[found[0] is not None and found[0].window.start > since] += 1
        self.assertGreater(min(fits.values()), 100)

    def test_when_many_starts_are_tried_in_vain(self):
        """Each reservation fits by itself all the time, but both never before the end."""
        count = 300
        bookings = [(host_id, 10 * number, 10 * number + 9, vcpus)
                    for host_id, vcpus in ((1, 1), (2, 3)) for number in range(count)]
        requests = (_slots(1, 2), _slots(1, 2))
        for span in (10**6, 1, 50):
            self.patch(availability, "_FIRST_SPAN_SECONDS", span)
            fit = availability.next_fit(_pool(*bookings), 0, 10, requests)
            self.assertEqual((10 * count - 1, False), (fit.window.start, fit.earliest))

    @staticmethod
    def draw_bookings(chance):
        for host_id in (1, 2):
            at = 0
            for _ in range(chance.randrange(12)):
                at += chance.randrange(1, 25)
                until = at + chance.randrange(1, 40)
                yield host_id, at, until, chance.choice((None, 1, 2, 3, 4))
                at = until


class TestTimeline(base.TestCase):
    def steps(self, pool, start, end):
        steps = availability.timeline(pool, Window.of(start, end))
        return [(step.window.start, step.window.end, step.hosts, step.vcpus) for step in steps]

    def test_nothing_is_booked(self):
        self.assertEqual([FreeStep(Window.of(0, 10), 2, 8, 200, 200)],
                         availability.timeline(_pool(), Window.of(0, 10)))

    def test_steps(self):
        pool = _pool((1, 5, 20, None), (2, 10, 30, 3))
        self.assertEqual(
            [(0, 5, 2, 8), (5, 10, 1, 4), (10, 20, 0, 1), (20, 25, 1, 5)],
            self.steps(pool, 0, 25))

    def test_the_total_has_hosts_that_are_down(self):
        pool = _pool(occupied=[1])
        self.assertEqual(PoolTotal(2, 8, 200, 200), availability.count_total(pool))
        self.assertEqual([(0, 10, 1, 4)], self.steps(pool, 0, 10))

    def test_equal_steps_are_one(self):
        pool = _pool((1, 0, 10, 2), (1, 10, 20, 2))
        self.assertEqual([(0, 20, 1, 6)], self.steps(pool, 0, 20))
