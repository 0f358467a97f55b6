"""Copies of Blazar's hosts and leases, and what becomes of them here."""

from __future__ import annotations

import dataclasses
import datetime
import random
import unittest
from unittest import mock

import sqlalchemy as sa

from placement_core import db
from placement_core.placement import (
    errors as placement_errors,
    provider_copies,
    provider_list,
    providers,
)
from placement_core.placement.allocations import consumer_copies
from placement_core.placement.allocations.consumer_copies import ConsumerCopy
from placement_core.placement.provider_copies import ProviderCopy
from placement_core.placement.records import InventoryValues
from placement_core.placement.usage import usages
from placement_core.plugin_api.reservations import DoesNotFit, Window
from placement_core.reservations import records, tables
from placement_core.reservations.errors import LeaseNotFound
from placement_core.reservations.hosts import host_properties, host_queries
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.manager import event_queue
from placement_core.reservations.provisioning import outbox, slots as placed_slots
from placement_core.takeover import exports, origins, targets
from placement_core.takeover.exports import blazar as export, databases as export_databases
from placement_core.takeover.records import Outcome
from placement_core.testing import factories
from tests import blazar_databases, blazar_rows, databases, nova_standin
from tests.blazar_rows import LeaseRows
from tests.functional.reservations import test_lives
from tests.functional.reservations.pool_cases import slots, whole
from tests.functional.takeover.blazar_cases import BlazarTestCase


class _Killed(BaseException):
    """Somebody kills the copy at this moment."""


