"""The outbox: calls to the compute service, written with what they follow from, made later.

A row is written in the transaction that makes its call necessary, so it is there if and
only if that is. Any number of workers make the calls: whoever takes a row, by raising its
``attempt``, commits, makes the call outside of any transaction, and removes the row, if
the row still is of that attempt. One who dies, or is stopped, leaves a row that another
takes at its deadline: a call is made at least once, and made twice is made once.

Order: a call waits for all that were written before it about the same host, or about the
same subject, unless both are about hosts, and different ones. So the hosts of a reservation
do not wait for each other, and who comes to a host waits until it was left. Two calls that
change which hosts are in one aggregate may come in any order, but never at the same time.

Locks: a lease's row, a reservation's row, then rows of the outbox.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import random
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from placement_core import db, errors
from placement_core.context import Context
from placement_core.db import Session, clock
from placement_core.db.metadata import utcnow
from placement_core.placement import aggregates
from placement_core.plugin_api.compute import ComputeDriver, ComputeRefused
from placement_core.reservations import tables
from placement_core.reservations.provisioning import compute_calls
from placement_core.reservations.provisioning.compute_calls import ComputeCall
from placement_core.reservations.records import R_DELETED
from placement_core.reservations.store import lease_rows

LOG = logging.getLogger(__name__)

#: For so long a row is the one's who took it.
_DEADLINE_SECONDS = 300
#: How soon somebody looks again whether servers are gone.
_LOOK_AGAIN_SECONDS = 2
#: How long to wait at most after a call that did not come through, and after a refused one.
_LONGEST_PAUSE_SECONDS = 60
_LONGEST_REFUSED_PAUSE_SECONDS = 600
_FIRST_REFUSED_PAUSE_SECONDS = 15
#: How many due rows one look finds.
_BATCH = 20
#: How many ids one statement names.
_MOST_IDS = 500
_LONGEST_PROBLEM = 2000

_outbox, _reservations = tables.outbox, tables.lease_reservations
_slots, _hosts = tables.instance_reservations, tables.computehost_reservations

_before = _outbox.alias("before")
_free = sa.or_(_outbox.c.owner.is_(None), _outbox.c.deadline_at <= clock.now())
_mine = (_outbox.c.id == sa.bindparam("of_id"), _outbox.c.owner == sa.bindparam("of_owner"),
         _outbox.c.attempt == sa.bindparam("of_attempt"))

_PUT = sa.insert(_outbox).inline().values(next_at=clock.now())
_DUE = (
    sa.select(_outbox.c.id, _outbox.c.attempt, _outbox.c.subject, _outbox.c.lease_id,
              _outbox.c.host_id, _outbox.c.call, _outbox.c.arguments)
    .where(
        _outbox.c.next_at <= clock.now(), _free,
        ~sa.exists().where(
            _before.c.subject == _outbox.c.subject, _before.c.id < _outbox.c.id,
            sa.or_(_before.c.host_id.is_(None), _outbox.c.host_id.is_(None))),
        ~sa.exists().where(
            _before.c.host_id == _outbox.c.host_id, _before.c.id < _outbox.c.id))
    .order_by(_outbox.c.next_at, _outbox.c.id).limit(_BATCH))
_TAKE = (
    sa.update(_outbox)
    .where(_outbox.c.id == sa.bindparam("of_id"),
           _outbox.c.attempt == sa.bindparam("of_attempt"), _free)
    .values(owner=sa.bindparam("new_owner"), attempt=_outbox.c.attempt + 1,
            deadline_at=clock.in_seconds(sa.literal_column(str(_DEADLINE_SECONDS), sa.Integer))))
_PROVIDER = sa.select(tables.computehosts.c.provider_uuid).where(
    tables.computehosts.c.id == sa.bindparam("of_host"))
_of_aggregate = _outbox.c.call.in_(sorted(compute_calls.OF_AGGREGATE)) & (
    _outbox.c.subject == sa.bindparam("of_subject"))
_of_freepool = _outbox.c.call.in_(sorted(compute_calls.OF_FREEPOOL))
#: For calls of either kind: the first row of the same aggregate, and those that are being made.
_SAME_AGGREGATE = {
    name: (sa.select(sa.func.min(_outbox.c.id)).where(same),
           sa.select(_outbox.c.id).where(
               same, _outbox.c.owner.is_not(None), _outbox.c.deadline_at > clock.now(),
               _outbox.c.id != sa.bindparam("but_id")).limit(1))
    for names, same in ((compute_calls.OF_AGGREGATE, _of_aggregate),
                        (compute_calls.OF_FREEPOOL, _of_freepool))
    for name in names}
_HOLD = sa.update(_outbox).where(_outbox.c.id == sa.bindparam("of_id")).values(
    updated_at=sa.bindparam("now"))
_DONE = sa.delete(_outbox).where(*_mine)
_DONE_IF_LATE = _DONE.where(_outbox.c.give_up_at <= clock.now())
_AGAIN = sa.update(_outbox).where(*_mine).values(
    owner=None, deadline_at=None, problem=sa.bindparam("new_problem"),
    next_at=clock.in_seconds(sa.bindparam("pause", type_=sa.Integer)))
_WAIT = _AGAIN.values(give_up_at=sa.func.coalesce(
    _outbox.c.give_up_at, clock.in_seconds(sa.bindparam("patience", type_=sa.Integer))))
_of_subject = _outbox.c.subject == sa.bindparam("of_subject")
_of_hosts = sa.and_(_of_subject, _outbox.c.host_id.in_(sa.bindparam("hosts", expanding=True)))
_CANCEL, _CANCEL_OF_HOSTS = (
    (sa.delete(_outbox).where(rows, _free),
     sa.update(_outbox).where(rows).values(give_up_at=clock.now()))
    for rows in (_of_subject, _of_hosts))
_is_image = _outbox.c.call == compute_calls.IMAGES
_CANCEL_BUT_IMAGES = (
    sa.delete(_outbox).where(_of_subject, _free, ~_is_image),
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
_SUBJECTS = sa.select(_outbox.c.subject).where(
    _outbox.c.subject.in_(sa.bindparam("ids", expanding=True)))


def _keep(column: sa.Column[Any]) -> sa.Update:
    return sa.update(column.table).where(
        column.table.c.reservation_id == sa.bindparam("of_reservation")
    ).values({column.name: sa.bindparam("result")})


#: Where the result of a call is kept; what removes a thing has none.
_KEEP: dict[str, tuple[sa.Update, ...]] = {
    call: tuple(_keep(column) for column in columns)
    for call, columns in {
        "remove_server_group": [_slots.c.server_group_id],
        "put_flavor": [_slots.c.flavor_id],
        "remove_flavor": [_slots.c.flavor_id],
        "put_slot_aggregate": [_slots.c.aggregate_id],
        "put_host_aggregate": [_hosts.c.aggregate_id],
        "remove_aggregate": [_slots.c.aggregate_id, _hosts.c.aggregate_id],
    }.items()}
_NUMBERS = frozenset({"put_slot_aggregate", "put_host_aggregate"})


@dataclasses.dataclass(frozen=True, slots=True)
class OutboxCall:
    """A call that is still to be made.

    :ivar subject: a reservation's id, or ``host:<id>``.
    :ivar attempts: how often somebody took it.
    :ivar next_at: not before then; aware UTC.
    :ivar problem: why it is still here, as far as is known.
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
    """What became of the rows that somebody took.

    :ivar made: calls that are made.
    :ivar waiting: calls that wait for servers to be gone.
    :ivar failed: calls that did not come through, or were refused.
    """

    made: int = 0
    waiting: int = 0
    failed: int = 0

    @property
    def taken(self) -> int:
        """Return how many there were."""
        return self.made + self.waiting + self.failed


