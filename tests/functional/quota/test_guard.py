import logging

import fixtures
import sqlalchemy as sa

from placement_core import amounts
from placement_core.limits import limits
from placement_core.placement import allocations, inventories, resource_classes, tables
from placement_core.placement.usage import usages
from placement_core.plugin_api.limits import EffectiveLimits
from placement_core.quota import errors
from placement_core.quota.nodes import LimitNodes
from placement_core.testing import factories
from placement_plugins.enforcement.tree import Tree
from tests import databases, races
from tests.functional.quota import project_trees
from tests.round_trips import RoundTrips


@databases.on_each_database
class TestGuard(project_trees.TreeTestCase):

    #: The limit nodes, the usage below them with the state of limits and catalog, and their
    #: fullness; together where that can be.
    round_trips = {"sqlite": 3, "mysql": 1, "postgresql": 1}
    #: The same if their fullness shows that a claim fits.
    round_trips_by_fullness = {"sqlite": 1, "mysql": 0, "postgresql": 0}

    def refused(self, project, held, **options):
        """Claim in vain; return what stood in the way."""
        refusal = self.assertRaises(
            errors.QuotaExceeded, self.take, project, held, **options)
        return [(each.node_id, each.resource_name, each.scope, each.limit, each.used, each.asked)
                for each in refusal.exceeded_limits]

    def used_by(self, project):
        return {name: used for each in usages.for_project(self.ctx, project)
                for name, used in each.resources.items()}

    def test_a_default_bounds_what_a_project_uses_itself(self):
        self.register(VCPU=10)
        self.take(self.left, {"VCPU": 8})
        self.take(self.right, {"VCPU": 8})
        self.assertEqual([(self.left, "class:VCPU", "own", 10, 8, 3)],
                         self.refused(self.left, {"VCPU": 3}))
        self.take(self.left, {"VCPU": 2})
        self.assertEqual({"VCPU": 10}, self.used_by(self.left))

    def test_a_project_that_is_named_with_trailing_blanks(self):
        """MySQL takes the names for equal: it is the same project, for its limits, too."""
        if self.kind != "mysql":
            self.skipTest("only MySQL takes such names for equal")
        self.register(VCPU=10)
        self.take(self.left, {"VCPU": 8})
        self.assertEqual([(self.left, "class:VCPU", "own", 10, 8, 3)],
                         self.refused(f"{self.left} ", {"VCPU": 3}))
        self.take(f"{self.left} ", {"VCPU": 2})
        self.assertEqual({"VCPU": 10}, self.used_by(self.left))

    def test_nothing_is_written_of_what_is_refused(self):
        self.register(VCPU=10)
        consumer = factories.new_uuid()
        self.refused(self.left, {"VCPU": 11}, consumer=consumer)
        self.assertEqual({}, self.held(consumer))
        self.assertEqual(0, self.used(self.host)["VCPU"])

    def test_every_limit_above_binds(self):
        self.register(VCPU=100)
        self.limit(self.domain, VCPU=20)
        self.limit(self.trunk, VCPU=15)
        self.limit(self.left, VCPU=12)
        self.take(self.right, {"VCPU": 5})
        self.take(self.left, {"VCPU": 5})
        self.assertEqual([
            (self.left, "class:VCPU", "subtree", 12, 5, 11),
            (self.trunk, "class:VCPU", "subtree", 15, 10, 11),
            (self.domain, "class:VCPU", "subtree", 20, 10, 11),
        ], self.refused(self.left, {"VCPU": 11}))
        self.take(self.left, {"VCPU": 5})

    def test_the_refusal_says_it(self):
        self.register(VCPU=10)
        refusal = self.assertRaises(errors.QuotaExceeded, self.take, self.left, {"VCPU": 11})
        self.assertEqual(
            f"class:VCPU: project {self.left} may use 10, 0 is used, 11 more was asked for.",
            str(refusal))
        self.assertEqual("placement.quota.exceeded", refusal.code)
        self.assertEqual([1], [each.over_by for each in refusal.exceeded_limits])

    def test_what_no_limit_is_registered_for_is_free(self):
        self.register(VCPU=10)
        self.take(self.left, {"MEMORY_MB": 5000})

    def test_or_for_nobody(self):
        self.register(cores=10)
        self.decisions = self.made(unregistered=0)
        self.take(self.left, {"VCPU": 1})
        self.assertEqual([(self.left, "class:MEMORY_MB", "own", 0, 0, 5)],
                         self.refused(self.left, {"VCPU": 1, "MEMORY_MB": 5}))

    def test_without_a_service_nothing_is_registered(self):
        self.catalog.services = lambda *_, **__: []
        self.take(self.left, {"VCPU": 900})
        self.decisions = self.made(unregistered=0)
        self.refused(self.left, {"VCPU": 1})

    def test_several_services_of_the_type(self):
        [service] = self.catalog.services(self.ctx, service_type="compute")
        self.catalog.services = lambda *_, **__: [service, service]
        self.assertRaises(errors.AmbiguousService, self.take, self.left, {"VCPU": 1})

    def test_names_that_count_several_classes(self):
        self.register(cores=10, ram=100)
        consumer = self.take(self.left, {"VCPU": 6, "PCPU": 4})
        self.assertEqual([(self.left, "cores", "own", 10, 10, 1)],
                         self.refused(self.left, {"PCPU": 1}))
        # From one class to the other, in passing: no more cores than before.
        self.take(self.left, {"PCPU": 10, "MEMORY_MB": 100}, consumer=consumer)
        self.assertEqual([(self.left, "ram", "own", 100, 100, 1)],
                         self.refused(self.left, {"MEMORY_MB": 1}))

    def test_servers(self):
        self.register(servers=2)
        self.take(self.left, {"VCPU": 1})
        second = self.take(self.left, {"VCPU": 1})
        self.assertEqual([(self.left, "servers", "own", 2, 2, 1)],
                         self.refused(self.left, {"VCPU": 1}))
        self.take(self.left, {"VCPU": 7}, consumer=second)

    def test_servers_while_classes_are_gone_that_were_used(self):
        """Counters of a class stay behind it; they are not taken for those of servers."""
        self.register(servers=2)
        gone = ("CUSTOM_GPU", "CUSTOM_FPGA", "CUSTOM_NIC")
        host = self.provider(VCPU=10, **dict.fromkeys(gone, 10))
        for _ in range(2):
            self.take(self.left, {"VCPU": 1}, host=host)
        for name in gone:
            consumer = factories.new_uuid()
            self.claim({host: {name: 1}}, project=self.left, consumer=consumer)
            allocations.delete(self.ctx, consumer)
            inventories.delete(self.ctx, host.uuid, name)
            resource_classes.delete(self.ctx, name)
        self.assertEqual([(self.left, "servers", "own", 2, 2, 1)],
                         self.refused(self.left, {"VCPU": 1}, host=host))

    def test_instances_are_not_the_guards_business(self):
        self.register(instances=0)
        self.take(self.left, {"VCPU": 1})

    def test_what_shrinks_is_not_refused(self):
        self.register(VCPU=10, MEMORY_MB=10)
        consumer = self.take(self.left, {"VCPU": 8, "MEMORY_MB": 8})
        self.limit(self.left, VCPU=2, MEMORY_MB=2)
        self.take(self.left, {"VCPU": 7, "MEMORY_MB": 8}, consumer=consumer)
        self.assertEqual([(self.left, "class:VCPU", "subtree", 2, 7, 1)],
                         self.refused(self.left, {"VCPU": 8, "MEMORY_MB": 1}, consumer=consumer))
        self.take(self.left, consumer=consumer)
        self.assertEqual({}, self.held(consumer))

    def test_delete_is_not_refused(self):
        self.register(VCPU=10)
        consumer = self.take(self.left, {"VCPU": 8})
        self.limit(self.left, VCPU=0)
        allocations.delete(self.ctx, consumer)
        self.assertEqual({}, self.held(consumer))

    def test_to_another_project(self):
        """The one that gets a consumer grows, the one that loses it does not."""
        self.register(VCPU=10)
        self.limit(self.right, VCPU=3)
        consumer = self.take(self.left, {"VCPU": 5})
        self.assertEqual([(self.right, "class:VCPU", "subtree", 3, 0, 5)],
                         self.refused(self.right, {"VCPU": 5}, consumer=consumer))
        self.take(self.right, {"VCPU": 3}, consumer=consumer)
        self.take(self.left, {"VCPU": 10})

    def test_users(self):
        self.register(VCPU=10, MEMORY_MB=-1, servers=-1)
        self.limit_user(self.left, "eve", VCPU=4, servers=2)
        consumer = self.take(self.left, {"VCPU": 3}, user="eve")
        self.take(self.left, {"VCPU": 3}, user="adam")
        self.assertEqual([(self.left, "class:VCPU", "user", 4, 3, 2)],
                         self.refused(self.left, {"VCPU": 2}, user="eve"))
        self.take(self.left, {"VCPU": 1, "MEMORY_MB": 50}, user="eve")
        self.assertEqual([(self.left, "servers", "user", 2, 2, 1)],
                         self.refused(self.left, {"MEMORY_MB": 1}, user="eve"))
        # Of one user to another, the project has no more than before.
        self.limit_user(self.left, "adam", VCPU=4)
        self.assertEqual([(self.left, "class:VCPU", "user", 4, 3, 3)],
                         self.refused(self.left, {"VCPU": 3}, user="adam", consumer=consumer))

    def test_several_consumers_at_once(self):
        self.register(VCPU=10)
        writes = [self.write({self.host: {"VCPU": 4}}, consumer=factories.new_uuid(),
                             project=project) for project in (self.left, self.left, self.right)]
        allocations.replace(self.ctx, writes, [self.guard()])
        more = self.write({self.host: {"VCPU": 3}}, consumer=factories.new_uuid(),
                          project=self.right)
        refusal = self.assertRaises(
            errors.QuotaExceeded, allocations.replace, self.ctx,
            [more, self.write({self.host: {"VCPU": 3}}, consumer=factories.new_uuid(),
                              project=self.left)], [self.guard()])
        self.assertEqual([self.left], [each.node_id for each in refusal.exceeded_limits])
        self.assertEqual({"VCPU": 4}, self.used_by(self.right))

    def test_several_projects_at_once(self):
        """They count together against the limit of what is above them."""
        self.register(VCPU=10)
        self.limit(self.trunk, VCPU=8)
        writes = [self.write({self.host: {"VCPU": 5}}, consumer=factories.new_uuid(),
                             project=project) for project in (self.left, self.right)]
        refusal = self.assertRaises(
            errors.QuotaExceeded, allocations.replace, self.ctx, writes, [self.guard()])
        self.assertEqual(
            f"class:VCPU: {self.trunk} and what is below it may use 8, 0 is used, 10 more was "
            "asked for.", str(refusal))
        self.assertEqual(({}, {}), (self.used_by(self.left), self.used_by(self.right)))

    def test_what_one_gives_another_gets(self):
        """Below a limit that is reached, what is used together does not grow."""
        self.register(VCPU=10)
        self.limit(self.trunk, VCPU=8)
        one, other = self.take(self.left, {"VCPU": 6}), self.take(self.right, {"VCPU": 2})
        self.take(self.right, {"VCPU": 6}, consumer=one)
        allocations.replace(self.ctx, [
            self.write({self.host: {"VCPU": 3}}, consumer=one, project=self.right),
            self.write({self.host: {"VCPU": 5}}, consumer=other, project=self.left),
        ], [self.guard()])
        self.assertEqual(({"VCPU": 5}, {"VCPU": 3}),
                         (self.used_by(self.left), self.used_by(self.right)))
        self.assertEqual(
            [(self.trunk, "class:VCPU", "subtree", 8, 8, 1)],
            self.refused(self.left, {"VCPU": 4}, consumer=one))

    def test_the_end_of_a_move_gives_others_nothing(self):
        """Its second half did not count, so the domain is as full as before."""
        self.register(VCPU=100)
        self.limit(self.domain, VCPU=8)
        instance, other = self.take(self.left, {"VCPU": 4}), self.provider(VCPU=10)
        allocations.replace(self.ctx, [
            self.write({}, consumer=instance, project=self.left),
            self.write({self.host: {"VCPU": 4}}, consumer=factories.new_uuid(),
                       project=self.left)], [self.guard()])
        self.take(self.left, {"VCPU": 4}, consumer=instance, host=other)
        self.take(self.right, {"VCPU": 4})
        ended = self.write({}, consumer=instance, project=self.left)
        refusal = self.assertRaises(errors.QuotaExceeded, allocations.replace, self.ctx, [
            ended, self.write({self.host: {"VCPU": 4}}, consumer=factories.new_uuid(),
                              project=self.right)], [self.guard()])
        self.assertEqual([(self.domain, 8, 8, 4)], [
            (each.node_id, each.limit, each.used, each.asked)
            for each in refusal.exceeded_limits])
        allocations.replace(self.ctx, [ended], [self.guard()])
        self.assertEqual({"VCPU": 4}, self.used_by(self.left))

    def test_the_end_of_a_move_gives_its_own_project_nothing(self):
        """Neither another consumer nor the half that stays may grow by what did not count."""
        self.register(VCPU=100)
        self.limit(self.left, VCPU=4)
        instance, migration = self.take(self.left, {"VCPU": 4}), factories.new_uuid()

        def write(**held):
            uuids = {"instance": instance, "migration": migration, "other": factories.new_uuid()}
            allocations.replace(self.ctx, [
                self.write({self.host: {"VCPU": amount}} if amount else {},
                           consumer=uuids[name], project=self.left)
                for name, amount in held.items()], [self.guard()])

        write(instance=0, migration=4)
        self.take(self.left, {"VCPU": 4}, consumer=instance, host=self.provider(VCPU=10))
        for asked, growing in (
                (5, {"instance": 0, "other": 5}), (4, {"migration": 0, "other": 4}),
                (4, {"instance": 0, "migration": 8}), (4, {"migration": 0, "instance": 8})):
            refusal = self.assertRaises(errors.QuotaExceeded, write, **growing)
            self.assertEqual([(self.left, 4, 4, asked)], [
                (each.node_id, each.limit, each.used, each.asked)
                for each in refusal.exceeded_limits])
        write(migration=0)

    def test_what_moves_may_move_again(self):
        """As an instance that a failed migration left with two sets of allocations."""
        self.register(VCPU=100)
        self.limit(self.left, VCPU=4)
        instance = self.take(self.left, {"VCPU": 4})
        for _ in range(2):
            allocations.replace(self.ctx, [
                self.write({}, consumer=instance, project=self.left),
                self.write({self.host: {"VCPU": 4}}, project=self.left)], [self.guard()])
            self.take(self.left, {"VCPU": 4}, consumer=instance, host=self.provider(VCPU=10))

    def test_audit(self):
        self.register(VCPU=10)
        log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        self.take(self.left, {"VCPU": 10}, mode="audit")
        self.assertEqual("", log.output)
        self.take(self.left, {"VCPU": 1}, mode="audit")
        self.assertIn("class:VCPU", log.output)
        self.assertEqual({"VCPU": 11}, self.used_by(self.left))

    def test_another_process_changes_limits(self):
        self.register(VCPU=10)
        self.take(self.left, {"VCPU": 1})
        limit, = self.limit(self.left, VCPU=2)
        self.assertEqual([(self.left, "class:VCPU", "subtree", 2, 1, 2)],
                         self.refused(self.left, {"VCPU": 2}))
        limits.update(self.context(), self.catalog, Tree(self.conf), limit,
                      {"resource_limit": 3})
        self.take(self.left, {"VCPU": 2})

    def test_limits_that_change_while_it_waits(self):
        """Between preparing and deciding, a limit is set."""
        self.register(VCPU=10)
        self.take(self.left, {"VCPU": 1})
        prepared = []

        def meanwhile(found, *_):
            if not prepared:
                prepared.append(True)
                self.limit(self.trunk, VCPU=1)
            return found

        ensure = LimitNodes.ensure
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.quota.nodes.LimitNodes.ensure",
            lambda *given: meanwhile(ensure(*given))))
        self.assertEqual([(self.trunk, "class:VCPU", "subtree", 1, 1, 1)],
                         self.refused(self.left, {"VCPU": 1}))

    def test_remote_limits(self):
        """What a driver fetched before the transaction is what counts inside it."""
        self.limits.transactional = False
        self.limits.effective = lambda *_, **__: EffectiveLimits({"class:VCPU": 2}, {})
        self.decisions = self.made()
        self.take(self.left, {"VCPU": 2})
        self.assertEqual([(self.left, "class:VCPU", "own", 2, 2, 1)],
                         self.refused(self.left, {"VCPU": 1}))

    def test_limits_that_are_set_for_what_is_not_registered(self):
        """Drivers of others may have them; they bind what is below, as all that are set."""
        self.limits.transactional = False
        self.limits.effective = lambda *_, **__: EffectiveLimits(
            {}, {self.trunk: {"class:VCPU": 2}, self.left: {"class:VCPU": 5}})
        self.take(self.left, {"VCPU": 2})
        for unregistered in (0, amounts.UNLIMITED):
            self.decisions = self.made(unregistered=unregistered)
            self.assertEqual([(self.trunk, "class:VCPU", "subtree", 2, 2, 1)],
                             self.refused(self.left, {"VCPU": 1}))

    def locked_by(self, project, held, **options):
        """Return the nodes that a claim locks."""
        locked = []
        lock = LimitNodes.lock_to_grow_later
        with fixtures.MonkeyPatch(
                "placement_core.quota.nodes.LimitNodes.lock_to_grow_later",
                lambda nodes, session, ids, forget: (
                    locked.extend(ids) or lock(nodes, session, ids, forget))):
            self.take(project, held, **options)
        return set(locked)

    def test_nodes_are_locked(self):
        """Those whose limits bind a resource that grows."""
        self.register(VCPU=100, MEMORY_MB=100, PCPU=100)
        self.limit(self.trunk, VCPU=80)
        self.limit(self.branch, VCPU=70, MEMORY_MB=50)
        self.limit_user(self.left, "adam", MEMORY_MB=10)
        both = {"VCPU": 1, "MEMORY_MB": 1}
        self.assertEqual({self.trunk, self.branch, self.right}, self.locked_by(self.right, both))
        self.assertEqual({self.right}, self.locked_by(self.right, {"PCPU": 1}))
        self.assertEqual({self.trunk, self.branch, self.left}, self.locked_by(
            self.left, {"VCPU": 1}, user="adam"))
        self.assertEqual({self.branch}, self.locked_by(self.branch, {"MEMORY_MB": 1}))

    def test_round_trips(self):
        self.register(VCPU=100, MEMORY_MB=100_000)
        self.limit(self.domain, VCPU=90)
        self.limit(self.trunk, VCPU=80)
        self.limit(self.left, VCPU=70)
        trips = RoundTrips(self.database)
        held = {"VCPU": 1, "MEMORY_MB": 1}
        self.take(self.left, held, seen=None)
        self.claim({self.host: held}, consumer=factories.new_uuid(), project=self.left)
        free = trips.of(
            self.claim, {self.host: held}, consumer=factories.new_uuid(), project=self.left,
            seen=None)
        guarded = trips.of(self.take, self.left, held, seen=None)
        self.assertEqual(self.round_trips[self.kind], guarded - free)
        with self.keeping_guard():
            self.take(self.left, held, seen=None)
            by_fullness = trips.of(self.take, self.left, held, seen=None)
        self.assertEqual(self.round_trips_by_fullness[self.kind], by_fullness - free)
        one, other = (self.take(self.left, held) for _ in range(2))
        self.assertEqual(
            trips.of(self.claim, {self.host: {"VCPU": 1}}, consumer=one, project=self.left),
            trips.of(self.take, self.left, {"VCPU": 1}, consumer=other))


    def test_counters_are_not_split_where_claims_wait_anyway(self):
        """A claim reads all rows of the counters of a tree."""
        self.register(VCPU=1000)

        def take_and_release() -> None:
            ctx = self.context()
            self.take(self.left, {"VCPU": 2}, ctx=ctx)
            allocations.delete(
                ctx, self.take(self.left, {"VCPU": 1}, ctx=ctx), [self.guard()], self.owners)

        for _ in range(5):
            races.run(take_and_release)
        columns = tables.usage_counters.c
        with self.database.autocommit.connect() as connection:
            rows = connection.execute(
                sa.select(columns.slot, columns.used).where(columns.project_id < 0)
                .order_by(columns.used)).all()
        self.assertEqual([(0, 5), (0, 10)], [tuple(row) for row in rows])


