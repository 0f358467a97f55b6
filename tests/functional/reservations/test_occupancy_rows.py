"""What is read of leases that have not ended does not grow with the leases of other times."""

from __future__ import annotations

import math
import uuid

import fixtures
import sqlalchemy as sa

from placement_core import db
from placement_core.http.leases_api import representations
from placement_core.reservations import tables
from placement_core.reservations.leases import rendered_texts
from placement_core.reservations.manager import backlog, event_queue
from placement_core.reservations.scheduling import occupancy
from tests import databases, rows_read
from tests.functional.reservations import lease_cases

_MANY = 5000
_AT_ONCE = 500
#: Beyond all numbers that leases got in other tests of the database.
_FIRST_COPY = 10**6


@databases.on_each_database
class TestRowsRead(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        [host] = self.hosts((8, 8, 8))
        self.overdue = self.create(self.instances(), start=1, end=2)
        self.add_copies(self.create(self.instances(), start=1000, end=1001))
        with self.database.writer.begin() as connection:
            connection.execute(
                sa.update(tables.lease_events)
                .where(tables.lease_events.c.lease_id == self.overdue.id)
                .values(due_at=self.at(-48).replace(tzinfo=None)))
        self.host = host

    def add_copies(self, lease):
        """Insert many leases like one, whose end is not due yet."""
        with self.database.writer.begin() as connection:
            rows = {table: self.read_rows(connection, table, column, value)
                    for table, column, value in (
                        (tables.leases, "id", lease.id),
                        (tables.lease_reservations, "lease_id", lease.id),
                        (tables.lease_events, "lease_id", lease.id),
                        (tables.computehost_allocations, "reservation_id",
                         lease.reservations[0].id))}
            for first in range(1, _MANY, _AT_ONCE):
                numbers = range(first, first + _AT_ONCE)
                leases = {number: str(uuid.uuid4()) for number in numbers}
                reservations = {number: str(uuid.uuid4()) for number in numbers}
                changes = {
                    tables.leases: lambda number: {
                        "id": leases[number], "number": _FIRST_COPY + number},
                    tables.lease_reservations: lambda number: {
                        "id": reservations[number], "lease_id": leases[number]},
                    tables.lease_events: lambda number: {
                        "id": str(uuid.uuid4()), "lease_id": leases[number]},
                    tables.computehost_allocations: lambda number: {
                        "reservation_id": reservations[number]},
                }
                for table, of_lease in rows.items():
                    connection.execute(sa.insert(table), [
                        {**row, **changes[table](number)}
                        for number in numbers for row in of_lease])
        self.analyze(rows)

    @staticmethod
    def read_rows(connection, table, column, value):
        columns = [each for each in table.c if each.computed is None]
        return [dict(row) for row in connection.execute(
            sa.select(*columns).where(table.c[column] == value)).mappings()]

    def analyze(self, of_tables):
        with self.database.autocommit.connect() as connection:
            for table in of_tables:
                connection.execute(sa.text({
                    "postgresql": f"ANALYZE {table.name}",
                    "mysql": f"ANALYZE TABLE {table.name}",
                    "sqlite": "ANALYZE"}[self.database.dialect]))

    def test_why_starts_wait(self):
        self.assertLess(
            rows_read.count(self.database.settings, event_queue.explain_waiting), _MANY // 4)

    def test_texts(self):
        filler = rendered_texts.TextFiller(representations.LEASE)
        self.assertEqual(_MANY + 2, filler.fill(self.ctx))
        counts = []

        def fill(ctx):
            counts.append(filler.fill(ctx))

        self.assertLess(rows_read.count(self.database.settings, fill), _MANY // 4)
        self.create(self.instances(), start=2000, end=2001)
        self.assertLess(rows_read.count(self.database.settings, fill), _MANY // 4)
        self.assertEqual([0, 1], counts)
        # What the change log does not name waits until all are looked through.
        with self.database.writer.begin() as connection:
            connection.execute(sa.delete(tables.lease_texts))
        self.assertEqual(0, filler.fill(self.ctx))
        self.useFixture(fixtures.MonkeyPatch("time.monotonic", lambda: math.inf))
        self.assertEqual(_MANY + 3, filler.fill(self.ctx))

    def test_backlog(self):
        """The strip of each page of the dashboard shows it."""
        self.assertLess(
            rows_read.count(self.database.settings, backlog.measure), _MANY // 4)

    def test_hosts_that_are_not_free(self):
        for cleaning_seconds in (0, 600):
            occupied = []

            def find(ctx, cleaning_seconds=cleaning_seconds, occupied=occupied):
                with db.write(ctx) as session:
                    occupied += occupancy.find(session, cleaning_seconds=cleaning_seconds)

            # SQLite counts steps, of which there are some for each row.
            self.assertLess(rows_read.count(self.database.settings, find), _MANY // 4)
            self.assertEqual([(self.host, self.overdue.id, None)], [
                (each.host_id, each.lease_id, each.free_second) for each in occupied])
