"""Moves: what is confirmed, reverted, deleted and claimed at the same moment."""

import itertools
from unittest import mock

from placement_core.placement import allocations, errors
from placement_core.placement.allocations import moves
from placement_core.placement.usage.usage_index import ProjectSet, UsageIndex
from placement_core.plugin_api.counting import CONSUMERS
from placement_core.testing import factories
from tests import databases, races
from tests.functional.placement import claims

_SMALL, _LARGE = {"VCPU": 2, "MEMORY_MB": 10}, {"VCPU": 5, "MEMORY_MB": 30}


@databases.on_each_database
class TestMoves(claims.ClaimsTestCase):
    """In the end every consumer counts once, whoever was first (the audit looks, too)."""

    def setUp(self):
        super().setUp()
        self.hosts = [self.provider(VCPU=1000, MEMORY_MB=10_000) for _ in range(2)]
        self.index = UsageIndex(self.database)

    def moved(self):
        """Give what an instance holds to a migration; return both."""
        instance, migration = factories.new_uuid(), factories.new_uuid()
        self.claim({self.hosts[0]: _SMALL}, consumer=instance)
        allocations.replace(self.ctx, [
            self.write({}, consumer=instance),
            self.write({self.hosts[0]: _SMALL}, consumer=migration)])
        return instance, migration

    def counted(self):
        usages = self.index.usages(self.ctx)
        project = ProjectSet(["project"])
        return {name: usages.total(project, name) for name in ("VCPU", "MEMORY_MB", CONSUMERS)}

    def race(self, *functions):
        """Run them at once; return those that were refused."""
        outcomes = races.run(*functions)
        refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        self.assertEqual([], [each for each in refused if not isinstance(
            each, errors.NoAllocations | errors.ConsumerGenerationConflict)])
        return refused

    def test_a_claim_and_the_end_of_the_migration(self):
        for _ in range(6):
            instance, migration = self.moved()
            self.assertEqual([], self.race(
                lambda instance=instance: self.claim(
                    {self.hosts[1]: _LARGE}, consumer=instance, ctx=self.context(), seen=None),
                lambda migration=migration: allocations.delete(self.context(), migration)))
            self.assertEqual({**_LARGE, CONSUMERS: 1}, self.counted())
            allocations.delete(self.ctx, instance)

    def test_a_claim_of_one_that_is_emptied_once_more(self):
        """Who empties what holds nothing has looked at it before; then it claims."""
        if self.kind == "sqlite":
            self.skipTest("one writes at a time there, and looks when it is its turn")
        instance, _ = self.moved()
        lock = moves.lock_pairs

        def empty(paused):
            def wait(*arguments):
                paused.here()
                return lock(*arguments)

            with mock.patch.object(moves, "lock_pairs", wait):
                allocations.replace(self.context(), [self.write({}, consumer=instance)])

        with races.Paused(empty) as paused:
            self.claim({self.hosts[1]: _LARGE}, consumer=instance, ctx=self.context(), seen=None)
        self.assertIsNone(paused.outcome)
        self.assertEqual({**_LARGE, CONSUMERS: 1}, self.counted())

    def test_a_revert_and_deletes(self):
        for first, second in itertools.product(("revert", "delete"), ("instance", "migration")):
            instance, migration = self.moved()
            self.claim({self.hosts[1]: _LARGE}, consumer=instance)
            victim = instance if second == "instance" else migration
            self.race(
                lambda instance=instance, migration=migration: allocations.replace(
                    self.context(), [self.write({}, consumer=migration),
                                     self.write({self.hosts[0]: _SMALL}, consumer=instance)]),
                lambda victim=victim: allocations.delete(self.context(), victim))
            for consumer in (instance, migration):
                if self.held(consumer):
                    allocations.delete(self.ctx, consumer)
            self.assertEqual(
                {"VCPU": 0, "MEMORY_MB": 0, CONSUMERS: 0}, self.counted(), (first, second))

    def test_many_at_once(self):
        """Eight instances are resized, confirmed or deleted, all of them at the same time."""
        pairs = [self.moved() for _ in range(8)]
        self.race(*(
            lambda instance=instance: self.claim(
                {self.hosts[1]: _LARGE}, consumer=instance, ctx=self.context())
            for instance, _ in pairs), *(
            lambda migration=migration: allocations.delete(self.context(), migration)
            for _, migration in pairs[:4]), *(
            lambda instance=instance: allocations.replace(
                self.context(), [self.write({}, consumer=instance)])
            for instance, _ in pairs[6:]))
        # Four are confirmed; of the others the larger of both counts.
        alive = sum(bool(self.held(instance)) for instance, _ in pairs[4:])
        self.assertEqual(
            {"VCPU": 5 * (4 + alive) + 2 * (4 - alive),
             "MEMORY_MB": 30 * (4 + alive) + 10 * (4 - alive), CONSUMERS: 8}, self.counted())
