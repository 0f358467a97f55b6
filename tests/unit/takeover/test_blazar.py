"""What rows of Blazar's tables mean."""

from __future__ import annotations

import collections
import datetime
from typing import Any

from oslo_config import cfg

from placement_core.plugin_api.reservations import Size
from placement_core.takeover import blazar, blazar_tables
from placement_core.takeover.records import (
    HOST,
    HOST_PROPERTY,
    LEASE,
    Record,
    RootProvider,
    Surroundings,
)
from placement_plugins.reservations.host import HostReservations
from placement_plugins.reservations.instance import InstanceReservations
from tests import base, blazar_rows
from tests.blazar_rows import DAY, START, LeaseRows

_SIZE = Size(8, 8192, 100)
_UUIDS = {name: blazar_rows.new_id() for name in ("c1", "c2", "c3", "bare")}


class SettleTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.rows: list[blazar_rows.Row] = [
            blazar_rows.host("1", "c1"), blazar_rows.host("2", "c2")]
        self.surroundings = Surroundings(None, None, (), providers={
            name: RootProvider(uuid, Size(0, 0, 0) if name == "bare" else _SIZE)
            for name, uuid in _UUIDS.items()
        }, reservation_plugins={
            "physical:host": HostReservations(cfg.ConfigOpts()),
            "virtual:instance": InstanceReservations(cfg.ConfigOpts())})

    def add(self, *rows: Any) -> None:
        for row in rows:
            self.rows += list(row) if isinstance(row, LeaseRows) else [row]

    def settle(self) -> tuple[dict[tuple[str, str], Record], dict[tuple[str, str], str]]:
        """Return the records, and why others are left: by kind and id."""
        tables: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
        for name, values in self.rows:
            [table] = [table for table in blazar_tables.TABLES if table.name == name]
            tables[name].append({column.name: values.get(column.name) for column in table.c})
        for table in blazar_tables.TABLES:
            tables.setdefault(table.name, [])
        contents = blazar.settle(tables, self.surroundings)
        return ({(record.kind, record.id): record for record in contents.records},
                {(item.kind, item.id): f"{item.outcome}: {item.reason}"
                 for item in contents.left})

    def lease(self, rows: LeaseRows) -> Record:
        """Return what a lease is settled as."""
        self.add(rows)
        return self.settle()[0][LEASE, rows.id]

    def refusal(self, rows: LeaseRows) -> str:
        """Return why a lease is not copied."""
        self.add(rows)
        records, left = self.settle()
        self.assertNotIn((LEASE, rows.id), records)
        return left[LEASE, rows.id]


