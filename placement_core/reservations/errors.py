"""Errors of reservations.

``DoesNotFit``, ``NotChangeable`` and ``InvalidReservation`` are raised by plugins, too, and are
defined in ``plugin_api.reservations``.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from placement_core import errors
from placement_core.plugin_api.reservations import DoesNotFit
from placement_core.quota.records import ExceededLimit


class LeaseNotFound(errors.NotFound):
    """There is no such lease, or the caller may not see it."""

    code = "reservations.lease.not_found"


class EventNotFound(errors.NotFound):
    """There is no such event."""

    code = "reservations.event.not_found"


class HostNotFound(errors.NotFound):
    """There is no such host in the freepool."""

    code = "reservations.host.not_found"


class UnknownHost(errors.NotFound):
    """No compute node and no resource provider has that name.

    The API answers 404, as the reference does, though the name is in the body.
    """

    code = "reservations.host.unknown"

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no compute node or resource provider {name!r}.")
        self.name = name


class AmbiguousHost(errors.Conflict):
    """Several compute nodes or resource providers have that name."""

    code = "reservations.host.ambiguous"

    def __init__(self, name: str, uuids: Sequence[str]) -> None:
        super().__init__(
            f"{name!r} may be any of several; say which by its uuid: {', '.join(uuids)}.")
        self.name, self.uuids = name, uuids


class PropertyNotFound(errors.NotFound):
    """No host ever had a property of that name."""

    code = "reservations.property.not_found"


class InvalidLease(errors.Invalid):
    """A request is invalid.

    :ivar field: the field that is wrong.
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

    :ivar fits_at: the earliest start at which it fits; None: at no start that was tried.
    """

    def __init__(self, refusal: DoesNotFit, fits_at: datetime.datetime | None) -> None:
        if fits_at is None:
            then = "It fits at no time that was tried: the pool is too small."
        else:
            since = fits_at.strftime("%Y-%m-%d %H:%M:%S" if fits_at.second else "%Y-%m-%d %H:%M")
            then = f"The same lease fits from {since} on."
        super().__init__(f"{refusal} {then}", refusal.missing, refusal.during)
        self.fits_at = fits_at


class WrongStatus(errors.Conflict):
    """The status of the lease does not allow the operation."""

    code = "reservations.lease.status"


class HostExists(errors.Conflict):
    """The host is in the freepool already."""

    code = "reservations.host.exists"


class HostInUse(errors.Conflict):
    """The host has allocations, or leases have it now or later."""

    code = "reservations.host.in_use"


class CapabilityInUse(errors.Conflict):
    """Reservations of the host require the property."""

    code = "reservations.capability.in_use"


class PolicyRefused(errors.Forbidden):
    """A rule of the site refuses the lease: it is too long, too far ahead, over budget."""

    code = "reservations.policy"


class OverQuota(PolicyRefused):
    """The slots of a lease alone exceed a limit.

    :ivar exceeded_limits: all such limits; their usage counts as 0.
    """

    code = "reservations.policy.quota"

    def __init__(self, exceeded_limits: Sequence[ExceededLimit]) -> None:
        super().__init__("The reserved instances are larger than the quota: " + "; ".join(
            f"{limit.resource_name}: {limit.asked} reserved, "
            f"{limit.node_id} may have {limit.limit}"
            for limit in exceeded_limits) + ".")
        self.exceeded_limits = exceeded_limits


class OverBudget(PolicyRefused):
    """The leases of a project would exceed a budget.

    :ivar exceeded_limits: all exceeded budgets, with amounts in hours, rounded up.
    """

    code = "reservations.policy.budget"

    def __init__(self, exceeded_limits: Sequence[ExceededLimit]) -> None:
        super().__init__("; ".join(limit.sentence() for limit in exceeded_limits) + ".")
        self.exceeded_limits = exceeded_limits
