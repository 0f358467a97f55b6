"""Limit nodes: the rows that claims lock if they count against the same limits.

A transaction that has locked a node's row can decide on the usage below it: every other
claim that could increase that usage waits. Nodes are locked after the providers and before the
usage counters, all of a transaction in one statement, in the order of their ids.

The rows have a bound of how full their limits are, too (``fullness``). A transaction adds to it
what it claims (``charge_later``), or locks the row, whereby the bound is lost, and sets it anew
once it has read the usage.
Source: design §4 and §5.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.caches import BoundedCache
from placement_core.context import Context
from placement_core.db import (
    PreparedRead,
    Session,
    TransactionConflict,
    arrays,
    clock,
    inserts,
    lists,
    row_locks,
)
from placement_core.placement import tables as placement_tables
from placement_core.quota import fullness, tables
from placement_core.quota.fullness import Charges

_nodes = tables.limit_nodes

_IDS = sa.select(_nodes.c.node_id, _nodes.c.id).where(
    lists.among(_nodes.c.node_id, "node_ids"))
_LOCK = (
    sa.update(_nodes)
    .where(row_locks.locked_in_order(_nodes.c.id, sa.and_(
        lists.among(_nodes.c.id, "ids"), lists.among(_nodes.c.node_id, "node_ids"))))
    .values(revision=_nodes.c.revision + 1, locked_at=clock.now()))
_LOCK_TO_GROW = _LOCK.values(fullness=None)
_FORGET_FULLNESS = (
    sa.update(_nodes)
    .where(row_locks.locked_in_order(_nodes.c.id, _nodes.c.fullness.is_not(None)))
    .values(fullness=None))

#: How many rows one statement charges or sets, where each has parameters of its own.
_ROWS_AT_ONCE = 50
_CHARGE: Mapping[str, Any] = {
    "row": sa.Integer, "part": sa.BigInteger, "basis": sa.BigInteger}

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

#: Among ``online_migrations``: that all processes keep the fullness.
FULLNESS = "limit_fullness"
_migrations = placement_tables.online_migrations
_KEPT = PreparedRead(sa.select(_migrations.c.finished).where(_migrations.c.name == FULLNESS))
_KEEP = (sa.update(_migrations)
         .where(_migrations.c.name == FULLNESS, _migrations.c.finished == sa.false())
         .values(finished=True))
#: How long a process believes that others do not keep it.
_BELIEVED_SECONDS = 60


class LimitNodes:
    """The rows of limit nodes in one database. Thread-safe.

    Their ids are cached. A row that was removed meanwhile is noticed when it is to be locked.
    """

    def __init__(self) -> None:
        self._ids = BoundedCache[str, int](_MOST_IDS)
        self._keep_fullness = False
        self._asked_again_at = 0.0

    def ensure(self, ctx: Context, node_ids: Collection[str]) -> dict[str, int]:
        """Return the ids of the rows of nodes, and insert missing rows.

        Call it before the transaction of the claim, so that two claims that both need a new
        row do not wait for each other's decisions. A row that is never locked does no harm.
        """
        ids = self._ids.get_many(node_ids)
        unknown = sorted(set(node_ids) - ids.keys())
        if unknown:
            with ctx.database.connection(ctx.database.autocommit) as connection:
                rows = _find_or_insert(connection, unknown)
            for node_id, id_ in rows.items():
                self._ids.put(node_id, id_)
            ids |= rows
        return ids

    def forget(self) -> None:
        """Empty the cache: another database was restored in this one's place."""
        self._ids.clear()

    def keep_fullness(self, ctx: Context) -> bool:
        """Return whether the rows have their fullness: no process leaves it out any more."""
        if not self._keep_fullness and time.monotonic() >= self._asked_again_at:
            self._keep_fullness = is_fullness_kept(ctx)
            self._asked_again_at = time.monotonic() + _BELIEVED_SECONDS
        return self._keep_fullness

    def lock(self, session: Session, ids: Mapping[str, int]) -> None:
        """Lock rows until the commit, for a caller that lets no usage grow.

        :param ids: {node: id of its row}, from ``ensure``.
        :raises TransactionConflict: a row is missing, because it was removed as unused, or is
            another node's: another database was restored in this one's place.
        """
        self._lock_later(session, _LOCK, ids)
        session.flush()

    def lock_to_grow_later(
        self, session: Session, ids: Mapping[str, int], forget: Callable[[], None],
    ) -> None:
        """Do the same together with the session's next statement, which raises the errors.

        Usage may grow below the nodes then: their fullness is unknown, until it is set.

        :param forget: is called if a row is missing: what the caller derived from its id is
            stale, too.
        """
        self._lock_later(session, _LOCK_TO_GROW, ids, forget)

    def _lock_later(
        self, session: Session, statement: sa.Update, ids: Mapping[str, int],
        forget: Callable[[], None] | None = None,
    ) -> None:
        if not ids:
            return
        row_ids = sorted(set(ids.values()))

        def check(locked: int) -> None:
            if locked != len(row_ids):
                self.forget()
                if forget is not None:
                    forget()
                raise TransactionConflict

        session.write_later(statement, {"ids": row_ids, "node_ids": sorted(ids)}, check)

    def charge_later(
        self, session: Session, charges: Charges, refused: Callable[[], None]
    ) -> None:
        """Lock rows, and add what is claimed to their fullness, with the next statement.

        :param refused: is called if one of them does not allow it.
        :raises TransactionConflict: then; the session's next statement may raise it.
        """
        def check(asked: int, met: int) -> None:
            if met != asked:
                refused()
                raise TransactionConflict

        for statement, parameters, count in _split(session, charges, _build_charge):
            session.write_later(statement, parameters, functools.partial(check, count))

    def set_fullness_later(self, session: Session, measured: Charges) -> None:
        """Set the fullness of rows that the transaction has locked, with its next statement."""
        for statement, parameters, _ in _split(session, measured, _build_setting):
            session.write_later(statement, parameters)

    def forget_fullness_later(self, session: Session) -> None:
        """Have usage read below all nodes again: it grows, and nobody knows below which.

        A claim beside it may set the fullness of a node anew without this growth.
        Call it before ``lock_to_grow_later``.
        """
        session.write_later(_FORGET_FULLNESS, {})


