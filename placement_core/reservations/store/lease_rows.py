"""Reads and writes leases, with their reservations, the fields of these, and events.

The fields of ``virtual:instance`` and ``physical:host`` have tables (requirement R7),
those of other plugins are JSON. Up to a thousand leases are read with two statements.

``leases.version`` rises with every change of a lease: of its row, its reservations, their
fields or its events. Two reads that return the same version return the same lease, also if the
database was restored in between: a version is the second of the change, or one more than the one
before if that is later, so a change that was lost and one some seconds after it differ.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import json
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from placement_core.changes import kinds
from placement_core.collector import no_garbage_collection
from placement_core.db import Session, clock, inserts, lists
from placement_core.reservations import records, tables
from placement_core.reservations.records import Event, Lease, Reservation

_leases, _reservations, _events = (
    tables.leases, tables.lease_reservations, tables.lease_events)
_of_instances, _of_hosts = tables.instance_reservations, tables.computehost_reservations


@dataclasses.dataclass(frozen=True, slots=True)
class _FieldTable:
    """The table with the fields of a plugin.

    :ivar fields: the columns of the fields.
    :ivar compute_ids: the columns of ``Reservation.compute_ids``.
    """

    table: sa.Table
    fields: tuple[str, ...]
    compute_ids: tuple[str, ...]

    def columns(self) -> list[sa.Column[Any]]:
        return [self.table.c[name] for name in (*self.fields, *self.compute_ids)]


_FIELD_TABLES: Mapping[str, _FieldTable] = {
    "virtual:instance": _FieldTable(
        _of_instances,
        ("vcpus", "memory_mb", "disk_gb", "amount", "affinity", "resource_properties"),
        ("flavor_id", "server_group_id", "aggregate_id")),
    "physical:host": _FieldTable(
        _of_hosts,
        ("min", "max", "hypervisor_properties", "resource_properties", "before_end"),
        ("aggregate_id",)),
}

#: The columns of a lease, in the order of the fields of ``Lease``, without reservations and
#: events.
_COLUMNS = (
    _leases.c.number, _leases.c.id, _leases.c.name, _leases.c.user_id, _leases.c.project_id,
    _leases.c.start_at, _leases.c.end_at, _leases.c.status, _leases.c.degraded,
    _leases.c.trust_id, _leases.c.created_at, _leases.c.updated_at)
_OF_RESERVATIONS = (
    _reservations.c.id, _reservations.c.lease_id, _reservations.c.resource_type,
    _reservations.c.resource_id, _reservations.c.status, _reservations.c.missing_resources,
    _reservations.c.resources_changed, _reservations.c.created_at, _reservations.c.updated_at,
    _reservations.c.fields)
_OF_EVENTS = (
    _events.c.id, _events.c.lease_id, _events.c.event_type, _events.c.due_at, _events.c.status,
    _events.c.problem, _events.c.created_at, _events.c.updated_at)
#: The order of the events in a lease.
_ORDER = {records.START: 0, records.BEFORE_END: 1, records.END: 2}

#: Leases that were not deleted: deleted ones stay for the history only.
EXISTING = _leases.c.deleted_at.is_(None)


def _with_reservations() -> sa.Select[Any]:
    columns = [
        column.label(f"{place}_{column.name}")
        for place, fields in enumerate(_FIELD_TABLES.values()) for column in fields.columns()]
    statement = sa.select(*_COLUMNS, *_OF_RESERVATIONS, *columns).join(
        _reservations, _reservations.c.lease_id == _leases.c.id)
    for fields in _FIELD_TABLES.values():
        statement = statement.outerjoin(
            fields.table, fields.table.c.reservation_id == _reservations.c.id)
    return statement.order_by(_reservations.c.position)


#: Each a query of leases, with a row for each of their reservations, and one of their events.
#: Of one lease, with the time of the query, and of several.
_BY_ID = (
    _with_reservations().add_columns(clock.now())
    .where(_leases.c.id == sa.bindparam("lease_id"), EXISTING),
    sa.select(*_OF_EVENTS).where(_events.c.lease_id == sa.bindparam("lease_id")))
_BY_IDS = (
    _with_reservations().where(lists.among(_leases.c.id, "ids")),
    sa.select(*_OF_EVENTS).where(lists.among(_events.c.lease_id, "ids")))
#: The second since the epoch that versions count from, so that they fit in the column until 2088.
_VERSIONS_SINCE = 1_577_836_800
#: The version of a lease that changes now.
NEXT_VERSION: sa.ColumnElement[int] = sa.case(
    (_leases.c.version >= clock.second() - _VERSIONS_SINCE, _leases.c.version + 1),
    else_=clock.second() - _VERSIONS_SINCE)
_LOCK = (
    sa.update(_leases)
    .where(_leases.c.id == sa.bindparam("lease_id"), EXISTING)
    # Otherwise the default of updated_at would be set, even if nothing changes.
    .values(version=NEXT_VERSION, updated_at=_leases.c.updated_at))
_LOCK_ALL = (
    sa.update(_leases).where(lists.among(_leases.c.id, "ids"))
    .values(version=NEXT_VERSION, updated_at=_leases.c.updated_at))

#: From this number of leases on, the garbage collector is switched off while they are built: it
#: would take longer than building them.
_MANY = 500
#: How many ids one statement has at most.
_MOST_IDS = 1000


# Reading -----------------------------------------------------------------------------


class LeaseSnapshot(NamedTuple):
    """A lease, and when it was read: by the database's clock, in whole seconds."""

    lease: Lease
    at: datetime.datetime


