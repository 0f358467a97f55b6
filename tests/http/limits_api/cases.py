"""A small cloud, and questions to the limits API."""

from __future__ import annotations

from typing import Any
from unittest import mock

import webob

from placement_core import app
from placement_core.http import identity
from tests.http import base
from tests.round_trips import RoundTrips

#: An id that nobody has.
NOBODY = "0" * 32


class LimitsTestCase(base.HttpTestCase):
    """A service in a region, and a domain with the projects top, middle and side.

    ``middle`` is below ``top``.

    :ivar trips: counts what is sent to the database.
    """

    def setUp(self) -> None:
        super().setUp()
        self.services = self.parts[0]
        self.trips = RoundTrips(self.services.database)
        self.fill()

    def fill(self) -> None:
        self.region = self.make("regions", "region", id="RegionOne")["id"]
        self.service = self.make("services", "service", type="compute", name="nova")["id"]
        self.domain = self.make("domains", "domain", name="cloud")["id"]
        self.top = self.project("top")
        self.middle = self.project("middle", self.top)
        self.side = self.project("side")

    def v3(
        self, method: str, path: str, body: Any = None, *, status: int | None = None,
        roles: str | None = None, **options: Any,
    ) -> webob.Response:
        """Send one request; ``path`` is below /v3."""
        options["headers"] = {"Host": "localhost", **options.get("headers", {})}
        if roles is not None:
            options["headers"]["X-Roles"] = roles
        response = self.ask(method, f"/v3{path}", body, version=None, **options)
        if status is not None:
            self.assertEqual(status, response.status_int, f"{path}: {response.text}")
        return response

    def refused(
        self, status: int, detail: str, method: str, path: str, body: Any = None,
        **options: Any,
    ) -> None:
        """Expect Keystone's error document."""
        response = self.v3(method, path, body, status=status, **options)
        self.assert_document(status, detail, response)

    def assert_document(self, status: int, detail: str, response: webob.Response) -> None:
        self.assertEqual({"error"}, set(response.json), response.text)
        error = response.json["error"]
        self.assertEqual({"code", "message", "title"}, set(error))
        self.assertEqual(status, error["code"])
        self.assertIn(detail, error["message"])
        self.assertEqual("application/json", response.content_type)

    def make(self, collection: str, name: str, /, **fields: Any) -> Any:
        return self.v3("POST", f"/{collection}", {name: fields}, status=201).json[name]

    def project(self, name: str, parent: str | None = None) -> str:
        return self.make(
            "projects", "project", name=name, domain_id=self.domain, parent_id=parent)["id"]

    def registered(self, name: str = "cores", default: int = 10, **fields: Any) -> Any:
        item = {"service_id": self.service, "region_id": self.region, "resource_name": name,
                "default_limit": default, **fields}
        (made,) = self.v3(
            "POST", "/registered_limits", {"registered_limits": [item]}, status=201,
        ).json["registered_limits"]
        return made

    def item(self, project: str | None = None, value: int = 5, **fields: Any) -> dict[str, Any]:
        return {"service_id": self.service, "region_id": self.region,
                "resource_name": "cores", "resource_limit": value,
                **({"project_id": project} if project is not None else {}), **fields}

    def limit(self, project: str | None = None, value: int = 5, **fields: Any) -> Any:
        (made,) = self.v3(
            "POST", "/limits", {"limits": [self.item(project, value, **fields)]}, status=201,
        ).json["limits"]
        return made

    def listed(self, query: str = "", **options: Any) -> list[Any]:
        """Return the limits that somebody sees, as (project or domain, value)."""
        found = self.v3("GET", f"/limits{query}", status=200, **options).json["limits"]
        return [(each["project_id"] or each["domain_id"], each["resource_limit"])
                for each in found]


class ScopedTestCase(LimitsTestCase):
    """Callers with tokens of any scope: what keystonemiddleware says of them is sent along."""

    def setUp(self) -> None:
        self._believe_headers()
        super().setUp()

    def _believe_headers(self) -> None:
        patched = mock.patch.object(
            app.identity, "add_authentication",
            lambda router, conf, trees: identity.KeystoneIdentity(
                router, identity.PublicPaths(trees)))
        patched.start()
        self.addCleanup(patched.stop)

    def v3(self, method: str, path: str, body: Any = None, *, who: Any = None,
           **options: Any) -> webob.Response:
        who = {"roles": "admin", "project_id": "admins"} if who is None else who
        names = {"roles": "X-Roles", "project_id": "X-Project-Id", "domain_id": "X-Domain-Id",
                 "system": "OpenStack-System-Scope"}
        headers = {"X-User-Id": "somebody", **options.pop("headers", {})}
        headers |= {names[name]: value for name, value in who.items()}
        return super().v3(method, path, body, headers=headers, token=None, **options)
