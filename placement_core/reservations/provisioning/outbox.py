"""The outbox: calls to the compute service, written in one transaction and made later.

A row is inserted in the transaction that makes its call necessary, so the row exists if and
only if that transaction committed. Any number of workers make the calls. A worker dequeues a
row by incrementing its ``attempt`` and commits, makes the call outside of any transaction, and
deletes the row if its attempt is still the same. If a worker dies or is stopped, another worker
dequeues its row after the deadline; a worker that got no answer from the database dequeues it
again at once. So a call is made at least once; all calls are idempotent.

Order: a call waits for all earlier calls about the same host, and for all earlier calls about
the same subject, unless both calls are about hosts, and different ones. So the hosts of a
reservation do not wait for each other, and the next reservation of a host waits until the
previous one has left it. Two calls that change which hosts are in one aggregate may come in any
order, but are never made at the same time.

Locks: a lease's row, a reservation's row, then rows of the outbox.
"""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import json
import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db, errors
from placement_core.context import Context
from placement_core.db import Session, clock, texts
from placement_core.db.metadata import utcnow
from placement_core.placement import aggregates
from placement_core.plugin_api.compute import ComputeDriver, ComputeRefused, check_result
from placement_core.reservations import tables
from placement_core.reservations.provisioning import compute_calls
from placement_core.reservations.provisioning.compute_calls import ComputeCall
from placement_core.reservations.records import LONGEST_PROBLEM, R_DELETED
from placement_core.reservations.store import lease_rows

LOG = logging.getLogger(__name__)

#: For so long a worker owns a row that it dequeued.
_DEADLINE_SECONDS = 300
#: How soon a call is repeated that waits for servers to be gone.
_POLL_SECONDS = 2
#: The longest pauses after a call that got no answer, and after one that was refused.
_LONGEST_PAUSE_SECONDS = 60
_LONGEST_REFUSED_PAUSE_SECONDS = 600
_FIRST_REFUSED_PAUSE_SECONDS = 15
#: How many due rows one query returns.
_BATCH = 20
#: How many ids one statement has at most.
_MOST_IDS = 500

_outbox, _reservations = tables.outbox, tables.lease_reservations
_slots, _hosts = tables.instance_reservations, tables.computehost_reservations

_earlier = _outbox.alias("before")
_is_free = sa.or_(_outbox.c.owner.is_(None), _outbox.c.deadline_at <= clock.now())
#: To a worker, its own rows are free, too. It makes one call at a time, so it dequeued them
#: before, and the database did not answer: then, or when the call was done.
_is_free_to_owner = sa.or_(_is_free, _outbox.c.owner == sa.bindparam("of_owner"))
_is_owned = (_outbox.c.id == sa.bindparam("of_id"), _outbox.c.owner == sa.bindparam("of_owner"),
         _outbox.c.attempt == sa.bindparam("of_attempt"))

_made_now = _outbox.alias("made_now")
_is_made_now = (_made_now.c.owner != sa.bindparam("of_owner"),
                _made_now.c.deadline_at > clock.now())
#: Rows that wait until a call about their aggregate is made. They must not fill the batches of
#: ``_DUE``; whether another call is being made is decided by ``_lock_aggregate``.
_waits_for_aggregate = sa.or_(*(
    sa.and_(_outbox.c.call.in_(sorted(names)), sa.exists().where(
        _made_now.c.call.in_(sorted(names)), *_is_made_now, *same))
    for names, same in (
        (compute_calls.OF_AGGREGATE, [_made_now.c.subject == _outbox.c.subject]),
        (compute_calls.OF_FREEPOOL, []))))

_INSERT = sa.insert(_outbox).inline().values(next_at=clock.now())
_is_due = (
    _outbox.c.next_at <= clock.now(), _is_free_to_owner,
    ~sa.exists().where(
        _earlier.c.subject == _outbox.c.subject, _earlier.c.id < _outbox.c.id,
        sa.or_(_earlier.c.host_id.is_(None), _outbox.c.host_id.is_(None))),
    ~sa.exists().where(
        _earlier.c.host_id == _outbox.c.host_id, _earlier.c.id < _outbox.c.id),
    ~_waits_for_aggregate)
