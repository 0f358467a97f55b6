"""Claims that the fullness of limit nodes allows, without a look at the usage below."""

from __future__ import annotations

import time

import fixtures
import sqlalchemy as sa

from placement_core import errors as core_errors
from placement_core.catalog import projects, services
from placement_core.limits import limits
from placement_core.migrations.versions import limit_fullness
from placement_core.placement import allocations, tables as placement_tables
from placement_core.placement.records import InventoryValues
from placement_core.quota import errors, fullness, nodes, tables
from placement_core.quota.guard import QuotaGuard
from placement_core.quota.limit_sources import LimitSource
from placement_core.quota.nodes import LimitNodes
from placement_core.testing import factories
from placement_plugins.enforcement.tree import Tree
from tests import databases, races
from tests.functional.quota import project_trees

_monotonic = time.monotonic


def _later(seconds):
    return _monotonic() + seconds


class FullnessTestCase(project_trees.TreeTestCase):
    """Claims of several processes, each with a guard that relies on what it knows."""

    def setUp(self):
        super().setUp()
        self.guards = [self.make_guard() for _ in range(2)]
        self.process = 0

    def make_guard(self, **options):
        return QuotaGuard(self.made(), LimitNodes(), LimitSource("compute", None), "enforce",
                          owners=self.owners, **options)

    def guard(self, mode="enforce"):
        return self.guards[self.process] if mode == "enforce" else super().guard(mode)

    def refused(self, project, held, **options):
        """Claim in vain; return the limits that stood in the way, and what is used of them."""
        refusal = self.assertRaises(errors.QuotaExceeded, self.take, project, held, **options)
        return [(each.node_id, each.limit, each.used) for each in refusal.exceeded_limits]

    def count_reads(self, node):
        """Return how often the row of a node was locked to read the usage below it."""
        return self.read_row(node).revision

    def read_row(self, node):
        with self.database.autocommit.connect() as connection:
            return connection.execute(sa.select(tables.limit_nodes).where(
                tables.limit_nodes.c.node_id == node)).one()

    def fill(self, project, held, most, **options):
        """Claim until it is refused; return how often it was not."""
        for number in range(most):
            try:
                self.take(project, held, **options)
            except errors.QuotaExceeded:
                return number
        return most

    def reshape(self, consumer, amount):
        """Let a consumer of ``left`` have an amount by a reshape of its host."""
        provider = self.host
        allocations.reshape(
            self.context(), {provider.uuid: (self.generation(provider), {
                "VCPU": InventoryValues(1000), "PCPU": InventoryValues(1000),
                "MEMORY_MB": InventoryValues(100_000)})},
            [self.write({provider: {"VCPU": amount}}, consumer=consumer, project=self.left)],
            [self.guards[0]], self.owners)


