"""Requests to the Placement API, as its test cases send them."""

from __future__ import annotations

import uuid
from typing import Any

import webob

from placement_core.http.operations import Version
from placement_core.http.versions import format_version
from tests.http import base

MISSING = "99999999-9999-4999-8999-999999999999"


class PlacementTestCase(base.HttpTestCase):
    """Requests by somebody who may do everything; versions by name."""

    def call(
        self, method: str, path: str, body: Any = None, *, at: Version | None = None,
        status: int | None = None,
    ) -> webob.Response:
        """Send a request at a microversion (the newest by default); expect a status."""
        response = self.ask(
            method, path, body, version="latest" if at is None else format_version(at),
            headers={"X-Roles": "admin,service"})
        if status is not None:
            self.assertEqual(status, response.status_int, response.body)
        return response

    def refuse(
        self, status: int, detail: str, method: str, path: str, body: Any = None, *,
        at: Version | None = None, code: str | None = "placement.undefined_code",
    ) -> None:
        """Send a request that is refused in these words and with this code."""
        self.assert_refused(status, detail, self.call(method, path, body, at=at), code)

    def provider(self, name: str, parent: str | None = None, **inventories: Any) -> str:
        """Make a provider with inventories (a total, or a record); return its uuid."""
        made = str(uuid.uuid4())
        self.call("POST", "/resource_providers", {
            "name": name, "uuid": made, "parent_provider_uuid": parent}, status=200)
        if inventories:
            self.call("PUT", f"/resource_providers/{made}/inventories", {
                "resource_provider_generation": 0,
                "inventories": {
                    key: value if isinstance(value, dict) else {"total": value}
                    for key, value in inventories.items()}}, status=200)
        return made

    def claim(
        self, allocations: dict[str, dict[str, int]], *, generation: int | None = None,
        project: str = "project", user: str = "user", kind: str = "INSTANCE",
    ) -> dict[str, Any]:
        """Return the newest form of a consumer's allocations."""
        return {
            "allocations": {each: {"resources": amounts} for each, amounts in allocations.items()},
            "project_id": project, "user_id": user, "consumer_type": kind,
            "consumer_generation": generation}

    def generation(self, provider: str) -> int:
        """Return the present generation of a provider."""
        return self.call("GET", f"/resource_providers/{provider}", status=200).json["generation"]

    def consumer_generation(self, consumer: str) -> int | None:
        """Return the present generation of a consumer; None: it holds nothing."""
        return self.call("GET", f"/allocations/{consumer}").json.get("consumer_generation")
