"""Our Alembic revisions: which are there, and which one a database has."""

from __future__ import annotations

import functools
import itertools
import pathlib
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import command, config, migration, script

#: Our version table; upstream's is ``alembic_version``, in the same database.
VERSION_TABLE = "placement_core_version"
#: Is told (what is being done, how much of it is, how much there is).
Report = Callable[[str, int, int], None]
#: Upstream Placement's own version table.
UPSTREAM_VERSION_TABLE = "alembic_version"


def no_report(_what: str, _done: int, _total: int) -> None:
    """Report nothing."""


def is_ours(name: str | None, kind: str, _parents: Any) -> bool:
    """Say whether Alembic should look at a name it found in the database."""
    return kind != "table" or name != UPSTREAM_VERSION_TABLE


def alembic_config(connection: sa.Connection | None = None) -> config.Config:
    """Return Alembic's configuration, bound to a connection."""
    settings = config.Config()
    settings.set_main_option("script_location", str(pathlib.Path(__file__).parent))
    settings.attributes["connection"] = connection
    return settings


@functools.cache
def scripts() -> script.ScriptDirectory:
    """Return the revisions this version of the code brings."""
    return script.ScriptDirectory.from_config(alembic_config())


def head() -> str:
    """Return the newest revision there is."""
    return str(scripts().get_current_head())


def current(connection: sa.Connection, table: str = VERSION_TABLE) -> str | None:
    """Return the revision a database has; None without a version table or row."""
    if not sa.inspect(connection).has_table(table):
        return None
    return connection.scalar(sa.select(sa.column("version_num")).select_from(sa.table(table)))


def is_known(revision: str) -> bool:
    """Say whether this version of the code knows ``revision``."""
    return any(script.revision == revision for script in scripts().walk_revisions())


def upgrade(connection: sa.Connection, report: Report = no_report) -> None:
    """Run the revisions that ``connection``'s database lacks, in its transaction.

    :param report: is told how many of them have run.
    """
    settings = alembic_config(connection)
    lacking = sum(1 for _ in scripts().iterate_revisions("head", current(connection) or "base"))
    done = itertools.count(1)
    settings.attributes["on_version_apply"] = lambda **_: report(
        "revisions of the schema", next(done), lacking)
    command.upgrade(settings, "head")


def stamp(connection: sa.Connection, revision: str | None, table: str = VERSION_TABLE) -> None:
    """Write down that the database has ``revision``, without running anything.

    :param revision: None removes the note.
    """
    context = migration.MigrationContext.configure(connection, opts={"version_table": table})
    context._ensure_version_table()  # Alembic has no public name for it
    version = context._version
    connection.execute(sa.delete(version))
    if revision is not None:
        connection.execute(sa.insert(version).values(version_num=revision))
