"""Read and write rows of the catalog's tables, whose ids are text; check their values."""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core.catalog import errors
from placement_core.db import Session, texts

_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")
#: The size of MySQL's TEXT, in bytes.
_LONGEST_TEXT = 65535


def new_id() -> str:
    """Return a new random id."""
    return uuid.uuid4().hex


def find(session: Session, table: sa.Table, id_: str) -> sa.Row[Any] | None:
    """Return the row whose id is exactly ``id_``, or None."""
    if not texts.is_storable(id_):
        return None
    row = session.execute(_select_by_id(table), {"id": id_}).first()
    # MariaDB ignores trailing spaces when it compares.
    return row if row is not None and row.id == id_ else None


def get(session: Session, table: sa.Table, kind: str, id_: str) -> sa.Row[Any]:
    """Return the row of a record that was requested.

    :raises errors.NotInCatalog: it does not exist.
    """
    row = find(session, table, id_)
    if row is None:
        raise errors.NotInCatalog(kind, id_)
    return row


def require(session: Session, table: sa.Table, kind: str, id_: str) -> sa.Row[Any]:
    """Return the row of a record that another record refers to.

    :raises errors.UnknownReference: it does not exist.
    """
    row = find(session, table, id_)
    if row is None:
        raise errors.UnknownReference(kind, id_)
    return row


def list_matching(
    session: Session, table: sa.Table, order: Sequence[str], filters: Mapping[str, str | None],
) -> list[sa.Row[Any]]:
    """Return the rows that have exactly these values.

    :param filters: {column: value}; None matches any value.
    """
    values = {name: value for name, value in filters.items() if value is not None}
    if not all(texts.is_storable(value) for value in values.values()):
        return []
    statement = (
        sa.select(table)
        .where(*(table.c[name] == value for name, value in values.items()))
        .order_by(*(table.c[name] for name in order)))
    return [row for row in session.execute(statement)
            if all(row._mapping[name] == value for name, value in values.items())]


def exists(session: Session, table: sa.Table, column: str, value: str) -> bool:
    """Return whether a row has ``value`` in ``column``."""
    return session.execute(_select_having(table, column), {"value": value}).first() is not None


def check(
    kind: str, table: sa.Table, values: Mapping[str, Any], *, never_empty: Collection[str],
) -> None:
    """Refuse texts that are too short or too long, or that some database cannot store.

    :raises errors.InvalidValue: a field has such a text; it names the first one.
    """
    for field, value in values.items():
        if isinstance(value, str):
            longest = table.c[field].type.length  # type: ignore[attr-defined]  # a text's
            size = len(value)
            if longest is None:
                longest, size = _LONGEST_TEXT, len(value.encode(errors="replace"))
            shortest = int(field in never_empty)
            if not shortest <= size <= longest or not texts.is_storable(value):
                raise errors.InvalidValue(
                    kind, field, f"text of {shortest} to {longest} characters, without NUL")


def is_id(text: str) -> bool:
    """Return whether ``text`` can be the id of a service, endpoint, domain or project."""
    return _ID.fullmatch(text) is not None


def check_id(kind: str, id_: str) -> None:
    """Refuse an id that a service, endpoint, domain or project cannot have.

    :raises errors.InvalidValue: it is not 1 to 64 letters, digits and hyphens.
    """
    if not is_id(id_):
        raise errors.InvalidValue(kind, "id", "1 to 64 letters, digits and hyphens")


def insert(
    session: Session, table: sa.Table, kind: str, values: Mapping[str, Any], *, clash: str,
) -> None:
    """Insert a row.

    :param clash: what exists already if the id or name is taken, for the message.
    :raises errors.Duplicate: the id or name is taken.
    """
    try:
        session.execute(_insert(table), values)
    except db_exception.DBDuplicateEntry as error:
        raise errors.Duplicate(kind, clash) from error


def update(
    session: Session, table: sa.Table, kind: str, id_: str, changes: Mapping[str, Any], *,
    clash: str = "",
) -> None:
    """Update a row.

    :param changes: {column: new value}; may be empty.
    :param clash: what exists already if the new name is taken, for the message.
    :raises errors.Duplicate: the new name is taken.
    """
    if not changes:
        return
    try:
        session.execute(
            sa.update(table).where(table.c.id == sa.bindparam("of_id")).values(**changes),
            {"of_id": id_})
    except db_exception.DBDuplicateEntry as error:
        raise errors.Duplicate(kind, clash) from error


def delete(session: Session, table: sa.Table, column: str, value: str) -> None:
    """Delete the rows that have ``value`` in ``column``."""
    session.execute(_delete(table, column), {"value": value})


@functools.cache
def _select_by_id(table: sa.Table) -> sa.Select[Any]:
    return sa.select(table).where(table.c.id == sa.bindparam("id"))


@functools.cache
def _select_having(table: sa.Table, column: str) -> sa.Select[Any]:
    return sa.select(sa.literal(1)).where(table.c[column] == sa.bindparam("value")).limit(1)


@functools.cache
def _insert(table: sa.Table) -> sa.Insert:
    return sa.insert(table).inline()


@functools.cache
def _delete(table: sa.Table, column: str) -> sa.Delete:
    return sa.delete(table).where(table.c[column] == sa.bindparam("value"))
