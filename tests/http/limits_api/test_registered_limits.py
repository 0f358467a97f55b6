"""Registered limits: what is answered, and what never happens."""

from __future__ import annotations

from tests import databases
from tests.http.limits_api.cases import NOBODY, LimitsTestCase


@databases.on_each_database
class TestRegisteredLimits(LimitsTestCase):
    def test_life(self) -> None:
        made = self.registered(description="all of them")
        self.assertRegex(made["id"], "^[0-9a-f]{32}$")
        self.assertEqual({
            "id": made["id"], "service_id": self.service, "region_id": "RegionOne",
            "resource_name": "cores", "default_limit": 10, "description": "all of them",
            "links": {"self": f"http://localhost/v3/registered_limits/{made['id']}"},
        }, made)
        path = f"/registered_limits/{made['id']}"
        self.assertEqual({"registered_limit": made}, self.v3("GET", path, status=200).json)
        self.assertEqual({
            "registered_limits": [made],
            "links": {"next": None, "self": "http://localhost/v3/registered_limits",
                      "previous": None},
        }, self.v3("GET", "/registered_limits", status=200).json)
        changes = {"resource_name": "ram", "default_limit": 0, "description": None,
                   "region_id": None}
        changed = self.v3("PATCH", path, {"registered_limit": changes}, status=200).json
        self.assertEqual({"registered_limit": {**made, **changes}}, changed)
        self.assertEqual(changed, self.v3("GET", path).json)
        self.assertEqual(b"", self.v3("DELETE", path, status=204).body)
        for method in ("GET", "DELETE"):
            self.refused(404, made["id"], method, path)
        self.refused(404, made["id"], "PATCH", path, {"registered_limit": {}})

    def test_a_batch_is_all_or_nothing(self) -> None:
        names = ["cores", "ram", "disk", "servers"]

        def items(*wanted: str) -> dict[str, object]:
            return {"registered_limits": [
                {"service_id": self.service, "resource_name": name, "default_limit": 1}
                for name in wanted]}

        found = self.v3("POST", "/registered_limits", items(*names), status=201).json
        self.assertEqual({"registered_limits"}, set(found))
        self.assertEqual(names, [each["resource_name"] for each in found["registered_limits"]])
        for wanted in (("new", "cores"), ("new", "new")):
            self.refused(
                409, "Duplicate entry", "POST", "/registered_limits", items(*wanted))
        kept = self.v3("GET", "/registered_limits").json["registered_limits"]
        self.assertEqual(names, [each["resource_name"] for each in kept])

    def test_unique_without_a_region_too(self) -> None:
        """B1, and the same name in a region and without one."""
        self.registered()
        self.registered(region_id=None)
        for region in (None, "RegionOne"):
            self.refused(409, "Conflict occurred attempting to store registered_limit", "POST",
                         "/registered_limits", {"registered_limits": [{
                             "service_id": self.service, "region_id": region,
                             "resource_name": "cores", "default_limit": 3}]})

    def test_in_use(self) -> None:
        made = self.registered()
        self.limit(self.top)
        path = f"/registered_limits/{made['id']}"
        for changes in ({"default_limit": 11}, {"description": "new"}):
            self.refused(403, f"registered limit {made['id']} because there are project limits",
                         "PATCH", path, {"registered_limit": changes})
        self.refused(403, "project limits associated", "DELETE", path)
        self.v3("PATCH", path, {"registered_limit": {}}, status=200)

    def test_filters(self) -> None:
        other = self.make("services", "service", type="image", name="glance")["id"]
        self.registered("cores")
        self.registered("Cores", region_id=None)
        self.registered("ram")
        self.registered("cores", service_id=other)
        for query, names in (
            (f"service_id={self.service}", ["cores", "Cores", "ram"]),
            (f"service_id={NOBODY}", []),
            ("region_id=RegionOne", ["cores", "ram", "cores"]),
            ("region_id=None", []),
            ("resource_name=ram", ["ram"]),
            (f"service_id={other}&resource_name=cores", ["cores"]),
            (f"service_id={other}&resource_name=ram", []),
            ("resource_name__contains=ore", ["cores", "Cores", "cores"]),
            ("resource_name__startswith=c", ["cores", "cores"]),
            ("resource_name__istartswith=C", ["cores", "Cores", "cores"]),
            ("resource_name__endswith=m", ["ram"]),
            ("resource_name__icontains=CORE&region_id=RegionOne", ["cores", "cores"]),
            ("resource_name__contains=%25", []),
            ("resource_name__contains=_", []),
            ("resource_name=cores&resource_name=ram", []),
        ):
            found = self.v3("GET", f"/registered_limits?{query}", status=200).json
            self.assertEqual(
                names, [each["resource_name"] for each in found["registered_limits"]], query)
            self.assertTrue(found["links"]["self"].endswith(f"?{query}"))
