"""What leases do outside of their own tables: in placement, and in the compute service.

Every function is called inside the transaction that writes down what it is about, so
what it writes is there if and only if that is. Calls to a compute service are written
to the outbox and made later.
Source: design §6, requirement R4.
"""

from __future__ import annotations

from collections.abc import Sequence

from placement_core.context import Context
from placement_core.plugin_api.reservations import Share
from placement_core.reservations.records import Host, Lease, Reservation


class Effects:
    """What the design of the options makes of hosts and reservations.

    Used from any thread.
    """

    def host_entered(self, ctx: Context, host: Host) -> None:
        """A host is in the freepool from now on."""
        raise NotImplementedError

    def host_left(self, ctx: Context, host: Host) -> None:
        """A host is in the freepool no longer."""
        raise NotImplementedError

    def made(self, ctx: Context, lease: Lease, reservation: Reservation) -> None:
        """A reservation was admitted."""
        raise NotImplementedError

    def changed(
        self, ctx: Context, lease: Lease, reservation: Reservation,
        before: Sequence[Share], after: Sequence[Share],
    ) -> None:
        """The fields of a reservation, or what it holds of hosts, are others now.

        Its status tells whether it is in force; then ``after`` is in force at once.
        """
        raise NotImplementedError

    def started(
        self, ctx: Context, lease: Lease, reservation: Reservation, shares: Sequence[Share]
    ) -> None:
        """A reservation comes into force."""
        raise NotImplementedError

    def before_end(
        self, ctx: Context, lease: Lease, reservation: Reservation, shares: Sequence[Share]
    ) -> None:
        """A reservation will end soon."""
        raise NotImplementedError

    def ended(
        self, ctx: Context, lease: Lease, reservation: Reservation, shares: Sequence[Share], *,
        was_in_force: bool,
    ) -> None:
        """A reservation is over, or was given up before it began: nothing of it stays.

        :raises WrongStatus: allocations use it still, and ``[reservations] leftovers``
            refuses that.
        """
        raise NotImplementedError
