"""What is kept of leases is what is there, whatever was done to them."""

from __future__ import annotations

import time

import sqlalchemy as sa

from placement_core import db
from placement_core.http.leases_api import representations
from placement_core.plugin_api.reservations import Window
from placement_core.reservations import errors, tables
from placement_core.reservations.leases import lease_queries, rendered_cache, rendered_texts
from placement_core.reservations.manager import event_queue
from tests import databases, round_trips
from tests.functional.reservations import lease_cases, pool_cases
from tests.functional.reservations.lease_cases import HOUR
from tests.functional.reservations.outbox_cases import OutboxTestCase


class _Shown:
    """A test that looks at all leases again and again.

    :ivar shown: what this process keeps of them.
    """

    def setUp(self):
        super().setUp()
        self.shown = self.fresh()

    def look(self):
        """Look at all leases, as this process and as a new one; return what is to be seen.

        The new one finds the texts in the database that were written at the last look, and
        then new ones.
        """
        expected = [(each.id,
                     representations.render_lease_text(lease_queries.get(self.context(), each.id)))
                    for each in lease_queries.page(self.context())]
        self.assertEqual(expected, self.shown.page(self.context()))
        self.assertEqual(expected, self.fresh().page(self.context()))
        rendered_texts.fill(self.context(), representations.LEASE)
        self.assertEqual(expected, self.fresh().page(self.context()))
        return expected

    @staticmethod
    def fresh():
        """Return what a process keeps that begins to look."""
        return rendered_cache.RenderedLeases(
            representations.LEASE, rendered_cache.LeaseTexts())

    def assert_seen(self, function, *arguments, **options):
        """Do something to leases that can be seen; return what it returns."""
        before = self.look()
        done = function(*arguments, **options)
        self.assertNotEqual(before, self.look())
        return done


