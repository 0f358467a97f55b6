"""A small world, and values that make sense in it."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import sqlalchemy as sa
import webob

from placement_core import app, services
from placement_core.cells import schema as cell_schema
from placement_core.http.versions import HEADER
from placement_core.migrations import schema
from tests import databases
from tests.http import base

PROVIDER = "11111111-1111-4111-8111-111111111111"
CHILD = "22222222-2222-4222-8222-222222222222"
AGGREGATE = "33333333-3333-4333-8333-333333333333"
CONSUMER = "44444444-4444-4444-8444-444444444444"
INSTANCE = "66666666-6666-4666-8666-666666666666"
HOST = "77777777-7777-4777-8777-777777777777"
SPARE = "88888888-8888-4888-8888-888888888888"
UUIDS = [PROVIDER, CHILD, HOST, SPARE, AGGREGATE, CONSUMER, INSTANCE]

RESERVATION = {
    "resource_type": "virtual:instance", "vcpus": 1, "memory_mb": 1024, "disk_gb": 10,
    "amount": 1, "affinity": None}
_MEMBERS = {
    "name": "spare", "resource_type": "virtual:instance", "start_date": "2091-01-01 00:00",
    "end_date": "2091-01-02 00:00", "before_end_date": None, "reservations": [RESERVATION],
    "identity": {"token": {"id": "jane"}}, "resource_class": "DISK_GB", "cell": "cell1",
    "group_policy": "none", "within": "host", "pack_by": "host", "spread_by": "host",
    "order_by": "pack", "required": ["!CUSTOM_FUZZED"], "member_of": [AGGREGATE],
    "traits": ["CUSTOM_FUZZED"], "total": 16, "reserved": 1, "min_unit": 1, "max_unit": 16,
    "step_size": 1, "allocation_ratio": 2.0, "hold_seconds": 60}
_PARAMETERS = {
    "resources": "VCPU:1", "required": "CUSTOM_FUZZED", "member_of": AGGREGATE,
    "in_tree": PROVIDER, "root_required": "CUSTOM_FUZZED", "group_policy": "none",
    "name": "host", "resource_class": "VCPU", "resource_provider": PROVIDER,
    "consumer_type": "INSTANCE", "cell": "cell1", "host": "1", "start": "2090-01-01 00:00",
    "end": "2090-02-01 00:00", "from": "2090-01-01 00:00", "to": "2090-02-01 00:00",
    "reservations": json.dumps([RESERVATION])}
#: The parameters that take the suffix of a group.
_GROUPED = ("resources", "required", "member_of", "in_tree")

_LEASE = {
    "name": "second", "start_date": "2091-01-01 00:00", "end_date": "2091-01-02 00:00",
    "reservations": [RESERVATION]}
#: {path: (what the body is wrapped in, members that it needs, members that it must not have)}.
_WHOLE_BODIES: dict[str, tuple[str, Mapping[str, Any], Collection[str]]] = {
    "/v1/leases": ("", _LEASE, ("start", "end")),
    "/v1/leases/{id}": ("", {"name": "second"}, ("start", "end", "reservations")),
    "/v1/os-hosts": ("", {"name": "spare"}, ("id",)),
    "/capacity/v1/reservations/whatif": ("", _LEASE, ("start", "end")),
    "/capacity/v1/claims": (
        "claim", {"allocations": {PROVIDER: {"resources": {"VCPU": 1}}}},
        ("find", "dry_run", "mappings", "consumer_uuid")),
}

_UUID = re.compile("(-?[0-9a-f]){32}", re.IGNORECASE)
_UUID_KEY = re.compile("[0-9a-fA-F-]{36}")
_CLASS_KEY = re.compile("[A-Z0-9_]+")


#: What lets rows be deleted and inserted in any order, in this transaction.
_WITHOUT_KEYS = {
    "postgresql": ("SET LOCAL session_replication_role = replica",),
    # 0 is the id of a resource class, not a wish for the next number.
    "mysql": ("SET SESSION foreign_key_checks = 0",
              "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"),
}


class _SQLiteCopy:
    """The database as it was when this was made."""

    def __init__(self, connection: str) -> None:
        self._live = sqlite3.connect(connection.removeprefix("sqlite:///"))
        self._kept = sqlite3.connect(":memory:")
        self._live.backup(self._kept)

    def restore(self) -> None:
        self._kept.backup(self._live)

    def close(self) -> None:
        self._live.close()
        self._kept.close()


class _ServerCopy:
    """The rows of a server's database as they were when this was made."""

    def __init__(self, connection: str) -> None:
        self._engine = schema.make_engine(connection)
        metadata = sa.MetaData()
        metadata.reflect(self._engine)
        with self._engine.connect() as reading:
            self._rows = {
                table: [dict(row) for row in reading.execute(sa.select(*(
                    column for column in table.c if column.computed is None))).mappings()]
                for table in metadata.tables.values()}

    def restore(self) -> None:
        with self._engine.begin() as connection:
            for statement in _WITHOUT_KEYS[connection.dialect.name]:
                connection.exec_driver_sql(statement)
            for table, rows in self._rows.items():
                connection.execute(sa.delete(table))
                if rows:
                    connection.execute(sa.insert(table), rows)

    def close(self) -> None:
        self._engine.dispose()


