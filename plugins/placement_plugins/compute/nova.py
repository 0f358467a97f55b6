"""The compute driver ``nova``: reservations as flavors and host aggregates.

Flavors have the reservation's id as theirs, aggregates as their name; both are unique in
Nova, so that whoever made one, it is found. Server groups are those of earlier releases,
and removed at the end: Nova shows them to their own project only, which is the service's.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from keystoneauth1 import exceptions as client_errors, loading
from openstack import connection, exceptions as sdk_errors
from openstack.compute.v2 import (
    aggregate as aggregates,
    flavor as flavors,
    server as servers,
)
from oslo_config import cfg

from placement_core import errors
from placement_core.plugin_api.compute import (
    AGGREGATE,
    FLAVOR,
    SERVER_GROUP,
    ComputeDriver,
    ComputeRefused,
    ComputeUnavailable,
)
from placement_plugins.compute import options

#: Of Rocky: flavors come with their extra specs, servers with their flavor, groups have
#: one policy; and a hypervisor's details do not wait for its host, as since 2.88.
_MICROVERSION = "2.64"

#: For AggregateMultiTenancyIsolation. Nova's ``limit_tenants_to_placement_aggregate`` confines
#: a project to the aggregates that have such a key, and the project's id as a whole value.
_TENANT = "filter_tenant_id"
_RESERVATION = "reservation"
#: Of releases that made server groups.
_AFFINITY = "affinity_id"
_SLOTS_SPEC = f"aggregate_instance_extra_specs:{_RESERVATION}"
_PREEMPTIBLE_SPEC = "blazar:preemptible"

#: Properties of an image: which reservation's end it was made for, and of which server.
_IMAGE_RESERVATION = "reservation_id"
_IMAGE_SERVER = "reserved_server_id"
#: Nova makes images of servers in these states only.
_HAVE_IMAGES = frozenset({"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"})
_BEGUN = frozenset({"queued", "saving", "uploading", "importing"})
_FAILED = frozenset({"killed", "deleted", "pending_delete"})

#: Refusals that time, or an operator who frees something, can end.
_PASSING = frozenset({401, 403, 408, 409, 413, 425, 429})
_PAGE = 500
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class NovaCompute(ComputeDriver):
    """Makes what reservations need in Nova, as the administrator of ``[nova]``."""

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
        self._connection = _connect(conf)

    @property
    def _nova(self) -> Any:
        return self._connection.compute

    # The freepool --------------------------------------------------------------

    def add_to_freepool(self, host: str) -> None:
        """Add a host to the freepool's aggregate, which is open to this service's project only."""
        with _asking(f"host {host} in the freepool"):
            self._put_aggregate(self._freepool, {_TENANT: self._own_project()})
            self._add_host(self._freepool, host)

    def remove_from_freepool(self, host: str) -> None:
        """Remove a host from the freepool's aggregate."""
        with _asking(f"host {host} in the freepool"):
            self._remove_host(self._freepool, host)

    def freepool_hosts(self) -> frozenset[str]:
        """Return the compute nodes of the services in the freepool's aggregate."""
        with _asking("the freepool"):
            services = set(self._hosts(self._freepool))
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
        """Have a private flavor, with the reservation's id as its own."""
        specs = {}
        if in_aggregate:
            specs[_SLOTS_SPEC] = reservation_id
        if resource_class is not None:
            specs[f"resources:{resource_class}"] = "1"
        size = {"ram": memory_mb, "vcpus": vcpus, "disk": disk_gb}
        with _asking(f"the flavor of reservation {reservation_id}"):
            flavor = self._flavor(reservation_id)
            if flavor is not None and any(flavor[name] != value for name, value in size.items()):
                self._remove_flavor(reservation_id)
                flavor = None
            if flavor is None:
                flavor = self._nova.create_flavor(
                    id=reservation_id, name=self._name(reservation_id), is_public=False, **size)
            before = flavor.extra_specs or {}
            for name in before.keys() - specs.keys():
                with _gone_is_fine():
                    self._nova.delete_flavor_extra_specs_property(flavor, name)
            if specs.items() - before.items():
                self._nova.create_flavor_extra_specs(flavor, specs)
        return reservation_id

    def grant_flavor(self, reservation_id: str, project_id: str) -> None:
        """Give a project access to the reservation's flavor."""
        with _asking(f"the flavor of reservation {reservation_id}"):
            try:
                self._nova.flavor_add_tenant_access(reservation_id, project_id)
            except sdk_errors.ConflictException:
                if not self._has_access(reservation_id, project_id):
                    raise

    def revoke_flavor(self, reservation_id: str, project_id: str) -> None:
        """Take a project's access to the reservation's flavor."""
        with _asking(f"the flavor of reservation {reservation_id}"), _gone_is_fine():
            self._nova.flavor_remove_tenant_access(reservation_id, project_id)

    def delete_flavor_servers(self, reservation_id: str) -> int:
        """Delete the servers of the reservation's flavor, whichever project they are of."""
        with _asking(f"servers of reservation {reservation_id}"):
            # Of a flavor that is not there Nova would list nothing, and say nothing.
            if self._flavor(reservation_id) is None:
                return 0
            return self._delete(self._servers(flavor=reservation_id))

    def remove_flavor(self, reservation_id: str) -> None:
        """Delete the reservation's flavor."""
        with _asking(f"the flavor of reservation {reservation_id}"):
            self._remove_flavor(reservation_id)

    def remove_server_group(self, reservation_id: str) -> None:
        """Delete every server group of the reservation's name."""
        with _asking(f"the server group of reservation {reservation_id}"):
            self._delete_server_groups(self._server_groups(reservation_id))

    # Aggregates ----------------------------------------------------------------

    def put_slot_aggregate(self, reservation_id: str, project_id: str | None) -> str | None:
        """Have the aggregate that nova's filters match with the reservation's flavor.

        Its list of projects lets the project in where the freepool is closed to it, and does
        not confine it to these hosts.
        """
        tenants = project_id and f"{project_id},{self._own_project()}"
        with _asking(f"the aggregate of reservation {reservation_id}"):
            return self._put_aggregate(reservation_id, {
                _RESERVATION: reservation_id, _TENANT: tenants, _AFFINITY: None})

    def put_host_aggregate(self, reservation_id: str, project_id: str) -> str | None:
        """Have the aggregate that ReservationFilter matches with the hint.

        Its owner is a whole value, so it must not have a list of projects as well.
        """
        zone = f"{self._az_prefix}{reservation_id}" if self._az_prefix else None
        with _asking(f"the aggregate of reservation {reservation_id}"):
            return self._put_aggregate(
                reservation_id, {self._owner_key: project_id, _TENANT: None}, zone)

    def add_host(self, reservation_id: str, host: str) -> str | None:
        """Add a host to the reservation's aggregate.

        Nova tells Placement after it has noted it itself, and does not repeat it.
        """
        with _asking(f"host {host} of reservation {reservation_id}"):
            return self._add_host(reservation_id, host)

    def remove_host(self, reservation_id: str, host: str) -> None:
        """Remove a host from the reservation's aggregate."""
        with _asking(f"host {host} of reservation {reservation_id}"):
            self._remove_host(reservation_id, host)

    def remove_aggregate(self, reservation_id: str) -> None:
        """Delete the reservation's aggregate, after its hosts were removed from it."""
        with _asking(f"the aggregate of reservation {reservation_id}"):
            aggregate = self._aggregate(reservation_id)
            if aggregate is None:
                return
            for host in aggregate.hosts or ():
                with _gone_is_fine():
                    self._nova.remove_host_from_aggregate(aggregate, host)
            with _gone_is_fine():
                self._nova.delete_aggregate(aggregate, ignore_missing=False)

    # Servers on hosts ----------------------------------------------------------

    def delete_preemptible_servers(self, host: str) -> int:
        """Delete the servers of a host whose flavor says that they are preemptible."""
        with _asking(f"servers on host {host}"):
            return self._delete(
                each for each in self._servers(compute_host=self._service_host(host))
                if ((each.flavor or {}).get("extra_specs") or {})
                .get(_PREEMPTIBLE_SPEC, "").lower() == "true")

    def snapshot_host_servers(self, reservation_id: str, host: str) -> int:
        """Make images of servers; Nova shares them with the projects of the servers."""
        with _asking(f"images of servers on host {host}"):
            return sum(
                self._has_begun_image(each, reservation_id)
                for each in self._reserved_servers(reservation_id, host)
                if each.status in _HAVE_IMAGES)

    def delete_host_servers(self, reservation_id: str, host: str) -> int:
        """Delete the servers of the reservation's project on a host of its aggregate."""
        with _asking(f"servers on host {host}"):
            return self._delete(self._reserved_servers(reservation_id, host))

    # What there is -------------------------------------------------------------

    def made(self) -> Mapping[str, frozenset[str]]:
        """Find flavors, groups and aggregates by their names."""
        found: dict[str, set[str]] = {}
        with _asking("what was made"):
            for flavor in self._nova.flavors(is_public=False):
                if flavor.name == self._name(flavor.id):
                    found.setdefault(flavor.id, set()).add(FLAVOR)
            for group in self._all_server_groups():
                id_ = group["name"].removeprefix(self._name_prefix)
                if group["name"] == self._name(id_) and _UUID.fullmatch(id_):
                    found.setdefault(id_, set()).add(SERVER_GROUP)
            for aggregate in self._nova.aggregates():
                metadata = aggregate.metadata or {}
                if self._owner_key in metadata or metadata.get(_RESERVATION) == aggregate.name:
                    found.setdefault(aggregate.name, set()).add(AGGREGATE)
        return {id_: frozenset(kinds) for id_, kinds in found.items()}

    # Nova, one thing at a time ---------------------------------------------------

    def _own_project(self) -> str:
        """Return the project to which the freepool is open; nobody boots servers there."""
        project_id = self._service_project_id or self._connection.session.get_project_id()
        if project_id is None:
            raise ComputeRefused(
                f"[{options.GROUP.name}] service_project_id: expected the project to which the "
                "freepool is closed, because the login has none")
        return str(project_id)

    def _name(self, reservation_id: str) -> str:
        return f"{self._name_prefix}{reservation_id}"

    def _flavor(self, reservation_id: str) -> flavors.Flavor | None:
        flavor: flavors.Flavor | None = _unless_gone(
            lambda: self._nova.get_flavor(reservation_id))
        return flavor

    def _remove_flavor(self, reservation_id: str) -> None:
        with _gone_is_fine():
            self._nova.delete_flavor(reservation_id, ignore_missing=False)

    def _has_access(self, reservation_id: str, project_id: str) -> bool:
        return any(each["tenant_id"] == project_id
                   for each in self._nova.get_flavor_access(reservation_id))

    def _server_groups(self, reservation_id: str) -> list[Mapping[str, Any]]:
        name = self._name(reservation_id)
        return [each for each in self._all_server_groups() if each["name"] == name]

    def _all_server_groups(self) -> Iterator[Mapping[str, Any]]:
        """Yield the groups of this service's project; Nova gives no links to the next page."""
        found = _PAGE
        offset = 0
        while found:
            response = self._nova.get(
                "/os-server-groups", params={"limit": _PAGE, "offset": offset})
            sdk_errors.raise_from_response(response)
            page = response.json()["server_groups"]
            yield from page
            found = len(page)
            offset += found

    def _delete_server_groups(self, groups: Iterable[Mapping[str, Any]]) -> None:
        for each in groups:
            with _gone_is_fine():
                self._nova.delete_server_group(each["id"], ignore_missing=False)

    def _aggregate(self, name: str) -> aggregates.Aggregate | None:
        return next((each for each in self._nova.aggregates() if each.name == name), None)

    def _put_aggregate(
        self, name: str, metadata: Mapping[str, str | None], zone: str | None = None
    ) -> str:
        """Have an aggregate with some metadata; None: without that key."""
        aggregate = self._aggregate(name)
        if aggregate is None:
            aggregate = self._nova.create_aggregate(
                name=name, **({"availability_zone": zone} if zone else {}))
        before = aggregate.metadata or {}
        if any(before.get(key) != value for key, value in metadata.items()):
            self._nova.set_aggregate_metadata(aggregate, dict(metadata))
        return str(aggregate.id)

    def _add_host(self, name: str, host: str) -> str:
        """Have a host in an aggregate; return the aggregate's uuid."""
        aggregate = self._aggregate(name)
        if aggregate is None:
            raise ComputeRefused(f"Nova has no aggregate {name}.")
        service = self._service_host(host)
        if service not in (aggregate.hosts or ()):
            try:
                self._nova.add_host_to_aggregate(aggregate, service)
            except sdk_errors.ConflictException:
                # Somebody else has added it in between, or it cannot be added.
                if service not in self._hosts(name):
                    raise
        return str(aggregate.uuid)

    def _remove_host(self, name: str, host: str) -> None:
        aggregate = self._aggregate(name)
        service = self._listed_host(aggregate, host)
        if aggregate is not None and service is not None:
            with _gone_is_fine():
                self._nova.remove_host_from_aggregate(aggregate, service)

    def _hosts(self, name: str) -> list[str]:
        aggregate = self._aggregate(name)
        return list(aggregate.hosts or ()) if aggregate is not None else []

    def _reserved_servers(self, reservation_id: str, host: str) -> list[servers.Server]:
        """Return the servers on a host of the reservation's aggregate, of its project.

        Others may have some there, who had the host before.
        """
        aggregate = self._aggregate(reservation_id)
        name = self._listed_host(aggregate, host)
        if aggregate is None or name is None:
            return []
        project_id = (aggregate.metadata or {}).get(self._owner_key)
        if project_id is None:
            raise ComputeRefused(
                f"The aggregate {reservation_id} has no metadata {self._owner_key}: it does "
                "not say whose servers these are.")
        return [each for each in self._servers(compute_host=name)
                if each.project_id == project_id]

    def _listed_host(self, aggregate: aggregates.Aggregate | None, host: str) -> str | None:
        """Return Nova's name of a host, if it is in an aggregate."""
        if aggregate is None or not aggregate.hosts:
            return None
        service = self._find_service_host(host)
        return service if service in aggregate.hosts else None

    def _service_host(self, host: str) -> str:
        """Return the name of a compute node's service, by which aggregates know it."""
        service = self._find_service_host(host)
        if service is None:
            raise ComputeRefused(f"Nova has no compute node {host}.")
        return service

    def _find_service_host(self, host: str) -> str | None:
        found = _unless_gone(lambda: list(self._nova.hypervisors(
            details=True, hypervisor_hostname_pattern=host)))
        # The pattern is found in other names too.
        return next((each.service_details["host"] for each in found or ()
                     if each.name == host), None)

    def _servers(self, **filters: str) -> list[servers.Server]:
        """Return servers of all projects, those too that wait to be deleted for good.

        All pages before anything is done to them: one begins after the last server of the
        one before, which has to be there then.
        """
        return [
            *self._nova.servers(all_projects=True, **filters),
            *self._nova.servers(
                all_projects=True, status="SOFT_DELETED", deleted_only=True, **filters)]

    def _delete(self, found: Iterable[servers.Server]) -> int:
        """Have servers deleted at once, not after the time for which users can get them back.

        :returns: how many there were.
        """
        count = 0
        failure = None
        for each in found:
            count += 1
            if each.task_state == "deleting":
                continue
            try:
                with _gone_is_fine():
                    self._nova.delete_server(each, force=True)
            except sdk_errors.HttpException as error:
                failure = error  # The others need not wait for this one.
        if failure is not None:
            raise failure
        return count

    def _has_begun_image(self, server: servers.Server, reservation_id: str) -> bool:
        """Have an image of a server made; say whether it is not finished yet."""
        response = self._connection.image.get("/images", params={
            _IMAGE_RESERVATION: reservation_id, _IMAGE_SERVER: server.id})
        sdk_errors.raise_from_response(response)
        found = [each["status"] for each in response.json()["images"]
                 if each["status"] not in _FAILED]
        if not found:
            server.create_image(self._nova, f"{self._image_prefix}{server.name}", {
                _IMAGE_RESERVATION: reservation_id, _IMAGE_SERVER: server.id})
            return True
        return _BEGUN.issuperset(found)


