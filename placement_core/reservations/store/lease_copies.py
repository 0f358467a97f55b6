"""Leases as another service had them: inserted, replaced and removed in bulk.

Nothing is planned, and no calls to the compute service follow: what these leases consist of is
there already. Callers hold the lock on the pool's row.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.changes import kinds
from placement_core.db import Session, inserts, lists
from placement_core.plugin_api.reservations import Share
from placement_core.reservations import records, tables
from placement_core.reservations.records import Lease
from placement_core.reservations.store import lease_rows

_leases, _reservations, _events, _shares = (
    tables.leases, tables.lease_reservations, tables.lease_events,
    tables.computehost_allocations)
_of_instances, _of_hosts = tables.instance_reservations, tables.computehost_reservations
_FIELD_TABLES = {"virtual:instance": _of_instances, "physical:host": _of_hosts}

#: What failed elsewhere has no problem that we know.
_FAILED = "It failed in the service that it was copied from."

_NUMBERS = sa.select(_leases.c.number, _leases.c.name, _leases.c.project_id).where(
    lists.among_many(_leases.c.id, "ids"))
_ROWS = sa.select(
    _leases.c.id, _leases.c.deleted_at, _leases.c.version, _leases.c.copied_version,
).order_by(_leases.c.number)
_PRESENT_SHARES = (
    sa.select(_reservations.c.lease_id, _shares.c.reservation_id, _shares.c.computehost_id,
              _shares.c.slots, _shares.c.end_second)
    .join(_reservations, _reservations.c.id == _shares.c.reservation_id))
#: Leases with whose events our managers have begun, or about which calls are pending: all that is
#: known of a lease that an earlier release copied.
_TOUCHED = sa.select(_events.c.lease_id).where(sa.or_(
    _events.c.attempt > 0, _events.c.done_at.is_not(None))).distinct()
_CALLED = sa.select(tables.outbox.c.lease_id).where(
    tables.outbox.c.lease_id.is_not(None)).distinct()
_NEXT_VERSION = sa.case(
    (_leases.c.version >= sa.bindparam("present_version"), _leases.c.version + 1),
    else_=sa.bindparam("present_version"))
#: A lock of ours is no change: a lease that was as its copy is so still. MySQL assigns in this
#: order: the version is compared before it is set.
_LOCK = (
    sa.update(_leases).where(_leases.c.id == sa.bindparam("of_lease"))
    .ordered_values(
        (_leases.c.copied_version, sa.case(
            (_leases.c.copied_version == _leases.c.version, _NEXT_VERSION),
            else_=_leases.c.copied_version)),
        (_leases.c.version, _NEXT_VERSION), (_leases.c.updated_at, _leases.c.updated_at)))
_UPDATE = (
    sa.update(_leases).where(_leases.c.id == sa.bindparam("of_lease"))
    .values({
        **{name: sa.bindparam(f"new_{name}") for name in (
            "name", "user_id", "project_id", "start_at", "end_at", "status", "degraded",
            "trust_id", "ended_at", "created_at", "updated_at")},
        "copied_version": _leases.c.version}))
_MARK_BOOKED = sa.update(tables.computehosts).values(promised=True).where(
    lists.among_many(tables.computehosts.c.id, "ids"), sa.not_(tables.computehosts.c.promised))
_RESERVATION_IDS = sa.select(_reservations.c.id).where(
    lists.among_many(_reservations.c.lease_id, "ids"))
_OF_RESERVATIONS = tuple(
    sa.delete(table).where(lists.among_many(table.c.reservation_id, "ids"))
    for table in (_of_instances, _of_hosts, _shares, tables.reservation_amounts))
_OF_LEASES = tuple(
    sa.delete(table).where(lists.among_many(table.c.lease_id, "ids"))
    for table in (_events, _reservations))
_DELETE = sa.delete(_leases).where(lists.among_many(_leases.c.id, "ids"))


@dataclasses.dataclass(frozen=True, slots=True)
class CopiedLease:
    """A lease with its present shares of hosts.

    :ivar lease: its number is not used.
    :ivar shares: by reservation id.
    """

    lease: Lease
    shares: Mapping[str, Sequence[Share]]


@dataclasses.dataclass(frozen=True, slots=True)
class StoredLease:
    """A lease that is here.

    :ivar slots: {reservation id: {host id: slots}}, of the shares that end with the lease.
    :ivar deleted: it is kept for the history only.
    :ivar changed: it was copied, and somebody changed it here since, or our managers have begun to
        execute its events.
    """

    lease: Lease
    slots: Mapping[str, Mapping[int, int]]
    deleted: bool
    changed: bool


def read_all(session: Session, ids: Sequence[str] | None = None) -> list[StoredLease]:
    """Return all leases in the order of their creation, also deleted ones.

    :param ids: only these.
    """
    rows = session.execute(_ROWS).all()
    if ids is not None:
        rows = [row for row in rows if row.id in ids]
    touched = {*session.execute(_TOUCHED).scalars(), *session.execute(_CALLED).scalars()}
    shares: dict[str, list[Any]] = collections.defaultdict(list)
    statement = _PRESENT_SHARES if ids is None else _PRESENT_SHARES.where(
        _reservations.c.lease_id.in_(list(ids)))
    for row in session.execute(statement):
        shares[row.lease_id].append(row)
    return [
        StoredLease(
            lease, _sum_slots(lease, shares[lease.id]), row.deleted_at is not None,
            row.id in touched if row.copied_version is None
            else row.version != row.copied_version)
        for row, lease in zip(
            rows, lease_rows.read(session, [row.id for row in rows]), strict=True)]


def _sum_slots(lease: Lease, rows: Sequence[Any]) -> dict[str, dict[int, int]]:
    slots: dict[str, dict[int, int]] = collections.defaultdict(dict)
    end = lease.window.end
    for row in rows:
        if row.end_second >= end:
            slots[row.reservation_id][row.computehost_id] = row.slots
    return slots


def insert(session: Session, copies: Sequence[CopiedLease]) -> None:
    """Insert leases that are not here, with all that belongs to them."""
    # Not the version that they had if they were here before: workers know that one.
    version = lease_rows.first_version(_now())
    inserts.insert_many(session, _leases, [
        {"id": copy.lease.id, "version": version, "copied_version": version,
         **_build_columns(copy.lease)} for copy in copies])
    _insert_belongings(session, copies)
    _record_changes(session, copies)


def lock(session: Session, lease_id: str) -> None:
    """Lock the row of a lease until the commit, and give it its next version."""
    session.execute(_LOCK, {
        "of_lease": lease_id, "present_version": lease_rows.first_version(_now())})


def replace(session: Session, copy: CopiedLease) -> None:
    """Replace a lease that is here by another state of it; the caller has locked its row."""
    _delete_belongings(session, [copy.lease.id])
    session.execute(_UPDATE, {
        "of_lease": copy.lease.id,
        **{f"new_{name}": value for name, value in _build_columns(copy.lease).items()}})
    _insert_belongings(session, [copy])
    _record_changes(session, [copy])


def remove(session: Session, lease_id: str) -> None:
    """Remove a lease as if it had never been here; the caller has locked its row."""
    for row in session.execute(_NUMBERS, {"ids": [lease_id]}):
        session.record_change(
            kinds.LEASE, row.number, uuid=lease_id, name=row.name, project=row.project_id)
    _delete_belongings(session, [lease_id])
    session.execute(_DELETE, {"ids": [lease_id]})


def _record_changes(session: Session, copies: Sequence[CopiedLease]) -> None:
    for number in session.execute(
            _NUMBERS, {"ids": [copy.lease.id for copy in copies]}).scalars():
        session.record_change(kinds.LEASE, number)


def _delete_belongings(session: Session, ids: Sequence[str]) -> None:
    of_reservations = list(session.execute(_RESERVATION_IDS, {"ids": ids}).scalars())
    for statement in _OF_RESERVATIONS:
        session.execute(statement, {"ids": of_reservations})
    for statement in _OF_LEASES:
        session.execute(statement, {"ids": ids})


def _build_columns(lease: Lease) -> dict[str, Any]:
    return {
        "name": lease.name, "user_id": lease.user_id, "project_id": lease.project_id,
        "start_at": lease_rows.naive(lease.start_at), "end_at": lease_rows.naive(lease.end_at),
        "status": lease.status, "degraded": lease.degraded, "trust_id": lease.trust_id,
        "ended_at": _find_end(lease), "created_at": lease_rows.naive(lease.created_at),
        "updated_at": _naive(lease.updated_at)}


def _find_end(lease: Lease) -> datetime.datetime | None:
    """Return when a lease really ended, as far as that is known."""
    if lease.status != records.TERMINATED:
        return None
    [end] = [event for event in lease.events if event.event_type == records.END]
    # Never later than planned: nobody waits any more for hosts to be cleaned.
    return lease_rows.naive(min(end.updated_at or lease.end_at, lease.end_at))


def _insert_belongings(session: Session, copies: Sequence[CopiedLease]) -> None:
    reservations = [
        (position, reservation) for copy in copies
        for position, reservation in enumerate(copy.lease.reservations)]
    inserts.insert_many(session, _reservations, [
        {"id": reservation.id, "lease_id": reservation.lease_id, "position": position,
         "resource_type": reservation.resource_type, "resource_id": reservation.resource_id,
         "status": reservation.status, "missing_resources": reservation.missing_resources,
         "resources_changed": reservation.resources_changed,
         "created_at": lease_rows.naive(reservation.created_at),
         "updated_at": _naive(reservation.updated_at),
         "fields": None if reservation.resource_type in _FIELD_TABLES
         else json.dumps(dict(reservation.fields))}
        for position, reservation in reservations])
    for resource_type, table in _FIELD_TABLES.items():
        rows = [
            {"id": reservation.resource_id, "reservation_id": reservation.id,
             "created_at": lease_rows.naive(reservation.created_at),
             **reservation.fields, **reservation.compute_ids}
            for _, reservation in reservations if reservation.resource_type == resource_type]
        if rows:
            inserts.insert_many(session, table, rows)
    events = [event for copy in copies for event in copy.lease.events]
    if events:
        inserts.insert_many(session, _events, [
            {"id": event.id, "lease_id": event.lease_id, "event_type": event.event_type,
             "due_at": lease_rows.naive(event.due_at), "status": event.status, "attempt": 0,
             "problem": _FAILED if event.status == records.E_ERROR else None,
             "created_at": lease_rows.naive(event.created_at),
             "updated_at": _naive(event.updated_at)} for event in events])
    _insert_shares(session, copies)


def _insert_shares(session: Session, copies: Sequence[CopiedLease]) -> None:
    rows = [
        {"reservation_id": reservation_id, "computehost_id": share.host_id,
         "slots": share.slots, "vcpus": share.size.vcpus, "memory_mb": share.size.memory_mb,
         "disk_gb": share.size.disk_gb, "whole": share.whole,
         "start_second": copy.lease.window.start, "end_second": copy.lease.window.end}
        for copy in copies
        for reservation_id, shares in copy.shares.items() for share in shares]
    if rows:
        inserts.insert_many(session, _shares, rows)
        session.execute(_MARK_BOOKED, {"ids": sorted({row["computehost_id"] for row in rows})})


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _naive(at: datetime.datetime | None) -> datetime.datetime | None:
    return None if at is None else lease_rows.naive(at)
