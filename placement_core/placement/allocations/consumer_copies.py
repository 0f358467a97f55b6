"""Consumers as another Placement has them: read and written whole, generations included.

What is written is not decided here: it was decided where it comes from. So neither inventories
nor quota refuse it, and the generations of providers stay. All sums are kept, as ever.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.context import Context
from placement_core.db import Session, TransactionConflict, inserts, lists, texts
from placement_core.placement import errors, locks, records, tables, unused_names
from placement_core.placement.allocations import (
    applying,
    consumers,
    loaded,
    moves,
    plan,
    refusals,
    usage_counters,
)
from placement_core.placement.allocations.owners import TABLES, Owners, normalize_owners

_consumers, _allocations = tables.consumers, tables.allocations
_projects, _users, _types = tables.projects, tables.users, tables.consumer_types


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerCopy:
    """A consumer, with all that it holds.

    :ivar allocations: {provider uuid: {resource class: amount}}; empty: it is to be no more.
    :ivar created_at: when it was created, naive UTC; None: unknown. Of one that is here, it stays.
    """

    uuid: str
    project_id: str
    user_id: str
    consumer_type: str | None
    generation: int
    allocations: Mapping[str, Mapping[str, int]]
    created_at: datetime.datetime | None = None


# Reading ----------------------------------------------------------------------

_HELD = sa.select(
    _allocations.c.consumer_id, _allocations.c.resource_provider_id,
    _allocations.c.resource_class_id, _allocations.c.used)
_OWNED = (
    sa.select(_consumers.c.uuid, _projects.c.external_id.label("project_id"),
              _users.c.external_id.label("user_id"), _types.c.name.label("consumer_type"),
              _consumers.c.generation)
    .outerjoin(_projects, _projects.c.id == _consumers.c.project_id)
    .outerjoin(_users, _users.c.id == _consumers.c.user_id)
    .outerjoin(_types, _types.c.id == _consumers.c.consumer_type_id)
    .order_by(_consumers.c.id))
_UUIDS = sa.select(tables.resource_providers.c.id, tables.resource_providers.c.uuid)
_CLASSES = sa.select(tables.resource_classes.c.id, tables.resource_classes.c.name)
_FETCHED_AT_ONCE = 5000


@db.retry_writes
def list_all(ctx: Context, owners: Owners | None = None) -> list[ConsumerCopy]:
    """Return all consumers that hold something, as of one moment.

    :param owners: of those without a record; None: none are configured.
    """
    with db.read(ctx) as session:
        return _read(session, owners or Owners(), _OWNED, _HELD, {})


@db.retry_writes
def get(ctx: Context, uuid: str, owners: Owners | None = None) -> ConsumerCopy | None:
    """Return a consumer; None: it holds nothing.

    :param owners: as in ``list_all``.
    """
    if not consumers.is_consumer_uuid(uuid):
        return None
    with db.read(ctx) as session:
        copies = _read(
            session, owners or Owners(), _OWNED.where(_consumers.c.uuid == sa.bindparam("of")),
            _HELD.where(_allocations.c.consumer_id == sa.bindparam("of")), {"of": uuid})
    return copies[0] if copies else None


def _read(
    session: Session, owners: Owners, owned: sa.Select[Any], held: sa.Select[Any],
    parameters: Mapping[str, str],
) -> list[ConsumerCopy]:
    providers = {row.id: row.uuid for row in session.execute(_UUIDS)}
    classes = {row.id: row.name for row in session.execute(_CLASSES)}
    holdings = Holdings()
    for rows in session.execute(held, parameters).partitions(_FETCHED_AT_ONCE):
        for row in rows:
            consumer_uuid, provider_id, class_id, used = tuple(row)
            if provider_id in providers and class_id in classes:
                holdings.add(consumer_uuid, providers[provider_id], classes[class_id], used)
    project_id, user_id = owners.incomplete
    copies = []
    for row in session.execute(owned, parameters):
        allocations = holdings.pop(row.uuid)
        if allocations:
            copies.append(ConsumerCopy(
                row.uuid, row.project_id or project_id, row.user_id or user_id,
                row.consumer_type, row.generation, allocations))
    copies += [
        ConsumerCopy(uuid, project_id, user_id, None, 0, holdings.pop(uuid))
        for uuid in holdings.list_consumers()]
    return copies


class Holdings:
    """Collects allocations by consumer; equal ones become one object."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, dict[str, int]]] = {}
        self._shared: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}

    def add(self, consumer_uuid: str, provider_uuid: str, resource_class: str, used: int) -> None:
        """Add an allocation, to what is held of the same already."""
        amounts = self._held.setdefault(consumer_uuid, {}).setdefault(provider_uuid, {})
        amounts[resource_class] = amounts.get(resource_class, 0) + used

    def pop(self, consumer_uuid: str) -> dict[str, dict[str, int]]:
        """Return what a consumer holds, and forget it; nobody may change it."""
        return {
            provider: self._shared.setdefault(tuple(sorted(amounts.items())), amounts)
            for provider, amounts in self._held.pop(consumer_uuid, {}).items()}

    def list_consumers(self) -> list[str]:
        """Return the consumers that are not forgotten."""
        return sorted(self._held)


# Writing ----------------------------------------------------------------------