def find(session: Session, lease_id: str) -> LeaseSnapshot | None:
    """Return a lease that was not deleted; None: there is none of that id."""
    if not is_id(lease_id):
        return None
    parameters = {"lease_id": lease_id}
    of_leases, of_events = _BY_ID
    rows: Sequence[Any] = session.execute(of_leases, parameters).all()
    if not rows:
        return None
    [lease] = _build_leases(rows, session.execute(of_events, parameters).all())
    return LeaseSnapshot(lease, aware(rows[0][-1]).replace(microsecond=0))


def read(session: Session, ids: Sequence[str]) -> list[Lease]:
    """Return existing leases, in the order of their ids in ``ids``."""
    of_leases, of_events = _BY_IDS
    by_id: dict[str, Lease] = {}
    # The collector would traverse all new objects, again and again.
    with no_garbage_collection() if len(ids) > _MANY else contextlib.nullcontext():
        for first in range(0, len(ids), _MOST_IDS):
            parameters = {"ids": list(ids[first:first + _MOST_IDS])}
            by_id |= {lease.id: lease for lease in _build_leases(
                session.execute(of_leases, parameters).all(),
                session.execute(of_events, parameters).all())}
    return [by_id[id_] for id_ in ids]


def lock(session: Session, lease_id: str) -> bool:
    """Lock the row of a lease until the commit, and give it its next version.

    :returns: False: there is none of that id.
    """
    if not is_id(lease_id) or not session.execute(_LOCK, {"lease_id": lease_id}).rowcount:
        return False
    session.record_change(kinds.LEASE, uuid=lease_id)
    return True


def lock_all(session: Session, ids: Sequence[str]) -> None:
    """Lock the rows of several leases, as ``lock`` does, also of deleted ones."""
    session.execute(_LOCK_ALL, {"ids": ids})
    for lease_id in ids:
        session.record_change(kinds.LEASE, uuid=lease_id)


def is_id(text: str) -> bool:
    """Return whether a text is an id in its canonical spelling."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _build_leases(rows: Sequence[Any], of_events: Sequence[Any]) -> list[Lease]:
    times = _Times()
    reservations: defaultdict[str, list[Reservation]] = defaultdict(list)
    for row in rows:
        reservations[row[1]].append(_build_reservation(row[_WIDTH:], times))
    events: defaultdict[str, list[Event]] = defaultdict(list)
    for id_, lease_id, event_type, due_at, status, problem, created_at, updated_at in of_events:
        events[lease_id].append(Event(
            id_, lease_id, event_type, times[due_at], status, problem, times[created_at],
            times[updated_at]))
    return [
        Lease(number, id_, name, user_id, project_id, times[start_at], times[end_at], status,
              degraded, trust_id, reservations[id_], sorted(events[id_], key=_sort_key),
              times[created_at], times[updated_at])
        for number, id_, name, user_id, project_id, start_at, end_at, status, degraded,
        trust_id, created_at, updated_at in {row[1]: row[:_WIDTH] for row in rows}.values()]


class _Times(dict[Any, Any]):
    """{naive time of a column: aware time}. Each is converted once, as many are equal."""

    def __missing__(self, at: datetime.datetime | None) -> datetime.datetime | None:
        self[at] = aware_at = None if at is None else aware(at)
        return aware_at


def _sort_key(event: Event) -> int:
    return _ORDER[event.event_type]


def aware(at: datetime.datetime) -> datetime.datetime:
    """Return a time of a column as aware UTC."""
    return at.replace(tzinfo=datetime.UTC)


def naive(at: datetime.datetime) -> datetime.datetime:
    """Return an aware time in the form of columns: naive UTC."""
    return at.astimezone(datetime.UTC).replace(tzinfo=None)


def _build_reservation(row: Sequence[Any], times: _Times) -> Reservation:
    (id_, lease_id, resource_type, resource_id, status, missing, changed, created_at,
     updated_at, fields) = row[:len(_OF_RESERVATIONS)]
    if resource_type in _FIELD_TABLES:
        table, first = _FIELD_TABLES[resource_type], _FIRST_COLUMNS[resource_type]
        end = first + len(table.fields)
        values = dict(zip(table.fields, row[first:end], strict=True))
        compute_ids = dict(zip(
            table.compute_ids, row[end:end + len(table.compute_ids)], strict=True))
        if "flavor_id" in compute_ids:
            # The flavor's id is the reservation's, even before the flavor is created.
            compute_ids["flavor_id"] = compute_ids["flavor_id"] or id_
    else:
        values, compute_ids = json.loads(fields), {}
    return Reservation(
        id_, lease_id, resource_type, resource_id, status, missing, changed, values, compute_ids,
        times[created_at], times[updated_at])


def _first_columns() -> dict[str, int]:
    """Return the index of the first column of each field table in a reservation's row."""
    first_columns, index = {}, len(_OF_RESERVATIONS)
    for resource_type, table in _FIELD_TABLES.items():
        first_columns[resource_type] = index
        index += len(table.columns())
    return first_columns