_DUE = (
    sa.select(_outbox.c.id).where(*_is_due)
    .order_by(_outbox.c.next_at, _outbox.c.id).limit(_BATCH))
_READ_DUE = (
    sa.select(_outbox.c.id, _outbox.c.attempt, _outbox.c.subject, _outbox.c.lease_id,
              _outbox.c.host_id, _outbox.c.call, _outbox.c.arguments)
    .where(_outbox.c.id == sa.bindparam("of_id"), *_is_due))
_DEQUEUE = (
    sa.update(_outbox)
    .where(_outbox.c.id == sa.bindparam("of_id"),
           _outbox.c.attempt == sa.bindparam("of_attempt"), _is_free_to_owner)
    .values(owner=sa.bindparam("of_owner"), attempt=_outbox.c.attempt + 1,
            deadline_at=clock.in_seconds(sa.literal_column(str(_DEADLINE_SECONDS), sa.Integer))))
_PROVIDER = sa.select(tables.computehosts.c.provider_uuid).where(
    tables.computehosts.c.id == sa.bindparam("of_host"))
_of_aggregate = _outbox.c.call.in_(sorted(compute_calls.OF_AGGREGATE)) & (
    _outbox.c.subject == sa.bindparam("of_subject"))
_of_freepool = _outbox.c.call.in_(sorted(compute_calls.OF_FREEPOOL))
#: {call: queries for the first row of its aggregate, and for another row that is being called}.
_SAME_AGGREGATE = {
    name: (sa.select(sa.func.min(_outbox.c.id)).where(same),
           sa.select(_outbox.c.id).where(
               same, _outbox.c.owner != sa.bindparam("of_owner"),
               _outbox.c.deadline_at > clock.now()).limit(1))
    for names, same in ((compute_calls.OF_AGGREGATE, _of_aggregate),
                        (compute_calls.OF_FREEPOOL, _of_freepool))
    for name in names}
_LOCK = sa.update(_outbox).where(_outbox.c.id == sa.bindparam("of_id")).values(
    updated_at=sa.bindparam("now"))
_DELETE = sa.delete(_outbox).where(*_is_owned)
_DELETE_IF_EXPIRED = _DELETE.where(_outbox.c.give_up_at <= clock.now())
_RESCHEDULE = sa.update(_outbox).where(*_is_owned).values(
    owner=None, deadline_at=None, problem=sa.bindparam("new_problem"),
    next_at=clock.in_seconds(sa.bindparam("pause", type_=sa.Integer)))
#: The compute service did not answer: that time is no part of what servers may take.
_RESCHEDULE_UNANSWERED = _RESCHEDULE.values(give_up_at=sa.case(
    (_outbox.c.give_up_at > clock.now(), sa.null()), else_=_outbox.c.give_up_at))
#: The compute service did what it could: the call has not failed, and begins anew.
_RESCHEDULE_WAITING = _RESCHEDULE.values(attempt=0, give_up_at=sa.func.coalesce(
    _outbox.c.give_up_at, clock.in_seconds(sa.bindparam("patience", type_=sa.Integer))))
_of_subject = _outbox.c.subject == sa.bindparam("of_subject")
_of_hosts = sa.and_(_of_subject, _outbox.c.host_id.in_(sa.bindparam("hosts", expanding=True)))
_of_host_in_freepool = _of_freepool & (_outbox.c.host_id == sa.bindparam("of_host"))
_CANCEL, _CANCEL_OF_HOSTS, _CANCEL_IN_FREEPOOL = (
    (sa.delete(_outbox).where(rows, _is_free),
     sa.update(_outbox).where(rows).values(give_up_at=clock.now()))
    for rows in (_of_subject, _of_hosts, _of_host_in_freepool))
#: The ids that a host had before it was removed, while calls about it are pending: the last of
#: them is the one that removes it from the freepool.
_EARLIER_IDS = sa.select(_outbox.c.host_id).distinct().where(
    _of_freepool, _outbox.c.arguments == sa.bindparam("of_arguments"))
