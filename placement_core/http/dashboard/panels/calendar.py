"""When? What of the freepool is free over time, and the leases that have the rest."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

from markupsafe import Markup

from placement_core.http.dashboard import need_form, rendering
from placement_core.http.dashboard.pictures import timeline
from placement_core.http.dashboard.pictures.timeline import Booking, Period, Step
from placement_core.http.operations import Call
from placement_core.plugin_api.reservations import Window
from placement_core.reservations.hosts.host_calendar import HostShare
from placement_core.reservations.leases import lease_queries
from placement_core.reservations.records import Lease
from placement_core.reservations.scheduling.availability import FreeStep

#: How far ahead the overview looks.
AHEAD = datetime.timedelta(days=14)
#: How many steps are shown; shorter ones are merged if there are more.
_MOST_STEPS = 200
_HOUR = datetime.timedelta(hours=1)


@dataclasses.dataclass(frozen=True, slots=True)
class FreeTime:
    """What of the freepool is free over time.

    :ivar steps: without gaps.
    :ivar hosts: how many hosts there are.
    :ivar merged: whether steps that are shorter than others were merged: what is free throughout.
    """

    steps: Sequence[FreeStep]
    hosts: int
    merged: bool


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseBar:
    """A lease, or what it has of a host, as a bar."""

    id: str
    name: str
    status: str
    project_id: str
    start_at: datetime.datetime
    end_at: datetime.datetime

    @classmethod
    def of(cls, lease: Lease) -> LeaseBar:
        """Return the bar of a lease."""
        return cls(lease.id, lease.name, lease.status, lease.project_id, lease.start_at,
                   lease.end_at)

    @classmethod
    def of_share(cls, share: HostShare) -> LeaseBar:
        """Return the bar of what a lease has of a host."""
        return cls(share.lease_id, share.lease_name, share.status, share.project_id,
                   share.start_at, share.end_at)


@dataclasses.dataclass(frozen=True, slots=True)
class LeasePage:
    """Some of the leases that overlap a time.

    :ivar next_id: the lease after which the next page begins; None: there is none.
    """

    leases: Sequence[LeaseBar]
    next_id: str | None


def read_free(call: Call, period: Period) -> FreeTime:
    """Return what of the freepool is free over time."""
    free = call.services.leases.timeline(call.ctx, Window(period.start_at, period.end_at))
    merged = merge_steps(free.steps, (period.end_at - period.start_at) / _MOST_STEPS)
    return FreeTime(merged, free.total.hosts, len(merged) < len(free.steps))


def read_leases(
    call: Call, period: Period, most: int, *, project_id: str | None, host_id: int | None = None,
    status: str | None = None, after: str | None = None,
) -> LeasePage:
    """Return a page of the leases that overlap a time, by their starts.

    :param project_id: whose; None: everybody's. ``host_id``, ``status``: as in ``LeaseFilters``.
    :param after: the last lease of the page before.
    """
    leases = lease_queries.page(
        call.ctx, sort_key="start_at", limit=most + 1, project_id=project_id, host_id=host_id,
        status=status, after=after, overlaps=Window(period.start_at, period.end_at))
    return LeasePage(list(map(LeaseBar.of, leases[:most])),
                     leases[most - 1].id if len(leases) > most else None)


def merge_steps(steps: Sequence[FreeStep], shortest: datetime.timedelta) -> Sequence[FreeStep]:
    """Return steps so that there are few: what is free throughout those that are merged.

    :param shortest: a step that begins less than this after another is merged with it.
    """
    if len(steps) <= _MOST_STEPS:
        return steps
    merged: list[FreeStep] = []
    for step in steps:
        if merged and step.window.start_at - merged[-1].window.start_at < shortest:
            before = merged.pop()
            step = FreeStep(
                Window(before.window.start_at, step.window.end_at),
                min(before.hosts, step.hosts), min(before.vcpus, step.vcpus),
                min(before.memory_mb, step.memory_mb), min(before.disk_gb, step.disk_gb))
        merged.append(step)
    return merged


def make_need_url(call: Call, window: Window) -> str:
    """Return where the overview says what fits into a window.

    What is needed stays as the form has it; if it says nothing yet, it is the smallest that fits
    anywhere. What is free now needs no time, which would be over when somebody follows the link.
    """
    start_at = window.start_at if window.start_at > datetime.datetime.now(datetime.UTC) else None
    hours = max((window.end_at - window.start_at) // _HOUR, 1)
    needed = {} if any(
        any(call.query.get(field, ())) for field in need_form.AMOUNTS) else {"vcpu": 1}
    address = rendering.make_url(rendering.get_mount(call), "", {
        **call.query, **needed, "start": start_at and f"{start_at:%Y-%m-%dT%H:%M}",
        "duration": f"{hours}h"})
    return f"{address}#need"


def draw(
    call: Call, picture_id: str, period: Period, now: datetime.datetime,
    free: FreeTime | None, leases: Sequence[LeaseBar],
) -> Markup:
    """Return the picture of a time.

    :param free: None: there is no curve.
    """
    mount = rendering.get_mount(call)
    steps = [] if free is None else [
        Step(step.window.start_at, step.window.end_at, step.hosts,
             make_need_url(call, step.window)) for step in free.steps]
    return timeline.draw_timeline(
        picture_id, f"{period.start_at:%Y-%m-%d} to {period.end_at:%Y-%m-%d}", period, now, steps,
        [Booking(lease.name, lease.status, lease.start_at, lease.end_at,
                 rendering.make_url(mount, f"/leases/{lease.id}", {})) for lease in leases],
        total=0 if free is None else free.hosts, unit="hosts")
