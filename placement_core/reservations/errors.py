"""What the reservations room refuses.

``DoesNotFit``, ``NotChangeable`` and ``InvalidReservation`` are the plugins' too and
live in ``plugin_api.reservations``.
"""

from __future__ import annotations

import datetime

from placement_core import errors
from placement_core.plugin_api.reservations import DoesNotFit


class LeaseNotFound(errors.NotFound):
    """There is no such lease, or the caller may not see it."""

    code = "reservations.lease.not_found"


class HostNotFound(errors.NotFound):
    """There is no such host in the freepool."""

    code = "reservations.host.not_found"


class PropertyNotFound(errors.NotFound):
    """No host ever had a property of that name."""

    code = "reservations.property.not_found"


class InvalidLease(errors.Invalid):
    """What was asked for makes no sense.

    :ivar field: which part of it.
    """

    code = "reservations.invalid"

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class OutOfLimits(errors.Forbidden):
    """The time before the end lies outside of the lease (spec blazar §2)."""

    code = "reservations.out_of_limits"


class NoRoom(DoesNotFit):
    """A lease does not fit; with the time at which it would.

    :ivar fits_at: the earliest start of the same lease; None: at none that was tried.
    """

    def __init__(self, refusal: DoesNotFit, fits_at: datetime.datetime | None) -> None:
        then = ("It fits at no time that was tried: the pool is too small."
                if fits_at is None else
                f"The same lease fits from {fits_at:%Y-%m-%d %H:%M}"
                f"{fits_at:{':%S' if fits_at.second else ''}} on.")
        super().__init__(f"{refusal} {then}", refusal.missing, refusal.during)
        self.fits_at = fits_at


class WrongStatus(errors.Conflict):
    """The lease is not in a status in which this can be done."""

    code = "reservations.lease.status"


class HostExists(errors.Conflict):
    """The host is in the freepool already."""

    code = "reservations.host.exists"


class HostInUse(errors.Conflict):
    """The host carries allocations, or leases hold it now or later."""

    code = "reservations.host.in_use"


class CapabilityInUse(errors.Conflict):
    """Reservations of the host were made because of that property."""

    code = "reservations.capability.in_use"


class PolicyRefused(errors.Forbidden):
    """The lease is within no rule of this site: too long, too far ahead, over budget."""

    code = "reservations.policy"
