"""``db sync``, ``db version`` and ``db release``."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from placement_core import errors
from placement_core.db.database import Database, Settings
from placement_core.migrations import (
    adoption,
    contract,
    exclusive,
    fence,
    revisions,
    sequences,
)
from placement_core.migrations.revisions import Report, no_report
from placement_core.migrations.versions import initial
from placement_core.placement import standard
from placement_core.placement.allocations import usage_counters

Say = Callable[[str], None]


class SchemaError(errors.ConfigurationError):
    """The database's schema is not the one this version of the code works on."""


def _silent(_line: str) -> None:
    """Say nothing."""


def sync(
    settings: Settings, say: Say = _silent, report: Report = no_report, *,
    contracted: bool = False,
) -> str:
    """Make the schema, take over upstream's, or upgrade ours to the newest.

    Sequences that are behind their tables are set. Safe to repeat, and safe to run on
    several machines at once.

    :param say: called with one line for each thing done.
    :param report: called with what is being done, how much of it is, and how much there is.
    :param contracted: take the contract step, too: columns that older versions left
        empty become NOT NULL.
    :returns: the revision the database has now.
    :raises contract.NotReady: something is not migrated yet, so that it is not contracted.
    :raises adoption.NotAdoptable: upstream's schema is not one we can take over.
    :raises SchemaError: a newer version of placement-core wrote the schema.
    :raises exclusive.Busy: the database is in use.
    """
    with exclusive.transaction(settings) as connection:
        revision = _sync(connection, say, report)
        if contracted:
            contract.contract_own(connection, say)
        return revision


def version(settings: Settings) -> str | None:
    """Return the revision of the database's schema; None: it has none of ours."""
    with exclusive.database(settings) as database, database.snapshot.connect() as connection:
        return revisions.current(connection)


def require_newest(database: Database) -> None:
    """Check that the schema is the one this version of the code works on.

    :raises SchemaError: naming the revision revision and what to run.
    """
    with database.snapshot.connect() as connection:
        revision = revisions.current(connection)
    if revision == revisions.head():
        return
    if revision is not None and not revisions.is_known(revision):
        raise _make_too_new(revision)
    raise SchemaError(
        f"the database's schema is at revision {revision or 'none'}, expected "
        f"{revisions.head()}: run `placement-core db sync`"
    )


def release(settings: Settings, say: Say = _silent) -> None:
    """Give a database back to upstream Placement: the way back from adoption.

    Takes our columns, tables and fence away; what was written meanwhile into
    upstream's tables stays, what only ours can hold (catalog, limits) goes.
    Works on a database we made ourselves as well.

    :raises SchemaError: it is not one of ours, or not at a revision we know.
    """
    with exclusive.transaction(settings) as connection:
        revision = revisions.current(connection)
        if revision is None and not _is_half_released(connection):
            raise SchemaError("the database has no schema of placement-core to take away")
        if revision is not None and not revisions.is_known(revision):
            raise _make_too_new(revision)
        adoption.release(connection, say)
        say(f"released: upstream Placement's schema {adoption.UPSTREAM_HEAD}")


def _sync(connection: sa.Connection, say: Say, report: Report) -> str:
    revision = revisions.current(connection)
    if revision is not None and not revisions.is_known(revision):
        raise _make_too_new(revision)
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
        revisions.stamp(connection, initial.revision)
    if revision == revisions.head():
        say(f"the schema is at {revision} already")
    else:
        revisions.upgrade(connection, report)
        if upstreams:
            # A revision may have made a fenced table anew (SQLite).
            fence.put_up(connection, say)
        say(f"the schema is at {revisions.head()}")
    sequences.repair(connection, say)
    if revision is None:
        # Later, workers insert new names when they start, and log the change.
        standard.insert(connection)
        usage_counters.declare_summed_up(connection)
    return revisions.head()


def _is_half_released(connection: sa.Connection) -> bool:
    """Say whether a release died half-way (on MariaDB) after it gave up the version."""
    inspected = sa.inspect(connection)
    return inspected.has_table(revisions.UPSTREAM_VERSION_TABLE) and any(
        inspected.has_table(name) for name in adoption.OWN_TABLES
    )


def _make_too_new(revision: str) -> SchemaError:
    return SchemaError(
        f"the database's schema is at revision {revision}, which this version of "
        f"placement-core does not know (its newest is {revisions.head()}): a newer version "
        "upgraded it"
    )
