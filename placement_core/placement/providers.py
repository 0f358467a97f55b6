"""Resource providers and the trees they form.

The root's id is kept in every row of a tree. A row's parent and root change
only under the row's lock, and moving a subtree takes every row of it and the
new parent; so whoever holds a provider's row can trust its parent and root.
Source: spec placement_api §3.2 and §3.3.
"""

from __future__ import annotations

import enum
import uuid as uuids
from collections.abc import Collection, Sequence
from typing import Any, Final

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import PreparedRead, Session, failures, lists, texts
from placement_core.placement import errors, locks, lookups, tables
from placement_core.placement.records import Provider

_providers = tables.resource_providers


class _Keep(enum.Enum):
    KEEP = enum.auto()


#: As ``parent_uuid``: the parent stays what it is.
KEEP: Final = _Keep.KEEP

_LONGEST_NAME = 200

_UNKNOWN_PARENT = "parent provider UUID does not exist."
_OWN_PARENT = ("parent provider UUID cannot be same as UUID. "
               "Please set parent provider UUID to None if there is no parent.")
_LOOP = "creating loop in the provider tree is not allowed."
_NO_REPARENTING = "re-parenting a provider is not currently allowed."
_NO_UNPARENTING = "un-parenting a provider is not currently allowed."
_BAD_UUID = "the UUID is not valid."
_BAD_NAME = f"the name must be text of 1 to {_LONGEST_NAME} characters, without NUL."

_root = _providers.alias("root")
_parent = _providers.alias("parent")
_RECORDS = sa.select(
    _providers.c.id, _providers.c.uuid, _providers.c.name, _providers.c.generation,
    # Old databases have roots that do not say that they are their own root.
    sa.func.coalesce(_root.c.uuid, _providers.c.uuid).label("root_uuid"),
    _parent.c.uuid.label("parent_uuid"),
    _providers.c.created_at, _providers.c.updated_at,
).select_from(
    _providers
    .outerjoin(_root, _root.c.id == _providers.c.root_provider_id)
    .outerjoin(_parent, _parent.c.id == _providers.c.parent_provider_id)
)
_RECORD_BY_UUID = PreparedRead(_RECORDS.where(_providers.c.uuid == sa.bindparam("uuid")))
_NAMES = sa.select(_providers.c.uuid, _providers.c.name).where(
    lists.among_many(_providers.c.uuid, "uuids"))
_RECORD_BY_ID = _RECORDS.where(_providers.c.id == sa.bindparam("id"))

_PLACE = sa.select(
    _providers.c.parent_provider_id,
    sa.func.coalesce(_providers.c.root_provider_id, _providers.c.id).label("root_provider_id"),
).where(_providers.c.id == sa.bindparam("id"))

_subtree = sa.select(_providers.c.id).where(_providers.c.id == sa.bindparam("top")).cte(
    "subtree", recursive=True)
# UNION drops repetitions, so it ends even where an old database has a loop.
_subtree = _subtree.union(
    sa.select(_providers.c.id).where(_providers.c.parent_provider_id == _subtree.c.id))
_SUBTREE = sa.select(_subtree.c.id)

_INSERT = sa.insert(_providers)
_SET_OWN_ROOT = (
    sa.update(_providers).where(_providers.c.id == sa.bindparam("new_id"))
    .values(root_provider_id=_providers.c.id, updated_at=None)
)
_RENAME = (
    sa.update(_providers).where(_providers.c.id == sa.bindparam("of_id"))
    .values(name=sa.bindparam("new_name"))
)
_SET_PARENT = (
    sa.update(_providers).where(_providers.c.id == sa.bindparam("of_id"))
    .values(parent_provider_id=sa.bindparam("parent_id"))
)
_SET_ROOT = (
    sa.update(_providers).where(_providers.c.id == sa.bindparam("of_id"))
    .values(root_provider_id=sa.bindparam("root_id"))
)
_CHILD = (
    sa.select(_providers.c.id).where(_providers.c.parent_provider_id == sa.bindparam("id"))
    .limit(1)
)
_KEPT = sa.select(tables.pooled_trees.c.root_provider_id).where(
    tables.pooled_trees.c.root_provider_id.in_(sa.bindparam("roots", expanding=True))).limit(1)