_CHANGE_HOST_ID = sa.update(_outbox).where(
    _outbox.c.host_id.in_(sa.bindparam("earlier_ids", expanding=True))
).values(host_id=sa.bindparam("new_id"))
_is_image = _outbox.c.call == compute_calls.IMAGES
_CANCEL_BUT_IMAGES = (
    sa.delete(_outbox).where(_of_subject, _is_free, ~_is_image),
    sa.update(_outbox).where(_of_subject).values(give_up_at=sa.case(
        (~_is_image, clock.now()),
        else_=sa.func.coalesce(
            _outbox.c.give_up_at,
            clock.in_seconds(sa.bindparam("patience", type_=sa.Integer))))))
_LIST = sa.select(_outbox).order_by(_outbox.c.id)
_RETRY = sa.update(_outbox).where(_outbox.c.owner.is_(None)).values(next_at=clock.now())
_RETRY_ONE = _RETRY.where(_outbox.c.id == sa.bindparam("of_id"))
_STATUSES = sa.select(_reservations.c.id, _reservations.c.lease_id, _reservations.c.status).where(
    _reservations.c.id.in_(sa.bindparam("ids", expanding=True)))
_SUBJECTS_WITH_CALLS = sa.select(_outbox.c.subject).where(
    _outbox.c.subject.in_(sa.bindparam("ids", expanding=True)))


def _store_result(column: sa.Column[Any]) -> sa.Update:
    return sa.update(column.table).where(
        column.table.c.reservation_id == sa.bindparam("of_reservation")
    ).values({column.name: sa.bindparam("result")})


#: {call: where its result is stored}. That of calls that remove something is None, and clears it.
_STORE_RESULT: dict[str, tuple[sa.Update, ...]] = {
    call: tuple(_store_result(column) for column in columns)
    for call, columns in {
        "remove_server_group": [_slots.c.server_group_id],
        "put_flavor": [_slots.c.flavor_id],
        "remove_flavor": [_slots.c.flavor_id],
        "put_slot_aggregate": [_slots.c.aggregate_id],
        "put_host_aggregate": [_hosts.c.aggregate_id],
        "remove_aggregate": [_slots.c.aggregate_id, _hosts.c.aggregate_id],
    }.items()}
_INTEGER_RESULTS = frozenset({"put_slot_aggregate", "put_host_aggregate"})
_LARGEST_INTEGER = 2**31 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class OutboxCall:
    """A pending call.

    :ivar subject: a reservation's id, or ``host:<id>``.
    :ivar attempts: how often it was dequeued since it was inserted, or last waited for servers.
    :ivar next_at: the earliest time of the next attempt; aware UTC.
    :ivar problem: why the last attempt did not complete it; None: not known.
    """

    id: int
    subject: str
    lease_id: str | None
    name: str
    arguments: dict[str, Any]
    attempts: int
    next_at: datetime.datetime
    problem: str | None
    created_at: datetime.datetime


@dataclasses.dataclass(slots=True)
class CallCounts:
    """The outcomes of dequeued calls.

    :ivar made: calls that are complete.
    :ivar waiting: calls that wait for servers to be gone.
    :ivar failed: calls that got no answer, or were refused.
    :ivar taken: calls that were dequeued; another worker may have completed some of them.
    """

    made: int = 0
    waiting: int = 0
    failed: int = 0
    taken: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class AuditResult:
    """Objects in the compute service whose reservations have ended or are unknown.

    :ivar removed: ids of reservations that have ended; their objects will be removed.
    :ivar unknown: ids that no reservation here has (any more); their objects stay.
    """

    removed: Sequence[str]
    unknown: Sequence[str]


class _NotOwner(Exception):
    """Another worker owns the row by now."""


# Writing --------------------------------------------------------------------


def put(
    session: Session, subject: str, lease_id: str | None, calls: Iterable[ComputeCall]
) -> None:
    """Insert calls, in their order; they are made after the commit.

    The caller must hold the lock on the row that the subject belongs to (the lease's; the pool's
    for hosts), so that transactions insert calls about one subject one after the other.

    :param subject: a reservation's id, or ``host:<id>``.
    """
    rows = [{
        "subject": subject, "lease_id": lease_id, "host_id": call.host_id, "call": call.name,
        "arguments": _format_arguments(call), "attempt": 0,
        "created_at": utcnow()} for call in calls]
    if rows:
        session.execute(_INSERT, rows)


