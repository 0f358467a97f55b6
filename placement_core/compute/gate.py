"""Check whether all of nova is new enough to find a node's capacity in inventories.

Source: seed 001, requirement I6. Differs from nova's own checks: services that are forced
down count, because they may return with the same version.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db
from placement_core.cells import cell_tables
from placement_core.cells.databases import CellDatabases
from placement_core.cells.records import Cell
from placement_core.context import Context

#: The services that read compute nodes. The API has two names.
_BINARIES = ("nova-api", "nova-osapi_compute", "nova-conductor")
#: How many services a reason names at most.
_MOST_NAMED = 3

_services = cell_tables.services
_OLDER = (
    sa.select(_services.c.binary, _services.c.host,
              sa.func.coalesce(_services.c.version, 0).label("version"))
    .where(_services.c.deleted == 0, _services.c.binary.in_(_BINARIES),
           sa.func.coalesce(_services.c.version, 0) < sa.bindparam("minimum"))
    .order_by(_services.c.version, _services.c.id)
)


@dataclasses.dataclass(frozen=True, slots=True)
class MigrationGate:
    """Whether compute nodes may be migrated.

    :ivar reason: why not; empty if they may.
    """

    reason: str = ""

    @property
    def open(self) -> bool:
        """Whether they may be migrated."""
        return not self.reason


def check(ctx: Context, cells: CellDatabases, minimum: int) -> MigrationGate:
    """Return whether all services in all cells have at least the version ``minimum``.

    The gate is closed if a cell does not answer, and open if there are no services at all.
    """

    def read(ctx: Context, _cell: Cell) -> Sequence[sa.Row[Any]]:
        with db.read_once(ctx) as session:
            return session.execute(_OLDER, {"minimum": minimum}).all()

    all_cells = cells.cells(ctx)
    answers = cells.scatter_gather(ctx, read, all_cells)
    if answers.missing:
        return MigrationGate("these cells are missing, and may have older services: " + ", ".join(
            f"{cell.name} ({cell.reason})" for cell in answers.missing))
    older = [f"{row.binary} on {row.host} in cell {cell.title} has {row.version}"
             for cell in all_cells for row in answers.answers[cell.uuid]]
    if not older:
        return MigrationGate()
    more = f", and {len(older) - _MOST_NAMED} more" if len(older) > _MOST_NAMED else ""
    named = ", ".join(older[:_MOST_NAMED])
    return MigrationGate(f"a service version of {minimum} is needed, and {named}{more}")