_ALLOCATION = (
    sa.select(tables.allocations.c.id)
    .where(tables.allocations.c.resource_provider_id == sa.bindparam("id")).limit(1)
)
# InnoDB may refuse to remove a row that refers to itself.
_CLEAR_ROOT = (
    sa.update(_providers).where(_providers.c.id == sa.bindparam("of_id"))
    .values(root_provider_id=None)
)
_DELETE_BELONGINGS = tuple(
    sa.delete(table).where(table.c.resource_provider_id == sa.bindparam("of_id"))
    for table in (tables.inventories, tables.resource_provider_traits,
                  tables.resource_provider_aggregates)
)
_DELETE = sa.delete(_providers).where(_providers.c.id == sa.bindparam("of_id"))


@db.retry_writes
def create(
    ctx: Context, *, name: str, uuid: str | None = None, parent_uuid: str | None = None,
) -> Provider:
    """Create a provider, as a root or below a parent.

    :param uuid: any spelling of a uuid; a random one if None.
    :raises errors.DuplicateProvider: name or uuid is taken.
    :raises errors.ProviderNotCreated: parent unknown, or the provider itself.
    """
    try:
        uuid = str(uuids.UUID(uuid)) if uuid else str(uuids.uuid4())
    except ValueError:
        raise errors.ProviderNotCreated(name, uuid or "", _BAD_UUID) from None
    if not _is_name(name):
        raise errors.ProviderNotCreated(name, uuid, _BAD_NAME)
    with db.write(ctx) as session:
        parent_id = root_id = None
        if parent_uuid is not None:
            parent_uuid = _normalize_uuid(parent_uuid)
            if parent_uuid == uuid:
                raise errors.ProviderNotCreated(name, uuid, _OWN_PARENT)
            parent_id = _find_parent(session, parent_uuid)
            if parent_id is None:
                raise errors.ProviderNotCreated(name, uuid, _UNKNOWN_PARENT)
            # From here on the parent is neither removed nor moved.
            locks.lock_providers(session, {parent_id: 0})
            root_id = session.execute(_PLACE, {"id": parent_id}).one().root_provider_id
        try:
            result = session.execute(_INSERT, {
                "uuid": uuid, "name": name, "generation": 0, "revision": 0,
                "parent_provider_id": parent_id, "root_provider_id": root_id})
        except db_exception.DBDuplicateEntry as error:
            taken_uuid = any("uuid" in column for column in error.columns or ())
            raise errors.DuplicateProvider(
                f"uuid: {uuid}" if taken_uuid else f"name: {name}") from error
        provider_id: int = result.inserted_primary_key[0]  # type: ignore[index]  # never None
        if root_id is None:
            session.execute(_SET_OWN_ROOT, {"new_id": provider_id})
        session.record_change(kinds.PROVIDER, provider_id)
        return _make_record(session.execute(_RECORD_BY_ID, {"id": provider_id}).one())


@db.retry_writes
def get(ctx: Context, uuid: str) -> Provider:
    """Return a provider.

    :raises errors.ProviderNotFound: none has exactly this uuid.
    """
    if lookups.is_provider_uuid(uuid):
        provider_rows = _RECORD_BY_UUID.fetch(ctx, {"uuid": uuid})
        if provider_rows and provider_rows[0].uuid == uuid:
            return _make_record(provider_rows[0])
    raise errors.ProviderNotFound(uuid)


@db.retry_writes
def get_names(ctx: Context, uuids: Collection[str]) -> dict[str, str]:
    """Return {uuid: name} of the providers that there are among these."""
    with db.read(ctx) as session:
        return {row.uuid: row.name for row in session.execute(
            _NAMES, {"uuids": [uuid for uuid in uuids if texts.is_storable(uuid)]})}


@db.retry_writes
def update(
    ctx: Context, uuid: str, *, name: str, parent_uuid: str | _Keep | None = KEEP,
    allow_reparenting: bool,
) -> Provider:
    """Rename a provider, and move it with its subtree if asked to.

    :param parent_uuid: the new parent; None makes it a root.
    :param allow_reparenting: False: only a provider without parent may get one.
    :raises errors.ProviderNotFound: no such provider.
    :raises errors.DuplicateProvider: the name is taken.
    :raises errors.ProviderNotSaved: the parent is unknown, below the provider,
        or not to be changed.
    :raises errors.ProviderReserved: its tree, or the one that it shall join, is pooled.
    """
    with db.write(ctx) as session:
        row = lookups.get_provider(session, uuid)
        if not _is_name(name):
            raise errors.ProviderNotSaved(uuid, _BAD_NAME)
        if parent_uuid is KEEP:
            locks.lock_providers(session, {row.id: 0})
        else:
            _put_below(session, row, parent_uuid, allow_reparenting)
        try:
            session.execute(_RENAME, {"of_id": row.id, "new_name": name})
        except db_exception.DBDuplicateEntry as error:
            raise errors.DuplicateProvider(name) from error
        return _make_record(session.execute(_RECORD_BY_ID, {"id": row.id}).one())


