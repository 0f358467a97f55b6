"""What workers report, in the database."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from placement_core import db, metrics
from placement_core.context import Context
from placement_core.db import clock, lists, texts
from placement_core.workers import tables
from placement_core.workers.records import Cause, Refusal, RefusalReport, Worker, WorkerReport

_workers, _refusals = tables.workers, tables.refusals

#: Refusals of the last hour can be read.
KEEP_SECONDS = 3600
#: So long is known of a worker that is gone, and of no more than so many of these.
_FORGET_SECONDS = KEEP_SECONDS
_MOST_WORKERS = 1000
#: How many rows are read to merge equal refusals of several workers.
_MOST_ROWS = 2000


def _ago(name: str) -> sa.ColumnElement[datetime.datetime]:
    return clock.in_seconds(-sa.bindparam(name, type_=sa.BigInteger))


def _before(seconds: int) -> sa.ColumnElement[datetime.datetime]:
    return clock.in_seconds(sa.literal_column(str(-seconds), sa.Integer))


#: The other columns have parameters of their names.
_STATE = {
    "seen_at": clock.now(), "index_read_at": sa.case(
        (sa.bindparam("has_index", type_=sa.Boolean), _ago("seconds_since_index")))}
_UPDATE = sa.update(_workers).where(_workers.c.uuid == sa.bindparam("of_uuid")).values(_STATE)
_INSERT = sa.insert(_workers).inline().values(
    {**_STATE, "started_at": _ago("seconds_since_start")})
_EMPTY_SLOTS = sa.delete(_refusals).where(
    _refusals.c.worker_uuid == sa.bindparam("of_uuid"), lists.among(_refusals.c.slot, "slots"))
_FILL_SLOT = sa.insert(_refusals).inline().values(
    at=_ago("seconds_ago"), first_at=_ago("first_seconds_ago"))
_IS_GONE = _workers.c.seen_at < _before(_FORGET_SECONDS)
_GONE = sa.select(_workers.c.uuid).where(_IS_GONE)
_SURPLUS = (
    sa.select(_workers.c.uuid).order_by(_workers.c.seen_at.desc(), _workers.c.uuid)
    .limit(_MOST_WORKERS).offset(_MOST_WORKERS))
_REMOVE = sa.delete(_workers).where(_workers.c.uuid == sa.bindparam("of_uuid"))
_FORGET_OLD_REFUSALS = sa.delete(_refusals).where(_refusals.c.at <= _before(KEEP_SECONDS))
_FORGET_REFUSALS = sa.delete(_refusals).where(lists.among_many(_refusals.c.worker_uuid, "uuids"))
_FORGET = sa.delete(_workers).where(lists.among_many(_workers.c.uuid, "uuids"))
_LIST = (
    sa.select(_workers, clock.now().label("now")).where(~_IS_GONE)
    .order_by(_workers.c.seen_at.desc(), _workers.c.uuid)
    .limit(sa.bindparam("most", type_=sa.Integer)))
_RECENT = (
    sa.select(_refusals).where(_refusals.c.at > _before(KEEP_SECONDS))
    .order_by(_refusals.c.at.desc(), _refusals.c.worker_uuid, _refusals.c.slot)
    .limit(_MOST_ROWS))
_OF_PROJECT = _RECENT.where(_refusals.c.project_id == sa.bindparam("of_project"))
#: Not the newest time: a worker that reports later may report what was earlier. What is written
#: has a time of its own. The sum of whole ones would be too large for SQLite.
_DIGEST = sa.select(
    sa.func.sum(clock.microseconds(_refusals.c.at) % 1_000_000_000)).select_from(_refusals)


# Writing ----------------------------------------------------------------------


def write(
    ctx: Context, report: WorkerReport, refusals: Mapping[int, RefusalReport],
    emptied: Collection[int],
) -> bool:
    """Write what a worker reports; return whether it is its first report.

    It is not repeated if it fails: the next report has all of it.

    :param refusals: those that changed, by slot, the oldest first.
    :param emptied: slots that have none any more.
    """
    state = {
        **{name: getattr(report, name) for name in (
            "index_providers", "in_flight", "requests", "refusals", "refusals_last_minute")},
        "codes": json.dumps(dict(report.codes)),
        "has_index": report.seconds_since_index is not None,
        "seconds_since_index": report.seconds_since_index or 0}
    is_new = False
    with db.write(ctx) as session:
        if session.execute(_UPDATE, {**state, "of_uuid": report.uuid}).rowcount == 0:
            is_new = True
            session.execute(_INSERT, {**state, **{name: getattr(report, name) for name in (
                "uuid", "host", "process_id", "version", "seconds_since_start")}})
        slots = sorted({*refusals, *emptied})
        if slots:
            session.execute(_EMPTY_SLOTS, {"of_uuid": report.uuid, "slots": slots})
        for slot, refusal in refusals.items():
            session.execute(_FILL_SLOT, {
                "worker_uuid": report.uuid, "slot": slot,
                **dataclasses.asdict(refusal.cause), "seconds_ago": refusal.seconds_ago,
                "first_seconds_ago": refusal.first_seconds_ago, "times": refusal.times,
                "request_id": refusal.request_id, "detail": refusal.detail})
    return is_new


@db.retry_writes
def remove(ctx: Context, uuid: str) -> None:
    """Remove a worker that ends; what it refused can be read for the rest of its hour."""
    with db.write(ctx) as session:
        session.execute(_REMOVE, {"of_uuid": uuid})


@db.retry_writes
def forget(ctx: Context) -> int:
    """Remove the workers that are gone for an hour; return how many. Old refusals, too.

    Of those that are gone for less, too, if there are more than a thousand, with their refusals.
    """
    with db.read_each(ctx) as session:
        uuids = {row.uuid for statement in (_GONE, _SURPLUS)
                 for row in session.execute(statement)}
    of_workers = 0
    with db.write(ctx) as session:
        of_refusals = session.execute(_FORGET_OLD_REFUSALS).rowcount
        if uuids:
            of_refusals += session.execute(_FORGET_REFUSALS, {"uuids": sorted(uuids)}).rowcount
            of_workers = session.execute(_FORGET, {"uuids": sorted(uuids)}).rowcount
    metrics.count_removed_rows(_refusals.name, of_refusals)
    metrics.count_removed_rows(_workers.name, of_workers)
    return of_workers


# Reading ----------------------------------------------------------------------


@db.retry_writes
def list_workers(ctx: Context, most: int) -> list[Worker]:
    """Return the workers that reported in the last hour, those heard of last first."""
    with db.read_once(ctx) as session:
        return [_make_worker(row) for row in session.execute(_LIST, {"most": most})]


@db.retry_writes
def list_refusals(ctx: Context, most: int, *, project_id: str | None = None) -> list[Refusal]:
    """Return the refusals of the last hour, the newest first; equal ones of all workers as one.

    :param project_id: only those of callers in this project; None: all.
    """
    if project_id is not None and not texts.is_storable(project_id):
        return []
    with db.read_once(ctx) as session:
        rows = session.execute(_RECENT).all() if project_id is None else session.execute(
            _OF_PROJECT, {"of_project": project_id}).all()
    merged: dict[Cause, Refusal] = {}
    for row in rows:
        refusal = _make_refusal(row)
        newer = merged.get(refusal.cause)
        merged[refusal.cause] = refusal if newer is None else dataclasses.replace(
            newer, times=newer.times + refusal.times,
            first_at=min(newer.first_at, refusal.first_at))
    return list(merged.values())[:most]


@db.retry_writes
def digest_refusals(ctx: Context) -> str:
    """Return a text that differs once another request was refused."""
    with db.read_once(ctx) as session:
        return str(session.execute(_DIGEST).scalar())


def _make_worker(row: sa.Row[Any]) -> Worker:
    return Worker(
        row.uuid, row.host, row.process_id, row.version, _make_aware(row.started_at),
        _make_aware(row.seen_at), max(0.0, (row.now - row.seen_at).total_seconds()),
        None if row.index_read_at is None else _make_aware(row.index_read_at),
        row.index_providers, row.in_flight, row.requests, row.refusals,
        row.refusals_last_minute, json.loads(row.codes))


def _make_refusal(row: sa.Row[Any]) -> Refusal:
    return Refusal(
        Cause(row.operation, row.status, row.code, row.project_id, row.user_id),
        _make_aware(row.at), _make_aware(row.first_at), row.times, row.request_id, row.detail)


def _make_aware(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(tzinfo=datetime.UTC)
