"""The compute driver ``nova``: reservations as flavors and host aggregates.

The id of a flavor and the name of an aggregate are the reservation's id. Both are unique in Nova,
so the driver finds those that another process created. Earlier releases created server groups;
they are deleted at the end of the reservation. Nova shows them only to their own project, which is
the service's.
"""

from __future__ import annotations

import http
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from openstack import exceptions as sdk_errors
from openstack.compute.v2 import (
    aggregate as aggregates,
    flavor as flavors,
    server as servers,
)
from oslo_config import cfg

from placement_core.plugin_api.compute import (
    AGGREGATE,
    FLAVOR,
    SERVER_GROUP,
    ComputeDriver,
    ComputeRefused,
)
from placement_plugins.compute import options
from placement_plugins.compute.nova_client import (
    connect,
    ignore_not_found,
    is_of_nova,
    is_refusal,
    none_if_not_found,
    translated_errors,
)

LOG = logging.getLogger(__name__)

#: The metadata key for AggregateMultiTenancyIsolation. Nova's
#: ``limit_tenants_to_placement_aggregate`` confines a project to the aggregates that have such
#: a key, and the project's id as a whole value.
_TENANT = "filter_tenant_id"
_RESERVATION = "reservation"
#: The metadata key of earlier releases, which created server groups; it is removed.
_AFFINITY = "affinity_id"
_SLOTS_SPEC = f"aggregate_instance_extra_specs:{_RESERVATION}"
_PREEMPTIBLE_SPEC = "blazar:preemptible"

#: Properties of an image: the reservation before whose end it was created, the server, and when
#: it was due, because an end can be put off.
_IMAGE_RESERVATION = "reservation_id"
_IMAGE_SERVER = "reserved_server_id"
_IMAGE_DUE = "reserved_due_at"
#: Nova creates images of servers in these states only.
_SNAPSHOT_STATES = frozenset({"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"})
_UNFINISHED = frozenset({"queued", "saving", "uploading", "importing"})
_FAILED = frozenset({"killed", "deleted", "pending_delete"})
#: How many characters the name of an image has at most; it must not end with a space.
_LONGEST_IMAGE_NAME = 255

