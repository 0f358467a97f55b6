"""Looks for requests whose answers break what the OpenAPI document says.

    python -m tests.fuzz.contract --seconds 600 [--seed 1] [--operation get_usages] [--examples 20]

Schemathesis makes requests from the document that the service itself serves: half of them valid,
half of them not. No answer may be a 5xx, have another status or another body than the document
says, or accept what its schema refuses. Each operation begins in the same small world, and every
request that wrote something is undone, so what is printed (the name of the operation, and the
seed) repeats a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import hypothesis
import schemathesis
import schemathesis.checks
import webob
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks as openapi_checks

from placement_core import app, services
from placement_core.cells import schema
from placement_core.http.placement_api import microversions as mv
from placement_core.http.versions import HEADER, format_version
from tests import databases
from tests.http import base

#: Ids of the world, which valid requests name.
PROVIDER = "11111111-1111-4111-8111-111111111111"
CHILD = "22222222-2222-4222-8222-222222222222"
AGGREGATE = "33333333-3333-4333-8333-333333333333"
CONSUMER = "44444444-4444-4444-8444-444444444444"
INSTANCE = "66666666-6666-4666-8666-666666666666"
HOST = "77777777-7777-4777-8777-777777777777"

CHECKS = [
    schemathesis.checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.negative_data_rejection,
]

#: What a request may be refused with that is not valid.
REFUSALS = ["400", "403", "404", "406", "409", "413", "415"]

schemathesis.openapi.format("uuid", st.sampled_from([
    PROVIDER, CHILD, HOST, AGGREGATE, CONSUMER, INSTANCE]) | st.uuids(version=4).map(str))


class World:
    """A service on SQLite with a little of everything in it.

    :ivar variables: {path of a collection: {variable of the path: its value}}.
    """

    def __init__(self) -> None:
        self.connection = databases.settings("sqlite").connection
        self._conf = base.configuration(self.connection, {
            ("least_stranded", "shape"): ["VCPU:1"]})
        self.app = app.make_app(self._conf)
        self.variables: dict[str, Mapping[str, str]] = {}
        self._live = sqlite3.connect(self.connection.removeprefix("sqlite:///"))
        self._kept = sqlite3.connect(":memory:")
        self.headers = {"X-Auth-Token": "admin:demo", "X-Roles": "admin,service"}
        self._fill()
        self._live.backup(self._kept)

    def restore(self) -> None:
        """Undo everything that was written since the beginning."""
        self._kept.backup(self._live)

    def close(self) -> None:
        """Let the database go."""
        self._live.close()
        self._kept.close()

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
        schema.sync(parts.context(), parts.cells, parts.cells.cells(parts.context())[0])
        parts.database.dispose()
        self.send("POST", "/capacity/v1/instances", {"instance": {
            "uuid": INSTANCE, "project_id": "demo", "user_id": "jane"}})
        self.variables |= {
            "/capacity/v1/cells": {"cell": "cell1"},
            "/capacity/v1/instances": {"uuid": INSTANCE},
            "/capacity/v1/quota": {"project_id": "demo"},
        }

    def _fill_placement(self) -> None:
        inventory = {"VCPU": 8, "MEMORY_MB": 16384, "DISK_GB": 200}
        for uuid, name, parent in ((PROVIDER, "host", None), (CHILD, "child", PROVIDER),
                                   (HOST, "leased", None)):
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

    def _fill_leases(self) -> None:
        host = self.send("POST", "/v1/os-hosts", {"name": "leased", "gpu": "yes"})["host"]
        lease = self.send("POST", "/v1/leases", {
            "name": "first", "start_date": "2090-01-01 00:00", "end_date": "2090-01-02 00:00",
            "reservations": [{
                "resource_type": "virtual:instance", "vcpus": 1, "memory_mb": 1024,
                "disk_gb": 10, "amount": 1, "affinity": None}]})["lease"]
        self.variables |= {
            "/v1/os-hosts": {"id": host["id"]},
            "/v1/os-hosts/properties": {"name": "gpu"},
            "/v1/leases": {"id": lease["id"]},
            "/capacity/v1/reservations/events": {"id": lease["events"][0]["id"]},
        }

    def find_variables(self, path: str) -> Mapping[str, str]:
        """Return values for the variables of a path."""
        collections = [name for name in self.variables if path.startswith(f"{name}/{{")]
        return self.variables[max(collections, key=len)] if collections else {}


@contextlib.contextmanager
def make_world() -> Iterator[World]:
    """Make a world, and let it go."""
    world = World()
    try:
        yield world
    finally:
        world.close()


def list_operations(world: World, number: str) -> Iterator[Any]:
    """Yield the operations of the document that the service serves, as Schemathesis has them.

    :param number: the microversion, such as 1.39.
    """
    document = schemathesis.openapi.from_wsgi(
        f"/capacity/v1/openapi.json?microversion={number}", world.app)
    document.config.checks.negative_data_rejection.expected_statuses = REFUSALS
    for result in document.get_all_operations():
        yield result.ok()


def play(world: World, operation: Any, *, seed: int, examples: int) -> list[str]:
    """Send so many valid requests, and as many others; each finds the world as it was.

    :returns: what broke the contract, and how to repeat it.
    """
    headers = dict(world.headers)
    for parameter in operation.headers:
        if parameter.name == HEADER:
            headers[HEADER] = parameter.definition["schema"]["default"]
    known = dict(world.find_variables(operation.path)) or None
    valid = operation.as_strategy(
        GenerationMode.POSITIVE, path_parameters=known, headers=headers)
    if known is not None:
        valid |= operation.as_strategy(GenerationMode.POSITIVE, headers=headers)
    invalid = operation.as_strategy(
        GenerationMode.NEGATIVE, path_parameters=known, headers=headers)
    failures = []
    for strategy in (valid, invalid):
        try:
            _check(world, strategy, seed, examples)
        except hypothesis.errors.Unsatisfiable:
            # Nothing about a request without a body and parameters can be wrong.
            if strategy is valid:
                raise
        # Schemathesis raises groups of failures; whatever it is, it is a finding.
        except (Exception, BaseExceptionGroup) as error:
            failures.append(
                f"{error}\nRepeat it: python -m tests.fuzz.contract --seed {seed} "
                f"--examples {examples} --operation {get_name(operation)}")
    return failures


def get_name(operation: Any) -> str:
    """Return the operationId."""
    name: str = operation.definition.raw["operationId"]
    return name


def _check(world: World, strategy: Any, seed: int, examples: int) -> None:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples, deadline=None, database=None, print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(strategy)
    def check(case: Any) -> None:
        response = case.call()
        try:
            case.validate_response(response, checks=CHECKS)
        finally:
            if case.method != "GET":
                world.restore()

    check()


def main(arguments: list[str]) -> int:
    """Play for some time, with seed after seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.contract")
    parser.add_argument("--seconds", type=float, default=60, help="how long to look (60)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--examples", type=int, default=20, help="of each kind (20)")
    parser.add_argument("--operation", help="only the one with this operationId, once")
    parser.add_argument("--microversion", help="(each seed another one, the newest first)")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    until = time.monotonic() + options.seconds
    seed, played, bad = options.seed, 0, 0
    with make_world() as world:
        while time.monotonic() < until:
            number = options.microversion or format_version(
                mv.ALL[-1 - (seed - options.seed) % len(mv.ALL)].version)
            for operation in list_operations(world, number):
                if options.operation not in (None, get_name(operation)):
                    continue
                played += 1
                failures = play(world, operation, seed=seed, examples=options.examples)
                bad += len(failures)
                for failure in failures:
                    print(f"{failure} --microversion {number}\n", flush=True)
                if time.monotonic() > until:
                    break
            if options.operation is not None:
                break
            seed += 1
    print(f"{played} operations, {bad} failures")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
