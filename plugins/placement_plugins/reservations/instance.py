"""Reservations of slots for instances.

Source: seed 003, requirement R2, spec blazar §2; differs: a slot has at least a processor
and a MiB, and ``resource_properties`` may be left out, as the seed does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placement_core.plugin_api.reservations import (
    Hosts,
    InvalidReservation,
    NotChangeable,
    ReservationPlugin,
    ReservationSpec,
    Size,
    Slots,
)
from placement_plugins.reservations import fields

#: {size of a slot: its minimum}. Servers that boot from volumes have no disk.
_SIZES: Mapping[str, int] = {"vcpus": 1, "memory_mb": 1, "disk_gb": 0}

_FIELDS: Mapping[str, Any] = {
    **dict.fromkeys(("vcpus", "memory_mb", "amount"), fields.COUNT),
    "disk_gb": fields.COUNT_OR_NONE,
    "affinity": {"anyOf": [
        {"type": ["boolean", "null"]},
        {"type": "string", "pattern": r"^([Tt]rue|[Ff]alse|[Nn]one)\Z"},
    ]},
    "resource_properties": fields.REQUIREMENT,
}

#: How the client's command line spells ``affinity``.
_AFFINITIES = {"true": True, "false": False, "none": None}


class InstanceReservations(ReservationPlugin):
    """``virtual:instance``: ``amount`` slots of one size.

    ``affinity``: True, all slots on one host; False, each on another host; null, on any hosts,
    filling up hosts in use first. In force, only ``amount`` may change, upwards.
    """

    api_version = 1
    resource_type = "virtual:instance"
    create_schema = fields.build_schema(_FIELDS, (*_SIZES, "amount"))
    update_schema = fields.build_schema(_FIELDS)

    def values(
        self, raw_fields: Mapping[str, Any], before: Mapping[str, Any] | None = None, *,
        started: bool = False,
    ) -> Mapping[str, Any]:
        """Return the fields as stored: numbers as integers, affinity as True, False or None."""
        merged = {**(before or {}), **raw_fields}
        values = {
            **{field: fields.parse_count(merged, field, least=least)
               for field, least in _SIZES.items()},
            "amount": fields.parse_count(merged, "amount"),
            "affinity": _parse_affinity(merged.get("affinity")),
            **fields.parse_requirements(merged, "resource_properties"),
        }
        if started and before is not None:
            _check_in_force(before, values)
        return values

    def properties(self, values: Mapping[str, Any]) -> frozenset[str]:
        """Return the properties that the requirement names."""
        return fields.find_properties(values, "resource_properties")

    def need(self, spec: ReservationSpec, hosts: Hosts) -> Slots:
        """Return the slots that are needed, and which hosts meet the requirement."""
        values = spec.values
        return Slots(
            Size(*(values[field] for field in _SIZES)), values["amount"], values["affinity"],
            *fields.match_hosts(values, hosts, "resource_properties"))


def _parse_affinity(value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _AFFINITIES:
        return _AFFINITIES[value.lower()]
    raise InvalidReservation("affinity must be true, false or null.", "affinity")


def _check_in_force(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse every change except more slots.

    :raises NotChangeable: naming the first field that may not change.
    """
    for field, value in after.items():
        if field != "amount" and value != before[field]:
            raise NotChangeable(
                f"{field} cannot change: the reservation is in force.")
    if after["amount"] < before["amount"]:
        raise NotChangeable(
            f"amount cannot go from {before['amount']} to {after['amount']}: a reservation "
            "that is in force gives none up.")
