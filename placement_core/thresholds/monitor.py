"""Measures now and then, and reports each crossing of a threshold once.

What is reached is a row of ``reached_thresholds``. A manager reads the rows, measures, and changes
a row only if it still is as it was read; where it read none, only if none was removed since. So of
several managers one reports a crossing, and one that is slow does not bring back what is over. The
row, the change in the log and the deliveries to webhooks are one transaction: a report is made if
and only if the state has changed. A level that is left becomes a row of ``left_thresholds`` in it,
which the next one removes after a week.

Managers that have other options, because they are restarted one after the other, would report the
same level as reached and as left in turn. So a level that only the options have left stays for an
hour.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from placement_core import db
from placement_core.changes import kinds
from placement_core.context import Context
from placement_core.db import Session, clock, inserts, lists
from placement_core.placement.candidates.errors import UnknownRequestedClass
from placement_core.placement.candidates.requests import CandidatesRequest, RequestGroup
from placement_core.placement.index import CapacityIndex
from placement_core.placement.room import fits
from placement_core.placement.room.shapes import Shape
from placement_core.quota.overview import Overviews
from placement_core.thresholds import levels, tables, webhooks
from placement_core.thresholds.levels import Measurement, Subject

LOG = logging.getLogger(__name__)

#: The change log cuts no names.
_LONGEST_NAME = 255

#: So long a level stays at least that only other options leave.
_KEEP_REACHED = datetime.timedelta(hours=1)
#: So long it is known that a threshold was left.
_KEEP_LEFT_SECONDS = 7 * 86_400

_reached, _left = tables.reached_thresholds, tables.left_thresholds

_ALL = sa.select(_reached).order_by(_reached.c.uuid)
_AFTER = _ALL.where(_reached.c.uuid > sa.bindparam("after")).limit(
    sa.bindparam("most", type_=sa.Integer))
#: The table has only what is reached now, so its few rows need no index of times.
_NEWEST = sa.select(_reached).order_by(_reached.c.reached_at.desc(), _reached.c.uuid).limit(
    sa.bindparam("most", type_=sa.Integer))
_SOME = sa.select(_reached).where(lists.among_many(_reached.c.uuid, "uuids"))
_NOW = sa.select(clock.now())
_INSERT = inserts.build_skipping_insert(_reached)
#: Each change of the level sets the time anew, also if it comes back to what it was.
_IS_AS_READ = (
    _reached.c.uuid == sa.bindparam("of_uuid"), _reached.c.level == sa.bindparam("was"),
    _reached.c.reached_at == sa.bindparam("was_reached_at"))
_UPDATE = sa.update(_reached).where(*_IS_AS_READ)
_DELETE = sa.delete(_reached).where(*_IS_AS_READ)
_KEPT_SINCE = clock.in_seconds(sa.literal_column(str(-_KEEP_LEFT_SECONDS), sa.Integer))
_NEWEST_LEFT = (
    sa.select(_left).where(_left.c.left_at > _KEPT_SINCE)
    .order_by(_left.c.left_at.desc(), _left.c.uuid, _left.c.level)
    .limit(sa.bindparam("most", type_=sa.Integer)))
_FORGET_LEFT = sa.delete(_left).where(sa.or_(
    _left.c.left_at <= _KEPT_SINCE,
    sa.and_(_left.c.uuid == sa.bindparam("of_uuid"), _left.c.level == sa.bindparam("was"))))
_INSERT_LEFT = sa.insert(_left).inline()
_DELETE_IF_LEFT_SINCE = sa.delete(_reached).where(
    _reached.c.uuid == sa.bindparam("of_uuid"), sa.exists().where(
        _left.c.uuid == sa.bindparam("of_uuid"), _left.c.left_at > sa.bindparam("read_at")))


@dataclasses.dataclass(frozen=True, slots=True)
class ReachedThreshold:
    """A threshold that is reached now.

    :ivar level: the percentage of the limit; of capacity 1.
    :ivar measurement: what was measured when that level was reached.
    :ivar reached_at: when; aware.
    """

    level: int
    measurement: Measurement
    reached_at: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class LeftThreshold:
    """A threshold that was reached for some time.

    :ivar level: as in ``ReachedThreshold``.
    :ivar bound: the limit, or what was wanted, when it was left, and ``measured`` what was
        measured then; None: the limit was no more, or the request was not looked at any more.
    :ivar reached_at, left_at: from when to when; aware.
    """

    level: int
    subject: Subject
    bound: int | None
    measured: int | None
    reached_at: datetime.datetime
    left_at: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class _Crossing:
    """A change of the level of a subject.

    :ivar reached_at: when the level before was reached; None: there was none.
    :ivar read_at: when the level before was read, or somewhat before.
    :ivar measurement: None: the limit is no more, or the request is not looked at any more.
    """

    subject: Subject
    before: int
    after: int
    reached_at: datetime.datetime | None
    read_at: datetime.datetime
    measurement: Measurement | None


@dataclasses.dataclass(frozen=True, slots=True)
class _Levels:
    """What a look begins with.

    :ivar reached: what was reached, by subject.
    :ivar read_at: when that was read, or somewhat before; aware, by the database's clock.
    """

    reached: Mapping[Subject, ReachedThreshold]
    read_at: datetime.datetime


class ThresholdMonitor:
    """Measures, and reports crossings. Thread-safe.

    :param exclude_reserved: hosts of the freepool do not count as capacity.
    :ivar targets: the webhooks that get reports.
    :raises errors.ConfigurationError: webhooks are configured wrongly.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, overviews: Overviews, index: CapacityIndex,
        shapes: Sequence[Shape], *, exclude_reserved: bool,
    ) -> None:
        options = conf.thresholds
        self._percentages = sorted({int(text) for text in options.percentages})
        self._hysteresis: int = options.hysteresis
        self._fewest: int = options.fewest_shapes
        self.targets = webhooks.read_targets(conf)
        self._overviews = overviews
        self._index = index
        self._shapes = shapes
        self._exclude_reserved = exclude_reserved

    def check(self, ctx: Context) -> int:
        """Measure everything, and report what has crossed a threshold; return how many.

        :raises errors.Unavailable: limits, catalog, usage or the database do not answer.
        """
        before = _read_levels(ctx)
        try:
            limits = self._measure_limits(ctx, before.reached)
            reported = self._report_crossings(ctx, before, limits)
        finally:
            # Whatever keeps limits from being known, capacity may be short.
            capacity = self._measure_capacity(ctx, before.reached)
            reported_capacity = self._report_crossings(ctx, before, capacity)
        return reported + reported_capacity

    def _report_crossings(
        self, ctx: Context, before: _Levels,
        measurements: Mapping[Subject, Measurement | None],
    ) -> int:
        """Report what has crossed a threshold; return how many.

        :param measurements: None for subjects that are no more; without those about which nothing
            is known.
        """
        crossings = []
        for subject, measurement in measurements.items():
            reached = before.reached.get(subject)
            level = 0 if reached is None else reached.level
            after = 0 if measurement is None else self._find_level(measurement, level)
            if reached is not None and after < level and self._stays(
                    reached, measurement, before.read_at):
                continue
            if after != level:
                crossings.append(_Crossing(
                    subject, level, after, None if reached is None else reached.reached_at,
                    before.read_at, measurement))
        return sum(_report(ctx, crossing, self.targets) for crossing in crossings)

    def _stays(
        self, reached: ReachedThreshold, measurement: Measurement | None,
        now: datetime.datetime,
    ) -> bool:
        """Say whether a level stays yet: it is new, and only the options have left it."""
        if now - reached.reached_at >= _KEEP_REACHED:
            return False
        if reached.measurement.subject.kind == "capacity":
            return measurement is None or levels.find_shortage(
                dataclasses.replace(measurement, bound=reached.measurement.bound),
                self._hysteresis, reached.level) == reached.level
        return measurement is not None and levels.find_percentage(
            measurement, [reached.level], self._hysteresis, reached.level) == reached.level

    def _find_level(self, measurement: Measurement, before: int) -> int:
        if measurement.subject.kind == "capacity":
            return levels.find_shortage(measurement, self._hysteresis, before)
        return levels.find_percentage(measurement, self._percentages, self._hysteresis, before)

    def _measure_limits(
        self, ctx: Context, before: Collection[Subject]
    ) -> dict[Subject, Measurement | None]:
        """Return the limits, as for ``_report_crossings``; none where cells do not answer."""
        # The default binds a project that the catalog does not have also when it uses nothing.
        usages, missing_cells = self._overviews.measure_limits(ctx, {
            subject.node_id for subject in before if subject.node_id is not None})
        if missing_cells:
            LOG.warning("limits are not compared with thresholds: %d cells do not answer",
                        len(missing_cells))
            return {}
        measurements = [Measurement(
            Subject("limit", usage.node_id, usage.scope, usage.resource_name, usage.user_id),
            usage.limit, usage.used) for usage in usages]
        gone = {subject: None for subject in before if subject.kind == "limit"}
        return {**gone, **{each.subject: each for each in measurements}}

    def _measure_capacity(
        self, ctx: Context, before: Collection[Subject]
    ) -> dict[Subject, Measurement | None]:
        """Return how often each usual request fits, as for ``_report_crossings``.

        Where that is too hard to say, nothing is known.
        """
        measured: dict[Subject, Measurement | None] = {
            subject: None for subject in before if subject.kind == "capacity"}
        if not self._fewest:
            return measured
        snapshot = self._index.snapshot(ctx)
        for shape in self._shapes:
            subject = Subject("capacity", None, None, ",".join(
                f"{name}:{amount}" for name, amount in sorted(shape.amounts.items())))
            try:
                fitting = fits.find(
                    snapshot, CandidatesRequest((RequestGroup("", shape.amounts),)),
                    most_hosts=0, exclude_reserved=self._exclude_reserved)
            except UnknownRequestedClass:
                measured[subject] = Measurement(subject, self._fewest, 0)
                continue
            is_known = fitting.exact or fitting.fits >= self._fewest
            if is_known:
                measured[subject] = Measurement(subject, self._fewest, fitting.fits)
            else:
                measured.pop(subject, None)
        return measured


