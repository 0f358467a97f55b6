"""What admission reads does not grow with promises of other times."""

import random

import sqlalchemy as sa

from placement_core import db
from placement_core.plugin_api.reservations import Window
from placement_core.reservations import tables
from placement_core.reservations.scheduling import pool_queries
from tests import databases
from tests.functional.reservations import lease_cases

_held = tables.computehost_allocations
_HOUR, _DAY = 3600, 86_400
_LENGTHS = (_HOUR, 8 * _HOUR, _DAY, 7 * _DAY, 60 * _DAY)
_MANY = 20_000


@databases.on_each_database
class TestRowsRead(lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        [host] = self.hosts((8, 8, 8))
        lease = self.create(self.instances(), start=0, end=1)
        reservation = lease.reservations[0].id
        chance = random.Random(5)
        first = int(self.at(0).timestamp())
        self.windows = []
        for _ in range(_MANY):
            start = first + chance.randrange(2 * 365 * _DAY)
            self.windows.append((start, start + chance.choice(_LENGTHS)))
        rows = [
            {"reservation_id": reservation, "computehost_id": host + number, "slots": 1,
             "vcpus": 1, "memory_mb": 1, "disk_gb": 1, "whole": False, "start_second": start,
             "end_second": end} for number, (start, end) in enumerate(self.windows, 10)]
        with self.database.writer.begin() as connection:
            connection.execute(sa.delete(_held))
            for begin in range(0, _MANY, 1000):
                connection.execute(sa.insert(_held), rows[begin:begin + 1000])
        dialect = self.database.writer.dialect.name
        with self.database.autocommit.connect() as connection:
            connection.execute(sa.text({
                "postgresql": "ANALYZE computehost_allocations",
                "mysql": "ANALYZE TABLE computehost_allocations",
                "sqlite": "ANALYZE"}[dialect]))

    def test_a_day(self):
        """The day comes early: nearly everything that is promised ends later."""
        for day in (20, 365):
            window = Window(self.at(24 * day), self.at(24 * day + 24))
            overlapping = sum(
                start < window.end and end > window.start for start, end in self.windows)
            with db.read(self.ctx) as session:
                pool = pool_queries.read(session, (), window, cleaning_seconds=0)
            self.assertEqual(0, pool.last_end())  # of other hosts
            rows_read = self.rows_read(window)
            if rows_read is not None:
                self.assertLess(overlapping, rows_read + 1)
                self.assertLess(rows_read, 4 * overlapping + 50)

    def test_no_promise_is_overlooked(self):
        chance = random.Random(6)
        statement = pool_queries._BOOKINGS[0]
        first = int(self.at(0).timestamp())
        for _ in range(20):
            since = first + chance.randrange(2 * 365 * _DAY)
            until = since + chance.choice((1, _HOUR, 30 * _DAY))
            with db.read_once(self.ctx) as session:
                found = {row[0] for row in session.execute(
                    statement, {"since": since, "until": until})}
            expected = sum(start < until and end > since for start, end in self.windows)
            self.assertEqual(expected, len(found))

    def rows_read(self, window):
        """Return how many rows the database looks at; None: it does not tell."""
        dialect = self.database.writer.dialect
        values = {"since": window.start, "until": window.end}
        text = str(pool_queries._BOOKINGS[0].params(values).compile(
            dialect=dialect, compile_kwargs={"literal_binds": True}))
        with self.database.autocommit.connect() as connection:
            if dialect.name == "mysql":
                connection.exec_driver_sql("FLUSH STATUS")
                connection.exec_driver_sql(text.replace("%", "%%")).all()
                return sum(int(row[1]) for row in connection.exec_driver_sql(
                    "SHOW SESSION STATUS LIKE 'Handler_read%%'"))
            if dialect.name == "postgresql":
                [plan] = connection.exec_driver_sql(
                    f"EXPLAIN (ANALYZE, FORMAT JSON) {text}").scalar_one()
                return _rows(plan["Plan"])
        return None


def _rows(plan):
    """Return how many rows the scan of a table looks at."""
    own = 0
    if plan.get("Relation Name"):
        own = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get(
            "Rows Removed by Index Recheck", 0)
    return int(own) + sum(_rows(each) for each in plan.get("Plans", ()))
