"""Watermarks: how far passes over many rows have come, stored in our own database."""

from __future__ import annotations

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.cells import tables
from placement_core.context import Context

_watermarks = tables.watermarks
_GET = sa.select(_watermarks.c.at).where(_watermarks.c.name == sa.bindparam("of_name"))
_SET = (
    sa.update(_watermarks).where(_watermarks.c.name == sa.bindparam("of_name"))
    .values(at=sa.bindparam("new_at"))
)
_INSERT = sa.insert(_watermarks)


@db.retry_writes
def get(ctx: Context, name: str) -> int:
    """Return the last id that a pass has read; 0 if it starts at the beginning."""
    with db.read_once(ctx) as session:
        return session.execute(_GET, {"of_name": name}).scalar() or 0


@db.retry_writes
def put(ctx: Context, name: str, at: int) -> None:
    """Store how far a pass has come; of two concurrent passes, the last to write wins."""
    with db.write(ctx) as session:
        if not session.execute(_SET, {"of_name": name, "new_at": at}).rowcount:
            try:
                session.execute(_INSERT, {"name": name, "at": at})
            except db_exception.DBDuplicateEntry:
                raise db.TransactionConflict from None
