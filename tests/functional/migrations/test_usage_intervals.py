"""Revisions 0016 to 0021: usage intervals, the audit, thresholds, workers."""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from placement_core import context
from placement_core.changes import journal
from placement_core.db.database import Database
from placement_core.migrations import revisions, sync
from placement_core.migrations.versions import (
    audit,
    left_thresholds,
    thresholds,
    usage_intervals,
    workers,
)
from placement_core.placement import allocations, tables
from placement_core.placement.records import AllocationWrite
from placement_core.placement.usage import intervals
from placement_core.placement.usage.intervals import UsageFilter
from placement_core.testing import factories
from tests import databases
from tests.functional.migrations import test_sync


@databases.on_each_database
class TestUsageIntervalsMigration(test_sync.BareTestCase):

    def test_upgrade(self):
        sync.sync(self.settings)
        database = Database(self.settings, journal.Journal())
        self.addCleanup(database.dispose)
        ctx = context.Context(database)
        host = factories.provider(ctx, inventory={"VCPU": 10})
        for amount in (1, 2):
            allocations.replace(ctx, [AllocationWrite(
                factories.new_uuid(), {host.uuid: {"VCPU": amount}}, "web", "jane")])
        before = intervals.get_complete_since(ctx)
        with database.autocommit.connect() as connection:
            of_amount = sa.update(tables.allocations).where(
                tables.allocations.c.used == sa.bindparam("amount"))
            # Upstream's column allows that there is no time.
            connection.execute(of_amount.values(created_at=None), {"amount": 1})
            connection.execute(
                of_amount.values(created_at=datetime.datetime(2020, 1, 2)), {"amount": 2})
        database.dispose()
        self.run_sql(
            *(f"DROP TABLE {name}" for revision in (
                usage_intervals, audit, thresholds, workers, left_thresholds)
              for name in revision.OWN_TABLES),
            "ALTER TABLE allocations DROP COLUMN started_at",
            f"UPDATE {revisions.VERSION_TABLE} "
            f"SET version_num = '{usage_intervals.down_revision}'")
        self.assertEqual(revisions.head(), sync.sync(self.settings))
        self.assertEqual([], test_sync.differences(self.url))
        since = intervals.get_complete_since(ctx)
        self.assertTrue(before < since, (before, since))
        starts = {each.amount: each.started_at
                  for each in intervals.list_(ctx, UsageFilter(), limit=10)}
        self.assertEqual(datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC), starts[2])
        self.assertTrue(since <= starts[1], starts)