@dataclasses.dataclass(frozen=True, slots=True)
class AuditResult:
    """What there is in the compute service of reservations that are none.

    :ivar removed: reservations that have ended: what is left of them will be removed.
    :ivar unknown: ids that no reservation here has, or has any more: they stay.
    """

    removed: Sequence[str]
    unknown: Sequence[str]


class _Lost(Exception):
    """The row is somebody else's by now."""


# Writing --------------------------------------------------------------------


def put(
    session: Session, subject: str, lease_id: str | None, calls: Iterable[ComputeCall]
) -> None:
    """Write down calls, in their order, that have to be made once this is committed.

    The subject's own row (the lease's; the pool's for hosts) must be held, so that those
    who write about the same thing do so one after the other.

    :param subject: a reservation's id, or ``host:<id>``.
    """
    rows = [{
        "subject": subject, "lease_id": lease_id, "host_id": call.host_id, "call": call.name,
        "arguments": json.dumps(dict(call.arguments), ensure_ascii=True), "attempt": 0,
        "created_at": utcnow()} for call in calls]
    if rows:
        session.execute(_PUT, rows)


def cancel(session: Session, subject: str, hosts: Collection[int] | None = None) -> None:
    """Have calls about a subject not made any more, because what follows makes up for them.

    One that is being made at this moment is not made again if it fails.

    :param hosts: only those about these hosts.
    """
    for statement in _CANCEL if hosts is None else _CANCEL_OF_HOSTS:
        session.execute(statement, {"of_subject": subject} | (
            {} if hosts is None else {"hosts": sorted(hosts)}))


