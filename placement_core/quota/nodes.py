"""Limit nodes: the rows that claims lock if they count against the same limits.

A transaction that has locked a node's row can decide on the usage below it: every other
claim that could increase that usage waits. Nodes are locked after the providers and before the
usage counters, all of a transaction in one statement, in the order of their ids.
Source: design §4 and §5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.caches import BoundedCache
from placement_core.context import Context
from placement_core.db import Session, TransactionConflict, clock, inserts, lists, row_locks
from placement_core.quota import tables

_nodes = tables.limit_nodes

_IDS = sa.select(_nodes.c.node_id, _nodes.c.id).where(
    lists.among(_nodes.c.node_id, "node_ids"))
_LOCK = (
    sa.update(_nodes)
    .where(row_locks.locked_in_order(_nodes.c.id, sa.and_(
        lists.among(_nodes.c.id, "ids"), lists.among(_nodes.c.node_id, "node_ids"))))
    .values(revision=_nodes.c.revision + 1, locked_at=clock.now()))

#: How long a row that is not locked is kept.
_KEPT_SECONDS = 86_400
#: How many rows one transaction dates or removes.
_BATCH = 200

_is_undated = _nodes.c.locked_at.is_(None)
_is_unused = _nodes.c.locked_at < clock.in_seconds(
    sa.literal_column(str(-_KEPT_SECONDS), sa.Integer))
_of_ids = lists.among(_nodes.c.id, "ids")
#: Without the highest id, which SQLite would use again for another node.
_CANDIDATES = (
    sa.select(_nodes.c.id)
    .where(sa.or_(_is_undated, _is_unused), _nodes.c.id > sa.bindparam("after"),
           _nodes.c.id < sa.select(sa.func.max(_nodes.c.id)).scalar_subquery())
    .order_by(_nodes.c.id).limit(_BATCH))
_DATE = sa.update(_nodes).where(_of_ids, _is_undated).values(locked_at=clock.now())
_REMOVE = sa.delete(_nodes).where(_of_ids, _is_unused)

#: How many ids are cached.
_MOST_IDS = 100_000


class LimitNodes:
    """The rows of limit nodes in one database. Thread-safe.

    Their ids are cached. A row that was removed meanwhile is noticed when it is to be locked.
    """

    def __init__(self) -> None:
        self._ids = BoundedCache[str, int](_MOST_IDS)

    def ensure(self, ctx: Context, node_ids: Collection[str]) -> dict[str, int]:
        """Return the ids of the rows of nodes, and insert missing rows.

        Call it before the transaction of the claim, so that two claims that both need a new
        row do not wait for each other's decisions. A row that is never locked does no harm.
        """
        ids = self._ids.get_many(node_ids)
        missing = sorted(set(node_ids) - ids.keys())
        if missing:
            with ctx.database.connection(ctx.database.autocommit) as connection:
                inserts.insert_missing(connection, _nodes, [
                    {"node_id": node_id, "revision": 0} for node_id in missing])
                inserted = _read_ids(connection, missing)
            for node_id, id_ in inserted.items():
                self._ids.put(node_id, id_)
            ids |= inserted
        return ids

    def forget(self) -> None:
        """Empty the cache: another database was restored in this one's place."""
        self._ids.clear()

    def lock(self, session: Session, ids: Mapping[str, int]) -> None:
        """Lock rows until the commit.

        :param ids: {node: id of its row}, from ``ensure``.
        :raises TransactionConflict: a row is missing, because it was removed as unused, or is
            another node's: another database was restored in this one's place.
        """
        self.lock_later(session, ids)
        session.flush()

    def lock_later(
        self, session: Session, ids: Mapping[str, int],
        forget: Callable[[], None] | None = None,
    ) -> None:
        """Do the same together with the session's next statement, which raises the errors.

        :param forget: is called if a row is missing: what the caller derived from its id is
            stale, too.
        """
        if not ids:
            return
        row_ids = sorted(set(ids.values()))

        def check(locked: int) -> None:
            if locked != len(row_ids):
                self.forget()
                if forget is not None:
                    forget()
                raise TransactionConflict

        session.write_later(_LOCK, {"ids": row_ids, "node_ids": sorted(ids)}, check)


def remove_unused(ctx: Context) -> int:
    """Remove the rows that have not been locked for a day; return how many.

    Any number of processes may do so at the same time, beside claims: these insert a row again
    if it was removed before they could lock it.
    """
    removed, after = 0, -1
    while ids := _read_candidates(ctx, after):
        removed += _date_or_remove(ctx, ids)
        after = ids[-1]
    metrics.count_removed_rows(_nodes.name, removed)
    return removed


@db.retry_writes
def _read_candidates(ctx: Context, after: int) -> Sequence[int]:
    with db.read_once(ctx) as session:
        return session.execute(_CANDIDATES, {"after": after}).scalars().all()


@db.retry_writes
def _date_or_remove(ctx: Context, ids: Sequence[int]) -> int:
    with db.write(ctx) as session:
        session.execute(_DATE, {"ids": ids})
        return session.execute(_REMOVE, {"ids": ids}).rowcount


def _read_ids(connection: sa.Connection, node_ids: Collection[str]) -> dict[str, int]:
    ids = {row.node_id: row.id for row in connection.execute(_IDS, {"node_ids": node_ids})}
    if connection.dialect.name != "mysql":
        return ids
    # MySQL treats ids that differ in trailing blanks as equal, so they share a row.
    shared = {node_id.rstrip(" "): id_ for node_id, id_ in ids.items()}
    return {node_id: shared[node_id.rstrip(" ")] for node_id in node_ids}
