"""Which calls to a compute driver each change of a host or reservation needs, in their order.

Pure: the functions return lists of calls, and call nothing. The order is that of
``plugin_api.compute``. Ends contain all calls that remove something, whichever design is set and
whatever was created: so everything goes, also if the design has changed since.
Source: requirement R4, seed 003.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placement_core.plugin_api.compute import AGGREGATE, FLAVOR, SERVER_GROUP
from placement_core.reservations.records import PoolHost


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeCall:
    """A call to be made.

    :ivar name: a method of ``ComputeDriver``.
    :ivar host_id: the host that it is about; None: about no single host.
    """

    name: str
    arguments: Mapping[str, Any]
    host_id: int | None = None


#: The call that makes images of the servers on a host.
IMAGES = "snapshot_host_servers"
#: Their argument that drivers may have been written without.
DUE_AT = "due_at"
#: Calls that change which hosts are in an aggregate: a reservation's, and the freepool.
#: Nova's schedulers miss one of two such changes of an aggregate that are made at once.
OF_AGGREGATE = frozenset({"add_host", "remove_host"})
OF_FREEPOOL = frozenset({"add_to_freepool", "remove_from_freepool"})
#: The call that returns the aggregate to which the host's provider must belong.
JOINING = "add_host"
#: Calls that return how much is left; they are repeated until that is nothing.
COUNTING = frozenset({
    "delete_flavor_servers", "delete_preemptible_servers", "delete_host_servers",
    IMAGES})
#: Calls that earlier releases inserted; they need not be made any more.
OBSOLETE = frozenset({"put_server_group", "open_freepool"})
#: Calls that undo others: they have to be made, however late. ``add_to_freepool`` is none of them:
#: it comes too late only for a host that is no longer registered.
UNDOING = frozenset({
    "remove_from_freepool", "revoke_flavor", "delete_flavor_servers", "remove_flavor",
    "remove_server_group", "remove_aggregate", "remove_host", "delete_host_servers"})
KNOWN = COUNTING | UNDOING | {
    "add_to_freepool", "put_flavor", "put_slot_aggregate", "grant_flavor", "put_host_aggregate",
    "add_host"}


# The freepool ---------------------------------------------------------------


def add_to_freepool(host_id: int, name: str) -> list[ComputeCall]:
    """Return the calls that add a host to the freepool."""
    return [ComputeCall("add_to_freepool", {"host": name}, host_id)]


def remove_from_freepool(host_id: int, name: str) -> list[ComputeCall]:
    """Return the calls that remove a host from the freepool."""
    return [ComputeCall("remove_from_freepool", {"host": name}, host_id)]


# Instance reservations ------------------------------------------------------


def create_slots(
    id_: str, project_id: str, fields: Mapping[str, Any], resource_class: str, *,
    in_aggregate: bool, had_group: bool,
) -> list[ComputeCall]:
    """Return the calls that create an instance reservation, or update one.

    :param fields: the fields of the reservation: ``vcpus`` and so on.
    :param resource_class: the resource class of its slots.
    :param in_aggregate: the hosts of its slots are in an aggregate, too.
    :param had_group: an earlier release created a server group for it.
    """
    size = {name: fields[name] for name in ("vcpus", "memory_mb", "disk_gb")}
    flavor = ComputeCall("put_flavor", {
        "reservation_id": id_, **size, "in_aggregate": in_aggregate,
        "resource_class": resource_class})
    group = [ComputeCall("remove_server_group", {"reservation_id": id_})] if had_group else []
    return [*group, flavor, *(put_slot_aggregate(id_, project_id) if in_aggregate else ())]


def put_slot_aggregate(id_: str, project_id: str | None) -> list[ComputeCall]:
    """Return the calls that create or update the aggregate of an instance reservation.

    :param project_id: the only project that may use it; None: any, as there is no freepool.
    """
    return [ComputeCall("put_slot_aggregate", {"reservation_id": id_, "project_id": project_id})]


def add_hosts(id_: str, hosts: Iterable[PoolHost]) -> list[ComputeCall]:
    """Return the calls that add hosts to a reservation's aggregate."""
    return [_on("add_host", id_, host) for host in hosts]