def _connect(conf: cfg.ConfigOpts) -> connection.Connection:
    """Return a connection that has asked nobody yet."""
    name = options.GROUP.name
    try:
        auth = loading.load_auth_from_conf_options(conf, name)
        session = loading.load_session_from_conf_options(
            conf, name, auth=auth, app_name="placement-core")
        adapter = loading.load_adapter_from_conf_options(conf, name, session=session, auth=auth)
    except (client_errors.ClientException, TypeError) as error:
        raise errors.ConfigurationError(f"[{name}]: {_line(error)}") from error
    if auth is None:
        raise errors.ConfigurationError(
            f"[{name}] auth_type: expected the way this service logs in at Keystone, such as "
            "password, because [reservations] compute_driver = nova; auth_section = "
            "keystone_authtoken uses the login of that section")
    session.session.hooks["response"].append(_require_document)
    settings: dict[str, Any] = {
        "interface": adapter.interface, "connect_retries": adapter.connect_retries,
        "status_code_retries": adapter.status_code_retries,
        "compute_endpoint_override": adapter.endpoint_override,
    }
    return connection.Connection(
        session=session, region_name=adapter.region_name, app_name="placement-core",
        compute_default_microversion=_MICROVERSION,
        **{key: value for key, value in settings.items() if value is not None})