class TestHosts(SettleTestCase):
    def hosts(self) -> dict[str, Record]:
        return {id_: record for (kind, id_), record in self.settle()[0].items() if kind == HOST}

    def test_ids_stay(self) -> None:
        """Numbers as text, and the uuids by which newer novas know hosts."""
        self.rows.insert(0, blazar_rows.host(_UUIDS["c3"], "c3"))
        self.assertEqual(
            # Numbers first: a host with a uuid gets one that none of them has.
            [("1", "c1"), ("2", "c2"), (_UUIDS["c3"], "c3")],
            [(id_, record.name) for id_, record in self.hosts().items()])

    def test_other_ids(self) -> None:
        for id_ in ("c3", "03", "0", str(2**31), blazar_rows.new_id()):
            self.rows = [blazar_rows.host(id_, "c3")]
            self.assertEqual({(HOST, id_): (
                "refused: its id is neither a number nor the uuid of its resource provider")},
                self.settle()[1])

    def test_a_host_without_a_provider(self) -> None:
        self.add(blazar_rows.host("9", "c9"))
        lease = LeaseRows().instances({"9": 1})
        self.add(lease)
        self.assertEqual({
            (HOST, "9"): "refused: no resource provider is called c9 here: copy it first",
            (LEASE, lease.id): "refused: its host 9 is refused, or not there",
        }, self.settle()[1])

    def test_two_of_a_name(self) -> None:
        self.add(blazar_rows.host("3", "c1"))
        self.assertEqual({(HOST, "3"): "refused: 1 has the same name"}, self.settle()[1])

    def test_a_provider_without_inventories(self) -> None:
        self.add(blazar_rows.host("3", "bare"))
        self.assertEqual(["its resource provider has no inventories: nothing fits on it"],
                         list(self.hosts()["3"].notes))

    def test_fields(self) -> None:
        self.rows = [blazar_rows.host("1", "c1", reservable=False, trust_id="t",
                                      availability_zone="az", updated_at=START)]
        self.assertEqual({
            "name": "c1", "provider_uuid": _UUIDS["c1"], "hypervisor_type": "QEMU",
            "hypervisor_version": 2_010_001, "cpu_info": None, "service_name": "c1",
            "availability_zone": "az", "trust_id": "t", "reservable": False,
            "capabilities": {}, "created_at": "2030-01-02T03:04:05"}, self.hosts()["1"].fields)

    def test_capabilities(self) -> None:
        self.add(blazar_rows.host_property("p1", "gpu"),
                 blazar_rows.host_property("p2", "rack", private=True),
                 blazar_rows.capability("1", "p1", "yes"),
                 blazar_rows.capability("1", "p2", "r1"))
        records, left = self.settle()
        self.assertEqual(
            ({"gpu": "yes", "rack": "r1"}, {}), (records[HOST, "1"].fields["capabilities"], left))
        self.assertEqual({"name": "rack", "private": True}, records[HOST_PROPERTY, "p2"].fields)

    def test_capabilities_that_cannot_be(self) -> None:
        self.add(blazar_rows.host_property("p1", "vcpus"),
                 blazar_rows.host_property("p2", "gpu"),
                 blazar_rows.host_property("p3", "vlan", resource_type="network"),
                 blazar_rows.capability("1", "p1", "8"),
                 blazar_rows.capability("1", "p2", "x" * 2000),
                 blazar_rows.capability("2", "p2", "old"),
                 blazar_rows.capability("2", "p2", "new"))
        records, left = self.settle()
        self.assertEqual({(HOST_PROPERTY, "p1"), (HOST_PROPERTY, "p3")}, left.keys())
        self.assertIn("skipped: it is a property of network", left[HOST_PROPERTY, "p3"])
        self.assertEqual([{}, {"gpu": "new"}], [
            records[HOST, id_].fields["capabilities"] for id_ in ("1", "2")])
        as_property, too_long = records[HOST, "1"].notes
        self.assertIn("is left out, as its property is", as_property)
        self.assertIn("its capability gpu is left out: The value of gpu has at most", too_long)
        self.assertEqual(["its capability gpu has several values: the newest is copied"],
                         records[HOST, "2"].notes)