class TestGuardOfLargeTrees(TestGuard):
    """The same by the usage index, which is asked where a tree has many projects."""

    #: The limit nodes, what changed (two questions), and the sums.
    round_trips = {"sqlite": 5, "mysql": 4, "postgresql": 4}

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.quota.locked_usage.MOST_PROJECTS", -1))


@databases.on_each_database
class TestRaces(project_trees.TreeTestCase):

    def test_sixty_four_for_ten(self):
        self.register(VCPU=1000)
        self.limit(self.trunk, VCPU=10)
        places = (self.left, self.right, self.branch, self.trunk)
        for project in places:
            # More threads than connections would wait for each other on SQLite, once,
            # while each makes the rows of its project.
            allocations.delete(self.ctx, self.take(project, {"VCPU": 1}))
        outcomes = races.run(*(
            lambda project=project: self.take(project, {"VCPU": 1}, ctx=self.context())
            for project in places * 16))
        taken = [each for each in outcomes if isinstance(each, str)]
        self.assertEqual([], [each for each in outcomes
                              if not isinstance(each, str | errors.QuotaExceeded)])
        self.assertEqual(10, len(taken))
        self.assertEqual(10, self.used(self.host)["VCPU"])

    def test_every_level_has_its_own_bound(self):
        """Leaves with 3 each below a branch with 5, below a trunk with 7."""
        self.register(VCPU=1000)
        self.limit(self.trunk, VCPU=7)
        self.limit(self.branch, VCPU=5)
        self.limit(self.left, VCPU=3)
        self.limit(self.right, VCPU=3)
        races.run(*(
            lambda project=project: self.take(project, {"VCPU": 1}, ctx=self.context())
            for project in (self.left, self.right, self.trunk) * 8))
        used = {project: sum(each.resources["VCPU"]
                             for each in usages.for_project(self.ctx, project))
                for project in (self.left, self.right, self.trunk)}
        self.assertEqual(7, sum(used.values()), used)
        self.assertLessEqual(used[self.left] + used[self.right], 5)
        self.assertLessEqual(max(used[self.left], used[self.right]), 3)

    def test_a_release_and_claims(self):
        """What is released while others claim may be had; never more."""
        self.register(VCPU=4)
        held = [self.take(self.left, {"VCPU": 1}) for _ in range(4)]
        races.run(
            *(lambda consumer=consumer: allocations.delete(self.context(), consumer)
              for consumer in held),
            *(lambda: self.take(self.left, {"VCPU": 1}, ctx=self.context())
              for _ in range(12)))
        self.assertLessEqual(self.used(self.host)["VCPU"], 4)
