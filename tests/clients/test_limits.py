"""Clients of Keystone's limits, against the served application."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import uuid
from typing import Any

import openstack
import openstack.exceptions
from oslo_limit import exception as oslo_exception, limit as oslo_limit

from placement_core.enforcer import Connection, Enforcer, OverLimitInfo, ProjectOverLimit
from tests import base, serving
from tests.clients import preloaded
from tests.clients.limits_catalog import REGION, LimitsCatalog
from tests.unit.enforcer import judge
from tests.unit.enforcer.cloud import configuration, file


class ClientTestCase(base.DatabaseTestCase):
    """A served application with a small cloud in it."""

    options: dict[str, str] = {}

    def setUp(self) -> None:
        super().setUp()
        self.service = self.useFixture(
            serving.Service(self.database.settings.connection, options=self.options))
        self.catalog = self.useFixture(LimitsCatalog(self.service))
        self.ids = self.catalog.ids

    def section(self, **options: str | None) -> dict[str, str | None]:
        """Return ``[oslo_limit]`` of a service that logs in with a password."""
        return {
            "auth_type": "password", "auth_url": f"{self.service.url}/v3", "username": "admin",
            "password": "any", "user_domain_id": "default", "project_name": "service",
            "project_domain_id": "default", "endpoint_id": self.ids["endpoint"], **options}


class TestOsloLimit(ClientTestCase):
    """Nova's and glance's library, with the section that they would have."""

    def configure(self, **options: str | None) -> None:
        self.useFixture(judge.OsloLimit(file(self, **self.section(**options))))

    def check(self) -> None:
        """Expect the limits of baobab and the defaults of others to be enforced."""
        self.catalog.register(cores=20, ram=4096)
        self.catalog.limit("baobab", cores=10)
        enforcer = oslo_limit.Enforcer(lambda project, names: dict.fromkeys(names, 8))
        enforcer.enforce(self.ids["baobab"], {"cores": 2, "ram": 4088})
        enforcer.enforce(self.ids["acacia"], {"cores": 12})
        error = self.assertRaises(
            oslo_exception.ProjectOverLimit, enforcer.enforce, self.ids["baobab"],
            {"cores": 3, "ram": 1, "disk": 0})
        self.assertEqual([("cores", 10, 8, 3), ("disk", 0, 8, 0)], [
            (one.resource_name, one.limit, one.current_usage, one.delta)
            for one in error.over_limit_info_list])

    def test_by_endpoint(self) -> None:
        """[oslo_limit] endpoint_id."""
        self.configure()
        self.check()

    def test_by_service(self) -> None:
        """Type, name, region and interface."""
        self.configure(
            endpoint_id=None, endpoint_service_type="compute", endpoint_service_name="nova",
            endpoint_region_name=REGION, endpoint_interface="public")
        self.check()

    def test_as_ours(self) -> None:
        """Random claims: the same answers as from our own library, which asks less."""
        self.configure()
        path = re.compile(r'"GET (\S+)')
        read = [0]

        def requests() -> int:
            # Its line is behind all others, which are written some time after the answers.
            last = f"/{uuid.uuid4()}"
            self.service.request("GET", last)
            deadline = time.monotonic() + serving.SECONDS_TO_START
            while last not in (text := self.service.log.read_text()):
                self.assertLess(time.monotonic(), deadline, text)
                time.sleep(0.005)
            came = len(path.findall(text, read[0])) - 1
            read[0] = len(text)
            return came

        connection = Connection(configuration(file(self, **self.section())))
        projects = [self.ids["baobab"], self.ids["acacia"]]
        judge.compare(self, connection, self.catalog.replace, requests, projects=projects,
                      turns=10)


class TestAHierarchy(ClientTestCase):
    """oslo.limit, told ``flat`` where the model in force is another one."""

    options = {"OS_LIMITS__ENFORCEMENT_MODEL": "strict_two_level",
               "OS_LIMITS__ADVERTISED_MODEL": "flat"}

    def test_each_project_alone(self) -> None:
        """It enforces what it understands; our own library sees the tree."""
        self.useFixture(judge.OsloLimit(file(self, **self.section())))
        self.catalog.register(cores=20)
        self.catalog.limit(self.ids["savanna"], cores=25)
        self.catalog.limit("baobab", cores=15)
        enforcer = oslo_limit.Enforcer(lambda project, names: {"cores": 14})
        enforcer.enforce(self.ids["baobab"], {"cores": 1})
        self.assertRaises(oslo_exception.ProjectOverLimit, enforcer.enforce,
                          self.ids["baobab"], {"cores": 2})
        ours = Enforcer(lambda project, names: {"cores": 14}, connection=Connection(
            configuration(file(self, **self.section()))))
        error = self.assertRaises(
            ProjectOverLimit, ours.enforce, self.ids["baobab"], {"cores": 1})
        self.assertEqual(
            [OverLimitInfo("cores", 25, 28, 1, node_id=self.ids["savanna"], scope="subtree")],
            error.over_limit_info_list)


class TestOpenStackSDK(ClientTestCase):
    """openstacksdk's identity proxy."""

    def setUp(self) -> None:
        super().setUp()
        cloud = openstack.connection.Connection(
            auth_type="password", auth={
                "auth_url": f"{self.service.url}/v3", "username": "admin", "password": "any",
                "user_domain_id": "default", "project_name": "service",
                "project_domain_id": "default"})
        self.addCleanup(cloud.close)
        self.identity = cloud.identity

    def names(self, found: Any) -> list[str]:
        return sorted(one.resource_name for one in found)

    def test_registered_limits(self) -> None:
        """Make, show, change, filter, page, delete."""
        made = self.identity.create_registered_limit(
            service_id=self.ids["nova"], region_id=REGION, resource_name="cores",
            default_limit=20, description="processors")
        self.assertEqual(
            (20, "cores", REGION, "processors"),
            (made.default_limit, made.resource_name, made.region_id, made.description))
        self.assertEqual(20, self.identity.get_registered_limit(made.id).default_limit)
        changed = self.identity.update_registered_limit(made, default_limit=0)
        self.assertEqual(0, changed.default_limit)
        self.assertEqual(0, self.identity.get_registered_limit(made.id).default_limit)
        self.identity.create_registered_limit(
            service_id=self.ids["nova"], resource_name="ram", default_limit=-1)
        self.assertEqual(["cores", "ram"], self.names(self.identity.registered_limits()))
        self.assertEqual(
            ["cores"], self.names(self.identity.registered_limits(region_id=REGION)))
        self.assertEqual(
            ["ram"], self.names(self.identity.registered_limits(resource_name="ram")))
        self.identity.delete_registered_limit(made)
        self.assertRaises(openstack.exceptions.NotFoundException,
                          self.identity.get_registered_limit, made.id)

    def test_limits(self) -> None:
        """Make, show, change, filter, delete."""
        self.catalog.register(cores=20, ram=4096)
        made = self.identity.create_limit(
            project_id=self.ids["baobab"], service_id=self.ids["nova"], region_id=REGION,
            resource_name="cores", resource_limit=10)
        self.catalog.limit("acacia", cores=5, ram=1024)
        self.assertEqual(10, self.identity.get_limit(made.id).resource_limit)
        self.identity.update_limit(made, resource_limit=0, description="frozen")
        found = self.identity.get_limit(made.id)
        self.assertEqual((0, "frozen"), (found.resource_limit, found.description))
        self.assertEqual(3, len(list(self.identity.limits())))
        self.assertEqual(["cores", "ram"], self.names(
            self.identity.limits(project_id=self.ids["acacia"])))
        self.assertEqual(["cores", "cores"], self.names(
            self.identity.limits(resource_name="cores", service_id=self.ids["nova"])))
        self.identity.delete_limit(made)
        self.assertRaises(
            openstack.exceptions.NotFoundException, self.identity.get_limit, made.id)
        error = self.assertRaises(
            openstack.exceptions.ForbiddenException, self.identity.create_limit,
            project_id=self.ids["baobab"], service_id=self.ids["nova"], region_id=REGION,
            resource_name="disc", resource_limit=10)
        self.assertIn("registered limit", str(error))

    def test_pages(self) -> None:
        """Each item once, and an end (Keystone's pages have none)."""
        names = [f"resource{number}" for number in range(7)]
        self.catalog.register(**dict.fromkeys(names, 1))
        self.catalog.limit("baobab", **dict.fromkeys(names, 1))
        self.assertEqual(names, self.names(self.identity.registered_limits(limit=3)))
        self.assertEqual(names, self.names(
            self.identity.limits(limit=2, project_id=self.ids["baobab"])))

    def test_what_is_enabled(self) -> None:
        """Filters of projects and domains."""
        self.catalog.make("domains", {"name": "desert", "enabled": False})
        self.catalog.make("projects", {
            "name": "cactus", "domain_id": self.ids["savanna"], "enabled": False})
        for kind, on, off in (("projects", ["acacia", "baobab"], ["cactus"]),
                              ("domains", ["savanna"], ["desert"])):
            for is_enabled, expected in ((True, on), (False, off)):
                records = getattr(self.identity, kind)(is_enabled=is_enabled)
                self.assertEqual(expected, sorted(record.name for record in records))

    def test_pages_of_the_catalog(self) -> None:
        """Each project and each domain once."""
        names = {"projects": ["acacia", "baobab"], "domains": ["savanna"]}
        for number in range(5):
            names["projects"].append(f"tree{number}")
            self.catalog.make("projects", {
                "name": f"tree{number}", "domain_id": self.ids["savanna"]})
            names["domains"].append(f"wood{number}")
            self.catalog.make("domains", {"name": f"wood{number}"})
        for kind, expected in names.items():
            for query in ({"limit": 2}, {"limit": 3, "max_items": 100}):
                pages = getattr(self.identity, kind)(**query)
                self.assertEqual(sorted(expected), sorted(record.name for record in pages))
            few = [record.name for record in getattr(self.identity, kind)(max_items=5)]
            self.assertEqual(5, len(set(few)), few)