def cancel_but_images(session: Session, subject: str, patience_seconds: int) -> None:
    """Have calls not made any more, as ``cancel``, but images of servers that will go.

    :param patience_seconds: how long these may take from now on.
    """
    for statement in _CANCEL_BUT_IMAGES:
        session.execute(statement, {"of_subject": subject, "patience": patience_seconds})


# Making the calls -----------------------------------------------------------


def work_off(
    ctx: Context, driver: ComputeDriver, owner: str, most: int, *, patience_seconds: int = 600
) -> CallCounts:
    """Make calls that are due, until there are none, or so many were made.

    Any number of threads and processes may do so at the same time.

    :param owner: a name that no other thread has.
    :param patience_seconds: how long servers may take to go, from the first call on.
    :raises errors.Unavailable: the database does not answer.
    """
    counts = CallCounts()
    while counts.taken < most:
        before = counts.taken
        due = list(_due(ctx))
        # So that those who look at the same time do not all try to take the same one.
        random.shuffle(due)
        for row in due[:most - before]:
            _work_off_one(ctx, driver, owner, row, patience_seconds, counts)
        if counts.taken == before:
            break
    return counts


@db.retry_writes
def _due(ctx: Context) -> Sequence[sa.Row[Any]]:
    with db.read_once(ctx) as session:
        return session.execute(_DUE).all()


def _work_off_one(
    ctx: Context, driver: ComputeDriver, owner: str, row: sa.Row[Any], patience_seconds: int,
    counts: CallCounts,
) -> None:
    attempt = {"of_id": row.id, "of_owner": owner, "of_attempt": row.attempt + 1}
    began = time.monotonic()
    arguments = _take(ctx, row, owner)
    # Who was stopped in between is not the only one who has it any more.
    if arguments is None or time.monotonic() - began > _DEADLINE_SECONDS / 2:
        return
    try:
        result = _call(driver, row.call, arguments)
        if row.call == compute_calls.JOINING and result:
            _join(ctx, row.host_id, result)
    except Exception as error:  # noqa: BLE001 (one call that goes wrong keeps no other back)
        _failed(ctx, attempt, row, error)
        counts.failed += 1
        return
    if row.call in compute_calls.COUNTING and result:
        if not _retry_later(ctx, attempt, _WAIT, or_late=True, pause=_LOOK_AGAIN_SECONDS,
                            patience=patience_seconds, new_problem=f"{result} are left"):
            counts.waiting += 1
            return
        LOG.warning("%s %s: %s are left after all that time; it goes on without",
                    row.call, row.arguments, result)
        counts.made += 1
    else:
        counts.made += _done(ctx, attempt, row, result)


def _call(driver: ComputeDriver, name: str, arguments: Mapping[str, Any]) -> Any:
    if name in compute_calls.OBSOLETE:
        return None
    if name not in compute_calls.KNOWN:
        raise ComputeRefused(f"This release knows no call {name}.")
    return getattr(driver, name)(**arguments)


@db.retry_writes
def _provider(ctx: Context, host_id: int) -> str | None:
    with db.read_once(ctx) as session:
        uuid: str | None = session.execute(_PROVIDER, {"of_host": host_id}).scalar()
        return uuid


def _join(ctx: Context, host_id: int, aggregate: str) -> None:
    """Have a host's provider in an aggregate, whether or not the compute service told us so."""
    provider = _provider(ctx, host_id)
    if provider is not None:
        aggregates.join(ctx, provider, aggregate)


@db.retry_writes
def _take(ctx: Context, row: sa.Row[Any], owner: str) -> dict[str, Any] | None:
    """Take a row and return the arguments of its call; None: somebody else was first."""
    with db.write(ctx) as session:
        if row.call in _SAME_AGGREGATE and not _lock_aggregate(session, row):
            return None
        taken = session.execute(
            _TAKE, {"of_id": row.id, "of_attempt": row.attempt, "new_owner": owner})
        if taken.rowcount != 1:
            return None
        arguments: dict[str, Any] = json.loads(row.arguments)
        return arguments


def _lock_aggregate(session: Session, row: sa.Row[Any]) -> bool:
    """Lock an aggregate until the commit; False: somebody changes its hosts at this moment.

    Who holds it has its first row, which all who come see: ids only rise.
    """
    first, others = _SAME_AGGREGATE[row.call]
    of_subject = {"of_subject": row.subject} if row.call in compute_calls.OF_AGGREGATE else {}
    first_id = session.execute(first, of_subject).scalar()
    if session.execute(_HOLD, {"of_id": first_id, "now": utcnow()}).rowcount != 1:
        return False
    return session.execute(others, {**of_subject, "but_id": row.id}).first() is None


