"""GET /capacity/v1/usages: what all projects use."""

from __future__ import annotations

from typing import Any

from placement_core.testing import factories
from tests import databases
from tests.http.base import HttpTestCase
from tests.round_trips import RoundTrips

PATH = "/capacity/v1/usages"


class UsagesTestCase(HttpTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.ctx = self.parts[0].context()
        self.host = factories.provider(
            self.ctx, inventory={"VCPU": 100, "MEMORY_MB": 8192}).uuid

    def claim(self, project: str, **resources: int) -> str:
        uuid = factories.new_uuid()
        response = self.ask("PUT", f"/allocations/{uuid}", {
            "allocations": {self.host: {"resources": resources}}, "project_id": project,
            "user_id": "jane", "consumer_type": "INSTANCE", "consumer_generation": None})
        self.assertEqual(204, response.status_int, response.text)
        return uuid

    def list_(self, query: str = "", status: int = 200, **options: Any) -> Any:
        response = self.ask("GET", f"{PATH}{query}", version=None, **options)
        self.assertEqual(status, response.status_int, response.text)
        return response.json


@databases.on_each_database
class TestUsages(UsagesTestCase):
    def test_what_projects_use(self) -> None:
        self.claim("web", VCPU=2, MEMORY_MB=512)
        self.claim("web", VCPU=3)
        self.claim("data", MEMORY_MB=64)
        gone = self.claim("gone", VCPU=1)
        self.assertEqual(204, self.ask("DELETE", f"/allocations/{gone}").status_int)
        self.assertEqual({"links": {"next": None}, "usages": [
            {"project_id": "data", "consumer_count": 1, "resources": {"MEMORY_MB": 64}},
            {"project_id": "web", "consumer_count": 2,
             "resources": {"MEMORY_MB": 512, "VCPU": 5}}]}, self.list_())

    def test_pages(self) -> None:
        """Following the links lists every project once, past those that use nothing."""
        projects = [f"project-{number}" for number in range(7)]
        uuids = [self.claim(project, VCPU=1) for project in projects]
        for uuid in uuids[2:5]:
            self.assertEqual(204, self.ask("DELETE", f"/allocations/{uuid}").status_int)
        page, found = self.list_("?limit=2"), []
        while True:
            self.assertLessEqual(len(page["usages"]), 2)
            found += [usage["project_id"] for usage in page["usages"]]
            if not page["links"]["next"]:
                break
            page = self.list_(page["links"]["next"].partition(PATH)[2])
        self.assertEqual([*projects[:2], *projects[5:]], found)

    def test_bad_queries(self) -> None:
        for query in ("?limit=0", "?limit=x", "?project_id=web"):
            self.list_(query, status=400)
        for text in ("%00", "%ED%A0%80", "x" * 255, "%E2%98%83"):
            answer = self.ask("GET", f"{PATH}?marker={text}", version=None)
            self.assertIn(answer.status_int, (200, 400), text)

    def test_round_trips(self) -> None:
        """A page is two statements in a transaction, however long it is."""
        for number in range(5):
            self.claim(f"project-{number}", VCPU=1)
        trips = RoundTrips(self.parts[0].database)
        self.assertLessEqual(trips.of(self.list_), 4)


class TestWhoMay(UsagesTestCase):
    def test_administrators_and_services_only(self) -> None:
        for roles, status in (("admin", 200), ("service", 200), ("reader", 403), ("member", 403)):
            self.list_(status=status, token="jane:web", headers={"X-Roles": roles})
