"""Jane and Baobab, the story that unified limits were proposed with, through the APIs.

Limits are set through ``/v3``, servers take allocations, usage is what
``GET /usages`` says, and the enforcer library decides as nova would.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

from placement_core.enforcer import Connection, Enforcer, ProjectOverLimit
from tests import databases
from tests.http.placement_api.cases import PlacementTestCase
from tests.http.served import Served
from tests.unit.enforcer.cloud import configuration, file

CORES = "class:VCPU"


class StoryTestCase(PlacementTestCase):
    """A cloud with a host of 64 processors; servers have one each."""

    def setUp(self) -> None:
        super().setUp()
        self.host = self.provider("host", VCPU=64)
        self.servers: dict[str, list[str]] = {}
        region = self.limits("POST", "regions", {"region": {"id": "here"}})["region"]
        service = self.limits(
            "POST", "services", {"service": {"type": "compute", "name": "nova"}})["service"]
        endpoint = self.limits("POST", "endpoints", {"endpoint": {
            "service_id": service["id"], "region_id": region["id"], "interface": "public",
            "url": "http://nova"}})["endpoint"]
        self.key = {"service_id": service["id"], "region_id": region["id"],
                    "resource_name": CORES}
        self.savanna = self.limits(
            "POST", "domains", {"domain": {"name": "savanna"}})["domain"]["id"]
        self.baobab = self.project("baobab", self.savanna)
        self.limits("POST", "registered_limits", {
            "registered_limits": [{**self.key, "default_limit": 20}]})
        url = self.useFixture(Served(self.app)).url
        self.enforcer = Enforcer(
            self.usage, tree_usage_callback=self.tree_usage, connection=Connection(configuration(
                file(self, auth_type="admin_token", endpoint=f"{url}/v3", token="admin",
                     endpoint_id=endpoint["id"]))))

    def limits(self, method: str, path: str, body: Any = None, status: int | None = None) -> Any:
        """Ask the limits API as Kelly, the administrator."""
        response = self.ask(method, f"/v3/{path}", body, version=None)
        if status is None:
            self.assertLess(response.status_int, 300, response.body)
        else:
            self.assertEqual(status, response.status_int, response.body)
        return response.json if response.body else None

    def project(self, name: str, above: str) -> str:
        body = {"name": name, "domain_id": self.savanna}
        if above != self.savanna:
            body["parent_id"] = above
        return self.limits("POST", "projects", {"project": body})["project"]["id"]

    def limit(self, node: str, value: int) -> str:
        """Set a limit of a project or domain; return its id."""
        whose = "domain_id" if node == self.savanna else "project_id"
        return self.limits("POST", "limits", {"limits": [
            {**self.key, whose: node, "resource_limit": value}]})["limits"][0]["id"]

    def change(self, limit: str, value: int, status: int | None = None) -> Any:
        return self.limits(
            "PATCH", f"limits/{limit}", {"limit": {"resource_limit": value}}, status)

    def boot(self, project: str, count: int = 1) -> None:
        """Start servers as nova does: ask whether they may, then claim."""
        self.enforcer.enforce(project, {CORES: count})
        for _ in range(count):
            server = str(uuid.uuid4())
            self.call("PUT", f"/allocations/{server}", self.claim(
                {self.host: {"VCPU": 1}}, project=project, user="jane"), status=204)
            self.servers.setdefault(project, []).append(server)

    def refused(self, project: str, count: int = 1) -> list[tuple[Any, ...]]:
        """Expect that servers may not start; return whose limit, limit, usage, asked."""
        error = self.assertRaises(ProjectOverLimit, self.boot, project, count)
        return [(one.node_id, one.limit, one.current_usage, one.delta)
                for one in error.over_limit_info_list]

    def stop(self, project: str, count: int) -> None:
        for _ in range(count):
            self.call("DELETE", f"/allocations/{self.servers[project].pop()}", status=204)

    def used(self, project: str) -> int:
        """Return the processors that a project uses."""
        answer = self.call("GET", f"/usages?project_id={project}", status=200).json
        return sum(each.get("VCPU", 0) for each in answer["usages"].values())

    def usage(self, project: str | None, names: Collection[str]) -> dict[str, int]:
        self.assertEqual([CORES], list(names))
        assert project is not None
        return {CORES: self.used(project)}

    def tree_usage(self, projects: Collection[str], names: Collection[str]) -> dict[str, int]:
        self.assertEqual([CORES], list(names))
        return {CORES: sum(self.used(each) for each in projects)}


@databases.on_each_database
class TestJaneAndBaobab(StoryTestCase):
    """The story as it was told."""

    def test_lowered_below_usage(self) -> None:
        """Allowed; Jane gets nothing more until at least 9 of 18 are gone."""
        self.boot(self.baobab, 18)
        self.assertEqual(18, self.used(self.baobab))
        self.assertEqual([(self.baobab, 20, 18, 3)], self.refused(self.baobab, 3))
        self.limit(self.baobab, 10)
        self.assertEqual([(self.baobab, 10, 18, 1)], self.refused(self.baobab))
        self.stop(self.baobab, 8)
        self.assertEqual([(self.baobab, 10, 10, 1)], self.refused(self.baobab))
        self.stop(self.baobab, 1)
        self.boot(self.baobab)
        self.assertEqual([(self.baobab, 10, 10, 1)], self.refused(self.baobab))
        self.assertEqual(10, self.used(self.baobab))

    def test_raised_again(self) -> None:
        """And a limit that is taken back leaves the default."""
        limit = self.limit(self.baobab, 0)
        self.assertEqual([(self.baobab, 0, 0, 1)], self.refused(self.baobab))
        self.change(limit, 3)
        self.boot(self.baobab, 3)
        self.limits("DELETE", f"limits/{limit}")
        self.boot(self.baobab, 17)
        self.assertEqual([(self.baobab, 20, 20, 1)], self.refused(self.baobab))


@databases.on_each_database
class TestInATree(StoryTestCase):
    """Baobab and Acacia share what the domain Savanna may use."""

    options = {("limits", "enforcement_model"): "strict_two_level"}

    def test_the_tree_is_full(self) -> None:
        """Each may have 15, together 20: the refusal names the domain."""
        acacia = self.project("acacia", self.savanna)
        whole = self.limit(self.savanna, 20)
        own = [self.limit(each, 15) for each in (self.baobab, acacia)]
        self.boot(self.baobab, 15)
        self.boot(acacia, 5)
        self.assertEqual([(self.savanna, 20, 20, 1)], self.refused(acacia))
        self.assertEqual(
            [(self.baobab, 15, 15, 1), (self.savanna, 20, 20, 1)], self.refused(self.baobab))
        # Below its projects' limits it may not go: the refusal names one of them.
        said = self.change(whole, 10, status=403)["error"]["message"]
        self.assertTrue(self.baobab in said or acacia in said, said)
        for limit in own:
            self.change(limit, 8)
        self.change(whole, 10)
        self.stop(self.baobab, 9)
        self.assertEqual([(self.savanna, 10, 11, 1)], self.refused(acacia))
        self.stop(acacia, 2)
        self.boot(acacia)
        self.assertEqual([(self.savanna, 10, 10, 1)], self.refused(acacia))

    def test_a_project_below(self) -> None:
        """What a child project uses counts for its parent, which has a limit for both."""
        seedling = self.project("seedling", self.baobab)
        self.limit(self.baobab, 6)
        self.boot(seedling, 4)
        self.boot(self.baobab, 2)
        self.assertEqual([(self.baobab, 6, 6, 1)], self.refused(seedling))
        self.assertEqual([(self.baobab, 6, 6, 1)], self.refused(self.baobab))
        self.stop(seedling, 1)
        self.boot(self.baobab)
        self.assertEqual([(self.baobab, 6, 6, 1)], self.refused(seedling))