@db.retry_writes
def delete(ctx: Context, uuid: str) -> None:
    """Remove a provider with its inventories, traits and aggregate memberships.

    :raises errors.ProviderNotFound: no such provider.
    :raises errors.ProviderHasChildren: others are below it.
    :raises errors.ProviderInUse: it has allocations.
    :raises errors.ProviderReserved: it is the root of a pooled tree, or protected in one.
    """
    with db.write(ctx) as session:
        row = lookups.get_provider(session, uuid, purpose="for delete")
        # Children, allocations and everything else of a provider are only
        # written under this lock, so none can arrive after we looked.
        locks.lock_providers(session, {row.id: 0})
        if session.execute(_CHILD, {"id": row.id}).first():
            raise errors.ProviderHasChildren(uuid)
        if session.execute(_ALLOCATION, {"id": row.id}).first():
            raise errors.ProviderInUse(uuid)
        _require_not_kept(session, uuid, {row.id})
        try:
            for statement in (*_DELETE_BELONGINGS, _CLEAR_ROOT, _DELETE):
                session.execute(statement, {"of_id": row.id})
            session.record_change(kinds.PROVIDER, row.id, uuid=row.uuid, name=row.name or "")
        except db_exception.DBReferenceError as error:
            # Old databases may have providers elsewhere that call it their root.
            raise errors.ProviderHasChildren(uuid) from error


def _put_below(
    session: Session, row: sa.Row[Any], parent_uuid: str | None, allow_reparenting: bool,
) -> None:
    """Take the rows that the move needs, and move the subtree of ``row``."""
    parent_id = None
    if parent_uuid is not None:
        parent_id = _find_parent(session, _normalize_uuid(parent_uuid))
        if parent_id is None:
            raise errors.ProviderNotSaved(row.uuid, _UNKNOWN_PARENT)
    moves = parent_id != row.parent_provider_id
    subtree = set(session.execute(_SUBTREE, {"top": row.id}).scalars()) if moves else {row.id}
    held = subtree if parent_id is None or not moves else subtree | {parent_id}
    locks.lock_providers(session, dict.fromkeys(held, 0))

    # Nothing joins or leaves the subtree now, for that takes a row we hold: the
    # parent of what joins, or all of the part that leaves. What did so before
    # we held them makes us begin again; taking more rows out of order could
    # deadlock.
    present = session.execute(_PLACE, {"id": row.id}).one()
    if present.parent_provider_id != row.parent_provider_id:
        raise failures.TransactionConflict
    if not moves:
        return
    if set(session.execute(_SUBTREE, {"top": row.id}).scalars()) != subtree:
        raise failures.TransactionConflict

    if present.parent_provider_id is not None and not allow_reparenting:
        raise errors.ProviderNotSaved(
            row.uuid, _NO_UNPARENTING if parent_id is None else _NO_REPARENTING)
    if parent_id in subtree:
        raise errors.ProviderNotSaved(row.uuid, _LOOP)
    root_id = row.id
    if parent_id is not None:
        root_id = session.execute(_PLACE, {"id": parent_id}).one().root_provider_id
    _require_not_kept(session, row.uuid, {present.root_provider_id, root_id})
    session.execute(_SET_PARENT, {"of_id": row.id, "parent_id": parent_id})
    session.execute(_SET_ROOT, [{"of_id": key, "root_id": root_id} for key in sorted(subtree)])


def _require_not_kept(session: Session, uuid: str, roots: Collection[int]) -> None:
    """Refuse what would take providers into a pooled tree, or out of one.

    :param roots: or a provider that may be protected in a pooled tree.
    :raises errors.ProviderReserved: one of the trees is pooled.
    """
    if session.execute(_KEPT, {"roots": sorted(roots)}).first():
        raise errors.ProviderReserved(
            f"Resource provider {uuid} can be neither deleted nor moved: its tree, or the one "
            "that it would join, is kept for reservations.")


def _find_parent(session: Session, uuid: str) -> int | None:
    try:
        parent_id: int = lookups.get_provider(session, uuid).id
        return parent_id
    except errors.ProviderNotFound:
        return None


def _normalize_uuid(uuid: str) -> str:
    """Return the spelling of ``uuid`` that providers have; anything else as it is."""
    try:
        return str(uuids.UUID(uuid))
    except ValueError:
        return uuid


def _is_name(name: str) -> bool:
    return 0 < len(name) <= _LONGEST_NAME and texts.is_storable(name)


def _make_record(row: Sequence[Any]) -> Provider:
    return Provider(*row)
