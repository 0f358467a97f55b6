"""Keeps the capacity snapshot of this process current with the database."""

from __future__ import annotations

import dataclasses
import datetime
import gc
import logging

import sqlalchemy as sa

from placement_core import db
from placement_core.changes import kinds, vector
from placement_core.changes.follower import Follower, Version
from placement_core.collector import no_garbage_collection
from placement_core.context import Context
from placement_core.db.database import Database
from placement_core.placement import tables
from placement_core.placement.index import loader
from placement_core.placement.index.records import NameIndex, ProviderRow
from placement_core.placement.index.snapshot import CapacitySnapshot

LOG = logging.getLogger(__name__)

#: Up to this number, changed providers are read by id, whatever the snapshot's size;
#: above it, all providers are read once the changed ones exceed this share of it.
_ALWAYS_BY_ID = 500
_RELOAD_ABOVE = 0.25
#: The kinds of changes that can alter names in the snapshot.
_KINDS_WITH_NAMES = (kinds.RESOURCE_CLASS, kinds.TRAIT)

_REVISIONS = sa.select(tables.resource_providers.c.id, tables.resource_providers.c.revision)


class CapacityIndex:
    """Returns the current snapshot; loads it on first use.

    Any thread may call it. A process that was forked loads a snapshot of its own.
    """

    def __init__(self, database: Database) -> None:
        self._follower = Follower(database, _refresh, "capacity")

    @property
    def newest(self) -> Version[CapacitySnapshot] | None:
        """The newest snapshot, however old; None: there is none yet."""
        return self._follower.known

    @property
    def refreshed_at(self) -> datetime.datetime | None:
        """When something was read into the newest snapshot; None: there is none yet."""
        newest = self._follower.known
        return None if newest is None else newest.made_at

    @property
    def failing_since(self) -> float | None:
        """Return since when it cannot be refreshed; see ``Follower``."""
        return self._follower.failing_since

    def forget(self) -> None:
        """Drop everything; see ``Follower.forget``."""
        self._follower.forget()

    def snapshot(self, ctx: Context) -> CapacitySnapshot:
        """Return a snapshot with every change that was committed before the call.

        :raises errors.Unavailable: the database does not answer.
        """
        return self._follower.present(ctx).value

    def verify(self, ctx: Context) -> list[int]:
        """Return the ids of providers whose revision the index missed.

        Anything but an empty list is a defect: a write that did not touch
        what it changed.
        """
        snapshot = self.snapshot(ctx)
        revisions, changed = _read_revisions(self._follower.own_context(ctx), snapshot)
        indexed = {entry.provider.id: entry.revision
                   for entry in snapshot.entries if entry is not None}
        return sorted(
            id_ for id_ in indexed.keys() | revisions.keys()
            if id_ not in changed and indexed.get(id_) != revisions.get(id_))


@dataclasses.dataclass(frozen=True, slots=True)
class _IndexRead:
    """What one read transaction returned; ``before`` None: ``changes`` has all providers."""

    vector: vector.Vector
    names: NameIndex
    changes: dict[int, ProviderRow | None]
    before: CapacitySnapshot | None


def _refresh(ctx: Context, before: Version[CapacitySnapshot] | None) -> Version[CapacitySnapshot]:
    if before is None:
        with no_garbage_collection():
            return _build_version(_read(ctx, None))
    return _build_version(_read(ctx, before.value))


def _build_version(reading: _IndexRead) -> Version[CapacitySnapshot]:
    if reading.before is None:
        LOG.info("loading the capacity index: %d providers", len(reading.changes))
        snapshot = CapacitySnapshot.build(
            (row for row in reading.changes.values() if row is not None),
            reading.names, reading.vector)
        # Spare the garbage collector repeated visits to the snapshot: its objects
        # form no cycles, so reference counts free them.
        gc.freeze()
    else:
        snapshot = reading.before.apply_changes(reading.changes, reading.names, reading.vector)
    return Version(reading.vector, snapshot)


@db.retry_writes
def _read(ctx: Context, before: CapacitySnapshot | None) -> _IndexRead:
    with db.read(ctx) as session:
        if before is None or before.vector is None:
            now, changed = vector.read_current(session), None
        else:
            now, changed = vector.follow_in(session, before.vector)
        if before is not None and changed is not None:
            ids = {ref for kind, ref in changed if kind == kinds.PROVIDER}
            if len(ids) <= max(_ALWAYS_BY_ID, _RELOAD_ABOVE * len(before.layout.row_of_id)):
                changes = loader.load_providers(session, ids)
                names = before.names
                names_changed = any(kind in _KINDS_WITH_NAMES for kind, _ in changed)
                if names_changed or not names.covers(changes.values()):
                    names = loader.load_names(session)
                return _IndexRead(now, names, changes, before)
        rows = loader.load_all_providers(session)
        return _IndexRead(now, loader.load_names(session), {row.id: row for row in rows}, None)


@db.retry_writes
def _read_revisions(ctx: Context, snapshot: CapacitySnapshot) -> tuple[dict[int, int], set[int]]:
    """Return all revisions, and the providers that changed since ``snapshot``."""
    with db.read(ctx) as session:
        revisions = {row.id: row.revision for row in session.execute(_REVISIONS)}
        changed = None if snapshot.vector is None else vector.read_changes(
            session, snapshot.vector, vector.read_current(session))
    if changed is None:
        return revisions, set(revisions)
    return revisions, {ref for kind, ref in changed if kind == kinds.PROVIDER}