@databases.on_each_database
class TestCopy(BlazarTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.source.insert([
            blazar_rows.host_property("p1", "gpu"),
            blazar_rows.host_property("p2", "rack", private=True),
            blazar_rows.capability("1", "p1", "yes"), blazar_rows.capability("2", "p2", "r2")])
        self.pending = LeaseRows().instances({"1": 2, "2": 1}, affinity=None)
        self.whole = LeaseRows(
            start=blazar_rows.START + 2 * blazar_rows.DAY).hosts(["1"], before_end="snapshot")
        self.active = self.running().instances({"1": 1}).hosts(["2"])
        self.ended = LeaseRows("TERMINATED", start=self.now(-99)).hosts()
        self.failed = LeaseRows("ERROR", start=self.now(-99)).instances({"2": 1})
        self.leases_there = [self.pending, self.whole, self.active, self.ended, self.failed]
        self.add(*self.leases_there)

    def test_copy_twice(self) -> None:
        checked = self.check()
        self.assertEqual({"create": 9}, self.count(checked))
        self.assertEqual(checked, self.copy())
        versions = self.versions()
        self.assertEqual({"equal": 9}, self.count(self.copy()))
        self.assertEqual((versions, []), (self.versions(), self.diff()))
        self.assertEqual([], self.waiting(), "nova is asked for nothing")

    def test_hosts(self) -> None:
        self.copy()
        one = host_queries.get(self.context(), "1")
        self.assertEqual(
            ("one", 8, 8192, 100, {"gpu": "yes"}, True, "2030-01-02T03:04:05+00:00"),
            (one.name, one.vcpus, one.memory_mb, one.disk_gb, one.capabilities, one.reservable,
             one.created_at.isoformat()))
        self.assertEqual({"gpu": False, "rack": True}, {
            each.name: each.private
            for each in host_properties.list_(self.context(), private=True)})
        self.assertEqual(["gpu"], [each.name for each in host_properties.list_(self.context())])

    def test_ids_of_new_hosts_are_others(self) -> None:
        self.copy()
        self.host("three")
        made = self.pool.register(self.context(), "three", {})
        self.assertNotIn(made.id, (1, 2))

    def test_leases(self) -> None:
        self.copy()
        lease = self.get(self.active)
        first, second = lease.reservations
        self.assertEqual(
            ("ACTIVE", "jane", "project", "trust", "active", "active", {"min": 1, "max": 1}),
            (lease.status, lease.user_id, lease.project_id, lease.trust_id, first.status,
             second.status, {name: second.fields[name] for name in ("min", "max")}))
        self.assertEqual(self.active.reservation_ids, [first.id, second.id])
        self.assertEqual(
            {self.active.start_id: "DONE", self.active.before_id: "UNDONE",
             self.active.end_id: "UNDONE"}, {event.id: event.status for event in lease.events})
        self.assertIsInstance(second.compute_ids["aggregate_id"], int)
        _, allocations = host_queries.list_allocations(
            self.context(), lease_id=self.pending.id)
        self.assertEqual({"one": 2, "two": 1}, {
            each.host_name: each.slots for each in allocations})
        self.assertEqual("TERMINATED", self.get(self.ended).status)

    def test_killed_at_any_time(self) -> None:
        """Before the commit of a batch or after it; repeated copies end as one does."""
        self.add(*(LeaseRows(start=blazar_rows.START + day * blazar_rows.DAY).instances({"1": 1})
                   for day in range(40, 60)))
        dice = random.Random(19)
        remember, kills = origins.remember, 0

        def die_before_commit(*arguments: object) -> None:
            remember(*arguments)
            if dice.random() < 0.3:
                raise _Killed

        def die_after_commit(*_: object) -> None:
            if dice.random() < 0.03:
                raise _Killed

        with mock.patch.object(targets.Writer, "batch", 3):
            for _ in range(200):
                try:
                    with mock.patch.object(origins, "remember", die_before_commit):
                        self.copy(report=die_after_commit)
                except _Killed:
                    kills += 1
                    continue
                break
        self.assertGreater(kills, 3)
        self.assertEqual({"equal": 29}, self.count(self.copy()))
        self.assertEqual([], self.diff())

    def test_what_changes_there_follows(self) -> None:
        self.copy()
        for name, row in self.pending.rows:
            if name == "reservations":
                self.source.update(name, row["id"], status="active")
        self.source.update("events", self.pending.start_id, status="DONE")
        self.source.update("leases", self.pending.id, status="ACTIVE", name="renamed")
        self.source.update("computehosts", "1", reservable=False)
        self.source.update("resource_properties", "p1", private=True)
        self.assertEqual({"update": 3, "equal": 6}, self.count(self.copy()))
        self.assertEqual([], self.diff())
        lease = self.get(self.pending)
        self.assertEqual(("renamed", "ACTIVE", "active"),
                         (lease.name, lease.status, lease.reservations[0].status))
        self.assertFalse(host_queries.get(self.context(), "1").reservable)
        self.source.update("leases", self.pending.id, name="renamed again")
        self.assertEqual({"update": 1, "equal": 8}, self.count(self.copy()))
        self.assertEqual([], self.diff())

    def test_what_is_gone_is_pruned(self) -> None:
        self.copy()
        for rows in (self.active, self.whole, self.pending, self.failed, self.ended):
            for table, row in reversed(rows.rows):
                self.source.delete(table, id=row["id"])
        self.source.delete("computehost_extra_capabilities", computehost_id="2")
        self.source.delete("computehosts", id="2")
        self.source.delete("resource_properties", id="p2")
        self.assertEqual({"equal": 2, "gone": 7}, self.count(self.copy()))
        self.assertEqual({"equal": 2, "pruned": 7}, self.count(self.copy(prune=True)))
        self.assertEqual((["one"], [], []), (
            list(self.host_rows()), self.diff(), self.waiting()))
        self.assertEqual({}, self.slots("one"))

    def test_a_host_that_leases_have_is_not_pruned(self) -> None:
        self.copy()
        ours = self.lease(slots(1), hours=(9000, 9001))
        for rows in self.leases_there:
            for table, row in reversed(rows.rows):
                self.source.delete(table, id=row["id"])
        for id_ in "12":
            self.source.delete("computehost_extra_capabilities", computehost_id=id_)
            self.source.delete("computehosts", id=id_)
        refused = self.reasons(self.copy(prune=True), Outcome.REFUSED)
        [reason] = refused.values()
        self.assertIn("now, or will later", reason)
        self.assertEqual("PENDING", self.found(ours).status)

    def test_what_is_changed_here_stays(self) -> None:
        resized = LeaseRows(
            start=blazar_rows.START + 5 * blazar_rows.DAY).instances({"1": 1})
        self.add(resized)
        self.copy()
        self.leases.change(self.context(), self.whole.id, records.LeaseChange(name="ours"))
        self.leases.change(self.context(), resized.id, records.LeaseChange(reservations=[
            records.ChangedReservation(resized.reservation_ids[0], None, {"amount": 2})]))
        self.work()
        self.happen(self.get(self.active), records.END)
        self.leases.delete(self.context(), self.pending.id)
        for rows in (self.active, self.whole):
            self.source.update("leases", rows.id, name="renamed")
        expected = {self.pending.id: "it was deleted here", **dict.fromkeys(
            (self.active.id, self.whole.id, resized.id),
            "it was changed here since it was copied")}
        for items in (self.check(), self.copy()):
            self.assertEqual(expected, self.reasons(items, Outcome.REFUSED))
        self.assertEqual(
            ("TERMINATED", "ours", 2),
            (self.get(self.active).status, self.get(self.whole).name,
             self.get(resized).reservations[0].fields["amount"]))
        differences = {id_: fields for id_, _, fields in self.diff()}
        self.assertEqual(("TERMINATED", "ACTIVE"), differences[self.active.id]["status"])
        self.assertEqual((True, False), differences[self.pending.id]["deleted"])

    def test_what_was_changed_here_is_not_pruned(self) -> None:
        self.copy()
        self.happen(self.get(self.active), records.BEFORE_END)
        for table, row in reversed(self.active.rows):
            self.source.delete(table, id=row["id"])
        self.assertEqual(
            {self.active.id: f"The lease {self.active.id} stays as it is: it was changed here "
             "since it was copied."}, self.reasons(self.copy(prune=True), Outcome.REFUSED))

    def test_what_an_earlier_release_copied(self) -> None:
        """It is known to be changed once a manager has begun with it."""
        self.copy()
        with db.write(self.ctx) as session:
            session.execute(sa.update(tables.leases).values(
                copied_version=None, updated_at=tables.leases.c.updated_at))
        self.happen(self.get(self.active), records.BEFORE_END)
        for name in ("renamed", "renamed again"):
            for rows in (self.active, self.pending):
                self.source.update("leases", rows.id, name=name)
            self.assertEqual({self.active.id}, self.reasons(self.copy(), Outcome.REFUSED).keys())
            self.assertEqual(name, self.get(self.pending).name)
        self.leases.change(self.context(), self.pending.id, records.LeaseChange(name="ours"))
        self.copy()
        self.assertEqual("ours", self.get(self.pending).name)

    def test_oddities_have_a_line(self) -> None:
        fip = self.running().other("virtual:floatingip")
        deleting = LeaseRows("DELETING").instances({"1": 1})
        self.source.insert([blazar_rows.host("3", "unknown")])
        self.add(fip, deleting)
        items = self.copy()
        self.assertEqual({"3", deleting.id}, self.reasons(items, Outcome.REFUSED).keys())
        self.assertEqual({fip.id}, self.reasons(items, Outcome.SKIPPED).keys())
        self.assertEqual([], self.diff())
        self.assertEqual({"host": 1, "lease": 2}, self.left_out())

    def test_rows_that_belong_to_nothing(self) -> None:
        """They are no leases that cannot be copied."""
        self.source.insert([("events", {
            "id": blazar_rows.new_id(), "lease_id": None, "event_type": "end_lease"})])
        self.assertEqual({"create": 9, "skipped": 1}, self.count(self.copy()))
        self.assertEqual({}, self.left_out())

    def test_what_stays_in_blazar(self) -> None:
        """Rows that nobody reads are counted."""
        amounts = {"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1,
                   "allocation_ratio": 1.0}
        self.source.insert([
            *(("computehost_resource_inventory", {
                "id": blazar_rows.new_id(), "computehost_id": host, "resource_class": "VCPU",
                **amounts}) for host in "12"),
            *(("computehost_trait", {
                "id": blazar_rows.new_id(), "computehost_id": "1", "trait": f"CUSTOM_{name}"})
              for name in "ABC"),
            ("floatingips", {
                "id": blazar_rows.new_id(), "floating_network_id": "net", "subnet_id": "subnet",
                "floating_ip_address": "192.0.2.7", "reservable": True})])
        expected = [
            ("host inventory", 2, "a host has the inventories of its resource provider here"),
            ("host trait", 3, "a host has the traits of its resource provider here"),
            ("floating IP", 1,
             "addresses are not reserved here, and leases of them are not copied")]
        for items in (self.check(), self.copy()):
            self.assertEqual(expected, [
                (item.kind, item.count, item.reason) for item in items
                if item.outcome is Outcome.SKIPPED])
        self.assertEqual(([], {}), (self.diff(), self.left_out()))

    def test_a_number_that_a_host_of_ours_has(self) -> None:
        provider = self.host("three")
        self.source.insert([blazar_rows.host(provider.uuid, "three")])
        self.copy()
        number = str(host_queries.get(self.context(), provider.uuid).id)
        self.host("four")
        self.source.insert([blazar_rows.host(number, "four")])
        rows = LeaseRows().instances({number: 1})
        self.add(rows)
        self.assertEqual(
            {number: f"There is a host {number} already: three.",
             rows.id: f"its host {number} is refused"},
            self.reasons(self.copy(), Outcome.REFUSED))

    def test_a_number_that_another_host_has_here(self) -> None:
        """The leases of the other one are not booked on it."""
        self.copy()
        self.host("three")
        number = str(self.pool.register(self.context(), "three", {}).id)
        self.host("four")
        self.source.insert([blazar_rows.host(number, "four")])
        leases = [LeaseRows().instances({number: 1}), self.running().instances({number: 1})]
        self.add(*leases)
        expected = {number: "here, it has another name: three",
                    **{rows.id: f"its host {number} is refused" for rows in leases}}
        for items in (self.check(), self.copy()):
            self.assertEqual(expected, self.reasons(items, Outcome.REFUSED))
        self.assertEqual([(number, "update")], [each[:2] for each in self.diff()])
        self.assertEqual(set(), self.versions().keys() & expected.keys())

    def test_hosts_with_uuids(self) -> None:
        """Scripts name them so; leases have them."""
        provider = self.host("three")
        rows = LeaseRows().instances({provider.uuid: 2})
        self.source.insert([blazar_rows.host(provider.uuid, "three")])
        self.add(rows)
        self.copy()
        self.assertEqual({"equal": 11}, self.count(self.copy()))
        self.assertEqual([], self.diff())
        host = host_queries.get(self.context(), provider.uuid)
        self.assertEqual("three", host.name)
        self.pool.change(self.context(), provider.uuid, {"gpu": "no"})
        _, [allocation] = host_queries.list_allocations(
            self.context(), host_id=provider.uuid, lease_id=rows.id)
        self.assertEqual((host.id, 2), (allocation.host_id, allocation.slots))

    def test_an_export_can_be_taken_over(self) -> None:
        """What a Blazar gets of us is what we have."""
        self.copy()
        ours = self.lease(slots(2), whole(1), hours=(9000, 9001))
        rows = list(export.list_rows(self.context()))
        url = blazar_databases.empty(self.kind)
        exporter = export.make_exporter()
        counts = exports.count_rows(self.context(), exporter)
        with export_databases.open_target(exporter, url) as target:
            self.assertEqual([], target.write(iter(rows), counts, lambda *_: None))
        self.assertEqual(len(rows), sum(counts.values()))
        self.assertEqual([], list(export.list_left_out(self.context())))
        self.url = url
        self.assertEqual([], self.diff())
        self.assertIn(ours.id, [row["id"] for table, row in rows if table == "leases"])
        self.assertEqual(
            self.active.reservation_ids,
            [row["id"] for table, row in rows
             if table == "reservations" and row["lease_id"] == self.active.id])


@databases.on_each_database
class TestBlazarsOwnCode(BlazarTestCase):
    """Hosts and leases that Blazar's own code has written."""

    def fill(self) -> None:
        self.ids = blazar_databases.write_cloud(self.url, "create")

    def list_slots(self, name: str) -> dict[str, int]:
        """Return the slots that a lease has here: {name of the host: slots}."""
        _, allocations = host_queries.list_allocations(
            self.context(), lease_id=self.ids[name])
        return {each.host_name: each.slots for each in allocations}

    def list_states(self) -> dict[str, tuple[str, set[str]]]:
        """Return the status of each lease that is here, and those of its reservations."""
        leases = [lease_queries.get(self.context(), id_) for id_ in self.ids.values()]
        return {lease.name: (lease.status, {each.status for each in lease.reservations})
                for lease in leases}

    def test_copy(self) -> None:
        """In one test: to start Blazar takes longer than all the rest."""
        self.check_first_copy()
        self.check_what_happens_there_follows()

    def check_first_copy(self) -> None:
        checked = self.check()
        # A line each for the inventories and the traits of hosts, which stay in Blazar.
        self.assertEqual({"create": 11, "skipped": 2}, self.count(checked))
        self.assertEqual({""}, {item.reason for item in checked if item.outcome == "create"},
                         "nothing of it is odd")
        self.assertEqual(checked, self.copy())
        self.assertEqual(([], []), (self.diff(), self.waiting()))
        self.assertEqual({"equal": 11, "skipped": 2}, self.count(self.copy()))
        self.assertEqual({
            "slots": ("PENDING", {"pending"}), "apart": ("PENDING", {"pending"}),
            "together": ("PENDING", {"pending"}), "whole": ("PENDING", {"pending"}),
            "both": ("ACTIVE", {"active"}), "ended": ("TERMINATED", {"deleted"}),
            "failed": ("ERROR", {"error"})}, self.list_states())
        # There it is a row for each slot.
        self.assertEqual({
            "slots": {"one": 2, "two": 1}, "apart": {"one": 1, "two": 1}, "together": {"two": 2},
            "whole": {"one": 1}, "both": {"one": 1, "two": 1}, "ended": {}, "failed": {"two": 1},
        }, {name: self.list_slots(name) for name in self.ids})
        [apart] = lease_queries.get(self.context(), self.ids["apart"]).reservations
        self.assertEqual(
            (2, 1024, 10, 2, False, {
                "flavor_id": apart.id, "aggregate_id": 71, "server_group_id": "group"}),
            (*(apart.fields[name] for name in (
                "vcpus", "memory_mb", "disk_gb", "amount", "affinity")), apart.compute_ids))
        [of_hosts] = lease_queries.get(self.context(), self.ids["whole"]).reservations
        self.assertEqual(
            (1, 2, '["==", "$gpu", "yes"]'),
            tuple(of_hosts.fields[name] for name in ("min", "max", "resource_properties")))
        self.assertEqual([("one", {"gpu": "yes"}), ("two", {"gpu": "no", "rack": "r2"})], [
            (host.name, host.capabilities)
            for host in (host_queries.get(self.context(), id_) for id_ in "12")])
        self.assertEqual({"gpu": False, "rack": True}, {
            each.name: each.private
            for each in host_properties.list_(self.context(), private=True)})

    def check_what_happens_there_follows(self) -> None:
        apart = self.ids["apart"]
        self.ids = blazar_databases.write_cloud(self.url, "go-on")
        self.assertEqual(
            {"update": 5, "equal": 5, "gone": 1, "skipped": 2}, self.count(self.check()))
        self.assertEqual(
            {"update": 5, "equal": 5, "pruned": 1, "skipped": 2},
            self.count(self.copy(prune=True)))
        self.assertEqual(([], []), (self.diff(), self.waiting()))
        self.assertEqual({
            "slots": ("ACTIVE", {"active"}), "together": ("PENDING", {"pending"}),
            "whole": ("PENDING", {"pending"}), "both": ("TERMINATED", {"deleted"}),
            "ended": ("TERMINATED", {"deleted"}), "failed": ("ERROR", {"error"}),
        }, self.list_states())
        self.assertRaises(LeaseNotFound, lease_queries.get, self.context(), apart)
        self.assertEqual(({"one": 2}, {}, {"one": 2, "two": 1}), tuple(
            self.list_slots(name) for name in ("together", "both", "slots")))
        prolonged = lease_queries.get(self.context(), self.ids["whole"])
        self.assertEqual(datetime.timedelta(hours=6), prolonged.end_at - prolonged.start_at)
        two = host_queries.get(self.context(), "2")
        self.assertEqual((False, "r3"), (two.reservable, two.capabilities["rack"]))


@databases.on_each_database
class TestProviders(BlazarTestCase):
    """The providers below hosts, and the slots that they have."""

    def test_blazars_child_is_adopted(self) -> None:
        root = self.hosts[0]
        child = factories.provider(self.ctx, "blazar_one", parent=root)
        self.copy()
        self.assertEqual((child.uuid, "reservation_two"),
                         (self.child("one").uuid, self.child("two").name))
        self.source.delete("computehosts", id="1")
        self.source.delete("computehosts", id="2")
        self.assertEqual({"pruned": 2}, self.count(self.copy(prune=True)))
        self.assertEqual("blazar_one", providers.get(self.context(), child.uuid).name)
        self.assertNotIn("reservation_two", [
            provider.name for provider in provider_list.list_(self.context())])

    def test_our_child_is_adopted(self) -> None:
        child = factories.provider(self.ctx, "reservation_one", parent=self.hosts[0])
        self.copy()
        self.assertEqual(child.uuid, self.child("one").uuid)

    def test_a_child_that_nova_makes_later(self) -> None:
        """It joins the tree, with what is held of it; nothing moves in or out."""
        self.copy()
        child = ProviderCopy(factories.new_uuid(), "numa0", 3, self.hosts[0].uuid, {
            "PCPU": InventoryValues(total=4)}, (), ())
        provider_copies.write(self.context(), [child])
        consumer_copies.write(self.context(), [ConsumerCopy(
            factories.new_uuid(), "project", "user", "INSTANCE", 1, {child.uuid: {"PCPU": 2}})])
        self.assertEqual(
            (self.hosts[0].uuid, {"PCPU": 2}),
            (providers.get(self.context(), child.uuid).root_uuid,
             usages.for_provider(self.context(), child.uuid).usages))
        other = factories.provider(self.ctx, "other")
        for moved in (dataclasses.replace(child, parent_uuid=None),
                      ProviderCopy(other.uuid, "other", 0, self.hosts[0].uuid, {}, (), ())):
            self.assertRaises(placement_errors.ProviderReserved, provider_copies.write,
                              self.context(), [moved])

    def test_slots_in_use_stay(self) -> None:
        """Those of a running lease, which a server has, and that Blazar has made."""
        rows = self.running().instances({"1": 2})
        self.add(rows)
        name = placed_slots.resource_class(rows.reservation_ids[0])
        child = factories.provider(
            self.ctx, "blazar_one", parent=self.hosts[0],
            inventory={name: InventoryValues(total=2, max_unit=1)})
        self.copy()
        self.assertEqual({name: 2}, self.slots("one"))
        self.assertEqual(child.uuid, self.child("one").uuid)
        self.assertEqual({}, self.slots("two"))

    def test_slots_that_are_missing_are_made(self) -> None:
        rows = self.running().instances({"1": 1, "2": 3})
        self.add(rows)
        self.copy()
        name = placed_slots.resource_class(rows.reservation_ids[0])
        self.assertEqual(({name: 1}, {name: 3}), (self.slots("one"), self.slots("two")))

    def test_slots_end_with_the_lease(self) -> None:
        """If Blazar ends it, and if we do."""
        there, here = self.running().instances({"1": 1}), self.running().instances({"1": 1})
        self.add(there, here)
        self.copy()
        self.source.update("leases", there.id, status="TERMINATED")
        for id_ in (there.before_id, there.end_id):
            self.source.update("events", id_, status="DONE")
        self.source.update("reservations", there.reservation_ids[0], status="deleted")
        self.source.delete("computehost_allocations", reservation_id=there.reservation_ids[0])
        self.copy()
        self.assertEqual([placed_slots.resource_class(here.reservation_ids[0])],
                         list(self.slots("one")))
        self.happen(self.get(here), records.END)
        self.assertEqual({}, self.slots("one"))


@databases.on_each_database
class TestAfterwards(BlazarTestCase):
    """What our manager does with leases that were copied."""

    def dequeue(self) -> list[tuple[str, str]]:
        return [(attempt.lease_id, attempt.event_type) for attempt in event_queue.dequeue(
            self.context(), "me", most=10, seconds=60)]

    def test_an_end_comes_when_it_is_due(self) -> None:
        due, later = self.running(hours=0).instances({"1": 1}), self.running().instances({"1": 1})
        for rows in (due, later):
            for name, row in rows.rows:
                if name == "events" and row["event_type"] == "before_end_lease":
                    row["status"] = "DONE"
        self.add(due, later)
        self.copy()
        self.assertEqual([(due.id, "end_lease")], self.dequeue())
        self.assertEqual(
            [later.rows[0][1]["end_date"].replace(tzinfo=datetime.UTC)],
            [event.due_at for event in self.get(later).events if event.event_type == "end_lease"])

    def test_a_start_that_was_half_way(self) -> None:
        rows = LeaseRows("STARTING", start=self.now(-0.1)).instances({"1": 1})
        rows.change("reservations", status="active")
        self.add(rows)
        self.copy()
        self.assertEqual([(rows.id, "start_lease")], self.dequeue())
        self.happen(self.get(rows), records.START)
        self.assertEqual("ACTIVE", self.get(rows).status)

    def test_hosts_that_are_booked_twice(self) -> None:
        """Both stay; nothing new comes to them, until one has ended."""
        first, second = self.running().hosts(["1"]), self.running().instances({"1": 9})
        self.add(first, second)
        reasons = self.reasons(self.copy(), Outcome.CREATE)
        self.assertIn("host one is booked twice", reasons[first.id])
        self.assertIn(first.name, reasons[second.id])
        self.assertEqual(["ACTIVE", "ACTIVE"], [self.get(rows).status for rows in (first, second)])
        self.assertRaises(DoesNotFit, self.lease, whole(2), hours=(0, 1))
        self.assertEqual("two", next(iter(self.held(self.lease(slots(1), hours=(0, 1))))))
        minute = self.minute
        timeline = self.leases.timeline(self.context(), Window(
            minute, minute + datetime.timedelta(hours=1)))
        self.assertTrue(timeline.steps)
        self.happen(self.get(first), records.END)
        self.happen(self.get(second), records.END)
        self.lease(whole(1), hours=(0, 1))

    def test_a_lease_that_is_healed(self) -> None:
        rows = LeaseRows().instances({"1": 1})
        self.add(rows)
        self.copy()
        self.pool.change(self.context(), "1", {}, reservable=False)
        self.healing.heal(self.context())
        self.work()
        self.assertEqual({rows.id: "it was changed here since it was copied"},
                         self.reasons(self.copy(), Outcome.REFUSED))
        self.assertEqual({"two": 1}, self.held(self.get(rows)))

    def test_a_lease_that_is_changed_afterwards(self) -> None:
        rows = LeaseRows(project_id="project").instances({"1": 1})
        self.add(rows)
        self.copy()
        lease = self.leases.change(self.context(), rows.id, records.LeaseChange(
            name="longer", end_at=self.get(rows).end_at + datetime.timedelta(days=1)))
        self.assertEqual("longer", lease.name)
        self.assertEqual(["it was changed here since it was copied"],
                         list(self.reasons(self.copy(), Outcome.REFUSED).values()))


@unittest.skipUnless(nova_standin.INSTALLED, "nova is not installed")
class TestInNovaAfterwards(BlazarTestCase):
    """What Blazar has made in nova is used, and goes at the end; nothing is made again."""

    design = "aggregate"
    hosts_of, driver = test_lives.TestInNova.hosts_of, test_lives.TestInNova.driver

    def setUp(self) -> None:
        self.nova = nova_standin.shared()
        self.nova.reset(hosts={"one": "compute-1", "two": "compute-2"})
        super().setUp()
        self.addCleanup(lambda: self.assertEqual([], self.nova.violations()))
        for name in ("one", "two"):
            self.compute.add_to_freepool(name)

    def make_slots(self, rows: LeaseRows, *hosts: str) -> None:
        """Have in nova what Blazar makes of a running instance reservation."""
        [id_] = rows.reservation_ids
        nova = self.compute._nova
        flavor = nova.create_flavor(
            id=id_, name=f"reservation:{id_}", is_public=False, ram=1024, vcpus=2, disk=10)
        nova.create_flavor_extra_specs(flavor, {
            "aggregate_instance_extra_specs:reservation": id_, "affinity_id": "group",
            f"resources:{placed_slots.resource_class(id_)}": "1"})
        nova.flavor_add_tenant_access(id_, "project")
        self.nova.put_group(f"reservation:{id_}", project="service")
        self.make_aggregate(rows, {
            "reservation": id_, "filter_tenant_id": "project", "affinity_id": "group"}, *hosts)

    def make_aggregate(self, rows: LeaseRows, metadata: dict[str, str], *hosts: str) -> None:
        [id_] = rows.reservation_ids
        nova = self.compute._nova
        aggregate = nova.create_aggregate(name=id_)
        nova.set_aggregate_metadata(aggregate, metadata)
        for host in hosts:
            nova.add_host_to_aggregate(aggregate, host)
        for table in ("instance_reservations", "computehost_reservations"):
            rows.change(table, aggregate_id=aggregate.id)

    def test_slots(self) -> None:
        rows = self.running().instances({"1": 1})
        self.make_slots(rows, "compute-1")
        server = self.nova.boot("compute-1", project="project", flavor=rows.reservation_ids[0])
        self.add(rows)
        before = self.nova.world()
        self.copy()
        self.work()
        self.assertEqual(before, self.nova.world(), "nothing was made again")
        [reservation] = self.get(rows).reservations
        self.assertIn(str(reservation.compute_ids["aggregate_id"]), before["aggregates"])
        self.assertIn(server, before["servers"])
        self.happen(self.get(rows), records.END)
        self.work()
        world = self.nova.world()
        self.assertEqual(({}, {}, ["freepool"]), (
            world["flavors"], world["servers"],
            [each["name"] for each in world["aggregates"].values()]))
        self.assertEqual(["compute-1", "compute-2"], self.hosts_of("freepool"))

    def test_whole_hosts(self) -> None:
        rows = self.running().hosts(["1"])
        self.make_aggregate(rows, {"blazar:owner": "project"}, "compute-1")
        self.compute.remove_from_freepool("one")
        self.nova.boot("compute-1", project="project")
        self.add(rows)
        before = self.nova.world()
        self.copy()
        self.work()
        self.assertEqual(before, self.nova.world())
        self.happen(self.get(rows), records.END)
        self.work()
        world = self.nova.world()
        self.assertEqual(({}, ["freepool"]), (
            world["servers"], [each["name"] for each in world["aggregates"].values()]))
        self.assertEqual(["compute-1", "compute-2"], self.hosts_of("freepool"))

    def test_a_start(self) -> None:
        """What was made for a pending lease is used, as our design has it."""
        rows = LeaseRows(start=self.now(-0.1), project_id="project").instances(
            {"1": 1}, server_group_id="group")
        self.make_slots(rows)
        self.add(rows)
        self.copy()
        self.happen(self.get(rows), records.START)
        self.work()
        world = self.nova.world()
        [id_] = rows.reservation_ids
        self.assertEqual(([id_], ["compute-1"]), (list(world["flavors"]), self.hosts_of(id_)))
        self.assertEqual(2, len(world["aggregates"]))

    def test_the_audit_leaves_it_alone(self) -> None:
        rows = self.running().instances({"1": 1})
        self.make_slots(rows, "compute-1")
        self.add(rows)
        self.copy()
        self.assertEqual(outbox.AuditResult([], []), outbox.audit(self.context(), self.compute))
