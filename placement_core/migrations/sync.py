"""``db sync``, ``db version`` and ``db release``."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from placement_core.db.database import Settings
from placement_core.migrations import (
    adoption,
    compatibility,
    contract,
    exclusive,
    fence,
    revisions,
    sequences,
    upgrades,
)
from placement_core.migrations.revisions import Report, no_report
from placement_core.migrations.versions import initial
from placement_core.placement import standard
from placement_core.placement.allocations import usage_counters
from placement_core.quota import nodes

Say = Callable[[str], None]


def _silent(_line: str) -> None:
    """Ignore the line."""


def sync(
    settings: Settings, say: Say = _silent, report: Report = no_report, *,
    contracted: bool = False,
) -> str:
    """Create the schema, adopt upstream's, or upgrade the schema to the newest revision.

    Sequences that are behind their tables are repaired. Safe to repeat, and safe to run on
    several machines at once.

    :param say: called with one line for each change.
    :param report: called with the progress of long steps: description, amount done, total.
    :param contracted: whether to run the contract step, too: columns that older versions left
        empty become NOT NULL.
    :returns: the revision of the database.
    :raises contract.NotReady: rows are not migrated yet, so the contract step cannot run.
    :raises adoption.NotAdoptable: upstream's schema cannot be adopted.
    :raises compatibility.SchemaError: a newer version of placement-core wrote the schema.
    :raises exclusive.Busy: another process uses the database.
    """
    def change(connection: sa.Connection) -> str:
        revision = _sync(connection, say, report)
        if contracted:
            contract.contract_own(connection, say)
        return revision

    return exclusive.run(settings, change, say)


def version(settings: Settings) -> str | None:
    """Return the revision of the database's schema; None: it has no version of this schema."""
    with exclusive.database(settings) as database, database.snapshot.connect() as connection:
        return revisions.current(connection)


def release(settings: Settings, say: Say = _silent) -> None:
    """Give a database back to upstream Placement; the reverse of adoption.

    The added columns, tables and triggers are dropped. Data in upstream's tables stays; data in
    other tables (catalog, limits, leases) is lost. Works on a database that this service created,
    too.

    :raises compatibility.SchemaError: the database has no version of this schema, or an unknown
        one.
    :raises exclusive.Busy: another process uses the database.
    """
    def change(connection: sa.Connection) -> None:
        revision = revisions.current(connection)
        if revision is None and not _is_half_released(connection):
            raise compatibility.SchemaError(
                "the database has no schema of placement-core to take away")
        if revision is not None and not revisions.is_known(revision):
            raise compatibility.make_too_new(revision)
        adoption.release(connection, say)

    exclusive.run(settings, change, say)
    say(f"released: upstream Placement's schema {adoption.UPSTREAM_HEAD}")


def _sync(connection: sa.Connection, say: Say, report: Report) -> str:
    revision = revisions.current(connection)
    if revision is not None and not revisions.is_known(revision):
        raise compatibility.make_too_new(revision)
    inspected = sa.inspect(connection)
    ours = inspected.has_table(revisions.VERSION_TABLE)
    upstreams = inspected.has_table(revisions.UPSTREAM_VERSION_TABLE)
    if revision is None and (
            upstreams or (inspected.has_table("resource_providers") and not ours)):
        adoption.refuse_unless_adoptable(connection)
        say(f"taking over a database of upstream Placement ({adoption.UPSTREAM_HEAD})")
        oddities = adoption.adopt(connection, say, report)
        for line in adoption.remarks(oddities):
            say(line)
        upgrades.stamp(connection, initial.revision)
    if revision == revisions.head():
        say(f"the schema is at {revision} already")
    else:
        upgrades.upgrade(connection, report)
        say(f"the schema is at {revisions.head()}")
    if upstreams:
        # On SQLite, a revision may have re-created a fenced table, without its triggers. On
        # MariaDB, a run may have been ended between two of them.
        fence.put_up(connection, say)
    sequences.repair(connection, say)
    if revision is None:
        # Later, workers insert new names when they start, and log the change.
        standard.insert(connection)
        usage_counters.declare_summed_up(connection)
        nodes.declare_fullness_kept(connection)
    return revisions.head()


def _is_half_released(connection: sa.Connection) -> bool:
    """Return whether a release was interrupted on MariaDB after it removed the version."""
    inspected = sa.inspect(connection)
    return inspected.has_table(revisions.UPSTREAM_VERSION_TABLE) and any(
        inspected.has_table(name) for name in adoption.OWN_TABLES
    )