_PRESENT = sa.select(
    _consumers.c.uuid, _consumers.c.consumer_type_id,
).where(lists.among_many(_consumers.c.uuid, "uuids"))
_SET_GENERATION = (
    sa.update(_consumers).where(_consumers.c.uuid == sa.bindparam("of_uuid"))
    .values(generation=sa.bindparam("new_generation")))


@db.retry_writes
def write(ctx: Context, copies: Sequence[ConsumerCopy]) -> None:
    """Make our consumers exactly what they are elsewhere, or none of them.

    Those that are missing are created, those that hold nothing are deleted.

    :raises errors.AllocationForUnknownProvider: one of their providers is not there.
    :raises errors.UnknownResourceClass: one of their resource classes is not there.
    :raises errors.MalformedConsumer, errors.InvalidOwner: no row can have a value.
    """
    for copy in copies:
        _check(copy)
    with db.write(ctx) as session:
        # Who lets go of its type is written anew: elsewhere, a type is never taken away.
        present = _lock(session, copies)
        untyped = [
            dataclasses.replace(copy, allocations={}) for copy in copies
            if copy.allocations and copy.consumer_type is None
            and present.get(copy.uuid, None) is not None]
        now = None
        if untyped:
            now = _write_locked(ctx, session, untyped, {copy.uuid for copy in untyped})
        existed = present.keys() - {copy.uuid for copy in untyped}
        _insert(session, [
            copy for copy in copies if copy.allocations and copy.uuid not in existed])
        _write_locked(ctx, session, copies, existed, now)


def _check(copy: ConsumerCopy) -> None:
    if not consumers.is_consumer_uuid(copy.uuid):
        raise errors.MalformedConsumer(copy.uuid)
    for owner in (copy.project_id, copy.user_id, copy.consumer_type or ""):
        if not texts.is_storable(owner):
            raise errors.InvalidOwner(owner)


def _lock(session: Session, copies: Sequence[ConsumerCopy]) -> dict[str, int | None]:
    """Lock the rows of consumers that are here, and set their generations.

    :returns: {uuid: the id of its type} of those.
    """
    uuids = {copy.uuid for copy in copies}
    present = {row.uuid: row.consumer_type_id for row in session.execute(
        _PRESENT, {"uuids": sorted(uuids)}) if row.uuid in uuids}
    generations = [
        {"of_uuid": copy.uuid, "new_generation": copy.generation}
        for copy in sorted(copies, key=lambda copy: copy.uuid) if copy.uuid in present]
    if generations and session.execute_write(_SET_GENERATION, generations) != len(generations):
        raise TransactionConflict  # one was deleted since
    return present


def _insert(session: Session, copies: Sequence[ConsumerCopy]) -> None:
    if not copies:
        return
    ids, dialect = _find_owners(session, copies), session.dialect
    try:
        inserts.insert_many(session, _consumers, [
            {"uuid": copy.uuid,
             "project_id": ids["projects"][texts.strip_padding(dialect, copy.project_id)],
             "user_id": ids["users"][texts.strip_padding(dialect, copy.user_id)],
             "consumer_type_id": ids["types"].get(copy.consumer_type or ""),
             "generation": copy.generation, "created_at": copy.created_at}
            for copy in copies])
        session.flush()
    except db_exception.DBDuplicateEntry:
        raise TransactionConflict from None  # another transaction has inserted one


def _find_owners(
    session: Session, copies: Iterable[ConsumerCopy]
) -> dict[str, dict[str, int]]:
    """Insert the missing rows of owners; return {kind of owner: {name without padding: id}}."""
    names: dict[str, set[str]] = {kind: set() for kind in TABLES}
    for copy in copies:
        names["projects"].add(copy.project_id)
        names["users"].add(copy.user_id)
        if copy.consumer_type is not None:
            names["types"].add(copy.consumer_type)
    return {
        kind: {texts.strip_padding(session.dialect, name): id_
               for name, id_ in unused_names.find_or_insert(
                   session.connection, TABLES[kind][1], names[kind]).items()}
        for kind in TABLES}


def _write_locked(
    ctx: Context, session: Session, copies: Sequence[ConsumerCopy], existed: Collection[str],
    now: datetime.datetime | None = None,
) -> datetime.datetime:
    """Write what consumers hold whose rows were locked or inserted; return the time of that.

    :param now: that of a write that this one completes.
    """
    holders = [copy for copy in copies if copy.uuid in existed and copy.allocations]
    if holders:
        _find_owners(session, holders)
    writes = normalize_owners(ctx, [
        records.AllocationWrite(
            copy.uuid, copy.allocations, copy.project_id, copy.user_id, copy.consumer_type)
        for copy in copies])
    rows = loaded.read(session, writes, existed=bool(existed))
    refusals.check_providers(writes, rows)
    refusals.check_classes(writes, rows)
    loaded.lock_pairs(session, rows, writes)
    planned = plan.plan_writes(writes, rows, set(existed), raise_generations=False)
    now = now or rows.now
    applying.write_allocations(session, planned, now)
    locks.lock_providers_later(session, planned.steps)
    applying.shift_used(session, planned)
    moves.write_pairs(session, planned.pairs)
    usage_counters.add(ctx, session, planned.counters, slots=1)
    return now
