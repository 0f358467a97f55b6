"""The interface of compute drivers: what reservations need in the cloud's compute service.

Every call is idempotent, because it may be repeated, also by another process. The names of
what it creates are derived from the reservation's id, so a later call finds it even if the
answer to the first one was lost. The manager makes the calls that are in the outbox, outside
of transactions, one after the other for each reservation. Arguments and results are plain
values.

The list shows the order of the calls with ``[reservations] instance_design = aggregate``;
with ``placement``, the calls in brackets are left out. In both designs, the slots of an
instance reservation are inventories of the resource class that ``put_flavor`` names. They
limit the number of servers on each host, and so enforce the affinity::

    a host enters the pool   [add_to_freepool]
      leaves it              remove_from_freepool
    an instance reservation  put_flavor, [put_slot_aggregate]
      is made, or another
      starts                 the same, [add_host for each host], grant_flavor
      gets other hosts       [put_slot_aggregate, add_host, remove_host]
      another design is set  put_slot_aggregate, [add_host] where it has slots
      ends                   revoke_flavor; delete_flavor_servers until 0 or too late;
                             remove_host for each host, [remove_aggregate],
                             remove_flavor, remove_server_group
    a host reservation
      is made                put_host_aggregate
      starts                 the same; for each host: delete_preemptible_servers until 0 or
                             too late, add_host, [remove_from_freepool]
      loses a failed host    [add_to_freepool], remove_host; its servers stay
      before it ends         snapshot_host_servers for each host until 0 or too late
      ends                   for each host: delete_host_servers until 0 or too late,
                             [add_to_freepool], remove_host; remove_aggregate
    another reservation of   the same, but put_host_aggregate when it starts, and when it
    whole hosts              gets other hosts

The calls at the end are all made, whichever calls were made before and with whichever design.
A host is added to its new aggregate before it is removed from the old one, so that it is never
open to all projects.
Source: requirement R4, seed 003 (design of the short term), spec blazar §4.
"""

from __future__ import annotations

import abc
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from oslo_config import cfg

from placement_core import errors

#: The kinds of objects that ``ComputeDriver.made`` lists.
FLAVOR = "flavor"
SERVER_GROUP = "server_group"
AGGREGATE = "aggregate"

#: How many characters an id has at most that a call returns.
LONGEST_ID = 36


class ComputeUnavailable(errors.Unavailable):
    """The compute service did not answer, so the outcome is not known: the call is repeated."""

    code = "reservations.compute.unavailable"


class ComputeRefused(errors.Conflict):
    """The compute service refused a call, and will again until the cause is removed."""

    code = "reservations.compute.refused"


