"""Blazar as a source: hosts with their properties, and leases.

A lease is one record, with its reservations, their shares of hosts and its events. Blazar has no
locks, and writes each row of a lease in a transaction of its own. So there are leases in the
middle of a transition, hosts that are booked twice, and rows that belong to nothing. Whatever our
manager can carry on with is settled, with a note on the record; the rest is refused.
Source: Blazar's schema, revision ``SCHEMA``; spec blazar §3, §4 and §6.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.plugin_api.reservations import InvalidReservation
from placement_core.reservations import records as leases
from placement_core.reservations.errors import InvalidLease
from placement_core.reservations.hosts import host_capabilities
from placement_core.reservations.store import lease_rows
from placement_core.takeover import double_bookings
from placement_core.takeover.double_bookings import Booking
from placement_core.takeover.records import (
    HOST,
    HOST_PROPERTY,
    LEASE,
    Contents,
    Item,
    Outcome,
    Record,
    Surroundings,
)

#: What it is called on the command line, and where what was copied is remembered.
SOURCE = "blazar"
#: The head of the schema, of Blazar 18.0.0.
SCHEMA = frozenset({"553383923ca0"})

KINDS = (HOST_PROPERTY, HOST, LEASE)

INSTANCE, WHOLE_HOST = "virtual:instance", "physical:host"
#: Statuses of leases in the middle of a transition.
_CREATING, _DELETING, _TERMINATING = "CREATING", "DELETING", "TERMINATING"
_TRANSITIONAL = frozenset({_CREATING, "STARTING", "UPDATING", _TERMINATING})
#: {(status of the start, of the end): status of the lease}; any other pair is an error.
_STATUSES = {
    (leases.UNDONE, leases.UNDONE): leases.PENDING,
    (leases.DONE, leases.UNDONE): leases.ACTIVE,
    (leases.DONE, leases.DONE): leases.TERMINATED}
_STABLE = frozenset({*_STATUSES.values(), leases.ERROR})
_EVENT_TYPES = (leases.START, leases.BEFORE_END, leases.END)
_EVENT_STATUSES = frozenset({
    leases.UNDONE, leases.IN_PROGRESS, leases.DONE, leases.E_ERROR})
_RESERVATION_STATUSES = frozenset({
    leases.R_PENDING, leases.R_ACTIVE, leases.R_DELETED, leases.R_ERROR})

_RANGE = re.compile("([0-9]{1,10})-([0-9]{1,10})")
_HOST_ID = re.compile("[1-9][0-9]{0,9}")
_LARGEST_ID = 2**31 - 1
_EPOCH = datetime.datetime(1970, 1, 1)

_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    **dict.fromkeys(("created_at", "updated_at", "start_date", "end_date", "time"),
                    sa.DateTime()),
    **dict.fromkeys(("reservable", "private", "degraded", "missing_resources",
                     "resources_changed", "affinity"), sa.Boolean())}


def _table(name: str, *columns: str) -> sa.TableClause:
    return sa.table(name, *(
        sa.column(column, _TYPES.get(column)) for column in ("id", *columns)))


_TIMES = ("created_at", "updated_at")
#: What is read of its tables.
TABLES = (
    _table("computehosts", *_TIMES, "hypervisor_hostname", "hypervisor_type",
           "hypervisor_version", "cpu_info", "service_name", "availability_zone", "trust_id",
           "reservable"),
    _table("resource_properties", "resource_type", "property_name", "private"),
    _table("computehost_extra_capabilities", *_TIMES, "computehost_id", "property_id",
           "capability_value"),
    _table("leases", *_TIMES, "name", "user_id", "project_id", "start_date", "end_date",
           "trust_id", "status", "degraded"),
    _table("reservations", *_TIMES, "lease_id", "resource_id", "resource_type", "status",
           "missing_resources", "resources_changed"),
    _table("events", *_TIMES, "lease_id", "event_type", "time", "status"),
    _table("computehost_reservations", "reservation_id", "aggregate_id", "resource_properties",
           "count_range", "hypervisor_properties", "before_end"),
    _table("instance_reservations", "reservation_id", "vcpus", "memory_mb", "disk_gb", "amount",
           "affinity", "resource_properties", "flavor_id", "aggregate_id", "server_group_id"),
    _table("computehost_allocations", "compute_host_id", "reservation_id"),
)

_Row = Mapping[str, Any]
_Tables = Mapping[str, Sequence[_Row]]


def read(connection: sa.Connection, surroundings: Surroundings) -> Contents:
    """Return what Blazar's database has."""
    return settle({
        table.name: [dict(row) for row in connection.execute(
            sa.select(table).order_by(*_find_order(table))).mappings()]
        for table in TABLES}, surroundings)