@databases.on_each_database
class TestShown(_Shown, lease_cases.LeasesTestCase):

    def setUp(self):
        super().setUp()
        self.hosts((8, 8, 8), (8, 8, 8))

    def take(self):
        [turn] = self.assert_seen(event_queue.dequeue, self.context(), "me", most=1, seconds=60)
        return turn

    def due_now(self, lease):
        """Let a lease have been asked for earlier, so that its next event is due."""
        next_at = min(each.due_at for each in lease.events if each.status != "DONE")
        with db.write(self.ctx) as session:
            session.execute(
                sa.update(tables.lease_events).where(
                    tables.lease_events.c.lease_id == lease.id,
                    tables.lease_events.c.due_at == next_at.replace(tzinfo=None))
                .values(due_at=self.now.replace(tzinfo=None) - 9 * HOUR))
            # As a change of the lease would.
            session.execute(sa.update(tables.leases).where(tables.leases.c.id == lease.id)
                            .values(version=tables.leases.c.version + 1))

    def test_a_life(self):
        self.create(self.instances(), start=2, end=3)
        lease = self.assert_seen(self.create, self.instances(2), self.whole(), start=2, end=4)
        self.assert_seen(self.change, lease, name="other")
        self.assert_seen(self.change, lease, {"amount": 3}, start_at=1)
        self.assert_seen(self.change, lease, end_at=5)
        for event in ("start_lease", "before_end_lease", "end_lease"):
            self.due_now(self.get(lease))
            turn = self.take()
            self.assertEqual(event, turn.event_type)
            self.assert_seen(self.transitions.execute, self.context(), turn)
        self.assert_seen(self.leases.delete, self.context(), lease.id)

    def test_a_change_that_was_lost(self):
        """After a restore, a lease that changes gets no version that it had before."""
        lease = self.create(self.instances(), start=2, end=3)
        [before] = self.rows(tables.leases)
        self.change(lease, name="lost")
        self.look()
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.leases).values(
                version=before.version, name=before.name))
        time.sleep(2.1)  # a restore takes longer
        self.change(lease, name="other")
        self.look()

    def test_events_that_fail(self):
        lease = self.create(self.instances(), start=2, end=3)
        self.due_now(lease)
        turn = self.take()
        self.assert_seen(event_queue.release, self.context(), turn, "no host", again_in_seconds=0,
                         retries=1)
        turn = self.take()
        self.assert_seen(self.transitions.fail, self.context(), turn, "no host")
        self.assert_seen(event_queue.retry, self.context(), turn.event_id)
        self.assert_seen(self.transitions.execute, self.context(), self.take())
        self.assert_seen(self.change, lease, end_now=True)

    def test_what_is_asked_for(self):
        """Filters, order and pages are those of other lists."""
        made = [self.create(self.instances(), project=project, name=name, start=start, end=5)
                for project, name, start in (("p", "b", 3), ("q", "a", 1), ("p", "a", 2))]
        for options, numbers in (
                ({}, [0, 1, 2]), ({"project_id": "p"}, [0, 2]), ({"name": "a"}, [1, 2]),
                ({"sort_key": "start_at"}, [1, 2, 0]),
                ({"sort_key": "start_at", "after": made[2].id}, [0]),
                ({"sort_key": "start_at", "descending": True, "after": made[2].id}, [1]),
                ({"sort_key": "end_at", "after": made[0].id, "limit": 1}, [1]),
                ({"overlaps": Window(self.at(1), self.at(2))}, [1]),
                ({"overlaps": Window(self.at(2), self.at(3))}, [1, 2]), ({"name": "\0"}, [])):
            for _ in range(2):
                self.assertEqual(
                    [made[number].id for number in numbers],
                    [id_ for id_, _ in self.shown.page(self.ctx, **options)], options)
        self.assertRaises(errors.InvalidLease, self.shown.page, self.ctx, after="x")

    def test_what_is_known_is_not_read_again(self):
        lease = self.create(self.instances(), start=2, end=3)
        self.create(self.instances(), start=2, end=3)
        trips = round_trips.RoundTrips(self.database)
        self.assertTrue(trips.of(self.shown.page, self.ctx) > 1)
        self.assertEqual(1, trips.of(self.shown.page, self.ctx))
        self.assertEqual(2, trips.of(self.shown.page, self.ctx, after=lease.id))
        self.change(lease, name="other")
        # The list, and the transaction with it again, and with the two questions for leases.
        self.assertIn(trips.of(self.shown.page, self.ctx), (5, 6))
        self.assertEqual(1, trips.of(self.shown.page, self.ctx))

    def test_what_was_written_is_not_made_again(self):
        """One question is enough for a process that knows nothing."""
        first, _ = (self.create(self.instances(), start=2, end=3) for _ in range(2))
        self.look()
        trips = round_trips.RoundTrips(self.database)
        fresh = self.fresh()
        self.assertEqual(1, trips.of(fresh.page, self.ctx))
        self.assertEqual(1, trips.of(fresh.page, self.ctx, project_id="p"))
        self.change(first, name="other")
        rendered_texts.fill(self.context(), representations.LEASE)
        # The list, and the transaction with it again: without a question for leases.
        self.assertIn(trips.of(fresh.page, self.ctx), (3, 4))
        self.assertEqual(1, trips.of(fresh.page, self.ctx))

    def test_memory_is_bounded(self):
        """Answers are whole all the same."""
        for hour in range(5):
            self.create(self.instances(), start=hour, end=hour + 1)
        for most, kept in ((0, 0), (3000, 2)):
            texts = rendered_cache.LeaseTexts(most)
            self.shown = rendered_cache.RenderedLeases(representations.LEASE, texts)
            for _ in range(2):
                self.assertEqual(5, len(self.look()))
            self.assertEqual(kept, len(texts))
            self.assertTrue(texts._bytes <= most)


@databases.on_each_database
class TestShownOfHealing(_Shown, pool_cases.PoolTestCase):

    def test_hosts_that_fail(self):
        one = self.host("one")
        lease = self.lease(pool_cases.slots(2, affinity=True))
        self.activate(lease)
        self.assert_seen(self.out_of_service, one)
        self.assertTrue(self.found(lease).degraded)
        self.assert_seen(
            self.pool.change, self.context(), str(one.id), {}, reservable=True)
        self.assertFalse(self.found(lease).degraded)


@databases.on_each_database
class TestShownOfCompute(_Shown, OutboxTestCase):

    def test_what_is_made(self):
        lease, reservation = self.lease(fields={"affinity": False})
        self.make(lease)
        self.assert_seen(self.work)
        [(_, text)] = self.look()
        self.assertIn(f'"flavor_id":"{reservation.id}","server_group_id":null'.encode(), text)
