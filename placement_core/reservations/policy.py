"""Rules of the site that leases have to keep: how long, how far ahead, how much."""

from __future__ import annotations

from collections.abc import Sequence

from placement_core.context import Context
from placement_core.plugin_api.reservations import Share
from placement_core.reservations.records import Lease, NewLease


class LeaseRules:
    """What every lease is judged by before it is admitted or changed.

    Used from any thread.
    """

    def prepare(self, ctx: Context, asked: NewLease, before: Lease | None = None) -> None:
        """Judge what needs no plan, and ask others, outside of the transaction.

        :param asked: the lease as it shall be.
        :param before: as it is, for a change.
        :raises PolicyRefused, errors.Unavailable:
        """
        raise NotImplementedError

    def decide(
        self, ctx: Context, asked: NewLease, shares: Sequence[Share],
        before: Lease | None = None,
    ) -> None:
        """Judge what a lease would hold, inside of the transaction that admits it.

        The pool's row is taken, so what other leases hold does not change meanwhile.

        :param shares: all that it would hold.
        :raises PolicyRefused:
        """
        raise NotImplementedError

    def ended(self, ctx: Context, lease: Lease) -> None:
        """Tell others, outside of any transaction, that a lease has ended."""
        raise NotImplementedError