#: How many columns of a row belong to the lease; those of a reservation follow.
_WIDTH = len(_COLUMNS)
_FIRST_COLUMNS = _first_columns()


# Writing -----------------------------------------------------------------------------

_INSERT = sa.insert(_leases)
_UPDATE = sa.update(_leases).where(_leases.c.number == sa.bindparam("of_number"))


def insert(session: Session, lease: Lease) -> Lease:
    """Insert a lease; return it with its number."""
    at = naive(lease.created_at)
    result = session.execute(_INSERT, {
        "id": lease.id, "name": lease.name, "user_id": lease.user_id,
        "project_id": lease.project_id, "start_at": naive(lease.start_at),
        "end_at": naive(lease.end_at), "status": lease.status, "degraded": lease.degraded,
        "trust_id": lease.trust_id, "version": first_version(lease.created_at),
        "created_at": at})
    inserts.insert_many(session, _reservations, [
        {"id": reservation.id, "lease_id": lease.id, "position": position,
         "resource_type": reservation.resource_type, "resource_id": reservation.resource_id,
         "status": reservation.status, "missing_resources": reservation.missing_resources,
         "resources_changed": reservation.resources_changed, "created_at": at,
         "fields": None if has_table(reservation.resource_type)
         else json.dumps(dict(reservation.fields))}
        for position, reservation in enumerate(lease.reservations)])
    for resource_type, table in _FIELD_TABLES.items():
        rows = [
            {"id": reservation.resource_id, "reservation_id": reservation.id, "created_at": at,
             **{name: reservation.fields[name] for name in table.fields}}
            for reservation in lease.reservations if reservation.resource_type == resource_type]
        if rows:
            inserts.insert_many(session, table.table, rows)
    insert_events(session, lease.events)
    key = result.inserted_primary_key
    assert key is not None  # of one row
    return dataclasses.replace(lease, number=key[0])


def first_version(at: datetime.datetime) -> int:
    """Return the version of a lease that is inserted at a time."""
    return int(at.timestamp()) - _VERSIONS_SINCE


def has_table(resource_type: str) -> bool:
    """Return whether the fields of a resource type have a table; otherwise they are JSON."""
    return resource_type in _FIELD_TABLES


def resource_id(resource_type: str, reservation_id: str) -> str:
    """Return the ``resource_id`` of a new reservation: the id of the row with its fields."""
    return str(uuid.uuid4()) if resource_type in _FIELD_TABLES else reservation_id


def initial_compute_ids(resource_type: str, reservation_id: str) -> dict[str, str | int | None]:
    """Return the ``compute_ids`` of a new reservation: only the flavor's id is known."""
    if resource_type not in _FIELD_TABLES:
        return {}
    names = _FIELD_TABLES[resource_type].compute_ids
    return {name: reservation_id if name == "flavor_id" else None for name in names}


def insert_events(session: Session, events: Sequence[Event]) -> None:
    """Insert events."""
    inserts.insert_many(session, _events, [
        {"id": event.id, "lease_id": event.lease_id, "event_type": event.event_type,
         "due_at": naive(event.due_at), "status": event.status, "attempt": 0,
         "created_at": naive(event.created_at)}
        for event in events])


def update(session: Session, number: int, values: Mapping[str, Any]) -> None:
    """Change columns of a lease; the caller holds the lock on its row."""
    session.execute(_update(tuple(sorted(values))), {
        "of_number": number, **{f"new_{name}": value for name, value in values.items()}})


