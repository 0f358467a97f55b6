"""/v1/os-hosts: hosts, what is held of them, and their properties."""

from __future__ import annotations

from typing import Any

import webob

from tests import databases
from tests.http.leases_api.cases import LeasesTestCase, date, instance, whole


class HostsTestCase(LeasesTestCase):
    def admin(self, method: str, path: str, body: Any = None, **options: Any) -> webob.Response:
        return self.v1(method, path, body, token="admin", **options)


@databases.on_each_database
class TestHosts(HostsTestCase):
    def test_life(self) -> None:
        id_ = self.host("c1", gpu="tesla", ssd="yes")
        self.assertRegex(id_, "^[0-9]+$")
        host = self.admin("GET", f"/os-hosts/{id_}", status=200).json["host"]
        self.assertLessEqual({
            "id", "hypervisor_hostname", "hypervisor_type", "hypervisor_version", "vcpus",
            "memory_mb", "local_gb", "cpu_info", "service_name", "availability_zone",
            "trust_id", "reservable", "created_at", "updated_at"}, set(host))
        self.assertEqual((id_, "c1", 8, 16384, 200, True, "tesla", "yes"), tuple(
            host[key] for key in ("id", "hypervisor_hostname", "vcpus", "memory_mb", "local_gb",
                                  "reservable", "gpu", "ssd")))
        changed = self.admin("PUT", f"/os-hosts/{id_}", {
            "gpu": "volta", "ssd": None, "rack": 7}, status=200).json["host"]
        self.assertEqual(("volta", "7", False),
                         (changed["gpu"], changed["rack"], "ssd" in changed))
        self.assertEqual(changed, self.admin("GET", f"/os-hosts/{id_}").json["host"])
        self.assertEqual([changed], self.admin("GET", "/os-hosts").json["hosts"])
        self.admin("DELETE", f"/os-hosts/{id_}", status=204)
        for method, body in (("GET", None), ("PUT", {"gpu": "x"}), ("DELETE", None)):
            self.refused(404, "", method, f"/os-hosts/{id_}", body, token="admin")
        self.assertEqual([], self.admin("GET", "/os-hosts").json["hosts"])

    def test_refused(self) -> None:
        id_ = self.host("c1")
        before = self.rows()
        for status, body in (
            (404, {"name": "nowhere"}), (409, {"name": "c1"}), (400, {}), (400, {"gpu": "x"}),
            (400, {"name": ""}), (400, {"name": 1}), (400, {"name": "c1", "id": "c1"}),
            (400, {"name": "x" * 300}), (404, {"name": "🎄"}),
            (400, {"name": "c1", "reservable": True}), (400, {"name": "c1", "trust_id": "x"}),
            (400, {"name": "c1", "created_at": "x"}), (400, {"name": "c1", "vcpus": 1000}),
            (400, {"name": "c1", "x" * 65: "y"}), (400, {"name": "c1", "": "y"}),
            (400, {"name": "c1", "x": {}}), (400, {"name": "c1", "x": True}), (400, []),
            (404, {"id": "999"}),
        ):
            self.refused(status, "", "POST", "/os-hosts", body, token="admin")
        path = f"/os-hosts/{id_}"
        for body in ({}, {"reservable": "maybe"}, {"reservable": 0}, {"id": "7"}, {"x": []},
                     {"vcpus": 1000}, {"project_id": None, "trust_id": "x"}, {"x" * 65: "y"},
                     {"name": "other"}, {"down_reason": 5}):
            self.refused(400, "", "PUT", path, body, token="admin")
        self.refused(400, "No data to update", "PUT", path, {}, token="admin")
        for segment in ("0", "-1", "x", "c1", "9" * 30, "1.0", "%20", "%F0%9F%8E%84", "null"):
            self.refused(404, "", "GET", f"/os-hosts/{segment}", token="admin")
            self.refused(404, "", "PUT", f"/os-hosts/{segment}", {"a": "b"}, token="admin")
            self.refused(404, "", "DELETE", f"/os-hosts/{segment}", token="admin")
            self.refused(404, "", "GET", f"/os-hosts/{segment}/allocation", token="admin")
        self.assertEqual(before, self.rows())

    def test_out_of_service(self) -> None:
        """Also in the words of the command line, which has text only."""
        id_ = self.host("c1")
        for said, expected in ((False, False), ("True", True), ("false", False), (True, True)):
            host = self.admin("PUT", f"/os-hosts/{id_}", {"reservable": said}, status=200)
            self.assertIs(expected, host.json["host"]["reservable"])
        host = self.admin("PUT", f"/os-hosts/{id_}", {
            "reservable": False, "down_reason": "fan"}, status=200).json["host"]
        self.assertEqual("fan", host["down_reason"])
        self.assertIsNone(host["status"])  # as Blazar's
        self.refused(409, "", "POST", "/leases", self.body())

    def test_in_use(self) -> None:
        id_ = self.host("c1", gpu="tesla")
        lease = self.lease(whole(resource_properties='["==", "$gpu", "tesla"]'))
        self.refused(409, "", "DELETE", f"/os-hosts/{id_}", token="admin")
        self.refused(409, "", "PUT", f"/os-hosts/{id_}", {"gpu": None}, token="admin")
        self.v1("DELETE", f"/leases/{lease['id']}", status=204)
        self.admin("PUT", f"/os-hosts/{id_}", {"gpu": None}, status=200)
        self.admin("DELETE", f"/os-hosts/{id_}", status=204)

    def test_pages(self) -> None:
        ids = [self.host(f"c{number}") for number in range(3)]
        document = self.admin("GET", "/os-hosts?limit=2&color=red", status=200).json
        self.assertEqual(ids[:2], [host["id"] for host in document["hosts"]])
        [link] = document["hosts_links"]
        rest = self.admin(
            "GET", link["href"].removeprefix("http://localhost/v1"), status=200).json
        self.assertEqual(ids[2:], [host["id"] for host in rest["hosts"]])
        self.assertNotIn("hosts_links", rest)
        for query in ("limit=0", "limit=x", "marker=x", "marker=-1"):
            self.refused(400, "", "GET", f"/os-hosts?{query}", token="admin")


