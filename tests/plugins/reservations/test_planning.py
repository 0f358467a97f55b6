"""What is decided on small pools, case by case; the reference's faults by number.

Source: requirements R1 to R3, R6, R10; spec blazar §6; seed 003.
"""

from __future__ import annotations

import datetime
import sys
import time

import fixtures
from oslo_config import cfg

from placement_core.plugin_api.reservations import (
    DoesNotFit,
    Hosts,
    InvalidReservation,
    NotChangeable,
    ReservationSpec,
    Share,
    Size,
    Window,
)
from placement_core.reservations.scheduling import availability, packing_search, planner
from placement_core.reservations.scheduling.planner import ReservationRequest
from placement_core.reservations.scheduling.pools import Bookings, Pool
from placement_plugins.reservations import host, instance
from tests import base
from tests.plugins.reservations import pools

HOST = host.HostReservations(cfg.ConfigOpts())
INSTANCE = instance.InstanceReservations(cfg.ConfigOpts())


def hosts_of(*sizes, promised=(), down=()):
    """Return hosts 1, 2, … of so many VCPU, with plenty of the rest."""
    return Hosts.of([
        (at, size, 100_000, 10_000, at not in down, at in promised)
        for at, size in enumerate(sizes, 1)], {"number": list(range(1, len(sizes) + 1))})


def pool_of(hosts, *taken, cleaning=0):
    """Return a pool; taken: (host, start minute, end minute, vcpus; None: the whole host)."""
    return Pool(hosts, Bookings.of([
        (place, pools.at(start), pools.at(end), vcpus or 0, 1, 1, vcpus is None)
        for place, start, end, vcpus in taken]), cleaning_seconds=cleaning * pools.MINUTE)


def slots(amount, vcpus, affinity=None, held=(), started=False, **more):
    values = INSTANCE.values({"vcpus": vcpus, "memory_mb": 1, "disk_gb": 1, "amount": amount,
                              "affinity": affinity, **more})
    return ReservationRequest(INSTANCE, ReservationSpec("i", "p", values, held, started))


def whole(minimum, maximum=None, held=(), started=False, **more):
    values = HOST.values({"min": minimum, "max": maximum or minimum, **more})
    return ReservationRequest(HOST, ReservationSpec("h", "p", values, held, started))


def share(host_id, count, vcpus):
    return Share(host_id, count, Size(vcpus, 1, 1))


class Case(base.TestCase):
    def plan(self, pool, *wanted, window=None):
        found = planner.plan(pool, window or pools.window(0, 10), wanted)
        return found[0].shares if len(wanted) == 1 else [each.shares for each in found]

    def placed(self, pool, *wanted, window=None):
        found = planner.plan(pool, window or pools.window(0, 10), wanted)
        return pools.placed(found)[0] if len(wanted) == 1 else pools.placed(found)

    def refused(self, pool, *wanted, window=None):
        return self.assertRaises(
            DoesNotFit, planner.plan, pool, window or pools.window(0, 10), wanted)


