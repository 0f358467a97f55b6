"""Bookings: shares of hosts, and amounts of other things, that reservations have over time.

Past shares stay for the history: an early end moves ``end_second``. The rows that end with the
lease are its present shares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.db import Session, inserts
from placement_core.plugin_api.reservations import Share, Size, Window
from placement_core.reservations import records, tables
from placement_core.reservations.records import Lease, Reservation
from placement_core.reservations.scheduling.planner import Grant
from placement_core.reservations.store import lease_rows

_shares, _amounts = tables.computehost_allocations, tables.reservation_amounts

# The ids are a list of values: for a subquery, MySQL would read every row.
_END = sa.bindparam("end", type_=sa.BigInteger)


def _of_reservations(table: sa.Table) -> sa.ColumnElement[bool]:
    return table.c.reservation_id.in_(sa.bindparam("reservation_ids", expanding=True))


def _of_lease_until(table: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions of rows that end with the lease.

    Other rows were released before, because their hosts failed.
    """
    return _of_reservations(table), table.c.end_second >= _END


_SHARES = (
    sa.select(_shares).where(*_of_lease_until(_shares))
    .order_by(_shares.c.reservation_id, _shares.c.computehost_id))
_SET_END = {
    table.name: sa.update(table).where(*_of_lease_until(table)).values(end_second=_END)
    for table in (_shares, _amounts)}
_EXTEND = {
    table.name: sa.update(table).where(*_of_lease_until(table))
    .values(end_second=sa.bindparam("new_end", type_=sa.BigInteger))
    for table in (_shares, _amounts)}
_MOVE = {
    table.name: sa.update(table).where(*_of_lease_until(table))
    .values(start_second=sa.bindparam("new_start", type_=sa.BigInteger),
            end_second=sa.bindparam("new_end", type_=sa.BigInteger))
    for table in (_shares, _amounts)}
_DELETE_ALL = {
    table.name: sa.delete(table).where(_of_reservations(table)) for table in (_shares, _amounts)}
_of_share = (_shares.c.reservation_id == sa.bindparam("of_reservation"),
             _shares.c.computehost_id == sa.bindparam("of_host"),
             _shares.c.end_second >= sa.bindparam("lease_end", type_=sa.BigInteger))
_RELEASE = sa.update(_shares).where(*_of_share).values(end_second=_END)
#: Deletes a share that lasted less than a second. Such a row exists because the host is cleaned
#: after it; it is deleted when the reservation gets the host again.
_DELETE_EMPTY = sa.delete(_shares).where(
    _shares.c.reservation_id == sa.bindparam("of_reservation"),
    _shares.c.computehost_id == sa.bindparam("of_host"),
    _shares.c.start_second == _shares.c.end_second,
    _shares.c.start_second == sa.bindparam("new_start", type_=sa.BigInteger))
_SET_AMOUNT = (
    sa.update(_amounts)
    .where(_amounts.c.reservation_id == sa.bindparam("of_reservation"),
           _amounts.c.what == sa.bindparam("of_what"))
    .values(amount=sa.bindparam("new_amount"), end_second=_END))
_END_OTHER_AMOUNTS = (
    sa.update(_amounts)
    .where(_amounts.c.reservation_id == sa.bindparam("of_reservation"),
           _amounts.c.what.not_in(sa.bindparam("of_whats", expanding=True)),
           _amounts.c.end_second > _END)
    .values(end_second=_END))


def read_shares(session: Session, lease: Lease) -> dict[str, list[Share]]:
    """Return the present shares of a lease, {reservation id: shares}."""
    by_reservation: dict[str, list[Share]] = {
        reservation.id: [] for reservation in lease.reservations}
    for row in session.execute(
            _SHARES, {"reservation_ids": list(by_reservation), "end": lease.window.end}):
        by_reservation[row.reservation_id].append(Share(
            row.computehost_id, row.slots, Size(row.vcpus, row.memory_mb, row.disk_gb),
            row.whole))
    return by_reservation


def insert(
    session: Session, grants: Iterable[tuple[Reservation, Grant]], window: Window
) -> None:
    """Insert the bookings of reservations that have none yet."""
    pairs = list(grants)
    _insert_shares(session, [
        (reservation, share) for reservation, grant in pairs for share in grant.shares], window)
    amounts = [
        {"reservation_id": reservation.id, "what": what,
         "resource_type": reservation.resource_type, "amount": amount,
         "start_second": window.start, "end_second": window.end}
        for reservation, grant in pairs for what, amount in grant.amounts.items()]
    if amounts:
        inserts.insert_many(session, _amounts, amounts)


