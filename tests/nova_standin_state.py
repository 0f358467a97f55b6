"""What the stand-in for nova has, and what the APIs of Nova and Glance do with it."""

from __future__ import annotations

import dataclasses
import datetime
import urllib.parse
import uuid
from collections.abc import Mapping
from typing import Any

from tests.nova_standin import SERVICE

#: How many flavors or servers one page has.
_PAGE = 3


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
