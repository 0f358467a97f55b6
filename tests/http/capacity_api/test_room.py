"""/capacity/v1/room…: how much there is, is used, held, promised to leases, and free."""

from __future__ import annotations

import collections
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

import fixtures
import sqlalchemy as sa

from placement_core import db, metrics, room as room_queries
from placement_core.db import clock
from placement_core.http.leases_api import representations
from placement_core.placement.records import InventoryValues
from placement_core.quota import tables as quota_tables
from placement_core.reservations.manager.loop import PeriodicTask
from placement_core.reservations.provisioning import slots
from placement_core.testing import factories
from tests import databases, scraping
from tests.http import base
from tests.http.leases_api.cases import LeasesTestCase, date, instance, whole

_PATH = "/capacity/v1/room"
#: Later than any test.
_END = date(2)
_STATES = ("total", "reserved", "capacity", "used", "held", "promised", "free", "largest")


class RoomTestCase(LeasesTestCase):
    def room(self, query: str = "", status: int = 200, **options: Any) -> Any:
        response = self.ask("GET", f"{_PATH}{query}", version=None, **options)
        self.assertEqual(status, response.status_int, f"{query}: {response.text}")
        return response.json

    def resources(self, query: str = "") -> Any:
        return self.room(query)["resources"]

    def state(self, state: str, query: str = "") -> dict[str, int]:
        return {name: room[state] for name, room in self.resources(query).items()}

    def claim(
        self, allocations: Mapping[str, Mapping[str, int]], project: str = "demo", **fields: Any
    ) -> str:
        """Claim through the capacity API; return the consumer."""
        response = self.ask("POST", "/capacity/v1/claims", {"claim": {
            "project_id": project, "user_id": "jane", "consumer_type": "INSTANCE",
            "allocations": {
                uuid: {"resources": amounts} for uuid, amounts in allocations.items()},
            **fields}}, version=None)
        self.assertEqual(201, response.status_int, response.text)
        consumer: str = response.json["claim"]["consumer_uuid"]
        return consumer

    def add_up(self, uuids: Iterable[str]) -> dict[str, dict[str, int]]:
        """Add up what the Placement API says of providers, one after the other."""
        sums: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for uuid in uuids:
            path = f"/resource_providers/{uuid}"
            used = self.ask("GET", f"{path}/usages").json["usages"]
            for name, values in self.ask("GET", f"{path}/inventories").json[
                    "inventories"].items():
                capacity = int(
                    (values["total"] - values["reserved"]) * values["allocation_ratio"])
                sums[name].update(
                    total=values["total"], reserved=values["reserved"], capacity=capacity,
                    used=used[name], free=max(capacity - used[name], 0))
        return {name: dict(amounts) for name, amounts in sums.items()}