class TestLeases(SettleTestCase):
    def test_fields(self) -> None:
        rows = LeaseRows("ACTIVE", name="mine", degraded=True, updated_at=START)
        record = self.lease(rows.instances({"1": 2}, affinity=None, server_group_id="group"))
        [reservation] = record.fields["reservations"].values()
        self.assertEqual((
            "mine", "jane", "demo", "2031-03-01T12:00:00", "2031-03-02T12:00:00", "ACTIVE", True,
            "trust", "2030-01-02T03:04:05", "2031-03-01T12:00:00"), tuple(
                record.fields[name] for name in (
                    "name", "user_id", "project_id", "start_at", "end_at", "status", "degraded",
                    "trust_id", "created_at", "updated_at")))
        self.assertEqual({
            "vcpus": 2, "memory_mb": 1024, "disk_gb": 10, "amount": 2, "affinity": None,
            "resource_properties": ""}, reservation["fields"])
        self.assertEqual(
            (rows.reservation_ids[0], "group"),
            (reservation["compute_ids"]["flavor_id"],
             reservation["compute_ids"]["server_group_id"]))
        self.assertEqual({rows.start_id, rows.before_id, rows.end_id},
                         record.fields["events"].keys())
        self.assertEqual([], list(record.notes))

    def test_a_row_for_each_slot(self) -> None:
        record = self.lease(LeaseRows().instances({"1": 2, "2": 1}))
        [reservation] = record.fields["reservations"].values()
        self.assertEqual(({"1": 2, "2": 1}, [(HOST, "1"), (HOST, "2")]),
                         (reservation["hosts"], record.references))

    def test_count_range(self) -> None:
        record = self.lease(LeaseRows().hosts(["1", "2"], count_range="2-5"))
        [reservation] = record.fields["reservations"].values()
        self.assertEqual((2, 5, {"1": 1, "2": 1}), (
            reservation["fields"]["min"], reservation["fields"]["max"], reservation["hosts"]))

    def test_bad_count_ranges(self) -> None:
        for text in ("", None, "3", "a-b", "1-2-3", "-1-2", "5-2", "0-1"):
            self.assertIn("refused: its reservation ", self.refusal(
                LeaseRows().hosts(["1"], count_range=text)), text)

    def test_a_whole_host_twice_in_one_reservation(self) -> None:
        rows = LeaseRows().hosts(["1"])
        rows.rows.append(("computehost_allocations", {
            "id": "twin", "compute_host_id": "1", "reservation_id": rows.reservation_ids[0]}))
        record = self.lease(rows)
        self.assertEqual([f"its reservation {rows.reservation_ids[0]} has host c1 in 2 rows: it "
                          "has it once"], record.notes)

    def test_several_reservations_stay_in_order(self) -> None:
        rows = LeaseRows().instances({"1": 1}).hosts(["2"])
        record = self.lease(rows)
        self.assertEqual(rows.reservation_ids, list(record.fields["reservations"]))

    def test_booked_twice(self) -> None:
        """They stay, and say so: all leases that are too many on a host."""
        first, second, third = (
            LeaseRows(name=name, start=START + days * DAY) for name, days in (
                ("first", 0), ("second", 0.5), ("third", 1)))
        self.add(first.hosts(["1"]), second.instances({"1": 1}), third.instances({"2": 9}))
        records, left = self.settle()
        self.assertEqual({}, left)
        self.assertEqual({
            "first": ["host c1 is booked twice from 2031-03-02 00:00:00 on, with the leases "
                      f"second ({second.id})"],
            "second": ["host c1 is booked twice from 2031-03-02 00:00:00 on, with the leases "
                       f"first ({first.id})"],
            "third": ["host c2 is booked twice from 2031-03-02 12:00:00 on, for more than it has"],
        }, {records[LEASE, rows.id].name: records[LEASE, rows.id].notes
            for rows in (first, second, third)})

    def test_types_without_a_plugin(self) -> None:
        """The whole lease is skipped, and its hosts are named."""
        for resource_type in (
                "virtual:floatingip", "flavor:instance", "network", "device", "dummy.vm.plugin"):
            rows = LeaseRows("ACTIVE").hosts(["1"]).other(resource_type)
            self.assertEqual(
                f"skipped: it reserves {resource_type}, for which no plugin is here; unless it "
                "was copied before, nobody holds its hosts here: c1", self.refusal(rows))
        self.assertEqual(
            "skipped: it reserves virtual:floatingip, for which no plugin is here",
            self.refusal(LeaseRows().other("virtual:floatingip")))

    def test_fields_that_the_plugin_refuses(self) -> None:
        self.assertIn("vcpus must be a whole number", self.refusal(
            LeaseRows().instances({"1": 1}, vcpus=0)))
        self.assertIn("cannot be made here", self.refusal(
            LeaseRows().hosts(["1"], resource_properties='["like", "$a", "b"]')))
        # Nobody plans with what has ended.
        record = self.lease(LeaseRows("TERMINATED").instances(vcpus=0))
        [reservation] = record.fields["reservations"].values()
        self.assertEqual(0, reservation["fields"]["vcpus"])

    def test_rows_that_belong_to_nothing(self) -> None:
        rows = LeaseRows().instances({"1": 1})
        lost = [(name, {**values, "id": f"lost {name}", **dict.fromkeys(
            {"lease_id", "reservation_id"} & values.keys(), "gone")})
            for name, values in rows if name != "leases"]
        self.add(rows, *lost)
        records, left = self.settle()
        self.assertIn((LEASE, rows.id), records)
        self.assertEqual(
            {f"lost {name}" for name in ("reservations", "events", "instance_reservations",
                                         "computehost_allocations")},
            {id_ for _, id_ in left})
        self.assertEqual("skipped: its lease_id gone is not there", left[LEASE, "lost events"])

    def test_leases_that_cannot_be(self) -> None:
        for rows, reason in (
            (LeaseRows(id="my-lease").instances(), "its id is no uuid"),
            (LeaseRows(project_id=None).instances(), "it has no project_id"),
            (LeaseRows(user_id=None).instances(), "it has no user_id"),
            (LeaseRows(days=0).instances(), "it ends before it begins"),
            (LeaseRows(), "it has no reservations"),
            (LeaseRows("PENDING").change("leases", status="GONE").instances(),
             "its status GONE is not known"),
            (LeaseRows().instances().change("reservations", status="odd"), "has the status odd"),
            (LeaseRows().instances().change("instance_reservations", reservation_id="x"),
             "has 0 rows of fields"),
        ):
            self.assertIn(reason, self.refusal(rows))


