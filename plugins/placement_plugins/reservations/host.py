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
    """``physical:host``: as many hosts as there are up to ``max``, at least ``min``.

    One that is in force keeps its hosts; what it asks of properties is then asked of
    those that come to it.
    """

    api_version = 1
    resource_type = "physical:host"
    create_schema = fields.record(_FIELDS, ("min", "max"))
    update_schema = fields.record(_FIELDS)

    def values(
        self, given: Mapping[str, Any], before: Mapping[str, Any] | None = None, *,
        started: bool = False,
    ) -> Mapping[str, Any]:
        """Return the fields, numbers as numbers."""
        merged = {**(before or {}), **given}
        minimum, maximum = fields.count(merged, "min"), fields.count(merged, "max")
        if minimum > maximum:
            raise InvalidReservation(
                f"min is {minimum}, max is {maximum}: at least more hosts than at most.", "min")
        return {
            "min": minimum,
            "max": maximum,
            **{field: fields.requirement(merged, field) for field in _REQUIREMENTS},
            "before_end": merged.get("before_end") or "",
        }

    def properties(self, values: Mapping[str, Any]) -> frozenset[str]:
        """Return what the requirements name."""
        return fields.properties(values, *_REQUIREMENTS)

    def need(self, spec: ReservationSpec, hosts: Hosts) -> WholeHosts:
        """Return how many hosts are needed, and which may be taken."""
        return WholeHosts(
            spec.values["min"], spec.values["max"],
            fields.hosts_that_meet(spec.values, hosts, *_REQUIREMENTS))
