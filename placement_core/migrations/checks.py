"""Read the state of a database, for the checks before and after an upgrade.

All of it works on upstream's schema, too, so the checks can run before adoption.
"""

from __future__ import annotations

import dataclasses

import sqlalchemy as sa

from placement_core import db
from placement_core.cells import tables as cell_tables
from placement_core.cells.databases import CellDatabases
from placement_core.context import Context
from placement_core.db.database import Settings
from placement_core.migrations import adoption, contract, exclusive, fence, revisions, sequences
from placement_core.placement import tables


@dataclasses.dataclass(frozen=True, slots=True)
class SchemaState:
    """The state of a database.

    :ivar revision: the revision of this schema; None: it has none.
    :ivar upstream_revision: the revision of upstream's schema; None: it has none.
    :ivar has_tables: whether it has Placement's tables.
    :ivar rootless: the number of providers without a root provider.
    :ivar fenced: whether triggers refuse the writes of upstream's processes.
    :ivar unrecorded: the number of consumers that have allocations, but no record.
    :ivar behind_sequences: the sequences that would return ids which are in use.
    """

    revision: str | None
    upstream_revision: str | None
    has_tables: bool
    rootless: int = 0
    unrecorded: int = 0
    fenced: bool = False
    behind_sequences: tuple[sequences.LaggingSequence, ...] = ()

    @property
    def behind(self) -> bool:
        """Whether the schema does not have the newest revision."""
        return self.revision != revisions.head()

    @property
    def newer(self) -> bool:
        """Whether a later version of the code has upgraded it."""
        return self.revision is not None and not revisions.is_known(self.revision)

    @property
    def open_to_upstream(self) -> bool:
        """Whether a process of upstream that still runs could update and delete rows."""
        return not self.behind and self.upstream_revision is not None and not self.fenced

    @property
    def adoptable(self) -> bool:
        """Whether ``db sync`` would adopt upstream's schema."""
        return self.revision is None and self.upstream_revision == adoption.UPSTREAM_HEAD


def read_state(settings: Settings) -> SchemaState:
    """Read the state of a database."""
    with exclusive.database(settings) as database, database.snapshot.connect() as connection:
        revision = revisions.current(connection)
        upstream = revisions.current(connection, revisions.UPSTREAM_VERSION_TABLE)
        if not sa.inspect(connection).has_table("consumers"):
            return SchemaState(revision, upstream, has_tables=False)
        providers, allocations = tables.resource_providers, tables.allocations
        recorded = sa.exists().where(tables.consumers.c.uuid == allocations.c.consumer_id)
        return SchemaState(
            revision, upstream, has_tables=True,
            rootless=connection.scalar(
                sa.select(sa.func.count()).select_from(providers)
                .where(providers.c.root_provider_id.is_(None))) or 0,
            unrecorded=connection.scalar(
                sa.select(sa.func.count(sa.distinct(allocations.c.consumer_id)))
                .where(~recorded)) or 0,
            fenced=fence.is_up(connection),
            behind_sequences=tuple(sequences.find_behind(connection)),
        )


@db.retry_writes
def count_unfilled(ctx: Context, cells: CellDatabases) -> tuple[int, int]:
    """Return how many instance mappings lack values, and how many of these lack a cell."""
    with db.read_once(cells.api(ctx)) as session:
        row = session.execute(contract.select_unfilled().where(
            cell_tables.instance_mappings.c.project_id != cell_tables.MARKER_PROJECT)).one()
    return row.rows, row.without_cell
