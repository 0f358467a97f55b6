"""Leases at random, with managers that die, ends that are late or fail, and hosts that do.

Several do something at the same time. Whatever happens, nobody is in force on a host that is
somebody else's still, nobody comes to one that is not clean, and nobody loses what is his.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import functools
import random
import time

import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.placement.errors import ProviderReserved
from placement_core.reservations import records, tables
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.manager import event_queue
from tests import databases, races
from tests.functional.reservations.pool_cases import slots, whole
from tests.functional.reservations.test_late_ends import LateEndsTestCase

_events, _held, _hosts, _leases, _reservations = (
    tables.lease_events, tables.computehost_allocations, tables.computehosts, tables.leases,
    tables.lease_reservations)
_STEPS = 35


@databases.on_each_database
class TestRandomLives(LateEndsTestCase):
    leftovers = "delete"
    cleaning_seconds = 1

    def setUp(self):
        super().setUp()
        self.hosts.append(self.host("three"))
        self.leased = []
        #: {consumer: (lease, host)} of those who are let in by a lease.
        self.claimed = {}
        #: {(lease, host)} that were in force at the last look; {host: {lease: when it ended}}.
        self.before = set()
        #: {(lease, host)} in force until the lease ended.
        self.to_the_end = set()
        #: Hosts that healing leaves; leases and hosts that may have parted in this step.
        self.broken = set()
        self.parted = set()
        self.freed = collections.defaultdict(dict)
        self.seen = collections.Counter()

    def test_invariants(self):
        for seed in range(3):
            chance = random.Random(seed)
            with self.subTest(seed=seed):
                for _ in range(_STEPS):
                    self.step(chance)
                    self.check()
        # It was no play of nothing.
        self.assertTrue(min(
            self.seen[what] for what in ("claimed", "came", "came later", "ended", "gone")) > 0,
            self.seen)

    def step(self, chance):
        for lease_id, host_id in sorted(self.before - set(self.claimed.values())):
            self.do(functools.partial(self.claim, lease_id, host_id), chance)
        [trick] = chance.choices(
            (self.be_late, self.fail_ends, self.retry_ends, None), (2, 1, 4, 5))
        if trick is not None:
            self.do(trick, chance)
        deeds = chance.choices(
            (self.make, self.grow_one, self.break_host, self.mend_host, self.claim_one,
             self.give_up), (6, 5, 2, 4, 8, 1), k=chance.choice((1, 2, 3)))
        self.parted.clear()
        deeds += [self.manage] * chance.choice((1, 2))
        # Each its own chance: threads take turns as they like.
        outcomes = races.run(*(
            functools.partial(self.do, deed, random.Random(chance.random())) for deed in deeds))
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        if chance.random() < 0.2:
            time.sleep(0.5)

    def do(self, deed, chance):
        # Refusals are what may happen; what must not is checked afterwards.
        with contextlib.suppress(core_errors.Error):
            deed(chance)

    # Deeds -------------------------------------------------------------------------

    def make(self, chance):
        asked = whole(chance.randint(1, 2)) if chance.random() < 0.8 else \
            slots(chance.randint(1, 3), vcpus=chance.choice((2, 4)))
        project = f"p{len(self.leased)}-{chance.random()}"
        self.leased.append(self.lease_of(project, asked).id)

    def one(self, chance):
        """Return a lease; one of the last, which more happens to."""
        return lease_queries.get(self.context(), chance.choice(self.leased[-6:] or [""]))

    def grow_one(self, chance):
        lease = self.one(chance)
        self.parted.add(lease.id)
        if lease.reservations[0].resource_type == "physical:host":
            least = chance.randint(1, 3)
            self.grow(lease, min=least, max=chance.randint(least, 3))
        else:
            self.grow(lease, amount=chance.randint(1, 4))

    def be_late(self, chance):
        lease = self.one(chance)
        if lease.status == records.ACTIVE and lease.end_at > datetime.datetime.now(datetime.UTC):
            self.shift(lease, start=-600)
            self.overdue(lease, seconds=chance.randint(0, 5))

    def fail_ends(self, chance):
        self.set_ends(chance, records.UNDONE, records.E_ERROR)

    def retry_ends(self, chance):
        self.set_ends(chance, records.E_ERROR, records.UNDONE)

    def set_ends(self, chance, before, after):
        """Change the status of some ends that are due."""
        due = [each for each in event_queue.list_(self.context(), status=before)
               if each.event_type == records.END
               and each.due_at <= datetime.datetime.now(datetime.UTC)]
        if due:
            with db.write(self.context()) as session:
                session.execute(sa.update(_events).where(
                    _events.c.id == chance.choice(due).id).values(status=after))

    def break_host(self, chance):
        host_id = chance.choice(self.hosts).id
        self.parted.add(host_id)
        self.pool.change(self.context(), str(host_id), {}, reservable=False)

    def mend_host(self, chance):
        self.pool.change(self.context(), str(chance.choice(self.hosts).id), {}, reservable=True)

    def claim_one(self, chance):
        """Claim of a host of a lease, as its project; and as somebody whom nobody lets in."""
        lease_id, host_id = chance.choice(sorted(self.before) or [("", 0)])
        self.claim(lease_id, host_id, chance)
        try:
            self.claim_as("nobody", next(host for host in self.hosts if host.id == host_id))
        except ProviderReserved:
            return
        raise AssertionError("somebody came in without a lease")

    def claim(self, lease_id, host_id, _chance):
        lease = lease_queries.get(self.context(), lease_id)
        host = next(host for host in self.hosts if host.id == host_id)
        with contextlib.suppress(ProviderReserved):
            self.claimed[self.claim_as(lease.project_id, host)] = lease.id, host.id
            self.seen["claimed"] += 1

    def give_up(self, chance):
        self.leases.delete(self.context(), self.one(chance).id)

    def manage(self, chance):
        """Do what a manager does, or die in the middle of it."""
        ctx = self.context()
        for turn in event_queue.dequeue(ctx, f"manager-{chance.random()}", most=3, seconds=1,
                                        cleaning_seconds=self.cleaning_seconds):
            if chance.random() < 0.8:
                self.transitions.execute(ctx, turn)
        self.healing.heal(ctx)

    # What must be so ---------------------------------------------------------------

    def check(self):
        with db.read(self.context()) as session:
            ends = {row.id: row.ended_at for row in session.execute(
                sa.select(_leases.c.id, _leases.c.ended_at))}
            starts = {row.lease_id: row.done_at for row in session.execute(
                sa.select(_events.c.lease_id, _events.c.done_at)
                .where(_events.c.event_type == records.START))}
            broken = set(session.execute(
                sa.select(_hosts.c.id).where(_hosts.c.reservable == sa.false())).scalars())
            held = session.execute(
                sa.select(_held, _leases.c.id, _leases.c.end_at, _reservations.c.status)
                .join(_reservations, _reservations.c.id == _held.c.reservation_id)
                .join(_leases, _leases.c.id == _reservations.c.lease_id)).all()
        rows = [row for row in held if row.status == records.R_ACTIVE
                and row.end_second >= second(row.end_at)]
        in_force = {(row.id, row.computehost_id): row for row in rows}
        for lease, host in self.before - set(in_force):
            if ends.get(lease) is not None:
                self.freed[host][lease] = second(ends[lease])
                self.seen["ended"] += 1
                if not self.parted & {lease, host} and host not in self.broken:
                    self.to_the_end.add((lease, host))
                else:
                    # It may have been given up a moment before: what is left stays there.
                    self.freed[host][lease] = min([
                        self.freed[host][lease],
                        *(row.end_second for row in held
                          if (row.id, row.computehost_id) == (lease, host))])
        for lease, host in set(in_force) - self.before:
            row = in_force[lease, host]
            since = max(row.start_second, second(starts[lease]))
            self.seen["came later" if row.start_second > second(starts[lease]) else "came"] += 1
            if row.whole:
                for ended in self.freed[host].values():
                    self.assertTrue(
                        since >= ended + self.cleaning_seconds,
                        f"{lease} came at {since} to {host}, which was freed at {ended}: "
                        f"{[tuple(row) for row in held if row.computehost_id == host]}")
        for host in self.hosts:
            self.check_host([row for row in rows if row.computehost_id == host.id])
        for consumer, (lease, host) in list(self.claimed.items()):
            if (lease, host) in in_force:
                self.assertTrue(self.holds(consumer), "somebody has lost what is his")
            elif (lease, host) in self.to_the_end:
                self.seen["gone"] += 1
                self.assertFalse(self.holds(consumer), "somebody has what was another's")
        self.before, self.broken = set(in_force), broken

    def check_host(self, rows):
        if any(row.whole for row in rows):
            self.assertEqual(1, len(rows), "a host is in force for two")
        self.assertLessEqual(sum(row.slots * row.vcpus for row in rows), 8)


def second(at):
    return int(at.replace(tzinfo=datetime.UTC).timestamp())
