"""Which calls of a compute driver each happening consists of, in their order.

Pure: lists of what has to be called. The order is that of ``plugin_api.compute``. Removing
comes in full whichever design is set, and whatever was really made: what a reservation
consists of goes, also if the design is another by then.
Source: requirement R4, seed 003.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placement_core.plugin_api.compute import AGGREGATE, FLAVOR, SERVER_GROUP
from placement_core.reservations.records import PoolHost


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeCall:
    """A call that has to be made.

    :ivar name: a method of ``ComputeDriver``.
    :ivar host_id: the host that it is about, if it is about one.
    """

    name: str
    arguments: Mapping[str, Any]
    host_id: int | None = None


#: Makes images of the servers on a host.
IMAGES = "snapshot_host_servers"
#: Change which hosts are in an aggregate: of the subject's reservation, and the freepool.
#: Nova's schedulers miss one of two such changes of an aggregate that are made at once.
OF_AGGREGATE = frozenset({"add_host", "remove_host"})
OF_FREEPOOL = frozenset({"add_to_freepool", "remove_from_freepool"})
#: Answers with the aggregate in which the host's provider has to be.
JOINING = "add_host"
#: Answers with how much is left: it is made again until that is nothing.
COUNTING = frozenset({
    "delete_flavor_servers", "delete_preemptible_servers", "delete_host_servers",
    IMAGES})
#: Earlier releases wrote them; there is nothing to do about them any more.
OBSOLETE = frozenset({"put_server_group", "open_freepool"})
#: Takes away what others make: it has to be made, however late.
UNDOING = frozenset({
    "remove_from_freepool", "revoke_flavor", "delete_flavor_servers", "remove_flavor",
    "remove_server_group", "remove_aggregate", "remove_host", "delete_host_servers",
    "add_to_freepool"})
KNOWN = COUNTING | UNDOING | {
    "put_flavor", "put_slot_aggregate", "grant_flavor", "put_host_aggregate", "add_host"}


# The freepool ---------------------------------------------------------------


def host_enters(host_id: int, name: str) -> list[ComputeCall]:
    """Return what lets a host into the freepool."""
    return [ComputeCall("add_to_freepool", {"host": name}, host_id)]


def host_leaves(host_id: int, name: str) -> list[ComputeCall]:
    """Return what lets a host out of the freepool."""
    return [ComputeCall("remove_from_freepool", {"host": name}, host_id)]


# Instance reservations ------------------------------------------------------


def make_slots(
    id_: str, project_id: str, fields: Mapping[str, Any], resource_class: str, *,
    in_aggregate: bool, had_group: bool,
) -> list[ComputeCall]:
    """Return what makes an instance reservation, or makes it another one.

    :param fields: of the reservation: ``vcpus`` and so on.
    :param resource_class: of its slots.
    :param in_aggregate: the hosts of its slots are in an aggregate, too.
    :param had_group: an earlier release made a server group for it.
    """
    size = {name: fields[name] for name in ("vcpus", "memory_mb", "disk_gb")}
    flavor = ComputeCall("put_flavor", {
        "reservation_id": id_, **size, "in_aggregate": in_aggregate,
        "resource_class": resource_class})
    group = [ComputeCall("remove_server_group", {"reservation_id": id_})] if had_group else []
    return [*group, flavor, *(make_slot_aggregate(id_, project_id) if in_aggregate else ())]


def make_slot_aggregate(id_: str, project_id: str | None) -> list[ComputeCall]:
    """Return what makes the aggregate of an instance reservation.

    :param project_id: to which it is open; None: there is no freepool beside which it is closed.
    """
    return [ComputeCall("put_slot_aggregate", {"reservation_id": id_, "project_id": project_id})]


def add_hosts(id_: str, hosts: Iterable[PoolHost]) -> list[ComputeCall]:
    """Return what lets hosts into a reservation's aggregate."""
    return [_on("add_host", id_, host) for host in hosts]


def remove_hosts(id_: str, hosts: Iterable[PoolHost]) -> list[ComputeCall]:
    """Return what takes hosts out of a reservation's aggregate."""
    return [_on("remove_host", id_, host) for host in hosts]


def grant_slots(id_: str, project_id: str) -> list[ComputeCall]:
    """Return what lets a project use an instance reservation."""
    return [ComputeCall("grant_flavor", {"reservation_id": id_, "project_id": project_id})]


def end_slots(id_: str, project_id: str, *, was_in_force: bool) -> list[ComputeCall]:
    """Return what takes an instance reservation away."""
    reservation = {"reservation_id": id_}
    servers = [
        ComputeCall("revoke_flavor", {**reservation, "project_id": project_id}),
        ComputeCall("delete_flavor_servers", reservation)]
    return [*(servers if was_in_force else ()), ComputeCall("remove_aggregate", reservation),
            ComputeCall("remove_flavor", reservation),
            ComputeCall("remove_server_group", reservation)]


# Host reservations ----------------------------------------------------------


def make_hosts(id_: str, project_id: str) -> list[ComputeCall]:
    """Return what makes a host reservation."""
    return [ComputeCall("put_host_aggregate", {"reservation_id": id_, "project_id": project_id})]


def take_hosts(id_: str, hosts: Iterable[PoolHost], *, freepool: bool) -> list[ComputeCall]:
    """Return what gives hosts to a host reservation.

    :param freepool: there is one, out of which they come.
    """
    return [
        call for host in hosts for call in (
            ComputeCall("delete_preemptible_servers", {"host": host.name}, host.id),
            _on("add_host", id_, host),
            *(host_leaves(host.id, host.name) if freepool else ()))]


def give_up_hosts(id_: str, hosts: Iterable[PoolHost], *, freepool: bool) -> list[ComputeCall]:
    """Return what takes failed hosts from a host reservation; their servers stay on them."""
    return [
        call for host in hosts for call in (
            *(host_enters(host.id, host.name) if freepool else ()),
            _on("remove_host", id_, host))]


def snapshot_hosts(id_: str, hosts: Iterable[PoolHost]) -> list[ComputeCall]:
    """Return what makes images of the servers on hosts."""
    return [_on(IMAGES, id_, host) for host in hosts]


def end_hosts(id_: str, hosts: Sequence[PoolHost], *, freepool: bool) -> list[ComputeCall]:
    """Return what takes a host reservation away.

    :param hosts: that it has; none, if it was not in force.
    """
    return [
        *(call for host in hosts for call in (
            _on("delete_host_servers", id_, host),
            *(host_enters(host.id, host.name) if freepool else ()),
            # Who comes to the host next waits for calls about it, not for the other hosts.
            _on("remove_host", id_, host))),
        ComputeCall("remove_aggregate", {"reservation_id": id_})]


# What was left behind -------------------------------------------------------


def remove_made(id_: str, kinds: frozenset[str]) -> list[ComputeCall]:
    """Return what removes things that are there of a reservation that has ended.

    :param kinds: as ``ComputeDriver.made`` names them.
    """
    wanted = {
        FLAVOR: ("delete_flavor_servers", "remove_flavor"),
        AGGREGATE: ("remove_aggregate",), SERVER_GROUP: ("remove_server_group",)}
    return [ComputeCall(name, {"reservation_id": id_})
            for kind, names in wanted.items() if kind in kinds for name in names]


def _on(name: str, id_: str, host: PoolHost) -> ComputeCall:
    return ComputeCall(name, {"reservation_id": id_, "host": host.name}, host.id)
