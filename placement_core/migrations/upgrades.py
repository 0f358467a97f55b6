"""Run and record revisions, with Alembic."""

from __future__ import annotations

import functools
import itertools
import pathlib
from typing import Any

import sqlalchemy as sa
from alembic import command, config, migration, script

from placement_core.migrations.revisions import (
    UPSTREAM_VERSION_TABLE,
    VERSION_TABLE,
    Report,
    current,
    no_report,
)


def is_ours(name: str | None, kind: str, _parents: Any) -> bool:
    """Return whether Alembic should compare an object that it found in the database."""
    return kind != "table" or name != UPSTREAM_VERSION_TABLE


def alembic_config(connection: sa.Connection | None = None) -> config.Config:
    """Return Alembic's configuration, bound to a connection."""
    settings = config.Config()
    settings.set_main_option("script_location", str(pathlib.Path(__file__).parent))
    settings.attributes["connection"] = connection
    return settings


@functools.cache
def scripts() -> script.ScriptDirectory:
    """Return the revisions of this version of the code."""
    return script.ScriptDirectory.from_config(alembic_config())


def upgrade(connection: sa.Connection, report: Report = no_report) -> None:
    """Run the revisions that the database lacks, in the transaction of ``connection``.

    :param report: called after each revision with the number of those that have run.
    """
    settings = alembic_config(connection)
    lacking = sum(1 for _ in scripts().iterate_revisions("head", current(connection) or "base"))
    done = itertools.count(1)
    settings.attributes["on_version_apply"] = lambda **_: report(
        "revisions of the schema", next(done), lacking)
    command.upgrade(settings, "head")


def stamp(connection: sa.Connection, revision: str | None, table: str = VERSION_TABLE) -> None:
    """Record that the database has ``revision``, without running it.

    :param revision: None: remove the record.
    """
    context = migration.MigrationContext.configure(connection, opts={"version_table": table})
    context._ensure_version_table()  # Alembic has no public method for this
    version = context._version
    connection.execute(sa.delete(version))
    if revision is not None:
        connection.execute(sa.insert(version).values(version_num=revision))
