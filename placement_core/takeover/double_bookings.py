"""Find hosts of which more is booked than they have. Pure."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import itertools
from collections.abc import Iterable, Mapping, Sequence

from placement_core.plugin_api.reservations import Size

#: How many other leases an overbooking names.
_MOST_NAMED = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Booking:
    """What a reservation has of a host, from a time to another, which is not included.

    :ivar amounts: as ``Size.amounts``, of all its slots together.
    :ivar whole: nobody else may have a part of the host.
    """

    host_id: str
    lease_id: str
    lease_name: str
    start_at: datetime.datetime
    end_at: datetime.datetime
    amounts: tuple[int, int, int]
    whole: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Overbooking:
    """A host that a lease has, and that does not have as much as is booked.

    :ivar since: when that begins, of those times that the lease has it.
    :ivar others: the names of other leases that have it then; the first ones, if there are many.
    """

    host_id: str
    since: datetime.datetime
    others: Sequence[str]


def find(
    bookings: Iterable[Booking], sizes: Mapping[str, Size]
) -> dict[str, list[Overbooking]]:
    """Return the overbooked hosts of each lease, {lease id: one for each host}.

    :param sizes: of the hosts, by their ids; those without any size are not looked at.
    """
    by_host: dict[str, list[Booking]] = collections.defaultdict(list)
    for booking in bookings:
        by_host[booking.host_id].append(booking)
    of_leases: dict[str, list[Overbooking]] = collections.defaultdict(list)
    for host_id, of_host in by_host.items():
        if any(sizes[host_id].amounts()):
            for lease_id, overbooking in _find_on_host(of_host, sizes[host_id]).items():
                of_leases[lease_id].append(overbooking)
    return of_leases


def _find_on_host(bookings: Sequence[Booking], size: Size) -> dict[str, Overbooking]:
    overbooked: dict[str, Overbooking] = {}
    present: list[Booking] = []
    in_order = sorted(bookings, key=lambda booking: booking.start_at)
    for at, starting in itertools.groupby(in_order, key=lambda booking: booking.start_at):
        # Who ends at the moment in which another one starts is not in its way.
        present = [*(other for other in present if other.end_at > at), *starting]
        if not _fit(present, size):
            for one in present:
                overbooked.setdefault(one.lease_id, Overbooking(
                    one.host_id, at, _name_others(one, present)))
    return overbooked


def _fit(bookings: Sequence[Booking], size: Size) -> bool:
    if any(booking.whole for booking in bookings):
        return len(bookings) == 1
    return all(
        sum(amounts) <= most for amounts, most in zip(
            zip(*(booking.amounts for booking in bookings), strict=True), size.amounts(),
            strict=True))


def _name_others(booking: Booking, bookings: Iterable[Booking]) -> list[str]:
    names = sorted({f"{other.lease_name} ({other.lease_id})" for other in bookings
                    if other.lease_id != booking.lease_id})
    more = len(names) - _MOST_NAMED
    return [*names[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])]
