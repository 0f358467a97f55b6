"""Leases whose hosts fail get others, or are degraded until they do."""

from __future__ import annotations

import contextlib
import datetime
import random
from typing import Any

import fixtures
import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.cells import cell_tables
from placement_core.cells.records import Cell
from placement_core.context import Context
from placement_core.plugin_api.reservations import DoesNotFit
from placement_core.reservations import tables
from placement_core.reservations.hosts import host_queries, sizes
from placement_core.reservations.hosts.healing import HealingResult
from placement_core.reservations.hosts.monitor import Monitor
from placement_core.reservations.leases import notifications
from placement_core.reservations.records import Host, Lease
from tests import databases, races
from tests.functional.reservations.pool_cases import PoolTestCase, slots, whole


class HealingTestCase(PoolTestCase):
    def heal(self) -> HealingResult:
        return self.healing.heal(self.context())

    def in_service(self, host: Host) -> None:
        self.pool.change(self.context(), str(host.id), {}, reservable=True)

    def changes(self) -> list[tuple]:
        return [told for told in self.provisioner.told if told[0] == "changed"]

    def flags(self, lease: Lease, position: int = 0) -> tuple[bool, bool, bool]:
        """Return (missing_resources, resources_changed, degraded)."""
        reservation = self.reservation(lease, position)
        return (reservation.missing_resources, reservation.resources_changed,
                self.found(lease).degraded)


@databases.on_each_database
class TestHealing(HealingTestCase):
    def test_another_host(self) -> None:
        one, two = self.host("one"), self.host("two")
        lease = self.lease(slots(2, affinity=False))
        three = self.host("three")
        self.out_of_service(one)
        self.assertEqual({"two": 1, "three": 1}, self.held(lease))
        self.assertEqual((False, False, False), self.flags(lease))
        self.assertEqual(
            [("changed", lease.reservations[0].id, {one.id: 1, two.id: 1},
              {two.id: 1, three.id: 1})], self.changes())
        self.assertEqual([notifications.CREATED, notifications.CHANGED], [
            each.event for each in notifications.page(self.context())])
        # What was not in force yet was never held.
        self.assertEqual([], host_queries.list_allocations(
            self.ctx, host_id=str(one.id), lease_id=lease.id)[1])
        before = self.revisions()
        self.assertEqual(HealingResult(), self.heal())
        self.assertEqual(before, self.revisions())

    def test_of_a_lease_in_force(self) -> None:
        one = self.host("one")
        lease = self.lease(slots(2, affinity=True))
        self.activate(lease)
        self.host("two")
        self.out_of_service(one)
        self.assertEqual({"two": 2}, self.held(lease))
        self.assertEqual((False, True, False), self.flags(lease))
        [past] = host_queries.list_allocations(self.ctx, host_id=str(one.id), lease_id=lease.id)[1]
        [present] = host_queries.list_allocations(self.ctx)[1]
        self.assertEqual(past.window.end_at, present.window.start_at)
        self.assertEqual("two", present.host_name)

    def test_none_fits_until_the_host_is_back(self) -> None:
        one = self.host("one")
        lease = self.lease(slots(2, affinity=True))
        self.activate(lease)
        self.out_of_service(one)
        self.assertEqual({}, self.held(lease))
        self.assertEqual((True, True, True), self.flags(lease))
        self.assertEqual(HealingResult(), self.heal())
        self.in_service(one)
        self.assertEqual({"one": 2}, self.held(lease))
        self.assertEqual((False, True, False), self.flags(lease))
        self.assertEqual(
            [({one.id: 2}, {}), ({}, {one.id: 2})], [told[2:] for told in self.changes()])
        self.assertEqual(1, len(host_queries.list_allocations(self.ctx)[1]))

    def test_two_at_once_do_it_once(self) -> None:
        one = self.host("one")
        lease = self.lease(slots(2))
        self.host("two")
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.computehosts).values(reservable=False).where(
                tables.computehosts.c.id == one.id))
        done = races.run(*[self.heal] * 3)
        self.assertEqual([lease.id], [id_ for healed in done for id_ in healed.whole])
        self.assertEqual({"two": 2}, self.held(lease))
        self.assertEqual(1, len(self.changes()))