@db.retry_writes
def _read_levels(ctx: Context) -> _Levels:
    with db.read_each(ctx) as session:
        read_at: datetime.datetime = session.execute(_NOW).scalar_one()
        records = [_make_record(row) for row in session.execute(_ALL)]
    return _Levels({record.measurement.subject: record for record in records},
                   read_at.replace(tzinfo=datetime.UTC))


@db.retry_writes
def list_(ctx: Context, *, after: str = "", limit: int | None = None) -> list[ReachedThreshold]:
    """Return the thresholds that are reached now, by the uuids of their subjects.

    :param after: only those of greater uuids.
    :param limit: how many at most; None: all.
    """
    with db.read_once(ctx) as session:
        rows = session.execute(_ALL if limit is None else _AFTER, {"after": after, "most": limit})
        return [_make_record(row) for row in rows]


@db.retry_writes
def list_newest(ctx: Context, most: int) -> list[ReachedThreshold]:
    """Return the thresholds that are reached now, those that were reached last first."""
    with db.read_once(ctx) as session:
        return [_make_record(row) for row in session.execute(_NEWEST, {"most": most})]


@db.retry_writes
def list_left(ctx: Context, most: int) -> list[LeftThreshold]:
    """Return the thresholds that were left in the last week, those that were left last first.

    Of a level that was left several times, the last time.
    """
    with db.read_once(ctx) as session:
        return [LeftThreshold(
            row.level, _make_subject(row), row.bound, row.measured,
            row.reached_at.replace(tzinfo=datetime.UTC),
            row.left_at.replace(tzinfo=datetime.UTC))
            for row in session.execute(_NEWEST_LEFT, {"most": most})]


