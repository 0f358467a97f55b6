"""Read and write rows of ``compute_nodes``, and count ``pci_devices``, in a cell's database.

Each function takes a context on that database.
"""

from __future__ import annotations

import collections
import dataclasses
import uuid as uuids
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.cells import cell_tables
from placement_core.compute.records import NodeRow
from placement_core.context import Context

_nodes = cell_tables.compute_nodes
_devices = cell_tables.pci_devices

_ALIVE = _nodes.c.deleted == 0
_ROWS = sa.select(
    *(_nodes.c[field.name] for field in dataclasses.fields(NodeRow))).where(_ALIVE)
_PAGE = (
    _ROWS.where(_nodes.c.id > sa.bindparam("after")).order_by(_nodes.c.id)
    .limit(sa.bindparam("most"))
)
_BY_UUID = _ROWS.where(_nodes.c.uuid == sa.bindparam("of_uuid")).order_by(_nodes.c.id)
_BY_ID = _ROWS.where(_nodes.c.id == sa.bindparam("of_id"))
_CPU_INFO = sa.select(_nodes.c.cpu_info).where(_nodes.c.id == sa.bindparam("of_id"), _ALIVE)
_GIVE_UUID = (
    sa.update(_nodes)
    .where(_nodes.c.id == sa.bindparam("of_id"), _ALIVE, _nodes.c.uuid.is_(None))
    .values(uuid=sa.bindparam("new_uuid"))
)
_UPDATE = sa.update(_nodes).where(_nodes.c.id == sa.bindparam("of_id"), _ALIVE)
_DEVICES = (
    sa.select(_devices.c.compute_node_id, _devices.c.dev_type, sa.func.count().label("number"))
    .where(_devices.c.compute_node_id.in_(sa.bindparam("ids", expanding=True)),
           _devices.c.deleted == 0, _devices.c.status.not_in(("removed", "deleted")))
    .group_by(_devices.c.compute_node_id, _devices.c.dev_type)
)


def list_page(ctx: Context, *, after: int, most: int, named: str | None = None) -> list[NodeRow]:
    """Return a page of rows in the order of their ids.

    :param after: the last id of the previous page.
    :param most: the largest number of rows to return.
    :param named: only rows with this host or hypervisor_hostname.
    """
    statement = _PAGE
    if named is not None:
        statement = statement.where(
            sa.or_(_nodes.c.host == named, _nodes.c.hypervisor_hostname == named))
    return _read(ctx, statement, {"after": after, "most": most})


def list_by_uuid(ctx: Context, uuid: str) -> list[NodeRow]:
    """Return the rows that have a uuid: at most one in a consistent database."""
    return _read(ctx, _BY_UUID, {"of_uuid": uuid})


def find_by_id(ctx: Context, id_: int) -> NodeRow | None:
    """Return a row, or None if it was deleted."""
    return next(iter(_read(ctx, _BY_ID, {"of_id": id_})), None)


def read_cpu_info(ctx: Context, id_: int) -> str | None:
    """Return ``cpu_info`` of a row: nova's JSON, which may be long."""
    with db.read_once(ctx) as session:
        return session.execute(_CPU_INFO, {"of_id": id_}).scalar()


def count_devices(ctx: Context, ids: Collection[int]) -> Mapping[int, Mapping[str, int]]:
    """Return {node id: {type of device: how many}}; nodes without devices are missing."""
    counts: dict[int, dict[str, int]] = collections.defaultdict(dict)
    with db.read_once(ctx) as session:
        for row in session.execute(_DEVICES, {"ids": list(ids)}):
            counts[row.compute_node_id][row.dev_type] = row.number
    return dict(counts)


@db.retry_writes
def give_uuid(ctx: Context, id_: int) -> str | None:
    """Set a row's uuid if it has none; return its uuid, or None if the row was deleted."""
    with db.write(ctx) as session:
        session.execute(_GIVE_UUID, {"of_id": id_, "new_uuid": str(uuids.uuid4())})
        row = session.execute(_BY_ID, {"of_id": id_}).first()
        return None if row is None else row.uuid


@db.retry_writes
def update(ctx: Context, id_: int, values: Mapping[str, Any]) -> None:
    """Update columns of a row."""
    with db.write(ctx) as session:
        session.execute(_UPDATE.values(**values), {"of_id": id_})


def _read(
    ctx: Context, statement: sa.Select[Any], parameters: Mapping[str, Any]
) -> list[NodeRow]:
    with db.read_once(ctx) as session:
        rows: Sequence[Any] = session.execute(statement, parameters).all()
    return [NodeRow(*row) for row in rows]
