import json
import threading

import sqlalchemy as sa

from placement_core import db
from placement_core.reservations import tables
from placement_core.reservations.leases import notifications
from tests import databases, round_trips
from tests.functional.reservations import lease_cases
from tests.functional.reservations.lease_cases import DAY


@databases.on_each_database
class TestNotices(lease_cases.LeasesTestCase):
    def setUp(self):
        super().setUp()
        self.hosts(*[(16, 16, 16)] * 3)

    def page(self, ctx=None, **options):
        return notifications.page(ctx or self.context(), **options)

    def events(self, **options):
        return [(each.lease_id, each.event) for each in self.page(**options)]

    def test_what_was_done_to_leases(self):
        lease = self.started(self.instances(2), project="p", name="käse 🧀")
        other = self.create(self.whole(), project="q")
        self.change(lease, name="new name")
        self.leases.delete(self.ctx, other.id)
        found = self.page()
        self.assertEqual([
            (lease.id, "lease.create"), (lease.id, "lease.event.start_lease"),
            (other.id, "lease.create"), (lease.id, "lease.update"), (other.id, "lease.delete"),
        ], [(each.lease_id, each.event) for each in found])
        self.assertEqual(["käse 🧀", "käse 🧀", "lease", "new name", "lease"],
                         [each.lease["name"] for each in found])
        self.assertEqual(["PENDING", "ACTIVE"], [each.lease["status"] for each in found[:2]])
        self.assertEqual(2, found[0].lease["reservations"][0]["fields"]["amount"])
        self.assertEqual(lease.start_at.isoformat(), found[1].lease["start_at"])
        self.assertTrue(abs(found[0].at - self.now) < DAY)
        self.assertEqual(
            [other.id, lease.id, other.id],
            [each.lease_id for each in self.page(after=found[1].position)])
        self.assertEqual(found[2:4], self.page(after=found[1].position, limit=2))
        self.assertEqual(found[:2] + found[3:4], self.page(project_id="p"))
        self.assertEqual(found[4:], self.page(lease_id=other.id, after=found[2].position))
        self.assertEqual([], self.page(project_id="\0"))
        self.assertEqual([], self.page(after=found[-1].position))

    def test_none_is_missed_that_is_committed_later(self):
        """The order of commits is not that of ids."""
        if self.kind == "sqlite":
            self.skipTest("one writes at a time")
        lease = self.create(self.whole())
        held, go = threading.Event(), threading.Event()

        def slow():
            ctx = self.context()
            with db.write(ctx):
                notifications.add(ctx, "slow", lease)
                held.set()
                go.wait(20)

        writer = threading.Thread(target=slow)
        writer.start()
        self.addCleanup(writer.join)
        self.addCleanup(go.set)
        held.wait(20)
        with db.write(self.ctx):
            notifications.add(self.ctx, "quick", lease)
        # Whoever writes does not keep readers waiting.
        seen = self.page()
        self.assertEqual(["lease.create", "quick"], [each.event for each in seen])
        go.set()
        writer.join()
        self.assertEqual(
            ["slow"], [each.event for each in self.page(after=seen[-1].position)])
        # It has the lower id.
        ids = {row.event: row.id for row in self.rows(tables.lease_notices)}
        self.assertLess(ids["slow"], ids["quick"])

    def test_readers_and_writers_at_once(self):
        lease = self.create(self.whole())
        seen, done = [[], []], threading.Event()
        trouble = []

        def write(name):
            ctx = self.context()
            for number in range(15):
                db.retry_writes(add)(ctx, f"{name}-{number}")

        def add(ctx, event):
            with db.write(ctx):
                notifications.add(ctx, event, lease)

        def read(mine):
            after = 0
            last = False
            while True:
                found = self.page(after=after, limit=7)
                mine += (each.event for each in found)
                if found:
                    after = found[-1].position
                elif last:
                    return
                else:
                    last = done.is_set()

        def guarded(function, argument):
            try:
                function(argument)
            except BaseException as error:
                trouble.append(error)
                raise

        writers = [threading.Thread(target=guarded, args=(write, name)) for name in "abc"]
        readers = [threading.Thread(target=guarded, args=(read, mine)) for mine in seen]
        for thread in (*writers, *readers):
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        for thread in readers:
            thread.join()
        self.assertEqual([], trouble)
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(46, len(set(seen[0])))
        self.assertEqual(46, len(seen[0]))
        for name in "abc":
            mine = [event for event in seen[0] if event.startswith(name)]
            self.assertEqual([f"{name}-{number}" for number in range(15)], mine)

    def test_positions_rise_when_all_are_gone(self):
        lease = self.create(self.whole())
        [first] = self.page()
        with db.write(self.ctx) as session:
            session.execute(sa.delete(tables.lease_notices))
        self.assertEqual([], self.page(after=first.position))
        self.change(lease, name="other")
        [second] = self.page(after=first.position)
        self.assertEqual("lease.update", second.event)

    def test_more_than_get_positions_at_once(self):
        lease = self.create(self.whole())
        with db.write(self.ctx) as session:
            session.execute(sa.insert(tables.lease_notices), [
                {"lease_id": lease.id, "project_id": "p", "event": f"{number}",
                 "at": self.now.replace(tzinfo=None), "payload": json.dumps({})}
                for number in range(2500)])
        found = self.page()
        self.assertEqual(["lease.create", *map(str, range(2500))],
                         [each.event for each in found])
        self.assertEqual(sorted({each.position for each in found}),
                         [each.position for each in found])

    def test_what_it_costs(self):
        self.create(self.whole())
        counting = round_trips.RoundTrips(self.database)
        # Are there any new ones, and the page.
        self.page(ctx=self.ctx)
        self.assertEqual(2, counting.of(self.page, self.ctx))