def read(session: Session, uuids: Collection[str]) -> list[ReachedThreshold]:
    """Return the thresholds that some subjects have reached, by the uuids of these."""
    if not uuids:
        return []
    return [_make_record(row) for row in session.execute(_SOME, {"uuids": sorted(uuids)})]


def list_after(
    session: Session, uuid: str, *, node_id: str | None, most: int
) -> list[ReachedThreshold]:
    """Return the thresholds that are reached now, by the uuids of their subjects.

    :param uuid: only greater ones.
    :param node_id: only those of this project or domain; None: all.
    """
    statement = _AFTER if node_id is None else _AFTER.where(_reached.c.node_id == node_id)
    return [_make_record(row)
            for row in session.execute(statement, {"after": uuid, "most": most})]


def render(reached: ReachedThreshold) -> dict[str, Any]:
    """Return the document of a threshold that is reached."""
    measurement = reached.measurement
    subject = measurement.subject
    return {"uuid": subject.uuid, **_describe(subject, measurement.bound, measurement.measured),
            "level": reached.level, "reached_at": reached.reached_at.isoformat()}


def render_left(left: LeftThreshold) -> dict[str, Any]:
    """Return the document of a threshold that was left."""
    return {"uuid": left.subject.uuid, **_describe(left.subject, left.bound, left.measured),
            "level": left.level, "reached_at": left.reached_at.isoformat(),
            "left_at": left.left_at.isoformat()}