class TestOpenStackClient(ClientTestCase):
    """``openstack registered limit …`` and ``openstack limit …``."""

    def openstack(self, *arguments: str, succeeds: bool = True) -> Any:
        """Run the command line client; return its JSON output, or its complaint."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OS_")}
        removes = "delete" in arguments[:3]
        done = subprocess.run(
            [
                *preloaded.command(),
                *("--os-auth-type", "password", "--os-auth-url", f"{self.service.url}/v3"),
                *("--os-username", "admin", "--os-password", "any"),
                *("--os-user-domain-id", "default", "--os-project-name", "service"),
                *("--os-project-domain-id", "default", "--os-identity-api-version", "3"),
                *arguments, *([] if removes else ["-f", "json"]),
            ],
            env=environment, capture_output=True, text=True)
        self.assertEqual(succeeds, done.returncode == 0, done.stdout + done.stderr)
        if not succeeds:
            return done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    def test_from_a_default_to_a_limit(self) -> None:
        """Register, set for a project, look, change and remove."""
        made = self.openstack(
            "registered", "limit", "create", "--service", "nova", "--region", REGION,
            "--default-limit", "20", "cores")
        self.assertEqual(("cores", 20), (made["resource_name"], made["default_limit"]))
        registered = made["id"]
        self.openstack("registered", "limit", "set", "--default-limit", "25", registered)
        self.assertEqual(
            25, self.openstack("registered", "limit", "show", registered)["default_limit"])
        (listed,) = self.openstack(
            "registered", "limit", "list", "--service", "nova", "--resource-name", "cores")
        self.assertEqual((registered, 25), (listed["ID"], listed["Default Limit"]))

        made = self.openstack(
            "limit", "create", "--project", "baobab", "--service", "nova", "--region", REGION,
            "--resource-limit", "10", "cores")
        limit = made["id"]
        self.assertEqual((self.ids["baobab"], 10), (made["project_id"], made["resource_limit"]))
        self.openstack("limit", "set", "--resource-limit", "0", limit)
        self.assertEqual(0, self.openstack("limit", "show", limit)["resource_limit"])
        (listed,) = self.openstack("limit", "list", "--project", "baobab")
        self.assertEqual((limit, 0), (listed["ID"], listed["Resource Limit"]))
        self.assertEqual([], self.openstack("limit", "list", "--project", "acacia"))

        refusal = self.openstack(
            "limit", "create", "--project", "baobab", "--service", "nova", "--region", REGION,
            "--resource-limit", "10", "disc", succeeds=False)
        self.assertIn("registered limit", refusal)
        refusal = self.openstack(
            "registered", "limit", "delete", registered, succeeds=False)
        self.assertIn("1 of 1", refusal)
        self.openstack("limit", "delete", limit)

        # The project of a limit may be a domain.
        made = self.openstack(
            "limit", "create", "--project", self.ids["savanna"], "--service", "nova",
            "--region", REGION, "--resource-limit", "30", "cores")
        limit = self.catalog.ask("GET", f"limits/{made['id']}")["limit"]
        self.assertEqual((self.ids["savanna"], None), (limit["domain_id"], limit["project_id"]))
        self.openstack("limit", "delete", made["id"])
        self.openstack("registered", "limit", "delete", registered)
        self.assertEqual([], self.openstack("registered", "limit", "list"))
