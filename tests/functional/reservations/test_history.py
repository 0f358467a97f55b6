import datetime

import sqlalchemy as sa

from placement_core import db
from placement_core.http.leases_api import representations
from placement_core.plugin_api.reservations import Size, Window
from placement_core.reservations import tables
from placement_core.reservations.errors import InvalidLease
from placement_core.reservations.leases import (
    history,
    lease_queries,
    notifications,
    rendered_texts,
)
from placement_core.reservations.store import lease_rows
from tests import databases, round_trips
from tests.functional.reservations import lease_cases
from tests.functional.reservations.lease_cases import DAY, HOUR, MINUTE, SECOND


class HistoryTestCase(lease_cases.LeasesTestCase):
    def setUp(self):
        super().setUp()
        self.all_hosts = self.hosts(*[(8, 8, 8)] * 3)
        self.names = {row.id: row.name for row in self.rows(tables.computehosts)}

    def past(self, *reservations, ago, lasted=HOUR, **options):
        """Make a lease that has started some time ago, and ended."""
        lease = self.back(self.started(*reservations, end=self.now + lasted, **options), ago)
        self.assertTrue(self.execute(lease, "end_lease"))
        with db.write(self.ctx) as session:
            ended = lease.end_at
            session.execute(
                sa.update(tables.leases).where(tables.leases.c.id == lease.id)
                .values(ended_at=lease_rows.naive(ended)))
            held = tables.computehost_allocations
            session.execute(
                sa.update(held)
                .where(held.c.reservation_id.in_([each.id for each in lease.reservations]))
                .values(end_second=int(ended.timestamp())))
        return lease

    def page(self, **options):
        return history.page(self.context(), **options)


@databases.on_each_database
class TestHistory(HistoryTestCase):
    def test_who_held_which_hosts(self):
        first = self.past(self.instances(5, (4, 2, 1)), ago=2 * DAY, project="p", name="käse")
        self.leases.delete(self.ctx, first.id)
        now = self.started(self.whole(2), end=self.now + HOUR, project="q")
        self.create(self.instances(), start=5, end=6)
        self.leases.delete(self.ctx, self.create(self.whole(), start=7, end=8).id)
        found = self.page()
        hosts = sorted(each.host_id for each in found[:3])
        self.assertEqual(self.all_hosts, hosts)
        self.assertEqual(
            [(first.id, "käse", "p", "jane", first.reservations[0].id, "virtual:instance",
              Size(4, 2, 1), False, Window(first.start_at, first.end_at), True, True)] * 3 +
            [(now.id, "lease", "q", "jane", now.reservations[0].id, "physical:host",
              Size(8, 8, 8), True, Window(now.start_at, now.end_at), False, False)] * 2,
            [(each.lease_id, each.lease_name, each.project_id, each.user_id,
              each.reservation_id, each.resource_type, each.size, each.whole, each.window,
              each.ended, each.deleted) for each in found])
        self.assertEqual([2, 2, 1], sorted((each.slots for each in found[:3]), reverse=True))
        self.assertEqual([self.names[each.host_id] for each in found],
                         [each.host_name for each in found])

    def test_filters(self):
        early = self.past(self.whole(), ago=3 * DAY, project="p")
        late = self.past(self.whole(), ago=DAY, project="q")
        [host] = self.slots(early)[0]
        begin, end = early.start_at, early.end_at

        def found(**options):
            return [each.lease_id for each in self.page(**options)]

        self.assertEqual([early.id, late.id], found())
        self.assertEqual([late.id], found(project_id="q"))
        self.assertEqual([], found(project_id="\0"))
        self.assertEqual([early.id], found(until=begin + SECOND))
        self.assertEqual([early.id], found(until=begin + datetime.timedelta(seconds=0.5)))
        self.assertEqual([], found(until=begin))
        self.assertEqual([late.id], found(since=end))
        self.assertEqual([early.id, late.id], found(since=end - SECOND))
        self.assertEqual([early.id], found(since=begin + MINUTE, until=begin + 2 * MINUTE))
        self.assertIn(early.id, found(host=self.names[host]))
        self.assertEqual([], found(host="nowhere"))

    def test_a_start_that_has_failed(self):
        """Nobody has held the hosts."""
        lease = self.create(self.whole(), start=None, end=1)
        self.transitions.fail(self.ctx, self.claimed(lease, "start_lease"), "no")
        self.assertEqual([], self.page())
        self.assertTrue(self.execute(lease, "start_lease"))
        self.transitions.fail(self.ctx, self.claimed(lease, "end_lease"), "no")
        self.assertEqual([lease.id], [each.lease_id for each in self.page()])

    def test_a_host_that_left(self):
        lease = self.past(self.whole(), ago=3 * DAY)
        [host] = self.slots(lease)[0]
        with db.write(self.ctx) as session:
            history.store_host_name(session, host, self.names[host])
            session.execute(
                sa.delete(tables.computehosts).where(tables.computehosts.c.id == host))
        [gone] = self.page(host=self.names[host])
        self.assertEqual((lease.id, self.names[host]), (gone.lease_id, gone.host_name))
        # Where its id is given to another, that one has not held it.
        with db.write(self.ctx) as session:
            session.execute(
                sa.update(tables.computehosts)
                .where(tables.computehosts.c.id == self.all_hosts[-1]).values(id=host))
        self.assertEqual([self.names[host]], [each.host_name for each in self.page()])
        self.assertEqual([], self.page(host=self.names[self.all_hosts[-1]]))

    def test_pages(self):
        for ago in (9, 8, 7):
            self.past(self.whole(2), self.instances(), ago=ago * DAY)
        whole = self.page()
        self.assertEqual(9, len(whole))
        for size in (1, 2, 4):
            found, after = [], None
            while page := self.page(after=after, limit=size):
                self.assertLessEqual(len(page), size)
                found += page
                after = page[-1].marker
            self.assertEqual(whole, found)
        for marker in ("", "1", "1-2", "a-b-c", "1-2-3-4-5", "-1-2-3", "9" * 19 + "-0-1"):
            self.assertRaises(InvalidLease, self.page, after=marker)

    def test_what_it_costs(self):
        counting = round_trips.RoundTrips(self.database)
        self.assertEqual(1, counting.of(history.page, self.ctx))


