"""The base of tests of leases: a pool of hosts, and who asks for them.

Hosts are rows, without a tree of providers: what leases do to placement and to a compute
service is not looked at here, only that it was asked for.
"""

from __future__ import annotations

import datetime
import itertools
import uuid

import sqlalchemy as sa
from oslo_config import cfg

from placement_core import db
from placement_core.plugin_api.reservations import Window
from placement_core.reservations import tables
from placement_core.reservations.leases import lease_queries, service
from placement_core.reservations.leases.transitions import EventAttempt, Transitions
from placement_core.reservations.policy.rules import LeaseRules
from placement_core.reservations.provisioning.provisioner import Provisioner
from placement_core.reservations.records import (
    IN_PROGRESS,
    ChangedReservation,
    LeaseChange,
    NewLease,
    NewReservation,
)
from placement_core.reservations.scheduling import pool_queries
from placement_core.reservations.scheduling.booking_index import BookingIndex
from placement_core.reservations.store import lease_rows
from placement_plugins.reservations import host, instance
from tests import base

_numbers = itertools.count(1)

DAY = datetime.timedelta(days=1)
HOUR = datetime.timedelta(hours=1)
MINUTE = datetime.timedelta(minutes=1)
SECOND = datetime.timedelta(seconds=1)


class NotedProvisioner(Provisioner):
    """Does nothing, and remembers what was asked for.

    :ivar asked: (what, the reservation's id, the hosts).
    :ivar refuses: what is raised instead of an end.
    """

    def __init__(self):
        self.asked = []
        self.refuses = None

    def create(self, ctx, lease, reservation):
        assert ctx.session.writing
        self.asked.append(("made", reservation.id, []))

    def change(self, ctx, lease, reservation, before, after):
        self.asked.append(("changed", reservation.id, [each.host_id for each in after]))

    def start(self, ctx, lease, reservation, shares):
        self.asked.append(("started", reservation.id, [each.host_id for each in shares]))

    def prepare_end(self, ctx, lease, reservation, shares, due_at):
        self.asked.append(("before_end", reservation.id, [each.host_id for each in shares]))

    def end(self, ctx, lease, reservation, shares, *, was_in_force):
        if self.refuses is not None:
            raise self.refuses
        self.asked.append(("ended" if was_in_force else "given up", reservation.id,
                           [each.host_id for each in shares]))


class NotedRules(LeaseRules):
    """Allows everything, and remembers what it was asked.

    :ivar refuses: {``prepare`` or ``decide``: what is raised}.
    """

    def __init__(self):
        self.asked = []
        self.refuses = {}

    def prepare(self, ctx, asked, before=None, *, question):
        assert ctx.session is None
        self._judge("prepare", asked)
        return self

    def decide(self, ctx, window, shares, *, in_force=False):
        assert ctx.session is not None
        self._judge("decide", (window, shares))

    def notify_end(self, ctx, lease):
        assert ctx.session is None
        self.asked.append(("ended", lease))

    def _judge(self, when, asked):
        self.asked.append((when, asked))
        if when in self.refuses:
            raise self.refuses[when]