@db.retry_writes
def _done(ctx: Context, attempt: Mapping[str, Any], row: sa.Row[Any], result: Any) -> bool:
    """Remove a row, and keep what the call returned; False: it is somebody else's by now."""
    if row.call in _NUMBERS:
        result = int(result) if result is not None and result.isdecimal() else None
    try:
        with db.write(ctx) as session:
            keep = _KEEP.get(row.call, ())
            if keep:
                lease_rows.lock_all(session, [row.lease_id])
            for statement in keep:
                session.execute(statement, {"of_reservation": row.subject, "result": result})
            if session.execute(_DONE, attempt).rowcount != 1:
                raise _Lost
    except _Lost:
        return False
    return True


@db.retry_writes
def _retry_later(
    ctx: Context, /, attempt: Mapping[str, Any], statement: sa.Update, *, or_late: bool,
    **values: Any,
) -> bool:
    """Have a call made again, later.

    :param or_late: if its time is over, remove it instead.
    :returns: whether it was removed.
    """
    with db.write(ctx) as session:
        if or_late and session.execute(_DONE_IF_LATE, attempt).rowcount:
            return True
        session.execute(statement, {**attempt, **values})
    return False


def _failed(
    ctx: Context, attempt: Mapping[str, Any], row: sa.Row[Any], error: Exception
) -> None:
    """Note why a call failed, and when it is made again."""
    passing = isinstance(error, errors.Unavailable)
    first, longest = (1, _LONGEST_PAUSE_SECONDS) if passing else (
        _FIRST_REFUSED_PAUSE_SECONDS, _LONGEST_REFUSED_PAUSE_SECONDS)
    if _retry_later(ctx, attempt, _AGAIN, or_late=row.call not in compute_calls.UNDOING,
                    pause=min(first * 2 ** min(row.attempt, 10), longest),
                    new_problem=f"{type(error).__name__}: {error}"[:_LONGEST_PROBLEM]):
        LOG.info("%s %s failed, and comes too late to be made again: %s",
                 row.call, row.arguments, error)
    elif passing:
        # The first time is news.
        LOG.log(logging.INFO if row.attempt else logging.WARNING,
                "%s %s did not come through and is made again: %s",
                row.call, row.arguments, error)
    else:
        LOG.warning("%s %s was refused; it is made again, but somebody has to see to it: %s",
                    row.call, row.arguments, error,
                    exc_info=None if isinstance(error, errors.Error) else error)


# For operators --------------------------------------------------------------


@db.retry_writes
def list_(ctx: Context) -> list[OutboxCall]:
    """Return the calls that are still to be made, in their order."""
    with db.read_once(ctx) as session:
        return [
            OutboxCall(
                row.id, row.subject, row.lease_id, row.call, json.loads(row.arguments),
                row.attempt, row.next_at.replace(tzinfo=datetime.UTC), row.problem,
                row.created_at.replace(tzinfo=datetime.UTC))
            for row in session.execute(_LIST)]


@db.retry_writes
def retry(ctx: Context, id_: int | None = None) -> int:
    """Have calls made now that wait to be made again; return how many.

    :param id_: only this one.
    """
    with db.write(ctx) as session:
        return (session.execute(_RETRY) if id_ is None else
                session.execute(_RETRY_ONE, {"of_id": id_})).rowcount


def audit(ctx: Context, driver: ComputeDriver) -> AuditResult:
    """Have removed what is there of reservations that have ended.

    What is there of others stays: of those of another service, say, or of leases that are
    not kept any more.

    :raises ComputeUnavailable, ComputeRefused: the compute service does not say what it has.
    """
    objects = driver.made()
    removed: list[str] = []
    known: set[str] = set()
    ids = sorted(objects)
    for start in range(0, len(ids), _MOST_IDS):
        seen, ended = _queue_removal(ctx, objects, ids[start:start + _MOST_IDS])
        known |= seen
        removed += ended
    return AuditResult(removed, [id_ for id_ in ids if id_ not in known])


@db.retry_writes
def _queue_removal(
    ctx: Context, objects: Mapping[str, frozenset[str]], ids: Sequence[str]
) -> tuple[set[str], list[str]]:
    """Write down what removes things of those that have ended; return the known, and these."""
    with db.write(ctx) as session:
        rows = session.execute(_STATUSES, {"ids": ids}).all()
        busy = {row.subject for row in session.execute(_SUBJECTS, {"ids": ids})}
        ended = [row for row in rows if row.status == R_DELETED and row.id not in busy]
        for row in ended:
            put(session, row.id, row.lease_id, compute_calls.remove_made(row.id, objects[row.id]))
    return {row.id for row in rows}, [row.id for row in ended]