def _format_arguments(call: ComputeCall) -> str:
    return json.dumps(dict(call.arguments), ensure_ascii=True)


def cancel(session: Session, subject: str, hosts: Collection[int] | None = None) -> None:
    """Discard calls about a subject, because calls that the caller inserts replace them.

    A call that is being made at this moment is not repeated if it fails.

    :param hosts: only calls about these hosts.
    """
    for statement in _CANCEL if hosts is None else _CANCEL_OF_HOSTS:
        session.execute(statement, {"of_subject": subject} | (
            {} if hosts is None else {"hosts": sorted(hosts)}))


def cancel_but_images(session: Session, subject: str, patience_seconds: int) -> None:
    """Discard calls as ``cancel`` does, except those that make images of servers.

    :param patience_seconds: how long the images may take from now on.
    """
    for statement in _CANCEL_BUT_IMAGES:
        session.execute(statement, {"of_subject": subject, "patience": patience_seconds})


def cancel_in_freepool(session: Session, host_id: int) -> None:
    """Discard calls that change whether a host is in the freepool, as ``cancel`` does.

    They may be about any subject: the end of a reservation puts its hosts back.
    """
    for statement in _CANCEL_IN_FREEPOOL:
        session.execute(statement, {"of_host": host_id})


def adopt_calls(session: Session, host_id: int, name: str) -> None:
    """Let calls about a host that has come back wait for those from before it was removed.

    It had another id then, which calls that are still pending have.

    :param host_id: its new id, about which there are no calls yet.
    """
    [call] = compute_calls.remove_from_freepool(host_id, name)
    earlier_ids = session.execute(
        _EARLIER_IDS, {"of_arguments": _format_arguments(call)}).scalars().all()
    if earlier_ids:
        session.execute(_CHANGE_HOST_ID, {"earlier_ids": earlier_ids, "new_id": host_id})


# Making the calls -----------------------------------------------------------


def make_calls(
    ctx: Context, driver: ComputeDriver, owner: str, most: int, *, patience_seconds: int = 600
) -> CallCounts:
    """Make due calls, until none is due or ``most`` calls were dequeued.

    Any number of threads and processes may do so at the same time.

    :param owner: a name that no other thread uses.
    :param patience_seconds: how long servers may take to be gone, from the first call on that the
        compute service answers, and anew after each that it does not.
    :raises errors.Unavailable: the database does not answer.
    """
    counts = CallCounts()
    while counts.taken < most:
        before = counts.taken
        ids = list(_find_due(ctx, owner))
        # So that workers that query at the same time do not all try the same row.
        random.shuffle(ids)
        for id_ in ids:
            if counts.taken == most:
                break
            _make_call(ctx, driver, owner, id_, patience_seconds, counts)
        if counts.taken == before:
            break
    return counts


@db.retry_writes
def _find_due(ctx: Context, owner: str) -> Sequence[int]:
    with db.read_once(ctx) as session:
        return session.execute(_DUE, {"of_owner": owner}).scalars().all()


def _make_call(
    ctx: Context, driver: ComputeDriver, owner: str, id_: int, patience_seconds: int,
    counts: CallCounts,
) -> None:
    began = time.monotonic()
    row = _dequeue(ctx, id_, owner)
    if row is None:
        return
    counts.taken += 1
    # If this worker was stopped in between, another one may own the row as well.
    if time.monotonic() - began > _DEADLINE_SECONDS / 2:
        return
    attempt = {"of_id": row.id, "of_owner": owner, "of_attempt": row.attempt + 1}
    try:
        result = _call_driver(driver, row.call, json.loads(row.arguments))
        if row.call == compute_calls.JOINING and result:
            _join_aggregate(ctx, row.host_id, result)
    except Exception as error:  # noqa: BLE001 (a call that fails must not delay others)
        _record_failure(ctx, attempt, row, error)
        counts.failed += 1
        return
    if row.call in compute_calls.COUNTING and result:
        if not _reschedule(
                ctx, attempt, _RESCHEDULE_WAITING, delete_if_expired=True, pause=_POLL_SECONDS,
                patience=patience_seconds, new_problem=f"{result} are left"):
            counts.waiting += 1
            return
        LOG.warning("%s %s: %s are left after all that time; it goes on without",
                    row.call, row.arguments, result)
        counts.made += 1
    else:
        counts.made += _complete(ctx, attempt, row, result)


