"""Keeps the world of this process as fresh as the database."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import logging
import os
import threading
import weakref
from collections.abc import Iterator

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import kinds, vector
from placement_core.context import Context
from placement_core.db.database import Database
from placement_core.placement import tables
from placement_core.placement.index import loader
from placement_core.placement.index.rows import Names, ProviderRow
from placement_core.placement.index.world import World

LOG = logging.getLogger(__name__)

#: Up to so many changed providers are read by id, whatever the world's size;
#: above, all are read once they are more than this share of it.
_FEW = 500
_RELOAD_ABOVE = 0.25

_REVISIONS = sa.select(tables.resource_providers.c.id, tables.resource_providers.c.revision)


class CapacityIndex:
    """Hands out the present world; loads it when it is first asked for.

    Any thread may ask. A process that was forked loads a world of its own.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.forget()
        _INDEXES.add(self)

    def forget(self) -> None:
        """Drop everything; the next question loads it again.

        Not for a thread that shares the index with others: it renews the lock.
        """
        self._condition = threading.Condition()
        self._known: _Known | None = None
        self._refreshing = False
        self._started = 0
        self._finished = 0

    def world(self, ctx: Context) -> World:
        """Return a world with every change that was committed before the call.

        Asks the database one question in a statement of its own, never in the
        caller's transaction: what that has not committed is not in the world.

        :raises errors.Unavailable: the database does not answer.
        """
        started_before = self._started
        digest = _digest(_own_context(ctx, self._database))
        known = self._known
        if known is not None and known.digest == digest:
            return known.world
        return self._refreshed(ctx, digest, started_before)

    def verify(self, ctx: Context) -> list[int]:
        """Return the ids of providers whose revision the index missed.

        Anything but an empty list is a defect: a write that did not touch
        what it changed.
        """
        world = self.world(ctx)
        revisions, changed = _revisions(_own_context(ctx, self._database), world)
        held = {entry.provider.id: entry.revision for entry in world.entries if entry is not None}
        return sorted(
            id_ for id_ in held.keys() | revisions.keys()
            if id_ not in changed and held.get(id_) != revisions.get(id_))

    def _refreshed(self, ctx: Context, digest: tuple[int, int], started_before: int) -> World:
        """Load what changed, or share a load that started after the caller came.

        :param digest: what the caller was told; a world with just this digest
            will do, whenever its load started.
        :param started_before: how many loads had started when the caller came.
        """
        with self._condition:
            while True:
                known = self._known
                if known is not None and (
                        known.digest == digest or self._finished > started_before):
                    return known.world
                if not self._refreshing:
                    break
                self._condition.wait()
            self._refreshing = True
            self._started += 1
            number = self._started
        try:
            fresh = _refresh(_own_context(ctx, self._database), known.world if known else None)
            with self._condition:
                self._known, self._finished = fresh, number
        finally:
            with self._condition:
                self._refreshing = False
                self._condition.notify_all()
        return fresh.world


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    digest: tuple[int, int]
    world: World


@dataclasses.dataclass(frozen=True, slots=True)
class _Reading:
    """What one snapshot said; ``before`` None: ``changes`` are all there is."""

    vector: vector.Vector
    names: Names
    changes: dict[int, ProviderRow | None]
    before: World | None


def _own_context(ctx: Context, database: Database) -> Context:
    return Context(database, ctx.identity, ctx.request_id)


@db.retry_writes
def _digest(ctx: Context) -> tuple[int, int]:
    with ctx.database.autocommit.connect() as connection:
        return vector.digest(connection)


def _refresh(ctx: Context, before: World | None) -> _Known:
    if before is None:
        with _no_garbage_collection():
            return _built(_read(ctx, before))
    return _built(_read(ctx, before))


def _built(reading: _Reading) -> _Known:
    if reading.before is None:
        LOG.info("loading the capacity index: %d providers", len(reading.changes))
        world = World.build(
            (row for row in reading.changes.values() if row is not None),
            reading.names, reading.vector)
        # The garbage collector need not visit the world again and again; what
        # is in it has no cycles and goes by itself.
        gc.freeze()
    else:
        world = reading.before.changed(reading.changes, reading.names, reading.vector)
    return _Known(reading.vector.digest, world)


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Let the collector rest while millions of objects are made that all stay.

    It would look through all of them each time their number has grown by a
    quarter, and find nothing: a third of a load.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@db.retry_writes
def _read(ctx: Context, before: World | None) -> _Reading:
    with db.read(ctx) as session:
        now = vector.current(session)
        changed = None
        if before is not None and before.vector is not None:
            changed = vector.since(session, before.vector, now)
        if before is not None and changed is not None:
            ids = {ref for kind, ref in changed if kind == kinds.PROVIDER}
            if len(ids) <= max(_FEW, _RELOAD_ABOVE * len(before.layout.row_of_id)):
                changes = loader.some_providers(session, ids)
                names = before.names
                if len(changed) > len(ids) or not names.cover(changes.values()):
                    names = loader.names(session)
                return _Reading(now, names, changes, before)
        rows = loader.every_provider(session)
        return _Reading(now, loader.names(session), {row.id: row for row in rows}, None)


@db.retry_writes
def _revisions(ctx: Context, world: World) -> tuple[dict[int, int], set[int]]:
    """Return all revisions, and the providers that changed since ``world``."""
    with db.read(ctx) as session:
        revisions = {row.id: row.revision for row in session.execute(_REVISIONS)}
        changed = None if world.vector is None else vector.since(
            session, world.vector, vector.current(session))
    if changed is None:
        return revisions, set(revisions)
    return revisions, {ref for kind, ref in changed if kind == kinds.PROVIDER}


_INDEXES: weakref.WeakSet[CapacityIndex] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for index in list(_INDEXES):
        index.forget()


os.register_at_fork(after_in_child=_forget_after_fork)
