"""Bookable sizes of hosts: the capacities of the inventories of their trees."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import revisions
from placement_core.context import Context
from placement_core.db import Session
from placement_core.placement import tables as placement_tables
from placement_core.reservations import tables

LOG = logging.getLogger(__name__)

_LARGEST_SIZE = 2**63 - 1

#: {resource class: column of the bookable size}.
COLUMNS = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}

_hosts = tables.computehosts
_providers, _inventories, _classes = (
    placement_tables.resource_providers, placement_tables.inventories,
    placement_tables.resource_classes)

# In old databases, roots may lack root_provider_id.
_TREE = sa.select(_providers.c.id).where(sa.or_(
    _providers.c.root_provider_id == sa.bindparam("root_id"),
    _providers.c.id == sa.bindparam("root_id")))
_of_sizes = _classes.c.name.in_(tuple(COLUMNS))
_CAPACITIES = (
    sa.select(_classes.c.name, _inventories.c.capacity)
    .join(_classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(_of_sizes, _inventories.c.resource_provider_id.in_(
        sa.bindparam("tree", expanding=True))))
_ALL_SIZES = sa.select(
    _hosts.c.id, _hosts.c.name, *(_hosts.c[column] for column in COLUMNS.values()))
_ALL_CAPACITIES = (
    sa.select(_hosts.c.id, _classes.c.name, _inventories.c.capacity)
    .join(_providers, _hosts.c.provider_id == sa.func.coalesce(
        _providers.c.root_provider_id, _providers.c.id))
    .join(_inventories, _inventories.c.resource_provider_id == _providers.c.id)
    .join(_classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(_of_sizes))
_RESIZE = sa.update(_hosts).where(_hosts.c.id == sa.bindparam("of_id"))


def find_tree(session: Session, root_id: int) -> set[int]:
    """Return the ids of the providers in the tree of a root."""
    return set(session.execute(_TREE, {"root_id": root_id}).scalars())


def read_tree_sizes(session: Session, tree: Iterable[int]) -> dict[str, int]:
    """Return the bookable sizes of a host with this tree, {column: amount}."""
    return _sum_sizes(session.execute(_CAPACITIES, {"tree": sorted(tree)}))


@db.retry_writes
def refresh(ctx: Context) -> list[str]:
    """Update the bookable sizes of all hosts from their inventories.

    Afterwards, a host may be overbooked; healing handles that.

    :returns: the names of the hosts whose sizes have changed.
    """
    with db.read(ctx) as session:
        if not _find_outdated(session):
            return []
    with db.write(ctx) as session:
        revisions.increment(session, revisions.POOL)
        outdated = _find_outdated(session)
        for host, sizes in outdated.items():
            session.execute(_RESIZE.values(**sizes), {"of_id": host.id})
    for host, sizes in outdated.items():
        LOG.warning("the inventories of host %s have changed; it can be promised %s", host.name,
                    ", ".join(f"{column} {amount}" for column, amount in sizes.items()))
    return [host.name for host in outdated]


def _sum_sizes(capacities: Iterable[Any]) -> dict[str, int]:
    """Return the bookable sizes, by column, of a tree with these ``(class, capacity)``."""
    sizes = dict.fromkeys(COLUMNS.values(), 0)
    for name, capacity in capacities:
        column = COLUMNS[name]
        sizes[column] = min(sizes[column] + max(capacity, 0), _LARGEST_SIZE)
    return sizes


def _find_outdated(session: Session) -> dict[sa.Row[Any], dict[str, int]]:
    """Return {host: new sizes} of the hosts whose inventories have other capacities."""
    present = session.execute(_ALL_SIZES).all()
    capacities: dict[int, list[tuple[str, int]]] = {row.id: [] for row in present}
    for row in session.execute(_ALL_CAPACITIES):
        capacities[row.id].append((row.name, row.capacity))
    expected = {row: _sum_sizes(capacities[row.id]) for row in present}
    return {row: sizes for row, sizes in expected.items()
            if any(getattr(row, column) != amount for column, amount in sizes.items())}