def _call_driver(driver: ComputeDriver, name: str, arguments: Mapping[str, Any]) -> Any:
    if name in compute_calls.OBSOLETE:
        return None
    if name not in compute_calls.KNOWN:
        raise ComputeRefused(f"This release knows no call {name}.")
    method = getattr(driver, name)
    if compute_calls.DUE_AT in arguments and not _takes(method, compute_calls.DUE_AT):
        arguments = {key: value for key, value in arguments.items()
                     if key != compute_calls.DUE_AT}
    return check_result(name, method(**arguments))


def _takes(method: Callable[..., object], argument: str) -> bool:
    parameters = inspect.signature(method).parameters
    return argument in parameters or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


@db.retry_writes
def _find_provider(ctx: Context, host_id: int) -> str | None:
    with db.read_once(ctx) as session:
        uuid: str | None = session.execute(_PROVIDER, {"of_host": host_id}).scalar()
        return uuid


def _join_aggregate(ctx: Context, host_id: int, aggregate: str) -> None:
    """Add a host's provider to an aggregate, in case the compute service has not done so here."""
    provider = _find_provider(ctx, host_id)
    if provider is not None:
        aggregates.join(ctx, provider, aggregate)


@db.retry_writes
def _dequeue(ctx: Context, id_: int, owner: str) -> sa.Row[Any] | None:
    """Dequeue a row, return it as it was before; None: it is not due any more.

    It is read here, not by the query that found it: SQLite gives the id of the last row to the
    next one once that is gone, so the id may be that of another call by now, and not its turn.
    """
    with db.write(ctx) as session:
        row = session.execute(_READ_DUE, {"of_id": id_, "of_owner": owner}).one_or_none()
        if row is None or (
                row.call in _SAME_AGGREGATE and not _lock_aggregate(session, row, owner)):
            return None
        result = session.execute(
            _DEQUEUE, {"of_id": id_, "of_attempt": row.attempt, "of_owner": owner})
        return row if result.rowcount == 1 else None


def _lock_aggregate(session: Session, row: sa.Row[Any], owner: str) -> bool:
    """Lock an aggregate until the commit; False: another worker changes its hosts.

    The lock is that of the aggregate's first row: ids only rise, so all workers see the same one.
    """
    first, others = _SAME_AGGREGATE[row.call]
    of_subject = {"of_subject": row.subject} if row.call in compute_calls.OF_AGGREGATE else {}
    first_id = session.execute(first, of_subject).scalar()
    if session.execute(_LOCK, {"of_id": first_id, "now": utcnow()}).rowcount != 1:
        return False
    return session.execute(others, {**of_subject, "of_owner": owner}).first() is None


@db.retry_writes
def _complete(ctx: Context, attempt: Mapping[str, Any], row: sa.Row[Any], result: Any) -> bool:
    """Delete a row and store its call's result; False: another worker owns the row by now."""
    if row.call in _INTEGER_RESULTS:
        result = _parse_integer(result)
    try:
        with db.write(ctx) as session:
            statements = _STORE_RESULT.get(row.call, ())
            if statements:
                lease_rows.lock_all(session, [row.lease_id])
            for statement in statements:
                session.execute(statement, {"of_reservation": row.subject, "result": result})
            if session.execute(_DELETE, attempt).rowcount != 1:
                raise _NotOwner
    except _NotOwner:
        return False
    return True


def _parse_integer(id_: str | None) -> int | None:
    """Return the number that an id is; None if it is none, or one that no column holds."""
    number = int(id_) if id_ is not None and id_.isdecimal() else None
    return None if number is None or number > _LARGEST_INTEGER else number