class TestWeaknesses(Case):
    """The reference admits or refuses wrongly; we do not."""

    def test_1_every_slot_counts(self):
        """A host of 8 that holds 2 × 4 has no room, whichever affinity."""
        pool = pool_of(hosts_of(8), (1, 0, 10, 8))
        for affinity in (None, True, False):
            self.refused(pool, slots(1, 4, affinity))
            shares = self.plan(pool_of(hosts_of(8)), slots(2, 4, None))
            self.assertEqual([share(1, 2, 4)], shares)
            taken = Bookings.of_shares([(shares[0], pools.at(0), pools.at(10))])
            self.refused(Pool(hosts_of(8), taken), slots(1, 4, affinity))

    def test_2_reservations_of_one_lease_see_each_other(self):
        self.refused(pool_of(hosts_of(8)), slots(1, 8), slots(1, 8))
        self.refused(pool_of(hosts_of(8)), whole(1), slots(1, 1))
        self.refused(pool_of(hosts_of(8)), whole(1), whole(1))
        self.assertEqual([{1: 1}, {2: 1}], self.placed(
            pool_of(hosts_of(8, 8)), slots(1, 8), slots(1, 8)))

    def test_3_back_to_back(self):
        """What ends when it begins, or begins when it ends, is not in its way."""
        for pool in (pool_of(hosts_of(8), (1, 0, 5, 8), (1, 10, 15, 8)),
                     pool_of(hosts_of(8), (1, 0, 5, None), (1, 10, 15, None))):
            self.assertEqual({1: 2}, self.placed(pool, slots(2, 4), window=pools.window(5, 10)))
            self.assertEqual({1: 1}, self.placed(pool, whole(1), window=pools.window(5, 10)))
            for window in (pools.window(4, 10), pools.window(5, 11)):
                self.refused(pool, slots(1, 4), window=window)
                self.refused(pool, whole(1), window=window)

    def test_3_touching_leases_do_not_add_up(self):
        pool = pool_of(hosts_of(8), (1, 0, 5, 4), (1, 5, 10, 4))
        self.assertEqual({1: 1}, self.placed(pool, slots(1, 4)))
        self.refused(pool, slots(1, 5))

    def test_3_to_the_second(self):
        pool = pool_of(hosts_of(8), (1, 0, 5, 8))
        at = pools.at(5)
        self.assertEqual({1: 1}, self.placed(pool, slots(1, 8), window=Window.of(at, at + 1)))
        self.refused(pool, slots(1, 8), window=Window.of(at - 1, at))

    def test_7_work_is_bounded_by_the_pool(self):
        """However many slots are asked for, and sizes of nothing are refused."""
        hosts = hosts_of(*[1000] * 50)
        begun = time.process_time()
        for affinity in (None, True, False):
            error = self.refused(pool_of(hosts), slots(2**31 - 1, 1, affinity))
            self.assertTrue(error.missing["slots"] > 2**30)
            self.refused(pool_of(hosts), slots(2**31 - 1, 1, affinity), slots(2**31 - 1, 1))
            self.refused(pool_of(hosts), slots(1, 2**31 - 1, affinity))
        self.refused(pool_of(hosts), slots(20_000, 1), slots(20_000, 1), slots(20_000, 1))
        self.refused(pool_of(hosts), whole(2**31 - 1))
        self.assertTrue(time.process_time() - begun < 5)
        for vcpus in (0, -1, 2**31, 10**30):
            self.assertRaises(InvalidReservation, slots, 1, vcpus)

    def test_8_properties(self):
        """Of numbers, of either of two, of a host that there is; see the requirements."""
        pool = pool_of(hosts_of(*[8] * 12))
        self.assertEqual({10: 1, 11: 1, 12: 1}, self.placed(pool, whole(
            1, 9, resource_properties='[">", "$number", "9"]')))
        self.assertEqual({2: 1, 12: 1}, self.placed(pool, slots(2, 8, resource_properties=(
            '["or", ["=", "$number", "2"], ["=", "$number", "12"]]'))))
        error = self.assertRaises(InvalidReservation, self.placed, pool, whole(
            1, hypervisor_properties='["=", "$colour", "red"]'))
        self.assertIn('"colour"', str(error))


class TestSeed(Case):
    """What the seed promises (R10)."""

    def test_slots_land_on_different_hosts(self):
        self.assertEqual({1: 1, 2: 1, 3: 1, 4: 1, 5: 1}, self.placed(
            pool_of(hosts_of(*[64] * 6)), slots(5, 4, False)))
        self.refused(pool_of(hosts_of(*[64] * 4)), slots(5, 4, False))

    def test_60_vcpu_and_240_gb_from_june_to_august(self):
        window = Window(datetime.datetime(2017, 6, 1, tzinfo=datetime.UTC),
                        datetime.datetime(2017, 8, 14, tzinfo=datetime.UTC))
        hosts = Hosts.of([(at, 16, 65_536, 1000, True, False) for at in range(1, 5)])
        asked = slots(60, 1, memory_mb=4096)
        shares = self.plan(Pool(hosts, Bookings.of([])), asked, window=window)
        self.assertEqual([16, 16, 16, 12], [each.slots for each in shares])
        taken = Bookings.of_shares([(each, window.start, window.end) for each in shares])
        self.refused(Pool(hosts, taken), slots(5, 1), window=window)
        self.assertEqual({4: 4}, self.placed(Pool(hosts, taken), slots(4, 1), window=window))

    def test_four_small_instances(self):
        pool = Pool(Hosts.of([(1, 4, 4096, 40, True, False)]), Bookings.of([]))
        self.assertEqual({1: 4}, self.placed(pool, slots(4, 1, memory_mb=1024, disk_gb=10)))


