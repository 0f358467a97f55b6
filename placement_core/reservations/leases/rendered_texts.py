"""Rendered leases in the database: written once for all workers, and never by a request.

A manager writes them, some seconds after a lease has changed. A worker that has cached few leases
of a list reads their texts from here, which costs much less than rendering them. The reader
checks by the lease's version whether a text is current. So nothing depends on when a text was
written, by which manager, or whether it was written at all.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from placement_core import db
from placement_core.changes import kinds, vector
from placement_core.changes.vector import Vector
from placement_core.context import Context
from placement_core.db import Session, arrays, lists
from placement_core.reservations import tables
from placement_core.reservations.records import Lease
from placement_core.reservations.store import lease_rows

_leases, _texts = tables.leases, tables.lease_texts

#: How many texts are rendered at a time.
_BATCH = 1000
#: If more leases than this have changed, all are looked through.
_MOST_CHANGED = 1000
#: So often all are looked through anyway.
_ALL_SECONDS = 600

_Row: TypeAlias = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseRenderer:
    """Renders leases.

    :ivar format: the number of the text format, incremented with each change of the output for an
        unchanged lease. Processes with an older format leave texts of a newer one alone.
    :ivar render: returns the text of a lease; it depends on the lease only.
    """

    format: int
    render: Callable[[Lease], bytes]


# Reading -----------------------------------------------------------------------------

_FORMAT = sa.bindparam("format", type_=sa.Integer)
_OF_LEASE = sa.and_(_texts.c.number == _leases.c.number, _texts.c.lease_id == _leases.c.id)
_IS_CURRENT = sa.and_(_texts.c.format == _FORMAT, _texts.c.version == _leases.c.version)

#: Joins a lease with its current text in ``format``, if there is one.
PRESENT = sa.and_(_OF_LEASE, _IS_CURRENT)

_MISSING = (
    sa.select(_leases.c.number, _leases.c.id, _leases.c.version)
    .outerjoin(_texts, sa.and_(_OF_LEASE, sa.or_(_IS_CURRENT, _texts.c.format > _FORMAT)))
    .where(lease_rows.EXISTING, _texts.c.number.is_(None),
           _leases.c.number > sa.bindparam("after"))
    .order_by(_leases.c.number)
    .limit(sa.bindparam("most", type_=sa.Integer)))
_MISSING_OF_LEASES = _MISSING.where(lists.among(_leases.c.number, "numbers"))
_ORPHANS = (
    sa.select(_texts.c.number)
    .outerjoin(_leases, sa.and_(_OF_LEASE, lease_rows.EXISTING))
    .where(_leases.c.number.is_(None))
    .order_by(_texts.c.number)
    .limit(sa.bindparam("most", type_=sa.Integer)))


# Writing -----------------------------------------------------------------------------


def _is_newer(written: Any) -> sa.ColumnElement[bool]:
    """Return the condition that a text is newer than the stored one."""
    return sa.or_(
        _texts.c.lease_id != written.lease_id, _texts.c.format < written.format,
        sa.and_(_texts.c.format == written.format, _texts.c.version < written.version))


def _upsert_on_conflict(insert: postgresql.Insert | sqlite.Insert) -> sa.Insert:
    written = insert.excluded
    upsert: sa.Insert = insert.on_conflict_do_update(
        index_elements=[_texts.c.number], where=_is_newer(written),
        set_={name: written[name] for name in ("lease_id", "version", "format", "text")})
    return upsert


def _upsert_on_mysql() -> sa.Insert:
    insert = mysql.insert(_texts).inline()
    written = insert.inserted
    # Each assignment sees the values that those before it have set. So once the version is set,
    # the condition still holds for the columns after it, or their values are equal already.
    upsert: sa.Insert = insert.on_duplicate_key_update([
        (name, sa.func.if_(_is_newer(written), written[name], _texts.c[name]))
        for name in ("text", "version", "format", "lease_id")])
    return upsert


_UPSERT = {
    "mysql": _upsert_on_mysql(),
    "postgresql": _upsert_on_conflict(arrays.insert(
        postgresql.insert(_texts).inline(), _texts, _texts.c.keys())),
    "sqlite": _upsert_on_conflict(sqlite.insert(_texts).inline()),
}
_REMOVE = sa.delete(_texts).where(lists.among(_texts.c.number, "numbers"))


class TextFiller:
    """Writes the texts of all leases at first, then of those that have changed since.

    Now and then it looks through all again, for what the change log does not name.
    """

    def __init__(self, renderer: LeaseRenderer) -> None:
        self._renderer = renderer
        self._seen: Vector | None = None
        self._all_again_at = 0.0

    def fill(self, ctx: Context) -> int:
        """Render and write missing texts; return how many."""
        numbers: list[int] | None = None
        if self._seen is None or time.monotonic() >= self._all_again_at:
            with db.read_each(ctx) as session:
                now = vector.read_current(session)
        else:
            now, changes = vector.follow(ctx, self._seen)
            if changes is not None:
                numbers = sorted(ref for kind, ref in changes if kind == kinds.LEASE and ref)
        if numbers is None or len(numbers) > _MOST_CHANGED:
            count = fill(ctx, self._renderer)
            self._all_again_at = time.monotonic() + _ALL_SECONDS
        else:
            count = fill(ctx, self._renderer, numbers) if numbers else 0
        # What was committed since is read again.
        self._seen = now
        return count


def fill(ctx: Context, renderer: LeaseRenderer, numbers: Sequence[int] | None = None) -> int:
    """Render and write missing texts; return how many.

    Several managers may do so at the same time: the newest text of a lease stays.

    :param numbers: of the leases to look through; None: all.
    """
    count, after = 0, 0
    while True:
        rows = _render_missing(ctx, renderer, after, numbers)
        if rows:
            _write(ctx, rows)
            count, after = count + len(rows), rows[-1]["number"]
        if len(rows) < _BATCH:
            return count


@db.retry_writes
def _render_missing(
    ctx: Context, renderer: LeaseRenderer, after: int, numbers: Sequence[int] | None
) -> list[_Row]:
    """Render the next missing texts, of leases with higher numbers than ``after``."""
    parameters: dict[str, Any] = {"format": renderer.format, "after": after, "most": _BATCH}
    statement = _MISSING
    if numbers is not None:
        statement, parameters = _MISSING_OF_LEASES, {**parameters, "numbers": numbers}
    # In one snapshot, so that the leases are read in the versions of the rows.
    with db.read(ctx) as session:
        rows = session.execute(statement, parameters).all()
        leases = lease_rows.read(session, [row.id for row in rows])
    return [
        {"number": row.number, "lease_id": row.id, "version": row.version,
         "format": renderer.format, "text": renderer.render(lease).decode()}
        for row, lease in zip(rows, leases, strict=True)]


@db.retry_writes
def _write(ctx: Context, rows: Sequence[_Row]) -> None:
    # In the order of their numbers, so that managers that write the same texts cannot deadlock.
    with db.write(ctx) as session:
        session.execute(
            _UPSERT[session.dialect],
            arrays.columns(rows) if session.dialect == "postgresql" else rows)


def remove_orphans(session: Session, most: int) -> int:
    """Remove texts of leases that were deleted or removed, at most ``most``.

    :returns: how many were removed.
    """
    # In two statements: a DELETE of all rows without a lease would wait, on MySQL, for every
    # transaction that changes a lease.
    numbers = list(session.execute(_ORPHANS, {"most": most}).scalars())
    if numbers:
        session.execute(_REMOVE, {"numbers": numbers})
    return len(numbers)
