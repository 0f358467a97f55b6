"""What reservations hold of hosts, and of what is on no host, over time.

What was held stays for the history: an early end moves ``end_second``. The rows that end with
the lease say what it holds now.
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

_held, _amounts = tables.computehost_allocations, tables.reservation_amounts

# Reservations are named one by one: MySQL would look at every row for a subquery.
_END = sa.bindparam("end", type_=sa.BigInteger)


def _of_some(table: sa.Table) -> sa.ColumnElement[bool]:
    return table.c.reservation_id.in_(sa.bindparam("reservation_ids", expanding=True))


def _of_lease_until(table: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
    """Return which rows are held to the end of a lease.

    Others were given up before: their hosts failed.
    """
    return _of_some(table), table.c.end_second >= _END


_SHARES = (
    sa.select(_held).where(*_of_lease_until(_held))
    .order_by(_held.c.reservation_id, _held.c.computehost_id))
_CUT = {
    table.name: sa.update(table).where(*_of_lease_until(table)).values(end_second=_END)
    for table in (_held, _amounts)}
_MOVE_END = {
    table.name: sa.update(table).where(*_of_lease_until(table))
    .values(end_second=sa.bindparam("new_end", type_=sa.BigInteger))
    for table in (_held, _amounts)}
_MOVE = {
    table.name: sa.update(table).where(*_of_lease_until(table))
    .values(start_second=sa.bindparam("new_start", type_=sa.BigInteger),
            end_second=sa.bindparam("new_end", type_=sa.BigInteger))
    for table in (_held, _amounts)}
_DROP_ALL = {
    table.name: sa.delete(table).where(_of_some(table)) for table in (_held, _amounts)}
_of_share = (_held.c.reservation_id == sa.bindparam("of_reservation"),
             _held.c.computehost_id == sa.bindparam("of_host"),
             _held.c.end_second >= sa.bindparam("lease_end", type_=sa.BigInteger))
_LOSE = sa.update(_held).where(*_of_share).values(end_second=_END)
#: What was held for less than a second: it is kept because the host is cleaned after it, until
#: the reservation has the host again.
_DROP_MOMENT = sa.delete(_held).where(
    _held.c.reservation_id == sa.bindparam("of_reservation"),
    _held.c.computehost_id == sa.bindparam("of_host"),
    _held.c.start_second == _held.c.end_second,
    _held.c.start_second == sa.bindparam("new_start", type_=sa.BigInteger))
_SET_AMOUNT = (
    sa.update(_amounts)
    .where(_amounts.c.reservation_id == sa.bindparam("of_reservation"),
           _amounts.c.what == sa.bindparam("of_what"))
    .values(amount=sa.bindparam("new_amount")))


def read_shares(session: Session, lease: Lease) -> dict[str, list[Share]]:
    """Return what the reservations of a lease hold, by their ids."""
    by_reservation: dict[str, list[Share]] = {
        reservation.id: [] for reservation in lease.reservations}
    for row in session.execute(
            _SHARES, {"reservation_ids": list(by_reservation), "end": lease.window.end}):
        by_reservation[row.reservation_id].append(Share(
            row.computehost_id, row.slots, Size(row.vcpus, row.memory_mb, row.disk_gb),
            row.whole))
    return by_reservation


def insert(
    session: Session, granted: Iterable[tuple[Reservation, Grant]], window: Window
) -> None:
    """Write down what reservations hold that held nothing."""
    pairs = list(granted)
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
    session: Session, granted: Iterable[tuple[Reservation, Grant]], window: Window
) -> None:
    """Write down what reservations hold instead of what they held; none is in force."""
    pairs = list(granted)
    if pairs:
        reservations = [reservation for reservation, _ in pairs]
        for table in _holding(reservations):
            session.execute(_DROP_ALL[table.name], _ids(reservations))
        insert(session, pairs, window)


def extend(
    session: Session, granted: Iterable[tuple[Reservation, Sequence[Share], Grant]],
    window: Window,
) -> None:
    """Write down what reservations that are in force hold besides what they held.

    What they had before stays known: a host that one gets again, or gets more slots of, has
    another row from then on.

    :param granted: with what each one held.
    :param window: what is left of the lease's: what is new is held from its start on.
    """
    new: list[tuple[Reservation, Share]] = []
    for reservation, before, grant in granted:
        held = {share.host_id: share for share in before}
        for share in grant.shares:
            if share != held.get(share.host_id):
                if share.host_id in held:
                    release(session, reservation, [share.host_id], window)
                new.append((reservation, share))
                session.execute(_DROP_MOMENT, {
                    "of_reservation": reservation.id, "of_host": share.host_id,
                    "new_start": window.start})
        added = {
            what: amount for what, amount in grant.amounts.items()
            if not session.execute(_SET_AMOUNT, {
                "of_reservation": reservation.id, "of_what": what, "new_amount": amount}).rowcount}
        insert(session, [(reservation, Grant(amounts=added))], window)
    _insert_shares(session, new, window)


def release(
    session: Session, reservation: Reservation, host_ids: Collection[int], window: Window
) -> None:
    """Write down that a reservation that is in force has what it had of hosts no longer.

    :param window: what is left of the lease's: its start is when.
    """
    for host_id in host_ids:
        session.execute(_LOSE, {
            "of_reservation": reservation.id, "of_host": host_id,
            "lease_end": window.end, "end": window.start})


def move(session: Session, lease: Lease, window: Window, *, started: bool) -> None:
    """Change when a lease's reservations hold what they hold.

    :param lease: as it was.
    :param started: what was held is history: only the end changes.
    """
    parameters = {
        **_ids(lease.reservations), "end": lease.window.end, "new_end": window.end}
    for table in _holding(lease.reservations):
        if started:
            session.execute(_MOVE_END[table.name], parameters)
        else:
            session.execute(_MOVE[table.name], {**parameters, "new_start": window.start})


def end(session: Session, lease: Lease, second: int) -> None:
    """End what the reservations of a lease hold, if that is not over.

    What was not in force was never held: nothing is left of it. What was in force for less than
    a second was: its hosts are cleaned.

    :param lease: as it was.
    :param second: when, in seconds since the epoch.
    """
    in_force, others = [], []
    for reservation in lease.reservations:
        (in_force if reservation.status == records.R_ACTIVE else others).append(reservation)
    if others:
        for table in _holding(others):
            session.execute(_DROP_ALL[table.name], _ids(others))
    if in_force and second < lease.window.end:
        parameters = {**_ids(in_force), "end": max(second, lease.window.start)}
        for table in _holding(in_force):
            session.execute(_CUT[table.name], parameters)


def _ids(reservations: Iterable[Reservation]) -> dict[str, Any]:
    return {"reservation_ids": [reservation.id for reservation in reservations]}


def _holding(reservations: Iterable[Reservation]) -> Sequence[sa.Table]:
    """Return in which tables reservations hold something."""
    has_amounts = any(
        not lease_rows.has_table(reservation.resource_type) for reservation in reservations)
    return (_held, _amounts) if has_amounts else (_held,)


def _insert_shares(
    session: Session, pairs: Sequence[tuple[Reservation, Share]], window: Window
) -> None:
    if pairs:
        inserts.insert_many(session, _held, [
            {"reservation_id": reservation.id, "computehost_id": share.host_id,
             "slots": share.slots, "vcpus": share.size.vcpus,
             "memory_mb": share.size.memory_mb, "disk_gb": share.size.disk_gb,
             "whole": share.whole, "start_second": window.start, "end_second": window.end}
            for reservation, share in pairs])
