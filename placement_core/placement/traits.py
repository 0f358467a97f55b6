"""Traits, and which provider has which.

A trait that is just being attached cannot be removed: the association has a
foreign key, on every database but SQLite, where writers take turns anyway. So
traits need no lock of ours.
Source: spec placement_api §3.8.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import PreparedRead, Session, failures, inserts
from placement_core.db.metadata import utcnow
from placement_core.placement import errors, locks, lookups, tables
from placement_core.placement.records import Named, ProviderTraits

_CUSTOM_NAME = re.compile(r"CUSTOM_[A-Z0-9_]+")
_NAME = re.compile(r"[A-Z0-9_]+")
_LONGEST_NAME = 255
#: From this many names on, reading all traits is one short statement.
_MANY = 200

_traits = tables.traits
_links = tables.resource_provider_traits
_providers = tables.resource_providers

_ALL = sa.select(
    _traits.c.id, _traits.c.name, _traits.c.created_at, _traits.c.updated_at,
).order_by(_traits.c.name)
_BY_NAME = _ALL.where(_traits.c.name == sa.bindparam("name"))
_BY_NAMES = _ALL.where(_traits.c.name.in_(sa.bindparam("names", expanding=True)))
_DELETE = sa.delete(_traits).where(_traits.c.id == sa.bindparam("trait_id"))
_LINK = sa.select(_links.c.trait_id).where(_links.c.trait_id == sa.bindparam("trait_id")).limit(1)
_LINKED = sa.exists().where(_links.c.trait_id == _traits.c.id)

_OF_PROVIDER = PreparedRead(
    sa.select(_providers.c.uuid, _providers.c.generation, _traits.c.name,
              _traits.c.created_at, _traits.c.updated_at)
    .select_from(
        _providers
        .outerjoin(_links, _links.c.resource_provider_id == _providers.c.id)
        .outerjoin(_traits, _traits.c.id == _links.c.trait_id))
    .where(_providers.c.uuid == sa.bindparam("uuid"))
    .order_by(_traits.c.name)
)
_LINKS_OF_PROVIDER = sa.select(_links.c.trait_id).where(
    _links.c.resource_provider_id == sa.bindparam("provider_id"))
_ADD = sa.insert(_links)
_REMOVE = sa.delete(_links).where(
    _links.c.resource_provider_id == sa.bindparam("provider_id"),
    _links.c.trait_id.in_(sa.bindparam("trait_ids", expanding=True)))


@db.retry_writes
def list_(
    ctx: Context, *, names: Collection[str] | None = None, prefix: str | None = None,
    associated: bool | None = None,
) -> list[Named]:
    """Return the traits that pass every filter that is given, by name.

    :param names: only these; names that do not exist are no error.
    :param prefix: how names begin, to the letter.
    :param associated: True: some provider has it; False: none has.
    """
    statement = _ALL
    if associated is not None:
        statement = statement.where(_LINKED if associated else ~_LINKED)
    if prefix is not None:
        if prefix and not _is_name(prefix):
            return []
        statement = statement.where(_traits.c.name.startswith(prefix, autoescape=True))
    valid_names = None
    if names is not None:
        valid_names = {name for name in names if _is_name(name)}
        if not valid_names:
            return []
        if len(valid_names) <= _MANY:
            statement = statement.where(_traits.c.name.in_(sorted(valid_names)))
    with db.read_once(ctx) as session:
        trait_rows = session.execute(statement).all()
    # Databases differ in whether they tell a from A.
    return [_make_record(row) for row in trait_rows
            if (valid_names is None or row.name in valid_names)
            and row.name.startswith(prefix or "")]


def read_names(session: Session) -> dict[int, str]:
    """Return {database key: name} of every trait."""
    return {row.id: row.name for row in session.execute(_ALL)}


@db.retry_writes
def get(ctx: Context, name: str) -> Named:
    """Return a trait.

    :raises errors.TraitNotFound: there is none of that name.
    """
    with db.read_once(ctx) as session:
        return _make_record(_find(session, name))


@db.retry_writes
def ensure(ctx: Context, name: str) -> tuple[Named, bool]:
    """Return a custom trait, made if it is missing; whether it was.

    :raises errors.InvalidTraitName: neither a trait nor ``CUSTOM_[A-Z0-9_]+``.
    """
    if len(name) > _LONGEST_NAME or not _CUSTOM_NAME.fullmatch(name):
        raise errors.InvalidTraitName(name)
    try:
        return get(ctx, name), False
    except errors.TraitNotFound:
        pass
    with db.write(ctx) as session:
        statement = inserts.build_skipping_insert(_traits)
        created = session.execute(statement, {"name": name, "created_at": utcnow()}).rowcount == 1
        row = session.execute(_BY_NAME, {"name": name}).first()
        if row is None:
            # Somebody else made it and removed it again.
            raise failures.TransactionConflict
        if created:
            session.record_change(kinds.TRAIT, row.id)
    return _make_record(row), created


@db.retry_writes
def insert_missing(ctx: Context, names: Collection[str]) -> None:
    """Insert those traits that are missing, whether they are custom ones or standard ones.

    :raises errors.InvalidTraitName: a name that no trait can have.
    """
    for name in names:
        if not _is_name(name):
            raise errors.InvalidTraitName(name)
    with db.write(ctx) as session:
        present = {row.name for row in _find_all(session, names)}
        missing = sorted(set(names) - present)
        inserts.insert_missing(session.connection, _traits, [
            {"name": name, "created_at": utcnow()} for name in missing])
        for row in _find_all(session, missing):
            session.record_change(kinds.TRAIT, row.id)


@db.retry_writes
def delete(ctx: Context, name: str) -> None:
    """Remove a custom trait.

    :raises errors.TraitNotFound: there is none of that name.
    :raises errors.StandardTrait: standard traits stay.
    :raises errors.TraitInUse: a provider has it.
    """
    with db.write(ctx) as session:
        row = _find(session, name)
        if not name.startswith("CUSTOM_"):
            raise errors.StandardTrait(name)
        if session.execute(_LINK, {"trait_id": row.id}).first():
            raise errors.TraitInUse(name)
        try:
            result = session.execute(_DELETE, {"trait_id": row.id})
        except db_exception.DBReferenceError as error:
            raise errors.TraitInUse(name) from error
        if result.rowcount != 1:
            raise errors.TraitNotFound(name)
        session.record_change(kinds.TRAIT, row.id, name=name)


@db.retry_writes
def list_for_provider(ctx: Context, uuid: str) -> ProviderTraits:
    """Return the traits of a provider, by name.

    :raises errors.ProviderNotFound: no such provider.
    """
    trait_rows = lookups.fetch_of_provider(ctx, _OF_PROVIDER, uuid)
    return ProviderTraits(
        trait_rows[0].generation,
        tuple(_make_record(row) for row in trait_rows if row.name is not None))


@db.retry_writes
def replace_for_provider(
    ctx: Context, uuid: str, names: Collection[str], *, generation: int,
) -> ProviderTraits:
    """Give a provider these traits and no others.

    Its generation rises only if the set changes.

    :raises errors.ProviderNotFound: no such provider.
    :raises errors.ProviderGenerationConflict: its generation is another.
    :raises errors.UnknownTraits: some names are no traits.
    """
    with db.write(ctx) as session:
        provider = lookups.get_provider(session, uuid)
        if not locks.lock_at_generation(session, provider.id, seen=generation, step=0):
            raise errors.ProviderGenerationConflict(uuid)
        trait_rows = _find_all(session, names)
        unknown = sorted(set(names) - {row.name for row in trait_rows})
        if unknown:
            raise errors.UnknownTraits(unknown)
        changed = _set(session, provider.id, {row.id for row in trait_rows})
        return ProviderTraits(
            int(generation) + changed, tuple(_make_record(row) for row in trait_rows))


@db.retry_writes
def delete_for_provider(ctx: Context, uuid: str) -> None:
    """Take every trait from a provider; its generation rises if it had one.

    :raises errors.ProviderNotFound: no such provider.
    """
    with db.write(ctx) as session:
        provider = lookups.get_provider(session, uuid)
        locks.lock_providers(session, {provider.id: 0})
        _set(session, provider.id, set())


def _set(session: Session, provider_id: int, trait_ids: set[int]) -> bool:
    """Make the traits of a held provider those; say whether that changed them."""
    present = set(session.execute(_LINKS_OF_PROVIDER, {"provider_id": provider_id}).scalars())
    if trait_ids == present:
        return False
    if present - trait_ids:
        session.execute(
            _REMOVE, {"provider_id": provider_id, "trait_ids": sorted(present - trait_ids)})
    if trait_ids - present:
        try:
            session.execute(_ADD, [
                {"resource_provider_id": provider_id, "trait_id": trait_id}
                for trait_id in sorted(trait_ids - present)])
        except db_exception.DBReferenceError as error:
            # A trait was removed after we looked: look again.
            raise failures.TransactionConflict from error
    locks.raise_generation(session, provider_id)
    return True


def _find(session: Session, name: str) -> sa.Row[Any]:
    if _is_name(name):
        row = session.execute(_BY_NAME, {"name": name}).first()
        # An adopted MySQL table compares without regard to case.
        if row is not None and row.name == name:
            return row
    raise errors.TraitNotFound(name)


def _find_all(session: Session, names: Collection[str]) -> list[sa.Row[Any]]:
    valid_names = {name for name in names if _is_name(name)}
    if not valid_names:
        return []
    if len(valid_names) > _MANY:
        trait_rows = session.execute(_ALL)
    else:
        trait_rows = session.execute(_BY_NAMES, {"names": sorted(valid_names)})
    return [row for row in trait_rows if row.name in valid_names]


def _is_name(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def _make_record(row: sa.Row[Any]) -> Named:
    return Named(row.name, created_at=row.created_at, updated_at=row.updated_at)
