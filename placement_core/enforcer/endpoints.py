"""Determine the service and region whose limits count: those of the calling service's endpoint.

Source: oslo.limit, spec limits §4: the requests, and what is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from keystoneauth1 import exceptions
from oslo_config import cfg

#: Sends a request to the identity API: (path, query) -> document.
Ask = Callable[[str, Mapping[str, str]], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceRegion:
    """A service in a region; a region of None means limits without a region."""

    service_id: str
    region_id: str | None


def find(ask: Ask, options: cfg.ConfigOpts.GroupAttr) -> ServiceRegion:
    """Return the service and region of the endpoint that ``[oslo_limit]`` describes.

    :raises ValueError: not exactly one endpoint matches, or the options do not describe one.
    """
    if options.endpoint_id is not None:
        message = f"[oslo_limit] endpoint_id = {options.endpoint_id}: no such endpoint"
        document = _require(ask, f"/v3/endpoints/{options.endpoint_id}", message)
        return _make_service_region(document["endpoint"])
    filters = {"type": options.endpoint_service_type, "name": options.endpoint_service_name}
    if not any(filters.values()):
        raise ValueError(
            "[oslo_limit]: endpoint_id, endpoint_service_type or endpoint_service_name must "
            "be set")
    service = _require_one(ask, "services", filters)
    region = options.endpoint_region_name
    if region is not None:
        message = f"[oslo_limit] endpoint_region_name = {region}: no such region"
        _require(ask, f"/v3/regions/{region}", message)
    return _make_service_region(_require_one(ask, "endpoints", {
        "service_id": service["id"], "region_id": region,
        "interface": options.endpoint_interface.removesuffix("URL")}))


def _make_service_region(endpoint: Mapping[str, Any]) -> ServiceRegion:
    return ServiceRegion(endpoint["service_id"], endpoint["region_id"])


def _require(ask: Ask, path: str, message: str) -> Any:
    try:
        return ask(path, {})
    except exceptions.NotFound:
        raise ValueError(message) from None


def _require_one(ask: Ask, what: str, filters: Mapping[str, str | None]) -> Mapping[str, Any]:
    query = {name: value for name, value in filters.items() if value is not None}
    rows: list[Mapping[str, Any]] = ask(f"/v3/{what}", query)[what]
    if len(rows) != 1:
        described = ", ".join(f"{name} {value}" for name, value in query.items())
        raise ValueError(f"[oslo_limit]: {len(rows)} {what} with {described}; expected one")
    return rows[0]
