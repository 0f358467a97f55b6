"""Blazar as a source: hosts with their properties, and leases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from placement_core.takeover.blazar_hosts import settle_hosts
from placement_core.takeover.blazar_leases import settle_leases
from placement_core.takeover.blazar_tables import LEFT, TABLES, Tables
from placement_core.takeover.records import (
    HOST,
    HOST_PROPERTY,
    LEASE,
    Contents,
    Item,
    Outcome,
    Surroundings,
)

KINDS = (HOST_PROPERTY, HOST, LEASE)


def read(connection: sa.Connection, surroundings: Surroundings) -> Contents:
    """Return what Blazar's database has."""
    return settle({
        table.name: [dict(row) for row in connection.execute(
            sa.select(table).order_by(*_find_order(table))).mappings()]
        for table in TABLES}, surroundings) + Contents([], list(_count_left(connection)))


def _find_order(table: sa.TableClause) -> list[sa.ColumnElement[Any]]:
    """Return the order of creation, as far as it is known."""
    return [column for name in ("created_at", "id")
            if (column := table.c.get(name)) is not None]


def _count_left(connection: sa.Connection) -> Iterator[Item]:
    """Yield an item for each kind of rows that stays in Blazar."""
    for name, (kind, reason) in LEFT.items():
        count = connection.execute(
            sa.select(sa.func.count()).select_from(sa.table(name))).scalar_one()
        if count:
            yield Item(kind, "", "", Outcome.SKIPPED, reason, count=count)


def settle(tables: Tables, surroundings: Surroundings) -> Contents:
    """Return what the rows of Blazar's tables mean here. Pure."""
    hosts = settle_hosts(tables, surroundings)
    settled = settle_leases(tables, surroundings, hosts)
    return Contents(
        [*hosts.properties, *hosts.records.values(), *settled.records],
        [*hosts.left, *settled.left])
