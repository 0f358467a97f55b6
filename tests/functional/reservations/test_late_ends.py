"""Leases whose ends are late, or fail: until they are done, their hosts are not free.

Nobody else is in force on such a host, whichever way a lease comes to hosts, and an end
deletes what belongs to its own reservation only.
"""

import datetime
from unittest import mock

import sqlalchemy as sa

from placement_core import db
from placement_core.placement import allocations, errors as placement_errors
from placement_core.placement.records import AllocationWrite
from placement_core.plugin_api.reservations import DoesNotFit
from placement_core.reservations import errors, records, tables
from placement_core.reservations.hosts.access import HostAccessGate
from placement_core.reservations.leases import history, lease_queries
from placement_core.reservations.manager import event_queue
from placement_core.reservations.records import NewLease, NewReservation
from placement_core.reservations.scheduling import pool_queries
from placement_core.reservations.store import lease_rows
from placement_core.testing import factories
from placement_plugins.compute.none import NoCompute
from tests import databases, races
from tests.functional.reservations.pool_cases import slots, whole
from tests.functional.reservations.test_lives import LifeTestCase

MINUTE, HOUR = 60, 3600


class LateEndsTestCase(LifeTestCase):
    """Two hosts, and leases of projects that are in force since an hour."""

    def driver(self):
        return NoCompute(self.parts.conf)

    def lease_of(self, project, *asked, hours=10):
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        return self.leases.create(self.context(), NewLease(
            "lease", project, "user", None, now + datetime.timedelta(hours=hours),
            [NewReservation(each["resource_type"], {
                key: value for key, value in each.items() if key != "resource_type"})
             for each in asked]))

    def in_force(self, project, *asked, hours=10):
        lease = self.lease_of(project, *asked, hours=hours)
        self.happen(lease, records.START)
        self.shift(lease, start=-HOUR)
        return self.found(lease)

    def shift(self, lease, *, start=0, end=0):
        """Let a lease have begun and end so many seconds later than it does."""
        held, events_ = tables.computehost_allocations, tables.lease_events
        lease = lease_queries.get(self.context(), lease.id)
        moved = {"start_at": lease.start_at + datetime.timedelta(seconds=start),
                 "end_at": lease.end_at + datetime.timedelta(seconds=end)}
        times = {name: at.replace(tzinfo=None) for name, at in moved.items()}
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.leases).where(
                tables.leases.c.id == lease.id).values(**times))
            session.execute(sa.update(held).where(held.c.reservation_id.in_(
                [each.id for each in lease.reservations])).values(
                start_second=held.c.start_second + start, end_second=held.c.end_second + end))
            for kind, name in ((records.START, "start_at"), (records.END, "end_at")):
                session.execute(sa.update(events_).where(
                    events_.c.lease_id == lease.id, events_.c.event_type == kind,
                ).values(due_at=times[name]))

    def overdue(self, lease, seconds=MINUTE):
        """Let a lease be in force still, although its end was some time ago."""
        end = self.found(lease).end_at
        now = datetime.datetime.now(datetime.UTC)
        self.shift(lease, end=int((now - end).total_seconds()) - seconds)

    def hosts_of(self, lease):
        return sorted(self.held(lease))

    def host_named(self, name):
        return next(each for each in self.hosts if each.name == name)

    def other_than(self, name):
        return next(each for each in self.hosts if each.name != name)

    def grow(self, lease, **fields):
        return self.leases.change(self.context(), lease.id, records.LeaseChange(reservations=[
            records.ChangedReservation(lease.reservations[0].id, None, fields)]))

    def claim_as(self, project, host, *, fenced=True, vcpus=1):
        consumer = factories.new_uuid()
        allocations.replace(self.context(), [AllocationWrite(
            consumer, {host.provider_uuid: {"VCPU": vcpus}}, project, "user")],
            [HostAccessGate()] if fenced else [])
        return consumer

    def holds(self, consumer):
        return allocations.list_for_consumer(self.context(), consumer) is not None

    def due(self):
        """Return which events a manager takes now."""
        return {(turn.lease_id, turn.event_type) for turn in event_queue.dequeue(
            self.context(), "taker", most=100, seconds=1,
            cleaning_seconds=self.cleaning_seconds)}


