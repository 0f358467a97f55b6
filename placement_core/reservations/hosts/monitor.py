"""Watches whether the freepool's hosts work, by their compute nodes in the cells.

Any number of managers may watch at the same time: each writes the differences that it saw. Hosts
that an operator took out of service are left as they are.
Source: spec blazar §4 (monitor).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.cells.databases import CellDatabases
from placement_core.changes import revisions
from placement_core.compute import health
from placement_core.compute.health import Health
from placement_core.context import Context
from placement_core.db import Session
from placement_core.reservations import tables
from placement_core.reservations.hosts import sizes
from placement_core.reservations.hosts.registry import BY_MONITOR

LOG = logging.getLogger(__name__)

_GONE = "no cell has its compute node any more"

_hosts = tables.computehosts
#: Hosts with a hypervisor type: they had a compute node when they were registered.
_COMPUTE_HOSTS = sa.select(
    _hosts.c.id, _hosts.c.name, _hosts.c.provider_uuid, _hosts.c.reservable,
    _hosts.c.down_reason).where(_hosts.c.hypervisor_type.is_not(None)).order_by(_hosts.c.id)
_SET_SERVICE = (
    sa.update(_hosts).where(_hosts.c.id == sa.bindparam("of_id"))
    .values(reservable=sa.bindparam("is_reservable"), down_reason=sa.bindparam("reason")))


class Monitor:
    """Takes hosts out of service whose compute services are down, and puts them back.

    :param silent_seconds: a service is down if its last heartbeat is older than this; 0: only if
        it is disabled or forced down.
    """

    def __init__(self, cells: CellDatabases, *, silent_seconds: int) -> None:
        self._cells = cells
        self._silent_seconds = silent_seconds

    def watch(self, ctx: Context) -> list[str]:
        """Check all hosts and their inventories; return the names of those that changed.

        Their bookings are not changed: healing does that.
        """
        resized = sizes.refresh(ctx)
        cells = self._cells.cells(ctx)
        if not cells:
            return resized
        report = health.check(ctx, self._cells, cells, self._silent_seconds)
        return resized + _record(ctx, report)


def _record(ctx: Context, report: Health) -> list[str]:
    with db.read_once(ctx) as session:
        if not _find_changes(session, report):
            return []
    return _write(ctx, report)


@db.retry_writes
def _write(ctx: Context, report: Health) -> list[str]:
    with db.write(ctx) as session:
        revisions.increment(session, revisions.POOL)
        changes = _find_changes(session, report)
        for host, reason in changes.items():
            session.execute(_SET_SERVICE, {
                "of_id": host.id, "is_reservable": not reason, "reason": reason or None})
    for host, reason in changes.items():
        LOG.warning("host %s %s", host.name,
                    f"is out of service: {reason}" if reason else "is back in service")
    return [host.name for host in changes]


def _find_changes(session: Session, report: Health) -> Mapping[sa.Row[Any], str]:
    """Return {host: reason} of hosts that differ from the report; "": the host is up."""
    changes = {}
    for host in session.execute(_COMPUTE_HOSTS):
        if host.provider_uuid not in report.troubles and not report.complete:
            continue
        problem = report.troubles.get(host.provider_uuid, _GONE)
        reason = problem and BY_MONITOR + problem
        by_monitor = (host.down_reason or "").startswith(BY_MONITOR)
        if (host.reservable or by_monitor) and (host.down_reason or "") != reason:
            changes[host] = reason
    return changes
