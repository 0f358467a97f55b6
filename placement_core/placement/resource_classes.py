"""Resource classes: the standard ones and the custom ones of this deployment.

Two locks, both an UPDATE of ``revision``. A custom class's own row: taken by
who makes inventory of the class (``hold``) and by who removes the class, so
that neither overlooks the other; inventories have no foreign key. The row of
the first standard class: taken by who makes or removes a custom class. Its
revision is the smallest id that was never given out, so that ids are not used
again: caches elsewhere, and rows of an adopted database, may still say the old
one.
Source: spec placement_api §3.9.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Collection, Iterable
from typing import Any

import os_resource_classes
import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import Session, failures
from placement_core.db.metadata import utcnow
from placement_core.placement import errors, tables
from placement_core.placement.records import Named

#: Ids below are standard classes, in the order of os-resource-classes.
FIRST_CUSTOM_ID = 10000

_CUSTOM_NAME = re.compile(r"CUSTOM_[A-Z0-9_]+")
_NAME = re.compile(r"[A-Z0-9_]+")
_LONGEST_NAME = 255
#: From this many names on, reading all classes is one short statement.
_MANY = 200

_classes = tables.resource_classes
_inventories, _allocations = tables.inventories, tables.allocations

_ALL = sa.select(
    _classes.c.id, _classes.c.name, _classes.c.created_at, _classes.c.updated_at,
).order_by(_classes.c.id)
_BY_NAME = _ALL.where(_classes.c.name == sa.bindparam("name"))
_BY_NAMES = _ALL.where(_classes.c.name.in_(sa.bindparam("names", expanding=True)))
_LOCK = (
    sa.update(_classes).where(_classes.c.id == sa.bindparam("of_id"))
    # A lock is no change of the class that a client should see.
    .values(revision=_classes.c.revision + 1, updated_at=_classes.c.updated_at)
)
_named = _classes.alias("named")
#: The largest ids: an adopted database may have rows left of classes that are gone.
_IDS = sa.select(
    _classes.c.revision,
    sa.select(_named.c.id).where(_named.c.name == sa.bindparam("name")).scalar_subquery()
    .label("known"),
    *(sa.select(sa.func.max(column)).scalar_subquery().label(f"largest{place}")
      for place, column in enumerate((
          _named.c.id, _inventories.c.resource_class_id, _allocations.c.resource_class_id))),
).where(_classes.c.id == 0)
_SET_NEVER_USED = (
    sa.update(_classes).where(_classes.c.id == 0)
    .values(revision=sa.bindparam("never_used"), updated_at=_classes.c.updated_at)
)
_INSERT = sa.insert(_classes)
_RENAME = (
    sa.update(_classes).where(_classes.c.id == sa.bindparam("class_id"))
    .values(name=sa.bindparam("new_name"), revision=_classes.c.revision + 1)
)
_DELETE = sa.delete(_classes).where(_classes.c.id == sa.bindparam("class_id"))
_REFERENCES = tuple(
    sa.select(table.c.id).where(table.c.resource_class_id == sa.bindparam("class_id")).limit(1)
    for table in (_inventories, _allocations))


@db.retry_writes
def list_(ctx: Context) -> list[Named]:
    """Return every resource class, in the order of the ids."""
    with db.read_once(ctx) as session:
        return [_make_record(row) for row in session.execute(_ALL)]


def read_names(session: Session) -> dict[int, str]:
    """Return {database key: name} of every resource class."""
    return {row.id: row.name for row in session.execute(_ALL)}


@db.retry_writes
def get(ctx: Context, name: str) -> Named:
    """Return a resource class.

    :raises errors.ResourceClassNotFound: there is none of that name.
    """
    with db.read_once(ctx) as session:
        return _make_record(_find(session, name))


@db.retry_writes
def create(ctx: Context, name: str) -> Named:
    """Create a custom resource class.

    :raises errors.InvalidResourceClassName: not ``CUSTOM_[A-Z0-9_]+``, or too long.
    :raises errors.ResourceClassExists: there is one of that name.
    """
    if not is_custom_name(name):
        raise errors.InvalidResourceClassName(name)
    with db.write(ctx) as session:
        ids = _lock_ids(session, name)
        if ids.known is not None:
            raise errors.ResourceClassExists(name, creating=True)
        now = utcnow()
        _make(session, name, ids, now)
    return Named(name, created_at=now)


def ensure(ctx: Context, name: str) -> tuple[Named, bool]:
    """Return a custom resource class, made if it is missing; whether it was.

    :raises errors.InvalidResourceClassName: not ``CUSTOM_[A-Z0-9_]+``, or too long.
    """
    if not is_custom_name(name):
        raise errors.InvalidResourceClassName(name)
    while True:
        try:
            return get(ctx, name), False
        except errors.ResourceClassNotFound:
            pass
        try:
            return create(ctx, name), True
        except errors.ResourceClassExists:
            # Somebody was faster; look again (it may even be gone again).
            continue


@db.retry_writes
def rename(ctx: Context, name: str, new_name: str) -> Named:
    """Give a custom resource class another name.

    :raises errors.ResourceClassNotFound: there is none of that name.
    :raises errors.StandardResourceClass: standard classes keep their names.
    :raises errors.InvalidResourceClassName: the new name is not a custom one.
    :raises errors.ResourceClassExists: the new name is taken.
    """
    if not is_custom_name(new_name):
        raise errors.InvalidResourceClassName(new_name)
    with db.write(ctx) as session:
        row = _find(session, name)
        if row.id < FIRST_CUSTOM_ID:
            raise errors.StandardResourceClass(name, deleting=False)
        try:
            result = session.execute(_RENAME, {"class_id": row.id, "new_name": new_name})
        except db_exception.DBDuplicateEntry as error:
            raise errors.ResourceClassExists(new_name, creating=False) from error
        if result.rowcount != 1:
            raise errors.ResourceClassNotFound(name)
        session.record_change(kinds.RESOURCE_CLASS, row.id, name=name)
        return _make_record(_find(session, new_name))


@db.retry_writes
def delete(ctx: Context, name: str) -> None:
    """Remove a custom resource class.

    :raises errors.ResourceClassNotFound: there is none of that name.
    :raises errors.StandardResourceClass: standard classes stay.
    :raises errors.ResourceClassInUse: inventory or an allocation of it exists.
    """
    with db.write(ctx) as session:
        row = _find(session, name)
        if row.id < FIRST_CUSTOM_ID:
            raise errors.StandardResourceClass(name, deleting=True)
        ids = _lock_ids(session, name)
        # The row first: who makes inventory of the class takes it as well
        # (``hold``), so what we do not see below cannot come any more.
        if session.execute(_DELETE, {"class_id": row.id}).rowcount != 1:
            raise errors.ResourceClassNotFound(name)
        for statement in _REFERENCES:
            if session.execute(statement, {"class_id": row.id}).first():
                raise errors.ResourceClassInUse(name)
        _note(session, ids, row.id)
        session.record_change(kinds.RESOURCE_CLASS, row.id, name=name)


def lock_classes(session: Session, class_ids: Iterable[int]) -> None:
    """Keep classes from being removed until the commit.

    Who inserts inventory rows of custom classes calls this before, once for
    all classes of the transaction, after the provider rows are held.

    :raises failures.TransactionConflict: one was removed meanwhile;
        ``retry_writes`` begins again and finds out which.
    """
    for class_id in sorted(set(class_ids)):
        # Standard classes are never removed.
        if (class_id >= FIRST_CUSTOM_ID
                and session.execute(_LOCK, {"of_id": class_id}).rowcount != 1):
            raise failures.TransactionConflict


def find_or_insert(session: Session, name: str) -> tuple[int, bool]:
    """Return the id of a custom class that is not removed until the commit.

    It is made if it is missing. To be called after the provider rows are held, in place
    of ``hold``.

    :returns: its id, and whether it was made.
    """
    ids = _lock_ids(session, name)
    if ids.known is None:
        return _make(session, name, ids, utcnow()), True
    lock_classes(session, [ids.known])
    _note(session, ids)
    return ids.known, False


def ids(session: Session, names: Collection[str]) -> dict[str, int]:
    """Return the ids of those ``names`` that exist, in the order of the ids."""
    valid_names = {name for name in names if _is_name(name)}
    if not valid_names:
        return {}
    if len(valid_names) > _MANY:
        class_rows = session.execute(_ALL)
    else:
        class_rows = session.execute(_BY_NAMES, {"names": sorted(valid_names)})
    return {row.name: row.id for row in class_rows if row.name in valid_names}


def is_custom_name(name: str) -> bool:
    """Say whether a custom resource class or trait may have this name."""
    return len(name) <= _LONGEST_NAME and _CUSTOM_NAME.fullmatch(name) is not None


def _is_name(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


@dataclasses.dataclass(frozen=True, slots=True)
class _Ids:
    """What is known of ids by who gives one out.

    :ivar raised: what the lock made of the smallest that was never used: one more.
    :ivar free: the smallest that is used nowhere either.
    :ivar known: that of the class of a name, if there is one.
    """

    raised: int
    free: int
    known: int | None


def _lock_ids(session: Session, name: str) -> _Ids:
    """Keep others from giving out ids."""
    if session.execute(_LOCK, {"of_id": 0}).rowcount != 1:
        raise RuntimeError(
            f"the standard resource class {os_resource_classes.STANDARDS[0]} is missing; "
            "run: placement-core db sync")
    raised, known, *largest = tuple(session.execute(_IDS, {"name": name}).one())
    return _Ids(raised, max(
        FIRST_CUSTOM_ID, raised - 1, *((number or 0) + 1 for number in largest)), known)


def _note(session: Session, ids: _Ids, class_id: int | None = None) -> None:
    """Write down the smallest id that was never used, ``class_id`` having been."""
    never_used = max(ids.raised - 1, -1 if class_id is None else class_id + 1)
    # Whoever makes one class after the other needs no more than the lock.
    if never_used != ids.raised:
        session.execute(_SET_NEVER_USED, {"never_used": never_used})


def _make(session: Session, name: str, ids: _Ids, created_at: datetime.datetime) -> int:
    """Insert a class; the session keeps others from giving out ids."""
    class_id = ids.free
    session.execute(
        _INSERT, {"id": class_id, "name": name, "revision": 0, "created_at": created_at})
    _note(session, ids, class_id)
    session.record_change(kinds.RESOURCE_CLASS, class_id)
    return class_id


def _find(session: Session, name: str) -> sa.Row[Any]:
    if _is_name(name):
        row = session.execute(_BY_NAME, {"name": name}).first()
        # An adopted MySQL table compares without regard to case.
        if row is not None and row.name == name:
            return row
    raise errors.ResourceClassNotFound(name)


def _make_record(row: sa.Row[Any]) -> Named:
    return Named(row.name, created_at=row.created_at, updated_at=row.updated_at)