class TestStates(SettleTestCase):
    """Statuses in the middle of something are settled by events, or refused."""

    def statuses(self, rows: LeaseRows) -> tuple[str, str, str, str, list[str]]:
        """Return the status of a lease, of its start, its end and its reservation; the notes."""
        record = self.lease(rows)
        [reservation] = record.fields["reservations"].values()
        events = record.fields["events"]
        return (record.fields["status"], events[rows.start_id]["status"],
                events[rows.end_id]["status"], reservation["status"], list(record.notes))

    def test_stable_ones(self) -> None:
        for status, expected in (
            ("PENDING", ("UNDONE", "UNDONE", "pending")),
            ("ACTIVE", ("DONE", "UNDONE", "active")),
            ("TERMINATED", ("DONE", "DONE", "deleted")),
            ("ERROR", ("ERROR", "UNDONE", "error")),
        ):
            self.assertEqual((status, *expected, []),
                             self.statuses(LeaseRows(status).instances({"1": 1})))

    def test_creating(self) -> None:
        self.assertEqual(
            ("PENDING", "UNDONE", "UNDONE", "pending", ["it was CREATING; by its events it is "
                                                        "PENDING"]),
            self.statuses(LeaseRows("CREATING").instances({"1": 1})))
        rows = LeaseRows("CREATING").instances()
        rows.rows = [row for row in rows.rows if row[0] != "events"]
        self.assertIn("it has no event start_lease", self.refusal(rows))

    def test_starting(self) -> None:
        """Our manager starts it again: all of it."""
        rows = LeaseRows("STARTING").instances({"1": 1}).change("reservations", status="active")
        status, start, end, reservation, notes = self.statuses(rows)
        self.assertEqual(("PENDING", "UNDONE", "UNDONE", "pending"),
                         (status, start, end, reservation))
        self.assertEqual([
            "start_lease was in progress: our manager does it again",
            "it was STARTING; by its events it is PENDING",
            f"its reservation {rows.reservation_ids[0]} was active, and is pending here"], notes)

    def test_started_but_for_its_status(self) -> None:
        rows = LeaseRows("ACTIVE").change("leases", status="STARTING").instances({"1": 1})
        self.assertEqual(("ACTIVE", "DONE", "UNDONE", "active"), self.statuses(rows)[:4])

    def test_updating(self) -> None:
        self.assertEqual(("ACTIVE", "DONE", "UNDONE", "active"),
                         self.statuses(LeaseRows("UPDATING").instances({"1": 1}))[:4])
        rows = LeaseRows("PENDING").change("leases", status="UPDATING").instances({"1": 1})
        self.assertEqual(("PENDING", "UNDONE", "UNDONE", "pending"), self.statuses(rows)[:4])

    def test_terminating(self) -> None:
        """Our manager ends it again: all of it."""
        rows = LeaseRows("TERMINATING").instances({"1": 1})
        status, start, end, reservation, notes = self.statuses(rows)
        self.assertEqual(("ACTIVE", "DONE", "UNDONE", "active"),
                         (status, start, end, reservation))
        self.assertEqual("end_lease was in progress: our manager does it again", notes[0])
        self.assertIn("nothing says which hosts it had", self.refusal(
            LeaseRows("TERMINATING").hosts()))

    def test_deleting(self) -> None:
        self.assertIn("it is being deleted", self.refusal(
            LeaseRows("DELETING").instances({"1": 1})))

    def test_an_event_in_progress_of_a_stable_lease(self) -> None:
        """Its manager died, and nothing there repeats it."""
        rows = LeaseRows("ACTIVE").instances({"1": 1})
        for name, row in rows.rows:
            if name == "events" and row["event_type"] == "before_end_lease":
                row["status"] = "IN_PROGRESS"
        record = self.lease(rows)
        self.assertEqual(
            ("UNDONE", ["before_end_lease was in progress: our manager does it again"]),
            (record.fields["events"][rows.before_id]["status"], record.notes))

    def test_a_status_that_its_events_contradict(self) -> None:
        rows = LeaseRows("ACTIVE").change("leases", status="PENDING").instances({"1": 1})
        status, *_, notes = self.statuses(rows)
        self.assertEqual(("ACTIVE", ["it was PENDING; by its events it is ACTIVE"]),
                         (status, notes))

    def test_an_error_stays(self) -> None:
        rows = LeaseRows("ERROR").instances({"1": 1})
        record = self.lease(rows)
        [reservation] = record.fields["reservations"].values()
        self.assertEqual(("ERROR", {"1": 1}), (record.fields["status"], reservation["hosts"]))

    def test_what_has_ended_has_no_hosts(self) -> None:
        rows = LeaseRows("ACTIVE").instances({"1": 2})
        rows.change("reservations", status="deleted")
        record = self.lease(rows)
        [reservation] = record.fields["reservations"].values()
        self.assertEqual(({}, [f"its reservation {rows.reservation_ids[0]} has ended: 2 "
                               "allocations of it are left out"]),
                         (reservation["hosts"], record.notes))

    def test_events_of_other_types_and_twins(self) -> None:
        later = START + 2 * DAY
        rows = LeaseRows("ACTIVE").instances({"1": 1}).event(
            "e1", "delete_lease", later, "UNDONE").event(
            "e2", "before_end_lease", later, "UNDONE")
        record = self.lease(rows)
        self.assertEqual({rows.start_id, "e2", rows.end_id}, record.fields["events"].keys())
        self.assertEqual([
            "its event e1 is left out: nothing happens at delete_lease",
            f"its event {rows.before_id} is left out: e2 is another before_end_lease",
        ], record.notes)

    def test_an_event_without_a_time(self) -> None:
        rows = LeaseRows("ACTIVE").instances({"1": 1}).event("e1", "end_lease", None, "UNDONE")
        self.assertIn("its event e1 has no time", self.refusal(rows))

    def test_parts_of_a_second(self) -> None:
        """Only some databases have them."""
        rows = LeaseRows(start=START + datetime.timedelta(microseconds=7)).instances({"1": 1})
        record = self.lease(rows)
        self.assertEqual("2031-03-01T12:00:00", record.fields["start_at"])