class TestAllocations(HostsTestCase):
    def test_one_entry_for_each_slot(self) -> None:
        first, second = self.host("c1"), self.host("c2")
        lease = self.lease(instance(amount=3, affinity=True))
        other = self.lease(whole(), start_date=date(1), end_date=date(3))
        entries = {
            each["id"]: {"id": reservation["id"], "lease_id": each["id"],
                         "start_date": each["start_date"], "end_date": each["end_date"]}
            for each in (lease, other) for reservation in each["reservations"]}
        shown = {each["resource_id"]: each["reservations"] for each in self.admin(
            "GET", "/os-hosts/allocations", status=200).json["allocations"]}
        self.assertEqual({first, second}, set(shown))
        self.assertEqual(sorted([[entries[lease["id"]]] * 3, [entries[other["id"]]]], key=len),
                         sorted(shown.values(), key=len))
        for host in (first, second):
            found = self.admin("GET", f"/os-hosts/{host}/allocation", status=200).json
            self.assertEqual(
                {"resource_id": host, "reservations": shown[host]}, found["allocation"])
        for query, expected in (
            (f"lease_id={lease['id']}", 3), (f"lease_id={other['id']}", 1), ("lease_id=x", 0),
            (f"reservation_id={other['reservations'][0]['id']}", 1), ("unknown=1", 4),
            ("reservation_id=%F0%9F%8E%84", 0),
        ):
            found = self.admin("GET", f"/os-hosts/allocations?{query}", status=200).json
            self.assertEqual({first, second}, {
                each["resource_id"] for each in found["allocations"]}, query)
            self.assertEqual(expected, sum(
                len(each["reservations"]) for each in found["allocations"]), query)

    def test_malformed(self) -> None:
        for query in ("lease_id=", "reservation_id=%00", "lease_id=" + "x" * 300):
            self.refused(400, "", "GET", f"/os-hosts/allocations?{query}", token="admin")


class TestProperties(HostsTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host("c1", gpu="tesla", ssd="yes")
        self.host("c2", gpu="volta")

    def listed(self, query: str = "", **options: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.v1(
            "GET", f"/os-hosts/properties{query}", status=200,
            **{"token": "admin", **options}).json["resource_properties"]
        return sorted(found, key=lambda each: each["property"])

    def test_names_and_values(self) -> None:
        self.assertEqual([{"property": "gpu"}, {"property": "ssd"}], self.listed())
        detailed = self.listed("?detail=True")
        self.assertEqual(["tesla", "volta"], sorted(detailed[0]["values"]))
        self.assertEqual({"property": "ssd", "private": False, "values": ["yes"]}, detailed[1])

    def test_private(self) -> None:
        changed = self.admin("PATCH", "/os-hosts/properties/gpu", {"private": True}, status=200)
        document = changed.json["resource_property"]
        self.assertEqual({"id", "resource_type", "property_name", "private", "created_at",
                          "updated_at"}, set(document))
        self.assertEqual(("physical:host", "gpu", True), (
            document["resource_type"], document["property_name"], document["private"]))
        self.assertEqual([{"property": "ssd"}], self.listed())
        self.assertEqual([{"property": "ssd"}], self.listed("?all=False"))
        self.assertEqual(["gpu", "ssd"], [each["property"] for each in self.listed("?all=True")])
        self.assertTrue(self.listed("?all=true&detail=true")[0]["private"])

    def test_refused(self) -> None:
        before = self.rows()
        for status, name, body in (
            (404, "nothing", {"private": True}), (404, "%F0%9F%8E%84", {"private": True}),
            (400, "gpu", {}), (400, "gpu", {"private": "yes"}), (400, "gpu", {"private": 1}),
            (400, "gpu", {"private": None}), (400, "gpu", {"private": True, "id": "x"}),
            (400, "gpu", []),
        ):
            self.refused(
                status, "", "PATCH", f"/os-hosts/properties/{name}", body, token="admin")
        for query in ("detail=2", "all=", "detail=yes", "all=TRUE"):
            self.refused(400, "", "GET", f"/os-hosts/properties?{query}", token="admin")
        self.assertEqual(before, self.rows())
