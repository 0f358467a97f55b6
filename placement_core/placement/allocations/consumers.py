"""Consumers: their rows, and the locks on them.

The row of a consumer is the lock of its allocations: a write locks it before it reads the
allocations. ``owners`` has the projects and users of consumers.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_db import exception as db_exception
from sqlalchemy.dialects import postgresql

from placement_core import db
from placement_core.changes import kinds
from placement_core.db import TransactionConflict, arrays, failures, lists, row_locks, texts
from placement_core.db.metadata import utcnow
from placement_core.placement import errors, locks, records, tables
from placement_core.placement.allocations.owners import TABLES, OwnerMissing

_consumers, _allocations = tables.consumers, tables.allocations

#: How many consumers are inserted in one transaction, or deleted by one statement.
_BATCH = 100

#: {kind of owner: the name of its parameter}
_OWNERS = {"projects": "project", "users": "user", "types": "type"}


def _select_id(kind: str, place: int | str = "") -> sa.ScalarSelect[Any]:
    table, name = TABLES[kind]
    parameter = f"{_OWNERS[kind]}{place}"
    return sa.select(table.c.id).where(name == sa.bindparam(parameter)).scalar_subquery()


def _insert(*, typed: bool) -> sa.Insert:
    """Build the statement that inserts a consumer, unless its owners are unknown.

    The statement reads the ids of the owners, so they cannot be stale. It inserts no row for a
    consumer that exists; if another transaction is inserting the consumer, it fails.
    """
    there = _consumers.alias()
    exists = sa.exists(sa.select(there.c.id).where(there.c.uuid == sa.bindparam("uuid")))
    chosen = sa.select(
        sa.bindparam("uuid", type_=_consumers.c.uuid.type), tables.projects.c.id,
        _select_id("users"), _select_id("types") if typed else sa.null(),
        sa.bindparam("generation", type_=sa.Integer),
    ).where(
        tables.projects.c.external_id == sa.bindparam("project"),
        sa.exists().where(tables.users.c.external_id == sa.bindparam("user")),
        ~exists)
    if typed:
        chosen = chosen.where(
            sa.exists().where(tables.consumer_types.c.name == sa.bindparam("type")))
    return sa.insert(_consumers).inline().from_select(
        ["uuid", "project_id", "user_id", "consumer_type_id", "generation"], chosen,
    ).execution_options(preserve_rowcount=True)


def _insert_values(*, typed: bool) -> sa.Insert:
    """Build the statement for MySQL, where INSERT … SELECT locks the table's counter.

    That lock would be held while waiting for another writer of the same consumer, and block the
    insertion of all other consumers. Where the other statement inserts no row, this one fails,
    or leaves out a missing type.
    """
    return sa.insert(_consumers).inline().values(
        uuid=sa.bindparam("uuid"), project_id=_select_id("projects"), user_id=_select_id("users"),
        consumer_type_id=_select_id("types") if typed else sa.null(),
        generation=sa.bindparam("generation"))


def _insert_arrays() -> sa.Insert:
    """Build ``_insert`` for any number of consumers, for PostgreSQL.

    :returns: the statement; it returns the uuids of the inserted consumers.
    """
    new = arrays.rows("given", {
        "uuid": _consumers.c.uuid.type, "project": sa.String, "user": sa.String,
        "type": sa.String}).c
    projects, users, types = tables.projects, tables.users, tables.consumer_types
    # Names are named twice, and no consumer is looked for: plans that were made while there were
    # few rows would look at all of them.
    chosen = (
        sa.select(new.uuid, projects.c.id, users.c.id, types.c.id, sa.literal(1))
        .join(projects, sa.and_(projects.c.external_id == new.project,
                                lists.among(projects.c.external_id, "project")))
        .join(users, sa.and_(users.c.external_id == new.user,
                             lists.among(users.c.external_id, "user")))
        .outerjoin(types, sa.and_(types.c.name == new.type, lists.among(types.c.name, "type")))
        .where(sa.or_(new.type.is_(None), types.c.id.is_not(None)))
        .order_by(new.uuid))
    return postgresql.insert(_consumers).inline().from_select(
        ["uuid", "project_id", "user_id", "consumer_type_id", "generation"], chosen,
    ).on_conflict_do_nothing(index_elements=[_consumers.c.uuid]).returning(_consumers.c.uuid)


@functools.cache
def _insert_many(count: int) -> sa.Insert:
    """Build ``_insert_values`` for ``count`` consumers, with a parameter for each value.

    A type that is None or missing is left out.
    """
    return sa.insert(_consumers).inline().values([
        {"uuid": sa.bindparam(f"uuid{place}"), "project_id": _select_id("projects", place),
         "user_id": _select_id("users", place), "consumer_type_id": _select_id("types", place),
         "generation": sa.literal_column("1")} for place in range(count)])


#: ``at``: when the consumer is updated; None: what is written is not decided yet.
_RAISED = {
    "generation": _consumers.c.generation + 1,
    "updated_at": sa.func.coalesce(
        sa.bindparam("at", type_=_consumers.c.updated_at.type), _consumers.c.updated_at)}


def _raise_arrays() -> sa.Update:
    """Build the statement that increments the generations of any number of consumers.

    For PostgreSQL. It locks the rows in the order of their uuids, and returns the uuids of those
    that exist and have the generation that is expected (``seen``; NULL: any).
    """
    expected = arrays.rows("given", {"of_uuid": _consumers.c.uuid.type, "seen": sa.Integer})
    return (
        sa.update(_consumers)
        .where(_consumers.c.uuid == expected.c.of_uuid,
               row_locks.locked_in_order(_consumers.c.uuid,
                                         lists.among(_consumers.c.uuid, "of_uuid")),
               sa.or_(expected.c.seen.is_(None),
                      expected.c.seen == _consumers.c.generation))
        .values(_RAISED)
        .returning(_consumers.c.uuid))


_INSERT_ARRAYS = _insert_arrays()
_RAISE_ARRAYS = _raise_arrays()
_INSERT = {typed: _insert(typed=typed) for typed in (False, True)}
_INSERT_VALUES = {typed: _insert_values(typed=typed) for typed in (False, True)}
_RAISE = (
    sa.update(_consumers)
    .where(_consumers.c.uuid == sa.bindparam("of_uuid"))
    .values(_RAISED)
)
_LOWER = (
    sa.update(_consumers)
    .where(lists.among(_consumers.c.uuid, "uuids"))
    .values(generation=_consumers.c.generation - 1, updated_at=_consumers.c.updated_at)
)
_DATE = (
    sa.update(_consumers)
    .where(lists.among(_consumers.c.uuid, "uuids"))
    .values(updated_at=sa.bindparam("at"))
)
_RAISE_SEEN = _RAISE.where(_consumers.c.generation == sa.bindparam("seen"))
_GENERATION = sa.select(_consumers.c.generation).where(_consumers.c.uuid == sa.bindparam("uuid"))
_HAS_ALLOCATIONS = sa.select(_allocations.c.id).where(
    _allocations.c.consumer_id == sa.bindparam("uuid")).limit(1)
#: It changes ``updated_at``, because only an update of a value locks the row.
_LOCK = (
    sa.update(_consumers)
    .where(_consumers.c.uuid == sa.bindparam("of_uuid"))
    .values(generation=_consumers.c.generation)
)
_SET_OWNER = (
    sa.update(_consumers)
    .where(_consumers.c.uuid == sa.bindparam("of_uuid"))
    .values(project_id=sa.bindparam("to_project"), user_id=sa.bindparam("to_user"),
            consumer_type_id=sa.bindparam("to_type"))
)
_DELETE = sa.delete(_consumers).where(lists.among(_consumers.c.uuid, "uuids"))


def is_consumer_uuid(text: str) -> bool:
    """Return whether a row can store ``text`` as the uuid of a consumer."""
    return 0 < len(text) <= 36 and texts.is_storable(text)


class LockedConsumers(NamedTuple):
    """The consumers of some writes after they were locked or inserted.

    :ivar existed: the uuids of those that existed.
    :ivar refused: why others are not written, by their uuids; their rows are not locked.
    :ivar at_once: whether the first statement locked or inserted all of them.
    """

    existed: set[str]
    refused: Mapping[str, errors.ConsumerGenerationConflict]
    at_once: bool


def can_lock_at_once(session: db.Session, writes: Sequence[records.AllocationWrite]) -> bool:
    """Say whether one statement locks all consumers if they are as their writers expect."""
    if all(write.expected_generation is None and write.allocations for write in writes):
        return len(writes) <= _BATCH
    return len(writes) == 1 or (session.dialect == "postgresql" and all(
        write.expected_generation is not None for write in writes))


def lock_or_insert(
    session: db.Session, writes: Sequence[records.AllocationWrite]
) -> LockedConsumers:
    """Lock the rows of the consumers, in the order of their uuids.

    Generations are incremented. A consumer that does not exist is inserted with generation 1,
    unless the write gives it no allocations.

    :returns: refuses none.
    :raises errors.MalformedConsumer: no row can store the uuid.
    :raises errors.ConsumerGenerationConflict: a consumer has another generation than its
        writer expects.
    :raises TransactionConflict: another transaction inserted one of them in the meantime.
    """
    for write in writes:
        if not is_consumer_uuid(write.consumer_uuid):
            raise errors.MalformedConsumer(write.consumer_uuid)
    locked = lock_or_insert_each(session, writes, utcnow())
    for refusal in locked.refused.values():
        raise refusal
    return locked


def lock_or_insert_each(
    session: db.Session, writes: Sequence[records.AllocationWrite], at: datetime.datetime | None
) -> LockedConsumers:
    """Do the same for writes that do not depend on each other.

    :param at: when consumers that existed are updated; None: ``date`` says so later of those
        that are.
    :raises TransactionConflict: as ``lock_or_insert``.
    """
    refused = {}
    ordered = sorted(writes, key=lambda write: write.consumer_uuid)
    inserted = _insert_together(session, [write for write in ordered if write.allocations
                                    and write.expected_generation is None])
    existed = _raise_together(session, [
        write for write in ordered if write.expected_generation is not None], at)
    by_the_first = inserted or existed.copy()
    for write in ordered:
        if write.consumer_uuid in inserted or write.consumer_uuid in existed:
            continue
        try:
            if _raise_generation(session, write, at) or (
                    write.allocations and _insert_consumer(session, write, at)):
                existed.add(write.consumer_uuid)
        except errors.ConsumerGenerationConflict as refusal:
            refused[write.consumer_uuid] = refusal
    if len(ordered) == 1:
        # If the consumer is as its writer expects, one statement was enough.
        at_once = not refused and bool(existed) == (ordered[0].expected_generation is not None)
    else:
        at_once = len(by_the_first) == len(ordered)
    return LockedConsumers(existed, refused, at_once and can_lock_at_once(session, writes))


def undo(
    session: db.Session, writes: Sequence[records.AllocationWrite], existed: Collection[str]
) -> None:
    """Undo what ``lock_or_insert_each``, without a time, did for writes that it did not refuse.

    :param existed: its result. The rows stay locked.
    """
    raised = sorted(write.consumer_uuid for write in writes if write.consumer_uuid in existed)
    if raised:
        session.write_later(_LOWER, {"uuids": raised})
    remove(session, sorted(write.consumer_uuid for write in writes
                           if write.allocations and write.consumer_uuid not in existed))


def date(session: db.Session, uuids: Collection[str]) -> None:
    """Note the time of an update of consumers whose rows the session has locked without one."""
    if uuids:
        session.write_later(_DATE, {"uuids": sorted(uuids), "at": utcnow()})


def _raise_generation(
    session: db.Session, write: records.AllocationWrite, at: datetime.datetime | None
) -> bool:
    """Lock the row of a consumer and increment its generation; return whether it exists."""
    uuid, seen = write.consumer_uuid, write.expected_generation
    if seen is records.ANY_GENERATION:
        return session.execute_write(_RAISE, {"of_uuid": uuid, "at": at}) == 1
    if seen is None:
        # With allocations, the statement of ``_insert_consumer`` shows whether it exists.
        return not write.allocations and _lock_unused(session, uuid, at)
    if (_can_match(seen)
            and session.execute_write(
                _RAISE_SEEN, {"of_uuid": uuid, "seen": seen, "at": at}) == 1):
        return True
    actual = session.execute(_GENERATION, {"uuid": uuid}).scalar()
    if actual != seen:
        raise errors.ConsumerGenerationConflict(uuid, actual, seen)
    raise TransactionConflict  # it became ``seen`` between the two statements


def lock(session: db.Session, uuid: str) -> bool:
    """Lock the row of a consumer without changing its generation; return whether it exists.

    For callers that decide by the allocations of the consumer, and may change nothing but the time
    of its update.
    """
    is_there = session.execute_write(_LOCK, {"of_uuid": uuid}) == 1
    if is_there:
        session.record_change(kinds.CONSUMER, uuid=uuid)
    return is_there


def _insert_together(
    session: db.Session, writes: Sequence[records.AllocationWrite]
) -> set[str]:
    """Insert those of many consumers that do not exist, before other rows are locked.

    :returns: the uuids of the inserted consumers.
    """
    if len(writes) < 2 or session.dialect == "sqlite":
        return set()
    if session.dialect == "mysql":
        return _insert_batches(session, writes)
    inserted = session.fetch_written(_INSERT_ARRAYS, {
        "uuid": [write.consumer_uuid for write in writes],
        "project": [write.project_id for write in writes],
        "user": [write.user_id for write in writes],
        "type": [write.consumer_type for write in writes]})
    return {uuid for uuid, in inserted}


def _insert_batches(
    session: db.Session, writes: Sequence[records.AllocationWrite]
) -> set[str]:
    """Insert consumers, many with one statement, up to a batch of which one exists."""
    inserted: set[str] = set()
    for start in range(0, len(writes), _BATCH):
        batch = writes[start:start + _BATCH]
        if not _insert_batch(session, batch):
            break
        inserted |= {write.consumer_uuid for write in batch}
    return inserted


def _insert_batch(session: db.Session, writes: Sequence[records.AllocationWrite]) -> bool:
    """Insert all consumers, or none if one exists; return whether they were inserted."""
    parameters = {
        f"{name}{place}": value for place, write in enumerate(writes) for name, value in (
            ("uuid", write.consumer_uuid), ("project", write.project_id),
            ("user", write.user_id), ("type", write.consumer_type))}
    return _insert_on_mysql(session, _insert_many(len(writes)), parameters)


def _raise_together(
    session: db.Session, writes: Sequence[records.AllocationWrite], at: datetime.datetime | None
) -> set[str]:
    """Increment the generations of consumers that exist and have the expected one.

    :returns: their uuids.
    """
    writes = [write for write in writes if _can_match(write.expected_generation)]
    if session.dialect != "postgresql" or len(writes) < 2:
        return set()
    raised = session.fetch_written(_RAISE_ARRAYS, {
        "at": at, "of_uuid": [write.consumer_uuid for write in writes],
        "seen": [_make_parameter(write.expected_generation) for write in writes]})
    return {uuid for uuid, in raised}


def _can_match(expected: int | records.AnyGeneration | None) -> bool:
    """Say whether a row can have the generation that is expected."""
    return (expected is records.ANY_GENERATION
            or 0 <= (expected or 0) <= locks.LARGEST_INTEGER)


def _make_parameter(expected: int | records.AnyGeneration | None) -> int | None:
    # JSON Schema takes 2.0 for an integer.
    return None if expected is records.ANY_GENERATION else int(expected or 0)


def _insert_consumer(
    session: db.Session, write: records.AllocationWrite, at: datetime.datetime | None
) -> bool:
    """Insert a consumer; return whether it existed nevertheless, without allocations."""
    values = {"uuid": write.consumer_uuid, "project": write.project_id,
              "user": write.user_id, "generation": 1}
    if write.consumer_type is not None:
        values["type"] = write.consumer_type
    if insert_row(session, values, typed=write.consumer_type is not None):
        return False
    if write.expected_generation is None and _lock_unused(session, write.consumer_uuid, at):
        return True
    if session.execute(_GENERATION, {"uuid": write.consumer_uuid}).first() is None:
        raise OwnerMissing
    raise TransactionConflict  # another transaction has inserted it since


def insert_row(
    session: db.Session, values: Mapping[str, object], *, typed: bool
) -> bool:
    """Insert a consumer, unless it exists; return whether a row was inserted.

    :param values: ``uuid``, the names of its ``project`` and ``user``, ``generation``, and,
        if it is typed, that of its ``type``.
    :raises OwnerMissing: MySQL has no row of an owner; elsewhere no row is inserted then.
    :raises TransactionConflict: another transaction is inserting it (not on MySQL).
    """
    if session.dialect == "mysql":
        return _insert_on_mysql(session, _INSERT_VALUES[typed], values)
    try:
        return session.execute_write(_INSERT[typed], values) == 1
    except db_exception.DBDuplicateEntry:
        raise TransactionConflict from None


def _insert_on_mysql(
    session: db.Session, statement: sa.Insert, values: Mapping[str, object]
) -> bool:
    """Insert all rows, or none if one exists; return whether they were inserted.

    A statement that fails leaves the rest of a transaction as it is there.
    """
    try:
        session.execute_write(statement, values)
    except db_exception.DBDuplicateEntry:
        return False
    except (db_exception.DBError, sa.exc.IntegrityError) as error:
        if failures.is_missing_value(error):
            raise OwnerMissing from error
        raise
    return True


def _lock_unused(session: db.Session, uuid: str, at: datetime.datetime | None) -> bool:
    """Lock the row of a consumer that should not exist; return whether it exists.

    Upstream leaves rows of consumers without allocations. Clients cannot see their generation,
    so they count as new.

    :raises errors.ConsumerGenerationConflict: the consumer has allocations.
    """
    actual = session.execute(_GENERATION, {"uuid": uuid}).scalar()
    if actual is None:
        return False
    if session.execute(_HAS_ALLOCATIONS, {"uuid": uuid}).first() is not None:
        raise errors.ConsumerGenerationConflict(uuid, actual, None)
    # Once more with its row in hand: only now it stays as we see it.
    if (session.execute_write(_RAISE, {"of_uuid": uuid, "at": at}) != 1
            or session.execute(_HAS_ALLOCATIONS, {"uuid": uuid}).first() is not None):
        raise TransactionConflict
    return True


def set_owner(
    session: db.Session, uuid: str, *, project_id: int, user_id: int, type_id: int | None
) -> None:
    """Set the owners (database ids) of a consumer whose row the session has locked."""
    session.write_later(_SET_OWNER, {
        "of_uuid": uuid, "to_project": project_id, "to_user": user_id, "to_type": type_id})


def remove(session: db.Session, uuids: Sequence[str]) -> None:
    """Delete consumers whose rows the session has locked."""
    for start in range(0, len(uuids), _BATCH):
        session.write_later(_DELETE, {"uuids": list(uuids[start:start + _BATCH])})
