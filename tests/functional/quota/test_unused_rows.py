"""Rows of quota that are not used any more: limit nodes, old claims, answers of re-checks."""

import datetime

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

    def test_another_worker_that_knows_the_removed_project(self):
        """It counts what the project uses under the id that its new row has."""
        other = held.Cloud(self.context())
        for name in ("_service", "trunk", "branch", "leaf", "twig"):
            setattr(other, name, getattr(self.cloud, name))
        self.cloud.limit(self.cloud.leaf, 10)
        host = self.provider(VCPU=1000)

        def claim(cloud, amount):
            consumer = factories.new_uuid()
            cloud.claims.replace(self.context(), [self.write(
                {host: {"VCPU": amount}}, consumer=consumer, project=self.cloud.leaf)])
            return consumer

        for cloud in (self.cloud, other):
            allocations.delete(self.ctx, claim(cloud, 1))
        before = self.project_id()
        self.put({host: {"VCPU": 1}}, project=self.cloud.twig)
        usage_counters.fold(self.ctx)
        with self.database.writer.begin() as connection:  # so that its id is not the highest
            connection.execute(sa.insert(placement_tables.projects).values(external_id="last"))
        for _ in range(2):
            unused_names.remove(self.context())
            age(self.database, _marks, "since", 25)
        self.assertIsNone(self.project_id())
        age(self.database, _nodes, "locked_at", 25)
        nodes.remove_unused(self.context())
        claim(self.cloud, 9)
        self.assertNotEqual(before, self.project_id())
        self.assertRaises(errors.QuotaExceeded, claim, other, 2)
        claim(other, 1)

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