def _find_order(table: sa.TableClause) -> list[sa.ColumnElement[Any]]:
    """Return the order of creation, as far as it is known."""
    return [column for name in ("created_at", "id")
            if (column := table.c.get(name)) is not None]


def settle(tables: _Tables, surroundings: Surroundings) -> Contents:
    """Return what the rows of Blazar's tables mean here. Pure.

    :param tables: {name: rows, in the order of their creation where it is known}.
    """
    hosts = _settle_hosts(tables, surroundings)
    settled = _settle_leases(tables, surroundings, hosts)
    return Contents(
        [*hosts.properties, *hosts.records.values(), *settled.records],
        [*hosts.left, *settled.left])


# Hosts -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Hosts:
    """The hosts, as far as they were read.

    :ivar records: by id.
    """

    properties: list[Record]
    records: dict[str, Record]
    left: list[Item]


def _settle_hosts(tables: _Tables, surroundings: Surroundings) -> _Hosts:
    hosts = _Hosts([], {}, [])
    names = _settle_properties(hosts, tables["resource_properties"])
    capabilities = _group(tables["computehost_extra_capabilities"], "computehost_id")
    ids_by_name: dict[str, str] = {}
    # Numbers first: hosts with uuids get numbers that none of them has.
    for row in sorted(tables["computehosts"], key=lambda row: not _HOST_ID.fullmatch(row["id"])):
        name = row["hypervisor_hostname"] or ""
        reason = _find_host_obstacle(row, surroundings, ids_by_name)
        if reason:
            hosts.left.append(Item(HOST, row["id"], name, Outcome.REFUSED, reason))
            continue
        ids_by_name[name] = row["id"]
        values, notes = _settle_capabilities(capabilities.get(row["id"], ()), names)
        provider = surroundings.providers[name]
        if not any(provider.size.amounts()):
            notes.append("its resource provider has no inventories: nothing fits on it")
        hosts.records[row["id"]] = Record(HOST, row["id"], name, {
            "name": name, "provider_uuid": provider.uuid,
            # Columns that must not be null have "" or 0 for what is not known.
            **{field: row[field] or None for field in (
                "hypervisor_type", "hypervisor_version", "cpu_info", "service_name",
                "availability_zone", "trust_id")},
            "reservable": bool(row["reservable"]), "capabilities": values,
            # When it was changed is not: here, that changes with each lease.
            "created_at": _write(row["created_at"] or row["updated_at"] or _EPOCH),
        }, notes)
    return hosts


def _settle_properties(hosts: _Hosts, rows: Sequence[_Row]) -> dict[str, str | None]:
    """Take the properties of hosts; return {id: name}, None for those that are left."""
    names: dict[str, str | None] = {}
    for row in rows:
        name = row["property_name"]
        names[row["id"]] = None
        if row["resource_type"] != WHOLE_HOST:
            hosts.left.append(Item(
                HOST_PROPERTY, row["id"], name, Outcome.SKIPPED,
                f"it is a property of {row['resource_type']}: there are no such resources here"))
            continue
        reason = _find_capability_obstacle(name, "")
        if reason:
            hosts.left.append(Item(HOST_PROPERTY, row["id"], name, Outcome.REFUSED, reason))
            continue
        names[row["id"]] = name
        hosts.properties.append(Record(HOST_PROPERTY, row["id"], name, {
            "name": name, "private": bool(row["private"])}))
    return names


