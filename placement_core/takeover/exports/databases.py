"""Write exported rows into another service's database, in one transaction.

The service's own migrations have made the schema. Nothing is in it but what the service makes by
itself; everything else is in the way, and nothing is written then.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import errors
from placement_core.masking import mask_url
from placement_core.takeover import sources
from placement_core.takeover.errors import DatabaseNotEmpty, RowRefused
from placement_core.takeover.exports import Exporter, LeftOut, Row, Values

_ADD_MODE = sa.text("SET SESSION sql_mode = CONCAT_WS(',', @@sql_mode, :mode)")
#: How many rows a statement inserts.
_BATCH = 500
#: How many rows in the way are named, of each table.
_NAMED = 3
#: How many rows that were there are read at a time.
_PAGE = 500

Report = Callable[[str, int, int], None]


@contextlib.contextmanager
def open_target(exporter: Exporter, url: str) -> Iterator[Target]:
    """Open a transaction on the database of a service; what is written there happens or does not.

    Of a database with rows that are in the way, only the first are read.

    :param url: of the database, as the service's configuration has it.
    :raises errors.ConfigurationError: the database cannot be reached, or has another schema.
    :raises DatabaseNotEmpty: rows are in the way.
    """
    with _open(exporter.name, url) as connection:
        sources.require_schema(connection, exporter.name, exporter.schema)
        metadata = sa.MetaData()
        metadata.reflect(connection, only=list(exporter.tables), resolve_fks=False)
        tables = {
            name: _Table(connection, metadata.tables[name]) for name in exporter.tables}
        _require_empty(exporter, tables)
        yield Target(exporter, connection, tables)


@contextlib.contextmanager
def _open(name: str, url: str) -> Iterator[sa.Connection]:
    """Open a transaction on a database; it ends with the block, or has not happened."""
    engine = sa.create_engine(sources.parse_url(name, url, "rw"), poolclass=sa.NullPool)
    try:
        with engine.begin() as connection:
            yield connection
    except sa.exc.IntegrityError as error:
        raise RowRefused(name, sources.describe_failure(error)) from error
    except sa.exc.SQLAlchemyError as error:
        raise errors.ConfigurationError(
            f"{name}: {mask_url(url)} cannot be written: "
            f"{sources.describe_failure(error)}") from error


def _require_empty(exporter: Exporter, tables: Mapping[str, _Table]) -> None:
    """Refuse a database with rows that its service did not make by itself.

    :raises DatabaseNotEmpty: it has some.
    """
    obstacles = []
    for name, table in tables.items():
        titles = list(itertools.islice(
            (table.name_row(row) for row in table.read_rows()
             if not exporter.is_bootstrapped(name, row)), _NAMED + 1))
        if len(titles) > _NAMED:
            obstacles.append(f"{name} has rows ({', '.join(titles[:_NAMED])}, …)")
        elif titles:
            obstacles.append(f"{name} has {len(titles)} rows ({', '.join(sorted(titles))})")
    if obstacles:
        raise DatabaseNotEmpty(exporter.name, obstacles)


class Target:
    """The database of a service, in a transaction; it has nothing but what the service made.

    :param tables: those that may be written, in the order in which they are.
    """

    def __init__(
        self, exporter: Exporter, connection: sa.Connection, tables: Mapping[str, _Table]
    ) -> None:
        self._exporter = exporter
        self._connection = connection
        self._tables = tables

    def write(
        self, rows: Iterable[Row], counts: Mapping[str, int], report: Report
    ) -> list[LeftOut]:
        """Write rows.

        :param counts: how many rows each table is to have.
        :returns: what the service's bootstrap made and we do not have; it stays.
        :raises DatabaseNotEmpty: what the bootstrap made is in the way.
        :raises sa.exc.IntegrityError: the database refuses a row; ``open_target`` translates it.
        """
        exporter = self._exporter
        for table in self._tables.values():
            table.load()
        if exporter.mysql_mode and self._connection.dialect.name == "mysql":
            self._connection.execute(_ADD_MODE, {"mode": exporter.mysql_mode})
        for name in reversed(exporter.tables):
            if name in exporter.replaced:
                self._tables[name].delete_all()
        for name, batch in _batch(rows):
            table = self._tables[name]
            obstacles = table.write(batch)
            if obstacles:
                raise DatabaseNotEmpty(exporter.name, obstacles)
            report(name, table.written, counts[name])
        for table in self._tables.values():
            table.advance_sequence()
        return [left_out for table in self._tables.values() for left_out in table.list_kept()]


def _batch(rows: Iterable[Row]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield rows that follow each other in one table, with the same columns, together."""
    for (name, _), group in itertools.groupby(rows, lambda row: (row[0], frozenset(row[1]))):
        batches = iter(group)
        while batch := [values for _, values in itertools.islice(batches, _BATCH)]:
            yield name, batch


