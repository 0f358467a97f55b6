"""Texts of leases in the database: made once, for all workers, and never by a request.

A manager writes them, some seconds after a lease has changed. A worker that knows few leases
of a list finds their texts here, which costs it much less than making them. Whether a text
is that of its lease is decided where it is read, by the lease's version: nothing depends on
when it was written, by whom, or whether it was at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, arrays, lists
from placement_core.reservations import tables
from placement_core.reservations.records import Lease
from placement_core.reservations.store import lease_rows

_leases, _texts = tables.leases, tables.lease_texts

#: So many are made at a time.
_BATCH = 1000

_Row: TypeAlias = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseRenderer:
    """How leases are shown.

    :ivar format: a number, raised whenever the text of a lease that has not changed becomes
        another one. Texts of a newer format are left alone by who knows an older one.
    :ivar render: makes the text of a lease, of nothing but that.
    """

    format: int
    render: Callable[[Lease], bytes]


# Reading -----------------------------------------------------------------------------

_FORMAT = sa.bindparam("format", type_=sa.Integer)
_OF_LEASE = sa.and_(_texts.c.number == _leases.c.number, _texts.c.lease_id == _leases.c.id)
_AS_IT_IS = sa.and_(_texts.c.format == _FORMAT, _texts.c.version == _leases.c.version)

#: Which row, if any, is the text of a lease as it is, in the ``format``.
PRESENT = sa.and_(_OF_LEASE, _AS_IT_IS)

_MISSING = (
    sa.select(_leases.c.number, _leases.c.id, _leases.c.version)
    .outerjoin(_texts, sa.and_(_OF_LEASE, sa.or_(_AS_IT_IS, _texts.c.format > _FORMAT)))
    .where(lease_rows.EXISTING, _texts.c.number.is_(None),
           _leases.c.number > sa.bindparam("after"))
    .order_by(_leases.c.number)
    .limit(sa.bindparam("most", type_=sa.Integer)))
_NEEDLESS = (
    sa.select(_texts.c.number)
    .outerjoin(_leases, sa.and_(_OF_LEASE, lease_rows.EXISTING))
    .where(_leases.c.number.is_(None))
    .order_by(_texts.c.number)
    .limit(sa.bindparam("most", type_=sa.Integer)))


# Writing -----------------------------------------------------------------------------


def _newer(written: Any) -> sa.ColumnElement[bool]:
    """Return whether a text is newer than the one that is there."""
    return sa.or_(
        _texts.c.lease_id != written.lease_id, _texts.c.format < written.format,
        sa.and_(_texts.c.format == written.format, _texts.c.version < written.version))


def _upsert_on_conflict(insert: postgresql.Insert | sqlite.Insert) -> sa.Insert:
    written = insert.excluded
    upsert: sa.Insert = insert.on_conflict_do_update(
        index_elements=[_texts.c.number], where=_newer(written),
        set_={name: written[name] for name in ("lease_id", "version", "format", "text")})
    return upsert


def _upsert_on_mysql() -> sa.Insert:
    insert = mysql.insert(_texts).inline()
    written = insert.inserted
    # Assignments see what those before them have set. What is left after the version either
    # differs still, and is set, or is the same already.
    upsert: sa.Insert = insert.on_duplicate_key_update([
        (name, sa.func.if_(_newer(written), written[name], _texts.c[name]))
        for name in ("text", "version", "format", "lease_id")])
    return upsert


_UPSERT = {
    "mysql": _upsert_on_mysql(),
    "postgresql": _upsert_on_conflict(arrays.insert(
        postgresql.insert(_texts).inline(), _texts, _texts.c.keys())),
    "sqlite": _upsert_on_conflict(sqlite.insert(_texts).inline()),
}
_REMOVE = sa.delete(_texts).where(lists.among(_texts.c.number, "numbers"))


def fill(ctx: Context, renderer: LeaseRenderer) -> int:
    """Write the texts that are missing; return how many were made.

    Any number may do so at the same time: the newest text of a lease stays.
    """
    count, after = 0, 0
    while True:
        rows = _render_missing(ctx, renderer, after)
        if rows:
            _write(ctx, rows)
            count, after = count + len(rows), rows[-1]["number"]
        if len(rows) < _BATCH:
            return count


@db.retry_writes
def _render_missing(ctx: Context, renderer: LeaseRenderer, after: int) -> list[_Row]:
    """Make the next texts that are missing, of leases with higher numbers than ``after``."""
    # In one snapshot, so that what is read is of the versions that were found.
    with db.read(ctx) as session:
        rows = session.execute(
            _MISSING, {"format": renderer.format, "after": after, "most": _BATCH}).all()
        leases = lease_rows.read(session, [row.id for row in rows])
    return [
        {"number": row.number, "lease_id": row.id, "version": row.version,
         "format": renderer.format, "text": renderer.render(lease).decode()}
        for row, lease in zip(rows, leases, strict=True)]


@db.retry_writes
def _write(ctx: Context, rows: Sequence[_Row]) -> None:
    # In the order of their numbers, so that two who write the same wait for each other.
    with db.write(ctx) as session:
        session.execute(
            _UPSERT[session.dialect],
            arrays.columns(rows) if session.dialect == "postgresql" else rows)


def remove_needless(session: Session, most: int) -> int:
    """Remove texts of leases that were deleted or are not kept any more, at most so many.

    :returns: how many there were.
    """
    # In two statements: MySQL, asked to delete what has no lease, would wait for everybody
    # who changes one.
    numbers = list(session.execute(_NEEDLESS, {"most": most}).scalars())
    if numbers:
        session.execute(_REMOVE, {"numbers": numbers})
    return len(numbers)
