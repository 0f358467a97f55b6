"""The seed's scenarios, from a request to where instances land (requirement R10)."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

from placement_core.testing import factories
from tests import databases
from tests.http.leases_api.cases import LeasesTestCase, date, instance, whole

_YEAR = datetime.datetime.now(datetime.UTC).year + 1


def _day(month: int, day: int) -> str:
    return f"{_YEAR}-{month:02}-{day:02} 00:00"


@databases.on_each_database
class TestScenarios(LeasesTestCase):
    def land(self, reservation: dict[str, Any]) -> str | None:
        """Start an instance in a reservation, where placement has room; return the host."""
        name = f"CUSTOM_RESERVATION_{reservation['id'].replace('-', '_').upper()}"
        found = self.ask("GET", f"/allocation_candidates?resources={name}:1&limit=1")
        self.assertEqual(200, found.status_int, found.text)
        for candidate in found.json["allocation_requests"]:
            made = self.ask("PUT", f"/allocations/{factories.new_uuid()}", {
                "allocations": candidate["allocations"], "project_id": "demo",
                "user_id": "jane", "consumer_generation": None, "consumer_type": "INSTANCE"})
            self.assertEqual(204, made.status_int, made.text)
            [provider] = candidate["allocations"]
            shown = self.ask("GET", f"/resource_providers/{provider}").json
            return str(shown["root_provider_uuid"])
        return None

    def test_each_on_another_host(self) -> None:
        """All instances of an anti-affinity reservation land on different hosts."""
        for number in range(5):
            self.host(f"c{number}", vcpus=16)
        self.refused(409, "6 slots", "POST", "/leases", self.body(
            instance(amount=6, affinity=False)))
        lease = self.lease(instance(amount=4, affinity=False), start_date="now")
        self.assertEqual([1] * 4, list(self.held(lease_id=lease["id"]).values()))
        [reservation] = lease["reservations"]
        self.carry_out_due()
        self.assertEqual("ACTIVE", self.shown(lease)["status"])
        landed = [self.land(reservation) for _ in range(4)]
        self.assertEqual(4, len(set(landed)))
        self.assertNotIn(None, landed)
        self.assertIsNone(self.land(reservation))

    def test_one_freepool(self) -> None:
        """Hosts and slots are chosen from one pool, and never collide."""
        for number in range(4):
            self.host(f"c{number}")
        made = [
            self.lease(what, start_date=date(start), end_date=date(end))
            for what, start, end in (
                (instance(amount=10), 1, 3), (whole(), 2, 4), (instance(amount=2), 2, 5),
                (instance(vcpus=8), 4, 5), (whole(), 3, 5))]
        for lease in made:
            self.assertNotEqual({}, self.held(lease_id=lease["id"]))
        self.refused(409, "", "POST", "/leases", self.body(
            whole(min=3, max=3), start_date=date(2), end_date=date(3)))
        self.refused(409, "", "POST", "/leases", self.body(
            instance(vcpus=8, amount=3), start_date=date(2), end_date=date(3)))
        kinds = {reservation["id"]: reservation for lease in made
                 for reservation in lease["reservations"]}
        shown = self.v1("GET", "/os-hosts/allocations", token="admin").json["allocations"]
        for host in shown:
            for held in host["reservations"]:
                at = held["start_date"]
                present = [
                    other for other in host["reservations"]
                    if other["start_date"] <= at < other["end_date"]]
                types = Counter(kinds[each["id"]]["resource_type"] for each in present)
                if types["physical:host"]:
                    self.assertEqual(1, sum(types.values()), host)
                self.assertLessEqual(
                    sum(kinds[each["id"]].get("vcpus", 8) for each in present), 8, host)

    def test_from_june_to_august(self) -> None:
        """Up to 60 VCPU and 240 GB of memory, from June to the middle of August."""
        for number in range(4):
            self.host(f"c{number}", vcpus=16, memory_mb=65536, disk_gb=1000)
        june, august = _day(6, 1), _day(8, 14)
        slots = instance(vcpus=1, memory_mb=4096, amount=60)
        lease = self.lease(slots, start_date=june, end_date=august)
        self.assertEqual(60, sum(self.held(lease_id=lease["id"]).values()))
        document = self.refused(
            409, f"The same lease fits from {august} on.", "POST", "/leases",
            self.body(instance(amount=5), start_date=_day(7, 1), end_date=_day(7, 2)))
        self.assertIn("5 slots", document["error_message"])
        for reservation, start, end in (
            (instance(amount=4), _day(7, 1), _day(7, 2)), (slots, _day(5, 1), june),
            (slots, august, _day(9, 1)),
        ):
            self.lease(reservation, start_date=start, end_date=end)

    def test_four_small_ones(self) -> None:
        """1 VCPU, 1 GB of memory and 10 GB of disk, four times, whatever others want."""
        self.host("c1")
        lease = self.lease(instance(amount=4), start_date="now")
        [reservation] = lease["reservations"]
        self.refused(409, "", "POST", "/leases", self.body(
            instance(vcpus=5), start_date="now"), token="bob:lab")
        self.lease(instance(vcpus=4), start_date="now", token="bob:lab")
        self.assertEqual(["start_lease"] * 2, self.carry_out_due())
        self.assertEqual([True] * 4 + [False], [
            self.land(reservation) is not None for _ in range(5)])
