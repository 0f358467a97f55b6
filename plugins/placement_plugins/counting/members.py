"""Members of server groups, counted by the instance mappings with every counting driver.

A member is looked up in its cell only if its own mapping is not migrated, so a cell that is down
hides no members of other cells. Source: requirement Q7. Differs from spec nova_quota §1, where
one mapping of any project that is not migrated sends all queries to the cells.
"""

from __future__ import annotations

from collections.abc import Collection

from placement_core.cells import counts
from placement_core.cells.databases import CellDatabases
from placement_core.cells.records import Cell
from placement_core.context import Context
from placement_core.plugin_api.counting import MemberCount
from placement_plugins.counting.timing import Seconds


def count(
    cells: CellDatabases, ctx: Context, instance_uuids: Collection[str], user_id: str,
    source: str,
) -> MemberCount:
    """Count the instances of a user among some instances, without deleted ones.

    :param source: the driver's name.
    """
    seconds = Seconds()
    with seconds.of("api_database"):
        found = counts.count_members(cells.api(ctx), instance_uuids, user_id)
    if not found.unknown:
        return MemberCount(found.counted, source, seconds=seconds)

    def ask(cell_ctx: Context, cell: Cell) -> int:
        return counts.count_members_in_cell(cell_ctx, found.unknown[cell.id], user_id)

    answers = cells.scatter_gather(
        ctx, ask, [each for each in cells.cells(ctx) if each.id in found.unknown])
    return MemberCount(
        found.counted + sum(answers.answers.values()), "legacy_cell",
        missing_cells=answers.missing, seconds={**seconds, **answers.seconds})
