"""The process of the stand-in for nova: routes, nova's schemas, and the HTTP server."""

from __future__ import annotations

import dataclasses
import http.server
import importlib
import json
import os
import random
import re
import sys
import threading
import time
import traceback
import urllib.parse
from collections.abc import Callable
from typing import Any

from tests.nova_standin import PASSWORD, SERVICE
from tests.nova_standin_state import Call, Fault, World


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
