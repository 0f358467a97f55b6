"""The three answers in a few lines each: what is full, which limits are tight, what comes next.

For whoever looks at a cloud as a whole. Each part that cannot be read now is left out, with the
reason, and the others are good without it.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from placement_core import errors, services
from placement_core.context import Context
from placement_core.placement.room.groups import RoomFilter
from placement_core.placement.room.sums import Room
from placement_core.quota.overview import NO_LIMIT, Overview
from placement_core.reservations import records
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.manager import backlog
from placement_core.reservations.manager.backlog import Backlog
from placement_core.reservations.records import Lease

T = TypeVar("T")

#: How far ahead one looks.
AHEAD = datetime.timedelta(days=14)


@dataclasses.dataclass(frozen=True, slots=True)
class TightLimit:
    """What a project may still have of a resource.

    :ivar project_name: None: the catalog does not know it.
    :ivar free: regards every limit above the project, too.
    :ivar held_by: the node whose limit leaves no more.
    """

    project_id: str
    project_name: str | None
    resource_name: str
    used: int
    free: int
    held_by: str | None

    @property
    def share(self) -> float:
        """Return which part of what the project could have is used; 1: all of it."""
        return self.used / max(self.used + self.free, 1)


@dataclasses.dataclass(frozen=True, slots=True)
class NextEvent:
    """The start or the end of a lease.

    :ivar what: ``start`` or ``end``.
    """

    at: datetime.datetime
    what: str
    lease: Lease


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """A cloud at a glance; None: a part that cannot be read now.

    :ivar rooms: by resource class.
    :ivar tight_limits: the tightest first.
    :ivar next_events: of leases within ``AHEAD``, in their order; late ones are first.
    :ivar leases: how many leases have each status.
    :ivar troubles: why parts are missing, a sentence each.
    """

    read_at: datetime.datetime
    rooms: Mapping[str, Room] | None
    tight_limits: Sequence[TightLimit] | None
    next_events: Sequence[NextEvent] | None
    backlog: Backlog | None
    leases: Mapping[str, int] | None
    troubles: Sequence[str]


def read(parts: services.Services, ctx: Context, most: int) -> Summary:
    """Read a summary.

    :param most: how many limits and how many events at most.
    """
    now = datetime.datetime.now(datetime.UTC)
    troubles: list[str] = []

    def attempt(read_part: Callable[[], T]) -> T | None:
        try:
            return read_part()
        except errors.Unavailable as error:
            if str(error) not in troubles:
                troubles.append(str(error))
            return None

    return Summary(
        now,
        attempt(lambda: parts.room.measure(ctx, RoomFilter())),
        attempt(lambda: find_tight_limits(parts.overviews.make(ctx), most)),
        attempt(lambda: _list_next_events(ctx, now, most)),
        attempt(lambda: backlog.measure(ctx)),
        attempt(lambda: backlog.count_leases(ctx)),
        troubles)


def find_tight_limits(overview: Overview, most: int) -> list[TightLimit]:
    """Return the limits that leave the least of what projects could have, the tightest first.

    Those that nothing counts against are none.
    """
    limits = [
        TightLimit(project_id, overview.names.get(project_id), name, used, free, held_by)
        for name, column in overview.resources.items()
        if column.used is not None and column.free is not None
        for project_id, used, free, held_by in zip(
            overview.project_ids, column.used, column.free, column.held_by, strict=True)
        if free != NO_LIMIT and used > 0]
    limits.sort(key=lambda limit: (-limit.share, limit.project_id, limit.resource_name))
    return limits[:most]


def order_events(leases: Sequence[Lease], before: datetime.datetime) -> list[NextEvent]:
    """Return the starts of pending leases, and the ends of all, in their order.

    Those that should have happened already are first.
    """
    events = [NextEvent(lease.start_at, "start", lease) for lease in leases
              if lease.status == records.PENDING]
    events += [NextEvent(lease.end_at, "end", lease) for lease in leases]
    return sorted((event for event in events if event.at < before),
                  key=lambda event: (event.at, event.lease.number))


def _list_next_events(
    ctx: Context, now: datetime.datetime, most: int
) -> list[NextEvent]:
    # What begins later than these begins later than all that is shown.
    leases = [
        *lease_queries.page(ctx, status=records.PENDING, sort_key="start_at", limit=most),
        *lease_queries.page(ctx, status=records.ACTIVE, sort_key="end_at", limit=most)]
    return order_events(leases, now + AHEAD)[:most]