class TestChoice(Case):
    def test_hosts_that_nobody_ever_had_come_first(self):
        pool = pool_of(hosts_of(8, 8, 8, 8, promised=(1, 3)))
        self.assertEqual({2: 1}, self.placed(pool, whole(1)))
        self.assertEqual({1: 1, 2: 1, 4: 1}, self.placed(pool, whole(3)))

    def test_hosts_that_are_in_use_are_filled_first(self):
        pool = pool_of(hosts_of(8, 8, 8), (2, 3, 5, 2), (3, 20, 30, 2))
        self.assertEqual({2: 2}, self.placed(pool, slots(2, 2)))
        self.assertEqual({1: 1, 2: 3}, self.placed(pool, slots(4, 2)))
        self.assertEqual({2: 2}, self.placed(pool, slots(2, 2, True)))
        self.assertEqual({1: 1, 2: 1}, self.placed(pool, slots(2, 2, False)))

    def test_more_than_at_least_only_beside_the_others(self):
        self.assertEqual([{1: 1}, {2: 1}], self.placed(
            pool_of(hosts_of(8, 8)), whole(1, 2), slots(1, 8)))
        self.assertEqual([{1: 1, 3: 1}, {2: 1}], self.placed(
            pool_of(hosts_of(4, 8, 4)), whole(1, 9), slots(1, 8)))

    def test_the_only_host_that_another_may_have_is_left_to_it(self):
        only = '["=", "$number", "1"]'
        for lease in ([whole(1), whole(1, resource_properties=only)],
                      [slots(1, 8), whole(1, resource_properties=only)],
                      [whole(1), slots(1, 8, resource_properties=only)]):
            found = self.placed(pool_of(hosts_of(8, 8)), *lease)
            self.assertEqual([{2: 1}, {1: 1}], found)

    def test_hosts_that_are_down_get_nothing(self):
        pool = pool_of(hosts_of(8, 8, down=(1,)))
        self.assertEqual({2: 1}, self.placed(pool, whole(1, 2)))
        self.assertEqual(1, self.refused(pool, slots(2, 8)).missing["slots"])

    def test_cleaning(self):
        """It lasts after each promise: of those before, and of the one that is asked for."""
        pool = pool_of(hosts_of(8), (1, 0, 5, None), (1, 20, 30, None), cleaning=2)
        self.assertEqual({1: 1}, self.placed(pool, whole(1), window=pools.window(7, 18)))
        for window in (pools.window(6, 18), pools.window(7, 19)):
            self.refused(pool, whole(1), window=window)
            self.refused(pool, slots(1, 1), window=window)

    def test_promises_of_hosts_that_left_the_pool(self):
        self.assertEqual({1: 1}, self.placed(
            pool_of(hosts_of(8), (7, 0, 10, None)), whole(1)))

    def test_an_empty_pool(self):
        nothing = pool_of(hosts_of())
        self.assertEqual({"hosts": 2}, self.refused(nothing, whole(2)).missing)
        self.assertEqual(3, self.refused(nothing, slots(3, 1)).missing["slots"])
        self.assertIsNone(availability.next_fit(nothing, pools.at(0), 60, [slots(3, 1)]))
        self.assertEqual([availability.FreeStep(pools.window(0, 9), 0, 0, 0, 0)],
                         availability.timeline(nothing, pools.window(0, 9)))

    def test_a_host_that_shrank_below_what_is_promised(self):
        pool = pool_of(hosts_of(4, 8), (1, 0, 10, 8))
        self.assertEqual({2: 1}, self.placed(pool, slots(1, 1)))
        self.assertEqual(8, availability.timeline(pool, pools.window(0, 10))[0].vcpus)


