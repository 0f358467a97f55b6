"""Rows of quota that are not used any more: limit nodes, old claims, answers of re-checks."""

import datetime
import itertools

import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.db.metadata import utcnow
from placement_core.placement import allocations, tables as placement_tables, unused_names
from placement_core.placement.allocations import usage_counters
from placement_core.quota import claim_expiry, errors, nodes, recheck_order, tables
from placement_core.quota.nodes import LimitNodes
from placement_core.testing import factories
from tests import base, databases, races
from tests.functional.quota import held

_nodes, _marks = tables.limit_nodes, placement_tables.unused_names


def age(database, table, name, hours):
    """Let time pass since the times in a column."""
    column, key = table.c[name], next(iter(table.primary_key))
    with database.writer.begin() as connection:
        for row in connection.execute(sa.select(key, column).where(column.is_not(None))).all():
            connection.execute(sa.update(table).where(key == row[0], column == row[1]).values(
                {name: row[1] - datetime.timedelta(hours=hours)}))


@databases.on_each_database
class TestLimitNodes(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.nodes = LimitNodes()

    def lock(self, *node_ids):
        @db.retry_writes
        def lock(ctx):
            ids = self.nodes.ensure(ctx, node_ids)
            with db.write(ctx) as session:
                self.nodes.lock(session, ids)

        lock(self.context())

    def node_ids(self):
        with self.database.autocommit.connect() as connection:
            return set(connection.execute(sa.select(_nodes.c.node_id)).scalars())

    def age(self, hours):
        age(self.database, _nodes, "locked_at", hours)

    def test_removed_a_day_after_the_last_lock(self):
        self.lock("a", "b", "c", "last")
        # A row that an older version wrote, or that was never locked.
        self.nodes.ensure(self.ctx, ["never"])
        self.nodes.ensure(self.ctx, ["newest"])
        for hours, left in ((23, {"a", "b", "c", "last", "never", "newest"}),
                            (2, {"a", "never", "newest"}), (22, {"a", "newest"})):
            self.age(hours)
            self.lock("a")
            nodes.remove_unused(self.context())
            self.assertEqual(left, self.node_ids())
        self.lock("a", "b", "c")
        self.assertEqual({"a", "b", "c", "newest"}, self.node_ids())

    def test_many(self):
        self.useFixture(fixtures.MonkeyPatch(
            "placement_core.quota.nodes._CANDIDATES", nodes._CANDIDATES.limit(3)))
        self.lock(*(f"n{number}" for number in range(10)), "zz last")
        self.age(25)
        self.assertEqual(10, nodes.remove_unused(self.ctx))
        self.assertEqual(1, len(self.node_ids()))

    def test_a_removal_while_ids_are_looked_up(self):
        """Before whichever statement it happens, each node has an id."""
        for number in itertools.count(1):
            self.lock("a", f"last-{number}")
            self.age(25)
            with races.Interruption(
                    self.database.autocommit, number,
                    lambda: nodes.remove_unused(self.context())) as removal:
                names = {"a", f"new-{number}"}
                self.assertEqual(names, LimitNodes().ensure(self.ctx, names).keys())
            if not removal.happened:
                break
        self.assertGreater(number, 2)

    def test_a_node_that_is_being_locked_stays(self):
        self.lock("a", "last")
        self.age(25)

        def lock(paused):
            with db.write(self.context()) as session:
                self.nodes.lock(session, self.nodes.ensure(self.context(), ["a"]))
                paused.here()

        with races.Paused(lock) as paused:
            self.assertEqual(0, paused.against(
                self.database, lambda: nodes.remove_unused(self.context())))
        self.assertEqual({"a", "last"}, self.node_ids())

    def test_who_comes_while_it_is_removed_locks_a_new_row(self):
        self.lock("a", "last")
        self.age(25)

        def remove(paused):
            with db.write(self.context()) as session:
                session.execute(sa.delete(_nodes).where(_nodes.c.node_id == "a"))
                paused.here()

        with races.Paused(remove) as paused:
            self.assertIsNone(paused.against(
                self.database, lambda: self.lock("a")))
        with self.database.autocommit.connect() as connection:
            self.assertEqual(1, connection.scalar(
                sa.select(_nodes.c.revision).where(_nodes.c.node_id == "a")))


@databases.on_each_database
class TestClaims(held.HeldTestCase):

    def setUp(self):
        super().setUp()
        self.cloud.limit(self.cloud.trunk, 1000)
        self.cloud.limit(self.cloud.leaf, 10)
        self.host = self.provider(VCPU=1000)

    def test_another_worker_that_knows_the_removed_project(self):
        """It counts what the project uses under the id that its new row has."""
        other = self.other_worker()
        for cloud in (self.cloud, other):
            self.use_once(cloud)
        before = self.project_id()
        self.put({self.host: {"VCPU": 1}}, project=self.cloud.twig)
        self.make_due("last")
        self.remove_rows()
        self.assertIsNone(self.project_id())
        self.claim(self.cloud, 9)
        self.assertNotEqual(before, self.project_id())
        self.assertRaises(errors.QuotaExceeded, self.claim, other, 2)
        self.claim(other, 1)

    def test_a_removal_while_a_worker_learns_the_ids_of_rows(self):
        """Before whichever statement it happens, all usage counts that binds the tree."""
        for number in itertools.count(1):
            other = self.other_worker()
            self.use_once(self.cloud)
            self.make_due(f"last-{number}")
            with races.Interruption(
                    self.database.autocommit, number, self.remove_rows) as removal:
                self.claim(other, 1, project=self.cloud.twig)
            consumer = self.claim(self.cloud, 9)
            self.assertRaises(errors.QuotaExceeded, self.claim, other, 2)
            allocations.delete(self.ctx, consumer)
            if not removal.happened:
                break
        self.assertGreater(number, 4)

    def claim(self, cloud, amount, *, project=None):
        consumer = factories.new_uuid()
        cloud.claims.replace(self.context(), [self.write(
            {self.host: {"VCPU": amount}}, consumer=consumer,
            project=project or self.cloud.leaf)])
        return consumer

    def use_once(self, cloud):
        allocations.delete(self.ctx, self.claim(cloud, 1))

    def other_worker(self):
        other = held.Cloud(self.context())
        for name in ("_service", "trunk", "branch", "leaf", "twig"):
            setattr(other, name, getattr(self.cloud, name))
        return other

    def make_due(self, last):
        """Let rows that are not used be unused for a day.

        :param last: the name of a project that is made, so that their ids are not the highest.
        """
        usage_counters.fold(self.ctx)
        with self.database.writer.begin() as connection:
            connection.execute(sa.insert(placement_tables.projects).values(external_id=last))
        unused_names.remove(self.context())
        age(self.database, _marks, "since", 25)
        age(self.database, _nodes, "locked_at", 25)

    def remove_rows(self):
        unused_names.remove(self.context())
        nodes.remove_unused(self.context())

    def project_id(self):
        with self.database.autocommit.connect() as connection:
            return connection.scalar(sa.select(placement_tables.projects.c.id).where(
                placement_tables.projects.c.external_id == self.cloud.leaf))

    def test_ended_claims_go_in_batches(self):
        host = self.provider(VCPU=10)
        for _ in range(5):
            self.expired({host: {"VCPU": 1}})
        claim_expiry.sweep(self.context())
        self.assertEqual(5, self.rows())
        self.useFixture(fixtures.MonkeyPatch("placement_core.quota.claim_expiry._BATCH", 2))
        claim_expiry.sweep(self.context())
        self.assertEqual(5, self.rows())
        age(self.database, tables.held_claims, "ended_at", 25)
        claim_expiry.sweep(self.context())
        self.assertEqual(0, self.rows())


@databases.on_each_database
class TestAnswers(base.DatabaseTestCase):

    def test_old_ones_go_in_batches(self):
        rows = tables.rechecked_claims
        with self.database.writer.begin() as connection:
            connection.execute(sa.insert(rows), [
                {"consumer_uuid": f"old-{number}", "stays": True,
                 "answered_at": utcnow() - datetime.timedelta(minutes=21)} for number in range(5)])
            connection.execute(sa.insert(rows), {"consumer_uuid": "young", "stays": True})
        self.assertEqual([2, 2, 1, 0], [
            recheck_order.prune(self.context(), most=2) for _ in range(4)])
        with self.database.autocommit.connect() as connection:
            self.assertEqual(["young"], connection.execute(
                sa.select(rows.c.consumer_uuid)).scalars().all())
