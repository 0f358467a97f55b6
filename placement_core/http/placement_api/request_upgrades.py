"""Upgrades bodies of old microversions to what the domain takes.

A validated body of an old microversion becomes the newest shape here, so that
neither views nor domain know the old ones.
Source: spec placement_api §3.4, §3.10 and §3.12.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from placement_core.http.operations import Version
from placement_core.http.placement_api import microversions as mv
from placement_core.placement import records

_FIELDS = tuple(field.name for field in dataclasses.fields(records.InventoryValues))


def upgrade_inventory(body: Mapping[str, Any]) -> records.InventoryValues:
    """Return the values of an inventory record; what is absent has its default."""
    values = {name: body[name] for name in _FIELDS if name in body}
    if "allocation_ratio" in values:
        values["allocation_ratio"] = float(values["allocation_ratio"])
    return records.InventoryValues(**values)


def upgrade_inventories(
    body: Mapping[str, Any],
) -> tuple[int, dict[str, records.InventoryValues]]:
    """Return (the generation the caller saw, {resource class: values})."""
    values = {name: upgrade_inventory(record) for name, record in body["inventories"].items()}
    return body["resource_provider_generation"], values


def upgrade_allocations(
    consumer_uuid: str,
    body: Mapping[str, Any],
    version: Version,
    incomplete_owner: tuple[str, str],
) -> records.AllocationWrite:
    """Return what ``body`` says that ``consumer_uuid`` is to hold.

    :param incomplete_owner: (project, user) of consumers whose client was too
        old to name any (below 1.8).
    """
    project_id, user_id = incomplete_owner
    if version >= mv.CONSUMER_GENERATION:
        expected = body["consumer_generation"]
    else:
        expected = records.ANY_GENERATION
    return records.AllocationWrite(
        consumer_uuid=consumer_uuid,
        allocations=_get_resources(body["allocations"]),
        project_id=body.get("project_id", project_id),
        user_id=body.get("user_id", user_id),
        consumer_type=body.get("consumer_type"),
        expected_generation=expected,
    )


def upgrade_all_allocations(
    body: Mapping[str, Any], version: Version, incomplete_owner: tuple[str, str]
) -> list[records.AllocationWrite]:
    """Return what every consumer of ``body``, keyed by consumer, is to hold."""
    return [
        upgrade_allocations(consumer_uuid, section, version, incomplete_owner)
        for consumer_uuid, section in body.items()
    ]


def _get_resources(allocations: Any) -> dict[str, Mapping[str, int]]:
    """Return {provider uuid: amounts} of the list (below 1.12) or dict form."""
    if isinstance(allocations, list):
        return {item["resource_provider"]["uuid"]: item["resources"] for item in allocations}
    return {provider: item["resources"] for provider, item in allocations.items()}