class _Table:
    """A table that is written.

    :ivar written: how many rows of ours are in it.
    """

    def __init__(self, connection: sa.Connection, table: sa.Table) -> None:
        self._connection = connection
        self._table = table
        self._key_names = [column.name for column in table.primary_key]
        self._present: dict[tuple[Any, ...], Values] = {}
        self._kept: dict[tuple[Any, ...], Values] = {}
        self._unique = [
            tuple(constraint["column_names"])
            for constraint in sa.inspect(connection).get_unique_constraints(table.name)]
        self.written = 0
        self._numbered = False

    def _get_key(self, values: Values) -> tuple[Any, ...]:
        """Return the primary key; without values, where the database makes it."""
        return tuple(values.get(name) for name in self._key_names)

    def read_rows(self) -> Iterator[Values]:
        """Yield the rows that are in the table, some at a time."""
        statement = sa.select(self._table).order_by(*self._table.primary_key).limit(_PAGE)
        for start in itertools.count(0, _PAGE):
            page = self._connection.execute(statement.offset(start)).mappings().all()
            yield from map(dict, page)
            if len(page) < _PAGE:
                return

    def load(self) -> None:
        """Take note of the rows that are in the table, by primary key."""
        self._present = {self._get_key(row): row for row in self.read_rows()}
        self._kept = dict(self._present)

    def name_row(self, row: Values) -> str:
        """Return how clients know a row, or else its key."""
        return str(row.get("id") or " ".join(map(str, self._get_key(row))))

    def delete_all(self) -> None:
        """Delete what was in the table."""
        self._connection.execute(sa.delete(self._table))
        self._present, self._kept = {}, {}

    def write(self, rows: list[dict[str, Any]]) -> list[str]:
        """Write rows with the same columns; return which rows of others are in the way."""
        new = rows
        if self._present:
            obstacles = [obstacle for row in rows for obstacle in self._find_obstacles(row)]
            if obstacles:
                return obstacles
            new = [row for row in rows if self._get_key(row) not in self._present]
        if new:
            self._connection.execute(sa.insert(self._table).inline(), new)
            self._numbered |= self._is_numbered(new[0])
        if len(new) < len(rows):
            # Those that were there may refer to new ones now.
            for row in rows:
                if self._get_key(row) in self._present:
                    self._update(row)
        self.written += len(rows)
        return []

    def _update(self, row: Values) -> None:
        key = self._get_key(row)
        self._kept.pop(key)
        self._connection.execute(
            sa.update(self._table).values({
                name: value for name, value in row.items() if name not in self._key_names})
            .where(*(self._table.c[name] == value for name, value in zip(
                self._key_names, key, strict=True))))

    def _find_obstacles(self, row: Values) -> Iterator[str]:
        """Yield the rows of others that have what only one may have."""
        key = self._get_key(row)
        for names in self._unique:
            values = [row.get(name) for name in names]
            if None in values:
                continue
            for other_key, other in self._present.items():
                if other_key != key and values == [other[name] for name in names]:
                    yield (f"{self._table.name} has {self.name_row(other)} with the "
                           f"{', '.join(names)} of {self.name_row(row)}: "
                           f"{', '.join(map(str, values))}")

    def _is_numbered(self, row: Values) -> bool:
        """Return whether rows come with numbers that the database would make otherwise."""
        column = self._table.autoincrement_column
        return column is not None and row.get(column.name) is not None

    def advance_sequence(self) -> None:
        """Have the database number the next row behind ours; only PostgreSQL needs to be told."""
        column = self._table.autoincrement_column
        if column is None or not self._numbered or self._connection.dialect.name != "postgresql":
            return
        quoted = self._connection.dialect.identifier_preparer.format_table(self._table)
        self._connection.execute(
            sa.select(sa.func.setval(
                sa.func.pg_get_serial_sequence(quoted, column.name),
                sa.select(sa.func.max(column)).scalar_subquery())))

    def list_kept(self) -> list[LeftOut]:
        """Return the rows that were in the table before, and of which we have nothing."""
        return [
            LeftOut(self._table.name, self.name_row(row), str(row.get("name") or ""),
                    "the service's bootstrap made it; it stays, and is not ours")
            for row in self._kept.values()]

