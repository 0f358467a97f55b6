"""Leases: made, changed and given up, each whole or not at all.

Whoever changes what is promised takes the row of the pool first (``revisions.POOL``), then
the lease's, then its events': one order for all. Planning sees what is committed by then,
and nobody else can promise anything until this is.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from placement_core.context import Context
from placement_core.plugin_api.reservations import ReservationPlugin, Window
from placement_core.reservations.effects import Effects
from placement_core.reservations.fits import FreeStep, NextFit
from placement_core.reservations.policy import LeaseRules
from placement_core.reservations.records import Lease, LeaseChange, NewLease, NewReservation


class Leases:
    """Admits, changes and ends leases.

    :param plugins: by resource type.
    """

    def __init__(
        self, plugins: Mapping[str, ReservationPlugin], effects: Effects, rules: LeaseRules, *,
        cleaning_seconds: int, minutes_before_end: int, max_reservations: int,
    ) -> None:
        self._plugins = plugins
        self._effects = effects
        self._rules = rules
        self._cleaning_seconds = cleaning_seconds
        self._minutes_before_end = minutes_before_end
        self._max_reservations = max_reservations

    def create(self, ctx: Context, new: NewLease) -> Lease:
        """Admit a lease, whole.

        :raises InvalidLease, InvalidReservation: the request makes no sense.
        :raises NoRoom: it does not fit; with the time at which it would.
        :raises PolicyRefused: a rule of the site.
        """
        raise NotImplementedError

    def change(
        self, ctx: Context, lease_id: str, change: LeaseChange, *, project_id: str | None = None
    ) -> Lease:
        """Change a lease, whole, and return it as it is then.

        :param project_id: whose it must be; None: anybody's.
        :raises LeaseNotFound, WrongStatus, NotChangeable: and what ``create`` raises.
        """
        raise NotImplementedError

    def delete(self, ctx: Context, lease_id: str, *, project_id: str | None = None) -> None:
        """End a lease if it is in force, and give it up.

        :raises LeaseNotFound, WrongStatus:
        """
        raise NotImplementedError

    def what_if(self, ctx: Context, new: NewLease) -> None:
        """Say what ``create`` would say, and write nothing.

        :raises NoRoom, PolicyRefused, InvalidLease, InvalidReservation:
        """
        raise NotImplementedError

    def next_fit(
        self, ctx: Context, project_id: str, reservations: Sequence[NewReservation], *,
        since: datetime.datetime | None, seconds: int,
    ) -> NextFit | None:
        """Return when a lease of these reservations fits; None: at no time that was tried.

        :param since: no earlier than then; None: from now on.
        """
        raise NotImplementedError

    def timeline(self, ctx: Context, window: Window) -> list[FreeStep]:
        """Return how much of the pool is free over time."""
        raise NotImplementedError


def get(ctx: Context, lease_id: str, *, project_id: str | None = None) -> Lease:
    """Return a lease that was not deleted.

    :param project_id: whose it must be; None: anybody's.
    :raises LeaseNotFound:
    """
    raise NotImplementedError


def page(
    ctx: Context, *, project_id: str | None = None, status: str | None = None,
    name: str | None = None, host_id: int | None = None, overlaps: Window | None = None,
    sort_key: str = "number", descending: bool = False,
    after: str | None = None, limit: int | None = None,
) -> list[Lease]:
    """Return leases that were not deleted.

    :param overlaps: only those whose window has something in common with this one.
    :param sort_key: ``number``, ``start_at``, ``end_at`` or ``name``; the number decides
        among equals.
    :param after: the id of the last one of the page before.
    :raises InvalidLease: ``after`` is no lease that can be seen.
    """
    raise NotImplementedError