class TestChanges(Case):
    def test_what_is_held_stays(self):
        held = [share(2, 1, 4), share(3, 2, 4)]
        pool = pool_of(hosts_of(8, 8, 8))
        self.assertEqual({2: 1, 3: 2}, self.placed(pool, slots(3, 4, held=held)))
        self.assertEqual({2: 1, 3: 1}, self.placed(pool, slots(2, 4, held=held)))
        self.assertEqual({2: 2, 3: 2}, self.placed(pool, slots(4, 4, held=held)))

    def test_what_cannot_stay_moves(self):
        held = [share(2, 2, 4)]
        pool = pool_of(hosts_of(8, 8), (2, 0, 10, 4))
        self.assertEqual({1: 1, 2: 1}, self.placed(pool, slots(2, 4, held=held)))
        self.assertEqual({1: 2}, self.placed(pool, slots(2, 4, True, held=held)))

    def test_what_is_held_stays_on_a_host_that_is_down(self):
        pool = pool_of(hosts_of(8, 8, down=(2,)))
        for started in (False, True):
            self.assertEqual({2: 1}, self.placed(
                pool, whole(1, held=[share(2, 1, 8)], started=started)))
            self.assertEqual({1: 1, 2: 1}, self.placed(
                pool, slots(2, 4, held=[share(2, 1, 4)], started=started)))

    def test_in_force_it_only_grows(self):
        pool = pool_of(hosts_of(8, 8, 8))
        held = [share(2, 1, 4)]
        self.assertEqual({2: 2, 1: 1}, self.placed(
            pool, slots(3, 4, held=held, started=True)))
        for wanted in (whole(1, held=[share(1, 1, 8), share(2, 1, 8)], started=True),
                       slots(1, 4, held=[share(1, 2, 4)], started=True)):
            self.assertRaises(
                NotChangeable, planner.plan, pool, pools.window(0, 10), [wanted])

    def test_in_force_it_cannot_lose(self):
        held = [share(1, 2, 4)]
        pool = pool_of(hosts_of(8, 8), (1, 5, 10, 4))
        error = self.refused(pool, slots(2, 4, held=held, started=True))
        self.assertEqual({"slots": 1}, error.missing)
        self.assertIn("1 of 2 slots that the reservation holds cannot be kept", str(error))

    def test_a_replacement_of_a_host_that_failed(self):
        """Healing: what is left is held, the rest is found anew."""
        pool = pool_of(hosts_of(8, 8, 8, down=(2,)))
        self.assertEqual({1: 1, 3: 1}, self.placed(
            pool, whole(2, held=[share(1, 1, 8)], started=True)))

    def test_fields_that_may_change(self):
        before = slots(2, 4, False).spec.values
        self.assertEqual(3, INSTANCE.values({"amount": "3"}, before, started=True)["amount"])
        for change in ({"amount": 1}, {"vcpus": 2}, {"memory_mb": 2}, {"disk_gb": 2},
                       {"affinity": "None"}, {"resource_properties": '["=", "$number", "1"]'}):
            self.assertRaises(NotChangeable, INSTANCE.values, change, before, started=True)
            INSTANCE.values(change, before)
        same = {"vcpus": "4", "affinity": "False", "resource_properties": ""}
        self.assertEqual(before, INSTANCE.values(same, before, started=True))

    def test_at_least_stays_below_at_most(self):
        before = whole(2, 4).spec.values
        self.assertRaises(InvalidReservation, HOST.values, {"max": 1}, before)
        self.assertRaises(InvalidReservation, HOST.values, {"min": 5}, before)
        self.assertEqual((5, 5), tuple(HOST.values({"min": 5, "max": 5}, before)[key]
                                       for key in ("min", "max")))