def _require_document(response: Any, **settings: object) -> None:
    """Refuse to take somebody else's page for Nova's consent.

    :param response: of requests.
    :raises ValueError: it is one.
    """
    type_ = response.headers.get("Content-Type", "")
    if response.ok and response.content and "json" not in type_:
        raise ValueError(f"{response.url} answers with {type_}.")


@contextlib.contextmanager
def _asking(about: str) -> Iterator[None]:
    """Turn what goes wrong into what may be tried again and what may not."""
    try:
        yield
    except errors.Error:
        raise
    except sdk_errors.HttpException as error:
        said = f"Nova, asked about {about}: {_line(error)}"
        status = error.status_code or 0
        # A list that is refused: the last of one page was gone before the next was asked for.
        if (400 <= status < 500 and status not in _PASSING and error.method != "GET"
                and _is_of_nova(error)):
            raise ComputeRefused(said) from error
        raise ComputeUnavailable(said) from error
    except (sdk_errors.SDKException, client_errors.ClientException) as error:
        raise ComputeUnavailable(f"Nova, asked about {about}: {_line(error)}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ComputeUnavailable(
            f"The answer about {about} is not Nova's: {_line(error)}") from error


@contextlib.contextmanager
def _gone_is_fine() -> Iterator[None]:
    """Take it for done when Nova says that there is nothing to remove."""
    try:
        yield
    except sdk_errors.NotFoundException as error:
        if not _is_of_nova(error):
            raise


def _unless_gone(ask: Callable[[], Any]) -> Any:
    """Return an answer, or None where Nova says that there is no such thing."""
    try:
        return ask()
    except sdk_errors.NotFoundException as error:
        if not _is_of_nova(error):
            raise
        return None


def _is_of_nova(error: sdk_errors.HttpException) -> bool:
    """Say whether a refusal is Nova's own: a proxy's 404 says nothing about a flavor."""
    if error.response is None:
        return False
    try:
        (fault,) = error.response.json().values()
        return bool(fault["code"] == error.status_code)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
