"""The hosts of the freepool, and the properties that they are chosen by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placement_core.compute.nodes import ComputeNodes
from placement_core.context import Context
from placement_core.reservations.effects import Effects
from placement_core.reservations.records import Host, HostAllocation, HostProperty


class PoolHosts:
    """Lets hosts into the freepool, and out of it.

    :param nodes: whose records say what a host is, where a cell has it.
    """

    def __init__(self, effects: Effects, nodes: ComputeNodes) -> None:
        self._effects = effects
        self._nodes = nodes

    def register(
        self, ctx: Context, name: str, capabilities: Mapping[str, str],
        trust_id: str | None = None,
    ) -> Host:
        """Let the resource provider, or compute node, of that name into the freepool.

        :param name: or the uuid, or a compute node's id.
        :raises InvalidLease: there is none of that name, or it is no host.
        :raises HostExists, HostInUse: it is there, or carries allocations.
        """
        raise NotImplementedError

    def change(
        self, ctx: Context, host_id: str, capabilities: Mapping[str, str | None], *,
        name: str | None = None, reservable: bool | None = None, reason: str | None = None,
    ) -> Host:
        """Set capabilities of a host, remove those that are None, take it out of service.

        :param reservable: False: no new promises; what is promised of it is healed.
        :raises HostNotFound, CapabilityInUse, InvalidLease:
        """
        raise NotImplementedError

    def remove(self, ctx: Context, host_id: str) -> None:
        """Let a host out of the freepool.

        :raises HostNotFound:
        :raises HostInUse: leases hold it now or later, or it carries allocations.
        """
        raise NotImplementedError


def get(ctx: Context, host_id: str) -> Host:
    """Return a host, by its id.

    :raises HostNotFound:
    """
    raise NotImplementedError


def page(ctx: Context, *, after: int | None = None, limit: int | None = None) -> list[Host]:
    """Return hosts, in the order of ids."""
    raise NotImplementedError


def allocations(
    ctx: Context, *, host_id: str | None = None, lease_id: str | None = None,
    reservation_id: str | None = None,
) -> tuple[Sequence[Host], Sequence[HostAllocation]]:
    """Return what reservations hold of hosts: what ends in the future, unless one is named.

    :returns: the hosts, also those of which nothing is held; and what is held of them.
    :raises HostNotFound:
    """
    raise NotImplementedError


def properties(
    ctx: Context, *, detail: bool = False, private: bool = False
) -> list[HostProperty]:
    """Return the names of properties.

    :param detail: with the values that hosts have.
    :param private: also the private ones.
    """
    raise NotImplementedError


def change_property(ctx: Context, name: str, *, private: bool) -> HostProperty:
    """Make a property private, or public.

    :raises PropertyNotFound:
    """
    raise NotImplementedError