class TestClients(base.TestCase):
    """What python-blazarclient 4.6 sends."""

    def test_what_its_shell_sends(self):
        self.assertEqual(
            {"min": 1, "max": 2, "hypervisor_properties": '[">=", "$vcpus", "2"]',
             "resource_properties": "", "before_end": ""},
            HOST.values({"min": 1, "max": 2, "hypervisor_properties": '[">=", "$vcpus", "2"]',
                         "resource_properties": ""}))
        self.assertEqual(
            {"vcpus": 4, "memory_mb": 4096, "disk_gb": 10, "amount": 5, "affinity": None,
             "resource_properties": ""},
            INSTANCE.values({"vcpus": 4, "memory_mb": 4096, "disk_gb": 10, "amount": 5,
                             "affinity": "None", "resource_properties": ""}))

    def test_affinity(self):
        for said, expected in ((True, True), ("True", True), ("true", True), (False, False),
                               ("False", False), ("false", False), (None, None),
                               ("None", None), ("none", None)):
            self.assertIs(expected, slots(1, 1, said).spec.values["affinity"])

    def test_what_it_sends_for_what_was_not_said_is_refused(self):
        """Its shell sends "" for a size that is missing."""
        error = self.assertRaises(InvalidReservation, INSTANCE.values, {
            "vcpus": 1, "memory_mb": "", "disk_gb": "", "amount": 1})
        self.assertEqual("memory_mb", error.field)


class TestRefusals(Case):
    def test_slots(self):
        pool = pool_of(hosts_of(8, 8), (1, 2, 4, 4), (2, 3, 8, 8))
        error = self.refused(pool, slots(4, 4))
        self.assertEqual({"slots": 3, "VCPU": 12}, error.missing)
        self.assertEqual(pools.window(3, 4), error.during)
        self.assertEqual(
            "4 slots of 4 VCPU, 1 MiB of memory and 1 GiB of disk were asked for, 1 fits "
            f"{pools.window(0, 10)}; there is VCPU for 1; least is free {pools.window(3, 4)}.",
            str(error))

    def test_rooms_in_turn(self):
        """There is room at any moment, but on no host throughout."""
        pool = pool_of(hosts_of(8, 8), (1, 0, 5, 8), (2, 5, 10, 8))
        for wanted in (slots(1, 8), whole(1)):
            error = self.refused(pool, wanted)
            self.assertIsNone(error.during)
            self.assertIn("but not in the same places throughout", str(error))

    def test_hosts(self):
        pool = pool_of(hosts_of(8, 8, 8), (1, 2, 4, 4))
        error = self.refused(pool, whole(3))
        self.assertEqual(({"hosts": 1}, pools.window(2, 4)), (error.missing, error.during))
        self.assertIn("3 hosts were asked for, 2 fit", str(error))
        error = self.refused(pool, whole(1, resource_properties='["=", "$number", "9"]'))
        self.assertIn("1 host was asked for, 0 fit", str(error))
        self.assertIn("0 of the pool meet the requirements", str(error))

    def test_beside_the_others(self):
        error = self.refused(pool_of(hosts_of(8)), slots(1, 5), slots(1, 5))
        self.assertEqual(1, error.missing["slots"])
        self.assertIn("Reservation 2 of the lease: 1 slot of 5 VCPU", str(error))
        self.assertIn("0 fit", str(error))
        self.assertIn("beside the reservations before it", str(error))

    def test_the_most_that_fits_beside_the_others(self):
        """Of the third reservation three slots fit, wherever an order would put the others."""
        pool = pool_of(hosts_of(7, 5))
        self.placed(pool, slots(2, 3), slots(3, 2))
        error = self.refused(pool, slots(1, 3), slots(1, 3), slots(4, 2))
        self.assertEqual(1, error.missing["slots"])
        self.assertIn("Reservation 3 of the lease: 4 slots of 2 VCPU", str(error))
        self.assertIn("3 fit", str(error))

    def test_what_does_not_fit_alone_is_said_of_it_alone(self):
        error = self.refused(pool_of(hosts_of(8)), slots(1, 5), slots(2, 9))
        self.assertIn("Reservation 2 of the lease: 2 slots of 9 VCPU", str(error))
        self.assertNotIn("beside", str(error))

    def test_an_unfinished_search_says_so(self):
        """What was refused without proof is not called impossible."""
        pool, lease = pool_of(hosts_of(10, 11)), [slots(3, 4), slots(3, 3)]
        self.assertEqual([{1: 1, 2: 2}, {1: 2, 2: 1}], self.placed(pool, *lease))
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.reservations.scheduling.planner.PackingBudget",
            lambda: packing_search.PackingBudget(0)))
        self.assertIn("in any of the arrangements that were tried",
                      str(self.refused(pool, *lease)))


