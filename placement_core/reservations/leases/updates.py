"""New and changed leases: what the record of one is, and how a change is written.

``after`` and the shares come from planning; nothing is decided here.
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
class HoldingChange:
    """What a reservation has before and after a change.

    :ivar reservation: as it is afterwards.
    """

    reservation: Reservation
    before: Sequence[Share]
    after: Grant

    @property
    def differs(self) -> bool:
        """Return whether it holds something else."""
        return bool(self.after.amounts) or list(self.before) != list(self.after.shares)


def new_event(
    lease_id: str, event_type: str, due_at: datetime.datetime, now: datetime.datetime
) -> Event:
    """Return a new event."""
    return Event(
        str(uuid.uuid4()), lease_id, event_type, due_at, records.UNDONE, None, now, None)


def is_in_force(lease: Lease) -> bool:
    """Say whether a lease has started, whatever went wrong since."""
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
            lease_rows.initial_made(request.plugin.resource_type, request.spec.reservation_id),
            now, None)
        for request in requests]
    return Lease(
        0, id_, new.name, new.user_id, new.project_id, window.start_at, window.end_at,
        records.PENDING, False, None, reservations, events, now, None)


def needs_no_more(before: Lease, after: Lease) -> bool:
    """Say whether all that a changed lease needs is what it had: it is not planned again."""
    return after.reservations == before.reservations and (
        before.start_at <= after.start_at and after.end_at <= before.end_at)


def apply_change(
    before: Lease, name: str | None, lease_dates: LeaseDates,
    fields: Mapping[str, Mapping[str, Any]], now: datetime.datetime,
) -> Lease:
    """Return a lease as it shall be; the same where nothing changes.

    :param fields: those of reservations that change, by their ids.
    """
    reservations = [
        dataclasses.replace(reservation, fields=fields[reservation.id], updated_at=now)
        if reservation.id in fields else reservation
        for reservation in before.reservations]
    status = before.status
    if lease_dates.window.end_at != before.end_at and is_in_force(before):
        # Whose end has failed gets another one.
        status = records.ACTIVE
    after = dataclasses.replace(
        before, name=before.name if name is None else name, start_at=lease_dates.window.start_at,
        end_at=lease_dates.window.end_at, status=status, reservations=reservations,
        events=_resolve_events(before, lease_dates, now))
    return after if after == before else dataclasses.replace(after, updated_at=now)


def without_missing(lease: Lease) -> Lease:
    """Return a lease that has again all it asked for."""
    if not any(reservation.missing_resources for reservation in lease.reservations):
        return lease
    return dataclasses.replace(lease, degraded=False, reservations=[
        dataclasses.replace(reservation, missing_resources=False)
        for reservation in lease.reservations])


def write(
    session: Session, before: Lease, after: Lease, holdings: Sequence[HoldingChange],
    since: Window, now: datetime.datetime,
) -> None:
    """Write down what a lease is, and what it holds; its row and the pool's are taken.

    :param since: what is left of its window: what is new is held from its start on.
    """
    started = is_in_force(before)
    if after.window != before.window:
        bookings.move(session, before, after.window, started=started)
    changes = [holding for holding in holdings if holding.differs]
    if started:
        bookings.extend(
            session, [(change.reservation, change.before, change.after) for change in changes],
            since)
    else:
        bookings.replace(
            session, [(change.reservation, change.after) for change in changes], after.window)
    for was, is_ in zip(before.reservations, after.reservations, strict=True):
        if is_.fields != was.fields:
            lease_rows.set_fields(session, is_, is_.fields, now)
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


def _resolve_events(before: Lease, lease_dates: LeaseDates, now: datetime.datetime) -> list[Event]:
    """Return the events of a lease with other dates; those that move are to be done again."""
    due = {records.START: lease_dates.window.start_at,
           records.BEFORE_END: lease_dates.before_end_at,
           records.END: lease_dates.window.end_at}
    events_before = {event.event_type: event for event in before.events}
    events = []
    for event_type, at in due.items():
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
