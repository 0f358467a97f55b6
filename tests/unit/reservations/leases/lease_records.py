"""Leases, reservations and hours for tests of pure functions."""

from __future__ import annotations

import datetime
from typing import Any

from placement_core.reservations import records
from placement_core.reservations.records import Event, Lease, Reservation

NOW = datetime.datetime(2030, 5, 1, 12, 0, 30, tzinfo=datetime.UTC)


def hours(number: float) -> datetime.datetime:
    """Return a time so many hours from now."""
    return NOW + datetime.timedelta(hours=number)


def reservation(id_: str = "r1", **changes: Any) -> Reservation:
    """Return a reservation of two slots that has not begun."""
    return Reservation(**{
        "id": id_, "lease_id": "l", "resource_type": "virtual:instance", "resource_id": id_,
        "status": records.R_PENDING, "missing_resources": False, "resources_changed": False,
        "fields": {"amount": 2}, "compute_ids": {}, "created_at": NOW,
        "updated_at": None, **changes})


def lease(*reservations: Reservation, **changes: Any) -> Lease:
    """Return a lease from one hour on to three, that is announced half an hour before its end."""
    values = {
        "number": 1, "id": "l", "name": "mine", "user_id": "u", "project_id": "p",
        "start_at": hours(1), "end_at": hours(3), "status": records.PENDING, "degraded": False,
        "trust_id": None, "reservations": list(reservations) or [reservation()],
        "created_at": NOW, "updated_at": None, **changes}
    events = [
        Event(f"{kind}-event", "l", kind, due_at, records.UNDONE, None, NOW, None)
        for kind, due_at in (
            (records.START, values["start_at"]), (records.BEFORE_END, hours(2.5)),
            (records.END, values["end_at"]))]
    return Lease(**{"events": events, **values})
