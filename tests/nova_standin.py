"""A stand-in for Nova (and what of Glance and Keystone goes with it) for tests of drivers.

``python -m tests.nova_standin`` prints its URL when it serves, and serves until its input
is closed. It runs in a process of its own, because it imports nova: every query and body it
is sent, and every body it answers, is checked with the JSON schemas that hang at the methods
of nova's own controllers, at the microversion asked for. What it then does is written down
here from what nova's controllers do; a wrong answer of its own is a violation, which
``NovaStandIn.violations`` tells.

It can be late, fail before or after it has done something, answer nobody, do something
twice, or be replaced by somebody else's page: ``NovaStandIn.fail``.
"""

from __future__ import annotations

import atexit
import dataclasses
import datetime
import http.server
import importlib
import importlib.util
import json
import os
import pathlib
import random
import re
import select
import subprocess
import sys
import threading
import time
import traceback
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import fixtures

#: Whether there is a nova whose schemas can be used.
INSTALLED = importlib.util.find_spec("nova") is not None

#: The project in which the service logs in, and what it logs in with.
SERVICE = "5e" * 16
PASSWORD = "no secret"
_PATIENCE_SECONDS = 180
#: How many flavors or servers one page has.
_PAGE = 3


class NovaStandIn(fixtures.Fixture):
    """A running stand-in; ``url`` is where its Keystone is, ``nova`` its Nova."""

    url: str

    def _setUp(self) -> None:
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.nova_standin"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env=os.environ | {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "true"})
        self.addCleanup(self._end, process)
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], _PATIENCE_SECONDS)
        line = process.stdout.readline().decode() if ready else ""
        if not line.startswith("http"):
            raise RuntimeError(f"The stand-in did not start:\n{(folder / 'log').read_text()}")
        self.url = line.strip()
        self.nova = f"{self.url}/v2.1"

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def reset(self, **settings: object) -> None:
        """Empty the world; ``hosts``: {hypervisor's name: its service's host}."""
        self._ask("reset", settings)

    def set(self, **settings: object) -> None:
        """Set ``delete_after`` (listings that a deleted server survives), ``latency``, …"""
        self._ask("set", settings)

    def fail(self, *faults: Mapping[str, object]) -> None:
        """Let requests fail; each fault once, in order, on the first request that it fits.

        A fault has ``how``: 500 (nothing is done), "500 after" (it is done), "lost" (done, and
        the connection closed), "late" (the connection is held for ``seconds`` and closed; then
        it is done), "twice" (done twice; the second answer counts), "page" or "404 page"
        (a proxy answers), or any other status. It may have ``on``, a regular expression for
        "METHOD path body", and ``skip``, how many of those pass first. With ``rate`` (and
        ``seed``) it is not used up, and falls, in one of several ways, on so many requests.
        """
        self._ask("fail", list(faults))

    def world(self) -> Any:
        """Return all there is."""
        return self._ask("world", None)

    def boot(self, host: str, **values: object) -> str:
        """Put a server on a host (of the service's name); return its id."""
        return str(self._ask("boot", {"host": host, **values}))

    def put_group(self, name: str, *, project: str) -> str:
        """Have another anti-affinity group of a project; return its id."""
        return str(self._ask("put_group", {"name": name, "project": project}))

    def requests(self) -> list[str]:
        """Return "METHOD path" of what came since the last reset."""
        return list(self._ask("requests", None))

    def violations(self) -> list[str]:
        """Return what nova's schemas said to bodies: of requests, and of answers."""
        return list(self._ask("violations", None))

    def _ask(self, what: str, body: object) -> Any:
        request = urllib.request.Request(
            f"{self.url}/control/{what}", json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.loads(response.read() or b"null")


_shared: list[NovaStandIn] = []


def shared() -> NovaStandIn:
    """Return the stand-in of this process; it ends with the process."""
    if not _shared:
        made = NovaStandIn()
        made.setUp()
        atexit.register(made.cleanUp)
        _shared.append(made)
    return _shared[0]


# From here on: the process itself ------------------------------------------------


class Fault(Exception):
    """An answer that is no success."""

    _NAMES = {400: "badRequest", 401: "unauthorized", 403: "forbidden", 404: "itemNotFound",
              409: "conflictingRequest", 500: "computeFault"}

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {self._NAMES.get(status, "computeFault"): {
            "code": status, "message": message}}


@dataclasses.dataclass
class Call:
    """A request, taken apart."""

    method: str
    path: str
    query: dict[str, list[str]]
    body: Any
    minor: int

    def one(self, name: str) -> str | None:
        return self.query.get(name, [None])[0]  # type: ignore[list-item]


def _now() -> str:
    return datetime.datetime(2026, 11, 21, 12, 0, 0).strftime("%Y-%m-%dT%H:%M:%S.%f")


class World:
    """What there is in Nova and Glance, and what their APIs do with it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.reset({})

    def reset(self, settings: Mapping[str, Any]) -> None:
        self.flavors: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        self.aggregates: dict[int, dict[str, Any]] = {}
        self.servers: dict[str, dict[str, Any]] = {}
        self.images: dict[str, dict[str, Any]] = {}
        self.hosts: dict[str, str] = {}
        self.last_aggregate = 0
        self.delete_after = 0
        self.max_limit = 1000
        #: Nova asks Keystone about projects that flavors are granted to.
        self.unknown_projects: list[str] = []
        self.latency = 0.0
        self.faults: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.violations: list[str] = []
        self.set(settings)

    def set(self, settings: Mapping[str, Any]) -> None:
        for name, value in settings.items():
            getattr(self, name)
            setattr(self, name, value)

    def dump(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (
            "flavors", "groups", "aggregates", "servers", "images", "hosts")}

    def boot(self, values: dict[str, Any]) -> str:
        id_ = str(uuid.uuid4())
        self.servers[id_] = {
            "id": id_, "name": f"server-{id_[:8]}", "project": "a0" * 16, "flavor": None,
            "specs": {}, "status": "ACTIVE", "task": None, "seen": 0} | values
        return id_

    # Flavors

    def _flavor(self, id_: str) -> dict[str, Any]:
        if id_ not in self.flavors:
            raise Fault(404, f"Flavor {id_} could not be found.")
        return self.flavors[id_]

    def _show_flavor(self, flavor: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": flavor["id"], "name": flavor["name"], "ram": flavor["ram"],
            "vcpus": flavor["vcpus"], "disk": flavor["disk"], "swap": "",
            "OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": False,
            "rxtx_factor": 1.0, "os-flavor-access:is_public": flavor["public"],
            "description": None, "extra_specs": flavor["specs"],
            "links": [{"rel": "self", "href": f"{self.url}/v2.1/flavors/{flavor['id']}"}]}

    def flavors_detail(self, call: Call) -> Any:
        public = {"None": None, "True": True, "False": False}[call.one("is_public") or "True"]
        found = [each for id_, each in sorted(self.flavors.items())
                 if public is None or each["public"] == public]
        page, link = self._page(call, found, "flavors")
        return {"flavors": [self._show_flavor(each) for each in page]} | link

    def _page(self, call: Call, found: list[dict[str, Any]], what: str) -> Any:
        ids = [each["id"] for each in found]
        marker = call.one("marker")
        if marker is not None:
            if marker not in ids:
                raise Fault(400, f"marker [{marker}] not found")
            found = found[ids.index(marker) + 1:]
        page = found[:_PAGE]
        if len(found) <= _PAGE:
            return page, {}
        query = call.query | {"marker": [page[-1]["id"]]}
        href = f"{self.url}{call.path}?{urllib.parse.urlencode(query, doseq=True)}"
        return page, {f"{what}_links": [{"rel": "next", "href": href}]}

    def flavor_show(self, call: Call, id_: str) -> Any:
        return {"flavor": self._show_flavor(self._flavor(id_))}

    def flavor_create(self, call: Call) -> Any:
        asked = call.body["flavor"]
        if any(asked["id"] == each["id"] or asked["name"] == each["name"]
               for each in self.flavors.values()):
            raise Fault(409, f"Flavor with ID {asked['id']} already exists.")
        made = {"id": asked["id"], "name": asked["name"], "specs": {}, "projects": [],
                "public": asked.get("os-flavor-access:is_public", True)} | {
                    name: int(asked[name]) for name in ("ram", "vcpus", "disk")}
        self.flavors[made["id"]] = made
        return {"flavor": self._show_flavor(made)}

    def flavor_delete(self, call: Call, id_: str) -> None:
        self._flavor(id_)
        del self.flavors[id_]

    def flavor_access(self, call: Call, id_: str) -> Any:
        flavor = self._flavor(id_)
        if flavor["public"]:
            raise Fault(404, "Access list not available for public flavors.")
        return self._access(flavor)

    @staticmethod
    def _access(flavor: dict[str, Any]) -> Any:
        return {"flavor_access": [
            {"flavor_id": flavor["id"], "tenant_id": each} for each in flavor["projects"]]}

    def flavor_add_access(self, call: Call, id_: str) -> Any:
        flavor, project = self._flavor(id_), call.body["addTenantAccess"]["tenant"]
        if project in self.unknown_projects:
            raise Fault(400, f"Project ID {project} is not a valid project.")
        if project in flavor["projects"]:
            raise Fault(409, f"Flavor access already exists for flavor {id_} and {project}.")
        flavor["projects"].append(project)
        return self._access(flavor)

    def flavor_remove_access(self, call: Call, id_: str) -> Any:
        flavor, project = self._flavor(id_), call.body["removeTenantAccess"]["tenant"]
        if project not in flavor["projects"]:
            raise Fault(404, f"Flavor access not found for {id_} / {project}.")
        flavor["projects"].remove(project)
        return self._access(flavor)

    def specs_create(self, call: Call, id_: str) -> Any:
        self._flavor(id_)["specs"].update(call.body["extra_specs"])
        return call.body

    def spec_delete(self, call: Call, id_: str, name: str) -> None:
        specs = self._flavor(id_)["specs"]
        if name not in specs:
            raise Fault(404, f"Flavor {id_} has no extra specs with key {name}.")
        del specs[name]

    # Server groups

    @staticmethod
    def _show_group(group: dict[str, Any]) -> dict[str, Any]:
        return {"id": group["id"], "name": group["name"], "policy": "anti-affinity",
                "rules": {}, "members": [], "project_id": group["project"],
                "user_id": "5a" * 16}

    def groups_list(self, call: Call) -> Any:
        """Show the groups of the caller's project; all of them, if an administrator asks so."""
        offset = int(call.one("offset") or 0)
        limit = min(int(call.one("limit") or 1000), self.max_limit)
        found = [each for each in self.groups.values()
                 if "all_projects" in call.query or each["project"] == SERVICE]
        return {"server_groups": [
            self._show_group(each) for each in found[offset:offset + limit]]}

    def put_group(self, values: dict[str, Any]) -> str:
        id_ = str(uuid.uuid4())
        self.groups[id_] = {"id": id_} | values
        return id_

    def group_delete(self, call: Call, id_: str) -> None:
        if self.groups.pop(id_, None) is None:
            raise Fault(404, f"Instance group {id_} could not be found.")

    # Aggregates

    def _aggregate(self, id_: str) -> dict[str, Any]:
        if not id_.isdecimal():
            raise Fault(400, "id must be an integer")
        if int(id_) not in self.aggregates:
            raise Fault(404, f"Aggregate {id_} could not be found.")
        return self.aggregates[int(id_)]

    @staticmethod
    def _show_aggregate(call: Call, aggregate: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in aggregate.items()
                if name != "uuid" or call.minor >= 41} | {
                    "availability_zone": aggregate["metadata"].get("availability_zone")}

    def aggregates_list(self, call: Call) -> Any:
        return {"aggregates": [
            self._show_aggregate(call, each) for each in self.aggregates.values()]}

    def aggregate_create(self, call: Call) -> Any:
        asked = call.body["aggregate"]
        if any(asked["name"] == each["name"] for each in self.aggregates.values()):
            raise Fault(409, f"Aggregate {asked['name']} already exists.")
        zone = asked.get("availability_zone")
        self.last_aggregate += 1
        made = {"id": self.last_aggregate, "uuid": str(uuid.uuid4()), "name": asked["name"],
                "hosts": [], "metadata": {"availability_zone": zone} if zone else {},
                "created_at": _now(), "updated_at": None, "deleted": False, "deleted_at": None}
        self.aggregates[made["id"]] = made
        shown = self._show_aggregate(call, made)
        return {"aggregate": {name: value for name, value in shown.items()
                              if name not in ("hosts", "metadata")}}

    def aggregate_delete(self, call: Call, id_: str) -> None:
        if self._aggregate(id_)["hosts"]:
            raise Fault(400, f"Cannot perform action 'delete' on aggregate {id_}: not empty.")
        del self.aggregates[int(id_)]

    def aggregate_add_host(self, call: Call, id_: str) -> Any:
        aggregate, host = self._aggregate(id_), call.body["add_host"]["host"]
        self._require_host(host)
        if host in aggregate["hosts"]:
            raise Fault(409, f"Aggregate {id_} already has host {host}.")
        zone = aggregate["metadata"].get("availability_zone")
        zones = self._zones(host)
        if zone and zones and zone not in zones:
            raise Fault(409, f"One or more hosts already in availability zone(s) {zones}")
        if zone and zone not in zones and self._is_used(host):
            raise Fault(409, "the host already has instance(s).")
        aggregate["hosts"].append(host)
        return {"aggregate": self._show_aggregate(call, aggregate)}

    def aggregate_remove_host(self, call: Call, id_: str) -> Any:
        aggregate, host = self._aggregate(id_), call.body["remove_host"]["host"]
        self._require_host(host)
        if host not in aggregate["hosts"]:
            raise Fault(404, f"Cannot remove host {host} in aggregate {id_}")
        if aggregate["metadata"].get("availability_zone") and self._is_used(host):
            raise Fault(409, "the host already has instance(s).")
        aggregate["hosts"].remove(host)
        return {"aggregate": self._show_aggregate(call, aggregate)}

    def aggregate_set_metadata(self, call: Call, id_: str) -> Any:
        aggregate = self._aggregate(id_)
        for name, value in call.body["set_metadata"]["metadata"].items():
            if value is None:
                aggregate["metadata"].pop(name, None)
            else:
                aggregate["metadata"][name] = value
        return {"aggregate": self._show_aggregate(call, aggregate)}

    def _require_host(self, host: str) -> None:
        if host not in self.hosts.values():
            raise Fault(404, f"Host '{host}' is not mapped to any cell")

    def _zones(self, host: str) -> list[str]:
        return [each["metadata"]["availability_zone"] for each in self.aggregates.values()
                if host in each["hosts"] and "availability_zone" in each["metadata"]]

    def _is_used(self, host: str) -> bool:
        return any(each["host"] == host for each in self.servers.values())

    # Hypervisors

    def hypervisors_detail(self, call: Call) -> Any:
        pattern = call.one("hypervisor_hostname_pattern") or ""
        found = {name: host for name, host in self.hosts.items() if pattern in name}
        if pattern and not found:
            raise Fault(404, f"No hypervisor matching '{pattern}' could be found.")
        number = dict.fromkeys(
            ("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used",
             "free_ram_mb", "free_disk_gb", "current_workload", "running_vms",
             "disk_available_least", "hypervisor_version"), 1)
        return {"hypervisors": [number | {
            "id": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), "hypervisor_hostname": name,
            "state": "up", "status": "enabled", "hypervisor_type": "QEMU",
            "host_ip": "192.0.2.1", "cpu_info": {},
            "service": {"id": str(uuid.uuid5(uuid.NAMESPACE_DNS, host)), "host": host,
                        "disabled_reason": None}} for name, host in found.items()]}

    # Servers

    def _server(self, id_: str) -> dict[str, Any]:
        if id_ not in self.servers:
            raise Fault(404, f"Instance {id_} could not be found.")
        return self.servers[id_]

    def servers_detail(self, call: Call) -> Any:
        if call.one("all_tenants") not in ("True", "1"):
            return {"servers": []}
        soft = call.one("deleted") == "True" and call.one("status") == "SOFT_DELETED"
        host, flavor = call.one("host"), call.one("flavor")
        if flavor is not None and flavor not in self.flavors:
            return {"servers": []}
        if call.one("marker") is None and not soft:
            self._come_nearer_to_the_end()
        found = [each for _, each in sorted(self.servers.items())
                 if (each["status"] == "SOFT_DELETED") == soft
                 and host in (None, each["host"]) and flavor in (None, each["flavor"])]
        page, link = self._page(call, found, "servers")
        return {"servers": [self._show_server(each) for each in page]} | link

    def _come_nearer_to_the_end(self) -> None:
        for id_, each in list(self.servers.items()):
            if each["task"] == "deleting":
                each["seen"] += 1
                if each["seen"] > self.delete_after:
                    del self.servers[id_]

    def _show_server(self, server: dict[str, Any]) -> dict[str, Any]:
        links = [{"rel": "self", "href": f"{self.url}/v2.1/servers/{server['id']}"}]
        return {
            "id": server["id"], "name": server["name"], "status": server["status"],
            "tenant_id": server["project"], "user_id": "a5" * 16, "hostId": "", "image": "",
            "accessIPv4": "", "accessIPv6": "", "addresses": {}, "config_drive": "",
            "created": _now(), "updated": _now(), "key_name": None, "links": links,
            "metadata": {}, "os-extended-volumes:volumes_attached": [], "locked": False,
            "description": None, "tags": [], "trusted_image_certificates": None,
            "flavor": {"disk": 1, "ephemeral": 0, "extra_specs": server["specs"],
                       "original_name": str(server["flavor"]), "ram": 1, "swap": 0, "vcpus": 1},
            "OS-DCF:diskConfig": "AUTO", "OS-EXT-AZ:availability_zone": "nova",
            "OS-EXT-SRV-ATTR:host": server["host"], "OS-EXT-STS:power_state": 1,
            "OS-EXT-STS:task_state": server["task"], "OS-EXT-STS:vm_state": "active",
            "OS-SRV-USG:launched_at": None, "OS-SRV-USG:terminated_at": None}

    def server_force_delete(self, call: Call, id_: str) -> None:
        server = self._server(id_)
        server["task"] = "deleting"
        if server["status"] == "SOFT_DELETED":
            server["status"] = "ACTIVE"
        if not self.delete_after:
            del self.servers[id_]

    def server_create_image(self, call: Call, id_: str) -> Any:
        server, asked = self._server(id_), call.body["createImage"]
        if server["status"] not in ("ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"):
            raise Fault(409, f"Cannot 'createImage' instance {id_} while it is in vm_state error")
        if any(each["server"] == id_ and each["status"] in ("queued", "saving")
               for each in self.images.values()):
            raise Fault(409, f"Cannot 'createImage' instance {id_} while it is in task_state x")
        image = {"id": str(uuid.uuid4()), "name": asked["name"], "status": "queued",
                 "server": id_, "properties": asked.get("metadata", {})}
        self.images[image["id"]] = image
        return {"image_id": image["id"]}

    # Glance

    def images_list(self, call: Call) -> Any:
        found = [each for each in self.images.values() if all(
            each["properties"].get(name) == value[0] for name, value in call.query.items())]
        return {"images": [
            {"id": each["id"], "name": each["name"], "status": each["status"]}
            | each["properties"] for each in found]}


