"""Inserting many rows, and rows of which another transaction may be inserting the same.

A refused INSERT would end a PostgreSQL transaction; ``build_skipping_insert`` leaves the row
that is there alone, and ``insert_or_add`` and ``insert_or_set`` change it, after waiting for
whoever is just inserting it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.ext.compiler import compiles

from placement_core.db import arrays
from placement_core.db.session import Session

#: How many rows one statement inserts where there are no arrays.
_BATCH = 50


def insert_many(
    session: Session, table: sa.Table, rows: Sequence[Mapping[str, Any]],
    shared: Mapping[str, Any] | None = None,
) -> None:
    """Insert ``rows``, which all name the same columns, together with the next statement.

    :param shared: the values of other columns, which are the same in all rows: with them, no
        column has a default of its own. A statement is cheaper the more of them there are.
    """
    if session.dialect == "postgresql":
        session.write_later(
            _build_array_insert(table, tuple(rows[0]), tuple(shared or ())),
            {**arrays.columns(rows), **(shared or {})})
    elif shared is None:
        # PyMySQL makes one statement of it; SQLite has no way to go.
        session.write_later(_inline(table), rows)
    else:
        names = tuple(rows[0])
        for start in range(0, len(rows), _BATCH):
            batch = rows[start:start + _BATCH]
            session.write_later(
                _build_rows_insert(table, len(batch), names, tuple(shared)), {
                    **shared, **{f"{name}{place}": value for place, row in enumerate(batch)
                                 for name, value in row.items()}})


@functools.cache
def _build_array_insert(
    table: sa.Table, names: tuple[str, ...], shared: tuple[str, ...]
) -> sa.Insert:
    return arrays.insert(postgresql.insert(table).inline(), table, names, shared)


@functools.cache
def _build_rows_insert(
    table: sa.Table, count: int, names: tuple[str, ...], shared: tuple[str, ...]
) -> sa.Insert:
    columns = table.c
    common = {name: sa.bindparam(name, type_=columns[name].type) for name in shared}
    return sa.insert(table).inline().values([
        {**common, **{name: sa.bindparam(f"{name}{place}", type_=columns[name].type)
                      for name in names}} for place in range(count)])


@functools.cache
def _inline(table: sa.Table) -> sa.Insert:
    return sa.insert(table).inline()


def insert_or_add(
    session: Session, table: sa.Table, name: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert ``rows``, together with the next statement; add to column ``name`` of those there.

    :param rows: they all name every column, those of the primary key too.
    """
    _upsert(session, table, name, rows, adds=True)


def insert_or_set(
    session: Session, table: sa.Table, name: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Do the same, but set the column."""
    _upsert(session, table, name, rows, adds=False)


def _upsert(
    session: Session, table: sa.Table, name: str, rows: Sequence[Mapping[str, Any]], *, adds: bool
) -> None:
    session.write_later(
        _build_upsert(table, name, session.dialect, adds=adds),
        arrays.columns(rows) if session.dialect == "postgresql" else rows)


@functools.cache
def _build_upsert(table: sa.Table, name: str, dialect: str, *, adds: bool) -> sa.Insert:
    # By dialect as the source of the rows is: arrays, or parameters.
    present = table.c[name]
    if dialect == "mysql":
        insert = mysql.insert(table).inline()
        value = insert.inserted[name]
        return insert.on_duplicate_key_update({name: present + value if adds else value})
    into: Any = (
        arrays.insert(postgresql.insert(table).inline(), table, table.c.keys())
        if dialect == "postgresql" else sqlite.insert(table).inline())
    value = into.excluded[name]
    statement: sa.Insert = into.on_conflict_do_update(
        index_elements=list(table.primary_key), set_={name: present + value if adds else value})
    return statement


class _SkippingInsert(sa.Insert):
    """An INSERT that skips what is already there."""

    inherit_cache = True


@functools.cache
def build_skipping_insert(table: sa.Table) -> sa.Insert:
    """Return the INSERT into ``table`` that skips what is already there.

    The ``rowcount`` of its result says how many rows were inserted. MySQL's
    IGNORE also bends values that do not fit: check them beforehand.
    """
    return (
        _SkippingInsert(table).prefix_with("IGNORE", dialect="mysql").inline()
        .execution_options(preserve_rowcount=True))


@compiles(_SkippingInsert, "postgresql")
def _skip_natural_key(element: _SkippingInsert, compiler: Any, **options: Any) -> str:
    key = _find_natural_key(element.table)
    target = "" if key is None else f" ({', '.join(map(compiler.preparer.quote, key))})"
    return f"{compiler.visit_insert(element, **options)} ON CONFLICT{target} DO NOTHING"


@compiles(_SkippingInsert, "sqlite")
def _skip_any_key(element: _SkippingInsert, compiler: Any, **options: Any) -> str:
    return f"{compiler.visit_insert(element, **options)} ON CONFLICT DO NOTHING"


def _find_natural_key(table: sa.FromClause) -> list[str] | None:
    """Return the columns that tell rows apart where the database numbers them; else None.

    A number that is taken is not the same row: its sequence is behind the table.
    """
    assert isinstance(table, sa.Table)
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
        connection.execute(build_skipping_insert(table), list(rows))
