"""What the last comparison with each source came to, and what is to be done next."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa

from placement_core import db
from placement_core.context import Context
from placement_core.takeover import origins, tables
from placement_core.takeover.errors import OtherPlace
from placement_core.takeover.sources import make_label

#: For how long a result tells something.
FRESH = datetime.timedelta(days=1)

_runs = tables.comparisons

_FINISHED = sa.select(_runs).where(_runs.c.finished_at.is_not(None)).order_by(
    _runs.c.source, _runs.c.started_at, _runs.c.finished_at)


@dataclasses.dataclass(frozen=True, slots=True)
class LastComparison:
    """What the last comparison with a source came to.

    :ivar compared: how many of its records were compared.
    :ivar differences: how many of them were missing here or different, and how many records of
        its kinds are only here.
    :ivar left_out: how many of its records cannot be copied; None: an earlier release did not
        count them.
    """

    source: str
    location: str
    started_at: datetime.datetime
    finished_at: datetime.datetime
    compared: int
    differences: int
    left_out: int | None

    def is_stale(self, now: datetime.datetime) -> bool:
        """Return whether too much may have happened since it was begun."""
        return now - self.started_at > FRESH


@dataclasses.dataclass(frozen=True, slots=True)
class SourceStatus:
    """A source from which records were copied, or with which ours were compared.

    :ivar source: the name of its service, with what tells it from others (``Source.origin``).
    :ivar last: its last comparison; None: there was none.
    """

    source: str
    last: LastComparison | None

    @property
    def service(self) -> str:
        """The name of its service."""
        return self.source.partition("@")[0]

    def needs_comparison(self, now: datetime.datetime) -> bool:
        """Return whether another comparison may tell more."""
        return bool(self._find_reason_to_compare(now))

    def find_doubt(self, now: datetime.datetime) -> str:
        """Say why it is not certain that ours is equal; "": it is."""
        doubts = [self._find_reason_to_compare(now)]
        if self.last is not None and self.last.left_out:
            doubts.append(describe_left_out(self.last.left_out))
        return ", ".join(filter(None, doubts))

    def _find_reason_to_compare(self, now: datetime.datetime) -> str:
        if self.last is None:
            return "not compared"
        if self.last.differences:
            return f"{self.last.differences} differences"
        if self.last.is_stale(now):
            return "stale"
        return "compared by an earlier release" if self.last.left_out is None else ""

    def describe(self, now: datetime.datetime) -> str:
        """Return what is known, in one line."""
        if self.last is None:
            return f"{self.source}: copied, not compared yet"
        stale = ", stale: that was more than a day ago" if self.last.is_stale(now) else ""
        return (f"{self.source}: {_describe_outcome(self.last)} ({self.last.compared} records of "
                f"{self.last.location}, {self.last.started_at:%Y-%m-%d %H:%M} UTC{stale})")


def _describe_outcome(last: LastComparison) -> str:
    """Return what a comparison came to, in some words."""
    left_out = f"{count_records(last.left_out)} that cannot be copied" if last.left_out else ""
    if last.differences:
        return f"{last.differences} differences" + (f", and {left_out}" if left_out else "")
    return "equal" + (f" but for {left_out}" if left_out else "")


def count_records(number: int) -> str:
    """Return a number of records, in words."""
    return f"{number} record" if number == 1 else f"{number} records"


def describe_left_out(number: int) -> str:
    """Say how many records cannot be copied."""
    return f"{count_records(number)} cannot be copied"


@db.retry_writes
def list_last(ctx: Context) -> list[LastComparison]:
    """Return the last comparison with each source that came to an end."""
    with db.read_once(ctx) as session:
        return list({row.source: LastComparison(
            row.source, row.location, _to_utc(row.started_at), _to_utc(row.finished_at),
            row.compared, row.differences, row.left_out,
        ) for row in session.execute(_FINISHED)}.values())


def require_places(ctx: Context, locations: Mapping[str, str]) -> None:
    """Refuse sources in other places than those with which ours was compared last.

    A place is a host and the name of a database: users, drivers and options may be others.

    :param locations: {source: where it is to be read from, without secrets}.
    :raises OtherPlace: one is.
    """
    for last in list_last(ctx):
        location = locations.get(last.source)
        if location is not None and make_label(location) != make_label(last.location):
            raise OtherPlace(last.source, last.location, location)


def list_sources(ctx: Context) -> list[SourceStatus]:
    """Return all sources that were copied or compared, by name."""
    last = {comparison.source: comparison for comparison in list_last(ctx)}
    return [SourceStatus(source, last.get(source))
            for source in sorted({*last, *origins.list_sources(ctx)})]


def describe_doubts(sources: Iterable[SourceStatus], now: datetime.datetime) -> str:
    """Return of which sources it is not certain that ours is equal, and why; "": of none."""
    doubts = [(source.source, source.find_doubt(now)) for source in sources]
    return "; ".join(f"{source}: {doubt}" for source, doubt in doubts if doubt)


def find_open_step(sources: Sequence[SourceStatus], now: datetime.datetime) -> str:
    """Return what tells more of what is not certain to be equal, and why; "": all is certain."""
    doubts = describe_doubts(sources, now)
    if not doubts:
        return ""
    command = ("migrate diff" if any(source.needs_comparison(now) for source in sources)
               else "migrate check")
    return f'"{command}" ({doubts})'


def find_next_step(sources: Sequence[SourceStatus], now: datetime.datetime) -> str:
    """Return what there is to do before a shadow is begun, in a sentence."""
    if not sources:
        return '"migrate check", then "migrate copy --execute".'
    if differing := [source for source in sources if source.last and source.last.differences]:
        names = ", ".join(source.source for source in differing)
        return f'"migrate copy --execute" ({names}), then "migrate diff" again.'
    step = find_open_step(sources, now)
    if any(source.needs_comparison(now) for source in sources):
        return f"{step}."
    return f'{step}{", then " if step else ""}"migrate shadow serve", or let clients reach ours.'


def _to_utc(at: datetime.datetime) -> datetime.datetime:
    return at.replace(tzinfo=datetime.UTC)