_PAGE = 500
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class NovaCompute(ComputeDriver):
    """Creates and deletes the objects of reservations in Nova, as the user of ``[nova]``."""

    api_version = 2

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        options.register(conf)
        group = conf[options.GROUP.name]
        self._freepool = group.aggregate_freepool_name
        self._owner_key = group.blazar_owner
        self._name_prefix = group.name_prefix
        self._az_prefix = group.az_prefix
        self._image_prefix = group.image_prefix
        self._service_project_id = group.service_project_id
        self._connection = connect(conf)

    @property
    def _nova(self) -> Any:
        return self._connection.compute

    # The freepool --------------------------------------------------------------

    def add_to_freepool(self, host: str) -> None:
        """Add a host to the freepool's aggregate, which is open to this service's project only."""
        with translated_errors(f"host {host} in the freepool"):
            self._put_aggregate(self._freepool, {_TENANT: self._get_own_project()})
            self._add_host(self._freepool, host)

    def remove_from_freepool(self, host: str) -> None:
        """Remove a host from the freepool's aggregate."""
        with translated_errors(f"host {host} in the freepool"):
            self._remove_host(self._freepool, host)

    def freepool_hosts(self) -> frozenset[str]:
        """Return the compute nodes of the services in the freepool's aggregate."""
        with translated_errors("the freepool"):
            services = set(self._list_hosts(self._freepool))
            if not services:
                return frozenset()
            return frozenset(
                node.name for node in self._nova.hypervisors(details=True)
                if node.service_details["host"] in services)

    # Instance reservations -----------------------------------------------------

    def put_flavor(
        self, reservation_id: str, *, vcpus: int, memory_mb: int, disk_gb: int,
        in_aggregate: bool, resource_class: str | None = None,
    ) -> str | None:
        """Create or update the private flavor whose id is the reservation's."""
        specs = {}
        if in_aggregate:
            specs[_SLOTS_SPEC] = reservation_id
        if resource_class is not None:
            specs[f"resources:{resource_class}"] = "1"
        size = {"ram": memory_mb, "vcpus": vcpus, "disk": disk_gb}
        with translated_errors(f"the flavor of reservation {reservation_id}"):
            flavor = self._find_flavor(reservation_id)
            if flavor is not None and any(flavor[name] != value for name, value in size.items()):
                self._remove_flavor(reservation_id)
                flavor = None
            if flavor is None:
                flavor = self._nova.create_flavor(
                    id=reservation_id, name=self._make_name(reservation_id), is_public=False,
                    **size)
            before = flavor.extra_specs or {}
            for name in before.keys() - specs.keys():
                with ignore_not_found():
                    self._nova.delete_flavor_extra_specs_property(flavor, name)
            if specs.items() - before.items():
                self._nova.create_flavor_extra_specs(flavor, specs)
        return reservation_id

    def grant_flavor(self, reservation_id: str, project_id: str) -> None:
        """Give a project access to the reservation's flavor."""
        with translated_errors(f"the flavor of reservation {reservation_id}"):
            try:
                self._nova.flavor_add_tenant_access(reservation_id, project_id)
            except sdk_errors.ConflictException:
                if not self._has_access(reservation_id, project_id):
                    raise

    def revoke_flavor(self, reservation_id: str, project_id: str) -> None:
        """Revoke a project's access to the reservation's flavor."""
        with translated_errors(f"the flavor of reservation {reservation_id}"), ignore_not_found():
            self._nova.flavor_remove_tenant_access(reservation_id, project_id)

    def delete_flavor_servers(self, reservation_id: str) -> int:
        """Delete the servers with the reservation's flavor, in all projects."""
        with translated_errors(f"servers of reservation {reservation_id}"):
            # For a flavor that does not exist, Nova lists no servers and reports no error.
            if self._find_flavor(reservation_id) is None:
                return 0
            return self._delete(self._list_servers(flavor=reservation_id))

    def remove_flavor(self, reservation_id: str) -> None:
        """Delete the reservation's flavor."""
        with translated_errors(f"the flavor of reservation {reservation_id}"):
            self._remove_flavor(reservation_id)

    def remove_server_group(self, reservation_id: str) -> None:
        """Delete the server groups that are named after the reservation."""
        with translated_errors(f"the server group of reservation {reservation_id}"):
            self._delete_server_groups(self._find_server_groups(reservation_id))

    # Aggregates ----------------------------------------------------------------

    def put_slot_aggregate(self, reservation_id: str, project_id: str | None) -> str | None:
        """Create the aggregate that Nova's filters match with the reservation's flavor.

        Its list of projects admits the project to hosts that the freepool closes to others. It
        does not confine the project to these hosts.
        """
        tenants = project_id and f"{project_id},{self._get_own_project()}"
        with translated_errors(f"the aggregate of reservation {reservation_id}"):
            return self._put_aggregate(reservation_id, {
                _RESERVATION: reservation_id, _TENANT: tenants, _AFFINITY: None})

    def put_host_aggregate(self, reservation_id: str, project_id: str) -> str | None:
        """Create the aggregate that ReservationFilter matches with the scheduler hint.

        The filter compares the owner with the whole value, so there must be no list of projects.
        """
        zone = f"{self._az_prefix}{reservation_id}" if self._az_prefix else None
        with translated_errors(f"the aggregate of reservation {reservation_id}"):
            return self._put_aggregate(
                reservation_id, {self._owner_key: project_id, _TENANT: None}, zone)

    def add_host(self, reservation_id: str, host: str) -> str | None:
        """Add a host to the reservation's aggregate.

        Nova updates Placement after its own database, and does not repeat an update that failed.
        """
        with translated_errors(f"host {host} of reservation {reservation_id}"):
            return self._add_host(reservation_id, host)

    def remove_host(self, reservation_id: str, host: str) -> None:
        """Remove a host from the reservation's aggregate."""
        with translated_errors(f"host {host} of reservation {reservation_id}"):
            self._remove_host(reservation_id, host)

    def remove_aggregate(self, reservation_id: str) -> None:
        """Remove the hosts from the reservation's aggregate, and delete it."""
        with translated_errors(f"the aggregate of reservation {reservation_id}"):
            aggregate = self._find_aggregate(reservation_id)
            if aggregate is None:
                return
            for host in aggregate.hosts or ():
                with ignore_not_found():
                    self._nova.remove_host_from_aggregate(aggregate, host)
            with ignore_not_found():
                self._nova.delete_aggregate(aggregate, ignore_missing=False)

    # Servers on hosts ----------------------------------------------------------

    def delete_preemptible_servers(self, host: str) -> int:
        """Delete the servers on a host whose flavor marks them as preemptible."""
        with translated_errors(f"servers on host {host}"):
            return self._delete(
                server for server in self._list_servers(compute_host=self._get_service_host(host))
                if ((server.flavor or {}).get("extra_specs") or {})
                .get(_PREEMPTIBLE_SPEC, "").lower() == "true")

    def snapshot_host_servers(
        self, reservation_id: str, host: str, due_at: str | None = None
    ) -> int:
        """Create the missing images of the servers; return how many images are unfinished.

        Nova shares each image with the project of its server.
        """
        with translated_errors(f"images of servers on host {host}"):
            return self._snapshot(
                (server for server in self._list_reserved_servers(reservation_id, host)
                 if server.status in _SNAPSHOT_STATES), reservation_id, due_at)

    def delete_host_servers(self, reservation_id: str, host: str) -> int:
        """Delete the servers of the reservation's project on a host of its aggregate."""
        with translated_errors(f"servers on host {host}"):
            return self._delete(self._list_reserved_servers(reservation_id, host))

    # Existing objects ----------------------------------------------------------

    def made(self) -> Mapping[str, frozenset[str]]:
        """Find flavors and server groups by their names, and aggregates by their metadata."""
        kinds_by_id: dict[str, set[str]] = {}
        with translated_errors("what was made"):
            for flavor in self._nova.flavors(is_public=False):
                if flavor.name == self._make_name(flavor.id):
                    kinds_by_id.setdefault(flavor.id, set()).add(FLAVOR)
            for group in self._list_server_groups():
                id_ = group["name"].removeprefix(self._name_prefix)
                if group["name"] == self._make_name(id_) and _UUID.fullmatch(id_):
                    kinds_by_id.setdefault(id_, set()).add(SERVER_GROUP)
            for aggregate in self._nova.aggregates():
                metadata = aggregate.metadata or {}
                if self._owner_key in metadata or metadata.get(_RESERVATION) == aggregate.name:
                    kinds_by_id.setdefault(aggregate.name, set()).add(AGGREGATE)
        return {id_: frozenset(kinds) for id_, kinds in kinds_by_id.items()}

    # Single requests to Nova ------------------------------------------------------

    def _get_own_project(self) -> str:
        """Return the service's project, to which the freepool is open; it has no servers."""
        project_id = self._service_project_id or self._connection.session.get_project_id()
        if project_id is None:
            raise ComputeRefused(
                f"[{options.GROUP.name}] service_project_id: expected the project to which the "
                "freepool is closed, because the login has none")
        return str(project_id)

    def _make_name(self, reservation_id: str) -> str:
        return f"{self._name_prefix}{reservation_id}"

    def _find_flavor(self, reservation_id: str) -> flavors.Flavor | None:
        flavor: flavors.Flavor | None = none_if_not_found(
            lambda: self._nova.get_flavor(reservation_id))
        return flavor

    def _remove_flavor(self, reservation_id: str) -> None:
        with ignore_not_found():
            self._nova.delete_flavor(reservation_id, ignore_missing=False)

    def _has_access(self, reservation_id: str, project_id: str) -> bool:
        return any(access["tenant_id"] == project_id
                   for access in self._nova.get_flavor_access(reservation_id))

    def _find_server_groups(self, reservation_id: str) -> list[Mapping[str, Any]]:
        name = self._make_name(reservation_id)
        return [group for group in self._list_server_groups() if group["name"] == name]

    def _list_server_groups(self) -> Iterator[Mapping[str, Any]]:
        """Yield the groups of this service's project, page by page: Nova sends no links."""
        page_size = _PAGE
        offset = 0
        while page_size:
            response = self._nova.get(
                "/os-server-groups", params={"limit": _PAGE, "offset": offset})
            sdk_errors.raise_from_response(response)
            page = response.json()["server_groups"]
            yield from page
            page_size = len(page)
            offset += page_size

    def _delete_server_groups(self, groups: Iterable[Mapping[str, Any]]) -> None:
        for group in groups:
            with ignore_not_found():
                self._nova.delete_server_group(group["id"], ignore_missing=False)

    def _find_aggregate(self, name: str) -> aggregates.Aggregate | None:
        return next((aggregate for aggregate in self._nova.aggregates()
                     if aggregate.name == name), None)

    def _put_aggregate(
        self, name: str, metadata: Mapping[str, str | None], zone: str | None = None
    ) -> str:
        """Create or update an aggregate with metadata; a value of None removes the key."""
        aggregate = self._find_aggregate(name)
        if aggregate is None:
            aggregate = self._nova.create_aggregate(
                name=name, **({"availability_zone": zone} if zone else {}))
        before = aggregate.metadata or {}
        if any(before.get(key) != value for key, value in metadata.items()):
            self._nova.set_aggregate_metadata(aggregate, dict(metadata))
        return str(aggregate.id)

    def _add_host(self, name: str, host: str) -> str:
        """Add a host to an aggregate; return the aggregate's uuid."""
        aggregate = self._find_aggregate(name)
        if aggregate is None:
            raise ComputeRefused(f"Nova has no aggregate {name}.")
        service = self._get_service_host(host)
        if service not in (aggregate.hosts or ()):
            try:
                self._nova.add_host_to_aggregate(aggregate, service)
            except sdk_errors.ConflictException:
                # Either another process added it in the meantime, or it cannot be added.
                if service not in self._list_hosts(name):
                    raise
        return str(aggregate.uuid)

    def _remove_host(self, name: str, host: str) -> None:
        aggregate = self._find_aggregate(name)
        service = self._find_listed_host(aggregate, host)
        if aggregate is not None and service is not None:
            with ignore_not_found():
                self._nova.remove_host_from_aggregate(aggregate, service)

    def _list_hosts(self, name: str) -> list[str]:
        aggregate = self._find_aggregate(name)
        return list(aggregate.hosts or ()) if aggregate is not None else []

    def _list_reserved_servers(self, reservation_id: str, host: str) -> list[servers.Server]:
        """Return the servers of the reservation's project on a host of its aggregate.

        Projects that had the host before may still have servers there.
        """
        aggregate = self._find_aggregate(reservation_id)
        name = self._find_listed_host(aggregate, host)
        if aggregate is None or name is None:
            return []
        project_id = (aggregate.metadata or {}).get(self._owner_key)
        if project_id is None:
            raise ComputeRefused(
                f"The aggregate {reservation_id} has no metadata {self._owner_key}: it does "
                "not say whose servers these are.")
        return [server for server in self._list_servers(compute_host=name)
                if server.project_id == project_id]

    def _find_listed_host(self, aggregate: aggregates.Aggregate | None, host: str) -> str | None:
        """Return the name by which an aggregate knows a host, or None if it is not in it."""
        if aggregate is None or not aggregate.hosts:
            return None
        service = self._find_service_host(host)
        return service if service in aggregate.hosts else None

    def _get_service_host(self, host: str) -> str:
        """Return the name of a compute node's service, by which aggregates know it."""
        service = self._find_service_host(host)
        if service is None:
            raise ComputeRefused(f"Nova has no compute node {host}.")
        return service

    def _find_service_host(self, host: str) -> str | None:
        hypervisors = none_if_not_found(lambda: list(self._nova.hypervisors(
            details=True, hypervisor_hostname_pattern=host)))
        # Nova matches the pattern with parts of names, too.
        return next((node.service_details["host"] for node in hypervisors or ()
                     if node.name == host), None)

    def _list_servers(self, **filters: str) -> list[servers.Server]:
        """Return servers of all projects, including soft-deleted ones.

        All pages are read before a server is deleted: the marker of a page is the last server
        of the previous page, which must still exist.
        """
        return [
            *self._nova.servers(all_projects=True, **filters),
            *self._nova.servers(
                all_projects=True, status="SOFT_DELETED", deleted_only=True, **filters)]

    def _delete(self, to_delete: Iterable[servers.Server]) -> int:
        """Delete servers immediately, so that users cannot restore them.

        A server that Nova refuses to delete counts like one that takes its time: the caller
        waits for it only so long. An outage of Nova, or of what is behind it, is no reason to
        give servers up; what fails for a server in error is that server's own fault.

        :returns: the number of servers.
        """
        count = 0
        failure = None
        for server in to_delete:
            count += 1
            if server.task_state == "deleting":
                continue
            try:
                with ignore_not_found():
                    self._nova.delete_server(server, force=True)
            except sdk_errors.HttpException as error:
                # Continue with the other servers.
                if is_refusal(error) or (
                        server.status == "ERROR" and is_of_nova(error)
                        and error.status_code == http.HTTPStatus.INTERNAL_SERVER_ERROR):
                    LOG.info("Nova does not delete the server %s: %s", server.id, error)
                else:
                    failure = error
        if failure is not None:
            raise failure
        return count

    def _snapshot(
        self, to_snapshot: Iterable[servers.Server], reservation_id: str, due_at: str | None
    ) -> int:
        """Create the missing images of servers; return how many images are unfinished."""
        count = 0
        failure = None
        for server in to_snapshot:
            try:
                with ignore_not_found():
                    count += self._has_unfinished_image(server, reservation_id, due_at)
            except sdk_errors.HttpException as error:
                failure = error  # Continue with the other servers.
        if failure is not None:
            raise failure
        return count

    def _has_unfinished_image(
        self, server: servers.Server, reservation_id: str, due_at: str | None
    ) -> bool:
        """Create an image of a server unless it exists; return whether it is unfinished."""
        properties = {_IMAGE_RESERVATION: reservation_id, _IMAGE_SERVER: server.id}
        if due_at is not None:
            properties[_IMAGE_DUE] = due_at
        response = self._connection.image.get("/images", params=properties)
        sdk_errors.raise_from_response(response)
        statuses = [image["status"] for image in response.json()["images"]
                    if image["status"] not in _FAILED]
        if not statuses:
            # The name need not be unique: the image is found by its properties.
            name = f"{self._image_prefix}{server.name}"[:_LONGEST_IMAGE_NAME].rstrip()
            server.create_image(self._nova, name, properties)
            return True
        return _UNFINISHED.issuperset(statuses)
