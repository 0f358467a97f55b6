"""Limit nodes: the rows that claims take which count against the same limits.

Whoever holds a node's row may decide by what is used below it: every other claim
that could use more of it waits. Taken after the providers, before the usage
counters, all of a transaction in one statement, in the order of their ids.
Source: design §4 and §5.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping

import sqlalchemy as sa

from placement_core.context import Context
from placement_core.db import Session, TransactionConflict, inserts, lists
from placement_core.db.database import Database
from placement_core.quota import tables

_nodes = tables.limit_nodes

_KNOWN = sa.select(_nodes.c.node_id, _nodes.c.id).where(
    lists.among(_nodes.c.node_id, "node_ids"))
_WANTED = (lists.among(_nodes.c.id, "ids"), lists.among(_nodes.c.node_id, "node_ids"))
#: MySQL takes rows in the order of the primary key, SQLite the whole file.
_HOLD = sa.update(_nodes).where(*_WANTED).values(revision=_nodes.c.revision + 1)


def _hold_ordered() -> sa.Update:
    """Build the same for PostgreSQL, whose UPDATE takes rows in the order of its plan."""
    taken = (
        sa.select(_nodes.c.id)
        .where(*_WANTED)
        .order_by(_nodes.c.id)
        .with_for_update(key_share=True)
        .cte("taken"))
    # Named twice: a plan that was made while there were few nodes would look at all.
    return sa.update(_nodes).where(
        _nodes.c.id == taken.c.id, lists.among(_nodes.c.id, "ids"),
    ).values(revision=_nodes.c.revision + 1)


_HOLD_ORDERED = _hold_ordered()

#: {database: {node: id of its row}}. Rows are never removed.
_ids: weakref.WeakKeyDictionary[Database, dict[str, int]] = weakref.WeakKeyDictionary()
#: So many are remembered; beyond that they are asked for anew.
_MOST_KNOWN = 100_000


def ensure(ctx: Context, node_ids: Collection[str]) -> dict[str, int]:
    """Return the ids of the rows of nodes; those that are missing are made.

    Before the transaction of the claim, so that two claims that both need a new row
    do not wait for each other's decisions. Made rows that are never taken do no harm.
    """
    known = _ids.setdefault(ctx.database, {})
    missing = sorted(node_id for node_id in node_ids if node_id not in known)
    if missing:
        if len(known) >= _MOST_KNOWN:
            known.clear()
            missing = sorted(node_ids)
        with ctx.database.connection(ctx.database.autocommit) as connection:
            inserts.insert_missing(connection, _nodes, [
                {"node_id": node_id, "revision": 0} for node_id in missing])
            known.update(_found(connection, missing))
    return {node_id: known[node_id] for node_id in node_ids}


def _found(connection: sa.Connection, node_ids: Collection[str]) -> dict[str, int]:
    found = {row.node_id: row.id for row in connection.execute(
        _KNOWN, {"node_ids": node_ids})}
    if connection.dialect.name != "mysql":
        return found
    # Ids that differ in blanks at their end are equal on MySQL: they share a row.
    rows = {node_id.rstrip(" "): id_ for node_id, id_ in found.items()}
    return {node_id: rows[node_id.rstrip(" ")] for node_id in node_ids}


def forget(ctx: Context) -> None:
    """Drop what is known of rows, because the database is another one now."""
    _ids.pop(ctx.database, None)


def hold(ctx: Context, session: Session, ids: Mapping[str, int]) -> None:
    """Take rows until the commit.

    :param ids: {node: id of its row}, from ``ensure``.
    :raises TransactionConflict: a row is missing, or another node's: the database is another
        one now.
    """
    if not ids:
        return
    wanted = sorted(set(ids.values()))
    statement = _HOLD_ORDERED if session.dialect == "postgresql" else _HOLD
    held = session.execute_write(statement, {"ids": wanted, "node_ids": sorted(ids)})
    if held != len(wanted):
        forget(ctx)
        raise TransactionConflict