def _settle_capabilities(
    rows: Sequence[_Row], names: Mapping[str, str | None]
) -> tuple[dict[str, str], list[str]]:
    """Return the capabilities of a host, and notes on those that are left out."""
    values: dict[str, str] = {}
    notes = []
    for row in rows:
        name = names.get(row["property_id"])
        if name is None:
            notes.append(f"its capability {row['id']} is left out, as its property is")
            continue
        reason = _find_capability_obstacle(name, row["capability_value"])
        if reason:
            notes.append(f"its capability {name} is left out: {reason}")
            continue
        if name in values and values[name] != row["capability_value"]:
            notes.append(f"its capability {name} has several values: the newest is copied")
        values[name] = row["capability_value"]
    return values, notes


def _find_capability_obstacle(name: str, value: str) -> str:
    try:
        host_capabilities.check({name: value})
    except InvalidLease as error:
        return str(error)
    return ""


def _find_host_obstacle(
    row: _Row, surroundings: Surroundings, ids_by_name: Mapping[str, str]
) -> str:
    name = row["hypervisor_hostname"]
    provider = surroundings.providers.get(name or "")
    if provider is None:
        return f"no resource provider is called {name} here: copy it first"
    if name in ids_by_name:
        return f"{ids_by_name[name]} has the same name"
    is_number = (
        _HOST_ID.fullmatch(row["id"]) is not None and int(row["id"]) <= _LARGEST_ID)
    if not is_number and row["id"] != provider.uuid:
        return "its id is neither a number nor the uuid of its resource provider"
    return ""


# Leases ------------------------------------------------------------------------------


class _Left(Exception):
    """A lease that is not copied."""

    def __init__(self, reason: str, outcome: Outcome = Outcome.REFUSED) -> None:
        super().__init__(reason)
        self.outcome = outcome


