"""Budgets: how much projects hold of hosts, over how long.

What counts is what leases hold from a second on, past and future: a slot of two
processors over three hours is six hours of processors, whoever uses them. A lease that
ended early counts up to its end, one that was given up before it began not at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from placement_core.db import Session, lists
from placement_core.plugin_api.reservations import Share, Window
from placement_core.reservations import tables

_leases, _reservations, _held = (
    tables.leases, tables.lease_reservations, tables.computehost_allocations)

_HOUR = 3600


@dataclasses.dataclass(frozen=True, slots=True)
class _Budget:
    """What a limit is about.

    :ivar column: which amount of a slot counts; None: whole hosts do.
    :ivar unit: how many amounts × seconds one of the limit is.
    """

    column: str | None
    unit: int


#: By the name of the limit.
BUDGETS: Mapping[str, _Budget] = {
    "lease:vcpu_hours": _Budget("vcpus", _HOUR),
    # In MiB, a limit (31 bits) would not do for a rack over a month.
    "lease:memory_gb_hours": _Budget("memory_mb", 1024 * _HOUR),
    "lease:disk_gb_hours": _Budget("disk_gb", _HOUR),
    "lease:host_hours": _Budget(None, _HOUR),
}

#: Sums of amounts × seconds, by the name of the limit.
Sums = Mapping[str, int]

#: Products of large hosts and long leases exceed 64 bits.
_WIDE = sa.Numeric(38, 0).with_variant(sa.Float(), "sqlite")


def sum_shares(shares: Iterable[Share], window: Window, since: int) -> Sums:
    """Return what shares would hold over a window, from a second on."""
    seconds = max(window.end - max(window.start, since), 0)
    sums = dict.fromkeys(BUDGETS, 0)
    for share in shares:
        for name, budget in BUDGETS.items():
            amount = int(share.whole) if budget.column is None else (
                share.slots * getattr(share.size, budget.column))
            sums[name] += amount * seconds
    return sums


def read_sums(
    session: Session, project_ids: Iterable[str], since: int, lease_id: str | None
) -> tuple[Mapping[str, Sums], Sums]:
    """Return what projects hold, from a second on, and what one lease of them does.

    :param lease_id: None: there is none.
    :returns: by project, those that hold anything; and the lease's part of that.
    """
    by_project: dict[str, Sums] = {}
    own = dict.fromkeys(BUDGETS, 0)
    for row in session.execute(_SUMS, {
            "project_ids": sorted(project_ids), "since": since, "own": lease_id or ""}):
        by_project[row[0]] = {
            name: int(row[1 + column]) for column, name in enumerate(BUDGETS)}
        for column, name in enumerate(BUDGETS, 1 + len(BUDGETS)):
            own[name] += int(row[column])
    return by_project, own


def _build_sums() -> sa.Select[Any]:
    since = sa.bindparam("since", type_=sa.BigInteger)
    begin = sa.case((_held.c.start_second > since, _held.c.start_second), else_=since)
    seconds = sa.cast(_held.c.end_second - begin, _WIDE)
    sums = [
        sa.case((_held.c.whole, seconds), else_=0) if budget.column is None
        else seconds * _held.c.slots * _held.c[budget.column]
        for budget in BUDGETS.values()]
    is_own = _leases.c.id == sa.bindparam("own")
    return (
        sa.select(
            _leases.c.project_id, *map(sa.func.sum, sums),
            *(sa.func.sum(sa.case((is_own, amount), else_=0)) for amount in sums))
        .join(_reservations, _reservations.c.lease_id == _leases.c.id)
        .join(_held, _held.c.reservation_id == _reservations.c.id)
        .where(
            lists.among(_leases.c.project_id, "project_ids"),
            _held.c.end_second > since, _held.c.end_second > _held.c.start_second)
        .group_by(_leases.c.project_id))


_SUMS = _build_sums()