@databases.on_each_database
class TestInForce(LateEndsTestCase):
    """Who is in force already comes to no host whose lease has not ended."""

    def setUp(self):
        super().setUp()
        self.late = self.in_force("p", whole(1))
        self.other = self.in_force("q", whole(1))
        self.overdue(self.late)

    def test_growth(self):
        refused = self.assertRaises(DoesNotFit, self.grow, self.other, max=2, min=2)
        self.assertIn("not free yet", str(refused))
        self.assertEqual(1, len(self.hosts_of(self.other)))
        # As many as there are: the other one is not there.
        self.grow(self.other, max=2, min=1)
        self.assertEqual(1, len(self.hosts_of(self.other)))
        self.happen(self.late, records.END)
        self.grow(self.other, max=2, min=2)
        self.assertEqual(["one", "two"], self.hosts_of(self.other))

    def test_growth_of_slots(self):
        self.happen(self.late, records.END)
        late = self.in_force("p", slots(1, vcpus=2))
        growing = self.in_force("r", slots(1, vcpus=2))
        self.assertEqual(self.hosts_of(late), self.hosts_of(growing))
        self.overdue(late)
        self.assertRaises(DoesNotFit, self.grow, growing, amount=2)
        self.happen(late, records.END)
        self.grow(growing, amount=2)
        self.assertEqual([2], list(self.held(growing).values()))

    def test_healing(self):
        [failed] = self.hosts_of(self.other)
        self.out_of_service(self.host_named(failed))
        self.assertEqual([], self.hosts_of(self.other))
        self.assertEqual((True, True), (self.reservation(self.other).missing_resources,
                                        self.found(self.other).degraded))
        self.happen(self.late, records.END)
        self.healing.heal(self.context())
        self.assertEqual([self.other_than(failed).name], self.hosts_of(self.other))

    def test_an_end_that_failed(self):
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.lease_events).where(
                tables.lease_events.c.lease_id == self.late.id,
                tables.lease_events.c.event_type == records.END,
            ).values(status=records.E_ERROR))
        self.assertRaises(DoesNotFit, self.grow, self.other, max=2, min=2)

    def test_a_host_does_not_leave_the_pool(self):
        [name] = self.hosts_of(self.late)
        host = str(self.host_named(name).id)
        self.assertRaises(errors.HostInUse, self.pool.remove, self.context(), host)
        self.happen(self.late, records.END)
        self.pool.remove(self.context(), host)

    def test_growth_and_the_end_at_once(self):
        """Whichever comes first: nobody loses anything to the end of the other."""
        [name] = self.hosts_of(self.late)
        ended, grown = races.run(
            lambda: self.happen(self.late, records.END),
            lambda: self.grow(self.other, max=2, min=2))
        self.assertIsNone(ended)
        if isinstance(grown, DoesNotFit):
            self.assertIn("not free yet", str(grown))
            grown = self.grow(self.other, max=2, min=2)
        self.assertEqual(["one", "two"], self.hosts_of(grown))
        self.assertTrue(self.holds(self.claim_as("q", self.host_named(name))))

    def test_what_is_held_already_is_not_lost(self):
        """A lease that waits for the host, and one that ends late there, count once."""
        self.shift(self.other, end=-9 * HOUR)
        self.lease_of("next", whole(1))
        change = records.LeaseChange(end_at=self.found(self.other).end_at
                                     + datetime.timedelta(minutes=1))
        self.leases.change(self.context(), self.other.id, change)