@functools.cache
def _update(names: tuple[str, ...]) -> sa.Update:
    return _UPDATE.values({name: sa.bindparam(f"new_{name}") for name in names})


_SET_STATUS = (
    sa.update(_reservations)
    .where(_reservations.c.lease_id == sa.bindparam("of_lease"),
           _reservations.c.status.in_(sa.bindparam("before", expanding=True)))
    .values(status=sa.bindparam("after"), updated_at=sa.bindparam("at")))
_SET_REPAIRED = (
    sa.update(_reservations)
    .where(_reservations.c.lease_id == sa.bindparam("of_lease"),
           _reservations.c.missing_resources)
    .values(missing_resources=False, updated_at=sa.bindparam("at")))
_SET_JSON = (
    sa.update(_reservations)
    .where(_reservations.c.id == sa.bindparam("of_reservation"))
    .values(fields=sa.bindparam("new_fields"), updated_at=sa.bindparam("at")))
_SET_FIELDS = {
    resource_type: sa.update(fields.table)
    .where(fields.table.c.reservation_id == sa.bindparam("of_reservation"))
    .values({**{name: sa.bindparam(f"new_{name}") for name in fields.fields},
             "updated_at": sa.bindparam("at")})
    for resource_type, fields in _FIELD_TABLES.items()}
_SET_HEALTH = (
    sa.update(_reservations)
    .where(_reservations.c.id == sa.bindparam("of_reservation"))
    .values(missing_resources=sa.bindparam("missing"), resources_changed=sa.bindparam("changed"),
            updated_at=sa.bindparam("at")))
_TOUCH = (
    sa.update(_reservations)
    .where(_reservations.c.id == sa.bindparam("of_reservation"))
    .values(updated_at=sa.bindparam("at")))


def set_status(
    session: Session, lease_id: str, before: Collection[str], after: str,
    at: datetime.datetime,
) -> None:
    """Set the status of those reservations of a lease whose status is in ``before``."""
    session.execute(_SET_STATUS, {
        "of_lease": lease_id, "before": sorted(before), "after": after, "at": naive(at)})


def set_repaired(session: Session, lease_id: str, at: datetime.datetime) -> None:
    """Set ``missing_resources`` of a lease's reservations to false."""
    session.execute(_SET_REPAIRED, {"of_lease": lease_id, "at": naive(at)})


def set_health(
    session: Session, reservation: Reservation, at: datetime.datetime
) -> None:
    """Store ``missing_resources`` and ``resources_changed`` of a reservation."""
    session.execute(_SET_HEALTH, {
        "of_reservation": reservation.id, "missing": reservation.missing_resources,
        "changed": reservation.resources_changed, "at": naive(at)})


def set_fields(
    session: Session, reservation: Reservation, fields: Mapping[str, Any],
    at: datetime.datetime,
) -> None:
    """Change the fields of a reservation."""
    parameters = {"of_reservation": reservation.id, "at": naive(at)}
    if reservation.resource_type in _FIELD_TABLES:
        session.execute(_SET_FIELDS[reservation.resource_type], {
            **parameters, **{f"new_{name}": value for name, value in fields.items()}})
        session.execute(_TOUCH, parameters)
    else:
        session.execute(_SET_JSON, {**parameters, "new_fields": json.dumps(dict(fields))})


# Events ------------------------------------------------------------------------------

#: Incrementing ``attempt`` makes the manager that executes the event at the moment notice.
_RESCHEDULE = (
    sa.update(_events)
    .where(_events.c.lease_id == sa.bindparam("of_lease"),
           _events.c.event_type == sa.bindparam("of_type"))
    .values(due_at=sa.bindparam("new_due_at"), status=records.UNDONE, owner=None,
            deadline_at=None, done_at=None, problem=None, failures=0,
            attempt=_events.c.attempt + 1,
            updated_at=sa.bindparam("at")))
_CLOSE = (
    sa.update(_events)
    .where(_events.c.lease_id == sa.bindparam("of_lease"), _events.c.status != records.DONE)
    .values(status=records.DONE, owner=None, deadline_at=None, done_at=sa.bindparam("at"),
            attempt=_events.c.attempt + 1, updated_at=sa.bindparam("at")))


def reschedule(
    session: Session, lease_id: str, event_type: str, due_at: datetime.datetime,
    at: datetime.datetime,
) -> None:
    """Move an event to another time; it becomes undone, even if it was done or failed."""
    session.execute(_RESCHEDULE, {
        "of_lease": lease_id, "of_type": event_type, "new_due_at": naive(due_at),
        "at": naive(at)})


def close_events(session: Session, lease_id: str, at: datetime.datetime) -> None:
    """Mark all events of a lease as done."""
    session.execute(_CLOSE, {"of_lease": lease_id, "at": naive(at)})