@databases.on_each_database
class TestRoom(RoomTestCase):
    def test_as_the_placement_api_has_it(self) -> None:
        """Sums, and the largest piece, which units and steps bound; nothing where nothing is."""
        self.assertEqual({}, self.resources())
        one = factories.provider(self.ctx, inventory={
            "VCPU": InventoryValues(total=8, reserved=2, allocation_ratio=2.5, max_unit=8),
            "MEMORY_MB": InventoryValues(total=1000, step_size=64, min_unit=64)})
        other = factories.provider(self.ctx, inventory={
            "VCPU": InventoryValues(total=2**31 - 1, allocation_ratio=1e30), "CUSTOM_GPU": 1})
        child = factories.provider(self.ctx, parent=one, inventory={"VCPU": 4})
        uuids = [each.uuid for each in (one, other, child)]
        consumer = self.claim({
            one.uuid: {"VCPU": 5, "MEMORY_MB": 128}, child.uuid: {"VCPU": 4}})
        for _ in range(2):
            rooms = self.resources()
            for name, amounts in self.add_up(uuids).items():
                self.assertEqual(amounts, {key: rooms[name][key] for key in amounts}, name)
                self.assertEqual((0, 0), (rooms[name]["held"], rooms[name]["promised"]))
                self.assertEqual(_STATES, tuple(rooms[name]))
            self.assertEqual([2**31 - 1, 832 + 128 * (consumer is None), 1], [
                rooms[name]["largest"] for name in ("VCPU", "MEMORY_MB", "CUSTOM_GPU")])
            if consumer is not None:
                self.ask("DELETE", f"/allocations/{consumer}")
                consumer = None

    def test_a_smaller_inventory(self) -> None:
        """What is used beyond the capacity of one provider takes nothing from another."""
        one = factories.provider(self.ctx, inventory={"VCPU": 8})
        factories.provider(self.ctx, inventory={"VCPU": 8})
        self.claim({one.uuid: {"VCPU": 8}})
        shown = self.ask("GET", f"/resource_providers/{one.uuid}/inventories/VCPU").json
        changed = self.ask("PUT", f"/resource_providers/{one.uuid}/inventories/VCPU", {
            "resource_provider_generation": shown["resource_provider_generation"], "total": 2})
        self.assertEqual(200, changed.status_int, changed.text)
        self.assertEqual(
            {"total": 10, "reserved": 0, "capacity": 10, "used": 8, "held": 0, "promised": 0,
             "free": 8, "largest": 8}, self.resources()["VCPU"])

    def test_held(self) -> None:
        """What a claim holds is held until it is confirmed, released, or written over."""
        uuid = factories.provider(self.ctx, inventory={"VCPU": 16}).uuid
        self.claim({uuid: {"VCPU": 1}})
        kept, late, released, over = (
            self.claim({uuid: {"VCPU": amount}}, hold_seconds=600) for amount in (2, 3, 4, 5))
        with self.services.database.autocommit.connect() as connection:
            connection.execute(sa.update(quota_tables.held_claims).where(
                quota_tables.held_claims.c.consumer_uuid == late).values(
                    expires_at=clock.in_seconds(sa.literal(-5))))
        self.assertEqual((15, 14), tuple(
            self.resources()["VCPU"][state] for state in ("used", "held")))
        self.ask("POST", f"/capacity/v1/claims/{kept}/confirm", version=None)
        self.assertEqual({"VCPU": 12}, self.state("held"))
        self.ask("DELETE", f"/capacity/v1/claims/{released}", version=None)
        self.assertEqual({"VCPU": 8}, self.state("held"))
        shown = self.ask("GET", f"/allocations/{over}").json
        self.assertEqual(204, self.ask("PUT", f"/allocations/{over}", {
            **shown, "allocations": {uuid: {"resources": {"VCPU": 5}}}}).status_int)
        self.assertEqual({"VCPU": 3}, self.state("held"))
        self.assertEqual({"VCPU": 11}, self.state("used"))

    def test_slots(self) -> None:
        """What is promised is what slots have, now or later, less what is used of them."""
        self.host("c1", vcpus=8)
        self.host("c2", vcpus=4)
        factories.provider(self.ctx, "c3", inventory={"VCPU": 4})
        self.assertEqual({"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0}, self.state("promised"))
        self.lease(instance(vcpus=2, amount=2), start_date=date(3), end_date=date(4))
        self.assertEqual({"VCPU": 4, "MEMORY_MB": 2048, "DISK_GB": 20}, self.state("promised"))
        lease = self.lease(instance(vcpus=3, memory_mb=512), start_date="now", end_date=_END)
        self.assertEqual(4, self.state("promised")["VCPU"])
        self.carry_out_due()
        name = slots.resource_class(lease["reservations"][0]["id"])
        self.assertNotIn(name, self.resources())
        of_slots = self.resources(f"?resource_class={name}")[name]
        self.assertEqual({**dict.fromkeys(_STATES, 0), "total": 1, "capacity": 1, "promised": 1,
                          "free": 1, "largest": 1}, of_slots)
        host, child = self.find_slots(name)
        self.claim({host: {"VCPU": 3, "MEMORY_MB": 500}, child: {name: 1}})
        self.assertEqual(0, self.resources(f"?resource_class={name}")[name]["promised"])
        self.assertEqual({"VCPU": 1, "MEMORY_MB": 1548, "DISK_GB": 20}, self.state("promised"))
        self.assertEqual(13, self.state("free")["VCPU"])

    def test_pinned_processors(self) -> None:
        """What a slot has in use as PCPU is not promised as VCPU any more."""
        self.host("c1", vcpus=8)
        [root] = [host["uuid"] for host in self.room("/hosts")["hosts"]]
        pinned = factories.provider(self.ctx, parent=root, inventory={"PCPU": 4}).uuid
        lease = self.lease(instance(vcpus=3), start_date="now", end_date=_END)
        self.carry_out_due()
        self.assertEqual((3, 0), tuple(self.state("promised")[key] for key in ("VCPU", "PCPU")))
        name = slots.resource_class(lease["reservations"][0]["id"])
        self.claim({pinned: {"PCPU": 2}, self.find_slots(name)[1]: {name: 1}})
        self.assertEqual((1, 0), tuple(self.state("promised")[key] for key in ("VCPU", "PCPU")))
        self.assertEqual(1, self.resources("?resource_class=VCPU")["VCPU"]["promised"])

    def find_slots(self, name: str) -> tuple[str, str]:
        """Return the root and the provider that has the slots of a class."""
        [provider] = [
            provider for provider in self.ask("GET", "/capacity/v1/providers", version=None).json[
                "providers"] if name in provider["inventories"]]
        return provider["root_provider_uuid"], provider["uuid"]

    def test_whole_hosts(self) -> None:
        """All that is free of a tree is promised; an ended lease promises nothing."""
        self.host("c1", vcpus=8)
        self.host("c2", vcpus=4)
        tree = self.room("/hosts")["hosts"][0]["uuid"]
        for uuid in (tree, factories.provider(self.ctx, inventory={"VCPU": 1}).uuid):
            factories.provider(self.ctx, parent=uuid, inventory={"CUSTOM_GPU": 2})
        self.lease(whole(max=1), start_date=date(3), end_date=date(4))
        [host] = [host for host in self.room("/hosts")["hosts"]
                  if any(room["promised"] for room in host["resources"].values())]
        for room in host["resources"].values():
            self.assertEqual(room["capacity"], room["promised"])
        lease = self.lease(whole(min=2, max=2), start_date="now", end_date=_END)
        self.carry_out_due()
        self.assertEqual({"VCPU": 12, "MEMORY_MB": 32768, "DISK_GB": 400, "CUSTOM_GPU": 2},
                         self.state("promised"))
        used = next(host["uuid"] for host in self.room("/hosts")["hosts"] if host["name"] == "c2")
        self.claim({used: {"VCPU": 3}})
        self.assertEqual(9, self.state("promised")["VCPU"])
        self.assertEqual((1, 1), tuple(
            self.resources(f"?in_tree={used}")["VCPU"][key] for key in ("free", "promised")))
        self.v1("DELETE", f"/leases/{lease['id']}", status=204)
        self.assertEqual({"c1": 8, "c2": 1}[host["name"]], self.state("promised")["VCPU"])

    def test_groups(self) -> None:
        """A provider counts in each aggregate, and for each trait, of it or of its root."""
        one, two = sorted(factories.new_uuid() for _ in range(2))
        host = factories.provider(
            self.ctx, "host", inventory={"VCPU": 8}, aggregates=[one], traits=["HW_CPU_X86_VMX"])
        gpu = factories.provider(self.ctx, parent=host, inventory={"CUSTOM_GPU": 2},
                                 traits=["CUSTOM_A100"])
        other = factories.provider(self.ctx, "other", inventory={"VCPU": 4}, aggregates=[one, two])
        self.claim({host.uuid: {"VCPU": 3}}, hold_seconds=60)

        def totals(query: str, key: str) -> dict[str, dict[str, int]]:
            return {group[key]: {name: room["total"] for name, room in group["resources"].items()}
                    for group in self.room(f"?{query}")["groups"]}

        self.assertEqual({one: {"VCPU": 12, "CUSTOM_GPU": 2}, two: {"VCPU": 4}},
                         totals("group_by=aggregate", "uuid"))
        self.assertEqual({"CUSTOM_A100": {"CUSTOM_GPU": 2},
                          "HW_CPU_X86_VMX": {"VCPU": 8, "CUSTOM_GPU": 2}},
                         totals("group_by=trait", "name"))
        self.assertEqual({"host": {"VCPU": 8, "CUSTOM_GPU": 2}, "other": {"VCPU": 4}},
                         totals("group_by=root", "name"))
        self.assertEqual({one: {"CUSTOM_GPU": 2}},
                         totals("group_by=aggregate&resource_class=CUSTOM_GPU", "uuid"))
        hosts = self.room("/hosts")["hosts"]
        self.assertEqual(sorted([host.uuid, other.uuid]), [each["uuid"] for each in hosts])
        self.assertEqual(self.room("?group_by=root")["groups"], hosts)
        for query, names in (
            (f"in_tree={gpu.uuid}", ["host"]), (f"member_of={two}", ["other"]),
            (f"member_of=in:{one},{two}", ["host", "other"]),
            (f"member_of=!{two}", ["host"]), ("required=HW_CPU_X86_VMX", ["host"]),
            ("required=!HW_CPU_X86_VMX", ["other"]), ("required=CUSTOM_A100", ["host"]),
            ("required=HW_CPU_X86_VMX,!CUSTOM_A100", ["host"]),
            ("resource_class=VCPU&member_of=" + one, ["host", "other"]),
            (f"member_of={factories.new_uuid()}", []),
        ):
            hosts = self.room(f"/hosts?{query}")["hosts"]
            self.assertEqual(names, sorted(each["name"] for each in hosts), query)
            rooms = self.resources(f"?{query}")
            for name, room in rooms.items():
                for state in _STATES[:-1]:
                    self.assertEqual(room[state], sum(
                        each["resources"].get(name, {}).get(state, 0) for each in hosts), query)
        self.assertEqual({"CUSTOM_GPU": 2}, self.state("total", "?required=CUSTOM_A100"))
        self.assertEqual({"VCPU": 3}, self.state("held", f"?member_of={one}&resource_class=VCPU"))

    def test_pages(self) -> None:
        """Following the links lists every host once, with the filters of the first page."""
        uuids = sorted(factories.provider(self.ctx, inventory={"VCPU": number}).uuid
                       for number in range(1, 8))
        factories.provider(self.ctx, inventory={"DISK_GB": 1})
        for path, key, query in (
                ("/hosts", "hosts", ""), ("", "groups", "&group_by=root")):
            page, found = self.room(f"{path}?limit=3&resource_class=VCPU{query}"), []
            while True:
                self.assertLessEqual(len(page[key]), 3)
                found += [host["uuid"] for host in page[key]]
                if not page["links"]["next"]:
                    break
                self.assertTrue(page["links"]["next"].startswith(f"{_PATH}{path}?"))
                page = self.room(page["links"]["next"].partition(_PATH)[2])
            self.assertEqual(uuids, found)

    def test_bad_queries(self) -> None:
        for query, status in (
            ("limit=3", 400), ("marker=x", 400), ("group_by=host", 400), ("no=1", 400),
            ("group_by=root&limit=0", 400), ("group_by=root&limit=x", 400),
            ("resource_class=CUSTOM_NO", 400), ("resource_class=", 400),
            ("required=CUSTOM_NO", 400), ("required=", 400), ("required=in:", 400),
            ("member_of=x", 400), ("member_of=", 400), ("in_tree=", 400),
            (f"in_tree={factories.new_uuid()}", 404), ("in_tree=x", 404),
        ):
            self.assertTrue(self.room(f"?{query}", status=status)["errors"][0]["detail"])
            if query not in ("limit=3", "marker=x"):
                self.room(f"/hosts?{query.removeprefix('group_by=root&')}", status=status)
        for text in ("%00", "%ED%A0%80", "x" * 255, "%E2%98%83", "9" * 400):
            for name in ("resource_class", "required", "member_of", "in_tree", "marker",
                         "group_by=root&marker", "group_by=aggregate&marker"):
                answer = self.ask("GET", f"{_PATH}?{name}={text}", version=None)
                self.assertIn(answer.status_int, (200, 400, 404), (name, text))

    def test_unchanged(self) -> None:
        """An unchanged cloud is not added up again, and takes a bounded number of round trips."""
        for number in range(20):
            factories.provider(self.ctx, inventory={"VCPU": number + 1})
        self.resources()
        columns = dict(self.services.room._columns)
        self.assertLessEqual(self.trips.of(self.resources), 7)
        factories.provider(self.ctx)
        self.resources()
        for class_id, column in self.services.room._columns.items():
            self.assertIs(columns[class_id], column)

    def test_metrics(self) -> None:
        """The same numbers; of a class that is gone, 0."""
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())
        gone = factories.provider(self.ctx, inventory={"CUSTOM_GPU": 2})
        self.host("c1", vcpus=8)
        self.lease(instance(vcpus=2), start_date=date(3), end_date=date(4))
        self.services.room.export(self.ctx)
        metrics.start()
        for _ in range(2):
            self.services.room.export(self.ctx)
            expected = {(name, state): amount for name, room in self.resources().items()
                        for state, amount in room.items()}
            numbers = scraping.counted(lambda: scraping.shown()[1], "room")
            self.assertEqual(expected, {
                labels: value for labels, value in numbers.items()
                if labels in expected or value})
            self.assertEqual(24 + 8, len(numbers))
            self.ask("DELETE", f"/resource_providers/{gone.uuid}")


class TestSnapshots(RoomTestCase):
    def test_one_moment(self) -> None:
        """What is written between the reads is in all numbers."""
        uuid = factories.provider(self.ctx, inventory={"VCPU": 8}).uuid
        read, to_write, reads = room_queries._read_claims, 0, 0

        def write_first(*arguments: Any) -> Any:
            nonlocal to_write, reads
            reads += 1
            if to_write:
                to_write -= 1
                self.claim({uuid: {"VCPU": 1}}, hold_seconds=60)
            return read(*arguments)

        self.useFixture(fixtures.MonkeyPatch("placement_core.room._read_claims", write_first))
        for expected_reads, used in ((1, 0), (2, 1), (3, 3)):
            to_write, reads = expected_reads - 1, 0
            numbers = self.resources()["VCPU"]
            self.assertEqual((used, used), (numbers["used"], numbers["held"]))
            self.assertEqual(expected_reads, reads)
        to_write = 9
        numbers = self.resources()["VCPU"]
        self.assertEqual((5, 5, 3), (numbers["used"], numbers["held"], numbers["free"]))

    def test_inside_the_callers_transaction(self) -> None:
        """A caller that reads already asks in the same transaction."""
        factories.provider(self.ctx, inventory={"VCPU": 1})
        with db.read(self.ctx):
            self.assertEqual({"VCPU": 1}, self.state("total"))


class TestManager(RoomTestCase):
    """One process of a service counts, and only if somebody reads it."""

    def test_who_exports(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable(metrics.FOLDER_VARIABLE))
        self.useFixture(scraping.Unmeasured())
        factories.provider(self.ctx, inventory={"VCPU": 8})

        def find_task() -> list[PeriodicTask]:
            manager = self.services.manager(representations.LEASE)
            return [task for task in manager._tasks if task.name == "metrics of room"]

        self.assertEqual([], find_task())
        metrics.start()
        [task] = find_task()
        task.do(self.ctx)
        self.assertEqual(8, scraping.counted(lambda: scraping.shown()[1], "room")["VCPU", "free"])


class TestWhoMay(RoomTestCase):
    def test_administrators_and_services_only(self) -> None:
        for path in ("", "/hosts", "?group_by=aggregate", "?group_by=root"):
            for roles, status in (
                    ("admin", 200), ("service", 200), ("reader", 403), ("member", 403)):
                self.room(path, status=status, token="jane:web", headers={"X-Roles": roles})


class TestPublicRoom(RoomTestCase):
    """An operator lets everybody see the sums."""

    def setUp(self) -> None:
        self.options = base.policy_file(self, {"capacity:room:show": "role:member"})
        super().setUp()

    def test_not_single_hosts(self) -> None:
        uuid = factories.provider(self.ctx, inventory={"VCPU": 1}).uuid
        who: dict[str, Any] = {"token": "jane:web", "headers": {"X-Roles": "member"}}
        for query, status in (
            ("", 200), ("?group_by=aggregate", 200), ("?group_by=trait", 200),
            ("?group_by=root", 403), (f"?in_tree={uuid}", 403), ("/hosts", 403),
            (f"?{urllib.parse.urlencode({'in_tree': uuid, 'group_by': 'trait'})}", 403),
        ):
            self.room(query, status=status, **who)
        self.room("/hosts")
