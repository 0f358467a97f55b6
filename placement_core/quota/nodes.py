"""Limit nodes: the rows that claims lock if they count against the same limits.

A transaction that has locked a node's row can decide on the usage below it: every other
claim that could increase that usage waits. Nodes are locked after the providers and before the
usage counters, all of a transaction in one statement, in the order of their ids.
Source: design §4 and §5.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from placement_core.caches import BoundedCache
from placement_core.context import Context
from placement_core.db import Session, TransactionConflict, inserts, lists, row_locks
from placement_core.quota import tables

_nodes = tables.limit_nodes

_IDS = sa.select(_nodes.c.node_id, _nodes.c.id).where(
    lists.among(_nodes.c.node_id, "node_ids"))
_LOCK = (
    sa.update(_nodes)
    .where(row_locks.locked_in_order(_nodes.c.id, sa.and_(
        lists.among(_nodes.c.id, "ids"), lists.among(_nodes.c.node_id, "node_ids"))))
    .values(revision=_nodes.c.revision + 1))

#: How many ids are cached.
_MOST_IDS = 100_000


class LimitNodes:
    """The rows of limit nodes in one database. Thread-safe.

    Their ids are cached, because rows are never deleted.
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
        :raises TransactionConflict: a row is missing, or is another node's: another database
            was restored in this one's place.
        """
        if not ids:
            return
        row_ids = sorted(set(ids.values()))
        locked = session.execute_write(_LOCK, {"ids": row_ids, "node_ids": sorted(ids)})
        if locked != len(row_ids):
            self.forget()
            raise TransactionConflict


def _read_ids(connection: sa.Connection, node_ids: Collection[str]) -> dict[str, int]:
    ids = {row.node_id: row.id for row in connection.execute(_IDS, {"node_ids": node_ids})}
    if connection.dialect.name != "mysql":
        return ids
    # MySQL treats ids that differ in trailing blanks as equal, so they share a row.
    shared = {node_id.rstrip(" "): id_ for node_id, id_ in ids.items()}
    return {node_id: shared[node_id.rstrip(" ")] for node_id in node_ids}
