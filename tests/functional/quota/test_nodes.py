import functools

import sqlalchemy as sa

from placement_core import db
from placement_core.quota import tables
from placement_core.quota.nodes import LimitNodes
from tests import base, databases, races, round_trips


@databases.on_each_database
class TestNodes(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.nodes = LimitNodes()

    def revisions(self):
        with self.database.autocommit.connect() as connection:
            return {row.node_id: row.revision for row in connection.execute(
                sa.select(tables.limit_nodes))}

    def hold(self, *node_ids):
        ctx = self.context()
        ids = self.nodes.ensure(ctx, node_ids)
        with db.write(ctx) as session:
            self.nodes.lock(session, ids)

    def test_rows_are_made_once(self):
        first = self.nodes.ensure(self.ctx, ["b", "a"])
        self.assertEqual(first, self.nodes.ensure(self.ctx, ["a", "b"]))
        self.assertEqual({"a": 0, "b": 0}, self.revisions())
        trips = round_trips.RoundTrips(self.database)
        self.assertEqual(0, trips.of(self.nodes.ensure, self.ctx, ["a", "b"]))
        self.assertEqual({}, self.nodes.ensure(self.ctx, []))

    def test_all_are_held_once(self):
        self.hold("a", "b", "c")
        self.hold("b")
        self.hold()
        self.assertEqual({"a": 1, "b": 2, "c": 1}, self.revisions())

    def test_blanks_at_the_end(self):
        self.hold("a", "a ")
        # Equal on MySQL: one row for both.
        self.assertEqual({"a": 1} if self.kind == "mysql" else {"a": 1, "a ": 1},
                         self.revisions())
        ids = self.nodes.ensure(self.ctx, ["a", "a "])
        self.assertEqual(self.kind == "mysql", ids["a"] == ids["a "])

    def test_made_by_everybody_at_once(self):
        outcomes = races.run(*(
            functools.partial(self.nodes.ensure, self.context(), [f"n{n}" for n in order])
            for order in ([1, 2, 3], [3, 2, 1], [2, 3, 1], [1, 3, 2])))
        self.assertEqual([], [each for each in outcomes if isinstance(each, Exception)])
        self.assertEqual(1, len({tuple(sorted(each.items())) for each in outcomes}))

    def test_a_row_that_is_gone_is_made_again(self):
        self.nodes.ensure(self.ctx, ["a", "b"])
        with self.database.writer.begin() as connection:
            connection.execute(sa.delete(tables.limit_nodes))

        @db.retry_writes
        def play(ctx):
            ids = self.nodes.ensure(ctx, ["a", "b"])
            with db.write(ctx) as session:
                self.nodes.lock(session, ids)

        play(self.ctx)
        self.assertEqual({"a": 1, "b": 1}, self.revisions())

    def test_a_row_that_is_another_nodes_now(self):
        """The database was restored, and numbers its rows in another way."""
        self.nodes.ensure(self.ctx, ["a", "b"])
        rows = tables.limit_nodes
        with self.database.writer.begin() as connection:
            for before, after in (("a", "c"), ("b", "a"), ("c", "b")):
                connection.execute(sa.update(rows).where(rows.c.node_id == before)
                                   .values(node_id=after))

        @db.retry_writes
        def play(ctx):
            ids = self.nodes.ensure(ctx, ["a"])
            with db.write(ctx) as session:
                self.nodes.lock(session, ids)

        play(self.ctx)
        self.assertEqual({"a": 1, "b": 0}, self.revisions())

    def test_whoever_comes_later_waits(self):
        def holding(paused):
            ctx = self.context()
            ids = self.nodes.ensure(ctx, ["a", "b"])
            with db.write(ctx) as session:
                self.nodes.lock(session, ids)
                paused.here()

        with races.Paused(holding) as paused:
            self.assertIsNone(paused.against(
                self.database, functools.partial(self.hold, "b")))
        self.assertEqual({"a": 1, "b": 2}, self.revisions())

    def test_in_any_order_nobody_deadlocks(self):
        self.hold("a", "b", "c")
        outcomes = races.run(*(
            functools.partial(self.many, order) for order in ("abc", "cba", "bac", "cab")))
        self.assertEqual([None] * 4, outcomes)
        self.assertEqual({"a": 81, "b": 81, "c": 81}, self.revisions())

    def many(self, order):
        for _ in range(20):
            self.hold(*order)
