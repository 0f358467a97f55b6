"""What the catalog's nouns have in common: rows with a text for an id."""

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
#: What MySQL's TEXT holds, in bytes.
_LONGEST_TEXT = 65535


def new_id() -> str:
    """Return an id that nothing has."""
    return uuid.uuid4().hex


def find(session: Session, table: sa.Table, id_: str) -> sa.Row[Any] | None:
    """Return the row whose id is exactly ``id_``."""
    if not texts.is_storable(id_):
        return None
    row = session.execute(_select_by_id(table), {"id": id_}).first()
    # MariaDB leaves trailing spaces out of account.
    return row if row is not None and row.id == id_ else None


def get(session: Session, table: sa.Table, kind: str, id_: str) -> sa.Row[Any]:
    """Return the row of what the caller addressed.

    :raises errors.NotInCatalog: there is none.
    """
    row = find(session, table, id_)
    if row is None:
        raise errors.NotInCatalog(kind, id_)
    return row


def require(session: Session, table: sa.Table, kind: str, id_: str) -> sa.Row[Any]:
    """Return the row that something else is to refer to.

    :raises errors.UnknownReference: there is none.
    """
    row = find(session, table, id_)
    if row is None:
        raise errors.UnknownReference(kind, id_)
    return row


def list_matching(
    session: Session, table: sa.Table, order: Sequence[str], filters: Mapping[str, str | None],
) -> list[sa.Row[Any]]:
    """Return the rows that have exactly these values.

    :param filters: {column: its value}; None is any.
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
    """Say whether some row has that value."""
    return session.execute(_select_having(table, column), {"value": value}).first() is not None


def check(
    kind: str, table: sa.Table, values: Mapping[str, Any], *, never_empty: Collection[str],
) -> None:
    """Refuse texts that some database cannot keep.

    :raises errors.InvalidValue: naming the first field that has one.
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
    """Say whether a service, endpoint, domain or project can have ``text`` as its id."""
    return _ID.fullmatch(text) is not None


def check_id(kind: str, id_: str) -> None:
    """Refuse what cannot be the id of a service, endpoint, domain or project.

    :raises errors.InvalidValue: it is something else than 1 to 64 letters, digits, hyphens.
    """
    if not is_id(id_):
        raise errors.InvalidValue(kind, "id", "1 to 64 letters, digits and hyphens")


def insert(
    session: Session, table: sa.Table, kind: str, values: Mapping[str, Any], *, clash: str,
) -> None:
    """Insert a row.

    :param clash: what is there already if it cannot be inserted.
    :raises errors.Duplicate: its id or name is taken.
    """
    try:
        session.execute(_insert(table), values)
    except db_exception.DBDuplicateEntry as error:
        raise errors.Duplicate(kind, clash) from error


def update(
    session: Session, table: sa.Table, kind: str, id_: str, changes: Mapping[str, Any], *,
    clash: str = "",
) -> None:
    """Change a row.

    :param changes: {column: new value}; nothing changes nothing.
    :param clash: what is there already if it cannot be changed.
    :raises errors.Duplicate: its new name is taken.
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
    """Remove the rows that have that value."""
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