class World:
    """A service on a database of a kind, with a little of everything in it.

    :ivar kind: of the database.
    :ivar variables: {path of a collection: {variable of the path: its value}}.
    :ivar members: {member of a body: a value that makes sense}.
    :ivar parameters: {parameter of a query: a value that makes sense}.
    """

    def __init__(self, kind: str = "sqlite") -> None:
        self.kind = kind
        self.connection = databases.settings(kind).connection
        self._conf = base.configuration(self.connection, {
            ("least_stranded", "shape"): ["VCPU:1"]})
        self.app = app.make_app(self._conf)
        self.variables: dict[str, Mapping[str, str]] = {}
        self.members: dict[str, Any] = dict(_MEMBERS)
        self.parameters = dict(_PARAMETERS)
        self.headers = {"X-Auth-Token": "admin:demo", "X-Roles": "admin,service"}
        self._fill()
        self._copy = (_SQLiteCopy if kind == "sqlite" else _ServerCopy)(self.connection)

    def restore(self) -> None:
        """Undo everything that was written since the beginning."""
        self._copy.restore()

    def close(self) -> None:
        """Let the database go."""
        self._copy.close()

    def send(self, method: str, path: str, body: Any = None, version: str = "1.39") -> Any:
        """Send a request that has to succeed; return its answer."""
        request = webob.Request.blank(path, method=method, headers={
            **self.headers, HEADER: f"placement {version}"})
        if body is not None:
            request.content_type = "application/json"
            request.json = body
        response = request.get_response(self.app)
        assert response.status_int < 300, f"{method} {path}: {response.text}"
        return response.json if response.body else None

    def _fill(self) -> None:
        self._fill_placement()
        self._fill_limits()
        self._fill_leases()
        self.send("POST", "/capacity/v1/cells", {"cell": {
            "name": "cell1", "database_connection": self.connection}})
        parts = services.build(self._conf)
        cell_schema.sync(parts.context(), parts.cells, parts.cells.cells(parts.context())[0])
        parts.database.dispose()
        self.send("POST", "/capacity/v1/instances", {"instance": {
            "uuid": INSTANCE, "project_id": "demo", "user_id": "jane"}})
        self.variables |= {
            "/capacity/v1/cells": {"cell": "cell1"},
            "/capacity/v1/instances": {"uuid": INSTANCE},
            "/capacity/v1/quota": {"project_id": "demo"},
        }
        for path, name, member in (
                (f"/resource_providers/{PROVIDER}", "generation", "resource_provider_generation"),
                (f"/allocations/{CONSUMER}", "consumer_generation", "consumer_generation")):
            self.members[member] = self.send("GET", path)[name]

    def _fill_placement(self) -> None:
        inventory = {"VCPU": 8, "MEMORY_MB": 16384, "DISK_GB": 200}
        for uuid, name, parent in ((PROVIDER, "host", None), (CHILD, "child", PROVIDER),
                                   (HOST, "leased", None), (SPARE, "spare", None)):
            self.send("POST", "/resource_providers", {
                "name": name, "uuid": uuid, "parent_provider_uuid": parent})
            self.send("PUT", f"/resource_providers/{uuid}/inventories", {
                "resource_provider_generation": 0,
                "inventories": {name: {"total": total} for name, total in inventory.items()}})
        self.send("PUT", "/traits/CUSTOM_FUZZED")
        self.send("PUT", "/resource_classes/CUSTOM_FUZZED")
        self.send("PUT", f"/resource_providers/{PROVIDER}/traits", {
            "traits": ["CUSTOM_FUZZED"], "resource_provider_generation": 1})
        self.send("PUT", f"/resource_providers/{PROVIDER}/aggregates", {
            "aggregates": [AGGREGATE], "resource_provider_generation": 2})
        self.send("POST", "/capacity/v1/claims", {"claim": {
            "allocations": {PROVIDER: {"resources": {"VCPU": 2}}}, "consumer_uuid": CONSUMER,
            "project_id": "demo", "user_id": "jane", "consumer_type": "INSTANCE",
            "hold_seconds": 3600}})
        self.variables |= {
            "/resource_providers": {"uuid": PROVIDER, "resource_class": "VCPU"},
            "/traits": {"name": "CUSTOM_FUZZED"},
            "/resource_classes": {"name": "CUSTOM_FUZZED"},
            "/allocations": {"consumer": CONSUMER},
            "/capacity/v1/claims": {"id": CONSUMER},
        }

    def _fill_limits(self) -> None:
        ids: dict[str, str] = {}

        def make(collection: str, name: str, /, **fields: Any) -> None:
            ids[collection] = self.send("POST", f"/v3/{collection}", {name: fields})[name]["id"]

        make("regions", "region", id="RegionOne")
        make("services", "service", type="compute", name="nova")
        make("endpoints", "endpoint", service_id=ids["services"], interface="public",
             url="http://localhost")
        make("domains", "domain", name="cloud")
        make("projects", "project", name="top", domain_id=ids["domains"])
        of = {"service_id": ids["services"], "region_id": "RegionOne"}
        for collection, prefix, fields in (
                ("registered_limits", "/v3", {"default_limit": 10}),
                ("limits", "/v3", {"resource_limit": 5, "project_id": ids["projects"]}),
                ("user_limits", "/capacity/v1/limits", {
                    "resource_limit": 5, "project_id": ids["projects"], "user_id": "jane"})):
            path = f"{prefix}/{collection.replace('user_limits', 'users')}"
            (item,) = self.send("POST", path, {
                collection: [{**of, "resource_name": "cores", **fields}]})[collection]
            self.variables[path] = {"id": item["id"]}
        self.variables |= {f"/v3/{name}": {"id": id_} for name, id_ in ids.items()}
        self.send("POST", "/v3/registered_limits", {
            "registered_limits": [{**of, "resource_name": "extra", "default_limit": 10}]})
        names = {**of, "project_id": ids["projects"], "domain_id": ids["domains"]}
        self.members |= {**names, "parent_id": ids["projects"], "region": "RegionOne",
                         "parent_region_id": None, "resource_name": "extra"}
        self.parameters |= names

    def _fill_leases(self) -> None:
        host = self.send("POST", "/v1/os-hosts", {"name": "leased", "gpu": "yes"})["host"]
        lease = self.send("POST", "/v1/leases", {
            "name": "first", "start_date": "2090-01-01 00:00", "end_date": "2090-01-02 00:00",
            "reservations": [RESERVATION]})["lease"]
        self.variables |= {
            "/v1/os-hosts": {"id": host["id"]},
            "/v1/os-hosts/properties": {"name": "gpu"},
            "/v1/leases": {"id": lease["id"]},
            "/capacity/v1/reservations/events": {"id": lease["events"][0]["id"]},
        }

    def plant(self, path: str, body: Any) -> Any:
        """Return a body that names what there is, wherever it names something of this kind."""
        body = self._plant(body)
        if path in _WHOLE_BODIES:
            wrapper, needed, unneeded = _WHOLE_BODIES[path]
            inner = body[wrapper] if wrapper else body
            for name in unneeded:
                inner.pop(name, None)
            inner |= needed
        return body

    def _plant(self, value: Any) -> Any:
        if isinstance(value, str):
            return PROVIDER if _UUID.fullmatch(value) else value
        if isinstance(value, list):
            return [self._plant(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {_plant_key(name, inner): self.members.get(name, self._plant(inner))
                for name, inner in value.items()}

    def plant_query(
        self, path: str, query: Mapping[str, Any] | None, known: Collection[str]
    ) -> dict[str, Any]:
        """Return a query that asks for what there is, by the parameters that are known."""
        planted = {name: self._get_parameter(name, value) for name, value in (query or {}).items()
                   if name != "same_subtree"}
        if "groups" in known and path.endswith(("candidates", "fits")):
            planted |= {"resources": "VCPU:1", "group_policy": "none"}
        return planted

    def _get_parameter(self, name: str, value: Any) -> Any:
        """Return the value of a parameter; those of groups have suffixes."""
        if isinstance(value, dict):
            return {inner: self._get_parameter(inner, each) for inner, each in value.items()}
        if isinstance(value, list):
            return [self._get_parameter(name, each) for each in value]
        for parameter in _GROUPED:
            if name.startswith(parameter):
                return self.parameters[parameter]
        return self.parameters.get(name, value)

    def find_variables(self, path: str) -> Mapping[str, str]:
        """Return values for the variables of a path."""
        collections = [name for name in self.variables if path.startswith(f"{name}/{{")]
        return self.variables[max(collections, key=len)] if collections else {}


@contextlib.contextmanager
def make_world(kind: str = "sqlite") -> Iterator[World]:
    """Make a world on a database of a kind, and let it go."""
    world = World(kind)
    try:
        yield world
    finally:
        world.close()


def _plant_key(name: str, value: Any) -> str:
    """Return a key that names a provider, a consumer or a resource class of the world."""
    if _UUID_KEY.fullmatch(name):
        return CONSUMER if isinstance(value, dict) and "allocations" in value else PROVIDER
    return "VCPU" if _CLASS_KEY.fullmatch(name) else name