@dataclasses.dataclass(frozen=True)
class Route:
    """Which of nova's methods a request would reach, and what stands in for it."""

    method: str
    path: str
    do: Callable[..., Any]
    status: int
    #: Nova's controller, and its method's name or, below /action, the action.
    of: tuple[str, str]

    @property
    def action(self) -> str | None:
        return self.of[1] if self.path.endswith("/action") else None


_ID = r"([^/]+)"
_FLAVORS = "flavors.FlavorsController"
_ACCESS = "flavor_access.FlavorAccessController"
_GRANT = "flavor_access.FlavorActionController"
_SPECS = "flavors_extraspecs.FlavorExtraSpecsController"
_GROUPS = "server_groups.ServerGroupController"
_AGGREGATES = "aggregates.AggregateController"
_SERVERS = "servers.ServersController"

ROUTES = (
    Route("GET", "/flavors/detail", World.flavors_detail, 200, (_FLAVORS, "detail")),
    Route("GET", f"/flavors/{_ID}", World.flavor_show, 200, (_FLAVORS, "show")),
    Route("POST", "/flavors", World.flavor_create, 200, (_FLAVORS, "create")),
    Route("DELETE", f"/flavors/{_ID}", World.flavor_delete, 202, (_FLAVORS, "delete")),
    Route("GET", f"/flavors/{_ID}/os-flavor-access", World.flavor_access, 200,
          (_ACCESS, "index")),
    Route("POST", f"/flavors/{_ID}/action", World.flavor_add_access, 200,
          (_GRANT, "addTenantAccess")),
    Route("POST", f"/flavors/{_ID}/action", World.flavor_remove_access, 200,
          (_GRANT, "removeTenantAccess")),
    Route("POST", f"/flavors/{_ID}/os-extra_specs", World.specs_create, 200,
          (_SPECS, "create")),
    Route("DELETE", f"/flavors/{_ID}/os-extra_specs/{_ID}", World.spec_delete, 200,
          (_SPECS, "delete")),
    Route("GET", "/os-server-groups", World.groups_list, 200, (_GROUPS, "index")),
    Route("DELETE", f"/os-server-groups/{_ID}", World.group_delete, 204, (_GROUPS, "delete")),
    Route("GET", "/os-aggregates", World.aggregates_list, 200, (_AGGREGATES, "index")),
    Route("POST", "/os-aggregates", World.aggregate_create, 200, (_AGGREGATES, "create")),
    Route("DELETE", f"/os-aggregates/{_ID}", World.aggregate_delete, 200,
          (_AGGREGATES, "delete")),
    Route("POST", f"/os-aggregates/{_ID}/action", World.aggregate_add_host, 200,
          (_AGGREGATES, "add_host")),
    Route("POST", f"/os-aggregates/{_ID}/action", World.aggregate_remove_host, 200,
          (_AGGREGATES, "remove_host")),
    Route("POST", f"/os-aggregates/{_ID}/action", World.aggregate_set_metadata, 200,
          (_AGGREGATES, "set_metadata")),
    Route("GET", "/os-hypervisors/detail", World.hypervisors_detail, 200,
          ("hypervisors.HypervisorsController", "detail")),
    Route("GET", "/servers/detail", World.servers_detail, 200, (_SERVERS, "detail")),
    Route("POST", f"/servers/{_ID}/action", World.server_force_delete, 202,
          ("deferred_delete.DeferredDeleteController", "forceDelete")),
    Route("POST", f"/servers/{_ID}/action", World.server_create_image, 202,
          (_SERVERS, "createImage")),
)


