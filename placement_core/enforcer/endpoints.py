"""For which service and region the limits count: this service's endpoint says it.

Source: oslo.limit, spec limits §4: what is asked, and what is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from keystoneauth1 import exceptions
from oslo_config import cfg

#: Asks the identity API: (path, query) -> document.
Ask = Callable[[str, Mapping[str, str]], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A service in a region; a region of None is a value of its own."""

    service_id: str
    region_id: str | None


def find(ask: Ask, options: cfg.ConfigOpts.GroupAttr) -> Place:
    """Return the place of the endpoint that ``[oslo_limit]`` describes.

    :raises ValueError: there is not exactly one such endpoint, or it is not described.
    """
    if options.endpoint_id is not None:
        said = f"[oslo_limit] endpoint_id = {options.endpoint_id}: no such endpoint"
        return _place(_existing(ask, f"/v3/endpoints/{options.endpoint_id}", said)["endpoint"])
    wanted = {"type": options.endpoint_service_type, "name": options.endpoint_service_name}
    if not any(wanted.values()):
        raise ValueError(
            "[oslo_limit]: endpoint_id, endpoint_service_type or endpoint_service_name must "
            "be set")
    service = _only(ask, "services", wanted)
    region = options.endpoint_region_name
    if region is not None:
        said = f"[oslo_limit] endpoint_region_name = {region}: no such region"
        _existing(ask, f"/v3/regions/{region}", said)
    return _place(_only(ask, "endpoints", {
        "service_id": service["id"], "region_id": region,
        "interface": options.endpoint_interface.removesuffix("URL")}))


def _place(endpoint: Mapping[str, Any]) -> Place:
    return Place(endpoint["service_id"], endpoint["region_id"])


def _existing(ask: Ask, path: str, otherwise: str) -> Any:
    try:
        return ask(path, {})
    except exceptions.NotFound:
        raise ValueError(otherwise) from None


def _only(ask: Ask, what: str, wanted: Mapping[str, str | None]) -> Mapping[str, Any]:
    query = {name: value for name, value in wanted.items() if value is not None}
    found: list[Mapping[str, Any]] = ask(f"/v3/{what}", query)[what]
    if len(found) != 1:
        said = ", ".join(f"{name} {value}" for name, value in query.items())
        raise ValueError(f"[oslo_limit]: {len(found)} {what} with {said}; expected one")
    return found[0]
