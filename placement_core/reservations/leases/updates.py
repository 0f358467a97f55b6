"""Builds the records of new and changed leases, and writes changes.

``after`` and the shares come from planning; this module decides nothing.
"""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from placement_core.db import Session
from placement_core.plugin_api.reservations import Share, Window
from placement_core.reservations import records
from placement_core.reservations.leases.dates import LeaseDates
from placement_core.reservations.records import Event, Lease, NewLease, Reservation
from placement_core.reservations.scheduling.planner import Grant, ReservationRequest
from placement_core.reservations.store import bookings, lease_rows


@dataclasses.dataclass(frozen=True, slots=True)
class ShareChange:
    """The shares of a reservation before and after a change.

    :ivar reservation: the reservation after the change.
    """

    reservation: Reservation
    before: Sequence[Share]
    after: Grant

    @property
    def differs(self) -> bool:
        """Return whether the shares or amounts change."""
        return bool(self.after.amounts) or list(self.before) != list(self.after.shares)


def new_event(
    lease_id: str, event_type: str, due_at: datetime.datetime, now: datetime.datetime
) -> Event:
    """Return a new event."""
    return Event(
        str(uuid.uuid4()), lease_id, event_type, due_at, records.UNDONE, None, now, None)


def is_in_force(lease: Lease) -> bool:
    """Return whether a lease has started, even if it is in error since."""
    return any(reservation.status == records.R_ACTIVE for reservation in lease.reservations)


def new_lease(
    new: NewLease, lease_dates: LeaseDates, requests: Sequence[ReservationRequest],
    now: datetime.datetime,
) -> Lease:
    """Return a new lease, without its number."""
    id_, window = str(uuid.uuid4()), lease_dates.window
    events = [new_event(id_, records.START, window.start_at, now)]
    if lease_dates.before_end_at is not None:
        events.append(new_event(id_, records.BEFORE_END, lease_dates.before_end_at, now))
    events.append(new_event(id_, records.END, window.end_at, now))
    reservations = [
        Reservation(
            request.spec.reservation_id, id_, request.plugin.resource_type,
            lease_rows.resource_id(request.plugin.resource_type, request.spec.reservation_id),
            records.R_PENDING, False, False, request.spec.values,
            lease_rows.initial_compute_ids(
                request.plugin.resource_type, request.spec.reservation_id),
            now, None)
        for request in requests]
    return Lease(
        0, id_, new.name, new.user_id, new.project_id, window.start_at, window.end_at,
        records.PENDING, False, None, reservations, events, now, None)


def fits_in_present_shares(before: Lease, after: Lease) -> bool:
    """Return whether a changed lease needs no more than it has: it is not planned again."""
    return after.reservations == before.reservations and (
        before.start_at <= after.start_at and after.end_at <= before.end_at)


def apply_change(
    before: Lease, name: str | None, lease_dates: LeaseDates,
    fields: Mapping[str, Mapping[str, Any]], now: datetime.datetime,
) -> Lease:
    """Return a lease after a change; an equal one if nothing changes.

    :param fields: {reservation id: all its fields} of the reservations that change.
    """
    reservations = [
        dataclasses.replace(reservation, fields=fields[reservation.id], updated_at=now)
        if reservation.id in fields else reservation
        for reservation in before.reservations]
    status = before.status
    if lease_dates.window.end_at != before.end_at and is_in_force(before):
        # A lease whose end has failed gets another end.
        status = records.ACTIVE
    after = dataclasses.replace(
        before, name=before.name if name is None else name, start_at=lease_dates.window.start_at,
        end_at=lease_dates.window.end_at, status=status, reservations=reservations,
        events=_reschedule_events(before, lease_dates, now))
    return after if after == before else dataclasses.replace(after, updated_at=now)


def clear_missing_resources(lease: Lease) -> Lease:
    """Return a lease that is no longer degraded and misses nothing."""
    if not any(reservation.missing_resources for reservation in lease.reservations):
        return lease
    return dataclasses.replace(lease, degraded=False, reservations=[
        dataclasses.replace(reservation, missing_resources=False)
        for reservation in lease.reservations])


def write(
    session: Session, before: Lease, after: Lease, share_changes: Sequence[ShareChange],
    since: Window, now: datetime.datetime,
) -> None:
    """Write a changed lease and its shares; the caller holds the locks on its row and the pool's.

    :param since: what is left of its window; new shares begin at its start.
    """
    started = is_in_force(before)
    if after.window != before.window:
        bookings.move(session, before, after.window, started=started)
    changes = [share_change for share_change in share_changes if share_change.differs]
    if started:
        bookings.extend(
            session, [(change.reservation, change.before, change.after) for change in changes],
            since)
    else:
        bookings.replace(
            session, [(change.reservation, change.after) for change in changes], after.window)
    for old, new in zip(before.reservations, after.reservations, strict=True):
        if new.fields != old.fields:
            lease_rows.set_fields(session, new, new.fields, now)
    if any(reservation.missing_resources for reservation in before.reservations) and not any(
            reservation.missing_resources for reservation in after.reservations):
        lease_rows.set_repaired(session, after.id, now)
    lease_rows.update(session, after.number, {
        "name": after.name, "start_at": lease_rows.naive(after.start_at),
        "end_at": lease_rows.naive(after.end_at), "status": after.status,
        "degraded": after.degraded, "updated_at": lease_rows.naive(now)})
    events_before = {event.id: event for event in before.events}
    for event in after.events:
        if event.id not in events_before:
            lease_rows.insert_events(session, [event])
        elif event != events_before[event.id]:
            lease_rows.reschedule(session, after.id, event.event_type, event.due_at, now)


def _reschedule_events(
    before: Lease, lease_dates: LeaseDates, now: datetime.datetime
) -> list[Event]:
    """Return the events of a lease with other dates; events that move become undone."""
    times = {records.START: lease_dates.window.start_at,
             records.BEFORE_END: lease_dates.before_end_at,
             records.END: lease_dates.window.end_at}
    events_before = {event.event_type: event for event in before.events}
    events = []
    for event_type, at in times.items():
        if at is None:
            continue
        event = events_before.get(event_type)
        if event is None:
            event = new_event(before.id, event_type, at, now)
        elif event.due_at != at:
            event = dataclasses.replace(
                event, due_at=at, status=records.UNDONE, problem=None, updated_at=now)
        events.append(event)
    return events
