"""A world in which every request of the table is valid, about either of two projects."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import sqlalchemy as sa
import webob

from placement_core import app, db, services
from placement_core.catalog import domains, projects
from placement_core.cells import cell_tables
from placement_core.context import Context
from placement_core.http.versions import HEADER
from placement_core.reservations import records, tables
from placement_core.testing import factories
from tests import answers
from tests.access.identities import Cloud
from tests.functional.compute import cases
from tests.fuzz import worlds
from tests.http import base
from tests.http.leases_api.cases import NOBODY
from tests.outages.operations import Sample

#: A provider that nothing uses, a host in the freepool that no lease has, and a compute node.
_BARE = "eeeeeeee-eeee-4eee-8eee-eeeeeeeeeeee"
_POOLED = "ffffffff-ffff-4fff-8fff-ffffffffffff"
_NODE = "99999999-9999-4999-8999-999999999999"
#: Of the two projects: their consumers and instances.
_CONSUMERS = ("aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa", "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb")
_INSTANCES = ("cccccccc-cccc-4ccc-8ccc-cccccccccccc", "dddddddd-dddd-4ddd-8ddd-dddddddddddd")
_UNUSED = "CUSTOM_UNUSED"

#: Members of the bodies of single operations, where those of the sample would conflict with
#: what is there.
_MEMBERS: Mapping[str, Mapping[str, Any]] = {
    "POST /resource_providers/{uuid}/inventories": {"resource_class": "DISK_GB"},
    "PUT /allocations/{consumer}": {"consumer_generation": 1},
    "POST /v3/limits": {"resource_name": "extra"},
    "POST /capacity/v1/limits/users": {"resource_name": "extra"},
    "POST /v1/os-hosts": {"name": "spare"},
}
#: Operations whose rule is about the project that the query asks about.
_ABOUT_A_PROJECT = frozenset(
    f"{operation.method} {api.prefix}{operation.path}"
    for api in app.APIS for operation in api.operations if operation.target is not None)


@dataclasses.dataclass(frozen=True)
class Request:
    """A valid request.

    :ivar body: for JSON, if there is one.
    """

    method: str
    path: str
    body: Any


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came of a request.

    :ivar wrote: whether it wrote to the database.
    """

    status: int
    headers: Mapping[str, str]
    text: str
    wrote: bool


