"""Consumers that have allocations but no row: counted, and given one.

Upstream stored allocations of requests before microversion 1.8 without one.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.placement import records, tables
from placement_core.placement.allocations import consumers, usage_counters
from placement_core.placement.allocations.owners import Owners

_consumers, _allocations = tables.consumers, tables.allocations

#: How many are given a row in one transaction.
_BATCH = 100

_HELD_BY_NOBODY = (
    sa.select(_allocations.c.consumer_id)
    .where(~sa.exists().where(_consumers.c.uuid == _allocations.c.consumer_id))
    .distinct()
)
_COUNT = sa.select(sa.func.count()).select_from(_HELD_BY_NOBODY.subquery())
_MISSING = _HELD_BY_NOBODY.order_by(_allocations.c.consumer_id).limit(sa.bindparam("most"))
_HELD = (
    sa.select(_consumers.c.uuid, _consumers.c.project_id, _consumers.c.user_id,
              _allocations.c.resource_class_id, sa.func.sum(_allocations.c.used).label("used"))
    .join(_allocations, _allocations.c.consumer_id == _consumers.c.uuid)
    .where(_consumers.c.uuid.in_(sa.bindparam("uuids", expanding=True)))
    .group_by(_consumers.c.uuid, _consumers.c.project_id, _consumers.c.user_id,
              _allocations.c.resource_class_id)
)


def create_incomplete(
    ctx: Context, max_count: int, owners: Owners | None = None
) -> tuple[int, int]:
    """Insert the rows of consumers that have allocations but no row (online migration).

    They get the configured incomplete project and user, and generation 0.

    :param owners: None: no incomplete owner is configured, and no ids are cached.
    :returns: (the number of missing rows that were found, the number that was inserted).
    Source: seed 004; upstream's ``create_incomplete_consumers``.
    """
    with db.read(ctx) as session:
        missing = session.execute(_COUNT).scalar_one()
        uuids = list(session.execute(_MISSING, {"most": max_count}).scalars())
    return missing, record(ctx, uuids, owners or Owners())


@db.retry_writes
def count(ctx: Context) -> int:
    """Return the number of consumers that have allocations but no row."""
    with db.read_once(ctx) as session:
        return int(session.execute(_COUNT).scalar_one())


def record(ctx: Context, uuids: Sequence[str], owners: Owners) -> int:
    """Insert the missing rows of those of some consumers that have allocations.

    :returns: the number of inserted rows.
    """
    return sum(_insert_records(ctx, uuids[start:start + _BATCH], owners)
               for start in range(0, len(uuids), _BATCH))


@db.retry_writes
def _insert_records(ctx: Context, uuids: Sequence[str], owners: Owners) -> int:
    project, user = owners.incomplete
    writes = [
        records.AllocationWrite(uuid, allocations={"": {}}, project_id=project, user_id=user)
        for uuid in sorted(uuids)
    ]
    owners.ensure(ctx, writes)
    with db.write(ctx) as session:
        inserted = [
            write.consumer_uuid for write in writes
            if consumers.insert_row(session, {
                "uuid": write.consumer_uuid, "project": project, "user": user, "generation": 0,
            }, typed=False)]
        if not inserted:
            return 0
        holders, changes = _read_holdings(session, inserted)
        # What one of them held may have been released before its row was made.
        consumers.remove(session, sorted(set(inserted) - holders))
        usage_counters.add(ctx, session, changes)
        for uuid in holders:
            session.record_change(kinds.CONSUMER, uuid=uuid, project=project)
        return len(holders)


def _read_holdings(
    session: db.Session, uuids: Sequence[str]
) -> tuple[set[str], dict[usage_counters.Key, int]]:
    """Return which of these untyped consumers have allocations, and the sums of these."""
    holders: set[str] = set()
    changes: collections.Counter[usage_counters.Key] = collections.Counter()
    for row in session.execute(_HELD, {"uuids": list(uuids)}):
        owner = (row.project_id, row.user_id, tables.UNTYPED)
        changes[*owner, row.resource_class_id] += int(row.used)
        if row.uuid not in holders:
            holders.add(row.uuid)
            changes[*owner, tables.CONSUMERS_ID] += 1
    return holders, changes