class LeasesTestCase(base.DatabaseTestCase):
    """An empty pool, both plugins, and a service whose outside world is noted.

    :cvar cleaning_seconds: after each promise.
    """

    cleaning_seconds = 0
    minutes_before_end = 60

    def setUp(self):
        super().setUp()
        conf = cfg.ConfigOpts()
        self.plugins = {each.resource_type: each for each in (
            host.HostReservations(conf), instance.InstanceReservations(conf))}
        self.provisioner, self.rules = NotedProvisioner(), NotedRules()
        self.booking_index = BookingIndex(self.database)
        self.leases = self.service()
        self.transitions = Transitions(self.plugins, self.provisioner, self.rules)
        with db.read(self.ctx) as session:
            self.now = pool_queries.current_time(session)

    def service(self, **options):
        return service.Leases(self.plugins, self.provisioner, self.rules, self.booking_index, **{
            "cleaning_seconds": self.cleaning_seconds,
            "minutes_before_end": self.minutes_before_end, "max_reservations": 50, **options})

    # Hosts -----------------------------------------------------------------------

    def hosts(self, *sizes, **columns):
        """Put hosts into the pool; return their ids. A size: (vcpus, memory, disk)."""
        with db.write(self.ctx) as session:
            return [self._host(session, size, columns) for size in sizes]

    def _host(self, session, size, columns):
        number = next(_numbers)
        vcpus, memory_mb, disk_gb = size
        return session.execute(sa.insert(tables.computehosts), {
            "name": f"host-{number}", "provider_id": number, "provider_uuid": str(uuid.uuid4()),
            "reservation_provider_id": number + 10**6, "vcpus": vcpus, "memory_mb": memory_mb,
            "disk_gb": disk_gb, "reservable": True, "promised": False, **columns,
        }).inserted_primary_key[0]

    def capability(self, name, values):
        """Give hosts a capability: {host: value}."""
        property_id = str(uuid.uuid4())
        with db.write(self.ctx) as session:
            session.execute(sa.insert(tables.resource_properties), {
                "id": property_id, "resource_type": "physical:host", "property_name": name,
                "private": False})
            session.execute(sa.insert(tables.computehost_extra_capabilities), [
                {"computehost_id": host_id, "property_id": property_id,
                 "capability_value": value} for host_id, value in values.items()])

    # What is asked for -----------------------------------------------------------

    def at(self, hours):
        """Return the hour tomorrow that is so many hours later."""
        return self.now.replace(minute=0, second=0) + DAY + hours * HOUR

    @staticmethod
    def instances(amount=1, size=(1, 1, 1), *, affinity=None, **fields):
        vcpus, memory_mb, disk_gb = size
        return NewReservation("virtual:instance", {
            "vcpus": vcpus, "memory_mb": memory_mb, "disk_gb": disk_gb, "amount": amount,
            "affinity": affinity, **fields})

    @staticmethod
    def whole(minimum=1, maximum=None, **fields):
        return NewReservation("physical:host", {
            "min": minimum, "max": maximum or minimum, **fields})

    def new(self, *reservations, start=0, end=1, project="p", name="lease", **fields):
        """Return what is asked for; start and end as hours of tomorrow, or as times.

        ``start`` None is now.
        """
        return NewLease(name, project, "jane", self._time(start), self._time(end),
                        reservations, **fields)

    def _time(self, said):
        return self.at(said) if isinstance(said, int | float) else said

    def create(self, *reservations, ctx=None, **options):
        return self.leases.create(ctx or self.ctx, self.new(*reservations, **options))

    def change(self, lease, *reservations, ctx=None, **changes):
        """Change a lease; reservations as {field: value} in their order."""
        for field in ("start_at", "end_at"):
            if field in changes:
                changes[field] = self._time(changes[field])
        return self.leases.change(ctx or self.ctx, lease.id, LeaseChange(**changes, reservations=[
            ChangedReservation(each.id, None, given)
            for each, given in zip(lease.reservations, reservations, strict=False)]))

    # What happens ----------------------------------------------------------------

    def claimed(self, lease, event_type, owner="me"):
        """Let somebody have an event; return the turn."""
        with db.write(self.ctx) as session:
            row = session.execute(sa.select(tables.lease_events).where(
                tables.lease_events.c.lease_id == lease.id,
                tables.lease_events.c.event_type == event_type)).one()
            session.execute(sa.update(tables.lease_events).where(
                tables.lease_events.c.id == row.id).values(
                    status=IN_PROGRESS, owner=owner, attempt=row.attempt + 1))
        return EventAttempt(row.id, lease.id, event_type, owner, row.attempt + 1)

    def execute(self, lease, event_type):
        return self.transitions.execute(self.ctx, self.claimed(lease, event_type))

    def started(self, *reservations, **options):
        """Make a lease that has started."""
        lease = self.create(*reservations, **{"start": None, **options})
        self.assertTrue(self.execute(lease, "start_lease"))
        return self.get(lease)

    def back(self, lease, span):
        """Let a lease have been made a time ago: all its times are earlier by that."""
        seconds = int(span.total_seconds())
        with db.write(self.ctx) as session:
            session.execute(
                sa.update(tables.leases).where(tables.leases.c.id == lease.id).values(
                    start_at=lease_rows.naive(lease.start_at - span),
                    end_at=lease_rows.naive(lease.end_at - span)))
            for each in lease.events:
                session.execute(
                    sa.update(tables.lease_events).where(tables.lease_events.c.id == each.id)
                    .values(due_at=lease_rows.naive(each.due_at - span)))
            ids = [each.id for each in lease.reservations]
            for held in (tables.computehost_allocations, tables.reservation_amounts):
                session.execute(
                    sa.update(held).where(held.c.reservation_id.in_(ids))
                    .values(start_second=held.c.start_second - seconds,
                            end_second=held.c.end_second - seconds))
        return self.get(lease)

    # What is there ---------------------------------------------------------------

    def get(self, lease):
        return lease_queries.get(self.context(), lease.id)

    def held(self, lease):
        """Return what each reservation holds, or held last: {host: (slots, window)}."""
        table = tables.computehost_allocations
        with db.read(self.context()) as session:
            rows = session.execute(
                sa.select(table).where(table.c.start_second < table.c.end_second)
                .order_by(table.c.start_second)).all()
        return [
            {row.computehost_id: (row.slots, Window.of(row.start_second, row.end_second))
             for row in rows if row.reservation_id == each.id}
            for each in lease.reservations]

    def slots(self, lease):
        """Return how many slots each reservation has of which host."""
        return [{host_id: slots for host_id, (slots, _) in each.items()}
                for each in self.held(lease)]

    def rows(self, table):
        with db.read(self.context()) as session:
            return session.execute(sa.select(table)).all()

    def everything(self):
        """Return all that leases write, to compare."""
        return {
            table.name: sorted(map(tuple, self.rows(table)), key=str)
            for table in (
                tables.leases, tables.lease_reservations, tables.instance_reservations,
                tables.computehost_reservations, tables.computehost_allocations,
                tables.reservation_amounts, tables.lease_events, tables.lease_notices,
                tables.computehosts)}

    def notices(self, lease):
        return [row.event for row in sorted(self.rows(tables.lease_notices), key=lambda r: r.id)
                if row.lease_id == lease.id]
