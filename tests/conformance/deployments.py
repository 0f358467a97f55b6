"""A deployment for upstream's conformance files, built through the application's own API."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import webob

SHARING = "MISC_SHARES_VIA_AGGREGATE"

WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def new_uuid() -> str:
    return str(uuid.uuid4())


@dataclasses.dataclass(frozen=True)
class Amount:
    """An inventory; what is not given is as the API defaults it, max_unit is the total."""

    total: int
    ratio: float = 1.0
    reserved: int = 0
    least: int = 1
    most: int | None = None
    step: int = 1

    def body(self) -> dict[str, Any]:
        """Return the record as the API takes it."""
        return {
            "total": self.total,
            "reserved": self.reserved,
            "min_unit": self.least,
            "max_unit": self.most or self.total,
            "step_size": self.step,
            "allocation_ratio": self.ratio,
        }


class Deployment:
    """Populates a service through its API, as an administrator."""

    def __init__(self, service: WSGI) -> None:
        self._service = service

    def send(self, method: str, path: str, body: object = None, *, version: str = "1.37") -> None:
        """Send one request that must succeed."""
        request = webob.Request.blank(path, method=method)
        request.headers["X-Auth-Token"] = "admin"
        request.headers["OpenStack-API-Version"] = f"placement {version}"
        if body is not None:
            request.content_type = "application/json"
            request.body = json.dumps(body).encode()
        response = request.get_response(self._service)
        if response.status_int >= 300:
            raise AssertionError(f"{method} {path}: {response.status} {response.text}")

    def provider(
        self,
        name: str,
        *,
        identity: str | None = None,
        parent: str | None = None,
        aggregates: Iterable[str] = (),
        traits: Iterable[str] = (),
        **inventories: int | Amount,
    ) -> str:
        """Make a provider and return its uuid.

        :param identity: its uuid where the deployment prescribes one.
        :param parent: the uuid of its parent.
        :param inventories: {resource class: total or Amount}.
        """
        identity = identity or new_uuid()
        body = {"name": name, "uuid": identity}
        if parent:
            body["parent_provider_uuid"] = parent
        self.send("POST", "/resource_providers", body)
        for resource_class, amount in inventories.items():
            self.inventory(identity, resource_class, amount)
        self.traits(identity, traits)
        self.aggregates(identity, aggregates)
        return identity

    def inventory(self, provider: str, resource_class: str, amount: int | Amount) -> None:
        """Post one inventory; a custom class is made first."""
        if resource_class.startswith("CUSTOM_"):
            self.send("PUT", f"/resource_classes/{resource_class}")
        amount = Amount(amount) if isinstance(amount, int) else amount
        body = {"resource_class": resource_class} | amount.body()
        self.send("POST", f"/resource_providers/{provider}/inventories", body)

    def traits(self, provider: str, names: Iterable[str]) -> None:
        """Put the provider's traits; custom ones are made first."""
        names = list(names)
        if not names:
            return
        for name in names:
            if name.startswith("CUSTOM_"):
                self.send("PUT", f"/traits/{name}")
        known = {"resource_provider_generation": self.generation(provider), "traits": names}
        self.send("PUT", f"/resource_providers/{provider}/traits", known)

    def aggregates(self, provider: str, identities: Iterable[str]) -> None:
        """Put the provider's aggregates in the way that leaves its generation alone."""
        if identities := list(identities):
            path = f"/resource_providers/{provider}/aggregates"
            self.send("PUT", path, identities, version="1.18")

    def generation(self, provider: str) -> int:
        """Return the provider's generation."""
        request = webob.Request.blank(f"/resource_providers/{provider}")
        request.headers["X-Auth-Token"] = "admin"
        return request.get_response(self._service).json["generation"]

    def claim(self, provider: str, project: str, user: str, **amounts: int) -> str:
        """Let a new consumer (of no type) take something; return its uuid."""
        consumer = new_uuid()
        body = {
            "allocations": {provider: {"resources": amounts}},
            "project_id": project,
            "user_id": user,
            "consumer_generation": None,
        }
        self.send("PUT", f"/allocations/{consumer}", body)
        return consumer
