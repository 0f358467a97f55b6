"""Budgets: limits on amounts × time that projects reserve of hosts.

Shares of leases count from a given second on, past and future: a slot of two processors over
three hours is six processor hours, whether it is used or not. A lease that ended early counts up
to its end; one that was deleted before it began does not count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from placement_core.db import Session, lists
from placement_core.plugin_api.reservations import Share, Window
from placement_core.reservations import tables

_leases, _reservations, _shares = (
    tables.leases, tables.lease_reservations, tables.computehost_allocations)

_HOUR = 3600


@dataclasses.dataclass(frozen=True, slots=True)
class _Budget:
    """A budget.

    :ivar column: the column of a share that counts, times its slots; None: whole hosts count.
    :ivar unit: how many (amount × seconds) one unit of the limit is.
    """

    column: str | None
    unit: int


#: {name of the limit: budget}.
BUDGETS: Mapping[str, _Budget] = {
    "lease:vcpu_hours": _Budget("vcpus", _HOUR),
    # In MiB, a limit (31 bits) would not do for a rack over a month.
    "lease:memory_gb_hours": _Budget("memory_mb", 1024 * _HOUR),
    "lease:disk_gb_hours": _Budget("disk_gb", _HOUR),
    "lease:host_hours": _Budget(None, _HOUR),
}

#: {name of the limit: sum of (amount × seconds)}.
Sums = Mapping[str, int]

#: Products of large hosts and long leases exceed 64 bits.
_WIDE = sa.Numeric(38, 0).with_variant(sa.Float(), "sqlite")


def sum_shares(shares: Iterable[Share], window: Window, since: int) -> Sums:
    """Return the sums of shares over a window, from a second on."""
    seconds = max(window.end - max(window.start, since), 0)
    sums = dict.fromkeys(BUDGETS, 0)
    for share in shares:
        for name, budget in BUDGETS.items():
            amount = int(share.whole) if budget.column is None else (
                share.slots * getattr(share.size, budget.column))
            sums[name] += amount * seconds
    return sums


def read_sums(
    session: Session, project_ids: Iterable[str], since: int, lease_id: str | None,
    lease_since: int,
) -> tuple[Mapping[str, Sums], Sums]:
    """Return the sums of projects from a second on, and the part of one lease.

    :param lease_id: the lease; None: none.
    :param lease_since: not before ``since``: its part counts from this second on.
    :returns: {project id: sums} of the projects with shares; and the sums of the lease.
    """
    by_project: dict[str, Sums] = {}
    own = dict.fromkeys(BUDGETS, 0)
    for row in session.execute(_SUMS, {
            "project_ids": sorted(project_ids), "since": since, "own": lease_id or "",
            "own_since": lease_since}):
        by_project[row[0]] = {
            name: int(row[1 + column]) for column, name in enumerate(BUDGETS)}
        for column, name in enumerate(BUDGETS, 1 + len(BUDGETS)):
            own[name] += int(row[column])
    return by_project, own


def _multiply(since: sa.ColumnElement[int]) -> list[sa.ColumnElement[Any]]:
    """Return amount × seconds of a share from a second on, for each budget."""
    begin = sa.case((_shares.c.start_second > since, _shares.c.start_second), else_=since)
    seconds = sa.cast(_shares.c.end_second - begin, _WIDE)
    return [
        sa.case((_shares.c.whole, seconds), else_=0) if budget.column is None
        else seconds * _shares.c.slots * _shares.c[budget.column]
        for budget in BUDGETS.values()]


def _build_sums() -> sa.Select[Any]:
    since, own_since = (
        sa.bindparam(name, type_=sa.BigInteger) for name in ("since", "own_since"))
    is_own = sa.and_(
        _leases.c.id == sa.bindparam("own"), _shares.c.end_second > own_since)
    return (
        sa.select(
            _leases.c.project_id, *map(sa.func.sum, _multiply(since)),
            *(sa.func.sum(sa.case((is_own, amount), else_=0))
              for amount in _multiply(own_since)))
        .join(_reservations, _reservations.c.lease_id == _leases.c.id)
        .join(_shares, _shares.c.reservation_id == _reservations.c.id)
        .where(
            lists.among(_leases.c.project_id, "project_ids"),
            _shares.c.end_second > since, _shares.c.end_second > _shares.c.start_second)
        .group_by(_leases.c.project_id))


_SUMS = _build_sums()
