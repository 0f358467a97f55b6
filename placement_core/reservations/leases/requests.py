"""Checks requests of clients as far as they depend on no other lease.

Pure: plugins validate the fields (``ReservationPlugin.values``).
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from placement_core.plugin_api.reservations import (
    NotChangeable,
    ReservationPlugin,
    ReservationSpec,
    Share,
)
from placement_core.reservations import errors, records
from placement_core.reservations.leases.schemas import PluginSchemas
from placement_core.reservations.records import (
    ChangedReservation,
    Lease,
    LeaseChange,
    NewLease,
    NewReservation,
    Reservation,
)
from placement_core.reservations.scheduling.planner import ReservationRequest


class LeaseRequests:
    """Turns requests of clients into input of the planner.

    :param plugins: {resource type: plugin}.
    :param max_reservations: how many reservations a lease may have.
    """

    def __init__(
        self, plugins: Mapping[str, ReservationPlugin], *, max_reservations: int
    ) -> None:
        self._plugins = plugins
        self._schemas = {name: PluginSchemas(plugin) for name, plugin in plugins.items()}
        self._max_reservations = max_reservations

    def check(
        self, project_id: str, reservations: Sequence[NewReservation]
    ) -> list[ReservationRequest]:
        """Check new reservations; return them as input of the planner.

        :raises InvalidLease, InvalidReservation: a reservation is invalid.
        """
        if not 1 <= len(reservations) <= self._max_reservations:
            raise errors.InvalidLease(
                f"A lease has 1 to {self._max_reservations} reservations.", "reservations")
        requests = []
        for reservation in reservations:
            plugin = self._get_plugin(reservation.resource_type)
            self._schemas[reservation.resource_type].check_new(reservation.raw_fields)
            requests.append(ReservationRequest(plugin, ReservationSpec(
                str(uuid.uuid4()), project_id, plugin.values(reservation.raw_fields))))
        return requests

    def build_requests(
        self, lease: Lease, held: Mapping[str, Sequence[Share]]
    ) -> list[ReservationRequest]:
        """Return the reservations of a lease as input of the planner.

        :param held: {reservation id: its present shares}.
        """
        return [
            ReservationRequest(self._get_plugin(reservation.resource_type), ReservationSpec(
                reservation.id, lease.project_id, reservation.fields, held[reservation.id],
                started=reservation.status == records.R_ACTIVE))
            for reservation in lease.reservations]

    def find_changed_fields(
        self, lease: Lease, change: LeaseChange
    ) -> dict[str, Mapping[str, Any]]:
        """Return {reservation id: all its fields} of the reservations that would change.

        :raises InvalidLease, InvalidReservation, NotChangeable:
        """
        reservations = {reservation.id: reservation for reservation in lease.reservations}
        changed: dict[str, Mapping[str, Any]] = {}
        for request in change.reservations:
            if not request.id:
                raise errors.InvalidLease("Missing parameter reservation ID", "reservations")
            reservation = reservations.pop(request.id, None)
            if reservation is None:
                raise errors.InvalidLease(
                    "Please enter valid reservation IDs, each once: the lease has "
                    f"{', '.join(reservation.id for reservation in lease.reservations)}.",
                    "reservations")
            fields = self._merge_fields(reservation, request)
            if fields != reservation.fields:
                if reservation.status == records.R_ERROR:
                    raise NotChangeable("The reservation is in error: it cannot change.")
                changed[reservation.id] = fields
        return changed

    def build_new_lease(self, lease: Lease, change: LeaseChange) -> NewLease:
        """Return a changed lease in the form of a request for a new one.

        :raises InvalidLease, InvalidReservation, NotChangeable:
        """
        fields = self.find_changed_fields(lease, change)
        before_end_at = next(
            (event.due_at for event in lease.events
             if event.event_type == records.BEFORE_END), None)
        return NewLease(
            lease.name if change.name is None else change.name,
            lease.project_id, lease.user_id,
            start_at=None if change.start_now else change.start_at or lease.start_at,
            end_at=change.end_at or lease.end_at,
            reservations=[
                NewReservation(
                    reservation.resource_type, fields.get(reservation.id, reservation.fields))
                for reservation in lease.reservations],
            before_end_at=change.before_end_at or before_end_at)

    def _merge_fields(
        self, reservation: Reservation, request: ChangedReservation
    ) -> Mapping[str, Any]:
        """Return all fields of a reservation after a change."""
        if request.resource_type not in (None, reservation.resource_type):
            raise errors.InvalidLease(
                "The resource type of a reservation cannot change.", "resource_type")
        plugin = self._get_plugin(reservation.resource_type)
        self._schemas[reservation.resource_type].check_change(request.raw_fields)
        return plugin.values(
            request.raw_fields, reservation.fields,
            started=reservation.status == records.R_ACTIVE)

    def _get_plugin(self, resource_type: str) -> ReservationPlugin:
        plugin = self._plugins.get(resource_type)
        if plugin is None:
            raise errors.InvalidLease(
                f"The {resource_type[:66]} resource type is not supported.", "resource_type")
        return plugin


def changes_other_than(change: LeaseChange, *names: str) -> bool:
    """Return whether a change concerns other fields than ``names``."""
    return any(getattr(change, field.name) for field in dataclasses.fields(change)
               if field.name not in names)
