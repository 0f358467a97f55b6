"""A fixture: a catalog with limits, made through the API of whoever keeps limits."""

from __future__ import annotations

from typing import Any, Protocol

import fixtures

REGION = "south"


class Server(Protocol):
    """Keeps limits: the served application, or a Keystone."""

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send one request as an administrator; return the status and the document."""


class LimitsCatalog(fixtures.Fixture):
    """nova in one region, and the projects baobab and acacia of the domain savanna.

    :ivar ids: by name.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.ids: dict[str, str] = {}

    def _setUp(self) -> None:
        self.make("regions", {"id": REGION})
        self.ids["nova"] = self.make("services", {"type": "compute", "name": "nova"})
        self.ids["endpoint"] = self.make("endpoints", {
            "service_id": self.ids["nova"], "region_id": REGION, "interface": "public",
            "url": "http://nova.example"})
        self.ids["savanna"] = self.make("domains", {"name": "savanna"})
        for name in ("baobab", "acacia"):
            self.ids[name] = self.make("projects", {
                "name": name, "domain_id": self.ids["savanna"]})

    def make(self, kind: str, item: dict[str, Any]) -> str:
        """Make a thing of the catalog; return its id."""
        one = kind.removesuffix("s")
        return str(self.ask("POST", kind, {one: item})[one]["id"])

    def register(self, **defaults: int) -> dict[str, str]:
        """Register resources of nova; return their ids by name."""
        made = self.ask("POST", "registered_limits", {"registered_limits": [
            {"service_id": self.ids["nova"], "region_id": REGION, "resource_name": name,
             "default_limit": value} for name, value in defaults.items()]})
        return {one["resource_name"]: one["id"] for one in made["registered_limits"]}

    def limit(self, project: str, **limits: int) -> dict[str, str]:
        """Set limits of a project; return their ids by resource name."""
        made = self.ask("POST", "limits", {"limits": [
            {"project_id": self.ids.get(project, project), "service_id": self.ids["nova"],
             "region_id": REGION, "resource_name": name, "resource_limit": value}
            for name, value in limits.items()]})
        return {one["resource_name"]: one["id"] for one in made["limits"]}

    def replace(
        self, registered: dict[str, int], limits: dict[str, dict[str, int]]
    ) -> None:
        """Have these limits, and no others."""
        for kind in ("limits", "registered_limits"):
            for one in self.ask("GET", kind)[kind]:
                self.ask("DELETE", f"{kind}/{one['id']}")
        if registered:
            self.register(**registered)
        for project, found in limits.items():
            if found:
                self.limit(project, **found)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the limits API as an administrator; expect success."""
        status, document = self._server.request(method, f"/v3/{path}", body)
        if status >= 400:
            raise AssertionError(f"{method} {path}: {status} {document}")
        return document
