"""Planning against the oracle: it admits what fits, and nothing else."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re

import hypothesis
import numpy as np
from hypothesis import strategies as st

from placement_core.plugin_api.reservations import DoesNotFit
from placement_core.reservations.scheduling import (
    availability,
    packing_room,
    packing_search,
    planner,
)
from tests import base
from tests.plugins.reservations import oracle, pools

# A seed rather than st.randoms: the odds are ours then.
_CHANCES = st.integers(0, 2**64).map(random.Random)


def _examples(count):
    return hypothesis.settings(max_examples=count, deadline=None, database=None)


class TestAdmission(base.TestCase):
    def assert_agrees(self, world, start, end, wants, held=(), *, started=False):
        """Compare a plan with what the oracle says; return it, None if refused."""
        pool, asked = pools.pool(world), pools.wanted(world, wants, held, started=started)
        expected = oracle.fits(world, start, end, wants)
        try:
            granted = planner.plan(pool, pools.window(start, end), asked)
        except DoesNotFit as error:
            self.assertFalse(expected, f"refused: {error}")
            self.assertTrue(error.missing)
            self.assertTrue(all(amount > 0 for amount in error.missing.values()), error.missing)
            return None
        self.assertTrue(expected, granted)
        placed = pools.placed(granted)
        self.assertTrue(oracle.stands(world, start, end, wants, placed), placed)
        for want, put in zip(wants, placed, strict=True):
            self.assert_is_what_was_asked(world, want, put)
        return placed

    def assert_is_what_was_asked(self, world, want, put):
        self.assertEqual(set(), set(put) - set(want.fixed) - oracle.may_have(world, want))
        if "within" in want.rules:
            self.assertEqual(1, len(oracle.domains(world, want.rules["within"], put)))
        if want.kind == "host":
            self.assertTrue(want.least <= len(put) <= max(want.most, len(want.fixed)), put)
        elif want.kind == "slots":
            self.assertEqual(want.amount, sum(put.values()))
            if want.affinity is not None:
                self.assertEqual(1 if want.affinity else want.amount, len(put))

    @_examples(600)
    @hypothesis.given(_CHANCES)
    def test_one_reservation(self, chance):
        world = pools.random_world(chance)
        start = chance.randint(0, 20)
        end, want = start + chance.randint(1, 8), pools.random_want(chance, world)
        placed = self.assert_agrees(world, start, end, [want])
        if placed:
            self.assert_lies_best(world, start, end, want, placed[0])

    def assert_lies_best(self, world, start, end, want, put):
        """Check that no way to put as much is packed or spread better."""
        if want.kind != "licence":
            as_much = dataclasses.replace(want, least=len(put))
            self.assertEqual(oracle.best_cost(world, start, end, as_much),
                             oracle.cost(world, want, put), (want, put))

    @_examples(600)
    @hypothesis.given(_CHANCES)
    def test_several_reservations(self, chance):
        world = pools.random_world(chance)
        start = chance.randint(0, 20)
        wants = [pools.random_want(chance, world) for _ in range(chance.randint(2, 3))]
        end = start + chance.randint(1, 8)
        placed = self.assert_agrees(world, start, end, wants)
        for index, want in enumerate(wants if placed else ()):
            self.assert_lies_best_among(world, start, end, wants, placed, index, want)

    def assert_lies_best_among(self, world, start, end, wants, placed, index, want):
        """Check that, where the others lie, no way to put as much is packed or spread better."""
        if want.kind == "licence" or not {"pack_by", "spread_by"} & set(want.rules):
            return
        as_much = dataclasses.replace(want, least=len(placed[index]))
        self.assertEqual(
            min(oracle.cost(world, want, way) for way in oracle.ways(world, as_much)
                if oracle.stands(world, start, end, wants, [
                    way if at == index else put for at, put in enumerate(placed)])),
            oracle.cost(world, want, placed[index]), (wants, placed, index))

    @_examples(300)
    @hypothesis.given(_CHANCES)
    def test_refusal_of_several(self, chance):
        """It names the first reservation for which there is no room, and the most there is."""
        world = pools.random_world(chance)
        start = chance.randint(0, 20)
        end = start + chance.randint(1, 8)
        wants = [pools.random_want(chance, world, ("host", "slots", "slots"))
                 for _ in range(chance.randint(2, 3))]
        alone = [oracle.fits(world, start, end, [want]) for want in wants]
        try:
            planner.plan(pools.pool(world), pools.window(start, end), pools.wanted(world, wants))
        except DoesNotFit as error:
            [number] = re.findall(r"^Reservation (\d) of the lease: ", str(error))
            index, beside = int(number) - 1, "beside the reservations before it" in str(error)
            if not all(alone):
                self.assertEqual((alone.index(False), False), (index, beside))
                return
            self.assertTrue(beside)
            self.assertTrue(oracle.fits(world, start, end, wants[:index]))
            what, amount = ("hosts", wants[index].least) if wants[index].kind == "host" else (
                "slots", wants[index].amount)
            self.assertEqual(
                self.most_beside(world, start, end, wants[:index], wants[index]),
                amount - error.missing[what], str(error))

    def most_beside(self, world, start, end, before, want):
        asked = want.least if want.kind == "host" else want.amount
        return next(count for count in range(asked - 1, -1, -1) if oracle.fits(
            world, start, end, [*before, *(
                [dataclasses.replace(want, least=count, amount=count)] if count else [])]))

    @_examples(300)
    @hypothesis.given(_CHANCES)
    def test_as_many_hosts_as_there_are(self, chance):
        """Up to the maximum, beside the other reservations of the lease."""
        world = pools.random_world(chance)
        start = chance.randint(0, 20)
        end = start + chance.randint(1, 8)
        want = pools.random_want(chance, world, ("host",))
        placed = self.assert_agrees(world, start, end, [want])
        if placed and len(placed[0]) < want.most:
            more = dataclasses.replace(want, least=len(placed[0]) + 1)
            self.assertFalse(oracle.fits(world, start, end, [more]))

    @_examples(300)
    @hypothesis.given(_CHANCES)
    def test_in_force(self, chance):
        """What is in force keeps all it holds, in another window, and gets more of it."""
        world, wants, placed, start, end = self.a_lease(chance)
        if not placed:
            return
        held = [pools.shares(world, want, put)
                for want, put in zip(wants, placed, strict=True)]
        for want, put in zip(wants, placed, strict=True):
            want.fixed = put
            more = chance.choice((0, 0, 1, 2))
            if want.kind == "host":
                want.least += more
                want.most = max(want.least, len(put))
            else:
                want.amount += more
        world.down = frozenset()
        later = end + chance.randint(0, 6)
        now = self.assert_agrees(world, start, later, wants, held, started=True)
        for want, put in zip(wants, now or (), strict=False):
            self.assertTrue(all(put[place] >= had for place, had in want.fixed.items()))
            if len(wants) == 1:
                self.assert_lies_best(world, start, later, want, put)

    @_examples(300)
    @hypothesis.given(_CHANCES)
    def test_to_come(self, chance):
        """What has not started may be put elsewhere; if it need not be, it is not."""
        world, wants, placed, start, end = self.a_lease(chance)
        if not placed:
            return
        held = [pools.shares(world, want, put)
                for want, put in zip(wants, placed, strict=True)]
        for want, put in zip(wants, placed, strict=True):
            want.most = max(want.least, len(put))
        again = self.assert_agrees(world, start, end, wants, held)
        if len(wants) == 1 or not any(
                rule in want.rules for want in wants for rule in ("pack_by", "spread_by")):
            self.assertEqual(placed, again)
        others = [pools.random_want(chance, world, (want.kind,)) for want in wants]
        start = chance.randint(0, 20)
        moved = self.assert_agrees(world, start, 28, others, held)
        if moved and len(others) == 1:
            self.assert_lies_best(world, start, 28, others[0], moved[0])

    def a_lease(self, chance):
        world = pools.random_world(chance)
        start = chance.randint(0, 20)
        end = start + chance.randint(1, 8)
        wants = [pools.random_want(chance, world, ("host", "slots", "slots"))
                 for _ in range(chance.randint(1, 2))]
        return world, wants, self.assert_agrees(world, start, end, wants), start, end


class TestSearch(base.TestCase):
    """The search, without the orders that mostly find something before it."""

    @_examples(300)
    @hypothesis.given(_CHANCES)
    def test_search_agrees(self, chance):
        world = pools.random_world(chance)
        start = chance.randint(0, 20)
        end = start + chance.randint(1, 8)
        wants = [pools.random_want(chance, world, ("host", "slots"))
                 for _ in range(chance.randint(2, 3))]
        pool = pools.pool(world)
        demands = planner.needs(pool, pools.wanted(world, wants))
        found = packing_search.search(
            pool.hosts, pool.free(pools.at(start), pools.at(end)),
            [packing_room.Item(demand) for demand in demands],
            packing_room.Shortfall(0, 0), packing_search.PackingBudget())
        short = isinstance(found, packing_room.Shortfall)
        self.assertEqual(oracle.fits(world, start, end, wants), not short)
        if short:
            self.assertTrue(found.proven)
        else:
            placed = [{int(pool.hosts.ids[row]): slots for row, slots in put.items()}
                      for put in found]
            self.assertTrue(oracle.stands(world, start, end, wants, placed), placed)


    @_examples(300)
    @hypothesis.given(_CHANCES)
    def test_what_fills_the_hosts_to_the_last(self, chance):
        """There is a way to put it, because it was made by taking it apart."""
        world, wants = pools.full(chance)
        self.assert_agrees(world, 3, 5, wants)

    @_examples(300)
    @hypothesis.given(_CHANCES)
    def test_one_more_than_fills_the_hosts(self, chance):
        world, wants = pools.full(chance, hosts=3)
        chance.choice(wants).amount += 1
        self.assert_agrees(world, 3, 5, wants)

    def test_what_fits_with_little_to_spare_on_many_hosts(self):
        """Too many to try all arrangements; the prices lead to one."""
        for seed in range(60):
            world, wants = pools.tight(random.Random(seed), 60, 4)
            placed = pools.placed(planner.plan(
                pools.pool(world), pools.window(3, 5), pools.wanted(world, wants)))
            self.assertTrue(oracle.stands(world, 3, 5, wants, placed), seed)

    def assert_agrees(self, world, start, end, wants):
        pool, asked = pools.pool(world), pools.wanted(world, wants)
        try:
            placed = pools.placed(planner.plan(pool, pools.window(start, end), asked))
        except DoesNotFit as error:
            self.assertFalse(oracle.fits(world, start, end, wants), f"refused: {error}")
        else:
            self.assertTrue(oracle.stands(world, start, end, wants, placed), placed)


class TestSeries(base.TestCase):
    """How much can be had throughout a time that begins at any second."""

    @_examples(200)
    @hypothesis.given(_CHANCES)
    def test_each_start(self, chance):
        world = pools.random_world(chance)
        minutes = chance.randint(1, 6)
        want = pools.random_want(chance, world, ("slots", "host"))
        pool = pools.pool(world)
        demand = planner.needs(pool, pools.wanted(world, [want]))[0]
        duration = (minutes + world.cleaning) * pools.MINUTE
        steps = pool.timelines.steps(pools.at(0), pools.at(24) + duration)
        times, values = planner.availability_series(pool, steps, duration, demand)
        self.assertEqual(pools.at(0), times[0])
        for minute in range(24):
            for second, early in ((0, 0), (1, 1), (59, 1)):
                at = pools.at(minute) + second
                value = values[np.searchsorted(times, at, side="right") - 1]
                # Part of a minute is a whole one to the oracle.
                expected = oracle.most(world, minute, minute + minutes + early, want)
                self.assertEqual(expected, value, (minute, second))


class TestNextFit(base.TestCase):
    @_examples(300)
    @hypothesis.given(_CHANCES)
    def test_next_fit(self, chance):
        world = pools.random_world(chance)
        since, minutes = chance.randint(0, 20), chance.randint(1, 8)
        wants = [pools.random_want(chance, world) for _ in range(chance.choice((1, 1, 2)))]
        found = availability.next_fit(
            pools.pool(world), pools.at(since), minutes * pools.MINUTE,
            pools.wanted(world, wants))
        expected = oracle.next_fit(world, since, minutes, wants)
        if expected is None:
            self.assertIsNone(found)
        else:
            self.assertEqual(
                availability.FittingWindow(pools.window(expected, expected + minutes)), found)

    @_examples(200)
    @hypothesis.given(_CHANCES)
    def test_one_reservation_needs_one_look(self, chance):
        """The first start that is tried is the one: the work does not grow with refusals."""
        world = pools.random_world(chance)
        wants = [pools.random_want(chance, world)]
        tried = []
        plain = planner.fits

        def counted(*args, **kwargs):
            tried.append(plain(*args, **kwargs)[0])
            return tried[-1], True

        planner.fits = counted
        try:
            availability.next_fit(pools.pool(world), pools.at(0), pools.MINUTE * 5,
                                  pools.wanted(world, wants))
        finally:
            planner.fits = plain
        self.assertIn(tried, ([True], []))


class TestTimeline(base.TestCase):
    @_examples(300)
    @hypothesis.given(_CHANCES)
    def test_timeline(self, chance):
        world = pools.random_world(chance)
        start = chance.randint(0, 20)
        end = start + chance.randint(1, 20)
        steps = availability.timeline(pools.pool(world), pools.window(start, end))
        self.assertEqual(pools.at(start), steps[0].window.start)
        self.assertEqual(pools.at(end), steps[-1].window.end)
        for one, after in itertools.pairwise(steps):
            self.assertEqual(one.window.end, after.window.start)
            self.assertNotEqual(_numbers(one), _numbers(after))
        for minute in range(start, end):
            step = next(each for each in steps
                        if each.window.start <= pools.at(minute) < each.window.end)
            self.assertEqual(oracle.free(world, minute), _numbers(step))


def _numbers(step):
    return step.hosts, step.vcpus, step.memory_mb, step.disk_gb
