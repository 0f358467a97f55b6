"""The way out: what we have, as rows of another service's database, with the ids that we know.

A module for each service says which rows; ``databases`` writes them into a database that the
service's own migrations have made, ``files`` as lines of JSON.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from placement_core.context import Context

Values = Mapping[str, Any]
#: (the name of a table, the values of its columns).
Row = tuple[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class LeftOut:
    """What the other service cannot have.

    :ivar name: what people call it.
    :ivar reason: why it cannot.
    """

    kind: str
    id: str
    name: str
    reason: str


def _leave_nothing_out(_ctx: Context) -> Iterable[LeftOut]:
    return ()


def _know_no_bootstrap(_table: str, _row: Values) -> bool:
    return False


@dataclasses.dataclass(frozen=True, slots=True)
class Exporter:
    """What rows a service is to have.

    :ivar name: of the service, on the command line.
    :ivar schema: the Alembic revisions of its schema that the rows are for.
    :ivar tables: all tables that rows may be for. They are to be empty before.
    :ivar list_rows: returns the rows in an order that satisfies foreign keys, those of a table
        with the same columns. Called several times in one transaction.
    :ivar list_left_out: returns what has no rows, with the reason.
    :ivar is_bootstrapped: whether a row is one of those that the service itself makes in an
        empty database. It stays, with our values if we have one of the same primary key.
    :ivar replaced: tables whose bootstrapped rows are deleted first: nothing refers to them yet,
        and ours may have other keys.
    :ivar mysql_mode: the mode that MySQL needs in addition, while rows are written.
    """

    name: str
    schema: Collection[str]
    tables: Sequence[str]
    list_rows: Callable[[Context], Iterator[Row]]
    list_left_out: Callable[[Context], Iterable[LeftOut]] = _leave_nothing_out
    is_bootstrapped: Callable[[str, Values], bool] = _know_no_bootstrap
    replaced: Collection[str] = ()
    mysql_mode: str = ""


def count_rows(ctx: Context, exporter: Exporter) -> Mapping[str, int]:
    """Return how many rows each table is to have: {table: rows}, in the order of the tables."""
    counts = collections.Counter(table for table, _ in exporter.list_rows(ctx))
    return {table: counts[table] for table in exporter.tables}
