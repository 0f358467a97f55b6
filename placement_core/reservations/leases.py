"""Leases: made, changed and given up, each whole or not at all.

Whoever changes what is promised takes the row of the pool first (``revisions.POOL``), then
the lease's, then its events': one order for all. Planning sees what is committed by then,
and nobody else can promise anything until this is.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import sqlalchemy as sa

from placement_core import db, errors as core_errors
from placement_core.changes import kinds, revisions
from placement_core.context import Context
from placement_core.db import PreparedRead, Session, texts
from placement_core.plugin_api.reservations import (
    Asked,
    DoesNotFit,
    NotChangeable,
    ReservationPlugin,
    Share,
    Window,
)
from placement_core.reservations import (
    admission,
    changing,
    errors,
    fits,
    kept,
    lease_texts,
    notices,
    planning,
    promised,
    records,
    tables,
    terms,
    turns,
)
from placement_core.reservations.effects import Effects
from placement_core.reservations.fits import FreeStep, NextFit
from placement_core.reservations.planning import Granted, Wanted
from placement_core.reservations.policy import Decide, Judgement, LeaseRules
from placement_core.reservations.pools import Pool
from placement_core.reservations.records import (
    Lease,
    LeaseChange,
    NewLease,
    NewReservation,
    Reservation,
)
from placement_core.reservations.schemas import PluginSchemas
from placement_core.reservations.terms import Terms

_leases, _reservations, _held, _texts = (
    tables.leases, tables.lease_reservations, tables.computehost_allocations,
    tables.lease_texts)


@dataclasses.dataclass(frozen=True, slots=True)
class _Admitted:
    """What a lease that can be had gets."""

    terms: Terms
    pool: Pool
    granted: Sequence[Granted]


class _Planned(Exception):
    """It is known what a lease would get, and that is all that was wanted."""

    def __init__(self, shares: Sequence[Sequence[Share]]) -> None:
        super().__init__()
        self.shares = shares


class _Refused(Exception):
    """A change of a lease does not fit.

    :ivar after: the lease as it should have been.
    """

    def __init__(self, why: DoesNotFit, after: Lease, wanted: Sequence[Wanted]) -> None:
        super().__init__(str(why))
        self.why = why
        self.after = after
        self.wanted = wanted


class Leases:
    """Admits, changes and ends leases.

    :param plugins: by resource type.
    """

    def __init__(
        self, plugins: Mapping[str, ReservationPlugin], effects: Effects, rules: LeaseRules, *,
        cleaning_seconds: int, minutes_before_end: int, max_reservations: int,
    ) -> None:
        self._plugins = plugins
        self._schemas = {name: PluginSchemas(plugin) for name, plugin in plugins.items()}
        self._effects = effects
        self._rules = rules
        self._cleaning_seconds = cleaning_seconds
        self._minutes_before_end = minutes_before_end
        self._max_reservations = max_reservations

    # Making ----------------------------------------------------------------------

    def create(self, ctx: Context, new: NewLease) -> Lease:
        """Admit a lease, whole.

        :raises InvalidLease, InvalidReservation: the request makes no sense.
        :raises NoRoom: it does not fit; with the time at which it would.
        :raises PolicyRefused: a rule of the site.
        """
        wanted = self._wanted(new.project_id, new.reservations)
        try:
            judgement = self._judged(ctx, new, wanted)
            return db.retry_writes(self._create)(ctx, new, wanted, judgement.decide)
        except DoesNotFit as refusal:
            raise self._no_room(ctx, refusal, new.start_at, new.end_at, wanted) from None

    def _judged(self, ctx: Context, new: NewLease, wanted: Sequence[Wanted]) -> Judgement:
        return self._rules.prepare(
            ctx, new, plan=lambda: _planned_by(functools.partial(
                db.retry_writes(self._try), ctx, new, wanted)))

    def _create(
        self, ctx: Context, new: NewLease, wanted: Sequence[Wanted], decide: Decide
    ) -> Lease:
        with db.write(ctx) as session:
            revisions.raise_(session, revisions.POOL)
            now = admission.present(session)
            admitted = self._admit(ctx, session, new, wanted, now, decide)
            lease = kept.add(session, _made(new, admitted.terms, wanted, now))
            session.record_change(kinds.LEASE, lease.number)
            granted = list(zip(lease.reservations, admitted.granted, strict=True))
            kept.hold(session, granted, lease.window)
            admission.mark_promised(
                session, admitted.pool, (share for _, each in granted for share in each.shares))
            for reservation in lease.reservations:
                self._effects.made(ctx, lease, reservation)
            notices.add(ctx, notices.CREATED, lease)
        return lease

    def what_if(self, ctx: Context, new: NewLease) -> None:
        """Say what ``create`` would say, and write nothing.

        :raises NoRoom, PolicyRefused, InvalidLease, InvalidReservation:
        """
        wanted = self._wanted(new.project_id, new.reservations)
        try:
            judgement = self._judged(ctx, new, wanted)
            db.retry_writes(self._try)(ctx, new, wanted, judgement.decide)
        except DoesNotFit as refusal:
            raise self._no_room(ctx, refusal, new.start_at, new.end_at, wanted) from None

    def _try(
        self, ctx: Context, new: NewLease, wanted: Sequence[Wanted], decide: Decide
    ) -> None:
        with db.read(ctx) as session:
            self._admit(ctx, session, new, wanted, admission.present(session), decide)

    def _admit(
        self, ctx: Context, session: Session, new: NewLease, wanted: Sequence[Wanted],
        now: datetime.datetime, decide: Decide,
    ) -> _Admitted:
        """Judge a lease that is asked for.

        :raises DoesNotFit, PolicyRefused, InvalidLease, InvalidReservation:
        """
        found = terms.of_new(new, now, self._minutes_before_end)
        pool = admission.read(
            session, wanted, found.window, cleaning_seconds=self._cleaning_seconds)
        granted = planning.plan(pool, found.window, wanted)
        decide(ctx, found.window, [each.shares for each in granted])
        return _Admitted(found, pool, granted)

    def _wanted(
        self, project_id: str, reservations: Sequence[NewReservation]
    ) -> list[Wanted]:
        """Check what is asked for, as far as it does not depend on anything else.

        :raises InvalidLease, InvalidReservation:
        """
        if not 1 <= len(reservations) <= self._max_reservations:
            raise errors.InvalidLease(
                f"A lease has 1 to {self._max_reservations} reservations.", "reservations")
        wanted = []
        for each in reservations:
            plugin = self._plugin(each.resource_type)
            self._schemas[each.resource_type].check_new(each.given)
            wanted.append(Wanted(plugin, Asked(
                str(uuid.uuid4()), project_id, plugin.values(each.given))))
        return wanted

    def _plugin(self, resource_type: str) -> ReservationPlugin:
        plugin = self._plugins.get(resource_type)
        if plugin is None:
            raise errors.InvalidLease(
                f"The {resource_type[:66]} resource type is not supported.", "resource_type")
        return plugin

    # When it fits ----------------------------------------------------------------

    def next_fit(
        self, ctx: Context, project_id: str, reservations: Sequence[NewReservation], *,
        since: datetime.datetime | None, seconds: int,
    ) -> NextFit | None:
        """Return when a lease of these reservations fits; None: at no time that was tried.

        :param since: no earlier than then; None: from now on.
        :raises InvalidLease, InvalidReservation: the request makes no sense.
        """
        wanted = self._wanted(project_id, reservations)
        terms.check_fit(since, seconds)
        return db.retry_writes(self._next_fit)(ctx, wanted, since, lambda _: seconds)

    def _next_fit(
        self, ctx: Context, wanted: Sequence[Wanted], since: datetime.datetime | None,
        seconds: Callable[[datetime.datetime], int], instead: Lease | None = None,
    ) -> NextFit | None:
        """Return when reservations fit.

        :param seconds: how long, if it begins then.
        :param instead: of which they are: what it holds is free.
        """
        promises = promised.of(ctx.database).present(ctx).without(
            None if instead is None else instead.number)
        with db.read(ctx) as session:
            now = admission.present(session)
            begin = now if since is None else max(since.replace(microsecond=0), now)
            start = int(begin.timestamp())
            pool = admission.foresee(
                session, wanted, start, promises, cleaning_seconds=self._cleaning_seconds,
                without=() if instead is None else _ids(instead))
        return fits.next_fit(pool, start, seconds(begin), wanted)

    def _no_room(
        self, ctx: Context, refusal: DoesNotFit, start_at: datetime.datetime | None,
        end_at: datetime.datetime, wanted: Sequence[Wanted], instead: Lease | None = None,
    ) -> DoesNotFit:
        """Return a refusal with the time at which the same lease fits."""
        def seconds(begin: datetime.datetime) -> int:
            return max(1, int((end_at - (start_at or begin)).total_seconds()))

        try:
            found = db.retry_writes(self._next_fit)(ctx, wanted, start_at, seconds, instead)
        except core_errors.Unavailable:
            # Why it does not fit now is known already.
            return refusal
        return errors.NoRoom(refusal, None if found is None else found.window.start_at)

    def timeline(self, ctx: Context, window: Window) -> list[FreeStep]:
        """Return how much of the pool is free over time."""
        return fits.timeline(db.retry_writes(self._pool)(ctx, window), window)

    def _pool(self, ctx: Context, window: Window) -> Pool:
        promises = promised.of(ctx.database).present(ctx).promises
        with db.read(ctx) as session:
            return admission.foresee(
                session, (), window.start, promises, cleaning_seconds=self._cleaning_seconds)

    # Changing --------------------------------------------------------------------

    def change(
        self, ctx: Context, lease_id: str, change: LeaseChange, *, project_id: str | None = None
    ) -> Lease:
        """Change a lease, whole, and return it as it is then.

        :param project_id: whose it must be; None: anybody's.
        :raises LeaseNotFound, NotChangeable: and what ``create`` raises.
        """
        if not _besides(change, "name"):
            return db.retry_writes(self._rename)(ctx, lease_id, change.name, project_id)
        if change.end_now:
            ended = db.retry_writes(self._end_now)(ctx, lease_id, change, project_id)
            self._rules.ended(ctx, ended)
            return ended
        before = get(ctx, lease_id, project_id=project_id)
        attempt = functools.partial(
            db.retry_writes(self._change), ctx, lease_id, change, project_id)
        try:
            judgement = self._rules.prepare(
                ctx, self._as_asked(before, change), before,
                plan=lambda: _planned_by(attempt))
            return attempt(judgement.decide)
        except _Refused as refused:
            after = refused.after
            if after.status != records.PENDING:
                # It begins when it began.
                raise refused.why from None
            raise self._no_room(
                ctx, refused.why, after.start_at, after.end_at, refused.wanted,
                after) from None

    def _rename(
        self, ctx: Context, lease_id: str, name: str | None, project_id: str | None
    ) -> Lease:
        with db.write(ctx) as session:
            lease, now = _taken(session, lease_id, project_id)
            if name in (None, lease.name):
                return lease
            kept.update(session, lease.number, {"name": name, "updated_at": kept.naive(now)})
            lease = dataclasses.replace(lease, name=name, updated_at=now)
            notices.add(ctx, notices.CHANGED, lease)
        return lease

    def _end_now(
        self, ctx: Context, lease_id: str, change: LeaseChange, project_id: str | None
    ) -> Lease:
        if _besides(change, "name", "end_now"):
            raise errors.InvalidLease(
                "Nothing but the name of a lease can change while it ends.", "end_date")
        with db.write(ctx) as session:
            revisions.raise_(session, revisions.POOL)
            lease, now = _taken(session, lease_id, project_id)
            _check_not_over(lease, now)
            if lease.status == records.PENDING:
                raise errors.InvalidLease(
                    "End date must be later than start date.", "end_date")
            shown = dataclasses.replace(
                lease, name=lease.name if change.name is None else change.name,
                end_at=max(now, lease.start_at + datetime.timedelta(seconds=1)))
            kept.update(session, lease.number, {
                "name": shown.name, "end_at": kept.naive(shown.end_at)})
            return turns.end(
                ctx, session, self._plugins, self._effects, lease, now, shown=shown)

    def _change(
        self, ctx: Context, lease_id: str, change: LeaseChange, project_id: str | None,
        decide: Decide,
    ) -> Lease:
        with db.write(ctx) as session:
            revisions.raise_(session, revisions.POOL)
            before, now = _taken(session, lease_id, project_id)
            _check_not_over(before, now)
            found = terms.of_change(before, change, now)
            after = changing.changed(
                before, change.name, found, self._new_fields(before, change), now)
            if after == before:
                return before
            left = Window(max(after.start_at, now), after.end_at)
            held = kept.shares(session, before)
            planned = self._planned(session, before, after, left, held)
            granted = planned or [Granted(held[each.id]) for each in after.reservations]
            if planned:
                after = changing.repaired(after)
            decide(ctx, after.window, [each.shares for each in granted])
            holdings = [
                changing.Holding(each, held[each.id], given)
                for each, given in zip(after.reservations, granted, strict=True)]
            changing.write(session, before, after, holdings, left, now)
            self._tell(ctx, before, after, holdings)
        return after

    def _planned(
        self, session: Session, before: Lease, after: Lease, left: Window,
        held: Mapping[str, Sequence[Share]],
    ) -> list[Granted]:
        """Return what a lease that changes gets; nothing: it keeps what it holds.

        :param left: what is left of its window.
        :raises _Refused: it cannot be had.
        :raises NotChangeable, InvalidLease, InvalidReservation:
        """
        if after.reservations == before.reservations and (
                before.start_at <= after.start_at and after.end_at <= before.end_at):
            return []
        wanted = [
            Wanted(self._plugin(each.resource_type), Asked(
                each.id, after.project_id, each.fields, held[each.id],
                started=each.status == records.R_ACTIVE))
            for each in after.reservations]
        pool = admission.read(
            session, wanted, left, cleaning_seconds=self._cleaning_seconds,
            without=_ids(before))
        try:
            granted = planning.plan(pool, left, wanted)
        except DoesNotFit as refusal:
            raise _Refused(refusal, after, wanted) from None
        admission.mark_promised(
            session, pool, (share for each in granted for share in each.shares))
        return granted

    def _new_fields(
        self, lease: Lease, change: LeaseChange
    ) -> dict[str, Mapping[str, Any]]:
        """Return the fields of reservations that shall change, by their ids.

        :raises InvalidLease, InvalidReservation, NotChangeable:
        """
        known = {each.id: each for each in lease.reservations}
        found: dict[str, Mapping[str, Any]] = {}
        for asked in change.reservations:
            if not asked.id:
                raise errors.InvalidLease("Missing parameter reservation ID", "reservations")
            reservation = known.pop(asked.id, None)
            if reservation is None:
                raise errors.InvalidLease(
                    "Please enter valid reservation IDs, each once: the lease has "
                    f"{', '.join(_ids(lease))}.", "reservations")
            if asked.resource_type not in (None, reservation.resource_type):
                raise errors.InvalidLease(
                    "The resource type of a reservation cannot change.", "resource_type")
            plugin = self._plugin(reservation.resource_type)
            self._schemas[reservation.resource_type].check_change(asked.given)
            values = plugin.values(
                asked.given, reservation.fields,
                started=reservation.status == records.R_ACTIVE)
            if values != reservation.fields:
                if reservation.status == records.R_ERROR:
                    raise NotChangeable("The reservation is in error: it cannot change.")
                found[reservation.id] = values
        return found

    def _as_asked(self, lease: Lease, change: LeaseChange) -> NewLease:
        """Return a lease that shall change as it would be asked for.

        :raises InvalidLease, InvalidReservation, NotChangeable:
        """
        fields = self._new_fields(lease, change)
        asked = _as_new(lease)
        return dataclasses.replace(
            asked, name=lease.name if change.name is None else change.name,
            start_at=None if change.start_now else change.start_at or lease.start_at,
            end_at=change.end_at or lease.end_at,
            before_end_at=change.before_end_at or asked.before_end_at,
            reservations=[
                NewReservation(each.resource_type, fields.get(each.id, each.fields))
                for each in lease.reservations])

    def _tell(
        self, ctx: Context, before: Lease, after: Lease, holdings: Sequence[changing.Holding]
    ) -> None:
        """Tell others that a lease was changed."""
        for was, each in zip(before.reservations, holdings, strict=True):
            if each.differs or each.reservation.fields != was.fields:
                self._effects.changed(
                    ctx, after, each.reservation, each.before, each.after.shares)
        notices.add(ctx, notices.CHANGED, after)

    # Giving up -------------------------------------------------------------------

    def delete(self, ctx: Context, lease_id: str, *, project_id: str | None = None) -> None:
        """End a lease if it is in force, and give it up.

        :raises LeaseNotFound:
        :raises WrongStatus: what is left on its hosts refuses that.
        """
        ended = db.retry_writes(self._delete)(ctx, lease_id, project_id)
        if ended is not None:
            self._rules.ended(ctx, ended)

    def _delete(self, ctx: Context, lease_id: str, project_id: str | None) -> Lease | None:
        """Delete a lease; return it if it has ended by that."""
        with db.write(ctx) as session:
            revisions.raise_(session, revisions.POOL)
            lease, now = _taken(session, lease_id, project_id)
            kept.update(session, lease.number, {"deleted_at": kept.naive(now)})
            if lease.status != records.TERMINATED:
                return turns.end(ctx, session, self._plugins, self._effects, lease, now,
                                 notice=notices.DELETED)
            notices.add(ctx, notices.DELETED, lease)
        return None


def _taken(session: Session, lease_id: str, project_id: str | None) -> kept.Found:
    """Take the row of a lease, and return the lease.

    :raises LeaseNotFound:
    """
    if not kept.take(session, lease_id):
        raise errors.LeaseNotFound(f"There is no lease {lease_id[:64]}.")
    found = _found(session, lease_id, project_id)
    session.record_change(kinds.LEASE, found.lease.number)
    return found


def _found(session: Session, lease_id: str, project_id: str | None) -> kept.Found:
    found = kept.find(session, lease_id)
    if found is None or project_id not in (None, found.lease.project_id):
        raise errors.LeaseNotFound(f"There is no lease {lease_id[:64]}.")
    return found


def _check_not_over(lease: Lease, now: datetime.datetime) -> None:
    """Check that a lease has not ended, also if nobody has carried that out yet.

    :raises InvalidLease:
    """
    if lease.status == records.TERMINATED or lease.end_at <= now:
        raise errors.InvalidLease("Terminated leases can only be renamed.", "end_date")


def _besides(change: LeaseChange, *names: str) -> bool:
    """Say whether something else shall change."""
    return any(getattr(change, field.name) for field in dataclasses.fields(change)
               if field.name not in names)


def _ids(lease: Lease) -> list[str]:
    return [each.id for each in lease.reservations]


def _as_new(lease: Lease) -> NewLease:
    """Return a lease as it would be asked for."""
    before_end_at = next(
        (each.due_at for each in lease.events if each.event_type == records.BEFORE_END), None)
    return NewLease(
        lease.name, lease.project_id, lease.user_id, lease.start_at, lease.end_at,
        [NewReservation(each.resource_type, each.fields) for each in lease.reservations],
        before_end_at)


def _planned_by(attempt: Callable[[Decide], object]) -> Sequence[Sequence[Share]] | None:
    """Return what an attempt would get, and undo it; None: it changes nothing."""
    def stop(ctx: Context, window: Window, shares: Sequence[Sequence[Share]]) -> None:
        raise _Planned(shares)

    try:
        attempt(stop)
    except _Planned as planned:
        return planned.shares
    return None


def _made(
    new: NewLease, found: Terms, wanted: Sequence[Wanted], now: datetime.datetime
) -> Lease:
    """Return a lease that begins to be, without its number."""
    id_, window = str(uuid.uuid4()), found.window
    events = [changing.event(id_, records.START, window.start_at, now)]
    if found.before_end_at is not None:
        events.append(changing.event(id_, records.BEFORE_END, found.before_end_at, now))
    events.append(changing.event(id_, records.END, window.end_at, now))
    reservations = [
        Reservation(
            each.asked.reservation_id, id_, each.plugin.resource_type,
            kept.resource_id(each.plugin.resource_type, each.asked.reservation_id),
            records.R_PENDING, False, False, each.asked.values,
            kept.made_of(each.plugin.resource_type, each.asked.reservation_id), now, None)
        for each in wanted]
    return Lease(
        0, id_, new.name, new.user_id, new.project_id, window.start_at, window.end_at,
        records.PENDING, False, None, reservations, events, now, None)


# Reading -----------------------------------------------------------------------------

#: What a page can be sorted by; the number decides among equals.
_SORT_KEYS: Mapping[str, sa.Column[Any]] = {
    "number": _leases.c.number, "start_at": _leases.c.start_at, "end_at": _leases.c.end_at,
    "name": _leases.c.name}


@db.retry_writes
def get(ctx: Context, lease_id: str, *, project_id: str | None = None) -> Lease:
    """Return a lease that was not deleted.

    :param project_id: whose it must be; None: anybody's.
    :raises LeaseNotFound:
    """
    with db.read(ctx) as session:
        return _found(session, lease_id, project_id).lease


class Filters(TypedDict, total=False):
    """Which leases are wanted, and in which order; no filter: all.

    * ``project_id``, ``status``, ``name``: of them.
    * ``host_id``: only those that hold, or held, something of this host.
    * ``overlaps``: only those whose window has something in common with this one.
    * ``sort_key``: ``number``, ``start_at``, ``end_at`` or ``name``; the number decides
      among equals. Without it, the number.
    * ``descending``: the largest first.
    * ``after``: the id of the last one of the page before; it may be deleted by now.
    * ``limit``: at most so many.
    """

    project_id: str | None
    status: str | None
    name: str | None
    host_id: int | None
    overlaps: Window | None
    sort_key: str
    descending: bool
    after: str | None
    limit: int | None


@db.retry_writes
def page(ctx: Context, **filters: Unpack[Filters]) -> list[Lease]:
    """Return leases that were not deleted.

    :raises InvalidLease: ``after`` is no lease that can be seen.
    """
    with db.read(ctx) as session:
        return kept.read(session, [row.id for row in versions(ctx, **filters)])


@db.retry_writes
def versions(ctx: Context, **filters: Unpack[Filters]) -> Sequence[Any]:
    """Return which leases ``page`` would, as rows of an id and a version.

    Of a lease that has the same version as before, everything is as before.

    :raises InvalidLease: ``after`` is no lease that can be seen.
    """
    return _page(ctx, filters, {})


@db.retry_writes
def texts_of(ctx: Context, format_: int, **filters: Unpack[Filters]) -> Sequence[Any]:
    """Return what ``versions`` does, with what was written of each lease in that version.

    :param format_: that of the texts, which are None where there is none.
    :raises InvalidLease: ``after`` is no lease that can be seen.
    """
    return _page(ctx, filters, {"format": format_})


def _page(ctx: Context, filters: Filters, values: Mapping[str, Any]) -> Sequence[Any]:
    wanted: dict[str, Any] = {**values} | {
        name: filters[name] for name in ("project_id", "status", "name", "host_id")
        if filters.get(name) is not None}
    if not all(texts.is_storable(value) for value in wanted.values() if isinstance(value, str)):
        return []
    if (limit := filters.get("limit")) is not None:
        wanted["most"] = limit
    if (overlaps := filters.get("overlaps")) is not None:
        wanted |= {"starts": kept.naive(overlaps.start_at), "ends": kept.naive(overlaps.end_at)}
    sort_key = filters.get("sort_key", "number")
    if (after := filters.get("after")) is not None:
        last = _marked(ctx, after, wanted.get("project_id"))
        wanted |= {"last_number": last.number, "last_value": last._asdict()[sort_key]}
    chosen = _chosen(
        frozenset(wanted) - {"last_value"}, sort_key, filters.get("descending", False))
    return chosen.fetch(ctx, wanted)


def _marked(ctx: Context, lease_id: str, project_id: str | None) -> Any:
    """Return the lease after which a page begins: what it can be sorted by.

    :raises InvalidLease: it cannot be seen.
    """
    found = _MARKED.fetch(ctx, {"lease_id": lease_id}) if kept.is_id(lease_id) else []
    if not found or project_id not in (None, found[0].project_id):
        raise errors.InvalidLease(f"There is no lease {lease_id[:64]}.", "marker")
    return found[0]


_MARKED = PreparedRead(sa.select(*_SORT_KEYS.values(), _leases.c.project_id).where(
    _leases.c.id == sa.bindparam("lease_id")))


@functools.lru_cache(256)
def _chosen(names: frozenset[str], sort_key: str, descending: bool) -> PreparedRead:
    column, number = _SORT_KEYS[sort_key], _leases.c.number
    statement = sa.select(_leases.c.id, _leases.c.version).where(kept.EXISTING, *(
        _leases.c[name] == sa.bindparam(name)
        for name in sorted(names & {"project_id", "status", "name"})))
    if "format" in names:
        statement = statement.add_columns(_texts.c.text).outerjoin(_texts, lease_texts.PRESENT)
    if "host_id" in names:
        statement = statement.where(sa.exists().where(
            _held.c.reservation_id == _reservations.c.id,
            _reservations.c.lease_id == _leases.c.id,
            _held.c.computehost_id == sa.bindparam("host_id")))
    if "starts" in names:
        statement = statement.where(
            _leases.c.start_at < sa.bindparam("ends"), _leases.c.end_at > sa.bindparam("starts"))
    if "last_number" in names:
        statement = statement.where(_beyond(
            [column, number] if column is not number else [number], descending))
    order = [column, number] if column is not number else [number]
    statement = statement.order_by(*(each.desc() if descending else each for each in order))
    return PreparedRead(
        statement.limit(sa.bindparam("most", type_=sa.Integer)) if "most" in names
        else statement)


def _beyond(
    order: Sequence[sa.Column[Any]], descending: bool
) -> sa.ColumnElement[bool]:
    """Return which rows come after the last one that was seen."""
    def further(column: sa.Column[Any], name: str) -> sa.ColumnElement[bool]:
        last = sa.bindparam(name, type_=column.type)
        return column < last if descending else column > last

    *by_value, number = order
    beyond = further(number, "last_number")
    for column in by_value:
        same = column == sa.bindparam("last_value", type_=column.type)
        beyond = sa.or_(further(column, "last_value"), sa.and_(same, beyond))
    return beyond
