"""Blazar's leases: one record each, with its reservations, their shares of hosts and its events.

Blazar has no locks, and writes each row of a lease in a transaction of its own. So there are
leases in the middle of a transition, hosts that are booked twice, and rows that belong to nothing.
Whatever our manager can carry on with is settled, with a note on the record; the rest is refused.
Pure. Source: spec blazar §3 and §4.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placement_core.plugin_api.reservations import InvalidReservation
from placement_core.reservations import records as leases
from placement_core.reservations.store import lease_rows
from placement_core.takeover import double_bookings
from placement_core.takeover.blazar_hosts import Hosts
from placement_core.takeover.blazar_tables import (
    INSTANCE,
    WHOLE_HOST,
    Row,
    Tables,
    cut_time,
    group_rows,
    write_time,
)
from placement_core.takeover.double_bookings import Booking
from placement_core.takeover.records import (
    HOST,
    LEASE,
    Contents,
    Item,
    Outcome,
    Record,
    Surroundings,
)

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

    lease: Row
    reservations: Sequence[Row]
    events: Sequence[Row]
    fields: Mapping[str, Sequence[Row]]
    allocations: Mapping[str, Sequence[Row]]


def settle_leases(
    tables: Tables, surroundings: Surroundings, hosts: Hosts
) -> Contents:
    """Return the leases that can be copied, and what is left.

    :param hosts: those that can be copied; leases of others cannot.
    """
    reservations = group_rows(tables["reservations"], "lease_id")
    events = group_rows(tables["events"], "lease_id")
    fields = group_rows((*tables["computehost_reservations"], *tables["instance_reservations"]),
                    "reservation_id")
    allocations = group_rows(tables["computehost_allocations"], "reservation_id")
    drafts: list[Record] = []
    left: list[Item] = []
    for row in tables["leases"]:
        rows = _Rows(row, reservations.get(row["id"], ()), events.get(row["id"], ()), fields,
                     allocations)
        try:
            drafts.append(_settle_lease(rows, surroundings, hosts))
        except _Left as reason:
            left.append(Item(
                LEASE, row["id"], row["name"], reason.outcome, str(reason),
                has_no_place=reason.outcome is Outcome.SKIPPED))
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


def _list_lost(tables: Tables) -> Iterable[Item]:
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


def _settle_lease(rows: _Rows, surroundings: Surroundings, hosts: Hosts) -> Record:
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
            "project_id": lease["project_id"], "start_at": write_time(lease["start_date"]),
            "end_at": write_time(lease["end_date"]), "status": status,
            "degraded": bool(lease["degraded"]), "trust_id": lease["trust_id"] or None,
            "reservations": reservations, "events": events,
            "created_at": write_time(created_at), "updated_at": write_time(lease["updated_at"]),
            "deleted": False,
        }, notes, sorted({(HOST, host_id) for reservation in reservations.values()
                          for host_id in reservation["hosts"]}))


def _check_types(rows: _Rows, surroundings: Surroundings, hosts: Hosts) -> None:
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
    held = (f"; unless it was copied before, nobody holds its hosts here: {', '.join(names)}"
            if names else "")
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
    if cut_time(lease["start_date"]) >= cut_time(lease["end_date"]):
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
    by_type: dict[str, list[Row]] = collections.defaultdict(list)
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
                "event_type": event_type, "due_at": write_time(row["time"]), "status": status,
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
    rows: _Rows, row: Row, lease_status: str, surroundings: Surroundings, hosts: Hosts,
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


def _settle_reservation_status(row: Row, lease_status: str, notes: list[str]) -> str:
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
    row: Row, fields: Row, lease_status: str, surroundings: Surroundings
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


def _read_compute_ids(row: Row, fields: Row) -> dict[str, str | int | None]:
    """Return the ids of what was made in nova, which stays."""
    if row["resource_type"] == WHOLE_HOST:
        return {"aggregate_id": fields["aggregate_id"]}
    return {"flavor_id": fields["flavor_id"] or row["id"],
            "server_group_id": fields["server_group_id"] or None,
            "aggregate_id": fields["aggregate_id"]}


def _settle_shares(
    rows: _Rows, row: Row, status: str, hosts: Hosts, notes: list[str]
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


def _write_times(row: Row, lease: Row) -> dict[str, str | None]:
    created_at = row["created_at"] or lease["created_at"] or lease["start_date"]
    return {"created_at": write_time(created_at), "updated_at": write_time(row["updated_at"])}