@databases.on_each_database
class TestFullness(FullnessTestCase):

    def test_usage_is_read_only_now_and_then(self):
        """And the last place is given away as the first one."""
        self.register(VCPU=1000)
        self.limit(self.trunk, VCPU=100)
        self.assertEqual(100, self.fill(self.left, {"VCPU": 1}, 110))
        # Half of what is free, again and again; then one by one.
        self.assertLess(self.count_reads(self.trunk), 15)
        self.assertEqual([(self.trunk, 100, 100)], self.refused(self.right, {"VCPU": 1}))

    def test_two_processes_by_turns(self):
        self.register(VCPU=1000)
        self.limit(self.trunk, VCPU=40)
        claimed = 0
        for number in range(60):
            self.process = number % 2
            claimed += self.fill((self.left, self.right)[number % 3 == 0], {"VCPU": 1}, 1)
        self.assertEqual(40, claimed)
        self.assertLess(self.count_reads(self.trunk), 36)

    def test_what_is_released_is_free_again(self):
        self.register(VCPU=10)
        for _ in range(3):
            held = [self.take(self.left, {"VCPU": 1}) for _ in range(10)]
            self.assertEqual([(self.left, 10, 10)], self.refused(self.left, {"VCPU": 1}))
            for consumer in held:
                allocations.delete(self.ctx, consumer, [self.guard()], self.owners)

    def test_the_fullest_of_several_limits_counts(self):
        self.register(VCPU=1000, MEMORY_MB=1000, servers=8)
        self.limit(self.trunk, VCPU=50)
        self.limit(self.branch, MEMORY_MB=70)
        held = {"VCPU": 1, "MEMORY_MB": 10}
        self.assertEqual(7, self.fill(self.left, held, 20))
        self.assertEqual(1, self.fill(self.left, {"VCPU": 1}, 20))
        self.assertEqual(42, self.grow(self.trunk))

    def grow(self, project):
        """Let one consumer claim more and more; return the most."""
        consumer, most = factories.new_uuid(), 0
        for amount in range(1, 100):
            try:
                self.take(project, {"VCPU": amount}, consumer=consumer)
            except errors.QuotaExceeded:
                break
            most = amount
        return most

    def test_a_consumer_that_grows(self):
        self.register(VCPU=30)
        self.take(self.left, {"VCPU": 5})
        self.assertEqual(25, self.grow(self.left))
        self.assertLess(self.count_reads(self.left), 20)

    def test_a_limit_that_is_lowered(self):
        self.register(VCPU=1000)
        [limit] = self.limit(self.trunk, VCPU=100)
        for process in range(2):
            self.process = process
            self.assertEqual(3, self.fill(self.left, {"VCPU": 1}, 3))
        limits.update(self.context(), self.catalog, Tree(self.conf), limit,
                      {"resource_limit": 7})
        self.assertEqual(1, self.fill(self.left, {"VCPU": 1}, 3))
        self.process = 0
        self.assertEqual([(self.trunk, 7, 7)], self.refused(self.left, {"VCPU": 1}))

    def test_the_first_limit(self):
        self.register(VCPU=-1)
        self.assertEqual(3, self.fill(self.left, {"VCPU": 1}, 3))
        self.limit(self.trunk, VCPU=4)
        self.assertEqual(1, self.fill(self.left, {"VCPU": 1}, 3))

    def test_a_project_that_moves_below_a_limit(self):
        self.register(VCPU=1000)
        elsewhere = self.project("elsewhere", None)
        self.limit(elsewhere, VCPU=100)
        self.assertEqual(4, self.fill(elsewhere, {"VCPU": 1}, 4))
        self.take(self.trunk, {"VCPU": 95})
        projects.update(self.context(), self.trunk, parent_id=elsewhere)
        self.assertEqual(1, self.fill(elsewhere, {"VCPU": 1}, 4))

    def test_one_node_as_others_see_it(self):
        """What binds a project itself is more than what binds those below it."""
        self.register(VCPU=1000, MEMORY_MB=30)
        self.limit(self.trunk, VCPU=500)
        for _ in range(6):
            self.take(self.trunk, {"VCPU": 1, "MEMORY_MB": 5})
            self.take(self.left, {"VCPU": 1})
        self.assertLess(self.count_reads(self.trunk), 8)
        self.assertEqual([(self.trunk, 30, 30)],
                         self.refused(self.trunk, {"VCPU": 1, "MEMORY_MB": 1}))

    def test_limits_of_users(self):
        """What a user uses is read; what she claims counts for the others."""
        self.register(VCPU=40)
        self.limit_user(self.left, "anna", VCPU=6)
        counts = [0, 0]
        for number in range(80):
            user = ("anna", "berta")[number % 2]
            counts[number % 2] += self.fill(self.left, {"VCPU": 1}, 1, user=user)
        self.assertEqual([6, 34], counts)
        self.assertLess(self.count_reads(self.left), 78)

    def test_a_reshape(self):
        """Nobody refuses it, and the next claim counts with it."""
        self.register(VCPU=20)
        consumer = self.take(self.left, {"VCPU": 1})
        self.process = 1
        self.assertEqual(2, self.fill(self.left, {"VCPU": 1}, 2))
        self.reshape(consumer, 17)
        for process in range(2):
            self.process = process
            self.fill(self.left, {"VCPU": 1}, 1)
        self.assertEqual([(self.left, 20, 20)], self.refused(self.left, {"VCPU": 1}))

    def test_a_reshape_while_limits_are_not_known(self):
        """It is not refused either, and all nodes are forgotten."""
        self.register(VCPU=20)
        consumer = self.take(self.left, {"VCPU": 1})
        services.create(self.ctx, service_type="compute")
        self.assertRaises(errors.AmbiguousService, self.take, self.left, {"VCPU": 1})
        self.assertIsNotNone(self.read_row(self.left).fullness)
        self.reshape(consumer, 17)
        self.assertIsNone(self.read_row(self.left).fullness)

    def test_an_evacuation_that_ends_in_another_way(self):
        """What counted once counts twice then; nobody refuses it, and the next claim sees it."""
        self.register(VCPU=100)
        held, other = {"VCPU": 40, "MEMORY_MB": 10}, self.provider(VCPU=100, MEMORY_MB=100)
        consumer = self.take(self.left, held)
        for on_other_host in (held, {"VCPU": 39, "MEMORY_MB": 10}):
            self.process = 1
            self.take(self.left, {"VCPU": 1})
            self.process = 0
            allocations.replace(
                self.ctx, [self.write({self.host: held, other: on_other_host},
                                      consumer=consumer, project=self.left)],
                [self.guard()], self.owners)
        self.process = 1
        self.assertEqual(19, self.fill(self.left, {"VCPU": 1}, 40))

    def test_others_that_lock_a_node(self):
        """Who locks a row by itself may let usage grow."""
        self.register(VCPU=10)
        self.assertEqual(2, self.fill(self.left, {"VCPU": 1}, 2))
        recording = self.make_guard(record_grants=True)
        with fixtures.MonkeyPatch(
                "tests.functional.quota.test_fullness.FullnessTestCase.guard",
                lambda *_: recording):
            self.take(self.left, {"VCPU": 7})
        self.assertEqual(1, self.fill(self.left, {"VCPU": 1}, 5))

    def test_growth_that_nobody_guards_is_noticed(self):
        """Not at once, if others do not enforce limits; but soon."""
        self.register(VCPU=10)
        self.assertEqual(2, self.fill(self.left, {"VCPU": 1}, 2))
        self.claim({self.host: {"VCPU": 7}}, consumer=factories.new_uuid(), project=self.left)
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.quota.fullness.time.monotonic",
            lambda: _later(301)))
        self.assertEqual(1, self.fill(self.left, {"VCPU": 1}, 5))

    def test_what_is_not_written_does_not_count(self):
        """A claim that the inventory does not allow leaves the fullness as it was."""
        self.register(VCPU=5000)
        small = self.provider(VCPU=1)
        self.take(self.left, {"VCPU": 1})
        before = self.read_row(self.left).fullness
        for _ in range(3):
            self.assertRaises(
                core_errors.Error, self.take, self.left, {"VCPU": 900}, host=small)
        self.assertEqual(before, self.read_row(self.left).fullness)

    def test_rows_that_were_removed(self):
        self.register(VCPU=10)
        self.assertEqual(2, self.fill(self.left, {"VCPU": 1}, 2))
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.delete(tables.limit_nodes))
        self.assertEqual(8, self.fill(self.left, {"VCPU": 1}, 20))


