"""What the guard locks for claims that share a transaction: each limit node once."""

from __future__ import annotations

import contextlib

import sqlalchemy as sa

from placement_core.placement.allocations import grouped_writes
from placement_core.placement.allocations.gates import WriteRequest
from placement_core.placement.allocations.grouped_writes import GroupedWrite, Shortages
from placement_core.quota import errors, tables
from placement_core.testing import factories
from tests import databases
from tests.functional.quota import project_trees
from tests.round_trips import RoundTrips

_nodes = tables.limit_nodes


@databases.on_each_database
class TestGroupLocks(project_trees.TreeTestCase):
    """Claims of two projects of a tree count against four nodes."""

    #: As of one claim: the limit nodes, the usage below them, and their fullness; together where
    #: that can be.
    round_trips = {"sqlite": 3, "mysql": 1, "postgresql": 1}

    def setUp(self):
        super().setUp()
        self.register(VCPU=100)
        self.limit(self.trunk, VCPU=80)
        self.limit(self.branch, VCPU=60)
        self.limit(self.left, VCPU=50)

    def claim_together(self, gate, *amounts):
        """Claim for the two projects in turn, in one transaction; return the outcomes."""
        gates = [] if gate is None else [gate]
        return grouped_writes.apply_together(
            self.ctx, self.prepare(gates, amounts), gates, self.owners, Shortages())

    def prepare(self, gates, amounts):
        requests = [
            WriteRequest([self.write(
                {self.host: {"VCPU": amount}}, consumer=factories.new_uuid(),
                project=(self.left, self.right)[number % 2], seen=None)])
            for number, amount in enumerate(amounts)]
        for request in requests:
            self.owners.ensure(self.ctx, request.writes)
        return [GroupedWrite(request, [gate.prepare(self.ctx, request) for gate in gates],
                             self.ctx) for request in requests]

    @contextlib.contextmanager
    def counting(self):
        """Note how many rows each statement changes that changes limit nodes."""
        rows = []

        def note(_connection, cursor, statement, *_rest):
            if statement.startswith("UPDATE limit_nodes"):
                rows.append(cursor.rowcount)

        # Whoever listens to the event before has SQLAlchemy execute each statement.
        listeners = (("before_cursor_execute", lambda *_: None), ("after_cursor_execute", note))
        for event, listener in listeners:
            sa.event.listen(self.database.writer, event, listener)
        try:
            yield rows
        finally:
            for event, listener in listeners:
                sa.event.remove(self.database.writer, event, listener)

    def count_locks(self):
        """Return how often the row of each node was locked to read the usage below it."""
        with self.database.autocommit.connect() as connection:
            return dict(connection.execute(sa.select(_nodes.c.node_id, _nodes.c.revision)).all())

    def test_each_node_is_locked_once(self):
        gate = self.guard()
        nodes = (self.trunk, self.branch, self.left, self.right)
        # One statement locks the rows, and one sets their fullness.
        with self.counting() as rows:
            self.assertEqual(["applied"] * 8, self.claim_together(gate, *[1] * 8))
        self.assertEqual([4, 4], rows)
        locks = self.count_locks()
        self.assertEqual([1] * 4, [locks[node] for node in nodes])
        # One statement adds to the fullness, and locks the rows by that.
        with self.counting() as rows:
            self.assertEqual(["applied"] * 8, self.claim_together(gate, *[1] * 8))
        self.assertEqual(([4], locks), (rows, self.count_locks()))

    def test_if_some_are_refused(self):
        with self.counting() as rows:
            outcomes = self.claim_together(self.guard(), 30, 1, 30, 90, 20, 2)
        self.assertEqual(
            ["applied", "applied", errors.QuotaExceeded, errors.QuotaExceeded,
             "applied", "applied"],
            [each if each == "applied" else type(each) for each in outcomes])
        self.assertEqual([4, 4], rows)
        self.assertEqual({1}, {self.count_locks()[node] for node in (
            self.trunk, self.branch, self.left, self.right)})

    def test_usage_is_read_once(self):
        trips = RoundTrips(self.database)
        # What a process caches.
        self.claim_together(self.guard(), 1, 1)

        def count(gate, size):
            gates = [] if gate is None else [gate]
            writes = self.prepare(gates, [1] * size)
            outcomes = []
            trips_made = trips.of(lambda: outcomes.extend(grouped_writes.apply_together(
                self.ctx, writes, gates, self.owners, Shortages())))
            self.assertEqual(["applied"] * size, outcomes)
            return trips_made

        for size in (2, 8):
            self.assertEqual(self.round_trips[self.kind],
                             count(self.guard(), size) - count(None, size))
