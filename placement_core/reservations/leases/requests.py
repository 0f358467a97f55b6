"""What clients ask of leases, checked as far as it depends on no other lease.

Pure: plugins say which fields make sense (``ReservationPlugin.values``).
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
    """Makes of requests what is planned.

    :param plugins: by resource type.
    :param max_reservations: of one lease.
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
        """Return what new reservations want.

        :raises InvalidLease, InvalidReservation: they make no sense.
        """
        if not 1 <= len(reservations) <= self._max_reservations:
            raise errors.InvalidLease(
                f"A lease has 1 to {self._max_reservations} reservations.", "reservations")
        requests = []
        for reservation in reservations:
            plugin = self._plugin(reservation.resource_type)
            self._schemas[reservation.resource_type].check_new(reservation.given)
            requests.append(ReservationRequest(plugin, ReservationSpec(
                str(uuid.uuid4()), project_id, plugin.values(reservation.given))))
        return requests

    def requests_of(
        self, lease: Lease, held: Mapping[str, Sequence[Share]]
    ) -> list[ReservationRequest]:
        """Return what the reservations of a lease want.

        :param held: what each has up to now, by its id.
        """
        return [
            ReservationRequest(self._plugin(reservation.resource_type), ReservationSpec(
                reservation.id, lease.project_id, reservation.fields, held[reservation.id],
                started=reservation.status == records.R_ACTIVE))
            for reservation in lease.reservations]

    def changed_fields(
        self, lease: Lease, change: LeaseChange
    ) -> dict[str, Mapping[str, Any]]:
        """Return the fields of reservations that shall change, by their ids.

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
            fields = self._changed_values(reservation, request)
            if fields != reservation.fields:
                if reservation.status == records.R_ERROR:
                    raise NotChangeable("The reservation is in error: it cannot change.")
                changed[reservation.id] = fields
        return changed

    def as_new(self, lease: Lease, change: LeaseChange) -> NewLease:
        """Return a lease that shall change as it would be asked for.

        :raises InvalidLease, InvalidReservation, NotChangeable:
        """
        fields = self.changed_fields(lease, change)
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

    def _changed_values(
        self, reservation: Reservation, request: ChangedReservation
    ) -> Mapping[str, Any]:
        """Return the fields that a reservation shall have."""
        if request.resource_type not in (None, reservation.resource_type):
            raise errors.InvalidLease(
                "The resource type of a reservation cannot change.", "resource_type")
        plugin = self._plugin(reservation.resource_type)
        self._schemas[reservation.resource_type].check_change(request.given)
        return plugin.values(
            request.given, reservation.fields,
            started=reservation.status == records.R_ACTIVE)

    def _plugin(self, resource_type: str) -> ReservationPlugin:
        plugin = self._plugins.get(resource_type)
        if plugin is None:
            raise errors.InvalidLease(
                f"The {resource_type[:66]} resource type is not supported.", "resource_type")
        return plugin


def changes_besides(change: LeaseChange, *names: str) -> bool:
    """Say whether something else than some fields shall change."""
    return any(getattr(change, field.name) for field in dataclasses.fields(change)
               if field.name not in names)