@db.retry_writes
def keep_fullness(ctx: Context, _max_count: int) -> tuple[int, int]:
    """Have all processes keep the fullness of nodes (an online migration).

    All of them must have a version that knows it: the claims of others would be missing.

    :returns: 1 the first time, twice; then 0.
    """
    with db.write(ctx) as session:
        changed = session.execute(_KEEP).rowcount
    return changed, changed


def is_fullness_kept(ctx: Context) -> bool:
    """Return whether ``keep_fullness`` was done."""
    return any(row.finished for row in _KEPT.fetch(ctx))


def count_fullness_not_kept(ctx: Context) -> int:
    """Return 1 if ``keep_fullness`` is to be done, else 0."""
    return int(not is_fullness_kept(ctx))


def declare_fullness_kept(connection: sa.Connection) -> None:
    """Record that all processes keep the fullness, because the database is new."""
    connection.execute(_KEEP)


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


_Values: TypeAlias = Mapping[str, sa.ColumnElement[Any]]
_Build: TypeAlias = Callable[[Sequence[_Values], sa.ColumnElement[bool]], sa.Update]


def _split(
    session: Session, charges: Charges, build: _Build
) -> Iterator[tuple[sa.Update, Mapping[str, Any], int]]:
    """Yield statements for charges, with their parameters and how many rows each is about.

    PostgreSQL takes any number of charges as arrays; the others have none.
    """
    rows = sorted(charges)
    in_arrays = session.dialect == "postgresql"
    at_once = len(rows) if in_arrays else _ROWS_AT_ONCE
    for start in range(0, len(rows), at_once or 1):
        batch = rows[start:start + at_once]
        columns = {"row": batch, "part": [charges[row].part for row in batch],
                   "basis": [charges[row].limits.basis for row in batch]}
        if in_arrays:
            yield _build_for_arrays(build), columns, len(batch)
        else:
            yield (_build_for_rows(build, len(batch)), {
                "ids": batch, **{f"{name}{place}": value for name, values in columns.items()
                                 for place, value in enumerate(values)}}, len(batch))


@functools.cache
def _build_for_rows(build: _Build, count: int) -> sa.Update:
    """Build a statement for ``count`` charges with parameters of their own."""
    return build([
        {name: sa.bindparam(f"{name}{place}", type_=type_) for name, type_ in _CHARGE.items()}
        for place in range(count)], _of_ids)


@functools.cache
def _build_for_arrays(build: _Build) -> sa.Update:
    """Build a statement for charges that come as arrays; it locks in the order of ids.

    The rows are selected once, which costs less than ``row_locks.locked_in_order``.
    """
    charges, nodes = arrays.rows("charges", _CHARGE), _nodes.alias("locked_nodes")
    locked = (
        sa.select(*charges.c).join_from(charges, nodes, nodes.c.id == charges.c.row)
        .order_by(nodes.c.id).with_for_update(key_share=True, of=nodes).subquery("locked"))
    return build([dict(locked.c)], sa.true())


def _build_charge(charges: Sequence[_Values], are_named: sa.ColumnElement[bool]) -> sa.Update:
    # The next one that locks it to read the usage dates it.
    return sa.update(_nodes).where(are_named, sa.or_(*(
        sa.and_(_nodes.c.id == charge["row"], _nodes.c.fullness_of == charge["basis"],
                _nodes.c.fullness + charge["part"] <= fullness.FULL)
        for charge in charges))).values(fullness=_nodes.c.fullness + _choose(charges, "part"))


def _build_setting(charges: Sequence[_Values], are_named: sa.ColumnElement[bool]) -> sa.Update:
    return sa.update(_nodes).where(
        are_named, sa.or_(*(_nodes.c.id == charge["row"] for charge in charges))
    ).values(fullness=_choose(charges, "part"), fullness_of=_choose(charges, "basis"))


def _choose(charges: Sequence[_Values], name: str) -> sa.ColumnElement[Any]:
    """Build the value for the row that a statement changes."""
    if len(charges) == 1:
        return charges[0][name]
    return sa.case(*((_nodes.c.id == charge["row"], charge[name]) for charge in charges))


def _find_or_insert(connection: sa.Connection, node_ids: Sequence[str]) -> dict[str, int]:
    """Return the ids of all rows.

    Only what no SELECT finds is inserted. An INSERT of a row that is there would say nothing: the
    row may be removed before it is read. A new row stays for a day.
    """
    ids = _read_ids(connection, node_ids)
    missing = [node_id for node_id in node_ids if node_id not in ids]
    if missing:
        inserts.insert_missing(connection, _nodes, [
            {"node_id": node_id, "revision": 0} for node_id in missing])
        ids |= _read_ids(connection, missing)
    return ids


def _read_ids(connection: sa.Connection, node_ids: Collection[str]) -> dict[str, int]:
    ids = {row.node_id: row.id for row in connection.execute(_IDS, {"node_ids": node_ids})}
    if connection.dialect.name != "mysql":
        return ids
    # MySQL treats ids that differ in trailing blanks as equal, so they share a row.
    shared = {node_id.rstrip(" "): id_ for node_id, id_ in ids.items()}
    return {node_id: shared[node_id.rstrip(" ")] for node_id in node_ids
            if node_id.rstrip(" ") in shared}