class ComputeDriver(abc.ABC):
    """Creates and deletes the objects of reservations in a compute service.

    Used from any thread. Every method may raise ``ComputeUnavailable`` or
    ``ComputeRefused``. After that, all of the call, a part of it or nothing was done, and the
    same call, or the one that deletes its object, must succeed later. Hosts are identified by
    their names in the freepool, which are those of their compute nodes.

    :cvar api_version: the version of this class that a driver was written for.
    :cvar acts: False: there is no compute service; calls do nothing and find nothing.
    """

    api_version = 2
    acts = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Take the service's options; a driver registers its own options here.

        :raises errors.ConfigurationError: an option of the driver is not valid.
        """

    # The freepool --------------------------------------------------------------

    @abc.abstractmethod
    def add_to_freepool(self, host: str) -> None:
        """Add a host to the freepool: the aggregate of the hosts that can be reserved.

        The aggregate is closed to all projects. It is created if it does not exist.

        :raises ComputeRefused: the host does not exist.
        """

    @abc.abstractmethod
    def remove_from_freepool(self, host: str) -> None:
        """Remove a host from the freepool; a host that does not exist is no error."""

    @abc.abstractmethod
    def freepool_hosts(self) -> frozenset[str]:
        """Return the hosts in the freepool; none if the aggregate does not exist."""

    # Instance reservations -----------------------------------------------------

    @abc.abstractmethod
    def put_flavor(
        self, reservation_id: str, *, vcpus: int, memory_mb: int, disk_gb: int,
        in_aggregate: bool, resource_class: str | None = None,
    ) -> str | None:
        """Create a reservation's flavor, which no project may use yet.

        A flavor of another size is replaced, and has to be granted again.

        :param memory_mb: in MiB.
        :param disk_gb: in GiB.
        :param in_aggregate: whether servers go to hosts of the reservation's aggregate only.
        :param resource_class: the class of the reservation's slots; a server takes 1 of it.
        :returns: the id of the flavor, with which users boot servers; at most ``LONGEST_ID``
            characters.
        """

    @abc.abstractmethod
    def grant_flavor(self, reservation_id: str, project_id: str) -> None:
        """Let a project use a reservation's flavor.

        :raises ComputeRefused: the flavor does not exist.
        """

    @abc.abstractmethod
    def revoke_flavor(self, reservation_id: str, project_id: str) -> None:
        """Revoke a project's access to a reservation's flavor."""

    @abc.abstractmethod
    def delete_flavor_servers(self, reservation_id: str) -> int:
        """Delete the servers that have a reservation's flavor, without waiting for it.

        The servers can be found only as long as the flavor exists.

        :returns: the number of servers that still exist; the call is repeated until it is 0, or
            ``server_deletion_timeout`` is over. Servers that cannot be deleted count, too: a call
            that raises is repeated for as long as it does.
        """

    @abc.abstractmethod
    def remove_flavor(self, reservation_id: str) -> None:
        """Delete a reservation's flavor."""

    @abc.abstractmethod
    def remove_server_group(self, reservation_id: str) -> None:
        """Delete a reservation's server group; earlier releases created them."""

    # Aggregates ----------------------------------------------------------------

    @abc.abstractmethod
    def put_slot_aggregate(self, reservation_id: str, project_id: str | None) -> str | None:
        """Create the aggregate of the hosts that have slots of an instance reservation.

        :param project_id: the project whose servers may use the hosts; None: any project,
            because there is no freepool.
        :returns: the id of the aggregate, at most ``LONGEST_ID`` characters. Leases show it if
            it is a decimal number below 2**31.
        """

    @abc.abstractmethod
    def put_host_aggregate(self, reservation_id: str, project_id: str) -> str | None:
        """Create the aggregate of the hosts of a host reservation.

        :returns: as ``put_slot_aggregate``.
        """

    @abc.abstractmethod
    def add_host(self, reservation_id: str, host: str) -> str | None:
        """Add a host to a reservation's aggregate.

        :returns: the uuid of the aggregate in the Placement API, to which the service adds the
            host's provider; None: the provider belongs to no aggregate.
        :raises ComputeRefused: the host or the aggregate does not exist.
        """

    @abc.abstractmethod
    def remove_host(self, reservation_id: str, host: str) -> None:
        """Remove a host from a reservation's aggregate, also one that failed.

        There may be no such aggregate, and the host may not be in it.
        """

    @abc.abstractmethod
    def remove_aggregate(self, reservation_id: str) -> None:
        """Delete a reservation's aggregate, also if hosts are in it."""

    # Servers on hosts ----------------------------------------------------------

    @abc.abstractmethod
    def delete_preemptible_servers(self, host: str) -> int:
        """Delete the preemptible servers on a host, which may run until the host is reserved.

        :returns: as ``delete_flavor_servers``.
        """

    @abc.abstractmethod
    def snapshot_host_servers(
        self, reservation_id: str, host: str, due_at: str | None = None
    ) -> int:
        """Create an image of each server on a host, if the reservation still has the host.

        These are the servers of its project, as in ``delete_host_servers``. Repeated calls
        create one image for each server, reservation and ``due_at``.

        :param due_at: when the images were due: another time if the end of the reservation was
            put off since images were made. None: any image of the reservation will do. Drivers
            that were written without it are called without it.
        :returns: the number of images that are not finished.
        """

    @abc.abstractmethod
    def delete_host_servers(self, reservation_id: str, host: str) -> int:
        """Delete the servers on a host, if the reservation still has the host.

        Only the servers of the project that ``put_host_aggregate`` named are deleted. So a call
        that comes late does not harm the next owner of the host.

        :returns: as ``delete_flavor_servers``.
        """

    # Audit ---------------------------------------------------------------------

    @abc.abstractmethod
    def made(self) -> Mapping[str, frozenset[str]]:
        """Return which kinds of objects exist (``FLAVOR`` …), by the id of their reservation.

        The audit finds leftovers this way. Reservations of another service may be among them,
        so only the objects of reservations that are known to have ended may be deleted.
        """


def check_result(call: str, result: object) -> Any:
    """Return what a call returned; None for a call that is to return nothing.

    :param call: the name of the method.
    :raises ComputeRefused: the method does not return such a thing.
    """
    if call not in _RESULTS:
        return None
    is_valid, expected = _RESULTS[call]
    if not is_valid(result):
        raise ComputeRefused(f"{call} of the driver returned {result!r:.100}, not {expected}.")
    return result


def _is_id(result: object) -> bool:
    return result is None or (
        isinstance(result, str) and len(result) <= LONGEST_ID and result.isprintable())


def _is_uuid(result: object) -> bool:
    if result is None:
        return True
    try:
        return _is_id(result) and bool(uuid.UUID(str(result)))
    except ValueError:
        return False


def _is_count(result: object) -> bool:
    return isinstance(result, int)


_Check = tuple[Callable[[object], bool], str]
_ID: _Check = _is_id, f"a text of at most {LONGEST_ID} characters or None"
_COUNT: _Check = _is_count, "a number"
#: {call: whether it may return something, and what it has to return}.
_RESULTS: dict[str, _Check] = {
    "put_flavor": _ID,
    "put_slot_aggregate": _ID,
    "put_host_aggregate": _ID,
    "add_host": (_is_uuid, "the uuid of an aggregate or None"),
    "delete_flavor_servers": _COUNT,
    "delete_preemptible_servers": _COUNT,
    "snapshot_host_servers": _COUNT,
    "delete_host_servers": _COUNT,
}
