"""GET /capacity/v1/thresholds: limits that fill up, and capacity that is short."""

from __future__ import annotations

from placement_core.testing import factories
from tests.http.base import HttpTestCase

_PATH = "/capacity/v1/thresholds"


class TestThresholds(HttpTestCase):
    options = {
        ("thresholds", "enabled"): True, ("thresholds", "fewest_shapes"): 6,
        ("thresholds", "hysteresis"): 0,
        ("least_stranded", "shape"): ["VCPU:4"], ("quota", "count_usage_from_placement"): True}

    def get(self, status=200, query="", **options):
        response = self.ask("GET", f"{_PATH}{query}", version=None, **options)
        self.assertEqual(status, response.status_int, response.text)
        return response.json

    def limit(self, name, value):
        service = self.ask("POST", "/v3/services", {"service": {"type": "compute"}},
                           version=None).json["service"]["id"]
        response = self.ask("POST", "/v3/registered_limits", {"registered_limits": [{
            "service_id": service, "resource_name": name, "default_limit": value}]}, version=None)
        self.assertEqual(201, response.status_int, response.text)

    def test_what_is_reached(self):
        self.assertEqual(
            {"thresholds": [], "left": [], "links": {"next": None}}, self.get())
        parts = self.parts[0]
        ctx = parts.context()
        host = factories.provider(ctx, inventory={"VCPU": 24}).uuid
        self.limit("class:VCPU", 4)
        consumer = factories.new_uuid()
        self.ask("PUT", f"/allocations/{consumer}", {
            "allocations": {host: {"resources": {"VCPU": 4}}}, "project_id": "web",
            "user_id": "jane", "consumer_type": "INSTANCE", "consumer_generation": None})
        self.assertEqual(2, parts.thresholds.check(ctx))
        reached = self.get()["thresholds"]
        capacity, limit = sorted(reached, key=lambda each: each["kind"])
        self.assertEqual((1, {"VCPU": 4}, 6, 5), tuple(
            capacity[name] for name in ("level", "resources", "fewest", "fits")))
        self.assertEqual((100, "web", "own", "class:VCPU", 4, 4), tuple(
            limit[name] for name in (
                "level", "node_id", "scope", "resource_name", "limit", "used")))
        first = self.get(query="?limit=1")
        self.assertEqual(reached[:1], first["thresholds"])
        path, _, query = first["links"]["next"].partition("?")
        self.assertEqual(_PATH, path)
        self.assertEqual({"thresholds": reached[1:], "left": [], "links": {"next": None}},
                         self.get(query=f"?{query}"))
        self.ask("DELETE", f"/allocations/{consumer}")
        self.assertEqual(2, parts.thresholds.check(ctx))
        document = self.get()
        self.assertEqual([], document["thresholds"])
        capacity, limit = sorted(document["left"], key=lambda each: each["kind"])
        self.assertEqual((1, {"VCPU": 4}, 6, 6), tuple(
            capacity[name] for name in ("level", "resources", "fewest", "fits")))
        self.assertEqual((100, "web", "class:VCPU", 4, 0), tuple(
            limit[name] for name in ("level", "node_id", "resource_name", "limit", "used")))
        self.assertLess(limit["reached_at"], limit["left_at"])

    def test_refusals(self):
        for query in ("?x=1", "?limit=0", "?marker=%00", "?marker=x"):
            self.get(400, query)
        for role, status in (("service", 200), ("reader", 403)):
            self.get(status, token="joan:web", headers={"x-roles": role})