class TestNextFit(Case):
    def next_fit(self, pool, *wanted, since=0, minutes=5):
        found = availability.next_fit(pool, pools.at(since), minutes * pools.MINUTE, wanted)
        return found and (found.window, found.earliest)

    def test_when_enough_has_ended(self):
        pool = pool_of(hosts_of(8), (1, 0, 10, 8), (1, 12, 20, 8), (1, 20, 30, 4))
        self.assertEqual((pools.window(10, 12), True), self.next_fit(
            pool, slots(1, 8), minutes=2))
        self.assertEqual((pools.window(20, 25), True), self.next_fit(pool, slots(1, 4)))
        self.assertEqual((pools.window(30, 35), True), self.next_fit(pool, slots(1, 8)))
        self.assertEqual((pools.window(33, 38), True), self.next_fit(
            pool, slots(1, 8), since=33))

    def test_never(self):
        self.assertIsNone(self.next_fit(pool_of(hosts_of(8), (1, 0, 10, 8)), slots(1, 9)))
        self.assertIsNone(self.next_fit(pool_of(hosts_of(8), (1, 0, 10, 8)), whole(2)))

    def test_what_is_refused_fits_then(self):
        pool = pool_of(hosts_of(8, 8), (1, 0, 10, 8), (2, 4, 30, None))
        lease = [slots(1, 8), slots(1, 8)]
        self.refused(pool, *lease, window=pools.window(0, 5))
        found = availability.next_fit(pool, pools.at(0), 5 * pools.MINUTE, lease)
        self.assertEqual(pools.window(30, 35), found.window)
        self.placed(pool, *lease, window=found.window)


class TestWork(Case):
    """What a decision costs is counted, not timed: steps of Python, not promises."""

    def setUp(self):
        super().setUp()
        self.hosts = hosts_of(*[64] * 1000)
        promised = [(1 + at % 1000, at // 1000 * 10, at // 1000 * 10 + 10, 40)
                    for at in range(10_000)]
        self.pool = pool_of(self.hosts, *promised)

    def lines(self, function):
        """Return how many lines of our code ran."""
        count = 0

        def trace(frame, event, _argument):
            nonlocal count
            if "placement" not in frame.f_code.co_filename:
                return None
            count += event == "line"
            return trace

        sys.settrace(trace)
        try:
            function()
        finally:
            sys.settrace(None)
        return count

    def test_it_does_not_grow_with_hosts_and_promises(self):
        small = pool_of(hosts_of(*[64] * 10), *[
            (1 + at % 10, at // 10 * 10, at // 10 * 10 + 10, 40) for at in range(100)])
        for wanted in ([slots(4, 4, False)], [slots(4, 4, True)], [slots(4, 4)],
                       [slots(2, 4), slots(2, 20)]):
            window = pools.window(25, 35)
            counts = [self.lines(lambda pool=pool, wanted=wanted: planner.plan(
                pool, window, wanted)) for pool in (small, self.pool)]
            self.assertTrue(counts[1] <= counts[0] + 20, counts)

    def test_a_refusal_neither(self):
        window = pools.window(25, 35)
        self.assertTrue(self.lines(
            lambda: self.refused(self.pool, slots(4, 40), window=window)) < 1000)

    def test_next_fit_neither(self):
        found = []
        count = self.lines(lambda: found.append(availability.next_fit(
            self.pool, pools.at(0), 600, [slots(4, 40)])))
        self.assertEqual(pools.at(100), found[0].window.start)
        self.assertTrue(count < 1000, count)

    def test_overlapping_promises_only(self):
        """Of ten thousand promises, a window looks at those it overlaps."""
        steps = self.pool.timelines.steps(pools.at(20), pools.at(30))
        self.assertEqual((1000, 2000), (len(set(steps.things.tolist())), len(steps.things)))
