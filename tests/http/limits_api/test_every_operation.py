"""Each route of the limits API, and of limits in the capacity API, is asked once."""

from __future__ import annotations

from typing import Any

from placement_core.http.capacity_api.api import API as CAPACITY
from placement_core.http.limits_api.api import API as LIMITS
from tests.http.limits_api.cases import LimitsTestCase


class TestEveryOperation(LimitsTestCase):
    def test_each(self) -> None:
        ids = {
            "registered_limits": self.registered("ram")["id"],
            "regions": self.make("regions", "region")["id"],
            "services": self.make("services", "service", type="x")["id"],
            "domains": self.make("domains", "domain", name="d", enabled=False)["id"],
            "projects": self.project("p"),
            "endpoints": self.make("endpoints", "endpoint", service_id=self.service,
                                   interface="public", url="http://x")["id"],
        }
        self.registered()
        ids["limits"] = self.limit(self.top)["id"]
        user = {"user_id": "bob", **self.item(self.top)}
        registered = {"service_id": self.service, "resource_name": "new", "default_limit": 1}
        bodies: dict[str, Any] = {
            "POST /v3/auth/tokens": {"auth": {"identity": {"token": {"id": "bob"}}}},
            "POST /v3/registered_limits": {"registered_limits": [registered]},
            "PATCH /v3/registered_limits/{id}": {"registered_limit": {"default_limit": 2}},
            "POST /v3/limits": {"limits": [self.item(self.side)]},
            "PATCH /v3/limits/{id}": {"limit": {"resource_limit": 1}},
            "POST /v3/regions": {"region": {}}, "PATCH /v3/regions/{id}": {"region": {}},
            "POST /v3/services": {"service": {"type": "x"}},
            "PATCH /v3/services/{id}": {"service": {}},
            "POST /v3/endpoints": {"endpoint": {
                "service_id": self.service, "interface": "public", "url": "http://x"}},
            "PATCH /v3/endpoints/{id}": {"endpoint": {}},
            "POST /v3/domains": {"domain": {"name": "new"}},
            "PATCH /v3/domains/{id}": {"domain": {}},
            "POST /v3/projects": {"project": {"name": "new", "domain_id": self.domain}},
            "PATCH /v3/projects/{id}": {"project": {}},
            "POST /capacity/v1/limits/users": {"user_limits": [user]},
            "PATCH /capacity/v1/limits/users/{id}": {"user_limit": {"resource_limit": 1}},
        }
        queries = {"/capacity/v1/limits/effective": f"?service_id={self.service}"}
        expected = {"GET": 200, "PATCH": 200, "POST": 201, "DELETE": 204}
        for api, below in ((LIMITS, ""), (CAPACITY, "/limits/")):
            # What is deleted is still there for the others.
            for operation in sorted(api.operations, key=lambda each: each.method == "DELETE"):
                if not operation.path.startswith(below):
                    continue
                path = f"{api.prefix}{operation.path}"
                collection = path.removesuffix("/{id}").rpartition("/")[2]
                response = self.ask(
                    operation.method,
                    path.replace("{id}", ids.get(collection, "")) + queries.get(path, ""),
                    bodies.get(f"{operation.method} {path}"), version=None)
                self.assertEqual(
                    expected[operation.method], response.status_int, f"{path} {response.text}")
                if operation.method == "POST" and collection == "users":
                    ids["users"] = response.json["user_limits"][0]["id"]
