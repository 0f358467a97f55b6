"""What leases have booked of hosts, now or later: the most at any one moment."""

from __future__ import annotations

import dataclasses

import numpy as np
import sqlalchemy as sa

from placement_core.db import Session
from placement_core.reservations import tables
from placement_core.reservations.scheduling import pool_queries
from placement_core.reservations.scheduling.pools import Bookings
from placement_core.reservations.scheduling.timelines import Timelines

_hosts = tables.computehosts

#: Others have no bookings, and had none.
_BOOKED_HOSTS = (
    sa.select(_hosts.c.id, _hosts.c.provider_id)
    .where(_hosts.c.promised).order_by(_hosts.c.id))
#: Later than any lease.
_FOR_EVER = 2**40


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PromisedHosts:
    """Hosts with bookings that are not over, a row for each.

    :ivar provider_ids: of the roots of their trees.
    :ivar whole: whether the whole host is booked at some moment.
    :ivar amounts: int64, columns as ``Size.amounts``: the most that slots have at one moment.
    """

    provider_ids: list[int]
    whole: np.ndarray
    amounts: np.ndarray


def read(session: Session, bookings: Bookings) -> PromisedHosts:
    """Return what is booked of hosts from now on.

    :param bookings: all that are not over; those of hosts that left the freepool do not count.
    """
    now = int(pool_queries.current_time(session).timestamp())
    rows = session.execute(_BOOKED_HOSTS).all() if len(bookings.ends) else []
    return find_promised(
        [row.id for row in rows], [row.provider_id for row in rows], bookings, now)


def find_promised(
    host_ids: list[int], provider_ids: list[int], bookings: Bookings, now: int
) -> PromisedHosts:
    """Return what is booked from a time on.

    :param host_ids: hosts of the freepool, ascending; ``provider_ids``: their roots.
    :param now: in seconds since the epoch.
    """
    ids = np.array(host_ids, dtype=np.int64)
    known = np.flatnonzero(np.isin(bookings.host_ids, ids))
    whole = bookings.whole[known]
    # A whole host needs no amounts: all of it is booked.
    amounts = np.column_stack((bookings.amounts[known] * (1 - whole)[:, None], whole))
    peaks = Timelines(
        len(ids), np.searchsorted(ids, bookings.host_ids[known]), bookings.starts[known],
        bookings.ends[known], amounts).peaks(now, _FOR_EVER)
    promised = np.flatnonzero(peaks.any(axis=1))
    return PromisedHosts(
        [provider_ids[row] for row in promised.tolist()], peaks[promised, -1] > 0,
        peaks[promised, :-1])
