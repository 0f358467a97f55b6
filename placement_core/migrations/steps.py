"""Idempotent steps of revisions (see ``versions``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import operations

from placement_core.db.metadata import MYSQL_OPTIONS


def create_table(
    on: operations.Operations,
    name: str,
    *items: sa.schema.SchemaItem,
    indexes: dict[str, list[str]] | None = None,
    times: bool = True,
    **options: bool,
) -> None:
    """Create a table and its indexes unless they exist.

    :param indexes: {name: columns}.
    :param times: whether to add the columns ``created_at`` and ``updated_at``, as upstream does.
    :param options: options of the table, for one dialect.
    """
    stamps = (sa.Column("created_at", sa.DateTime), sa.Column("updated_at", sa.DateTime))
    if not sa.inspect(on.get_bind()).has_table(name):
        on.create_table(name, *(stamps if times else ()), *items, **MYSQL_OPTIONS, **options)
    for index, columns in (indexes or {}).items():
        create_index(on, index, name, columns)


def add_column(on: operations.Operations, table: str, column: sa.Column[Any]) -> None:
    """Add a column to a table unless it has it."""
    if column.name not in {each["name"] for each in sa.inspect(on.get_bind()).get_columns(table)}:
        on.add_column(table, column)


def widen_columns(
    on: operations.Operations, table: str, wider: Mapping[str, sa.types.TypeEngine[str]]
) -> None:
    """Let columns of a table hold longer texts, unless they do already.

    :param wider: {column: its new type}: a longer ``String``, or ``Text``.
    """
    present = {column["name"]: column for column in sa.inspect(on.get_bind()).get_columns(table)}
    narrow = {name: type_ for name, type_ in wider.items()
              if _length(present[name]["type"]) < _length(type_)}
    if not narrow:
        return
    # SQLite cannot change a column: Alembic copies the table there.
    with on.batch_alter_table(table) as batch:
        for name, type_ in narrow.items():
            batch.alter_column(
                name, type_=type_, existing_type=present[name]["type"],
                existing_nullable=present[name]["nullable"])


def _length(type_: sa.types.TypeEngine[Any]) -> float:
    length: int | None = getattr(type_, "length", None)
    return math.inf if length is None else length


def create_index(
    on: operations.Operations, name: str, table: str, columns: list[str]
) -> None:
    """Create an index of a table unless it exists."""
    if name not in {index["name"] for index in sa.inspect(on.get_bind()).get_indexes(table)}:
        on.create_index(name, table, columns)


def add_revision(on: operations.Operations, name: str) -> None:
    """Insert the row of ``revisions`` that serializes writers of ``name``, unless it exists."""
    revisions = sa.table(
        "revisions", sa.column("name"), sa.column("serial"), sa.column("txn"))
    connection = on.get_bind()
    statement = sa.select(revisions.c.name).where(revisions.c.name == name)
    if connection.scalar(statement) is None:
        connection.execute(sa.insert(revisions), {"name": name, "serial": 0, "txn": 0})
