"""Rows as parameters of one statement, for PostgreSQL.

psycopg sends the rows of an ``executemany`` one by one. An array for each column is one
round trip, and one statement for any number of rows: it is prepared once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql


def rows(
    name: str, types: Mapping[str, Any], prefix: str = "", *, numbered: str | None = None
) -> sa.TableValuedAlias:
    """Return a table whose rows come as parameters: ``columns`` of the rows.

    :param name: of the table.
    :param types: {column: its type}; the parameters have the columns' names.
    :param prefix: before the names of the parameters.
    :param numbered: a further column: the number of the row, from 1 on.
    """
    parameters = [sa.bindparam(f"{prefix}{column}", type_=postgresql.ARRAY(kind))
                  for column, kind in types.items()]
    columns = [sa.column(column, kind) for column, kind in types.items()]
    return sa.func.unnest(*parameters).table_valued(
        *columns, name=name, with_ordinality=numbered).render_derived()


def columns(rows_: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return rows as the parameters of ``rows``: a list for each column."""
    return {column: [row[column] for row in rows_] for column in rows_[0]}


def insert(
    into: postgresql.Insert, table: sa.Table, names: Sequence[str], shared: Sequence[str] = ()
) -> postgresql.Insert:
    """Make ``into`` insert rows that come as arrays; defaults as ever.

    :param shared: the columns of which all rows have the same value, a parameter of that name.
    """
    values = rows("given", {name: table.c[name].type for name in names})
    return into.from_select([*names, *shared], sa.select(*values.c, *(
        sa.bindparam(name, type_=table.c[name].type) for name in shared)))


def find_writer(type_: sa.types.TypeEngine[Any], dialect: sa.Dialect) -> (
        Callable[[Sequence[Any]], str] | None):
    """Return what writes a list as the text of an array, or None where the driver has to do it.

    psycopg looks for the type of each list, and treats each value by itself, which takes longer
    than the rest of a statement. Statements name the type of each parameter, so it is not needed.
    """
    if not isinstance(type_, postgresql.ARRAY):
        return None
    item = type_.item_type
    if item.dialect_impl(dialect).bind_processor(dialect) is not None:
        return None
    if isinstance(item, sa.Integer):
        return _write_integers
    return _write_texts if isinstance(item, sa.String | sa.DateTime) else None


def _write_integers(values: Sequence[int | None]) -> str:
    # JSON Schema takes 2.0 for an integer.
    return f"{{{','.join(['NULL' if value is None else str(int(value)) for value in values])}}}"


def _write_texts(values: Sequence[object]) -> str:
    return f"{{{','.join([_quote(value) for value in values])}}}"


def _quote(value: object) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    # Most texts have neither, and looking is faster than replacing.
    if "\\" in text or '"' in text:
        text = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{text}"'
