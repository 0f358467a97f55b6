"""Steps of a revision that look before they act (see ``versions``)."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import operations

_MYSQL: dict[str, Any] = {
    "mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def create_table(
    on: operations.Operations,
    name: str,
    *items: sa.schema.SchemaItem,
    indexes: dict[str, list[str]] | None = None,
    times: bool = True,
    **options: bool,
) -> None:
    """Create a table and its indexes unless they are there.

    :param indexes: {name: columns}.
    :param times: with the two columns of times that upstream's tables have.
    :param options: of the table, for one dialect.
    """
    found = sa.inspect(on.get_bind())
    stamps = (sa.Column("created_at", sa.DateTime), sa.Column("updated_at", sa.DateTime))
    present: set[str | None] = set()
    if found.has_table(name):
        present = {index["name"] for index in found.get_indexes(name)}
    else:
        on.create_table(name, *(stamps if times else ()), *items, **_MYSQL, **options)
    for index, columns in (indexes or {}).items():
        if index not in present:
            on.create_index(index, name, columns)


def add_revision(on: operations.Operations, name: str) -> None:
    """Give writers of a body of records a row to wait for, unless there is one."""
    revisions = sa.table(
        "revisions", sa.column("name"), sa.column("serial"), sa.column("txn"))
    connection = on.get_bind()
    found = sa.select(revisions.c.name).where(revisions.c.name == name)
    if connection.scalar(found) is None:
        connection.execute(sa.insert(revisions), {"name": name, "serial": 0, "txn": 0})