def replace(
    session: Session, grants: Iterable[tuple[Reservation, Grant]], window: Window
) -> None:
    """Replace the bookings of reservations, none of which is in force."""
    pairs = list(grants)
    if pairs:
        reservations = [reservation for reservation, _ in pairs]
        for table in _find_tables(reservations):
            session.execute(_DELETE_ALL[table.name], _ids(reservations))
        insert(session, pairs, window)


def extend(
    session: Session, grants: Iterable[tuple[Reservation, Sequence[Share], Grant]],
    window: Window,
) -> None:
    """Add bookings to reservations that are in force.

    Past shares stay: if a reservation gets a host again, or another number of slots of it, a new
    row begins.

    :param grants: ``(reservation, its shares before, its grant)``.
    :param window: what is left of the lease's window; new shares begin at its start.
    """
    new: list[tuple[Reservation, Share]] = []
    for reservation, before, grant in grants:
        shares_before = {share.host_id: share for share in before}
        for share in grant.shares:
            if share != shares_before.get(share.host_id):
                if share.host_id in shares_before:
                    release(session, reservation, [share.host_id], window)
                new.append((reservation, share))
                session.execute(_DELETE_EMPTY, {
                    "of_reservation": reservation.id, "of_host": share.host_id,
                    "new_start": window.start})
        if grant.amounts:
            session.execute(_END_OTHER_AMOUNTS, {
                "of_reservation": reservation.id, "of_whats": list(grant.amounts),
                "end": window.start})
        added = {
            what: amount for what, amount in grant.amounts.items()
            if not session.execute(_SET_AMOUNT, {
                "of_reservation": reservation.id, "of_what": what, "new_amount": amount,
                "end": window.end}).rowcount}
        insert(session, [(reservation, Grant(amounts=added))], window)
    _insert_shares(session, new, window)


def release(
    session: Session, reservation: Reservation, host_ids: Collection[int], window: Window
) -> None:
    """End the shares of some hosts of a reservation that is in force.

    :param window: what is left of the lease's window; the shares end at its start.
    """
    for host_id in host_ids:
        session.execute(_RELEASE, {
            "of_reservation": reservation.id, "of_host": host_id,
            "lease_end": window.end, "end": window.start})


def move(session: Session, lease: Lease, window: Window, *, started: bool) -> None:
    """Move the bookings of a lease to another window.

    :param lease: the lease before the change.
    :param started: it is in force: only the end changes.
    """
    parameters = {
        **_ids(lease.reservations), "end": lease.window.end, "new_end": window.end}
    for table in _find_tables(lease.reservations):
        if started:
            session.execute(_EXTEND[table.name], parameters)
        else:
            session.execute(_MOVE[table.name], {**parameters, "new_start": window.start})


def end(session: Session, lease: Lease, second: int) -> None:
    """End the bookings of a lease, if their time is not over.

    Bookings of reservations that were not in force are deleted. Those that were in force for less
    than a second stay, with zero length, because their hosts are cleaned.

    :param lease: the lease before its end.
    :param second: the time of the end, in seconds since the epoch.
    """
    in_force, others = [], []
    for reservation in lease.reservations:
        (in_force if reservation.status == records.R_ACTIVE else others).append(reservation)
    if others:
        for table in _find_tables(others):
            session.execute(_DELETE_ALL[table.name], _ids(others))
    if in_force and second < lease.window.end:
        parameters = {**_ids(in_force), "end": max(second, lease.window.start)}
        for table in _find_tables(in_force):
            session.execute(_SET_END[table.name], parameters)


def _ids(reservations: Iterable[Reservation]) -> dict[str, Any]:
    return {"reservation_ids": [reservation.id for reservation in reservations]}


def _find_tables(reservations: Iterable[Reservation]) -> Sequence[sa.Table]:
    """Return the tables that have bookings of reservations."""
    has_amounts = any(
        not lease_rows.has_table(reservation.resource_type) for reservation in reservations)
    return (_shares, _amounts) if has_amounts else (_shares,)


def _insert_shares(
    session: Session, pairs: Sequence[tuple[Reservation, Share]], window: Window
) -> None:
    if pairs:
        inserts.insert_many(session, _shares, [
            {"reservation_id": reservation.id, "computehost_id": share.host_id,
             "slots": share.slots, "vcpus": share.size.vcpus,
             "memory_mb": share.size.memory_mb, "disk_gb": share.size.disk_gb,
             "whole": share.whole, "start_second": window.start, "end_second": window.end}
            for reservation, share in pairs])