class AccessWorld(worlds.World):
    """A little of everything, in two projects that a Keystone has, too.

    It is filled by ``noauth2``; ``ask`` sends requests to a service on the same database that
    has its tokens validated by the Keystone.
    """

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        #: {project: the variables of the paths of what it has}
        self._objects: dict[str, Mapping[str, Mapping[str, str]]] = {}
        super().__init__()
        self._watching = sqlite3.connect(self.connection.removeprefix("sqlite:///"))
        conf = base.configuration(self.connection, {
            ("api", "auth_strategy"): "keystone", ("least_stranded", "shape"): ["VCPU:1"]})
        self._served = answers.CheckedAnswers(app.make_app(conf), app.APIS)

    def _fill(self) -> None:
        super()._fill()
        parts = services.build(self._conf)
        ctx = parts.context()
        for (project_id, domain_id), consumer, instance in zip(
                self._cloud.domains.items(), _CONSUMERS, _INSTANCES, strict=True):
            # Only a domain that is disabled can be deleted.
            domains.create(ctx, name=domain_id, id=domain_id, enabled=False)
            projects.create(ctx, name=project_id, domain_id=domain_id, id=project_id)
            self._objects[project_id] = self._fill_project(project_id, consumer, instance)
        self.variables |= self._fill_unused(ctx)
        (cell,) = parts.cells.cells(ctx)
        with db.write(parts.cells.of(ctx, cell)) as session:
            session.execute(sa.insert(cell_tables.compute_nodes), {
                **cases.NODE, "host": "node", "hypervisor_hostname": "node", "uuid": _NODE})
        with db.write(ctx) as session:
            # Only an event that failed can be tried again.
            session.execute(sa.update(tables.lease_events), {"status": records.E_ERROR})
        parts.database.dispose()

    def _fill_unused(self, ctx: Context) -> Mapping[str, Mapping[str, str]]:
        """Make what nothing else uses, so that it can be deleted."""
        factories.provider(ctx, "bare", uuid=_BARE, inventory={"VCPU": 8})
        factories.provider(ctx, "pooled", uuid=_POOLED, inventory={
            "VCPU": 8, "MEMORY_MB": 16384, "DISK_GB": 200})
        self.send("PUT", f"/traits/{_UNUSED}")
        host = self.send("POST", "/v1/os-hosts", {"name": "pooled"})["host"]
        (registered,) = self.send("POST", "/v3/registered_limits", {"registered_limits": [{
            "service_id": self._service_id, "resource_name": "extra", "default_limit": 10,
        }]})["registered_limits"]
        return {
            "/resource_providers": {"uuid": _BARE, "resource_class": "VCPU"},
            "/traits": {"name": _UNUSED},
            "/v1/os-hosts": {"id": host["id"]},
            "/v3/registered_limits": {"id": registered["id"]},
            "/capacity/v1/compute_nodes": {"uuid": _NODE},
        }

    def _fill_project(
        self, id_: str, consumer: str, instance: str
    ) -> Mapping[str, Mapping[str, str]]:
        """Make what a project has; return the variables of its paths."""
        owner = {"project_id": id_, "user_id": "jane"}
        self.headers["X-Auth-Token"] = f"admin:{id_}"
        limit = {"service_id": self._service_id, "region_id": "RegionOne",
                 "resource_name": "cores", "project_id": id_, "resource_limit": 5}
        (limit_of_project,) = self.send("POST", "/v3/limits", {"limits": [limit]})["limits"]
        (limit_of_user,) = self.send("POST", "/capacity/v1/limits/users", {
            "user_limits": [{**limit, "user_id": "jane"}]})["user_limits"]
        self.send("POST", "/capacity/v1/claims", {"claim": {
            "allocations": {worlds.PROVIDER: {"resources": {"VCPU": 1}}}, **owner,
            "consumer_uuid": consumer, "consumer_type": "INSTANCE", "hold_seconds": 3600}})
        self.send("POST", "/capacity/v1/instances", {"instance": {**owner, "uuid": instance}})
        lease = self.send("POST", "/v1/leases", {
            "name": f"lease-{id_}", "start_date": "2090-01-01 00:00",
            "end_date": "2090-01-02 00:00", "reservations": [worlds.RESERVATION]})["lease"]
        return {
            "/v3/limits": {"id": limit_of_project["id"]},
            "/capacity/v1/limits/users": {"id": limit_of_user["id"]},
            "/capacity/v1/claims": {"id": consumer},
            "/allocations": {"consumer": consumer},
            "/capacity/v1/instances": {"uuid": instance},
            "/capacity/v1/quota": {"project_id": id_},
            "/v3/projects": {"id": id_},
            "/v3/domains": {"id": self._cloud.domains[id_]},
            "/v1/leases": {"id": lease["id"]},
            "/capacity/v1/reservations/events": {"id": lease["events"][0]["id"]},
        }

    @property
    def _service_id(self) -> str:
        return self.parameters["service_id"]

    def find_limit_id(self, project_id: str) -> str:
        """Return the id of the limit that a project has."""
        return self._objects[project_id]["/v3/limits"]["id"]

    def make_request(self, sample: Sample, project_id: str) -> Request:
        """Return the request of an operation about one of the projects."""
        self.variables |= self._objects[project_id]
        route = sample.operation.partition(" ")[2]
        path, _, query = sample.path.partition("?")
        path = route.format(**self.find_variables(route))
        values = {name: given[-1] for name, given in urllib.parse.parse_qs(query).items()}
        named = {"project_id": project_id, "service_id": self._service_id}
        values |= {name: value for name, value in named.items() if name in values}
        if sample.operation in _ABOUT_A_PROJECT:
            values["project_id"] = project_id
        path += f"?{urllib.parse.urlencode(values)}" if values else ""
        return Request(sample.method, path, self._name(sample.body, {
            "project_id": project_id, "service_id": self._service_id,
            "domain_id": self._cloud.domains[project_id], "consumer_uuids": [
                self.variables["/capacity/v1/claims"]["id"]],
            "resource_provider_generation": 1, **_MEMBERS.get(sample.operation, {})}))

    def _name(self, body: Any, members: Mapping[str, Any]) -> Any:
        """Return the body of a sample that names what there is."""
        if isinstance(body, list):
            return [self._name(item, members) for item in body]
        if not isinstance(body, dict):
            return body
        return {
            _name_key(name, value): members.get(name, self._name(value, members))
            for name, value in body.items()}

    def ask(self, request: Request, token: str | None) -> Answer:
        """Send a request with a token, and undo what it wrote."""
        prepared = webob.Request.blank(
            request.path, method=request.method, headers={HEADER: "placement 1.39"})
        if token is not None:
            prepared.headers["X-Auth-Token"] = token
        if request.body is not None:
            prepared.content_type = "application/json"
            prepared.json = request.body
        before = self._read_data_version()
        response = prepared.get_response(self._served)
        wrote = self._read_data_version() != before
        if wrote:
            self.restore()
        return Answer(response.status_int, response.headers, response.text, wrote)

    def _read_data_version(self) -> int:
        """Return a number that changes when another connection writes to the database."""
        ((version,),) = self._watching.execute("PRAGMA data_version")
        return int(version)

    def close(self) -> None:
        """Let the database go."""
        self._watching.close()
        super().close()


def _name_key(name: str, value: Any) -> str:
    """Return the key of a body: that of a provider has to be there, a consumer is a new one."""
    return _BARE if name == NOBODY and "allocations" not in value else name


@contextlib.contextmanager
def make_world(cloud: Cloud) -> Iterator[AccessWorld]:
    """Make a world whose service trusts the Keystone of the cloud, and let it go."""
    with mock.patch.dict(os.environ, cloud.keystone.make_authtoken_environment()):
        world = AccessWorld(cloud)
        try:
            yield world
        finally:
            world.close()
