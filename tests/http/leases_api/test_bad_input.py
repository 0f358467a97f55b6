"""What makes no sense is refused in form, 4xx, and nothing of it is written."""

from __future__ import annotations

from typing import Any

from tests import databases
from tests.http.leases_api.cases import NOBODY, LeasesTestCase, date, instance, whole
from tests.http.placement_api import sweeps

_HUGE = 10**30
_REQUIRED = "Required format: %Y-%m-%d %H:%M"


class TestChecks(LeasesTestCase):
    """Every row of the table of checks (spec blazar §2), and what it does not list."""

    def setUp(self) -> None:
        super().setUp()
        self.host()
        self.before = self.rows()

    def check(self, cases: Any) -> None:
        for status, said, body in cases:
            document = self.refused(status, said, "POST", "/leases", body)
            self.assertNotEqual("", document["error_message"])
        self.assertEqual(self.before, self.rows())

    def without(self, *names: str, **fields: Any) -> dict[str, Any]:
        return {key: value for key, value in self.body(**fields).items() if key not in names}

    def test_the_table(self) -> None:
        self.check((
            (400, "Missing parameter name", self.without("name")),
            (400, "Missing parameter start_date", self.without("start_date")),
            (400, "Missing parameter end_date", self.without("end_date")),
            (400, "Missing parameter start_date, end_date",
             self.without("start_date", "end_date")),
            (400, "Missing parameter resource_type", self.body({"min": 1, "max": 1})),
            (400, f"x is an invalid date. {_REQUIRED}", self.body(start_date="x")),
            (400, f"2027-02-30 00:00 is an invalid date. {_REQUIRED}",
             self.body(end_date="2027-02-30 00:00")),
            (400, f"soon is an invalid date. {_REQUIRED}", self.body(before_end_date="soon")),
            (400, "Start date must be later than current date", self.body(start_date=date(-1))),
            (400, "End date must be later than start date.", self.body(end_date=date(1))),
            (400, "End date must be later than start date.", self.body(end_date=date(0.5))),
            (400, "End date must be later than start date.", self.body(end_date="now")),
            (400, "The virtual:network resource type is not supported",
             self.body({"resource_type": "virtual:network"})),
            (409, "", self.body(whole(min=2, max=2))),
            (409, "", self.body(instance(vcpus=9))),
            (403, "Datetime is out of lease limits", self.body(before_end_date=date(3))),
            (403, "Datetime is out of lease limits", self.body(before_end_date=date(0.5))),
        ))

    def test_sizes(self) -> None:
        wrong = (0, -1, 1.5, True, False, None, "", "x", "-1", "1.5", "1e3", [], {}, 2**31,
                 2**63 - 1, "9" * 30, "☃", "٣")
        self.check(
            (400, "", self.body(instance(**{field: value})))
            for field in ("vcpus", "memory_mb", "disk_gb", "amount") for value in wrong
            # A server that boots from a volume has no disk.
            if (field, value) != ("disk_gb", 0) or value is False)
        self.check((400, "", self.body(whole(**{field: value})))
                   for field in ("min", "max") for value in wrong)
        self.check((
            (400, "", self.body(whole(min=2, max=1))),
            (400, "", self.body(instance(vcpus=0, memory_mb=0, disk_gb=0))),
            (400, "", self.body(instance(vcpus=-1, memory_mb=-1, disk_gb=-1))),
        ))
        for field in ("vcpus", "amount"):
            self.turned_away(400, "Malformed JSON", "POST", "/leases",
                             self.body(instance(**{field: _HUGE})))

    def test_other_fields(self) -> None:
        self.check(
            (400, "", self.body(instance(**{field: value}))) for field, value in (
                ("affinity", "maybe"), ("affinity", 1), ("affinity", []),
                ("resource_properties", "["), ("resource_properties", '["=="]'),
                ("resource_properties", '["==", "$nothing", "1"]'),
                ("resource_properties", '["~", "$vcpus", "1"]'),
                ("resource_properties", '["==", "$within", "rack"]'),
                ("resource_properties", '["==", "$within", "aggregate:name=\\u0000"]'),
                ("resource_properties", '["==", "$pack_by", "tree:1"]'),
                ("resource_properties", '["==", "$spread_by", "aggregate:trait=CUSTOM_NONE"]'),
                ("resource_properties", '["==", "$spread_by", "property:nothing"]'),
                ("resource_properties", '["or", ["==", "$within", "host"]]'),
                ("resource_properties", '["!=", "$within", "host"]'),
                ("resource_properties", '["==", "$aggregate:name=\\ud800", "x"]'),
                ("resource_properties", '["==", "$a\\u0000", "x"]'),
                ("resource_properties", "[" * 3000), ("resource_properties", 5),
                ("resource_properties", {"a": 1}), ("unknown", 1), ("id", NOBODY),
                ("lease_id", NOBODY), ("status", "active"), ("flavor_id", "x"),
                ("resource_id", "1"), ("missing_resources", True)))
        self.check(
            (400, "", self.body(whole(**{field: value}))) for field, value in (
                ("hypervisor_properties", '["==", "$nothing", "1"]'), ("before_end", "never"),
                ("unknown", 1), ("vcpus", 1), ("count_range", "1-1")))
        missing = whole()
        del missing["min"]
        self.check([(400, "min", self.body(missing))])

    def test_mass_assignment(self) -> None:
        """What is the service's to say, clients do not."""
        wrong = {
            "id": NOBODY, "project_id": "lab", "user_id": "bob", "trust_id": NOBODY,
            "status": "ACTIVE", "degraded": True, "created_at": date(0), "updated_at": date(0),
            "unknown": 1, "events": [{"event_type": "end_lease", "time": date(1)}]}
        self.check((400, name, self.body(**{name: value})) for name, value in wrong.items())
        lease = self.lease()
        self.before = self.rows()
        for name, value in wrong.items():
            self.refused(400, name, "PUT", f"/leases/{lease['id']}", {name: value})
            self.refused(400, name, "PUT", f"/leases/{lease['id']}",
                         {"name": "b", name: value})
        self.assertEqual(self.before, self.rows())

    def test_names(self) -> None:
        self.check((400, "name", self.body(name=name)) for name in (
            "", " ", "x" * 81, "🎄" * 81, None, 5, [], {}, True))
        for name in ("x" * 80, "🎄" * 80, "'; DROP TABLE leases; --", "a\nb"):
            self.assertEqual(name, self.shown(self.lease(name=name))["name"])

    def test_bodies(self) -> None:
        self.check((400, "", body) for body in (
            [], "text", 5, True, [[]], {}, {"lease": self.body()},
            self.body(reservations=[]), self.body(reservations={}),
            self.body(reservations=[[]]), self.body(reservations=["x"]),
            self.body(reservations=None), self.body(*[instance()] * 101),
            self.body(events=None), self.body(events={}), self.body(start_date=None),
            self.body(start_date=5), self.body(start_date=[]), self.body(start=date(1)),
            self.body({"resource_type": 5}), self.body({"resource_type": None}),
            self.body({"resource_type": "x" * 300}), self.body({"resource_type": "🎄"}),
            self.body(end_date="9998-12-31 23:59"), self.body(end_date="9999-12-31 23:59")))

    def test_deep(self) -> None:
        deep: Any = 1
        for _ in range(24):
            deep = [deep]
        self.check([(400, "", self.body(instance(resource_properties=deep))),
                    (400, "", self.body(name=deep)), (400, "", self.body(instance(x=deep)))])


