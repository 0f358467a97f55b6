"""What reservations need done in the cloud's compute service: what a compute driver does.

Every call may be made again, by another process too: made twice is made once, removed
twice is removed. What is made has names that follow from the reservation's id, so that
whoever comes later finds it, whether or not the answer to the one who made it arrived.
Calls are made outside of transactions, by whoever works off the outbox, one after the
other for each reservation; their arguments and results are plain values.

In which order, for the design ``aggregate`` (``placement``: without the steps in
brackets). In both, the slots of an instance reservation are inventories of a class that
``put_flavor`` names: they say how many servers a host takes, and so keep the affinity::

    a host enters the pool   [add_to_freepool]
      leaves it              remove_from_freepool
    an instance reservation  put_flavor, [put_slot_aggregate]
      is made, or another
      starts                 the same, [add_host for each host], grant_flavor
      gets other hosts       [put_slot_aggregate, add_host, remove_host]
      another design is set  put_slot_aggregate, [add_host] where it has slots
      ends                   revoke_flavor; delete_flavor_servers until 0 or too late;
                             [remove_aggregate], remove_flavor, remove_server_group
    a host reservation
      is made                put_host_aggregate
      starts                 for each host: delete_preemptible_servers until 0 or too late,
                             add_host, [remove_from_freepool]
      loses a failed host    [add_to_freepool], remove_host; its servers stay
      before it ends         snapshot_host_servers for each host until 0 or too late
      ends                   for each host: delete_host_servers until 0 or too late,
                             [add_to_freepool], remove_host; remove_aggregate

Ending comes in full whichever steps were made before, and whichever design they were of. A
host is added where it goes to before it is removed where it comes from: at no moment is it
open to everybody.
Source: requirement R4, seed 003 (design of the short term), spec blazar §4.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping

from oslo_config import cfg

from placement_core import errors

#: What ``ComputeDriver.made`` tells of.
FLAVOR = "flavor"
SERVER_GROUP = "server_group"
AGGREGATE = "aggregate"


class ComputeUnavailable(errors.Unavailable):
    """A call did not come through, or its outcome is not known: make it again later."""

    code = "reservations.compute.unavailable"


class ComputeRefused(errors.Conflict):
    """A call was refused, and would be again: somebody has to change something."""

    code = "reservations.compute.refused"


class ComputeDriver(abc.ABC):
    """Makes, in a compute service, what reservations consist of there.

    Used from any thread. Every method raises ``ComputeUnavailable`` and
    ``ComputeRefused``; after either, everything, a part or nothing was done, and making
    the call again, or removing what it makes, is right. Hosts go by the names they
    have in the pool: those of their compute nodes.

    :cvar api_version: the version of this class that a driver was written for.
    :cvar acts: False: there is no compute service; nothing is made, and calls answer
        that there is nothing.
    """

    api_version = 2
    acts = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Take the service's options; a driver with some of its own registers them here.

        :raises errors.ConfigurationError: one of them makes no sense.
        """

    # The freepool --------------------------------------------------------------

    @abc.abstractmethod
    def add_to_freepool(self, host: str) -> None:
        """Let a host be in the aggregate of the hosts that can be reserved.

        It is closed to every project, and made where it is not there.

        :raises ComputeRefused: there is no such host.
        """

    @abc.abstractmethod
    def remove_from_freepool(self, host: str) -> None:
        """Let a host not be in the freepool; one that does not exist is not."""

    @abc.abstractmethod
    def freepool_hosts(self) -> frozenset[str]:
        """Return the hosts in the freepool; none, where there is no freepool."""

    # Instance reservations -----------------------------------------------------

    @abc.abstractmethod
    def put_flavor(
        self, reservation_id: str, *, vcpus: int, memory_mb: int, disk_gb: int,
        in_aggregate: bool, resource_class: str | None = None,
    ) -> str | None:
        """Have a reservation's flavor, which no project may use yet.

        One of another size is replaced: it is to be granted again.

        :param memory_mb: in MiB.
        :param disk_gb: in GiB.
        :param in_aggregate: the servers go to hosts of the reservation's aggregate.
        :param resource_class: of the inventories that are the reservation's slots; a
            server takes one.
        :returns: its id, which users boot with.
        """

    @abc.abstractmethod
    def grant_flavor(self, reservation_id: str, project_id: str) -> None:
        """Let a project use a reservation's flavor.

        :raises ComputeRefused: there is no such flavor.
        """

    @abc.abstractmethod
    def revoke_flavor(self, reservation_id: str, project_id: str) -> None:
        """Let a project not use a reservation's flavor any more."""

    @abc.abstractmethod
    def delete_flavor_servers(self, reservation_id: str) -> int:
        """Delete the servers that have a reservation's flavor.

        Does not wait. They can be found as long as the flavor is there.

        :returns: how many are still there; to be called until there are none.
        """

    @abc.abstractmethod
    def remove_flavor(self, reservation_id: str) -> None:
        """Have a reservation's flavor no more."""

    @abc.abstractmethod
    def remove_server_group(self, reservation_id: str) -> None:
        """Have no server group of a reservation, such as earlier releases made."""

    # Aggregates ----------------------------------------------------------------

    @abc.abstractmethod
    def put_slot_aggregate(self, reservation_id: str, project_id: str | None) -> str | None:
        """Have the aggregate of the hosts with slots of an instance reservation.

        :param project_id: to which it is open; None: it is not closed, as there is no freepool.
        :returns: its id.
        """

    @abc.abstractmethod
    def put_host_aggregate(self, reservation_id: str, project_id: str) -> str | None:
        """Have the aggregate of the hosts of a host reservation.

        :returns: its id.
        """

    @abc.abstractmethod
    def add_host(self, reservation_id: str, host: str) -> str | None:
        """Let a host be in a reservation's aggregate.

        :returns: the uuid by which Placement shall know the aggregate: the service sees to it
            that the host's provider is in it. None: it need not.
        :raises ComputeRefused: there is no such host, or no such aggregate.
        """

    @abc.abstractmethod
    def remove_host(self, reservation_id: str, host: str) -> None:
        """Let a host not be in a reservation's aggregate; one that failed, and is replaced."""

    @abc.abstractmethod
    def remove_aggregate(self, reservation_id: str) -> None:
        """Have a reservation's aggregate no more, whatever hosts are in it."""

    # Servers on hosts ----------------------------------------------------------

    @abc.abstractmethod
    def delete_preemptible_servers(self, host: str) -> int:
        """Delete the servers that were let onto a host until somebody reserves it.

        :returns: as ``delete_flavor_servers``.
        """

    @abc.abstractmethod
    def snapshot_host_servers(self, reservation_id: str, host: str) -> int:
        """Make an image of each server on a host, if the reservation still has the host.

        Of the servers of its project, as ``delete_host_servers``. One for each server and
        reservation, however often it is called.

        :returns: how many images are not finished.
        """

    @abc.abstractmethod
    def delete_host_servers(self, reservation_id: str, host: str) -> int:
        """Delete the servers on a host, if the reservation still has the host.

        Only those of the project that ``put_host_aggregate`` named: what others have there is
        theirs. Somebody who comes late does no harm to whoever has the host next.

        :returns: as ``delete_flavor_servers``.
        """

    # What there is -------------------------------------------------------------

    @abc.abstractmethod
    def made(self) -> Mapping[str, frozenset[str]]:
        """Return what there is of which reservation: ``FLAVOR`` and so on, by its id.

        For finding what was left behind. Reservations of another service may be among
        them: remove only what is known to have ended.
        """
