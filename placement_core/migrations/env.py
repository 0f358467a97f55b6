"""The environment of Alembic: runs revisions on the connection that ``sync`` opened.

If the ``alembic`` command runs it instead, to write a new revision, it reads the service's
configuration to find the database.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import context

from placement_core.migrations import revisions, upgrades
from placement_core.migrations.all_tables import metadata


@contextlib.contextmanager
def _connection() -> Iterator[sa.Connection]:
    connection = context.config.attributes.get("connection")
    if connection is not None:
        yield connection
        return
    from placement_core import conf, services  # only developers get here

    with services.build(conf.load()).database.writer.begin() as connection:
        yield connection


with _connection() as connection:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=revisions.VERSION_TABLE,
        include_name=upgrades.is_ours,
        render_as_batch=True,
        on_version_apply=context.config.attributes.get("on_version_apply"),
    )
    # ``sync`` owns the transaction: Alembic joins it and commits nothing.
    with context.begin_transaction():
        context.run_migrations()