@db.retry_writes
def _report(ctx: Context, crossing: _Crossing, targets: Sequence[webhooks.Target]) -> bool:
    """Store a crossing with its reports; return whether no other manager did so before."""
    subject = crossing.subject
    with db.write(ctx) as session:
        now: datetime.datetime = session.execute(_NOW).scalar_one()
        if not _store(session, crossing, now):
            return False
        if crossing.after < crossing.before:
            _store_left(session, crossing, now)
        event_id = str(uuid.uuid4())
        session.record_change(
            kinds.THRESHOLD, uuid=subject.uuid, name=subject.resource_name[:_LONGEST_NAME],
            project=subject.node_id or "")
        webhooks.put(session, targets, event_id, _make_body(event_id, crossing, now))
    LOG.warning("threshold: %s of %s went from %d to %d", subject.resource_name,
                subject.node_id or "all hosts", crossing.before, crossing.after)
    return True


def _store(session: Session, crossing: _Crossing, now: datetime.datetime) -> bool:
    """Change the row of a subject if it still is as it was read; return whether it was."""
    subject, measurement = crossing.subject, crossing.measurement
    values = {} if measurement is None else {
        "level": crossing.after, "bound": measurement.bound, "measured": measurement.measured,
        "reached_at": now}
    if crossing.reached_at is None:
        inserted = session.execute(_INSERT, {
            "uuid": subject.uuid, **dataclasses.asdict(subject), **values}).rowcount == 1
        # Asked afterwards: the insert has waited for whoever was removing the row.
        return inserted and session.execute(_DELETE_IF_LEFT_SINCE, {
            "of_uuid": subject.uuid, "read_at": _make_naive(crossing.read_at)}).rowcount == 0
    as_read = {"of_uuid": subject.uuid, "was": crossing.before,
               "was_reached_at": _make_naive(crossing.reached_at)}
    change = _UPDATE.values(values) if crossing.after else _DELETE
    return session.execute(change, as_read).rowcount == 1


def _store_left(session: Session, crossing: _Crossing, now: datetime.datetime) -> None:
    """Store that the level before was left, and forget what was left long ago."""
    subject, measurement, reached_at = (
        crossing.subject, crossing.measurement, crossing.reached_at)
    assert reached_at is not None  # a level that is left was reached
    session.execute(_FORGET_LEFT, {"of_uuid": subject.uuid, "was": crossing.before})
    session.execute(_INSERT_LEFT, {
        "uuid": subject.uuid, "level": crossing.before, **dataclasses.asdict(subject),
        "bound": None if measurement is None else measurement.bound,
        "measured": None if measurement is None else measurement.measured,
        "reached_at": _make_naive(reached_at), "left_at": now})


def _make_body(event_id: str, crossing: _Crossing, now: datetime.datetime) -> str:
    measurement = crossing.measurement
    bound = None if measurement is None else measurement.bound
    measured = None if measurement is None else measurement.measured
    return json.dumps({
        "id": event_id, "type": "threshold.crossed",
        "timestamp": now.replace(tzinfo=datetime.UTC).isoformat(),
        "data": {
            "uuid": crossing.subject.uuid, **_describe(crossing.subject, bound, measured),
            "level": crossing.after, "previous_level": crossing.before}})


def _describe(subject: Subject, bound: int | None, measured: int | None) -> dict[str, Any]:
    if subject.kind == "capacity":
        return {"kind": subject.kind, "resources": {
            name: int(amount) for name, _, amount in (
                part.partition(":") for part in subject.resource_name.split(","))},
            "fewest": bound, "fits": measured}
    return {**dataclasses.asdict(subject), "limit": bound, "used": measured}


def _make_record(row: sa.Row[Any]) -> ReachedThreshold:
    return ReachedThreshold(
        row.level, Measurement(_make_subject(row), row.bound, row.measured),
        row.reached_at.replace(tzinfo=datetime.UTC))


def _make_naive(time: datetime.datetime) -> datetime.datetime:
    return time.astimezone(datetime.UTC).replace(tzinfo=None)


def _make_subject(row: sa.Row[Any]) -> Subject:
    return Subject(row.kind, row.node_id, row.scope, row.resource_name, row.user_id)