class TestPlans(HealingTestCase):
    def test_what_is_elsewhere_stays(self) -> None:
        one, two = self.host("one", VCPU=4), self.host("two", VCPU=8)
        lease = self.lease(slots(2, affinity=False), slots(1))
        self.activate(lease)
        self.assertEqual({"two": 1}, self.held(lease, 1))
        self.host("three", VCPU=4)
        self.out_of_service(one)
        self.assertEqual({"two": 1, "three": 1}, self.held(lease))
        self.assertEqual({"two": 1}, self.held(lease, 1))
        self.assertEqual((False, False, False), self.flags(lease, 1))
        self.assertEqual(1, len(self.changes()))
        self.assertEqual("two", two.name)

    def test_one_reservation_fits_and_one_does_not(self) -> None:
        one = self.host("one", VCPU=12)
        lease = self.lease(slots(vcpus=8), slots(vcpus=4))
        self.host("two", VCPU=4)
        self.out_of_service(one)
        self.assertEqual(({}, {"two": 1}), (self.held(lease), self.held(lease, 1)))
        self.assertEqual((True, False, True), self.flags(lease))
        self.assertEqual((False, False, True), self.flags(lease, 1))

    def test_two_reservations_do_not_get_the_same_room(self) -> None:
        one = self.host("one", VCPU=8)
        lease = self.lease(slots(vcpus=4), slots(vcpus=4))
        self.host("two", VCPU=4)
        self.out_of_service(one)
        self.assertEqual(({"two": 1}, {}), (self.held(lease), self.held(lease, 1)))
        self.assertEqual((True, False, True), self.flags(lease, 1))

    def test_less_than_all_is_better_than_nothing(self) -> None:
        one = self.host("one", VCPU=16)
        lease = self.lease(slots(4))
        self.host("two", VCPU=12)
        self.out_of_service(one)
        self.assertEqual({"two": 3}, self.held(lease))
        self.assertEqual((True, False, True), self.flags(lease))
        three = self.host("three")
        self.assertEqual(HealingResult(whole=[lease.id]), self.heal())
        self.assertEqual({"two": 3, "three": 1}, self.held(lease))
        self.assertEqual((False, False, False), self.flags(lease))
        self.assertEqual("three", three.name)

    def test_hosts(self) -> None:
        made = [self.host(f"host-{number}") for number in range(3)]
        lease = self.lease(whole(2, 3))
        self.activate(lease)
        self.out_of_service(made[0])
        self.assertEqual({"host-1": 1, "host-2": 1}, self.held(lease))
        # As many as were promised.
        self.assertEqual((False, True, False), self.flags(lease))
        self.out_of_service(made[1])
        self.assertEqual({"host-2": 1}, self.held(lease))
        self.assertEqual((True, True, True), self.flags(lease))
        self.host("host-3")
        self.assertEqual([lease.id], self.heal().whole)
        self.assertEqual({"host-2": 1, "host-3": 1}, self.held(lease))
        self.assertEqual((False, True, False), self.flags(lease))

    def test_requirements_are_kept(self) -> None:
        one = self.host("one", {"gpu": "a100"})
        self.host("two", {"gpu": "h100"})
        lease = self.lease(slots(resource_properties='["=", "$gpu", "a100"]'))
        self.out_of_service(one)
        self.assertEqual({}, self.held(lease))
        self.pool.change(self.context(), str(one.id), {"gpu": None})
        # No host has such a property now.
        self.pool.change(self.context(), str(host_queries.find(self.ctx, "two").id), {"gpu": None})
        self.assertEqual(HealingResult(), self.heal())
        self.host("three", {"gpu": "a100"})
        self.assertEqual([lease.id], self.heal().whole)

    def test_those_that_start_first_go_first(self) -> None:
        one = self.host("one", VCPU=8)
        later = self.lease(slots(vcpus=8), hours=(1, 10))
        self.healing._interval_seconds = 0
        soon = self.lease(slots(vcpus=8), hours=(0, 1))
        self.host("two", VCPU=8)
        lasting = self.lease(slots(vcpus=8), hours=(0, 10))
        self.assertEqual({"two": 1}, self.held(lasting))
        self.out_of_service(one)
        self.assertEqual(({}, {}), (self.held(later), self.held(soon)))
        self.leases.delete(self.context(), lasting.id)
        self.assertEqual([soon.id, later.id], self.heal().whole)

    def test_later_ones_wait(self) -> None:
        one = self.host("one")
        lease = self.lease(slots(), hours=(2, 3))
        self.host("two")
        self.out_of_service(one)
        self.assertEqual({"one": 1}, self.held(lease))
        self.healing._interval_seconds = 2 * 3600 + 60
        self.assertEqual([lease.id], self.heal().whole)
        self.assertEqual({"two": 1}, self.held(lease))

    def test_a_host_that_shrank(self) -> None:
        self.host("one", VCPU=16)
        old = self.lease(slots(2))
        new = self.lease(slots(2))
        self.host("two", VCPU=4)
        self.resize("one", VCPU=12)
        self.assertEqual(["one"], sizes.refresh(self.context()))
        self.assertEqual(HealingResult(whole=[new.id]), self.heal())
        self.assertEqual(({"one": 2}, {"one": 1, "two": 1}), (self.held(old), self.held(new)))
        self.resize("one", VCPU=8)
        sizes.refresh(self.context())
        self.assertEqual(HealingResult(degraded=[new.id]), self.heal())
        self.assertEqual(({"one": 2}, {"two": 1}), (self.held(old), self.held(new)))

    def test_a_host_that_shrank_below_what_is_booked_for_later(self) -> None:
        """A lease in force keeps its host until the later one, created after it, comes nearer."""
        self.host("one", VCPU=12)
        first = self.lease(slots(), hours=(0, 400))
        second = self.lease(slots(), hours=(100, 200))
        third = self.lease(slots(), hours=(0, 1))
        self.activate(first)
        self.activate(third)
        self.host("two")
        self.resize("one", VCPU=7)
        sizes.refresh(self.context())
        self.assertEqual(HealingResult(whole=[third.id]), self.heal())
        self.assertEqual([{"one": 1}, {"one": 1}, {"two": 1}],
                         [self.held(lease) for lease in (first, second, third)])
        self.assertEqual((False, False, False), self.flags(first))
        self.healing._interval_seconds = 101 * 3600
        self.assertEqual(HealingResult(whole=[second.id]), self.heal())
        self.assertEqual([{"one": 1}, {"two": 1}],
                         [self.held(lease) for lease in (first, second)])

    def shrink_and_lose(self, *, in_force: bool) -> tuple[Lease, Lease]:
        """Return a lease that lost one of two hosts, and a later one on the other.

        That has not room for both any more; a third host has room for one slot.
        """
        self.host("one", VCPU=8)
        two = self.host("two", VCPU=4)
        first = self.lease(slots(2, affinity=False), hours=(0, 400))
        second = self.lease(slots(), hours=(100, 200))
        self.assertEqual({"one": 1}, self.held(second))
        if in_force:
            self.activate(first)
        self.host("three", VCPU=4)
        self.resize("one", VCPU=7)
        sizes.refresh(self.context())
        self.out_of_service(two)
        return first, second

    def test_a_loss_beside_what_is_booked_for_later(self) -> None:
        """What a lease keeps beside later ones does not keep it from other hosts."""
        first, second = self.shrink_and_lose(in_force=True)
        self.assertEqual(({"one": 1, "three": 1}, {"one": 1}),
                         (self.held(first), self.held(second)))
        self.assertEqual((False, True, False), self.flags(first))
        self.assertEqual(HealingResult(), self.heal())

    def test_a_loss_before_the_start(self) -> None:
        first, second = self.shrink_and_lose(in_force=False)
        self.assertEqual(({"one": 1, "three": 1}, {"one": 1}),
                         (self.held(first), self.held(second)))
        self.assertEqual((False, False, False), self.flags(first))

    def test_where_one_is_kept_others_have_no_room(self) -> None:
        """Nothing more is placed beside later leases than what is there already."""
        self.host("one", VCPU=2)
        two = self.host("two", VCPU=2)
        first = self.lease(slots(2, vcpus=2), hours=(0, 400))
        self.activate(first)
        self.resize("one", VCPU=6)
        sizes.refresh(self.context())
        second = self.lease(slots(), hours=(100, 200))
        self.resize("one", VCPU=5)
        sizes.refresh(self.context())
        self.out_of_service(two)
        self.assertEqual(({"one": 1}, {"one": 1}), (self.held(first), self.held(second)))
        self.assertEqual((True, True, True), self.flags(first))
        self.host("three", VCPU=2)
        self.assertEqual(HealingResult(whole=[first.id]), self.heal())
        self.assertEqual({"one": 1, "three": 1}, self.held(first))

    def test_a_later_lease_that_was_created_before(self) -> None:
        self.host("one", VCPU=8)
        first = self.lease(slots(), hours=(100, 200))
        second = self.lease(slots(), hours=(0, 400))
        self.activate(second)
        self.host("two")
        self.resize("one", VCPU=7)
        sizes.refresh(self.context())
        self.assertEqual(HealingResult(), self.heal())
        self.healing._interval_seconds = 101 * 3600
        self.assertEqual(HealingResult(whole=[second.id]), self.heal())
        self.assertEqual(({"one": 1}, {"two": 1}), (self.held(first), self.held(second)))

    def test_a_whole_host_that_shrank_stays_whole(self) -> None:
        one = self.host("one")
        lease = self.lease(whole())
        self.host("two")
        self.resize("one", VCPU=1)
        self.pool.change(self.context(), str(one.id), {"a": "b"})
        self.assertEqual({"one": 1}, self.held(lease))
        self.assertEqual([], self.changes())

    def test_what_cannot_be_done_now_is_done_later(self) -> None:
        one = self.host("one")
        lease = self.lease(slots())
        self.host("two")

        def refuse(*_anything: object) -> None:
            raise core_errors.Unavailable("not now")

        self.provisioner.change = refuse
        self.out_of_service(one)
        self.assertEqual(HealingResult(failed=[lease.id]), self.heal())
        self.assertEqual({"one": 1}, self.held(lease))
        del self.provisioner.change
        self.assertEqual([lease.id], self.heal().whole)

    def test_a_defect_at_one_lease(self) -> None:
        """It concerns that lease alone: those behind it are healed."""
        log = self.useFixture(fixtures.FakeLogger())
        one = self.host("one")
        first, second = self.lease(slots()), self.lease(slots())
        self.host("two")
        original = self.provisioner.change

        def change(ctx: Context, lease: Lease, *more: Any) -> None:
            if lease.id == first.id:
                raise ZeroDivisionError("a defect")
            original(ctx, lease, *more)

        self.provisioner.change = change
        self.out_of_service(one)
        self.assertEqual(({"one": 1}, {"two": 1}), (self.held(first), self.held(second)))
        self.assertEqual(HealingResult(failed=[first.id]), self.heal())
        self.assertIn("ZeroDivisionError: a defect", log.output)

    def test_leases_that_are_over_are_left_alone(self) -> None:
        one = self.host("one")
        given_up, ended = self.lease(slots()), self.lease(slots())
        self.leases.delete(self.context(), given_up.id)
        self.activate(ended)
        with db.write(self.ctx) as session:
            past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)
            session.execute(sa.update(tables.leases).values(end_at=past.replace(tzinfo=None)))
            session.execute(sa.update(tables.computehost_allocations).values(
                end_second=int(past.timestamp())))
        self.out_of_service(one)
        self.assertEqual([], self.changes())