@dataclasses.dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one lease.

    :ivar allocations: {reservation id: rows}; likewise the others.
    """

    lease: _Row
    reservations: Sequence[_Row]
    events: Sequence[_Row]
    fields: Mapping[str, Sequence[_Row]]
    allocations: Mapping[str, Sequence[_Row]]


def _settle_leases(
    tables: _Tables, surroundings: Surroundings, hosts: _Hosts
) -> Contents:
    reservations = _group(tables["reservations"], "lease_id")
    events = _group(tables["events"], "lease_id")
    fields = _group((*tables["computehost_reservations"], *tables["instance_reservations"]),
                    "reservation_id")
    allocations = _group(tables["computehost_allocations"], "reservation_id")
    drafts: list[Record] = []
    left: list[Item] = []
    for row in tables["leases"]:
        rows = _Rows(row, reservations.get(row["id"], ()), events.get(row["id"], ()), fields,
                     allocations)
        try:
            drafts.append(_settle_lease(rows, surroundings, hosts))
        except _Left as reason:
            left.append(Item(LEASE, row["id"], row["name"], reason.outcome, str(reason)))
    left += _list_lost(tables)
    overbooked = double_bookings.find(
        [booking for record in drafts for booking in _list_bookings(record)],
        {id_: surroundings.providers[record.name].size
         for id_, record in hosts.records.items()})
    records = [
        dataclasses.replace(record, notes=[*record.notes, *(
            f"host {hosts.records[overbooking.host_id].name} is booked twice from "
            f"{overbooking.since.isoformat(' ')} on, {_name_others(overbooking)}"
            for overbooking in overbooked.get(record.id, ()))])
        for record in drafts]
    return Contents(records, left)


def _name_others(overbooking: double_bookings.Overbooking) -> str:
    return ("for more than it has" if not overbooking.others
            else f"with the leases {', '.join(overbooking.others)}")


def _list_lost(tables: _Tables) -> Iterable[Item]:
    """Yield rows that belong to nothing."""
    lease_ids = {row["id"] for row in tables["leases"]}
    reservation_ids = {row["id"] for row in tables["reservations"]}
    for name, key, ids in (
        ("reservations", "lease_id", lease_ids), ("events", "lease_id", lease_ids),
        ("computehost_reservations", "reservation_id", reservation_ids),
        ("instance_reservations", "reservation_id", reservation_ids),
        ("computehost_allocations", "reservation_id", reservation_ids),
    ):
        for row in tables[name]:
            if row[key] not in ids:
                yield Item(LEASE, row["id"], f"row of {name}", Outcome.SKIPPED,
                           f"its {key} {row[key]} is not there")


def _settle_lease(rows: _Rows, surroundings: Surroundings, hosts: _Hosts) -> Record:
    """Return a lease.

    :raises _Left:
    """
    lease = rows.lease
    _check_types(rows, surroundings, hosts)
    _check_lease(rows)
    notes: list[str] = []
    events = _settle_events(rows, notes)
    status = _settle_status(rows, events, notes)
    reservations = {
        row["id"]: _settle_reservation(rows, row, status, surroundings, hosts, notes)
        for row in rows.reservations}
    if status == leases.TERMINATED:
        for event in events.values():
            event["status"] = leases.DONE
    created_at = lease["created_at"] or lease["start_date"]
    return Record(
        LEASE, lease["id"], lease["name"], {
            "name": lease["name"], "user_id": lease["user_id"],
            "project_id": lease["project_id"], "start_at": _write(lease["start_date"]),
            "end_at": _write(lease["end_date"]), "status": status,
            "degraded": bool(lease["degraded"]), "trust_id": lease["trust_id"] or None,
            "reservations": reservations, "events": events,
            "created_at": _write(created_at), "updated_at": _write(lease["updated_at"]),
            "deleted": False,
        }, notes, sorted({(HOST, host_id) for reservation in reservations.values()
                          for host_id in reservation["hosts"]}))


def _check_types(rows: _Rows, surroundings: Surroundings, hosts: _Hosts) -> None:
    """Check that reservations of all types of a lease can be made here.

    :raises _Left: the lease is skipped.
    """
    copied = {INSTANCE, WHOLE_HOST} & surroundings.reservation_plugins.keys()
    others = sorted({str(row["resource_type"]) for row in rows.reservations
                     if row["resource_type"] not in copied})
    if not others:
        return
    names = sorted({
        hosts.records[row["compute_host_id"]].name
        for reservation in rows.reservations
        for row in rows.allocations.get(reservation["id"], ())
        if row["compute_host_id"] in hosts.records})
    held = f"; here, nobody holds its hosts: {', '.join(names)}" if names else ""
    raise _Left(f"it reserves {', '.join(others)}, for which no plugin is here{held}",
                Outcome.SKIPPED)


def _check_lease(rows: _Rows) -> None:
    """Check what is the same for all leases.

    :raises _Left:
    """
    lease = rows.lease
    if not lease_rows.is_id(lease["id"]):
        raise _Left("its id is no uuid: no client could name it here")
    for field in ("user_id", "project_id"):
        if not lease[field]:
            raise _Left(f"it has no {field}")
    if lease["status"] == _DELETING:
        raise _Left("it is being deleted: copy again when that is done, or delete it once more")
    if lease["status"] not in _TRANSITIONAL | _STABLE:
        raise _Left(f"its status {lease['status']} is not known")
    if _cut(lease["start_date"]) >= _cut(lease["end_date"]):
        raise _Left("it ends before it begins")
    if not rows.reservations:
        raise _Left("it has no reservations")
    for row in rows.reservations:
        if not lease_rows.is_id(row["id"]):
            raise _Left(f"the id of its reservation {row['id']} is no uuid")


def _settle_events(rows: _Rows, notes: list[str]) -> dict[str, dict[str, Any]]:
    """Return the events of a lease, one of each type; those in the middle are to be repeated.

    :raises _Left:
    """
    by_type: dict[str, list[_Row]] = collections.defaultdict(list)
    for row in rows.events:
        if row["event_type"] not in _EVENT_TYPES:
            notes.append(f"its event {row['id']} is left out: nothing happens at "
                         f"{row['event_type']}")
        elif row["time"] is None or row["status"] not in _EVENT_STATUSES:
            raise _Left(f"its event {row['id']} has no time, or the status {row['status']}")
        else:
            by_type[row["event_type"]].append(row)
    for event_type in (leases.START, leases.END):
        if event_type not in by_type:
            raise _Left(f"it has no event {event_type}: nothing would {event_type[:-6]} it")
    events = {}
    for event_type in _EVENT_TYPES:
        candidates = sorted(by_type.get(event_type, ()), key=lambda row: (
            row["status"] != leases.DONE, row["time"]))
        for row in candidates[:-1]:
            notes.append(f"its event {row['id']} is left out: {candidates[-1]['id']} is "
                         f"another {event_type}")
        for row in candidates[-1:]:
            status = row["status"]
            if status == leases.IN_PROGRESS:
                notes.append(f"{event_type} was in progress: our manager does it again")
                status = leases.UNDONE
            events[row["id"]] = {
                "event_type": event_type, "due_at": _write(row["time"]), "status": status,
                **_write_times(row, rows.lease)}
    return events


def _settle_status(
    rows: _Rows, events: Mapping[str, Mapping[str, Any]], notes: list[str]
) -> str:
    """Return the status of a lease that its events say, as Blazar does after each operation.

    :raises _Left: it is in the middle of something that cannot be carried on.
    """
    before = str(rows.lease["status"])
    of_type = {event["event_type"]: event["status"] for event in events.values()}
    status = _STATUSES.get((of_type[leases.START], of_type[leases.END]), leases.ERROR)
    if before == _CREATING and status != leases.PENDING:
        raise _Left("it is being created, and its events say otherwise: copy again later")
    if before == _TERMINATING and any(
            row["resource_type"] == WHOLE_HOST and row["status"] != leases.R_DELETED
            and not rows.allocations.get(row["id"]) for row in rows.reservations):
        raise _Left("its end is half done, and nothing says which hosts it had: finish that "
                    "there, by deleting it")
    if before == leases.ERROR:
        # Also if an operation failed that is no event.
        return leases.ERROR
    if status != before:
        notes.append(f"it was {before}; by its events it is {status}")
    return status


def _settle_reservation(
    rows: _Rows, row: _Row, lease_status: str, surroundings: Surroundings, hosts: _Hosts,
    notes: list[str],
) -> dict[str, Any]:
    """Return a reservation of a lease in a status.

    :raises _Left:
    """
    id_ = row["id"]
    of_type = [fields for fields in rows.fields.get(id_, ())
               if ("count_range" in fields) == (row["resource_type"] == WHOLE_HOST)]
    if len(of_type) != 1:
        raise _Left(f"its reservation {id_} has {len(of_type)} rows of fields, not one")
    status = _settle_reservation_status(row, lease_status, notes)
    fields = _settle_fields(row, of_type[0], lease_status, surroundings)
    return {
        "resource_type": row["resource_type"],
        "resource_id": row["resource_id"] or of_type[0]["id"], "status": status,
        "missing_resources": bool(row["missing_resources"]),
        "resources_changed": bool(row["resources_changed"]),
        "fields": fields, "compute_ids": _read_compute_ids(row, of_type[0]),
        "hosts": _settle_shares(rows, row, status, hosts, notes),
        **_write_times(row, rows.lease)}


def _settle_reservation_status(row: _Row, lease_status: str, notes: list[str]) -> str:
    status = str(row["status"])
    if status not in _RESERVATION_STATUSES:
        raise _Left(f"its reservation {row['id']} has the status {row['status']}")
    settled = status
    if lease_status == leases.PENDING and status == leases.R_ACTIVE:
        settled = leases.R_PENDING
    elif lease_status == leases.TERMINATED:
        settled = leases.R_DELETED
    if settled != status:
        notes.append(f"its reservation {row['id']} was {status}, and is {settled} here")
    return settled


def _settle_fields(
    row: _Row, fields: _Row, lease_status: str, surroundings: Surroundings
) -> dict[str, Any]:
    """Return the fields of a reservation, as its plugin stores them.

    :raises _Left: the plugin refuses them, or the number of hosts cannot be read.
    """
    raw: dict[str, Any]
    if row["resource_type"] == WHOLE_HOST:
        match = _RANGE.fullmatch(fields["count_range"] or "")
        if match is None:
            raise _Left(f"its reservation {row['id']} has the count_range "
                        f"{fields['count_range']}: expected MIN-MAX")
        raw = {
            "min": int(match[1]), "max": int(match[2]),
            "hypervisor_properties": fields["hypervisor_properties"] or "",
            "resource_properties": fields["resource_properties"] or "",
            "before_end": fields["before_end"] or ""}
    else:
        raw = {
            **{name: fields[name] for name in (
                "vcpus", "memory_mb", "disk_gb", "amount", "affinity")},
            "resource_properties": fields["resource_properties"] or ""}
    try:
        return dict(surroundings.reservation_plugins[row["resource_type"]].values(raw))
    except InvalidReservation as error:
        if lease_status == leases.TERMINATED:
            return raw  # It is history: nobody plans with it any more.
        raise _Left(f"its reservation {row['id']} cannot be made here: {error}") from error


def _read_compute_ids(row: _Row, fields: _Row) -> dict[str, str | int | None]:
    """Return the ids of what was made in nova, which stays."""
    if row["resource_type"] == WHOLE_HOST:
        return {"aggregate_id": fields["aggregate_id"]}
    return {"flavor_id": fields["flavor_id"] or row["id"],
            "server_group_id": fields["server_group_id"] or None,
            "aggregate_id": fields["aggregate_id"]}


def _settle_shares(
    rows: _Rows, row: _Row, status: str, hosts: _Hosts, notes: list[str]
) -> dict[str, int]:
    """Return the slots that a reservation has on hosts, {host id: slots}.

    :raises _Left: a host is not copied.
    """
    allocations = rows.allocations.get(row["id"], ())
    if status == leases.R_DELETED:
        if allocations:
            notes.append(f"its reservation {row['id']} has ended: {len(allocations)} "
                         "allocations of it are left out")
        return {}
    slots = collections.Counter(str(allocation["compute_host_id"]) for allocation in allocations)
    for host_id, count in slots.items():
        if host_id not in hosts.records:
            raise _Left(f"its host {host_id} is refused, or not there")
        if row["resource_type"] == WHOLE_HOST and count > 1:
            notes.append(f"its reservation {row['id']} has host {hosts.records[host_id].name} "
                         f"in {count} rows: it has it once")
            slots[host_id] = 1
    return dict(slots)


def _list_bookings(record: Record) -> Iterable[Booking]:
    start_at, end_at = (
        datetime.datetime.fromisoformat(record.fields[name]) for name in ("start_at", "end_at"))
    for reservation in record.fields["reservations"].values():
        whole = reservation["resource_type"] == WHOLE_HOST
        fields = reservation["fields"]
        for host_id, slots in reservation["hosts"].items():
            yield Booking(
                host_id, record.id, record.name, start_at, end_at,
                (0, 0, 0) if whole else (
                    slots * fields["vcpus"], slots * fields["memory_mb"],
                    slots * fields["disk_gb"]), whole)


# Values ------------------------------------------------------------------------------


def _group(rows: Iterable[_Row], key: str) -> dict[str, list[_Row]]:
    groups: dict[str, list[_Row]] = collections.defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    return groups


def _cut(at: datetime.datetime) -> datetime.datetime:
    """Return a time in whole seconds: some databases have no parts of them."""
    return at.replace(microsecond=0)


def _write(at: datetime.datetime | None) -> str | None:
    return None if at is None else _cut(at).isoformat()


def _write_times(row: _Row, lease: _Row) -> dict[str, str | None]:
    created_at = row["created_at"] or lease["created_at"] or lease["start_date"]
    return {"created_at": _write(created_at), "updated_at": _write(row["updated_at"])}