def remove_hosts(id_: str, hosts: Iterable[PoolHost]) -> list[ComputeCall]:
    """Return the calls that remove hosts from a reservation's aggregate; their servers stay."""
    return [_on("remove_host", id_, host) for host in hosts]


def grant_slots(id_: str, project_id: str) -> list[ComputeCall]:
    """Return the calls that give a project access to an instance reservation."""
    return [ComputeCall("grant_flavor", {"reservation_id": id_, "project_id": project_id})]


def end_slots(
    id_: str, project_id: str, hosts: Iterable[PoolHost], *, was_in_force: bool
) -> list[ComputeCall]:
    """Return the calls that remove an instance reservation.

    :param hosts: its hosts; none, if it was not in force.
    """
    reservation = {"reservation_id": id_}
    servers = [
        ComputeCall("revoke_flavor", {**reservation, "project_id": project_id}),
        ComputeCall("delete_flavor_servers", reservation)]
    return [*(servers if was_in_force else ()),
            # Also without an aggregate: the next reservation of a host waits for a call about it.
            *remove_hosts(id_, hosts), ComputeCall("remove_aggregate", reservation),
            ComputeCall("remove_flavor", reservation),
            ComputeCall("remove_server_group", reservation)]


# Host reservations ----------------------------------------------------------


def put_host_aggregate(id_: str, project_id: str) -> list[ComputeCall]:
    """Return the calls that create the aggregate of a host reservation."""
    return [ComputeCall("put_host_aggregate", {"reservation_id": id_, "project_id": project_id})]


def assign_hosts(id_: str, hosts: Iterable[PoolHost], *, freepool: bool) -> list[ComputeCall]:
    """Return the calls that assign hosts to a host reservation.

    :param freepool: the compute service has a freepool, which they leave.
    """
    return [
        call for host in hosts for call in (
            ComputeCall("delete_preemptible_servers", {"host": host.name}, host.id),
            _on("add_host", id_, host),
            *(remove_from_freepool(host.id, host.name) if freepool else ()))]


def snapshot_hosts(
    id_: str, hosts: Iterable[PoolHost], due_at: datetime.datetime | None
) -> list[ComputeCall]:
    """Return the calls that make images of the servers on hosts.

    :param due_at: aware UTC; images that were due at another time are of no use any more.
    """
    due = {} if due_at is None else {DUE_AT: due_at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return [_on(IMAGES, id_, host, **due) for host in hosts]


def end_hosts(id_: str, hosts: Sequence[PoolHost], *, freepool: bool) -> list[ComputeCall]:
    """Return the calls that remove a host reservation.

    :param hosts: its hosts; none, if it was not in force.
    """
    return [
        *(call for host in hosts for call in (
            _on("delete_host_servers", id_, host),
            *(add_to_freepool(host.id, host.name) if freepool else ()),
            # The next reservation of the host waits for calls about it, not about other hosts.
            _on("remove_host", id_, host))),
        ComputeCall("remove_aggregate", {"reservation_id": id_})]


# Leftovers of reservations that have ended -------------------------------------------------------


def remove_orphans(id_: str, kinds: frozenset[str]) -> list[ComputeCall]:
    """Return the calls that remove objects of a reservation that has ended.

    :param kinds: kinds of objects, as in the result of ``ComputeDriver.made``.
    """
    removals = {
        FLAVOR: ("delete_flavor_servers", "remove_flavor"),
        AGGREGATE: ("remove_aggregate",), SERVER_GROUP: ("remove_server_group",)}
    return [ComputeCall(name, {"reservation_id": id_})
            for kind, names in removals.items() if kind in kinds for name in names]


def _on(name: str, id_: str, host: PoolHost, **more: str) -> ComputeCall:
    return ComputeCall(name, {"reservation_id": id_, "host": host.name, **more}, host.id)
