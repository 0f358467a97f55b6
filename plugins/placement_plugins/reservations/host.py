"""Reservations of whole hosts.

Source: requirement R2, spec blazar §2; differs: requirements may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placement_core.plugin_api.reservations import (
    Hosts,
    InvalidReservation,
    ReservationPlugin,
    ReservationSpec,
    WholeHosts,
)
from placement_plugins.reservations import fields

_REQUIREMENTS = ("hypervisor_properties", "resource_properties")

_FIELDS: Mapping[str, Any] = {
    "min": fields.COUNT,
    "max": fields.COUNT,
    **dict.fromkeys(_REQUIREMENTS, fields.REQUIREMENT),
    "before_end": {"enum": ["default", "snapshot", "", None]},
}


class HostReservations(ReservationPlugin):
    """``physical:host``: at least ``min`` and at most ``max`` hosts, as many as are free.

    A reservation in force keeps its hosts; its requirements then apply to additional hosts only.
    """

    api_version = 1
    resource_type = "physical:host"
    create_schema = fields.build_schema(_FIELDS, ("min", "max"))
    update_schema = fields.build_schema(_FIELDS)

    def values(
        self, raw_fields: Mapping[str, Any], before: Mapping[str, Any] | None = None, *,
        started: bool = False,
    ) -> Mapping[str, Any]:
        """Return the fields in their stored form, with numbers as integers."""
        merged = {**(before or {}), **raw_fields}
        minimum, maximum = fields.parse_count(merged, "min"), fields.parse_count(merged, "max")
        if minimum > maximum:
            raise InvalidReservation(
                f"min is {minimum}, max is {maximum}: at least more hosts than at most.", "min")
        return {
            "min": minimum,
            "max": maximum,
            **fields.parse_requirements(merged, *_REQUIREMENTS),
            "before_end": merged.get("before_end") or "",
        }

    def properties(self, values: Mapping[str, Any]) -> frozenset[str]:
        """Return the properties that the requirements name."""
        return fields.find_properties(values, *_REQUIREMENTS)

    def need(self, spec: ReservationSpec, hosts: Hosts) -> WholeHosts:
        """Return how many hosts are needed, and which of them meet the requirements."""
        return WholeHosts(
            spec.values["min"], spec.values["max"],
            *fields.match_hosts(spec.values, hosts, *_REQUIREMENTS))