@databases.on_each_database
class TestPruning(HistoryTestCase):
    def prune(self, days, most=1000):
        pruned = history.prune(self.context(), keep_days=days, most=most)
        return pruned.leases, pruned.notices

    def test_what_is_removed(self):
        old = self.past(self.instances(2), self.whole(), ago=11 * DAY)
        deleted = self.past(self.whole(), ago=12 * DAY)
        self.leases.delete(self.ctx, deleted.id)
        given_up = self.create(self.whole(), start=5, end=6)
        self.leases.delete(self.ctx, given_up.id)
        self._set(given_up, deleted_at=self.now - 11 * DAY, ended_at=None)
        before = self.everything()
        young = self.past(self.instances(2), ago=9 * DAY)
        active, failed = (
            self.started(self.instances(), end=self.now + HOUR) for _ in range(2))
        for lease in (active, failed):
            self.back(lease, 20 * DAY)
        self.transitions.fail(self.ctx, self.claimed(failed, "end_lease"), "no")
        pending = self.create(self.instances())
        self.assertEqual((3, 0), self.prune(10))
        left = self.everything()
        ids = {each.id for each in (young, active, failed, pending)}
        self.assertEqual(ids, {row.id for row in self.rows(tables.leases)})
        self.assertEqual(ids, {row.lease_id for row in self.rows(tables.lease_reservations)})
        self.assertEqual(ids, {row.lease_id for row in self.rows(tables.lease_events)})
        for name in ("instance_reservations", "computehost_allocations"):
            self.assertEqual(4, len(left[name]), name)
        self.assertEqual([], left["computehost_reservations"])
        self.assertEqual(3, len(before["computehost_reservations"]))
        self.assertEqual([young.id], [
            each.lease_id for each in history.page(self.ctx) if each.ended])
        self.assertEqual((0, 0), self.prune(10))
        self.assertRaises(
            lease_queries.errors.LeaseNotFound, lease_queries.get, self.context(), old.id)

    def _set(self, lease, **times):
        with db.write(self.ctx) as session:
            session.execute(
                sa.update(tables.leases).where(tables.leases.c.id == lease.id).values({
                    name: None if at is None else lease_rows.naive(at)
                    for name, at in times.items()}))

    def test_notices(self):
        for number in range(3):
            self.change(self.create(self.instances()), name=f"lease {number}")
        self._age_notices(4, 11 * DAY)
        self.assertEqual((0, 3), self.prune(10, most=3))
        self.assertEqual((0, 1), self.prune(10, most=3))
        self.assertEqual((0, 0), self.prune(10, most=3))
        self.assertEqual(
            ["lease.create", "lease.update"],
            [each.event for each in notifications.page(self.ctx)])

    def _age_notices(self, most, span):
        table = tables.lease_notices
        rows = sorted(self.rows(table), key=lambda row: row.id)[:most]
        with db.write(self.ctx) as session:
            session.execute(
                sa.update(table).where(table.c.id.in_([row.id for row in rows]))
                .values(at=lease_rows.naive(self.now - span)))

    def test_batches(self):
        for days in (14, 13, 12):
            self.past(self.instances(), ago=days * DAY)
        young = self.past(self.instances(), ago=5 * DAY)
        self.assertEqual((2, 0), self.prune(10, most=2))
        self.assertEqual((1, 0), self.prune(10, most=2))
        self.assertEqual([young.id], [each.lease_id for each in history.page(self.ctx)])
        self.assertEqual((1, 0), self.prune(4))

    def test_all_that_is_old(self):
        """Leases and notices come faster than one batch every ten minutes."""
        for days in (14, 13, 12, 11, 11):
            self.past(self.instances(), ago=days * DAY)
        young = self.past(self.instances(), ago=5 * DAY)
        rendered_texts.fill(self.context(), representations.LEASE)
        self._age_notices(7, 11 * DAY)
        before = len(self.rows(tables.lease_notices))
        removed = history.remove_old(self.context(), keep_days=10, most=2)
        self.assertEqual((5, 7), (removed.leases, removed.notices))
        self.assertEqual([young.id], [row.id for row in self.rows(tables.leases)])
        self.assertEqual([young.id], [row.lease_id for row in self.rows(tables.lease_texts)])
        self.assertEqual(before - 7, len(self.rows(tables.lease_notices)))

    def test_a_century(self):
        """The longest time that can be asked for."""
        self.past(self.instances(), ago=400 * DAY)
        self.assertEqual((0, 0), self.prune(36_500))

    def test_what_it_costs(self):
        counting = round_trips.RoundTrips(self.database)
        costs = []
        for number in (1, 4):
            for _ in range(number):
                self.past(self.instances(), self.whole(), ago=20 * DAY)
            self._age_notices(100, 20 * DAY)
            rendered_texts.fill(self.context(), representations.LEASE)
            costs.append(counting.of(
                history.prune, self.ctx, keep_days=10, most=1000))
        self.assertEqual(costs[0], costs[1])
        self.assertLessEqual(costs[0], 18)