@db.retry_writes
def _reschedule(
    ctx: Context, /, attempt: Mapping[str, Any], statement: sa.Update, *, delete_if_expired: bool,
    **values: Any,
) -> bool:
    """Reschedule a call.

    :param delete_if_expired: delete it instead, if its ``give_up_at`` has passed.
    :returns: whether it was deleted.
    """
    with db.write(ctx) as session:
        if delete_if_expired and session.execute(_DELETE_IF_EXPIRED, attempt).rowcount:
            return True
        session.execute(statement, {**attempt, **values})
    return False


def _record_failure(
    ctx: Context, attempt: Mapping[str, Any], row: sa.Row[Any], error: Exception
) -> None:
    """Record why a call failed, and when it is made again."""
    is_transient = isinstance(error, errors.Unavailable)
    first, longest = (1, _LONGEST_PAUSE_SECONDS) if is_transient else (
        _FIRST_REFUSED_PAUSE_SECONDS, _LONGEST_REFUSED_PAUSE_SECONDS)
    is_counting = row.call in compute_calls.COUNTING
    problem = texts.make_storable(f"{type(error).__name__}: {error}", LONGEST_PROBLEM)
    if _reschedule(ctx, attempt,
                   _RESCHEDULE_UNANSWERED if is_transient and is_counting else _RESCHEDULE,
                   delete_if_expired=row.call not in compute_calls.UNDOING,
                   pause=min(first * 2 ** min(row.attempt, 10), longest),
                   new_problem=problem):
        LOG.info("%s %s failed, and comes too late to be made again: %s",
                 row.call, row.arguments, problem)
    elif is_transient:
        # Only the first time is worth a warning.
        LOG.log(logging.INFO if row.attempt else logging.WARNING,
                "%s %s did not come through and is made again: %s",
                row.call, row.arguments, problem)
    else:
        LOG.warning("%s %s was refused; it is made again, but somebody has to see to it: %s",
                    row.call, row.arguments, problem,
                    exc_info=None if isinstance(error, errors.Error) else error)


# For operators --------------------------------------------------------------


@db.retry_writes
def list_(ctx: Context, limit: int | None = None) -> list[OutboxCall]:
    """Return the pending calls, in the order of their ids.

    :param limit: how many at most; None: all.
    """
    with db.read_once(ctx) as session:
        return [
            OutboxCall(
                row.id, row.subject, row.lease_id, row.call, json.loads(row.arguments),
                row.attempt, row.next_at.replace(tzinfo=datetime.UTC), row.problem,
                row.created_at.replace(tzinfo=datetime.UTC))
            for row in session.execute(_LIST.limit(limit))]


@db.retry_writes
def retry(ctx: Context, id_: int | None = None) -> int:
    """Make rescheduled calls due now; return how many.

    :param id_: only the call of this id.
    """
    with db.write(ctx) as session:
        return (session.execute(_RETRY) if id_ is None else
                session.execute(_RETRY_ONE, {"of_id": id_})).rowcount


def audit(ctx: Context, driver: ComputeDriver) -> AuditResult:
    """Queue the removal of objects whose reservations have ended.

    Objects of unknown reservations stay: they may be those of another service, or of leases
    whose history was removed.

    :raises ComputeUnavailable, ComputeRefused: the compute service does not list its objects.
    """
    objects = driver.made()
    removed: list[str] = []
    known: set[str] = set()
    ids = sorted(objects)
    for start in range(0, len(ids), _MOST_IDS):
        known_here, ended = _queue_removal(ctx, objects, ids[start:start + _MOST_IDS])
        known |= known_here
        removed += ended
    return AuditResult(removed, [id_ for id_ in ids if id_ not in known])


@db.retry_writes
def _queue_removal(
    ctx: Context, objects: Mapping[str, frozenset[str]], ids: Sequence[str]
) -> tuple[set[str], list[str]]:
    """Insert the calls for those that have ended; return the known ids, and the ended ones."""
    with db.write(ctx) as session:
        rows = session.execute(_STATUSES, {"ids": ids}).all()
        busy = {row.subject for row in session.execute(_SUBJECTS_WITH_CALLS, {"ids": ids})}
        ended = [row for row in rows if row.status == R_DELETED and row.id not in busy]
        for row in ended:
            put(session, row.id, row.lease_id,
                compute_calls.remove_orphans(row.id, objects[row.id]))
    return {row.id for row in rows}, [row.id for row in ended]
