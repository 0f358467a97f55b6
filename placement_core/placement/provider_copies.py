"""Providers as another Placement has them: read and written whole, generations included.

What is written is not decided here: it was decided where it comes from. So capacities and
allocations are no obstacle, and a generation becomes what it is there, so that clients can go on
with the one that they have seen. ``used`` and ``capacity`` of the inventories are computed here,
as ever.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import Session, TransactionConflict, inserts, lists, texts
from placement_core.db.metadata import utcnow
from placement_core.placement import (
    errors,
    inventories,
    locks,
    lookups,
    resource_classes,
    tables,
    unused_names,
)
from placement_core.placement.records import InventoryValues

K = TypeVar("K")
T = TypeVar("T")

_providers, _inventories, _allocations = (
    tables.resource_providers, tables.inventories, tables.allocations)
_links, _members = tables.resource_provider_traits, tables.resource_provider_aggregates
_classes, _traits, _aggregates = (
    tables.resource_classes, tables.traits, tables.placement_aggregates)
_pooled = tables.pooled_trees

_FIELDS = tuple(field.name for field in dataclasses.fields(InventoryValues))
_WRITTEN = (*_FIELDS, "capacity")
_LONGEST_NAME = 200


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderCopy:
    """A provider, with all that belongs to it but its allocations.

    :ivar inventories: {resource class: values}.
    :ivar created_at: when it was created, naive UTC; None: unknown. Of one that is here, it stays.
    """

    uuid: str
    name: str
    generation: int
    parent_uuid: str | None
    inventories: Mapping[str, InventoryValues]
    traits: Collection[str]
    aggregates: Collection[str]
    created_at: datetime.datetime | None = None


class Sharing(dict[Any, Any]):
    """Makes one object of equal ones: most providers have what others have, too."""

    def share(self, value: T, key: Any = None) -> T:
        """Return the first object that was given with this key.

        :param key: None: the object itself.
        """
        shared: T = self.setdefault(value if key is None else key, value)
        return shared


# Reading ----------------------------------------------------------------------

_parent = _providers.alias("parent")
_ALL_PROVIDERS = sa.select(
    _providers.c.id, _providers.c.uuid, _providers.c.name, _providers.c.generation,
    _parent.c.uuid.label("parent_uuid"),
).outerjoin(_parent, _parent.c.id == _providers.c.parent_provider_id).order_by(_providers.c.id)
_ALL_INVENTORIES = sa.select(
    _inventories.c.resource_provider_id, _classes.c.name,
    *(_inventories.c[name] for name in _FIELDS),
).join(_classes, _classes.c.id == _inventories.c.resource_class_id).order_by(
    _inventories.c.resource_provider_id, _inventories.c.resource_class_id)
_ALL_TRAITS = sa.select(_links.c.resource_provider_id, _traits.c.name).join(
    _traits, _traits.c.id == _links.c.trait_id)
_ALL_MEMBERSHIPS = sa.select(_members.c.resource_provider_id, _aggregates.c.uuid).join(
    _aggregates, _aggregates.c.id == _members.c.aggregate_id)
_OF_ONE = {statement: statement.where(column == sa.bindparam("id")) for statement, column in (
    (_ALL_PROVIDERS, _providers.c.id), (_ALL_INVENTORIES, _inventories.c.resource_provider_id),
    (_ALL_TRAITS, _links.c.resource_provider_id),
    (_ALL_MEMBERSHIPS, _members.c.resource_provider_id))}


@db.retry_writes
def list_all(ctx: Context) -> list[ProviderCopy]:
    """Return all providers, as of one moment."""
    with db.read(ctx) as session:
        return _assemble(*(
            session.execute(statement) for statement in _OF_ONE))


@db.retry_writes
def get(ctx: Context, uuid: str) -> ProviderCopy | None:
    """Return a provider; None: there is none."""
    with db.read(ctx) as session:
        try:
            provider_id = lookups.get_provider(session, uuid).id
        except errors.ProviderNotFound:
            return None
        [copy] = _assemble(*(
            session.execute(statement, {"id": provider_id}) for statement in _OF_ONE.values()))
    return copy


def _assemble(
    providers: Iterable[Any], inventory_rows: Iterable[Any], trait_rows: Iterable[Any],
    membership_rows: Iterable[Any],
) -> list[ProviderCopy]:
    provider_rows = list(providers)
    sharing = Sharing()
    values: dict[int, dict[str, InventoryValues]] = collections.defaultdict(dict)
    for id_, name, *fields in inventory_rows:
        values[id_][name] = sharing.share(InventoryValues(*fields))
    traits, aggregates = gather(trait_rows, sharing), gather(membership_rows, sharing)
    return [
        ProviderCopy(
            row.uuid, row.name, row.generation or 0, row.parent_uuid,
            share_mapping(sharing, values.pop(row.id, {})),
            traits.get(row.id, ()), aggregates.get(row.id, ()))
        for row in provider_rows]


def gather(rows: Iterable[Any], sharing: Sharing) -> dict[int, tuple[str, ...]]:
    """Return the names that rows of (id, name) have by id, in alphabetical order."""
    names: dict[int, list[str]] = collections.defaultdict(list)
    for id_, name in rows:
        names[id_].append(name)
    return {id_: sharing.share(tuple(sorted(each))) for id_, each in names.items()}


def share_mapping(sharing: Sharing, mapping: dict[str, T]) -> dict[str, T]:
    """Return an equal dictionary, which others have, too: nobody may change it."""
    return sharing.share(mapping, ("mapping", *sorted(mapping.items(), key=lambda item: item[0])))


# Writing ----------------------------------------------------------------------

_ROWS = sa.select(
    _providers.c.id, _providers.c.uuid, _providers.c.name, _providers.c.generation,
    _providers.c.parent_provider_id,
    sa.func.coalesce(_providers.c.root_provider_id, _providers.c.id).label("root_id"),
).where(lists.among_many(_providers.c.uuid, "uuids"))
_subtree = sa.select(_providers.c.id).where(lists.among_many(_providers.c.id, "tops")).cte(
    "subtree", recursive=True)
# UNION drops repetitions, so it ends even where there is a loop.
_subtree = _subtree.union(
    sa.select(_providers.c.id).where(_providers.c.parent_provider_id == _subtree.c.id))
_SUBTREE = sa.select(_subtree.c.id)
_IS_POOLED = sa.select(_pooled.c.root_provider_id).where(
    lists.among_many(_pooled.c.root_provider_id, "roots")).limit(1)
_SET_OWN_ROOT = (
    sa.update(_providers).where(lists.among_many(_providers.c.id, "ids"))
    .values(root_provider_id=_providers.c.id, updated_at=None))
_SET_ROOT = (
    sa.update(_providers).where(lists.among_many(_providers.c.id, "ids"))
    .values(root_provider_id=sa.bindparam("root_id")))
_RENAME = (
    sa.update(_providers).where(_providers.c.id == sa.bindparam("of_id"))
    .values(name=sa.bindparam("new_name")))
_SET_ROW = (
    sa.update(_providers).where(_providers.c.id == sa.bindparam("of_id"))
    .values(generation=sa.bindparam("new_generation"), name=sa.bindparam("new_name"),
            parent_provider_id=sa.bindparam("new_parent")))
_NAMES = {
    "class": sa.select(_classes.c.name, _classes.c.id).where(
        lists.among_many(_classes.c.name, "names")),
    "trait": sa.select(_traits.c.name, _traits.c.id).where(
        lists.among_many(_traits.c.name, "names"))}
_PRESENT_INVENTORIES = sa.select(
    _inventories.c.id, _inventories.c.resource_provider_id, _inventories.c.resource_class_id,
    *(_inventories.c[name] for name in _WRITTEN),
).where(lists.among_many(_inventories.c.resource_provider_id, "ids"))
_HELD = (
    sa.select(_allocations.c.resource_provider_id, _allocations.c.resource_class_id,
              sa.func.sum(_allocations.c.used).label("used"))
    .where(lists.among_many(_allocations.c.resource_provider_id, "ids"))
    .group_by(_allocations.c.resource_provider_id, _allocations.c.resource_class_id))
_CHANGE_INVENTORY = (
    sa.update(_inventories).where(_inventories.c.id == sa.bindparam("of_id"))
    .values({name: sa.bindparam(f"new_{name}") for name in _WRITTEN}))
_DELETE_INVENTORIES = sa.delete(_inventories).where(lists.among_many(_inventories.c.id, "ids"))


@db.retry_writes
def write(ctx: Context, copies: Sequence[ProviderCopy]) -> None:
    """Make our providers exactly what they are elsewhere, or none of them.

    Those that are missing are created.

    :param copies: parents before those below them; a parent that is not among them is here.
    :raises errors.DuplicateProvider: a name is taken by another provider.
    :raises errors.ProviderNotCreated: a parent is not there, or no row can have the values.
    :raises errors.ProviderReserved: a move would take it into a pooled tree, or out of one.
    :raises errors.UnknownResourceClass: of an inventory; ``errors.UnknownTraits``: of a trait.
    """
    for copy in copies:
        _check(copy)
    with db.write(ctx) as session:
        _Writer(session, copies).write()


@db.retry_writes
def set_generation(ctx: Context, uuid: str, generation: int, *, seen: int) -> None:
    """Set the generation of a provider, up or down; nothing else of it changes.

    :param seen: the generation that it has.
    :raises errors.ProviderNotFound: it is not there.
    :raises errors.ProviderGenerationConflict: it has another generation.
    """
    with db.write(ctx) as session:
        provider_id = lookups.get_provider(session, uuid).id
        if not locks.lock_at_generation(
                session, provider_id, seen=seen, step=generation - seen):
            raise errors.ProviderGenerationConflict(
                uuid, f"The resource provider {uuid} does not have the generation {seen} here.")


def _check(copy: ProviderCopy) -> None:
    if not lookups.is_provider_uuid(copy.uuid):
        raise errors.ProviderNotCreated(copy.name, copy.uuid, "the UUID is not valid.")
    if not (0 < len(copy.name) <= _LONGEST_NAME and texts.is_storable(copy.name)):
        raise errors.ProviderNotCreated(copy.name, copy.uuid, "no row can have the name.")
    if not 0 <= copy.generation <= locks.LARGEST_INTEGER:
        raise errors.ProviderNotCreated(copy.name, copy.uuid, "no row can have the generation.")


class _Writer:
    """Writes providers in one transaction.

    :ivar ids: {uuid: id} of those that are here.
    """

    def __init__(self, session: Session, copies: Sequence[ProviderCopy]) -> None:
        self._session = session
        self._copies = copies
        self._ids: dict[str, int] = {}
        #: {id: id of the root of its tree}.
        self._roots: dict[int, int] = {}

    def write(self) -> None:
        class_ids, trait_ids, aggregate_ids = self._read_names()
        rows = self._lock()
        try:
            self._make_names_free(rows)
            self._insert([copy for copy in self._copies if copy.uuid not in rows])
            self._update(rows)
            self._session.flush()
        except db_exception.DBDuplicateEntry as error:
            names = ", ".join(copy.name for copy in self._copies[:3])
            raise errors.DuplicateProvider(
                f"name: {names}{', …' if len(self._copies) > 3 else ''}") from error
        self._write_inventories(class_ids)
        self._write_links(_links, "trait_id", {
            (self._ids[copy.uuid], trait_ids[name])
            for copy in self._copies for name in copy.traits})
        self._write_links(_members, "aggregate_id", {
            (self._ids[copy.uuid], aggregate_ids[uuid])
            for copy in self._copies for uuid in copy.aggregates})
        for copy in self._copies:
            self._session.record_change(kinds.PROVIDER, self._ids[copy.uuid])

    def _read_names(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        classes = {name for copy in self._copies for name in copy.inventories}
        traits = {name for copy in self._copies for name in copy.traits}
        aggregates = {uuid for copy in self._copies for uuid in copy.aggregates}
        class_ids = self._find("class", classes)
        for name in sorted(classes - class_ids.keys()):
            raise errors.UnknownResourceClass(name, prefix="Unknown resource class in inventory: ")
        trait_ids = self._find("trait", traits)
        unknown = sorted(traits - trait_ids.keys())
        if unknown:
            raise errors.UnknownTraits(unknown)
        return class_ids, trait_ids, unused_names.find_or_insert(
            self._session.connection, _aggregates.c.uuid, aggregates)

    def _find(self, what: str, names: Collection[str]) -> dict[str, int]:
        if not names:
            return {}
        return {row.name: row.id for row in self._session.execute(
            _NAMES[what], {"names": sorted(names)}) if row.name in names}

    def _lock(self) -> dict[str, Any]:
        """Lock those that are here, their new parents, and all below those that move.

        :returns: {uuid: row} of the providers that are here and to be written.
        """
        uuids = {copy.uuid for copy in self._copies}
        uuids.update(copy.parent_uuid for copy in self._copies if copy.parent_uuid is not None)
        before = self._read(uuids)
        moving = self._list_moving(before)
        locked = {row.id for row in before.values()} | self._read_subtrees(moving)
        locks.lock_providers(self._session, dict.fromkeys(locked, 0))
        rows = self._read(uuids)
        if (rows.keys() != before.keys() or self._list_moving(rows) != moving
                or not self._read_subtrees(moving) <= locked):
            raise TransactionConflict  # another transaction was faster
        self._ids = {uuid: row.id for uuid, row in rows.items()}
        self._roots = {row.id: row.root_id for row in rows.values()}
        return {copy.uuid: rows[copy.uuid] for copy in self._copies if copy.uuid in rows}

    def _read(self, uuids: Collection[str]) -> dict[str, Any]:
        return {row.uuid: row for row in self._session.execute(
            _ROWS, {"uuids": sorted(uuids)}) if row.uuid in uuids}

    def _list_moving(self, rows: Mapping[str, Any]) -> list[int]:
        """Return the ids of those that get another parent."""
        moving = []
        for copy in self._copies:
            row, parent = rows.get(copy.uuid), rows.get(copy.parent_uuid or "")
            if row is not None and (
                    row.parent_provider_id != (parent.id if parent is not None else None)
                    or (copy.parent_uuid is None) != (row.parent_provider_id is None)):
                moving.append(row.id)
        return sorted(moving)

    def _read_subtrees(self, tops: Sequence[int]) -> set[int]:
        return set(self._session.execute(_SUBTREE, {"tops": tops}).scalars()) if tops else set()

    def _make_names_free(self, rows: Mapping[str, Any]) -> None:
        """Give those that are to be renamed names that nobody has: they may swap theirs."""
        renamed = [{"of_id": rows[copy.uuid].id, "new_name": f"{copy.uuid} is being renamed"}
                   for copy in self._copies
                   if copy.uuid in rows and rows[copy.uuid].name != copy.name]
        if len(renamed) > 1 or (renamed and len(rows) < len(self._copies)):
            self._session.execute_write(_RENAME, renamed)

    def _insert(self, copies: Sequence[ProviderCopy]) -> None:
        """Insert new providers, level by level."""
        waiting = list(copies)
        while waiting:
            level = [copy for copy in waiting
                     if copy.parent_uuid is None or copy.parent_uuid in self._ids]
            if not level:
                copy = waiting[0]
                raise errors.ProviderNotCreated(
                    copy.name, copy.uuid, "parent provider UUID does not exist.")
            self._insert_level(level)
            inserted = {copy.uuid for copy in level}
            waiting = [copy for copy in waiting if copy.uuid not in inserted]

    def _insert_level(self, copies: Sequence[ProviderCopy]) -> None:
        rows = []
        for copy in copies:
            parent_id = self._get_parent_id(copy)
            root_id = None if parent_id is None else self._roots[parent_id]
            rows.append({
                "uuid": copy.uuid, "name": copy.name, "generation": copy.generation,
                "revision": 0, "parent_provider_id": parent_id, "root_provider_id": root_id,
                "created_at": copy.created_at})
        inserts.insert_many(self._session, _providers, rows)
        inserted = self._read({copy.uuid for copy in copies})
        tops = []
        for copy in copies:
            row = inserted[copy.uuid]
            self._ids[copy.uuid], self._roots[row.id] = row.id, row.root_id
            if copy.parent_uuid is None:
                tops.append(row.id)
        if tops:
            self._session.execute_write(_SET_OWN_ROOT, {"ids": tops})

    def _get_parent_id(self, copy: ProviderCopy) -> int | None:
        if copy.parent_uuid is None:
            return None
        try:
            return self._ids[copy.parent_uuid]
        except KeyError:
            raise errors.ProviderNotCreated(
                copy.name, copy.uuid, "parent provider UUID does not exist.") from None

    def _update(self, rows: Mapping[str, Any]) -> None:
        """Write the rows of those that were here; move those that have another parent."""
        changed, moved = [], []
        for copy in self._copies:
            row = rows.get(copy.uuid)
            if row is None:
                continue
            parent_id = self._get_parent_id(copy)
            if (row.name, row.generation, row.parent_provider_id) != (
                    copy.name, copy.generation, parent_id):
                changed.append({
                    "of_id": row.id, "new_name": copy.name, "new_parent": parent_id,
                    "new_generation": copy.generation})
            if row.parent_provider_id != parent_id:
                moved.append((row.id, parent_id))
        if changed:
            self._session.execute_write(_SET_ROW, changed)
        for id_, parent_id in moved:
            below = self._read_subtrees([id_])
            if parent_id in below:
                raise errors.ProviderNotCreated(
                    "", str(id_), "creating loop in the provider tree is not allowed.")
            root_id = id_ if parent_id is None else self._roots[parent_id]
            self._refuse_pooled({root_id, self._roots[id_]})
            self._session.execute_write(_SET_ROOT, {"ids": sorted(below), "root_id": root_id})
            self._roots.update(dict.fromkeys(below, root_id))

    def _refuse_pooled(self, roots: Collection[int]) -> None:
        if self._session.execute(_IS_POOLED, {"roots": sorted(roots)}).first():
            raise errors.ProviderReserved(
                "Resource providers can be neither moved into trees that are kept for "
                "reservations nor out of them.")

    def _write_inventories(self, class_ids: Mapping[str, int]) -> None:
        present = {
            (row.resource_provider_id, row.resource_class_id): row
            for row in self._session.execute(_PRESENT_INVENTORIES, {"ids": self._list_ids()})}
        wanted = {
            (self._ids[copy.uuid], class_ids[name]): _make_values(values)
            for copy in self._copies for name, values in copy.inventories.items()}
        new = sorted(wanted.keys() - present.keys())
        resource_classes.lock_classes(self._session, {class_id for _, class_id in new})
        gone = sorted(row.id for cell, row in present.items() if cell not in wanted)
        if gone:
            self._session.execute_write(_DELETE_INVENTORIES, {"ids": gone})
        changed = [
            {"of_id": present[cell].id} | {f"new_{name}": values[name] for name in _WRITTEN}
            for cell, values in wanted.items() if cell in present
            and any(getattr(present[cell], name) != values[name] for name in _WRITTEN)]
        if changed:
            self._session.execute_write(_CHANGE_INVENTORY, changed)
        if new:
            held = self._read_held({provider_id for provider_id, _ in new})
            now = utcnow()
            inserts.insert_many(self._session, _inventories, [
                wanted[cell] | {
                    "resource_provider_id": cell[0], "resource_class_id": cell[1],
                    "used": held.get(cell, 0), "created_at": now}
                for cell in new])

    def _read_held(self, ids: Collection[int]) -> dict[tuple[int, int], int]:
        """Return what is allocated on providers: {(provider id, class id): amount}."""
        return {
            (row.resource_provider_id, row.resource_class_id): int(row.used)
            for row in self._session.execute(_HELD, {"ids": sorted(ids)})}

    def _list_ids(self) -> list[int]:
        return sorted(self._ids[copy.uuid] for copy in self._copies)

    def _write_links(self, table: sa.Table, name: str, wanted: set[tuple[int, int]]) -> None:
        """Make the rows of a table of two ids those that are wanted."""
        provider_id, other = table.c.resource_provider_id, table.c[name]
        present = {tuple(row) for row in self._session.execute(
            sa.select(provider_id, other).where(lists.among_many(provider_id, "ids")),
            {"ids": self._list_ids()})}
        gone, new = sorted(present - wanted), sorted(wanted - present)
        if gone:
            self._session.execute_write(
                sa.delete(table).where(provider_id == sa.bindparam("of_provider"),
                                       other == sa.bindparam("of_other")),
                [{"of_provider": first, "of_other": second} for first, second in gone])
        if not new:
            return
        now = utcnow()
        try:
            inserts.insert_many(self._session, table, [
                {"resource_provider_id": first, name: second, "created_at": now}
                for first, second in new])
            self._session.flush()
        except db_exception.DBReferenceError as error:
            # A trait was removed after we looked: look again.
            raise TransactionConflict from error


def _make_values(values: InventoryValues) -> dict[str, Any]:
    return dataclasses.asdict(values) | {"capacity": inventories.stored_capacity(values)}


def sort_downwards(parents: Mapping[K, K | None]) -> Iterator[K]:
    """Yield providers, each behind its parent; those that are their own ancestors are left out.

    :param parents: {provider: its parent}; a parent that is no key is here already.
    """
    below: dict[K | None, list[K]] = collections.defaultdict(list)
    for provider, parent in parents.items():
        below[parent if parent in parents else None].append(provider)
    waiting = collections.deque(below.pop(None, ()))
    while waiting:
        provider = waiting.popleft()
        yield provider
        waiting.extend(below.pop(provider, ()))
