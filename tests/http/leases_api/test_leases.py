"""/v1/leases: what clients send and get."""

from __future__ import annotations

import datetime
import re
from typing import Any

from tests import databases
from tests.http.leases_api.cases import NOBODY, LeasesTestCase, date, instance, whole

_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})?")


def _out(text: str) -> str:
    """Return a date that was sent as it comes back."""
    at = datetime.datetime.strptime(text, "%Y-%m-%d %H:%M")
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}"


@databases.on_each_database
class TestLife(LeasesTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host()

    def test_what_a_lease_looks_like(self) -> None:
        body = self.body(instance(amount=2, affinity=True), name="☃ 🎄")
        lease = self.v1("POST", "/leases", body, status=201).json["lease"]
        self.assertEqual({
            "id", "name", "user_id", "project_id", "start_date", "end_date", "trust_id",
            "status", "degraded", "created_at", "updated_at", "reservations", "events"},
            set(lease))
        self.assertEqual(
            ("☃ 🎄", "jane", "demo", None, "PENDING", False, _out(body["start_date"]),
             _out(body["end_date"]), None),
            tuple(lease[key] for key in (
                "name", "user_id", "project_id", "trust_id", "status", "degraded",
                "start_date", "end_date", "updated_at")))
        self.assertRegex(lease["created_at"], _STAMP)
        [reservation] = lease["reservations"]
        self.assertEqual({
            "id", "lease_id", "resource_id", "resource_type", "status", "missing_resources",
            "resources_changed", "created_at", "updated_at", "vcpus", "memory_mb", "disk_gb",
            "amount", "affinity", "resource_properties", "flavor_id", "server_group_id",
            "aggregate_id"}, set(reservation))
        self.assertEqual(
            (lease["id"], "virtual:instance", "pending", False, False, 1, 1024, 10, 2, True, ""),
            tuple(reservation[key] for key in (
                "lease_id", "resource_type", "status", "missing_resources",
                "resources_changed", "vcpus", "memory_mb", "disk_gb", "amount", "affinity",
                "resource_properties")))
        events = {event["event_type"]: event for event in lease["events"]}
        self.assertEqual({"start_lease", "before_end_lease", "end_lease"}, set(events))
        for event in lease["events"]:
            self.assertEqual({"id", "lease_id", "event_type", "time", "status", "created_at",
                              "updated_at"}, set(event))
            self.assertEqual((lease["id"], "UNDONE"), (event["lease_id"], event["status"]))
            self.assertRegex(event["time"], _DATE)
        self.assertEqual(lease["start_date"], events["start_lease"]["time"])
        self.assertEqual(lease["end_date"], events["end_lease"]["time"])
        self.assertEqual(lease, self.shown(lease))
        self.assertEqual([lease], self.v1("GET", "/leases", status=200).json["leases"])

    def test_what_a_host_reservation_looks_like(self) -> None:
        [reservation] = self.lease(whole(min=1, max=3, before_end="snapshot"))["reservations"]
        self.assertEqual(
            ("physical:host", 1, 3, "", "", "snapshot"), tuple(reservation[key] for key in (
                "resource_type", "min", "max", "hypervisor_properties", "resource_properties",
                "before_end")))

    def test_changed_and_deleted(self) -> None:
        lease = self.lease()
        path = f"/leases/{lease['id']}"
        changed = self.v1("PUT", path, {
            "name": "b", "end_date": date(3),
            "reservations": [{"id": lease["reservations"][0]["id"], "amount": 3}]},
            status=200).json["lease"]
        self.assertEqual(("b", _out(date(3)), "PENDING", 3), (
            changed["name"], changed["end_date"], changed["status"],
            changed["reservations"][0]["amount"]))
        self.assertRegex(changed["updated_at"], _STAMP)
        self.assertEqual(changed, self.shown(lease))
        self.assertEqual(3, sum(self.held().values()))
        response = self.v1("DELETE", path, status=204)
        self.assertEqual(b"", response.body)
        for method, body in (("GET", None), ("PUT", {"name": "c"}), ("DELETE", None)):
            self.refused(404, "", method, path, body)
        self.assertEqual([], self.v1("GET", "/leases", status=200).json["leases"])
        self.assertEqual({}, self.held())

    def test_refused_whole(self) -> None:
        """What does not fit is not there at all; the answer says when it would."""
        self.lease(instance(amount=5))
        before = self.rows()
        document = self.refused(
            409, f"The same lease fits from {date(2)} on.", "POST", "/leases",
            self.body(instance(amount=2), instance(amount=2)))
        self.assertEqual("reservations.no_room", document["error_name"])
        self.assertEqual(before, self.rows())

    def test_change_refused_whole(self) -> None:
        """Neither reservation changes if one cannot."""
        lease = self.lease(instance(), instance())
        first, second = (each["id"] for each in lease["reservations"])
        before = self.rows()
        self.refused(409, "", "PUT", f"/leases/{lease['id']}", {"name": "b", "reservations": [
            {"id": first, "amount": 2}, {"id": second, "amount": 20}]})
        self.assertEqual(before, self.rows())


class TestSeed(LeasesTestCase):
    def test_the_example(self) -> None:
        """The request of seed 003, but for its dates: ``start``, ``end``, no properties."""
        for number in range(5):
            self.host(f"c{number}")
        asked = {"resource_type": "virtual:instance", "vcpus": 4, "memory_mb": 4096,
                 "disk_gb": 10, "amount": 5, "affinity": False}
        lease = self.v1("POST", "/leases", {
            "name": "instance-reservation-1", "reservations": [asked],
            "start": date(1), "end": date(1.1), "events": []}, status=201).json["lease"]
        [reservation] = lease["reservations"]
        self.assertEqual({**asked, "status": "pending", "lease_id": lease["id"]}, {
            key: reservation[key] for key in (*asked, "status", "lease_id")})
        self.assertLessEqual({"id", "resource_id", "created_at", "updated_at"},
                             set(reservation))
        self.assertEqual([1] * 5, list(self.held(lease_id=lease["id"]).values()))

    def test_no_disk(self) -> None:
        """Servers that boot from volumes have none; the shell sends text."""
        self.host("c1")
        for said in (0, "0"):
            [reservation] = self.lease(instance(disk_gb=said))["reservations"]
            self.assertEqual(0, reservation["disk_gb"])


class TestDates(LeasesTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host()

    def test_seconds(self) -> None:
        lease = self.lease(start_date=f"{date(1)}:07", end_date=f"{date(2)}:09")
        self.assertEqual((f"{_out(date(1))[:-9]}07.000000", f"{_out(date(2))[:-9]}09.000000"),
                         (lease["start_date"], lease["end_date"]))

    def test_what_comes_out_goes_in(self) -> None:
        lease = self.lease()
        changed = self.v1("PUT", f"/leases/{lease['id']}", {
            "start_date": lease["start_date"], "end_date": _out(date(3))}, status=200)
        self.assertEqual((lease["start_date"], _out(date(3))), (
            changed.json["lease"]["start_date"], changed.json["lease"]["end_date"]))

    def test_now(self) -> None:
        before = datetime.datetime.now(datetime.UTC).replace(tzinfo=None, microsecond=0)
        lease = self.lease(start_date="now")
        started = datetime.datetime.strptime(lease["start_date"], "%Y-%m-%dT%H:%M:%S.%f")
        self.assertLessEqual(before, started)
        self.assertLess(started, before + datetime.timedelta(minutes=1))

    def test_the_present_minute(self) -> None:
        """Clients that count in minutes begin with the one that has begun."""
        now = datetime.datetime.now(datetime.UTC)
        self.lease(start_date=f"{now:%Y-%m-%d %H:%M}")

    def test_before_the_end(self) -> None:
        """Said by the client, or an hour before."""
        for said, expected in ((date(1.5), date(1.5)), (None, date(2 - 1 / 24))):
            lease = self.lease(before_end_date=said)
            [time] = [event["time"] for event in lease["events"]
                      if event["event_type"] == "before_end_lease"]
            self.assertEqual(_out(expected), time)


class TestWhose(LeasesTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host()
        self.own = self.lease(name="own")
        self.other = self.lease(name="other", token="bob:lab")

    def names(self, query: str = "", **options: Any) -> list[str]:
        found = self.v1("GET", f"/leases{query}", status=200, **options).json["leases"]
        return [lease["name"] for lease in found]

    def test_projects_see_their_own(self) -> None:
        self.assertEqual(["own"], self.names())
        self.assertEqual(["other"], self.names(token="bob:lab", roles="reader"))
        self.assertEqual(["own"], self.names("?project_id=demo"))
        self.refused(403, "blazar:leases:get", "GET", "/leases?project_id=lab")
        before = self.rows()
        path = f"/leases/{self.other['id']}"
        for method, body in (("GET", None), ("PUT", {"name": "mine"}), ("DELETE", None)):
            document = self.refused(404, "", method, path, body)
            absent = self.refused(404, "", method, f"/leases/{NOBODY}", body)
            self.assertEqual(
                document["error_message"].replace(self.other["id"], NOBODY),
                absent["error_message"])
        self.assertEqual(before, self.rows())

    def test_administrators_see_all(self) -> None:
        self.assertEqual(["own", "other"], self.names(token="admin"))
        self.assertEqual(["other"], self.names("?project_id=lab", token="admin"))
        self.assertEqual("lab", self.shown(self.other, token="admin")["project_id"])
        changed = self.v1("PUT", f"/leases/{self.other['id']}", {"name": "renamed"},
                          token="admin", status=200).json["lease"]
        self.assertEqual(("renamed", "lab", "bob"), (
            changed["name"], changed["project_id"], changed["user_id"]))
        self.v1("DELETE", f"/leases/{self.other['id']}", token="admin", status=204)

    def test_who_may(self) -> None:
        path = f"/leases/{self.own['id']}"
        for method, where, body, rule, readers in (
            ("GET", "/leases", None, "get", True), ("GET", path, None, "get", True),
            ("POST", "/leases", self.body(), "post", False),
            ("PUT", path, {"name": "x"}, "put", False), ("DELETE", path, None, "delete", False),
        ):
            said = f"Policy does not allow blazar:leases:{rule} to be performed."
            self.refused(403, said, method, where, body, roles="")
            if readers:
                self.v1(method, where, roles="reader", status=200)
            else:
                self.refused(403, said, method, where, body, roles="reader")
        for method, where, body, rule in (
            ("GET", "/os-hosts", None, "get"), ("GET", "/os-hosts/1", None, "get"),
            ("POST", "/os-hosts", {"name": "x"}, "post"),
            ("PUT", "/os-hosts/1", {"gpu": "x"}, "put"),
            ("DELETE", "/os-hosts/1", None, "delete"),
            ("GET", "/os-hosts/allocations", None, "get_allocations"),
            ("GET", "/os-hosts/1/allocation", None, "get_allocations"),
            ("GET", "/os-hosts/properties", None, "get_resource_properties"),
            ("PATCH", "/os-hosts/properties/x", {"private": True},
             "update_resource_properties"),
        ):
            self.refused(403, f"blazar:oshosts:{rule} ", method, where, body)


@databases.on_each_database
class TestList(LeasesTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.hosts = [self.host("c1"), self.host("c2")]
        for name, start, end, what in (
            ("c", 3, 4, whole()), ("a", 1, 2, instance(vcpus=8)), ("b", 2, 5, whole()),
            ("a", 6, 7, instance()),
        ):
            self.lease(what, name=name, start_date=date(start), end_date=date(end))

    def names(self, query: str) -> list[str]:
        found = self.v1("GET", f"/leases?{query}", status=200).json["leases"]
        return [lease["name"] for lease in found]

    def test_filters(self) -> None:
        for query, expected in (
            ("", "caba"), ("unknown=1&color=red", "caba"), ("name=a", "aa"), ("name=A", ""),
            ("name=%F0%9F%8E%84", ""), ("status=PENDING", "caba"), ("status=ACTIVE", ""),
            (f"from={date(4)}", "ba"), (f"to={date(2)}", "a"), (f"to={date(3)}", "ab"),
            (f"from={date(2)}&to={date(3)}", "b"), (f"from={date(9)}", ""),
            (f"from={date(1)}&to={date(9)}&name=a&status=PENDING", "aa"),
            ("host=999999999", ""),
        ):
            self.assertEqual(list(expected), self.names(query.replace(" ", "%20")), query)
        # They overlap, so each has another host.
        self.assertEqual([["b"], ["c"]], sorted(
            [name for name in self.names(f"host={host}") if name in "bc"]
            for host in self.hosts))

    def test_order(self) -> None:
        for query, expected in (
            ("sort=name", "aabc"), ("sort=name:desc", "cbaa"), ("sort=start_date", "abca"),
            ("sort=start_date:desc", "acba"), ("sort=end_date:asc", "acba"),
            ("sort=created_at:desc", "abac"),
        ):
            self.assertEqual(list(expected), self.names(query), query)

    def test_pages(self) -> None:
        """Each lease once, in every order."""
        self.assertEqual({"leases"}, set(self.v1("GET", "/leases").json))
        for order in ("", "&sort=name", "&sort=start_date:desc", "&sort=name:desc"):
            whole = [each["id"] for each in self.v1(
                "GET", f"/leases?x=1{order}", status=200).json["leases"]]
            found, path = [], f"/leases?limit=3{order}"
            for expected in (3, 1):
                document = self.v1("GET", path, status=200).json
                self.assertEqual(expected, len(document["leases"]))
                found += [each["id"] for each in document["leases"]]
                links = document.get("leases_links", [])
                if links:
                    self.assertEqual("next", links[0]["rel"])
                    self.assertTrue(links[0]["href"].startswith("http://localhost/v1/leases?"))
                    path = links[0]["href"].removeprefix("http://localhost/v1")
            self.assertEqual([], links)
            self.assertEqual(whole, found, order)

    def test_malformed(self) -> None:
        for query in (
            "limit=0", "limit=-1", "limit=x", "limit=", "limit=1.5", "status=pending",
            "status=", "host=x", "host=-1", "host=99999999999999999999", "sort=id",
            "sort=name:up", "sort=", "from=x", "to=2027-01-01",
            f"from={date(2)}&to={date(1)}", f"from={date(1)}&to={date(1)}", "marker=x",
            f"marker={NOBODY}", "marker=%F0%9F%8E%84", "name=",
            "name=" + "x" * 300, "limit=%D9%A3",
        ):
            self.refused(400, "", "GET", f"/leases?{query.replace(' ', '%20')}")
        for query in ("name=%ff", "name=%00"):
            self.refused(400, "", "GET", f"/leases?{query}")
