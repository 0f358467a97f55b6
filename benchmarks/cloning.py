"""More hosts, cloned by SQL from those that were loaded over HTTP.

Hosts are alike in turn (``datasets.PERIOD``), so the rows of most are those of an earlier one, but
for names and ids. Loading 100,000 of them over HTTP took 17 minutes, and cloning takes seconds.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

import sqlalchemy as sa

from benchmarks import databases, datasets

#: What belongs to a provider; the same tables on both sides, with columns of their own.
_TABLES = ("inventories", "resource_provider_traits", "resource_provider_aggregates")
_ROWS_IN_AN_INSERT = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class _Clone:
    """The row of a provider that is cloned from another."""

    id: int
    uuid: str
    name: str
    root_id: int
    parent_id: int | None
    source_id: int


def clone_hosts(server: databases.Server, name: str, dataset: datasets.Dataset) -> None:
    """Insert the hosts of a dataset behind the first ``PERIOD``, which are there already."""
    with server.connect(name) as connection, connection.begin():
        _insert_clones(connection, _list_clones(connection, dataset))
        _insert(connection, "resource_providers", {
            "id": "clones.id", "uuid": "clones.uuid", "name": "clones.name",
            "root_provider_id": "clones.root_id", "parent_provider_id": "clones.parent_id"},
            joined_by="id")
        for table in _TABLES:
            _insert(connection, table, {"resource_provider_id": "clones.id"},
                    joined_by="resource_provider_id")
        connection.exec_driver_sql("DROP TABLE clones")
        if server.kind == "postgresql":
            # Rows that bring their ids with them leave the sequence behind.
            connection.exec_driver_sql(
                "SELECT setval(pg_get_serial_sequence('resource_providers', 'id'), max(id)) "
                "FROM resource_providers")


def _list_clones(connection: sa.Connection, dataset: datasets.Dataset) -> Iterator[_Clone]:
    """Yield the rows of the providers to insert, parents before what is below them."""
    ids: dict[str, int] = dict(map(tuple, connection.exec_driver_sql(
        "SELECT uuid, id FROM resource_providers")))
    following = itertools.count(max(ids.values()) + 1)
    sources = [dataset.unit(number) for number in range(datasets.PERIOD)]
    for number in range(datasets.PERIOD, dataset.hosts):
        unit = dataset.unit(number)
        for provider, source in zip(unit, sources[number % datasets.PERIOD], strict=True):
            id_ = ids[provider.uuid] = next(following)
            yield _Clone(id_, provider.uuid, provider.name, ids[unit[0].uuid],
                         ids[provider.parent] if provider.parent else None, ids[source.uuid])


def _insert_clones(connection: sa.Connection, clones: Iterable[_Clone]) -> None:
    clones_table = sa.Table(
        "clones", sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("uuid", sa.String(36)), sa.Column("name", sa.String(200)),
        sa.Column("root_id", sa.Integer), sa.Column("parent_id", sa.Integer),
        sa.Column("source_id", sa.Integer, index=True))
    clones_table.create(connection)
    iterator = iter(clones)
    while batch := list(itertools.islice(iterator, _ROWS_IN_AN_INSERT)):
        connection.execute(sa.insert(clones_table), list(map(dataclasses.asdict, batch)))


def _insert(
    connection: sa.Connection, table: str, own: dict[str, str], *, joined_by: str
) -> None:
    """Insert a row of a table for each that a source has there.

    :param own: {column: what clones do not share with their source}.
    :param joined_by: the column that has the id of the source.
    """
    columns = [column["name"] for column in sa.inspect(connection).get_columns(table)
               if column["name"] in own or column["name"] != "id"]
    values = [own.get(column, f"sources.{column}") for column in columns]
    connection.exec_driver_sql(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} "
        f"FROM clones JOIN {table} sources ON sources.{joined_by} = clones.source_id "
        "ORDER BY clones.id")