@databases.on_each_database
class TestStarts(LateEndsTestCase):
    def test_it_is_planned_on_a_host_that_is_free(self):
        """Though others had that one before, too, and the host of the late lease comes first."""
        self.happen(self.in_force("p", whole(2)), records.END)
        late = self.in_force("p", whole(1))
        self.overdue(late)
        [name] = self.hosts_of(late)
        for asked in (whole(1), slots(1)):
            lease = self.lease_of("q", asked)
            self.assertEqual([self.other_than(name).name], self.hosts_of(lease))
            self.leases.delete(self.context(), lease.id)

    def test_it_gets_as_many_hosts_as_there_are(self):
        """A lease that takes up to two is not cut short because one is late."""
        self.overdue(self.in_force("p", whole(1)))
        self.assertEqual(["one", "two"], self.hosts_of(self.lease_of("q", whole(1, 2))))

    def test_it_waits_where_no_host_is_free(self):
        late = self.in_force("p", whole(1))
        self.overdue(late)
        self.lease_of("q", whole(1))
        self.assertEqual(self.hosts_of(late), self.hosts_of(self.lease_of("r", whole(1))))

    def test_healing_moves_what_is_about_to_start(self):
        """A start that somebody has taken already does not happen on a host in use."""
        late = self.in_force("p", whole(1))
        next_ = self.lease_of("q", whole(1))
        [turn] = event_queue.dequeue(
            self.context(), "taker", most=10, seconds=60, cleaning_seconds=0)
        self.overdue(late)
        [failed] = self.hosts_of(next_)
        self.out_of_service(self.host_named(failed))
        self.assertEqual(self.hosts_of(late), self.hosts_of(next_))
        self.assertFalse(self.transitions.execute(self.context(), turn))
        self.assertEqual(records.PENDING, self.found(next_).status)
        self.assertEqual({(late.id, records.END)}, self.due())
        self.happen(late, records.END)
        self.assertEqual({(next_.id, records.START)}, self.due())


@databases.on_each_database
class TestCleaning(LateEndsTestCase):
    cleaning_seconds = 10 * MINUTE

    def test_it_begins_when_the_lease_has_really_ended(self):
        late = self.in_force("p", whole(2))
        self.overdue(late, seconds=11 * MINUTE)  # by the plan, its hosts are clean
        next_ = self.lease_of("q", whole(1))
        self.happen(late, records.END)
        self.assertEqual(set(), self.due())
        refused = self.assertRaises(errors.NoRoom, self.lease_of, "r", whole(1))
        again = refused.fits_at - datetime.datetime.now(datetime.UTC)
        self.assertTrue(9 * MINUTE < again.total_seconds() <= 10 * MINUTE, again)
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.leases).where(tables.leases.c.id == late.id).values(
                ended_at=tables.leases.c.end_at))
        self.assertEqual({(next_.id, records.START)}, self.due())

    def test_a_plan_judges_by_the_second_that_it_writes_down(self):
        """It may be a moment later by the database's clock when it looks for hosts."""
        late, other = self.in_force("p", whole(1)), self.in_force("q", whole(1))
        self.overdue(late, seconds=HOUR)
        self.happen(late, records.END)
        with db.write(self.ctx) as session:
            now = pool_queries.current_time(session)
            # Clean since a second.
            ended_at = now - datetime.timedelta(seconds=self.cleaning_seconds + 1)
            session.execute(sa.update(tables.leases).where(tables.leases.c.id == late.id).values(
                ended_at=ended_at.replace(tzinfo=None)))
        find = lease_rows.find

        def find_earlier(session, lease_id):
            present = find(session, lease_id)
            # By more than a slow machine takes from the above to the below.
            return present._replace(at=present.at - datetime.timedelta(minutes=5))

        with mock.patch.object(lease_rows, "find", find_earlier):
            refused = self.assertRaises(DoesNotFit, self.grow, other, max=2, min=2)
        self.assertIn("not free yet", str(refused))
        self.grow(other, max=2, min=2)
        self.assertEqual(["one", "two"], self.hosts_of(other))