class TestChanges(LeasesTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host()
        self.made = self.lease()
        self.path = f"/leases/{self.made['id']}"
        self.reservation = self.made["reservations"][0]["id"]

    def test_refused(self) -> None:
        before = self.rows()
        mine = self.reservation
        other = self.lease(token="bob:lab")["reservations"][0]["id"]
        before = self.rows()
        for status, said, body in (
            (400, "No data to update", {}), (400, "name", {"name": None}),
            (400, "name", {"name": "x" * 81}), (400, "", {"start_date": date(-1)}),
            (400, "", {"end_date": date(1)}), (400, "", {"end_date": date(-1)}),
            (400, _REQUIRED, {"end_date": "x"}), (403, "", {"before_end_date": date(9)}),
            (400, "Missing parameter reservation ID", {"reservations": [{"amount": 2}]}),
            (400, "", {"reservations": [{"id": NOBODY, "amount": 2}]}),
            (400, "", {"reservations": [{"id": other, "amount": 2}]}),
            (400, "", {"reservations": [{"id": mine, "amount": 2}, {"id": mine}]}),
            (400, "", {"reservations": [{"id": mine, "resource_type": "physical:host"}]}),
            (400, "", {"reservations": [{"id": mine, "amount": 0}]}),
            (400, "", {"reservations": [{"id": mine, "amount": True}]}),
            (400, "", {"reservations": [{"id": mine, "vcpus": 1.5}]}),
            (400, "", {"reservations": [{"id": mine, "status": "active"}]}),
            (400, "", {"reservations": [{"id": mine, "min": 1}]}),
            (400, "", {"reservations": {"id": mine}}),
            (409, "", {"reservations": [{"id": mine, "amount": 9}]}),
        ):
            self.refused(status, said, "PUT", self.path, body)
        for segment in (NOBODY, "x", "%20", "%F0%9F%8E%84", "a" * 300, "1", NOBODY[:-1],
                        self.made["id"].upper(), f"{self.made['id']}%0a"):
            for method, body in (("GET", None), ("PUT", {"name": "b"}), ("DELETE", None)):
                self.refused(404, "", method, f"/leases/{segment}", body)
        self.assertEqual(before, self.rows())


@databases.on_each_database
class TestSpoiled(LeasesTestCase):
    """Bodies that differ from a good one in one place."""

    def setUp(self) -> None:
        super().setUp()
        self.host_id = self.host(gpu="x")

    def spoil(self, method: str, path: str, body: Any, **options: Any) -> None:
        texts = sweeps.WRONG_TEXTS if self.kind == "sqlite" else ()
        before = self.rows()
        for what, spoiled in sweeps.spoiled(body, texts=texts):
            response = self.v1(method, path, spoiled, **options)
            self.assertLess(response.status_int, 500, what)
            if response.status_int < 400:
                # Not wrong after all: begin again.
                if method == "POST":
                    self.v1("DELETE", f"/leases/{response.json['lease']['id']}", status=204)
                before = self.rows()
            else:
                self.assertIn("error_message", response.json, what)
        self.assertEqual(before, self.rows())

    def test_new_leases(self) -> None:
        self.spoil("POST", "/leases", self.body(
            instance(), before_end_date=date(1.5)))
        self.spoil("POST", "/leases", self.body(whole()))

    def test_changed_leases(self) -> None:
        lease = self.lease()
        self.spoil("PUT", f"/leases/{lease['id']}", {
            "name": "b", "end_date": date(3), "reservations": [
                {"id": lease["reservations"][0]["id"], "amount": 2, "affinity": False}]})

    def test_hosts_and_properties(self) -> None:
        self.spoil("PUT", f"/os-hosts/{self.host_id}", {"gpu": "x", "reservable": True},
                   token="admin")
        self.spoil("PATCH", "/os-hosts/properties/gpu", {"private": False}, token="admin")
