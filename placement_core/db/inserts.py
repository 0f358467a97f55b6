"""Inserting many rows, and rows of which another transaction may be inserting the same.

A refused INSERT would end a PostgreSQL transaction; ``build_skipping_insert`` leaves the row
that is there alone, after waiting for whoever is just inserting it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from placement_core.db import arrays
from placement_core.db.session import Session


def insert_many(session: Session, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert ``rows``, which all name the same columns, in one round trip."""
    if session.dialect == "postgresql":
        session.execute_write(_from_arrays(table, tuple(rows[0])), arrays.columns(rows))
    else:
        # PyMySQL makes one statement of it; SQLite has no way to go.
        session.execute_write(_inline(table), rows)


@functools.cache
def _from_arrays(table: sa.Table, names: tuple[str, ...]) -> sa.Insert:
    return arrays.insert(postgresql.insert(table).inline(), table, names)


@functools.cache
def _inline(table: sa.Table) -> sa.Insert:
    return sa.insert(table).inline()


@functools.cache
def build_skipping_insert(table: sa.Table, dialect: str) -> sa.Insert:
    """Return the INSERT into ``table`` that skips what is already there.

    The ``rowcount`` of its result says how many rows were inserted. MySQL's
    IGNORE also bends values that do not fit: check them beforehand.
    """
    statement: sa.Insert
    if dialect == "postgresql":
        statement = postgresql.insert(table).on_conflict_do_nothing(
            index_elements=_natural_key(table))
    elif dialect == "mysql":
        statement = mysql.insert(table).prefix_with("IGNORE")
    else:
        statement = sqlite.insert(table).on_conflict_do_nothing()
    return statement.inline().execution_options(preserve_rowcount=True)


def _natural_key(table: sa.Table) -> list[str] | None:
    """Return the columns that tell rows apart where the database numbers them; else None.

    A number that is taken is not the same row: its sequence is behind the table.
    """
    if table.autoincrement_column is None:
        return None
    [unique] = [constraint for constraint in table.constraints
                if isinstance(constraint, sa.UniqueConstraint)]
    return unique.columns.keys()


def insert_missing(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]],
) -> None:
    """Insert those of ``rows`` that clash with no row of ``table``.

    :param rows: in the order of their unique key, so that two writers of the
        same rows wait for each other rather than deadlock.
    """
    if rows:
        connection.execute(build_skipping_insert(table, connection.dialect.name), list(rows))
