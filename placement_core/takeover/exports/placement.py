"""Our providers, consumers and allocations as rows of Placement's own tables.

For an empty database of the schema ``placement.SCHEMA``. Ids, uuids and generations are ours.
Our tables have Placement's columns, and some more, which are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session
from placement_core.placement import tables
from placement_core.placement.provider_copies import sort_downwards
from placement_core.takeover.exports import Exporter, Row, Values
from placement_core.takeover.placement import SCHEMA

#: In an order in which each row comes behind those that it refers to.
_TABLES = (
    tables.resource_classes, tables.traits, tables.resource_providers, tables.inventories,
    tables.resource_provider_traits, tables.placement_aggregates,
    tables.resource_provider_aggregates, tables.projects, tables.users, tables.consumer_types,
    tables.consumers, tables.allocations)
#: What Placement does not have.
_ADDED: Mapping[str, frozenset[str]] = {
    "resource_classes": frozenset({"revision"}),
    "resource_providers": frozenset({"revision"}),
    "inventories": frozenset({"used", "capacity"}),
    "allocations": frozenset({"txn", "started_at"})}
#: The id of the first resource class is 0.
_MYSQL_MODE = "NO_AUTO_VALUE_ON_ZERO"
#: Those in which Placement has names of its own from the start.
_NAMED = ("resource_classes", "traits")
_CUSTOM = "CUSTOM_"
#: How many rows one statement reads.
_PAGE = 5000


def make_exporter() -> Exporter:
    """Return what exports to Placement."""
    return Exporter(
        "placement", SCHEMA, [table.name for table in _TABLES], list_rows,
        is_bootstrapped=_is_standard, replaced=_NAMED, mysql_mode=_MYSQL_MODE)


def _is_standard(table: str, row: Values) -> bool:
    return table in _NAMED and not row["name"].startswith(_CUSTOM)


def list_rows(ctx: Context) -> Iterator[Row]:
    """Yield all rows, as of one moment: (the name of the table, values by column).

    The standard resource classes and traits are among them. Until the end, ``ctx`` is in a
    transaction that reads.
    """
    with db.read(ctx) as session:
        for table in _TABLES:
            rows = _read_pages(session, table)
            if table is tables.resource_providers:
                rows = _sort_providers(rows)
            for row in rows:
                yield table.name, row


def _read_pages(session: Session, table: sa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table in the order of its key."""
    columns = [column for column in table.c
               if column.name not in _ADDED.get(table.name, frozenset())]
    key = list(table.primary_key)
    statement = sa.select(*columns).order_by(*key).limit(_PAGE)
    after: tuple[Any, ...] | None = None
    while True:
        page = statement if after is None else statement.where(
            sa.tuple_(*key) > sa.tuple_(*map(sa.literal, after)) if len(key) > 1
            else key[0] > after[0])
        rows = session.execute(page).mappings().all()
        for row in rows:
            yield dict(row)
        if len(rows) < _PAGE:
            return
        after = tuple(rows[-1][column.name] for column in key)


def _sort_providers(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield providers behind those above them."""
    by_id = {row["id"]: row for row in rows}
    for id_ in sort_downwards({
            id_: row["parent_provider_id"] for id_, row in by_id.items()}):
        row = by_id[id_]
        # Old databases have roots that do not say so.
        row["root_provider_id"] = row["root_provider_id"] or id_
        yield row
