"""A database like Placement's, where a real one would only take time: an SQLite file."""

from __future__ import annotations

import pathlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core.takeover import placement


def make(path: pathlib.Path, rows: Mapping[str, Sequence[tuple[Any, ...]]]) -> str:
    """Make one; return its URL.

    :param rows: of its tables, by name; values in the order of ``placement.TABLES``, of which the
        last may be left out.
    """
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num TEXT)"))
        connection.execute(sa.text("INSERT INTO alembic_version VALUES (:version)"),
                           [{"version": version} for version in placement.SCHEMA])
        for table in placement.TABLES:
            names = [column.name for column in table.c]
            connection.exec_driver_sql(f"CREATE TABLE {table.name} ({', '.join(names)})")
            if of_table := rows.get(table.name):
                given = len(of_table[0])
                marks = ", ".join("?" * given)
                connection.exec_driver_sql(
                    f"INSERT INTO {table.name} ({', '.join(names[:given])}) VALUES ({marks})",
                    list(of_table))
    return f"sqlite:///{path}"


def make_uuid(kind: str, number: int) -> str:
    """Return the uuid of something, the same each time."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {number}"))
