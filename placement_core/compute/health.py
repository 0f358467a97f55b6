"""Check whether compute nodes work, by nova's records of them and of their services.

Source: spec blazar §4 (monitor). Differs: a service that is silent counts as down, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.cells import cell_tables
from placement_core.cells.databases import CellDatabases
from placement_core.cells.records import Cell
from placement_core.context import Context
from placement_core.db import clock

_BINARY = "nova-compute"

_nodes, _services = cell_tables.compute_nodes, cell_tables.services

#: When a service last reported its state.
_seen_at = sa.func.coalesce(_services.c.last_seen_up, _services.c.created_at)
_STATES = (
    sa.select(
        _nodes.c.uuid, _services.c.id, _services.c.disabled, _services.c.forced_down,
        (_seen_at < clock.in_seconds(sa.bindparam("ago", type_=sa.Integer))).label("silent"))
    .select_from(_nodes.outerjoin(_services, sa.and_(
        _services.c.host == _nodes.c.host, _services.c.binary == _BINARY,
        _services.c.deleted == 0)))
    .where(_nodes.c.deleted == 0, _nodes.c.uuid.is_not(None))
    .order_by(_nodes.c.id))


@dataclasses.dataclass(frozen=True, slots=True)
class Health:
    """Which compute nodes work.

    :ivar troubles: {uuid of a node: why it does not work; empty if it does}.
    :ivar complete: whether every cell answered, so that there are no other nodes.
    """

    troubles: Mapping[str, str]
    complete: bool


def check(
    ctx: Context, cells: CellDatabases, all_cells: Sequence[Cell], silent_seconds: int
) -> Health:
    """Read the states of compute nodes, one statement in each cell.

    Times are compared with the clock of the cell's database.

    :param all_cells: all cells, not just some.
    :param silent_seconds: a service that has not reported its state for so many seconds does
        not work; 0: only a service that is disabled or forced down does not work.
    """

    def read(ctx: Context, _cell: Cell) -> dict[str, str]:
        with db.read_once(ctx) as session:
            rows = session.execute(_STATES, {"ago": -silent_seconds}).all()
        return {row.uuid: _describe_trouble(row, silent_seconds) for row in rows}

    answers = cells.scatter_gather(ctx, read, all_cells)
    troubles: dict[str, str] = {}
    for troubles_of_cell in answers.answers.values():
        for uuid, trouble in troubles_of_cell.items():
            # A node may have two records while it moves to another cell; it works if one of
            # them does.
            troubles[uuid] = trouble and troubles.get(uuid, trouble)
    return Health(troubles, complete=not answers.missing)


def _describe_trouble(row: sa.Row[Any], silent_seconds: int) -> str:
    if row.id is None:
        return "it has no nova-compute service"
    if row.forced_down:
        return "its service is forced down"
    if row.disabled:
        return "its service is disabled"
    if silent_seconds and row.silent:
        return f"its service has been silent for more than {silent_seconds} seconds"
    return ""
