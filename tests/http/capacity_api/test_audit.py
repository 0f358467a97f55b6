"""GET /capacity/v1/audit: who changed what."""

from __future__ import annotations

from placement_core.testing import factories
from tests import databases
from tests.http.base import HttpTestCase

_PATH = "/capacity/v1/audit"


class AuditTestCase(HttpTestCase):
    options = {("audit", "enabled"): True}

    def get(self, query="", status=200, **options):
        response = self.ask("GET", f"{_PATH}{query}", version=None, **options)
        self.assertEqual(status, response.status_int, response.text)
        return response.json


@databases.on_each_database
class TestAudit(AuditTestCase):

    def test_who_did_what(self):
        uuid = factories.new_uuid()
        response = self.ask("POST", "/resource_providers", {"name": "host", "uuid": uuid},
                            token="admin")
        [entry] = self.get(f"?uuid={uuid}")["entries"]
        self.assertEqual(
            ("admin", "POST /resource_providers", "provider", uuid, "host",
             response.headers["x-openstack-request-id"]),
            tuple(entry[name] for name in (
                "user_id", "operation", "kind", "uuid", "name", "request_id")))
        self.assertRegex(entry["transaction"], "^[0-9a-f]+$")

    def test_operations_of_each_api(self):
        self.assertEqual(201, self.ask("POST", "/v3/regions", {"region": {"id": "north"}},
                                       version=None).status_int)
        [entry] = self.get("?operation=POST%20/v3/regions")["entries"]
        self.assertIsNone(entry["kind"])

    def test_pages(self):
        for _ in range(3):
            self.ask("POST", "/resource_providers", {"name": factories.new_uuid()})
        page = self.get("?limit=2")
        last = self.get(page["links"]["next"].removeprefix(_PATH))
        self.assertEqual((2, 1), (len(page["entries"]), len(last["entries"])))
        self.assertIsNone(last["links"]["next"])


class TestRefusals(AuditTestCase):

    def test_bad_queries(self):
        for query in ("from=yesterday", "limit=0", "marker=x", "x=1", "uuid="):
            self.get(f"?{query}", status=400)

    def test_who_may_ask(self):
        for role, status in (("admin", 200), ("service", 403), ("reader", 403)):
            self.get(status=status, token="joan:web", headers={"x-roles": role})


class TestWithChanges(AuditTestCase):

    def changes(self, query, status=200, **options):
        response = self.ask("GET", f"/capacity/v1/changes?{query}", version=None, **options)
        self.assertEqual(status, response.status_int, response.text)
        return response.json

    def test_the_requests_that_made_the_changes(self):
        uuid = factories.new_uuid()
        token = self.changes("after=now")["next"]
        self.ask("POST", "/resource_providers", {"name": "host", "uuid": uuid})
        answer = self.changes(f"after={token}&include=document,audit&kinds=provider")
        [change], [entry] = answer["changes"], answer["audit"]
        self.assertEqual((uuid, uuid), (change["id"], entry["uuid"]))
        self.assertEqual("POST /resource_providers", entry["operation"])
        self.assertIn("document", change)
        self.assertNotIn("audit", self.changes(f"after={token}&include=document"))
        self.assertEqual([], self.changes("include=audit")["audit"])

    def test_who_may_not_read_the_audit(self):
        options = {"token": "joan:web", "headers": {"x-roles": "service"}}
        self.changes("include=document", **options)
        self.changes("include=audit", 403, **options)
