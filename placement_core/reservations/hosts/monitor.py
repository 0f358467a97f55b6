"""Which hosts of the freepool work: asked of the cells that have their compute nodes.

Any number may watch at the same time: each writes what it saw, and only what is new. What
people took out of service, the monitor leaves as it is.
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
#: With a type: it was a compute node when it came into the pool.
_SERVED = sa.select(
    _hosts.c.id, _hosts.c.name, _hosts.c.provider_uuid, _hosts.c.reservable,
    _hosts.c.down_reason).where(_hosts.c.hypervisor_type.is_not(None)).order_by(_hosts.c.id)
_SET = (
    sa.update(_hosts).where(_hosts.c.id == sa.bindparam("of_id"))
    .values(reservable=sa.bindparam("is_reservable"), down_reason=sa.bindparam("reason")))


class Monitor:
    """Takes hosts out of service whose compute nodes do not work, and puts them back.

    :param silent_seconds: a service that gave no sign of life for so long does not work;
        0: only one that is disabled or forced down does not.
    """

    def __init__(self, cells: CellDatabases, *, silent_seconds: int) -> None:
        self._cells = cells
        self._silent_seconds = silent_seconds

    def watch(self, ctx: Context) -> list[str]:
        """Look at all hosts, and at their inventories; return the names of those that changed.

        What is promised of them is not touched: that is for healing.
        """
        resized = sizes.refresh(ctx)
        cells = self._cells.cells(ctx)
        if not cells:
            return resized
        seen = health.check(ctx, self._cells, cells, self._silent_seconds)
        return resized + _note(ctx, seen)


def _note(ctx: Context, seen: Health) -> list[str]:
    with db.read_once(ctx) as session:
        if not _news(session, seen):
            return []
    return _write(ctx, seen)


@db.retry_writes
def _write(ctx: Context, seen: Health) -> list[str]:
    with db.write(ctx) as session:
        revisions.raise_(session, revisions.POOL)
        news = _news(session, seen)
        for host, reason in news.items():
            session.execute(_SET, {
                "of_id": host.id, "is_reservable": not reason, "reason": reason or None})
    for host, reason in news.items():
        LOG.warning("host %s %s", host.name,
                    f"is out of service: {reason}" if reason else "is back in service")
    return [host.name for host in news]


def _news(session: Session, seen: Health) -> Mapping[sa.Row[Any], str]:
    """Return the hosts that are not as they were seen: why they are down, empty if not."""
    news = {}
    for host in session.execute(_SERVED):
        if host.provider_uuid not in seen.troubles and not seen.complete:
            continue
        trouble = seen.troubles.get(host.provider_uuid, _GONE)
        reason = trouble and BY_MONITOR + trouble
        by_monitor = (host.down_reason or "").startswith(BY_MONITOR)
        if (host.reservable or by_monitor) and (host.down_reason or "") != reason:
            news[host] = reason
    return news