class TestEverythingAtOnce(HealingTestCase):
    interval_seconds = 0

    def test_any_time_ahead(self) -> None:
        one = self.host("one")
        lease = self.lease(slots(), hours=(5000, 5001))
        self.host("two")
        self.out_of_service(one)
        self.assertEqual({"two": 1}, self.held(lease))


class TestRandomFailures(HealingTestCase):
    """Whatever fails and comes back: nothing is booked twice, and flags say what is so."""

    interval_seconds = 0

    def test_invariants(self) -> None:
        for seed in range(4):
            with self.subTest(seed=seed):
                self._play(random.Random(seed), f"{seed}-")

    def _play(self, chance: random.Random, prefix: str) -> None:
        pool = [self.host(f"{prefix}{number}", VCPU=chance.choice((4, 8, 16)))
                for number in range(4)]
        made = []
        for _ in range(8):
            first = chance.randrange(4)
            asked = [
                whole(1, chance.randint(1, 2)) if chance.random() < 0.3 else
                slots(chance.randint(1, 3), vcpus=chance.choice((2, 4)),
                      affinity=chance.choice((True, False, None)))
                for _ in range(chance.randint(1, 2))]
            with contextlib.suppress(DoesNotFit):
                made.append(self.lease(*asked, hours=(first, first + chance.randint(1, 4))))
                if not first and chance.random() < 0.5:
                    self.activate(made[-1])
        for _ in range(6):
            host = chance.choice(pool)
            what = chance.random()
            if what < 0.4:
                self.out_of_service(host)
            elif what < 0.8:
                self.in_service(host)
            else:
                self.resize(host.name, VCPU=chance.choice((4, 8, 16)))
                sizes.refresh(self.context())
                self.heal()
            self._check(made, {
                each.id for each in host_queries.page(self.ctx) if not each.reservable})
        for host in pool:
            self.in_service(host)
        for lease in made:
            self.leases.delete(self.context(), lease.id)
            self.heal()
        for host in pool:
            self.pool.remove(self.context(), str(host.id))

    def _check(self, made: list[Lease], down: set[int]) -> None:
        found, held = host_queries.list_allocations(self.ctx)
        sizes = {host.id: host.vcpus for host in found}
        vcpus = {each.id: each.fields.get("vcpus", 0)
                 for lease in made for each in self.found(lease).reservations}
        self.assertEqual(set(), down & {each.host_id for each in held})
        for each in held:
            beside = [other for other in held if other.host_id == each.host_id
                      and other.window.start <= each.window.start < other.window.end]
            if each.whole or any(other.whole for other in beside):
                self.assertEqual([each], beside)
            else:
                self.assertLessEqual(
                    sum(other.slots * vcpus[other.reservation_id] for other in beside),
                    sizes[each.host_id])
        for lease in made:
            shown = self.found(lease)
            for each in shown.reservations:
                of_it = [other for other in held if other.reservation_id == each.id]
                needed = each.fields.get("amount") or each.fields["min"]
                self.assertEqual(
                    sum(other.slots for other in of_it) < needed, each.missing_resources)
                if each.fields.get("affinity") is False:
                    self.assertEqual({1}, {other.slots for other in of_it} | {1})
                elif each.fields.get("affinity"):
                    self.assertLessEqual(len(of_it), 1)
            self.assertEqual(
                any(each.missing_resources for each in shown.reservations), shown.degraded)


