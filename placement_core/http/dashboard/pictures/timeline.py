"""What is free over time as a step line, the present as a line, and leases as bars below it."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import itertools
import math
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from placement_core.http.dashboard.pictures import elements, patterns

#: The heights of the curve, of a lease with the space below it, and of the axis.
_CURVE, _LEASE, _AXIS = 120, 22, 36
_BAR = 16
_SECONDS_A_DAY = 86_400
_MOST_TICKS = 14
#: {status of a lease: its class}; those that are left out are the same.
_CLASSES = {"TERMINATED": "ended"}
_LIST = Markup('<g data-bars="" role="list" id="{id}" aria-label="{label}">{items}</g>')
_GAP = Markup(
    '<g role="listitem"><a class="gap" data-bar="" id="{id}" href="{href}" aria-label="{label}">'
    '<title>{label}</title>'
    '<rect class="free" x="{x}" y="{y}" width="{width}" height="{height}"/>'
    '<line class="step" x1="{x}" x2="{end}" y1="{y}" y2="{y}"/>'
    '<rect class="hit" x="{x}" y="0" width="{width}" height="{full}"/></a></g>')
_RISE = Markup('<line class="step" x1="{x}" x2="{x}" y1="{y1}" y2="{y2}"/>')
_BOOKING = Markup(
    '<g role="listitem"><a class="booking" data-bar="" id="{id}" href="{href}"'
    ' aria-label="{label}"><title>{label}</title>'
    '<rect class="lease {state}" x="{x}" y="{y}" width="{width}" height="{height}"/>'
    '{pattern}<text class="label" x="{x}" y="{baseline}" dx="4">{name}</text></a></g>')
_TICK = Markup(
    '<line class="gridline{minor}" x1="{x}" x2="{x}" y1="0" y2="{height}"/>'
    '<text class="label day{minor}" x="{x}" y="{baseline}" dx="3">{label}</text>')
_NOW = Markup(
    '<line class="now" x1="{x}" x2="{x}" y1="0" y2="{height}"/>'
    '<text class="label now" x="{x}" y="{baseline}" dx="3">now</text>')
_TOP = Markup('<text class="label" x="0" y="12" dx="3">{amount} {unit}</text>')


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """How much is free from a time until the next step.

    :ivar href: where one may ask what fits there.
    """

    start_at: datetime.datetime
    end_at: datetime.datetime
    free: int
    href: str


@dataclasses.dataclass(frozen=True, slots=True)
class Booking:
    """A lease.

    :ivar state: its status.
    :ivar href: its page.
    """

    name: str
    state: str
    start_at: datetime.datetime
    end_at: datetime.datetime
    href: str


@dataclasses.dataclass(frozen=True, slots=True)
class Period:
    """The time that a picture shows; times are aware, in UTC."""

    start_at: datetime.datetime
    end_at: datetime.datetime

    def place(self, moment: datetime.datetime) -> str:
        """Return where a moment is, in percent of the width; those outside are at an edge."""
        bounded = min(max(moment, self.start_at), self.end_at)
        return elements.format_percent(
            (bounded - self.start_at).total_seconds(), self.seconds)

    def measure(self, start_at: datetime.datetime, end_at: datetime.datetime) -> str:
        """Return how wide a time is, as far as it is shown."""
        start, end = max(start_at, self.start_at), min(end_at, self.end_at)
        return elements.format_percent(max((end - start).total_seconds(), 0), self.seconds)

    @property
    def seconds(self) -> float:
        """Return how long it is."""
        return (self.end_at - self.start_at).total_seconds()


def draw_timeline(
    picture_id: str, title: str, period: Period, now: datetime.datetime,
    steps: Sequence[Step], bookings: Sequence[Booking], *, total: int, unit: str,
) -> Markup:
    """Return what is free over a period, and who has the rest.

    :param steps: in the order of time, without gaps between them; none: there is no curve.
    :param bookings: one below the other.
    :param total: how much there is in all, at the top of the curve.
    :param unit: of what the amounts are, in the plural.
    """
    curve = _CURVE if steps else 0
    height = curve + _LEASE * len(bookings)
    body = [*_draw_ticks(period, height)]
    if steps:
        body += [
            _LIST.format(id=f"{picture_id}-steps", label=f"Free {unit}", items=Markup("").join(
                _draw_steps(picture_id, period, steps, total, unit))),
            *_draw_rises(period, steps, total), _TOP.format(amount=total, unit=unit)]
    if bookings:
        body.append(_LIST.format(id=f"{picture_id}-leases", label="Leases", items=Markup("").join(
            _draw_bookings(picture_id, period, bookings, curve))))
    if period.start_at <= now <= period.end_at:
        body.append(_NOW.format(x=period.place(now), height=height + 20, baseline=height + 30))
    return elements.draw_frame(
        picture_id, "timeline", title, _describe(steps, bookings, total, unit), body,
        height=height + _AXIS, role="group")


def _describe(
    steps: Sequence[Step], bookings: Sequence[Booking], total: int, unit: str
) -> str:
    leases = f"{len(bookings)} leases"
    if not steps:
        return leases
    least = min(steps, key=lambda step: step.free)
    return (f"of {total} {unit} at least {least.free} are free, fewest from "
            f"{_format(least.start_at)}; {leases}")


def _find_height(free: int, total: int) -> int:
    """Return where the curve is, in pixels from above."""
    return _CURVE - round(_CURVE * min(max(free, 0), total) / total) if total else _CURVE


def _draw_steps(
    picture_id: str, period: Period, steps: Sequence[Step], total: int, unit: str
) -> Iterator[Markup]:
    for step in steps:
        y = _find_height(step.free, total)
        # The first step begins, and the last one ends, where the period does, which goes on.
        end = "last" if step is steps[-1] else f"{step.end_at:%Y%m%d%H%M%S}"
        yield _GAP.format(
            id=f"{picture_id}-step-{end}", href=step.href, y=y,
            x=period.place(step.start_at), width=period.measure(step.start_at, step.end_at),
            height=_CURVE - y, full=_CURVE, end=period.place(step.end_at),
            label=f"{_format(step.start_at)} to {_format(step.end_at)}: {step.free} {unit} free")


def _draw_rises(period: Period, steps: Sequence[Step], total: int) -> Iterator[Markup]:
    for before, after in itertools.pairwise(steps):
        yield _RISE.format(
            x=period.place(after.start_at), y1=_find_height(before.free, total),
            y2=_find_height(after.free, total))


def _draw_bookings(
    picture_id: str, period: Period, bookings: Sequence[Booking], above: int
) -> Iterator[Markup]:
    bars_of: collections.Counter[str] = collections.Counter()
    for number, booking in enumerate(bookings):
        key = elements.make_key(booking.href)
        bars_of[key] += 1
        y = above + number * _LEASE + (_LEASE - _BAR) // 2
        state = _CLASSES.get(booking.state, booking.state.lower())
        x, width = (period.place(booking.start_at),
                    period.measure(booking.start_at, booking.end_at))
        name = elements.clean(booking.name)
        yield _BOOKING.format(
            id=f"{picture_id}-lease-{key}-{bars_of[key]}", href=booking.href, state=state,
            x=x, y=y, width=width, height=_BAR, baseline=y + 12, name=name,
            label=f"{name}, {booking.state}: {_format(booking.start_at)} to "
                  f"{_format(booking.end_at)}",
            pattern=patterns.draw_overlay(state, x=x, y=y, width=width, height=_BAR))


def _draw_ticks(period: Period, height: int) -> Iterator[Markup]:
    """Yield a line with a date for each day, or for so many that dates do not cover each other.

    Every other one is ``minor``: it can be left out where space is rare.
    """
    every = datetime.timedelta(days=max(1, round(period.seconds / _SECONDS_A_DAY / _MOST_TICKS)))
    first = period.start_at.replace(hour=0, minute=0, second=0, microsecond=0) + every
    # A day after the last one may be beyond the last year that there is.
    for number in range(math.ceil((period.end_at - first) / every)):
        day = first + number * every
        yield _TICK.format(
            minor=" minor" if number % 2 else "", x=period.place(day), height=height,
            baseline=height + 14, label=f"{day:%b} {day.day}")


def _format(moment: datetime.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
