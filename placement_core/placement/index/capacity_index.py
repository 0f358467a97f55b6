"""Keeps the world of this process as fresh as the database."""

from __future__ import annotations

import dataclasses
import gc
import logging

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import kinds, vector
from placement_core.changes.follower import Follower, Version
from placement_core.context import Context
from placement_core.db.collector import no_garbage_collection
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
#: What has names that the world knows.
_NAMED = (kinds.RESOURCE_CLASS, kinds.TRAIT)

_REVISIONS = sa.select(tables.resource_providers.c.id, tables.resource_providers.c.revision)


class CapacityIndex:
    """Hands out the present world; loads it when it is first asked for.

    Any thread may ask. A process that was forked loads a world of its own.
    """

    def __init__(self, database: Database) -> None:
        self._follower = Follower(database, _refresh)

    def forget(self) -> None:
        """Drop everything; see ``Follower.forget``."""
        self._follower.forget()

    def world(self, ctx: Context) -> World:
        """Return a world with every change that was committed before the call.

        :raises errors.Unavailable: the database does not answer.
        """
        return self._follower.present(ctx).value

    def verify(self, ctx: Context) -> list[int]:
        """Return the ids of providers whose revision the index missed.

        Anything but an empty list is a defect: a write that did not touch
        what it changed.
        """
        world = self.world(ctx)
        revisions, changed = _revisions(self._follower.own_context(ctx), world)
        held = {entry.provider.id: entry.revision for entry in world.entries if entry is not None}
        return sorted(
            id_ for id_ in held.keys() | revisions.keys()
            if id_ not in changed and held.get(id_) != revisions.get(id_))


@dataclasses.dataclass(frozen=True, slots=True)
class _Reading:
    """What one snapshot said; ``before`` None: ``changes`` are all there is."""

    vector: vector.Vector
    names: Names
    changes: dict[int, ProviderRow | None]
    before: World | None


def _refresh(ctx: Context, before: Version[World] | None) -> Version[World]:
    if before is None:
        with no_garbage_collection():
            return _built(_read(ctx, None))
    return _built(_read(ctx, before.value))


def _built(reading: _Reading) -> Version[World]:
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
    return Version(reading.vector, world)


@db.retry_writes
def _read(ctx: Context, before: World | None) -> _Reading:
    with db.read(ctx) as session:
        now = vector.read_current(session)
        changed = None
        if before is not None and before.vector is not None:
            changed = vector.read_changes(session, before.vector, now)
        if before is not None and changed is not None:
            ids = {ref for kind, ref in changed if kind == kinds.PROVIDER}
            if len(ids) <= max(_FEW, _RELOAD_ABOVE * len(before.layout.row_of_id)):
                changes = loader.some_providers(session, ids)
                names = before.names
                named = any(kind in _NAMED for kind, _ in changed)
                if named or not names.cover(changes.values()):
                    names = loader.names(session)
                return _Reading(now, names, changes, before)
        rows = loader.every_provider(session)
        return _Reading(now, loader.names(session), {row.id: row for row in rows}, None)


@db.retry_writes
def _revisions(ctx: Context, world: World) -> tuple[dict[int, int], set[int]]:
    """Return all revisions, and the providers that changed since ``world``."""
    with db.read(ctx) as session:
        revisions = {row.id: row.revision for row in session.execute(_REVISIONS)}
        changed = None if world.vector is None else vector.read_changes(
            session, world.vector, vector.read_current(session))
    if changed is None:
        return revisions, set(revisions)
    return revisions, {ref for kind, ref in changed if kind == kinds.PROVIDER}