class MonitorTestCase(HealingTestCase):
    silent_seconds = 180

    def setUp(self) -> None:
        super().setUp()
        self.one = self.cell("one")
        self.monitor = Monitor(self.cells, silent_seconds=self.silent_seconds)
        self.conductor(self.one, 10)
        for name in ("h1", "h2"):
            self.node(self.one, host=name, hypervisor_hostname=name)
            self.service_of(self.one, name)
            self.pool.register(self.context(), name, {})
        self.plain = self.host("plain")

    def service_of(self, cell: Cell, host: str) -> None:
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        self.execute(cell, sa.insert(cell_tables.services), {
            "host": host, "binary": "nova-compute", "topic": "compute", "version": 60,
            "report_count": 1, "deleted": 0, "uuid": None, "disabled": False,
            "forced_down": False, "last_seen_up": now})

    def set_service(self, host: str, **values: object) -> None:
        services = cell_tables.services
        self.execute(self.one, sa.update(services).where(services.c.host == host).values(
            **values))

    def watch(self) -> list[str]:
        return self.monitor.watch(self.context())

    def state(self, name: str = "h1") -> tuple[bool, str | None]:
        host = host_queries.find(self.context(), name)
        return host.reservable, host.down_reason


@databases.on_each_database
class TestServices(MonitorTestCase):
    def test_services(self) -> None:
        self.assertEqual([], self.watch())
        for trouble, said in (
            ({"forced_down": True}, "monitor: its service is forced down"),
            ({"disabled": True}, "monitor: its service is disabled"),
            ({"last_seen_up": datetime.datetime(2020, 1, 1)},
             "monitor: its service has been silent for more than 180 seconds"),
        ):
            self.set_service("h1", **trouble)
            self.assertEqual(["h1"], self.watch())
            self.assertEqual((False, said), self.state())
            self.assertEqual([], self.watch())
            self.set_service("h1", forced_down=False, disabled=False, last_seen_up=
                             datetime.datetime.now(datetime.UTC).replace(tzinfo=None))
            self.assertEqual(["h1"], self.watch())
            self.assertEqual((True, None), self.state())
        self.assertEqual((True, None), self.state("plain"))