@databases.on_each_database
class TestEndsThatDelete(LateEndsTestCase):
    leftovers = "delete"

    def test_of_a_host(self):
        """What others have there, however that came about, stays."""
        lease = self.in_force("p", whole(1))
        [name] = self.hosts_of(lease)
        host = self.host_named(name)
        own = self.claim_as("p", host)
        foreign = self.claim_as("q", host, fenced=False)
        self.happen(lease, records.END)
        self.assertEqual((False, True), (self.holds(own), self.holds(foreign)))


@databases.on_each_database
class TestEndsThatRefuse(LateEndsTestCase):
    leftovers = "refuse"

    def test_not_for_what_others_have(self):
        lease = self.in_force("p", whole(1))
        [name] = self.hosts_of(lease)
        host = self.host_named(name)
        own = self.claim_as("p", host)
        self.claim_as("q", host, fenced=False)
        self.assertRaises(errors.WrongStatus, self.happen, lease, records.END)
        allocations.delete(self.context(), own)
        self.happen(lease, records.END)


@databases.on_each_database
class TestEndsThatReport(LateEndsTestCase):
    def test_nobody_comes_to_the_host_any_more(self):
        for asked in (whole(1), slots(1, vcpus=4)):
            with self.subTest(asked["resource_type"]):
                lease = self.in_force("p", asked)
                [name] = self.hosts_of(lease)
                host = self.host_named(name)
                old = self.claim_as("p", host, fenced=asked["resource_type"] == "physical:host")
                self.overdue(lease)
                self.refused("p", host)
                self.happen(lease, records.END)
                self.assertTrue(self.holds(old))
                self.refused("p", host)
                allocations.delete(self.context(), old)

    def refused(self, project, host):
        self.assertRaises(placement_errors.ProviderReserved, self.claim_as, project, host)


@databases.on_each_database
class TestHistory(LateEndsTestCase):
    """What a reservation had of hosts stays known, however often that changes."""

    def windows(self, lease):
        return self.in_order(
            each for each in history.page(self.context()) if each.lease_id == lease.id)

    @staticmethod
    def in_order(holdings):
        return sorted(((each.host_name, each.slots, each.window) for each in holdings),
                      key=lambda entry: (entry[0], entry[2].start))

    def test_a_host_that_comes_back(self):
        lease = self.in_force("p", whole(2))
        one = self.host_named("one")
        self.out_of_service(one)
        self.shift_rows(lease, -MINUTE)
        self.pool.change(self.context(), str(one.id), {}, reservable=True)
        self.assertEqual(["one", "two"], self.hosts_of(lease))
        (first, _, before), (second, _, after), _ = self.windows(lease)
        self.assertEqual(("one", "one"), (first, second))
        self.assertTrue(before.end_at < after.start_at)
        self.assertEqual(self.found(lease).end_at, after.end_at)
        # Back and forth within a second leaves nothing behind.
        self.out_of_service(one)
        self.pool.change(self.context(), str(one.id), {}, reservable=True)
        self.assertEqual(["one", "two"], self.hosts_of(lease))
        # Page by page there is as much.
        markers, found = None, []
        while page := history.page(self.context(), after=markers, limit=1):
            markers = page[-1].marker
            found += page
        self.assertEqual(self.windows(lease), self.in_order(found))
        self.happen(lease, records.END)

    def shift_rows(self, lease, seconds):
        """Let what was given up have been given up earlier."""
        held = tables.computehost_allocations
        end = int(self.found(lease).end_at.timestamp())
        with db.write(self.ctx) as session:
            session.execute(sa.update(held).where(
                held.c.reservation_id == lease.reservations[0].id, held.c.end_second < end,
            ).values(end_second=held.c.end_second + seconds))

    def test_slots_that_were_added(self):
        lease = self.in_force("p", slots(1, vcpus=2))
        self.grow(lease, amount=3)
        (_, few, before), (_, many, after) = self.windows(lease)
        self.assertEqual((1, 3), (few, many))
        self.assertEqual(before.end_at, after.start_at)
        self.assertEqual([3], list(self.held(lease).values()))
        self.leases.delete(self.context(), lease.id)