class Schemas:
    """Nova's own, as they hang at the methods of its controllers."""

    def __init__(self) -> None:
        from nova import exception
        from nova.api.openstack import api_version_request
        from nova.api.validation import validators

        self._version = api_version_request.APIVersionRequest
        self._validator = validators._SchemaValidator
        self._error = exception.ValidationError
        self._methods = {route.of: self._method(route) for route in ROUTES}

    @staticmethod
    def _method(route: Route) -> Any:
        module, _, class_ = route.of[0].rpartition(".")
        controller = getattr(
            importlib.import_module(f"nova.api.openstack.compute.{module}"), class_)
        if route.action is None:
            return getattr(controller, route.of[1])
        (found,) = (each for each in vars(controller).values()
                    if getattr(each, "wsgi_action", None) == route.action)
        return found

    def complaint(self, of: tuple[str, str], kind: str, value: Any, minor: int) -> str | None:
        """Return what nova would say to a value; None: nothing.

        :param kind: request_body, request_query or response_body.
        """
        schemas = getattr(self._methods[of], f"{kind}_schemas", None)
        if schemas is None:
            return None if value in (None, {}) else f"nova expects no {kind}"

        class Versioned:
            api_version_request = self._version(f"2.{minor}")

        schema = schemas(Versioned)
        if schema is None:
            return f"there is no schema for {kind} at 2.{minor}"
        try:
            self._validator(schema, False, kind != "request_query").validate(value)
        except self._error as error:
            return f"{kind}: {error}"
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    # One packet for an answer, at once: else the client's kernel waits before it says thanks.
    wbufsize = -1
    disable_nagle_algorithm = True
    world: World
    schemas: Schemas
    lock = threading.RLock()
    chance = random.Random()

    def log_message(self, *arguments: object) -> None:
        pass

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        if self.path.startswith("/control/"):
            with self.lock:
                return self._answer(200, self._control(self.path[9:], json.loads(raw)))
        if self.world.latency:
            time.sleep(self.world.latency)
        with self.lock:
            self.world.requests.append(f"{self.command} {self.path}")
            how = self._fault(raw)
        return self._fail(how, raw)

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815

    def _fault(self, raw: bytes) -> dict[str, Any]:
        line = f"{self.command} {self.path} {raw.decode()}"
        for each in self.world.faults:
            if "/v2.1/" not in self.path or not re.search(each.get("on", ""), line):
                continue
            if each.get("skip"):
                each["skip"] -= 1
                continue
            if "rate" in each:
                if self.chance.random() < each["rate"]:
                    return dict(each, how=self.chance.choice(each["how"]))
                continue
            self.world.faults.remove(each)
            return each
        return {"how": None}

    def _fail(self, fault: dict[str, Any], raw: bytes) -> None:
        how = fault["how"]
        if how == "page":
            return self._answer(200, b"<html>Please log in</html>")
        if how == "404 page":
            return self._answer(404, b"<html>no such page</html>")
        if isinstance(how, int):
            return self._answer(how, Fault(how, "this was asked for").body)
        if how == "late":
            time.sleep(fault["seconds"])
        status, body = self._do(raw)
        if how == "twice":
            status, body = self._do(raw)
        if how == "500 after":
            return self._answer(500, Fault(500, "this was asked for").body)
        if how in ("lost", "late"):
            self.close_connection = True
            self.connection.close()
            return None
        return self._answer(status, body)

    def _do(self, raw: bytes) -> tuple[int, Any]:
        try:
            with self.lock:
                return self._route(raw)
        except Fault as fault:
            return fault.status, fault.body
        except Exception:
            self.world.violations.append(traceback.format_exc())
            return 500, Fault(500, "the stand-in is broken").body

    def _route(self, raw: bytes) -> tuple[int, Any]:
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/v3/auth/tokens":
            return 201, self._token(json.loads(raw))
        if url.path.rstrip("/") in ("", "/v2.1", "/v2", "/v3"):
            return 200, self._versions(url.path)
        if self.headers.get("X-Auth-Token") != "a token":
            raise Fault(401, "Who are you?")
        version = self.headers.get("OpenStack-API-Version", "compute 2.1")
        call = Call(self.command, url.path, urllib.parse.parse_qs(url.query),
                    json.loads(raw) if raw else None, int(version.rpartition(".")[2]))
        if url.path == "/v2/images":
            return 200, self.world.images_list(call)
        for route in ROUTES:
            match = re.fullmatch(route.path, url.path.removeprefix("/v2.1"))
            action = next(iter(call.body), None) if isinstance(call.body, dict) else None
            if match and route.method == call.method and (
                    route.action is None or route.action == action):
                return self._checked(route, call, [
                    urllib.parse.unquote(each) for each in match.groups()])
        self.world.violations.append(f"{self.command} {self.path}: no such route")
        raise Fault(404, "The resource could not be found.")

    def _checked(self, route: Route, call: Call, arguments: list[str]) -> tuple[int, Any]:
        for kind, value in (("request_query", call.query), ("request_body", call.body)):
            complaint = self.schemas.complaint(route.of, kind, value, call.minor)
            if complaint is not None:
                self.world.violations.append(f"{call.method} {call.path}: {complaint}")
                raise Fault(400, complaint)
        answer = route.do(self.world, call, *arguments)
        complaint = self.schemas.complaint(route.of, "response_body", answer, call.minor)
        if complaint is not None:
            self.world.violations.append(f"{call.method} {call.path}: {complaint}")
        return route.status, answer

    def _versions(self, path: str) -> Any:
        def version(id_: str, where: str, **more: str) -> dict[str, Any]:
            return {"id": id_, "status": "CURRENT", "links": [
                {"rel": "self", "href": f"{self.world.url}{where}"}]} | more

        nova = version("v2.1", "/v2.1/", version="2.100", min_version="2.1",
                       updated="2013-07-23T11:33:21Z")
        if path.startswith("/v2.1"):
            return {"version": nova}
        if path.startswith("/v3"):
            return {"version": version("v3.14", "/v3/")}
        # Glance answers so at both of these; the rest of its versions is of no use here.
        return {"versions": [version("v2.17", "/v2/")]}

    def _token(self, body: Any) -> Any:
        if body["auth"]["identity"]["password"]["user"]["password"] != PASSWORD:
            raise Fault(401, "Who are you?")

        def service(type_: str, path: str) -> dict[str, Any]:
            return {"id": type_, "name": type_, "type": type_, "endpoints": [
                {"id": f"{type_}-{each}", "interface": each, "region": "RegionOne",
                 "region_id": "RegionOne", "url": f"{self.world.url}{path}"}
                for each in ("public", "internal", "admin")]}

        return {"token": {
            "methods": ["password"], "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2099-01-01T00:00:00.000000Z", "audit_ids": ["x"],
            "user": {"id": "5a" * 16, "name": "service", "password_expires_at": None,
                     "domain": {"id": "default", "name": "Default"}},
            "project": {"id": SERVICE, "name": "service",
                        "domain": {"id": "default", "name": "Default"}},
            "roles": [{"id": "r", "name": "admin"}],
            "catalog": [service("compute", "/v2.1"), service("image", ""),
                        service("identity", "/v3")]}}

    def _control(self, what: str, body: Any) -> Any:
        world = self.world
        if what == "reset":
            world.reset(body)
        elif what == "set":
            world.set(body)
        elif what == "fail":
            world.faults = body
            self.chance.seed(body[0].get("seed", 0) if body else 0)
        elif what == "boot":
            return world.boot(body)
        elif what == "put_group":
            return world.put_group(body)
        elif what == "world":
            return world.dump()
        elif what == "requests":
            return world.requests
        elif what == "violations":
            return world.violations
        return None

    def _answer(self, status: int, body: Any) -> None:
        raw = body if isinstance(body, bytes) else (
            b"" if body is None else json.dumps(body).encode())
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.send_header(
            "Content-Type", "text/html" if isinstance(body, bytes) else "application/json")
        if self.path == "/v3/auth/tokens":
            self.send_header("X-Subject-Token", "a token")
        self.end_headers()
        self.wfile.write(raw)


def main() -> None:
    """Serve until nobody holds the other end of the input any more."""
    Handler.schemas = Schemas()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    url = f"http://127.0.0.1:{server.server_port}"
    Handler.world = World(url)
    threading.Thread(target=lambda: os._exit(len(sys.stdin.read())), daemon=True).start()
    print(url, flush=True)
    os.dup2(2, 1)
    server.serve_forever()


if __name__ == "__main__":
    main()