class TestFullnessOfLargeTrees(TestFullness):
    """The same where usage is read from the index."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.quota.locked_usage.MOST_PROJECTS", -1))


@databases.on_each_database
class TestRaces(FullnessTestCase):

    def test_processes_that_claim_at_once(self):
        """Each level gives away what it has, by two guards in many threads."""
        self.register(VCPU=1000)
        self.limit(self.trunk, VCPU=60)
        self.limit(self.branch, VCPU=50)
        self.limit(self.left, VCPU=30)
        places = (self.left, self.right, self.trunk)
        for project in places:
            for self.process in range(2):
                allocations.delete(self.ctx, self.take(project, {"VCPU": 1}))

        def claim(number):
            guard, project = self.guards[number % 2], places[number % 3]
            claimed = []
            for _ in range(15):
                consumer = factories.new_uuid()
                try:
                    allocations.replace(
                        self.context(),
                        [self.write({self.host: {"VCPU": 1}}, consumer=consumer,
                                    project=project)], [guard], self.owners)
                except errors.QuotaExceeded:
                    continue
                claimed.append(consumer)
                if len(claimed) % 5 == 4:
                    allocations.delete(self.context(), claimed.pop(), [guard], self.owners)
            return claimed

        outcomes = races.run(*(lambda number=number: claim(number) for number in range(12)))
        self.assertEqual([list] * 12, [type(outcome) for outcome in outcomes], outcomes)
        claimed = [len(outcome) for outcome in outcomes]
        used = [sum(claimed[number::3]) for number in range(3)]
        self.assertEqual(sum(used), self.used(self.host)["VCPU"])
        self.assertLessEqual(used[0], 30)
        self.assertLessEqual(used[0] + used[1], 50)
        self.assertLessEqual(sum(used), 60)
        # What was released at the end may be free still; no more than that.
        for project in places:
            self.fill(project, {"VCPU": 1}, 60)
        self.assertEqual(60, self.used(self.host)["VCPU"])

    def claim_beside(self, growth, *, change=None, logged=True):
        """Claim below the trunk beside growth that is not committed; then all that is free.

        :param change: changes limits before the claim.
        :returns: how much was free.
        """
        host, self.process = self.provider(VCPU=1000), 1

        def claim():
            if change is not None:
                change()
            return self.take(self.right, {"VCPU": 1}, ctx=self.context(), host=host)

        with self.paused(growth, logged=logged) as paused:
            outcome = paused.against(self.database, claim)
        self.assertEqual((None, str), (paused.outcome, type(outcome)), (paused.outcome, outcome))
        return self.fill(self.right, {"VCPU": 1}, 100, host=host)

    def test_a_reshape_beside_a_claim(self):
        """Nobody knows how full the trunk is since the first one; a claim would find out."""
        self.register(VCPU=1000)
        self.limit(self.trunk, VCPU=100)
        consumer = self.take(self.left, {"VCPU": 1})
        self.reshape(consumer, 2)
        self.assertEqual(37, self.claim_beside(lambda: self.reshape(consumer, 62)))

    def test_a_reshape_beside_the_first_claim(self):
        """The trunk has no row yet: the claim would insert it."""
        self.register(VCPU=1000)
        consumer = self.take(self.left, {"VCPU": 2})
        self.limit(self.trunk, VCPU=100)
        self.assertEqual(37, self.claim_beside(lambda: self.reshape(consumer, 62)))

    def test_a_reshape_beside_a_limit_that_is_set(self):
        """The trunk was no limit node when the reshape locked those above its project."""
        self.register(VCPU=1000)
        consumer = self.take(self.left, {"VCPU": 2})
        self.assertEqual(37, self.claim_beside(
            lambda: self.reshape(consumer, 62), logged=False,
            change=lambda: self.limit(self.trunk, VCPU=100)))

    def test_an_evacuation_that_ends_in_another_way_beside_a_claim(self):
        """What counted once counts twice then, and nothing of it is charged."""
        self.register(VCPU=1000)
        self.limit(self.trunk, VCPU=100)
        held, other = {"VCPU": 40, "MEMORY_MB": 10}, self.provider(VCPU=100, MEMORY_MB=100)
        consumer = self.take(self.left, held)

        def evacuate(on_other_host):
            allocations.replace(
                self.context(), [self.write({self.host: held, other: on_other_host},
                                            consumer=consumer, project=self.left)],
                [self.guards[0]], self.owners)

        evacuate(held)
        self.reshape(factories.new_uuid(), 2)  # since then nobody knows how full the trunk is
        self.assertEqual(18, self.claim_beside(
            lambda: evacuate({"VCPU": 39, "MEMORY_MB": 10})))


@databases.on_each_database
class TestOlderProcesses(FullnessTestCase):
    """Beside processes of a version that does not know the fullness, none relies on it."""

    def setUp(self):
        super().setUp()
        migrations = placement_tables.online_migrations
        with self.database.autocommit.connect() as connection:
            connection.execute(
                sa.update(migrations).where(migrations.c.name == limit_fullness.NAME)
                .values(finished=False))

    def test_until_none_is_left(self):
        self.register(VCPU=100)
        self.assertEqual(1, nodes.count_fullness_not_kept(self.ctx))
        for _ in range(3):
            self.take(self.left, {"VCPU": 1})
            self.claim({self.host: {"VCPU": 1}}, consumer=factories.new_uuid(),
                       project=self.left)
        self.assertEqual([(self.left, 100, 6)], self.refused(self.left, {"VCPU": 95}))
        before = self.count_reads(self.left)
        self.take(self.left, {"VCPU": 1})
        self.assertEqual(before + 1, self.count_reads(self.left))
        self.assertEqual((1, 1), nodes.keep_fullness(self.ctx, 50))
        self.assertEqual((0, 0), nodes.keep_fullness(self.ctx, 50))
        self.assertEqual(0, nodes.count_fullness_not_kept(self.ctx))
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.quota.nodes.time.monotonic",
            lambda: _later(nodes._BELIEVED_SECONDS + 1)))
        self.take(self.left, {"VCPU": 1})
        before = self.count_reads(self.left)
        self.take(self.left, {"VCPU": 1})
        self.assertEqual(before, self.count_reads(self.left))
        self.assertEqual(fullness.FULL * 9 // 100, self.read_row(self.left).fullness)
