"""Whatever is sent: an answer or a refusal, never a 500."""

from __future__ import annotations

import json
import random
from typing import Any

from tests import databases
from tests.http.limits_api.cases import NOBODY, LimitsTestCase

_ODD = (
    None, True, False, 0, -1, 5.5, 1e400, 2**31, 2**63, -(2**63), 2**70, "", " ", "x" * 300,
    "x" * 70000, "\u0000", "\ud800", "%", "_", "*", "a/b", "größe", "\U0001f600", [], {}, [[]],
    [None], {"": ""}, {"a": {"b": []}}, NOBODY, "RegionOne", "'; DROP TABLE limits; --",
    "\n", "-1", "1e3",
)
_ODD_QUERIES = (
    "", "%ff", "%00", "%", "%zz", "x" * 3000, "%F0%9F%98%80", "'", "%27%3B--", "*", "%25", "_",
    "\\", "None", "null", "-1", "99999999999999999999", "1e5", "[]",
    "a%0Ab", "%E2%80%8B", "%ED%A0%80",
)


def _spoilt(chance: random.Random, body: Any) -> Any:
    """Return a body with one thing in it changed."""
    if isinstance(body, dict) and body and chance.random() < 0.9:
        key = chance.choice(list(body))
        draw = chance.random()
        if draw < 0.1:
            return {name: value for name, value in body.items() if name != key}
        if draw < 0.2:
            return {**body, chance.choice(["id", "more", "", "links"]): chance.choice(_ODD)}
        return {**body, key: _spoilt(chance, body[key])}
    if isinstance(body, list) and body and chance.random() < 0.9:
        place = chance.randrange(len(body))
        return [*body[:place], _spoilt(chance, body[place]), *body[place + 1:]]
    return chance.choice(_ODD)


@databases.on_each_database
class TestBadInput(LimitsTestCase):
    def assert_answered(self, method: str, path: str, body: Any = None) -> None:
        sent = None if body is None else json.dumps(body).encode()
        response = self.ask(method, path, sent, version=None)
        self.assertLess(response.status_int, 500, f"{method} {path} {body!r:.300}")
        if response.status_int >= 400 and path.startswith("/v3"):
            self.assertEqual(
                response.status_int, response.json["error"]["code"], response.text[:300])

    def test_bodies(self) -> None:
        registered = self.registered()
        made = self.limit(self.top)
        user_limit = {"project_id": self.top, "user_id": "bob", "service_id": self.service,
                      "region_id": "RegionOne", "resource_name": "cores", "resource_limit": 3,
                      "description": "x"}
        endpoint = self.make("endpoints", "endpoint", service_id=self.service,
                             interface="public", url="http://x")["id"]
        requests = (
            ("POST", "/v3/registered_limits", {"registered_limits": [{
                "service_id": self.service, "region_id": "RegionOne", "resource_name": "a",
                "default_limit": 1, "description": "x"}] * 2}),
            ("POST", "/v3/limits", {"limits": [
                self.item(self.side, description="x"), self.item(None, domain_id=self.domain)]}),
            ("PATCH", f"/v3/registered_limits/{registered['id']}", {"registered_limit": {
                "service_id": self.service, "region_id": "RegionOne", "resource_name": "b",
                "default_limit": 1, "description": "x"}}),
            ("PATCH", f"/v3/limits/{made['id']}", {"limit": {
                "resource_limit": 5, "description": "x"}}),
            ("POST", "/v3/regions", {"region": {
                "id": "r", "parent_region_id": "RegionOne", "description": "x"}}),
            ("PATCH", "/v3/regions/RegionOne", {"region": {
                "parent_region_id": None, "description": "x"}}),
            ("POST", "/v3/services", {"service": {
                "type": "x", "name": "x", "description": "x", "enabled": True}}),
            ("PATCH", f"/v3/services/{self.service}", {"service": {
                "type": "compute", "name": "x", "description": "x", "enabled": True}}),
            ("POST", "/v3/endpoints", {"endpoint": {
                "service_id": self.service, "interface": "public", "url": "http://x",
                "region_id": "RegionOne", "region": None, "enabled": True}}),
            ("PATCH", f"/v3/endpoints/{endpoint}", {"endpoint": {
                "service_id": self.service, "interface": "admin", "url": "http://x",
                "region_id": "RegionOne", "enabled": True}}),
            ("POST", "/v3/domains", {"domain": {
                "name": "d", "description": "x", "enabled": True, "tags": [], "options": {}}}),
            ("PATCH", f"/v3/domains/{self.domain}", {"domain": {
                "name": "cloud", "description": "x", "enabled": True}}),
            ("POST", "/v3/projects", {"project": {
                "name": "p", "domain_id": self.domain, "parent_id": self.top,
                "description": "x", "enabled": True, "is_domain": False}}),
            ("PATCH", f"/v3/projects/{self.side}", {"project": {
                "name": "side", "parent_id": self.domain, "description": "x",
                "enabled": True}}),
            ("POST", "/v3/auth/tokens", {"auth": {
                "identity": {"methods": ["password"], "password": {"user": {
                    "name": "bob", "domain": {"id": "default"}, "password": "x"}}},
                "scope": {"project": {"name": "top", "domain": {"id": "default"}}}}}),
            ("POST", "/capacity/v1/limits/users", {"user_limits": [user_limit]}),
        )
        chance = random.Random(20260)
        rounds = 40 if self.kind == "sqlite" else 10
        for method, path, body in requests:
            for _ in range(rounds):
                self.assert_answered(method, path, _spoilt(chance, body))

    def test_queries(self) -> None:
        for path, names in (
            ("/v3/registered_limits", ("service_id", "region_id", "resource_name", "limit",
                                       "marker", "resource_name__icontains",
                                       "service_id__startswith")),
            ("/v3/limits", ("project_id", "domain_id", "region_id__contains", "limit", "marker",
                            "project_id__iendswith")),
            ("/v3/services", ("type", "name")),
            ("/v3/endpoints", ("service_id", "region_id", "interface")),
            ("/v3/regions", ("parent_region_id",)),
            ("/v3/domains", ("name",)),
            ("/v3/projects", ("name", "domain_id", "parent_id")),
            ("/capacity/v1/limits/users", ("project_id", "user_id", "limit", "marker")),
            ("/capacity/v1/limits/history", ("project_id", "kind", "limit", "marker")),
            ("/capacity/v1/limits/effective", ("service_id", "region_id", "project_id")),
        ):
            for name in names:
                for value in _ODD_QUERIES:
                    self.assert_answered("GET", f"{path}?{name}={value}")

    def test_ids(self) -> None:
        for collection in ("v3/registered_limits", "v3/limits", "v3/regions", "v3/services",
                           "v3/endpoints", "v3/domains", "v3/projects",
                           "capacity/v1/limits/users"):
            for value in _ODD_QUERIES:
                self.assert_answered("GET", f"/{collection}/{value}")
                self.assert_answered("DELETE", f"/{collection}/{value or NOBODY}")
