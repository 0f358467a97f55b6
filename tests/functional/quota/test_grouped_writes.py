"""Writes that share a transaction, against the same writes one after the other."""

from __future__ import annotations

import fixtures

from placement_core.placement import errors
from placement_core.placement.allocations import grouped_writes
from placement_core.placement.allocations.gates import Undecided, WriteRequest
from placement_core.placement.allocations.grouped_writes import GroupedWrite, Shortages
from placement_core.placement.records import ANY_GENERATION, AllocationWrite
from placement_core.quota import errors as quota_errors
from placement_core.testing import factories
from tests import databases
from tests.functional.quota import twin_worlds


@databases.on_each_database
class TestGroups(twin_worlds.TwinsTestCase):

    def test_as_one_after_the_other(self):
        self.play_rounds()
        for outcome in ("applied", quota_errors.QuotaExceeded, errors.CapacityExceeded,
                        errors.ConsumerGenerationConflict, errors.NoAllocations,
                        errors.AllocationForUnknownProvider, Undecided):
            self.assertTrue(self.decided[outcome], (outcome, self.decided))

    def test_room_that_is_not_given_back(self):
        """What a write would give back helps none behind it if it is refused later."""
        world = self.worlds[0]
        trunk, _, right = world.projects
        for host, amount in ((1, 9), (2, 12)):
            self.assertIsNone(self.attempt(
                self.realize_one(world, host, {host: amount}, right if host == 1 else trunk),
                [self.guard()]))
        room = self.realize_one(world, 3, {3: 3}, right)
        self.assertIsNone(self.attempt(room, [self.guard()]))
        # The limit of the trunk, 24, is reached. One gives a consumer to somebody else, who may
        # have it; but the host has no room for so much.
        elsewhere = self.worlds[1].projects[0]
        gives_back = self.realize_one(world, 1, {1: 10}, elsewhere)
        takes = self.realize_one(world, 4, {3: 5}, trunk)
        outcomes = self.write_together([gives_back, takes], Shortages())
        self.assertIsInstance(outcomes[0], errors.CapacityExceeded)
        self.assertEqual(Undecided(), outcomes[1])
        self.assertIsInstance(
            self.attempt(takes, [self.guard()]), quota_errors.QuotaExceeded)

    def test_who_gives_back_makes_no_room_for_too_much(self):
        """Two that change places would fit together, but neither does without the other."""
        world = self.worlds[0]
        for consumer, host in ((1, 1), (2, 2)):
            self.assertIsNone(self.attempt(self.realize_one(
                world, consumer, {host: 6}, world.projects[0]), [self.guard()]))
        # The first host has room for three more, the second one for six.
        for likely in (False, True):
            shortages = Shortages()
            shortages.note(short=likely)
            self.assertEqual([errors.CapacityExceeded] * 2, [type(outcome) for outcome in (
                self.write_together([
                    self.realize_one(world, 1, {2: 9}, world.projects[0]),
                    self.realize_one(world, 2, {1: 9}, world.projects[0])], shortages))])

    def realize_one(self, world, consumer, amounts, project):
        return WriteRequest([AllocationWrite(
            world.consumers[consumer],
            {world.hosts[host]: {"VCPU": amount} for host, amount in amounts.items()},
            project, "berta", "INSTANCE", ANY_GENERATION)])

    def test_limits_that_changed_since_one_was_prepared(self):
        """The others are not decided by limits of another moment either."""
        for most in (0, 100):
            with fixtures.MonkeyPatch("placement_core.quota.locked_usage.MOST_PROJECTS", most):
                world, gate = self.worlds[0], self.guard()
                requests = [WriteRequest([AllocationWrite(
                    factories.new_uuid(), {world.hosts[3]: {"VCPU": 1}}, world.projects[number],
                    "berta", "INSTANCE", None)]) for number in (1, 2)]
                for request in requests:
                    self.owners.ensure(self.ctx, request.writes)
                stale = GroupedWrite(
                    requests[0], [gate.prepare(self.ctx, requests[0])], self.ctx)
                self.register(**{f"other{most}": 1})
                self.decisions.read_usages(self.ctx)  # an index is as old as its last reader
                current = GroupedWrite(
                    requests[1], [gate.prepare(self.ctx, requests[1])], self.ctx)
                self.assertEqual([Undecided()] * 2, grouped_writes.apply_together(
                    self.ctx, [current, stale], [gate], self.owners, Shortages()), most)

