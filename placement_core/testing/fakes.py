"""Drivers for tests, which keep their state in memory."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from placement_core import errors
from placement_core.context import Context
from placement_core.plugin_api.catalog import (
    CatalogDriver,
    Domain,
    Endpoint,
    Node,
    Project,
    Region,
    Service,
)
from placement_core.plugin_api.compute import (
    AGGREGATE,
    FLAVOR,
    SERVER_GROUP,
    ComputeDriver,
    ComputeRefused,
)


class MemoryCatalog(CatalogDriver):
    """A catalog with the given records; like a remote catalog, it is not ``local``.

    :ivar asked: the names of the methods that were called, in order.
    :ivar down: whether calls raise ``errors.Unavailable``.
    """

    api_version = 1

    def __init__(
        self, *, regions: Iterable[Region] = (), services: Iterable[Service] = (),
        endpoints: Iterable[Endpoint] = (), domains: Iterable[Domain] = (),
        projects: Iterable[Project] = (),
    ) -> None:
        self.asked: list[str] = []
        self.down = False
        self._regions = {region.id: region for region in regions}
        self._services = {service.id: service for service in services}
        self._endpoints = {endpoint.id: endpoint for endpoint in endpoints}
        self._domains = {domain.id: domain for domain in domains}
        self._projects = {project.id: project for project in projects}

    def forget(self, id_: str) -> None:
        """Delete a region, service, endpoint, domain or project."""
        for known in (self._regions, self._services, self._endpoints, self._domains,
                      self._projects):
            known.pop(id_, None)

    def region(self, ctx: Context, id_: str) -> Region | None:
        """Return a region, if it exists."""
        self._answer("region")
        return self._regions.get(id_)

    def regions(
        self, ctx: Context, *, parent_region_id: str | None = None
    ) -> Sequence[Region]:
        """Return all regions, or the direct children of one region."""
        self._answer("regions")
        return [each for each in self._regions.values()
                if parent_region_id in (None, each.parent_region_id)]

    def service(self, ctx: Context, id_: str) -> Service | None:
        """Return a service, if it exists."""
        self._answer("service")
        return self._services.get(id_)

    def services(
        self, ctx: Context, *, service_type: str | None = None,
        name: str | None = None,
    ) -> Sequence[Service]:
        """Return the services of a type and a name."""
        self._answer("services")
        return [each for each in self._services.values()
                if service_type in (None, each.type) and name in (None, each.name)]

    def endpoint(self, ctx: Context, id_: str) -> Endpoint | None:
        """Return an endpoint, if it exists."""
        self._answer("endpoint")
        return self._endpoints.get(id_)

    def endpoints(
        self, ctx: Context, *, service_id: str | None = None, region_id: str | None = None,
        interface: str | None = None,
    ) -> Sequence[Endpoint]:
        """Return the endpoints of a service, a region and an interface."""
        self._answer("endpoints")
        return [each for each in self._endpoints.values()
                if service_id in (None, each.service_id)
                and region_id in (None, each.region_id)
                and interface in (None, each.interface)]

    def domain(self, ctx: Context, id_: str) -> Domain | None:
        """Return a domain, if it exists."""
        self._answer("domain")
        return self._domains.get(id_)

    def domains(self, ctx: Context, *, name: str | None = None) -> Sequence[Domain]:
        """Return domains."""
        self._answer("domains")
        return [each for each in self._domains.values() if name in (None, each.name)]

    def project(self, ctx: Context, id_: str) -> Project | None:
        """Return a project, if it exists."""
        self._answer("project")
        return self._projects.get(id_)

    def projects(
        self, ctx: Context, *, name: str | None = None, domain_id: str | None = None,
        parent_id: str | None = None,
    ) -> Sequence[Project]:
        """Return projects."""
        self._answer("projects")
        return [each for each in self._projects.values()
                if name in (None, each.name) and domain_id in (None, each.domain_id)
                and parent_id in (None, each.parent_id)]

    def lineage(self, ctx: Context, node_id: str) -> tuple[Node, ...]:
        """Return a node and its ancestors, the root first."""
        self._answer("lineage")
        return tuple(self._node(each) for each in reversed(self._upwards(node_id)))

    def subtree(self, ctx: Context, node_id: str) -> tuple[Node, ...]:
        """Return a node and its descendants, parents before children."""
        self._answer("subtree")
        found, level = [node_id], [node_id]
        while level:
            level = [each.id for each in self._projects.values()
                     if each.parent_id in level and each.id not in found]
            found += level
        return tuple(self._node(each) for each in found)

    def depth(self, ctx: Context) -> int:
        """Return the number of levels of the deepest tree."""
        self._answer("depth")
        return max((len(self._upwards(each)) for each in (*self._domains, *self._projects)),
                   default=0)

    def _answer(self, method: str) -> None:
        self.asked.append(method)
        if self.down:
            raise errors.Unavailable("The catalog does not answer.")

    def _upwards(self, node_id: str) -> list[str]:
        found = [node_id]
        while found[-1] in self._projects and self._projects[found[-1]].parent_id not in found:
            found.append(self._projects[found[-1]].parent_id)
        return found

    def _node(self, node_id: str) -> Node:
        project = self._projects.get(node_id)
        return Node(node_id, project.parent_id if project is not None else None,
                    is_domain=node_id in self._domains)


@dataclasses.dataclass
class MemoryFlavor:
    """A flavor in ``MemoryCompute``."""

    size: tuple[int, int, int]
    in_aggregate: bool
    resource_class: str | None
    projects: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class MemoryServer:
    """A server in ``MemoryCompute``."""

    host: str
    project_id: str
    lease: str | None = None
    preemptible: bool = False
    asked_to_go: int = 0


class MemoryCompute(ComputeDriver):
    """A compute service in memory. Thread-safe.

    :ivar calls: (method, arguments…) of each call, in order.
    :ivar before: called with (method, arguments…) before a call does anything; it may raise an
        exception or wait.
    :ivar after: called likewise after the call; an exception simulates an answer that is lost.
    :ivar patience: how many calls to delete a server it survives.
    """

    api_version = 2

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.before: Callable[..., None] = lambda *call: None
        self.after: Callable[..., None] = lambda *call: None
        self.patience = 0
        self.known_hosts = set(hosts)
        self.freepool: set[str] = set()
        self.flavors: dict[str, MemoryFlavor] = {}
        #: The reservations that have a server group of an earlier release.
        self.groups: set[str] = set()
        #: {reservation: ("host" or "slot", project, hosts)}
        self.aggregates: dict[str, tuple[str, str | None, set[str]]] = {}
        self.servers: dict[str, MemoryServer] = {}
        #: (reservation, server) of each image, in the order in which they were made.
        self.images: list[tuple[str, str]] = []
        #: (reservation, server, when it was due) of each image.
        self._images_due: set[tuple[str, str, str | None]] = set()
        self._aggregate_ids: dict[str, int] = {}
        self._lock = threading.RLock()
        self._count = itertools.count(1)

    @contextlib.contextmanager
    def _call(self, *call: object) -> Iterator[None]:
        self.before(*call)
        with self._lock:
            self.calls.append(call)
            yield
        self.after(*call)

    def boot(self, host: str, *, project_id: str, lease: str | None = None,
             preemptible: bool = False) -> str:
        """Create a server on a host; return its id."""
        with self._lock:
            id_ = f"server-{next(self._count)}"
            self.servers[id_] = MemoryServer(host, project_id, lease, preemptible)
            return id_

    def add_to_freepool(self, host: str) -> None:
        """Add a host."""
        with self._call("add_to_freepool", host):
            self._require(host)
            self.freepool.add(host)

    def remove_from_freepool(self, host: str) -> None:
        """Remove a host."""
        with self._call("remove_from_freepool", host):
            self.freepool.discard(host)

    def freepool_hosts(self) -> frozenset[str]:
        """Return the hosts in the freepool."""
        with self._call("freepool_hosts"):
            return frozenset(self.freepool)

    def put_flavor(
        self, reservation_id: str, *, vcpus: int, memory_mb: int, disk_gb: int,
        in_aggregate: bool, resource_class: str | None = None,
    ) -> str | None:
        """Create or replace a flavor."""
        with self._call("put_flavor", reservation_id, vcpus, memory_mb, disk_gb):
            flavor = MemoryFlavor((vcpus, memory_mb, disk_gb), in_aggregate, resource_class)
            known = self.flavors.get(reservation_id)
            if known is not None and known.size == flavor.size:
                flavor.projects = known.projects
            self.flavors[reservation_id] = flavor
            return reservation_id

    def grant_flavor(self, reservation_id: str, project_id: str) -> None:
        """Grant a project access to a flavor."""
        with self._call("grant_flavor", reservation_id, project_id):
            if reservation_id not in self.flavors:
                raise ComputeRefused("There is no such flavor.")
            self.flavors[reservation_id].projects.add(project_id)

    def revoke_flavor(self, reservation_id: str, project_id: str) -> None:
        """Revoke a project's access to a flavor."""
        with self._call("revoke_flavor", reservation_id, project_id):
            if reservation_id in self.flavors:
                self.flavors[reservation_id].projects.discard(project_id)

    def delete_flavor_servers(self, reservation_id: str) -> int:
        """Delete servers."""
        with self._call("delete_flavor_servers", reservation_id):
            return self._delete(
                lambda each: each.lease == reservation_id and reservation_id in self.flavors)

    def remove_flavor(self, reservation_id: str) -> None:
        """Delete a flavor."""
        with self._call("remove_flavor", reservation_id):
            self.flavors.pop(reservation_id, None)

    def remove_server_group(self, reservation_id: str) -> None:
        """Delete a server group."""
        with self._call("remove_server_group", reservation_id):
            self.groups.discard(reservation_id)

    def put_slot_aggregate(self, reservation_id: str, project_id: str | None) -> str | None:
        """Create an aggregate."""
        with self._call("put_slot_aggregate", reservation_id, project_id):
            return self._put_aggregate("slot", reservation_id, project_id)

    def put_host_aggregate(self, reservation_id: str, project_id: str) -> str | None:
        """Create an aggregate."""
        with self._call("put_host_aggregate", reservation_id, project_id):
            return self._put_aggregate("host", reservation_id, project_id)

    def add_host(self, reservation_id: str, host: str) -> str | None:
        """Add a host."""
        with self._call("add_host", reservation_id, host):
            self._require(host)
            if reservation_id not in self.aggregates:
                raise ComputeRefused("There is no such aggregate.")
            self.aggregates[reservation_id][2].add(host)
            return str(uuid.uuid5(uuid.NAMESPACE_OID, reservation_id))

    def remove_host(self, reservation_id: str, host: str) -> None:
        """Remove a host."""
        with self._call("remove_host", reservation_id, host):
            self._hosts(reservation_id).discard(host)

    def remove_aggregate(self, reservation_id: str) -> None:
        """Delete an aggregate."""
        with self._call("remove_aggregate", reservation_id):
            self.aggregates.pop(reservation_id, None)

    def delete_preemptible_servers(self, host: str) -> int:
        """Delete servers."""
        with self._call("delete_preemptible_servers", host):
            return self._delete(lambda each: each.host == host and each.preemptible)

    def snapshot_host_servers(
        self, reservation_id: str, host: str, due_at: str | None = None
    ) -> int:
        """Create images, which the next call reports as finished."""
        with self._call("snapshot_host_servers", reservation_id, host):
            new = [id_ for id_, each in self.servers.items()
                   if self._is_reserved(each, reservation_id, host)
                   and not self._has_image(reservation_id, id_, due_at)]
            self.images += [(reservation_id, id_) for id_ in new]
            self._images_due.update((reservation_id, id_, due_at) for id_ in new)
            return len(new)

    def _has_image(self, reservation_id: str, server: str, due_at: str | None) -> bool:
        if due_at is None:
            return (reservation_id, server) in self.images
        return (reservation_id, server, due_at) in self._images_due

    def delete_host_servers(self, reservation_id: str, host: str) -> int:
        """Delete servers."""
        with self._call("delete_host_servers", reservation_id, host):
            return self._delete(
                lambda each: self._is_reserved(each, reservation_id, host))

    def made(self) -> Mapping[str, frozenset[str]]:
        """Return all objects."""
        with self._call("made"):
            kinds: dict[str, Collection[str]] = {
                FLAVOR: self.flavors, SERVER_GROUP: self.groups, AGGREGATE: self.aggregates}
            return {id_: frozenset(kind for kind, made in kinds.items() if id_ in made)
                    for id_ in {*self.flavors, *self.groups, *self.aggregates}}

    def _require(self, host: str) -> None:
        if host not in self.known_hosts:
            raise ComputeRefused(f"There is no host {host}.")

    def _is_reserved(self, server: MemoryServer, reservation_id: str, host: str) -> bool:
        """Return whether a server is on a host of a reservation and belongs to its project."""
        return (server.host == host and host in self._hosts(reservation_id)
                and server.project_id == self.aggregates[reservation_id][1])

    def _put_aggregate(self, kind: str, reservation_id: str, project_id: str | None) -> str:
        self.aggregates[reservation_id] = (kind, project_id, self._hosts(reservation_id))
        return str(self._aggregate_ids.setdefault(reservation_id, next(self._count)))

    def _hosts(self, reservation_id: str) -> set[str]:
        return self.aggregates[reservation_id][2] if reservation_id in self.aggregates else set()

    def _delete(self, goes: Callable[[MemoryServer], bool]) -> int:
        found = {id_: each for id_, each in self.servers.items() if goes(each)}
        for id_, each in found.items():
            each.asked_to_go += 1
            if each.asked_to_go > self.patience:
                del self.servers[id_]
        return len(found)