class TestMonitor(MonitorTestCase):
    def test_what_people_took_out_stays(self) -> None:
        host = host_queries.find(self.ctx, "h1")
        self.pool.change(self.context(), str(host.id), {}, reservable=False, reason="a fan")
        self.set_service("h1", forced_down=True)
        self.assertEqual([], self.watch())
        self.set_service("h1", forced_down=False)
        self.assertEqual([], self.watch())
        self.assertEqual((False, "a fan"), self.state())

    def test_a_node_that_is_gone(self) -> None:
        nodes = cell_tables.compute_nodes
        self.execute(self.one, sa.update(nodes).where(nodes.c.host == "h1").values(deleted=1))
        self.execute(self.one, sa.delete(cell_tables.services).where(
            cell_tables.services.c.host == "h2"))
        self.assertEqual(["h1", "h2"], self.watch())
        self.assertEqual((False, "monitor: no cell has its compute node any more"), self.state())
        self.assertEqual((False, "monitor: it has no nova-compute service"), self.state("h2"))

    def test_a_cell_that_is_down_says_nothing(self) -> None:
        with db.write(self.ctx) as session:
            session.execute(sa.text("UPDATE cell_mappings SET database_connection = :url"),
                            {"url": "sqlite:////nonexistent/cell.sqlite"})
        self.assertEqual([], self.watch())
        self.assertEqual((True, None), self.state())

    def test_leases_get_other_hosts(self) -> None:
        lease = self.lease(slots(affinity=True))
        [name] = self.held(lease)
        other = {"h1": "h2", "h2": "h1"}[name]
        self.set_service(name, disabled=True)
        self.assertEqual([name], self.watch())
        self.assertEqual([lease.id], self.heal().whole)
        self.assertEqual({other: 1}, self.held(lease))

    def test_sizes_follow_inventories(self) -> None:
        self.resize("plain", VCPU=3)
        self.assertEqual(["plain"], self.watch())
        self.assertEqual(3, host_queries.find(self.ctx, "plain").vcpus)
