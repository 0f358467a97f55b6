"""The contract step: columns that older versions left empty become NOT NULL.

It is not part of ``db sync``. It runs when all rows are migrated, and refuses otherwise. It does
not change nova's own databases. Safe to repeat.
Source: requirements Q6 and I7.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Collection
from typing import Any

import sqlalchemy as sa
from alembic import migration, operations

from placement_core import db, errors
from placement_core.cells import cell_tables, tables as cells_tables
from placement_core.cells.databases import CellDatabases
from placement_core.cells.records import Cell
from placement_core.compute import tables as compute_tables
from placement_core.context import Context

Say = Callable[[str], None]

_mappings = cells_tables.instance_mappings
_nodes = cell_tables.compute_nodes
_migrated = compute_tables.migrated_nodes

#: Tables that only nova creates, in the databases of which this service knows some tables.
_NOVAS_API, _NOVAS_CELL = "build_requests", "block_device_mapping"
_UUID_INDEX = "compute_nodes_uuid_idx"
_MIGRATE = "run `placement-core db online-data-migrations`"


class NotReady(errors.Conflict):
    """A table cannot be contracted: rows are not migrated, for example."""


def select_unfilled() -> sa.Select[Any]:
    """Return the statement that counts mappings that lack values, and those without a cell."""
    return sa.select(
        sa.func.count().label("rows"),
        sa.func.coalesce(sa.func.sum(sa.case(
            (_mappings.c.cell_id.is_(None), 1), else_=0)), 0).label("without_cell"),
    ).select_from(_mappings).where(sa.or_(
        _mappings.c.user_id.is_(None), _mappings.c.queued_for_delete.is_(None)))


def contract_own(connection: sa.Connection, say: Say) -> None:
    """Contract the tables of the service's own database.

    :raises NotReady: rows are not migrated, or several nodes have the same uuid; nothing was
        changed.
    """
    inspector = sa.inspect(connection)
    mappings = not inspector.has_table(_NOVAS_API)
    nodes = inspector.has_table(_nodes.name) and not inspector.has_table(_NOVAS_CELL)
    if mappings:
        _require_filled(connection)
    else:
        say("instance_mappings is nova's own table here; it stays as it is")
    if nodes:
        _require_migrated(connection, set(connection.scalars(sa.select(_migrated.c.uuid))))
    if mappings:
        _require_values(connection, _mappings, ("user_id", "queued_for_delete"), say)
    if nodes:
        _contract_nodes(connection, say)


def contract_cell(ctx: Context, cells: CellDatabases, which: Cell, say: Say) -> None:
    """Contract ``compute_nodes`` in the database of a cell that is not nova's.

    :raises NotReady: a node is not migrated, several have the same uuid, or the table is nova's
        or does not exist; nothing was changed.
    :raises errors.Unavailable: its database does not answer.
    """
    with db.read_once(ctx) as session:
        migrated = set(session.execute(
            sa.select(_migrated.c.uuid).where(_migrated.c.cell_uuid == which.uuid)).scalars())
    with db.write(cells.of(ctx, which)) as session:
        connection = session.connection
        inspector = sa.inspect(connection)
        if inspector.has_table(_NOVAS_CELL):
            raise NotReady(
                f"The database of cell {which.title} is nova's own; it stays as it is.")
        if not inspector.has_table(_nodes.name):
            raise NotReady(
                f"The database of cell {which.title} has no table {_nodes.name}: run "
                f"`placement-core cells sync`.")
        _require_migrated(connection, migrated)
        _contract_nodes(connection, say)


def _require_filled(connection: sa.Connection) -> None:
    counts = connection.execute(select_unfilled()).one()
    if not counts.rows:
        return
    advice = _MIGRATE
    if counts.without_cell:
        advice += (f"; {counts.without_cell} of them have no cell, and stay as they are until "
                   "they have one")
    raise NotReady(
        f"{counts.rows} instance mappings have no user_id or no queued_for_delete: {advice}. "
        "Nothing was changed.")


def _require_migrated(connection: sa.Connection, migrated: Collection[str]) -> None:
    node_uuids = [row.uuid for row in connection.execute(
        sa.select(_nodes.c.uuid).where(_nodes.c.deleted == 0))]
    left = sum(uuid not in migrated for uuid in node_uuids)
    if left:
        raise NotReady(
            f"{left} compute nodes are not migrated: {_MIGRATE}. Nothing was changed.")
    twice = connection.execute(
        sa.select(_nodes.c.uuid).where(_nodes.c.uuid.is_not(None))
        .group_by(_nodes.c.uuid).having(sa.func.count() > 1).limit(1)).scalar()
    if twice is not None:
        raise NotReady(
            f"Several rows of {_nodes.name} have the uuid {twice}, one of them deleted: give "
            "that another one. Nothing was changed.")


def _contract_nodes(connection: sa.Connection, say: Say) -> None:
    # Deleted rows were never migrated, and are not read.
    for row in connection.execute(sa.select(_nodes.c.id).where(_nodes.c.uuid.is_(None))).all():
        connection.execute(sa.update(_nodes).where(_nodes.c.id == row.id).values(
            uuid=str(uuids.uuid4()), updated_at=_nodes.c.updated_at))
    _require_values(connection, _nodes, ("uuid",), say)
    indexes = {index["name"] for index in sa.inspect(connection).get_indexes(_nodes.name)}
    if _UUID_INDEX not in indexes:
        _make_operations(connection).create_index(_UUID_INDEX, _nodes.name, ["uuid"], unique=True)
        say(f"{_nodes.name}.uuid is unique now")


def _require_values(
    connection: sa.Connection, table: sa.Table, names: Collection[str], say: Say
) -> None:
    """Make nullable columns NOT NULL."""
    is_nullable = {column["name"]: column["nullable"]
                   for column in sa.inspect(connection).get_columns(table.name)}
    nullable = [name for name in names if is_nullable[name]]
    for name in names:
        if name not in nullable:
            say(f"{table.name}.{name} is NOT NULL already")
    if nullable:
        # A single batch, because SQLite copies the table for each.
        with _make_operations(connection).batch_alter_table(table.name) as batch:
            for name in nullable:
                batch.alter_column(name, existing_type=table.c[name].type, nullable=False)
    for name in nullable:
        say(f"{table.name}.{name} is NOT NULL now")


def _make_operations(connection: sa.Connection) -> operations.Operations:
    return operations.Operations(migration.MigrationContext.configure(connection))
